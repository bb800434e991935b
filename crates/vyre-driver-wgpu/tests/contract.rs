//! What is this backend's own in the driver contract: kernels that hang, devices that are lost, limits, grids in pieces,
//! bytes in the middle of words, memory that the host maps and memory that is staged, several devices in one process.

use std::time::{Duration, Instant};
use vyre_driver::{
    BackendError, DispatchConfig, ErrorCode, ResidentDispatchStep, ResidentReadRange, VyreBackend,
};
use vyre_driver_wgpu::{
    Adapter, MemoryChoice, Selection, ShaderChoice, WgpuBackend, WgpuConfig, adapters, open,
};
use vyre_foundation::ir::Program;
use vyre_foundation::text;

/// A device, or word that there is none.
fn backend(test: &str) -> Option<WgpuBackend> {
    match WgpuConfig::from_env().and_then(|config| open(&config)) {
        Ok(backend) => Some(backend),
        Err(error) => {
            eprintln!("SKIP {test} on wgpu: {error}");
            None
        }
    }
}

/// The device with its memory as it is by itself, and staged.
fn both(test: &str) -> Vec<WgpuBackend> {
    let staged = WgpuConfig::from_env().map(|config| WgpuConfig { memory: MemoryChoice::Staged, ..config });
    let staged = || staged.and_then(|config| open(&config)).expect("it opened before");
    backend(test).map(|first| vec![first, staged()]).unwrap_or_default()
}

fn parse(source: &str) -> Program {
    text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program
}

fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn code<T: std::fmt::Debug>(result: Result<T, BackendError>) -> ErrorCode {
    let error = result.expect_err("must fail");
    assert!(error.to_string().contains("Fix:"), "{error}");
    error.code()
}

/// Adds one to every element.
fn increment() -> Program {
    parse(
        "program @increment workgroup(64, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          %v = load.u32 @y[%i]
          %w = add.u32 %v, 1
          store.u32 @y[%i], %w
        }",
    )
}

/// Changes 64 elements in a loop within a loop. `%n` is many trips.
fn churn(outer_trips: &str, inner_trips: &str) -> Program {
    parse(&format!(
        "program @churn workgroup(64, 1, 1) {{
          buffer @y : read_write u32[64] binding 0 output
          %i = local_id x
          %n = sub.u32 4294967295, %i
          for %j in 0..{outer_trips} {{
            for %k in 0..{inner_trips} {{
              %a = load.u32 @y[%i]
              %b = mul.u32 %a, 3
              %c = xor.u32 %b, %k
              store.u32 @y[%i], %c
            }}
          }}
        }}"
    ))
}

#[test]
fn a_kernel_that_hangs_ends_at_its_timeout_and_a_fresh_device_goes_on() {
    let Some(backend) = backend("a hang") else { return };
    let endless = churn("%n", "%n");
    let input = words(0..64);
    let pipeline = backend.compile_native(&increment(), &DispatchConfig::default()).expect("it compiles");
    let pipeline = pipeline.expect("there is something to keep");
    assert_eq!(pipeline.dispatch(&[&input], &DispatchConfig::default()).expect("it runs"), [words(1..65)]);
    // Compiled before, so that it is the kernel that takes the time.
    let config = DispatchConfig { timeout: Some(Duration::from_secs(1)), ..DispatchConfig::default() };
    backend.compile_native(&endless, &config).expect("it compiles");
    let start = Instant::now();
    assert_eq!(code(backend.dispatch(&endless, &[], &config)), ErrorCode::Timeout);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(backend.device_lost());
    assert_eq!(code(backend.dispatch_borrowed(&increment(), &[&input], &config)), ErrorCode::DeviceLost);
    backend.try_recover().expect("a fresh device opens beside the one that hangs");
    assert_eq!(
        code(pipeline.dispatch(&[&input], &DispatchConfig::default())),
        ErrorCode::PipelineInvalidated
    );
    let again = backend.dispatch(&increment(), &[input], &DispatchConfig::default()).expect("it runs");
    assert_eq!(again, [words(1..65)]);
}

#[test]
fn a_kernel_that_ends_late_leaves_the_device_as_it_was() {
    for backend in both("a late end") {
        let late = churn("1", "3000000");
        let input = words(0..64);
        let config = DispatchConfig { timeout: Some(Duration::from_millis(2)), ..DispatchConfig::default() };
        backend.compile_native(&late, &DispatchConfig::default()).expect("it compiles");
        assert_eq!(code(backend.dispatch_borrowed(&late, &[&input], &config)), ErrorCode::Timeout);
        assert!(!backend.device_lost());
        // With the memory that the late one had.
        for _ in 0..3 {
            let found = backend.dispatch_borrowed(&increment(), &[&input], &DispatchConfig::default());
            assert_eq!(found.expect("it runs"), [words(1..65)]);
        }
    }
}

#[test]
fn a_lost_device_says_so_and_recovers() {
    for backend in both("a loss") {
        let resource = backend.allocate_resident(256).expect("it fits");
        backend.lose_device();
        assert!(backend.device_lost());
        assert_eq!(code(backend.download_resident(&resource)), ErrorCode::DeviceLost);
        backend.try_recover().expect("it recovers");
        assert_eq!(code(backend.download_resident(&resource)), ErrorCode::BadHandle);
        let found =
            backend.dispatch(&increment(), &[words([7])], &DispatchConfig::default()).expect("it runs");
        assert_eq!(found, [words([8])]);
    }
}

#[test]
fn grids_beyond_one_launch_are_launched_in_pieces() {
    let Some(backend) = backend("large grids") else { return };
    // Every workgroup marks its place, and one in the middle says where it is.
    for grid in [[70_000, 1, 1], [1, 70_000, 1], [2, 1, 65_536]] {
        let program = parse(
            "program @places workgroup(1, 1, 1) {
              buffer @y : read_write u32[] binding 0 output
              %i = workgroup_index
              %x = workgroup_id x
              %y = workgroup_id y
              %z = workgroup_id z
              %a = mul.u32 %y, 3
              %b = mul.u32 %z, 5
              %c = add.u32 %x, %a
              %d = add.u32 %c, %b
              store.u32 @y[%i], %d
            }",
        );
        let [wide, high, deep] = grid;
        let count = wide * high * deep;
        let config = DispatchConfig {
            grid_override: Some(grid),
            output_sizes: vec![count as usize * 4],
            ..DispatchConfig::default()
        };
        let place = |i: u32| i % wide + 3 * (i / wide % high) + 5 * (i / (wide * high));
        assert!(backend.dispatch(&program, &[], &config).expect("it runs") == [words((0..count).map(place))]);
    }
}

#[test]
fn bytes_between_words_are_left_alone() {
    for backend in both("unaligned ranges") {
        let resource = backend.allocate_resident(11).expect("it fits");
        let mut expected: Vec<u8> = (1..12).collect();
        backend.upload_resident(&resource, &expected).expect("it uploads");
        for (offset, bytes) in
            [(1, &[101, 102][..]), (3, &[103, 104]), (5, &[105, 106, 107, 108, 109, 110]), (2, &[])]
        {
            backend.upload_resident_at(&resource, offset, bytes).expect("it uploads");
            expected[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        let two: [(_, _, &[u8]); 2] = [(&resource, 6, &[201]), (&resource, 7, &[202])];
        backend.upload_resident_at_many(&two).expect("it uploads");
        expected[6..8].copy_from_slice(&[201, 202]);
        assert_eq!(backend.download_resident(&resource).expect("it reads"), expected);
        let mut part = Vec::new();
        backend.download_resident_range_into(&resource, 5, 3, &mut part).expect("it reads");
        assert_eq!(part, expected[5..8]);
    }
}

#[test]
fn uploads_of_every_size_arrive() {
    for backend in both("uploads") {
        let bytes: Vec<u8> =
            (0..(16 << 20) + 7).map(|i: u32| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        // Small ones again and again, and one beyond what is staged.
        for byte_len in [1, 3, 4, 5, 4096, 4096, 4097, 1 << 20, 16 << 20, bytes.len()] {
            let resource = backend.allocate_resident(byte_len).expect("it fits");
            let given = &bytes[bytes.len() - byte_len..];
            backend.upload_resident(&resource, given).expect("it uploads");
            assert!(backend.download_resident(&resource).expect("it reads") == given, "{byte_len} bytes");
            backend.free_resident(resource).expect("it is free");
        }
    }
}

#[test]
fn repeated_sequences_run_every_turn() {
    for backend in both("sequences") {
        let resource = backend.allocate_resident(256).expect("it fits");
        let resources = [resource];
        let program = increment();
        let step =
            ResidentDispatchStep { program: &program, resources: &resources, grid_override: Some([1, 1, 1]) };
        let range = ResidentReadRange { resource: &resources[0], byte_offset: 4, byte_len: 8 };
        let mut out = Vec::new();
        // More than one command buffer takes.
        backend
            .dispatch_resident_repeated_sequence_read_ranges_into(
                &[],
                &[step],
                5000,
                &[range],
                &mut [&mut out],
            )
            .expect("it runs");
        assert_eq!(out, words([5000, 5000]));
    }
}

/// Elements of memory that many use.
const SHARED: u32 = 4096;

#[test]
fn memory_that_one_reads_others_read_too() {
    let program = parse(
        "program @next workgroup(64, 1, 1) {
          buffer @x : read u32[] binding 0
          buffer @y : read_write u32[] binding 1 output
          %i = global_id x
          %v = load.u32 @x[%i]
          %w = add.u32 %v, 1
          store.u32 @y[%i], %w
        }",
    );
    for backend in both("shared memory") {
        let (given, expected) = (words(0..SHARED), words(1..SHARED + 1));
        let x = backend.allocate_resident(given.len()).expect("it fits");
        backend.upload_resident(&x, &given).expect("it uploads");
        let launch = || {
            let y = backend.allocate_resident(given.len()).expect("it fits");
            let resources = [x.clone(), y];
            let step = ResidentDispatchStep {
                program: &program,
                resources: &resources,
                grid_override: Some([SHARED / 64, 1, 1]),
            };
            // Two ranges of what is written, one of what others have as well, and nothing.
            let ranges = [(1, 3, 4001), (1, 64, 64), (0, 1, 2), (1, 0, 0)];
            let range = |(of, byte_offset, byte_len): (usize, _, _)| ResidentReadRange {
                resource: &resources[of],
                byte_offset,
                byte_len,
            };
            let mut found = [const { Vec::new() }; 4];
            backend
                .dispatch_resident_sequence_read_ranges_into(
                    &[step],
                    &ranges.map(range),
                    &mut found.each_mut(),
                )
                .expect("it runs");
            for ((of, offset, byte_len), found) in ranges.into_iter().zip(found) {
                assert!(found == [&given, &expected][of][offset..offset + byte_len]);
            }
            let [_, y] = resources;
            assert!(backend.download_resident(&y).expect("it reads") == expected);
            backend.free_resident(y).expect("it is free");
        };
        let look = || assert!(backend.download_resident(&x).expect("it reads") == given);
        let write = || backend.upload_resident_at(&x, 5, &given[5..1001]).expect("it uploads");
        std::thread::scope(|scope| {
            for work in [&launch as &(dyn Fn() + Sync), &launch, &look, &look, &write] {
                scope.spawn(|| (0..50).for_each(|_| work()));
            }
        });
    }
}

#[test]
fn how_memory_is_reached_is_said() {
    let said = |backend: &WgpuBackend| {
        let note = backend.notes().into_iter().find(|(name, _)| *name == "memory");
        note.expect("it is said").1
    };
    let [first, staged] = &both("memory")[..] else { return };
    assert_eq!(said(staged), "staged: that is asked for");
    // A processor has no other memory than the host's.
    let is_software = |adapter: &Adapter| adapter.is_software && adapter.name == first.device_name();
    let is_free = WgpuConfig::from_env().is_ok_and(|config| config.memory == MemoryChoice::Fastest);
    match is_free && adapters().iter().any(is_software) {
        true => assert_eq!(said(first), "mapped by the host"),
        false => eprintln!("SKIP mapped memory on wgpu: it is {}", said(first)),
    }
}

#[test]
fn limits_are_named() {
    let Some(backend) = backend("limits") else { return };
    let beyond = backend.max_storage_buffer_bytes() as usize + 4;
    let result = backend.dispatch(
        &increment(),
        &[],
        &DispatchConfig {
            output_sizes: vec![beyond],
            grid_override: Some([1, 1, 1]),
            ..DispatchConfig::default()
        },
    );
    assert_eq!(code(result), ErrorCode::LimitExceeded);
    let result = backend.allocate_resident(usize::MAX / 2);
    assert!([ErrorCode::LimitExceeded, ErrorCode::OutOfMemory].contains(&code(result)));
}

/// Sums the lanes' own elements of workgroup memory, by `line`; `bytes` of it in all.
fn shares(bytes: u32, line: &str) -> Program {
    parse(&format!(
        "program @shares workgroup(64, 1, 1) subgroup(32) {{
          buffer @y : read_write u32[64] binding 0 output
          buffer @m : workgroup u32[{}]
          %i = local_index
          %last = sub.u32 {}, %i
          store.u32 @m[%last], %i
          barrier
          %v = load.u32 @m[%last]
          {line}
          store.u32 @y[%i], %r
        }}",
        bytes / 4,
        bytes / 4 - 1
    ))
}

#[test]
fn all_of_the_workgroup_memory_can_be_had() {
    let Some(first) = backend("workgroup memory") else { return };
    let wgsl = WgpuConfig::from_env().map(|config| WgpuConfig { shaders: ShaderChoice::Wgsl, ..config });
    let wgsl = wgsl.and_then(|config| open(&config)).expect("it opened before");
    for backend in [first, wgsl] {
        let bytes_max = backend.device_profile().max_shared_memory_bytes;
        let run = |bytes, line| {
            let inputs: &[&[u8]] = &[&[0; 256]];
            backend.dispatch_borrowed(&shares(bytes, line), inputs, &DispatchConfig::default())
        };
        let own = run(bytes_max, "%r = add.u32 %v, 1").expect("that much is there");
        assert_eq!(own, [words(1..65)]);
        assert_eq!(code(run(bytes_max + 4, "%r = add.u32 %v, 1")), ErrorCode::LimitExceeded);
        // Where lanes exchange through it there is a little less.
        match run(bytes_max, "%r = subgroup_broadcast.u32 %v, 3") {
            Ok(found) => assert_eq!(found, [words((0..64).map(|lane| lane / 32 * 32 + 3))]),
            Err(error) => assert_eq!(code::<()>(Err(error)), ErrorCode::LimitExceeded),
        }
        let found = run(bytes_max - 1024, "%r = subgroup_broadcast.u32 %v, 3").expect("that much is there");
        assert_eq!(found, [words((0..64).map(|lane| lane / 32 * 32 + 3))]);
    }
}

/// Counts trips of so many loops that stand in each other.
fn nested(depth: usize) -> Program {
    let open: String = (0..depth).map(|at| format!("for %k{at} in 0..%n {{\n")).collect();
    parse(&format!(
        "program @nested workgroup(64, 1, 1) {{
          buffer @y : read_write u32[64] binding 0 output
          %i = local_id x
          %n = load.u32 @y[%i]
          var $s : u32 = 0
          {open} %g = get.u32 $s
          %h = add.u32 %g, 1
          set.u32 $s, %h
          {close}
          %r = get.u32 $s
          store.u32 @y[%i], %r
        }}",
        close = "}\n".repeat(depth)
    ))
}

#[test]
fn blocks_that_nest_deep_are_right_or_refused() {
    let Some(first) = backend("nested blocks") else { return };
    let wgsl = WgpuConfig::from_env().map(|config| WgpuConfig { shaders: ShaderChoice::Wgsl, ..config });
    let wgsl = wgsl.and_then(|config| open(&config)).expect("it opened before");
    for backend in [first, wgsl] {
        for depth in [1, 60, 72, 73, 80, 81, 100, 120, 126] {
            let input = words([1; 64]);
            match backend.dispatch_borrowed(&nested(depth), &[&input], &DispatchConfig::default()) {
                Ok(found) => assert_eq!(found, [words([1; 64])], "{depth} deep"),
                Err(error) => {
                    assert!(depth > 60, "{depth} deep: {error}");
                    assert_eq!(code::<()>(Err(error)), ErrorCode::LimitExceeded);
                }
            }
        }
    }
}

#[test]
fn devices_live_side_by_side() {
    let all = adapters();
    if all.is_empty() {
        return eprintln!("SKIP several devices on wgpu: there is none");
    }
    // Every device of the machine, and the first twice.
    let numbers = (0..all.len()).chain([0]);
    let Ok(WgpuConfig { cache, .. }) = WgpuConfig::from_env() else {
        return eprintln!("SKIP several devices on wgpu: VYRE_WGPU_ADAPTER is `none`");
    };
    let config = |number| WgpuConfig {
        adapter: Selection::Number(number),
        cache: cache.clone(),
        ..WgpuConfig::default()
    };
    let opened: Vec<_> = numbers.map(|number| open(&config(number))).collect();
    for (at, backend) in opened.iter().enumerate() {
        let Ok(backend) = backend else {
            eprintln!("SKIP device {at} on wgpu: {}", backend.as_ref().err().expect("it failed"));
            continue;
        };
        let found = backend.dispatch(&increment(), &[words([at as u32])], &DispatchConfig::default());
        assert_eq!(found.expect("it runs"), [words([at as u32 + 1])]);
    }
    if let [Ok(first), .., Ok(last)] = &opened[..] {
        let resource = first.allocate_resident(4).expect("it fits");
        assert_eq!(code(last.download_resident(&resource)), ErrorCode::BadHandle);
    }
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let config = |adapter| WgpuConfig { adapter, ..WgpuConfig::default() };
    for adapter in [Selection::Number(1000), Selection::Name("no such device".into())] {
        let Err(error) = open(&config(adapter)) else { panic!("it opened") };
        assert_eq!(error.code(), ErrorCode::Unavailable);
        assert!(error.to_string().contains("Fix:"), "{error}");
    }
}
