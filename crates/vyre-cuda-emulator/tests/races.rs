//! Accesses that nothing orders must be reported, and those that something orders must not.

mod harness;

use harness::{Case, accepted, case, refused, words};
use vyre_cuda_emulator::fault::Code;

/// Blocks of two warps with shared memory, where races are looked for.
fn watched(body: &str, grid: u32) -> Case<'_> {
    Case {
        module: ".shared .align 16 .b8 s[1024];",
        grid,
        block: [64, 1, 1],
        words: 64 * grid as usize,
        input: words([0; 64]),
        races: true,
        ..case(body)
    }
}

#[track_caller]
fn race(body: &str, grid: u32) {
    refused(&watched(body, grid), Code::LaunchFailed, &["and nothing orders the two"]);
}

#[track_caller]
fn ordered(body: &str, grid: u32) {
    accepted(&watched(body, grid));
}

/// Each thread writes its word of shared memory, and then reads another's: by exclusive or of the numbers.
fn exchange(between: &str, other: u32) -> String {
    format!(
        "mov.u32 %r4, s; mad.lo.u32 %r5, %r0, 4, %r4; xor.b32 %r6, %r0, {other}; mad.lo.u32 %r6, %r6, 4, %r4;
        st.shared.u32 [%r5], %r0; // here
        {between}
        ld.shared.u32 %r7, [%r6]; // here
        st.global.u32 [%d2], %r7;"
    )
}

/// Waits until another lane or warp has written its word, so that a race is not an unwritten read.
const WRITTEN: &str = "st.shared.u32 [%r5], 0; bar.sync 0; st.shared.u32 [%r5], %r0; // here";

#[test]
fn exchanges_through_shared_memory() {
    race(&exchange(WRITTEN, 32), 1);
    race(&exchange(WRITTEN, 1), 1);
    race(&exchange(&format!("{WRITTEN}\nbar.warp.sync -1;"), 32), 1);
    race(&exchange(&format!("{WRITTEN}\nmembar.cta;"), 1), 1);
    race(&exchange(&format!("{WRITTEN}\nshfl.sync.idx.b32 %r9, %r0, 0, 31, -1;"), 1), 1);
    race(&exchange(&format!("{WRITTEN}\nsetp.lt.u32 %p0, %r0, 32;\n@%p0 bar.sync 1, 32;"), 32), 1);
    ordered(&exchange("bar.sync 0;", 32), 1);
    ordered(&exchange("bar.warp.sync -1;", 1), 1);
    ordered(&exchange("barrier.sync 3, 64;", 32), 1);
    ordered(&exchange("setp.lt.u32 %p1, %r0, 7; bar.red.popc.u32 %r9, 2, %p1;", 32), 1);
}

#[test]
fn a_second_round_needs_a_second_barrier() {
    let round =
        "mov.u32 %r4, s; mad.lo.u32 %r5, %r0, 4, %r4; xor.b32 %r6, %r0, 32; mad.lo.u32 %r6, %r6, 4, %r4;
        mov.b32 %r8, 0;
    $loop:
        st.shared.u32 [%r5], %r0; // here
        bar.sync 0;
        ld.shared.u32 %r7, [%r6]; // here";
    let end = "add.u32 %r8, %r8, 1; setp.lt.u32 %p0, %r8, 3; @%p0 bra $loop;";
    race(&format!("{round}\n{end}"), 1);
    ordered(&format!("{round}\nbar.sync 0;\n{end}"), 1);
}

#[test]
fn producers_that_do_not_wait_learn_nothing() {
    let body = |producer: &str| {
        format!(
            "mov.u32 %r4, s; setp.ge.u32 %p0, %r0, 32; @%p0 bra $consumer;
            mad.lo.u32 %r5, %r0, 4, %r4;
            st.shared.u32 [%r5], %r0;
            bar.arrive 1, 64;
            {producer}
            ret;
        $consumer:
            sub.u32 %r6, %r0, 32; mad.lo.u32 %r5, %r6, 4, %r4;
            bar.sync 1, 64;
            ld.shared.u32 %r7, [%r5]; // here
            bar.arrive 2, 64;"
        )
    };
    race(&body("st.shared.u32 [%r5], 7; // here"), 1);
    ordered(&body("bar.sync 2, 64; st.shared.u32 [%r5], 7;"), 1);
}

/// Thread 0 of block 0 sends a word to thread 0 of block 1.
fn message(write: &str, read: &str) -> String {
    format!(
        "setp.ne.u32 %p0, %r0, 0; @%p0 exit; setp.eq.u32 %p1, %r1, 1; @%p1 bra $reader;
        st.global.u32 [%d1], 42; // here
        {write} // here
        ret;
    $reader:
        {read} // here
        setp.eq.u32 %p2, %r4, 0; @%p2 bra $reader;
        FENCE
        ld.global.u32 %r5, [%d1]; // here
        st.global.u32 [%d2], %r5;"
    )
}

#[test]
fn messages_between_blocks() {
    let volatile = ("st.volatile.global.u32 [%d1+4], 1;", "ld.volatile.global.u32 %r4, [%d1+4];");
    let release = ("st.release.gpu.global.u32 [%d1+4], 1;", "ld.acquire.gpu.global.u32 %r4, [%d1+4];");
    let atomic = ("atom.global.exch.b32 %r9, [%d1+4], 1;", "atom.global.or.b32 %r4, [%d1+4], 0;");
    let body = |(write, read): (&str, &str), before: &str, after: &str| {
        message(&format!("{before} {write}"), read).replace("FENCE", after)
    };
    for (before, after) in [("membar.gl;", "membar.gl;"), ("fence.acq_rel.gpu;", "fence.sc.sys;")] {
        ordered(&body(volatile, before, after), 2);
        ordered(&body(atomic, before, after), 2);
    }
    ordered(&body(release, "", ""), 2);
    ordered(&body((release.0, volatile.1), "", "membar.gl;"), 2);
    ordered(&body((volatile.0, release.1), "membar.gl;", ""), 2);
    race(&body(volatile, "", ""), 2);
    race(&body(volatile, "membar.gl;", ""), 2);
    race(&body(volatile, "", "membar.gl;"), 2);
    race(&body(volatile, "membar.cta;", "membar.gl;"), 2);
    race(&body(volatile, "membar.gl;", "membar.cta;"), 2);
    race(&body(atomic, "fence.acq_rel.cta;", "fence.acq_rel.gpu;"), 2);
    race(&body(("st.release.cta.global.u32 [%d1+4], 1;", volatile.1), "", "membar.gl;"), 2);
    race(&body((volatile.0, "ld.acquire.cta.global.u32 %r4, [%d1+4];"), "membar.gl;", ""), 2);
    race(&body(("st.global.u32 [%d1+4], 1;", volatile.1), "membar.gl;", "membar.gl;"), 2);
}

#[test]
fn atomics_race_with_plain_accesses_and_beyond_their_scope() {
    ordered("red.global.add.u32 [%d1], 1; atom.global.max.u32 %r4, [%d1+4], %r0;", 3);
    ordered("red.relaxed.cta.global.add.u32 [%d1], 1;", 1);
    race("red.relaxed.cta.global.add.u32 [%d1], 1; // here", 2);
    race("red.global.add.u32 [%d1], 1; // here\nld.global.u32 %r4, [%d1]; // here", 2);
    race("st.global.u32 [%d1], 1; // here", 2);
    race("st.shared.u32 [s], 1; // here", 1);
    ordered("ld.global.u32 %r4, [%d1]; ld.global.nc.u32 %r5, [%d1+4];", 3);
    ordered("st.volatile.global.u32 [%d1], 1; ld.volatile.global.u32 %r4, [%d1];", 2);
    let constant = "setp.eq.u32 %p0, %r3, 0;\n@%p0 st.global.u32 [%d1], 1; // here\nbar.sync 0;
        ld.global.nc.u32 %r4, [%d1]; // here";
    refused(&watched(constant, 1), Code::LaunchFailed, &["for memory that a kernel does not write"]);
}

#[test]
fn the_last_block_reads_what_all_wrote() {
    let body = |fence: &str, other: &str| {
        format!(
            "st.global.u32 [%d2], %r3; // here
            bar.sync 0;
            setp.ne.u32 %p0, %r0, 0; @%p0 bra $joined;
            {fence}
            atom.global.add.u32 %r4, [%d1], 1;
            {other}
            st.shared.u32 [s], %r4;
        $joined:
            bar.sync 0;
            ld.shared.u32 %r5, [s]; setp.ne.u32 %p1, %r5, 2; @%p1 exit;
            mad.wide.u32 %d3, %r0, 4, %d0;
            ld.global.u32 %r6, [%d3]; // here
            ld.global.u32 %r7, [%d3+256]; // here
            ld.global.u32 %r8, [%d3+512]; // here"
        )
    };
    ordered(&body("membar.gl;", "membar.gl;"), 3);
    race(&body("", "membar.gl;"), 3);
    race(&body("membar.gl;", ""), 3);
    race(&body("membar.cta;", "membar.gl;"), 3);
}

#[test]
fn a_grid_barrier_orders_all_blocks() {
    let body = |before: &str, after: &str| {
        format!(
            "st.global.u32 [%d2], %r3; // here
            bar.sync 0;
            setp.ne.u32 %p0, %r0, 0; @%p0 bra $joined;
            {before}
            red.global.add.u32 [%d1], 1;
        $spin:
            ld.volatile.global.u32 %r5, [%d1]; setp.lt.u32 %p1, %r5, 4; @%p1 bra $spin;
            {after}
        $joined:
            bar.sync 0;
            xor.b32 %r6, %r3, 64; mad.wide.u32 %d3, %r6, 4, %d0;
            ld.global.u32 %r7, [%d3]; // here"
        )
    };
    ordered(&body("membar.gl;", "membar.gl;"), 4);
    race(&body("membar.gl;", ""), 4);
    race(&body("", "membar.gl;"), 4);
}

#[test]
fn matrices_are_read_by_the_warp() {
    let body = |between: &str| {
        format!(
            "mov.u32 %r4, s; shl.b32 %r5, %r0, 4; add.u32 %r5, %r5, %r4; and.b32 %r6, %r0, 31; xor.b32 %r6, %r6, 1;
            shl.b32 %r6, %r6, 4; add.u32 %r6, %r6, %r4;
            st.shared.v4.u32 [%r5], {{%r0, %r0, %r0, %r0}}; // here
            bar.sync 0;
            st.shared.v4.u32 [%r5], {{%r0, %r0, %r0, %r0}}; // here
            {between}
            setp.ge.u32 %p0, %r0, 32; @%p0 exit;
            ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r7, %r8, %r9, %r10}}, [%r6]; // here"
        )
    };
    ordered(&body("bar.sync 0;"), 1);
    race(&body(""), 1);
}
