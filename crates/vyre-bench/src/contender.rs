//! The contenders of a case: baselines, and each backend twice.
//!
//! A backend runs on resident buffers, where only the dispatch is inside the clock, and on the host's bytes, where the
//! transfers are inside it too. Both reuse the storage of their results.

use crate::case::{Baseline, Bind, Case, LIBC, Step, words};
use bytemuck::cast_slice;
use std::sync::Arc;
use vyre::driver::{ResidentDispatchStep, Resource};
use vyre::ir::BufferId;
use vyre::launch::bound_buffers;
use vyre::{BackendError, DispatchConfig, VyreBackend};

/// How a contender does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Rust on the host, no backend.
    Baseline,
    /// A backend on buffers of its device.
    Resident,
    /// A backend on bytes of the host, transfers included.
    Host,
    /// A backend on its own buffers, with floats as its device has them: fast, and not exact.
    Loose,
}

impl Mode {
    /// The mode's name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Baseline => "baseline",
            Mode::Resident => "resident",
            Mode::Host => "host",
            Mode::Loose => "native",
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

    /// Whether its results are to have the right bits. Other libraries add floats in an order of their own.
    fn is_exact(&self) -> bool {
        true
    }
}

/// A baseline on its own copy of what is written.
pub(crate) struct Native<'c> {
    case: &'c Case,
    baseline: &'c Baseline,
    written: Vec<Vec<u32>>,
}

impl Native<'_> {
    pub(crate) fn new<'c>(case: &'c Case, baseline: &'c Baseline) -> Native<'c> {
        Native { case, baseline, written: case.start() }
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
        (self.baseline.run)(&self.case.reads, &mut self.written);
        Ok(None)
    }

    fn written(&mut self) -> Result<Vec<Vec<u32>>, BackendError> {
        Ok(self.written.clone())
    }

    fn is_exact(&self) -> bool {
        self.baseline.label != LIBC
    }
}

/// A backend on resident buffers.
pub(crate) struct Resident<'c> {
    backend: Arc<dyn VyreBackend>,
    is_exact: bool,
    case: &'c Case,
    reads: Vec<Resource>,
    writes: Vec<Resource>,
    /// The buffers that each step binds.
    bound: Vec<Vec<Resource>>,
}

impl Resident<'_> {
    /// Allocates and fills every buffer.
    pub(crate) fn new(
        backend: Arc<dyn VyreBackend>,
        is_exact: bool,
        case: &Case,
    ) -> Result<Resident<'_>, BackendError> {
        let (reads, writes, bound) = (Vec::new(), Vec::new(), Vec::new());
        // Built up in place, so that what was allocated before an error is freed.
        let mut this = Resident { backend, is_exact, case, reads, writes, bound };
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
        let steps = self.case.steps.as_slice();
        let fitting = |step: &Step| step.fitting(self.case, &*self.backend);
        if let [step] = steps {
            let (program, grid) = fitting(step);
            let config = DispatchConfig { grid_override: Some(grid), ..DispatchConfig::default() };
            return Ok(self.backend.dispatch_resident_timed(program, &self.bound[0], &config)?.device_ns);
        }
        let steps: Vec<ResidentDispatchStep<'_>> = steps
            .iter()
            .zip(&self.bound)
            .map(|(step, bound)| {
                let (program, grid) = fitting(step);
                ResidentDispatchStep { program, resources: bound, grid_override: Some(grid) }
            })
            .collect();
        let timing = self.backend.dispatch_resident_sequence_read_ranges_timed_into(&steps, &[], &mut [])?;
        Ok(timing.device_ns)
    }

    fn written(&mut self) -> Result<Vec<Vec<u32>>, BackendError> {
        let download = |resource: &Resource| Ok(words(&self.backend.download_resident(resource)?));
        self.writes.iter().map(download).collect()
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }
}

impl Drop for Resident<'_> {
    fn drop(&mut self) {
        for resource in self.reads.drain(..).chain(self.writes.drain(..)) {
            // The run is over; a failed free does not matter here.
            let _ = self.backend.free_resident(resource);
        }
    }
}

/// A backend on the host's bytes.
pub(crate) struct Host<'c> {
    backend: Arc<dyn VyreBackend>,
    case: &'c Case,
    /// How each step is dispatched, and where its outputs belong.
    dispatches: Vec<(DispatchConfig, Vec<Output>)>,
    /// The results of the last run.
    written: Vec<Vec<u8>>,
}

/// The buffers that a step writes.
#[derive(Clone, Copy)]
struct Output {
    buffer: usize,
    /// Whether an earlier step wrote it too, so that its bytes count.
    earlier: bool,
}

impl Host<'_> {
    pub(crate) fn new(backend: Arc<dyn VyreBackend>, case: &Case) -> Host<'_> {
        let written: Vec<Vec<u8>> =
            case.writes.iter().map(|written| cast_slice(&written.start).to_vec()).collect();
        let mut touched = vec![false; written.len()];
        let dispatch = |step: &Step| {
            let outputs = outputs(case, step).into_iter();
            let outputs: Vec<Output> = outputs
                .map(|buffer| Output { buffer, earlier: std::mem::replace(&mut touched[buffer], true) })
                .collect();
            let config = DispatchConfig {
                grid_override: Some(step.fitting(case, &*backend).1),
                output_sizes: outputs.iter().map(|output| written[output.buffer].len()).collect(),
                ..DispatchConfig::default()
            };
            (config, outputs)
        };
        let dispatches = case.steps.iter().map(dispatch).collect();
        Host { backend, case, dispatches, written }
    }
}

/// The buffers that a step's program returns, in binding order.
fn outputs(case: &Case, step: &Step) -> Vec<usize> {
    let parts = case.programs[step.program].parts();
    let bound = bound_buffers(parts).into_iter().zip(&step.binds);
    let output = |(id, bind): (BufferId, &Bind)| match bind {
        Bind::Write(at) if parts.buffer(id).is_output() => Some(*at),
        Bind::Write(_) | Bind::Read(_) => None,
    };
    bound.filter_map(output).collect()
}

impl Contender for Host<'_> {
    fn reset(&mut self) -> Result<(), BackendError> {
        // Each run starts from its inputs; what is left is overwritten, and must not pass for a result.
        self.written.iter_mut().for_each(|bytes| bytes.fill(0));
        Ok(())
    }

    fn run(&mut self) -> Result<Option<u64>, BackendError> {
        for (step, (config, outputs)) in self.case.steps.iter().zip(&self.dispatches) {
            // What an earlier step left goes in once more.
            let left = |output: &Output| {
                if output.earlier { self.written[output.buffer].clone() } else { Vec::new() }
            };
            let left: Vec<Vec<u8>> = outputs.iter().map(left).collect();
            let take = |output: &Output| std::mem::take(&mut self.written[output.buffer]);
            let mut slots: Vec<Vec<u8>> = outputs.iter().map(take).collect();
            let bytes = |bind: &Bind| match bind {
                Bind::Read(at) => cast_slice(&self.case.reads[*at]),
                Bind::Write(at) => match outputs.iter().position(|output| output.buffer == *at) {
                    None => self.written[*at].as_slice(),
                    Some(output) if outputs[output].earlier => &left[output],
                    Some(_) if self.case.writes[*at].given => cast_slice(&self.case.writes[*at].start),
                    // No contents mean zeros.
                    Some(_) => &[],
                },
            };
            let inputs: Vec<&[u8]> = step.binds.iter().map(bytes).collect();
            let (program, _) = step.fitting(self.case, &*self.backend);
            let done = self.backend.dispatch_borrowed_into(program, &inputs, config, &mut slots);
            for (output, slot) in outputs.iter().zip(slots) {
                self.written[output.buffer] = slot;
            }
            done?;
        }
        Ok(None)
    }

    fn written(&mut self) -> Result<Vec<Vec<u32>>, BackendError> {
        Ok(self.written.iter().map(|bytes| words(bytes)).collect())
    }
}
