//! Prints the vector code of a program: `cargo run -p vyre-driver-cpu --example vector_code -- FILE`.
#![allow(clippy::print_stdout)]

use vyre_driver_cpu::vector::lower::{Shape, lower};
use vyre_lower::prepare::{Target, prepare};

fn main() {
    let source = std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap();
    let program = vyre_foundation::text::parse(&source).unwrap().program;
    let valid = vyre_foundation::validate::validate(&program).unwrap();
    let start = std::time::Instant::now();
    let prepared = prepare(&valid, &Target::NATIVE).unwrap();
    let ready = start.elapsed();
    let start = std::time::Instant::now();
    let function =
        lower(&prepared, Shape { lanes: 16, lanes_wide: 8, vectors_max: 4, registers: 32 }).unwrap();
    let low = start.elapsed();
    println!("{function}\n// prepare {ready:?}, lower {low:?}");
}
