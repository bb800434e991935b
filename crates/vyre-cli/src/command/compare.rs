//! `vyre compare`: one kernel on every backend of this machine, digests side by side.

use crate::args::Compare;
use crate::command::run::{elements, ns, run_failure, time};
use crate::load;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::{BAD, BOLD, FINDINGS, Failure, GOOD, OK, Report, paint};
use serde_json::{Value, json};
use vyre::driver::registry;
use vyre::host::{Error, ErrorKind, Kernel, Output};
use vyre::ir::Buffer;
use vyre_terminal::table::{Align, columns};

/// How one backend did.
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) result: Result<Output, Error>,
}

impl Row {
    /// Why the kernel has no result on a backend that did run it.
    fn failure(&self) -> Option<&Error> {
        self.result.as_ref().err().filter(|e| matches!(e.kind, ErrorKind::Trap { .. } | ErrorKind::Timeout))
    }
}

pub(crate) fn run(args: &Compare, report: &Report) -> Result<u8, Failure> {
    let loaded = load::program(&args.launch.file)?;
    let kernel = Kernel::from_valid(loaded.valid()?);
    let plan = Plan::new(&args.launch, &loaded)?;
    // A mistake in the launch is the same for all, and reported once.
    let launch = plan.launch(&args.launch, &kernel)?;
    if let Some(mistake) = launch.mistake() {
        return Err(run_failure(mistake, &args.launch, &loaded));
    }
    let mut rows = Vec::new();
    let progress = Progress::start();
    for id in backends(args)? {
        let result = launch.clone().backend(&id).run();
        rows.push(Row { id, result });
    }
    drop(progress);
    let differences = differences(&rows);
    let ran = rows.iter().filter(|row| row.result.is_ok()).count();
    report.json(|| as_json(&loaded.name, &rows, &differences));
    if !report.is_json() {
        let name = &kernel.program().parts().name;
        report.text(&format!("  @{name} from {}\n\n{}", loaded.name, table(&kernel, &rows)));
        report.text(&verdict(ran, &differences));
    }
    if ran == 0 {
        let failed = rows.iter().find_map(Row::failure);
        if let Some(error) = failed.or_else(|| rows.first()?.result.as_ref().err()) {
            return Err(run_failure(error, &args.launch, &loaded));
        }
    }
    // A backend that was asked for by name and could not run is no mere SKIP.
    let named = rows.iter().filter(|row| args.backends.is_some() && row.failure().is_none());
    let errors = named.filter_map(|row| row.result.as_ref().err());
    let worst = errors.map(|error| Failure::from(error.clone()).exit()).max().unwrap_or(OK);
    Ok(worst.max(if differences.is_empty() { OK } else { FINDINGS }))
}

/// The backends to compare: those named, or all that are linked.
fn backends(args: &Compare) -> Result<Vec<String>, Failure> {
    let known: Vec<&str> = registry::registrations().iter().map(|registration| registration.id).collect();
    match &args.backends {
        None => Ok(known.into_iter().map(str::to_owned).collect()),
        Some(named) => once_each(named, &known),
    }
}

/// Backends that are named: linked ones, each once.
pub(crate) fn once_each(named: &[String], known: &[&str]) -> Result<Vec<String>, Failure> {
    for (at, id) in named.iter().enumerate() {
        if !known.contains(&id.as_str()) {
            return Err(Failure::usage(
                format!("there is no backend `{}`", id.escape_debug()),
                format!("choose among: {}", known.join(", ")),
            ));
        }
        if named[..at].contains(id) {
            return Err(Failure::usage(
                format!("backend `{id}` is named twice"),
                format!("name each backend once, of: {}", known.join(", ")),
            ));
        }
    }
    Ok(named.to_vec())
}

/// Where outputs differ from those of the first backend that ran, and who has none.
pub(crate) fn differences(rows: &[Row]) -> Vec<String> {
    let mut ran = rows.iter().filter_map(|row| Some((&row.id, row.result.as_ref().ok()?)));
    let Some((first, expected)) = ran.next() else { return Vec::new() };
    let without = |row: &Row| Some(format!("`{}` has no outputs: {}", row.id, row.failure()?.message));
    let mut found: Vec<String> = rows.iter().filter_map(without).collect();
    for (id, output) in ran {
        for ((buffer, a), (_, b)) in expected.outputs().zip(output.outputs()) {
            if a != b {
                found.push(difference(buffer, (first, a), (id, b)));
            }
        }
    }
    found
}

fn difference(buffer: &Buffer, (first, a): (&str, &[u8]), (second, b): (&str, &[u8])) -> String {
    let pairs = elements(buffer, a).zip(elements(buffer, b));
    let size = buffer.ty.bytes();
    let bits = |bytes: &[u8], at: usize| {
        bytes[at * size..(at + 1) * size].iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let mut differing = pairs.enumerate().filter(|(at, _)| bits(a, *at) != bits(b, *at));
    match differing.next() {
        None => {
            format!("`@{}` has {} bytes on `{first}` and {} on `{second}`", buffer.name, a.len(), b.len())
        }
        Some((at, (x, y))) => format!(
            "`@{}` differs first at element {at}: {x} (0x{}) on `{first}`, {y} (0x{}) on `{second}`; {} elements differ",
            buffer.name,
            bits(a, at),
            bits(b, at),
            differing.count() + 1
        ),
    }
}

fn digests(output: &Output) -> Vec<(String, String)> {
    let digest = |(buffer, bytes): (&Buffer, &[u8])| {
        (buffer.name.to_string(), blake3::hash(bytes).to_hex().to_string())
    };
    output.outputs().map(digest).collect()
}

fn as_json(file: &str, rows: &[Row], differences: &[String]) -> Value {
    let backends: Vec<Value> = rows
        .iter()
        .map(|row| match &row.result {
            Ok(output) => json!({
                "backend": row.id,
                "ran": true,
                "wall_ns": ns(output.timing().wall),
                "compile_ns": output.timing().compile.map(ns),
                "outputs": digests(output).into_iter()
                    .map(|(name, blake3)| json!({ "name": name, "blake3": blake3 })).collect::<Vec<_>>(),
            }),
            Err(error) => {
                json!({ "backend": row.id, "ran": false, "reason": error.message, "fix": error.fix })
            }
        })
        .collect();
    json!({ "file": file, "backends": backends, "equal": differences.is_empty(), "differences": differences })
}

/// The digest of each output and the times, a row for each backend.
pub(crate) fn table<'r>(kernel: &Kernel, rows: impl IntoIterator<Item = &'r Row>) -> String {
    let parts = kernel.program().parts();
    let mut head = vec!["  backend".to_owned()];
    head.extend(
        parts.buffers.iter().filter(|buffer| buffer.is_output()).map(|buffer| format!("@{}", buffer.name)),
    );
    head.extend(["compile", "time"].map(String::from));
    let columns_count = head.len();
    let mut table = vec![head];
    let mut skipped = String::new();
    for row in rows {
        match &row.result {
            Ok(output) => {
                let mut cells = vec![format!("  {}", row.id)];
                cells.extend(digests(output).into_iter().map(|(_, digest)| digest[..16].to_owned()));
                let timing = output.timing();
                cells.push(timing.compile.map_or_else(|| "-".into(), time));
                cells.push(time(timing.wall));
                table.push(cells);
            }
            Err(error) => {
                let word = if row.failure().is_some() { "FAIL" } else { "SKIP" };
                skipped.push_str(&format!("  {word} {}: {}\n    Fix: {}\n", row.id, error.message, error.fix))
            }
        }
    }
    let shown = columns(&vec![Align::Left; columns_count], &table);
    let (first, rest) = shown.split_once('\n').unwrap_or((&shown, ""));
    format!("{}\n{rest}{skipped}", paint(BOLD, first))
}

fn verdict(ran: usize, differences: &[String]) -> String {
    match (ran, differences.is_empty()) {
        (0, _) => String::new(),
        (1, true) => "\n  one backend ran; there is nothing to compare it with\n".into(),
        (_, true) => format!("\n  {} the same bytes on {ran} backends\n", paint(GOOD, "ok")),
        (_, false) => format!("\n  {} {}\n", paint(BAD, "different"), differences.join("\n  ")),
    }
}
