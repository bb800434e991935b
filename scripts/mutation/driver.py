"""Mistakes in the driver: work that is not waited for, memory that is used again too early, errors that get lost, wrong sizes."""

import re

from . import common
from .rust import SPEECH

FILES = "crates/vyre-driver-cuda/src"
# A number that decides how fast something is, or how much is kept: any other is as right. Listed, and never drawn.
TUNING = "tuning"
TUNED = re.compile(
    r"const (?:GRACE|GRAPH_ROUNDS|CACHE_BYTES_MAX|LARGE_MIN|PIECE_BYTES|CHUNK_BYTES_MAX|CHUNKS|THREADS_MAX|LOG_BYTES)\b"
    r"|with_capacity\(|rounds > 1000|let plan = |\(byte_len / 16\)|THREADS_MAX\)|let step = "
)
# Sizes, whose one byte less or more is a mistake of its own.
SIZES = re.compile(
    r"(?<![\w.])\*?(?:\w+\.)*(?:byte_len|chunk_bytes|size|bytes\.len\(\)|out\.len\(\)|shared_bytes)(?![\w(])"
)
PLACES = re.compile(r"(?<= = )([\w.]+(?:\(\))?) \+ [^;]+(?=;)|\b(READS_AT \+ |self\.state\.address \+ )")
SAID = re.compile(r"format!\(\"[^\"]* [^\"]* ")
COUNTS = re.compile(r"(?<![\w:])([A-Z][A-Z_]{3,})(?![\w(:{])")
STREAMS = (
    (", self.raw)", ", self.aside)"),
    ("stream::synchronize(self.raw)", "stream::synchronize(self.aside)"),
    ("self.aside", "self.raw"),
    ("stream.raw", "std::ptr::null_mut()"),
    ("stream.begin", "stream.end"),
    ("stream.end", "stream.begin"),
)
# What holds one thing for another.
TAKEN = (
    ("size_class(byte_len)", "byte_len"),
    ("size_class(self.byte_len)", "self.byte_len"),
    ("self.ring[slot]", "self.ring[0]"),
    ("turns[slot]", "turns[0]"),
    ("GO_ON_AT)", "END_AT)"),
    ("END_AT)", "GO_ON_AT)"),
    ("launch_cooperative_kernel", "launch_kernel"),
    ("Ok(true)", "Ok(false)"),
    ("Ok(false)", "Ok(true)"),
    ("(false)", "(true)"),
    ("store(true", "store(false"),
    ("= true;", "= false;"),
    ("notify_all", "notify_one"),
    ("elements as u64", "*byte_len as u64"),
    ("block.byte_len, stream.raw", "block.byte_len / 2, stream.raw"),
    (".step_by(AXIS_MAX as usize)", ".step_by(1 + AXIS_MAX as usize)"),
)


IGNORED = ".or(Ok::<_, BackendError>(Default::default()))"
CALL = r"(?:[a-z_*]\w*[\w.\[\]]*|result::\w+|transfer::\w+)[\w:.]*\(.*\)(?:\.map_err\(\w+\))?"
# How an error gets lost: what is looked for, and what takes its place.
LOST = [
    (re.compile(pattern), new)
    for pattern, new in (
        (rf"^(\s*)({CALL})\?;$", r"\1let _ = \2;"),
        (r"^(\s*)enqueued\?;$", r"\1let _ = enqueued;"),
        (r"^(\s*)\.map_err\(.*\)(\??;?)$", rf"\1{IGNORED}\2"),
        (r"\.map_err\(fault\)(?=[;})?]|$)", IGNORED),
        (r"^(\s*)Err\(\w+\) => Err\(.*\),$", r"\1Err(_) => Ok(Default::default()),"),
        (r"^(\s*)return Err\(error\);$", r"\1drop(error);"),
        (r"^(\s*)\| Code::CUDA_\w+$", ""),
        (r"^(\s*)\| Code::CUDA_\w+ => \{$", r"\1=> {"),
        (r"^(\s*)stopped\.map_or.*$", r"\1Ok(())"),
    )
]


def files(root):
    return sorted(path for path in (root / FILES).glob("*.rs"))


def mutations(source):
    for line in source.lines:
        text = line.stripped
        if not text or text.startswith(("#", "use ", "pub use", "mod ", "pub struct", "pub(crate) struct")):
            continue
        if SPEECH.search(line.code) or "BackendError::new(" in text or SAID.search(text):
            continue
        if line.function is None and "const " not in text:
            continue
        if "fn " in text:
            continue
        seen = {line.code}
        for kind, new in rules(source, line):
            if new not in seen:
                seen.add(new)
                yield line, TUNING if TUNED.search(line.code) else kind, new


def rules(source, line):
    yield from synchronise(line)
    yield from lost(line)
    yield from taken(line)
    yield from sizes(line)
    yield from order(line)
    yield from common.condition(line)
    yield from common.comparisons(line)
    yield from common.tokens(line, common.METHODS, "bound")
    if line.function is None:
        at = line.code.find("= ")
        yield from ((kind, new) for kind, new in common.code_numbers(line) if at >= 0)
        return
    yield from common.code_numbers(line)
    if not re.search(r"\bas \*|dyn |: [A-Z]\w+ \+", line.code):
        yield from common.operators(line)


def synchronise(line):
    """A step that is left out."""
    match = common.dropped(line)
    if match:
        yield "statement", match[0] + "{}"
    match = re.match(r"^(\s*)return lane\.wait\(\);$", line.code)
    if match:
        yield "statement", match[1] + "return Ok(());"
    match = re.match(r"^(\s*)let _ = (?:unsafe \{ )?.*;$", line.code)
    if match:
        yield "statement", match[1] + "{}"
    match = re.match(r"^(\s*)((?:self|lane|chunk|result|sys)\.[\w.]+\(.*\))$", line.code)
    if match and line.function and "Result<(), " in line.function.signature:
        yield "statement", match[1] + "Ok(())"


def lost(line):
    """An error that is not passed on."""
    for pattern, new in LOST:
        match = pattern.search(line.code)
        if match:
            yield "lost error", line.replace(match.start(), match.end(), match.expand(new).rstrip())


def taken(line):
    """One stream, place or state for another."""
    blank = line.outside_strings()
    for old, new in (*STREAMS, *TAKEN):
        kind = "stream" if (old, new) in STREAMS else "state"
        for match in re.finditer(re.escape(old) + (r"\b" if old[-1].isalnum() else ""), blank):
            yield kind, line.replace(match.start(), match.end(), new)
    for match in re.finditer(r"\bCUDA_ERROR_\w+", blank):
        yield "state", line.replace(match.start(), match.end(), "CUDA_ERROR_PROFILER_DISABLED")
    match = re.search(r" % CHUNKS", blank)
    if match:
        yield "state", line.replace(match.start(), match.end(), " % (CHUNKS - 1)")


def sizes(line):
    """One byte or one element less, and a place that is not added."""
    blank = line.outside_strings()
    if line.function is None or re.search(r"\bfn \w+|: usize,$|\|.*byte_len.*\| ", blank):
        return
    for match in SIZES.finditer(blank):
        before, after = blank[: match.start()].rstrip(), blank[match.end() :].lstrip()
        is_value = before.endswith(tuple("(,+=<>-/*")) and after.startswith(tuple("),;+-}"))
        if is_value and " in " not in after and " = *" not in before:
            yield "size", line.replace(match.start(), match.end(), f"({match[0]} - 1)")
    for match in PLACES.finditer(blank):
        new = match[1] or match[2].replace("READS_AT + ", "").replace(" + ", " + 4 + ")
        yield "offset", line.replace(match.start(), match.end(), new)
    for match in COUNTS.finditer(blank):
        if not match[1].startswith(("CUDA_", "CU_", "GRACE")):
            yield "count", line.replace(match.start(), match.end(), f"({match[1]} + 1)")
            yield "count", line.replace(match.start(), match.end(), f"({match[1]} - 1)")


def order(line):
    """Arguments that changed places."""
    for start, end in [*common.lists(line, "(["), *common.lists(line, "= [")]:
        yield from (("arguments", text) for _, text in common.swapped(line, start, end))
    match = re.search(r"\((\w+), (\w+)\)(?=[;,]| \})", line.code)
    if match and line.function and match[1] != match[2] and "|" not in line.code:
        yield "arguments", line.replace(match.start(), match.end(), f"({match[2]}, {match[1]})")
    match = re.search(r"grid, \(x, y, z\)", line.code)
    if match:
        yield "arguments", line.replace(match.start(), match.end(), "(x, y, z), grid")
