//! `verify`: whether a certificate is right, and who signed it.

use super::args::Verify;
use super::plural;
use crate::batch::Track;
use crate::certificate::{Certificate, Predicate, PublicKey, Sample, Trust, Verified};
use crate::show::line;
use serde_json::{Value, json};
use std::path::Path;
use vyre_terminal::style::{BOLD, DIM, GOOD, WARN, paint};
use vyre_terminal::table::{Align, columns, grouped};
use vyre_terminal::{Answer, Failure, exit};

pub(super) fn run(args: &Verify) -> Result<Answer, Failure> {
    let trusted = args.trusted_key.iter().map(|key| public_key(key)).collect::<Result<Vec<_>, _>>()?;
    let certificate = read(&args.file)?;
    let sample = if args.all { Sample::All } else { Sample::default() };
    let verified = certificate.verify(&trusted, sample).map_err(|error| rejected(&error))?;
    let exit = match verified.trust {
        Trust::Trusted => exit::OK,
        Trust::Untrusted | Trust::Unsigned => exit::RUN,
    };
    let text = format!("{}\n{}", facts(&certificate), checks(&certificate, &verified, args.all));
    Ok(Answer { exit, text, json: as_json(&certificate, &verified) })
}

fn rejected(error: &crate::CertificateError) -> Failure {
    Failure::new(exit::FINDINGS, format!("rejected: {}", error.message), error.fix.clone())
}

/// Reads a certificate's file, and no more of it than a certificate may have.
pub(super) fn read(path: &Path) -> Result<Certificate, Failure> {
    use std::io::Read;
    let wrong = |error| Failure::io("read", path, &error, "check the file's name");
    let file = std::fs::File::open(path).map_err(wrong)?;
    let mut bytes = Vec::new();
    file.take(crate::certificate::FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(wrong)?;
    Certificate::from_json(&bytes).map_err(|error| rejected(&error))
}

/// A key given by its digits or its file.
fn public_key(text: &str) -> Result<PublicKey, Failure> {
    if let Ok(key) = PublicKey::parse(text) {
        return Ok(key);
    }
    let contents = super::read_text(Path::new(text))?;
    PublicKey::parse(&contents)
        .map_err(|error| Failure::usage(format!("{text}: {}", error.message), error.fix))
}

/// The levels of both tracks.
fn levels(certificate: &Certificate) -> String {
    let level = |track| match certificate.level(track) {
        Some(level) => format!("{track}: {}", paint(GOOD, level.name())),
        None => format!("{track}: none"),
    };
    Track::ALL.map(level).join(", ")
}

/// The contents of the certificate.
fn facts(certificate: &Certificate) -> String {
    let Predicate { target, suite, counts, started, duration_ms, nonce, tool, .. } = certificate.predicate();
    let features: Vec<&str> = target.features.iter().map(|feature| feature.name()).collect();
    let profile = target.profile();
    let rows = [
        (
            "backend",
            format!(
                "{} {}, tested as a {}",
                paint(BOLD, &line(&target.id)),
                line(&target.version),
                target.tested_as.name()
            ),
        ),
        ("device", line(&target.device)),
        ("driver", line(&target.driver)),
        ("levels", levels(certificate)),
        (
            "features",
            if features.is_empty() { "none of the optional ones".into() } else { features.join(", ") },
        ),
        (
            "limits",
            format!(
                "{} lanes, {} bytes of workgroup memory, {} bytes of a buffer, {} workgroups along an axis",
                grouped(profile.invocations_max.into()),
                grouped(profile.workgroup_bytes_max.into()),
                grouped(profile.buffer_bytes_max),
                grouped(profile.workgroups_max.into())
            ),
        ),
        (
            "suite",
            format!("{} of version {}, digest {}", suite.size.name(), line(&tool.version), suite.digest),
        ),
        (
            "run",
            format!(
                "{} cases in {} dispatches and {} groups; {started}, {}.{:03} s",
                grouped(counts.cases),
                grouped(counts.dispatches),
                grouped(counts.groups),
                grouped(duration_ms / 1000),
                duration_ms % 1000
            ),
        ),
        ("nonce", nonce.to_string()),
        ("signer", certificate.signer().map_or("none".into(), |key| key.to_string())),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(key, value)| vec![format!("  {key}"), value]).collect();
    columns(&[Align::Left; 2], &rows)
}

/// The checks, and the trust in the signature.
fn checks(certificate: &Certificate, verified: &Verified, all: bool) -> String {
    let ok = paint(GOOD, "ok");
    let Verified { trust, groups, recomputed, procedures } = *verified;
    let mut lines = vec![format!("  {ok}  its form, and that its parts agree with each other")];
    if certificate.signer().is_some() {
        lines.push(format!("  {ok}  its signature"));
    }
    lines.push(format!("  {ok}  programs and inputs of {groups} groups: this suite makes the same"));
    let drawn = if all { String::new() } else { paint(DIM, ", drawn at random; `--all` takes every one") };
    lines.push(format!("  {ok}  outputs of {recomputed} groups: the reference gives the same{drawn}"));
    if procedures > 0 {
        lines.push(format!(
            "  --  answers of {} about the driver contract, which only the driver can give",
            plural(procedures, "group")
        ));
    }
    lines.push(match trust {
        Trust::Trusted => format!("\n  {} the certificate is signed by a key you trust", paint(GOOD, "TRUSTED")),
        Trust::Untrusted => format!(
            "\n  {} the key is not among those you trust\n  Fix: if you know whose key it is, add `--trusted-key {}`",
            paint(WARN, "UNTRUSTED"),
            certificate.signer().map(|key| key.to_string()).unwrap_or_default()
        ),
        Trust::Unsigned => format!(
            "\n  {} the certificate has no signature\n  Fix: ask for one that is signed: `certify --sign KEY -o FILE`",
            paint(WARN, "UNSIGNED")
        ),
    });
    lines.join("\n") + "\n"
}

fn as_json(certificate: &Certificate, verified: &Verified) -> Value {
    let Predicate { target, suite, counts, started, duration_ms, nonce, tool, .. } = certificate.predicate();
    json!({
        "verified": verified.trust == Trust::Trusted,
        "consistent": true,
        "trust": match verified.trust {
            Trust::Trusted => "trusted",
            Trust::Untrusted => "untrusted",
            Trust::Unsigned => "unsigned",
        },
        "backend": target,
        "levels": { "integer": certificate.level(Track::Integer), "float": certificate.level(Track::Float) },
        "suite": suite,
        "tool": tool,
        "counts": counts,
        "nonce": nonce,
        "started": started,
        "duration_ms": duration_ms,
        "signer": certificate.signer().map(|key| key.to_string()),
        "checked": { "groups": verified.groups, "recomputed": verified.recomputed, "procedures": verified.procedures },
    })
}
