//! A run as a page in HTML: one file without external resources, light or dark like the reader's system.
//!
//! `failure` shows what failed; here is the rest: badges, numbers, the map of ops and types, the table of groups. The page
//! is complete without its script, which sorts and filters. Everything that came from a backend is escaped.

mod failure;

use crate::batch::{Level, Track};
use crate::report::{GroupReport, LevelState, Report};
use crate::show::{escape, grouped};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use vyre_foundation::ir::{DataType, Digest};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

impl Report {
    /// The run as a page that needs nothing else.
    pub fn to_html(&self) -> String {
        let mut page = String::new();
        let title = escape(&format!("{} {}", self.backend, self.profile.version));
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
             <title>{title}: vyre conformance</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        );
        head(&mut page, self);
        ladder(&mut page, self);
        numbers(&mut page, self);
        failure::all(&mut page, self);
        maps(&mut page, self);
        others(&mut page, self);
        table(&mut page, self);
        particulars(&mut page, self);
        let _ = write!(page, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
        page
    }
}

fn head(page: &mut String, report: &Report) {
    let profile = &report.profile;
    let held: Vec<String> = Track::ALL
        .into_iter()
        .filter_map(|track| {
            report.standing(track).level.map(|level| format!("<b>{level}</b> on the {track} track"))
        })
        .collect();
    let failed = report.groups.iter().filter(|group| group.failed > 0).count();
    let (class, verdict) = match (report.failures.is_empty(), report.complete, held.is_empty()) {
        (false, _, _) => {
            let also = if held.is_empty() {
                String::new()
            } else {
                format!(", and it holds {}", held.join(" and "))
            };
            (
                "bad",
                format!(
                    "{} of {} groups fail{also}",
                    grouped(failed as u64),
                    grouped(report.groups.len() as u64)
                ),
            )
        }
        (true, true, false) => ("good", format!("holds {}", held.join(" and "))),
        (true, _, _) => ("plain", "nothing failed in the part that ran".to_owned()),
    };
    let face = if report.driver { "as a driver" } else { "through the vendor contract" };
    let _ = write!(
        page,
        "<header>\n<p class=\"eyebrow\">vyre conformance, {} suite, tested {face}</p>\n<h1>{} <small>{}</small></h1>\n\
         <p class=\"device\">{} &middot; {}</p>\n<p class=\"verdict {class}\">{verdict}</p>\n</header>\n",
        report.size.name(),
        escape(&report.backend),
        escape(&profile.version),
        escape(&profile.device),
        escape(&profile.driver)
    );
}

/// Two rows of badges: each track's levels, weakest first.
fn ladder(page: &mut String, report: &Report) {
    page.push_str("<section class=\"ladder\">\n");
    for track in Track::ALL {
        let _ = write!(page, "<div class=\"rung\"><h2>{track}</h2>");
        for level in Level::ALL {
            let (class, mark) = match report.level_state(level, track) {
                LevelState::Passed => ("good", "&#10003;"),
                LevelState::Failed => ("bad", "&#10007;"),
                LevelState::NotRun => ("none", "&ndash;"),
            };
            let here = report.groups.iter().filter(|group| (group.level, group.track) == (level, track));
            let cases = match here.map(|group| group.cases).sum() {
                0 => "not run".to_owned(),
                cases => format!("{} cases", grouped(cases)),
            };
            let _ = write!(
                page,
                "<div class=\"badge {class}\"><span>{mark}</span><b>{level}</b><i>{cases}</i></div>"
            );
        }
        page.push_str("</div>\n");
    }
    page.push_str("</section>\n");
}

fn numbers(page: &mut String, report: &Report) {
    let failed: u64 = report.groups.iter().map(|group| group.failed).sum();
    let numbers = [
        ("cases", grouped(report.cases())),
        ("dispatches", grouped(report.dispatches())),
        ("groups", grouped(report.groups.len() as u64)),
        ("batches failed", grouped(failed)),
        ("seconds", format!("{:.1}", report.elapsed.as_secs_f64())),
    ];
    page.push_str("<section class=\"numbers\">\n");
    for (name, number) in numbers {
        let class = if name == "batches failed" && failed > 0 { " class=\"bad\"" } else { "" };
        let _ = writeln!(page, "<div{class}><b>{number}</b><span>{name}</span></div>");
    }
    page.push_str("</section>\n");
}

/// `op/f32/div` as its family, its type and its op.
fn by_type(group: &GroupReport) -> Option<(&str, &str, &str)> {
    let mut parts = group.name.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(family), Some(ty), Some(op)) if DataType::from_name(ty).is_some() => Some((family, ty, op)),
        _ => None,
    }
}

/// A map for each family that has types: ops first.
fn maps(page: &mut String, report: &Report) {
    let mut families: BTreeMap<&str, Rows<'_>> = BTreeMap::new();
    for group in &report.groups {
        if let Some((family, ty, op)) = by_type(group) {
            families.entry(family).or_default().entry(op).or_default().insert(ty, group);
        }
    }
    if let Some(rows) = families.remove("op") {
        map(page, "op", "Ops by type", rows);
    }
    for (family, rows) in families {
        let title = match family {
            "law" => "Laws by type".to_owned(),
            "all" => "Small domains without exception".to_owned(),
            other => format!("{} by type", escape(other)),
        };
        map(page, family, &title, rows);
    }
}

/// Groups by op, then type.
type Rows<'r> = BTreeMap<&'r str, BTreeMap<&'r str, &'r GroupReport>>;

/// Ops down, types across, each cell with its cases: the more, the deeper its colour.
fn map(page: &mut String, family: &str, title: &str, rows: Rows<'_>) {
    let used: BTreeSet<&str> = rows.values().flat_map(|row| row.keys().copied()).collect();
    let order = |ty: &&str| DataType::ALL.iter().position(|known| known.name() == *ty);
    let mut types: Vec<&str> = used.into_iter().collect();
    types.sort_by_key(|ty| (order(ty).is_none(), order(ty), *ty));
    let id = escape(family);
    let _ = write!(
        page,
        "<section>\n<div class=\"bar\"><h2>{title}</h2><input type=\"search\" placeholder=\"filter\" data-filter=\"map-{id}\"></div>\n\
         <div class=\"scroll\"><table id=\"map-{id}\" class=\"map\"><thead><tr><th data-sort=\"text\">name</th>",
    );
    for ty in &types {
        let _ = write!(page, "<th data-sort=\"number\">{}</th>", escape(ty));
    }
    page.push_str("</tr></thead><tbody>\n");
    for (op, row) in rows {
        let failed = row.values().any(|group| group.failed > 0);
        let mark = if failed { " class=\"bad\"" } else { "" };
        let _ = write!(page, "<tr><th{mark}>{}</th>", escape(op));
        for ty in &types {
            match row.get(ty) {
                None => page.push_str("<td></td>"),
                Some(group) => cell(page, group),
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n</section>\n");
}

fn cell(page: &mut String, group: &GroupReport) {
    let (class, text) = match group.failed {
        0 => (format!("h{}", group.cases.max(1).ilog10().min(6)), short(group.cases)),
        failed => ("bad".to_owned(), format!("&#10007; {failed}")),
    };
    let _ = write!(
        page,
        "<td class=\"{class}\" data-value=\"{}\" title=\"{}: {} cases in {} dispatches, {} batches failed\">{text}</td>",
        group.cases,
        escape(&group.name),
        grouped(group.cases),
        grouped(group.dispatches),
        group.failed
    );
}

/// A number in at most four characters.
fn short(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// Groups without a type in their name: a chip for each, family by family.
fn others(page: &mut String, report: &Report) {
    let mut families: BTreeMap<&str, Vec<&GroupReport>> = BTreeMap::new();
    for group in report.groups.iter().filter(|group| by_type(group).is_none()) {
        let family = group.name.split('/').next().unwrap_or_default();
        families.entry(family).or_default().push(group);
    }
    if families.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>Everything else</h2>\n<dl class=\"chips\">\n");
    for (family, groups) in families {
        let _ = write!(page, "<dt>{}</dt><dd>", escape(family));
        for group in groups {
            let class = if group.failed == 0 { "good" } else { "bad" };
            let rest = group.name.split_once('/').map_or(group.name.as_str(), |(_, rest)| rest);
            let _ = write!(
                page,
                "<span class=\"chip {class}\" title=\"{} cases in {} dispatches, {} batches failed\">{}{}</span>",
                grouped(group.cases),
                grouped(group.dispatches),
                group.failed,
                if group.failed == 0 { "" } else { "&#10007; " },
                escape(rest)
            );
        }
        page.push_str("</dd>\n");
    }
    page.push_str("</dl>\n</section>\n");
}

/// Every group with its numbers.
fn table(page: &mut String, report: &Report) {
    page.push_str(
        "<section>\n<details><summary><h2>All groups</h2></summary>\n\
         <div class=\"bar\"><input type=\"search\" placeholder=\"filter groups\" data-filter=\"groups\">\
         <label><input type=\"checkbox\" data-failed=\"groups\"> only those that fail</label></div>\n\
         <div class=\"scroll\"><table id=\"groups\"><thead><tr><th data-sort=\"text\">group</th><th data-sort=\"text\">track</th>\
         <th data-sort=\"text\">level</th><th data-sort=\"number\">cases</th><th data-sort=\"number\">dispatches</th>\
         <th data-sort=\"number\">failed</th><th>output root</th></tr></thead><tbody>\n",
    );
    for group in &report.groups {
        let class = if group.failed > 0 { " class=\"bad\"" } else { "" };
        let numbers: String = [group.cases, group.dispatches, group.failed]
            .map(|number| format!("<td data-value=\"{number}\">{}</td>", grouped(number)))
            .concat();
        let _ = writeln!(
            page,
            "<tr{class}><th>{}</th><td>{}</td><td>{}</td>{numbers}<td><code>{}</code></td></tr>",
            escape(&group.name),
            group.track,
            group.level,
            &group.root.to_string()[..16]
        );
    }
    page.push_str("</tbody></table></div>\n</details>\n</section>\n");
}

/// The command that repeats the run.
fn particulars(page: &mut String, report: &Report) {
    let profile = &report.profile;
    let features: Vec<&str> = profile.features.iter().map(|feature| feature.name()).collect();
    let rows = [
        ("nonce", Digest(report.nonce).to_string()),
        ("suite digest", report.suite_digest().to_string()),
        ("suite version", env!("CARGO_PKG_VERSION").to_owned()),
        ("started", report.started.clone()),
        ("random programs", report.coverage.clone()),
        ("optional features", if features.is_empty() { "none".into() } else { features.join(", ") }),
        (
            "published limits",
            format!(
                "{} lanes of a workgroup, {} bytes of workgroup memory, {} bytes of a buffer, {} workgroups along an axis",
                grouped(profile.invocations_max.into()),
                grouped(profile.workgroup_bytes_max.into()),
                grouped(profile.buffer_bytes_max),
                grouped(profile.workgroups_max.into())
            ),
        ),
    ];
    page.push_str("<section>\n<h2>Particulars</h2>\n<dl class=\"facts\">\n");
    for (name, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", escape(value.trim()));
    }
    page.push_str("</dl>\n</section>\n");
}
