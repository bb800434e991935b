//! The driver contract, as this host's processor keeps it.

use crate::compile;
use crate::device::{CpuBackend, ID};
use crate::launch::{self, Sequence, Times, Watch};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use vyre_driver::admission::admit;
use vyre_driver::backend::private::Sealed;
use vyre_driver::observability::into_slots;
use vyre_driver::pipeline::PipelineCacheSnapshot;
use vyre_driver::resident::check_range_count;
use vyre_driver::{
    BackendError, CancelToken, CompiledPipeline, DeviceBuffer, DeviceProfile, DispatchConfig, OutputBuffers,
    PendingDispatch, ResidentDispatchStep, ResidentReadRange, ResidentSequenceTiming, Resource,
    TimedDispatchResult, VyreBackend, grid_sync,
};
use vyre_foundation::ir::Program;
use vyre_foundation::limits;

impl Sealed for CpuBackend {}

impl VyreBackend for CpuBackend {
    fn id(&self) -> &'static str {
        ID
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    fn device_name(&self) -> &str {
        &self.device.name
    }

    fn driver_name(&self) -> &str {
        self.device.compiler.name()
    }

    fn dispatch(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        self.dispatch_borrowed(program, &inputs, config)
    }

    fn dispatch_borrowed(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        self.dispatch_borrowed_timed(program, inputs, config).map(|timed| timed.outputs)
    }

    fn dispatch_borrowed_timed(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        launch::dispatch(self, program, inputs, config, self.device.call()?, &mut Vec::new())
    }

    fn dispatch_borrowed_into(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
        outputs: &mut OutputBuffers,
    ) -> Result<(), BackendError> {
        let call = self.device.call()?;
        into_slots(outputs, |outputs| {
            launch::dispatch(self, program, inputs, config, call, outputs).map(|timed| timed.outputs)
        })
    }

    fn dispatch_async(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Box<dyn PendingDispatch>, BackendError> {
        Ok(start(self, program, inputs.to_vec(), config))
    }

    fn dispatch_borrowed_async(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<Box<dyn PendingDispatch>, BackendError> {
        Ok(start(self, program, inputs.iter().map(|input| input.to_vec()).collect(), config))
    }

    fn allocate_resident(&self, byte_len: usize) -> Result<Resource, BackendError> {
        self.device.allocate(byte_len)
    }

    fn upload_resident(&self, resource: &Resource, bytes: &[u8]) -> Result<(), BackendError> {
        self.device.upload(&[(resource, bytes)])
    }

    fn upload_resident_many(&self, uploads: &[(&Resource, &[u8])]) -> Result<(), BackendError> {
        self.device.upload(uploads)
    }

    fn upload_resident_at(
        &self,
        resource: &Resource,
        dst_offset_bytes: usize,
        bytes: &[u8],
    ) -> Result<(), BackendError> {
        self.device.upload_at(&[(resource, dst_offset_bytes, bytes)])
    }

    fn upload_resident_at_many(&self, uploads: &[(&Resource, usize, &[u8])]) -> Result<(), BackendError> {
        self.device.upload_at(uploads)
    }

    fn download_resident_into(&self, resource: &Resource, out: &mut Vec<u8>) -> Result<(), BackendError> {
        self.device.download(resource, None, out)
    }

    fn download_resident_range_into(
        &self,
        resource: &Resource,
        byte_offset: usize,
        byte_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), BackendError> {
        self.device.download(resource, Some((byte_offset, byte_len)), out)
    }

    fn free_resident(&self, resource: Resource) -> Result<(), BackendError> {
        self.device.resident.remove(&resource)
    }

    fn resident_byte_len(&self, resource: &Resource) -> Result<usize, BackendError> {
        self.device.resident.pin(resource).map(|pinned| pinned.byte_len())
    }

    fn invalidate_resident(&self, resource: &Resource) -> Result<(), BackendError> {
        self.device.resident.pin(resource).map(|pinned| pinned.invalidate())
    }

    fn dispatch_resident_timed(
        &self,
        program: &Program,
        resources: &[Resource],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        let step = [ResidentDispatchStep { program, resources, grid_override: config.grid_override }];
        let once = Sequence { prefix: &step, repeated: &[], count: 0 };
        launch::timed(Vec::new(), launch::dispatch_resident(self, &once, config)?)
    }

    fn dispatch_resident_sequence_read_ranges_into(
        &self,
        steps: &[ResidentDispatchStep<'_>],
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<(), BackendError> {
        self.dispatch_resident_repeated_sequence_read_ranges_into(steps, &[], 0, read_ranges, outputs)
    }

    fn dispatch_resident_sequence_read_ranges_timed_into(
        &self,
        steps: &[ResidentDispatchStep<'_>],
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<ResidentSequenceTiming, BackendError> {
        let start = Instant::now();
        let sequence = Sequence { prefix: steps, repeated: &[], count: 0 };
        let mut times = self.run_sequence(&sequence, read_ranges, outputs)?;
        times.wall = start.elapsed();
        let TimedDispatchResult { wall_ns, device_ns, enqueue_ns, wait_ns, .. } =
            launch::timed(Vec::new(), times)?;
        Ok(ResidentSequenceTiming { wall_ns, device_ns, enqueue_ns, wait_ns })
    }

    fn dispatch_resident_repeated_sequence_read_ranges_into(
        &self,
        prefix: &[ResidentDispatchStep<'_>],
        repeated: &[ResidentDispatchStep<'_>],
        count: u32,
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<(), BackendError> {
        self.run_sequence(&Sequence { prefix, repeated, count }, read_ranges, outputs).map(drop)
    }

    fn allocate_device_buffer(&self, byte_len: usize) -> Result<Box<dyn DeviceBuffer>, BackendError> {
        let resource = self.device.allocate(byte_len)?;
        self.device.resident.device_buffer(&resource)
    }

    fn upload_device_buffer(&self, buffer: &mut dyn DeviceBuffer, bytes: &[u8]) -> Result<(), BackendError> {
        self.upload_resident(self.device.resident.resource_of(buffer)?, bytes)
    }

    fn download_device_buffer(&self, buffer: &dyn DeviceBuffer) -> Result<Vec<u8>, BackendError> {
        self.download_resident(self.device.resident.resource_of(buffer)?)
    }

    fn free_device_buffer(&self, buffer: Box<dyn DeviceBuffer>) -> Result<(), BackendError> {
        self.device.resident.remove(self.device.resident.resource_of(&*buffer)?)
    }

    fn dispatch_with_device_buffers(
        &self,
        program: &Program,
        inputs: &[&dyn DeviceBuffer],
        outputs: &mut [&mut dyn DeviceBuffer],
        config: &DispatchConfig,
    ) -> Result<(), BackendError> {
        let valid = vyre_driver::admission::valid(program, config.workgroup_override)?;
        let resources = self.device.resident.resources_of(&valid, inputs, outputs)?;
        self.dispatch_resident_timed(program, &resources, config).map(|_| ())
    }

    fn compile_native(
        &self,
        program: &Program,
        config: &DispatchConfig,
    ) -> Result<Option<Arc<dyn CompiledPipeline>>, BackendError> {
        compile::compile(self, program, config).map(Some)
    }

    fn pipeline_cache_snapshot(&self) -> Option<PipelineCacheSnapshot> {
        Some(self.device.pipelines.snapshot())
    }

    fn backend_metric_snapshot(&self) -> Vec<(&'static str, u64)> {
        let (allocations, bytes) = self.device.resident.usage();
        vec![
            ("dispatches", self.device.launches.load(Ordering::Relaxed)),
            ("shared_dispatches", self.device.shared_launches.load(Ordering::Relaxed)),
            ("resident_allocations", allocations),
            ("resident_bytes", bytes),
        ]
    }

    fn supports_async_compute(&self) -> bool {
        true
    }

    fn supports_indirect_dispatch(&self) -> bool {
        true
    }

    fn supports_grid_sync(&self) -> bool {
        true
    }

    fn supports_resident_dispatch(&self) -> bool {
        true
    }

    fn cooperative_grid_sync_fits(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<bool, BackendError> {
        let admission = admit(self, program, inputs, config)?;
        let valid = &admission.program;
        Ok(valid.facts().has_grid_sync && grid_sync::plan(valid)?.state_sizes(&admission).is_ok())
    }

    fn max_workgroup_size(&self) -> [u32; 3] {
        limits::WORKGROUP_AXIS_MAX
    }

    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        u32::MAX
    }

    fn max_compute_invocations_per_workgroup(&self) -> u32 {
        limits::WORKGROUP_LANES_MAX
    }

    fn max_storage_buffer_bytes(&self) -> u64 {
        u64::from(u32::MAX) * 8
    }

    fn device_profile(&self) -> DeviceProfile {
        DeviceProfile {
            supports_indirect_dispatch: true,
            supports_trap_propagation: true,
            max_native_int_width: 64,
            max_workgroup_size: self.max_workgroup_size(),
            max_invocations_per_workgroup: self.max_compute_invocations_per_workgroup(),
            max_shared_memory_bytes: limits::WORKGROUP_BYTES_MAX as u32,
            max_storage_buffer_binding_size: self.max_storage_buffer_bytes(),
            compute_units: self.device.pool.threads() as u32,
            ideal_vector_pack_bits: self.device.compiler.vector_bits(),
            ..DeviceProfile::unknown(ID)
        }
    }

    fn shutdown(&self) -> Result<(), BackendError> {
        self.device.shut_down();
        Ok(())
    }

    fn device_lost(&self) -> bool {
        self.device.is_lost()
    }

    fn try_recover(&self) -> Result<(), BackendError> {
        self.device.recover()
    }
}

impl CpuBackend {
    fn run_sequence(
        &self,
        sequence: &Sequence<'_>,
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<Times, BackendError> {
        check_range_count(read_ranges.len(), outputs.len())?;
        let times = launch::dispatch_resident(self, sequence, &DispatchConfig::default())?;
        let ranges: Vec<_> =
            read_ranges.iter().map(|range| (range.resource, range.byte_offset, range.byte_len)).collect();
        self.download_resident_ranges_into(&ranges, outputs)?;
        Ok(times)
    }
}

/// A dispatch that one of the device's threads runs.
struct Running {
    result: mpsc::Receiver<Result<OutputBuffers, BackendError>>,
    done: Arc<AtomicBool>,
    cancel: CancelToken,
    /// What ends it while its turn has not come.
    watch: Option<Arc<Watch>>,
}

/// How often one that waits looks whether its dispatch may still come.
const TICK: Duration = Duration::from_millis(5);

fn start(
    backend: &CpuBackend,
    program: &Program,
    inputs: Vec<Vec<u8>>,
    config: &DispatchConfig,
) -> Box<dyn PendingDispatch> {
    let mut config = config.clone();
    let cancel = config.cancel.get_or_insert_default().clone();
    let done = Arc::new(AtomicBool::new(false));
    // Its time counts from now, and it is a dispatch of the device as it is now.
    let call = backend.device.call();
    let watch = call.as_ref().ok().map(|call| Watch::new(&backend.device, &config, *call));
    let (own, program, finished) = (backend.clone(), program.clone(), Finished(Arc::clone(&done)));
    let (sender, result) = mpsc::sync_channel(1);
    let run = move || {
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let result =
            call.and_then(|call| launch::dispatch(&own, &program, &inputs, &config, call, &mut Vec::new()));
        // Nobody listens any more if the handle was dropped.
        let _ = sender.send(result.map(|timed| timed.outputs));
        drop(finished);
    };
    if let Err(run) = backend.device.pool.spawn(Box::new(run)) {
        // No thread can be had, so it is done at once.
        run();
    }
    Box::new(Running { result, done, cancel, watch })
}

/// Says that the thread is done, also when it panics, so that nobody polls for ever.
struct Finished(Arc<AtomicBool>);

impl Drop for Finished {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl PendingDispatch for Running {
    fn is_ready(&self) -> bool {
        self.done.load(Ordering::Acquire) || self.watch.as_ref().is_some_and(|watch| watch.stop())
    }

    fn await_result(self: Box<Self>) -> Result<Vec<Vec<u8>>, BackendError> {
        self.wait(Duration::MAX)
    }

    fn await_timeout(self: Box<Self>, limit: Duration) -> Result<Vec<Vec<u8>>, BackendError> {
        self.wait(limit)
    }

    fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Running {
    fn wait(&self, limit: Duration) -> Result<Vec<Vec<u8>>, BackendError> {
        let start = Instant::now();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            match self.result.recv_timeout(left.min(TICK)) {
                Ok(result) => return result,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let fix = "report the program; it must not panic";
                    return Err(BackendError::other("the dispatch's thread panicked", fix));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if left <= TICK => {
                    self.cancel.cancel();
                    return Err(BackendError::Timeout { limit });
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if let Some(watch) = self.watch.as_ref().filter(|watch| watch.stop()) {
                return self.result.try_recv().unwrap_or_else(|_| Err(watch.error()));
            }
        }
    }
}
