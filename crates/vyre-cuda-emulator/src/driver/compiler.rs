//! The compiler that the driver stands for: the engine's, with the mistakes that the faults file asks for, or a program
//! outside that compiles and runs kernels in the engine's place.
//!
//! Not here: what the faults do to PTX (`faults`), and the protocol with the program (`executor`).

use super::context::Context;
use super::module::Options;
use super::{Call, complain, invalid, log};
use crate::engine::{Launch, Program};
use crate::executor::{Compilation, Compiled, Executor, Launched, end_process};
use crate::fault::{Code, Fault};
use crate::faults::{Applied, CompilerFaults};
use crate::memory::Block;
use crate::model::Model;
use crate::ptx;
use std::sync::Arc;

/// The highest level of compilers. CUDA has one more, which means the same.
const OUTSIDE_LEVEL_MAX: u32 = 3;

/// Level 1 and above optimise, and rules are for those unless they say otherwise.
#[derive(Default)]
pub(super) struct Compiler {
    faults: CompilerFaults,
    executor: Option<Executor>,
}

/// What compiling made.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) program: Arc<Program>,
    /// What the program outside made of it, if it covers it.
    pub(super) outside: Option<Compiled>,
}

impl Compiler {
    /// With what the environment names.
    pub(super) fn from_env() -> Call<Compiler> {
        let faults = match std::env::var_os("VYRE_EMULATED_FAULTS").filter(|path| !path.is_empty()) {
            None => CompilerFaults::default(),
            Some(path) => {
                let wrong =
                    |error: &str| invalid(&format!("VYRE_EMULATED_FAULTS: {}: {error}", path.display()));
                let unreadable = "Fix: name a file that can be read, or unset it";
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| wrong(&format!("{error}. {unreadable}")))?;
                CompilerFaults::parse(&text).map_err(|error| wrong(&error))?
            }
        };
        Ok(Compiler { faults, executor: Executor::from_env()? })
    }

    pub(super) fn compile(&self, source: &str, options: &Options, model: &Model) -> Call<Made> {
        let parsed = ptx::parse(source);
        let Ok(mut module) = parsed else {
            // The engine words what is wrong.
            return Program::compile(source, model)
                .map(|program| Made { program: Arc::new(program), outside: None });
        };
        let text = match self.faults.apply(&mut module, model.sm, options.optimization) {
            Applied::Crash(hit) => {
                complain(&format!(
                    "the compiler crashes, as rule \"{}\" says, at line {}",
                    hit.rule, hit.line
                ));
                end_process(libc::SIGSEGV)
            }
            Applied::Refuse(hit, message) => {
                let text = format!("ptxas kernel.ptx, line {}; error   : {message}", hit.line);
                return Err(Fault::new(Code::InvalidPtx, text));
            }
            Applied::Compiled(hits) if hits.is_empty() => source.to_owned(),
            Applied::Compiled(hits) => {
                for hit in hits {
                    log(&format!(
                        "the compiler is wrong, as rule \"{}\" says, at line {}",
                        hit.rule, hit.line
                    ));
                }
                ptx::print(&module)
            }
        };
        let program = Arc::new(Program::of(&module, source, model)?);
        let outside = self.compile_outside(&program, &text, options)?;
        Ok(Made { program, outside })
    }

    fn compile_outside(&self, program: &Program, text: &str, options: &Options) -> Call<Option<Compiled>> {
        let Some(executor) = &self.executor else { return Ok(None) };
        let names: Vec<&str> = program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let level = options.optimization.min(OUTSIDE_LEVEL_MAX);
        let made = executor.compile(text, &names, level);
        // The caller sees a code alone.
        match made.inspect_err(|fault| complain(&fault.message))? {
            Compilation::Compiled(compiled) => Ok(Some(compiled)),
            Compilation::Refused(words) => Err(Fault::new(Code::InvalidPtx, words)),
            Compilation::NotCovered(why) => {
                log(&format!("the executor does not cover a program, which is interpreted: {why}"));
                Ok(None)
            }
        }
    }

    /// Runs a launch outside; false where that is not covered, and nothing has happened.
    pub(super) fn launch_outside(
        &self,
        context: &Context,
        launch: &Launch,
        compiled: &Compiled,
    ) -> Call<bool> {
        let Some(executor) = &self.executor else { return Ok(false) };
        // Shared memory and launches of all blocks together are the interpreter's.
        if launch.shared_bytes > 0 || launch.cooperative {
            log(
                "the executor is not given launches with shared memory or of all blocks together: it is interpreted",
            );
            return Ok(false);
        }
        let kernel = &launch.module.program.kernels[launch.kernel];
        let bytes =
            |(start, len): &(u32, u32)| launch.params[*start as usize..(*start + *len) as usize].to_vec();
        let params: Vec<Vec<u8>> = kernel.params.iter().map(bytes).collect();
        let blocks = context.heap.snapshot();
        let image = |block: &Arc<Block>| {
            let mut bytes = vec![0; block.byte_len as usize];
            block.read(0, &mut bytes);
            (block.address, bytes)
        };
        let before: Vec<(u64, Vec<u8>)> = blocks.iter().map(image).collect();
        let mut after = before.clone();
        match executor.launch(compiled, launch.grid, launch.block, &params, &mut after)? {
            Launched::NotCovered(why) => {
                log(&format!("the executor does not cover a launch, which is interpreted: {why}"));
                return Ok(false);
            }
            Launched::Done => {}
        }
        for ((block, (_, before)), (_, after)) in blocks.iter().zip(&before).zip(&after) {
            write_changes(block, before, after);
        }
        Ok(true)
    }
}

/// Writes the bytes that differ, so that others stay unwritten.
fn write_changes(block: &Block, before: &[u8], after: &[u8]) {
    let mut at = 0;
    while at < after.len() {
        let same =
            before[at..].iter().zip(&after[at..]).take_while(|(before, after)| before == after).count();
        let start = at + same;
        let differ =
            before[start..].iter().zip(&after[start..]).take_while(|(before, after)| before != after).count();
        if differ > 0 {
            block.write(start as u64, &after[start..start + differ]);
        }
        at = start + differ.max(usize::from(start >= after.len()));
    }
}
