//! Where a kernel's registers get their values: basic blocks, definitions, copies and constants.
//!
//! A definition is found where it is the only one that can reach: the last one before the use in the same basic block, or
//! the register's only one in the kernel. Definitions that meet behind a branch are not followed.

use crate::ptx::{Instruction, Operand, Statement};
use std::collections::HashMap;

/// A kernel's body with what is known about it. Positions are indices of statements.
pub(super) struct Flow<'a> {
    body: &'a [Statement],
    /// The block of each statement.
    block: Vec<usize>,
    successors: Vec<Vec<usize>>,
    /// Who writes each register.
    writes: HashMap<&'a str, Vec<usize>>,
}

/// How far constants and copies are followed.
const DEPTH_MAX: u32 = 16;

impl<'a> Flow<'a> {
    pub(super) fn new(body: &'a [Statement]) -> Self {
        let mut flow = Flow { body, block: Vec::new(), successors: Vec::new(), writes: HashMap::new() };
        let mut labels = HashMap::new();
        let (mut block, mut ended) = (0, false);
        for (at, statement) in body.iter().enumerate() {
            if ended || (matches!(statement, Statement::Label(_)) && at > 0) {
                block += 1;
            }
            ended = false;
            flow.block.push(block);
            match statement {
                Statement::Label(name) => drop(labels.insert(name.as_str(), block)),
                Statement::Instruction(instruction) => {
                    ended = leaves(instruction);
                    for register in written(instruction) {
                        flow.writes.entry(register).or_default().push(at);
                    }
                }
            }
        }
        flow.connect(block + 1, &labels);
        flow
    }

    fn connect(&mut self, blocks: usize, labels: &HashMap<&str, usize>) {
        self.successors = vec![Vec::new(); blocks];
        for (at, statement) in self.body.iter().enumerate() {
            let block = self.block[at];
            let last = self.block.get(at + 1) != Some(&block);
            let mut goes_on = last && block + 1 < blocks;
            if let Statement::Instruction(instruction) = statement
                && leaves(instruction)
            {
                for operand in &instruction.operands {
                    if let Operand::Symbol(label) = operand {
                        self.successors[block].extend(labels.get(label.as_str()));
                    }
                }
                goes_on &= instruction.guard.is_some();
            }
            if goes_on {
                self.successors[block].push(block + 1);
            }
        }
    }

    /// The instruction at a position; `None` for a label.
    pub(super) fn instruction(&self, at: usize) -> Option<&'a Instruction> {
        match self.body.get(at)? {
            Statement::Instruction(instruction) => Some(instruction),
            Statement::Label(_) => None,
        }
    }

    /// All positions.
    pub(super) fn positions(&self) -> std::ops::Range<usize> {
        0..self.body.len()
    }

    /// Who can have written the register that is read at a position: at most one, or with `anywhere` all of its writers.
    pub(super) fn definitions(&self, register: &str, at: usize, anywhere: bool) -> Vec<usize> {
        let writes = self.writes.get(register).map_or(&[][..], Vec::as_slice);
        if let [only] = writes {
            return vec![*only];
        }
        if anywhere {
            return writes.to_vec();
        }
        let near = writes.iter().rev().find(|write| **write < at && self.block[**write] == self.block[at]);
        let same_guard = |write: usize| {
            let guard = self.instruction(write).and_then(|i| i.guard.as_ref());
            guard.is_none() || guard == self.instruction(at).and_then(|i| i.guard.as_ref())
        };
        near.copied().filter(|write| same_guard(*write)).into_iter().collect()
    }

    /// Whether the register still has before `later` what it had before `earlier`.
    pub(super) fn same_value(&self, register: &str, earlier: usize, later: usize) -> bool {
        let Some(writes) = self.writes.get(register) else { return true };
        // Where there is one definition, it is above its uses.
        if writes.len() == 1 || earlier == later {
            return true;
        }
        if self.block[earlier] == self.block[later] {
            return !writes.iter().any(|write| (earlier..later).contains(write));
        }
        let after = |write: usize| write == earlier || self.reaches(earlier, write);
        !writes.iter().any(|write| after(*write) && self.reaches(*write, later))
    }

    /// Whether `to` can run after `from`.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let (first, goal) = (self.block[from], self.block[to]);
        if first == goal && from < to {
            return true;
        }
        let mut seen = vec![false; self.successors.len()];
        let mut open = self.successors[first].clone();
        while let Some(block) = open.pop() {
            if block == goal {
                return true;
            }
            if !std::mem::replace(&mut seen[block], true) {
                open.extend(&self.successors[block]);
            }
        }
        false
    }

    /// The register that a plain move at a position copies from.
    pub(super) fn copied(&self, at: usize) -> Option<&'a str> {
        let instruction = self.instruction(at)?;
        match (instruction.opcode.as_str(), instruction.guard.as_ref(), instruction.operands.as_slice()) {
            ("mov", None, [Operand::Register(_), Operand::Register(source)]) => Some(source),
            _ => None,
        }
    }

    /// Follows copies back: the register and the position at which the first of them reads it.
    pub(super) fn origin(&self, register: &'a str, at: usize) -> (&'a str, usize) {
        let (mut register, mut at) = (register, at);
        for _ in 0..DEPTH_MAX {
            let [definition] = self.definitions(register, at, false)[..] else { break };
            let Some(source) = self.copied(definition) else { break };
            (register, at) = (source, definition);
        }
        (register, at)
    }

    /// The bits of an operand, where they are the same in every run: a literal, or a register that is computed from literals.
    pub(super) fn constant(&self, operand: &Operand, at: usize, width: u32) -> Option<i128> {
        self.constant_within(operand, at, width, DEPTH_MAX)
    }

    fn constant_within(&self, operand: &Operand, at: usize, width: u32, depth: u32) -> Option<i128> {
        match operand {
            Operand::Int(number) => Some(masked(*number, width)),
            Operand::Float(bits, 64) if width == 32 => {
                Some(i128::from((f64::from_bits(*bits) as f32).to_bits()))
            }
            Operand::Float(bits, _) => Some(i128::from(*bits)),
            Operand::Register(register) if depth > 0 => {
                let [definition] = self.definitions(register, at, false)[..] else { return None };
                let found = self.folded(definition, depth - 1)?;
                Some(masked(found, width))
            }
            _ => None,
        }
    }

    /// What an instruction on constants gives. Only what emitters write between a literal and its use.
    fn folded(&self, at: usize, depth: u32) -> Option<i128> {
        let instruction = self.instruction(at)?;
        if instruction.guard.is_some() {
            return None;
        }
        let (letter, width) = type_of(instruction.modifiers.last()?)?;
        let operand = |i: usize| {
            let operand = instruction.operands.get(i)?;
            let bits = self.constant_within(operand, at, width, depth)?;
            Some(if letter == "s" { signed(bits, width) } else { bits })
        };
        let opcode = instruction.opcode.as_str();
        let a = operand(1)?;
        let result = match opcode {
            "mov" | "cvt" if instruction.modifiers.len() <= 2 && !letter.ends_with('f') => a,
            "not" => !a,
            "neg" => a.wrapping_neg(),
            "and" => a & operand(2)?,
            "or" => a | operand(2)?,
            "xor" => a ^ operand(2)?,
            "add" if instruction.modifiers.len() == 1 && letter != "f" => a.wrapping_add(operand(2)?),
            "sub" if instruction.modifiers.len() == 1 && letter != "f" => a.wrapping_sub(operand(2)?),
            "min" if letter != "f" => a.min(operand(2)?),
            "max" if letter != "f" => a.max(operand(2)?),
            "shl" => a << operand(2)?.clamp(0, 64),
            "shr" => a >> operand(2)?.clamp(0, 64),
            _ => return None,
        };
        Some(masked(result, width))
    }
}

/// Whether control may go elsewhere behind this instruction.
fn leaves(instruction: &Instruction) -> bool {
    matches!(instruction.opcode.as_str(), "bra" | "brx" | "ret" | "exit" | "trap")
}

/// Whether the first operand is where a result goes, unless it is an address.
pub(super) fn has_destination(opcode: &str, modifiers: impl Fn(&str) -> bool) -> bool {
    match opcode {
        "bar" | "barrier" => modifiers("red"),
        "bra" | "brx" | "ret" | "exit" | "trap" | "brkpt" | "pmevent" | "nanosleep" | "setmaxnreg" => false,
        "membar" | "fence" | "st" | "red" | "prefetch" | "prefetchu" | "cp" | "stmatrix" | "discard" => false,
        _ => true,
    }
}

/// The registers that an instruction writes.
fn written(instruction: &Instruction) -> Vec<&str> {
    let mut found = Vec::new();
    let has = |modifier: &str| instruction.modifiers.iter().any(|m| m == modifier);
    if has_destination(&instruction.opcode, has) {
        instruction.operands.first().into_iter().for_each(|operand| registers(operand, &mut found));
    }
    found
}

fn registers<'a>(operand: &'a Operand, found: &mut Vec<&'a str>) {
    match operand {
        Operand::Register(name) => found.push(name),
        Operand::Vector(parts) => parts.iter().for_each(|part| registers(part, found)),
        Operand::Pair(a, b) => [a, b].into_iter().for_each(|part| registers(part, found)),
        // An address as the first operand is read, not written.
        Operand::Address(..) | Operand::Not(_) | Operand::Int(_) | Operand::Float(..) => {}
        Operand::Symbol(_) | Operand::Sum(..) | Operand::Discard => {}
    }
}

/// The letters and the width of a type such as `u32`, `b64`, `bf16x2`.
pub(super) fn type_of(modifier: &str) -> Option<(&str, u32)> {
    let digits = modifier.find(|c: char| c.is_ascii_digit())?;
    let (letters, rest) = modifier.split_at(digits);
    if !matches!(letters, "u" | "s" | "b" | "f" | "bf") {
        return None;
    }
    let (width, lanes) = rest.split_once('x').unwrap_or((rest, "1"));
    let width = width.parse::<u32>().ok()?.checked_mul(lanes.parse().ok()?)?;
    (width <= 128).then_some((letters, width))
}

/// The lowest bits of a number, as an unsigned one.
pub(super) fn masked(number: i128, width: u32) -> i128 {
    if width >= 127 { number } else { number & ((1 << width) - 1) }
}

/// The same bits as a number with a sign.
pub(super) fn signed(bits: i128, width: u32) -> i128 {
    if (1..127).contains(&width) && bits >> (width - 1) & 1 == 1 { bits - (1 << width) } else { bits }
}
