//! `vyre convert`: text to wire form and back.

use crate::args::Convert;
use crate::load;
use crate::report::{Failure, OK, Report};
use serde_json::json;
use std::ffi::OsStr;
use vyre::text;

pub(crate) fn run(args: &Convert, report: &Report) -> Result<u8, Failure> {
    let loaded = load::program(&args.from)?;
    let to_stdout = load::is_stdin(&args.to);
    let to_wire = match args.to.extension().and_then(OsStr::to_str) {
        Some("vyreb") => true,
        Some("vyre") => false,
        _ if to_stdout => !loaded.is_wire,
        _ => {
            return Err(Failure::usage(
                format!("the name {} does not say which form is wanted", args.to.display()),
                "end it with `.vyre` for text or `.vyreb` for wire form",
            ));
        }
    };
    let bytes = if to_wire { loaded.program.to_bytes() } else { text::print(&loaded.program).into_bytes() };
    let form = if to_wire { "wire" } else { "text" };
    let digest = loaded.program.digest().to_string();
    if to_stdout {
        if report.is_json() {
            return Err(Failure::usage(
                "`-` and `--json` both want standard output",
                "name a file for the program",
            ));
        }
        report.raw(&bytes);
        return Ok(OK);
    }
    std::fs::write(&args.to, &bytes).map_err(|error| {
        Failure::io(format!("cannot write {}: {error}", args.to.display()), "name a place you may write to")
    })?;
    let to = args.to.display().to_string();
    report.json(
        || json!({ "in": loaded.name, "out": to, "form": form, "bytes": bytes.len(), "digest": digest }),
    );
    report.text(&format!("{to}: {} bytes of {form}, digest {}\n", bytes.len(), &digest[..16]));
    Ok(OK)
}
