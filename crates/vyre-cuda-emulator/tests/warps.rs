//! What the lanes of a warp and the warps of a block do together.

mod harness;

use harness::{Case, case, check, words};

/// The ISA's pseudo-code of `shfl`: the lane that is read, and whether it is in range.
fn shuffled(mode: &str, lane: i32, b: i32, c: i32) -> (i32, bool) {
    let (bval, cval, mask) = (b & 0x1f, c & 0x1f, c >> 8 & 0x1f);
    let max_lane = (lane & mask) | (cval & !mask);
    let min_lane = lane & mask;
    let (j, in_range) = match mode {
        "up" => (lane - bval, lane - bval >= max_lane),
        "down" => (lane + bval, lane + bval <= max_lane),
        "bfly" => (lane ^ bval, lane ^ bval <= max_lane),
        _ => (min_lane | (bval & !mask), min_lane | (bval & !mask) <= max_lane),
    };
    if in_range { (j, true) } else { (lane, false) }
}

#[test]
fn shuffles_are_as_in_the_pseudo_code() {
    for mode in ["up", "down", "bfly", "idx"] {
        for b in [0, 1, 3, 8, 17, 31, 35] {
            for c in [0, 0x1f, 0x1c1f, 0x1c03, 0x1000, 0x181f, 0x070f] {
                let body = format!(
                    "mul.lo.u32 %r4, %r0, 5; shfl.sync.{mode}.b32 %r5|%p0, %r4, {b}, {c}, -1;
                    selp.b32 %r6, 1000, 0, %p0; add.u32 %r5, %r5, %r6; st.global.u32 [%d2], %r5;"
                );
                let expected: Vec<(i32, bool)> = (0..32).map(|lane| shuffled(mode, lane, b, c)).collect();
                check(&case(&body), |i| {
                    let (from, inside) = expected[i as usize];
                    5 * from as u32 + if inside { 1000 } else { 0 }
                });
            }
        }
    }
}

#[test]
fn lanes_vote_match_and_fold() {
    let body = "
        setp.lt.u32 %p0, %r0, 9; setp.lt.u32 %p1, %r0, 40; shr.u32 %r4, %r0, 3; mov.b32 %r10, 0;
        vote.sync.ballot.b32 %r5, %p0, -1; vote.sync.any.pred %p2, %p0, -1; vote.sync.all.pred %p3, %p0, -1;
        vote.sync.uni.pred %p4, !%p1, -1; vote.sync.all.pred %p5, %p1, -1;
        match.any.sync.b32 %r6, %r4, -1; match.all.sync.b32 %r7|%p6, %r4, -1; match.all.sync.b32 %r8|%p7, %r2, -1;
        redux.sync.add.u32 %r11, %r0, -1; redux.sync.max.s32 %r12, %r4, -1; redux.sync.xor.b32 %r13, %r0, -1;
        @%p2 or.b32 %r10, %r10, 1; @%p3 or.b32 %r10, %r10, 2; @%p4 or.b32 %r10, %r10, 4; @%p5 or.b32 %r10, %r10, 8;
        @%p6 or.b32 %r10, %r10, 16; @%p7 or.b32 %r10, %r10, 32;
        xor.b32 %r10, %r10, %r5; xor.b32 %r10, %r10, %r6; xor.b32 %r10, %r10, %r7; xor.b32 %r10, %r10, %r8;
        xor.b32 %r10, %r10, %r11; xor.b32 %r10, %r10, %r12; xor.b32 %r10, %r10, %r13; st.global.u32 [%d2], %r10;";
    check(&case(body), |i| (1 | 4 | 8 | 32) ^ 0x1ff ^ 0xff << (i / 8 * 8) ^ u32::MAX ^ 496 ^ 3);
}

#[test]
fn lanes_meet_at_instructions_of_one_kind() {
    // By the ISA the mask and the qualifiers must agree, not the place in the text.
    let body = "
        setp.lt.u32 %p0, %r0, 16; @%p0 bra $low;
        bar.warp.sync -1; shfl.sync.bfly.b32 %r4, %r0, 16, 31, -1; vote.sync.ballot.b32 %r5, %p0, -1; bra $end;
    $low:
        bar.warp.sync -1; add.u32 %r6, %r0, 100; shfl.sync.bfly.b32 %r4, %r6, 16, 31, -1;
        vote.sync.ballot.b32 %r5, %p0, -1;
    $end:
        add.u32 %r4, %r4, %r5; st.global.u32 [%d2], %r4;";
    check(&case(body), |i| 0xffff + if i < 16 { i + 16 } else { i - 16 + 100 });
}

#[test]
fn parts_of_a_warp_exchange_by_themselves() {
    let body = "
        and.b32 %r4, %r0, 1; setp.eq.u32 %p0, %r4, 1; selp.b32 %r5, 0xaaaaaaaa, 0x55555555, %p0;
        shfl.sync.down.b32 %r6, %r0, 2, 31, %r5; redux.sync.min.u32 %r7, %r0, %r5;
        mad.lo.u32 %r6, %r7, 100, %r6; st.global.u32 [%d2], %r6;";
    check(&case(body), |i| if i < 30 { i + 2 } else { i } + 100 * (i % 2));
    // Lanes that have exited, or never were, are not waited for.
    let body =
        "setp.lt.u32 %p0, %r0, 4; @%p0 exit; redux.sync.add.u32 %r4, %r0, -1; st.global.u32 [%d2], %r4;";
    check(&Case { block: [20, 1, 1], words: 20, ..case(body) }, |i| if i < 4 { 0 } else { (4..20).sum() });
    let body = "setp.eq.u32 %p0, %r0, 3; @%p0 activemask.b32 %r4; @%p0 st.global.u32 [%d2], %r4;";
    check(&case(body), |i| if i == 3 { 8 } else { 0 });
}

#[test]
fn warps_meet_at_barriers() {
    let body = "
        setp.lt.u32 %p0, %r0, 50; setp.lt.u32 %p5, %r0, 96; add.u32 %r9, %r1, 3;
        bar.red.popc.u32 %r4, 0, %p0; bar.red.and.pred %p1, 1, %p5; barrier.red.or.aligned.pred %p2, %r9, 96, !%p5;
        selp.b32 %r5, 1000, 0, %p1; add.u32 %r4, %r4, %r5; selp.b32 %r5, 10000, 0, %p2; add.u32 %r4, %r4, %r5;
        st.global.u32 [%d2], %r4;";
    let body = body.replace("barrier.red.or.aligned.pred", "barrier.red.or.pred");
    check(&Case { grid: 2, block: [96, 1, 1], words: 192, ..case(&body) }, |_| 1050);
    let body = "
        mov.u32 %r4, s; setp.lt.u32 %p0, %r0, 32; @%p0 bra $producer;
        bar.sync 1, 64; ld.shared.u32 %r5, [%r4]; st.global.u32 [%d2], %r5; ret;
    $producer:
        st.volatile.shared.u32 [%r4], 7; bar.arrive 1, 64; st.global.u32 [%d2], 8;";
    let case = Case { module: ".shared .b32 s;", block: [64, 1, 1], words: 64, ..case(body) };
    check(&case, |i| if i < 32 { 8 } else { 7 });
}

#[test]
fn a_warp_multiplies_matrices() {
    // Rows of 16 bytes in shared memory; a is 16 by 16 bytes, b the first eight columns of it.
    let body = "
        mov.u32 %r4, s; mad.lo.u32 %r5, %r0, 16, %r4; mul.wide.u32 %d3, %r0, 16; add.u64 %d3, %d3, %d1;
        setp.lt.u32 %p0, %r0, 16;
        @%p0 cp.async.cg.shared.global [%r5], [%d3], 16;
        cp.async.commit_group; cp.async.wait_group 0; bar.warp.sync -1;
        and.b32 %r6, %r0, 15; mad.lo.u32 %r6, %r6, 16, %r4;
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10, %r11}, [%r6];
        and.b32 %r6, %r0, 7; mad.lo.u32 %r6, %r6, 16, %r4;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r12}, [%r6];
        mov.b32 %r13, 1;
        mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r20, %r21, %r22, %r23}, {%r10, %r11}, {%r12},
            {%r13, %r13, %r13, %r13};
        mul.wide.u32 %d4, %r0, 8; add.u64 %d4, %d4, %d0;
        st.global.v2.u32 [%d4], {%r20, %r21}; st.global.v2.u32 [%d4+256], {%r22, %r23};";
    let bytes: Vec<u8> = (0..256u32).map(|i| (i * 37 + 11) as u8).collect();
    let input = words(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)));
    let case = Case { module: ".shared .align 16 .b8 s[256];", words: 128, input, ..case(body) };
    check(&case, |i| {
        let (row, column) = (i as usize / 8, i as usize % 8);
        let of = |row: usize, depth: usize| i32::from(bytes[16 * row + depth] as i8);
        (0..16).map(|depth| of(row, depth) * of(column, depth)).sum::<i32>() as u32 + 1
    });
}
