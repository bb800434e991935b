//! The library: one program, `library.vyre`, and the functions of narrow types, which are all alike.

use super::table::OPS;
use crate::ir::{DataType, FunctionId, Name, Program, ProgramParts};
use crate::text;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;
use std::sync::LazyLock;

/// The functions in f64 and their tables as a program, as `scripts/math/derive.py` writes them.
pub const LIBRARY: &str = include_str!("library.vyre");

/// Hard cases that are asked for by their arguments alone; more are asked for only where a result is near a boundary.
const CHOSEN_MAX: usize = 4;

const SIGN: u32 = 1 << 31;

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
                let hard = if ty == DataType::F32 { op.hard() } else { &[] };
                narrow(&mut text, op.name, op.operands, ty, hard);
            }
        }
    }
    text.push_str("}\n");
    text
}

/// A function of a narrow type: the function in f64, rounded once.
fn narrow(text: &mut String, name: &str, operands: usize, ty: DataType, hard: &[[u32; 2]]) {
    let names = &["x", "y"][..operands];
    let params: Vec<String> = names.iter().map(|name| format!("%{name} : {ty}")).collect();
    let _ = writeln!(text, "fn @math.{name}.{ty}({}) -> {ty} {{", params.join(", "));
    for name in names {
        let _ = writeln!(text, "%{name}.wide = cast.f64 %{name}");
    }
    let args: Vec<String> = names.iter().map(|name| format!("%{name}.wide")).collect();
    let _ = writeln!(text, "%w = call @math.{name}.wide({})\n%r.0 = cast.{ty} %w", args.join(", "));
    let is_even = hard.iter().all(|[x, r]| hard.contains(&[x ^ SIGN, *r]));
    let hard = hard.iter().filter(|[x, _]| !is_even || x & SIGN == 0);
    let hard: Vec<[f32; 2]> = hard.map(|pair| pair.map(f32::from_bits)).collect();
    if hard.is_empty() {
        text.push_str("return %r.0\n}\n");
        return;
    }
    let key = if is_even { "%abs" } else { "%x" };
    if is_even {
        text.push_str("%abs = abs.f32 %x\n");
    }
    if hard.len() <= CHOSEN_MAX {
        for (at, [x, r]) in hard.iter().enumerate() {
            let next = at + 1;
            let _ = writeln!(
                text,
                "%is.{at} = eq.f32 {key}, {x:e}\n%r.{next} = select.f32 %is.{at}, {r:e}, %r.{at}"
            );
        }
        let _ = writeln!(text, "return %r.{}\n}}", hard.len());
        return;
    }
    // Halfway between two f32 is a 1 and 28 zeros in the bits that rounding drops; near that is a few units either way.
    text.push_str(
        "%bits = bitcast.u64 %w\n%low = cast.u32 %bits\n%dropped = and.u32 %low, 0x1fffffff\n\
         %off = sub.u32 %dropped, 0x0ffffff0\n%near = lt.u32 %off, 32\nvar $r : f32 = %r.0\nif %near {\n",
    );
    for (at, [x, r]) in hard.iter().enumerate() {
        let _ = writeln!(text, "%is.{at} = eq.f32 {key}, {x:e}\nif %is.{at} {{\nset.f32 $r, {r:e}\n}}");
    }
    text.push_str("}\n%known = get.f32 $r\nreturn %known\n}\n");
}
