//! A run as a page to read.

use crate::junit::escape;
use crate::report::Report;

impl Report {
    /// The run as a page that needs nothing else.
    pub fn to_html(&self) -> String {
        let failures: String = self.failures.iter().map(|failure| format!("{failure}\n\n")).collect();
        format!(
            "<!doctype html><meta charset=\"utf-8\"><title>{0}</title><h1>{0}</h1><pre>{1}</pre>\n",
            escape(&self.backend),
            escape(&failures)
        )
    }
}
