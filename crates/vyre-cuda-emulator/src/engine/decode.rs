//! From the tree to operations: what each instruction means, and whether it is one that the ISA knows.
//!
//! Instructions on registers alone are looked up in `alu`; here are moves, memory, flow and what threads do together. Any
//! form that is not listed is an error with its line, as from `ptxas`.

use super::code::{Constant, Kind, NOWHERE, Op, Slot, Space, Special};
use super::flow;
use super::forms::{self, Modifiers};
use super::layout::{Frame, Layout};
use crate::alu::{self, Target, Type};
use crate::ptx::{Entry, Error, Instruction, Operand, Statement, type_bits};
use std::collections::HashMap;

/// The constant that PTX defines.
pub(super) const WARP_SIZE: &str = "WARP_SZ";
/// Branches times registers, which is what the analysis of a kernel takes.
const FLOW_MAX: u64 = 1 << 32;
/// Bytes of parameters that every target has.
const PARAM_BYTES_OLD: u32 = 4352;

/// A kernel being decoded. Registers have numbers, then constants have.
pub(super) struct Decoder<'a> {
    pub(super) target: Target,
    pub(super) layout: &'a Layout,
    pub(super) frame: Frame,
    registers: HashMap<&'a str, (Slot, Type)>,
    pub(super) types: Vec<Type>,
    constants: HashMap<Constant, Slot>,
    pub(super) ops: Vec<Op>,
    labels: HashMap<&'a str, u32>,
    /// Branches whose label comes later: the operation, the label and the line.
    branches: Vec<(usize, &'a str, u32)>,
    pub(super) line: u32,
    /// The instruction's name.
    pub(super) opcode: &'a str,
}

pub(super) type Decoded<T> = Result<T, String>;

/// Decodes a kernel's body.
pub(super) fn decode(entry: &Entry, layout: &Layout, target: Target) -> Result<flow::Body, Error> {
    let frame = Frame::of(entry, layout)?;
    if frame.param_bytes > PARAM_BYTES_OLD && (target.version < 81 || target.sm < 70) {
        let message =
            format!("more than {PARAM_BYTES_OLD} bytes of parameters need .version 8.1 and .target sm_70");
        return Err(Error { line: entry.line, message });
    }
    let mut decoder = Decoder {
        target,
        layout,
        frame,
        registers: HashMap::new(),
        types: Vec::new(),
        constants: HashMap::new(),
        ops: Vec::new(),
        labels: HashMap::new(),
        branches: Vec::new(),
        line: entry.line,
        opcode: "",
    };
    for (name, ty) in &entry.registers {
        let slot = decoder.types.len() as Slot;
        decoder.types.push(register_type(ty));
        decoder.registers.insert(name, (slot, register_type(ty)));
    }
    for statement in &entry.body {
        match statement {
            Statement::Label(name) => {
                if decoder.labels.insert(name, decoder.ops.len() as u32).is_some() {
                    return Err(decoder.error(format!("Duplicate definition of label '{name}'")));
                }
            }
            Statement::Instruction(instruction) => {
                decoder.line = instruction.line;
                decoder.opcode = &instruction.opcode;
                decoder.instruction(instruction).map_err(|message| decoder.error(message))?;
            }
        }
    }
    // A body that runs out ends.
    decoder.push(Kind::Exit, vec![], vec![], None);
    for (op, label, line) in std::mem::take(&mut decoder.branches) {
        let Some(target) = decoder.labels.get(label) else {
            return Err(Error { line, message: format!("Label '{label}' is not defined") });
        };
        decoder.ops[op].kind = Kind::Branch(*target);
    }
    let jumps = decoder.ops.iter().filter(|op| matches!(op.kind, Kind::Branch(_) | Kind::Exit | Kind::Trap));
    if jumps.count() as u64 * decoder.types.len() as u64 > FLOW_MAX {
        return Err(Error { line: entry.line, message: "the kernel is too large for this emulator".into() });
    }
    let frame = decoder.frame;
    Ok(flow::Body {
        ops: decoder.ops,
        types: decoder.types,
        constants: decoder.constants.into_iter().map(|(constant, slot)| (slot, constant)).collect(),
        frame,
    })
}

fn register_type(ty: &str) -> Type {
    match ty {
        "pred" => Type::Pred,
        "u8" => Type::U8,
        "s8" => Type::S8,
        "u16" => Type::U16,
        "s16" => Type::S16,
        "u32" => Type::U32,
        "s32" => Type::S32,
        "u64" => Type::U64,
        "s64" => Type::S64,
        "f16" => Type::F16,
        "bf16" => Type::BF16,
        "f16x2" => Type::F16x2,
        "bf16x2" => Type::BF16x2,
        "f32" => Type::F32,
        "f64" => Type::F64,
        other => match type_bits(other) {
            Some(8) => Type::B8,
            Some(16) => Type::B16,
            Some(32) => Type::B32,
            _ => Type::B64,
        },
    }
}

/// How many bits a register of the type has.
pub(super) const fn bits(ty: Type) -> u32 {
    match ty {
        Type::Pred => 1,
        Type::B8 | Type::U8 | Type::S8 => 8,
        Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::BF16 => 16,
        Type::B32 | Type::U32 | Type::S32 | Type::F32 | Type::TF32 => 32,
        Type::U16x2 | Type::S16x2 | Type::F16x2 | Type::BF16x2 => 32,
        Type::B64 | Type::U64 | Type::S64 | Type::F64 => 64,
        Type::B128 => 128,
    }
}

/// Whether a register of one type may stand where the other is asked for: sizes agree, and floats are no integers. To
/// `ptxas` a register of two halves is as good as one of 32 bits, but for an f32.
fn agrees(register: Type, asked: Type) -> bool {
    use Type::{B8, B16, B32, B64, B128, F16, F16x2, F32, F64, Pred};
    let untyped = matches!(register, B8 | B16 | B32 | B64 | B128);
    let is_float = matches!(register, F16 | F32 | F64 | Pred);
    let kinds = match asked {
        B8 | B16 | B32 | B64 | B128 => register != Pred,
        Type::BF16 | Type::BF16x2 => untyped,
        Type::U16x2 | Type::S16x2 => untyped || register == F16x2,
        Pred | F16 | F16x2 | F32 | F64 => untyped || register == asked,
        Type::TF32 => untyped || register == F32,
        _ => untyped || !is_float,
    };
    bits(register) == bits(asked) && kinds
}

/// Whether a register of one type may stand where a conversion names the other: it may be wider.
pub(super) fn holds(register: Type, named: Type) -> bool {
    use Type::{B8, B16, B32, B64, F16, F16x2, F32, F64, Pred};
    let untyped = matches!(register, B8 | B16 | B32 | B64);
    let kinds = match named {
        // These have no wider registers.
        Type::BF16 | Type::BF16x2 | Type::TF32 => untyped && bits(register) == bits(named),
        F16 | F16x2 | F32 | F64 => untyped || register == named,
        _ => untyped || !matches!(register, Pred | F16 | F32 | F64),
    };
    kinds && bits(register) >= bits(named)
}

impl<'a> Decoder<'a> {
    fn error(&self, message: String) -> Error {
        Error { line: self.line, message }
    }

    pub(super) fn push(
        &mut self,
        kind: Kind,
        dests: Vec<Slot>,
        sources: Vec<Slot>,
        guard: Option<(Slot, bool)>,
    ) {
        self.ops.push(Op { line: self.line, guard, dests, sources, kind, checks: false });
    }

    fn instruction(&mut self, instruction: &'a Instruction) -> Decoded<()> {
        let guard = match &instruction.guard {
            None => None,
            Some((name, negated)) => Some((self.predicate(name)?, *negated)),
        };
        let modifiers: Vec<&str> = instruction.modifiers.iter().map(String::as_str).collect();
        let first = self.ops.len();
        let operands = &instruction.operands;
        match (instruction.opcode.as_str(), modifiers.as_slice(), operands.as_slice()) {
            ("bra", [] | ["uni"], [Operand::Symbol(label)]) => {
                self.branches.push((self.ops.len(), label, self.line));
                self.push(Kind::Branch(0), vec![], vec![], None);
            }
            ("bra", ..) => return Err("'bra' has one operand, a label, and no modifier but .uni".into()),
            (opcode, modifiers, operands) => match forms::decoder_of(opcode) {
                Some(decode) => decode(self, &mut Modifiers::new(modifiers), operands)?,
                None => self.arithmetic(instruction, modifiers)?,
            },
        }
        for op in &mut self.ops[first..] {
            op.guard = guard;
        }
        Ok(())
    }

    /// An instruction on registers.
    fn arithmetic(&mut self, instruction: &'a Instruction, modifiers: &[&str]) -> Decoded<()> {
        let operands = &instruction.operands;
        let scalar = alu::lookup(&instruction.opcode, modifiers, operands.len(), self.target)?;
        if operands.len() != 1 + scalar.sources.len() {
            let expected = 1 + scalar.sources.len();
            return Err(format!("'{}' has {expected} operands, not {}", instruction.opcode, operands.len()));
        }
        if instruction.opcode == "lop3" && !matches!(operands[4], Operand::Int(_)) {
            return Err("Arguments mismatch for instruction 'lop3': the table is a number".into());
        }
        // A conversion's registers may be wider than its types.
        let loose = matches!(instruction.opcode.as_str(), "cvt");
        let mut sources = Vec::with_capacity(scalar.sources.len());
        for (operand, ty) in operands[1..].iter().zip(&scalar.sources) {
            sources.push(if loose { self.loose_source(operand, *ty)? } else { self.source(operand, *ty)? });
        }
        let mut dests = Vec::new();
        let mut widened = None;
        match (&operands[0], scalar.dests.len()) {
            (Operand::Pair(first, second), 2) => {
                dests.push(self.dest_or_nowhere(first, scalar.dests[0])?);
                dests.push(self.dest_or_nowhere(second, scalar.dests[1])?);
            }
            (Operand::Register(name), _) if loose => {
                let (slot, ty) = self.register(name)?;
                let narrow = scalar.dests[0];
                if !holds(ty, narrow) {
                    return Err("Arguments mismatch for instruction 'cvt'".into());
                }
                if bits(ty) > bits(narrow) {
                    widened = Some((slot, narrow, bits(ty)));
                    let own = self.temporary(narrow);
                    dests.push(own);
                } else {
                    dests.push(slot);
                }
            }
            (other, _) => dests.push(self.dest(other, scalar.dests[0])?),
        }
        let kind = Kind::Alu {
            fun: scalar.fun,
            second: scalar.second,
            reads_carry: scalar.reads_carry,
            writes_carry: scalar.writes_carry,
        };
        let narrow = dests[0];
        self.push(kind, dests, sources, None);
        if let Some((slot, ty, wide)) = widened {
            self.extend(slot, narrow, ty, wide)?;
        }
        Ok(())
    }

    /// A result goes to a register that is wider: signed ones keep their sign, others get zeros.
    fn extend(&mut self, to: Slot, from: Slot, ty: Type, wide: u32) -> Decoded<()> {
        let signed = matches!(ty, Type::S8 | Type::S16 | Type::S32);
        if !signed {
            self.push(Kind::Move, vec![to], vec![from], None);
            return Ok(());
        }
        let (narrow, wide) = (format!("s{}", bits(ty)), format!("s{wide}"));
        let scalar = alu::lookup("cvt", &[&wide, &narrow], 2, self.target)?;
        self.push(
            Kind::Alu { fun: scalar.fun, second: scalar.second, reads_carry: false, writes_carry: false },
            vec![to],
            vec![from],
            None,
        );
        Ok(())
    }

    /// Whether the target has what it takes.
    pub(super) fn needs(&self, what: &str, sm: u32, version: u32) -> Decoded<()> {
        if self.target.sm < sm {
            return Err(format!("Feature '{what}' requires .target sm_{sm} or higher"));
        }
        if self.target.version < version {
            let (major, minor) = (version / 10, version % 10);
            return Err(format!("Feature '{what}' requires PTX ISA .version {major}.{minor} or later"));
        }
        Ok(())
    }

    pub(super) fn temporary(&mut self, ty: Type) -> Slot {
        self.types.push(ty);
        self.types.len() as Slot - 1
    }

    pub(super) fn constant(&mut self, constant: Constant) -> Slot {
        if let Some(slot) = self.constants.get(&constant) {
            return *slot;
        }
        let slot = self.temporary(Type::B64);
        self.constants.insert(constant, slot);
        slot
    }

    pub(super) fn register(&self, name: &str) -> Decoded<(Slot, Type)> {
        self.registers.get(name).copied().ok_or_else(|| format!("Unknown symbol '{name}'"))
    }

    pub(super) fn predicate(&self, name: &str) -> Decoded<Slot> {
        match self.register(name)? {
            (slot, Type::Pred) => Ok(slot),
            _ => Err(format!("'{name}' is not a predicate")),
        }
    }

    pub(super) fn dest(&self, operand: &Operand, ty: Type) -> Decoded<Slot> {
        match operand {
            Operand::Register(name) => match self.register(name)? {
                (slot, own) if agrees(own, ty) => Ok(slot),
                _ => Err(format!("Arguments mismatch: register '{name}' is not of type {ty:?}")),
            },
            _ => Err("the destination must be a register".into()),
        }
    }

    pub(super) fn dest_or_nowhere(&self, operand: &Operand, ty: Type) -> Decoded<Slot> {
        if *operand == Operand::Discard { Ok(NOWHERE) } else { self.dest(operand, ty) }
    }

    /// A register, with what a special one holds now in a register of its own.
    fn readable(&mut self, name: &str) -> Decoded<(Slot, Type)> {
        let Some((special, ty)) = special(name) else { return self.register(name) };
        if !matches!(self.opcode, "mov" | "cvt") {
            return Err(format!("Special register argument not allowed for instruction '{}'", self.opcode));
        }
        let slot = self.temporary(ty);
        self.push(Kind::Special(special), vec![slot], vec![], None);
        Ok((slot, ty))
    }

    pub(super) fn source(&mut self, operand: &Operand, ty: Type) -> Decoded<Slot> {
        match operand {
            Operand::Register(name) => match self.readable(name)? {
                (slot, own) if agrees(own, ty) => Ok(slot),
                _ => Err(format!("Arguments mismatch: register '{name}' is not of type {ty:?}")),
            },
            Operand::Not(name) if ty == Type::Pred => {
                let slot = self.predicate(name)?;
                let inverted = self.temporary(Type::Pred);
                let scalar = alu::lookup("not", &["pred"], 2, self.target)?;
                let kind = Kind::Alu {
                    fun: scalar.fun,
                    second: scalar.second,
                    reads_carry: false,
                    writes_carry: false,
                };
                self.push(kind, vec![inverted], vec![slot], None);
                Ok(inverted)
            }
            _ => self.literal(operand, ty),
        }
    }

    /// A source whose register may be wider than the type: the low bits are read.
    fn loose_source(&mut self, operand: &Operand, ty: Type) -> Decoded<Slot> {
        let Operand::Register(name) = operand else { return self.source(operand, ty) };
        let (slot, own) = self.readable(name)?;
        if !holds(own, ty) {
            return Err(format!("Arguments mismatch: register '{name}' does not hold {ty:?}"));
        }
        if bits(own) == bits(ty) {
            return Ok(slot);
        }
        let narrow = self.temporary(ty);
        self.push(Kind::Unpack(bits(ty)), vec![narrow], vec![slot], None);
        Ok(narrow)
    }

    fn literal(&mut self, operand: &Operand, ty: Type) -> Decoded<Slot> {
        let float = matches!(ty, Type::F16 | Type::BF16 | Type::F16x2 | Type::BF16x2 | Type::F32 | Type::F64);
        let value = match (operand, ty) {
            (Operand::Symbol(name), _) if name == WARP_SIZE && !float && bits(ty) >= 16 => 32,
            (Operand::Int(value), Type::Pred) if matches!(value, 0 | 1) => *value as u64,
            (Operand::Int(value), _) if !float && ty != Type::Pred => fitted(*value, bits(ty))?,
            (Operand::Float(value, 32), Type::F32 | Type::B32) => *value,
            (Operand::Float(value, 64), Type::F64 | Type::B64) => *value,
            (Operand::Float(value, 64), Type::F32) => u64::from((f64::from_bits(*value) as f32).to_bits()),
            (Operand::Float(value, 32), Type::F64) => f64::from(f32::from_bits(*value as u32)).to_bits(),
            _ => return Err(format!("Arguments mismatch: an operand of type {ty:?} is expected")),
        };
        Ok(self.constant(Constant::Value(value)))
    }

    /// A variable's address, as `mov` gives it: within its space.
    pub(super) fn symbol(&mut self, name: &str, offset: i64, ty: Type) -> Decoded<(Slot, Space)> {
        let (space, place) = self
            .frame
            .find(name)
            .or_else(|| self.layout.find(name))
            .ok_or_else(|| format!("Unknown symbol '{name}'"))?;
        let slot = match space {
            Space::Global | Space::Const => self.constant(Constant::Global(place as usize, offset)),
            _ => self
                .constant(Constant::Value(place.wrapping_add_signed(offset) & u64::MAX >> (64 - bits(ty)))),
        };
        Ok((slot, space))
    }
}

/// The bits of an integer in so many bits, of either sign.
fn fitted(value: i128, bits: u32) -> Decoded<u64> {
    if value >= 1 << bits || value < -(1 << (bits - 1)) {
        return Err(format!("the integer {value} does not fit {bits} bits"));
    }
    Ok((value as u64) & (u64::MAX >> (64 - bits)))
}

/// The registers that PTX defines.
fn special(name: &str) -> Option<(Special, Type)> {
    let (stem, axis) = match name.rsplit_once('.') {
        Some((stem, "x")) => (stem, 0),
        Some((stem, "y")) => (stem, 1),
        Some((stem, "z")) => (stem, 2),
        Some(_) => return None,
        None => (name, 3),
    };
    Some(match (stem, axis) {
        ("%tid", 0..3) => (Special::Tid(axis), Type::U32),
        ("%ntid", 0..3) => (Special::Ntid(axis), Type::U32),
        ("%ctaid", 0..3) => (Special::Ctaid(axis), Type::U32),
        ("%nctaid", 0..3) => (Special::Nctaid(axis), Type::U32),
        ("%laneid", 3) => (Special::LaneId, Type::U32),
        ("%warpid", 3) => (Special::WarpId, Type::U32),
        ("%nwarpid", 3) => (Special::WarpCount, Type::U32),
        ("%smid", 3) => (Special::SmId, Type::U32),
        ("%nsmid", 3) => (Special::SmCount, Type::U32),
        ("%gridid", 3) => (Special::GridId, Type::U64),
        ("%lanemask_eq", 3) => (Special::MaskEq, Type::U32),
        ("%lanemask_lt", 3) => (Special::MaskLt, Type::U32),
        ("%lanemask_le", 3) => (Special::MaskLe, Type::U32),
        ("%lanemask_gt", 3) => (Special::MaskGt, Type::U32),
        ("%lanemask_ge", 3) => (Special::MaskGe, Type::U32),
        ("%clock", 3) => (Special::Clock, Type::U32),
        ("%clock64", 3) => (Special::Clock64, Type::U64),
        ("%globaltimer", 3) => (Special::GlobalTimer, Type::U64),
        ("%dynamic_smem_size", 3) => (Special::DynamicShared, Type::U32),
        ("%total_smem_size", 3) => (Special::TotalShared, Type::U32),
        _ => return None,
    })
}
