//! Records the driver's spans as a trace that Chrome's tracing page and Perfetto show.

use crate::report::Failure;
use std::path::Path;
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::layer::SubscriberExt;

/// Records until the guard is dropped.
pub(crate) fn record(path: &Path) -> Result<FlushGuard, Failure> {
    let file = std::fs::File::create(path).map_err(|error| {
        Failure::io(format!("cannot write {}: {error}", path.display()), "name a place you may write to")
    })?;
    let (layer, guard) = ChromeLayerBuilder::new().writer(file).include_args(true).build();
    // The command runs once, so nobody else has set one.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
    Ok(guard)
}
