//! The frozen trait between programs and devices.
//!
//! Two methods are required; every other one has a default that claims nothing, so a backend overrides only what it
//! does better, and a method added later breaks no one. The defaults that do more than say "no" are one call each into
//! `defaults.rs`, where they can be read and tested on their own.
//!
//! Not here: admission (validity, limits, bindings, grid). Routing and our own drivers call
//! [`admit`](crate::admission::admit) first; the trait's defaults never do.

use crate::config::DispatchConfig;
use crate::defaults;
use crate::error::BackendError;
use crate::pipeline::PipelineCacheSnapshot;
use crate::profile::DeviceProfile;
use crate::types::{
    CompiledPipeline, DeviceBuffer, OutputBuffers, PendingDispatch, ResidentDispatchStep, ResidentReadRange,
    ResidentSequenceTiming, Resource, TimedDispatchResult, default_supported_ops, unsupported,
};
use std::collections::HashSet;
use std::sync::Arc;
use vyre_foundation::ir::{OpId, Program};

/// The seal. A crate that is a backend turns on the feature `external-backend` and writes
/// `impl vyre_driver::backend::private::Sealed for MyBackend {}`.
#[cfg(feature = "external-backend")]
pub mod private {
    /// Marks a type that means to be a backend.
    pub trait Sealed {}
}

#[cfg(not(feature = "external-backend"))]
pub(crate) mod private {
    pub trait Sealed {}
}

/// The feature name in errors about device buffers.
pub const DEVICE_BUFFER_FEATURE: &str = "device buffers";

/// A backend: a pure function from a valid program and input bytes to output bytes, the reference's bytes on success and
/// an error with a `Fix:` otherwise.
pub trait VyreBackend: private::Sealed + Send + Sync {
    // Identity

    /// The id, unique among the backends linked into a process.
    #[must_use]
    fn id(&self) -> &'static str;

    /// The version, part of every cache key.
    #[must_use]
    fn version(&self) -> &'static str {
        "unspecified"
    }

    /// The device it runs on, as people call it; certificates name it.
    #[must_use]
    fn device_name(&self) -> &str {
        "unspecified"
    }

    /// The device's driver and its version; certificates name it.
    #[must_use]
    fn driver_name(&self) -> &str {
        "unspecified"
    }

    /// The ops it executes.
    #[must_use]
    fn supported_ops(&self) -> &HashSet<OpId> {
        default_supported_ops()
    }

    // Dispatch

    /// Runs a program on inputs and returns its outputs, both in binding order.
    fn dispatch(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError>;

    /// [`dispatch`](VyreBackend::dispatch) on borrowed bytes; the default copies them once.
    fn dispatch_borrowed(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        defaults::dispatch_borrowed(self, program, inputs, config)
    }

    /// [`dispatch_borrowed`](VyreBackend::dispatch_borrowed) with its times; the default knows only the wall's.
    fn dispatch_borrowed_timed(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        defaults::dispatch_borrowed_timed(self, program, inputs, config)
    }

    /// [`dispatch_borrowed`](VyreBackend::dispatch_borrowed) into the caller's slots, reusing their storage.
    fn dispatch_borrowed_into(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
        outputs: &mut OutputBuffers,
    ) -> Result<(), BackendError> {
        defaults::dispatch_borrowed_into(self, program, inputs, config, outputs)
    }

    /// Starts a dispatch; the default runs it to its end and returns its errors at once.
    fn dispatch_async(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Box<dyn PendingDispatch>, BackendError> {
        defaults::dispatch_async(self, program, inputs, config)
    }

    /// Starts a dispatch on borrowed bytes; the handle never borrows them.
    fn dispatch_borrowed_async(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<Box<dyn PendingDispatch>, BackendError> {
        defaults::dispatch_borrowed_async(self, program, inputs, config)
    }

    // Resident resources

    /// Allocates device memory, zero at the start.
    fn allocate_resident(&self, byte_len: usize) -> Result<Resource, BackendError> {
        let _ = byte_len;
        unsupported(self, "resident buffer allocation")
    }

    /// Fills a whole allocation; the lengths must be equal.
    fn upload_resident(&self, resource: &Resource, bytes: &[u8]) -> Result<(), BackendError> {
        let _ = (resource, bytes);
        unsupported(self, "resident buffer upload")
    }

    /// Fills several allocations in one step. No default loops over single uploads: that would hide their cost.
    fn upload_resident_many(&self, uploads: &[(&Resource, &[u8])]) -> Result<(), BackendError> {
        let _ = uploads;
        unsupported(self, "resident buffer batch upload")
    }

    /// Fills a range inside an allocation.
    fn upload_resident_at(
        &self,
        resource: &Resource,
        dst_offset_bytes: usize,
        bytes: &[u8],
    ) -> Result<(), BackendError> {
        let _ = (resource, dst_offset_bytes, bytes);
        unsupported(self, "resident buffer ranged upload")
    }

    /// Fills several ranges in one step.
    fn upload_resident_at_many(&self, uploads: &[(&Resource, usize, &[u8])]) -> Result<(), BackendError> {
        let _ = uploads;
        unsupported(self, "resident buffer ranged batch upload")
    }

    /// Reads a whole allocation.
    fn download_resident(&self, resource: &Resource) -> Result<Vec<u8>, BackendError> {
        defaults::download_resident(self, resource)
    }

    /// Reads a whole allocation into `out`, which is cleared and reused.
    fn download_resident_into(&self, resource: &Resource, out: &mut Vec<u8>) -> Result<(), BackendError> {
        let _ = (resource, out);
        unsupported(self, "resident buffer download")
    }

    /// Reads a range of an allocation.
    fn download_resident_range(
        &self,
        resource: &Resource,
        byte_offset: usize,
        byte_len: usize,
    ) -> Result<Vec<u8>, BackendError> {
        defaults::download_resident_range(self, resource, byte_offset, byte_len)
    }

    /// Reads a range of an allocation into `out`, which is cleared and reused.
    fn download_resident_range_into(
        &self,
        resource: &Resource,
        byte_offset: usize,
        byte_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), BackendError> {
        let _ = (resource, byte_offset, byte_len, out);
        unsupported(self, "resident buffer ranged download")
    }

    /// Reads several ranges, one output each. The default reads one after the other; a device with a queue does it
    /// behind one synchronization.
    fn download_resident_ranges_into(
        &self,
        ranges: &[(&Resource, usize, usize)],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<(), BackendError> {
        defaults::download_resident_ranges_into(self, ranges, outputs)
    }

    /// Frees an allocation. Unknown handles, and those a dispatch still uses, are errors.
    fn free_resident(&self, resource: Resource) -> Result<(), BackendError> {
        let _ = resource;
        unsupported(self, "resident buffer free")
    }

    /// How many bytes an allocation has. The default downloads it to count them; a backend with a table knows.
    fn resident_byte_len(&self, resource: &Resource) -> Result<usize, BackendError> {
        self.download_resident(resource).map(|bytes| bytes.len())
    }

    /// Says that an allocation's bytes are undefined until a full upload: the parts of a split program wrote it, and a
    /// later part failed. The default does nothing; a backend with a table refuses the handle meanwhile.
    fn invalidate_resident(&self, resource: &Resource) -> Result<(), BackendError> {
        let _ = resource;
        Ok(())
    }

    /// Runs a program on resources, one a bound buffer in binding order. What it writes stays on the device.
    fn dispatch_resident_timed(
        &self,
        program: &Program,
        resources: &[Resource],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        let _ = (program, resources, config);
        unsupported(self, "resident timed dispatch")
    }

    /// Runs steps in order, then reads ranges.
    fn dispatch_resident_sequence_read_ranges_into(
        &self,
        steps: &[ResidentDispatchStep<'_>],
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<(), BackendError> {
        defaults::sequence_read_ranges_into(self, steps, read_ranges, outputs)
    }

    /// Runs steps in order, then reads ranges, and sums the steps' times.
    fn dispatch_resident_sequence_read_ranges_timed_into(
        &self,
        steps: &[ResidentDispatchStep<'_>],
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<ResidentSequenceTiming, BackendError> {
        defaults::sequence_read_ranges_timed_into(self, steps, read_ranges, outputs)
    }

    /// Runs the prefix once and the repeated steps `repeat_count` times, then reads ranges. A device prepares the
    /// repeated steps once.
    fn dispatch_resident_repeated_sequence_read_ranges_into(
        &self,
        prefix_steps: &[ResidentDispatchStep<'_>],
        repeated_steps: &[ResidentDispatchStep<'_>],
        repeat_count: u32,
        read_ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<(), BackendError> {
        defaults::repeated_sequence_read_ranges_into(
            self,
            prefix_steps,
            repeated_steps,
            repeat_count,
            read_ranges,
            outputs,
        )
    }

    // Device buffers

    /// Allocates device memory behind a typed handle, zero at the start.
    fn allocate_device_buffer(&self, byte_len: usize) -> Result<Box<dyn DeviceBuffer>, BackendError> {
        let _ = byte_len;
        unsupported(self, DEVICE_BUFFER_FEATURE)
    }

    /// Fills a whole device buffer; the lengths must be equal.
    fn upload_device_buffer(&self, buffer: &mut dyn DeviceBuffer, bytes: &[u8]) -> Result<(), BackendError> {
        let _ = (buffer, bytes);
        unsupported(self, DEVICE_BUFFER_FEATURE)
    }

    /// Reads a whole device buffer.
    fn download_device_buffer(&self, buffer: &dyn DeviceBuffer) -> Result<Vec<u8>, BackendError> {
        let _ = buffer;
        unsupported(self, DEVICE_BUFFER_FEATURE)
    }

    /// Frees a device buffer.
    fn free_device_buffer(&self, buffer: Box<dyn DeviceBuffer>) -> Result<(), BackendError> {
        let _ = buffer;
        unsupported(self, DEVICE_BUFFER_FEATURE)
    }

    /// Runs a program on device buffers: `inputs` fill the bound buffers that are not outputs, `outputs` those that
    /// are, each in binding order.
    fn dispatch_with_device_buffers(
        &self,
        program: &Program,
        inputs: &[&dyn DeviceBuffer],
        outputs: &mut [&mut dyn DeviceBuffer],
        config: &DispatchConfig,
    ) -> Result<(), BackendError> {
        let _ = (program, inputs, outputs, config);
        unsupported(self, DEVICE_BUFFER_FEATURE)
    }

    // Pipelines and telemetry

    /// Compiles a program for repeated dispatch; `Ok(None)` lets the framework wrap the backend instead.
    fn compile_native(
        &self,
        program: &Program,
        config: &DispatchConfig,
    ) -> Result<Option<Arc<dyn CompiledPipeline>>, BackendError> {
        let _ = (program, config);
        Ok(None)
    }

    /// [`compile_native`](VyreBackend::compile_native) of a program that the pipeline may keep.
    fn compile_native_shared(
        &self,
        program: Arc<Program>,
        config: &DispatchConfig,
    ) -> Result<Option<Arc<dyn CompiledPipeline>>, BackendError> {
        self.compile_native(&program, config)
    }

    /// The pipeline cache's real hits and misses; `None` if they are not counted.
    #[must_use]
    fn pipeline_cache_snapshot(&self) -> Option<PipelineCacheSnapshot> {
        None
    }

    /// The backend's own counters, by stable ASCII names.
    #[must_use]
    fn backend_metric_snapshot(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    // Capabilities. `true` promises that the lowering emits the native instruction and that this device has it.

    /// Whether subgroup ops are native.
    #[must_use]
    fn supports_subgroup_ops(&self) -> bool {
        false
    }

    /// Whether f16 arithmetic is native.
    #[must_use]
    fn supports_f16(&self) -> bool {
        false
    }

    /// Whether bf16 arithmetic is native.
    #[must_use]
    fn supports_bf16(&self) -> bool {
        false
    }

    /// Whether the tile product runs on matrix units.
    #[must_use]
    fn supports_tensor_cores(&self) -> bool {
        false
    }

    /// Whether dispatches overlap with transfers and the caller.
    #[must_use]
    fn supports_async_compute(&self) -> bool {
        false
    }

    /// Whether `Node::IndirectDispatch` reads its grid on the device.
    #[must_use]
    fn supports_indirect_dispatch(&self) -> bool {
        false
    }

    /// Whether a prefilter and a confirmer run fused, with output gated by commit and a counter tail for the host.
    #[must_use]
    fn supports_speculation(&self) -> bool {
        false
    }

    /// Whether a long-running kernel can poll a work queue.
    #[must_use]
    fn supports_persistent_thread_dispatch(&self) -> bool {
        false
    }

    /// Whether a grid barrier runs inside one dispatch.
    #[must_use]
    fn supports_grid_sync(&self) -> bool {
        false
    }

    /// Whether resident dispatch is there.
    #[must_use]
    fn supports_resident_dispatch(&self) -> bool {
        false
    }

    /// Whether it spans several nodes.
    #[must_use]
    fn is_distributed(&self) -> bool {
        false
    }

    /// Whether collectives run among several ranks.
    #[must_use]
    fn supports_distributed_collectives(&self) -> bool {
        false
    }

    /// Whether a program with grid barriers may be split into several launches by the host.
    #[must_use]
    fn allows_host_grid_sync_split(&self) -> bool {
        true
    }

    /// Whether every workgroup of this launch can be resident at once; `Ok(false)` for one without a grid barrier.
    fn cooperative_grid_sync_fits(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<bool, BackendError> {
        let _ = (program, inputs, config);
        Ok(false)
    }

    /// Lanes of a workgroup along each axis.
    #[must_use]
    fn max_workgroup_size(&self) -> [u32; 3] {
        [1, 1, 1]
    }

    /// Workgroups along each axis of a grid.
    #[must_use]
    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        1
    }

    /// Lanes of a workgroup in all.
    #[must_use]
    fn max_compute_invocations_per_workgroup(&self) -> u32 {
        defaults::invocations(self.max_workgroup_size())
    }

    /// The hardware subgroup's width, if known.
    #[must_use]
    fn subgroup_size(&self) -> Option<u32> {
        None
    }

    /// Bytes of one storage buffer; 0 if not reported.
    #[must_use]
    fn max_storage_buffer_bytes(&self) -> u64 {
        0
    }

    /// All of the above in one value.
    #[must_use]
    fn device_profile(&self) -> DeviceProfile {
        defaults::device_profile(self)
    }

    // Lifecycle

    /// Makes ready for the first dispatch of a new program.
    fn prepare(&self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Further facts about the device for people: a name for each, and its text.
    fn notes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Submits what is pending and waits for it.
    fn flush(&self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Releases the device; a later dispatch is an error.
    fn shutdown(&self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Whether the device is gone.
    #[must_use]
    fn device_lost(&self) -> bool {
        false
    }

    /// Opens the device anew and invalidates every pipeline handed out before.
    fn try_recover(&self) -> Result<(), BackendError> {
        unsupported(self, "device recovery")
    }

    #[doc(hidden)]
    fn __vyre_backend_sealed(&self) {}
}
