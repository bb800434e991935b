//! Traps by number: a device records one small integer of a trap, and a table gives its code and place.

use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{Block, FunctionId, Node, ProgramParts, walk};
use vyre_foundation::opt::{Draft, Pass};

/// Numbers the traps in program order, functions counted where they are called; the code and place of each. Passes may
/// copy a trap and never change its code, so the least number recorded is the first trap of the program as written.
pub(super) fn number(draft: &mut Draft<'_>) -> Vec<(u32, Place)> {
    let mut traps = Vec::new();
    find(draft.parts(), None, &mut traps);
    if !traps.is_empty() {
        draft.run_once(&[Pass::Inline]);
        renumber(&mut draft.parts_mut().body.block, &mut (0..));
    }
    traps
}

fn find(parts: &ProgramParts, function: Option<FunctionId>, out: &mut Vec<(u32, Place)>) {
    let body = function.map_or(&parts.body, |function| &parts.functions[function.index()].body);
    walk(&body.block, |site, _, node| match node {
        Node::Trap { code } => out.push((*code, Place::Line { function, site })),
        Node::Call { function, .. } => find(parts, Some(*function), out),
        _ => {}
    });
}

fn renumber(block: &mut Block, numbers: &mut std::ops::RangeFrom<u32>) {
    for node in block {
        if let Node::Trap { code } = node {
            *code = numbers.next().unwrap_or(u32::MAX);
        }
        node.blocks_mut().for_each(|inner| renumber(inner, numbers));
    }
}
