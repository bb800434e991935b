//! Reads programs from files, folders and standard input, in text or wire form.

use crate::report::{FINDINGS, Failure, Found};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use vyre::Program;
use vyre::limits::SOURCE_BYTES_MAX;
use vyre::text::{self, SourceMap};
use vyre::validate::{ValidProgram, validate};
use vyre::wire;

/// How deep folders are searched.
const FOLDERS_DEEP_MAX: usize = 64;

/// A program with the text that its findings point into: for a wire form, the printed one.
pub(crate) struct Loaded {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) source: String,
    pub(crate) map: SourceMap,
    pub(crate) program: Program,
    pub(crate) is_wire: bool,
}

/// A file's bytes, known to be text or wire form.
pub(crate) enum Contents {
    Text(String),
    Wire(Vec<u8>),
}

/// Whether a path means standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// How a path is shown.
pub(crate) fn shown(path: &Path) -> String {
    if is_stdin(path) { "<stdin>".into() } else { path.display().to_string() }
}

/// The folder from which a program's input files are found.
pub(crate) fn folder(path: &Path) -> PathBuf {
    path.parent().filter(|_| !is_stdin(path)).map(Path::to_path_buf).unwrap_or_default()
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |error: io::Error| {
        let fix = match error.kind() {
            io::ErrorKind::NotFound => "check the file's name",
            io::ErrorKind::IsADirectory => {
                "name a file in it; `vyre check` and `vyre test` also take folders"
            }
            io::ErrorKind::PermissionDenied => "make the file readable",
            _ => "check that the file can be read",
        };
        Failure::io(format!("cannot read {}: {error}", shown(path)), fix)
    };
    let limit = SOURCE_BYTES_MAX as u64;
    let mut bytes = Vec::new();
    if is_stdin(path) {
        io::stdin().lock().take(limit + 1).read_to_end(&mut bytes).map_err(wrong)?;
    } else {
        if std::fs::metadata(path).map_err(wrong)?.is_dir() {
            return Err(wrong(io::ErrorKind::IsADirectory.into()));
        }
        let file = std::fs::File::open(path).map_err(wrong)?;
        file.take(limit + 1).read_to_end(&mut bytes).map_err(wrong)?;
    }
    if bytes.len() as u64 > limit {
        return Err(Failure::io(
            format!("{} has more than the limit of {limit} bytes", shown(path)),
            "split the program into several",
        ));
    }
    Ok(bytes)
}

/// Reads a file and distinguishes text from wire form by its first bytes.
pub(crate) fn contents(path: &Path) -> Result<Contents, Failure> {
    let bytes = read_bytes(path)?;
    if bytes.starts_with(&wire::MAGIC[..1]) {
        return Ok(Contents::Wire(bytes));
    }
    String::from_utf8(bytes).map(Contents::Text).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::io(
            format!("{} is neither a wire form nor text: byte {at} is not UTF-8", shown(path)),
            "save the program as UTF-8 text",
        )
    })
}

/// Reads a program.
pub(crate) fn program(path: &Path) -> Result<Loaded, Failure> {
    let name = shown(path);
    let folder = folder(path);
    match contents(path)? {
        Contents::Text(source) => parse(name, folder, source),
        Contents::Wire(bytes) => {
            // A wire form that cannot be decoded is a finding about the file.
            let program = Program::from_bytes(&bytes).map_err(|error| Failure::Message {
                exit: FINDINGS,
                message: format!("{name}: {}", error.message()),
                fix: error.fix().into(),
            })?;
            let (source, map) = text::print_with_map(&program);
            Ok(Loaded { name, folder, source, map, program, is_wire: true })
        }
    }
}

fn parse(name: String, folder: PathBuf, source: String) -> Result<Loaded, Failure> {
    match text::parse(&source) {
        Ok(parsed) => {
            let (program, map) = (parsed.program, parsed.map);
            Ok(Loaded { name, folder, source, map, program, is_wire: false })
        }
        Err(findings) => {
            let map = SourceMap::default();
            let findings = findings.iter().map(|finding| Found::new(finding, &name, &source, &map)).collect();
            Err(Failure::Findings { file: name, findings })
        }
    }
}

impl Loaded {
    /// Validates the program.
    pub(crate) fn valid(&self) -> Result<ValidProgram, Failure> {
        let _span = tracing::trace_span!("validate", program = self.program.name()).entered();
        validate(&self.program).map_err(|findings| Failure::Findings {
            file: self.name.clone(),
            findings: findings.iter().map(|finding| self.found(finding)).collect(),
        })
    }

    /// A finding with its place in the source.
    pub(crate) fn found(&self, finding: &vyre::diagnostic::Diagnostic) -> Found {
        Found::new(finding, &self.name, &self.source, &self.map)
    }
}

/// A file to read, or a folder and why there is nothing in it.
pub(crate) type Expanded = (PathBuf, Result<(), Failure>);

/// The files that paths name: themselves, or the programs below a folder in order of their names. What is wrong with
/// one path hides no other.
pub(crate) fn expand(paths: &[PathBuf], extensions: &[&str]) -> Vec<Expanded> {
    let mut files = Vec::new();
    for path in paths {
        if is_stdin(path) || !path.is_dir() {
            files.push((path.clone(), Ok(())));
            continue;
        }
        let before = files.len();
        search(path, extensions, 0, &mut files);
        if files.len() == before {
            let none = Failure::usage(
                format!("there is no .{} file below {}", extensions.join(" or ."), path.display()),
                "name a folder that has some, or a file",
            );
            files.push((path.clone(), Err(none)));
        }
    }
    files
}

fn search(folder: &Path, extensions: &[&str], depth: usize, files: &mut Vec<Expanded>) {
    let entries = std::fs::read_dir(folder).and_then(|entries| {
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    });
    let entries = entries.unwrap_or_else(|error| {
        let message = format!("cannot read {}: {error}", folder.display());
        files.push((folder.to_owned(), Err(Failure::io(message, "make the folder readable"))));
        Vec::new()
    });
    for path in entries {
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_dir() && !path.is_symlink() && !hidden && depth < FOLDERS_DEEP_MAX {
            search(&path, extensions, depth + 1, files);
        } else if path.is_file()
            && path.extension().and_then(OsStr::to_str).is_some_and(|e| extensions.contains(&e))
        {
            files.push((path, Ok(())));
        }
    }
}
