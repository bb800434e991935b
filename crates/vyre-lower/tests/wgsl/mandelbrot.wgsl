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

fn soft_cast_f32_from_u32(v0: u32) -> u32 {
  let v1 = v0;
  let v2 = countLeadingZeros(v1);
  let v3 = bitcast<i32>(v2);
  let v4 = 158i - v3;
  let v5 = v1 << (v2 & 31u);
  let v6 = v5;
  let v7 = soft_pack_f32(0u, v4, v6);
  let v8 = v1 == 0u;
  let v9 = select(v7, 0u, v8);
  return v9;
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

fn soft_lt_f32(v0: u32, v1: u32) -> bool {
  let v2 = v0 & 2147483647u;
  let v3 = v1 & 2147483647u;
  let v4 = max(v2, v3);
  let v5 = v4 <= 2139095040u;
  let v6 = v0 & 2147483648u;
  let v7 = v6 != 0u;
  let v8 = select(2147483648u, 4294967295u, v7);
  let v9 = v0 ^ v8;
  let v10 = v1 & 2147483648u;
  let v11 = v10 != 0u;
  let v12 = select(2147483648u, 4294967295u, v11);
  let v13 = v1 ^ v12;
  let v14 = v9 < v13;
  let v15 = v5 & v14;
  let v16 = v0 | v1;
  let v17 = v16 & 2147483647u;
  let v18 = v17 == 0u;
  let v19 = !v18;
  let v20 = v15 & v19;
  return v20;
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
