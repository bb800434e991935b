//! Runs benchmarks: checks every contender against the reference at a tiny size, chooses sizes that suit slow backends,
//! and measures.

use crate::case::{Baseline, Benchmark, Case, digest};
use crate::check;
use crate::contender::{Contender, Host, Mode, Native, Resident};
use crate::external::{self, External, Nvcc};
use crate::limits::{self, Limits};
use crate::measure::{self, Runner};
use crate::report::{Figures, Group, Machine, Outcome, Report, Row, size_text};
use std::sync::Arc;
use std::time::Duration;
use vyre::driver::registry;
use vyre::host::Error;
use vyre::wgpu::{ShaderChoice, WgpuConfig};
use vyre::{BackendError, VyreBackend};

/// A backend that would take longer than this for one run is given a smaller size ...
const RUN_MAX: Duration = Duration::from_secs(1);
/// ... at which it takes about this long.
const RUN_SMALL: Duration = Duration::from_millis(250);

/// The name of the host in the list of limits.
const HOST: &str = "host";

/// Which baselines take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Baselines {
    /// All.
    #[default]
    All,
    /// The plain one, which ratios are to.
    Plain,
    /// Those that run on a device, in its vendor's language.
    Device,
    /// None: there are no ratios then.
    None,
    /// The backend itself with floats as its device has them, where it can do that (`wgpu`): what exactness costs.
    Native,
}

/// The options of a run.
pub struct Options {
    /// The benchmarks.
    pub benchmarks: Vec<&'static Benchmark>,
    /// The backends, by id.
    pub backends: Vec<String>,
    /// Sizes other than a benchmark's own, by its name.
    pub sizes: Vec<(&'static str, u32)>,
    /// Which baselines take part.
    pub baselines: Baselines,
    /// Samples of each contender; `None` takes as many as fit a few seconds.
    pub rounds: Option<usize>,
    /// Tiny sizes and no limits: for checking results rather than speed.
    pub quick: bool,
}

/// Runs everything. `progress` is called with what is running.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let mut backends = Vec::new();
    for id in &options.backends {
        backends.push(registry::open(id)?);
    }
    let is_native = options.baselines == Baselines::Native;
    let loose = |id: &String| (is_native && id == WGPU).then(open_loose).transpose();
    let loose = options.backends.iter().map(loose).collect::<Result<_, _>>()?;
    let (limits, groups, cold_ns) = (Vec::new(), Vec::new(), Vec::new());
    let notes = if options.quick { Vec::new() } else { busy() };
    let mut run = Run { options, backends, loose, limits, notes, groups, cold_ns, nvcc: None, progress };
    run.cuda_baselines();
    run.device_limits();
    for benchmark in &options.benchmarks {
        run.host_limits();
        run.benchmark(benchmark)?;
    }
    run.host_limits();
    let Run { limits, mut groups, notes, .. } = run;
    groups.iter_mut().for_each(|group| conclude(group, &limits));
    Ok(Report { machine: Machine::this(), limits, groups, notes })
}

/// The backend `wgpu` with floats as its device has them.
fn open_loose() -> Result<Arc<dyn VyreBackend>, BackendError> {
    let config = WgpuConfig { shaders: ShaderChoice::Loose, ..WgpuConfig::from_env()? };
    Ok(Arc::new(vyre::wgpu::open(&config)?))
}

/// A note where others use the processor too, as far as this can be known.
fn busy() -> Vec<String> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Option<f64> = load.split(' ').next().and_then(|first| first.parse().ok());
    let threads = rayon::current_num_threads();
    let busy = load.filter(|load| *load > 0.5 * threads as f64);
    let note = |load| format!("the machine was busy at the start: a load of {load} on {threads} threads");
    busy.map(note).into_iter().collect()
}

struct Run<'o> {
    options: &'o Options,
    backends: Vec<Arc<dyn VyreBackend>>,
    /// The same with floats as their devices have them, where that takes part.
    loose: Vec<Option<Arc<dyn VyreBackend>>>,
    limits: Vec<(String, Limits)>,
    notes: Vec<String>,
    groups: Vec<Group>,
    /// The time of each backend's first run of the current benchmark.
    cold_ns: Vec<Option<f64>>,
    /// The baselines in CUDA, where they take part.
    nvcc: Option<Nvcc>,
    progress: &'o mut dyn FnMut(&str),
}

/// A contender before it is set up for a case.
enum Entry {
    Baseline(&'static Baseline),
    External(&'static str, u32),
    Resident(usize),
    Host(usize),
    Loose(usize),
}

/// The backend that CUDA's own programs run beside.
const CUDA: &str = "cuda";
/// The backend that can leave floats to its device.
const WGPU: &str = "wgpu";

impl Run<'_> {
    /// Compiles the baselines in CUDA, if the backend takes part and they are asked for.
    fn cuda_baselines(&mut self) {
        let beside = self.backends.iter().any(|backend| backend.id() == CUDA);
        if !beside || !matches!(self.options.baselines, Baselines::All | Baselines::Device) {
            return;
        }
        (self.progress)("compiling the baselines in CUDA");
        match Nvcc::build() {
            Ok(nvcc) => self.nvcc = Some(nvcc),
            Err(why) => self.notes.push(format!("there are no baselines in CUDA: {why}")),
        }
    }

    /// Tries once more what the host can do.
    fn host_limits(&mut self) {
        if self.options.quick {
            return;
        }
        (self.progress)("the limits of the host");
        let now = limits::host();
        match self.limits.iter_mut().find(|(device, _)| device == HOST) {
            Some((_, limits)) => *limits = limits.or_better(&now),
            None => self.limits.insert(0, (HOST.to_owned(), now)),
        }
    }

    /// The limits of devices other than the host.
    fn device_limits(&mut self) {
        let devices = self.backends.iter().filter(|backend| !limits::is_on_host(backend.id()));
        for backend in devices.filter(|_| !self.options.quick) {
            let id = backend.id();
            (self.progress)(&format!("the limits of {id}"));
            match limits::device(backend) {
                Ok(limits) => self.limits.push((id.to_owned(), limits)),
                Err(error) => self.notes.push(format!("the limits of {id} are not known: {}", error.message)),
            }
        }
    }

    fn benchmark(&mut self, benchmark: &'static Benchmark) -> Result<(), Error> {
        let tiny = self.expected(benchmark)?;
        self.cold_ns = self.backends.iter().map(|backend| cold(backend, &tiny.case)).collect();
        // Backends by the size they get, the greatest first.
        let mut sizes: Vec<(u32, Vec<usize>)> = Vec::new();
        for at in 0..self.backends.len() {
            let size = self.size_for(benchmark, at);
            match sizes.iter_mut().find(|(other, _)| *other == size) {
                Some((_, backends)) => backends.push(at),
                None => sizes.push((size, vec![at])),
            }
        }
        if sizes.is_empty() {
            sizes.push((self.asked_size(benchmark), Vec::new()));
        }
        sizes.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        for (size, backends) in sizes {
            let group = self.group(benchmark, size, &backends, &tiny)?;
            self.groups.push(group);
        }
        Ok(())
    }

    /// The size that the options give a benchmark.
    fn asked_size(&self, benchmark: &Benchmark) -> u32 {
        let asked = self.options.sizes.iter().find(|(name, _)| *name == benchmark.name);
        match (asked, self.options.quick) {
            (Some((_, size)), _) => *size,
            (None, true) => benchmark.tiny,
            (None, false) => benchmark.size,
        }
    }

    /// The reference's results at the tiny size, which the plain baseline must have too.
    fn expected(&mut self, benchmark: &Benchmark) -> Result<Checked, Error> {
        (self.progress)(&format!("{}: the reference's results", benchmark.name));
        let case = (benchmark.make)(benchmark.tiny);
        let written = check::reference(&case)?;
        Ok(Checked { case, written })
    }

    /// The size for a backend: what is asked for, or the benchmark's own where the backend can bear it.
    fn size_for(&mut self, benchmark: &Benchmark, backend: usize) -> u32 {
        let asked = self.asked_size(benchmark);
        let fixed = self.options.sizes.iter().any(|(name, _)| *name == benchmark.name);
        if fixed || self.options.quick {
            return asked;
        }
        let backend = Arc::clone(&self.backends[backend]);
        (self.progress)(&format!("{}: a size for {}", benchmark.name, backend.id()));
        let work = |size: u32| f64::from(size).powi(benchmark.power);
        let mut size = benchmark.tiny;
        loop {
            let case = (benchmark.make)(size);
            let mut contender = Host::new(Arc::clone(&backend), &case);
            // One that fails is measured at the full size, where its error is shown.
            let warm = contender.run().and_then(|_| measure::one_call(&mut contender));
            let Ok(time) = warm else { return asked };
            let predicted = |size_then: u32| time.as_secs_f64() * work(size_then) / work(size);
            if predicted(asked) <= RUN_MAX.as_secs_f64() {
                return asked;
            }
            // Short runs are mostly overhead and say little about long ones.
            if time > RUN_SMALL / 8 || size >= asked / 2 {
                let halves = std::iter::successors(Some(asked), |size| Some(size / 2));
                let fits =
                    |size: &u32| predicted(*size) <= RUN_SMALL.as_secs_f64() || *size <= benchmark.tiny;
                let fitting = halves.into_iter().find(fits).unwrap_or(benchmark.tiny);
                self.notes.push(format!(
                    "{}: {} runs {} instead of {}, which would take about {:.0} s",
                    benchmark.name,
                    backend.id(),
                    size_text(fitting),
                    size_text(asked),
                    predicted(asked)
                ));
                return fitting;
            }
            size = size.saturating_mul(2);
        }
    }

    fn group(
        &mut self,
        benchmark: &'static Benchmark,
        size: u32,
        backends: &[usize],
        tiny: &Checked,
    ) -> Result<Group, Error> {
        (self.progress)(&format!("{} {size}: inputs", benchmark.name));
        let full = by_plain_rust(benchmark, size)?;
        let results: Vec<Vec<u32>> =
            full.case.results(&full.written).iter().map(|words| words.to_vec()).collect();
        let mut group = Group {
            benchmark,
            size,
            bytes: full.case.bytes,
            ops: (benchmark.ops)(size, &results),
            digest: digest(&full.case.results(&full.written)),
            rows: Vec::new(),
        };
        let mut runners = Vec::new();
        for entry in self.entries(benchmark, size, backends) {
            let mut row = self.row(&entry);
            (self.progress)(&format!("{} {size}: {}", benchmark.name, row.contender));
            let tiny_entry = entry.at(benchmark.tiny);
            let checked = self.checked(&tiny_entry, tiny);
            match checked.and_then(|()| self.warm(&entry, &full)) {
                Ok(Some(runner)) => runners.push((group.rows.len(), runner)),
                Ok(None) => continue,
                Err(outcome) => row.outcome = outcome,
            }
            group.rows.push(row);
        }
        let (places, mut runners): (Vec<usize>, Vec<Runner<'_>>) = runners.into_iter().unzip();
        let rounds = self.options.rounds.or(self.options.quick.then_some(3));
        let progress = &mut *self.progress;
        let errors = measure::rounds(&mut runners, rounds, |round, rounds| {
            progress(&format!("{} {size}: round {} of {rounds}", benchmark.name, round + 1));
        });
        for ((place, runner), error) in places.iter().zip(&mut runners).zip(errors) {
            group.rows[*place].outcome = error.map_or_else(|| outcome(runner, &full), failed);
        }
        Ok(group)
    }

    fn entries(&self, benchmark: &'static Benchmark, size: u32, backends: &[usize]) -> Vec<Entry> {
        let baselines = match self.options.baselines {
            Baselines::All => benchmark.baselines,
            Baselines::Plain => &benchmark.baselines[..1],
            Baselines::Device | Baselines::Native | Baselines::None => &[],
        };
        let mut entries: Vec<Entry> = baselines.iter().map(Entry::Baseline).collect();
        entries.extend(self.nvcc.as_ref().map(|_| Entry::External(benchmark.name, size)));
        for at in backends {
            entries.extend(self.loose[*at].as_ref().map(|_| Entry::Loose(*at)));
            if self.backends[*at].supports_resident_dispatch() {
                entries.push(Entry::Resident(*at));
            }
            if self.loose[*at].is_none() {
                entries.push(Entry::Host(*at));
            }
        }
        entries
    }

    /// The row of one who takes part, before anything came of it.
    fn row(&self, entry: &Entry) -> Row {
        let id = |at: &usize| self.backends[*at].id().to_owned();
        let (contender, mode, backend) = match entry {
            Entry::Baseline(baseline) => (baseline.label.to_owned(), Mode::Baseline, None),
            Entry::External(name, _) => (external::label(name).to_owned(), Mode::Baseline, None),
            Entry::Resident(at) => (id(at), Mode::Resident, Some(at)),
            Entry::Host(at) => (format!("{} host", id(at)), Mode::Host, Some(at)),
            Entry::Loose(at) => (format!("{} native", id(at)), Mode::Loose, Some(at)),
        };
        let cold_ns = backend.and_then(|at| self.cold_ns[*at]);
        let beside = matches!(entry, Entry::External(..)).then(|| CUDA.to_owned());
        let backend = backend.map(id).or(beside);
        Row { contender, mode, backend, cold_ns, outcome: Outcome::Wrong(String::new()) }
    }

    fn contender<'c>(
        &self,
        entry: &Entry,
        case: &'c Case,
    ) -> Result<Option<Box<dyn Contender + 'c>>, Outcome> {
        let backend = |at: &usize| Arc::clone(&self.backends[*at]);
        Ok(Some(match (entry, &self.nvcc) {
            (Entry::Baseline(baseline), _) => Box::new(Native::new(case, baseline)),
            (Entry::Host(at), _) => Box::new(Host::new(backend(at), case)),
            (Entry::Resident(at), _) => Box::new(Resident::new(backend(at), true, case).map_err(failed)?),
            (Entry::Loose(at), _) => {
                let Some(loose) = &self.loose[*at] else { return Ok(None) };
                Box::new(Resident::new(Arc::clone(loose), false, case).map_err(failed)?)
            }
            (Entry::External(name, size), Some(nvcc)) => {
                match External::new(nvcc, name, *size, case).map_err(failed)? {
                    Some(external) => Box::new(external),
                    None => return Ok(None),
                }
            }
            (Entry::External(..), None) => return Ok(None),
        }))
    }

    /// Runs a contender at the tiny size and compares its results with the reference's.
    fn checked(&self, entry: &Entry, tiny: &Checked) -> Result<(), Outcome> {
        let Some(mut contender) = self.contender(entry, &tiny.case)? else { return Ok(()) };
        let run = contender.reset().and_then(|()| contender.run()).and_then(|_| contender.written());
        let run = run.map_err(failed)?;
        if contender.is_exact() {
            tiny.compare("at the tiny size, against the reference", &run)
        } else {
            Ok(())
        }
    }

    /// Makes a contender ready for the clock, if its results are right.
    fn warm<'c>(&self, entry: &Entry, full: &'c Checked) -> Result<Option<Runner<'c>>, Outcome> {
        let Some(contender) = self.contender(entry, &full.case)? else { return Ok(None) };
        let (runner, written) = Runner::warm_up(contender).map_err(failed)?;
        if runner.contender.is_exact() {
            full.compare("against plain Rust", &written)?;
        }
        Ok(Some(runner))
    }
}

impl Entry {
    /// The same at another size.
    fn at(&self, size: u32) -> Entry {
        match self {
            Entry::Baseline(baseline) => Entry::Baseline(baseline),
            Entry::External(name, _) => Entry::External(name, size),
            Entry::Resident(at) => Entry::Resident(*at),
            Entry::Host(at) => Entry::Host(*at),
            Entry::Loose(at) => Entry::Loose(*at),
        }
    }
}

fn failed(error: BackendError) -> Outcome {
    Outcome::Failed(error.into())
}

/// A case with the results that count.
struct Checked {
    case: Case,
    written: Vec<Vec<u32>>,
}

impl Checked {
    /// Says where results differ from those that count.
    fn compare(&self, when: &str, written: &[Vec<u32>]) -> Result<(), Outcome> {
        let wrong = |what: String| Err(Outcome::Wrong(format!("{when}: {what}")));
        let pairs = self.case.results(&self.written).into_iter().zip(self.case.results(written));
        for (expected, actual) in pairs {
            if expected.len() != actual.len() {
                return wrong(format!("{} words instead of {}", actual.len(), expected.len()));
            }
            if let Some(at) = (0..expected.len()).find(|at| expected[*at] != actual[*at]) {
                let (actual, expected) = (actual[at], expected[at]);
                return wrong(format!("word {at} is 0x{actual:08x} instead of 0x{expected:08x}"));
            }
        }
        Ok(())
    }
}

/// The results that count where the reference would take too long.
fn by_plain_rust(benchmark: &Benchmark, size: u32) -> Result<Checked, Error> {
    let case = (benchmark.make)(size);
    let mut plain = Native::new(&case, &benchmark.baselines[0]);
    plain.run()?;
    let written = plain.written()?;
    drop(plain);
    Ok(Checked { case, written })
}

/// The time of a backend's first run of programs; nothing where it fails, which is reported later.
fn cold(backend: &Arc<dyn VyreBackend>, case: &Case) -> Option<f64> {
    let time = measure::one_call(&mut Host::new(Arc::clone(backend), case));
    time.ok().map(|time| time.as_nanos() as f64)
}

/// The times of a contender whose results are still right.
fn outcome(runner: &mut Runner<'_>, full: &Checked) -> Outcome {
    let exact = runner.contender.is_exact();
    let again = runner.again().map_err(failed);
    match again.map(|written| full.compare("after the rounds, against plain Rust", &written)) {
        Ok(Err(outcome)) if exact => outcome,
        Ok(compared) => {
            let differs = compared.is_err();
            Outcome::Measured(Figures { times: runner.times(), differs, ratio: None, limit: None })
        }
        Err(outcome) => outcome,
    }
}

/// Every contender's time over the baseline's, and how much of its device's limits it reaches.
fn conclude(group: &mut Group, limits: &[(String, Limits)]) {
    let plain = group.benchmark.plain();
    let is_base =
        |row: &&Row| row.mode == Mode::Loose || (row.mode == Mode::Baseline && row.contender == plain);
    let base = group.rows.iter().find(is_base);
    // A backend beside itself differs by little, which the fastest rounds show best on a busy machine.
    let by_fastest = base.is_some_and(|row| row.mode == Mode::Loose);
    let time = |figures: &Figures| match by_fastest {
        true => figures.times.wall.min_ns,
        false => figures.times.wall.median_ns,
    };
    let base_ns = base.and_then(Row::figures).map(time);
    for row in &mut group.rows {
        let device = row.backend.as_deref().filter(|id| !limits::is_on_host(id)).unwrap_or(HOST);
        let limits = limits.iter().find(|(id, _)| id == device);
        let Outcome::Measured(figures) = &mut row.outcome else { continue };
        figures.ratio = base_ns.map(|base_ns| time(figures) / base_ns);
        figures.limit = limits.map(|(_, limits)| {
            let (bound, floor) = limits::floor(limits, group.bytes, group.ops, group.benchmark);
            (bound, floor / (figures.work_ns() / 1e9))
        });
    }
}
