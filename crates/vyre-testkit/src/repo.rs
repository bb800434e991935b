//! The files of the repository, for tests that read them.

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.ancestors().nth(2).expect("crates are two folders below the root").to_path_buf()
}

/// Every file below `dir` (a path from the root) with that extension, sorted; none if there is no such folder.
///
/// Build outputs and hidden folders are left out.
pub fn files(dir: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(dir)];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                if name != "target" && !name.to_string_lossy().starts_with('.') {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A path from the root, with `/` between its parts.
pub fn name(path: &Path) -> String {
    let relative = path.strip_prefix(root()).unwrap_or(path);
    relative.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// The text of a file; an error names it.
pub fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", name(path)))
}

/// Whether `UPDATE_EXPECT=1` asks for expectations to be written instead of compared.
pub fn updates() -> bool {
    std::env::var("UPDATE_EXPECT").is_ok_and(|value| value != "0")
}

/// Compares `actual` with the file, or writes it there if expectations are to be refreshed.
pub fn expect(path: &Path, actual: &str) -> Result<(), String> {
    if updates() {
        return std::fs::write(path, actual).map_err(|error| format!("{}: {error}", name(path)));
    }
    let expected = read(path).unwrap_or_default();
    if expected == actual {
        return Ok(());
    }
    let at = first_difference(&expected, actual);
    let near = |text: &str| text.lines().skip(at.saturating_sub(4)).take(12).collect::<Vec<_>>().join("\n");
    let (expected, actual) = (near(&expected), near(actual));
    Err(format!(
        "{} differs, first at line {at}\n--- expected\n{expected}\n--- actual\n{actual}\nFix: read the difference; if it is meant, run again with UPDATE_EXPECT=1",
        name(path),
    ))
}

fn first_difference(expected: &str, actual: &str) -> usize {
    let same = expected.lines().zip(actual.lines()).take_while(|(a, b)| a == b).count();
    same + 1
}
