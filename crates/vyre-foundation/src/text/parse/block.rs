//! Blocks: the explicit stack of open ones, and getting back on track after an error.

use super::{Parse, Parser};
use crate::ir::{Block, Node, Operand, Value};
use crate::limits;
use crate::text::lex::{Kind, Token};

/// What an open block belongs to.
pub(super) enum Open {
    /// A program or function.
    Body,
    If {
        cond: Operand,
    },
    Else {
        cond: Operand,
        then: Block,
    },
    For {
        counter: Value,
        lo: Operand,
        hi: Operand,
        step: u32,
    },
    /// A line that could not be read; its block is read for errors only.
    Broken,
}

struct Frame {
    open: Open,
    brace: Token,
    block: Block,
}

/// The blocks open at a line.
pub(super) struct Blocks {
    frames: Vec<Frame>,
    /// Blocks open beyond the limit: counted, not built.
    too_deep: usize,
}

/// What a `}` closed.
enum Closed {
    /// The whole body.
    Body(Block),
    /// The first block of an `if`, which an `else` may follow.
    Then { cond: Operand, then: Block },
    /// A block whose line is complete.
    Done(Node),
    /// A block that was read for errors only; it may have been an `if`'s.
    Dropped,
}

impl Blocks {
    fn new(brace: Token) -> Blocks {
        Blocks { frames: vec![Frame { open: Open::Body, brace, block: Block::new() }], too_deep: 0 }
    }

    /// Whether the body's outermost block is the innermost open one.
    pub(super) fn at_outermost(&self) -> bool {
        self.frames.len() == 1 && self.too_deep == 0
    }

    /// Whether no line stands in the body yet.
    pub(super) fn is_empty(&self) -> bool {
        self.at_outermost() && self.frames[0].block.is_empty()
    }

    /// Appends a line to the innermost block.
    pub(super) fn push(&mut self, node: Node) {
        if self.too_deep == 0
            && let Some(frame) = self.frames.last_mut()
        {
            frame.block.push(node);
        }
    }

    fn pop(&mut self) -> Closed {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return Closed::Dropped;
        }
        let Some(Frame { open, block, .. }) = self.frames.pop() else { return Closed::Body(Block::new()) };
        match open {
            Open::Body => Closed::Body(block),
            Open::If { cond } => Closed::Then { cond, then: block },
            Open::Else { cond, then } => Closed::Done(Node::If { cond, then, otherwise: block }),
            Open::For { counter, lo, hi, step } => {
                Closed::Done(Node::For { counter, lo, hi, step, body: block })
            }
            Open::Broken => Closed::Dropped,
        }
    }
}

impl Parser<'_> {
    /// Reads lines up to the `}` that closes the body opened by `brace`.
    pub(super) fn body(&mut self, brace: Token, is_program: bool) -> Block {
        let mut blocks = Blocks::new(brace);
        loop {
            if self.full() {
                return Block::new();
            }
            let start = self.token.start;
            let read = match self.token.kind {
                Kind::Newline => {
                    self.bump();
                    continue;
                }
                Kind::End => {
                    self.unclosed(&blocks);
                    return Block::new();
                }
                Kind::CloseBrace => match self.close(&mut blocks) {
                    Ok(Some(block)) => return block,
                    other => other.map(|_| ()),
                },
                _ => self.line(&mut blocks, is_program),
            };
            if read.is_err()
                && let Some(block) = self.recover(&mut blocks, start)
            {
                return block;
            }
        }
    }

    fn unclosed(&mut self, blocks: &Blocks) {
        let Some(frame) = blocks.frames.last() else { return };
        // One that was only assumed has been reported as missing.
        if frame.brace.kind != Kind::OpenBrace {
            return;
        }
        self.error(
            "P018",
            frame.brace,
            "this `{` is never closed",
            "write a `}` on a line of its own where the block ends",
        );
    }

    /// Opens a block; the `{` has been taken.
    pub(super) fn open(&mut self, blocks: &mut Blocks, open: Open, brace: Token) {
        self.block_due = false;
        if blocks.too_deep == 0 && blocks.frames.len() <= limits::NESTING_MAX {
            blocks.frames.push(Frame { open, brace, block: Block::new() });
            return;
        }
        if blocks.too_deep == 0 {
            self.error(
                "P019",
                brace,
                format!("blocks nest more than {} deep", limits::NESTING_MAX),
                "move the inner blocks into a function, or flatten the conditions",
            );
        }
        blocks.too_deep += 1;
    }

    /// Takes a `}` and what may follow it on its line; gives the block if it closed the body.
    fn close(&mut self, blocks: &mut Blocks) -> Parse<Option<Block>> {
        self.bump();
        let then = match blocks.pop() {
            Closed::Body(block) => return Ok(Some(block)),
            Closed::Done(node) => {
                blocks.push(node);
                return self.end_of_line().map(|()| None);
            }
            Closed::Then { cond, then } => Some((cond, then)),
            Closed::Dropped => None,
        };
        if self.take_word("else") {
            let open = then.map_or(Open::Broken, |(cond, then)| Open::Else { cond, then });
            self.block_due = true;
            let brace = self.else_brace()?;
            self.open(blocks, open, brace);
            return self.end_of_header().map(|()| None);
        }
        if let Some((cond, then)) = then {
            blocks.push(Node::If { cond, then, otherwise: Block::new() });
        }
        self.end_of_line().map(|()| None)
    }

    fn else_brace(&mut self) -> Parse<Token> {
        if self.at_word("if") {
            return Err(self.error(
                "P003",
                self.token,
                "`else` is followed by `{`, not by another `if`",
                "write `else {` and the inner `if` on a line of its own",
            ));
        }
        self.expect(Kind::OpenBrace, "`{`")
    }

    /// Nothing may follow on this line.
    pub(super) fn end_of_line(&mut self) -> Parse<()> {
        match self.token.kind {
            Kind::Newline => {
                self.bump();
                Ok(())
            }
            Kind::End => Ok(()),
            Kind::Bad => Err(self.unexpected("the end of the line")),
            _ => {
                let text = crate::text::literal::clip(self.token.text(self.source)).into_owned();
                Err(self.error(
                    "P020",
                    self.token,
                    format!("`{text}` follows a complete line"),
                    "start a new line before it, write `,` if it is one more operand, or remove it",
                ))
            }
        }
    }

    /// After a `{` the line ends, or the block does.
    pub(super) fn end_of_header(&mut self) -> Parse<()> {
        if self.at(Kind::CloseBrace) { Ok(()) } else { self.end_of_line() }
    }

    /// Skips to the end of the line, minding braces; gives the block if the body was closed. `start` is where the line
    /// that failed started.
    fn recover(&mut self, blocks: &mut Blocks, start: u32) -> Option<Block> {
        // A list that was not closed has been left for the line that follows: that line is not the wrong one.
        let at_next_line = self.fresh && self.token.start > start;
        while !at_next_line && !matches!(self.token.kind, Kind::Newline | Kind::End) {
            let token = self.bump();
            match token.kind {
                Kind::OpenBrace => self.open(blocks, Open::Broken, token),
                Kind::CloseBrace => match blocks.pop() {
                    Closed::Body(block) => return Some(block),
                    // Another error has been reported, so this block is never seen.
                    Closed::Then { .. } | Closed::Done(_) | Closed::Dropped => {}
                },
                _ => {}
            }
        }
        if std::mem::take(&mut self.block_due) {
            let brace = self.assumed_brace();
            self.open(blocks, Open::Broken, brace);
        }
        None
    }

    /// The `{` on the next line, or what stands there instead of the `{` that has been reported missing.
    fn assumed_brace(&mut self) -> Token {
        self.skip_newlines();
        self.take(Kind::OpenBrace).unwrap_or(self.token)
    }

    /// Skips the rest of a program's or function's wrong header; gives the `{` of its block, or what stands where it is
    /// missing, or `None` if the block ends on the same line.
    pub(super) fn recover_header(&mut self) -> Option<Token> {
        let mut brace = None;
        while !self.fresh && !matches!(self.token.kind, Kind::Newline | Kind::End) {
            let token = self.bump();
            match token.kind {
                Kind::OpenBrace => brace = Some(token),
                Kind::CloseBrace => return None,
                _ => {}
            }
        }
        Some(brace.unwrap_or_else(|| self.assumed_brace()))
    }
}
