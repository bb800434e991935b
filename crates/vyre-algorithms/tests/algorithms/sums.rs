//! Reduce, scan and histogram against plain Rust, and against their definitions where floats are added.

use crate::common::{cpu, everywhere, random};
use proptest::prelude::*;
use vyre_algorithms::{Fold, Plan, Scan};
use vyre_foundation::ir::builder::Number;

/// Sizes about the ends of rows, tiles and levels.
fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        proptest::sample::select(vec![0, 1, 3, 4, 5, 127, 512, 1023, 4095, 4096, 4097, 8192, 12_289]),
        0..20_000usize,
    ]
}

fn bytes<T: Number>(x: &[T]) -> Vec<u8> {
    x.iter().flat_map(|x| x.bits().to_le_bytes()[..T::TYPE.bytes()].to_vec()).collect()
}

/// Elements of any bits.
fn elements<T: Number>(seed: u64, len: usize) -> Vec<T> {
    (0..len).map(|at| T::from_bits(random(seed, at))).collect()
}

/// Floats of mixed sizes, so that the order of sums shows.
fn floats(seed: u64, len: usize) -> Vec<f32> {
    let float = |bits: u64| {
        let scale = [1e-30f32, 1.0, 1e5, 1e10][bits as usize % 4];
        ((bits >> 32) as i32 as f32) * scale
    };
    (0..len).map(|at| float(random(seed, at))).collect()
}

fn check<T: Number>(plan: &Plan, x: &[T], expected: &[T]) {
    assert!(everywhere(plan, &[bytes(x)]) == [bytes(expected)]);
}

/// A tile's elements by subgroup, row and lane, with `T::default()` behind the end.
fn at(x: &[f32], place: usize) -> f32 {
    x.get(place).copied().unwrap_or(0.0)
}

/// The definition of a float sum.
fn float_sum(x: &[f32]) -> f32 {
    let tile = |tile: usize| {
        let lane = |lane: usize| {
            let places = (0..4).flat_map(|row| (0..4).map(move |next| row * 1024 + lane * 4 + next));
            places.map(|place| at(x, tile * 4096 + place)).reduce(|a, b| a + b).unwrap()
        };
        let subgroup = |subgroup: usize| {
            let mut lanes: Vec<f32> = (0..32).map(|l| lane(subgroup * 32 + l)).collect();
            for distance in [1, 2, 4, 8, 16] {
                lanes = (0..32).map(|l| lanes[l] + lanes[l ^ distance]).collect();
            }
            lanes[0]
        };
        (0..8).map(subgroup).reduce(|a, b| a + b).unwrap()
    };
    let tiles: Vec<f32> = (0..x.len().div_ceil(4096).max(1)).map(tile).collect();
    if let [one] = tiles[..] { one } else { float_sum(&tiles) }
}

/// The definition of a float scan.
fn float_scan(x: &[f32], inclusive: bool) -> Vec<f32> {
    let tiles = x.len().div_ceil(4096).max(1);
    let offsets = match tiles {
        1 => vec![0.0],
        _ => float_scan(&x.chunks(4096).map(float_sum).collect::<Vec<f32>>(), false),
    };
    let mut y = vec![0.0; tiles * 4096];
    for (tile, offset) in offsets.into_iter().enumerate() {
        let mut subgroup_before = offset;
        for subgroup in 0..8 {
            let mut carry = subgroup_before;
            let mut totals = Vec::new();
            for row in 0..4 {
                let first = tile * 4096 + subgroup * 512 + row * 128;
                let four = |lane: usize| (0..4).map(move |next| at(x, first + lane * 4 + next));
                let mut lanes: Vec<f32> =
                    (0..32).map(|lane| four(lane).reduce(|a, b| a + b).unwrap()).collect();
                for distance in [1, 2, 4, 8, 16] {
                    let step = |lane: usize| match lane < distance {
                        true => lanes[lane],
                        false => lanes[lane - distance] + lanes[lane],
                    };
                    lanes = (0..32).map(step).collect();
                }
                for lane in 0..32 {
                    let mut sum = carry + if lane == 0 { 0.0 } else { lanes[lane - 1] };
                    for (next, x) in four(lane).enumerate() {
                        let after = sum + x;
                        y[first + lane * 4 + next] = if inclusive { after } else { sum };
                        sum = after;
                    }
                }
                carry += lanes[31];
                totals.push(lanes[31]);
            }
            subgroup_before += totals.into_iter().reduce(|a, b| a + b).unwrap();
        }
    }
    y.truncate(x.len());
    y
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn reduce(len in sizes(), seed: u64) {
        let x: Vec<u32> = elements(seed, len);
        check(&Plan::reduce::<u32>(Fold::Add, len).unwrap(), &x, &[x.iter().fold(0, |a, b| a.wrapping_add(*b))]);
        let wide: Vec<i64> = elements(seed, len);
        let sum = wide.iter().fold(0, |a: i64, b| a.wrapping_add(*b));
        check(&Plan::reduce::<i64>(Fold::Add, len).unwrap(), &wide, &[sum]);
        let f = floats(seed, len);
        check(&Plan::reduce::<f32>(Fold::Add, len).unwrap(), &f, &[float_sum(&f)]);
        if len > 0 {
            let x: Vec<i32> = elements(seed, len);
            check(&Plan::reduce::<i32>(Fold::Min, len).unwrap(), &x, &[*x.iter().min().unwrap()]);
            let x: Vec<u64> = elements(seed, len);
            check(&Plan::reduce::<u64>(Fold::Max, len).unwrap(), &x, &[*x.iter().max().unwrap()]);
            let greatest = f.iter().copied().max_by(f32::total_cmp).unwrap();
            check(&Plan::reduce::<f32>(Fold::Max, len).unwrap(), &f, &[greatest]);
        }
    }

    #[test]
    fn scan(len in sizes(), seed: u64) {
        let x: Vec<u32> = elements(seed, len);
        let sums: Vec<u32> = x.iter().scan(0, |sum: &mut u32, x| { *sum = sum.wrapping_add(*x); Some(*sum) }).collect();
        check(&Plan::scan::<u32>(Scan::Inclusive, len).unwrap(), &x, &sums);
        let before: Vec<u32> = x.iter().zip(&sums).map(|(x, sum)| sum.wrapping_sub(*x)).collect();
        check(&Plan::scan::<u32>(Scan::Exclusive, len).unwrap(), &x, &before);
        let x: Vec<u64> = elements(seed, len);
        let sums: Vec<u64> = x.iter().scan(0, |sum: &mut u64, x| { *sum = sum.wrapping_add(*x); Some(*sum) }).collect();
        check(&Plan::scan::<u64>(Scan::Inclusive, len).unwrap(), &x, &sums);
        let x = floats(seed, len);
        check(&Plan::scan::<f32>(Scan::Inclusive, len).unwrap(), &x, &float_scan(&x, true));
        check(&Plan::scan::<f32>(Scan::Exclusive, len).unwrap(), &x, &float_scan(&x, false));
    }

    #[test]
    fn histogram(
        len in prop_oneof![
            proptest::sample::select(vec![0, 1, 3, 4, 65_533, 65_535, 65_536, 65_537, 131_073]),
            0..200_000usize,
        ],
        seed: u64,
    ) {
        let mut x: Vec<u8> = (0..len).map(|at| random(seed, at) as u8).collect();
        let mut counts = [0u32; 256];
        x.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        x.resize(len.next_multiple_of(4), 0);
        prop_assert!(everywhere(&Plan::histogram(len).unwrap(), &[x]) == [bytes(&counts)]);
    }
}

/// Three levels, and a grid of more than one row of workgroups on the way.
#[test]
fn many_levels() {
    let cpu = cpu();
    let x: Vec<u32> = elements(3, 4096 * 4096 + 5000);
    let sum = x.iter().fold(0u32, |a, b| a.wrapping_add(*b));
    assert_eq!(vyre_algorithms::reduce(&cpu, Fold::Add, &x), Ok(sum));
    let sums = vyre_algorithms::scan(&cpu, Scan::Inclusive, &x).unwrap();
    let mut so_far = 0u32;
    assert!(x.iter().zip(sums).all(|(x, sum)| {
        so_far = so_far.wrapping_add(*x);
        so_far == sum
    }));
}

#[test]
fn no_elements_have_no_least() {
    let error = Plan::reduce::<f32>(Fold::Min, 0).unwrap_err().to_string();
    assert!(error.contains("Fix:"), "{error}");
}

#[test]
fn not_a_number_gives_way_to_numbers() {
    let cpu = cpu();
    let reduce = |x: &[f32]| vyre_algorithms::reduce(&cpu, Fold::Min, x).unwrap();
    assert_eq!(reduce(&[f32::NAN, 2.0, f32::NAN]), 2.0);
    assert!(reduce(&[f32::NAN; 5]).is_nan());
}
