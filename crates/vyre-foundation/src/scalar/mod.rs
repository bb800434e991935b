//! What every computing op means: the one definition that the reference interpreter and constant folding share.
//!
//! A value is the bits of its type in the low end of a `u64`, the rest zero. An op's [`Meaning`] takes up to four
//! of them and gives one. The files follow the types: `int` for the integers, `float` for the floats, `cast` for
//! the ops between two types; bool has so few ops that they stand here.
//!
//! Two things make the answers the same on every host. Floats of 16 bits are computed in f64 and rounded once, by
//! integer arithmetic (`float` and `round` say why once is enough). And every NaN that an op makes is the canonical one, though
//! the language lets it be any: the bits of a NaN from Rust's own operators are not specified.
//!
//! Not here: memory, other lanes, and which operand types a line may have (the op table and the validator).

mod cast;
mod float;
mod int;
mod round;

use crate::ir::{ComputeOp, DataType, ReduceOp, int_or_bool};

/// A computing op on bits: operands in, result out, neither with bits beyond its type.
///
/// Operands stand in the order of the op table; unused places are not read.
pub type Meaning = fn(&[u64; 4]) -> u64;

/// What `op` means under suffix `ty`; `None` if the op table does not have it for that type. A test asks for every op and
/// type of the table.
///
/// `source` is the operand's type for `cast` and `bitcast`, which exist for a pair only if this says so. The other
/// ops do not look at it.
///
/// ```
/// use vyre_foundation::ir::{ComputeOp, DataType};
/// use vyre_foundation::scalar::meaning;
///
/// let div = meaning(ComputeOp::Div, DataType::U32, DataType::U32).unwrap();
/// assert_eq!(div(&[7, 0, 0, 0]), 7);
/// ```
pub fn meaning(op: ComputeOp, ty: DataType, source: DataType) -> Option<Meaning> {
    if !op.info().types.contains(ty) {
        return None;
    }
    if op == ComputeOp::Cast {
        return cast::cast(ty, source);
    }
    if op == ComputeOp::Bitcast {
        return cast::bitcast(ty, source);
    }
    if op == ComputeOp::Select {
        // It moves bits, so it is the same for every type.
        return Some(|x| if x[0] != 0 { x[1] } else { x[2] });
    }
    match ty {
        DataType::Bool => boolean(op),
        DataType::U32 => int::u32(op),
        DataType::I32 => int::i32(op),
        DataType::U64 => int::u64(op),
        DataType::I64 => int::i64(op),
        DataType::F16 => float::f16(op),
        DataType::BF16 => float::bf16(op),
        DataType::F32 => float::f32(op),
        DataType::F64 => float::f64(op),
        DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 => None,
    }
}

/// Bool's ops.
fn boolean(op: ComputeOp) -> Option<Meaning> {
    Some(match op {
        ComputeOp::And => |x| x[0] & x[1],
        ComputeOp::Or => |x| x[0] | x[1],
        ComputeOp::Xor => |x| x[0] ^ x[1],
        ComputeOp::Not => |x| x[0] ^ 1,
        ComputeOp::Eq => |x| u64::from(x[0] == x[1]),
        ComputeOp::Ne => |x| u64::from(x[0] != x[1]),
        // The table lists no other.
        _ => return None,
    })
}

/// The bits as storage and bitcasts show them: a NaN becomes the canonical one, all else stays.
#[inline]
pub const fn observe(ty: DataType, bits: u64) -> u64 {
    match float(ty) {
        // The sign is the top bit, and what lies above infinity without it is NaN.
        Some(float) if bits & (ty.mask() >> 1) > float.infinity => float.nan,
        Some(_) | None => bits,
    }
}

/// The bits of a float type's special values.
struct Float {
    one: u64,
    infinity: u64,
    nan: u64,
}

#[inline]
const fn float(ty: DataType) -> Option<Float> {
    let (one, infinity) = match ty {
        DataType::F16 => (0x3c00, 0x7c00),
        DataType::BF16 => (0x3f80, 0x7f80),
        DataType::F32 => (0x3f80_0000, 0x7f80_0000),
        DataType::F64 => (0x3ff0_0000_0000_0000, 0x7ff0_0000_0000_0000),
        int_or_bool!() => return None,
    };
    match ty.canonical_nan() {
        Some(nan) => Some(Float { one, infinity, nan }),
        None => None,
    }
}

/// The value a fold starts from: `fold(identity, x)` is `x`, except that `+0.0 + -0.0` is `+0.0`.
pub const fn identity(fold: ReduceOp, ty: DataType) -> u64 {
    let sign = ty.mask() ^ (ty.mask() >> 1);
    match (fold, float(ty)) {
        (ReduceOp::Add | ReduceOp::Or | ReduceOp::Xor, _) => 0,
        (ReduceOp::And, _) => ty.mask(),
        (ReduceOp::Mul, Some(float)) => float.one,
        (ReduceOp::Mul, None) => 1,
        (ReduceOp::Min, Some(float)) => float.infinity,
        (ReduceOp::Max, Some(float)) => float.infinity | sign,
        (ReduceOp::Min, None) if ty.is_signed() => ty.mask() ^ sign,
        (ReduceOp::Max, None) if ty.is_signed() => sign,
        (ReduceOp::Min, None) => ty.mask(),
        (ReduceOp::Max, None) => 0,
    }
}

/// An element's little-endian bytes as a value of the type it computes as; small integers extend by their sign.
///
/// `bytes` holds at least one element. A bool is not storable and reads 0.
#[inline]
pub fn widen(ty: DataType, bytes: &[u8]) -> u64 {
    match ty {
        DataType::Bool => 0,
        DataType::U8 => bytes[0].into(),
        DataType::I8 => (bytes[0] as i8 as u32).into(),
        DataType::U16 | DataType::F16 | DataType::BF16 => u16::from_le_bytes([bytes[0], bytes[1]]).into(),
        DataType::I16 => (i16::from_le_bytes([bytes[0], bytes[1]]) as u32).into(),
        DataType::U32 | DataType::I32 | DataType::F32 => {
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into()
        }
        DataType::U64 | DataType::I64 | DataType::F64 => u64::from_le_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ]),
    }
}

/// Writes a value's low bits as an element of `ty`, little-endian; small integers truncate, NaN bits stay.
///
/// `bytes` has room for at least one element.
#[inline]
pub fn narrow(ty: DataType, bits: u64, bytes: &mut [u8]) {
    match ty.bytes() {
        1 => bytes[0] = bits as u8,
        2 => bytes[..2].copy_from_slice(&(bits as u16).to_le_bytes()),
        4 => bytes[..4].copy_from_slice(&(bits as u32).to_le_bytes()),
        8 => bytes[..8].copy_from_slice(&bits.to_le_bytes()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_op_table_has_a_meaning() {
        for op in ComputeOp::ALL {
            for ty in DataType::ALL {
                let pairs = *op == ComputeOp::Cast || *op == ComputeOp::Bitcast;
                let listed = op.info().types.contains(ty) && ty.computes();
                let found = DataType::ALL.iter().any(|source| meaning(*op, ty, *source).is_some());
                assert_eq!(found, listed, "{} {ty}", op.info().name);
                assert!(pairs || meaning(*op, ty, ty).is_some() == listed, "{} {ty}", op.info().name);
            }
        }
    }

    #[test]
    fn results_stay_within_their_type() {
        let patterns =
            [0, 1, 0x7c01, 0x7fff, 0x8000, 0x8000_0000, 0xffff_ffff, 1 << 63, 0x0123_4567_89ab_cdef, !0];
        for (op, ty, source) in all_pairs() {
            let Some(run) = meaning(op, ty, source) else { continue };
            let info = op.info();
            let result = info.result.under(ty).unwrap();
            for (i, a) in patterns.iter().enumerate() {
                for b in patterns {
                    let raw = [*a, b, patterns[(i + 3) % patterns.len()], b ^ a];
                    let mut x = [0; 4];
                    for (place, arg) in info.args.iter().enumerate() {
                        x[place] = raw[place] & arg.under(ty).unwrap_or(source).mask();
                    }
                    let bits = run(&x);
                    assert_eq!(bits & !result.mask(), 0, "{} {ty} {source} {x:x?} -> {bits:x}", info.name);
                }
            }
        }
    }

    fn all_pairs() -> impl Iterator<Item = (ComputeOp, DataType, DataType)> {
        let types = || DataType::ALL.into_iter();
        ComputeOp::ALL.iter().flat_map(move |op| types().flat_map(move |a| types().map(move |b| (*op, a, b))))
    }

    #[test]
    fn bitcasts_pair_equal_widths_and_16_bit_floats_with_u32() {
        let allowed = |ty, source| meaning(ComputeOp::Bitcast, ty, source).is_some();
        let count =
            all_pairs().filter(|(op, ty, source)| *op == ComputeOp::Bitcast && allowed(*ty, *source)).count();
        assert_eq!(count, 3 * 3 + 3 * 3 + 4);
        assert!(allowed(DataType::F16, DataType::U32) && allowed(DataType::U32, DataType::BF16));
        assert!(!allowed(DataType::F16, DataType::BF16) && !allowed(DataType::I32, DataType::F16));
    }

    #[test]
    fn a_fold_keeps_what_it_starts_from() {
        for fold in ReduceOp::ALL {
            for ty in DataType::ALL {
                let Some(run) = meaning(fold.op(), ty, ty) else { continue };
                for x in [0, 1, ty.mask() >> 1, ty.mask() ^ ty.mask() >> 1, 0x3c00, 0x3f80_0000] {
                    let x = observe(ty, x & ty.mask());
                    let negative_zero = ty.is_float() && x == ty.mask() ^ ty.mask() >> 1;
                    let expected = if fold == ReduceOp::Add && negative_zero { 0 } else { x };
                    let nan = Some(x) == ty.canonical_nan();
                    // min and max prefer the number, here the identity.
                    if nan && matches!(fold, ReduceOp::Min | ReduceOp::Max) {
                        continue;
                    }
                    assert_eq!(run(&[identity(fold, ty), x, 0, 0]), expected, "{} {ty} {x:x}", fold.name());
                }
            }
        }
    }

    #[test]
    fn elements_widen_by_their_sign_and_narrow_back() {
        let bytes = [0x80, 0xff, 0x01, 0xfe, 0x55, 0xaa, 0x00, 0x91];
        assert_eq!(widen(DataType::I8, &bytes), 0xffff_ff80);
        assert_eq!(widen(DataType::I16, &bytes), 0xffff_ff80);
        assert_eq!(widen(DataType::U16, &bytes), 0xff80);
        for ty in DataType::ALL.into_iter().filter(|ty| ty.stores()) {
            let mut back = [0; 8];
            narrow(ty, widen(ty, &bytes), &mut back);
            assert_eq!(back[..ty.bytes()], bytes[..ty.bytes()], "{ty}");
            assert_eq!(back[ty.bytes()..], [0; 8][ty.bytes()..], "{ty}");
        }
    }
}
