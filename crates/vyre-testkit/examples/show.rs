//! Prints the generated program of a seed: `cargo run -p vyre-testkit --example show -- 7`.
#![allow(clippy::print_stdout)]

use vyre_generate::{Config, seeded};

fn main() {
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let case = seeded(seed, &Config::default());
    println!("{}", vyre_foundation::text::print(&case.program));
    println!(
        "// grid {:?}, bytes of buffers {:?}",
        case.grid,
        case.buffers.iter().map(Vec::len).collect::<Vec<_>>()
    );
}
