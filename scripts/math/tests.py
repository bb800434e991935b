"""Writes `tests/ops/math/NAME.vyre` for every elementary function: special and plain arguments, results from mpmath.

    python3 scripts/math/tests.py && vyre fmt tests/ops/math/*.vyre

Arguments are rounded to each type first; results are computed with 500 bits and rounded once.
"""

import math
import pathlib

from mpmath import inf, isnan, mp, mpf, nan

mp.prec = 500
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Name: bits of the significand, least exponent of a normal number, greatest exponent.
TYPES = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127)}
ONE = [0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 0.1, -0.1, 0.75, 1.5, 10.0, -10.0, 27.0, 100.0,
       -100.0, 1000.0, 1e4, -12345.0, 1e-3, 1e-6, -1e-7, 1e-40, 3e38]
TWO = [(a, b) for a in (0.0, -0.0, 1.0, -1.0, inf, -inf, nan) for b in (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, inf, -inf, nan)]
TWO += [(2.0, 10.0), (3.0, 4.0), (-3.0, 3.0), (-3.0, 4.0), (0.7, -1.3), (1.1, 100.0), (5.0, 11.0), (9.0, 0.5), (9.0, 1.5),
        (-8.0, 1 / 3), (1e-3, 1e4), (1e4, 1e-3), (1e-40, 3.0), (100.0, -20.0)]


def rounded(x, ty):
    """x in the type, ties to even, as an mpf, or a Python float for what mpf lacks: -0."""
    digits, low, high = TYPES[ty]
    if isnan(x) or x in (inf, -inf) or x == 0:
        return x
    exponent = max(int(mp.floor(mp.log(abs(x), 2))), low)
    # The logarithm may be off by one at a power of two.
    while abs(x) >= mpf(2) ** (exponent + 1):
        exponent += 1
    while exponent > low and abs(x) < mpf(2) ** exponent:
        exponent -= 1
    unit = mpf(2) ** (exponent - digits + 1)
    y = mp.nint(mpf(x) / unit) * unit
    if abs(y) >= mpf(2) ** (high + 1):
        return inf if y > 0 else -inf
    return y if y != 0 else math.copysign(0.0, float(mp.sign(x)))


def show(x, ty):
    if isnan(x):
        return "nan"
    if x in (inf, -inf):
        return "inf" if x > 0 else "-inf"
    if x == 0:
        return "-0.0" if math.copysign(1.0, float(x)) < 0 else "0.0"
    for digits in range(1, 20):
        text = mp.nstr(mpf(x), digits, min_fixed=-5, max_fixed=8)
        if rounded(mpf(text), ty) == x:
            break
    text = text.replace("e+", "e")
    return text if "." in text or "e" in text else text + ".0"


def sign(x):
    return math.copysign(1.0, float(x))


def odd(f, at_inf):
    """An odd function of a number; zeros keep their sign, infinities give `at_inf`."""
    def g(x):
        if x == 0:
            return x
        if abs(x) == inf:
            return at_inf * int(sign(x)) if not isnan(at_inf) else nan
        return f(mpf(x))
    return g


def plain(f, at_inf, at_minus_inf):
    def g(x):
        if abs(x) == inf:
            return at_inf if x > 0 else at_minus_inf
        return f(mpf(x))
    return g


def real(f, domain, poles=()):
    """A function on part of the line: NaN elsewhere, poles given apart."""
    def g(x):
        for pole, value in poles:
            if x == pole:
                return value
        return f(mpf(x)) if domain(x) else nan
    return g


def log(base):
    return real(lambda x: mp.log(x) / mp.log(base), lambda x: 0 < x < inf, ((0, -inf), (inf, inf)))


def sinpi(x):
    y = mp.sinpi(x)
    return math.copysign(0.0, float(x)) if y == 0 else y


def pow_(x, y):
    if y == 0 or x == 1:
        return mpf(1)
    if isnan(x) or isnan(y):
        return nan
    whole = abs(y) != inf and y == mp.floor(y)
    is_odd = whole and mp.floor(mpf(y) / 2) * 2 != y
    if x == 0 or abs(x) == inf:
        big = (x == 0) == (y < 0)
        value = inf if big else 0.0
        return -value if is_odd and sign(x) < 0 else value
    if abs(y) == inf:
        if abs(x) == 1:
            return mpf(1)
        return inf if (abs(x) > 1) == (y > 0) else 0.0
    if x < 0 and not whole:
        return nan
    value = mpf(abs(x)) ** mpf(y)
    return -value if x < 0 and is_odd else value


def atan2(y, x):
    if isnan(x) or isnan(y):
        return nan
    a, b = abs(x), abs(y)
    if inf in (a, b):
        a, b = mpf(a == inf), mpf(b == inf)
    angle = mp.pi if a == b == 0 and sign(x) < 0 else mp.atan2(b, -a if sign(x) < 0 else a)
    if angle == 0:
        return math.copysign(0.0, sign(y))
    return angle if sign(y) > 0 else -angle


def hypot(x, y):
    if inf in (abs(x), abs(y)):
        return inf
    return nan if isnan(x) or isnan(y) else mp.sqrt(mpf(x) ** 2 + mpf(y) ** 2)


def logaddexp(x, y):
    if isnan(x) or isnan(y):
        return nan
    m = max(x, y)
    return m if abs(m) == inf else mp.log(mp.exp(mpf(x)) + mp.exp(mpf(y))) if min(x, y) != -inf else mpf(m)


def gelu(x):
    return x * mp.erfc(-x / mp.sqrt(2)) / 2


def zero_kept(f):
    return lambda x: x if x == 0 else f(x)


FUNCTIONS = {
    "exp": plain(mp.exp, inf, 0.0),
    "exp2": plain(lambda x: mpf(2) ** x, inf, 0.0),
    "exp10": plain(lambda x: mpf(10) ** x, inf, 0.0),
    "expm1": zero_kept(plain(mp.expm1, inf, mpf(-1))),
    "log": log(mp.e),
    "log2": log(2),
    "log10": log(10),
    "log1p": zero_kept(real(mp.log1p, lambda x: -1 < x < inf, ((-1, -inf), (inf, inf)))),
    "sin": odd(mp.sin, nan),
    "cos": plain(mp.cos, nan, nan),
    "tan": odd(mp.tan, nan),
    "sinpi": odd(sinpi, nan),
    "cospi": plain(mp.cospi, nan, nan),
    "asin": odd(real(mp.asin, lambda x: abs(x) <= 1), nan),
    "acos": real(mp.acos, lambda x: abs(x) <= 1),
    "atan": odd(mp.atan, mp.pi / 2),
    "sinh": odd(mp.sinh, inf),
    "cosh": plain(mp.cosh, inf, inf),
    "tanh": odd(mp.tanh, mpf(1)),
    "asinh": odd(mp.asinh, inf),
    "acosh": real(mp.acosh, lambda x: 1 <= x < inf, ((inf, inf),)),
    "atanh": odd(real(mp.atanh, lambda x: abs(x) < 1, ((1, inf), (-1, -inf))), nan),
    "cbrt": odd(lambda x: mp.sign(x) * mp.cbrt(abs(x)), inf),
    "rsqrt": lambda x: math.copysign(math.inf, x) if x == 0 else 0.0 if x == inf else nan if x < 0 else 1 / mp.sqrt(x),
    "erf": odd(mp.erf, mpf(1)),
    "erfc": plain(mp.erfc, 0.0, mpf(2)),
    "sigmoid": plain(lambda x: 1 / (1 + mp.exp(-x)), mpf(1), 0.0),
    "silu": zero_kept(plain(lambda x: x / (1 + mp.exp(-x)), inf, -0.0)),
    "gelu": zero_kept(plain(gelu, inf, -0.0)),
    "softplus": plain(lambda x: mp.log1p(mp.exp(x)) if x < 300 else x + mp.exp(-x), inf, 0.0),
    "atan2": atan2,
    "pow": pow_,
    "hypot": hypot,
    "logaddexp": logaddexp,
}


def file(name, f):
    two = name in ("atan2", "pow", "hypot", "logaddexp")
    operands = ["x", "y"] if two else ["x"]
    given, wanted, buffers, lines = [], [], [], []
    for ty in TYPES:
        args = [tuple(rounded(v, ty) for v in pair) for pair in (TWO if two else [(x,) for x in ONE])]
        # One argument may have become another's equal.
        results = [rounded(f(*a), ty) if two or not isnan(a[0]) else nan for a in args]
        for at, operand in enumerate(operands):
            given.append(f"{operand}_{ty}=[{', '.join(show(a[at], ty) for a in args)}]")
            buffers.append(f"buffer @{operand}_{ty} : read {ty}[] binding {len(buffers)}")
        given.append(f"size r_{ty}={len(args)}")
        wanted.append(f"r_{ty}=[{', '.join(show(r, ty) for r in results)}]")
        buffers.append(f"buffer @r_{ty} : read_write {ty}[] binding {len(buffers)} output")
        lines += [f"%{o}_{ty} = load.{ty} @{o}_{ty}[%i]" for o in operands]
        lines += [f"%r_{ty} = {name}.{ty} {', '.join(f'%{o}_{ty}' for o in operands)}", f"store.{ty} @r_{ty}[%i], %r_{ty}"]
    text = "// Correctly rounded in every type, with IEEE 754's special cases. Written by scripts/math/tests.py.\n//@ run grid=(2,1,1)\n"
    text += "".join(f"//@+  {line}\n" for line in given) + "//@+ => " + "\n//@+    ".join(wanted) + "\n"
    body = "\n".join(f"  {line}" for line in buffers) + "\n\n  %i = global_id x\n" + "\n".join(f"  {line}" for line in lines)
    return text + f"program @{name} workgroup(64, 1, 1) {{\n{body}\n}}\n"


for name, f in FUNCTIONS.items():
    (ROOT / f"tests/ops/math/{name}.vyre").write_text(file(name, f))
