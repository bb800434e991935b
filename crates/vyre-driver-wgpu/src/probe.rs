//! Whether a driver's compiler can be trusted, found out when the device is opened.
//!
//! Two things are tried: a loop longer than the longest that some drivers run, and every op on integers with hard
//! operands, against the meaning that the language gives it. A driver that fails is refused with what it got wrong. The
//! verdict is kept on disk by device, driver and version, because compiling the probes takes a while.

use crate::ID;
use crate::adapter::unavailable;
use crate::submit::Wgpu;
use std::fmt::Write;
use std::time::{Duration, Instant};
use vyre_driver::admission::check as checked;
use vyre_driver::pipeline::PipelineKey;
use vyre_driver::queue::{Launch, Queue, Stop, Work};
use vyre_driver::{BackendError, DispatchConfig};
use vyre_foundation::ir::{ArgType, ComputeOp, DataType, Digest};
use vyre_foundation::scalar::{Meaning, meaning, observe};
use vyre_foundation::text;

/// Goes up with what is tried and with what shaders contain, so that old verdicts do not count.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), ".1");
/// How long a probe may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Trips of the loop. Mesa 22.3 ends after 65,535.
const TRIPS: u32 = 70_000;
const LANES: u32 = 64;
/// What ops are tried on.
const INTEGERS: [DataType; 5] = [DataType::Bool, DataType::U32, DataType::I32, DataType::U64, DataType::I64];

/// Refuses a device whose driver gets the probes wrong.
pub(crate) fn check(wgpu: &Wgpu) -> Result<(), BackendError> {
    let key = key(wgpu);
    let kept = wgpu.cache.as_ref().and_then(|cache| cache.get(&key));
    let found = match kept.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(found) => found,
        None => {
            let found = match long_loop(wgpu)? {
                None => integers(wgpu)?,
                wrong => wrong,
            };
            let found = found.unwrap_or_default();
            if let Some(cache) = &wgpu.cache
                && let Err(error) = cache.put(&key, found.as_bytes())
            {
                tracing::warn!(%error, "a verdict could not be kept on disk");
            }
            found
        }
    };
    if found.is_empty() {
        return Ok(());
    }
    let fix = "install a newer driver (Mesa 24 or above), or choose another device with VYRE_WGPU_ADAPTER";
    Err(unavailable(format!("the driver of {} computes wrong: {found}", wgpu.device.adapter), fix))
}

fn key(wgpu: &Wgpu) -> PipelineKey {
    let mut hasher = blake3::Hasher::new();
    let adapter = &wgpu.device.adapter;
    for text in ["verdict", &adapter.name, &adapter.driver, &adapter.api] {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    let program = Digest(*hasher.finalize().as_bytes());
    PipelineKey { program, backend: ID, version: VERSION, variant: 0 }
}

/// What is wrong with a long loop, if something is.
fn long_loop(wgpu: &Wgpu) -> Result<Option<String>, BackendError> {
    let source = "program @long_loop workgroup(64, 1, 1) {
      buffer @n : read       u32[] binding 0
      buffer @y : read_write u32[] binding 1 output
      %i = global_id x
      %n = load.u32 @n[%i]
      var $a : u32 = 1
      for %k in 0..%n {
        %a = get.u32 $a
        %b = mul.u32 %a, 3
        %c = xor.u32 %b, %k
        set.u32 $a, %c
      }
      %r = get.u32 $a
      store.u32 @y[%i], %r
    }";
    let trips = |lane: u32| TRIPS + lane % 3;
    let n: Vec<u8> = (0..LANES).flat_map(|lane| trips(lane).to_le_bytes()).collect();
    let found = run(wgpu, source, &[&n], n.len(), 1)?;
    let right = (0..LANES).zip(found.chunks_exact(4)).all(|(lane, found)| {
        let expected = (0..trips(lane)).fold(1u32, |a, k| a.wrapping_mul(3) ^ k);
        found == expected.to_le_bytes()
    });
    let wrong = || format!("a loop of {TRIPS} trips ends early (Mesa 22.3 stops all after 65,535)");
    Ok((!right).then(wrong))
}

/// One op under one type, with its operands' types and what it must give.
struct Row {
    op: ComputeOp,
    ty: DataType,
    args: Vec<DataType>,
    result: DataType,
    meaning: Meaning,
}

/// Every op on these types.
fn rows(types: &[DataType]) -> Vec<Row> {
    let mut rows = Vec::new();
    for op in ComputeOp::ALL {
        let info = op.info();
        for ty in types {
            let sources: &[DataType] =
                if info.args.contains(&ArgType::Any) { types } else { &[DataType::U32] };
            for source in sources {
                let (Some(meaning), Some(result)) = (meaning(*op, *ty, *source), info.result.under(*ty))
                else {
                    continue;
                };
                let args = info.args.iter().map(|arg| arg.under(*ty).unwrap_or(*source)).collect();
                rows.push(Row { op: *op, ty: *ty, args, result, meaning });
            }
        }
    }
    rows
}

/// Operands that ops go wrong on: the edges of every width, and what lies next to them.
fn edges() -> Vec<u64> {
    let mut edges = vec![0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 0x0123_4567_89ab_cdef, 0xdead_beef];
    for bits in [7, 8, 15, 16, 31, 32, 63] {
        let power = 1u64 << bits;
        edges.extend([power - 1, power, power + 1, power.wrapping_neg()]);
    }
    edges.push(u64::MAX);
    edges
}

/// What is wrong with ops on integers, if something is.
fn integers(wgpu: &Wgpu) -> Result<Option<String>, BackendError> {
    let edges = edges();
    let count = edges.len() * edges.len();
    let places = [
        |at: usize, len: usize| at % len,
        |at, len| at / len,
        |at, len| at * 7 % len,
        |at, len| at * 3 % len,
    ];
    let columns: Vec<Vec<u64>> =
        places.iter().map(|place| (0..count).map(|at| edges[place(at, edges.len())]).collect()).collect();
    let bytes: Vec<Vec<u8>> =
        columns.iter().map(|column| column.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
    let inputs: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    for ty in INTEGERS {
        let rows: Vec<Row> = rows(&INTEGERS).into_iter().filter(|row| row.ty == ty).collect();
        let groups = count.div_ceil(LANES as usize) as u32;
        let found = run(wgpu, &battery(&rows, count), &inputs, rows.len() * count * 8, groups)?;
        for (row, found) in rows.iter().zip(found.chunks_exact(count * 8)) {
            let wrong = (0..count).zip(found.chunks_exact(8)).find_map(|(at, found)| {
                let mut operands = [0; 4];
                for (slot, (column, ty)) in operands.iter_mut().zip(columns.iter().zip(&row.args)) {
                    *slot = column[at] & ty.mask();
                }
                let expected = observe(row.result, (row.meaning)(&operands));
                let found = u64::from_le_bytes(found.try_into().expect("eight bytes"));
                (found != expected).then_some((operands, expected, found))
            });
            if let Some((operands, expected, found)) = wrong {
                let operands: Vec<String> =
                    operands[..row.args.len()].iter().map(|x| format!("{x:#x}")).collect();
                return Ok(Some(format!(
                    "`{}.{}` of {} gives {found:#x} instead of {expected:#x}",
                    row.op.info().name,
                    row.ty,
                    operands.join(", "),
                )));
            }
        }
    }
    Ok(None)
}

/// A program that stores the result of every row for every operand, as 64 bits.
fn battery(rows: &[Row], count: usize) -> String {
    let mut text = format!("program @battery workgroup({LANES}, 1, 1) {{\n");
    for column in 0..4 {
        let _ = writeln!(text, "  buffer @x{column} : read u64[] binding {column}");
    }
    let _ = writeln!(text, "  buffer @y : read_write u64[] binding 4 output\n  %i = global_id x");
    let _ = writeln!(text, "  %live = lt.u32 %i, {count}\n  if %live {{");
    for column in 0..4 {
        let _ = writeln!(text, "    %x{column} = load.u64 @x{column}[%i]");
        let _ = writeln!(
            text,
            "    %odd{column} = and.u64 %x{column}, 1\n    %bool{column} = cast.bool %odd{column}"
        );
        for ty in [DataType::U32, DataType::I32, DataType::U64, DataType::I64] {
            let _ = writeln!(text, "    %{ty}{column} = cast.{ty} %x{column}");
        }
    }
    for (at, row) in rows.iter().enumerate() {
        let args: Vec<String> =
            row.args.iter().enumerate().map(|(column, ty)| format!("%{ty}{column}")).collect();
        let _ = writeln!(text, "    %r{at} = {}.{} {}", row.op.info().name, row.ty, args.join(", "));
        // Signed numbers are extended by their sign, and their bits are what is asked for.
        let wide = match row.result {
            DataType::I32 => {
                let _ = writeln!(text, "    %u{at} = cast.u32 %r{at}");
                format!("%u{at}")
            }
            _ => format!("%r{at}"),
        };
        let _ = writeln!(text, "    %w{at} = cast.u64 {wide}\n    %at{at} = add.u32 %i, {}", at * count);
        let _ = writeln!(text, "    store.u64 @y[%at{at}], %w{at}");
    }
    text.push_str("  }\n}\n");
    text
}

/// Runs a probe: inputs, then one output of that many bytes.
fn run(
    wgpu: &Wgpu,
    source: &str,
    inputs: &[&[u8]],
    output_bytes: usize,
    workgroups: u32,
) -> Result<Vec<u8>, BackendError> {
    let parsed = text::parse(source).unwrap_or_else(|findings| panic!("a probe is no program: {findings:?}"));
    let program = checked(&parsed.program, None)?;
    let kernel = std::sync::Arc::new(wgpu.compile(&program, true)?);
    let memories: Result<Vec<_>, _> = inputs
        .iter()
        .map(|input| input.len())
        .chain([output_bytes])
        .map(|bytes| wgpu.allocate(bytes))
        .collect();
    let memories = memories?;
    let (output, given) = memories.split_last().expect("there is an output");
    let mut found = vec![0; output_bytes];
    let mut work = Work::none();
    work.clears.push(output);
    work.uploads = given.iter().zip(inputs).map(|(memory, input)| (memory, 0, *input)).collect();
    let lens = inputs.iter().map(|input| input.len()).chain([output_bytes]);
    work.launches.push(Launch {
        kernel,
        program,
        grid: [workgroups, 1, 1],
        buffers: memories.iter().zip(lens).collect(),
    });
    work.reads.push((output, 0, found.as_mut_slice()));
    let config = DispatchConfig { timeout: Some(LIMIT), ..DispatchConfig::default() };
    wgpu.submit(work, &Stop::new(&config, Instant::now()))?;
    Ok(found)
}
