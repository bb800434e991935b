// @histogram, written by vyre: one workgroup for each of the program's.
// Program ea9f97a8f870a96a74e5a937c40e9fececadfc0fbddfb746e1da2dc4ff2fb6ea.

@group(0) @binding(2) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> bytes_2: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
var<workgroup> bins: array<atomic<u32>, 256>;

fn bytes_2_get(w: u32) -> u32 {
  return bytes_2[w];
}

fn div_u32(a: u32, b: u32) -> u32 {
  return a / select(b, 1u, b == 0u);
}

fn bytes_2_load_u8(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = (bytes_2_get((i >> 2u)) >> ((i & 3u) * 8u)) & 0xffu;
  }
  return result;
}

fn counts_atomic_add_u32(len: u32, i: u32, value: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = atomicAdd(&counts[i], value);
  }
  return result;
}

fn bins_atomic_add_u32(len: u32, i: u32, value: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = atomicAdd(&bins[i], value);
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
  let bytes_2_len = launch[2].x;
  let n = bytes_2_len;
  let first = workgroup_id.x * 64u + local_id.x;
  let groups = grid.x;
  let lanes = groups << 6u;
  let rounds = div_u32(n, lanes);
  let all_2 = rounds + 1u;
  for (var round = 0u; round < all_2; round += 1u) {
    let skip = round * lanes;
    let at = first + skip;
    let live = at < n;
    if (live) {
      let byte = bytes_2_load_u8(bytes_2_len, at);
      bins_atomic_add_u32(256u, byte, 1u);
    }
  }
  storageBarrier();
  workgroupBarrier();
  let l = local_index;
  for (var bin = l; bin < 256u; bin += 64u) {
    let count = atomicLoad(&bins[bin]);
    counts_atomic_add_u32(256u, bin, count);
  }
}
