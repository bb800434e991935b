//! The trait that a vendor implements, in a dozen lines of code.
//!
//! A backend gets either WGSL or serialized IR, the bytes that go in and the number of bytes that must come out. How a
//! program's buffers travel in one input and one output is `vyre_lower::convention`.

use std::collections::BTreeSet;
use std::fmt;

/// A vendor's backend.
///
/// It is built once and used for the whole run, from one thread. Both dispatch methods return exactly `output_size`
/// bytes, or an error whose text has a `Fix:`.
pub trait VyreBackend {
    /// The identifier in reports and certificates.
    fn name(&self) -> &str;

    /// Runs complete WGSL.
    fn dispatch(
        &self,
        wgsl: &str,
        input: &[u8],
        output_size: usize,
        config: DispatchConfig,
    ) -> Result<Vec<u8>, String>;

    /// Runs a serialized program (`ir::Program::to_bytes`). The default lowers it to WGSL and calls
    /// [`dispatch`](VyreBackend::dispatch); a backend with a compiler of its own overrides it.
    fn dispatch_program(
        &self,
        program: &[u8],
        input: &[u8],
        output_size: usize,
        config: DispatchConfig,
    ) -> Result<Vec<u8>, String> {
        crate::target::dispatch_lowered(self, program, input, output_size, config)
    }

    /// The highest convention it supports; the suite asks for none above.
    fn max_convention(&self) -> Convention {
        Convention::V1
    }

    /// The profile that it publishes before the run: its limits, its optional features, and its device.
    fn profile(&self) -> Profile {
        Profile::default()
    }
}

/// How input, output and sizes are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// Group 0: binding 0 the input (storage, read), 1 the output (storage, read_write), 2 the params (uniform, four u32:
    /// input bytes, output bytes, two pads).
    V1,
    /// As `V1`, and a lookup buffer (storage, read) with [`DispatchConfig::lookup_data`].
    V2 {
        /// Where the lookup buffer is bound.
        lookup_binding: u32,
    },
}

/// What the output memory holds before the launch. Results never depend on it: what the program does not write, the
/// shader that the suite sends writes itself wherever this is not `Zero`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputInit {
    /// Zeros.
    Zero,
    /// This byte everywhere.
    Poison(u8),
    /// Whatever was there.
    Uninitialized,
}

/// How to dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchConfig {
    /// Lanes of a workgroup along x, y and z; the WGSL declares the same.
    pub workgroup_size: [u32; 3],
    /// Workgroups along x, y and z.
    pub workgroup_count: [u32; 3],
    /// How buffers are bound.
    pub convention: Convention,
    /// The contents of the lookup buffer, under `Convention::V2`.
    pub lookup_data: Option<Vec<u8>>,
    /// The contents of the output memory before the launch.
    pub output_init: OutputInit,
}

/// An optional feature: a backend without it keeps its level. A certificate names those it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// `atomic_min` and `atomic_max` on 64-bit elements without a result: several lanes may reach an element at once. All
    /// else on 64-bit integers is exact with 32-bit atomics; this is not.
    AtomicMinMax64,
    /// The lookup buffer of `Convention::V2`. The suite takes this one from
    /// [`max_convention`](VyreBackend::max_convention), whatever the profile says.
    ConventionV2,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Feature; 2] = [Feature::AtomicMinMax64, Feature::ConventionV2];

    /// The name in certificates.
    pub const fn name(self) -> &'static str {
        match self {
            Feature::AtomicMinMax64 => "atomic-min-max-64",
            Feature::ConventionV2 => "convention-v2",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The limits and features that a backend publishes before a run. A program beyond a limit is not sent; a limit below the
/// suite's floor is a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The backend's version.
    pub version: String,
    /// The device it runs on.
    pub device: String,
    /// The device's driver, with its version.
    pub driver: String,
    /// Lanes of a workgroup.
    pub invocations_max: u32,
    /// Bytes of workgroup memory.
    pub workgroup_bytes_max: u32,
    /// Bytes of one buffer, and under the conventions of the input or output as a whole.
    pub buffer_bytes_max: u64,
    /// Workgroups along one axis.
    pub workgroups_max: u32,
    /// The optional features it has.
    pub features: BTreeSet<Feature>,
}

impl Profile {
    /// The least a backend may publish, which is also the default: what every WebGPU device has.
    pub fn floor() -> Profile {
        Profile {
            version: "unspecified".into(),
            device: "unspecified".into(),
            driver: "unspecified".into(),
            invocations_max: 256,
            workgroup_bytes_max: 16 << 10,
            buffer_bytes_max: 128 << 20,
            workgroups_max: 65_535,
            features: BTreeSet::new(),
        }
    }

    /// The limits that are below the floor, each with both numbers.
    pub(crate) fn below_floor(&self) -> Vec<String> {
        let floor = Profile::floor();
        let limits = [
            ("lanes of a workgroup", u64::from(self.invocations_max), u64::from(floor.invocations_max)),
            (
                "bytes of workgroup memory",
                u64::from(self.workgroup_bytes_max),
                u64::from(floor.workgroup_bytes_max),
            ),
            ("bytes of a buffer", self.buffer_bytes_max, floor.buffer_bytes_max),
            ("workgroups along an axis", u64::from(self.workgroups_max), u64::from(floor.workgroups_max)),
        ];
        let low = limits.into_iter().filter(|(_, own, floor)| own < floor);
        low.map(|(what, own, floor)| format!("{what}: {own}, and the suite needs {floor}")).collect()
    }
}

impl Default for Profile {
    fn default() -> Profile {
        Profile::floor()
    }
}
