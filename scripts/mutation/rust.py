"""Reads Rust source as lines, with what a mutation of a line has to know.

It is no parser: rustfmt has given the source a form in which lines, indentation and balanced brackets are enough. What it
misreads becomes a mutant that does not compile, which the report counts apart.
"""

import re
from dataclasses import dataclass, field

FUNCTION = re.compile(r"^(\s*)(?:pub(?:\(\w+\))? )?(?:const )?(?:unsafe )?fn (\w+)")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
# Lines that speak to people, or that only check: a change there is no mistake of the program.
SPEECH = re.compile(r"\b(?:expect|unreachable!|panic!|assert\w*!|tracing::\w+!|debug_assert\w*!|unavailable)\(")


@dataclass
class Function:
    name: str
    signature: str
    first: int
    last: int


@dataclass
class Line:
    number: int
    text: str
    code: str
    function: Function | None
    strings: list[tuple[int, int]] = field(default_factory=list)
    # Whether it is the rest of an assignment or a call that began above.
    continues: bool = False

    @property
    def stripped(self):
        return self.code.strip()

    def outside_strings(self):
        """The code with strings blanked, so that places stay."""
        code = list(self.code)
        for start, end in self.strings:
            code[start:end] = "~" * (end - start)
        return "".join(code)

    def replace(self, start, end, new):
        return self.text[:start] + new + self.text[end:]


class Source:
    """A file, without its tests."""

    def __init__(self, path, name):
        self.path, self.name = path, name
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        texts = self.text.split("\n")
        self.end = next((at for at, text in enumerate(texts) if text.startswith("#[cfg(test)]")), len(texts))
        self.functions = functions(texts[: self.end])
        self.lines = [self.line(at, texts) for at in range(self.end)]

    def line(self, at, texts):
        text = texts[at]
        strings = [match.span() for match in STRING.finditer(text)]
        comment = next(
            (
                match.start()
                for match in re.finditer("//", text)
                if not any(start <= match.start() < end for start, end in strings)
            ),
            len(text),
        )
        inside = [one for one in self.functions if one.first <= at <= one.last]
        innermost = max(inside, key=lambda one: one.first, default=None)
        kept = [span for span in strings if span[1] <= comment]
        above = texts[at - 1].rstrip() if at > 0 else ""
        return Line(at + 1, text, text[:comment].rstrip(), innermost, kept, above.endswith((" =", "(")))

    def with_line(self, number, text):
        texts = self.text.split("\n")
        texts[number - 1] = text
        return "\n".join(texts)

    def body(self, function):
        return self.lines[function.first : function.last + 1]


def functions(texts):
    found = []
    for at, text in enumerate(texts):
        match = FUNCTION.match(text)
        if not match:
            continue
        indent = match[1]
        head = next((end for end in range(at, len(texts)) if texts[end].endswith(("{", ";", "}"))), at)
        last = next((end for end in range(head, len(texts)) if texts[end] == indent + "}"), head)
        found.append(Function(match[2], " ".join(texts[at : head + 1]), at, last))
    return found


def split(text):
    """The parts of a list between commas at its own depth, as (start, end) in `text`."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, letter in enumerate(text):
        if letter == '"' and text[at - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append((start, at))
            start = at + 1
    parts.append((start, len(text)))
    spans = []
    for start, end in parts:
        part = text[start:end]
        start += len(part) - len(part.lstrip())
        if part.strip():
            spans.append((start, start + len(part.strip())))
    return spans


def closing(text, start):
    """Where the bracket that opens at `start` closes, or None on this line."""
    depth, quoted = 0, False
    for at in range(start, len(text)):
        letter = text[at]
        if letter == '"' and text[at - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth == 0:
                return at
    return None


def is_balanced(text):
    code = STRING.sub("", text)
    return all(code.count(a) == code.count(b) for a, b in ("()", "[]", "{}"))


def placeholders(text, start, end):
    """The named places `{name}` of a format string that spans `start..end`: (start, end, name)."""
    found, at = [], start + 1
    while at < end - 1:
        two = text[at : at + 2]
        if two in ("{{", "}}"):
            at += 2
        elif text[at] == "{":
            close = text.find("}", at)
            if re.fullmatch(r"[a-z_]\w*", text[at + 1 : close]):
                found.append((at, close + 1, text[at + 1 : close]))
            at = close + 1
        else:
            at += 1
    return found
