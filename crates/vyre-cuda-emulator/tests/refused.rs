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
