//! Whole programs: behaviour that single ops cannot show.
//!
//! Each subject is a function that lists programs with their launches; the texts are files of this crate. Sizes are odd
//! as often as even, and every launch after the first finds the memory as the launch before left it.

use super::fixture::{Fill, Fixture};
use crate::batch::{Batch, Group, Plan};
use crate::contract::Feature;
use Fill::{Below, Edge, Plain, These, Zero};
use std::fmt::Write;
use std::sync::LazyLock;

macro_rules! source {
    ($name:literal) => {
        include_str!(concat!("../../programs/", $name, ".vyre"))
    };
}
pub(super) use source;

static TABLE: LazyLock<Vec<Fixture>> = LazyLock::new(|| {
    const SUBJECTS: [fn() -> Vec<Fixture>; 12] =
        [control, folds, memory, barriers, atomics, subgroups, tiles, traps, bounds, outputs, grids, limits];
    SUBJECTS.iter().flat_map(|subject| subject()).collect()
});

pub(crate) fn groups() -> Vec<Group> {
    super::fixture::groups(&TABLE)
}

/// Programs with several outputs, scratch, workgroup memory and barriers, for the driver contract.
pub(super) fn samples(plan: &Plan<'_>) -> Vec<Batch> {
    const NAMES: [&str; 4] = ["outputs", "eight_buffers", "storage_barrier", "atomics:u32"];
    super::fixture::batches(&TABLE, plan, |fixture| NAMES.contains(&fixture.name()))
}

fn control() -> Vec<Fixture> {
    const LO: &[u64] =
        &[0, 5, 9, 0xffff_fff0, 0xffff_fffe, 0xffff_ffff, 0x7fff_fffd, 1, 0, 0x8000_0000, 3, 0xefff_ffff];
    const HI: &[u64] =
        &[0, 5, 3, 0xffff_ffff, 0xffff_ffff, 0xffff_ffff, 0x8000_0002, 0xffff_ffff, 7, 0x8000_0001, 4, 0];
    let nested = |depth| {
        let name = format!("depth={depth}");
        Fixture::new("control", &deep(depth)).named(&name).run([2, 1, 1], &[Edge(16), Zero(16)])
    };
    vec![
        Fixture::new("control", source!("branches"))
            .run([2, 1, 1], &[Edge(128), Zero(128)])
            .run([2, 1, 1], &[Below(8, 101), Edge(101)]),
        Fixture::new("control", source!("loops"))
            .run([3, 1, 1], &[Edge(96), Zero(96)])
            .run([3, 1, 1], &[Below(1 << 32, 65), Zero(65)]),
        Fixture::new("control", source!("exits"))
            .run([2, 1, 1], &[Edge(128), Zero(1024)])
            .run([1, 1, 1], &[Below(40, 64), Zero(512)]),
        Fixture::new("control", source!("counters"))
            .run([1, 1, 1], &[These(LO), These(HI), Zero(12)])
            .run([3, 1, 1], &[Edge(40), Edge(40), Zero(40)]),
        Fixture::new("control", source!("loop_steps")).run([2, 1, 1], &[Below(1100, 120), Zero(128)]),
        Fixture::new("control", source!("own_ways"))
            .run([2, 1, 1], &[Edge(128), Edge(128), Zero(128)])
            .run([3, 1, 1], &[Below(64, 190), Edge(190), Zero(190)]),
        Fixture::new("control", source!("functions"))
            .run([4, 1, 1], &[Edge(29), Zero(29), Zero(1)])
            .run([5, 1, 1], &[Below(64, 40), Zero(40), These(&[1000])]),
        nested(9),
        nested(60),
        Fixture::new("control", &straight(3000, 12)).named("lines=3000").run([1, 1, 1], &[Edge(9), Zero(9)]),
        Fixture::new("control", &straight(700, 200)).named("live=200").run([1, 1, 1], &[Edge(11), Zero(11)]),
        Fixture::new("control", source!("long_loops"))
            .run([1, 1, 1], &[These(&[70_001, 3]), Zero(4)])
            .full_run([1, 1, 1], &[These(&[65_535, 140_000]), Zero(4)]),
    ]
}

fn folds() -> Vec<Fixture> {
    vec![
        Fixture::new("folds", source!("folds"))
            .run([2, 1, 1], &[Edge(128), Zero(1024)])
            .run([1, 1, 1], &[Below(3, 64), Zero(512)]),
        Fixture::new("folds", source!("float_folds")).run([2, 1, 1], &[Edge(128), Zero(1152)]),
        Fixture::new("folds", source!("wide_shifts"))
            .run([2, 1, 1], &[Edge(1), Edge(120), Zero(128)])
            .run([1, 1, 1], &[Below(100, 1), Below(100, 64), Zero(64)]),
        Fixture::new("folds", source!("bit_folds")).run([2, 1, 1], &[Edge(120), Zero(512)]),
        Fixture::new("folds", source!("sign_folds")).run([2, 1, 1], &[Edge(120), Zero(896)]),
    ]
}

/// A program of `depth` blocks in each other, alternately branches and loops.
fn deep(depth: u32) -> String {
    let mut text = String::from(
        "program @deep workgroup(8, 1, 1) {
  buffer @x : read       u32[] binding 0
  buffer @y : read_write u32[] binding 1 output

  %i = global_id x
  %v = load.u32 @x[%i]
  var $s : u32 = 1
",
    );
    for level in 0..depth {
        let _ = match level % 3 {
            // Most lanes go deeper each time.
            0 => writeln!(
                text,
                "%a{level} = shr.u32 %v, {level}\n%b{level} = and.u32 %a{level}, 15\n%c{level} = ne.u32 %b{level}, 7\nif %c{level} {{"
            ),
            1 => writeln!(text, "for %j{level} in 0..{} {{", if level % 12 == 1 { 2 } else { 1 }),
            _ => writeln!(text, "%d{level} = ge.u32 %v, {level}\nif %d{level} {{"),
        };
        let _ = writeln!(
            text,
            "%s{level} = get.u32 $s\n%t{level} = mul.u32 %s{level}, {}\n%u{level} = add.u32 %t{level}, {level}\nset.u32 $s, %u{level}",
            2 * level + 3
        );
    }
    for _ in 0..depth {
        text.push_str("}\n");
    }
    text.push_str("%r = get.u32 $s\nstore.u32 @y[%i], %r\n}\n");
    text
}

/// A program of `lines` computing lines, each of which reads a value from `live` lines before.
fn straight(lines: u32, live: u32) -> String {
    const OPS: [&str; 7] = ["add", "xor", "mul", "sub", "rotl", "or", "mul_hi"];
    let mut text = String::from(
        "program @straight workgroup(4, 1, 1) {
  buffer @x : read       u32[] binding 0
  buffer @y : read_write u32[] binding 1 output

  %i = global_id x
  %v = load.u32 @x[%i]
",
    );
    for line in 0..lines {
        let before = match line.checked_sub(live) {
            Some(at) => format!("%v{at}"),
            None => format!("{}", line * 77 + 1),
        };
        let last = line.checked_sub(1).map_or("%v".into(), |at| format!("%v{at}"));
        let _ = writeln!(text, "%v{line} = {}.u32 {last}, {before}", OPS[line as usize % OPS.len()]);
    }
    // What is still live counts too.
    let mut sum = format!("%v{}", lines - 1);
    for at in 1..live.min(lines) {
        let _ = writeln!(text, "%w{at} = add.u32 {sum}, %v{}", lines - 1 - at);
        sum = format!("%w{at}");
    }
    let _ = writeln!(text, "store.u32 @y[%i], {sum}\n}}");
    text
}

/// Every type that memory can hold.
const STORED: [&str; 12] =
    ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"];

/// Tables that are too long for a compiler's constants, beside short ones, at any index. Those of bytes are also read by
/// words.
fn tables() -> String {
    const TABLES: [(&str, u64); 8] = [
        ("u8", 1001),
        ("i8", 13),
        ("u16", 333),
        ("i16", 1207),
        ("u32", 2049),
        ("i32", 9),
        ("u64", 701),
        ("i64", 150),
    ];
    let mut text = String::from(
        "program @tables workgroup(64, 1, 1) {
  buffer @x : read       u32[] binding 0
  buffer @y : read_write u64[] binding 1 output
",
    );
    for (ty, len) in TABLES {
        let element = |at: u64| {
            let bits = (at + len).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // The low byte would repeat every 256 elements.
            let bits = bits ^ bits >> 29;
            match ty {
                "u8" => (bits as u8).to_string(),
                "i8" => (bits as i8).to_string(),
                "u16" => (bits as u16).to_string(),
                "i16" => (bits as i16).to_string(),
                "u32" => (bits as u32).to_string(),
                "i32" => (bits as i32).to_string(),
                "u64" => bits.to_string(),
                _ => (bits as i64).to_string(),
            }
        };
        let elements: Vec<String> = (0..len).map(element).collect();
        let _ = writeln!(text, "  const @{ty}s : {ty}[{len}] = [{}]", elements.join(", "));
    }
    let count = TABLES.len() + 1;
    let _ = writeln!(text, "  %i = global_id x\n  %v = load.u32 @x[%i]\n  %at = mul.u32 %i, {count}");
    let loads = TABLES.iter().map(|(ty, _)| (*ty, *ty)).chain([("u8", "u32")]);
    for (n, (table, suffix)) in loads.enumerate() {
        let _ = writeln!(
            text,
            "  %t{n} = load.{suffix} @{table}s[%v]\n  %w{n} = cast.u64 %t{n}\n  \
             %at{n} = add.u32 %at, {n}\n  store.u64 @y[%at{n}], %w{n}"
        );
    }
    text + "}\n"
}

/// Every type that atomics take.
const INTEGERS: [&str; 4] = ["u32", "i32", "u64", "i64"];

fn memory() -> Vec<Fixture> {
    const AT: &[u64] = &[
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        63,
        64,
        65,
        66,
        67,
        29,
        30,
        31,
        32,
        0xffff_fffd,
        0xffff_ffff,
        33,
        0x7fff_ffff,
    ];
    const SLOTS: &[u64] =
        &[4, 0, 5, 2, 0xffff_ffff, 3, 1, 0x8000_0000, 4, 4, 6, 0, 1, 2, 3, 0x4000_0001, 2, 3];
    let mut all: Vec<Fixture> = Fixture::each("memory", source!("adjacent"), "u8", &STORED)
        .into_iter()
        .map(|fixture| {
            fixture
                .run([2, 1, 1], &[Edge(61), Zero(61)])
                .run([2, 1, 1], &[Edge(64), Edge(64)])
                .run([3, 1, 1], &[Edge(67), Edge(67)])
                .full_run([40, 1, 1], &[Edge(1235), Edge(1235)])
        })
        .collect();
    for (small, wide) in [("i8", "i32"), ("i16", "i32"), ("u8", "u32"), ("u16", "u32")] {
        let source = source!("widen").replace("i8", small).replace("i32", wide);
        let fixture = Fixture::new("memory", &source).named(small);
        all.push(fixture.run([2, 1, 1], &[Edge(31), Zero(31), Edge(31)]));
    }
    for fixture in Fixture::each("memory", source!("private"), "i32", &["i32", "u64", "f32", "f16"]) {
        all.push(fixture.run([1, 1, 1], &[Edge(24), These(SLOTS), Zero(128)]));
    }
    all.extend([
        Fixture::new("memory", source!("four_bytes"))
            .run([1, 1, 1], &[Edge(7), Edge(67), These(AT), Edge(9), Zero(115)])
            .run([1, 1, 1], &[Edge(7), Edge(30), These(AT), Edge(33), Edge(115)]),
        Fixture::new("memory", source!("counted_shorts"))
            .run([3, 1, 1], &[These(&[57914, 0x8000, 0x7fff]), Edge(48), Edge(48), Zero(288)])
            .run([2, 1, 1], &[Edge(3), Below(1 << 16, 31), Plain(31), Edge(186)]),
        Fixture::new("memory", source!("constants"))
            .run([2, 1, 1], &[Edge(5), Edge(3), Edge(3), Edge(5), Edge(3), Below(7, 21), Zero(168)])
            .run([1, 1, 1], &[Edge(5), Edge(3), Edge(3), Edge(5), Edge(3), Edge(16), Edge(128)]),
        Fixture::new("memory", source!("float_constants"))
            .run(
                [2, 1, 1],
                &[Edge(5), Edge(3), Edge(3), Edge(3), Below(6, 16), Zero(32), Zero(16), Zero(32), Zero(32)],
            )
            .run(
                [1, 1, 1],
                &[Plain(5), Edge(3), Plain(3), Edge(3), Below(4, 7), Edge(13), Edge(7), Edge(13), Edge(13)],
            ),
        Fixture::new("memory", &tables())
            .named("tables")
            .run([4, 1, 1], &[Below(1400, 250), Zero(2250)])
            .run([2, 1, 1], &[Edge(70), Edge(630)]),
        Fixture::new("memory", source!("eight_buffers"))
            .run([2, 1, 1], &[Zero(11), Edge(11), Edge(11), Edge(13), Zero(9), Edge(3), Zero(15), Edge(17)])
            .run([2, 1, 1], &[Edge(9), Edge(16), Zero(0), Edge(1), Edge(16), Edge(3), Edge(15), Edge(7)]),
    ]);
    all
}

fn barriers() -> Vec<Fixture> {
    vec![
        Fixture::new("barrier", source!("ping_pong"))
            .run([1, 1, 1], &[Edge(32), Zero(32)])
            .run([5, 1, 1], &[Below(1 << 32, 150), Zero(150)]),
        Fixture::new("barrier", source!("storage_barrier"))
            .run([6, 1, 1], &[These(&[7]), Zero(96), Zero(96)])
            .run([3, 1, 1], &[These(&[0]), Edge(48), Edge(48)])
            .full_run([50, 1, 1], &[These(&[33]), Zero(800), Zero(800)]),
        Fixture::new("barrier", source!("subgroup_barrier"))
            .run([3, 1, 1], &[Below(1 << 32, 192), Zero(192)])
            .run([2, 1, 1], &[Edge(100), Zero(100)]),
        Fixture::new("barrier", source!("uniform_load"))
            .run([4, 1, 1], &[Edge(64), Zero(64)])
            .run([20, 1, 1], &[Below(1 << 32, 317), Zero(317)]),
    ]
}

fn atomics() -> Vec<Fixture> {
    let contended = |fixture: Fixture| {
        fixture
            .run([3, 1, 1], &[Edge(190), Zero(16), Zero(60)])
            .run([2, 1, 1], &[Below(1 << 32, 128), Edge(16), Edge(40)])
            .full_run([70, 1, 1], &[Edge(4480), Edge(16), Zero(1400)])
    };
    let bounds = |fixture: Fixture| {
        fixture
            .run([3, 1, 1], &[Edge(190), Below(1 << 31, 4), Zero(12)])
            .run([2, 1, 1], &[Below(1 << 32, 128), Below(1 << 32, 4), Edge(8)])
            .full_run([70, 1, 1], &[Edge(4480), Edge(4), Zero(280)])
    };
    let owned = |fixture: Fixture| {
        fixture
            .run([2, 1, 1], &[Edge(33), Edge(32), Zero(384)])
            .run([2, 1, 1], &[Below(3, 30), Below(2, 27), Edge(324)])
    };
    // Elements are i32 in the texts, and indices u32.
    let each = |source: &str, types: &[&str]| Fixture::each("atomic", source, "i32", types);
    let looped = |fixture: Fixture| {
        fixture
            .run([2, 1, 1], &[These(&[100]), Edge(120), Zero(8), Zero(128)])
            .run([3, 1, 1], &[These(&[7]), Below(1 << 32, 192), Zero(12), Zero(192)])
    };
    let mut all = Vec::new();
    all.extend(each(source!("loop_atomics"), &INTEGERS).into_iter().map(looped));
    all.extend(each(source!("atomics"), &INTEGERS).into_iter().map(contended));
    all.extend(each(source!("atomic_results"), &INTEGERS).into_iter().map(owned));
    all.extend(each(source!("atomic_bounds"), &["u32", "i32"]).into_iter().map(bounds));
    let wide = each(source!("atomic_bounds"), &["u64", "i64"]).into_iter().map(bounds);
    all.extend(wide.map(|fixture| fixture.needs(Feature::AtomicMinMax64)));
    all
}

fn subgroups() -> Vec<Fixture> {
    let mut all = Vec::new();
    for width in [1, 2, 4, 8, 16, 32] {
        let declared = format!("subgroup({width})");
        let sized = |source: &str, ty: &str| source.replace("subgroup(32)", &declared).replace("f32", ty);
        for ty in ["f32", "f64", "f16", "bf16", "u32", "i32", "u64", "i64"] {
            let fixture = Fixture::new("subgroup", &sized(source!("subgroups"), ty))
                .named(&format!("{ty}:width={width}"))
                .run([2, 1, 1], &[Plain(128), Zero(1024)])
                .run([1, 1, 1], &[Edge(61), Zero(488)]);
            let quick = matches!(ty, "f32" | "u32") || matches!((ty, width), (_, 16) | ("f64" | "i64", 32));
            all.push(if quick { fixture } else { fixture.only_full() });
        }
        all.push(
            Fixture::new("subgroup", &sized(source!("exchanges"), "f32"))
                .named(&format!("width={width}"))
                .run([2, 1, 1], &[Edge(128), Zero(1280)])
                .run([1, 2, 2], &[Below(1 << 32, 250), Zero(2500)]),
        );
    }
    all
}

fn tiles() -> Vec<Fixture> {
    const SHAPES: [&str; 6] = ["16, 16, 32", "8, 8, 16", "1, 1, 1", "3, 5, 7", "16, 8, 16", "2, 17, 33"];
    let mut all: Vec<Fixture> = Fixture::each("tile", source!("tiles"), "16, 16, 32", &SHAPES)
        .into_iter()
        .map(|fixture| {
            fixture.run([2, 1, 1], &[Edge(1200), Zero(560)]).run([1, 1, 1], &[Below(256, 600), Edge(280)])
        })
        .collect();
    const STEPS: [&str; 4] = ["32, 32, 64", "32, 16, 64", "16, 32, 32", "16, 16, 128"];
    let steps = Fixture::each("tile", source!("tile_steps"), "32, 32, 64", &STEPS).into_iter();
    all.extend(steps.map(|fixture| fixture.run([2, 1, 1], &[Edge(6007), Zero(2048)])));
    all.push(
        Fixture::new("tile", source!("dot4"))
            .run([1, 1, 1], &[Below(1 << 32, 33), Below(1 << 32, 33), Zero(16), Zero(16)])
            .run([2, 1, 1], &[Edge(50), Edge(50), Zero(31), Zero(32)]),
    );
    all
}

fn traps() -> Vec<Fixture> {
    // No trap, then each site alone, then several.
    const INPUTS: [&[u64]; 11] = [
        &[0, 1, 2, 3, 10, 11, 12, 1, 1, 0],
        &[0, 1, 7, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0, 4],
        &[5, 1, 1],
        &[1, 1, 6],
        &[8, 8, 8],
        &[9, 1],
        &[9, 8, 6, 5, 4, 7, 1, 0],
        &[1, 2, 9, 8, 6, 5, 4],
        &[8, 1, 9, 6],
        &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    ];
    let fixture = Fixture::new("trap", source!("traps"));
    vec![INPUTS.iter().fold(fixture, |fixture, x| fixture.run([2, 1, 1], &[These(x), Edge(10)]))]
}

fn bounds() -> Vec<Fixture> {
    // In bounds no index comes twice; the others miss by one, by a word, by powers of two that overflow a byte offset.
    const AT: &[u64] = &[
        0,
        12,
        7,
        13,
        14,
        15,
        16,
        17,
        18,
        20,
        24,
        31,
        32,
        64,
        255,
        256,
        1 << 29,
        1 << 30,
        (1 << 30) + 1,
        1 << 31,
        (1 << 31) + 3,
        u32::MAX as u64,
        u32::MAX as u64 - 1,
        3 << 30,
        (1 << 28) + 1,
        19,
        21,
        26,
        39,
        52,
        104,
        5,
    ];
    let accesses = |fixture: Fixture| {
        fixture
            .run([2, 1, 1], &[Edge(13), These(AT), Edge(7), Zero(13), Edge(7), Zero(160)])
            .run([2, 1, 1], &[Edge(14), These(AT), Zero(3), Edge(13), Zero(5), Zero(160)])
            .run([2, 1, 1], &[Edge(1), These(AT), Edge(3), Edge(1), Edge(1), Edge(155)])
            .run([2, 1, 1], &[Edge(0), These(AT), Zero(0), Zero(0), Edge(3), Zero(160)])
    };
    let atomics = |fixture: Fixture| {
        fixture
            .run([2, 1, 1], &[These(AT), Edge(13), Edge(7), Zero(128)])
            .run([2, 1, 1], &[These(AT), Zero(5), Zero(13), Edge(128)])
            .run([2, 1, 1], &[These(AT), Zero(0), Edge(1), Zero(125)])
    };
    let types = ["u32", "u8", "u16", "u64", "f32"];
    let mut all: Vec<Fixture> =
        Fixture::each("bounds", source!("out_of_bounds"), "i32", &types).into_iter().map(accesses).collect();
    let wide = Fixture::each("bounds", source!("atomics_out_of_bounds"), "i32", &["u32", "u64"]);
    all.extend(wide.into_iter().map(atomics));
    all
}

fn outputs() -> Vec<Fixture> {
    let zeroing = |fixture: Fixture| {
        fixture
            .run([1, 1, 1], &[Edge(64), Zero(64)])
            .run([9, 1, 1], &[Edge(576), Zero(576)])
            .run([1, 1, 1], &[Edge(64), Edge(64)])
            .full_run([200, 1, 1], &[Edge(12_800), Zero(12_800)])
    };
    vec![
        Fixture::new("output", source!("outputs"))
            .run([2, 1, 1], &[Zero(32), Edge(32), Zero(32), Zero(32), Zero(32), Zero(3), Zero(32)])
            .run([2, 1, 1], &[Edge(31), Edge(27), Edge(29), Edge(27), Edge(23), Edge(5), Edge(29)])
            .run([2, 1, 1], &[Zero(31), Edge(27), Edge(29), Zero(27), Edge(23), Zero(5), Zero(29)])
            .run([2, 1, 1], &[Edge(31), Edge(27), Zero(0), Edge(3), Zero(0), Zero(0), Edge(1)])
            .run([0, 1, 1], &[Edge(5), Edge(5), Edge(5), Edge(5), Zero(5), Edge(5), Zero(5)]),
        zeroing(Fixture::new("zeroing", source!("zeroing"))),
        Fixture::new("zeroing", source!("bytes_zeroing"))
            .run([12, 1, 1], &[Zero(96)])
            .run([3, 2, 2], &[Edge(95)]),
    ]
}

fn grids() -> Vec<Fixture> {
    const SHAPES: [&str; 9] = [
        "(4, 3, 2)",
        "(1, 1, 1)",
        "(64, 1, 1)",
        "(5, 3, 2)",
        "(1, 7, 1)",
        "(1, 1, 16)",
        "(16, 16, 1)",
        "(33, 1, 1)",
        "(3, 1, 1)",
    ];
    const GRIDS: [[u32; 3]; 6] = [[3, 2, 2], [1, 1, 1], [2, 1, 5], [1, 4, 1], [5, 1, 1], [0, 3, 1]];
    let mut all = Vec::new();
    for (shape, fixture) in SHAPES.iter().zip(Fixture::each("grid", source!("ids"), "(4, 3, 2)", &SHAPES)) {
        let lanes: usize =
            shape.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<usize>().ok()).product();
        all.push(GRIDS.iter().fold(fixture, |fixture, grid| {
            let groups: u32 = grid.iter().product();
            // Some lanes find no place for what they know.
            let elements = (groups as usize * lanes * 18).saturating_sub(lanes % 5);
            fixture.run(*grid, &[if groups == 5 { Edge(elements) } else { Zero(elements) }])
        }));
    }
    let args: [(&'static [u64], [u32; 3]); 5] = [
        (&[77, 9, 3, 2, 1], [3, 2, 1]),
        (&[5, 9, 1, 1, 4, 8], [1, 1, 4]),
        (&[0, 0, 2, 0, 1], [2, 0, 1]),
        (&[1, 2, 5], [5, 0, 0]),
        (&[78, 9, 3, 2, 1], [3, 2, 1]),
    ];
    let indirect = Fixture::new("grid", source!("indirect"));
    all.push(
        args.into_iter().fold(indirect, |fixture, (args, grid)| fixture.run(grid, &[These(args), Edge(61)])),
    );
    all
}

fn limits() -> Vec<Fixture> {
    const MIB: usize = 1 << 18;
    // The last element, the one after it, the middle, and the first.
    const ENDS: &[u64] = &[127 << 18, (127 << 18) - 1, 63 << 18, 0, 33_000_000, 0xffff_fff0, 1, 2];
    vec![
        Fixture::new("limit", source!("far_ends"))
            .run([2, 1, 1], &[Zero(127 * MIB), These(ENDS), Zero(24)])
            .zeroed(),
        Fixture::new("limit", source!("wide_grid"))
            .run([65_535, 1, 1], &[Zero(4096), Zero(4)])
            .full_run([1, 65_535, 1], &[Zero(4095), Zero(4)])
            .full_run([1, 1, 65_535], &[Zero(4096), Zero(4)])
            .zeroed(),
        Fixture::new("limit", source!("full_workgroup"))
            .run([2, 1, 1], &[Edge(511), Zero(512)])
            .full_run([30, 1, 1], &[Below(1 << 32, 7680), Zero(7680)]),
    ]
}
