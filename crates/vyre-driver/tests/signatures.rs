//! Names every method of the contract with its exact signature: a change that would break a backend does not compile.

use std::collections::HashSet;
use std::sync::Arc;
use vyre_driver::pipeline::PipelineCacheSnapshot;
use vyre_driver::{
    BackendError, CompiledPipeline, DeviceBuffer, DeviceProfile, DeviceTimingQuality, DispatchConfig,
    ErrorCode, OutputBuffers, PendingDispatch, ResidentDispatchStep, ResidentReadRange,
    ResidentSequenceTiming, Resource, TimedDispatchResult, VyreBackend,
};
use vyre_foundation::ir::{DataType, MemoryOrdering, Node, OpId, Program};

type Done = Result<(), BackendError>;
type Outputs = Result<Vec<Vec<u8>>, BackendError>;
type Pending = Result<Box<dyn PendingDispatch>, BackendError>;
type Pipeline = Result<Option<Arc<dyn CompiledPipeline>>, BackendError>;
type Steps<'a> = &'a [ResidentDispatchStep<'a>];
type Ranges<'a> = &'a [ResidentReadRange<'a>];
type Slots<'a> = &'a mut [&'a mut Vec<u8>];

#[allow(dead_code, clippy::type_complexity)]
fn methods<B: VyreBackend>() {
    let _: fn(&B) -> &'static str = B::id;
    let _: fn(&B) -> &'static str = B::version;
    let _: fn(&B) -> &str = B::device_name;
    let _: fn(&B) -> &str = B::driver_name;
    let _: fn(&B) -> &HashSet<OpId> = B::supported_ops;

    let _: fn(&B, &Program, &[Vec<u8>], &DispatchConfig) -> Outputs = B::dispatch;
    let _: fn(&B, &Program, &[&[u8]], &DispatchConfig) -> Outputs = B::dispatch_borrowed;
    let _: fn(&B, &Program, &[&[u8]], &DispatchConfig) -> Result<TimedDispatchResult, BackendError> =
        B::dispatch_borrowed_timed;
    let _: fn(&B, &Program, &[&[u8]], &DispatchConfig, &mut OutputBuffers) -> Done =
        B::dispatch_borrowed_into;
    let _: fn(&B, &Program, &[Vec<u8>], &DispatchConfig) -> Pending = B::dispatch_async;
    let _: fn(&B, &Program, &[&[u8]], &DispatchConfig) -> Pending = B::dispatch_borrowed_async;

    let _: fn(&B, usize) -> Result<Resource, BackendError> = B::allocate_resident;
    let _: fn(&B, &Resource, &[u8]) -> Done = B::upload_resident;
    let _: fn(&B, &[(&Resource, &[u8])]) -> Done = B::upload_resident_many;
    let _: fn(&B, &Resource, usize, &[u8]) -> Done = B::upload_resident_at;
    let _: fn(&B, &[(&Resource, usize, &[u8])]) -> Done = B::upload_resident_at_many;
    let _: fn(&B, &Resource) -> Result<Vec<u8>, BackendError> = B::download_resident;
    let _: fn(&B, &Resource, &mut Vec<u8>) -> Done = B::download_resident_into;
    let _: fn(&B, &Resource, usize, usize) -> Result<Vec<u8>, BackendError> = B::download_resident_range;
    let _: fn(&B, &Resource, usize, usize, &mut Vec<u8>) -> Done = B::download_resident_range_into;
    let _: fn(&B, &[(&Resource, usize, usize)], &mut [&mut Vec<u8>]) -> Done =
        B::download_resident_ranges_into;
    let _: fn(&B, Resource) -> Done = B::free_resident;
    let _: fn(&B, &Program, &[Resource], &DispatchConfig) -> Result<TimedDispatchResult, BackendError> =
        B::dispatch_resident_timed;
    let _: for<'a> fn(&B, Steps<'a>, Ranges<'a>, Slots<'a>) -> Done =
        B::dispatch_resident_sequence_read_ranges_into;
    let _: for<'a> fn(&B, Steps<'a>, Ranges<'a>, Slots<'a>) -> Result<ResidentSequenceTiming, BackendError> =
        B::dispatch_resident_sequence_read_ranges_timed_into;
    let _: for<'a> fn(&B, Steps<'a>, Steps<'a>, u32, Ranges<'a>, Slots<'a>) -> Done =
        B::dispatch_resident_repeated_sequence_read_ranges_into;

    let _: fn(&B, usize) -> Result<Box<dyn DeviceBuffer>, BackendError> = B::allocate_device_buffer;
    let _: fn(&B, &mut dyn DeviceBuffer, &[u8]) -> Done = B::upload_device_buffer;
    let _: fn(&B, &dyn DeviceBuffer) -> Result<Vec<u8>, BackendError> = B::download_device_buffer;
    let _: fn(&B, Box<dyn DeviceBuffer>) -> Done = B::free_device_buffer;
    let _: fn(&B, &Program, &[&dyn DeviceBuffer], &mut [&mut dyn DeviceBuffer], &DispatchConfig) -> Done =
        B::dispatch_with_device_buffers;

    let _: fn(&B, &Program, &DispatchConfig) -> Pipeline = B::compile_native;
    let _: fn(&B, Arc<Program>, &DispatchConfig) -> Pipeline = B::compile_native_shared;
    let _: fn(&B) -> Option<PipelineCacheSnapshot> = B::pipeline_cache_snapshot;
    let _: fn(&B) -> Vec<(&'static str, u64)> = B::backend_metric_snapshot;

    let _: [fn(&B) -> bool; 13] = [
        B::supports_subgroup_ops,
        B::supports_f16,
        B::supports_bf16,
        B::supports_tensor_cores,
        B::supports_async_compute,
        B::supports_indirect_dispatch,
        B::supports_speculation,
        B::supports_persistent_thread_dispatch,
        B::supports_grid_sync,
        B::supports_resident_dispatch,
        B::is_distributed,
        B::supports_distributed_collectives,
        B::allows_host_grid_sync_split,
    ];
    let _: fn(&B, &Program, &[&[u8]], &DispatchConfig) -> Result<bool, BackendError> =
        B::cooperative_grid_sync_fits;
    let _: fn(&B) -> [u32; 3] = B::max_workgroup_size;
    let _: fn(&B) -> u32 = B::max_compute_workgroups_per_dimension;
    let _: fn(&B) -> u32 = B::max_compute_invocations_per_workgroup;
    let _: fn(&B) -> Option<u32> = B::subgroup_size;
    let _: fn(&B) -> u64 = B::max_storage_buffer_bytes;
    let _: fn(&B) -> DeviceProfile = B::device_profile;

    let _: [fn(&B) -> Done; 4] = [B::prepare, B::flush, B::shutdown, B::try_recover];
    let _: fn(&B) -> bool = B::device_lost;
    let _: fn(&B) = B::__vyre_backend_sealed;
}

#[test]
fn the_data_types_have_the_fields_the_contract_names() {
    let DispatchConfig { grid_override, timeout, .. } = DispatchConfig::default();
    let _: (Option<[u32; 3]>, Option<std::time::Duration>) = (grid_override, timeout);

    let timed = TimedDispatchResult {
        outputs: vec![vec![1]],
        wall_ns: 1,
        device_ns: None,
        enqueue_ns: Some(1),
        wait_ns: None,
    };
    assert_eq!(timed.outputs, [[1]]);

    let timing = ResidentSequenceTiming { wall_ns: 0, device_ns: None, enqueue_ns: None, wait_ns: None };
    assert_eq!(timing, ResidentSequenceTiming::default());

    let program = Program::empty();
    let resource = Resource::Resident(7);
    let step = ResidentDispatchStep {
        program: &program,
        resources: std::slice::from_ref(&resource),
        grid_override: None,
    };
    let range = ResidentReadRange { resource: &resource, byte_offset: 0, byte_len: 4 };
    assert_eq!((step.resources[0].clone(), range.byte_len), (resource.clone(), 4));

    let DeviceProfile {
        backend,
        supports_subgroup_ops: _,
        supports_indirect_dispatch: _,
        supports_distributed_collectives: _,
        supports_specialization_constants: _,
        supports_f16: _,
        supports_bf16: _,
        supports_trap_propagation: _,
        supports_tensor_cores: _,
        has_mul_high: _,
        has_dual_issue_fp32_int32: _,
        has_subgroup_shuffle: _,
        has_shared_memory: _,
        max_native_int_width,
        max_workgroup_size: [_, _, _],
        max_invocations_per_workgroup: _,
        max_shared_memory_bytes: _,
        max_storage_buffer_binding_size,
        subgroup_size: _,
        compute_units: _,
        regs_per_thread_max: _,
        l1_cache_bytes: _,
        l2_cache_bytes: _,
        mem_bw_gbps: _,
        timing_quality,
        supports_device_timestamps: _,
        supports_hardware_counters: _,
        ideal_unroll_depth: _,
        ideal_vector_pack_bits: _,
        ideal_workgroup_tile: [_, _, _],
        shared_memory_bank_count: _,
        shared_memory_bank_width_bytes: _,
    } = DeviceProfile::unknown("none");
    let _: u64 = max_storage_buffer_binding_size;
    assert_eq!((backend, max_native_int_width, timing_quality), ("none", 32, DeviceTimingQuality::HostOnly));
}

#[test]
fn the_language_has_what_the_contract_names() {
    let _ = Node::Barrier { ordering: MemoryOrdering::GridSync };
    let _ = (DataType::F16, DataType::BF16);
    fn decode(bytes: &[u8]) -> Result<Program, String> {
        Ok(Program::from_bytes(bytes)?)
    }
    assert_eq!(decode(&Program::empty().to_bytes()), Ok(Program::empty()));
    assert!(decode(b"not a program").unwrap_err().contains("Fix:"));
}

#[test]
fn every_error_has_a_code_and_a_fix() {
    let errors = [
        (BackendError::InvalidProgram { fix: "correct it".into() }, ErrorCode::InvalidProgram),
        (
            BackendError::UnsupportedFeature { name: "f".into(), backend: "b".into() },
            ErrorCode::UnsupportedFeature,
        ),
        (
            BackendError::CooperativeResidencyExceeded { workgroups: 2, resident: 1 },
            ErrorCode::CooperativeResidencyExceeded,
        ),
        (BackendError::Cancelled, ErrorCode::Cancelled),
        (BackendError::new("it broke".into()), ErrorCode::Other),
        (BackendError::new("Fix: it broke".into()), ErrorCode::Other),
        (BackendError::other("it broke", "repair it"), ErrorCode::Other),
        (BackendError::compile_failed("b", "it broke"), ErrorCode::CompileFailed),
    ];
    for (error, code) in errors {
        assert_eq!(error.code(), code);
        assert_eq!(error.to_string().matches("Fix:").count(), 1, "{error}");
        assert!(!error.fix().is_empty(), "{error}");
    }
}
