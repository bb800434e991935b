//! From PTX to what runs, and running it.
//!
//! | file | what it does |
//! | --- | --- |
//! | `layout` | where variables and parameters are |
//! | `decode`, `forms`, `forms_memory` | from the tree to operations |
//! | `flow` | which registers are checked when they are read, and which share a row |
//! | `code` | the operations |
//! | `launch` | blocks on the host's threads |
//! | `block` | a block's warps, its barriers and its shared memory |
//! | `warp` | the interpreter: lanes that run together or apart |
//! | `access` | loads, stores, atomics and copies, with their checks |
//! | `meeting` | lanes that wait for each other |
//! | `together` | what the lanes of a warp do together |
//! | `races` | which accesses nothing orders |
//! | `schedule` | who runs next |
//!
//! Not here: streams and handles, which are the driver's.

mod access;
mod block;
mod code;
mod decode;
mod flow;
mod forms;
mod forms_memory;
mod launch;
mod layout;
mod meeting;
mod races;
pub(crate) mod schedule;
mod target;
mod together;
mod warp;

pub use launch::Launch;
pub use schedule::{Options, Order, Schedule, watchdog};

use crate::fault::{Code, Fault};
use crate::memory::{Block, Heap};
use crate::model::Model;
use crate::ptx;
use std::sync::Arc;

/// A module that was compiled for a device.
pub struct Program {
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// Its `.global` and `.const` variables: name and size in bytes.
    pub globals: Vec<(String, u64)>,
    layout: layout::Layout,
    /// The text, which faults quote.
    source: String,
}

/// A kernel.
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Offset and size in bytes of each parameter.
    pub params: Vec<(u32, u32)>,
    /// Statically declared shared memory in bytes.
    pub shared_bytes: u32,
    /// Local memory of a thread in bytes.
    pub local_bytes: u32,
    /// Constant memory in bytes.
    pub const_bytes: u32,
    /// 32-bit registers of a thread, as estimated.
    pub registers: u32,
    /// The most threads of a block, by the device and the kernel's directives.
    pub threads_max: u32,
    /// `.reqntid`: the block's exact size.
    pub block: Option<[u32; 3]>,
    code: code::Code,
}

/// What `ptxas` would print.
fn refusal(code: Code, error: &ptx::Error) -> Fault {
    Fault::new(code, format!("ptxas kernel.ptx, line {}; error   : {}", error.line, error.message))
}

impl Program {
    /// Compiles PTX for a device. The error is what `ptxas` would print, with the line's number.
    pub fn compile(source: &str, model: &Model) -> Result<Program, Fault> {
        let module = ptx::parse(source).map_err(|error| refusal(Code::InvalidPtx, &error))?;
        Program::of(&module, source, model)
    }

    /// Compiles a tree; `source` is the text that faults quote.
    pub fn of(module: &ptx::Module, source: &str, model: &Model) -> Result<Program, Fault> {
        let target = target::check(module, model)?;
        let invalid = |error: ptx::Error| refusal(Code::InvalidPtx, &error);
        let layout = layout::Layout::of(module).map_err(invalid)?;
        let mut kernels: Vec<Kernel> = Vec::new();
        for entry in &module.entries {
            if kernels.iter().any(|kernel| kernel.name == entry.name) {
                let message = format!("Duplicate definition of '{}'", entry.name);
                return Err(invalid(ptx::Error { line: entry.line, message }));
            }
            kernels.push(kernel(entry, &layout, target).map_err(invalid)?);
        }
        let globals = layout.globals.iter().map(|global| (global.name.clone(), global.byte_len)).collect();
        Ok(Program { kernels, globals, layout, source: source.to_owned() })
    }

    /// A line of the text, from 1.
    fn line(&self, number: u32) -> &str {
        self.source.lines().nth(number.saturating_sub(1) as usize).unwrap_or_default().trim()
    }
}

fn kernel(
    entry: &ptx::Entry,
    layout: &layout::Layout,
    target: crate::alu::Target,
) -> Result<Kernel, ptx::Error> {
    let wrong = |message: String| ptx::Error { line: entry.line, message };
    let (mut block, mut threads_max, mut registers_max) = (None, 1024, 255);
    for (name, numbers) in &entry.directives {
        let axis = |at: usize| numbers.get(at).copied().unwrap_or(1);
        let product = (0..3).try_fold(1u64, |product, at| product.checked_mul(axis(at)));
        let threads = || match product {
            Some(threads @ 1..=1024) if numbers.len() <= 3 => Ok(threads as u32),
            _ => Err(wrong(format!("'.{name}' asks for more threads than a block has, or for none"))),
        };
        match name.as_str() {
            "reqntid" => {
                threads_max = threads()?;
                block = Some([0, 1, 2].map(|at| axis(at) as u32));
            }
            "maxntid" if block.is_some() || entry.directives.iter().any(|(name, _)| name == "reqntid") => {
                let what = "Conflicting directives: .maxntid and .reqntid cannot both be specified";
                return Err(wrong(what.into()));
            }
            "maxntid" => threads_max = threads()?,
            "maxnreg" => registers_max = axis(0).clamp(16, 255) as u32,
            _ => {}
        }
    }
    let (code, estimate, frame) = decode::decode(entry, layout, target)?.finish();
    // The compiler spills until a block that it knows of fits a multiprocessor.
    let fitting = (65_536 / threads_max.next_multiple_of(32) / 8 * 8).min(255);
    Ok(Kernel {
        name: entry.name.clone(),
        params: frame.params,
        shared_bytes: frame.shared_bytes,
        local_bytes: frame.local_bytes,
        const_bytes: layout
            .globals
            .iter()
            .filter(|global| global.constant)
            .map(|global| global.byte_len as u32)
            .sum(),
        registers: estimate.min(fitting).min(registers_max),
        threads_max,
        block,
        code,
    })
}

/// A program whose variables are in a device's memory.
pub struct Loaded {
    /// What was loaded.
    pub program: Arc<Program>,
    /// The addresses of its variables.
    pub addresses: Vec<u64>,
    blocks: Vec<Arc<Block>>,
    has_constants: bool,
}

impl Loaded {
    /// Puts the variables into the device's memory, with their initial values.
    pub fn new(program: Arc<Program>, heap: &Heap) -> Result<Loaded, Fault> {
        let mut blocks = Vec::new();
        for global in &program.layout.globals {
            let block = heap.allocate(global.byte_len.max(1))?;
            block.mark_zeroed();
            block.write(0, &global.bytes);
            blocks.push(block);
        }
        let addresses: Vec<u64> = blocks.iter().map(|block| block.address).collect();
        for (global, block) in program.layout.globals.iter().zip(&blocks) {
            for (at, name, offset) in &global.links {
                let other = program.layout.globals.iter().position(|other| other.name == *name);
                let Some(other) = other else {
                    return Err(Fault::new(Code::InvalidPtx, format!("unresolved symbol '{name}'")));
                };
                let address = addresses[other].wrapping_add_signed(*offset);
                block.write(*at as u64, &address.to_le_bytes());
            }
        }
        let has_constants = program.layout.globals.iter().any(|global| global.constant);
        Ok(Loaded { program, addresses, blocks, has_constants })
    }

    /// Whether an address is in one of the constant variables.
    fn is_constant(&self, address: u64) -> bool {
        // Most modules have none, and every store asks.
        if !self.has_constants {
            return false;
        }
        let mut variables = self.program.layout.globals.iter().zip(&self.blocks);
        variables.any(|(global, block)| global.constant && (block.address..block.end()).contains(&address))
    }

    /// Takes the variables out of the device's memory again.
    pub fn unload(&self, heap: &Heap) {
        for block in &self.blocks {
            let freed = heap.free(block.address);
            debug_assert!(freed.is_ok(), "a module frees what it allocated");
        }
    }
}
