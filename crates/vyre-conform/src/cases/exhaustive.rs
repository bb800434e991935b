//! Small domains without exception: every 16-bit float, every pair of bytes, every shift amount.
//!
//! The programs are those of the level below, on all operands. A full run leaves none out; a quick one takes every
//! thirteenth, which covers all upper and all lower bytes.

use super::operands::{Instance, Row, edges};
use super::ops::{instances, lanes, track};
use super::rows::Kernel;
use crate::batch::{Group, Level};
use vyre_foundation::ir::{ArgType, ComputeOp, DataType};

/// Of so many operands a quick run takes one.
const STEP: usize = 13;

pub(crate) fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for (at, instance) in instances().into_iter().enumerate() {
        let Some(domain) = domain(&instance) else { continue };
        let name = format!("all/{}", instance.title());
        groups.push(Group::fixed(name.clone(), Level::Laws, instance.track(), move |plan| {
            let rows = domain(&instance);
            // Small domains are whole in any run.
            let step = if rows.len() < 1_000 { 1 } else { plan.pick(STEP, 1) };
            let rows: Vec<Row> = rows.into_iter().step_by(step).collect();
            vec![instance.kernel(lanes(at)).batch(format!("{name}:{}", rows.len()), &rows)]
        }));
    }
    groups.extend(stored());
    groups
}

/// Makes all operands of an op.
type Domain = fn(&Instance) -> Vec<Row>;

/// All operands of an op, if they are few enough.
fn domain(instance: &Instance) -> Option<Domain> {
    let Instance { op, ty, source } = *instance;
    let is_half = |ty: DataType| ty.is_float() && ty.bits() == 16;
    match op.info().args {
        _ if ty == DataType::Bool && source == DataType::Bool => Some(|instance| instance.edge()),
        // Every 16-bit float; of integers that become one, the lower half.
        [_] if is_half(source) || is_half(ty) && source.is_integer() => Some(|instance| {
            let wide = |bits: u64| match instance.source.is_signed() {
                // Both signs.
                true => (bits as i16 as i64) as u64 & instance.source.mask(),
                false => bits,
            };
            (0..1 << 16).map(|bits| [wide(bits), 0, 0, 0]).collect()
        }),
        [ArgType::Same, ArgType::Same] if is_half(ty) => Some(half_pairs),
        [ArgType::Same, ArgType::Same] if ty.is_integer() => Some(byte_pairs),
        [ArgType::Same, ArgType::U32] => Some(|instance| {
            let values = edges(instance.ty).into_iter().take(48);
            values.flat_map(|x| (0..256).map(move |n| [x, n, 0, 0])).collect()
        }),
        _ if op == ComputeOp::Dot4 => Some(|_| {
            let bytes = (0..1u64 << 16).map(|bits| (bits & 255, bits >> 8));
            // At all four places in turn, the other bytes the complement.
            bytes
                .enumerate()
                .map(|(at, (a, b))| {
                    let place = 8 * (at as u32 / 256 % 4);
                    let around =
                        |byte: u64| u64::from((byte as u32 | (!byte as u32) << 8).rotate_left(place));
                    [around(a), around(b), a << 24, 0]
                })
                .collect()
        }),
        _ => None,
    }
}

/// All pairs of bytes, extended by the type's signedness. In 64 bits they are across the two halves.
fn byte_pairs(instance: &Instance) -> Vec<Row> {
    let ty = instance.ty;
    let value = |byte: u64, across: bool| {
        let wide = if ty.is_signed() { byte as u8 as i8 as i64 as u64 } else { byte };
        (if across { wide << 28 } else { wide }) & ty.mask()
    };
    let wide = ty.bits() == 64;
    let pairs = (0..1 << 16).map(|bits: u64| (bits & 255, bits >> 8));
    pairs.map(|(a, b)| [value(a, wide), value(b, wide && a % 2 == 1), 0, 0]).collect()
}

/// All pairs of 256 values: those with the upper bits of an f16, and for bf16 sixteen exponents around one.
fn half_pairs(instance: &Instance) -> Vec<Row> {
    let value = |byte: u64| match instance.ty {
        DataType::BF16 => (byte >> 7) << 15 | (119 + (byte >> 3 & 15)) << 7 | (byte & 7) << 4,
        _ => byte << 8 | byte >> 6,
    };
    (0..1 << 16).map(|bits: u64| [value(bits & 255), value(bits >> 8), 0, 0]).collect()
}

/// Every element of 8 and 16 bits, loaded and stored.
fn stored() -> Vec<Group> {
    let small = DataType::ALL.into_iter().filter(|ty| ty.stores() && ty.bits() <= 16);
    let group = |(at, ty): (usize, DataType)| {
        let name = format!("all/{ty}/memory");
        Group::fixed(name.clone(), Level::Laws, track(&[ty]), move |plan| {
            let wide = ty.computes_as();
            let kernel = |inputs: DataType, output: DataType| Kernel {
                lanes: lanes(at + 200),
                inputs: vec![inputs],
                lines: format!("    var $v : {wide} = %a\n    %y = get.{wide} $v\n"),
                outputs: vec![("y".into(), output)],
            };
            let step = if ty.bits() == 8 { 1 } else { plan.pick(STEP, 1) };
            let elements = || (0..=ty.mask()).step_by(step);
            let loaded: Vec<Row> = elements().map(|bits| [bits, 0, 0, 0]).collect();
            // What a store cuts off is not zero.
            let above =
                |bits: u64| if ty.computes() { 0 } else { bits.wrapping_mul(0x9e37_79b9) & !ty.mask() };
            let cut: Vec<Row> = elements().map(|bits| [bits | above(bits), 0, 0, 0]).collect();
            vec![
                kernel(ty, wide).batch(format!("{name}:load"), &loaded),
                kernel(wide, ty).batch(format!("{name}:store"), &cut),
            ]
        })
    };
    small.enumerate().map(group).collect()
}
