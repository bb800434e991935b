//! The limits of memory and arithmetic units, measured in the same run as the kernels that are compared with them.
//!
//! On the host's own processor Rust loops on all cores, with its widest vectors, measure the limits; on other devices
//! three small kernels do. A limit is the best of several tries, some before
//! each benchmark: noise only ever makes it lower.
//!
//! Not here: caches, latencies, shared memory. A kernel that neither limit explains is bound by one of those.

use crate::case::{Benchmark, Case, OpKind, Written, random_words};
use crate::contender::{Contender, Resident};
use crate::suite::widest;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;
use vyre::VyreBackend;
use vyre::host::Error;

/// Tries of each limit at a time.
const TRIES: usize = 3;
/// Bytes of each of the two buffers that are copied.
const COPY_BYTES: usize = 1 << 27;

/// The measured rates of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bytes read and written by a copy.
    pub bytes_per_second: f64,
    /// 32-bit integer operations: shifts, exclusive ors, products, sums in equal parts.
    pub u32_per_second: f64,
    /// f32 products and sums in equal parts, not fused.
    pub f32_per_second: f64,
}

impl Limits {
    /// Operations of a kind.
    pub(crate) fn ops_per_second(&self, kind: OpKind) -> f64 {
        match kind {
            OpKind::U32 => self.u32_per_second,
            OpKind::F32 => self.f32_per_second,
        }
    }

    /// The better of each.
    pub(crate) fn or_better(&self, other: &Limits) -> Limits {
        Limits {
            bytes_per_second: self.bytes_per_second.max(other.bytes_per_second),
            u32_per_second: self.u32_per_second.max(other.u32_per_second),
            f32_per_second: self.f32_per_second.max(other.f32_per_second),
        }
    }
}

/// The backends whose limits are the host's.
const ON_HOST: [&str; 2] = ["reference", "cpu"];

/// Whether a backend runs on the host's own processor, as far as this crate knows.
pub(crate) fn is_on_host(backend: &str) -> bool {
    ON_HOST.contains(&backend)
}

/// Work over the time that the fastest try takes.
fn best(work: f64, mut run: impl FnMut() -> f64) -> f64 {
    (0..TRIES).map(|_| work / run()).fold(0.0, f64::max)
}

fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64().max(1e-9)
}

/// The limits of the host's processor, without the first touch of memory that a copy would else begin with.
pub(crate) fn host() -> Limits {
    let from = vec![1u8; COPY_BYTES];
    let mut to = vec![2u8; COPY_BYTES];
    let part = COPY_BYTES / rayon::current_num_threads() / 8;
    let bytes_per_second = best(2.0 * COPY_BYTES as f64, || {
        seconds(|| {
            let parts = to.par_chunks_mut(part).zip(from.par_chunks(part));
            parts.for_each(|(to, from)| to.copy_from_slice(from));
        })
    });
    let all = |each: fn(u32) -> u64| {
        seconds(|| {
            let ended: u64 = rayon::broadcast(|context| each(context.index() as u32)).iter().sum();
            std::hint::black_box(ended);
        })
    };
    let ops = LANES as f64 * f64::from(ROUNDS) * rayon::current_num_threads() as f64;
    Limits {
        bytes_per_second,
        u32_per_second: best(4.0 * ops, || all(u32_chains)),
        f32_per_second: best(2.0 * ops, || all(f32_chains)),
    }
}

/// Chains side by side: twelve of the widest vectors, enough to keep every unit busy.
const LANES: usize = 192;
const ROUNDS: u32 = 1 << 19;

fn u32_chains(seed: u32) -> u64 {
    widest(|| {
        let mut lanes: [u32; LANES] = std::array::from_fn(|lane| seed + lane as u32);
        for round in 0..ROUNDS {
            lanes.iter_mut().for_each(|x| *x = (*x ^ *x >> 13).wrapping_mul(0x85eb_ca6b).wrapping_add(round));
        }
        lanes.iter().map(|x| u64::from(*x)).sum()
    })
}

fn f32_chains(seed: u32) -> u64 {
    widest(|| {
        let mut lanes: [f32; LANES] = std::array::from_fn(|lane| (seed + lane as u32) as f32);
        for _ in 0..ROUNDS {
            lanes.iter_mut().for_each(|x| *x = *x * 0.5 + 1.5);
        }
        lanes.iter().map(|x| u64::from(x.to_bits())).sum()
    })
}

/// Lanes of the kernels below, and operations of each.
const DEVICE_LANES: u32 = 1 << 20;
const DEVICE_CHAINS: u64 = 4 * 256;

/// The limits of a backend's device, by kernels.
pub(crate) fn device(backend: &Arc<dyn VyreBackend>) -> Result<Limits, Error> {
    let copy = Case::single(
        include_str!("../kernels/limit_copy.vyre"),
        vec![random_words(1, COPY_BYTES / 4)],
        Written::result(COPY_BYTES / 4),
        [(COPY_BYTES / 4 / 256) as u32, 1, 1],
    );
    let ops = |source| {
        let written = Written::result(DEVICE_LANES as usize);
        Case::single(source, Vec::new(), written, [DEVICE_LANES / 256, 1, 1])
    };
    let lanes = u64::from(DEVICE_LANES);
    let rate = |case: &Case, work: u64| -> Result<f64, Error> {
        let mut contender = Resident::new(Arc::clone(backend), true, case)?;
        contender.run()?;
        let mut rate: f64 = 0.0;
        for _ in 0..TRIES {
            let start = Instant::now();
            let device_ns = contender.run()?;
            let seconds = device_ns.map_or(start.elapsed().as_secs_f64(), |ns| ns as f64 / 1e9);
            rate = rate.max(work as f64 / seconds.max(1e-9));
        }
        Ok(rate)
    };
    let u32_ops = 4 * DEVICE_CHAINS * lanes;
    let f32_ops = 2 * DEVICE_CHAINS * lanes;
    Ok(Limits {
        bytes_per_second: rate(&copy, copy.bytes)?,
        u32_per_second: rate(&ops(include_str!("../kernels/limit_u32.vyre")), u32_ops)?,
        f32_per_second: rate(&ops(include_str!("../kernels/limit_f32.vyre")), f32_ops)?,
    })
}

/// The limit that bounds a benchmark, if one of these does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The bytes that must travel.
    Memory,
    /// The operations that must be done.
    Ops,
}

impl Bound {
    /// The bound's name.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Memory => "memory",
            Bound::Ops => "ops",
        }
    }
}

/// Which limit would be met first, and the time it allows for, in seconds.
pub(crate) fn floor(limits: &Limits, bytes: u64, ops: u64, benchmark: &Benchmark) -> (Bound, f64) {
    let memory = bytes as f64 / limits.bytes_per_second;
    let arithmetic = ops as f64 / limits.ops_per_second(benchmark.kind);
    if memory >= arithmetic { (Bound::Memory, memory) } else { (Bound::Ops, arithmetic) }
}
