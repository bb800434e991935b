//! What goes wrong on a device, and whether the next dispatch works: `faults`. Ends with 1 if anything is not as it should be.
//!
//! Each row is one fault: the error that came, and what a dispatch gave afterwards; then what runs side by side, and large
//! copies. Not here: a device that is lost, which nobody can order.
#![allow(clippy::print_stdout, unsafe_code)]

use std::time::Duration;
use vyre_driver::{BackendError, DispatchConfig, VyreBackend};
use vyre_driver_cuda::{CudaBackend, CudaConfig};
use vyre_foundation::ir::Program;
use vyre_foundation::text;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
}

fn program(body: &str) -> Program {
    let source = format!(
        "program @p workgroup(64, 1, 1) {{
           buffer @y : read_write u32[] binding 0 output
           %i = global_id x
           %v = load.u32 @y[%i]
           {body}
         }}"
    );
    text::parse(&source).expect("it parses").program
}

fn ran(backend: &CudaBackend, body: &str, timeout: Option<Duration>) -> Result<Vec<u8>, BackendError> {
    let config = DispatchConfig { timeout, ..DispatchConfig::default() };
    let inputs: &[&[u8]] = &[&[0xff; 256]];
    Ok(backend.dispatch_borrowed(&program(body), inputs, &config)?.remove(0))
}

/// A dispatch that must be right.
fn works(backend: &CudaBackend) -> bool {
    let expected: Vec<u8> = (0..64u32).flat_map(|i| i.wrapping_sub(1).to_le_bytes()).collect();
    ran(backend, "%w = add.u32 %v, %i\nstore.u32 @y[%i], %w", None).is_ok_and(|bytes| bytes == expected)
}

/// Memory until there is no more. What was taken is given back.
fn all_memory(backend: &CudaBackend) -> Result<(), BackendError> {
    let mut taken = Vec::new();
    let error = loop {
        match backend.allocate_resident(8 << 30) {
            Ok(resource) if taken.len() < 1000 => taken.push(resource),
            Ok(_) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    taken.into_iter().try_for_each(|resource| backend.free_resident(resource))?;
    error
}

fn used_after_free(backend: &CudaBackend) -> Result<(), BackendError> {
    let resource = backend.allocate_resident(256)?;
    backend.free_resident(resource.clone())?;
    backend.download_resident(&resource).map(drop)
}

fn of_another(backend: &CudaBackend, other: &CudaBackend) -> Result<(), BackendError> {
    // Further handles than this backend has, so that the number cannot be its own.
    let handles: Result<Vec<_>, _> = (0..64).map(|_| other.allocate_resident(256)).collect();
    handles?.last().map_or(Ok(()), |resource| backend.download_resident(resource).map(drop))
}

/// A dispatch in a forked child, which must get an error.
fn forked(backend: &CudaBackend) -> Result<(), BackendError> {
    // SAFETY: the child does nothing but this call, and ends without unwinding.
    let status = unsafe {
        match fork() {
            0 => _exit(i32::from(ran(backend, "store.u32 @y[%i], 1", None).is_ok())),
            child => {
                let mut status = -1;
                waitpid(child, &mut status, 0);
                status
            }
        }
    };
    match status {
        0 => Err(BackendError::other("the child got an error and ended", "none is needed")),
        _ => Ok(()),
    }
}

/// Copies of sizes about where the way they go changes, whole and from an odd place on.
fn copies(backend: &CudaBackend) -> Result<bool, BackendError> {
    const MIB: usize = 1 << 20;
    let sizes = [1, MIB - 1, MIB, MIB + 1, 8 * MIB, 8 * MIB + 1, 33 * MIB - 5, 150 * MIB + 3, 2 * MIB + 9];
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for size in sizes {
        let bytes: Vec<u8> = (0..size).map(|_| draw()).collect();
        let memory = backend.allocate_resident(size)?;
        backend.upload_resident(&memory, &bytes)?;
        let whole = backend.download_resident(&memory)? == bytes;
        let from = size / 3;
        backend.upload_resident_at(&memory, from, &bytes[..size - from])?;
        let moved = backend.download_resident_range(&memory, from, size - from)? == bytes[..size - from];
        backend.free_resident(memory)?;
        if !whole || !moved {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Provokes an error.
type Fault<'a> = dyn Fn() -> Result<(), BackendError> + 'a;

fn main() {
    let open = || vyre_driver_cuda::open(&CudaConfig::default());
    let (backend, other) = match (open(), open()) {
        (Ok(backend), Ok(other)) => (backend, other),
        (Err(error), _) | (_, Err(error)) => {
            println!("SKIP {error}");
            return;
        }
    };
    let endless = "for %j in 0..4294967295 {\nstore.u32 @y[%i], %j\n}\nfor %k in 0..4294967295 {\nstore.u32 @y[%i], %k\n}";
    let short = Some(Duration::from_millis(200));
    let faults: [(&str, &Fault<'_>); 7] = [
        ("an allocation of 4 TiB", &|| backend.allocate_resident(1 << 42).map(drop)),
        ("all memory, 8 GiB at a time", &|| all_memory(&backend)),
        ("2^33 trips with 200 ms", &|| ran(&backend, endless, short).map(drop)),
        ("a trap", &|| ran(&backend, "trap 7", None).map(drop)),
        ("a handle after its end", &|| used_after_free(&backend)),
        ("a handle of another context", &|| of_another(&backend, &other)),
        ("a fork", &|| forked(&backend)),
    ];
    let mut right = true;
    for (fault, run) in faults {
        let (told, error) = match run() {
            Ok(()) => (false, "no error".to_owned()),
            Err(error) => (error.to_string().contains("Fix:"), error.to_string()),
        };
        let next = works(&backend) && works(&other);
        right &= told && next;
        println!("{fault}: {}\n    then: {}", error.replace('\n', " "), if next { "right" } else { "WRONG" });
    }
    let both = std::thread::scope(|scope| {
        let turns = |backend| scope.spawn(move || (0..500).all(|_| works(backend)));
        let threads: Vec<_> = [&backend, &other, &backend, &other].into_iter().map(turns).collect();
        threads.into_iter().all(|thread| thread.join().unwrap_or(false))
    });
    println!("four threads on two contexts, 500 dispatches each: {}", if both { "right" } else { "WRONG" });
    let copies = copies(&backend).unwrap_or(false);
    println!("copies of 1 byte to 150 MiB, there and back: {}", if copies { "right" } else { "WRONG" });
    std::process::exit(i32::from(!(right && both && copies)));
}
