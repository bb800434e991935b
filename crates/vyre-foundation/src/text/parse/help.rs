//! Errors where the language wants something else than what other languages write: each fix spells the right line.
//!
//! The fixes use the names and types of the program at hand, as far as they are known. Nothing here decides what is wrong.

use super::{Parse, Parser, Reported, Symbol};
use crate::ir::{Buffer, DataType, OpId};
use crate::text::lex::{Kind, Token};
use crate::text::literal::{self, Want, clip};
use crate::text::suggest;

/// What other languages write between two operands, longer ones first, and the op that does it.
const OPERATORS: [(&str, &str); 19] = [
    ("<<", "shl.u32"),
    (">>", "shr.u32"),
    ("<=", "le.u32"),
    (">=", "ge.u32"),
    ("==", "eq.u32"),
    ("!=", "ne.u32"),
    ("&&", "and.bool"),
    ("||", "or.bool"),
    ("<", "lt.u32"),
    (">", "gt.u32"),
    ("+", "add.u32"),
    ("-", "sub.u32"),
    ("*", "mul.u32"),
    ("/", "div.u32"),
    ("%", "rem.u32"),
    ("&", "and.u32"),
    ("|", "or.u32"),
    ("^", "xor.u32"),
    ("!", "not.bool"),
];

/// The op for the operator that `text` starts with, and what follows the operator.
fn operator(text: &str) -> Option<(&'static str, &str)> {
    OPERATORS.iter().find_map(|(sign, op)| Some((*op, text.strip_prefix(sign)?)))
}

/// The fix for characters that mean nothing; `text` starts with them.
pub(super) fn bad_fix(text: &str) -> String {
    let fix = match text.as_bytes()[0] {
        b'%' | b'$' | b'@' => "write a name after it: letters, digits, `_` and single `.` between them",
        b';' => "remove it; a line is one instruction and needs no other end",
        b'#' | b'/' => "start a comment with `//`, and divide with `div`",
        b'.' => "write a number with a digit before its point, and a range as `lo..hi`",
        _ => match operator(text) {
            Some((op, _)) => {
                let operands = if op == "not.bool" { "%a" } else { "%a, %b" };
                return format!("write the operation as an op on a line of its own: `%r = {op} {operands}`");
            }
            None => "remove it; names are ASCII letters, digits, `_` and `.`, and comments start with `//`",
        },
    };
    fix.to_string()
}

/// A name without its sigil.
fn bare(text: &str) -> &str {
    text.trim_start_matches(['%', '$', '@'])
}

/// An operand as it is written here: names get their sigil.
fn operand(word: &str) -> String {
    let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    format!("{}{}", if is_name { "%" } else { "" }, clip(word))
}

impl<'s> Parser<'s> {
    /// The rest of the line from `start`, without a comment.
    fn rest_of_line(&self, start: u32) -> &'s str {
        let line = self.source[start as usize..].lines().next().unwrap_or("");
        line.split("//").next().unwrap_or("").trim()
    }

    /// `lt.u32 %i, %n` for the `%i < %n` that starts at `first`.
    fn infix(&self, first: Token) -> Option<String> {
        let (op, right) = operator(self.rest_of_line(first.end))?;
        let (left, right) = (first.text(self.source), right.trim());
        if op == "not.bool" || right.is_empty() || right.contains([' ', '(', '[']) {
            return None;
        }
        let is_float = |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        let op = if is_float(left) || is_float(right) { op.replace("u32", "f32") } else { op.to_string() };
        Some(format!("{op} {}, {}", operand(left), operand(right)))
    }

    fn infix_fix(&self, first: Token) -> Option<String> {
        Some(format!("write the op first, with the type of its operands: `{}`", self.infix(first)?))
    }

    /// The buffer or table of that name.
    fn buffer_called(&self, name: &str) -> Option<&Buffer> {
        match self.symbols.get(name) {
            Some(Symbol::Buffer(id)) => self.parts.buffers.get(id.index()),
            _ => None,
        }
    }

    /// The line that reads a local or an element of a buffer, for a name that is no value.
    pub(super) fn read_line(&self, name: &str) -> Option<String> {
        if let Some(ty) = self.scope.local_types.get(name) {
            return Some(format!("read the local on a line above: `%v = get.{ty} ${name}`"));
        }
        match self.symbols.get(name)? {
            Symbol::Function(_) => Some(format!("call it on a line above: `%v = call @{name}(...)`")),
            Symbol::Buffer(_) => {
                let ty = self.buffer_called(name)?.ty;
                Some(format!("read an element on a line above: `%v = load.{ty} @{name}[%i]`"))
            }
        }
    }

    /// Reports that a line, or what follows its `=`, does not start with an op.
    pub(super) fn not_an_instruction(&mut self, has_result: bool) -> Reported {
        let token = self.token;
        let name = bare(token.text(self.source));
        let fix = match (token.kind, has_result) {
            (Kind::Value | Kind::Number, true) => match self.infix_fix(token) {
                Some(fix) => fix,
                None => "write an op, such as `add.u32 %a, %b`; a value or a literal needs no second name: use it as it is".into(),
            },
            (Kind::Local | Kind::Symbol, true) => match self.read_line(name) {
                Some(fix) => fix.replace(" on a line above", ""),
                None => return self.unexpected("an instruction"),
            },
            (Kind::Local, false) => self.set_fix(name, token),
            (Kind::Symbol, false) if self.buffer_called(name).is_some() => self.store_fix(name),
            _ => return self.unexpected("an instruction"),
        };
        let message = format!("expected an instruction, found `{}`", clip(token.text(self.source)));
        self.error("P003", token, message, fix)
    }

    /// The fix for `$s = 3`, whose `$s` is `token`.
    fn set_fix(&self, name: &str, token: Token) -> String {
        let ty = self.scope.local_types.get(name).copied();
        let after = self.rest_of_line(token.end).strip_prefix('=').map_or("", str::trim);
        let mut value = if after.is_empty() || after.contains(' ') { "%v".into() } else { operand(after) };
        if ty.is_some_and(DataType::is_float) && value.bytes().all(|byte| byte.is_ascii_digit()) {
            value.push_str(".0");
        }
        format!("write `set.{} ${}, {value}`", ty.map_or("T", DataType::name), clip(name))
    }

    fn store_fix(&self, name: &str) -> String {
        let ty = self.buffer_called(name).map_or("T", |buffer| buffer.ty.name());
        format!("write an element with `store.{ty} @{}[%i], %v`", clip(name))
    }

    /// The fix for a word that is not an op; the token behind it is the next one.
    pub(super) fn not_an_op(&self, token: Token, has_result: bool) -> String {
        let word = token.text(self.source);
        match self.token.kind {
            Kind::Equals if self.scope.local_types.contains_key(word) => self.set_fix(word, token),
            Kind::Equals if !has_result => format!("write `%{}` to assign a value", clip(word)),
            Kind::OpenBracket if self.buffer_called(word).is_some() && !has_result => self.store_fix(word),
            Kind::OpenBracket if self.buffer_called(word).is_some() => {
                let ty = self.buffer_called(word).map_or("T", |buffer| buffer.ty.name());
                format!("read an element with `load.{ty} @{}[%i]`", clip(word))
            }
            _ => match self.infix_fix(token) {
                Some(fix) => fix,
                None => suggest::fix_op(word.split('.').next().unwrap_or(word)),
            },
        }
    }

    /// Reports that a loop does not start with its counter.
    pub(super) fn not_a_counter(&mut self) -> Reported {
        let word = if self.at(Kind::Word) { clip(self.token.text(self.source)) } else { "i".into() };
        let message = format!("a counter is expected after `for`, such as `%{word}`");
        self.error("P003", self.token, message, format!("write `for %{word} in 0..N {{`"))
    }

    /// Reports that what stands here is no operand.
    pub(super) fn not_an_operand(&mut self) -> Reported {
        let token = self.token;
        let text = token.text(self.source);
        let name = bare(text);
        let (message, fix) = match token.kind {
            Kind::Local => (
                format!("`{}` is a mutable local, and a value is expected", clip(text)),
                self.read_line(name)
                    .unwrap_or_else(|| format!("read it on a line above: `%v = get.T {}`", clip(text))),
            ),
            Kind::Symbol => (
                format!("`{}` is not a value", clip(text)),
                self.read_line(name).unwrap_or_else(|| {
                    format!("read an element on a line above: `%v = load.T {}[%i]`", clip(text))
                }),
            ),
            Kind::Word => match self.word_fix(token) {
                Some(fix) => (format!("expected a value, found `{}`", clip(text)), fix),
                None => return self.unexpected("a value or a literal"),
            },
            Kind::OpenParen => (
                "expected a value, found `(`".to_string(),
                "write a value, such as `%live`, without parentheses; compute it on a line above".to_string(),
            ),
            _ => return self.unexpected("a value or a literal"),
        };
        self.error("P003", token, message, fix)
    }

    /// The fix for a bare word where a value is expected.
    fn word_fix(&self, token: Token) -> Option<String> {
        let word = token.text(self.source);
        if self.scope.values.is_assigned(word) {
            return Some(format!("did you mean `%{}`?", clip(word)));
        }
        if OpId::from_name(word.split('.').next().unwrap_or(word)).is_some() {
            let op = match self.rest_of_line(token.start).strip_suffix('{') {
                Some(head) => clip(head.trim_end()),
                None => format!("{} ...", clip(word)).into(),
            };
            return Some(format!("put `%c = {op}` on the line above, and write `%c` here"));
        }
        self.read_line(word)
    }

    /// Takes a name with a sigil, or reports that `what` is missing and which known name was meant.
    pub(super) fn expect_name(&mut self, kind: Kind, what: &str) -> Parse<Token> {
        let text = self.token.text(self.source);
        let name = bare(text);
        let meant = match kind {
            Kind::Symbol if self.symbols.contains_key(name) => '@',
            Kind::Local if self.scope.locals.is_assigned(name) => '$',
            _ => return self.expect(kind, what),
        };
        if self.at(kind) {
            return Ok(self.bump());
        }
        let message = format!("expected {what}, found `{}`", clip(text));
        Err(self.error("P003", self.token, message, format!("did you mean `{meant}{}`?", clip(name))))
    }

    /// Reports a literal that is one operand too many for `what`. With a suffix it may stand: the validator judges it.
    pub(super) fn surplus(&mut self, what: &str, operands: usize) -> Parse<()> {
        let token = self.token;
        let text = token.text(self.source);
        let is_bare = || literal::parse(text, Want::Suffix).is_err_and(|error| error.code == "P015");
        if !self.at_literal() || !is_bare() {
            return Ok(());
        }
        let plural = if operands == 1 { "" } else { "s" };
        let message = format!("`{what}` takes {operands} operand{plural}, and `{}` is one more", clip(text));
        Err(self.error("P003", token, message, "remove what is too many"))
    }

    /// The number that the next buffer can be bound to.
    pub(super) fn free_binding(&self) -> u32 {
        let taken =
            |binding: &u32| self.parts.buffers.iter().any(|buffer| buffer.binding() == Some(*binding));
        (0..).find(|binding| !taken(binding)).unwrap_or(0)
    }

    /// The fix for a value that nothing assigns.
    pub(super) fn unassigned_fix(&self, name: &str) -> String {
        let names = || self.scope.values.assigned();
        if let Some(near) = suggest::nearest(name, names()).or_else(|| suggest::nearest_short(name, names()))
        {
            return format!("did you mean `%{near}`?");
        }
        if let Some(fix) = self.read_line(name) {
            return fix;
        }
        "assign it on a line above its use, or correct the name".to_string()
    }

    /// Notes the type of a local, for fixes.
    pub(super) fn note_local(&mut self, name: &'s str, ty: DataType) {
        self.scope.local_types.insert(name, ty);
    }
}

#[cfg(test)]
mod tests {
    use crate::text::parse;

    /// The one error of a program with that line.
    fn error(line: &str) -> (&'static str, String) {
        let source = format!(
            "program @p workgroup(1, 1, 1) {{\nbuffer @y : read_write f32[] binding 0\nfn @f(%a : u32) {{\n}}\n\
            var $s : f32 = 0.0\n%i = global_id x\n%idx = len @y\n{line}\n}}\n"
        );
        let errors = parse(&source).expect_err(line);
        assert_eq!(errors.len(), 1, "{line}: {}", errors.last().unwrap());
        (errors[0].code, format!("{}; {}", errors[0].message, errors[0].fix))
    }

    #[test]
    fn what_other_languages_write_is_told_how_to_write_here() {
        let table = [
            ("%c = %i < %idx", "P003", "`lt.u32 %i, %idx`"),
            ("%c = %i>=4", "P003", "`ge.u32 %i, 4`"),
            ("%c = i * 2.0", "P004", "`mul.f32 %i, 2.0`"),
            ("%c = %i + %idx * 2", "P003", "such as `add.u32 %a, %b`"),
            ("%c = %i", "P003", "needs no second name"),
            ("%c = 3", "P003", "needs no second name"),
            ("if lt.u32 %i, %idx {\n}", "P003", "`%c = lt.u32 %i, %idx` on the line above"),
            ("if %i < %idx {\n}", "P001", "`%r = lt.u32 %a, %b`"),
            ("if (%i) {\n}", "P003", "without parentheses"),
            ("%c = add.u32 i, 1", "P003", "did you mean `%i`?"),
            ("%c = mul.f32 s, 2.0", "P003", "`%v = get.f32 $s`"),
            ("%c = mul.f32 $s, 2.0", "P003", "`%v = get.f32 $s`"),
            ("%c = mul.f32 %s, 2.0", "P010", "`%v = get.f32 $s`"),
            ("%c = mul.f32 @y, 2.0", "P003", "`%v = load.f32 @y[%i]`"),
            ("%c = get.f32 s", "P003", "did you mean `$s`?"),
            ("store.f32 y[%i], 2.0", "P003", "did you mean `@y`?"),
            ("y[%i] = 2.0", "P004", "`store.f32 @y[%i], %v`"),
            ("@y[%i] = 2.0", "P003", "`store.f32 @y[%i], %v`"),
            ("%c = y[%i]", "P004", "`load.f32 @y[%i]`"),
            ("%c = @y[%i]", "P003", "read an element: `%v = load.f32 @y[%i]`"),
            ("$s = 3", "P003", "`set.f32 $s, 3.0`"),
            ("$s = add.f32 1.0, 2.0", "P003", "`set.f32 $s, %v`"),
            ("for i in 0..4 {\n}", "P003", "`for %i in 0..N {`"),
            ("for (int i = 0; i < 4; i++) {\n}", "P003", "`for %i in 0..N {`"),
            ("s = i", "P004", "`set.f32 $s, %i`"),
            ("c = add.u32 %i, 1", "P004", "`%c`"),
            ("%c = add.u32 %ind, 1", "P010", "did you mean `%idx`?"),
            ("%c = mod.u32 %i, 2", "P004", "`%r = rem.T %a, %b`"),
            ("__syncthreads()", "P004", "`barrier`"),
            ("%c = thread_id x", "P004", "`local_id x`"),
            ("while %i {\n}", "P004", "`break`"),
            ("%c = exp.u32 1", "P006", "with T one of "),
            ("%c = pow.f32 2.0", "P003", "write all its operands"),
            ("%c = add.u32 %i, 1, 2", "P003", "`add.u32` takes 2 operands, and `2` is one more"),
            ("%c = atomic_add.u32 @y[0], 1, 2", "P003", "one more"),
            ("call @f(%i, 2)", "P003", "`@f` takes 1 operand, and `2` is one more"),
            ("call f(%i)", "P003", "did you mean `@f`?"),
        ];
        for (line, code, text) in table {
            let (found, shown) = error(line);
            assert!(found == code && shown.contains(text), "{line}: {found} {shown}");
        }
    }

    #[test]
    fn headers_are_completed() {
        let table = [
            ("program @p workgroup(64) {\n}\n", "`workgroup(64, 1, 1)`"),
            ("program @p workgroup(8, 4) {\n}\n", "`workgroup(8, 4, 1)`"),
            (
                "program @p workgroup(1, 1, 1) {\nbuffer @a : read f32[] binding 0\nbuffer @b : read f32[]\n}\n",
                "`binding 1`",
            ),
        ];
        for (source, fix) in table {
            let errors = parse(source).unwrap_err();
            assert!(errors.len() == 1 && errors[0].fix.contains(fix), "{}", errors[0]);
        }
    }
}
