//! Memory: spaces, widths, addresses, variables and atomics.

mod harness;

use harness::{Case, case, check, outputs, words};

#[test]
fn elements_of_all_widths_are_extended() {
    let input: Vec<u8> = (0..64).map(|i| 0x70 + i).collect();
    let of = |from: usize, len: usize| {
        input[from..from + len].iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte))
    };
    for (ty, bytes) in
        [("u8", 1), ("s8", 1), ("b8", 1), ("u16", 2), ("s16", 2), ("u32", 4), ("s32", 4), ("b64", 8)]
    {
        for offset in [0, 16, 24, 40] {
            let body = format!(
                "ld.global.{ty} %d3, [%d1+{offset}];
                mov.b64 {{%r4, %r5}}, %d3; setp.eq.u32 %p0, %r0, 0; selp.b32 %r6, %r4, %r5, %p0; st.global.u32 [%d2], %r6;"
            );
            let signed = ty.starts_with('s');
            let value = of(offset, bytes);
            let value =
                if signed { ((value << (64 - 8 * bytes)) as i64 >> (64 - 8 * bytes)) as u64 } else { value };
            let case = Case { block: [2, 1, 1], words: 2, input: input.clone(), ..case(&body) };
            check(&case, |i| (value >> (32 * i)) as u32);
        }
    }
}

#[test]
fn vectors_pass_through_every_space() {
    for space in ["global", "shared", "local"] {
        for (ty, registers, others) in [
            ("v2.u8", "{%r4, %r5}", "{%r8, %r9}"),
            ("v4.u8", "{%r4, %r5, %r6, %r7}", "{%r8, %r9, %r10, %r11}"),
            ("v2.u16", "{%r4, %r5}", "{%r8, %r9}"),
            ("v4.u16", "{%r4, %r5, %r6, %r7}", "{%r8, %r9, %r10, %r11}"),
            ("v2.u32", "{%r4, %r5}", "{%r8, %r9}"),
            ("v4.u32", "{%r4, %r5, %r6, %r7}", "{%r8, %r9, %r10, %r11}"),
        ] {
            let base = match space {
                "global" => "mov.u64 %d4, g; add.u64 %d4, %d4, %d3;",
                "shared" => "mov.u64 %d4, s; add.u64 %d4, %d4, %d3;",
                _ => "mov.u64 %d4, x; add.u64 %d4, %d4, 16;",
            };
            let body = format!(
                ".local .align 16 .b8 x[64];
                mul.wide.u32 %d3, %r0, 16; {base}
                add.u32 %r4, %r0, 1; add.u32 %r5, %r0, 2; add.u32 %r6, %r0, 3; add.u32 %r7, %r0, 4;
                mov.b32 %r10, 0; mov.b32 %r11, 0;
                st.{space}.{ty} [%d4], {registers}; ld.{space}.{ty} {others}, [%d4];
                cvta.{space}.u64 %d5, %d4; ld.{ty} {others}, [%d5];
                mad.lo.u32 %r12, %r9, 100, %r8; mad.lo.u32 %r12, %r10, 10000, %r12;
                mad.lo.u32 %r12, %r11, 1000000, %r12; st.global.u32 [%d2], %r12;"
            );
            let module = ".global .align 16 .b8 g[512]; .shared .align 16 .b8 s[512];";
            let four = ty.starts_with("v4");
            check(&Case { module, ..case(&body) }, |i| {
                let pair = i + 1 + 100 * (i + 2);
                if four { pair + 10_000 * (i + 3) + 1_000_000 * (i + 4) } else { pair }
            });
        }
    }
}

#[test]
fn generic_addresses_know_their_space() {
    let body = "
        .local .b32 x; mov.u64 %d3, x; cvta.local.u64 %d3, %d3; mov.u64 %d4, s; cvta.shared.u64 %d4, %d4;
        mov.u64 %d5, c; cvta.const.u64 %d5, %d5;
        mov.b32 %r4, 0;
        isspacep.local %p0, %d3; @%p0 or.b32 %r4, %r4, 1;
        isspacep.shared %p0, %d3; @%p0 or.b32 %r4, %r4, 2;
        isspacep.shared %p0, %d4; @%p0 or.b32 %r4, %r4, 4;
        isspacep.global %p0, %d4; @%p0 or.b32 %r4, %r4, 8;
        isspacep.global %p0, %d0; @%p0 or.b32 %r4, %r4, 16;
        isspacep.shared %p0, %d0; @%p0 or.b32 %r4, %r4, 32;
        isspacep.const %p0, %d5; @%p0 or.b32 %r4, %r4, 64;
        isspacep.const %p0, %d0; @%p0 or.b32 %r4, %r4, 128;
        isspacep.global %p0, %d5; @%p0 or.b32 %r4, %r4, 256;
        cvta.to.shared.u64 %d6, %d4; mov.u64 %d7, s; setp.eq.u64 %p0, %d6, %d7; @%p0 or.b32 %r4, %r4, 512;
        cvta.to.global.u64 %d6, %d0; setp.eq.u64 %p0, %d6, %d0; @%p0 or.b32 %r4, %r4, 1024;
        st.global.u32 [%d2], %r4;";
    let module = ".shared .b32 s; .const .b32 c = 5;";
    check(&Case { module, ..case(body) }, |_| 1 | 4 | 16 | 64 | 512 | 1024);
}

#[test]
fn variables_have_their_initial_values() {
    let module = "
        .const .align 4 .u32 table[8] = {1, 0x20, -3};
        .global .f32 reals[2] = {1.5, 0f40000000};
        .global .align 8 .u64 links[2] = {table+4, reals};
        .global .v2 .u16 pairs[2][2] = {{1, 2}, {3, 4}, 5};";
    let body = "
        ld.const.u32 %r4, [table+8]; ld.const.u32 %r5, [table+16]; ld.global.u32 %r6, [reals];
        ld.global.u64 %d3, [links]; ld.u32 %r7, [%d3]; ld.global.u64 %d4, [links+8]; ld.global.u32 %r8, [%d4+4];
        ld.global.u16 %h0, [pairs+8]; cvt.u32.u16 %r9, %h0;
        mov.u64 %d5, table; cvt.u64.u32 %d6, 4; add.u64 %d5, %d5, %d6; ld.const.u32 %r10, [%d5];
        xor.b32 %r11, %r4, %r5; xor.b32 %r11, %r11, %r6; xor.b32 %r11, %r11, %r7; xor.b32 %r11, %r11, %r8;
        shl.b32 %r9, %r9, 8; xor.b32 %r11, %r11, %r9; shl.b32 %r10, %r10, 4; xor.b32 %r11, %r11, %r10;
        st.global.u32 [%d2], %r11;";
    let expected = (-3i32 as u32) ^ 1.5f32.to_bits() ^ 0x20 ^ 0x4000_0000 ^ 5 << 8 ^ 0x200;
    check(&Case { module, ..case(body) }, |_| expected);
}

#[test]
fn dynamic_shared_memory_begins_behind_the_static_and_aligned() {
    let module = ".extern .shared .align 16 .b8 more[]; .shared .b8 one; .shared .align 4 .b32 four;";
    let body = "
        .shared .align 8 .b8 own[3];
        mov.u32 %r4, one; mov.u32 %r5, four; mov.u32 %r6, own; mov.u32 %r7, more;
        sub.u32 %r5, %r5, %r4; sub.u32 %r6, %r6, %r4; sub.u32 %r7, %r7, %r4;
        mad.lo.u32 %r8, %r6, 100, %r5; mad.lo.u32 %r8, %r7, 10000, %r8;
        st.shared.u8 [more+47], %r0; st.global.u32 [%d2], %r8;";
    check(&Case { module, shared_bytes: 48, ..case(body) }, |_| 4 + 800 + 160_000);
}

/// What an operation makes of two words.
type Operation = (&'static str, fn(u32, u32) -> u32);

#[test]
fn atomics_do_what_their_names_say() {
    let operations: [Operation; 12] = [
        ("add.u32", |a, b| a.wrapping_add(b)),
        ("add.s32", |a, b| a.wrapping_add(b)),
        ("min.u32", |a, b| a.min(b)),
        ("max.u32", |a, b| a.max(b)),
        ("min.s32", |a, b| (a as i32).min(b as i32) as u32),
        ("max.s32", |a, b| (a as i32).max(b as i32) as u32),
        ("and.b32", |a, b| a & b),
        ("or.b32", |a, b| a | b),
        ("xor.b32", |a, b| a ^ b),
        ("exch.b32", |_, b| b),
        ("inc.u32", |a, b| if a >= b { 0 } else { a + 1 }),
        ("dec.u32", |a, b| if a == 0 || a > b { b } else { a - 1 }),
    ];
    for (name, expected) in operations {
        for space in ["global", "shared"] {
            for (a, b) in
                [(5, 3), (3, 5), (0, 7), (0x8000_0000, 7), (7, 0xffff_fff0), (0x3f80_0000, 0x4049_0fdb)]
            {
                let place = if space == "global" { "%d2" } else { "%d3" };
                let body = format!(
                    "mul.wide.u32 %d3, %r0, 4; mov.u64 %d4, s; add.u64 %d3, %d3, %d4; mov.b32 %r4, {b:#x};
                    mov.b32 %r5, {a:#x}; st.{space}.u32 [{place}], %r5;
                    atom.{space}.{name} %r6, [{place}], %r4; mov.b32 %r7, %r6;
                    ld.{space}.u32 %r8, [{place}]; setp.eq.u32 %p0, %r7, %r5; selp.b32 %r8, %r8, 0x0bad, %p0;
                    st.global.u32 [%d2], %r8;"
                );
                check(&Case { module: ".shared .b32 s[32];", ..case(&body) }, |_| expected(a, b));
            }
        }
    }
}

#[test]
fn atomic_sums_flush_subnormal_numbers_in_global_memory_alone() {
    for (space, place, flushes) in [("global", "%d2", true), ("shared", "%d3", false)] {
        for (a, b) in [(1.5f32, 2.25), (f32::from_bits(5), f32::from_bits(3)), (1e-38, -0.9e-38)] {
            let body = format!(
                "mul.wide.u32 %d3, %r0, 4; mov.u64 %d4, s; add.u64 %d3, %d3, %d4; mov.b32 %f4, {:#x};
                st.{space}.u32 [{place}], {:#x}; red.{space}.add.f32 [{place}], %f4;
                ld.{space}.u32 %r8, [{place}]; st.global.u32 [%d2], %r8;",
                b.to_bits(),
                a.to_bits()
            );
            let flush = |x: f32| if flushes && x.is_subnormal() { 0.0f32.copysign(x) } else { x };
            let sum = flush(flush(a) + flush(b)).to_bits();
            check(&Case { module: ".shared .b32 s[32];", ..case(&body) }, |_| sum);
        }
    }
}

#[test]
fn contended_atomics_give_each_value_once() {
    for place in ["global.add.u32 %r4, [%d1]", "shared.inc.u32 %r4, [s]", "add.u32 %r4, [%d3]"] {
        let operand = if place.contains("inc") { "0xffffffff" } else { "1" };
        let body = format!(
            "cvta.shared.u64 %d3, %d4; st.shared.u32 [s], 0; bar.sync 0; atom.{place}, {operand};
            st.global.u32 [%d2], %r4;"
        );
        let body = format!("mov.u64 %d4, s; {body}");
        let case = Case {
            module: ".shared .b32 s;",
            block: [128, 1, 1],
            words: 128,
            input: words([0]),
            ..case(&body)
        };
        for (schedule, mut found) in outputs(&case) {
            found.sort_unstable();
            assert!(found.into_iter().eq(0..128), "{schedule:?}: {place}");
        }
    }
}

#[test]
fn wide_and_narrow_atomics() {
    let body = "
        atom.global.add.u64 %d3, [%d1], 0x100000001; atom.global.max.s64 %d4, [%d1+8], -5;
        atom.global.cas.b64 %d5, [%d1+16], 7, 9; atom.global.add.f64 %e0, [%d1+24], 0d3FF0000000000000;
        mov.b16 %h0, 0; mov.b16 %h1, 3; atom.global.cas.b16 %h2, [%d1+34], %h0, %h1;
        red.global.or.b64 [%d1+40], 0x100000000; bar.warp.sync -1;
        ld.global.u32 %r4, [%d1+4]; ld.global.u32 %r5, [%d1+8]; ld.global.u32 %r6, [%d1+16];
        ld.global.u32 %r7, [%d1+28]; ld.global.u32 %r8, [%d1+32]; ld.global.u32 %r9, [%d1+44];
        xor.b32 %r4, %r4, %r5; xor.b32 %r4, %r4, %r6; xor.b32 %r4, %r4, %r7; xor.b32 %r4, %r4, %r8;
        xor.b32 %r4, %r4, %r9; st.global.u32 [%d2], %r4;";
    let input = words([0xffff_ffff, 0, -9i32 as u32, u32::MAX, 7, 0, 0, 0, 0, 0, 0, 0]);
    let sum = (32f64.to_bits() >> 32) as u32;
    check(&Case { input, ..case(body) }, |_| 33 ^ (-5i32 as u32) ^ 9 ^ sum ^ 3 << 16 ^ 1);
}

#[test]
fn addresses_with_an_offset() {
    let module = ".shared .align 8 .b32 s[64]; .global .b32 g[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        .const .b32 c[2] = {50, 60}; .global .u64 p[3] = {g+8, generic(c)+4, generic(g)};";
    let body = "
        mov.u32 %r4, s+128; mul.lo.u32 %r5, %r0, 4; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4+-128], %r0;
        ld.shared.u32 %r6, [%r4+-128]; mov.u64 %d3, g+12; ld.global.u32 %r7, [%d3+-4];
        ld.global.u64 %d4, [p]; ld.u32 %r8, [%d4+4]; ld.global.u64 %d4, [p+8]; ld.u32 %r9, [%d4];
        ld.global.u64 %d4, [p+16]; ld.u32 %r10, [%d4+28];
        mad.lo.u32 %r6, %r6, 10, %r7; mad.lo.u32 %r6, %r6, 10, %r8; mad.lo.u32 %r6, %r6, 100, %r9;
        mad.lo.u32 %r6, %r6, 10, %r10; mad.lo.u32 %r6, %r6, WARP_SZ, 1; st.global.u32 [%d2], %r6;";
    check(&Case { module, ..case(body) }, |i| ((((i * 10 + 2) * 10 + 3) * 100 + 60) * 10 + 7) * 32 + 1);
}
