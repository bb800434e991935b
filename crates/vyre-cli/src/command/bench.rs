//! `vyre bench`: kernels on backends beside the same work in Rust, as a table, JSON and a plot.

use crate::args::Bench;
use crate::command::compare::once_each;
use crate::command::run::time;
use crate::progress::Status;
use crate::report::{BAD, BOLD, DIM, FINDINGS, Failure, OK, Report, paint};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use vyre::driver::registry;
use vyre_bench::{
    BENCHMARKS, Baselines, Benchmark, Bound, Figures, Group, Limits, MATH, OPS, Options, Outcome, Row,
    Spread, size_text,
};
use vyre_terminal::table::{Align, columns};

pub(crate) fn run(args: &Bench, report: &Report) -> Result<u8, Failure> {
    if args.list {
        list(report);
        return Ok(OK);
    }
    let (backends, notes) = backends(args)?;
    let options = options(args, backends)?;
    if let Some(path) = &args.plot {
        // Said before minutes of measuring rather than after.
        write_plot(path, "")?;
    }
    let mut status = Status::start();
    let mut found = vyre_bench::run(&options, &mut |text| status.show(text))?;
    drop(status);
    found.notes.extend(notes);
    if let Some(path) = &args.plot {
        write_plot(path, &vyre_bench::plot(&found))?;
    }
    report.json(|| as_json(&found));
    if !report.is_json() {
        report.text(&as_text(&found));
    }
    Ok(if found.has_findings() { FINDINGS } else { OK })
}

fn write_plot(path: &Path, svg: &str) -> Result<(), Failure> {
    std::fs::write(path, svg).map_err(|error| {
        let message = format!("cannot write {}: {error}", path.display());
        Failure::io(message, "name a place you may write to")
    })
}

fn list(report: &Report) {
    let one = |benchmark: &Benchmark| {
        let Benchmark { name, about, unit, size, .. } = benchmark;
        json!({ "kernel": name, "about": about, "size": size, "unit": unit })
    };
    report.json(|| json!({ "kernels": all().map(one).collect::<Vec<_>>() }));
    let mut rows = vec![["kernel", "size", "of", "what it does"].map(String::from).to_vec()];
    rows.extend(all().map(|benchmark| {
        vec![benchmark.name.into(), size_text(benchmark.size), benchmark.unit.into(), benchmark.about.into()]
    }));
    report.text(&headed(&[Align::Left, Align::Right, Align::Left, Align::Left], &rows));
}

/// The benchmarks, followed by those of single ops and of elementary functions.
fn all() -> impl Iterator<Item = &'static Benchmark> {
    BENCHMARKS.into_iter().chain(&OPS).chain(MATH.iter().copied())
}

/// Columns whose first row is a heading.
fn headed(align: &[Align], rows: &[Vec<String>]) -> String {
    let table = columns(align, rows);
    let (head, rest) = table.split_once('\n').unwrap_or((&table, ""));
    format!("{}\n{rest}", paint(BOLD, head))
}

fn options(args: &Bench, backends: Vec<String>) -> Result<Options, Failure> {
    let benchmarks = match args.kernels.is_empty() {
        true if args.baseline == Baselines::Native => BENCHMARKS.into_iter().chain(&OPS).collect(),
        true => BENCHMARKS.to_vec(),
        false => {
            let named = args.kernels.iter().map(|name| match name.as_str() {
                "math" => Ok(MATH.to_vec()),
                name => benchmark(name).map(|benchmark| vec![benchmark]),
            });
            named.collect::<Result<Vec<_>, _>>()?.concat()
        }
    };
    let mut sizes = Vec::new();
    for text in &args.sizes {
        match text.split_once('=') {
            Some((name, size)) => sizes.push((benchmark(name)?, size)),
            None => sizes.extend(benchmarks.iter().map(|benchmark| (*benchmark, text.as_str()))),
        }
    }
    let sizes = sizes.into_iter().map(|(benchmark, text)| Ok((benchmark.name, size(benchmark, text)?)));
    Ok(Options {
        sizes: sizes.collect::<Result<_, Failure>>()?,
        benchmarks,
        backends,
        baselines: args.baseline,
        rounds: args.rounds,
        quick: args.quick,
    })
}

fn benchmark(name: &str) -> Result<&'static Benchmark, Failure> {
    all().find(|benchmark| benchmark.name == name).ok_or_else(|| {
        let known: Vec<&str> = all().map(|benchmark| benchmark.name).collect();
        Failure::usage(
            format!("there is no benchmark `{}`", name.escape_debug()),
            format!("choose among: {}", known.join(", ")),
        )
    })
}

/// A count with an optional K, M or G.
fn size(benchmark: &Benchmark, text: &str) -> Result<u32, Failure> {
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => {
            (digits, [('K', 10), ('M', 20), ('G', 30)].iter().find(|unit| text.ends_with(unit.0)))
        }
        None => (text, None),
    };
    let count =
        digits.parse::<u64>().ok().and_then(|count| count.checked_mul(1 << shift.map_or(0, |unit| unit.1)));
    let count = count.ok_or_else(|| {
        Failure::usage(
            format!("`{}` is not a size", text.escape_debug()),
            "write a number from 1 to 4294967295, or one with K, M or G after it: `--size 16M`",
        )
    })?;
    match u32::try_from(count).ok().filter(|size| (benchmark.size_min..=benchmark.size_max).contains(size)) {
        Some(size) => Ok(size),
        None => Err(Failure::usage(
            format!("`{}` cannot have a size of {count}", benchmark.name),
            format!("give it {} to {} {}", benchmark.size_min, benchmark.size_max, benchmark.unit),
        )),
    }
}

/// The backends that are named; or all that open, last resorts and the reference only if they are alone, and why others do
/// not.
fn backends(args: &Bench) -> Result<(Vec<String>, Vec<String>), Failure> {
    let known: Vec<&str> = registry::registrations().iter().map(|registration| registration.id).collect();
    if let Some(named) = &args.backends {
        let named = if named == &["none"] { Vec::new() } else { once_each(named, &known)? };
        return Ok((named, Vec::new()));
    }
    let (mut open, mut notes) = (Vec::new(), Vec::new());
    for registration in registry::registrations() {
        let id = registration.id;
        if (registration.last_resort)() {
            notes
                .push(format!("backend `{id}` is left out: it is slower than the others here. Fix: name it"));
            continue;
        }
        match registry::open(id) {
            Ok(_) => open.push(id.to_owned()),
            Err(error) => notes.push(error.to_string()),
        }
    }
    if open.len() > 1 {
        open.retain(|id| id != "reference");
    }
    Ok((open, notes))
}

fn nanoseconds(ns: f64) -> String {
    time(Duration::from_nanos(ns as u64))
}

/// A number with three digits that count.
fn three(number: f64) -> String {
    let digits = match number.abs() {
        number if number >= 100.0 => 0,
        number if number >= 10.0 => 1,
        number if number >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.digits$}")
}

fn as_text(found: &vyre_bench::Report) -> String {
    let machine = &found.machine;
    let mut text = format!(
        "{}, {} threads, {}{}\n",
        machine.processor,
        machine.threads,
        machine.vectors,
        if machine.optimised { "" } else { "; not an optimised build: the times mean nothing" }
    );
    for (device, limits) in &found.limits {
        let Limits { bytes_per_second, u32_per_second, f32_per_second } = limits;
        let [bytes, ints, floats] =
            [bytes_per_second, u32_per_second, f32_per_second].map(|rate| three(rate / 1e9));
        text.push_str(&format!(
            "limits of {device}: copy {bytes} GB/s, u32 {ints} Gop/s, f32 {floats} Gop/s\n"
        ));
    }
    let has_device = found
        .groups
        .iter()
        .flat_map(|group| &group.rows)
        .any(|row| row.figures().is_some_and(|figures| figures.times.device.is_some()));
    let mut head =
        vec!["kernel", "size", "contender", "time", "spread", "device", "rate", "of limit", "ratio"];
    let mut align = vec![Align::Left, Align::Right, Align::Left];
    align.extend([Align::Right; 6]);
    if !has_device {
        head.remove(5);
        align.pop();
    }
    // For those that have other bits.
    align.push(Align::Left);
    let mut rows = vec![head.into_iter().map(String::from).collect::<Vec<_>>()];
    let mut wrong = Vec::new();
    for group in &found.groups {
        for (at, row) in group.rows.iter().enumerate() {
            let mut cells = match at {
                0 => vec![group.benchmark.name.to_owned(), size_text(group.size)],
                _ => vec![String::new(), String::new()],
            };
            cells.push(row.contender.clone());
            cells.extend(row_cells(group, row, has_device));
            rows.push(cells);
            wrong.extend(complaint(group, row));
        }
    }
    text.push_str(&format!("\n{}", headed(&align, &rows)));
    for line in wrong {
        text.push_str(&format!("\n{line}\n"));
    }
    if !found.has_findings() {
        let figures = found.groups.iter().flat_map(|group| &group.rows).filter_map(Row::figures);
        let what = match figures.into_iter().any(|figures| figures.differs) {
            true => "all other results have the bits of the reference and of plain Rust",
            false => "all results have the bits of the reference and of plain Rust",
        };
        text.push_str(&format!("\n{}\n", paint(DIM, what)));
    }
    for note in &found.notes {
        text.push_str(&format!("{} {note}\n", paint(BOLD, "note:")));
    }
    text
}

fn row_cells(group: &Group, row: &Row, has_device: bool) -> Vec<String> {
    let figures = match &row.outcome {
        Outcome::Measured(figures) => figures,
        Outcome::Wrong(_) => return vec!["WRONG".into()],
        Outcome::Failed(_) => return vec!["FAILED".into()],
    };
    let Spread { median_ns, quartiles_ns, .. } = figures.times.wall;
    let mut cells = vec![nanoseconds(median_ns), format!("{:.0} %", 100.0 * quartiles_ns / median_ns)];
    if has_device {
        cells.push(figures.times.device.map_or_else(|| "-".into(), |spread| nanoseconds(spread.median_ns)));
    }
    let (rate, limit) = match figures.limit {
        Some((Bound::Ops, part)) => {
            (format!("{} Gop/s", three(group.gigaops(figures))), format!("{:.0} % ops", part * 100.0))
        }
        Some((Bound::Memory, part)) => {
            (format!("{} GB/s", three(group.gigabytes(figures))), format!("{:.0} % mem", part * 100.0))
        }
        None => (format!("{} GB/s", three(group.gigabytes(figures))), "-".into()),
    };
    cells.extend([rate, limit, figures.ratio.map_or_else(|| "-".into(), three)]);
    if figures.differs {
        cells.push("other bits".into());
    }
    cells
}

/// The text about a contender without figures.
fn complaint(group: &Group, row: &Row) -> Option<String> {
    let place = format!("{} {} on {}", group.benchmark.name, size_text(group.size), row.contender);
    match &row.outcome {
        Outcome::Measured(_) => None,
        Outcome::Wrong(what) => Some(format!(
            "{} {place}: {what}\n  Fix: do not use these results; `vyre compare` on the kernel shows what differs",
            paint(BAD, "wrong")
        )),
        Outcome::Failed(error) => {
            Some(format!("{} {place}: {}\n  Fix: {}", paint(BAD, "failed"), error.message, error.fix))
        }
    }
}

fn as_json(found: &vyre_bench::Report) -> Value {
    let limits = found.limits.iter().map(|(device, limits)| {
        json!({
            "device": device,
            "bytes_per_second": limits.bytes_per_second,
            "u32_ops_per_second": limits.u32_per_second,
            "f32_ops_per_second": limits.f32_per_second,
        })
    });
    json!({
        "machine": {
            "processor": found.machine.processor,
            "threads": found.machine.threads,
            "vectors": found.machine.vectors,
            "optimised_build": found.machine.optimised,
        },
        "limits": limits.collect::<Vec<_>>(),
        "groups": found.groups.iter().map(group_json).collect::<Vec<_>>(),
        "notes": found.notes,
    })
}

fn group_json(group: &Group) -> Value {
    json!({
        "kernel": group.benchmark.name,
        "size": group.size,
        "unit": group.benchmark.unit,
        "bytes": group.bytes,
        "ops": group.ops,
        "op_type": group.kind().name(),
        "blake3": group.digest,
        "contenders": group.rows.iter().map(|row| row_json(group, row)).collect::<Vec<_>>(),
    })
}

fn row_json(group: &Group, row: &Row) -> Value {
    let mut value = json!({ "contender": row.contender, "mode": row.mode.name(), "backend": row.backend, "cold_ns": row.cold_ns });
    match &row.outcome {
        Outcome::Measured(figures) => {
            value["result"] = json!(if figures.differs { "other bits" } else { "right" });
            figures_json(group, figures, &mut value);
        }
        Outcome::Wrong(what) => {
            value["result"] = json!("wrong");
            value["difference"] = json!(what);
        }
        Outcome::Failed(error) => {
            value["result"] = json!("failed");
            value["message"] = json!(error.message);
            value["fix"] = json!(error.fix);
        }
    }
    value
}

fn figures_json(group: &Group, figures: &Figures, value: &mut Value) {
    let spread = |spread: Spread| json!({ "median": spread.median_ns, "min": spread.min_ns, "quartile_distance": spread.quartiles_ns });
    let times = &figures.times;
    value["wall_ns"] = spread(times.wall);
    value["device_ns"] = times.device.map_or(Value::Null, spread);
    value["rounds"] = json!(times.rounds);
    value["calls_per_round"] = json!(times.calls);
    value["gigabytes_per_second"] = json!(group.gigabytes(figures));
    value["gigaops_per_second"] = json!(group.gigaops(figures));
    value["bound"] = json!(figures.limit.map(|(bound, _)| bound.name()));
    value["of_limit"] = json!(figures.limit.map(|(_, part)| part));
    value["ratio"] = json!(figures.ratio);
}
