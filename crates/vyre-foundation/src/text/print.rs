//! From a program to its text.
//!
//! The text reads back as the same program, whether it is valid or not: a literal is written with its type wherever
//! its position expects another one, and all operands are written, whatever the op takes.

use super::layout::{self, Columns};
use super::literal;
use super::source_map::{Lines, SourceMap};
use crate::diagnostic::Span;
use crate::ir::{
    ArgType, Block, Body, Buffer, BufferId, BufferKind, DataType, Function, Literal, Local, Node, Operand,
    Program, ProgramParts, Tile, Value, walk,
};
use crate::math;
use std::fmt::Write;

/// The text of a program, in canonical layout.
///
/// ```
/// use vyre_foundation::{ir::Program, text::print};
/// assert_eq!(print(&Program::empty()), "program @empty workgroup(1, 1, 1) {\n}\n");
/// ```
pub fn print(program: &Program) -> String {
    let mut printer = Printer::new(program, None);
    printer.program();
    printer.out
}

/// The text of a program, and where in it each part stands.
pub fn print_with_map(program: &Program) -> (String, SourceMap) {
    let mut printer = Printer::new(program, Some(SourceMap::default()));
    printer.program();
    (printer.out, printer.map.unwrap_or_default())
}

struct Printer<'p> {
    parts: &'p ProgramParts,
    /// The functions and the buffers that the library has and the text leaves out.
    elided: Option<(Vec<bool>, Vec<bool>)>,
    /// The body that is being printed, and what its function returns.
    body: &'p Body,
    returns: Option<DataType>,
    out: String,
    map: Option<SourceMap>,
    lines: Lines,
    line: u32,
    line_start: usize,
}

impl<'p> Printer<'p> {
    fn new(program: &'p Program, map: Option<SourceMap>) -> Printer<'p> {
        let parts = program.parts();
        Printer {
            parts,
            elided: math::elided(parts),
            body: &parts.body,
            returns: None,
            out: String::new(),
            map,
            lines: Lines::new(),
            line: 1,
            line_start: 0,
        }
    }

    fn program(&mut self) {
        let parts = self.parts;
        let [x, y, z] = parts.workgroup;
        let _ = write!(self.out, "program @{} workgroup({x}, {y}, {z})", parts.name);
        if let Some(width) = parts.subgroup {
            let _ = write!(self.out, " subgroup({width})");
        }
        self.out.push_str(" {");
        let span = self.span();
        if let Some(map) = &mut self.map {
            map.program = Some(span);
        }
        self.end_line();
        self.buffers();
        for (at, function) in parts.functions.iter().enumerate() {
            if self.elided.as_ref().is_some_and(|(functions, _)| functions[at]) {
                self.leave_out(function);
                continue;
            }
            self.blank_line_after_declarations();
            self.function(function);
        }
        if !parts.body.block.is_empty() {
            self.blank_line_after_declarations();
        }
        let lines = self.block_of(&parts.body, None, 1);
        if let Some(map) = &mut self.map {
            map.body = lines;
        }
        self.out.push_str("}\n");
    }

    /// Keeps the place of a library function in the map; its lines stand in no text.
    fn leave_out(&mut self, function: &Function) {
        let Some(map) = &mut self.map else { return };
        let span = map.program.expect("the header has been printed");
        let mut lines = Lines::new();
        walk(&function.body.block, |_, _, _| lines.push(span));
        map.functions.push((span, lines));
    }

    fn blank_line_after_declarations(&mut self) {
        if self.line > 2 {
            self.end_line();
        }
    }

    /// Ends the line that is being written.
    fn end_line(&mut self) {
        self.out.push('\n');
        self.line += 1;
        self.line_start = self.out.len();
    }

    /// The span of the line that is being written, without its indentation.
    fn span(&self) -> Span {
        let text = &self.out.as_bytes()[self.line_start..];
        let blank = text.iter().take_while(|byte| **byte == b' ').count();
        Span { line: self.line, column: blank as u32 + 1, columns: (text.len() - blank).max(1) as u32 }
    }

    fn buffers(&mut self) {
        // What the library has stands behind all others.
        let own = |(_, left_out): &(Vec<bool>, Vec<bool>)| left_out.iter().filter(|out| !**out).count();
        let shown = self.elided.as_ref().map_or(self.parts.buffers.len(), own);
        let buffers = &self.parts.buffers[..shown];
        let mut at = 0;
        while at < buffers.len() {
            let run = buffers[at..].iter().take_while(|buffer| !is_table(buffer)).count();
            if run == 0 {
                self.table(&buffers[at]);
                at += 1;
                continue;
            }
            let rows: Vec<[String; 3]> = buffers[at..at + run].iter().map(row).collect();
            let columns = Columns::of(rows.iter().map(|row| row.each_ref().map(String::as_str)));
            for (buffer, row) in buffers[at..at + run].iter().zip(&rows) {
                layout::indent(&mut self.out, 1);
                let row = row.each_ref().map(String::as_str);
                layout::buffer(&mut self.out, columns, row, &binding(buffer));
                self.end_buffer(self.span());
            }
            at += run;
        }
    }

    fn end_buffer(&mut self, span: Span) {
        if let Some(map) = &mut self.map {
            map.buffers.push(span);
        }
        self.end_line();
    }

    fn table(&mut self, buffer: &Buffer) {
        let BufferKind::Table { data } = &buffer.kind else {
            unreachable!("only tables are printed as tables")
        };
        layout::indent(&mut self.out, 1);
        let (name, ty) = (&buffer.name, buffer.ty);
        let _ = write!(self.out, "const @{name} : {ty}[{}] = ", data.len());
        let mut text = String::new();
        let mut ends = Vec::with_capacity(data.len());
        for bits in data {
            literal::print(&mut text, Literal::from_bits(ty, *bits));
            ends.push(text.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let items = starts.zip(ends.iter().copied()).map(|(start, end)| &text[start..end]);
        let used = self.out.len() - self.line_start;
        let mut span = self.span();
        let list_at = self.out.len();
        let lines = layout::list(&mut self.out, 1, used, items);
        // The span is the first line's.
        let first = self.out[list_at..].find('\n').unwrap_or(self.out.len() - list_at);
        span.columns = (list_at + first - self.line_start) as u32 - (span.column - 1);
        self.line += lines;
        self.end_buffer(span);
    }

    fn function(&mut self, function: &'p Function) {
        layout::indent(&mut self.out, 1);
        let _ = write!(self.out, "fn @{}(", function.name);
        for (at, (param, ty)) in function.params.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            let _ = write!(self.out, "{comma}%{} : {ty}", function.body.values[param.index()]);
        }
        self.out.push(')');
        if let Some(ty) = function.result {
            let _ = write!(self.out, " -> {ty}");
        }
        self.out.push_str(" {");
        let span = self.span();
        self.end_line();
        let lines = self.block_of(&function.body, function.result, 2);
        self.out.push_str("  }");
        self.end_line();
        if let Some(map) = &mut self.map {
            map.functions.push((span, lines));
        }
    }

    /// Prints a whole body and gives its lines' places.
    fn block_of(&mut self, body: &'p Body, returns: Option<DataType>, depth: usize) -> Lines {
        (self.body, self.returns) = (body, returns);
        self.block(&body.block, depth);
        std::mem::take(&mut self.lines)
    }

    /// Prints lines; the nesting limit of sealed programs bounds the recursion.
    fn block(&mut self, block: &'p Block, depth: usize) {
        let mut aligned_to = 0;
        let mut run_ends = 0;
        for (at, node) in block.iter().enumerate() {
            layout::indent(&mut self.out, depth);
            if let Some(result) = assigned(node) {
                if at >= run_ends {
                    let run = || block[at..].iter().map_while(assigned);
                    run_ends = at + run().count();
                    aligned_to = layout::column(run().map(|value| self.value_name(value).len()));
                }
                let name = self.value_name(result);
                self.out.push('%');
                self.out.push_str(name);
                layout::pad(&mut self.out, aligned_to.saturating_sub(name.len()));
                self.out.push_str(" = ");
            }
            self.node(node);
            if self.map.is_some() {
                let span = self.span();
                self.lines.push(span);
            }
            self.end_line();
            self.blocks_of(node, depth);
        }
    }

    /// Prints the blocks of a line, with what closes them.
    fn blocks_of(&mut self, node: &'p Node, depth: usize) {
        let mut first = true;
        for block in node.blocks() {
            if !first && block.is_empty() {
                break;
            }
            if !first {
                layout::indent(&mut self.out, depth);
                self.out.push_str("} else {");
                self.end_line();
            }
            self.block(block, depth + 1);
            first = false;
        }
        if !first {
            layout::indent(&mut self.out, depth);
            self.out.push('}');
            self.end_line();
        }
    }

    fn value_name(&self, value: Value) -> &'p str {
        &self.body.values[value.index()]
    }

    fn op(&mut self, name: &str, ty: DataType) {
        self.out.push_str(name);
        self.out.push('.');
        self.out.push_str(ty.name());
    }

    /// Prints a line behind its `%r =`; of a block, its head.
    fn node(&mut self, node: &Node) {
        let name = node.op().name();
        match node {
            Node::Compute { op, ty, args, .. } => {
                self.op(name, *ty);
                self.args(args, op.info().args, *ty);
            }
            Node::Builtin { axis, .. } => {
                self.out.push_str(name);
                if let Some(axis) = axis {
                    self.out.push(' ');
                    self.out.push_str(axis.name());
                }
            }
            Node::Subgroup { op, ty, args, .. } => {
                if op.info().types.is_empty() {
                    self.out.push_str(name);
                } else {
                    self.op(name, *ty);
                }
                self.args(args, op.info().args, *ty);
            }
            Node::Load { ty, buffer, index, .. } | Node::UniformLoad { ty, buffer, index, .. } => {
                self.op(name, *ty);
                self.element(*buffer, *index);
            }
            Node::Store { ty, buffer, index, value } => {
                self.op(name, *ty);
                self.element(*buffer, *index);
                self.and_value(*ty, *value);
            }
            Node::Len { buffer, .. } => {
                self.out.push_str(name);
                self.buffer(*buffer);
            }
            Node::Atomic { op, ty, buffer, index, args, .. } => {
                self.op(name, *ty);
                self.element(*buffer, *index);
                for (at, arg) in args.iter().enumerate() {
                    self.out.push_str(", ");
                    self.operand(*arg, op.info().args.get(at + 1).and_then(|want| want.under(*ty)));
                }
            }
            Node::Var { local, ty, len, init } => self.var(*local, *ty, *len, *init),
            Node::Get { ty, local, index, .. } => {
                self.op(name, *ty);
                self.local(*local, *index);
            }
            Node::Set { ty, local, index, value } => {
                self.op(name, *ty);
                self.local(*local, *index);
                self.and_value(*ty, *value);
            }
            Node::Mma { m, n, k, c, a, b } => self.mma([*m, *n, *k], [c, a, b]),
            Node::If { cond, .. } => {
                self.out.push_str("if ");
                self.operand(*cond, Some(DataType::Bool));
                self.out.push_str(" {");
            }
            Node::For { counter, lo, hi, step, .. } => self.for_head(*counter, [*lo, *hi], *step),
            Node::Break | Node::Continue | Node::Barrier { .. } => self.out.push_str(name),
            Node::Call { function, args, .. } => {
                let callee = &self.parts.functions[function.index()];
                if self.elided.as_ref().is_some_and(|(functions, _)| functions[function.index()])
                    && let Some((name, ty)) =
                        callee.name.strip_prefix("math.").zip(callee.params.first().map(|param| param.1))
                {
                    self.out.push_str(name);
                    return self.args(args, &[ArgType::Same; 2], ty);
                }
                let _ = write!(self.out, "call @{}(", callee.name);
                for (at, arg) in args.iter().enumerate() {
                    self.out.push_str(if at > 0 { ", " } else { "" });
                    self.operand(*arg, callee.params.get(at).map(|param| param.1));
                }
                self.out.push(')');
            }
            Node::Return { value } => {
                self.out.push_str(name);
                if let Some(value) = value {
                    self.out.push(' ');
                    self.operand(*value, self.returns);
                }
            }
            Node::IndirectDispatch { buffer, offset } => {
                self.out.push_str(name);
                self.element(*buffer, Operand::Literal(Literal::u32(*offset)));
            }
            Node::AllReduce { op, ty, dst, src } | Node::ReduceScatter { op, ty, dst, src } => {
                self.op(name, *ty);
                let _ = write!(self.out, " {},", op.name());
                self.two_buffers(*dst, *src);
            }
            Node::AllGather { ty, dst, src } => {
                self.op(name, *ty);
                self.two_buffers(*dst, *src);
            }
            Node::Broadcast { ty, dst, src, root } => {
                self.op(name, *ty);
                self.two_buffers(*dst, *src);
                let _ = write!(self.out, ", {root}");
            }
            Node::Trap { code } => {
                let _ = write!(self.out, "{name} {code}");
            }
        }
    }

    fn var(&mut self, local: Local, ty: DataType, len: Option<u32>, init: Operand) {
        let _ = write!(self.out, "var ${} : {ty}", self.body.locals[local.index()]);
        if let Some(len) = len {
            let _ = write!(self.out, "[{len}]");
        }
        self.out.push_str(" = ");
        self.operand(init, Some(ty.computes_as()));
    }

    fn mma(&mut self, [m, n, k]: [u32; 3], tiles: [&Tile; 3]) {
        let _ = write!(self.out, "mma.i32.i8 {m}, {n}, {k}");
        for tile in tiles {
            self.out.push(',');
            self.element(tile.buffer, tile.offset);
        }
    }

    fn for_head(&mut self, counter: Value, [lo, hi]: [Operand; 2], step: u32) {
        let _ = write!(self.out, "for %{} in ", self.value_name(counter));
        self.operand(lo, Some(DataType::U32));
        self.out.push_str("..");
        self.operand(hi, Some(DataType::U32));
        if step != 1 {
            let _ = write!(self.out, " step {step}");
        }
        self.out.push_str(" {");
    }

    fn args(&mut self, args: &[Operand], wanted: &[ArgType], ty: DataType) {
        for (at, arg) in args.iter().enumerate() {
            self.out.push_str(if at > 0 { ", " } else { " " });
            self.operand(*arg, wanted.get(at).and_then(|want| want.under(ty)));
        }
    }

    fn operand(&mut self, operand: Operand, expected: Option<DataType>) {
        match operand {
            Operand::Value(value) => {
                self.out.push('%');
                self.out.push_str(self.value_name(value));
            }
            Operand::Literal(literal) if expected == Some(literal.ty()) => {
                literal::print(&mut self.out, literal);
            }
            Operand::Literal(literal) => literal::print_typed(&mut self.out, literal),
        }
    }

    /// ` @b`
    fn buffer(&mut self, buffer: BufferId) {
        self.out.push_str(" @");
        self.out.push_str(&self.parts.buffer(buffer).name);
    }

    /// ` @dst, @src`
    fn two_buffers(&mut self, dst: BufferId, src: BufferId) {
        self.buffer(dst);
        self.out.push(',');
        self.buffer(src);
    }

    /// ` @b[%i]`
    fn element(&mut self, buffer: BufferId, index: Operand) {
        self.buffer(buffer);
        self.index(index);
    }

    fn index(&mut self, index: Operand) {
        self.out.push('[');
        self.operand(index, Some(DataType::U32));
        self.out.push(']');
    }

    /// ` $v` or ` $a[%i]`
    fn local(&mut self, local: Local, index: Option<Operand>) {
        self.out.push_str(" $");
        self.out.push_str(&self.body.locals[local.index()]);
        if let Some(index) = index {
            self.index(index);
        }
    }

    /// `, %v`
    fn and_value(&mut self, ty: DataType, value: Operand) {
        self.out.push_str(", ");
        self.operand(value, Some(ty.computes_as()));
    }
}

/// The value that is written before a line's `=`.
fn assigned(node: &Node) -> Option<Value> {
    match node {
        Node::For { .. } => None,
        other => other.result(),
    }
}

fn is_table(buffer: &Buffer) -> bool {
    matches!(buffer.kind, BufferKind::Table { .. })
}

/// A buffer's name, kind and type as columns.
fn row(buffer: &Buffer) -> [String; 3] {
    let kind = match buffer.kind {
        BufferKind::Uniform { .. } => "uniform",
        BufferKind::Read { .. } => "read",
        BufferKind::ReadWrite { .. } => "read_write",
        BufferKind::Workgroup => "workgroup",
        BufferKind::Table { .. } => unreachable!("tables are not printed as rows"),
    };
    let ty = match buffer.len {
        Some(len) => format!("{}[{len}]", buffer.ty),
        None => format!("{}[]", buffer.ty),
    };
    [format!("@{}", buffer.name), kind.to_string(), ty]
}

fn binding(buffer: &Buffer) -> String {
    let output = if buffer.is_output() { " output" } else { "" };
    buffer.binding().map_or(String::new(), |binding| format!("binding {binding}{output}"))
}
