//! How words look on terminals.

use anstyle::{AnsiColor, Style};

/// Names and heads.
pub const BOLD: Style = Style::new().bold();
/// Less important text.
pub const DIM: Style = Style::new().dimmed();
/// Errors.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Warnings.
pub const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// Success, and fixes.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();

/// `text` in a style; the writer strips it where colour is not wanted.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Colours the words of a rendered error that a reader looks for: its level, the source line, the fix.
pub fn highlight(rendered: &str) -> String {
    let mut out = String::with_capacity(rendered.len() + 64);
    for line in rendered.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let level = [("error", BAD), ("FAIL", BAD), ("warning", WARN)];
        if let Some((_, style)) = level.into_iter().find(|(word, _)| body.starts_with(word)) {
            let head = body.find([' ', ':']).unwrap_or(body.len());
            out.push_str(&paint(style, &body[..head]));
            out.push_str(&body[head..]);
        } else if let Some(fix) = body.strip_prefix("  Fix:") {
            out.push_str("  ");
            out.push_str(&paint(GOOD, "Fix:"));
            out.push_str(fix);
        } else if body.starts_with("  |") {
            out.push_str(&paint(DIM, body));
        } else {
            out.push_str(body);
        }
        out.push_str(end);
    }
    out
}
