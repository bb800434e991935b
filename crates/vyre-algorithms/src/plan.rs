//! An algorithm at one size as data, and how it is run.
//!
//! A plan owns no memory: it names buffers by number. A backend with resident memory gets the dispatches as one sequence,
//! with one transfer in and one out; any other gets them one by one, on the host's bytes.

use crate::programs;
use vyre_driver::{
    BackendError, DispatchConfig, ResidentDispatchStep, ResidentReadRange, ResidentSequenceTiming, Resource,
    VyreBackend,
};
use vyre_foundation::ir::{self, BufferKind, Program};
use vyre_foundation::launch::bound_buffers;

/// An algorithm at one size.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The programs of its steps.
    pub programs: Vec<Program>,
    /// The buffers of its steps: inputs and outputs in the order in which they are passed.
    pub buffers: Vec<Buffer>,
    /// The dispatches, in order.
    pub steps: Vec<Step>,
}

/// A buffer of a plan.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its size.
    pub byte_len: usize,
    /// Its role.
    pub role: Role,
}

/// The role of a buffer: who fills it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The caller.
    Input,
    /// The last steps, for the caller. Whatever it held before does not matter.
    Output,
    /// One step, for another.
    Scratch,
    /// The plan, with these bytes.
    Constant(Vec<u8>),
}

/// One dispatch.
#[derive(Clone, Debug)]
pub struct Step {
    /// Which of the plan's programs.
    pub program: usize,
    /// Workgroups along x, y and z.
    pub grid: [u32; 3],
    /// Which of the plan's buffers, in binding order.
    pub buffers: Vec<usize>,
    /// Programs and grids for the same work with less and less workgroup memory.
    pub lesser: Vec<(usize, [u32; 3])>,
    /// The program and the grid for the same work on processors: few lanes side by side, and caches instead of memory of
    /// workgroups' own.
    pub on_processors: Option<(usize, [u32; 3])>,
}

impl Step {
    /// The program and the grid for a backend: those for processors if it is one, or else the first whose workgroup memory
    /// it has, or the last.
    pub fn fitting<'p>(&self, programs: &'p [Program], backend: &dyn VyreBackend) -> (&'p Program, [u32; 3]) {
        let first = (self.program, self.grid);
        if self.lesser.is_empty() && self.on_processors.is_none() {
            return (&programs[first.0], first.1);
        }
        let profile = backend.device_profile();
        // A device that says nothing of itself has no units either.
        let is_processor = profile.compute_units > 0 && !profile.has_shared_memory;
        let bytes_max = u64::from(profile.max_shared_memory_bytes);
        let fits = |(program, _): &&(usize, [u32; 3])| workgroup_bytes(&programs[*program]) <= bytes_max;
        let fitting = || std::iter::once(&first).chain(&self.lesser).find(fits).or(self.lesser.last());
        let own = self.on_processors.as_ref().filter(|_| is_processor);
        let choice = own.or_else(fitting).unwrap_or(&first);
        (&programs[choice.0], choice.1)
    }
}

fn workgroup_bytes(program: &Program) -> u64 {
    let shared = |buffer: &&ir::Buffer| matches!(buffer.kind, BufferKind::Workgroup);
    let bytes = |buffer: &ir::Buffer| u64::from(buffer.len.unwrap_or(0)) * buffer.ty.bytes() as u64;
    program.parts().buffers.iter().filter(shared).map(bytes).sum()
}

/// The greatest number of workgroups along an axis that every device has.
const AXIS_MAX: u32 = 65_535;

/// A grid of at least `groups` workgroups. Programs go by `workgroup_index`, and those beyond the last do nothing.
pub(crate) fn grid(groups: u32) -> [u32; 3] {
    match groups {
        0..=AXIS_MAX => [groups.max(1), 1, 1],
        more => [1 << 15, more.div_ceil(1 << 15), 1],
    }
}

/// A size that the language's indices cannot bear.
pub(crate) fn refused<T>(message: String, fix: &str) -> Result<T, BackendError> {
    Err(BackendError::InvalidLaunch { message, fix: fix.to_owned() })
}

/// Elements as the u32 that indices are.
pub(crate) fn count(elements: usize) -> Result<u32, BackendError> {
    match u32::try_from(elements) {
        Ok(count) => Ok(count),
        Err(_) => refused(
            format!("{elements} elements are more than an index reaches"),
            "split the input into parts of at most 2^32 - 1 elements",
        ),
    }
}

impl Plan {
    pub(crate) fn buffer(&mut self, byte_len: usize, role: Role) -> usize {
        self.buffers.push(Buffer { byte_len, role });
        self.buffers.len() - 1
    }

    pub(crate) fn constant(&mut self, words: &[u32]) -> usize {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.buffer(bytes.len(), Role::Constant(bytes))
    }

    pub(crate) fn step(&mut self, program: &Program, grid: [u32; 3], buffers: &[usize]) {
        self.step_of(&[(program.clone(), grid)], buffers);
    }

    /// A step with several programs for the same work, the first with the most workgroup memory.
    pub(crate) fn step_of(&mut self, choices: &[(Program, [u32; 3])], buffers: &[usize]) {
        let mut known =
            choices.iter().map(|(program, grid)| (self.known(program), *grid)).collect::<Vec<_>>();
        let (program, grid) = known.remove(0);
        let buffers = buffers.to_vec();
        self.steps.push(Step { program, grid, buffers, lesser: known, on_processors: None });
    }

    /// Gives the last step another program for processors.
    pub(crate) fn on_processors(&mut self, program: &Program, grid: [u32; 3]) {
        let known = self.known(program);
        if let Some(step) = self.steps.last_mut() {
            step.on_processors = Some((known, grid));
        }
    }

    fn known(&mut self, program: &Program) -> usize {
        let known = self.programs.iter().position(|known| known.digest() == program.digest());
        known.unwrap_or_else(|| {
            self.programs.push(program.clone());
            self.programs.len() - 1
        })
    }

    /// The step that sets a buffer of u32 elements to zero, which later steps add to.
    pub(crate) fn clear(&mut self, buffer: usize) {
        let groups = (self.buffers[buffer].byte_len / 4).div_ceil(256) as u32;
        self.step(&programs::parsed(include_str!("../kernels/clear.vyre")), grid(groups), &[buffer]);
    }

    /// The buffers of a role, in order; `role` is compared by kind.
    fn of(&self, role: &Role) -> impl Iterator<Item = (usize, &Buffer)> {
        let kind = std::mem::discriminant(role);
        self.buffers
            .iter()
            .enumerate()
            .filter(move |(_, buffer)| std::mem::discriminant(&buffer.role) == kind)
    }

    /// Whether these byte lengths are those of the role's buffers.
    fn check(&self, what: &str, role: &Role, given: &[usize]) -> Result<(), BackendError> {
        let asked: Vec<usize> = self.of(role).map(|(_, buffer)| buffer.byte_len).collect();
        match asked == given {
            true => Ok(()),
            false => refused(
                format!("{what} of {given:?} bytes are given, and the plan has {asked:?}"),
                "pass what the plan was made for, or make a plan for these sizes",
            ),
        }
    }

    /// Runs on the host's bytes: inputs in, outputs back, each in the plan's order.
    pub fn run(&self, backend: &dyn VyreBackend, inputs: &[&[u8]]) -> Result<Vec<Vec<u8>>, BackendError> {
        let given: Vec<usize> = inputs.iter().map(|bytes| bytes.len()).collect();
        self.check("inputs", &Role::Input, &given)?;
        match backend.supports_resident_dispatch() {
            true => self.run_resident(backend, inputs),
            false => self.run_dispatches(backend, inputs),
        }
    }

    /// Allocates the intermediate buffers, once for any number of runs.
    pub fn prepare<'b>(&self, backend: &'b dyn VyreBackend) -> Result<Prepared<'b>, BackendError> {
        let mut between = Allocations { backend, resources: Vec::new() };
        for buffer in self.buffers.iter() {
            match &buffer.role {
                Role::Input | Role::Output => {}
                Role::Scratch => drop(between.allocate(buffer.byte_len)?),
                Role::Constant(bytes) => backend.upload_resident(&between.allocate(bytes.len())?, bytes)?,
            }
        }
        Ok(Prepared { plan: self.clone(), between })
    }

    fn run_resident(
        &self,
        backend: &dyn VyreBackend,
        inputs: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let prepared = self.prepare(backend)?;
        let mut own = Allocations { backend, resources: Vec::new() };
        for bytes in inputs {
            backend.upload_resident(&own.allocate(bytes.len())?, bytes)?;
        }
        let outputs: Vec<usize> = self.of(&Role::Output).map(|(_, buffer)| buffer.byte_len).collect();
        for byte_len in &outputs {
            own.allocate(*byte_len)?;
        }
        let (given, written) = own.resources.split_at(inputs.len());
        let range = |(resource, byte_len): (_, &usize)| ResidentReadRange {
            resource,
            byte_offset: 0,
            byte_len: *byte_len,
        };
        let ranges: Vec<ResidentReadRange<'_>> = written.iter().zip(&outputs).map(range).collect();
        let mut read = vec![Vec::new(); outputs.len()];
        prepared.run_and_read(given, written, &ranges, &mut read.iter_mut().collect::<Vec<_>>())?;
        Ok(read)
    }

    /// One dispatch after the other, each with its inputs from the host and its outputs back to it.
    fn run_dispatches(
        &self,
        backend: &dyn VyreBackend,
        inputs: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let mut inputs = inputs.iter();
        let start = |buffer: &Buffer| match &buffer.role {
            Role::Input => inputs.next().map_or_else(Vec::new, |bytes| bytes.to_vec()),
            Role::Constant(bytes) => bytes.clone(),
            Role::Output | Role::Scratch => vec![0; buffer.byte_len],
        };
        let mut contents: Vec<Vec<u8>> = self.buffers.iter().map(start).collect();
        for step in &self.steps {
            let (program, grid) = step.fitting(&self.programs, backend);
            let bound: Vec<&[u8]> = step.buffers.iter().map(|at| contents[*at].as_slice()).collect();
            let config = DispatchConfig { grid_override: Some(grid), ..DispatchConfig::default() };
            let outputs = backend.dispatch_borrowed(program, &bound, &config)?;
            let parts = program.parts();
            let places = bound_buffers(parts).into_iter().zip(&step.buffers);
            let is_output = |kind: &BufferKind| matches!(kind, BufferKind::ReadWrite { output: true, .. });
            let places = places.filter(|(id, _)| is_output(&parts.buffers[id.index()].kind));
            for ((_, at), bytes) in places.zip(outputs) {
                contents[*at] = bytes;
            }
        }
        Ok(self.of(&Role::Output).map(|(at, _)| std::mem::take(&mut contents[at])).collect())
    }
}

/// Memory on a device that is freed with this value.
struct Allocations<'b> {
    backend: &'b dyn VyreBackend,
    resources: Vec<Resource>,
}

impl Allocations<'_> {
    fn allocate(&mut self, byte_len: usize) -> Result<Resource, BackendError> {
        let resource = self.backend.allocate_resident(byte_len)?;
        self.resources.push(resource.clone());
        Ok(resource)
    }
}

impl Drop for Allocations<'_> {
    fn drop(&mut self) {
        for resource in self.resources.drain(..) {
            // A device that cannot free has lost the memory already.
            let _ = self.backend.free_resident(resource);
        }
    }
}

/// A plan with its memory on a device.
pub struct Prepared<'b> {
    plan: Plan,
    /// The scratch and constant buffers, in the plan's order.
    between: Allocations<'b>,
}

impl Prepared<'_> {
    /// Runs on resident buffers of the plan's sizes, in one sequence of dispatches. Outputs are overwritten.
    pub fn run(
        &self,
        inputs: &[Resource],
        outputs: &[Resource],
    ) -> Result<ResidentSequenceTiming, BackendError> {
        self.run_and_read(inputs, outputs, &[], &mut [])
    }

    fn run_and_read(
        &self,
        inputs: &[Resource],
        outputs: &[Resource],
        ranges: &[ResidentReadRange<'_>],
        read: &mut [&mut Vec<u8>],
    ) -> Result<ResidentSequenceTiming, BackendError> {
        let (plan, backend) = (&self.plan, self.between.backend);
        for (what, role, given) in [("inputs", Role::Input, inputs), ("outputs", Role::Output, outputs)] {
            let sizes: Result<Vec<usize>, BackendError> =
                given.iter().map(|resource| backend.resident_byte_len(resource)).collect();
            plan.check(what, &role, &sizes?)?;
        }
        let (mut inputs, mut outputs) = (inputs.iter(), outputs.iter());
        let mut between = self.between.resources.iter();
        let resource = |buffer: &Buffer| match &buffer.role {
            Role::Input => inputs.next().cloned(),
            Role::Output => outputs.next().cloned(),
            Role::Scratch | Role::Constant(_) => between.next().cloned(),
        };
        let all: Vec<Resource> = plan.buffers.iter().filter_map(resource).collect();
        let bound: Vec<Vec<Resource>> =
            plan.steps.iter().map(|step| step.buffers.iter().map(|at| all[*at].clone()).collect()).collect();
        let steps: Vec<ResidentDispatchStep<'_>> = plan
            .steps
            .iter()
            .zip(&bound)
            .map(|(step, resources)| {
                let (program, grid) = step.fitting(&plan.programs, backend);
                ResidentDispatchStep { program, resources, grid_override: Some(grid) }
            })
            .collect();
        backend.dispatch_resident_sequence_read_ranges_timed_into(&steps, ranges, read)
    }
}
