//! The progress of a run: a bar on terminals, a line every few seconds elsewhere, nothing in quiet mode.

use crate::suite::Progress as Standing;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use vyre_terminal::table::grouped;

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

pub(super) struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    last: Cell<Instant>,
}

impl Progress {
    pub(super) fn start(quiet: bool) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let style = ProgressStyle::with_template("  {bar:32} {pos}/{len} groups  {msg}  {elapsed}");
            let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
            bar.set_style(style.expect("the template is right"));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Progress { bar, lines: !terminal && !quiet, last: Cell::new(Instant::now()) }
    }

    pub(super) fn show(&self, standing: &Standing<'_>) {
        let counts = format!("{} cases, {} failed", grouped(standing.cases), grouped(standing.failed));
        if let Some(bar) = &self.bar {
            bar.set_length(standing.groups as u64);
            bar.set_position(standing.groups_done as u64);
            bar.set_message(counts);
        } else if self.lines && self.last.get().elapsed() >= LINE_EVERY {
            self.last.set(Instant::now());
            let Standing { groups_done, groups, .. } = standing;
            let _ = writeln!(anstream::stderr(), "  {groups_done} of {groups} groups, {counts}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
