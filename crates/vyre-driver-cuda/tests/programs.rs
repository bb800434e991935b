//! Programs, compared with the reference: those of the file tests and examples, and those for what no other test of the emitter
//! reaches, which run on devices whose PTX differs.

mod common;

use common::{backend, on_emulated};
use vyre_driver::{DispatchConfig, VyreBackend};
use vyre_driver_cuda::CudaBackend;
use vyre_driver_reference::ReferenceBackend;
use vyre_foundation::ir::Program;
use vyre_foundation::ir::builder::{Kernel, Mem, Shared, Val};
use vyre_testkit::files;

/// Lanes of a workgroup, and the tile products' rows, columns and depth.
const LANES: u32 = 128;
const TILE: [u32; 3] = [64, 16, 32];

/// Stores a lane's four words as sixteen bytes of a factor, which a copy that goes on beside the lane may do.
fn put_bytes(factor: Mem<'_, i8, Shared>, lane: Val<'_, u32>, words: [Val<'_, u32>; 4]) {
    for (word, bytes) in (0u32..).zip(words) {
        for byte in 0..4 {
            factor.put((lane << 4) + (4 * word + byte), (bytes >> (8 * byte)).bitcast::<i32>());
        }
    }
}

fn four<'k, M>(from: Mem<'k, u32, M>, lane: Val<'k, u32>) -> [Val<'k, u32>; 4] {
    [0u32, 1, 2, 3].map(|word| from.at((lane << 2) + word))
}

/// Words that are stored to a factor after the place that they came from has changed.
fn words_that_change(k: &Kernel) {
    let (x, y) = (k.read::<u32>("x", 0), k.read_write::<u32>("y", 1).output());
    let z = k.read_write::<i32>("z", 2).output();
    let (a, b) = (k.workgroup::<i8>("a", 64 * 32), k.workgroup::<i8>("b", 16 * 32));
    let c = k.workgroup::<i32>("c", 64 * 16);
    let lane = k.local_index();
    let words = four(y, lane);
    for (at, word) in (0u32..).zip(words) {
        y.put((lane << 2) + at, word * 3 + 1);
    }
    put_bytes(a, lane, words);
    k.if_(lane.lt(32), || put_bytes(b, lane, four(x, lane)));
    k.mma(TILE, (c, 0), (a, 0), (b, 0));
    k.barrier();
    for at in 0..64 * 16 / LANES {
        z.put(lane + at * LANES, c.at(lane + at * LANES));
    }
}

/// A factor that other lanes read behind a tile product of other buffers, which no tensor core does.
fn a_product_between(k: &Kernel) {
    let (x, y) = (k.read::<u32>("x", 0), k.read_write::<u32>("y", 1).output());
    let z = k.read_write::<i32>("z", 2).output();
    let (a, b) = (k.workgroup::<i8>("a", 64 * 32), k.workgroup::<i8>("b", 16 * 32));
    let c = k.workgroup::<i32>("c", 64 * 16);
    let (d, e, f) = (k.workgroup::<i8>("d", 256), k.workgroup::<i8>("e", 256), k.workgroup::<i32>("f", 256));
    let lane = k.local_index();
    k.if_(lane.lt(32), || put_bytes(b, lane, four(x, lane)));
    d.put(lane, lane.bitcast::<i32>());
    e.put(lane, (lane * 5).bitcast::<i32>());
    put_bytes(a, lane, four(x, lane));
    k.mma([16, 16, 16], (f, 0), (d, 0), (e, 0));
    let other = a.at((lane * 16 + 53) & (64 * 32 - 1));
    k.mma(TILE, (c, 0), (a, 0), (b, 0));
    k.barrier();
    y.put(lane, (other + f.at(lane)).bitcast::<u32>());
    for at in 0..64 * 16 / LANES {
        z.put(lane + at * LANES, c.at(lane + at * LANES));
    }
}

/// A factor that is read in a loop before its product, where the loop has no trips.
fn a_loop_without_trips(k: &Kernel) {
    let (x, y) = (k.read::<u32>("x", 0), k.read_write::<u32>("y", 1).output());
    let z = k.read_write::<i32>("z", 2).output();
    let (a, b) = (k.workgroup::<i8>("a", 64 * 32), k.workgroup::<i8>("b", 16 * 32));
    let c = k.workgroup::<i32>("c", 64 * 16);
    let lane = k.local_index();
    k.if_(lane.lt(32), || put_bytes(b, lane, four(x, lane)));
    put_bytes(a, lane, four(x, lane));
    // Beyond the end there is 0.
    let (trips, sum) = (x.at(600), k.var(0i32));
    k.for_((0, trips), |at| sum.update(|sum| sum + a.at((lane << 4) + at)));
    k.mma(TILE, (c, 0), (a, 0), (b, 0));
    k.barrier();
    y.put(lane, sum.get().bitcast::<u32>());
    for at in 0..64 * 16 / LANES {
        z.put(lane + at * LANES, c.at(lane + at * LANES));
    }
}

/// A loop that holds the sum of its products and has no trips, directly behind stores to a factor that lanes read after it.
fn a_sum_without_trips(k: &Kernel) {
    let (x, y) = (k.read::<u32>("x", 0), k.read_write::<u32>("y", 1).output());
    let z = k.read_write::<i32>("z", 2).output();
    let (a, b) = (k.workgroup::<i8>("a", 64 * 32), k.workgroup::<i8>("b", 16 * 32));
    let c = k.workgroup::<i32>("c", 64 * 16);
    let lane = k.local_index();
    // Beyond the end there is 0.
    let trips = x.at(600);
    k.if_(lane.lt(32), || put_bytes(b, lane, four(x, lane)));
    put_bytes(a, lane, four(x, lane));
    k.for_((0, trips), |_| k.mma(TILE, (c, 0), (a, 0), (b, 0)));
    k.barrier();
    y.put(lane, a.at((lane * 16 + 53) & (64 * 32 - 1)).bitcast::<u32>());
    for at in 0..64 * 16 / LANES {
        z.put(lane + at * LANES, c.at(lane + at * LANES));
    }
}

/// Products whose sum is read in their loop, and products that add to two sums of which each has a part of the other.
fn sums_that_are_read(k: &Kernel) {
    let (x, y) = (k.read::<u32>("x", 0), k.read_write::<u32>("y", 1).output());
    let z = k.read_write::<i32>("z", 2).output();
    let (a, b) = (k.workgroup::<i8>("a", 64 * 32), k.workgroup::<i8>("b", 16 * 32));
    let (c, d) = (k.workgroup::<i32>("c", 64 * 16), k.workgroup::<i32>("d", 64 * 16 + 16));
    let lane = k.local_index();
    k.if_(lane.lt(32), || put_bytes(b, lane, four(x, lane)));
    put_bytes(a, lane, four(x, lane));
    let sum = k.var(0i32);
    // Too many trips to be written out.
    k.for_((0, 40), |_| {
        k.mma(TILE, (c, 0), (a, 0), (b, 0));
        k.barrier();
        sum.update(|sum| sum * 3 + c.at(lane));
    });
    k.for_((0, 40), |_| {
        k.mma(TILE, (d, 0), (a, 0), (b, 0));
        k.mma(TILE, (d, 16), (a, 0), (b, 0));
    });
    k.barrier();
    y.put(lane, sum.get().bitcast::<u32>());
    for at in 0..64 * 16 / LANES {
        z.put(lane + at * LANES, d.at(lane + at * LANES));
    }
}

fn programs() -> Vec<Program> {
    let build = |name, body: fn(&Kernel)| {
        Program::build(name, [LANES, 1, 1], body).expect("the program is well formed")
    };
    vec![
        build("words_that_change", words_that_change),
        build("a_product_between", a_product_between),
        build("a_loop_without_trips", a_loop_without_trips),
        build("a_sum_without_trips", a_sum_without_trips),
        build("sums_that_are_read", sums_that_are_read),
    ]
}

fn bytes(salt: u32, words: u32) -> Vec<u8> {
    (0..words).flat_map(|at| (at + salt).wrapping_mul(0x9e37_79b1).to_le_bytes()).collect()
}

fn check(backend: &dyn VyreBackend) {
    let inputs = [bytes(1, 512), bytes(7000, 512), bytes(90, 1024)];
    let config = DispatchConfig { grid_override: Some([1, 1, 1]), ..DispatchConfig::default() };
    for program in programs() {
        let expected = ReferenceBackend::default().dispatch(&program, &inputs, &config);
        let found = backend.dispatch(&program, &inputs, &config);
        assert!(
            found.unwrap_or_else(|error| panic!("{}: {error}", program.name()))
                == expected.expect("the reference runs it"),
            "{}",
            program.name()
        );
    }
}

/// Runs file tests; `folders` are searched.
fn check_files(backend: &CudaBackend, folders: &[&str]) {
    let ran = files::check(folders, &[(backend.device_name().to_owned(), backend)]);
    assert!(ran > 10, "{ran} runs");
}

#[test]
fn files_are_right() {
    if let Some(backend) = backend("files_are_right") {
        check_files(&backend, &["tests", "examples", "crates/vyre-lower/tests"]);
    }
}

#[test]
fn files_are_right_on_sm_70() {
    if on_emulated("files_are_right_on_sm_70", "sm_70", "") {
        check_files(
            &backend("files_are_right_on_sm_70").expect("it is emulated"),
            &["crates/vyre-lower/tests"],
        );
    }
}

#[test]
fn files_are_right_on_sm_80() {
    if on_emulated("files_are_right_on_sm_80", "sm_80", "") {
        check_files(
            &backend("files_are_right_on_sm_80").expect("it is emulated"),
            &["crates/vyre-lower/tests"],
        );
    }
}

#[test]
fn programs_are_right() {
    if let Some(backend) = backend("programs_are_right") {
        check(&backend);
    }
}

fn check_on(test: &str, model: &str) {
    if on_emulated(test, model, "") {
        check(&backend(test).expect("it is emulated"));
    }
}

#[test]
fn programs_are_right_on_sm_70() {
    check_on("programs_are_right_on_sm_70", "sm_70");
}

#[test]
fn programs_are_right_on_sm_80() {
    check_on("programs_are_right_on_sm_80", "sm_80");
}
