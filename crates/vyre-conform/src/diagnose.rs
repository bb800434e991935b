//! Turns a wrong answer into a failure that a backend's author can act on.

use crate::batch::{Batch, Content, Level, Track};
use crate::cause::{self, Found};
use crate::failure::{Difference, ParityFailure};
use crate::judge::{Answer, Miss, Prepared};
use crate::target::{Fault, Target};
use vyre_foundation::ir::{BufferId, DataType, Literal, Program};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::text::print_literal;

/// How much is done to explain a failure. All but the last runs the backend again, many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Find the smallest program that fails, and the cause.
    Reduce,
    /// Find the cause.
    Explain,
    /// Report what happened.
    Tell,
}

/// Makes a failure of a wrong answer: the smallest program that still fails, and the likely cause.
pub(crate) fn explain(
    target: &dyn Target,
    (level, track): (Level, Track),
    prepared: &Prepared,
    miss: Miss,
    effort: Effort,
    replay: String,
) -> ParityFailure {
    let whole = &prepared.batch;
    let found = match effort {
        Effort::Reduce | Effort::Explain => cause::by_experiment(target, whole, &miss),
        Effort::Tell => Some(cause::at_sight(&miss)),
    };
    let (batch, reduced) = match effort {
        Effort::Reduce => crate::reduce::reduce(target, whole, miss.clone()),
        Effort::Explain | Effort::Tell => (whole.clone(), miss.clone()),
    };
    let smaller = (effort == Effort::Reduce).then_some((&batch, &reduced));
    let found = found.unwrap_or_else(|| cause::by_rule(whole, &miss, smaller));
    let miss = reduced;
    let step = &batch.steps[miss.step];
    let parts = batch.program.parts();
    let names = bound_buffers(parts).into_iter().map(|id| parts.buffer(id).name.to_string());
    let bytes = |answer: &Answer| match answer {
        Answer::Outputs(outputs) => outputs.concat(),
        Answer::Trap(_) => Vec::new(),
    };
    ParityFailure {
        case: prepared.batch.name.clone(),
        level,
        track,
        cause: found.cause,
        message: message(&batch, &miss, &found),
        program: file(&batch, &miss),
        grid: step.grid,
        inputs: names.zip(step.contents.iter().map(crate::batch::Content::to_bytes)).collect(),
        expected: bytes(&miss.expected),
        actual: match &miss.actual {
            Ok(answer) => bytes(answer),
            Err(Fault::Length { actual, .. }) => actual.clone(),
            Err(Fault::Error(_) | Fault::Panic(_)) => Vec::new(),
        },
        difference: difference(&batch.program, &miss),
        replay,
    }
}

fn message(batch: &Batch, miss: &Miss, found: &Found) -> String {
    let mut text = match (&miss.expected, &miss.actual) {
        (Answer::Outputs(_), Ok(Answer::Outputs(_))) => "the output bytes differ".into(),
        (Answer::Trap(code), Ok(Answer::Outputs(_))) => format!("expected trap {code}, and outputs came"),
        (Answer::Outputs(_), Ok(Answer::Trap(code))) => format!("trap {code} came, and none was expected"),
        (Answer::Trap(code), Ok(Answer::Trap(other))) => {
            format!("expected trap {code}, and trap {other} came")
        }
        (_, Err(Fault::Error(text))) => format!("an error came: {text}"),
        (_, Err(Fault::Panic(text))) => format!("the backend panicked: {text}"),
        (_, Err(Fault::Length { expected, actual })) => {
            format!("expected {expected} bytes, and {} came", actual.len())
        }
    };
    if let Some(rule) = &found.rule {
        text += &format!("; they are exactly those of a backend that gets this wrong: {rule}");
    }
    let operands = difference(&batch.program, miss).and_then(|difference| operands(batch, miss, &difference));
    if let Some(operands) = operands {
        text += &format!("; the operands were {operands}");
    }
    text
}

/// The elements of inputs beside an output's element, where all have the same number of elements.
fn operands(batch: &Batch, miss: &Miss, difference: &Difference) -> Option<String> {
    let parts = batch.program.parts();
    let step = &batch.steps[miss.step];
    let count = |id: BufferId, at: usize| step.contents[at].len() / parts.buffer(id).ty.bytes();
    let bound: Vec<(usize, BufferId)> = bound_buffers(parts).into_iter().enumerate().collect();
    let (at, id) = *bound.iter().find(|(_, id)| *parts.buffer(*id).name == *difference.buffer)?;
    let elements = count(id, at);
    let beside =
        bound.iter().filter(|(at, id)| count(*id, *at) == elements && !parts.buffer(*id).is_output());
    let shown: Vec<String> = beside
        .map(|(at, id)| {
            let (ty, bytes) = (parts.buffer(*id).ty, step.contents[*at].to_bytes());
            let element = &bytes[difference.element * ty.bytes()..][..ty.bytes()];
            format!("@{} = {}", parts.buffer(*id).name, show(ty, element))
        })
        .collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// The program as a file that tests itself: `vyre test FILE` runs it on the reference and expects the right bytes.
fn file(batch: &Batch, miss: &Miss) -> String {
    let text = vyre_foundation::text::print(&batch.program);
    match directive(batch, miss) {
        Some(directive) => format!("{directive}\n{text}"),
        None => text,
    }
}

/// Bytes of contents beyond which a directive would hide the program.
const DIRECTIVE_BYTES_MAX: usize = 4096;

fn directive(batch: &Batch, miss: &Miss) -> Option<String> {
    let parts = batch.program.parts();
    let step = &batch.steps[miss.step];
    let bytes: usize = step.contents.iter().map(Content::len).sum();
    if bytes > DIRECTIVE_BYTES_MAX {
        return None;
    }
    let mut words = vec!["//@ run".to_owned()];
    let bound = bound_buffers(parts);
    for (id, content) in bound.iter().zip(&step.contents) {
        let buffer = parts.buffer(*id);
        words.push(match content {
            Content::Bytes(bytes) => format!("{}={}", buffer.name, list(buffer.ty, bytes)),
            Content::Zeros(len) => format!("size {}={}", buffer.name, len / buffer.ty.bytes()),
        });
    }
    if vyre_foundation::launch::indirect(parts).is_none() {
        let [x, y, z] = step.grid;
        words.push(format!("grid=({x},{y},{z})"));
    }
    words.push("=>".into());
    match &miss.expected {
        Answer::Trap(code) => words.push(format!("trap {code}")),
        Answer::Outputs(outputs) => {
            let names = bound.iter().filter(|id| parts.buffer(**id).is_output());
            let spelled = names.zip(outputs).map(|(id, bytes)| (parts.buffer(*id), bytes));
            words
                .extend(spelled.map(|(buffer, bytes)| format!("{}={}", buffer.name, list(buffer.ty, bytes))));
        }
    }
    Some(wrapped(&words))
}

/// Words on lines of some length, all of which belong to one directive.
fn wrapped(words: &[String]) -> String {
    let mut lines = vec![String::new()];
    for word in words {
        let line = lines.last_mut().expect("there is a line");
        match line.is_empty() || line.len() + word.len() < 110 {
            true => *line += &format!("{}{word}", if line.is_empty() { "" } else { " " }),
            false => lines.push(format!("//@+ {word}")),
        }
    }
    lines.join("\n")
}

/// Elements as a directive writes them.
fn list(ty: DataType, bytes: &[u8]) -> String {
    let elements: Vec<&[u8]> = bytes.chunks(ty.bytes()).collect();
    match elements.first() {
        Some(first) if elements.len() > 4 && elements.iter().all(|element| element == first) => {
            format!("[{}; {}]", print_literal(literal(ty, first)), elements.len())
        }
        _ => {
            let items: Vec<String> =
                elements.iter().map(|element| print_literal(literal(ty, element))).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

fn literal(ty: DataType, bytes: &[u8]) -> Literal {
    let mut bits = [0; 8];
    bits[..bytes.len()].copy_from_slice(bytes);
    Literal::from_bits(ty, u64::from_le_bytes(bits))
}

fn difference(program: &Program, miss: &Miss) -> Option<Difference> {
    let (Answer::Outputs(expected), Ok(Answer::Outputs(actual))) = (&miss.expected, &miss.actual) else {
        return None;
    };
    let parts = program.parts();
    let outputs = bound_buffers(parts).into_iter().filter(|id| parts.buffer(*id).is_output());
    let mut first: Option<Difference> = None;
    for ((id, expected), actual) in outputs.zip(expected).zip(actual) {
        let buffer = parts.buffer(id);
        let size = buffer.ty.bytes();
        for (element, (a, b)) in expected.chunks(size).zip(actual.chunks(size)).enumerate() {
            if a == b {
                continue;
            }
            let found = first.get_or_insert_with(|| Difference {
                buffer: buffer.name.to_string(),
                element,
                expected: show(buffer.ty, a),
                actual: show(buffer.ty, b),
                count: 0,
            });
            found.count += 1;
        }
    }
    first
}

/// An element as a literal, with its bits.
fn show(ty: DataType, bytes: &[u8]) -> String {
    let literal = literal(ty, bytes);
    format!("{} ({ty} 0x{:0width$x})", print_literal(literal), literal.bits(), width = bytes.len() * 2)
}
