//! What every test of an algorithm shares: backends, data, and the reference with its race checks.

use vyre_algorithms::{Plan, Role};
use vyre_driver::backend::private::Sealed;
use vyre_driver::{BackendError, DispatchConfig, VyreBackend};
use vyre_driver_cpu::{CpuBackend, CpuConfig};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::admit_buffers;
use vyre_foundation::validate::validate;
use vyre_reference::{FindingKind, Options, run_in_place};

/// This host's processor.
pub(crate) fn cpu() -> CpuBackend {
    vyre_driver_cpu::open(&CpuConfig::default()).expect("this host has a processor")
}

/// A backend that has nothing but `dispatch`, so that plans run without resident memory.
struct Plain(CpuBackend);

impl Sealed for Plain {}

impl VyreBackend for Plain {
    fn id(&self) -> &'static str {
        "plain"
    }

    fn dispatch(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        self.0.dispatch(program, inputs, config)
    }
}

/// Runs a plan on the interpreter, where a race is a failure. What is not an input starts with ones, so that nothing counts
/// on zeros.
pub(crate) fn reference(plan: &Plan, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut inputs = inputs.iter();
    let start = |buffer: &vyre_algorithms::Buffer| match &buffer.role {
        Role::Input => inputs.next().expect("an input for each").clone(),
        Role::Constant(bytes) => bytes.clone(),
        Role::Scratch | Role::Output => vec![0xff; buffer.byte_len],
    };
    let mut contents: Vec<Vec<u8>> = plan.buffers.iter().map(start).collect();
    for step in &plan.steps {
        let program = validate(&plan.programs[step.program]).unwrap_or_else(|errors| panic!("{errors:?}"));
        let mut bound: Vec<Vec<u8>> = step.buffers.iter().map(|at| contents[*at].clone()).collect();
        let options = Options { check: true, ..Options::default() };
        let admission = admit_buffers(&program, Some(step.grid), &bound).expect("it is admitted");
        let report = run_in_place(&admission, &mut bound, &options).expect("it runs");
        let race = report.findings.iter().find(|finding| finding.kind == FindingKind::Race);
        assert!(race.is_none(), "{}: {race:?}", program.parts().name);
        for (at, bytes) in step.buffers.iter().zip(bound) {
            contents[*at] = bytes;
        }
    }
    let outputs = plan.buffers.iter().zip(contents).filter(|(buffer, _)| buffer.role == Role::Output);
    outputs.map(|(_, bytes)| bytes).collect()
}

/// The plan with its programs for processors as those for every device, and without them.
fn both(plan: &Plan) -> [Plan; 2] {
    [true, false].map(|wanted| {
        let mut plan = plan.clone();
        for step in &mut plan.steps {
            if let Some((program, grid)) = step.on_processors.take().filter(|_| wanted) {
                (step.program, step.grid) = (program, grid);
            }
        }
        plan
    })
}

/// Runs a plan on the interpreter and on the CPU, with and without resident memory, with its programs for processors and
/// with the others; all must agree.
pub(crate) fn everywhere(plan: &Plan, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let expected = reference(plan, inputs);
    let borrowed: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let plain = Plain(cpu());
    for (at, plan) in both(plan).iter().enumerate() {
        assert!(reference(plan, inputs) == expected, "the programs differ: {at}");
        assert!(plan.run(&plain.0, &borrowed).expect("the CPU runs it") == expected, "the CPU differs: {at}");
        assert!(
            plan.run(&plain, &borrowed).expect("dispatches run it") == expected,
            "dispatches differ: {at}"
        );
    }
    expected
}

/// The `at`-th output of SplitMix64.
pub(crate) fn random(seed: u64, at: usize) -> u64 {
    let mut z = seed.wrapping_add((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
