//! Ids and counts, atomics, and exchanges within a logical subgroup.

use super::super::operands::{Format, Instance, Row, edges, value};
use super::super::script::Script;
use super::{lanes, track};
use crate::batch::{Batch, Group, Level, Plan};
use crate::contract::Feature;
use vyre_foundation::ir::{AtomicOp, Axis, BuiltinOp, ComputeOp, DataType, SubgroupOp};
use vyre_generate::source::Seeded;

pub(super) fn groups() -> Vec<Group> {
    let mut groups: Vec<Group> = BuiltinOp::ALL.iter().map(|op| builtin(*op)).collect();
    for (at, op) in AtomicOp::ALL.iter().enumerate() {
        groups.extend(op.info().types.iter().map(|ty| atomic(at, *op, ty)));
    }
    let mut number = 0;
    for op in SubgroupOp::ALL {
        let types = op.info().types;
        for ty in types.iter().map(Some).chain(types.is_empty().then_some(None)) {
            groups.push(subgroup(number, *op, ty));
            number += 1;
        }
    }
    groups
}

/// Shapes of workgroups and grids; the first two for quick runs.
const SHAPES: [([u32; 3], [u32; 3]); 6] = [
    ([5, 3, 2], [2, 3, 2]),
    ([64, 1, 1], [5, 1, 1]),
    ([1, 7, 1], [3, 1, 4]),
    ([1, 1, 11], [1, 5, 3]),
    ([16, 16, 1], [2, 2, 1]),
    ([1, 1, 1], [7, 11, 3]),
];

/// Every lane stores its ids and counts, along each axis.
fn builtin(op: BuiltinOp) -> Group {
    let name = format!("op/{}", op.info().name);
    Group::fixed(name.clone(), Level::Ops, track(&[]), move |plan| {
        let shapes = SHAPES[..plan.pick(2, SHAPES.len())].iter();
        shapes.map(|(workgroup, grid)| builtin_batch(&name, op, *workgroup, *grid)).collect()
    })
}

fn builtin_batch(name: &str, op: BuiltinOp, workgroup: [u32; 3], grid: [u32; 3]) -> Batch {
    let size: u32 = workgroup.iter().product();
    let total = size * grid.iter().product::<u32>();
    let width = [2, 32, 1, 1, 8, 1][SHAPES.iter().position(|(shape, _)| *shape == workgroup).unwrap_or(2)];
    let mut script = Script::new(workgroup).subgroup(width);
    let mut lines = "  %i = global_index\n".to_owned();
    let axes: &[Option<Axis>] =
        if op.has_axis() { &[Some(Axis::X), Some(Axis::Y), Some(Axis::Z)] } else { &[None] };
    for axis in axes {
        let axis = axis.map_or("", Axis::name);
        script = script.output(&format!("y{axis}"), DataType::U32, total as usize);
        // At index 0 a position in the grid that is 0 everywhere would look right.
        lines += &format!("  %v{axis} = {} {axis}\n  %w{axis} = add.u32 %v{axis}, 7\n", op.info().name);
        lines += &format!("  store.u32 @y{axis}[%i], %w{axis}\n");
    }
    let [x, y, z] = workgroup;
    script.batch(format!("{name}:grid={}x{}x{}:wg={x}x{y}x{z}", grid[0], grid[1], grid[2]), grid, &lines)
}

fn atomic(at: usize, op: AtomicOp, ty: DataType) -> Group {
    let name = format!("op/{ty}/{}", op.info().name);
    Group::fixed(name.clone(), Level::Ops, track(&[ty]), move |plan| {
        // Without a result, minima and maxima of 64 bits may be contended for all that a compiler knows.
        let optional = matches!(op, AtomicOp::Min | AtomicOp::Max) && ty.bits() == 64;
        let bare = !optional || plan.profile.features.contains(&Feature::AtomicMinMax64);
        let mut batches = vec![alone(plan, &name, at, op, ty, bare)];
        if bare && op.op().is_some() {
            batches.push(together(&name, at, op, ty));
        }
        batches
    })
}

/// Old values, operands, and for `compare_exchange` what is expected.
fn atomic_rows(plan: &Plan<'_>, op: AtomicOp, ty: DataType) -> Vec<Row> {
    let instance = Instance { op: op.op().unwrap_or(ComputeOp::Eq), ty, source: ty };
    let mut rows = instance.edge();
    rows.extend(instance.special());
    let step = plan.pick(3, 1);
    let expected = |at: usize, [old, new, ..]: Row| match at % 4 {
        0 | 1 => [old, new, old, 0],
        // One bit off, in either half.
        2 => [old, new, old ^ 1 << (at % ty.bits() as usize), 0],
        _ => [old, new, new, 0],
    };
    rows.into_iter().step_by(step).enumerate().map(|(at, row)| expected(at, row)).collect()
}

/// One lane an element: storage and workgroup memory, with a result and if `bare` without, some out of bounds.
fn alone(plan: &Plan<'_>, name: &str, at: usize, op: AtomicOp, ty: DataType, bare: bool) -> Batch {
    let rows = atomic_rows(plan, op, ty);
    let size = lanes(at * 28 + ty.tag() as usize);
    let pick = |place: usize| rows.iter().map(|row| row[place]).collect::<Vec<u64>>();
    let index = |at: usize| match at % 64 {
        63 => rows.len() as u64 + at as u64,
        31 => 1 << 31 | at as u64,
        _ => at as u64,
    };
    let places: Vec<u64> = (0..rows.len()).map(index).collect();
    let mut script = Script::new([size, 1, 1])
        .read("value", ty, &pick(1))
        .read("expected", ty, &pick(2))
        .read("place", DataType::U32, &places)
        .read("start", ty, &pick(0))
        .filled("storage", ty, &pick(0))
        .output("storage_old", ty, rows.len())
        .output("shared", ty, rows.len())
        .output("shared_old", ty, rows.len())
        .declare(&format!("buffer @w : workgroup {ty}[{size}]"));
    let atomic = format!("{}.{ty}", op.info().name);
    let operands = if op == AtomicOp::CompareExchange { "%expected, %value" } else { "%value" };
    let mut lines = format!(
        "  %i = global_id x\n  %l = local_index\n  %n = len @value\n  %live = lt.u32 %i, %n\n  if %live {{\n    \
         %value = load.{ty} @value[%i]\n    %expected = load.{ty} @expected[%i]\n    \
         %place = load.u32 @place[%i]\n    %start = load.{ty} @start[%i]\n    \
         %own = eq.u32 %place, %i\n    %at = select.u32 %own, %l, %place\n    \
         %so = {atomic} @storage[%place], {operands}\n    store.{ty} @storage_old[%i], %so\n    \
         store.{ty} @w[%l], %start\n    %wo = {atomic} @w[%at], {operands}\n    store.{ty} @shared_old[%i], %wo\n    \
         %w = load.{ty} @w[%l]\n    store.{ty} @shared[%i], %w\n"
    );
    if bare {
        script = script
            .filled("bare", ty, &pick(0))
            .output("shared_bare", ty, rows.len())
            .declare(&format!("buffer @v : workgroup {ty}[{size}]"));
        lines += &format!(
            "    {atomic} @bare[%place], {operands}\n    store.{ty} @v[%l], %start\n    \
             {atomic} @v[%at], {operands}\n    %v = load.{ty} @v[%l]\n    store.{ty} @shared_bare[%i], %v\n"
        );
    }
    let grid = (rows.len() as u32).div_ceil(size);
    script.batch(format!("{name}:alone:wg={size}"), [grid, 1, 1], &(lines + "  }"))
}

/// Many lanes to few elements, without results.
fn together(name: &str, at: usize, op: AtomicOp, ty: DataType) -> Batch {
    const PLACES: usize = 5;
    const GROUPS: u32 = 7;
    let size = lanes(at * 28 + 90 + ty.tag() as usize).max(24);
    let mut random = Seeded::new(at as u64);
    let values: Vec<u64> = (0..size * GROUPS - 5).map(|_| value(ty, &mut random)).collect();
    let starts: Vec<u64> = edges(ty).into_iter().rev().take(PLACES).collect();
    let script = Script::new([size, 1, 1])
        .read("value", ty, &values)
        .filled("storage", ty, &starts)
        .output("shared", ty, PLACES * GROUPS as usize)
        .declare(&format!("buffer @w : workgroup {ty}[{PLACES}]"));
    let atomic = format!("{}.{ty}", op.info().name);
    let lines = format!(
        "  %i = global_id x\n  %l = local_index\n  %g = workgroup_id x\n  %n = len @value\n  %live = lt.u32 %i, %n\n  \
         %place = rem.u32 %i, {PLACES}\n  if %live {{\n    %value = load.{ty} @value[%i]\n    \
         {atomic} @storage[%place], %value\n    {atomic} @w[%place], %value\n  }}\n  barrier\n  \
         %own = lt.u32 %l, {PLACES}\n  if %own {{\n    %w = load.{ty} @w[%l]\n    %base = mul.u32 %g, {PLACES}\n    \
         %to = add.u32 %base, %l\n    store.{ty} @shared[%to], %w\n  }}"
    );
    script.batch(format!("{name}:together:wg={size}"), [GROUPS, 1, 1], &lines)
}

/// The logical widths, those first on which the order of a fold shows.
const WIDTHS: [u32; 6] = [32, 4, 16, 8, 2, 1];

/// The widths of op number `number`: in a quick run one of the first four, and for some ops a narrow one.
fn widths(plan: &Plan<'_>, number: usize) -> Vec<u32> {
    let narrow = number.is_multiple_of(6).then_some(WIDTHS[4 + number / 6 % 2]);
    plan.pick([WIDTHS[number % 4]].into_iter().chain(narrow).collect(), WIDTHS.to_vec())
}

fn subgroup(number: usize, op: SubgroupOp, ty: Option<DataType>) -> Group {
    let name = match ty {
        Some(ty) => format!("op/{ty}/{}", op.info().name),
        None => format!("op/{}", op.info().name),
    };
    let types: Vec<DataType> = ty.into_iter().collect();
    Group::fixed(name.clone(), Level::Ops, track(&types), move |plan| {
        let widths = widths(plan, number).into_iter();
        widths.map(|width| subgroup_batch(&name, number, op, ty, width)).collect()
    })
}

fn subgroup_batch(name: &str, number: usize, op: SubgroupOp, ty: Option<DataType>, width: u32) -> Batch {
    let size = (lanes(number * 5) / width).max(1) * width;
    let operand = ty.unwrap_or(DataType::Bool);
    let values = segments(operand);
    let groups = (values.len() as u32).div_ceil(size);
    let mut random = Seeded::new(number as u64);
    let mut lane = |at: usize| match at % 4 {
        0 | 1 => random.next_u64() % u64::from(width),
        2 => random.next_u64() % 80,
        _ => random.next_u64() >> 32,
    };
    let stored = |ty: DataType| if ty == DataType::Bool { DataType::U32 } else { ty };
    let result = op.info().result.under(operand).expect("subgroup ops have results");
    let mut script = Script::new([size, 1, 1]).subgroup(width).read("x", stored(operand), &values);
    let mut lines = "  %i = global_id x\n".to_owned();
    lines += &match operand {
        DataType::Bool => "  %word = load.u32 @x[%i]\n  %x = ne.u32 %word, 0\n".to_owned(),
        _ => format!("  %x = load.{operand} @x[%i]\n"),
    };
    let mut operands = "%x";
    if matches!(op, SubgroupOp::Shuffle | SubgroupOp::Broadcast) {
        operands = "%x, %lane";
        // A broadcast's lane is the same for all lanes of a workgroup.
        let by = if op == SubgroupOp::Shuffle { "%i" } else { "%g" };
        let lanes: Vec<u64> = (0..values.len()).map(&mut lane).collect();
        script = script.read("lane", DataType::U32, &lanes);
        lines += &format!("  %g = workgroup_id x\n  %lane = load.u32 @lane[{by}]\n");
    }
    let suffix = ty.map_or(String::new(), |ty| format!(".{ty}"));
    lines += &format!("  %r = {}{suffix} {operands}\n", op.info().name);
    lines += &match result {
        DataType::Bool => "  %bit = select.u32 %r, 1, 0\n  store.u32 @y[%i], %bit".to_owned(),
        _ => format!("  store.{result} @y[%i], %r"),
    };
    let script = script.output("y", stored(result), values.len());
    script.batch(format!("{name}:width={width}:wg={size}"), [groups, 1, 1], &lines)
}

/// Operands for subgroups, 32 of a kind one after the other: what sums and scans get wrong.
fn segments(ty: DataType) -> Vec<u64> {
    let mut random = Seeded::new(u64::from(ty.tag()) + 40);
    let edges = edges(ty);
    let top = ty.mask() / 2 + 1;
    let one = one(ty);
    let mut values = Vec::new();
    // The last segment is not full.
    for at in 0..32 * 40 - 5 {
        let (segment, lane) = (at / 32, at % 32);
        let noise = random.next_u64();
        values.push(match segment % 10 {
            // Near one, so that sums and products stay finite and every rounding counts.
            0 | 1 => Format::of(ty).map_or(noise, |format| format.near_one(&mut random)),
            2 => value(ty, &mut random),
            3 => edges[(segment * 32 + lane) % edges.len()],
            // Signs of zero; the least and the greatest.
            4 => [0, top, 0, top][(lane / 8 + segment) % 4] * (noise & 1 | u64::from(lane % 5 == 0)),
            5 => top * (segment as u64 / 10 % 2),
            // The smallest magnitudes.
            6 => (noise & 7) | (noise >> 63 << (ty.bits() - 1)),
            // Few different values, some apart only in their upper bits.
            7 => (noise & 1) | (noise >> 1 & 1) << (ty.bits() - 1),
            8 if lane == segment / 10 * 7 % 32 => edges[(segment + lane) % edges.len()],
            8 => one,
            _ => [one, edges[(segment / 2) % edges.len()]][usize::from(noise.is_multiple_of(9))],
        });
    }
    values.iter().map(|bits| bits & ty.mask()).collect()
}

/// One, in bits.
fn one(ty: DataType) -> u64 {
    vyre_foundation::scalar::identity(vyre_foundation::ir::ReduceOp::Mul, ty)
}
