//! The bodies of the trait's defaults that do more than decline.
//!
//! They are functions over any backend, so that each can be tested on a backend that has nothing else.

use crate::backend::VyreBackend;
use crate::config::DispatchConfig;
use crate::error::BackendError;
use crate::observability::{fill_output_slots, record_launch};
use crate::profile::DeviceProfile;
use crate::resident::check_range_count;
use crate::types::{
    OutputBuffers, PendingDispatch, ReadyDispatch, ResidentDispatchStep, ResidentReadRange,
    ResidentSequenceTiming, Resource, TimedDispatchResult,
};
use std::time::Instant;
use vyre_foundation::ir::Program;

type Outputs = Result<Vec<Vec<u8>>, BackendError>;

pub(crate) fn dispatch_borrowed<B: VyreBackend + ?Sized>(
    backend: &B,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Outputs {
    let owned = copy_inputs(inputs)?;
    let outputs = backend.dispatch(program, &owned, config)?;
    record_launch(total_bytes(inputs.iter().copied()), total_bytes(outputs.iter().map(Vec::as_slice)));
    Ok(outputs)
}

pub(crate) fn dispatch_borrowed_timed<B: VyreBackend + ?Sized>(
    backend: &B,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<TimedDispatchResult, BackendError> {
    let start = Instant::now();
    let outputs = backend.dispatch_borrowed(program, inputs, config)?;
    Ok(TimedDispatchResult { outputs, wall_ns: elapsed_ns(start)?, ..TimedDispatchResult::default() })
}

pub(crate) fn dispatch_borrowed_into<B: VyreBackend + ?Sized>(
    backend: &B,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
    outputs: &mut OutputBuffers,
) -> Result<(), BackendError> {
    fill_output_slots(backend.dispatch_borrowed(program, inputs, config)?, outputs);
    Ok(())
}

pub(crate) fn dispatch_async<B: VyreBackend + ?Sized>(
    backend: &B,
    program: &Program,
    inputs: &[Vec<u8>],
    config: &DispatchConfig,
) -> Result<Box<dyn PendingDispatch>, BackendError> {
    Ok(Box::new(ReadyDispatch(backend.dispatch(program, inputs, config)?)))
}

pub(crate) fn dispatch_borrowed_async<B: VyreBackend + ?Sized>(
    backend: &B,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<Box<dyn PendingDispatch>, BackendError> {
    Ok(Box::new(ReadyDispatch(backend.dispatch_borrowed(program, inputs, config)?)))
}

pub(crate) fn download_resident<B: VyreBackend + ?Sized>(
    backend: &B,
    resource: &Resource,
) -> Result<Vec<u8>, BackendError> {
    let mut out = Vec::new();
    backend.download_resident_into(resource, &mut out)?;
    Ok(out)
}

pub(crate) fn download_resident_range<B: VyreBackend + ?Sized>(
    backend: &B,
    resource: &Resource,
    byte_offset: usize,
    byte_len: usize,
) -> Result<Vec<u8>, BackendError> {
    let mut out = Vec::new();
    reserve(&mut out, byte_len, "the range read back")?;
    backend.download_resident_range_into(resource, byte_offset, byte_len, &mut out)?;
    Ok(out)
}

pub(crate) fn download_resident_ranges_into<B: VyreBackend + ?Sized>(
    backend: &B,
    ranges: &[(&Resource, usize, usize)],
    outputs: &mut [&mut Vec<u8>],
) -> Result<(), BackendError> {
    check_range_count(ranges.len(), outputs.len())?;
    for ((resource, byte_offset, byte_len), out) in ranges.iter().zip(outputs) {
        backend.download_resident_range_into(resource, *byte_offset, *byte_len, out)?;
    }
    Ok(())
}

/// Does not sum times: a sequence whose times overflow still gives its bytes.
pub(crate) fn sequence_read_ranges_into<B: VyreBackend + ?Sized>(
    backend: &B,
    steps: &[ResidentDispatchStep<'_>],
    read_ranges: &[ResidentReadRange<'_>],
    outputs: &mut [&mut Vec<u8>],
) -> Result<(), BackendError> {
    repeated_sequence_read_ranges_into(backend, steps, &[], 0, read_ranges, outputs)
}

pub(crate) fn sequence_read_ranges_timed_into<B: VyreBackend + ?Sized>(
    backend: &B,
    steps: &[ResidentDispatchStep<'_>],
    read_ranges: &[ResidentReadRange<'_>],
    outputs: &mut [&mut Vec<u8>],
) -> Result<ResidentSequenceTiming, BackendError> {
    steps_read_ranges_timed_into(backend, steps.iter(), read_ranges, outputs)
}

/// Runs steps one after the other, then reads ranges.
pub(crate) fn steps_read_ranges_timed_into<'a, B: VyreBackend + ?Sized>(
    backend: &B,
    steps: impl Iterator<Item = &'a ResidentDispatchStep<'a>>,
    read_ranges: &[ResidentReadRange<'_>],
    outputs: &mut [&mut Vec<u8>],
) -> Result<ResidentSequenceTiming, BackendError> {
    check_range_count(read_ranges.len(), outputs.len())?;
    let start = Instant::now();
    let mut sums = StepSums::default();
    for step in steps {
        sums.add(&run_step(backend, step)?)?;
    }
    read(backend, read_ranges, outputs)?;
    Ok(sums.finish(elapsed_ns(start)?))
}

pub(crate) fn repeated_sequence_read_ranges_into<B: VyreBackend + ?Sized>(
    backend: &B,
    prefix_steps: &[ResidentDispatchStep<'_>],
    repeated_steps: &[ResidentDispatchStep<'_>],
    repeat_count: u32,
    read_ranges: &[ResidentReadRange<'_>],
    outputs: &mut [&mut Vec<u8>],
) -> Result<(), BackendError> {
    check_range_count(read_ranges.len(), outputs.len())?;
    for step in prefix_steps {
        run_step(backend, step)?;
    }
    if !repeated_steps.is_empty() {
        for _ in 0..repeat_count {
            for step in repeated_steps {
                run_step(backend, step)?;
            }
        }
    }
    read(backend, read_ranges, outputs)
}

pub(crate) fn invocations(size: [u32; 3]) -> u32 {
    let product: u128 = size.iter().map(|lanes| u128::from(*lanes)).product();
    u32::try_from(product).unwrap_or(u32::MAX)
}

pub(crate) fn device_profile<B: VyreBackend + ?Sized>(backend: &B) -> DeviceProfile {
    DeviceProfile {
        supports_subgroup_ops: backend.supports_subgroup_ops(),
        supports_indirect_dispatch: backend.supports_indirect_dispatch(),
        supports_distributed_collectives: backend.supports_distributed_collectives(),
        supports_f16: backend.supports_f16(),
        supports_bf16: backend.supports_bf16(),
        supports_tensor_cores: backend.supports_tensor_cores(),
        has_subgroup_shuffle: backend.supports_subgroup_ops(),
        max_workgroup_size: backend.max_workgroup_size(),
        max_invocations_per_workgroup: backend.max_compute_invocations_per_workgroup(),
        max_storage_buffer_binding_size: backend.max_storage_buffer_bytes(),
        subgroup_size: backend.subgroup_size().unwrap_or(0),
        ..DeviceProfile::unknown(backend.id())
    }
}

fn run_step<B: VyreBackend + ?Sized>(
    backend: &B,
    step: &ResidentDispatchStep<'_>,
) -> Result<TimedDispatchResult, BackendError> {
    let config = DispatchConfig { grid_override: step.grid_override, ..DispatchConfig::default() };
    backend.dispatch_resident_timed(step.program, step.resources, &config)
}

fn read<B: VyreBackend + ?Sized>(
    backend: &B,
    read_ranges: &[ResidentReadRange<'_>],
    outputs: &mut [&mut Vec<u8>],
) -> Result<(), BackendError> {
    let ranges: Vec<_> =
        read_ranges.iter().map(|range| (range.resource, range.byte_offset, range.byte_len)).collect();
    backend.download_resident_ranges_into(&ranges, outputs)
}

/// The sums of a sequence's times; each becomes unknown with the first step that does not know its own.
struct StepSums {
    device_ns: Option<u64>,
    enqueue_ns: Option<u64>,
    wait_ns: Option<u64>,
}

impl Default for StepSums {
    fn default() -> StepSums {
        StepSums { device_ns: Some(0), enqueue_ns: Some(0), wait_ns: Some(0) }
    }
}

impl StepSums {
    fn add(&mut self, step: &TimedDispatchResult) -> Result<(), BackendError> {
        self.device_ns = sum_ns(self.device_ns, step.device_ns, "the sequence's device time")?;
        self.enqueue_ns = sum_ns(self.enqueue_ns, step.enqueue_ns, "the sequence's enqueue time")?;
        self.wait_ns = sum_ns(self.wait_ns, step.wait_ns, "the sequence's wait time")?;
        Ok(())
    }

    fn finish(self, wall_ns: u64) -> ResidentSequenceTiming {
        let StepSums { device_ns, enqueue_ns, wait_ns } = self;
        ResidentSequenceTiming { wall_ns, device_ns, enqueue_ns, wait_ns }
    }
}

fn sum_ns(sum: Option<u64>, step: Option<u64>, what: &str) -> Result<Option<u64>, BackendError> {
    let (Some(sum), Some(step)) = (sum, step) else { return Ok(None) };
    match sum.checked_add(step) {
        Some(sum) => Ok(Some(sum)),
        None => Err(BackendError::ClockOverflow { what: what.to_owned() }),
    }
}

/// The nanoseconds since `start`.
pub(crate) fn elapsed_ns(start: Instant) -> Result<u64, BackendError> {
    u64::try_from(start.elapsed().as_nanos())
        .map_err(|_| BackendError::ClockOverflow { what: "the wall time".to_owned() })
}

fn copy_inputs(inputs: &[&[u8]]) -> Result<Vec<Vec<u8>>, BackendError> {
    inputs
        .iter()
        .map(|input| {
            let mut copy = Vec::new();
            reserve(&mut copy, input.len(), "a copy of the inputs")?;
            copy.extend_from_slice(input);
            Ok(copy)
        })
        .collect()
}

fn reserve(out: &mut Vec<u8>, byte_len: usize, what: &str) -> Result<(), BackendError> {
    out.try_reserve_exact(byte_len)
        .map_err(|_| BackendError::OutOfMemory { what: what.to_owned(), requested_bytes: byte_len as u64 })
}

fn total_bytes<'a>(slices: impl Iterator<Item = &'a [u8]>) -> u64 {
    slices.map(|bytes| bytes.len() as u64).sum()
}
