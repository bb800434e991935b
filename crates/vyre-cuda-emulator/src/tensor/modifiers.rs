//! What follows an instruction's name, taken apart word by word, and what a target must offer.
//!
//! Modifiers are taken in any order, as `ptxas` takes them. Only types keep theirs.

use crate::alu::Target;

/// The modifiers of one instruction that nothing has claimed yet.
pub(super) struct Modifiers<'a> {
    name: &'static str,
    left: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    /// Those of the instruction `name`, which messages call it by.
    pub(super) fn new(name: &'static str, words: &[&'a str]) -> Modifiers<'a> {
        Modifiers { name, left: words.to_vec() }
    }

    /// Takes one of that word, if there is one.
    pub(super) fn take(&mut self, word: &str) -> bool {
        self.take_where(|other| other == word).is_some()
    }

    /// Takes the first word that is as wanted.
    pub(super) fn take_where(&mut self, wanted: impl Fn(&str) -> bool) -> Option<&'a str> {
        let at = self.left.iter().position(|word| wanted(word))?;
        Some(self.left.remove(at))
    }

    /// Takes all words that are as wanted, in their order.
    pub(super) fn take_all(&mut self, wanted: impl Fn(&str) -> bool) -> Vec<&'a str> {
        let (taken, left) = self.left.iter().partition(|word| wanted(word));
        self.left = left;
        taken
    }

    /// Takes a word that must be there.
    pub(super) fn require(&mut self, word: &str) -> Result<(), String> {
        let found = self.take(word);
        found
            .then_some(())
            .ok_or_else(|| format!(".{word} modifier required for instruction '{}'", self.name))
    }

    /// Takes `.sync` and `.aligned`, which all instructions of a warp must have.
    pub(super) fn require_sync_aligned(&mut self) -> Result<(), String> {
        self.require("sync")?;
        self.require("aligned")
    }

    /// Takes the state space `.shared` or `.shared::cta`, if there is one.
    pub(super) fn take_shared(&mut self, target: Target) -> Result<bool, String> {
        if self.take("shared::cta") {
            needs("::cta", target, 78, 0)?;
            return Ok(true);
        }
        Ok(self.take("shared"))
    }

    /// Whether one of the words left is as wanted.
    pub(super) fn any(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.left.iter().any(|word| wanted(word))
    }

    /// Ends it: what is left is an error.
    pub(super) fn finish(self) -> Result<(), String> {
        self.left.first().map_or(Ok(()), |word| {
            Err(format!(
                "Modifier '.{word}' of instruction '{}' is unknown, repeated or not emulated",
                self.name
            ))
        })
    }
}

/// Whether a word names a matrix shape: `m16n8k32`.
pub(super) fn is_shape(word: &str) -> bool {
    dimensions(word).is_some()
}

/// The rows, columns and depth in the name of a shape.
pub(super) fn dimensions(word: &str) -> Option<[usize; 3]> {
    let (rows, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (columns, depth) = rest.split_once('k')?;
    Some([rows.parse().ok()?, columns.parse().ok()?, depth.parse().ok()?])
}

/// Whether a word is the type of a float, of whatever width.
pub(super) fn is_float(word: &str) -> bool {
    matches!(
        word,
        "f16"
            | "bf16"
            | "tf32"
            | "f32"
            | "f64"
            | "e4m3"
            | "e5m2"
            | "e3m2"
            | "e2m3"
            | "e2m1"
            | "ue8m0"
            | "ue4m3"
    )
}

/// The error for products of floats.
pub(super) fn float_product(name: &str) -> String {
    format!(
        "'{name}' with float types is not emulated: the PTX ISA does not define the order and the rounding of its \
         accumulation, so no result can be called the right one"
    )
}

/// Refuses a target whose `.version`, times ten, or whose `sm_` is lower.
pub(super) fn needs(feature: &str, target: Target, version: u32, sm: u32) -> Result<(), String> {
    if target.version < version {
        let (major, minor) = (version / 10, version % 10);
        return Err(format!("Feature '{feature}' requires PTX ISA .version {major}.{minor} or later"));
    }
    if target.sm < sm {
        return Err(format!("Feature '{feature}' requires .target sm_{sm} or higher"));
    }
    Ok(())
}

/// Refuses a target that is not exactly `sm_90a`.
pub(super) fn needs_sm_90a(name: &str, target: Target) -> Result<(), String> {
    needs(name, target, 80, 0)?;
    if target.sm == 90 && target.specific {
        return Ok(());
    }
    let suffix = if target.specific { "a" } else { "" };
    Err(format!("Instruction '{name}' not supported on .target 'sm_{}{suffix}'", target.sm))
}
