//! Records the driver's spans as a trace that Chrome's tracing page and Perfetto show.

use crate::report::Failure;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::layer::SubscriberExt;

/// A recording under way. Its trace is kept in memory, because the recorder cannot report a failed write.
pub(crate) struct Recording {
    path: PathBuf,
    guard: FlushGuard,
    trace: Memory,
}

/// Starts recording.
pub(crate) fn record(path: &Path) -> Recording {
    let trace = Memory::default();
    let (layer, guard) = ChromeLayerBuilder::new().writer(trace.clone()).include_args(true).build();
    // The command runs once, so nobody else has set one.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
    Recording { path: path.to_owned(), guard, trace }
}

impl Recording {
    /// Ends the recording and writes its file.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        drop(self.guard);
        let trace = self.trace.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::fs::write(&self.path, &*trace).map_err(|error| {
            let message = format!("cannot write {}: {error}", self.path.display());
            Failure::io(message, "name a place you may write to")
        })
    }
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
