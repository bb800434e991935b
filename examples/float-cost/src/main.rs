//! What exact floats cost on this machine's Vulkan device, op by op: as WGSL that anyone would write, and in each way that
//! SPIR-V of ours can make it.
//!
//! ```text
//! cargo run --release --manifest-path examples/float-cost/Cargo.toml --target-dir target -- [LANES] [TRIPS]
//! ```
//!
//! Every lane runs a chain of ops on a value near 1, in the same loop on both sides; the fastest of several runs counts, less
//! that of an empty loop. Time is of the wall, from submission to its end, so lanes and trips should make it a few milliseconds
//! at least: a large GPU wants a million lanes.
//!
//! Not here: whether a way is exact on the device, which the driver probes.

use std::time::{Duration, Instant};
use vyre_foundation::ir::DataType;
use vyre_foundation::text;
use vyre_foundation::validate::validate;
use vyre_lower::spirv::{Features, FloatOp, Floats, How, Options, lower};
use wgpu::util::DeviceExt;

/// An op on the chain's value `v` and the operands `b` and `c`, in the language and in WGSL.
struct Cost {
    name: &'static str,
    ty: DataType,
    op: Option<FloatOp>,
    lines: &'static str,
    wgsl: &'static str,
}

const fn cost(
    name: &'static str,
    ty: DataType,
    op: Option<FloatOp>,
    lines: &'static str,
    wgsl: &'static str,
) -> Cost {
    Cost { name, ty, op, lines, wgsl }
}

/// Operands keep values near 1, where no path is a rare one. `T` is the type, `N` numbers the copy.
const COSTS: [Cost; 13] = [
    cost("empty loop", DataType::F32, None, "", ""),
    cost("add", DataType::F32, Some(FloatOp::Add), "%wN = add.T %vN, %c", "v = v + c;"),
    cost("mul", DataType::F32, Some(FloatOp::Mul), "%wN = mul.T %vN, %b", "v = v * b;"),
    cost("div", DataType::F32, Some(FloatOp::Div), "%wN = div.T %vN, %b", "v = v / b;"),
    cost("sqrt", DataType::F32, Some(FloatOp::Sqrt), "%wN = sqrt.T %vN", "v = sqrt(v);"),
    cost("fma", DataType::F32, Some(FloatOp::Fma), "%wN = fma.T %vN, %b, %c", "v = fma(v, b, c);"),
    cost("max", DataType::F32, Some(FloatOp::Compare), "%wN = max.T %vN, %c", "v = max(v, c);"),
    cost(
        "floor and add",
        DataType::F32,
        Some(FloatOp::Round),
        "%fN = floor.T %vN\n%wN = add.T %fN, %b",
        "v = floor(v) + b;",
    ),
    cost(
        "to i32 and back",
        DataType::F32,
        Some(FloatOp::Cast),
        "%jN = cast.i32 %vN\n%wN = cast.T %jN",
        "v = f32(i32(v));",
    ),
    cost("add", DataType::F64, Some(FloatOp::Add), "%wN = add.T %vN, %c", "v = v + c;"),
    cost("sqrt", DataType::F64, Some(FloatOp::Sqrt), "%wN = sqrt.T %vN", "v = sqrt(v);"),
    cost("fma", DataType::F64, Some(FloatOp::Fma), "%wN = fma.T %vN, %b, %c", "v = fma(v, b, c);"),
    cost("add", DataType::F16, Some(FloatOp::Add), "%wN = add.T %vN, %c", "v = v + c;"),
];

/// Ops in one trip.
const COPIES: usize = 8;
/// Runs of which the fastest counts.
const RUNS: usize = 7;

struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
}

enum Shader {
    Wgsl(String),
    SpirV(Vec<u32>),
}

fn open() -> Gpu {
    let descriptor = wgpu::InstanceDescriptor {
        backends: wgpu::Backends::VULKAN,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    };
    let instance = wgpu::Instance::new(descriptor);
    let options = wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        ..wgpu::RequestAdapterOptions::default()
    };
    let adapter = pollster::block_on(instance.request_adapter(&options))
        .unwrap_or_else(|error| panic!("no Vulkan device: {error}. Fix: install a driver"));
    let info = adapter.get_info();
    println!("{}, {} {}", info.name, info.driver, info.driver_info);
    let wanted = wgpu::Features::PASSTHROUGH_SHADERS
        | wgpu::Features::SHADER_INT64
        | wgpu::Features::SHADER_F64
        | wgpu::Features::SHADER_F16;
    let descriptor = wgpu::DeviceDescriptor {
        required_features: adapter.features() & wanted,
        required_limits: adapter.limits(),
        // SAFETY: what may go wrong with shaders of our own is the point of this program.
        experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
        ..wgpu::DeviceDescriptor::default()
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
        .unwrap_or_else(|error| panic!("the device does not open: {error}. Fix: update its driver"));
    Gpu { device, queue }
}

/// The program: every lane runs its chain, and stores what comes out.
fn program(cost: &Cost, trips: u32) -> String {
    let ty = cost.ty;
    let copies: String = (0..if cost.lines.is_empty() { 0 } else { COPIES })
        .map(|copy| {
            let next = copy + 1;
            let lines = cost.lines.replace("%vN", &format!("%v{copy}")).replace("%wN", &format!("%v{next}"));
            lines.replace('N', &copy.to_string()).replace(".T", &format!(".{ty}")) + "\n"
        })
        .collect();
    let last = if cost.lines.is_empty() { 0 } else { COPIES };
    format!(
        "program @cost workgroup(64, 1, 1) {{\nbuffer @x : read {ty}[] binding 0\nbuffer @y : read_write {ty}[] binding 1 \
         output\n%i = global_id x\n%a = load.{ty} @x[%i]\n%b = load.{ty} @x[1]\n%c = load.{ty} @x[2]\nvar $v : {ty} = \
         %a\nfor %t in 0..{trips} {{\n%v0 = get.{ty} $v\n{copies}set.{ty} $v, %v{last}\n}}\n%r = get.{ty} $v\nstore.{ty} \
         @y[%i], %r\n}}\n"
    )
}

/// The same as anyone would write it.
fn wgsl(cost: &Cost, trips: u32) -> String {
    let (ty, enable) = (cost.ty, if cost.ty == DataType::F16 { "enable f16;\n" } else { "" });
    let copies = cost.wgsl.repeat(COPIES);
    format!(
        "{enable}@group(0) @binding(0) var<storage, read> x: array<{ty}>;\n@group(0) @binding(1) var<storage, read_write> y: \
         array<{ty}>;\n@group(0) @binding(2) var<uniform> launch: array<vec4u, 3>;\n@compute @workgroup_size(64) fn \
         main(@builtin(global_invocation_id) id: vec3u) {{\nlet b = x[1];\nlet c = x[2];\nvar v = x[id.x];\nfor (var t = 0u; \
         t < {trips}u + launch[0].w; t++) {{\n{copies}\n}}\ny[id.x] = v;\n}}\n"
    )
}

fn bits(ty: DataType, value: f64) -> Vec<u8> {
    match ty {
        DataType::F64 => value.to_le_bytes().to_vec(),
        // Near 1, and exactly 1 + 2^-6 and 2^-6.
        DataType::F16 => match value {
            1.0.. => 0x3c10_u16.to_le_bytes().to_vec(),
            _ => 0x2400_u16.to_le_bytes().to_vec(),
        },
        _ => (value as f32).to_le_bytes().to_vec(),
    }
}

impl Gpu {
    fn buffer(&self, contents: &[u8], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.device.create_buffer_init(&wgpu::util::BufferInitDescriptor { label: None, contents, usage })
    }

    /// The operands, the results and the launch words.
    fn buffers(&self, ty: DataType, lanes: u32) -> [wgpu::Buffer; 3] {
        let value = |at: u32| bits(ty, if at == 2 { 1.0 / 64.0 } else { 1.0 + 1.0 / 64.0 });
        let operands: Vec<u8> = (0..lanes).flat_map(value).collect();
        let mut words = vec![lanes / 64, 1, 1, 0, 0, 0, 0, 0, lanes, lanes];
        words.resize(12, 0);
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let storage = wgpu::BufferUsages::STORAGE;
        let uniform = wgpu::BufferUsages::UNIFORM;
        [(&operands, storage), (&operands, storage), (&words, uniform)]
            .map(|(of, usage)| self.buffer(of, usage))
    }

    fn layout(&self) -> wgpu::BindGroupLayout {
        let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let kinds = [storage(true), storage(false), wgpu::BufferBindingType::Uniform];
        let entry = |(binding, ty)| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
            count: None,
        };
        let entries: Vec<_> = (0..).zip(kinds).map(entry).collect();
        let layout = wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries };
        self.device.create_bind_group_layout(&layout)
    }

    /// The fastest of several runs.
    fn time(&self, shader: &Shader, ty: DataType, lanes: u32) -> Duration {
        let (device, layout, buffers) = (&self.device, self.layout(), self.buffers(ty, lanes));
        let pipeline = self.pipeline(shader, &layout);
        let bound = (0..).zip(&buffers);
        let entries: Vec<_> = bound
            .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        let group = wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries };
        let group = device.create_bind_group(&group);
        let once = || {
            let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(lanes / 64, 1, 1);
            }
            let commands = encoder.finish();
            let start = Instant::now();
            self.queue.submit([commands]);
            let wait =
                wgpu::PollType::Wait { submission_index: None, timeout: Some(Duration::from_secs(60)) };
            device.poll(wait).unwrap_or_else(|error| panic!("{error}. Fix: ask for fewer trips"));
            start.elapsed()
        };
        once();
        (0..RUNS).map(|_| once()).min().unwrap_or_default()
    }

    fn pipeline(&self, shader: &Shader, layout: &wgpu::BindGroupLayout) -> wgpu::ComputePipeline {
        let module = match shader {
            Shader::Wgsl(source) => self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: None,
                source: wgpu::ShaderSource::Wgsl(source.into()),
            }),
            Shader::SpirV(words) => {
                let entry =
                    wgpu::PassthroughShaderEntryPoint { name: "main".into(), workgroup_size: (64, 1, 1) };
                let descriptor = wgpu::ShaderModuleDescriptorPassthrough {
                    entry_points: vec![entry].into(),
                    spirv: Some(words.into()),
                    ..wgpu::ShaderModuleDescriptorPassthrough::default()
                };
                // SAFETY: `spirv::lower` writes valid modules, and the bindings are those that it asks for.
                unsafe { self.device.create_shader_module_passthrough(descriptor) }
            }
        };
        let all = wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(layout)],
            immediate_size: 0,
        };
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&self.device.create_pipeline_layout(&all)),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        })
    }
}

/// The module of an op that is made in one way.
fn spirv(cost: &Cost, how: How, trips: u32) -> Shader {
    let floats = Floats::default().with(computed_as(cost.ty), cost.op.unwrap_or(FloatOp::Add), how);
    let features = Features { storage16: false, ..Features::ALL };
    let parsed = text::parse(&program(cost, trips)).unwrap_or_else(|findings| panic!("{findings:?}"));
    let valid = validate(&parsed.program).unwrap_or_else(|findings| panic!("{findings:?}"));
    let shader = lower(&valid, &Options { features, floats }).unwrap_or_else(|error| panic!("{error}"));
    Shader::SpirV(shader.words)
}

/// Halves are computed in f32.
fn computed_as(ty: DataType) -> DataType {
    if ty == DataType::F64 { ty } else { DataType::F32 }
}

fn main() {
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (lanes, trips) = (number(0, 1 << 14).next_multiple_of(64), number(1, 512));
    let gpu = open();
    let has = gpu.device.features();
    println!(
        "{lanes} lanes, {trips} trips of {COPIES} ops; picoseconds an op, and how often that of plain WGSL"
    );
    let mut empty = Duration::ZERO;
    for cost in &COSTS {
        let Some(op) = cost.op else {
            empty = gpu.time(&spirv(cost, How::Native, trips), cost.ty, lanes);
            println!("{:<22} {empty:?}", cost.name);
            continue;
        };
        let ops = f64::from(lanes) * f64::from(trips) * COPIES as f64;
        let each = |time: Duration| time.saturating_sub(empty).as_secs_f64() * 1e12 / ops;
        let in_wgsl = match cost.ty {
            DataType::F64 => has.contains(wgpu::Features::SHADER_F64),
            DataType::F16 => has.contains(wgpu::Features::SHADER_F16),
            _ => true,
        };
        let plain = in_wgsl.then(|| each(gpu.time(&Shader::Wgsl(wgsl(cost, trips)), cost.ty, lanes)));
        let name = format!("{}.{}", cost.name, cost.ty);
        let mut line = format!("{name:<22} wgsl {:>8.1}", plain.unwrap_or(f64::NAN));
        for how in op.ways(computed_as(cost.ty)) {
            let time = each(gpu.time(&spirv(cost, *how, trips), cost.ty, lanes));
            let ratio = plain.map_or(String::new(), |plain| format!(" ({:.2}x)", time / plain));
            line += &format!("   {} {time:>8.1}{ratio}", format!("{how:?}").to_lowercase());
        }
        println!("{line}");
    }
}
