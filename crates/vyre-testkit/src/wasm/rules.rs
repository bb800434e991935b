//! Where the language's answers differ from WebAssembly's, and what the answer is here.
//!
//! A rule looks at a function's last instruction and its operands' values. The answers are spelled out here, not
//! taken from the implementation under test.

use super::lower::{Function, value_of};
use std::fmt;
use vyre_foundation::ir::DataType;

/// What a row expects.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// These bits.
    Bits(u64),
    /// A NaN, whichever.
    Nan,
    /// A trap with this message.
    Trap(String),
}

/// A difference between the two languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Integer division by zero.
    DivisionByZero,
    /// Integer remainder by zero.
    RemainderByZero,
    /// The least integer divided by -1.
    QuotientOverflow,
    /// A float out of the range of the integer type.
    ConversionOverflow,
    /// NaN to integer.
    ConversionOfNan,
    /// The bits of a NaN.
    NanBits,
    /// NaN reinterpreted as an integer.
    BitcastOfNan,
    /// The minimum or maximum of a number and NaN.
    MinMaxOfNan,
    /// The sign of a NaN.
    CopysignOfNan,
}

impl Rule {
    /// Every difference.
    pub const ALL: [Rule; 9] = [
        Rule::DivisionByZero,
        Rule::RemainderByZero,
        Rule::QuotientOverflow,
        Rule::ConversionOverflow,
        Rule::ConversionOfNan,
        Rule::NanBits,
        Rule::BitcastOfNan,
        Rule::MinMaxOfNan,
        Rule::CopysignOfNan,
    ];
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::DivisionByZero => "x / 0 traps there, is x here",
            Rule::RemainderByZero => "x % 0 traps there, is 0 here",
            Rule::QuotientOverflow => "MIN / -1 traps there, is MIN here",
            Rule::ConversionOverflow => "float to integer out of range traps there, saturates here",
            Rule::ConversionOfNan => "NaN to integer traps there, is 0 here",
            Rule::NanBits => "a NaN's sign and payload are kept there, canonical here",
            Rule::BitcastOfNan => "reinterpreting a NaN keeps its bits there, shows the canonical NaN here",
            Rule::MinMaxOfNan => "min and max of a number and NaN are NaN there, the number here",
            Rule::CopysignOfNan => "copysign takes a NaN's sign there, reads it as plus here",
        })
    }
}

/// A row's expectation in this language, and the rule that changed it.
pub fn translate(
    function: &Function,
    params: &[u64],
    theirs: Expected,
) -> Result<(Expected, Option<Rule>), String> {
    let values = function.run(params);
    let (name, operands) = match &function.last {
        Some((name, operands)) => (name.as_str(), operands.as_slice()),
        None => ("", [].as_slice()),
    };
    let operand =
        |i: usize| Operand::new(function.type_of(operands[i]), value_of(operands[i], params, &values));
    let result = function.type_of(function.result);
    if let Expected::Trap(message) = &theirs {
        let (answer, rule) = trap(name, message, result, operand).ok_or(format!("trap: {message}"))?;
        return Ok((Expected::Bits(answer), Some(rule)));
    }
    if name == "min" || name == "max" {
        let (a, b) = (operand(0), operand(1));
        if a.is_nan() != b.is_nan() {
            let number = if a.is_nan() { b } else { a };
            return Ok((Expected::Bits(number.bits), Some(Rule::MinMaxOfNan)));
        }
    }
    if name == "copysign" && operand(1).is_nan() && !operand(0).is_nan() {
        return Ok((Expected::Bits(operand(0).magnitude()), Some(Rule::CopysignOfNan)));
    }
    if name.starts_with("reinterpret_f") && operand(0).is_nan() {
        let canonical = operand(0).ty.canonical_nan().expect("a float");
        let rule = (theirs != Expected::Bits(canonical)).then_some(Rule::BitcastOfNan);
        return Ok((Expected::Bits(canonical), rule));
    }
    match theirs {
        Expected::Bits(bits) if Operand::new(result, bits).is_nan() => {
            Ok((Expected::Nan, (Some(bits) != result.canonical_nan()).then_some(Rule::NanBits)))
        }
        other => Ok((other, None)),
    }
}

/// What a trapping instruction gives here.
fn trap(
    name: &str,
    message: &str,
    result: DataType,
    operand: impl Fn(usize) -> Operand,
) -> Option<(u64, Rule)> {
    let (stem, is_signed) = (name.rsplit_once('_')?.0, name.ends_with("_s"));
    Some(match (stem, message) {
        ("div", "integer divide by zero") => (operand(0).bits, Rule::DivisionByZero),
        ("rem", "integer divide by zero") => (0, Rule::RemainderByZero),
        ("div", "integer overflow") => (operand(0).bits, Rule::QuotientOverflow),
        ("trunc_f32" | "trunc_f64", "invalid conversion to integer") => (0, Rule::ConversionOfNan),
        ("trunc_f32" | "trunc_f64", "integer overflow") => {
            let top = 1 << (result.bits() - 1);
            let limit = match (is_signed, operand(0).is_negative()) {
                (true, true) => top,
                (true, false) => top - 1,
                (false, true) => 0,
                (false, false) => result.mask(),
            };
            (limit, Rule::ConversionOverflow)
        }
        _ => return None,
    })
}

#[derive(Clone, Copy)]
struct Operand {
    ty: DataType,
    bits: u64,
}

impl Operand {
    fn new(ty: DataType, bits: u64) -> Operand {
        Operand { ty, bits }
    }

    fn magnitude(self) -> u64 {
        self.bits & self.ty.mask() >> 1
    }

    fn is_negative(self) -> bool {
        self.magnitude() != self.bits
    }

    fn is_nan(self) -> bool {
        match self.ty {
            DataType::F32 => f32::from_bits(self.bits as u32).is_nan(),
            DataType::F64 => f64::from_bits(self.bits).is_nan(),
            _ => false,
        }
    }
}
