//! Reads an instruction's modifiers in the order that the PTX ISA writes them, and says what is wrong with them.
//!
//! A reader takes one modifier after another. What is left at the end is unknown, superfluous or out of order, so an
//! instruction that was not understood completely is never run. `ptxas` accepts some modifiers in other orders; this is
//! stricter.
//! Not here: what the instructions compute.

use super::exact::Rounding;
use super::{Scalar, Target, Type};

/// All types by their names in PTX.
const TYPES: [(&str, Type); 23] = [
    ("pred", Type::Pred),
    ("b8", Type::B8),
    ("b16", Type::B16),
    ("b32", Type::B32),
    ("b64", Type::B64),
    ("b128", Type::B128),
    ("u8", Type::U8),
    ("u16", Type::U16),
    ("u32", Type::U32),
    ("u64", Type::U64),
    ("s8", Type::S8),
    ("s16", Type::S16),
    ("s32", Type::S32),
    ("s64", Type::S64),
    ("u16x2", Type::U16x2),
    ("s16x2", Type::S16x2),
    ("f16", Type::F16),
    ("f16x2", Type::F16x2),
    ("bf16", Type::BF16),
    ("bf16x2", Type::BF16x2),
    ("tf32", Type::TF32),
    ("f32", Type::F32),
    ("f64", Type::F64),
];

/// The roundings of floats.
const FLOAT_ROUNDINGS: [(&str, Rounding); 4] =
    [("rn", Rounding::Nearest), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];

/// The roundings to integers.
const INTEGER_ROUNDINGS: [(&str, Rounding); 4] =
    [("rni", Rounding::Nearest), ("rzi", Rounding::Zero), ("rmi", Rounding::Down), ("rpi", Rounding::Up)];

/// Modifiers of an instruction, from left to right.
pub(super) struct Reader<'a> {
    /// The instruction's name.
    pub(super) opcode: &'a str,
    rest: &'a [&'a str],
    target: Target,
}

impl<'a> Reader<'a> {
    pub(super) fn new(opcode: &'a str, modifiers: &'a [&'a str], target: Target) -> Reader<'a> {
        Reader { opcode, rest: modifiers, target }
    }

    /// The modifiers that were not taken yet.
    pub(super) fn rest(&self) -> &'a [&'a str] {
        self.rest
    }

    /// The type that the last modifier names.
    pub(super) fn last_type(&self) -> Option<Type> {
        self.rest.last().and_then(|name| named(name))
    }

    /// Takes the next modifier if it has this name.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        self.one_of(&[(name, ())]).is_some()
    }

    /// Takes the next modifier if the table has it.
    pub(super) fn one_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let (first, rest) = self.rest.split_first()?;
        let (_, value) = table.iter().find(|(name, _)| name == first)?;
        self.rest = rest;
        Some(*value)
    }

    /// Takes the next modifier, which must be in the table.
    pub(super) fn required<T: Copy>(&mut self, what: &str, table: &[(&str, T)]) -> Result<T, String> {
        self.one_of(table).ok_or_else(|| match self.rest.first() {
            Some(other) => self.unexpected(other, what),
            None => format!("{what} required for instruction '{}'", self.opcode),
        })
    }

    /// Takes the next modifier, which must be one of these types.
    pub(super) fn ty(&mut self, allowed: &[Type]) -> Result<Type, String> {
        let Some((first, rest)) = self.rest.split_first() else {
            return Err(format!("Type modifier required for instruction '{}'", self.opcode));
        };
        match named(first) {
            Some(ty) if allowed.contains(&ty) => {
                self.rest = rest;
                Ok(ty)
            }
            Some(_) => {
                Err(format!("Unexpected instruction type '.{first}' for instruction '{}'", self.opcode))
            }
            None => Err(self.unexpected(first, "Type modifier")),
        }
    }

    /// Takes `.rn`, `.rz`, `.rm` or `.rp`.
    pub(super) fn rounding(&mut self) -> Option<Rounding> {
        self.one_of(&FLOAT_ROUNDINGS)
    }

    /// Takes `.rni`, `.rzi`, `.rmi` or `.rpi`.
    pub(super) fn integer_rounding(&mut self) -> Option<Rounding> {
        self.one_of(&INTEGER_ROUNDINGS)
    }

    /// Takes a rounding of floats, which the instruction must have.
    pub(super) fn required_rounding(&mut self) -> Result<Rounding, String> {
        self.required("Rounding modifier", &FLOAT_ROUNDINGS)
    }

    /// Requires a version of PTX (major * 10 + minor) and of the target.
    pub(super) fn needs(&self, feature: &str, version: u32, sm: u32) -> Result<(), String> {
        if self.target.version < version {
            let (major, minor) = (version / 10, version % 10);
            return Err(format!("Feature '{feature}' requires PTX ISA .version {major}.{minor} or later"));
        }
        if self.target.sm < sm {
            return Err(format!("Feature '{feature}' requires .target sm_{sm} or higher"));
        }
        Ok(())
    }

    /// Refuses a combination.
    pub(super) fn illegal<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("Illegal modifier '{what}' for instruction '{}'", self.opcode))
    }

    /// Checks that nothing is left and that the text has this many operands.
    pub(super) fn finish(&self, scalar: &Scalar, operand_count: usize) -> Result<(), String> {
        if let Some(extra) = self.rest.first() {
            return Err(self.unexpected(extra, "No further modifier"));
        }
        if scalar.sources.len() + 1 != operand_count {
            return Err(format!(
                "Arguments mismatch for instruction '{}': {} operands, not {operand_count}",
                self.opcode,
                scalar.sources.len() + 1
            ));
        }
        Ok(())
    }

    fn unexpected(&self, modifier: &str, wanted: &str) -> String {
        match named(modifier) {
            Some(_) => format!("Unexpected instruction type '.{modifier}' for instruction '{}'", self.opcode),
            None => {
                format!("Unknown modifier '.{modifier}' for instruction '{}': {wanted} expected", self.opcode)
            }
        }
    }
}

fn named(name: &str) -> Option<Type> {
    TYPES.iter().find(|(text, _)| *text == name).map(|(_, ty)| *ty)
}
