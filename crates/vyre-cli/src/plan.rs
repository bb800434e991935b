//! The inputs of a run, from the command line or from the file's own directive.

use crate::args::LaunchArgs;
use crate::load::Loaded;
use crate::report::{Failure, Found};
use std::path::{Path, PathBuf};
use vyre::filetest::difference;
use vyre::host::{Kernel, Launch, Missing, Output};
use vyre::ir::Buffer;
use vyre::spec::{Expect, Spec, directives};
use vyre::text::SourceMap;

/// The inputs of a run, from the command line or from the file's first directive.
pub(crate) struct Plan {
    /// By buffer name: what it starts with, and where a file that the SPEC names is looked for.
    inputs: Vec<(String, Spec, PathBuf)>,
    sizes: Vec<(String, u64)>,
    grid: Option<[u32; 3]>,
    /// Where files in the directive's SPECs are found.
    folder: PathBuf,
    /// The results that the directive expects, unless the command line changes the run.
    pub(crate) expect: Option<Expect>,
}

impl Plan {
    pub(crate) fn new(args: &LaunchArgs, loaded: &Loaded) -> Result<Plan, Failure> {
        let mut inputs = Vec::new();
        for input in &args.inputs {
            let (name, spec) = pair("--in", "SPEC", input)?;
            let spec = parse_spec(loaded, &name, spec)?;
            inputs.push((name, spec, PathBuf::new()));
        }
        let mut sizes = Vec::new();
        for size in &args.sizes {
            let (name, count) = pair("--size", "1024", size)?;
            let count = count.parse().map_err(|_| {
                Failure::usage(
                    format!("`{}` is not a number of elements", count.escape_debug()),
                    format!("write a decimal number from 0 to 4294967295: `--size {name}=1024`"),
                )
            })?;
            sizes.push((name, count));
        }
        let mut plan = Plan { inputs, sizes, grid: args.grid, folder: PathBuf::new(), expect: None };
        if !loaded.is_wire {
            plan.take_directive(loaded)?;
        }
        Ok(plan)
    }

    /// Fills in what the file's first directive says and the command line does not.
    fn take_directive(&mut self, loaded: &Loaded) -> Result<(), Failure> {
        let (found, wrong) = directives(&loaded.source);
        if !wrong.is_empty() {
            let map = SourceMap::default();
            let found = |finding| Found::new(finding, &loaded.name, &loaded.source, &map);
            let findings = wrong.iter().map(found).collect();
            return Err(Failure::Findings { file: loaded.name.clone(), findings });
        }
        let Some(run) = found.runs.into_iter().next() else { return Ok(()) };
        let given = self.inputs.iter().map(|(name, ..)| name).chain(self.sizes.iter().map(|(name, _)| name));
        let given: Vec<String> = given.cloned().collect();
        if given.is_empty() {
            // Other sizes want another grid, which is derived unless the command line has one.
            self.expect = self.grid.is_none().then_some(run.expect);
            self.grid = self.grid.or(run.grid);
        }
        self.folder = loaded.folder.clone();
        let inputs = run.inputs.into_iter().filter(|(name, _)| !given.contains(name));
        self.inputs.extend(inputs.map(|(name, spec)| (name, spec, loaded.folder.clone())));
        self.sizes.extend(run.sizes.into_iter().filter(|(name, _)| !given.contains(name)));
        Ok(())
    }

    /// The launch, complete but for its backend.
    pub(crate) fn launch<'k>(&self, args: &LaunchArgs, kernel: &'k Kernel) -> Result<Launch<'k>, Failure> {
        let parts = kernel.program().parts();
        let mut launch = kernel.launch();
        for (name, spec, folder) in &self.inputs {
            // A name that no buffer has is reported by the launch.
            let bytes = match parts.buffers.iter().find(|buffer| *buffer.name == **name) {
                Some(buffer) => spec.bytes_for(buffer, folder)?,
                None => Vec::new(),
            };
            launch = launch.bytes(name, bytes);
        }
        for (name, count) in &self.sizes {
            launch = launch.size(name, *count);
        }
        if let Some(grid) = self.grid {
            launch = launch.grid(grid);
        }
        // What the launch finds wrong with what is given comes before what is missing.
        if let Some(missing) = launch.missing().filter(|_| launch.mistake().is_none()) {
            return Err(missing.error(option_for(missing)).into());
        }
        if let Some(timeout) = args.timeout {
            launch = launch.timeout(timeout);
        }
        Ok(launch)
    }

    /// How the outputs differ from what the directive expects.
    pub(crate) fn differences(&self, kernel: &Kernel, output: &Output) -> Result<Vec<String>, Failure> {
        let Some(Expect::Buffers(expected)) = &self.expect else { return Ok(Vec::new()) };
        let mut differences = Vec::new();
        for (name, spec) in expected {
            let actual = output.bytes(name)?;
            let parts = kernel.program().parts();
            let buffer = parts.buffers.iter().find(|buffer| *buffer.name == **name).expect("it has bytes");
            differences.extend(difference(buffer, &spec.bytes_for(buffer, &self.folder)?, actual));
        }
        Ok(differences)
    }
}

/// The option that gives what is missing.
fn option_for(missing: Missing<'_>) -> String {
    match missing {
        Missing::Input(Buffer { name, ty, .. }) => {
            format!("add `--in '{name}=SPEC'` with elements of type {ty}; `vyre run --help` shows SPECs")
        }
        Missing::Size(Buffer { name, ty, .. }) => {
            format!("add `--size {name}=COUNT`, or `--in '{name}=SPEC'` with elements of type {ty}")
        }
        Missing::Grid(_) => "add `--grid X,Y,Z`, the workgroups along each axis".into(),
    }
}

/// The value of `--in NAME=`. For elements that only lack their brackets the fix has them.
fn parse_spec(loaded: &Loaded, name: &str, text: &str) -> Result<Spec, Failure> {
    let elements = |list: &String| {
        let buffer = loaded.program.parts().buffers.iter().find(|buffer| *buffer.name == *name);
        let spec = Spec::parse(list).ok().filter(|spec| matches!(spec, Spec::List(_)));
        spec.zip(buffer).is_some_and(|(spec, buffer)| spec.bytes_for(buffer, Path::new("")).is_ok())
    };
    Spec::parse(text).map_err(|error| {
        let lists = [format!("[{text}]"), format!("[{text}.0]")];
        match lists.into_iter().find(elements).filter(|_| !text.trim().is_empty()) {
            Some(list) => Failure::usage(error.message, format!("write `--in '{name}={list}'`")),
            None => error.into(),
        }
    })
}

/// `NAME=REST`
pub(crate) fn pair<'a>(option: &str, example: &str, text: &'a str) -> Result<(String, &'a str), Failure> {
    match text.split_once('=') {
        Some(("", rest)) => Err(Failure::usage(
            format!("`{option} {}` names no buffer", text.escape_debug()),
            format!("write `{option} 'NAME={}'`", rest.escape_debug()),
        )),
        Some((name, rest)) => Ok((name.trim_start_matches('@').to_owned(), rest)),
        None => {
            let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !text.is_empty();
            let name = if is_name { text } else { "NAME" };
            Err(Failure::usage(
                format!("`{option} {}` has no `=`", text.escape_debug()),
                format!("write `{option} '{name}={example}'`"),
            ))
        }
    }
}
