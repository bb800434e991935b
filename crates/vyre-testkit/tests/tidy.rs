//! What the tree must look like: nothing without its test, its page or its explanation.
//!
//! Each check lists everything that is wrong, not the first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use vyre::spec::{Expect, directives};
use vyre_foundation::diagnostic::Rule;
use vyre_foundation::ir::{DataType, OpId, walk};
use vyre_foundation::text;
use vyre_foundation::validate::explain;
use vyre_foundation::{text as parser, validate as validator};
use vyre_testkit::math_page::math_page;
use vyre_testkit::ops_page::ops_page;
use vyre_testkit::{repo, words};

/// Fails with all `complaints` and one fix.
fn none(complaints: Vec<String>, fix: &str) {
    assert!(complaints.is_empty(), "{}\n  Fix: {fix}", complaints.join("\n"));
}

fn read(path: &Path) -> String {
    repo::read(path).expect("listed files can be read")
}

/// The ops that a file uses, with their suffixes.
fn used_ops(source: &str) -> BTreeMap<OpId, BTreeSet<Option<DataType>>> {
    let mut used: BTreeMap<OpId, BTreeSet<Option<DataType>>> = BTreeMap::new();
    let Ok(parsed) = text::parse(source) else { return used };
    let parts = parsed.program.parts();
    for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
        walk(&body.block, |_, _, node| {
            used.entry(node.op()).or_default().insert(node.suffix());
        });
    }
    used
}

#[test]
fn every_op_has_a_file_with_each_of_its_types() {
    let mut complaints = Vec::new();
    for op in OpId::all() {
        let path = repo::root().join(format!("tests/ops/{op}.vyre"));
        let files: Vec<PathBuf> =
            repo::files(&format!("tests/ops/{op}"), "vyre").into_iter().chain([path]).collect();
        let mut types = BTreeSet::new();
        let mut runs = false;
        for source in files.iter().filter_map(|path| repo::read(path).ok()) {
            let found = directives(&source).0;
            runs |= found.runs.iter().any(|run| run.expect != Expect::Success);
            types.extend(used_ops(&source).remove(&op).unwrap_or_default());
        }
        if types.is_empty() {
            complaints.push(format!("tests/ops/{op}.vyre: no line has `{op}`"));
            continue;
        }
        if !runs {
            complaints.push(format!("tests/ops/{op}.vyre: no run says what it gives"));
        }
        let missing: Vec<&str> =
            op.info().types.iter().filter(|ty| !types.contains(&Some(*ty))).map(DataType::name).collect();
        if !missing.is_empty() {
            complaints.push(format!("tests/ops/{op}.vyre: nothing for {}", missing.join(", ")));
        }
    }
    none(
        complaints,
        "write the file: a program with the op, and a `//@ run ... => ...` line with its results",
    );
}

/// The rules of parser and validator.
/// Files that name every op of a group: what the ops mean, and the emitters. Everything else asks the table.
const NAME_ALL: [(&str, &[&str]); 3] = [
    (
        "ComputeOp",
        &[
            "crates/vyre-driver-cpu/src/vector/lower/compute.rs",
            "crates/vyre-lower/src/ptx/compute.rs",
            "crates/vyre-lower/src/soften/body.rs",
            "crates/vyre-lower/src/wgsl/compute.rs",
        ],
    ),
    (
        "AtomicOp",
        &[
            "crates/vyre-conform/src/rules/rewrite/sync.rs",
            "crates/vyre-driver-cpu/src/vector/lower/atomic.rs",
            "crates/vyre-foundation/src/ir/op.rs",
            "crates/vyre-lower/src/ptx/memory.rs",
            "crates/vyre-lower/src/spirv/memory.rs",
            "crates/vyre-lower/src/wgsl/module.rs",
            "crates/vyre-reference/src/compile.rs",
        ],
    ),
    ("SubgroupOp", &["crates/vyre-foundation/src/ir/op.rs"]),
];

#[test]
fn a_new_op_is_named_where_contributing_says() {
    let mut complaints = Vec::new();
    for (group, files) in NAME_ALL {
        let ops: Vec<String> = OpId::all()
            .map(|op| format!("{op:?}"))
            .filter_map(|op| Some(op.strip_prefix(group)?.strip_prefix('(')?.strip_suffix(')')?.to_string()))
            .map(|op| format!("{group}::{op}"))
            .collect();
        assert!(ops.len() > 8, "the table has a group {group}");
        for path in rust_files().iter().filter(|path| repo::name(path).contains("/src/")) {
            let (name, source) = (repo::name(path), read(path));
            if !files.contains(&name.as_str()) && ops.iter().all(|op| source.contains(op.as_str())) {
                complaints.push(format!("{name}: names every {group}"));
            }
        }
    }
    none(
        complaints,
        "ask the op table, or list the file here and in CONTRIBUTING.md; `scripts/toy-op` adds an op",
    );
}

#[test]
fn few_matches_name_every_line() {
    let script = repo::root().join("scripts/matches");
    let Ok(ran) = Command::new("python3").arg(script).args(["--max", "14"]).output() else {
        eprintln!("SKIP matches over lines: there is no python3");
        return;
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("matches name all 25 variants of Node"), "{said}");
}

fn rules() -> impl Iterator<Item = &'static Rule> {
    parser::RULES.iter().chain(validator::RULES.iter())
}

#[test]
fn every_rule_has_a_file_that_breaks_it() {
    let mut broken = BTreeSet::new();
    for path in repo::files("tests", "vyre") {
        for annotation in read(&path).lines().filter_map(|line| line.split_once("//~")) {
            for piece in annotation.1.split("error[").skip(1) {
                broken.insert(piece.split(']').next().unwrap_or_default().to_string());
            }
        }
    }
    let codes: BTreeSet<String> = rules().map(|rule| rule.code.to_string()).collect();
    let untested =
        codes.difference(&broken).map(|code| format!("{code}: no file under tests/ has `//~ error[{code}]`"));
    let unknown =
        broken.difference(&codes).map(|code| format!("{code}: a file expects it, and no rule has that code"));
    none(untested.chain(unknown).collect(), "add a file to tests/validate or tests/parse, or a rule");
}

#[test]
fn every_rule_is_explained() {
    let mut complaints = Vec::new();
    for rule in rules() {
        let found = explain(rule.code).is_some_and(|found| found.code == rule.code);
        let complete = ![rule.title, rule.text, rule.wrong, rule.right].contains(&"");
        if !found || !complete {
            complaints.push(format!("{}: not found by `explain`, or not complete", rule.code));
        }
    }
    none(complaints, "complete the rule");
}

#[test]
fn program_files_are_formatted() {
    let mut complaints = Vec::new();
    for path in repo::files("", "vyre") {
        let name = repo::name(&path);
        // Files about parsing are written as badly as they must be.
        if name.starts_with("tests/parse/") || name.starts_with("fuzz/") {
            continue;
        }
        let source = read(&path);
        match text::format(&source) {
            Err(_) => complaints.push(format!("{name}: does not parse; such files belong in tests/parse")),
            Ok(formatted) if formatted != source => {
                if repo::updates() {
                    std::fs::write(&path, formatted).expect("the tree can be written");
                } else {
                    complaints.push(format!("{name}: not in canonical layout"));
                }
            }
            Ok(_) => {}
        }
    }
    none(complaints, "run `vyre fmt` on them, or this test with UPDATE_EXPECT=1");
}

/// The Rust files that people write.
fn rust_files() -> Vec<PathBuf> {
    repo::files("crates", "rs").into_iter().chain(repo::files("fuzz", "rs")).collect()
}

#[test]
fn rust_files_are_short_and_say_what_they_are_for() {
    let mut complaints = Vec::new();
    for path in rust_files() {
        let (name, source) = (repo::name(&path), read(&path));
        let lines = source.lines().count();
        if lines > 1000 {
            complaints.push(format!("{name}: {lines} lines"));
        }
        if !source.starts_with("//!") && !source.starts_with("#![no_main]") {
            complaints.push(format!("{name}: does not open with `//!`"));
        }
    }
    none(
        complaints,
        "split a file over 1000 lines; open a module with what it is for and what it leaves out",
    );
}

#[test]
fn nothing_is_left_for_later() {
    // Written in two halves, so that this file does not find itself.
    let words = [concat!("to", "do!("), concat!("un", "implemented!("), concat!("#[", "ignore")];
    let mut complaints = Vec::new();
    for path in rust_files() {
        for (at, line) in read(&path).lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                complaints.push(format!("{}:{}: {}", repo::name(&path), at + 1, line.trim()));
            }
        }
    }
    none(complaints, "finish it, or take it out");
}

/// Folders that the code map must name: every crate, and every folder of modules directly in its `src`.
fn mapped_folders() -> BTreeSet<String> {
    let folders = |dir: PathBuf| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut mapped = BTreeSet::new();
    for member in folders(repo::root().join("crates")) {
        mapped.insert(repo::name(&member));
        mapped.extend(folders(member.join("src")).iter().map(|path| repo::name(path)));
    }
    mapped
}

#[test]
fn the_code_map_is_the_tree() {
    let page = read(&repo::root().join("ARCHITECTURE.md"));
    let mut named = BTreeSet::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        named.extend(row.split('`').next().map(|path| path.trim_end_matches('/').to_string()));
    }
    let gone = named.iter().filter(|path| !repo::root().join(path).exists());
    let gone = gone.map(|path| format!("ARCHITECTURE.md names `{path}`, which does not exist"));
    let folders = mapped_folders();
    let missing = folders.difference(&named).map(|path| format!("ARCHITECTURE.md does not name `{path}`"));
    none(gone.chain(missing).collect(), "correct the table under `Code map`");
}

/// The files of every driver crate, in the order in which work passes them.
const DRIVER_FILES: [&str; 5] = ["lib.rs", "device.rs", "compile.rs", "memory.rs", "launch.rs"];

/// What a driver has beside them, and why.
const SPECIAL_FILES: [(&str, &[(&str, &str)]); 4] = [
    ("vyre-driver-reference", &[]),
    (
        "vyre-driver-cpu",
        &[
            ("executable.rs", "pages with machine code"),
            ("listing.rs", "machine code as text"),
            ("pool.rs", "the threads that run workgroups"),
            ("portable", "the emitter on Cranelift"),
            ("runtime.rs", "functions that machine code calls"),
            ("vector", "the form between programs and machine code"),
            ("watch.rs", "the thread that stops launches"),
            ("x86", "the emitter for AVX2 and AVX-512"),
        ],
    ),
    (
        "vyre-driver-cuda",
        &[
            ("stream.rs", "CUDA streams and events, and the words of a launch"),
            ("transfer.rs", "large copies through pinned memory"),
        ],
    ),
    (
        "vyre-driver-wgpu",
        &[
            ("adapter.rs", "the devices of the machine, and which one is chosen"),
            ("battery.rs", "programs that try a driver's compiler"),
            ("order.rs", "programs that try the order of loads and stores"),
            ("probe.rs", "what the driver's compiler can be trusted with"),
        ],
    ),
];

#[test]
fn drivers_have_the_same_files() {
    let mut complaints = Vec::new();
    let entries = std::fs::read_dir(repo::root().join("crates")).expect("the tree can be read");
    let mut drivers: Vec<String> =
        entries.map(|entry| entry.expect("it is there").file_name().to_string_lossy().into_owned()).collect();
    drivers.retain(|name| name.starts_with("vyre-driver-"));
    for driver in drivers {
        let Some((_, special)) = SPECIAL_FILES.iter().find(|(name, _)| *name == driver) else {
            complaints.push(format!("{driver} is a driver that this list lacks"));
            continue;
        };
        let source = repo::root().join("crates").join(&driver).join("src");
        let entries = std::fs::read_dir(source).expect("a crate has a source folder");
        let found: BTreeSet<String> = entries
            .map(|entry| entry.expect("it is there").file_name().to_string_lossy().into_owned())
            .collect();
        let special = special.iter().map(|(name, _)| (*name).to_owned());
        let expected: BTreeSet<String> = DRIVER_FILES.map(str::to_owned).into_iter().chain(special).collect();
        complaints.extend(expected.difference(&found).map(|name| format!("{driver}: no {name}")));
        complaints.extend(found.difference(&expected).map(|name| format!("{driver}: {name} is not listed")));
    }
    none(complaints, "give every driver the same files, and list with a reason what only one has");
}

/// The packages that a user of the facade builds with these features.
fn packages(features: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let tree = ["tree", "-p", "vyre", "-e", "normal", "--prefix", "none", "--format", "{p}", "--offline"];
    let output = std::process::Command::new(cargo)
        .args(tree)
        .args(["--no-default-features", "--features", features])
        .current_dir(repo::root())
        .output()
        .expect("cargo runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("names are text");
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn a_feature_of_the_facade_brings_its_own_packages_alone() {
    let owned = [
        ("cpu", "cranelift-codegen"),
        ("cpu", "iced-x86"),
        ("cpu", "regalloc2"),
        ("cuda", "cudarc"),
        ("wgpu", "wgpu"),
        ("wgpu", "naga"),
        ("conform", "vyre-conform"),
        ("conform", "rayon"),
    ];
    for feature in ["", "cpu", "cuda", "wgpu", "conform"] {
        let found = packages(feature);
        for (owner, package) in owned {
            assert_eq!(found.contains(package), owner == feature, "`{package}` with `{feature}` alone");
        }
    }
}

/// The page on conformance with the table of causes between its two marks.
fn conformance_page(page: &str) -> Option<String> {
    let start = page.find("<!-- Written from the table of causes")?;
    let (head, rest) = page.split_at(start + page[start..].find('\n')? + 1);
    let tail = &rest[rest.find("<!-- end of causes -->")?..];
    let row = |cause: &vyre_conform::Cause| format!("| `{cause}` | {} |\n", cause.fix().replace('|', "\\|"));
    let rows: String = vyre_conform::Cause::ALL.iter().map(row).collect();
    Some(format!("{head}\n| cause | what to do |\n| --- | --- |\n{rows}\n{tail}"))
}

#[test]
fn the_page_on_conformance_has_the_table_of_causes() {
    let path = repo::root().join("docs/conformance.md");
    let page = conformance_page(&read(&path)).expect("the page has the marks of the table");
    if let Err(difference) = repo::expect(&path, &page) {
        panic!("{difference}");
    }
}

#[test]
fn the_page_of_ops_is_the_op_table() {
    if let Err(difference) = repo::expect(&repo::root().join("docs/ops.md"), &ops_page()) {
        panic!("{difference}");
    }
}

#[test]
fn the_page_of_functions_is_their_table() {
    if let Err(difference) = repo::expect(&repo::root().join("docs/math.md"), &math_page()) {
        panic!("{difference}");
    }
}

#[test]
fn pages_name_the_rust_version_that_is_tested() {
    let manifest = read(&repo::root().join("Cargo.toml"));
    let version = manifest_key(&manifest, "rust-version").expect("it is set").trim_matches('"');
    let toolchain = read(&repo::root().join("rust-toolchain.toml"));
    let mut complaints = Vec::new();
    for page in ["README.md", "docs/getting-started.md"] {
        if !read(&repo::root().join(page)).contains(&format!("Rust {version} or newer")) {
            complaints.push(format!("{page}: does not say `Rust {version} or newer`"));
        }
    }
    if !toolchain.contains(&format!("channel = \"{version}.")) {
        complaints.push(format!("rust-toolchain.toml: tests another version than {version}"));
    }
    none(complaints, "name the version of `rust-version` everywhere");
}

/// The files with the options of commands, whose doc comments are help.
const HELP: [&str; 2] = ["crates/vyre-cli/src/args.rs", "crates/vyre-conform/src/command/args.rs"];

#[test]
fn texts_for_people_are_plain_english() {
    let mut complaints = Vec::new();
    let mut check = |name: &str, texts: Vec<words::Text>| {
        for (line, text) in texts {
            if let Some((phrase, instead)) = words::avoided(&text) {
                complaints.push(format!("{name}:{line}: `{phrase}`; write: {instead}"));
            }
        }
    };
    for path in rust_files() {
        let name = repo::name(&path);
        if name.contains("/src/") && name != "crates/vyre-testkit/src/words.rs" {
            check(&name, words::rust_texts(&read(&path), HELP.contains(&name.as_str())));
        }
    }
    for path in repo::files("", "md") {
        check(&repo::name(&path), words::page_texts(&read(&path)));
    }
    none(complaints, "write the sentence again in the field's own terms");
}

#[test]
fn files_of_tests_are_outside_src() {
    let files = rust_files().into_iter().map(|path| repo::name(&path));
    let in_src = files.filter(|name| name.contains("/src/") && name.ends_with("tests.rs"));
    none(in_src.collect(), "move it to `tests`, or to `tests/unit` if it tests private items");
}

/// What a crate's manifest says of a key.
fn manifest_key<'m>(manifest: &'m str, key: &str) -> Option<&'m str> {
    manifest.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('=')).map(str::trim)
}

#[test]
fn published_crates_describe_themselves() {
    let mut complaints = Vec::new();
    for path in repo::files("crates", "toml").into_iter().filter(|path| path.ends_with("Cargo.toml")) {
        let (name, manifest) = (repo::name(&path), read(&path));
        if manifest_key(&manifest, "publish") == Some("false") {
            continue;
        }
        for key in ["description", "keywords", "categories", "readme", "license.workspace"] {
            if manifest_key(&manifest, key).is_none() {
                complaints.push(format!("{name}: no `{key}`"));
            }
        }
        let folder = path.parent().expect("a manifest is in a folder");
        let readme = repo::read(&folder.join("README.md")).unwrap_or_default();
        if !readme.contains("```") || !readme.contains("docs/") {
            complaints.push(format!("{name}: its README.md has no example, or no link to the book"));
        }
        let has_library =
            repo::read(&folder.join("src/lib.rs")).is_ok_and(|text| text.contains("cfg(doctest)"));
        if readme.contains("```rust") && !has_library {
            complaints.push(format!("{name}: the example of its README.md is not run"));
        }
    }
    none(complaints, "complete the manifest and the page, or set `publish = false`");
}

/// The variables that are whole string literals in the code that `keep` wants, without unit tests.
fn variables(keep: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let files = rust_files().into_iter().chain(repo::files("examples", "rs"));
    for path in files.filter(|path| keep(&repo::name(path))) {
        let source = read(&path);
        let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        found.extend(code.split('"').skip(1).filter(|text| is_variable(text)).map(str::to_owned));
    }
    found
}

fn is_variable(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    // In two halves, so that this file does not find itself.
    text.strip_prefix(concat!("VY", "RE_")).is_some_and(|rest| !rest.is_empty() && rest.chars().all(is_part))
}

/// The variables in the first column of the tables.
fn listed_variables(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    names.filter(|name| is_variable(name)).map(str::to_owned).collect()
}

#[test]
fn the_page_of_variables_has_each_that_is_read() {
    let page = read(&repo::root().join("docs/environment.md"));
    let (users, tests) = page.split_once("## Variables of the tests").expect("the page has a part for tests");
    let is_production = |name: &str| name.contains("/src/") && !name.starts_with("crates/vyre-testkit/");
    let production = variables(is_production);
    let mut in_tests = variables(|name| !is_production(name));
    // What a test says to a process that it starts itself is nothing to set.
    in_tests.retain(|name| !production.contains(name) && !name.contains("TEST"));
    let mut complaints = Vec::new();
    for (read, listed) in [(production, listed_variables(users)), (in_tests, listed_variables(tests))] {
        complaints.extend(read.difference(&listed).map(|name| format!("{name}: read, and not in its table")));
        complaints
            .extend(listed.difference(&read).map(|name| format!("{name}: in a table, and read by nothing")));
    }
    none(
        complaints,
        "correct the tables of docs/environment.md: users' variables first, then those of tests",
    );
}
