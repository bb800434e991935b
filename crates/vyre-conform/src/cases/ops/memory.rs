//! Loads, stores, lengths and locals: every element type in every kind of memory, within bounds and beyond them.

use super::super::operands::{Instance, Row, edges, value};
use super::super::rows::Kernel;
use super::super::script::Script;
use super::{lanes, track};
use crate::batch::{Batch, Group, Level};
use vyre_foundation::ir::{ComputeOp, DataType, Literal, TypeSet};
use vyre_foundation::text::print_literal;
use vyre_generate::source::Seeded;

/// Elements of the buffers here: odd, so that the last word of small elements is not full.
const LEN: usize = 37;

/// Indices from 0 to beyond the end, and far ones; those times an element's bytes wrap to small offsets.
fn indices() -> Vec<u64> {
    let far = [1u64 << 28, 1 << 29, 1 << 30, 1 << 31].into_iter().flat_map(|x| [x, x + 1, x + 5]);
    let last = (0..4).map(|x| u64::from(u32::MAX) - x);
    (0..LEN as u64 + 9).chain([63, 64, 255, 256, 65_536]).chain(far).chain(last).collect()
}

/// Elements that differ from each other, many at an edge.
fn elements(ty: DataType, count: usize) -> Vec<u64> {
    let wide = if ty.computes() { ty } else { ty.computes_as() };
    let mut random = Seeded::new(u64::from(ty.tag()));
    let mut all = edges(wide);
    all.extend((0..count).map(|_| value(wide, &mut random)));
    // Small types see their own edges through the low bits.
    all.iter()
        .enumerate()
        .map(|(at, bits)| bits.wrapping_add(at as u64 % 3) & ty.mask())
        .take(count)
        .collect()
}

pub(super) fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for (at, ty) in TypeSet::STORED.iter().enumerate() {
        groups.push(group(ty, "load", move |name| {
            let mut batches = vec![loads(format!("{name}:memories"), lanes(at * 20 + 3), ty, ty)];
            if ty == DataType::U32 {
                // Four bytes at once, at every alignment and over the end.
                batches.push(loads(format!("{name}:bytes"), lanes(at * 20 + 9), DataType::U8, ty));
            }
            batches
        }));
        groups.push(group(ty, "store", move |name| vec![stores(name, at, ty), shared_stores(name, at, ty)]));
    }
    for (at, ty) in TypeSet::ANY.iter().enumerate() {
        for (name, lines) in LOCALS {
            groups.push(group(ty, name, move |name| vec![locals(name, at, ty, lines)]));
        }
    }
    groups.push(Group::fixed("op/len", Level::Ops, track(&[]), |_| lengths()));
    groups
}

fn group(ty: DataType, op: &str, make: impl Fn(&str) -> Vec<Batch> + Send + Sync + 'static) -> Group {
    let name = format!("op/{ty}/{op}");
    Group::fixed(name.clone(), Level::Ops, track(&[ty]), move |_| make(&name))
}

/// Every kind of memory with elements of `ty`, read by `load.suffix` at the same indices.
fn loads(name: String, lanes: u32, ty: DataType, suffix: DataType) -> Batch {
    let (indices, elements) = (indices(), elements(ty, LEN));
    let wide = suffix.computes_as();
    let table: Vec<String> =
        elements.iter().map(|bits| print_literal(Literal::from_bits(ty, *bits))).collect();
    let mut script = Script::new([lanes, 1, 1])
        .read("index", DataType::U32, &indices)
        .read("read", ty, &elements)
        .uniform("uniform", ty, &elements)
        .scratch("scratch", ty, &elements)
        .declare(&format!("const @table : {ty}[{LEN}] = [{}]", table.join(", ")))
        .declare(&format!("buffer @shared : workgroup {ty}[{LEN}]"));
    let mut lines = format!(
        "  %i = global_id x\n  %l = local_index\n  for %k in %l..{LEN} step LANES {{\n    \
         %e = load.{ty} @read[%k]\n    store.{ty} @shared[%k], %e\n  }}\n  barrier\n  %at = load.u32 @index[%i]\n"
    );
    for memory in ["read", "uniform", "scratch", "table", "shared"] {
        script = script.output(&format!("from_{memory}"), wide, indices.len());
        lines += &format!(
            "  %{memory} = load.{suffix} @{memory}[%at]\n  store.{wide} @from_{memory}[%i], %{memory}\n"
        );
    }
    script.batch(name, [(indices.len() as u32).div_ceil(lanes), 1, 1], &lines)
}

/// Where stores go: three of four elements in a scattered order, and beyond the end.
fn targets() -> Vec<u64> {
    let within = (0..LEN as u64).map(|at| at * 11 % LEN as u64).filter(|at| at % 4 != 2);
    within.chain(indices().into_iter().filter(|at| *at >= LEN as u64)).collect()
}

/// Stores to outputs that start with something and with nothing, by the lanes of several workgroups.
fn stores(name: &str, at: usize, ty: DataType) -> Batch {
    let (targets, wide) = (targets(), ty.computes_as());
    let size = 1 + at as u32 % 13;
    let values = elements(wide, targets.len());
    let script = Script::new([size, 1, 1])
        .read("index", DataType::U32, &targets)
        .read("x", wide, &values)
        .filled("kept", ty, &elements(ty, LEN))
        .output("fresh", ty, LEN);
    let lines = format!(
        "  %i = global_id x\n  %n = len @index\n  %live = lt.u32 %i, %n\n  if %live {{\n    \
         %at = load.u32 @index[%i]\n    %x = load.{wide} @x[%i]\n    \
         store.{ty} @kept[%at], %x\n    store.{ty} @fresh[%at], %x\n  }}"
    );
    script.batch(format!("{name}:storage"), [(targets.len() as u32).div_ceil(size), 1, 1], &lines)
}

/// Stores to workgroup memory, seen by other lanes after a barrier.
fn shared_stores(name: &str, at: usize, ty: DataType) -> Batch {
    let (targets, wide) = (targets(), ty.computes_as());
    let values = elements(wide, targets.len());
    let script = Script::new([lanes(at * 20 + 14), 1, 1])
        .read("index", DataType::U32, &targets)
        .read("x", wide, &values)
        .output("seen", wide, LEN)
        .declare(&format!("buffer @shared : workgroup {ty}[{LEN}]"));
    let lines = format!(
        "  %l = local_index\n  %n = len @index\n  for %k in %l..%n step LANES {{\n    \
         %at = load.u32 @index[%k]\n    %x = load.{wide} @x[%k]\n    store.{ty} @shared[%at], %x\n  }}\n  barrier\n  \
         for %k in %l..{LEN} step LANES {{\n    %back = sub.u32 {}, %k\n    %y = load.{ty} @shared[%back]\n    \
         store.{wide} @seen[%k], %y\n  }}",
        LEN - 1
    );
    script.batch(format!("{name}:workgroup"), [1, 1, 1], &lines)
}

/// Lines over `%a` and `%b` of type `T` and an index `%c`, with what they store.
type Lines = (&'static str, &'static [&'static str]);

const LOCALS: [(&str, Lines); 3] = [
    (
        "var",
        (
            "var $one : T = %a\nvar $many : T[5] = %b\n%one = get.T $one\n%many = get.T $many[%c]\n\
             for %k in 0..3 {\nvar $again : T = %b\nset.T $again, %a\n}\nvar $last : T[1] = %a\n%last = get.T $last[%c]",
            &["one", "many", "last"],
        ),
    ),
    (
        "set",
        (
            "var $one : T = %a\n%odd = and.u32 %c, 1\n%is_odd = ne.u32 %odd, 0\nif %is_odd {\nset.T $one, %b\n}\n\
             %one = get.T $one\nvar $many : T[3] = %a\nset.T $many[%c], %b\n%m0 = get.T $many[0]\n\
             %m1 = get.T $many[1]\n%m2 = get.T $many[2]",
            &["one", "m0", "m1", "m2"],
        ),
    ),
    (
        "get",
        (
            "var $many : T[7] = %a\nset.T $many[1], %b\nset.T $many[3], %b\nset.T $many[6], %b\n\
             %first = get.T $many[%c]\nset.T $many[%c], %b\n%then = get.T $many[%c]\n%next = add.u32 %c, 1\n\
             %beside = get.T $many[%next]",
            &["first", "then", "beside"],
        ),
    ),
];

/// Locals and private arrays of a type, at indices within and beyond.
fn locals(name: &str, at: usize, ty: DataType, (lines, stored): Lines) -> Batch {
    let kernel = Kernel {
        lanes: lanes(at * 9 + stored.len()),
        inputs: vec![ty, ty, DataType::U32],
        lines: format!("{}\n", lines.replace(".T", &format!(".{ty}")).replace(": T", &format!(": {ty}"))),
        outputs: stored.iter().map(|name| ((*name).to_owned(), ty)).collect(),
    };
    let op = if ty == DataType::Bool { ComputeOp::And } else { ComputeOp::Eq };
    let pairs = Instance { op, ty, source: ty }.random(at as u64, 300);
    let indices = indices();
    let rows: Vec<Row> = pairs
        .into_iter()
        .enumerate()
        .map(|(at, [a, b, ..])| {
            [a, b, if at % 2 == 0 { at as u64 / 2 % 8 } else { indices[at % indices.len()] }, 0]
        })
        .collect();
    kernel.batch(format!("{name}:rows"), &rows)
}

/// The lengths of all kinds of memory, bound with various sizes.
fn lengths() -> Vec<Batch> {
    [1, 2, 7, 64, 1000]
        .into_iter()
        .map(|count| {
            let zeros = vec![0; count];
            let mut script = Script::new([2, 1, 1])
                .declare("const @table : i16[3] = [1, -2, 3]")
                .declare("buffer @shared : workgroup u64[11]")
                .uniform("uniform", DataType::U8, &[0; 13]);
            let mut names = vec!["table".to_owned(), "shared".into(), "uniform".into()];
            for (at, ty) in TypeSet::STORED.iter().filter(|ty| ty.is_integer()).enumerate() {
                let own = format!("{ty}s");
                script = match at % 2 {
                    0 => script.read(&own, ty, &zeros[at % count..]),
                    _ => script.scratch(&own, ty, &zeros[at % count..]),
                };
                names.push(own);
            }
            let mut lines = "  %i = local_index\n  %first = eq.u32 %i, 0\n  if %first {\n".to_owned();
            for (at, memory) in names.iter().enumerate() {
                lines += &format!("    %{memory} = len @{memory}\n    store.u32 @y[{at}], %{memory}\n");
            }
            lines += "    %own = len @y\n    store.u32 @y[13], %own\n  }";
            script.output("y", DataType::U32, 14).batch(format!("op/len:n={count}"), [1, 1, 1], &lines)
        })
        .collect()
}
