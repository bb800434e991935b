//! `vyre run`: one launch, shown to a person or written to files.

use crate::args::Run;
use crate::load::{self, Loaded};
use crate::report::{BAD, BOLD, FINDINGS, Failure, Found, GOOD, OK, RUN, Report, highlight, paint};
use crate::table::{Align, columns, grouped};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vyre::filetest::difference;
use vyre::host::{Error, ErrorKind, Kernel, Launch, Output};
use vyre::ir::{Buffer, Literal};
use vyre::launch::bound_buffers;
use vyre::reference::{Finding, FindingKind, Party, Trace, TraceEvent};
use vyre::show::{Source, observation, trap};
use vyre::spec::{Expect, Spec, directives};
use vyre::text::{self, SourceMap};

/// How many of an output's first values JSON has.
const VALUES_JSON_MAX: usize = 16;
/// How many lines of a trace JSON has.
const TRACE_JSON_MAX: usize = 100_000;
/// How many characters of an output's first values a person sees.
const VALUES_CHARS_MAX: usize = 48;

pub(crate) fn run(args: &Run, report: &Report) -> Result<u8, Failure> {
    let loaded = load::program(&args.file)?;
    let kernel = Kernel::from_valid(loaded.valid()?);
    let plan = Plan::new(args, &loaded)?;
    let writes = out_files(args, &kernel)?;
    let tracing = Tracing::new(report);
    let output = plan.execute(args, &loaded, &kernel, &tracing)?;
    for (name, path) in &writes {
        let bytes = output.bytes(name)?;
        std::fs::write(path, bytes).map_err(|error| {
            Failure::io(format!("cannot write {}: {error}", path.display()), "name a place you may write to")
        })?;
    }
    let differences = plan.differences(&kernel, &output)?;
    let races = output.findings().iter().any(|finding| finding.kind == FindingKind::Race);
    report.json(|| {
        let mut value = as_json(args, &loaded, &kernel, &output);
        value["differences"] = json!(differences);
        if args.trace_lane.is_some() {
            value["trace_lines"] = json!(tracing.lines.get());
            value["trace"] = json!(*tracing.kept.borrow());
        }
        value
    });
    if !report.is_json() {
        if let Some([x, y, z]) = args.trace_lane.filter(|_| tracing.lines.get() == 0) {
            report.text(&format!("  lane ({x}, {y}, {z}) is not in the grid, or runs no line\n\n"));
        }
        report.text(&as_text(args, &loaded, &kernel, &output));
        report.text(&verdict(&plan, &differences));
    }
    Ok(if races || !differences.is_empty() { FINDINGS } else { OK })
}

/// What a run starts with, from the command line or from the file's first directive.
struct Plan {
    inputs: Vec<(String, Spec)>,
    sizes: Vec<(String, u64)>,
    grid: Option<[u32; 3]>,
    /// Where files in SPECs are found.
    folder: PathBuf,
    /// What the directive expects, unless the command line changes the run.
    expect: Option<Expect>,
}

impl Plan {
    fn new(args: &Run, loaded: &Loaded) -> Result<Plan, Failure> {
        let mut inputs = Vec::new();
        for input in &args.inputs {
            let (name, spec) = pair("--in", "x=[1, 2, 3]", input)?;
            inputs.push((name, Spec::parse(spec)?));
        }
        let mut sizes = Vec::new();
        for size in &args.sizes {
            let (name, count) = pair("--size", "y=1024", size)?;
            let count = count.parse().map_err(|_| {
                Failure::usage(
                    format!("`{}` is not a number of elements", count.escape_debug()),
                    format!("write a decimal number: `--size {name}=1024`"),
                )
            })?;
            sizes.push((name, count));
        }
        let mut plan = Plan { inputs, sizes, grid: args.grid, folder: PathBuf::new(), expect: None };
        if args.inputs.is_empty() && !loaded.is_wire {
            plan.take_directive(loaded)?;
        }
        Ok(plan)
    }

    /// Fills in what the file's first directive says and the command line does not.
    fn take_directive(&mut self, loaded: &Loaded) -> Result<(), Failure> {
        let found = directives(&loaded.source).map_err(|findings| Failure::Findings {
            file: loaded.name.clone(),
            findings: findings
                .iter()
                .map(|finding| Found::new(finding, &loaded.name, &loaded.source, &SourceMap::default()))
                .collect(),
        })?;
        let Some(run) = found.runs.into_iter().next() else { return Ok(()) };
        let asked: Vec<String> = self.sizes.iter().map(|(name, _)| name.clone()).collect();
        if asked.is_empty() && self.grid.is_none() {
            self.expect = Some(run.expect);
        }
        self.folder = loaded.folder.clone();
        self.inputs = run.inputs.into_iter().filter(|(name, _)| !asked.contains(name)).collect();
        self.sizes.extend(run.sizes.into_iter().filter(|(name, _)| !asked.contains(name)));
        self.grid = self.grid.or(run.grid);
        Ok(())
    }

    /// What is missing, with the option that gives it.
    fn check_complete(&self, kernel: &Kernel) -> Result<(), Failure> {
        let parts = kernel.program().parts();
        for buffer in bound_buffers(parts).into_iter().map(|id| parts.buffer(id)) {
            let name = &*buffer.name;
            let given = self.inputs.iter().any(|(given, _)| given == name)
                || self.sizes.iter().any(|(given, _)| given == name);
            if given || buffer.len.is_some() && buffer.is_writable() {
                continue;
            }
            let ty = buffer.ty;
            return Err(match buffer.is_writable() {
                true => Failure::usage(
                    format!("nothing says how many elements `@{name}` has"),
                    format!("add `--size {name}=COUNT`, or `--in '{name}=SPEC'` with elements of type {ty}"),
                ),
                false => Failure::usage(
                    format!("`@{name}` has no input"),
                    format!(
                        "add `--in '{name}=SPEC'` with elements of type {ty}; `vyre run --help` shows SPECs"
                    ),
                ),
            });
        }
        Ok(())
    }

    fn launch<'k>(&self, args: &Run, kernel: &'k Kernel) -> Result<Launch<'k>, Failure> {
        let parts = kernel.program().parts();
        let mut launch =
            kernel.launch().backend(&args.backend).schedule(args.schedule).check(args.check_races);
        for (name, spec) in &self.inputs {
            // A name that no buffer has is reported by the launch.
            let bytes = match parts.buffers.iter().find(|buffer| *buffer.name == **name) {
                Some(buffer) => spec.bytes_for(buffer, &self.folder)?,
                None => Vec::new(),
            };
            launch = launch.bytes(name, bytes);
        }
        for (name, count) in &self.sizes {
            launch = launch.size(name, *count);
        }
        // What the launch finds wrong with what is given comes before what is missing.
        if launch.mistake().is_none() {
            self.check_complete(kernel)?;
        }
        if let Some(grid) = self.grid {
            launch = launch.grid(grid);
        }
        if let Some(timeout) = args.timeout {
            launch = launch.timeout(timeout);
        }
        Ok(launch)
    }

    fn execute(
        &self,
        args: &Run,
        loaded: &Loaded,
        kernel: &Kernel,
        tracing: &Tracing,
    ) -> Result<Output, Failure> {
        let progress = Progress::new();
        let tick = || progress.tick();
        let sink = |event: &TraceEvent| tracing.line(event);
        let mut launch = self.launch(args, kernel)?.stop_when(&tick);
        if let Some(lane) = args.trace_lane {
            launch = launch.trace(Trace { lane, sink: &sink });
        }
        let result = launch.run();
        tracing.finish();
        progress.clear();
        result.map_err(|error| run_failure(&error, args, loaded))
    }

    /// How the outputs differ from what the directive expects.
    fn differences(&self, kernel: &Kernel, output: &Output) -> Result<Vec<String>, Failure> {
        let Some(Expect::Buffers(expected)) = &self.expect else { return Ok(Vec::new()) };
        let mut differences = Vec::new();
        for (name, spec) in expected {
            let actual = output.bytes(name)?;
            let parts = kernel.program().parts();
            let buffer = parts.buffers.iter().find(|buffer| *buffer.name == **name).expect("it has bytes");
            differences.extend(difference(buffer, &spec.bytes_for(buffer, &self.folder)?, actual));
        }
        Ok(differences)
    }
}

/// `NAME=REST`
fn pair<'a>(option: &str, example: &str, text: &'a str) -> Result<(String, &'a str), Failure> {
    match text.split_once('=') {
        Some((name, rest)) if !name.is_empty() => Ok((name.trim_start_matches('@').to_owned(), rest)),
        _ => Err(Failure::usage(
            format!("`{option} {}` has no name and `=`", text.escape_debug()),
            format!("write `{option} '{example}'`"),
        )),
    }
}

/// The files that outputs go to, by the outputs' names.
fn out_files(args: &Run, kernel: &Kernel) -> Result<Vec<(String, PathBuf)>, Failure> {
    let parts = kernel.program().parts();
    let outputs = || parts.buffers.iter().filter(|buffer| buffer.is_writable() && buffer.binding().is_some());
    let mut files = Vec::new();
    for out in &args.outputs {
        let (name, path) = pair("--out", "y=y.bin", out)?;
        if !outputs().any(|buffer| *buffer.name == *name) {
            let names: Vec<String> = outputs().map(|buffer| format!("@{}", buffer.name)).collect();
            return Err(Failure::usage(
                format!("`@{}` writes no buffer `{}`", parts.name, name.escape_debug()),
                format!("name one it writes: {}", names.join(", ")),
            ));
        }
        files.push((name, PathBuf::from(path)));
    }
    Ok(files)
}

/// A trap points at its line, and a timeout at its option; what else can go wrong speaks for itself.
fn run_failure(error: &Error, args: &Run, loaded: &Loaded) -> Failure {
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

/// What the traced lane does: printed line by line, or kept for JSON.
struct Tracing {
    json: bool,
    out: RefCell<BufWriter<anstream::AutoStream<std::io::Stdout>>>,
    kept: RefCell<Vec<String>>,
    lines: Cell<u64>,
}

impl Tracing {
    fn new(report: &Report) -> Tracing {
        let out = RefCell::new(BufWriter::new(anstream::stdout()));
        Tracing { json: report.is_json(), out, kept: RefCell::default(), lines: Cell::new(0) }
    }

    fn line(&self, event: &TraceEvent) {
        self.lines.set(self.lines.get() + 1);
        if !self.json {
            // Nobody reads on if the pipe is closed.
            let _ = writeln!(self.out.borrow_mut(), "{event}");
        } else if self.kept.borrow().len() < TRACE_JSON_MAX {
            self.kept.borrow_mut().push(event.to_string());
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

/// Says on a terminal that a long run still runs.
struct Progress {
    started: Instant,
    shown: Cell<u64>,
    is_terminal: bool,
}

impl Progress {
    fn new() -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        Progress { started: Instant::now(), shown: Cell::new(0), is_terminal }
    }

    fn tick(&self) -> bool {
        let seconds = self.started.elapsed().as_secs();
        if self.is_terminal && seconds > self.shown.get() {
            self.shown.set(seconds);
            let _ = write!(anstream::stderr(), "\r  running for {seconds} s ");
        }
        false
    }

    fn clear(&self) {
        if self.shown.get() > 0 {
            let _ = write!(anstream::stderr(), "\r{:30}\r", "");
        }
    }
}

fn elements<'b>(buffer: &Buffer, bytes: &'b [u8]) -> impl Iterator<Item = String> + 'b {
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
    let outputs: Vec<Value> = output
        .outputs()
        .map(|(buffer, bytes)| {
            json!({
                "name": &*buffer.name,
                "type": buffer.ty.name(),
                "count": bytes.len() / buffer.ty.bytes(),
                "blake3": blake3::hash(bytes).to_hex().as_str(),
                "values": elements(buffer, bytes).take(VALUES_JSON_MAX).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "program": program.name(),
        "digest": program.digest().to_string(),
        "backend": args.backend,
        "grid": output.grid(),
        "lanes": lanes(kernel, output),
        "lane_instructions": output.lane_instructions(),
        "wall_ns": u64::try_from(output.wall().as_nanos()).unwrap_or(u64::MAX),
        "outputs": outputs,
        "findings": findings(loaded, output),
    })
}

fn as_text(args: &Run, loaded: &Loaded, kernel: &Kernel, output: &Output) -> String {
    let parts = kernel.program().parts();
    let by = |counts: [u32; 3]| counts.map(|count| count.to_string()).join(" x ");
    let rate = output.lane_instructions() as f64 / output.wall().as_secs_f64().max(1e-9) / 1e6;
    let about: Vec<Vec<String>> = [
        ("kernel", format!("@{} from {}", parts.name, loaded.name)),
        ("backend", args.backend.clone()),
        ("grid", format!("{} workgroups of {} lanes", by(output.grid()), by(parts.workgroup))),
        ("lanes", grouped(lanes(kernel, output))),
        ("instructions", grouped(output.lane_instructions())),
        ("time", format!("{} ({rate:.0} million instructions a second)", time(output.wall()))),
    ]
    .map(|(key, value)| vec![format!("  {key}"), value])
    .to_vec();
    let mut text = columns(&[Align::Left; 2], &about);
    let mut rows =
        vec![["  output", "type", "elements", "blake3", "first values"].map(String::from).to_vec()];
    for (buffer, bytes) in output.outputs() {
        rows.push(vec![
            format!("  @{}", buffer.name),
            buffer.ty.to_string(),
            grouped((bytes.len() / buffer.ty.bytes()) as u64),
            blake3::hash(bytes).to_hex()[..16].to_owned(),
            first_values(buffer, bytes),
        ]);
    }
    if rows.len() > 1 {
        let align = [Align::Left, Align::Left, Align::Right, Align::Left, Align::Left];
        let table = columns(&align, &rows);
        let (head, rest) = table.split_once('\n').unwrap_or((&table, ""));
        text.push_str(&format!("\n{}\n{rest}", paint(BOLD, head)));
    } else {
        text.push_str("\n  The program declares no output.\n");
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

fn time(wall: Duration) -> String {
    match wall.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{:.0} us", seconds * 1e6),
    }
}

/// Whether the outputs are what the file says.
fn verdict(plan: &Plan, differences: &[String]) -> String {
    match &plan.expect {
        Some(Expect::Buffers(_)) if differences.is_empty() => {
            format!("\n  {} the outputs are those that the file expects\n", paint(GOOD, "ok"))
        }
        Some(Expect::Buffers(_)) => {
            let wrong = differences.join("\n  ");
            format!(
                "\n  {} {wrong}\n  Fix: correct the program, or the file's `//@ run` line\n",
                paint(BAD, "wrong")
            )
        }
        Some(Expect::Success | Expect::Trap(_) | Expect::Race) | None => String::new(),
    }
}
