//! A module of instructions: types and constants made once, and the whole as words or as text.
//!
//! The text is what `spirv-as` reads. What the program names keeps its name there and as `OpName`; types and constants
//! are called by what they are.

use smallvec::SmallVec;
use spirv::{Decoration, Op, StorageClass};
use std::collections::{HashMap, HashSet};
use std::fmt::{Debug, Write};
use vyre_foundation::ir::DataType;

pub(super) type Id = u32;

/// What an instruction says beside its type and result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Arg {
    Id(Id),
    Word(u32),
    /// A word that text calls by a name.
    Named(u32, Box<str>),
    Text(Box<str>),
}

impl Arg {
    pub(super) fn named(word: u32, name: impl Debug) -> Arg {
        Arg::Named(word, format!("{name:?}").into())
    }

    pub(super) fn storage(class: StorageClass) -> Arg {
        Arg::named(class as u32, class)
    }

    fn words(&self) -> usize {
        match self {
            Arg::Id(_) | Arg::Word(_) | Arg::Named(..) => 1,
            Arg::Text(text) => text.len() / 4 + 1,
        }
    }
}

impl From<Id> for Arg {
    fn from(id: Id) -> Arg {
        Arg::Id(id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Inst {
    pub(super) op: Op,
    pub(super) ty: Option<Id>,
    pub(super) id: Option<Id>,
    pub(super) args: SmallVec<[Arg; 3]>,
}

impl Inst {
    pub(super) fn new(op: Op, ty: Option<Id>, id: Option<Id>, args: impl IntoIterator<Item = Arg>) -> Inst {
        Inst { op, ty, id, args: args.into_iter().collect() }
    }

    fn encode(&self, out: &mut Vec<u32>) {
        let words = 1 + self.ty.iter().len() + self.id.iter().len();
        let words = words + self.args.iter().map(Arg::words).sum::<usize>();
        out.push((words as u32) << 16 | self.op as u32);
        out.extend(self.ty.iter().chain(&self.id));
        for arg in &self.args {
            match arg {
                Arg::Id(word) | Arg::Word(word) | Arg::Named(word, _) => out.push(*word),
                Arg::Text(text) => {
                    let mut bytes = text.as_bytes().to_vec();
                    bytes.resize(arg.words() * 4, 0);
                    out.extend(
                        bytes
                            .chunks(4)
                            .map(|four| four.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))),
                    );
                }
            }
        }
    }
}

/// The id of the instruction set with roots and roundings.
pub(super) const GLSL: Id = 1;

#[derive(Clone, Debug)]
pub(super) struct Words {
    bound: Id,
    interned: HashMap<Inst, Id>,
    /// The integers among the constants, and those of 32 bits by what they are: they are asked for most.
    constants: HashMap<Id, u64>,
    small: HashMap<u32, Id>,
    /// `u32` and `bool`.
    common: [Option<Id>; 2],
    globals: Vec<Inst>,
    decorations: Vec<Inst>,
    code: Vec<Inst>,
    /// What the text calls ids, and whether the module says it too.
    names: HashMap<Id, (String, bool)>,
    taken: HashSet<String>,
}

impl Words {
    pub(super) fn new() -> Words {
        let mut words = Words {
            bound: GLSL + 1,
            interned: HashMap::new(),
            constants: HashMap::new(),
            small: HashMap::new(),
            common: [None; 2],
            globals: Vec::new(),
            decorations: Vec::new(),
            code: Vec::new(),
            names: HashMap::new(),
            taken: HashSet::new(),
        };
        words.call(GLSL, "glsl", false);
        words
    }

    pub(super) fn id(&mut self) -> Id {
        self.bound += 1;
        self.bound - 1
    }

    /// Gives an id a name like `name`; `listed` if the module has it.
    pub(super) fn call(&mut self, id: Id, name: &str, listed: bool) {
        let letters = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut plain: String = name.chars().map(letters).collect();
        if plain.bytes().all(|byte| byte.is_ascii_digit()) {
            plain.insert(0, '_');
        }
        let numbered = (2..).map(|number| format!("{plain}_{number}"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        let free = names.find(|name| !self.taken.contains(name)).expect("there are more numbers than names");
        self.taken.insert(free.clone());
        self.names.insert(id, (free, listed));
    }

    /// A type or constant, made once.
    pub(super) fn intern(
        &mut self,
        op: Op,
        ty: Option<Id>,
        args: impl IntoIterator<Item = Arg>,
        name: &str,
    ) -> Id {
        let key = Inst::new(op, ty, None, args);
        if let Some(id) = self.interned.get(&key) {
            return *id;
        }
        let id = self.id();
        self.globals.push(Inst { id: Some(id), ..key.clone() });
        self.call(id, name, false);
        self.interned.insert(key, id);
        id
    }

    /// A type made once, and whether it was made now.
    pub(super) fn intern_new(
        &mut self,
        op: Op,
        args: impl IntoIterator<Item = Arg>,
        name: &str,
    ) -> (Id, bool) {
        let before = self.bound;
        let id = self.intern(op, None, args, name);
        (id, self.bound != before)
    }

    /// A variable.
    pub(super) fn add_global(&mut self, inst: Inst) {
        self.globals.push(inst);
    }

    pub(super) fn decorate(&mut self, id: Id, decoration: Decoration, args: &[u32]) {
        let args = args.iter().map(|word| match decoration {
            Decoration::BuiltIn => Arg::named(*word, spirv::BuiltIn::from_u32(*word).expect("a builtin")),
            _ => Arg::Word(*word),
        });
        let decoration = [Arg::Id(id), Arg::named(decoration as u32, decoration)];
        self.decorations.push(Inst::new(Op::Decorate, None, None, decoration.into_iter().chain(args)));
    }

    /// Decorates the first member of a struct with its place.
    pub(super) fn place_member(&mut self, id: Id) {
        let offset = Arg::named(Decoration::Offset as u32, Decoration::Offset);
        let args = [Arg::Id(id), Arg::Word(0), offset, Arg::Word(0)];
        self.decorations.push(Inst::new(Op::MemberDecorate, None, None, args));
    }

    pub(super) fn push(&mut self, inst: Inst) {
        self.code.push(inst);
    }

    pub(super) fn void(&mut self) -> Id {
        self.intern(Op::TypeVoid, None, [], "void")
    }

    pub(super) fn boolean(&mut self) -> Id {
        if let Some(id) = self.common[1] {
            return id;
        }
        let id = self.intern(Op::TypeBool, None, [], "bool");
        *self.common[1].insert(id)
    }

    /// Integers have no sign but in ops.
    pub(super) fn uint(&mut self, bits: u32) -> Id {
        if let (32, Some(id)) = (bits, self.common[0]) {
            return id;
        }
        let id = self.intern(Op::TypeInt, None, [Arg::Word(bits), Arg::Word(0)], &format!("u{bits}"));
        if bits == 32 {
            self.common[0] = Some(id);
        }
        id
    }

    pub(super) fn float(&mut self, bits: u32) -> Id {
        self.intern(Op::TypeFloat, None, [Arg::Word(bits)], &format!("f{bits}"))
    }

    pub(super) fn vector(&mut self, element: Id, count: u32) -> Id {
        let name = format!("{}x{count}", self.name(element));
        self.intern(Op::TypeVector, None, [element.into(), Arg::Word(count)], &name)
    }

    pub(super) fn array(&mut self, element: Id, count: u32) -> Id {
        let name = format!("{}_array_{count}", self.name(element));
        let count = self.word(count);
        self.intern(Op::TypeArray, None, [element.into(), count.into()], &name)
    }

    pub(super) fn pointer(&mut self, class: StorageClass, to: Id) -> Id {
        let name = format!("{class:?}_{}", self.name(to)).to_lowercase();
        self.intern(Op::TypePointer, None, [Arg::storage(class), to.into()], &name)
    }

    /// A 32-bit constant.
    pub(super) fn word(&mut self, word: u32) -> Id {
        if let Some(id) = self.small.get(&word) {
            return *id;
        }
        let ty = self.uint(32);
        let id = self.intern(Op::Constant, Some(ty), [Arg::Word(word)], &format!("u32_{word}"));
        self.constants.insert(id, u64::from(word));
        self.small.insert(word, id);
        id
    }

    pub(super) fn truth(&mut self, truth: bool) -> Id {
        let ty = self.boolean();
        let op = if truth { Op::ConstantTrue } else { Op::ConstantFalse };
        self.intern(op, Some(ty), [], if truth { "true" } else { "false" })
    }

    /// A native 64-bit constant.
    pub(super) fn wide(&mut self, bits: u64) -> Id {
        let ty = self.uint(64);
        let args = [bits as u32, (bits >> 32) as u32].map(Arg::Word);
        let id = self.intern(Op::Constant, Some(ty), args, &format!("u64_{bits}"));
        self.constants.insert(id, bits);
        id
    }

    pub(super) fn composite(&mut self, ty: Id, parts: &[Id], name: &str) -> Id {
        self.intern(Op::ConstantComposite, Some(ty), parts.iter().map(|id| Arg::Id(*id)), name)
    }

    /// The value of an id that is an integer constant.
    pub(super) fn constant(&self, id: Id) -> Option<u64> {
        self.constants.get(&id).copied()
    }

    /// Whether an instruction is in use.
    pub(super) fn has_code(&self, op: Op) -> bool {
        self.code.iter().any(|inst| inst.op == op)
    }

    fn has_type(&self, op: Op, bits: u32) -> bool {
        self.globals.iter().any(|inst| inst.op == op && inst.args.first() == Some(&Arg::Word(bits)))
    }

    /// Whether floats of that type are in use.
    pub(super) fn has_float(&self, ty: DataType) -> bool {
        self.has_type(Op::TypeFloat, ty.bits())
    }

    /// Whether native integers of that width are in use.
    pub(super) fn has_uint(&self, bits: u32) -> bool {
        self.has_type(Op::TypeInt, bits)
    }

    pub(super) fn has_name(&self, id: Id) -> bool {
        self.names.contains_key(&id)
    }

    fn name(&self, id: Id) -> String {
        self.names.get(&id).map_or_else(|| id.to_string(), |(name, _)| name.clone())
    }

    /// Everything in the order in which modules have it, behind `head`: capabilities to execution modes.
    fn all<'a>(&'a self, head: &'a [Inst], listed: &'a [Inst]) -> impl Iterator<Item = &'a Inst> {
        head.iter().chain(listed).chain(&self.decorations).chain(&self.globals).chain(&self.code)
    }

    /// The instructions that give names.
    fn listed(&self) -> Vec<Inst> {
        let mut listed: Vec<(&Id, &String)> =
            self.names.iter().filter(|(_, (_, listed))| *listed).map(|(id, (name, _))| (id, name)).collect();
        listed.sort();
        let name = |(id, name): (&Id, &String)| [Arg::Id(*id), Arg::Text(name.as_str().into())];
        listed.into_iter().map(|listed| Inst::new(Op::Name, None, None, name(listed))).collect()
    }

    /// SPIR-V 1.3.
    pub(super) fn encode(&self, head: &[Inst]) -> Vec<u32> {
        let mut out = vec![spirv::MAGIC_NUMBER, 0x0001_0300, 0, self.bound, 0];
        self.all(head, &self.listed()).for_each(|inst| inst.encode(&mut out));
        out
    }

    pub(super) fn text(&self, head: &[Inst]) -> String {
        let mut out = format!("; SPIR-V 1.3, {} ids\n", self.bound);
        for inst in self.all(head, &self.listed()) {
            if let Some(id) = inst.id {
                let _ = write!(out, "%{} = ", self.name(id));
            }
            let _ = write!(out, "Op{:?}", inst.op);
            if let Some(ty) = inst.ty {
                let _ = write!(out, " %{}", self.name(ty));
            }
            if let (Op::Constant, [Arg::Word(low), Arg::Word(high)]) = (inst.op, &inst.args[..]) {
                let _ = writeln!(out, " {}", u64::from(*high) << 32 | u64::from(*low));
                continue;
            }
            for arg in &inst.args {
                let _ = match arg {
                    Arg::Id(id) => write!(out, " %{}", self.name(*id)),
                    Arg::Word(word) => write!(out, " {word}"),
                    Arg::Named(_, name) => write!(out, " {name}"),
                    Arg::Text(text) => write!(out, " \"{text}\""),
                };
            }
            out.push('\n');
        }
        out
    }
}
