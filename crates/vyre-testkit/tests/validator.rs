//! Properties of the validator over generated programs and over ones that were spoilt.
//!
//! - Whatever a program is, findings are in order, have a place in its text, a known code and a fix.
//! - What the analysis calls uniform is: lanes are traced on the reference interpreter, and where two of them run a line
//!   on the same trips, values that are uniform for both are equal.

use std::cell::RefCell;
use std::collections::HashMap;
use vyre_foundation::diagnostic::{Diagnostic, Place};
use vyre_foundation::ir::{
    Block, BufferId, DataType, Literal, MemoryOrdering, Node, Operand, Program, ProgramParts, Value, walk,
};
use vyre_foundation::text;
use vyre_foundation::validate::uniformity::{BodyUniformity, Level, analyse};
use vyre_foundation::validate::{ValidProgram, explain, validate};
use vyre_generate::source::{Draw, Source};
use vyre_generate::{Case, Config};
use vyre_reference::{Flow, Options, Trace, TraceEvent, run};
use vyre_testkit::any;
use vyre_testkit::compare;
use vyre_testkit::property::check;

fn case(source: &mut dyn Source) -> Case {
    vyre_generate::case(source, &Config { lines: 25, workgroups_max: 3, ..Config::default() })
}

/// A generated case with a few lines changed; as it was if it could not be sealed.
fn spoilt(source: &mut dyn Source) -> Case {
    let mut case = case(source);
    let mut draw = Draw::new(source);
    let mut parts = case.program.parts().clone();
    for _ in 0..draw.between(1, 3) {
        spoil(&mut parts, &mut draw);
    }
    if let Ok(program) = Program::new(parts) {
        case.program = program;
    }
    case
}

fn spoil(parts: &mut ProgramParts, draw: &mut Draw<'_>) {
    if draw.chance(20) {
        return spoil_header(parts, draw);
    }
    let buffers = parts.buffers.len() as u32;
    let in_function = !parts.functions.is_empty() && draw.chance(50);
    let body = if in_function {
        let at = draw.below(parts.functions.len() as u32);
        &mut parts.functions[at as usize].body
    } else {
        &mut parts.body
    };
    let mut lines = 0;
    walk(&body.block, |_, _, _| lines += 1);
    if lines == 0 || body.values.is_empty() {
        return;
    }
    let counter = body.new_value("counter");
    let values = body.values.len() as u32;
    let mut site = draw.below(lines);
    if let Some((block, at)) = find(&mut body.block, &mut site) {
        spoil_line(block, at, Bounds { buffers, values, counter }, draw);
    }
}

struct Bounds {
    buffers: u32,
    values: u32,
    counter: Value,
}

fn spoil_header(parts: &mut ProgramParts, draw: &mut Draw<'_>) {
    match draw.below(5) {
        0 => parts.workgroup[draw.below(3) as usize] = draw.pick(&[0, 1, 2, 2000]),
        1 => parts.subgroup = draw.pick(&[None, Some(0), Some(3), Some(32), Some(64)]),
        2 if !parts.buffers.is_empty() => {
            let at = draw.below(parts.buffers.len() as u32) as usize;
            parts.buffers[at].ty = draw.pick(&DataType::ALL);
        }
        3 if !parts.buffers.is_empty() => {
            let at = draw.below(parts.buffers.len() as u32) as usize;
            parts.buffers[at].len = draw.pick(&[None, Some(0), Some(u32::MAX)]);
        }
        _ if !parts.buffers.is_empty() => {
            let (from, to) = (draw.below(parts.buffers.len() as u32), draw.below(parts.buffers.len() as u32));
            parts.buffers[to as usize].kind = parts.buffers[from as usize].kind.clone();
        }
        _ => {}
    }
}

/// The block that holds the line with that number, and where in it.
fn find<'a>(block: &'a mut Block, site: &mut u32) -> Option<(&'a mut Block, usize)> {
    let mut at = None;
    for (index, node) in block.iter().enumerate() {
        let mut inner = 1;
        node.blocks().for_each(|nested| walk(nested, |_, _, _| inner += 1));
        if *site < inner {
            at = Some(index);
            break;
        }
        *site -= inner;
    }
    let at = at?;
    if *site == 0 {
        return Some((block, at));
    }
    *site -= 1;
    for nested in block[at].blocks_mut() {
        let mut lines = 0;
        walk(nested, |_, _, _| lines += 1);
        if *site < lines {
            return find(nested, site);
        }
        *site -= lines;
    }
    None
}

fn spoil_line(block: &mut Block, at: usize, bounds: Bounds, draw: &mut Draw<'_>) {
    let operand = |draw: &mut Draw<'_>| match draw.below(4) {
        0 => Operand::Literal(Literal::from_bits(draw.pick(&DataType::ALL), draw.bits())),
        _ => Operand::Value(Value(draw.below(bounds.values))),
    };
    match draw.below(10) {
        0 | 1 => {
            let new = operand(draw);
            let which = draw.below(3);
            let mut count = 0;
            block[at].for_each_operand_mut(|operand| {
                if count == which {
                    *operand = new;
                }
                count += 1;
            });
        }
        2 => drop(block.remove(at)),
        3 => block.insert(at, block[at].clone()),
        4 => {
            const LINES: [Node; 5] = [
                Node::Break,
                Node::Continue,
                Node::Return { value: None },
                Node::Barrier { ordering: MemoryOrdering::Workgroup },
                Node::Barrier { ordering: MemoryOrdering::GridSync },
            ];
            block.insert(at, LINES[draw.below(5) as usize].clone());
        }
        5 | 6 => {
            let then = vec![block[at].clone()];
            block[at] = Node::If { cond: operand(draw), then, otherwise: Vec::new() };
        }
        7 => {
            // At most a few trips, so that what is still valid also ends soon.
            let hi = match operand(draw) {
                Operand::Literal(literal) => Literal::u32(literal.bits() as u32 % 4).into(),
                value @ Operand::Value(_) => value,
            };
            let body = vec![block[at].clone()];
            let lo = Literal::u32(0).into();
            block[at] = Node::For { counter: bounds.counter, lo, hi, step: u32::MAX / 2, body };
        }
        8 => {
            let other = draw.below(block.len() as u32) as usize;
            block.swap(at, other);
        }
        _ => {
            let (ty, buffer) = (draw.pick(&DataType::ALL), BufferId(draw.below(bounds.buffers.max(1))));
            retype(&mut block[at], ty, (bounds.buffers > 0 && draw.chance(128)).then_some(buffer));
        }
    }
}

/// Gives a line another type or buffer.
fn retype(node: &mut Node, new: DataType, other: Option<BufferId>) {
    match node {
        Node::Compute { ty, .. } | Node::Subgroup { ty, .. } | Node::Var { ty, .. } => *ty = new,
        Node::Get { ty, .. } | Node::Set { ty, .. } => *ty = new,
        Node::Load { ty, buffer, .. }
        | Node::UniformLoad { ty, buffer, .. }
        | Node::Store { ty, buffer, .. }
        | Node::Atomic { ty, buffer, .. } => match other {
            Some(other) => *buffer = other,
            None => *ty = new,
        },
        _ => {}
    }
}

/// Whether what the validator says about a program makes sense by itself.
fn sensible(program: &Program) -> Result<(), String> {
    let Err(findings) = validate(program) else { return Ok(()) };
    if findings.is_empty() {
        return Err("refused without a finding".into());
    }
    let (_, map) = text::print_with_map(program);
    let mut last = 0;
    for finding in &findings {
        let Diagnostic { code, place, message, fix } = finding;
        let span = map.span(*place).ok_or_else(|| format!("no line: {finding}"))?;
        if explain(code).is_none() || message.is_empty() || fix.is_empty() || message.contains(fix.as_str()) {
            return Err(format!("no rule, message or fix: {finding}"));
        }
        if span.line < last {
            return Err(format!("out of order: {finding}"));
        }
        last = span.line;
    }
    Ok(())
}

#[test]
fn findings_make_sense() {
    check(2000, any::program, sensible, text::print);
    check(2000, spoilt, |case| sensible(&case.program), compare::show);
}

/// What a lane saw on a line: by site and the trips of the loops around it, the values by name.
type Seen = HashMap<(u32, Vec<u64>), Vec<(String, Literal)>>;

/// The sites of the loops around each line of the main body.
fn loops_around(parts: &ProgramParts) -> Vec<Vec<u32>> {
    let mut around: Vec<(usize, u32)> = Vec::new();
    let mut result = Vec::new();
    walk(&parts.body.block, |site, depth, node| {
        while around.last().is_some_and(|(loop_depth, _)| *loop_depth >= depth) {
            around.pop();
        }
        result.push(around.iter().map(|(_, site)| *site).collect());
        if matches!(node, Node::For { .. }) {
            around.push((depth, site));
        }
    });
    result
}

/// Runs the case and notes what one lane saw on the lines of the main body.
fn seen(case: &Case, valid: &ValidProgram, lane: [u32; 3]) -> Seen {
    let around = loops_around(valid.parts());
    let trips: RefCell<HashMap<u32, u64>> = RefCell::default();
    let seen: RefCell<Seen> = RefCell::default();
    let sink = |event: &TraceEvent| {
        let (Place::Line { function: None, site }, true) =
            (event.location.line, event.location.calls.is_empty())
        else {
            return;
        };
        if let Some(Flow::Trip(trip)) = event.flow {
            trips.borrow_mut().insert(site, trip);
        }
        if matches!(event.flow, Some(Flow::Trip(_) | Flow::LoopEnds(_))) {
            return;
        }
        let key: Vec<u64> = around[site as usize].iter().map(|site| trips.borrow()[site]).collect();
        let values = event.reads.iter().chain(&event.result).map(|named| (named.name.clone(), named.value));
        seen.borrow_mut().entry((site, key)).or_default().extend(values);
    };
    let options = Options { trace: Some(Trace { lane, sink: &sink }), ..Options::default() };
    // A trap ends the run with an error, after the lanes have run.
    let _ = run(valid, vyre_testkit::compare::launch(case), &options);
    seen.into_inner()
}

/// Whether two lanes saw the same wherever `uniformity` says that all lanes of that level do.
fn agree(
    uniformity: &BodyUniformity,
    level: Level,
    parts: &ProgramParts,
    [a, b]: [&Seen; 2],
) -> Result<(), String> {
    let ids: HashMap<String, Value> =
        parts.body.values.iter().zip(0..).map(|(name, id)| (format!("%{name}"), Value(id))).collect();
    for ((site, trips), values) in a {
        let Some(others) = b.get(&(*site, trips.clone())) else {
            if uniformity.line(*site) <= level {
                return Err(format!("{level:?}: one lane alone ran line {site} on trips {trips:?}"));
            }
            continue;
        };
        let uniform = |(name, _): &&(String, Literal)| uniformity.value(ids[name]) <= level;
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (values.iter().filter(uniform).collect(), others.iter().filter(uniform).collect());
        if ours != theirs {
            return Err(format!("{level:?}: line {site} on trips {trips:?} saw {ours:?} and {theirs:?}"));
        }
    }
    Ok(())
}

fn sound(case: &Case) -> Result<(), String> {
    let Ok(valid) = validate(&case.program) else { return Ok(()) };
    let parts = valid.parts();
    let uniformity = analyse(parts).body;
    let last = parts.workgroup.map(|lanes| lanes - 1);
    let grid = case.grid.unwrap_or([1, 1, 1]);
    let far: Vec<u32> = (0..3).map(|axis| grid[axis] * parts.workgroup[axis] - 1).collect();
    let first = seen(case, &valid, [0, 0, 0]);
    let other = seen(case, &valid, last);
    let far = seen(case, &valid, [far[0], far[1], far[2]]);
    for pair in [[&first, &other], [&other, &first]] {
        agree(&uniformity, Level::Workgroup, parts, pair)?;
    }
    for pair in [[&first, &far], [&far, &first]] {
        agree(&uniformity, Level::Grid, parts, pair)?;
    }
    Ok(())
}

#[test]
fn what_is_called_uniform_is() {
    check(300, case, sound, compare::show);
    check(600, spoilt, sound, compare::show);
    check(1000, tangle, sound, compare::show);
}

/// Small programs of nothing but locals, branches, loops and exits, decided by lanes, workgroups and constants.
fn tangle(source: &mut dyn Source) -> Case {
    let mut draw = Draw::new(source);
    let mut text = TANGLE.to_string();
    let mut tangle = Tangle { draw: &mut draw, text: &mut text, values: vec!["%l".into()], next: 0 };
    for value in ["%g", "%n", "%h"] {
        tangle.values.push(value.into());
    }
    tangle.block(0, false);
    text += "}\n";
    let program = text::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}")).program;
    Case { program, grid: Some([2, 1, 1]), buffers: vec![(0..32).collect()] }
}

const TANGLE: &str = "\
program @tangle workgroup(4, 1, 1) {
  buffer @x : read u32[] binding 0

  fn @pick(%a : u32, %b : u32) -> u32 {
    var $r : u32 = 0
    for %i in 0..2 {
      %c = eq.u32 %a, %i
      if %c {
        set.u32 $r, %i
        break
      }
    }
    %r = get.u32 $r
    return %r
  }

  var $a : u32 = 0
  var $b : u32 = 1
  var $p : u32[4] = 0
  var $q : u32[4] = 0
  set.u32 $q[1], 7
  %l = local_index
  %g = workgroup_id x
  %n = len @x
  %h = global_id y
";

struct Tangle<'a, 'd> {
    draw: &'a mut Draw<'d>,
    text: &'a mut String,
    /// What can be read here.
    values: Vec<String>,
    next: u32,
}

impl Tangle<'_, '_> {
    fn value(&mut self) -> String {
        if self.draw.chance(60) {
            return self.draw.below(4).to_string();
        }
        self.values[self.draw.below(self.values.len() as u32) as usize].clone()
    }

    fn line(&mut self, line: String) {
        *self.text += &line;
        *self.text += "\n";
    }

    /// Assigns a new value, and gives its name.
    fn assign(&mut self, what: String) -> String {
        self.next += 1;
        let name = format!("%v{}", self.next);
        self.line(format!("{name} = {what}"));
        name
    }

    fn block(&mut self, depth: u32, in_loop: bool) {
        let open = self.values.len();
        for _ in 0..self.draw.between(1, 6) {
            let (a, b) = (self.value(), self.value());
            match self.draw.below(if depth < 3 { 12 } else { 8 }) {
                0 => self.line(format!("set.u32 $a, {a}")),
                1 => self.line(format!("set.u32 $b, {a}")),
                2 => self.line(format!("set.u32 $p[{a}], {b}")),
                3 => self.give("get.u32 $a".into()),
                4 => self.give("get.u32 $b".into()),
                5 => {
                    let array = self.draw.pick(&["$p", "$q"]);
                    self.give(format!("get.u32 {array}[{a}]"));
                }
                6 => self.give(format!("call @pick({a}, {b})")),
                7 => self.give(format!("load.u32 @x[{a}]")),
                8 | 9 => self.branch(depth, in_loop, &a),
                _ => self.repeat(depth, &a, &b),
            }
        }
        self.values.truncate(open);
    }

    fn give(&mut self, what: String) {
        let name = self.assign(what);
        self.values.push(name);
    }

    fn branch(&mut self, depth: u32, in_loop: bool, a: &str) {
        let limit = self.draw.below(3);
        let cond = self.assign(format!("le.u32 {a}, {limit}"));
        self.line(format!("if {cond} {{"));
        self.block(depth + 1, in_loop);
        if in_loop && self.draw.chance(120) {
            let exit = self.draw.pick(&["break", "continue"]);
            self.line(exit.into());
        }
        self.line("} else {".into());
        if self.draw.chance(100) {
            self.block(depth + 1, in_loop);
        }
        self.line("}".into());
    }

    fn repeat(&mut self, depth: u32, a: &str, b: &str) {
        let lo = self.assign(format!("rem.u32 {a}, 3"));
        let hi = self.assign(format!("rem.u32 {b}, 5"));
        self.next += 1;
        let counter = format!("%v{}", self.next);
        self.line(format!("for {counter} in {lo}..{hi} {{"));
        self.values.push(counter);
        self.block(depth + 1, true);
        self.values.pop();
        self.line("}".into());
    }
}
