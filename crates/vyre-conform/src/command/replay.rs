//! `replay`: generates one case of a certificate again from its nonce, runs it, and prints everything.

use super::args::Replay;
use super::verify::read;
use super::{Backends, Host, Opened};
use crate::batch::{Batch, Group, Plan, Step, Work};
use crate::cases;
use crate::certificate::{Certificate, Predicate};
use crate::judge::{Answer as Outcome, Prepared, is_right};
use crate::show::{elements, hex, line};
use crate::suite::{Filter, batches};
use crate::target::{Fault, Job, Target};
use serde_json::{Value, json};
use std::fmt::Write;
use vyre_foundation::ir::DataType;
use vyre_foundation::launch::bound_buffers;
use vyre_terminal::style::{BAD, BOLD, GOOD, paint};
use vyre_terminal::{Answer, Failure, exit};

/// Elements of a buffer that are shown.
const SHOWN_MAX: usize = 16;
/// Batches that are shown where a group is named.
const BATCHES_MAX: usize = 8;

pub(super) fn run(args: &Replay, host: &Host<'_>) -> Result<Answer, Failure> {
    let certificate = read(&args.file)?;
    certificate.check_version().map_err(|error| Failure::new(exit::FINDINGS, error.message, error.fix))?;
    let profile = certificate.predicate().target.profile();
    let plan = certificate.plan(&profile);
    let filter = Filter::new(&args.case);
    let found = find(&certificate, &plan, &filter)
        .and_then(|found| if found.is_empty() { Err(absent(&args.case)) } else { Ok(found) })?;
    let (opened, alone) = open(args, host, &certificate)?;
    let target = opened.as_ref().map(Opened::target);
    let (mut text, mut cases) = (String::new(), Vec::new());
    let (mut equal, mut certified, mut left_out) = (true, true, 0);
    for (group, batches) in found {
        let room = BATCHES_MAX.saturating_sub(cases.len());
        left_out += batches.len().saturating_sub(room);
        if room == 0 {
            continue;
        }
        for batch in batches.into_iter().take(room) {
            let played = play(Prepared::new(batch), target.as_deref(), filter.element);
            text.push_str(&played.text);
            cases.push(played.json);
            equal &= played.equal;
        }
        // The root in the certificate is over all of the group's outputs.
        let stated = certificate.check_group(&group, &plan);
        certified &= stated.is_ok();
        let _ = match stated {
            Ok(()) => writeln!(text, "  {} as the certificate says of `{}`\n", paint(GOOD, "ok"), group.name),
            Err(error) => writeln!(text, "  {} {}\n", paint(BAD, "different:"), error.message),
        };
    }
    if left_out > 0 {
        let _ = writeln!(text, "  and {left_out} more; name one of them with `--case`");
    }
    if let Some(why) = alone {
        let _ = writeln!(text, "  {why}");
    }
    let backend = target.as_ref().map(|target| target.name());
    let exit = if equal && certified { exit::OK } else { exit::FINDINGS };
    // Without a backend nothing was compared with the reference.
    let equal = backend.map(|_| equal);
    let json = json!({ "backend": backend, "equal": equal, "certified": certified, "cases": cases });
    Ok(Answer { exit, text, json })
}

fn absent(case: &str) -> Failure {
    Failure::usage(
        format!("the certificate has no case `{}`", case.escape_debug()),
        "take a name from a report, or the start of one: `op/f32/div`",
    )
}

/// A batch that ran again.
struct Played {
    text: String,
    json: Value,
    equal: bool,
}

fn play(prepared: Prepared, target: Option<&dyn Target>, element: Option<u64>) -> Played {
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

/// The batches that are asked for, of the groups that the certificate has.
fn find(
    certificate: &Certificate,
    plan: &Plan<'_>,
    filter: &Filter,
) -> Result<Vec<(Group, Vec<Batch>)>, Failure> {
    let Predicate { levels, target, .. } = certificate.predicate();
    let mut found = Vec::new();
    for group in cases::groups(plan.driver) {
        if !levels.cover(group.level, group.track) || !filter.has_group(&group.name) {
            continue;
        }
        if let Work::Procedure(_) = group.work {
            return Err(Failure::usage(
                format!("`{}` is a conversation with the driver, not a program", group.name),
                format!("run it again: `certify --backend {} --case {}`", line(&target.id), group.name),
            ));
        }
        let mut batches = batches(&group, plan);
        batches.retain(|batch| filter.has_batch(batch));
        if !batches.is_empty() {
            found.push((group, batches));
        }
    }
    Ok(found)
}

/// The backend beside the reference, or why there is none.
fn open(
    args: &Replay,
    host: &Host<'_>,
    certificate: &Certificate,
) -> Result<(Option<Opened>, Option<String>), Failure> {
    let own = match host.backends {
        Backends::Vendor(_) => None,
        Backends::Registered => Some(certificate.predicate().target.id.as_str()),
    };
    match (host.open(args.backend.as_deref().or(own)), own) {
        (Ok(opened), _) => Ok((Some(opened), None)),
        (Err(failure), Some(_)) if args.backend.is_none() => {
            Ok((None, Some(format!("only the reference ran it: {}", failure.message))))
        }
        (Err(failure), _) => Err(failure),
    }
}

/// The initial contents of a launch's buffers.
fn launch(batch: &Batch, step: &Step, element: Option<u64>) -> String {
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

fn outcome(batch: &Batch, who: &str, answer: Result<&Outcome, &Fault>, element: Option<u64>) -> String {
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
fn values(ty: DataType, bytes: &[u8], element: Option<u64>) -> String {
    let count = bytes.len() / ty.bytes();
    if let Some(at) = element.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < count) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConformanceSuite, Level, ReferenceBackend, Track, VyreBackend};
    use std::path::PathBuf;

    /// The answer of a replay, with the backend beside it or without.
    fn replay(file: &std::path::Path, case: &str, with_backend: bool) -> Answer {
        let open = || Ok(Box::new(ReferenceBackend) as Box<dyn VyreBackend>);
        let backends = if with_backend { Backends::Vendor(&open) } else { Backends::Registered };
        let args = Replay { file: file.to_owned(), case: case.into(), backend: None };
        run(&args, &Host { program: "test", backends, quiet: true }).expect("it replays")
    }

    #[test]
    fn a_replay_compares_with_the_certificate_and_with_the_backend_if_there_is_one() {
        let suite = ConformanceSuite::quick().up_to(Level::Ops).only(Track::Integer);
        let mut report = suite.report(&ReferenceBackend);
        // No driver has this name.
        report.backend = "absent".into();
        let folder = std::env::temp_dir().join(format!("vyre-replay-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, report: &crate::Report| -> PathBuf {
            let path = folder.join(name);
            std::fs::write(&path, report.certificate().expect("it is complete").to_json()).unwrap();
            path
        };
        let honest = file("honest.json", &report);
        let wrong = report.groups.iter_mut().find(|group| group.name == "op/u32/add").expect("it ran");
        wrong.root.0[0] ^= 1;
        let lie = file("lie.json", &report);
        for (file, case, with_backend, exit, equal, certified) in [
            (&honest, "op/u32/add", true, exit::OK, json!(true), true),
            (&honest, "op/u32/add", false, exit::OK, json!(null), true),
            (&lie, "op/u32/add", true, exit::FINDINGS, json!(true), false),
            (&lie, "op/u32/add:edge", false, exit::FINDINGS, json!(null), false),
            (&lie, "op/u32/sub", true, exit::OK, json!(true), true),
        ] {
            let answer = replay(file, case, with_backend);
            let said = (answer.exit, &answer.json["equal"], &answer.json["certified"]);
            assert_eq!(said, (exit, &equal, &json!(certified)), "{case}: {}", answer.text);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
