//! Kernels that apply one function to many arguments.

use vyre::host::{Error, Kernel};
use vyre::ir::DataType;
use vyre::math::{MathOp, Parity};

/// The f32 function of the bit patterns from a base up at some distance, as many as the output has elements.
pub fn patterns(op: &MathOp) -> Result<Kernel, Error> {
    Kernel::parse(&format!(
        "program @patterns workgroup(256, 1, 1) {{
           buffer @base : uniform u32[2] binding 0
           buffer @r : read_write f32[] binding 1 output
           %i = global_id x
           %base = load.u32 @base[0]
           %step = load.u32 @base[1]
           %off = mul.u32 %i, %step
           %bits = add.u32 %base, %off
           %x = bitcast.f32 %bits
           %r = {}.f32 %x
           store.f32 @r[%i], %r
         }}",
        op.name
    ))
}

/// The same for a function in f64 that `text`, a program, declares as `@math.NAME.wide`; of two arguments, `elements`.
pub fn drafted(op: &MathOp, text: &str) -> Result<Kernel, Error> {
    let inner =
        text.trim_end().strip_suffix('}').and_then(|text| text.split_once("{\n")).map_or("", |parts| parts.1);
    let (buffers, read, operands) = match op.operands {
        1 => (
            "buffer @base : uniform u32[2] binding 0",
            "%base = load.u32 @base[0]\n%step = load.u32 @base[1]\n%off = mul.u32 %i, %step\n\
             %bits = add.u32 %base, %off\n%x = bitcast.f32 %bits",
            "%x",
        ),
        _ => (
            "buffer @x : read f32[] binding 0\nbuffer @y : read f32[] binding 2",
            "%x = load.f32 @x[%i]\n%y = load.f32 @y[%i]",
            "%x, %y",
        ),
    };
    Kernel::parse(&format!(
        "program @drafted workgroup(256, 1, 1) {{
           buffer @r : read_write f32[] binding 1 output
           {buffers}
           {inner}
           %i = global_id x
           {read}
           {}
           store.f32 @r[%i], %r
         }}",
        call_wide(op, operands)
    ))
}

/// Lines that give `%w`, the function in f64 of f32 operands, and `%r`, its value in f32.
pub fn call_wide(op: &MathOp, operands: &str) -> String {
    let name = op.name;
    let call = |operands: &str, result: &str| {
        format!("%w = call @math.{name}.wide({operands})\n%{result} = cast.f32 %w\n")
    };
    match op.parity {
        Parity::Neither => call(operands, "r"),
        Parity::Even => format!("%abs = abs.f32 %x\n{}", call("%abs", "r")),
        Parity::Odd => {
            format!("%abs = abs.f32 %x\n{}%r = copysign.f32 %rounded, %x\n", call("%abs", "rounded"))
        }
    }
}

/// The function of every element of `@x`, or of `@x` and `@y`.
pub fn elements(op: &MathOp, ty: DataType) -> Result<Kernel, Error> {
    let (buffer, load, operand) = match op.operands {
        1 => (String::new(), String::new(), ""),
        _ => (format!("buffer @y : read {ty}[] binding 2"), format!("%y = load.{ty} @y[%i]"), ", %y"),
    };
    Kernel::parse(&format!(
        "program @elements workgroup(256, 1, 1) {{
           buffer @r : read_write {ty}[] binding 0 output
           buffer @x : read {ty}[] binding 1
           {buffer}
           %i = global_id x
           %x = load.{ty} @x[%i]
           {load}
           %r = {}.{ty} %x{operand}
           store.{ty} @r[%i], %r
         }}",
        op.name
    ))
}

/// What `patterns` gives for `count` arguments from `base` up, `step` apart.
pub fn run_patterns(
    kernel: &Kernel,
    backend: &str,
    [base, step]: [u32; 2],
    count: u32,
) -> Result<Vec<u8>, Error> {
    let launch = kernel.launch().backend(backend).input("base", &[base, step]).size("r", count.into());
    let output = launch.grid([count.div_ceil(256), 1, 1]).run()?;
    Ok(output.bytes("r")?.to_vec())
}

/// The text between the braces of a program.
fn declarations(text: &str) -> &str {
    text.trim_end().strip_suffix('}').and_then(|text| text.split_once("{\n")).map_or("", |parts| parts.1)
}

/// The declarations of a draft, or else of the library.
pub fn library_or(draft: Option<&std::path::Path>) -> Result<String, String> {
    let text = match draft {
        Some(draft) => {
            std::fs::read_to_string(draft).map_err(|error| format!("{}: {error}", draft.display()))?
        }
        None => vyre::math::LIBRARY.to_string(),
    };
    Ok(declarations(&text).to_string())
}
