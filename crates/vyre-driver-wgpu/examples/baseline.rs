//! This backend beside wgpu used by hand, on the same device with the same shaders: `baseline [ROUNDS] [LOG2_MAX]
//! [KERNEL] [mapped]`, or fewer rounds where they would take long. With `mapped` the host maps the buffers by hand too.
//!
//! The hand-written side has its buffers, bind groups and pipelines made before the clock starts, and does nothing that it
//! need not. Each round has both sides, and the other one first than the round before. The table has the times that a tenth of
//! the rounds stay below, and the middle one of the rounds' ratios, ours to theirs: what else the machine does falls on both.
#![allow(clippy::print_stdout, unsafe_code)]

use std::time::{Duration, Instant};
use vyre_driver::{DispatchConfig, ResidentDispatchStep, ResidentReadRange, Resource, VyreBackend};
use vyre_driver_wgpu::{Wgpu, WgpuBackend, WgpuConfig};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::{text, validate};
use vyre_lower::bindings::Bindings;
use vyre_lower::spirv;

/// Launches of a sequence.
const TURNS: u32 = 64;
/// Rounds go on for so long, and are not fewer than these.
const ENOUGH: Duration = Duration::from_secs(6);
const ROUNDS_MIN: usize = 5;
const GROUPS_MAX: u32 = 65_535;

/// A launch: the program, its inputs by ascending binding, its grid. The last buffer comes back.
struct Case {
    name: &'static str,
    program: Program,
    inputs: Vec<Vec<u8>>,
    grid: [u32; 3],
}

fn floats(count: u32) -> Vec<u8> {
    (0..count).flat_map(|i| (1.0 + i as f32 / 3.0).to_le_bytes()).collect()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn cases(count: u32) -> Vec<Case> {
    let program = |source: &str| text::parse(source).expect("the example parses").program;
    let groups = count.div_ceil(64);
    let side = f64::from(count).sqrt() as u32;
    let tiles = side.div_ceil(8);
    vec![
        Case {
            name: "saxpy",
            program: program(include_str!("../../../examples/saxpy.vyre")),
            inputs: vec![1.5f32.to_le_bytes().to_vec(), floats(count), floats(count)],
            grid: [groups, 1, 1],
        },
        Case {
            name: "reduce",
            program: program(include_str!("../../../examples/reduce.vyre")),
            inputs: vec![floats(count), vec![0; groups as usize * 4]],
            grid: [groups, 1, 1],
        },
        Case {
            name: "mix",
            program: program(include_str!("../../../examples/mix.vyre")),
            inputs: vec![floats(count)],
            grid: [groups, 1, 1],
        },
        Case {
            name: "matmul",
            program: program(include_str!("../../../examples/matmul.vyre")),
            inputs: vec![
                words(&[side, side, side]),
                floats(side * side),
                floats(side * side),
                vec![0; (side * side * 4) as usize],
            ],
            grid: [tiles, tiles, 1],
        },
    ]
}

/// wgpu by hand.
struct Hand {
    device: wgpu::Device,
    queue: wgpu::Queue,
    /// Whether the host maps buffers, where they lie in its memory.
    maps: bool,
}

struct Ready {
    pipeline: wgpu::ComputePipeline,
    /// One for each piece of the grid.
    pieces: Vec<(wgpu::BindGroup, [u32; 3])>,
    buffers: Vec<wgpu::Buffer>,
    /// What the host reads: the last buffer itself where it maps that.
    staging: wgpu::Buffer,
}

impl Hand {
    fn open(maps: bool) -> Hand {
        let mut wanted = wgpu::InstanceDescriptor::new_without_display_handle();
        wanted.flags = wgpu::InstanceFlags::empty();
        let instance = wgpu::Instance::new(wanted);
        let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..wgpu::RequestAdapterOptions::default()
        }))
        .expect("the backend found one");
        let features = wgpu::Features::PASSTHROUGH_SHADERS
            | wgpu::Features::SHADER_INT64
            | wgpu::Features::SHADER_INT64_ATOMIC_ALL_OPS
            | wgpu::Features::SHADER_F64
            | wgpu::Features::SHADER_F16
            | wgpu::Features::SUBGROUP;
        let mapping = wgpu::Features::MAPPABLE_PRIMARY_BUFFERS;
        let features = if maps { features | mapping } else { features };
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            required_features: features & adapter.features(),
            required_limits: adapter.limits(),
            ..wgpu::DeviceDescriptor::default()
        }))
        .expect("it opens");
        Hand { device, queue, maps }
    }

    fn ready(&self, case: &Case, (options, lanes): (spirv::Options, u32)) -> Ready {
        let valid = validate::validate(&case.program).expect("the example is valid");
        let parts = valid.parts();
        let shader = spirv::lower_for_subgroups(&valid, &options, lanes).expect("it lowers");
        let (bindings, [x, y, z]) = (Bindings::new(parts), parts.workgroup);
        let entries = [wgpu::PassthroughShaderEntryPoint { name: "main".into(), workgroup_size: (x, y, z) }];
        let wanted = wgpu::ShaderModuleDescriptorPassthrough {
            entry_points: (&entries[..]).into(),
            spirv: Some(shader.words.as_slice().into()),
            ..wgpu::ShaderModuleDescriptorPassthrough::default()
        };
        // SAFETY: the module is vyre's, which keeps to its bindings and checks its accesses.
        let module = unsafe { self.device.create_shader_module_passthrough(wanted) };
        let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let kinds = bindings.buffers.iter().map(|(_, writable)| storage(!writable));
        let layout: Vec<_> = kinds
            .chain([wgpu::BufferBindingType::Uniform])
            .enumerate()
            .map(|(binding, ty)| wgpu::BindGroupLayoutEntry {
                binding: binding as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
                count: None,
            })
            .collect();
        let layout = wgpu::BindGroupLayoutDescriptor { label: None, entries: &layout };
        let layout = self.device.create_bind_group_layout(&layout);
        let all = wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        };
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&self.device.create_pipeline_layout(&all)),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        use wgpu::BufferUsages as Use;
        let buffer = |size: usize, usage| {
            let size = size.next_multiple_of(4) as u64;
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let usage = Use::STORAGE | Use::COPY_SRC | Use::COPY_DST;
        let usage = if self.maps { usage | Use::MAP_READ | Use::MAP_WRITE } else { usage };
        let buffers: Vec<_> = case.inputs.iter().map(|input| buffer(input.len(), usage)).collect();
        let lens = bound_buffers(parts).into_iter().zip(&case.inputs);
        let lens: Vec<u32> =
            lens.map(|(id, input)| (input.len() / parts.buffer(id).ty.bytes()) as u32).collect();
        // A dispatch has at most that many workgroups in a row.
        let [x, y, z] = case.grid;
        let pieces = (0..x).step_by(GROUPS_MAX as usize).map(|from| {
            let launch = words(&bindings.launch_words(case.grid, [from, 0, 0], &lens));
            let launch_buffer = buffer(launch.len(), Use::UNIFORM | Use::COPY_DST);
            self.queue.write_buffer(&launch_buffer, 0, &launch);
            let bound = buffers.iter().chain([&launch_buffer]).enumerate();
            let entries: Vec<_> = bound
                .map(|(binding, buffer)| wgpu::BindGroupEntry {
                    binding: binding as u32,
                    resource: buffer.as_entire_binding(),
                })
                .collect();
            let group = wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries };
            (self.device.create_bind_group(&group), [(x - from).min(GROUPS_MAX), y, z])
        });
        let pieces = pieces.collect();
        let staging = if self.maps {
            buffers.last().expect("it has buffers").clone()
        } else {
            buffer(case.inputs.last().expect("it has buffers").len(), Use::MAP_READ | Use::COPY_DST)
        };
        let ready = Ready { pipeline, pieces, buffers, staging };
        self.give(&ready, &case.inputs);
        ready
    }

    /// Writes the inputs.
    fn give(&self, ready: &Ready, inputs: &[Vec<u8>]) {
        let each = || ready.buffers.iter().zip(inputs);
        if !self.maps {
            return each().for_each(|(buffer, input)| self.queue.write_buffer(buffer, 0, input));
        }
        each().for_each(|(buffer, _)| {
            buffer.map_async(wgpu::MapMode::Write, .., |mapped| mapped.expect("it maps"));
        });
        self.device.poll(wgpu::PollType::Poll).expect("it is there");
        for (buffer, input) in each() {
            buffer.get_mapped_range_mut(..).expect("it is mapped").copy_from_slice(input);
            buffer.unmap();
        }
    }

    /// Launches, and gives that many bytes of the last buffer.
    fn run(&self, ready: &Ready, turns: u32, read: Option<u64>) -> Vec<u8> {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&ready.pipeline);
            for turn in 0..turns {
                for (group, [x, y, z]) in &ready.pieces {
                    if turn == 0 || ready.pieces.len() > 1 {
                        pass.set_bind_group(0, group, &[]);
                    }
                    pass.dispatch_workgroups(*x, *y, *z);
                }
            }
        }
        if let Some(bytes) = read.filter(|_| !self.maps) {
            let last = ready.buffers.last().expect("it has buffers");
            encoder.copy_buffer_to_buffer(last, 0, &ready.staging, 0, bytes);
        }
        self.queue.submit([encoder.finish()]);
        if read.is_some() {
            ready.staging.map_async(wgpu::MapMode::Read, .., |mapped| mapped.expect("it maps"));
        }
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("it ends");
        let Some(bytes) = read else { return Vec::new() };
        let found = ready.staging.get_mapped_range(0..bytes).expect("it is mapped").to_vec();
        ready.staging.unmap();
        found
    }
}

/// The fast times of two things done in turn, and the middle ratio.
struct Pair {
    times: [Duration; 2],
    ratio: f64,
}

fn times<T: PartialEq>(rounds: usize, mut ours: impl FnMut() -> T, mut theirs: impl FnMut() -> T) -> Pair {
    // The run before gives the device to this side.
    fn timed<T>(run: &mut impl FnMut() -> T) -> (Duration, T) {
        run();
        let start = Instant::now();
        let result = run();
        (start.elapsed(), result)
    }
    let (mut times, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    let start = Instant::now();
    for round in 0..rounds {
        if round >= ROUNDS_MIN && start.elapsed() > ENOUGH {
            break;
        }
        let (one, other) = if round % 2 == 0 {
            let one = timed(&mut ours);
            (one, timed(&mut theirs))
        } else {
            let other = timed(&mut theirs);
            (timed(&mut ours), other)
        };
        assert!(one.1 == other.1, "both give the same bytes");
        times[0].push(one.0);
        times[1].push(other.0);
        ratios.push(one.0.as_secs_f64() / other.0.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let times = times.map(|mut times| {
        times.sort();
        times[times.len() / 10]
    });
    Pair { times, ratio: ratios[ratios.len() / 2] }
}

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let rounds = numbers.first().copied().unwrap_or(50);
    let log2_max = numbers.get(1).copied().unwrap_or(20);
    let only = std::env::args().nth(3);
    let queue = WgpuConfig::from_env().and_then(|config| Wgpu::open(&config));
    let queue = queue.unwrap_or_else(|error| panic!("{error}"));
    let emission = queue.emission().expect("it gets SPIR-V");
    let backend = WgpuBackend::new(queue);
    let hand = Hand::open(std::env::args().nth(4).as_deref() == Some("mapped"));
    println!("{}, {}", backend.device_name(), backend.driver_name());
    println!(
        "{:8} {:>9}  {:26} {:26} {:26}",
        "kernel", "elements", "dispatch and readback", "resident dispatch", "64 in sequence"
    );
    let last = (log2_max % 5 != 0).then_some(log2_max);
    for log2 in (10..=log2_max).step_by(5).chain(last) {
        for case in
            cases(1 << log2).into_iter().filter(|case| only.as_deref().is_none_or(|only| only == case.name))
        {
            let ready = hand.ready(&case, emission);
            let inputs: Vec<&[u8]> = case.inputs.iter().map(Vec::as_slice).collect();
            let config = DispatchConfig { grid_override: Some(case.grid), ..DispatchConfig::default() };
            let output_bytes = case.inputs.last().expect("it has buffers").len() as u64;
            let host = times(
                rounds,
                || {
                    backend
                        .dispatch_borrowed(&case.program, &inputs, &config)
                        .expect("it runs")
                        .swap_remove(0)
                },
                || {
                    hand.give(&ready, &case.inputs);
                    hand.run(&ready, 1, Some(output_bytes))
                },
            );
            let resources: Vec<Resource> = case
                .inputs
                .iter()
                .map(|input| {
                    let resource = backend.allocate_resident(input.len()).expect("memory");
                    backend.upload_resident(&resource, input).expect("it uploads");
                    resource
                })
                .collect();
            let step = ResidentDispatchStep {
                program: &case.program,
                resources: &resources,
                grid_override: Some(case.grid),
            };
            let resident = times(
                rounds,
                || {
                    backend
                        .dispatch_resident_sequence_read_ranges_into(&[step], &[], &mut [])
                        .expect("it runs")
                },
                || hand.run(&ready, 1, None).clear(),
            );
            let last = resources.last().expect("it has buffers");
            let range = ResidentReadRange { resource: last, byte_offset: 0, byte_len: 4 };
            let turns = if log2 > 15 { TURNS / 16 } else { TURNS };
            let sequence = times(
                rounds.div_ceil(4),
                || {
                    let mut out = Vec::new();
                    backend
                        .dispatch_resident_repeated_sequence_read_ranges_into(
                            &[],
                            &[step],
                            turns,
                            &[range],
                            &mut [&mut out],
                        )
                        .expect("it runs");
                    out.len()
                },
                || hand.run(&ready, turns, Some(4)).len(),
            );
            let column = |Pair { times: [ours, theirs], ratio }: Pair| {
                format!("{ours:9.1?} {theirs:9.1?} {ratio:5.2}")
            };
            let (host, resident, sequence) = (column(host), column(resident), column(sequence));
            println!("{:8} {:9}  {host:26} {resident:26} {sequence:26}", case.name, 1u32 << log2);
        }
    }
}
