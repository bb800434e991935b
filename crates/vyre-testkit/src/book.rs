//! The pages of the book as Markdown: their headings, links and code blocks, and the command lines in those.
//!
//! mdBook builds the book from `docs`; tests read it with this, so that they need no mdBook. Included files
//! (`{{#include PATH}}`) are part of the page. Not here: what any of it must be.

use crate::repo;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A page.
pub struct Page {
    /// Its path from the root.
    pub name: String,
    /// Its links, with the line that each begins on.
    pub links: Vec<(usize, String)>,
    /// What a link may name after `#`.
    pub anchors: BTreeSet<String>,
    /// Its fenced code.
    pub blocks: Vec<Block>,
}

/// A fenced block of code.
pub struct Block {
    /// The line of its fence.
    pub line: usize,
    /// What the fence says: `vyre,fails`.
    pub info: String,
    /// The code.
    pub text: String,
}

impl Block {
    /// The first word of the fence.
    pub fn language(&self) -> &str {
        self.info.split(',').next().unwrap_or_default()
    }
}

/// The pages under `docs`, without the list of them.
pub fn pages() -> Vec<Page> {
    let pages = repo::files("docs", "md").into_iter().filter(|path| !path.ends_with("SUMMARY.md"));
    pages.map(|path| Page::read(&path)).collect()
}

impl Page {
    /// Reads the page at `path`.
    ///
    /// # Panics
    /// If it, or a file that it includes, cannot be read.
    pub fn read(path: &Path) -> Page {
        Page::parse(&repo::name(path), &with_includes(path))
    }

    fn parse(name: &str, text: &str) -> Page {
        let mut page =
            Page { name: name.to_owned(), links: Vec::new(), anchors: BTreeSet::new(), blocks: Vec::new() };
        let mut repeated: BTreeMap<String, usize> = BTreeMap::new();
        let (mut heading, mut block): (Option<String>, Option<Block>) = (None, None);
        let line =
            |at: usize| text[..at].lines().count() + usize::from(text[..at].ends_with('\n') || at == 0);
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((line(range.start), dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let count = repeated.entry(anchor.clone()).or_default();
                    page.anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
                    *count += 1;
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    block = Some(Block {
                        line: line(range.start),
                        info: info.into_string(),
                        text: String::new(),
                    });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(block) = &mut block {
                        block.text.push_str(&text);
                    } else if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// A page's text with the files that it includes.
fn with_includes(path: &Path) -> String {
    let text = repo::read(path).expect("a page can be read");
    let included = |line: &str| {
        let name = line.trim().strip_prefix("{{#include ")?.strip_suffix("}}")?;
        Some(repo::read(&path.with_file_name(name.trim())).expect("a page includes files that exist"))
    };
    text.lines().map(|line| included(line).unwrap_or_else(|| format!("{line}\n"))).collect()
}

/// What a link names a heading by, on mdBook's pages and elsewhere.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ => c.is_alphanumeric().then_some(c),
    });
    kept.collect::<String>().to_lowercase()
}

/// Where a link of the page `from` leads: a path from the root and an anchor. `None` for one that leaves the repository.
pub fn target(from: &str, link: &str) -> Option<(PathBuf, Option<String>)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let from = Path::new(from);
    let mut to = if path.is_empty() { from.to_path_buf() } else { PathBuf::new() };
    if !path.is_empty() {
        let parts = from.parent().into_iter().flat_map(Path::components).map(|part| part.as_os_str());
        for part in parts.chain(Path::new(path).components().map(|part| part.as_os_str())) {
            if part == ".." {
                to.pop();
            } else if part != "." {
                to.push(part);
            }
        }
    }
    Some((to, anchor.map(str::to_owned)))
}

/// The commands of a shell block, each as its words. Variables in front, comments and redirections are left out.
pub fn commands(block: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    for line in block.replace("\\\n", " ").lines() {
        let mut command = Vec::new();
        let mut words = words(line).into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "|" | "&&" | ";" => commands.push(std::mem::take(&mut command)),
                "<" | ">" => drop(words.next()),
                _ if command.is_empty() && is_assignment(&word) => {}
                _ => command.push(word),
            }
        }
        commands.push(command);
    }
    commands.retain(|command| !command.is_empty());
    commands
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit())
    })
}

/// The words of a line as a shell splits them, up to a comment.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_links_anchors_and_blocks() {
        let text = "# The `vyre` command\n\n| a |\n| --- |\n| [b](c.md#d) |\n\n## Why?\n\n```sh\nvyre run\n```\n\n## Why?\n";
        let page = Page::parse("docs/p.md", text);
        assert_eq!(page.links, [(5, "c.md#d".to_owned())]);
        assert_eq!(
            page.anchors.iter().map(String::as_str).collect::<Vec<_>>(),
            ["the-vyre-command", "why", "why-1"]
        );
        let [block] = &page.blocks[..] else { panic!("{} blocks", page.blocks.len()) };
        assert_eq!((block.line, block.language(), block.text.as_str()), (9, "sh", "vyre run\n"));
    }

    #[test]
    fn links_lead_from_their_page() {
        let lead = |link| target("docs/a.md", link).map(|(path, anchor)| (repo_like(&path), anchor));
        fn repo_like(path: &Path) -> String {
            path.to_string_lossy().replace('\\', "/")
        }
        assert_eq!(lead("b.md#c"), Some(("docs/b.md".into(), Some("c".into()))));
        assert_eq!(lead("#c"), Some(("docs/a.md".into(), Some("c".into()))));
        assert_eq!(lead("../README.md"), Some(("README.md".into(), None)));
        assert_eq!(lead("https://example.com"), None);
    }

    #[test]
    fn commands_are_split_as_by_a_shell() {
        let block = "A=1 vyre run k.vyre --in 'x=[1, 2]' \\\n  --size y=2   # why\n\nvyre fmt - < a > b && vyre check b\n";
        let expected: [&[&str]; 3] = [
            &["vyre", "run", "k.vyre", "--in", "x=[1, 2]", "--size", "y=2"],
            &["vyre", "fmt", "-"],
            &["vyre", "check", "b"],
        ];
        assert_eq!(commands(block), expected);
    }
}
