//! Machine code by Cranelift, with vectors of 128 bits: for every host that Cranelift knows.
//!
//! A vector of 32-bit lanes is one `i32x4`, one of 64-bit lanes two `i64x2`, a mask an `i32x4` of all ones and zeros. What the
//! 128-bit instructions of common processors lack is done lane by lane. Masked accesses have no branches: a lane that is
//! off reads zeros, or writes, somewhere on the stack.

mod emit;
mod lanes;

use crate::executable::MachineCode;
use crate::vector::code::Function;
use crate::vector::lower::Shape;
use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, control::ControlPlane, ir};

/// The vectors this emitter wants.
pub(crate) const SHAPE: Shape = Shape { lanes: 4, lanes_wide: 4, vectors_max: 4, registers: 16 };

/// Instructions of a function beyond which the time to compile it counts. The better allocator of registers wants time for
/// every block that a value lives through, which long functions have many of, and many values too.
const GOOD_INSTS_MAX: usize = 30_000;

/// The host as Cranelift sees it.
pub(crate) struct Portable {
    isa: OwnedTargetIsa,
    /// The same for functions that would take too long.
    quick: OwnedTargetIsa,
    /// Whether `fma` is an instruction here.
    has_fma: bool,
}

impl Portable {
    /// Opens the host; `Err` says why it cannot be compiled for.
    pub(crate) fn new() -> Result<Portable, String> {
        let isa = |level: &str, registers: &str| {
            let mut flags = settings::builder();
            let verify = if cfg!(debug_assertions) { "true" } else { "false" };
            let chosen = [
                ("opt_level", level),
                ("regalloc_algorithm", registers),
                ("enable_verifier", verify),
                ("unwind_info", "false"),
            ];
            for (name, value) in chosen {
                flags.set(name, value).map_err(|error| error.to_string())?;
            }
            let host = target_lexicon::Triple::host();
            let mut builder = isa::lookup(host).map_err(|error| error.to_string())?;
            for name in host_features() {
                builder.enable(name).map_err(|error| error.to_string())?;
            }
            builder.finish(settings::Flags::new(flags)).map_err(|error| error.to_string())
        };
        let (isa, quick) = (isa("speed", "backtracking")?, isa("none", "single_pass")?);
        let has_fma = cfg!(not(target_arch = "x86_64")) || host_features().contains(&"has_fma");
        Ok(Portable { isa, quick, has_fma })
    }

    /// Compiles a function of four lanes.
    pub(crate) fn compile(&self, function: &Function) -> Result<MachineCode, String> {
        let insts: usize = function.blocks.iter().map(|block| block.insts.len()).sum();
        let isa = if insts > GOOD_INSTS_MAX { &*self.quick } else { &*self.isa };
        let signature = emit::signature(isa);
        let mut context =
            Context::for_function(ir::Function::with_name_signature(ir::UserFuncName::default(), signature));
        emit::emit(function, &mut context.func, isa, self.has_fma);
        let compiled = context
            .compile(isa, &mut ControlPlane::default())
            .map_err(|error| format!("{:?}", error.inner))?;
        if let Some(relocation) = compiled.buffer.relocs().first() {
            return Err(format!("the code wants a symbol: {relocation:?}"));
        }
        let marks = compiled.buffer.get_srclocs_sorted().iter();
        let marks = marks.map(|mark| (mark.start as usize, mark.loc.bits())).collect();
        Ok(MachineCode { bytes: compiled.buffer.data().to_vec(), entry: 0, marks })
    }
}

/// The processor's features that vector code profits from, by Cranelift's names.
fn host_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let found = [
            ("has_sse3", std::is_x86_feature_detected!("sse3")),
            ("has_ssse3", std::is_x86_feature_detected!("ssse3")),
            ("has_sse41", std::is_x86_feature_detected!("sse4.1")),
            ("has_sse42", std::is_x86_feature_detected!("sse4.2")),
            ("has_popcnt", std::is_x86_feature_detected!("popcnt")),
            ("has_lzcnt", std::is_x86_feature_detected!("lzcnt")),
            ("has_bmi1", std::is_x86_feature_detected!("bmi1")),
            ("has_avx", std::is_x86_feature_detected!("avx")),
            ("has_avx2", std::is_x86_feature_detected!("avx2")),
            ("has_fma", std::is_x86_feature_detected!("fma") && std::is_x86_feature_detected!("avx")),
        ];
        found.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}
