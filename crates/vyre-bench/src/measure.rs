//! The clock: interleaved rounds over all contenders of a group, medians and their spread.
//!
//! A sample is the mean of enough calls to last a moment, so that a short dispatch is not lost in the clock's grain. In
//! each round every contender gives one sample, and each round starts with another contender, so that what the machine
//! does meanwhile affects all alike. The state that another contender leaves in caches, clocks and the device's context
//! affects no sample: each follows untimed calls of its own contender.

use crate::contender::Contender;
use std::time::{Duration, Instant};
use vyre::BackendError;

/// How long a sample lasts at least.
const SAMPLE_NS: f64 = 2e6;
/// How long a contender runs before each of its samples; one whose calls take longer is not held up by it.
const SETTLE_NS: f64 = 1e7;
/// Calls of a sample at most.
const CALLS_MAX: f64 = 1000.0;
/// How long the rounds of a group take together, unless the fewest take longer.
const GROUP_NS: f64 = 2.5e9;
const ROUNDS_MIN: usize = 5;
const ROUNDS_MAX: usize = 31;

/// The distribution of one contender's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one.
    pub median_ns: f64,
    /// The least.
    pub min_ns: f64,
    /// The distance between the quartiles.
    pub quartiles_ns: f64,
}

impl Spread {
    fn of(mut samples: Vec<f64>) -> Spread {
        samples.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * (samples.len() - 1) as f64;
            let (low, high) = (samples[place.floor() as usize], samples[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        Spread { median_ns: at(0.5), min_ns: samples[0], quartiles_ns: at(0.75) - at(0.25) }
    }
}

/// The measured times of one contender.
#[derive(Clone, Debug)]
pub struct Times {
    /// From call to return.
    pub wall: Spread,
    /// On the device's own clock, if it has one.
    pub device: Option<Spread>,
    /// Samples taken.
    pub rounds: usize,
    /// Calls in each sample.
    pub calls: usize,
}

/// One who is measured.
pub(crate) struct Runner<'c> {
    pub(crate) contender: Box<dyn Contender + 'c>,
    calls: usize,
    /// Untimed calls before a sample.
    settling: usize,
    walls: Vec<f64>,
    devices: Vec<f64>,
}

impl<'c> Runner<'c> {
    /// Runs the contender once from its start, for its results, and once more to know how long it takes.
    pub(crate) fn warm_up(
        mut contender: Box<dyn Contender + 'c>,
    ) -> Result<(Runner<'c>, Vec<Vec<u32>>), BackendError> {
        contender.reset()?;
        contender.run()?;
        let results = contender.written()?;
        let (again_ns, _) = time(&mut *contender, 1)?;
        let calls = (SAMPLE_NS / again_ns).ceil().clamp(1.0, CALLS_MAX) as usize;
        let settling = (SETTLE_NS / again_ns).min(CALLS_MAX) as usize;
        Ok((Runner { contender, calls, settling, walls: Vec::new(), devices: Vec::new() }, results))
    }

    /// How long a sample will take, as far as is known.
    fn sample_ns(&mut self) -> Result<f64, BackendError> {
        Ok(time(&mut *self.contender, self.calls)?.0 * self.calls as f64)
    }

    fn sample(&mut self) -> Result<(), BackendError> {
        (0..self.settling).try_for_each(|_| self.contender.run().map(drop))?;
        let (wall, device) = time(&mut *self.contender, self.calls)?;
        self.walls.push(wall);
        self.devices.extend(device);
        Ok(())
    }

    /// The results of one more run from the start: what was right before the clock must be right after it.
    pub(crate) fn again(&mut self) -> Result<Vec<Vec<u32>>, BackendError> {
        self.contender.reset()?;
        self.contender.run()?;
        self.contender.written()
    }

    pub(crate) fn times(&self) -> Times {
        let rounds = self.walls.len();
        let device = (rounds > 0 && self.devices.len() == rounds).then(|| Spread::of(self.devices.clone()));
        Times { wall: Spread::of(self.walls.clone()), device, rounds, calls: self.calls }
    }
}

/// The time of one call, as the mean of several: the wall's, and the device's if it is known of all.
fn time(contender: &mut dyn Contender, calls: usize) -> Result<(f64, Option<f64>), BackendError> {
    let mut device = Some(0);
    let start = Instant::now();
    for _ in 0..calls {
        let ns = contender.run()?;
        device = device.zip(ns).map(|(sum, ns)| sum + ns);
    }
    let wall = start.elapsed().as_nanos().max(1) as f64;
    Ok((wall / calls as f64, device.map(|sum| sum as f64 / calls as f64)))
}

/// The time of one call.
pub(crate) fn one_call(contender: &mut dyn Contender) -> Result<Duration, BackendError> {
    Ok(Duration::from_nanos(time(contender, 1)?.0 as u64))
}

/// Runs all rounds. A contender that fails has its error at its index in the result.
pub(crate) fn rounds(
    runners: &mut [Runner<'_>],
    wanted: Option<usize>,
    mut told: impl FnMut(usize, usize),
) -> Vec<Option<BackendError>> {
    let mut errors: Vec<Option<BackendError>> = runners.iter().map(|_| None).collect();
    let mut total_ns = 0.0;
    for (runner, error) in runners.iter_mut().zip(&mut errors) {
        match runner.sample_ns() {
            Ok(ns) => total_ns += ns,
            Err(failed) => *error = Some(failed),
        }
    }
    let fitting = (GROUP_NS / f64::max(total_ns, 1.0)) as usize;
    let rounds = wanted.unwrap_or(fitting.clamp(ROUNDS_MIN, ROUNDS_MAX));
    for round in 0..rounds {
        told(round, rounds);
        for turn in 0..runners.len() {
            let at = (round + turn) % runners.len();
            if errors[at].is_none() {
                errors[at] = runners[at].sample().err();
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quartiles_lie_between_the_samples() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(spread, Spread { median_ns: 2.5, min_ns: 1.0, quartiles_ns: 1.5 });
        assert_eq!(Spread::of(vec![7.0]), Spread { median_ns: 7.0, min_ns: 7.0, quartiles_ns: 0.0 });
    }
}
