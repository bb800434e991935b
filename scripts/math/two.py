"""pow and atan2, whose 2^64 arguments nobody can try: a second step with pairs of f64 decides what the first leaves open.

The first step has an error of some units of f64's last place, for pow up to 1,700. A result that may lie at a boundary of f32
(or of a narrower type, whose boundaries have more zeros behind them) shows in its bits: near a multiple of 2^28. There the second
step runs, with an error below 2^-95, and its pair is rounded to odd, so that the rounding that follows cannot go wrong.
"""

from mpmath import mp, mpf

from exponential import N as EXP_N
from exponential import bits, double, held, split, table_power
from logarithm import N as LOG_N
from logarithm import OFF, SHIFT, inverses
from logarithm import radius as radius_of_centers
from vyre import Fn, fpminimax, single, table

mp.prec = 600


def parts3(x):
    """x as a short head, so that adding a whole number is exact, and two more parts."""
    head = double(mp.nint(x * 2**41) / 2**41)
    rest = x - mpf(head)
    return head, double(rest), double(rest - mpf(double(rest)))


LOG2_SERIES = 16
EXP2_SERIES = 13
ATAN_SERIES = 13


def tables():
    centers = [parts3(-mp.log(c, 2)) for c in inverses()]
    for at, name in enumerate(("head", "middle", "tail")):
        yield table(f"math.pow.{name}", "f64", [c[at] for c in centers])
    # Coefficients from the highest down, each followed by its rest.
    log = [split((-1) ** (n + 1) / mpf(n) / mp.log(2)) for n in range(LOG2_SERIES, 0, -1)]
    yield table("math.pow.log2", "f64", [v for pair in log for v in pair])
    exp = [split(mp.log(2) ** n / mp.factorial(n)) for n in range(EXP2_SERIES, -1, -1)]
    yield table("math.pow.exp2", "f64", [v for pair in exp for v in pair])
    atan = [split((-1) ** n / mpf(2 * n + 1)) for n in range(ATAN_SERIES, -1, -1)]
    yield table("math.atan2.series", "f64", [v for pair in atan for v in pair])
    yield table("math.atan2.rest", "f64", [split(mp.atan(mpf(i) / 16))[1] for i in range(17)] + [0.0] * 15)


# Pairs of f64: (high, low) with the low one below half a unit of the high one.


def fast_sum(f, a, b):
    s = f.let("s", a + b)
    return s, f.let("s.low", b - (s - a))


def two_sum(f, a, b):
    s = f.let("s", a + b)
    v = f.let("v", s - a)
    return s, f.let("s.low", (a - (s - v)) + (b - v))


def pair_add(f, a, b):
    s, e = two_sum(f, a[0], b[0])
    t, g = two_sum(f, a[1], b[1])
    s, e = fast_sum(f, s, f.let("e", e + t))
    return fast_sum(f, s, f.let("e", e + g))


def pair_mul(f, a, b):
    p = f.let("p", a[0] * b[0])
    e = f.let("e", f.fma(a[0], b[0], -p))
    e = f.let("e", e + f.fma(a[0], b[1], a[1] * b[0]))
    return fast_sum(f, p, e)


def pair_scale(f, a, k):
    """A pair times one f64."""
    p = f.let("p", a[0] * k)
    e = f.let("e", f.fma(a[0], k, -p))
    return fast_sum(f, p, f.let("e", f.fma(a[1], k, e)))


def pair_series(f, x, coefficients, count):
    """The polynomial with the pairs of a table, highest first, at the pair x."""
    high = f.var("sum", "f64", f.load(coefficients, "f64", 0))
    low = f.var("low", "f64", f.load(coefficients, "f64", 1))
    with f.for_("i", 1, count) as i:
        c = f.let("c", f.load(coefficients, "f64", f.let("at", i << 1)))
        c_low = f.let("c.low", f.load(coefficients, "f64", f.let("at", (i << 1) | 1)))
        product = pair_mul(f, (f.get(high), f.get(low)), x)
        s, e = pair_add(f, product, (c, c_low))
        f.set(high, s)
        f.set(low, e)
    return f.get(high), f.get(low)


# How many units of f64 the first step may be off, with room to spare.
ATAN2_OFF = 1024
POW_OFF = 2048


def near_boundary(f, w, units):
    off = f.let("off", (w.bits("u64").cast("u32") + units) & 0xFFFFFFF)
    return f.let("near", off < 2 * units)


def round_to_odd(f, high, low):
    """The pair as one f64 whose last bit is odd unless the pair is that f64."""
    bits = f.let("bits", high.bits("u64"))
    # Down means toward zero: against the sign of the high part.
    against = f.let("against", f.op("ne", "bool", low < 0.0, high < 0.0))
    down = f.let("down", f.select(against, bits - 1, bits))
    return f.let("odd", f.select(low.eq(0.0), high, (down | 1).bits("f64")))


def pow_log(f, a):
    """What both steps of pow read: the exponent k, the place of c[i] in the table of centers, and the exact r with
    a = 2^k (1 + r) / c[i]."""
    b = f.let("b", a.bits("u64"))
    d = f.let("d", b - OFF)
    upper = f.let("upper", (d >> 32).cast("u32"))
    at = f.let("at", (upper >> (SHIFT - 33)) & (2 * (LOG_N - 1)))
    k = f.let("k", (upper.bits("i32") >> 20).cast("f64"))
    m = f.let("m", (b - (d & 0xFFF0000000000000)).bits("f64"))
    return k, at, f.let("r", f.fma(m, f.load("math.log2.centers", "f64", at), -1.0))


# From here on the result is 0 or infinite in f32. Its power is not near a boundary.
POW_END = 200.3
for power in (POW_END, -POW_END):
    assert 4 * POW_OFF < bits(double(mpf(2) ** power)) % 2**28 < 2**28 - 4 * POW_OFF
# The sum with it has the nearest multiple of 1 / EXP_N, and that as a whole number in its lower word.
NEAREST = 1.5 * 2.0**52 / EXP_N


def pow_regular():
    """a^y for finite a > 0 and finite y; anything for others, for which the second step never runs. The logarithm is the table's
    plus r P(r), where P is off by 2^-49.7 and the roundings together by 2^-50.7 of the result, which is never less than half of
    the table's. With the rounding of the product with y it is off by 2^-49. The product is at most 150 where the result is
    neither 0 nor infinite, so the power is off by 2^-42.3 of itself: 1650 units of f64, or less. What is behind the nearest 64th goes
    through a polynomial that adds 2^-47.6 to that, 45 units, and the 64ths through the table of 2^(j/64)."""
    f = Fn("math.pow.regular", [("a", "f32"), ("y", "f32"), ("usual", "bool")], "f64")
    a, y = (f.let("wide", v.cast("f64")) for v in f.params[:2])
    k, at, r = pow_log(f, a)
    h = f.let("h", k + f.load("math.log2.centers", "f64", f.let("next", at + 1)))
    radius, scale = mp.nstr(mpf(radius_of_centers()) * mpf(1.001), 20), mp.nstr(1 / mp.log(2), 60)
    c = fpminimax(f"log1p(x)*{scale}/x", list(range(6)), f"[-{radius};{radius}]", mode="relative")
    p = f.let("p", y * f.let("s", f.fma(r, f.poly(r, c), h)))
    p = held(f, p, -POW_END, POW_END)
    z = f.let("z", p + NEAREST)
    u = f.let("u", p - f.let("near", z - NEAREST))
    ln2 = mp.nstr(mp.log(2), 60)
    c = fpminimax(f"expm1(x*{ln2})/x", [0, 1, 2, 3], "[-0.0078126;0.0078126]", mode="absolute")
    t, _ = table_power(f, f.let("n", z.bits("u64")))
    w = f.let("w", f.fma(t, f.let("g", u * f.poly(u, c)), t))
    out = f.var("w", "f64", w)
    with f.if_(f.let("open", near_boundary(f, w, POW_OFF) & f.params[2])):
        f.set(out, f.let("exact", f.call("math.pow.second", a, y)))
    return f.ret(f.get(out))


def pow_second():
    """The second step: the logarithm and the power as pairs. Only y that are multiples of 1/32 up to 25 can give a result
    that lies on a boundary; there a distance below 2^-80 is none."""
    f = Fn("math.pow.second", [("a", "f64"), ("y", "f64")], "f64")
    a, y = f.params
    k, at, r = pow_log(f, a)
    i = f.let("i", at >> 1)
    series = pair_series(f, (r, f.let("zero", r * 0.0)), "math.pow.log2", LOG2_SERIES)
    log = pair_scale(f, series, r)
    log = pair_add(f, log, (f.load("math.pow.middle", "f64", i), f.load("math.pow.tail", "f64", i)))
    whole = f.let("whole", k + f.load("math.pow.head", "f64", i))
    log = pair_add(f, (whole, f.let("none", whole * 0.0)), log)
    p = pair_scale(f, log, y)
    n = f.let("n", (p[0] * float(EXP_N)).round())
    head = f.let("head", f.fma(n, -1.0 / EXP_N, p[0]))
    u = fast_sum(f, head, p[1])
    e = pair_series(f, u, "math.pow.exp2", EXP2_SERIES + 1)
    z = f.let("z", n.cast("i32"))
    j = f.let("j", z.bits("u32") & (EXP_N - 1))
    t = (f.let("t", f.load("math.exp.hi", "f64", j)), f.let("t.low", f.load("math.exp.lo", "f64", j)))
    w = pair_mul(f, e, t)
    # The nearest number that may be a boundary, and how far it is.
    bits = f.let("bits", w[0].bits("u64"))
    edge = f.let("edge", ((bits + (1 << 27)) & 0xFFFFFFFFF0000000).bits("f64"))
    distance = f.let("distance", (w[0] - edge) + w[1])
    close = f.let("close", distance.abs() < 2.0**-80)
    steps = f.let("steps", y * 32.0)
    even = f.let("even", steps.eq(f.let("nearest", steps.round())))
    simple = f.let("simple", even & f.let("small", y.abs() <= 25.0))
    high = f.let("high", f.select(close & simple, edge, w[0]))
    low = f.let("low", f.select(close & simple, 0.0, w[1]))
    return f.ret(round_to_odd(f, high, low) * f.call("math.exp.power", z))


def pow_wide():
    f = Fn("math.pow.wide", [("x", "f32"), ("y", "f32")], "f64")
    return f.ret(pow_special(f, lambda a, y, usual: f.call("math.pow.regular", a, y, usual)))


def pow_special(f, regular):
    """IEEE 754-2019's table of special cases around a power of positive numbers."""
    x, y = f.params
    a = f.let("a", x.abs())
    inf = float("inf")
    usual = f.let("usual", (a > 0.0) & (a < inf) & (y.abs() < inf))
    w = f.let("w", regular(a, y, usual))
    out = f.var("w", "f64", w)
    with f.if_(f.op("not", "bool", usual & f.let("positive", x > 0.0))):
        f.set(out, f.let("special", pow_unusual(f, a, usual, w)))
    return f.get(out)


def pow_unusual(f, a, usual, w):
    x, y = f.params
    inf = float("inf")
    # 0 or infinity: to a power above 0 it stays, below 0 it turns over. An infinite power does it to all but 1.
    turned = f.let("turned", f.op("ne", "bool", a < 1.0, y > 0.0))
    limit = f.let("limit", f.select(turned, inf, 0.0))
    limit = f.let("limit", f.select(a.eq(1.0), 1.0, limit))
    w = f.let("w", f.select(usual, w, limit))
    # The sign: an odd whole power keeps it. Large powers are even, floats have no finer ones.
    whole = f.let("whole", y.eq(f.let("floor", y.floor())))
    half = f.let("half", y * 0.5)
    odd = f.let("odd", f.op("and", "bool", whole, half.ne(f.let("floor", half.floor()))))
    negative = f.let("negative", f.op("copysign", x.ty, 1.0, x) < 0.0)
    w = f.let("w", f.select(odd & negative, -w, w))
    # A finite number below 0 to a power that is not whole is not a number.
    broken = f.let("broken", (x < 0.0) & (a < inf) & f.op("not", "bool", whole))
    w = f.let("w", f.select(broken, float("nan"), w))
    w = f.let("w", f.select(f.let("unknown", x.ne(x) | y.ne(y)), float("nan"), w))
    return f.select(f.let("one", y.eq(0.0) | x.eq(1.0)), 1.0, w)


def atan2_second():
    """atan(n / d) as a pair, turned and mirrored as the caller says, and rounded to odd."""
    f = Fn(
        "math.atan2.second",
        [("n", "f64"), ("d", "f64"), ("steep", "bool"), ("left", "bool")],
        "f64",
    )
    n, d, steep, left = f.params
    i = f.let("i", f.call("math.atan.index", n, d))
    c = f.let("c", i.cast("f64") * 0.0625)
    # Both products are exact as pairs.
    num = f.let("num", f.fma(-c, d, n))
    p = f.let("p", c * d)
    num = two_sum(f, n, -p)
    num = fast_sum(f, num[0], f.let("e", num[1] - f.fma(c, d, -p)))
    p = f.let("p", c * n)
    den = two_sum(f, d, p)
    den = fast_sum(f, den[0], f.let("e", den[1] + f.fma(c, n, -p)))
    # The quotient of pairs, in three steps.
    q = f.let("q", num[0] / den[0])
    rest = pair_add(f, num, pair_scale(f, den, -q))
    q2 = f.let("q", rest[0] / den[0])
    rest = pair_add(f, rest, pair_scale(f, den, -q2))
    q3 = f.let("q", rest[0] / den[0])
    t = fast_sum(f, q, q2)
    t = fast_sum(f, t[0], f.let("e", t[1] + q3))
    z = pair_mul(f, t, t)
    s = pair_series(f, z, "math.atan2.series", ATAN_SERIES + 1)
    s = pair_mul(f, s, t)
    base = (f.let("base", f.load("math.atan.center", "f64", i)), f.let("rest", f.load("math.atan2.rest", "f64", i)))
    s = pair_add(f, base, s)

    def mirrored(s, flag, constant):
        m = pair_add(f, tuple(f.let("c", f.select(flag, v, 0.0)) for v in split(constant)),
                     (f.let("m", f.select(flag, -s[0], s[0])), f.let("m.low", f.select(flag, -s[1], s[1]))))
        return m

    s = mirrored(s, steep, mp.pi / 2)
    s = mirrored(s, left, mp.pi)
    return f.ret(round_to_odd(f, *s))


# Up to the tangent of a sixteenth of a turn; off by less than the first step may be.
ATAN2 = fpminimax("(atan(sqrt(x))/sqrt(x)-1)/x", list(range(9)), "[1b-60;0.1716]", mode="relative")


def atan2():
    """atan(y / |x|) for y >= 0 with the smaller over the larger, as (n - d) / (n + d) if that is nearer to 0, and turned: pi/2 less
    it where y > |x|, pi less that where x < 0. So the arc goes up or down from an eighth of a turn."""
    f = Fn("math.atan2.wide", [("y", "f32"), ("x", "f32")], "f64")
    y, x = f.params
    inf = float("inf")
    b, a = y, f.let("a", x.abs())
    # Infinities count as ones against zeros, or against each other. What is not a number makes all of it so.
    av, bv = f.var("a", "f32", a), f.var("b", "f32", b)
    with f.if_(f.op("not", "bool", (a < inf) & (b < inf))):
        unknown = f.let("unknown", x.ne(x) | y.ne(y))
        for v, is_far in ((av, a.eq(inf)), (bv, b.eq(inf))):
            f.set(v, f.let("far", f.select(unknown, float("nan"), is_far.cast("f32"))))
    a, b = f.get(av), f.get(bv)
    steep = f.let("steep", b > a)
    left = f.let("left", f.op("copysign", "f32", 1.0, x) < 0.0)
    n = f.let("n", f.select(steep, a, b))
    d = f.let("d", f.select(steep, b, a))
    d = f.let("d", f.select(d.eq(0.0), 1.0, d))
    some = f.let("some", n > 0.0)
    half = f.let("half", n > d * single(double(mp.tan(mp.pi / 8))))
    # In eighths of a turn, where the arc begins.
    start = f.let("start", f.op("select", "f32", half, 1.0, 0.0))
    start = f.let("start", f.select(steep, 2.0 - start, start))
    start = f.let("start", f.select(left, 4.0 - start, start)).cast("f64")
    back = f.let("back", f.op("ne", "bool", steep, left))
    m, d = f.let("m", f.select(back, -n, n).cast("f64")), f.let("d", d.cast("f64"))
    less = f.let("less", f.select(half, f.select(back, 1.0, -1.0), 0.0))
    t = f.let("t", f.let("num", f.fma(d, less, m)) / f.let("den", f.fma(-less, m, d)))
    z = f.let("z", t * t)
    w = f.let("w", f.fma(z * t, f.poly(z, ATAN2), t))
    w = f.let("w", f.fma(start, double(mp.pi / 4), w))
    out = f.var("w", "f64", w)
    with f.if_(near_boundary(f, w, ATAN2_OFF) & some):
        n = f.let("n", n.cast("f64"))
        f.set(out, f.let("exact", f.call("math.atan2.second", n, d, steep, left)))
        # The arc is less than its tangent by less than any unit: the quotient decides, and then down.
        tiny = f.let("tiny", (n < d * 2.0**-60) & f.op("not", "bool", steep | left))
        q = f.let("q", n / d)
        less = f.let("less", f.fma(-q, d, n) <= 0.0)
        bits = f.let("bits", q.bits("u64"))
        odd = f.let("odd", (f.select(less, bits - 1, bits) | 1).bits("f64"))
        f.set(out, f.let("odd", f.select(tiny, odd, f.get(out))))
    return f.ret(f.get(out))


def text():
    yield from tables()
    yield pow_second()
    yield pow_regular()
    yield pow_wide()
    yield atan2_second()
    yield atan2()
