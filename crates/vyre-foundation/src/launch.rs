//! What every backend agrees on before a program runs: which buffers are bound, how many elements they have, and how
//! large the grid is.
//!
//! [`admit`] is the one gate, and an [`Admission`] its result. It refuses what has no meaning (a remainder of bytes, a wrong
//! length, too many lanes) and derives what the caller leaves out, so that all backends launch the same grid over the same
//! elements.
//! Not here: the limits of a device. The driver layer adds those.

use crate::ir::{Buffer, BufferId, BufferKind, Node, ProgramParts};
use crate::validate::ValidProgram;

/// The most lanes of a grid, and the most elements of a buffer.
pub const LANES_MAX: u64 = u32::MAX as u64;

/// Why a launch is refused, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  Fix: {fix}")]
pub struct LaunchError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl LaunchError {
    fn new(message: impl Into<String>, fix: impl Into<String>) -> LaunchError {
        LaunchError { message: message.into(), fix: fix.into() }
    }
}

/// A launch that may go ahead.
#[derive(Clone, Debug)]
pub struct Admission {
    /// What is launched.
    pub program: ValidProgram,
    /// Workgroups along x, y and z. A zero launches nothing.
    pub grid: [u32; 3],
    /// What happens to each bound buffer, by ascending binding.
    pub bindings: Vec<Binding>,
    /// Elements of every buffer and table, by [`BufferId`].
    pub lens: Vec<u32>,
}

/// What happens to one bound buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The buffer.
    pub buffer: BufferId,
    /// Its size.
    pub byte_len: usize,
    /// The input that fills it; `None` starts it at zero.
    pub input: Option<usize>,
    /// The output slot that it comes back in.
    pub output: Option<usize>,
}

impl Admission {
    /// What the program consists of.
    pub fn parts(&self) -> &ProgramParts {
        self.program.parts()
    }

    /// Elements of the bound buffers, by ascending binding.
    pub fn bound_lens(&self) -> impl Iterator<Item = u32> {
        self.bindings.iter().map(|binding| self.lens[binding.buffer.index()])
    }

    /// Workgroups of the grid.
    pub fn workgroups(&self) -> u64 {
        self.grid.iter().map(|count| u64::from(*count)).product()
    }
}

/// The buffers that a caller binds, by ascending binding: the order in which launches list their contents.
pub fn bound_buffers(parts: &ProgramParts) -> Vec<BufferId> {
    let mut bound: Vec<BufferId> = (0..parts.buffers.len() as u32)
        .map(BufferId)
        .filter(|id| parts.buffer(*id).binding().is_some())
        .collect();
    bound.sort_by_key(|id| parts.buffer(*id).binding());
    bound
}

/// The elements of a buffer that is bound with `bytes` bytes.
pub fn element_count(buffer: &Buffer, bytes: u64) -> Result<u32, LaunchError> {
    let size = buffer.ty.bytes().max(1) as u64;
    let (name, ty) = (&buffer.name, buffer.ty);
    if !bytes.is_multiple_of(size) {
        return Err(LaunchError::new(
            format!("`@{name}` is bound with {bytes} bytes, and its {ty} elements have {size} each"),
            format!("bind {} or {} bytes", bytes / size * size, bytes.div_ceil(size).saturating_mul(size)),
        ));
    }
    let count = bytes / size;
    match buffer.len {
        Some(len) if u64::from(len) != count => {
            let declared = match buffer.kind {
                // A uniform buffer has a length.
                BufferKind::Uniform { .. } => format!("{ty}[{count}]"),
                _ => format!("{ty}[]"),
            };
            Err(LaunchError::new(
                format!("`@{name}` is declared {ty}[{len}] and bound with {}", elements(count)),
                format!("bind exactly {}, or declare it `{declared}`", elements(u64::from(len))),
            ))
        }
        _ => u32::try_from(count).map_err(|_| {
            LaunchError::new(
                format!("`@{name}` is bound with {count} elements, and indices reach {LANES_MAX}"),
                "split the buffer over several dispatches",
            )
        }),
    }
}

fn elements(count: u64) -> String {
    format!("{count} element{}", if count == 1 { "" } else { "s" })
}

/// The refusal of a launch that needs a grid and has none.
pub fn grid_missing(parts: &ProgramParts) -> LaunchError {
    LaunchError::new(
        format!("no grid is given, and `@{}` asks for its place along y or z", parts.name),
        "give the workgroups along x, y and z (`--grid X,Y,Z`, `grid=(X,Y,Z)` in a directive)",
    )
}

/// The grid where the caller gives none: enough workgroups along x for one lane to each element of the output with the
/// least binding. Without outputs the longest read_write buffer counts; without any, one workgroup runs.
///
/// `lens` has the elements of every buffer, by [`BufferId`].
pub fn default_grid(program: &ValidProgram, lens: &[u32]) -> [u32; 3] {
    let (parts, bound) = (program.parts(), &program.facts().bound);
    let len = |id: &BufferId| lens[id.index()];
    let output = bound.iter().find(|id| parts.buffer(**id).is_output()).map(len);
    let longest = || bound.iter().filter(|id| parts.buffer(**id).is_writable()).map(len).max();
    match output.or_else(longest) {
        None => [1, 1, 1],
        Some(elements) => {
            let groups = u64::from(elements).div_ceil(parts.workgroup_lanes().max(1));
            [groups as u32, 1, 1]
        }
    }
}

/// Where a program reads its grid from, if it says `indirect`: a buffer and the first of three elements.
pub fn indirect(parts: &ProgramParts) -> Option<(BufferId, u32)> {
    match parts.body.block.first() {
        Some(Node::IndirectDispatch { buffer, offset }) => Some((*buffer, *offset)),
        _ => None,
    }
}

/// The grid that an indirect dispatch reads from `bytes`, the contents of its buffer. Elements out of bounds read 0.
pub fn indirect_grid(offset: u32, bytes: &[u8]) -> [u32; 3] {
    [0, 1, 2].map(|axis| {
        let at = (offset as usize).saturating_add(axis).saturating_mul(4);
        let word = bytes.get(at..at.saturating_add(4));
        word.map_or(0, |word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
    })
}

/// Binds host bytes: one input for every bound buffer, or one for every bound buffer that is not an output. An output without
/// input starts at zero, with its size from `output_sizes` or from its declaration.
pub fn bind(
    program: &ValidProgram,
    input_lens: &[usize],
    output_sizes: &[usize],
) -> Result<Vec<Binding>, LaunchError> {
    let (parts, bound) = (program.parts(), &program.facts().bound);
    let outputs = bound.iter().filter(|id| parts.buffer(**id).is_output()).count();
    let all = input_lens.len() == bound.len();
    if !all && input_lens.len() != bound.len() - outputs {
        return Err(wrong_count("inputs", input_lens.len(), program));
    }
    if !output_sizes.is_empty() && output_sizes.len() != outputs {
        return Err(LaunchError::new(
            format!("{} output sizes for {outputs} outputs", output_sizes.len()),
            "give one size for each output in binding order, or none",
        ));
    }
    let (mut next_input, mut next_output) = (0, 0);
    let binding = |id: &BufferId| {
        let buffer = parts.buffer(*id);
        let output = buffer.is_output().then_some(next_output);
        next_output += usize::from(output.is_some());
        let input = (all || output.is_none()).then_some(next_input);
        next_input += usize::from(input.is_some());
        let size = output.and_then(|output| output_sizes.get(output)).copied();
        let declared = buffer.len.map(|len| len as usize * buffer.ty.bytes());
        let given = input.map(|input| input_lens[input]);
        let (input, byte_len) = match (given, size.or(declared)) {
            // An empty input for an output whose size is known stands for none.
            (Some(0), Some(size)) if output.is_some() && size > 0 => (None, size),
            (Some(given), Some(size)) if output.is_some() && given != size => {
                return Err(size_clash(&buffer.name, given, size));
            }
            (Some(given), _) => (input, given),
            (None, Some(size)) => (None, size),
            (None, None) => return Err(size_unknown(&buffer.name)),
        };
        Ok(Binding { buffer: *id, byte_len, input, output })
    };
    bound.iter().map(binding).collect()
}

/// Binds memory of these sizes, one for each bound buffer: all of it is input.
pub fn bind_all(program: &ValidProgram, byte_lens: &[usize]) -> Result<Vec<Binding>, LaunchError> {
    let (parts, bound) = (program.parts(), &program.facts().bound);
    if byte_lens.len() != bound.len() {
        return Err(wrong_count("buffers", byte_lens.len(), program));
    }
    let mut outputs = 0..;
    let binding = |(at, (id, byte_len)): (usize, (&BufferId, &usize))| {
        let output = parts.buffer(*id).is_output().then(|| outputs.next()).flatten();
        Binding { buffer: *id, byte_len: *byte_len, input: Some(at), output }
    };
    Ok(bound.iter().zip(byte_lens).enumerate().map(binding).collect())
}

fn size_clash(name: &str, given: usize, size: usize) -> LaunchError {
    LaunchError::new(
        format!("`@{name}` has an input of {given} bytes and an output size of {size}"),
        "leave the size out, or make both equal",
    )
}

fn size_unknown(name: &str) -> LaunchError {
    LaunchError::new(
        format!("the size of output `@{name}` is not known: it has no input and no declared length"),
        "set `DispatchConfig::output_sizes`, pass an input for it, or declare its length",
    )
}

fn wrong_count(what: &str, given: usize, program: &ValidProgram) -> LaunchError {
    let (parts, bound) = (program.parts(), &program.facts().bound);
    let name = |id: &BufferId| format!("@{}", parts.buffer(*id).name);
    let all: Vec<String> = bound.iter().map(name).collect();
    let needed: Vec<String> = bound.iter().filter(|id| !parts.buffer(**id).is_output()).map(name).collect();
    let without_outputs = match needed.len() == all.len() {
        true => String::new(),
        false => format!(", or {} without the outputs: {}", needed.len(), needed.join(", ")),
    };
    LaunchError::new(
        format!("{given} {what} for the {} bindings of `@{}`", all.len(), parts.name),
        format!("pass {} in this order: {}{without_outputs}", all.len(), all.join(", ")),
    )
}

/// Admits or refuses a launch. `read_grid` reads the grid of an indirect dispatch from the input of that number, at that
/// element.
pub fn admit<E: From<LaunchError>>(
    program: &ValidProgram,
    bindings: Vec<Binding>,
    grid: Option<[u32; 3]>,
    read_grid: impl FnOnce(usize, u32) -> Result<[u32; 3], E>,
) -> Result<Admission, E> {
    let parts = program.parts();
    let lens = element_counts(parts, &bindings)?;
    let grid = match (indirect(parts), grid) {
        (Some((buffer, _)), Some(_)) => {
            let name = &parts.buffer(buffer).name;
            let message = format!("a grid is given, and the program reads its grid from `@{name}`");
            return Err(LaunchError::new(message, "leave the grid out, or put it into that buffer").into());
        }
        (Some((buffer, offset)), None) => {
            let bound = bindings.iter().find(|binding| binding.buffer == buffer);
            let input = bound.and_then(|binding| binding.input).expect("validated: V040");
            read_grid(input, offset)?
        }
        (None, Some(grid)) => grid,
        (None, None) if program.facts().needs_grid => return Err(grid_missing(parts).into()),
        (None, None) => default_grid(program, &lens),
    };
    check_grid(parts, grid)?;
    Ok(Admission { program: program.clone(), grid, bindings, lens })
}

/// [`admit`] for buffers in host memory, one for each bound buffer.
pub fn admit_buffers<B: AsRef<[u8]>>(
    program: &ValidProgram,
    grid: Option<[u32; 3]>,
    buffers: &[B],
) -> Result<Admission, LaunchError> {
    let byte_lens: Vec<usize> = buffers.iter().map(|buffer| buffer.as_ref().len()).collect();
    let bindings = bind_all(program, &byte_lens)?;
    admit(program, bindings, grid, |input, offset| Ok(indirect_grid(offset, buffers[input].as_ref())))
}

fn element_counts(parts: &ProgramParts, bindings: &[Binding]) -> Result<Vec<u32>, LaunchError> {
    let mut lens: Vec<u32> = parts.buffers.iter().map(|buffer| buffer.len.unwrap_or(0)).collect();
    for binding in bindings {
        lens[binding.buffer.index()] = element_count(parts.buffer(binding.buffer), binding.byte_len as u64)?;
    }
    Ok(lens)
}

/// Refuses a grid of more lanes than indices can count.
pub fn check_grid(parts: &ProgramParts, grid: [u32; 3]) -> Result<(), LaunchError> {
    let groups = grid.iter().fold(1u128, |product, count| product * u128::from(*count));
    let lanes = groups * u128::from(parts.workgroup_lanes());
    if lanes > u128::from(LANES_MAX) {
        let [x, y, z] = grid;
        return Err(LaunchError::new(
            format!("a grid of ({x}, {y}, {z}) workgroups has {lanes} lanes, more than {LANES_MAX}"),
            "launch fewer workgroups, and let each lane do more in a loop",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Axis, BuiltinOp, DataType, Program};
    use crate::validate::validate;

    fn buffer(name: &str, kind: BufferKind, ty: DataType, len: Option<u32>) -> Buffer {
        Buffer { name: name.into(), kind, ty, len }
    }

    fn parts() -> ProgramParts {
        let mut parts = ProgramParts::new("p", [64, 1, 1]);
        let out = BufferKind::ReadWrite { binding: 5, output: true };
        parts.buffers = vec![
            buffer("late", out, DataType::U16, None),
            buffer("tile", BufferKind::Workgroup, DataType::U32, Some(9)),
            buffer("args", BufferKind::Read { binding: 1 }, DataType::U32, Some(4)),
            buffer("work", BufferKind::ReadWrite { binding: 2, output: false }, DataType::F64, None),
        ];
        parts
    }

    fn valid(parts: &ProgramParts) -> ValidProgram {
        validate(&Program::new(parts.clone()).expect("it seals")).expect("it is valid")
    }

    fn admit_sizes(
        parts: &ProgramParts,
        grid: Option<[u32; 3]>,
        sizes: [usize; 3],
    ) -> Result<Admission, String> {
        let buffers = sizes.map(|size| vec![0u8; size]);
        admit_buffers(&valid(parts), grid, &buffers).map_err(|error| error.to_string())
    }

    #[test]
    fn buffers_bind_in_the_order_of_their_bindings() {
        assert_eq!(bound_buffers(&parts()), [BufferId(2), BufferId(3), BufferId(0)]);
    }

    #[test]
    fn lens_and_grid_follow_from_the_bytes() {
        let admission = admit_sizes(&parts(), None, [16, 24, 130]).unwrap();
        assert_eq!((admission.grid, &admission.lens[..]), ([2, 1, 1], &[65, 9, 4, 3][..]));
        assert!(admission.bound_lens().eq([4, 3, 65]));
        assert_eq!(admit_sizes(&parts(), None, [16, 24, 0]).unwrap().grid, [0, 1, 1]);
        assert_eq!(admit_sizes(&parts(), Some([7, 8, 9]), [16, 24, 0]).unwrap().grid, [7, 8, 9]);
    }

    #[test]
    fn without_outputs_the_longest_writable_buffer_gives_the_grid() {
        let mut parts = parts();
        parts.buffers[0].kind = BufferKind::ReadWrite { binding: 5, output: false };
        assert_eq!(admit_sizes(&parts, None, [16, 8 * 65, 2]).unwrap().grid, [2, 1, 1]);
        parts.buffers.truncate(0);
        assert_eq!(default_grid(&valid(&parts), &[]), [1, 1, 1]);
    }

    #[test]
    fn a_program_in_two_dimensions_needs_a_grid() {
        let mut parts = parts();
        let op = BuiltinOp::GlobalId;
        let result = parts.body.new_value("y");
        parts.body.block.push(Node::Builtin { result, op, axis: Some(Axis::Y) });
        assert!(admit_sizes(&parts, None, [16, 24, 2]).unwrap_err().contains("--grid"));
        assert_eq!(admit_sizes(&parts, Some([1, 2, 1]), [16, 24, 2]).unwrap().grid, [1, 2, 1]);
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let cases = [
            (None, [16, 24, 3], "3 bytes", "bind 2 or 4 bytes"),
            (None, [20, 24, 2], "bound with 5 elements", "bind exactly 4 elements"),
            (Some([1 << 26, 1, 1]), [16, 24, 2], "4294967296 lanes", "fewer workgroups"),
        ];
        for (grid, sizes, message, fix) in cases {
            let error = admit_sizes(&parts(), grid, sizes).unwrap_err();
            assert!(error.contains(message) && error.contains(fix), "{error}");
        }
        let error = admit_buffers(&valid(&parts()), None, &[vec![0u8; 16]]).unwrap_err();
        assert!(error.fix.contains("@args, @work, @late"), "{error}");
    }

    #[test]
    fn an_indirect_grid_is_read_from_its_buffer() {
        let mut parts = parts();
        parts.body.block.push(Node::IndirectDispatch { buffer: BufferId(2), offset: 1 });
        let mut args = vec![9, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0];
        let rest = || [vec![0u8; 24], vec![0u8; 2]];
        let launch = |args: &Vec<u8>, grid| {
            let [work, late] = rest();
            admit_buffers(&valid(&parts), grid, &[args.clone(), work, late])
        };
        assert_eq!(launch(&args, None).unwrap().grid, [2, 3, 4]);
        args[12] = 0;
        assert_eq!(launch(&args, None).unwrap().grid, [2, 3, 0]);
        assert!(launch(&args, Some([1, 1, 1])).unwrap_err().fix.contains("leave the grid out"));
        assert_eq!(indirect_grid(2, &args), [3, 0, 0], "elements out of bounds read 0");
    }
}
