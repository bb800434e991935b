//! NVIDIA's own assembler, `ptxas`, takes the PTX of every program for every device that it knows, without a warning.
//!
//! Parsing checks versions, instructions, types and operands, and takes milliseconds, so all programs are parsed for all
//! targets, with and without the cancel word. Machine code takes much longer, so it is made of a sample, which differs from
//! target to target. Each target is left to the newest release that has it.
//!
//! `VYRE_CASES` sets the number of generated programs; with it the sample is half of all, and every release gets every target
//! that it has. `VYRE_PTXAS` names the folder that `scripts/install-ptxas` fills; without it the tests say SKIP.
//!
//! Not here: what the kernels compute, which is tested where there is a device.

mod common;

use common::{example_files, files, parsed};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use vyre_algorithms::{Fold, Plan, Scan, Shape};
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_generate::{Config, seeded};
use vyre_lower::ptx::{Module, Options, lower};

/// One release of `ptxas`.
struct Assembler {
    path: PathBuf,
    /// The architectures that it knows, from 70 on.
    targets: Vec<u32>,
}

impl Assembler {
    fn open(path: PathBuf) -> Assembler {
        let help = Command::new(&path).arg("--help").output();
        let help = help.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = String::from_utf8_lossy(&help.stdout);
        let names = text.split('\'').filter_map(|name| name.strip_prefix("sm_"));
        let mut targets: Vec<u32> =
            names.filter_map(|name| name.parse().ok()).filter(|sm| *sm >= 70).collect();
        targets.sort_unstable();
        targets.dedup();
        assert!(targets.len() > 3, "{} --help lists {targets:?}", path.display());
        Assembler { path, targets }
    }

    /// What it prints of a text; `Err` if it refuses it.
    fn assemble(&self, text: &str, options: &[&str]) -> Result<String, String> {
        let mut child = Command::new(&self.path)
            .args(options)
            .args(["--output-file", "/dev/null", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it ran before");
        // A refusal may come before it has read everything.
        let _ = child.stdin.take().expect("piped").write_all(text.as_bytes());
        let ran = child.wait_with_output().expect("it ends");
        let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
        if ran.status.success() { Ok(printed) } else { Err(format!("{}\n{printed}", ran.status)) }
    }
}

/// The releases in the folder that `VYRE_PTXAS` names; none, and a line that says so, without it.
fn assemblers(test: &str) -> Vec<Assembler> {
    let Some(folder) = std::env::var_os("VYRE_PTXAS") else {
        eprintln!("SKIP {test}: VYRE_PTXAS names no folder with `ptxas`");
        return Vec::new();
    };
    let folder = PathBuf::from(folder);
    RELEASES.iter().map(|release| Assembler::open(folder.join(release).join("ptxas"))).collect()
}

/// The folders of `scripts/install-ptxas`: CUDA 12 still has the targets that 13 dropped.
const RELEASES: [&str; 2] = ["12", "13"];

#[derive(Clone)]
struct Case {
    name: String,
    program: ValidProgram,
}

impl Case {
    fn lower(&self, options: &Options) -> Module {
        lower(&self.program, options).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// The examples, the programs of the suite and of the library, and generated ones.
fn cases(generated: u64) -> Vec<Case> {
    let mut cases: Vec<Case> = example_files().map(|(name, program)| Case { name, program }).collect();
    cases.extend(files("crates/vyre-conform/programs").iter().map(|path| Case::read(path)));
    cases.extend(library());
    cases.extend((0..generated).map(|seed| {
        let config = Config { traps: seed % 4 == 0, math: seed % 8 == 1, ..Config::default() };
        let program = seeded(seed, &config).valid().expect("generated programs are valid");
        Case { name: format!("seed {seed}"), program }
    }));
    cases
}

impl Case {
    fn read(path: &Path) -> Case {
        let program = parsed(&std::fs::read_to_string(path).expect("readable"));
        Case { name: path.display().to_string(), program }
    }
}

/// The library's kernels, some of them on tensor cores of both kinds.
fn library() -> impl Iterator<Item = Case> {
    let whole = Shape { m: 256, n: 256, k: 256 };
    let plans = [
        Plan::reduce::<f32>(Fold::Add, 1 << 20),
        Plan::scan::<u32>(Scan::Inclusive, 1 << 20),
        Plan::sort(1 << 20, true),
        Plan::histogram(1 << 20),
        Plan::matmul(whole),
        Plan::matmul_i8(Shape { m: 1024, n: 1024, ..whole }),
        Plan::matmul_i8(Shape { k: 7, ..whole }),
        Plan::sha256(3, 5),
    ];
    let programs = plans.into_iter().flat_map(|plan| plan.expect("its size is fine").programs);
    programs.map(|program| Case {
        name: format!("@{}", program.name()),
        program: validate(&program).expect("it is valid"),
    })
}

/// Cases that one run of an assembler takes as one module.
struct Job<'a> {
    assembler: &'a Assembler,
    sm: u32,
    /// Whether machine code is made. Else the text is parsed and checked, which is all that a virtual architecture allows.
    is_compiled: bool,
    cases: Vec<&'a Case>,
}

impl Job<'_> {
    /// Assembles all cases, with and without the cancel word. Returns how many modules that were, or what the assembler
    /// prints of the first that it does not take.
    fn run(&self) -> Result<usize, String> {
        for poll in [false, true] {
            // Modules of one header can be merged: tensor cores may need another.
            let mut groups: BTreeMap<String, Vec<(&Case, Module)>> = BTreeMap::new();
            for case in &self.cases {
                let module = case.lower(&Options { sm: self.sm, poll });
                groups.entry(split(&module).0).or_default().push((case, module));
            }
            for group in groups.values() {
                self.assemble(group).map_err(|found| format!("{found}\nsm_{}, poll: {poll}", self.sm))?;
            }
        }
        Ok(2 * self.cases.len())
    }

    fn assemble(&self, group: &[(&Case, Module)]) -> Result<(), String> {
        let modules = group.iter().map(|(_, module)| module);
        let Some(printed) = self.printed(&merged(modules)) else { return Ok(()) };
        // Each alone, to name it.
        for (case, module) in group {
            if let Some(printed) = self.printed(&module.source) {
                return Err(format!("{}: {printed}", case.name));
            }
        }
        let names: Vec<&str> = group.iter().map(|(case, _)| &*case.name).collect();
        Err(format!("{} as one module: {printed}", names.join(", ")))
    }

    /// What the assembler prints of a text, be it an error or a warning.
    fn printed(&self, text: &str) -> Option<String> {
        // Not every release parses the virtual architecture with `wgmma`, so code is made of the few programs that have it.
        let kind = match text.contains(".target sm_90a\n") {
            true => "sm_90a".to_owned(),
            false if self.is_compiled => format!("sm_{}", self.sm),
            false => format!("compute_{}", self.sm),
        };
        let printed = self.assembler.assemble(text, &["--gpu-name", &kind]).unwrap_or_else(|printed| printed);
        (!printed.is_empty()).then_some(printed)
    }
}

/// The lines that every module begins with, without the program's name, and the rest.
fn split(module: &Module) -> (String, &str) {
    let last = ".address_size 64\n";
    let at = module.source.find(last).expect("every module has it") + last.len();
    let (header, body) = module.source.split_at(at);
    (header.split_once('\n').expect("it has lines").1.to_owned(), body)
}

/// Several modules of one header as one: kernels, tables and shared memory get the module's number.
fn merged<'a>(modules: impl Iterator<Item = &'a Module>) -> String {
    let mut text = String::new();
    for (at, module) in modules.enumerate() {
        let (header, body) = split(module);
        if at == 0 {
            text.push_str(&header);
        }
        let body = body.replace(module.entry, &format!("kernel{at}"));
        let body = body.replace("table", &format!("table{at}_"));
        text.push_str(&body.replace(" shared", &format!(" shared{at}_")));
    }
    text
}

/// How much is assembled.
struct Extent {
    generated: u64,
    /// One of so many programs is compiled.
    share: usize,
    /// Whether a release leaves out targets that a newer one has.
    is_newest_only: bool,
}

impl Extent {
    fn from_env() -> Extent {
        match std::env::var("VYRE_CASES").ok().and_then(|count| count.parse().ok()) {
            Some(generated) => Extent { generated, share: 2, is_newest_only: false },
            None => Extent { generated: 300, share: 8, is_newest_only: true },
        }
    }
}

fn jobs<'a>(assemblers: &'a [Assembler], cases: &'a [Case], extent: &Extent) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for (at, assembler) in assemblers.iter().enumerate() {
        for (turn, sm) in assembler.targets.iter().enumerate() {
            if extent.is_newest_only && assemblers[at + 1..].iter().any(|newer| newer.targets.contains(sm)) {
                continue;
            }
            let all: Vec<&Case> = cases.iter().collect();
            let sample = cases.iter().skip(turn % extent.share).step_by(extent.share).collect();
            for (is_compiled, cases) in [(false, all), (true, sample)] {
                let chunks = cases.chunks(if is_compiled { 8 } else { 64 });
                let job = |cases: &[&'a Case]| Job { assembler, sm: *sm, is_compiled, cases: cases.to_vec() };
                jobs.extend(chunks.map(job));
            }
        }
    }
    jobs
}

/// Runs the jobs on all cores. Returns how many modules were parsed and how many compiled.
fn run(jobs: &[Job<'_>]) -> Result<[usize; 2], String> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<[usize; 2], String> {
        let mut counts = [0, 0];
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            // After a failure the other workers find no more jobs.
            let modules = job.run().inspect_err(|_| next.store(jobs.len(), Ordering::Relaxed))?;
            counts[usize::from(job.is_compiled)] += modules;
        }
        Ok(counts)
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        let mut sum = [0, 0];
        for worker in workers {
            let counts = worker.join().expect("it does not panic")?;
            sum = [sum[0] + counts[0], sum[1] + counts[1]];
        }
        Ok(sum)
    })
}

#[test]
fn every_program_assembles_for_every_device() {
    let assemblers = assemblers("PTX by `ptxas`");
    if assemblers.is_empty() {
        return;
    }
    let start = Instant::now();
    let extent = Extent::from_env();
    let cases = cases(extent.generated);
    let jobs = jobs(&assemblers, &cases, &extent);
    let targets: BTreeSet<u32> = jobs.iter().map(|job| job.sm).collect();
    let counts = run(&jobs).unwrap_or_else(|found| panic!("{found}"));
    let (programs, time) = (cases.len(), start.elapsed().as_secs_f64());
    eprintln!(
        "{programs} programs for {targets:?}: {} modules parsed, {} compiled, {time:.1} s",
        counts[0], counts[1]
    );
}

#[test]
fn a_refused_module_is_named_with_what_the_assembler_prints() {
    let assemblers = assemblers("faulty PTX by `ptxas`");
    let Some(newest) = assemblers.last() else { return };
    let cases = cases(0);
    for is_compiled in [false, true] {
        let job = Job { assembler: newest, sm: 90, is_compiled, cases: Vec::new() };
        let lowered = cases[..3].iter().map(|case| (case, case.lower(&Options { sm: 90, poll: false })));
        let mut group: Vec<_> = lowered.collect();
        assert_eq!(job.assemble(&group), Ok(()));
        let module = &mut group[1].1;
        module.source = module.source.replacen("mov.u32 %r", "mov.u32 %missing", 1);
        let found = job.assemble(&group).expect_err("a register is not declared");
        assert!(found.starts_with(&cases[1].name) && found.contains("Unknown symbol '%missing"), "{found}");
    }
}

/// The library's kernels keep all values in registers.
#[test]
fn the_librarys_kernels_do_not_spill() {
    let assemblers = assemblers("spills by `ptxas`");
    let Some(newest) = assemblers.last() else { return };
    for (case, sm) in library().flat_map(|case| [(case.clone(), 80), (case, 90)]) {
        let module = case.lower(&Options { sm, poll: false });
        let target = module.source.lines().find_map(|line| line.strip_prefix(".target "));
        let options = ["--verbose", "--gpu-name", target.expect("every module has one")];
        let printed = newest.assemble(&module.source, &options);
        let printed = printed.unwrap_or_else(|printed| panic!("{}: {printed}", case.name));
        assert!(printed.contains(" 0 bytes spill stores"), "{} for sm_{sm}: {printed}", case.name);
    }
}
