//! Kernels that must be stopped: the code is that of hardware, and the message names the line, the thread and the address.

mod harness;

use harness::{Case, accepted, case, check, refused, words};
use vyre_cuda_emulator::engine::{Order, Schedule};
use vyre_cuda_emulator::fault::Code;

/// A kernel that is stopped as a launch that failed.
#[track_caller]
fn fails(body: &str, what: &[&str]) {
    refused(&case(body), Code::LaunchFailed, what);
}

#[test]
fn registers_that_nothing_wrote() {
    let source = &["source 1 is a register that nothing has written"];
    fails("add.u32 %r4, %r5, 1; // here", source);
    fails("st.global.u32 [%d2], %r5; // here", &["source 2"]);
    fails("setp.lt.u32 %p0, %r0, 9;\n@%p0 mov.b32 %r5, 1;\nadd.u32 %r4, %r5, 1; // here", source);
    fails(
        "setp.lt.u32 %p0, %r0, 9;\n@%p0 bra $skip;\nmov.b32 %r5, 1;\n$skip:\nadd.u32 %r4, %r5, 1; // here",
        source,
    );
    fails(
        "mov.b32 %r4, 1;\n@%p5 mov.b32 %r4, 2; // here",
        &["its guard is a register that nothing has written"],
    );
    fails("@%p5 bra $end; // here\n$end:", &["its guard"]);
    accepted(&case("setp.lt.u32 %p0, %r0, 9; @%p0 mov.b32 %r5, 1; @%p0 st.global.u32 [%d2], %r5;"));
}

#[test]
fn memory_that_nothing_wrote() {
    let unwritten = &["which nothing has written"];
    let shared = Case { module: ".shared .align 8 .b8 s[64];", ..case("ld.shared.u32 %r4, [s+8]; // here") };
    refused(&shared, Code::LaunchFailed, &["reads 4 bytes at 0x408", "which nothing has written"]);
    fails(".local .b32 x[4]; st.local.u32 [x], 1;\nld.local.u32 %r4, [x+4]; // here", unwritten);
    let global = "ld.global.u32 %r4, [%d2]; // here";
    refused(&Case { zeroed: false, ..case(global) }, Code::LaunchFailed, unwritten);
    let atomic = "red.global.add.u32 [%d2], 1; // here";
    refused(&Case { zeroed: false, ..case(atomic) }, Code::LaunchFailed, unwritten);
    // Half of a word was written.
    let part = "st.global.u16 [%d2], %h0;\nld.global.u32 %r4, [%d2]; // here";
    let part = format!("mov.b16 %h0, 1;\n{part}");
    refused(&Case { zeroed: false, ..case(&part) }, Code::LaunchFailed, unwritten);
}

#[test]
fn constant_memory_is_read_as_such_and_not_written() {
    let module = ".const .align 8 .u32 c[2] = {5, 6}; .global .u32 g = 7;";
    let constant = |body: &str| {
        refused(&Case { module, ..case(body) }, Code::IllegalAddress, &["constant variable"]);
    };
    constant("mov.u64 %d3, c;\nst.global.u32 [%d3+4], 1; // here");
    constant("mov.u64 %d3, c; cvta.const.u64 %d3, %d3;\nst.u32 [%d3], 1; // here");
    constant("mov.u64 %d3, c;\nred.global.add.u32 [%d3], 1; // here");
    constant("ld.const.u32 %r4, [%d0]; // here");
    constant("ld.const.u32 %r4, [c+8]; // here");
    let reads = "mov.u64 %d3, c+4; ld.const.u32 %r4, [%d3]; mov.u64 %d4, c; cvta.const.u64 %d4, %d4;
        ld.u32 %r5, [%d4]; mad.lo.u32 %r4, %r4, 10, %r5; st.global.u32 [g], %r4; st.global.u32 [%d2], %r4;";
    check(&Case { module, ..case(reads) }, |_| 65);
}

#[test]
fn addresses_outside_of_allocations() {
    let outside = |body: &str| refused(&case(body), Code::IllegalAddress, &["where nothing is allocated"]);
    outside("ld.global.u32 %r4, [%d0+128]; // here");
    outside("ld.global.u8 %r4, [%d0+-1]; // here");
    outside("st.global.v4.u32 [%d0+128], {%r0, %r0, %r0, %r0}; // here");
    outside("mov.b64 %d3, 0;\nld.global.u32 %r4, [%d3]; // here");
    outside("mov.b64 %d3, -8;\nld.u64 %d4, [%d3]; // here");
    outside("mov.b64 %d3, 0x123456789000;\natom.global.add.u32 %r4, [%d3], 1; // here");
    outside("ld.global.u32 %r4, [%d2+4]; // here");
    let len = "ld.global.u32 %r4, [%d0+128]; // here";
    refused(&case(len), Code::IllegalAddress, &["128 bytes from the start of 128 bytes"]);
}

#[test]
fn misaligned_addresses() {
    for (form, registers, offset) in [
        ("u16", "%r4", 1),
        ("u32", "%r4", 2),
        ("u64", "%d4", 4),
        ("v2.u32", "{%r4, %r5}", 4),
        ("v4.u32", "{%r4, %r5, %r6, %r7}", 8),
        ("v2.u64", "{%d4, %d5}", 8),
    ] {
        let body = format!("ld.global.{form} {registers}, [%d0+{offset}]; // here");
        refused(&case(&body), Code::MisalignedAddress, &["which is not a multiple of that"]);
        let body = format!("ld.shared.{form} {registers}, [s+{offset}]; // here");
        let shared = Case { module: ".shared .align 16 .b8 s[64];", ..case(&body) };
        refused(&shared, Code::MisalignedAddress, &["which is not a multiple of that"]);
    }
    let atomic = "atom.global.add.u32 %r4, [%d0+2], 1; // here";
    refused(&case(atomic), Code::MisalignedAddress, &["updates 4 bytes"]);
}

#[test]
fn addresses_outside_of_shared_and_local_memory() {
    for body in [
        "st.shared.u32 [s+64], %r0; // here",
        "st.shared.u32 [s+-4], %r0; // here",
        "mov.b32 %r4, 0;\nst.shared.u32 [%r4], %r0; // here",
        "mov.u64 %d3, s;\ncvta.shared.u64 %d3, %d3;\nst.u32 [%d3+64], %r0; // here",
        "mov.u64 %d3, s;\ncvta.shared.u64 %d3, %d3;\nst.shared.u32 [%d3], %r0; // here",
    ] {
        let shared = Case { module: ".shared .align 8 .b8 s[64];", ..case(body) };
        refused(&shared, Code::IllegalAddress, &["outside of the block's shared memory from 0x400 to 0x440"]);
    }
    let local = ".local .b32 x[4];\nst.local.u32 [x+16], 1; // here";
    refused(&case(local), Code::IllegalAddress, &["outside of the thread's local memory"]);
}

#[test]
fn barriers_that_part_of_a_warp_reaches() {
    let two = |body: &str, what: &[&str]| {
        refused(&Case { block: [64, 1, 1], words: 64, ..case(body) }, Code::LaunchFailed, what);
    };
    let half = "setp.lt.u32 %p0, %r0, 16;";
    two(
        &format!("{half}\n@%p0 bra $a;\nbar.sync 0; // here\nbra $b;\n$a:\nbar.sync 0; // here\n$b:"),
        &["the warp must execute it together"],
    );
    two(&format!("{half}\n@%p0 exit;\nbar.sync 0; // here"), &["lanes 0xffff have exited"]);
    two(&format!("{half}\n@%p0 bar.sync 0; // here"), &["the warp must execute it together"]);
    two(&format!("{half}\n@%p0 barrier.sync.aligned 1; // here"), &["the warp must execute it together"]);
    // A whole warp that does not come is waited for in vain.
    two("setp.lt.u32 %p0, %r0, 32;\n@%p0 bar.sync 1; // here\nbar.sync 0; // here", &["never come"]);
    let part = "setp.lt.u32 %p0, %r0, 9; @%p0 barrier.sync 0; st.global.u32 [%d2], 1;";
    accepted(&Case { block: [64, 1, 1], words: 64, ..case(part) });
    two("setp.lt.u32 %p0, %r0, 9;\n@%p0 barrier.sync 0; // here\nbarrier.sync 1; // here", &["never come"]);
}

#[test]
fn barriers_with_wrong_counts() {
    fails("mov.b32 %r4, 33;\nbar.sync 0, %r4; // here", &["a multiple of 32"]);
    fails("bar.sync 0, 0; // here", &["a multiple of 32"]);
    fails("bar.sync 0, 0xffffffe0; // here", &["a multiple of 32"]);
    fails("mov.b32 %r4, 16;\nbar.sync %r4; // here", &["there is no barrier 16"]);
    fails("bar.sync 0, 64; // here", &["32 of 64 threads", "never come"]);
    fails("barrier.sync %r0; // here", &[]);
    let mixed = "setp.lt.u32 %p0, %r0, 32; setp.eq.u32 %p1, %r0, 0;
        @%p0 bra $a;
        bar.red.or.pred %p2, 0, %p1; // here
        ret;
    $a:
        bar.sync 0; // here";
    let mixed = Case { block: [64, 1, 1], words: 64, ..case(mixed) };
    refused(&mixed, Code::LaunchFailed, &["different instructions at the same time"]);
}

#[test]
fn lanes_that_never_come() {
    fails("mov.b32 %r4, 1;\nbar.warp.sync %r4; // here", &["the lane is not in its mask 0x1"]);
    fails("shfl.sync.idx.b32 %r4, %r0, 0, 31, 0xfffffffe; // here", &["the lane is not in its mask"]);
    fails(
        "setp.lt.u32 %p0, %r0, 16;\n@%p0 bra $a;\nbar.warp.sync -1; // here\nret;\n$a:\n\
         shfl.sync.idx.b32 %r4, %r0, 0, 31, -1; // here",
        &["of its warp, which never come"],
    );
    let aligned = "setp.lt.u32 %p0, %r0, 16;\nmov.b32 %r4, %r0;
        @%p0 mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r5, %r6}, {%r4}, {%r4}, {%r4, %r4}; // here";
    fails(aligned, &["the warp must execute it together"]);
}

#[test]
fn traps() {
    let body = "setp.eq.u32 %p0, %r0, 5;\n@%p0 trap; // here";
    refused(
        &case(body),
        Code::IllegalInstruction,
        &["thread (5, 0, 0) of block (0, 0, 0)", "the program traps"],
    );
}

const COPY: &str = ".shared .align 16 .b8 s[1024];";

fn copies(body: &str) -> Case<'_> {
    Case { module: COPY, input: words(0..256), ..case(body) }
}

#[test]
fn copies_that_were_not_waited_for() {
    let start = "shl.b32 %r4, %r0, 4; cvt.u64.u32 %d3, %r4; add.u64 %d4, %d1, %d3; mov.u32 %r5, s; add.u32 %r5, %r5, %r4;
        cp.async.ca.shared.global [%r5], [%d4], 16;";
    let late = |rest: &str| {
        let body = format!("{start}\n{rest}");
        refused(&copies(&body), Code::LaunchFailed, &["cp.async"]);
    };
    let done = |rest: &str| {
        let body = format!("{start}\n{rest}\nld.shared.u32 %r6, [%r5+4]; st.global.u32 [%d2], %r6;");
        check(&copies(&body), |i| 4 * i + 1);
    };
    let unwritten = format!("{start}\nld.shared.u32 %r6, [%r5]; // here");
    refused(&copies(&unwritten), Code::LaunchFailed, &["reads 4 bytes"]);
    late("st.shared.u32 [%r5], 1; // here");
    late("cp.async.commit_group;\nst.shared.u32 [%r5+12], 1; // here");
    late("cp.async.commit_group; cp.async.wait_group 1;\nst.shared.u32 [%r5], 1; // here");
    done("cp.async.wait_all;");
    done("cp.async.commit_group; cp.async.wait_group 0;");
    done("cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1;");
    late("cp.async.commit_group; cp.async.wait_group 18446744073709551615;\nst.shared.u32 [%r5], 1; // here");
}

#[test]
fn sources_of_copies() {
    let copy = "mov.u32 %r5, s;\ncp.async.ca.shared.global [%r5], [%d0], 16; // here";
    let unwritten = Case { module: COPY, zeroed: false, block: [1, 1, 1], ..case(copy) };
    refused(&unwritten, Code::LaunchFailed, &["copies from", "which nothing has written"]);
    for (body, code) in [
        ("mov.u32 %r5, s;\ncp.async.ca.shared.global [%r5], [%d1+1024], 16; // here", Code::IllegalAddress),
        ("mov.u32 %r5, s;\ncp.async.ca.shared.global [%r5+1024], [%d1], 16; // here", Code::IllegalAddress),
        ("mov.u32 %r5, s;\ncp.async.ca.shared.global [%r5], [%d1+8], 16; // here", Code::MisalignedAddress),
        ("mov.u32 %r5, s;\ncp.async.ca.shared.global [%r5+8], [%d1], 16; // here", Code::MisalignedAddress),
    ] {
        refused(&Case { block: [1, 1, 1], ..copies(body) }, code, &["copies "]);
    }
    let sized = "mov.u32 %r5, s; cp.async.ca.shared.global [%r5], [%d1+1020], 4, 4;
        cp.async.ca.shared.global [%r5+16], [%d1+1008], 16, 4; cp.async.ca.shared.global [%r5+32], [%d1+4096], 16, 0;
        cp.async.wait_all; ld.shared.u32 %r6, [%r5]; ld.shared.u32 %r7, [%r5+16]; ld.shared.u32 %r8, [%r5+44];
        ld.shared.u32 %r9, [%r5+20];
        add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8; add.u32 %r6, %r6, %r9; st.global.u32 [%d2], %r6;";
    check(&Case { block: [1, 1, 1], words: 1, ..copies(sized) }, |_| 255 + 252);
}

#[test]
fn lanes_that_spin_while_others_are_at_a_barrier() {
    let body = "
        setp.lt.u32 %p0, %r0, 16; @%p0 bra $spin;
        bar.sync 0; // here
        st.volatile.global.u32 [%d0], 1; ret;
    $spin:
        ld.volatile.global.u32 %r4, [%d0]; setp.eq.u32 %p1, %r4, 0; @%p1 bra $spin;
        bar.sync 0;";
    let schedule = Schedule { order: Order::Lockstep, seed: 0 };
    let fault = case(body).run(schedule).expect_err("the lanes wait for each other");
    assert!(fault.message.contains("lanes 0xffff never come"), "{fault}");
}
