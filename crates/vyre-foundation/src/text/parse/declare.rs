//! The file, its header and the declarations.

use super::{Parse, Parser, Symbol};
use crate::ir::{Buffer, BufferId, BufferKind, DataType, Function, FunctionId, Value};
use crate::limits;
use crate::text::lex::{Kind, Token};
use crate::text::literal::{self, Want};
use crate::text::suggest;

const KINDS: [&str; 4] = ["uniform", "read", "read_write", "workgroup"];

/// A function's parameters, the type of its result, and the `{` of its block.
type Header = (Vec<(Value, DataType)>, Option<DataType>, Token);

impl<'s> Parser<'s> {
    /// Reads the whole file.
    pub(super) fn file(&mut self) -> Parse<()> {
        self.skip_newlines();
        if !self.at_word("program") {
            let (message, fix) = match self.token.kind {
                Kind::End => ("this file has no program", "write `program @name workgroup(64, 1, 1) {`"),
                _ => (
                    "a file starts with its program",
                    "write `program @name workgroup(64, 1, 1) {` before this",
                ),
            };
            return Err(self.error("P002", self.token, message, fix));
        }
        let brace = match self.header() {
            Ok(brace) => Some(brace),
            Err(_) => self.recover_header(),
        };
        let block = brace.map(|brace| self.body(brace, true)).unwrap_or_default();
        self.report_unassigned();
        let scope = std::mem::take(&mut self.scope);
        (self.parts.body, self.map.body) = scope.into_body(block);
        if !self.full() {
            self.skip_newlines();
        }
        if !self.full() && !self.at(Kind::End) {
            self.error(
                "P022",
                self.token,
                "the program has ended, and something follows",
                "remove it, or a `}` too many above; one file holds one program",
            );
        }
        Ok(())
    }

    /// `program @name workgroup(x, y, z) subgroup(w) {`
    fn header(&mut self) -> Parse<Token> {
        let start = self.bump();
        let name = self.expect(Kind::Symbol, "the program's name, such as `@main`,")?;
        self.parts.name = self.name(name).into();
        self.expect_word("workgroup")?;
        self.expect(Kind::OpenParen, "`(`")?;
        for axis in 0..3 {
            if axis > 0 && self.take(Kind::Comma).is_none() {
                let [x, y, _] = self.parts.workgroup;
                return Err(self.error(
                    "P003",
                    self.token,
                    "a workgroup gives its lanes along all three axes",
                    format!("write `workgroup({x}, {y}, 1)`"),
                ));
            }
            self.parts.workgroup[axis] = self.number("a number of lanes")?;
        }
        self.expect(Kind::CloseParen, "`)`")?;
        if self.take_word("subgroup") {
            self.expect(Kind::OpenParen, "`(`")?;
            self.parts.subgroup = Some(self.number("a width")?);
            self.expect(Kind::CloseParen, "`)`")?;
        }
        let brace = self.expect(Kind::OpenBrace, "`{`")?;
        self.map.program = Some(self.span_from(start, self.line, self.line_start));
        self.end_of_header()?;
        Ok(brace)
    }

    /// The text of a name; too long a one is reported and cut.
    pub(super) fn name(&mut self, token: Token) -> &'s str {
        let name = token.name(self.source);
        if name.len() <= limits::NAME_BYTES_MAX {
            return name;
        }
        self.error(
            "P007",
            token,
            format!("a name of {} bytes", name.len()),
            format!("use a name of at most {} bytes", limits::NAME_BYTES_MAX),
        );
        &name[..limits::NAME_BYTES_MAX]
    }

    /// Takes the name of a declaration and makes it known.
    fn declared_name(&mut self, symbol: Symbol) -> Parse<&'s str> {
        let token = self.expect(Kind::Symbol, "a name, such as `@x`,")?;
        let name = self.name(token);
        if self.symbols.contains_key(name) {
            self.error(
                "P012",
                token,
                format!("`@{name}` is declared twice"),
                "give each buffer, table and function a name of its own",
            );
        } else {
            self.symbols.insert(name, symbol);
        }
        Ok(name)
    }

    /// `buffer @name : kind type[len] binding n output`, or `const @name : type[len] = [...]`
    pub(super) fn buffer(&mut self, is_table: bool) -> Parse<()> {
        let (start, line, line_start) = (self.bump(), self.line, self.line_start);
        let id = self.parts.buffers.len();
        if id == limits::BUFFERS_MAX {
            return Err(self.too_many("buffers and tables", id, start));
        }
        let name = self.declared_name(Symbol::Buffer(BufferId(id as u32)))?;
        // The name is known even if the rest of its line is wrong: one mistake is one error.
        let kind = BufferKind::Workgroup;
        self.parts.buffers.push(Buffer { name: name.into(), kind, ty: DataType::U32, len: None });
        self.expect(Kind::Colon, "`:`")?;
        let (kind, ty, len) = if is_table { self.table()? } else { self.bound()? };
        self.parts.buffers[id] = Buffer { name: name.into(), kind, ty, len };
        let span = self.span_from(start, line, line_start);
        self.map.buffers.push(span);
        self.end_of_line()
    }

    fn too_many(&mut self, what: &str, max: usize, at: Token) -> super::Reported {
        self.error(
            "P023",
            at,
            format!("a program has at most {max} {what}"),
            "split the program into several, or merge what belongs together",
        )
    }

    /// `read_write f32[] binding 2 output`
    fn bound(&mut self) -> Parse<(BufferKind, DataType, Option<u32>)> {
        let word = self.expect(Kind::Word, "`uniform`, `read`, `read_write` or `workgroup`")?;
        let kind = word.text(self.source);
        if !KINDS.contains(&kind) {
            let fix = match suggest::nearest(kind, KINDS.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("use one of {}", KINDS.join(", ")),
            };
            let kind = literal::clip(kind);
            return Err(self.error("P025", word, format!("`{kind}` is not a kind of buffer"), fix));
        }
        let ty = self.ty()?;
        self.expect(Kind::OpenBracket, "`[`")?;
        let len = if self.at(Kind::CloseBracket) { None } else { Some(self.number("a length")?) };
        self.expect(Kind::CloseBracket, "`]`")?;
        let at = self.token;
        let binding = if self.take_word("binding") { Some(self.number("a binding number")?) } else { None };
        let output = self.take_word("output");
        let kind = match (kind, binding, output) {
            ("uniform", Some(binding), false) => BufferKind::Uniform { binding },
            ("read", Some(binding), false) => BufferKind::Read { binding },
            ("read_write", Some(binding), output) => BufferKind::ReadWrite { binding, output },
            ("workgroup", None, false) => BufferKind::Workgroup,
            ("workgroup", ..) => {
                return Err(self.error(
                    "P025",
                    at,
                    "workgroup memory belongs to the program, so the caller does not bind it",
                    "end the declaration here, or make the buffer `read_write`",
                ));
            }
            (_, None, _) => {
                return Err(self.error(
                    "P025",
                    at,
                    format!("a {kind} buffer needs a binding"),
                    format!("write `binding {}` here", self.free_binding()),
                ));
            }
            (_, Some(_), true) | (_, Some(_), false) => {
                return Err(self.error(
                    "P025",
                    at,
                    format!("a {kind} buffer is never written, so it cannot be an output"),
                    "remove `output`, or make the buffer `read_write`",
                ));
            }
        };
        Ok((kind, ty, len))
    }

    /// `u32[4] = [1, 2, 3, 4]`
    fn table(&mut self) -> Parse<(BufferKind, DataType, Option<u32>)> {
        let ty = self.ty()?;
        self.expect(Kind::OpenBracket, "`[`")?;
        let at = self.token;
        let len = self.number("the number of elements")?;
        self.expect(Kind::CloseBracket, "`]`")?;
        self.expect(Kind::Equals, "`=`")?;
        self.expect(Kind::OpenBracket, "`[`")?;
        let errors = self.findings.len();
        let data = self.elements(ty)?;
        self.expect_close(Kind::CloseBracket, "`,` or `]`")?;
        if data.len() != len as usize && errors == self.findings.len() {
            let count = data.len();
            return Err(self.error(
                "P026",
                at,
                format!("the table declares {len} elements and lists {count}"),
                format!("write `{ty}[{count}]`, or correct the list"),
            ));
        }
        Ok((BufferKind::Table { data }, ty, Some(len)))
    }

    /// The elements of a table up to its `]`. A wrong one is reported, and the list goes on.
    fn elements(&mut self, ty: DataType) -> Parse<Vec<u64>> {
        let mut data = Vec::new();
        loop {
            self.skip_newlines();
            let token = self.token;
            if self.at_literal() {
                self.bump();
                data.push(self.element_bits(token, ty));
            } else if matches!(token.kind, Kind::Word | Kind::Value | Kind::Bad) && !self.fresh {
                self.unexpected("a literal");
                self.bump();
            } else {
                return Ok(data);
            }
            self.table_elements += 1;
            if self.table_elements > limits::TABLE_ELEMENTS_MAX {
                return Err(self.too_many("table elements", limits::TABLE_ELEMENTS_MAX, token));
            }
            self.skip_newlines();
            if self.take(Kind::Comma).is_some() {
                continue;
            }
            if !self.at_literal() {
                return Ok(data);
            }
            // Two elements without a comma; reported here, since the second is fine.
            let _ = self.expect_close(Kind::Comma, "`,`");
        }
    }

    /// The bits of a table's element. Its type is the table's, whatever a suffix says.
    fn element_bits(&mut self, token: Token, ty: DataType) -> u64 {
        let literal = self.literal(token, Want::Type(ty));
        if literal.ty() != ty {
            self.error(
                "P014",
                token,
                format!("{} in a table of {ty}", literal.ty()),
                format!("write a literal of type {ty}"),
            );
        }
        literal.bits()
    }

    /// `fn @name(%x : f32) -> f32 {` up to its `}`
    pub(super) fn function(&mut self) -> Parse<()> {
        let (start, line, line_start) = (self.bump(), self.line, self.line_start);
        if self.parts.functions.len() >= limits::FUNCTIONS_MAX {
            return Err(self.too_many("functions", self.parts.functions.len(), start));
        }
        let outer = std::mem::take(&mut self.scope);
        let mut name = "";
        // Its number is known at its end: library functions that it calls come before it.
        let header = self.function_header(Symbol::Function(FunctionId(u32::MAX)), &mut name);
        let span = self.span_from(start, line, line_start);
        let (params, result, brace) = match header {
            Ok((params, result, brace)) => (params, result, Some(brace)),
            Err(_) => (Vec::new(), None, self.recover_header()),
        };
        self.returns = Want::of(result);
        let block = brace.map(|brace| self.body(brace, false)).unwrap_or_default();
        self.returns = Want::Suffix;
        self.report_unassigned();
        let scope = std::mem::replace(&mut self.scope, outer);
        let (body, lines) = scope.into_body(block);
        let id = FunctionId(self.parts.functions.len() as u32);
        if let Some(symbol @ Symbol::Function(FunctionId(u32::MAX))) = self.symbols.get_mut(name) {
            *symbol = Symbol::Function(id);
        }
        self.parts.functions.push(Function { name: name.into(), params, result, body });
        self.map.functions.push((span, lines));
        self.end_of_line()
    }

    fn function_header(&mut self, symbol: Symbol, name: &mut &'s str) -> Parse<Header> {
        *name = self.declared_name(symbol)?;
        self.expect(Kind::OpenParen, "`(`")?;
        let mut params = Vec::new();
        self.skip_newlines();
        while !self.at(Kind::CloseParen) {
            let token = self.expect(Kind::Value, "a parameter, such as `%x : f32`,")?;
            if params.len() == limits::PARAMS_MAX {
                return Err(self.too_many("parameters of a function", limits::PARAMS_MAX, token));
            }
            let param = self.name(token);
            self.expect(Kind::Colon, "`:`")?;
            params.push((self.scope.assign_value(param), self.ty()?));
            self.skip_newlines();
            if self.take(Kind::Comma).is_none() {
                break;
            }
            self.skip_newlines();
        }
        self.expect_close(Kind::CloseParen, "`,` or `)`")?;
        let result = if self.take(Kind::Arrow).is_some() { Some(self.ty()?) } else { None };
        let brace = self.expect(Kind::OpenBrace, "`{`")?;
        self.end_of_header()?;
        Ok((params, result, brace))
    }

    /// A type by its name.
    pub(super) fn ty(&mut self) -> Parse<DataType> {
        let token = self.expect(Kind::Word, "a type")?;
        let word = token.text(self.source);
        match DataType::from_name(word) {
            Some(ty) => Ok(ty),
            None => {
                let message = format!("`{}` is not a type", literal::clip(word));
                Err(self.error("P005", token, message, suggest::fix_type(word)))
            }
        }
    }

    /// Reports the names of the body that are read and never assigned.
    fn report_unassigned(&mut self) {
        let values: Vec<_> = self.scope.values.unassigned().collect();
        for (name, token) in values {
            if self.full() {
                return;
            }
            self.error("P010", token, format!("`%{name}` is never assigned"), self.unassigned_fix(name));
        }
        let locals: Vec<_> = self.scope.locals.unassigned().collect();
        for (name, token) in locals {
            if self.full() {
                return;
            }
            let fix = match suggest::nearest(name, self.scope.locals.assigned()) {
                Some(near) => format!("did you mean `${near}`?"),
                None => format!("declare it above its use: `var ${name} : f32 = 0.0`"),
            };
            self.error("P011", token, format!("`${name}` is never declared"), fix);
        }
    }
}
