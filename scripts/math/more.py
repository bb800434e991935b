"""cbrt, rsqrt, hypot, erf, erfc, and the compounds silu, gelu, softplus, logaddexp."""

from mpmath import mp, mpf

from exponential import N as EXP_N
from exponential import double, exp_reduced, reduced, split
from vyre import Fn, fpminimax, single, table

mp.prec = 400


# The upper word of 1, four thirds of it, less what makes the products t^3 x lie evenly about 1.
CBRT_START = 0x553EF46C


def cbrt():
    """A third of the exponent gives t near x^(-1/3) to 5 bits, and a polynomial in x t^3 25. Then x t^2 is near the root, and what
    x t^3 lacks to 1 gives the rest: no division."""
    f = Fn("math.cbrt.wide", [("x", "f32")], "f64")
    (x,) = f.params
    a = f.let("a", x.cast("f64"))
    h = f.let("h", (a.bits("u64") >> 32).cast("u32").mul_hi(0x55555556))
    t = f.let("t", ((CBRT_START - h).cast("u64") << 32).bits("f64"))
    q = f.let("q", (a * t) * (t * t))
    c = fpminimax("x^(-1/3)", [0, 1, 2, 3, 4], "[0.9;1.112]", mode="relative")
    t = f.let("t", t * f.poly(q, c))
    s = f.let("s", (a * t) * t)
    e = f.let("e", f.fma(-s, t, 1.0))
    # (1 - e)^(-2/3).
    y = f.let("y", f.fma(s * e, f.fma(e, 5.0 / 9.0, 2.0 / 3.0), s))
    regular = f.let("regular", (x > 0.0) & (x < float("inf")))
    return f.ret(f.select(regular, y, a))


def rsqrt():
    """Two roundings, at most 1 unit of f64."""
    f = Fn("math.rsqrt.wide", [("x", "f32")], "f64")
    (x,) = f.params
    return f.ret(1.0 / x.cast("f64").sqrt())


def hypot():
    """sqrt(x^2 + y^2), rounded to odd: the remainder says on which side of the root the true value lies, and an odd last
    bit keeps that through the rounding that follows. Squares of f32 values are exact in f64."""
    f = Fn("math.hypot.wide", [("x", "f32"), ("y", "f32")], "f64")
    narrow = f.params
    x, y = (f.let("wide", v.cast("f64")) for v in narrow)
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
    x, y = narrow
    either = f.let("either", x.abs().eq(float("inf")) | y.abs().eq(float("inf")))
    return f.ret(f.select(either, float("inf"), w))


# Centers of erf and erfc are the multiples of this, up to where everything narrow is 1 or 0.
STEP = 1 / 64
ERF_LAST, ERFC_LAST = 256, 656


def erf_tables():
    """Slope and value at every center, side by side: they are read together."""
    for name, function, sign, last in (("erf", mp.erf, 1, ERF_LAST), ("erfc", mp.erfc, -1, ERFC_LAST)):
        centers = [mpf(i) * STEP for i in range(last + 1)]
        rows = [(double(sign * 2 / mp.sqrt(mp.pi) * mp.exp(-c * c)), double(function(c))) for c in centers]
        yield table(f"math.{name}.centers", "f64", [value for row in rows for value in row])


def erf_parts(f, name, i, k, r, narrow, degrees, exact):
    """The value at the center c = k / 64, the slope there, and with it how much erf(c + r) is more for |r| <= 1/128.

    That is the integral of exp(-2 c t - t^2) over t from 0 to r, times the slope. In t^2 it is a series of few terms, whose
    factors are the integrals of t^m exp(-2 c t): series in u = 2 c r. What is cut off is below 2^-56 of the result. The terms
    from the degrees `exact` on are below 2^-28 together, so they are added up in f32, of `narrow` = (k r, r)."""
    at = f.let("at", f.op("min", "u32", i, {"erf": ERF_LAST, "erfc": ERFC_LAST}[name]) << 1)
    slope = f.let("slope", f.load(f"math.{name}.centers", "f64", at))
    value = f.let("value", f.load(f"math.{name}.centers", "f64", at + 1))
    series = []
    for half, top in enumerate(degrees):
        m, scale = 2 * half, mpf(-1) ** half / mp.factorial(half)
        series.append([
            double(scale * (-2 * mpf(STEP)) ** n / mp.factorial(n) / (n + m + 1)) for n in range(top + 1)
        ])
    w, v = narrow[0], f.let("v", narrow[1] * narrow[1])
    powers = {1: w}
    for n in (2, 4):
        powers[n] = f.let(f"w{n}", powers[n // 2] * powers[n // 2])
    total = None
    for coefficients, first in reversed(list(zip(series, exact))):
        part = f.poly(w, [single(c) for c in coefficients[first:]])
        for n in (4, 2, 1):
            if first & n:
                part = f.let("p", part * powers[n])
        total = part if total is None else f.let("p", f.fma(v, total, part))
    small = f.let("small", total.cast("f64"))
    w, v = f.let("w", k * r), f.let("v", r * r)
    total = small
    for coefficients, first in reversed(list(zip(series, exact))):
        if first == 1:
            total = f.let("p", f.fma(v, coefficients[0], total))
        elif first > 0:
            part = f.poly(w, coefficients[:first])
            total = f.let("p", f.fma(v, part, total) if coefficients is not series[0] else total + part)
    return value, slope, f.let("rise", r * total)


def nearest_center(f, x, last):
    """For x >= 0, held at the last center: the nearest one's number as u32 and f64, how far it is, exactly, and both in f32."""
    x = f.let("held", f.select(x > last * STEP, last * STEP, x))
    k = f.let("k", (x * (1 / STEP)).round())
    r = f.let("r", f.fma(k, -STEP, x))
    return k.cast("u32"), k.cast("f64"), r.cast("f64"), (k * r, r)


def erf():
    """A table of erf at multiples of 1/64, and the way from there. Beyond 4 it is 1 in every narrow type. At most 3 units."""
    f = Fn("math.erf.wide", [("x", "f32")], "f64")
    value, slope, rise = erf_parts(f, "erf", *nearest_center(f, f.params[0], ERF_LAST), (7, 4, 2, 0), (6, 3, 0, 0))
    return f.ret(f.fma(slope, rise, value))


def erfc_core():
    """erfc(k / 64 + r) for 0 <= k <= 656, as erf; k r and r also in f32."""
    f = Fn("math.erfc.core", [("i", "u32"), ("k", "f64"), ("r", "f64"), ("w", "f32"), ("s", "f32")], "f64")
    i, k, r, w, s = f.params
    value, slope, rise = erf_parts(f, "erfc", i, k, r, (w, s), (11, 7, 4, 2), (7, 4, 0, 0))
    return f.ret(f.fma(slope, rise, value))


def erfc():
    """Of the magnitude, and 2 less that below 0. Beyond the table it rounds to 0 in every narrow type."""
    f = Fn("math.erfc.wide", [("x", "f32")], "f64")
    (x,) = f.params
    i, k, r, narrow = nearest_center(f, f.let("a", x.abs()), ERFC_LAST)
    y = f.let("y", f.call("math.erfc.core", i, k, r, *narrow))
    return f.ret(f.select(x < 0.0, 2.0 - y, y))


def gelu():
    """x / 2 * erfc(-x / sqrt(2)), with 1 / sqrt(2) in two parts. Beyond the table it rounds to 0 in every narrow type."""
    f = Fn("math.gelu.wide", [("x", "f32")], "f64")
    (x,) = f.params
    inverse, inverse_low = split(1 / mp.sqrt(2))
    last = 14.375
    a = f.let("a", x.abs())
    a = f.let("a", f.select(a > last, last, a))
    k = f.let("k", (a * single(inverse / STEP)).round())
    i, k = f.let("i", k.cast("u32")), f.let("k", k.cast("f64"))
    a = f.let("a", a.cast("f64"))
    r = f.let("r", f.fma(a, inverse_low, f.fma(a, inverse, -(k * STEP))))
    w = f.let("w", (k * r).cast("f32"))
    y = f.let("y", f.call("math.erfc.core", i, k, r, w, r.cast("f32")))
    y = f.let("y", f.select(x > 0.0, 2.0 - y, y))
    h = f.let("held", f.select(x < -last, -last, x).cast("f64"))
    return f.ret(beyond_half(f, x, f.let("r", (h * 0.5) * y)))


def beyond_half(f, x, y):
    """Near 0 the result is x / 2 and a little more, which f64 cannot hold; but x / 2 may lie halfway between two narrow
    numbers, so a unit of that little is added."""
    half = f.let("half", x.cast("f64") * 0.5).bits("u64")
    more = f.let("more", f.select(x > 0.0, half + 1, half - 1).bits("f64"))
    tiny = f.let("tiny", (x.abs() < 2.0**-60) & x.ne(0.0))
    return f.select(tiny, more, y)


def silu():
    """x / (1 + exp(-x))."""
    f = Fn("math.silu.wide", [("x", "f32")], "f64")
    (x,) = f.params
    h = f.let("held", f.select(x < -200.0, -200.0, x))
    e = f.let("e", f.call("math.exp.wide", f.let("minus", -h)))
    y = f.let("y", h.cast("f64") / (e + 1.0))
    return f.ret(beyond_half(f, x, y))


def softplus():
    """log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|))."""
    f = Fn("math.softplus.wide", [("x", "f32")], "f64")
    (x,) = f.params
    e = f.let("e", f.call("math.exp.wide", f.let("minus", -f.let("a", x.abs()))))
    l = f.let("l", f.call("math.log.one_more", e))
    return f.ret(f.select(x > 0.0, x.cast("f64") + l, l))


def logaddexp():
    """log(exp(x) + exp(y)) as max + log1p(exp(-|x - y|))."""
    f = Fn("math.logaddexp.wide", [("x", "f32"), ("y", "f32")], "f64")
    x, y = f.params
    # Equal infinities differ by nothing.
    d = f.let("d", f.select(x.eq(y), 0.0, (x.cast("f64") - y.cast("f64")).abs()))
    # What is this far away adds nothing. What is not a number passes.
    d = f.let("d", f.select(d > 200.0, 200.0, d))
    minus = f.let("minus", -d)
    step = mp.log(2) / EXP_N
    n, r = reduced(f, f.let("narrow", minus.cast("f32")), minus, step)
    e = f.let("e", exp_reduced(f, n, r, mpf(1), step / 2 * mpf(1.01)))
    m = f.let("m", f.select(x > y, x, y).cast("f64"))
    return f.ret(m + f.call("math.log.one_more", e))


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
