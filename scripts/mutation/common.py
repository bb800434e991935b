"""Mutations that both the emitter's and the driver's rules make.

A rule takes a line and gives `(kind, new text of the line)` for each mistake it makes there.
"""

import re

from .rust import SPEECH, closing, is_balanced, split

NUMBER = re.compile(r"(?<![\w.$%#~])(0x[0-9a-f_]+|\d[\d_]*)(?=(?:u32|u64|usize|i32)?(?![\w.]))")
COMPARISONS = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == "}
OPERATORS = {" + ": " - ", " - ": " + ", " * ": " + ", " / ": " * ", " % ": " / ", " << ": " >> ", " >> ": " << "}
BITS = {" | ": " & ", " & ": " | "}
METHODS = {
    ".min(": ".max(",
    ".max(": ".min(",
    ".is_some(": ".is_none(",
    ".is_none(": ".is_some(",
    ".is_ok(": ".is_err(",
    ".is_err(": ".is_ok(",
    ".all(": ".any(",
    ".any(": ".all(",
    ".div_ceil(": ".div_euclid(",
    ".is_empty()": ".is_empty().eq(&false)",
}


# A call of a method, an assignment, or a `drop`.
DROPPED = re.compile(
    r"^(\s*)((?:\*?[a-z_]\w*[\w.\[\]()*?]*\.|\*?[a-z_][\w.\[\]()]* (?:[-+|&]?=) |drop\().*;)$"
)


def other_numbers(text):
    """Numbers that are mistaken for this one: one more, one less, and another bit of a mask."""
    digits = text.replace("_", "")
    if digits.startswith("0x"):
        value = int(digits, 16)
        lowest = value & -value
        return [f"{value ^ lowest:#x}", f"{value | lowest << 1 if value & lowest << 1 == 0 else value >> 1:#x}"]
    value = int(digits)
    return [str(value + 1)] + ([str(value - 1)] if value > 0 else [])


def numbers(line, start, end):
    for match in NUMBER.finditer(line.code, start, end):
        before = line.code[: match.start(1)].rstrip()
        if before.endswith("[") and line.code[match.end(1) :].startswith("]") and re.search(r"\w\[$", before):
            continue
        for other in other_numbers(match[1]):
            yield "number", line.replace(match.start(1), match.end(1), other)


def code_numbers(line):
    """Numbers outside strings, those of array types and of tuples excepted."""
    blank = line.outside_strings()
    spans = [match.span() for match in re.finditer(r"\[[^\[\]]*; \w+\]|\b\w+\.\d", blank)]
    for match in NUMBER.finditer(blank):
        if any(start <= match.start() < end for start, end in spans):
            continue
        if blank[: match.start()].endswith("[") and blank[match.end() :].startswith("]"):
            continue
        for other in other_numbers(match[1]):
            yield "number", line.replace(match.start(1), match.end(1), other)


def element(line):
    """Another element of an array than the one that is named."""
    for match in re.finditer(r"(?<=[\w\])])\[(\d)\]", line.outside_strings()):
        at = int(match[1])
        for other in [at + 1] + ([at - 1] if at > 0 else []):
            yield "register", line.replace(match.start(1), match.end(1), str(other))


def tokens(line, table, kind):
    blank = line.outside_strings()
    for old, new in table.items():
        for match in re.finditer(re.escape(old), blank):
            yield kind, line.replace(match.start(), match.end(), new)


def operators(line):
    if line.stripped.startswith("|") or re.search(r"=>|matches!|impl |where", line.code):
        return
    yield from tokens(line, OPERATORS, "arithmetic")
    if not re.search(r"\|[\w, ()&]*\|", line.outside_strings()):
        yield from tokens(line, BITS, "arithmetic")


def comparisons(line):
    if "=>" in line.code and " if " not in line.code:
        return
    yield from tokens(line, COMPARISONS, "bound")


def condition(line):
    """A condition inverted, or one of its parts forgotten."""
    match = re.match(r"^(\s*(?:\} else )?(?:if|while) )(?!let )(.+)( \{)$", line.code)
    if match and is_balanced(match[2]) and " && let " not in match[2]:
        yield "condition", f"{match[1]}!({match[2]}){match[3]}"
    match = re.search(r"(?<![\w}] )(?<==> )\bif (?!let )([^{}]+) \{ ", line.code) or re.search(
        r"= if (?!let )([^{}]+) \{ ", line.code
    )
    if match:
        yield "condition", line.replace(match.start(1), match.end(1), f"!({match[1]})")
    if "= || " not in line.code:
        yield from tokens(line, {" && ": " || ", " || ": " && "}, "condition")


def swapped(line, start, end):
    """Neighbours in a list that changed places."""
    inside = line.code[start:end]
    parts = split(inside)
    for (a, b), (c, d) in zip(parts, parts[1:]):
        first, second = inside[a:b], inside[c:d]
        if first != second:
            yield (first, second), line.replace(start + a, start + d, second + inside[b:c] + first)


def dropped(line):
    """The indentation and the text of a statement of one line that has an effect, or None."""
    match = DROPPED.match(line.code)
    if match and not line.continues and is_balanced(match[2]) and not SPEECH.search(line.code):
        return match[1], match[2]
    return None


def lists(line, opening):
    """Where the insides of lists lie that begin with `opening`, which ends in a bracket."""
    at = line.code.find(opening)
    while at >= 0:
        start = at + len(opening)
        end = closing(line.code, start - 1)
        if end is not None:
            yield start, end
        at = line.code.find(opening, start)
