//! Traps by number: what a device records of a trap is one small integer, and this is what it stands for.

use crate::soften::SoftenError;
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{Block, FunctionId, Node, Program, ProgramParts, walk};
use vyre_foundation::opt::Pass;
use vyre_foundation::validate::{ValidProgram, validate};

/// A program whose traps carry their numbers as codes, and the code and place that each number stands for.
pub struct Numbered {
    /// The program, with its functions inlined if there are traps.
    pub program: ValidProgram,
    /// By number.
    pub traps: Vec<(u32, Place)>,
}

/// Numbers the traps in program order, functions counted where they are called. Passes may copy a trap and never change
/// its code, so the least number recorded is the first trap of the program as written.
///
/// Fails only where inlining goes beyond the limits of the language.
pub fn number(program: &ValidProgram) -> Result<Numbered, SoftenError> {
    let mut traps = Vec::new();
    find(program.parts(), None, &mut traps);
    if traps.is_empty() {
        return Ok(Numbered { program: program.clone(), traps });
    }
    let mut parts = program.parts().clone();
    let inline = Pass::from_name("inline").expect("the optimiser inlines");
    (inline.run)(&mut parts);
    renumber(&mut parts.body.block, &mut (0..));
    let program = Program::new(parts).map_err(|error| SoftenError::limit(error.message))?;
    let program = validate(&program).map_err(|findings| SoftenError::limit(findings[0].message.clone()))?;
    Ok(Numbered { program, traps })
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
