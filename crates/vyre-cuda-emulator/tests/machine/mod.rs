//! A machine for examples: one thread, integers, and as much PTX as they use. Not the emulator's: it judges rules only.

use std::collections::HashMap;
use vyre_cuda_emulator::ptx::{Instruction, Module, Operand, Statement};

pub(crate) struct Machine<'a> {
    registers: HashMap<&'a str, u64>,
    memory: HashMap<u64, u64>,
    carry: bool,
}

/// Steps after which an example counts as endless.
const STEPS_MAX: usize = 1000;

impl<'a> Machine<'a> {
    /// Runs the module's kernel; what is in `%o` and in memory, in one number.
    pub(crate) fn run(module: &'a Module, x: u64, y: u64, z: u64) -> u64 {
        let registers = HashMap::from([("%x", x), ("%y", y), ("%z", z)]);
        let mut machine = Machine { registers, memory: HashMap::new(), carry: false };
        let body = &module.entries[0].body;
        let (mut at, mut steps) = (0, 0);
        while let Some(statement) = body.get(at).filter(|_| steps < STEPS_MAX) {
            (at, steps) = (at + 1, steps + 1);
            let Statement::Instruction(instruction) = statement else { continue };
            if !machine.guarded(instruction) {
                continue;
            }
            match instruction.opcode.as_str() {
                "ret" => break,
                "bra" => {
                    let label = Statement::Label(symbol(&instruction.operands[0]).into());
                    at = body.iter().position(|statement| *statement == label).expect("a label");
                }
                _ => machine.step(instruction),
            }
        }
        let memory: u64 =
            machine.memory.iter().map(|(address, value)| address.wrapping_mul(31) ^ value).sum();
        machine.registers.get("%o").copied().unwrap_or(0) ^ memory.rotate_left(32)
    }

    fn guarded(&self, instruction: &Instruction) -> bool {
        let guard = instruction.guard.as_ref();
        guard.is_none_or(|(register, negated)| (self.get(register) != 0) != *negated)
    }

    fn get(&self, register: &str) -> u64 {
        self.registers.get(register).copied().unwrap_or(0)
    }

    fn value(&self, operand: &Operand) -> u64 {
        match operand {
            Operand::Register(name) => self.get(name),
            Operand::Int(number) => *number as u64,
            Operand::Float(bits, _) => *bits,
            Operand::Symbol(_) => 0,
            Operand::Address(base, offset) => self.value(base).wrapping_add(*offset as u64),
            other => panic!("the examples have no {other:?}"),
        }
    }

    fn step(&mut self, instruction: &'a Instruction) {
        let has = |name: &str| instruction.modifiers.iter().any(|modifier| modifier == name);
        let types: Vec<&str> = instruction.modifiers.iter().map(String::as_str).collect();
        let ty = types
            .iter()
            .rev()
            .find(|ty| ty.contains(|c: char| c.is_ascii_digit()))
            .copied()
            .unwrap_or("pred");
        let width = ty.trim_matches(|c: char| c.is_alphabetic()).parse().unwrap_or(1);
        let operands = &instruction.operands;
        if let Operand::Address(..) = operands[0] {
            self.memory.insert(self.value(&operands[0]), masked(self.value(&operands[1]), width));
            return;
        }
        let Operand::Register(destination) = &operands[0] else { panic!("{instruction:?}") };
        let sources: Vec<u64> =
            operands[1..].iter().map(|operand| masked(self.value(operand), width)).collect();
        let result = match instruction.opcode.as_str() {
            "ld" => self.memory.get(&self.value(&operands[1])).copied().unwrap_or(0),
            "setp" => u64::from(compare(types[0], ty, width, &sources)),
            "selp" => sources[if self.value(&operands[3]) != 0 { 0 } else { 1 }],
            "cvt" if ty.starts_with('f') || types[types.len() - 2].starts_with('f') => {
                floats(&types, sources[0])
            }
            "cvt" => signed(sources[0], if ty.starts_with('s') { width } else { 64 }) as u64,
            "addc" => sources[0].wrapping_add(sources[1]).wrapping_add(u64::from(self.carry)),
            _ if ty == "f32" => float(&instruction.opcode, &sources),
            "add" if has("cc") => {
                self.carry = sources[0] + sources[1] > u64::from(u32::MAX);
                sources[0].wrapping_add(sources[1])
            }
            opcode => integer(opcode, &types, ty.starts_with('s'), width, &sources),
        };
        let first = types.iter().find_map(|ty| ty.trim_matches(|c: char| c.is_alphabetic()).parse().ok());
        let result_width = if has("wide") { 64 } else { first.unwrap_or(width) };
        self.registers.insert(destination, masked(result, result_width));
    }
}

fn symbol(operand: &Operand) -> &str {
    let Operand::Symbol(name) = operand else { panic!("{operand:?} is no label") };
    name
}

fn masked(bits: u64, width: u32) -> u64 {
    if width >= 64 { bits } else { bits & ((1 << width) - 1) }
}

fn signed(bits: u64, width: u32) -> i64 {
    (bits << (64 - width.min(64))) as i64 >> (64 - width.min(64))
}

fn compare(how: &str, ty: &str, width: u32, sources: &[u64]) -> bool {
    let order = if ty == "f32" {
        let float = |bits: u64| f32::from_bits(bits as u32);
        match float(sources[0]).partial_cmp(&float(sources[1])) {
            Some(order) => order,
            None => return false,
        }
    } else if ty.starts_with('s') {
        signed(sources[0], width).cmp(&signed(sources[1], width))
    } else {
        sources[0].cmp(&sources[1])
    };
    match how {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "lt" => order.is_lt(),
        "le" => order.is_le(),
        "gt" => order.is_gt(),
        "ge" => order.is_ge(),
        other => panic!("the examples have no comparison `{other}`"),
    }
}

fn floats(types: &[&str], bits: u64) -> u64 {
    let float = f32::from_bits(bits as u32);
    let result = match types {
        ["rn", "f32", "u32"] => bits as f32,
        ["rn", "f32", "s32"] => bits as i32 as f32,
        ["rni", "f32", "f32"] => float.round_ties_even(),
        ["sat", "f32", "f32"] => (float + 0.0).clamp(0.0, 1.0),
        other => panic!("the examples have no conversion {other:?}"),
    };
    u64::from(result.to_bits())
}

fn float(opcode: &str, sources: &[u64]) -> u64 {
    let a = f32::from_bits(sources[0] as u32);
    let b = f32::from_bits(sources.get(1).copied().unwrap_or(0) as u32);
    let result = match opcode {
        "mov" => a,
        "neg" => -a,
        "abs" => a.abs(),
        "max" => {
            if a.is_nan() || b > a || (a == b && a.is_sign_negative()) {
                b
            } else {
                a
            }
        }
        "min" => {
            if a.is_nan() || b < a || (a == b && b.is_sign_negative()) {
                b
            } else {
                a
            }
        }
        other => panic!("the examples have no `{other}` of floats"),
    };
    u64::from(result.to_bits())
}

fn integer(opcode: &str, types: &[&str], is_signed: bool, width: u32, s: &[u64]) -> u64 {
    let wide = |bits: u64| if is_signed { i128::from(signed(bits, width)) } else { i128::from(bits) };
    let product = || wide(s[0]).wrapping_mul(wide(s[1]));
    let amount = |limit: u64| s[1].min(limit) as u32;
    match opcode {
        "mov" => s[0],
        "add" => s[0].wrapping_add(s[1]),
        "sub" if types.contains(&"sat") => {
            (wide(s[0]) - wide(s[1])).clamp(i32::MIN.into(), i32::MAX.into()) as u64
        }
        "sub" => s[0].wrapping_sub(s[1]),
        "neg" => s[0].wrapping_neg(),
        "not" => !s[0],
        "and" => s[0] & s[1],
        "or" => s[0] | s[1],
        "xor" => s[0] ^ s[1],
        "min" => wide(s[0]).min(wide(s[1])) as u64,
        "max" => wide(s[0]).max(wide(s[1])) as u64,
        "mul" if types.contains(&"hi") => (product() >> width) as u64,
        "mul" => product() as u64,
        "mad" => (product() + i128::from(s[2])) as u64,
        "shl" => ((u128::from(s[0])) << amount(64)) as u64,
        "shr" => (wide(s[0]) >> amount(64)) as u64,
        "shf" => {
            let both = s[1] << 32 | s[0];
            let amount = s[2] & 31;
            if types[0] == "l" { (both << amount) >> 32 } else { both >> amount }
        }
        "popc" => u64::from(s[0].count_ones()),
        "clz" => u64::from((s[0] as u32).leading_zeros()),
        "brev" => u64::from((s[0] as u32).reverse_bits()),
        "bfe" => {
            signed(s[0] >> s[1], if is_signed { s[2] as u32 } else { 64 }) as u64 & mask_of(s[2], is_signed)
        }
        "bfi" => s[1] & !(mask_of(s[3], false) << s[2]) | (s[0] & mask_of(s[3], false)) << s[2],
        "lop3" => (0..32)
            .map(|bit| {
                let of = |i: usize| s[i] >> bit & 1;
                (s[3] >> (of(0) << 2 | of(1) << 1 | of(2)) & 1) << bit
            })
            .sum(),
        "prmt" => (0..4)
            .map(|byte| {
                let from = s[2] >> (4 * byte) & 7;
                ((s[1] << 32 | s[0]) >> (8 * from) & 0xff) << (8 * byte)
            })
            .sum(),
        other => panic!("the examples have no `{other}`"),
    }
}

fn mask_of(len: u64, all: bool) -> u64 {
    if all { u64::MAX } else { (1 << len) - 1 }
}
