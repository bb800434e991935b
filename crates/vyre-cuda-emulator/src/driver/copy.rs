//! Copies and fills.
//!
//! Whether a call waits follows the page "API synchronization behavior" of CUDA's documentation: host memory that is not
//! pinned is read before the call returns and written before it returns; pinned memory is read and written when the
//! stream gets there. Copies within the device and fills never wait.
#![allow(unsafe_code)]

use super::context::Context;
use super::ffi::{Host, read_host};
use super::operation::{Operation, Source};
use super::queue::Stream;
use super::state::Driver;
use super::stream::{enqueue, enqueue_and_wait, stream_of};
use super::{Call, capture, invalid, with_context};
use crate::memory::Heap;
use std::sync::Arc;

/// Where a copy goes and whether the call is one of those that wait.
struct Order {
    context: Arc<Context>,
    stream: Arc<Stream>,
    waits: bool,
}

impl Order {
    fn on(context: &Arc<Context>, stream: Option<usize>) -> Call<Order> {
        if stream.is_none() {
            capture::forbid(context)?;
        }
        let found = stream_of(context, stream.unwrap_or(0))?;
        Ok(Order { context: Arc::clone(context), stream: found, waits: stream.is_none() })
    }

    fn put(&self, operation: Operation, waits: bool) -> Call {
        match waits {
            true => enqueue_and_wait(&self.stream, operation),
            false => enqueue(&self.stream, operation).map(|_| ()),
        }
    }

    fn check_device(&self, address: u64, byte_len: usize) -> Call {
        match Driver::get()?.find_memory(&self.context, address, byte_len as u64) {
            Some(_) => Ok(()),
            None => Err(invalid(&format!("{byte_len} bytes at {address:#x} are not inside one allocation"))),
        }
    }

    fn upload(&self, to: u64, from: usize, byte_len: usize) -> Call {
        self.check_device(to, byte_len)?;
        check_host(from, byte_len)?;
        if Driver::get()?.pinned(from, byte_len).is_some() {
            let from = Source::Address(from);
            return self.put(Operation::Upload { from, to, byte_len }, self.waits);
        }
        if self.waits {
            enqueue_and_wait(&self.stream, Operation::Nothing)?;
        }
        let mut bytes = vec![0; byte_len];
        read_host(from, &mut bytes);
        self.put(Operation::Upload { from: Source::Staged(bytes.into()), to, byte_len }, false)
    }

    fn download(&self, to: usize, from: u64, byte_len: usize) -> Call {
        self.check_device(from, byte_len)?;
        check_host(to, byte_len)?;
        let pinned = Driver::get()?.pinned(to, byte_len).is_some();
        self.put(Operation::Download { from, to, byte_len }, self.waits || !pinned)
    }

    fn within(&self, to: u64, from: u64, byte_len: usize) -> Call {
        self.check_device(to, byte_len)?;
        self.check_device(from, byte_len)?;
        self.put(Operation::Move { from, to, byte_len }, false)
    }

    /// A copy whose addresses say themselves what they are.
    fn unified(&self, to: u64, from: u64, byte_len: usize) -> Call {
        let driver = Driver::get()?;
        let on_device = |address: u64| {
            driver.pinned(address as usize, byte_len).is_none()
                && driver.find_memory(&self.context, address, byte_len as u64).is_some()
        };
        match (on_device(from), on_device(to)) {
            (true, true) => self.within(to, from, byte_len),
            (true, false) => self.download(to as usize, from, byte_len),
            (false, true) => self.upload(to, from as usize, byte_len),
            (false, false) => {
                let (from, to) = (from as usize, to as usize);
                check_host(from, byte_len)?;
                check_host(to, byte_len)?;
                self.put(Operation::HostMove { from, to, byte_len }, true)
            }
        }
    }

    fn fill<const N: usize>(&self, to: u64, value: [u8; N], count: usize) -> Call {
        if !to.is_multiple_of(N as u64) {
            return Err(invalid(&format!("{to:#x} is no multiple of {N}, the size of what is set")));
        }
        let byte_len = count.checked_mul(N).ok_or_else(|| invalid("more bytes than there are addresses"))?;
        self.check_device(to, byte_len)?;
        let mut pattern = [0; 4];
        pattern[..N].copy_from_slice(&value);
        self.put(Operation::Fill { to, pattern, width: N, count }, false)
    }
}

/// Host memory has addresses that no device has, and a copy that begins in pinned memory ends in it. More cannot be checked: the
/// caller vouches for the rest.
fn check_host(address: usize, byte_len: usize) -> Call {
    match (address as u64).checked_add(byte_len as u64) {
        Some(end) if address != 0 && end <= Heap::base_of(0) => {}
        _ => {
            return Err(invalid(&format!(
                "{byte_len} bytes at {address:#x} are neither host memory nor in an allocation"
            )));
        }
    }
    let driver = Driver::get()?;
    match driver.pinned(address, 1) {
        Some((start, memory)) if driver.pinned(address, byte_len).is_none() => Err(invalid(&format!(
            "{byte_len} bytes at {address:#x} end behind the {} pinned bytes at {start:#x}",
            memory.byte_len
        ))),
        _ => Ok(()),
    }
}

/// Does a copy of at least one byte.
fn copy(stream: Option<usize>, byte_len: usize, what: impl FnOnce(&Order) -> Call) -> u32 {
    with_context(|context| {
        let order = Order::on(context, stream)?;
        if byte_len == 0 { Ok(()) } else { what(&order) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoD_v2(to: u64, from: Host, byte_len: usize) -> u32 {
    copy(None, byte_len, |order| order.upload(to, from.address()?, byte_len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: Host, byte_len: usize, stream: usize) -> u32 {
    copy(Some(stream), byte_len, |order| order.upload(to, from.address()?, byte_len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoH_v2(to: Host, from: u64, byte_len: usize) -> u32 {
    copy(None, byte_len, |order| order.download(to.address()?, from, byte_len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(to: Host, from: u64, byte_len: usize, stream: usize) -> u32 {
    copy(Some(stream), byte_len, |order| order.download(to.address()?, from, byte_len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, byte_len: usize) -> u32 {
    copy(None, byte_len, |order| order.within(to, from, byte_len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, byte_len: usize, stream: usize) -> u32 {
    copy(Some(stream), byte_len, |order| order.within(to, from, byte_len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpy(to: u64, from: u64, byte_len: usize) -> u32 {
    copy(None, byte_len, |order| order.unified(to, from, byte_len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyAsync(to: u64, from: u64, byte_len: usize, stream: usize) -> u32 {
    copy(Some(stream), byte_len, |order| order.unified(to, from, byte_len))
}

/// Addresses are unique over all contexts, so they alone say where the bytes are.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeer(to: u64, _: usize, from: u64, _: usize, byte_len: usize) -> u32 {
    copy(None, byte_len, |order| order.within(to, from, byte_len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    _: usize,
    from: u64,
    _: usize,
    byte_len: usize,
    stream: usize,
) -> u32 {
    copy(Some(stream), byte_len, |order| order.within(to, from, byte_len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(to: u64, value: u8, count: usize) -> u32 {
    copy(None, count, |order| order.fill(to, [value], count))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: usize) -> u32 {
    copy(Some(stream), count, |order| order.fill(to, [value], count))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16_v2(to: u64, value: u16, count: usize) -> u32 {
    copy(None, count, |order| order.fill(to, value.to_le_bytes(), count))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: usize) -> u32 {
    copy(Some(stream), count, |order| order.fill(to, value.to_le_bytes(), count))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32_v2(to: u64, value: u32, count: usize) -> u32 {
    copy(None, count, |order| order.fill(to, value.to_le_bytes(), count))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: usize) -> u32 {
    copy(Some(stream), count, |order| order.fill(to, value.to_le_bytes(), count))
}
