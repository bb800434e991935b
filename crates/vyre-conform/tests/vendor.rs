//! A vendor's binary: this test is the command line that `vyre_conform::main` gives, over a right backend and a wrong one.

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use vyre_conform::{Convention, DispatchConfig, Profile, ReferenceBackend, VyreBackend};

/// Set for the process that is the command; says which backend it has.
const AS_COMMAND: &str = "VYRE_TEST_AS_COMMAND";

fn main() -> ExitCode {
    if let Ok(kind) = std::env::var(AS_COMMAND) {
        return vyre_conform::main(move || Vendor::open(&kind));
    }
    let tests = vec![
        Trial::test("a_right_backend_is_certified", right),
        Trial::test("a_wrong_backend_fails_with_a_command_that_shows_it_again", wrong),
        Trial::test("random_cases_come_again_from_their_nonce", random),
        Trial::test("a_backend_that_cannot_be_opened_says_how_to_fix_it", unavailable),
        Trial::test("help_speaks_of_this_binary", help),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// The reference, perhaps with a mistake.
struct Vendor {
    /// Changes the last byte of outputs where the program's bytes contain this.
    spoils: Option<&'static str>,
}

impl Vendor {
    fn open(kind: &str) -> Result<Vendor, String> {
        match kind {
            "right" => Ok(Vendor { spoils: None }),
            "wrong" => Ok(Vendor { spoils: Some("rows") }),
            "random" => Ok(Vendor { spoils: Some("") }),
            _ => Err("there is no device. Fix: plug one in".into()),
        }
    }
}

impl VyreBackend for Vendor {
    fn name(&self) -> &str {
        "vendor <b>\u{1}"
    }

    fn max_convention(&self) -> Convention {
        ReferenceBackend.max_convention()
    }

    fn profile(&self) -> Profile {
        Profile { device: "a <device> & more".into(), ..ReferenceBackend.profile() }
    }

    fn dispatch(&self, _: &str, _: &[u8], _: usize, _: DispatchConfig) -> Result<Vec<u8>, String> {
        Err("not here. Fix: none".into())
    }

    fn dispatch_program(
        &self,
        program: &[u8],
        input: &[u8],
        size: usize,
        config: DispatchConfig,
    ) -> Result<Vec<u8>, String> {
        let mut output = ReferenceBackend.dispatch_program(program, input, size, config)?;
        let named = |name: &str| program.windows(name.len()).any(|bytes| bytes == name.as_bytes());
        if self.spoils.is_some_and(|name| name.is_empty() || named(name))
            && let Some(last) = output.last_mut()
        {
            *last ^= 0x80;
        }
        Ok(output)
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("vendor-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the build's own folder can be written");
    folder
}

/// The exit code and standard output of the command.
fn command(kind: &str, folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(std::env::current_exe().expect("this test's own path"));
    let output = command.args(args).env(AS_COMMAND, kind).current_dir(folder).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn expect(kind: &str, folder: &Path, args: &[&str], exit: i32, says: &[&str]) -> Result<String, Failed> {
    let (code, out, err) = command(kind, folder, args);
    let missing: Vec<&&str> =
        says.iter().filter(|text| !out.contains(**text) && !err.contains(**text)).collect();
    match code == Some(exit) && missing.is_empty() {
        true => Ok(out),
        false => Err(format!("{args:?}: exit {code:?}, lacks {missing:?}:\n{out}\n{err}").into()),
    }
}

fn right() -> Result<(), Failed> {
    let folder = folder("right");
    expect("right", &folder, &["keygen", "-o", "key.pem"], 0, &["key.pem.pub"])?;
    let certify =
        ["certify", "--quick", "--level", "ops", "--track", "integer", "--sign", "key.pem", "-o", "c.json"];
    expect(
        "right",
        &folder,
        &certify,
        0,
        &["vendor <b>\\u{1}", "[ops ok]", "certificate written to c.json"],
    )?;
    expect("right", &folder, &["verify", "c.json", "--trusted-key", "key.pem.pub"], 0, &["TRUSTED"])?;
    expect("right", &folder, &["verify", "c.json"], 3, &["UNTRUSTED"])?;
    // No device is needed to verify.
    expect("none", &folder, &["verify", "c.json", "--all"], 3, &["UNTRUSTED"])?;
    expect(
        "right",
        &folder,
        &["replay", "c.json", "--case", "op/u32/add"],
        0,
        &["add.u32", "ok the same on"],
    )?;
    expect("wrong", &folder, &["replay", "c.json", "--case", "op/u32/add"], 1, &["different on"])?;
    expect("right", &folder, &["replay", "c.json", "--case", "op/u33"], 2, &["no case `op/u33`", "Fix:"])?;
    Ok(())
}

/// The command that the only failure gives, as arguments.
fn replay_of(json: &str) -> Result<(String, Vec<String>), Failed> {
    let value: Value = serde_json::from_str(json)?;
    let replay = value["failures"][0]["replay"].as_str().ok_or("no replay")?.to_owned();
    let args = replay.split(' ').skip(1).map(|arg| arg.trim_matches('\'').to_owned()).collect();
    Ok((replay, args))
}

fn wrong() -> Result<(), Failed> {
    let folder = folder("wrong");
    let least = ["certify", "--quick", "--level", "ops", "--track", "integer"];
    let stop = ["--stop-at-first", "-o", "c.json", "--junit", "junit.xml"];
    std::fs::write(folder.join("c.json"), "of an earlier run")?;
    expect("wrong", &folder, &[&least[..], &stop].concat(), 1, &["no certificate"])?;
    assert!(!folder.join("c.json").exists(), "what fails is not certified");
    check_junit(&folder, 1)?;
    let reports = ["--case", "op/u32/a", "--json", "--junit", "junit.xml", "--html", "report.html"];
    let out = expect("wrong", &folder, &[&least[..], &reports].concat(), 1, &[])?;
    check_reports(&folder)?;
    let (replay, again) = replay_of(&out)?;
    let program = std::env::current_exe()?.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(replay.starts_with(&format!("{program} certify --quick --case ")), "{replay}");
    assert!(!replay.contains("--nonce"), "a fixed case needs none: {replay}");
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let out = expect("wrong", &folder, &again, 1, &["FAIL", "cause: ", "Fix: ", "the smallest program"])?;
    assert!(out.contains(" 1 group,"), "just that case: {out}");
    expect("right", &folder, &again, 0, &["nothing failed"])?;
    Ok(())
}

/// The file for CI is well formed and complete: every group of it passed, failed or was skipped.
fn check_junit(folder: &Path, skipped_min: usize) -> Result<(), Failed> {
    let xml = std::fs::read_to_string(folder.join("junit.xml"))?;
    let document = roxmltree::Document::parse(&xml)?;
    let count = |name: &str| document.descendants().filter(|node| node.has_tag_name(name)).count();
    let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).ok_or("no suite")?;
    let says = |name: &str| suite.attribute(name).and_then(|text| text.parse::<usize>().ok());
    for (attribute, element) in [("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")] {
        assert_eq!(says(attribute), Some(count(element)), "{attribute}");
    }
    assert!(count("testcase") > 5 && count("failure") > 0 && count("skipped") >= skipped_min, "{xml}");
    Ok(())
}

/// The files for CI and for people: nothing of the backend's is in them as markup.
fn check_reports(folder: &Path) -> Result<(), Failed> {
    check_junit(folder, 0)?;
    let html = std::fs::read_to_string(folder.join("report.html"))?;
    assert!(html.contains("vendor &lt;b&gt;\u{fffd}") && html.contains("a &lt;device&gt; &amp; more"));
    for foreign in ["vendor <b>", "<device>", "src=", "href=", "http:", "https:", "@import", "url("] {
        assert!(!html.contains(foreign), "the page has `{foreign}`");
    }
    assert!(html.contains("<mark>") && html.contains("class=\"failure\"") && html.contains("op/u32/add"));
    Ok(())
}

fn random() -> Result<(), Failed> {
    let folder = folder("random");
    let args = ["certify", "--quick", "--case", "random/integer/1", "--stop-at-first", "--json"];
    let (replay, again) = replay_of(&expect("random", &folder, &args, 1, &[])?)?;
    assert!(replay.contains(" --nonce "), "{replay}");
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    let case = again[again.iter().position(|arg| *arg == "--case").expect("a case") + 1];
    expect("random", &folder, &again, 1, &[&format!("FAIL {case}")])?;
    expect("right", &folder, &again, 0, &["1 case in"])?;
    Ok(())
}

fn unavailable() -> Result<(), Failed> {
    let folder = folder("unavailable");
    expect("none", &folder, &["certify"], 3, &["there is no device", "Fix: plug one in"])?;
    expect("none", &folder, &["certify", "--json"], 3, &["\"kind\": \"run\"", "plug one in"])?;
    expect(
        "right",
        &folder,
        &["certify", "--backend", "other"],
        2,
        &["there is no backend `other` here", "Fix:"],
    )?;
    expect("right", &folder, &["certify", "--shard", "3/2"], 2, &["Fix: write `1/4`"])?;
    expect("right", &folder, &["certify", "--shard", "3/2", "--json"], 2, &["\"fix\": \"write `1/4`"])?;
    Ok(())
}

fn help() -> Result<(), Failed> {
    let program = std::env::current_exe()?.file_name().expect("a name").to_string_lossy().into_owned();
    let out = expect(
        "right",
        Path::new("."),
        &["certify", "--help"],
        0,
        &[&format!("  {program} certify --quick\n")],
    )?;
    assert!(!out.contains("vyre certify") && !out.contains("--backend cpu"), "{out}");
    Ok(())
}
