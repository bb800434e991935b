"""exp, exp2, exp10, expm1 and what is made of them: sinh, cosh, tanh, sigmoid."""

import struct

from mpmath import mp, mpf

from vyre import Fn, fpminimax, single, table

mp.prec = 400
N = 64


def double(x):
    return float(mpf(x))


def split(x):
    hi = double(x)
    return hi, double(x - mpf(hi))


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def tables():
    powers = [split(mpf(2) ** (mpf(j) / N)) for j in range(N)]
    yield table("math.exp.hi", "f64", [hi for hi, _ in powers])
    yield table("math.exp.lo", "f64", [lo for _, lo in powers])
    # The same as bits, to which n is added at the exponent's place, so without j's own; and the second part over the first.
    yield table("math.exp.bits", "u64", [bits(hi) - (j << 46) for j, (hi, _) in enumerate(powers)])
    yield table("math.exp.rest", "f64", [double(mpf(lo) / mpf(hi)) for hi, lo in powers])


def held(f, x, lo, hi):
    """x between bounds beyond which the result is 0 or infinity; NaN passes."""
    x = f.let("below", f.select(x > hi, hi, x))
    return f.let("held", f.select(x < lo, lo, x))


def power():
    """2^(n / 64), rounded down to a whole power; n / 64 is within f64's normal exponents."""
    f = Fn("math.exp.power", [("n", "i32")], "f64")
    (n,) = f.params
    e = f.let("e", (n >> 6).cast("i64") + 1023)
    return f.ret((e << 52).bits("f64"))


def table_power(f, n):
    """2^(n / 64) and the number of its fraction in the tables. Of n, which may be u64, the lowest 18 bits count."""
    u = f.let("u", n.bits("u32") if n.ty == "i32" else n.cast("u32"))
    j = f.let("j", u & (N - 1))
    e = f.let("e", (u.cast("u64") if n.ty == "i32" else n) << 46)
    return f.let("t", (f.load("math.exp.bits", "u64", j) + e).bits("f64")), j


def scale():
    """2^(n / 64) * (1 + p)."""
    f = Fn("math.exp.scale", [("n", "i32"), ("p", "f64")], "f64")
    n, p = f.params
    t, _ = table_power(f, n)
    return f.ret(f.fma(t, p, t))


def reduced(f, x, wide, step, exact=False):
    """x = n step + r: n as i32 and r. f32 is enough to find an n that is nearest, or nearly so."""
    k = f.let("k", (x * single(double(1 / step))).round())
    n = f.let("n", k.cast("i32"))
    k = f.let("k", k.cast("f64"))
    l1, l2 = split(step)
    r = f.let("r", f.fma(k, -l1, wide))
    return n, r if exact else f.let("r", f.fma(k, -l2, r))


def exp_reduced(f, n, r, base_log, half):
    """base^r * 2^(n/64) for |r| <= half."""
    b, half = mp.nstr(base_log, 60), mp.nstr(half, 20)
    c = fpminimax(f"expm1(x*{b})/x", [0, 1, 2, 3, 4], f"[-{half};{half}]", mode="absolute")
    return f.call("math.exp.scale", n, f.let("p", r * f.poly(r, c)))


def exp(name, base_log, lo, hi, exact):
    """Base^x = 2^(n/64) (1 + p(r)), where n/64 is nearest to x times the base's logarithm to base 2 and r is what is left. The
    first product of the reduction is exact, so r is off by 2^-60; the polynomial by 2^-58. The table's entry and the sum
    round once each, at most 1 unit of f64 together."""
    step = mp.log(2) / N / base_log
    f = Fn(f"math.{name}.wide", [("x", "f32")], "f64")
    x = held(f, f.params[0], lo, hi)
    n, r = reduced(f, x, f.let("wide", x.cast("f64")), step, exact)
    return f.ret(exp_reduced(f, n, r, base_log, step / 2 * mpf(1.01)))


def expm1():
    """exp(x) - 1 as (t - 1) + t (p(r) + l) with t = 2^(n/64), whose error l the table has: the first difference is exact near 0,
    where the result is small. At most 2 units of f64."""
    step = mp.log(2) / N
    half = mp.nstr(step / 2 * mpf(1.01), 20)
    f = Fn("math.expm1.wide", [("x", "f32")], "f64")
    (x0,) = f.params
    x = held(f, x0, -110.0, 110.0)
    n, r = reduced(f, x, f.let("wide", x.cast("f64")), step)
    c = fpminimax("(expm1(x)-x)/x^2", [0, 1, 2, 3, 4], f"[-{half};{half}]", mode="absolute")
    p = f.let("p", f.fma(f.let("x2", r * r), f.poly(r, c), r))
    t, j = table_power(f, n)
    q = f.let("q", p + f.load("math.exp.rest", "f64", j))
    y = f.let("y", f.fma(t, q, t - 1.0))
    # Also for the sign of zero.
    return f.ret(f.select(x0.abs() < 2.0**-60, x0.cast("f64"), y))


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
    """With m = expm1(x): (m + m / (m + 1)) / 2."""
    f = Fn("math.sinh.wide", [("x", "f32")], "f64")
    (x,) = f.params
    m = f.let("m", f.call("math.expm1.wide", x))
    return f.ret((m + m / (m + 1.0)) * 0.5)


def cosh():
    """With e = exp(x): (e + 1 / e) / 2."""
    f = Fn("math.cosh.wide", [("x", "f32")], "f64")
    (x,) = f.params
    e = f.let("e", f.call("math.exp.wide", x))
    return f.ret((e + 1.0 / e) * 0.5)


def tanh():
    """With m = expm1(2 x): m / (m + 2)."""
    f = Fn("math.tanh.wide", [("x", "f32")], "f64")
    (x,) = f.params
    x = f.let("held", f.select(x > 45.0, 45.0, x))
    m = f.let("m", f.call("math.expm1.wide", f.let("twice", x + x)))
    return f.ret(m / (m + 2.0))


def sigmoid():
    """1 / (1 + exp(-x)). Near 0 that is 1/2 + x/4 - x^3/48, whose first two terms are often halfway between two f32: of the third
    no more than the sign is needed then, and f64 would lose it."""
    f = Fn("math.sigmoid.wide", [("x", "f32")], "f64")
    (x,) = f.params
    e = f.let("e", f.call("math.exp.wide", f.let("minus", -x)))
    y = f.let("y", 1.0 / (e + 1.0))
    line = f.let("line", f.fma(f.let("wide", x.cast("f64")), 0.25, 0.5))
    below = f.let("below", line - f.let("little", f.select(x < 0.0, -(2.0**-50), 2.0**-50)))
    return f.ret(f.select(f.let("near", x.abs() < 2.0**-15), below, y))
