//! Puts every function where it is called, and drops the functions.
//!
//! Functions are never recursive and `validate` has bounded the lines and the nesting of the program with its
//! functions inlined, so nothing can grow out of hand here. After this pass a program has no calls, which later passes
//! and backends build on.
//!
//! Calls may chain through thousands of functions, so the walk keeps its own stack; it is linear in what it writes.

use super::edit::base_name;
use crate::ir::{Block, Body, Function, FunctionId, Local, Node, Operand, ProgramParts, Value};

pub(super) fn run(parts: &mut ProgramParts) {
    if parts.functions.is_empty() {
        return;
    }
    let functions = std::mem::take(&mut parts.functions);
    let block = std::mem::take(&mut parts.body.block);
    let identity = (0..parts.body.values.len() as u32).map(|value| Operand::Value(Value(value))).collect();
    let mut inliner = Inliner {
        functions: &functions,
        activations: vec![Activation {
            function: None,
            values: identity,
            locals: Vec::new(),
            result: None,
            returned: None,
        }],
        frames: vec![Frame { rest: block.iter(), out: Vec::with_capacity(block.len()), open: Open::Body }],
        body: &mut parts.body,
    };
    let block = inliner.run();
    parts.body.block = block;
}

/// One function being copied: what its values and locals became in the main body.
struct Activation<'a> {
    /// `None` for the main body, whose values and locals stay.
    function: Option<&'a Function>,
    values: Vec<Operand>,
    locals: Vec<Local>,
    /// Where the caller wants the result.
    result: Option<Value>,
    returned: Option<Operand>,
}

/// A block being copied.
struct Frame<'a> {
    rest: std::slice::Iter<'a, Node>,
    out: Block,
    open: Open<'a>,
}

/// What to do where a block ends.
enum Open<'a> {
    Body,
    Call,
    Then { cond: Operand, otherwise: &'a Block },
    Otherwise { cond: Operand, then: Block },
    Loop { counter: Value, lo: Operand, hi: Operand, step: u32 },
}

struct Inliner<'a, 'b> {
    functions: &'a [Function],
    activations: Vec<Activation<'a>>,
    frames: Vec<Frame<'a>>,
    body: &'b mut Body,
}

impl<'a> Inliner<'a, '_> {
    fn run(&mut self) -> Block {
        loop {
            let frame = self.frames.last_mut().expect("the body's frame ends the walk");
            match frame.rest.next() {
                Some(node) => self.line(node),
                None => {
                    if let Some(block) = self.close() {
                        return block;
                    }
                }
            }
        }
    }

    fn line(&mut self, node: &'a Node) {
        match node {
            Node::Call { result, function, args } => self.call(*result, *function, args),
            Node::Return { value } => {
                let returned = value.map(|value| self.operand(value));
                self.activation().returned = returned;
            }
            Node::If { cond, then, otherwise } => {
                let cond = self.operand(*cond);
                self.open(then, Open::Then { cond, otherwise });
            }
            Node::For { counter, lo, hi, step, body } => {
                let (lo, hi) = (self.operand(*lo), self.operand(*hi));
                let counter = self.define(*counter);
                self.open(body, Open::Loop { counter, lo, hi, step: *step });
            }
            other => self.plain(other.clone()),
        }
    }

    fn plain(&mut self, mut node: Node) {
        node.for_each_operand_mut(|operand| *operand = self.operand(*operand));
        if let Some(result) = node.result_mut() {
            *result = self.define(*result);
        }
        let declares = matches!(node, Node::Var { .. });
        if let Some(local) = node.local_mut() {
            *local = self.local(*local, declares);
        }
        self.frame().out.push(node);
    }

    fn call(&mut self, result: Option<Value>, id: FunctionId, args: &[Operand]) {
        let function = &self.functions[id.index()];
        // Every value of the callee is assigned before it is read, so the placeholders are never seen.
        let mut values: Vec<Operand> =
            (0..function.body.values.len() as u32).map(|value| Operand::Value(Value(value))).collect();
        for ((param, _), arg) in function.params.iter().zip(args) {
            values[param.index()] = self.operand(*arg);
        }
        let locals = (0..function.body.locals.len() as u32).map(Local).collect();
        self.activations.push(Activation {
            function: Some(function),
            values,
            locals,
            result,
            returned: None,
        });
        // The function's lines go on in the caller's block.
        let out = std::mem::take(&mut self.frame().out);
        self.frames.push(Frame { rest: function.body.block.iter(), out, open: Open::Call });
    }

    fn open(&mut self, block: &'a Block, open: Open<'a>) {
        self.frames.push(Frame { rest: block.iter(), out: Vec::with_capacity(block.len()), open });
    }

    /// Ends the innermost block; gives the whole body back where that was the last.
    fn close(&mut self) -> Option<Block> {
        let Frame { out, open, .. } = self.frames.pop().expect("a block is open");
        match open {
            Open::Body => return Some(out),
            Open::Call => {
                self.frame().out = out;
                let callee = self.activations.pop().expect("a call is open");
                let caller = self.activation();
                if let (Some(result), Some(returned)) = (callee.result, callee.returned) {
                    caller.values[result.index()] = returned;
                }
            }
            Open::Then { cond, otherwise } => self.open(otherwise, Open::Otherwise { cond, then: out }),
            Open::Otherwise { cond, then } => {
                self.frame().out.push(Node::If { cond, then, otherwise: out });
            }
            Open::Loop { counter, lo, hi, step } => {
                self.frame().out.push(Node::For { counter, lo, hi, step, body: out });
            }
        }
        None
    }

    fn frame(&mut self) -> &mut Frame<'a> {
        self.frames.last_mut().expect("a block is open")
    }

    fn activation(&mut self) -> &mut Activation<'a> {
        self.activations.last_mut().expect("the main body is always active")
    }

    fn operand(&mut self, operand: Operand) -> Operand {
        match operand {
            Operand::Value(value) => self.activation().values[value.index()],
            Operand::Literal(_) => operand,
        }
    }

    /// The main body's value for one that a line in hand assigns.
    fn define(&mut self, value: Value) -> Value {
        let Some(callee) = self.activation().function else { return value };
        let new = self.body.new_value(base_name(&callee.body.values[value.index()]));
        self.activation().values[value.index()] = Operand::Value(new);
        new
    }

    fn local(&mut self, local: Local, declares: bool) -> Local {
        let Some(callee) = self.activation().function else { return local };
        if declares {
            let new = self.body.new_local(base_name(&callee.body.locals[local.index()]));
            self.activation().locals[local.index()] = new;
        }
        self.activation().locals[local.index()]
    }
}
