// The device's own f32, on bits. Operands are XORed with words that are zero when the shader runs, left ones with another than
// right ones: whatever a compiler knows of floats, it does not know these. Each paragraph is one function; those that a program
// uses are copied into its shader.

fn native_add_f32(a: u32, b: u32) -> u32 {
  return bitcast<u32>(bitcast<f32>(a ^ launch[0].w) + bitcast<f32>(b ^ launch[1].w));
}

fn native_mul_f32(a: u32, b: u32) -> u32 {
  return bitcast<u32>(bitcast<f32>(a ^ launch[0].w) * bitcast<f32>(b ^ launch[1].w));
}

fn native_div_f32(a: u32, b: u32) -> u32 {
  return bitcast<u32>(bitcast<f32>(a ^ launch[0].w) / bitcast<f32>(b ^ launch[1].w));
}

fn native_fma_f32(a: u32, b: u32, c: u32) -> u32 {
  return bitcast<u32>(fma(bitcast<f32>(a ^ launch[0].w), bitcast<f32>(b ^ launch[1].w), bitcast<f32>(c ^ launch[0].w)));
}

fn native_sqrt_f32(a: u32) -> u32 {
  return bitcast<u32>(sqrt(bitcast<f32>(a ^ launch[0].w)));
}

fn native_eq_f32(a: u32, b: u32) -> bool {
  return bitcast<f32>(a ^ launch[0].w) == bitcast<f32>(b ^ launch[1].w);
}

fn native_lt_f32(a: u32, b: u32) -> bool {
  return bitcast<f32>(a ^ launch[0].w) < bitcast<f32>(b ^ launch[1].w);
}

fn native_le_f32(a: u32, b: u32) -> bool {
  return bitcast<f32>(a ^ launch[0].w) <= bitcast<f32>(b ^ launch[1].w);
}

// Roundings to integers keep the sign, which some devices forget on zero.
fn native_floor_f32(a: u32) -> u32 {
  return bitcast<u32>(floor(bitcast<f32>(a ^ launch[0].w))) | (a & 0x80000000u);
}

fn native_ceil_f32(a: u32) -> u32 {
  return bitcast<u32>(ceil(bitcast<f32>(a ^ launch[0].w))) | (a & 0x80000000u);
}

fn native_trunc_f32(a: u32) -> u32 {
  return bitcast<u32>(trunc(bitcast<f32>(a ^ launch[0].w))) | (a & 0x80000000u);
}

fn native_round_f32(a: u32) -> u32 {
  return bitcast<u32>(round(bitcast<f32>(a ^ launch[0].w))) | (a & 0x80000000u);
}

fn native_cast_f32_from_u32(a: u32) -> u32 {
  return bitcast<u32>(f32(a ^ launch[0].w));
}

fn native_cast_f32_from_i32(a: i32) -> u32 {
  return bitcast<u32>(f32(a ^ bitcast<i32>(launch[0].w)));
}

// The quotient of two significands by the device, as an integer, and what it leaves of the dividend: so little that the low word
// has all of it, and that is exact. 0 where an operand or the result is not normal.
fn corrected_div_f32(a: u32, b: u32) -> u32 {
  let divisor = (b & 0x7fffffu) | 0x800000u;
  let given = (a & 0x7fffffu) | 0x800000u;
  let is_short = given < divisor;
  let dividend = given << u32(is_short);
  let near = u32(f32(dividend) / f32(divisor) * 8388608f);
  let left = bitcast<i32>((dividend << 23u) - near * divisor);
  let more = i32(floor(f32(left) / f32(divisor)));
  let still = left - more * i32(divisor);
  // That quotient was rounded too.
  let off = i32(still >= i32(divisor)) - i32(still < 0);
  let rest = still - off * i32(divisor);
  let quotient = near + u32(more + off) + u32(2 * rest > i32(divisor));
  let a_exponent = (a >> 23u) & 255u;
  let b_exponent = (b >> 23u) & 255u;
  let exponent = a_exponent + 127u - b_exponent - u32(is_short);
  let is_normal = min(a_exponent, b_exponent) > 0u && max(a_exponent, b_exponent) < 255u && exponent - 2u < 252u;
  return select(0u, ((a ^ b) & 0x80000000u) | ((exponent << 23u) + quotient - 0x800000u), is_normal);
}

// The root in the same way, of a significand below 4. 0 where the operand is not positive and normal.
fn corrected_sqrt_f32(a: u32) -> u32 {
  let exponent = a >> 23u;
  let is_even = (exponent & 1u) == 0u;
  let square = ((a & 0x7fffffu) | 0x800000u) << select(23u, 24u, is_even);
  let near = u32(sqrt(bitcast<f32>((a & 0x7fffffu) | select(0x3f800000u, 0x40000000u, is_even))) * 8388608f);
  let left = bitcast<i32>(square - near * near);
  let close = near + u32(i32(floor(f32(left) / (2f * f32(near)))));
  let still = bitcast<i32>(square - close * close);
  let off = i32(still > i32(2u * close)) - i32(still < 0);
  let floored = close + u32(off);
  let root = floored + u32(bitcast<i32>(square - floored * floored) > i32(floored));
  return select(0u, (((exponent + 127u) >> 1u) << 23u) + root - 0x800000u, exponent - 1u < 254u);
}

// Zero or a normal number, which no device changes before it computes.
fn is_ordinary(a: u32) -> bool {
  return (a << 1u) == 0u || (a << 1u) - 0x1000000u < 0xfe000000u;
}

// A finite number above the least normal one, which is no subnormal that became something else.
fn is_result(a: u32) -> bool {
  return (a << 1u) - 0x1000001u < 0xfdffffffu;
}
