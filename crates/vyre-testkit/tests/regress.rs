//! Replays what fuzzing found: `tests/regress/TARGET/NAME` is an input that once broke that target.
//!
//! The golden wire files and all example and test programs are replayed too, so that the targets themselves are tested.

use std::path::{Path, PathBuf};
use vyre_testkit::fuzz::TARGETS;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below a directory; none if there is no such directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(directory) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for path in entries.map(|entry| entry.expect("a directory's entry").path()) {
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

#[test]
fn what_fuzzing_found_stays_fixed() {
    for (name, target) in TARGETS {
        for path in files(&root().join("tests/regress").join(name)) {
            eprintln!("{name} {}", path.display());
            target(&std::fs::read(&path).expect("the input can be read"));
        }
    }
}

#[test]
fn every_target_has_its_binary() {
    let binaries = files(&root().join("fuzz/targets"));
    let mut names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let stems: Vec<_> = binaries.iter().filter_map(|path| path.file_stem()).collect();
    assert_eq!(stems, names);
}

#[test]
fn every_regression_belongs_to_a_target() {
    for path in files(&root().join("tests/regress")) {
        let known =
            TARGETS.iter().any(|(name, _)| path.parent().is_some_and(|parent| parent.ends_with(name)));
        assert!(known, "{} lies in no target's directory", path.display());
    }
}

#[test]
fn the_targets_hold_on_the_programs_of_this_repository() {
    let inputs = files(&root().join("tests")).into_iter().chain(files(&root().join("examples")));
    let mut count = 0;
    for path in
        inputs.filter(|path| path.extension().is_some_and(|found| found == "vyre" || found == "vyreb"))
    {
        let data = std::fs::read(&path).expect("the input can be read");
        for (name, target) in TARGETS {
            eprintln!("{name} {}", path.display());
            target(&data);
        }
        count += 1;
    }
    assert!(count > 10, "{count} programs found");
}
