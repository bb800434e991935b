//! Brings source text into canonical layout and keeps its comments.
//!
//! Works on tokens, not on the program: names, spellings of numbers and the order of lines stay as they are. What
//! changes is white space: indentation, alignment, one blank line at most, lists wrapped to the width. The layout is the
//! printer's, so a printed program is already formatted.

use super::layout::{self, Columns};
use super::lex::{Kind, Lexer, Token};
use super::parse::parse;
use crate::diagnostic::Diagnostic;

/// The source in canonical layout, or the errors if it does not parse.
///
/// ```
/// let source = "program @p workgroup(1,1,1) {\n%i=global_id x // lane\n\n\n\n  trap 7\n}";
/// assert_eq!(
///     vyre_foundation::text::format(source).unwrap(),
///     "program @p workgroup(1, 1, 1) {\n  %i = global_id x  // lane\n\n  trap 7\n}\n"
/// );
/// ```
pub fn format(source: &str) -> Result<String, Vec<Diagnostic>> {
    parse(source)?;
    let mut formatter = Formatter::new(source);
    formatter.read();
    formatter.flush();
    Ok(formatter.out)
}

/// How a line is aligned with its neighbours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    /// `%r = ...`
    Assignment,
    /// `buffer ...`
    Buffer,
    Nothing,
}

/// A line of the output: what stands between two line ends, those inside brackets not counted.
struct Line {
    /// Its tokens, as a range of the run's.
    start: usize,
    end: usize,
    depth: usize,
    /// Whether comments stand inside its brackets, so that its line breaks are kept.
    broken: bool,
}

struct Formatter<'s> {
    source: &'s str,
    out: String,
    depth: usize,
    blank_pending: bool,
    /// Whether the line written last opened a block.
    opened: bool,
    /// Lines that are aligned with each other, not written yet.
    run: Vec<Line>,
    align: Align,
    tokens: Vec<Token>,
    /// Where the line that is being read starts in `tokens`.
    line_start: usize,
    broken: bool,
}

impl<'s> Formatter<'s> {
    fn new(source: &'s str) -> Formatter<'s> {
        Formatter {
            source,
            out: String::with_capacity(source.len() + source.len() / 8),
            depth: 0,
            blank_pending: false,
            opened: true,
            run: Vec::new(),
            align: Align::Nothing,
            tokens: Vec::new(),
            line_start: 0,
            broken: false,
        }
    }

    /// Cuts the tokens into lines.
    fn read(&mut self) {
        let mut lexer = Lexer::new(self.source);
        let mut brackets = 0usize;
        loop {
            let token = lexer.next();
            match token.kind {
                Kind::End => break,
                Kind::Newline if brackets > 0 => {}
                Kind::Newline => {
                    self.end_line();
                    continue;
                }
                Kind::Comment => self.broken |= brackets > 0,
                Kind::OpenParen | Kind::OpenBracket => brackets += 1,
                Kind::CloseParen | Kind::CloseBracket => brackets = brackets.saturating_sub(1),
                // An empty block may stand on one line in the source.
                Kind::CloseBrace if self.line_start < self.tokens.len() => self.end_line(),
                _ => {}
            }
            self.tokens.push(token);
        }
        if self.line_start < self.tokens.len() {
            self.end_line();
        }
    }

    /// Ends the line whose tokens have been read; one without tokens is a blank line.
    fn end_line(&mut self) {
        let (start, end) = (self.line_start, self.tokens.len());
        if start == end {
            self.flush();
            self.blank_pending = true;
            return;
        }
        let broken = std::mem::take(&mut self.broken);
        let line = &self.tokens[start..end];
        let closes = line[0].kind == Kind::CloseBrace;
        let opens = line.iter().rev().find(|token| token.kind != Kind::Comment).map(|token| token.kind)
            == Some(Kind::OpenBrace);
        let align = match line {
            [first, ..] if first.kind == Kind::Word && first.text(self.source) == "buffer" => Align::Buffer,
            [value, equals, ..] if value.kind == Kind::Value && equals.kind == Kind::Equals => {
                Align::Assignment
            }
            _ => Align::Nothing,
        };
        if align != self.align || align == Align::Nothing {
            self.flush_before(start);
        }
        let (start, end) = (self.line_start, self.tokens.len());
        self.align = align;
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if self.blank_pending && !self.opened && !closes {
            self.out.push('\n');
        }
        self.blank_pending = false;
        self.opened = opens;
        self.run.push(Line { start, end, depth: self.depth, broken });
        self.depth += usize::from(opens);
        self.line_start = end;
    }

    /// Writes the lines that wait for their neighbours.
    fn flush(&mut self) {
        self.flush_before(self.tokens.len());
    }

    /// Writes the waiting lines and drops their tokens; those from `start` on stay.
    fn flush_before(&mut self, start: usize) {
        let run = std::mem::take(&mut self.run);
        match self.align {
            Align::Assignment => {
                let names = run.iter().map(|line| self.tokens[line.start].name(self.source).len());
                let width = layout::column(names);
                run.iter().for_each(|line| self.assignment(line, width));
            }
            Align::Buffer => self.buffers(&run),
            Align::Nothing => run.iter().for_each(|line| self.plain(line)),
        }
        self.tokens.drain(..start);
        self.line_start -= start;
    }

    fn text(&self, token: Token) -> &'s str {
        token.text(self.source)
    }

    fn assignment(&mut self, line: &Line, width: usize) {
        let name = self.tokens[line.start];
        layout::indent(&mut self.out, line.depth);
        self.out.push_str(self.text(name));
        layout::pad(&mut self.out, width.saturating_sub(name.name(self.source).len()) + 1);
        self.rest(line, line.start + 1);
    }

    fn plain(&mut self, line: &Line) {
        layout::indent(&mut self.out, line.depth);
        let is_table = self.text(self.tokens[line.start]) == "const" && !line.broken;
        match self.tokens[line.start..line.end].iter().position(|token| token.kind == Kind::Equals) {
            Some(equals) if is_table => self.table(line, line.start + equals),
            _ => self.rest(line, line.start),
        }
    }

    /// Writes a table whose `=` is the token `equals`.
    fn table(&mut self, line: &Line, equals: usize) {
        let line_start = self.out.len() - line.depth * 2;
        self.join(line.start, equals + 1);
        self.out.push(' ');
        let used = self.out.len() - line_start;
        let tokens = &self.tokens[equals + 1..line.end];
        let items = tokens
            .iter()
            .filter(|token| matches!(token.kind, Kind::Number | Kind::Word))
            .map(|token| token.text(self.source));
        layout::list(&mut self.out, line.depth, used, items);
        if let Some(comment) = tokens.last().filter(|token| token.kind == Kind::Comment) {
            let comment = self.text(*comment);
            self.comment(comment);
        }
        self.out.push('\n');
    }

    fn buffers(&mut self, run: &[Line]) {
        let rows: Vec<[String; 4]> = run.iter().map(|line| self.row(line)).collect();
        fn columns(row: &[String; 4]) -> [&str; 3] {
            [&row[0], &row[1], &row[2]]
        }
        let widths = Columns::of(rows.iter().map(columns));
        for (line, row) in run.iter().zip(&rows) {
            layout::indent(&mut self.out, line.depth);
            layout::buffer(&mut self.out, widths, columns(row), &row[3]);
            self.out.push('\n');
        }
    }

    /// The columns of `buffer @name : kind type[len] binding n`.
    fn row(&mut self, line: &Line) -> [String; 4] {
        let tokens = &self.tokens[line.start..line.end];
        let ends = tokens.iter().position(|token| token.kind == Kind::CloseBracket);
        let type_end = line.start + ends.map_or(4, |at| at + 1);
        let [name, kind] = [1, 3].map(|at| self.text(self.tokens[line.start + at]).to_string());
        let mut column = |start: usize, end: usize| {
            let before = self.out.len();
            self.join(start, end);
            self.out.split_off(before)
        };
        let ty = column(line.start + 4, type_end);
        let rest = column(type_end, line.end);
        [name, kind, ty, rest]
    }

    /// Writes the tokens of a line from `start` on, and its end.
    fn rest(&mut self, line: &Line, start: usize) {
        if line.broken {
            self.broken_rest(line, start);
        } else {
            self.join(start, line.end);
        }
        self.out.push('\n');
    }

    /// Writes tokens with the spaces that belong between them; line ends and commas before a closing bracket are left
    /// out.
    fn join(&mut self, start: usize, end: usize) {
        let mut last: Option<Token> = None;
        for at in start..end {
            let token = self.tokens[at];
            let mut following = self.tokens[at + 1..end].iter().filter(|token| token.kind != Kind::Newline);
            let closes = |token: &Token| matches!(token.kind, Kind::CloseParen | Kind::CloseBracket);
            if token.kind == Kind::Newline
                || (token.kind == Kind::Comma && following.next().is_some_and(closes))
            {
                continue;
            }
            self.token(last, token);
            last = Some(token);
        }
    }

    /// Writes a line that has comments inside its brackets: its line breaks stay.
    fn broken_rest(&mut self, line: &Line, start: usize) {
        let mut last: Option<Token> = None;
        for at in start..line.end {
            let token = self.tokens[at];
            if token.kind != Kind::Newline {
                self.token(last, token);
                last = Some(token);
                continue;
            }
            let next = self.tokens[at + 1].kind;
            if next == Kind::Newline {
                continue;
            }
            self.out.push('\n');
            let closes = matches!(next, Kind::CloseParen | Kind::CloseBracket);
            layout::indent(&mut self.out, line.depth + usize::from(!closes));
            last = None;
        }
    }

    fn token(&mut self, last: Option<Token>, token: Token) {
        let text = self.text(token);
        match last {
            None => self.out.push_str(text.trim_end()),
            Some(_) if token.kind == Kind::Comment => self.comment(text),
            Some(last) => {
                if is_spaced(last.kind, token.kind) {
                    self.out.push(' ');
                }
                self.out.push_str(text);
            }
        }
    }

    /// Writes a comment behind a line.
    fn comment(&mut self, text: &str) {
        self.out.push_str("  ");
        self.out.push_str(text.trim_end());
    }
}

/// Whether a space stands between two tokens.
fn is_spaced(last: Kind, next: Kind) -> bool {
    if matches!(last, Kind::OpenParen | Kind::OpenBracket | Kind::Range) {
        return false;
    }
    match next {
        Kind::Comma | Kind::CloseParen | Kind::CloseBracket | Kind::Range | Kind::OpenParen => false,
        Kind::OpenBracket => !matches!(last, Kind::Word | Kind::Symbol | Kind::Local),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{EVERY_FORM, SAXPY};
    use super::*;

    fn check(source: &str, expected: &str) {
        let formatted = format(source).unwrap_or_else(|errors| panic!("{}\n{source}", errors[0]));
        assert_eq!(formatted, expected, "formatting\n{source}");
        assert_eq!(format(&formatted).unwrap(), formatted, "formatting twice changes nothing");
        let parsed = |source: &str| parse(source).unwrap().program;
        assert_eq!(parsed(&formatted), parsed(source), "formatting keeps the program");
    }

    #[test]
    fn what_is_formatted_stays() {
        let directive = "//@ run a=[2.0] x=[1.0] y=[10.0] grid=(1,1,1) => y=[12.0]\n";
        check(&format!("{directive}{SAXPY}"), &format!("{directive}{SAXPY}"));
        check(EVERY_FORM, EVERY_FORM);
    }

    #[test]
    fn layout_becomes_canonical() {
        let table = [
            // Spacing, alignment, blank lines, the end of the file.
            (
                "\n\n program   @p\tworkgroup(1,1 ,1)subgroup( 8 ){\n\n\nbuffer @aa:read f32 [ ] binding 0\r\n   \
                 buffer @b:read_write u32[16]binding 1 output\n\n\n\n%i=global_id   x\n%long=len@b\nif true{\n\nbreak\n\n}\n\
                 else_is_a_name: \n"
                    .replace("else_is_a_name: \n", "\n}\n\n\n"),
                "program @p workgroup(1, 1, 1) subgroup(8) {\n  buffer @aa : read       f32[]   binding 0\n  \
                 buffer @b  : read_write u32[16] binding 1 output\n\n  %i    = global_id x\n  %long = len @b\n  if true {\n    \
                 break\n  }\n}\n"
                    .to_string(),
            ),
            // Comments keep their places.
            (
                "// top\n\n\n// second  \nprogram @p workgroup(1,1,1) { // open\n// first\nbuffer @b : read f32[1] binding 0 // one\n  \
                 // between\nbuffer @long : read f32[] binding 1\n\n// lines\n%a = len @b // tail\n%bbb = len @b\n\n// last\n\n} // end\n// after\n"
                    .to_string(),
                "// top\n\n// second\nprogram @p workgroup(1, 1, 1) {  // open\n  // first\n  buffer @b : read f32[1] binding 0  // one\n  \
                 // between\n  buffer @long : read f32[] binding 1\n\n  // lines\n  %a   = len @b  // tail\n  %bbb = len @b\n\n  // last\n}  // end\n// after\n"
                    .to_string(),
            ),
            // Lists and arguments over several lines; empty blocks; else.
            (
                "program @p workgroup(1,1,1) {\n const @k : u32[3] = [1,\n\n2,\n3,\n] // k\n const @c : u32[2] = [ // why\n\n1, // one\n\n2 ]\n\
                 fn @f(%x:f32,\n%y : u32,\n) {}\nif true { } else { }\ncall @f(\n1.0, 2\n)\ncall @f(1.0, // x\n2)\nfor %i in 0 .. 3{\n}\n}"
                    .to_string(),
                "program @p workgroup(1, 1, 1) {\n  const @k : u32[3] = [1, 2, 3]  // k\n  const @c : u32[2] = [  // why\n    1,  // one\n    2]\n  \
                 fn @f(%x : f32, %y : u32) {\n  }\n  if true {\n  } else {\n  }\n  call @f(1.0, 2)\n  call @f(1.0,  // x\n    2)\n  \
                 for %i in 0..3 {\n  }\n}\n"
                    .to_string(),
            ),
        ];
        for (source, expected) in table {
            check(&source, &expected);
        }
    }

    #[test]
    fn long_tables_are_wrapped_like_the_printer_does() {
        let items = |count: usize| (0..count).map(|at| (at * 7919).to_string()).collect::<Vec<_>>().join(",");
        for count in [0, 1, 13, 14, 15, 16, 17, 18, 19, 20, 300] {
            let source =
                format!("program @p workgroup(1, 1, 1) {{\nconst @k : u32[{count}] = [{}]\n}}", items(count));
            let parsed = parse(&source).unwrap();
            let (printed, map) = crate::text::print_with_map(&parsed.program);
            assert!(printed.lines().all(|line| line.len() <= 100), "{printed}");
            check(&source, &printed);
            assert_eq!(parse(&printed).unwrap().map, map);
        }
    }
}
