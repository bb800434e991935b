//! Which forms of the warp matrix instructions and of `cp.async` are legal, for which targets, and what the errors say.
//!
//! One table. Where `ptxas` is on the PATH, it must agree on every line that does not say otherwise.

use std::process::Command;
use vyre_cuda_emulator::alu::Target;
use vyre_cuda_emulator::tensor::{
    CopyGroups, CpAsync, Ldmatrix, Mma, Stmatrix, Wgmma, WgmmaGroups, groups_under_way,
};

/// What is right for a line.
enum Verdict {
    Legal,
    /// Not legal; the error has these words.
    Error(&'static str),
    /// Legal for `ptxas`; the error has these words.
    OnlyHere(&'static str),
}

use Verdict::{Error, Legal, OnlyHere};

/// `.version` and `.target`, the instruction, and the verdict.
type Line = (&'static str, &'static str, Verdict);

const LDMATRIX: [Line; 24] = [
    ("6.5 sm_75", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];", Legal),
    ("8.0 sm_90a", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r2,%r3}, [%r1];", Legal),
    ("8.0 sm_90a", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r2,%r3,%r4,%r5}, [%r1];", Legal),
    ("8.0 sm_90a", "ldmatrix.sync.aligned.m8n8.x4.shared.trans.b16 {%r2,%r3,%r4,%r5}, [%r1];", Legal),
    ("8.0 sm_90a", "ldmatrix.sync.aligned.m8n8.x1.b16 {%r2}, [%d1];", Legal),
    ("7.8 sm_80", "ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {%r2}, [%r1];", Legal),
    (
        "7.7 sm_80",
        "ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {%r2}, [%r1];",
        Error("'::cta' requires PTX ISA .version 7.8"),
    ),
    (
        "6.4 sm_75",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];",
        Error("'ldmatrix' requires PTX ISA .version 6.5"),
    ),
    (
        "6.5 sm_70",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];",
        Error("'ldmatrix' requires .target sm_75"),
    ),
    (
        "8.0 sm_90a",
        "ldmatrix.sync.aligned.m8n8.x8.shared.b16 {%r2}, [%r1];",
        OnlyHere(".num modifier required"),
    ),
    ("8.0 sm_90a", "ldmatrix.sync.aligned.m8n8.shared.b16 {%r2}, [%r1];", Error(".num modifier required")),
    (
        "8.0 sm_90a",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%r2}, [%r1];",
        Error("Incorrect instruction type"),
    ),
    ("8.0 sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared {%r2}, [%r1];", Error("Incorrect instruction type")),
    ("8.0 sm_90a", "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r2}, [%r1];", Error("Modifier '.global'")),
    (
        "8.0 sm_90a",
        "ldmatrix.sync.aligned.m8n8.x1.shared::cluster.b16 {%r2}, [%r1];",
        Error("Modifier '.shared::cluster'"),
    ),
    ("8.0 sm_90a", "ldmatrix.sync.m8n8.x1.shared.b16 {%r2}, [%r1];", Error(".aligned modifier required")),
    ("8.0 sm_90a", "ldmatrix.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];", Error(".sync modifier required")),
    ("7.8 sm_90", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};", Legal),
    ("8.0 sm_90a", "stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%r1], {%r2,%r3,%r4,%r5};", Legal),
    ("8.0 sm_90a", "stmatrix.sync.aligned.m8n8.x1.b16 [%d1], {%r2};", Legal),
    (
        "8.0 sm_80",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};",
        Error("'stmatrix' requires .target sm_90"),
    ),
    (
        "7.7 sm_90",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};",
        Error("'stmatrix' requires PTX ISA .version 7.8"),
    ),
    ("8.0 sm_90a", "stmatrix.sync.aligned.m8n8.x3.shared.b16 [%r1], {%r2};", Error(".num modifier required")),
    (
        "8.0 sm_90a",
        "stmatrix.sync.aligned.m8n8.x1.shared.b8 [%r1], {%r2};",
        Error("Incorrect instruction type"),
    ),
];

const MMA: [Line; 29] = [
    (
        "6.5 sm_75",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Legal,
    ),
    (
        "6.5 sm_75",
        "mma.sync.aligned.m8n8k32.row.col.s32.u4.s4.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Legal,
    ),
    (
        "7.0 sm_80",
        "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%r2,%r3,%r4,%r5}, {%r6,%r7}, {%r8}, {%r2,%r3,%r4,%r5};",
        Legal,
    ),
    (
        "7.0 sm_80",
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%r2,%r3,%r4,%r5}, {%r6,%r7,%r8,%r9}, {%r8,%r9}, {%r2,%r3,%r4,%r5};",
        Legal,
    ),
    (
        "7.0 sm_80",
        "mma.sync.aligned.m16n8k32.row.col.s32.u4.u4.s32 {%r2,%r3,%r4,%r5}, {%r6,%r7}, {%r8}, {%r2,%r3,%r4,%r5};",
        Legal,
    ),
    (
        "7.0 sm_80",
        "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r2,%r3,%r4,%r5}, {%r6,%r7,%r8,%r9}, {%r8,%r9}, {%r2,%r3,%r4,%r5};",
        Legal,
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Legal,
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32.satfinite {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Legal,
    ),
    (
        "8.6 sm_100",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Legal,
    ),
    (
        "6.4 sm_75",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error("'.m8n8k16' requires PTX ISA .version 6.5"),
    ),
    (
        "6.5 sm_70",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error("'.m8n8k16' requires .target sm_75"),
    ),
    (
        "7.0 sm_75",
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r2,%r3,%r4,%r5}, {%r6,%r7}, {%r8}, {%r2,%r3,%r4,%r5};",
        Error("'.m16n8k16' requires .target sm_80"),
    ),
    (
        "6.5 sm_75",
        "mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32 {%r2,%r3,%r4,%r5}, {%r6,%r7}, {%r8}, {%r2,%r3,%r4,%r5};",
        Error("'.m16n8k32' requires PTX ISA .version 7.0"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m8n8k16.row.row.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error("Illegal blayout '.row'"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m8n8k16.col.col.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error("Illegal alayout '.col'"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m8n8k16.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error("'.alayout.blayout' modifier required"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.row.col.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error("Shape modifier required"),
    ),
    (
        "8.0 sm_90a",
        "mma.m8n8k16.row.col.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error(".sync modifier required"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.m8n8k16.row.col.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error(".aligned modifier required"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s4.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error("Unexpected instruction types"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error("Unexpected instruction types"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m8n8k16.row.col.u32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error("Modifier '.u32'"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 {%r2,%r3,%r4,%r5}, {%r6,%r7,%r8,%r9}, {%r8,%r9}, {%r2,%r3,%r4,%r5};",
        Error("Incorrect instruction type specified for mma with shape '.m16n8k64'"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m16n16k16.row.col.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        Error("Illegal matrix shape '.m16n16k16'"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2,%f3,%f4,%f5}, {%r6,%r7,%r8,%r9}, {%r8,%r9}, {%f2,%f3,%f4,%f5};",
        OnlyHere("does not define the order and the rounding"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f2,%f3,%f4,%f5}, {%r6,%r7,%r8,%r9}, {%r8,%r9}, {%f2,%f3,%f4,%f5};",
        OnlyHere("does not define the order and the rounding"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%g2,%g3}, {%g4}, {%g5}, {%g2,%g3};",
        OnlyHere("does not define the order and the rounding"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        OnlyHere("Modifier '.b1' of instruction 'mma' is unknown, repeated or not emulated"),
    ),
    (
        "8.0 sm_90a",
        "mma.sync.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r2,%r3}, {%r4}, {%r5}, {%r2,%r3};",
        OnlyHere("Modifier '.sync'"),
    ),
];

const WGMMA: [Line; 33] = [
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Legal,
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.u8 {%r2,%r3,%r4,%r5}, {%r6,%r7,%r8,%r9}, %d2, %p1;",
        Legal,
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8.satfinite {%r2,%r3,%r4,%r5}, %d2, %d2, 1;",
        Legal,
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, !%p1;",
        Legal,
    ),
    (
        "8.4 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Legal,
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("'WGMMA with mixed integer types' requires PTX ISA .version 8.4"),
    ),
    (
        "8.0 sm_90",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("'wgmma.mma_async with integer types' not supported on .target 'sm_90'"),
    ),
    (
        "8.6 sm_100a",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("not supported on .target 'sm_100a'"),
    ),
    (
        "7.8 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("requires PTX ISA .version 8.0"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("Illegal matrix shape '.m64n40k32'"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n12k32.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("Illegal matrix shape '.m64n12k32'"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k16.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("Illegal matrix shape '.m64n8k16'"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n272k32.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("Illegal matrix shape '.m64n272k32'"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s4 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("Modifier '.s4'"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("Unexpected instruction types"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error("Shape modifier required"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.aligned.m64n8k32.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        Error(".sync modifier required"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.m64n8k32.s32.s8.s8 {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        OnlyHere(".aligned modifier required"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f2,%f3,%f4,%f5}, %d2, %d2, %p1, 1, 1, 0, 0;",
        OnlyHere("does not define the order and the rounding"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r2,%r3,%r4,%r5}, %d2, %d2, %p1;",
        OnlyHere("Modifier '.b1'"),
    ),
    ("8.0 sm_90a", "wgmma.fence.sync.aligned;", Legal),
    ("8.0 sm_90a", "wgmma.commit_group.sync.aligned;", Legal),
    ("8.0 sm_90a", "wgmma.wait_group.sync.aligned 0;", Legal),
    ("8.0 sm_90a", "wgmma.fence.sync;", OnlyHere(".aligned modifier required for instruction 'wgmma.fence'")),
    ("8.0 sm_90a", "wgmma.fence;", Error(".sync modifier required for instruction 'wgmma.fence'")),
    (
        "8.0 sm_90a",
        "wgmma.commit_group;",
        Error(".sync modifier required for instruction 'wgmma.commit_group'"),
    ),
    (
        "8.0 sm_90a",
        "wgmma.wait_group 0;",
        Error(".sync modifier required for instruction 'wgmma.wait_group'"),
    ),
    ("8.0 sm_90a", "wgmma.sync.aligned;", Error("Not a name of any known instruction: 'wgmma'")),
    ("8.0 sm_90", "wgmma.fence.sync.aligned;", Error("'wgmma.fence' not supported on .target 'sm_90'")),
    ("8.6 sm_100a", "wgmma.fence.sync.aligned;", Error("'wgmma.fence' not supported on .target 'sm_100a'")),
    (
        "8.0 sm_90",
        "wgmma.commit_group.sync.aligned;",
        Error("'wgmma.commit_group' not supported on .target 'sm_90'"),
    ),
    ("7.8 sm_90a", "wgmma.wait_group.sync.aligned 0;", Error("requires PTX ISA .version 8.0")),
    ("8.0 sm_90a", "wgmma.wait_group.sync.aligned -1;", Error("expected to be non-negative integer")),
];

const CP_ASYNC: [Line; 43] = [
    ("7.0 sm_80", "cp.async.ca.shared.global [%r1], [%d1], 4;", Legal),
    ("7.0 sm_80", "cp.async.ca.shared.global [%r1], [%d1], 8;", Legal),
    ("7.0 sm_80", "cp.async.ca.shared.global [%r1], [%d1], 16;", Legal),
    ("7.0 sm_80", "cp.async.cg.shared.global [%r1], [%d1], 16;", Legal),
    ("7.0 sm_80", "cp.async.cg.shared.global [%r1], [%d1], 16, %r2;", Legal),
    ("7.0 sm_80", "cp.async.cg.shared.global [%r1], [%d1], 16, 0;", Legal),
    ("7.0 sm_80", "cp.async.ca.shared.global [%r1], [%d1], 8, 8;", Legal),
    ("7.5 sm_80", "cp.async.cg.shared.global [%r1], [%d1], 16, %p1;", Legal),
    ("7.4 sm_80", "cp.async.ca.shared.global.L2::64B [%r1], [%d1], 4;", Legal),
    ("7.4 sm_80", "cp.async.ca.shared.global.L2::128B [%r1], [%d1], 4;", Legal),
    ("7.4 sm_80", "cp.async.ca.L2::256B.shared.global [%r1], [%d1], 4;", Legal),
    ("7.4 sm_80", "cp.async.ca.shared.global.L2::cache_hint.L2::128B [%r1], [%d1], 4, %d2;", Legal),
    ("7.8 sm_80", "cp.async.ca.shared::cta.global [%r1], [%d1], 4;", Legal),
    (
        "7.7 sm_80",
        "cp.async.ca.shared::cta.global [%r1], [%d1], 4;",
        OnlyHere("'::cta' requires PTX ISA .version 7.8"),
    ),
    ("7.0 sm_75", "cp.async.ca.shared.global [%r1], [%d1], 4;", Error("'cp.async' requires .target sm_80")),
    (
        "6.5 sm_75",
        "cp.async.ca.shared.global [%r1], [%d1], 4;",
        Error("'cp.async' requires PTX ISA .version 7.0"),
    ),
    (
        "7.3 sm_80",
        "cp.async.ca.shared.global.L2::128B [%r1], [%d1], 4;",
        Error("'cache prefetching' requires PTX ISA .version 7.4"),
    ),
    (
        "7.4 sm_80",
        "cp.async.ca.shared.global [%r1], [%d1], 4, %p1;",
        Error("'ignore-src on cp.async' requires PTX ISA .version 7.5"),
    ),
    (
        "8.0 sm_90a",
        "cp.async.ca.shared.global [%r1], [%d1], 2;",
        Error("unexpected value '2', expected to be 4 or 8 or 16"),
    ),
    (
        "8.0 sm_90a",
        "cp.async.ca.shared.global [%r1], [%d1], 32;",
        Error("unexpected value '32', expected to be 4 or 8 or 16"),
    ),
    (
        "8.0 sm_90a",
        "cp.async.cg.shared.global [%r1], [%d1], 8;",
        Error("unexpected value '8', expected to be 16"),
    ),
    (
        "8.0 sm_90a",
        "cp.async.cg.shared.global [%r1], [%d1], 16, 17;",
        Error("value '17' out of range, expected to be in range [0..16]"),
    ),
    (
        "8.0 sm_90a",
        "cp.async.ca.shared.global [%r1], [%d1], 4, -1;",
        Error("value '-1' out of range, expected to be in range [0..4]"),
    ),
    ("8.0 sm_90a", "cp.async.shared.global [%r1], [%d1], 4;", Error("Exactly one of '.ca' and '.cg'")),
    ("8.0 sm_90a", "cp.async.ca.cg.shared.global [%r1], [%d1], 16;", Error("Exactly one of '.ca' and '.cg'")),
    ("8.0 sm_90a", "cp.async.cv.shared.global [%r1], [%d1], 4;", Error("Exactly one of '.ca' and '.cg'")),
    ("8.0 sm_90a", "cp.async.ca [%r1], [%d1], 4;", Error("State space incorrect")),
    ("8.0 sm_90a", "cp.async.ca.shared [%r1], [%d1], 4;", Error("State space incorrect")),
    ("8.0 sm_90a", "cp.async.ca.global.shared [%d1], [%r1], 4;", Error("State space incorrect")),
    ("8.0 sm_90a", "cp.async.ca.shared.shared [%r1], [%r1], 4;", Error("State space incorrect")),
    ("8.0 sm_90a", "cp.async.ca.shared::cluster.global [%r1], [%d1], 4;", Error("State space incorrect")),
    ("8.0 sm_90a", "cp.async.ca.shared.global.L2::32B [%r1], [%d1], 4;", Error("Modifier '.L2::32B'")),
    ("8.0 sm_90a", "cp.async.ca.shared.global.b32 [%r1], [%d1], 4;", Error("Modifier '.b32'")),
    ("7.0 sm_80", "cp.async.commit_group;", Legal),
    ("7.0 sm_80", "cp.async.wait_group 2;", Legal),
    ("7.0 sm_80", "cp.async.wait_all;", Legal),
    ("7.0 sm_75", "cp.async.commit_group;", Error("'cp.async.commit_group' requires .target sm_80")),
    ("7.0 sm_75", "cp.async.wait_group 0;", Error("'cp.async.wait_group' requires .target sm_80")),
    ("7.0 sm_75", "cp.async.wait_all;", Error("'cp.async.wait_all' requires .target sm_80")),
    ("6.5 sm_75", "cp.async.wait_all;", Error("'cp.async.wait_all' requires PTX ISA .version 7.0")),
    ("7.0 sm_80", "cp.async.wait_group -1;", OnlyHere("expected to be non-negative integer")),
    ("7.0 sm_80", "cp.async.commit;", Error("required for instruction 'cp.async'")),
    ("7.0 sm_80", "cp.async.wait_all.sync;", Error("required for instruction 'cp.async'")),
];

fn target(text: &str) -> Target {
    let (version, name) = text.split_once(' ').unwrap();
    let (major, minor) = version.split_once('.').unwrap();
    let sm = name.trim_start_matches("sm_").trim_end_matches('a').parse().unwrap();
    let version = 10 * major.parse::<u32>().unwrap() + minor.parse::<u32>().unwrap();
    Target { version, sm, specific: name.ends_with('a') }
}

/// Decides as an engine would: the form, and then the operands that have a say.
fn decide(instruction: &str, target: Target) -> Result<(), String> {
    let (name, operands) = instruction.trim_end_matches(';').split_once(' ').unwrap_or((instruction, ""));
    let mut words = name.trim_end_matches(';').split('.');
    let opcode = words.next().unwrap();
    let modifiers: Vec<&str> = words.collect();
    let numbers: Vec<i128> = operands.split(", ").filter_map(|operand| operand.parse().ok()).collect();
    match (opcode, modifiers.first()) {
        ("ldmatrix", _) => Ldmatrix::of(&modifiers, target).map(drop),
        ("stmatrix", _) => Stmatrix::of(&modifiers, target).map(drop),
        ("mma", _) => Mma::of(&modifiers, target).map(drop),
        ("wgmma", Some(&"mma_async")) => Wgmma::of(&modifiers, target).map(drop),
        ("wgmma", _) => WgmmaGroups::of(&modifiers, target)
            .and_then(|_| numbers.first().map_or(Ok(0), |groups| groups_under_way(*groups)))
            .map(drop),
        ("cp", _) => decide_cp_async(&modifiers, operands, &numbers, target),
        (other, _) => panic!("{other} is no instruction of these tests"),
    }
}

fn decide_cp_async(
    modifiers: &[&str],
    operands: &str,
    numbers: &[i128],
    target: Target,
) -> Result<(), String> {
    if matches!(modifiers.get(1), Some(&("commit_group" | "wait_group" | "wait_all"))) && modifiers.len() == 2
    {
        CopyGroups::of(modifiers, target)?;
        return numbers.first().map_or(Ok(0), |groups| groups_under_way(*groups)).map(drop);
    }
    let copy = CpAsync::of(modifiers, target)?;
    assert_eq!(copy.has_cache_policy(), modifiers.contains(&"L2::cache_hint"));
    let size = copy.size(numbers[0])?;
    if let Some(read) = numbers.get(1) {
        copy.source_size(size, *read)?;
    }
    if operands.contains("%p") { copy.ignore_source() } else { Ok(()) }
}

fn lines() -> impl Iterator<Item = &'static Line> {
    static LINES: [&[Line]; 4] = [&LDMATRIX, &MMA, &WGMMA, &CP_ASYNC];
    LINES.into_iter().flatten()
}

#[test]
fn forms_are_legal_or_refused_with_their_reason() {
    for (on, instruction, verdict) in lines() {
        let got = decide(instruction, target(on));
        match verdict {
            Legal => assert_eq!(got, Ok(()), "{on}: {instruction}"),
            Error(words) | OnlyHere(words) => {
                let error = got.expect_err(instruction);
                assert!(error.contains(words), "{on}: {instruction}\n{error}");
            }
        }
    }
}

/// Whether `ptxas` compiles a kernel with that instruction; `None` where there is no `ptxas`.
fn ptxas_takes(on: &str, instruction: &str) -> Option<bool> {
    let (version, target) = on.split_once(' ').unwrap();
    let source = format!(
        ".version {version}\n.target {target}\n.address_size 64\n.visible .entry kernel(.param .u64 p)\n{{\n\
         .reg .pred %p<2>; .reg .b32 %r<10>; .reg .b64 %d<3>; .reg .f32 %f<10>; .reg .f64 %g<10>;\n\
         .shared .align 128 .b8 s[4096];\n\
         mov.u32 %r1, s; ld.param.u64 %d1, [p]; cvta.to.global.u64 %d1, %d1; setp.eq.u32 %p1, %r1, 3;\n\
         {instruction}\nret;\n}}\n"
    );
    let file = std::env::temp_dir().join(format!("vyre-tensor-legality-{}.ptx", std::process::id()));
    std::fs::write(&file, source).unwrap();
    // Targets before sm_75 are unknown to today's `ptxas`; the table has only errors for them.
    let ran = Command::new("ptxas").args(["-arch", target, "-o", "/dev/null"]).arg(&file).output();
    std::fs::remove_file(&file).unwrap();
    ran.ok().map(|output| output.status.success())
}

#[test]
fn ptxas_agrees() {
    for (on, instruction, verdict) in lines() {
        let Some(taken) = ptxas_takes(on, instruction) else {
            eprintln!("SKIP ptxas: it is not on the PATH");
            return;
        };
        assert_eq!(taken, matches!(verdict, Legal | OnlyHere(_)), "{on}: {instruction}");
    }
}
