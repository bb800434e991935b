// @reduce, written by vyre: one workgroup for each of the program's.
// Program d155f8238f4ce3cfa89bae86292393b3518dd344d18dcbe8ad8b08c1e41f1543.

@group(0) @binding(2) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> x_2: array<u32>;
@group(0) @binding(1) var<storage, read_write> sums: array<u32>;
var<workgroup> tile: array<u32, 64>;

fn x_2_get(w: u32) -> u32 {
  return x_2[w];
}

fn sums_put(w: u32, value: u32) {
  sums[w] = value;
}

fn x_2_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = x_2_get(i);
  }
  return result;
}

fn sums_store_u32(len: u32, i: u32, value: u32) {
  if (i < len) {
    sums_put(i, value);
  }
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
  let sums_len = launch[2].y;
  let i = workgroup_id.x * 64u + local_id.x;
  let l = local_index;
  let xi = x_2_load_u32(x_2_len, i);
  tile[l] = xi;
  storageBarrier();
  workgroupBarrier();
  for (var step = 0u; step < 6u; step += 1u) {
    let stride = 32u >> (step & 31u);
    let works = l < stride;
    if (works) {
      let other = l + stride;
      let a = tile[l];
      let b = tile[other];
      let sum = a + b;
      tile[l] = sum;
    }
    storageBarrier();
    workgroupBarrier();
  }
  let first = l == 0u;
  if (first) {
    let group_2 = workgroup_id.x + grid.x * (workgroup_id.y + grid.y * workgroup_id.z);
    let total = tile[0u];
    sums_store_u32(sums_len, group_2, total);
  }
}
