// @scan, written by vyre: one workgroup for each of the program's.
// Program bbae59cc83c36ca2d0f6852ec6e89afe941cc317a501a0c590e9268a0580a8a4.

@group(0) @binding(2) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> x_2: array<u32>;
@group(0) @binding(1) var<storage, read_write> y_2: array<u32>;
var<workgroup> tile: array<u32, 128>;

fn x_2_get(w: u32) -> u32 {
  return x_2[w];
}

fn y_2_put(w: u32, value: u32) {
  y_2[w] = value;
}

fn tile_get(w: u32) -> u32 {
  return tile[w];
}

fn x_2_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = x_2_get(i);
  }
  return result;
}

fn y_2_store_u32(len: u32, i: u32, value: u32) {
  if (i < len) {
    y_2_put(i, value);
  }
}

fn tile_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = tile_get(i);
  }
  return result;
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

@compute @workgroup_size(128, 1, 1)
fn main(
  @builtin(workgroup_id) launched_id: vec3u,
  @builtin(local_invocation_id) local_id: vec3u,
  @builtin(local_invocation_index) local_index: u32,
) {
  let grid = launch[0].xyz;
  let workgroup_id = launched_id + launch[1].xyz;
  let x_2_len = launch[2].x;
  let y_2_len = launch[2].y;
  let i = workgroup_id.x * 128u + local_id.x;
  let l = local_index;
  let xi = x_2_load_u32(x_2_len, i);
  tile[l] = xi;
  storageBarrier();
  workgroupBarrier();
  for (var d = 0u; d < 7u; d += 1u) {
    let reach = 1u << (d & 31u);
    var sum: u32 = 0u;
    let own = tile[l];
    sum = own;
    let has = l >= reach;
    if (has) {
      let left = l - reach;
      let below = tile_load_u32(128u, left);
      let both = soft_add_f32(below, own);
      sum = both;
    }
    storageBarrier();
    workgroupBarrier();
    let new_2 = sum;
    tile[l] = new_2;
    storageBarrier();
    workgroupBarrier();
  }
  let r = tile[l];
  let t = r & 2147483647u;
  let t_1 = t > 2139095040u;
  let t_2 = select(r, 2143289344u, t_1);
  y_2_store_u32(y_2_len, i, t_2);
}
