//! Elementary functions of f32, one to an element, beside `core-math` and the C library in loops.
//!
//! `core-math` rounds correctly, so its bits are the kernel's. The C library does not always, and its results are not
//! compared; a function that the standard library does not take from there has no such row.

use super::{CHUNK, floats, floats_mut};
use crate::case::{Baseline, Benchmark, Case, LIBC, OpKind, Written, groups, random_floats};
use rayon::prelude::*;

/// One benchmark for each function: its name, the least and greatest argument, `core-math`'s function, the C library's.
macro_rules! functions {
    ($( $name:ident $operands:tt ($low:literal, $high:literal) $core:ident $($libc:ident)?; )*) => {
        /// The benchmarks of elementary functions, which `vyre bench math` runs.
        pub static MATH: &[&Benchmark] = &[$(
            &Benchmark {
                name: stringify!($name),
                about: concat!("the elementary function `", stringify!($name), ".f32`"),
                unit: "elements",
                size: 1 << 24,
                tiny: 1027,
                size_min: 1,
                size_max: 1 << 30,
                power: 1,
                make: |size| make(stringify!($name), $operands, [$low, $high], size),
                ops: |size, _| u64::from(size),
                kind: OpKind::F32,
                baselines: &[
                    functions!(@baseline $operands "core-math" core_math::$core),
                    $( functions!(@baseline $operands LIBC f32::$libc), )?
                ],
            },
        )*];
    };
    (@baseline 1 $label:tt $f:expr) => {
        Baseline { label: $label, run: |read, write| one($f, read, write) }
    };
    (@baseline 2 $label:tt $f:expr) => {
        Baseline { label: $label, run: |read, write| two($f, read, write) }
    };
}

functions! {
    exp 1 (-10.0, 10.0) expf exp;
    exp2 1 (-10.0, 10.0) exp2f exp2;
    exp10 1 (-10.0, 10.0) exp10f;
    expm1 1 (-10.0, 10.0) expm1f exp_m1;
    log 1 (1e-6, 100.0) logf ln;
    log2 1 (1e-6, 100.0) log2f log2;
    log10 1 (1e-6, 100.0) log10f log10;
    log1p 1 (-0.9, 100.0) log1pf ln_1p;
    sin 1 (-10.0, 10.0) sinf sin;
    cos 1 (-10.0, 10.0) cosf cos;
    tan 1 (-10.0, 10.0) tanf tan;
    sinpi 1 (-10.0, 10.0) sinpif;
    cospi 1 (-10.0, 10.0) cospif;
    asin 1 (-1.0, 1.0) asinf asin;
    acos 1 (-1.0, 1.0) acosf acos;
    atan 1 (-10.0, 10.0) atanf atan;
    sinh 1 (-10.0, 10.0) sinhf sinh;
    cosh 1 (-10.0, 10.0) coshf cosh;
    tanh 1 (-10.0, 10.0) tanhf tanh;
    asinh 1 (-10.0, 10.0) asinhf;
    acosh 1 (1.0, 100.0) acoshf;
    atanh 1 (-0.999, 0.999) atanhf;
    cbrt 1 (-10.0, 10.0) cbrtf cbrt;
    rsqrt 1 (1e-6, 100.0) rsqrtf;
    atan2 2 (-10.0, 10.0) atan2f atan2;
    pow 2 (0.1, 10.0) powf powf;
    hypot 2 (-10.0, 10.0) hypotf hypot;
    erf 1 (-4.0, 4.0) erff;
    erfc 1 (-4.0, 10.0) erfcf;
}

fn make(name: &str, operands: usize, [low, high]: [f32; 2], size: u32) -> Case {
    let names = &["x", "y"][..operands];
    let line = |make: &dyn Fn(usize, &str) -> String| -> String {
        names.iter().enumerate().map(|(at, name)| make(at, name)).collect()
    };
    let source = format!(
        "program @{name} workgroup(256, 1, 1) {{
           {}buffer @r : read_write f32[] binding {operands} output
           %i = global_id x
           %n = len @r
           %live = lt.u32 %i, %n
           if %live {{
             {}%r = {name}.f32 %{}
             store.f32 @r[%i], %r
           }}
         }}",
        line(&|at, name| format!("buffer @{name} : read f32[] binding {at}\n")),
        line(&|_, name| format!("%{name} = load.f32 @{name}[%i]\n")),
        names.join(", %"),
    );
    let place = |bits: u32| (low + (high - low) * (f32::from_bits(bits) * 0.5 + 0.5)).to_bits();
    let column = |seed: u64| random_floats(seed, size as usize).into_iter().map(place).collect::<Vec<u32>>();
    let reads = (0..operands as u64).map(|at| column(20 + at)).collect();
    Case::single(&source, reads, Written::result(size as usize), [groups(size, 256), 1, 1])
}

fn one(f: impl Fn(f32) -> f32 + Sync, read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let (x, r) = (floats(&read[0]), floats_mut(&mut write[0]));
    r.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).for_each(|(r, x)| {
        r.iter_mut().zip(x).for_each(|(r, x)| *r = f(*x));
    });
}

fn two(f: impl Fn(f32, f32) -> f32 + Sync, read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let (x, y, r) = (floats(&read[0]), floats(&read[1]), floats_mut(&mut write[0]));
    r.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).zip(y.par_chunks(CHUNK)).for_each(|((r, x), y)| {
        r.iter_mut().zip(x).zip(y).for_each(|((r, x), y)| *r = f(*x, *y));
    });
}
