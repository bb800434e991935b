//! Every `.vyre` file of the repository is a test, named by its path.
//!
//! | folder | what is checked |
//! | --- | --- |
//! | `tests/parse`, `tests/validate` | the findings are exactly the `//~ error[CODE]` lines; files in `ok` have none and are valid |
//! | `tests/ops`, `tests/semantics`, `examples` | each `//@ run` gives its bytes under every schedule, and once more optimised |
//! | `tests/opt/PASS` | the passes of the line `//@ opt fold dce` (or `all`) make of the file what `.expected` says, and its runs still give their bytes; `//@ opt bounds` marks the accesses proven in bounds |
//!
//! `UPDATE_EXPECT=1` writes the `.expected` files anew. The usual filters work: `cargo test --test files -- ops/add`.

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use vyre::filetest;
use vyre_foundation::ir::Program;
use vyre_foundation::opt::{Pass, optimise, optimise_with};
use vyre_foundation::text;
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_testkit::repo;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for folder in ["tests/parse", "tests/validate"] {
        trials.extend(trials_in(folder, expected_findings));
    }
    for folder in ["tests/ops", "tests/semantics", "examples"] {
        trials.extend(trials_in(folder, |path| runs(path, &repo::read(path)?)));
    }
    trials.extend(trials_in("tests/opt", pass_result));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials_in(folder: &str, check: fn(&Path) -> Result<(), String>) -> Vec<Trial> {
    let trial = |path: PathBuf| Trial::test(repo::name(&path), move || check(&path).map_err(Failed::from));
    repo::files(folder, "vyre").into_iter().map(trial).collect()
}

/// Tests `source` as if it stood at `path`.
fn cases(path: &Path, source: &str) -> Result<Vec<filetest::Case>, String> {
    let folder = path.parent().unwrap_or(path);
    let cases = filetest::test(&repo::name(path), source, folder);
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| match &case.result {
            filetest::CaseResult::Passed => None,
            filetest::CaseResult::Failed(message) => Some(format!("line {}: {message}", case.line)),
        })
        .collect();
    if failed.is_empty() { Ok(cases) } else { Err(failed.join("\n")) }
}

fn expected_findings(path: &Path) -> Result<(), String> {
    let source = repo::read(path)?;
    let cases = cases(path, &source)?;
    let expects_errors = cases.iter().any(|case| case.what == "errors");
    let is_ok = path.parent().is_some_and(|folder| folder.ends_with("ok"));
    let is_validate = repo::name(path).starts_with("tests/validate");
    match (expects_errors, is_ok) {
        (true, true) => Err("a file in `ok` expects errors. Fix: move it one folder up".into()),
        (false, false) if is_validate => {
            Err("no `//~ error[CODE]`. Fix: add one, or move the file into `ok`".into())
        }
        _ => Ok(()),
    }
}

fn runs(path: &Path, source: &str) -> Result<(), String> {
    let cases = cases(path, source)?;
    let has_runs = cases.iter().any(|case| case.what == "run");
    if has_runs { Ok(()) } else { Err("no `//@ run` line. Fix: say what the program gives".into()) }
}

fn valid(path: &Path) -> Result<ValidProgram, String> {
    let parsed = text::parse(&repo::read(path)?).map_err(|findings| format!("{findings:?}"))?;
    validate(&parsed.program).map_err(|findings| format!("{findings:?}"))
}

/// The `//@ run` lines of a file over another program: they must give the same. Races are left out, because a program
/// that is rewritten may race elsewhere or not at all.
fn with_runs(source: &str, program: &Program) -> Option<String> {
    let mut kept: Vec<&str> = Vec::new();
    let mut keeps = false;
    for line in source.lines().map(str::trim_start).filter(|line| line.starts_with("//@")) {
        keeps = if line.starts_with("//@+") {
            keeps
        } else {
            line.starts_with("//@ run") && !line.ends_with("=> race")
        };
        if keeps {
            kept.push(line);
        }
    }
    (!kept.is_empty()).then(|| format!("{}\n{}", kept.join("\n"), text::print(program)))
}

/// Checks the runs of the file at `path` over another program, if it has some.
fn same_runs(path: &Path, program: &Program) -> Result<(), String> {
    match with_runs(&repo::read(path)?, program) {
        Some(source) => runs(path, &source).map_err(|message| format!("{message}\n{source}")),
        None => Ok(()),
    }
}

/// Runs the passes of the file's `//@ opt` line and compares what is printed.
fn pass_result(path: &Path) -> Result<(), String> {
    let source = repo::read(path)?;
    let line = source.lines().find_map(|line| line.trim().strip_prefix("//@ opt "));
    let names = line.ok_or("no `//@ opt PASS...`. Fix: name the passes to run, `all` or `bounds`")?.trim();
    let before = valid(path)?;
    let after = match names {
        "bounds" => {
            let marked = filetest::after_passes(&before, &["bounds"])?;
            return repo::expect(&path.with_extension("expected"), &marked);
        }
        "all" => optimise(&before),
        _ => optimise_with(&before, &passes(names)?, &mut |_, _| {}).map_err(|broken| broken.to_string())?,
    };
    repo::expect(&path.with_extension("expected"), &text::print(after.program()))?;
    same_runs(path, before.program()).map_err(|message| format!("before the passes: {message}"))?;
    same_runs(path, after.program()).map_err(|message| format!("after the passes: {message}"))
}

fn passes(names: &str) -> Result<Vec<Pass>, String> {
    let pass = |name: &str| Pass::from_name(name).ok_or(format!("no pass is named `{name}`"));
    names.split_whitespace().map(pass).collect()
}
