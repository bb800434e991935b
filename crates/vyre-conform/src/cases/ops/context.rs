//! Ops among other ops, and ops with a constant operand: what compilers rewrite.
//!
//! Each line of the tables is legal text with `T` for the type. The real-number or no-overflow reading of these lines has
//! a simpler form, and the language does not allow it: `(a + b) - a` is not `b`, `a + 1 > a` is not true, `x * 0` is not 0.

use super::super::expression::{self, thin, triples};
use super::super::operands::{Instance, edges, values};
use super::super::rows::Kernel;
use super::lanes;
use crate::batch::{Batch, Group, Level, Plan};
use vyre_foundation::ir::{ComputeOp, DataType, TypeSet};

/// An expression of `%a`, `%b` and `%c`: the types, the name of its result `%R`, and the lines.
type Expression = (TypeSet, &'static str, &'static str);

const EXPRESSIONS: &[Expression] = &[
    (TypeSet::FLOAT, "mul_add", "%1 = mul.T %a, %b; %R = add.T %1, %c"),
    (TypeSet::FLOAT, "mul_sub", "%1 = mul.T %a, %b; %R = sub.T %1, %c"),
    (TypeSet::FLOAT, "sub_mul", "%1 = mul.T %a, %b; %R = sub.T %c, %1"),
    (TypeSet::FLOAT, "neg_mul_add", "%1 = mul.T %a, %b; %3 = neg.T %1; %R = add.T %3, %c"),
    (TypeSet::FLOAT, "add_then_sub", "%1 = add.T %a, %b; %R = sub.T %1, %a"),
    (TypeSet::FLOAT, "sub_then_add", "%1 = sub.T %a, %b; %R = add.T %1, %b"),
    (TypeSet::FLOAT, "distribute", "%1 = mul.T %a, %b; %2 = mul.T %a, %c; %R = add.T %1, %2"),
    (TypeSet::FLOAT, "add_left", "%1 = add.T %a, %b; %R = add.T %1, %c"),
    (TypeSet::FLOAT, "add_right", "%1 = add.T %b, %c; %R = add.T %a, %1"),
    (TypeSet::FLOAT, "mul_left", "%1 = mul.T %a, %b; %R = mul.T %1, %c"),
    (TypeSet::FLOAT, "mul_right", "%1 = mul.T %b, %c; %R = mul.T %a, %1"),
    (TypeSet::FLOAT, "minus_itself", "%R = sub.T %a, %a"),
    (TypeSet::FLOAT, "over_itself", "%R = div.T %a, %a"),
    (TypeSet::FLOAT, "div_then_mul", "%1 = div.T %a, %b; %R = mul.T %1, %b"),
    (TypeSet::FLOAT, "div_twice", "%1 = div.T %a, %b; %R = div.T %1, %c"),
    (TypeSet::FLOAT, "reciprocal_mul", "%1 = div.T 1.0, %b; %R = mul.T %a, %1"),
    (TypeSet::FLOAT, "negated_difference", "%1 = sub.T %a, %b; %R = neg.T %1"),
    (TypeSet::FLOAT, "add_negated", "%1 = neg.T %b; %R = add.T %a, %1"),
    (TypeSet::FLOAT, "sqrt_of_square", "%1 = mul.T %a, %a; %R = sqrt.T %1"),
    (TypeSet::FLOAT, "square_of_sqrt", "%1 = sqrt.T %a; %R = mul.T %1, %1"),
    (TypeSet::FLOAT, "reciprocal_sqrt", "%1 = sqrt.T %a; %R = div.T 1.0, %1"),
    (TypeSet::FLOAT, "abs_of_neg", "%1 = neg.T %a; %R = abs.T %1"),
    (TypeSet::FLOAT, "select_less", "%1 = lt.T %a, %b; %R = select.T %1, %a, %b"),
    (TypeSet::FLOAT, "select_not_less", "%1 = lt.T %a, %b; %3 = not.bool %1; %R = select.T %3, %a, %b"),
    (TypeSet::FLOAT, "select_greater_equal", "%1 = ge.T %a, %b; %R = select.T %1, %a, %b"),
    (TypeSet::FLOAT, "max_of_min", "%1 = min.T %a, %b; %R = max.T %1, %c"),
    (TypeSet::FLOAT, "truncated_quotient", "%1 = div.T %a, %b; %R = trunc.T %1"),
    (TypeSet::FLOAT, "floor_of_sum", "%1 = add.T %a, 0.5; %R = floor.T %1"),
    (TypeSet::FLOAT, "branch", BRANCH),
    (TypeSet::FLOAT, "branch_unequal", "%1 = ne.T %a, %a; %R = select.T %1, %b, %c"),
    (TypeSet::INT, "add_then_sub", "%1 = add.T %a, %b; %R = sub.T %1, %a"),
    (TypeSet::INT, "mul_then_div", "%1 = mul.T %a, %b; %R = div.T %1, %b"),
    (TypeSet::INT, "div_then_mul", "%1 = div.T %a, %b; %R = mul.T %1, %b"),
    (TypeSet::INT, "double_then_halve", "%1 = mul.T %a, 2; %R = div.T %1, 2"),
    (TypeSet::INT, "left_then_right", "%1 = shl.T %a, 3; %R = shr.T %1, 3"),
    (TypeSet::INT, "right_then_left", "%1 = shr.T %a, 5; %R = shl.T %1, 5"),
    (TypeSet::INT, "more_than_before", "%1 = add.T %a, 1; %2 = gt.T %1, %a; %R = select.T %2, %a, %b"),
    (TypeSet::INT, "difference_below_zero", "%1 = sub.T %a, %b; %2 = lt.T %1, 0; %R = select.T %2, %a, %b"),
    (TypeSet::INT, "sum_compared", "%1 = add.T %a, %c; %2 = lt.T %1, %b; %R = select.T %2, %a, %b"),
    (TypeSet::INT, "average", "%1 = add.T %a, %b; %R = div.T %1, 2"),
    (TypeSet::INT, "shifted_or", "%1 = shl.T %a, 7; %2 = shr.T %a, 25; %R = or.T %1, %2"),
    (TypeSet::INT, "remainder_by_hand", "%1 = div.T %a, %b; %2 = mul.T %1, %b; %R = sub.T %a, %2"),
    (TypeSet::INT, "minus_itself_over", "%1 = sub.T %a, %a; %R = div.T %b, %1"),
    (TypeSet::INT, "over_itself", "%R = div.T %a, %a"),
    (TypeSet::INT, "remainder_of_itself", "%R = rem.T %a, %a"),
    (TypeSet::INT, "branch", BRANCH),
];

/// A comparison that decides a branch instead of a `select`.
const BRANCH: &str =
    "var $0 : T = %b; %1 = lt.T %a, %b; if %1 {; set.T $0, %a; } else {; set.T $0, %c; }; %R = get.T $0";

/// Expressions of one program.
const CHUNK: usize = 6;

/// Ops with constants: the types, the op, and its operands. `MIN`, `MAX` and `ALL` are the type's limits and its ones.
const LITERALS: &[(TypeSet, ComputeOp, &[&str])] = &[
    (TypeSet::FLOAT, ComputeOp::Add, &["%a, 0.0", "%a, -0.0", "%a, 1.0"]),
    (TypeSet::FLOAT, ComputeOp::Sub, &["%a, 0.0", "%a, -0.0", "0.0, %a", "-0.0, %a"]),
    (TypeSet::FLOAT, ComputeOp::Mul, &["%a, 0.0", "%a, -0.0", "%a, 1.0", "%a, -1.0", "%a, 2.0", "%a, 0.5"]),
    (TypeSet::FLOAT, ComputeOp::Div, &["%a, 1.0", "%a, 2.0", "%a, 3.0", "%a, 0.0", "1.0, %a", "0.0, %a"]),
    (TypeSet::FLOAT, ComputeOp::Rem, &["%a, 1.0", "%a, 3.0", "%a, inf"]),
    (TypeSet::FLOAT, ComputeOp::Min, &["%a, 0.0", "-0.0, %a", "%a, nan", "%a, inf"]),
    (TypeSet::FLOAT, ComputeOp::Max, &["%a, 0.0", "-0.0, %a", "%a, nan", "%a, -inf"]),
    (TypeSet::FLOAT, ComputeOp::Clamp, &["%a, 0.0, 1.0", "%a, -1.0, 1.0", "%a, -0.0, inf", "%a, nan, 2.0"]),
    (
        TypeSet::FLOAT,
        ComputeOp::Fma,
        &["%a, 0.0, %b", "%a, 1.0, %b", "%a, %b, 0.0", "%a, %b, -0.0", "%a, 2.0, %b"],
    ),
    (TypeSet::FLOAT, ComputeOp::Copysign, &["%a, 1.0", "%a, -0.0", "1.0, %a", "%a, nan"]),
    (TypeSet::FLOAT, ComputeOp::Eq, &["%a, 0.0", "%a, -0.0", "%a, inf", "%a, nan", "%a, %a"]),
    (TypeSet::FLOAT, ComputeOp::Ne, &["%a, 0.0", "%a, inf", "%a, nan", "%a, %a"]),
    (TypeSet::FLOAT, ComputeOp::Lt, &["%a, 0.0", "-0.0, %a", "%a, inf", "%a, nan", "%a, %a"]),
    (TypeSet::FLOAT, ComputeOp::Le, &["%a, 0.0", "%a, -0.0", "%a, inf", "nan, %a", "%a, %a"]),
    (TypeSet::FLOAT, ComputeOp::Gt, &["%a, -0.0", "0.0, %a", "%a, -inf", "%a, nan", "%a, %a"]),
    (TypeSet::FLOAT, ComputeOp::Ge, &["%a, 0.0", "%a, -0.0", "%a, -inf", "nan, %a", "%a, %a"]),
    (TypeSet::INT, ComputeOp::Add, &["%a, 1", "%a, MIN", "%a, ALL"]),
    (TypeSet::INT, ComputeOp::Sub, &["%a, 1", "%a, MIN", "0, %a", "ALL, %a"]),
    (TypeSet::INT, ComputeOp::Mul, &["%a, 0", "%a, 2", "%a, 3", "%a, 10", "%a, 65536", "%a, ALL", "%a, MIN"]),
    (
        TypeSet::INT,
        ComputeOp::Div,
        &[
            "%a, 0", "%a, 1", "%a, 2", "%a, 3", "%a, 7", "%a, 10", "%a, 16", "%a, 641", "%a, ALL", "%a, MIN",
            "%a, MAX", "1, %a", "MIN, %a",
        ],
    ),
    (
        TypeSet::INT,
        ComputeOp::Rem,
        &[
            "%a, 0", "%a, 1", "%a, 2", "%a, 3", "%a, 7", "%a, 10", "%a, 16", "%a, 641", "%a, ALL", "%a, MIN",
            "%a, MAX", "1, %a", "MIN, %a",
        ],
    ),
    (TypeSet::INT, ComputeOp::MulHi, &["%a, 1", "%a, 2", "%a, 3", "%a, ALL", "%a, MIN"]),
    (TypeSet::INT, ComputeOp::AddSat, &["%a, 1", "%a, ALL", "%a, MIN", "%a, MAX"]),
    (TypeSet::INT, ComputeOp::SubSat, &["%a, 1", "%a, ALL", "%a, MIN", "0, %a", "MIN, %a"]),
    (TypeSet::INT, ComputeOp::Min, &["%a, 0", "%a, MAX", "%a, ALL", "%a, MIN"]),
    (TypeSet::INT, ComputeOp::Max, &["%a, 0", "%a, MAX", "%a, ALL", "%a, MIN"]),
    (TypeSet::INT, ComputeOp::Clamp, &["%a, 0, 255", "%a, 10, 5", "%a, 1, MAX", "%a, MIN, 7"]),
    (TypeSet::INT, ComputeOp::And, &["%a, 0", "%a, 255", "%a, ALL", "%a, MIN"]),
    (TypeSet::INT, ComputeOp::Or, &["%a, 0", "%a, 255", "%a, ALL", "%a, MIN"]),
    (TypeSet::INT, ComputeOp::Xor, &["%a, 0", "%a, 255", "%a, ALL", "%a, MIN", "%a, %a"]),
    (TypeSet::INT, ComputeOp::Shl, &SHIFTS),
    (TypeSet::INT, ComputeOp::Shr, &SHIFTS),
    (TypeSet::INT, ComputeOp::Rotl, &SHIFTS),
    (TypeSet::INT, ComputeOp::Rotr, &SHIFTS),
    (
        TypeSet::INT,
        ComputeOp::Extract,
        &["%a, 0, 8", "%a, 31, 1", "%a, 28, 8", "%a, 0, 32", "%a, 16, 64", "%a, 40, 9"],
    ),
    (
        TypeSet::INT,
        ComputeOp::Insert,
        &["%a, %b, 0, 8", "%a, %b, 31, 1", "%a, %b, 28, 8", "%a, %b, 0, 32", "%a, 1, 40, 99"],
    ),
    (TypeSet::INT32, ComputeOp::Dot4, &["%a, 16843009, %b", "4286578688, %a, 0", "255, 255, %b"]),
    (TypeSet::INT, ComputeOp::Eq, &["%a, 0", "%a, MIN", "%a, MAX", "%a, ALL"]),
    (TypeSet::INT, ComputeOp::Ne, &["%a, 0", "%a, MIN", "%a, MAX", "%a, ALL"]),
    (TypeSet::INT, ComputeOp::Lt, &COMPARED),
    (TypeSet::INT, ComputeOp::Le, &COMPARED),
    (TypeSet::INT, ComputeOp::Gt, &COMPARED),
    (TypeSet::INT, ComputeOp::Ge, &COMPARED),
];

const SHIFTS: [&str; 8] =
    ["%a, 0", "%a, 1", "%a, 31", "%a, 32", "%a, 33", "%a, 63", "%a, 64", "%a, 4294967295"];
const COMPARED: [&str; 6] = ["%a, 0", "%a, 1", "%a, MIN", "%a, MAX", "%a, ALL", "MIN, %a"];

pub(super) fn groups() -> Vec<Group> {
    let group = |(at, ty): (usize, DataType)| {
        let name = format!("op/{ty}/context");
        Group::fixed(name.clone(), Level::Ops, super::track(&[ty]), move |plan| {
            expressions(plan, &name, at * EXPRESSIONS.len(), ty)
        })
    };
    TypeSet::NUM.iter().enumerate().map(group).collect()
}

/// The expressions of a type, a few in each program. Programs are counted from `first`.
fn expressions(plan: &Plan<'_>, name: &str, first: usize, ty: DataType) -> Vec<Batch> {
    let own: Vec<&Expression> = EXPRESSIONS.iter().filter(|(types, ..)| types.contains(ty)).collect();
    let rows = triples(ty, plan.pick(1_500, 10_000));
    let batch = |(at, chunk): (usize, &[&Expression])| {
        let mut lines = String::new();
        let mut outputs = Vec::new();
        for (_, result, text) in chunk {
            lines += &expression::lines(text, ty, result);
            outputs.push(((*result).to_owned(), ty));
        }
        let kernel = Kernel { lanes: lanes(first + at), inputs: vec![ty; 3], lines, outputs };
        let titles: Vec<&str> = chunk.iter().map(|(_, result, _)| *result).collect();
        kernel.batch(format!("{name}:{}", titles.join("+")), &rows)
    };
    own.chunks(CHUNK).enumerate().map(batch).collect()
}

/// The op with constants among its operands: one program with a result for each list. `None` if the table has none.
pub(super) fn with_literals(plan: &Plan<'_>, name: &str, at: usize, instance: &Instance) -> Option<Batch> {
    let Instance { op, ty, .. } = *instance;
    let (_, _, lists) = LITERALS.iter().find(|(types, of, _)| *of == op && types.contains(ty))?;
    let result = op.info().result.under(ty).expect("computing ops have results");
    let mut lines = String::new();
    let mut outputs = Vec::new();
    for (number, list) in lists.iter().enumerate() {
        let line = format!("%R = {}.T {list}", op.info().name);
        let name = format!("y{number}");
        lines += &expression::lines(&line, ty, &name);
        outputs.push((name, result));
    }
    let inputs = match op {
        ComputeOp::Dot4 => vec![DataType::U32, ty],
        _ => vec![ty; 2],
    };
    let kernel = Kernel { lanes: lanes(at + 128), inputs, lines, outputs };
    let other = edges(ty);
    let rows = values(ty).into_iter().enumerate();
    let rows = rows.map(|(at, value)| [value, other[at * 7 % other.len()], 0, 0]).collect();
    Some(kernel.batch(format!("{name}:literal"), &thin(rows, plan.pick(400, 4_000))))
}
