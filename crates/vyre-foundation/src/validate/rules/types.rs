//! Rules about the types of lines, operands and functions.

use crate::diagnostic::Rule;

pub(super) const RULES: [Rule; 19] = [
    Rule {
        code: "V011",
        title: "an op does not take this type",
        text: "The op table lists the types of each op. u8, i8, u16 and i16 lie in memory only: a load gives u32 or \
               i32, and arithmetic is done in those.",
        wrong: "\
program @sum workgroup(64, 1, 1) {
  buffer @x : read       u8[]  binding 0
  buffer @y : read_write u32[] binding 1 output

  %i = global_id x
  %a = load.u8 @x[%i]
  %s = add.u8 %a, 1
  store.u32 @y[%i], %s
}
",
        right: "\
program @sum workgroup(64, 1, 1) {
  buffer @x : read       u8[]  binding 0
  buffer @y : read_write u32[] binding 1 output

  %i = global_id x
  %a = load.u8 @x[%i]
  %s = add.u32 %a, 1
  store.u32 @y[%i], %s
}
",
    },
    Rule {
        code: "V012",
        title: "an op has too few or too many operands",
        text: "The op table says how many operands an op takes.",
        wrong: "\
program @scale workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  %i = global_id x
  %v = load.f32 @y[%i]
  %r = fma.f32 %v, 2.0
  store.f32 @y[%i], %r
}
",
        right: "\
program @scale workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  %i = global_id x
  %v = load.f32 @y[%i]
  %r = fma.f32 %v, 2.0, 0.0
  store.f32 @y[%i], %r
}
",
    },
    Rule {
        code: "V013",
        title: "an operand has the wrong type",
        text: "Nothing converts by itself: an operand has exactly the type that the op's suffix or its place asks \
               for. Indices, loop bounds and shift amounts are u32, conditions bool, arguments and results what the \
               function declares.",
        wrong: "\
program @ramp workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  %i = global_id x
  %r = mul.f32 %i, 0.5
  store.f32 @y[%i], %r
}
",
        right: "\
program @ramp workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  %i = global_id x
  %i.f32 = cast.f32 %i
  %r = mul.f32 %i.f32, 0.5
  store.f32 @y[%i], %r
}
",
    },
    Rule {
        code: "V014",
        title: "an access has not the buffer's element type",
        text: "Loads, stores, atomics, tiles and collectives name the element type of their buffer, so that one line \
               says what it does. The one exception is `load.u32` on u8 elements, which reads four bytes.",
        wrong: "\
program @fill workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  %i = global_id x
  store.u32 @y[%i], %i
}
",
        right: "\
program @fill workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  %i = global_id x
  %v = cast.f32 %i
  store.f32 @y[%i], %v
}
",
    },
    Rule {
        code: "V015",
        title: "read-only memory is written",
        text: "Stores and atomics go to `read_write` and `workgroup` buffers. Uniform and read buffers and tables \
               keep their contents, which is why loads from them can be the same for all lanes.",
        wrong: "\
program @inc workgroup(64, 1, 1) {
  buffer @y : read u32[] binding 0

  %i = global_id x
  %v = load.u32 @y[%i]
  %r = add.u32 %v, 1
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
        code: "V016",
        title: "a bitcast is between types of different widths",
        text: "`bitcast` reads the same bits as another type: u32, i32 and f32 among themselves, u64, i64 and f64 \
               among themselves, and f16 or bf16 as the low 16 bits of a u32.",
        wrong: "\
program @bits workgroup(64, 1, 1) {
  buffer @y : read_write u64[] binding 0 output

  %i = global_id x
  %r = bitcast.u64 %i
  store.u64 @y[%i], %r
}
",
        right: "\
program @bits workgroup(64, 1, 1) {
  buffer @y : read_write u64[] binding 0 output

  %i = global_id x
  %r = cast.u64 %i
  store.u64 @y[%i], %r
}
",
    },
    Rule {
        code: "V017",
        title: "an axis is missing or too much",
        text: "Ids and sizes are asked for along x, y or z. Linear indices have no axis.",
        wrong: "\
program @fill workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id
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
        code: "V018",
        title: "a loop's step is zero",
        text: "Every loop ends: its counter grows by a literal that is not zero.",
        wrong: "\
program @fill workgroup(1, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  for %i in 0..8 step 0 {
    store.u32 @y[%i], %i
  }
}
",
        right: "\
program @fill workgroup(1, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  for %i in 0..8 step 1 {
    store.u32 @y[%i], %i
  }
}
",
    },
    Rule {
        code: "V019",
        title: "an op works on workgroup memory only",
        text: "`uniform_load` and `mma` are steps of a whole workgroup between two barriers, on the memory that the \
               workgroup shares.",
        wrong: "\
program @first workgroup(64, 1, 1) {
  buffer @x : read       u32[] binding 0
  buffer @y : read_write u32[] binding 1 output

  %i = global_id x
  %v = uniform_load.u32 @x[0]
  store.u32 @y[%i], %v
}
",
        right: "\
program @first workgroup(64, 1, 1) {
  buffer @x : read       u32[] binding 0
  buffer @y : read_write u32[] binding 1 output

  %i = global_id x
  %v = load.u32 @x[0]
  store.u32 @y[%i], %v
}
",
    },
    Rule {
        code: "V020",
        title: "an extent of a tile product is out of range",
        text: "m, n and k of an `mma` are from 1 to 256. Larger products are made of several tiles.",
        wrong: "\
program @tile workgroup(64, 1, 1) {
  buffer @a : workgroup i8[4096]
  buffer @b : workgroup i8[4096]
  buffer @c : workgroup i32[256]

  mma.i32.i8 16, 8, 512, @c[0], @a[0], @b[0]
}
",
        right: "\
program @tile workgroup(64, 1, 1) {
  buffer @a : workgroup i8[4096]
  buffer @b : workgroup i8[4096]
  buffer @c : workgroup i32[256]

  mma.i32.i8 16, 8, 256, @c[0], @a[0], @b[0]
}
",
    },
    Rule {
        code: "V021",
        title: "an index is missing or too much",
        text: "A private array is read and set one element at a time. A local that is no array has no index.",
        wrong: "\
program @take workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  %i = global_id x
  var $a : f32[16] = 0.5
  %v = get.f32 $a
  store.f32 @y[%i], %v
}
",
        right: "\
program @take workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  %i = global_id x
  var $a : f32[16] = 0.5
  %v = get.f32 $a[0]
  store.f32 @y[%i], %v
}
",
    },
    Rule {
        code: "V022",
        title: "a local is accessed as another type",
        text: "`get` and `set` name the type that the local's `var` declares.",
        wrong: "\
program @take workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  %i = global_id x
  var $a : f32 = 0.5
  set.u32 $a, %i
  %v = get.f32 $a
  store.f32 @y[%i], %v
}
",
        right: "\
program @take workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  %i = global_id x
  var $a : f32 = 0.5
  set.f32 $a, 2.0
  %v = get.f32 $a
  store.f32 @y[%i], %v
}
",
    },
    Rule {
        code: "V023",
        title: "a storage type stands where values compute",
        text: "u8, i8, u16 and i16 exist in memory only. Locals, private arrays, parameters and results are u32 or \
               i32 instead, the types that such elements load as.",
        wrong: "\
program @count workgroup(64, 1, 1) {
  var $n : u8 = 0
}
",
        right: "\
program @count workgroup(64, 1, 1) {
  var $n : u32 = 0
}
",
    },
    Rule {
        code: "V024",
        title: "a call has too few or too many arguments",
        text: "A call gives one argument for each parameter.",
        wrong: "\
program @twice workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  fn @axpy(%a : f32, %x : f32, %y : f32) -> f32 {
    %r = fma.f32 %a, %x, %y
    return %r
  }

  %i = global_id x
  %v = load.f32 @y[%i]
  %r = call @axpy(2.0, %v)
  store.f32 @y[%i], %r
}
",
        right: "\
program @twice workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  fn @axpy(%a : f32, %x : f32, %y : f32) -> f32 {
    %r = fma.f32 %a, %x, %y
    return %r
  }

  %i = global_id x
  %v = load.f32 @y[%i]
  %r = call @axpy(2.0, %v, 0.0)
  store.f32 @y[%i], %r
}
",
    },
    Rule {
        code: "V025",
        title: "a call without a result assigns a value",
        text: "Only a function that declares a result with `->` gives one. A result may be left unused.",
        wrong: "\
program @put workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  fn @put(%at : u32) {
    store.u32 @y[%at], 1
  }

  %i = global_id x
  %r = call @put(%i)
}
",
        right: "\
program @put workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  fn @put(%at : u32) {
    store.u32 @y[%at], 1
  }

  %i = global_id x
  call @put(%i)
}
",
    },
    Rule {
        code: "V026",
        title: "a return stands in the wrong place",
        text: "A function has one exit: `return` is its last line. The main body has no result and no `return`. \
               Flow then always comes back together where blocks end.",
        wrong: "\
program @clip workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  fn @clip(%x : f32) -> f32 {
    %low = lt.f32 %x, 0.0
    if %low {
      return 0.0
    }
    return %x
  }

  %i = global_id x
  %v = load.f32 @y[%i]
  %r = call @clip(%v)
  store.f32 @y[%i], %r
}
",
        right: "\
program @clip workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  fn @clip(%x : f32) -> f32 {
    var $result : f32 = %x
    %low = lt.f32 %x, 0.0
    if %low {
      set.f32 $result, 0.0
    }
    %r = get.f32 $result
    return %r
  }

  %i = global_id x
  %v = load.f32 @y[%i]
  %r = call @clip(%v)
  store.f32 @y[%i], %r
}
",
    },
    Rule {
        code: "V027",
        title: "a function does not return what it declares",
        text: "A function that declares a result with `->` ends with `return` and a value. One that declares none \
               returns none.",
        wrong: "\
program @square workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  fn @square(%x : f32) -> f32 {
    %r = mul.f32 %x, %x
  }

  %i = global_id x
  %v = load.f32 @y[%i]
  %r = call @square(%v)
  store.f32 @y[%i], %r
}
",
        right: "\
program @square workgroup(64, 1, 1) {
  buffer @y : read_write f32[] binding 0 output

  fn @square(%x : f32) -> f32 {
    %r = mul.f32 %x, %x
    return %r
  }

  %i = global_id x
  %v = load.f32 @y[%i]
  %r = call @square(%v)
  store.f32 @y[%i], %r
}
",
    },
    Rule {
        code: "V028",
        title: "no subgroup width is declared",
        text: "Hardware widths differ from device to device, and results would with them. So a program that uses \
               subgroups declares a logical width, and every device gives the results of that width.",
        wrong: "\
program @sums workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %s = subgroup_reduce_add.u32 %i
  store.u32 @y[%i], %s
}
",
        right: "\
program @sums workgroup(64, 1, 1) subgroup(32) {
  buffer @y : read_write u32[] binding 0 output

  %i = global_id x
  %s = subgroup_reduce_add.u32 %i
  store.u32 @y[%i], %s
}
",
    },
    Rule {
        code: "V029",
        title: "a collective's buffers do not fit",
        text: "A collective moves elements between ranks: from a buffer that the caller binds to another one, bound \
               as `read_write`. It cannot work in place, because ranks read what others still have to send.",
        wrong: "\
program @sum workgroup(64, 1, 1) {
  buffer @x : read_write f32[] binding 0
  buffer @y : read_write f32[] binding 1 output

  all_reduce.f32 add, @x, @x
}
",
        right: "\
program @sum workgroup(64, 1, 1) {
  buffer @x : read_write f32[] binding 0
  buffer @y : read_write f32[] binding 1 output

  all_reduce.f32 add, @y, @x
}
",
    },
];
