//! Files that commands write: whole or not at all, and never over what is not a file.

use std::path::{Path, PathBuf};
use vyre_terminal::Failure;

/// The file that a path names, resolved as far as the file system can.
pub(super) fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(named).unwrap_or_else(|| path.to_owned())
}

/// Whether a path is a file, or nothing yet. A pipe, a device or a link is written to as it is.
pub(super) fn is_plain(path: &Path) -> bool {
    std::fs::symlink_metadata(path).map_or(true, |found| found.is_file())
}

/// Where a file is written before it has its name.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

/// Tries whether a file could be written there.
pub(super) fn check_writable(path: &Path) -> Result<(), Failure> {
    let tried = match (path.is_dir(), is_plain(path)) {
        (true, _) => Err(std::io::ErrorKind::IsADirectory.into()),
        (false, true) => {
            std::fs::write(unfinished(path), "").and_then(|()| std::fs::remove_file(unfinished(path)))
        }
        (false, false) => Ok(()),
    };
    tried.map_err(|error| refused(path, &error))
}

/// Writes a file, whole or not at all.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let written = match is_plain(path) {
        true => {
            let unfinished = unfinished(path);
            let moved = std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, path));
            moved.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))
        }
        false => std::fs::write(path, text),
    };
    written.map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io("write", path, error, "name a place you may write to")
}
