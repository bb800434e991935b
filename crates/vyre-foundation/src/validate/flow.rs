//! The rules that need uniformity: where lanes come together, and which operands they must agree on.
//!
//! Functions hold no such lines (V030 says so), so only the main body is looked at, and a program without any is not
//! analysed. A finding names the block that parts the lanes and follows its condition back to a source.

use super::Findings;
use super::line::label;
use super::uniformity::{self, BodyUniformity, Cause, Level};
use crate::diagnostic::Place;
use crate::ir::{BufferId, BufferKind, MemoryOrdering, Node, Operand, ProgramParts, SubgroupOp, Value, walk};
use crate::text::print_literal;

/// Checks that lanes come together where they must.
pub(super) fn check(parts: &ProgramParts, findings: &mut Findings) {
    let mut any = false;
    walk(&parts.body.block, |_, _, node| any |= needed(node).is_some());
    if !any {
        return;
    }
    let uniformity = uniformity::analyse(parts).body;
    let mut lines = None;
    let mut around: Vec<u32> = Vec::new();
    walk(&parts.body.block, |site, depth, node| {
        around.truncate(depth);
        around.push(site);
        let Some(needed) = needed(node) else { return };
        let parted = uniformity.line(site) > needed;
        let differing = uniform_operands(node).into_iter().flatten().find(|operand| {
            // Which lanes differ is all that counts here: a value of one workgroup is as good as a constant.
            uniformity.operand(*operand) == Level::Varying
        });
        if findings.is_full() || (!parted && differing.is_none()) {
            return;
        }
        let lines = lines.get_or_insert_with(|| Lines::of(parts));
        let place = Place::Line { function: None, site };
        let finder = Finder { parts, lines, uniformity: &uniformity };
        if parted {
            let (message, fix) = finder.parted(node, site, &around[..depth], needed);
            let code = if needed == Level::Grid { "V032" } else { "V031" };
            findings.report(code, place, message, fix);
        }
        if let Some(value) = differing.and_then(Operand::value) {
            let (message, fix) = finder.differing(node, value);
            findings.report("V033", place, message, fix);
        }
    });
}

/// The lanes that must reach the line together; `None` if each goes alone. A subgroup counts as a workgroup.
fn needed(node: &Node) -> Option<Level> {
    node.together().map(|lanes| match lanes {
        MemoryOrdering::GridSync => Level::Grid,
        MemoryOrdering::Workgroup | MemoryOrdering::Subgroup => Level::Workgroup,
    })
}

/// The operands that the lanes of a workgroup must agree on.
fn uniform_operands(node: &Node) -> [Option<Operand>; 3] {
    if let Node::UniformLoad { index, .. } = node {
        [Some(*index), None, None]
    } else if let Node::Mma { c, a, b, .. } = node {
        [Some(c.offset), Some(a.offset), Some(b.offset)]
    } else if let Node::Subgroup { op: SubgroupOp::Broadcast, args, .. } = node {
        [args.get(1).copied(), None, None]
    } else {
        [None; 3]
    }
}

/// Lines by site, the line that assigns each value, and which buffers any line writes.
struct Lines<'a> {
    nodes: Vec<&'a Node>,
    assigned_at: Vec<Option<u32>>,
    written: Vec<bool>,
}

impl<'a> Lines<'a> {
    fn of(parts: &'a ProgramParts) -> Lines<'a> {
        let mut lines = Lines {
            nodes: Vec::new(),
            assigned_at: vec![None; parts.body.values.len()],
            written: vec![false; parts.buffers.len()],
        };
        walk(&parts.body.block, |site, _, node| {
            lines.nodes.push(node);
            if let Some(result) = node.result() {
                lines.assigned_at[result.index()].get_or_insert(site);
            }
        });
        let bodies = parts.functions.iter().map(|function| &function.body).chain([&parts.body]);
        for body in bodies {
            walk(&body.block, |_, _, node| {
                if let Some(buffer) = node.written() {
                    lines.written[buffer.index()] = true;
                }
            });
        }
        lines
    }
}

/// Puts findings into words.
struct Finder<'a> {
    parts: &'a ProgramParts,
    lines: &'a Lines<'a>,
    uniformity: &'a BodyUniformity,
}

impl Finder<'_> {
    /// Message and fix for a line that not all the lanes it needs reach together. `around` are the sites of the
    /// blocks around it.
    fn parted(&self, node: &Node, site: u32, around: &[u32], needed: Level) -> (String, String) {
        let chain = self.uniformity.why_line(site);
        let blocks: Vec<u32> = chain
            .iter()
            .map_while(|cause| match cause {
                Cause::Block { site } => Some(*site),
                Cause::Value(_) | Cause::Local(_) => None,
            })
            .collect();
        let rest = &chain[blocks.len()..];
        let who = self.who(needed);
        let line = label(node);
        let (Some(&parting), Some(Cause::Value(cond))) = (blocks.last(), rest.first()) else {
            unreachable!("a block varies by the block around it or by an operand");
        };
        let why = self.why(rest);
        let cond = self.value(*cond);
        let parting_name = self.block(parting);
        if around.contains(&parting) {
            let message =
                format!("{who} must reach `{line}` together, and {parting_name} around it parts them: {why}");
            let by_bounds = matches!(self.lines.nodes[parting as usize], Node::For { .. });
            let fix = self.fix(needed, rest).unwrap_or_else(|| match by_bounds {
                true => format!("let all lanes take the same trips of {parting_name}, and put what only some do into an `if` in it"),
                false => format!("end {parting_name} above the `{line}` and open it again below"),
            });
            return (message, fix);
        }
        let looped = blocks.iter().rev().find(|site| around.contains(site)).copied().unwrap_or(parting);
        let message = format!(
            "{who} must reach `{line}` together, and some leave or skip a trip of {} under {parting_name}: {why}",
            self.block(looped)
        );
        let fix = self.fix(needed, rest).unwrap_or_else(|| {
            format!(
                "keep all lanes in the loop: delete the `break` or `continue` under {parting_name}, and put what \
                 only the others do into an `if` on the opposite of {cond}"
            )
        });
        (message, fix)
    }

    /// Message and fix for an operand that the lanes of a workgroup must agree on and do not.
    fn differing(&self, node: &Node, value: Value) -> (String, String) {
        let chain = self.uniformity.why_value(value);
        let line = label(node);
        let message = format!(
            "`{line}` needs {} to be the same for all lanes of a workgroup: {}",
            self.value(value),
            self.why(&chain)
        );
        let fix = self.fix(Level::Workgroup, &chain).unwrap_or_else(|| {
            if let Node::UniformLoad { ty, .. } = node {
                format!("write `load.{ty}`, which each lane does with an index of its own")
            } else if let Node::Subgroup { ty, .. } = node {
                format!("write `subgroup_shuffle.{ty}`, where each lane names a lane of its own")
            } else {
                "compute the offset from literals, `workgroup_id`, `len`, read-only buffers or a `uniform_load`"
                    .to_string()
            }
        });
        (message, fix)
    }

    fn who(&self, needed: Level) -> &'static str {
        match needed {
            Level::Grid => "all lanes of the grid",
            Level::Workgroup | Level::Varying => "the lanes of a workgroup",
        }
    }

    /// A fix at the source, where there is one.
    fn fix(&self, needed: Level, chain: &[Cause]) -> Option<String> {
        let Some(Cause::Value(root)) = chain.last() else { return None };
        let site = self.lines.assigned_at[root.index()]?;
        let Node::Load { ty, buffer, index, .. } = self.lines.nodes[site as usize] else { return None };
        let declared = self.parts.buffer(*buffer);
        let name = &declared.name;
        let level = self.uniformity.line(site).max(self.uniformity.operand(*index));
        match declared.kind {
            BufferKind::Workgroup
                if needed == Level::Workgroup && level < Level::Varying && declared.ty == *ty =>
            {
                let (value, element) = (self.value(*root), self.element(*buffer, *index));
                Some(format!("write `{} = uniform_load.{ty}{element}`", value.trim_matches('`')))
            }
            BufferKind::ReadWrite { output: false, .. }
                if level <= needed && !self.lines.written[buffer.index()] =>
            {
                Some(format!("declare `@{name}` as `read`, for no line writes it"))
            }
            BufferKind::Workgroup
            | BufferKind::ReadWrite { .. }
            | BufferKind::Uniform { .. }
            | BufferKind::Read { .. }
            | BufferKind::Table { .. } => None,
        }
    }

    /// Why the first of the chain varies: the locals on the way, and the source.
    fn why(&self, chain: &[Cause]) -> String {
        let (Some(Cause::Value(first)), Some(Cause::Value(root))) = (chain.first(), chain.last()) else {
            unreachable!("only values are sources, and blocks vary by operands");
        };
        let (line, reason) = self.source(*root);
        if chain.len() == 1 {
            return format!("{line} {reason}");
        }
        let mut steps: Vec<String> = Vec::new();
        for pair in chain.windows(2) {
            if let Cause::Local(local) = pair[0] {
                let name = &self.parts.body.locals[local.index()];
                steps.push(match pair[1] {
                    Cause::Block { site } => format!("`${name}`, set under {},", self.block(site)),
                    Cause::Value(_) | Cause::Local(_) => format!("`${name}`"),
                });
            }
        }
        steps.truncate(2);
        let through: String = steps.iter().map(|step| format!("on {step} and so ")).collect();
        format!("{} depends {through}on {line}, which {reason}", self.value(*first))
    }

    /// The line of a source, and why it varies.
    fn source(&self, root: Value) -> (String, String) {
        let name = format!("%{}", self.parts.body.values[root.index()]);
        let differs = match self.uniformity.value(root) {
            Level::Varying => "differs for each lane",
            Level::Workgroup | Level::Grid => "differs for each workgroup",
        };
        let Some(site) = self.lines.assigned_at[root.index()] else {
            return (format!("`{name}`"), differs.to_string());
        };
        let node = self.lines.nodes[site as usize];
        let (rest, reason) = if let Node::Builtin { axis: Some(axis), .. } = node {
            (format!(" {}", axis.name()), differs)
        } else if let Node::Load { buffer, index, .. } = node {
            (self.element(*buffer, *index), "reads memory that other lanes may write")
        } else if let Node::Atomic { buffer, index, .. } = node {
            (self.element(*buffer, *index), "gives each lane what it found")
        } else if let Node::UniformLoad { buffer, index, .. } = node {
            (self.element(*buffer, *index), differs)
        } else if let Node::Call { function, .. } = node {
            (format!(" @{}(...)", self.parts.functions[function.index()].name), differs)
        } else if matches!(node, Node::Subgroup { .. }) {
            (" ...".to_string(), "may differ between subgroups")
        } else {
            (String::new(), differs)
        };
        (format!("`{name} = {}{rest}`", label(node)), reason.to_string())
    }

    /// An element as text writes it.
    fn element(&self, buffer: BufferId, index: Operand) -> String {
        let index = match index {
            Operand::Value(value) => format!("%{}", self.parts.body.values[value.index()]),
            Operand::Literal(literal) => print_literal(literal),
        };
        format!(" @{}[{index}]", self.parts.buffer(buffer).name)
    }

    /// The line that opens a block, as a message shows it.
    fn block(&self, site: u32) -> String {
        let node = self.lines.nodes[site as usize];
        let mut shown = node.result();
        if let Node::If { cond, .. } = node {
            shown = cond.value();
        }
        match shown {
            Some(value) => format!("`{} %{}`", node.op(), self.parts.body.values[value.index()]),
            None => format!("`{}`", node.op()),
        }
    }

    fn value(&self, value: Value) -> String {
        format!("`%{}`", self.parts.body.values[value.index()])
    }
}
