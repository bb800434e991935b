//! Chooses a backend for a program and runs it there.
//!
//! `auto` takes the best backend that opens, is healthy and admits the launch, and says why it passed the others over. An
//! explicit choice is never replaced: if it cannot run the program, that is the error.

use crate::admission::{admit, valid};
use crate::backend::VyreBackend;
use crate::config::DispatchConfig;
use crate::error::{BackendError, ErrorCode};
use crate::grid_sync::{self, Compiled};
use crate::registry::{self, BackendRegistration};
use crate::types::TimedDispatchResult;
use std::fmt;
use std::sync::Arc;
use vyre_foundation::ir::Program;
use vyre_foundation::launch::Admission;

/// Which backend the caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// The best that can run the program.
    Auto,
    /// That one and no other.
    Id(&'a str),
}

/// A backend that `auto` did not take.
#[derive(Clone, Debug)]
pub struct PassedOver {
    /// Its id.
    pub id: &'static str,
    /// Why.
    pub reason: BackendError,
}

/// The backend that will run a launch.
#[derive(Clone)]
pub struct Route {
    /// The backend.
    pub backend: Arc<dyn VyreBackend>,
    /// The launch, as that backend admitted it.
    pub admission: Admission,
    /// Those with a higher precedence, and why they were not taken.
    pub passed_over: Vec<PassedOver>,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("backend", &self.backend.id())
            .field("passed_over", &self.passed_over)
            .finish()
    }
}

impl Route {
    /// Compiles the launch for its backend.
    pub fn compile(&self, inputs: &[&[u8]], config: &DispatchConfig) -> Result<Compiled, BackendError> {
        grid_sync::compile(&*self.backend, &self.admission, inputs, config)
    }
}

/// Chooses a backend for a launch.
pub fn route(
    choice: Choice<'_>,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<Route, BackendError> {
    match choice {
        Choice::Id(id) => {
            let backend = registry::open(id)?;
            let admission = suits(&*backend, program, inputs, config)?;
            Ok(Route { backend, admission, passed_over: Vec::new() })
        }
        Choice::Auto => {
            let mut all = registry::registrations();
            all.sort_by_cached_key(|registration| (registration.last_resort)());
            route_among(&all, program, inputs, config)
        }
    }
}

/// Runs a program on the backend of a route, splitting it at grid barriers where that backend needs it.
pub fn dispatch(
    choice: Choice<'_>,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<(TimedDispatchResult, Route), BackendError> {
    let route = route(choice, program, inputs, config)?;
    let compiled = route.compile(inputs, config)?;
    let timed = compiled.dispatch(&*route.backend, &route.admission, inputs, config)?;
    Ok((timed, route))
}

fn route_among(
    registrations: &[&'static BackendRegistration],
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<Route, BackendError> {
    // No backend takes an invalid program, so none is opened for one.
    valid(program, config.workgroup_override)?;
    let mut passed_over = Vec::new();
    for registration in registrations {
        let id = registration.id;
        let backend = match registry::open(id) {
            Ok(backend) => backend,
            Err(reason) => {
                passed_over.push(PassedOver { id, reason });
                continue;
            }
        };
        match suits(&*backend, program, inputs, config) {
            Ok(admission) => return Ok(Route { backend, admission, passed_over }),
            // This says what is wrong with the launch, and no other backend would take it.
            Err(error) if error.code() == ErrorCode::InvalidLaunch => return Err(error),
            Err(reason) => passed_over.push(PassedOver { id, reason }),
        }
    }
    let reasons: Vec<String> =
        passed_over.iter().map(|passed| format!("`{}`: {}", passed.id, passed.reason)).collect();
    Err(BackendError::Unavailable {
        backend: "auto".to_owned(),
        reason: match reasons.is_empty() {
            true => "no backend is linked into this program".to_owned(),
            false => format!("every backend was passed over: {}", reasons.join("; ")),
        },
        fix: "link a driver crate whose backend can run the program, or correct one of the reasons"
            .to_owned(),
    })
}

/// Admits a launch on a backend that can run it now.
fn suits(
    backend: &dyn VyreBackend,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<Admission, BackendError> {
    if backend.device_lost() {
        return Err(BackendError::DeviceLost {
            backend: backend.id().to_owned(),
            cause: "an earlier dispatch lost it".to_owned(),
        });
    }
    let admission = admit(backend, program, inputs, config)?;
    let splits = backend.supports_resident_dispatch() || backend.allows_host_grid_sync_split();
    if admission.program.facts().has_grid_sync
        && !splits
        && !(backend.supports_grid_sync() && backend.cooperative_grid_sync_fits(program, inputs, config)?)
    {
        return Err(BackendError::UnsupportedFeature {
            name: "grid barriers for this launch".to_owned(),
            backend: backend.id().to_owned(),
        });
    }
    Ok(admission)
}
