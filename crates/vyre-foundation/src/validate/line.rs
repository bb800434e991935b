//! The type rules of single lines: suffixes, operands, locals and calls. Those about memory are in `memory`.

use super::body::BodyCheck;
use super::header::{storage_type, widest_subgroup};
use crate::ir::{
    ArgType, Axis, BuiltinOp, ComputeOp, DataType, FunctionId, Node, OpInfo, Operand, ResultType, Value,
};
use crate::scalar::meaning;
use crate::text::print_literal;

const PLACES: [&str; 4] = ["operand 1", "operand 2", "operand 3", "operand 4"];

impl BodyCheck<'_> {
    /// Checks one line by itself: its types, its operands' types, and where it may stand.
    pub(super) fn line(&mut self, node: &Node) {
        match node {
            Node::Compute { op, ty, args, .. } => self.compute(node, *op, *ty, args),
            Node::Builtin { op, axis, .. } => self.builtin(*op, *axis),
            Node::Subgroup { op, ty, args, .. } => {
                self.together(node);
                self.subgroup(node);
                self.operands(node, op.info(), *ty, args);
            }
            Node::Var { local, ty, len, init } => {
                if ty.computes() {
                    self.expect(node, "the first value", *init, *ty);
                } else {
                    let (message, fix) = storage_type(&self.local(*local), *ty);
                    self.report("V023", message, fix);
                }
                if *len == Some(0) {
                    let name = self.local(*local);
                    let message = format!("{name} has no elements, so it could never be accessed");
                    self.report("V006", message, format!("declare {name} with a length of 1 or more"));
                }
            }
            Node::Get { ty, local, index, .. } => {
                self.local_access(node, *local, *ty, *index);
            }
            Node::Set { ty, local, index, value } => {
                if self.local_access(node, *local, *ty, *index) {
                    self.expect(node, "the value", *value, *ty);
                }
            }
            Node::If { cond, .. } => self.expect(node, "the condition", *cond, DataType::Bool),
            Node::For { lo, hi, step, .. } => {
                self.expect(node, "the lower bound", *lo, DataType::U32);
                self.expect(node, "the upper bound", *hi, DataType::U32);
                if *step == 0 {
                    let message = "a step of 0 would never end the loop".to_string();
                    self.report("V018", message, "write `step 1` or more".to_string());
                }
            }
            Node::Call { result, function, args } => self.call(node, *result, *function, args),
            Node::Return { value } => self.return_value(node, *value),
            Node::Barrier { .. } => {
                self.together(node);
                self.subgroup(node);
            }
            Node::Load { ty, buffer, index, .. } => self.load(node, *ty, *buffer, *index),
            Node::UniformLoad { ty, buffer, index, .. } => {
                self.together(node);
                self.expect(node, "the index", *index, DataType::U32);
                if self.suffix(node, node.op().info(), *ty) {
                    self.element(node, *buffer, *ty);
                }
                self.in_workgroup(node, *buffer);
            }
            Node::Store { ty, buffer, index, value } => self.store(node, *ty, *buffer, *index, *value),
            Node::Atomic { ty, buffer, .. } => self.atomic(node, *ty, *buffer),
            Node::Mma { m, n, k, c, a, b } => {
                self.together(node);
                self.extents([*m, *n, *k]);
                for (tile, ty) in [(c, DataType::I32), (a, DataType::I8), (b, DataType::I8)] {
                    self.tile(node, tile, ty);
                }
            }
            Node::IndirectDispatch { buffer, offset } => self.indirect(*buffer, *offset),
            Node::AllReduce { op, ty, dst, src } | Node::ReduceScatter { op, ty, dst, src } => {
                self.collective(node, *ty, *dst, *src, Some(*op));
            }
            Node::AllGather { ty, dst, src } | Node::Broadcast { ty, dst, src, .. } => {
                self.collective(node, *ty, *dst, *src, None);
            }
            Node::Len { .. } | Node::Break | Node::Continue | Node::Trap { .. } => {}
        }
    }

    /// The type of the value a line assigns; `None` where the line is wrong in a way that leaves it open.
    pub(super) fn result_type(&self, node: &Node) -> Option<DataType> {
        let ty = match node {
            Node::Call { function, .. } => self.parts.functions[function.index()].result,
            other if !suffix_fits(other) => None,
            other => other.result_type(),
        };
        ty.filter(|ty| ty.computes())
    }

    fn compute(&mut self, node: &Node, op: ComputeOp, ty: DataType, args: &[Operand]) {
        if !self.operands(node, op.info(), ty, args) {
            return;
        }
        for (arg, kind) in args.iter().zip(op.info().args) {
            if let (ArgType::Any, Some(source)) = (kind, self.operand_type(*arg)) {
                self.any_operand(op, ty, *arg, source);
            }
        }
    }

    fn any_operand(&mut self, op: ComputeOp, ty: DataType, arg: Operand, source: DataType) {
        if !source.computes() {
            let (wide, shown) = (source.computes_as(), self.operand(arg));
            let message = format!("{shown} is {source}, which exists only in memory");
            self.report("V013", message, format!("write the literal with the type {wide}"));
            return;
        }
        if meaning(op, ty, source).is_some() {
            return;
        }
        let message = format!(
            "`bitcast.{ty}` of {}, which is {source}: a bitcast is between types of one width, and f16 and bf16 \
             pair with u32",
            self.operand(arg)
        );
        self.report("V016", message, format!("write `cast.{ty}` to convert the value"));
    }

    /// Checks suffix, count and types of an op's operands. False if there is nothing more to say about them.
    pub(super) fn operands(
        &mut self,
        node: &Node,
        info: &'static OpInfo,
        ty: DataType,
        args: &[Operand],
    ) -> bool {
        if args.len() != info.args.len() {
            let takes = count(info.args.len(), "operand");
            let message = format!("`{}` takes {takes} and has {}", label(node), args.len());
            self.report(
                "V012",
                message,
                format!("write it as `{}`", info.syntax.replace(".T", &format!(".{ty}"))),
            );
            return false;
        }
        if !self.suffix(node, info, ty) {
            return false;
        }
        for ((arg, kind), place) in args.iter().zip(info.args).zip(PLACES) {
            if let Some(ty) = kind.under(ty) {
                self.expect(node, place, *arg, ty);
            }
        }
        true
    }

    /// Reports a suffix that the op does not take.
    pub(super) fn suffix(&mut self, node: &Node, info: &'static OpInfo, ty: DataType) -> bool {
        let fits = info.types.is_empty() || info.types.contains(ty);
        if fits {
            return true;
        }
        let types: Vec<&str> = info.types.iter().map(DataType::name).collect();
        let types = types.join(", ");
        let fix = if let Node::Atomic { buffer, .. } = node {
            let name = self.name(*buffer);
            format!("declare {name} with one of these element types and use it here: {types}")
        } else if info.types.contains(ty.computes_as()) {
            format!("write `{}.{}`, the type that a loaded {ty} has", info.name, ty.computes_as())
        } else {
            format!("use one of these types: {types}")
        };
        self.report("V011", format!("`{}` does not take the type {ty}", info.name), fix);
        false
    }

    /// Reports an operand that has not the type its place asks for.
    pub(super) fn expect(&mut self, node: &Node, place: &str, operand: Operand, ty: DataType) {
        if let Some(actual) = self.operand_type(operand)
            && actual != ty
        {
            self.mistyped(node, place, operand, ty, actual);
        }
    }

    fn mistyped(&mut self, node: &Node, place: &str, operand: Operand, ty: DataType, actual: DataType) {
        let shown = self.operand(operand);
        let message = format!("{place} of `{}` must be {ty}, and {shown} is {actual}", label(node));
        let fix = match operand {
            Operand::Value(value) => {
                let cast = self.fresh_name(value, ty);
                let name = self.value(value);
                let name = name.trim_matches('`');
                let instead = match self.retyped(node, ty, actual) {
                    Some(op) => format!("; or write `{op}` if {actual} is meant"),
                    None => String::new(),
                };
                format!("put `{cast} = cast.{ty} {name}` on the line above and write `{cast}` here{instead}")
            }
            Operand::Literal(_) => format!("write a literal of type {ty} without a suffix"),
        };
        self.report("V013", message, fix);
    }

    /// The line's op with the suffix `actual` instead of `ty`, if all its operands that are values have the types it takes.
    fn retyped(&self, node: &Node, ty: DataType, actual: DataType) -> Option<String> {
        let Node::Compute { op, ty: suffix, args, .. } = node else { return None };
        let fits = |(arg, kind): (&Operand, &ArgType)| match arg {
            Operand::Value(_) => kind.under(actual) == self.operand_type(*arg),
            // `2` becomes `2.0`, but `0.5` becomes no integer.
            Operand::Literal(literal) => actual.is_float() || !literal.ty().is_float(),
        };
        let fits =
            *suffix == ty && op.info().types.contains(actual) && args.iter().zip(op.info().args).all(fits);
        fits.then(|| format!("{}.{actual}", op.info().name))
    }

    /// An operand as a message shows it.
    pub(super) fn operand(&self, operand: Operand) -> String {
        match operand {
            Operand::Value(value) => self.value(value),
            Operand::Literal(literal) => format!("`{}{}`", print_literal(literal), literal.ty()),
        }
    }

    fn builtin(&mut self, op: BuiltinOp, axis: Option<Axis>) {
        let name = op.info().name;
        match (op.has_axis(), axis) {
            (true, None) => self.report(
                "V017",
                format!("`{name}` is asked for along an axis, and none is given"),
                format!("write `{name} x`, or `y` or `z`"),
            ),
            (false, Some(axis)) => self.report(
                "V017",
                format!("`{name}` has no axes, and `{}` is given", axis.name()),
                format!("write `{name}` alone"),
            ),
            (true, Some(_)) | (false, None) => {}
        }
        if matches!(op, BuiltinOp::SubgroupLane | BuiltinOp::SubgroupIndex) {
            self.subgroup_width(name);
        }
    }

    fn subgroup(&mut self, node: &Node) {
        if matches!(node, Node::Subgroup { .. })
            || matches!(node, Node::Barrier { ordering: crate::ir::MemoryOrdering::Subgroup })
        {
            self.subgroup_width(node.op().name());
        }
    }

    fn subgroup_width(&mut self, name: &str) {
        if self.parts.subgroup.is_none() {
            let width = widest_subgroup(self.parts.workgroup_lanes());
            self.report(
                "V028",
                format!("`{name}` is used in a program that declares no subgroup width"),
                format!("write `subgroup({width})` after `workgroup(...)`"),
            );
        }
    }

    /// Reports an op that lanes execute together, if it is in a function.
    pub(super) fn together(&mut self, node: &Node) {
        if self.function.is_some() {
            let op = node.op();
            self.report(
                "V030",
                format!("`{op}` is in a function, and lanes may synchronise only in the main body"),
                format!("move the `{op}` to the main body, where the function is called"),
            );
        }
    }

    /// Checks suffix and index of a `get` or `set`. False if its value's type cannot be judged.
    fn local_access(
        &mut self,
        node: &Node,
        local: crate::ir::Local,
        ty: DataType,
        index: Option<Operand>,
    ) -> bool {
        let Some(declared) = self.local_types[local.index()] else { return false };
        let name = self.local(local);
        match (declared.len, index) {
            (Some(_), None) => self.report(
                "V021",
                format!("{name} is a private array and is used without an index"),
                format!("name one element, as in `{}[0]`", name.trim_matches('`')),
            ),
            (None, Some(_)) => self.report(
                "V021",
                format!("{name} is a single local and is used with an index"),
                format!("delete the index, or declare {name} as {}[16], say", declared.ty),
            ),
            (Some(_), Some(index)) => self.expect(node, "the index", index, DataType::U32),
            (None, None) => {}
        }
        if ty != declared.ty {
            let (op, declared) = (node.op(), declared.ty);
            let value = if matches!(node, Node::Set { .. }) {
                format!(" with a value of type {declared}")
            } else {
                String::new()
            };
            self.report(
                "V022",
                format!("`{op}.{ty}` of {name}, which is declared as {declared}"),
                format!("write `{op}.{declared}`{value}"),
            );
        }
        ty == declared.ty
    }

    fn call(&mut self, node: &Node, result: Option<Value>, function: FunctionId, args: &[Operand]) {
        let callee = &self.parts.functions[function.index()];
        if args.len() != callee.params.len() {
            let params: Vec<String> = (callee.params.iter())
                .map(|(param, ty)| format!("%{} : {ty}", callee.body.values[param.index()]))
                .collect();
            let message = format!(
                "`@{}` has {}, and the call has {}",
                callee.name,
                count(callee.params.len(), "parameter"),
                count(args.len(), "argument")
            );
            self.report(
                "V024",
                message,
                format!("give one argument for each parameter of `@{}({})`", callee.name, params.join(", ")),
            );
        } else {
            for (arg, (param, ty)) in args.iter().zip(&callee.params) {
                if ty.computes() && self.operand_type(*arg).is_some_and(|actual| actual != *ty) {
                    let place = format!("argument `%{}`", callee.body.values[param.index()]);
                    self.expect(node, &place, *arg, *ty);
                }
            }
        }
        if let (Some(result), None) = (result, callee.result) {
            let message =
                format!("`@{}` gives no result, and the call assigns {}", callee.name, self.value(result));
            let fix = format!("write `call @{}(...)` alone, or declare a result with `->`", callee.name);
            self.report("V025", message, fix);
        }
    }

    fn return_value(&mut self, node: &Node, value: Option<Operand>) {
        let Some(id) = self.function else { return };
        let function = &self.parts.functions[id.index()];
        match (function.result, value) {
            (Some(ty), Some(value)) if ty.computes() => self.expect(node, "the result", value, ty),
            (Some(ty), None) => self.report(
                "V027",
                format!("`@{}` declares a result of type {ty} and returns none", function.name),
                format!("return a value of type {ty}"),
            ),
            (None, Some(_)) => self.report(
                "V027",
                format!("`@{}` declares no result and returns one", function.name),
                "delete the `return`, or declare the result's type with `->`",
            ),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
}

/// Whether the line's op takes its suffix, as far as the result's type depends on it.
fn suffix_fits(node: &Node) -> bool {
    let row = node.op().info();
    !matches!(row.result, ResultType::Same) || node.suffix().is_none_or(|ty| row.types.contains(ty))
}

fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The op of a line with its suffix, as text writes it.
pub(super) fn label(node: &Node) -> String {
    let name = node.op().name();
    match (node, node.suffix()) {
        (Node::Mma { .. }, _) => format!("{name}.i32.i8"),
        // Its type stands behind the local.
        (Node::Var { .. }, _) | (_, None) => name.to_string(),
        (_, Some(ty)) => format!("{name}.{ty}"),
    }
}
