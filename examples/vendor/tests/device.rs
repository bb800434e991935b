//! Runs programs on the device and compares every byte with the reference.
//!
//! All file tests and examples, and generated programs; with output memory that starts at zero and with poison in it, with
//! lookup data and without. Compiling takes a software driver most of the time, so programs take turns with these; with
//! `VYRE_CASES` set to a number, that many programs are generated, and each has all of them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vyre::ir::{Node, Program, walk};
use vyre::launch::{admit_buffers, bound_buffers, indirect};
use vyre::spec::{Expect, directives};
use vyre::{text, validate};
use vyre_conform::{Convention, DispatchConfig, OutputInit, VyreBackend};
use vyre_generate::{Config, seeded};
use vyre_lower::convention::{Contents, pack};
use vyre_reference::{FindingKind, Launch, Options, RunError, run};
use vyre_vendor_example::{LOOKUP_BINDING, VendorBackend, VendorRuntime};

/// One program with the contents of its bound buffers; zeros are a count.
struct Case {
    name: String,
    program: Program,
    grid: Option<[u32; 3]>,
    contents: Vec<Result<Vec<u8>, usize>>,
}

/// How many comparisons there were, and what did not take part.
#[derive(Default)]
struct Tally {
    programs: u32,
    dispatches: u32,
    left_out: u32,
    slowest: (Duration, String),
}

const VARIANTS: [(OutputInit, bool); 3] =
    [(OutputInit::Zero, false), (OutputInit::Poison(0xa5), false), (OutputInit::Zero, true)];

/// How many programs to generate, if someone says so.
fn cases() -> Option<u64> {
    std::env::var("VYRE_CASES").ok()?.parse().ok()
}

/// The backend, or `None` with the reason told.
fn backend(test: &str) -> Option<VendorBackend> {
    match VendorRuntime::open() {
        Ok(runtime) => {
            eprintln!("{test} on {}, {}", runtime.device_name(), runtime.driver_name());
            Some(VendorBackend::new(runtime))
        }
        Err(reason) => {
            eprintln!("SKIP {test}: {reason}");
            None
        }
    }
}

/// Outputs by ascending binding, or the code of a trap.
type Answer = Result<Vec<Vec<u8>>, u32>;

/// What the reference gives, and the grid that it launched; `None` if lanes race.
fn expected(case: &Case) -> Option<(Answer, [u32; 3])> {
    let valid = validate::validate(&case.program).expect("valid");
    let parts = case.program.parts();
    let bytes = |contents: &Result<Vec<u8>, usize>| contents.clone().unwrap_or_else(|count| vec![0; count]);
    let buffers: Vec<Vec<u8>> = case.contents.iter().map(bytes).collect();
    let grid = admit_buffers(&valid, case.grid, &buffers).expect("admitted").grid;
    let launch = Launch { grid: indirect(parts).is_none().then_some(grid), buffers };
    let outcome = match run(&valid, launch, &Options { check: true, ..Options::default() }) {
        Err(RunError::Trap { code, .. }) => return Some((Err(code), grid)),
        outcome => outcome.unwrap_or_else(|error| panic!("{}: {error}", case.name)),
    };
    if outcome.findings.iter().any(|finding| finding.kind == FindingKind::Race) {
        return None;
    }
    let outputs = bound_buffers(parts).into_iter().zip(outcome.buffers);
    let outputs = outputs.filter(|(id, _)| parts.buffer(*id).is_output()).map(|(_, bytes)| bytes);
    Some((Ok(outputs.collect()), grid))
}

/// Whether WGSL has a shader for the program on that grid.
fn fits(program: &Program, grid: [u32; 3]) -> bool {
    let mut fits = program.parts().workgroup_lanes() <= 256;
    walk(&program.parts().body.block, |_, _, node| {
        let wide = matches!(node, Node::Atomic { result: None, op, ty, .. }
            if ty.bits() == 64 && (op.info().name.ends_with("min") || op.info().name.ends_with("max")));
        let grid_wide = matches!(
            node,
            Node::Barrier { ordering: vyre::ir::MemoryOrdering::GridSync }
                | Node::AllReduce { .. }
                | Node::AllGather { .. }
                | Node::ReduceScatter { .. }
                | Node::Broadcast { .. }
        );
        fits &= !wide && (!grid_wide || grid == [1, 1, 1]);
    });
    fits
}

fn compare(backend: &VendorBackend, case: &Case, tally: &mut Tally) {
    let Some((expected, grid)) = expected(case) else {
        tally.left_out += 1;
        return;
    };
    if !fits(&case.program, grid) {
        tally.left_out += 1;
        return;
    }
    let parts = case.program.parts();
    let contents: Vec<Contents<'_>> = case
        .contents
        .iter()
        .map(|contents| {
            contents.as_ref().map_or_else(|count| Contents::Zeros(*count), |bytes| Contents::Bytes(bytes))
        })
        .collect();
    let turn = tally.programs as usize % VARIANTS.len();
    let variants = if cases().is_some() { &VARIANTS[..] } else { &VARIANTS[turn..=turn] };
    tally.programs += 1;
    for (output_init, lookup) in variants.iter().copied() {
        let packed = pack(parts, grid, &contents, lookup).expect("packed");
        let convention = match lookup {
            true => Convention::V2 { lookup_binding: LOOKUP_BINDING },
            false => Convention::V1,
        };
        let config = DispatchConfig {
            workgroup_size: parts.workgroup,
            workgroup_count: grid,
            convention,
            lookup_data: packed.lookup,
            output_init,
        };
        let start = Instant::now();
        let output = backend.dispatch_program(
            &case.program.to_bytes(),
            &packed.input,
            packed.layout.output_bytes,
            config,
        );
        if start.elapsed() > tally.slowest.0 {
            tally.slowest = (start.elapsed(), case.name.clone());
        }
        tally.dispatches += 1;
        let context =
            || format!("{}, {output_init:?}, lookup {lookup}\n{}", case.name, text::print(&case.program));
        match (&expected, output) {
            (Err(code), Err(error)) => {
                assert!(error.starts_with(&format!("trap {code}.")), "{error}\n{}", context())
            }
            (Ok(expected), Ok(output)) => {
                for ((id, range), expected) in packed.layout.outputs.iter().zip(expected) {
                    let name = &parts.buffer(*id).name;
                    assert_eq!(output[range.clone()], expected[..], "`@{name}` differs: {}", context());
                }
            }
            (expected, output) => panic!("{expected:?} is expected, and {output:?} came: {}", context()),
        }
    }
}

fn tell(test: &str, tally: &Tally, since: Instant) {
    let Tally { programs, dispatches, left_out, slowest } = tally;
    eprintln!(
        "{test}: {programs} programs, {dispatches} dispatches, 0 differences, {left_out} left out, {:.1} s; slowest {:.2} s, {}",
        since.elapsed().as_secs_f64(),
        slowest.0.as_secs_f64(),
        slowest.1
    );
}

fn files(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(root.join(folder))
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "vyre"))
        .collect();
    paths.sort();
    paths
}

/// The runs of a file that lead to one result.
fn cases_of(path: &Path) -> Vec<Case> {
    let source = std::fs::read_to_string(path).expect("readable");
    let program = text::parse(&source).expect("the file tests parse it").program;
    let folder = path.parent().expect("it lies in one");
    let runs = directives(&source).0.runs.into_iter().filter(|run| run.expect != Expect::Race);
    runs.map(|run| {
        let contents = bound_buffers(program.parts()).into_iter().map(|id| {
            let buffer = program.parts().buffer(id);
            let named = |name: &str| *buffer.name == *name;
            match run.inputs.iter().find(|(name, _)| named(name)) {
                Some((_, spec)) => Ok(spec.bytes_for(buffer, folder).expect("the file tests read it")),
                None => {
                    let size = run.sizes.iter().find(|(name, _)| named(name)).map(|(_, count)| *count);
                    let count = size.or(buffer.len.map(u64::from)).expect("the file tests size it");
                    Err(count as usize * buffer.ty.bytes())
                }
            }
        });
        let name = format!("{}:{}", path.display(), run.line);
        Case { name, grid: run.grid, contents: contents.collect(), program: program.clone() }
    })
    .collect()
}

#[test]
fn files_give_their_bytes() {
    let Some(backend) = backend("files_give_their_bytes") else { return };
    let (mut tally, start) = (Tally::default(), Instant::now());
    for path in ["tests/ops", "tests/semantics", "examples"].into_iter().flat_map(files) {
        cases_of(&path).iter().for_each(|case| compare(&backend, case, &mut tally));
    }
    tell("files_give_their_bytes", &tally, start);
}

#[test]
fn a_long_table_gives_its_elements() {
    let Some(backend) = backend("a_long_table_gives_its_elements") else { return };
    // More than one constant array of WGSL holds, and a last element that shares its word with nothing.
    let elements: Vec<String> =
        (0..5003u32).map(|x| (x.wrapping_mul(40_503) >> 4 & 0xffff).to_string()).collect();
    let source = format!(
        "program @p workgroup(64, 1, 1) {{\n  buffer @y : read_write u32[] binding 0 output\n  \
         const @k : u16[5003] = [{}]\n\n  %i = global_id x\n  %v = load.u16 @k[%i]\n  store.u32 @y[%i], %v\n}}\n",
        elements.join(", ")
    );
    let program = text::parse(&source).expect("it parses").program;
    let case = Case { name: "a long table".into(), program, grid: None, contents: vec![Err(4 * 5056)] };
    compare(&backend, &case, &mut Tally::default());
}

fn generated(test: &str, first_seed: u64, count: u64, config: &Config) {
    let Some(backend) = backend(test) else { return };
    let (mut tally, start) = (Tally::default(), Instant::now());
    for seed in first_seed..first_seed + cases().unwrap_or(count) {
        let case = seeded(seed, config);
        let parts = case.program.parts();
        let filled: Vec<Result<Vec<u8>, usize>> = case.buffers.iter().cloned().map(Ok).collect();
        // Once more with writable buffers that start at zero, which lanes may then launch as they are.
        let zeroed = filled.iter().zip(bound_buffers(parts)).map(|(contents, id)| match contents {
            Ok(bytes) if parts.buffer(id).is_writable() => Err(bytes.len()),
            contents => contents.clone(),
        });
        for (what, contents) in [("zeroed", zeroed.collect()), ("filled", filled)] {
            let (program, name) = (case.program.clone(), format!("seed {seed}, {what}"));
            compare(&backend, &Case { name, program, grid: case.grid, contents }, &mut tally);
        }
    }
    tell(test, &tally, start);
}

/// Small enough for a default device, and without what only one workgroup may do.
fn config() -> Config {
    Config { grid_barriers: false, collectives: false, ..Config::default() }
}

#[test]
fn generated_programs_without_floats_give_their_bytes() {
    let config = Config { floats: false, ..config() };
    generated("generated_programs_without_floats_give_their_bytes", 0, 12, &config);
}

#[test]
fn generated_programs_give_their_bytes() {
    generated("generated_programs_give_their_bytes", 1 << 32, 12, &Config { lines: 24, ..config() });
}

#[test]
fn generated_programs_on_one_workgroup_give_their_bytes_or_trap() {
    let config = Config { workgroups_max: 1, traps: true, floats: false, ..Config::default() };
    generated("generated_programs_on_one_workgroup_give_their_bytes_or_trap", 2 << 32, 12, &config);
}
