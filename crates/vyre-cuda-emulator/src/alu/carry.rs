//! Arithmetic with the carry flag, for integers of more words than one.
//!
//! The flag is the carry of an addition, or the borrow of a subtraction. `mad` and `madc` carry out of their addition.

use super::integer::{PARTS, Part};
use super::syntax::Reader;
use super::{Fun, Out, Scalar, Type};

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let product = reader.opcode.starts_with("mad");
    let part = if product { Some(reader.required("One of .lo and .hi", &PARTS[..2])?) } else { None };
    let writes_carry = reader.flag("cc");
    let reads_carry = reader.opcode.ends_with('c');
    let ty = reader.ty(&[Type::U32, Type::S32, Type::U64, Type::S64])?;
    if matches!(ty, Type::U64 | Type::S64) {
        reader.needs("64-bit extended-precision arithmetic", 43, 20)?;
    }
    let fun = with_flag!(
        reads_carry,
        READS,
        match part {
            Some(Part::Lo) => with_integer!(ty, |_T, U, _W| Fun::Lane(|x, carry| {
                sum::<{ U::BITS }>((x[0] as U).wrapping_mul(x[1] as U) as u64, x[2], READS && carry)
            })),
            Some(_) => with_integer!(ty, |T, U, W| Fun::Lane(|x, carry| {
                let high = (W::from(x[0] as T) * W::from(x[1] as T)) >> T::BITS;
                sum::<{ U::BITS }>(high as U as u64, x[2], READS && carry)
            })),
            None if reader.opcode.starts_with("add") =>
                with_integer!(ty, |_T, U, _W| Fun::Lane(|x, carry| {
                    sum::<{ U::BITS }>(x[0], x[1], READS && carry)
                })),
            None => with_integer!(ty, |_T, U, _W| Fun::Lane(|x, borrow| {
                difference::<{ U::BITS }>(x[0], x[1], READS && borrow)
            })),
        }
    );
    let sources = vec![ty; if product { 3 } else { 2 }];
    Ok(Scalar { fun, second: None, dests: vec![ty], sources, reads_carry, writes_carry })
}

fn sum<const BITS: u32>(a: u64, b: u64, carry: bool) -> Out {
    let sum = u128::from(a) + u128::from(b) + u128::from(carry);
    Out { values: [sum as u64 & (!0 >> (64 - BITS)), 0], carry: sum >> BITS != 0 }
}

fn difference<const BITS: u32>(a: u64, b: u64, borrow: bool) -> Out {
    let subtrahend = u128::from(b) + u128::from(borrow);
    let difference = u128::from(a).wrapping_sub(subtrahend);
    Out { values: [difference as u64 & (!0 >> (64 - BITS)), 0], carry: u128::from(a) < subtrahend }
}
