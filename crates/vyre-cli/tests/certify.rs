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
    let json = ["verify", "c.json", "--all", "--json"];
    expect(&folder, &json, 3, &["\"trust\": \"untrusted\"", "\"verified\": false"]);
    expect(&folder, &[&trusted[..], &["--json"]].concat(), 0, &["\"verified\": true"]);
    expect(&folder, &certify(&["-o", "unsigned.json"]), 0, &[]);
    expect(&folder, &["verify", "unsigned.json"], 3, &["UNSIGNED"]);
    expect(&folder, &["verify", "unsigned.json", "--json"], 3, &["\"unsigned\"", "\"verified\": false"]);
    let replay = ["replay", "c.json", "--case", "op/u32/add:edge"];
    let says = ["add.u32", "ok the same on `reference`", "ok as the certificate says of `op/u32/add`"];
    expect(&folder, &replay, 0, &says);
    for case in ["", "#1", "#banana", "op/u32/add:edge#banana"] {
        expect(&folder, &["replay", "c.json", "--case", case], 2, &["not a case's name", "Fix:"]);
    }
    expect(&folder, &["replay", "c.json", "--case", "op/u32/add#0"], 2, &["no case", "Fix:"]);
    let mut bytes = std::fs::read(folder.join("c.json")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(folder.join("c.json"), bytes).unwrap();
    expect(&folder, &trusted, 1, &["rejected", "Fix:"]);
    expect(&folder, &replay, 1, &["rejected"]);
}

#[test]
fn the_processor_is_certified_at_every_level() {
    let folder = folder("cpu");
    expect(&folder, &["keygen", "-o", "key.pem"], 0, &[]);
    let args = ["certify", "--backend", "cpu", "--quick", "--sign", "key.pem", "-o", "c.json"];
    expect(&folder, &args, 0, &["certificate written to c.json"]);
    let trusted = ["verify", "c.json", "--trusted-key", "key.pem.pub"];
    expect(&folder, &trusted, 0, &["TRUSTED", "integer: random, float: math"]);
}

#[test]
fn shards_merge_into_a_certificate() {
    let folder = folder("shards");
    for (shard, journal) in [("1/2", "a.jsonl"), ("2/2", "b.jsonl")] {
        let args = certify(&["--shard", shard, "--nonce", NONCE, "--journal", journal]);
        expect(&folder, &args, 0, &["passed", "--merge"]);
    }
    let some = ["certify", "--level", "ops", "--track", "integer", "--merge", "a.jsonl"];
    std::fs::write(folder.join("c.json"), "of an earlier run").unwrap();
    expect(&folder, &[&some[..], &["-o", "c.json"]].concat(), 1, &["not complete", "Fix:"]);
    expect(&folder, &some, 1, &["not complete", "Fix:"]);
    assert!(!folder.join("c.json").exists());
    expect(&folder, &[&some[..], &["--merge", "b.jsonl", "-o", "c.json"]].concat(), 0, &["[ops ok]"]);
    expect(&folder, &["verify", "c.json", "--all"], 3, &["UNSIGNED"]);
    spoilt_journals(&folder);
    let other = NONCE.replace("00", "01");
    let args = certify(&["--nonce", &other, "--journal", "a.jsonl"]);
    expect(&folder, &args, 2, &["its nonce differs", "Fix:"]);
}

/// What two whole journals say with one of them changed is not certified.
fn spoilt_journals(folder: &Path) {
    let good = std::fs::read_to_string(folder.join("a.jsonl")).unwrap();
    let line = good.lines().nth(1).expect("a group passed");
    let root = &line[line.find("\"root\":\"").expect("it has a root") + 8..][..64];
    let group = &line[line.find("op/").expect("it has a name")..][..6];
    let tool = concat!("\"version\":\"", env!("CARGO_PKG_VERSION"), "\"},\"target\"");
    for (from, to, exit, says) in [
        (root, NONCE, 1, "other output bytes"),
        (group, "op/xyz", 1, "not complete"),
        ("\"dispatches\":", "\"dispatches\":1", 1, "other counts"),
        ("\"cases\":", "\"cases\":99999999999999", 2, "no group has so many cases"),
        (tool, "\"version\":\"9.9.9\"},\"target\"", 2, "their version of the suite differs"),
    ] {
        assert!(good.contains(from), "{from}");
        std::fs::write(folder.join("bad.jsonl"), good.replacen(from, to, 1)).unwrap();
        let merge = ["certify", "--level", "ops", "--track", "integer", "-o", "bad.json"];
        let journals = ["--merge", "b.jsonl", "--merge", "bad.jsonl"];
        expect(folder, &[&merge[..], &journals].concat(), exit, &[says, "Fix:"]);
        assert!(!folder.join("bad.json").exists(), "{says}");
    }
    // A run that goes on with it is no better.
    std::fs::write(folder.join("bad.jsonl"), good.replacen(root, NONCE, 1)).unwrap();
    let args = certify(&["--nonce", NONCE, "--journal", "bad.jsonl", "-o", "bad.json"]);
    expect(folder, &args, 1, &["other output bytes", "Fix:"]);
    assert!(!folder.join("bad.json").exists());
}

#[test]
fn what_cannot_be_run_or_written_is_said_before_anything_runs() {
    let folder = folder("refused");
    expect(&folder, &["keygen", "-o", "key.pem"], 0, &[]);
    std::fs::write(folder.join("j.jsonl"), "").unwrap();
    let rows: &[(&[&str], i32, &str)] = &[
        (&["--sign", "key.pem", "-o", "key.pem"], 2, "named twice"),
        (&["--sign", "key.pem", "-o", "./key.pem"], 2, "named twice"),
        (&["--journal", "j.jsonl", "-o", "j.jsonl"], 2, "named twice"),
        (&["-o", "c.json", "--html", "c.json"], 2, "named twice"),
        (&["--html", "r", "--junit", "./r"], 2, "named twice"),
        (&["-o", "."], 4, "cannot write ."),
        (&["-o", "missing/c.json"], 4, "cannot write missing/c.json"),
        (&["--html", "/proc/none/r.html"], 4, "cannot write /proc/none/r.html"),
        (&["--sign", "/dev/zero", "-o", "c.json"], 2, "no PEM file"),
        (&["--journal", "/dev/null"], 2, "it is not a file"),
        (&["--journal", "/dev/full", "-o", "c.json"], 2, "it is not a file"),
        (&["--case", ""], 2, "not a case's name"),
        (&["--case", "op/u32/add#banana"], 2, "not a case's name"),
        (&["--case", "op/u32/add:edge#0"], 2, "no case of this suite"),
        (&["--case", "nothing"], 2, "no case of this suite"),
        (&["--case", "random/integer/1"], 2, "is of level random on the integer track"),
        (&["--case", "op/f32/div"], 2, "is of level ops on the float track"),
        (&["--levle", "ops"], 2, "a similar argument exists: '--level'"),
        (&["--track", "all"], 2, "cannot be used multiple times"),
        (&["--shard", "1/2"], 2, "Fix: write `vyre certify --nonce <HEX> --journal <FILE>"),
    ];
    for (args, exit, says) in rows {
        expect(&folder, &certify(args), *exit, &[says, "Fix:"]);
    }
    let all = ["certify", "--backend", "reference", "--level", "all"];
    expect(&folder, &all, 2, &["Fix: write one of: ops, laws, programs, random"]);
    let merge = ["certify", "--merge", "j.jsonl", "-o", "j.jsonl"];
    expect(&folder, &merge, 2, &["named twice", "Fix:"]);
    expect(&folder, &["certify", "--merge", "/dev/zero"], 2, &["more than any journal", "Fix:"]);
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(std::fs::read_to_string(folder.join("key.pem")).unwrap().contains("PRIVATE KEY"));
}

#[cfg(unix)]
#[test]
fn half_a_key_is_not_left_behind() {
    let folder = folder("keys");
    for (link, left) in [("a.pem.pub", "a.pem"), ("b.pem", "b.pem.pub")] {
        std::os::unix::fs::symlink("nowhere", folder.join(link)).unwrap();
        expect(&folder, &["keygen", "-o", &link[..5]], 2, &["there already", "Fix:"]);
        assert!(!folder.join(left).exists(), "{left}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_written_to_and_not_replaced() {
    let folder = folder("devices");
    std::os::unix::fs::symlink("/dev/full", folder.join("full")).unwrap();
    expect(&folder, &certify(&["-o", "full"]), 4, &["cannot write full", "Fix:"]);
    assert!(folder.join("full").is_symlink());
    let says = ["\"payloadType\"", "certificate written to /dev/stdout"];
    expect(&folder, &certify(&["-o", "/dev/stdout"]), 0, &says);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_goes_on_where_it_ended() {
    let folder = folder("interrupted");
    let run = ["certify", "--backend", "reference", "--quick", "--journal", "run.jsonl"];
    let args = [&run[..], &["-o", "c.json", "--junit", "junit.xml"]].concat();
    std::fs::write(folder.join("c.json"), "of an earlier run").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_vyre"))
        .args(&args)
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
    let junit = std::fs::read_to_string(folder.join("junit.xml")).unwrap();
    assert!(!junit.contains(" skipped=\"0\"") && junit.contains("<skipped "), "groups did not run");
    let kept = lines();
    expect(&folder, &args, 0, &["certificate written"]);
    assert!(lines() > kept, "{kept} lines were kept");
    expect(&folder, &["verify", "c.json"], 3, &["integer: random, float: math", "UNSIGNED"]);
}
