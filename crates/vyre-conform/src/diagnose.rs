//! From a wrong answer to its likely cause.

use crate::batch::Group;
use crate::failure::{Cause, Difference, ParityFailure};
use crate::judge::{Answer, Miss, Prepared};
use crate::target::{Fault, Target};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::bound_buffers;

/// Makes a failure of a wrong answer: the smallest program that still fails, and the likely cause.
pub(crate) fn explain(
    target: &dyn Target,
    group: &Group,
    prepared: &Prepared,
    miss: Miss,
    reduce: bool,
    replay: String,
) -> ParityFailure {
    let cause = cause(&miss);
    let (batch, miss) = match reduce {
        true => crate::reduce::reduce(target, &prepared.batch, miss),
        false => (prepared.batch.clone(), miss),
    };
    let step = &batch.steps[miss.step];
    let parts = batch.program.parts();
    let names = bound_buffers(parts).into_iter().map(|id| parts.buffer(id).name.to_string());
    let bytes = |answer: &Answer| match answer {
        Answer::Outputs(outputs) => outputs.concat(),
        Answer::Trap(_) => Vec::new(),
    };
    ParityFailure {
        case: prepared.batch.name.clone(),
        level: group.level,
        track: group.track,
        cause,
        message: message(&miss),
        program: vyre_foundation::text::print(&batch.program),
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

fn message(miss: &Miss) -> String {
    match (&miss.expected, &miss.actual) {
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
    }
}

fn cause(miss: &Miss) -> Cause {
    match (&miss.expected, &miss.actual) {
        (_, Err(Fault::Error(text))) if !text.contains("Fix:") => Cause::NoFix,
        (_, Err(Fault::Error(_))) => Cause::Refused,
        (_, Err(Fault::Panic(_))) => Cause::Panicked,
        (_, Err(Fault::Length { .. })) => Cause::WrongLength,
        (Answer::Trap(_), _) | (_, Ok(Answer::Trap(_))) => Cause::Trap,
        (Answer::Outputs(_), Ok(Answer::Outputs(_))) => Cause::Unknown,
    }
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
fn show(ty: vyre_foundation::ir::DataType, bytes: &[u8]) -> String {
    let mut bits = [0; 8];
    bits[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(bits);
    format!("{ty} 0x{bits:0width$x}", width = bytes.len() * 2)
}
