//! Every op of the op table with every type it takes.
//!
//! A computing op gets a program of its own, `y[i] = op(a[i], b[i], ...)`, whose workgroup size is another one for each, so
//! that all sizes up to 256 occur. Group names are `op/TYPE/NAME`; for ops between two types TYPE is the operand's and
//! the result's follows the name (`op/u32/cast.f64`); ops without a type are `op/NAME`.
//!
//! `memory`, `lanes` and `steps` have the ops that do more than compute.
//!
//! Not here: combinations of ops, except those that compilers are known to merge (`context`).

mod context;
mod lanes;
mod memory;
mod steps;

use super::operands::Instance;
use super::rows::Kernel;
use crate::batch::{Batch, Group, Level, Plan, Track};
use vyre_foundation::ir::{ComputeOp, DataType};
use vyre_foundation::scalar::meaning;

pub(crate) fn groups() -> Vec<Group> {
    let mut groups: Vec<Group> = instances().into_iter().enumerate().map(compute).collect();
    groups.extend(seeded());
    groups.extend(context::groups());
    groups.extend(memory::groups());
    groups.extend(lanes::groups());
    groups.extend(steps::groups());
    groups
}

/// Every computing op with every type, and for ops between two types with every pair.
pub(super) fn instances() -> Vec<Instance> {
    let mut all = Vec::new();
    for op in ComputeOp::ALL {
        let between = matches!(op, ComputeOp::Cast | ComputeOp::Bitcast);
        for (ty, source) in DataType::ALL.into_iter().flat_map(|ty| DataType::ALL.map(|source| (ty, source)))
        {
            if (between || ty == source) && meaning(*op, ty, source).is_some() {
                all.push(Instance { op: *op, ty, source });
            }
        }
    }
    all
}

impl Instance {
    /// The op's name in group names.
    pub(super) fn title(&self) -> String {
        let name = self.op.info().name;
        match self.op {
            ComputeOp::Cast | ComputeOp::Bitcast => format!("{}/{name}.{}", self.source, self.ty),
            _ => format!("{}/{name}", self.ty),
        }
    }

    pub(super) fn track(&self) -> Track {
        track(&[self.ty, self.source])
    }

    /// The program that computes the op in every lane.
    pub(super) fn kernel(&self, lanes: u32) -> Kernel {
        let inputs = self.inputs();
        let operands = ["%a", "%b", "%c", "%d"][..inputs.len()].join(", ");
        let lines = format!("    %y = {}.{} {operands}\n", self.op.info().name, self.ty);
        let result = self.op.info().result.under(self.ty).expect("computing ops have results");
        Kernel { lanes, inputs, lines, outputs: vec![("y".into(), result)] }
    }
}

/// Float if any of the types is.
pub(super) fn track(types: &[DataType]) -> Track {
    if types.iter().any(|ty| ty.is_float()) { Track::Float } else { Track::Integer }
}

/// The workgroup size of program number `at`: all of 1 to 256 in turn, neighbours far apart.
pub(super) const fn lanes(at: usize) -> u32 {
    1 + (at * 37 % 256) as u32
}

/// The group of computing op number `at`.
fn compute((at, instance): (usize, Instance)) -> Group {
    let name = format!("op/{}", instance.title());
    Group::fixed(name.clone(), Level::Ops, instance.track(), move |plan| {
        let kernel = instance.kernel(lanes(at));
        let mut batches = vec![kernel.batch(format!("{name}:edge"), &instance.edge())];
        let special = instance.special();
        if !special.is_empty() {
            batches.push(kernel.batch(format!("{name}:special"), &special));
        }
        let random = instance.random(at as u64, plan.pick(509, 4093));
        batches.push(kernel.batch(format!("{name}:random"), &random));
        batches.extend(context::with_literals(plan, &name, at, &instance));
        // Other workgroup sizes make other programs.
        for twist in 1..plan.pick(1, 2) {
            let kernel = instance.kernel(lanes(at + twist * 85));
            let random = instance.random((at + twist * 1000) as u64, 2039);
            batches.push(kernel.batch(format!("{name}:random"), &random));
        }
        batches
    })
}

/// Operands that are unknown before the run, for the same programs: one group a type.
fn seeded() -> Vec<Group> {
    let key = |instance: &Instance| if instance.ty.is_float() { instance.ty } else { instance.source };
    let all: Vec<(usize, Instance)> = instances().into_iter().enumerate().collect();
    let group = |ty: DataType| {
        let own: Vec<_> = all.iter().filter(|(_, instance)| key(instance) == ty).copied().collect();
        let name = format!("op/{ty}/seeded");
        Group::seeded(name.clone(), Level::Ops, track(&[ty]), move |plan| seeded_batches(plan, &name, &own))
    };
    DataType::ALL.into_iter().filter(|ty| ty.computes()).map(group).collect()
}

fn seeded_batches(plan: &Plan<'_>, name: &str, own: &[(usize, Instance)]) -> Vec<Batch> {
    let seed = plan.seed(name);
    // A quick run takes a third of the ops, chosen by the seed.
    let chosen = own.iter().filter(|(at, _)| plan.pick((*at as u64 + seed).is_multiple_of(3), true));
    chosen
        .map(|(at, instance)| {
            let rows = instance.random(seed ^ *at as u64, plan.pick(251, 1021));
            let label = instance.title().replace('/', ".");
            instance.kernel(lanes(*at)).batch(format!("{name}:{label}"), &rows)
        })
        .collect()
}
