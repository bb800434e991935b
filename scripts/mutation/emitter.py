"""Mistakes at the places where the PTX emitter writes text.

A place is a line of a function that writes PTX: a call that emits, a string that becomes part of an instruction, or a number
that goes into one. Planning (which loops are unrolled, which lanes share a thread) has no places here: a change there gives
slower code more often than wrong code.
"""

import re

from . import common
from .rust import SPEECH, is_balanced, placeholders

FILES = "crates/vyre-lower/src/ptx"
# Kinds that only a compiler with NVIDIA's defects can show. They are listed, and never drawn.
WORKAROUND = "workaround"
CALLS = re.compile(
    r"\b(?:self|emit)\.(?:line|op|assign|select|constant|barrier|settle|show|finish_copies|close_group|await_copies"
    r"|begin_store|hold_copies|begin_copies|hand_copies_over|release|meet|poll|zero_shared|grid_barrier|observe|guard"
    r"|address|shuffle|invert|combine|binary|float|integer|widen|narrow|cast|magnitude|clamp_field|move_to|go_on|look"
    r"|opaque|subgroup_barrier|unit|swizzled|descriptor|members|own_bits|ballot|tile_place|array_\w+|fill_array)\("
)
# Functions that give text or numbers to those that emit.
TEXTS = {"suffix", "bits", "letter", "loaded_as", "load_from", "store_to", "header", "tables", "shared_offsets", "finish"}
TEXTS |= {"array_element_bytes", "infinity", "signed", "align", "pairs", "window", "vector", "list", "active", "rows"}
TEXTS |= {"swizzled", "clamp_field", "fold", "settle", "show", "begin_trip", "end_trip", "settle_before", "begin_copies"}
TEXTS |= {"hold_copies", "copy", "begin_store", "await_copies", "finish_copies", "lower", "half", "compute", "is_exchanged"}
# What the emitter keeps for itself; without it the code is slower, or NVIDIA's compiler sees what it misreads.
BOOKKEEPING = re.compile(r"self\.(?:label|label_text|taken|widened|solid|unrolled|labels|out|array_count)\b")
STEPS_AROUND = re.compile(r"opaque\(|solid|sign_or_zero|nounroll|is_minus_zero|let is = ")

COMMUTATIVE = {"add", "mul", "and", "or", "xor", "min", "max", "mad", "fma"}
SYMMETRIC = ("setp.eq", "setp.ne", "setp.neu", "setp.equ", "setp.nan")
# Where the low half of a result does not depend on the sign of the type.
SIGNLESS = re.compile(
    r"^(?:@\S+ )?(?:(?:add|sub|mul\.lo|mad\.lo|neg|mov|st|setp\.(?:eq|ne))\b|ld\.[a-z.]*[us](?:32|64) )"
    r"|\.param|^cvt\.u32\.u64|\.(?:add|cas|exch)\."
)

SIGNS = {"u8": "s8", "s8": "u8", "u32": "s32", "s32": "u32", "u64": "s64", "s64": "u64"}
COMPARED = {"ge": "gt", "gt": "ge", "lt": "le", "le": "lt", "eq": "ne", "ne": "eq", "neu": "ne", "equ": "eq", "nan": "num"}
ROUNDED = {"rn": ["rz", ""], "rz": ["rn"], "rm": ["rp"], "rp": ["rm"]}
ROUNDED |= {"rni": ["rzi"], "rzi": ["rni"], "rmi": ["rpi"], "rpi": ["rmi"]}
OPCODES = {
    "add": "sub", "sub": "add", "div": "rem", "rem": "div", "min": "max", "max": "min", "and": "or", "or": "and",
    "xor": "or", "popc": "clz", "clz": "popc", "neg": "abs", "abs": "neg", "mul.lo": "mul.hi", "mul.hi": "mul.lo",
    "mad.lo": "mad.hi", "shf.l": "shf.r", "shf.r": "shf.l", "idx": "up", "bfly": "up", "up": "down", "any": "all",
    "not": "mov", "floor": "ceil", "exch": "add", "inc": "dec",
}  # fmt: skip
SPACES = {
    "ld.volatile.": "ld.",
    "ld.global.nc": "ld.shared",
    "ld.global": "ld.global.nc",
    "st.global": "st.shared",
    "ld.shared": "ld.global",
    "st.shared": "st.global",
    "ld.local": "ld.global",
    "st.local": "st.global",
    "membar.gl": "membar.cta",
    "red.global": "red.shared",
    "atom.global": "atom.shared",
    "atom.shared": "atom.global",
    "async.shared::cta": "async.global",
    "barrier.sync 0": "barrier.sync 1",
    ".sync.aligned": ".sync",
    "%ctaid": "%tid",
    "%nctaid": "%ntid",
    "%tid": "%ctaid",
    "[trap]": "[cancel]",
    "[cancel]": "[trap]",
    "[sync]": "[cancel]",
    "[first_": "[count_",
    "[count_": "[first_",
    ".row.col": ".row.row",
}
ZEROED = re.compile(r"self\.constant\((?:Literal::u32\(0\)|Literal::from_bits\((\w+)(?:\.computes_as\(\))?, 0\)|zero)\)")


def files(root):
    return sorted(path for path in (root / FILES).glob("*.rs"))


def mutations(source):
    """All mistakes of a file, as (line, kind, new text)."""
    for function in source.functions:
        body = source.body(function)
        if not any(CALLS.search(line.code) for line in body) and function.name not in TEXTS:
            continue
        scope = Scope(function)
        for line in body[1:]:
            if line.function is function:
                yield from of_line(source, line, scope)
            scope.learn(line)


def of_line(source, line, scope):
    if SPEECH.search(line.code) or not line.stripped or line.stripped.startswith(("#", "use ", "let _ = write")):
        return
    seen = {line.text}
    around = steps_around(source, line)
    for kind, text in rules(source, line, scope):
        if text not in seen:
            seen.add(text)
            in_opaque = line.function.name == "opaque" and kind == "opcode"
            yield line, WORKAROUND if around or in_opaque else kind, text


def steps_around(source, line):
    """Whether a line is there for NVIDIA's compiler alone: it hides a value, or decides whether to."""
    if line.function.name in ("is_solid", "all_solid", "bounded") or STEPS_AROUND.search(line.code):
        return line.function.name != "opaque"
    if not re.match(r"\s*(?:if|for) .*\{$", line.code):
        return False
    indent = len(line.code) - len(line.code.lstrip())
    inside = []
    for other in source.lines[line.number :]:
        if other.stripped and len(other.code) - len(other.code.lstrip()) <= indent:
            break
        inside.append(other.code)
    body = [text for text in inside if text.strip()]
    return bool(body) and all(STEPS_AROUND.search(text) or text.strip() in ("{", "}") for text in body)


def rules(source, line, scope):
    emits = bool(CALLS.search(line.code)) or continues(source, line)
    texts = [span for span in line.strings if is_text(line.code[slice(*span)])]
    for span in texts:
        yield from of_text(line, span, scope)
    if emits or texts:
        yield from operands(source, line, scope)
        yield from common.element(line)
        yield from zeroing(line)
        yield from canonical(line)
    if emits or texts or line.function.name in TEXTS or is_number(line):
        yield from common.code_numbers(line)
        yield from common.operators(line)
        yield from common.tokens(line, {"u32::MAX": "u32::MAX >> 1", "u64::MAX": "u64::MAX >> 1"}, "number")
        yield from common.tokens(line, common.METHODS, "bound")
    if not line.code.endswith("=> {"):
        yield from common.condition(line)
        yield from common.comparisons(line)
    yield from statement(line)
    if line.function.name == "fold":
        yield from pairs_of_fold(line)


def continues(source, line):
    """Whether a line is within an emitting call that began on an earlier line."""
    at = line.number - 2
    for other in reversed(source.lines[max(0, at - 4) : at + 1]):
        if other.code.endswith((";", "{", "}")):
            return False
        if CALLS.search(other.code):
            return True
    return False


def is_text(string):
    return len(string) > 2 and not string.startswith('"// ') and "Fix:" not in string


def is_number(line):
    return bool(re.match(r"\s*(?:let |\.map|if |\[)", line.code)) and bool(re.search(r"\d|min|max", line.code))


class Scope:
    """The registers in scope, by width, as far as their `let` says, and the labels."""

    def __init__(self, function):
        self.known = {}
        self.labels = {
            name
            for names, one in re.findall(r"\[([\w, ]+)\]: \[u32; 2\]|\b(idle|narrow|end): u32", function.signature)
            for name in [*re.findall(r"\w+", names), *([one] if one else [])]
        }

    def learn(self, line):
        indent = len(line.code) - len(line.code.lstrip())
        if line.stripped.startswith("}"):
            self.known = {name: one for name, one in self.known.items() if one[1] <= indent}
        if line.stripped.startswith("let ") and "self.new_label()" in line.code:
            self.labels |= set(re.findall(r"\w+", line.stripped[4:].split(" = ")[0]))
        match = re.match(r"let (?:mut )?(\w+) =\s*(.*)", line.stripped)
        if match:
            width = self.width(match[2])
            self.known.pop(match[1], None)
            if width:
                self.known[match[1]] = (width, indent)

    @staticmethod
    def width(text):
        match = re.match(r"self\.(?:op|assign|register)\((Width::\w+|width)", text)
        if match:
            return match[1]
        if text.startswith("self.constant(Literal::u32") or text.startswith(("self.members()", "self.local_index()")):
            return "Width::B32"
        return "Width::Pred" if text.startswith("self.guard(") else None

    def others(self, name):
        width, _ = self.known.get(name, (None, 0))
        return [other for other, (its, _) in self.known.items() if width and its == width and other != name][-3:]


def operands(source, line, scope):
    """Two operands that changed places, and one in the place of another."""
    name = opcode_before(source, line)
    for start, end in [*common.lists(line, "&["), *common.lists(line, "([")]:
        for at, (pair, text) in enumerate(common.swapped(line, start, end)):
            if not commutes(name, at) and not all(part.startswith('"') and part[1:2].isdigit() for part in pair):
                yield "operands", text
        yield from replaced(line, start, end, scope)
    for start, end in common.lists(line, "self.select("):
        parts = list(common.swapped(line, start, end))
        yield from (("operands", text) for _, text in parts[2:3])


def replaced(line, start, end, scope):
    inside = line.code[start:end]
    parts = common.split(inside)
    texts = [inside[a:b] for a, b in parts]
    for (a, b), text in zip(parts, texts):
        # A number in the place of a register, or the other way round, is seen at once; of two registers each may be meant.
        others = [other for other in texts if other != text and re.match(r"&?[a-z_]\w*(?:\[\d\])?$", other)]
        match = re.fullmatch(r"&?([a-z_]\w*)", text)
        if not match:
            continue
        others += ["&" + other for other in scope.others(match[1])]
        for other in dict.fromkeys(others):
            yield "register", line.replace(start + a, start + b, other)


def opcode_before(source, line):
    """The name of the instruction whose operands a line lists, as far as the text says it."""
    for other in [line, *reversed(source.lines[max(0, line.number - 3) : line.number - 1])]:
        for start, end in other.strings:
            match = re.match(r'"([a-z][a-z0-9.]*)', other.code[start:end])
            if match:
                return match[1]
        if other is not line and other.code.endswith((";", "{", "}")):
            break
    return ""


def commutes(name, at):
    if name.startswith(SYMMETRIC):
        return True
    return name.split(".")[0] in COMMUTATIVE and at == 0


def of_text(line, span, scope):
    """Mistakes in a string that is an instruction or a part of one."""
    start, end = span
    text = line.code[start:end]
    yield from (("register", new) for new in placed(line, span, scope))
    yield from guards(line, span, scope)
    for match in re.finditer(r"setp\.(\w+)|^\"(ge|gt|lt|le|eq|neu?)\"$", text):
        at = 1 if match[1] else 2
        if match[at] in COMPARED:
            yield "comparison", line.replace(start + match.start(at), start + match.end(at), COMPARED[match[at]])
    for match in re.finditer(r"\.(r[nzmp]i?)\b|^\"(r[nzmp]i)\"$", text):
        at = 1 if match[1] else 2
        for other in ROUNDED[match[at]]:
            first = start + match.start(at) - (1 if other == "" else 0)
            yield "rounding", line.replace(first, start + match.end(at), other)
    yield from opcodes(line, span)
    yield from signs(line, span)
    for old, new in SPACES.items():
        for match in re.finditer(re.escape(old) + (r"(?!\.nc)\b" if old[-1].isalpha() else ""), text):
            yield "space", line.replace(start + match.start(), start + match.end(), new)
    for old, new in (('"shared"', '"global"'), ('"global"', '"shared"'), ('["x", "y", "z"]', '["y", "x", "z"]')):
        if text == old or line.code.startswith(old, start - 1):
            at = start if text == old else start - 1
            yield "space", line.replace(at, at + len(old), new)
    yield from waits(line, span)
    for match in re.finditer(r"\.align (\d+)", text):
        yield "alignment", line.replace(start + match.start(1), start + match.end(1), "1")
        if int(match[1]) > 16:
            yield "alignment", line.replace(start + match.start(1), start + match.end(1), "16")
    if ".align" not in text and "wait_group" not in text and not re.fullmatch(r'"\d\.\d"', text):
        yield from common.numbers(line, start, end)


def opcodes(line, span):
    start, end = span
    text = line.code[start:end]
    for old, new in OPCODES.items():
        name = re.escape(old)
        for match in re.finditer(rf"(?<![\w%\[$.{{]){name}(?![\w}}\]])|(?<=sync\.){name}\b", text):
            yield "opcode", line.replace(start + match.start(), start + match.end(), new)
    for old, new in ((r"shr\.[us](?=32|64)", "shl.b"), (r"shl\.b(?=32|64)", "shr.u"), (r"^\"shr\"$", '"shl"')):
        for match in re.finditer(old, text):
            yield "opcode", line.replace(start + match.start(), start + match.end(), new)


def signs(line, span):
    start, end = span
    text = line.code[start:end]
    if SIGNLESS.search(text[1:]) or SIGNLESS.search(re.sub(r"^(?:\{guard\})", "", text[1:])):
        return
    cast = re.match(r"\"cvt\.([a-z]+)(\d+)\.([a-z]+)(\d+)\"$", text)
    for match in re.finditer(r"(?<=\.)([us](?:8|32|64))\b|^\"([us](?:8|32|64))\"$", text):
        if cast and {cast[1], cast[3]} <= {"u", "s"} and (match.end(1) < len(text) - 1 or int(cast[2]) <= int(cast[4])):
            continue
        at = 1 if match[1] else 2
        yield "sign", line.replace(start + match.start(at), start + match.end(at), SIGNS[match[at]])


def waits(line, span):
    """One operation more under way than may be."""
    start, end = span
    text = line.code[start:end]
    match = re.search(r"(wait_group(?:\.sync\.aligned)? )\{(\w+)\}", text)
    if match:
        new = text[: match.start(2) - 1] + "{}" + text[match.end(2) + 1 :] + f", {match[2]} + 1"
        yield "wait", line.replace(start, end, new)
    match = re.search(r"wait_group(?:\.sync\.aligned)? (\d+)", text)
    if match:
        yield "wait", line.replace(start + match.start(1), start + match.end(1), str(int(match[1]) + 1))
    if "wait_all" in text:
        yield "wait", line.replace(start, end, text.replace("wait_all", "wait_group 1"))


def placed(line, span, scope):
    """Registers in a format string: neighbours that changed places, and one in the place of another."""
    start, end = span
    text = line.code
    found = [one for one in placeholders(text, start, end) if is_operand(text, one)]
    commuting = re.match(r'"(?:add|and|or|xor|mul)\b', text[start:end])
    for first, second in zip(found, found[1:]):
        between = text[first[1] : second[0]]
        if between == ", " and first[2] != second[2] and not commuting:
            yield line.replace(first[0], second[1], f"{{{second[2]}}}, {{{first[2]}}}")
    for first, last, name in found:
        others = [other for _, _, other in found if other != name] + scope.others(name)
        for other in dict.fromkeys(others):
            yield line.replace(first, last, f"{{{other}}}")


def is_operand(text, place):
    before, after = text[place[0] - 1], text[place[1] : place[1] + 1]
    label = text[: place[0]].endswith("$L")
    return not label and before in ' [{"' and after in ",;]} " and not text[: place[0]].endswith("@")


def guards(line, span, scope):
    """A condition that is inverted or missing, and a wrong label."""
    start, end = span
    text = line.code[start:end]
    for match in re.finditer(r"@(!?)(\{\w*\})( ?)", text):
        inverted = "@" + ("" if match[1] else "!") + match[2] + match[3]
        yield "guard", line.replace(start + match.start(), start + match.end(), inverted)
        yield "guard", line.replace(start + match.start(), start + match.end(), "")
    for match in re.finditer(r"\{guard\}", text):
        yield "guard", line.replace(start + match.start(), start + match.end(), "")
    for match in re.finditer(r"\$L\{(\w+)\}", text):
        for other in sorted(scope.labels - {match[1]}):
            yield "label", line.replace(start + match.start(1), start + match.end(1), other)
    for old, new in (("$exit", "$apart"), ("$apart", "$exit")):
        for match in re.finditer(re.escape(old) + ";", text):
            yield "label", line.replace(start + match.start(), start + match.end(), new + ";")


def zeroing(line):
    for match in ZEROED.finditer(line.code):
        width = "Width::B32" if "u32(0)" in match[0] else f"Width::of({match[1] or 'ty'})"
        yield "zeroing", line.replace(match.start(), match.end(), f"self.register({width})")


def canonical(line):
    """NaN as it is, and a value that NVIDIA's compiler may know."""
    match = re.search(r"self\.observe\(\w+, &?(\w+)\)", line.code)
    if match:
        yield "canonical NaN", line.replace(match.start(), match.end(), f"{match[1]}.to_string()")
    match = re.search(r"self\.opaque\(.*, &?([\w\[\]]+)\)", line.code)
    if match:
        yield WORKAROUND, line.replace(match.start(), match.end(), f"{match[1]}.to_string()")


def statement(line):
    """A step that is left out."""
    match = common.dropped(line)
    if match and not BOOKKEEPING.search(match[1]):
        yield "statement", match[0] + "{}"
    whole = re.match(r"^(\s*)(if .* \{ )(self\.\w+\(\);?)( \})$", line.code)
    if whole and is_balanced(line.code):
        yield "statement", whole[1] + whole[2].rstrip() + whole[4].lstrip(" ")


def pairs_of_fold(line):
    for old, new in (("Inclusive(", "Exclusive("), ("Exclusive(", "Inclusive("), ("Reduce(", "Inclusive(")):
        at = line.code.find("Fold::" + old)
        if at >= 0:
            yield "fold", line.replace(at, at + 6 + len(old), "Fold::" + new)
