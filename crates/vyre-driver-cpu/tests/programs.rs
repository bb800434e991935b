//! Whole programs, compared with the reference: those of the file tests and examples, and generated ones.
//!
//! `VYRE_CASES` and `VYRE_SEED` say how many generated programs run and where they start. `VYRE_SECONDS` says how long instead:
//! `VYRE_SECONDS=1800 cargo test --release -p vyre-driver-cpu --test programs generated -- --nocapture` gives each of three
//! emitters ten minutes, and says now and then how far it is.
#![allow(clippy::print_stdout)] // Progress.

use std::time::Instant;
use vyre_driver::VyreBackend;
use vyre_driver_cpu::{CpuBackend, CpuConfig, Emitter};
use vyre_foundation::text;
use vyre_generate::{Case, Config};
use vyre_testkit::files::{self, agrees};
use vyre_testkit::{compare, dense, property};

/// The emitters that this host has, with a number of vectors in flight; 0 leaves that to the backend.
fn backends(vectors: u32) -> Vec<(Emitter, CpuBackend)> {
    let open = |emitter| match vyre_driver_cpu::open(&CpuConfig { emitter, vectors, threads: 2 }) {
        Ok(backend) => Some((emitter, backend)),
        Err(error) if emitter != Emitter::Portable => {
            eprintln!("SKIP {emitter:?}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    };
    [Emitter::Portable, Emitter::Avx2, Emitter::Avx512].into_iter().filter_map(open).collect()
}

#[test]
fn files_give_the_references_bytes() {
    let backends: Vec<_> = [0, 1].into_iter().flat_map(backends).collect();
    let backends: Vec<_> = backends
        .iter()
        .map(|(emitter, backend)| (format!("{emitter:?}"), backend as &dyn VyreBackend))
        .collect();
    let ran = files::check(&["tests", "examples", "crates/vyre-lower/tests"], &backends);
    assert!(ran > 100, "{ran} runs");
}

#[test]
fn generated_programs_give_the_references_bytes() {
    // Programs with values of 64 bits have half as many lanes in a vector, so both widths come up.
    let backends = [0, 1, 2, 4].map(backends);
    let config = Config::default();
    let traps = Config { traps: true, ..Config::default() };
    let seconds: Option<u64> = std::env::var("VYRE_SECONDS").ok().and_then(|text| text.parse().ok());
    let (start, mut told) = (Instant::now(), 0);
    for (done, seed) in property::cases(if seconds.is_some() { u64::MAX } else { 300 }).enumerate() {
        if let Some(seconds) = seconds {
            let passed = start.elapsed().as_secs();
            if passed >= told {
                println!(
                    "{passed} of {seconds} s: {done} programs, each on {} emitters, without a difference",
                    backends[0].len()
                );
                told = passed + 10;
            }
            if passed >= seconds {
                break;
            }
        }
        let case = vyre_generate::seeded(seed, if seed % 7 == 0 { &traps } else { &config });
        let expected = compare::expected(&case).unwrap_or_else(|message| panic!("seed {seed}: {message}"));
        for (emitter, backend) in &backends[(seed % 4) as usize] {
            if let Err(message) = agrees(backend, &case, &expected) {
                panic!("seed {seed} by {emitter:?}: {message}\n{}", compare::show(&case));
            }
        }
    }
}

#[test]
fn dense_control_flow_gives_the_references_bytes() {
    let backends: Vec<_> = [0, 1].into_iter().flat_map(backends).collect();
    let agree = |case: &Case| {
        let expected = compare::expected(case)?;
        backends.iter().try_for_each(|(emitter, backend)| {
            agrees(backend, case, &expected).map_err(|message| format!("{emitter:?}: {message}"))
        })
    };
    property::check(200, |source| dense::case(source, false), agree, compare::show);
}

/// More values are alive at once than any stack frame or allocator likes, so emitters have other ways for such programs.
#[test]
fn a_large_program_gives_the_references_bytes() {
    const VALUES: usize = 1200;
    let mut source = "program @large workgroup(64, 1, 1) {
        buffer @x : read u32[] binding 0
        buffer @y : read_write u32[] binding 1 output
        %g = global_id x
        %s0 = add.u32 %g, 1\n"
        .to_owned();
    for k in 0..VALUES {
        source += &format!("%i{k} = add.u32 %g, {k}\n%v{k} = load.u32 @x[%i{k}]\n");
    }
    for k in 0..VALUES {
        source += &format!("%m{k} = mul.u32 %s{k}, 3\n%s{} = xor.u32 %m{k}, %v{}\n", k + 1, VALUES - 1 - k);
    }
    source += &format!("store.u32 @y[%g], %s{VALUES}\n}}");
    let program = text::parse(&source).unwrap_or_else(|findings| panic!("{}", findings[0])).program;
    let words = |count: u32| (0..count).flat_map(|k| k.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let case = Case { program, grid: Some([2, 1, 1]), buffers: vec![words(700), words(100)] };
    let expected = compare::expected(&case).expect("the reference runs it");
    for (emitter, backend) in backends(0) {
        agrees(&backend, &case, &expected).unwrap_or_else(|message| panic!("{emitter:?}: {message}"));
    }
}
