"""sin, cos, tan, sinpi, cospi, and the inverse functions asin, acos, atan, atan2."""

from mpmath import mp, mpf

from exponential import double, split
from vyre import Fn, fpminimax, table

mp.prec = 2000
# Arguments from here on are reduced with a long 2/pi.
LARGE = 2.0**15
# A number whose last bit counts ones.
UNITS = 1.5 * 2.0**52


def tables():
    # Bits of 2/pi behind the point, 64 to a word, with a word of zeros before them.
    count = 20
    bits = int(mp.floor(2 / mp.pi * mpf(2) ** (64 * count)))
    words = [0] + [(bits >> (64 * (count - 1 - i))) & (2**64 - 1) for i in range(count)]
    yield table("math.trig.two_over_pi", "u64", words)


def tangent(top, bottom, reach):
    """The quotient P(z) / Q(z) of those degrees for tan(x) / x with z = x^2, without the ones that both begin with: Q of the quotient
    that is exact at as many points as there are coefficients, and the best P for it."""
    points = [(mpf(reach) / 2) * (1 - mp.cos(mp.pi * (2 * i + 1) / (2 * (top + bottom)))) for i in range(top + bottom)]
    a, b = mp.matrix(top + bottom, top + bottom), mp.matrix(top + bottom, 1)
    for row, z in enumerate(points):
        value = mp.tan(mp.sqrt(z)) / mp.sqrt(z)
        for column in range(top):
            a[row, column] = z ** (column + 1)
        for column in range(bottom):
            a[row, top + column] = -value * z ** (column + 1)
        b[row] = value - 1
    q = [double(c) for c in mp.lu_solve(a, b)[top:]]
    below = "+".join(["1"] + [f"{c.hex()}*x^{at + 1}" for at, c in enumerate(q)])
    p = fpminimax(f"(tan(sqrt(x))/sqrt(x)*({below})-1)/x", list(range(top)), f"[1b-60;{reach}]", mode="absolute")
    return p, q


# On [-pi/4, pi/4] and a little more: the multiple that is taken away need not be the nearest.
TAN = tangent(3, 4, "0.6211")


# On [-pi/2, pi/2].
HALF_TURN = fpminimax("(sin(sqrt(x))/sqrt(x)-1)/x", list(range(8)), "[1b-60;2.4675]", mode="relative")


def remainder(f, narrow, x, kind):
    """The remainder r of x modulo pi/2 for tan, or pi for sin, and which multiple was taken, as u32; for cos of x less pi/2
    modulo pi."""
    per = 1 if kind == "tan" else 2
    p1, p2 = split(mp.pi / 2 * per)
    inverse = double(2 / mp.pi / per)
    if kind == "cos":
        k = f.let("k", f.fma(x, inverse, -0.5).round())
        n = f.let("n", k + 0.5)
        q = f.let("q", k.cast("i32").bits("u32"))
    else:
        # In these units nothing is behind the point, and the low bits are those of the whole number.
        k = f.let("k", f.fma(x, inverse, UNITS))
        n = f.let("n", k - UNITS)
        q = f.let("q", k.bits("u64").cast("u32"))
    r = f.let("r", f.fma(n, -p1, x))
    rr = f.let("near", f.fma(n, -p2, r))
    rv = f.var("r", "f64", rr)
    qv = f.var("q", "u32", q)
    large = f.let("large", narrow.abs() >= LARGE)
    with f.if_(large):
        b = f.let("b", x.bits("u64"))
        # x = m 2^e with a whole m of 24 bits (53 are stored, the low ones of an f32 are zero).
        m = f.let("m", ((b & 0xFFFFFFFFFFFFF) | 0x10000000000000) >> 29)
        e = f.let("e", ((b >> 52).cast("u32") & 2047) - 1046)
        # The bits of 2/pi that count: from 2^(2 - e) down. Those above give multiples of 4.
        at = f.let("at", e + 62)
        w = f.let("w", at >> 6)
        s = f.let("s", at & 63)
        a0 = f.let("a", f.load("math.trig.two_over_pi", "u64", w))
        a1 = f.let("a", f.load("math.trig.two_over_pi", "u64", w + 1))
        a2 = f.let("a", f.load("math.trig.two_over_pi", "u64", w + 2))
        hi = f.let("hi", (a0 << s) | ((a1 >> 1) >> (63 - s)))
        lo = f.let("lo", (a1 << s) | ((a2 >> 1) >> (63 - s)))
        # In units of 2^-62.
        v = f.let("v", m * hi + m.mul_hi(lo))
        below = f.let("below", m * lo)
        width = 61 + per
        if kind == "cos":
            turn = f.let("turn", v >> width)
            v = f.let("v", v - (1 << 62))
        else:
            turn = f.let("turn", (v + (1 << (width - 1))) >> width)
        part = f.let("part", (v - (turn << width)).bits("i64").cast("f64"))
        rest = f.let("rest", below.cast("f64"))
        # The low word decides only where the high one is small, and then it is exact.
        u = f.let("u", f.fma(rest, 2.0**-64, part))
        g = f.let("g", u * double(mp.pi / 2 / 2**62))
        t = f.let("turn", turn.cast("u32"))
        if kind != "cos":
            negative = f.let("negative", narrow < 0.0)
            g = f.let("g", f.select(negative, -g, g))
            t = f.let("turn", f.select(negative, 0 - t, t))
        # Infinities have no remainder.
        f.set(rv, f.let("g", f.select(narrow.abs().eq(float("inf")), float("nan"), g)))
        f.set(qv, t)
    return f.get(rv), f.get(qv)


def by_quadrant(f, q, s, c, kind):
    """The function of an angle from sine and cosine of its remainder."""
    odd = f.let("odd", f.op("ne", "u32", q & 1, 0))
    if kind == "tan":
        n = f.let("n", f.select(odd, c, s))
        d = f.let("d", f.select(odd, -s, c))
        return n / d
    if kind.startswith("cos"):
        q = f.let("q", q + 1)
        s, c = c, s
    y = f.let("y", f.select(odd, c, s))
    flip = f.let("flip", f.op("ne", "u32", q & 2, 0))
    return f.select(flip, -y, y)


def trig(kind):
    """x modulo pi, or pi/2 for the tangent: below 2^15 by subtracting k pi in two parts, the first of them exactly; from there on
    by multiplying the 24 bits of x with the 128 bits of 2/pi that matter for its exponent. Both leave a relative error of
    2^-53. Sine and cosine are one polynomial for the sine on [-pi/2, pi/2], off by 2^-60: the cosine is that of an angle a
    quarter turn on. The tangent is a quotient of two polynomials on [-pi/4, pi/4], off by 2^-57. At most 3 units of f64."""
    f = Fn(f"math.{kind}.wide", [("x", "f32")], "f64")
    (x0,) = f.params
    x = f.let("wide", x0.cast("f64"))
    r, q = remainder(f, x0, x, kind)
    z = f.let("z", r * r)
    if kind == "tan":
        top, bottom = [f.let(name, f.fma(z, f.poly(z, part), 1.0)) for name, part in zip(("top", "bottom"), TAN)]
        y = f.let("y", by_quadrant(f, q, f.let("top", top * r), bottom, kind))
    else:
        # As a product, which keeps the sign of zero.
        y = f.let("y", f.fma(z, f.poly(z, HALF_TURN), 1.0) * r)
        flip = f.let("flip", f.op("eq" if kind == "cos" else "ne", "u32", q & 1, 0))
        y = f.let("y", f.select(flip, -y, y))
    return f.ret(y)


SINPI = fpminimax("(sin(pi*sqrt(x))/sqrt(x)-pi)/x", [0, 1, 2, 3, 4, 5], "[1b-60;0.0626]", mode="relative")
COSPI = fpminimax("(cos(pi*sqrt(x))-1)/x", [0, 1, 2, 3, 4, 5, 6], "[1b-60;0.0626]", mode="relative")
# On [-1/2, 1/2].
WHOLE_TURN = fpminimax("(sin(pi*sqrt(x))/sqrt(x)-pi)/x", list(range(8)), "[1b-60;0.2501]", mode="relative")


def trigpi(kind):
    """r = x - k with the nearest whole k is exact, and k tells the sign. The sine of pi r is one polynomial on [-1/2, 1/2], off by
    2^-60, with pi in two parts; the cosine is that of 1/2 - |r|. At most 1.5 units of f64."""
    f = Fn(f"math.{kind}.wide", [("x", "f32")], "f64")
    (x,) = f.params
    k = f.let("k", x.round())
    r = f.let("r", x - k)
    half = f.let("half", k * 0.5)
    odd = f.let("odd", half.ne(half.trunc()))
    if kind == "sinpi":
        zero = f.let("zero", r.eq(0.0))
        r = f.let("r", f.select(odd, -r, r))
        r = f.let("r", f.select(zero, f.op("copysign", "f32", 0.0, x), r))
        wide = r = f.let("wide", r.cast("f64"))
    else:
        a = f.let("a", r.abs())
        a = f.let("a", f.select(odd, a, -a))
        r = f.let("wide", a.cast("f64") + f.let("start", f.select(odd, -0.5, 0.5)))
    z = f.let("z", r * r)
    pi, pi_lo = split(mp.pi)
    h = f.let("h", r * pi)
    l = f.let("l", f.fma(r, pi_lo, f.fma(r, pi, -h)))
    y = f.let("y", f.fma(f.let("cube", z * r), f.poly(z, WHOLE_TURN), l) + h)
    return f.ret(f.select(zero, wide, y) if kind == "sinpi" else y)


def half_turns(f, x, x0, kind):
    """Sine or cosine of x half turns; of sinpi a zero has the sign of x0, of cospi it is positive."""
    k = f.let("k", (x + x).round())
    r = f.let("r", f.fma(k, -0.5, x))
    q = f.let("q", k.cast("i32").bits("u32"))
    z = f.let("z", r * r)
    pi, pi_lo = split(mp.pi)
    h = f.let("h", r * pi)
    l = f.let("l", f.fma(r, pi, -h) + r * pi_lo)
    s = f.let("sine", f.fma(f.let("cube", z * r), f.estrin(z, SINPI), l) + h)
    c = f.let("cosine", f.fma(z, f.estrin(z, COSPI), 1.0))
    y = f.let("y", by_quadrant(f, q, s, c, kind))
    zero = f.let("zero", y.eq(0.0))
    return f.select(zero, f.let("none", f.op("copysign", "f64", 0.0, x0)) if kind == "sinpi" else 0.0, y)


ASIN = fpminimax("(asin(sqrt(x))/sqrt(x)-1)/x", list(range(13)), "[1b-60;0.2501]", mode="relative")


def arcsine_core(f, far, a, poly):
    """For 0 <= a <= 1 and whether a > 1/2: asin(a), or asin(sqrt((1 - a) / 2)) for those, as its argument squared, the
    argument, and a polynomial."""
    z = f.let("z", f.select(far, f.fma(a, -0.5, 0.5), a * a))
    s = f.let("s", f.select(far, z.sqrt(), a))
    return z, s, poly(z, ASIN)


def asin():
    """Beyond 1/2: pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    f = Fn("math.asin.wide", [("x", "f32")], "f64")
    (x,) = f.params
    far = f.let("far", x > 0.5)
    z, s, p = arcsine_core(f, far, f.let("wide", x.cast("f64")), f.poly)
    y = f.let("y", f.fma(z * s, p, s))
    g = f.let("g", f.fma(y, -2.0, double(mp.pi / 2)))
    return f.ret(f.select(far, g, y))


def acos():
    """2 asin(sqrt((1 - x) / 2)) for x > 1/2, pi less that of -x for x < -1/2, pi/2 - asin(x) between."""
    f = Fn("math.acos.wide", [("x", "f32")], "f64")
    (x,) = f.params
    a = f.let("a", x.abs())
    far = f.let("far", a > 0.5)
    z, s, p = arcsine_core(f, far, f.let("wide", a.cast("f64")), f.poly)
    y = f.let("y", f.fma(z * s, p, s))
    # One of 2 y, pi - 2 y, pi/2 - y and pi/2 + y.
    positive = f.let("positive", x > 0.0)
    times = f.let("times", f.select(far, 2.0, 1.0))
    signed = f.let("signed", f.select(f.let("same", f.op("eq", "bool", positive, far)), times, -times))
    start = f.let("start", f.select(positive, 0.0, double(mp.pi)))
    start = f.let("start", f.select(far, start, double(mp.pi / 2)))
    return f.ret(f.fma(signed, y, start))


def atan_tables():
    yield table("math.atan.center", "f64", [double(mp.atan(mpf(i) / 16)) for i in range(17)] + [0.0] * 15)


ATAN = fpminimax("(atan(sqrt(x))/sqrt(x)-1)/x", list(range(6)), "[1b-60;0.00098]", mode="relative")
ATAN_WIDER = fpminimax("(atan(sqrt(x))/sqrt(x)-1)/x", list(range(6)), "[1b-60;0.003907]", mode="relative")
# Centers: four to a power of two from 1/16 to 16, with 0 before and infinity behind them.
FIRST, LAST = -4, 4


def atan_centers():
    steps = [mpf(2) ** e * (1 + mpf(2 * n + 1) / 8) for e in range(FIRST, LAST) for n in range(4)]
    yield table("math.atan.middle", "f64", [0.0] + [double(mp.atan(c)) for c in steps] + [double(mp.pi / 2)])


def atan():
    """atan(c) + atan((x - c) / (1 + x c)) with a center c near x, which has two bits behind the first; below 1/16 it is 0, from 16
    on infinite, and the second argument is -1 / x. That is below 1/16 in all cases."""
    f = Fn("math.atan.wide", [("x", "f32")], "f64")
    (x,) = f.params
    small, large = f.let("small", x < 2.0**FIRST), f.let("large", x >= 2.0**LAST)
    b = f.let("b", x.bits("u32"))
    first = ((127 + FIRST) << 2) - 1
    i = f.let("i", f.op("min", "u32", f.op("max", "u32", b >> 21, first) - first, 4 * (LAST - FIRST) + 1))
    c = f.let("c", ((b & 0xFFE00000) | 0x100000).bits("f32"))
    c = f.let("c", f.select(small, 0.0, c).cast("f64"))
    wide = f.let("wide", x.cast("f64"))
    num = f.let("num", f.select(large, -1.0, wide - c))
    den = f.let("den", f.select(large, wide, f.fma(wide, c, 1.0)))
    t = f.let("t", num / den)
    z = f.let("z", t * t)
    p = f.let("p", f.fma(z * t, f.poly(z, ATAN_WIDER), t))
    return f.ret(p + f.load("math.atan.middle", "f64", i))


def atan_index():
    """The number of sixteenths nearest to n / d, give or take; f32 is enough for that."""
    f = Fn("math.atan.index", [("n", "f64"), ("d", "f64")], "u32")
    n, d = f.params
    guess = f.let("guess", n.cast("f32") / d.cast("f32"))
    return f.ret((guess * 16.0).round().cast("u32") & 31)


def text():
    yield from tables()
    yield from atan_tables()
    yield from atan_centers()
    for kind in ("sin", "cos", "tan"):
        yield trig(kind)
    yield trigpi("sinpi")
    yield trigpi("cospi")
    yield asin()
    yield acos()
    yield atan()
    yield atan_index()
