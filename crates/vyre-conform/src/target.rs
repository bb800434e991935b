//! One interface for both kinds of backend: a vendor's, and a driver.

use crate::batch::{Content, Problem, Step};
use crate::contract::{Convention, DispatchConfig, Feature, OutputInit, Profile, VyreBackend};
use crate::failure::Cause;
use crate::judge::{self, Answer};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use vyre_driver::{BackendError, DispatchConfig as DriverConfig, VyreBackend as DriverBackend};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::{bound_buffers, indirect};
use vyre_lower::convention::{self, Contents, Packed};
use vyre_lower::wgsl;

/// One launch, as a target sees it.
pub(crate) struct Job<'a> {
    pub(crate) program: &'a Program,
    pub(crate) grid: [u32; 3],
    /// The initial contents of every bound buffer, by ascending binding.
    pub(crate) contents: &'a [Content],
    pub(crate) init: OutputInit,
    /// Whether a lookup buffer is wanted, where the target has one.
    pub(crate) lookup: bool,
}

/// Why a target returned no bytes to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An error, in the backend's words.
    Error(String),
    /// Bytes, but not as many as asked for.
    Length { expected: usize, actual: Vec<u8> },
    /// A panic, with its message.
    Panic(String),
}

/// A backend under test.
pub(crate) trait Target {
    fn name(&self) -> &str;
    fn profile(&self) -> &Profile;
    /// The driver, if it is one.
    fn driver(&self) -> Option<&dyn DriverBackend>;
    /// Runs one launch: the output buffers by ascending binding, or the trap's code.
    fn run(&self, job: &Job<'_>) -> Result<Answer, Fault>;
}

/// How long a driver may take for one launch. Nothing the suite sends takes a second on the slowest device.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs `dispatch`, and turns a panic into a fault.
fn guarded<T>(dispatch: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(dispatch)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Fault::Panic(text.unwrap_or("a panic without a message").into()))
    })
}

/// A driver as a target.
pub(crate) struct DriverTarget<'a> {
    backend: &'a dyn DriverBackend,
    profile: Profile,
}

impl<'a> DriverTarget<'a> {
    pub(crate) fn new(backend: &'a dyn DriverBackend) -> DriverTarget<'a> {
        let device = backend.device_profile();
        // A driver that reports no limit has none of its own.
        let published = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        let narrow = |limit: u64| u32::try_from(published(limit)).unwrap_or(u32::MAX);
        let profile = Profile {
            version: backend.version().into(),
            device: backend.device_name().into(),
            driver: backend.driver_name().into(),
            invocations_max: backend.max_compute_invocations_per_workgroup(),
            workgroup_bytes_max: narrow(u64::from(device.max_shared_memory_bytes)),
            buffer_bytes_max: published(backend.max_storage_buffer_bytes()),
            workgroups_max: backend.max_compute_workgroups_per_dimension(),
            features: [Feature::AtomicMinMax64].into(),
        };
        DriverTarget { backend, profile }
    }
}

impl Target for DriverTarget<'_> {
    fn name(&self) -> &str {
        self.backend.id()
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn driver(&self) -> Option<&dyn DriverBackend> {
        Some(self.backend)
    }

    fn run(&self, job: &Job<'_>) -> Result<Answer, Fault> {
        let parts = job.program.parts();
        let bound = bound_buffers(parts);
        let is_output = |at: usize| parts.buffer(bound[at]).is_output();
        // Either every bound buffer has an input, or every one that is not an output.
        let starts_at_zero = |at: usize| matches!(job.contents[at], Content::Zeros(_));
        let bare = (0..bound.len()).all(|at| !is_output(at) || starts_at_zero(at));
        let sent: Vec<usize> = (0..bound.len()).filter(|at| !(bare && is_output(*at))).collect();
        let zeros: Vec<Vec<u8>> = sent.iter().map(|at| job.contents[*at].zeros()).collect();
        let inputs: Vec<&[u8]> = sent
            .iter()
            .zip(&zeros)
            .map(|(at, zeros)| match &job.contents[*at] {
                Content::Bytes(bytes) => bytes.as_slice(),
                Content::Zeros(_) => zeros.as_slice(),
            })
            .collect();
        let sizes: Vec<usize> =
            (0..bound.len()).filter(|at| is_output(*at)).map(|at| job.contents[at].len()).collect();
        let config = DriverConfig {
            // An indirect program brings its own grid.
            grid_override: indirect(parts).is_none().then_some(job.grid),
            output_sizes: if bare { sizes.clone() } else { Vec::new() },
            timeout: Some(TIMEOUT),
            ..DriverConfig::default()
        };
        let outputs = guarded(|| {
            match vyre_driver::grid_sync::dispatch(self.backend, job.program, &inputs, &config) {
                Ok(result) => Ok(Ok(result.outputs)),
                Err(BackendError::Trap { code, .. }) => Ok(Err(code)),
                Err(error) => Err(Fault::Error(error.to_string())),
            }
        })?;
        match outputs {
            Err(code) => Ok(Answer::Trap(code)),
            Ok(outputs) => {
                let lens: Vec<usize> = outputs.iter().map(Vec::len).collect();
                if lens == sizes {
                    return Ok(Answer::Outputs(outputs));
                }
                Err(Fault::Length { expected: sizes.iter().sum(), actual: outputs.concat() })
            }
        }
    }
}

/// The start of the error that reports a wrong number of bytes.
pub(crate) const OTHER_LENGTH: &str = "`dispatch` returned";

/// What [`VyreBackend::dispatch_program`] does by default: lowers the program to WGSL, dispatches that with room for what
/// only shaders keep in their output, and cuts it off again.
pub(crate) fn dispatch_lowered<B: VyreBackend + ?Sized>(
    backend: &B,
    program: &[u8],
    input: &[u8],
    output_size: usize,
    config: DispatchConfig,
) -> Result<Vec<u8>, String> {
    let program = Program::from_bytes(program)?;
    let valid = judge::valid(&program)?;
    let parts = program.parts();
    let launch =
        convention::unpack(parts, input, config.lookup_data.as_deref()).map_err(|error| error.to_string())?;
    let layout = launch.layout;
    if layout.output_bytes != output_size {
        let asked = layout.output_bytes;
        return Err(format!("the outputs take {asked} bytes, not {output_size}. Fix: ask for {asked} bytes"));
    }
    let starts_filled =
        |(contents, id)| matches!(contents, &Contents::Bytes(_)) && parts.buffer(id).is_writable();
    let filled = launch.contents.iter().zip(bound_buffers(parts)).any(starts_filled);
    let one_for_one = config.output_init == OutputInit::Zero && !filled;
    let options = wgsl::Options {
        form: if one_for_one { wgsl::Form::Grid } else { wgsl::Form::OneWorkgroup },
        lookup_binding: match config.convention {
            Convention::V1 => None,
            Convention::V2 { lookup_binding } => Some(lookup_binding),
        },
        ..wgsl::Options::DRIVER
    };
    let shader = wgsl::lower(&valid, &options).map_err(|error| error.to_string())?;
    if shader.one_workgroup_only && launch.grid != [1, 1, 1] {
        return Err(
            "the program has grid barriers or collectives, and WGSL has none. Fix: launch one workgroup, \
                    or override `dispatch_program` on a device that has them"
                .into(),
        );
    }
    let workgroup_count = if one_for_one { launch.grid } else { [1, 1, 1] };
    let config = DispatchConfig { workgroup_count, ..config };
    let mut output = backend.dispatch(&shader.source, input, layout.device_bytes, config)?;
    if output.len() != layout.device_bytes {
        let (got, asked) = (output.len(), layout.device_bytes);
        return Err(format!(
            "{OTHER_LENGTH} {got} bytes, and {asked} were asked for. Fix: return `output_size` bytes"
        ));
    }
    if let Some(site) = layout.trap_site(&output) {
        let code = shader.trap_code(site);
        let code =
            code.ok_or_else(|| format!("the trap word names line {site}, which has no trap. Fix: {ZEROED}"))?;
        return Err(format!("trap {code}. Fix: correct the input that the trap guards against"));
    }
    output.truncate(output_size);
    Ok(output)
}

/// The fix for a trap word without a meaning.
const ZEROED: &str =
    "set the output to zero where the configuration says so, and return what the shader wrote";

/// A vendor's backend as a target.
pub(crate) struct VendorTarget<'a> {
    backend: &'a dyn VyreBackend,
    profile: Profile,
    /// The last input, kept so that the next one has the same address.
    input: RefCell<Vec<u8>>,
}

impl<'a> VendorTarget<'a> {
    pub(crate) fn new(backend: &'a dyn VyreBackend) -> VendorTarget<'a> {
        let mut profile = backend.profile();
        match backend.max_convention() {
            Convention::V1 => profile.features.remove(&Feature::ConventionV2),
            Convention::V2 { .. } => profile.features.insert(Feature::ConventionV2),
        };
        VendorTarget { backend, profile, input: RefCell::default() }
    }
}

impl Target for VendorTarget<'_> {
    fn name(&self) -> &str {
        self.backend.name()
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn driver(&self) -> Option<&dyn DriverBackend> {
        None
    }

    fn run(&self, job: &Job<'_>) -> Result<Answer, Fault> {
        let parts = job.program.parts();
        let convention = match (job.lookup, self.backend.max_convention()) {
            (true, convention @ Convention::V2 { .. }) => convention,
            (true, Convention::V1) | (false, _) => Convention::V1,
        };
        let contents: Vec<Contents<'_>> = job.contents.iter().map(Content::as_contents).collect();
        let lookup = convention != Convention::V1;
        let Packed { input, lookup, layout } = convention::pack(parts, job.grid, &contents, lookup)
            .expect("the suite's own launches fit the convention");
        let config = DispatchConfig {
            workgroup_size: parts.workgroup,
            workgroup_count: job.grid,
            convention,
            lookup_data: lookup,
            output_init: job.init,
        };
        let mut kept = self.input.borrow_mut();
        kept.clear();
        kept.extend_from_slice(&input);
        let size = layout.output_bytes;
        let wire = job.program.to_bytes();
        let output =
            guarded(|| self.backend.dispatch_program(&wire, &kept, size, config).map_err(Fault::Error))?;
        if output.len() != size {
            return Err(Fault::Length { expected: size, actual: output });
        }
        Ok(Answer::Outputs(layout.outputs.iter().map(|(_, range)| output[range.clone()].to_vec()).collect()))
    }
}

/// The reference interpreter as a vendor's backend: the suite must never fail it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceBackend;

impl VyreBackend for ReferenceBackend {
    fn name(&self) -> &str {
        "reference"
    }

    fn max_convention(&self) -> Convention {
        Convention::V2 { lookup_binding: 3 }
    }

    fn profile(&self) -> Profile {
        Profile {
            version: env!("CARGO_PKG_VERSION").into(),
            device: "reference interpreter".into(),
            driver: "none".into(),
            invocations_max: 1024,
            workgroup_bytes_max: 256 << 10,
            features: [Feature::AtomicMinMax64].into(),
            ..Profile::floor()
        }
    }

    fn dispatch(&self, _: &str, _: &[u8], _: usize, _: DispatchConfig) -> Result<Vec<u8>, String> {
        Err("the reference runs programs, not WGSL. Fix: call `dispatch_program`".into())
    }

    fn dispatch_program(
        &self,
        program: &[u8],
        input: &[u8],
        output_size: usize,
        config: DispatchConfig,
    ) -> Result<Vec<u8>, String> {
        let program = Program::from_bytes(program)?;
        let valid = judge::valid(&program)?;
        let parts = program.parts();
        let launch =
            convention::unpack(parts, input, config.lookup_data.as_deref()).map_err(|e| e.to_string())?;
        let mut output = vec![0; output_size];
        let step = Step {
            grid: launch.grid,
            contents: launch.contents.iter().map(Content::from).collect(),
            init: config.output_init,
            cases: 0,
        };
        match judge::expected(&valid, &step).map_err(|error| error.to_string())? {
            Answer::Trap(code) => {
                Err(format!("trap {code}. Fix: correct the input that the trap guards against"))
            }
            Answer::Outputs(outputs) => {
                for (bytes, (_, range)) in outputs.iter().zip(&launch.layout.outputs) {
                    let place = output.get_mut(range.clone());
                    place
                        .ok_or("the output is too small. Fix: size it by the convention")?
                        .copy_from_slice(bytes);
                }
                Ok(output)
            }
        }
    }
}

/// Runs a procedure, and turns a panic into a problem.
pub(crate) fn guarded_procedure(procedure: impl FnOnce() -> Result<(), Problem>) -> Result<(), Problem> {
    let result = guarded(|| Ok(procedure()));
    result.unwrap_or_else(|fault| {
        let Fault::Panic(message) = fault else { unreachable!("a procedure's only fault is a panic") };
        Err(Problem { cause: Cause::Panicked, message })
    })
}
