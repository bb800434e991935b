//! A runtime for compute shaders over wgpu: one device, one pipeline at a time, exact bytes in and out.
//!
//! A vendor has their own in place of this file. It knows nothing of vyre: group 0 has the input at binding 0, the output
//! at 1, the params at 2, and lookup data at [`LOOKUP_BINDING`].

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::mpsc;
use std::time::Duration;
use wgpu::util::DeviceExt;

/// Where lookup data is bound.
pub const LOOKUP_BINDING: u32 = 3;

/// How long a dispatch may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A mistake that can be switched on, to see the suite find and explain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Launches an even number of workgroups along x, rounded down, where there are several.
    RoundsWorkgroupsDown,
}

/// An open device.
pub struct VendorRuntime {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: wgpu::AdapterInfo,
    mistake: Option<Mistake>,
    /// The last shader's pipeline: the same shader often comes again with other input.
    pipeline: RefCell<Option<Pipeline>>,
}

struct Pipeline {
    wgsl: String,
    has_lookup: bool,
    layout: wgpu::BindGroupLayout,
    pipeline: wgpu::ComputePipeline,
}

impl VendorRuntime {
    /// Opens the first device that wgpu offers.
    pub fn open() -> Result<VendorRuntime, String> {
        pollster::block_on(open()).map_err(|error| {
            format!("no device: {error}. Fix: install a Vulkan driver; Mesa's software driver needs no GPU")
        })
    }

    /// The same device with a mistake in it.
    pub fn with_mistake(self, mistake: Mistake) -> VendorRuntime {
        VendorRuntime { mistake: Some(mistake), ..self }
    }

    /// The device's name.
    pub fn device_name(&self) -> &str {
        &self.info.name
    }

    /// The driver and its version.
    pub fn driver_name(&self) -> String {
        format!("{} {}", self.info.driver, self.info.driver_info)
    }

    /// Runs a shader and gives back exactly `output_size` bytes. `output_fill` is what every byte of the output holds
    /// before the launch.
    #[allow(clippy::too_many_arguments)] // The contract's own example calls it so.
    pub fn run_compute_shader(
        &self,
        wgsl: &str,
        input: &[u8],
        output_size: usize,
        workgroup_size: [u32; 3],
        workgroup_count: [u32; 3],
        lookup_data: Option<&[u8]>,
        output_fill: u8,
    ) -> Result<Vec<u8>, String> {
        let lanes = workgroup_size.iter().product::<u32>();
        let lanes_max = self.device.limits().max_compute_invocations_per_workgroup;
        if lanes > lanes_max {
            return Err(format!("{lanes} lanes in a workgroup, and the device has {lanes_max}"));
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let readback = self.launch(wgsl, input, output_size, workgroup_count, lookup_data, output_fill);
        let refused = pollster::block_on(memory.pop()).or(pollster::block_on(scope.pop()));
        if let Some(error) = refused {
            *self.pipeline.borrow_mut() = None;
            return Err(error.to_string());
        }
        self.read(&readback, output_size)
    }

    /// Uploads, dispatches, and copies the output to where it can be read.
    fn launch(
        &self,
        wgsl: &str,
        input: &[u8],
        output_size: usize,
        [x, y, z]: [u32; 3],
        lookup: Option<&[u8]>,
        output_fill: u8,
    ) -> wgpu::Buffer {
        let params: Vec<u8> = [input.len() as u32, output_size as u32, 0, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let read = wgpu::BufferUsages::STORAGE;
        let written = read | wgpu::BufferUsages::COPY_SRC;
        let output = self.buffer(&vec![output_fill; output_size], written);
        let mut buffers = vec![
            (0, self.buffer(input, read)),
            (1, output.clone()),
            (2, self.buffer(&params, wgpu::BufferUsages::UNIFORM)),
        ];
        buffers.extend(lookup.map(|bytes| (LOOKUP_BINDING, self.buffer(bytes, read))));
        let entries: Vec<wgpu::BindGroupEntry<'_>> = buffers
            .iter()
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding: *binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        self.compile(wgsl, lookup.is_some());
        let kept = self.pipeline.borrow();
        let Pipeline { layout, pipeline, .. } = kept.as_ref().expect("compiled above");
        let group = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        let group = self.device.create_bind_group(&group);
        let readback = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: output.size(),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(self.mistaken(x), y, z);
        }
        encoder.copy_buffer_to_buffer(&output, 0, &readback, 0, output.size());
        self.queue.submit([encoder.finish()]);
        readback
    }

    fn mistaken(&self, x: u32) -> u32 {
        match self.mistake {
            Some(Mistake::RoundsWorkgroupsDown) if x > 1 => x / 2 * 2,
            Some(Mistake::RoundsWorkgroupsDown) | None => x,
        }
    }

    /// Device memory that starts with `bytes`: a whole number of words, and at least one.
    fn buffer(&self, bytes: &[u8], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let mut contents = bytes.to_vec();
        contents.resize(bytes.len().next_multiple_of(4).max(4), 0);
        self.device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: None,
            contents: &contents,
            usage,
        })
    }

    fn compile(&self, wgsl: &str, has_lookup: bool) {
        let mut kept = self.pipeline.borrow_mut();
        if kept.as_ref().is_some_and(|kept| kept.wgsl == wgsl && kept.has_lookup == has_lookup) {
            return;
        }
        let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let mut kinds = vec![(0, storage(true)), (1, storage(false)), (2, wgpu::BufferBindingType::Uniform)];
        kinds.extend(has_lookup.then(|| (LOOKUP_BINDING, storage(true))));
        let entries: Vec<wgpu::BindGroupLayoutEntry> = kinds
            .into_iter()
            .map(|(binding, ty)| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
                count: None,
            })
            .collect();
        let group = wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries };
        let layout = self.device.create_bind_group_layout(&group);
        let all = wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        };
        let source = wgpu::ShaderSource::Wgsl(wgsl.into());
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&self.device.create_pipeline_layout(&all)),
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        *kept = Some(Pipeline { wgsl: wgsl.into(), has_lookup, layout, pipeline });
    }

    fn read(&self, readback: &wgpu::Buffer, output_size: usize) -> Result<Vec<u8>, String> {
        let (sender, receiver) = mpsc::channel();
        readback.map_async(wgpu::MapMode::Read, .., move |mapped| {
            // The receiver lives until this function ends, and then nobody asks.
            let _ = sender.send(mapped);
        });
        let wait = wgpu::PollType::Wait { submission_index: None, timeout: Some(TIMEOUT) };
        self.device.poll(wait).map_err(text)?;
        receiver.recv().map_err(text)?.map_err(text)?;
        let bytes = readback.get_mapped_range(..).map_err(text)?[..output_size].to_vec();
        readback.unmap();
        Ok(bytes)
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

async fn open() -> Result<VendorRuntime, String> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = instance.request_adapter(&wgpu::RequestAdapterOptions::default()).await.map_err(text)?;
    let (device, queue) = adapter.request_device(&wgpu::DeviceDescriptor::default()).await.map_err(text)?;
    Ok(VendorRuntime { device, queue, info: adapter.get_info(), mistake: None, pipeline: RefCell::new(None) })
}
