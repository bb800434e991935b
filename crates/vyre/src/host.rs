//! Runs kernels from Rust: slices in, vectors out, by buffer name.
//!
//! A [`Kernel`] is a valid program. [`Kernel::launch`] collects what a run needs, checking names, types and sizes as they
//! come; [`Launch::run`] reports the first mistake or the result. Which backend runs it is a matter of its id, or of
//! routing, which takes the best that can. Runs that are watched (race checks, traces, other schedules) are the reference
//! interpreter's.
//!
//! Not here: streams and resident buffers. [`crate::driver`] has those.

use crate::spec::{SpecError, SpecErrorKind, bytes_of};
use std::time::{Duration, Instant};
use vyre_driver::grid_sync::{self, Compiled};
use vyre_driver::registry;
use vyre_driver::routing::{self, Choice, PassedOver, Route};
use vyre_driver::{BackendError, CancelToken, DispatchConfig, ErrorCode};
use vyre_foundation::diagnostic::{Diagnostic, Place};
use vyre_foundation::ir::builder::Element;
use vyre_foundation::ir::{Buffer, BufferId, Program, ProgramParts};
use vyre_foundation::launch::{self, Admission, LaunchError, element_count};
use vyre_foundation::text::{self, SourceMap};
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_reference::{Finding, Options, RunError, Schedule, Trace};

/// The id that leaves the choice of a backend to routing.
pub const AUTO: &str = "auto";

/// The backend whose runs can be watched.
const REFERENCE: &str = "reference";

/// What kind of thing went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The program is not valid.
    Program,
    /// The launch is wrong: a name, a type, a size, the grid or the backend's id.
    Launch,
    /// A lane trapped.
    Trap {
        /// The code.
        code: u32,
        /// The line, of those that trapped the first in the program.
        place: Place,
        /// A lane that trapped there, if the backend knows one.
        lane: Option<[u32; 3]>,
    },
    /// The run took longer than it may.
    Timeout,
    /// The run needs more memory than it may have.
    Memory,
    /// The device or its backend failed, or is not there.
    Device,
}

/// Why a kernel has no result, with what to do about it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  Fix: {fix}")]
pub struct Error {
    /// What kind of thing it is.
    pub kind: ErrorKind,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

/// As it is displayed: `main` prints errors by `Debug`, and a reader wants the message and its fix.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl Error {
    fn launch(message: impl Into<String>, fix: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Launch, message: message.into(), fix: fix.into() }
    }

    /// All findings in one text: the fix of the last becomes the error's.
    fn program(findings: &[Diagnostic], name: &str, source: &str, map: &SourceMap) -> Error {
        let (last, others) = findings.split_last().expect("what is refused has a finding");
        let mut message: String =
            others.iter().map(|finding| text::render(finding, name, source, map) + "\n").collect();
        message += text::render_message(last, name, source, map).trim_end();
        Error { kind: ErrorKind::Program, message, fix: text::as_written(&last.fix, source) }
    }
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Error {
        Error::launch(error.message, error.fix)
    }
}

impl From<SpecError> for Error {
    fn from(error: SpecError) -> Error {
        let kind = match error.kind {
            SpecErrorKind::Spec | SpecErrorKind::File => ErrorKind::Launch,
            SpecErrorKind::Memory => ErrorKind::Memory,
        };
        Error { kind, message: error.message, fix: error.fix }
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Error {
        let kind = match &error {
            RunError::Launch(_) => ErrorKind::Launch,
            RunError::Trap { code, location, lane } => {
                ErrorKind::Trap { code: *code, place: location.line, lane: Some(*lane) }
            }
            RunError::Stopped => ErrorKind::Timeout,
            RunError::Memory { .. } => ErrorKind::Memory,
            RunError::Diverged { .. } => ErrorKind::Device,
        };
        Error { kind, message: error.message(), fix: error.fix().into() }
    }
}

impl From<BackendError> for Error {
    fn from(error: BackendError) -> Error {
        let kind = match error.code() {
            ErrorCode::InvalidProgram => ErrorKind::Program,
            ErrorCode::InvalidLaunch
            | ErrorCode::LimitExceeded
            | ErrorCode::UnsupportedFeature
            | ErrorCode::BadHandle => ErrorKind::Launch,
            ErrorCode::Timeout | ErrorCode::Cancelled => ErrorKind::Timeout,
            ErrorCode::OutOfMemory => ErrorKind::Memory,
            ErrorCode::Trap
            | ErrorCode::DeviceLost
            | ErrorCode::CompileFailed
            | ErrorCode::PipelineInvalidated
            | ErrorCode::CooperativeResidencyExceeded
            | ErrorCode::ClockOverflow
            | ErrorCode::ShutDown
            | ErrorCode::Unavailable
            | ErrorCode::Other => ErrorKind::Device,
        };
        let linked = |id: &str| registry::registrations().iter().any(|registration| registration.id == id);
        let kind = match &error {
            BackendError::Trap { code, place, lane } => {
                ErrorKind::Trap { code: *code, place: *place, lane: *lane }
            }
            // An id that no backend has, or a launch that routing finds no backend for.
            BackendError::Unavailable { backend, .. } if !linked(backend) => ErrorKind::Launch,
            _ => kind,
        };
        Error { kind, message: error.message(), fix: error.fix() }
    }
}

/// A valid program, ready to run.
///
/// ```
/// use vyre::{Program, host::Kernel, ir::Axis};
///
/// let program = Program::build("double", [64, 1, 1], |k| {
///     let y = k.read_write::<u32>("y", 0).output();
///     let i = k.global_id(Axis::X);
///     y.put(i, y.at(i) * 2);
/// })?;
/// let output = Kernel::new(&program)?.launch().input("y", &[1u32, 2, 3]).run()?;
/// assert_eq!(output.get::<u32>("y")?, [2, 4, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Kernel {
    program: ValidProgram,
}

impl Kernel {
    /// Validates a program.
    pub fn new(program: &Program) -> Result<Kernel, Error> {
        match validate(program) {
            Ok(program) => Ok(Kernel { program }),
            Err(findings) => {
                let (source, map) = text::print_with_map(program);
                let name = program.name();
                Err(Error::program(&findings, name, &source, &map))
            }
        }
    }

    /// Reads and validates a program in text.
    pub fn parse(source: &str) -> Result<Kernel, Error> {
        let refused =
            |findings: &[Diagnostic], map: &SourceMap| Error::program(findings, "kernel", source, map);
        let parsed = text::parse(source).map_err(|findings| refused(&findings, &SourceMap::default()))?;
        let program = validate(&parsed.program).map_err(|findings| refused(&findings, &parsed.map))?;
        Ok(Kernel { program })
    }

    /// A kernel of a program that is already validated.
    pub fn from_valid(program: ValidProgram) -> Kernel {
        Kernel { program }
    }

    /// The program.
    pub fn program(&self) -> &ValidProgram {
        &self.program
    }

    /// A run to be described.
    pub fn launch(&self) -> Launch<'_> {
        let bound = self.program.facts().bound.clone();
        Launch {
            kernel: self,
            contents: vec![None; bound.len()],
            bound,
            grid: None,
            backend: AUTO.to_owned(),
            options: Options::default(),
            timeout: None,
            cancel: CancelToken::new(),
            error: None,
        }
    }
}

/// What a launch still needs.
#[derive(Clone, Copy, Debug)]
pub enum Missing<'p> {
    /// The contents of a buffer that the program only reads.
    Input(&'p Buffer),
    /// The number of elements of a buffer that the program writes.
    Size(&'p Buffer),
    /// The grid of a program that asks for its place along y or z.
    Grid(&'p ProgramParts),
}

impl Missing<'_> {
    /// The error of it, with a fix in the words of whoever describes the launch.
    pub fn error(self, fix: impl Into<String>) -> Error {
        let message = match self {
            Missing::Input(buffer) => format!("`@{}` has no input", buffer.name),
            Missing::Size(buffer) => format!("nothing says how many elements `@{}` has", buffer.name),
            Missing::Grid(parts) => launch::grid_missing(parts).message,
        };
        Error::launch(message, fix)
    }
}

/// A run being described. A clone is the same run, for another backend, say.
#[derive(Clone)]
pub struct Launch<'k> {
    kernel: &'k Kernel,
    /// The bound buffers in binding order, and what they start with.
    bound: Vec<BufferId>,
    contents: Vec<Option<Vec<u8>>>,
    grid: Option<[u32; 3]>,
    backend: String,
    options: Options<'k>,
    timeout: Option<Duration>,
    cancel: CancelToken,
    /// The first mistake; [`Launch::run`] returns it.
    error: Option<Error>,
}

impl<'k> Launch<'k> {
    /// Gives a buffer its contents. The element type must be the buffer's.
    pub fn input<T: Element>(self, name: &str, elements: &[T]) -> Launch<'k> {
        let ty = self.find(name).ok().map(|at| self.buffer(at).ty);
        if ty.is_some_and(|ty| ty != T::TYPE) {
            let (ty, given) = (ty.unwrap_or(T::TYPE), T::TYPE);
            return self.fail(Error::launch(
                format!("`@{name}` has elements of type {ty}, and {given} are given"),
                format!("call `.input(\"{name}\", ...)` with a slice of {ty}"),
            ));
        }
        let size = T::TYPE.bytes();
        let mut bytes = Vec::with_capacity(elements.len() * size);
        for element in elements {
            bytes.extend_from_slice(&element.bits().to_le_bytes()[..size]);
        }
        self.bytes(name, bytes)
    }

    /// Gives a buffer its contents as raw little-endian bytes.
    pub fn bytes(mut self, name: &str, bytes: Vec<u8>) -> Launch<'k> {
        match self.find(name) {
            Ok(at) if self.contents[at].is_some() => self.fail(Error::launch(
                format!("`@{name}` is given twice"),
                "give each buffer its contents or its size, once",
            )),
            Ok(at) => match element_count(self.buffer(at), bytes.len() as u64) {
                Ok(_) => {
                    self.contents[at] = Some(bytes);
                    self
                }
                Err(error) => self.fail(error.into()),
            },
            Err(error) => self.fail(error),
        }
    }

    /// Gives a buffer `count` elements, all zero.
    pub fn size(self, name: &str, count: u64) -> Launch<'k> {
        let sized = self.find(name).and_then(|at| {
            let buffer = self.buffer(at);
            match buffer.len.filter(|len| u64::from(*len) != count) {
                Some(len) => Err(Error::launch(
                    format!("`@{name}` is declared {}[{len}], and {count} elements are asked for", buffer.ty),
                    "leave its size out, or change its declaration",
                )),
                None => zeros(bytes_of(count, buffer.ty)?),
            }
        });
        match sized {
            Ok(bytes) => self.bytes(name, bytes),
            Err(error) => self.fail(error),
        }
    }

    /// Sets the workgroups along x, y and z. Without it the grid is
    /// [derived](vyre_foundation::launch::default_grid).
    pub fn grid(mut self, grid: [u32; 3]) -> Launch<'k> {
        self.grid = Some(grid);
        self
    }

    /// Chooses the backend by its id. Without it, or with [`AUTO`], the best one that can run the kernel is taken.
    pub fn backend(mut self, id: &str) -> Launch<'k> {
        self.backend = id.to_owned();
        self
    }

    /// Ends the run with an error after this time.
    pub fn timeout(mut self, timeout: Duration) -> Launch<'k> {
        self.timeout = Some(timeout);
        self
    }

    /// Looks for races, out-of-bounds accesses and reads of unwritten workgroup memory.
    pub fn check(mut self, check: bool) -> Launch<'k> {
        self.options.check = check;
        self
    }

    /// Sets the order in which lanes and workgroups run.
    pub fn schedule(mut self, schedule: Schedule) -> Launch<'k> {
        self.options.schedule = schedule;
        self
    }

    /// Watches one lane.
    pub fn trace(mut self, trace: Trace<'k>) -> Launch<'k> {
        self.options.trace = Some(trace);
        self
    }

    /// Lets another thread end the run with an error.
    pub fn cancel(mut self, cancel: CancelToken) -> Launch<'k> {
        self.cancel = cancel;
        self
    }

    /// The bytes of all bound buffers, as far as they are given or declared.
    pub fn byte_len(&self) -> usize {
        let declared = |buffer: &Buffer| buffer.len.map_or(0, |len| len as usize * buffer.ty.bytes());
        let byte_len = |(at, given): (usize, &Option<Vec<u8>>)| {
            given.as_ref().map_or_else(|| declared(self.buffer(at)), Vec::len)
        };
        self.contents.iter().enumerate().map(byte_len).sum()
    }

    /// The first mistake so far, which [`Launch::run`] will return.
    pub fn mistake(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The first thing that [`Launch::run`] needs and did not get.
    pub fn missing(&self) -> Option<Missing<'k>> {
        for (at, given) in self.contents.iter().enumerate() {
            let buffer = self.buffer(at);
            match (given, buffer.is_writable(), buffer.len) {
                (Some(_), ..) | (None, true, Some(_)) => {}
                (None, true, None) => return Some(Missing::Size(buffer)),
                (None, false, _) => return Some(Missing::Input(buffer)),
            }
        }
        let parts = self.kernel.program.parts();
        let needed = self.kernel.program.facts().needs_grid;
        let derived = self.grid.is_some() || launch::indirect(parts).is_some() || !needed;
        (!derived).then_some(Missing::Grid(parts))
    }

    /// Runs the kernel.
    pub fn run(mut self) -> Result<Output, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if let Some(missing) = self.missing() {
            return Err(missing.error(match missing {
                Missing::Input(Buffer { name, ty, .. }) => {
                    format!("call `.input(\"{name}\", ...)` with a slice of {ty}")
                }
                Missing::Size(Buffer { name, ty, .. }) => {
                    format!(
                        "call `.size(\"{name}\", count)`, or `.input(\"{name}\", ...)` with a slice of {ty}"
                    )
                }
                Missing::Grid(_) => "call `.grid([x, y, z])` with the workgroups along each axis".into(),
            }));
        }
        let buffers = self.contents()?;
        let watched =
            self.options.check || self.options.trace.is_some() || self.options.schedule != Schedule::Forward;
        match watched {
            true => self.run_watched(buffers),
            false => self.run_routed(buffers),
        }
    }

    /// Runs on the interpreter itself, which alone can be watched.
    fn run_watched(self, mut buffers: Vec<Vec<u8>>) -> Result<Output, Error> {
        if self.backend != AUTO && self.backend != REFERENCE {
            return Err(Error::launch(
                format!("backend `{}` cannot check races, trace lanes or change the schedule", self.backend),
                format!("use the backend `{REFERENCE}` for that, or leave these out"),
            ));
        }
        let admission = launch::admit_buffers(&self.kernel.program, self.grid, &buffers)?;
        if let Some(trace) = &self.options.trace {
            check_lane(trace.lane, &admission)?;
        }
        let started = Instant::now();
        let late = || self.timeout.is_some_and(|timeout| started.elapsed() > timeout);
        let stop = || self.cancel.is_cancelled() || late();
        let options = Options { stop: Some(&stop), ..self.options };
        let report = vyre_reference::run_in_place(&admission, &mut buffers, &options)?;
        let timing = Timing { wall: started.elapsed(), ..Timing::default() };
        let parts = self.kernel.program.parts();
        let outputs = self.bound.iter().zip(buffers);
        let outputs = outputs.map(|(id, bytes)| parts.buffer(*id).is_output().then_some(bytes)).collect();
        Ok(Output {
            kernel: self.kernel.clone(),
            bound: self.bound,
            buffers: outputs,
            grid: admission.grid,
            backend: REFERENCE,
            passed_over: Vec::new(),
            findings: report.findings,
            lane_instructions: Some(report.lane_instructions),
            timing,
        })
    }

    /// Runs on a backend through its driver.
    fn run_routed(self, buffers: Vec<Vec<u8>>) -> Result<Output, Error> {
        let program = self.kernel.program.program();
        let inputs: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        let config = DispatchConfig {
            grid_override: self.grid,
            timeout: self.timeout,
            cancel: Some(self.cancel.clone()),
            ..DispatchConfig::default()
        };
        let choice = if self.backend == AUTO { Choice::Auto } else { Choice::Id(&self.backend) };
        let Route { backend, admission, passed_over } = routing::route(choice, program, &inputs, &config)?;
        let started = Instant::now();
        let compiled = grid_sync::compile(&*backend, &admission, &inputs, &config)?;
        let compile = (!matches!(compiled, Compiled::Whole(None))).then(|| started.elapsed());
        let timed = compiled.dispatch(&*backend, &admission, &inputs, &config)?;
        let parts = self.kernel.program.parts();
        let mut outputs = timed.outputs.into_iter();
        let buffers = self.bound.iter().map(|id| match parts.buffer(*id).is_output() {
            true => outputs.next(),
            false => None,
        });
        Ok(Output {
            kernel: self.kernel.clone(),
            buffers: buffers.collect(),
            bound: self.bound,
            grid: admission.grid,
            backend: backend.id(),
            passed_over,
            findings: Vec::new(),
            lane_instructions: None,
            timing: Timing {
                compile,
                wall: Duration::from_nanos(timed.wall_ns),
                device: timed.device_ns.map(Duration::from_nanos),
                enqueue: timed.enqueue_ns.map(Duration::from_nanos),
                wait: timed.wait_ns.map(Duration::from_nanos),
            },
        })
    }

    /// What every bound buffer starts with: what is given, or zeros.
    fn contents(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        let given = std::mem::take(&mut self.contents);
        let fresh = |at: usize| {
            let buffer = self.buffer(at);
            zeros(bytes_of(u64::from(buffer.len.unwrap_or(0)), buffer.ty)?)
        };
        given.into_iter().enumerate().map(|(at, given)| given.map_or_else(|| fresh(at), Ok)).collect()
    }

    fn buffer(&self, at: usize) -> &'k Buffer {
        self.kernel.program.parts().buffer(self.bound[at])
    }

    fn find(&self, name: &str) -> Result<usize, Error> {
        find(self.kernel.program.parts(), &self.bound, name)
    }

    fn fail(mut self, error: Error) -> Launch<'k> {
        self.error.get_or_insert(error);
        self
    }
}

/// Refuses to watch a lane that the grid does not have.
fn check_lane(lane: [u32; 3], admission: &Admission) -> Result<(), Error> {
    let (grid, workgroup) = (admission.grid, admission.parts().workgroup);
    let lanes = [0, 1, 2].map(|axis| u64::from(grid[axis]) * u64::from(workgroup[axis]));
    if (0..3).all(|axis| u64::from(lane[axis]) < lanes[axis]) {
        return Ok(());
    }
    let [x, y, z] = lane;
    let [lanes_x, lanes_y, lanes_z] = lanes;
    let fix = match lanes.contains(&0) {
        true => "launch at least one workgroup".to_owned(),
        false => format!("trace one from (0, 0, 0) to ({}, {}, {})", lanes_x - 1, lanes_y - 1, lanes_z - 1),
    };
    Err(Error::launch(
        format!("lane ({x}, {y}, {z}) is outside the grid of {lanes_x} x {lanes_y} x {lanes_z} lanes"),
        fix,
    ))
}

fn find(parts: &ProgramParts, bound: &[BufferId], name: &str) -> Result<usize, Error> {
    if let Some(at) = bound.iter().position(|id| *parts.buffer(*id).name == *name) {
        return Ok(at);
    }
    let names: Vec<String> = bound.iter().map(|id| format!("@{}", parts.buffer(*id).name)).collect();
    let fix = match names.is_empty() {
        true => "leave it out: the program binds no buffers".to_owned(),
        false => format!("name one of the buffers it binds: {}", names.join(", ")),
    };
    Err(Error::launch(format!("`@{}` binds no buffer `{}`", parts.name, name.escape_debug()), fix))
}

/// How long a run took; what the backend does not know is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// From the call to its return, without compilation.
    pub wall: Duration,
    /// Making the program ready for the backend; next to nothing where that was done before.
    pub compile: Option<Duration>,
    /// On the device's own clock.
    pub device: Option<Duration>,
    /// Until the work was handed over.
    pub enqueue: Option<Duration>,
    /// Waiting for the device.
    pub wait: Option<Duration>,
}

/// What a run gives.
#[derive(Clone, Debug)]
pub struct Output {
    kernel: Kernel,
    bound: Vec<BufferId>,
    /// The outputs' bytes, by bound buffer; `None` for those that do not come back.
    buffers: Vec<Option<Vec<u8>>>,
    grid: [u32; 3],
    backend: &'static str,
    passed_over: Vec<PassedOver>,
    findings: Vec<Finding>,
    lane_instructions: Option<u64>,
    timing: Timing,
}

impl Output {
    /// The elements of a buffer after the run. The element type must be the buffer's.
    pub fn get<T: Element>(&self, name: &str) -> Result<Vec<T>, Error> {
        let bytes = self.bytes(name)?;
        let parts = self.kernel.program.parts();
        let ty = parts.buffer(self.bound[find(parts, &self.bound, name)?]).ty;
        if ty != T::TYPE {
            return Err(Error::launch(
                format!("`@{name}` has elements of type {ty}, and {} are asked for", T::TYPE),
                format!("call `.get::<{ty}>(\"{name}\")`"),
            ));
        }
        Ok(bytes.chunks_exact(ty.bytes()).map(|element| T::from_bits(word(element))).collect())
    }

    /// The raw little-endian bytes of an output after the run.
    pub fn bytes(&self, name: &str) -> Result<&[u8], Error> {
        let at = find(self.kernel.program.parts(), &self.bound, name)?;
        match &self.buffers[at] {
            Some(bytes) => Ok(bytes),
            None => Err(Error::launch(
                format!("`@{name}` is not an output, so its bytes do not come back"),
                format!("declare it `output`: `buffer @{name} : read_write ... output`"),
            )),
        }
    }

    /// The outputs in binding order: their declarations and bytes.
    pub fn outputs(&self) -> impl Iterator<Item = (&Buffer, &[u8])> {
        let parts = self.kernel.program.parts();
        let all = self.bound.iter().map(|id| parts.buffer(*id)).zip(&self.buffers);
        all.filter_map(|(buffer, bytes)| Some((buffer, bytes.as_deref()?)))
    }

    /// The grid that ran.
    pub fn grid(&self) -> [u32; 3] {
        self.grid
    }

    /// The id of the backend that ran it.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// The backends that routing preferred and could not take, with their reasons.
    pub fn passed_over(&self) -> &[PassedOver] {
        &self.passed_over
    }

    /// How many lines the lanes ran, all together, if the run was watched.
    pub fn lane_instructions(&self) -> Option<u64> {
        self.lane_instructions
    }

    /// What [`Launch::check`] found.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How long it took.
    pub fn timing(&self) -> Timing {
        self.timing
    }
}

/// Up to eight little-endian bytes as a word.
pub(crate) fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
/// Memory that is zero.
fn zeros(bytes: usize) -> Result<Vec<u8>, Error> {
    bytemuck::allocation::try_zeroed_vec(bytes).map_err(|()| Error {
        kind: ErrorKind::Memory,
        message: format!("out of memory: a buffer needs {bytes} bytes"),
        fix: "make buffers smaller, or split the launch".into(),
    })
}
