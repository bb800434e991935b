//! Round trips over programs that no validator would accept, and over the samples of the documentation.

use super::{parse, print, print_with_map};
use crate::diagnostic::Place;
use crate::ir::{
    ArgType, AtomicOp, Axis, Buffer, BufferId, BufferKind, BuiltinOp, ComputeOp, DataType, Function,
    FunctionId, Literal, MemoryOrdering, Node, Operand, Program, ProgramParts, ReduceOp, SubgroupOp, Tile,
    Value, walk,
};

pub(super) const SAXPY: &str = "\
program @saxpy workgroup(64, 1, 1) {
  buffer @a : uniform    f32[1] binding 0
  buffer @x : read       f32[]  binding 1
  buffer @y : read_write f32[]  binding 2 output

  %i    = global_id x
  %n    = len @y
  %live = lt.u32 %i, %n
  if %live {
    %ai = load.f32 @a[0]
    %xi = load.f32 @x[%i]
    %yi = load.f32 @y[%i]
    %r  = fma.f32 %ai, %xi, %yi
    store.f32 @y[%i], %r
  }
}
";

/// Every form of line, valid ones first.
pub(super) const EVERY_FORM: &str = "\
program @every.form workgroup(0, 4294967295, 1) subgroup(7) {
  buffer @tile : workgroup  f32[]
  buffer @c    : read_write u32[4]          binding 0
  buffer @args : uniform    u32[4294967295] binding 4294967295
  const @k : u8[3] = [0, 1, 255]
  const @none : f16[0] = []
  const @flags : bool[2] = [true, false]
  buffer @late : read bf16[] binding 0

  fn @square(%x : f32) -> f32 {
    %r = mul.f32 %x, %x
    return %r
  }

  fn @twice(%x : u8, %x : bool) {
    return 7u32
    return
  }

  fn @nothing() {
  }

  indirect @args[3]
  %s = call @square(1.5)
  call @square(1.5, 2.5f32, 7u32)
  call @twice(3, true)
  call @nothing()
  for %j in 0..%n step 0 {
    break
    continue
  }
  for %j.1 in 3i64..-0.0f64 {
  }
  if true {
  } else {
    trap 4294967295
  }
  if %n {
    if 1u8 {
      barrier
    }
  }
  var $acc : f32 = 0.0
  var $arr : u16[0] = 7
  var $acc : bool = 7u16
  %v = get.f32 $acc
  %w = get.f32 $arr[%i]
  set.f32 $acc, %w
  set.u8 $arr[3], 1
  %n   = global_id
  %i   = local_index z
  %old = atomic_add.u32 @c[%i], 1
  atomic_add.f32 @k[true]
  atomic_compare_exchange.i64 @c[0], -1, 2, 3u32
  %u = uniform_load.f32 @tile[0]
  %u = add.bool
  %u = add.bf16 1.5, -inf, nan_bf16, inf_f32, nan(0x7f81)_bf16, 1.0f16
  %u = cast.f32 7u32
  %u = cast.f32 true
  %u = shl.u64 1, 2, 3u32
  mma.i32.i8 16, 8, 32, @c[0], @tile[%i], @k[1i8]
  subgroup_barrier
  grid_barrier
  %b   = subgroup_ballot true
  %a_name_that_is_not_aligned_to = subgroup_match.f64 1.0
  %b.1 = subgroup_any
  all_reduce.f32 add, @tile, @c
  all_gather.bool @tile, @tile
  reduce_scatter.i8 xor, @tile, @c
  broadcast.f32 @tile, @c, 4294967295
  return %b
  return
}
";

#[test]
fn samples_read_and_print_as_they_stand() {
    for sample in [SAXPY, EVERY_FORM, "program @empty workgroup(1, 1, 1) {\n}\n"] {
        let parsed = parse(sample).unwrap_or_else(|errors| panic!("{}", errors[0]));
        let (printed, map) = print_with_map(&parsed.program);
        assert_eq!(printed, sample);
        assert_eq!(map, parsed.map, "printing and reading give the same places");
        assert_eq!(parse(&printed).unwrap().program, parsed.program);
    }
}

#[test]
fn places_are_lines_of_the_source() {
    let source = format!("// a comment\n\n{SAXPY}");
    let parsed = parse(&source).unwrap();
    let text = |place: Place| {
        let span = parsed.map.span(place).expect("the place exists");
        let line = source.lines().nth(span.line as usize - 1).unwrap();
        &line[span.column as usize - 1..][..span.columns as usize]
    };
    assert_eq!(text(Place::Program), "program @saxpy workgroup(64, 1, 1) {");
    assert_eq!(text(Place::Buffer(BufferId(1))), "buffer @x : read       f32[]  binding 1");
    assert_eq!(text(Place::Line { function: None, site: 3 }), "if %live {");
    assert_eq!(text(Place::Line { function: None, site: 8 }), "store.f32 @y[%i], %r");
    assert_eq!(parsed.map.span(Place::Line { function: None, site: 9 }), None);
}

/// Operands of every type, expected or not, with hard bits.
fn operands(value: Value) -> Vec<Operand> {
    let mut operands = vec![Operand::Value(value)];
    for ty in DataType::ALL {
        let top = ty.mask() ^ (ty.mask() >> 1);
        let infinity = ty.canonical_nan().map_or(3, |nan| nan & (nan << 1));
        for bits in
            [0, 1, 2, 7, top, top | 1, ty.mask(), ty.mask() >> 1, infinity, infinity | 1, infinity | top]
        {
            operands.push(Operand::Literal(Literal::from_bits(ty, bits)));
        }
        operands.extend(ty.canonical_nan().map(|bits| Operand::Literal(Literal::from_bits(ty, bits))));
    }
    operands
}

/// A program with every op under every type, at every arity up to five, on buffers of every kind.
fn odd_program() -> Program {
    let mut parts = ProgramParts::new("odd", [0, 1, u32::MAX]);
    parts.subgroup = Some(0);
    let kinds = [
        BufferKind::Uniform { binding: 9 },
        BufferKind::Read { binding: 9 },
        BufferKind::ReadWrite { binding: 0, output: false },
        BufferKind::ReadWrite { binding: u32::MAX, output: true },
        BufferKind::Workgroup,
        BufferKind::Table { data: (0..100).collect() },
    ];
    for (at, kind) in kinds.iter().cycle().take(DataType::ALL.len() * kinds.len()).enumerate() {
        let ty = DataType::ALL[at / kinds.len()];
        let len = [None, Some(0), Some(u32::MAX)][at % 3];
        parts.buffers.push(Buffer { name: format!("b{at}").into(), kind: kind.clone(), ty, len });
    }
    for (at, ty) in DataType::ALL.into_iter().enumerate() {
        let mut function = Function {
            name: format!("f{at}").into(),
            params: vec![],
            result: Some(ty),
            body: Default::default(),
        };
        let param = function.body.new_value("p");
        function.params = vec![(param, ty), (param, DataType::Bool)];
        let returns = operands(param).into_iter().map(|value| Node::Return { value: Some(value) });
        function.body.block = returns.collect();
        parts.functions.push(function);
    }
    odd_lines(&mut parts);
    Program::new(parts).unwrap()
}

fn odd_lines(parts: &mut ProgramParts) {
    let body = &mut parts.body;
    let v = body.new_value("v");
    let l = body.new_local("l");
    let operands = operands(v);
    let mut lines = vec![Node::Builtin { result: v, op: BuiltinOp::GlobalId, axis: None }];
    let mut next = operands.iter().copied().cycle();
    let mut some = move |count: usize| -> crate::ir::Args { next.by_ref().take(count).collect() };
    let pick = |args: &[Operand]| args[0];
    for ty in DataType::ALL {
        for arity in 0..6 {
            for op in ComputeOp::ALL {
                lines.push(Node::Compute { result: v, op: *op, ty, args: some(arity) });
            }
            for op in SubgroupOp::ALL {
                lines.push(Node::Subgroup { result: v, op: *op, ty, args: some(arity) });
            }
            for op in AtomicOp::ALL {
                let (buffer, index) = (BufferId(arity as u32), pick(&some(1)));
                let result = (arity % 2 == 0).then_some(v);
                lines.push(Node::Atomic { result, op: *op, ty, buffer, index, args: some(arity) });
            }
            let (buffer, index, value) = (BufferId(arity as u32 * 7), pick(&some(1)), pick(&some(1)));
            lines.push(Node::Load { result: v, ty, buffer, index });
            lines.push(Node::UniformLoad { result: v, ty, buffer, index });
            lines.push(Node::Store { ty, buffer, index, value });
            lines.push(Node::Len { result: v, buffer });
            let len = [None, Some(0), Some(7)][arity % 3];
            lines.push(Node::Var { local: l, ty, len, init: value });
            let index = [None, Some(index)][arity % 2];
            lines.push(Node::Get { result: v, ty, local: l, index });
            lines.push(Node::Set { ty, local: l, index, value });
            let function = FunctionId(arity as u32);
            lines.push(Node::Call { result: None, function, args: some(arity).to_vec() });
            lines.push(Node::Call { result: Some(v), function, args: some(arity).to_vec() });
            lines.push(Node::Return { value: [None, Some(value)][arity % 2] });
            for op in ReduceOp::ALL {
                lines.push(Node::AllReduce { op, ty, dst: buffer, src: buffer });
                lines.push(Node::ReduceScatter { op, ty, dst: buffer, src: BufferId(0) });
            }
            lines.push(Node::AllGather { ty, dst: buffer, src: buffer });
            lines.push(Node::Broadcast { ty, dst: buffer, src: buffer, root: u32::MAX });
        }
    }
    for op in BuiltinOp::ALL {
        for axis in [None, Some(Axis::X), Some(Axis::Y), Some(Axis::Z)] {
            lines.push(Node::Builtin { result: v, op: *op, axis });
        }
    }
    for operand in operands {
        let tile = Tile { buffer: BufferId(3), offset: operand };
        lines.push(Node::Mma { m: 0, n: 1, k: u32::MAX, c: tile, a: tile, b: tile });
        lines.push(Node::If { cond: operand, then: vec![], otherwise: vec![Node::Break] });
        lines.push(Node::If { cond: operand, then: vec![Node::Continue], otherwise: vec![] });
        let body = vec![Node::Trap { code: u32::MAX }];
        lines.push(Node::For { counter: v, lo: operand, hi: operand, step: 0, body });
    }
    for ordering in [MemoryOrdering::Subgroup, MemoryOrdering::Workgroup, MemoryOrdering::GridSync] {
        lines.push(Node::Barrier { ordering });
    }
    lines.push(Node::IndirectDispatch { buffer: BufferId(1), offset: u32::MAX });
    body.block = lines;
}

#[test]
fn odd_programs_survive_the_round_trip() {
    let program = odd_program();
    let (text, map) = print_with_map(&program);
    let parsed = parse(&text).unwrap_or_else(|errors| panic!("{}", errors[0]));
    assert_eq!(parsed.map, map);
    let mut expected = Vec::new();
    walk(&program.parts().body.block, |_, _, node| expected.push(node));
    walk(&parsed.program.parts().body.block, |site, _, node| assert_eq!(node, expected[site as usize]));
    assert_eq!(parsed.program, program);
    assert_eq!(print(&parsed.program), text);
}

#[test]
fn every_op_is_read_as_its_table_row_says() {
    for op in ComputeOp::ALL {
        for ty in op.info().types.iter() {
            let args = op.info().args.iter().map(|arg| match arg {
                ArgType::Any => "1u32",
                ArgType::Bool => "true",
                ArgType::U32 => "1",
                ArgType::Same if ty.is_float() => "1.0",
                ArgType::Same if ty == DataType::Bool => "true",
                ArgType::Same => "1",
            });
            let args: Vec<&str> = args.collect();
            let name = op.info().name;
            let line = format!("  %r = {name}.{ty} {}\n", args.join(", "));
            let text = format!("program @p workgroup(1, 1, 1) {{\n{line}}}\n");
            assert_eq!(print(&parse(&text).unwrap().program), text);
        }
    }
}

/// Inputs made to hurt: each ends in an answer, soon and with few words.
fn hostile() -> Vec<(&'static str, String)> {
    const MANY: usize = 1 << 20;
    let header = "program @p workgroup(1, 1, 1) {\n";
    let inside = |text: String| format!("{header}{text}");
    let mut inputs = vec![("empty", String::new()), ("a byte order mark", "\u{feff}".into())];
    for token in
        ["a", "%a ", "{", "}", "(", "[", "1", "-", ".", "%", "\0", "é", "\n", "//", "//\n", "?\n", "} else {"]
    {
        inputs.push(("one token", token.repeat(MANY)));
        inputs.push(("one token inside", inside(token.repeat(MANY))));
    }
    inputs.push(("nested blocks", inside("if true {\n".repeat(100_000))));
    inputs.push(("nested blocks, closed", inside("if true {\n".repeat(100_000) + &"}\n".repeat(100_001))));
    inputs.push(("nested loops on a line", inside("for %i in 0..1 { ".repeat(100_000))));
    inputs.push(("nested functions", inside("fn @f() {\n".repeat(100_000))));
    inputs
        .push(("an unterminated list", inside(format!("const @k : u32[3] = [{}", "1,\n".repeat(MANY / 2)))));
    inputs.push(("an unterminated call", inside(format!("call @f({}", "%a, ".repeat(MANY)))));
    inputs.push(("unterminated parameters", inside(format!("fn @f({}", "%a : u32, ".repeat(MANY)))));
    inputs.push(("one long line", inside(format!("%a = add.u32 {}\n", "x".repeat(10 << 20)))));
    inputs.push(("a long name", inside(format!("%{} = global_id x\n}}", "x".repeat(10 << 20)))));
    inputs.push(("a long number", inside(format!("%a = add.f16 1.{}\n}}", "1".repeat(10 << 20)))));
    let wrong = |at: usize| format!("%a{at} = add.u32 %b{at}, @c{at}[0]\n");
    inputs.push(("many unknown names", inside((0..MANY / 8).map(wrong).collect())));
    let names = |at: usize| format!("%name{at} = add.u32 %nane{at}, 1\n");
    inputs.push(("many near misses", inside((0..MANY / 8).map(names).collect())));
    inputs
}

#[test]
fn hostile_inputs_end_in_few_words() {
    for (what, source) in hostile() {
        let started = std::time::Instant::now();
        let errors = parse(&source).expect_err(what);
        assert!(!errors.is_empty() && errors.len() <= 101, "{what}");
        for error in &errors[..errors.len().min(3)] {
            let shown = super::render(error, "x.vyre", &source, &super::SourceMap::default());
            assert!(shown.len() < 1500, "{what}: {shown}");
        }
        let start: String = source.chars().take(60).collect();
        assert!(started.elapsed().as_secs() < 20, "{what} took {:?}: {start:?}", started.elapsed());
    }
}

#[test]
fn the_longest_line_there_can_be_survives() {
    let operands = vec!["%i"; 1 << 20].join(", ");
    let source = format!("program @p workgroup(1, 1, 1) {{\n  %i = add.u32 {operands}\n}}\n");
    let program = parse(&source).unwrap().program;
    assert_eq!(print(&program), source);
    assert_eq!(super::format(&source).unwrap(), source);
}
