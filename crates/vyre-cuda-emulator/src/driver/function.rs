//! Kernels as a caller sees them: their attributes, and how many blocks of one fit on a multiprocessor.
#![allow(unsafe_code)]

use super::context::Context;
use super::ffi::{In, Out};
use super::module::Module;
use super::state::Driver;
use super::{Call, invalid, with_context};
use crate::engine::Kernel;
use crate::fault::{Code, Fault};
use crate::model::Model;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const MAX_DYNAMIC_SHARED: u32 = 8;
const PREFERRED_CARVEOUT: u32 = 9;
const WARP: u32 = 32;

pub(super) struct Function {
    pub(super) handle: usize,
    pub(super) module: Arc<Module>,
    pub(super) kernel: usize,
    /// The most dynamic shared memory that a launch may ask for.
    pub(super) dynamic_shared_max: AtomicU32,
}

impl Function {
    pub(super) fn kernel(&self) -> &Kernel {
        self.module.kernel(self.kernel)
    }
}

/// The function of a handle, which is one of this context.
pub(super) fn function_of(context: &Context, handle: usize) -> Call<Arc<Function>> {
    let function = Driver::get()?.functions.get(handle)?;
    if function.module.context != context.handle {
        return Err(Fault::new(Code::InvalidHandle, "the kernel is of another context"));
    }
    Ok(function)
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetAttribute(out: Out<i32>, attribute: u32, function: usize) -> u32 {
    with_context(|context| {
        let function = function_of(context, function)?;
        let kernel = function.kernel();
        let sm = context.device.model.sm;
        let value = match attribute {
            0 => kernel.threads_max,
            1 => kernel.shared_bytes,
            2 => kernel.const_bytes,
            3 => kernel.local_bytes,
            4 => kernel.registers,
            // The version of the PTX and of the machine code: there is none, so both are the device's.
            5 | 6 => sm,
            7 => 0,
            MAX_DYNAMIC_SHARED => function.dynamic_shared_max.load(Ordering::Relaxed),
            PREFERRED_CARVEOUT => return out.set(-1),
            // Clusters are not required, and not supported.
            10..=15 => 0,
            _ => return Err(invalid("there is no such attribute of a function")),
        };
        out.set(value as i32)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(function: usize, attribute: u32, value: i32) -> u32 {
    with_context(|context| {
        let function = function_of(context, function)?;
        match attribute {
            MAX_DYNAMIC_SHARED => {
                let most = context.device.model.shared_per_block_optin - function.kernel().shared_bytes;
                let value = u32::try_from(value).ok().filter(|value| *value <= most);
                let value = value.ok_or_else(|| {
                    invalid(&format!("a block may have at most {most} bytes of dynamic shared memory"))
                })?;
                function.dynamic_shared_max.store(value, Ordering::Relaxed);
                Ok(())
            }
            PREFERRED_CARVEOUT if (-1..=100).contains(&value) => Ok(()),
            _ => Err(invalid("the attribute cannot be set to that")),
        }
    })
}

/// Caches are not emulated.
#[unsafe(no_mangle)]
extern "C" fn cuFuncSetCacheConfig(function: usize, _config: u32) -> u32 {
    with_context(|context| function_of(context, function).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetModule(out: Out<usize>, function: usize) -> u32 {
    with_context(|context| {
        let function = function_of(context, function)?;
        let modules = Driver::get()?.modules.all();
        let module = modules.iter().find(|module| Arc::ptr_eq(module, &function.module));
        out.set(module.ok_or_else(|| invalid("the module was unloaded"))?.handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetParamInfo(
    function: usize,
    index: usize,
    offset: Out<usize>,
    byte_len: Out<usize>,
) -> u32 {
    with_context(|context| {
        let function = function_of(context, function)?;
        let parameter = function.kernel().params.get(index);
        let (at, len) = *parameter.ok_or_else(|| invalid("the kernel has fewer parameters"))?;
        offset.set(at as usize)?;
        byte_len.set_if_asked(len as usize);
        Ok(())
    })
}

/// What a kernel takes of a multiprocessor, and its limit.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    registers: u32,
    shared_bytes: u32,
    threads_max: u32,
}

impl Needs {
    pub(super) fn of(kernel: &Kernel) -> Needs {
        let &Kernel { registers, shared_bytes, threads_max, .. } = kernel;
        Needs { registers, shared_bytes, threads_max }
    }

    /// Registers that a warp takes: they are given out in units.
    pub(super) fn registers_of_warp(self) -> u32 {
        self.registers.max(1).next_multiple_of(8) * WARP
    }
}

/// How many blocks of a kernel one multiprocessor holds at once.
pub(super) fn blocks_per_multiprocessor(model: &Model, kernel: Needs, threads: u32, dynamic: u32) -> u32 {
    let shared = u64::from(kernel.shared_bytes) + u64::from(dynamic);
    if threads == 0 || threads > kernel.threads_max || shared > u64::from(model.shared_per_block_optin) {
        return 0;
    }
    let warps = threads.div_ceil(WARP);
    // A multiprocessor has four parts, each with a quarter of the registers; a warp's are all in one.
    let warps_by_registers = model.registers_per_multiprocessor / 4 / kernel.registers_of_warp() * 4;
    let warps_by_threads = model.threads_per_multiprocessor / WARP;
    let shared = (shared as u32 + model.shared_reserved).next_multiple_of(128);
    let by_shared = model.shared_per_multiprocessor.checked_div(shared).unwrap_or(u32::MAX);
    (warps_by_registers.min(warps_by_threads) / warps).min(model.blocks_per_multiprocessor).min(by_shared)
}

fn occupancy(out: Out<i32>, function: usize, threads: i32, dynamic: usize) -> u32 {
    with_context(|context| {
        let function = function_of(context, function)?;
        let threads = u32::try_from(threads).map_err(|_| invalid("a negative number of threads"))?;
        let dynamic = u32::try_from(dynamic).unwrap_or(u32::MAX);
        out.set(blocks_per_multiprocessor(
            &context.device.model,
            Needs::of(function.kernel()),
            threads,
            dynamic,
        ) as i32)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    out: Out<i32>,
    function: usize,
    threads: i32,
    dynamic: usize,
) -> u32 {
    occupancy(out, function, threads, dynamic)
}

#[unsafe(no_mangle)]
extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    out: Out<i32>,
    function: usize,
    threads: i32,
    dynamic: usize,
    _flags: u32,
) -> u32 {
    occupancy(out, function, threads, dynamic)
}

/// Shared memory that depends on the block's size is not supported.
#[unsafe(no_mangle)]
extern "C" fn cuOccupancyMaxPotentialBlockSize(
    grid_min: Out<i32>,
    block: Out<i32>,
    function: usize,
    shared_of_block: In<u8>,
    dynamic: usize,
    limit: i32,
) -> u32 {
    with_context(|context| {
        if !shared_of_block.is_null() {
            return Err(Fault::new(Code::NotSupported, "shared memory by the block's size"));
        }
        let function = function_of(context, function)?;
        let (model, kernel) = (&context.device.model, Needs::of(function.kernel()));
        let most = if limit > 0 { kernel.threads_max.min(limit as u32) } else { kernel.threads_max };
        let dynamic = u32::try_from(dynamic).unwrap_or(u32::MAX);
        let blocks = |threads| blocks_per_multiprocessor(model, kernel, threads, dynamic);
        let sizes = (WARP..=most).step_by(WARP as usize).chain([most]);
        let best = sizes.max_by_key(|threads| blocks(*threads) * threads).unwrap_or(most);
        grid_min.set((blocks(best) * model.multiprocessors) as i32)?;
        block.set(best as i32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_by_the_scarcest_resource() {
        let model = Model::of(90).expect("it is known");
        let blocks = |registers, shared, threads, dynamic| {
            let needs = Needs { registers, shared_bytes: shared, threads_max: 1024 };
            blocks_per_multiprocessor(&model, needs, threads, dynamic)
        };
        assert_eq!(blocks(32, 0, 256, 0), 8);
        assert_eq!(blocks(16, 0, 32, 0), 32);
        assert_eq!(blocks(128, 0, 256, 0), 2);
        assert_eq!(blocks(32, 1024, 128, 64 << 10), 3);
        assert_eq!(blocks(32, 0, 1024, 227 << 10), 1);
        assert_eq!(blocks(32, 1, 1024, 227 << 10), 0);
        assert_eq!(blocks(32, 0, 1025, 0), 0);
    }
}
