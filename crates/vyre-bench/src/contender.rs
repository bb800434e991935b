//! Those who do the work of a case: baselines, and backends in two ways.
//!
//! A backend runs on resident buffers, where only the dispatch is inside the clock, and on the host's bytes, where the
//! transfers are inside it too. Both reuse the storage of their results.

use crate::case::{Baseline, Bind, Case, Step, words};
use bytemuck::cast_slice;
use std::sync::Arc;
use vyre::driver::{ResidentDispatchStep, Resource};
use vyre::{BackendError, DispatchConfig, Program, VyreBackend};

/// How a contender does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Rust on the host, no backend.
    Baseline,
    /// A backend on buffers that lie on its device.
    Resident,
    /// A backend on bytes of the host, transfers included.
    Host,
}

impl Mode {
    /// The mode's name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Baseline => "baseline",
            Mode::Resident => "resident",
            Mode::Host => "host",
        }
    }
}

pub(crate) trait Contender {
    /// Brings every written buffer back to its start.
    fn reset(&mut self) -> Result<(), BackendError>;

    /// Does the work once; gives the device's own time in nanoseconds, if it is known.
    fn run(&mut self) -> Result<Option<u64>, BackendError>;

    /// The written buffers as they are now.
    fn written(&mut self) -> Result<Vec<Vec<u32>>, BackendError>;
}

/// A baseline on its own copy of what is written.
pub(crate) struct Native<'c> {
    case: &'c Case,
    run: fn(&[Vec<u32>], &mut [Vec<u32>]),
    written: Vec<Vec<u32>>,
}

impl Native<'_> {
    pub(crate) fn new<'c>(case: &'c Case, baseline: &Baseline) -> Native<'c> {
        Native { case, run: baseline.run, written: case.start() }
    }
}

impl Contender for Native<'_> {
    fn reset(&mut self) -> Result<(), BackendError> {
        for (words, written) in self.written.iter_mut().zip(&self.case.writes) {
            words.copy_from_slice(&written.start);
        }
        Ok(())
    }

    fn run(&mut self) -> Result<Option<u64>, BackendError> {
        (self.run)(&self.case.reads, &mut self.written);
        Ok(None)
    }

    fn written(&mut self) -> Result<Vec<Vec<u32>>, BackendError> {
        Ok(self.written.clone())
    }
}

/// A backend on resident buffers.
pub(crate) struct Resident<'c> {
    backend: Arc<dyn VyreBackend>,
    programs: &'c [Program],
    case: &'c Case,
    reads: Vec<Resource>,
    writes: Vec<Resource>,
    /// What each step binds.
    bound: Vec<Vec<Resource>>,
}

impl Resident<'_> {
    /// Allocates and fills every buffer.
    pub(crate) fn new<'c>(
        backend: Arc<dyn VyreBackend>,
        programs: &'c [Program],
        case: &'c Case,
    ) -> Result<Resident<'c>, BackendError> {
        // Built up in place, so that what was allocated before an error is freed.
        let mut this =
            Resident { backend, programs, case, reads: Vec::new(), writes: Vec::new(), bound: Vec::new() };
        for words in &case.reads {
            let resource = this.backend.allocate_resident(words.len() * 4)?;
            this.reads.push(resource.clone());
            this.backend.upload_resident(&resource, cast_slice(words))?;
        }
        for written in &case.writes {
            this.writes.push(this.backend.allocate_resident(written.start.len() * 4)?);
        }
        let resource = |bind: &Bind| match bind {
            Bind::Read(at) => this.reads[*at].clone(),
            Bind::Write(at) => this.writes[*at].clone(),
        };
        this.bound = case.steps.iter().map(|step| step.binds.iter().map(resource).collect()).collect();
        Ok(this)
    }
}

impl Contender for Resident<'_> {
    fn reset(&mut self) -> Result<(), BackendError> {
        for (resource, written) in self.writes.iter().zip(&self.case.writes) {
            self.backend.upload_resident(resource, cast_slice(&written.start))?;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<Option<u64>, BackendError> {
        let Case { steps, .. } = self.case;
        if let [step] = steps.as_slice() {
            let config = DispatchConfig { grid_override: Some(step.grid), ..DispatchConfig::default() };
            let program = &self.programs[step.kernel];
            return Ok(self.backend.dispatch_resident_timed(program, &self.bound[0], &config)?.device_ns);
        }
        let steps: Vec<ResidentDispatchStep<'_>> = steps
            .iter()
            .zip(&self.bound)
            .map(|(step, bound)| ResidentDispatchStep {
                program: &self.programs[step.kernel],
                resources: bound,
                grid_override: Some(step.grid),
            })
            .collect();
        let timing = self.backend.dispatch_resident_sequence_read_ranges_timed_into(&steps, &[], &mut [])?;
        Ok(timing.device_ns)
    }

    fn written(&mut self) -> Result<Vec<Vec<u32>>, BackendError> {
        let download = |resource: &Resource| Ok(words(&self.backend.download_resident(resource)?));
        self.writes.iter().map(download).collect()
    }
}

impl Drop for Resident<'_> {
    fn drop(&mut self) {
        for resource in self.reads.drain(..).chain(self.writes.drain(..)) {
            // The run is over; a device that cannot free has nothing to tell here.
            let _ = self.backend.free_resident(resource);
        }
    }
}

/// A backend on the host's bytes.
pub(crate) struct Host<'c> {
    backend: Arc<dyn VyreBackend>,
    programs: &'c [Program],
    case: &'c Case,
    configs: Vec<DispatchConfig>,
    /// What the steps wrote last.
    written: Vec<Vec<u8>>,
}

impl Host<'_> {
    pub(crate) fn new<'c>(
        backend: Arc<dyn VyreBackend>,
        programs: &'c [Program],
        case: &'c Case,
    ) -> Host<'c> {
        let config = |step: &Step| DispatchConfig {
            grid_override: Some(step.grid),
            output_sizes: case.writes[target(step)].output_sizes(),
            ..DispatchConfig::default()
        };
        let configs = case.steps.iter().map(config).collect();
        let written = case.writes.iter().map(|written| cast_slice(&written.start).to_vec()).collect();
        Host { backend, programs, case, configs, written }
    }
}

impl crate::case::Written {
    /// What a dispatch is told about the size of this output: nothing where its start is an input.
    fn output_sizes(&self) -> Vec<usize> {
        if self.given { Vec::new() } else { vec![self.start.len() * 4] }
    }
}

/// The buffer that a step writes: kernels have one output, their last binding.
fn target(step: &Step) -> usize {
    match step.binds.last() {
        Some(Bind::Write(at)) => *at,
        Some(Bind::Read(_)) | None => unreachable!("every kernel's last binding is its output"),
    }
}

impl Contender for Host<'_> {
    fn reset(&mut self) -> Result<(), BackendError> {
        // Each dispatch starts from its inputs; what is left is overwritten, and must not pass for a result.
        self.written.iter_mut().for_each(|bytes| bytes.fill(0));
        Ok(())
    }

    fn run(&mut self) -> Result<Option<u64>, BackendError> {
        for (step, config) in self.case.steps.iter().zip(&self.configs) {
            let target = target(step);
            let mut slots = vec![std::mem::take(&mut self.written[target])];
            let given = self.case.writes[target].given;
            let inputs = step.binds.iter().filter_map(|bind| match bind {
                Bind::Read(at) => Some(cast_slice(&self.case.reads[*at])),
                Bind::Write(at) if *at == target => given.then(|| cast_slice(&self.case.writes[*at].start)),
                Bind::Write(at) => Some(self.written[*at].as_slice()),
            });
            let inputs: Vec<&[u8]> = inputs.collect();
            let program = &self.programs[step.kernel];
            let done = self.backend.dispatch_borrowed_into(program, &inputs, config, &mut slots);
            self.written[target] = slots.pop().unwrap_or_default();
            done?;
        }
        Ok(None)
    }

    fn written(&mut self) -> Result<Vec<Vec<u32>>, BackendError> {
        Ok(self.written.iter().map(|bytes| words(bytes)).collect())
    }
}
