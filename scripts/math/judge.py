"""Which results of a function without an oracle are wrong: exact values for the arguments that lie near a rounding boundary.

    vyre-math hard sigmoid > candidates.txt && python3 scripts/math/judge.py sigmoid < candidates.txt

Every line is an argument's bits and the result's. What is printed belongs into `hard.rs` of the library. Needs mpmath.
"""

import struct
import sys

from mpmath import mp, mpf

mp.prec = 300
FUNCTIONS = {
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "gelu": lambda x: x / 2 * mp.erfc(-x / mp.sqrt(2)),
    "softplus": lambda x: mp.log1p(mp.exp(x)),
}


def value(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def rounded(exact):
    """The bits of the nearest f32: one of those about the f64."""
    near = struct.unpack("<I", struct.pack("<f", float(exact)))[0]
    about = [near + step for step in (-1, 0, 1) if (near + step) >> 31 == near >> 31]
    return min(about, key=lambda bits: abs(mpf(value(bits)) - exact))


def main():
    function = FUNCTIONS[sys.argv[1]]
    for line in sys.stdin:
        x, got = (int(word, 16) for word in line.split())
        right = rounded(function(mpf(value(x))))
        if right != got:
            print(f"[{x:#010x}, {right:#010x}],")


if __name__ == "__main__":
    main()
