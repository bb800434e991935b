//! The limits on a program with its functions inlined.
//!
//! Functions call only those above them, so one pass in order of declaration knows each callee's totals before its
//! callers. Totals saturate: a chain of doubling calls has more lines than any counter. A function that the main body does
//! not reach is inlined nowhere, and counts nowhere.

use super::Findings;
use crate::diagnostic::Place;
use crate::ir::{Body, DataType, FunctionId, Node, ProgramParts, walk};
use crate::limits;

/// What a body amounts to with its calls inlined.
#[derive(Clone, Copy, Default)]
struct Totals {
    lines: u64,
    depth: usize,
    private_bytes: u64,
    /// Whether a limit was passed: reported once, not again by every caller.
    over: bool,
}

/// Checks the limits of the main body and of every function that it reaches.
pub(super) fn check(parts: &ProgramParts, findings: &mut Findings) {
    let called = called(parts);
    let mut known: Vec<Totals> = Vec::with_capacity(parts.functions.len());
    for (index, function) in parts.functions.iter().enumerate() {
        known.push(match called[index] {
            true => body(&function.body, Some(FunctionId(index as u32)), &known, findings),
            false => Totals::default(),
        });
    }
    body(&parts.body, None, &known, findings);
}

/// Which functions the main body reaches.
fn called(parts: &ProgramParts) -> Vec<bool> {
    let mut called = vec![false; parts.functions.len()];
    let mark = |body: &Body, called: &mut [bool]| {
        walk(&body.block, |_, _, node| {
            if let Node::Call { function, .. } = node {
                called[function.index()] = true;
            }
        });
    };
    mark(&parts.body, &mut called);
    for (index, function) in parts.functions.iter().enumerate().rev() {
        if called[index] {
            mark(&function.body, &mut called);
        }
    }
    called
}

fn body(body: &Body, function: Option<FunctionId>, known: &[Totals], findings: &mut Findings) -> Totals {
    let mut totals = Totals::default();
    walk(&body.block, |site, depth, node| {
        let before = totals;
        add(&mut totals, depth, node, known);
        if before.over || totals.over {
            totals.over = true;
            return;
        }
        if let Some((code, message, fix)) = passed(before, totals, node) {
            totals.over = true;
            findings.report(code, Place::Line { function, site }, message, fix);
        }
    });
    totals
}

fn add(totals: &mut Totals, depth: usize, node: &Node, known: &[Totals]) {
    totals.lines = totals.lines.saturating_add(1);
    totals.depth = totals.depth.max(depth);
    if let Node::Call { function, .. } = node {
        let callee = known[function.index()];
        totals.lines = totals.lines.saturating_add(callee.lines);
        totals.depth = totals.depth.max(depth + callee.depth);
        totals.private_bytes = totals.private_bytes.saturating_add(callee.private_bytes);
        totals.over |= callee.over;
    } else if let Node::Var { ty, len: Some(len), .. } = node {
        let bytes = element_bytes(*ty) * u64::from(*len);
        totals.private_bytes = totals.private_bytes.saturating_add(bytes);
    }
}

/// A bool takes a byte here: it is not storable in buffers, but a private array may hold it.
fn element_bytes(ty: DataType) -> u64 {
    (ty.bytes() as u64).max(1)
}

/// The limit that the last line passed, if it passed one.
fn passed(before: Totals, now: Totals, node: &Node) -> Option<(&'static str, String, String)> {
    let lines_max = limits::NODES_MAX as u64;
    if now.lines > lines_max {
        return Some((
            "V041",
            format!("with functions inlined up to here the program has more than {lines_max} lines"),
            "make fewer calls, or call in a loop: a call in a loop is inlined once".to_string(),
        ));
    }
    if now.depth > limits::NESTING_MAX {
        return Some((
            "V042",
            format!(
                "with this call inlined blocks nest {} deep, and they nest at most {}",
                now.depth,
                limits::NESTING_MAX
            ),
            format!("make this call outside {} of the blocks around it", now.depth - limits::NESTING_MAX),
        ));
    }
    if now.private_bytes <= limits::PRIVATE_BYTES_MAX {
        return None;
    }
    let room = limits::PRIVATE_BYTES_MAX - before.private_bytes;
    let fix = if let Node::Var { ty, .. } = node {
        match room / element_bytes(*ty) {
            0 => "declare fewer elements in the private arrays above".to_string(),
            elements => format!("declare at most {elements} elements here"),
        }
    } else {
        "declare fewer elements in the called function's private arrays, or call it in a loop".to_string()
    };
    let message = format!(
        "private arrays up to here, functions inlined, are {} bytes, and a lane has at most {}",
        now.private_bytes,
        limits::PRIVATE_BYTES_MAX
    );
    Some(("V010", message, fix))
}
