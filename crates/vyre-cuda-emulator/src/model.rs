//! The devices that can be emulated: their published limits, and the text that chooses them.
//!
//! One row for each compute capability, with the figures of a real model. `VYRE_EMULATED_DEVICES` names those that a
//! process sees. Not here: what the limits do to a launch (`driver::launch`), and which PTX a device takes (the engine).

/// What a device is. One for each `sm_` that the emulator knows, with the figures of a real model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The compute capability times ten: 70, 75, 80, 86, 89, 90, 100, 120.
    pub sm: u32,
    /// `vyre emulated sm_90`.
    pub name: String,
    /// The hardware whose figures these are.
    pub figures_of: &'static str,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Threads that one multiprocessor holds at once.
    pub threads_per_multiprocessor: u32,
    /// Blocks that one multiprocessor holds at once.
    pub blocks_per_multiprocessor: u32,
    /// 32-bit registers of one multiprocessor, and the most that one block may have.
    pub registers_per_multiprocessor: u32,
    /// Shared memory of one multiprocessor in bytes.
    pub shared_per_multiprocessor: u32,
    /// Shared memory that a block may have without asking, and the most when it asks.
    pub shared_per_block: u32,
    /// The most shared memory of a block that set its function's attribute.
    pub shared_per_block_optin: u32,
    /// Shared memory that the system takes of each block.
    pub shared_reserved: u32,
    /// The second-level cache in bytes.
    pub l2_bytes: u32,
    /// The clock of the multiprocessors in kHz.
    pub clock_khz: u32,
    /// The clock of the memory in kHz.
    pub memory_clock_khz: u32,
    /// The width of the memory's bus in bits.
    pub memory_bus_bits: u32,
    /// How many times as many f32 as f64 operations it does.
    pub f32_to_f64: u32,
    /// Bytes a second that copies take; `None` as fast as the processor copies.
    pub copy_bytes_per_second: Option<u64>,
}

/// Figures that differ between models.
struct Figures {
    sm: u32,
    of: &'static str,
    /// What its driver reports.
    memory_kib: u64,
    multiprocessors: u32,
    threads: u32,
    blocks: u32,
    shared_kib: u32,
    l2_kib: u32,
    clock_mhz: u32,
    memory_mhz: u32,
    bus_bits: u32,
    f32_to_f64: u32,
}

#[rustfmt::skip]
const MODELS: [Figures; 8] = [
    Figures { sm: 70, of: "Tesla V100 SXM2", memory_kib: 16_777_216, multiprocessors: 80, threads: 2048, blocks: 32, shared_kib: 96, l2_kib: 6144, clock_mhz: 1530, memory_mhz: 877, bus_bits: 4096, f32_to_f64: 2 },
    Figures { sm: 75, of: "Tesla T4", memory_kib: 15_728_640, multiprocessors: 40, threads: 1024, blocks: 16, shared_kib: 64, l2_kib: 4096, clock_mhz: 1590, memory_mhz: 5001, bus_bits: 256, f32_to_f64: 32 },
    Figures { sm: 80, of: "A100 SXM4 80GB", memory_kib: 82_837_504, multiprocessors: 108, threads: 2048, blocks: 32, shared_kib: 164, l2_kib: 40960, clock_mhz: 1410, memory_mhz: 1593, bus_bits: 5120, f32_to_f64: 2 },
    Figures { sm: 86, of: "GeForce RTX 3090", memory_kib: 25_165_824, multiprocessors: 82, threads: 1536, blocks: 16, shared_kib: 100, l2_kib: 6144, clock_mhz: 1695, memory_mhz: 9751, bus_bits: 384, f32_to_f64: 64 },
    Figures { sm: 89, of: "GeForce RTX 4090", memory_kib: 25_165_824, multiprocessors: 128, threads: 1536, blocks: 24, shared_kib: 100, l2_kib: 73728, clock_mhz: 2520, memory_mhz: 10501, bus_bits: 384, f32_to_f64: 64 },
    Figures { sm: 90, of: "H200 SXM 141GB", memory_kib: 146_591_680, multiprocessors: 132, threads: 2048, blocks: 32, shared_kib: 228, l2_kib: 61440, clock_mhz: 1980, memory_mhz: 3201, bus_bits: 6144, f32_to_f64: 2 },
    Figures { sm: 100, of: "B200", memory_kib: 186_646_528, multiprocessors: 148, threads: 2048, blocks: 32, shared_kib: 228, l2_kib: 129536, clock_mhz: 1965, memory_mhz: 3996, bus_bits: 8192, f32_to_f64: 2 },
    Figures { sm: 120, of: "GeForce RTX 5090", memory_kib: 32_505_856, multiprocessors: 170, threads: 1536, blocks: 24, shared_kib: 100, l2_kib: 98304, clock_mhz: 2407, memory_mhz: 14001, bus_bits: 512, f32_to_f64: 64 },
];

impl Model {
    /// The model of a compute capability times ten.
    pub fn of(sm: u32) -> Option<Model> {
        let figures = MODELS.iter().find(|figures| figures.sm == sm)?;
        // From compute capability 8.0 on, the system keeps 1 KiB of each block's shared memory.
        let shared_reserved = if sm >= 80 { 1024 } else { 0 };
        let shared = figures.shared_kib * 1024;
        Some(Model {
            sm,
            name: format!("vyre emulated sm_{sm}"),
            figures_of: figures.of,
            memory_bytes: figures.memory_kib << 10,
            multiprocessors: figures.multiprocessors,
            threads_per_multiprocessor: figures.threads,
            blocks_per_multiprocessor: figures.blocks,
            registers_per_multiprocessor: 65_536,
            shared_per_multiprocessor: shared,
            shared_per_block: 48 << 10,
            shared_per_block_optin: shared - shared_reserved,
            shared_reserved,
            l2_bytes: figures.l2_kib * 1024,
            clock_khz: figures.clock_mhz * 1000,
            memory_clock_khz: figures.memory_mhz * 1000,
            memory_bus_bits: figures.bus_bits,
            f32_to_f64: figures.f32_to_f64,
            copy_bytes_per_second: None,
        })
    }

    /// The devices that a text names, as in `sm_90:memory=2GiB:copy=500MB/s:name=NVIDIA H200,sm_80`. The error is for a person.
    pub fn parse_list(text: &str) -> Result<Vec<Model>, String> {
        text.split(',').map(|one| Model::parse(one.trim())).collect()
    }

    fn parse(text: &str) -> Result<Model, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let number = name.strip_prefix("sm_").and_then(|digits| digits.parse().ok());
        let mut model = number.and_then(Model::of).ok_or_else(|| {
            let known: Vec<_> = MODELS.iter().map(|figures| format!("sm_{}", figures.sm)).collect();
            format!("`{}` is no model. Fix: use one of {}", name.escape_debug(), known.join(", "))
        })?;
        for part in parts {
            let wrong = || {
                let part = part.escape_debug();
                format!(
                    "`{part}` is no property of a device, or has no such value. Fix: write `memory=2GiB`, `copy=500MB/s` or `name=TEXT`"
                )
            };
            match part.split_once('=') {
                Some(("memory", size)) => model.memory_bytes = bytes(size).ok_or_else(wrong)?,
                Some(("copy", rate)) => {
                    let rate = rate.strip_suffix("/s").and_then(bytes).ok_or_else(wrong)?;
                    model.copy_bytes_per_second = Some(rate);
                }
                Some(("name", name)) if !name.is_empty() => model.name = name.into(),
                _ => return Err(wrong()),
            }
        }
        Ok(model)
    }
}

/// `2GiB`, `500MB` or `4096B`; more than none, and no more than addresses reach.
fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 9] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("KB", 1_000),
        ("B", 1),
    ];
    let (digits, unit) =
        UNITS.iter().find_map(|(name, unit)| text.strip_suffix(name).map(|digits| (digits, unit)))?;
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(*unit).filter(|bytes| (1..=1 << 43).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_chosen_by_text() {
        let text = "sm_90:memory=2GiB:copy=500MB/s:name=NVIDIA H200, sm_70";
        let models = Model::parse_list(text).expect("it is well-formed");
        assert_eq!(models[0].name, "NVIDIA H200");
        assert_eq!(models.len(), 2);
        assert_eq!(models[0].memory_bytes, 2 << 30);
        assert_eq!(models[0].copy_bytes_per_second, Some(500_000_000));
        assert_eq!(models[1], Model::of(70).expect("it is known"));
        assert_eq!(models[1].shared_per_block_optin, 98_304);
    }

    #[test]
    fn wrong_texts_are_refused_with_a_fix() {
        for text in [
            "",
            "sm_91",
            "90",
            "sm_90,",
            "sm_90:memory",
            "sm_90:memory=2",
            "sm_90:memory=0B",
            "sm_90:copy=1GB",
            "sm_90:name=",
        ] {
            let error = Model::parse_list(text).expect_err(text);
            assert!(error.contains("Fix: "), "{text}: {error}");
        }
    }
}
