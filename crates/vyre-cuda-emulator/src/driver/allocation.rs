//! Device memory, and host memory that the device knows.
//!
//! Pinned host memory is mapped into the context that made it, at the address that it has on the host. Freeing waits for
//! all work of the context, as CUDA's own functions do.
#![allow(unsafe_code)]

use super::context::Context;
use super::ffi::{Host, Out};
use super::operation::Operation;
use super::state::{Driver, Pinned};
use super::stream::{enqueue_and_wait, stream_of};
use super::{Call, capture, invalid, lock, with_context};
use crate::fault::{Code, Fault};
use crate::memory::Block;
use std::sync::Arc;

/// `CU_MEMHOSTALLOC_*` and `CU_MEMHOSTREGISTER_*` together.
const HOST_FLAGS: u32 = 15;

fn allocate(context: &Context, out: Out<u64>, byte_len: usize) -> Call {
    capture::forbid(context)?;
    out.wanted()?;
    Driver::get()?.hooks.allocation()?;
    let block = context.heap.allocate(byte_len as u64)?;
    lock(&context.allocations).insert(block.address);
    out.set(block.address)
}

/// The context that has an allocation: memory may be freed from another.
fn owner(context: &Arc<Context>, address: u64) -> Call<Arc<Context>> {
    let has = |context: &Arc<Context>| lock(&context.allocations).contains(&address);
    if has(context) {
        return Ok(Arc::clone(context));
    }
    let unknown = || invalid(&format!("{address:#x} is not what an allocation returned, or was freed"));
    Driver::get()?.contexts.all().into_iter().find(has).ok_or_else(unknown)
}

fn free(context: &Arc<Context>, address: u64) -> Call {
    let owner = owner(context, address)?;
    owner.synchronize()?;
    // Of two threads that free the same memory, one is wrong.
    if !lock(&owner.allocations).remove(&address) {
        return Err(invalid(&format!("{address:#x} was freed by another thread")));
    }
    owner.heap.free(address)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(out: Out<u64>, byte_len: usize) -> u32 {
    with_context(|context| allocate(context, out, byte_len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    with_context(|context| {
        if address == 0 {
            return Ok(());
        }
        capture::forbid(context)?;
        free(context, address)
    })
}

/// The memory can be used at once, which is earlier than the stream's order promises.
#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync(out: Out<u64>, byte_len: usize, stream: usize) -> u32 {
    with_context(|context| {
        stream_of(context, stream)?.forbid_captured()?;
        allocate(context, out, byte_len)
    })
}

/// Frees when the stream gets there, and waits for that.
#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: u64, stream: usize) -> u32 {
    with_context(|context| {
        let stream = stream_of(context, stream)?;
        stream.forbid_captured()?;
        enqueue_and_wait(&stream, Operation::Nothing)?;
        free(context, address)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> u32 {
    with_context(|context| {
        free.set(context.device.budget.free_bytes() as usize)?;
        total.set(context.device.model.memory_bytes as usize)
    })
}

/// The allocation that an address is in.
fn containing(context: &Context, address: u64) -> Call<Arc<Block>> {
    let unknown = || Fault::new(Code::InvalidValue, format!("{address:#x} is in no allocation"));
    Driver::get()?.find_memory(context, address, 1).ok_or_else(unknown)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetAddressRange_v2(start: Out<u64>, byte_len: Out<usize>, address: u64) -> u32 {
    with_context(|context| {
        let unknown = |fault: Fault| Fault::new(Code::NotFound, fault.message);
        let block = containing(context, address).map_err(unknown)?;
        start.set_if_asked(block.address);
        byte_len.set_if_asked(block.byte_len as usize);
        Ok(())
    })
}

fn allocate_host(out: Out<usize>, byte_len: usize, flags: u32) -> u32 {
    with_context(|context| {
        capture::forbid(context)?;
        if byte_len == 0 || flags > 7 {
            return Err(invalid("an allocation of no bytes, or a flag that does not exist"));
        }
        let block = Arc::new(Block::pinned(byte_len as u64)?);
        let address = block.address as usize;
        out.set(address)?;
        context.heap.adopt(Arc::clone(&block));
        let memory = Pinned { byte_len, flags, context: context.handle, block: Some(block) };
        lock(&Driver::get()?.pinned).insert(address, memory);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocHost_v2(out: Out<usize>, byte_len: usize) -> u32 {
    allocate_host(out, byte_len, 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(out: Out<usize>, byte_len: usize, flags: u32) -> u32 {
    allocate_host(out, byte_len, flags)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(address: Host) -> u32 {
    with_context(|context| {
        capture::forbid(context)?;
        let driver = Driver::get()?;
        let address = address.address()?;
        let memory = lock(&driver.pinned).get(&address).filter(|memory| memory.block.is_some()).cloned();
        let memory = memory.ok_or_else(|| invalid("not the address of pinned memory"))?;
        let owner = driver.contexts.get(memory.context)?;
        owner.synchronize()?;
        lock(&driver.pinned).remove(&address);
        owner.heap.remove(address as u64).map(|_| ())
    })
}

/// Copies from and to the memory become asynchronous. Kernels cannot access it.
#[unsafe(no_mangle)]
extern "C" fn cuMemHostRegister_v2(address: Host, byte_len: usize, flags: u32) -> u32 {
    with_context(|context| {
        let driver = Driver::get()?;
        let address = address.address()?;
        if byte_len == 0 || flags > HOST_FLAGS {
            return Err(invalid("a range of no bytes, or a flag that does not exist"));
        }
        let mut pinned = lock(&driver.pinned);
        let end = address.checked_add(byte_len).ok_or_else(|| invalid("the range has no end"))?;
        if pinned.range(..end).next_back().is_some_and(|(start, memory)| start + memory.byte_len > address) {
            return Err(Fault::new(Code::HostMemoryAlreadyRegistered, "the memory is pinned already"));
        }
        pinned.insert(address, Pinned { byte_len, flags, context: context.handle, block: None });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostUnregister(address: Host) -> u32 {
    with_context(|context| {
        context.synchronize()?;
        let address = address.address()?;
        let mut pinned = lock(&Driver::get()?.pinned);
        let registered = pinned.get(&address).is_some_and(|memory| memory.block.is_none());
        if !registered {
            return Err(Fault::new(Code::HostMemoryNotRegistered, "the memory is not registered"));
        }
        pinned.remove(&address);
        Ok(())
    })
}

fn pinned(address: Host) -> Call<(usize, Pinned)> {
    let found = Driver::get()?.pinned(address.address()?, 1);
    found.ok_or_else(|| invalid("not an address of pinned memory"))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostGetDevicePointer_v2(out: Out<u64>, address: Host, flags: u32) -> u32 {
    with_context(|_| {
        if flags != 0 {
            return Err(invalid("there are no flags"));
        }
        match pinned(address)? {
            (_, Pinned { block: Some(_), .. }) => out.set(address.address()? as u64),
            _ => Err(Fault::new(Code::NotSupported, "registered memory is not mapped")),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostGetFlags(out: Out<u32>, address: Host) -> u32 {
    with_context(|_| out.set(pinned(address)?.1.flags))
}

/// `CU_POINTER_ATTRIBUTE_*`: those that say where memory is and of which context.
#[unsafe(no_mangle)]
extern "C" fn cuPointerGetAttribute(out: Out<u64>, attribute: u32, address: u64) -> u32 {
    with_context(|context| {
        let driver = Driver::get()?;
        let host = driver.pinned(address as usize, 1);
        let (start, byte_len) = match &host {
            Some((start, memory)) => (*start as u64, memory.byte_len as u64),
            None => containing(context, address).map(|block| (block.address, block.byte_len))?,
        };
        let in_heap = |other: &Arc<Context>| other.heap.find(address, 1).is_some();
        let owner = match &host {
            Some((_, memory)) => driver.contexts.get(memory.context)?,
            None => driver.contexts.all().into_iter().find(in_heap).unwrap_or_else(|| Arc::clone(context)),
        };
        // The results differ in size: the narrow ones go through pointers of their own type.
        let narrow = |value: u32| out.cast::<u32>().set(value);
        match attribute {
            1 => out.set(owner.handle as u64),
            2 => narrow(if host.is_some() { 1 } else { 2 }),
            3 => out.set(address),
            4 if host.is_some() => out.set(address),
            4 => Err(invalid("device memory has no address on the host")),
            7 => out.set(start),
            8 => out.cast::<u8>().set(0),
            9 => narrow(owner.device.ordinal as u32),
            11 => out.set(start),
            12 => out.set(byte_len),
            13 => out.cast::<u8>().set(1),
            _ => Err(Fault::new(Code::NotSupported, format!("attribute {attribute} of a pointer"))),
        }
    })
}
