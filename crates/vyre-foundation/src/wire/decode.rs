//! Bytes to parts.
//!
//! A [`Reader`] walks the payload once. Counts are checked before they are believed: each element of a list takes at
//! least a byte, so a list longer than the bytes left is refused before memory is set aside for it, and the lines of
//! all open blocks together are held against the bytes left in the same way.

use super::{WireError, line};
use crate::ir::{
    Args, Axis, Block, Body, Buffer, BufferId, BufferKind, DataType, Function, FunctionId, Literal, Local,
    Name, OpId, Operand, ProgramParts, ReduceOp, Tile, Value, is_name,
};
use crate::limits;
use smallvec::SmallVec;

pub(super) type Result<T> = std::result::Result<T, WireError>;

pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Where `rest` ends in the whole wire form.
    end: usize,
    /// Lines that open blocks have announced and that are not read yet.
    lines_owed: usize,
    lines_total: usize,
    /// The lengths of the blocks of the line that is being read.
    announced: Lengths,
    table_elements: usize,
    scope: Scope,
}

/// How many of each kind a line may name.
#[derive(Default)]
struct Scope {
    values: usize,
    locals: usize,
    buffers: usize,
    functions: usize,
}

/// How many lines each block of a line has.
type Lengths = SmallVec<[usize; 2]>;

/// A block being read: of the last line of the block below, if there is one.
struct Open {
    block: Block,
    left: usize,
    /// Which of its line's blocks it is, and the lengths of those behind it, the last one first.
    at: usize,
    behind: Lengths,
}

impl Open {
    fn new(lines: usize, at: usize, behind: Lengths) -> Open {
        Open { block: Block::with_capacity(lines), left: lines, at, behind }
    }
}

impl<'a> Reader<'a> {
    /// A reader of `payload`, which begins at `offset` of the whole wire form.
    pub(super) fn new(payload: &'a [u8], offset: usize) -> Reader<'a> {
        Reader {
            rest: payload,
            end: offset + payload.len(),
            lines_owed: 0,
            lines_total: 0,
            announced: Lengths::new(),
            table_elements: 0,
            scope: Scope::default(),
        }
    }

    pub(super) fn program(mut self) -> Result<ProgramParts> {
        let name = self.name()?;
        let workgroup = [self.u32()?, self.u32()?, self.u32()?];
        let subgroup = self.option()?;
        let buffers = self.list("buffers and tables", limits::BUFFERS_MAX, Self::buffer)?;
        self.scope.buffers = buffers.len();
        let functions = self.list("functions", limits::FUNCTIONS_MAX, Self::function)?;
        let body = self.body()?;
        if !self.rest.is_empty() {
            return Err(WireError::TrailingBytes { offset: self.offset(), count: self.rest.len() });
        }
        Ok(ProgramParts { name, workgroup, subgroup, buffers, functions, body })
    }

    fn buffer(&mut self) -> Result<Buffer> {
        let name = self.name()?;
        let offset = self.offset();
        let kind_tag = self.byte()?;
        let ty = self.ty()?;
        if kind_tag == 5 {
            let data = self.table(ty)?;
            return Ok(Buffer { name, ty, len: Some(data.len() as u32), kind: BufferKind::Table { data } });
        }
        let len = self.option()?;
        let kind = match kind_tag {
            0 => BufferKind::Uniform { binding: self.u32()? },
            1 => BufferKind::Read { binding: self.u32()? },
            2 | 3 => BufferKind::ReadWrite { binding: self.u32()?, output: kind_tag == 3 },
            4 => BufferKind::Workgroup,
            tag => return Err(WireError::UnknownTag { offset, what: "a buffer kind", tag }),
        };
        Ok(Buffer { name, kind, ty, len })
    }

    fn table(&mut self, ty: DataType) -> Result<Vec<u64>> {
        let max = limits::TABLE_ELEMENTS_MAX - self.table_elements;
        let data = self.list("table elements", max, |reader| reader.fixed(ty))?;
        self.table_elements += data.len();
        Ok(data)
    }

    fn function(&mut self) -> Result<Function> {
        let name = self.name()?;
        let result = self.tagged("a result type", |tag| match tag.checked_sub(1) {
            None => Some(None),
            Some(tag) => DataType::from_tag(tag).map(Some),
        })?;
        let (values, locals) = self.names()?;
        let params =
            self.list("parameters", limits::PARAMS_MAX, |reader| Ok((reader.value()?, reader.ty()?)))?;
        let block = self.block()?;
        self.scope.functions += 1;
        Ok(Function { name, params, result, body: Body { block, values, locals } })
    }

    fn body(&mut self) -> Result<Body> {
        let (values, locals) = self.names()?;
        Ok(Body { block: self.block()?, values, locals })
    }

    fn names(&mut self) -> Result<(Vec<Name>, Vec<Name>)> {
        let values = self.list("values", limits::NODES_MAX + limits::PARAMS_MAX, Self::name)?;
        let locals = self.list("locals", limits::NODES_MAX, Self::name)?;
        self.scope.values = values.len();
        self.scope.locals = locals.len();
        Ok((values, locals))
    }

    fn block(&mut self) -> Result<Block> {
        let mut top = Open::new(self.lines()?, 0, Lengths::new());
        let mut below: Vec<Open> = Vec::new();
        loop {
            while top.left == 0 {
                let Some(around) = below.last_mut() else { return Ok(top.block) };
                let place = around.block.last_mut().and_then(|line| line.blocks_mut().nth(top.at));
                *place.expect("the line announced the block") = top.block;
                match top.behind.pop() {
                    Some(lines) => top = Open::new(lines, top.at + 1, top.behind),
                    None => top = below.pop().expect("seen above"),
                }
            }
            top.left -= 1;
            self.lines_owed -= 1;
            let op = self.tagged("an op", OpId::from_tag)?;
            let node = line::read(op, self)?;
            top.block.push(node);
            if self.announced.is_empty() {
                continue;
            }
            let mut lengths = std::mem::take(&mut self.announced);
            lengths.reverse();
            let lines = lengths.pop().unwrap_or(0);
            below.push(std::mem::replace(&mut top, Open::new(lines, 0, lengths)));
            self.check_limit("blocks in each other", below.len() as u64, limits::NESTING_MAX as u64)?;
        }
    }

    /// A block of the line that is being read: empty, for its lines follow.
    pub(super) fn announced(&mut self) -> Result<Block> {
        let lines = self.lines()?;
        self.announced.push(lines);
        Ok(Block::new())
    }

    /// A count of lines that follow.
    fn lines(&mut self) -> Result<usize> {
        let count = self.length("lines", limits::NODES_MAX - self.lines_total)?;
        self.lines_total += count;
        self.lines_owed += count;
        self.check_left(self.lines_owed)?;
        Ok(count)
    }

    pub(super) fn axis(&mut self) -> Result<Option<Axis>> {
        self.tagged("an axis", |tag| match tag {
            0 => Some(None),
            1 => Some(Some(Axis::X)),
            2 => Some(Some(Axis::Y)),
            3 => Some(Some(Axis::Z)),
            _ => None,
        })
    }

    pub(super) fn reduce_op(&mut self) -> Result<ReduceOp> {
        self.tagged("a fold", |tag| ReduceOp::ALL.get(usize::from(tag)).copied())
    }

    pub(super) fn tile(&mut self) -> Result<Tile> {
        Ok(Tile { buffer: self.buffer_id()?, offset: self.operand()? })
    }

    pub(super) fn args(&mut self) -> Result<Args> {
        let count = self.length("operands", usize::MAX)?;
        let mut args = Args::with_capacity(count);
        for _ in 0..count {
            args.push(self.operand()?);
        }
        Ok(args)
    }

    pub(super) fn operands(&mut self) -> Result<Vec<Operand>> {
        self.list("operands", usize::MAX, Self::operand)
    }

    pub(super) fn optional_operand(&mut self) -> Result<Option<Operand>> {
        match self.length("operands", 1)? {
            0 => Ok(None),
            _ => Ok(Some(self.operand()?)),
        }
    }

    pub(super) fn operand(&mut self) -> Result<Operand> {
        let offset = self.offset();
        let number = self.number(u64::from(u32::MAX) << 1 | 1)?;
        if number & 1 == 0 {
            let index = number >> 1;
            check_reference(offset, "value", index, self.scope.values)?;
            return Ok(Operand::Value(Value(index as u32)));
        }
        let tag = u8::try_from(number >> 1).ok().and_then(DataType::from_tag);
        let ty = tag.ok_or(WireError::UnknownTag {
            offset,
            what: "a constant's type",
            tag: number.min(255) as u8,
        })?;
        let bits = if ty.is_float() { self.fixed(ty)? } else { self.number(ty.mask())? };
        Ok(Operand::Literal(Literal::from_bits(ty, bits)))
    }

    fn fixed(&mut self, ty: DataType) -> Result<u64> {
        let offset = self.offset();
        let mut bytes = [0; 8];
        let width = ty.bytes().max(1);
        bytes[..width].copy_from_slice(self.take(width)?);
        let bits = u64::from_le_bytes(bytes);
        if bits > ty.mask() {
            return Err(WireError::BadNumber { offset, max: ty.mask() });
        }
        Ok(bits)
    }

    pub(super) fn value(&mut self) -> Result<Value> {
        self.reference("value", self.scope.values).map(Value)
    }

    pub(super) fn optional_value(&mut self) -> Result<Option<Value>> {
        let offset = self.offset();
        let Some(index) = self.option()? else { return Ok(None) };
        check_reference(offset, "value", u64::from(index), self.scope.values)?;
        Ok(Some(Value(index)))
    }

    pub(super) fn local(&mut self) -> Result<Local> {
        self.reference("local", self.scope.locals).map(Local)
    }

    pub(super) fn buffer_id(&mut self) -> Result<BufferId> {
        self.reference("buffer", self.scope.buffers).map(BufferId)
    }

    pub(super) fn function_id(&mut self) -> Result<FunctionId> {
        self.reference("function", self.scope.functions).map(FunctionId)
    }

    fn reference(&mut self, what: &'static str, count: usize) -> Result<u32> {
        let offset = self.offset();
        let index = self.u32()?;
        check_reference(offset, what, u64::from(index), count)?;
        Ok(index)
    }

    fn name(&mut self) -> Result<Name> {
        let length = self.length("bytes of a name", limits::NAME_BYTES_MAX)?;
        let offset = self.offset();
        match std::str::from_utf8(self.take(length)?) {
            Ok(name) if is_name(name) => Ok(name.into()),
            Ok(_) | Err(_) => Err(WireError::BadName { offset }),
        }
    }

    fn list<T>(
        &mut self,
        what: &'static str,
        max: usize,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = self.length(what, max)?;
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    /// A count of things that follow, each at least a byte long.
    fn length(&mut self, what: &'static str, max: usize) -> Result<usize> {
        let offset = self.offset();
        let count = self.number(u64::MAX)?;
        if count > max as u64 {
            return Err(WireError::OverLimit { offset, what, count, max: max as u64 });
        }
        self.check_left(usize::try_from(count).unwrap_or(usize::MAX))?;
        Ok(count as usize)
    }

    fn check_limit(&self, what: &'static str, count: u64, max: u64) -> Result<()> {
        if count <= max {
            return Ok(());
        }
        Err(WireError::OverLimit { offset: self.offset(), what, count, max })
    }

    fn check_left(&self, needed: usize) -> Result<()> {
        if needed <= self.rest.len() {
            return Ok(());
        }
        Err(WireError::Truncated { offset: self.end, missing: needed - self.rest.len() })
    }

    pub(super) fn ty(&mut self) -> Result<DataType> {
        self.tagged("a type", DataType::from_tag)
    }

    fn tagged<T>(&mut self, what: &'static str, from_tag: impl FnOnce(u8) -> Option<T>) -> Result<T> {
        let offset = self.offset();
        let tag = self.byte()?;
        from_tag(tag).ok_or(WireError::UnknownTag { offset, what, tag })
    }

    pub(super) fn option(&mut self) -> Result<Option<u32>> {
        let number = self.number(u64::from(u32::MAX) + 1)?;
        Ok(number.checked_sub(1).map(|number| number as u32))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.number(u64::from(u32::MAX)).map(|number| number as u32)
    }

    /// A number in its shortest form, at most `max`.
    fn number(&mut self, max: u64) -> Result<u64> {
        let offset = self.offset();
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let low = u64::from(byte & 0x7f);
            number |= low << shift;
            let lost = shift > 0 && (number >> shift) != low;
            let padded = shift > 0 && byte == 0;
            if lost || padded {
                break;
            }
            if byte & 0x80 == 0 {
                return if number <= max { Ok(number) } else { Err(WireError::BadNumber { offset, max }) };
            }
        }
        Err(WireError::BadNumber { offset, max })
    }

    fn byte(&mut self) -> Result<u8> {
        match self.rest.split_first() {
            Some((byte, rest)) => {
                self.rest = rest;
                Ok(*byte)
            }
            None => Err(WireError::Truncated { offset: self.end, missing: 1 }),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        self.check_left(count)?;
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    fn offset(&self) -> usize {
        self.end - self.rest.len()
    }
}

fn check_reference(offset: usize, what: &'static str, index: u64, count: usize) -> Result<()> {
    if index < count as u64 {
        return Ok(());
    }
    Err(WireError::Dangling { offset, what, index, count })
}
