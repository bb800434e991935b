//! The integer ops: two's complement, wrapping, and an answer for every operand.

use super::Meaning;
use crate::ir::ComputeOp;

/// One integer type's ops. `$unsigned` has its width, `$wide` twice it, `$byte` a byte of its signedness.
macro_rules! integer {
    ($name:ident: $unsigned:ident, $wide:ident, $byte:ident) => {
        #[doc = concat!("The ops of ", stringify!($name), ".")]
        pub(super) fn $name(op: ComputeOp) -> Option<Meaning> {
            type T = $name;
            const WIDTH: u32 = T::BITS;
            /// An operand of the type itself.
            #[inline(always)]
            fn own(bits: u64) -> T {
                bits as T
            }
            /// A result of the type itself.
            #[inline(always)]
            fn bits(value: T) -> u64 {
                value as $unsigned as u64
            }
            macro_rules! one {
                (|$a:ident| $result:expr) => {
                    |x| {
                        let $a = own(x[0]);
                        bits($result)
                    }
                };
            }
            macro_rules! two {
                (|$a:ident, $b:ident| $result:expr) => {
                    |x| {
                        let ($a, $b) = (own(x[0]), own(x[1]));
                        bits($result)
                    }
                };
            }
            macro_rules! by_amount {
                (|$a:ident, $n:ident| $result:expr) => {
                    |x| {
                        // The amount is a u32 whatever the type, taken modulo the width.
                        let ($a, $n) = (own(x[0]), x[1] as u32 % WIDTH);
                        bits($result)
                    }
                };
            }
            macro_rules! test {
                (|$a:ident, $b:ident| $result:expr) => {
                    |x| {
                        let ($a, $b) = (own(x[0]), own(x[1]));
                        u64::from($result)
                    }
                };
            }
            Some(match op {
                ComputeOp::Add => two!(|a, b| a.wrapping_add(b)),
                ComputeOp::Sub => two!(|a, b| a.wrapping_sub(b)),
                ComputeOp::Mul => two!(|a, b| a.wrapping_mul(b)),
                ComputeOp::Div => two!(|a, b| if b == 0 { a } else { a.wrapping_div(b) }),
                ComputeOp::Rem => two!(|a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }),
                ComputeOp::Neg => one!(|a| a.wrapping_neg()),
                ComputeOp::Abs => one!(|a| (a as i128).unsigned_abs() as T),
                ComputeOp::Min => two!(|a, b| a.min(b)),
                ComputeOp::Max => two!(|a, b| a.max(b)),
                ComputeOp::Clamp => |x| bits(own(x[0]).max(own(x[1])).min(own(x[2]))),
                ComputeOp::MulHi => two!(|a, b| ((a as $wide * b as $wide) >> WIDTH) as T),
                ComputeOp::AddSat => two!(|a, b| a.saturating_add(b)),
                ComputeOp::SubSat => two!(|a, b| a.saturating_sub(b)),
                ComputeOp::And => two!(|a, b| a & b),
                ComputeOp::Or => two!(|a, b| a | b),
                ComputeOp::Xor => two!(|a, b| a ^ b),
                ComputeOp::Not => one!(|a| !a),
                ComputeOp::Shl => by_amount!(|a, n| a << n),
                ComputeOp::Shr => by_amount!(|a, n| a >> n),
                ComputeOp::Rotl => by_amount!(|a, n| a.rotate_left(n)),
                ComputeOp::Rotr => by_amount!(|a, n| a.rotate_right(n)),
                ComputeOp::Popcount => one!(|a| a.count_ones() as T),
                ComputeOp::Clz => one!(|a| a.leading_zeros() as T),
                ComputeOp::Ctz => one!(|a| a.trailing_zeros() as T),
                ComputeOp::ReverseBits => one!(|a| a.reverse_bits()),
                ComputeOp::Extract => |x| {
                    let (a, (offset, count)) = (own(x[0]), field(x[1], x[2], WIDTH));
                    // Up against the top end, then down: the second shift copies the sign in for signed types.
                    let top = WIDTH - offset - count;
                    bits(if count == 0 { 0 } else { a << top >> (WIDTH - count) })
                },
                ComputeOp::Insert => |x| {
                    let (offset, count) = field(x[2], x[3], WIDTH);
                    let mask = if count == 0 { 0 } else { u64::MAX >> (64 - count) << offset };
                    x[0] & !mask | x[1] << (offset % WIDTH) & mask
                },
                ComputeOp::Dot4 => |x| {
                    let (a, b) = ((x[0] as u32).to_le_bytes(), (x[1] as u32).to_le_bytes());
                    let products = (0..4).map(|i| a[i] as $byte as T * b[i] as $byte as T);
                    bits(own(x[2]).wrapping_add(products.sum()))
                },
                ComputeOp::Eq => test!(|a, b| a == b),
                ComputeOp::Ne => test!(|a, b| a != b),
                ComputeOp::Lt => test!(|a, b| a < b),
                ComputeOp::Le => test!(|a, b| a <= b),
                ComputeOp::Gt => test!(|a, b| a > b),
                ComputeOp::Ge => test!(|a, b| a >= b),
                // The table lists no other, or it has been answered before.
                _ => return None,
            })
        }
    };
}

integer!(u32: u32, u64, u8);
integer!(i32: u32, i64, i8);
integer!(u64: u64, u128, u8);
integer!(i64: u64, i128, i8);

/// A bit field's offset and count, clamped to the width in that order.
#[inline(always)]
fn field(offset: u64, count: u64, width: u32) -> (u32, u32) {
    let offset = (offset as u32).min(width);
    (offset, (count as u32).min(width - offset))
}
