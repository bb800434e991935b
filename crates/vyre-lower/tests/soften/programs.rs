//! Whole programs.

use crate::{cases_or, check, outcome, softened};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::limits::FUNCTIONS_MAX;
use vyre_foundation::opt::optimise;
use vyre_foundation::text;
use vyre_foundation::validate::validate;
use vyre_generate::{Config, edge, seeded};
use vyre_lower::soften::soften;

#[test]
fn generated_programs_keep_their_bytes() {
    for seed in 0..cases_or(300) {
        let config = Config { traps: seed % 4 == 0, ..Config::default() };
        let case = seeded(seed, &config);
        check(&case.valid().expect("generated programs are valid"), case.grid, &case.buffers);
    }
}

#[test]
fn optimised_programs_keep_their_bytes_before_and_after() {
    for seed in 0..cases_or(300) / 10 {
        let case = seeded(seed, &Config::default());
        let program = case.valid().expect("generated programs are valid");
        let expected = outcome(&program, case.grid, &case.buffers);
        for (what, soft) in
            [("before", softened(&optimise(&program))), ("after", optimise(&softened(&program)))]
        {
            let actual = outcome(&soft, case.grid, &case.buffers);
            assert!(expected == actual, "optimised {what}:\n{}", text::print(program.program()));
        }
    }
}

/// Programs that say one thing each, run on elements rich in edge values.
const PROGRAMS: &[&str] = &[
    // A NaN's payload survives registers and workgroup memory and ends in a storage store.
    "program @nan_payload workgroup(4, 1, 1) {
       buffer @x : read       f32[64] binding 0
       buffer @y : read_write f32[64] binding 1 output
       buffer @w : workgroup  f32[4]
       %i = local_id x
       for %at in %i..64 step 4 {
         %v = load.f32 @x[%at]
         store.f32 @w[%i], %v
         %t = load.f32 @w[%i]
         store.f32 @y[%at], %t
       }
     }",
    "program @bitcasts workgroup(64, 1, 1) {
       buffer @x : read       u32[64] binding 0
       buffer @y : read_write u32[64] binding 1 output
       %i = local_id x
       %v = load.u32 @x[%i]
       %f = bitcast.f32 %v
       %s = bitcast.i32 %f
       %a = cast.u32 %s
       %h = bitcast.f16 %v
       %b = bitcast.u32 %h
       %r = xor.u32 %a, %b
       store.u32 @y[%i], %r
     }",
    // A cast to the same type leaves its operand in place.
    "program @same_type workgroup(64, 1, 1) {
       buffer @x : read_write bf16[64] binding 0 output
       %i = local_id x
       %v = load.bf16 @x[%i]
       %w = neg.bf16 %v
       %a = cast.bf16 %w
       %k = cast.bf16 2.5bf16
       %r = fma.bf16 %a, %w, %k
       store.bf16 @x[%i], %r
     }",
    // Two to a word, an odd number of them, and indices past the end.
    "program @half_arrays workgroup(64, 1, 1) {
       buffer @x : read       f16[64] binding 0
       buffer @y : read_write f16[64] binding 1 output
       %i = local_id x
       %v = load.f16 @x[%i]
       var $a : f16[5] = 1.5
       %k = rem.u32 %i, 9
       set.f16 $a[%k], %v
       %n = add.u32 %k, 1
       %p = get.f16 $a[%n]
       %q = get.f16 $a[%k]
       %z = get.f16 $a[4]
       %s = add.f16 %p, %q
       %t = sub.f16 %s, %z
       store.f16 @y[%i], %t
     }",
    "program @copies_of_one_rank workgroup(3, 2, 1) {
       buffer @x : read       f64[19] binding 0
       buffer @y : read_write f64[17] binding 1 output
       buffer @h : read       bf16[9] binding 2
       buffer @z : read_write bf16[11] binding 3 output
       all_reduce.f64 add, @y, @x
       broadcast.bf16 @z, @h, 1
       %i = global_id x
       %v = load.f64 @y[%i]
       %u = neg.f64 %v
       store.f64 @y[%i], %u
     }",
    "program @scans workgroup(64, 1, 1) subgroup(16) {
       buffer @x : read       f32[64] binding 0
       buffer @y : read_write f32[64] binding 1 output
       buffer @z : read_write f32[64] binding 2 output
       %i = local_id x
       %v = load.f32 @x[%i]
       %a = subgroup_inclusive_add.f32 %v
       %b = subgroup_exclusive_min.f32 %v
       %c = subgroup_reduce_mul.f32 %v
       %d = subgroup_exclusive_add.f32 %v
       %m = max.f32 %a, %b
       store.f32 @y[%i], %m
       %n = clamp.f32 %c, -4.0, %d
       store.f32 @z[%i], %n
     }",
    "program @one_lane_scans workgroup(4, 1, 1) subgroup(1) {
       buffer @x : read       f32[64] binding 0
       buffer @y : read_write f32[64] binding 1 output
       %i = local_id x
       %v = load.f32 @x[%i]
       %a = subgroup_reduce_add.f32 %v
       %b = subgroup_exclusive_mul.f32 %v
       %c = add.f32 %a, %b
       store.f32 @y[%i], %c
     }",
    // Names of the library are the program's own here, and its functions call each other.
    "program @names workgroup(64, 1, 1) {
       buffer @soft.add.f32 : read       f32[64] binding 0
       buffer @y            : read_write f32[64] binding 1 output
       const  @k            : f32[2] = [0.1, -2.5]
       fn @soft.mul.f32(%a : f32, %b : f32) -> f32 {
         %r = add.f32 %a, %b
         return %r
       }
       fn @soft.pack.f32(%a : f32) -> f32 {
         %k = load.f32 @k[1]
         %s = call @soft.mul.f32(%a, 1.25)
         %r = mul.f32 %s, %k
         return %r
       }
       %i = local_id x
       %v = load.f32 @soft.add.f32[%i]
       %r = call @soft.pack.f32(%v)
       store.f32 @y[%i], %r
     }",
    // Which trap comes first follows from the order of the lines, functions counted where they are called.
    "program @traps workgroup(64, 1, 1) {
       buffer @x : read       f32[64] binding 0
       buffer @y : read_write f32[64] binding 1 output
       fn @late(%v : f32) -> f32 {
         %big = gt.f32 %v, 1.0
         if %big {
           trap 7
         }
         %r = sqrt.f32 %v
         return %r
       }
       %i = local_id x
       %v = load.f32 @x[%i]
       %a = call @late(%v)
       %n = is_nan.f32 %a
       if %n {
         trap 9
       }
       store.f32 @y[%i], %a
     }",
];

#[test]
fn single_facts_hold() {
    for source in PROGRAMS {
        let parsed = text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}\n{source}"));
        let program = validate(&parsed.program).unwrap_or_else(|findings| panic!("{findings:?}\n{source}"));
        let parts = program.parts();
        for seed in 0..20 {
            let contents = bound_buffers(parts).into_iter().map(|id| {
                let buffer = parts.buffer(id);
                edge::data(buffer.ty, buffer.len.expect("a length") as usize, seed + u64::from(id.0))
            });
            check(&program, Some([1, 1, 1]), &contents.collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_passes_a_limit_is_refused() {
    let functions: String = (0..FUNCTIONS_MAX).map(|at| format!("  fn @f{at}() {{\n  }}\n")).collect();
    let source = format!("program @full workgroup(1, 1, 1) {{\n{functions}  %a = add.f32 1.0, 2.0\n}}");
    let program = validate(&text::parse(&source).unwrap().program).unwrap();
    let error = soften(&program).unwrap_err().to_string();
    assert!(error.contains("4098 functions") && error.contains("\n  Fix: "), "{error}");
}
