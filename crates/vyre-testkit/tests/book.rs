//! The book under `docs` is true as far as a program can tell: its pages, links and code.
//!
//! | fence | what is checked |
//! | --- | --- |
//! | `vyre` | the program is valid, its `//@ run` lines give their bytes, its `//~ error` lines are its findings |
//! | `vyre,fails` | one of these checks fails, as the page says |
//! | `rust` | the page is part of the doc tests of the crate `vyre` |
//! | `rust,ignore` | nothing: a fragment. Pages of doc tests have none |
//!
//! Command lines in `sh` blocks are checked where the commands are: in `vyre-cli`. Not here: mdBook, which these tests do
//! not need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use vyre::filetest;
use vyre_testkit::book::{Block, Page, pages, target};
use vyre_testkit::repo;

/// Fails with all `complaints` and one fix.
fn none(complaints: Vec<String>, fix: &str) {
    assert!(complaints.is_empty(), "{}\n  Fix: {fix}", complaints.join("\n"));
}

/// The book's pages, and the others that people read.
fn all_pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/SUMMARY.md", "certificates/README.md"]
            .map(|name| repo::root().join(name))
            .into();
    let readme = |path: &PathBuf| path.file_name().is_some_and(|name| name == "README.md");
    paths.extend(repo::files("crates", "md").into_iter().filter(readme));
    paths.iter().map(|path| Page::read(path)).chain(pages()).collect()
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = Page::read(&repo::root().join("docs/SUMMARY.md"));
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    for (_, link) in &summary.links {
        *listed.entry(format!("docs/{link}")).or_default() += 1;
    }
    let pages: BTreeSet<String> = pages().into_iter().map(|page| page.name).collect();
    let missing =
        pages.iter().filter(|page| !listed.contains_key(*page)).map(|page| format!("{page}: not listed"));
    let gone =
        listed.keys().filter(|page| !pages.contains(*page)).map(|page| format!("{page}: does not exist"));
    let twice =
        listed.iter().filter(|(_, count)| **count > 1).map(|(page, _)| format!("{page}: listed twice"));
    none(missing.chain(gone).chain(twice).collect(), "correct docs/SUMMARY.md");
}

#[test]
fn links_lead_somewhere() {
    let pages: BTreeMap<String, Page> =
        all_pages().into_iter().map(|page| (page.name.clone(), page)).collect();
    let mut complaints = Vec::new();
    for page in pages.values() {
        for (line, link) in &page.links {
            let Some((path, anchor)) = target(&page.name, link) else { continue };
            let complain = |why: &str| format!("{}:{line}: `{link}` {why}", page.name);
            let name = repo::name(&repo::root().join(&path));
            if !repo::root().join(&path).exists() {
                complaints.push(complain("does not exist"));
            } else if page.name.starts_with("docs/") && !name.starts_with("docs/") {
                complaints.push(complain("is no part of the book, where the link leads nowhere"));
            } else if let Some(anchor) = anchor
                && !pages.get(&name).is_some_and(|page| page.anchors.contains(&anchor))
            {
                complaints.push(complain("names no heading"));
            }
        }
    }
    none(complaints, "correct the link; in the book, name files outside of docs/ by their path, as code");
}

/// What is wrong with a program of a page; nothing if it should fail and does.
fn program_complaint(page: &Page, block: &Block) -> Option<String> {
    let place = format!("{}:{}", page.name, block.line);
    let cases = filetest::test(&place, &block.text, &repo::root().join("examples"));
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| match &case.result {
            filetest::CaseResult::Passed => None,
            filetest::CaseResult::Failed(message) => Some(message.clone()),
        })
        .collect();
    match (block.info.as_str(), failed.is_empty()) {
        ("vyre", true) | ("vyre,fails", false) => None,
        ("vyre", false) => Some(format!("{place}: {}", failed.join("\n"))),
        ("vyre,fails", true) => Some(format!("{place}: nothing fails")),
        (other, _) => Some(format!("{place}: `{other}` is neither `vyre` nor `vyre,fails`")),
    }
}

#[test]
fn programs_do_what_the_pages_say() {
    let mut complaints = Vec::new();
    let mut programs = 0;
    for page in all_pages() {
        for block in page.blocks.iter().filter(|block| block.language() == "vyre") {
            programs += 1;
            complaints.extend(program_complaint(&page, block));
        }
    }
    assert!(programs > 0, "no page has a program");
    none(complaints, "correct the program or what its comments expect");
}

#[test]
fn rust_code_is_compiled() {
    let crate_root = repo::read(&repo::root().join("crates/vyre/src/lib.rs")).expect("it is there");
    let mut complaints = Vec::new();
    for page in pages() {
        let is_tested = crate_root.contains(&format!("include_str!(\"../../../{}\")", page.name));
        for block in page.blocks.iter().filter(|block| block.language() == "rust") {
            let place = format!("{}:{}", page.name, block.line);
            match (block.info.as_str(), is_tested) {
                ("rust", true) | ("rust,ignore", false) => {}
                ("rust", false) => complaints.push(format!("{place}: nothing compiles this page's code")),
                (other, _) => complaints.push(format!("{place}: `{other}`")),
            }
        }
    }
    none(
        complaints,
        "write `rust` on pages that crates/vyre/src/lib.rs has doc tests of, `rust,ignore` for fragments on others",
    );
}
