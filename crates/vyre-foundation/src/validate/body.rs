//! One walk over a body: scopes, the placement of lines, and for each line the checks of `line` and `memory`.
//!
//! Control flow is structured, so a value is assigned on every path to a use exactly if its line stands above the use
//! in the same block or in one around it. Scopes are therefore all there is to definite assignment.

use super::Findings;
use crate::diagnostic::Place;
use crate::ir::{
    Block, Body, Buffer, BufferId, DataType, FunctionId, Local, Node, Operand, ProgramParts, Value,
};
use rustc_hash::FxHashMap;

/// Checks the lines of one function, or of the main body.
pub(super) fn check(parts: &ProgramParts, function: Option<FunctionId>, findings: &mut Findings) {
    let body = match function {
        Some(id) => &parts.functions[id.index()].body,
        None => &parts.body,
    };
    let mut check = BodyCheck {
        parts,
        function,
        body,
        findings,
        site: 0,
        next_site: 0,
        loops: 0,
        values: Scopes::new(body.values.len()),
        locals: Scopes::new(body.locals.len()),
        value_types: vec![None; body.values.len()],
        local_types: vec![None; body.locals.len()],
        taken: FxHashMap::default(),
    };
    check.params();
    check.block(&body.block, true);
    check.missing_return();
}

/// A local as its `var` declares it.
#[derive(Clone, Copy)]
pub(super) struct LocalType {
    pub(super) ty: DataType,
    pub(super) len: Option<u32>,
}

/// What the walk knows at the line it stands on.
pub(super) struct BodyCheck<'a> {
    pub(super) parts: &'a ProgramParts,
    pub(super) function: Option<FunctionId>,
    body: &'a Body,
    findings: &'a mut Findings,
    pub(super) site: u32,
    next_site: u32,
    loops: u32,
    values: Scopes<'a>,
    locals: Scopes<'a>,
    value_types: Vec<Option<DataType>>,
    pub(super) local_types: Vec<Option<LocalType>>,
    /// The names of values, filled when a fix first needs a new one, with the last
    /// number given to one of that name.
    taken: FxHashMap<String, u32>,
}

impl<'a> BodyCheck<'a> {
    /// Reports a finding about the current line.
    pub(super) fn report(&mut self, code: &'static str, message: impl Into<String>, fix: impl Into<String>) {
        let place = Place::Line { function: self.function, site: self.site };
        self.findings.report(code, place, message, fix);
    }

    /// The value's name as text writes it.
    pub(super) fn value(&self, value: Value) -> String {
        format!("`%{}`", self.body.values[value.index()])
    }

    /// A name for `value` cast to `ty` that the body does not have yet, with its sigil.
    pub(super) fn fresh_name(&mut self, value: Value, ty: DataType) -> String {
        if self.taken.is_empty() {
            self.taken.extend(self.body.values.iter().map(|name| (name.to_string(), 0)));
        }
        let base = format!("{}.{ty}", self.body.values[value.index()]);
        let mut number = self.taken.get(&base).copied().unwrap_or(0);
        let mut name = base.clone();
        while self.taken.contains_key(&name) {
            number += 1;
            name = format!("{base}.{number}");
        }
        self.taken.insert(base, number);
        self.taken.entry(name.clone()).or_insert(0);
        format!("%{name}")
    }

    /// The local's name as text writes it.
    pub(super) fn local(&self, local: Local) -> String {
        format!("`${}`", self.body.locals[local.index()])
    }

    /// The buffer's name as text writes it.
    pub(super) fn name(&self, buffer: BufferId) -> String {
        format!("`@{}`", self.parts.buffer(buffer).name)
    }

    /// The declaration of a buffer.
    pub(super) fn buffer(&self, buffer: BufferId) -> &'a Buffer {
        self.parts.buffer(buffer)
    }

    /// The operand's type; `None` if its own line does not tell.
    pub(super) fn operand_type(&self, operand: Operand) -> Option<DataType> {
        match operand {
            Operand::Value(value) => self.value_types[value.index()],
            Operand::Literal(literal) => Some(literal.ty()),
        }
    }

    fn params(&mut self) {
        let Some(id) = self.function else { return };
        let function = &self.parts.functions[id.index()];
        for (param, ty) in &function.params {
            if self.values.open(param.0) {
                self.value_types[param.index()] = Some(*ty).filter(|ty| ty.computes());
            } else {
                let name = self.value(*param);
                self.findings.report(
                    "V034",
                    Place::Function(id),
                    format!("`@{}` has two parameters {name}", function.name),
                    format!("give the second {name} a name of its own"),
                );
            }
        }
    }

    fn block(&mut self, block: &'a Block, outermost: bool) {
        let mut ended = None;
        for (at, node) in block.iter().enumerate() {
            self.site = self.next_site;
            self.next_site += 1;
            if let Some(end) = ended.take() {
                self.report(
                    "V038",
                    format!("this line never runs: `{end}` above it leaves the block"),
                    format!("delete this line and those after it in its block, or move `{end}` below them"),
                );
            }
            if self.loops > 0 && matches!(node, Node::Break | Node::Continue) {
                ended = Some(node.op().name());
            }
            if matches!(node, Node::Return { .. }) {
                self.return_place(outermost && at + 1 == block.len());
            }
            self.node(node);
        }
    }

    fn node(&mut self, node: &'a Node) {
        node.for_each_operand(|operand| {
            if let Operand::Value(value) = operand {
                self.use_value(node, value);
            }
        });
        self.line(node);
        if let Node::Var { local, ty, len, .. } = node {
            self.declare(*local, *ty, *len);
        } else if let Some(local) = node.local() {
            self.use_local(local);
        }
        if matches!(node, Node::Break | Node::Continue) {
            self.in_loop(node);
        }
        let is_loop = matches!(node, Node::For { .. });
        self.loops += u32::from(is_loop);
        for block in node.blocks() {
            let mark = (self.values.mark(), self.locals.mark());
            if let (true, Some(counter)) = (is_loop, node.result()) {
                self.assign(counter, Some(DataType::U32));
            }
            self.block(block, false);
            self.values.close(mark.0, node);
            self.locals.close(mark.1, node);
        }
        self.loops -= u32::from(is_loop);
        if let (false, Some(result)) = (is_loop, node.result()) {
            let ty = self.result_type(node);
            self.assign(result, ty);
        }
    }

    fn assign(&mut self, value: Value, ty: Option<DataType>) {
        if self.values.open(value.0) {
            self.value_types[value.index()] = ty;
            return;
        }
        let name = self.value(value);
        self.report(
            "V034",
            format!("{name} is assigned a second time, and a value is assigned once"),
            "give the second one a name of its own, or make it a local with `var`, `set` and `get`",
        );
    }

    fn declare(&mut self, local: Local, ty: DataType, len: Option<u32>) {
        if self.locals.open(local.0) {
            self.local_types[local.index()] = Some(LocalType { ty, len }).filter(|_| ty.computes());
            return;
        }
        let name = self.local(local);
        self.report(
            "V034",
            format!("{name} is declared a second time"),
            format!("give the second {name} a name of its own"),
        );
    }

    fn use_value(&mut self, node: &Node, value: Value) {
        let state = self.values.state(value.0);
        let name = match state {
            State::Open => return,
            State::Unseen | State::Closed(_) => self.value(value),
        };
        match state {
            State::Open => {}
            State::Unseen => {
                let fix = if self.loops > 0 {
                    format!(
                        "declare a local with `var` before the loop, `get` it here instead of {name}, and `set` it \
                         to {name} where that is assigned"
                    )
                } else if node.result() == Some(value) {
                    format!("name a value here that is assigned above, not {name} itself")
                } else {
                    format!("move the line that assigns {name} above this one")
                };
                self.report("V035", format!("{name} is used before it is assigned"), fix);
            }
            State::Closed(header) => {
                let block = self.block_name(header);
                self.report(
                    "V036",
                    format!("{name} is used outside the block of {block}, which assigns it"),
                    format!(
                        "declare a local with `var` before {block}, `set` it to {name} at the end of the block, \
                         and `get` it here"
                    ),
                );
            }
        }
    }

    fn use_local(&mut self, local: Local) {
        let state = self.locals.state(local.0);
        let name = match state {
            State::Open => return,
            State::Unseen | State::Closed(_) => self.local(local),
        };
        match state {
            State::Open => {}
            State::Unseen => self.report(
                "V035",
                format!("{name} is used before its `var`"),
                format!("move the `var` of {name} above this line"),
            ),
            State::Closed(header) => {
                let block = self.block_name(header);
                self.report(
                    "V036",
                    format!("{name} is used outside the block of {block}, which declares it"),
                    format!("move the `var` of {name} above {block}"),
                );
            }
        }
    }

    /// The line that opens a block, as a message shows it.
    fn block_name(&self, header: &Node) -> String {
        let shown = if let Node::If { cond, .. } = header { cond.value() } else { header.result() };
        match shown {
            Some(value) => format!("`{} %{}`", header.op(), self.body.values[value.index()]),
            None => format!("`{}`", header.op()),
        }
    }

    fn in_loop(&mut self, node: &Node) {
        if self.loops == 0 {
            let op = node.op();
            let fix = format!("delete the `{op}`, and put the lines that only some lanes run into an `if`");
            self.report("V037", format!("`{op}` is outside any loop"), fix);
        }
    }

    fn return_place(&mut self, last: bool) {
        let message = match self.function {
            Some(_) if last => return,
            Some(_) => "`return` is not on the function's last line".to_string(),
            None => "`return` is in the main body, which has no result".to_string(),
        };
        let fix = match self.function.map(|id| self.parts.functions[id.index()].result) {
            Some(Some(ty)) => format!(
                "declare `var $result : {ty}` with a first value at the top, `set.{ty}` it here, and return it on \
                 the last line"
            ),
            Some(None) => "delete the `return`, and put the lines it should skip into an `if`".to_string(),
            None => "delete the `return`; put lines that only some lanes run into an `if`".to_string(),
        };
        self.report("V026", message, fix);
    }

    fn missing_return(&mut self) {
        let Some(id) = self.function else { return };
        let function = &self.parts.functions[id.index()];
        let Some(ty) = function.result else { return };
        let mut returns = false;
        crate::ir::walk(&function.body.block, |_, _, node| returns |= matches!(node, Node::Return { .. }));
        if !returns {
            self.findings.report(
                "V027",
                Place::Function(id),
                format!("`@{}` declares a result of type {ty} and does not end with `return`", function.name),
                format!(
                    "end `@{}` with `return` and a value of type {ty}, or delete `-> {ty}`",
                    function.name
                ),
            );
        }
    }
}

#[derive(Clone, Copy)]
enum State<'a> {
    Unseen,
    Open,
    /// The block of this line has ended.
    Closed(&'a Node),
}

/// Which values, or which locals, are assigned where the walk stands.
struct Scopes<'a> {
    states: Vec<State<'a>>,
    open: Vec<u32>,
}

impl<'a> Scopes<'a> {
    fn new(count: usize) -> Scopes<'a> {
        Scopes { states: vec![State::Unseen; count], open: Vec::new() }
    }

    fn state(&self, id: u32) -> State<'a> {
        self.states[id as usize]
    }

    /// Opens `id` in the current scope; false if it is open already.
    fn open(&mut self, id: u32) -> bool {
        if matches!(self.states[id as usize], State::Open) {
            return false;
        }
        self.states[id as usize] = State::Open;
        self.open.push(id);
        true
    }

    fn mark(&self) -> usize {
        self.open.len()
    }

    fn close(&mut self, mark: usize, header: &'a Node) {
        for id in self.open.drain(mark..) {
            self.states[id as usize] = State::Closed(header);
        }
    }
}
