//! Machine code under construction: instructions, labels, constants.
//!
//! Each instruction is encoded immediately, by a template (see `encode`) or by `iced-x86`. Branches have 32-bit displacements,
//! which are filled in when their labels are known: with short branches, the distance of each would depend on the others. Constants
//! are stored before the code, 64 bytes each, and grow downward, so code can address them before their number is known.
//! The first error is kept and returned at the end.

use super::encode::{self, Templates};
use crate::executable::MachineCode;
use iced_x86::{Code, Encoder, Instruction, OpKind, Register};
use rustc_hash::FxHashMap;

/// The instruction set extensions to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Level {
    /// AVX2 with FMA, BMI1, BMI2, LZCNT and F16C.
    Avx2,
    /// Also AVX-512 F, BW, DQ, VL and CD.
    Avx512,
}

/// The width of a vector. The numbers count doublings of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Width {
    /// 128 bits.
    X = 0,
    /// 256 bits.
    Y = 1,
    /// 512 bits.
    Z = 2,
}

impl Width {
    /// The next narrower one.
    pub(super) fn half(self) -> Width {
        if self == Width::Z { Width::Y } else { Width::X }
    }
}

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mem {
    pub(super) base: Register,
    pub(super) index: Register,
    pub(super) scale: u32,
    pub(super) disp: i64,
}

/// An operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arg {
    Reg(Register),
    Mem(Mem),
    /// An immediate byte.
    Imm8(u8),
    /// An immediate of 32 bits for a 32-bit instruction.
    Imm32(u32),
    /// An immediate of 32 bits, extended by its sign.
    Imm32To64(i32),
    Imm64(u64),
}

/// A place in the code, known now or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(u32);

/// The address where code is assembled; only distances matter.
pub(super) const BASE: u64 = 1 << 32;
/// Bytes, branches and lines of code for which there is room from the start.
const CODE_LIKELY: usize = 4096;
const BRANCHES_LIKELY: usize = 64;
const MARKS_LIKELY: usize = 128;
/// Words of a constant: as many as a vector has lanes of 32 bits.
pub(super) const CONSTANT_WORDS: usize = 16;
const CONSTANT_BYTES: usize = 4 * CONSTANT_WORDS;

pub(super) struct Asm {
    encoder: Encoder,
    templates: Templates,
    /// The code so far.
    code: Vec<u8>,
    labels: Vec<Option<usize>>,
    /// Where a distance is missing: the end of the branch, and what it goes to.
    branches: Vec<(usize, Label)>,
    constants: Vec<[u32; CONSTANT_WORDS]>,
    known: FxHashMap<[u32; CONSTANT_WORDS], usize>,
    /// Where the code of a line starts, and which it is.
    marks: Vec<(usize, u32)>,
    error: Option<String>,
}

/// A general register, of 64 bits.
pub(super) fn gp64(number: u8) -> Register {
    Register::RAX + u32::from(number)
}

/// A general register, of 32 bits.
pub(super) fn gp32(number: u8) -> Register {
    Register::EAX + u32::from(number)
}

/// A general register's low byte.
pub(super) fn gp8(number: u8) -> Register {
    // The first four stand apart: between them are the upper bytes of the old registers.
    if number < 4 { Register::AL + u32::from(number) } else { Register::SPL + u32::from(number - 4) }
}

/// A general register's low 16 bits.
pub(super) fn gp16(number: u8) -> Register {
    Register::AX + u32::from(number)
}

/// A vector register.
pub(super) fn vec(width: Width, number: u8) -> Register {
    let first = match width {
        Width::X => Register::XMM0,
        Width::Y => Register::YMM0,
        Width::Z => Register::ZMM0,
    };
    first + u32::from(number)
}

/// A mask register.
pub(super) fn kreg(number: u8) -> Register {
    Register::K0 + u32::from(number)
}

impl Mem {
    /// An address without an index.
    pub(super) fn at(base: Register, disp: i64) -> Mem {
        Mem { base, index: Register::None, scale: 1, disp }
    }
}

impl Asm {
    pub(super) fn new() -> Asm {
        Asm {
            encoder: Encoder::new(64),
            templates: encode::templates(),
            code: Vec::with_capacity(CODE_LIKELY),
            labels: Vec::with_capacity(BRANCHES_LIKELY),
            branches: Vec::with_capacity(BRANCHES_LIKELY),
            constants: Vec::new(),
            known: FxHashMap::default(),
            marks: Vec::with_capacity(MARKS_LIKELY),
            error: None,
        }
    }

    /// Says which line the code from here on comes from.
    pub(super) fn mark(&mut self, site: u32) {
        if self.marks.last().is_none_or(|(_, last)| *last != site) {
            self.marks.push((self.code.len(), site));
        }
    }

    /// Notes that the code cannot be made.
    pub(super) fn fail(&mut self, message: impl Into<String>) {
        self.error.get_or_insert(message.into());
    }

    pub(super) fn ins(&mut self, code: Code, args: &[Arg]) {
        self.masked(code, args, 0, false);
    }

    /// An instruction under a mask; lanes that are off become 0 if `zero`. Mask 0 stands for none.
    pub(super) fn masked(&mut self, code: Code, args: &[Arg], mask: u8, zero: bool) {
        let start = self.code.len();
        let quick = encode::encode(&mut self.templates, &mut self.code, (code, args), (mask, zero));
        if quick && !cfg!(debug_assertions) {
            return;
        }
        let mut instruction = instruction(code, args);
        if mask != 0 {
            instruction.set_op_mask(kreg(mask));
            instruction.set_zeroing_masking(zero);
        }
        let other = self.code.split_off(start);
        self.push(&instruction);
        let same = !quick || self.error.is_some() || self.code[start..] == other;
        assert!(same, "{code:?} {args:?}: {other:02x?} by its template, {:02x?} it is", &self.code[start..]);
    }

    /// An instruction with the lock prefix.
    pub(super) fn locked(&mut self, code: Code, args: &[Arg]) {
        let mut instruction = instruction(code, args);
        instruction.set_has_lock_prefix(true);
        self.push(&instruction);
    }

    fn push(&mut self, instruction: &Instruction) {
        let here = BASE + self.code.len() as u64;
        self.encoder.set_buffer(std::mem::take(&mut self.code));
        let encoded = self.encoder.encode(instruction, here);
        self.code = self.encoder.take_buffer();
        if let Err(error) = encoded {
            self.fail(format!("{:?}: {error}", instruction.code()));
        }
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Puts a label here.
    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.code.len());
    }

    /// A jump or conditional jump, of the form with 32 bits.
    pub(super) fn branch(&mut self, code: Code, to: Label) {
        let Some(bytes) = encode::jump(code) else { return self.fail(format!("{code:?} is no jump")) };
        if cfg!(debug_assertions) {
            let start = self.code.len();
            let end = BASE + (start + bytes.len()) as u64;
            self.push(&Instruction::with_branch(code, end).expect("jumps have a target"));
            assert_eq!(&self.code[start..], bytes, "{code:?}");
        } else {
            self.code.extend_from_slice(bytes);
        }
        self.branches.push((self.code.len(), to));
    }

    /// The address of a constant.
    pub(super) fn constant(&mut self, words: [u32; CONSTANT_WORDS]) -> Mem {
        let next = self.constants.len();
        let place = *self.known.entry(words).or_insert(next);
        if place == next {
            self.constants.push(words);
        }
        let disp = BASE as i64 - ((place + 1) * CONSTANT_BYTES) as i64;
        Mem { base: Register::RIP, index: Register::None, scale: 1, disp }
    }

    /// Constants and code, and where the code starts.
    pub(super) fn finish(mut self) -> Result<MachineCode, String> {
        encode::keep(self.templates);
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut code = self.code;
        for (end, label) in self.branches {
            let target = self.labels[label.0 as usize].ok_or("a label that was never bound")?;
            let distance = i32::try_from(target as i64 - end as i64).map_err(|_| "code of over 2 GiB")?;
            code[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        }
        let entry = self.constants.len() * CONSTANT_BYTES;
        let mut bytes = Vec::with_capacity(entry + code.len());
        for word in self.constants.iter().rev().flatten() {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&code);
        self.marks.iter_mut().for_each(|(at, _)| *at += entry);
        Ok(MachineCode { bytes, entry, marks: self.marks })
    }
}

/// An instruction as `iced-x86` has it.
pub(super) fn instruction(code: Code, args: &[Arg]) -> Instruction {
    let mut instruction = Instruction::new();
    instruction.set_code(code);
    for (at, arg) in (0..).zip(args) {
        match *arg {
            Arg::Reg(reg) => {
                instruction.set_op_kind(at, OpKind::Register);
                instruction.set_op_register(at, reg);
            }
            Arg::Mem(mem) => {
                instruction.set_op_kind(at, OpKind::Memory);
                instruction.set_memory_base(mem.base);
                instruction.set_memory_index(mem.index);
                instruction.set_memory_index_scale(mem.scale);
                instruction.set_memory_displacement64(mem.disp as u64);
                let size = if mem.base == Register::RIP { 8 } else { u32::from(mem.disp != 0) };
                instruction.set_memory_displ_size(size);
            }
            Arg::Imm8(imm) => {
                instruction.set_op_kind(at, OpKind::Immediate8);
                instruction.set_immediate8(imm);
            }
            Arg::Imm32(imm) => {
                instruction.set_op_kind(at, OpKind::Immediate32);
                instruction.set_immediate32(imm);
            }
            Arg::Imm32To64(imm) => {
                instruction.set_op_kind(at, OpKind::Immediate32to64);
                instruction.set_immediate32to64(imm.into());
            }
            Arg::Imm64(imm) => {
                instruction.set_op_kind(at, OpKind::Immediate64);
                instruction.set_immediate64(imm);
            }
        }
    }
    instruction
}
