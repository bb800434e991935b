//! Events of drivers: warnings and notes about slow steps go to standard error, spans become a
//! trace for Chrome's tracing page and Perfetto.

use crate::report::Failure;
use std::fmt::{Debug, Write};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// A recording in progress. Its trace is kept in memory, because the recorder cannot report a failed write.
pub(crate) struct Recording {
    path: PathBuf,
    guard: FlushGuard,
    trace: Memory,
}

/// Shows the events of drivers.
pub(crate) fn listen() {
    // The command runs once, so no subscriber is set yet.
    let _ = set_global_default(tracing_subscriber::registry().with(Notices { is_alone: true }));
}

/// The same, and starts recording.
pub(crate) fn record(path: &Path) -> Recording {
    let trace = Memory::default();
    let (layer, guard) = ChromeLayerBuilder::new().writer(trace.clone()).include_args(true).build();
    let both = tracing_subscriber::registry().with(layer).with(Notices { is_alone: false });
    let _ = set_global_default(both);
    Recording { path: path.to_owned(), guard, trace }
}

/// Writes the events of drivers to standard error, a line each.
struct Notices {
    /// Only these events are enabled, so that spans cost nothing.
    is_alone: bool,
}

fn is_notice(metadata: &Metadata<'_>) -> bool {
    metadata.is_event() && *metadata.level() <= Level::INFO && metadata.target().starts_with("vyre")
}

impl<S: Subscriber> Layer<S> for Notices {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.is_alone && !is_notice(metadata) { Interest::never() } else { Interest::always() }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if is_notice(metadata) {
            let mut text = Text::default();
            event.record(&mut text);
            let kind = if *metadata.level() == Level::INFO { "" } else { "warning: " };
            // In place of a line that counts seconds.
            let _ = io::Write::write_fmt(
                &mut anstream::stderr(),
                format_args!("\r  {kind}{}{}\n", text.message, text.fields),
            );
        }
    }
}

/// An event as text: its message, followed by its fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " ({name}: {value:?})"),
        };
    }
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
