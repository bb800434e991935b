//! `replay`: one case of a certificate, made again from its nonce and run for all to see.

use super::args::Replay;
use super::verify::read;
use super::{Answer, BAD, BOLD, Backends, Failure, GOOD, Host, Opened, exit, paint};
use crate::batch::{Batch, Step, Work};
use crate::cases;
use crate::certificate::Certificate;
use crate::judge::{Answer as Outcome, Prepared, is_right};
use crate::show::{elements, hex, line};
use crate::suite::{batch_name, batches};
use crate::target::{Fault, Job, Target};
use serde_json::{Value, json};
use std::fmt::Write;
use vyre_driver::registry;
use vyre_foundation::ir::DataType;
use vyre_foundation::launch::bound_buffers;

/// Elements of a buffer that are shown.
const SHOWN_MAX: usize = 16;
/// Batches that are shown where a group is named.
const BATCHES_MAX: usize = 8;

pub(super) fn run(args: &Replay, host: &Host<'_>) -> Result<Answer, Failure> {
    let certificate = read(&args.file)?;
    certificate.check_version().map_err(|error| Failure::new(exit::FINDINGS, error.message, error.fix))?;
    let found = find(&certificate, &args.case)?;
    let element = args.case.split_once('#').and_then(|(_, number)| number.parse().ok());
    let (opened, absent) = open(args, host, &certificate)?;
    let target = opened.as_ref().map(Opened::target);
    let (mut text, mut cases, mut equal) = (String::new(), Vec::new(), true);
    let left_out = found.len().saturating_sub(BATCHES_MAX);
    for batch in found.into_iter().take(BATCHES_MAX) {
        let played = play(Prepared::new(batch), target.as_deref(), element);
        text.push_str(&played.text);
        cases.push(played.json);
        equal &= played.equal;
    }
    if left_out > 0 {
        let _ = writeln!(text, "  and {left_out} more; name one of them with `--case`");
    }
    if let Some(why) = absent {
        let _ = writeln!(text, "  {why}");
    }
    let backend = target.as_ref().map(|target| target.name().to_owned());
    let exit = if equal { exit::OK } else { exit::FINDINGS };
    Ok(Answer { exit, text, json: json!({ "backend": backend, "equal": equal, "cases": cases }) })
}

/// A batch that ran again.
struct Played {
    text: String,
    json: Value,
    equal: bool,
}

fn play(prepared: Prepared, target: Option<&dyn Target>, element: Option<usize>) -> Played {
    let Prepared { batch, expected } = &prepared;
    let program = vyre_foundation::text::print(&batch.program);
    let mut text = format!("{}\n", paint(BOLD, &batch.name));
    program.lines().for_each(|row| text.push_str(&format!("  {row}\n")));
    let (mut steps, mut equal) = (Vec::new(), true);
    for (step, expected) in batch.steps.iter().zip(expected) {
        let job = Job {
            program: &batch.program,
            grid: step.grid,
            contents: &step.contents,
            init: step.init,
            lookup: batch.lookup,
        };
        let actual = target.map(|target| target.run(&job));
        text.push_str(&launch(batch, step, element));
        text.push_str(&outcome(batch, "reference", Ok(expected), element));
        if let (Some(target), Some(actual)) = (target, &actual) {
            let same = is_right(actual, expected);
            equal &= same;
            if same {
                let _ = writeln!(text, "  {} the same on `{}`", paint(GOOD, "ok"), line(target.name()));
            } else {
                text.push_str(&outcome(batch, target.name(), actual.as_ref(), element));
                let _ = writeln!(text, "  {} on `{}`", paint(BAD, "different"), line(target.name()));
            }
        }
        steps.push(step_json(batch, step, expected, actual.as_ref()));
    }
    text.push('\n');
    let json = json!({ "name": batch.name, "program": program, "steps": steps });
    Played { text, json, equal }
}

/// The batches that a name means, of the groups that the certificate has.
fn find(certificate: &Certificate, case: &str) -> Result<Vec<Batch>, Failure> {
    let predicate = certificate.predicate();
    let profile = predicate.target.profile();
    let plan = certificate.plan(&profile);
    let wanted = batch_name(case);
    let mut found = Vec::new();
    for group in cases::groups(plan.driver) {
        let covered = predicate.levels.cover(group.level, group.track);
        if !covered || !(group.name.starts_with(wanted) || wanted.starts_with(&format!("{}:", group.name))) {
            continue;
        }
        if let Work::Procedure(_) = group.work {
            return Err(Failure::usage(
                format!("`{}` is a conversation with the driver, not a program", group.name),
                format!(
                    "run it again: `certify --backend {} --case {}`",
                    line(&predicate.target.id),
                    group.name
                ),
            ));
        }
        found.extend(batches(&group, &plan).into_iter().filter(|batch| batch.name.starts_with(wanted)));
    }
    match found.is_empty() {
        true => Err(Failure::usage(
            format!("the certificate has no case `{}`", case.escape_debug()),
            "take a name from a report, or the start of one: `op/f32/div`",
        )),
        false => Ok(found),
    }
}

/// The backend beside the reference, or why there is none.
fn open(
    args: &Replay,
    host: &Host<'_>,
    certificate: &Certificate,
) -> Result<(Option<Opened>, Option<String>), Failure> {
    let own = &certificate.predicate().target.id;
    match (&args.backend, host.backends) {
        (Some(id), _) => host.open(Some(id)).map(|opened| (Some(opened), None)),
        (None, Backends::Vendor(_)) => host.open(None).map(|opened| (Some(opened), None)),
        (None, Backends::Registered) => {
            let linked = registry::registrations().iter().any(|one| one.id == own);
            match host.open(Some(own)).ok().filter(|_| linked) {
                Some(opened) => Ok((Some(opened), None)),
                None => {
                    let why =
                        format!("the backend `{}` is not here, so only the reference ran it", line(own));
                    Ok((None, Some(why)))
                }
            }
        }
    }
}

/// What a launch starts with.
fn launch(batch: &Batch, step: &Step, element: Option<usize>) -> String {
    let parts = batch.program.parts();
    let [x, y, z] = step.grid;
    let mut text = format!("  grid ({x}, {y}, {z}), output memory {:?}\n", step.init);
    for (id, content) in bound_buffers(parts).into_iter().zip(&step.contents) {
        let buffer = parts.buffer(id);
        let _ =
            writeln!(text, "    in   @{} {}", buffer.name, values(buffer.ty, &content.to_bytes(), element));
    }
    text
}

/// The names and types of the outputs, by ascending binding.
fn outputs(batch: &Batch) -> Vec<(String, DataType)> {
    let parts = batch.program.parts();
    let buffers = bound_buffers(parts).into_iter().map(|id| parts.buffer(id));
    buffers.filter(|buffer| buffer.is_output()).map(|buffer| (buffer.name.to_string(), buffer.ty)).collect()
}

fn outcome(batch: &Batch, who: &str, answer: Result<&Outcome, &Fault>, element: Option<usize>) -> String {
    match answer {
        Ok(Outcome::Outputs(buffers)) => outputs(batch)
            .into_iter()
            .zip(buffers)
            .map(|((name, ty), bytes)| format!("    out  @{name} on {who}: {}\n", values(ty, bytes, element)))
            .collect(),
        Ok(Outcome::Trap(code)) => format!("    trap {code} on {who}\n"),
        Err(fault) => format!("    {who}: {}\n", line(&fault_text(fault))),
    }
}

fn fault_text(fault: &Fault) -> String {
    match fault {
        Fault::Error(text) => format!("error: {text}"),
        Fault::Panic(text) => format!("panic: {text}"),
        Fault::Length { expected, actual } => format!("{} bytes instead of {expected}", actual.len()),
    }
}

/// The first elements of a buffer, or the one that is asked for.
fn values(ty: DataType, bytes: &[u8], element: Option<usize>) -> String {
    let count = bytes.len() / ty.bytes();
    if let Some(at) = element.filter(|at| *at < count) {
        let value = elements(ty, bytes).nth(at).unwrap_or_default();
        return format!(
            "{ty} [{at}] = {value} (0x{})",
            hex(&reversed(&bytes[at * ty.bytes()..][..ty.bytes()]))
        );
    }
    let first: Vec<String> = elements(ty, bytes).take(SHOWN_MAX).collect();
    let more = if count > SHOWN_MAX { format!(" ... {count} in all") } else { String::new() };
    format!("{ty} [{}]{more}", first.join(", "))
}

/// Bytes with the most significant one first, as numbers are written.
fn reversed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

fn step_json(
    batch: &Batch,
    step: &Step,
    expected: &Outcome,
    actual: Option<&Result<Outcome, Fault>>,
) -> Value {
    let answer = |answer: &Outcome| match answer {
        Outcome::Outputs(buffers) => {
            let named = outputs(batch).into_iter().zip(buffers);
            let map: serde_json::Map<String, Value> =
                named.map(|((name, _), bytes)| (name, hex(bytes).into())).collect();
            json!({ "outputs": map })
        }
        Outcome::Trap(code) => json!({ "trap": code }),
    };
    let parts = batch.program.parts();
    let names = bound_buffers(parts).into_iter().map(|id| parts.buffer(id).name.to_string());
    let inputs: serde_json::Map<String, Value> =
        names.zip(&step.contents).map(|(name, content)| (name, hex(&content.to_bytes()).into())).collect();
    json!({
        "grid": step.grid,
        "inputs": inputs,
        "expected": answer(expected),
        "actual": actual.map(|actual| match actual {
            Ok(outcome) => answer(outcome),
            Err(fault) => json!({ "error": fault_text(fault) }),
        }),
    })
}
