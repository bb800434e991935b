//! Decides which values, locals and lines are the same for all lanes of a workgroup, or of the whole grid.
//!
//! Everything is one question of reachability. Values, locals and blocks are nodes of a graph, an edge leads from
//! what is read to what it decides, and a few sources (lane ids, loads from writable memory, atomics) vary from the
//! start. Whatever a source reaches varies too. That makes the answer linear in the program, however deep loops nest
//! and however values run around them.
//!
//! - A value depends on its operands. A load from memory that the launch does not write depends on its index alone.
//! - A block depends on the block around it and on its condition or bounds; a loop's block also on every block in it
//!   that holds a `break` or `continue` of that loop, because lanes that left do not take part in later trips.
//! - A local depends on everything it is ever set to, on the index where it is an array, and on the block of each
//!   `set` outside the block that declares it: where lanes part, only some of them set it.
//! - A call depends on those arguments that reach the function's result.
//!
//! "The same" speaks of the lanes that run a line on the same trips of the loops around it. Values end with their
//! blocks, so lanes that left a loop earlier can only tell through a local, and that depends on the loop's block.
//!
//! Not here: the order of assignments to a local (it has one level for its whole life), subgroup uniformity (a
//! subgroup counts as a workgroup), and arithmetic (`%i - %i` varies if `%i` does).

use crate::ir::{
    Axis, Block, Body, BufferId, BufferKind, BuiltinOp, Function, Local, Node, Operand, ProgramParts, Value,
    collective,
};

/// For which lanes something is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// All lanes of the grid.
    Grid,
    /// The lanes of a workgroup; workgroups may differ.
    Workgroup,
    /// None: lanes may differ.
    Varying,
}

/// What is uniform in a program.
#[derive(Clone, Debug)]
pub struct Uniformity {
    /// The main body.
    pub body: BodyUniformity,
    /// The functions, by their ids.
    pub functions: Vec<FunctionUniformity>,
}

/// What is uniform in a function.
#[derive(Clone, Debug)]
pub struct FunctionUniformity {
    /// Its lines, where every parameter may vary.
    pub body: BodyUniformity,
    /// The result's level if all arguments are the same for the grid.
    pub result: Level,
    /// The parameters that decide the result, one bit each.
    pub deciding_params: u64,
}

/// One step in why something varies, from effect to cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A value.
    Value(Value),
    /// A local.
    Local(Local),
    /// The block or blocks of the `if` or `for` at that site.
    Block {
        /// The line.
        site: u32,
    },
}

/// What is uniform in a body: side tables by value, local and line.
#[derive(Clone, Debug)]
pub struct BodyUniformity {
    nodes: Nodes,
    levels: Vec<Level>,
    /// The node each varying node has its level from; itself for a source.
    causes: Vec<u32>,
    /// The source at the end of that chain.
    sources: Vec<u32>,
    /// The site of each block's line.
    block_sites: Vec<u32>,
    /// The block that each line stands in.
    line_blocks: Vec<u32>,
}

impl BodyUniformity {
    /// For which lanes a value is the same.
    pub fn value(&self, value: Value) -> Level {
        self.levels[self.nodes.value(value) as usize]
    }

    /// For which lanes an operand is the same.
    pub fn operand(&self, operand: Operand) -> Level {
        operand.value().map_or(Level::Grid, |value| self.value(value))
    }

    /// For which lanes a local's value is the same; for an array, at equal indices.
    pub fn local(&self, local: Local) -> Level {
        self.levels[self.nodes.local(local) as usize]
    }

    /// Which lanes run a line together, by its site.
    pub fn line(&self, site: u32) -> Level {
        self.levels[self.line_node(site) as usize]
    }

    /// Why a value is not the same for the grid: a short chain from the value to a source. Empty if it is.
    pub fn why_value(&self, value: Value) -> Vec<Cause> {
        self.why(self.nodes.value(value))
    }

    /// Why a line is not run by the grid together: a short chain from its block to a source. Empty if it is.
    pub fn why_line(&self, site: u32) -> Vec<Cause> {
        self.why(self.line_node(site))
    }

    fn line_node(&self, site: u32) -> u32 {
        self.nodes.block(self.line_blocks[site as usize])
    }

    fn why(&self, mut node: u32) -> Vec<Cause> {
        let mut chain = Vec::new();
        if self.levels[node as usize] == Level::Grid {
            return chain;
        }
        let source = self.sources[node as usize];
        while node != source && chain.len() < CHAIN_STEPS_MAX {
            chain.push(self.nodes.cause(node, &self.block_sites));
            node = self.causes[node as usize];
        }
        chain.push(self.nodes.cause(source, &self.block_sites));
        chain
    }
}

/// Steps that a chain of causes shows before its source; longer ones are cut there.
const CHAIN_STEPS_MAX: usize = 256;

/// Finds what is uniform in a program. Works on any sealed program, valid or not.
///
/// ```
/// use vyre_foundation::ir::Value;
/// use vyre_foundation::text::parse;
/// use vyre_foundation::validate::uniformity::{Cause, Level, analyse};
///
/// let program = parse(
///     "program @p workgroup(64, 1, 1) {
///        %lane  = local_id x
///        %group = workgroup_id x
///        %both  = add.u32 %lane, %group
///        for %i in 0..%both {
///          trap 1
///        }
///      }",
/// )
/// .unwrap()
/// .program;
/// let body = analyse(program.parts()).body;
/// let [lane, group, both, counter] = [0, 1, 2, 3].map(Value);
/// assert_eq!(body.value(group), Level::Workgroup);
/// assert_eq!(body.value(both), Level::Varying);
/// assert_eq!(body.why_value(both), [Cause::Value(both), Cause::Value(lane)]);
/// // Lanes take different trips, and those that take the same one count alike.
/// assert_eq!((body.line(3), body.line(4)), (Level::Grid, Level::Varying));
/// assert_eq!(body.value(counter), Level::Grid);
/// ```
pub fn analyse(parts: &ProgramParts) -> Uniformity {
    let mut functions: Vec<FunctionUniformity> = Vec::with_capacity(parts.functions.len());
    for function in &parts.functions {
        let analysed = analyse_function(parts, function, &functions);
        functions.push(analysed);
    }
    let body = Graph::of(parts, &parts.body, &functions).solve(&[]);
    Uniformity { body, functions }
}

fn analyse_function(
    parts: &ProgramParts,
    function: &Function,
    known: &[FunctionUniformity],
) -> FunctionUniformity {
    let graph = Graph::of(parts, &function.body, known);
    let (result, deciding_params) = graph.result(function);
    let params: Vec<u32> = function.params.iter().map(|(param, _)| graph.nodes.value(*param)).collect();
    FunctionUniformity { body: graph.solve(&params), result, deciding_params }
}

/// How values, locals and blocks share one numbering.
#[derive(Clone, Copy, Debug)]
struct Nodes {
    values: u32,
    locals: u32,
}

impl Nodes {
    fn value(self, value: Value) -> u32 {
        value.0
    }

    fn local(self, local: Local) -> u32 {
        self.values + local.0
    }

    fn block(self, block: u32) -> u32 {
        self.values + self.locals + block
    }

    fn cause(self, node: u32, block_sites: &[u32]) -> Cause {
        if node < self.values {
            Cause::Value(Value(node))
        } else if node < self.values + self.locals {
            Cause::Local(Local(node - self.values))
        } else {
            Cause::Block { site: block_sites[(node - self.values - self.locals) as usize] }
        }
    }
}

/// The block that the outermost lines stand in.
const OUTERMOST: u32 = 0;

/// What depends on what in a body.
struct Graph<'a> {
    parts: &'a ProgramParts,
    functions: &'a [FunctionUniformity],
    nodes: Nodes,
    /// From what is read to what it decides.
    edges: Vec<(u32, u32)>,
    sources: Vec<(u32, Level)>,
    block_sites: Vec<u32>,
    line_blocks: Vec<u32>,
    /// The block that declares each local.
    homes: Vec<u32>,
    returned: Option<Operand>,
}

impl<'a> Graph<'a> {
    fn of(parts: &'a ProgramParts, body: &Body, functions: &'a [FunctionUniformity]) -> Graph<'a> {
        let nodes = Nodes { values: body.values.len() as u32, locals: body.locals.len() as u32 };
        let mut graph = Graph {
            parts,
            functions,
            nodes,
            edges: Vec::with_capacity(body.values.len() * 2),
            sources: Vec::new(),
            block_sites: vec![0],
            line_blocks: Vec::with_capacity(body.values.len()),
            homes: homes(body),
            returned: None,
        };
        graph.block(&body.block, OUTERMOST, OUTERMOST);
        graph
    }

    fn block(&mut self, block: &Block, here: u32, innermost_loop: u32) {
        for node in block {
            let site = self.line_blocks.len() as u32;
            self.line_blocks.push(here);
            self.line(node, here, innermost_loop);
            if !matches!(node, Node::If { .. } | Node::For { .. }) {
                continue;
            }
            let inner = self.block_sites.len() as u32;
            self.block_sites.push(site);
            let inner_node = self.nodes.block(inner);
            self.edges.push((self.nodes.block(here), inner_node));
            node.for_each_operand(|operand| self.edge(operand, inner_node));
            let inner_loop = if matches!(node, Node::For { .. }) { inner } else { innermost_loop };
            for nested in node.blocks() {
                self.block(nested, inner, inner_loop);
            }
        }
    }

    /// The edges of one line; those of its nested blocks are made where they are entered.
    fn line(&mut self, node: &Node, here: u32, innermost_loop: u32) {
        match node {
            Node::Compute { result, args, .. } => {
                args.iter().for_each(|arg| self.edge(*arg, result.0));
            }
            Node::Builtin { result, op, axis } => self.source(*result, self.builtin(*op, *axis)),
            Node::Load { result, buffer, index, .. } if self.is_constant(*buffer) => {
                self.edge(*index, result.0)
            }
            Node::Load { result, .. } | Node::Subgroup { result, .. } => self.source(*result, Level::Varying),
            Node::Atomic { result, .. } => {
                result.iter().for_each(|result| self.source(*result, Level::Varying));
            }
            Node::UniformLoad { result, .. } => self.source(*result, Level::Workgroup),
            Node::Var { local, init, .. } => self.edge(*init, self.nodes.local(*local)),
            Node::Get { result, local, index, .. } => {
                self.edges.push((self.nodes.local(*local), result.0));
                index.iter().for_each(|index| self.edge(*index, result.0));
            }
            Node::Set { local, index, value, .. } => {
                let target = self.nodes.local(*local);
                self.edge(*value, target);
                index.iter().for_each(|index| self.edge(*index, target));
                if self.homes[local.index()] != here {
                    self.edges.push((self.nodes.block(here), target));
                }
            }
            // A counter starts at `lo` and grows by a literal; `hi` only decides who takes part.
            Node::For { counter, lo, .. } => self.edge(*lo, counter.0),
            // Outside any loop it is an error, found elsewhere, and nobody can leave.
            Node::Break | Node::Continue if innermost_loop == OUTERMOST => {}
            Node::Break | Node::Continue => {
                self.edges.push((self.nodes.block(here), self.nodes.block(innermost_loop)));
            }
            Node::Call { result: Some(result), function, args } => {
                let callee = &self.functions[function.index()];
                let (level, deciding) = (callee.result, callee.deciding_params);
                self.source(*result, level);
                for (at, arg) in args.iter().enumerate() {
                    // An argument too many is an error elsewhere; count it as deciding.
                    if at >= 64 || deciding >> at & 1 == 1 {
                        self.edge(*arg, result.0);
                    }
                }
            }
            Node::Return { value } => self.returned = *value,
            Node::Len { .. }
            | Node::Call { result: None, .. }
            | Node::Store { .. }
            | Node::Mma { .. }
            | Node::If { .. }
            | Node::Barrier { .. }
            | Node::IndirectDispatch { .. }
            | Node::Trap { .. }
            | collective!() => {}
        }
    }

    fn edge(&mut self, operand: Operand, to: u32) {
        if let Operand::Value(value) = operand {
            self.edges.push((self.nodes.value(value), to));
        }
    }

    fn source(&mut self, result: Value, level: Level) {
        // A workgroup of one lane has nobody to differ from.
        let most = if self.parts.workgroup_lanes() == 1 { Level::Workgroup } else { Level::Varying };
        let level = level.min(most);
        if level > Level::Grid {
            self.sources.push((self.nodes.value(result), level));
        }
    }

    /// Whether no lane of the launch writes the buffer.
    fn is_constant(&self, buffer: BufferId) -> bool {
        match self.parts.buffer(buffer).kind {
            BufferKind::Uniform { .. } | BufferKind::Read { .. } | BufferKind::Table { .. } => true,
            BufferKind::ReadWrite { .. } | BufferKind::Workgroup => false,
        }
    }

    fn builtin(&self, op: BuiltinOp, axis: Option<Axis>) -> Level {
        let lanes = self.parts.workgroup_lanes();
        // Along an axis with one lane, or in a workgroup with one subgroup, a local position is always 0.
        let alone = match axis {
            Some(axis) => self.parts.workgroup[axis.index()] == 1,
            None => lanes == 1,
        };
        match op {
            BuiltinOp::NumWorkgroups | BuiltinOp::WorkgroupSize => Level::Grid,
            BuiltinOp::WorkgroupId | BuiltinOp::WorkgroupIndex => Level::Workgroup,
            BuiltinOp::GlobalId | BuiltinOp::GlobalIndex if alone => Level::Workgroup,
            BuiltinOp::LocalId | BuiltinOp::LocalIndex if alone => Level::Grid,
            BuiltinOp::SubgroupIndex
                if self.parts.subgroup.is_some_and(|width| u64::from(width) == lanes) =>
            {
                Level::Grid
            }
            BuiltinOp::SubgroupLane if self.parts.subgroup == Some(1) => Level::Grid,
            BuiltinOp::GlobalId
            | BuiltinOp::LocalId
            | BuiltinOp::GlobalIndex
            | BuiltinOp::LocalIndex
            | BuiltinOp::SubgroupLane
            | BuiltinOp::SubgroupIndex => Level::Varying,
        }
    }

    fn node_count(&self) -> usize {
        self.nodes.block(self.block_sites.len() as u32) as usize
    }

    /// Spreads the sources, and `varying` beside them, along the edges.
    fn solve(self, varying: &[u32]) -> BodyUniformity {
        let count = self.node_count();
        let uses = Adjacency::new(count, self.edges.iter().copied());
        let mut levels = vec![Level::Grid; count];
        let mut causes: Vec<u32> = (0..count as u32).collect();
        let mut sources = causes.clone();
        // The higher level first, so that each node is entered once.
        for level in [Level::Varying, Level::Workgroup] {
            let params = varying.iter().map(|node| (*node, Level::Varying));
            let mut queue: Vec<u32> = (self.sources.iter().copied().chain(params))
                .filter(|(node, source)| *source == level && levels[*node as usize] < level)
                .map(|(node, _)| node)
                .collect();
            queue.iter().for_each(|node| levels[*node as usize] = level);
            let mut at = 0;
            while let Some(&node) = queue.get(at) {
                at += 1;
                for &next in uses.of(node) {
                    if levels[next as usize] < level {
                        levels[next as usize] = level;
                        causes[next as usize] = node;
                        sources[next as usize] = sources[node as usize];
                        queue.push(next);
                    }
                }
            }
        }
        let Graph { nodes, block_sites, line_blocks, .. } = self;
        BodyUniformity { nodes, levels, causes, sources, block_sites, line_blocks }
    }

    /// Looks back from the returned operand: the highest source it depends on, and the parameters.
    fn result(&self, function: &Function) -> (Level, u64) {
        let Some(Operand::Value(returned)) = self.returned else { return (Level::Grid, 0) };
        let reads = Adjacency::new(self.node_count(), self.edges.iter().map(|(from, to)| (*to, *from)));
        let mut seen = vec![false; self.node_count()];
        let mut queue = vec![self.nodes.value(returned)];
        seen[queue[0] as usize] = true;
        while let Some(node) = queue.pop() {
            for &next in reads.of(node) {
                if !std::mem::replace(&mut seen[next as usize], true) {
                    queue.push(next);
                }
            }
        }
        let level = (self.sources.iter()).filter(|(node, _)| seen[*node as usize]).map(|(_, level)| *level);
        let params = (function.params.iter().enumerate()).filter(|(_, (param, _))| seen[param.index()]);
        (level.max().unwrap_or(Level::Grid), params.fold(0, |bits, (at, _)| bits | 1 << at))
    }
}

/// The block that declares each local, in the numbering of `Graph::block`.
fn homes(body: &Body) -> Vec<u32> {
    fn go(block: &Block, here: u32, blocks: &mut u32, homes: &mut [u32]) {
        for node in block {
            if let Node::Var { local, .. } = node {
                homes[local.index()] = here;
            }
            if matches!(node, Node::If { .. } | Node::For { .. }) {
                *blocks += 1;
                let inner = *blocks;
                node.blocks().for_each(|nested| go(nested, inner, blocks, homes));
            }
        }
    }
    let mut homes = vec![OUTERMOST; body.locals.len()];
    if !homes.is_empty() {
        go(&body.block, OUTERMOST, &mut 0, &mut homes);
    }
    homes
}

/// Successors of each node, packed.
struct Adjacency {
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Adjacency {
    fn new(count: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Adjacency {
        let mut starts = vec![0u32; count + 1];
        for (from, _) in edges.clone() {
            starts[from as usize + 1] += 1;
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; starts[count] as usize];
        for (from, to) in edges {
            let slot = &mut next[from as usize];
            targets[*slot as usize] = to;
            *slot += 1;
        }
        Adjacency { starts, targets }
    }

    fn of(&self, node: u32) -> &[u32] {
        &self.targets[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }
}
