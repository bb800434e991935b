//! Well-known kernels, in odd and even sizes and over several grids.
//!
//! Most are the examples of the documentation, where known results check them.

use super::fixture::{Fill, Fixture};
use super::programs::source;
use crate::batch::{Batch, Group, Plan, Track};
use Fill::{Below, Count, Edge, Plain, Text, These, Zero};
use std::sync::LazyLock;

macro_rules! example {
    ($name:literal) => {
        include_str!(concat!("../../../../examples/", $name, ".vyre"))
    };
}

static TABLE: LazyLock<Vec<Fixture>> = LazyLock::new(|| {
    const KERNELS: [fn() -> Vec<Fixture>; 5] = [streaming, folding, matrices, bytes, planes];
    KERNELS.iter().flat_map(|kernels| kernels()).collect()
});

pub(crate) fn groups() -> Vec<Group> {
    super::fixture::groups(&TABLE)
}

/// The batches of a track.
pub(super) fn batches(plan: &Plan<'_>, track: Track) -> Vec<Batch> {
    super::fixture::batches(&TABLE, plan, |fixture| fixture.track() == track)
}

fn streaming() -> Vec<Fixture> {
    let saxpy =
        |ty: &'static str| Fixture::new("kernel/saxpy", &example!("saxpy").replace("f32", ty)).named(ty);
    let sized = |fixture: Fixture| {
        fixture
            .run([2, 1, 1], &[Plain(1), Plain(128), Plain(128)])
            .run([2, 1, 1], &[Plain(1), Plain(101), Plain(101)])
            .run([3, 1, 1], &[Edge(1), Edge(130), Edge(129)])
            .run([1, 1, 1], &[Plain(1), Plain(1), Plain(1)])
            .full_run([160, 1, 1], &[Plain(1), Plain(10_007), Plain(10_007)])
    };
    vec![
        sized(saxpy("f32")),
        sized(saxpy("f64")),
        sized(saxpy("f16")),
        sized(saxpy("bf16")),
        Fixture::new("kernel/mix", example!("mix"))
            .run([2, 1, 1], &[Edge(128)])
            .run([3, 1, 1], &[Edge(131)])
            .full_run([40, 1, 1], &[Edge(2500)]),
    ]
}

fn folding() -> Vec<Fixture> {
    let integer = [
        Fixture::new("kernel/reduce", example!("reduce"))
            .run([4, 1, 1], &[Below(1 << 32, 200), Zero(4)])
            .run([1, 1, 1], &[Edge(63), Zero(1)])
            .run([9, 1, 1], &[Edge(576), Edge(11)])
            .full_run([157, 1, 1], &[Edge(10_001), Zero(157)]),
        Fixture::new("kernel/exclusive-scan", source!("exclusive_scan"))
            .run([2, 1, 1], &[Below(100, 512), Zero(512), Zero(2)])
            .run([3, 1, 1], &[Edge(701), Edge(701), Zero(3)])
            .full_run([20, 1, 1], &[Edge(5001), Zero(5001), Edge(20)]),
        Fixture::new("kernel/histogram", example!("histogram"))
            .run([3, 1, 1], &[Below(256, 1000), Zero(256)])
            .run([1, 1, 1], &[Below(7, 333), Edge(256)])
            .run([2, 1, 1], &[Edge(0), Zero(256)])
            .full_run([16, 1, 1], &[Edge(20_000), Zero(256)]),
        Fixture::new("kernel/sort", source!("bitonic_sort"))
            .run([1, 1, 1], &[Below(1 << 32, 128), Zero(128)])
            .run([3, 1, 1], &[Edge(300), Zero(300)])
            .full_run([40, 1, 1], &[Below(50, 5000), Zero(5000)]),
    ];
    // Sums of floats show the order in which they were made.
    let reduce = example!("reduce").replace("u32[", "f32[").replace("load.u32", "load.f32");
    let reduce = reduce.replace("store.u32", "store.f32").replace("add.u32 %a, %b", "add.f32 %a, %b");
    let floats = [
        Fixture::new("kernel/reduce-f32", &reduce)
            .run([4, 1, 1], &[Plain(250), Zero(4)])
            .run([2, 1, 1], &[Plain(65), Edge(3)])
            .full_run([157, 1, 1], &[Plain(10_001), Zero(157)]),
        Fixture::new("kernel/scan", example!("scan"))
            .run([2, 1, 1], &[Plain(256), Zero(256)])
            .run([1, 1, 1], &[Plain(99), Zero(99)])
            .full_run([40, 1, 1], &[Plain(5003), Zero(5003)]),
    ];
    integer.into_iter().chain(floats).collect()
}

fn matrices() -> Vec<Fixture> {
    let products = |fixture: Fixture| {
        fixture
            .run([1, 1, 1], &[These(&[8, 8, 8]), Plain(64), Plain(64), Zero(64)])
            .run([2, 2, 1], &[These(&[11, 9, 13]), Plain(143), Plain(117), Zero(99)])
            .run([1, 1, 1], &[These(&[1, 1, 1]), Plain(1), Plain(1), Zero(1)])
            .full_run([6, 5, 1], &[These(&[37, 45, 41]), Plain(1517), Plain(1845), Zero(1665)])
    };
    vec![
        products(Fixture::new("kernel/matmul", example!("matmul"))),
        products(Fixture::new("kernel/tiled-matmul", source!("tiled_matmul"))),
        products(
            Fixture::new("kernel/tiled-matmul", &source!("tiled_matmul").replace("f32", "f16")).named("f16"),
        ),
        Fixture::new("kernel/int8-matmul", source!("int8_matmul"))
            .run([1, 1, 1], &[These(&[16, 16, 32]), Edge(512), Edge(512), Zero(256)])
            .run([2, 1, 1], &[These(&[9, 19, 45]), Below(256, 405), Below(256, 855), Zero(171)])
            .full_run([3, 4, 1], &[These(&[61, 47, 100]), Edge(6100), Edge(4700), Zero(2867)]),
    ]
}

fn bytes() -> Vec<Fixture> {
    const STARTS: &[u64] = &[0, 15, 22, 37, 37, 43, 53, 65];
    vec![
        Fixture::new("kernel/sha256", example!("sha256"))
            .run([1, 1, 1], &[These(&[1]), Below(256, 64 * 9), Zero(72)])
            .run([1, 1, 1], &[These(&[2]), Below(256, 128 * 3), Zero(24)])
            .full_run([4, 1, 1], &[These(&[3]), Below(256, 192 * 201), Zero(1608)]),
        Fixture::new("kernel/dfa", example!("dfa"))
            .run([1, 1, 1], &[Text(TEXT), These(STARTS), Zero(7)])
            .run([1, 1, 1], &[Below(256, 65), These(STARTS), Edge(7)]),
        Fixture::new("lookup/automaton", source!("automaton"))
            .run([2, 1, 1], &[Below(256, 801), Below(256, 288), Zero(35), Zero(35)])
            .run([2, 1, 1], &[Below(256, 801), Below(256, 288), Zero(35), Zero(35)])
            .run([1, 1, 1], &[Count(300), Edge(271), Edge(11), Zero(11)])
            .run([1, 1, 1], &[Count(300), Edge(272), Edge(11), Zero(11)])
            .lookup(),
        Fixture::new("lookup/substitution", source!("substitution"))
            .run([2, 1, 1], &[Edge(4), Edge(100), Below(256, 256), Zero(100)])
            .run([2, 1, 1], &[Edge(4), Edge(100), Count(256), Zero(100)])
            .run([1, 1, 1], &[Edge(4), Edge(33), Edge(256), Zero(33)])
            .lookup(),
    ]
}

/// Records in which the automaton of the example finds something.
const TEXT: &str = "GET /index HTTPPOST /xGET   /a GET /bGGET /GET/ GET\t/xGET /GET /y";

fn planes() -> Vec<Fixture> {
    // -2.0, -1.25, and the distance between two pixels.
    const VIEW: &[u64] = &[0xc000_0000, 0xbfa0_0000, 0x3e40_0000];
    const NEAR: &[u64] = &[0xbf40_0000, 0x3dcc_cccd, 0x3b03_126f];
    vec![
        Fixture::new("kernel/stencil", example!("stencil"))
            .run([2, 2, 1], &[These(&[11, 9]), Plain(99), Zero(99)])
            .run([1, 1, 1], &[These(&[8, 8]), Edge(64), Zero(64)])
            .full_run([7, 6, 1], &[These(&[51, 47]), Plain(2397), Zero(2397)]),
        Fixture::new("kernel/mandelbrot", example!("mandelbrot"))
            .run([2, 2, 1], &[These(VIEW), These(&[15]), Zero(240)])
            .run([1, 1, 1], &[These(NEAR), These(&[8]), Zero(64)])
            .full_run([8, 8, 1], &[These(NEAR), These(&[61]), Zero(3904)]),
        Fixture::new("kernel/transpose", source!("transpose"))
            .run([2, 2, 1], &[These(&[16, 16]), Edge(256), Zero(256)])
            .run([2, 3, 1], &[These(&[13, 17]), Edge(221), Zero(221)])
            .full_run([13, 9, 1], &[These(&[101, 67]), Edge(6767), Zero(6767)]),
    ]
}
