//! A failure of the conformance suite is a file: `vyre test` runs its program and finds what the reference expects.

use vyre_conform::{ConformanceSuite, Convention, DispatchConfig, Profile, ReferenceBackend, VyreBackend};
use vyre_foundation::ir::{Block, ComputeOp, Node, Program};

/// The reference with `sub` where programs say `add`.
struct Subtracts;

impl VyreBackend for Subtracts {
    fn name(&self) -> &str {
        "subtracts"
    }

    fn max_convention(&self) -> Convention {
        ReferenceBackend.max_convention()
    }

    fn profile(&self) -> Profile {
        ReferenceBackend.profile()
    }

    fn dispatch(&self, _: &str, _: &[u8], _: usize, _: DispatchConfig) -> Result<Vec<u8>, String> {
        Err("this backend runs programs. Fix: call `dispatch_program`".into())
    }

    fn dispatch_program(
        &self,
        program: &[u8],
        input: &[u8],
        output_size: usize,
        config: DispatchConfig,
    ) -> Result<Vec<u8>, String> {
        fn subtract(block: &mut Block) {
            for node in block {
                if let Node::Compute { op, .. } = node
                    && *op == ComputeOp::Add
                {
                    *op = ComputeOp::Sub;
                }
                node.blocks_mut().for_each(subtract);
            }
        }
        let mut parts = Program::from_bytes(program)?.parts().clone();
        subtract(&mut parts.body.block);
        parts.functions.iter_mut().for_each(|function| subtract(&mut function.body.block));
        let wrong = Program::new(parts).map_err(|error| error.to_string())?;
        ReferenceBackend.dispatch_program(&wrong.to_bytes(), input, output_size, config)
    }
}

#[test]
fn a_failure_is_a_file_that_tests_itself() {
    for group in ["random/integer/1", "random/float/2", "op/f32/add", "op/i64/add", "kernel/"] {
        let suite = ConformanceSuite::quick().nonce([5; 32]).matching(group).stop_at_first_failure();
        let failures = suite.run(&Subtracts);
        let failure = failures.first().unwrap_or_else(|| panic!("{group} finds nothing"));
        let cases = vyre::filetest::test("failure.vyre", &failure.program, ".".as_ref());
        assert_eq!(cases.len(), 1, "one launch of {}:\n{failure}", failure.case);
        assert!(cases[0].passed(), "{:?}\n{failure}", cases[0]);
        assert!(failure.program.lines().count() <= 30, "{failure}");
        assert_eq!(failure.cause.code(), "wrong-op", "{failure}");
    }
}
