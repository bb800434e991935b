//! From text to a program.
//!
//! One pass over the tokens, table-driven by the op table. The grammar takes everything a sealed program can say, wrong
//! arities and types included: judging is the validator's work. What no program can say (an unknown op, an undeclared
//! buffer, a number outside its type) is an error here. After an error the parser goes on with the next line, so that
//! all errors are found at once.
//!
//! Blocks are kept on an explicit stack, so no input drives recursion. Names are mapped to numbers per body and never
//! copied before the program is built.

mod block;
mod declare;
mod help;
mod line;
mod scope;

use super::lex::{Kind, Lexer, Token};
use super::literal::clip;
use super::source_map::SourceMap;
use super::suggest;
use crate::diagnostic::{Diagnostic, Place, Span};
use crate::ir::{BufferId, FunctionId, Program, ProgramParts};
use crate::limits;
use rustc_hash::FxHashMap;
use scope::Scope;

/// Errors shown; the rest is counted as one.
const ERRORS_MAX: usize = 100;

/// A program and where its parts stand in the source it was read from.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The program; not validated yet.
    pub program: Program,
    /// Where its parts stand.
    pub map: SourceMap,
}

/// Reads a program from text, or gives every error found.
///
/// ```
/// let parsed = vyre_foundation::text::parse("program @nothing workgroup(1, 1, 1) {\n}\n").unwrap();
/// assert_eq!(parsed.program.name(), "nothing");
/// let errors = vyre_foundation::text::parse("program @p workgroup(1, 1, 1) {\n  %a = ad.f32 1.0, 2.0\n}").unwrap_err();
/// assert_eq!(errors[0].code, "P004");
/// ```
pub fn parse(source: &str) -> Result<Parsed, Vec<Diagnostic>> {
    if source.len() > limits::SOURCE_BYTES_MAX {
        return Err(vec![Diagnostic {
            code: "P023",
            place: Place::Source(Span { line: 1, column: 1, columns: 1 }),
            message: format!(
                "{} bytes of source, and at most {} are read",
                source.len(),
                limits::SOURCE_BYTES_MAX
            ),
            fix: "split the program into several".to_string(),
        }]);
    }
    let mut parser = Parser::new(source);
    // An error here has been reported; what remains is to show it.
    let _ = parser.file();
    parser.finish()
}

/// An error that has been reported; the line it stands on is given up.
#[derive(Debug)]
struct Reported;

type Parse<T> = Result<T, Reported>;

/// A reported error, its place still in bytes.
struct Finding {
    code: &'static str,
    start: u32,
    end: u32,
    message: String,
    fix: String,
}

/// What a declared `@name` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    Buffer(BufferId),
    Function(FunctionId),
}

/// A use of a `@name` that is not declared above.
struct Unresolved<'s> {
    name: Token,
    text: &'s str,
    /// Whether it is called.
    call: bool,
}

struct Parser<'s> {
    source: &'s str,
    lexer: Lexer<'s>,
    /// The token to be taken next.
    token: Token,
    /// Where the token taken last ended.
    last_end: u32,
    line: u32,
    line_start: u32,
    /// Whether the next token is the first of its line.
    fresh: bool,
    /// Whether the line that is read must open a block.
    block_due: bool,
    parts: ProgramParts,
    map: SourceMap,
    scope: Scope<'s>,
    symbols: FxHashMap<&'s str, Symbol>,
    unresolved: Vec<Unresolved<'s>>,
    /// Ops seen so far, with their suffixes resolved.
    heads: FxHashMap<&'s str, line::Head>,
    findings: Vec<Finding>,
    /// What the body that is read returns.
    returns: super::literal::Want,
    table_elements: usize,
    nodes: usize,
}

impl<'s> Parser<'s> {
    fn new(source: &'s str) -> Parser<'s> {
        let mut lexer = Lexer::new(source);
        let token = next_token(&mut lexer);
        Parser {
            source,
            lexer,
            token,
            last_end: 0,
            line: 1,
            line_start: 0,
            fresh: true,
            block_due: false,
            parts: ProgramParts::new("", [1, 1, 1]),
            map: SourceMap::default(),
            scope: Scope::default(),
            symbols: FxHashMap::default(),
            unresolved: Vec::new(),
            heads: FxHashMap::default(),
            findings: Vec::new(),
            returns: super::literal::Want::Suffix,
            table_elements: 0,
            nodes: 0,
        }
    }

    /// Takes the next token.
    fn bump(&mut self) -> Token {
        let taken = self.token;
        self.fresh = taken.kind == Kind::Newline;
        if self.fresh {
            self.line += 1;
            self.line_start = taken.end;
        } else {
            self.last_end = taken.end;
        }
        self.token = next_token(&mut self.lexer);
        taken
    }

    fn at(&self, kind: Kind) -> bool {
        self.token.kind == kind
    }

    fn at_word(&self, word: &str) -> bool {
        self.at(Kind::Word) && self.token.text(self.source) == word
    }

    /// Takes the next token if it is of that kind.
    fn take(&mut self, kind: Kind) -> Option<Token> {
        self.at(kind).then(|| self.bump())
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    /// Takes a token of that kind, or reports that `what` is missing.
    fn expect(&mut self, kind: Kind, what: &str) -> Parse<Token> {
        match self.take(kind) {
            Some(token) => Ok(token),
            None => Err(self.unexpected(what)),
        }
    }

    fn expect_word(&mut self, word: &str) -> Parse<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    fn skip_newlines(&mut self) {
        while self.at(Kind::Newline) {
            self.bump();
        }
    }

    /// Reports that `what` should stand where the next token stands.
    fn unexpected(&mut self, what: &str) -> Reported {
        let token = self.token;
        let text = token.text(self.source);
        match token.kind {
            Kind::Bad => self.error(
                "P001",
                token,
                format!("`{}` means nothing here", clip(text).escape_debug()),
                help::bad_fix(&self.source[token.start as usize..]),
            ),
            Kind::Newline | Kind::End => self.missing(what),
            _ => self.error(
                "P003",
                token,
                format!("expected {what}, found `{}`", clip(text)),
                format!("write {what} here"),
            ),
        }
    }

    /// Reports that `what` should stand behind the token taken last.
    fn missing(&mut self, what: &str) -> Reported {
        let end = if self.at(Kind::End) { "file" } else { "line" };
        let here = Token { start: self.last_end, end: self.last_end, ..self.token };
        let message = format!("{what} is missing at the end of the {end}");
        self.error("P003", here, message, format!("write {what} here"))
    }

    /// Takes what closes a list that may span lines. If the list was left open, the line that follows is not to blame.
    fn expect_close(&mut self, kind: Kind, what: &str) -> Parse<Token> {
        match self.take(kind) {
            Some(token) => Ok(token),
            None if self.fresh => Err(self.missing(what)),
            None => Err(self.unexpected(what)),
        }
    }

    /// Reports an error. Beyond the limit it is dropped, and [`Parser::full`] ends the parse.
    fn error(
        &mut self,
        code: &'static str,
        at: Token,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Reported {
        if self.findings.len() <= ERRORS_MAX {
            let end = at.end.max(at.start + 1);
            self.findings.push(Finding {
                code,
                start: at.start,
                end,
                message: message.into(),
                fix: fix.into(),
            });
        }
        Reported
    }

    /// Whether no further error would be shown.
    fn full(&self) -> bool {
        self.findings.len() > ERRORS_MAX
    }

    /// The span from `start`, a token on line `line`, to the token taken last or the end of that line.
    fn span_from(&self, start: Token, line: u32, line_start: u32) -> Span {
        let mut end = self.last_end;
        if self.line != line {
            let rest = &self.source[start.start as usize..end as usize];
            end = start.start + rest.lines().next().unwrap_or("").len() as u32;
        }
        Span { line, column: start.start - line_start + 1, columns: (end - start.start).max(1) }
    }

    /// Reports the names that are not declared, now that all declarations are known.
    fn report_unresolved(&mut self) {
        for use_ in std::mem::take(&mut self.unresolved) {
            if self.full() {
                return;
            }
            let Unresolved { name, text, call } = use_;
            let (code, what) = if call { ("P009", "function") } else { ("P008", "buffer or table") };
            let (message, fix) = match (self.symbols.get(text), call) {
                (Some(Symbol::Buffer(_)), true) => (
                    format!("`@{text}` is a buffer, and only functions are called"),
                    "load from it with `load`".into(),
                ),
                (Some(Symbol::Function(_)), false) => (
                    format!("`@{text}` is a function, not a buffer"),
                    format!("call it with `call @{text}(...)`"),
                ),
                (Some(_), _) => (
                    format!("`@{text}` is declared, but not above this line"),
                    format!("move the {what}'s declaration above its use; no function calls itself"),
                ),
                (None, _) => {
                    let wanted = |symbol: &Symbol| matches!(symbol, Symbol::Function(_)) == call;
                    let names =
                        self.symbols.iter().filter(|(_, symbol)| wanted(symbol)).map(|(name, _)| *name);
                    let fix = match suggest::nearest(text, names) {
                        Some(near) => format!("did you mean `@{near}`?"),
                        None if call => format!("declare it above: `fn @{text}(...) {{`"),
                        None => {
                            format!("declare it before the body: `buffer @{text} : read f32[] binding 0`")
                        }
                    };
                    (format!("no {what} is called `@{text}`"), fix)
                }
            };
            self.error(code, name, message, fix);
        }
    }

    fn finish(mut self) -> Result<Parsed, Vec<Diagnostic>> {
        self.report_unresolved();
        if !self.findings.is_empty() {
            return Err(self.diagnostics());
        }
        match Program::new(self.parts) {
            Ok(program) => Ok(Parsed { program, map: self.map }),
            Err(error) => Err(vec![Diagnostic {
                code: "P023",
                place: Place::Source(self.map.program.unwrap_or(Span { line: 1, column: 1, columns: 1 })),
                message: error.message,
                fix: error.fix,
            }]),
        }
    }

    /// The findings in the order of the source, bytes turned into lines and columns on one walk.
    fn diagnostics(mut self) -> Vec<Diagnostic> {
        let full = self.full();
        self.findings.sort_by_key(|finding| finding.start);
        let bytes = self.source.as_bytes();
        let (mut at, mut line, mut line_start) = (0, 1, 0);
        let mut diagnostics = Vec::new();
        for finding in self.findings {
            let start = finding.start as usize;
            for newline in (at..start.min(bytes.len())).filter(|at| bytes[*at] == b'\n') {
                line += 1;
                line_start = newline + 1;
            }
            at = start;
            let column = (start - line_start + 1) as u32;
            let span = Span { line, column, columns: finding.end - finding.start };
            let (code, message, fix) = (finding.code, finding.message, finding.fix);
            diagnostics.push(Diagnostic { code, place: Place::Source(span), message, fix });
        }
        if full && let Some(first_not_shown) = diagnostics.last_mut() {
            first_not_shown.code = "P024";
            first_not_shown.message = format!("more errors follow; the first {ERRORS_MAX} are shown");
            first_not_shown.fix = "correct those above, then parse again".to_string();
        }
        diagnostics
    }
}

/// The next token that is not a comment.
fn next_token(lexer: &mut Lexer<'_>) -> Token {
    loop {
        let token = lexer.next();
        if token.kind != Kind::Comment {
            return token;
        }
    }
}
