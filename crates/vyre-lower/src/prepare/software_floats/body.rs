//! The lines of a body, rewritten one by one in their order, so that traps keep theirs.
//!
//! The value that a line assigns keeps its name. A NaN's bits are free in registers, so it is made canonical only
//! where the language shows them: in stores to storage buffers and in bitcasts. 16-bit floats keep their upper half zero
//! in registers. Private arrays of them lie two to a word, because arrays have no 16-bit elements and must not grow.

use super::{Calls, LibraryFunction, Routine, What, in_register};
use vyre_foundation::ir::{
    Args, Block, Body, BufferId, ComputeOp, DataType, Function, Literal, Local, Node, Operand, ProgramParts,
    ReduceOp, Value, collective, value_types,
};
use vyre_foundation::scalar::identity;

/// Rewrites one body.
pub(super) struct Rewriter<'a> {
    parts: &'a ProgramParts,
    what: &'a What<'a>,
    calls: &'a mut Calls,
    source: &'a Body,
    types: Vec<Option<DataType>>,
    /// The rewritten body; its block is the one being written.
    out: Body,
    /// Elements of the packed arrays, by local.
    packed: Vec<u32>,
}

const U32: DataType = DataType::U32;

const fn literal(ty: DataType, bits: u64) -> Operand {
    Operand::Literal(Literal::from_bits(ty, bits))
}

const fn word(bits: u32) -> Operand {
    literal(U32, bits as u64)
}

const fn is_half(ty: DataType) -> bool {
    ty.is_float() && ty.bits() == 16
}

/// The bit of a float type's sign.
const fn sign(ty: DataType) -> u64 {
    1 << (ty.bits() - 1)
}

/// The bits of a float type's infinity.
const fn infinity(ty: DataType) -> u64 {
    identity(ReduceOp::Min, ty)
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(
        parts: &'a ProgramParts,
        what: &'a What<'a>,
        function: Option<&'a Function>,
        calls: &'a mut Calls,
    ) -> Rewriter<'a> {
        let source = function.map_or(&parts.body, |function| &function.body);
        let types = value_types(source, function, &parts.functions);
        let out = Body { block: Block::new(), values: source.values.clone(), locals: source.locals.clone() };
        Rewriter { parts, what, calls, source, types, out, packed: vec![0; source.locals.len()] }
    }

    /// The body without floats.
    pub(super) fn body(mut self) -> Body {
        self.out.block = self.block(&self.source.block);
        self.out
    }

    fn block(&mut self, block: &Block) -> Block {
        let outer = std::mem::take(&mut self.out.block);
        block.iter().for_each(|node| self.node(node));
        std::mem::replace(&mut self.out.block, outer)
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Compute { result, op, ty, args } => self.compute(*result, *op, *ty, args),
            Node::Subgroup { result, op, ty, args } => {
                let (ty, args) =
                    (self.what.in_register(*ty), args.iter().map(|arg| self.bits(*arg)).collect());
                self.push(Node::Subgroup { result: *result, op: *op, ty, args });
            }
            Node::Store { ty, buffer, index, value } => self.store(*ty, *buffer, *index, *value),
            Node::Var { local, ty, len: Some(len), init } if self.is_packed(*ty) => {
                self.array(*local, *len, *init)
            }
            Node::Get { result, ty, local, index: Some(index) } if self.is_packed(*ty) => {
                self.array_get(*result, *local, *index);
            }
            Node::Set { ty, local, index: Some(index), value } if self.is_packed(*ty) => {
                self.array_set(*local, *index, *value);
            }
            Node::If { cond, then, otherwise } => {
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                self.push(Node::If { cond: *cond, then, otherwise });
            }
            Node::For { counter, lo, hi, step, body } => {
                let body = self.block(body);
                self.push(Node::For { counter: *counter, lo: *lo, hi: *hi, step: *step, body });
            }
            Node::Load { result, ty, buffer, index } => {
                let ty = self.what.in_memory(*ty);
                self.push(Node::Load { result: *result, ty, buffer: *buffer, index: *index });
            }
            Node::UniformLoad { result, ty, buffer, index } => {
                let ty = self.what.in_memory(*ty);
                self.push(Node::UniformLoad { result: *result, ty, buffer: *buffer, index: *index });
            }
            Node::Var { local, ty, len, init } => {
                self.push(Node::Var {
                    local: *local,
                    ty: self.what.in_register(*ty),
                    len: *len,
                    init: self.bits(*init),
                });
            }
            Node::Get { result, ty, local, index } => {
                let ty = self.what.in_register(*ty);
                self.push(Node::Get { result: *result, ty, local: *local, index: *index });
            }
            Node::Set { ty, local, index, value } => {
                let (ty, value) = (self.what.in_register(*ty), self.bits(*value));
                self.push(Node::Set { ty, local: *local, index: *index, value });
            }
            Node::Call { result, function, args } => {
                let args = args.iter().map(|arg| self.bits(*arg)).collect();
                self.push(Node::Call { result: *result, function: *function, args });
            }
            Node::Return { value } => self.push(Node::Return { value: value.map(|value| self.bits(value)) }),
            // No floats.
            Node::Builtin { .. }
            | Node::Len { .. }
            | Node::Atomic { .. }
            | Node::Mma { .. }
            | Node::Break
            | Node::Continue
            | Node::Barrier { .. }
            | Node::IndirectDispatch { .. }
            | Node::Trap { .. }
            | collective!() => self.push(node.clone()),
        }
    }

    fn push(&mut self, node: Node) {
        self.out.block.push(node);
    }

    /// Writes a line with a new value, and gives the value.
    fn assign(&mut self, line: impl FnOnce(Value) -> Node) -> Operand {
        let result = self.out.new_value("t");
        self.push(line(result));
        result.into()
    }

    fn op<const N: usize>(&mut self, op: ComputeOp, ty: DataType, args: [Operand; N]) -> Operand {
        self.assign(|result| Node::Compute { result, op, ty, args: args.into_iter().collect() })
    }

    fn call(&mut self, routine: Routine, ty: DataType, args: &[Operand]) -> Operand {
        let function = self.calls.id(LibraryFunction { routine, ty });
        self.assign(|result| Node::Call { result: Some(result), function, args: args.to_vec() })
    }

    /// Lets `result` be `operand`, which the lines since `fresh` values were known have made, or which is older.
    ///
    /// `back` if the operand has a float's bits, and the result is to be that float.
    fn bind(&mut self, result: Value, ty: DataType, operand: Operand, fresh: usize, back: bool) {
        let last = self.out.block.last_mut().and_then(Node::result_mut);
        match (operand, last) {
            (Operand::Value(made), Some(last)) if !back && *last == made && made.index() >= fresh => {
                *last = result;
            }
            _ => {
                let ty = if back { ty } else { in_register(ty) };
                let args = [operand].into_iter().collect();
                self.push(Node::Compute { result, op: ComputeOp::Bitcast, ty, args });
            }
        }
    }

    /// An operand with a literal of a soft type as its bits.
    fn bits(&self, operand: Operand) -> Operand {
        match operand {
            Operand::Literal(constant) if self.what.is_soft(constant.ty()) => bits(operand),
            Operand::Literal(_) | Operand::Value(_) => operand,
        }
    }

    /// An operand as its bits, whether its type is soft or not.
    fn all_bits(&mut self, operand: Operand) -> Operand {
        let ty = self.type_of(operand);
        match operand {
            Operand::Value(_) if ty.is_float() && !self.what.is_soft(ty) => {
                self.op(ComputeOp::Bitcast, in_register(ty), [operand])
            }
            _ => bits(operand),
        }
    }

    /// Whether a private array of that type lies two elements to a word.
    fn is_packed(&self, ty: DataType) -> bool {
        is_half(ty) && self.what.is_soft(ty)
    }

    fn type_of(&self, operand: Operand) -> DataType {
        match operand {
            Operand::Literal(literal) => literal.ty(),
            Operand::Value(value) => self.types[value.index()].expect("validated: values have types"),
        }
    }

    fn compute(&mut self, result: Value, op: ComputeOp, ty: DataType, args: &[Operand]) {
        let source = self.type_of(args[0]);
        let between = [ty, source].into_iter().any(|ty| self.what.is_soft(ty));
        let is_soft = match op {
            ComputeOp::Bitcast => between,
            ComputeOp::Cast => between || self.what.is_soft_op(op, ty, source),
            _ => self.what.is_soft(ty) || (ty.is_float() && self.what.is_soft_op(op, ty, ty)),
        };
        if !is_soft {
            let args: Args = args.iter().map(|arg| self.bits(*arg)).collect();
            return self.push(Node::Compute { result, op, ty, args });
        }
        let fresh = self.out.values.len();
        let args: Vec<Operand> = args.iter().map(|arg| self.all_bits(*arg)).collect();
        let made = match op {
            ComputeOp::Cast => self.cast(ty, source, args[0]),
            ComputeOp::Bitcast => self.bitcast(ty, source, args[0]),
            _ => self.float_op(op, ty, &args),
        };
        let gives_float = op.info().result.under(ty).is_some_and(DataType::is_float);
        self.bind(result, ty, made, fresh, gives_float && !self.what.is_soft(ty));
    }

    /// An op on operands of one float type.
    fn float_op(&mut self, op: ComputeOp, ty: DataType, args: &[Operand]) -> Operand {
        let word = in_register(ty);
        let sign_bit = literal(word, sign(ty));
        match op {
            ComputeOp::Add => self.call(Routine::Add, ty, args),
            ComputeOp::Sub => {
                let negated = self.op(ComputeOp::Xor, word, [args[1], sign_bit]);
                self.call(Routine::Add, ty, &[args[0], negated])
            }
            ComputeOp::Mul => self.call(Routine::Mul, ty, args),
            ComputeOp::Div => self.call(Routine::Div, ty, args),
            ComputeOp::Rem => self.call(Routine::Rem, ty, args),
            ComputeOp::Neg => self.op(ComputeOp::Xor, word, [args[0], sign_bit]),
            ComputeOp::Abs => self.magnitude(ty, args[0]),
            ComputeOp::Min => self.call(Routine::Min, ty, args),
            ComputeOp::Max => self.call(Routine::Max, ty, args),
            ComputeOp::Eq => self.call(Routine::Eq, ty, args),
            ComputeOp::Ne => {
                let equal = self.call(Routine::Eq, ty, args);
                self.op(ComputeOp::Not, DataType::Bool, [equal])
            }
            ComputeOp::Lt => self.call(Routine::Lt, ty, args),
            ComputeOp::Le => self.call(Routine::Le, ty, args),
            ComputeOp::Gt => self.call(Routine::Lt, ty, &[args[1], args[0]]),
            ComputeOp::Ge => self.call(Routine::Le, ty, &[args[1], args[0]]),
            ComputeOp::Select => self.op(ComputeOp::Select, word, [args[0], args[1], args[2]]),
            ComputeOp::Fma => self.call(Routine::Fma, ty, args),
            ComputeOp::Sqrt => self.call(Routine::Sqrt, ty, args),
            ComputeOp::Floor => self.call(Routine::Floor, ty, args),
            ComputeOp::Ceil => self.call(Routine::Ceil, ty, args),
            ComputeOp::Trunc => self.call(Routine::Trunc, ty, args),
            ComputeOp::Round => self.call(Routine::Round, ty, args),
            ComputeOp::Copysign => {
                let sign = self.op(ComputeOp::And, word, [args[1], sign_bit]);
                let is_nan = self.is_nan(ty, args[1]);
                let sign = self.op(ComputeOp::Select, word, [is_nan, literal(word, 0), sign]);
                let magnitude = self.magnitude(ty, args[0]);
                self.op(ComputeOp::Or, word, [magnitude, sign])
            }
            ComputeOp::IsNan => self.is_nan(ty, args[0]),
            ComputeOp::IsInf => {
                let magnitude = self.magnitude(ty, args[0]);
                self.op(ComputeOp::Eq, word, [magnitude, literal(word, infinity(ty))])
            }
            ComputeOp::Cast
            | ComputeOp::Bitcast
            | ComputeOp::MulHi
            | ComputeOp::AddSat
            | ComputeOp::SubSat
            | ComputeOp::And
            | ComputeOp::Or
            | ComputeOp::Xor
            | ComputeOp::Not
            | ComputeOp::Shl
            | ComputeOp::Shr
            | ComputeOp::Rotl
            | ComputeOp::Rotr
            | ComputeOp::Popcount
            | ComputeOp::Clz
            | ComputeOp::Ctz
            | ComputeOp::ReverseBits
            | ComputeOp::Extract
            | ComputeOp::Insert
            | ComputeOp::Dot4 => unreachable!("{op:?} has no float operands"),
            ComputeOp::Clamp => unreachable!("legalised: a maximum and a minimum"),
        }
    }

    fn magnitude(&mut self, ty: DataType, x: Operand) -> Operand {
        self.op(ComputeOp::And, in_register(ty), [x, literal(in_register(ty), sign(ty) - 1)])
    }

    fn is_nan(&mut self, ty: DataType, x: Operand) -> Operand {
        let magnitude = self.magnitude(ty, x);
        self.op(ComputeOp::Gt, in_register(ty), [magnitude, literal(in_register(ty), infinity(ty))])
    }

    /// The bits as storage and bitcasts show them.
    fn canonical(&mut self, ty: DataType, x: Operand) -> Operand {
        let nan = ty.canonical_nan().expect("a float type has a NaN");
        let is_nan = self.is_nan(ty, x);
        self.op(ComputeOp::Select, in_register(ty), [is_nan, literal(in_register(ty), nan), x])
    }

    fn cast(&mut self, ty: DataType, source: DataType, x: Operand) -> Operand {
        let word = in_register(ty);
        match (ty, source) {
            (DataType::Bool, _) => {
                let magnitude = self.magnitude(source, x);
                self.op(ComputeOp::Ne, in_register(source), [magnitude, literal(in_register(source), 0)])
            }
            (_, DataType::Bool) => {
                let one = identity(ReduceOp::Mul, ty);
                self.op(ComputeOp::Select, word, [x, literal(word, one), literal(word, 0)])
            }
            _ if ty == source => x,
            // A bf16 is the upper half of an f32.
            (DataType::F32, DataType::BF16) => self.op(ComputeOp::Shl, word, [x, self::word(16)]),
            _ => self.call(Routine::Cast { from: source }, ty, &[x]),
        }
    }

    fn bitcast(&mut self, ty: DataType, source: DataType, x: Operand) -> Operand {
        let float = if ty.is_float() { ty } else { source };
        let word = in_register(float);
        let x = match source {
            DataType::U32 if is_half(ty) => self.op(ComputeOp::And, word, [x, literal(word, ty.mask())]),
            DataType::I32 | DataType::I64 => self.op(ComputeOp::Bitcast, word, [x]),
            _ => x,
        };
        let x = self.canonical(float, x);
        match ty {
            DataType::I32 | DataType::I64 => self.op(ComputeOp::Bitcast, ty, [x]),
            _ => x,
        }
    }

    fn store(&mut self, ty: DataType, buffer: BufferId, index: Operand, value: Operand) {
        let mut value = self.bits(value);
        if self.what.is_soft(ty) && self.parts.buffer(buffer).binding().is_some() {
            value = self.canonical(ty, value);
        }
        self.push(Node::Store { ty: self.what.in_memory(ty), buffer, index, value });
    }

    fn array(&mut self, local: Local, len: u32, init: Operand) {
        self.packed[local.index()] = len;
        let init = bits(init);
        let upper = self.op(ComputeOp::Shl, U32, [init, word(16)]);
        let init = self.op(ComputeOp::Or, U32, [init, upper]);
        self.push(Node::Var { local, ty: U32, len: Some(len.div_ceil(2)), init });
    }

    /// The word that holds an array's element, its index, and the element's place in it.
    fn array_word(&mut self, local: Local, index: Operand) -> [Operand; 3] {
        let at = self.op(ComputeOp::Shr, U32, [index, word(1)]);
        let held = self.assign(|result| Node::Get { result, ty: U32, local, index: Some(at) });
        let place = self.op(ComputeOp::Shl, U32, [index, word(4)]);
        [held, at, self.op(ComputeOp::And, U32, [place, word(16)])]
    }

    fn array_get(&mut self, result: Value, local: Local, index: Operand) {
        let fresh = self.out.values.len();
        let [held, _, place] = self.array_word(local, index);
        let mut element = self.op(ComputeOp::Extract, U32, [held, place, word(16)]);
        let len = self.packed[local.index()];
        if !len.is_multiple_of(2) {
            // The last word has half an element more than the array.
            let inside = self.op(ComputeOp::Lt, U32, [index, word(len)]);
            element = self.op(ComputeOp::Select, U32, [inside, element, word(0)]);
        }
        self.bind(result, U32, element, fresh, false);
    }

    fn array_set(&mut self, local: Local, index: Operand, value: Operand) {
        let [held, at, place] = self.array_word(local, index);
        let value = self.op(ComputeOp::Insert, U32, [held, bits(value), place, word(16)]);
        self.push(Node::Set { ty: U32, local, index: Some(at), value });
    }
}

/// An operand with a float literal as its bits.
fn bits(operand: Operand) -> Operand {
    match operand {
        Operand::Literal(constant) => literal(in_register(constant.ty()), constant.bits()),
        Operand::Value(_) => operand,
    }
}
