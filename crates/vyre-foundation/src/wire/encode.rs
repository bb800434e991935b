//! Parts to bytes.

use super::line;
use crate::ir::{Axis, Body, Buffer, BufferKind, DataType, Function, Operand, ProgramParts};

/// The payload of parts in canonical form.
pub(super) fn payload(parts: &ProgramParts) -> Vec<u8> {
    let mut writer = Writer { bytes: Vec::new() };
    writer.program(parts);
    writer.bytes
}

/// Collects bytes. Methods give the writer back, so that a line of the layout is a line of code.
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn program(&mut self, parts: &ProgramParts) {
        let [x, y, z] = parts.workgroup;
        self.name(&parts.name).u32(x).u32(y).u32(z).option(parts.subgroup);
        self.count(parts.buffers.len());
        parts.buffers.iter().for_each(|buffer| self.buffer(buffer));
        self.count(parts.functions.len());
        parts.functions.iter().for_each(|function| self.function(function));
        self.names(&parts.body).block(&parts.body);
    }

    fn buffer(&mut self, buffer: &Buffer) {
        self.name(&buffer.name).byte(kind_tag(&buffer.kind)).ty(buffer.ty);
        if let BufferKind::Table { data } = &buffer.kind {
            // A table's length is the count of its elements.
            self.count(data.len());
            data.iter().for_each(|bits| self.fixed(buffer.ty, *bits));
            return;
        }
        self.option(buffer.len);
        if let Some(binding) = buffer.binding() {
            self.u32(binding);
        }
    }

    fn function(&mut self, function: &Function) {
        self.name(&function.name).byte(function.result.map_or(0, |ty| ty.tag() + 1));
        self.names(&function.body).count(function.params.len());
        for (value, ty) in &function.params {
            self.u32(value.0).ty(*ty);
        }
        self.block(&function.body);
    }

    fn names(&mut self, body: &Body) -> &mut Writer {
        for names in [&body.values, &body.locals] {
            self.count(names.len());
            for name in names {
                self.name(name);
            }
        }
        self
    }

    /// Writes the lines of a body, an `if`'s or loop's block behind its line.
    fn block(&mut self, body: &Body) {
        self.count(body.block.len());
        let mut open = vec![body.block.iter()];
        while let Some(lines) = open.last_mut() {
            let Some(node) = lines.next() else {
                open.pop();
                continue;
            };
            let op = node.op();
            self.byte(op.info().tag);
            line::write(node, op, self);
            // The first block of the line is written first, so it must lie on top.
            let above = open.len();
            open.extend(node.blocks().map(|block| block.iter()));
            open[above..].reverse();
        }
    }

    pub(super) fn axis(&mut self, axis: Option<Axis>) -> &mut Writer {
        self.byte(axis.map_or(0, |axis| axis as u8 + 1))
    }

    pub(super) fn operands(&mut self, operands: &[Operand]) -> &mut Writer {
        self.count(operands.len());
        for operand in operands {
            self.operand(*operand);
        }
        self
    }

    /// A value is twice its number. A constant is twice its type's tag plus one, then its bits: integers are mostly
    /// small, so they are numbers; floats are not.
    pub(super) fn operand(&mut self, operand: Operand) -> &mut Writer {
        match operand {
            Operand::Value(value) => self.number(u64::from(value.0) << 1),
            Operand::Literal(literal) => {
                self.byte(literal.ty().tag() << 1 | 1);
                if literal.ty().is_float() {
                    self.fixed(literal.ty(), literal.bits());
                } else {
                    self.number(literal.bits());
                }
                self
            }
        }
    }

    /// Bits by the type's width, the lowest byte first; a bool takes a byte.
    fn fixed(&mut self, ty: DataType, bits: u64) {
        self.bytes.extend_from_slice(&bits.to_le_bytes()[..ty.bytes().max(1)]);
    }

    fn name(&mut self, name: &str) -> &mut Writer {
        self.count(name.len());
        self.bytes.extend_from_slice(name.as_bytes());
        self
    }

    pub(super) fn ty(&mut self, ty: DataType) -> &mut Writer {
        self.byte(ty.tag())
    }

    /// Nothing is 0, and `n` is `n + 1`.
    pub(super) fn option(&mut self, number: Option<u32>) -> &mut Writer {
        self.number(number.map_or(0, |number| u64::from(number) + 1))
    }

    pub(super) fn count(&mut self, count: usize) -> &mut Writer {
        self.number(count as u64)
    }

    pub(super) fn u32(&mut self, number: u32) -> &mut Writer {
        self.number(u64::from(number))
    }

    /// Shortest LEB128: seven bits a byte, the lowest first, the top bit set on all but the last.
    fn number(&mut self, mut number: u64) -> &mut Writer {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8)
    }

    pub(super) fn byte(&mut self, byte: u8) -> &mut Writer {
        self.bytes.push(byte);
        self
    }
}

fn kind_tag(kind: &BufferKind) -> u8 {
    match kind {
        BufferKind::Uniform { .. } => 0,
        BufferKind::Read { .. } => 1,
        BufferKind::ReadWrite { output: false, .. } => 2,
        BufferKind::ReadWrite { output: true, .. } => 3,
        BufferKind::Workgroup => 4,
        BufferKind::Table { .. } => 5,
    }
}
