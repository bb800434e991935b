// @dfa, written by vyre: one workgroup for each of the program's.
// Program a3830eebc5b478d53ebfbe130929ed0c2800a47444051d5db77b816656685c84.

@group(0) @binding(3) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> text: array<u32>;
@group(0) @binding(1) var<storage, read> starts: array<u32>;
@group(0) @binding(2) var<storage, read_write> matches: array<u32>;
const class_2 = array<u32, 64>(0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 4u, 0u, 0u, 83886080u, 0u, 0u, 0u, 0u, 0u, 16777728u, 0u, 0u, 0u, 3u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u);
const next = array<u32, 8>(256u, 16777216u, 2u, 50331904u, 16777216u, 262144u, 256u, 1284u);

fn text_get(w: u32) -> u32 {
  return text[w];
}

fn starts_get(w: u32) -> u32 {
  return starts[w];
}

fn class_2_get(w: u32) -> u32 {
  return class_2[w];
}

fn next_get(w: u32) -> u32 {
  return next[w];
}

fn text_load_u8(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = (text_get((i >> 2u)) >> ((i & 3u) * 8u)) & 0xffu;
  }
  return result;
}

fn starts_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = starts_get(i);
  }
  return result;
}

fn class_2_load_u8(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = (class_2_get((i >> 2u)) >> ((i & 3u) * 8u)) & 0xffu;
  }
  return result;
}

fn next_load_u8(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = (next_get((i >> 2u)) >> ((i & 3u) * 8u)) & 0xffu;
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
  let text_len = launch[2].x;
  let starts_len = launch[2].y;
  let matches_len = launch[2].z;
  let r = workgroup_id.x * 64u + local_id.x;
  let records = matches_len;
  let live = r < records;
  if (live) {
    let r1 = r + 1u;
    let from_2 = starts_load_u32(starts_len, r);
    let to = starts_load_u32(starts_len, r1);
    var state_2: u32 = 0u;
    var count_2: u32 = 0u;
    for (var at = from_2; at < to; at += 1u) {
      let byte = text_load_u8(text_len, at);
      let kind = class_2_load_u8(256u, byte);
      let state = state_2;
      let row = state * 6u;
      let entry = row + kind;
      let following = next_load_u8(30u, entry);
      let hit = following == 5u;
      let count = count_2;
      let more = count + 1u;
      let chosen = select(count, more, hit);
      let chosen_1 = select(following, 0u, hit);
      count_2 = chosen;
      state_2 = chosen_1;
    }
    let total = count_2;
    matches[r] = total;
  }
}
