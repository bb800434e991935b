//! Runs a program file as the test it is.
//!
//! Each `//@ run` directive runs on the reference under every schedule of [`SCHEDULES`], once with the checks on, and
//! once more when optimised: the outputs must be the expected bytes each time and no lanes may race. `//~ error[CODE]`
//! expectations must be the findings of parser and validator, all of them and on their lines. `//@ opt` compares what
//! passes make of the program with the `.expected` file beside it. A file without any of these must be a valid program.
//! Not here: finding files and printing results. The command and the test kit do that.

use crate::host::{Error, ErrorKind, Kernel, Missing, Output, word};
use crate::show::Source;
use crate::spec::{Directives, Expect, ExpectedError, Opt, Run, Spec, directives};
use std::path::Path;
use std::time::Duration;
use vyre_foundation::diagnostic::{Diagnostic, Place};
use vyre_foundation::ir::{Buffer, Literal, walk};
use vyre_foundation::opt::{Pass, optimise_with, range, schedule};
use vyre_foundation::text::{self, SourceMap};
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_reference::{FindingKind, Schedule};

/// The schedules that a race-free program gives the same bytes under.
pub const SCHEDULES: [Schedule; 3] = [Schedule::Forward, Schedule::Reverse, Schedule::Shuffle(1)];

/// How long a run of a file test may take.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// One thing a file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its line.
    pub line: u32,
    /// What is tested: `run`, `opt`, `errors` or `check`; `directive` if that cannot be read.
    pub what: &'static str,
    /// How it went.
    pub result: CaseResult,
}

/// How a case went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseResult {
    /// As the file says.
    Passed,
    /// Otherwise, and how.
    Failed(String),
}

impl Case {
    fn new(line: u32, what: &'static str, result: Result<(), String>) -> Case {
        let result = match result {
            Ok(()) => CaseResult::Passed,
            Err(message) => CaseResult::Failed(message),
        };
        Case { line, what, result }
    }

    /// Whether it went as the file says.
    pub fn passed(&self) -> bool {
        self.result == CaseResult::Passed
    }
}

/// Tests a file. `name` is shown in messages, and files in SPECs are found from `folder`.
///
/// ```
/// let source = "//@ run => y=[1]\nprogram @one workgroup(1, 1, 1) {\n  buffer @y : read_write u32[1] binding 0 output\n\n  store.u32 @y[0], 1\n}\n";
/// let cases = vyre::filetest::test("one.vyre", source, ".".as_ref());
/// assert!(cases.len() == 1 && cases[0].passed(), "{cases:?}");
/// ```
pub fn test(name: &str, source: &str, folder: &Path) -> Vec<Case> {
    let file = File { name, text: source, folder };
    let (found, wrong) = directives(source);
    let mut cases: Vec<Case> = wrong.iter().map(|finding| file.unreadable(finding)).collect();
    if !found.errors.is_empty() {
        cases.push(file.errors(&found));
        return cases;
    }
    match file.program() {
        Err(message) => cases.push(Case::new(1, "check", Err(message))),
        Ok((program, map)) => {
            let kernel = Kernel::from_valid(program);
            let opts = found.opts.iter().map(|opt| Case::new(opt.line, "opt", file.opt(&kernel, opt)));
            cases.extend(opts);
            let runs = found.runs.iter().map(|run| Case::new(run.line, "run", file.run(&kernel, &map, run)));
            cases.extend(runs);
            if cases.is_empty() {
                cases.push(Case::new(1, "check", Ok(())));
            }
        }
    }
    cases
}

struct File<'f> {
    name: &'f str,
    text: &'f str,
    folder: &'f Path,
}

impl File<'_> {
    fn source<'s>(&'s self, map: &'s SourceMap) -> Source<'s> {
        Source { name: self.name, text: self.text, map }
    }

    fn unreadable(&self, finding: &Diagnostic) -> Case {
        let map = SourceMap::default();
        let source = self.source(&map);
        Case::new(source.line(finding), "directive", Err(source.diagnostic(finding)))
    }

    fn program(&self) -> Result<(ValidProgram, SourceMap), String> {
        let map = SourceMap::default();
        let parsed = text::parse(self.text).map_err(|findings| self.source(&map).diagnostics(&findings))?;
        let program =
            validate(&parsed.program).map_err(|findings| self.source(&parsed.map).diagnostics(&findings))?;
        Ok((program, parsed.map))
    }

    /// Whether the findings are exactly the expected ones.
    fn errors(&self, expected: &Directives) -> Case {
        let (findings, map) = match text::parse(self.text) {
            Err(findings) => (findings, SourceMap::default()),
            Ok(parsed) => (validate(&parsed.program).err().unwrap_or_default(), parsed.map),
        };
        let source = self.source(&map);
        let mut missing = expected.errors.clone();
        let mut complaints = Vec::new();
        for finding in &findings {
            let this = ExpectedError { line: source.line(finding), code: finding.code.to_owned() };
            match missing.iter().position(|error| *error == this) {
                Some(at) => drop(missing.swap_remove(at)),
                None => complaints.push(format!("not expected: {}", source.diagnostic(finding).trim_end())),
            }
        }
        missing.sort();
        for ExpectedError { line, code } in &missing {
            complaints.push(format!("{}:{line}: error[{code}] is expected, and not found", self.name));
        }
        if !expected.runs.is_empty() {
            complaints.push("a file that expects errors has `//@ run` directives, which cannot run".into());
        }
        let result = if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) };
        Case::new(expected.errors[0].line, "errors", result)
    }

    fn run(&self, kernel: &Kernel, map: &SourceMap, run: &Run) -> Result<(), String> {
        let source = self.source(map);
        for (at, schedule) in SCHEDULES.into_iter().enumerate() {
            let result = launch(kernel, run, self.folder, schedule, at == 0);
            self.judge(kernel, source, run, result).map_err(|message| match schedule {
                Schedule::Forward => message,
                other => format!("under schedule {other:?}: {message}"),
            })?;
            if run.expect == Expect::Race {
                // Whatever bytes a racy program gives under another schedule, they are not promised.
                return Ok(());
            }
        }
        let optimised = optimise_with(kernel.program(), &schedule(), &mut |_, _| {})
            .map_err(|broken| broken.to_string())?;
        let result = launch(&Kernel::from_valid(optimised), run, self.folder, Schedule::Forward, false);
        // The optimiser's lines are not the file's, so its traps and findings have no place here.
        let nowhere = SourceMap::default();
        let source = self.source(&nowhere);
        self.judge(kernel, source, run, result).map_err(|message| format!("when optimised: {message}"))
    }

    /// Whether passes make of the program what the `.expected` file says.
    fn opt(&self, kernel: &Kernel, opt: &Opt) -> Result<(), String> {
        let words: Vec<&str> = opt.passes.iter().map(String::as_str).collect();
        let actual = after_passes(kernel.program(), &words)?;
        let stem = Path::new(self.name).with_extension("expected");
        let path = self.folder.join(stem.file_name().unwrap_or_default());
        let expected = std::fs::read_to_string(&path).map_err(|error| {
            format!("cannot read {}: {error}\n  Fix: put what is expected there", path.display())
        })?;
        match expected.lines().zip(actual.lines()).position(|(expected, actual)| expected != actual) {
            None if expected.lines().count() == actual.lines().count() => Ok(()),
            at => {
                let at = at.unwrap_or(expected.lines().count().min(actual.lines().count()));
                let line = |text: &str| text.lines().nth(at).unwrap_or("the end").trim().to_owned();
                let (expected, actual) = (line(&expected), line(&actual));
                Err(format!("line {} of the result is `{actual}`, and `{expected}` is expected", at + 1))
            }
        }
    }

    fn judge(
        &self,
        kernel: &Kernel,
        source: Source<'_>,
        run: &Run,
        result: Result<Output, Error>,
    ) -> Result<(), String> {
        let output = match (&run.expect, result) {
            (Expect::Trap(expected), Err(Error { kind: ErrorKind::Trap { code, .. }, .. })) => {
                return match code == *expected {
                    true => Ok(()),
                    false => Err(format!("trap {expected} is expected, and the run ended with trap {code}")),
                };
            }
            (_, Err(error)) => return Err(source.error(&error)),
            (_, Ok(output)) => output,
        };
        let race = output.findings().iter().find(|finding| finding.kind == FindingKind::Race);
        match (&run.expect, race) {
            (Expect::Trap(code), _) => Err(format!("trap {code} is expected, and the run ended without one")),
            (Expect::Race, Some(_)) => Ok(()),
            (Expect::Race, None) => Err("a race is expected, and none is found".into()),
            (_, Some(race)) => Err(source.finding(race)),
            (Expect::Success, None) => Ok(()),
            (Expect::Buffers(expected), None) => {
                expected.iter().try_for_each(|(name, spec)| self.compare(kernel, &output, name, spec))
            }
        }
    }

    fn compare(&self, kernel: &Kernel, output: &Output, name: &str, spec: &Spec) -> Result<(), String> {
        let actual = output.bytes(name).map_err(|error| error.to_string())?;
        let parts = kernel.program().parts();
        let buffer = parts.buffers.iter().find(|buffer| *buffer.name == *name).expect("it has bytes");
        let expected = spec.bytes_for(buffer, self.folder).map_err(|error| error.to_string())?;
        match difference(buffer, &expected, actual) {
            None => Ok(()),
            Some(difference) => Err(difference),
        }
    }
}

/// The program in text after the passes that a `//@ opt` directive names, in order; `all` means the optimiser's own
/// list. `bounds` changes nothing and marks the lines of the main body that are proved to stay in bounds.
pub fn after_passes(program: &ValidProgram, words: &[&str]) -> Result<String, String> {
    let passes: Vec<Pass> = match words {
        ["bounds"] => return Ok(marked(program)),
        ["all"] => schedule(),
        names => names
            .iter()
            .map(|name| Pass::from_name(name).ok_or_else(|| format!("there is no pass `{name}`")))
            .collect::<Result<_, _>>()?,
    };
    let after = optimise_with(program, &passes, &mut |_, _| {}).map_err(|broken| broken.to_string())?;
    Ok(text::print(after.program()))
}

/// The printed program with a mark at every line that is proved to stay in bounds.
fn marked(program: &ValidProgram) -> String {
    let facts = range::analyse(program);
    let (printed, map) = text::print_with_map(program.program());
    let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
    walk(&program.parts().body.block, |site, _, _| {
        if facts.in_bounds(None, site)
            && let Some(span) = map.span(Place::Line { function: None, site })
        {
            lines[span.line as usize - 1].push_str("  // in bounds");
        }
    });
    lines.join("\n") + "\n"
}

/// The run that a directive describes.
pub fn launch(
    kernel: &Kernel,
    run: &Run,
    folder: &Path,
    schedule: Schedule,
    check: bool,
) -> Result<Output, Error> {
    let parts = kernel.program().parts();
    let mut launch = kernel.launch().backend("reference").schedule(schedule).check(check).timeout(TIMEOUT);
    for (name, spec) in &run.inputs {
        // A name that no buffer has is reported by the launch.
        let bytes = match parts.buffers.iter().find(|buffer| *buffer.name == **name) {
            Some(buffer) => spec.bytes_for(buffer, folder)?,
            None => Vec::new(),
        };
        launch = launch.bytes(name, bytes);
    }
    for (name, count) in &run.sizes {
        launch = launch.size(name, *count);
    }
    if let Some(grid) = run.grid {
        launch = launch.grid(grid);
    }
    match launch.missing().filter(|_| launch.mistake().is_none()) {
        None => launch.run(),
        Some(missing) => Err(missing.error(match missing {
            Missing::Input(Buffer { name, ty, .. }) => {
                format!("add `{name}=SPEC` to the directive, with elements of type {ty}")
            }
            Missing::Size(Buffer { name, ty, .. }) => {
                let count = expected_count(run, name).map_or("COUNT".into(), |count| count.to_string());
                format!("add `size {name}={count}` before `=>`, or `{name}=SPEC` with elements of type {ty}")
            }
            Missing::Grid(_) => "add `grid=(X,Y,Z)` to the directive, the workgroups along each axis".into(),
        })),
    }
}

/// The elements that a run expects of a buffer, where it lists them.
fn expected_count(run: &Run, name: &str) -> Option<usize> {
    let Expect::Buffers(expected) = &run.expect else { return None };
    match expected.iter().find(|(expected, _)| expected == name)? {
        (_, Spec::List(items)) => Some(items.len()),
        (_, Spec::Repeat { .. } | Spec::Hex(_) | Spec::File(_) | Spec::Rand { .. }) => None,
    }
}

/// How a buffer's bytes differ from what is expected, if they do.
pub fn difference(buffer: &Buffer, expected: &[u8], actual: &[u8]) -> Option<String> {
    if expected == actual {
        return None;
    }
    let size = buffer.ty.bytes();
    let (name, ty) = (&buffer.name, buffer.ty);
    if expected.len() != actual.len() {
        let (expected, actual) = (expected.len() / size, actual.len() / size);
        return Some(format!("`@{name}` has {actual} elements, and {expected} are expected"));
    }
    let pairs = expected.chunks(size).zip(actual.chunks(size));
    let wrong: Vec<usize> = pairs.enumerate().filter(|(_, (e, a))| e != a).map(|(at, _)| at).collect();
    let show = |bytes: &[u8], at: usize| {
        text::print_literal(Literal::from_bits(ty, word(&bytes[at * size..(at + 1) * size])))
    };
    let mut lines = format!("`@{name}` differs in {} of {} elements", wrong.len(), actual.len() / size);
    for at in wrong.iter().copied().take(4) {
        lines.push_str(&format!(
            "\n  {name}[{at}] = {}, and {} is expected",
            show(actual, at),
            show(expected, at)
        ));
    }
    Some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_directive_leaves_the_others_running() {
        let source = "//@ run grid=1 => y=[7]\n//@ run => y=[7]\n//@ run size y=1 => y=[7]\n\
            program @p workgroup(1, 1, 1) {\n  buffer @y : read_write u32[] binding 0 output\n\n  store.u32 @y[0], 7\n}\n";
        let cases = test("p.vyre", source, ".".as_ref());
        let failed = |at: usize, text: &str| match &cases[at].result {
            CaseResult::Failed(message) => assert!(message.contains(text), "{message}"),
            CaseResult::Passed => panic!("{text}"),
        };
        assert_eq!(cases.len(), 3);
        failed(0, "write `grid=(1,1,1)`");
        failed(1, "add `size y=1` before `=>`");
        assert!(cases[2].passed(), "{:?}", cases[2]);
    }
}
