//! How deep blocks nest: some drivers' compilers have a limit.

use vyre_foundation::ir::{Block, Node, ProgramParts, walk};

/// The blocks around the innermost line of a program, those of the functions that it calls counted where they are called.
/// What an emitter puts around a single line comes on top.
pub(crate) fn nesting(parts: &ProgramParts) -> u32 {
    // Each function is above its callers.
    let mut functions: Vec<u32> = Vec::with_capacity(parts.functions.len());
    for function in &parts.functions {
        functions.push(of_block(&function.body.block, &functions));
    }
    of_block(&parts.body.block, &functions)
}

fn of_block(block: &Block, functions: &[u32]) -> u32 {
    let mut deepest = 0;
    walk(block, |_, depth, node| {
        let called = match node {
            Node::Call { function, .. } => functions[function.index()],
            _ => 0,
        };
        deepest = deepest.max(depth as u32 + called);
    });
    deepest
}
