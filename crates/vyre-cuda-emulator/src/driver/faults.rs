//! Faults on demand: what the file that `VYRE_EMULATED_FAULTS` names says of launches, allocations and copies.
//!
//! ```text
//! # One rule a line.
//! launch 3: lost
//! launch every 10: illegal address
//! launch 2..4: hangs
//! allocation 5: out of memory
//! copy 4: fails
//! call every 50: invalid value
//! ```
//! A call is one of any function that needs a context: it returns the code, and does nothing. Events are counted from 1 in the
//! order of the calls, over all devices of the process; a graph's launches count when the graph is launched. A code that a call
//! itself would return comes back from the call; any other happens on the stream and poisons the context.
//! Not here: rules that begin with `miscompile`, `crash` or `refuse`, and the indented lines below them.

use super::{Call, invalid};
use crate::fault::{Code, Fault};
use std::sync::atomic::{AtomicU64, Ordering};

/// What happens to an operation on a stream in place of what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Fail(Fault),
    /// It never ends, until its context is destroyed.
    Hang,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Launch,
    Allocation,
    Copy,
    Call,
}

const EVENTS: [(&str, Event); 4] = [
    ("launch", Event::Launch),
    ("allocation", Event::Allocation),
    ("copy", Event::Copy),
    ("call", Event::Call),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// From the first number to the second, both included.
    Between(u64, u64),
    Every(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    event: Event,
    when: When,
    effect: Effect,
}

/// The rules, and how many of each event there were.
#[derive(Default)]
pub(super) struct Hooks {
    rules: Vec<Rule>,
    counts: [AtomicU64; EVENTS.len()],
}

/// Names of what can happen, with the code that comes of it.
const FAULTS: [(&str, Code); 16] = [
    ("lost", Code::LaunchFailed),
    ("fails", Code::LaunchFailed),
    ("launch failed", Code::LaunchFailed),
    ("ecc", Code::EccUncorrectable),
    ("illegal address", Code::IllegalAddress),
    ("misaligned address", Code::MisalignedAddress),
    ("illegal instruction", Code::IllegalInstruction),
    ("invalid address space", Code::InvalidAddressSpace),
    ("invalid pc", Code::InvalidPc),
    ("stack error", Code::HardwareStackError),
    ("assert", Code::Assert),
    ("timeout", Code::LaunchTimeout),
    ("unknown", Code::Unknown),
    ("out of memory", Code::OutOfMemory),
    ("out of resources", Code::LaunchOutOfResources),
    ("invalid value", Code::InvalidValue),
];

impl Hooks {
    /// The rules of the file that the environment names; none without one.
    pub(super) fn from_env() -> Call<Hooks> {
        let Some(path) = std::env::var_os("VYRE_EMULATED_FAULTS").filter(|path| !path.is_empty()) else {
            return Ok(Hooks::default());
        };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let path = path.display();
            invalid(&format!(
                "VYRE_EMULATED_FAULTS: {path}: {error}. Fix: name a file that can be read, or unset it"
            ))
        })?;
        Hooks::parse(&text)
            .map_err(|error| invalid(&format!("VYRE_EMULATED_FAULTS: {}: {error}", path.display())))
    }

    fn parse(text: &str) -> Result<Hooks, String> {
        let mut rules = Vec::new();
        let mut others = false;
        for (number, line) in (1..).zip(text.lines()) {
            let content = line.split('#').next().unwrap_or_default();
            if content.trim().is_empty() || others && content.starts_with([' ', '\t']) {
                continue;
            }
            let word = content.split([' ', ':', '\t']).next().unwrap_or_default();
            others = ["miscompile", "crash", "refuse"].contains(&word);
            if !others {
                rules.push(Rule::parse(content).map_err(|error| format!("line {number}: {error}"))?);
            }
        }
        Ok(Hooks { rules, counts: Default::default() })
    }

    /// What happens at the next launch. An error is returned by the call.
    pub(super) fn launch(&self) -> Call<Option<Effect>> {
        self.next(Event::Launch)
    }

    /// What happens at the next copy.
    pub(super) fn copy(&self) -> Call<Option<Effect>> {
        self.next(Event::Copy)
    }

    /// What happens at the next allocation of device memory.
    pub(super) fn allocation(&self) -> Call {
        self.at_once(Event::Allocation)
    }

    /// What happens at the next call of any function.
    pub(super) fn call(&self) -> Call {
        self.at_once(Event::Call)
    }

    /// An event that is the call's own, and so returns every code from there.
    fn at_once(&self, event: Event) -> Call {
        match self.next(event)? {
            Some(Effect::Fail(fault)) => Err(fault),
            Some(Effect::Hang) | None => Ok(()),
        }
    }

    fn next(&self, event: Event) -> Call<Option<Effect>> {
        if self.rules.is_empty() {
            return Ok(None);
        }
        let number = self.counts[event as usize].fetch_add(1, Ordering::Relaxed) + 1;
        let applies = |rule: &&Rule| rule.event == event && rule.when.includes(number);
        match self.rules.iter().find(applies).map(|rule| &rule.effect) {
            Some(Effect::Fail(fault)) => {
                let name = EVENTS[event as usize].0;
                let fault = Fault::new(fault.code, format!("{name} {number}: {}", fault.message));
                if is_sticky(fault.code) { Ok(Some(Effect::Fail(fault))) } else { Err(fault) }
            }
            other => Ok(other.cloned()),
        }
    }
}

/// Whether a code says that the context is lost.
fn is_sticky(code: Code) -> bool {
    !matches!(code, Code::OutOfMemory | Code::LaunchOutOfResources | Code::InvalidValue)
}

impl When {
    fn includes(self, number: u64) -> bool {
        match self {
            When::Between(first, last) => (first..=last).contains(&number),
            When::Every(step) => number.is_multiple_of(step),
        }
    }

    fn parse(text: &str) -> Option<When> {
        let number = |text: &str| text.trim().parse::<u64>().ok().filter(|number| *number > 0);
        if let Some(step) = text.strip_prefix("every ") {
            return number(step).map(When::Every);
        }
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let (first, last) = (number(first)?, number(last)?);
        (first <= last).then_some(When::Between(first, last))
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Rule, String> {
        const FORM: &str = "Fix: write `launch 3: lost`, `launch 2: hangs`, `allocation 5: out of memory` or `copy 4: fails`; \
             in place of the number also `3..5` or `every 10`";
        let wrong = || format!("`{}` is no rule. {FORM}", text.trim().escape_debug());
        let (head, what) = text.split_once(':').ok_or_else(wrong)?;
        let (name, when) = head.trim().split_once(' ').ok_or_else(wrong)?;
        let event = EVENTS.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?.1;
        let when = When::parse(when.trim()).ok_or_else(wrong)?;
        let what = what.trim();
        let effect = match what {
            "hangs" if matches!(event, Event::Launch | Event::Copy) => Effect::Hang,
            _ => {
                let known = FAULTS.iter().find(|(known, _)| *known == what);
                let names: Vec<_> = FAULTS.iter().map(|(name, _)| *name).collect();
                let unknown = || {
                    let what = what.escape_debug();
                    format!(
                        "`{what}` is no fault. Fix: use `hangs` (for launches and copies) or one of {}",
                        names.join(", ")
                    )
                };
                let message = format!("`{what}`, as the file of faults asks for");
                Effect::Fail(Fault::new(known.ok_or_else(unknown)?.1, message))
            }
        };
        Ok(Rule { event, when, effect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_apply_to_the_events_that_they_number() {
        let text = "# faults\nlaunch 2: hangs\nmiscompile: x\n  add.s32\n    mul\ncrash: y\n\tz\nlaunch 4..5: ecc\n\
                    copy every 3: lost # sometimes\nallocation 1: out of memory\n";
        let hooks = Hooks::parse(text).expect("it is well-formed");
        let launches: Vec<_> = (0..6).map(|_| hooks.launch().expect("no call fails")).collect();
        assert_eq!(launches[1], Some(Effect::Hang));
        for (at, launch) in launches.iter().enumerate() {
            assert_eq!(launch.is_some(), [1, 3, 4].contains(&at), "launch {}", at + 1);
        }
        let copies: Vec<_> = (0..6).map(|_| hooks.copy().expect("no call fails").is_some()).collect();
        assert_eq!(copies, [false, false, true, false, false, true]);
        assert_eq!(hooks.allocation().expect_err("the first fails").code, Code::OutOfMemory);
        hooks.allocation().expect("the second does not");
    }

    #[test]
    fn wrong_rules_are_refused_with_their_line_and_a_fix() {
        for rule in [
            "launch",
            "launch 0: lost",
            "launch 3: gone",
            "load 3: lost",
            "launch 5..3: lost",
            "allocation 1: hangs",
            "call 1: hangs",
            "  x",
        ] {
            let error = Hooks::parse(&format!("\n{rule}\n")).err().unwrap_or_default();
            assert!(error.starts_with("line 2: ") && error.contains("Fix: "), "{rule}: {error}");
        }
    }
}
