//! The text form (`.vyre`): reading, printing and formatting programs, and showing where they are wrong.
//!
//! `parse(print(p)) == p` for every program, valid or not, because both sides read the same op table and a literal is
//! written with its type wherever its position does not give it. The parser judges only what a program cannot say;
//! everything else is the validator's.

mod format;
mod layout;
mod lex;
mod literal;
mod parse;
mod print;
mod render;
mod rules;
mod source_map;
mod suggest;

pub use format::format;
pub use literal::{LiteralError, parse_literal, print_literal};
pub use parse::{Parsed, parse};
pub use print::{print, print_with_map};
pub use render::{as_written, render, render_message};
pub use rules::RULES;
pub use source_map::SourceMap;

#[cfg(test)]
#[path = "../../tests/unit/text.rs"]
mod tests;
