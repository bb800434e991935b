//! The linker: PTX in, one binary out.
//!
//! PTX is compiled when it is added, so that its errors come with the call that added it. Not here: several inputs in one
//! program, and inputs of other kinds.
#![allow(unsafe_code)]

use super::ffi::{In, Out};
use super::module::{Image, Jit};
use super::state::Driver;
use super::{invalid, lock, with_context};
use crate::fault::{Code, Fault};
use std::sync::Mutex;

/// `CU_JIT_INPUT_PTX`.
const PTX: u32 = 1;

pub(super) struct Link {
    handle: usize,
    pub(super) context: usize,
    state: Mutex<State>,
}

// SAFETY: what is not `Send` by itself is the caller's buffers for logs, for which it vouches as long as the link is.
unsafe impl Send for Link {}
// SAFETY: as above; they are used under the lock.
unsafe impl Sync for Link {}

struct State {
    jit: Jit,
    image: Option<Image>,
    /// What `cuLinkComplete` gave out: it belongs to the link.
    binary: Vec<u8>,
}

#[unsafe(no_mangle)]
extern "C" fn cuLinkCreate_v2(count: u32, keys: In<u32>, values: Out<usize>, out: Out<usize>) -> u32 {
    with_context(|context| {
        out.wanted()?;
        let jit = Jit::read(count, keys, values)?;
        let state = Mutex::new(State { jit, image: None, binary: Vec::new() });
        let make = |handle| Link { handle, context: context.handle, state };
        out.set(Driver::get()?.links.insert(make).handle)
    })
}

/// Options of a single input are not looked at: those of the link apply.
#[unsafe(no_mangle)]
extern "C" fn cuLinkAddData_v2(
    link: usize,
    kind: u32,
    data: In<u8>,
    byte_len: usize,
    _name: In<u8>,
    _count: u32,
    _keys: In<u32>,
    _values: Out<usize>,
) -> u32 {
    with_context(|context| {
        let link = Driver::get()?.links.get(link)?;
        let mut state = lock(&link.state);
        if kind != PTX {
            return Err(Fault::new(Code::NotSupported, "only PTX can be linked"));
        }
        if state.image.is_some() {
            return Err(Fault::new(Code::NotSupported, "only one input can be linked"));
        }
        let mut bytes = data.list(byte_len)?;
        // The zero byte at the end may be counted or not.
        bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
        let image = Image::text(bytes, state.jit.options.clone())?;
        state.jit.compile(&image, &context.device.model)?;
        state.image = Some(image);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuLinkComplete(link: usize, start: Out<usize>, byte_len: Out<usize>) -> u32 {
    with_context(|context| {
        let link = Driver::get()?.links.get(link)?;
        let mut state = lock(&link.state);
        let image = state.image.as_ref().ok_or_else(|| invalid("nothing was added to link"))?;
        state.binary = image.encode(context.device.model.sm);
        start.set(state.binary.as_ptr() as usize)?;
        byte_len.set_if_asked(state.binary.len());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuLinkDestroy(link: usize) -> u32 {
    with_context(|_| Driver::get()?.links.remove(link).map(|_| ()))
}
