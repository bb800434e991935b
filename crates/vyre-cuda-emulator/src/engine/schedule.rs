//! Who runs next: seeded choices that the ISA leaves open.
//!
//! Lanes of a warp may run together or apart, and warps in any order. A program that relies on one of these orders is
//! wrong, so launches take turns among them.

use crate::choices::Choices;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How lanes and warps are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Lanes that are behind go first, so that lanes meet again as soon as they can.
    Lockstep,
    /// One lane of each warp goes as far as it can before the others.
    Ahead,
    /// Each lane by itself, one instruction at a time.
    RoundRobin,
    /// Any lanes, for a few instructions.
    Random,
}

/// The order of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// How lanes and warps are chosen.
    pub order: Order,
    /// What the choices begin with.
    pub seed: u64,
}

/// What a launch leaves to the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Who runs next.
    pub schedule: Schedule,
    /// Whether accesses that nothing orders are reported, which takes time and memory.
    pub races: bool,
    /// How long a kernel may run, as on hardware that also has a display.
    pub watchdog: Option<Duration>,
}

impl Options {
    /// What `VYRE_EMULATED_SCHEDULE`, `VYRE_EMULATED_CHECKS` and `VYRE_EMULATED_WATCHDOG` say of the next launch.
    pub fn from_environment() -> Options {
        // `check_environment` has refused what is not known.
        let (races, watchdog) = (asks_for("races").unwrap_or(false), watchdog().unwrap_or(None));
        Options { schedule: Schedule::next(), races, watchdog }
    }

    /// Whether the variables say what is known. The error is for a person.
    pub fn check_environment() -> Result<(), String> {
        asks_for("races").and_then(|_| wanted()).and_then(|_| watchdog()).map(|_| ())
    }
}

/// The seconds that `VYRE_EMULATED_WATCHDOG` gives a kernel.
pub fn watchdog() -> Result<Option<Duration>, String> {
    let text = std::env::var("VYRE_EMULATED_WATCHDOG").unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(Some(Duration::from_secs(seconds))),
        _ => {
            let text = text.escape_debug();
            Err(format!(
                "VYRE_EMULATED_WATCHDOG: `{text}` is no time. Fix: write seconds, as in `10`, or unset it"
            ))
        }
    }
}

/// Whether `VYRE_EMULATED_CHECKS`, names with commas in between, asks for a check.
pub(crate) fn asks_for(check: &str) -> Result<bool, String> {
    let text = std::env::var("VYRE_EMULATED_CHECKS").unwrap_or_default();
    let names = || text.split(',').map(str::trim).filter(|name| !name.is_empty());
    match names().find(|name| !["races", "leaks"].contains(name)) {
        None => Ok(names().any(|name| name == check)),
        Some(other) => {
            let other = other.escape_debug();
            Err(format!(
                "VYRE_EMULATED_CHECKS: `{other}` is no check. Fix: write `races`, `leaks` or both with a comma in between, or unset it"
            ))
        }
    }
}

/// What `VYRE_EMULATED_SCHEDULE` says: an order and a seed, or nothing.
fn wanted() -> Result<(Option<Order>, u64), String> {
    let text = std::env::var("VYRE_EMULATED_SCHEDULE").unwrap_or_default();
    let (name, seed) = text.split_once(':').unwrap_or((&text, "0"));
    let order = match name {
        "" => Some(None),
        "lockstep" => Some(Some(Order::Lockstep)),
        "ahead" => Some(Some(Order::Ahead)),
        "roundrobin" => Some(Some(Order::RoundRobin)),
        "random" => Some(Some(Order::Random)),
        _ => None,
    };
    order.zip(seed.parse().ok()).ok_or_else(|| {
        let text = text.escape_debug();
        let fix = "write `lockstep`, `ahead`, `roundrobin` or `random`, and a seed as in `random:7`";
        format!("VYRE_EMULATED_SCHEDULE: `{text}` is no schedule. Fix: {fix}")
    })
}

impl Schedule {
    /// The order of the next launch. Without a wish most launches run in lockstep, which is the quickest.
    fn next() -> Schedule {
        static WANTED: OnceLock<(Option<Order>, u64)> = OnceLock::new();
        static LAUNCHES: AtomicU64 = AtomicU64::new(0);
        let (order, seed) = WANTED.get_or_init(|| wanted().unwrap_or_default());
        let number = LAUNCHES.fetch_add(1, Ordering::Relaxed);
        let seed = Choices::new(*seed).at(number);
        let turn = match seed % 8 {
            0 => Order::Ahead,
            1 => Order::Random,
            2 if number < 1000 => Order::RoundRobin,
            _ => Order::Lockstep,
        };
        Schedule { order: order.unwrap_or(turn), seed }
    }
}
