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
