//! `vyre-math hard`: finds the arguments whose rounding f64 precision does not decide.
//!
//! The kernel computes all 2^32 and keeps those whose result, before it is rounded to f32, is within 64 units of a rounding
//! boundary; its error is a few. There are a few hundred for a function. Those with a wrong result are its hard
//! cases, as `hard.rs` of the library lists them. A function without an oracle has its candidates printed, for
//! `scripts/math/judge.py`.

use crate::check::Args;
use crate::sweep::progress;
use vyre::host::Kernel;
use vyre::math::{MathOp, OPS, Parity};
use vyre_math::canonical;
use vyre_math::kernel::{call_wide, library_or};
use vyre_math::oracle::{Oracle, oracle};

/// Arguments of one dispatch.
const CHUNK: u64 = 1 << 26;
/// Candidates that one dispatch may give.
const FOUND_MAX: u64 = 1 << 16;

pub(crate) fn run(args: &Args) -> Result<bool, String> {
    let named = |op: &&MathOp| args.functions.is_empty() || args.functions.iter().any(|name| name == op.name);
    for op in OPS.iter().filter(named).filter(|op| op.operands == 1) {
        let kernel = kernel(args, op)?;
        // The function in f64 of an even or odd one has magnitudes for arguments.
        let arguments = if op.parity == Parity::Neither { 1 << 32 } else { 1 << 31 };
        let bar = progress(op.name, arguments / CHUNK);
        let mut found = Vec::new();
        for chunk in 0..arguments / CHUNK {
            found.extend(candidates_of(args, &kernel, (chunk * CHUNK) as u32)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        found.sort();
        let Some(Oracle::One(right, _)) = oracle(op.name) else {
            found.iter().for_each(|[x, got]| anstream::println!("{x:#010x} {got:#010x}"));
            continue;
        };
        let judged = found.iter().map(|[x, got]| (x, got, canonical(right(f32::from_bits(*x)))));
        let hard = judged.filter(|(_, got, right)| *got != right);
        let cases: Vec<String> = hard.map(|(x, _, right)| format!("[{x:#010x}, {right:#010x}]")).collect();
        anstream::println!("(\"{}\", &[{}]), // of {}", op.name, cases.join(", "), found.len());
    }
    Ok(true)
}

fn kernel(args: &Args, op: &MathOp) -> Result<Kernel, String> {
    let library = library_or(args.draft.as_deref())?;
    let text = format!(
        "program @hard workgroup(256, 1, 1) {{
           buffer @base : uniform u32[1] binding 0
           buffer @count : read_write u32[1] binding 1 output
           buffer @found : read_write u32[] binding 2 output
           {library}
           %i = global_id x
           %base = load.u32 @base[0]
           %bits = add.u32 %base, %i
           %x = bitcast.f32 %bits
           {}
           %word = bitcast.u64 %w
           %off = add.u64 %word, 0x10000040
           %dropped = and.u64 %off, 0x1fffffff
           %near = lt.u64 %dropped, 128
           if %near {{
             %at = atomic_add.u32 @count[0], 1
             %first = mul.u32 %at, 2
             %second = add.u32 %first, 1
             %rb = bitcast.u32 %r
             store.u32 @found[%first], %bits
             store.u32 @found[%second], %rb
           }}
         }}",
        call_wide(op, "%x")
    );
    Kernel::parse(&text).map_err(|error| error.to_string())
}

fn candidates_of(args: &Args, kernel: &Kernel, base: u32) -> Result<Vec<[u32; 2]>, String> {
    let launch = kernel.launch().backend(&args.backend).input("base", &[base]).size("found", 2 * FOUND_MAX);
    let output = launch.grid([(CHUNK / 256) as u32, 1, 1]).run().map_err(|error| error.to_string())?;
    let words = output.get::<u32>("found").map_err(|error| error.to_string())?;
    let count = output.get::<u32>("count").map_err(|error| error.to_string())?[0];
    if u64::from(count) > FOUND_MAX {
        return Err(format!(
            "{count} results of one dispatch are near a boundary\n  Fix: the function in f64 is wrong, or exact for many arguments"
        ));
    }
    Ok(words.chunks_exact(2).take(count as usize).map(|pair| [pair[0], pair[1]]).collect())
}
