//! A backend that overrides every method of the trait.

use crate::device::{Device, ID, Times};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use vyre_driver::admission::{admit, admit_resident};
use vyre_driver::backend::private::Sealed;
use vyre_driver::observability::{fill_output_slots, record_launch};
use vyre_driver::pipeline::PipelineCacheSnapshot;
use vyre_driver::resident::Pinned;
use vyre_driver::{
    BackendError, CompiledPipeline, DeviceBuffer, DeviceProfile, DeviceTimingQuality, DispatchConfig,
    OutputBuffers, PendingDispatch, ResidentDispatchStep, ResidentReadRange, ResidentSequenceTiming,
    Resource, TimedDispatchResult, VyreBackend,
};
use vyre_foundation::ir::{ComputeOp, OpId, Program};
use vyre_foundation::launch::indirect_grid;

type Done = Result<(), BackendError>;
type Steps<'a> = &'a [ResidentDispatchStep<'a>];

/// How many workgroups of a cooperative launch the fake device holds at once.
pub(crate) const RESIDENT_GROUPS: u64 = 8;

#[derive(Clone)]
pub(crate) struct FullBackend {
    pub(crate) device: Arc<Device>,
    /// Which ways to run grid barriers it claims: natively, on resident memory, split by the host.
    pub(crate) grid_sync: [bool; 3],
}

impl FullBackend {
    pub(crate) fn new() -> FullBackend {
        FullBackend { device: Arc::new(Device::new()), grid_sync: [true; 3] }
    }

    fn run(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        let start = self.device.now();
        self.device.ready()?;
        let admission = admit(self, program, inputs, config)?;
        let workgroups = admission.grid.iter().map(|count| u64::from(*count)).product();
        if admission.program.has_grid_sync && workgroups > RESIDENT_GROUPS {
            return Err(BackendError::CooperativeResidencyExceeded { workgroups, resident: RESIDENT_GROUPS });
        }
        self.device.prepare_launch(program, config)?;
        let mut buffers: Vec<Vec<u8>> = admission
            .bindings
            .iter()
            .map(|plan| plan.input.map_or_else(|| vec![0; plan.byte_len], |input| inputs[input].to_vec()))
            .collect();
        let times = self.device.launch(&admission, &mut buffers.iter_mut().collect::<Vec<_>>());
        self.device.synchronize();
        let outputs = admission.bindings.iter().zip(buffers).filter(|(plan, _)| plan.output.is_some());
        let outputs: OutputBuffers = outputs.map(|(_, bytes)| bytes).collect();
        let total = |slices: &mut dyn Iterator<Item = usize>| slices.map(|len| len as u64).sum();
        record_launch(
            total(&mut inputs.iter().map(|input| input.len())),
            total(&mut outputs.iter().map(Vec::len)),
        );
        Ok(timed(outputs, self.device.now() - start, times))
    }

    /// Launches a step that is prepared.
    fn launch_step(&self, step: &ResidentDispatchStep<'_>) -> Result<Times, BackendError> {
        let config = DispatchConfig { grid_override: step.grid_override, ..DispatchConfig::default() };
        self.launch_resident(step.program, step.resources, &config)
    }

    fn launch_resident(
        &self,
        program: &Program,
        resources: &[Resource],
        config: &DispatchConfig,
    ) -> Result<Times, BackendError> {
        let pins = self.device.pin_all(resources)?;
        let byte_lens: Vec<usize> = pins.iter().map(Pinned::byte_len).collect();
        let admission = admit_resident(self, program, &byte_lens, config, |at, offset| {
            Ok(indirect_grid(offset, &pins[at].memory().lock().unwrap()))
        })?;
        let mut locked: Vec<_> = pins.iter().map(|pinned| pinned.memory().lock().unwrap()).collect();
        Ok(self
            .device
            .launch(&admission, &mut locked.iter_mut().map(|bytes| &mut **bytes).collect::<Vec<_>>()))
    }

    /// Prepares each program of the steps once.
    fn prepare_steps(&self, steps: Steps<'_>) -> Done {
        let mut prepared = HashSet::new();
        steps
            .iter()
            .filter(|step| prepared.insert(step.program.digest()))
            .try_for_each(|step| self.device.prepare_launch(step.program, &DispatchConfig::default()))
    }

    /// Every range behind one synchronization.
    fn read_all(&self, ranges: &[(&Resource, usize, usize)], outputs: &mut [&mut Vec<u8>]) -> Done {
        if ranges.len() != outputs.len() {
            return Err(BackendError::InvalidLaunch {
                message: format!("{} ranges and {} outputs", ranges.len(), outputs.len()),
                fix: "pass one output for each range".to_owned(),
            });
        }
        self.device.synchronize();
        ranges.iter().zip(outputs).try_for_each(|(range, out)| self.device.read(*range, out))
    }
}

fn timed(outputs: OutputBuffers, wall_ns: u64, times: Times) -> TimedDispatchResult {
    let Times { device, enqueue, wait } = times;
    TimedDispatchResult { outputs, wall_ns, device_ns: device, enqueue_ns: enqueue, wait_ns: wait }
}

fn sum(times: &[Times], of: impl Fn(&Times) -> Option<u64>) -> Result<Option<u64>, BackendError> {
    let overflow = || BackendError::ClockOverflow { what: "a sequence's time".to_owned() };
    let known: Option<Vec<u64>> = times.iter().map(of).collect();
    known
        .map(|known| known.iter().try_fold(0u64, |sum, ns| sum.checked_add(*ns)).ok_or_else(overflow))
        .transpose()
}

fn as_tuples<'a>(ranges: &[ResidentReadRange<'a>]) -> Vec<(&'a Resource, usize, usize)> {
    ranges.iter().map(|range| (range.resource, range.byte_offset, range.byte_len)).collect()
}

/// Every op but one.
pub(crate) fn ops() -> &'static HashSet<OpId> {
    static OPS: LazyLock<HashSet<OpId>> =
        LazyLock::new(|| OpId::all().filter(|op| *op != missing_op()).collect());
    &OPS
}

pub(crate) fn missing_op() -> OpId {
    OpId::ComputeOp(ComputeOp::Copysign)
}

impl Sealed for FullBackend {}

impl VyreBackend for FullBackend {
    fn id(&self) -> &'static str {
        ID
    }
    fn version(&self) -> &'static str {
        "7"
    }
    fn device_name(&self) -> &str {
        "full device"
    }
    fn driver_name(&self) -> &str {
        "full driver 1"
    }
    fn supported_ops(&self) -> &HashSet<OpId> {
        ops()
    }

    fn dispatch(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        self.run(program, &inputs, config).map(|timed| timed.outputs)
    }
    fn dispatch_borrowed(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        self.run(program, inputs, config).map(|timed| timed.outputs)
    }
    fn dispatch_borrowed_timed(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        self.run(program, inputs, config)
    }
    fn dispatch_borrowed_into(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
        outputs: &mut OutputBuffers,
    ) -> Done {
        fill_output_slots(self.run(program, inputs, config)?.outputs, outputs);
        Ok(())
    }
    fn dispatch_async(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Box<dyn PendingDispatch>, BackendError> {
        let (backend, program, config) = (self.clone(), program.clone(), config.clone());
        Ok(Box::new(Pending {
            backend,
            program,
            config,
            inputs: inputs.to_vec(),
            cancelled: AtomicBool::new(false),
        }))
    }
    fn dispatch_borrowed_async(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<Box<dyn PendingDispatch>, BackendError> {
        let inputs: Vec<Vec<u8>> = inputs.iter().map(|input| input.to_vec()).collect();
        self.dispatch_async(program, &inputs, config)
    }

    fn allocate_resident(&self, byte_len: usize) -> Result<Resource, BackendError> {
        self.device.ready()?;
        Ok(self.device.table.insert(byte_len, Mutex::new(vec![0; byte_len])))
    }
    fn upload_resident(&self, resource: &Resource, bytes: &[u8]) -> Done {
        self.upload_resident_many(&[(resource, bytes)])
    }
    fn upload_resident_many(&self, uploads: &[(&Resource, &[u8])]) -> Done {
        self.device.ready()?;
        for (resource, bytes) in uploads {
            let pinned = self.device.table.pin(resource)?;
            pinned.check_full(bytes.len())?;
            pinned.memory().lock().unwrap().copy_from_slice(bytes);
            pinned.revalidate();
        }
        Ok(())
    }
    fn upload_resident_at(&self, resource: &Resource, dst_offset_bytes: usize, bytes: &[u8]) -> Done {
        self.upload_resident_at_many(&[(resource, dst_offset_bytes, bytes)])
    }
    fn upload_resident_at_many(&self, uploads: &[(&Resource, usize, &[u8])]) -> Done {
        self.device.ready()?;
        for (resource, offset, bytes) in uploads {
            let pinned = self.device.table.pin(resource)?;
            pinned.check_range(*offset, bytes.len())?;
            pinned.memory().lock().unwrap()[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }
    fn download_resident(&self, resource: &Resource) -> Result<Vec<u8>, BackendError> {
        let mut out = Vec::new();
        self.download_resident_into(resource, &mut out)?;
        Ok(out)
    }
    fn download_resident_into(&self, resource: &Resource, out: &mut Vec<u8>) -> Done {
        let byte_len = self.resident_byte_len(resource)?;
        self.download_resident_range_into(resource, 0, byte_len, out)
    }
    fn download_resident_range(
        &self,
        resource: &Resource,
        byte_offset: usize,
        byte_len: usize,
    ) -> Result<Vec<u8>, BackendError> {
        let mut out = Vec::new();
        self.download_resident_range_into(resource, byte_offset, byte_len, &mut out)?;
        Ok(out)
    }
    fn download_resident_range_into(
        &self,
        resource: &Resource,
        byte_offset: usize,
        byte_len: usize,
        out: &mut Vec<u8>,
    ) -> Done {
        self.download_resident_ranges_into(&[(resource, byte_offset, byte_len)], &mut [out])
    }
    fn download_resident_ranges_into(
        &self,
        ranges: &[(&Resource, usize, usize)],
        outputs: &mut [&mut Vec<u8>],
    ) -> Done {
        self.device.ready()?;
        self.read_all(ranges, outputs)
    }
    fn free_resident(&self, resource: Resource) -> Done {
        self.device.table.remove(&resource)
    }
    fn resident_byte_len(&self, resource: &Resource) -> Result<usize, BackendError> {
        self.device.table.pin(resource).map(|pinned| pinned.byte_len())
    }
    fn dispatch_resident_timed(
        &self,
        program: &Program,
        resources: &[Resource],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        let start = self.device.now();
        self.device.prepare_launch(program, config)?;
        let times = self.launch_resident(program, resources, config)?;
        self.device.synchronize();
        record_launch(0, 0);
        Ok(timed(Vec::new(), self.device.now() - start, times))
    }
    fn dispatch_resident_sequence_read_ranges_into(
        &self,
        steps: Steps<'_>,
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Done {
        self.prepare_steps(steps)?;
        steps.iter().try_for_each(|step| self.launch_step(step).map(drop))?;
        self.read_all(&as_tuples(read_ranges), outputs)
    }
    fn dispatch_resident_sequence_read_ranges_timed_into(
        &self,
        steps: Steps<'_>,
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<ResidentSequenceTiming, BackendError> {
        let start = self.device.now();
        self.prepare_steps(steps)?;
        let times: Result<Vec<Times>, _> = steps.iter().map(|step| self.launch_step(step)).collect();
        let times = times?;
        self.read_all(&as_tuples(read_ranges), outputs)?;
        Ok(ResidentSequenceTiming {
            wall_ns: self.device.now() - start,
            device_ns: sum(&times, |times| times.device)?,
            enqueue_ns: sum(&times, |times| times.enqueue)?,
            wait_ns: sum(&times, |times| times.wait)?,
        })
    }
    fn dispatch_resident_repeated_sequence_read_ranges_into(
        &self,
        prefix_steps: Steps<'_>,
        repeated_steps: Steps<'_>,
        repeat_count: u32,
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Done {
        self.prepare_steps(&[prefix_steps, repeated_steps].concat())?;
        let repeated = (0..repeat_count).flat_map(|_| repeated_steps);
        prefix_steps.iter().chain(repeated).try_for_each(|step| self.launch_step(step).map(drop))?;
        self.read_all(&as_tuples(read_ranges), outputs)
    }

    fn allocate_device_buffer(&self, byte_len: usize) -> Result<Box<dyn DeviceBuffer>, BackendError> {
        self.device.table.device_buffer(&self.allocate_resident(byte_len)?)
    }
    fn upload_device_buffer(&self, buffer: &mut dyn DeviceBuffer, bytes: &[u8]) -> Done {
        self.upload_resident(self.device.table.resource_of(buffer)?, bytes)
    }
    fn download_device_buffer(&self, buffer: &dyn DeviceBuffer) -> Result<Vec<u8>, BackendError> {
        self.download_resident(self.device.table.resource_of(buffer)?)
    }
    fn free_device_buffer(&self, buffer: Box<dyn DeviceBuffer>) -> Done {
        self.free_resident(self.device.table.resource_of(&*buffer)?.clone())
    }
    fn dispatch_with_device_buffers(
        &self,
        program: &Program,
        inputs: &[&dyn DeviceBuffer],
        outputs: &mut [&mut dyn DeviceBuffer],
        config: &DispatchConfig,
    ) -> Done {
        let table = &self.device.table;
        let mut resources = Vec::new();
        for buffer in inputs {
            resources.push(table.resource_of(*buffer)?.clone());
        }
        for buffer in outputs {
            resources.push(table.resource_of(&**buffer)?.clone());
        }
        self.dispatch_resident_timed(program, &resources, config).map(drop)
    }

    fn compile_native(
        &self,
        program: &Program,
        config: &DispatchConfig,
    ) -> Result<Option<Arc<dyn CompiledPipeline>>, BackendError> {
        self.compile_native_shared(Arc::new(program.clone()), config)
    }
    fn compile_native_shared(
        &self,
        program: Arc<Program>,
        config: &DispatchConfig,
    ) -> Result<Option<Arc<dyn CompiledPipeline>>, BackendError> {
        let generation = self.device.ready()?;
        self.device.prepare_launch(&program, config)?;
        Ok(Some(Arc::new(Pipeline { backend: self.clone(), program, generation })))
    }
    fn pipeline_cache_snapshot(&self) -> Option<PipelineCacheSnapshot> {
        Some(self.device.pipelines.snapshot())
    }
    fn backend_metric_snapshot(&self) -> Vec<(&'static str, u64)> {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("launches", count(&self.device.launches)),
            ("preparations", count(&self.device.preparations)),
            ("synchronizations", count(&self.device.synchronizations)),
        ]
    }

    fn supports_subgroup_ops(&self) -> bool {
        true
    }
    fn supports_f16(&self) -> bool {
        true
    }
    fn supports_bf16(&self) -> bool {
        true
    }
    fn supports_tensor_cores(&self) -> bool {
        true
    }
    fn supports_async_compute(&self) -> bool {
        true
    }
    fn supports_indirect_dispatch(&self) -> bool {
        true
    }
    fn supports_speculation(&self) -> bool {
        true
    }
    fn supports_persistent_thread_dispatch(&self) -> bool {
        true
    }
    fn supports_grid_sync(&self) -> bool {
        self.grid_sync[0]
    }
    fn supports_resident_dispatch(&self) -> bool {
        self.grid_sync[1]
    }
    fn is_distributed(&self) -> bool {
        true
    }
    fn supports_distributed_collectives(&self) -> bool {
        true
    }
    fn allows_host_grid_sync_split(&self) -> bool {
        self.grid_sync[2]
    }
    fn cooperative_grid_sync_fits(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<bool, BackendError> {
        let admission = admit(self, program, inputs, config)?;
        let workgroups: u64 = admission.grid.iter().map(|count| u64::from(*count)).product();
        Ok(admission.program.has_grid_sync && workgroups <= RESIDENT_GROUPS)
    }
    fn max_workgroup_size(&self) -> [u32; 3] {
        [256, 128, 64]
    }
    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        1_000
    }
    fn max_compute_invocations_per_workgroup(&self) -> u32 {
        512
    }
    fn subgroup_size(&self) -> Option<u32> {
        Some(32)
    }
    fn max_storage_buffer_bytes(&self) -> u64 {
        4_096
    }
    fn device_profile(&self) -> DeviceProfile {
        DeviceProfile {
            supports_device_timestamps: true,
            timing_quality: DeviceTimingQuality::DeviceEvents,
            compute_units: 132,
            max_shared_memory_bytes: 1_024,
            has_shared_memory: true,
            ..DeviceProfile::unknown(ID)
        }
    }

    fn prepare(&self) -> Done {
        self.device.ready().map(drop)
    }
    fn flush(&self) -> Done {
        self.device.ready()?;
        self.device.synchronize();
        Ok(())
    }
    fn shutdown(&self) -> Done {
        self.device.shut_down.store(true, Ordering::Release);
        Ok(())
    }
    fn device_lost(&self) -> bool {
        self.device.lost.load(Ordering::Acquire)
    }
    fn try_recover(&self) -> Done {
        self.device.generation.fetch_add(1, Ordering::AcqRel);
        self.device.table.lose_all();
        self.device.pipelines.clear();
        self.device.lost.store(false, Ordering::Release);
        Ok(())
    }
    fn __vyre_backend_sealed(&self) {}
}

/// A dispatch that the fake device has queued. It runs when someone waits, or counts as ready after a `flush`.
struct Pending {
    backend: FullBackend,
    program: Program,
    config: DispatchConfig,
    inputs: Vec<Vec<u8>>,
    cancelled: AtomicBool,
}

impl PendingDispatch for Pending {
    fn is_ready(&self) -> bool {
        self.backend.device.synchronizations.load(Ordering::Relaxed) > 0
    }
    fn await_result(self: Box<Self>) -> Result<Vec<Vec<u8>>, BackendError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(BackendError::Cancelled);
        }
        self.backend.dispatch(&self.program, &self.inputs, &self.config)
    }
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

struct Pipeline {
    backend: FullBackend,
    program: Arc<Program>,
    generation: u64,
}

impl CompiledPipeline for Pipeline {
    fn program(&self) -> &Program {
        &self.program
    }
    fn is_valid(&self) -> bool {
        self.backend.device.ready().is_ok_and(|now| now == self.generation)
    }
    fn dispatch(&self, inputs: &[&[u8]], config: &DispatchConfig) -> Result<OutputBuffers, BackendError> {
        if self.backend.device.ready()? != self.generation {
            return Err(BackendError::PipelineInvalidated { backend: ID.to_owned() });
        }
        self.backend.dispatch_borrowed(&self.program, inputs, config)
    }
    /// One synchronization would do for the whole batch on a real device; here it is enough to run in order.
    fn dispatch_batch(
        &self,
        batch: &[&[&[u8]]],
        config: &DispatchConfig,
    ) -> Result<Vec<OutputBuffers>, BackendError> {
        batch.iter().map(|inputs| self.dispatch(inputs, config)).collect()
    }
}
