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


# Centers are the multiples of a step, up to the last one, where everything narrow is 1 or 0. Terms are how many of each series
# count. Of erfc small results count too, so that it has finer steps.
ERF = {"name": "erf", "of": mp.erf, "sign": 1, "step": 1 / 64, "last": 256, "terms": (8, 5, 3, 1)}
ERFC = {"name": "erfc", "of": mp.erfc, "sign": -1, "step": 1 / 128, "last": 1312, "terms": (9, 7, 4, 1)}


def erf_tables():
    """Slope and value at every center, side by side: they are read together."""
    for it in (ERF, ERFC):
        centers = [mpf(i) * it["step"] for i in range(it["last"] + 1)]
        rows = [(double(it["sign"] * 2 / mp.sqrt(mp.pi) * mp.exp(-c * c)), double(it["of"](c))) for c in centers]
        yield table(f"math.{it['name']}.centers", "f64", [value for row in rows for value in row])


def from_center(f, it, i, k, r):
    """The function at c + r, for the center c = k steps and r up to half a step: its value at c, and the slope there times a rise.

    The rise is the integral of exp(-2 c t - t^2) over t from 0 to r. In t^2 it is a series of few terms, whose factors are
    the integrals of t^m exp(-2 c t): series in u = 2 c r. What is cut off is below 2^-56 of the result."""
    at = f.let("at", f.op("min", "u32", i, it["last"]) << 1)
    slope = f.let("slope", f.load(f"math.{it['name']}.centers", "f64", at))
    value = f.let("value", f.load(f"math.{it['name']}.centers", "f64", at + 1))
    w = f.let("w", k * r)
    v = f.let("v", r * r)
    sums = []
    for half, count in enumerate(it["terms"]):
        m, scale = 2 * half, mpf(-1) ** half / mp.factorial(half)
        sums.append(f.poly(w, [
            double(scale * (-2 * mpf(it["step"])) ** n / mp.factorial(n) / (n + m + 1)) for n in range(count)
        ]))
    total = sums.pop()
    while sums:
        total = f.let("p", f.fma(v, total, sums.pop()))
    return f.fma(slope, f.let("rise", r * total), value)


def nearest_center(f, it, x):
    """For x >= 0, held at the last center: the nearest one's number as u32 and f64, and how far it is, exactly."""
    last = it["last"] * it["step"]
    x = f.let("held", f.select(x > last, last, x))
    k = f.let("k", (x * (1 / it["step"])).round())
    r = f.let("r", f.fma(k, -it["step"], x))
    return k.cast("u32"), k.cast("f64"), r.cast("f64")


def erf():
    """A table of erf at multiples of 1/64, and the way from there. Beyond 4 it is 1 in every narrow type. At most 3 units."""
    f = Fn("math.erf.wide", [("x", "f32")], "f64")
    return f.ret(from_center(f, ERF, *nearest_center(f, ERF, f.params[0])))


def erfc_core():
    """erfc(k / 128 + r) for 0 <= k <= 1312, as erf."""
    f = Fn("math.erfc.core", [("i", "u32"), ("k", "f64"), ("r", "f64")], "f64")
    return f.ret(from_center(f, ERFC, *f.params))


def erfc():
    """Of the magnitude, and 2 less that below 0. Beyond the table it rounds to 0 in every narrow type."""
    f = Fn("math.erfc.wide", [("x", "f32")], "f64")
    (x,) = f.params
    y = f.let("y", f.call("math.erfc.core", *nearest_center(f, ERFC, f.let("a", x.abs()))))
    return f.ret(f.select(x < 0.0, 2.0 - y, y))


def gelu():
    """x / 2 * erfc(-x / sqrt(2)), with 1 / sqrt(2) in two parts. Beyond the table it rounds to 0 in every narrow type."""
    f = Fn("math.gelu.wide", [("x", "f32")], "f64")
    (x,) = f.params
    inverse, inverse_low = split(1 / mp.sqrt(2))
    last = 14.375
    a = f.let("a", x.abs())
    a = f.let("a", f.select(a > last, last, a))
    k = f.let("k", (a * single(inverse / ERFC["step"])).round())
    i, k = f.let("i", k.cast("u32")), f.let("k", k.cast("f64"))
    a = f.let("a", a.cast("f64"))
    r = f.let("r", f.fma(a, inverse_low, f.fma(a, inverse, -(k * ERFC["step"]))))
    y = f.let("y", f.call("math.erfc.core", i, k, r))
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
