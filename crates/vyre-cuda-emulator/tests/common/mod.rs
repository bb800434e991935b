//! The API's functions as a C program declares them, and what tests do with them again and again.
#![allow(dead_code, missing_docs, unreachable_pub, unsafe_code)]

// Only for its symbols.
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vyre_cuda_emulator as _;
pub use vyre_cuda_emulator::fault::Code;

pub type Handle = *mut c_void;

#[rustfmt::skip]
unsafe extern "C" {
    pub fn cuInit(flags: u32) -> u32;
    pub fn cuDriverGetVersion(out: *mut i32) -> u32;
    pub fn cuGetErrorName(code: u32, out: *mut *const c_char) -> u32;
    pub fn cuGetProcAddress_v2(name: *const c_char, out: *mut *mut c_void, version: i32, flags: u64, status: *mut u32) -> u32;
    pub fn cuDeviceGet(out: *mut i32, ordinal: i32) -> u32;
    pub fn cuDeviceGetCount(out: *mut i32) -> u32;
    pub fn cuDeviceGetName(out: *mut c_char, len: i32, device: i32) -> u32;
    pub fn cuDeviceGetAttribute(out: *mut i32, attribute: i32, device: i32) -> u32;
    pub fn cuDeviceTotalMem_v2(out: *mut usize, device: i32) -> u32;
    pub fn cuDevicePrimaryCtxRetain(out: *mut Handle, device: i32) -> u32;
    pub fn cuDevicePrimaryCtxRelease_v2(device: i32) -> u32;
    pub fn cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32) -> u32;
    pub fn cuCtxCreate_v2(out: *mut Handle, flags: u32, device: i32) -> u32;
    pub fn cuCtxDestroy_v2(context: Handle) -> u32;
    pub fn cuCtxSetCurrent(context: Handle) -> u32;
    pub fn cuCtxGetCurrent(out: *mut Handle) -> u32;
    pub fn cuCtxPushCurrent_v2(context: Handle) -> u32;
    pub fn cuCtxPopCurrent_v2(out: *mut Handle) -> u32;
    pub fn cuCtxSynchronize() -> u32;
    pub fn cuMemAlloc_v2(out: *mut u64, len: usize) -> u32;
    pub fn cuMemFree_v2(address: u64) -> u32;
    pub fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32;
    pub fn cuMemGetAddressRange_v2(start: *mut u64, len: *mut usize, address: u64) -> u32;
    pub fn cuMemAllocHost_v2(out: *mut *mut u8, len: usize) -> u32;
    pub fn cuMemFreeHost(address: *mut u8) -> u32;
    pub fn cuMemHostGetDevicePointer_v2(out: *mut u64, address: *mut u8, flags: u32) -> u32;
    pub fn cuMemcpyHtoD_v2(to: u64, from: *const u8, len: usize) -> u32;
    pub fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, len: usize) -> u32;
    pub fn cuMemcpyDtoD_v2(to: u64, from: u64, len: usize) -> u32;
    pub fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, len: usize, stream: Handle) -> u32;
    pub fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, len: usize, stream: Handle) -> u32;
    pub fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, stream: Handle) -> u32;
    pub fn cuMemcpy(to: u64, from: u64, len: usize) -> u32;
    pub fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) -> u32;
    pub fn cuMemsetD32_v2(to: u64, value: u32, count: usize) -> u32;
    pub fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: Handle) -> u32;
    pub fn cuStreamCreate(out: *mut Handle, flags: u32) -> u32;
    pub fn cuStreamDestroy_v2(stream: Handle) -> u32;
    pub fn cuStreamSynchronize(stream: Handle) -> u32;
    pub fn cuStreamQuery(stream: Handle) -> u32;
    pub fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) -> u32;
    pub fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) -> u32;
    pub fn cuStreamEndCapture(stream: Handle, out: *mut Handle) -> u32;
    pub fn cuStreamIsCapturing(stream: Handle, out: *mut u32) -> u32;
    pub fn cuLaunchHostFunc(stream: Handle, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) -> u32;
    pub fn cuEventCreate(out: *mut Handle, flags: u32) -> u32;
    pub fn cuEventDestroy_v2(event: Handle) -> u32;
    pub fn cuEventRecord(event: Handle, stream: Handle) -> u32;
    pub fn cuEventQuery(event: Handle) -> u32;
    pub fn cuEventSynchronize(event: Handle) -> u32;
    pub fn cuEventElapsedTime(out: *mut f32, start: Handle, end: Handle) -> u32;
    pub fn cuGraphInstantiateWithFlags(out: *mut Handle, graph: Handle, flags: u64) -> u32;
    pub fn cuGraphLaunch(exec: Handle, stream: Handle) -> u32;
    pub fn cuGraphExecDestroy(exec: Handle) -> u32;
    pub fn cuGraphDestroy(graph: Handle) -> u32;
    pub fn cuModuleLoadData(out: *mut Handle, image: *const u8) -> u32;
    pub fn cuModuleUnload(module: Handle) -> u32;
    pub fn cuModuleGetFunction(out: *mut Handle, module: Handle, name: *const c_char) -> u32;
    pub fn cuModuleGetGlobal_v2(address: *mut u64, len: *mut usize, module: Handle, name: *const c_char) -> u32;
    pub fn cuLinkCreate_v2(count: u32, keys: *mut u32, values: *mut *mut c_void, out: *mut Handle) -> u32;
    pub fn cuLinkAddData_v2(link: Handle, kind: u32, data: *const u8, len: usize, name: *const c_char, count: u32, keys: *mut u32, values: *mut *mut c_void) -> u32;
    pub fn cuLinkComplete(link: Handle, out: *mut *const u8, len: *mut usize) -> u32;
    pub fn cuLinkDestroy(link: Handle) -> u32;
    pub fn cuFuncGetAttribute(out: *mut i32, attribute: u32, function: Handle) -> u32;
    pub fn cuFuncSetAttribute(function: Handle, attribute: u32, value: i32) -> u32;
    pub fn cuOccupancyMaxActiveBlocksPerMultiprocessor(out: *mut i32, function: Handle, threads: i32, shared: usize) -> u32;
    pub fn cuLaunchKernel(function: Handle, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: Handle, params: *mut *mut c_void, extra: *mut *mut c_void) -> u32;
    pub fn cuLaunchCooperativeKernel(function: Handle, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: Handle, params: *mut *mut c_void) -> u32;
    pub fn cuArrayDestroy(array: Handle) -> u32;
    pub fn vyreEmulatedLastFault(out: *mut c_char, len: usize) -> usize;
}

/// Fails a test where a call fails.
#[track_caller]
pub fn ok(code: u32) {
    assert_eq!(code, Code::Success as u32);
}

/// Fails a test where a call does not fail with that code.
#[track_caller]
pub fn fails(code: u32, expected: Code) {
    assert_eq!(code, expected as u32);
}

/// What a call puts where its first argument points.
#[track_caller]
pub fn made<T: Default>(call: impl FnOnce(*mut T) -> u32) -> T {
    let mut value = T::default();
    ok(call(&mut value));
    value
}

#[track_caller]
pub fn made_handle(call: impl FnOnce(*mut Handle) -> u32) -> Handle {
    let mut value = null_mut();
    ok(call(&mut value));
    assert!(!value.is_null());
    value
}

/// A context of its own that is current until it goes.
pub struct Context(pub Handle);

impl Context {
    pub fn new() -> Context {
        Context::of_device(0)
    }

    pub fn of_device(device: i32) -> Context {
        // SAFETY: the calls write one handle.
        unsafe {
            ok(cuInit(0));
            Context(made_handle(|out| cuCtxCreate_v2(out, 8, device)))
        }
    }

    pub fn stream(&self) -> Handle {
        // SAFETY: the call writes one handle. 1 is a stream that the legacy stream does not wait for.
        made_handle(|out| unsafe { cuStreamCreate(out, 1) })
    }

    pub fn event(&self) -> Handle {
        // SAFETY: the call writes one handle.
        made_handle(|out| unsafe { cuEventCreate(out, 0) })
    }

    /// Device memory of words, each with that value.
    pub fn words(&self, value: u32, count: usize) -> u64 {
        // SAFETY: the calls write one address, and inside the memory that it is of.
        unsafe {
            let address = made(|out| cuMemAlloc_v2(out, 4 * count));
            ok(cuMemsetD32_v2(address, value, count));
            ok(cuCtxSynchronize());
            address
        }
    }

    /// The word at an address, after everything on the legacy stream.
    pub fn word(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        // SAFETY: there is room for four bytes.
        ok(unsafe { cuMemcpyDtoH_v2(bytes.as_mut_ptr(), address, 4) });
        u32::from_le_bytes(bytes)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: what remains of the context is not used any more.
        let _ = unsafe { cuCtxDestroy_v2(self.0) };
    }
}

/// Keeps a stream busy until it is opened.
#[derive(Default)]
pub struct Gate(AtomicBool);

unsafe extern "C" fn wait_for_gate(gate: *mut c_void) {
    // SAFETY: `Gate::close` leaks what it passes.
    let gate = unsafe { &*gate.cast::<Gate>() };
    while !gate.0.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_micros(100));
    }
}

impl Gate {
    pub fn close(stream: Handle) -> &'static Gate {
        let gate: &'static Gate = Box::leak(Box::default());
        let data = std::ptr::from_ref(gate).cast_mut().cast();
        // SAFETY: the gate lives for ever.
        ok(unsafe { cuLaunchHostFunc(stream, wait_for_gate, data) });
        gate
    }

    pub fn open(&self) {
        self.0.store(true, Ordering::Release);
    }
}

pub fn last_fault() -> String {
    let mut buffer = [0; 1024];
    // SAFETY: the buffer has that many bytes, and the text a zero byte at its end.
    unsafe {
        vyreEmulatedLastFault(buffer.as_mut_ptr(), buffer.len());
        CStr::from_ptr(buffer.as_ptr()).to_string_lossy().into_owned()
    }
}

/// Set in the process that a test starts for itself.
const CHILD: &str = "VYRE_TEST_CHILD";

/// Whether this process was started by `in_child`.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs a test of this file in a process of its own, with variables of its own.
#[track_caller]
pub fn in_child(test: &str, variables: &[(&str, &str)]) -> String {
    let mut child = std::process::Command::new(std::env::current_exe().expect("it is known"));
    child.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
    let output = child.envs(variables.iter().copied()).output().expect("the test program can be run");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test}: {:?}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{test} is no test: {text}");
    text.into_owned()
}
