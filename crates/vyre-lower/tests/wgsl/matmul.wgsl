// @matmul, written by vyre: one workgroup for each of the program's.
// Program 71d99feecb5942a76d876e2e7355a8c9da0517ae8114bccaf71f962a5415bc83.

@group(0) @binding(4) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> size: array<u32>;
@group(0) @binding(1) var<storage, read> a_2: array<u32>;
@group(0) @binding(2) var<storage, read> b: array<u32>;
@group(0) @binding(3) var<storage, read_write> c: array<u32>;

fn a_2_get(w: u32) -> u32 {
  return a_2[w];
}

fn b_get(w: u32) -> u32 {
  return b[w];
}

fn c_put(w: u32, value: u32) {
  c[w] = value;
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

fn a_2_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = a_2_get(i);
  }
  return result;
}

fn b_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = b_get(i);
  }
  return result;
}

fn c_store_u32(len: u32, i: u32, value: u32) {
  if (i < len) {
    c_put(i, value);
  }
}

@compute @workgroup_size(8, 8, 1)
fn main(
  @builtin(workgroup_id) launched_id: vec3u,
  @builtin(local_invocation_id) local_id: vec3u,
  @builtin(local_invocation_index) local_index: u32,
) {
  let grid = launch[0].xyz;
  let workgroup_id = launched_id + launch[1].xyz;
  let a_2_len = launch[2].y;
  let b_len = launch[2].z;
  let c_len = launch[2].w;
  let m = size[0u];
  let n = size[1u];
  let k = size[2u];
  let col = workgroup_id.x * 8u + local_id.x;
  let row = workgroup_id.y * 8u + local_id.y;
  let in_cols = col < n;
  let in_rows = row < m;
  let live = in_cols & in_rows;
  if (live) {
    var sum_2: u32 = 0u;
    let a_row = row * k;
    for (var l = 0u; l < k; l += 1u) {
      let a_at = a_row + l;
      let b_row = l * n;
      let b_at_2 = b_row + col;
      let ai = a_2_load_u32(a_2_len, a_at);
      let bi = b_load_u32(b_len, b_at_2);
      let so_far = sum_2;
      let next = soft_fma_f32(ai, bi, so_far);
      sum_2 = next;
    }
    let c_row = row * n;
    let c_at_2 = c_row + col;
    let sum = sum_2;
    let t = sum & 2147483647u;
    let t_1 = t > 2139095040u;
    let t_2 = select(sum, 2143289344u, t_1);
    c_store_u32(c_len, c_at_2, t_2);
  }
}
