//! The tests of the driver contract that are the same for every backend.
//!
//! The conformance suite asks a backend that others share. Here each test has a device to itself, so it may lose it, shut it
//! down, fill its memory and let kernels run for long. A backend's own `tests/contract.rs` calls
//! [`contract_tests`](crate::contract_tests) with a function that opens its devices, and adds what only it has.
//!
//! Not here: whether results are right for every op, which is the suite's, and what differs between drivers, such as a kernel
//! that never ends.

mod calls;
mod life;
mod memory;
mod process;

pub use calls::*;
pub use life::*;
pub use memory::*;
pub use process::{LIMIT, in_own_process, is_own_process};

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;
use vyre_driver::{BackendError, DispatchConfig, ErrorCode, VyreBackend};
use vyre_foundation::ir::Program;
use vyre_foundation::text;

/// A device that one test has to itself.
pub struct Subject {
    backend: Arc<dyn VyreBackend>,
    lose: Box<dyn Fn() + Send + Sync>,
}

impl Subject {
    /// A backend, and how to take its device away as a driver's reset would.
    pub fn new<B: VyreBackend + 'static>(backend: B, lose: fn(&B)) -> Subject {
        let backend = Arc::new(backend);
        let lost = Arc::clone(&backend);
        Subject { backend, lose: Box::new(move || lose(&lost)) }
    }

    /// Loses the device.
    pub fn lose(&self) {
        (self.lose)();
    }
}

impl Deref for Subject {
    type Target = dyn VyreBackend;

    fn deref(&self) -> &Self::Target {
        &*self.backend
    }
}

/// Makes a test of each check of this module. `open` takes the test's name and returns the devices to run it on, as
/// [`Subject`]s; where there are none it has printed `SKIP`. Further checks are named after it.
#[macro_export]
macro_rules! contract_tests {
    ($open:path $(, $further:ident)* $(,)?) => {
        $crate::contract_tests! { @each $open:
            what_is_wrong_is_refused_before_any_launch
            grids_beyond_one_launch_are_launched_in_pieces
            grids_in_pieces_know_their_places_along_two_axes
            workgroups_of_every_shape_that_the_device_publishes_run
            all_of_the_workgroup_memory_can_be_had
            limits_are_named
            a_trap_is_the_first_of_the_program_as_written
            a_kernel_that_ends_late_leaves_the_device_as_it_was
            dispatches_in_flight_keep_their_own_bytes
            many_callers_get_their_own_answers
            pipelines_are_compiled_once
            bytes_between_words_are_left_alone
            uploads_of_every_size_arrive
            large_copies_are_whole
            repeated_sequences_run_every_turn
            memory_that_one_reads_others_read_too
            wrong_handles_and_ranges_are_errors
            a_trap_fails_the_dispatch_and_invalidates_what_it_could_write
            a_sequence_reads_each_grid_when_its_turn_comes
            a_dispatch_that_fails_leaves_the_slots_their_storage
            a_lost_device_says_so_and_recovers
            loss_while_others_work_is_an_error_or_too_late
            a_backend_that_was_shut_down_says_so
            $($further)*
        }

        #[test]
        fn two_backends_of_one_process_keep_apart() {
            let open = || $open("two_backends_of_one_process_keep_apart");
            for (first, second) in open().iter().zip(&open()) {
                $crate::contract::two_backends_of_one_process_keep_apart(first, second);
            }
        }
    };
    (@each $open:path: $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                $open(stringify!($check)).iter().for_each($crate::contract::$check);
            }
        )*
    };
}

/// The program of a text.
///
/// # Panics
/// If it does not parse.
pub fn parse(source: &str) -> Program {
    text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program
}

/// The words' bytes.
pub fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The code of a call that must fail, with a fix.
///
/// # Panics
/// If it succeeds, or if the error names no fix.
pub fn code<T: Debug>(result: Result<T, BackendError>) -> ErrorCode {
    let error = result.expect_err("must fail");
    assert!(error.to_string().contains("Fix:"), "{error}");
    error.code()
}

/// Adds one to every element.
pub fn increment() -> Program {
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

/// Dispatches [`increment`] on some words, which must be right.
///
/// # Panics
/// If the dispatch fails, or its bytes differ.
pub fn works(backend: &dyn VyreBackend) {
    let input = words(7..107);
    let found = backend.dispatch_borrowed(&increment(), &[&input], &DispatchConfig::default());
    assert_eq!(found.expect("it runs"), [words(8..108)]);
}

/// Bytes that differ from their neighbours, and between seeds.
pub(crate) fn noise(seed: u32, byte_len: usize) -> Vec<u8> {
    let byte = |at: u32| (at.wrapping_add(seed).wrapping_mul(0x9e37_79b9) >> 24) as u8;
    (0..byte_len as u32).map(byte).collect()
}
