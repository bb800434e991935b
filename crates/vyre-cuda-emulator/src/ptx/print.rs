//! A tree as PTX text, which parses to the same tree.
//!
//! Every instruction goes on the line that it came from, so what a compiler says about the printed text holds for the
//! original too. Not kept: comments, what the tree leaves out (`.visible` and `.weak` read the same), and the sign in the
//! names that the parser gives to registers of inner blocks, which no text can have.

use super::{Entry, Initial, Instruction, Module, Operand, Statement, Variable};

/// The text of a module.
pub fn print(module: &Module) -> String {
    let (major, minor) = module.version;
    // Each on a line of its own, as every tool that searches for them expects.
    let text = format!(".version {major}.{minor}\n.target {}\n.address_size 64", module.target.join(", "));
    let mut out = Printer { text, line: 3 };
    let mut variables = module.variables.iter().peekable();
    for entry in &module.entries {
        while let Some(variable) = variables.next_if(|variable| variable.line <= entry.line) {
            out.variable(variable);
        }
        out.entry(entry);
    }
    variables.for_each(|variable| out.variable(variable));
    out.text.push('\n');
    out.text
}

/// One instruction with its guard and its semicolon.
pub(crate) fn instruction(instruction: &Instruction) -> String {
    let mut text = String::new();
    if let Some((register, negated)) = &instruction.guard {
        text += if *negated { "@!" } else { "@" };
        text += &name(register);
        text.push(' ');
    }
    text += &instruction.opcode;
    for modifier in &instruction.modifiers {
        text.push('.');
        text += modifier;
    }
    if !instruction.operands.is_empty() {
        text.push(' ');
        text += &list(&instruction.operands);
    }
    text.push(';');
    text
}

struct Printer {
    text: String,
    /// The line that the next character goes on, counted from 1.
    line: u32,
}

impl Printer {
    fn put(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push(' ');
        }
        self.text += text;
    }

    /// Starts the given line, unless the text is already there or past it.
    fn go_to(&mut self, line: u32) {
        for _ in self.line..line {
            self.text.push('\n');
        }
        self.line = self.line.max(line);
    }

    fn variable(&mut self, variable: &Variable) {
        self.go_to(variable.line);
        self.put(&format!("{};", declaration(variable)));
    }

    fn entry(&mut self, entry: &Entry) {
        self.go_to(entry.line);
        self.put(&format!(".visible .entry {}(", entry.name));
        for (i, param) in entry.params.iter().enumerate() {
            self.go_to(param.line);
            let comma = if i + 1 < entry.params.len() { "," } else { "" };
            self.put(&format!("{}{comma}", declaration(param)));
        }
        self.put(")");
        for (name, numbers) in &entry.directives {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            self.put(&format!(".{name} {}", numbers.join(", ")));
        }
        self.put("{");
        for (register, ty) in &entry.registers {
            self.put(&format!(".reg .{ty} {};", name(register)));
        }
        self.body(entry);
        self.put("}");
    }

    /// Variables are declared between instructions, by their lines.
    fn body(&mut self, entry: &Entry) {
        let mut variables = entry.variables.iter().peekable();
        for statement in &entry.body {
            match statement {
                Statement::Label(label) => self.put(&format!("{}:", name(label))),
                Statement::Instruction(found) => {
                    while let Some(variable) = variables.next_if(|variable| variable.line <= found.line) {
                        self.variable(variable);
                    }
                    self.go_to(found.line);
                    self.put(&instruction(found));
                }
            }
        }
        variables.for_each(|variable| self.variable(variable));
    }
}

fn declaration(variable: &Variable) -> String {
    let mut text = String::new();
    if variable.external {
        text += ".extern ";
    }
    text += &format!(".{} ", variable.space);
    if let Some(align) = variable.align {
        text += &format!(".align {align} ");
    }
    if variable.vector > 1 {
        text += &format!(".v{} ", variable.vector);
    }
    text += &format!(".{} {}", variable.ty, name(&variable.name));
    match variable.len {
        Some(1) => {}
        Some(len) => text += &format!("[{len}]"),
        None => text += "[]",
    }
    let values: Vec<String> = variable.init.iter().map(initial).collect();
    match (values.as_slice(), variable.len) {
        ([], _) => {}
        ([only], Some(1)) => text += &format!(" = {only}"),
        (several, _) => text += &format!(" = {{{}}}", several.join(", ")),
    }
    text
}

fn initial(value: &Initial) -> String {
    match value {
        Initial::Int(number) => number.to_string(),
        Initial::Float(bits, width) => float(*bits, *width),
        Initial::Symbol(name, 0) => name.clone(),
        Initial::Generic(name, 0) => format!("generic({name})"),
        Initial::Generic(name, offset) => format!("generic({name})+{offset}"),
        Initial::Symbol(name, offset) => format!("{name}+{offset}"),
    }
}

fn float(bits: u64, width: u32) -> String {
    if width == 32 { format!("0f{bits:08X}") } else { format!("0d{bits:016X}") }
}

fn list(operands: &[Operand]) -> String {
    operands.iter().map(operand).collect::<Vec<_>>().join(", ")
}

fn operand(operand: &Operand) -> String {
    match operand {
        Operand::Register(register) => name(register),
        Operand::Symbol(symbol) => name(symbol),
        Operand::Sum(symbol, offset) => format!("{}+{offset}", name(symbol)),
        Operand::Not(register) => format!("!{}", name(register)),
        Operand::Int(number) => number.to_string(),
        Operand::Float(bits, width) => float(*bits, *width),
        Operand::Address(base, 0) => format!("[{}]", self::operand(base)),
        Operand::Address(base, offset) => format!("[{}+{offset}]", self::operand(base)),
        Operand::Vector(parts) => format!("{{{}}}", list(parts)),
        Operand::Pair(a, b) => format!("{}|{}", self::operand(a), self::operand(b)),
        Operand::Discard => "_".into(),
    }
}

/// A register's name with a sign that a text can have.
fn name(register: &str) -> String {
    register.replace('#', "$inner")
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::print;

    /// One of everything that the tree can hold.
    const ALL: &str = r#".version 7.8
.target sm_90a, debug
.address_size 64
.const .align 8 .b8 table[4] = {1, 2, 3, 4};
.global .f32 half = 0f3F000000;
.global .u64 where = table+8;
.extern .shared .align 16 .b8 dynamic[];

.visible .entry kernel(
  .param .u64 b0, .param .align 8 .v2 .u32 pair,
  .param .b8 bytes[16]
)
.reqntid 33, 1, 1 .minnctapersm 2
{
  .reg .pred %p<2>; .reg .b32 %r<4>;
  .shared .align 16 .b8 tile[1024];
  .reg .b64 %d<3>;
  ld.param.u64 %d0, [b0+8];
  mov.u32 %r0, %tid.x;
  @!%p0 bra $end;
  .local .v4 .f32 own[2];
  { .reg .b32 %r1; mov.b32 %r1, -5; }
  setp.lt.and.f32 %p0|%p1, 0f7FC00000, 1.5, !%p1;
  ld.shared::cta.v2.u32 {%r1, _}, [tile+-4];
  { .shared .u32 tile; $l: mov.u64 %d1, tile+8; bra $l; }
  { $l: bra $l; }

$end:
  @%p1 st.global.b64 [%d0], 0xffffffffffffffff;
  ret;
}
.global .u32 last;
"#;

    #[test]
    fn a_printed_module_parses_to_the_same_tree() {
        let first = parse(ALL).unwrap();
        let text = print(&first);
        let second = parse(&text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        assert_eq!(print(&first), text);
        // Inner blocks' names have a sign that no text can have.
        assert_eq!(format!("{first:?}").replace('#', "$inner"), format!("{second:?}"));
    }
}
