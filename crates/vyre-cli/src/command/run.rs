//! `vyre run`: runs one launch, and prints its outputs or writes them to files.

use crate::args::{LaunchArgs, Run};
use crate::command::compare::{self, Row};
use crate::load::{self, Loaded};
use crate::plan::{Plan, pair};
use crate::progress::Progress;
use crate::report::{BAD, BOLD, FINDINGS, Failure, GOOD, OK, RUN, Report, highlight, paint};
use crate::spans;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;
use vyre::driver::ErrorCode;
use vyre::host::{AUTO, Error, ErrorKind, Kernel, Launch, Output, Timing};
use vyre::ir::{Buffer, Literal};
use vyre::reference::{Finding, FindingKind, Party, Trace, TraceEvent};
use vyre::show::{Source, observation, trap};
use vyre::spec::Expect;
use vyre::text;
use vyre_terminal::table::{Align, columns, grouped};

/// How much memory and time the reference may take beside another backend.
const BESIDE_BYTES_MAX: usize = 64 << 20;
const BESIDE_TIME_MAX: Duration = Duration::from_millis(250);
/// The backend that is the measure of all others.
const REFERENCE: &str = "reference";
/// How many of an output's first values JSON has, where nothing else is asked for.
const VALUES_JSON_MAX: usize = 16;
/// How many lines of a trace JSON has.
const TRACE_JSON_MAX: usize = 100_000;
/// How many characters of an output's first values a person sees, where nothing else is asked for.
const VALUES_CHARS_MAX: usize = 48;
/// The number of values on a row where all are printed.
const VALUES_ROW: usize = 8;

pub(crate) fn run(args: &Run, report: &Report) -> Result<u8, Failure> {
    let recording = args.trace.as_deref().map(spans::record);
    let result = run_and_show(args, report);
    // The trace of a run that failed is worth as much.
    recording.map_or(Ok(()), spans::Recording::finish)?;
    result
}

fn run_and_show(args: &Run, report: &Report) -> Result<u8, Failure> {
    let loaded = load::program(&args.launch.file)?;
    let kernel = Kernel::from_valid(loaded.valid()?);
    let plan = Plan::new(&args.launch, &loaded)?;
    let writes = out_files(args, &kernel)?;
    let tracing = Tracing::new(report, &loaded);
    let launch = plan.launch(&args.launch, &kernel)?;
    let beside = beside(args, &launch);
    let output = execute(args, launch, beside.clone(), &loaded, &tracing)?;
    let beside = beside.filter(|_| output.backend() != REFERENCE);
    let beside = beside.map(|launch| Row { id: REFERENCE.to_owned(), result: launch.run() });
    for (name, path) in &writes {
        let bytes = output.bytes(name)?;
        std::fs::write(path, bytes).map_err(|error| {
            Failure::io(format!("cannot write {}: {error}", path.display()), "name a place you may write to")
        })?;
    }
    let mut differences = plan.differences(&kernel, &output)?;
    let mut rows = vec![Row { id: output.backend().to_owned(), result: Ok(output) }];
    rows.extend(beside);
    // That the reference takes longer than we give it says nothing of the outputs.
    let late = |row: &Row| matches!(&row.result, Err(error) if error.kind == ErrorKind::Timeout);
    if !rows.iter().any(late) {
        differences.extend(compare::differences(&rows));
    }
    let compared = rows.iter().filter(|row| row.result.is_ok()).count() == 2;
    let Some(Row { result: Ok(output), .. }) = rows.first() else { unreachable!("it has run") };
    let races = output.findings().iter().any(|finding| finding.kind == FindingKind::Race);
    report.json(|| {
        let mut value = as_json(args, &loaded, &kernel, output);
        value["reference"] = rows.get(1).map_or(Value::Null, reference_json);
        value["differences"] = json!(differences);
        if args.trace_lane.is_some() {
            value["trace_lines"] = json!(tracing.lines.get());
            value["trace"] = json!(*tracing.kept.borrow());
        }
        value
    });
    if !report.is_json() {
        if let Some([x, y, z]) = args.trace_lane.filter(|_| tracing.lines.get() == 0) {
            report.text(&format!("  lane ({x}, {y}, {z}) runs no line\n\n"));
        }
        report.text(&as_text(args, &loaded, &kernel, &rows));
        report.text(&verdict(&plan, compared, &differences));
    }
    Ok(if races || !differences.is_empty() { FINDINGS } else { OK })
}

/// The launch for the reference, where the choice of a backend is left to us and that takes no time to speak of.
fn beside<'k>(args: &Run, launch: &Launch<'k>) -> Option<Launch<'k>> {
    let is_short = args.backend == AUTO && launch.byte_len() <= BESIDE_BYTES_MAX;
    is_short.then(|| launch.clone().backend(REFERENCE).timeout(BESIDE_TIME_MAX))
}

fn execute<'k>(
    args: &Run,
    launch: Launch<'k>,
    beside: Option<Launch<'k>>,
    loaded: &Loaded,
    tracing: &'k Tracing<'_>,
) -> Result<Output, Failure> {
    let sink = |event: &TraceEvent| tracing.line(event);
    let mut launch = launch.backend(&args.backend).schedule(args.schedule).check(args.check_races);
    if let Some(lane) = args.trace_lane {
        launch = launch.trace(Trace { lane, sink: &sink });
    }
    let progress = Progress::start();
    let result = launch.run();
    drop(progress);
    tracing.finish();
    let error = match result {
        Ok(output) => return Ok(output),
        Err(error) => error,
    };
    // The interpreter knows which lane trapped.
    let known = match error.kind {
        ErrorKind::Trap { lane: None, .. } => beside.and_then(|launch| launch.run().err()),
        _ => None,
    };
    let known = known.filter(|known| matches!(known.kind, ErrorKind::Trap { .. }));
    Err(run_failure(&known.unwrap_or(error), &args.launch, loaded))
}

/// The files that outputs go to, by the outputs' names.
fn out_files(args: &Run, kernel: &Kernel) -> Result<Vec<(String, PathBuf)>, Failure> {
    let parts = kernel.program().parts();
    let outputs = || parts.buffers.iter().filter(|buffer| buffer.is_output());
    let mut files = Vec::new();
    for out in &args.outputs {
        let (name, path) = pair("--out", "FILE", out)?;
        if !outputs().any(|buffer| *buffer.name == *name) {
            let names: Vec<String> = outputs().map(|buffer| format!("@{}", buffer.name)).collect();
            return Err(Failure::usage(
                format!("`@{}` has no output `{}`", parts.name, name.escape_debug()),
                format!("name one of its outputs: {}", names.join(", ")),
            ));
        }
        files.push((name, PathBuf::from(path)));
    }
    Ok(files)
}

/// A trap points at its line, and a timeout at its option; what else can go wrong speaks for itself.
pub(crate) fn run_failure(error: &Error, args: &LaunchArgs, loaded: &Loaded) -> Failure {
    match (trap(error), &error.kind, args.timeout) {
        (Some(finding), ..) => {
            Failure::Trap { file: loaded.name.clone(), found: Box::new(loaded.found(&finding)) }
        }
        (None, ErrorKind::Timeout, Some(timeout)) => Failure::Message {
            exit: RUN,
            message: format!("the run took longer than {}", time(timeout)),
            fix: "give it a longer `--timeout`, launch fewer lanes, or shorten its loops".into(),
        },
        (None, ..) => Failure::from(error.clone()),
    }
}

/// The trace of a lane: printed line by line, or kept for JSON.
struct Tracing<'l> {
    json: bool,
    loaded: &'l Loaded,
    out: RefCell<BufWriter<anstream::AutoStream<std::io::Stdout>>>,
    kept: RefCell<Vec<String>>,
    lines: Cell<u64>,
}

impl Tracing<'_> {
    fn new<'l>(report: &Report, loaded: &'l Loaded) -> Tracing<'l> {
        let out = RefCell::new(BufWriter::new(anstream::stdout()));
        Tracing { json: report.is_json(), loaded, out, kept: RefCell::default(), lines: Cell::new(0) }
    }

    fn line(&self, event: &TraceEvent) {
        self.lines.set(self.lines.get() + 1);
        if !self.json {
            if self.lines.get() == 1 {
                let _ = writeln!(self.out.borrow_mut(), "{}", TraceEvent::HEADER);
            }
            // A closed pipe has no reader.
            let _ = writeln!(self.out.borrow_mut(), "{}", event.row(&self.loaded.map));
        } else if self.kept.borrow().len() < TRACE_JSON_MAX {
            self.kept.borrow_mut().push(event.row(&self.loaded.map));
        }
    }

    fn finish(&self) {
        let mut out = self.out.borrow_mut();
        if !self.json && self.lines.get() > 0 {
            let _ = writeln!(out);
        }
        let _ = out.flush();
    }
}

pub(crate) fn elements<'b>(buffer: &Buffer, bytes: &'b [u8]) -> impl Iterator<Item = String> + 'b {
    let ty = buffer.ty;
    bytes.chunks_exact(ty.bytes()).map(move |element| {
        let mut word = [0; 8];
        word[..element.len()].copy_from_slice(element);
        text::print_literal(Literal::from_bits(ty, u64::from_le_bytes(word)))
    })
}

fn lanes(kernel: &Kernel, output: &Output) -> u64 {
    let groups: u64 = output.grid().iter().map(|count| u64::from(*count)).product();
    groups * kernel.program().parts().workgroup_lanes()
}

fn as_json(args: &Run, loaded: &Loaded, kernel: &Kernel, output: &Output) -> Value {
    let program = kernel.program().program();
    let values_max = args.show.unwrap_or(VALUES_JSON_MAX);
    let outputs: Vec<Value> = output
        .outputs()
        .map(|(buffer, bytes)| {
            json!({
                "name": &*buffer.name,
                "type": buffer.ty.name(),
                "count": bytes.len() / buffer.ty.bytes(),
                "blake3": blake3::hash(bytes).to_hex().as_str(),
                "values": elements(buffer, bytes).take(values_max).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "program": program.name(),
        "digest": program.digest().to_string(),
        "backend": output.backend(),
        "passed_over": passed_over(output),
        "grid": output.grid(),
        "lanes": lanes(kernel, output),
        "lane_instructions": output.lane_instructions(),
        "timing": timing_json(output.timing()),
        "outputs": outputs,
        "findings": findings(loaded, output),
    })
}

fn as_text(args: &Run, loaded: &Loaded, kernel: &Kernel, rows: &[Row]) -> String {
    let Some(Row { result: Ok(output), .. }) = rows.first() else { unreachable!("it has run") };
    let parts = kernel.program().parts();
    let by = |counts: [u32; 3]| counts.map(|count| count.to_string()).join(" x ");
    let timing = output.timing();
    let mut about = vec![
        ("kernel", format!("@{} from {}", parts.name, loaded.name)),
        ("grid", format!("{} workgroups of {} lanes", by(output.grid()), by(parts.workgroup))),
        ("lanes", grouped(lanes(kernel, output))),
    ];
    if let Some(count) = output.lane_instructions() {
        about.push(("instructions", grouped(count)));
    }
    if args.timing {
        let shown = |part: Option<Duration>| part.map_or("not known to this backend".to_owned(), time);
        about.push(("enqueue", shown(timing.enqueue)));
        about.push(("device", shown(timing.device)));
        about.push(("wait", shown(timing.wait)));
    }
    // That a device is not there is no news; that one is there and was not taken is.
    for passed in output.passed_over().iter().filter(|passed| passed.reason.code() != ErrorCode::Unavailable)
    {
        about.push(("passed over", format!("{}: {}", passed.id, passed.reason)));
    }
    let about: Vec<Vec<String>> =
        about.into_iter().map(|(key, value)| vec![format!("  {key}"), value]).collect();
    let mut text = columns(&[Align::Left; 2], &about);
    let ran: Vec<&Row> = rows.iter().filter(|row| row.result.is_ok()).collect();
    text.push_str(&format!("\n{}", compare::table(kernel, ran)));
    let mut rows = vec![["  output", "type", "elements", "first values"].map(String::from).to_vec()];
    for (buffer, bytes) in output.outputs() {
        rows.push(vec![
            format!("  @{}", buffer.name),
            buffer.ty.to_string(),
            grouped((bytes.len() / buffer.ty.bytes()) as u64),
            first_values(buffer, bytes),
        ]);
    }
    if rows.len() > 1 {
        let align = [Align::Left, Align::Left, Align::Right, Align::Left];
        let table = columns(&align, &rows);
        let (head, rest) = table.split_once('\n').unwrap_or((&table, ""));
        text.push_str(&format!("\n{}\n{rest}", paint(BOLD, head)));
    } else {
        text.push_str("\n  The program declares no output.\n");
    }
    if let Some(count) = args.show {
        for (buffer, bytes) in output.outputs() {
            text.push_str(&values(buffer, bytes, count));
        }
    }
    let source = Source { name: &loaded.name, text: &loaded.source, map: &loaded.map };
    for finding in output.findings() {
        text.push_str(&highlight(&format!("\n{}", source.finding(finding))));
    }
    if args.check_races && output.findings().is_empty() {
        text.push_str(&format!("\n  {}\n", paint(GOOD, "no races, no access out of bounds")));
    }
    text
}

fn findings(loaded: &Loaded, output: &Output) -> Vec<Value> {
    let access = |party: &Party| {
        let line = loaded.map.span(party.location.line).map(|span| span.line);
        json!({ "access": party.access.name(), "lane": party.lane, "line": line })
    };
    let finding = |finding: &Finding| {
        let mut value = loaded.found(&observation(finding)).json();
        let parties = std::iter::once(&finding.first).chain(&finding.second);
        value["accesses"] = parties.map(access).collect();
        value["count"] = json!(finding.count);
        value
    };
    output.findings().iter().map(finding).collect()
}

fn first_values(buffer: &Buffer, bytes: &[u8]) -> String {
    let count = bytes.len() / buffer.ty.bytes();
    let mut shown = String::new();
    for (at, value) in elements(buffer, bytes).enumerate() {
        if at > 0 && shown.len() + value.len() > VALUES_CHARS_MAX {
            return format!("{shown} ...");
        }
        if at > 0 {
            shown.push(' ');
        }
        shown.push_str(&value);
    }
    if count == 0 { "-".into() } else { shown }
}

/// The first `count` values in rows, each with the index of its first.
fn values(buffer: &Buffer, bytes: &[u8], count: usize) -> String {
    let shown: Vec<String> = elements(buffer, bytes).take(count).collect();
    let row = |(at, chunk): (usize, &[String])| {
        std::iter::once(format!("  [{}]", at * VALUES_ROW)).chain(chunk.iter().cloned()).collect()
    };
    let rows: Vec<Vec<String>> = shown.chunks(VALUES_ROW).enumerate().map(row).collect();
    let mut text = format!("\n  @{}\n{}", buffer.name, columns(&[Align::Right; VALUES_ROW + 1], &rows));
    let left = bytes.len() / buffer.ty.bytes() - shown.len();
    if left > 0 {
        text.push_str(&format!("  and {} more\n", grouped(left as u64)));
    }
    text
}

pub(crate) fn time(wall: Duration) -> String {
    match wall.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        seconds if seconds >= 1e-5 => format!("{:.0} us", seconds * 1e6),
        seconds => format!("{:.2} us", seconds * 1e6),
    }
}

pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn timing_json(timing: Timing) -> Value {
    json!({
        "wall_ns": ns(timing.wall),
        "compile_ns": timing.compile.map(ns),
        "enqueue_ns": timing.enqueue.map(ns),
        "device_ns": timing.device.map(ns),
        "wait_ns": timing.wait.map(ns),
    })
}

fn passed_over(output: &Output) -> Vec<Value> {
    let passed = output.passed_over().iter();
    passed.map(|passed| json!({ "backend": passed.id, "reason": passed.reason.to_string() })).collect()
}

/// The reference's run beside another backend's.
fn reference_json(row: &Row) -> Value {
    match &row.result {
        Ok(output) => json!({ "ran": true, "wall_ns": ns(output.timing().wall) }),
        Err(error) => json!({ "ran": false, "reason": error.message }),
    }
}

/// Whether the outputs are what the file says, and what the reference gives.
fn verdict(plan: &Plan, compared: bool, differences: &[String]) -> String {
    if !differences.is_empty() {
        let wrong = differences.join("\n  ");
        let fix = match wrong.contains(" on `reference`") {
            true => "look for races with `--check-races`; if there are none, report the backend",
            false => "correct the program, or the file's `//@ run` line",
        };
        return format!("\n  {} {wrong}\n  Fix: {fix}\n", paint(BAD, "wrong"));
    }
    let expected = matches!(plan.expect, Some(Expect::Buffers(_)));
    let known = [(compared, "the reference's"), (expected, "those that the file expects")];
    let known: Vec<&str> = known.into_iter().filter(|(so, _)| *so).map(|(_, what)| what).collect();
    match known.is_empty() {
        true => String::new(),
        false => format!("\n  {} the outputs are {}\n", paint(GOOD, "ok"), known.join(" and ")),
    }
}
