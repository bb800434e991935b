"""exp, exp2, exp10, expm1 and what is made of them: sinh, cosh, tanh, sigmoid."""

from mpmath import mp, mpf

from vyre import Fn, fpminimax, table

mp.prec = 400
N = 64


def double(x):
    return float(mpf(x))


def split(x):
    hi = double(x)
    return hi, double(x - mpf(hi))


def tables():
    powers = [split(mpf(2) ** (mpf(j) / N)) for j in range(N)]
    yield table("math.exp.hi", "f64", [hi for hi, _ in powers])
    yield table("math.exp.lo", "f64", [lo for _, lo in powers])


def clamp(f, x, lo, hi):
    """x held between bounds beyond which the result is 0 or infinity; NaN passes."""
    x = f.let("below", f.select(x > hi, hi, x))
    return f.let("held", f.select(x < lo, lo, x))


def scale():
    """2^(k / 64) * (1 + p)."""
    f = Fn("math.exp.scale", [("k", "f64"), ("p", "f64")], "f64")
    k, p = f.params
    n = f.let("n", k.cast("i32"))
    j = f.let("j", n.bits("u32") & (N - 1))
    t = f.let("t", f.load("math.exp.hi", "f64", j))
    y = f.let("y", f.fma(t, p, t))
    s = f.let("s", f.call("math.exp.power", n))
    return f.ret(y * s)


def power():
    """2^(n / 64), rounded down to a whole power; n / 64 is within f64's normal exponents."""
    f = Fn("math.exp.power", [("n", "i32")], "f64")
    (n,) = f.params
    e = f.let("e", (n >> 6).cast("i64") + 1023)
    return f.ret((e << 52).bits("f64"))


def exp(name, base_log, lo, hi, exact):
    """Base^x = 2^(k/64) (1 + p(r)), where k/64 is nearest to x times the base's logarithm to base 2 and r is what is left. The
    first product of the reduction is exact, so r is off by 2^-60; the polynomial by 2^-58. The table's entry, the sum and
    the product round once each, at most 1.5 units of f64 together."""
    step = mp.log(2) / N / base_log
    half = step / 2 * mpf(1.01)
    f = Fn(f"math.{name}.wide", [("x", "f64")], "f64")
    x = clamp(f, f.params[0], lo, hi)
    k = f.let("k", (x * double(1 / step)).round())
    l1, l2 = split(step)
    r = f.let("r", f.fma(k, -l1, x))
    if not exact:
        r = f.let("r", f.fma(k, -l2, r))
    b = mp.nstr(base_log, 60)
    c = fpminimax(f"expm1(x*{b})/x", [0, 1, 2, 3, 4], f"[-{mp.nstr(half, 20)};{mp.nstr(half, 20)}]", mode="absolute")
    p = f.let("p", r * f.estrin(r, c))
    return f.ret(f.call("math.exp.scale", k, p))


def expm1():
    """exp(x) - 1 as (2^(k/64) - 1) + 2^(k/64) p(r), with the table's entries in two parts: the first difference is exact near
    0, where the result is small. At most 2 units of f64."""
    step = mp.log(2) / N
    half = mp.nstr(step / 2 * mpf(1.01), 20)
    f = Fn("math.expm1.wide", [("x", "f64")], "f64")
    (x0,) = f.params
    x = clamp(f, x0, -110.0, 700.0)
    k = f.let("k", (x * double(1 / step)).round())
    l1, l2 = split(step)
    r = f.let("r", f.fma(k, -l1, x))
    r = f.let("r", f.fma(k, -l2, r))
    c = fpminimax("(expm1(x)-x)/x^2", [0, 1, 2, 3, 4], f"[-{half};{half}]", mode="absolute")
    p = f.let("p", f.fma(r * r, f.estrin(r, c), r))
    n = f.let("n", k.cast("i32"))
    j = f.let("j", n.bits("u32") & (N - 1))
    s = f.let("s", f.call("math.exp.power", n))
    t = f.let("t", f.load("math.exp.hi", "f64", j) * s)
    tl = f.let("tl", f.load("math.exp.lo", "f64", j) * s)
    y = f.let("y", f.fma(t, p, tl) + (t - 1.0))
    tiny = f.let("tiny", x0.abs() < 2.0**-60)
    return f.ret(f.select(tiny, x0, y))


def text():
    yield from tables()
    yield power()
    yield scale()
    yield exp("exp", mpf(1), -200.0, 200.0, False)
    yield exp("exp2", mp.log(2), -200.0, 200.0, True)
    yield exp("exp10", mp.log(10), -60.0, 60.0, False)
    yield expm1()
    yield sinh()
    yield cosh()
    yield tanh()
    yield sigmoid()


def sinh():
    """With m = expm1(|x|): (m + m / (m + 1)) / 2."""
    f = Fn("math.sinh.wide", [("x", "f64")], "f64")
    (x,) = f.params
    m = f.let("m", f.call("math.expm1.wide", f.let("a", x.abs())))
    q = f.let("q", m / (m + 1.0))
    q = f.let("q", f.select(m > 1e300, 1.0, q))
    y = f.let("y", (m + q) * 0.5)
    return f.ret(y.copysign(x))


def cosh():
    """With e = exp(|x|): (e + 1 / e) / 2."""
    f = Fn("math.cosh.wide", [("x", "f64")], "f64")
    (x,) = f.params
    e = f.let("e", f.call("math.exp.wide", f.let("a", x.abs())))
    return f.ret((e + 1.0 / e) * 0.5)


def tanh():
    """With m = expm1(2 |x|): m / (m + 2)."""
    f = Fn("math.tanh.wide", [("x", "f64")], "f64")
    (x,) = f.params
    a = f.let("a", x.abs())
    d = f.let("d", a + a)
    d = f.let("d", f.select(d > 90.0, 90.0, d))
    m = f.let("m", f.call("math.expm1.wide", d))
    y = f.let("y", m / (m + 2.0))
    return f.ret(y.copysign(x))


def sigmoid():
    """1 / (1 + exp(-x)). Near 0 that is 1/2 + x/4 - x^3/48, whose first two terms are often halfway between two f32: of the third
    no more than the sign is needed then, and f64 would lose it."""
    f = Fn("math.sigmoid.wide", [("x", "f64")], "f64")
    (x,) = f.params
    e = f.let("e", f.call("math.exp.wide", -x))
    y = f.let("y", 1.0 / (e + 1.0))
    line = f.let("line", f.fma(x, 0.25, 0.5))
    below = f.let("below", line - f.op("copysign", "f64", 2.0**-50, x))
    return f.ret(f.select(f.let("near", x.abs() < 2.0**-15), below, y))
