//! Memory with machine code in it: first written, then made executable and never written again.
#![allow(unsafe_code)]

use memmap2::{Mmap, MmapMut};

/// Machine code as an emitter makes it.
pub(crate) struct MachineCode {
    pub(crate) bytes: Vec<u8>,
    /// Where the function starts; constants may stand in front of it.
    pub(crate) entry: usize,
    /// Where the code of a line starts, and the line's site, in the order of the code; `u32::MAX` for no line.
    pub(crate) marks: Vec<(usize, u32)>,
}

/// Machine code of one vector-code function.
pub(crate) struct Executable {
    memory: Mmap,
    /// Where the function starts.
    entry: usize,
}

impl Executable {
    /// Puts machine code into memory of its own.
    pub(crate) fn new(code: &MachineCode) -> Result<Executable, String> {
        let (code, entry) = (&code.bytes, code.entry);
        let why =
            |error: std::io::Error| format!("no memory for {} bytes of machine code: {error}", code.len());
        assert!(entry < code.len(), "the function starts inside its code");
        let mut memory = MmapMut::map_anon(code.len()).map_err(why)?;
        memory.copy_from_slice(code);
        Ok(Executable { memory: memory.make_exec().map_err(why)?, entry })
    }

    /// Runs workgroups `first` to before `end`.
    ///
    /// # Safety
    /// The code must have been made from a function of vector code by an emitter of this crate. `context` must be the address
    /// of a launch's context that lists live memory of the lengths it says, and `scratch` that of as many bytes as the function
    /// asks for, aligned to 64, that nobody else uses meanwhile.
    pub(crate) unsafe fn run(&self, context: u64, scratch: u64, first: u64, end: u64) {
        let start = self.memory[self.entry..].as_ptr();
        // SAFETY: the code at `start` is a function of this type (the caller's promise), and stays there while `self` is
        // borrowed.
        let function: unsafe extern "C" fn(u64, u64, u64, u64) = unsafe { std::mem::transmute(start) };
        // SAFETY: its arguments are as it wants them (the caller's promise).
        unsafe { function(context, scratch, first, end) }
    }
}
