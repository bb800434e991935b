//! Prints the shader of a program file: `cargo run -p vyre-lower --example shader -- FILE [one]`.

use vyre_foundation::{text, validate};
use vyre_lower::wgsl::{Form, Options, lower};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let source = std::fs::read_to_string(args.next().ok_or("no file. Fix: name a .vyre file")?)?;
    let form = if args.next().is_some() { Form::OneWorkgroup } else { Form::Grid };
    let parsed = text::parse(&source).map_err(|findings| findings[0].to_string())?;
    let program = validate::validate(&parsed.program).map_err(|findings| findings[0].to_string())?;
    std::io::Write::write_all(
        &mut std::io::stdout(),
        lower(&program, &Options { form, lookup_binding: None })?.source.as_bytes(),
    )?;
    Ok(())
}
