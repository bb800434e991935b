// @saxpy, written by vyre: one workgroup for each of the program's.
// Program 9caa54c10f6d0934d1d8e5da7ed88e33d798f34f87f47d5b8219ca8335baf7d1.

@group(0) @binding(3) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> a_2: array<u32>;
@group(0) @binding(1) var<storage, read> x_2: array<u32>;
@group(0) @binding(2) var<storage, read_write> y_2: array<u32>;

fn x_2_get(w: u32) -> u32 {
  return x_2[w];
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

fn x_2_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = x_2_get(i);
  }
  return result;
}

@compute @workgroup_size(64, 1, 1)
fn main(
  @builtin(workgroup_id) launched_id: vec3u,
  @builtin(local_invocation_id) local_id: vec3u,
  @builtin(local_invocation_index) local_index: u32,
) {
  let grid = launch[0].xyz;
  let workgroup_id = launched_id + launch[1].xyz;
  let x_2_len = launch[2].y;
  let y_2_len = launch[2].z;
  let i = workgroup_id.x * 64u + local_id.x;
  let n = y_2_len;
  let live = i < n;
  if (live) {
    let ai = a_2[0u];
    let xi = x_2_load_u32(x_2_len, i);
    let yi = y_2[i];
    let r = soft_fma_f32(ai, xi, yi);
    let t = r & 2147483647u;
    let t_1 = t > 2139095040u;
    let t_2 = select(r, 2143289344u, t_1);
    y_2[i] = t_2;
  }
}
