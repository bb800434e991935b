"""log, log2, log10, log1p and what is made of them: asinh, acosh, atanh."""

import math
import struct

from mpmath import mp, mpf

from exponential import double
from vyre import Fn, fpminimax, table

mp.prec = 400
BITS = 6
N = 1 << BITS
SHIFT = 52 - BITS
# The point m runs over the binade from here up. The start is half a step off a multiple, so that 1 is inside a step.
OFF = 0x3FE6200000000000


def f64(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def intervals():
    return [(f64(OFF + (i << SHIFT)), f64(OFF + ((i + 1) << SHIFT))) for i in range(N)]


def inverses():
    out = []
    for lo, hi in intervals():
        if lo <= 1.0 < hi:
            out.append(1.0)
        else:
            # A few bits are enough, and make the products that follow exact for f32 arguments.
            out.append(round(2 / (lo + hi) * 2**12) / 2**12)
    return out


def radius():
    return max(max(abs(lo * c - 1), abs(hi * c - 1)) for (lo, hi), c in zip(intervals(), inverses()))


def tables():
    """The inverses, and for every base each of them beside its logarithm: they are read together."""
    inv = inverses()
    yield table("math.log.inverse", "f64", inv)
    for name, base in (("log", mp.e), ("log2", mpf(2)), ("log10", mpf(10))):
        rows = [(c, double(-mp.log(c) / mp.log(base))) for c in inv]
        yield table(f"math.{name}.centers", "f64", [value for row in rows for value in row])


def parts(f, z, row=1):
    """z = 2^k m for z > 0, and the number i of m's step times `row`: k, i, m. Everything that decides is in the upper word."""
    b = f.let("b", z.bits("u64"))
    upper = f.let("upper", (b >> 32).cast("u32"))
    d = f.let("d", upper - (OFF >> 32))
    i = f.let("i", (d >> (SHIFT - 31 - row)) & (row * (N - 1)))
    k = f.let("k", (d.bits("i32") >> 20).cast("f64"))
    m = f.let("m", (upper - (d & 0xFFF00000)).cast("u64") << 32)
    return k, i, f.let("m", (m | (b & 0xFFFFFFFF)).bits("f64"))


def log_of(f, z, lost, name="log", base=mp.e, is_above=False):
    """The logarithm of z > 0, with what z lost by rounding, which counts where z is near 1. Where it `is_above`, results are rounded
    once in their own units and come out above by up to one of these for a large z: fewer arguments are hard so for asinh."""
    k, at, m = parts(f, z, 2)
    c = f.let("c", f.load(f"math.{name}.centers", "f64", at))
    center = f.let("center", f.load(f"math.{name}.centers", "f64", at + 1))
    r = f.let("r", f.fma(m, c, -1.0))
    if lost is not None:
        r = f.let("r", f.fma(lost, c, r))
    scale = 1 / mp.log(base)
    step = double(mp.log(2) * scale)
    if not is_above:
        h = f.let("h", f.fma(k, step, center))
    rad, s = mp.nstr(mpf(radius()) * mpf(1.001), 20), mp.nstr(scale, 60)
    if base == mp.e:
        co = fpminimax("(log1p(x)-x)/x^2", [0, 1, 2, 3, 4, 5], f"[-{rad};{rad}]", mode="absolute")
        t = f.let("t", f.fma(f.let("x2", r * r), f.poly(r, co), r))
    else:
        co = fpminimax(f"(log1p(x)-x)*{s}/x^2", [0, 1, 2, 3, 4, 5], f"[-{rad};{rad}]", mode="absolute")
        # The first coefficient in two parts: near 1 the result is little more than its product with r.
        c_lo = double(scale - mpf(double(scale)))
        hi = f.let("first", r * double(scale))
        lo = f.let("rest", f.fma(r, c_lo, f.fma(r, double(scale), -hi)))
        t = f.let("t", f.fma(f.let("x2", r * r), f.poly(r, co), lo) + hi)
    if is_above:
        return f.let("y", f.fma(k, math.nextafter(step, math.inf), center + t))
    return f.let("y", h + t)


def log(name, base):
    """log(x) with x = 2^k m: k log(2) - log(c) + log(1 + r), where c of the table is near 1 / m and r = m c - 1, exact for f32,
    below 2^-7. Around 1 c is 1 and k is 0, so the result keeps its relative accuracy. The polynomial is off by 2^-64, the
    sums round to at most 1.5 units of f64."""
    f = Fn(f"math.{name}.wide", [("x", "f32")], "f64")
    (x,) = f.params
    y = log_of(f, f.let("z", x.cast("f64")), None, name, base)
    return f.ret(outside(f, y, x, 0.0, float("-inf")))


def outside(f, y, x, pole, at_pole):
    """y, but infinity at infinity, `at_pole` at the pole and NaN below it."""
    regular = f.let("regular", (x > pole) & (x < float("inf")))
    other = f.let("special", f.select(x > pole, float("inf"), float("nan")))
    other = f.let("special", f.select(x.eq(pole), at_pole, other))
    return f.let("y", f.select(regular, y, other))


def log1p():
    """As log of z = 1 + x, with what the sum lost; from 1 on that does not matter, and would be in other units."""
    f = Fn("math.log1p.wide", [("x", "f32")], "f64")
    (x,) = f.params
    wide = f.let("wide", x.cast("f64"))
    z = f.let("z", wide + 1.0)
    lost = f.let("lost", f.select(x < 1.0, wide - (z - 1.0), 0.0))
    y = outside(f, log_of(f, z, lost), x, -1.0, float("-inf"))
    # Also for the sign of zero.
    return f.ret(f.select(x.abs() < 2.0**-60, wide, y))


def one_more():
    """log(1 + e) for 0 <= e <= 1."""
    f = Fn("math.log.one_more", [("e", "f64")], "f64")
    (e,) = f.params
    z = f.let("z", e + 1.0)
    return f.ret(log_of(f, z, f.let("lost", e - (z - 1.0))))


def asinh():
    """log(x + w) with w = sqrt(1 + x^2). Below 1/2, where the result is small, what the roundings lost counts: the rest of the sum,
    and half of how much w^2 is less than 1 + x^2, because w is near 1. x^2 is exact."""
    f = Fn("math.asinh.wide", [("x", "f32")], "f64")
    (x,) = f.params
    wide = f.let("wide", x.cast("f64"))
    square = f.let("square", wide * wide)
    w = f.let("w", (square + 1.0).sqrt())
    z = f.let("z", wide + w)
    more = f.let("more", f.fma(w, w, -1.0) - square)
    lost = f.let("lost", f.fma(more, -0.5, wide - (z - w)))
    lost = f.let("lost", f.select(x < 0.5, lost, 0.0))
    # What is added is nothing but for infinity and NaN, whose logarithm would be some number.
    return f.ret(f.fma(wide, 2.0**-1000, log_of(f, z, lost, is_above=True)))


def acosh():
    """log(x + w) with w = sqrt(x^2 - 1), whose square is rounded once. Near 1 the rest of the sum counts."""
    f = Fn("math.acosh.wide", [("x", "f32")], "f64")
    (x,) = f.params
    wide = f.let("wide", x.cast("f64"))
    w = f.let("w", f.fma(wide, wide, -1.0).sqrt())
    z = f.let("z", wide + w)
    lost = f.let("lost", f.select(x < 1.25, w - (z - wide), 0.0))
    y = log_of(f, z, lost)
    other = f.let("special", f.select(x > 1.0, float("inf"), float("nan")))
    return f.ret(f.select((x >= 1.0) & (x < float("inf")), y, other))


def atanh():
    """log1p(u) / 2 with u = 2 x / (1 - x)."""
    f = Fn("math.atanh.wide", [("x", "f32")], "f64")
    (x,) = f.params
    wide = f.let("wide", x.cast("f64"))
    u = f.let("u", (wide + wide) / (1.0 - wide))
    z = f.let("z", u + 1.0)
    lost = f.let("lost", f.select(x < 0.3125, u - (z - 1.0), 0.0))
    y = f.let("y", log_of(f, z, lost) * 0.5)
    other = f.let("special", f.select(x.eq(1.0), float("inf"), float("nan")))
    return f.ret(f.select(x < 1.0, y, other))


def text():
    yield from tables()
    yield log("log", mp.e)
    yield log("log2", mpf(2))
    yield log("log10", mpf(10))
    yield log1p()
    yield one_more()
    yield asinh()
    yield acosh()
    yield atanh()
