//! Kernels that must run, with the same bytes under every schedule: control flow, memory and arithmetic on registers.

mod harness;

use harness::{Case, case, check, words};

#[test]
fn lanes_diverge_and_reconverge() {
    let body = "
        and.b32 %r4, %r0, 1; setp.eq.u32 %p0, %r4, 0;
        @%p0 bra $even;
        mul.lo.u32 %r5, %r0, 3; bra.uni $join;
    $even:
        add.u32 %r5, %r0, 1000;
    $join:
        st.global.u32 [%d2], %r5;
        ret;";
    check(
        &Case { block: [100, 1, 1], words: 100, ..case(body) },
        |i| {
            if i % 2 == 0 { i + 1000 } else { 3 * i }
        },
    );
}

#[test]
fn each_lane_leaves_a_loop_when_it_is_done() {
    let body = "
        mov.b32 %r4, 0; mov.b32 %r5, 0;
    $outer:
        mov.b32 %r6, 0;
    $inner:
        add.u32 %r5, %r5, %r6;
        add.u32 %r6, %r6, 1;
        setp.le.u32 %p0, %r6, %r4;
        @%p0 bra $inner;
        add.u32 %r4, %r4, 1;
        setp.gt.u32 %p1, %r4, %r0;
        @!%p1 bra $outer;
        st.global.u32 [%d2], %r5;";
    check(&Case { grid: 3, block: [33, 1, 1], words: 99, ..case(body) }, |i| {
        let end = i % 33;
        (0..=end).map(|a| a * (a + 1) / 2).sum()
    });
}

#[test]
fn lanes_exit_in_turn() {
    let body = "
        mov.b32 %r4, 0;
    $loop:
        setp.eq.u32 %p0, %r4, %r0;
        st.global.u32 [%d2], %r4;
        @%p0 exit;
        add.u32 %r4, %r4, 1;
        bra $loop;";
    check(&case(body), |i| i);
}

#[test]
fn a_guard_masks_any_instruction() {
    let body = "
        setp.lt.u32 %p0, %r0, 10;
        setp.ge.and.u32 %p1, %r0, 5, %p0;
        mov.b32 %r4, 1;
        @%p0 add.u32 %r4, %r4, 10;
        @!%p0 shl.b32 %r4, %r4, 8;
        @%p1 mov.b32 %r4, 77;
        @!%p1 st.global.u32 [%d2], %r4;
        @%p1 st.global.u32 [%d2], 5;";
    check(&case(body), |i| match i {
        0..5 => 11,
        5..10 => 5,
        _ => 256,
    });
}

#[test]
fn registers_share_rows_only_while_they_may() {
    // Many values that live across a loop, some written under a guard, some in one path alone.
    let body = "
        mov.b32 %r10, 1; mov.b32 %r11, 2; mov.b32 %r12, 3; mov.b32 %r20, 0;
        setp.gt.u32 %p0, %r0, 15;
    $loop:
        add.u32 %r13, %r10, %r11;
        @%p0 add.u32 %r13, %r13, 100;
        add.u32 %r14, %r13, %r12;
        mov.b32 %r10, %r11; mov.b32 %r11, %r12; mov.b32 %r12, %r14;
        @!%p0 bra $other;
        add.u32 %r15, %r14, 5;
        xor.b32 %r12, %r12, %r15;
        bra $next;
    $other:
        sub.u32 %r16, %r14, 7;
        xor.b32 %r12, %r12, %r16;
    $next:
        add.u32 %r20, %r20, 1;
        setp.lt.u32 %p1, %r20, 9;
        @%p1 bra $loop;
        add.u32 %r21, %r10, %r11; xor.b32 %r22, %r21, %r12;
        st.global.u32 [%d2], %r22;";
    check(&case(body), |i| {
        let (mut a, mut b, mut c) = (1u32, 2u32, 3u32);
        for _ in 0..9 {
            let sum = a.wrapping_add(b).wrapping_add(if i > 15 { 100 } else { 0 }).wrapping_add(c);
            (a, b, c) = (b, c, sum);
            c ^= if i > 15 { sum.wrapping_add(5) } else { sum.wrapping_sub(7) };
        }
        a.wrapping_add(b) ^ c
    });
}

#[test]
fn code_that_is_never_reached_is_no_obstacle() {
    let body = "
        bra $go;
        add.u32 %r50, %r51, %r52;
    $dead:
        st.global.u32 [%d2], %r53;
        bra $dead;
    $go:
        st.global.u32 [%d2], %r0;
        ret;
        mov.b32 %r54, %r55;";
    check(&case(body), |i| i);
}

#[test]
fn inner_blocks_have_registers_of_their_own() {
    let body = "
        .reg .b32 %x; mov.b32 %x, %r0;
        {
            .reg .b32 %x, %y;
            mov.b32 %x, 1000;
            { .reg .b64 %x; cvt.u64.u32 %x, %r0; cvt.u32.u64 %y, %x; }
            add.u32 %r4, %x, %y;
        }
        { .reg .pred %x; setp.eq.u32 %x, %r0, 3; @%x mov.b32 %r4, 9; }
        add.u32 %r4, %r4, %x;
        st.global.u32 [%d2], %r4;";
    check(&case(body), |i| if i == 3 { 12 } else { 1000 + 2 * i });
}

#[test]
fn a_lane_waits_for_a_lane_of_its_own_warp() {
    // A lock: each lane takes it while the others spin.
    let body = "
        ld.global.u32 %r4, [%d1+4];
    $try:
        atom.global.cas.b32 %r5, [%d1], 0, 1;
        setp.ne.u32 %p0, %r5, 0;
        @%p0 bra $try;
        membar.gl;
        ld.volatile.global.u32 %r6, [%d1+4];
        add.u32 %r6, %r6, 1;
        st.volatile.global.u32 [%d1+4], %r6;
        membar.gl;
        atom.global.exch.b32 %r7, [%d1], 0;
    $wait:
        ld.volatile.global.u32 %r6, [%d1+4];
        setp.lt.u32 %p1, %r6, 128;
        @%p1 bra $wait;
        st.global.u32 [%d2], %r6;";
    let case = Case { grid: 2, block: [64, 1, 1], words: 128, input: words([0, 0]), ..case(body) };
    check(&case, |_| 128);
}

#[test]
fn blocks_wait_for_each_other() {
    // A grid barrier, twice.
    let body = "
        bar.sync 0;
        setp.ne.u32 %p0, %r0, 0;
        mov.b32 %r8, 0;
    $again:
        add.u32 %r8, %r8, 40;
        @%p0 bra $joined;
        membar.gl;
        atom.global.add.u32 %r4, [%d1], 1;
    $spin:
        ld.volatile.global.u32 %r5, [%d1];
        setp.lt.u32 %p1, %r5, %r8;
        @%p1 bra $spin;
        membar.gl;
    $joined:
        bar.sync 0;
        setp.lt.u32 %p2, %r8, 80;
        @%p2 bra $again;
        st.global.u32 [%d2], %r8;";
    check(&Case { grid: 40, block: [64, 1, 1], words: 40 * 64, input: words([0]), ..case(body) }, |_| 80);
}

#[test]
fn more_blocks_than_the_device_holds_run_in_turn() {
    let body = "st.global.u32 [%d2], %r3;";
    check(&Case { grid: 5000, words: 5000 * 32, ..case(body) }, |i| i);
}

#[test]
fn special_registers() {
    type Expected = fn(u32) -> u32;
    let values: [(&str, Expected); 14] = [
        ("%tid.y", |i| i / 5 % 3),
        ("%tid.z", |i| i / 15 % 4),
        ("%ntid.y", |_| 3),
        ("%ntid.z", |_| 4),
        ("%ctaid.y", |_| 0),
        ("%nctaid.x", |_| 2),
        ("%laneid", |i| i % 60 % 32),
        ("%warpid", |i| i % 60 / 32),
        ("%lanemask_eq", |i| 1 << (i % 60 % 32)),
        ("%lanemask_lt", |i| (1 << (i % 60 % 32)) - 1),
        ("%lanemask_le", |i| u32::MAX >> (31 - i % 60 % 32)),
        ("%lanemask_ge", |i| u32::MAX << (i % 60 % 32)),
        ("%lanemask_gt", |i| ((u64::from(u32::MAX) << 1) << (i % 60 % 32)) as u32),
        ("%dynamic_smem_size", |_| 48),
    ];
    for (name, expected) in values {
        let body = format!(
            "mov.u32 %r4, {name}; mov.u32 %r5, %tid.y; mov.u32 %r6, %tid.z; mad.lo.u32 %r7, %r6, 3, %r5;
             mad.lo.u32 %r7, %r7, 5, %r0; mad.lo.u32 %r7, %r1, 60, %r7; mad.wide.u32 %d2, %r7, 4, %d0;
             st.global.u32 [%d2], %r4;"
        );
        let case = Case { grid: 2, block: [5, 3, 4], words: 120, shared_bytes: 48, ..case(&body) };
        check(&case, expected);
    }
}

#[test]
fn clocks_go_on_and_fit_their_registers() {
    let body = "
        mov.u32 %r4, %clock; mov.u64 %d3, %clock64; mov.u64 %d4, %globaltimer; mov.u64 %d5, %clock64;
        setp.ge.u64 %p0, %d5, %d3;
        cvt.u64.u32 %d6, %r4; shr.u64 %d6, %d6, 32; setp.eq.and.u64 %p0, %d6, 0, %p0;
        selp.u32 %r5, 1, 0, %p0; st.global.u32 [%d2], %r5;";
    check(&case(body), |_| 1);
}

#[test]
fn predicates_are_values() {
    let body = "
        setp.lt.u32 %p0, %r0, 20; setp.lt.u32 %p1, %r0, 10;
        setp.eq.u32 %p2|%p3, %r0, 7;
        and.pred %p4, %p0, %p3; xor.pred %p4, %p4, %p1; not.pred %p5, %p4; or.pred %p6, %p5, %p2;
        mov.pred %p7, %p6; mov.pred %p8, 1; and.pred %p7, %p7, %p8;
        selp.b32 %r4, 5, 6, %p7; st.global.u32 [%d2], %r4;";
    check(&case(body), |i| {
        let p4 = (i < 20 && i != 7) ^ (i < 10);
        if !p4 || i == 7 { 5 } else { 6 }
    });
}

#[test]
fn values_are_packed_and_unpacked() {
    let body = "
        mov.b32 {%h0, %h1}, 0x12345678; mov.b32 %r4, {%h1, %h0};
        cvt.u64.u32 %d3, %r0; mov.b64 {%r5, %r6}, %d3; mov.b64 %d4, {%r4, %r5};
        mov.b64 {%h2, %h3, %h4, %h5}, %d4; mov.b64 %d5, {%h4, %h3, %h2, %h5};
        mov.b32 {%c0, %c1, %c2, %c3}, 0xa1b2c3d4; mov.b32 %r8, {%c3, %c2, %c1, %c0};
        mov.b64 {%r7, _}, %d5; xor.b32 %r7, %r7, %r8; st.global.u32 [%d2], %r7;";
    // %d4 is 0x0000_00ii_5678_1234; its halves 2, 1, 0, 3 are packed.
    check(&case(body), |i| (0x5678 << 16 | i) ^ 0xd4c3_b2a1);
}

#[test]
fn carries_run_through_a_chain() {
    let body = "
        not.b32 %r4, 0; sub.cc.u32 %r5, %r0, 16; subc.u32 %r6, 0, 0;
        add.cc.u32 %r7, %r4, %r0; addc.cc.u32 %r8, %r4, 0; addc.u32 %r9, 0, 0;
        mad.lo.cc.u32 %r10, %r4, %r4, %r0; madc.hi.u32 %r11, %r4, %r4, %r9;
        setp.gt.u32 %p0, %r0, 20; @%p0 add.cc.u32 %r12, %r4, 2; @!%p0 add.cc.u32 %r12, %r0, 0;
        addc.u32 %r13, 0, 0;
        xor.b32 %r14, %r5, %r6; xor.b32 %r14, %r14, %r7; xor.b32 %r14, %r14, %r8; xor.b32 %r14, %r14, %r9;
        xor.b32 %r14, %r14, %r10; xor.b32 %r14, %r14, %r11; shl.b32 %r13, %r13, 30; xor.b32 %r14, %r14, %r13;
        st.global.u32 [%d2], %r14;";
    check(&case(body), |i| {
        let ones = u64::from(u32::MAX);
        let borrow = if i < 16 { u32::MAX } else { 0 };
        let low = ones + u64::from(i);
        let high = ones + (low >> 32);
        let product = ones * ones;
        let sum = u64::from(product as u32) + u64::from(i);
        let top = (product >> 32) + (high >> 32) + (sum >> 32);
        let carry = u32::from(i > 20) << 30;
        i.wrapping_sub(16)
            ^ borrow
            ^ low as u32
            ^ high as u32
            ^ (high >> 32) as u32
            ^ sum as u32
            ^ top as u32
            ^ carry
    });
}

#[test]
fn names_of_blocks_are_their_own() {
    // As inline assembly is written, which a compiler puts into a kernel more than once.
    let part = "{
            .reg .pred %p; .shared .align 4 .b32 s[32]; .reg .b32 %a;
            mov.b32 %a, s; mad.lo.u32 %a, %r0, 4, %a; mov.b32 %r5, 0;
        $again:
            add.u32 %r5, %r5, 1; st.shared.b32 [%a], %r5;
            setp.lt.u32 %p, %r5, %r4; @%p bra $again;
            ld.shared.b32 %a, [%a]; bra $done; mov.b32 %a, 1000;
        $done:
            add.u32 %r6, %r6, %a;
        }";
    let body = format!(
        "mov.b32 %r6, 0; mov.b32 %r4, %r0; {part} mov.b32 %r4, 7; {part}
        {{ bra $out; {{ $out: add.u32 %r6, %r6, 500; }} $out: }} st.global.u32 [%d2], %r6;"
    );
    check(&case(&body), |i| i.max(1) + 7);
}
