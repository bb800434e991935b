//! Rules about flow: where lanes come together, scopes, loops, `indirect` and what inlining multiplies.

use crate::diagnostic::Rule;

pub(super) const RULES: [Rule; 13] = [
    Rule {
        code: "V030",
        title: "lanes come together in a function",
        text: "Barriers, subgroup ops, `uniform_load`, `mma` and collectives stand in the main body, where the flow \
               around them can be seen. Functions compute, read and write.",
        wrong: "\
program @stage workgroup(64, 1, 1) {
  buffer @tile : workgroup u32[64]

  fn @put(%at : u32) {
    store.u32 @tile[%at], 1
    barrier
  }

  %l = local_index
  call @put(%l)
}
",
        right: "\
program @stage workgroup(64, 1, 1) {
  buffer @tile : workgroup u32[64]

  fn @put(%at : u32) {
    store.u32 @tile[%at], 1
  }

  %l = local_index
  call @put(%l)
  barrier
}
",
    },
    Rule {
        code: "V031",
        title: "the lanes of a workgroup do not come together",
        text: "Barriers, subgroup ops, `uniform_load` and `mma` need every lane of the workgroup. They may stand under \
               conditions and in loops, if all lanes of a workgroup decide alike: the condition comes from literals, \
               counts, `len`, workgroup ids, read-only buffers at such indices, and `uniform_load`. What lanes may \
               see differently counts against it: lane ids, loads from writable memory, atomics, subgroup results, \
               anything computed from those, and locals that only some lanes set. Lanes that leave a loop early, or \
               skip a trip, part all of the loop's block.",
        wrong: "\
program @hit workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  var $x : u32 = 0
  %first = eq.u32 %i, 0
  if %first {
    set.u32 $x, 1
  }
  %x = get.u32 $x
  %hit = eq.u32 %x, 1
  if %hit {
    store.u32 @y[0], 1
    barrier
    store.u32 @y[1], 1
  }
}
",
        right: "\
program @hit workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  var $x : u32 = 0
  %first = eq.u32 %i, 0
  if %first {
    set.u32 $x, 1
  }
  %x = get.u32 $x
  %hit = eq.u32 %x, 1
  if %hit {
    store.u32 @y[0], 1
  }
  barrier
  if %hit {
    store.u32 @y[1], 1
  }
}
",
    },
    Rule {
        code: "V032",
        title: "the lanes of the grid do not come together",
        text: "Grid barriers and collectives need every lane of the grid. Conditions and loop bounds around them are \
               the same for all: literals, counts, `len`, and loads from read-only buffers at such indices. A \
               workgroup's id, or a `uniform_load`, is the same for one workgroup only.",
        wrong: "\
program @steps workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %g = workgroup_id x
  %zero = eq.u32 %g, 0
  if %zero {
    store.u32 @y[%i], 1
    grid_barrier
  }
}
",
        right: "\
program @steps workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %g = workgroup_id x
  %zero = eq.u32 %g, 0
  if %zero {
    store.u32 @y[%i], 1
  }
  grid_barrier
}
",
    },
    Rule {
        code: "V033",
        title: "an operand differs between lanes that must agree",
        text: "The index of a `uniform_load`, the offsets of an `mma` and the lane of a `subgroup_broadcast` are the \
               same for all lanes of a workgroup.",
        wrong: "\
program @turn workgroup(32, 1, 1) subgroup(32) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %l = subgroup_lane
  %from = xor.u32 %l, 1
  %v = subgroup_broadcast.u32 %i, %from
  store.u32 @y[%i], %v
}
",
        right: "\
program @turn workgroup(32, 1, 1) subgroup(32) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %l = subgroup_lane
  %from = xor.u32 %l, 1
  %v = subgroup_shuffle.u32 %i, %from
  store.u32 @y[%i], %v
}
",
    },
    Rule {
        code: "V034",
        title: "a name is assigned twice",
        text: "A value is assigned once while its block is open, and a local is declared once. After the block has \
               ended the name is free again. What changes is a local.",
        wrong: "\
program @inc workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %v = load.u32 @y[%i]
  %v = add.u32 %v, 1
  store.u32 @y[%i], %v
}
",
        right: "\
program @inc workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %v = load.u32 @y[%i]
  %r = add.u32 %v, 1
  store.u32 @y[%i], %r
}
",
    },
    Rule {
        code: "V035",
        title: "a name is used before it is assigned",
        text: "Lines run in the order of the text. A value that a loop hands from one trip to the next is a local, \
               declared before the loop.",
        wrong: "\
program @inc workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %r = add.u32 %v, 1
  %v = load.u32 @y[%i]
  store.u32 @y[%i], %r
}
",
        right: "\
program @inc workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %v = load.u32 @y[%i]
  %r = add.u32 %v, 1
  store.u32 @y[%i], %r
}
",
    },
    Rule {
        code: "V036",
        title: "a name is used outside its block",
        text: "A value or local lives until the end of the block that assigns it: elsewhere it may never have been \
               assigned. What leaves a block leaves in a local that is declared before it.",
        wrong: "\
program @pick workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %odd = and.u32 %i, 1
  %c = eq.u32 %odd, 1
  if %c {
    %v = load.u32 @y[%i]
  }
  store.u32 @y[%i], %v
}
",
        right: "\
program @pick workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %odd = and.u32 %i, 1
  %c = eq.u32 %odd, 1
  var $v : u32 = 0
  if %c {
    %v = load.u32 @y[%i]
    set.u32 $v, %v
  }
  %r = get.u32 $v
  store.u32 @y[%i], %r
}
",
    },
    Rule {
        code: "V037",
        title: "break or continue stands outside any loop",
        text: "`break` and `continue` speak of the innermost loop around them. A function has its own loops, not its \
               caller's.",
        wrong: "\
program @stop workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %n = len @y
  %past = ge.u32 %i, %n
  if %past {
    break
  }
  store.u32 @y[%i], %i
}
",
        right: "\
program @stop workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %n = len @y
  %inside = lt.u32 %i, %n
  if %inside {
    store.u32 @y[%i], %i
  }
}
",
    },
    Rule {
        code: "V038",
        title: "a line never runs",
        text: "A `break` or `continue` is the last line of its block. Lines after it are forgotten or misplaced.",
        wrong: "\
program @first workgroup(1, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  for %i in 0..8 {
    break
    store.u32 @y[%i], 1
  }
}
",
        right: "\
program @first workgroup(1, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  for %i in 0..8 {
    store.u32 @y[%i], 1
    break
  }
}
",
    },
    Rule {
        code: "V039",
        title: "indirect is not the first line",
        text: "`indirect` says where the grid comes from. It is read before the launch, so it stands once, as the \
               first line of the main body.",
        wrong: "\
program @fill workgroup(64, 1, 1) {
  buffer @args : read       u32[3] binding 0
  buffer @y    : read_write u32[]  binding 1 output

  %i = global_id x
  indirect @args[0]
  store.u32 @y[%i], 1
}
",
        right: "\
program @fill workgroup(64, 1, 1) {
  buffer @args : read       u32[3] binding 0
  buffer @y    : read_write u32[]  binding 1 output

  indirect @args[0]
  %i = global_id x
  store.u32 @y[%i], 1
}
",
    },
    Rule {
        code: "V040",
        title: "indirect reads the wrong memory",
        text: "The three counts are u32 elements of a bound buffer that no line of the program writes, and within its \
               length if that is declared.",
        wrong: "\
program @fill workgroup(64, 1, 1) {
  buffer @args : read       u32[4] binding 0
  buffer @y    : read_write u32[]  binding 1 output

  indirect @args[2]
  %i = global_id x
  store.u32 @y[%i], 1
}
",
        right: "\
program @fill workgroup(64, 1, 1) {
  buffer @args : read       u32[4] binding 0
  buffer @y    : read_write u32[]  binding 1 output

  indirect @args[1]
  %i = global_id x
  store.u32 @y[%i], 1
}
",
    },
    Rule {
        code: "V041",
        title: "the inlined program has too many lines",
        text: "Functions are always inlined, so calls multiply lines. The whole has at most 16,777,216.",
        wrong: V041_WRONG,
        right: V041_RIGHT,
    },
    Rule {
        code: "V042",
        title: "inlined blocks nest too deep",
        text: "A function's blocks nest in those around its call. The whole is at most 128 blocks deep, which keeps \
               every tool that walks a program within its stack.",
        wrong: V042_WRONG,
        right: V042_RIGHT,
    },
];

const V041_WRONG: &str = include_str!("examples/v041_wrong.vyre");
const V041_RIGHT: &str = include_str!("examples/v041_right.vyre");
const V042_WRONG: &str = include_str!("examples/v042_wrong.vyre");
const V042_RIGHT: &str = include_str!("examples/v042_right.vyre");
