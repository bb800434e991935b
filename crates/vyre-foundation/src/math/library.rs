//! The library: one program, `library.vyre`, and the functions of narrow types, which are all alike.

use super::table::{MathOp, OPS, Parity};
use crate::ir::{DataType, FunctionId, Name, Program, ProgramParts};
use crate::text;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;
use std::sync::LazyLock;

/// The functions in f64 and their tables as a program, as `scripts/math/derive.py` writes them.
pub const LIBRARY: &str = include_str!("library.vyre");

/// Hard cases that are asked for by their arguments alone; more are asked for only where a result is near a boundary.
const CHOSEN_MAX: usize = 4;

struct Library {
    program: Program,
    functions: FxHashMap<Name, FunctionId>,
    tables: FxHashSet<Name>,
}

static READ: LazyLock<Library> = LazyLock::new(|| {
    let text = source();
    let program = match text::parse(&text) {
        Ok(parsed) => parsed.program,
        Err(errors) => unreachable!("the library parses: {} {:?}", errors[0].message, errors[0].place),
    };
    let parts = program.parts();
    let numbered = parts.functions.iter().enumerate();
    let functions = numbered.map(|(at, function)| (function.name.clone(), FunctionId(at as u32))).collect();
    let tables = parts.buffers.iter().map(|buffer| buffer.name.clone()).collect();
    Library { functions, tables, program }
});

/// The library as a program.
pub(super) fn parts() -> &'static ProgramParts {
    READ.program.parts()
}

/// The library's function of that name.
pub(super) fn find(name: &str) -> Option<FunctionId> {
    name.starts_with("math.").then(|| READ.functions.get(name).copied()).flatten()
}

/// Whether the library has a table of that name.
pub(super) fn has_table(name: &str) -> bool {
    name.starts_with("math.") && READ.tables.contains(name)
}

/// The whole text: the file, and for every op the functions of narrow types that it does not spell out.
fn source() -> String {
    let open = LIBRARY.trim_end().strip_suffix('}').expect("a program ends with its brace");
    let mut text = open.to_string();
    for op in OPS {
        for ty in [DataType::F16, DataType::BF16, DataType::F32] {
            if op.types.contains(ty) && !text.contains(&format!("fn @math.{}.{ty}(", op.name)) {
                narrow(&mut text, op, ty);
            }
        }
    }
    text.push_str("}\n");
    text
}

/// A function of a narrow type: the function in f64, rounded once, and the sign of the operand if it is odd.
fn narrow(text: &mut String, op: &MathOp, ty: DataType) {
    let names = &["x", "y"][..op.operands];
    let params: Vec<String> = names.iter().map(|name| format!("%{name} : {ty}")).collect();
    let _ = writeln!(text, "fn @math.{}.{ty}({}) -> {ty} {{", op.name, params.join(", "));
    let mut args: Vec<String> = names.iter().map(|name| format!("%{name}")).collect();
    for arg in args.iter_mut().filter(|_| ty != DataType::F32) {
        let _ = writeln!(text, "{arg}.f32 = cast.f32 {arg}");
        arg.push_str(".f32");
    }
    if op.parity != Parity::Neither {
        let _ = writeln!(text, "%abs = abs.f32 {}", args[0]);
        args[0] = "%abs".into();
    }
    let _ = writeln!(text, "%w = call @math.{}.wide({})\n%r.0 = cast.{ty} %w", op.name, args.join(", "));
    let result = match ty {
        DataType::F32 => known(text, &args[0], op.hard()),
        _ => "%r.0".into(),
    };
    let result = match op.parity {
        Parity::Odd => {
            let _ = writeln!(text, "%signed = copysign.{ty} {result}, %x");
            "%signed".into()
        }
        Parity::Even | Parity::Neither => result,
    };
    let _ = writeln!(text, "return {result}\n}}");
}

/// Lines that give the results of hard cases instead of `%r.0`, which is `%w` rounded, and the name of what they give.
fn known(text: &mut String, x: &str, hard: &[[u32; 2]]) -> String {
    let hard = hard.iter().map(|pair| pair.map(f32::from_bits));
    if hard.len() <= CHOSEN_MAX {
        let last = hard.len();
        for (at, [argument, result]) in hard.enumerate() {
            let next = at + 1;
            let _ = writeln!(
                text,
                "%is.{at} = eq.f32 {x}, {argument:e}\n%r.{next} = select.f32 %is.{at}, {result:e}, %r.{at}"
            );
        }
        return format!("%r.{last}");
    }
    // Halfway between two f32 is a 1 and 28 zeros in the bits that rounding drops; near that is a few units either way.
    text.push_str(
        "%bits = bitcast.u64 %w\n%low = cast.u32 %bits\n%dropped = and.u32 %low, 0x1fffffff\n\
         %off = sub.u32 %dropped, 0x0ffffff0\n%near = lt.u32 %off, 32\nvar $r : f32 = %r.0\nif %near {\n",
    );
    for (at, [argument, result]) in hard.enumerate() {
        let _ =
            writeln!(text, "%is.{at} = eq.f32 {x}, {argument:e}\nif %is.{at} {{\nset.f32 $r, {result:e}\n}}");
    }
    text.push_str("}\n%known = get.f32 $r\n");
    "%known".into()
}
