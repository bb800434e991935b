//! Runs a kernel on the example backend through vyre's registry, as any program that links the crate can.

use vyre_backend_example as _;
use vyre_driver::DispatchConfig;
use vyre_driver::routing::{Choice, dispatch};
use vyre_foundation::text;

const DOUBLE: &str = "\
program @double workgroup(64, 1, 1) {
  buffer @x : read       u32[] binding 0
  buffer @y : read_write u32[] binding 1 output

  %i = global_id x
  %v = load.u32 @x[%i]
  %d = shl.u32 %v, 1
  store.u32 @y[%i], %d
}
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parsed = text::parse(DOUBLE).map_err(|findings| findings[0].to_string())?;
    let x: Vec<u8> = [1u32, 2, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
    let config = DispatchConfig { output_sizes: vec![x.len()], ..DispatchConfig::default() };
    let (timed, route) = dispatch(Choice::Id("example"), &parsed.program, &[&x], &config)?;
    let y: Vec<u32> =
        timed.outputs[0].chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect();
    println!("{} on `{}`: {y:?}", parsed.program.name(), route.backend.id());
    assert_eq!(y, [2, 4, 6]);

    // A launch beyond the limits that the backend published is refused before it runs.
    let large = DispatchConfig { grid_override: Some([65_536, 1, 1]), ..config };
    let refused = dispatch(Choice::Id("example"), &parsed.program, &[&x], &large).expect_err("over the limit");
    println!("{refused}");
    Ok(())
}
