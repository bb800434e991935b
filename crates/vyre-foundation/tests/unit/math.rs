//! The library in programs.

use super::{OPS, declare, library};
use crate::ir::{DataType, Program, ProgramParts};
use crate::text;
use crate::validate::validate;

fn parse(body: &str) -> Program {
    let source = format!(
        "program @p workgroup(1, 1, 1) {{\n  buffer @y : read_write f32[] binding 0 output\n{body}\n}}\n"
    );
    text::parse(&source).unwrap_or_else(|errors| panic!("{}", errors[0])).program
}

#[test]
fn the_library_is_valid_and_has_every_op() {
    validate(&Program::new(library::parts().clone()).unwrap()).unwrap();
    for op in OPS {
        for ty in DataType::ALL.into_iter().filter(|ty| op.types.contains(*ty)) {
            let mut parts = ProgramParts::new("p", [1, 1, 1]);
            let id = declare(&mut parts, op, ty).unwrap();
            let function = &parts.functions[id.index()];
            assert_eq!(function.params.len(), op.operands, "{}", op.name);
            assert!(function.params.iter().all(|param| param.1 == ty) && function.result == Some(ty));
        }
    }
}

#[test]
fn ops_are_calls_that_print_as_ops() {
    let body = "
  fn @twice(%x : f32) -> f32 {
    %e = exp.f32 %x
    %r = add.f32 %e, %e
    return %r
  }
  %x = load.f32 @y[0]
  %a = call @twice(%x)
  %b = hypot.f32 %a, 2.0
  %c = exp.f32 %b
  store.f32 @y[0], %c";
    let program = parse(body);
    let printed = text::print(&program);
    assert!(printed.contains("%b = hypot.f32 %a, 2.0") && !printed.contains("math."), "{printed}");
    assert_eq!(text::parse(&printed).unwrap().program, program);
    assert_eq!(Program::from_bytes(&program.to_bytes()).unwrap(), program);
    validate(&program).unwrap();
}

#[test]
fn a_library_function_that_is_changed_or_out_of_place_is_printed_whole() {
    let program = parse("  %x = load.f32 @y[0]\n  %r = rsqrt.f32 %x\n  store.f32 @y[0], %r");
    let mut changed = program.parts().clone();
    changed.functions[0].body.block.remove(0);
    changed.functions[0].body.block.remove(0);
    let mut unused = program.parts().clone();
    unused.body = crate::ir::Body::default();
    for parts in [changed, unused] {
        // A function whose lines are gone may not be sealed; what can be must read back.
        let Ok(program) = Program::new(parts) else { continue };
        let printed = text::print(&program);
        assert!(printed.contains("fn @math.rsqrt.f32"), "{printed}");
        assert_eq!(text::parse(&printed).unwrap().program, program);
    }
}

#[test]
fn a_name_of_the_library_that_means_something_else_is_reported() {
    let source = "program @p workgroup(1, 1, 1) {\n  fn @math.exp.f32(%x : f32) -> f32 {\n    return %x\n  }\n  %r = exp.f32 1.0\n}\n";
    assert_eq!(text::parse(source).unwrap_err()[0].code, "P012");
}

#[test]
fn builder_and_text_make_the_same_program() {
    let built = Program::build("p", [1, 1, 1], |k| {
        let y = k.read_write::<f32>("y", 0).output();
        y.put(0, y.at(0).exp().hypot(2.0));
    })
    .unwrap();
    let printed = text::print(&built);
    assert!(printed.contains("= exp.f32 %v0"), "{printed}");
    assert_eq!(text::parse(&printed).unwrap().program, built);
}
