//! `keygen`: a key to sign certificates with.

use super::args::Keygen;
use crate::certificate::SecretKey;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use vyre_terminal::{Answer, Failure, exit};

pub(super) fn run(args: &Keygen) -> Result<Answer, Failure> {
    let mut public_path = args.output.clone().into_os_string();
    public_path.push(".pub");
    let public_path = PathBuf::from(public_path);
    let key = SecretKey::generate();
    let public = key.public();
    // The public half first: if writing it fails, there is no private one either.
    create(&public_path, &public.to_pem(), false)?;
    create(&args.output, &key.to_pem(), true).inspect_err(|_| drop(std::fs::remove_file(&public_path)))?;
    let text = format!(
        "  private key  {}  keep it secret\n  public key   {}  give it to those who verify\n  digits       {public}\n",
        args.output.display(),
        public_path.display()
    );
    let json = json!({
        "private_key": args.output.display().to_string(),
        "public_key": public_path.display().to_string(),
        "digits": public.to_string(),
    });
    Ok(Answer { exit: exit::OK, text, json })
}

/// Writes a new file, whole or not at all; a secret one is its owner's alone from the start.
fn create(path: &Path, text: &str, secret: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if secret {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = secret;
    let write = |mut file: std::fs::File| {
        file.write_all(text.as_bytes()).inspect_err(|_| drop(std::fs::remove_file(path)))
    };
    options.open(path).and_then(write).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::usage(
            format!("{} is there already", path.display()),
            "name a new file: keys are never overwritten",
        ),
        _ => Failure::io("write", path, &error, "name a place you may write to"),
    })
}
