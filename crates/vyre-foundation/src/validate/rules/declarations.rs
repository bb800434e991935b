//! Rules about headers, buffers and their limits.

use crate::diagnostic::Rule;

pub(super) const RULES: [Rule; 10] = [
    Rule {
        code: "V001",
        title: "a workgroup size is zero or over the limits",
        text: "A workgroup has at least one lane along each axis, at most (1024, 1024, 64) along x, y and z, and at \
               most 1024 lanes in all.",
        wrong: "\
program @fill workgroup(2048, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  store.u32 @y[%i], %i
}
",
        right: "\
program @fill workgroup(1024, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  store.u32 @y[%i], %i
}
",
    },
    Rule {
        code: "V002",
        title: "a subgroup width does not fit the workgroup",
        text: "Logical subgroups are consecutive lanes of a workgroup. Their width is a power of two up to 32, and it \
               divides the workgroup's lanes, so that every subgroup is full.",
        wrong: "\
program @sums workgroup(48, 1, 1) subgroup(32) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %s = subgroup_reduce_add.u32 %i
  store.u32 @y[%i], %s
}
",
        right: "\
program @sums workgroup(48, 1, 1) subgroup(16) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %s = subgroup_reduce_add.u32 %i
  store.u32 @y[%i], %s
}
",
    },
    Rule {
        code: "V003",
        title: "two buffers have one binding",
        text: "A binding is where the caller puts one buffer, so each buffer has its own.",
        wrong: "\
program @copy workgroup(64, 1, 1) {
  buffer @x : read       u32[] binding 0
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %v = load.u32 @x[%i]
  store.u32 @y[%i], %v
}
",
        right: "\
program @copy workgroup(64, 1, 1) {
  buffer @x : read       u32[] binding 0
  buffer @y : read_write u32[] binding 1 output

  %i = global_id x
  %v = load.u32 @x[%i]
  store.u32 @y[%i], %v
}
",
    },
    Rule {
        code: "V004",
        title: "a binding is over the limit",
        text: "Bindings are numbered from 0 to 255. They need not be dense.",
        wrong: "\
program @fill workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 1000 output

  %i = global_id x
  store.u32 @y[%i], %i
}
",
        right: "\
program @fill workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  store.u32 @y[%i], %i
}
",
    },
    Rule {
        code: "V005",
        title: "a buffer or table has bool elements",
        text: "A bool has no bytes, so it does not lie in buffers and tables. Locals and private arrays may hold it.",
        wrong: "\
program @flags workgroup(64, 1, 1) {
  buffer @y : read_write bool[] binding 0 output

  %n = len @y
}
",
        right: "\
program @flags workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %n = len @y
}
",
    },
    Rule {
        code: "V006",
        title: "a buffer, table or private array has no elements",
        text: "Every access to it would be out of bounds, so a length of 0 is a mistake. Storage buffers may leave \
               their length to the launch, which may be 0 there.",
        wrong: "\
program @fill workgroup(64, 1, 1) {
  buffer @y : read_write u32[0] binding 0 output

  %i = global_id x
  store.u32 @y[%i], %i
}
",
        right: "\
program @fill workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  store.u32 @y[%i], %i
}
",
    },
    Rule {
        code: "V007",
        title: "a workgroup or uniform buffer has no fixed length",
        text: "Nobody binds workgroup memory, so only its declaration can say how long it is. Devices place uniform \
               buffers in small memory of fixed size; a buffer whose length the launch decides is `read`.",
        wrong: "\
program @swap workgroup(64, 1, 1) {
  buffer @y    : read_write u32[] binding 0 output
  buffer @tile : workgroup  u32[]

  %l = local_index
  %v = load.u32 @y[%l]
  store.u32 @tile[%l], %v
}
",
        right: "\
program @swap workgroup(64, 1, 1) {
  buffer @y    : read_write u32[]   binding 0 output
  buffer @tile : workgroup  u32[64]

  %l = local_index
  %v = load.u32 @y[%l]
  store.u32 @tile[%l], %v
}
",
    },
    Rule {
        code: "V008",
        title: "there is too much workgroup memory",
        text: "All workgroup buffers together have at most 256 KiB. Devices often have less; a backend says so when \
               it compiles the program.",
        wrong: "\
program @stage workgroup(64, 1, 1) {
  buffer @tile : workgroup f32[100000]

  %l = local_index
  store.f32 @tile[%l], 1.0
}
",
        right: "\
program @stage workgroup(64, 1, 1) {
  buffer @tile : workgroup f32[65536]

  %l = local_index
  store.f32 @tile[%l], 1.0
}
",
    },
    Rule {
        code: "V009",
        title: "a uniform buffer is too long",
        text: "A uniform buffer has at most 64 KiB, which every device offers. Longer ones are `read`.",
        wrong: "\
program @scale workgroup(64, 1, 1) {
  buffer @k : uniform    f32[20000] binding 0
  buffer @y : read_write f32[]      binding 1 output

  %i = global_id x
  %v = load.f32 @k[%i]
  store.f32 @y[%i], %v
}
",
        right: "\
program @scale workgroup(64, 1, 1) {
  buffer @k : read       f32[20000] binding 0
  buffer @y : read_write f32[]      binding 1 output

  %i = global_id x
  %v = load.f32 @k[%i]
  store.f32 @y[%i], %v
}
",
    },
    Rule {
        code: "V010",
        title: "private arrays are too long",
        text: "The private arrays of a lane have at most 64 KiB together. A function's arrays count once for each \
               call, because calls are inlined; a call in a loop counts once.",
        wrong: "\
program @sort workgroup(1, 1, 1) {
  var $a : f64[10000] = 0.0
  set.f64 $a[0], 1.0
}
",
        right: "\
program @sort workgroup(1, 1, 1) {
  var $a : f64[8192] = 0.0
  set.f64 $a[0], 1.0
}
",
    },
];
