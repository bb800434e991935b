//! Memory with machine code in it: first written, then made executable and never written again.
//!
//! Getting memory from the system takes as long as several passes of the compiler. So it comes in chunks, and each function
//! has pages of one for itself. A chunk goes back with the last of its functions.
#![allow(unsafe_code)]

use std::io;

/// Machine code as an emitter makes it.
pub(crate) struct MachineCode {
    pub(crate) bytes: Vec<u8>,
    /// Where the function starts; constants may precede it.
    pub(crate) entry: usize,
    /// Where the code of a line starts, and the line's site, in the order of the code; `u32::MAX` for no line.
    pub(crate) marks: Vec<(usize, u32)>,
}

/// Machine code of one vector-code function.
pub(crate) struct Executable {
    memory: pages::Memory,
    /// Where the function starts.
    entry: usize,
}

impl Executable {
    /// Puts machine code into pages of its own.
    pub(crate) fn new(code: &MachineCode) -> Result<Executable, String> {
        let (code, entry) = (&code.bytes, code.entry);
        let why = |error: io::Error| format!("no memory for {} bytes of machine code: {error}", code.len());
        assert!(entry < code.len(), "the function starts inside its code");
        let (memory, start) = pages::put(code).map_err(why)?;
        Ok(Executable { memory, entry: start + entry })
    }

    /// Runs workgroups `first` to before `end`.
    ///
    /// # Safety
    /// The code must have been made from a function of vector code by an emitter of this crate. `context` must be the address
    /// of a launch's context that lists live memory of the lengths it says, and `scratch` that of as many bytes as the function
    /// asks for, aligned to 64, that no other call uses meanwhile.
    pub(crate) unsafe fn run(&self, context: u64, scratch: u64, first: u64, end: u64) {
        let start = self.memory.as_ptr().wrapping_add(self.entry);
        // SAFETY: the code at `start` is a function of this type (the caller's promise), and stays there while `self` is
        // borrowed.
        let function: unsafe extern "C" fn(u64, u64, u64, u64) = unsafe { std::mem::transmute(start) };
        // SAFETY: its arguments are as it wants them (the caller's promise).
        unsafe { function(context, scratch, first, end) }
    }
}

#[cfg(unix)]
mod pages {
    use memmap2::{MmapMut, MmapOptions, MmapRaw};
    use std::io;
    use std::sync::{Arc, Mutex, PoisonError};

    pub(super) type Memory = Arc<MmapRaw>;

    /// Room for about ten functions of 50 lines.
    const CHUNK_BYTES: usize = 64 << 10;

    /// The chunk that has pages left, and the bytes of it that are taken.
    static OPEN: Mutex<Option<(Memory, usize)>> = Mutex::new(None);

    /// Memory that only `code` is in, and where it starts there.
    pub(super) fn put(code: &[u8]) -> io::Result<(Memory, usize)> {
        // SAFETY: it only asks.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let bytes = code.len().next_multiple_of(usize::try_from(page).map_err(io::Error::other)?);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let left = open.take().filter(|(chunk, taken)| bytes <= chunk.len() - taken);
        let (chunk, start) = match left {
            Some(left) => left,
            None => {
                let fresh: MmapMut = MmapOptions::new().len(bytes.max(CHUNK_BYTES)).populate().map_anon()?;
                (Arc::new(fresh.into()), 0)
            }
        };
        let to = chunk.as_mut_ptr().wrapping_add(start);
        // SAFETY: `bytes` from `to` on are inside the chunk and writable, and unused: they follow what is taken,
        // and the lock is held.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), to, code.len()) };
        // SAFETY: these are whole pages, and no reference points into them.
        let failed = unsafe { libc::mprotect(to.cast(), bytes, libc::PROT_READ | libc::PROT_EXEC) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        *open = Some((Arc::clone(&chunk), start + bytes));
        Ok((chunk, start))
    }
}

#[cfg(not(unix))]
mod pages {
    use memmap2::{Mmap, MmapMut};
    use std::io;

    pub(super) type Memory = Mmap;

    /// Memory that only `code` is in, and where it starts there.
    pub(super) fn put(code: &[u8]) -> io::Result<(Memory, usize)> {
        let mut memory = MmapMut::map_anon(code.len())?;
        memory.copy_from_slice(code);
        Ok((memory.make_exec()?, 0))
    }
}
