"""Builds many mutants at once: a function that has some gets a body for each, and a variable chooses when it runs.

One build serves them all, so that a mutant costs what its tests cost. Left to builds of their own are mutants outside of
functions' bodies, in functions whose bodies must agree on a hidden type, and all that do not compile.
"""

import json
import os
import subprocess
from collections import defaultdict

from .rust import Source

# Rounds of `cargo check`: each stage of the compiler reports its own errors.
ROUNDS_MAX = 20
# What a build refuses and a check lets pass. On the first line, so that the others keep their numbers.
ALLOWED = "#![allow(arithmetic_overflow, unconditional_panic)]"
CHOICE = """
pub(crate) mod mutation {
    /// The mutant that this process runs.
    pub(crate) fn active() -> u32 {
        static ACTIVE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        *ACTIVE.get_or_init(|| std::env::var("VYRE_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0))
    }
}
"""


class Shared:
    """Which mutants share a build, each with its number."""

    def __init__(self, space, mutants):
        self.space = space
        self.numbers = {mutant.id: at + 1 for at, mutant in enumerate(mutants)}
        self.sources = {file: Source(space.root / file, file) for file in {mutant.file for mutant in mutants}}
        self.kept = [mutant for mutant in mutants if self.body(mutant)]

    def body(self, mutant):
        """The function around a mutant, and its body's lines, if that can be repeated."""
        source, at = self.sources[mutant.file], mutant.line - 1
        around = [one for one in source.functions if one.first <= at <= one.last]
        if not around:
            return None
        outer = min(around, key=lambda one: one.first)
        head = next(end for end in range(outer.first, len(source.lines)) if source.lines[end].text.endswith(("{", ";", "}")))
        hidden = "-> impl " in outer.signature or "const fn" in outer.signature
        return None if hidden or not head < at < outer.last else (outer.first, head, outer.last)

    def prepare(self):
        """Writes the sources, and drops mutants until the compiler takes all."""
        for _ in range(ROUNDS_MAX):
            places = self.write()
            errors = self.errors()
            if errors is None:
                return True
            wrong = {places[place] for place in errors if place in places}
            if not wrong:
                return False
            self.kept = [mutant for mutant in self.kept if mutant.id not in wrong]
        return False

    def write(self):
        """The mutant that each line belongs to, by file and number."""
        by_file, places = defaultdict(lambda: defaultdict(list)), {}
        for mutant in self.kept:
            by_file[mutant.file][self.body(mutant)].append(mutant)
        for file, source in self.sources.items():
            # Tests below the code keep their lines.
            texts = source.text.split("\n")
            lines, at = [], 0
            for (_, head, last), mutants in sorted(by_file[file].items()):
                lines += texts[at : head + 1] + ["match crate::mutation::active() {"]
                for mutant in mutants:
                    body = texts[head + 1 : last]
                    body[mutant.line - 1 - head - 1] = mutant.after
                    start = len(lines)
                    lines += [f"{self.numbers[mutant.id]} => {{", *body, "}"]
                    places |= {(file, number): mutant.id for number in range(start + 1, len(lines) + 1)}
                lines += ["_ => {", *texts[head + 1 : last], "}", "}"]
                at = last
            (self.space.tree / file).write_text("\n".join(lines + texts[at:]), encoding="utf-8")
        for crate in {file.split("/src/")[0] for file in self.sources}:
            name = f"{crate}/src/lib.rs"
            place = self.space.tree if name in self.sources else self.space.root
            text = (place / name).read_text(encoding="utf-8")
            (self.space.tree / name).write_text(f"{ALLOWED} {text}{CHOICE}", encoding="utf-8")
        return places

    def errors(self):
        """Where the compiler finds errors; None if it finds none."""
        packages = sorted({file.split("/")[1] for file in self.sources})
        command = ["cargo", "check", "--quiet", "--message-format=json", *(f"-p={name}" for name in packages)]
        environment = {**self.space.environment(), "RUSTFLAGS": "-Awarnings"}
        # Checked apart from what is built, whose flags are others.
        environment["CARGO_TARGET_DIR"] = os.path.join(environment["CARGO_TARGET_DIR"], "check")
        done = subprocess.run(command, cwd=self.space.tree, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            return None
        found = set()
        for line in done.stdout.splitlines():
            message = json.loads(line).get("message") or {}
            if message.get("level") == "error":
                spans = message["spans"] or [span for child in message["children"] for span in child["spans"]]
                found |= {(span["file_name"], span["line_start"]) for span in spans if span["is_primary"]}
        return found
