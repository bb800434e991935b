//! The builder reaches every op, and its misuse is an error.

use super::{Bounds, Kernel};
use crate::ir::{Axis, OpId, Program, ReduceOp, walk};
use std::collections::BTreeSet;

fn integers(k: &Kernel) {
    let a = k.global_id(Axis::X);
    let _ = ((a + 1 - a) * 3 / a % 5, (a & 1) | (a ^ 2), !a << 1 >> a);
    let _ = (a.min(1).max(2).clamp(0, 9).mul_hi(a).add_sat(1).sub_sat(1), a.rotl(1).rotr(2));
    let _ = (a.popcount().clz().ctz().reverse_bits(), a.extract(1, 2).insert(a, 3, 4), a.dot4(a, 0u32));
    let _ = (-a.cast::<i32>()).abs();
    let tests = [a.eq(1), a.ne(1), a.lt(1), a.le(1), a.gt(1), a.ge(1)];
    let _ = tests[0].select(a, 1);
}

fn floats(k: &Kernel) {
    let x = k.local_id(Axis::Y).cast::<f32>();
    let _ = (2.0 * x).fma(x, 1.0).sqrt().floor().ceil().trunc().round().copysign(-1.0);
    let _ = (x.is_nan(), x.is_inf(), x.bitcast::<u32>());
}

fn ids(k: &Kernel) {
    let _ = (k.workgroup_id(Axis::Z), k.num_workgroups(Axis::X), k.workgroup_size(Axis::X));
    let _ = (k.global_index(), k.local_index(), k.workgroup_index(), k.subgroup_lane(), k.subgroup_index());
}

fn subgroups(k: &Kernel) {
    let v = k.local_index();
    let c = v.lt(3);
    let _ = (c.subgroup_ballot(), c.subgroup_any(), c.subgroup_all());
    let _ = (v.subgroup_broadcast(0), v.subgroup_shuffle(v), v.subgroup_match());
    let _ =
        (v.subgroup_reduce_add(), v.subgroup_reduce_mul(), v.subgroup_reduce_min(), v.subgroup_reduce_max());
    let _ = (v.subgroup_reduce_and(), v.subgroup_reduce_or(), v.subgroup_reduce_xor());
    let _ = (v.subgroup_inclusive_add(), v.subgroup_inclusive_mul(), v.subgroup_inclusive_min());
    let _ = (v.subgroup_inclusive_max(), v.subgroup_inclusive_and(), v.subgroup_inclusive_or());
    let _ = (v.subgroup_inclusive_xor(), v.subgroup_exclusive_add(), v.subgroup_exclusive_mul());
    let _ = (v.subgroup_exclusive_min(), v.subgroup_exclusive_max(), v.subgroup_exclusive_and());
    let _ = (v.subgroup_exclusive_or(), v.subgroup_exclusive_xor());
}

fn memory(k: &Kernel) {
    let c = k.read_write::<u64>("c", 2);
    c.atomic_add(0, 1);
    c.atomic_sub(0, c.fetch_add(1, 1));
    c.atomic_min(0, 1);
    c.atomic_max(0, 1);
    c.atomic_and(0, 1);
    c.atomic_or(0, 1);
    c.atomic_xor(0, 1);
    c.atomic_exchange(0, c.exchange(1, 2));
    c.atomic_compare_exchange(0, 1, c.compare_exchange(0, 1, 2));
    let tile = k.workgroup::<u8>("tile", 4);
    tile.put(0, tile.word_at(tile.len()) + tile.uniform_load(0));
    let sum = k.var(1.5f64).named("sum");
    let bins = k.array(4, false).named("bins");
    bins.put(1, sum.get().is_nan());
    sum.update(|s| bins.at(0).select(s, 0.0));
}

fn control(k: &Kernel) {
    let dst = k.read_write::<f32>("dst", 3).output();
    let src = k.read::<f32>("src", 4);
    let (c, a) = (k.workgroup::<i32>("acc", 4), k.workgroup::<i8>("bytes", 8));
    k.mma([2, 2, 2], (c, 0), (a, 0), (a, 4));
    let twice = k.function::<f32, _>("twice", |x| x.named("x") * 2.0);
    k.for_((0, dst.len()).step(4), |i| {
        k.if_else(i.gt(7), || k.break_(), || k.continue_());
        dst.put(i, twice.call(src.at(i)));
    });
    k.barrier();
    k.subgroup_barrier();
    k.grid_barrier();
    k.all_reduce(ReduceOp::Add, dst, src);
    k.all_gather(dst, src);
    k.reduce_scatter(ReduceOp::Max, dst, src);
    k.broadcast(dst, src, 0);
    k.trap(7);
}

#[test]
fn every_op_of_the_table_can_be_built() {
    let program = Program::build("all", [32, 1, 1], |k| {
        k.subgroup(32);
        k.indirect(k.read::<u32>("args", 0).sized(3), 0);
        [integers, floats, ids, subgroups, memory, control].iter().for_each(|part| part(k));
    })
    .unwrap();
    let mut built = BTreeSet::new();
    let parts = program.parts();
    for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
        walk(&body.block, |_, _, node| {
            built.insert(node.op());
        });
    }
    let missing: Vec<OpId> = OpId::all().filter(|op| !built.contains(op)).collect();
    assert!(missing.is_empty(), "the builder cannot say {missing:?}");
}

#[test]
fn names_are_given_and_the_rest_are_numbered() {
    let program = Program::build("names", [1, 1, 1], |k| {
        let i = k.global_id(Axis::X).named("i");
        let _ = (i + 1) * (i + 2).named("right");
        k.var(0u32);
    })
    .unwrap();
    let body = &program.parts().body;
    assert_eq!(body.values.iter().map(|name| &**name).collect::<Vec<_>>(), ["i", "v0", "right", "v1"]);
    assert_eq!(&*body.locals[0], "l0");
}

#[test]
fn a_value_outside_its_body_is_an_error() {
    let error = Program::build("escape", [1, 1, 1], |k| {
        let i = k.global_id(Axis::X);
        k.function::<u32, _>("f", |x| x + i);
    })
    .unwrap_err();
    assert_eq!(error.message, "a value is used outside the body that made it");
}

#[test]
fn a_local_outside_its_body_is_an_error() {
    let error = Program::build("escape", [1, 1, 1], |k| {
        let sum = k.var(0u32);
        k.function::<(), _>("f", |()| sum.set(1));
    })
    .unwrap_err();
    assert_eq!(error.message, "a local is used outside the body that made it");
}

#[test]
fn a_value_of_another_kernel_is_an_error() {
    let outer = Program::build("outer", [1, 1, 1], |outer| {
        let i = outer.global_id(Axis::X);
        let error = Program::build("inner", [1, 1, 1], |inner| {
            let _ = inner.global_id(Axis::X) + i;
        })
        .unwrap_err();
        assert_eq!(error.message, "a value of another kernel is used in this one");
    });
    assert!(outer.is_ok());
}

#[test]
fn a_bad_name_is_an_error() {
    let error = Program::build("bad name", [1, 1, 1], |_| {}).unwrap_err();
    assert!(error.to_string().contains("Fix:"), "{error}");
}
