// Integer ops that WGSL lacks or does not define alike everywhere. Each paragraph is one function; those that a program
// uses are copied into its shader. A u64 or i64 is a vec2u, the low word first. `op_u64` also serves i64 where the sign
// makes no difference.

fn div_u32(a: u32, b: u32) -> u32 {
  return a / select(b, 1u, b == 0u);
}

fn rem_u32(a: u32, b: u32) -> u32 {
  return a % select(b, 1u, b == 0u);
}

// A divisor that gives the quotient which is asked for where the quotient has none of its own.
fn total_divisor(a: i32, b: i32) -> i32 {
  return select(b, 1i, (b == 0i) | ((a == i32(-2147483648)) & (b == -1i)));
}

fn div_i32(a: i32, b: i32) -> i32 {
  return a / total_divisor(a, b);
}

// Some devices leave the remainder of negative numbers open.
fn rem_i32(a: i32, b: i32) -> i32 {
  let d = total_divisor(a, b);
  return a - d * (a / d);
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

fn mul_hi_i32(a: i32, b: i32) -> i32 {
  let ua = bitcast<u32>(a);
  let ub = bitcast<u32>(b);
  return bitcast<i32>(mul_wide(ua, ub).y - select(0u, ub, a < 0i) - select(0u, ua, b < 0i));
}

fn add_sat_u32(a: u32, b: u32) -> u32 {
  let sum = a + b;
  return select(sum, 0xffffffffu, sum < a);
}

fn add_sat_i32(a: i32, b: i32) -> i32 {
  let sum = a + b;
  let bound = select(2147483647i, i32(-2147483648), a < 0i);
  return select(sum, bound, ((a ^ sum) & (b ^ sum)) < 0i);
}

fn sub_sat_u32(a: u32, b: u32) -> u32 {
  return select(a - b, 0u, a < b);
}

fn sub_sat_i32(a: i32, b: i32) -> i32 {
  let difference = a - b;
  let bound = select(2147483647i, i32(-2147483648), a < 0i);
  return select(difference, bound, ((a ^ b) & (a ^ difference)) < 0i);
}

fn rotl_u32(a: u32, n: u32) -> u32 {
  let k = n & 31u;
  return (a << k) | (a >> ((32u - k) & 31u));
}

fn rotl_i32(a: i32, n: u32) -> i32 {
  return bitcast<i32>(rotl_u32(bitcast<u32>(a), n));
}

fn rotr_u32(a: u32, n: u32) -> u32 {
  return rotl_u32(a, 32u - (n & 31u));
}

fn rotr_i32(a: i32, n: u32) -> i32 {
  return bitcast<i32>(rotr_u32(bitcast<u32>(a), n));
}

fn extract_u32(x: u32, offset: u32, count: u32) -> u32 {
  return extractBits(x, offset, count);
}

fn extract_i32(x: i32, offset: u32, count: u32) -> i32 {
  return extractBits(x, offset, count);
}

fn insert_u32(x: u32, bits: u32, offset: u32, count: u32) -> u32 {
  return insertBits(x, bits, offset, count);
}

fn insert_i32(x: i32, bits: i32, offset: u32, count: u32) -> i32 {
  return insertBits(x, bits, offset, count);
}

fn dot4_u32(a: u32, b: u32, acc: u32) -> u32 {
  var sum = acc;
  for (var s = 0u; s < 32u; s += 8u) {
    sum += ((a >> s) & 255u) * ((b >> s) & 255u);
  }
  return sum;
}

fn dot4_i32(a: u32, b: u32, acc: i32) -> i32 {
  var sum = acc;
  for (var s = 0u; s < 32u; s += 8u) {
    sum += extend_i8(a >> s) * extend_i8(b >> s);
  }
  return sum;
}

fn extend_i8(x: u32) -> i32 {
  return bitcast<i32>(x << 24u) >> 24u;
}

fn extend_i16(x: u32) -> i32 {
  return bitcast<i32>(x << 16u) >> 16u;
}

fn add_u64(a: vec2u, b: vec2u) -> vec2u {
  let low = a.x + b.x;
  return vec2u(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn sub_u64(a: vec2u, b: vec2u) -> vec2u {
  return vec2u(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn neg_i64(a: vec2u) -> vec2u {
  return sub_u64(vec2u(), a);
}

fn is_negative(a: vec2u) -> bool {
  return bitcast<i32>(a.y) < 0i;
}

fn abs_i64(a: vec2u) -> vec2u {
  return select(a, neg_i64(a), is_negative(a));
}

fn mul_u64(a: vec2u, b: vec2u) -> vec2u {
  let low = mul_wide(a.x, b.x);
  return vec2u(low.x, low.y + a.x * b.y + a.y * b.x);
}

fn mul_hi_u64(a: vec2u, b: vec2u) -> vec2u {
  let low = mul_wide(a.x, b.x);
  let middle = add_u64(mul_wide(a.x, b.y), vec2u(low.y, 0u));
  let other = add_u64(mul_wide(a.y, b.x), vec2u(middle.x, 0u));
  return add_u64(add_u64(mul_wide(a.y, b.y), vec2u(middle.y, 0u)), vec2u(other.y, 0u));
}

fn mul_hi_i64(a: vec2u, b: vec2u) -> vec2u {
  let less_b = select(vec2u(), b, is_negative(a));
  let less_a = select(vec2u(), a, is_negative(b));
  return sub_u64(sub_u64(mul_hi_u64(a, b), less_b), less_a);
}

// Quotient and remainder, bit by bit. Over zero they are the dividend and zero.
fn div_rem_u64(a: vec2u, b: vec2u) -> vec4u {
  var q = a;
  var r = vec2u();
  let bits = select(64u, 0u, (b.x | b.y) == 0u);
  for (var k = 0u; k < bits; k++) {
    let over = r.y >> 31u;
    r = vec2u((r.x << 1u) | (q.y >> 31u), (r.y << 1u) | (r.x >> 31u));
    q = vec2u(q.x << 1u, (q.y << 1u) | (q.x >> 31u));
    let fits = (over == 1u) | !lt_u64(r, b);
    r = select(r, sub_u64(r, b), fits);
    q.x |= select(0u, 1u, fits);
  }
  return vec4u(q.x, q.y, r.x, r.y);
}

fn div_u64(a: vec2u, b: vec2u) -> vec2u {
  return div_rem_u64(a, b).xy;
}

fn rem_u64(a: vec2u, b: vec2u) -> vec2u {
  return div_rem_u64(a, b).zw;
}

fn div_i64(a: vec2u, b: vec2u) -> vec2u {
  let q = div_rem_u64(abs_i64(a), abs_i64(b)).xy;
  return select(q, neg_i64(q), is_negative(a) != is_negative(b));
}

fn rem_i64(a: vec2u, b: vec2u) -> vec2u {
  let r = div_rem_u64(abs_i64(a), abs_i64(b)).zw;
  return select(r, neg_i64(r), is_negative(a));
}

fn lt_u64(a: vec2u, b: vec2u) -> bool {
  return select(a.y < b.y, a.x < b.x, a.y == b.y);
}

fn lt_i64(a: vec2u, b: vec2u) -> bool {
  return select(bitcast<i32>(a.y) < bitcast<i32>(b.y), a.x < b.x, a.y == b.y);
}

fn min_u64(a: vec2u, b: vec2u) -> vec2u {
  return select(b, a, lt_u64(a, b));
}

fn min_i64(a: vec2u, b: vec2u) -> vec2u {
  return select(b, a, lt_i64(a, b));
}

fn max_u64(a: vec2u, b: vec2u) -> vec2u {
  return select(a, b, lt_u64(a, b));
}

fn max_i64(a: vec2u, b: vec2u) -> vec2u {
  return select(a, b, lt_i64(a, b));
}

fn add_sat_u64(a: vec2u, b: vec2u) -> vec2u {
  let sum = add_u64(a, b);
  return select(sum, vec2u(0xffffffffu, 0xffffffffu), lt_u64(sum, a));
}

fn sub_sat_u64(a: vec2u, b: vec2u) -> vec2u {
  return select(sub_u64(a, b), vec2u(), lt_u64(a, b));
}

fn bound_i64(a: vec2u) -> vec2u {
  return select(vec2u(0xffffffffu, 0x7fffffffu), vec2u(0u, 0x80000000u), is_negative(a));
}

fn add_sat_i64(a: vec2u, b: vec2u) -> vec2u {
  let sum = add_u64(a, b);
  return select(sum, bound_i64(a), is_negative((a ^ sum) & (b ^ sum)));
}

fn sub_sat_i64(a: vec2u, b: vec2u) -> vec2u {
  let difference = sub_u64(a, b);
  return select(difference, bound_i64(a), is_negative((a ^ b) & (a ^ difference)));
}

fn shl_u64(a: vec2u, n: u32) -> vec2u {
  let k = n & 31u;
  let low = a.x << k;
  let high = (a.y << k) | ((a.x >> 1u) >> (31u - k));
  return select(vec2u(low, high), vec2u(0u, low), (n & 32u) != 0u);
}

fn shr_u64(a: vec2u, n: u32) -> vec2u {
  let k = n & 31u;
  let low = (a.x >> k) | ((a.y << 1u) << (31u - k));
  let high = a.y >> k;
  return select(vec2u(low, high), vec2u(high, 0u), (n & 32u) != 0u);
}

fn shr_i64(a: vec2u, n: u32) -> vec2u {
  let k = n & 31u;
  let low = (a.x >> k) | ((a.y << 1u) << (31u - k));
  let high = bitcast<u32>(bitcast<i32>(a.y) >> k);
  let sign = bitcast<u32>(bitcast<i32>(a.y) >> 31u);
  return select(vec2u(low, high), vec2u(high, sign), (n & 32u) != 0u);
}

fn rotl_u64(a: vec2u, n: u32) -> vec2u {
  return shl_u64(a, n) | shr_u64(a, 64u - (n & 63u));
}

fn rotr_u64(a: vec2u, n: u32) -> vec2u {
  return rotl_u64(a, 64u - (n & 63u));
}

fn popcount_u64(a: vec2u) -> vec2u {
  return vec2u(countOneBits(a.x) + countOneBits(a.y), 0u);
}

fn clz_u64(a: vec2u) -> vec2u {
  return vec2u(select(countLeadingZeros(a.y), 32u + countLeadingZeros(a.x), a.y == 0u), 0u);
}

fn ctz_u64(a: vec2u) -> vec2u {
  return vec2u(select(countTrailingZeros(a.x), 32u + countTrailingZeros(a.y), a.x == 0u), 0u);
}

fn reverse_bits_u64(a: vec2u) -> vec2u {
  return vec2u(reverseBits(a.y), reverseBits(a.x));
}

fn extract_u64(x: vec2u, offset: u32, count: u32) -> vec2u {
  let o = min(offset, 64u);
  let c = min(count, 64u - o);
  return select(shr_u64(shl_u64(x, 64u - o - c), 64u - c), vec2u(), c == 0u);
}

fn extract_i64(x: vec2u, offset: u32, count: u32) -> vec2u {
  let o = min(offset, 64u);
  let c = min(count, 64u - o);
  return select(shr_i64(shl_u64(x, 64u - o - c), 64u - c), vec2u(), c == 0u);
}

fn insert_u64(x: vec2u, bits: vec2u, offset: u32, count: u32) -> vec2u {
  let o = min(offset, 64u);
  let c = min(count, 64u - o);
  let mask = shl_u64(shr_u64(vec2u(0xffffffffu, 0xffffffffu), 64u - c), o);
  return select((x & ~mask) | (shl_u64(bits, o) & mask), x, c == 0u);
}

// How often `for i in lo..hi step s` runs.
fn trips(lo: u32, hi: u32, step_by: u32) -> u32 {
  return select(0u, (hi - lo - 1u) / step_by + 1u, lo < hi);
}

// Where an index that would pass the end of all memory stays out of bounds.
fn index_add(offset: u32, more: u32) -> u32 {
  return offset + min(more, 0xffffffffu - offset);
}

// The words that bytes take up to the next place of 8.
fn padded_words(bytes: u32) -> u32 {
  return ((bytes + 7u) >> 3u) << 1u;
}
