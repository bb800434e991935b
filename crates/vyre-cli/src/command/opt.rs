//! `vyre opt`: the optimised program, on request after each pass.

use crate::args::Opt;
use crate::load;
use crate::report::{Failure, OK, RUN, Report};
use serde_json::{Value, json};
use std::path::Path;
use vyre::Program;
use vyre::diagnostic::Place;
use vyre::ir::{FunctionId, Node, ProgramParts, walk};
use vyre::opt::{Pass, optimise_with, range, schedule};
use vyre::text;
use vyre::validate::ValidProgram;

pub(crate) fn run(args: &Opt, report: &Report) -> Result<u8, Failure> {
    let loaded = load::program(&args.file)?;
    let before = loaded.valid()?;
    let chosen = passes(args.passes.as_deref())?;
    let mut steps = Vec::new();
    let after = step_by_step(&before, &chosen, args.dump_passes.as_deref(), &mut steps)?;
    let accesses = ranges(&after);
    report.json(|| {
        json!({
            "program": text::print(after.program()),
            "digest": after.program().digest().to_string(),
            "lines_before": lines(before.parts()),
            "lines_after": lines(after.parts()),
            "passes": steps,
            "accesses": accesses.iter().map(Access::json).collect::<Vec<_>>(),
        })
    });
    if args.ranges {
        report.text(&marked(&text::print(after.program()), &accesses));
    } else {
        report.text(&text::print(after.program()));
    }
    Ok(OK)
}

/// The passes that a list of names asks for; without one, what the optimiser runs.
fn passes(names: Option<&[String]>) -> Result<Vec<Pass>, Failure> {
    let Some(names) = names else { return Ok(schedule()) };
    if let [only] = names
        && matches!(only.trim(), "" | "none")
    {
        return Ok(Vec::new());
    }
    let find = |name: &String| {
        Pass::from_name(name.trim()).ok_or_else(|| {
            let known: Vec<&str> = Pass::ALL.iter().map(|pass| pass.name()).collect();
            Failure::usage(
                format!("there is no pass `{}`", name.escape_debug()),
                format!("choose from: {}; or `none` alone", known.join(", ")),
            )
        })
    };
    names.iter().map(find).collect()
}

/// Runs passes one after the other, and writes the program after each to `folder`.
fn step_by_step(
    program: &ValidProgram,
    passes: &[Pass],
    folder: Option<&Path>,
    steps: &mut Vec<Value>,
) -> Result<ValidProgram, Failure> {
    let mut dump = Dump { folder, number: 0, failure: None };
    dump.write("start", program.program());
    let optimised = optimise_with(program, passes, &mut |pass, program| {
        steps.push(json!({ "pass": pass.name(), "lines": lines(program.parts()) }));
        dump.write(pass.name(), program);
    });
    if let Some(failure) = dump.failure {
        return Err(failure);
    }
    optimised.map_err(|broken| {
        let message = format!("pass `{}` broke the program: {}", broken.pass, broken.message);
        Failure::Message { exit: RUN, message, fix: broken.fix.into() }
    })
}

/// Where the program between two passes goes: `00-start.vyre`, `01-inline.vyre`, ...
struct Dump<'d> {
    folder: Option<&'d Path>,
    number: usize,
    failure: Option<Failure>,
}

impl Dump<'_> {
    fn write(&mut self, pass: &str, program: &Program) {
        let Some(folder) = self.folder.filter(|_| self.failure.is_none()) else { return };
        let path = folder.join(format!("{:02}-{pass}.vyre", self.number));
        self.number += 1;
        let written =
            std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text::print(program)));
        if let Err(error) = written {
            let message = format!("cannot write {}: {error}", path.display());
            self.failure = Some(Failure::io(message, "name a folder you may write to"));
        }
    }
}

fn lines(parts: &ProgramParts) -> usize {
    let mut lines = 0;
    for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
        walk(&body.block, |_, _, _| lines += 1);
    }
    lines
}

/// A line that accesses memory.
struct Access {
    /// Its line in the printed program.
    line: u32,
    text: String,
    proven: bool,
}

impl Access {
    fn json(&self) -> Value {
        let Access { line, text, proven } = self;
        json!({ "line": line, "text": text, "in_bounds": proven })
    }
}

/// A printed program with a mark at every line that accesses memory. The marks are comments, so it stays a program.
fn marked(program: &str, accesses: &[Access]) -> String {
    let mut lines: Vec<String> = program.lines().map(str::to_owned).collect();
    let at = |access: &Access| access.line as usize - 1;
    let width = accesses.iter().map(|access| lines[at(access)].chars().count()).max().unwrap_or(0);
    for access in accesses {
        let mark = if access.proven { "proven in bounds" } else { "checked" };
        let line = &mut lines[at(access)];
        *line = format!("{line:<width$}  // {mark}");
    }
    let proven = accesses.iter().filter(|access| access.proven).count();
    format!("{}\n// {proven} of {} accesses are proven in bounds\n", lines.join("\n"), accesses.len())
}

/// Every line that accesses memory, and whether it is proved to stay in bounds.
fn ranges(program: &ValidProgram) -> Vec<Access> {
    let facts = range::analyse(program);
    let parts = program.parts();
    let (source, map) = text::print_with_map(program.program());
    let source: Vec<&str> = source.lines().collect();
    let mut accesses = Vec::new();
    let functions = (0..).map(FunctionId).zip(&parts.functions);
    let bodies = functions.map(|(id, function)| (Some(id), &function.body));
    for (function, body) in bodies.chain([(None, &parts.body)]) {
        walk(&body.block, |site, _, node| {
            if names_element(node) {
                let line = map.span(Place::Line { function, site }).map_or(1, |span| span.line);
                let text = source[line as usize - 1].trim().to_owned();
                accesses.push(Access { line, text, proven: facts.in_bounds(function, site) });
            }
        });
    }
    accesses
}

/// Whether a line reads or writes elements by their index.
fn names_element(node: &Node) -> bool {
    let mut any = node.local_index().is_some();
    node.for_each_element(|_, _| any = true);
    any
}
