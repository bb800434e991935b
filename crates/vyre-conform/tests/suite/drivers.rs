//! Every procedure of the driver contract finds the faults that it tests for.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use vyre_conform::ConformanceSuite;
use vyre_driver::backend::private::Sealed;
use vyre_driver::{
    BackendError, CompiledPipeline, DeviceBuffer, DeviceProfile, DispatchConfig, ErrorCode, OutputBuffers,
    PendingDispatch, ResidentDispatchStep, ResidentReadRange, Resource, TimedDispatchResult, VyreBackend,
};
use vyre_driver_reference::ReferenceBackend;
use vyre_foundation::ir::{MemoryOrdering, Node, Program, ProgramParts};

/// What a driver does wrong, and the procedure that finds it.
const FAULTS: [(&str, &str); 32] = [
    ("the id changes", "identity"),
    ("the profile claims f16", "profile"),
    ("collectives on one node", "profile"),
    ("flush fails", "lifecycle"),
    ("counters change their names", "telemetry"),
    ("an async dispatch gives the last outputs", "dispatch"),
    ("a timed dispatch waits longer than it takes", "dispatch"),
    ("every tenth dispatch is skipped", "dispatch"),
    ("slots are appended", "slots"),
    ("slots keep stale bytes", "slots"),
    ("slots are replaced", "slots"),
    ("outputs ignore their inputs", "sizes"),
    ("missing inputs are made up", "refusals"),
    ("errors have no fix", "refusals"),
    ("the workgroup override is ignored", "workgroup-override"),
    ("a trap is a success", "traps"),
    ("what time cuts off is a success", "limits-of-time"),
    ("threads share one buffer", "threads"),
    ("a pipeline repeats its first result", "pipelines"),
    ("a pipeline drops a batch's last", "pipelines"),
    ("memory starts dirty", "resident"),
    ("uploads into ranges are shifted", "resident"),
    ("resident dispatch is only claimed", "resident"),
    ("freeing twice is fine", "resident-faults"),
    ("binding twice is fine", "resident-faults"),
    ("a trap leaves memory readable", "resident-faults"),
    ("sequences run backwards", "sequences"),
    ("one repetition too few", "sequences"),
    ("device buffers are longer", "device-buffers"),
    ("grid barriers are workgroup barriers", "grid-sync"),
    ("any program fits a grid barrier", "grid-sync"),
    ("an indirect grid is at least one", "indirect"),
];

/// The reference driver with one fault.
struct Wrong {
    inner: ReferenceBackend,
    fault: &'static str,
    calls: AtomicU32,
    last: Mutex<OutputBuffers>,
}

impl Wrong {
    fn does(&self, fault: &str) -> bool {
        self.fault == fault
    }

    fn call(&self) -> u32 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    fn remember(&self, outputs: OutputBuffers) -> OutputBuffers {
        std::mem::replace(&mut self.last.lock().unwrap(), outputs)
    }
}

/// The program with its grid barriers made weaker.
fn weaker(program: &Program) -> Program {
    fn go(block: &mut Vec<Node>) {
        for node in block {
            if let Node::Barrier { ordering } = node {
                *ordering = MemoryOrdering::Workgroup;
            }
            node.blocks_mut().for_each(go);
        }
    }
    let mut parts: ProgramParts = program.parts().clone();
    go(&mut parts.body.block);
    Program::new(parts).unwrap()
}

/// What a launch of no lanes would give.
fn untouched(
    program: &Program,
    inputs: &[Vec<u8>],
    inner: &ReferenceBackend,
) -> Result<OutputBuffers, BackendError> {
    inner.dispatch(
        program,
        inputs,
        &DispatchConfig { grid_override: Some([0, 1, 1]), ..DispatchConfig::default() },
    )
}

impl Sealed for Wrong {}

impl VyreBackend for Wrong {
    fn id(&self) -> &'static str {
        if self.does("the id changes") && self.call() % 2 == 1 { "other" } else { self.inner.id() }
    }

    fn dispatch(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<OutputBuffers, BackendError> {
        let (mut program, mut inputs, mut config) = (program.clone(), inputs.to_vec(), config.clone());
        if self.does("the workgroup override is ignored") {
            config.workgroup_override = None;
        }
        if self.does("grid barriers are workgroup barriers") {
            program = weaker(&program);
        }
        if self.does("missing inputs are made up") && inputs.is_empty() {
            inputs = vec![vec![0; 4]; 3];
        }
        if self.does("outputs ignore their inputs")
            && let Some(last) = inputs.get_mut(2)
        {
            last.fill(0);
        }
        if self.does("an indirect grid is at least one")
            && program.name() == "indirect"
            && inputs[0].len() >= 16
        {
            for count in inputs[0][4..16].chunks_mut(4) {
                count[0] = count[0].max(1);
            }
        }
        if self.does("every tenth dispatch is skipped") && self.call() % 10 == 9 {
            return untouched(&program, &inputs, &self.inner);
        }
        if self.does("threads share one buffer") {
            *self.last.lock().unwrap() = inputs;
            std::thread::sleep(std::time::Duration::from_millis(1));
            inputs = self.last.lock().unwrap().clone();
        }
        match self.inner.dispatch(&program, &inputs, &config) {
            Err(BackendError::Trap { .. }) if self.does("a trap is a success") => {
                untouched(&program, &inputs, &self.inner)
            }
            Err(error)
                if self.does("what time cuts off is a success")
                    && [ErrorCode::Timeout, ErrorCode::Cancelled].contains(&error.code()) =>
            {
                untouched(&program, &inputs, &self.inner)
            }
            Err(_) if self.does("errors have no fix") => Err(BackendError::new("it failed".into())),
            other => other,
        }
    }

    fn dispatch_borrowed_timed(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        let owned: Vec<Vec<u8>> = inputs.iter().map(|input| input.to_vec()).collect();
        let outputs = self.dispatch(program, &owned, config)?;
        let wait_ns = self.does("a timed dispatch waits longer than it takes").then_some(u64::MAX);
        Ok(TimedDispatchResult { outputs, wall_ns: 1000, wait_ns, ..TimedDispatchResult::default() })
    }

    fn dispatch_borrowed_into(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
        outputs: &mut OutputBuffers,
    ) -> Result<(), BackendError> {
        let results = self.dispatch_borrowed(program, inputs, config)?;
        match self.fault {
            "slots are appended" => outputs.extend(results),
            "slots are replaced" => *outputs = results,
            "slots keep stale bytes" => {
                outputs.resize(results.len(), Vec::new());
                for (slot, result) in outputs.iter_mut().zip(results) {
                    slot.resize(slot.len().max(result.len()), 0);
                    slot[..result.len()].copy_from_slice(&result);
                }
            }
            _ => vyre_driver::observability::fill_output_slots(results, outputs),
        }
        Ok(())
    }

    fn dispatch_async(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Box<dyn PendingDispatch>, BackendError> {
        let outputs = self.dispatch(program, inputs, config)?;
        let stale = self.does("an async dispatch gives the last outputs");
        Ok(Box::new(Ready(if stale { self.remember(outputs) } else { outputs })))
    }

    fn allocate_resident(&self, byte_len: usize) -> Result<Resource, BackendError> {
        if self.does("resident dispatch is only claimed") {
            let name = "resident buffer allocation".into();
            return Err(BackendError::UnsupportedFeature { name, backend: self.id().into() });
        }
        let resource = self.inner.allocate_resident(byte_len)?;
        if self.does("memory starts dirty") {
            self.inner.upload_resident(&resource, &vec![0xcd; byte_len])?;
        }
        Ok(resource)
    }

    fn upload_resident(&self, resource: &Resource, bytes: &[u8]) -> Result<(), BackendError> {
        self.inner.upload_resident(resource, bytes)
    }

    fn upload_resident_many(&self, uploads: &[(&Resource, &[u8])]) -> Result<(), BackendError> {
        self.inner.upload_resident_many(uploads)
    }

    fn upload_resident_at(
        &self,
        resource: &Resource,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), BackendError> {
        let shift = usize::from(self.does("uploads into ranges are shifted"));
        self.inner.upload_resident_at(resource, offset + shift, bytes)
    }

    fn upload_resident_at_many(&self, uploads: &[(&Resource, usize, &[u8])]) -> Result<(), BackendError> {
        self.inner.upload_resident_at_many(uploads)
    }

    fn download_resident_into(&self, resource: &Resource, out: &mut Vec<u8>) -> Result<(), BackendError> {
        let result = self.inner.download_resident_into(resource, out);
        if result.is_err() && self.does("a trap leaves memory readable") { Ok(()) } else { result }
    }

    fn download_resident_range_into(
        &self,
        resource: &Resource,
        offset: usize,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), BackendError> {
        self.inner.download_resident_range_into(resource, offset, len, out)
    }

    fn free_resident(&self, resource: Resource) -> Result<(), BackendError> {
        let result = self.inner.free_resident(resource);
        if self.does("freeing twice is fine") { Ok(()) } else { result }
    }

    fn dispatch_resident_timed(
        &self,
        program: &Program,
        resources: &[Resource],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        let result = self.inner.dispatch_resident_timed(program, resources, config);
        match result {
            Err(BackendError::BadHandle { .. }) if self.does("binding twice is fine") => {
                Ok(TimedDispatchResult::default())
            }
            other => other,
        }
    }

    fn dispatch_resident_sequence_read_ranges_into(
        &self,
        steps: &[ResidentDispatchStep<'_>],
        ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<(), BackendError> {
        let mut steps = steps.to_vec();
        if self.does("sequences run backwards") {
            // The first and the last are the same program, so the middle one moves to the front.
            steps.rotate_left(1);
        }
        self.inner.dispatch_resident_sequence_read_ranges_into(&steps, ranges, outputs)
    }

    fn dispatch_resident_repeated_sequence_read_ranges_into(
        &self,
        prefix: &[ResidentDispatchStep<'_>],
        repeated: &[ResidentDispatchStep<'_>],
        count: u32,
        ranges: &[ResidentReadRange<'_>],
        outputs: &mut [&mut Vec<u8>],
    ) -> Result<(), BackendError> {
        let fewer = u32::from(self.does("one repetition too few"));
        let count = count.saturating_sub(fewer);
        self.inner
            .dispatch_resident_repeated_sequence_read_ranges_into(prefix, repeated, count, ranges, outputs)
    }

    fn allocate_device_buffer(&self, byte_len: usize) -> Result<Box<dyn DeviceBuffer>, BackendError> {
        self.inner.allocate_device_buffer(byte_len + usize::from(self.does("device buffers are longer")))
    }

    fn upload_device_buffer(&self, buffer: &mut dyn DeviceBuffer, bytes: &[u8]) -> Result<(), BackendError> {
        self.inner.upload_device_buffer(buffer, bytes)
    }

    fn download_device_buffer(&self, buffer: &dyn DeviceBuffer) -> Result<Vec<u8>, BackendError> {
        self.inner.download_device_buffer(buffer)
    }

    fn free_device_buffer(&self, buffer: Box<dyn DeviceBuffer>) -> Result<(), BackendError> {
        self.inner.free_device_buffer(buffer)
    }

    fn dispatch_with_device_buffers(
        &self,
        program: &Program,
        inputs: &[&dyn DeviceBuffer],
        outputs: &mut [&mut dyn DeviceBuffer],
        config: &DispatchConfig,
    ) -> Result<(), BackendError> {
        self.inner.dispatch_with_device_buffers(program, inputs, outputs, config)
    }

    fn compile_native(
        &self,
        program: &Program,
        config: &DispatchConfig,
    ) -> Result<Option<Arc<dyn CompiledPipeline>>, BackendError> {
        let inner = self.inner.compile_native(program, config)?;
        let repeats = self.does("a pipeline repeats its first result");
        let drops = self.does("a pipeline drops a batch's last");
        let wrap = |inner| -> Arc<dyn CompiledPipeline> {
            Arc::new(WrongPipeline { inner, repeats, drops, first: Mutex::default() })
        };
        Ok(inner.map(wrap))
    }

    fn backend_metric_snapshot(&self) -> Vec<(&'static str, u64)> {
        let changes = self.does("counters change their names") && self.call() % 2 == 1;
        vec![(if changes { "other" } else { "dispatches" }, 1)]
    }

    fn supports_grid_sync(&self) -> bool {
        true
    }

    fn supports_resident_dispatch(&self) -> bool {
        true
    }

    fn supports_distributed_collectives(&self) -> bool {
        self.does("collectives on one node")
    }

    fn cooperative_grid_sync_fits(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<bool, BackendError> {
        match self.does("any program fits a grid barrier") {
            true => Ok(true),
            false => self.inner.cooperative_grid_sync_fits(program, inputs, config),
        }
    }

    fn max_workgroup_size(&self) -> [u32; 3] {
        self.inner.max_workgroup_size()
    }

    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        self.inner.max_compute_workgroups_per_dimension()
    }

    fn max_compute_invocations_per_workgroup(&self) -> u32 {
        self.inner.max_compute_invocations_per_workgroup()
    }

    fn max_storage_buffer_bytes(&self) -> u64 {
        self.inner.max_storage_buffer_bytes()
    }

    fn device_profile(&self) -> DeviceProfile {
        DeviceProfile {
            supports_f16: self.does("the profile claims f16"),
            supports_distributed_collectives: self.supports_distributed_collectives(),
            supports_indirect_dispatch: false,
            ..self.inner.device_profile()
        }
    }

    fn flush(&self) -> Result<(), BackendError> {
        match self.does("flush fails") {
            true => Err(BackendError::new("nothing to flush. Fix: dispatch first".into())),
            false => Ok(()),
        }
    }
}

struct Ready(OutputBuffers);

impl PendingDispatch for Ready {
    fn is_ready(&self) -> bool {
        true
    }

    fn await_result(self: Box<Self>) -> Result<OutputBuffers, BackendError> {
        Ok(self.0)
    }
}

struct WrongPipeline {
    inner: Arc<dyn CompiledPipeline>,
    repeats: bool,
    drops: bool,
    first: Mutex<Option<OutputBuffers>>,
}

impl CompiledPipeline for WrongPipeline {
    fn program(&self) -> &Program {
        self.inner.program()
    }

    fn dispatch(&self, inputs: &[&[u8]], config: &DispatchConfig) -> Result<OutputBuffers, BackendError> {
        let outputs = self.inner.dispatch(inputs, config)?;
        match self.repeats {
            true => Ok(self.first.lock().unwrap().get_or_insert(outputs).clone()),
            false => Ok(outputs),
        }
    }

    fn dispatch_batch(
        &self,
        batch: &[&[&[u8]]],
        config: &DispatchConfig,
    ) -> Result<Vec<OutputBuffers>, BackendError> {
        let mut results = self.inner.dispatch_batch(batch, config)?;
        results.truncate(batch.len() - usize::from(self.drops));
        Ok(results)
    }
}

/// The procedures that find something wrong with a driver.
fn found(fault: &'static str) -> Vec<String> {
    let driver =
        Wrong { inner: ReferenceBackend::default(), fault, calls: AtomicU32::new(0), last: Mutex::default() };
    let report = ConformanceSuite::quick().matching("driver/").nonce([1; 32]).run_driver(&driver);
    let failures = report.failures.iter().inspect(|failure| assert!(!failure.message.is_empty()));
    failures.map(|failure| failure.case.trim_start_matches("driver/").to_owned()).collect()
}

#[test]
fn a_driver_without_faults_passes() {
    assert_eq!(found("none"), Vec::<String>::new());
}

#[test]
fn every_fault_is_found_where_it_should_be() {
    for (fault, procedure) in FAULTS {
        let found = found(fault);
        assert!(
            found.iter().any(|name| name == procedure),
            "`{fault}`: expected {procedure}, found {found:?}"
        );
    }
}

/// A driver that is nothing but the two methods that a driver must have.
struct Least(ReferenceBackend);

impl Sealed for Least {}

impl VyreBackend for Least {
    fn id(&self) -> &'static str {
        "least"
    }

    fn dispatch(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<OutputBuffers, BackendError> {
        self.0.dispatch(program, inputs, config)
    }

    fn max_workgroup_size(&self) -> [u32; 3] {
        [256, 256, 64]
    }

    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        65_535
    }
}

#[test]
fn a_driver_may_lack_what_the_contract_lets_it_lack() {
    let report =
        ConformanceSuite::quick().matching("driver/").run_driver(&Least(ReferenceBackend::default()));
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
}
