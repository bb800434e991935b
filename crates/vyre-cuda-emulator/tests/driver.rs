//! The driver API without kernels: devices, contexts, memory, streams, events, captures, and what wrong calls return.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

mod common;

use common::*;
use std::ffi::CString;
use std::ptr::{null, null_mut};

#[test]
fn the_default_device_is_an_h200() {
    unsafe {
        let _context = Context::new();
        assert_eq!(made(|out| cuDriverGetVersion(out)), 13_000);
        assert_eq!(made(|out| cuDeviceGetCount(out)), 1);
        let mut name = [0; 100];
        ok(cuDeviceGetName(name.as_mut_ptr(), 100, 0));
        assert_eq!(std::ffi::CStr::from_ptr(name.as_ptr()).to_str(), Ok("vyre emulated sm_90"));
        for (attribute, value) in [(1, 1024), (16, 132), (75, 9), (76, 0), (95, 1), (97, 232_448)] {
            assert_eq!(made(|out| cuDeviceGetAttribute(out, attribute, 0)), value, "attribute {attribute}");
        }
        let mut value = 0;
        for attribute in 1..=148 {
            ok(cuDeviceGetAttribute(&mut value, attribute, 0));
        }
        fails(cuDeviceGetAttribute(&mut value, 9999, 0), Code::InvalidValue);
        fails(cuDeviceGet(&mut value, 1), Code::InvalidDevice);
        fails(cuDeviceGet(null_mut(), 0), Code::InvalidValue);
    }
}

#[test]
fn every_function_is_found_by_name() {
    let address = |name: &str| {
        let name = CString::new(name).expect("no zero bytes");
        let (mut address, mut status) = (null_mut(), 9);
        let code = unsafe { cuGetProcAddress_v2(name.as_ptr(), &mut address, 12_000, 0, &mut status) };
        (code, address, status)
    };
    for (name, expected) in [
        ("cuMemAlloc", cuMemAlloc_v2 as *const ()),
        ("cuStreamDestroy", cuStreamDestroy_v2 as *const ()),
        ("cuLaunchKernel", cuLaunchKernel as *const ()),
        ("cuArrayDestroy", cuArrayDestroy as *const ()),
    ] {
        assert_eq!(address(name), (0, expected.cast_mut().cast(), 0), "{name}");
    }
    assert_eq!(address("cuNothing"), (Code::NotFound as u32, null_mut(), 1));
    fails(unsafe { cuArrayDestroy(null_mut()) }, Code::NotSupported);
}

#[test]
fn contexts_stack_up_and_die() {
    unsafe {
        let first = Context::new();
        let second = Context::new();
        let current = || made_handle(|out| cuCtxGetCurrent(out));
        assert_eq!(current(), second.0);
        ok(cuCtxPushCurrent_v2(first.0));
        assert_eq!(current(), first.0);
        assert_eq!(made_handle(|out| cuCtxPopCurrent_v2(out)), first.0);
        let elsewhere = second.0 as usize;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                fails(cuCtxSynchronize(), Code::InvalidContext);
                ok(cuCtxSetCurrent(elsewhere as Handle));
                ok(cuCtxSynchronize());
            });
        });
        ok(cuCtxPushCurrent_v2(first.0));
        ok(cuCtxDestroy_v2(second.0));
        ok(cuCtxSynchronize());
        ok(cuCtxPopCurrent_v2(null_mut()));
        fails(cuCtxSynchronize(), Code::ContextIsDestroyed);
        fails(cuCtxDestroy_v2(second.0), Code::InvalidContext);
        fails(cuCtxSetCurrent(second.0), Code::InvalidContext);
    }
}

#[test]
fn a_primary_context_lives_as_long_as_it_is_retained() {
    unsafe {
        ok(cuInit(0));
        let active = || {
            let (mut flags, mut active) = (0, 0);
            ok(cuDevicePrimaryCtxGetState(0, &mut flags, &mut active));
            active
        };
        let first = made_handle(|out| cuDevicePrimaryCtxRetain(out, 0));
        assert_eq!(made_handle(|out| cuDevicePrimaryCtxRetain(out, 0)), first);
        fails(cuCtxDestroy_v2(first), Code::InvalidContext);
        ok(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(active(), 1);
        ok(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(active(), 0);
        fails(cuDevicePrimaryCtxRelease_v2(0), Code::InvalidContext);
    }
}

#[test]
fn memory_is_copied_filled_and_stale_until_then() {
    unsafe {
        let _context = Context::new();
        let memory: u64 = made(|out| cuMemAlloc_v2(out, 1000));
        let bytes: Vec<u8> = (0..100).collect();
        let mut out = vec![0; 1000];
        ok(cuMemcpyHtoD_v2(memory + 3, bytes.as_ptr(), 100));
        ok(cuMemcpyDtoD_v2(memory + 501, memory + 3, 100));
        ok(cuMemcpyDtoH_v2(out.as_mut_ptr(), memory, 1000));
        assert_eq!(out[3..103], bytes);
        assert_eq!(out[501..601], bytes);
        assert!(out[103..501].iter().all(|byte| *byte == 0xCB));
        ok(cuMemcpy(out.as_mut_ptr() as u64, memory + 3, 50));
        assert_eq!(out[..50], bytes[..50]);
        let (mut start, mut len) = (0, 0);
        ok(cuMemGetAddressRange_v2(&mut start, &mut len, memory + 999));
        assert_eq!((start, len), (memory, 1000));
        fails(cuMemcpyHtoD_v2(memory + 990, bytes.as_ptr(), 11), Code::InvalidValue);
        fails(cuMemcpyHtoD_v2(memory, null(), 1), Code::InvalidValue);
        // What is made for no one would never be freed: there is no room for a hundred of these.
        for _ in 0..100 {
            fails(cuMemAlloc_v2(null_mut(), 2 << 30), Code::InvalidValue);
            fails(cuStreamCreate(null_mut(), 0), Code::InvalidValue);
            fails(cuCtxCreate_v2(null_mut(), 0, 0), Code::InvalidValue);
        }
        let large: u64 = made(|out| cuMemAlloc_v2(out, 2 << 30));
        ok(cuMemFree_v2(large));
        fails(cuMemsetD32_v2(memory + 2, 0, 1), Code::InvalidValue);
        fails(cuMemFree_v2(memory + 256), Code::InvalidValue);
        ok(cuMemFree_v2(memory));
        fails(cuMemFree_v2(memory), Code::InvalidValue);
        fails(cuMemcpyDtoH_v2(out.as_mut_ptr(), memory, 1), Code::InvalidValue);
    }
}

#[test]
fn memory_ends_and_comes_back_with_its_context() {
    unsafe {
        let _context = Context::new();
        let free = || {
            let (mut free, mut total) = (0, 0);
            ok(cuMemGetInfo_v2(&mut free, &mut total));
            (free, total)
        };
        let (_, total) = free();
        let mut address = 0;
        fails(cuMemAlloc_v2(&mut address, total + 1), Code::OutOfMemory);
        fails(cuMemAlloc_v2(&mut address, 0), Code::InvalidValue);
        {
            let _other = Context::new();
            let _: u64 = made(|out| cuMemAlloc_v2(out, 64 << 30));
            assert!(free().0 <= total - (64 << 30));
        }
        let _: u64 = made(|out| cuMemAlloc_v2(out, 100 << 30));
    }
}

#[test]
fn pinned_memory_is_read_and_written_when_the_stream_gets_there() {
    unsafe {
        let context = Context::new();
        let (stream, memory) = (context.stream(), context.words(1, 1));
        let mut pinned = null_mut::<u8>();
        ok(cuMemAllocHost_v2(&mut pinned, 64));
        let word = |at: usize| pinned.cast::<u32>().add(at);
        let gate = Gate::close(stream);
        word(0).write_volatile(5);
        ok(cuMemcpyHtoDAsync_v2(memory, pinned, 4, stream));
        // Too early: the copy has not read it.
        word(0).write_volatile(6);
        word(1).write_volatile(7);
        ok(cuMemcpyDtoHAsync_v2(word(1).cast(), memory, 4, stream));
        fails(cuStreamQuery(stream), Code::NotReady);
        assert_eq!(word(1).read_volatile(), 7);
        gate.open();
        ok(cuStreamSynchronize(stream));
        assert_eq!(word(1).read_volatile(), 6);
        assert_eq!(made(|out| cuMemHostGetDevicePointer_v2(out, pinned, 0)), pinned as u64);
        ok(cuMemFreeHost(pinned));
        fails(cuMemFreeHost(pinned), Code::InvalidValue);
    }
}

#[test]
fn other_host_memory_is_read_before_the_call_returns() {
    unsafe {
        let context = Context::new();
        let (stream, memory) = (context.stream(), context.words(1, 1));
        let gate = Gate::close(stream);
        let mut word = 5u32;
        ok(cuMemcpyHtoDAsync_v2(memory, (&raw const word).cast(), 4, stream));
        (&raw mut word).write_volatile(6);
        assert_eq!(context.word(memory), 1, "the legacy stream does not wait for this one");
        gate.open();
        ok(cuMemcpyDtoHAsync_v2((&raw mut word).cast(), memory, 4, stream));
        assert_eq!((&raw const word).read_volatile(), 5, "the call waits");
    }
}

#[test]
fn the_legacy_stream_and_blocking_streams_wait_for_each_other() {
    unsafe {
        let context = Context::new();
        let memory = context.words(0, 1);
        let blocking = made_handle(|out| cuStreamCreate(out, 0));
        let gate = Gate::close(blocking);
        ok(cuMemsetD32Async(memory, 1, 1, null_mut()));
        fails(cuStreamQuery(null_mut()), Code::NotReady);
        let other = made_handle(|out| cuStreamCreate(out, 0));
        ok(cuMemsetD32Async(memory, 2, 1, other));
        fails(cuStreamQuery(other), Code::NotReady);
        gate.open();
        assert_eq!(context.word(memory), 2);
    }
}

#[test]
fn events_order_streams_and_take_the_time() {
    unsafe {
        let context = Context::new();
        let (first, second) = (context.stream(), context.stream());
        let (start, end, memory) = (context.event(), context.event(), context.words(0, 1));
        ok(cuEventQuery(start));
        ok(cuEventSynchronize(start));
        let mut time = 0.0;
        fails(cuEventElapsedTime(&mut time, start, end), Code::InvalidHandle);
        let gate = Gate::close(first);
        ok(cuEventRecord(start, first));
        ok(cuMemsetD32Async(memory, 1, 1, first));
        ok(cuEventRecord(end, first));
        ok(cuStreamWaitEvent(second, end, 0));
        ok(cuMemsetD32Async(memory, 2, 1, second));
        fails(cuEventQuery(end), Code::NotReady);
        fails(cuEventElapsedTime(&mut time, start, end), Code::NotReady);
        fails(cuStreamQuery(second), Code::NotReady);
        gate.open();
        ok(cuStreamSynchronize(second));
        ok(cuEventQuery(end));
        assert_eq!(context.word(memory), 2);
        ok(cuEventElapsedTime(&mut time, start, end));
        assert!((0.0..10_000.0).contains(&time), "{time} ms");
        let untimed = made_handle(|out| cuEventCreate(out, 2));
        ok(cuEventRecord(untimed, first));
        ok(cuEventSynchronize(untimed));
        fails(cuEventElapsedTime(&mut time, start, untimed), Code::InvalidHandle);
        ok(cuEventDestroy_v2(end));
        fails(cuEventQuery(end), Code::InvalidHandle);
    }
}

#[test]
fn a_destroyed_stream_finishes_what_is_on_it() {
    unsafe {
        let context = Context::new();
        let (stream, memory) = (context.stream(), context.words(0, 1));
        let gate = Gate::close(stream);
        ok(cuMemsetD32Async(memory, 1, 1, stream));
        ok(cuStreamDestroy_v2(stream));
        fails(cuStreamSynchronize(stream), Code::InvalidHandle);
        gate.open();
        ok(cuCtxSynchronize());
        assert_eq!(context.word(memory), 1);
    }
}

#[test]
fn handles_of_another_kind_or_context_are_errors() {
    unsafe {
        let first = Context::new();
        let (stream, event) = (first.stream(), first.event());
        fails(cuEventQuery(stream), Code::InvalidHandle);
        fails(cuStreamSynchronize(event), Code::InvalidHandle);
        fails(cuStreamSynchronize(0x1234 as Handle), Code::InvalidHandle);
        fails(cuGraphLaunch(event, stream), Code::InvalidHandle);
        fails(cuModuleUnload(stream), Code::InvalidHandle);
        let second = Context::new();
        fails(cuStreamSynchronize(stream), Code::InvalidHandle);
        fails(cuEventRecord(event, null_mut()), Code::InvalidHandle);
        ok(cuStreamWaitEvent(second.stream(), event, 0));
    }
}

#[test]
fn a_graph_runs_what_was_captured_with_the_values_of_then() {
    unsafe {
        let context = Context::new();
        let (stream, other) = (context.stream(), context.stream());
        let (fork, join) = (context.event(), context.event());
        let memory = context.words(0, 4);
        ok(cuStreamBeginCapture_v2(stream, 1));
        fails(cuStreamBeginCapture_v2(stream, 1), Code::IllegalState);
        ok(cuMemsetD32Async(memory, 1, 1, stream));
        ok(cuEventRecord(fork, stream));
        ok(cuStreamWaitEvent(other, fork, 0));
        ok(cuMemcpyDtoDAsync_v2(memory + 4, memory, 4, other));
        ok(cuMemcpyDtoDAsync_v2(memory + 8, memory, 4, stream));
        ok(cuEventRecord(join, other));
        ok(cuStreamWaitEvent(stream, join, 0));
        ok(cuMemcpyDtoDAsync_v2(memory + 12, memory + 4, 4, stream));
        let graph = made_handle(|out| cuStreamEndCapture(stream, out));
        assert_eq!(context.word(memory), 0, "nothing runs while it is captured");
        let exec = made_handle(|out| cuGraphInstantiateWithFlags(out, graph, 0));
        ok(cuGraphDestroy(graph));
        for _ in 0..20 {
            ok(cuMemsetD8Async(memory, 0xff, 16, stream));
            ok(cuGraphLaunch(exec, stream));
            ok(cuStreamSynchronize(stream));
            for at in 0..4 {
                assert_eq!(context.word(memory + 4 * at), 1, "word {at}");
            }
        }
        ok(cuGraphExecDestroy(exec));
        fails(cuGraphLaunch(exec, stream), Code::InvalidHandle);
        ok(cuStreamSynchronize(other));
    }
}

#[test]
fn what_a_capture_forbids_fails_and_invalidates_it() {
    unsafe {
        let context = Context::new();
        let (stream, other) = (context.stream(), context.stream());
        let memory = context.words(0, 1);
        let mut address = 0;
        let forbidden: [(&str, &mut dyn FnMut() -> u32, Code); 5] = [
            ("an allocation", &mut || cuMemAlloc_v2(&mut address, 4), Code::StreamCaptureUnsupported),
            ("the stream waited for", &mut || cuStreamSynchronize(stream), Code::StreamCaptureUnsupported),
            ("the context waited for", &mut || cuCtxSynchronize(), Code::StreamCaptureUnsupported),
            (
                "an event from outside",
                &mut || cuStreamWaitEvent(stream, recorded(&context, other), 0),
                Code::StreamCaptureIsolation,
            ),
            ("work not joined back", &mut || unjoined(&context, stream, other), Code::Success),
        ];
        for (what, call, code) in forbidden {
            ok(cuStreamBeginCapture_v2(stream, 1));
            ok(cuMemsetD32Async(memory, 1, 1, stream));
            assert_eq!(call(), code as u32, "{what}");
            let mut graph = 1 as Handle;
            let expected = if code == Code::Success {
                Code::StreamCaptureUnjoined
            } else {
                Code::StreamCaptureInvalidated
            };
            assert_eq!(cuStreamEndCapture(stream, &mut graph), expected as u32, "{what}");
            assert!(graph.is_null());
            assert_eq!(made(|out| cuStreamIsCapturing(stream, out)), 0);
            ok(cuStreamSynchronize(other));
        }
        fails(cuStreamBeginCapture_v2(null_mut(), 1), Code::StreamCaptureUnsupported);
        fails(cuStreamEndCapture(stream, &mut null_mut()), Code::IllegalState);
    }
}

fn recorded(context: &Context, stream: Handle) -> Handle {
    let event = context.event();
    ok(unsafe { cuEventRecord(event, stream) });
    event
}

fn unjoined(context: &Context, stream: Handle, other: Handle) -> u32 {
    unsafe {
        ok(cuStreamWaitEvent(other, recorded(context, stream), 0));
        cuLaunchHostFunc(other, nothing, null_mut())
    }
}

unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}

#[test]
fn a_blocking_stream_that_is_captured_keeps_the_legacy_stream_out() {
    unsafe {
        let context = Context::new();
        let memory = context.words(0, 1);
        let blocking = made_handle(|out| cuStreamCreate(out, 0));
        ok(cuStreamBeginCapture_v2(blocking, 2));
        fails(cuMemsetD32Async(memory, 1, 1, null_mut()), Code::StreamCaptureImplicit);
        fails(cuStreamEndCapture(blocking, &mut null_mut()), Code::StreamCaptureInvalidated);
        let handle = context.stream() as usize;
        ok(cuStreamBeginCapture_v2(handle as Handle, 1));
        let current = context.0 as usize;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ok(cuCtxSetCurrent(current as Handle));
                // Another thread's unsafe calls are its own affair, and it cannot end the capture.
                let _: u64 = made(|out| cuMemAlloc_v2(out, 4));
                fails(cuStreamEndCapture(handle as Handle, &mut null_mut()), Code::StreamCaptureWrongThread);
            });
        });
    }
}

#[test]
fn functions_on_a_stream_may_not_call_cuda() {
    unsafe extern "C" fn call(code: *mut std::ffi::c_void) {
        unsafe { code.cast::<u32>().write(cuCtxSynchronize()) };
    }
    unsafe {
        let context = Context::new();
        let stream = context.stream();
        let mut code = 0u32;
        ok(cuLaunchHostFunc(stream, call, (&raw mut code).cast()));
        ok(cuStreamSynchronize(stream));
        fails((&raw const code).read_volatile(), Code::NotPermitted);
    }
}

#[test]
fn destroying_a_context_drops_what_is_on_its_streams() {
    unsafe {
        let context = Context::new();
        let (stream, event) = (context.stream(), context.event());
        let memory = context.words(0, 1);
        let gate = Gate::close(stream);
        ok(cuMemsetD32Async(memory, 1, 1, stream));
        ok(cuEventRecord(event, stream));
        let second = Context::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                gate.open();
            });
            // A function of the host cannot be stopped, so this waits for it, and for nothing else.
            ok(cuCtxDestroy_v2(context.0));
        });
        fails(cuEventQuery(event), Code::InvalidHandle);
        let mut word = 0;
        fails(cuMemcpyDtoH_v2(&mut word, memory, 1), Code::InvalidValue);
        ok(cuStreamSynchronize(second.stream()));
    }
}

#[test]
fn nothing_works_before_initialization() {
    if is_child() {
        return child_nothing_works_before_initialization();
    }
    in_child("nothing_works_before_initialization", &[]);
}

fn child_nothing_works_before_initialization() {
    unsafe {
        let mut handle = null_mut();
        fails(cuCtxCreate_v2(&mut handle, 0, 0), Code::NotInitialized);
        fails(cuCtxSynchronize(), Code::NotInitialized);
        fails(cuInit(1), Code::InvalidValue);
        ok(cuInit(0));
        fails(cuCtxSynchronize(), Code::InvalidContext);
        let mut name = null();
        ok(cuGetErrorName(201, &mut name));
        assert_eq!(std::ffi::CStr::from_ptr(name).to_str(), Ok("CUDA_ERROR_INVALID_CONTEXT"));
        fails(cuGetErrorName(12_345, &mut name), Code::InvalidValue);
    }
}

#[test]
fn devices_are_chosen_by_a_variable() {
    if is_child() {
        return child_devices_are_chosen_by_a_variable();
    }
    let devices = "sm_80:memory=1GiB:copy=100MB/s,sm_120";
    in_child("devices_are_chosen_by_a_variable", &[("VYRE_EMULATED_DEVICES", devices)]);
}

fn child_devices_are_chosen_by_a_variable() {
    unsafe {
        let first = Context::of_device(0);
        assert_eq!(made(|out| cuDeviceGetCount(out)), 2);
        assert_eq!(made(|out| cuDeviceTotalMem_v2(out, 0)), 1 << 30);
        assert_eq!(made(|out| cuDeviceGetAttribute(out, 75, 1)), 12);
        let memory: u64 = made(|out| cuMemAlloc_v2(out, 10 << 20));
        let bytes = vec![7; 10 << 20];
        let start = std::time::Instant::now();
        ok(cuMemcpyHtoD_v2(memory, bytes.as_ptr(), bytes.len()));
        ok(cuCtxSynchronize());
        assert!(start.elapsed().as_secs_f64() > 0.1, "copies are as slow as was asked for");
        let second = Context::of_device(1);
        let other: u64 = made(|out| cuMemAlloc_v2(out, 16));
        assert_ne!(memory >> 44, other >> 44, "no address is on two devices");
        ok(cuMemcpyDtoD_v2(other, memory, 16));
        assert_eq!(second.word(other), 0x0707_0707);
        drop((first, second));
    }
}

#[test]
fn wrong_variables_fail_with_a_fix() {
    if is_child() {
        return child_wrong_variables_fail_with_a_fix();
    }
    let variables =
        ["DEVICES", "FAULTS", "CHECKS", "SCHEDULE", "WATCHDOG"].map(|name| format!("VYRE_EMULATED_{name}"));
    for variable in variables.iter().map(String::as_str) {
        let text = in_child("wrong_variables_fail_with_a_fix", &[(variable, "nonsense")]);
        assert!(text.contains("Fix: ") && text.contains(variable), "{text}");
    }
}

fn child_wrong_variables_fail_with_a_fix() {
    unsafe {
        fails(cuInit(0), Code::InvalidValue);
        fails(cuInit(0), Code::InvalidValue);
    }
}

#[test]
fn a_forked_child_cannot_use_cuda() {
    if is_child() {
        return child_a_forked_child_cannot_use_cuda();
    }
    in_child("a_forked_child_cannot_use_cuda", &[]);
}

fn child_a_forked_child_cannot_use_cuda() {
    unsafe {
        let context = Context::new();
        let memory = context.words(3, 1);
        let child = libc::fork();
        if child == 0 {
            let codes = [cuInit(0), cuCtxSynchronize(), cuMemFree_v2(memory), cuCtxDestroy_v2(context.0)];
            libc::_exit(i32::from(codes.iter().any(|code| *code != Code::NotInitialized as u32)));
        }
        let mut status = 1;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0);
        assert_eq!(context.word(memory), 3, "the parent goes on");
    }
}

#[test]
fn a_process_ends_with_work_under_way() {
    if is_child() {
        return child_a_process_ends_with_work_under_way();
    }
    in_child("a_process_ends_with_work_under_way", &[]);
}

fn child_a_process_ends_with_work_under_way() {
    let context = Context::new();
    Gate::close(context.stream());
    std::mem::forget(context);
}

#[test]
fn faults_come_on_demand() {
    if is_child() {
        return child_faults_come_on_demand();
    }
    let path = std::env::temp_dir().join(format!("vyre-emulated-faults-{}", std::process::id()));
    let text = "allocation 2: out of memory\ncopy 2: ecc\ncopy 3: hangs\ncrash \"x\"\n  match\n    trap\n";
    std::fs::write(&path, text).expect("the folder for temporary files can be written");
    let output = in_child("faults_come_on_demand", &[("VYRE_EMULATED_FAULTS", &path.to_string_lossy())]);
    std::fs::remove_file(&path).expect("it was written");
    assert!(output.contains("vyre-cuda-emulator: device 0: EccUncorrectable: copy 2"), "{output}");
}

fn child_faults_come_on_demand() {
    unsafe {
        let first = Context::new();
        let memory: u64 = made(|out| cuMemAlloc_v2(out, 4));
        let mut address = 0;
        fails(cuMemAlloc_v2(&mut address, 4), Code::OutOfMemory);
        ok(cuMemcpyHtoD_v2(memory, [1, 2, 3, 4].as_ptr(), 4));
        let mut word = [0; 4];
        fails(cuMemcpyDtoH_v2(word.as_mut_ptr(), memory, 4), Code::EccUncorrectable);
        fails(cuMemAlloc_v2(&mut address, 4), Code::EccUncorrectable);
        fails(cuCtxSynchronize(), Code::EccUncorrectable);
        assert!(last_fault().contains("copy 2"), "{}", last_fault());
        let second = Context::new();
        let (stream, memory) = (second.stream(), second.words(5, 1));
        let mut pinned = null_mut();
        ok(cuMemAllocHost_v2(&mut pinned, 4));
        ok(cuMemcpyDtoHAsync_v2(pinned, memory, 4, stream));
        std::thread::sleep(std::time::Duration::from_millis(20));
        fails(cuStreamQuery(stream), Code::NotReady);
        ok(cuCtxDestroy_v2(second.0));
        ok(cuCtxDestroy_v2(first.0));
    }
}
