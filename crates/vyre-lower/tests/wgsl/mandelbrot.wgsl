// @mandelbrot, written by vyre: one workgroup for each of the program's.
// Program ab78bf015a9ea16caa88eabde667c7cdb67f756f466385ab48eb52e0db7ec5c8.

@group(0) @binding(3) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> view: array<u32>;
@group(0) @binding(1) var<storage, read> width: array<u32>;
@group(0) @binding(2) var<storage, read_write> steps: array<u32>;

fn steps_put(w: u32, value: u32) {
  steps[w] = value;
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

fn steps_store_u32(len: u32, i: u32, value: u32) {
  if (i < len) {
    steps_put(i, value);
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
  let steps_len = launch[2].z;
  let w = width[0u];
  let px = workgroup_id.x * 8u + local_id.x;
  let py = workgroup_id.y * 8u + local_id.y;
  let inside = px < w;
  if (inside) {
    let left = view[0u];
    let top = view[1u];
    let pixel = view[2u];
    let fx = soft_cast_f32_from_u32(px);
    let fy = soft_cast_f32_from_u32(py);
    let dx = soft_mul_f32(fx, pixel);
    let dy = soft_mul_f32(fy, pixel);
    let cx = soft_add_f32(left, dx);
    let cy = soft_add_f32(top, dy);
    var x_2: u32 = 0u;
    var y_2: u32 = 0u;
    var count_2: u32 = 0u;
    for (var step = 0u; step < 64u; step += 1u) {
      let x = x_2;
      let y = y_2;
      let xx = soft_mul_f32(x, x);
      let yy = soft_mul_f32(y, y);
      let rr = soft_add_f32(xx, yy);
      let out = soft_lt_f32(1082130432u, rr);
      if (out) {
        break;
      }
      let xy = soft_mul_f32(x, y);
      let xy2 = soft_add_f32(xy, xy);
      let t = yy ^ 2147483648u;
      let re = soft_add_f32(xx, t);
      let x1 = soft_add_f32(re, cx);
      let y1 = soft_add_f32(xy2, cy);
      x_2 = x1;
      y_2 = y1;
      let done = step + 1u;
      count_2 = done;
    }
    let row = py * w;
    let at = row + px;
    let count = count_2;
    steps_store_u32(steps_len, at, count);
  }
}
