"""cbrt, rsqrt, hypot, erf, erfc, and the compounds silu, gelu, softplus, logaddexp."""

from mpmath import mp, mpf

from exponential import double, split
from vyre import Fn, fpminimax, table

mp.prec = 400


def cbrt():
    """A third of the exponent gives 5 bits, a polynomial in t^3 / x 24, a Halley step the rest."""
    f = Fn("math.cbrt.wide", [("x", "f64")], "f64")
    (x,) = f.params
    a = f.let("a", x.abs())
    h = f.let("h", (a.bits("u64") >> 32).cast("u32").mul_hi(0x55555556))
    bias = int((1023 - 1023 / 3 - 0.03306) * 2**20)
    t = f.let("t", ((h + bias).cast("u64") << 32).bits("f64"))
    q = f.let("q", (t * t) * (t / a))
    c = fpminimax("x^(-1/3)", [0, 1, 2, 3, 4], "[0.88;1.13]", mode="relative")
    t = f.let("t", t * f.estrin(q, c))
    s = f.let("s", a / (t * t))
    d = f.let("d", (s - t) / (t + t + s))
    y = f.let("y", f.fma(t, d, t).copysign(x))
    same = f.let("same", a.eq(0.0))
    same = f.let("same", f.op("or", "bool", same, f.op("not", "bool", a < float("inf"))))
    return f.ret(f.select(same, x, y))


def rsqrt():
    """Two roundings, at most 1 unit of f64."""
    f = Fn("math.rsqrt.wide", [("x", "f64")], "f64")
    (x,) = f.params
    return f.ret(1.0 / x.sqrt())


def hypot():
    """sqrt(x^2 + y^2), rounded to odd: the remainder says on which side of the root the true value lies, and an odd last
    bit keeps that through the rounding that follows. Squares of f32 values are exact in f64."""
    f = Fn("math.hypot.wide", [("x", "f64"), ("y", "f64")], "f64")
    x, y = f.params
    a, b = f.let("a", x * x), f.let("b", y * y)
    s = f.let("s", a + b)
    v = f.let("v", s - a)
    e = f.let("e", (a - f.let("u", s - v)) + (b - v))
    w = f.let("w", s.sqrt())
    d = f.let("d", f.fma(-w, w, s) + e)
    bits = f.let("bits", w.bits("u64"))
    down = f.let("down", d < 0.0)
    odd = f.let("odd", (f.select(down, bits - 1, bits) | 1).bits("f64"))
    inexact = f.let("inexact", f.op("or", "bool", down, d > 0.0))
    w = f.let("w", f.select(inexact, odd, w))
    either = f.let("either", f.op("or", "bool", a.eq(float("inf")), b.eq(float("inf"))))
    return f.ret(f.select(either, float("inf"), w))


# Centers of erf and erfc are the multiples of this, up to where everything narrow is 1 or 0.
STEP = 1 / 64
ERF_LAST, ERFC_LAST = 256, 656


def erf_tables():
    centers = [mpf(i) * STEP for i in range(ERFC_LAST + 1)]
    yield table("math.erf.slope", "f64", [double(2 / mp.sqrt(mp.pi) * mp.exp(-c * c)) for c in centers])
    yield table("math.erf.center", "f64", [double(mp.erf(c)) for c in centers[: ERF_LAST + 1]])
    yield table("math.erfc.center", "f64", [double(mp.erfc(c)) for c in centers])


def erf_rise(f, k, r, degrees):
    """The center's index, the slope at the center c = k / 64, and with it erf(c + r) - erf(c) for |r| <= 1/128.

    That is the integral of exp(-2 c t - t^2) over t from 0 to r, times the slope. In t^2 it is a series of few terms, whose
    factors are the integrals of t^m exp(-2 c t): series in u = 2 c r. What is cut off is below 2^-56 of the result."""
    i = f.let("i", k.cast("i32").bits("u32"))
    slope = f.let("slope", f.load("math.erf.slope", "f64", i))
    w = f.let("w", k * r)
    v = f.let("v", r * r)
    sums = []
    for half, top in enumerate(degrees):
        m, scale = 2 * half, mpf(-1) ** half / mp.factorial(half)
        sums.append(f.estrin(w, [
            double(scale * (-2 * mpf(STEP)) ** n / mp.factorial(n) / (n + m + 1)) for n in range(top + 1)
        ]))
    total = sums.pop()
    while sums:
        total = f.let("p", f.fma(v, total, sums.pop()))
    return i, slope, f.let("rise", r * total)


def erf():
    """A table of erf at multiples of 1/64, and the way from there. Beyond 4 it is 1 in every narrow type. At most 3 units."""
    f = Fn("math.erf.wide", [("x", "f64")], "f64")
    (x,) = f.params
    a = f.let("a", x.abs())
    a = f.let("a", f.select(a > ERF_LAST * STEP, ERF_LAST * STEP, a))
    k = f.let("k", (a * (1 / STEP)).round())
    i, slope, rise = erf_rise(f, k, f.let("r", f.fma(k, -STEP, a)), (7, 4, 2, 0))
    return f.ret(f.fma(slope, rise, f.load("math.erf.center", "f64", i)).copysign(x))


def erfc_core():
    """erfc(k / 64 + r) for 0 <= k <= 656, as erf."""
    f = Fn("math.erfc.core", [("k", "f64"), ("r", "f64")], "f64")
    k, r = f.params
    i, slope, rise = erf_rise(f, k, r, (11, 7, 4, 2))
    return f.ret(f.fma(-slope, rise, f.load("math.erfc.center", "f64", i)))


def erfc():
    """Of the magnitude, and 2 less that below 0. Beyond the table it rounds to 0 in every narrow type."""
    f = Fn("math.erfc.wide", [("x", "f64")], "f64")
    (x,) = f.params
    a = f.let("a", x.abs())
    a = f.let("a", f.select(a > ERFC_LAST * STEP, ERFC_LAST * STEP, a))
    k = f.let("k", (a * (1 / STEP)).round())
    y = f.let("y", f.call("math.erfc.core", k, f.let("r", f.fma(k, -STEP, a))))
    return f.ret(f.select(x < 0.0, 2.0 - y, y))


def gelu():
    """x / 2 * erfc(-x / sqrt(2)), with 1 / sqrt(2) in two parts. Beyond the table it rounds to 0 in every narrow type."""
    f = Fn("math.gelu.wide", [("x", "f64")], "f64")
    (x,) = f.params
    inverse, inverse_low = split(1 / mp.sqrt(2))
    last = 14.4
    a = f.let("a", x.abs())
    a = f.let("a", f.select(a > last, last, a))
    k = f.let("k", (a * (inverse / STEP)).round())
    r = f.let("r", f.fma(a, inverse_low, f.fma(a, inverse, -(k * STEP))))
    y = f.let("y", f.call("math.erfc.core", k, r))
    y = f.let("y", f.select(x > 0.0, 2.0 - y, y))
    h = f.let("held", f.select(x < -last, -last, x))
    return f.ret(beyond_half(f, x, f.let("r", (h * 0.5) * y)))


def beyond_half(f, x, y):
    """Near 0 the result is x / 2 and a little more, which f64 cannot hold; but x / 2 may lie halfway between two narrow
    numbers, so a unit of that little is added."""
    half = f.let("half", x * 0.5).bits("u64")
    more = f.let("more", f.select(x > 0.0, half + 1, half - 1).bits("f64"))
    tiny = f.let("tiny", (x.abs() < 2.0**-60) & x.ne(0.0))
    return f.select(tiny, more, y)


def silu():
    """x / (1 + exp(-x))."""
    f = Fn("math.silu.wide", [("x", "f64")], "f64")
    (x,) = f.params
    h = f.let("held", f.select(x < -200.0, -200.0, x))
    y = f.let("y", h / (f.call("math.exp.wide", -h) + 1.0))
    return f.ret(beyond_half(f, x, y))


def softplus():
    """log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|))."""
    f = Fn("math.softplus.wide", [("x", "f64")], "f64")
    (x,) = f.params
    e = f.let("e", f.call("math.exp.wide", -x.abs()))
    l = f.let("l", f.call("math.log1p.wide", e))
    return f.ret(f.select(x > 0.0, x + l, l))


def logaddexp():
    """log(exp(x) + exp(y)) as max + log1p(exp(-|x - y|))."""
    f = Fn("math.logaddexp.wide", [("x", "f64"), ("y", "f64")], "f64")
    x, y = f.params
    d = f.let("d", (x - y).abs())
    # Equal infinities differ by nothing.
    d = f.let("d", f.select(x.eq(y), 0.0, d))
    m = f.let("m", f.select(x > y, x, y))
    l = f.let("l", f.call("math.log1p.wide", f.call("math.exp.wide", -d)))
    r = f.let("r", m + l)
    return f.ret(r)


def text():
    yield cbrt()
    yield rsqrt()
    yield hypot()
    yield from erf_tables()
    yield erf()
    yield erfc_core()
    yield erfc()
    yield gelu()
    yield silu()
    yield softplus()
    yield logaddexp()
