//! What C callers pass: pointers, which are checked for null here and nowhere else.
//!
//! The types have the layout of the pointers that they wrap, so functions of the API take them as arguments. Only a C
//! caller makes them (their fields are private), and it vouches for them as CUDA's documentation demands.
#![allow(unsafe_code)]

use super::{Call, invalid};
use std::ffi::{CStr, c_char};

/// Where a result goes.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(super) fn set(self, value: T) -> Call {
        self.wanted()?;
        // SAFETY: the caller vouches for a place for one `T` where the pointer is not null.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Fails where the result has no place, before anything is made that the caller could never name.
    pub(super) fn wanted(&self) -> Call {
        if self.0.is_null() { Err(invalid("a pointer for a result is null")) } else { Ok(()) }
    }

    /// Sets a result that the caller may do without.
    pub(super) fn set_if_asked(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `set`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// One of several results that are next to each other, as many as the caller said there are.
    pub(super) fn offset(self, index: usize) -> Out<T> {
        Out(if self.0.is_null() { self.0 } else { self.0.wrapping_add(index) })
    }

    /// The same place for a result of another type, as some calls decide by an argument.
    pub(super) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// A place whose address the caller gave as a number.
    pub(super) fn at_address(address: usize) -> Out<T> {
        Out(address as *mut T)
    }

    /// The value that is there already.
    pub(super) fn get(self) -> Call<T>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get()
    }
}

impl Out<u8> {
    /// Copies a text into a buffer, cut short where it does not fit, with a zero byte behind it.
    pub(super) fn set_text(self, text: &str, byte_len: usize) -> Call {
        let Some(room) = byte_len.checked_sub(1) else {
            return Err(invalid("a buffer for text has no bytes"));
        };
        let text = &text.as_bytes()[..text.len().min(room)];
        for (at, byte) in text.iter().chain(&[0]).enumerate() {
            self.offset(at).set(*byte)?;
        }
        Ok(())
    }
}

/// One value or several that a call reads.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// An argument whose address the caller gave as a number.
    pub(super) fn at_address(address: usize) -> In<T> {
        In(address as *const T)
    }

    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(super) fn get(self) -> Call<T> {
        self.at(0)
    }

    pub(super) fn at(self, index: usize) -> Call<T> {
        if self.0.is_null() {
            return Err(invalid("a pointer to an argument is null"));
        }
        // SAFETY: the caller vouches for as many values as it said there are.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }

    pub(super) fn list(self, len: usize) -> Call<Vec<T>> {
        (0..len).map(|index| self.at(index)).collect()
    }
}

impl In<u8> {
    /// The bytes up to the first zero byte.
    pub(super) fn text(self) -> Call<Vec<u8>> {
        if self.0.is_null() {
            return Err(invalid("a pointer to a text is null"));
        }
        // SAFETY: the caller vouches for a zero byte at the text's end.
        Ok(unsafe { CStr::from_ptr(self.0.cast::<c_char>()) }.to_bytes().to_vec())
    }
}

/// A pointer to host memory that a copy reads or writes, perhaps later.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Host(usize);

impl Host {
    pub(super) fn address(self) -> Call<usize> {
        if self.0 == 0 { Err(invalid("a pointer to host memory is null")) } else { Ok(self.0) }
    }
}

/// Copies host memory that a caller named.
pub(super) fn read_host(address: usize, out: &mut [u8]) {
    // SAFETY: the caller of the API vouches for the memory until the copy is complete. `out` is ours.
    unsafe { std::ptr::copy(address as *const u8, out.as_mut_ptr(), out.len()) }
}

/// Writes host memory that a caller named.
pub(super) fn write_host(address: usize, bytes: &[u8]) {
    // SAFETY: as in `read_host`.
    unsafe { std::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) }
}

/// Copies within the host. Source and destination may overlap.
pub(super) fn move_host(from: usize, to: usize, byte_len: usize) {
    // SAFETY: as in `read_host`.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, byte_len) }
}

/// A function that the caller wants called on a stream, with its argument.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct HostFunction(Option<unsafe extern "C" fn(usize)>);

impl HostFunction {
    pub(super) fn is_null(self) -> bool {
        self.0.is_none()
    }

    pub(super) fn call(self, data: usize) {
        if let Some(function) = self.0 {
            // SAFETY: the caller of the API vouches for the function and its argument.
            unsafe { function(data) }
        }
    }
}

/// A callback of a stream: it gets the stream, the context's state and its argument.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Callback(Option<unsafe extern "C" fn(usize, u32, usize)>);

impl Callback {
    pub(super) fn is_null(self) -> bool {
        self.0.is_none()
    }

    pub(super) fn call(self, stream: usize, state: u32, data: usize) {
        if let Some(function) = self.0 {
            // SAFETY: the caller of the API vouches for the function and its argument.
            unsafe { function(stream, state, data) }
        }
    }
}
