//! The page of elementary functions, `docs/math.md`, written from their table and their programs.
//!
//! Costs are counted in the optimised program: lines on the path that nearly every lane takes, and lines in all, with the
//! branches for hard cases and large arguments.

use std::fmt::Write as _;
use vyre_foundation::ir::{Block, Node};
use vyre_foundation::math::{MathOp, OPS};
use vyre_foundation::opt::optimise;
use vyre_foundation::text;
use vyre_foundation::validate::validate;

/// The page.
pub fn math_page() -> String {
    let mut page = String::from(INTRODUCTION);
    for op in OPS {
        let (usual, all) = cost(op);
        let off = if op.f64_off_max == 0 { "-".to_string() } else { op.f64_off_max.to_string() };
        let _ = writeln!(page, "| `{}` | {usual} | {all} | {off} | {} |", op.syntax(), op.doc);
    }
    page
}

/// Lines of the f32 function in a kernel: those outside of branches, and all.
fn cost(op: &MathOp) -> (usize, usize) {
    let operands = ["%x", "%x, %y"][op.operands - 1];
    let source = format!(
        "program @cost workgroup(1, 1, 1) {{\nbuffer @b : read_write f32[2] binding 0 output\n%x = load.f32 @b[0]\n\
         %y = load.f32 @b[1]\n%r = {}.f32 {operands}\nstore.f32 @b[0], %r\n}}",
        op.name
    );
    let program = text::parse(&source).unwrap_or_else(|errors| panic!("{}", errors[0])).program;
    let program = optimise(&validate(&program).unwrap_or_else(|errors| panic!("{}", errors[0])));
    let block = &program.parts().body.block;
    // What reads the operands and stores the result is not the function's.
    let around = 1 + op.operands;
    (block.len() - around, all(block) - around)
}

fn all(block: &Block) -> usize {
    block.iter().map(|node: &Node| 1 + node.blocks().map(all).sum::<usize>()).sum()
}

const INTRODUCTION: &str = "\
<!-- Written from the table by `UPDATE_EXPECT=1 cargo test -p vyre-testkit --test tidy`; edits here are lost. -->

# Elementary functions

`exp.f32 %x` and the other functions of this page are written like ops. Each is a function of the language over its exact ops:
parser and builder put it into the program that uses it, and from then on it is a function like any other. So every backend
gives the same bits, and `vyre opt` shows what runs.

- **f16, bf16 and f32 are correctly rounded**: the result is the one nearest to the exact value, ties to even, over the whole
  range, subnormals included, with IEEE 754-2019's special cases. `logaddexp` alone is its formula in f64, with an error of a
  few units in f64's last place, rounded once.
- f16 and bf16 come from the same f64 result as f32, rounded once, so nothing rounds twice.
- **f64 is the same bytes everywhere**, within a few units in the last place of the right ones, most within one.
- Results were compared with `core-math`, whose functions are proved: all 2^32 arguments of the f32 functions of one argument,
  all 65,536 of f16 and bf16, all pairs of special values and 2^30 random ones for those of two, an eighth of them chosen
  near a rounding boundary. `core-math` has no `sigmoid`, `silu`, `gelu` and `softplus`: of all their arguments, those whose
  result is near a boundary were judged by 300 bits of `mpmath` (`scripts/math/judge.py`).

```sh
cargo run --release -p vyre-math -- check --state done.txt    # everything on the cpu backend; it can be stopped and goes on
cargo run --release -p vyre-math -- check exp --backend cuda  # one function on another backend
cargo run --release -p vyre-math -- check --type f64          # how far f64 results are off
cargo run --release -p vyre-math -- check --digest            # all arguments, without core-math: compare digests of results
cargo run --release -p vyre-math -- check --digest --every 256  # a part of them: seconds on any machine
cargo run --release -p vyre-cli -- bench math                 # time beside core-math and the C library
```

Arguments are reduced with tables, polynomials in f64 do the rest, and the result has an error of one or two units of f64's last
place, 29 bits beyond what f32 keeps. The arguments whose result is so near to a boundary that this error decides are few; for
functions of one argument they are known, because all were tried, and are asked for. For `pow` and `atan2` a second step
in pairs of f64 decides them. `scripts/math/derive.py` derives every table and coefficient.

In the table, `T` is f16, bf16, f32 or f64. Cost is lines of the optimised f32 function: those that every lane runs, and all
with the branches that are rarely taken. The column f64 has the most units in the last place that an f64 result was or may be
off; `-` where nothing measures it.

| line | usual | all | f64 | meaning |
| --- | --- | --- | --- | --- |
";
