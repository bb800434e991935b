// @sha256, written by vyre: one workgroup for each of the program's.
// Program 536900f2fadbd21dcf070981407d23565e54858d0dea47ff43ef87e688f111b8.

@group(0) @binding(3) var<uniform> launch: array<vec4u, 3>;
@group(0) @binding(0) var<storage, read> blocks: array<u32>;
@group(0) @binding(1) var<storage, read> messages: array<u32>;
@group(0) @binding(2) var<storage, read_write> digests: array<u32>;
const k_2 = array<u32, 64>(1116352408u, 1899447441u, 3049323471u, 3921009573u, 961987163u, 1508970993u, 2453635748u, 2870763221u, 3624381080u, 310598401u, 607225278u, 1426881987u, 1925078388u, 2162078206u, 2614888103u, 3248222580u, 3835390401u, 4022224774u, 264347078u, 604807628u, 770255983u, 1249150122u, 1555081692u, 1996064986u, 2554220882u, 2821834349u, 2952996808u, 3210313671u, 3336571891u, 3584528711u, 113926993u, 338241895u, 666307205u, 773529912u, 1294757372u, 1396182291u, 1695183700u, 1986661051u, 2177026350u, 2456956037u, 2730485921u, 2820302411u, 3259730800u, 3345764771u, 3516065817u, 3600352804u, 4094571909u, 275423344u, 430227734u, 506948616u, 659060556u, 883997877u, 958139571u, 1322822218u, 1537002063u, 1747873779u, 1955562222u, 2024104815u, 2227730452u, 2361852424u, 2428436474u, 2756734187u, 3204031479u, 3329325298u);
const start = array<u32, 8>(1779033703u, 3144134277u, 1013904242u, 2773480762u, 1359893119u, 2600822924u, 528734635u, 1541459225u);

fn messages_get(w: u32) -> u32 {
  return messages[w];
}

fn digests_put(w: u32, value: u32) {
  digests[w] = value;
}

fn k_2_get(w: u32) -> u32 {
  return k_2[w];
}

fn start_get(w: u32) -> u32 {
  return start[w];
}

fn rotl_u32(a: u32, n: u32) -> u32 {
  let k = n & 31u;
  return (a << k) | (a >> ((32u - k) & 31u));
}

fn rotr_u32(a: u32, n: u32) -> u32 {
  return rotl_u32(a, 32u - (n & 31u));
}

// Where an index that would pass the end of all memory stays out of bounds.
fn index_add(offset: u32, more: u32) -> u32 {
  return offset + min(more, 0xffffffffu - offset);
}

fn messages_load_u8(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = (messages_get((i >> 2u)) >> ((i & 3u) * 8u)) & 0xffu;
  }
  return result;
}

// Four bytes from i up as a word, those out of bounds 0.
fn messages_load_bytes(len: u32, i: u32) -> u32 {
  var word = 0u;
  for (var k = 0u; k < 4u; k++) {
    word |= messages_load_u8(len, index_add(i, k)) << (k * 8u);
  }
  return word;
}

fn digests_store_u32(len: u32, i: u32, value: u32) {
  if (i < len) {
    digests_put(i, value);
  }
}

fn k_2_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = k_2_get(i);
  }
  return result;
}

fn start_load_u32(len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = start_get(i);
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
  let messages_len = launch[2].y;
  let digests_len = launch[2].z;
  let i = workgroup_id.x * 64u + local_id.x;
  let out = i << 3u;
  let n = digests_len;
  let live = out < n;
  if (live) {
    let count = blocks[0u];
    let message_bytes = count << 6u;
    let message = i * message_bytes;
    var hash: array<u32, 8>;
    for (var j = 0u; j < 8u; j += 1u) {
      let h = start_load_u32(8u, j);
      if (j < 8u) {
        hash[j] = h;
      }
    }
    for (var block = 0u; block < count; block += 1u) {
      let skip = block << 6u;
      let first = message + skip;
      var w_2: array<u32, 64>;
      for (var t = 0u; t < 16u; t += 1u) {
        let t4 = t << 2u;
        let at = first + t4;
        let w = messages_load_bytes(messages_len, at);
        let odd = w & 16711935u;
        let even = w & 4278255360u;
        let up = rotl_u32(even, 8u);
        let down = rotr_u32(odd, 8u);
        let r = up | down;
        if (t < 64u) {
          w_2[t] = r;
        }
      }
      for (var t_1 = 16u; t_1 < 64u; t_1 += 1u) {
        let t15 = t_1 - 15u;
        let t2 = t_1 - 2u;
        let t16 = t_1 - 16u;
        let t7 = t_1 - 7u;
        let w15 = select(0u, w_2[min(t15, 63u)], t15 < 64u);
        let w2 = select(0u, w_2[min(t2, 63u)], t2 < 64u);
        let w16 = select(0u, w_2[min(t16, 63u)], t16 < 64u);
        let w7 = select(0u, w_2[min(t7, 63u)], t7 < 64u);
        let a = rotr_u32(w15, 7u);
        let b = rotr_u32(w15, 18u);
        let c = w15 >> 3u;
        let ab = a ^ b;
        let r_1 = ab ^ c;
        let a_1 = rotr_u32(w2, 17u);
        let b_1 = rotr_u32(w2, 19u);
        let c_1 = w2 >> 10u;
        let ab_1 = a_1 ^ b_1;
        let r_2 = ab_1 ^ c_1;
        let a0 = w16 + r_1;
        let a1 = a0 + w7;
        let a2 = a1 + r_2;
        if (t_1 < 64u) {
          w_2[t_1] = a2;
        }
      }
      var s: array<u32, 8>;
      for (var j_1 = 0u; j_1 < 8u; j_1 += 1u) {
        let h_1 = select(0u, hash[min(j_1, 7u)], j_1 < 8u);
        if (j_1 < 8u) {
          s[j_1] = h_1;
        }
      }
      for (var t_2 = 0u; t_2 < 64u; t_2 += 1u) {
        let a_2 = s[0];
        let b_2 = s[1];
        let c_2 = s[2];
        let d = s[3];
        let e = s[4];
        let f = s[5];
        let g = s[6];
        let h_2 = s[7];
        let a_3 = rotr_u32(e, 6u);
        let b_3 = rotr_u32(e, 11u);
        let c_3 = rotr_u32(e, 25u);
        let ab_2 = a_3 ^ b_3;
        let r_3 = ab_2 ^ c_3;
        let ef = e & f;
        let not_e = ~e;
        let eg = not_e & g;
        let r_4 = ef ^ eg;
        let kt = k_2_load_u32(64u, t_2);
        let wt = select(0u, w_2[min(t_2, 63u)], t_2 < 64u);
        let b0 = h_2 + r_3;
        let b1 = b0 + r_4;
        let b2 = b1 + kt;
        let temp1 = b2 + wt;
        let a_4 = rotr_u32(a_2, 2u);
        let b_4 = rotr_u32(a_2, 13u);
        let c_4 = rotr_u32(a_2, 22u);
        let ab_3 = a_4 ^ b_4;
        let r_5 = ab_3 ^ c_4;
        let ab_4 = a_2 & b_2;
        let ac = a_2 & c_2;
        let bc = b_2 & c_2;
        let x = ab_4 ^ ac;
        let r_6 = x ^ bc;
        let temp2 = r_5 + r_6;
        s[7] = g;
        s[6] = f;
        s[5] = e;
        let new_e = d + temp1;
        s[4] = new_e;
        s[3] = c_2;
        s[2] = b_2;
        s[1] = a_2;
        let new_a = temp1 + temp2;
        s[0] = new_a;
      }
      for (var j_2 = 0u; j_2 < 8u; j_2 += 1u) {
        let old = select(0u, hash[min(j_2, 7u)], j_2 < 8u);
        let mixed = select(0u, s[min(j_2, 7u)], j_2 < 8u);
        let sum = old + mixed;
        if (j_2 < 8u) {
          hash[j_2] = sum;
        }
      }
    }
    for (var j_3 = 0u; j_3 < 8u; j_3 += 1u) {
      let word_1 = select(0u, hash[min(j_3, 7u)], j_3 < 8u);
      let to = out + j_3;
      digests_store_u32(digests_len, to, word_1);
    }
  }
}
