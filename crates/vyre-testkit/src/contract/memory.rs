//! Memory that stays on the device: uploads and readbacks of all sizes, sequences, sharing, handles, failed dispatches.

use super::{Subject, code, increment, noise, parse, words};
use vyre_driver::{
    BackendError, DispatchConfig, ErrorCode, HandleFault, ResidentDispatchStep, ResidentReadRange, Resource,
};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::Program;

/// Ranges that begin or end within a word.
///
/// # Panics
/// If the backend breaks the contract.
pub fn bytes_between_words_are_left_alone(backend: &Subject) {
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

/// Small ones again and again, and one beyond what drivers stage.
///
/// # Panics
/// If the backend breaks the contract.
pub fn uploads_of_every_size_arrive(backend: &Subject) {
    let bytes = noise(0, (16 << 20) + 7);
    for byte_len in [1, 3, 4, 5, 4096, 4096, 4097, 65_408, 65_409, 1 << 20, 16 << 20, bytes.len()] {
        let resource = backend.allocate_resident(byte_len).expect("it fits");
        let given = &bytes[bytes.len() - byte_len..];
        backend.upload_resident(&resource, given).expect("it uploads");
        assert!(backend.download_resident(&resource).expect("it reads") == given, "{byte_len} bytes");
        backend.free_resident(resource).expect("it is free");
    }
}

const MIB: usize = 1 << 20;

/// Uploads, reads back, and does both again from an odd place on.
fn there_and_back(backend: &Subject, seed: u32, byte_len: usize) {
    let bytes = noise(seed, byte_len);
    let memory = backend.allocate_resident(byte_len).expect("it fits");
    backend.upload_resident(&memory, &bytes).expect("it uploads");
    assert!(backend.download_resident(&memory).expect("it reads") == bytes, "{byte_len} bytes");
    let from = byte_len / 3;
    let (moved, rest) = (&bytes[..byte_len - from], byte_len - from);
    backend.upload_resident_at(&memory, from, moved).expect("it uploads");
    let found = backend.download_resident_range(&memory, from, rest).expect("it reads");
    assert!(found == moved, "{rest} bytes from {from} on");
    let before = backend.download_resident_range(&memory, 0, from).expect("it reads");
    assert!(before == bytes[..from], "{from} bytes before");
    backend.free_resident(memory).expect("it is free");
}

/// Sizes about those where drivers change how they copy, one after the other and on several threads at once.
///
/// # Panics
/// If the backend breaks the contract.
pub fn large_copies_are_whole(backend: &Subject) {
    let sizes = [MIB - 1, MIB, MIB + 1, 3 * MIB + 5, 8 * MIB, 8 * MIB + 1, 33 * MIB - 5, 2 * MIB + 9];
    for (seed, byte_len) in (0..).zip(sizes) {
        there_and_back(backend, seed, byte_len);
    }
    std::thread::scope(|scope| {
        for thread in 0..6 {
            scope.spawn(move || {
                for byte_len in [MIB + thread as usize, 3 * MIB - 7, 100, 5 * MIB + 3] {
                    there_and_back(backend, 100 + thread, byte_len);
                }
            });
        }
    });
    // Host bytes of a dispatch are copied too: more than a chunk, and not a number of words of 16 bytes.
    let count = (5 * MIB / 4 + 3) as u32;
    let found = backend.dispatch(&increment(), &[words(0..count)], &Default::default()).expect("it runs");
    assert!(found == [words(1..count + 1)]);
}

/// As often as asked, however a driver groups the turns, with what ran before and two steps a turn.
///
/// # Panics
/// If the backend breaks the contract.
pub fn repeated_sequences_run_every_turn(backend: &Subject) {
    let double = parse(
        "program @double workgroup(64, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          %v = load.u32 @y[%i]
          %w = add.u32 %v, %v
          store.u32 @y[%i], %w
        }",
    );
    let increment = increment();
    let resources = [backend.allocate_resident(256).expect("it fits")];
    let [one, two] = [&increment, &double].map(|program| ResidentDispatchStep {
        program,
        resources: &resources,
        grid_override: Some([1, 1, 1]),
    });
    let range = ResidentReadRange { resource: &resources[0], byte_offset: 4, byte_len: 8 };
    let run = |prefix: &[_], repeated: &[_], count: u32| {
        backend.upload_resident(&resources[0], &[0; 256]).expect("it uploads");
        let mut out = vec![0xee; 3];
        backend
            .dispatch_resident_repeated_sequence_read_ranges_into(
                prefix,
                repeated,
                count,
                &[range],
                &mut [&mut out],
            )
            .expect("it runs");
        out
    };
    // More than one command buffer or graph takes, in the end.
    for count in [0, 1, 15, 16, 17, 31, 32, 33, 100, 5000] {
        assert_eq!(run(&[], &[one], count), words([count; 2]), "{count} turns");
    }
    for count in [1, 15, 31, 32, 33, 100] {
        // `y = 2 (y + 1)` from 1 on.
        let expected = (0..count).fold(1u32, |y, _| (y.wrapping_add(1)).wrapping_mul(2));
        assert_eq!(run(&[one], &[one, two], count), words([expected; 2]), "{count} turns of two");
    }
}

/// Elements of memory that many use.
const SHARED: u32 = 4096;

/// Threads launch with the same memory to read, read it, and write what is there already.
///
/// # Panics
/// If the backend breaks the contract.
pub fn memory_that_one_reads_others_read_too(backend: &Subject) {
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
            .dispatch_resident_sequence_read_ranges_into(&[step], &ranges.map(range), &mut found.each_mut())
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

/// Adds what is read to what is written.
fn sum() -> Program {
    parse(
        "program @sum workgroup(4, 1, 1) {
          buffer @k : uniform    u32[1] binding 0
          buffer @x : read       u32[]  binding 3
          buffer @y : read_write u32[]  binding 5 output
          %i = global_id x
          %k = load.u32 @k[0]
          %x = load.u32 @x[%i]
          %y = load.u32 @y[%i]
          %p = mul.u32 %k, %x
          %s = add.u32 %p, %y
          store.u32 @y[%i], %s
        }",
    )
}

/// Each use of a handle that is not good is named for what it is, and changes nothing.
///
/// # Panics
/// If the backend breaks the contract.
pub fn wrong_handles_and_ranges_are_errors(backend: &Subject) {
    let y = backend.allocate_resident(8).expect("it is good");
    let fault = |result: Result<(), BackendError>| match result {
        Err(BackendError::BadHandle { cause, .. }) => cause,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(backend.upload_resident(&y, &[0; 7])), ErrorCode::InvalidLaunch);
    assert_eq!(code(backend.upload_resident_at(&y, 6, &[0; 3])), ErrorCode::InvalidLaunch);
    assert_eq!(code(backend.download_resident_range(&y, usize::MAX, 2)), ErrorCode::InvalidLaunch);
    let (good, bad) = (words([1, 2]), words([3]));
    assert!(backend.upload_resident_many(&[(&y, &good), (&y, &bad)]).is_err());
    assert_eq!(backend.download_resident(&y).expect("it is good"), [0; 8], "a failed batch changes nothing");
    let k = backend.allocate_resident(4).expect("it is good");
    let twice = [k, y.clone(), y.clone()];
    let bound_twice = backend.dispatch_resident_timed(&sum(), &twice, &DispatchConfig::default()).map(drop);
    assert_eq!(fault(bound_twice), HandleFault::BoundTwice);
    backend.free_resident(y.clone()).expect("it is good");
    assert_eq!(fault(backend.free_resident(y.clone())), HandleFault::Freed);
    assert_eq!(fault(backend.download_resident(&y).map(drop)), HandleFault::Freed);
}

/// A trap leaves what the program could write undefined until a full upload, and the rest as it was.
///
/// # Panics
/// If the backend breaks the contract.
pub fn a_trap_fails_the_dispatch_and_invalidates_what_it_could_write(backend: &Subject) {
    let program = parse(
        "program @guard workgroup(1, 1, 1) {
          buffer @x : read       u32[] binding 0
          buffer @y : read_write u32[] binding 1 output
          %i = global_id x
          store.u32 @y[%i], 1
          %v = load.u32 @x[%i]
          %z = eq.u32 %v, 0
          if %z {
            trap 7
          }
        }",
    );
    let x = backend.allocate_resident(4).expect("it is good");
    let y = backend.allocate_resident(4).expect("it is good");
    let resources = [x.clone(), y.clone()];
    let config = DispatchConfig::default();
    match backend.dispatch_resident_timed(&program, &resources, &config) {
        Err(BackendError::Trap { code: 7, place, .. }) => {
            assert_eq!(place, Place::Line { function: None, site: 5 });
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(code(backend.download_resident(&y)), ErrorCode::BadHandle);
    assert_eq!(backend.download_resident(&x).expect("it is good"), [0; 4], "what it only reads is untouched");
    backend.upload_resident(&x, &words([1])).expect("it is good");
    assert_eq!(code(backend.dispatch_resident_timed(&program, &resources, &config)), ErrorCode::BadHandle);
    backend.upload_resident(&y, &[0; 4]).expect("it is good");
    backend.dispatch_resident_timed(&program, &resources, &config).expect("it is good");
    assert_eq!(backend.download_resident(&y).expect("it is good"), words([1]));
}

/// How many dispatches the backend has counted.
fn dispatches(backend: &Subject) -> u64 {
    let all = backend.backend_metric_snapshot();
    all.iter().find(|(name, _)| *name == "dispatches").expect("they are counted").1
}

/// The grid of an indirect step is read when its turn comes, and bytes that travel are fresh for each turn.
///
/// # Panics
/// If the backend breaks the contract.
pub fn a_sequence_reads_each_grid_when_its_turn_comes(backend: &Subject) {
    let grow = parse(
        "program @grow workgroup(1, 1, 1) {
          buffer @args : read_write u32[3] binding 0 output
          %x = load.u32 @args[0]
          %more = add.u32 %x, 1
          store.u32 @args[0], %more
        }",
    );
    let count = parse(
        "program @count workgroup(4, 1, 1) {
          buffer @args : read       u32[3] binding 0
          buffer @own  : read_write u32[1] binding 1
          buffer @y    : read_write u32[1] binding 2 output
          indirect @args[0]
          atomic_add.u32 @y[0], 1
          atomic_add.u32 @own[0], 1
        }",
    );
    let [args, y] = [12, 4].map(|bytes| backend.allocate_resident(bytes).expect("memory"));
    backend.upload_resident(&args, &words([0, 1, 1])).expect("it uploads");
    // Bytes that travel with the call are the same for each launch, though the program writes them.
    let (grown, counted) = ([args.clone()], [args.clone(), Resource::Borrowed(vec![0; 4]), y.clone()]);
    let steps = [
        ResidentDispatchStep { program: &grow, resources: &grown, grid_override: Some([1, 1, 1]) },
        ResidentDispatchStep { program: &count, resources: &counted, grid_override: None },
    ];
    let range = ResidentReadRange { resource: &y, byte_offset: 0, byte_len: 4 };
    let (mut out, before) = (Vec::new(), dispatches(backend));
    backend
        .dispatch_resident_repeated_sequence_read_ranges_into(&[], &steps, 5, &[range], &mut [&mut out])
        .expect("it runs");
    assert_eq!(out, words([4 * (1 + 2 + 3 + 4 + 5)]));
    assert_eq!(dispatches(backend) - before, 10);
    let timing = backend
        .dispatch_resident_sequence_read_ranges_timed_into(&steps, &[range], &mut [&mut out])
        .expect("it runs");
    assert!(timing.wall_ns >= timing.wait_ns.expect("known"));
    assert_eq!(out, words([4 * (1 + 2 + 3 + 4 + 5 + 6)]));
}

/// Output slots keep their storage when a dispatch fails.
///
/// # Panics
/// If the backend breaks the contract.
pub fn a_dispatch_that_fails_leaves_the_slots_their_storage(backend: &Subject) {
    let program = parse(
        "program @fails workgroup(1, 1, 1) {
          buffer @y : read_write u32[256] binding 0 output
          store.u32 @y[0], 7
          trap 3
        }",
    );
    let mut slots = vec![Vec::with_capacity(4096)];
    let error = backend.dispatch_borrowed_into(&program, &[], &DispatchConfig::default(), &mut slots);
    assert_eq!(error.expect_err("it traps").code(), ErrorCode::Trap);
    assert!(slots.len() == 1 && slots[0].is_empty() && slots[0].capacity() >= 4096, "{:?}", slots[0]);
}
