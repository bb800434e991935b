// Accesses of elements in a variable of words: `at` is the buffer's first word, `len` its elements, `i` an index. Out of
// bounds they give 0 and do nothing. Each paragraph is one function; those that a program uses are copied into its
// shader once for each variable, whose name stands for SPACE.

fn SPACE_load_u32(at: u32, len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = SPACE_get(at + i);
  }
  return result;
}

fn SPACE_load_u64(at: u32, len: u32, i: u32) -> vec2u {
  var result = vec2u();
  if (i < len) {
    let w = at + 2u * i;
    result = vec2u(SPACE_get(w), SPACE_get(w + 1u));
  }
  return result;
}

fn SPACE_load_u16(at: u32, len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = (SPACE_get(at + (i >> 1u)) >> ((i & 1u) * 16u)) & 0xffffu;
  }
  return result;
}

fn SPACE_load_u8(at: u32, len: u32, i: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = (SPACE_get(at + (i >> 2u)) >> ((i & 3u) * 8u)) & 0xffu;
  }
  return result;
}

// Four bytes from i up as a word, those out of bounds 0.
fn SPACE_load_bytes(at: u32, len: u32, i: u32) -> u32 {
  var word = 0u;
  for (var k = 0u; k < 4u; k++) {
    word |= SPACE_load_u8(at, len, index_add(i, k)) << (k * 8u);
  }
  return word;
}

fn SPACE_store_u32(at: u32, len: u32, i: u32, value: u32) {
  if (i < len) {
    SPACE_put(at + i, value);
  }
}

fn SPACE_store_u64(at: u32, len: u32, i: u32, value: vec2u) {
  if (i < len) {
    let w = at + 2u * i;
    SPACE_put(w, value.x);
    SPACE_put(w + 1u, value.y);
  }
}

// Lanes that store to neighbours in one word do not disturb each other: each flips only the bits of its own element.
fn SPACE_store_u16(at: u32, len: u32, i: u32, value: u32) {
  if (i < len) {
    let w = at + (i >> 1u);
    let shift = (i & 1u) * 16u;
    atomicXor(&SPACE[w], (((atomicLoad(&SPACE[w]) >> shift) ^ value) & 0xffffu) << shift);
  }
}

fn SPACE_store_u8(at: u32, len: u32, i: u32, value: u32) {
  if (i < len) {
    let w = at + (i >> 2u);
    let shift = (i & 3u) * 8u;
    atomicXor(&SPACE[w], (((atomicLoad(&SPACE[w]) >> shift) ^ value) & 0xffu) << shift);
  }
}

fn SPACE_atomic_add_u32(at: u32, len: u32, i: u32, value: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = atomicAdd(&SPACE[at + i], value);
  }
  return result;
}

fn SPACE_atomic_sub_u32(at: u32, len: u32, i: u32, value: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = atomicSub(&SPACE[at + i], value);
  }
  return result;
}

fn SPACE_atomic_min_u32(at: u32, len: u32, i: u32, value: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = atomicMin(&SPACE[at + i], value);
  }
  return result;
}

fn SPACE_atomic_max_u32(at: u32, len: u32, i: u32, value: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = atomicMax(&SPACE[at + i], value);
  }
  return result;
}

fn SPACE_atomic_and_u32(at: u32, len: u32, i: u32, value: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = atomicAnd(&SPACE[at + i], value);
  }
  return result;
}

fn SPACE_atomic_or_u32(at: u32, len: u32, i: u32, value: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = atomicOr(&SPACE[at + i], value);
  }
  return result;
}

fn SPACE_atomic_xor_u32(at: u32, len: u32, i: u32, value: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = atomicXor(&SPACE[at + i], value);
  }
  return result;
}

fn SPACE_atomic_exchange_u32(at: u32, len: u32, i: u32, value: u32) -> u32 {
  var result = 0u;
  if (i < len) {
    result = atomicExchange(&SPACE[at + i], value);
  }
  return result;
}

// WGSL's own may fail without a reason, and then tries again here.
fn SPACE_atomic_compare_exchange_u32(at: u32, len: u32, i: u32, expected: u32, value: u32) -> u32 {
  var old = 0u;
  if (i < len) {
    loop {
      let tried = atomicCompareExchangeWeak(&SPACE[at + i], expected, value);
      old = tried.old_value;
      if (tried.exchanged | (old != expected)) {
        break;
      }
    }
  }
  return old;
}

// The words are unsigned, so the lesser of two signed numbers needs an exchange.
fn SPACE_atomic_min_i32(at: u32, len: u32, i: u32, value: u32) -> u32 {
  var old = 0u;
  if (i < len) {
    old = atomicLoad(&SPACE[at + i]);
    while (bitcast<i32>(value) < bitcast<i32>(old)) {
      let tried = atomicCompareExchangeWeak(&SPACE[at + i], old, value);
      if (tried.exchanged) {
        break;
      }
      old = tried.old_value;
    }
  }
  return old;
}

fn SPACE_atomic_max_i32(at: u32, len: u32, i: u32, value: u32) -> u32 {
  var old = 0u;
  if (i < len) {
    old = atomicLoad(&SPACE[at + i]);
    while (bitcast<i32>(value) > bitcast<i32>(old)) {
      let tried = atomicCompareExchangeWeak(&SPACE[at + i], old, value);
      if (tried.exchanged) {
        break;
      }
      old = tried.old_value;
    }
  }
  return old;
}

// The carry goes up in an atomic of its own: the sum is right when all have added.
fn SPACE_atomic_add_u64(at: u32, len: u32, i: u32, value: vec2u) {
  if (i < len) {
    let w = at + 2u * i;
    let before = atomicAdd(&SPACE[w], value.x);
    let carry = select(0u, 1u, before + value.x < before);
    atomicAdd(&SPACE[w + 1u], value.y + carry);
  }
}

fn SPACE_atomic_sub_u64(at: u32, len: u32, i: u32, value: vec2u) {
  SPACE_atomic_add_u64(at, len, i, neg_i64(value));
}

fn SPACE_atomic_and_u64(at: u32, len: u32, i: u32, value: vec2u) {
  if (i < len) {
    let w = at + 2u * i;
    atomicAnd(&SPACE[w], value.x);
    atomicAnd(&SPACE[w + 1u], value.y);
  }
}

fn SPACE_atomic_or_u64(at: u32, len: u32, i: u32, value: vec2u) {
  if (i < len) {
    let w = at + 2u * i;
    atomicOr(&SPACE[w], value.x);
    atomicOr(&SPACE[w + 1u], value.y);
  }
}

fn SPACE_atomic_xor_u64(at: u32, len: u32, i: u32, value: vec2u) {
  if (i < len) {
    let w = at + 2u * i;
    atomicXor(&SPACE[w], value.x);
    atomicXor(&SPACE[w + 1u], value.y);
  }
}

// The greater of the old value and this one, both with these bits flipped. Two words change together under a lock: whoever
// gets it gives it back in the same turn, so that lanes in step with each other do not wait for ever. No order of atomics
// on different words is promised, so the lock is given back by what the exchanges gave.
fn SPACE_atomic_extreme(at: u32, len: u32, i: u32, value: vec2u, flip: vec2u) {
  if (i < len) {
    let w = at + 2u * i;
    let lock = 1u + i % 1023u;
    var waits = (atomicLoad(&SPACE[w + 1u]) ^ flip.y) <= (value.y ^ flip.y);
    while (waits) {
      if (atomicCompareExchangeWeak(&status[lock], 0u, 1u).exchanged) {
        let old = vec2u(atomicLoad(&SPACE[w]), atomicLoad(&SPACE[w + 1u]));
        let kept = select(old, value, lt_u64(old ^ flip, value ^ flip));
        let low = atomicExchange(&SPACE[w], kept.x);
        let high = atomicExchange(&SPACE[w + 1u], kept.y);
        atomicSub(&status[lock], 1u + (low ^ old.x) + (high ^ old.y));
        waits = false;
      }
    }
  }
}

fn SPACE_clear(words: u32, first: u32, lanes: u32) {
  for (var w = first; w < words; w += lanes) {
    SPACE_put(w, 0u);
  }
}

// Puts the initial contents of the buffer whose entry stands at that word of the input, or zeros if it has none.
fn SPACE_fill(at: u32, entry: u32, first: u32, lanes: u32) {
  let contents = input[entry];
  for (var w = first; w < (input[entry + 1u] + 3u) / 4u; w += lanes) {
    var word = 0u;
    if (contents != 0xffffffffu) {
      word = input[contents / 4u + w];
    }
    SPACE_put(at + w, word);
  }
}
