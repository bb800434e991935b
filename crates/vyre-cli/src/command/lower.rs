//! `vyre lower`: prints what a program is lowered to.

use crate::args::{FloatStrategy, Lower};
use crate::load;
use crate::report::{Failure, OK, Report};
use serde_json::json;
use vyre::cpu::CpuConfig;
use vyre::host::Error;
use vyre::lower::floats::Floats;
use vyre::lower::{ptx, spirv, wgsl};
use vyre::validate::ValidProgram;

/// A lowered program.
#[derive(Default)]
struct Lowered {
    text: String,
    /// The form for devices, where that is not the text.
    bytes: Option<Vec<u8>>,
    /// The contents of the shader's binding for long tables.
    tables: Vec<u32>,
}

impl From<String> for Lowered {
    fn from(text: String) -> Lowered {
        Lowered { text, ..Lowered::default() }
    }
}

type Target = (&'static str, fn(&ValidProgram, &Lower) -> Result<Lowered, Failure>);

const TARGETS: [Target; 4] = [("asm", asm), ("ptx", ptx), ("spirv", spirv), ("wgsl", wgsl)];

pub(crate) fn run(args: &Lower, report: &Report) -> Result<u8, Failure> {
    let Some((target, lower)) = TARGETS.iter().find(|(name, _)| *name == args.target) else {
        return Err(Failure::usage(
            format!("there is no target `{}`", args.target.escape_debug()),
            format!("choose among: {}", TARGETS.map(|(name, _)| name).join(", ")),
        ));
    };
    options_fit(args, target)?;
    let loaded = load::program(&args.file)?;
    let program = loaded.valid()?;
    let Lowered { text, bytes, tables } = lower(&program, args)?;
    if let Some(path) = &args.output {
        let bytes = bytes.filter(|_| path.extension().is_some_and(|extension| extension == "spv"));
        std::fs::write(path, bytes.as_deref().unwrap_or(text.as_bytes())).map_err(|error| {
            Failure::io(format!("cannot write {}: {error}", path.display()), "name a place you may write to")
        })?;
    }
    report.json(|| {
        let digest = program.program().digest().to_string();
        let mut shown =
            json!({ "target": target, "program": program.program().name(), "digest": digest, "text": text });
        if !tables.is_empty() {
            shown["tables"] = json!(tables);
        }
        shown
    });
    if args.output.is_none() {
        report.text(&text);
    }
    Ok(OK)
}

/// Refuses options that have no effect on the target.
fn options_fit(args: &Lower, target: &str) -> Result<(), Failure> {
    let (ptx, shaders): (&[&str], &[&str]) = (&["ptx"], &["spirv", "wgsl"]);
    let options = [
        ("--sm", args.sm.is_some(), ptx, "PTX"),
        ("--poll", args.poll, ptx, "PTX"),
        ("--floats", args.floats.is_some(), shaders, "SPIR-V and WGSL"),
    ];
    for (option, given, targets, languages) in options {
        if given && !targets.contains(&target) {
            let message = format!("`{option}` is for {languages}, and the target is `{target}`");
            let names = targets.join("` or `");
            return Err(Failure::usage(message, format!("leave it out, or choose the target `{names}`")));
        }
    }
    Ok(())
}

fn asm(program: &ValidProgram, _: &Lower) -> Result<Lowered, Failure> {
    let listing = || vyre::cpu::listing(&CpuConfig::from_env()?, program.program());
    let text = listing().map_err(|error| Failure::from(Error::from(error)))?;
    Ok(text.into())
}

fn ptx(program: &ValidProgram, args: &Lower) -> Result<Lowered, Failure> {
    let sm = args.sm.unwrap_or(ptx::Options::default().sm);
    let options = ptx::Options { sm, poll: args.poll };
    Ok(ptx::lower(program, &options).map_err(|error| Failure::usage(error.message, error.fix))?.source.into())
}

/// How float operations are emitted, where an option says so.
fn floats(args: &Lower) -> Option<Floats> {
    args.floats.map(|strategy| match strategy {
        FloatStrategy::Native => Floats::NATIVE,
        FloatStrategy::Integers => Floats::SOFT,
    })
}

fn spirv(program: &ValidProgram, args: &Lower) -> Result<Lowered, Failure> {
    let floats = floats(args).unwrap_or_default();
    let options = spirv::Options { floats, ..spirv::Options::default() };
    let shader =
        spirv::lower(program, &options).map_err(|error| Failure::usage(error.message(), error.fix()))?;
    let bytes = shader.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(Lowered { text: shader.text(), bytes: Some(bytes), tables: shader.tables })
}

fn wgsl(program: &ValidProgram, args: &Lower) -> Result<Lowered, Failure> {
    let options = wgsl::Options { floats: floats(args).unwrap_or(Floats::SOFT), ..wgsl::Options::DRIVER };
    let shader =
        wgsl::lower(program, &options).map_err(|error| Failure::usage(error.message(), error.fix()))?;
    Ok(Lowered { text: shader.source, bytes: None, tables: shader.tables })
}
