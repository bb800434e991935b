//! The results of a run of the benchmarks, as data.

use crate::case::{Benchmark, OpKind};
use crate::contender::Mode;
use crate::limits::{Bound, Limits};
use crate::measure::Times;
use vyre::host::Error;

/// The whole of it.
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// The limits of the host and of each other device, by the backend's id.
    pub limits: Vec<(String, Limits)>,
    /// One benchmark at one size each.
    pub groups: Vec<Group>,
    /// Notes beside the figures.
    pub notes: Vec<String>,
}

/// Where a run took place.
pub struct Machine {
    /// The processor's own name.
    pub processor: String,
    /// Threads of the baselines.
    pub threads: usize,
    /// The widest vectors that the second baselines use.
    pub vectors: &'static str,
    /// Whether the command is an optimised build; the times of others mean nothing.
    pub optimised: bool,
}

/// One benchmark at one size, all contenders interleaved.
pub struct Group {
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// The size.
    pub size: u32,
    /// Bytes that must travel.
    pub bytes: u64,
    /// Operations that must be done.
    pub ops: u64,
    /// The digest that every contender's results have.
    pub digest: String,
    /// The contenders, the plain baseline first.
    pub rows: Vec<Row>,
}

/// One contender.
pub struct Row {
    /// Its name in tables.
    pub contender: String,
    /// How it works.
    pub mode: Mode,
    /// The backend's id, if it is one.
    pub backend: Option<String>,
    /// How long the backend's first run of these programs in this process took, compilation and all, at the tiny
    /// size and on the host's bytes.
    pub cold_ns: Option<f64>,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a contender.
pub enum Outcome {
    /// Its results are right and it took this long.
    Measured(Figures),
    /// Its results differ, with where.
    Wrong(String),
    /// It could not run.
    Failed(Error),
}

/// A contender's times and what follows from them.
pub struct Figures {
    /// The measured times.
    pub times: Times,
    /// Whether its results have other bits, which only those may have that do not promise any.
    pub differs: bool,
    /// Its time over that of the baseline, in the same group.
    pub ratio: Option<f64>,
    /// The limit that is met first and how much of it is reached, above 1 where data stays in caches; `None` where
    /// the limits were not measured.
    pub limit: Option<(Bound, f64)>,
}

impl Figures {
    /// The time that rates are of: the device's own where it is known.
    pub(crate) fn work_ns(&self) -> f64 {
        self.times.device.unwrap_or(self.times.wall).median_ns
    }
}

impl Row {
    /// The figures, if there are any.
    pub fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            Outcome::Measured(figures) => Some(figures),
            Outcome::Wrong(_) | Outcome::Failed(_) => None,
        }
    }
}

impl Group {
    /// Bytes in a nanosecond: GB in a second.
    pub fn gigabytes(&self, figures: &Figures) -> f64 {
        self.bytes as f64 / figures.work_ns()
    }

    /// Operations in a nanosecond: Gop in a second.
    pub fn gigaops(&self, figures: &Figures) -> f64 {
        self.ops as f64 / figures.work_ns()
    }

    /// The kind of its operations.
    pub fn kind(&self) -> OpKind {
        self.benchmark.kind
    }
}

/// A size as people write it: in units of 2^20 or 2^10 where it is a multiple.
///
/// ```
/// assert_eq!([100, 2048, 1 << 18, 1 << 24].map(vyre_bench::size_text), ["100", "2048", "256K", "16M"]);
/// ```
pub fn size_text(size: u32) -> String {
    match size.trailing_zeros() {
        20.. => format!("{}M", size >> 20),
        10..20 if size >= 1 << 13 => format!("{}K", size >> 10),
        _ => size.to_string(),
    }
}

impl Report {
    /// Whether any contender was wrong or failed.
    pub fn has_findings(&self) -> bool {
        let rows = self.groups.iter().flat_map(|group| &group.rows);
        rows.into_iter().any(|row| row.figures().is_none())
    }
}

impl Machine {
    pub(crate) fn this() -> Machine {
        Machine {
            processor: processor(),
            threads: rayon::current_num_threads(),
            vectors: vectors(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

fn processor() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

fn vectors() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            return "AVX-512";
        }
        if std::is_x86_feature_detected!("avx2") {
            return "AVX2";
        }
    }
    "128 bits"
}
