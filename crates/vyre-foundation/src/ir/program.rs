//! A program: an immutable value with a content digest.
//!
//! [`ProgramParts`] is the open form that parsers, builders and passes fill; [`Program::new`] seals it. Sealing brings
//! the parts into the one canonical form that text and wire can express, so that equal programs are equal bytes:
//! values and locals are numbered in the order in which they appear, names are unique within a body, and a name that
//! is assigned again after its first scope has closed (two loops over `%i`, say) becomes a value of its own.
//!
//! Sealing checks only what the printed form could not say: that references name something, and the limits. A
//! program may still be wrong; `validate` finds that.

use super::node::{Block, BufferId, Local, Node, Operand, Value};
use super::types::DataType;
use crate::limits;
use crate::validate::Proof;
use crate::wire;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A name as it stands in text, without its sigil. Passes copy programs, and names with them.
pub type Name = Arc<str>;

/// What a buffer is and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// A small read-only buffer, the same for all lanes.
    Uniform {
        /// Where the caller binds it.
        binding: u32,
    },
    /// A read-only storage buffer.
    Read {
        /// Where the caller binds it.
        binding: u32,
    },
    /// A storage buffer that lanes read and write.
    ReadWrite {
        /// Where the caller binds it.
        binding: u32,
        /// Whether its bytes return to the caller.
        output: bool,
    },
    /// Memory of one workgroup, zero at the start.
    Workgroup,
    /// A constant table: its elements' bits.
    Table {
        /// One entry an element.
        data: Vec<u64>,
    },
}

/// A buffer or constant table that a program declares.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// The name without its `@`.
    pub name: Name,
    /// What it is.
    pub kind: BufferKind,
    /// The type of its elements.
    pub ty: DataType,
    /// The number of its elements; `None` if the dispatch decides.
    pub len: Option<u32>,
}

impl Buffer {
    /// Where the caller binds it; `None` for workgroup memory and tables.
    pub const fn binding(&self) -> Option<u32> {
        match self.kind {
            BufferKind::Uniform { binding }
            | BufferKind::Read { binding }
            | BufferKind::ReadWrite { binding, .. } => Some(binding),
            BufferKind::Workgroup | BufferKind::Table { .. } => None,
        }
    }

    /// Whether lanes may write it.
    pub const fn is_writable(&self) -> bool {
        matches!(self.kind, BufferKind::ReadWrite { .. } | BufferKind::Workgroup)
    }

    /// Whether its bytes return to the caller.
    pub const fn is_output(&self) -> bool {
        matches!(self.kind, BufferKind::ReadWrite { output: true, .. })
    }
}

/// The lines of a program or function, with the names of what they assign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Body {
    /// The outermost block.
    pub block: Block,
    /// The values' names, by [`Value`].
    pub values: Vec<Name>,
    /// The mutable locals' names, by [`Local`].
    pub locals: Vec<Name>,
}

impl Body {
    /// A new value with a name like `name`; sealing makes it unique.
    pub fn new_value(&mut self, name: &str) -> Value {
        self.values.push(name.into());
        Value(self.values.len() as u32 - 1)
    }

    /// A new local with a name like `name`; sealing makes it unique.
    pub fn new_local(&mut self, name: &str) -> Local {
        self.locals.push(name.into());
        Local(self.locals.len() as u32 - 1)
    }
}

/// A function: always inlined, calling only those declared above it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The name without its `@`.
    pub name: Name,
    /// The parameters, values of the body.
    pub params: Vec<(Value, DataType)>,
    /// The type of the result, if it has one.
    pub result: Option<DataType>,
    /// The lines.
    pub body: Body,
}

/// A program in its open form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgramParts {
    /// The name without its `@`.
    pub name: Name,
    /// Lanes of a workgroup along x, y and z.
    pub workgroup: [u32; 3],
    /// The logical subgroup width, if one is declared.
    pub subgroup: Option<u32>,
    /// Buffers and tables in the order of their declaration.
    pub buffers: Vec<Buffer>,
    /// Functions in the order of their declaration.
    pub functions: Vec<Function>,
    /// The main body.
    pub body: Body,
}

impl ProgramParts {
    /// A program with nothing in it.
    pub fn new(name: &str, workgroup: [u32; 3]) -> ProgramParts {
        ProgramParts {
            name: name.into(),
            workgroup,
            subgroup: None,
            buffers: Vec::new(),
            functions: Vec::new(),
            body: Body::default(),
        }
    }

    /// The buffer that an id names.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.index()]
    }

    /// Lanes of a workgroup, at most `u64::MAX`: a program that is not valid may ask for more.
    pub fn workgroup_lanes(&self) -> u64 {
        self.workgroup.iter().fold(1, |lanes: u64, axis| lanes.saturating_mul(u64::from(*axis)))
    }
}

/// What parts cannot be sealed into a program, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}. Fix: {fix}")]
pub struct ProgramError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl ProgramError {
    fn new(message: impl Into<String>, fix: impl Into<String>) -> ProgramError {
        ProgramError { message: message.into(), fix: fix.into() }
    }
}

/// A content digest: BLAKE3 over the canonical wire encoding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// An immutable program. Clones share it, with what was found out about it: see [`crate::validate`].
#[derive(Clone)]
pub struct Program {
    sealed: Arc<Sealed>,
}

struct Sealed {
    parts: ProgramParts,
    /// Taken at once for what a user wrote, and on demand for what passes made, which seldom need one.
    digest: OnceLock<Digest>,
    proof: Proof,
}

impl Program {
    /// Seals `parts`: brings them into canonical form and fixes the digest.
    pub fn new(parts: ProgramParts) -> Result<Program, ProgramError> {
        let parts = seal(parts)?;
        let payload = wire::payload(&parts);
        limit("bytes of wire form", payload.len(), wire::PAYLOAD_BYTES_MAX)?;
        let digest = wire::digest(&payload).into();
        Ok(Program { sealed: Arc::new(Sealed { parts, digest, proof: Proof::default() }) })
    }

    /// Seals what passes made of a program. They are taken at their word that its wire form is not too long.
    pub(crate) fn made_by_passes(parts: ProgramParts) -> Result<Program, ProgramError> {
        let (parts, digest, proof) = (seal(parts)?, OnceLock::new(), Proof::default());
        Ok(Program { sealed: Arc::new(Sealed { parts, digest, proof }) })
    }

    /// The program that does nothing: one lane, no buffers, no lines.
    pub fn empty() -> Program {
        Program::new(ProgramParts::new("empty", [1, 1, 1])).expect("the empty program is canonical")
    }

    /// What the program consists of.
    pub fn parts(&self) -> &ProgramParts {
        &self.sealed.parts
    }

    /// What was found out about the program so far.
    pub(crate) fn proof(&self) -> &Proof {
        &self.sealed.proof
    }

    /// The content digest.
    pub fn digest(&self) -> Digest {
        *self.sealed.digest.get_or_init(|| wire::digest(&wire::payload(&self.sealed.parts)))
    }

    /// The name without its `@`.
    pub fn name(&self) -> &str {
        &self.sealed.parts.name
    }

    /// The wire form.
    pub fn to_bytes(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// The program that a wire form stands for.
    pub fn from_bytes(bytes: &[u8]) -> Result<Program, wire::WireError> {
        wire::decode(bytes)
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        Arc::ptr_eq(&self.sealed, &other.sealed)
            || (self.digest() == other.digest() && self.sealed.parts == other.sealed.parts)
    }
}

impl Eq for Program {}

impl std::hash::Hash for Program {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.digest().hash(state);
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("name", &self.name()).field("digest", &self.digest()).finish()
    }
}

/// Whether `name` can stand behind a sigil in text.
pub fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    !bytes.is_empty()
        && bytes.len() <= limits::NAME_BYTES_MAX
        && bytes[0] != b'.'
        && bytes[bytes.len() - 1] != b'.'
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'.')
        && bytes.windows(2).all(|pair| pair != b"..")
}

fn seal(mut parts: ProgramParts) -> Result<ProgramParts, ProgramError> {
    limit("buffers and tables", parts.buffers.len(), limits::BUFFERS_MAX)?;
    limit("functions", parts.functions.len(), limits::FUNCTIONS_MAX)?;
    seal_declarations(&mut parts)?;
    let mut nodes_left = limits::NODES_MAX;
    let buffers = parts.buffers.len();
    for (index, function) in parts.functions.iter_mut().enumerate() {
        limit("parameters", function.params.len(), limits::PARAMS_MAX)?;
        let Body { block, values, locals } = std::mem::take(&mut function.body);
        let mut sealer = Sealer::new(&values, &locals, buffers, index, &mut nodes_left);
        for (param, _) in &mut function.params {
            *param = Value(sealer.values.define(param.0)?);
        }
        function.body = sealer.finish(block)?;
    }
    let Body { block, values, locals } = std::mem::take(&mut parts.body);
    let mut sealer = Sealer::new(&values, &locals, buffers, parts.functions.len(), &mut nodes_left);
    parts.body = sealer.finish(block)?;
    Ok(parts)
}

fn limit(what: &str, count: usize, max: usize) -> Result<(), ProgramError> {
    if count <= max {
        return Ok(());
    }
    Err(ProgramError::new(
        format!("{count} {what}, and a program has at most {max}"),
        "split the program into several, or merge what belongs together",
    ))
}

fn seal_declarations(parts: &mut ProgramParts) -> Result<(), ProgramError> {
    let mut seen = FxHashSet::default();
    let names = std::iter::once(&parts.name).chain(parts.buffers.iter().map(|buffer| &buffer.name));
    for (at, name) in names.chain(parts.functions.iter().map(|function| &function.name)).enumerate() {
        check_name(name)?;
        // The program's own name is a title, not a symbol: a buffer may share it.
        if at > 0 && !seen.insert(name) {
            return Err(ProgramError::new(
                format!("`@{name}` is declared twice"),
                "give each buffer, table and function a name of its own",
            ));
        }
    }
    let mut table_elements = 0;
    for buffer in &mut parts.buffers {
        if let BufferKind::Table { data } = &mut buffer.kind {
            table_elements += data.len();
            limit("table elements", table_elements, limits::TABLE_ELEMENTS_MAX)?;
            buffer.len = Some(data.len() as u32);
            data.iter_mut().for_each(|bits| *bits &= buffer.ty.mask());
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), ProgramError> {
    if is_name(name) {
        return Ok(());
    }
    Err(ProgramError::new(
        format!("`{}` is not a name", name.escape_debug()),
        format!(
            "use letters, digits, `_` and single `.` between them, at most {} bytes",
            limits::NAME_BYTES_MAX
        ),
    ))
}

/// Brings one body into canonical form.
struct Sealer<'a> {
    values: Renumber<'a>,
    locals: Renumber<'a>,
    buffers: usize,
    callable: usize,
    nodes_left: &'a mut usize,
}

impl<'a> Sealer<'a> {
    fn new(
        values: &'a [Name],
        locals: &'a [Name],
        buffers: usize,
        callable: usize,
        nodes_left: &'a mut usize,
    ) -> Sealer<'a> {
        Sealer {
            values: Renumber::new("%", values),
            locals: Renumber::new("$", locals),
            buffers,
            callable,
            nodes_left,
        }
    }

    fn finish(&mut self, mut block: Block) -> Result<Body, ProgramError> {
        self.block(&mut block, 0)?;
        Ok(Body { block, values: self.values.finish()?, locals: self.locals.finish()? })
    }

    fn block(&mut self, block: &mut Block, depth: usize) -> Result<(), ProgramError> {
        if depth > limits::NESTING_MAX {
            return Err(ProgramError::new(
                format!("blocks nest more than {} deep", limits::NESTING_MAX),
                "move the inner blocks into a function, or flatten the conditions",
            ));
        }
        if block.len() > *self.nodes_left {
            return Err(ProgramError::new(
                format!("more than {} lines", limits::NODES_MAX),
                "split the program into several dispatches",
            ));
        }
        *self.nodes_left -= block.len();
        block.iter_mut().try_for_each(|node| self.node(node, depth))
    }

    fn node(&mut self, node: &mut Node, depth: usize) -> Result<(), ProgramError> {
        self.check_references(node)?;
        if let Node::Subgroup { op, ty, .. } = node
            && op.info().types.is_empty()
        {
            // Such an op has no suffix in text, so its type can only be the one the table gives.
            *ty = op.info().result.under(*ty).unwrap_or(DataType::U32);
        }
        // Operands are read before the result is assigned: in `%a = add.u32 %a, 1` they are different values
        // if the first `%a` is of a closed scope.
        let mut failed = Ok(());
        node.for_each_operand_mut(|operand| {
            if let Operand::Value(value) = operand {
                match self.values.use_(value.0) {
                    Ok(id) => *value = Value(id),
                    Err(error) => failed = Err(error),
                }
            }
        });
        failed?;
        let declares = matches!(node, Node::Var { .. });
        if let Some(local) = node.local_mut() {
            local.0 = if declares { self.locals.define(local.0)? } else { self.locals.use_(local.0)? };
        }
        let opens_scope = matches!(node, Node::If { .. } | Node::For { .. });
        if !opens_scope {
            if let Some(result) = node.result_mut() {
                result.0 = self.values.define(result.0)?;
            }
            return Ok(());
        }
        self.open();
        if let Some(counter) = node.result_mut() {
            counter.0 = self.values.define(counter.0)?;
        }
        for (at, block) in node.blocks_mut().enumerate() {
            if at > 0 {
                self.close();
                self.open();
            }
            self.block(block, depth + 1)?;
        }
        self.close();
        Ok(())
    }

    fn check_references(&self, node: &Node) -> Result<(), ProgramError> {
        let mut dangling = false;
        node.for_each_buffer(|buffer| dangling |= buffer.index() >= self.buffers);
        if dangling {
            return Err(ProgramError::new(
                format!("`{}` names a buffer that is not declared", node.op()),
                "declare the buffer before the body",
            ));
        }
        match node {
            Node::Call { function, .. } if function.index() >= self.callable => Err(ProgramError::new(
                "a call names a function that is not declared above its caller",
                "declare the function above; functions cannot call themselves or each other in a circle",
            )),
            _ => Ok(()),
        }
    }

    fn open(&mut self) {
        self.values.open();
        self.locals.open();
    }

    fn close(&mut self) {
        self.values.close();
        self.locals.close();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Unseen,
    /// Used, not yet assigned.
    Pending(u32),
    /// Assigned in a scope that is open.
    Live(u32),
    /// Assigned in a scope that has closed.
    Dead(u32),
}

/// Renumbers values or locals in the order of their appearance and makes their names unique.
struct Renumber<'a> {
    sigil: &'a str,
    raw_names: &'a [Name],
    states: Vec<State>,
    names: Vec<Name>,
    /// Names already given.
    taken: FxHashSet<Cow<'a, str>>,
    /// The last suffix that a namesake got.
    suffixes: FxHashMap<&'a str, u32>,
    /// What is assigned in the scopes that are open.
    live: Vec<u32>,
    /// How much of that there was where each scope but the outermost opened.
    scopes: Vec<usize>,
}

impl<'a> Renumber<'a> {
    fn new(sigil: &'a str, raw_names: &'a [Name]) -> Renumber<'a> {
        let mut taken = FxHashSet::default();
        taken.reserve(raw_names.len());
        Renumber {
            sigil,
            states: vec![State::Unseen; raw_names.len()],
            names: Vec::with_capacity(raw_names.len()),
            raw_names,
            taken,
            suffixes: FxHashMap::default(),
            live: Vec::with_capacity(raw_names.len()),
            scopes: Vec::new(),
        }
    }

    fn state(&mut self, raw: u32) -> Result<&mut State, ProgramError> {
        let sigil = self.sigil;
        self.states.get_mut(raw as usize).ok_or_else(|| {
            ProgramError::new(
                format!("`{sigil}` number {raw} has no name in its body"),
                "make values and locals with `Body::new_value` and `Body::new_local`",
            )
        })
    }

    fn use_(&mut self, raw: u32) -> Result<u32, ProgramError> {
        match *self.state(raw)? {
            State::Pending(id) | State::Live(id) | State::Dead(id) => Ok(id),
            State::Unseen => {
                let id = self.name(raw)?;
                self.states[raw as usize] = State::Pending(id);
                Ok(id)
            }
        }
    }

    fn define(&mut self, raw: u32) -> Result<u32, ProgramError> {
        let id = match *self.state(raw)? {
            State::Live(id) => return Ok(id),
            State::Pending(id) => id,
            State::Unseen | State::Dead(_) => self.name(raw)?,
        };
        self.states[raw as usize] = State::Live(id);
        self.live.push(raw);
        Ok(id)
    }

    fn name(&mut self, raw: u32) -> Result<u32, ProgramError> {
        let base: &'a str = &self.raw_names[raw as usize];
        check_name(base)?;
        if self.taken.insert(Cow::Borrowed(base)) {
            self.names.push(Arc::clone(&self.raw_names[raw as usize]));
            return Ok(self.names.len() as u32 - 1);
        }
        // A name near the limit gives way to its suffix. Suffixes are counted by what is left of the name, so that many
        // long names with one beginning do not search from 1 again and again.
        let keep = base.len().min(limits::NAME_BYTES_MAX - 11);
        let stem = base[..keep].trim_end_matches('.');
        let suffix = self.suffixes.entry(stem).or_insert(0);
        let name = loop {
            *suffix += 1;
            let name: Cow<'_, str> = format!("{stem}.{suffix}").into();
            if !self.taken.contains(&name) {
                break name;
            }
        };
        self.names.push(name.as_ref().into());
        self.taken.insert(name);
        Ok(self.names.len() as u32 - 1)
    }

    fn open(&mut self) {
        self.scopes.push(self.live.len());
    }

    fn close(&mut self) {
        let start = self.scopes.pop().expect("scopes open and close in pairs");
        for raw in self.live.drain(start..) {
            if let State::Live(id) = self.states[raw as usize] {
                self.states[raw as usize] = State::Dead(id);
            }
        }
    }

    fn finish(&mut self) -> Result<Vec<Name>, ProgramError> {
        for (raw, state) in self.states.iter().enumerate() {
            if let State::Pending(_) = state {
                return Err(ProgramError::new(
                    format!("`{}{}` is never assigned", self.sigil, self.raw_names[raw]),
                    "assign it on a line above its use, or correct the name",
                ));
            }
        }
        Ok(std::mem::take(&mut self.names))
    }
}
