#!/usr/bin/env python3
"""Computes what the examples must give, without any code of this project, and writes it into their `//@ run` lines.

usage: python3 expected.py        checks that the files have the lines it computes
       python3 expected.py write  puts them there, above the line that starts with `program`
"""
import hashlib
import re
import struct
import sys
from decimal import Decimal, getcontext
from fractions import Fraction

MASK = (1 << 64) - 1
getcontext().prec = 60


def rand(seed, count):
    """The words that `rand(seed=S, count=N)` draws: SplitMix64."""
    for i in range(count):
        z = (seed + (i + 1) * 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        yield z ^ z >> 31


def f32(x):
    """x rounded to a float of 32 bits, exactly, ties to even; x is a float of 64 bits or a fraction."""
    if isinstance(x, Fraction) and x != 0:
        magnitude, exponent = abs(x), 0
        while magnitude >= 1 << 24:
            magnitude, exponent = magnitude / 2, exponent + 1
        while magnitude < 1 << 23 and exponent > -149:
            magnitude, exponent = magnitude * 2, exponent - 1
        whole = round(magnitude)  # Python rounds fractions to even.
        x = (-1 if x < 0 else 1) * whole * 2.0**exponent
    return struct.unpack("<f", struct.pack("<f", float(x)))[0]


def show(x):
    """The shortest decimal that reads back as the same float of 32 bits."""
    for digits in range(1, 18):
        text = f"{x:.{digits}g}"
        if f32(float(text)) == x:
            break
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent)}"
    return text if "." in text else text + ".0"


def rand_f32(seed, count):
    return [(z >> 40) * 2.0**-23 - 1 for z in rand(seed, count)]


def rand_u32(seed, count):
    return [z & 0xFFFFFFFF for z in rand(seed, count)]


def ints(values):
    return "[" + ", ".join(str(v) for v in values) + "]"


def floats(values):
    return "[" + ", ".join(show(v) for v in values) + "]"


def spaced(data):
    """Bytes in hex, 32 to a word."""
    return " ".join(data[i : i + 32].hex() for i in range(0, len(data), 32))


def reduce():
    x = rand_u32(1, 200)
    sums = [sum(x[i : i + 64]) & 0xFFFFFFFF for i in range(0, 200, 64)]
    yield "x=[1; 64] size sums=1 => sums=[64]"
    yield f"x=rand(seed=1, count=200) size sums=4 grid=(4,1,1) => sums={ints(sums)}"


def scan():
    # Small whole numbers add without rounding, whatever the order.
    yield f"x=[1.0; 200] size y=200 => y={floats(f32(i % 128 + 1) for i in range(200))}"
    x = [3.0, -1.0, 4.0, 1.5, -5.0, 9.25]
    yield f"x={floats(x)} size y=6 => y={floats(sum(x[: i + 1]) for i in range(6))}"
    # Others round, in the order in which the doubling adds them.
    tile = rand_f32(5, 8) + [0.0] * 120
    for d in range(7):
        tile = [f32(tile[l - (1 << d)] + v) if l >= 1 << d else v for l, v in enumerate(tile)]
    yield f"x=rand(seed=5, count=8) size y=8 => y={floats(tile[:8])}"


def histogram():
    data = [z & 0xFF for z in rand(2, 1000)]
    counts = ints(data.count(v) for v in range(256))
    yield f"bytes=rand(seed=2, count=1000) grid=(3,1,1) => counts={counts}"
    yield "bytes=[] grid=(1,1,1) => counts=[0; 256]"


def matmul():
    yield "size=[2, 2, 2] a=[1.0, 2.0, 3.0, 4.0] b=[5.0, 6.0, 7.0, 8.0] size c=4 grid=(1,1,1) => c=[19.0, 22.0, 43.0, 50.0]"
    m, n, k = 3, 5, 9
    a, b = rand_f32(3, m * k), rand_f32(4, k * n)
    c = []
    for row in range(m):
        for col in range(n):
            total = Fraction(0)
            for l in range(k):
                exact = Fraction(a[row * k + l]) * Fraction(b[l * n + col]) + total
                total = Fraction(f32(exact))
            c.append(float(total))
    yield (
        f"size=[{m}, {n}, {k}] a=rand(seed=3, count={m * k}) b=rand(seed=4, count={k * n}) size c={m * n}"
        f" grid=(1,1,1) => c={floats(c)}"
    )


def mix():
    def one(x):
        for i in range(64):
            x ^= x >> 16
            x = x * 0x85EBCA6B & 0xFFFFFFFF
            x ^= x >> 13
            x = x * 0xC2B2AE35 & 0xFFFFFFFF
            x ^= x >> 16
            x = x + i & 0xFFFFFFFF
        return x

    yield f"y=[0, 1, 0xffffffff] => y={ints(one(x) for x in (0, 1, 0xFFFFFFFF))}"
    yield f"y=rand(seed=6, count=70) => y={ints(one(x) for x in rand_u32(6, 70))}"


def mandelbrot():
    left, top, pixel, width, height = -2.0, -1.25, 0.1875, 16, 8

    def steps(px, py):
        cx, cy = f32(left + f32(px * pixel)), f32(top + f32(py * pixel))
        x = y = 0.0
        count = 0
        for step in range(64):
            xx, yy = f32(x * x), f32(y * y)
            if f32(xx + yy) > 4.0:
                break
            xy = f32(x * y)
            x, y = f32(f32(xx - yy) + cx), f32(f32(xy + xy) + cy)
            count = step + 1
        return count

    image = [steps(px, py) for py in range(height) for px in range(width)]
    yield (
        f"view=[{left}, {top}, {pixel}] width=[{width}] size steps={width * height} grid=(2,1,1) => steps={ints(image)}"
    )


def sha256():
    def padded(message):
        zeros = -(len(message) + 9) % 64
        return message + b"\x80" + b"\0" * zeros + (8 * len(message)).to_bytes(8, "big")

    for messages in ([b"abc", b"", b"The quick brown fox"], [bytes(range(100)), b"a" * 119]):
        blocks = {len(padded(m)) // 64 for m in messages}
        assert len(blocks) == 1
        words = [w for m in messages for w in struct.unpack(">8I", hashlib.sha256(m).digest())]
        data = spaced(b"".join(padded(m) for m in messages))
        yield (
            f'blocks=[{blocks.pop()}] messages=hex"{data}" size digests={8 * len(messages)} grid=(1,1,1)'
            f" => digests=[{', '.join(f'0x{w:08x}' for w in words)}]"
        )


def dfa():
    records = [b"GET /index HTTP", b"POST /x", b"GET   /a GET /b", b"", b"GGET /", b"GET/ GET\t/", b"xGET /GET /y"]
    starts = [0]
    for record in records:
        starts.append(starts[-1] + len(record))
    counts = [len(re.findall(rb"GET +/", record)) for record in records]
    data = spaced(b"".join(records))
    yield f'text=hex"{data}" starts={ints(starts)} size matches={len(records)} => matches={ints(counts)}'


def stencil():
    w, h = 11, 9
    old = rand_f32(8, w * h)

    def cell(x, y):
        return old[min(max(y, 0), h - 1) * w + min(max(x, 0), w - 1)]

    new = []
    for y in range(h):
        for x in range(w):
            ns, ew = f32(cell(x, y - 1) + cell(x, y + 1)), f32(cell(x + 1, y) + cell(x - 1, y))
            flow = f32(f32(f32(ns + ew) * 0.25) - cell(x, y))
            new.append(f32(cell(x, y) + f32(flow * 0.5)))
    yield f"size=[{w}, {h}] old=rand(seed=8, count={w * h}) size new={w * h} grid=(2,2,1) => new={floats(new)}"


def exact(x):
    """A float as a decimal, without rounding."""
    return Decimal(x)


def tree(values, join):
    """Halves a list until one element is left, as the kernels' trees over workgroup memory do."""
    while len(values) > 1:
        half = len(values) // 2
        values = [f32(join(values[i], values[i + half])) for i in range(half)]
    return values[0]


def softmax():
    columns, rows = 70, 2
    x = rand_f32(9, rows * columns)
    y = []
    for row in range(rows):
        values = x[row * columns : (row + 1) * columns]
        greatest = max(values)
        powers = [f32(Fraction(exact(f32(v - greatest)).exp())) for v in values]
        parts = [0.0] * 64
        for column, power in enumerate(powers):
            parts[column % 64] = f32(parts[column % 64] + power)
        total = tree(parts, lambda a, b: a + b)
        y += [f32(Fraction(power) / Fraction(total)) for power in powers]
    given = f"columns=[{columns}] x=rand(seed=9, count={rows * columns}) size y={rows * columns} grid=({rows},1,1)"
    yield f"{given} => y={floats(y)}"


def layer_norm():
    columns, rows = 40, 2
    x, scale, shift = rand_f32(10, rows * columns), rand_f32(11, columns), rand_f32(12, columns)
    y = []

    def joined(parts):
        distance = 1
        while distance < 32:
            parts = [f32(parts[i] + parts[i ^ distance]) for i in range(32)]
            distance *= 2
        return parts[0]

    for row in range(rows):
        values = x[row * columns : (row + 1) * columns]
        parts = [0.0] * 32
        for column, value in enumerate(values):
            parts[column % 32] = f32(parts[column % 32] + value)
        mean = f32(Fraction(joined(parts)) / columns)
        parts = [0.0] * 32
        for column, value in enumerate(values):
            d = Fraction(f32(value - mean))
            parts[column % 32] = f32(d * d + Fraction(parts[column % 32]))
        variance = f32(Fraction(joined(parts)) / columns)
        factor = f32(Fraction(1 / exact(f32(variance + f32(0.00001))).sqrt()))
        for column, value in enumerate(values):
            normal = Fraction(f32(Fraction(f32(value - mean)) * Fraction(factor)))
            y.append(f32(normal * Fraction(scale[column]) + Fraction(shift[column])))
    yield (
        f"columns=[{columns}] x=rand(seed=10, count={rows * columns}) scale=rand(seed=11, count={columns})"
        f" shift=rand(seed=12, count={columns}) size y={rows * columns} grid=({rows},1,1) => y={floats(y)}"
    )


def gelu():
    def erf(x):
        # 2 / sqrt(pi) * sum of (-1)^n x^(2n+1) / (n! (2n+1)); pi to 60 digits.
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
        term, total, n = x, Decimal(0), 0
        while abs(term) > Decimal(10) ** -55 or n < 9:
            total += term / (2 * n + 1)
            n += 1
            term = -term * x * x / n
        return 2 * total / pi.sqrt()

    x = [0.5, -0.5, 1.0, -1.0, 3.0, -3.0] + rand_f32(13, 10)
    y = [f32(Fraction(exact(v) / 2 * (1 + erf(exact(v) / Decimal(2).sqrt())))) for v in x]
    yield "x=[0.0, -0.0, inf, -inf, nan] size y=5 => y=[0.0, -0.0, inf, -0.0, nan]"
    yield f"x={floats(x)} size y={len(x)} => y={floats(y)}"


def wrapped(directive):
    """A directive on lines of at most 118 characters; what is expected starts a line of its own if it is long."""
    whole = "//@ run " + directive
    if len(whole) <= 118:
        return [whole]
    given, expected = directive.split(" => ")
    lines, line = [], "//@ run"
    for word in given.split() + ["=>"] + expected.split():
        if len(line) + 1 + len(word) > 118 or word == "=>":
            lines.append(line)
            line = "//@+   "
        line += " " + word
    return lines + [line]


def main():
    wrong = 0
    for compute in (reduce, scan, histogram, matmul, mix, mandelbrot, sha256, dfa, stencil, softmax, layer_norm, gelu):
        folder = f"{sys.path[0]}/ml" if compute in (softmax, layer_norm, gelu) else sys.path[0]
        path = f"{folder}/{compute.__name__}.vyre"
        with open(path) as file:
            lines = file.read().split("\n")
        kept = [line for line in lines if not line.startswith("//@")]
        at = next(i for i, line in enumerate(kept) if line.startswith("program"))
        new = "\n".join(kept[:at] + [line for run in compute() for line in wrapped(run)] + kept[at:])
        if sys.argv[1:] == ["write"]:
            with open(path, "w") as file:
                file.write(new)
        elif new != "\n".join(lines):
            wrong += 1
            print(f"{path} differs from what is computed")
    sys.exit(1 if wrong else 0)


main()
