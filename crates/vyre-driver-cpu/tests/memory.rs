//! How much memory a dispatch takes: the bytes it was given and those it gives back, and hardly more.
//!
//! The process is alone with this test, so its high-water mark is the dispatch's. `VYRE_MEMORY_MIB=1024` makes it large:
//! `VYRE_MEMORY_MIB=1024 cargo test --release -p vyre-driver-cpu --test memory -- --nocapture`.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout)] // The figure is the result.

use vyre_driver::{DispatchConfig, VyreBackend};
use vyre_driver_cpu::CpuConfig;

/// The most memory that this process ever had, in bytes.
fn high_water() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is in there");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

#[test]
fn a_dispatch_takes_its_data_and_a_tenth_at_most() {
    let mib = std::env::var("VYRE_MEMORY_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(128);
    let source = "program @triple workgroup(64, 1, 1) {
      buffer @x : read       u32[] binding 0
      buffer @y : read_write u32[] binding 1 output
      %i = global_id x
      %v = load.u32 @x[%i]
      %t = mul.u32 %v, 3
      store.u32 @y[%i], %t
    }";
    let program = vyre_foundation::text::parse(source).expect("it is right").program;
    let backend = vyre_driver_cpu::open(&CpuConfig::default()).expect("this host has an emitter");
    let half = mib << 19;
    let x: Vec<u8> = (0..half as u32 / 4).flat_map(|i| i.to_le_bytes()).collect();
    let config = DispatchConfig { output_sizes: vec![half], ..DispatchConfig::default() };
    let outputs = backend.dispatch_borrowed(&program, &[&x], &config).expect("it runs");
    let triple = |(x, y): (&[u8], &[u8])| {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        word(y) == word(x).wrapping_mul(3)
    };
    assert!(outputs[0].len() == half && x.chunks(4).zip(outputs[0].chunks(4)).all(triple));
    let (peak, data) = (high_water(), 2 * half);
    println!("{} MiB at most for {} MiB of data: {:.3}", peak >> 20, data >> 20, peak as f64 / data as f64);
    // What the process itself needs counts too; it does not grow with the data.
    assert!(peak < data + data / 10 + (8 << 20), "{peak} bytes for {data}");
}
