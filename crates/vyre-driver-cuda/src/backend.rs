//! The driver contract, as the CUDA driver keeps it.

use crate::device::{CudaBackend, ID};
use crate::launch;
use crate::memory::Memory;
use std::sync::atomic::Ordering;
use vyre_driver::admission::admit;
use vyre_driver::backend::private::Sealed;
use vyre_driver::pipeline::PipelineCacheSnapshot;
use vyre_driver::{
    BackendError, DeviceProfile, DeviceTimingQuality, DispatchConfig, Resource, TimedDispatchResult,
    VyreBackend,
};
use vyre_foundation::ir::Program;
use vyre_foundation::limits;

impl Sealed for CudaBackend {}

impl VyreBackend for CudaBackend {
    fn id(&self) -> &'static str {
        ID
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
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
        launch::dispatch(self, program, inputs, config).map(|timed| timed.outputs)
    }

    fn dispatch_borrowed_timed(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        launch::dispatch(self, program, inputs, config)
    }

    fn allocate_resident(&self, byte_len: usize) -> Result<Resource, BackendError> {
        self.device.enter()?;
        Ok(self.device.resident.insert(byte_len, Memory::zeroed(&self.device, byte_len)?))
    }

    fn upload_resident(&self, resource: &Resource, bytes: &[u8]) -> Result<(), BackendError> {
        self.device.enter()?;
        let pinned = self.device.resident.pin(resource)?;
        pinned.check_full(bytes.len())?;
        pinned.memory().write(&self.device, 0, bytes)?;
        pinned.revalidate();
        Ok(())
    }

    fn upload_resident_at(
        &self,
        resource: &Resource,
        dst_offset_bytes: usize,
        bytes: &[u8],
    ) -> Result<(), BackendError> {
        self.device.enter()?;
        let pinned = self.device.resident.pin_defined(resource)?;
        pinned.check_range(dst_offset_bytes, bytes.len())?;
        pinned.memory().write(&self.device, dst_offset_bytes, bytes)
    }

    fn download_resident_into(&self, resource: &Resource, out: &mut Vec<u8>) -> Result<(), BackendError> {
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
        self.device.enter()?;
        let pinned = self.device.resident.pin_defined(resource)?;
        pinned.check_range(byte_offset, byte_len)?;
        out.clear();
        out.resize(byte_len, 0);
        pinned.memory().read(&self.device, byte_offset, out)
    }

    fn free_resident(&self, resource: Resource) -> Result<(), BackendError> {
        self.device.enter()?;
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
        launch::dispatch_resident(self, program, resources, config)
    }

    fn pipeline_cache_snapshot(&self) -> Option<PipelineCacheSnapshot> {
        Some(self.device.kernels.snapshot())
    }

    fn backend_metric_snapshot(&self) -> Vec<(&'static str, u64)> {
        let (allocations, bytes) = self.device.resident.usage();
        vec![
            ("dispatches", self.device.dispatches.load(Ordering::Relaxed)),
            ("resident_allocations", allocations),
            ("resident_bytes", bytes),
        ]
    }

    fn supports_subgroup_ops(&self) -> bool {
        true
    }

    fn supports_f16(&self) -> bool {
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
        if !admission.program.has_grid_sync {
            return Ok(false);
        }
        launch::fits(self, &admission, config)
    }

    fn max_workgroup_size(&self) -> [u32; 3] {
        let facts = &self.device.facts;
        [0, 1, 2].map(|axis| facts.axes_max[axis].min(limits::WORKGROUP_AXIS_MAX[axis]))
    }

    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        65_535
    }

    fn max_compute_invocations_per_workgroup(&self) -> u32 {
        self.device.facts.lanes_max.min(limits::WORKGROUP_LANES_MAX)
    }

    fn subgroup_size(&self) -> Option<u32> {
        Some(32)
    }

    fn max_storage_buffer_bytes(&self) -> u64 {
        self.device.facts.memory_bytes
    }

    fn device_profile(&self) -> DeviceProfile {
        let facts = &self.device.facts;
        DeviceProfile {
            supports_subgroup_ops: true,
            supports_f16: true,
            supports_trap_propagation: true,
            has_mul_high: true,
            has_subgroup_shuffle: true,
            has_shared_memory: true,
            max_native_int_width: 64,
            max_workgroup_size: self.max_workgroup_size(),
            max_invocations_per_workgroup: self.max_compute_invocations_per_workgroup(),
            max_shared_memory_bytes: facts.shared_bytes_max,
            max_storage_buffer_binding_size: self.max_storage_buffer_bytes(),
            subgroup_size: 32,
            compute_units: facts.compute_units,
            l2_cache_bytes: facts.l2_bytes,
            timing_quality: DeviceTimingQuality::DeviceEvents,
            supports_device_timestamps: true,
            shared_memory_bank_count: 32,
            shared_memory_bank_width_bytes: 4,
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
}
