//! The driver API with kernels: modules, the linker, launches and their limits, and contexts that a fault poisons.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

mod common;

use common::*;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::time::Duration;

/// `add` adds to a word, `spin` runs until a word is not 0, and `block` has blocks of 32 threads.
const PTX: &str = "
.version 6.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .entry add(.param .u64 p, .param .u32 n)
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [n];
    ld.global.u32 %r2, [%rd1];
    add.u32 %r3, %r2, %r1;
    st.global.u32 [%rd1], %r3;
    ret;
}
.visible .entry spin(.param .u64 p)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [p];
again:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra again;
    ret;
}
.visible .entry block(.param .u64 p)
.reqntid 32, 1, 1
{
    ret;
}
";

struct Module(Handle);

impl Module {
    fn load() -> Module {
        let text = CString::new(PTX).expect("no zero bytes");
        Module(made_handle(|out| unsafe { cuModuleLoadData(out, text.as_ptr().cast()) }))
    }

    fn kernel(&self, name: &str) -> Handle {
        let name = CString::new(name).expect("no zero bytes");
        made_handle(|out| unsafe { cuModuleGetFunction(out, self.0, name.as_ptr()) })
    }
}

/// Launches a kernel with one thread.
fn launch(kernel: Handle, stream: Handle, address: u64, number: u32) -> u32 {
    let (mut address, mut number) = (address, number);
    let mut params: [*mut c_void; 2] = [(&raw mut address).cast(), (&raw mut number).cast()];
    unsafe { cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params.as_mut_ptr(), null_mut()) }
}

#[test]
fn kernels_run_in_order_with_arguments_in_both_forms() {
    unsafe {
        let context = Context::new();
        let (module, stream, memory) = (Module::load(), context.stream(), context.words(1, 1));
        let add = module.kernel("add");
        ok(launch(add, stream, memory, 10));
        let mut buffer = [0u8; 12];
        buffer[..8].copy_from_slice(&memory.to_le_bytes());
        buffer[8..].copy_from_slice(&100u32.to_le_bytes());
        let mut len = buffer.len();
        let mut extra = [
            std::ptr::without_provenance_mut(1),
            buffer.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(2),
            (&raw mut len).cast(),
            null_mut(),
        ];
        ok(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, null_mut(), extra.as_mut_ptr()));
        buffer.fill(0);
        ok(cuStreamSynchronize(stream));
        assert_eq!(context.word(memory), 111);
        let (mut address, mut byte_len) = (0, 0);
        ok(cuModuleGetGlobal_v2(&mut address, &mut byte_len, module.0, c"counter".as_ptr()));
        assert_eq!((context.word(address), byte_len), (7, 4));
        fails(cuMemFree_v2(address), Code::InvalidValue);
        ok(launch(add, null_mut(), address, 1));
        assert_eq!(context.word(address), 8);
        let mut missing = null_mut();
        fails(cuModuleGetFunction(&mut missing, module.0, c"gone".as_ptr()), Code::NotFound);
        ok(cuModuleUnload(module.0));
        fails(launch(add, stream, memory, 1), Code::InvalidHandle);
    }
}

#[test]
fn launches_beyond_the_limits_are_refused_and_harm_nothing() {
    unsafe {
        let context = Context::new();
        let (module, memory) = (Module::load(), context.words(0, 1));
        let (add, block) = (module.kernel("add"), module.kernel("block"));
        let try_launch = |kernel, grid: [u32; 3], threads: [u32; 3], shared, cooperative| {
            let (mut address, mut number) = (memory, 0u32);
            let mut params: [*mut c_void; 2] = [(&raw mut address).cast(), (&raw mut number).cast()];
            let ([gx, gy, gz], [bx, by, bz], params) = (grid, threads, params.as_mut_ptr());
            match cooperative {
                true => cuLaunchCooperativeKernel(kernel, gx, gy, gz, bx, by, bz, shared, null_mut(), params),
                false => {
                    cuLaunchKernel(kernel, gx, gy, gz, bx, by, bz, shared, null_mut(), params, null_mut())
                }
            }
        };
        let one = [1, 1, 1];
        for (grid, threads, shared) in [
            ([0, 1, 1], one, 0),
            ([1, 65_536, 1], one, 0),
            ([1 << 31, 1, 1], one, 0),
            (one, [1025, 1, 1], 0),
            (one, [1, 1, 65], 0),
            (one, [32, 33, 1], 0),
            (one, one, 48 * 1024 + 1),
        ] {
            fails(try_launch(add, grid, threads, shared, false), Code::InvalidValue);
        }
        fails(try_launch(block, one, [31, 1, 1], 0, false), Code::InvalidValue);
        ok(try_launch(block, one, [32, 1, 1], 0, false));
        fails(cuFuncSetAttribute(add, 8, 228 << 10), Code::InvalidValue);
        ok(cuFuncSetAttribute(add, 8, 227 << 10));
        ok(try_launch(add, one, one, 227 << 10, false));
        let blocks = made(|out| cuOccupancyMaxActiveBlocksPerMultiprocessor(out, add, 1024, 0));
        assert_eq!(blocks, 2);
        fails(try_launch(add, [2 * 132 + 1, 1, 1], [1024, 1, 1], 0, true), Code::CooperativeLaunchTooLarge);
        ok(try_launch(block, [132, 1, 1], [32, 1, 1], 0, true));
        let none = cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, null_mut(), null_mut(), null_mut());
        fails(none, Code::InvalidValue);
        ok(cuCtxSynchronize());
    }
}

#[test]
fn a_kernel_runs_beside_copies_of_other_streams() {
    unsafe {
        let context = Context::new();
        let (module, memory) = (Module::load(), context.words(0, 1));
        let (busy, aside, end) = (context.stream(), context.stream(), context.event());
        ok(launch(module.kernel("spin"), busy, memory, 0));
        ok(cuEventRecord(end, busy));
        std::thread::sleep(Duration::from_millis(5));
        fails(cuEventQuery(end), Code::NotReady);
        ok(cuMemsetD32Async(memory, 1, 1, aside));
        ok(cuEventSynchronize(end));
    }
}

#[test]
fn a_fault_poisons_its_context_and_no_other() {
    unsafe {
        let first = Context::new();
        let (module, stream, memory) = (Module::load(), first.stream(), first.words(0, 1));
        // A kernel that runs is stopped with the others.
        ok(launch(module.kernel("spin"), first.stream(), memory, 0));
        ok(launch(module.kernel("add"), stream, 64, 1));
        fails(cuStreamSynchronize(stream), Code::IllegalAddress);
        let mut address = 0;
        fails(cuMemAlloc_v2(&mut address, 4), Code::IllegalAddress);
        fails(launch(null_mut(), stream, memory, 1), Code::IllegalAddress);
        fails(cuCtxSynchronize(), Code::IllegalAddress);
        assert!(last_fault().contains("0x40"), "{}", last_fault());
        let second = Context::new();
        let (module, memory) = (Module::load(), second.words(1, 1));
        ok(launch(module.kernel("add"), null_mut(), memory, 1));
        assert_eq!(second.word(memory), 2);
        ok(cuCtxDestroy_v2(first.0));
    }
}

#[test]
fn memory_of_another_context_is_no_kernels() {
    unsafe {
        let first = Context::new();
        let memory = first.words(0, 1);
        let second = Context::new();
        let module = Module::load();
        ok(launch(module.kernel("add"), null_mut(), memory, 1));
        fails(cuCtxSynchronize(), Code::IllegalAddress);
        drop(second);
        ok(cuCtxSetCurrent(first.0));
        assert_eq!(first.word(memory), 0);
    }
}

#[test]
fn destroying_a_context_stops_its_kernels() {
    unsafe {
        let context = Context::new();
        let (module, memory) = (Module::load(), context.words(0, 1));
        ok(launch(module.kernel("spin"), context.stream(), memory, 0));
        std::thread::sleep(Duration::from_millis(5));
        ok(cuCtxDestroy_v2(context.0));
    }
}

#[test]
fn a_graph_keeps_the_arguments_of_its_launches() {
    unsafe {
        let context = Context::new();
        let (module, stream, memory) = (Module::load(), context.stream(), context.words(0, 1));
        ok(cuStreamBeginCapture_v2(stream, 1));
        for number in [1, 10, 100] {
            ok(launch(module.kernel("add"), stream, memory, number));
        }
        let graph = made_handle(|out| cuStreamEndCapture(stream, out));
        let exec = made_handle(|out| cuGraphInstantiateWithFlags(out, graph, 0));
        for _ in 0..3 {
            ok(cuGraphLaunch(exec, stream));
        }
        ok(cuGraphExecDestroy(exec));
        ok(cuGraphDestroy(graph));
        ok(cuStreamSynchronize(stream));
        assert_eq!(context.word(memory), 333);
    }
}

#[test]
fn the_linker_makes_a_binary_that_loads() {
    unsafe {
        let context = Context::new();
        let memory = context.words(1, 1);
        let link = made_handle(|out| cuLinkCreate_v2(0, null_mut(), null_mut(), out));
        let add = |text: &str| {
            cuLinkAddData_v2(link, 1, text.as_ptr(), text.len(), c"x".as_ptr(), 0, null_mut(), null_mut())
        };
        ok(add(PTX));
        let (mut start, mut len) = (std::ptr::null(), 0);
        ok(cuLinkComplete(link, &mut start, &mut len));
        let binary = std::slice::from_raw_parts(start, len).to_vec();
        ok(cuLinkDestroy(link));
        fails(add(PTX), Code::InvalidHandle);
        let module = Module(made_handle(|out| cuModuleLoadData(out, binary.as_ptr())));
        ok(launch(module.kernel("add"), null_mut(), memory, 1));
        assert_eq!(context.word(memory), 2);
        assert!(made(|out| cuFuncGetAttribute(out, 4, module.kernel("add"))) > 0);
        let mut damaged = binary;
        *damaged.last_mut().expect("it has bytes") ^= 1;
        let mut module = null_mut();
        fails(cuModuleLoadData(&mut module, damaged.as_ptr()), Code::InvalidImage);
    }
}

#[test]
fn the_compilers_words_are_in_the_callers_buffer() {
    unsafe {
        let _context = Context::new();
        let mut log = [0u8; 4096];
        let mut keys = [5, 6];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), log.len() as *mut c_void];
        let link = made_handle(|out| cuLinkCreate_v2(2, keys.as_mut_ptr(), values.as_mut_ptr(), out));
        let text = PTX.replace("add.u32", "nonsense.u32");
        let (at, len) = (text.as_ptr(), text.len());
        let code = cuLinkAddData_v2(link, 1, at, len, c"x".as_ptr(), 0, null_mut(), null_mut());
        fails(code, Code::InvalidPtx);
        let end = log.iter().position(|byte| *byte == 0).expect("the text ends");
        let words = String::from_utf8_lossy(&log[..end]);
        assert!(words.contains("line 13") && words.contains("nonsense"), "{words}");
        assert_eq!(values[1] as usize & 0xffff_ffff, end);
        ok(cuLinkDestroy(link));
    }
}

#[test]
fn kernels_fail_and_hang_on_demand() {
    if is_child() {
        return child_kernels_fail_and_hang_on_demand();
    }
    let path = std::env::temp_dir().join(format!("vyre-emulated-launches-{}", std::process::id()));
    std::fs::write(&path, "launch 2: hangs\nlaunch 4: lost\nlaunch 5: out of resources\n")
        .expect("it can be written");
    in_child("kernels_fail_and_hang_on_demand", &[("VYRE_EMULATED_FAULTS", &path.to_string_lossy())]);
    std::fs::remove_file(&path).expect("it was written");
}

fn child_kernels_fail_and_hang_on_demand() {
    unsafe {
        let context = Context::new();
        let (module, stream, memory) = (Module::load(), context.stream(), context.words(0, 1));
        let add = module.kernel("add");
        ok(launch(add, stream, memory, 1));
        ok(cuStreamSynchronize(stream));
        ok(launch(add, stream, memory, 1));
        ok(launch(add, context.stream(), memory, 1));
        std::thread::sleep(Duration::from_millis(30));
        fails(cuStreamQuery(stream), Code::NotReady);
        ok(cuCtxDestroy_v2(context.0));
        let context = Context::new();
        let (module, memory) = (Module::load(), context.words(0, 1));
        ok(launch(module.kernel("add"), null_mut(), memory, 1));
        fails(cuCtxSynchronize(), Code::LaunchFailed);
        let context = Context::new();
        let (module, memory) = (Module::load(), context.words(0, 1));
        fails(launch(module.kernel("add"), null_mut(), memory, 1), Code::LaunchOutOfResources);
        ok(launch(module.kernel("add"), null_mut(), memory, 1));
        assert_eq!(context.word(memory), 1);
    }
}

#[test]
fn a_watchdog_ends_kernels() {
    if is_child() {
        return child_a_watchdog_ends_kernels();
    }
    in_child("a_watchdog_ends_kernels", &[("VYRE_EMULATED_WATCHDOG", "1")]);
}

fn child_a_watchdog_ends_kernels() {
    unsafe {
        let context = Context::new();
        let (module, memory) = (Module::load(), context.words(0, 1));
        let watched: i32 = made(|out| cuDeviceGetAttribute(out, 17, 0));
        assert_eq!(watched, 1);
        let (add, spin) = (module.kernel("add"), module.kernel("spin"));
        ok(launch(add, null_mut(), memory, 0));
        ok(launch(spin, null_mut(), memory, 1));
        fails(cuCtxSynchronize(), Code::LaunchTimeout);
        fails(launch(add, null_mut(), memory, 1), Code::LaunchTimeout);
    }
}
