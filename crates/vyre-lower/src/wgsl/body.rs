//! The lines of a body, each as a statement or a few.

use super::compute::literal;
use super::module::{Module, Text, word};
use super::names::Names;
use super::{Form, subgroup_width};
use vyre_foundation::ir::{
    AtomicOp, Axis, Block, Body as Lines, BufferId, BuiltinOp, DataType, Literal, Local, Node, Operand,
    Value, collective, walk,
};

pub(super) struct Body<'m, 'p> {
    pub(super) module: &'m mut Module<'p>,
    pub(super) text: Text,
    names: Names,
    values: Vec<String>,
    types: Vec<Option<DataType>>,
    locals: Vec<String>,
    /// Elements of the locals that are arrays.
    lens: Vec<Option<u32>>,
    /// The number of the next line, as `walk` counts.
    site: u32,
}

impl<'m, 'p> Body<'m, 'p> {
    pub(super) fn new(
        module: &'m mut Module<'p>,
        body: &Lines,
        types: Vec<Option<DataType>>,
        text: Text,
    ) -> Body<'m, 'p> {
        let mut names = Names::default();
        let mut claim = |name: &str| names.claim(Some(&module.names), name, &[]);
        let values = body.values.iter().map(|name| claim(name)).collect();
        let locals = body.locals.iter().map(|name| claim(name)).collect();
        let mut lens = vec![None; body.locals.len()];
        walk(&body.block, |_, _, node| {
            if let Node::Var { local, len, .. } = node {
                lens[local.index()] = *len;
            }
        });
        Body { module, text, names, values, types, locals, lens, site: 0 }
    }

    pub(super) fn value(&self, value: Value) -> &str {
        &self.values[value.index()]
    }

    pub(super) fn operand(&self, operand: Operand) -> String {
        match operand {
            Operand::Value(value) => self.value(value).to_owned(),
            Operand::Literal(constant) => literal(constant),
        }
    }

    pub(super) fn type_of(&self, operand: Operand) -> DataType {
        match operand {
            Operand::Value(value) => self.types[value.index()].expect("validated: it has a type"),
            Operand::Literal(constant) => constant.ty(),
        }
    }

    /// A name for something that the program has no name for.
    pub(super) fn temporary(&mut self, name: &str) -> String {
        self.names.claim(Some(&self.module.names), name, &[])
    }

    pub(super) fn assign(&mut self, result: Value, expression: &str) {
        self.text.line(format!("let {} = {expression};", self.values[result.index()]));
    }

    pub(super) fn block(&mut self, block: &Block) {
        block.iter().for_each(|node| self.node(node));
    }

    fn node(&mut self, node: &Node) {
        let site = self.site;
        self.site += 1;
        match node {
            Node::Compute { result, op, ty, args } => {
                let expression = self.compute_line(*op, *ty, args);
                self.assign(*result, &expression);
            }
            Node::Builtin { result, op, axis } => {
                let expression = self.builtin(*op, *axis);
                self.assign(*result, &expression);
            }
            Node::Load { result, ty, buffer, index } => {
                let index = self.operand(*index);
                let expression = self.proven_load(*ty, *buffer, &index, site);
                let expression = expression.unwrap_or_else(|| self.load(*ty, *buffer, &index));
                self.assign(*result, &expression);
            }
            Node::Store { ty, buffer, index, value } => {
                let (index, value) = (self.operand(*index), self.operand(*value));
                if !self.proven_store(*ty, *buffer, &index, &value, site) {
                    self.store(*ty, *buffer, &index, &value);
                }
            }
            Node::Len { result, buffer } => {
                let len = self.module.places[buffer.index()].len.clone();
                self.assign(*result, &len);
            }
            Node::Atomic { .. } => self.atomic(node),
            Node::Var { local, ty, len, init } => self.var(*local, *ty, *len, *init),
            Node::Get { result, ty, local, index } => self.get(*result, *ty, *local, *index),
            Node::Set { local, index, value, .. } => self.set(*local, *index, *value),
            Node::If { cond, then, otherwise } => self.branch(*cond, then, otherwise),
            Node::For { counter, lo, hi, step, body } => self.repeat(*counter, [*lo, *hi], *step, body),
            Node::Break => self.text.line("break;"),
            Node::Continue => self.text.line("continue;"),
            Node::Call { result, function, args } => {
                let args: Vec<String> = args.iter().map(|arg| self.operand(*arg)).collect();
                let call = format!("{}({})", self.module.called(*function), args.join(", "));
                match result {
                    Some(result) => self.assign(*result, &call),
                    None => self.text.line(format!("{call};")),
                }
            }
            Node::Return { value: Some(value) } => {
                let value = self.operand(*value);
                self.text.line(format!("return {value};"));
            }
            Node::Return { value: None } | Node::IndirectDispatch { .. } => {}
            Node::Trap { code } => self.trap(if self.module.form == Form::Driver { *code } else { site }),
            Node::Subgroup { .. } | Node::UniformLoad { .. } | Node::Barrier { .. } => self.together(node),
            Node::Mma { .. } | collective!() => unreachable!("legalised: loops of loads and stores"),
        }
    }

    fn builtin(&self, op: BuiltinOp, axis: Option<Axis>) -> String {
        let parts = self.module.parts;
        let axis = axis.unwrap_or(Axis::X);
        // Along an axis of one lane the place is uniform, and WGSL must see that it is.
        let local = |axis: Axis| match parts.workgroup[axis.index()] {
            1 => "0u".to_owned(),
            _ => format!("local_id.{}", axis.name()),
        };
        let global = |axis: Axis| match parts.workgroup[axis.index()] {
            1 => format!("workgroup_id.{}", axis.name()),
            size => format!("workgroup_id.{} * {size}u + {}", axis.name(), local(axis)),
        };
        let width = subgroup_width(parts);
        let [wide, high] = [parts.workgroup[0], parts.workgroup[1]];
        match op {
            BuiltinOp::GlobalId => global(axis),
            BuiltinOp::LocalId => local(axis),
            BuiltinOp::WorkgroupId => format!("workgroup_id.{}", axis.name()),
            BuiltinOp::NumWorkgroups => format!("grid.{}", axis.name()),
            BuiltinOp::WorkgroupSize => format!("{}u", parts.workgroup[axis.index()]),
            BuiltinOp::GlobalIndex => {
                let [x, y, z] = Axis::ALL.map(global);
                format!("{x} + grid.x * {wide}u * ({y} + grid.y * {high}u * ({z}))")
            }
            BuiltinOp::LocalIndex if parts.workgroup_lanes() == 1 => "0u".to_owned(),
            BuiltinOp::LocalIndex => "local_index".to_owned(),
            BuiltinOp::WorkgroupIndex => {
                "workgroup_id.x + grid.x * (workgroup_id.y + grid.y * workgroup_id.z)".to_owned()
            }
            BuiltinOp::SubgroupLane => format!("local_index % {width}u"),
            BuiltinOp::SubgroupIndex => format!("local_index / {width}u"),
        }
    }

    /// A word that is known to be there, as a value.
    fn proven_load(&self, ty: DataType, buffer: BufferId, index: &str, site: u32) -> Option<String> {
        if !matches!(ty, DataType::U32 | DataType::I32) || self.module.parts.buffer(buffer).ty != ty {
            return None;
        }
        let (element, atomic) = self.module.element(buffer, index, site)?;
        let word = if atomic { format!("atomicLoad(&{element})") } else { element };
        Some(if ty == DataType::I32 { format!("bitcast<i32>({word})") } else { word })
    }

    /// Stores to a word that is known to be there; whether it is.
    fn proven_store(&mut self, ty: DataType, buffer: BufferId, index: &str, value: &str, site: u32) -> bool {
        if !matches!(ty, DataType::U32 | DataType::I32) {
            return false;
        }
        let Some((element, atomic)) = self.module.element(buffer, index, site) else { return false };
        let word = if ty == DataType::I32 { format!("bitcast<u32>({value})") } else { value.to_owned() };
        self.text.line(match atomic {
            true => format!("atomicStore(&{element}, {word});"),
            false => format!("{element} = {word};"),
        });
        true
    }

    /// An element as a value.
    pub(super) fn load(&mut self, ty: DataType, buffer: BufferId, index: &str) -> String {
        let element = self.module.parts.buffer(buffer).ty;
        match ty {
            DataType::U32 if element == DataType::U8 => self.module.access(buffer, "load_bytes", index),
            DataType::I32 => format!("bitcast<i32>({})", self.module.access(buffer, "load_u32", index)),
            DataType::U64 | DataType::I64 => self.module.access(buffer, "load_u64", index),
            DataType::I8 | DataType::I16 => {
                let bits = ty.bits();
                let loaded = self.module.access(buffer, &format!("load_u{bits}"), index);
                format!("{}({loaded})", self.module.helper(&format!("extend_i{bits}")))
            }
            other => self.module.access(buffer, &format!("load_{other}"), index),
        }
    }

    pub(super) fn store(&mut self, ty: DataType, buffer: BufferId, index: &str, value: &str) {
        let value =
            if ty.computes_as() == DataType::I32 { format!("bitcast<u32>({value})") } else { value.into() };
        let arguments = format!("{index}, {value}");
        let call = self.module.access(buffer, &format!("store_u{}", ty.bits()), &arguments);
        self.text.line(format!("{call};"));
    }

    fn atomic(&mut self, node: &Node) {
        let Node::Atomic { result, op, ty, buffer, index, args } = node else {
            unreachable!("only atomics come here")
        };
        let index = self.operand(*index);
        let texts: Vec<String> = args.iter().map(|arg| self.operand(*arg)).collect();
        match (ty.bits(), result, op) {
            (32, _, _) => self.atomic_word(*result, *op, *ty, *buffer, &index, &texts),
            (_, None, AtomicOp::Add | AtomicOp::Sub | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) => {
                let name = format!("{}_u64", op.info().name);
                let call = self.module.access(*buffer, &name, &format!("{index}, {}", texts[0]));
                self.text.line(format!("{call};"));
            }
            (_, None, AtomicOp::Min | AtomicOp::Max) => self.locked(*op, *ty, *buffer, &index, &texts[0]),
            (_, _, _) => self.plain_exchange(*result, *op, *ty, *buffer, &index, &texts),
        }
    }

    fn atomic_word(
        &mut self,
        result: Option<Value>,
        op: AtomicOp,
        ty: DataType,
        buffer: BufferId,
        index: &str,
        args: &[String],
    ) {
        let signed = ty == DataType::I32;
        let args: Vec<String> = args
            .iter()
            .map(|arg| if signed { format!("bitcast<u32>({arg})") } else { arg.clone() })
            .collect();
        let ordered = matches!(op, AtomicOp::Min | AtomicOp::Max);
        let suffix = if signed && ordered { "i32" } else { "u32" };
        let name = format!("{}_{suffix}", op.info().name);
        let call = self.module.access(buffer, &name, &format!("{index}, {}", args.join(", ")));
        match result {
            None => self.text.line(format!("{call};")),
            Some(result) if signed => self.assign(result, &format!("bitcast<i32>({call})")),
            Some(result) => self.assign(result, &call),
        }
    }

    /// A 64-bit minimum or maximum that other lanes may run into.
    fn locked(&mut self, op: AtomicOp, ty: DataType, buffer: BufferId, index: &str, value: &str) {
        // What makes a maximum of unsigned numbers of it.
        let sign = if ty == DataType::I64 { 1 << 63 } else { 0 };
        let flip: u64 = if op == AtomicOp::Min { !sign } else { sign };
        let arguments = format!("{index}, {value}, vec2u({}u, {}u)", flip as u32, flip >> 32);
        let call = self.module.access(buffer, "atomic_extreme", &arguments);
        self.text.line(format!("{call};"));
    }

    /// A 64-bit read-modify-write that no other lane may run into.
    fn plain_exchange(
        &mut self,
        result: Option<Value>,
        op: AtomicOp,
        ty: DataType,
        buffer: BufferId,
        index: &str,
        args: &[String],
    ) {
        let old = match result {
            Some(result) => self.value(result).to_owned(),
            None => self.temporary("old"),
        };
        let loaded = self.load(ty, buffer, index);
        self.text.line(format!("let {old} = {loaded};"));
        match op.op() {
            Some(fold) => {
                let folded = self.compute(fold, ty, &[&old, &args[0]]);
                self.store(ty, buffer, index, &folded);
            }
            None if op == AtomicOp::Exchange => self.store(ty, buffer, index, &args[0]),
            None => {
                self.text.open(format!("if (all({old} == {})) {{", args[0]));
                self.store(ty, buffer, index, &args[1]);
                self.text.close("}");
            }
        }
    }

    fn var(&mut self, local: Local, ty: DataType, len: Option<u32>, init: Operand) {
        let name = self.locals[local.index()].clone();
        let (ty, value) = (word(ty), self.operand(init));
        let Some(len) = len else {
            return self.text.line(format!("var {name}: {ty} = {value};"));
        };
        self.text.line(format!("var {name}: array<{ty}, {len}>;"));
        if init.literal().is_none_or(|init| init.bits() != 0) {
            let each = self.temporary("each");
            self.text.open(format!("for (var {each} = 0u; {each} < {len}u; {each}++) {{"));
            self.text.line(format!("{name}[{each}] = {value};"));
            self.text.close("}");
        }
    }

    fn get(&mut self, result: Value, ty: DataType, local: Local, index: Option<Operand>) {
        let name = &self.locals[local.index()];
        let (Some(index), Some(len)) = (index, self.lens[local.index()]) else {
            return self.assign(result, &name.clone());
        };
        let zero = literal(Literal::from_bits(ty, 0));
        let expression = match index {
            // WGSL refuses a constant index that is out of bounds.
            Operand::Literal(at) if at.bits() >= u64::from(len) => zero,
            Operand::Literal(at) => format!("{name}[{}]", at.bits()),
            Operand::Value(at) => {
                let at = self.value(at);
                format!("select({zero}, {name}[min({at}, {}u)], {at} < {len}u)", len - 1)
            }
        };
        self.assign(result, &expression);
    }

    fn set(&mut self, local: Local, index: Option<Operand>, value: Operand) {
        let (name, value) = (self.locals[local.index()].clone(), self.operand(value));
        match (index, self.lens[local.index()]) {
            (Some(Operand::Literal(at)), Some(len)) => {
                if at.bits() < u64::from(len) {
                    self.text.line(format!("{name}[{}] = {value};", at.bits()));
                }
            }
            (Some(Operand::Value(at)), Some(len)) => {
                let at = self.value(at).to_owned();
                self.text.open(format!("if ({at} < {len}u) {{"));
                self.text.line(format!("{name}[{at}] = {value};"));
                self.text.close("}");
            }
            (None, _) | (_, None) => self.text.line(format!("{name} = {value};")),
        }
    }

    fn branch(&mut self, cond: Operand, then: &Block, otherwise: &Block) {
        let cond = self.operand(cond);
        self.text.open(format!("if ({cond}) {{"));
        self.block(then);
        if !otherwise.is_empty() {
            self.text.close("} else {");
            self.text.indent();
            self.block(otherwise);
        }
        self.text.close("}");
    }

    /// A loop. Where its counter could pass 2^32, the trips are counted instead.
    fn repeat(&mut self, counter: Value, [lo, hi]: [Operand; 2], step: u32, body: &Block) {
        let stays = match hi {
            Operand::Literal(hi) => hi.bits() + u64::from(step) - 1 <= u64::from(u32::MAX),
            Operand::Value(_) => step == 1,
        };
        let (lo, hi) = (self.operand(lo), self.operand(hi));
        let name = self.value(counter).to_owned();
        if stays {
            self.text.open(format!("for (var {name} = {lo}; {name} < {hi}; {name} += {step}u) {{"));
        } else {
            let (trips, trip) =
                (self.temporary(&format!("{name}_trips")), self.temporary(&format!("{name}_trip")));
            let count = self.module.helper("trips");
            self.text.line(format!("let {trips} = {count}({lo}, {hi}, {step}u);"));
            self.text.open(format!("for (var {trip} = 0u; {trip} < {trips}; {trip}++) {{"));
            self.text.line(format!("let {name} = {lo} + {trip} * {step}u;"));
        }
        self.block(body);
        self.text.close("}");
    }

    fn trap(&mut self, site: u32) {
        let call = format!("{}({}u);", self.module.helper("trap"), !site);
        match self.module.keeps_first_trap {
            false => self.text.line(call),
            true => {
                self.text.open("if (!has_stopped) {");
                self.text.line(call);
                self.text.close("}");
            }
        }
    }
}
