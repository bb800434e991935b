"""log, log2, log10, log1p and what is made of them: asinh, acosh, atanh."""

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
    inv = inverses()
    yield table("math.log.inverse", "f64", inv)
    for name, base in (("log", mp.e), ("log2", mpf(2)), ("log10", mpf(10))):
        yield table(f"math.{name}.center", "f64", [double(-mp.log(c) / mp.log(base)) for c in inv])


def log(name, base, one_plus):
    """log(z) with z = 2^k m: k log(2) - log(c) + log(1 + r), where c of the table is near 1 / m and r = m c - 1, exact for f32,
    below 2^-7. Around 1 c is 1 and k is 0, so the result keeps its relative accuracy. The polynomial is off by 2^-64, the
    sums round to at most 1.5 units of f64."""
    scale = 1 / mp.log(base)
    full = "log1p" if one_plus else name
    f = Fn(f"math.{full}.wide", [("x", "f64")], "f64")
    (x,) = f.params
    if one_plus:
        z = f.let("z", x + 1.0)
        # What the sum lost; from 1 on that does not matter, and would be in other units.
        lost = f.let("lost", f.select(x < 1.0, x - (z - 1.0), 0.0))
    else:
        z = x
    b = f.let("b", z.bits("u64"))
    d = f.let("d", b - OFF)
    i = f.let("i", (d >> SHIFT).cast("u32") & (N - 1))
    k = f.let("k", (d.bits("i64") >> 52).cast("i32").cast("f64"))
    m = f.let("m", (b - (d & 0xFFF0000000000000)).bits("f64"))
    c = f.let("c", f.load("math.log.inverse", "f64", i))
    r = f.let("r", f.fma(m, c, -1.0))
    if one_plus:
        r = f.let("r", f.fma(lost, c, r))
    h = f.let("h", f.fma(k, double(mp.log(2) * scale), f.load(f"math.{name}.center", "f64", i)))
    rad = mp.nstr(mpf(radius()) * mpf(1.001), 20)
    s = mp.nstr(scale, 60)
    if base == mp.e:
        co = fpminimax("(log1p(x)-x)/x^2", [0, 1, 2, 3, 4, 5], f"[-{rad};{rad}]", mode="absolute")
        t = f.let("t", f.fma(r * r, f.estrin(r, co), r))
    else:
        co = fpminimax(f"(log1p(x)-x)*{s}/x^2", [0, 1, 2, 3, 4, 5], f"[-{rad};{rad}]", mode="absolute")
        q = f.estrin(r, co)
        # The first coefficient in two parts: near 1 the result is little more than its product with r.
        c_lo = double(scale - mpf(double(scale)))
        hi = f.let("first", r * double(scale))
        lo = f.let("rest", f.fma(r, double(scale), -hi) + r * c_lo)
        t = f.let("t", f.fma(r * r, q, lo) + hi)
    y = f.let("y", h + t)
    regular = f.let("regular", (z > 0.0) & (z < float("inf")))
    other = f.let("special", f.select(z > 0.0, z, float("nan")))
    other = f.let("special", f.select(z.eq(0.0), float("-inf"), other))
    y = f.let("y", f.select(regular, y, other))
    if one_plus:
        # Below this the result is x, and the sign of zero with it.
        y = f.select(x.abs() < 2.0**-60, x, y)
    return f.ret(y)


def asinh():
    """With a = |x|: log1p(a + a^2 / (1 + sqrt(1 + a^2))); beyond 2^30 that is log(2 a)."""
    f = Fn("math.asinh.wide", [("x", "f64")], "f64")
    (x,) = f.params
    a = f.let("a", x.abs())
    s = f.let("s", a * a)
    d = f.let("d", f.fma(a, a, 1.0).sqrt() + 1.0)
    u = f.let("u", a + s / d)
    u = f.let("u", f.select(a > 2.0**60, a + a, u))
    y = f.let("y", f.call("math.log1p.wide", u))
    return f.ret(y.copysign(x))


def acosh():
    """With t = x - 1: log1p(t + sqrt(t (t + 2)))."""
    f = Fn("math.acosh.wide", [("x", "f64")], "f64")
    (x,) = f.params
    t = f.let("t", x - 1.0)
    u = f.let("u", t + f.fma(t, t, t + t).sqrt())
    # Far below 1 the root is |t|, and the sum would be 0.
    u = f.let("u", f.select(t < 0.0, float("nan"), u))
    return f.ret(f.call("math.log1p.wide", u))


def atanh():
    """With a = |x|: log1p(2 a / (1 - a)) / 2."""
    f = Fn("math.atanh.wide", [("x", "f64")], "f64")
    (x,) = f.params
    a = f.let("a", x.abs())
    u = f.let("u", (a + a) / (1.0 - a))
    y = f.let("y", f.call("math.log1p.wide", u) * 0.5)
    return f.ret(y.copysign(x))


def text():
    yield from tables()
    yield log("log", mp.e, False)
    yield log("log2", mpf(2), False)
    yield log("log10", mpf(10), False)
    yield log("log", mp.e, True)
    yield asinh()
    yield acosh()
    yield atanh()
