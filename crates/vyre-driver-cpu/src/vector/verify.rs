//! Holds vector code to its rules.
//!
//! Checked: every register is assigned once, by the kind its op gives; operands have the kinds their op asks for; every use
//! is dominated by its assignment; branches go to blocks of their own without parameters, jumps pass what is asked for;
//! constants of ops (shift amounts, lanes, scales) are in range; every block is reached and stands behind its
//! dominators. Not checked: addresses.

use super::code::{Address, BitOp, Block, BlockId, Elem, Function, Indexed, Kind, Num, Op, Reg, Term};
use smallvec::SmallVec;

/// The blocks that go to one.
pub(super) type Predecessors = SmallVec<[u32; 2]>;

/// Panics with what is wrong and the code, in builds with debug assertions: a mistake of the lowering, not of a user.
pub fn assert_valid(function: &Function) {
    if cfg!(debug_assertions)
        && let Err(message) = verify(function)
    {
        panic!("vector code breaks its rules: {message}\n{function}");
    }
}

/// What is wrong first, if anything is.
pub fn verify(function: &Function) -> Result<(), String> {
    if !function.lanes.is_power_of_two() || !(2..=32).contains(&function.lanes) {
        return Err(format!("{} lanes", function.lanes));
    }
    let entry = function.blocks.first().ok_or("no entry block")?;
    if entry.params.len() != 4 || entry.params.iter().any(|param| function.kind(*param) != Kind::S64) {
        return Err("the entry block takes four S64".to_owned());
    }
    let predecessors = predecessors(function)?;
    check_edges(function, &predecessors)?;
    let dominators = immediate_dominators(function, &predecessors)?;
    let homes = homes(function)?;
    for (at, block) in function.blocks.iter().enumerate() {
        check_block(function, &Dominance { homes: &homes, dominators: &dominators }, at as u32, block)
            .map_err(|message| format!("b{at}: {message}"))?;
    }
    Ok(())
}

/// The kind that an op gives, or why it cannot stand with those operands. `asked` is the kind that a constant is to
/// have.
pub fn result_kind(
    op: &Op,
    lanes: u32,
    asked: Option<Kind>,
    kind: impl Fn(Reg) -> Kind,
) -> Result<Option<Kind>, String> {
    let want = |reg: Reg, ask: Kind| match kind(reg) {
        found if found == ask => Ok(()),
        found => Err(format!("{op:?}: v{} is {found:?} and must be {ask:?}", reg.0)),
    };
    let bits = |reg: Reg| match kind(reg) {
        Kind::Mask => Err(format!("{op:?}: v{} is a mask", reg.0)),
        other => Ok(other),
    };
    let address = |at: &Address| {
        want(at.base, Kind::S64)?;
        let Some((index, scale)) = at.index else { return Ok(()) };
        check_scale(scale)?;
        want(index, Kind::S64)
    };
    let masked = |mask: &Option<Reg>| mask.map_or(Ok(()), |mask| want(mask, Kind::Mask));
    let indexed = |at: &Indexed| {
        want(at.base, Kind::S64)?;
        want(at.index, Kind::V32)?;
        check_scale(at.scale)?;
        masked(&at.mask)
    };
    let word = |elem: Elem| match elem {
        Elem::B32 | Elem::B64 => Ok(()),
        Elem::U8 | Elem::I8 | Elem::U16 | Elem::I16 => Err(format!("{op:?}: no atomics on small elements")),
    };
    Ok(Some(match op {
        Op::Const(_) => asked.ok_or("a constant needs a kind")?,
        Op::LaneIndex => Kind::V32,
        Op::Int(_, a, b) | Op::Shift(_, a, b) => {
            want(*b, bits(*a)?)?;
            kind(*a)
        }
        Op::ShiftImm(_, a, n) => {
            let found = bits(*a)?;
            if u32::from(*n) >= found.bits() {
                return Err(format!("{op:?}: the amount reaches the width"));
            }
            found
        }
        Op::Bit(bit, a) => {
            if *bit == BitOp::Ctz && !kind(*a).is_scalar() {
                return Err(format!("{op:?}: on scalars only"));
            }
            bits(*a)?
        }
        Op::IntCmp(_, a, b) => {
            want(*b, bits(*a)?)?;
            if kind(*a).is_scalar() { Kind::S32 } else { Kind::Mask }
        }
        Op::Float(_, float, a, b) => {
            want(*a, float.kind())?;
            want(*b, float.kind())?;
            float.kind()
        }
        Op::FloatUn(_, float, a) => {
            want(*a, float.kind())?;
            float.kind()
        }
        Op::Fma(float, a, b, c) => {
            [a, b, c].into_iter().try_for_each(|reg| want(*reg, float.kind()))?;
            float.kind()
        }
        Op::FloatCmp(_, float, a, b) => {
            want(*a, float.kind())?;
            want(*b, float.kind())?;
            Kind::Mask
        }
        Op::Select(cond, a, b) => {
            let lanewise = kind(*cond) == Kind::Mask;
            if !lanewise {
                want(*cond, Kind::S32)?;
            }
            if lanewise && !kind(*a).is_vector() {
                return Err(format!("{op:?}: a mask chooses among lanes of vectors"));
            }
            want(*b, kind(*a))?;
            kind(*a)
        }
        Op::Convert { from, to, value } => convert_kind(op, *from, *to, kind(*value))?,
        Op::HalfToFloat(a) | Op::FloatToHalf(a) => {
            want(*a, Kind::V32)?;
            Kind::V32
        }
        Op::Mask(_, a, b) => {
            want(*a, Kind::Mask)?;
            want(*b, Kind::Mask)?;
            Kind::Mask
        }
        Op::MaskNot(a) => {
            want(*a, Kind::Mask)?;
            Kind::Mask
        }
        Op::MaskFirst(n) | Op::BitsToMask(n) => {
            want(*n, Kind::S32)?;
            Kind::Mask
        }
        Op::MaskToBits(a) => {
            want(*a, Kind::Mask)?;
            Kind::S32
        }
        Op::Splat(a) => match kind(*a) {
            Kind::S32 => Kind::V32,
            Kind::S64 => Kind::V64,
            other => return Err(format!("{op:?}: of a {other:?}")),
        },
        Op::Extract(a, lane) => match kind(*a) {
            _ if u32::from(*lane) >= lanes => return Err(format!("{op:?}: there are {lanes} lanes")),
            Kind::V32 => Kind::S32,
            Kind::V64 => Kind::S64,
            other => return Err(format!("{op:?}: of a {other:?}")),
        },
        Op::Permute(a, index) => {
            want(*index, Kind::V32)?;
            match kind(*a) {
                found if found.is_vector() => found,
                other => return Err(format!("{op:?}: of a {other:?}")),
            }
        }
        Op::LoadS(elem, at) => {
            address(at)?;
            elem.scalar()
        }
        Op::LoadSplat(elem, at) => {
            address(at)?;
            elem.vector()
        }
        Op::StoreS(elem, at, value) => {
            address(at)?;
            want(*value, elem.scalar())?;
            return Ok(None);
        }
        Op::LoadV(elem, at, mask) => {
            address(at)?;
            masked(mask)?;
            elem.vector()
        }
        Op::StoreV(elem, at, value, mask) => {
            address(at)?;
            want(*value, elem.vector())?;
            masked(mask)?;
            return Ok(None);
        }
        Op::StoreStream(elem, at, value) => {
            word(*elem)?;
            address(at)?;
            want(*value, elem.vector())?;
            return Ok(None);
        }
        Op::Gather(elem, at) => {
            indexed(at)?;
            elem.vector()
        }
        Op::Scatter(elem, at, value) => {
            indexed(at)?;
            want(*value, elem.vector())?;
            return Ok(None);
        }
        Op::Rmw { elem, at, value, .. } => {
            word(*elem)?;
            address(at)?;
            want(*value, elem.scalar())?;
            elem.scalar()
        }
        Op::CompareExchange { elem, at, expected, value, .. } => {
            word(*elem)?;
            address(at)?;
            want(*expected, elem.scalar())?;
            want(*value, elem.scalar())?;
            elem.scalar()
        }
        Op::Poll(at) => {
            address(at)?;
            Kind::S32
        }
    }))
}

fn check_scale(scale: u8) -> Result<(), String> {
    if matches!(scale, 1 | 2 | 4 | 8) { Ok(()) } else { Err(format!("a scale of {scale}")) }
}

fn convert_kind(op: &Op, from: Num, to: Num, operand: Kind) -> Result<Kind, String> {
    let integers = !from.is_float() && !to.is_float();
    if from == to || integers && from.is_wide() == to.is_wide() {
        return Err(format!("{op:?}: converts nothing"));
    }
    let pick = |wide, narrow, num: Num| if num.is_wide() { wide } else { narrow };
    match operand {
        Kind::S32 | Kind::S64 if integers && operand == pick(Kind::S64, Kind::S32, from) => {
            Ok(pick(Kind::S64, Kind::S32, to))
        }
        Kind::V32 | Kind::V64 if operand == pick(Kind::V64, Kind::V32, from) => {
            Ok(pick(Kind::V64, Kind::V32, to))
        }
        other => Err(format!("{op:?}: of a {other:?}")),
    }
}

/// By block; fails on a block that nothing goes to.
pub(super) fn predecessors(function: &Function) -> Result<Vec<Predecessors>, String> {
    let mut found = vec![Predecessors::new(); function.blocks.len()];
    let mut missing = None;
    for (at, block) in function.blocks.iter().enumerate() {
        block.term.for_each_target(|to| match found.get_mut(to.index()) {
            Some(list) => list.push(at as u32),
            None => missing = Some(to),
        });
    }
    if let Some(BlockId(to)) = missing {
        return Err(format!("a jump to b{to}, which is not there"));
    }
    if !found[0].is_empty() {
        return Err("a jump to the entry block".to_owned());
    }
    match found.iter().skip(1).position(|list| list.is_empty()) {
        Some(at) => Err(format!("nothing goes to b{}", at + 1)),
        None => Ok(found),
    }
}

fn check_edges(function: &Function, predecessors: &[Predecessors]) -> Result<(), String> {
    for (at, block) in function.blocks.iter().enumerate() {
        match &block.term {
            Term::Return => {}
            Term::Jump(to, args) => {
                let params = &function.blocks[to.index()].params;
                let same = params.iter().map(|param| function.kind(*param));
                if !args.iter().map(|arg| function.kind(*arg)).eq(same) {
                    return Err(format!("b{at}: its arguments do not fit b{}", to.0));
                }
            }
            Term::Branch { cond, then, otherwise } => {
                if !matches!(function.kind(*cond), Kind::S32 | Kind::Mask) {
                    return Err(format!("b{at}: branches on a {:?}", function.kind(*cond)));
                }
                for to in [then, otherwise] {
                    let fits = function.blocks[to.index()].params.is_empty()
                        && predecessors[to.index()].len() == 1
                        && then != otherwise;
                    if !fits {
                        return Err(format!("b{at}: b{} has parameters or is reached otherwise too", to.0));
                    }
                }
            }
        }
    }
    Ok(())
}

/// The immediate dominator of every block (its own number for the entry). In one pass, since every block must stand behind
/// all that dominates it: only back edges come from behind, and those do not change a dominator.
pub(super) fn immediate_dominators(
    function: &Function,
    predecessors: &[Predecessors],
) -> Result<Vec<u32>, String> {
    let mut dominators: Vec<u32> = Vec::with_capacity(function.blocks.len());
    dominators.push(0);
    for at in 1..function.blocks.len() as u32 {
        let mut forward = predecessors[at as usize].iter().copied().filter(|from| *from < at);
        let first = forward.next().ok_or_else(|| format!("b{at} comes before its predecessors"))?;
        let meet = |mut a: u32, mut b: u32| {
            while a != b {
                if a > b { a = dominators[a as usize] } else { b = dominators[b as usize] }
            }
            a
        };
        let dominator = forward.fold(first, meet);
        dominators.push(dominator);
    }
    Ok(dominators)
}

/// Where each register is assigned: block, and place in it (0 for parameters, instructions from 1).
fn homes(function: &Function) -> Result<Vec<(u32, u32)>, String> {
    const NOWHERE: (u32, u32) = (u32::MAX, u32::MAX);
    let mut homes = vec![NOWHERE; function.kinds.len()];
    for (at, block) in function.blocks.iter().enumerate() {
        let params = block.params.iter().map(|param| (*param, 0));
        let results = block.insts.iter().zip(1..).filter_map(|(inst, place)| Some((inst.result?, place)));
        for (reg, place) in params.chain(results) {
            let home = homes.get_mut(reg.index()).ok_or_else(|| format!("v{} has no kind", reg.0))?;
            if *home != NOWHERE {
                return Err(format!("v{} is assigned twice", reg.0));
            }
            *home = (at as u32, place);
        }
    }
    Ok(homes)
}

struct Dominance<'a> {
    homes: &'a [(u32, u32)],
    dominators: &'a [u32],
}

impl Dominance<'_> {
    fn check(&self, reg: Reg, block: u32, place: u32) -> Result<(), String> {
        let (home, assigned) =
            *self.homes.get(reg.index()).ok_or_else(|| format!("v{} has no kind", reg.0))?;
        let mut at = block;
        while at > home && home != u32::MAX {
            at = self.dominators[at as usize];
        }
        if at != home || at == block && assigned >= place {
            return Err(format!("v{} is not assigned on every way here", reg.0));
        }
        Ok(())
    }
}

fn check_block(function: &Function, dominance: &Dominance<'_>, at: u32, block: &Block) -> Result<(), String> {
    for (inst, place) in block.insts.iter().zip(1..) {
        let mut uses = Ok(());
        inst.op.for_each_operand(|reg| uses = uses.clone().and(dominance.check(reg, at, place)));
        uses?;
        let asked = inst.result.map(|result| function.kind(result));
        let kind = result_kind(&inst.op, function.lanes, asked, |reg| function.kind(reg))?;
        if kind != asked {
            return Err(format!("{:?} gives {kind:?}, and its result is {asked:?}", inst.op));
        }
    }
    let mut uses = Ok(());
    block.term.for_each_operand(|reg| uses = uses.clone().and(dominance.check(reg, at, u32::MAX)));
    uses
}
