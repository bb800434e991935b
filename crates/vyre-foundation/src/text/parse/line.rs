//! The lines of bodies, one instruction each, read as the op table says.

use super::block::{Blocks, Open};
use super::{Parse, Parser, Symbol, Unresolved};
use crate::ir::{
    ArgType, Args, Axis, BufferId, BuiltinOp, ControlOp, DataType, FunctionId, Literal, Local,
    MemoryOrdering, Node, OpId, Operand, ReadOp, ReduceOp, SyncOp, Tile, Value, WriteOp, walk,
};
use crate::limits;
use crate::math::{self, MathOp, NameTaken};
use crate::text::lex::{Kind, Token};
use crate::text::literal::{self, Want, clip};
use crate::text::suggest;
use smallvec::SmallVec;

/// What a line does.
#[derive(Clone, Copy)]
pub(super) enum Head {
    /// An op with its suffix; u32 for ops without one.
    Op(OpId, DataType),
    /// A call of a library function that is written as an op.
    Math(FunctionId),
}

/// The types that an op's operands have under a suffix.
fn wanted(args: &[ArgType], ty: DataType) -> SmallVec<[Option<DataType>; 4]> {
    args.iter().map(|arg| arg.under(ty)).collect()
}

const U32: Want = Want::Type(DataType::U32);

impl<'s> Parser<'s> {
    /// Reads one line, or the head of a block.
    pub(super) fn line(&mut self, blocks: &mut Blocks, is_program: bool) -> Parse<()> {
        if self.at(Kind::Word) {
            let word = self.token.text(self.source);
            if matches!(word, "buffer" | "const" | "fn") {
                return self.declaration(word, blocks, is_program);
            }
            if word == "else" {
                return Err(self.error(
                    "P003",
                    self.token,
                    "`else` has no `if` before it on its line",
                    "write `} else {` on the line that closes the block of the `if`",
                ));
            }
        }
        let (start, line, line_start) = (self.token, self.line, self.line_start);
        self.nodes += 1;
        if self.nodes > limits::NODES_MAX {
            let message = format!("more than {} lines", limits::NODES_MAX);
            return Err(self.error("P023", start, message, "split the program into several dispatches"));
        }
        let result = match self.take(Kind::Value) {
            Some(token) => {
                let name = self.name(token);
                let value = self.scope.assign_value(name);
                self.expect(Kind::Equals, "`=`")?;
                Some(value)
            }
            None => None,
        };
        let Some(token) = self.take(Kind::Word) else {
            return Err(self.not_an_instruction(result.is_some()));
        };
        let head = self.head(token, result.is_some())?;
        let is_header = match head {
            Head::Op(OpId::ControlOp(ControlOp::If), _) => {
                self.block_due = true;
                self.no_result(token, result)?;
                self.if_header(blocks)?;
                true
            }
            Head::Op(OpId::ControlOp(ControlOp::For), _) => {
                self.block_due = true;
                self.no_result(token, result)?;
                self.for_header(blocks)?;
                true
            }
            Head::Op(op, ty) => {
                let node = self.node(token, op, ty, result)?;
                blocks.push(node);
                false
            }
            Head::Math(function) => {
                let node = self.math(token, function, result)?;
                blocks.push(node);
                false
            }
        };
        let span = self.span_from(start, line, line_start);
        self.scope.lines.push(span);
        if is_header { self.end_of_header() } else { self.end_of_line() }
    }

    fn declaration(&mut self, word: &str, blocks: &Blocks, is_program: bool) -> Parse<()> {
        if !is_program || !blocks.at_outermost() {
            return Err(self.error(
                "P021",
                self.token,
                format!("`{word}` is inside a block"),
                "declare it at the start of the program, before its first line",
            ));
        }
        if !blocks.is_empty() {
            self.error(
                "P021",
                self.token,
                format!("`{word}` comes after the first line of the body"),
                "move it up: declarations come before the body",
            );
        }
        match word {
            "fn" => self.function(),
            _ => self.buffer(word == "const"),
        }
    }

    /// `exp.f32 %x`: a call of the library's function.
    fn math(&mut self, token: Token, function: FunctionId, result: Option<Value>) -> Parse<Node> {
        let result = self.needs_result(token, result)?;
        let params: Vec<Option<DataType>> =
            self.parts.functions[function.index()].params.iter().map(|param| Some(param.1)).collect();
        let args = self.args(token, &params)?;
        if args.len() != params.len() {
            let text = token.text(self.source);
            let message = format!("`{text}` takes {} operands, found {}", params.len(), args.len());
            return Err(self.error(
                "P003",
                token,
                message,
                "write all its operands, with commas between them",
            ));
        }
        Ok(Node::Call { result: Some(result), function, args: args.to_vec() })
    }

    /// Puts the function that a word such as `exp.f32` names into the program.
    fn declare_math(&mut self, token: Token, op: &'static MathOp, suffix: &str) -> Parse<FunctionId> {
        let Some(ty) = DataType::from_name(suffix).filter(|ty| op.types.contains(*ty)) else {
            let message = format!("`{}` is not an op", clip(token.text(self.source)));
            let fix = format!("write it as `{}.T` with T one of {}", op.name, op.types);
            return Err(self.error("P006", token, message, fix));
        };
        let function = match math::declare(&mut self.parts, op, ty) {
            Ok(function) => function,
            Err(NameTaken(name)) => {
                let message = format!("`{}` needs the name `@{name}` for its function", op.name);
                return Err(self.error("P012", token, message, "give what is called so another name"));
            }
        };
        // What the library holds stands, for diagnostics, where it is asked for first.
        let span = self.span_from(token, self.line, self.line_start);
        for function in &self.parts.functions[self.map.functions.len()..] {
            let mut lines = Vec::new();
            walk(&function.body.block, |_, _, _| lines.push(span));
            self.map.functions.push((span, lines));
        }
        self.map.buffers.resize(self.parts.buffers.len(), span);
        Ok(function)
    }

    /// The op and type that a word such as `add.f32` names.
    fn head(&mut self, token: Token, has_result: bool) -> Parse<Head> {
        let word = token.text(self.source);
        if let Some(head) = self.heads.get(word) {
            return Ok(*head);
        }
        let (name, suffix) = word.split_once('.').unwrap_or((word, ""));
        let Some(op) = OpId::from_name(name) else {
            if let Some(op) = MathOp::from_name(name) {
                let head = Head::Math(self.declare_math(token, op, suffix)?);
                self.heads.insert(word, head);
                return Ok(head);
            }
            let message = format!("`{}` is not an op", clip(name));
            let fix = self.not_an_op(token, has_result);
            return Err(self.error("P004", token, message, fix));
        };
        let info = op.info();
        let takes_type = !info.types.is_empty() && op != OpId::WriteOp(WriteOp::Var);
        let ty = if op == OpId::SyncOp(SyncOp::Mma) {
            (suffix == "i32.i8").then_some(DataType::U32)
        } else if takes_type {
            DataType::from_name(suffix)
        } else {
            suffix.is_empty().then_some(DataType::U32)
        };
        let Some(ty) = ty else {
            return Err(self.wrong_suffix(token, op, suffix, takes_type));
        };
        let head = Head::Op(op, ty);
        self.heads.insert(word, head);
        Ok(head)
    }

    fn wrong_suffix(&mut self, token: Token, op: OpId, suffix: &str, takes_type: bool) -> super::Reported {
        let syntax = op.info().syntax;
        if takes_type && !suffix.is_empty() {
            let message = format!("`{}` after `{op}` is not a type", clip(suffix));
            return self.error("P005", token, message, suggest::fix_type(suffix));
        }
        let (message, fix) = match (takes_type, op) {
            (true, _) => (
                format!("`{op}` does not say its type"),
                format!("write it as `{op}.T` with T one of {}", op.info().types),
            ),
            (false, OpId::SyncOp(SyncOp::Mma)) => {
                (format!("`{op}` names its types"), format!("write it as `{syntax}`"))
            }
            (false, _) => (format!("`{op}` takes no type suffix"), format!("write it as `{syntax}`")),
        };
        self.error("P006", token, message, fix)
    }

    /// Reads what follows an op and makes the line's node. `if` and `for` are not lines but heads of blocks.
    fn node(&mut self, token: Token, op: OpId, ty: DataType, result: Option<Value>) -> Parse<Node> {
        match op {
            OpId::ComputeOp(op) => {
                let result = self.needs_result(token, result)?;
                let args = self.args(token, &wanted(op.info().args, ty))?;
                Ok(Node::Compute { result, op, ty, args })
            }
            OpId::BuiltinOp(op) => self.builtin(token, op, result),
            OpId::SubgroupOp(op) => {
                let result = self.needs_result(token, result)?;
                let args = self.args(token, &wanted(op.info().args, ty))?;
                // Sealing gives ops without suffix the type that the table says.
                Ok(Node::Subgroup { result, op, ty, args })
            }
            OpId::AtomicOp(op) => {
                let (buffer, index) = self.element()?;
                let mut args = Args::new();
                while self.take(Kind::Comma).is_some() {
                    let wanted = op.info().args;
                    if args.len() + 1 >= wanted.len() {
                        self.surplus(token.text(self.source), wanted.len())?;
                    }
                    let want = wanted.get(args.len() + 1).and_then(|arg| arg.under(ty));
                    args.push(self.operand(Want::of(want))?);
                }
                Ok(Node::Atomic { result, op, ty, buffer, index, args })
            }
            OpId::ReadOp(op) => self.read(token, op, ty, result),
            OpId::WriteOp(op) => {
                self.no_result(token, result)?;
                self.write(op, ty)
            }
            OpId::SyncOp(op) => self.sync(token, op, ty, result),
            OpId::ControlOp(op) => self.control(token, op, result),
        }
    }

    fn needs_result(&mut self, op: Token, result: Option<Value>) -> Parse<Value> {
        match result {
            Some(result) => Ok(result),
            None => {
                let text = op.text(self.source);
                let message = format!("the result of `{text}` is not assigned");
                Err(self.error("P017", op, message, format!("write `%r = {text}`, or remove the line")))
            }
        }
    }

    fn no_result(&mut self, op: Token, result: Option<Value>) -> Parse<()> {
        match result {
            None => Ok(()),
            Some(_) => {
                let message = format!("`{}` has no result to assign", op.text(self.source));
                Err(self.error("P017", op, message, "remove the name and the `=` before it"))
            }
        }
    }

    fn builtin(&mut self, token: Token, op: BuiltinOp, result: Option<Value>) -> Parse<Node> {
        let result = self.needs_result(token, result)?;
        if !self.at(Kind::Word) {
            return Ok(Node::Builtin { result, op, axis: None });
        }
        let word = self.bump();
        let name = word.text(self.source);
        let axis = Axis::ALL.into_iter().find(|axis| axis.name() == name);
        if axis.is_none() {
            let message = format!("`{}` is not an axis", clip(name));
            return Err(self.error("P003", word, message, "write `x`, `y` or `z`"));
        }
        Ok(Node::Builtin { result, op, axis })
    }

    fn read(&mut self, token: Token, op: ReadOp, ty: DataType, result: Option<Value>) -> Parse<Node> {
        let result = self.needs_result(token, result)?;
        match op {
            ReadOp::Load => {
                let (buffer, index) = self.element()?;
                Ok(Node::Load { result, ty, buffer, index })
            }
            ReadOp::Len => Ok(Node::Len { result, buffer: self.buffer_name()? }),
            ReadOp::Get => {
                let (local, index) = self.local()?;
                Ok(Node::Get { result, ty, local, index })
            }
        }
    }

    fn write(&mut self, op: WriteOp, ty: DataType) -> Parse<Node> {
        let value = Want::Type(ty.computes_as());
        match op {
            WriteOp::Store => {
                let (buffer, index) = self.element()?;
                self.expect(Kind::Comma, "`,` and the value to store")?;
                Ok(Node::Store { ty, buffer, index, value: self.operand(value)? })
            }
            WriteOp::Var => self.var(),
            WriteOp::Set => {
                let (local, index) = self.local()?;
                self.expect(Kind::Comma, "`,` and the value to set")?;
                Ok(Node::Set { ty, local, index, value: self.operand(value)? })
            }
            WriteOp::Trap => Ok(Node::Trap { code: self.number("a code")? }),
        }
    }

    /// `$v : f32[16] = 0.0`
    fn var(&mut self) -> Parse<Node> {
        let token = self.expect(Kind::Local, "a local, such as `$sum`,")?;
        let name = self.name(token);
        let local = self.scope.assign_local(name);
        self.expect(Kind::Colon, "`:`")?;
        let ty = self.ty()?;
        self.note_local(name, ty);
        let mut len = None;
        if self.take(Kind::OpenBracket).is_some() {
            len = Some(self.number("a length")?);
            self.expect(Kind::CloseBracket, "`]`")?;
        }
        self.expect(Kind::Equals, "`=` and a first value")?;
        let init = self.operand(Want::Type(ty.computes_as()))?;
        Ok(Node::Var { local, ty, len, init })
    }

    fn sync(&mut self, token: Token, op: SyncOp, ty: DataType, result: Option<Value>) -> Parse<Node> {
        if op == SyncOp::UniformLoad {
            let result = self.needs_result(token, result)?;
            let (buffer, index) = self.element()?;
            return Ok(Node::UniformLoad { result, ty, buffer, index });
        }
        self.no_result(token, result)?;
        match op {
            SyncOp::Barrier => Ok(Node::Barrier { ordering: MemoryOrdering::Workgroup }),
            SyncOp::SubgroupBarrier => Ok(Node::Barrier { ordering: MemoryOrdering::Subgroup }),
            SyncOp::GridBarrier => Ok(Node::Barrier { ordering: MemoryOrdering::GridSync }),
            SyncOp::UniformLoad => unreachable!("returned above"),
            SyncOp::Mma => self.mma(),
            SyncOp::AllReduce => {
                let op = self.fold()?;
                let (dst, src) = self.two_buffers()?;
                Ok(Node::AllReduce { op, ty, dst, src })
            }
            SyncOp::AllGather => {
                let (dst, src) = self.two_buffers()?;
                Ok(Node::AllGather { ty, dst, src })
            }
            SyncOp::ReduceScatter => {
                let op = self.fold()?;
                let (dst, src) = self.two_buffers()?;
                Ok(Node::ReduceScatter { op, ty, dst, src })
            }
            SyncOp::Broadcast => {
                let (dst, src) = self.two_buffers()?;
                self.comma()?;
                Ok(Node::Broadcast { ty, dst, src, root: self.number("the root's rank")? })
            }
        }
    }

    fn mma(&mut self) -> Parse<Node> {
        let mut extents = [0; 3];
        for extent in &mut extents {
            *extent = self.number("an extent")?;
            self.comma()?;
        }
        let [m, n, k] = extents;
        let c = self.tile()?;
        self.comma()?;
        let a = self.tile()?;
        self.comma()?;
        let b = self.tile()?;
        Ok(Node::Mma { m, n, k, c, a, b })
    }

    fn tile(&mut self) -> Parse<Tile> {
        let (buffer, offset) = self.element()?;
        Ok(Tile { buffer, offset })
    }

    /// How a collective folds, with the comma behind it.
    fn fold(&mut self) -> Parse<ReduceOp> {
        let token = self.expect(Kind::Word, "a fold such as `add`")?;
        let name = token.text(self.source);
        let Some(op) = ReduceOp::ALL.into_iter().find(|op| op.name() == name) else {
            let names: Vec<&str> = ReduceOp::ALL.iter().map(|op| op.name()).collect();
            let message = format!("`{}` does not fold", clip(name));
            return Err(self.error("P003", token, message, format!("use one of {}", names.join(", "))));
        };
        self.comma()?;
        Ok(op)
    }

    fn two_buffers(&mut self) -> Parse<(BufferId, BufferId)> {
        let dst = self.buffer_name()?;
        self.comma()?;
        Ok((dst, self.buffer_name()?))
    }

    fn comma(&mut self) -> Parse<()> {
        self.expect(Kind::Comma, "`,`").map(|_| ())
    }

    fn control(&mut self, token: Token, op: ControlOp, result: Option<Value>) -> Parse<Node> {
        if op == ControlOp::Call {
            return self.call(result);
        }
        self.no_result(token, result)?;
        match op {
            ControlOp::If | ControlOp::For => unreachable!("read as heads of blocks"),
            ControlOp::Call => unreachable!("returned above"),
            ControlOp::Break => Ok(Node::Break),
            ControlOp::Continue => Ok(Node::Continue),
            ControlOp::Return => {
                let ends = matches!(self.token.kind, Kind::Newline | Kind::End | Kind::CloseBrace);
                let value = if ends { None } else { Some(self.operand(self.returns)?) };
                Ok(Node::Return { value })
            }
            ControlOp::IndirectDispatch => {
                let buffer = self.buffer_name()?;
                self.expect(Kind::OpenBracket, "`[`")?;
                let offset = self.number("a literal offset")?;
                self.expect(Kind::CloseBracket, "`]`")?;
                Ok(Node::IndirectDispatch { buffer, offset })
            }
        }
    }

    /// `@f(%a, 1.0)`; the callee says the literals' types.
    fn call(&mut self, result: Option<Value>) -> Parse<Node> {
        let token = self.expect_name(Kind::Symbol, "a function, such as `@f`,")?;
        let name = self.name(token);
        let callee = match self.symbols.get(name) {
            Some(Symbol::Function(id)) if id.index() < self.parts.functions.len() => Some(*id),
            _ => {
                self.unresolved.push(Unresolved { name: token, text: name, call: true });
                None
            }
        };
        self.expect(Kind::OpenParen, "`(`")?;
        self.skip_newlines();
        let mut args = Vec::new();
        while !self.at(Kind::CloseParen) {
            let want = match callee {
                Some(id) => {
                    let params = &self.parts.functions[id.index()].params;
                    let (most, want) = (params.len(), params.get(args.len()).map(|param| param.1));
                    if args.len() >= most {
                        self.surplus(token.text(self.source), most)?;
                    }
                    Want::of(want)
                }
                None => Want::Unknown,
            };
            args.push(self.operand(want)?);
            self.skip_newlines();
            if self.take(Kind::Comma).is_none() {
                break;
            }
            self.skip_newlines();
        }
        self.expect_close(Kind::CloseParen, "`,` or `)`")?;
        Ok(Node::Call { result, function: callee.unwrap_or(FunctionId(0)), args })
    }

    fn if_header(&mut self, blocks: &mut Blocks) -> Parse<()> {
        let cond = self.operand(Want::Type(DataType::Bool))?;
        let brace = self.expect(Kind::OpenBrace, "`{`")?;
        self.open(blocks, Open::If { cond }, brace);
        Ok(())
    }

    /// `%i in lo..hi step 2 {`
    fn for_header(&mut self, blocks: &mut Blocks) -> Parse<()> {
        let Some(token) = self.take(Kind::Value) else { return Err(self.not_a_counter()) };
        let name = self.name(token);
        let counter = self.scope.assign_value(name);
        self.expect_word("in")?;
        let lo = self.operand(U32)?;
        self.expect(Kind::Range, "`..`")?;
        let hi = self.operand(U32)?;
        let step = if self.take_word("step") { self.number("a literal step")? } else { 1 };
        let brace = self.expect(Kind::OpenBrace, "`{`")?;
        self.open(blocks, Open::For { counter, lo, hi, step }, brace);
        Ok(())
    }

    /// Operands up to the end of the line, however many there are.
    fn args(&mut self, op: Token, wanted: &[Option<DataType>]) -> Parse<Args> {
        let mut args = Args::new();
        if matches!(self.token.kind, Kind::Newline | Kind::End | Kind::CloseBrace) {
            return Ok(args);
        }
        loop {
            if args.len() >= wanted.len() {
                self.surplus(op.text(self.source), wanted.len())?;
            }
            let want = wanted.get(args.len()).copied().flatten();
            args.push(self.operand(Want::of(want))?);
            if self.take(Kind::Comma).is_none() {
                return Ok(args);
            }
        }
    }

    /// Whether the next token can be a literal.
    pub(super) fn at_literal(&self) -> bool {
        let is_word = || {
            let text = self.token.text(self.source);
            matches!(text, "true" | "false") || text.starts_with("inf") || text.starts_with("nan")
        };
        self.at(Kind::Number) || (self.at(Kind::Word) && is_word())
    }

    /// The literal at `token`; a wrong one is reported, and the line goes on.
    pub(super) fn literal(&mut self, token: Token, want: Want) -> Literal {
        match literal::parse(token.text(self.source), want) {
            Ok(literal) => literal,
            Err(error) => {
                self.error(error.code, token, error.message, error.fix);
                match want {
                    Want::Type(ty) => Literal::from_bits(ty, 0),
                    Want::Suffix | Want::Unknown => Literal::u32(0),
                }
            }
        }
    }

    fn operand(&mut self, want: Want) -> Parse<Operand> {
        let token = self.token;
        if token.kind == Kind::Value {
            self.bump();
            let name = self.name(token);
            return Ok(Operand::Value(Value(self.scope.values.read(name, token))));
        }
        if self.at_literal() {
            self.bump();
            return Ok(Operand::Literal(self.literal(token, want)));
        }
        Err(self.not_an_operand())
    }

    /// A number that must be a u32 literal.
    pub(super) fn number(&mut self, what: &str) -> Parse<u32> {
        let token = self.expect(Kind::Number, what)?;
        let literal = self.literal(token, U32);
        if literal.ty() != DataType::U32 {
            let message = format!("{} is given, and {what} is a u32", literal.ty());
            self.error("P014", token, message, "write a plain number without a suffix");
        }
        Ok(literal.bits() as u32)
    }

    /// `@b`
    fn buffer_name(&mut self) -> Parse<BufferId> {
        let token = self.expect_name(Kind::Symbol, "a buffer, such as `@x`,")?;
        let name = self.name(token);
        match self.symbols.get(name) {
            Some(Symbol::Buffer(id)) => Ok(*id),
            _ => {
                self.unresolved.push(Unresolved { name: token, text: name, call: false });
                Ok(BufferId(0))
            }
        }
    }

    /// `@b[%i]`
    fn element(&mut self) -> Parse<(BufferId, Operand)> {
        let buffer = self.buffer_name()?;
        self.expect(Kind::OpenBracket, "`[` and an index")?;
        let index = self.operand(U32)?;
        self.expect(Kind::CloseBracket, "`]`")?;
        Ok((buffer, index))
    }

    /// `$v` or `$a[%i]`
    fn local(&mut self) -> Parse<(Local, Option<Operand>)> {
        let token = self.expect_name(Kind::Local, "a local, such as `$sum`,")?;
        let name = self.name(token);
        let local = Local(self.scope.locals.read(name, token));
        if self.take(Kind::OpenBracket).is_none() {
            return Ok((local, None));
        }
        let index = self.operand(U32)?;
        self.expect(Kind::CloseBracket, "`]`")?;
        Ok((local, Some(index)))
    }
}
