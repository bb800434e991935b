//! PTX, the assembly that NVIDIA's driver compiles.
//!
//! Arithmetic says its rounding (`.rn`), so nothing is contracted; nothing is `.ftz` or `.approx`. Registers are typed by
//! width alone (`%r` 32 bits, `%d` 64, `%h` 16, `%p` a truth value), which is how PTX lets the same bits be a float here
//! and an integer there. f16 adds and multiplies natively; bf16 goes through f32, which is wide enough that rounding twice
//! changes nothing. Every NaN becomes canonical where it can be seen, because the hardware's own is another one.
//!
//! | file | what it emits |
//! | --- | --- |
//! | `body` | the lines, in order |
//! | `repeat` | loops, unrolled |
//! | `coarse` | nothing: it decides which programs run several lanes in one thread |
//! | `wide` | accesses of several elements at once |
//! | `memory` | the other accesses, with their bounds |
//! | `compute`, `cast` | ops on a lane's values, and between types |
//! | `sync` | what lanes do together |
//! | `tensor`, `copies` | the tile product on tensor cores, and copies to its factors beside it |
//!
//! Not here: loading and launching, which is the driver's.

mod body;
mod cast;
mod coarse;
mod compute;
mod copies;
mod memory;
mod repeat;
mod sync;
mod tensor;
mod wide;

use crate::prepare::{NativeFloats, NativeProducts, PrepareError, Prepared, Target, prepare};
use body::Emit;
use coarse::Coarse;
use std::fmt::Write;
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{BufferId, BufferKind, DataType, Node, ProgramParts, walk};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::validate::ValidProgram;

/// What to emit for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The device's compute capability times ten: 70 and above. One that PTX has no target for gets the newest older one.
    pub sm: u32,
    /// Whether long loops look at the cancel word now and then, so that a timeout can end them.
    pub poll: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { sm: 70, poll: false }
    }
}

impl Options {
    /// What is native. There is no instruction for the exact remainder of floats.
    pub const fn target(&self) -> Target<'_> {
        let products = NativeProducts::TensorCores(self);
        Target { floats: NativeFloats::AllButRem, products, ..Target::NATIVE }
    }

    /// Whether tensor cores do a tile product.
    pub(crate) fn has_product(&self, parts: &ProgramParts, product: &Node) -> bool {
        // What four warps can do together, single warps can do as well.
        tensor::Plan::of_line(parts, self, 1, product).is_some()
    }
}

/// A module with one kernel.
///
/// The kernel's parameters are, each a `u64`: for every bound buffer by ascending binding its address and its number of
/// elements; then the address of the trap word (a u32, all ones before the launch; the least trap's number after it),
/// of the cancel word (a u32, nonzero to cancel) and of the grid barrier's counter (a u64, zero before the launch). Six
/// `u32` follow: the workgroup that the launch begins with along y and z, how many the whole grid has along x, y and z, and
/// last a zero.
#[derive(Clone, Debug)]
pub struct Module {
    /// The text.
    pub source: String,
    /// The kernel's name.
    pub entry: &'static str,
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Lanes of the program along x in one block.
    pub block_lanes: u32,
    /// Bytes of dynamic shared memory that a launch needs.
    pub shared_bytes: u32,
    /// Whether the launch must be cooperative, because the program has grid barriers.
    pub cooperative: bool,
    /// The code and place of each trap, by the number that the trap word tells.
    pub traps: Vec<(u32, Place)>,
}

/// The kernel's name in every module.
const ENTRY: &str = "vyre_kernel";

/// Lowers a program. It fails only for programs close to the limits of the language, and says why.
pub fn lower(program: &ValidProgram, options: &Options) -> Result<Module, PrepareError> {
    let Prepared { program, facts, traps, .. } = prepare(program, &options.target())?;
    let parts = program.parts();
    let layout = tensor::Layout::of(parts, options);
    let shared = shared_offsets(parts, &layout);
    let mut cooperative = false;
    walk(&parts.body.block, |_, _, node| cooperative |= node.op().is_grid_wide());
    let alone = Coarse::none(parts);
    let coarse = Coarse::plan(parts).unwrap_or_else(|| Coarse::none(parts));
    let neighbours = wide::Neighbours::find(parts);
    let mut emit = Emit::new(parts, &facts, options, &layout, (&shared.0, shared.1), &coarse, &neighbours);
    emit.has_traps = !traps.is_empty();
    emit.kernel(&alone);
    let mut source = String::new();
    header(&mut source, parts, options, layout.groups);
    tables(&mut source, parts);
    if shared.1 > 0 {
        source.push_str(".extern .shared .align 1024 .b8 shared[];\n\n");
    }
    let block = coarse.block;
    emit.finish(&mut source, block);
    let block_lanes = block[0] * coarse.lanes;
    Ok(Module { source, entry: ENTRY, block, block_lanes, shared_bytes: shared.1, cooperative, traps })
}

fn header(out: &mut String, parts: &ProgramParts, options: &Options, groups: bool) {
    let (sm, version) = target(options.sm);
    // `wgmma` needs the variant of the architecture that has it, and the version that introduced it.
    let (variant, version) = if groups { ("a", "8.0") } else { ("", version) };
    let name = &parts.name;
    let _ =
        write!(out, "// program @{name}\n.version {version}\n.target sm_{sm}{variant}\n.address_size 64\n\n");
}

/// The architectures that `.target` may name, ascending, each with the first version of PTX that has it. Later versions have
/// it as well, but older drivers refuse them.
const TARGETS: [(u32, &str); 14] = [
    (70, "6.0"),
    (72, "6.1"),
    (75, "6.3"),
    (80, "7.0"),
    (86, "7.1"),
    (87, "7.4"),
    (88, "9.0"),
    (89, "7.8"),
    (90, "7.8"),
    (100, "8.6"),
    (103, "8.8"),
    (110, "9.0"),
    (120, "8.7"),
    (121, "8.8"),
];

/// The row of `TARGETS` for a device: its own, else that of the newest older architecture, since every driver compiles PTX of
/// an older architecture for a newer one.
fn target(sm: u32) -> (u32, &'static str) {
    let row = TARGETS.iter().rfind(|(known, _)| *known <= sm);
    *row.unwrap_or(&TARGETS[0])
}

/// Constant tables, as initialised global memory: constant memory would serialise lanes that read different elements.
fn tables(out: &mut String, parts: &ProgramParts) {
    for (at, buffer) in parts.buffers.iter().enumerate() {
        let BufferKind::Table { data } = &buffer.kind else { continue };
        let bits = buffer.ty.bits();
        let _ = write!(out, ".global .align 16 .b{bits} table{at}[{}] = {{", data.len().max(1));
        for (i, element) in data.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            let _ = write!(out, "{separator}{element:#x}");
        }
        out.push_str(if data.is_empty() { "0};\n" } else { "};\n" });
    }
}

/// Where workgroup buffers start in shared memory, by buffer, and how many bytes they take. Those that must start at
/// multiples of many bytes come first.
fn shared_offsets(parts: &ProgramParts, layout: &tensor::Layout) -> (Vec<u32>, u32) {
    let mut order: Vec<usize> = (0..parts.buffers.len()).collect();
    order.retain(|at| matches!(parts.buffers[*at].kind, BufferKind::Workgroup));
    order.sort_by_key(|at| std::cmp::Reverse(layout.align(*at)));
    let (mut offsets, mut end) = (vec![0; parts.buffers.len()], 0u32);
    for at in order {
        let buffer = &parts.buffers[at];
        offsets[at] = end.next_multiple_of(layout.align(at));
        // Whole rows of the factors of tile products, which are exchanged within 128 bytes.
        let bytes = buffer.len.unwrap_or(0) * buffer.ty.bytes() as u32;
        end = offsets[at] + if buffer.ty.bits() == 8 { bytes.next_multiple_of(128) } else { bytes };
    }
    (offsets, end.next_multiple_of(16))
}

/// What a buffer is to an access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    /// Storage that no lane writes.
    ReadOnly,
    Storage,
    Shared,
    Table,
}

fn space(parts: &ProgramParts, id: BufferId) -> Space {
    match parts.buffer(id).kind {
        BufferKind::Uniform { .. } | BufferKind::Read { .. } => Space::ReadOnly,
        BufferKind::ReadWrite { .. } => Space::Storage,
        BufferKind::Workgroup => Space::Shared,
        BufferKind::Table { .. } => Space::Table,
    }
}

/// The place of a bound buffer among the parameters.
fn parameter_of(parts: &ProgramParts, id: BufferId) -> usize {
    bound_buffers(parts).iter().position(|bound| *bound == id).expect("only bound buffers have parameters")
}

/// The type in an instruction's name.
const fn suffix(ty: DataType) -> &'static str {
    match ty {
        DataType::Bool => "pred",
        DataType::U8 => "u8",
        DataType::I8 => "s8",
        DataType::U16 => "u16",
        DataType::I16 => "s16",
        DataType::U32 => "u32",
        DataType::I32 => "s32",
        DataType::U64 => "u64",
        DataType::I64 => "s64",
        DataType::F16 => "f16",
        DataType::BF16 => "bf16",
        DataType::F32 => "f32",
        DataType::F64 => "f64",
    }
}
