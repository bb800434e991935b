//! The code of the public backend contract, as it is printed there, with a runtime filled in.
//!
//! `wgsl` and `native` are the two backends that the contract shows. That they compile is most of the test; the suite also
//! runs them. A runtime that executes WGSL on a device is `examples/vendor`.

use vyre_conform::{Cause, ConformanceSuite, Convention, VyreBackend};

#[allow(unreachable_pub)] // It is public where it is printed.
mod wgsl {
    use vyre_conform::{ConformanceSuite, Convention, DispatchConfig, VyreBackend};

    pub struct VendorRuntime;

    impl VendorRuntime {
        fn run_compute_shader(
            &self,
            wgsl: &str,
            _input: &[u8],
            output_size: usize,
            _workgroup_size: [u32; 3],
            _workgroup_count: [u32; 3],
            _lookup_data: Option<&[u8]>,
        ) -> Result<Vec<u8>, &'static str> {
            if wgsl.contains("@compute") { Ok(vec![0; output_size]) } else { Err("this is no shader") }
        }
    }

    pub struct VendorBackend {
        runtime: VendorRuntime,
    }

    impl VendorBackend {
        pub fn new(runtime: VendorRuntime) -> Self {
            Self { runtime }
        }
    }

    impl VyreBackend for VendorBackend {
        fn name(&self) -> &str {
            "vendor-runtime"
        }
        fn max_convention(&self) -> Convention {
            Convention::V1
        }
        fn dispatch(
            &self,
            wgsl: &str,
            input: &[u8],
            output_size: usize,
            config: DispatchConfig,
        ) -> Result<Vec<u8>, String> {
            let output = self.runtime.run_compute_shader(
                wgsl,
                input,
                output_size,
                config.workgroup_size,
                config.workgroup_count,
                config.lookup_data.as_deref(),
            ).map_err(|err| {
                format!(
                    "vendor dispatch failed: {err}. Fix: compile the supplied WGSL, bind input/output/params buffers according to the requested convention, dispatch the requested workgroups, and read back exactly {output_size} bytes."
                )
            })?;
            if output.len() != output_size {
                return Err(format!(
                    "vendor dispatch returned {} bytes, expected {output_size}. Fix: size the readback buffer from output_size and return no padding bytes.",
                    output.len()
                ));
            }
            Ok(output)
        }
    }

    pub fn certify(runtime: VendorRuntime) -> Result<(), Vec<vyre_conform::ParityFailure>> {
        let backend = VendorBackend::new(runtime);
        let suite = ConformanceSuite::new();
        let failures = suite.run(&backend);
        if failures.is_empty() { Ok(()) } else { Err(failures) }
    }
}

#[allow(unreachable_pub)] // It is public where it is printed.
mod native {
    use vyre_conform::{DispatchConfig, ReferenceBackend, VyreBackend};

    pub struct VendorRuntime;

    impl VendorRuntime {
        fn run_wgsl(
            &self,
            _wgsl: &str,
            _input: &[u8],
            _output_size: usize,
            _config: DispatchConfig,
        ) -> Result<Vec<u8>, &'static str> {
            Err("programs come as IR")
        }

        fn run_ir(
            &self,
            ir: vyre::ir::Program,
            input: &[u8],
            output_size: usize,
            config: DispatchConfig,
        ) -> Result<Vec<u8>, String> {
            ReferenceBackend.dispatch_program(&ir.to_bytes(), input, output_size, config)
        }
    }

    pub struct VendorBackend {
        pub runtime: VendorRuntime,
    }

    impl VyreBackend for VendorBackend {
        fn name(&self) -> &str {
            "vendor-runtime"
        }
        fn dispatch(
            &self,
            wgsl: &str,
            input: &[u8],
            output_size: usize,
            config: DispatchConfig,
        ) -> Result<Vec<u8>, String> {
            self.runtime.run_wgsl(wgsl, input, output_size, config).map_err(|err| {
                format!(
                    "vendor WGSL dispatch failed: {err}. Fix: compile the supplied WGSL or override dispatch_program for native IR tests."
                )
            })
        }
        fn dispatch_program(
            &self,
            program: &[u8],
            input: &[u8],
            output_size: usize,
            config: DispatchConfig,
        ) -> Result<Vec<u8>, String> {
            let ir = vyre::ir::Program::from_bytes(program)?;
            let output = self.runtime.run_ir(ir, input, output_size, config).map_err(|err| {
                format!(
                    "vendor IR dispatch failed: {err}. Fix: lower the serialized vyre IR to the native target, bind resources according to DispatchConfig, and read back exactly {output_size} bytes."
                )
            })?;
            if output.len() != output_size {
                return Err(format!(
                    "vendor IR dispatch returned {} bytes, expected {output_size}. Fix: size native output/readback storage from output_size.",
                    output.len()
                ));
            }
            Ok(output)
        }
    }
}

#[test]
fn the_native_backend_of_the_contract_passes() {
    let backend = native::VendorBackend { runtime: native::VendorRuntime };
    for group in ["op/u32", "op/trap", "kernel/", "lookup/"] {
        let report = ConformanceSuite::quick().matching(group).report(&backend);
        assert!(report.cases() > 0 && report.failures.is_empty(), "{group}: {:?}", report.failures.first());
    }
    assert_eq!(backend.max_convention(), Convention::V1, "the default");
}

#[test]
fn the_shader_backend_of_the_contract_is_judged() {
    let backend = wgsl::VendorBackend::new(wgsl::VendorRuntime);
    let failures = ConformanceSuite::quick().matching("op/u32/add").run(&backend);
    assert_eq!(failures[0].cause, Cause::NotRun, "it returns zeros: {}", failures[0]);
    // The whole suite is not run here; that its call compiles is the point.
    let _: fn(wgsl::VendorRuntime) -> Result<(), Vec<vyre_conform::ParityFailure>> = wgsl::certify;
}
