//! The backends linked into this process.
//!
//! A driver crate registers itself at link time with [`register_backend!`](crate::register_backend); a binary that
//! wants it only has to depend on the crate and name it (`use vyre_driver_cpu as _;`). Opening a backend may fail, and
//! may even panic in a vendor's library: both become [`BackendError::Unavailable`].

use crate::backend::VyreBackend;
use crate::error::BackendError;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[doc(hidden)]
pub use inventory;

/// What a driver crate says of itself at link time.
pub struct BackendRegistration {
    /// The backend's id.
    pub id: &'static str,
    /// Routing prefers the highest.
    pub precedence: u32,
    /// Whether routing prefers every other, as far as it is known without opening it.
    pub last_resort: fn() -> bool,
    /// What it runs on, in a few words.
    pub description: &'static str,
    /// Opens the backend's device, or says why that cannot be.
    pub open: fn() -> Result<Arc<dyn VyreBackend>, BackendError>,
}

inventory::collect!(BackendRegistration);

/// Registers a backend at link time.
///
/// ```
/// use std::sync::Arc;
/// use vyre_driver::{BackendError, VyreBackend, registry};
///
/// fn open() -> Result<Arc<dyn VyreBackend>, BackendError> {
///     Err(BackendError::Unavailable {
///         backend: "mine".into(),
///         reason: "no device of ours is plugged in".into(),
///         fix: "plug one in".into(),
///     })
/// }
///
/// vyre_driver::register_backend! {
///     id: "mine", precedence: 50, description: "our devices", open: open,
/// }
///
/// assert!(registry::registrations().iter().any(|one| one.id == "mine"));
/// assert!(registry::open("mine").is_err());
/// ```
#[macro_export]
macro_rules! register_backend {
    (id: $id:expr, precedence: $precedence:expr, description: $description:expr, open: $open:expr $(,)?) => {
        $crate::register_backend! {
            id: $id, precedence: $precedence, description: $description, open: $open, last_resort: || false,
        }
    };
    (
        id: $id:expr, precedence: $precedence:expr, description: $description:expr, open: $open:expr,
        last_resort: $last_resort:expr $(,)?
    ) => {
        $crate::registry::inventory::submit! {
            $crate::registry::BackendRegistration {
                id: $id,
                precedence: $precedence,
                last_resort: $last_resort,
                description: $description,
                open: $open,
            }
        }
    };
}

/// Every registration, the preferred first; equal precedences by id.
#[must_use]
pub fn registrations() -> Vec<&'static BackendRegistration> {
    let mut all: Vec<_> = inventory::iter::<BackendRegistration>.into_iter().collect();
    all.sort_by_key(|registration| (std::cmp::Reverse(registration.precedence), registration.id));
    all
}

/// A backend's place: empty until it is opened.
type Slot = Arc<Mutex<Option<Arc<dyn VyreBackend>>>>;

static SLOTS: Mutex<BTreeMap<&'static str, Slot>> = Mutex::new(BTreeMap::new());

/// The backend with that id, opened once and then shared. There is no fallback: another id is never substituted.
pub fn open(id: &str) -> Result<Arc<dyn VyreBackend>, BackendError> {
    open_with(id, false)
}

/// Opens the backend anew, for use after its shutdown. Earlier holders keep the old one.
pub fn reopen(id: &str) -> Result<Arc<dyn VyreBackend>, BackendError> {
    open_with(id, true)
}

fn open_with(id: &str, anew: bool) -> Result<Arc<dyn VyreBackend>, BackendError> {
    let registration = find(id)?;
    let slot = Arc::clone(lock(&SLOTS).entry(registration.id).or_default());
    // The slot is locked while opening, so that two threads do not open one device twice; other backends may be opened
    // meanwhile, also by this one if it is built on them.
    let mut opened = lock(&slot);
    if anew {
        *opened = None;
    }
    if let Some(backend) = &*opened {
        return Ok(Arc::clone(backend));
    }
    let backend = probe(registration)?;
    *opened = Some(Arc::clone(&backend));
    Ok(backend)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Panics of `open` are caught, so nothing is half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(id: &str) -> Result<&'static BackendRegistration, BackendError> {
    let all = registrations();
    let mut named = all.iter().filter(|registration| registration.id == id);
    let unavailable = |reason: &str, fix: String| BackendError::Unavailable {
        backend: id.to_owned(),
        reason: reason.to_owned(),
        fix,
    };
    let Some(registration) = named.next() else {
        let known: Vec<_> = all.iter().map(|registration| registration.id).collect();
        let fix = format!("choose one of: {}; or link the crate that registers it", known.join(", "));
        return Err(unavailable("no backend of that id is linked into this program", fix));
    };
    if named.next().is_some() {
        let fix = "link only one crate that registers this id".to_owned();
        return Err(unavailable("two linked crates register this id", fix));
    }
    Ok(registration)
}

fn probe(registration: &BackendRegistration) -> Result<Arc<dyn VyreBackend>, BackendError> {
    match catch_unwind(AssertUnwindSafe(registration.open)) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(BackendError::Unavailable {
                backend: registration.id.to_owned(),
                reason: format!("opening it panicked: {text}"),
                fix: "report this to the backend's author, and choose another backend meanwhile".to_owned(),
            })
        }
    }
}
