//! The words that texts for people avoid, and the texts to look for them in.
//!
//! Rust files give their string literals, and their doc comments where those are a command's help; pages give their prose,
//! without code. Not here: comments of the code, and what good English is beyond a list of words.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Each word or phrase, in lower case, with what to write.
pub const AVOIDED: [(&str, &str); 22] = [
    ("nobody", "no backend, no caller, none"),
    ("mend", "fix, correct, repair"),
    ("mends", "fix, correct, repair"),
    ("mended", "fixed, corrected"),
    ("by hand", "hand-written, manual"),
    ("tell", "report, print, return"),
    ("tells", "reports, prints, returns"),
    ("told", "reported, printed"),
    ("soften", "software floats, integer emulation"),
    ("softened", "with software floats"),
    ("softening", "software floats, integer emulation"),
    ("floats of integers", "software floats, integer emulation"),
    ("ways", "strategies, lowerings, or say which"),
    ("lies", "is stored in, is located in"),
    ("lie", "are stored in, are located in"),
    ("stands", "is, is stored in, is located in"),
    ("gets wrong", "miscompiles"),
    ("get wrong", "miscompile"),
    ("not shown to", "opaque to"),
    ("so-manieth", "every nth"),
    ("has none to give", "is unavailable"),
    ("part ways", "diverge"),
];

/// The first avoided phrase in a text, with what to write.
pub fn avoided(text: &str) -> Option<(&'static str, &'static str)> {
    let lower: String =
        text.chars().map(|c| if c.is_whitespace() { ' ' } else { c.to_ascii_lowercase() }).collect();
    let words = lower.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    AVOIDED.into_iter().find(|(phrase, _)| {
        words.match_indices(phrase).any(|(at, _)| {
            let behind = &words[at + phrase.len()..];
            let inside = is_part(words[..at].chars().next_back()) || is_part(behind.chars().next());
            // "A name stands for a value" is the usual phrase.
            let usual = *phrase == "stands" && behind.starts_with(" for");
            !inside && !usual
        })
    })
}

/// A text with the line that it starts on.
pub type Text = (usize, String);

/// The string literals of Rust source in front of its unit tests; with `help` the doc comments too. What is between back
/// quotes is code, and left out.
pub fn rust_texts(source: &str, help: bool) -> Vec<Text> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut texts, mut rest, mut line) = (Vec::new(), code, 1);
    while let Some(c) = rest.chars().next() {
        let (len, text) = token(rest, c);
        let token = &rest[..len];
        match text {
            Token::Literal => texts.push((line, without_code(token))),
            Token::Doc if help => texts.push((line, without_code(token))),
            Token::Doc | Token::Other => {}
        }
        line += token.matches('\n').count();
        rest = &rest[len..];
    }
    texts
}

enum Token {
    Literal,
    Doc,
    Other,
}

/// The length of what the source starts with, and what it is.
fn token(rest: &str, first: char) -> (usize, Token) {
    let until =
        |end: &str, from: usize| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    match first {
        '/' if rest.starts_with("///") => (until("\n", 3), Token::Doc),
        '/' if rest.starts_with("//") => (until("\n", 2), Token::Other),
        '\'' if rest[1..].starts_with('\\') => (until("'", 3), Token::Other),
        '\'' if rest[1..].chars().nth(1) == Some('\'') => (until("'", 2), Token::Other),
        'r' if rest[1..].trim_start_matches('#').starts_with('"') => {
            let hashes = rest[1..].len() - rest[1..].trim_start_matches('#').len();
            (until(&format!("\"{}", "#".repeat(hashes)), hashes + 2), Token::Literal)
        }
        '"' => {
            let mut escaped = false;
            let end = rest[1..].find(|c: char| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            (end.map_or(rest.len(), |end| end + 2), Token::Literal)
        }
        c if c.is_alphanumeric() || c == '_' => {
            (rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len()), Token::Other)
        }
        c => (c.len_utf8(), Token::Other),
    }
}

fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("code")
}

/// The prose of a page in Markdown, without code.
pub fn page_texts(source: &str) -> Vec<Text> {
    let mut texts = Vec::new();
    let mut block = false;
    let mut paragraph: Option<Text> = None;
    for (event, range) in Parser::new_ext(source, Options::ENABLE_TABLES).into_offset_iter() {
        let line = source[..range.start].matches('\n').count() + 1;
        match event {
            Event::Start(Tag::CodeBlock(_)) => block = true,
            Event::End(TagEnd::CodeBlock) => block = false,
            Event::Text(text) if !block => {
                paragraph.get_or_insert_with(|| (line, String::new())).1.push_str(&text);
            }
            Event::Code(_) | Event::SoftBreak | Event::HardBreak => {
                paragraph.get_or_insert_with(|| (line, String::new())).1.push(' ');
            }
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::TableCell | TagEnd::Item) => {
                texts.extend(paragraph.take());
            }
            _ => {}
        }
    }
    texts.extend(paragraph);
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_as_words() {
        assert_eq!(avoided("Nobody knows").map(|found| found.0), Some("nobody"));
        assert_eq!(avoided("written by\n  hand").map(|found| found.0), Some("by hand"));
        assert_eq!(avoided("recommend, always, replies, told_you"), None);
    }

    #[test]
    fn texts_of_rust_are_its_literals() {
        let source = "/// help\nfn f() { let a = \"one \\\" two\"; let c = '\"'; } // \"no\"\nconst B: &str = r#\"three\"#;\n\
                      #[cfg(test)]\nmod tests { \"four\" }";
        let texts: Vec<String> = rust_texts(source, false).into_iter().map(|text| text.1).collect();
        assert_eq!(texts, ["\"one \\\" two\"", "r#\"three\"#"]);
        assert_eq!(rust_texts(source, true)[0], (1, "/// help\n".to_owned()));
    }

    #[test]
    fn texts_of_pages_have_no_code() {
        let page = "# Head\n\nOne `told`\ntwo.\n\n```sh\ntold\n```\n\n| a | told |\n| - | - |\n| b | c |\n";
        let texts: Vec<String> = page_texts(page).into_iter().map(|text| text.1).collect();
        assert_eq!(texts, ["Head", "One   two.", "a", "told", "b", "c"]);
    }
}
