//! Counters of what was dispatched in this process.
//!
//! The trait's default methods count here, and so do backends that override them. Counting is one relaxed add a
//! field, so it costs nanoseconds and orders nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was counted since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchTelemetry {
    /// Dispatches that returned outputs.
    pub launches: u64,
    /// Bytes given as inputs.
    pub input_bytes: u64,
    /// Bytes returned as outputs.
    pub output_bytes: u64,
    /// Outputs delivered into callers' slots.
    pub output_slots: u64,
    /// Of those, written into the storage that the slot had.
    pub output_slots_reused: u64,
    /// Of those, moved into a slot whose storage was too small.
    pub output_slots_moved: u64,
    /// Of those, appended for want of a slot.
    pub output_slots_appended: u64,
}

static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static INPUT_BYTES: AtomicU64 = AtomicU64::new(0);
static OUTPUT_BYTES: AtomicU64 = AtomicU64::new(0);
static OUTPUT_SLOTS_REUSED: AtomicU64 = AtomicU64::new(0);
static OUTPUT_SLOTS_MOVED: AtomicU64 = AtomicU64::new(0);
static OUTPUT_SLOTS_APPENDED: AtomicU64 = AtomicU64::new(0);

/// The counters now. Each is exact; together they may straddle a dispatch of another thread.
#[must_use]
pub fn snapshot_dispatch_telemetry() -> DispatchTelemetry {
    let output_slots_reused = OUTPUT_SLOTS_REUSED.load(Ordering::Relaxed);
    let output_slots_moved = OUTPUT_SLOTS_MOVED.load(Ordering::Relaxed);
    let output_slots_appended = OUTPUT_SLOTS_APPENDED.load(Ordering::Relaxed);
    DispatchTelemetry {
        launches: LAUNCHES.load(Ordering::Relaxed),
        input_bytes: INPUT_BYTES.load(Ordering::Relaxed),
        output_bytes: OUTPUT_BYTES.load(Ordering::Relaxed),
        output_slots: output_slots_reused + output_slots_moved + output_slots_appended,
        output_slots_reused,
        output_slots_moved,
        output_slots_appended,
    }
}

/// Counts a dispatch that returned outputs.
pub fn record_launch(input_bytes: u64, output_bytes: u64) {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
    INPUT_BYTES.fetch_add(input_bytes, Ordering::Relaxed);
    OUTPUT_BYTES.fetch_add(output_bytes, Ordering::Relaxed);
}

/// Counts dispatches of resident memory.
pub(crate) fn record_resident_launches(launches: u64) {
    LAUNCHES.fetch_add(launches, Ordering::Relaxed);
}

/// Puts `results` into the caller's slots and counts how: into a slot's own storage where it is large enough, moved
/// into the slot where not, appended where there is none. Slots beyond the results are dropped, so that no stale bytes
/// remain.
pub fn fill_output_slots(results: Vec<Vec<u8>>, outputs: &mut Vec<Vec<u8>>) {
    return_output_slots(results, &[], outputs);
}

/// Has `dispatch` take the storage it can use from the slots, and puts the results there.
pub(crate) fn into_slots<E>(
    outputs: &mut Vec<Vec<u8>>,
    dispatch: impl FnOnce(&mut Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, E>,
) -> Result<(), E> {
    let had: Vec<bool> = outputs.iter().map(|slot| slot.capacity() > 0).collect();
    let results = dispatch(outputs)?;
    let taken: Vec<bool> = outputs.iter().zip(had).map(|(slot, had)| had && slot.capacity() == 0).collect();
    return_output_slots(results, &taken, outputs);
    Ok(())
}

/// [`fill_output_slots`] where some results already are in the storage of their slots, which `taken` says.
fn return_output_slots(results: Vec<Vec<u8>>, taken: &[bool], outputs: &mut Vec<Vec<u8>>) {
    outputs.truncate(results.len());
    for (at, result) in results.into_iter().enumerate() {
        match outputs.get_mut(at) {
            Some(slot) if taken.get(at) == Some(&true) => {
                *slot = result;
                OUTPUT_SLOTS_REUSED.fetch_add(1, Ordering::Relaxed);
            }
            Some(slot) if slot.capacity() >= result.len() => {
                slot.clear();
                slot.extend_from_slice(&result);
                OUTPUT_SLOTS_REUSED.fetch_add(1, Ordering::Relaxed);
            }
            Some(slot) => {
                *slot = result;
                OUTPUT_SLOTS_MOVED.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                outputs.push(result);
                OUTPUT_SLOTS_APPENDED.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
