//! Steps that lanes take together, and control flow: each op of the table once, in its plainest use.
//!
//! Grid barriers and collectives run in one workgroup, where conventions carry them; for drivers in several.

use super::super::operands::{Row, edges, value};
use super::super::rows::Kernel;
use super::super::script::Script;
use super::{lanes, track};
use crate::batch::{Batch, Group, Level, Plan, Step};
use vyre_foundation::ir::{DataType, ReduceOp, SyncOp, TypeSet};
use vyre_generate::source::Seeded;

/// Makes the batches of the group with that name.
type Make = fn(&Plan<'_>, &str) -> Vec<Batch>;

pub(super) fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for (at, ty) in TypeSet::STORED.iter().enumerate() {
        groups.push(typed(SyncOp::UniformLoad, ty, move |_, name| {
            let branch = at.is_multiple_of(3).then(|| uniform_load(name, at, ty, true));
            [uniform_load(name, at, ty, false)].into_iter().chain(branch).collect()
        }));
        for op in [SyncOp::AllReduce, SyncOp::AllGather, SyncOp::ReduceScatter, SyncOp::Broadcast] {
            if op.info().types.contains(ty) {
                groups.push(typed(op, ty, move |plan, name| vec![collective(plan, name, at, op, ty)]));
            }
        }
    }
    let plain: [(&str, Make); 12] = [
        ("barrier", |_, name| vec![exchange(name, "barrier", [1, 1, 1])]),
        ("subgroup_barrier", |_, name| vec![exchange(name, "subgroup_barrier", [1, 1, 1])]),
        ("grid_barrier", |plan, name| vec![grid_barrier(plan, name)]),
        ("mma", |_, name| tile_products(name)),
        ("if", |plan, name| rows(plan, name, IF)),
        ("for", |plan, name| rows(plan, name, FOR)),
        ("break", |plan, name| rows(plan, name, BREAK)),
        ("continue", |plan, name| rows(plan, name, CONTINUE)),
        ("call", |_, name| vec![calls(name)]),
        ("return", |_, name| vec![calls(name)]),
        ("indirect", |_, name| indirect(name)),
        ("trap", |_, name| vec![traps(name)]),
    ];
    for (op, make) in plain {
        let name = format!("op/{op}");
        groups.push(Group::fixed(name.clone(), Level::Ops, track(&[]), move |plan| make(plan, &name)));
    }
    groups
}

fn typed(
    op: SyncOp,
    ty: DataType,
    make: impl Fn(&Plan<'_>, &str) -> Vec<Batch> + Send + Sync + 'static,
) -> Group {
    let name = format!("op/{ty}/{}", op.info().name);
    Group::fixed(name.clone(), Level::Ops, track(&[ty]), move |plan| make(plan, &name))
}

/// Values of a type, many at an edge.
fn values(ty: DataType, count: usize) -> Vec<u64> {
    let mut random = Seeded::new(u64::from(ty.tag()) + 70);
    let wide = ty.computes_as();
    let mut all = edges(wide);
    all.resize_with(all.len().max(count), || value(wide, &mut random));
    all.truncate(count);
    all.iter().map(|bits| bits & ty.mask()).collect()
}

/// Each workgroup's lanes read one element that another lane wrote; a workgroup beyond the end reads 0. With `branch`,
/// what they read decides a branch that all of them take.
fn uniform_load(name: &str, at: usize, ty: DataType, branch: bool) -> Batch {
    let (size, wide) = (lanes(at * 21).max(2), ty.computes_as());
    let groups = 9;
    let count = (size * groups) as usize;
    let mut script = Script::new([size, 1, 1])
        .read("x", ty, &values(ty, count))
        .output("y", wide, count)
        .declare(&format!("buffer @w : workgroup {ty}[{size}]"));
    let mut lines = format!(
        "  %i = global_id x\n  %l = local_index\n  %g = workgroup_id x\n  %x = load.{ty} @x[%i]\n  \
         store.{ty} @w[%l], %x\n  %far = mul.u32 %g, {}\n  %u = uniform_load.{ty} @w[%far]\n  \
         store.{ty} @w[%l], %u\n  store.{wide} @y[%i], %u",
        size.div_ceil(7)
    );
    if branch {
        script = script.output("branch", DataType::U32, count);
        lines += &format!(
            "\n  %v = uniform_load.{ty} @w[0]\n  %same = eq.{wide} %u, %v\n  if %same {{\n    barrier\n    \
             store.u32 @branch[%i], %l\n  }}"
        );
    }
    let kind = if branch { "branch" } else { "rows" };
    script.batch(format!("{name}:{kind}:wg={size}"), [groups, 1, 1], &lines)
}

/// One rank: the destination gets the source, as far as both reach.
fn collective(plan: &Plan<'_>, name: &str, at: usize, op: SyncOp, ty: DataType) -> Batch {
    let size = lanes(at * 13 + 60);
    let folds: Vec<ReduceOp> =
        ReduceOp::ALL.into_iter().filter(|fold| fold.op().info().types.contains(ty)).collect();
    let fold = folds.get(at % folds.len().max(1)).map_or("", |fold| fold.name());
    let statement = match op {
        SyncOp::AllReduce => format!("all_reduce.{ty} {fold}, @dst, @src"),
        SyncOp::AllGather => format!("all_gather.{ty} @dst, @src"),
        SyncOp::ReduceScatter => format!("reduce_scatter.{ty} {fold}, @dst, @src"),
        SyncOp::Broadcast => format!("broadcast.{ty} @dst, @src, 3"),
        SyncOp::Barrier
        | SyncOp::SubgroupBarrier
        | SyncOp::GridBarrier
        | SyncOp::UniformLoad
        | SyncOp::Mma => {
            unreachable!("{op:?} is no collective")
        }
    };
    let all = values(ty, 67);
    let script = Script::new([size, 1, 1]).scratch("src", ty, &all).filled("dst", ty, &all[5..]);
    // What a lane wrote before is part of it, and what one reads after is the result.
    let lines = format!(
        "  %i = global_id x\n  %first = eq.u32 %i, 0\n  if %first {{\n    store.{ty} @src[3], {one}\n  }}\n  {statement}\n  \
         if %first {{\n    %v = load.{ty} @dst[3]\n    store.{ty} @dst[4], %v\n  }}",
        one = if ty.is_float() { "1.0" } else { "1" }
    );
    let grid = if plan.driver { [3, 1, 1] } else { [1, 1, 1] };
    script.batch(format!("{name}:one-rank:wg={size}"), grid, &lines)
}

/// Lanes exchange values through workgroup and storage memory, twice.
fn exchange(name: &str, barrier: &str, grid: [u32; 3]) -> Batch {
    let script = Script::new([96, 1, 1])
        .subgroup(32)
        .read("x", DataType::U32, &values(DataType::U32, 96))
        .scratch("s", DataType::U32, &[0; 96])
        .output("y", DataType::U32, 96)
        .output("z", DataType::U32, 96)
        .declare("buffer @w : workgroup u32[96]");
    let lines = format!(
        "  %l = local_index\n  %x = load.u32 @x[%l]\n  store.u32 @w[%l], %x\n  store.u32 @s[%l], %l\n  {barrier}\n  \
         %other = xor.u32 %l, 31\n  %a = load.u32 @w[%other]\n  %b = load.u32 @s[%other]\n  {barrier}\n  \
         %sum = add.u32 %a, %b\n  store.u32 @w[%l], %sum\n  store.u32 @s[%other], %sum\n  {barrier}\n  \
         %next = xor.u32 %l, 5\n  %c = load.u32 @w[%next]\n  %d = load.u32 @s[%next]\n  store.u32 @y[%l], %c\n  \
         store.u32 @z[%l], %d"
    );
    script.batch(format!("{name}:exchange:wg=96"), grid, &lines)
}

/// Lanes of all workgroups exchange values through storage memory; locals and workgroup memory survive.
fn grid_barrier(plan: &Plan<'_>, name: &str) -> Batch {
    let groups = if plan.driver { 3 } else { 1 };
    let count = 40 * groups;
    let script = Script::new([40, 1, 1])
        .scratch("s", DataType::U32, &vec![0; count])
        .output("y", DataType::U32, count)
        .declare("buffer @w : workgroup u32[40]");
    let lines = format!(
        "  %i = global_id x\n  %l = local_index\n  var $kept : u32 = %i\n  %v = mul.u32 %i, 2654435761\n  \
         store.u32 @s[%i], %v\n  store.u32 @w[%l], %l\n  grid_barrier\n  %other = sub.u32 {}, %i\n  \
         %t = load.u32 @s[%other]\n  %k = get.u32 $kept\n  %w = load.u32 @w[%l]\n  %u = add.u32 %t, %k\n  \
         %r = xor.u32 %u, %w\n  store.u32 @y[%i], %r",
        count - 1
    );
    script.batch(format!("{name}:exchange:wg=40"), [groups as u32, 1, 1], &lines)
}

/// Tiles of several shapes, some over the end of their buffers.
fn tile_products(name: &str) -> Vec<Batch> {
    let shapes = [(1, 1, 1), (3, 5, 7), (16, 16, 16), (8, 4, 33), (2, 9, 64)];
    let batch = |(m, n, k): (usize, usize, usize)| {
        let (a, b, c) = (m * k + 3, n * k + 2, m * n + 1);
        let sums = values(DataType::I32, c);
        let script = Script::new([48, 1, 1])
            .read("a", DataType::I8, &values(DataType::I8, a))
            .read("b", DataType::I8, &values(DataType::I8, b))
            .filled("c", DataType::I32, &sums)
            .declare(&format!("buffer @ta : workgroup i8[{a}]"))
            .declare(&format!("buffer @tb : workgroup i8[{b}]"))
            .declare(&format!("buffer @tc : workgroup i32[{c}]"));
        let copy = |from: &str, to: &str, ty: &str, count: usize, label: &str| {
            format!(
                "  for %{label} in %l..{count} step LANES {{\n    %v = load.{ty} @{from}[%{label}]\n    \
                 store.{ty} @{to}[%{label}], %v\n  }}\n"
            )
        };
        let mut lines = "  %l = local_index\n".to_owned();
        lines += &copy("a", "ta", "i8", a, "i");
        lines += &copy("b", "tb", "i8", b, "j");
        lines += &copy("c", "tc", "i32", c, "k");
        // The second product reaches beyond all three.
        lines += &format!("  mma.i32.i8 {m}, {n}, {k}, @tc[1], @ta[3], @tb[2]\n");
        lines += &format!("  mma.i32.i8 {m}, {n}, {k}, @tc[2], @ta[{}], @tb[4]\n", 3 + k);
        lines += &copy("tc", "c", "i32", c, "m");
        script.batch(format!("{name}:m={m}:n={n}:k={k}:wg=48"), [1, 1, 1], &lines)
    };
    shapes.into_iter().map(batch).collect()
}

const IF: &str = "
var $r : u32 = 1
%c = lt.u32 %a, %b
if %c {
  %d = eq.u32 %a, 0
  if %d {
    set.u32 $r, 2
  } else {
    set.u32 $r, %a
  }
} else {
  %e = eq.u32 %a, %b
  if %e {
    set.u32 $r, 3
  }
}
%y = get.u32 $r";

/// Trips at every place of the range; the counter stays below the end even where one more step would wrap. The end is
/// what it was before the first trip.
const FOR: &str = "
var $sum : u32 = 0
%low = and.u32 %a, 0xfffffff0
%far = add_sat.u32 %low, %b
var $end : u32 = %far
%hi = get.u32 $end
for %k in %low..%hi step 7 {
  set.u32 $end, %k
  %s = get.u32 $sum
  %t = rotl.u32 %s, 3
  %u = add.u32 %t, %k
  set.u32 $sum, %u
  for %j in 3..%k step 4294967295 {
    %v = get.u32 $sum
    %w = xor.u32 %v, %j
    set.u32 $sum, %w
  }
}
%last = get.u32 $end
%sum = get.u32 $sum
%y = xor.u32 %sum, %last";

/// Leaves the inner loop and the outer one at bits that are set, though later ones are not.
const BREAK: &str = "
var $sum : u32 = 0
for %k in 0..9 {
  for %j in %k..16 step 3 {
    %bit = shr.u32 %b, %j
    %odd = and.u32 %bit, 1
    %set = ne.u32 %odd, 0
    if %set {
      break
    }
    %s = get.u32 $sum
    %t = mul.u32 %s, 3
    %u = add.u32 %t, %j
    set.u32 $sum, %u
  }
  %other = shr.u32 %a, %k
  %low = and.u32 %other, 3
  %late = eq.u32 %low, 2
  if %late {
    break
  }
}
%y = get.u32 $sum";

const CONTINUE: &str = "
var $sum : u32 = %a
for %k in 0..12 {
  %bit = shr.u32 %b, %k
  %odd = and.u32 %bit, 1
  %skip = ne.u32 %odd, 0
  if %skip {
    continue
  }
  %s = get.u32 $sum
  %t = mul.u32 %s, 31
  %u = add.u32 %t, %k
  set.u32 $sum, %u
}
%y = get.u32 $sum";

/// Lines over `%a` and `%b`, whose bounds are small.
fn rows(plan: &Plan<'_>, name: &str, lines: &str) -> Vec<Batch> {
    let mut random = Seeded::new(lines.len() as u64);
    let edges = edges(DataType::U32);
    let count = plan.pick(300, 3_000);
    let row = |at: usize| -> Row {
        let noise = random.next_u64();
        let a = match at % 3 {
            0 => edges[at / 3 % edges.len()],
            1 => noise & 63,
            _ => noise >> 32,
        };
        [a, noise >> 40 & 0x7f, 0, 0]
    };
    let rows: Vec<Row> = (0..count).map(row).collect();
    let kernel = Kernel {
        lanes: lanes(lines.len()),
        inputs: vec![DataType::U32; 2],
        lines: format!("{lines}\n"),
        outputs: vec![("y".into(), DataType::U32)],
    };
    vec![kernel.batch(format!("{name}:rows"), &rows)]
}

/// Functions that call functions, with a result and with effects only.
fn calls(name: &str) -> Batch {
    let all = values(DataType::I32, 200);
    let script = Script::new([51, 1, 1])
        .read("x", DataType::I32, &all)
        .output("y", DataType::I32, 200)
        .output("z", DataType::I32, 200)
        .declare("fn @step(%v: i32, %by: i32) -> i32 {\n  %w = mul.i32 %v, 3\n  %r = sub.i32 %w, %by\n  return %r\n}")
        .declare(
            "fn @twice(%v: i32) -> i32 {\n  var $r : i32 = %v\n  %pos = gt.i32 %v, 0\n  if %pos {\n    \
             %a = call @step(%v, 1)\n    set.i32 $r, %a\n  }\n  %b = get.i32 $r\n  %c = call @step(%b, %v)\n  return %c\n}",
        )
        .declare("fn @put(%i: u32, %v: i32) {\n  %n = neg.i32 %v\n  store.i32 @z[%i], %n\n}");
    let lines = "  %i = global_id x\n  %x = load.i32 @x[%i]\n  %a = call @twice(%x)\n  %b = call @step(%a, -7)\n  \
                 store.i32 @y[%i], %b\n  call @put(%i, %a)";
    script.batch(format!("{name}:functions:wg=51"), [4, 1, 1], lines)
}

/// Grids read from a buffer; a zero launches nothing.
fn indirect(name: &str) -> Vec<Batch> {
    [[3u32, 2, 1], [1, 1, 5], [4, 0, 2], [7, 1, 1]]
        .into_iter()
        .map(|grid| {
            let args: Vec<u64> = [99].into_iter().chain(grid.map(u64::from)).collect();
            let script = Script::new([6, 1, 1])
                .read("args", DataType::U32, &args)
                .output("y", DataType::U32, 60)
                .filled("counts", DataType::U32, &[7; 3]);
            let lines = "  indirect @args[1]\n  %i = global_index\n  %v = add.u32 %i, 1\n  store.u32 @y[%i], %v\n  \
                         %first = eq.u32 %i, 0\n  if %first {\n    %x = num_workgroups x\n    store.u32 @counts[0], %x\n    \
                         %y = num_workgroups y\n    store.u32 @counts[1], %y\n    %z = num_workgroups z\n    \
                         store.u32 @counts[2], %z\n  }";
            script.batch(format!("{name}:grid={}x{}x{}:wg=6", grid[0], grid[1], grid[2]), grid, lines)
        })
        .collect()
}

/// Traps that fire and that do not; the first in the program counts, whichever lane came first.
fn traps(name: &str) -> Batch {
    let base: Vec<u64> = (0..70).map(|at| at % 9).collect();
    let script = Script::new([10, 1, 1]).read("x", DataType::U32, &base).output("y", DataType::U32, 70);
    let lines = "  %i = global_id x\n  %x = load.u32 @x[%i]\n  %a = eq.u32 %x, 100\n  if %a {\n    trap 17\n  }\n  \
                 store.u32 @y[%i], %x\n  %b = ge.u32 %x, 90\n  if %b {\n    trap 4294967295\n  }";
    let mut batch = script.batch(format!("{name}:codes:wg=10"), [7, 1, 1], lines);
    // Quiet first; then the second trap alone, then both, the first by a later lane; then quiet again.
    let with = |changes: &[(usize, u8)]| {
        let mut step: Step = batch.steps[0].clone();
        if let crate::batch::Content::Bytes(bytes) = &mut step.contents[0] {
            changes.iter().for_each(|(at, value)| bytes[at * 4] = *value);
        }
        step
    };
    batch.steps =
        vec![with(&[]), with(&[(5, 95)]), with(&[(5, 91), (60, 100)]), with(&[(69, 100)]), with(&[])];
    batch
}
