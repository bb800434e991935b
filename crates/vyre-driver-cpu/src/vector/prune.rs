//! Drops what nobody reads: the lowering writes vectors of addresses and masks that often turn out not to be needed.
//!
//! What has an effect is live, what branches ask is live, and so is whatever something live reads. A block's parameter
//! makes the arguments for it live.

use super::code::{Function, Reg, Term};
use smallvec::SmallVec;

/// Where a register comes from.
#[derive(Clone, Copy)]
enum Source {
    Nothing,
    Inst { block: u32, at: u32 },
    Param { block: u32, at: u32 },
}

/// Drops dead instructions, parameters and arguments.
pub(super) fn prune(function: &mut Function) {
    let mut sources = vec![Source::Nothing; function.kinds.len()];
    let mut jumps: Vec<SmallVec<[u32; 4]>> = vec![SmallVec::new(); function.blocks.len()];
    let mut live = vec![false; function.kinds.len()];
    let mut work: Vec<Reg> = Vec::with_capacity(function.kinds.len());
    for (at, block) in function.blocks.iter().enumerate() {
        for (place, param) in block.params.iter().enumerate() {
            sources[param.index()] = Source::Param { block: at as u32, at: place as u32 };
        }
        for (place, inst) in block.insts.iter().enumerate() {
            if let Some(result) = inst.result {
                sources[result.index()] = Source::Inst { block: at as u32, at: place as u32 };
            }
            if !inst.op.is_pure() {
                inst.op.for_each_operand(|reg| work.push(reg));
            }
        }
        match &block.term {
            Term::Jump(to, _) => jumps[to.index()].push(at as u32),
            Term::Branch { cond, .. } => work.push(*cond),
            Term::Return => {}
        }
    }
    work.extend(&function.blocks[0].params);
    while let Some(reg) = work.pop() {
        if std::mem::replace(&mut live[reg.index()], true) {
            continue;
        }
        match sources[reg.index()] {
            Source::Nothing => {}
            Source::Inst { block, at } => {
                let inst = &function.blocks[block as usize].insts[at as usize];
                inst.op.for_each_operand(|operand| work.push(operand));
            }
            Source::Param { block, at } => {
                for from in &jumps[block as usize] {
                    if let Term::Jump(_, args) = &function.blocks[*from as usize].term {
                        work.push(args[at as usize]);
                    }
                }
            }
        }
    }
    for at in 0..function.blocks.len() {
        let mut term = std::mem::replace(&mut function.blocks[at].term, Term::Return);
        if let Term::Jump(to, args) = &mut term {
            let mut params = function.blocks[to.index()].params.iter();
            args.retain(|_| params.next().is_none_or(|param| live[param.index()]));
        }
        function.blocks[at].term = term;
    }
    for block in &mut function.blocks {
        block.params.retain(|param| live[param.index()]);
        block.insts.retain(|inst| !inst.op.is_pure() || inst.result.is_some_and(|reg| live[reg.index()]));
    }
}
