//! Launches: what a call must satisfy before a kernel is put on a stream.
#![allow(unsafe_code)]

use super::context::Context;
use super::ffi::In;
use super::function::{Function, Needs, blocks_per_multiprocessor, function_of};
use super::operation::Operation;
use super::stream::{enqueue, stream_of};
use super::{Call, invalid, with_context};
use crate::engine::{Kernel, Launch};
use crate::fault::{Code, Fault};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most blocks along each axis, and the most threads.
const GRID_MAX: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];
const THREADS_MAX: u64 = 1024;

/// What a launch asks for.
struct Request {
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: usize,
    cooperative: bool,
}

/// Pointers to arguments, or one buffer of all of them.
#[derive(Clone, Copy)]
struct Arguments {
    pointers: In<usize>,
    extra: In<usize>,
}

impl Arguments {
    /// The parameters' bytes, as the kernel lays them out.
    fn read(self, kernel: &Kernel) -> Call<Vec<u8>> {
        let end = |(offset, byte_len): &(u32, u32)| (offset + byte_len) as usize;
        let mut bytes = vec![0; kernel.params.iter().map(end).max().unwrap_or(0)];
        match (self.pointers.is_null(), self.extra.is_null()) {
            (false, false) => Err(invalid("arguments are given in both forms")),
            (true, true) if kernel.params.is_empty() => Ok(bytes),
            (true, true) => Err(invalid("the kernel has parameters, and no arguments are given")),
            (true, false) => self.read_buffer(bytes.len()),
            (false, true) => {
                for (index, parameter) in kernel.params.iter().enumerate() {
                    let argument = In::<u8>::at_address(self.pointers.at(index)?);
                    let range = parameter.0 as usize..end(parameter);
                    bytes[range].copy_from_slice(&argument.list(parameter.1 as usize)?);
                }
                Ok(bytes)
            }
        }
    }

    /// `CU_LAUNCH_PARAM_*` with their values, up to an end.
    fn read_buffer(self, byte_len: usize) -> Call<Vec<u8>> {
        let (mut buffer, mut len) = (0, 0);
        for at in (0..4).step_by(2) {
            match self.extra.at(at)? {
                0 => break,
                1 => buffer = self.extra.at(at + 1)?,
                2 => len = In::at_address(self.extra.at(at + 1)?).get()?,
                _ => return Err(invalid("there is no such form of arguments")),
            }
        }
        if len != byte_len {
            return Err(invalid(&format!("the buffer has {len} bytes, and the kernel takes {byte_len}")));
        }
        In::at_address(buffer).list(len)
    }
}

impl Request {
    fn threads(&self) -> u64 {
        self.block.iter().map(|axis| u64::from(*axis)).product()
    }

    fn check(&self, context: &Context, function: &Function) -> Call {
        self.check_sizes(function.kernel())?;
        self.check_shared(context, function)?;
        self.check_registers(context, function.kernel())?;
        if self.cooperative { self.check_cooperative(context, function.kernel()) } else { Ok(()) }
    }

    fn check_sizes(&self, kernel: &Kernel) -> Call {
        let (grid, block) = (self.grid, self.block);
        let within = |size: [u32; 3], most: [u32; 3]| {
            size.iter().zip(most).all(|(size, most)| (1..=most).contains(size))
        };
        if !within(grid, GRID_MAX) || !within(block, BLOCK_MAX) || self.threads() > THREADS_MAX {
            return Err(invalid(&format!("a grid of {grid:?} blocks of {block:?} threads is out of range")));
        }
        if kernel.block.is_some_and(|required| required != block) {
            return Err(invalid(&format!("`{}` requires blocks of {:?} threads", kernel.name, kernel.block)));
        }
        if self.threads() > u64::from(kernel.threads_max) {
            let (threads, most) = (self.threads(), kernel.threads_max);
            let message = format!(
                "a block of `{}` has at most {most} threads, and {threads} are asked for",
                kernel.name
            );
            return Err(Fault::new(Code::LaunchOutOfResources, message));
        }
        Ok(())
    }

    fn check_shared(&self, context: &Context, function: &Function) -> Call {
        let most = function.dynamic_shared_max.load(Ordering::Relaxed);
        let all = u64::from(self.shared_bytes) + u64::from(function.kernel().shared_bytes);
        if self.shared_bytes > most || all > u64::from(context.device.model.shared_per_block_optin) {
            let asked = self.shared_bytes;
            return Err(invalid(&format!(
                "{asked} bytes of dynamic shared memory are asked for, and the function's attribute allows {most}"
            )));
        }
        Ok(())
    }

    fn check_registers(&self, context: &Context, kernel: &Kernel) -> Call {
        let asked = self.threads().div_ceil(32) * u64::from(Needs::of(kernel).registers_of_warp());
        let most = context.device.model.registers_per_multiprocessor;
        if asked > u64::from(most) {
            let message = format!("a block takes {asked} registers, and the device has {most}");
            return Err(Fault::new(Code::LaunchOutOfResources, message));
        }
        Ok(())
    }

    fn check_cooperative(&self, context: &Context, kernel: &Kernel) -> Call {
        let model = &context.device.model;
        let of_each =
            blocks_per_multiprocessor(model, Needs::of(kernel), self.threads() as u32, self.shared_bytes);
        let most = u64::from(of_each) * u64::from(model.multiprocessors);
        let asked: u64 = self.grid.iter().map(|axis| u64::from(*axis)).fold(1, u64::saturating_mul);
        if asked > most {
            let message = format!("{asked} blocks must run together, and the device holds {most}");
            return Err(Fault::new(Code::CooperativeLaunchTooLarge, message));
        }
        Ok(())
    }

    fn launch(&self, context: &Arc<Context>, arguments: Arguments) -> Call {
        let function = function_of(context, self.function)?;
        let stream = stream_of(context, self.stream)?;
        self.check(context, &function)?;
        let params = arguments.read(function.kernel())?;
        let launch = Launch {
            module: Arc::clone(&function.module.loaded),
            kernel: function.kernel,
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            params,
            cooperative: self.cooperative,
        };
        enqueue(&stream, Operation::Launch(Arc::new(launch), function.module.outside.clone())).map(|_| ())
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    function: usize,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: usize,
    pointers: In<usize>,
    extra: In<usize>,
) -> u32 {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let request = Request { function, grid, block, shared_bytes, stream, cooperative: false };
    with_context(|context| request.launch(context, Arguments { pointers, extra }))
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchCooperativeKernel(
    function: usize,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: usize,
    pointers: In<usize>,
) -> u32 {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let request = Request { function, grid, block, shared_bytes, stream, cooperative: true };
    with_context(|context| request.launch(context, Arguments { pointers, extra: In::at_address(0) }))
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: usize,
    attributes: In<Attribute>,
    attribute_count: u32,
}

/// `CUlaunchAttribute`: a number, and 64 bytes that it decides the meaning of.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    id: u32,
    pad: u32,
    value: [u32; 16],
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernelEx(
    config: In<Config>,
    function: usize,
    pointers: In<usize>,
    extra: In<usize>,
) -> u32 {
    with_context(|context| {
        let Config { grid, block, shared_bytes, stream, attributes, attribute_count } = config.get()?;
        let mut request = Request { function, grid, block, shared_bytes, stream, cooperative: false };
        for attribute in attributes.list(attribute_count as usize)? {
            match (attribute.id, attribute.value) {
                (2, value) => request.cooperative = value[0] != 0,
                // One block is a cluster of its own.
                (4, [1, 1, 1, ..]) => {}
                // Hints: windows of the cache, how to wait, overlap with the next kernel, priorities, domains.
                (0 | 1 | 3 | 5 | 6 | 8..=10, _) => {}
                (id, _) => {
                    return Err(Fault::new(Code::NotSupported, format!("attribute {id} of a launch")));
                }
            }
        }
        request.launch(context, Arguments { pointers, extra })
    })
}
