// @mix, written by vyre: one workgroup for each of the program's.
// Program 4c01712ecd9754b06423531a9dbe702d948c6b9425a82b83c4a9ecba9bb2cae6.

@group(0) @binding(1) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read_write> y_2: array<u32>;

@compute @workgroup_size(64, 1, 1)
fn main(
  @builtin(workgroup_id) launched_id: vec3u,
  @builtin(local_invocation_id) local_id: vec3u,
  @builtin(local_invocation_index) local_index: u32,
) {
  let grid = launch[0].xyz;
  let workgroup_id = launched_id + launch[1].xyz;
  let y_2_len = launch[2].x;
  let i = workgroup_id.x * 64u + local_id.x;
  let n = y_2_len;
  let live = i < n;
  if (live) {
    let start = y_2[i];
    var x: u32 = start;
    for (var round = 0u; round < 64u; round += 1u) {
      let x0 = x;
      let h0 = x0 >> 16u;
      let x1 = x0 ^ h0;
      let x2 = x1 * 2246822507u;
      let h1 = x2 >> 13u;
      let x3 = x2 ^ h1;
      let x4 = x3 * 3266489909u;
      let h2 = x4 >> 16u;
      let x5 = x4 ^ h2;
      let x6 = x5 + round;
      x = x6;
    }
    let end = x;
    y_2[i] = end;
  }
}
