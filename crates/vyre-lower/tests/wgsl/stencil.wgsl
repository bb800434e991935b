// @stencil, written by vyre: one workgroup for each of the program's.
// Program 64bd5d8ba76d9b655f7e1d6fbb23295e5b9cf98776b662ba7613b935c847cb28.

@group(0) @binding(3) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> size: array<u32>;
@group(0) @binding(1) var<storage, read> old_2: array<u32>;
@group(0) @binding(2) var<storage, read_write> new_2: array<u32>;
var<workgroup> tile: array<u32, 100>;

fn old_2_get(w: u32) -> u32 {
  return old_2[w];
}

fn new_2_put(w: u32, value: u32) {
  new_2[w] = value;
}

fn div_u32(a: u32, b: u32) -> u32 {
  return a / select(b, 1u, b == 0u);
}

fn rem_u32(a: u32, b: u32) -> u32 {
  return a % select(b, 1u, b == 0u);
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

fn sub_sat_u32(a: u32, b: u32) -> u32 {
  return select(a - b, 0u, a < b);
}

fn old_2_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = old_2_get(i);
  }
  return result;
}

fn new_2_store_u32(len: u32, i: u32, value: u32) {
  if (i < len) {
    new_2_put(i, value);
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
  let old_2_len = launch[2].y;
  let new_2_len = launch[2].z;
  let w = size[0u];
  let h = size[1u];
  let right = w - 1u;
  let bottom = h - 1u;
  let gx = workgroup_id.x;
  let gy = workgroup_id.y;
  let x0 = gx << 3u;
  let y0 = gy << 3u;
  let l = local_index;
  for (var cell = l; cell < 100u; cell += 64u) {
    let cx = rem_u32(cell, 10u);
    let cy = div_u32(cell, 10u);
    let ax = x0 + cx;
    let ay = y0 + cy;
    let sx = sub_sat_u32(ax, 1u);
    let sy = sub_sat_u32(ay, 1u);
    let tx = min(sx, right);
    let ty = min(sy, bottom);
    let row = ty * w;
    let at = row + tx;
    let value = old_2_load_u32(old_2_len, at);
    tile[cell] = value;
  }
  storageBarrier();
  workgroupBarrier();
  let x = workgroup_id.x * 8u + local_id.x;
  let y = workgroup_id.y * 8u + local_id.y;
  let in_x = x < w;
  let in_y = y < h;
  let live = in_x & in_y;
  if (live) {
    let lx = local_id.x;
    let ly = local_id.y;
    let tile_row = ly * 10u;
    let north = tile_row + lx;
    let n_at = north + 1u;
    let w_at = north + 10u;
    let c_at = north + 11u;
    let e_at = north + 12u;
    let s_at = north + 21u;
    let vn = tile[n_at];
    let vw = tile[w_at];
    let vc = tile[c_at];
    let ve = tile[e_at];
    let vs = tile[s_at];
    let ns = soft_add_f32(vn, vs);
    let ew = soft_add_f32(ve, vw);
    let sum = soft_add_f32(ns, ew);
    let mean = soft_mul_f32(sum, 1048576000u);
    let t = vc ^ 2147483648u;
    let flow = soft_add_f32(mean, t);
    let step = soft_mul_f32(flow, 1056964608u);
    let r = soft_add_f32(vc, step);
    let out_row = y * w;
    let out = out_row + x;
    let t_1 = r & 2147483647u;
    let t_2 = t_1 > 2139095040u;
    let t_3 = select(r, 2143289344u, t_2);
    new_2_store_u32(new_2_len, out, t_3);
  }
}
