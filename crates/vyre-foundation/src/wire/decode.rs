//! Bytes to parts.
//!
//! A [`Reader`] walks the payload once. Counts are checked before they are believed: each element of a list takes at
//! least a byte, so a list longer than the bytes left is refused before memory is set aside for it, and the lines of
//! all open blocks together are held against the bytes left in the same way.

use super::WireError;
use crate::ir::{
    Args, Axis, Block, Body, Buffer, BufferId, BufferKind, ControlOp, DataType, Function, FunctionId,
    Literal, Local, MemoryOrdering, Name, Node, OpId, Operand, ProgramParts, ReadOp, ReduceOp, SubgroupOp,
    SyncOp, Tile, Value, WriteOp, is_name,
};
use crate::limits;

type Result<T> = std::result::Result<T, WireError>;

pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Where `rest` ends in the whole wire form.
    end: usize,
    /// Lines that open blocks have announced and that are not read yet.
    lines_owed: usize,
    lines_total: usize,
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

/// A line: complete, or one whose blocks follow.
enum Line {
    Whole(Node),
    If { cond: Operand, then: usize, otherwise: usize },
    For { counter: Value, lo: Operand, hi: Operand, step: u32, body: usize },
}

/// A block being read.
struct Open {
    block: Block,
    left: usize,
    /// What its end completes; nothing for the outermost block.
    closes: Option<Closes>,
}

enum Closes {
    Then { cond: Operand, otherwise: usize },
    Else { cond: Operand, then: Block },
    Loop { counter: Value, lo: Operand, hi: Operand, step: u32 },
}

impl Open {
    fn new(lines: usize, closes: Option<Closes>) -> Open {
        Open { block: Block::with_capacity(lines), left: lines, closes }
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
        let mut top = Open::new(self.lines()?, None);
        let mut below: Vec<Open> = Vec::new();
        loop {
            while top.left == 0 {
                let Some(closes) = top.closes else { return Ok(top.block) };
                let node = match closes {
                    Closes::Then { cond, otherwise } if otherwise > 0 => {
                        top = Open::new(otherwise, Some(Closes::Else { cond, then: top.block }));
                        continue;
                    }
                    Closes::Then { cond, .. } => Node::If { cond, then: top.block, otherwise: Block::new() },
                    Closes::Else { cond, then } => Node::If { cond, then, otherwise: top.block },
                    Closes::Loop { counter, lo, hi, step } => {
                        Node::For { counter, lo, hi, step, body: top.block }
                    }
                };
                top = below.pop().expect("a block that closes something is nested in another");
                top.block.push(node);
            }
            top.left -= 1;
            self.lines_owed -= 1;
            let (lines, closes) = match self.line()? {
                Line::Whole(node) => {
                    top.block.push(node);
                    continue;
                }
                Line::If { cond, then, otherwise } => (then, Closes::Then { cond, otherwise }),
                Line::For { counter, lo, hi, step, body } => (body, Closes::Loop { counter, lo, hi, step }),
            };
            below.push(std::mem::replace(&mut top, Open::new(lines, Some(closes))));
            self.check_limit("blocks in each other", below.len() as u64, limits::NESTING_MAX as u64)?;
        }
    }

    /// A count of lines that follow.
    fn lines(&mut self) -> Result<usize> {
        let count = self.length("lines", limits::NODES_MAX - self.lines_total)?;
        self.lines_total += count;
        self.lines_owed += count;
        self.check_left(self.lines_owed)?;
        Ok(count)
    }

    fn line(&mut self) -> Result<Line> {
        let node = match self.tagged("an op", OpId::from_tag)? {
            OpId::ComputeOp(op) => {
                let ty = self.ty()?;
                Node::Compute { result: self.value()?, op, ty, args: self.args()? }
            }
            OpId::BuiltinOp(op) => Node::Builtin { result: self.value()?, op, axis: self.axis()? },
            OpId::SubgroupOp(op) => {
                let ty = self.suffix(op)?;
                Node::Subgroup { result: self.value()?, op, ty, args: self.args()? }
            }
            OpId::AtomicOp(op) => {
                let (ty, result) = (self.ty()?, self.optional_value()?);
                let Tile { buffer, offset: index } = self.element()?;
                Node::Atomic { result, op, ty, buffer, index, args: self.args()? }
            }
            OpId::ReadOp(op) => self.read_line(op)?,
            OpId::WriteOp(op) => self.write_line(op)?,
            OpId::SyncOp(op) => self.sync_line(op)?,
            OpId::ControlOp(op) => return self.control_line(op),
        };
        Ok(Line::Whole(node))
    }

    fn read_line(&mut self, op: ReadOp) -> Result<Node> {
        Ok(match op {
            ReadOp::Load => {
                let (ty, result) = (self.ty()?, self.value()?);
                let Tile { buffer, offset: index } = self.element()?;
                Node::Load { result, ty, buffer, index }
            }
            ReadOp::Len => Node::Len { result: self.value()?, buffer: self.buffer_id()? },
            ReadOp::Get => {
                let ty = self.ty()?;
                Node::Get { result: self.value()?, ty, local: self.local()?, index: self.optional_operand()? }
            }
        })
    }

    fn write_line(&mut self, op: WriteOp) -> Result<Node> {
        Ok(match op {
            WriteOp::Store => {
                let ty = self.ty()?;
                let Tile { buffer, offset: index } = self.element()?;
                Node::Store { ty, buffer, index, value: self.operand()? }
            }
            WriteOp::Var => {
                let ty = self.ty()?;
                Node::Var { local: self.local()?, ty, len: self.option()?, init: self.operand()? }
            }
            WriteOp::Set => {
                let ty = self.ty()?;
                Node::Set {
                    local: self.local()?,
                    ty,
                    index: self.optional_operand()?,
                    value: self.operand()?,
                }
            }
            WriteOp::Trap => Node::Trap { code: self.u32()? },
        })
    }

    fn sync_line(&mut self, op: SyncOp) -> Result<Node> {
        Ok(match op {
            SyncOp::Barrier => Node::Barrier { ordering: MemoryOrdering::Workgroup },
            SyncOp::SubgroupBarrier => Node::Barrier { ordering: MemoryOrdering::Subgroup },
            SyncOp::GridBarrier => Node::Barrier { ordering: MemoryOrdering::GridSync },
            SyncOp::UniformLoad => {
                let (ty, result) = (self.ty()?, self.value()?);
                let Tile { buffer, offset: index } = self.element()?;
                Node::UniformLoad { result, ty, buffer, index }
            }
            SyncOp::Mma => {
                let (m, n, k) = (self.u32()?, self.u32()?, self.u32()?);
                Node::Mma { m, n, k, c: self.element()?, a: self.element()?, b: self.element()? }
            }
            SyncOp::AllReduce => {
                let (ty, op) = (self.ty()?, self.reduce_op()?);
                Node::AllReduce { op, ty, dst: self.buffer_id()?, src: self.buffer_id()? }
            }
            SyncOp::ReduceScatter => {
                let (ty, op) = (self.ty()?, self.reduce_op()?);
                Node::ReduceScatter { op, ty, dst: self.buffer_id()?, src: self.buffer_id()? }
            }
            SyncOp::AllGather => {
                Node::AllGather { ty: self.ty()?, dst: self.buffer_id()?, src: self.buffer_id()? }
            }
            SyncOp::Broadcast => {
                let (ty, dst, src) = (self.ty()?, self.buffer_id()?, self.buffer_id()?);
                Node::Broadcast { ty, dst, src, root: self.u32()? }
            }
        })
    }

    fn control_line(&mut self, op: ControlOp) -> Result<Line> {
        Ok(Line::Whole(match op {
            ControlOp::If => {
                let cond = self.operand()?;
                return Ok(Line::If { cond, then: self.lines()?, otherwise: self.lines()? });
            }
            ControlOp::For => {
                let (counter, lo, hi) = (self.value()?, self.operand()?, self.operand()?);
                return Ok(Line::For { counter, lo, hi, step: self.u32()?, body: self.lines()? });
            }
            ControlOp::Break => Node::Break,
            ControlOp::Continue => Node::Continue,
            ControlOp::Call => {
                let result = self.optional_value()?;
                let function = FunctionId(self.reference("function", self.scope.functions)?);
                Node::Call { result, function, args: self.list("operands", usize::MAX, Self::operand)? }
            }
            ControlOp::Return => Node::Return { value: self.optional_operand()? },
            ControlOp::IndirectDispatch => {
                Node::IndirectDispatch { buffer: self.buffer_id()?, offset: self.u32()? }
            }
        }))
    }

    /// The type of a subgroup op: written where it has a suffix in text, else the one the table gives.
    fn suffix(&mut self, op: SubgroupOp) -> Result<DataType> {
        let info = op.info();
        if info.types.is_empty() {
            return Ok(info.result.under(DataType::U32).unwrap_or(DataType::U32));
        }
        self.ty()
    }

    fn axis(&mut self) -> Result<Option<Axis>> {
        self.tagged("an axis", |tag| match tag {
            0 => Some(None),
            1 => Some(Some(Axis::X)),
            2 => Some(Some(Axis::Y)),
            3 => Some(Some(Axis::Z)),
            _ => None,
        })
    }

    fn reduce_op(&mut self) -> Result<ReduceOp> {
        self.tagged("a fold", |tag| ReduceOp::ALL.get(usize::from(tag)).copied())
    }

    fn element(&mut self) -> Result<Tile> {
        Ok(Tile { buffer: self.buffer_id()?, offset: self.operand()? })
    }

    fn args(&mut self) -> Result<Args> {
        let count = self.length("operands", usize::MAX)?;
        let mut args = Args::with_capacity(count);
        for _ in 0..count {
            args.push(self.operand()?);
        }
        Ok(args)
    }

    fn optional_operand(&mut self) -> Result<Option<Operand>> {
        match self.length("operands", 1)? {
            0 => Ok(None),
            _ => Ok(Some(self.operand()?)),
        }
    }

    fn operand(&mut self) -> Result<Operand> {
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

    fn value(&mut self) -> Result<Value> {
        self.reference("value", self.scope.values).map(Value)
    }

    fn optional_value(&mut self) -> Result<Option<Value>> {
        let offset = self.offset();
        let Some(index) = self.option()? else { return Ok(None) };
        check_reference(offset, "value", u64::from(index), self.scope.values)?;
        Ok(Some(Value(index)))
    }

    fn local(&mut self) -> Result<Local> {
        self.reference("local", self.scope.locals).map(Local)
    }

    fn buffer_id(&mut self) -> Result<BufferId> {
        self.reference("buffer", self.scope.buffers).map(BufferId)
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

    fn ty(&mut self) -> Result<DataType> {
        self.tagged("a type", DataType::from_tag)
    }

    fn tagged<T>(&mut self, what: &'static str, from_tag: impl FnOnce(u8) -> Option<T>) -> Result<T> {
        let offset = self.offset();
        let tag = self.byte()?;
        from_tag(tag).ok_or(WireError::UnknownTag { offset, what, tag })
    }

    fn option(&mut self) -> Result<Option<u32>> {
        let number = self.number(u64::from(u32::MAX) + 1)?;
        Ok(number.checked_sub(1).map(|number| number as u32))
    }

    fn u32(&mut self) -> Result<u32> {
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
