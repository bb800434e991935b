//! Results on the cpu backend: every f16 and bf16, f32 and f64 in part. `vyre-math check` tries every f32.

use vyre::ir::DataType;
use vyre::math::OPS;
use vyre_math::kernel::elements;
use vyre_math::oracle::{ORACLES, Oracle};
use vyre_math::ulp::{distance, worst};
use vyre_math::{canonical, narrow, special};

#[test]
fn every_16_bit_float_is_rounded_correctly() {
    for op in OPS {
        for ty in [DataType::F16, DataType::BF16] {
            let Some(wrong) = narrow::wrong(op, ty, "cpu").unwrap() else { continue };
            assert!(wrong.is_empty(), "{}.{ty}: {} wrong, such as {}", op.name, wrong.len(), wrong[0]);
        }
    }
}

#[test]
fn f32_is_rounded_correctly_on_special_values_and_a_part_of_all() {
    let values = special::values();
    for (name, oracle) in ORACLES {
        let op = vyre::math::MathOp::from_name(name).unwrap();
        let kernel = elements(op, DataType::F32).unwrap();
        let part = (0..1u32 << 16).map(|at| f32::from_bits(at.wrapping_mul(0x9e37_79b1)));
        let pairs: Vec<(f32, f32)> = match oracle {
            Oracle::One(..) => values.iter().copied().chain(part).map(|x| (x, 0.0)).collect(),
            Oracle::Two(..) => values.iter().flat_map(|x| values.iter().map(|y| (*x, *y))).collect(),
        };
        let (xs, ys): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let mut launch = kernel.launch().backend("cpu").input("x", &xs);
        if op.operands == 2 {
            launch = launch.input("y", &ys);
        }
        let grid = [(xs.len() as u32).div_ceil(256), 1, 1];
        let got = launch.size("r", xs.len() as u64).grid(grid).run().unwrap().get::<f32>("r").unwrap();
        for ((x, y), got) in xs.into_iter().zip(ys).zip(got) {
            let right = match oracle {
                Oracle::One(f, _) => f(x),
                Oracle::Two(f, _) => f(x, y),
            };
            assert_eq!(canonical(got), canonical(right), "{name}({x:e}, {y:e}) gives {got:e}, not {right:e}");
        }
    }
}

#[test]
fn f64_is_as_near_as_documented() {
    for op in OPS {
        let Some(worst) = worst(op, "cpu", 1 << 16, 1).unwrap() else { continue };
        assert!(worst.ulp <= op.f64_off_max, "{}: {worst:?}", op.name);
    }
}

/// Arguments whose exact value lies next to halfway between two floats, for functions that the oracle does not have; the
/// results are those of `scripts/math/judge.py`.
#[test]
fn functions_without_an_oracle_are_right_where_it_is_hard() {
    let cases: &[(&str, &[[u32; 2]])] = &[
        (
            "sigmoid",
            &[
                [0x34c0_0000, 0x3f00_0001],
                [0x3618_0000, 0x3f00_0009],
                [0x3766_0000, 0x3f00_0039],
                [0xb440_0000, 0x3eff_ffff],
                [0xb6fe_0000, 0x3eff_ffc1],
                [0xb781_8000, 0x3eff_ff7f],
                [0xb783_8000, 0x3eff_ff7d],
                [0xba92_8601, 0x3eff_db5f],
            ],
        ),
        ("gelu", &[[0x37b0_a46f, 0x3730_a531], [0xb7b0_a46f, 0xb730_a3ad]]),
        ("softplus", &[[0x39ea_41d0, 0x3f31_80bd]]),
    ];
    for (name, rows) in cases {
        let kernel = elements(vyre::math::MathOp::from_name(name).unwrap(), DataType::F32).unwrap();
        let (xs, right): (Vec<f32>, Vec<u32>) = rows.iter().map(|[x, r]| (f32::from_bits(*x), *r)).unzip();
        let launch = kernel.launch().backend("cpu").input("x", &xs).size("r", xs.len() as u64);
        let got = launch.grid([1, 1, 1]).run().unwrap().get::<f32>("r").unwrap();
        let got: Vec<u32> = got.into_iter().map(canonical).collect();
        assert_eq!(got, right, "{name}");
    }
}

/// Far below 0, where these functions of f64 leave the normal numbers and end as a zero of the right sign; the results are
/// those of mpmath.
#[test]
fn functions_without_an_oracle_vanish_as_they_should() {
    let ends = [f64::NEG_INFINITY, f64::MIN, -1.3e154, -1e20, -134_217_729.1, -800.0];
    let cases: &[(&str, f64, &[[f64; 2]])] = &[
        (
            "sigmoid",
            0.0,
            &[
                [-700.0, 9.85967654375977e-305],
                [-710.0, 4.47628622567513e-309],
                [-725.5, 8.30526278e-316],
                [-744.0, 1e-323],
                [-746.0, 0.0],
            ],
        ),
        (
            "silu",
            -0.0,
            &[
                [-599.5, -2.61967422105074e-258],
                [-600.5, -9.653318352611735e-259],
                [-710.0, -3.1781632202293424e-306],
                [-714.0, -5.853803403946551e-308],
                [-740.0, -3.09967e-319],
                [-751.5, -5e-324],
                [-752.5, -0.0],
            ],
        ),
        (
            "gelu",
            -0.0,
            &[
                [-37.5, -1.7270073785932332e-306],
                [-38.25, -7.9548e-319],
                [-38.375, -6.62e-321],
                [-38.5, -5.4e-323],
                [-39.5, -0.0],
            ],
        ),
        ("softplus", 0.0, &[[-708.0, 3.307553003638408e-308], [-744.0, 1e-323], [-746.0, 0.0]]),
    ];
    for (name, end, rows) in cases {
        let kernel = elements(vyre::math::MathOp::from_name(name).unwrap(), DataType::F64).unwrap();
        let rows: Vec<[f64; 2]> = rows.iter().copied().chain(ends.map(|x| [x, *end])).collect();
        let xs: Vec<f64> = rows.iter().map(|[x, _]| *x).collect();
        let launch = kernel.launch().backend("cpu").input("x", &xs).size("r", xs.len() as u64);
        let got = launch.grid([1, 1, 1]).run().unwrap().get::<f64>("r").unwrap();
        for ([x, right], got) in rows.into_iter().zip(got) {
            assert!(distance(got, right) <= 2, "{name}({x:e}) gives {got:e}, not {right:e}");
        }
    }
}
