//! Certificates by the real binary: made, interrupted, resumed, split, merged, verified, spoilt.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("certify-{test}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the build's own folder can be written");
    folder
}

fn vyre(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vyre"));
    command.args(args).current_dir(folder).stdin(Stdio::null()).output().expect("it runs")
}

/// Runs a command that must end with that code and say those things; what it printed.
fn expect(folder: &Path, args: &[&str], exit: i32, says: &[&str]) -> String {
    let output = vyre(folder, args);
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8")).concat();
    assert_eq!(output.status.code(), Some(exit), "{args:?}:\n{text}");
    for piece in says {
        assert!(text.contains(piece), "{args:?} lacks `{piece}`:\n{text}");
    }
    text
}

/// The least that can be certified.
const LEAST: [&str; 8] =
    ["certify", "--backend", "reference", "--quick", "--level", "ops", "--track", "integer"];
const NONCE: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn certify<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&LEAST[..], more].concat()
}

#[test]
fn a_certificate_is_made_signed_and_verified() {
    let folder = folder("whole");
    expect(&folder, &["keygen", "-o", "key.pem"], 0, &["public key"]);
    expect(&folder, &["keygen", "-o", "other.pem"], 0, &[]);
    expect(&folder, &["keygen", "-o", "key.pem"], 2, &["there already", "Fix:"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.join("key.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "a private key is its owner's alone");
    }
    let args = certify(&["--sign", "key.pem", "-o", "c.json", "--html", "r.html", "--junit", "j.xml"]);
    expect(&folder, &args, 0, &["integer  [ops ok] [laws --]", "certificate written to c.json"]);
    let trusted = ["verify", "c.json", "--trusted-key", "other.pem.pub", "--trusted-key", "key.pem.pub"];
    expect(&folder, &trusted, 0, &["TRUSTED", "integer: ops, float: none", "its signature"]);
    expect(&folder, &["verify", "c.json", "--trusted-key", "other.pem.pub"], 3, &["UNTRUSTED", "Fix:"]);
    expect(&folder, &["verify", "c.json", "--all", "--json"], 3, &["\"trust\": \"untrusted\""]);
    expect(&folder, &certify(&["-o", "unsigned.json"]), 0, &[]);
    expect(&folder, &["verify", "unsigned.json"], 3, &["UNSIGNED"]);
    let replay = ["replay", "c.json", "--case", "op/u32/add:edge"];
    expect(&folder, &replay, 0, &["add.u32", "ok the same on `reference`"]);
    let mut bytes = std::fs::read(folder.join("c.json")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(folder.join("c.json"), bytes).unwrap();
    expect(&folder, &trusted, 1, &["rejected", "Fix:"]);
    expect(&folder, &replay, 1, &["rejected"]);
}

#[test]
fn shards_merge_into_a_certificate() {
    let folder = folder("shards");
    for (shard, journal) in [("1/2", "a.jsonl"), ("2/2", "b.jsonl")] {
        let args = certify(&["--shard", shard, "--nonce", NONCE, "--journal", journal]);
        expect(&folder, &args, 0, &["passed", "--merge"]);
    }
    let some = ["certify", "--level", "ops", "--track", "integer", "--merge", "a.jsonl"];
    expect(&folder, &[&some[..], &["-o", "c.json"]].concat(), 1, &["not complete", "Fix:"]);
    assert!(!folder.join("c.json").exists());
    expect(&folder, &[&some[..], &["--merge", "b.jsonl", "-o", "c.json"]].concat(), 0, &["[ops ok]"]);
    expect(&folder, &["verify", "c.json", "--all"], 3, &["UNSIGNED"]);
    let other = NONCE.replace("00", "01");
    let args = certify(&["--nonce", &other, "--journal", "a.jsonl"]);
    expect(&folder, &args, 2, &["its nonce differs", "Fix:"]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_goes_on_where_it_ended() {
    let folder = folder("interrupted");
    let args = ["certify", "--backend", "reference", "--quick", "--journal", "run.jsonl", "-o", "c.json"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_vyre"))
        .args(args)
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lines = || std::fs::read_to_string(folder.join("run.jsonl")).unwrap_or_default().lines().count();
    let start = Instant::now();
    while lines() < 20 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing passed in a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("there is a `kill`").success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert!(!folder.join("c.json").exists(), "an interrupted run is not certified");
    let kept = lines();
    expect(&folder, &args, 0, &["certificate written"]);
    assert!(lines() > kept, "{kept} lines were kept");
    expect(&folder, &["verify", "c.json"], 3, &["integer: random, float: random", "UNSIGNED"]);
}
