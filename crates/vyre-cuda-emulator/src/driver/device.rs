//! Initialization, and what devices say of themselves.
#![allow(unsafe_code)]

use super::ffi::{In, Out};
use super::state::{Device, Driver};
use super::{anytime, invalid, with_driver};
use crate::engine::watchdog;
use crate::model::Model;

/// CUDA 13.0.
const DRIVER_VERSION: i32 = 13_000;

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> u32 {
    anytime(|| if flags == 0 { Driver::initialize() } else { Err(invalid("cuInit has no flags")) })
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(out: Out<i32>) -> u32 {
    anytime(|| out.set(DRIVER_VERSION))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(out: Out<i32>, ordinal: i32) -> u32 {
    with_driver(|driver| out.set(driver.device(ordinal)?.ordinal as i32))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(out: Out<i32>) -> u32 {
    with_driver(|driver| out.set(driver.devices.len() as i32))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(out: Out<u8>, byte_len: i32, device: i32) -> u32 {
    with_driver(|driver| {
        out.set_text(&driver.device(device)?.model.name, usize::try_from(byte_len).unwrap_or(0))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(out: Out<usize>, device: i32) -> u32 {
    with_driver(|driver| out.set(driver.device(device)?.model.memory_bytes as usize))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) -> u32 {
    with_driver(|driver| {
        let sm = driver.device(device)?.model.sm as i32;
        major.set(sm / 10)?;
        minor.set(sm % 10)
    })
}

fn uuid(device: &Device) -> [u8; 16] {
    let mut uuid = *b"vyre-emulated\0\0\0";
    uuid[13] = device.model.sm as u8;
    uuid[15] = device.ordinal as u8;
    uuid
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid(out: Out<[u8; 16]>, device: i32) -> u32 {
    with_driver(|driver| out.set(uuid(driver.device(device)?)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(out: Out<[u8; 16]>, device: i32) -> u32 {
    cuDeviceGetUuid(out, device)
}

/// Each device is on a bus of its own.
fn bus(device: &Device) -> usize {
    device.ordinal + 1
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetPCIBusId(out: Out<u8>, byte_len: i32, device: i32) -> u32 {
    with_driver(|driver| {
        let id = format!("0000:{:02X}:00.0", bus(driver.device(device)?));
        out.set_text(&id, usize::try_from(byte_len).unwrap_or(0))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetByPCIBusId(out: Out<i32>, id: In<u8>) -> u32 {
    with_driver(|driver| {
        let id = String::from_utf8_lossy(&id.text()?).to_uppercase();
        let matches = |device: &&std::sync::Arc<Device>| id.ends_with(&format!("{:02X}:00.0", bus(device)));
        let device = driver.devices.iter().find(matches).ok_or_else(|| invalid("no device has that bus"))?;
        out.set(device.ordinal as i32)
    })
}

/// Devices do not access each other's memory; copies between them are possible.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceCanAccessPeer(out: Out<i32>, device: i32, peer: i32) -> u32 {
    with_driver(|driver| {
        driver.device(device)?;
        driver.device(peer)?;
        out.set(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(out: Out<i32>, attribute: i32, device: i32) -> u32 {
    with_driver(|driver| {
        let device = driver.device(device)?;
        let known = device_value(device, attribute)
            .or_else(|| compute_value(&device.model, attribute))
            .or_else(|| feature_value(&device.model, attribute))
            .or_else(|| texture_value(attribute));
        out.set(known.ok_or_else(|| invalid(&format!("there is no attribute {attribute}")))?)
    })
}

/// Attributes of one device among several.
fn device_value(device: &Device, attribute: i32) -> Option<i32> {
    match attribute {
        33 => Some(bus(device) as i32),
        34 | 50 => Some(0),
        85 => Some(device.ordinal as i32),
        _ => None,
    }
}

/// `CU_DEVICE_ATTRIBUTE_*` that limit kernels, or say how fast the hardware is.
fn compute_value(model: &Model, attribute: i32) -> Option<i32> {
    let value = match attribute {
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX as u32,
        6 | 7 => 65_535,
        8 => model.shared_per_block,
        9 => 65_536,
        10 => 32,
        12 | 82 => model.registers_per_multiprocessor,
        13 => model.clock_khz,
        16 => model.multiprocessors,
        36 => model.memory_clock_khz,
        37 => model.memory_bus_bits,
        38 => model.l2_bytes,
        39 => model.threads_per_multiprocessor,
        75 => model.sm / 10,
        76 => model.sm % 10,
        81 => model.shared_per_multiprocessor,
        87 => model.f32_to_f64,
        97 => model.shared_per_block_optin,
        106 => model.blocks_per_multiprocessor,
        111 => model.shared_reserved,
        _ => return None,
    };
    Some(value as i32)
}

/// `CU_DEVICE_ATTRIBUTE_*` that say what a device can do; what the emulator lacks, the device cannot.
fn feature_value(model: &Model, attribute: i32) -> Option<i32> {
    let value = match attribute {
        // The largest pitch of a copy.
        11 => i32::MAX,
        // Copies overlap with kernels, both ways; memory has error correction, as data centers' models do.
        15 | 31 => 1,
        32 => i32::from(model.f32_to_f64 == 2),
        40 => 2,
        // Timeouts, integrated, compute mode, TCC, multi-GPU boards.
        17 => i32::from(matches!(watchdog(), Ok(Some(_)))),
        18 | 20 | 35 | 84 => 0,
        // Mapped host memory, one address space, priorities, L1 caches.
        19 | 41 | 78 | 79 | 80 => 1,
        // Managed memory, atomics of the host, pageable memory.
        83 | 86 | 88 | 89 | 100 | 101 => 0,
        // Preemption; a host pointer is not the device's where it was registered.
        90 => 1,
        91 => 0,
        // Memory operations on streams.
        92..=94 => 0,
        // Cooperative launches, on one device.
        95 => 1,
        96 => 0,
        // Remote writes, registration of host memory, virtual memory and its handles, compression.
        98 | 102 | 103 | 104 | 105 | 107 | 110 => 0,
        99 => 1,
        // Persisting lines of the cache, access windows.
        108 | 109 => 0,
        // Everything that came later: compression, clusters, pools, tensor maps, multicast and other machines' memory.
        112..=148 => 0,
        _ => return None,
    };
    Some(value)
}

/// Limits of textures and surfaces, which the emulator lacks: those of the hardware, which are the same for all models.
fn texture_value(attribute: i32) -> Option<i32> {
    let value = match attribute {
        14 | 30 => 512,
        21 | 22 | 55 => 131_072,
        23 | 57 => 65_536,
        24..=26 | 58..=60 => 16_384,
        27 | 28 | 42 | 45 | 46 | 52 | 53 | 61 | 63 | 64 | 66 | 67 | 73 | 74 | 77 => 32_768,
        29 | 43 | 62 | 65 => 2048,
        44 => 1,
        47 | 48 => 8192,
        49 | 56 => 32_768,
        51 => 32,
        54 | 68 => 2046,
        69 => 268_435_456,
        70 => 131_072,
        71 => 65_000,
        72 => 2_097_120,
        _ => return None,
    };
    Some(value)
}
