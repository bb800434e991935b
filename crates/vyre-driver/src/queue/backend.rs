//! The driver contract over a queue.

use super::pending;
use super::run::{self, Locks};
use super::{About, Queue, Stop, Work};
use crate::admission::{admit, valid};
use crate::backend::{VyreBackend, private::Sealed};
use crate::config::DispatchConfig;
use crate::error::BackendError;
use crate::grid_sync;
use crate::observability::into_slots;
use crate::pipeline::{PipelineCache, PipelineCacheSnapshot, PipelineKey};
use crate::profile::DeviceProfile;
use crate::resident::ResidentTable;
use crate::types::{
    CompiledPipeline, DeviceBuffer, OutputBuffers, PendingDispatch, ResidentDispatchStep, ResidentReadRange,
    ResidentSequenceTiming, Resource, TimedDispatchResult,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;
use vyre_foundation::ir::Program;
use vyre_foundation::launch::Admission;
use vyre_foundation::validate::ValidProgram;

/// A device as a backend. Clones are handles to one device.
pub struct QueueBackend<Q: Queue> {
    shared: Arc<Shared<Q>>,
}

impl<Q: Queue + Default> Default for QueueBackend<Q> {
    fn default() -> Self {
        QueueBackend::new(Q::default())
    }
}

impl<Q: Queue> Clone for QueueBackend<Q> {
    fn clone(&self) -> Self {
        QueueBackend { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<Q: Queue> {
    about: About,
    /// The device, until it is shut down.
    queue: RwLock<Option<Arc<Q>>>,
    resident: ResidentTable<Resident<Q>>,
    kernels: PipelineCache<Q::Kernel>,
    /// Which life of the device this is.
    generation: AtomicU64,
    /// Who opened it: devices do not survive a fork.
    process: u32,
    dispatches: AtomicU64,
}

/// Resident memory, and who uses it.
pub(super) struct Resident<Q: Queue> {
    pub(super) memory: Q::Memory,
    pub(super) using: RwLock<()>,
}

impl<Q: Queue> QueueBackend<Q> {
    /// The contract over a device that was just opened.
    pub fn new(queue: Q) -> QueueBackend<Q> {
        let about = queue.about();
        QueueBackend {
            shared: Arc::new(Shared {
                resident: ResidentTable::new(about.id),
                about,
                queue: RwLock::new(Some(Arc::new(queue))),
                kernels: PipelineCache::new(1024),
                generation: AtomicU64::new(0),
                process: std::process::id(),
                dispatches: AtomicU64::new(0),
            }),
        }
    }

    /// Loses the device, as a driver's reset would. For tests of what is built on recovery.
    pub fn lose_device(&self) {
        if let Ok(queue) = self.queue() {
            queue.lose();
        }
    }

    pub(super) fn about(&self) -> &About {
        &self.shared.about
    }

    pub(super) fn resident(&self) -> &ResidentTable<Resident<Q>> {
        &self.shared.resident
    }

    /// The device, if it can be used, and which life of it this is.
    pub(super) fn begin(&self) -> Result<(Arc<Q>, u64), BackendError> {
        // A device that is replaced in between then counts as the lost one, which is safe.
        let generation = self.generation();
        Ok((self.queue()?, generation))
    }

    fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }

    pub(super) fn count(&self, dispatches: u64) {
        self.shared.dispatches.fetch_add(dispatches, Ordering::Relaxed);
    }

    pub(super) fn queue(&self) -> Result<Arc<Q>, BackendError> {
        let backend = || self.about().id.to_owned();
        if std::process::id() != self.shared.process {
            let cause = "the process was forked, and devices do not survive that".to_owned();
            return Err(BackendError::DeviceLost { backend: backend(), cause });
        }
        let queue = self.shared.queue.read().unwrap_or_else(PoisonError::into_inner).clone();
        let queue = queue.ok_or_else(|| BackendError::ShutDown { backend: backend() })?;
        if queue.is_lost() {
            return Err(self.lost());
        }
        Ok(queue)
    }

    fn lost(&self) -> BackendError {
        let cause = "an earlier dispatch failed, or the device was reset".to_owned();
        BackendError::DeviceLost { backend: self.about().id.to_owned(), cause }
    }

    /// Whether the device is the one that a call began on: what was written to another is gone.
    pub(super) fn still(&self, generation: u64) -> Result<(), BackendError> {
        let current = self.generation() == generation && !self.device_lost();
        if current { Ok(()) } else { Err(self.lost()) }
    }

    /// What is behind an error of a call: a handle that went with the device is not the caller's mistake.
    pub(super) fn cause(&self, generation: u64, error: BackendError) -> BackendError {
        match error {
            BackendError::BadHandle { .. } => self.still(generation).err().unwrap_or(error),
            other => other,
        }
    }

    /// The kernel of a program, from the cache or compiled now.
    pub(super) fn kernel(
        &self,
        queue: &Q,
        valid: &ValidProgram,
        stop: &Stop,
    ) -> Result<Arc<Q::Kernel>, BackendError> {
        let About { id, version, .. } = self.about();
        let (program, variant) = (valid.program(), self.variant(stop) as u64);
        let key = PipelineKey { program: program.digest(), backend: id, version, variant };
        self.shared.kernels.get_or_compile(key, || {
            let _span = tracing::trace_span!("compile", program = program.name()).entered();
            queue.compile(valid, stop)
        })
    }

    /// Which kernel of a program a launch wants: 0 runs to its end, 1 can be stopped. Most devices have one for both.
    fn variant(&self, stop: &Stop) -> usize {
        usize::from(self.about().stoppable_apart && stop.is_possible())
    }

    /// Allocates resident memory, zero at the start.
    fn allocate(&self, byte_len: usize) -> Result<Resource, BackendError> {
        let (queue, generation) = self.begin()?;
        let memory = queue.allocate_zeroed(byte_len)?;
        let resource = self.resident().insert(byte_len, Resident { memory, using: RwLock::new(()) });
        self.still(generation)?;
        Ok(resource)
    }

    /// Uploads to ranges, or to all of an allocation where no offset is given. All are checked before any is written.
    fn upload(&self, uploads: &[(&Resource, Option<usize>, &[u8])]) -> Result<(), BackendError> {
        let (queue, generation) = self.begin()?;
        self.upload_on(&queue, uploads).map_err(|error| self.cause(generation, error))?;
        self.still(generation)
    }

    fn upload_on(
        &self,
        queue: &Q,
        uploads: &[(&Resource, Option<usize>, &[u8])],
    ) -> Result<(), BackendError> {
        let mut pins = Vec::with_capacity(uploads.len());
        for (resource, offset, bytes) in uploads {
            let pinned = self.resident().pin(resource)?;
            match offset {
                None => pinned.check_full(bytes.len())?,
                Some(offset) => pinned.check_range(*offset, bytes.len())?,
            }
            pins.push(pinned);
        }
        let stop = Stop::never();
        let _locks = Locks::take(pins.iter().map(|pinned| (pinned, true)), &stop)?;
        let each = || pins.iter().zip(uploads);
        for (pinned, (_, offset, _)) in each() {
            if offset.is_some() {
                pinned.check_defined()?;
            }
        }
        let mut work = Work::none();
        work.uploads = each()
            .map(|(pinned, (_, offset, bytes))| (&pinned.memory().memory, offset.unwrap_or(0), *bytes))
            .collect();
        queue.submit(work, &stop)?;
        // Under the lock, so that a dispatch that fails later is not talked over.
        each().filter(|(_, (_, offset, _))| offset.is_none()).for_each(|(pinned, _)| pinned.revalidate());
        Ok(())
    }
}

/// A program made ready. It holds its kernels, so that they are compiled once, whatever the cache forgets.
struct Pipeline<Q: Queue> {
    backend: QueueBackend<Q>,
    generation: u64,
    program: Program,
    /// What was compiled: the program, with the workgroup size that was asked for.
    compiled: ValidProgram,
    /// The kernel that runs to its end, and the one that can be stopped.
    kernels: [OnceLock<Arc<Q::Kernel>>; 2],
}

impl<Q: Queue> Pipeline<Q> {
    /// The device, if it is still the one of this pipeline.
    fn begin(&self) -> Result<Arc<Q>, BackendError> {
        let queue = self.backend.queue()?;
        if self.is_valid() {
            return Ok(queue);
        }
        let backend = self.backend.about().id.to_owned();
        Err(BackendError::PipelineInvalidated { backend })
    }

    fn kernel(&self, queue: &Q, stop: &Stop) -> Result<Arc<Q::Kernel>, BackendError> {
        let held = &self.kernels[self.backend.variant(stop)];
        if let Some(kernel) = held.get() {
            return Ok(Arc::clone(kernel));
        }
        let kernel = self.backend.kernel(queue, &self.compiled, stop)?;
        Ok(Arc::clone(held.get_or_init(|| kernel)))
    }

    fn run(
        &self,
        admission: &Admission,
        inputs: &[&[u8]],
        config: &DispatchConfig,
        timed: bool,
    ) -> Result<TimedDispatchResult, BackendError> {
        let start = Instant::now();
        let queue = self.begin()?;
        let stop = Stop::new(config, start);
        let host = run::Host { admission, inputs, timed, start, stop: &stop };
        let compile = || match admission.program == self.compiled {
            true => self.kernel(&queue, &stop),
            // Another workgroup size makes another program.
            false => self.backend.kernel(&queue, &admission.program, &stop),
        };
        match run::whole(&self.backend, &*queue, admission, compile)? {
            Some(kernel) => run::dispatch_kernel(&self.backend, &queue, kernel, &host, &mut Vec::new()),
            None => grid_sync::dispatch(&self.backend, &self.program, inputs, config),
        }
    }
}

impl<Q: Queue> CompiledPipeline for Pipeline<Q> {
    fn program(&self) -> &Program {
        &self.program
    }

    fn is_valid(&self) -> bool {
        self.backend.still(self.generation).is_ok()
    }

    fn dispatch(&self, inputs: &[&[u8]], config: &DispatchConfig) -> Result<OutputBuffers, BackendError> {
        self.begin()?;
        let admission = admit(&self.backend, &self.program, inputs, config)?;
        self.run(&admission, inputs, config, false).map(|timed| timed.outputs)
    }

    fn dispatch_admitted(
        &self,
        admission: &Admission,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        self.run(admission, inputs, config, true)
    }
}

impl<Q: Queue> Sealed for QueueBackend<Q> {}

impl<Q: Queue> VyreBackend for QueueBackend<Q> {
    fn id(&self) -> &'static str {
        self.about().id
    }

    fn version(&self) -> &'static str {
        self.about().version
    }

    fn device_name(&self) -> &str {
        &self.about().device
    }

    fn driver_name(&self) -> &str {
        &self.about().driver
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
        let start = Instant::now();
        run::dispatch(self, program, inputs, config, (start, false), &mut Vec::new())
            .map(|timed| timed.outputs)
    }

    fn dispatch_borrowed_timed(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        run::dispatch(self, program, inputs, config, (Instant::now(), true), &mut Vec::new())
    }

    fn dispatch_borrowed_into(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
        outputs: &mut OutputBuffers,
    ) -> Result<(), BackendError> {
        let start = Instant::now();
        into_slots(outputs, |outputs| {
            run::dispatch(self, program, inputs, config, (start, false), outputs).map(|timed| timed.outputs)
        })
    }

    fn dispatch_async(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Box<dyn PendingDispatch>, BackendError> {
        pending::start(self, program, inputs.to_vec(), config)
    }

    fn dispatch_borrowed_async(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<Box<dyn PendingDispatch>, BackendError> {
        pending::start(self, program, inputs.iter().map(|input| input.to_vec()).collect(), config)
    }

    fn allocate_resident(&self, byte_len: usize) -> Result<Resource, BackendError> {
        self.allocate(byte_len)
    }

    fn upload_resident(&self, resource: &Resource, bytes: &[u8]) -> Result<(), BackendError> {
        self.upload(&[(resource, None, bytes)])
    }

    fn upload_resident_many(&self, uploads: &[(&Resource, &[u8])]) -> Result<(), BackendError> {
        let uploads: Vec<_> = uploads.iter().map(|(resource, bytes)| (*resource, None, *bytes)).collect();
        self.upload(&uploads)
    }

    fn upload_resident_at(
        &self,
        resource: &Resource,
        dst_offset_bytes: usize,
        bytes: &[u8],
    ) -> Result<(), BackendError> {
        self.upload(&[(resource, Some(dst_offset_bytes), bytes)])
    }

    fn upload_resident_at_many(&self, uploads: &[(&Resource, usize, &[u8])]) -> Result<(), BackendError> {
        let uploads: Vec<_> =
            uploads.iter().map(|(to, offset, bytes)| (*to, Some(*offset), *bytes)).collect();
        self.upload(&uploads)
    }

    fn download_resident_into(&self, resource: &Resource, out: &mut Vec<u8>) -> Result<(), BackendError> {
        // A backend that was shut down has no handles left, and must not call this one lost.
        self.queue()?;
        let byte_len = self.resident_byte_len(resource)?;
        self.download_resident_range_into(resource, 0, byte_len, out)
    }

    fn download_resident_range_into(
        &self,
        resource: &Resource,
        byte_offset: usize,
        byte_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), BackendError> {
        self.download_resident_ranges_into(&[(resource, byte_offset, byte_len)], &mut [out])
    }

    fn download_resident_ranges_into(
        &self,
        ranges: &[(&Resource, usize, usize)],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<(), BackendError> {
        let range =
            |&(resource, byte_offset, byte_len)| ResidentReadRange { resource, byte_offset, byte_len };
        let ranges: Vec<_> = ranges.iter().map(range).collect();
        run::sequence(self, [&[], &[]], 0, &ranges, outputs, false).map(|_| ())
    }

    fn free_resident(&self, resource: Resource) -> Result<(), BackendError> {
        self.resident().remove(&resource)
    }

    fn resident_byte_len(&self, resource: &Resource) -> Result<usize, BackendError> {
        self.resident().pin(resource).map(|pinned| pinned.byte_len())
    }

    fn invalidate_resident(&self, resource: &Resource) -> Result<(), BackendError> {
        self.resident().pin(resource).map(|pinned| pinned.invalidate())
    }

    fn dispatch_resident_timed(
        &self,
        program: &Program,
        resources: &[Resource],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        run::dispatch_resident(self, program, resources, config, true)
    }

    fn dispatch_resident_sequence_read_ranges_into(
        &self,
        steps: &[ResidentDispatchStep<'_>],
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<(), BackendError> {
        run::sequence(self, [steps, &[]], 0, read_ranges, outputs, false).map(|_| ())
    }

    fn dispatch_resident_sequence_read_ranges_timed_into(
        &self,
        steps: &[ResidentDispatchStep<'_>],
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<ResidentSequenceTiming, BackendError> {
        run::sequence(self, [steps, &[]], 0, read_ranges, outputs, true)
    }

    fn dispatch_resident_repeated_sequence_read_ranges_into(
        &self,
        prefix_steps: &[ResidentDispatchStep<'_>],
        repeated_steps: &[ResidentDispatchStep<'_>],
        repeat_count: u32,
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<(), BackendError> {
        run::sequence(self, [prefix_steps, repeated_steps], repeat_count, read_ranges, outputs, false)
            .map(|_| ())
    }

    fn allocate_device_buffer(&self, byte_len: usize) -> Result<Box<dyn DeviceBuffer>, BackendError> {
        self.resident().device_buffer(&self.allocate(byte_len)?)
    }

    fn upload_device_buffer(&self, buffer: &mut dyn DeviceBuffer, bytes: &[u8]) -> Result<(), BackendError> {
        self.upload_resident(self.resident().resource_of(buffer)?, bytes)
    }

    fn download_device_buffer(&self, buffer: &dyn DeviceBuffer) -> Result<Vec<u8>, BackendError> {
        self.download_resident(self.resident().resource_of(buffer)?)
    }

    fn free_device_buffer(&self, buffer: Box<dyn DeviceBuffer>) -> Result<(), BackendError> {
        self.resident().remove(self.resident().resource_of(&*buffer)?)
    }

    fn dispatch_with_device_buffers(
        &self,
        program: &Program,
        inputs: &[&dyn DeviceBuffer],
        outputs: &mut [&mut dyn DeviceBuffer],
        config: &DispatchConfig,
    ) -> Result<(), BackendError> {
        let valid = valid(program, config.workgroup_override)?;
        let resources = self.resident().resources_of(&valid, inputs, outputs)?;
        run::dispatch_resident(self, program, &resources, config, false).map(|_| ())
    }

    fn compile_native(
        &self,
        program: &Program,
        config: &DispatchConfig,
    ) -> Result<Option<Arc<dyn CompiledPipeline>>, BackendError> {
        let (queue, generation) = self.begin()?;
        let compiled = valid(program, config.workgroup_override)?;
        let (backend, program) = (self.clone(), program.clone());
        let pipeline = Pipeline { backend, generation, program, compiled, kernels: Default::default() };
        pipeline.kernel(&queue, &Stop::new(config, Instant::now()))?;
        Ok(Some(Arc::new(pipeline)))
    }

    fn pipeline_cache_snapshot(&self) -> Option<PipelineCacheSnapshot> {
        Some(self.shared.kernels.snapshot())
    }

    fn backend_metric_snapshot(&self) -> Vec<(&'static str, u64)> {
        let (allocations, bytes) = self.resident().usage();
        let mut metrics = vec![
            ("dispatches", self.shared.dispatches.load(Ordering::Relaxed)),
            ("resident_allocations", allocations),
            ("resident_bytes", bytes),
        ];
        metrics.extend(self.queue().iter().flat_map(|queue| queue.metrics()));
        metrics
    }

    fn supports_subgroup_ops(&self) -> bool {
        self.about().profile.supports_subgroup_ops
    }

    fn supports_f16(&self) -> bool {
        self.about().profile.supports_f16
    }

    fn supports_bf16(&self) -> bool {
        self.about().profile.supports_bf16
    }

    fn supports_tensor_cores(&self) -> bool {
        self.about().profile.supports_tensor_cores
    }

    fn supports_async_compute(&self) -> bool {
        self.about().async_compute
    }

    fn supports_indirect_dispatch(&self) -> bool {
        self.about().profile.supports_indirect_dispatch
    }

    fn supports_grid_sync(&self) -> bool {
        self.about().grid_sync
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
        if !self.about().grid_sync || !admission.program.facts().has_grid_sync {
            return Ok(false);
        }
        let (queue, stop) = (self.queue()?, Stop::new(config, Instant::now()));
        let compile = || self.kernel(&queue, &admission.program, &stop);
        run::whole(self, &*queue, &admission, compile).map(|kernel| kernel.is_some())
    }

    fn max_workgroup_size(&self) -> [u32; 3] {
        self.about().profile.max_workgroup_size
    }

    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        self.about().workgroups_max
    }

    fn max_compute_invocations_per_workgroup(&self) -> u32 {
        self.about().profile.max_invocations_per_workgroup
    }

    fn subgroup_size(&self) -> Option<u32> {
        Some(self.about().profile.subgroup_size).filter(|size| *size > 0)
    }

    fn max_storage_buffer_bytes(&self) -> u64 {
        self.about().profile.max_storage_buffer_binding_size
    }

    fn device_profile(&self) -> DeviceProfile {
        self.about().profile.clone()
    }

    fn notes(&self) -> Vec<(&'static str, String)> {
        self.queue().map_or_else(|_| Vec::new(), |queue| queue.notes())
    }

    fn shutdown(&self) -> Result<(), BackendError> {
        let queue = self.shared.queue.write().unwrap_or_else(PoisonError::into_inner).take();
        self.resident().lose_all();
        self.shared.kernels.clear();
        drop(queue);
        Ok(())
    }

    fn device_lost(&self) -> bool {
        let queue = self.shared.queue.read().unwrap_or_else(PoisonError::into_inner);
        queue.as_ref().is_some_and(|queue| queue.is_lost())
    }

    fn try_recover(&self) -> Result<(), BackendError> {
        let mut queue = self.shared.queue.write().unwrap_or_else(PoisonError::into_inner);
        let Some(old) = queue.as_ref() else {
            return Err(BackendError::ShutDown { backend: self.about().id.to_owned() });
        };
        let new = old.reopen()?;
        // Invalidate first: whoever sees the device healthy again also sees the new generation.
        self.shared.generation.fetch_add(1, Ordering::AcqRel);
        self.resident().lose_all();
        self.shared.kernels.clear();
        *queue = Some(Arc::new(new));
        Ok(())
    }
}
