//! Failures: program, inputs, and the bytes of both sides, with differences marked.

use crate::failure::{Difference, ParityFailure};
use crate::report::Report;
use crate::show::{elements, escape, grouped, hex};
use std::collections::BTreeMap;
use std::fmt::Write;
use vyre_foundation::ir::DataType;
use vyre_foundation::text;

/// Failures that are shown on their own, the first one open; the others are folded together.
const FIRST_MAX: usize = 8;
/// Rows of a side's bytes.
const ROWS_MAX: usize = 24;
const ROW_BYTES: usize = 16;
/// Elements of an input.
const ELEMENTS_MAX: usize = 64;

pub(super) fn all(page: &mut String, report: &Report) {
    if report.failures.is_empty() {
        return;
    }
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for failure in &report.failures {
        *causes.entry(failure.cause.code()).or_default() += 1;
    }
    page.push_str("<section>\n<h2>Failures</h2>\n<p>");
    for (cause, count) in causes {
        let _ = write!(page, "<span class=\"chip bad\">{cause} {count}</span>");
    }
    page.push_str("</p>\n");
    let (first, others) = report.failures.split_at(report.failures.len().min(FIRST_MAX));
    for (at, failure) in first.iter().enumerate() {
        one(page, failure, at == 0);
    }
    if !others.is_empty() {
        let _ = writeln!(
            page,
            "<details class=\"more\"><summary>and {} others</summary>",
            grouped(others.len() as u64)
        );
        others.iter().for_each(|failure| one(page, failure, false));
        page.push_str("</details>\n");
    }
    page.push_str("</section>\n");
}

fn one(page: &mut String, failure: &ParityFailure, open: bool) {
    let _ = writeln!(
        page,
        "<details class=\"failure\"{}><summary><code>{}</code> <span class=\"chip bad\">{}</span></summary>",
        if open { " open" } else { "" },
        escape(&failure.case),
        failure.cause
    );
    let _ = writeln!(page, "<p>{}</p>", escape(&failure.message));
    if let Some(Difference { buffer, element, expected, actual, count }) = &failure.difference {
        let _ = writeln!(
            page,
            "<p>first at <code>@{}[{element}]</code>: expected <code>{}</code>, got <code>{}</code>; elements that differ: {}</p>",
            escape(buffer),
            escape(expected),
            escape(actual),
            grouped(*count as u64)
        );
    }
    let _ = writeln!(page, "<p class=\"fix\"><b>Fix:</b> {}</p>", escape(failure.fix()));
    if !failure.program.is_empty() {
        let [x, y, z] = failure.grid;
        let _ = writeln!(
            page,
            "<h3>The smallest program found that fails, grid ({x}, {y}, {z})</h3>\n<pre>{}</pre>",
            escape(&failure.program)
        );
    }
    inputs(page, failure);
    if !failure.expected.is_empty() || !failure.actual.is_empty() {
        sides(page, &failure.expected, &failure.actual);
    }
    if !failure.replay.is_empty() {
        let _ = writeln!(page, "<h3>Run it again</h3>\n<pre>{}</pre>", escape(&failure.replay));
    }
    page.push_str("</details>\n");
}

/// The initial contents of the buffers, as values where the program gives their types.
fn inputs(page: &mut String, failure: &ParityFailure) {
    if failure.inputs.is_empty() {
        return;
    }
    let types: BTreeMap<String, DataType> = match text::parse(&failure.program) {
        Ok(parsed) => {
            let buffers = &parsed.program.parts().buffers;
            buffers.iter().map(|buffer| (buffer.name.to_string(), buffer.ty)).collect()
        }
        Err(_) => BTreeMap::new(),
    };
    page.push_str("<h3>Inputs</h3>\n<dl class=\"facts\">\n");
    for (name, bytes) in &failure.inputs {
        let (kind, values, size) = match types.get(name) {
            Some(ty) => {
                let values: Vec<String> = elements(*ty, bytes).take(ELEMENTS_MAX).collect();
                (ty.name(), values.join(", "), ty.bytes())
            }
            None => ("bytes", hex(&bytes[..bytes.len().min(ELEMENTS_MAX)]), 1),
        };
        let count = bytes.len() / size;
        let more = if count > ELEMENTS_MAX { ", ..." } else { "" };
        let _ = writeln!(
            page,
            "<dt><code>@{}</code> {kind}[{}]</dt><dd><code>{}{more}</code></dd>",
            escape(name),
            grouped(count as u64),
            escape(&values)
        );
    }
    page.push_str("</dl>\n");
}

/// Both sides' bytes, from the first row that differs.
fn sides(page: &mut String, expected: &[u8], actual: &[u8]) {
    let differs = |at: usize| expected.get(at) != actual.get(at);
    let len = expected.len().max(actual.len());
    let first = (0..len).find(|at| differs(*at)).unwrap_or(0) / ROW_BYTES;
    // One row before the first difference shows its context.
    let rows = first.saturating_sub(1)..len.div_ceil(ROW_BYTES).min(first + ROWS_MAX);
    page.push_str("<h3>Output bytes</h3>\n<div class=\"sides\">\n");
    for (name, bytes) in [("expected", expected), ("actual", actual)] {
        let _ = write!(
            page,
            "<figure><figcaption>{name}, {} bytes</figcaption><pre>",
            grouped(bytes.len() as u64)
        );
        for row in rows.clone() {
            let _ = write!(page, "<i>{:06x}</i>", row * ROW_BYTES);
            for at in row * ROW_BYTES..((row + 1) * ROW_BYTES).min(len) {
                let byte = bytes.get(at).map_or("--".to_owned(), |byte| format!("{byte:02x}"));
                match differs(at) {
                    true => {
                        let _ = write!(page, " <mark>{byte}</mark>");
                    }
                    false => {
                        let _ = write!(page, " {byte}");
                    }
                }
            }
            page.push('\n');
        }
        page.push_str("</pre></figure>\n");
    }
    page.push_str("</div>\n");
}
