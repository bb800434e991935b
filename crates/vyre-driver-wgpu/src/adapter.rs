//! The devices of this machine, and which one is meant.

use crate::ID;
use std::path::PathBuf;
use vyre_driver::BackendError;
use vyre_driver::pipeline::cache_dir;
use wgpu::{Backends, DeviceType};

/// How a device is opened.
#[derive(Clone, Debug, Default)]
pub struct WgpuConfig {
    /// Which device.
    pub adapter: Selection,
    /// How shaders for it are made.
    pub shaders: ShaderChoice,
    /// How the host's bytes get to its memory and back.
    pub memory: MemoryChoice,
    /// Where compiled kernels and verdicts are kept between processes; `None` keeps none.
    pub cache: Option<PathBuf>,
}

/// Which of the machine's devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The first, as [`adapters`] lists them.
    #[default]
    First,
    /// The one of that number in the list.
    Number(usize),
    /// The first whose name contains this, in any case.
    Name(String),
}

/// How shaders are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShaderChoice {
    /// By the fastest strategy that is exact on the device.
    #[default]
    Fastest,
    /// As SPIR-V of our own, where that is exact.
    SpirV,
    /// The same with memory as volatile from the start.
    Volatile,
    /// As WGSL.
    Wgsl,
    /// As WGSL with floats as integers, whatever a probe would say.
    Integers,
    /// With floats as plain WGSL would have them. Results are the device's own, so this is for measuring what exactness costs
    /// and for nothing else: no variable asks for it.
    Loose,
}

/// How bytes get to a device's memory and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryChoice {
    /// In place where the device has the host's memory, through staging buffers elsewhere.
    #[default]
    Fastest,
    /// Through staging buffers.
    Staged,
}

impl WgpuConfig {
    /// The device that `VYRE_WGPU_ADAPTER` names by number or by a part of its name, or the first; `none` is none at all.
    /// `VYRE_WGPU_SHADERS` insists on `spirv`, `spirv-volatile`, `wgsl` or `wgsl-integers`, `VYRE_WGPU_MEMORY` on `staged`. Kernels are kept in
    /// `VYRE_CACHE`, or in the user's directory for caches. An empty `VYRE_CACHE` keeps none.
    pub fn from_env() -> Result<WgpuConfig, BackendError> {
        // Empty is as good as not set.
        let set = |name| {
            let text = std::env::var_os(name)?.to_string_lossy().into_owned();
            Some(text).filter(|text| !text.is_empty())
        };
        let adapter = match set("VYRE_WGPU_ADAPTER") {
            None => Selection::First,
            Some(text) if text == "none" => {
                return Err(unavailable("VYRE_WGPU_ADAPTER is `none`", "unset VYRE_WGPU_ADAPTER"));
            }
            Some(text) => match text.parse() {
                Ok(number) => Selection::Number(number),
                Err(_) => Selection::Name(text),
            },
        };
        let shaders = match set("VYRE_WGPU_SHADERS").as_deref() {
            None => ShaderChoice::Fastest,
            Some("spirv") => ShaderChoice::SpirV,
            Some("spirv-volatile") => ShaderChoice::Volatile,
            Some("wgsl") => ShaderChoice::Wgsl,
            Some("wgsl-integers") => ShaderChoice::Integers,
            Some(other) => {
                let reason = format!("VYRE_WGPU_SHADERS is `{}`", other.escape_debug());
                return Err(unavailable(
                    reason,
                    "write `spirv`, `spirv-volatile`, `wgsl` or `wgsl-integers`, or unset it",
                ));
            }
        };
        let memory = match set("VYRE_WGPU_MEMORY").as_deref() {
            None => MemoryChoice::Fastest,
            Some("staged") => MemoryChoice::Staged,
            Some(other) => {
                let reason = format!("VYRE_WGPU_MEMORY is `{}`", other.escape_debug());
                return Err(unavailable(reason, "write `staged`, or unset it"));
            }
        };
        Ok(WgpuConfig { adapter, shaders, memory, cache: cache_dir(ID) })
    }
}

pub(crate) fn unavailable(reason: impl Into<String>, fix: impl Into<String>) -> BackendError {
    BackendError::Unavailable { backend: ID.into(), reason: reason.into(), fix: fix.into() }
}

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The device's name.
    pub name: String,
    /// The driver's name and version.
    pub driver: String,
    /// The API that reaches it: `vulkan`, `metal` or `dx12`.
    pub api: String,
    /// Whether it is a software device, which runs on the processor.
    pub is_software: bool,
}

impl Adapter {
    pub(crate) fn new(adapter: &wgpu::Adapter) -> Adapter {
        let info = adapter.get_info();
        let driver = format!("{} {}", info.driver, info.driver_info).trim().to_owned();
        Adapter {
            name: info.name,
            driver: if driver.is_empty() { info.backend.to_str().to_owned() } else { driver },
            api: info.backend.to_str().to_owned(),
            is_software: info.device_type == DeviceType::Cpu,
        }
    }
}

/// How deep blocks may nest on Mesa's software device. Its compiler has room for 80 conditions and as many
/// loops; beyond, it computes wrong or ends the process. Shaders put a few around single lines.
const LLVMPIPE_NESTING_MAX: u32 = 72;

impl Adapter {
    /// How deep the blocks of a program may nest.
    pub(crate) fn nesting_max(&self) -> u32 {
        if self.driver.contains("llvmpipe") { LLVMPIPE_NESTING_MAX } else { u32::MAX }
    }
}

impl std::fmt::Display for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let software = if self.is_software { ", software" } else { "" };
        write!(f, "{} ({}, {}{software})", self.name, self.api, self.driver)
    }
}

/// The machine's devices, in the order of their numbers: GPUs first, software last.
pub fn adapters() -> Vec<Adapter> {
    all(&instance()).iter().map(Adapter::new).collect()
}

pub(crate) fn instance() -> wgpu::Instance {
    let mut wanted = wgpu::InstanceDescriptor::new_without_display_handle();
    wanted.backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
    // Validation layers are for those who debug wgpu, whatever the build.
    wanted.flags = wgpu::InstanceFlags::empty();
    wgpu::Instance::new(wanted)
}

fn all(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    let mut all = pollster::block_on(instance.enumerate_adapters(Backends::all()));
    all.retain(|adapter| {
        let flags = adapter.get_downlevel_capabilities().flags;
        flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
    });
    all.sort_by_key(|adapter| match adapter.get_info().device_type {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    });
    all
}

/// The adapter that is meant.
pub(crate) fn choose(
    instance: &wgpu::Instance,
    selection: &Selection,
) -> Result<wgpu::Adapter, BackendError> {
    let mut all = all(instance);
    if all.is_empty() {
        return Err(unavailable(
            "there is no Vulkan, Metal or DX12 device",
            "install the GPU's driver, or Mesa's software driver (Debian: mesa-vulkan-drivers), or choose another backend",
        ));
    }
    let at = match selection {
        Selection::First => Some(0),
        Selection::Number(number) => Some(*number).filter(|number| *number < all.len()),
        Selection::Name(part) => {
            let part = part.to_lowercase();
            all.iter().position(|adapter| adapter.get_info().name.to_lowercase().contains(&part))
        }
    };
    let Some(at) = at else {
        let names = all.iter().enumerate().map(|(at, adapter)| format!("{at}: {}", Adapter::new(adapter)));
        let names = names.collect::<Vec<_>>().join("; ");
        let wanted = match selection {
            Selection::First => "the first".to_owned(),
            Selection::Number(number) => format!("number {number}"),
            Selection::Name(part) => format!("`{}`", part.escape_debug()),
        };
        return Err(unavailable(
            format!("no device is {wanted}"),
            format!("choose among: {names} (VYRE_WGPU_ADAPTER)"),
        ));
    };
    Ok(all.swap_remove(at))
}

/// Whether there is nothing better than a software device here, as far as a moment's look shows: loading a driver
/// for nothing would delay everyone who never asked for it.
pub(crate) fn is_last_resort() -> bool {
    let is_named = match std::env::var("VYRE_WGPU_ADAPTER").as_deref() {
        Ok("none") => return true,
        named => named.is_ok(),
    };
    if is_named || !cfg!(target_os = "linux") {
        return chosen_is_software();
    }
    let has_node = ["/dev/nvidiactl", "/dev/dxg", "/dev/mali0", "/dev/kgsl-3d0"]
        .iter()
        .any(|node| std::path::Path::new(node).exists())
        || std::fs::read_dir("/dev/dri").is_ok_and(|mut nodes| nodes.next().is_some());
    !has_node || chosen_is_software()
}

fn chosen_is_software() -> bool {
    let chosen = WgpuConfig::from_env().and_then(|config| choose(&instance(), &config.adapter));
    chosen.is_ok_and(|chosen| Adapter::new(&chosen).is_software)
}
