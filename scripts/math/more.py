"""cbrt, rsqrt, hypot, erf, erfc, and the compounds silu, gelu, softplus, logaddexp."""

from mpmath import mp, mpf

from exponential import double
from vyre import Fn, fpminimax

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


def erfc_core():
    """exp(-s) * erfcx(a) with s = a^2 and 0 <= a: erfcx(a) (1 + 2 a) is a polynomial in (a - 4) / (a + 4)."""
    f = Fn("math.erfc.core", [("a", "f64"), ("s", "f64")], "f64")
    a, s = f.params
    # Beyond this the result rounds to 0 in every narrow type.
    a = f.let("a", f.select(a > 12.0, 12.0, a))
    g = "4*(1+x)/(1-x)"
    c = fpminimax(f"exp(({g})^2)*erfc({g})*(1+2*({g}))", list(range(25)), "[-1;0.501]", mode="relative")
    t = f.let("t", (a - 4.0) / (a + 4.0))
    p = f.estrin(t, c)
    e = f.let("e", f.call("math.exp.wide", -s))
    return f.ret(e * (p / f.fma(a, 2.0, 1.0)))


def erf():
    """Below 1 a polynomial in x^2 times x, else 1 - erfc(x)."""
    f = Fn("math.erf.wide", [("x", "f64")], "f64")
    (x,) = f.params
    a = f.let("a", x.abs())
    s = f.let("s", a * a)
    c = fpminimax("erf(sqrt(x))/sqrt(x)", list(range(14)), "[1b-60;1.0001]", mode="relative")
    near = f.let("near", a * f.estrin(s, c))
    far = f.let("far", 1.0 - f.call("math.erfc.core", a, s))
    y = f.let("y", f.select(a < 1.0, near, far))
    return f.ret(y.copysign(x))


def erfc():
    """exp(-x^2) erfcx(x); the square of an f32 is exact in f64."""
    f = Fn("math.erfc.wide", [("x", "f64")], "f64")
    (x,) = f.params
    a = f.let("a", x.abs())
    y = f.let("y", f.call("math.erfc.core", a, f.let("s", a * a)))
    return f.ret(f.select(x < 0.0, 2.0 - y, y))


def gelu():
    """x / 2 * erfc(-x / sqrt(2)); the square is taken of x itself, where it is exact."""
    f = Fn("math.gelu.wide", [("x", "f64")], "f64")
    (x,) = f.params
    h = f.let("held", f.select(x < -40.0, -40.0, x))
    a = f.let("a", h.abs() * double(1 / mp.sqrt(2)))
    y = f.let("y", f.call("math.erfc.core", a, f.let("s", (h * h) * 0.5)))
    y = f.let("y", f.select(h > 0.0, 2.0 - y, y))
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
    yield erfc_core()
    yield erf()
    yield erfc()
    yield gelu()
    yield silu()
    yield softplus()
    yield logaddexp()
