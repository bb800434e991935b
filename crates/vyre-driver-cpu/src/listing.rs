//! Machine code as text, each stretch under the line of the program that it comes from.
//!
//! Code follows its own order, not the program's: a line may come several times, for all lanes, for the last few of them, and
//! where something rare happens.

use crate::compile::{Compiler, too_large};
use crate::device::CpuConfig;
use crate::executable::MachineCode;
use std::fmt::Write;
use vyre_driver::{BackendError, admission, grid_sync};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::Program;
use vyre_foundation::text::{self, SourceMap};
use vyre_foundation::validate::ValidProgram;
use vyre_lower::prepare::{Target, prepare};

/// The machine code of a program under the lines of the optimised program; of one with grid barriers, that of its parts.
///
/// ```
/// use vyre_driver_cpu::{CpuConfig, listing};
/// # let source = "program @double workgroup(64, 1, 1) {
/// #   buffer @y : read_write u32[] binding 0 output
/// #   %i = global_id x
/// #   store.u32 @y[%i], %i
/// # }";
///
/// let program = vyre_foundation::text::parse(source).unwrap().program;
/// let listing = listing(&CpuConfig::default(), &program)?;
/// assert!(listing.contains("%i = global_id x"), "{listing}");
/// # Ok::<(), vyre_driver::BackendError>(())
/// ```
pub fn listing(config: &CpuConfig, program: &Program) -> Result<String, BackendError> {
    let (compiler, valid) = (Compiler::new(*config)?, admission::valid(program, None)?);
    if !valid.facts().has_grid_sync {
        return list(&compiler, &valid);
    }
    let plan = grid_sync::plan(&valid)?;
    let list = |part: &Program| list(&compiler, &admission::valid(part, None)?);
    let parts: Vec<String> = plan.segments.iter().map(list).collect::<Result<_, _>>()?;
    Ok(parts.join("\n"))
}

fn list(compiler: &Compiler, valid: &ValidProgram) -> Result<String, BackendError> {
    // Traps keep their codes, which say more to a reader than their numbers.
    let target = Target { numbers_traps: false, ..Target::NATIVE };
    let prepared = prepare(valid, &target).map_err(too_large)?;
    let (code, scratch_bytes) = compiler.emit(&prepared, &|| Ok(()))?;
    let program = &prepared.program;
    let mut out = format!(
        "// @{} for {}: {} bytes of code, {} of constants in front of it, {scratch_bytes} of memory for a thread\n",
        program.parts().name,
        compiler.name(),
        code.bytes.len() - code.entry,
        code.entry,
    );
    let (source, map) = text::print_with_map(program.program());
    let lines = Lines { source: source.lines().collect(), map };
    write_code(&mut out, &code, &lines);
    Ok(out)
}

struct Lines<'s> {
    source: Vec<&'s str>,
    map: SourceMap,
}

impl Lines<'_> {
    fn at(&self, site: u32) -> &str {
        let span = self.map.span(Place::Line { function: None, site });
        span.and_then(|span| self.source.get(span.line as usize - 1)).map_or("...", |line| line.trim())
    }
}

fn write_code(out: &mut String, code: &MachineCode, lines: &Lines<'_>) {
    let mut marks = code.marks.iter().peekable();
    let (mut line, mut written) = (None, None);
    for (place, shown) in disassemble(code) {
        while let Some((_, site)) = marks.next_if(|(at, _)| *at <= place) {
            line = Some(*site);
        }
        if let Some(site) = line.filter(|_| line != written) {
            written = line;
            // Lines of no line are what the launch itself needs: workgroups, lanes, registers kept.
            let _ = writeln!(out, "{}", if site == u32::MAX { "..." } else { lines.at(site) });
        }
        let _ = writeln!(out, "    {place:#06x}  {shown}");
    }
}

/// The instructions with their places.
#[cfg(target_arch = "x86_64")]
fn disassemble(code: &MachineCode) -> Vec<(usize, String)> {
    let mut formatter = iced_x86::FastFormatter::new();
    let start = code.entry as u64;
    let decoder =
        iced_x86::Decoder::with_ip(64, &code.bytes[code.entry..], start, iced_x86::DecoderOptions::NONE);
    let show = |instruction: iced_x86::Instruction| {
        let mut shown = String::new();
        formatter.format(&instruction, &mut shown);
        (instruction.ip() as usize, shown)
    };
    decoder.into_iter().map(show).collect()
}

/// Words, where no disassembler is built in.
#[cfg(not(target_arch = "x86_64"))]
fn disassemble(code: &MachineCode) -> Vec<(usize, String)> {
    let word = |(at, bytes): (usize, &[u8])| {
        let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
        (code.entry + at * 4, format!(".word 0x{digits}"))
    };
    code.bytes[code.entry..].chunks(4).enumerate().map(word).collect()
}
