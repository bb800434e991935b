//! What a buffer starts with, written in a few characters, and the `//@` directives that use it.
//!
//! | SPEC | contents |
//! | --- | --- |
//! | `[1, 2, 3]` | those elements, written as literals of the buffer's type |
//! | `[0; 1000]` | one element 1000 times |
//! | `hex"00 ff"` | raw little-endian bytes; spaces and `_` may separate digits |
//! | `@file.bin` | the raw little-endian bytes of a file |
//! | `rand(seed=7, count=4096)` | random elements, the same everywhere; without a count the declared length |
//!
//! # Random elements
//! Element `i` comes from one 64-bit word, the `i`-th output of SplitMix64 with the seed as its first state:
//! ```text
//! z = seed + (i + 1) * 0x9e3779b97f4a7c15
//! z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9
//! z = (z ^ z >> 27) * 0x94d049bb133111eb
//! z = z ^ z >> 31
//! ```
//! An integer of `w` bits is the low `w` bits of the word: uniform over all values of its type. A float with `p` bits of
//! precision (f32 24, f64 53, f16 11, bf16 8) is `(z >> (64 - p)) * 2^(1 - p) - 1`: uniform over the multiples of
//! 2^(1 - p) in [-1, 1), each exact.
//!
//! # Bounds
//! A SPEC describes at most [`BYTES_MAX`] bytes; more is refused before anything is allocated.
//! Not here: running anything. See [`host`](crate::host) and [`filetest`](crate::filetest).

mod directive;
mod scan;

pub use directive::{Directives, Expect, ExpectedError, Opt, RULE, Run, directives};

use scan::Scanner;
use std::io::Read;
use std::path::{Path, PathBuf};
use vyre_foundation::ir::{Buffer, DataType, int_or_bool};
use vyre_foundation::random::word_at;
use vyre_foundation::text::parse_literal;

/// The most bytes that a SPEC describes.
pub const BYTES_MAX: u64 = 1 << 30;

/// Why a SPEC cannot be read or filled in, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  Fix: {fix}")]
pub struct SpecError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
    /// What kind of thing it is.
    pub kind: SpecErrorKind,
}

/// What a SPEC failed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecErrorKind {
    /// The SPEC itself is wrong.
    Spec,
    /// The file that it names cannot be read.
    File,
    /// There is no memory for what it describes.
    Memory,
}

impl SpecError {
    pub(crate) fn new(message: impl Into<String>, fix: impl Into<String>) -> SpecError {
        SpecError { message: message.into(), fix: fix.into(), kind: SpecErrorKind::Spec }
    }
}

/// The contents of a buffer, in short.
///
/// ```
/// use vyre::{ir::DataType, spec::Spec};
/// let spec = Spec::parse("[1, 2, 0xff]").unwrap();
/// assert_eq!(spec.bytes(DataType::U8, None, ".".as_ref()).unwrap(), [1, 2, 255]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// `[1, 2, 3]`
    List(Vec<String>),
    /// `[0; 1000]`
    Repeat {
        /// The literal.
        element: String,
        /// How often.
        count: u64,
    },
    /// `hex"00ff"`
    Hex(Vec<u8>),
    /// `@file.bin`
    File(PathBuf),
    /// `rand(seed=7, count=4096)`
    Rand {
        /// The generator's first state.
        seed: u64,
        /// The number of elements; `None` for the declared length.
        count: Option<u64>,
    },
}

impl Spec {
    /// Reads a SPEC that is all of `text`.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        // On a command line a file name may have spaces; in a directive it ends at the first.
        if let Some(path) = text.strip_prefix('@') {
            return Spec::file(path);
        }
        let mut scanner = Scanner::new(text);
        let spec = Spec::scan(&mut scanner)?;
        scanner.end()?;
        Ok(spec)
    }

    fn file(path: &str) -> Result<Spec, SpecError> {
        if path.is_empty() {
            return Err(SpecError::new("`@` names no file", "write the file after it: `@input.bin`"));
        }
        Ok(Spec::File(path.into()))
    }

    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Spec, SpecError> {
        if scanner.eat("@") {
            return Spec::file(scanner.until_space());
        }
        if scanner.eat("hex\"") {
            return scan::hex(scanner);
        }
        if scanner.eat("rand(") {
            return scan::rand(scanner);
        }
        if scanner.eat("[") {
            return scan::list(scanner);
        }
        let shown = scanner.shown();
        let fix = match shown.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            true => format!("write a list: `[{shown}]`"),
            false => {
                "write `[1, 2, 3]`, `[0; 1000]`, `hex\"00ff\"`, `@file.bin` or `rand(seed=7, count=4096)`"
                    .into()
            }
        };
        Err(SpecError::new(format!("`{shown}` is not an input"), fix))
    }

    /// The bytes of a buffer with elements `ty`. Files are found from `folder`.
    pub fn bytes(&self, ty: DataType, declared: Option<u32>, folder: &Path) -> Result<Vec<u8>, SpecError> {
        match self {
            Spec::List(items) => {
                let mut bytes = reserve(items.len() as u64, ty)?;
                for item in items {
                    push(&mut bytes, ty, literal(item, ty)?);
                }
                Ok(bytes)
            }
            Spec::Repeat { element, count } => {
                let bits = literal(element, ty)?;
                let mut bytes = reserve(*count, ty)?;
                (0..*count).for_each(|_| push(&mut bytes, ty, bits));
                Ok(bytes)
            }
            Spec::Hex(bytes) => Ok(bytes.clone()),
            Spec::File(path) => read(&folder.join(path)),
            Spec::Rand { seed, count } => {
                let count = count.or(declared.map(u64::from)).ok_or_else(|| {
                    SpecError::new(
                        "`rand` has no count and the buffer no declared length",
                        "write `rand(seed=7, count=4096)`",
                    )
                })?;
                let mut bytes = reserve(count, ty)?;
                (0..count).for_each(|i| push(&mut bytes, ty, random(ty, *seed, i)));
                Ok(bytes)
            }
        }
    }

    /// The bytes for `buffer`. Files are found from `folder`.
    pub fn bytes_for(&self, buffer: &Buffer, folder: &Path) -> Result<Vec<u8>, SpecError> {
        self.bytes(buffer.ty, buffer.len, folder)
    }
}

/// Room for `count` elements, or the error that they are too many.
fn reserve(count: u64, ty: DataType) -> Result<Vec<u8>, SpecError> {
    let (mut room, bytes) = (Vec::new(), bytes_of(count, ty)?);
    room.try_reserve_exact(bytes).map_err(|_| out_of_memory(format!("{count} elements of {ty}"), bytes))?;
    Ok(room)
}

fn out_of_memory(what: String, bytes: usize) -> SpecError {
    SpecError {
        message: format!("out of memory: {what} are {bytes} bytes"),
        fix: "ask for fewer elements, or give the process more memory".into(),
        kind: SpecErrorKind::Memory,
    }
}

/// The size of `count` elements, or the error that they are too many.
pub(crate) fn bytes_of(count: u64, ty: DataType) -> Result<usize, SpecError> {
    let size = ty.bytes().max(1) as u64;
    match count.checked_mul(size).filter(|bytes| *bytes <= BYTES_MAX) {
        Some(bytes) => Ok(bytes as usize),
        None => Err(SpecError::new(
            format!("{count} elements of {ty} are more than the limit of {BYTES_MAX} bytes a buffer"),
            format!("ask for at most {} elements", BYTES_MAX / size),
        )),
    }
}

fn push(bytes: &mut Vec<u8>, ty: DataType, bits: u64) {
    bytes.extend_from_slice(&bits.to_le_bytes()[..ty.bytes()]);
}

/// The bits of an element's literal.
fn literal(text: &str, ty: DataType) -> Result<u64, SpecError> {
    let literal = parse_literal(text, ty).map_err(|error| SpecError::new(error.message, error.fix))?;
    Ok(literal.bits())
}

fn read(path: &Path) -> Result<Vec<u8>, SpecError> {
    let refuse =
        |message: String, fix: &str| SpecError { message, fix: fix.into(), kind: SpecErrorKind::File };
    let shown = path.display();
    let size = std::fs::metadata(path).and_then(|about| match about.is_dir() {
        true => Err(std::io::ErrorKind::IsADirectory.into()),
        false => Ok(about.len()),
    });
    let size =
        size.map_err(|error| refuse(format!("cannot read {shown}: {error}"), "name a file that exists"))?;
    let too_large = |bytes: String| {
        let message = format!("{shown} has {bytes} bytes, more than the limit of {BYTES_MAX}");
        refuse(message, "split the file over several runs")
    };
    if size > BYTES_MAX {
        return Err(too_large(size.to_string()));
    }
    // A device has no length of its own, so the limit holds while reading too.
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        refuse(format!("cannot read {shown}: {error}"), "check that you may read the file")
    })?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(too_large("unlimited".into())),
        false => Ok(bytes),
    }
}

/// The bits of a random element, as the module describes them.
fn random(ty: DataType, seed: u64, i: u64) -> u64 {
    let z = word_at(seed, i);
    // Both steps are exact: the integer has p bits, and the difference is a multiple of 2^(1 - p) below 1.
    let unit = |p: u32| (z >> (64 - p)) as f64 * 2f64.powi(1 - p as i32) - 1.0;
    match ty {
        DataType::F16 => u64::from(half::f16::from_f64(unit(11)).to_bits()),
        DataType::BF16 => u64::from(half::bf16::from_f64(unit(8)).to_bits()),
        DataType::F32 => u64::from((unit(24) as f32).to_bits()),
        DataType::F64 => unit(53).to_bits(),
        int_or_bool!() => z & ty.mask(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str, ty: DataType) -> Result<Vec<u8>, SpecError> {
        Spec::parse(text)?.bytes(ty, Some(2), Path::new("."))
    }

    #[test]
    fn specs_become_bytes() {
        let cases: &[(&str, DataType, &[u8])] = &[
            ("[]", DataType::U32, &[]),
            ("[1, 258]", DataType::U16, &[1, 0, 2, 1]),
            ("[ -1 , 2, ]", DataType::I8, &[255, 2]),
            ("[1.5; 2]", DataType::F32, &[0, 0, 192, 63, 0, 0, 192, 63]),
            ("[nan(0x7fc00001)]", DataType::F32, &[1, 0, 192, 127]),
            ("[0; 0]", DataType::U64, &[]),
            ("hex\"00 ff_7F\"", DataType::U8, &[0, 255, 127]),
            // The generator's published first outputs: 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4.
            ("rand(seed=0)", DataType::U32, &[0xaf, 0xcd, 0x1d, 0x7b, 0xf4, 0x65, 0xb9, 0xa1]),
        ];
        for (text, ty, expected) in cases {
            assert_eq!(&bytes(text, *ty).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn random_floats_lie_in_their_interval_and_repeat() {
        for ty in [DataType::F16, DataType::BF16, DataType::F32, DataType::F64] {
            let once = bytes("rand(seed=3, count=1000)", ty).unwrap();
            assert_eq!(once, bytes("rand(count=1000, seed=3)", ty).unwrap());
            assert_eq!(once.len(), 1000 * ty.bytes());
        }
        for i in 0..1000 {
            let x = f32::from_bits(random(DataType::F32, 9, i) as u32);
            assert!((-1.0..1.0).contains(&x), "{x}");
        }
    }

    #[test]
    fn wrong_specs_say_what_to_do() {
        let cases = [
            ("", DataType::U32, "not an input", "[1, 2, 3]"),
            ("[1, 2", DataType::U32, "ends inside", "]"),
            ("[1 2]", DataType::U32, "`1 2`", ""),
            ("[1, , 2]", DataType::U32, "empty", ""),
            ("[1; many]", DataType::U32, "`many` is not a count", ""),
            ("[1] [2]", DataType::U32, "follows", ""),
            ("[1.5]", DataType::U32, "1.5", ""),
            ("[256]", DataType::U8, "256", ""),
            ("[0; 4000000000]", DataType::U32, "limit of 1073741824 bytes", "at most 268435456 elements"),
            (
                "rand(seed=1, count=99999999999)",
                DataType::U8,
                "limit of 1073741824 bytes",
                "at most 1073741824",
            ),
            ("rand(seed=1, count=18446744073709551615)", DataType::U64, "limit of", "at most"),
            ("rand(count=3)", DataType::U8, "no seed", "seed=7"),
            ("rand(seed=1, colour=3)", DataType::U8, "colour", "seed"),
            ("hex\"0\"", DataType::U8, "odd", ""),
            ("hex\"zz\"", DataType::U8, "`z`", ""),
            ("hex\"00", DataType::U8, "ends inside", ""),
            ("@", DataType::U8, "names no file", "@input.bin"),
            ("@no such file", DataType::U8, "no such file", "exists"),
            ("@.", DataType::U8, "cannot read", "exists"),
        ];
        for (text, ty, message, fix) in cases {
            let error = bytes(text, ty).expect_err(text);
            assert!(error.message.contains(message) && error.fix.contains(fix), "{text}: {error}");
        }
    }
}
