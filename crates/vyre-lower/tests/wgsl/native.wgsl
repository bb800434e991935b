// @own, written by vyre: one workgroup for each of the program's.
// Program 94a22f739ca8709d97f355885ec35720562ee559d2aa976dd54aa287ae0c02e0.

@group(0) @binding(2) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> x_2: array<u32>;
@group(0) @binding(1) var<storage, read_write> y_2: array<u32>;

fn x_2_get(w: u32) -> u32 {
  return x_2[w];
}

fn y_2_get(w: u32) -> u32 {
  return y_2[w];
}

fn y_2_put(w: u32, value: u32) {
  y_2[w] = value;
}

fn div_u32(a: u32, b: u32) -> u32 {
  return a / select(b, 1u, b == 0u);
}

fn mul_wide(a: u32, b: u32) -> vec2u {
  let a0 = a & 0xffffu;
  let a1 = a >> 16u;
  let b0 = b & 0xffffu;
  let b1 = b >> 16u;
  let p01 = a0 * b1;
  let p10 = a1 * b0;
  let middle = ((a0 * b0) >> 16u) + (p01 & 0xffffu) + (p10 & 0xffffu);
  return vec2u(a * b, a1 * b1 + (p01 >> 16u) + (p10 >> 16u) + (middle >> 16u));
}

fn mul_hi_u32(a: u32, b: u32) -> u32 {
  return mul_wide(a, b).y;
}

fn native_add_f32(a: u32, b: u32) -> u32 {
  return bitcast<u32>(bitcast<f32>(a ^ launch[0].w) + bitcast<f32>(b ^ launch[1].w));
}

fn native_mul_f32(a: u32, b: u32) -> u32 {
  return bitcast<u32>(bitcast<f32>(a ^ launch[0].w) * bitcast<f32>(b ^ launch[1].w));
}

fn native_fma_f32(a: u32, b: u32, c: u32) -> u32 {
  return bitcast<u32>(fma(bitcast<f32>(a ^ launch[0].w), bitcast<f32>(b ^ launch[1].w), bitcast<f32>(c ^ launch[0].w)));
}

fn native_lt_f32(a: u32, b: u32) -> bool {
  return bitcast<f32>(a ^ launch[0].w) < bitcast<f32>(b ^ launch[1].w);
}

// Roundings to integers keep the sign, which some devices forget on zero.
fn native_floor_f32(a: u32) -> u32 {
  return bitcast<u32>(floor(bitcast<f32>(a ^ launch[0].w))) | (a & 0x80000000u);
}

fn native_cast_f32_from_u32(a: u32) -> u32 {
  return bitcast<u32>(f32(a ^ launch[0].w));
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

fn x_2_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = x_2_get(i);
  }
  return result;
}

fn y_2_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = y_2_get(i);
  }
  return result;
}

fn y_2_store_u32(len: u32, i: u32, value: u32) {
  if (i < len) {
    y_2_put(i, value);
  }
}

fn guarded_native_add_f32(a: u32, b: u32) -> u32 {
  let near = native_add_f32(a, b);
  if (is_ordinary(a) && is_ordinary(b) && is_result(near)) {
    return near;
  }
  return soft_add_f32(a, b);
}

fn guarded_native_mul_f32(a: u32, b: u32) -> u32 {
  let near = native_mul_f32(a, b);
  if (is_ordinary(a) && is_ordinary(b) && is_result(near)) {
    return near;
  }
  return soft_mul_f32(a, b);
}

fn guarded_corrected_div_f32(a: u32, b: u32) -> u32 {
  let near = corrected_div_f32(a, b);
  if (is_ordinary(a) && is_ordinary(b) && is_result(near)) {
    return near;
  }
  return soft_div_f32(a, b);
}

fn guarded_native_fma_f32(a: u32, b: u32, c: u32) -> u32 {
  let near = native_fma_f32(a, b, c);
  if (is_ordinary(a) && is_ordinary(b) && is_ordinary(c) && is_result(near)) {
    return near;
  }
  return soft_fma_f32(a, b, c);
}

fn guarded_corrected_sqrt_f32(a: u32) -> u32 {
  let near = corrected_sqrt_f32(a);
  if (is_ordinary(a) && is_result(near)) {
    return near;
  }
  return soft_sqrt_f32(a);
}

@compute @workgroup_size(64, 1, 1)
fn main(
  @builtin(workgroup_id) launched_id: vec3u,
  @builtin(local_invocation_id) local_id: vec3u,
  @builtin(local_invocation_index) local_index: u32,
) {
  let grid = launch[0].xyz;
  let workgroup_id = launched_id + launch[1].xyz;
  let x_2_len = launch[2].x;
  let y_2_len = launch[2].y;
  let i = workgroup_id.x * 64u + local_id.x;
  let a = x_2_load_u32(x_2_len, i);
  let b = y_2_load_u32(y_2_len, i);
  let s = guarded_native_add_f32(a, b);
  let p = guarded_native_mul_f32(s, a);
  let q = guarded_corrected_div_f32(p, b);
  let f = guarded_native_fma_f32(q, a, 1069547520u);
  let g = guarded_corrected_sqrt_f32(f);
  let h = native_floor_f32(g);
  let c = native_lt_f32(h, g);
  let n = native_cast_f32_from_u32(i);
  let r = select(h, n, c);
  let t = r & 2147483647u;
  let t_1 = t > 2139095040u;
  let t_2 = select(r, 2143289344u, t_1);
  y_2_store_u32(y_2_len, i, t_2);
}
