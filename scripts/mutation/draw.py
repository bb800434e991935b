"""All mutants of a target, the draw of some by a seed, and those that are known to change nothing."""

import random
import tomllib
from collections import defaultdict
from dataclasses import asdict, dataclass

from . import driver, emitter
from .rust import Source

TARGETS = {"emitter": emitter, "driver": driver}
# Kinds that are listed, and never drawn.
LISTED = {
    emitter.WORKAROUND: "a workaround for NVIDIA's compiler, which a correct one does not show",
    driver.TUNING: "a number that decides speed or room alone",
}


@dataclass
class Mutant:
    id: str
    file: str
    line: int
    function: str
    kind: str
    before: str
    after: str

    def diff(self):
        return f"-{self.before}\n+{self.after}"

    def as_dict(self):
        return asdict(self)


def mutants(root, target):
    """Every mutant of a target, in the order of the source."""
    found = []
    for path in TARGETS[target].files(root):
        source = Source(path, path.name)
        counts = defaultdict(int)
        for line, kind, text in TARGETS[target].mutations(source):
            counts[line.number, kind] += 1
            name = f"{path.stem}:{line.number}:{kind.replace(' ', '-')}:{counts[line.number, kind]}"
            function = line.function.name if line.function else ""
            file = str(path.relative_to(root))
            found.append(Mutant(name, file, line.number, function, kind, line.text, text))
    return found


def draw(all_mutants, count, seed):
    """Places first, each at most once while there are others; then a kind of mistake, and then one of that kind."""
    places = defaultdict(lambda: defaultdict(list))
    for mutant in all_mutants:
        if mutant.kind not in LISTED:
            places[mutant.file, mutant.line][mutant.kind].append(mutant)
    generator = random.Random(f"vyre mutants {seed}")
    drawn = []
    while len(drawn) < count and places:
        order = sorted(places)
        generator.shuffle(order)
        for place in order[: count - len(drawn)]:
            kinds = places[place]
            kind = generator.choice(sorted(kinds))
            drawn.append(kinds[kind].pop(generator.randrange(len(kinds[kind]))))
            if not kinds[kind]:
                del kinds[kind]
            if not kinds:
                del places[place]
    return drawn


class Equivalents:
    """Mutants that change nothing a program can see, each with the reason."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.entries = tomllib.load(file).get("equivalent", [])

    def errors(self, by_target):
        """Entries that are incomplete, or match no mutant any more."""
        found = []
        for entry in self.entries:
            missing = [key for key in ("target", "file", "function", "line", "kind", "reason") if key not in entry]
            if missing:
                found.append(f"an entry lacks {', '.join(missing)}: {entry}")
            elif not any(matches(entry, mutant) for mutant in by_target.get(entry["target"], [])):
                found.append(f"no mutant is like this entry any more: {entry['file']}, `{entry['line']}`, {entry['kind']}")
        return found

    def reason(self, mutant):
        return next((entry["reason"] for entry in self.entries if matches(entry, mutant)), None)


def matches(entry, mutant):
    return (
        mutant.file.endswith("/" + entry["file"])
        and mutant.function == entry["function"]
        and mutant.before.strip() == entry["line"].strip()
        and mutant.kind == entry["kind"]
        and ("becomes" not in entry or mutant.after.strip() == entry["becomes"].strip())
    )
