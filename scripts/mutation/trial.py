"""Builds a mutant on a copy of the tree, and runs the checks on it."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

# A baseline's time says how long a mutant may take: a hang is a mistake that was found.
TIMES_BASELINE = 4
LEAST_SECONDS = 120


@dataclass
class Result:
    code: int | None
    seconds: float
    output: str

    @property
    def timed_out(self):
        return self.code is None


class Workspace:
    """A copy of the tree with a target folder of its own, in which one mutant at a time is built."""

    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.tree, self.target, self.temporary = folder / "tree", folder / "target", folder / "tmp"
        self.running = set()

    def lock(self):
        """The open file that keeps other runs out of the folder, or None if one is there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = open(self.folder / "lock", "w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        return file

    def copy(self):
        """The files that git knows or would add. They are as new as the copy: what cargo built from a mutant is older."""
        shutil.rmtree(self.tree, ignore_errors=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root, capture_output=True, check=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.decode().split("\0")):
            source, to = self.root / name, self.tree / name
            if source.is_file():
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, to)
        for folder in ("crates/vyre-lower/src", "crates/vyre-driver-cuda/src"):
            for path in (self.tree / folder).rglob("*.rs"):
                path.touch()

    def apply(self, mutant):
        path = self.tree / mutant.file
        lines = (self.root / mutant.file).read_text(encoding="utf-8").split("\n")
        if lines[mutant.line - 1] != mutant.before:
            raise RuntimeError(f"{mutant.file} changed while its mutants were tried")
        lines[mutant.line - 1] = mutant.after
        path.write_text("\n".join(lines), encoding="utf-8")

    def restore(self, mutant):
        shutil.copyfile(self.root / mutant.file, self.tree / mutant.file)

    def run(self, command, timeout, number=0):
        """Runs a command in the copy, with the mutant of that number; all its processes end with it."""
        temporary = self.temporary / str(number)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        start = time.monotonic()
        log = temporary.with_suffix(".log")
        with open(log, "wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", command], cwd=self.tree, env=self.environment(number), stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            self.running.add(process)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self.stop(process)
        output = tail(log)
        shutil.rmtree(temporary, ignore_errors=True)
        log.unlink()
        return Result(code, time.monotonic() - start, output)

    def environment(self, number=0):
        own = {
            "VYRE_MUTANT": str(number),
            "CARGO_TARGET_DIR": str(self.target),
            "CARGO_INCREMENTAL": "1",
            "CARGO_PROFILE_DEV_DEBUG": "false",
            "CARGO_TERM_COLOR": "never",
            "RUST_BACKTRACE": "0",
            # A kernel that never ends is found long before the time for all tests is over.
            "VYRE_EMULATED_WATCHDOG": "20",
            # A mutant's kernels must not be kept where another process finds them.
            "VYRE_CACHE": str(self.temporary / str(number) / "cache"),
            "TMPDIR": str(self.temporary / str(number)),
        }
        return {**os.environ, **own}

    def stop(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        self.running.discard(process)

    def remove(self):
        for process in list(self.running):
            self.stop(process)
        for folder in (self.tree, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)


def tail(path, most=200_000):
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - most))
        return file.read().decode(errors="replace")


@dataclass
class Check:
    command: str
    timeout: float


# Both packages in each command, or cargo chooses other features for the one and builds the emitter twice.
CARGO = "cargo test -p vyre-lower -p vyre-driver-cuda --quiet"


def device_tests(root):
    """What chooses the driver's own tests, each by its name: `--tests` would build all of the emitter's too."""
    folder = root / "crates/vyre-driver-cuda/tests"
    names = [path.stem for path in folder.glob("*.rs")] + [path.parent.name for path in folder.glob("*/main.rs")]
    return "".join(f" --test {name}" for name in sorted(names))


def default_build(root):
    return f"{CARGO} --test ptx{device_tests(root)} --no-run"


def default_checks(root):
    """The tests that `./test` runs for CUDA; None where the emulated device is not there.

    Tests that run kernels come before those that read PTX, so that the report says what only the latter find. Unit tests need
    the emitter built once more, so only what all others let pass pays for that."""
    emulated = "scripts/emulated-cuda"
    if not (root / emulated).exists() or not device_tests(root):
        return None
    ptxas = root / "target" / "ptxas"
    assembled = [f"env VYRE_PTXAS={ptxas} {CARGO} --test ptxas"] if ptxas.exists() else []
    programs = f"{emulated} {CARGO} --test programs"
    quick = f"{emulated} {CARGO} --test conformance the_quick_suite_is_right"
    all_devices = f"{emulated} {CARGO}{device_tests(root)}"
    return [programs, quick, f"{CARGO} --test ptx", all_devices, *assembled, f"{CARGO} --lib"]


def found_by(command, result):
    """What a failed check says of the mutant, in a few words."""
    if result.timed_out:
        return "timeout"
    failed = re.findall(r"^(?:---- (\S+)(?: stdout)? ----|test (\S+) \.\.\. FAILED)", result.output, re.M)
    if failed:
        return next(name for pair in failed for name in pair if name)
    signals = re.search(r"\(signal: (\d+), (\w+)", result.output)
    if signals:
        return signals[2]
    if result.code < 0 or result.code > 128:
        return f"signal {-result.code if result.code < 0 else result.code - 128}"
    return f"exit {result.code} of {command.split()[0]}"


def trial(workspace, mutant, build, checks, number=0):
    """What becomes of one mutant: one of a build that many share has a number, any other is built."""
    start = time.monotonic()
    outcome = {"outcome": "survived", "found_by": None, "check": None, "build_seconds": None}
    try:
        if not number:
            workspace.apply(mutant)
            built = workspace.run(build.command, build.timeout)
            outcome["build_seconds"] = round(built.seconds, 1)
            if built.code != 0:
                outcome["outcome"] = "did not compile"
                outcome["found_by"] = first_error(built.output)
                return outcome
        for check in checks:
            result = workspace.run(check.command, check.timeout, number)
            if result.code != 0:
                outcome |= {"outcome": "found", "found_by": found_by(check.command, result), "check": check.command}
                return outcome
        return outcome
    finally:
        if not number:
            workspace.restore(mutant)
        outcome["seconds"] = round(time.monotonic() - start, 1)


def first_error(output):
    match = re.search(r"^error(?:\[\w+\])?: .*$", output, re.M)
    return match[0] if match else "the build failed"
