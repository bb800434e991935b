// Steps that the lanes of a workgroup take together, through workgroup memory, so that logical subgroups do not depend on
// the device's own. Each paragraph is one function; those that a program uses are copied into its shader.

// A count that compilers do not see through (the output has whole words), so that they leave short loops as they are:
// unrolled around barriers, those take a software driver seconds to compile.
fn opaque_count(count: u32) -> u32 {
  return count + (params.y & 3u);
}

fn shuffle(me: u32, other: u32, value: vec2u) -> vec2u {
  lane_values[me] = value;
  workgroupBarrier();
  let got = lane_values[other];
  workgroupBarrier();
  return got;
}

// Bit k is set if lane k of the subgroup has that value.
fn same_lanes(me: u32, width: u32, given: vec2u, wanted: vec2u) -> u32 {
  lane_values[me] = given;
  workgroupBarrier();
  let first = me & ~(width - 1u);
  var mask = 0u;
  for (var k = 0u; k < opaque_count(width); k++) {
    mask |= select(0u, 1u, all(lane_values[first + k] == wanted)) << k;
  }
  workgroupBarrier();
  return mask;
}

// The first trap in program order has the greatest complement.
fn trap(complement: u32) {
  atomicMax(&output[params.y / 4u - 1u], complement);
}

fn has_trapped() -> bool {
  return atomicLoad(&output[params.y / 4u - 1u]) != 0u;
}
