"""The functions of f64: the same reductions for its whole range, with the parts that f32 does not need.

Results are within one unit in the last place of the correctly rounded ones for exp, exp2, exp10, log, log2, log10, log1p, sin,
cos, sinpi, cospi, acos, atan, atan2, cbrt, pow and hypot, and within a few for the others; `vyre-math check --type f64` measures.
"""

from mpmath import mp, mpf

from exponential import N, double, split
from logarithm import N as LOG_N
from logarithm import OFF, SHIFT, radius
from trigonometric import ATAN, arcsine_core, by_quadrant, half_turns
from two import EXP2_SERIES, LOG2_SERIES, fast_sum, pair_add, pair_mul, pair_scale, pair_series, pow_special, two_sum
from vyre import Fn, fpminimax, table

mp.prec = 2000
INF = float("inf")
NAN = float("nan")
SIN64 = fpminimax("(sin(sqrt(x))/sqrt(x)-1)/x", [0, 1, 2, 3, 4, 5, 6], "[1b-60;0.6169]", mode="relative")
COS64 = fpminimax("(cos(sqrt(x))-1+x/2)/x^2", [0, 1, 2, 3, 4, 5], "[1b-60;0.6169]", mode="relative")


def two_parts(f, k, y):
    """y times 2^k for any k between -2200 and 2200: in two steps, so that only the last one can round."""
    h = f.let("half", k >> 1)
    a = f.let("a", ((h.cast("i64") + 1023) << 52).bits("f64"))
    b = f.let("b", (((k - h).cast("i64") + 1023) << 52).bits("f64"))
    return (y * a) * b


def exponential(name, base_log, limit, exact):
    step = mp.log(2) / N / base_log
    half = mp.nstr(step / 2 * mpf(1.01), 20)
    f = Fn(f"math.{name}.f64", [("x", "f64")], "f64")
    (x,) = f.params
    x = f.let("below", f.select(x > limit, limit, x))
    x = f.let("held", f.select(x < -limit, -limit, x))
    k = f.let("k", (x * double(1 / step)).round())
    l1, l2 = split(step)
    r = f.let("r", f.fma(k, -l1, x))
    if not exact:
        r = f.let("r", f.fma(k, -l2, r))
    c = fpminimax(f"expm1(x*{mp.nstr(base_log, 60)})/x", [0, 1, 2, 3, 4, 5], f"[-{half};{half}]", mode="absolute")
    p = f.let("p", r * f.estrin(r, c))
    n = f.let("n", k.cast("i32"))
    j = f.let("j", n.bits("u32") & (N - 1))
    t = f.let("t", f.load("math.exp.hi", "f64", j))
    t_low = f.let("t.low", f.load("math.exp.lo", "f64", j))
    y = f.let("y", f.fma(t, p, t_low) + t)
    return f.ret(two_parts(f, f.let("e", n >> 6), y))


def expm1():
    step = mp.log(2) / N
    half = mp.nstr(step / 2 * mpf(1.01), 20)
    f = Fn("math.expm1.f64", [("x", "f64")], "f64")
    (x0,) = f.params
    x = f.let("below", f.select(x0 > 709.0, 709.0, x0))
    x = f.let("held", f.select(x < -60.0, -60.0, x))
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
    # Above 709 the power alone is the result.
    y = f.let("y", f.select(f.let("large", x0 > 709.0), f.call("math.exp.f64", x0), y))
    return f.ret(f.select(f.let("tiny", x0.abs() < 2.0**-54), x0, y))


def log(name, base, one_plus):
    scale = 1 / mp.log(base)
    full = "log1p" if one_plus else name
    f = Fn(f"math.{full}.f64", [("x", "f64")], "f64")
    (x,) = f.params
    if one_plus:
        z = f.let("z", x + 1.0)
        large = f.let("large", x > 1.0)
        lost = f.let("lost", f.select(large, 1.0 - (z - x), x - (z - 1.0)))
        shift = None
    else:
        # Subnormal arguments are scaled into the normal ones.
        small = f.let("small", x < 2.0**-1000)
        z = f.let("z", f.select(small, x * 2.0**100, x))
        shift = f.let("shift", f.select(small, -100.0, 0.0))
    b = f.let("b", z.bits("u64"))
    d = f.let("d", b - OFF)
    i = f.let("i", (d >> SHIFT).cast("u32") & (LOG_N - 1))
    whole = f.let("whole", d.bits("i64") >> 52)
    k = f.let("k", whole.cast("f64"))
    if shift is not None:
        k = f.let("k", k + shift)
    m = f.let("m", (b - (d & 0xFFF0000000000000)).bits("f64"))
    c = f.let("c", f.load("math.log.inverse", "f64", i))
    # m c - 1, exactly, as a sum.
    p = f.let("p", m * c)
    r_low = f.let("r.low", f.fma(m, c, -p))
    if one_plus:
        unit = f.let("unit", ((0 - whole + 1023) << 52).bits("f64"))
        unit = f.let("unit", f.select(f.let("far", whole.abs() > 1000), 0.0, unit))
        r_low = f.let("r.low", f.fma(f.let("part", lost * unit), c, r_low))
    r_high = f.let("r.high", p - 1.0)
    r = f.let("r", r_high + r_low)
    e = f.let("e", r_low - (r - r_high))
    rad = mp.nstr(mpf(radius()) * mpf(1.001), 20)
    s = mp.nstr(scale, 60)
    co = fpminimax(f"(log1p(x)-x)*{s}/x^2", [0, 1, 2, 3, 4, 5, 6], f"[-{rad};{rad}]", mode="absolute")
    q = f.let("q", f.fma(r * r, f.estrin(r, co), e * double(scale)))
    # The heads of the tables add to k log(2) without rounding; log2's are pow's.
    if base == 2:
        h = f.let("h", k + f.load("math.pow.head", "f64", i))
        tail = f.let("tail", f.load("math.pow.middle", "f64", i))
    else:
        l1 = double(mp.nint(mp.log(2) * scale * 2**42) / 2**42)
        l2 = double(mp.log(2) * scale - mpf(l1))
        h = f.let("h", f.fma(k, l1, f.load(f"math.{name}.head", "f64", i)))
        tail = f.let("tail", f.fma(k, l2, f.load(f"math.{name}.middle", "f64", i)))
    if base == mp.e:
        t = r
    else:
        t = f.let("t", r * double(scale))
        tail = f.let("tail", tail + f.fma(r, double(scale - mpf(double(scale))), f.fma(r, double(scale), -t)))
    # h is 0 or larger than t.
    y = f.let("y", h + t)
    low = f.let("low", t - (y - h))
    y = f.let("y", y + (f.let("rest", low + (tail + q))))
    regular = f.let("regular", (z > 0.0) & (z < INF))
    other = f.let("special", f.select(z > 0.0, z, NAN))
    other = f.let("special", f.select(z.eq(0.0), -INF, other))
    y = f.let("y", f.select(regular, y, other))
    if one_plus:
        y = f.select(f.let("tiny", x.abs() < 2.0**-54), x, y)
    return f.ret(y)


def log_tables():
    from logarithm import inverses

    for name, base in (("log", mp.e), ("log10", mpf(10))):
        exact = [-mp.log(c) / mp.log(base) for c in inverses()]
        heads = [double(mp.nint(v * 2**42) / 2**42) for v in exact]
        yield table(f"math.{name}.head", "f64", heads)
        yield table(f"math.{name}.middle", "f64", [double(v - mpf(h)) for v, h in zip(exact, heads)])


def simple(name, build, arity=1):
    params = [("x", "f64"), ("y", "f64")][:arity]
    f = Fn(f"math.{name}.f64", params, "f64", build.__doc__)
    return f.ret(build(f, *f.params))


def sinh(f, x):
    """With m = expm1(|x|): (m + m / (m + 1)) / 2, and beyond 709 half of exp(|x| / 2)^2."""
    a = f.let("a", x.abs())
    m = f.let("m", f.call("math.expm1.f64", f.let("held", f.select(a > 709.0, 709.0, a))))
    y = f.let("y", (m + m / (m + 1.0)) * 0.5)
    root = f.let("root", f.call("math.exp.f64", f.let("h", a * 0.5)))
    y = f.let("y", f.select(a > 709.0, (root * 0.5) * root, y))
    return y.copysign(x)


def cosh(f, x):
    a = f.let("a", x.abs())
    root = f.let("root", f.call("math.exp.f64", f.let("h", a * 0.5)))
    e = f.let("e", f.call("math.exp.f64", a))
    return f.select(a > 709.0, (root * 0.5) * root, (e + 1.0 / e) * 0.5)


def tanh(f, x):
    a = f.let("a", x.abs())
    d = f.let("d", f.select(a > 40.0, 80.0, a + a))
    m = f.let("m", f.call("math.expm1.f64", d))
    return f.let("y", m / (m + 2.0)).copysign(x)


def sigmoid(f, x):
    """With e = exp(-|x|): 1 / (1 + e), below 0 e / (1 + e), which vanishes only where the result does."""
    e = f.let("e", f.call("math.exp.f64", -x.abs()))
    return f.select(x < 0.0, e, 1.0) / (e + 1.0)


def silu(f, x):
    """x / (1 + exp(-x)). Where that power would be infinite before the result is 0, it is that of x + 128, a sum without rounding,
    and exp(-128) comes last."""
    h = f.let("held", f.select(x < -900.0, -900.0, x))
    far = f.let("far", h < -600.0)
    t = f.let("t", h + f.select(far, 128.0, 0.0))
    q = f.let("q", h / (f.call("math.exp.f64", -t) + 1.0))
    return q * f.select(far, double(mp.exp(-128)), 1.0)


def softplus(f, x):
    l = f.let("l", f.call("math.log1p.f64", f.call("math.exp.f64", -x.abs())))
    return f.select(x > 0.0, x + l, l)


def logaddexp(f, x, y):
    d = f.let("d", f.select(x.eq(y), 0.0, (x - y).abs()))
    m = f.let("m", f.select(x > y, x, y))
    return m + f.call("math.log1p.f64", f.call("math.exp.f64", -d))


def asinh(f, x):
    a = f.let("a", x.abs())
    s = f.let("s", a * a)
    u = f.let("u", a + s / (f.let("q", f.fma(a, a, 1.0)).sqrt() + 1.0))
    large = f.let("large", a > 2.0**60)
    y = f.let("y", f.call("math.log1p.f64", f.let("u", f.select(large, a, u))))
    y = f.let("y", f.select(large, y + double(mp.log(2)), y))
    return y.copysign(x)


def acosh(f, x):
    t = f.let("t", x - 1.0)
    u = f.let("u", t + f.fma(t, t, t + t).sqrt())
    large = f.let("large", x > 2.0**60)
    u = f.let("u", f.select(large, x, u))
    u = f.let("u", f.select(t < 0.0, NAN, u))
    y = f.let("y", f.call("math.log1p.f64", u))
    return f.select(large, y + double(mp.log(2)), y)


def atanh(f, x):
    a = f.let("a", x.abs())
    y = f.let("y", f.call("math.log1p.f64", (a + a) / (1.0 - a)) * 0.5)
    return y.copysign(x)


def rsqrt(f, x):
    """One Newton step on 1 / sqrt(x), with exact remainders, makes two roundings nearly one."""
    s = f.let("s", x.sqrt())
    y = f.let("y", 1.0 / s)
    # x = s^2 + e and 1 = y s + d.
    e = f.let("e", f.fma(-s, s, x))
    d = f.let("d", f.fma(-y, s, 1.0))
    better = f.let("better", f.fma(f.let("c", f.fma(y * (e * -0.5), y, d)), y, y))
    usual = f.let("usual", (x > 0.0) & (x < INF))
    return f.select(usual, better, y)


def cbrt(f, x):
    a = f.let("a", x.abs())
    small = f.let("small", a < 2.0**-900)
    a = f.let("a", f.select(small, a * 2.0**300, a))
    h = f.let("h", (a.bits("u64") >> 32).cast("u32").mul_hi(0x55555556))
    bias = int((1023 - 1023 / 3 - 0.03306) * 2**20)
    t = f.let("t", ((h + bias).cast("u64") << 32).bits("f64"))
    q = f.let("q", (t * t) * (t / a))
    c = fpminimax("x^(-1/3)", [0, 1, 2, 3, 4], "[0.88;1.13]", mode="relative")
    t = f.let("t", t * f.estrin(q, c))
    # With 26 bits, the square is exact.
    t = f.let("t", ((t.bits("u64") + 0x4000000) & 0xFFFFFFFFF8000000).bits("f64"))
    s = f.let("s", a / (t * t))
    d = f.let("d", (s - t) / (t + t + s))
    y = f.let("y", f.fma(t, d, t))
    y = f.let("y", f.select(small, y * 2.0**-100, y).copysign(x))
    same = f.let("same", f.op("or", "bool", x.eq(0.0), f.op("not", "bool", a < INF)))
    return f.select(same, x, y)


def hypot(f, x, y):
    """Scaled so that squares neither overflow nor vanish; the squares' errors are kept."""
    a, b = f.let("a", x.abs()), f.let("b", y.abs())
    m = f.let("m", f.select(a > b, a, b))
    n = f.let("n", f.select(a > b, b, a))
    large = f.let("large", m > 2.0**500)
    small = f.let("small", m < 2.0**-400)
    s = f.let("s", f.select(large, 2.0**-600, f.let("u", f.select(small, 2.0**600, 1.0))))
    back = f.let("back", f.select(large, 2.0**600, f.let("u", f.select(small, 2.0**-600, 1.0))))
    m, n = f.let("m", m * s), f.let("n", n * s)
    p = f.let("p", m * m)
    p_low = f.let("p.low", f.fma(m, m, -p))
    q = f.let("q", n * n)
    q_low = f.let("q.low", f.fma(n, n, -q))
    t = f.let("t", p + q)
    t_low = f.let("t.low", (q - (t - p)) + (p_low + q_low))
    w = f.let("w", t.sqrt())
    d = f.let("d", f.fma(-w, w, t) + t_low)
    better = f.let("better", w + d / (w + w))
    w = f.let("w", f.select(f.let("usual", (w > 0.0) & (w < INF)), better, w) * back)
    either = f.let("either", f.op("or", "bool", a.eq(INF), b.eq(INF)))
    nan = f.let("unknown", f.op("or", "bool", x.ne(x), y.ne(y)))
    w = f.let("w", f.select(nan, NAN, w))
    return f.select(either, INF, w)


def arcsine(f, x):
    """The narrow arcsine's parts, its polynomial times z s, and what the root lost."""
    a = f.let("a", x.abs())
    far = f.let("far", a > 0.5)
    z, s, p = arcsine_core(f, far, a, f.estrin)
    p = f.let("p", f.let("zs", z * s) * p)
    e = f.let("e", f.fma(-s, s, z) / (s + s))
    return far, s, p, f.let("e", f.select(z > 0.0, e, 0.0))


def asin(f, x):
    far, s, p, e = arcsine(f, x)
    hi, lo = split(mp.pi / 2)
    # pi/2 - 2 (s + p).
    u = f.let("u", f.fma(s, -2.0, hi))
    v = f.let("v", f.fma(s, -2.0, hi - u) + f.fma(p + e, -2.0, lo))
    return f.let("y", f.select(far, u + v, s + p)).copysign(x)


def acos(f, x):
    far, s, p, e = arcsine(f, x)
    negative = f.let("negative", x < 0.0)
    half, half_low = split(mp.pi / 2)
    full, full_low = split(mp.pi)
    w = f.let("w", f.fma(s, 2.0, (p + e) * 2.0))
    u = f.let("u", f.fma(s, -2.0, full))
    v = f.let("v", f.fma(s, -2.0, full - u) + f.fma(p + e, -2.0, full_low))
    outer = f.let("outer", f.select(negative, u + v, w))
    g = f.let("g", s.copysign(x))
    u = f.let("u", half - g)
    v = f.let("v", ((half - u) - g) + (half_low - p.copysign(x)))
    return f.select(far, outer, u + v)


def atan_ratio():
    f = Fn("math.atan.quotient", [("n", "f64"), ("d", "f64")], "f64")
    n, d = f.params
    i = f.let("i", (f.let("guess", n / d) * 16.0).round().cast("u32") & 31)
    c = f.let("c", i.cast("f64") * 0.0625)
    t = f.let("t", f.let("num", f.fma(-c, d, n)) / f.let("den", f.fma(c, n, d)))
    z = f.let("z", t * t)
    p = f.let("p", f.fma(z * t, f.estrin(z, ATAN), f.load("math.atan2.rest", "f64", i)))
    b = f.let("b", f.load("math.atan.center", "f64", i))
    y = f.let("y", b + t)
    return f.ret(y + ((t - (y - b)) + p))


def atan(f, x):
    a = f.let("a", x.abs())
    a = f.let("a", f.select(a > 2.0**100, 2.0**100, a))
    far = f.let("far", a > 1.0)
    y = f.let("y", f.call("math.atan.quotient", f.let("n", f.select(far, 1.0, a)), f.let("d", f.select(far, a, 1.0))))
    hi, lo = split(mp.pi / 2)
    y = f.let("y", f.select(far, hi - (y - lo), y))
    y = f.let("y", f.select(x.is_nan(), x, y))
    return y.copysign(x)


def atan2(f, y, x):
    b, a = f.let("b", y.abs()), f.let("a", x.abs())
    both = f.let("infinite", a.eq(INF) | b.eq(INF))
    a = f.let("a", f.select(both, f.let("far", a.eq(INF).cast("f64")), a))
    b = f.let("b", f.select(both, f.let("far", b.eq(INF).cast("f64")), b))
    steep = f.let("steep", b > a)
    left = f.let("left", f.op("copysign", "f64", 1.0, x) < 0.0)
    n = f.let("n", f.select(steep, a, b))
    d = f.let("d", f.select(steep, b, a))
    # Far from the ends of the range, so that products neither overflow nor vanish.
    s = f.let("s", f.select(d > 2.0**900, 2.0**-200, f.let("u", f.select(d < 2.0**-800, 2.0**200, 1.0))))
    n, d = f.let("n", n * s), f.let("d", f.select(d.eq(0.0), 1.0, d * s))
    w = f.let("w", f.call("math.atan.quotient", n, d))
    half, half_low = split(mp.pi / 2)
    full, full_low = split(mp.pi)
    w = f.let("w", f.select(steep, half - (w - half_low), w))
    w = f.let("w", f.select(left, full - (w - full_low), w))
    w = f.let("w", w.copysign(y))
    return f.select(f.let("unknown", x.ne(x) | y.ne(y)), NAN, w)


def trigpi(kind):
    def build(f, x):
        # x modulo 2, exactly.
        y = f.let("y", f.fma((x * 0.5).round(), -2.0, x))
        return half_turns(f, y, x, kind)

    return build


def remainder(f, x):
    """x modulo pi/2 as a pair, and the quadrant."""
    p1, p2 = split(mp.pi / 2)
    p3 = double(mp.pi / 2 - mpf(p1) - mpf(p2))
    k = f.let("k", (x * double(2 / mp.pi)).round())
    # Exact, for the k that are used.
    r1 = f.let("r", f.fma(k, -p1, x))
    t = f.let("t", k * p2)
    t_low = f.let("t.low", f.fma(k, p3, f.fma(k, p2, -t)))
    s, e = two_sum(f, r1, f.let("t", -t))
    high, low = fast_sum(f, s, f.let("e", e - t_low))
    hv, lv = f.var("high", "f64", high), f.var("low", "f64", low)
    qv = f.var("q", "u32", f.let("q", k.cast("i32").bits("u32")))
    with f.if_(f.let("large", x.abs() >= 2.0**15)):
        b = f.let("b", x.bits("u64"))
        m = f.let("m", (b & 0xFFFFFFFFFFFFF) | 0x10000000000000)
        # Infinities and NaN look beyond the table and do not count.
        at = f.let("at", ((b >> 52).cast("u32") & 2047) - 1013)
        w, sh = f.let("w", at >> 6), f.let("s", at & 63)
        words = [f.let("a", f.load("math.trig.two_over_pi", "u64", w + n if n else w)) for n in range(4)]
        window = [f.let("bits", (words[n] << sh) | ((words[n + 1] >> 1) >> (63 - sh))) for n in range(3)]
        third = f.let("third", m.mul_hi(window[2]))
        mid = f.let("mid", m * window[1] + third)
        carry = f.let("carry", (mid < third).cast("u64"))
        v = f.let("v", m * window[0] + m.mul_hi(window[1]) + carry)
        turn = f.let("turn", (v + (1 << 61)) >> 62)
        part = f.let("part", v - (turn << 62))
        head = f.let("head", (part & 0xFFFFFFFFFFFFF800).bits("i64").cast("f64"))
        rest = f.let("rest", f.fma(mid.cast("f64"), 2.0**-64, (part & 0x7FF).cast("f64")))
        u = fast_sum(f, head, rest)
        g = pair_mul(f, u, split(mp.pi / 2 / 2**62))
        negative = f.let("negative", x < 0.0)
        f.set(hv, f.let("g", f.select(negative, -g[0], g[0])))
        f.set(lv, f.let("g", f.select(negative, -g[1], g[1])))
        t = f.let("turn", turn.cast("u32"))
        f.set(qv, f.let("turn", f.select(negative, 0 - t, t)))
    return f.get(hv), f.get(lv), f.get(qv)


def trig(kind):
    def build(f, x0):
        x = f.let("x", f.select(x0.abs().eq(INF), NAN, x0))
        r, low, q = remainder(f, x)
        z = f.let("z", r * r)
        s = f.let("sine", r + f.fma(f.let("cube", z * r), f.estrin(z, SIN64), low))
        h = f.let("h", f.fma(z, -0.5, 1.0))
        l = f.let("l", f.fma(z, -0.5, 1.0 - h))
        c = f.let("cosine", h + (f.fma(z * z, f.estrin(z, COS64), l) - r * low))
        y = f.let("y", by_quadrant(f, q, s, c, kind))
        # Nearer to 0 the result is x, and so is its sign.
        return y if kind == "cos" else f.select(f.let("near", x.abs() < 2.0**-30), x, y)

    return build


# From here on erfc(x) is 0, and so is x erfc(x / sqrt(2)).
ERFC_END, GELU_END = 28.0, 39.0


def erfc_core():
    """erfc(a) times m, for a up to 28; s and s.low are the square of a. The power comes last, so that nothing rounds after it
    has left the normal numbers."""
    f = Fn("math.erfc.wider", [("a", "f64"), ("s", "f64"), ("s.low", "f64"), ("m", "f64")], "f64")
    a, s, s_low, m = f.params
    g = "4*(1+x)/(1-x)"
    c = fpminimax(f"exp(({g})^2)*erfc({g})*(1+2*({g}))", list(range(27)), "[-1;0.751]", mode="relative")
    t = f.let("t", (a - 4.0) / (a + 4.0))
    p = f.estrin(t, c)
    e = f.let("e", f.call("math.exp.f64", -s))
    q = f.let("q", p / f.fma(a, 2.0, 1.0))
    q = f.let("q", f.fma(q, -s_low, q))
    return f.ret(e * (q * m))


def held_square(f, a, end):
    """a, no more than `end`, and its square in two parts."""
    a = f.let("held", f.select(a > end, end, a))
    s = f.let("s", a * a)
    return a, s, f.let("s.low", f.fma(a, a, -s))


def erf_near():
    return fpminimax("erf(sqrt(x))/sqrt(x)", list(range(14)), "[1b-60;1.0001]", mode="relative")


def erf(f, x):
    a, s, low = held_square(f, f.let("a", x.abs()), ERFC_END)
    near = f.let("near", a * f.estrin(s, erf_near()))
    far = f.let("far", 1.0 - f.call("math.erfc.wider", a, s, low, 1.0))
    return f.let("y", f.select(a < 1.0, near, far)).copysign(x)


def erfc(f, x):
    a, s, low = held_square(f, f.let("a", x.abs()), ERFC_END)
    y = f.let("y", f.call("math.erfc.wider", a, s, low, 1.0))
    y = f.let("y", f.select(x < 0.0, 2.0 - y, y))
    near = f.let("near", f.fma(-x, f.estrin(s, erf_near()), 1.0))
    return f.select(a < 0.5, near, y)


def gelu(f, x):
    """With z = |x| / 2 erfc(|x| / sqrt(2)): x - z, below 0 -z."""
    c, s, low = held_square(f, f.let("a", x.abs()), GELU_END)
    a = f.let("a", c * double(1 / mp.sqrt(2)))
    z = f.let("z", f.call("math.erfc.wider", a, f.let("s", s * 0.5), f.let("s.low", low * 0.5), f.let("m", c * 0.5)))
    return f.select(x < 0.0, -z, x - z)


def pow_regular():
    """The second step of the narrow pow, for a significand of 53 bits."""
    f = Fn("math.pow.wider", [("a", "f64"), ("y", "f64")], "f64")
    a, y = f.params
    small = f.let("small", a < 2.0**-1000)
    a = f.let("a", f.select(small, a * 2.0**100, a))
    b = f.let("b", a.bits("u64"))
    d = f.let("d", b - OFF)
    i = f.let("i", (d >> SHIFT).cast("u32") & (LOG_N - 1))
    k = f.let("k", (d.bits("i64") >> 52).cast("f64") + f.let("shift", f.select(small, -100.0, 0.0)))
    m = f.let("m", (b - (d & 0xFFF0000000000000)).bits("f64"))
    c = f.let("c", f.load("math.log.inverse", "f64", i))
    p = f.let("p", m * c)
    r = fast_sum(f, f.let("r", p - 1.0), f.let("r.low", f.fma(m, c, -p)))
    series = pair_series(f, r, "math.pow.log2", LOG2_SERIES)
    log = pair_mul(f, series, r)
    log = pair_add(f, log, (f.load("math.pow.middle", "f64", i), f.load("math.pow.tail", "f64", i)))
    whole = f.let("whole", k + f.load("math.pow.head", "f64", i))
    log = pair_add(f, (whole, f.let("none", whole * 0.0)), log)
    # Of any size: y may be 1e308.
    held = f.let("held", f.select(y.abs() > 2.0**80, f.op("copysign", "f64", 2.0**80, y), y))
    p = pair_scale(f, log, held)
    far = f.let("far", p[0].abs() > 1100.0)
    high = f.let("p", f.select(far, f.op("copysign", "f64", 1100.0, p[0]), p[0]))
    low = f.let("p.low", f.select(far, 0.0, p[1]))
    n = f.let("n", (high * float(N)).round())
    u = fast_sum(f, f.let("head", f.fma(n, -1.0 / N, high)), low)
    e = pair_series(f, u, "math.pow.exp2", EXP2_SERIES + 1)
    z = f.let("z", n.cast("i32"))
    j = f.let("j", z.bits("u32") & (N - 1))
    t = (f.let("t", f.load("math.exp.hi", "f64", j)), f.let("t.low", f.load("math.exp.lo", "f64", j)))
    w = pair_mul(f, e, t)
    return f.ret(two_parts(f, f.let("e", z >> 6), w[0]))


def pow_wide():
    f = Fn("math.pow.f64", [("x", "f64"), ("y", "f64")], "f64")

    def regular(a, y, usual):
        safe = f.let("safe", f.select(usual, a, 1.0))
        return f.call("math.pow.wider", safe, f.let("power", f.select(usual, y, 1.0)))

    return f.ret(pow_special(f, regular))


def text():
    yield from log_tables()
    yield exponential("exp", mpf(1), 800.0, False)
    yield exponential("exp2", mp.log(2), 1100.0, True)
    yield exponential("exp10", mp.log(10), 400.0, False)
    yield expm1()
    yield log("log", mp.e, False)
    yield log("log2", mpf(2), False)
    yield log("log10", mpf(10), False)
    yield log("log", mp.e, True)
    yield atan_ratio()
    yield erfc_core()
    yield pow_regular()
    yield pow_wide()
    for kind in ("sin", "cos", "tan"):
        yield simple(kind, trig(kind))
    yield simple("sinpi", trigpi("sinpi"))
    yield simple("cospi", trigpi("cospi"))
    for build in (sinh, cosh, tanh, sigmoid, silu, softplus, asinh, acosh, atanh, rsqrt, cbrt, asin, acos, atan, erf, erfc, gelu):
        yield simple(build.__name__, build)
    for build in (logaddexp, hypot):
        yield simple(build.__name__, build, 2)
    f = Fn("math.atan2.f64", [("y", "f64"), ("x", "f64")], "f64")
    yield f.ret(atan2(f, *f.params))
