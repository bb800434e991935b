//! Products of four warps: what they give, and what must be waited for or fenced.

mod harness;

use harness::{Case, case, check, refused};
use vyre_cuda_emulator::fault::Code;

/// Factors of bytes in shared memory, their descriptors in `%d5` and `%d6`, and the accumulators `%r20` to `%r23`.
fn factors(rest: &str) -> String {
    format!(
        "mov.u32 %r4, s; mad.lo.u32 %r5, %r0, 16, %r4; mul.lo.u32 %r6, %r0, 0x01010101;
        st.shared.v4.u32 [%r5], {{%r6, %r6, %r6, %r6}};
        setp.lt.u32 %p0, %r0, 16; add.u32 %r7, %r6, 0x01010101;
        @%p0 st.shared.v4.u32 [%r5+2048], {{%r7, %r7, %r7, %r7}};
        shr.u32 %r8, %r4, 4; cvt.u64.u32 %d5, %r8; or.b64 %d5, %d5, 0x0000001000080000; add.u64 %d6, %d5, 128;
        mov.b32 %r20, 5; mov.b32 %r21, 5; mov.b32 %r22, 5; mov.b32 %r23, 5; setp.eq.u32 %p1, %r1, %r1;
        {rest}"
    )
}

const PRODUCT: &str =
    "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r20, %r21, %r22, %r23}, %d5, %d6, %p1; // here";
const READY: &str = "fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned;";
const DONE: &str = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
const STORE: &str = "mul.wide.u32 %d4, %r0, 16; add.u64 %d4, %d4, %d0;
    st.global.v4.u32 [%d4], {%r20, %r21, %r22, %r23}; // here";

fn four_warps(body: &str) -> Case<'_> {
    Case { module: ".shared .align 128 .b8 s[2304];", block: [128, 1, 1], words: 512, ..case(body) }
}

/// An element of the product, as one triple loop.
fn expected(word: u32, first: i32) -> u32 {
    let (thread, index) = (word / 4, word % 4);
    let (warp, lane) = (thread / 32, thread % 32);
    let (row, column) = (16 * warp + lane / 4 + index / 2 * 8, lane % 4 * 2 + index % 2);
    let a = |depth: u32| ((row / 8 * 2 + depth / 16) * 8 + row % 8) as i32;
    let b = |depth: u32| (depth / 16 * 8 + column) as i32 + 1;
    ((0..32).map(|depth| a(depth) * b(depth)).sum::<i32>() + first) as u32
}

#[track_caller]
fn fails(body: &str, what: &str) {
    refused(&four_warps(&factors(body)), Code::LaunchFailed, &[what]);
}

#[test]
fn products_are_those_of_a_triple_loop() {
    let reader_fences = "bar.sync 0; fence.proxy.async.shared::cta; wgmma.fence.sync.aligned;";
    for ready in [READY, reader_fences] {
        let body = factors(&format!("{ready}\n{PRODUCT}\n{DONE}{STORE}"));
        check(&four_warps(&body), |word| expected(word, 5));
    }
    let replaced = format!("setp.ne.u32 %p1, %r1, %r1; {READY}\n{PRODUCT}\n{DONE}{STORE}");
    check(&four_warps(&factors(&replaced)), |word| expected(word, 0));
    // Accumulators that a product replaces need no values before it.
    let fresh = replaced.replace("%r20, %r21, %r22, %r23", "%r30, %r31, %r32, %r33");
    check(&four_warps(&factors(&fresh)), |word| expected(word, 0));
}

#[test]
fn products_that_were_not_waited_for() {
    let waits = "touches an accumulator of a wgmma that was not waited for";
    fails(&format!("{READY}\n{PRODUCT}\n{STORE}"), waits);
    fails(&format!("{READY}\n{PRODUCT}\nwgmma.commit_group.sync.aligned;\n{STORE}"), waits);
    fails(
        &format!(
            "{READY}\n{PRODUCT}\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n{STORE}"
        ),
        waits,
    );
    let overwrites = "wgmma.commit_group.sync.aligned;\nst.shared.u32 [%r5], 1; // here\n";
    fails(&format!("{READY}\n{PRODUCT}\n{overwrites}{DONE}"), "which a wgmma may still read");
}

#[test]
fn fences_that_are_missing() {
    let unfenced = "fence.proxy.async; bar.sync 0;";
    fails(&format!("{unfenced}\n{PRODUCT}\n{DONE}"), "since the last wgmma.fence");
    let touched = format!("{READY} mov.b32 %r21, 3;\n{PRODUCT}\n{DONE}");
    fails(&touched, "since the last wgmma.fence");
    let generic = "bar.sync 0; wgmma.fence.sync.aligned;";
    fails(&format!("{generic}\n{PRODUCT}\n{DONE}"), "with no fence.proxy.async since");
    let early = "fence.proxy.async; st.shared.u32 [%r5], 1; bar.sync 0; wgmma.fence.sync.aligned;";
    fails(&format!("{early}\n{PRODUCT}\n{DONE}"), "with no fence.proxy.async since");
}

#[test]
fn warps_that_do_not_agree() {
    let body = factors(&format!("{READY}\n{PRODUCT}\n{DONE}"));
    let three = Case { block: [96, 1, 1], words: 384, ..four_warps(&body) };
    refused(&three, Code::LaunchFailed, &[]);
    let skipped = format!("{READY} setp.lt.u32 %p2, %r0, 96;\n@%p2 {PRODUCT}\n{DONE} // here");
    let skipped = factors(&format!("{skipped}\nret; // here"));
    refused(&four_warps(&skipped), Code::LaunchFailed, &["did not all execute the same wgmma"]);
    let apart = format!("{READY} cvt.u64.u32 %d3, %r0; add.u64 %d6, %d6, %d3;\n{PRODUCT}");
    fails(&apart, "differs among the lanes");
}
