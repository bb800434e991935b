//! Results on the cpu backend: every f16 and bf16, f32 and f64 in part. `vyre-math check` tries every f32.

use vyre::host::Kernel;
use vyre::ir::{ComputeOp, DataType};
use vyre::math::OPS;
use vyre_foundation::scalar::meaning;
use vyre_math::kernel::elements;
use vyre_math::oracle::{ORACLES, Oracle};
use vyre_math::ulp::{ULP_MAX, worst};
use vyre_math::{canonical, special};

/// A number of the type, and a number rounded to it.
fn convert(ty: DataType, source: DataType, bits: u64) -> u64 {
    meaning(ComputeOp::Cast, ty, source).expect("floats convert")(&[bits, 0, 0, 0])
}

/// The function's results for rows of 16-bit arguments.
fn run(kernel: &Kernel, ty: DataType, columns: [&[u16]; 2]) -> Vec<u16> {
    let bytes = |column: &[u16]| column.iter().flat_map(|bits| bits.to_le_bytes()).collect::<Vec<u8>>();
    let count = columns[0].len();
    let mut launch = kernel.launch().backend("cpu").bytes("x", bytes(columns[0])).size("r", count as u64);
    if !columns[1].is_empty() {
        launch = launch.bytes("y", bytes(columns[1]));
    }
    let output = launch
        .grid([(count as u32).div_ceil(256), 1, 1])
        .run()
        .unwrap_or_else(|error| panic!("{ty}: {error}"));
    let result = output.bytes("r").unwrap();
    result.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
}

#[test]
fn every_16_bit_float_is_rounded_correctly() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    // All pairs of 256 values each.
    let some = |byte: u16| byte << 8 | byte >> 3;
    let firsts: Vec<u16> = all.iter().map(|pair| some(pair & 255)).collect();
    let seconds: Vec<u16> = all.iter().map(|pair| some(pair >> 8)).collect();
    for (name, oracle) in ORACLES {
        let op = vyre::math::MathOp::from_name(name).unwrap();
        for ty in [DataType::F16, DataType::BF16] {
            let kernel = elements(op, ty).unwrap();
            let wide = |bits: u16| f64::from_bits(convert(DataType::F64, ty, bits.into()));
            let (xs, ys) = match oracle {
                Oracle::One(..) => (&all, &[][..]),
                Oracle::Two(..) => (&firsts, &seconds[..]),
            };
            let got = run(&kernel, ty, [xs, ys]);
            let mut wrong = Vec::new();
            for (at, got) in got.into_iter().enumerate() {
                let exact = match oracle {
                    Oracle::One(_, f) => f(wide(xs[at])),
                    Oracle::Two(_, f) => f(wide(xs[at]), wide(ys[at])),
                };
                let right = match exact.is_nan() {
                    true => ty.canonical_nan().unwrap(),
                    false => convert(ty, DataType::F64, exact.to_bits()),
                };
                if u64::from(got) != right {
                    wrong.push((xs[at], ys.get(at), got, right));
                }
            }
            assert!(
                wrong.is_empty(),
                "{name}.{ty}: {} wrong, such as {:x?}",
                wrong.len(),
                &wrong[..wrong.len().min(5)]
            );
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
        assert!(worst.ulp <= ULP_MAX, "{}: {worst:?}", op.name);
    }
}
