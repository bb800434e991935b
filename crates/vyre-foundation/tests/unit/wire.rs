//! Round trips, and what damaged bytes do.
//!
//! The header's digest catches nearly all damage, so most tests here put a right digest on wrong payloads: the reader
//! behind it must stand on its own.

use super::{HEADER_BYTES, MAGIC, VERSION, WireError, decode, digest, encode};
use crate::ir::{
    Axis, Buffer, BufferId, BufferKind, BuiltinOp, ComputeOp, ControlOp, DataType, Function, FunctionId,
    Literal, Local, MemoryOrdering, Node, OpId, Operand, Program, ProgramParts, ReadOp, ReduceOp, SyncOp,
    Tile, Value, WriteOp,
};
use crate::limits;

/// A header with the right length and digest before any payload.
fn wrap(payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let digest = digest(payload).0;
    [&MAGIC[..], &VERSION.to_le_bytes(), &length.to_le_bytes(), &digest, payload].concat()
}

fn check(parts: ProgramParts) -> Program {
    let program = Program::new(parts).expect("seals");
    let bytes = encode(&program);
    assert_eq!(bytes, wrap(&bytes[HEADER_BYTES..]), "the header states length and digest");
    let again = decode(&bytes).expect("decodes");
    assert_eq!(again, program);
    assert_eq!(encode(&again), bytes);
    program
}

fn buffer(name: &str, kind: BufferKind, ty: DataType, len: Option<u32>) -> Buffer {
    Buffer { name: name.into(), kind, ty, len }
}

fn literals() -> impl Iterator<Item = Literal> {
    DataType::ALL
        .into_iter()
        .flat_map(|ty| [0, 1, 127, 128, ty.mask() >> 1, ty.mask()].map(|bits| Literal::from_bits(ty, bits)))
}

/// Lines with an op, one per form it has; not meant to be valid.
fn lines(op: OpId, values: [Value; 2], local: Local, ty: DataType) -> Vec<Node> {
    let [value, result] = values;
    let (x, y) = (Operand::Value(value), Operand::Literal(Literal::from_bits(ty, u64::MAX / 3)));
    let (dst, src) = (BufferId(0), BufferId(1));
    let tile = Tile { buffer: src, offset: x };
    let barrier = |ordering| vec![Node::Barrier { ordering }];
    match op {
        OpId::ComputeOp(op) => {
            let few = Node::Compute { result, op, ty, args: [x].into_iter().collect() };
            let many = Node::Compute { result, op, ty, args: [x, y, y, x, x].into_iter().collect() };
            vec![few, many]
        }
        OpId::BuiltinOp(op) => {
            [None, Some(Axis::X), Some(Axis::Z)].map(|axis| Node::Builtin { result, op, axis }).to_vec()
        }
        OpId::SubgroupOp(op) => {
            vec![Node::Subgroup { result, op, ty, args: [x, y].into_iter().collect() }]
        }
        OpId::AtomicOp(op) => [None, Some(result)]
            .map(|result| Node::Atomic {
                result,
                op,
                ty,
                buffer: dst,
                index: y,
                args: [x].into_iter().collect(),
            })
            .to_vec(),
        OpId::ReadOp(ReadOp::Load) => vec![Node::Load { result, ty, buffer: src, index: x }],
        OpId::ReadOp(ReadOp::Len) => vec![Node::Len { result, buffer: dst }],
        OpId::ReadOp(ReadOp::Get) => {
            [None, Some(x)].map(|index| Node::Get { result, ty, local, index }).to_vec()
        }
        OpId::WriteOp(WriteOp::Store) => vec![Node::Store { ty, buffer: dst, index: x, value: y }],
        OpId::WriteOp(WriteOp::Var) => {
            [None, Some(0), Some(u32::MAX)].map(|len| Node::Var { local, ty, len, init: y }).to_vec()
        }
        OpId::WriteOp(WriteOp::Set) => {
            [None, Some(x)].map(|index| Node::Set { ty, local, index, value: y }).to_vec()
        }
        OpId::WriteOp(WriteOp::Trap) => vec![Node::Trap { code: 0 }, Node::Trap { code: u32::MAX }],
        OpId::SyncOp(SyncOp::Barrier) => barrier(MemoryOrdering::Workgroup),
        OpId::SyncOp(SyncOp::SubgroupBarrier) => barrier(MemoryOrdering::Subgroup),
        OpId::SyncOp(SyncOp::GridBarrier) => barrier(MemoryOrdering::GridSync),
        OpId::SyncOp(SyncOp::UniformLoad) => vec![Node::UniformLoad { result, ty, buffer: src, index: y }],
        OpId::SyncOp(SyncOp::Mma) => vec![Node::Mma { m: 16, n: 300, k: 1, c: tile, a: tile, b: tile }],
        OpId::SyncOp(SyncOp::AllReduce) => {
            ReduceOp::ALL.map(|op| Node::AllReduce { op, ty, dst, src }).to_vec()
        }
        OpId::SyncOp(SyncOp::ReduceScatter) => {
            vec![Node::ReduceScatter { op: ReduceOp::Xor, ty, dst, src }]
        }
        OpId::SyncOp(SyncOp::AllGather) => vec![Node::AllGather { ty, dst, src }],
        OpId::SyncOp(SyncOp::Broadcast) => vec![Node::Broadcast { ty, dst, src, root: 9 }],
        OpId::ControlOp(op) => control_lines(op, x, result),
    }
}

fn control_lines(op: ControlOp, x: Operand, result: Value) -> Vec<Node> {
    let lines = || vec![Node::Break, Node::Continue];
    match op {
        ControlOp::If => [(0, 0), (1, 0), (0, 2), (2, 1)]
            .map(|(then, otherwise)| Node::If {
                cond: x,
                then: lines()[..then].to_vec(),
                otherwise: lines()[..otherwise].to_vec(),
            })
            .to_vec(),
        ControlOp::For => {
            vec![Node::For { counter: result, lo: x, hi: x, step: 3, body: lines() }]
        }
        ControlOp::Break => vec![Node::Break],
        ControlOp::Continue => vec![Node::Continue],
        ControlOp::Call => [None, Some(result)]
            .map(|result| Node::Call { result, function: FunctionId(0), args: vec![x; 5] })
            .to_vec(),
        ControlOp::Return => vec![Node::Return { value: None }, Node::Return { value: Some(x) }],
        ControlOp::IndirectDispatch => {
            vec![Node::IndirectDispatch { buffer: BufferId(1), offset: 4_000_000_000 }]
        }
    }
}

/// Buffers of every kind, a function, and a body that begins with a value and a local.
fn frame() -> ProgramParts {
    let mut parts = ProgramParts::new("frame.of_lines", [64, 2, u32::MAX]);
    parts.subgroup = Some(32);
    let kinds = [
        BufferKind::ReadWrite { binding: 2, output: true },
        BufferKind::Read { binding: 1 },
        BufferKind::ReadWrite { binding: u32::MAX, output: false },
        BufferKind::Uniform { binding: 0 },
        BufferKind::Workgroup,
    ];
    for (kind, ty) in kinds.into_iter().zip(DataType::ALL) {
        let len = (ty != DataType::I8).then_some(300);
        parts.buffers.push(buffer(&format!("b_{ty}"), kind, ty, len));
    }
    for ty in DataType::ALL {
        let data = vec![0, 1, ty.mask(), ty.mask() / 2];
        parts.buffers.push(buffer(&format!("t_{ty}"), BufferKind::Table { data }, ty, None));
    }
    let mut body = ProgramParts::new("f", [1; 3]).body;
    let param = body.new_value("x");
    body.block = vec![Node::Return { value: Some(param.into()) }];
    for (name, result) in [("square", Some(DataType::F64)), ("nothing", None)] {
        let params = vec![(param, DataType::F64), (param, DataType::Bool)];
        parts.functions.push(Function { name: name.into(), params, result, body: body.clone() });
    }
    parts
}

/// A program of the lines of those ops.
fn with_lines(ops: impl IntoIterator<Item = (OpId, DataType)>) -> ProgramParts {
    let mut parts = frame();
    let values = [parts.body.new_value("x"), parts.body.new_value("r")];
    let local = parts.body.new_local("v");
    let x = Node::Builtin { result: values[0], op: BuiltinOp::LocalIndex, axis: None };
    let init = Literal::from_bits(DataType::F16, 3).into();
    parts.body.block = vec![x, Node::Var { local, ty: DataType::F16, len: None, init }];
    for (op, ty) in ops {
        parts.body.block.extend(lines(op, values, local, ty));
    }
    parts
}

#[test]
fn every_op_and_type_comes_back() {
    for op in OpId::all() {
        for ty in DataType::ALL {
            check(with_lines([(op, ty)]));
        }
    }
}

#[test]
fn every_constant_comes_back() {
    let mut parts = frame();
    for literal in literals() {
        let result = parts.body.new_value("c");
        let args = [literal.into()].into_iter().collect();
        let op = ComputeOp::Cast;
        parts.body.block.push(Node::Compute { result, op, ty: literal.ty(), args });
    }
    check(parts);
    check(ProgramParts::new("empty", [1, 1, 1]));
    assert_eq!(decode(&encode(&Program::empty())), Ok(Program::empty()));
}

#[test]
fn the_deepest_program_comes_back_and_a_deeper_one_is_refused() {
    let nest = |depth: usize| {
        let cond = Operand::Literal(Literal::bool(true));
        let mut block = vec![Node::Break];
        for _ in 0..depth {
            block = vec![Node::If { cond, then: Vec::new(), otherwise: block }];
        }
        let mut parts = ProgramParts::new("deep", [1; 3]);
        parts.body.block = block;
        parts
    };
    check(nest(limits::NESTING_MAX));
    let deeper = wrap(&super::payload(&nest(limits::NESTING_MAX + 1)));
    assert!(matches!(decode(&deeper), Err(WireError::OverLimit { what: "blocks in each other", .. })));
    // A hundred thousand `if true` in each other, with lines enough behind them to be believed.
    let head = &super::payload(&ProgramParts::new("deep", [1; 3]))[..];
    let mut payload = head[..head.len() - 1].to_vec();
    payload.push(1);
    payload.extend([0xa0, 0x01, 0x01, 0x01, 0x00].repeat(100_000));
    assert!(matches!(decode(&wrap(&payload)), Err(WireError::OverLimit { .. })));
}

/// Programs whose every byte is tried: small, and with all kinds of lines.
fn samples() -> Vec<Vec<u8>> {
    let parts = with_lines(OpId::all().zip(DataType::ALL.into_iter().cycle()));
    [parts, ProgramParts::new("empty", [1; 3])]
        .map(|parts| encode(&Program::new(parts).expect("seals")))
        .to_vec()
}

#[test]
fn every_truncation_is_an_error() {
    for bytes in samples() {
        for end in 0..bytes.len() {
            assert!(
                matches!(decode(&bytes[..end]), Err(WireError::Truncated { offset, missing })
                    if offset == end && missing > 0),
                "cut at {end}"
            );
        }
        for end in HEADER_BYTES..bytes.len() {
            let error = decode(&wrap(&bytes[HEADER_BYTES..end])).expect_err("a part is not a program");
            assert!(
                matches!(error, WireError::Truncated { offset, .. } if offset == end),
                "cut at {end}: {error}"
            );
        }
    }
}

#[test]
fn every_flipped_bit_is_an_error_or_another_program() {
    for bytes in samples() {
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let error = decode(&flipped).expect_err("the digest stands against it");
            assert!(String::from(error).contains(". Fix: "));
            if bit / 8 >= HEADER_BYTES {
                let payload = wrap(&flipped[HEADER_BYTES..]);
                if let Ok(program) = decode(&payload) {
                    assert_eq!(encode(&program), payload, "bit {bit}");
                }
            }
        }
    }
}

#[test]
fn every_byte_replaced_is_an_error_or_another_program() {
    let sample = samples().remove(0);
    for at in HEADER_BYTES..sample.len() {
        for byte in [0x00, 0x01, 0x7f, 0x80, 0xff] {
            let mut payload = sample[HEADER_BYTES..].to_vec();
            payload[at - HEADER_BYTES] = byte;
            let bytes = wrap(&payload);
            if let Ok(program) = decode(&bytes) {
                assert_eq!(encode(&program), bytes, "byte {at} set to {byte:#x}");
            }
        }
    }
}

#[test]
fn trailing_bytes_are_refused_outside_and_inside_the_payload() {
    for bytes in samples() {
        let offset = bytes.len();
        let longer = [&bytes[..], &[0, 0]].concat();
        let trailing = Err(WireError::TrailingBytes { offset, count: 2 });
        assert_eq!(decode(&longer), trailing);
        assert_eq!(decode(&wrap(&longer[HEADER_BYTES..])), trailing);
    }
}

#[test]
fn headers_are_checked() {
    let good = encode(&Program::empty());
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        decode(&changed).expect_err("a changed header")
    };
    assert_eq!(with(0, b"program"), WireError::BadMagic);
    assert_eq!(decode(b"program @p workgroup(1, 1, 1) {}"), Err(WireError::BadMagic));
    assert_eq!(decode(&[]), Err(WireError::Truncated { offset: 0, missing: HEADER_BYTES }));
    assert_eq!(with(8, &2_u32.to_le_bytes()), WireError::UnsupportedVersion { version: 2 });
    assert!(matches!(with(12, &u32::MAX.to_le_bytes()), WireError::OverLimit { offset: 12, .. }));
    assert!(matches!(with(12, &[0xff]), WireError::Truncated { .. }));
    assert!(matches!(with(16, &[0; 32]), WireError::DigestMismatch { .. }));
}

/// The payload of the program `p` with one lane, up to where `bytes` begin.
fn payload_with(bytes: &[u8]) -> Vec<u8> {
    [&[1, b'p', 1, 1, 1, 0], bytes].concat()
}

#[test]
fn counts_are_not_believed() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let no_lists: &[u8] = &[0, 0];
    let cases: [(&str, Vec<u8>); 6] = [
        ("buffers", huge.to_vec()),
        ("functions", [&[0], &huge[..]].concat()),
        ("values", [no_lists, &huge].concat()),
        ("locals", [no_lists, &[0], &huge].concat()),
        ("lines", [no_lists, &[0, 0], &huge].concat()),
        ("table", [&[1, 1, b't', 5, 5], &huge[..]].concat()),
    ];
    for (what, bytes) in cases {
        let error = decode(&wrap(&payload_with(&bytes))).expect_err(what);
        assert!(matches!(error, WireError::OverLimit { .. }), "{what}: {error}");
    }
    // Within the limit, and more than the bytes that follow.
    let cases: [(&str, Vec<u8>); 4] = [
        ("buffers", vec![200, 1]),
        ("values", [no_lists, &[0x80, 0x80, 0x40]].concat()),
        ("lines", [no_lists, &[0, 0], &[0x80, 0x80, 0x40]].concat()),
        ("operands", [no_lists, &[1, 1, b'x', 0, 1, 0x01, 5, 0], &huge].concat()),
    ];
    for (what, bytes) in cases {
        let error = decode(&wrap(&payload_with(&bytes))).expect_err(what);
        assert!(matches!(error, WireError::Truncated { .. }), "{what}: {error}");
    }
}

#[test]
fn numbers_have_one_form() {
    let empty_lists = &[0, 0, 0, 0, 0];
    assert!(decode(&wrap(&payload_with(empty_lists))).is_ok());
    let numbers: [&[u8]; 4] = [
        &[0x80, 0x00],
        &[0x81, 0x80, 0x00],
        &[0xff; 9],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
    ];
    for number in numbers {
        let bytes = wrap(&payload_with(&[number, &[0; 12]].concat()));
        let offset = HEADER_BYTES + 6;
        assert_eq!(decode(&bytes), Err(WireError::BadNumber { offset, max: u64::MAX }), "{number:x?}");
    }
}

#[test]
fn names_are_checked() {
    for name in [&b""[..], b"a b", b".a", b"a..b", b"\xff", "\u{e9}".as_bytes()] {
        let payload = [&[name.len() as u8], name, &[1, 1, 1, 0, 0, 0, 0, 0, 0]].concat();
        let offset = HEADER_BYTES + 1;
        assert_eq!(decode(&wrap(&payload)), Err(WireError::BadName { offset }), "{name:?}");
    }
}

#[test]
fn bytes_out_of_canonical_order_are_refused() {
    // Two values, assigned in the order 1, 0.
    let values: &[u8] = &[0, 0, 2, 1, b'a', 1, b'b', 0];
    let assign = |value: u8| [0x46, value, 0];
    let swapped = [values, &[2], &assign(1), &assign(0)].concat();
    let error = decode(&wrap(&payload_with(&swapped))).expect_err("out of order");
    assert!(matches!(error, WireError::NotCanonical { .. }), "{error}");
    let unused = [values, &[1], &assign(0)[..]].concat();
    assert!(matches!(decode(&wrap(&payload_with(&unused))), Err(WireError::NotCanonical { .. })));
    let right = [values, &[2], &assign(0), &assign(1)].concat();
    assert!(decode(&wrap(&payload_with(&right))).is_ok());
}

#[test]
fn references_are_checked() {
    let lists: &[u8] = &[0, 0, 0, 0, 1];
    let cases: [(&str, &[u8]); 4] = [
        ("value", &[0x46, 0, 0]),
        ("buffer", &[0xa6, 0, 0]),
        ("function", &[0xa4, 0, 0, 0]),
        ("local", &[0x8a, 5, 0, 0, 0]),
    ];
    for (kind, line) in cases {
        let error = decode(&wrap(&payload_with(&[lists, line].concat()))).expect_err(kind);
        assert!(matches!(error, WireError::Dangling { what, count: 0, .. } if what == kind), "{error}");
    }
}

#[test]
fn errors_become_strings() {
    fn read(bytes: &[u8]) -> Result<Program, String> {
        Ok(decode(bytes)?)
    }
    let error = read(b"hello").expect_err("no program");
    assert!(error.starts_with("not a wire form") && error.contains("Fix: "), "{error}");
}
