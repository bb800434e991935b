//! Random programs of control flow, locals and a lane's own elements alone, many of each on few lines.
//!
//! [`generate`](vyre_generate) covers the whole language and so spreads it over many lines. The effect of passes on locals
//! and loops depends on which assignment, jump and read follow each other, so here three locals, one private array and four
//! elements a lane combine in small loops. Numbers are small, so that conditions take both values. There are no barriers, and
//! every lane uses only its own elements, so these programs have no races.

use std::fmt::Write;
use vyre_foundation::text;
use vyre_generate::Case;
use vyre_generate::source::{Draw, Source};

/// The case that `source` draws; with `traps` some of its lines trap.
pub fn case(source: &mut dyn Source, traps: bool) -> Case {
    let mut dense = Dense {
        draw: Draw::new(source),
        text: HEADER.to_string(),
        values: Vec::new(),
        next: 0,
        loops: 0,
        depth: 1,
        lines_left: 40,
        traps,
    };
    dense.block(12);
    dense.text.push_str(FOOTER);
    let parsed = text::parse(&dense.text);
    let program = parsed.unwrap_or_else(|findings| panic!("{}\n{}", findings[0], dense.text)).program;
    let words = |count: u32, seed: u32| (0..count).flat_map(|at| ((at * seed) % 7).to_le_bytes()).collect();
    Case { program, grid: Some([2, 1, 1]), buffers: vec![words(16, 5), words(4, 3)] }
}

const HEADER: &str = "program @dense workgroup(2, 1, 1) {
  buffer @v : read_write u32[] binding 0 output
  buffer @u : read u32[] binding 1
  buffer @b : workgroup u8[8]
  const @t : u32[4] = [3, 0, 2, 1]
  fn @mix(%x : u32, %y : u32) -> u32 {
    var $m : u32 = %x
    %big = gt.u32 %y, 2
    if %big {
      set.u32 $m, %y
    }
    %n = get.u32 $m
    return %n
  }
  %g = global_id x
  %l = local_id x
  %n = len @v
  %base = mul.u32 %g, 4
  var $a : u32 = 0
  var $b : u32 = 1
  var $c : u32 = %g
  var $r : u32[3] = 2
";

const FOOTER: &str = "  %end.a = get.u32 $a
  %end.b = get.u32 $b
  %end.c = get.u32 $c
  %end.r = get.u32 $r[1]
  %at.1 = add.u32 %base, 1
  %at.2 = add.u32 %base, 2
  %at.3 = add.u32 %base, 3
  store.u32 @v[%base], %end.a
  store.u32 @v[%at.1], %end.b
  store.u32 @v[%at.2], %end.c
  %old = load.u32 @v[%at.3]
  %end.x = mul.u32 %old, 31
  %end.y = add.u32 %end.x, %end.r
  store.u32 @v[%at.3], %end.y
}
";

struct Dense<'a> {
    draw: Draw<'a>,
    text: String,
    /// Names of the u32 values in scope.
    values: Vec<String>,
    next: u32,
    loops: u32,
    depth: usize,
    lines_left: u32,
    traps: bool,
}

impl Dense<'_> {
    fn line(&mut self, line: &str) {
        let indent = self.depth * 2;
        writeln!(self.text, "{:indent$}{line}", "").expect("writing to a string");
    }

    /// Assigns what `op` computes to a new value and gives its name.
    fn assign(&mut self, op: &str) -> String {
        self.next += 1;
        let name = format!("%x{}", self.next);
        self.line(&format!("{name} = {op}"));
        name
    }

    fn assign_u32(&mut self, op: &str) {
        let name = self.assign(op);
        self.values.push(name);
    }

    fn operand(&mut self) -> String {
        if self.values.is_empty() || self.draw.chance(80) {
            return self.draw.below(6).to_string();
        }
        // Recent values more often: then lines depend on each other.
        let back = self.draw.below(self.values.len() as u32).min(self.draw.below(8)) as usize;
        self.values[self.values.len() - 1 - back].clone()
    }

    fn block(&mut self, lines: u32) {
        let scope = self.values.len();
        for _ in 0..lines {
            if self.lines_left == 0 || self.draw.is_spent() {
                break;
            }
            self.lines_left -= 1;
            self.any_line();
        }
        self.values.truncate(scope);
    }

    fn any_line(&mut self) {
        match self.draw.below(20) {
            0..=2 => {
                let local = self.draw.pick(&["$a", "$b", "$c"]);
                self.assign_u32(&format!("get.u32 {local}"));
            }
            3..=6 => {
                let (local, value) = (self.draw.pick(&["$a", "$b", "$c"]), self.operand());
                self.line(&format!("set.u32 {local}, {value}"));
            }
            7 => {
                let index = self.operand();
                self.assign_u32(&format!("get.u32 $r[{index}]"));
            }
            8 => {
                let (index, value) = (self.operand(), self.operand());
                self.line(&format!("set.u32 $r[{index}], {value}"));
            }
            9 | 10 => self.compute(),
            11..=13 => self.memory(),
            14..=16 if self.depth < 6 => self.branch(),
            17 | 18 if self.loops < 3 => self.repeat(),
            19 if self.traps => {
                let code = self.draw.below(9);
                self.line(&format!("trap {code}"));
            }
            _ => self.compute(),
        }
    }

    fn compute(&mut self) {
        let op = self.draw.pick(&["add", "sub", "mul", "and", "xor", "min", "rem", "shr", "div"]);
        let (a, b) = (self.operand(), self.operand());
        if self.draw.chance(40) {
            self.assign_u32(&format!("call @mix({a}, {b})"));
        } else {
            self.assign_u32(&format!("{op}.u32 {a}, {b}"));
        }
    }

    fn memory(&mut self) {
        let value = self.operand();
        // A lane's own elements, or none at all.
        let offset = if self.draw.chance(30) {
            "1000".to_string()
        } else {
            let free = self.operand();
            self.assign(&format!("and.u32 {free}, 3"))
        };
        match self.draw.below(6) {
            0 | 1 => {
                let at = self.assign(&format!("add.u32 %base, {offset}"));
                self.line(&format!("store.u32 @v[{at}], {value}"));
            }
            2 | 3 => {
                let at = self.assign(&format!("add.u32 %base, {offset}"));
                self.assign_u32(&format!("load.u32 @v[{at}]"));
            }
            4 => {
                let wide = self.assign(&format!("mul.u32 {value}, 77"));
                self.line(&format!("store.u8 @b[%l], {wide}"));
                self.assign_u32("load.u8 @b[%l]");
            }
            _ => {
                let buffer = self.draw.pick(&["@u", "@t"]);
                self.assign_u32(&format!("load.u32 {buffer}[{value}]"));
            }
        }
    }

    fn condition(&mut self) -> String {
        let op = self.draw.pick(&["lt", "ge", "eq", "ne", "gt", "le"]);
        let a = self.operand();
        let b = if self.draw.chance(30) { "%n".to_string() } else { self.operand() };
        let first = self.assign(&format!("{op}.u32 {a}, {b}"));
        if !self.draw.chance(60) {
            return first;
        }
        let (c, d) = (self.operand(), self.operand());
        let second = self.assign(&format!("lt.u32 {c}, {d}"));
        let op = self.draw.pick(&["and", "or"]);
        self.assign(&format!("{op}.bool {first}, {second}"))
    }

    fn branch(&mut self) {
        let cond = self.condition();
        self.line(&format!("if {cond} {{"));
        self.nested();
        if self.draw.chance(110) {
            self.line("} else {");
            self.nested();
        }
        self.line("}");
    }

    /// A block inside an `if`, which may jump at its end.
    fn nested(&mut self) {
        self.depth += 1;
        let lines = self.draw.below(5);
        self.block(lines);
        if self.loops > 0 && self.draw.chance(80) {
            let jump = self.draw.pick(&["break", "continue"]);
            self.line(jump);
        }
        self.depth -= 1;
    }

    fn repeat(&mut self) {
        let lo = self.draw.below(2);
        let hi = if self.draw.chance(128) {
            self.draw.below(5).to_string()
        } else {
            let free = self.operand();
            self.assign(&format!("and.u32 {free}, 3"))
        };
        self.next += 1;
        let counter = format!("%k{}", self.next);
        let step = if self.draw.chance(50) { " step 2" } else { "" };
        self.line(&format!("for {counter} in {lo}..{hi}{step} {{"));
        self.values.push(counter);
        self.loops += 1;
        self.depth += 1;
        let lines = self.draw.between(1, 8);
        self.block(lines);
        self.depth -= 1;
        self.loops -= 1;
        self.values.pop();
        self.line("}");
    }
}
