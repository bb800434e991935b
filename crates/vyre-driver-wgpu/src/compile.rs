//! From programs to pipelines.
#![allow(unsafe_code)]

use crate::ID;
use crate::device::{Device, Kept};
use std::sync::atomic::{AtomicU64, Ordering};
use vyre_driver::BackendError;
use vyre_driver::pipeline::{DiskCache, PipelineKey};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::Digest;
use vyre_foundation::validate::ValidProgram;
use vyre_lower::bindings::{Bindings, ENTRY_POINT};
use vyre_lower::floats::Floats;
use vyre_lower::{spirv, wgsl};
use wgpu::{BindingType, BufferBindingType, BufferUsages, Features};

/// A compiled program.
pub struct Kernel {
    pub(crate) pipeline: Kept<wgpu::ComputePipeline>,
    pub(crate) layout: Kept<wgpu::BindGroupLayout>,
    pub(crate) bindings: Bindings,
    /// The long tables, where the shader has some.
    pub(crate) tables: Option<Kept<wgpu::Buffer>>,
    /// The code and place of each trap, by number.
    pub(crate) traps: Vec<(u32, Place)>,
    /// No two kernels have the same.
    pub(crate) id: u64,
}

static IDS: AtomicU64 = AtomicU64::new(0);

/// How shaders for a device are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shaders {
    /// WGSL, with these strategies for f32 and software floats for the others.
    Wgsl(Floats),
    /// SPIR-V of our own, which the driver gets as it is, and the lanes of the device's subgroups, if they can be used.
    SpirV(spirv::Options, u32),
}

/// A program for the device's compiler.
enum Source {
    Wgsl(String),
    SpirV(Vec<u32>),
}

/// Lowers a program and compiles it.
pub(crate) fn compile(
    device: &Device,
    cache: Option<&DiskCache>,
    program: &ValidProgram,
    shaders: &Shaders,
) -> Result<Kernel, BackendError> {
    let bindings = Bindings::new(program.parts());
    let Lowered { source, traps, workgroup_bytes, nesting, tables } = lower(program, shaders)?;
    let (limits, has_tables) = (&device.limits, !tables.is_empty());
    let buffers = bindings.buffers.len() + usize::from(bindings.has_status) + usize::from(has_tables);
    let demands = [
        (
            "the depth of nested blocks, with those of functions, which this driver compiles",
            u64::from(nesting),
            u64::from(device.adapter.nesting_max()),
        ),
        (
            "the number of buffers, with those for traps and long tables (max_storage_buffers_per_shader_stage)",
            buffers as u64,
            u64::from(limits.max_storage_buffers_per_shader_stage),
        ),
        (
            "the bytes of long tables together (max_storage_buffer_binding_size)",
            tables.len() as u64 * 4,
            limits.max_storage_buffer_binding_size,
        ),
        (
            "the bytes of workgroup memory with what lanes exchange (max_compute_workgroup_storage_size)",
            workgroup_bytes,
            u64::from(limits.max_compute_workgroup_storage_size),
        ),
    ];
    if let Some((what, asked, limit)) = demands.into_iter().find(|(_, asked, limit)| asked > limit) {
        return Err(BackendError::LimitExceeded { what: what.into(), asked, limit, backend: ID.into() });
    }
    let refused = |error: BackendError| match error {
        BackendError::Other { message, .. } => BackendError::compile_failed(ID, message),
        other => other,
    };
    let compiled = device.watched("a shader", || {
        build(device, cache, &bindings, &source, has_tables, program.parts().workgroup)
    });
    let (pipeline, layout) = compiled.map_err(refused)?;
    let tables = has_tables.then(|| table_buffer(device, &tables)).transpose()?;
    Ok(Kernel {
        pipeline: device.kept(pipeline),
        layout: device.kept(layout),
        traps,
        bindings,
        tables: tables.map(|tables| device.kept(tables)),
        id: IDS.fetch_add(1, Ordering::Relaxed),
    })
}

/// A program as the device's compiler gets it.
struct Lowered {
    source: Source,
    /// The code and place of each trap, by number.
    traps: Vec<(u32, Place)>,
    /// Of the program's own and of what lanes exchange.
    workgroup_bytes: u64,
    /// The blocks around its innermost line.
    nesting: u32,
    /// What the binding of the long tables holds.
    tables: Vec<u32>,
}

fn failed(message: String, fix: &str) -> BackendError {
    BackendError::CompileFailed { backend: ID.into(), message, fix: fix.into() }
}

fn lower(program: &ValidProgram, shaders: &Shaders) -> Result<Lowered, BackendError> {
    if let Shaders::SpirV(options, subgroup_lanes) = shaders {
        match spirv::lower_for_subgroups(program, options, *subgroup_lanes) {
            Ok(spirv::Shader { words, traps, workgroup_bytes, nesting, tables, .. }) => {
                return Ok(Lowered { source: Source::SpirV(words), traps, workgroup_bytes, nesting, tables });
            }
            // WGSL has locks for them.
            Err(spirv::LowerError::WideAtomic { .. }) => {}
            Err(spirv::LowerError::Rewrite(error)) => return Err(failed(error.message, error.fix)),
        }
    }
    let floats = match shaders {
        Shaders::Wgsl(floats) => *floats,
        Shaders::SpirV(..) => Floats::SOFT,
    };
    let options = wgsl::Options { floats, ..wgsl::Options::DRIVER };
    let shader = wgsl::lower(program, &options).map_err(|error| match error {
        wgsl::LowerError::Nesting { depth } => BackendError::LimitExceeded {
            what: "the depth of nested blocks in WGSL".into(),
            asked: depth as u64,
            limit: wgsl::DEPTH_MAX as u64,
            backend: ID.into(),
        },
        other => failed(other.message(), other.fix()),
    })?;
    let codes = shader.traps.iter().map(|(_, code)| *code);
    let traps = codes.zip(shader.places).collect();
    let wgsl::Shader { source, workgroup_bytes, nesting, tables, .. } = shader;
    Ok(Lowered { source: Source::Wgsl(source), traps, workgroup_bytes, nesting, tables })
}

/// What wgpu makes of a shader. Its loops end and its accesses stay in bounds, so nothing is added to it.
fn module(device: &Device, source: &Source, workgroup: [u32; 3]) -> wgpu::ShaderModule {
    match source {
        Source::Wgsl(source) => {
            let source = wgpu::ShaderSource::Wgsl(source.as_str().into());
            let wanted = wgpu::ShaderModuleDescriptor { label: None, source };
            let checks = wgpu::ShaderRuntimeChecks::unchecked();
            // SAFETY: the shader checks every index that is not proven in bounds, and each of its loops ends.
            unsafe { device.raw.create_shader_module_trusted(wanted, checks) }
        }
        Source::SpirV(words) => {
            let [x, y, z] = workgroup;
            let name = ENTRY_POINT.into();
            let entries = [wgpu::PassthroughShaderEntryPoint { name, workgroup_size: (x, y, z) }];
            let wanted = wgpu::ShaderModuleDescriptorPassthrough {
                label: None,
                entry_points: (&entries[..]).into(),
                spirv: Some(words.as_slice().into()),
                ..wgpu::ShaderModuleDescriptorPassthrough::default()
            };
            // SAFETY: as above; and the module uses the bindings of the layout, and features that the device has on.
            unsafe { device.raw.create_shader_module_passthrough(wanted) }
        }
    }
}

fn build(
    device: &Device,
    cache: Option<&DiskCache>,
    bindings: &Bindings,
    source: &Source,
    has_tables: bool,
    workgroup: [u32; 3],
) -> (wgpu::ComputePipeline, wgpu::BindGroupLayout) {
    let module = module(device, source, workgroup);
    let layout = layout(device, bindings, has_tables);
    let all = wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    };
    let all = device.raw.create_pipeline_layout(&all);
    let kept = Compiled::open(device, cache, source);
    let pipeline = device.raw.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: Some(&all),
        module: &module,
        entry_point: Some(ENTRY_POINT),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: kept.as_ref().map(|kept| &kept.cache),
    });
    if let Some(kept) = kept {
        kept.close();
    }
    (pipeline, layout)
}

fn layout(device: &Device, bindings: &Bindings, has_tables: bool) -> wgpu::BindGroupLayout {
    let storage = |read_only| BufferBindingType::Storage { read_only };
    let buffers = bindings.buffers.iter().map(|(_, writable)| storage(!writable));
    let status = bindings.status().map(|_| storage(false));
    let tables = has_tables.then(|| storage(true));
    let kinds = buffers.chain([BufferBindingType::Uniform]).chain(status).chain(tables);
    let entry = |(binding, ty)| wgpu::BindGroupLayoutEntry {
        binding: binding as u32,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    };
    let entries: Vec<_> = kinds.enumerate().map(entry).collect();
    device.raw.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries })
}

/// The long tables on the device.
fn table_buffer(device: &Device, words: &[u32]) -> Result<wgpu::Buffer, BackendError> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let wanted = wgpu::BufferDescriptor {
        label: None,
        size: bytes.len() as u64,
        usage: BufferUsages::STORAGE | BufferUsages::COPY_DST,
        mapped_at_creation: false,
    };
    device.watched("a kernel's tables", || {
        let buffer = device.raw.create_buffer(&wanted);
        device.queue.write_buffer(&buffer, 0, &bytes);
        buffer
    })
}

/// What the driver keeps of a compiled kernel, in a file of its own.
struct Compiled<'a> {
    cache: wgpu::PipelineCache,
    disk: &'a DiskCache,
    key: PipelineKey,
    is_new: bool,
}

impl<'a> Compiled<'a> {
    /// Named by the shader, the device and the driver, which decide it together.
    fn open(device: &Device, disk: Option<&'a DiskCache>, source: &Source) -> Option<Compiled<'a>> {
        let disk = disk.filter(|_| device.has(Features::PIPELINE_CACHE))?;
        let mut hasher = blake3::Hasher::new();
        for text in [&device.adapter.name, &device.adapter.driver] {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        match source {
            Source::Wgsl(source) => hasher.update(source.as_bytes()),
            Source::SpirV(words) => {
                hasher.update(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
            }
        };
        let program = Digest(*hasher.finalize().as_bytes());
        let key = PipelineKey { program, backend: ID, version: env!("CARGO_PKG_VERSION"), variant: 0 };
        let data = disk.get(&key);
        let wanted = wgpu::PipelineCacheDescriptor { label: None, data: data.as_deref(), fallback: true };
        // SAFETY: the file holds what a cache of this device and driver gave, and its digest was checked.
        let cache = unsafe { device.raw.create_pipeline_cache(&wanted) };
        Some(Compiled { cache, disk, key, is_new: data.is_none() })
    }

    fn close(self) {
        if let (true, Some(data)) = (self.is_new, self.cache.get_data())
            && let Err(error) = self.disk.put(&self.key, &data)
        {
            tracing::warn!(%error, "a compiled kernel could not be kept on disk. Fix: set VYRE_CACHE to a folder with room that you may write to");
        }
    }
}
