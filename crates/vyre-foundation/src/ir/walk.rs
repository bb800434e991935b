//! Walks over bodies that several parts share.

use super::node::{Block, Node};
use super::program::{Body, Function};
use super::types::DataType;

/// Calls `f(site, depth, node)` for every line in textual order.
///
/// A site is a line's number in its body, nested blocks counted where they stand: the location that diagnostics,
/// traps and analyses speak of.
pub fn walk<'a>(block: &'a Block, mut f: impl FnMut(u32, usize, &'a Node)) {
    fn go<'a>(block: &'a Block, depth: usize, site: &mut u32, f: &mut impl FnMut(u32, usize, &'a Node)) {
        for node in block {
            f(*site, depth, node);
            *site += 1;
            for inner in node.blocks() {
                go(inner, depth + 1, site, f);
            }
        }
    }
    go(block, 0, &mut 0, &mut f);
}

/// The type of every value of a body, by value; `None` for one whose line gives none (a call without result).
pub fn value_types(
    body: &Body,
    function: Option<&Function>,
    functions: &[Function],
) -> Vec<Option<DataType>> {
    let mut types = vec![None; body.values.len()];
    for (param, ty) in function.iter().flat_map(|function| &function.params) {
        types[param.index()] = Some(*ty);
    }
    walk(&body.block, |_, _, node| {
        let Some(result) = node.result() else { return };
        // The first assignment counts; a second one is an error that the validator reports.
        let ty = match node {
            Node::Call { function, .. } => functions[function.index()].result,
            other => other.result_type(),
        };
        types[result.index()] = types[result.index()].or(ty);
    });
    types
}
