//! The builder's output as text, and what the verifier refuses.

use super::build::Builder;
use super::code::{
    Address, Block, BlockId, Elem, Float, Function, Inst, IntCond, IntOp, Kind, Op, Reg, Term,
};
use super::verify::verify;
use expect_test::expect;

/// A loop that adds 1.0 to a row of floats, `W` at a time.
fn row() -> Function {
    let (mut b, [context, _, first, end]) = Builder::new(8);
    let at = |base, index| Address { base, index: Some((index, 4)), disp: 16 };
    let (head, body, exit) = (b.new_block(), b.new_block(), b.new_block());
    b.jump(head, &[first]);
    b.begin(head);
    let i = b.param(Kind::S64);
    let more = b.cmp(IntCond::LtU, i, end);
    b.branch(more, body, exit);
    b.begin(body);
    let x = b.emit(Op::LoadV(Elem::B32, at(context, i), None));
    let one = b.const_(Kind::V32, 0x3f80_0000);
    let sum = b.emit(Op::Float(super::code::FloatOp::Add, Float::F32, x, one));
    b.effect(Op::StoreV(Elem::B32, at(context, i), sum, None));
    let next = b.int_const(IntOp::Add, i, 8);
    b.jump(head, &[next]);
    b.begin(exit);
    b.ret();
    b.finish(0)
}

#[test]
fn a_loop_prints() {
    expect![[r#"
        function lanes 8 scratch 0 {
        b0(v0: s64, v1: s64, v2: s64, v3: s64):
          jump b1(v2)
        b1(v4: s64):
          v5: s32 = cmp.ltu v4, v3
          branch v5, b2, b3
        b2():
          v6: v32 = vload.b32 [v0 + v4*4 + 16]
          v7: v32 = const 0x3f800000
          v8: v32 = add.f32 v6, v7
          vstore.b32 [v0 + v4*4 + 16], v8
          v9: s64 = const 0x8
          v10: s64 = add v4, v9
          jump b1(v10)
        b3():
          return
        }
    "#]]
    .assert_eq(&row().to_string());
}

#[test]
fn constants_fold() {
    let (mut b, [context, ..]) = Builder::new(4);
    let (two, three) = (b.const_(Kind::S64, 2), b.const_(Kind::S64, 3));
    let six = b.int(IntOp::Mul, two, three);
    assert_eq!(b.constant(six), Some(6));
    let zero = b.const_(Kind::S64, 0);
    assert_eq!(b.int(IntOp::Add, context, zero), context);
    assert_eq!(b.const_(Kind::S64, 6), six, "a constant stands once in a block");
}

/// Changes a good function and expects the verifier to name what broke.
fn refused(message: &str, change: impl FnOnce(&mut Function)) {
    let mut function = row();
    assert_eq!(verify(&function), Ok(()));
    change(&mut function);
    let error = verify(&function).expect_err(message);
    assert!(error.contains(message), "{error} should say {message}");
}

#[test]
fn broken_code_is_refused() {
    refused("lanes", |f| f.lanes = 3);
    refused("four S64", |f| f.kinds[0] = Kind::V32);
    refused("do not fit", |f| f.blocks[0].term = Term::Jump(BlockId(1), [].into_iter().collect()));
    refused("reached otherwise", |f| f.blocks[3].term = Term::Jump(BlockId(2), [].into_iter().collect()));
    refused("nothing goes to", |f| {
        f.blocks.push(Block { params: vec![], insts: vec![], term: Term::Return, cold: false });
    });
    refused("not assigned on every way", |f| {
        let late = f.blocks[2].insts[0].result.expect("a load");
        let inst = Inst { op: Op::Int(IntOp::Add, late, late), result: Some(Reg(99)), site: 0 };
        f.kinds.resize(100, Kind::V32);
        f.blocks[3].insts.push(inst);
    });
    refused("assigned twice", |f| {
        let inst = f.blocks[2].insts[0];
        f.blocks[2].insts.push(inst);
    });
    refused("must be S64", |f| {
        f.blocks[2].insts[0].op = Op::LoadV(Elem::B32, Address { base: Reg(5), index: None, disp: 0 }, None);
    });
    refused("the entry block", |f| f.blocks[3].term = Term::Jump(BlockId(0), [Reg(0); 4].into()));
    refused("reaches the width", |f| {
        f.blocks[2].insts[0].op = Op::ShiftImm(super::code::ShiftOp::Shl, Reg(0), 64);
    });
}
