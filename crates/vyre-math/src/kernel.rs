//! Kernels that apply one function to many arguments.

use vyre::host::{Error, Kernel};
use vyre_foundation::ir::DataType;
use vyre_foundation::math::MathOp;

/// The f32 function of all bit patterns from a base up, as many as the output has elements.
pub fn patterns(op: &MathOp) -> Result<Kernel, Error> {
    Kernel::parse(&format!(
        "program @patterns workgroup(256, 1, 1) {{
           buffer @base : uniform u32[1] binding 0
           buffer @r : read_write f32[] binding 1 output
           %i = global_id x
           %base = load.u32 @base[0]
           %bits = add.u32 %base, %i
           %x = bitcast.f32 %bits
           %r = {}.f32 %x
           store.f32 @r[%i], %r
         }}",
        op.name
    ))
}

/// The same for a function in f64 that `text` declares as `@math.NAME.wide`.
pub fn drafted(name: &str, text: &str) -> Result<Kernel, Error> {
    Kernel::parse(&format!(
        "program @drafted workgroup(256, 1, 1) {{
           buffer @base : uniform u32[1] binding 0
           buffer @r : read_write f32[] binding 1 output
           {text}
           %i = global_id x
           %base = load.u32 @base[0]
           %bits = add.u32 %base, %i
           %x = bitcast.f32 %bits
           %wide = cast.f64 %x
           %y = call @math.{name}.wide(%wide)
           %r = cast.f32 %y
           store.f32 @r[%i], %r
         }}"
    ))
}

/// The function of every element of `@x`, or of `@x` and `@y`.
pub fn elements(op: &MathOp, ty: DataType) -> Result<Kernel, Error> {
    let (buffer, load, operand) = match op.operands {
        1 => (String::new(), String::new(), ""),
        _ => {
            (format!("buffer @y : read {ty}[] binding 2"), format!("%y = load.{ty} @y[%i]"), ", %y")
        }
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

/// What `patterns` gives for `count` arguments from `base` up.
pub fn run_patterns(kernel: &Kernel, backend: &str, base: u32, count: u32) -> Result<Vec<u8>, Error> {
    let launch = kernel.launch().backend(backend).input("base", &[base]).size("r", count.into());
    let output = launch.grid([count.div_ceil(256), 1, 1]).run()?;
    Ok(output.bytes("r")?.to_vec())
}
