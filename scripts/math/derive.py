"""Writes `library.vyre`: every function in f64, with the tables and coefficients derived here.

    python3 scripts/math/derive.py && vyre fmt crates/vyre-foundation/src/math/library.vyre

Needs Sollya 8 and mpmath. Everything is computed anew; nothing is random, so the result is the same text.
"""

import pathlib

import exponential
import logarithm
import trigonometric
import more
import two
import double

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = (exponential, logarithm, trigonometric, more, two, double)


def main():
    texts = []
    for part in PARTS:
        texts.extend(part.text())
    tables = [text for text in texts if text.startswith("const")]
    functions = [text for text in texts if not text.startswith("const")]
    body = "".join(tables) + "\n" + "\n".join(functions)
    path = ROOT / "crates/vyre-foundation/src/math/library.vyre"
    path.write_text(f"program @math workgroup(1, 1, 1) {{\n{body}}}\n")


if __name__ == "__main__":
    main()
