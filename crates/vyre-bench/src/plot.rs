//! The ratios of a run as a picture: bars on a logarithmic scale, from plain Rust's time to the left where a contender
//! is faster and to the right where it is slower.
//!
//! The SVG is self-contained: no scripts, no external fonts or styles.

use crate::contender::Mode;
use crate::report::{Group, Outcome, Report, Row, size_text};
use std::fmt::Write;

const WIDTH: f64 = 960.0;
/// Where the bars' scale begins and ends.
const LEFT: f64 = 190.0;
const RIGHT: f64 = WIDTH - 40.0;
/// Room for a ratio beside the end of its bar.
const VALUE: f64 = 56.0;
const BAR: f64 = 15.0;
const BAR_STEP: f64 = 18.0;
const GROUP_GAP: f64 = 16.0;
const LEGEND_STEP: f64 = 20.0;

/// The tuned baselines' colour, then pairs for backends: on resident buffers, and on the host's bytes.
const TUNED: &str = "#8a8f98";
const BACKENDS: [[&str; 2]; 5] = [
    ["#1f77b4", "#a6cbe8"],
    ["#d9731a", "#f5c79b"],
    ["#2a8a4a", "#a5d8b4"],
    ["#7b52ab", "#cdb9e6"],
    ["#b03060", "#eab0c6"],
];
const INK: &str = "#1b1f24";
const FAINT: &str = "#5b6470";
const GRID: &str = "#e3e6ea";
const BAD: &str = "#c01818";
/// Keeps lines of the grid out of figures.
const HALO: &str = "paint-order='stroke' stroke='white' stroke-width='3'";

/// The plot of a run's ratios.
pub fn plot(report: &Report) -> String {
    let rows: Vec<Vec<&Row>> = report.groups.iter().map(|group| shown(group)).collect();
    let scale = Scale::over(rows.iter().flatten().filter_map(|row| ratio(row)));
    let colours = Colours::of(report);
    let top = 74.0 + LEGEND_STEP * colours.legend().len().div_ceil(3) as f64;
    let heights: Vec<f64> = rows.iter().map(|rows| rows.len() as f64 * BAR_STEP + GROUP_GAP).collect();
    let bottom = top + heights.iter().sum::<f64>();
    let mut svg = head(report, bottom + 56.0);
    legend(&mut svg, &colours.legend());
    axis(&mut svg, &scale, top, bottom);
    let mut y = top;
    for ((group, rows), height) in report.groups.iter().zip(&rows).zip(&heights) {
        let middle = y + (height - GROUP_GAP) / 2.0;
        let name = group.benchmark.name;
        text(&mut svg, LEFT - 14.0, middle - 1.0, "end", &format!("font-weight='600' fill='{INK}'"), name);
        let size = format!("{} {}", size_text(group.size), group.benchmark.unit);
        text(&mut svg, LEFT - 14.0, middle + 14.0, "end", &format!("font-size='11' fill='{FAINT}'"), &size);
        for (at, row) in rows.iter().enumerate() {
            bar(&mut svg, &scale, y + at as f64 * BAR_STEP, row, colours.of_row(row));
        }
        y += height;
    }
    svg.push_str("</svg>\n");
    svg
}

/// All but the plain baseline, which is the line at 1.
fn shown(group: &Group) -> Vec<&Row> {
    group.rows.iter().filter(|row| row.contender != group.benchmark.plain()).collect()
}

fn ratio(row: &Row) -> Option<f64> {
    row.figures()?.ratio
}

fn head(report: &Report, height: f64) -> String {
    let machine = &report.machine;
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height:.0}' viewBox='0 0 {WIDTH} {height:.0}' \
         font-family='system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif' font-size='13'>\n\
         <rect width='100%' height='100%' fill='white'/>\n"
    );
    let title = "Time as a ratio to plain Rust with rayon: to the left is faster";
    text(&mut svg, 24.0, 30.0, "start", &format!("font-size='17' font-weight='600' fill='{INK}'"), title);
    let build = if machine.optimised { "" } else { "; not an optimised build" };
    let about =
        format!("{}, {} threads, {}{build}; medians", machine.processor, machine.threads, machine.vectors);
    text(&mut svg, 24.0, 50.0, "start", &format!("font-size='12' fill='{FAINT}'"), &about);
    svg
}

/// A text at its baseline.
fn text(svg: &mut String, x: f64, y: f64, anchor: &str, style: &str, content: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}' {style}>{content}</text>");
}

fn legend(svg: &mut String, entries: &[(String, &str)]) {
    for (at, (name, colour)) in entries.iter().enumerate() {
        let x = 24.0 + (at % 3) as f64 * 250.0;
        let y = 66.0 + (at / 3) as f64 * LEGEND_STEP;
        let _ = writeln!(svg, "<rect x='{x}' y='{y}' width='12' height='12' rx='2' fill='{colour}'/>");
        text(svg, x + 18.0, y + 10.5, "start", &format!("font-size='12' fill='{INK}'"), name);
    }
}

/// Lines at round ratios, and a strong one at 1.
fn axis(svg: &mut String, scale: &Scale, top: f64, bottom: f64) {
    for (value, is_named) in scale.ticks() {
        let x = scale.x(value);
        let (colour, width) = if value == 1.0 { (INK, 1.5) } else { (GRID, 1.0) };
        let _ = writeln!(
            svg,
            "<line x1='{x:.1}' y1='{top:.1}' x2='{x:.1}' y2='{bottom:.1}' stroke='{colour}' stroke-width='{width}'/>"
        );
        if is_named {
            text(svg, x, bottom + 18.0, "middle", &format!("font-size='11' fill='{FAINT}'"), &plain(value));
        }
    }
    let middle = (LEFT + RIGHT) / 2.0;
    let about = "time / time of plain Rust (logarithmic)";
    text(svg, middle, bottom + 38.0, "middle", &format!("font-size='12' fill='{FAINT}'"), about);
}

fn bar(svg: &mut String, scale: &Scale, y: f64, row: &Row, colour: &str) {
    let one = scale.x(1.0);
    let Some(ratio) = ratio(row) else {
        let word = match &row.outcome {
            Outcome::Measured(_) => "no ratio",
            Outcome::Wrong(_) => "wrong",
            Outcome::Failed(_) => "failed",
        };
        let what = format!("{}: {word}", row.contender);
        return text(svg, one + 6.0, y + 12.0, "start", &format!("font-size='11' fill='{BAD}'"), &what);
    };
    let end = scale.x(ratio);
    let (x, width) = (one.min(end), (one - end).abs().max(1.0));
    let _ = writeln!(
        svg,
        "<rect x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{BAR}' rx='2' fill='{colour}'><title>{}: {}</title></rect>",
        row.contender,
        plain(ratio)
    );
    let (at, anchor) = if ratio < 1.0 { (end - 5.0, "end") } else { (end + 5.0, "start") };
    text(svg, at, y + 11.5, anchor, &format!("font-size='11' fill='{INK}' {HALO}"), &plain(ratio));
}

/// A number without needless digits.
fn plain(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}").trim_end_matches(".0").to_owned(),
        value => {
            let digits = if value >= 0.1 { 2 } else { 3 };
            let shown = format!("{value:.digits$}");
            shown.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// Logarithms of ratios on the picture's width.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// A scale with room for all ratios, and for 1.
    fn over(ratios: impl Iterator<Item = f64>) -> Scale {
        let (mut low, mut high) = (0.5f64, 2.0f64);
        for ratio in ratios {
            (low, high) = (low.min(ratio), high.max(ratio));
        }
        Scale { low: low.ln(), high: high.ln() }
    }

    fn x(&self, ratio: f64) -> f64 {
        let part = (ratio.ln() - self.low) / (self.high - self.low);
        LEFT + VALUE + part * (RIGHT - LEFT - 2.0 * VALUE)
    }

    /// Round ratios within the scale, and whether they are named: powers of ten, with halves and fifths where they are
    /// not too dense.
    fn ticks(&self) -> Vec<(f64, bool)> {
        let decades = (self.high - self.low) / std::f64::consts::LN_10;
        let ticks = (-6..=9).flat_map(|power| [1.0, 2.0, 5.0].map(|step| (step, step * 10f64.powi(power))));
        let inside = |value: f64| (self.low - 0.05..=self.high + 0.05).contains(&value.ln());
        ticks
            .filter(|(_, value)| inside(*value))
            .map(|(step, value)| (value, step == 1.0 || decades < 3.0))
            .collect()
    }
}

/// The colour of each contender.
struct Colours {
    backends: Vec<String>,
    modes: Vec<(Option<String>, Mode)>,
}

impl Colours {
    fn of(report: &Report) -> Colours {
        let mut colours = Colours { backends: Vec::new(), modes: Vec::new() };
        for row in report.groups.iter().flat_map(|group| shown(group)) {
            if let Some(id) = row.backend.as_ref().filter(|id| !colours.backends.contains(id)) {
                colours.backends.push(id.clone());
            }
            let mode = (row.backend.clone(), row.mode);
            if !colours.modes.contains(&mode) {
                colours.modes.push(mode);
            }
        }
        colours
    }

    fn of_row(&self, row: &Row) -> &'static str {
        self.colour(row.backend.as_deref(), row.mode)
    }

    fn colour(&self, backend: Option<&str>, mode: Mode) -> &'static str {
        let at = self.backends.iter().position(|id| Some(id.as_str()) == backend);
        match (at, mode) {
            (Some(at), Mode::Host) => BACKENDS[at % BACKENDS.len()][1],
            (Some(at), Mode::Resident | Mode::Baseline | Mode::Loose) => BACKENDS[at % BACKENDS.len()][0],
            (None, _) => TUNED,
        }
    }

    fn legend(&self) -> Vec<(String, &'static str)> {
        let name = |backend: &Option<String>, mode: Mode| match (backend, mode) {
            (None, _) => "Rust, blocked or with wide vectors".to_owned(),
            (Some(id), Mode::Host) => format!("{id}, host's bytes in and out"),
            (Some(id), Mode::Loose) => format!("{id}, floats as the device has them"),
            (Some(id), Mode::Resident | Mode::Baseline) => format!("{id}, resident buffers"),
        };
        let entry = |(backend, mode): &(Option<String>, Mode)| {
            (name(backend, *mode), self.colour(backend.as_deref(), *mode))
        };
        self.modes.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_needless_digits() {
        let shown = [0.0581, 0.5, 1.0, 1.25, 20.0, 447.3].map(plain);
        assert_eq!(shown, ["0.058", "0.5", "1", "1.25", "20", "447"]);
    }

    #[test]
    fn the_scale_holds_all_ratios_and_one() {
        let scale = Scale::over([0.01, 300.0].into_iter());
        for ratio in [0.01, 1.0, 300.0] {
            assert!((LEFT..=RIGHT).contains(&scale.x(ratio)), "{ratio}");
        }
        assert!(scale.ticks().contains(&(1.0, true)));
    }
}
