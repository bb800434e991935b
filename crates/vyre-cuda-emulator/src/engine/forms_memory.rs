//! Loads, stores, atomics, copies and addresses: their forms as the ISA lists them.

use super::code::{Access, Action, Kind, NOWHERE, Number, Order, Slot, Space, Strength};
use super::decode::{Decoded, Decoder, bits, holds};
use super::forms::{Modifiers, count};
use crate::alu::Type;
use crate::ptx::Operand;
use crate::tensor;

const SPACES: [&str; 8] =
    ["global", "shared", "shared::cta", "local", "const", "param", "param::entry", "param::func"];
const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];
const LOADED: [&str; 14] =
    ["b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64"];

fn space(name: Option<&str>) -> Decoded<Space> {
    Ok(match name {
        None => Space::Generic,
        Some("global") => Space::Global,
        Some("shared" | "shared::cta") => Space::Shared,
        Some("local") => Space::Local,
        Some("const") => Space::Const,
        Some("param" | "param::entry") => Space::Param,
        Some(other) => return Err(format!("the space '.{other}' is not supported by this emulator")),
    })
}

/// The type of a register for a memory type, and whether it is extended by its sign.
fn loaded(name: &str) -> (Type, bool) {
    let ty = match name {
        "b8" => Type::B8,
        "u8" => Type::U8,
        "s8" => Type::S8,
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
    };
    (ty, name.starts_with('s'))
}

/// An address: its register and its offset. One that is a variable's alone has a constant for its register.
fn address(decoder: &mut Decoder<'_>, operand: &Operand, space: Space) -> Decoded<(Slot, i64)> {
    let Operand::Address(base, offset) = operand else {
        return Err("an address in brackets is expected".into());
    };
    match &**base {
        Operand::Register(name) => {
            let (slot, ty) = decoder.register(name)?;
            let narrow = matches!(space, Space::Shared | Space::Local | Space::Const | Space::Param);
            let is_integer = !matches!(ty, Type::Pred | Type::F32 | Type::F64);
            match bits(ty) {
                64 if is_integer => Ok((slot, *offset)),
                32 if is_integer && narrow => Ok((slot, *offset)),
                _ => Err(format!("register '{name}' can't hold an address of this space")),
            }
        }
        Operand::Symbol(name) => {
            let (slot, own) = decoder.symbol(name, 0, Type::B64)?;
            let generic = space == Space::Generic && own == Space::Global;
            match own == space || generic {
                true => Ok((slot, *offset)),
                false => Err(format!("'{name}' is not in the space that the instruction names")),
            }
        }
        Operand::Int(value) => {
            if space != Space::Local {
                return Err("Immediate addresses allowed only for .local state space".into());
            }
            let value = u64::try_from(*value).map_err(|_| "an address is not negative".to_owned())?;
            Ok((decoder.constant(super::code::Constant::Value(value)), *offset))
        }
        _ => Err("an address is a register, a variable or a number, and an offset".into()),
    }
}

pub(super) fn shared_address(decoder: &mut Decoder<'_>, operand: &Operand) -> Decoded<(Slot, i64)> {
    address(decoder, operand, Space::Shared)
}

/// Hints to caches, which change no result. An operator is for weak accesses and excludes a priority, which memory in
/// caches alone has; only loads prefetch.
fn cache_hints(modifiers: &mut Modifiers<'_>, operators: &[&'static str], access: Hinted) -> Decoded<()> {
    let Hinted { space, order, volatile, loads } = access;
    let operator = modifiers.take(operators);
    if order != Order::Weak && operator.is_some() {
        return Err("a cache operator is for weak accesses".into());
    }
    let first =
        ["L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"];
    let priority = modifiers.take(&first);
    let cached = matches!(space, Space::Generic | Space::Global);
    if priority.is_some() && (!cached || volatile || operator.is_some()) {
        return Err("an eviction priority is for global memory, and for no volatile access".into());
    }
    let prefetches = loads && modifiers.take(&["L2::64B", "L2::128B", "L2::256B"]).is_some();
    if prefetches && !cached {
        return Err("State space incorrect for feature 'cache prefetching'".into());
    }
    Ok(())
}

/// What decides which hints an access may have.
struct Hinted {
    space: Space,
    order: Order,
    volatile: bool,
    loads: bool,
}

/// Strong accesses are to memory that threads share.
fn check_order(space: Space, strength: Strength) -> Decoded<()> {
    match space {
        Space::Local | Space::Const | Space::Param if strength.order != Order::Weak => {
            Err("only accesses to global and shared memory are volatile or have an order".into())
        }
        _ => Ok(()),
    }
}

fn vector(modifiers: &mut Modifiers<'_>) -> u32 {
    match modifiers.take(&["v2", "v4"]) {
        Some("v2") => 2,
        Some(_) => 4,
        None => 1,
    }
}

/// The registers that an access moves, and how.
fn elements(
    decoder: &mut Decoder<'_>,
    operand: &Operand,
    count: u32,
    name: &str,
    write: bool,
) -> Decoded<(Vec<Slot>, Access)> {
    let (ty, signed) = loaded(name);
    if count * bits(ty) > 128 {
        return Err("a vector access has more than 128 bits".into());
    }
    let parts = match operand {
        Operand::Vector(parts) if count > 1 => parts.as_slice(),
        Operand::Vector(_) => return Err("a list of registers needs .v2 or .v4".into()),
        other => std::slice::from_ref(other),
    };
    if parts.len() != count as usize {
        return Err(format!("{count} registers are expected, not {}", parts.len()));
    }
    let mut slots = Vec::new();
    let mut register_bits = None;
    for part in parts {
        slots.push(match part {
            Operand::Register(name) => {
                let (slot, own) = decoder.register(name)?;
                if !fits(own, ty) {
                    return Err(format!("Arguments mismatch: register '{name}' is not of type {ty:?}"));
                }
                if register_bits.replace(bits(own)).is_some_and(|other| other != bits(own)) {
                    return Err("the registers of a vector have one size".into());
                }
                slot
            }
            Operand::Discard if write && count > 1 => NOWHERE,
            Operand::Float(..) if bits(ty) == 8 => {
                return Err("Arguments mismatch: an integer of 8 bits is expected".into());
            }
            other if !write => decoder.source(other, if bits(ty) == 8 { Type::B32 } else { ty })?,
            _ => return Err("a register is expected".into()),
        });
    }
    if slots.iter().all(|slot| *slot == NOWHERE) {
        return Err("one register at least is loaded".into());
    }
    let register_bits = register_bits.unwrap_or(bits(ty));
    Ok((slots, Access { bytes: bits(ty) / 8, count, signed, register_bits }))
}

/// A register may be wider than what is loaded or stored, but for floats.
fn fits(register: Type, ty: Type) -> bool {
    let is_float = |ty| matches!(ty, Type::F16 | Type::F32 | Type::F64);
    match ty {
        _ if (is_float(ty) || is_float(register)) && bits(register) != bits(ty) => false,
        Type::B8 | Type::B16 | Type::B32 | Type::B64 => register != Type::Pred && bits(register) >= bits(ty),
        _ => holds(register, ty),
    }
}

pub(super) fn load(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
) -> Decoded<()> {
    let volatile = modifiers.rest().first() == Some(&"volatile");
    let mut strength = ordering(modifiers, "acquire", Order::Acquire)?;
    let space = space(modifiers.take(&SPACES))?;
    check_order(space, strength)?;
    let hinted = || Hinted { space, order: strength.order, volatile, loads: true };
    cache_hints(modifiers, &["ca", "cg", "cs", "lu", "cv"], hinted())?;
    if modifiers.has("nc") {
        if space != Space::Global || strength.order != Order::Weak {
            return Err("'.nc' is for 'ld.global' alone".into());
        }
        cache_hints(modifiers, &[], hinted())?;
        strength.order = Order::Constant;
    }
    let count_of = vector(modifiers);
    let name = modifiers.need(&LOADED)?;
    modifiers.end()?;
    count(operands, 2)?;
    let (dests, access) = elements(decoder, &operands[0], count_of, name, true)?;
    let (base, offset) = address(decoder, &operands[1], space)?;
    if space == Space::Param {
        return param(decoder, &operands[1], dests, access);
    }
    decoder.push(Kind::Load { space, offset, access, strength }, dests, vec![base], None);
    Ok(())
}

/// Parameters are at places that are known.
fn param(decoder: &mut Decoder<'_>, operand: &Operand, dests: Vec<Slot>, access: Access) -> Decoded<()> {
    let Operand::Address(base, offset) = operand else { return Err("an address is expected".into()) };
    let Operand::Symbol(name) = &**base else {
        return Err("a parameter's address must be its name and an offset for this emulator".into());
    };
    let (_, start) = decoder.frame.find(name).ok_or_else(|| format!("Unknown symbol '{name}'"))?;
    let at = (start as i64).saturating_add(*offset);
    let end = at.saturating_add(i64::from(access.bytes * access.count));
    if at < 0
        || end > i64::from(decoder.frame.param_bytes)
        || at % i64::from(access.bytes * access.count) != 0
    {
        return Err(format!("the access to '{name}' is outside of the parameters, or misaligned"));
    }
    decoder.push(Kind::Param { offset: at as u32, access }, dests, vec![], None);
    Ok(())
}

/// `.weak`, `.volatile`, `.relaxed.scope`, or the given strong one with its scope.
fn ordering(modifiers: &mut Modifiers<'_>, strong: &'static str, order: Order) -> Decoded<Strength> {
    let order = match modifiers.take(&["weak", "volatile", "relaxed", strong]) {
        None | Some("weak") => return Ok(Strength::WEAK),
        // As relaxed for the whole system.
        Some("volatile") => return Ok(Strength { order: Order::Relaxed, block_only: false }),
        Some("relaxed") => Order::Relaxed,
        Some(_) => order,
    };
    let scope = modifiers.need(&SCOPES)?;
    Ok(Strength { order, block_only: scope == "cta" })
}

pub(super) fn store(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
) -> Decoded<()> {
    let volatile = modifiers.rest().first() == Some(&"volatile");
    let strength = ordering(modifiers, "release", Order::Release)?;
    let space = space(modifiers.take(&SPACES))?;
    if matches!(space, Space::Const | Space::Param) {
        return Err("nothing can be stored to this space".into());
    }
    check_order(space, strength)?;
    let hinted = Hinted { space, order: strength.order, volatile, loads: false };
    cache_hints(modifiers, &["wb", "cg", "cs", "wt"], hinted)?;
    let count_of = vector(modifiers);
    let name = modifiers.need(&LOADED)?;
    modifiers.end()?;
    count(operands, 2)?;
    let (values, access) = elements(decoder, &operands[1], count_of, name, false)?;
    let (base, offset) = address(decoder, &operands[0], space)?;
    let mut sources = vec![base];
    sources.extend(values);
    decoder.push(Kind::Store { space, offset, access, strength }, vec![], sources, None);
    Ok(())
}

pub(super) fn atom(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
) -> Decoded<()> {
    atomic(decoder, modifiers, operands, true)
}

pub(super) fn red(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
) -> Decoded<()> {
    atomic(decoder, modifiers, operands, false)
}

fn atomic(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
    returns: bool,
) -> Decoded<()> {
    // What returns nothing acquires nothing.
    let orders = ["relaxed", "release", "acquire", "acq_rel"];
    let order = match modifiers.take(if returns { &orders } else { &orders[..2] }) {
        None | Some("relaxed") => Order::Relaxed,
        Some("acquire") => Order::Acquire,
        Some("release") => Order::Release,
        Some(_) => Order::AcquireRelease,
    };
    let block_only = modifiers.take(&SCOPES) == Some("cta");
    let space = space(modifiers.take(&["global", "shared", "shared::cta"]))?;
    let names = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"];
    let name = modifiers.need(if returns { &names } else { &names[..8] })?;
    let action = match name {
        "add" => Action::Add,
        "min" => Action::Min,
        "max" => Action::Max,
        "inc" => Action::Inc,
        "dec" => Action::Dec,
        "and" => Action::And,
        "or" => Action::Or,
        "xor" => Action::Xor,
        "exch" => Action::Exchange,
        _ => Action::CompareExchange,
    };
    let (ty, number) = atomic_type(action, modifiers)?;
    modifiers.end()?;
    let values = if action == Action::CompareExchange { 2 } else { 1 };
    count(operands, values + 1 + usize::from(returns))?;
    let (first, rest) = operands.split_at(usize::from(returns));
    let dests = match first {
        [dest] => vec![decoder.dest_or_nowhere(dest, ty)?],
        _ => vec![NOWHERE],
    };
    let (base, offset) = address(decoder, &rest[0], space)?;
    let mut sources = vec![base];
    for value in &rest[1..] {
        sources.push(decoder.source(value, ty)?);
    }
    let strength = Strength { order, block_only };
    decoder.push(Kind::Atomic { space, offset, action, ty: number, strength }, dests, sources, None);
    Ok(())
}

/// The types that the ISA lists for each operation.
fn atomic_type(action: Action, modifiers: &mut Modifiers<'_>) -> Decoded<(Type, Number)> {
    let known: &[&'static str] = match action {
        Action::Add => &["u32", "s32", "u64", "f32", "f64"],
        Action::Min | Action::Max => &["u32", "s32", "u64", "s64"],
        Action::Inc | Action::Dec => &["u32"],
        Action::And | Action::Or | Action::Xor | Action::Exchange => &["b32", "b64"],
        Action::CompareExchange => &["b32", "b64", "b16"],
    };
    Ok(match modifiers.need(known)? {
        "u32" => (Type::U32, Number::Unsigned(32)),
        "s32" => (Type::S32, Number::Signed(32)),
        "u64" => (Type::U64, Number::Unsigned(64)),
        "s64" => (Type::S64, Number::Signed(64)),
        "f32" => (Type::F32, Number::F32),
        "f64" => (Type::F64, Number::F64),
        "b16" => (Type::B16, Number::Bits(16)),
        "b64" => (Type::B64, Number::Bits(64)),
        _ => (Type::B32, Number::Bits(32)),
    })
}

pub(super) fn cvta(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
) -> Decoded<()> {
    let from_generic = modifiers.has("to");
    let space = space(Some(modifiers.need(&["global", "shared", "shared::cta", "local", "const"])?))?;
    modifiers.need(&["u64"])?;
    modifiers.end()?;
    count(operands, 2)?;
    let dest = decoder.dest(&operands[0], Type::U64)?;
    let source = match &operands[1] {
        Operand::Symbol(name) if !from_generic => decoder.symbol(name, 0, Type::B64)?.0,
        Operand::Sum(name, offset) if !from_generic => decoder.symbol(name, *offset, Type::B64)?.0,
        other => decoder.source(other, Type::U64)?,
    };
    let kind = if from_generic { Kind::FromGeneric(space) } else { Kind::ToGeneric(space) };
    decoder.push(kind, vec![dest], vec![source], None);
    Ok(())
}

pub(super) fn is_space(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
) -> Decoded<()> {
    let space = space(Some(modifiers.need(&["global", "shared", "shared::cta", "local", "const"])?))?;
    modifiers.end()?;
    count(operands, 2)?;
    let dest = decoder.dest(&operands[0], Type::Pred)?;
    let source = decoder.source(&operands[1], Type::U64)?;
    decoder.push(Kind::IsSpace(space), vec![dest], vec![source], None);
    Ok(())
}

pub(super) fn prefetch(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
) -> Decoded<()> {
    let space = space(modifiers.take(&["global", "local"]))?;
    modifiers.need(&["L1", "L2"])?;
    modifiers.end()?;
    count(operands, 1)?;
    let (base, _) = address(decoder, &operands[0], space)?;
    decoder.push(Kind::Nothing, vec![], vec![base], None);
    Ok(())
}

pub(super) fn cp_async(
    decoder: &mut Decoder<'_>,
    modifiers: &mut Modifiers<'_>,
    operands: &[Operand],
) -> Decoded<()> {
    if !matches!(modifiers.rest(), ["async", "commit_group" | "wait_all" | "wait_group"]) {
        let form = tensor::CpAsync::of(modifiers.rest(), decoder.target)?;
        return copy(decoder, &form, operands);
    }
    let kind = match tensor::CopyGroups::of(modifiers.rest(), decoder.target)? {
        tensor::CopyGroups::Commit => Kind::CpCommit,
        tensor::CopyGroups::WaitAll => Kind::CpWait(None),
        tensor::CopyGroups::Wait => {
            count(operands, 1)?;
            let Operand::Int(groups) = operands[0] else {
                return Err("a number of groups is expected".into());
            };
            Kind::CpWait(Some(tensor::groups_under_way(groups)?))
        }
    };
    count(operands, usize::from(matches!(kind, Kind::CpWait(Some(_)))))?;
    decoder.push(kind, vec![], vec![], None);
    Ok(())
}

fn copy(decoder: &mut Decoder<'_>, form: &tensor::CpAsync, operands: &[Operand]) -> Decoded<()> {
    let [to, from, Operand::Int(size), rest @ ..] = operands else {
        return Err("'cp.async' has an address to copy to, one to copy from, and a size".into());
    };
    let bytes = form.size(*size)?;
    let (to, to_offset) = address(decoder, to, Space::Shared)?;
    let (from, from_offset) = address(decoder, from, Space::Global)?;
    let mut sources = vec![to, from];
    match rest {
        [] => {}
        [Operand::Int(read)] => {
            form.source_size(bytes, *read)?;
            sources.push(decoder.source(&rest[0], Type::U32)?);
        }
        [read] if !form.has_cache_policy() => sources.push(decoder.source(read, Type::U32)?),
        _ => return Err("this form of 'cp.async' is not supported by this emulator".into()),
    }
    let sized = sources.len() == 3;
    decoder.push(Kind::CpAsync { offsets: [to_offset, from_offset], bytes, sized }, vec![], sources, None);
    Ok(())
}
