//! How a program's buffers travel through the vendor contract: one input, one output, perhaps lookup data.
//!
//! A shader of the contract sees group 0 alone: binding 0 `input` (storage, read), binding 1 `output` (storage,
//! read_write), binding 2 `params` (uniform, four words: input bytes, output bytes, 0, 0), and where a convention has
//! lookup data, a further read-only storage buffer at a binding that the convention names. A program's bound buffers are
//! packed into those. All words are little-endian.
//!
//! ```text
//! input    0: grid x    4: grid y    8: grid z    12: n, the number of bound buffers
//!          16 + 8 * i: offset, byte length of bound buffer i, by ascending binding. The offset is where its initial
//!          contents are stored in the input; 0xffffffff for a read_write buffer that starts at zero.
//!          Then the contents, each at a multiple of 8. The input ends where the last one does.
//! lookup   The contents of the `read` buffer with the highest binding. They are not in the input; its offset is 0.
//! output   The output buffers by ascending binding, each at a multiple of 8; it ends where the last one does.
//!          What is between them is unused.
//! ```
//!
//! A shader needs room for more: behind the outputs follow, each at a multiple of 8, the read_write buffers that do not
//! return, then at a multiple of 4 the trap word. It holds the greatest complement of the sites of the traps that lanes
//! reached, and 0 if none did, so that the first trap in program order wins. [`OutputLayout`] knows both forms.
//!
//! Not here: what a backend does with the bytes, and the versions of the contract, which are the suite's.

use std::ops::Range;
use vyre_foundation::ir::{BufferId, BufferKind, ProgramParts};
use vyre_foundation::launch::{LaunchError, bound_buffers, check_grid, element_count};

/// The binding of the input in group 0.
pub const INPUT_BINDING: u32 = 0;
/// The binding of the output in group 0.
pub const OUTPUT_BINDING: u32 = 1;
/// The binding of the params in group 0.
pub const PARAMS_BINDING: u32 = 2;
/// The offset of a read_write buffer without initial contents.
pub const NO_CONTENTS: u32 = u32::MAX;
/// The header's bytes before the buffers' entries.
pub const HEADER_BYTES: usize = 16;
/// The bytes of one buffer's entry.
pub const ENTRY_BYTES: usize = 8;
/// The most bytes of an input or output: offsets are u32, and the greatest one means no contents.
const BYTES_MAX: usize = u32::MAX as usize - 8;

/// Why bytes cannot be packed, or are not what packing gives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}. Fix: {fix}")]
pub struct ConventionError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl ConventionError {
    fn new(message: impl Into<String>, fix: impl Into<String>) -> ConventionError {
        ConventionError { message: message.into(), fix: fix.into() }
    }
}

impl From<LaunchError> for ConventionError {
    fn from(error: LaunchError) -> ConventionError {
        ConventionError { message: error.message, fix: error.fix }
    }
}

/// What a bound buffer holds before the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// That many zero bytes. Only read_write buffers travel so; others are written out.
    Zeros(usize),
}

impl Contents<'_> {
    /// How many bytes they are.
    pub const fn byte_len(&self) -> usize {
        match self {
            Contents::Bytes(bytes) => bytes.len(),
            Contents::Zeros(count) => *count,
        }
    }

    /// The bytes themselves.
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            Contents::Bytes(bytes) => bytes.to_vec(),
            Contents::Zeros(count) => vec![0; *count],
        }
    }
}

/// A launch as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The input.
    pub input: Vec<u8>,
    /// The lookup data, if the convention has some; empty for a program without `read` buffers.
    pub lookup: Option<Vec<u8>>,
    /// Where the outputs will be stored.
    pub layout: OutputLayout,
}

/// A launch read back from its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked<'a> {
    /// Workgroups along x, y and z, also for an indirect program: the grid that its buffer asks for.
    pub grid: [u32; 3],
    /// What the bound buffers hold, by ascending binding.
    pub contents: Vec<Contents<'a>>,
    /// Where the outputs belong.
    pub layout: OutputLayout,
}

/// Where the read_write buffers are stored in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLayout {
    /// The output buffers with the bytes they take, by ascending binding. Only these bytes are compared.
    pub outputs: Vec<(BufferId, Range<usize>)>,
    /// The output's size as a caller sees it.
    pub output_bytes: usize,
    /// The read_write buffers that do not return, which only a shader's output has room for.
    pub scratch: Vec<(BufferId, Range<usize>)>,
    /// Where a shader's trap word is stored.
    pub trap_at: usize,
    /// The size of a shader's output.
    pub device_bytes: usize,
}

impl OutputLayout {
    /// The layout for bound buffers of those sizes, by ascending binding.
    pub fn new(parts: &ProgramParts, byte_lens: &[usize]) -> Result<OutputLayout, ConventionError> {
        let bound = bound_buffers(parts);
        check_count(parts, bound.len(), byte_lens.len())?;
        let mut end = 0;
        let mut place = |output: bool| {
            let mut ranges = Vec::new();
            for (id, byte_len) in bound.iter().zip(byte_lens) {
                let buffer = parts.buffer(*id);
                if buffer.is_writable() && buffer.is_output() == output {
                    let range = place_after(end, *byte_len)?;
                    end = range.end;
                    ranges.push((*id, range));
                }
            }
            Ok::<_, ConventionError>((ranges, end))
        };
        let (outputs, output_bytes) = place(true)?;
        let (scratch, end) = place(false)?;
        let trap_at = end.next_multiple_of(4);
        Ok(OutputLayout { outputs, output_bytes, scratch, trap_at, device_bytes: trap_at + 4 })
    }

    /// The bytes of one output, cut out of what a dispatch returned.
    ///
    /// `None` if `output` is too short, or the buffer does not return.
    pub fn output<'a>(&self, id: BufferId, output: &'a [u8]) -> Option<&'a [u8]> {
        let (_, range) = self.outputs.iter().find(|(other, _)| *other == id)?;
        output.get(range.clone())
    }

    /// The site of the first trap, from what a shader left; `None` if no lane reached one or `output` is too short.
    pub fn trap_site(&self, output: &[u8]) -> Option<u32> {
        let word = word_at(output, self.trap_at)?;
        (word != 0).then_some(!word)
    }
}

/// The buffer that travels as lookup data: the `read` buffer with the highest binding.
pub fn lookup_buffer(parts: &ProgramParts) -> Option<BufferId> {
    let mut bound = bound_buffers(parts).into_iter().rev();
    bound.find(|id| matches!(parts.buffer(*id).kind, BufferKind::Read { .. }))
}

/// Packs a launch. `contents` are those of the bound buffers, by ascending binding; `lookup` says whether the convention
/// has lookup data.
///
/// ```
/// use vyre_foundation::text::parse;
/// use vyre_lower::convention::{Contents, pack, unpack};
///
/// let source = "program @p workgroup(1, 1, 1) {
///   buffer @x : read       u8[] binding 0
///   buffer @y : read_write u8[] binding 1 output
/// }";
/// let program = parse(source).unwrap().program;
/// let contents = [Contents::Bytes(b"abc"), Contents::Zeros(5)];
/// let packed = pack(program.parts(), [2, 1, 1], &contents, false).unwrap();
/// assert_eq!(packed.input.len(), 16 + 2 * 8 + 3);
/// assert_eq!(packed.layout.output_bytes, 5);
/// let unpacked = unpack(program.parts(), &packed.input, None).unwrap();
/// assert_eq!((unpacked.grid, unpacked.contents), ([2, 1, 1], contents.to_vec()));
/// ```
pub fn pack(
    parts: &ProgramParts,
    grid: [u32; 3],
    contents: &[Contents<'_>],
    lookup: bool,
) -> Result<Packed, ConventionError> {
    let bound = bound_buffers(parts);
    let layout = check_launch(parts, grid, contents)?;
    let aside = if lookup { lookup_buffer(parts) } else { None };
    let mut entries = Vec::with_capacity(bound.len());
    let mut end = HEADER_BYTES + ENTRY_BYTES * bound.len();
    for (id, contents) in bound.iter().zip(contents) {
        let range = match travel(parts, *id, contents, aside) {
            Travel::Input => {
                let range = place_after(end, contents.byte_len())?;
                end = range.end;
                range
            }
            Travel::Lookup => place_after(0, contents.byte_len())?,
            Travel::Nothing => NO_CONTENTS as usize..NO_CONTENTS as usize + contents.byte_len(),
        };
        entries.push(range);
    }
    let mut input = Vec::with_capacity(end);
    for word in grid.into_iter().chain([bound.len() as u32]) {
        input.extend_from_slice(&word.to_le_bytes());
    }
    for range in &entries {
        input.extend_from_slice(&(range.start as u32).to_le_bytes());
        input.extend_from_slice(&(range.len() as u32).to_le_bytes());
    }
    let mut lookup = lookup.then(Vec::new);
    for ((id, contents), range) in bound.iter().zip(contents).zip(&entries) {
        match travel(parts, *id, contents, aside) {
            Travel::Input => {
                input.resize(range.start, 0);
                input.extend_from_slice(&contents.to_vec());
            }
            Travel::Lookup => lookup = Some(contents.to_vec()),
            Travel::Nothing => {}
        }
    }
    Ok(Packed { input, lookup, layout })
}

/// Reads a launch back. `lookup` is the lookup data, if the convention has some.
///
/// Nothing is allocated for contents: they are slices of `input`, or counts of zeros. Whatever packing would not have
/// written is refused.
pub fn unpack<'a>(
    parts: &ProgramParts,
    input: &'a [u8],
    lookup: Option<&'a [u8]>,
) -> Result<Unpacked<'a>, ConventionError> {
    let bound = bound_buffers(parts);
    let header = |at| word_at(input, at).ok_or_else(|| malformed("its header is cut short"));
    let grid = [header(0)?, header(4)?, header(8)?];
    check_count(parts, bound.len(), header(12)? as usize)?;
    let aside = lookup.and_then(|_| lookup_buffer(parts));
    let mut end = HEADER_BYTES + ENTRY_BYTES * bound.len();
    let mut contents = Vec::with_capacity(bound.len());
    for (at, id) in bound.iter().enumerate() {
        let entry = HEADER_BYTES + ENTRY_BYTES * at;
        let (offset, byte_len) = (header(entry)?, header(entry + 4)? as usize);
        let buffer = parts.buffer(*id);
        let wrong = |what: &str| malformed(&format!("the entry of `@{}` {what}", buffer.name));
        contents.push(if aside == Some(*id) {
            let bytes = lookup.filter(|bytes| bytes.len() == byte_len && offset == 0);
            Contents::Bytes(bytes.ok_or_else(|| wrong("is not that of the lookup data"))?)
        } else if offset == NO_CONTENTS && buffer.is_writable() {
            Contents::Zeros(byte_len)
        } else {
            let range = place_after(end, byte_len)?;
            end = range.end;
            if range.start != offset as usize {
                return Err(wrong("has another offset than packing gives"));
            }
            Contents::Bytes(input.get(range).ok_or_else(|| wrong("reaches beyond the input"))?)
        });
    }
    if end != input.len() {
        return Err(malformed(&format!("it has {} bytes, and its entries take {end}", input.len())));
    }
    let layout = check_launch(parts, grid, &contents)?;
    Ok(Unpacked { grid, contents, layout })
}

/// How a bound buffer's contents get to the device.
enum Travel {
    Input,
    Lookup,
    Nothing,
}

fn travel(parts: &ProgramParts, id: BufferId, contents: &Contents<'_>, aside: Option<BufferId>) -> Travel {
    match contents {
        _ if aside == Some(id) => Travel::Lookup,
        Contents::Zeros(_) if parts.buffer(id).is_writable() => Travel::Nothing,
        Contents::Zeros(_) | Contents::Bytes(_) => Travel::Input,
    }
}

/// What must hold for a launch in either direction.
fn check_launch(
    parts: &ProgramParts,
    grid: [u32; 3],
    contents: &[Contents<'_>],
) -> Result<OutputLayout, ConventionError> {
    let bound = bound_buffers(parts);
    check_count(parts, bound.len(), contents.len())?;
    check_grid(parts, grid)?;
    for (id, contents) in bound.iter().zip(contents) {
        element_count(parts.buffer(*id), contents.byte_len() as u64)?;
    }
    let byte_lens: Vec<usize> = contents.iter().map(Contents::byte_len).collect();
    OutputLayout::new(parts, &byte_lens)
}

fn check_count(parts: &ProgramParts, bindings: usize, given: usize) -> Result<(), ConventionError> {
    if bindings == given {
        return Ok(());
    }
    Err(ConventionError::new(
        format!("`@{}` has {bindings} bindings, and {given} buffers are given", parts.name),
        "give one buffer for each binding, in ascending order",
    ))
}

/// The next place at a multiple of 8.
fn place_after(end: usize, byte_len: usize) -> Result<Range<usize>, ConventionError> {
    let start = end.next_multiple_of(8);
    let stop = start.checked_add(byte_len).filter(|stop| *stop <= BYTES_MAX);
    let stop = stop.ok_or_else(|| {
        ConventionError::new(
            format!("the buffers take more than {BYTES_MAX} bytes together"),
            "split the work over several dispatches",
        )
    })?;
    Ok(start..stop)
}

fn malformed(what: &str) -> ConventionError {
    ConventionError::new(
        format!("the input is not a packed launch of this program: {what}"),
        "pass on the input bytes, lookup data and program that came together, unchanged",
    )
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vyre_foundation::text::parse;

    fn parts() -> ProgramParts {
        let source = "program @p workgroup(64, 1, 1) {
  buffer @late : read_write u16[] binding 9 output
  buffer @x    : read       u8[]  binding 2
  buffer @tile : workgroup  u32[4]
  buffer @y    : read_write u8[]  binding 3 output
  buffer @u    : uniform    u32[1] binding 4
  buffer @work : read_write u64[] binding 1
  buffer @lut  : read       u32[] binding 7
}";
        parse(source).unwrap().program.parts().clone()
    }

    /// The bound buffers in order: work, x, y, u, lut, late.
    fn contents() -> [Contents<'static>; 6] {
        [
            Contents::Zeros(16),
            Contents::Bytes(&[1, 2, 3]),
            Contents::Bytes(&[4, 5, 6, 7, 8]),
            Contents::Bytes(&[9, 0, 0, 0]),
            Contents::Bytes(&[7; 8]),
            Contents::Zeros(6),
        ]
    }

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn contents_lie_at_multiples_of_eight() {
        let packed = pack(&parts(), [3, 2, 1], &contents(), false).unwrap();
        assert_eq!(
            words(&packed.input[..64]),
            [3, 2, 1, 6, NO_CONTENTS, 16, 64, 3, 72, 5, 80, 4, 88, 8, NO_CONTENTS, 6]
        );
        assert_eq!(packed.input.len(), 96);
        assert_eq!(packed.input[64..80], [1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6, 7, 8, 0, 0, 0]);
        assert_eq!(packed.lookup, None);
    }

    #[test]
    fn the_last_read_buffer_travels_as_lookup_data() {
        let packed = pack(&parts(), [3, 2, 1], &contents(), true).unwrap();
        assert_eq!(words(&packed.input[48..64]), [0, 8, NO_CONTENTS, 6]);
        assert_eq!(packed.input.len(), 84, "the input ends with the last contents' last byte");
        assert_eq!(packed.lookup, Some(vec![7; 8]));
        let mut without = parts();
        without.buffers.clear();
        assert_eq!(pack(&without, [1, 1, 1], &[], true).unwrap().lookup, Some(Vec::new()));
    }

    #[test]
    fn outputs_come_first_and_the_trap_word_last() {
        let layout = pack(&parts(), [1, 1, 1], &contents(), false).unwrap().layout;
        assert_eq!(layout.outputs, [(BufferId(3), 0..5), (BufferId(0), 8..14)]);
        assert_eq!((layout.output_bytes, &layout.scratch[..]), (14, &[(BufferId(5), 16..32)][..]));
        assert_eq!((layout.trap_at, layout.device_bytes), (32, 36));
        let mut output: Vec<u8> = (0..36).collect();
        assert_eq!(layout.output(BufferId(0), &output), Some(&[8, 9, 10, 11, 12, 13][..]));
        assert_eq!(layout.output(BufferId(5), &output), None, "scratch does not return");
        assert_eq!(layout.output(BufferId(0), &output[..13]), None);
        output[32..].copy_from_slice(&(!5u32).to_le_bytes());
        assert_eq!(layout.trap_site(&output), Some(5));
        output[32..].fill(0);
        assert_eq!(layout.trap_site(&output), None);
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        for lookup in [false, true] {
            let packed = pack(&parts(), [3, 2, 1], &contents(), lookup).unwrap();
            let unpacked = unpack(&parts(), &packed.input, packed.lookup.as_deref()).unwrap();
            assert_eq!((unpacked.grid, &unpacked.contents[..]), ([3, 2, 1], &contents()[..]));
            assert_eq!(unpacked.layout, packed.layout);
        }
    }

    #[test]
    fn zeros_of_read_only_buffers_are_written_out() {
        let mut contents = contents();
        contents[1] = Contents::Zeros(3);
        let packed = pack(&parts(), [1, 1, 1], &contents, false).unwrap();
        let unpacked = unpack(&parts(), &packed.input, None).unwrap();
        assert_eq!(unpacked.contents[1], Contents::Bytes(&[0; 3]));
    }

    #[test]
    fn launches_without_meaning_are_refused() {
        let refuse = |grid, at: usize, with| {
            let mut contents = contents();
            contents[at] = with;
            pack(&parts(), grid, &contents, false).unwrap_err().to_string()
        };
        let odd = refuse([1, 1, 1], 5, Contents::Zeros(7));
        assert!(odd.contains("7 bytes") && odd.contains("Fix: bind 6 or 8 bytes"), "{odd}");
        assert!(refuse([1, 1, 1], 3, Contents::Zeros(8)).contains("declared u32[1]"));
        assert!(refuse([1 << 26, 1, 1], 0, Contents::Zeros(0)).contains("lanes"));
        assert!(refuse([1, 1, 1], 0, Contents::Zeros(1 << 32)).contains("more than 4294967287 bytes"));
        assert!(pack(&parts(), [1, 1, 1], &contents()[1..], false).unwrap_err().fix.contains("each binding"));
    }

    #[test]
    fn every_damaged_header_byte_and_length_is_refused_or_means_something_else() {
        let parts = parts();
        let packed = pack(&parts, [3, 2, 1], &contents(), true).unwrap();
        let sound = unpack(&parts, &packed.input, packed.lookup.as_deref()).unwrap();
        for at in 0..HEADER_BYTES + 6 * ENTRY_BYTES {
            let mut input = packed.input.clone();
            input[at] ^= 0x55;
            let read = unpack(&parts, &input, packed.lookup.as_deref());
            assert!(read.is_err() || read.is_ok_and(|other| other != sound), "byte {at}");
        }
        for len in 0..packed.input.len() {
            assert!(unpack(&parts, &packed.input[..len], packed.lookup.as_deref()).is_err(), "{len} bytes");
        }
        let mut longer = packed.input.clone();
        longer.push(0);
        assert!(unpack(&parts, &longer, packed.lookup.as_deref()).is_err());
        assert!(unpack(&parts, &packed.input, None).is_err(), "the lookup data is missing");
        assert!(unpack(&parts, &packed.input, Some(&[7; 7])).is_err(), "the lookup data is cut short");
    }
}
