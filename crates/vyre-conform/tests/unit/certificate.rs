//! Certificates of a small suite: made, read, changed, verified.

use super::{Certificate, PublicKey, Sample, SecretKey, Trust};
use crate::small::groups;
use crate::{ConformanceSuite, Level, ReferenceBackend, Track};
use serde_json::Value;
use vyre_generate::source::Seeded;

fn suite<'a>() -> ConformanceSuite<'a> {
    ConformanceSuite::quick().catalogue(groups).nonce([7; 32])
}

fn certificate() -> Certificate {
    suite().certify(&ReferenceBackend).expect("the reference conforms")
}

fn read(file: &str) -> Result<Certificate, String> {
    Certificate::from_json(file.as_bytes()).map_err(|error| error.to_string())
}

fn verify(certificate: &Certificate, trusted: &[PublicKey]) -> Result<Trust, String> {
    let verified = certificate.verify_with(groups, trusted, Sample::All);
    verified.map(|verified| verified.trust).map_err(|error| error.to_string())
}

#[test]
fn a_certificate_survives_its_file_and_is_trusted_by_its_key() {
    let (key, other) = (SecretKey::generate(), SecretKey::generate().public());
    let unsigned = certificate();
    assert_eq!(verify(&unsigned, &[]), Ok(Trust::Unsigned));
    let signed = unsigned.sign(&key);
    let again = read(&signed.to_json()).unwrap();
    assert_eq!(again, signed);
    assert_eq!(again.signer(), Some(key.public()));
    assert_eq!(verify(&again, &[other, key.public()]), Ok(Trust::Trusted));
    assert_eq!(verify(&again, &[other]), Ok(Trust::Untrusted));
    let verified = again.verify_with(groups, &[], Sample::Random(5)).unwrap();
    assert_eq!((verified.groups, verified.recomputed, verified.procedures), (30, 5, 0));
}

#[test]
fn it_claims_what_was_asked_for_and_no_more() {
    let levels = |certificate: &Certificate| Track::ALL.map(|track| certificate.level(track));
    assert_eq!(levels(&certificate()), [Some(Level::Math); 2]);
    let part = suite().up_to(Level::Laws).only(Track::Integer).certify(&ReferenceBackend).unwrap();
    assert_eq!(levels(&part), [Some(Level::Laws), None]);
    assert_eq!(part.predicate().groups.len(), 6);
    assert_eq!(verify(&part, &[]), Ok(Trust::Unsigned));
}

#[test]
fn a_part_of_a_run_gives_no_certificate() {
    let cancelled = vyre_driver::CancelToken::new();
    cancelled.cancel();
    for part in [
        suite().matching("ops"),
        suite().matching("ops/integer/0"),
        suite().shard(0, 2),
        suite().cancelled_by(cancelled),
    ] {
        let failures = part.certify(&ReferenceBackend).unwrap_err();
        assert_eq!(failures[0].cause, crate::Cause::Incomplete, "{}", failures[0]);
    }
}

/// The statement of a certificate's file, changed, in a file that is signed by `key` if there is one.
fn altered(
    certificate: &Certificate,
    key: Option<&SecretKey>,
    change: impl Fn(&mut Value),
) -> Result<Trust, String> {
    let mut statement = serde_json::to_value(&certificate.statement).unwrap();
    change(&mut statement);
    let mut changed = Certificate {
        statement: serde_json::from_value(statement).map_err(|error| error.to_string())?,
        signature: None,
    };
    if let Some(key) = key {
        changed = changed.sign(key);
    }
    let file = changed.to_json();
    verify(&read(&file)?, &[])
}

#[test]
fn a_liar_with_a_key_is_still_found_out() {
    let key = SecretKey::generate();
    let certificate = certificate();
    type Change = fn(&mut Value);
    let lies: &[(&str, Change)] = &[
        ("invalid value", |s| s["predicate"]["durationMs"] = (-1).into()),
        ("invalid type", |s| s["predicate"]["durationMs"] = 1e300.into()),
        ("counts are not the sums", |s| s["predicate"]["counts"]["cases"] = 1_000_000.into()),
        ("counts are not the sums", |s| s["predicate"]["groups"][0]["cases"] = u64::MAX.into()),
        ("transcript is not the root", |s| s["predicate"]["groups"][0]["root"] = "00".repeat(32).into()),
        ("suite digest is not that", |s| s["predicate"]["suite"]["digest"] = "00".repeat(32).into()),
        ("groups are not those of this suite", |s| s["predicate"]["levels"]["float"] = "laws".into()),
        ("subject is not its backend", |s| s["predicate"]["target"]["device"] = "another".into()),
        ("subject is not its backend", |s| s["subject"][0]["name"] = "another".into()),
        ("not an in-toto statement", |s| s["_type"] = "another".into()),
        ("of another kind", |s| s["predicateType"] = "another".into()),
        ("start is no time", |s| s["predicate"]["started"] = "today".into()),
        ("start is no time", |s| s["predicate"]["started"] = "2025-13-01T00:00:00Z".into()),
        ("not sorted", |s| s["predicate"]["groups"].as_array_mut().unwrap().swap(0, 1)),
        ("version 9.9.9", |s| s["predicate"]["tool"]["version"] = "9.9.9".into()),
    ];
    for (says, change) in lies {
        for key in [None, Some(&key)] {
            let found = altered(&certificate, key, change).unwrap_err();
            let expected =
                if says.starts_with("groups are not") { "no level it claims asks for" } else { says };
            // What has no place in a statement is refused before there is one.
            let fixed = found.contains("Fix: ") || says.starts_with("invalid");
            assert!(found.contains(expected) && fixed, "{says}: {found}");
        }
    }
    assert_eq!(altered(&certificate, Some(&key), |_| {}), Ok(Trust::Untrusted));
}

/// A statement that is consistent with itself, made from a changed report.
fn forged(change: impl Fn(&mut crate::Report)) -> Result<Trust, String> {
    let mut report = suite().report(&ReferenceBackend);
    change(&mut report);
    let certificate = report.certificate().map_err(|failures| failures[0].to_string())?;
    verify(&read(&certificate.to_json())?, &[])
}

#[test]
fn consistent_forgeries_differ_from_the_suite_or_the_reference() {
    assert_eq!(forged(|_| {}), Ok(Trust::Unsigned));
    let root = |report: &mut crate::Report| report.groups[3].root.0[0] ^= 1;
    assert!(forged(root).unwrap_err().contains("other output bytes"));
    let content = |report: &mut crate::Report| report.groups[3].content.0[0] ^= 1;
    assert!(forged(content).unwrap_err().contains("other programs or inputs"));
    let cases = |report: &mut crate::Report| report.groups[3].cases += 1;
    assert!(forged(cases).unwrap_err().contains("other counts"));
    let low = |report: &mut crate::Report| report.profile.invocations_max = 64;
    assert!(forged(low).unwrap_err().contains("below the suite's floor"));
    // Another nonce, name, limit or feature would have had other random programs.
    let seeds: [fn(&mut crate::Report); 9] = [
        |report| report.nonce[0] ^= 1,
        |report| report.backend.push('x'),
        |report| report.profile.version.push('x'),
        |report| report.profile.device.push('x'),
        |report| report.profile.driver.push('x'),
        |report| report.profile.workgroup_bytes_max += 4,
        |report| report.profile.buffer_bytes_max += 4,
        |report| report.profile.workgroups_max += 1,
        |report| report.profile.features.clear(),
    ];
    for change in seeds {
        assert!(forged(change).unwrap_err().contains("other programs or inputs"));
    }
    let gone = |report: &mut crate::Report| drop(report.groups.remove(3));
    assert!(forged(gone).unwrap_err().contains("not complete"));
    let unplanned = |report: &mut crate::Report| {
        report.groups.remove(3);
        report.planned.retain(|(name, _, _)| report.groups.iter().any(|group| group.name == *name));
    };
    assert!(forged(unplanned).unwrap_err().contains("groups are not those of this suite"));
}

#[test]
fn the_root_of_a_procedure_is_no_free_choice() {
    let mut report = suite().run_driver(&vyre_driver_reference::ReferenceBackend::default());
    let checked = |report: &crate::Report| {
        let certificate = report.certificate().expect("the reference conforms");
        certificate.verify_with(groups, &[], Sample::Random(0)).map(|verified| verified.procedures)
    };
    assert_eq!(checked(&report), Ok(1));
    report.groups.iter_mut().find(|group| group.name == "driver/small").expect("it ran").root.0[0] ^= 1;
    assert!(checked(&report).unwrap_err().message.contains("other output bytes"));
}

/// The file with one bit of it changed.
fn flipped(file: &[u8], bit: usize) -> Vec<u8> {
    let mut changed = file.to_vec();
    changed[bit / 8] ^= 1 << (bit % 8);
    changed
}

#[test]
fn ten_thousand_changed_bits_are_all_rejected() {
    let file = certificate().sign(&SecretKey::generate()).to_json().into_bytes();
    assert!(Certificate::from_json(&file).is_ok());
    let mut random = Seeded::new(1);
    for _ in 0..10_000 {
        let bit = (random.next_u64() % (file.len() as u64 * 8)) as usize;
        let error = Certificate::from_json(&flipped(&file, bit)).expect_err("a changed certificate");
        assert!(!error.fix.is_empty() && !error.message.is_empty(), "bit {bit}");
    }
}

#[test]
fn an_unsigned_certificate_still_shows_every_change_but_that_of_its_times() {
    let certificate = certificate();
    let file = certificate.to_json().into_bytes();
    let mut random = Seeded::new(2);
    for _ in 0..2000 {
        let bit = (random.next_u64() % (file.len() as u64 * 8)) as usize;
        let Ok(changed) = Certificate::from_json(&flipped(&file, bit)) else { continue };
        if verify(&changed, &[]).is_err() {
            continue;
        }
        assert_eq!(
            changed.without_times(),
            certificate.clone().without_times(),
            "bit {bit} changes more than a time"
        );
    }
}

#[test]
fn bad_files_are_refused_with_a_reason() {
    let file = certificate().sign(&SecretKey::generate()).to_json();
    let spaced = file.replace("\",\"", "\", \"");
    let deep = "[".repeat(100_000);
    let payload_deep = format!(
        "{{\"payloadType\":\"application/vnd.in-toto+json\",\"payload\":\"{}\",\"signatures\":[]}}\n",
        "W1tb".repeat(50_000)
    );
    let twice = file.replacen("{\"keyid\"", "{\"keyid\":\"\"},{\"keyid\"", 1);
    let huge = " ".repeat(9 << 20);
    let nan = file.replacen("\"payload\":\"", "\"payload\":NaN,\"payload\":\"", 1);
    let doubled = file.replacen("{\"payloadType\"", "{\"payload\":\"\",\"payloadType\"", 1);
    for (text, says) in [
        (nan.as_str(), "envelope"),
        (doubled.as_str(), "duplicate field"),
        ("", "envelope"),
        ("{}", "envelope"),
        ("null", "envelope"),
        (deep.as_str(), "envelope"),
        (payload_deep.as_str(), "statement"),
        (twice.as_str(), "envelope"),
        (huge.as_str(), "more than any certificate"),
        (spaced.as_str(), "canonical"),
        (file.trim_end(), "canonical"),
        (&file.replace("vnd.in-toto", "vnd.other"), "another type"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(says) && error.contains("Fix: "), "{says}: {error}");
    }
}
