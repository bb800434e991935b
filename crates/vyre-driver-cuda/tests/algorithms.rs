//! The algorithms on a device, and on emulated ones whose PTX differs: they reach what short programs do not, such as factors
//! of tile products that are copied while others are multiplied.

mod common;

use common::{backend, on_emulated};
use vyre_algorithms::{Dfa, Fold, Plan, Role, Scan, Shape};
use vyre_driver::VyreBackend;
use vyre_driver_reference::ReferenceBackend;
use vyre_testkit::contract::{LIMIT, in_own_process};

fn plans() -> Vec<Plan> {
    let dfa =
        Dfa::new(3, |state, byte| ((state + u32::from(byte)) % 3, byte & 7 == 0)).expect("it has states");
    let plans = [
        Plan::reduce::<f32>(Fold::Add, 5000),
        Plan::reduce::<u32>(Fold::Add, 70_000),
        Plan::reduce::<i64>(Fold::Min, 3001),
        Plan::scan::<u32>(Scan::Inclusive, 9001),
        Plan::scan::<f32>(Scan::Exclusive, 3000),
        Plan::compact::<u32>(5000),
        Plan::sort(5000, true),
        Plan::histogram(70_001),
        Plan::matmul(Shape { m: 130, n: 9, k: 20 }),
        Plan::matmul(Shape { m: 128, n: 128, k: 32 }),
        Plan::sha256(130, 150),
        Plan::dfa(40, 30, &dfa),
    ];
    plans.into_iter().map(|plan| plan.expect("its size is fine")).collect()
}

/// Small numbers: places in a text are among them.
fn inputs(plan: &Plan) -> Vec<Vec<u8>> {
    let sizes = plan.buffers.iter().filter(|buffer| buffer.role == Role::Input).map(|buffer| buffer.byte_len);
    let byte = |at: usize| if at.is_multiple_of(4) { (at * at / 7 + at) as u8 } else { 0 };
    sizes.map(|size| (0..size).map(byte).collect()).collect()
}

fn check_plans(backend: &dyn VyreBackend) {
    let reference = ReferenceBackend::default();
    for plan in plans() {
        let inputs = inputs(&plan);
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let expected = plan.run(&reference, &inputs).expect("the reference runs it");
        let found = plan.run(backend, &inputs).expect("the device runs it");
        assert!(found == expected, "{}", plan.programs[0].name());
    }
}

fn check_product(backend: &dyn VyreBackend, plan: &Plan, [m, n, k]: [usize; 3]) {
    let factor = |rows: usize, salt: usize| -> Vec<u8> {
        (0..rows * k).map(|at| ((at + salt).wrapping_mul(0x9e37_79b1) >> 13) as u8).collect()
    };
    let (a, b) = (factor(m, 1), factor(n, 77));
    let outputs = plan.run(backend, &[&a, &b]).expect("the device runs it");
    let c = outputs[0].as_chunks().0;
    for (at, c) in c.iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let (a, b) = (&a[row * k..][..k], &b[column * k..][..k]);
        let expected: i32 = a.iter().zip(b).map(|(a, b)| i32::from(*a as i8) * i32::from(*b as i8)).sum();
        assert_eq!(i32::from_le_bytes(*c), expected, "row {row}, column {column} of {m} x {n} x {k}");
    }
}

/// The program of large products, which has the largest tiles, on a small one.
fn large_tiles([m, n, k]: [usize; 3]) -> Plan {
    let mut plan = Plan::matmul_i8(Shape { m: 1024, n: 1024, k: 256 }).expect("its size is fine");
    let step = &mut plan.steps[0];
    let [a, b, c, size] = [0, 1, 2, 3];
    let words = [m, n / 4, k / 128].map(|word| (word as u32).to_le_bytes());
    plan.buffers[size].role = Role::Constant(words.concat());
    for (buffer, byte_len) in [(a, m * k), (b, n * k), (c, m * n * 4)] {
        plan.buffers[buffer].byte_len = byte_len;
    }
    // Tiles have 128 rows and 256 columns.
    step.grid = [n.div_ceil(256) as u32, m.div_ceil(128) as u32, 1];
    step.lesser.clear();
    plan
}

/// Whole rows and parts, for each of the tiles that the plan has.
fn check_products(backend: &dyn VyreBackend) {
    for shape in [[128, 128, 256], [130, 140, 384], [65, 130, 77], [33, 70, 128]] {
        let [m, n, k] = shape;
        check_product(backend, &Plan::matmul_i8(Shape { m, n, k }).expect("its size is fine"), shape);
    }
    // 224 KiB of workgroup memory.
    if backend.device_profile().max_shared_memory_bytes >= 224 << 10 {
        for shape in [[256, 256, 512], [130, 300, 256]] {
            check_product(backend, &large_tiles(shape), shape);
        }
    }
}

fn check(test: &str, model: &str) {
    if on_emulated(test, model, "") {
        let backend = backend(test).expect("it is emulated");
        check_plans(&backend);
        check_products(&backend);
    }
}

#[test]
fn algorithms_are_right() {
    if let Some(backend) = backend("algorithms_are_right") {
        check_plans(&backend);
        check_products(&backend);
    }
}

#[test]
fn algorithms_are_right_on_sm_70() {
    check("algorithms_are_right_on_sm_70", "sm_70");
}

#[test]
fn algorithms_are_right_on_sm_80() {
    check("algorithms_are_right_on_sm_80", "sm_80");
}

#[test]
fn algorithms_are_right_on_sm_120() {
    check("algorithms_are_right_on_sm_120", "sm_120");
}

/// A wait or a fence that is missing shows itself here, whatever the bytes are.
#[test]
fn algorithms_order_their_accesses() {
    let test = "algorithms_order_their_accesses";
    let Some(backend) = backend(test) else { return };
    if !backend.device_name().starts_with("vyre emulated") {
        return eprintln!("SKIP {test} on cuda: {} is not emulated", backend.device_name());
    }
    if in_own_process(test, &[("VYRE_EMULATED_CHECKS", "races")], LIMIT) {
        check_plans(&backend);
        check_products(&backend);
    }
}
