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

fn soft_pack_f32(v0: u32, v1: i32, v2: u32) -> u32 {
  let v3 = 1i - v1;
  let v4 = min(max(v3, 0i), 31i);
  let v5 = bitcast<u32>(v4);
  let v6 = 1u << (v5 & 31u);
  let v7 = v6 - 1u;
  let v8 = v2 & v7;
  let v9 = v2 >> (v5 & 31u);
  let v10 = v8 != 0u;
  let v11 = select(u32(0), u32(1), v10);
  let v12 = v9 | v11;
  let v13 = v12 >> 8u;
  let v14 = v12 << 24u;
  let v15 = v13 & 1u;
  let v16 = v14 | v15;
  let v17 = v16 > 2147483648u;
  let v18 = min(max(v1, 1i), 255i);
  let v19 = v18 - 1i;
  let v20 = bitcast<u32>(v19);
  let v21 = v20 << 23u;
  let v22 = v21 + v13;
  let v23 = select(u32(0), u32(1), v17);
  let v24 = v22 + v23;
  let v25 = min(v24, 2139095040u);
  let v26 = v0 | v25;
  return v26;
}

fn soft_add_f32(v0: u32, v1: u32) -> u32 {
  let v2 = v0 & 2147483647u;
  let v3 = v1 & 2147483647u;
  let v4 = v0 ^ v1;
  let v5 = v4 & 2147483648u;
  let v6 = v5 != 0u;
  let v7 = v2 < v3;
  let v8 = select(v0, v1, v7);
  let v9 = max(v2, v3);
  let v10 = min(v2, v3);
  let v11 = v9 >> 23u;
  let v12 = v11 != 0u;
  let v13 = select(0u, 8388608u, v12);
  let v14 = max(v11, 1u);
  let v15 = v9 & 8388607u;
  let v16 = v15 | v13;
  let v17 = v10 >> 23u;
  let v18 = v17 != 0u;
  let v19 = select(0u, 8388608u, v18);
  let v20 = max(v17, 1u);
  let v21 = v10 & 8388607u;
  let v22 = v21 | v19;
  let v23 = v16 << 7u;
  let v24 = v22 << 7u;
  let v25 = v14 - v20;
  let v26 = min(v25, 31u);
  let v27 = 1u << (v26 & 31u);
  let v28 = v27 - 1u;
  let v29 = v24 & v28;
  let v30 = v24 >> (v26 & 31u);
  let v31 = v29 != 0u;
  let v32 = select(u32(0), u32(1), v31);
  let v33 = v30 | v32;
  let v34 = v23 - v33;
  let v35 = v23 + v33;
  let v36 = select(v35, v34, v6);
  let v37 = v8 & 2147483648u;
  let v38 = bitcast<i32>(v14);
  let v39 = v38 + 1i;
  let v40 = countLeadingZeros(v36);
  let v41 = bitcast<i32>(v40);
  let v42 = v39 - v41;
  let v43 = v36 << (v40 & 31u);
  let v44 = soft_pack_f32(v37, v42, v43);
  let v45 = v36 == 0u;
  let v46 = select(v37, 0u, v6);
  let v47 = select(v44, v46, v45);
  let v48 = v9 >= 2139095040u;
  let v49 = select(v47, v8, v48);
  let v50 = v9 > 2139095040u;
  let v51 = v10 == 2139095040u;
  let v52 = v51 & v6;
  let v53 = v50 | v52;
  let v54 = select(v49, 2143289344u, v53);
  return v54;
}

fn soft_mul_f32(v0: u32, v1: u32) -> u32 {
  let v2 = v0 & 2147483647u;
  let v3 = v1 & 2147483647u;
  let v4 = v0 ^ v1;
  let v5 = v4 & 2147483648u;
  let v6 = v2 >> 23u;
  let v7 = v6 != 0u;
  let v8 = select(0u, 8388608u, v7);
  let v9 = max(v6, 1u);
  let v10 = v2 & 8388607u;
  let v11 = v10 | v8;
  let v12 = bitcast<i32>(v9);
  let v13 = v12 + 8i;
  let v14 = countLeadingZeros(v11);
  let v15 = bitcast<i32>(v14);
  let v16 = v13 - v15;
  let v17 = v11 << (v14 & 31u);
  let v18 = v3 >> 23u;
  let v19 = v18 != 0u;
  let v20 = select(0u, 8388608u, v19);
  let v21 = max(v18, 1u);
  let v22 = v3 & 8388607u;
  let v23 = v22 | v20;
  let v24 = bitcast<i32>(v21);
  let v25 = v24 + 8i;
  let v26 = countLeadingZeros(v23);
  let v27 = bitcast<i32>(v26);
  let v28 = v25 - v27;
  let v29 = v23 << (v26 & 31u);
  let v30 = v17 * v29;
  let v31 = mul_hi_u32(v17, v29);
  let v32 = v30 != 0u;
  let v33 = select(u32(0), u32(1), v32);
  let v34 = v31 | v33;
  let v35 = v16 + v28;
  let v36 = v35 - 126i;
  let v37 = countLeadingZeros(v34);
  let v38 = bitcast<i32>(v37);
  let v39 = v36 - v38;
  let v40 = v34 << (v37 & 31u);
  let v41 = soft_pack_f32(v5, v39, v40);
  let v42 = max(v2, v3);
  let v43 = min(v2, v3);
  let v44 = v43 == 0u;
  let v45 = select(v41, v5, v44);
  let v46 = v42 >= 2139095040u;
  let v47 = v5 | 2139095040u;
  let v48 = select(v45, v47, v46);
  let v49 = v42 > 2139095040u;
  let v50 = v42 == 2139095040u;
  let v51 = v43 == 0u;
  let v52 = v50 & v51;
  let v53 = v49 | v52;
  let v54 = select(v48, 2143289344u, v53);
  return v54;
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
