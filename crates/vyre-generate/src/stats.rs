//! What generated programs contain, counted.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use vyre_foundation::ir::{Body, DataType, Effect, Node, OpId, Operand, Program, Value, walk};

/// Counts over programs.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Programs counted.
    pub programs: u64,
    /// Lines of all bodies.
    pub lines: u64,
    /// Lines of the longest program.
    pub lines_max: u64,
    /// Lines by op.
    pub ops: BTreeMap<OpId, u64>,
    /// Lines by op and type suffix, of those that have one.
    pub typed_ops: BTreeMap<(OpId, DataType), u64>,
    /// Programs with `if` or `for`.
    pub with_control: u64,
    /// Programs that read and write buffers.
    pub with_memory: u64,
    /// Programs with a barrier of any kind.
    pub with_barriers: u64,
    /// Programs with all three.
    pub with_all: u64,
    /// Values assigned.
    pub values: u64,
    /// Values that a store, a local, a condition or another effect depends on.
    pub values_live: u64,
}

impl Stats {
    /// Counts one more program.
    pub fn add(&mut self, program: &Program) {
        let parts = program.parts();
        let mut seen = HashSet::new();
        let lines_before = self.lines;
        for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
            walk(&body.block, |_, _, node| {
                self.lines += 1;
                *self.ops.entry(node.op()).or_default() += 1;
                if let Some(ty) = node.suffix() {
                    *self.typed_ops.entry((node.op(), ty)).or_default() += 1;
                }
                seen.insert(node.op().name());
            });
            self.values += body.values.len() as u64;
            self.values_live += live_values(body);
        }
        self.lines_max = self.lines_max.max(self.lines - lines_before);
        let any = |names: &[&str]| names.iter().any(|name| seen.contains(name));
        let control = any(&["if", "for"]);
        let memory = any(&["load"]) && any(&["store"]);
        let barriers = any(&["barrier", "subgroup_barrier", "grid_barrier"]);
        self.programs += 1;
        self.with_control += u64::from(control);
        self.with_memory += u64::from(memory);
        self.with_barriers += u64::from(barriers);
        self.with_all += u64::from(control && memory && barriers);
    }

    /// The ops of the table that no program had, with each suffix that is missing.
    pub fn missing_ops(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for op in OpId::all() {
            if op.info().types.is_empty() && !self.ops.contains_key(&op) {
                missing.push(op.to_string());
            }
            let absent = |ty: &DataType| !self.typed_ops.contains_key(&(op, *ty));
            missing.extend(op.info().types.iter().filter(absent).map(|ty| format!("{op}.{ty}")));
        }
        missing
    }
}

/// How many values some effect depends on; locals count as effects.
fn live_values(body: &Body) -> u64 {
    let mut lines = Vec::new();
    walk(&body.block, |_, _, node| lines.push(node));
    let mut live = vec![false; body.values.len()];
    // Uses follow assignments, so one pass from the end sees every use first.
    for node in lines.into_iter().rev() {
        let counts = !is_pure(node) || node.result().is_some_and(|result| live[result.index()]);
        if counts {
            node.for_each_operand(|operand| {
                if let Operand::Value(Value(at)) = operand {
                    live[at as usize] = true;
                }
            });
        }
    }
    live.into_iter().filter(|live| *live).count() as u64
}

/// Whether a line matters only through its result.
fn is_pure(node: &Node) -> bool {
    matches!(node.effect(), Effect::Pure | Effect::Reads | Effect::Gets | Effect::Exchanges)
        || matches!(node, Node::UniformLoad { .. })
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |count: u64, of: u64| 100.0 * count as f64 / of.max(1) as f64;
        let of_programs = |count: u64| share(count, self.programs);
        writeln!(
            f,
            "{} programs, {:.1} lines each",
            self.programs,
            self.lines as f64 / self.programs.max(1) as f64
        )?;
        writeln!(f, "with control flow {:.1} %", of_programs(self.with_control))?;
        writeln!(f, "with memory       {:.1} %", of_programs(self.with_memory))?;
        writeln!(f, "with barriers     {:.1} %", of_programs(self.with_barriers))?;
        writeln!(f, "with all three    {:.1} %", of_programs(self.with_all))?;
        writeln!(f, "live values       {:.1} %", share(self.values_live, self.values))?;
        let mut counts: Vec<_> =
            OpId::all().map(|op| (self.ops.get(&op).copied().unwrap_or(0), op)).collect();
        counts.sort();
        for (count, op) in counts {
            writeln!(f, "{count:>9} {op}")?;
        }
        Ok(())
    }
}
