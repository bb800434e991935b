//! A failed case, with what the backend's author needs to fix it.

use crate::batch::{Level, Track};
use std::fmt;

macro_rules! causes {
    ($( $variant:ident $name:literal, $fix:literal; )*) => {
        /// The likely cause of a failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Cause { $( #[doc = $fix] $variant, )* }

        impl Cause {
            /// Every cause.
            pub const ALL: &'static [Cause] = &[$( Cause::$variant, )*];

            /// The code in reports; it never changes.
            pub const fn code(self) -> &'static str {
                match self { $( Cause::$variant => $name, )* }
            }

            /// What to do about it.
            pub const fn fix(self) -> &'static str {
                match self { $( Cause::$variant => $fix, )* }
            }
        }
    };
}

causes! {
    FlushedSubnormals "flushed-subnormals", "turn off flush-to-zero and denormals-are-zero for this type, or compute it in integers";
    FusedMultiplyAdd "fused-multiply-add", "keep `mul` and `add` apart: forbid contraction in the compiler you call";
    UnfusedMultiplyAdd "unfused-multiply-add", "round `fma` once: use a true fused instruction or a wider intermediate with round-to-odd";
    WrongRounding "wrong-rounding", "round to nearest, ties to even, once; no approximate division or square root";
    NanBits "nan-bits", "store the canonical NaN (0x7FC00000 and its counterparts) in storage buffers and after `bitcast`";
    NanComparison "nan-comparison", "comparisons with NaN are false and `ne` is true; `min` and `max` prefer the number";
    SignedZero "signed-zero", "keep the sign of zero, and order -0 below +0 in `min` and `max`";
    UnmaskedShift "unmasked-shift", "take shift and rotation amounts modulo the width";
    Signedness "signedness", "use the signed or unsigned form that the type names, also when extending and comparing";
    IntegerOverflow "integer-overflow", "wrap integers, and saturate only in `add_sat`, `sub_sat` and float-to-integer casts, where NaN gives 0";
    WideInteger "wide-integer", "carry between the two 32-bit halves of a 64-bit integer, and use both halves of every operand and result";
    DivisionByZero "division-by-zero", "give `x / 0 = x`, `x % 0 = 0`, `MIN / -1 = MIN`, `MIN % -1 = 0`";
    BoundaryComparison "boundary-comparison", "check which of `<` and `<=` is meant, and off-by-one limits";
    WrongOp "wrong-op", "compare the code emitted for this op with its line in the language's table of ops";
    NotRun "not-run", "launch the kernel: the output is what it was before";
    Echo "echo", "read back the output buffer, not the input";
    StaleOutput "stale-output", "clear or write the whole output for each dispatch; bytes of an earlier one came back";
    CachedResult "cached-result", "run every dispatch: a result was kept by something that does not determine it (length, address, name)";
    StateLeak "state-leak", "make each dispatch independent: reset buffers, bindings and memory between dispatches";
    WrongLength "wrong-length", "return exactly `output_size` bytes: no padding, nothing missing";
    Layout "layout", "place outputs as the convention says: by ascending binding, each at a multiple of 8, elements little-endian and in order";
    UnwrittenOutput "unwritten-output", "bytes that no lane writes are zero, or the input's where the buffer has one; nothing else may show";
    MissingWorkgroups "missing-workgroups", "launch every workgroup of the grid, the last one included";
    MissingLanes "missing-lanes", "run every lane of each workgroup, also where the count is not a multiple of the hardware's width";
    ExtraLanes "extra-lanes", "launch no more workgroups and lanes than the grid has";
    WrongIds "wrong-ids", "check how ids and counts are formed: x first, then y, then z";
    OutOfBounds "out-of-bounds", "a load out of bounds yields 0, a store or atomic does nothing; check byte lengths and offsets";
    UnzeroedWorkgroupMemory "unzeroed-workgroup-memory", "zero workgroup memory at the start of every workgroup";
    NonAtomic "non-atomic", "make atomics one indivisible step, visible to all lanes";
    MissingBarrier "missing-barrier", "order workgroup and storage memory at every barrier";
    SubgroupWidth "subgroup-width", "run subgroup ops over the declared logical width, in the order the language gives";
    NarrowStore "narrow-store", "write only an element's own bytes; neighbours in the same word belong to other lanes";
    Lookup "lookup", "bind the lookup data of this dispatch at its binding";
    Params "params", "fill the params with this dispatch's input and output sizes";
    Nondeterminism "nondeterminism", "find the race or uninitialized value: the same dispatch gave other bytes when repeated";
    SpecialCased "special-cased", "compile the program you are given: a renamed or changed twin gives other bytes";
    ThreadSafety "thread-safety", "guard shared state: dispatches from several threads mixed";
    Refused "refused", "support every valid program within the limits you publish";
    NoFix "no-fix", "end every error with `Fix:` and what the reader can do";
    Panicked "panicked", "return an error instead of panicking";
    BelowFloor "below-floor", "support the suite's least limits: 256 lanes, 16 KiB of workgroup memory, 128 MiB buffers, 65,535 workgroups along an axis";
    Trap "trap", "report the recorded trap that is first in the program, with its code, and return no outputs";
    Incomplete "incomplete", "run all of a level for a certificate: no filter, no single shard, no cancellation";
    DriverContract "driver-contract", "see the driver contract: docs/add-a-backend.md";
    Unknown "unknown", "compare the minimal program's bytes with the reference's; replay the case to see them again";
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// The first element that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The buffer's name.
    pub buffer: String,
    /// The element's number.
    pub element: usize,
    /// Its value on the reference, decoded, with its bits.
    pub expected: String,
    /// Its value on the backend.
    pub actual: String,
    /// How many elements differ in all.
    pub count: usize,
}

/// A case that a backend fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParityFailure {
    /// The case's name.
    pub case: String,
    /// The level that the backend misses by it.
    pub level: Level,
    /// The track it belongs to.
    pub track: Track,
    /// The likely cause.
    pub cause: Cause,
    /// What happened, in a sentence.
    pub message: String,
    /// The smallest program found that still fails, as text.
    pub program: String,
    /// The workgroups it was launched with.
    pub grid: [u32; 3],
    /// The initial contents of each bound buffer, by name.
    pub inputs: Vec<(String, Vec<u8>)>,
    /// The output bytes of the reference, one buffer after the other; empty if it expects an error.
    pub expected: Vec<u8>,
    /// The output bytes of the backend; empty if there were none.
    pub actual: Vec<u8>,
    /// The first element that differs, if both sides have bytes of the same length.
    pub difference: Option<Difference>,
    /// How to run just this case.
    pub replay: String,
}

impl ParityFailure {
    /// A failure that no program shows.
    pub(crate) fn without_program(
        case: &str,
        (level, track): (Level, Track),
        cause: Cause,
        message: String,
        replay: String,
    ) -> ParityFailure {
        ParityFailure {
            case: case.into(),
            level,
            track,
            cause,
            message,
            program: String::new(),
            grid: [0; 3],
            inputs: Vec::new(),
            expected: Vec::new(),
            actual: Vec::new(),
            difference: None,
            replay,
        }
    }

    /// What to do about it.
    pub const fn fix(&self) -> &'static str {
        self.cause.fix()
    }
}

impl fmt::Display for ParityFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FAIL {} [{} track, level {}]", self.case, self.track, self.level)?;
        writeln!(f, "  {}", self.message)?;
        if let Some(Difference { buffer, element, expected, actual, count }) = &self.difference {
            let differ = if *count == 1 { "element differs" } else { "elements differ" };
            writeln!(f, "  @{buffer}[{element}]: expected {expected}, got {actual}; {count} {differ}")?;
        }
        if !self.program.is_empty() {
            writeln!(f, "  the smallest program found that fails, grid {:?}:", self.grid)?;
            self.program.lines().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        if !self.replay.is_empty() {
            writeln!(f, "  again: {}", self.replay)?;
        }
        write!(f, "  cause: {}\n  Fix: {}", self.cause, self.fix())
    }
}

impl std::error::Error for ParityFailure {}
