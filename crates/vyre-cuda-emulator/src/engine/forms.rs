//! Instructions that are not arithmetic: moves, flow, and what threads do together. Memory has `forms_memory`.

use super::code::{AlignedOp, BarrierStep, Fence, Kind, NOWHERE, Redux, Shuffle, Slot, Space, WarpOp};
use super::decode::{Decoded, Decoder, WARP_SIZE, bits};
use super::forms_memory;
use crate::alu::Type;
use crate::ptx::Operand;
use crate::tensor;

/// The modifiers of an instruction, taken from the left.
pub(super) struct Modifiers<'a> {
    rest: &'a [&'a str],
}

impl<'a> Modifiers<'a> {
    pub(super) fn new(all: &'a [&'a str]) -> Modifiers<'a> {
        Modifiers { rest: all }
    }

    /// The next one, if it is among these.
    pub(super) fn take(&mut self, known: &[&'static str]) -> Option<&'static str> {
        let next = self.rest.first()?;
        let found = known.iter().find(|known| *known == next)?;
        self.rest = &self.rest[1..];
        Some(found)
    }

    pub(super) fn has(&mut self, one: &'static str) -> bool {
        self.take(&[one]).is_some()
    }

    /// One of these, which must be there.
    pub(super) fn need(&mut self, known: &[&'static str]) -> Decoded<&'static str> {
        self.take(known).ok_or_else(|| match self.rest.first() {
            Some(other) => format!("Illegal modifier '.{other}'; expected one of .{}", known.join(", .")),
            None => format!("a modifier is missing; expected one of .{}", known.join(", .")),
        })
    }

    pub(super) fn end(&self) -> Decoded<()> {
        match self.rest.first() {
            None => Ok(()),
            Some(other) => Err(format!("Illegal modifier '.{other}'")),
        }
    }

    pub(super) fn rest(&self) -> &'a [&'a str] {
        self.rest
    }
}

type Form = fn(&mut Decoder<'_>, &mut Modifiers<'_>, &[Operand]) -> Decoded<()>;

/// What decodes an instruction that is not arithmetic.
pub(super) fn decoder_of(opcode: &str) -> Option<Form> {
    Some(match opcode {
        "mov" => mov,
        "ret" | "exit" => exit,
        "trap" => trap,
        "bar" | "barrier" => barrier,
        "shfl" => shuffle,
        "vote" => vote,
        "match" => matching,
        "redux" => redux,
        "activemask" => active_mask,
        "membar" => membar,
        "fence" => fence,
        "nanosleep" => nanosleep,
        "ldmatrix" | "stmatrix" => matrix,
        "mma" => mma,
        "wgmma" => wgmma,
        "ld" => forms_memory::load,
        "st" => forms_memory::store,
        "atom" => forms_memory::atom,
        "red" => forms_memory::red,
        "cvta" => forms_memory::cvta,
        "isspacep" => forms_memory::is_space,
        "prefetch" => forms_memory::prefetch,
        "cp" => forms_memory::cp_async,
        _ => return None,
    })
}

pub(super) fn count(operands: &[Operand], expected: usize) -> Decoded<()> {
    match operands.len() == expected {
        true => Ok(()),
        false => Err(format!("the instruction has {expected} operands, not {}", operands.len())),
    }
}

const MOVED: [&str; 12] =
    ["pred", "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"];

fn moved(ty: &str) -> Type {
    match ty {
        "pred" => Type::Pred,
        "b16" => Type::B16,
        "u16" => Type::U16,
        "s16" => Type::S16,
        "b32" => Type::B32,
        "u32" => Type::U32,
        "s32" => Type::S32,
        "f32" => Type::F32,
        "u64" => Type::U64,
        "s64" => Type::S64,
        "f64" => Type::F64,
        _ => Type::B64,
    }
}

fn mov(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    let name = modifiers.need(&MOVED)?;
    let ty = moved(name);
    modifiers.end()?;
    count(operands, 2)?;
    let packs = operands.iter().any(|operand| matches!(operand, Operand::Vector(_)));
    if packs && !name.starts_with('b') {
        return Err("Arguments mismatch for instruction 'mov': a value with parts is of type .b".into());
    }
    match (&operands[0], &operands[1]) {
        (Operand::Vector(parts), whole) => {
            let (narrow, count) = part_type(ty, parts.len())?;
            let source = decoder.source(whole, ty)?;
            let dests: Decoded<Vec<Slot>> =
                parts.iter().map(|part| decoder.dest_or_nowhere(part, narrow)).collect();
            decoder.push(Kind::Unpack(count), dests?, vec![source], None);
        }
        (dest, Operand::Vector(parts)) => {
            let (narrow, count) = part_type(ty, parts.len())?;
            let dest = decoder.dest(dest, ty)?;
            let sources: Decoded<Vec<Slot>> = parts.iter().map(|part| decoder.source(part, narrow)).collect();
            decoder.push(Kind::Pack(count), vec![dest], sources?, None);
        }
        (dest, Operand::Symbol(name) | Operand::Sum(name, _)) if name != WARP_SIZE => {
            let dest = decoder.dest(dest, ty)?;
            let offset = if let Operand::Sum(_, offset) = &operands[1] { *offset } else { 0 };
            let (source, space) = decoder.symbol(name, offset, ty)?;
            if space == Space::Param
                || bits(ty) < 32
                || matches!(space, Space::Global | Space::Const) && bits(ty) < 64
            {
                return Err(format!("the address of '{name}' can't be moved to a register of that type"));
            }
            decoder.push(Kind::Move, vec![dest], vec![source], None);
        }
        (dest, source) => {
            let dest = decoder.dest(dest, ty)?;
            let source = decoder.source(source, ty)?;
            decoder.push(Kind::Move, vec![dest], vec![source], None);
        }
    }
    Ok(())
}

/// The type of each part of a value, and its bits.
fn part_type(ty: Type, parts: usize) -> Decoded<(Type, u32)> {
    match (bits(ty), parts) {
        (64, 2) => Ok((Type::B32, 32)),
        (32, 2) | (64, 4) => Ok((Type::B16, 16)),
        (32, 4) | (16, 2) => Ok((Type::B8, 8)),
        _ => Err("a value of that type can't have so many parts".into()),
    }
}

fn exit(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    if decoder.opcode == "ret" {
        modifiers.has("uni");
    }
    modifiers.end()?;
    count(operands, 0)?;
    decoder.push(Kind::Exit, vec![], vec![], None);
    Ok(())
}

fn trap(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    modifiers.end()?;
    count(operands, 0)?;
    decoder.push(Kind::Trap, vec![], vec![], None);
    Ok(())
}

fn nanosleep(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    modifiers.need(&["u32"])?;
    modifiers.end()?;
    count(operands, 1)?;
    let source = decoder.source(&operands[0], Type::U32)?;
    decoder.push(Kind::Nothing, vec![], vec![source], None);
    Ok(())
}

fn active_mask(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
) -> Decoded<()> {
    modifiers.need(&["b32"])?;
    modifiers.end()?;
    count(operands, 1)?;
    let dest = decoder.dest(&operands[0], Type::B32)?;
    decoder.push(Kind::ActiveMask, vec![dest], vec![], None);
    Ok(())
}

/// `bar` is the form that all lanes of a warp execute together; `barrier` is not, unless it says so.
fn barrier(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    if modifiers.has("warp") {
        modifiers.need(&["sync"])?;
        modifiers.end()?;
        count(operands, 1)?;
        let mask = decoder.source(&operands[0], Type::B32)?;
        decoder.push(Kind::Warp(WarpOp::Sync), vec![], vec![mask], None);
        return Ok(());
    }
    // The two names differ in what they say of alignment alone.
    let is_bar = decoder.opcode == "bar";
    modifiers.has("cta");
    let step = modifiers.need(&["sync", "arrive", "red"])?;
    let folds = match step {
        "red" => Some(modifiers.need(&["popc", "and", "or"])?),
        _ => None,
    };
    let aligned = is_bar || modifiers.has("aligned");
    if let Some(fold) = folds {
        return barrier_fold(decoder, modifiers, operands, aligned, fold);
    }
    modifiers.end()?;
    let most = if step == "arrive" { 2..=2 } else { 1..=2 };
    if !most.contains(&operands.len()) {
        return Err(format!("a barrier does not have {} operands", operands.len()));
    }
    barrier_numbers(&operands[0], operands.get(1))?;
    if step == "arrive" && operands[1] == Operand::Int(0) {
        return Err("an arrival needs a number of threads that is not zero".into());
    }
    let sources: Decoded<Vec<Slot>> =
        operands.iter().map(|operand| decoder.source(operand, Type::U32)).collect();
    let step = if step == "sync" { BarrierStep::Sync } else { BarrierStep::Arrive };
    let kind = Kind::Barrier { aligned, counted: operands.len() == 2, step };
    decoder.push(kind, vec![], sources?, None);
    Ok(())
}

/// What can be said of a barrier's number and its threads before it runs.
fn barrier_numbers(number: &Operand, threads: Option<&Operand>) -> Decoded<()> {
    match (number, threads) {
        (Operand::Int(number), _) if !(0..=15).contains(number) => {
            Err(format!("Barrier number '{number}' out of range, expected to be in range [0..15]"))
        }
        (_, Some(Operand::Int(threads))) if threads % 32 != 0 => {
            Err("Number of threads participating in barrier must be in multiple of warp size".into())
        }
        _ => Ok(()),
    }
}

/// `barrier.red.and.pred p, a, b, q`.
fn barrier_fold(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
    aligned: bool,
    fold: &str,
) -> Decoded<()> {
    let (step, ty) = match fold {
        "popc" => (BarrierStep::Popc, Type::U32),
        "and" => (BarrierStep::And, Type::Pred),
        _ => (BarrierStep::Or, Type::Pred),
    };
    modifiers.need(if step == BarrierStep::Popc { &["u32"] } else { &["pred"] })?;
    modifiers.end()?;
    let counted = operands.len() == 4;
    if !counted {
        count(operands, 3)?;
    }
    barrier_numbers(&operands[1], counted.then(|| &operands[2]))?;
    let dest = decoder.dest(&operands[0], ty)?;
    let mut sources = vec![decoder.source(&operands[1], Type::U32)?];
    if counted {
        sources.push(decoder.source(&operands[2], Type::U32)?);
    }
    sources.push(decoder.source(&operands[operands.len() - 1], Type::Pred)?);
    decoder.push(Kind::Barrier { aligned, counted, step }, vec![dest], sources, None);
    Ok(())
}

/// The register and the predicate of `d|p`.
fn with_predicate(decoder: &Decoder<'_>, operand: &Operand, ty: Type) -> Decoded<Vec<Slot>> {
    match operand {
        Operand::Pair(first, second) => {
            Ok(vec![decoder.dest_or_nowhere(first, ty)?, decoder.dest_or_nowhere(second, Type::Pred)?])
        }
        other => Ok(vec![decoder.dest(other, ty)?, NOWHERE]),
    }
}

/// All forms without `.sync` went away with sm_70.
fn synced(modifiers: &mut Modifiers<'_>, name: &str) -> Decoded<()> {
    match modifiers.has("sync") {
        true => Ok(()),
        false => {
            Err(format!("Instruction '{name}' without '.sync' is not supported on .target sm_70 and higher"))
        }
    }
}

fn shuffle(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    synced(modifiers, "shfl")?;
    let mode = match modifiers.need(&["up", "down", "bfly", "idx"])? {
        "up" => Shuffle::Up,
        "down" => Shuffle::Down,
        "bfly" => Shuffle::Butterfly,
        _ => Shuffle::Index,
    };
    modifiers.need(&["b32"])?;
    modifiers.end()?;
    count(operands, 5)?;
    let dests = with_predicate(decoder, &operands[0], Type::B32)?;
    let sources: Decoded<Vec<Slot>> =
        operands[1..].iter().map(|operand| decoder.source(operand, Type::B32)).collect();
    decoder.push(Kind::Warp(WarpOp::Shuffle(mode)), dests, sources?, None);
    Ok(())
}

fn vote(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    synced(modifiers, "vote")?;
    let (op, ty) = match modifiers.need(&["all", "any", "uni", "ballot"])? {
        "all" => (WarpOp::VoteAll, Type::Pred),
        "any" => (WarpOp::VoteAny, Type::Pred),
        "uni" => (WarpOp::VoteUni, Type::Pred),
        _ => (WarpOp::Ballot, Type::B32),
    };
    modifiers.need(if op == WarpOp::Ballot { &["b32"] } else { &["pred"] })?;
    modifiers.end()?;
    count(operands, 3)?;
    let dest = decoder.dest(&operands[0], ty)?;
    let sources = vec![decoder.source(&operands[1], Type::Pred)?, decoder.source(&operands[2], Type::B32)?];
    decoder.push(Kind::Warp(op), vec![dest], sources, None);
    Ok(())
}

fn matching(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    let all = modifiers.need(&["any", "all"])? == "all";
    synced(modifiers, "match")?;
    let ty = if modifiers.need(&["b32", "b64"])? == "b64" { Type::B64 } else { Type::B32 };
    modifiers.end()?;
    count(operands, 3)?;
    let dests = match all {
        true => with_predicate(decoder, &operands[0], Type::B32)?,
        false => vec![decoder.dest(&operands[0], Type::B32)?],
    };
    let sources = vec![decoder.source(&operands[1], ty)?, decoder.source(&operands[2], Type::B32)?];
    decoder.push(Kind::Warp(if all { WarpOp::MatchAll } else { WarpOp::MatchAny }), dests, sources, None);
    Ok(())
}

fn redux(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    decoder.needs("redux.sync", 80, 70)?;
    synced(modifiers, "redux")?;
    let name = modifiers.need(&["add", "min", "max", "and", "or", "xor"])?;
    let ty = if matches!(name, "and" | "or" | "xor") {
        modifiers.need(&["b32"])?
    } else {
        modifiers.need(&["u32", "s32"])?
    };
    modifiers.end()?;
    count(operands, 3)?;
    let op = match (name, ty) {
        ("add", _) => Redux::Add,
        ("min", "s32") => Redux::MinSigned,
        ("min", _) => Redux::MinUnsigned,
        ("max", "s32") => Redux::MaxSigned,
        ("max", _) => Redux::MaxUnsigned,
        ("and", _) => Redux::And,
        ("or", _) => Redux::Or,
        _ => Redux::Xor,
    };
    let ty = moved(ty);
    let dest = decoder.dest(&operands[0], ty)?;
    let sources = vec![decoder.source(&operands[1], ty)?, decoder.source(&operands[2], Type::B32)?];
    decoder.push(Kind::Warp(WarpOp::Redux(op)), vec![dest], sources, None);
    Ok(())
}

fn membar(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    let level = modifiers.need(&["cta", "gl", "sys"])?;
    modifiers.end()?;
    count(operands, 0)?;
    let fence = if level == "cta" { Fence::Block } else { Fence::Device };
    decoder.push(Kind::Fence(fence), vec![], vec![], None);
    Ok(())
}

fn fence(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    count(operands, 0)?;
    if modifiers.has("proxy") {
        modifiers.need(&["async"])?;
        decoder.needs("fence.proxy.async", 90, 80)?;
        modifiers.take(&["shared::cta", "shared::cluster", "global"]);
        modifiers.end()?;
        decoder.push(Kind::Fence(Fence::ProxyAsync), vec![], vec![], None);
        return Ok(());
    }
    modifiers.take(&["sc", "acq_rel"]);
    let scope = modifiers.need(&["cta", "gpu", "sys", "cluster"])?;
    modifiers.end()?;
    let fence = if scope == "cta" { Fence::Block } else { Fence::Device };
    decoder.push(Kind::Fence(fence), vec![], vec![], None);
    Ok(())
}

/// The registers of a braced list.
fn registers(
    decoder: &mut Decoder<'_>,
    operand: &Operand,
    expected: usize,
    write: bool,
) -> Decoded<Vec<Slot>> {
    let parts = match operand {
        Operand::Vector(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    if parts.len() != expected {
        return Err(format!("a list of {expected} registers is expected, not of {}", parts.len()));
    }
    let slot = |part: &Operand| match write {
        true => decoder.dest(part, Type::B32),
        false => decoder.source(part, Type::B32),
    };
    parts.iter().map(slot).collect()
}

fn matrix(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    count(operands, 2)?;
    if decoder.opcode == "ldmatrix" {
        let matrix = tensor::Ldmatrix::of(modifiers.rest(), decoder.target)?;
        let dests = registers(decoder, &operands[0], matrix.registers(), true)?;
        let (base, offset) = forms_memory::shared_address(decoder, &operands[1])?;
        decoder.push(Kind::Aligned(AlignedOp::Ldmatrix { matrix, offset }), dests, vec![base], None);
        return Ok(());
    }
    let matrix = tensor::Stmatrix::of(modifiers.rest(), decoder.target)?;
    let (base, offset) = forms_memory::shared_address(decoder, &operands[0])?;
    let mut sources = vec![base];
    sources.extend(registers(decoder, &operands[1], matrix.registers(), false)?);
    decoder.push(Kind::Aligned(AlignedOp::Stmatrix { matrix, offset }), vec![], sources, None);
    Ok(())
}

fn mma(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    let mma = tensor::Mma::of(modifiers.rest(), decoder.target)?;
    count(operands, 4)?;
    let dests = registers(decoder, &operands[0], mma.c_registers(), true)?;
    let mut sources = registers(decoder, &operands[1], mma.a_registers(), false)?;
    sources.extend(registers(decoder, &operands[2], mma.b_registers(), false)?);
    sources.extend(registers(decoder, &operands[3], mma.c_registers(), false)?);
    decoder.push(Kind::Aligned(AlignedOp::Mma(mma)), dests, sources, None);
    Ok(())
}

/// The accumulators are read where the predicate is set, and written.
fn wgmma(decoder: &mut Decoder<'_>, modifiers: &mut Modifiers<'_>, operands: &[Operand]) -> Decoded<()> {
    if modifiers.rest().first() == Some(&"mma_async") {
        let wgmma = tensor::Wgmma::of(modifiers.rest(), decoder.target)?;
        return multiply(decoder, wgmma, operands);
    }
    let op = match tensor::WgmmaGroups::of(modifiers.rest(), decoder.target)? {
        tensor::WgmmaGroups::Fence => AlignedOp::WgmmaFence,
        tensor::WgmmaGroups::Commit => AlignedOp::WgmmaCommit,
        tensor::WgmmaGroups::Wait => {
            count(operands, 1)?;
            let Operand::Int(groups) = operands[0] else {
                return Err("a number of groups is expected".into());
            };
            let groups = tensor::groups_under_way(groups)?;
            decoder.push(Kind::Aligned(AlignedOp::WgmmaWait(groups)), vec![], vec![], None);
            return Ok(());
        }
    };
    count(operands, 0)?;
    decoder.push(Kind::Aligned(op), vec![], vec![], None);
    Ok(())
}

fn multiply(decoder: &mut Decoder<'_>, wgmma: tensor::Wgmma, operands: &[Operand]) -> Decoded<()> {
    count(operands, 4)?;
    let dests = registers(decoder, &operands[0], wgmma.d_registers(), true)?;
    let mut sources = match &operands[1] {
        Operand::Vector(_) => registers(decoder, &operands[1], wgmma.a_registers(), false)?,
        descriptor => vec![decoder.source(descriptor, Type::B64)?],
    };
    sources.push(decoder.source(&operands[2], Type::B64)?);
    sources.push(decoder.source(&operands[3], Type::Pred)?);
    sources.extend(&dests);
    decoder.push(Kind::Aligned(AlignedOp::Wgmma(Box::new(wgmma))), dests, sources, None);
    Ok(())
}
