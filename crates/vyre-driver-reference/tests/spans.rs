//! The stretches of a dispatch that a trace shows: admit, validate, compile, upload, launch, readback.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use vyre_driver::{DispatchConfig, VyreBackend};
use vyre_driver_reference::ReferenceBackend;
use vyre_foundation::text;

/// Writes down which spans are entered.
#[derive(Clone, Default)]
struct Recorder {
    names: Arc<Mutex<Vec<&'static str>>>,
    entered: Arc<Mutex<Vec<&'static str>>>,
    next: Arc<AtomicU64>,
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("vyre_driver")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.names.lock().unwrap().push(span.metadata().name());
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn enter(&self, span: &Id) {
        let name = self.names.lock().unwrap()[span.into_u64() as usize - 1];
        self.entered.lock().unwrap().push(name);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn exit(&self, _: &Id) {}
}

fn spans_of(work: impl FnOnce()) -> Vec<&'static str> {
    let recorder = Recorder::default();
    let entered = Arc::clone(&recorder.entered);
    tracing::subscriber::with_default(recorder, work);
    entered.lock().unwrap().clone()
}

#[test]
fn a_dispatch_shows_its_stretches_in_order() {
    let source = "program @copy workgroup(1, 1, 1) {
      buffer @x : read       u32[] binding 0
      buffer @y : read_write u32[] binding 1 output
      %i = global_id x
      %v = load.u32 @x[%i]
      store.u32 @y[%i], %v
    }";
    let program = text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program;
    let backend = ReferenceBackend::default();
    let config = DispatchConfig { output_sizes: vec![4], ..DispatchConfig::default() };
    let dispatch = || {
        assert_eq!(backend.dispatch_borrowed(&program, &[&[1, 2, 3, 4]], &config).unwrap(), [[1, 2, 3, 4]]);
    };
    assert_eq!(spans_of(dispatch), ["admit", "validate", "compile", "upload", "launch", "readback"]);
    assert_eq!(spans_of(dispatch), ["admit", "upload", "launch", "readback"], "validated and compiled once");

    let resident = || {
        let resources = [backend.allocate_resident(4).unwrap(), backend.allocate_resident(4).unwrap()];
        backend.upload_resident(&resources[0], &[5; 4]).unwrap();
        backend.dispatch_resident_timed(&program, &resources, &config).unwrap();
        assert_eq!(backend.download_resident(&resources[1]).unwrap(), [5; 4]);
    };
    assert_eq!(spans_of(resident), ["upload", "admit", "launch", "readback"]);
}
