//! What does not compile, and hostile text: an error with its line, and never a panic or a hang.

use vyre_cuda_emulator::engine::Program;
use vyre_cuda_emulator::fault::Code;
use vyre_cuda_emulator::model::Model;

const REGISTERS: &str =
    ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<4>;";

fn module(head: &str, body: &str) -> String {
    format!("{head}\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}\n{body}\n}}\n")
}

const HEAD: &str = ".version 8.4\n.target sm_90a";

fn compile(source: &str, sm: u32) -> Result<(), (Code, String)> {
    let model = Model::of(sm).expect("it is a model");
    match Program::compile(source, &model) {
        Ok(_) => Ok(()),
        Err(fault) => Err((fault.code, fault.message)),
    }
}

/// A body whose seventh line of the text is wrong.
#[track_caller]
fn refused(line: &str, what: &str) {
    let source = module(HEAD, line);
    let (code, message) = compile(&source, 90).expect_err(&source);
    assert_eq!(code, Code::InvalidPtx, "{message}");
    assert!(message.contains("line 7;"), "{line}: {message}");
    assert!(message.to_lowercase().contains(&what.to_lowercase()), "{line}: without `{what}`: {message}");
}

#[test]
fn instructions_that_are_not_known() {
    refused("frobnicate.u32 %r0, %r1;", "frobnicate");
    refused("add.wide.u32 %r0, %r1, %r2;", "wide");
    refused("add.u128 %r0, %r1, %r2;", "u128");
    refused("add.pred %p0, %p1, %p2;", "type");
    refused("add %r0, %r1, %r2;", "type");
    refused("ld.global.u128 %r0, [%d0];", "u128");
    refused("ld.texture.u32 %r0, [%d0];", "texture");
    refused("bar.wait 0;", "wait");
    refused("membar.warp;", "warp");
    refused("shfl.up.b32 %r0, %r1, 1, 0;", ".sync");
    refused("atom.global.add.noftz.u32 %r0, [%d0], 1;", "noftz");
    refused("atom.global.sub.u32 %r0, [%d0], 1;", "sub");
    refused("sin.approx.f32 %f0, %f1;", "sin");
    refused("call foo;", "call");
    refused("mov.u32 %r0, %tid.w;", "%tid.w");
}

#[test]
fn operands_that_do_not_fit() {
    refused("add.u32 %d0, %r1, %r2;", "%d0");
    refused("add.u64 %d0, %r1, %d2;", "%r1");
    refused("add.u32 %r0, %r1;", "operands");
    refused("add.u32 %r0, %r1, %r2, %r3;", "operands");
    refused("add.u32 %r0, %r1, %r99;", "%r99");
    refused("add.u32 %r0, %r1, 0x100000000;", "does not fit");
    refused("@%r0 add.u32 %r0, %r1, 1;", "%r0");
    refused("@%q0 add.u32 %r0, %r1, 1;", "%q0");
    refused("bra $nowhere;", "$nowhere");
    refused("$l: ret; $l: ret;", "$l");
    refused("ld.global.u32 %r0, %d0;", "address");
    refused("ld.global.u32 %r0, [%r1];", "%r1");
    refused("ld.global.v2.u32 {%r0, %r1, %r2}, [%d0];", "registers");
    refused("ld.global.v4.u64 {%d0, %d1, %d2, %d3}, [%d4];", "128 bits");
    refused("ld.global.v2.s8 {%r0, %h1}, [%d0];", "one size");
    refused("ld.param.u64 %d0, [p+8];", "parameters");
    refused("ld.param.u64 %d0, [q];", "q");
    refused("st.param.u64 [p], %d0;", "");
    refused("mov.b32 {%r0, %r1}, %r2;", "");
    refused("cp.async.cg.shared.global [%r0], [%d0], 8;", "16");
    refused("bar.arrive 0;", "operands");
    refused("add.u32 %r0, %tid.x, %r1;", "special register");
    refused("st.global.u32 [%d0], %tid.x;", "%tid.x");
    refused("mov.f32 %f0, %tid.x;", "%tid.x");
    refused("mov.u64 %d0, {%r0, %r1};", "type .b");
    refused("mov.f64 {%r0, %r1}, %d0;", "type .b");
    refused("lop3.b32 %r0, %r1, %r2, %r3, %r4;", "lop3");
    refused("ld.global.u32 %r0, [%d0-4];", "-");
    refused("ld.global.u32 %r0, [128];", "immediate");
    refused("ld.global.u32 _, [%d0];", "register");
    refused("ld.global.v2.u32 {_, _}, [%d0];", "register");
    refused("st.global.b8 [%d0], 0f3f800000;", "8 bits");
    refused("ld.param.u32 %r0, [p+9223372036854775804];", "parameters");
    refused("ld.param.u8 %r0, [p+9223372036854775807];", "parameters");
    refused("{ .reg .b32 %x; } mov.u32 %x, 1;", "%x");
    refused("{ .shared .b32 x; } st.shared.u32 [x], 1;", "x");
    refused("{ $l: } bra $l;", "$l");
    refused("{ $l: ret; $l: ret; }", "$l");
    refused(".reg .b32 %x, %y<18446744073709551615>;", "registers");
    refused(".reg .bf16 %x;", "bf16");
}

/// What `ptxas` refuses where one register type stands for another.
#[test]
fn registers_of_another_type() {
    let halves = ".reg .f16 %k<4>; .reg .f16x2 %m<4>;";
    let ok = |line: &str| {
        let source = module(HEAD, &format!("{halves} {line}"));
        compile(&source, 90).unwrap_or_else(|error| panic!("{line}: {error:?}"));
    };
    for line in [
        "add.u32 %m0, %m1, %r0;",
        "and.b32 %f0, %f1, %r0;",
        "add.f16x2 %r0, %m0, %r1;",
        "add.f16 %h0, %k0, %k1;",
        "cvt.f32.f16 %d0, %r0;",
        "cvt.u8.u32 %d0, %r0;",
    ] {
        ok(line);
    }
    for line in [
        "add.f32 %m0, %m1, %m2;",
        "add.f16x2 %f0, %f1, %f2;",
        "add.bf16 %k0, %k1, %k2;",
        "add.bf16x2 %m0, %m1, %m2;",
        "add.u32 %f0, %r0, %r1;",
        "cvt.rzi.u32.f32 %f0, %f1;",
        "cvt.rn.f32.u32 %r0, %f1;",
        "cvt.rn.bf16.f32 %r0, %f1;",
        "cvt.rzi.u8.bf16 %h0, %h1;",
        "cvt.rn.bf16.s8 %h0, %h1;",
    ] {
        refused(&format!("{halves} {line}"), "Arguments mismatch");
    }
}

#[test]
fn orders_hints_and_barriers() {
    refused("ld.volatile.global.ca.u32 %r0, [%d0];", "weak");
    refused("st.release.gpu.global.cg.u32 [%d0], %r0;", "weak");
    refused("ld.volatile.global.L1::evict_last.u32 %r0, [%d0];", "priority");
    refused("ld.global.cg.L1::no_allocate.u32 %r0, [%d0];", "priority");
    refused("st.shared.L1::evict_last.u32 [%r0], %r0;", "priority");
    refused("ld.shared.L2::128B.u32 %r0, [%r0];", "prefetching");
    refused("st.global.L2::128B.u32 [%d0], %r0;", "L2");
    refused("ld.volatile.local.u32 %r0, [%r1];", "order");
    refused("ld.relaxed.gpu.const.u32 %r0, [%d0];", "order");
    refused("ld.acquire.cta.param.u64 %d0, [p];", "order");
    refused("red.acquire.gpu.global.add.u32 [%d0], 1;", "acquire");
    refused("red.acq_rel.gpu.global.add.u32 [%d0], 1;", "acq_rel");
    refused("bar.sync 16;", "range");
    refused("bar.sync -1;", "range");
    refused("barrier.sync 0, 33;", "multiple");
    refused("bar.arrive 0, 0;", "zero");
    refused("bar.red.popc.u32 %r0, 16, %p0;", "range");
    refused("exit.uni;", "uni");
}

/// What compilers and people write.
#[test]
fn accepted() {
    let head = ".version 8.8\n.target sm_90\n.address_size 64";
    for (before, parameters, body) in [
        ("", ".param .u64 .ptr .align 1 p, .param .u64 .ptr .global .align 16 q, .param .u64 .ptr r", ""),
        (
            ".global .u32 x[4]; .const .f32 c = 1.0; .global .u64 a[3] = {generic(c), x+4, generic(x)+8};",
            "",
            "",
        ),
        (
            ".shared .b32 s[4];",
            ".param .u64 p",
            "mov.u32 %r0, s+4; mov.u64 %d0, s+-4; cvta.shared.u64 %d0, s+8;",
        ),
        ("", "", "mov.u32 %r0, WARP_SZ; add.u32 %r0, %r1, WARP_SZ;"),
        ("", "", "{ $l: @%p0 bra $l; bra $m; } { $l: @%p0 bra $l; } $m:"),
        ("", "", "{ bra $l; { bra $l; $m: } $l: } $m: bra $m;"),
        ("", "", "{ .shared .b32 s; st.shared.u32 [s], 1; } { .shared .b32 s; st.shared.u32 [s], 1; }"),
        ("", "", "ld.volatile.global.L2::128B.u32 %r0, [%d0]; ld.local.u32 %r0, [16]; bar.sync 0, 1024;"),
    ] {
        let source =
            format!("{head}\n{before}\n.visible .entry k({parameters})\n{{ {REGISTERS}\n{body}\nret; }}\n");
        compile(&source, 90).unwrap_or_else(|error| panic!("{error:?}\n{source}"));
    }
}

#[test]
fn versions_and_targets() {
    let ok =
        |head: &str, sm: u32| compile(&module(head, "ret;"), sm).unwrap_or_else(|error| panic!("{error:?}"));
    let code = |head: &str, sm: u32| compile(&module(head, "ret;"), sm).expect_err(head).0;
    for (version, target, sm) in [
        ("6.0", 70, 70),
        ("6.1", 72, 75),
        ("7.4", 87, 90),
        ("9.0", 88, 100),
        ("8.6", 100, 100),
        ("8.8", 103, 120),
        ("9.0", 110, 120),
        ("8.7", 120, 120),
    ] {
        ok(&format!(".version {version}\n.target sm_{target}"), sm);
    }
    for (version, target) in [("5.0", 70), ("6.0", 72), ("7.8", 100), ("8.9", 110), ("8.6", 120), ("6.9", 80)]
    {
        assert_eq!(code(&format!(".version {version}\n.target sm_{target}"), 120), Code::InvalidPtx);
    }
    assert_eq!(code(".version 9.1\n.target sm_90", 90), Code::UnsupportedPtxVersion);
    assert_eq!(code(".version 8.0\n.target sm_91", 90), Code::InvalidPtx);
    assert_eq!(code(".version 8.0\n.target sm_90", 80), Code::NoBinaryForGpu);
    assert_eq!(code(".version 8.0\n.target sm_90a", 100), Code::NoBinaryForGpu);
    assert_eq!(code(".target sm_90", 90), Code::InvalidPtx);
    assert_eq!(code(".version x\n.target sm_90", 90), Code::InvalidPtx);
    assert_eq!(code(".version 8.85\n.target sm_90", 90), Code::InvalidPtx);
    assert_eq!(code(".version 8.0\n.target sm_90\n.address_size 64", 90), Code::InvalidPtx);
    let parameters = |version: &str| {
        let head = format!(".version {version}\n.target sm_90\n.address_size 64");
        compile(&format!("{head}\n.entry k(.param .b8 p[4353])\n{{ ret; }}\n"), 90)
    };
    assert!(parameters("8.1").is_ok() && parameters("8.0").is_err());
}

#[test]
fn what_a_target_lacks() {
    let refused = |version: &str, sm: u32, line: &str| {
        let source = module(&format!(".version {version}\n.target sm_{sm}"), line);
        assert_eq!(compile(&source, sm).expect_err(&source).0, Code::InvalidPtx);
    };
    refused("8.0", 75, "redux.sync.add.u32 %r0, %r1, -1;");
    refused("8.0", 75, "cp.async.wait_all;");
    refused("8.0", 80, "fence.proxy.async;");
    refused("8.0", 90, "wgmma.fence.sync.aligned;");
}

#[test]
fn variables_that_do_not_fit() {
    let refused = |variables: &str| {
        let source = format!("{HEAD}\n.address_size 64\n{variables}\n.visible .entry k()\n{{ ret; }}\n");
        assert_eq!(compile(&source, 90).expect_err(&source).0, Code::InvalidPtx);
    };
    refused(".shared .b8 s[49153];");
    refused(".shared .b8 s[1099511627776], t[1099511627776];");
    refused(".const .b8 s[65537];");
    refused(".global .b8 s[99999999999999999999];");
    refused(".global .b8 s[4294967296][4294967296];");
    refused(".global .u32 s[2] = {1, 2, 3};");
    refused(".global .align 3 .u32 s;");
    refused(".global .u32 s; .global .u32 s;");
    refused(".extern .global .u32 s;");
    refused(".global .u32 s[0];");
    refused(".global .u32 k;");
    refused(".global .v4 .f64 s;");
    refused(".global .f32 s = 1;");
    refused(".global .u32 s = 1.5;");
    refused(".global .u64 s = t; .global .u32 t;");
    refused(".shared .u32 t; .global .u64 s = t;");
    refused(".visible .visible .global .u32 s;");
    refused(".entry j(.param .v2 .f32 p) { ret; }");
    refused(".entry j() .maxntid 32 .reqntid 32 { ret; }");
    refused(".extern .entry j() { ret; }");
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % end.max(1)
    }
}

#[test]
fn long_and_deep_text() {
    for part in
        ["{", "}", "[", "(", "@", "{{{{.reg .b32 %x;", "$l:", "/*", "\"", "-", "a::", "%r0,", "\0", "ä"]
    {
        let long = part.repeat(100_000);
        for source in [long.clone(), format!("{HEAD}\n{long}"), module(HEAD, &long)] {
            let _ = compile(&source, 90);
        }
        let _ = compile(&module(HEAD, &format!("add.u32 %r0, {long};")), 90);
        let _ = compile(&format!("{HEAD}\n.address_size 64\n.global .u32 x[4] = {long};"), 90);
    }
    let many = "bra $l;\n".repeat(100_000);
    assert!(compile(&module(HEAD, &format!(".reg .b32 %x<1000000>;\n$l:\n{many}")), 90).is_err());
}

const SAMPLE: &str = include_str!("kernels.rs");

#[test]
fn mutated_text() {
    // The bodies of other tests are the seeds; what of them is not PTX is hostile text.
    let words: Vec<&str> = SAMPLE.split_whitespace().collect();
    let bodies: Vec<&str> =
        SAMPLE.split("let body = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let mut random = Random(7);
    for _ in 0..6000 {
        let mut text = module(HEAD, bodies[random.below(bodies.len())]).into_bytes();
        for _ in 0..=random.below(4) {
            let at = random.below(text.len());
            let end = (at + random.below(12)).min(text.len());
            match random.below(5) {
                0 => text.truncate(at),
                1 => drop(text.drain(at..end)),
                2 => text[at] = random.below(256) as u8,
                3 => drop(text.splice(at..at, words[random.below(words.len())].bytes())),
                _ => {
                    let copy = text[at..end].to_vec();
                    let to = random.below(text.len());
                    drop(text.splice(to..to, copy));
                }
            }
            if text.is_empty() {
                break;
            }
        }
        let _ = compile(&String::from_utf8_lossy(&text), 90);
    }
}
