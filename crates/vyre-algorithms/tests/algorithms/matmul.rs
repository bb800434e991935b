//! Products of matrices against plain loops, at sizes that fit no tile.

use crate::common::{cpu, everywhere, random};
use proptest::prelude::*;
use vyre_algorithms::{Plan, Shape, Step};

/// Floats of which some products vanish below the least one: a sum may become -0.0.
fn floats(seed: u64, len: usize) -> Vec<f32> {
    let float = |bits: u64| match bits % 8 {
        0 => -0.0,
        1 => f32::from_bits((bits >> 32) as u32 & 0x8000_00ff),
        2 => -1e-40,
        _ => (bits >> 32) as i32 as f32 / 1e9,
    };
    (0..len).map(|at| float(random(seed, at))).collect()
}

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn check(shape: Shape, seed: u64) {
    check_f32(shape, seed);
    check_i8(shape, seed);
}

fn check_i8(shape: Shape, seed: u64) {
    let Shape { m, n, k } = shape;
    let bytes = |seed, len| (0..len).map(|at| random(seed, at) as u8).collect::<Vec<u8>>();
    let (a, b) = (bytes(seed, m * k), bytes(seed + 1, n * k));
    let product = |a: u8, b: u8| i32::from(a as i8) * i32::from(b as i8);
    let element = |at: usize| (0..k).map(|l| product(a[at / n * k + l], b[at % n * k + l])).sum::<i32>();
    let c: Vec<u8> = (0..m * n).flat_map(|at| element(at).to_le_bytes()).collect();
    let plan = Plan::matmul_i8(shape).unwrap();
    let inputs = [a, b];
    assert!(everywhere(&plan, &inputs) == [c.clone()], "{shape:?}");
    // What devices with less workgroup memory run.
    for (program, grid) in plan.steps[0].lesser.clone() {
        let mut lesser = plan.clone();
        lesser.steps[0] =
            Step { program, grid, lesser: Vec::new(), on_processors: None, ..plan.steps[0].clone() };
        assert!(everywhere(&lesser, &inputs) == [c.clone()], "{shape:?} on {grid:?}");
    }
}

fn check_f32(shape: Shape, seed: u64) {
    let Shape { m, n, k } = shape;
    let (a, b) = (floats(seed, m * k), floats(seed + 1, k * n));
    let element = |at: usize| (0..k).fold(0.0f32, |sum, l| a[at / n * k + l].mul_add(b[l * n + at % n], sum));
    let c: Vec<f32> = (0..m * n).map(element).collect();
    let found = everywhere(&Plan::matmul(shape).unwrap(), &[bytes(&a), bytes(&b)]);
    assert!(found == [bytes(&c)], "{shape:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn any_shape(m in 0..150usize, n in 0..150usize, k in 0..90usize, seed in 0..u64::from(u32::MAX)) {
        check(Shape { m, n, k }, seed);
    }
}

#[test]
fn about_the_tiles() {
    for [m, n, k] in [
        [1, 1, 1],
        [128, 128, 8],
        [127, 129, 7],
        [129, 132, 16],
        [3, 4, 24],
        [5, 256, 0],
        [35, 260, 128],
        [130, 6, 9],
        [4, 4, 64],
        [129, 8, 128],
    ] {
        check(Shape { m, n, k }, 7);
    }
}

/// As many tiles as take the largest, and their edges: too many for the interpreter.
#[test]
fn large_products() {
    let (m, n, k) = (1030, 1028, 128);
    let elements = |seed, len| (0..len).map(|at| random(seed, at) as i8).collect::<Vec<i8>>();
    let (a, b) = (elements(1, m * k), elements(2, n * k));
    let product = |a: &i8, b: &i8| i32::from(*a) * i32::from(*b);
    let element = |a: &[i8], b: &[i8]| a.iter().zip(b).map(|(a, b)| product(a, b)).sum::<i32>();
    let c: Vec<i32> = a.chunks(k).flat_map(|a| b.chunks(k).map(|b| element(a, b))).collect();
    assert!(vyre_algorithms::matmul_i8(&cpu(), Shape { m, n, k }, &a, &b).unwrap() == c);
}

#[test]
fn products_of_another_shape_are_refused() {
    let cpu = cpu();
    let shape = Shape { m: 2, n: 2, k: 2 };
    let error = vyre_algorithms::matmul(&cpu, shape, &[1.0; 4], &[1.0; 3]).unwrap_err().to_string();
    assert!(error.contains("Fix:"), "{error}");
    let error = Plan::matmul(Shape { m: 1 << 20, n: 4, k: 1 << 20 }).unwrap_err().to_string();
    assert!(error.contains("Fix:"), "{error}");
}
