//! What a device is, as far as its backend knows.

/// How well a device's times are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceTimingQuality {
    /// Only the host's clock around a call.
    #[default]
    HostOnly,
    /// The device's own events or timestamps.
    DeviceEvents,
    /// The device's hardware counters.
    HardwareCounters,
}

/// A device's features, sizes and rates. What is not known is `false` or zero.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say what they hold; units are last.
pub struct DeviceProfile {
    pub backend: &'static str,
    pub supports_subgroup_ops: bool,
    pub supports_indirect_dispatch: bool,
    pub supports_distributed_collectives: bool,
    pub supports_specialization_constants: bool,
    pub supports_f16: bool,
    pub supports_bf16: bool,
    pub supports_trap_propagation: bool,
    pub supports_tensor_cores: bool,
    pub has_mul_high: bool,
    pub has_dual_issue_fp32_int32: bool,
    pub has_subgroup_shuffle: bool,
    pub has_shared_memory: bool,
    pub max_native_int_width: u32,
    pub max_workgroup_size: [u32; 3],
    pub max_invocations_per_workgroup: u32,
    pub max_shared_memory_bytes: u32,
    pub max_storage_buffer_binding_size: u64,
    pub subgroup_size: u32,
    pub compute_units: u32,
    pub regs_per_thread_max: u32,
    pub l1_cache_bytes: u32,
    pub l2_cache_bytes: u32,
    pub mem_bw_gbps: u32,
    pub timing_quality: DeviceTimingQuality,
    pub supports_device_timestamps: bool,
    pub supports_hardware_counters: bool,
    pub ideal_unroll_depth: u32,
    pub ideal_vector_pack_bits: u32,
    pub ideal_workgroup_tile: [u32; 3],
    pub shared_memory_bank_count: u32,
    pub shared_memory_bank_width_bytes: u32,
}

impl DeviceProfile {
    /// A profile that claims nothing beyond 32-bit integers.
    #[must_use]
    pub const fn unknown(backend: &'static str) -> DeviceProfile {
        DeviceProfile {
            backend,
            supports_subgroup_ops: false,
            supports_indirect_dispatch: false,
            supports_distributed_collectives: false,
            supports_specialization_constants: false,
            supports_f16: false,
            supports_bf16: false,
            supports_trap_propagation: false,
            supports_tensor_cores: false,
            has_mul_high: false,
            has_dual_issue_fp32_int32: false,
            has_subgroup_shuffle: false,
            has_shared_memory: false,
            max_native_int_width: 32,
            max_workgroup_size: [0; 3],
            max_invocations_per_workgroup: 0,
            max_shared_memory_bytes: 0,
            max_storage_buffer_binding_size: 0,
            subgroup_size: 0,
            compute_units: 0,
            regs_per_thread_max: 0,
            l1_cache_bytes: 0,
            l2_cache_bytes: 0,
            mem_bw_gbps: 0,
            timing_quality: DeviceTimingQuality::HostOnly,
            supports_device_timestamps: false,
            supports_hardware_counters: false,
            ideal_unroll_depth: 0,
            ideal_vector_pack_bits: 0,
            ideal_workgroup_tile: [0; 3],
            shared_memory_bank_count: 0,
            shared_memory_bank_width_bytes: 0,
        }
    }
}
