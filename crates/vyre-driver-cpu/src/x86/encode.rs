//! Encodes instructions by templates, in a fifth of the time that `iced-x86` takes.
//!
//! When an instruction occurs for the first time, `iced-x86` encodes it with register 0 for every operand, and once more for each
//! register operand with another register: the bits that change are the operand's field. From then on registers, addresses and
//! immediates are inserted into the fields. In debug builds `iced-x86` encodes every instruction too, and the bytes must be equal.
//!
//! Why not an encoder of our own: `iced-x86` knows every opcode and is tested by others. Templates learned from it have its
//! bytes, and no table of opcodes to keep correct here.
//!
//! Not here: byte registers, vectors of addresses, prefixes. `iced-x86` encodes those.

use super::asm::{Arg, BASE, Mem, instruction};
use iced_x86::{Code, Encoder, Register};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Mutex, PoisonError};

/// The field that holds an operand's register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    /// In the low bits of the opcode.
    Opcode,
    /// In the middle of the byte after the opcode.
    Reg,
    /// At the end of that byte. An address is there too.
    Rm,
    /// In the prefix, inverted.
    Prefix,
    /// In the last byte.
    Last,
    /// It is an immediate.
    None,
}

/// The bytes before the opcode.
#[derive(Clone, Copy)]
enum Form {
    /// Nothing changes.
    Fixed,
    /// A mandatory prefix or 0, the bit for 64-bit operands, and the escape bytes before the opcode.
    Legacy { prefix: u8, wide: u8, escape: [u8; 2] },
    /// The map, and the last byte of the prefix without its register.
    Vex { map: u8, last: u8 },
    /// The three bytes of the prefix, and how many bytes a short displacement counts.
    Evex { payload: [u8; 3], unit: u8 },
}

#[derive(Clone)]
pub(super) struct Template {
    form: Form,
    opcode: u8,
    /// The byte after the opcode with registers 0, where there is one.
    modrm: Option<u8>,
    fields: [Field; 4],
    /// All of it, where nothing changes.
    bytes: SmallVec<[u8; 8]>,
}

/// By instruction and place of the address among its operands; `None` where there is no template.
pub(super) type Templates = FxHashMap<u32, Option<Template>>;

/// The templates learned so far, while no encoder uses them.
static LEARNED: Mutex<Option<Templates>> = Mutex::new(None);

/// The templates known so far, or none while another thread has them.
pub(super) fn templates() -> Templates {
    LEARNED.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
}

/// Gives templates back.
pub(super) fn keep(templates: Templates) {
    let mut learned = LEARNED.lock().unwrap_or_else(PoisonError::into_inner);
    if learned.as_ref().is_none_or(|known| known.len() < templates.len()) {
        *learned = Some(templates);
    }
}

/// A register's number in its bank; `None` for banks that are not encoded here.
fn number(reg: Register) -> Option<u8> {
    const OTHER: u8 = u8::MAX;
    const NUMBERS: [u8; 256] = {
        let banks = [
            (Register::ZMM0, 32),
            (Register::YMM0, 32),
            (Register::RAX, 16),
            (Register::EAX, 16),
            (Register::XMM0, 32),
            (Register::K0, 8),
            (Register::AX, 16),
        ];
        let (mut numbers, mut bank) = ([OTHER; 256], 0);
        while bank < banks.len() {
            let (first, count) = banks[bank];
            let mut at = 0;
            while at < count {
                numbers[first as usize + at] = at as u8;
                at += 1;
            }
            bank += 1;
        }
        numbers
    };
    Some(NUMBERS[reg as usize]).filter(|number| *number != OTHER)
}

/// The bytes of one instruction: at most 15.
struct Bytes {
    bytes: [u8; 16],
    len: usize,
}

impl Bytes {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn extend<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
    }
}

/// A jump to its own end, by 32 bits; `None` for jumps that nobody asks for.
pub(super) fn jump(code: Code) -> Option<&'static [u8]> {
    Some(match code {
        Code::Jmp_rel32_64 => &[0xe9, 0, 0, 0, 0],
        Code::Jb_rel32_64 => &[0x0f, 0x82, 0, 0, 0, 0],
        Code::Jae_rel32_64 => &[0x0f, 0x83, 0, 0, 0, 0],
        Code::Je_rel32_64 => &[0x0f, 0x84, 0, 0, 0, 0],
        Code::Jne_rel32_64 => &[0x0f, 0x85, 0, 0, 0, 0],
        Code::Jbe_rel32_64 => &[0x0f, 0x86, 0, 0, 0, 0],
        Code::Ja_rel32_64 => &[0x0f, 0x87, 0, 0, 0, 0],
        Code::Jl_rel32_64 => &[0x0f, 0x8c, 0, 0, 0, 0],
        Code::Jge_rel32_64 => &[0x0f, 0x8d, 0, 0, 0, 0],
        Code::Jle_rel32_64 => &[0x0f, 0x8e, 0, 0, 0, 0],
        Code::Jg_rel32_64 => &[0x0f, 0x8f, 0, 0, 0, 0],
        _ => return None,
    })
}

/// Appends an instruction under a mask (0 for none); `false` if it must be encoded otherwise.
pub(super) fn encode(
    templates: &mut Templates,
    out: &mut Vec<u8>,
    (code, args): (Code, &[Arg]),
    (mask, zero): (u8, bool),
) -> bool {
    let memory = args.iter().position(|arg| matches!(arg, Arg::Mem(_))).map_or(0, |at| at + 1);
    let key = (code as u32) << 3 | memory as u32;
    let template = match templates.get(&key) {
        Some(template) => template,
        None => templates.entry(key).or_insert_with(|| learn(code, args)),
    };
    let Some(template) = template else { return false };
    let Some(mut parts) = Parts::new(template, args) else { return false };
    parts.mask = mask | u8::from(zero) << 7;
    parts.write(template, args, out);
    true
}

/// What one instruction puts into the fields.
struct Parts {
    reg: u8,
    rm: u8,
    vex: u8,
    last: Option<u8>,
    opcode: u8,
    mem: Option<Mem>,
    /// The index of an address, 0 for none.
    index: u8,
    mask: u8,
}

impl Parts {
    fn new(template: &Template, args: &[Arg]) -> Option<Parts> {
        let mut parts = Parts { reg: 0, rm: 0, vex: 0, last: None, opcode: 0, mem: None, index: 0, mask: 0 };
        for (arg, field) in args.iter().zip(template.fields) {
            let at = match arg {
                Arg::Reg(reg) => number(*reg)?,
                Arg::Mem(mem) => {
                    if mem.base != Register::RIP {
                        parts.rm = (mem.base as u32).wrapping_sub(Register::RAX as u32) as u8;
                        if parts.rm > 15 {
                            return None;
                        }
                    }
                    if mem.index != Register::None {
                        let index = (mem.index as u32).wrapping_sub(Register::RAX as u32);
                        parts.index = u8::try_from(index).ok().filter(|index| *index < 16)?;
                    }
                    parts.mem = Some(*mem);
                    continue;
                }
                Arg::Imm8(_) | Arg::Imm32(_) | Arg::Imm32To64(_) | Arg::Imm64(_) => continue,
            };
            match field {
                Field::Opcode => parts.opcode = at,
                Field::Reg => parts.reg = at,
                Field::Rm => parts.rm = at,
                Field::Prefix => parts.vex = at,
                Field::Last => parts.last = Some(at << 4),
                Field::None => return None,
            }
        }
        Some(parts)
    }

    fn write(&self, template: &Template, args: &[Arg], code: &mut Vec<u8>) {
        if let Form::Fixed = template.form {
            return code.extend_from_slice(&template.bytes);
        }
        let start = code.len();
        let mut out = Bytes { bytes: [0; 16], len: 0 };
        self.put(template, args, start, &mut out);
        // A copy of a fixed size is two moves, and one of the right size a call.
        code.extend_from_slice(&out.bytes);
        code.truncate(start + out.len);
    }

    /// Puts together what goes to `start` of the code.
    fn put(&self, template: &Template, args: &[Arg], start: usize, out: &mut Bytes) {
        // The upper bits of registers: of the one in the middle, of the index, and of the one at the end or the base.
        let (r, x) = (self.reg >> 3 & 1, self.index >> 3 & 1);
        let b = (self.rm | self.opcode) >> 3 & 1;
        let mut unit = 1;
        match template.form {
            Form::Fixed => return,
            Form::Legacy { prefix, wide, escape } => {
                let rex = wide << 3 | r << 2 | x << 1 | b;
                let parts = [prefix, if rex == 0 { 0 } else { 0x40 | rex }, escape[0], escape[1]];
                parts.into_iter().filter(|byte| *byte != 0).for_each(|byte| out.push(byte));
            }
            Form::Vex { map, last } => {
                let last = last ^ self.vex << 3;
                if map == 1 && last & 0x80 == 0 && x | b == 0 {
                    out.extend([0xc5, last | (r ^ 1) << 7]);
                } else {
                    out.extend([0xc4, map | (r << 7 | x << 6 | b << 5) ^ 0xe0, last]);
                }
            }
            Form::Evex { payload: [first, second, third], unit: bytes } => {
                unit = bytes.into();
                let x = if self.mem.is_some() { x } else { self.rm >> 4 & 1 };
                let first = first ^ (r << 7 | x << 6 | b << 5 | self.reg & 16);
                let third = third ^ (self.vex >> 4 & 1) << 3 | self.mask;
                out.extend([0x62, first, second ^ (self.vex & 15) << 3, third]);
            }
        }
        out.push(template.opcode | self.opcode & 7);
        if let Some(modrm) = template.modrm {
            let modrm = modrm | (self.reg & 7) << 3;
            match &self.mem {
                None => out.push(modrm | 0xc0 | self.rm & 7),
                Some(mem) => self.address(mem, (modrm, unit), args, start, out),
            }
        }
        if let Some(last) = self.last {
            out.push(last);
        }
        immediates(args, out);
    }

    fn address(&self, mem: &Mem, (modrm, unit): (u8, i64), args: &[Arg], start: usize, out: &mut Bytes) {
        if mem.base == Register::RIP {
            out.push(modrm | 5);
            let behind = start + out.len + 4 + usize::from(self.last.is_some()) + immediate_bytes(args);
            let distance = mem.disp - (BASE as i64 + behind as i64);
            return out.extend((distance as i32).to_le_bytes());
        }
        let short = i8::try_from(mem.disp / unit).ok().filter(|_| mem.disp % unit == 0);
        let mode = match short {
            // Without a displacement this base would mean another form.
            Some(0) if self.rm & 7 != 5 => 0,
            Some(_) => 0x40,
            None => 0x80,
        };
        if mem.index != Register::None || self.rm & 7 == 4 {
            let index = if mem.index == Register::None { 4 } else { self.index & 7 };
            let scale = mem.scale.trailing_zeros() as u8;
            out.extend([modrm | mode | 4, scale << 6 | index << 3 | self.rm & 7]);
        } else {
            out.push(modrm | mode | self.rm & 7);
        }
        match (mode, short) {
            (0, _) => {}
            (_, Some(short)) => out.push(short as u8),
            (_, None) => out.extend((mem.disp as i32).to_le_bytes()),
        }
    }
}

fn immediates(args: &[Arg], out: &mut Bytes) {
    for arg in args {
        match *arg {
            Arg::Imm8(imm) => out.push(imm),
            Arg::Imm32(imm) => out.extend(imm.to_le_bytes()),
            Arg::Imm32To64(imm) => out.extend(imm.to_le_bytes()),
            Arg::Imm64(imm) => out.extend(imm.to_le_bytes()),
            Arg::Reg(_) | Arg::Mem(_) => {}
        }
    }
}

fn immediate_bytes(args: &[Arg]) -> usize {
    let bytes = |arg: &Arg| match arg {
        Arg::Imm8(_) => 1,
        Arg::Imm32(_) | Arg::Imm32To64(_) => 4,
        Arg::Imm64(_) => 8,
        Arg::Reg(_) | Arg::Mem(_) => 0,
    };
    args.iter().map(bytes).sum()
}

/// What `iced-x86` gives.
fn slow(code: Code, args: &[Arg]) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(64);
    encoder.encode(&instruction(code, args), BASE).ok()?;
    Some(encoder.take_buffer())
}

/// The template of an instruction, if it is one of those that are encoded here.
fn learn(code: Code, args: &[Arg]) -> Option<Template> {
    const OTHER: u8 = 3;
    let zero = |arg: &Arg| {
        Some(match arg {
            Arg::Reg(reg) => Arg::Reg(*reg - u32::from(number(*reg)?)),
            Arg::Mem(_) => Arg::Mem(Mem::at(Register::RAX, 0)),
            Arg::Imm8(_) => Arg::Imm8(0),
            Arg::Imm32(_) => Arg::Imm32(0),
            Arg::Imm32To64(_) => Arg::Imm32To64(0),
            Arg::Imm64(_) => Arg::Imm64(0),
        })
    };
    let zeros: SmallVec<[Arg; 4]> = args.iter().map(zero).collect::<Option<_>>()?;
    if zeros.len() > 4 {
        return None;
    }
    let (mut template, extra) = split(&slow(code, &zeros)?, immediate_bytes(args), zeros.is_empty())?;
    for (at, arg) in zeros.iter().enumerate() {
        let mut changed = zeros.clone();
        match arg {
            Arg::Reg(reg) => changed[at] = Arg::Reg(*reg + u32::from(OTHER)),
            Arg::Mem(_) => {
                template.fields[at] = Field::Rm;
                changed[at] = Arg::Mem(Mem::at(Register::RAX, 64));
                if let Form::Evex { unit, .. } = &mut template.form {
                    // The prefix, the opcode and one more byte come before the displacement.
                    *unit = 64 / slow(code, &changed)?.get(6).copied().filter(|short| *short != 0)?;
                }
                continue;
            }
            Arg::Imm8(_) | Arg::Imm32(_) | Arg::Imm32To64(_) | Arg::Imm64(_) => continue,
        }
        let (other, other_extra) = split(&slow(code, &changed)?, immediate_bytes(args), false)?;
        template.fields[at] = match (template.modrm, other.modrm) {
            _ if extra != other_extra => Field::Last,
            _ if template.opcode != other.opcode => Field::Opcode,
            (Some(a), Some(b)) if a | OTHER << 3 == b && a != b => Field::Reg,
            (Some(a), Some(b)) if a | OTHER == b && a != b => Field::Rm,
            _ => Field::Prefix,
        };
    }
    // What says whether there is an address comes with the operand.
    template.modrm = template.modrm.map(|modrm| modrm & 0x38);
    Some(template)
}

/// An instruction's bytes as a template without fields, and the byte behind it that holds a register, if there is one.
fn split(bytes: &[u8], immediate_bytes: usize, fixed: bool) -> Option<(Template, Option<u8>)> {
    let (form, rest) = match *bytes {
        _ if fixed => (Form::Fixed, bytes),
        [0xc5, last, ref rest @ ..] => (Form::Vex { map: 1, last: last & 0x7f }, rest),
        [0xc4, map, last, ref rest @ ..] => (Form::Vex { map: map & 0x1f, last }, rest),
        [0x62, a, b, c, ref rest @ ..] => (Form::Evex { payload: [a, b, c], unit: 1 }, rest),
        _ => legacy(bytes)?,
    };
    let (opcode, rest) = rest.split_first()?;
    let rest = &rest[..rest.len().checked_sub(immediate_bytes)?];
    let bytes = if fixed { bytes.into() } else { SmallVec::new() };
    let modrm = rest.first().copied();
    let template = Template { form, opcode: *opcode, modrm, fields: [Field::None; 4], bytes };
    Some((template, rest.get(1).copied()))
}

/// The part of an instruction before its opcode, and the rest.
fn legacy(mut bytes: &[u8]) -> Option<(Form, &[u8])> {
    let mut take = |holds: fn(u8) -> bool| {
        let (first, rest) = bytes.split_first().filter(|(first, _)| holds(**first))?;
        bytes = rest;
        Some(*first)
    };
    let prefix = take(|byte| matches!(byte, 0x66 | 0xf2 | 0xf3)).unwrap_or(0);
    let wide = take(|byte| byte & 0xf0 == 0x40).map_or(0, |rex| rex >> 3 & 1);
    let first = take(|byte| byte == 0x0f).unwrap_or(0);
    let second = if first == 0 { None } else { take(|byte| matches!(byte, 0x38 | 0x3a)) };
    Some((Form::Legacy { prefix, wide, escape: [first, second.unwrap_or(0)] }, bytes))
}
