//! Laws between ops. Each program computes whether its laws hold, and that result is compared like any other.
//!
//! A wrong op can satisfy its laws, and an op that is right on the operands of the level below can violate them: the two levels
//! complement each other. Every law here is true for all operands.

use super::expression::{self, triples};
use super::operands::{Instance, Row};
use super::ops::{lanes, track};
use super::rows::Kernel;
use crate::batch::{Batch, Group, Level, Plan};
use vyre_foundation::ir::{ComputeOp, DataType, TypeSet};

/// A family, its types, and its laws: each a name and lines over `%a`, `%b`, `%c` of type `T` and a `%d` of type u32.
struct Family {
    name: &'static str,
    types: fn(DataType) -> bool,
    laws: &'static [(&'static str, &'static str)],
}

const fn is_int(ty: DataType) -> bool {
    TypeSet::INT.contains(ty)
}

const fn is_num(ty: DataType) -> bool {
    TypeSet::NUM.contains(ty)
}

const fn is_unsigned(ty: DataType) -> bool {
    is_int(ty) && !ty.is_signed()
}

const fn is_signed(ty: DataType) -> bool {
    is_int(ty) && ty.is_signed()
}

const FAMILIES: &[Family] = &[
    Family {
        name: "order-of-operands",
        types: is_num,
        laws: &[
            ("add", "%1 = add.T %a, %b; %2 = add.T %b, %a; SAME %1, %2"),
            ("mul", "%1 = mul.T %a, %b; %2 = mul.T %b, %a; SAME %1, %2"),
            ("min", "%1 = min.T %a, %b; %2 = min.T %b, %a; SAME %1, %2"),
            ("max", "%1 = max.T %a, %b; %2 = max.T %b, %a; SAME %1, %2"),
            ("clamp", "%1 = clamp.T %a, %b, %c; %2 = max.T %a, %b; %3 = min.T %2, %c; SAME %1, %3"),
        ],
    },
    Family {
        name: "comparison",
        types: is_num,
        laws: &[
            ("mirrored", "%1 = lt.T %a, %b; %2 = gt.T %b, %a; %R = eq.bool %1, %2"),
            ("mirrored_or_equal", "%1 = le.T %a, %b; %2 = ge.T %b, %a; %R = eq.bool %1, %2"),
            (
                "or_equal",
                "%1 = lt.T %a, %b; %2 = eq.T %a, %b; %3 = or.bool %1, %2; %4 = le.T %a, %b; %R = eq.bool %3, %4",
            ),
            ("unequal", "%1 = eq.T %a, %b; %2 = ne.T %a, %b; %R = xor.bool %1, %2"),
            ("never_both", "%1 = lt.T %a, %b; %2 = gt.T %a, %b; %3 = and.bool %1, %2; %R = not.bool %3"),
            (
                "selected",
                "%1 = lt.T %a, %b; %2 = select.T %1, %a, %b; %3 = select.T %1, %b, %a; \
                          %4 = eq.T %2, %a; %5 = eq.T %3, %a; %6 = or.bool %4, %5; %7 = ne.T %a, %a; %R = or.bool %6, %7",
            ),
        ],
    },
    Family {
        name: "integers",
        types: is_int,
        laws: &[
            ("add_then_sub", "%1 = add.T %a, %b; %2 = sub.T %1, %b; SAME %2, %a"),
            (
                "add_by_bits",
                "%1 = xor.T %a, %b; %2 = and.T %a, %b; %3 = shl.T %2, 1; %4 = add.T %1, %3; \
                             %5 = add.T %a, %b; SAME %4, %5",
            ),
            (
                "or_by_sum",
                "%1 = add.T %a, %b; %2 = and.T %a, %b; %3 = sub.T %1, %2; %4 = or.T %a, %b; SAME %3, %4",
            ),
            ("not_by_sub", "%1 = sub.T ALL, %a; %2 = not.T %a; SAME %1, %2"),
            (
                "distributes",
                "%1 = add.T %b, %c; %2 = mul.T %a, %1; %3 = mul.T %a, %b; %4 = mul.T %a, %c; \
                             %5 = add.T %3, %4; SAME %2, %5",
            ),
            (
                "min_and_max",
                "%1 = min.T %a, %b; %2 = max.T %a, %b; %3 = xor.T %1, %2; %4 = xor.T %a, %b; SAME %3, %4",
            ),
        ],
    },
    Family {
        name: "division",
        types: is_int,
        laws: &[
            (
                "identity",
                "%1 = div.T %a, %b; %2 = mul.T %1, %b; %3 = rem.T %a, %b; %4 = add.T %2, %3; %5 = eq.T %4, %a; \
                          %6 = eq.T %b, 0; %R = or.bool %5, %6",
            ),
            ("by_zero", "%1 = and.T %b, 0; %2 = div.T %a, %1; SAME %2, %a"),
            ("rest_by_zero", "%1 = and.T %b, 0; %2 = rem.T %a, %1; SAME %2, %1"),
            (
                "by_itself",
                "%1 = div.T %a, %a; %2 = le.T %1, 1; %3 = rem.T %a, %a; %4 = eq.T %3, 0; %R = and.bool %2, %4",
            ),
            ("rest_is_smaller", "%1 = rem.T %a, %b; %2 = rem.T %1, %b; SAME %1, %2"),
        ],
    },
    Family {
        name: "shifts",
        types: is_int,
        laws: &[
            ("left_masked", "%1 = rem.u32 %d, WIDTH; %2 = shl.T %a, %d; %3 = shl.T %a, %1; SAME %2, %3"),
            ("right_masked", "%1 = rem.u32 %d, WIDTH; %2 = shr.T %a, %d; %3 = shr.T %a, %1; SAME %2, %3"),
            ("left_by_power", "%1 = shl.T 1, %d; %2 = mul.T %a, %1; %3 = shl.T %a, %d; SAME %2, %3"),
            ("around_and_back", "%1 = rotl.T %a, %d; %2 = rotr.T %1, %d; SAME %2, %a"),
            ("other_way_around", "%1 = sub.u32 0, %d; %2 = rotl.T %a, %d; %3 = rotr.T %a, %1; SAME %2, %3"),
            (
                "right_then_left",
                "%1 = shr.T %a, %d; %2 = shl.T %1, %d; %3 = shl.T ALL, %d; %4 = and.T %a, %3; SAME %2, %4",
            ),
        ],
    },
    Family {
        name: "bits",
        types: is_int,
        laws: &[
            (
                "counts",
                "%1 = not.T %a; %2 = popcount.T %a; %3 = popcount.T %1; %4 = add.T %2, %3; %R = eq.T %4, WIDTH",
            ),
            ("reversed_twice", "%1 = reverse_bits.T %a; %2 = reverse_bits.T %1; SAME %2, %a"),
            ("zeros_reversed", "%1 = reverse_bits.T %a; %2 = ctz.T %1; %3 = clz.T %a; SAME %2, %3"),
            (
                "lowest_bit",
                "%1 = sub.T %a, 1; %2 = not.T %a; %3 = and.T %1, %2; %4 = popcount.T %3; %5 = ctz.T %a; SAME %4, %5",
            ),
            (
                "field_and_back",
                "%1 = shr.u32 %d, 9; %2 = extract.T %a, %d, %1; %3 = insert.T %a, %2, %d, %1; SAME %3, %a",
            ),
            (
                "inserted_field",
                "%1 = and.u32 %d, 31; %2 = shr.u32 %d, 27; %3 = insert.T %a, %b, %1, %2; %4 = extract.T %3, %1, %2; \
                                %5 = sub.u32 WIDTH, %1; %6 = min.u32 %5, %2; %7 = extract.T %b, 0, %6; SAME %4, %7",
            ),
        ],
    },
    Family {
        name: "saturation",
        types: is_unsigned,
        laws: &[
            (
                "add",
                "%1 = add.T %a, %b; %2 = lt.T %1, %a; %3 = select.T %2, ALL, %1; %4 = add_sat.T %a, %b; SAME %3, %4",
            ),
            (
                "sub",
                "%1 = sub.T %a, %b; %2 = lt.T %a, %b; %3 = select.T %2, 0, %1; %4 = sub_sat.T %a, %b; SAME %3, %4",
            ),
            (
                "through_complement",
                "%1 = not.T %a; %2 = add_sat.T %1, %b; %3 = not.T %2; %4 = sub_sat.T %a, %b; SAME %3, %4",
            ),
        ],
    },
    Family {
        name: "saturation",
        types: is_signed,
        laws: &[
            (
                "add",
                "%1 = add.T %a, %b; %2 = xor.T %1, %a; %3 = xor.T %1, %b; %4 = and.T %2, %3; %5 = lt.T %4, 0; \
                     %7 = lt.T %a, 0; %8 = select.T %7, MIN, MAX; %9 = select.T %5, %8, %1; \
                     %6 = add_sat.T %a, %b; %R = eq.T %9, %6",
            ),
            ("negation", "%1 = neg.T %a; %2 = sub.T 0, %a; SAME %1, %2"),
            ("magnitude", "%1 = neg.T %a; %2 = max.T %a, %1; %3 = abs.T %a; SAME %2, %3"),
            (
                "through_complement",
                "%1 = not.T %a; %2 = add_sat.T %1, %b; %3 = not.T %2; %4 = sub_sat.T %a, %b; SAME %3, %4",
            ),
        ],
    },
    Family {
        name: "wide-product",
        types: |ty| matches!(ty, DataType::U32),
        laws: &[
            (
                "upper_half",
                "%1 = cast.u64 %a; %2 = cast.u64 %b; %3 = mul.u64 %1, %2; %4 = shr.u64 %3, 32; %5 = cast.u32 %4; \
                            %6 = mul_hi.u32 %a, %b; SAME %5, %6",
            ),
            (
                "lower_half",
                "%1 = cast.u64 %a; %2 = cast.u64 %b; %3 = mul.u64 %1, %2; %4 = cast.u32 %3; %5 = mul.u32 %a, %b; SAME %4, %5",
            ),
        ],
    },
    Family {
        name: "wide-product",
        types: |ty| matches!(ty, DataType::I32),
        laws: &[
            (
                "upper_half",
                "%1 = cast.i64 %a; %2 = cast.i64 %b; %3 = mul.i64 %1, %2; %4 = shr.i64 %3, 32; %5 = cast.i32 %4; \
                            %6 = mul_hi.i32 %a, %b; SAME %5, %6",
            ),
            (
                "lower_half",
                "%1 = cast.i64 %a; %2 = cast.i64 %b; %3 = mul.i64 %1, %2; %4 = cast.i32 %3; %5 = mul.i32 %a, %b; SAME %4, %5",
            ),
        ],
    },
    Family {
        name: "wide-product",
        types: |ty| matches!(ty, DataType::U64),
        laws: &[(
            "by_halves",
            "%1 = and.u64 %a, 0xffffffff; %2 = shr.u64 %a, 32; %3 = and.u64 %b, 0xffffffff; %4 = shr.u64 %b, 32; \
             %5 = mul.u64 %1, %3; %6 = mul.u64 %2, %3; %7 = shr.u64 %5, 32; %6.sum = add.u64 %6, %7; \
             %7.low = and.u64 %6.sum, 0xffffffff; %7.high = shr.u64 %6.sum, 32; %1.cross = mul.u64 %1, %4; \
             %1.sum = add.u64 %1.cross, %7.low; %1.high = shr.u64 %1.sum, 32; %2.top = mul.u64 %2, %4; \
             %2.sum = add.u64 %2.top, %7.high; %2.all = add.u64 %2.sum, %1.high; %3.own = mul_hi.u64 %a, %b; SAME %2.all, %3.own",
        )],
    },
    Family {
        name: "signs",
        types: DataType::is_float,
        laws: &[
            ("sub_is_add", "%1 = neg.T %b; %2 = add.T %a, %1; %3 = sub.T %a, %b; SAME %2, %3"),
            (
                "mul_negated",
                "%1 = neg.T %a; %2 = mul.T %1, %b; %3 = mul.T %a, %b; %4 = neg.T %3; SAME %2, %4",
            ),
            (
                "div_negated",
                "%1 = neg.T %a; %2 = div.T %1, %b; %3 = div.T %a, %b; %4 = neg.T %3; SAME %2, %4",
            ),
            ("rem_negated", "%1 = neg.T %b; %2 = rem.T %a, %1; %3 = rem.T %a, %b; SAME %2, %3"),
            ("copied", "%1 = abs.T %a; %2 = copysign.T %1, %a; SAME %2, %a"),
            (
                "min_is_negated_max",
                "%1 = neg.T %a; %2 = neg.T %b; %3 = max.T %1, %2; %4 = neg.T %3; %5 = min.T %a, %b; SAME %4, %5",
            ),
        ],
    },
    Family {
        name: "products",
        types: DataType::is_float,
        laws: &[
            ("fused_with_zero", "%1 = fma.T %a, %b, -0.0; %2 = mul.T %a, %b; SAME %1, %2"),
            ("fused_with_one", "%1 = fma.T %a, 1.0, %b; %2 = add.T %a, %b; SAME %1, %2"),
            ("fused_order", "%1 = fma.T %a, %b, %c; %2 = fma.T %b, %a, %c; SAME %1, %2"),
            ("doubled", "%1 = mul.T %a, 2.0; %2 = add.T %a, %a; SAME %1, %2"),
            ("halved", "%1 = mul.T %a, 0.5; %2 = div.T %a, 2.0; SAME %1, %2"),
            ("by_one", "%1 = div.T %a, 1.0; %2 = mul.T %a, 1.0; SAME %1, %2"),
        ],
    },
    Family {
        name: "rounding",
        types: DataType::is_float,
        laws: &[
            (
                "floor_is_negated_ceil",
                "%1 = neg.T %a; %2 = ceil.T %1; %3 = neg.T %2; %4 = floor.T %a; SAME %3, %4",
            ),
            (
                "trunc_by_sign",
                "%1 = lt.T %a, 0.0; %2 = ceil.T %a; %3 = floor.T %a; %4 = select.T %1, %2, %3; %5 = trunc.T %a; SAME %4, %5",
            ),
            ("round_is_odd", "%1 = neg.T %a; %2 = round.T %1; %3 = neg.T %2; %4 = round.T %a; SAME %3, %4"),
            (
                "round_is_near",
                "%1 = round.T %a; %2 = sub.T %1, %a; %3 = abs.T %2; %4 = le.T %3, 0.5; %5 = sub.T %a, %a; \
                               %6 = ne.T %5, 0.0; %R = or.bool %4, %6",
            ),
            ("round_twice", "%1 = round.T %a; %2 = trunc.T %1; SAME %1, %2"),
            (
                "rest_of_one",
                "%1 = rem.T %a, 1.0; %2 = trunc.T %a; %3 = sub.T %a, %2; %4 = copysign.T %3, %a; \
                             %5 = is_inf.T %a; %6 = select.T %5, %1, %4; SAME %1, %6",
            ),
        ],
    },
    Family {
        name: "classes",
        types: DataType::is_float,
        laws: &[
            ("nan", "%1 = is_nan.T %a; %2 = ne.T %a, %a; %R = eq.bool %1, %2"),
            ("infinity", "%1 = is_inf.T %a; %2 = abs.T %a; %3 = eq.T %2, inf; %R = eq.bool %1, %3"),
            ("truth", "%1 = cast.bool %a; %2 = ne.T %a, 0.0; %R = eq.bool %1, %2"),
            ("bits_and_back", "%1 = bitcast.U %a; %2 = bitcast.T %1; SAME %2, %a"),
            (
                "root_keeps_order",
                "%1 = sqrt.T %a; %2 = sqrt.T %b; %3 = le.T %1, %2; %4 = le.T %a, %b; %5 = le.T 0.0, %a; \
                                  %6 = and.bool %4, %5; %7 = not.bool %6; %R = or.bool %3, %7",
            ),
            ("to_integer", "%1 = cast.i64 %a; %2 = trunc.T %a; %3 = cast.i64 %2; %R = eq.i64 %1, %3"),
        ],
    },
    Family {
        name: "through-f64",
        types: |ty| TypeSet::INT32.contains(ty),
        laws: &[
            ("and_back", "%1 = cast.f64 %a; %2 = cast.T %1; SAME %2, %a"),
            (
                "order",
                "%1 = cast.f64 %a; %2 = cast.f64 %b; %3 = lt.f64 %1, %2; %4 = lt.T %a, %b; %R = eq.bool %3, %4",
            ),
            (
                "sum",
                "%1 = cast.f64 %a; %2 = cast.f64 %b; %3 = add.f64 %1, %2; %4 = cast.T %3; %5 = add_sat.T %a, %b; SAME %4, %5",
            ),
            (
                "quotient",
                "%1 = cast.f64 %a; %2 = cast.f64 %b; %3 = div.f64 %1, %2; %4 = cast.T %3; %5 = div.T %a, %b; \
                          %6 = sub.f64 %3, %3; %7 = ne.f64 %6, 0.0; %7.own = select.T %7, %5, %4; %7.min = eq.T %a, MIN; \
                          %4.kept = select.T %7.min, %5, %7.own; SAME %4.kept, %5",
            ),
        ],
    },
    Family {
        // Where f64 has more than twice the digits, its second rounding changes nothing.
        name: "through-f64",
        types: |ty| matches!(ty, DataType::F16 | DataType::BF16 | DataType::F32),
        laws: &[
            (
                "add",
                "%1 = cast.f64 %a; %2 = cast.f64 %b; %3 = add.f64 %1, %2; %4 = cast.T %3; %5 = add.T %a, %b; SAME %4, %5",
            ),
            (
                "mul",
                "%1 = cast.f64 %a; %2 = cast.f64 %b; %3 = mul.f64 %1, %2; %4 = cast.T %3; %5 = mul.T %a, %b; SAME %4, %5",
            ),
            (
                "div",
                "%1 = cast.f64 %a; %2 = cast.f64 %b; %3 = div.f64 %1, %2; %4 = cast.T %3; %5 = div.T %a, %b; SAME %4, %5",
            ),
            ("sqrt", "%1 = cast.f64 %a; %3 = sqrt.f64 %1; %4 = cast.T %3; %5 = sqrt.T %a; SAME %4, %5"),
            (
                "rem",
                "%1 = cast.f64 %a; %2 = cast.f64 %b; %3 = rem.f64 %1, %2; %4 = cast.T %3; %5 = rem.T %a, %b; SAME %4, %5",
            ),
            (
                "order",
                "%1 = cast.f64 %a; %2 = cast.f64 %b; %3 = lt.f64 %1, %2; %4 = lt.T %a, %b; %R = eq.bool %3, %4",
            ),
        ],
    },
    Family {
        name: "there-and-back",
        types: |ty| ty.is_float(),
        laws: &[
            ("f64", "%1 = cast.f64 %a; %2 = cast.T %1; SAME %2, %a"),
            ("u32", "%1 = cast.T %d; %2 = cast.f64 %1; %3 = cast.f64 %d; %4 = cast.T %3; SAME %1, %4"),
        ],
    },
    Family {
        name: "truth",
        types: |ty| matches!(ty, DataType::Bool),
        laws: &[
            (
                "not_and",
                "%1 = and.bool %a, %b; %2 = not.bool %1; %3 = not.bool %a; %4 = not.bool %b; %5 = or.bool %3, %4; SAME %2, %5",
            ),
            (
                "not_or",
                "%1 = or.bool %a, %b; %2 = not.bool %1; %3 = not.bool %a; %4 = not.bool %b; %5 = and.bool %3, %4; SAME %2, %5",
            ),
            ("xor_is_unequal", "%1 = xor.bool %a, %b; %2 = ne.bool %a, %b; SAME %1, %2"),
            (
                "chosen",
                "%1 = select.bool %a, %b, %c; %2 = and.bool %a, %b; %3 = not.bool %a; %4 = and.bool %3, %c; \
                        %5 = or.bool %2, %4; SAME %1, %5",
            ),
        ],
    },
];

pub(crate) fn groups() -> Vec<Group> {
    let types = DataType::ALL.into_iter().filter(|ty| ty.computes());
    let pairs =
        types.flat_map(|ty| FAMILIES.iter().filter(move |family| (family.types)(ty)).map(move |f| (f, ty)));
    let group = |(at, (family, ty)): (usize, (&'static Family, DataType))| {
        let name = format!("law/{ty}/{}", family.name);
        // A conversion through f64 belongs to the float track.
        let floats = family.laws.iter().any(|(_, lines)| lines.contains(".f64"));
        let track = track(&[ty, if floats { DataType::F64 } else { ty }]);
        Group::fixed(name.clone(), Level::Laws, track, move |plan| vec![batch(plan, &name, at, family, ty)])
    };
    pairs.enumerate().map(group).collect()
}

fn batch(plan: &Plan<'_>, name: &str, at: usize, family: &Family, ty: DataType) -> Batch {
    let mut kernel = Kernel {
        lanes: lanes(at * 7 + 63),
        inputs: vec![ty, ty, ty, DataType::U32],
        lines: String::new(),
        outputs: Vec::new(),
    };
    for (law, text) in family.laws {
        kernel.lines += &expression::lines(text, ty, law);
        kernel.outputs.push(((*law).to_owned(), DataType::Bool));
    }
    let amounts = Instance { op: ComputeOp::Shl, ty: DataType::U32, source: DataType::U32 }.edge();
    let mut rows = match ty {
        DataType::Bool => (0..8).map(|bits| [bits & 1, bits >> 1 & 1, bits >> 2, 0]).collect(),
        _ => triples(ty, plan.pick(700, 12_000)),
    };
    let with_amount = |(at, row): (usize, &mut Row)| {
        // Edge values and shift amounts, and any bits at all.
        let noise = (at as u32).wrapping_mul(0x9e37_79b1);
        row[3] = if at % 7 == 0 { noise.into() } else { amounts[at * 5 % amounts.len()][at % 2] };
    };
    rows.iter_mut().enumerate().for_each(with_amount);
    kernel.batch(format!("{name}:triples"), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Profile;
    use crate::judge::{Answer, Prepared};
    use crate::suite::Size;
    use rayon::prelude::*;
    use vyre_foundation::launch::bound_buffers;

    #[test]
    fn every_law_holds_on_the_reference() {
        let profile = Profile::floor();
        let plan = Plan { size: Size::Full, profile: &profile, driver: false, seed: [0; 32] };
        groups().par_iter().for_each(|group| {
            for prepared in crate::suite::prepare(group, &plan, None) {
                check(&prepared);
            }
        });
    }

    fn check(Prepared { batch, expected }: &Prepared) {
        let parts = batch.program.parts();
        let names: Vec<_> =
            bound_buffers(parts).into_iter().filter(|id| parts.buffer(*id).is_output()).collect();
        for answer in expected {
            let Answer::Outputs(outputs) = answer else { panic!("{} traps", batch.name) };
            for (id, bytes) in names.iter().zip(outputs) {
                let broken = bytes.chunks(4).position(|word| word != [1, 0, 0, 0]);
                assert_eq!(broken, None, "{}: {} is no law", batch.name, parts.buffer(*id).name);
            }
        }
    }
}
