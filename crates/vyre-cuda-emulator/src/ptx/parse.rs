//! From text to the tree.
//!
//! Blocks within a body have registers of their own, which get names of their own here, so that the tree is flat. What the
//! emulator does not support (device functions, textures, debug sections) is an error with its line, never skipped.

use super::lex::{Token, lex};
use super::{Entry, Initial, Instruction, Module, Operand, Statement, Variable};
use std::collections::{HashMap, HashSet};

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, counted from 1; 0 where it is the whole text.
    pub line: u32,
    /// What is wrong.
    pub message: String,
}

const SOURCE_BYTES_MAX: usize = 256 << 20;
const REGISTERS_MAX: u64 = 1 << 20;
const NESTING_MAX: usize = 64;
/// Elements of all variables' initial values.
const INITIAL_MAX: usize = 1 << 24;

/// Parses a module.
pub fn parse(source: &str) -> Result<Module, Error> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(Error { line: 0, message: format!("the text has more than {SOURCE_BYTES_MAX} bytes") });
    }
    let mut parser = Parser {
        tokens: lex(source)?,
        at: 0,
        scopes: Vec::new(),
        declared: HashSet::new(),
        renamed: 0,
        parents: Vec::new(),
        labels: HashMap::new(),
        label_names: HashSet::new(),
        branches: Vec::new(),
    };
    parser.module()
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    /// The open blocks, the innermost last.
    scopes: Vec<Scope>,
    /// The registers and variables of this kernel, by their names in the tree.
    declared: HashSet<String>,
    renamed: u32,
    /// The blocks of this kernel: the one that each is in. The first is its own.
    parents: Vec<usize>,
    /// Labels by their block and their name in the text: the name in the tree.
    labels: HashMap<(usize, String), String>,
    /// Labels by their names in the tree.
    label_names: HashSet<String>,
    /// Branches and the block that each is in: its label may come later.
    branches: Vec<(usize, usize)>,
}

/// A block of a body.
#[derive(Default)]
struct Scope {
    number: usize,
    names: HashMap<String, Named>,
}

/// What a name in a block stands for.
#[derive(Clone)]
enum Named {
    /// A register, by its name in the tree.
    Register(String),
    /// A variable, by its name in the tree.
    Variable(String),
}

type Parsed<T> = Result<T, Error>;

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn line(&self) -> u32 {
        self.tokens[self.at].1
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        // The end stays where it is.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(Error { line: self.line(), message: message.into() })
    }

    fn is(&self, sign: char) -> bool {
        *self.peek() == Token::Sign(sign)
    }

    fn take(&mut self, sign: char) -> bool {
        let found = self.is(sign);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, sign: char) -> Parsed<()> {
        match self.take(sign) {
            true => Ok(()),
            false => self.error(format!("expected '{sign}', found {}", shown(self.peek()))),
        }
    }

    fn word(&mut self) -> Parsed<String> {
        match self.peek() {
            Token::Word(word) => {
                let word = word.clone();
                self.next();
                Ok(word)
            }
            other => self.error(format!("expected a name, found {}", shown(other))),
        }
    }

    fn peek_word(&self) -> &str {
        if let Token::Word(word) = self.peek() { word } else { "" }
    }

    fn int(&mut self) -> Parsed<i128> {
        let negative = self.take('-');
        match self.peek().clone() {
            Token::Int(value) => {
                self.next();
                Ok(if negative { -value } else { value })
            }
            other => self.error(format!("expected an integer, found {}", shown(&other))),
        }
    }

    fn count(&mut self) -> Parsed<u64> {
        let value = self.int()?;
        u64::try_from(value).or_else(|_| self.error("a count is expected, and the number is negative"))
    }

    fn module(&mut self) -> Parsed<Module> {
        let mut module = Module::default();
        if self.peek_word() != ".version" {
            return self.error("Missing .version directive at start of file");
        }
        self.next();
        module.version = self.version()?;
        if self.peek_word() != ".target" {
            return self.error("Missing .target directive after .version");
        }
        self.next();
        module.target.push(self.word()?);
        while self.take(',') {
            module.target.push(self.word()?);
        }
        if self.peek_word() == ".address_size" {
            self.next();
            if self.count()? != 64 {
                return self.error("only an .address_size of 64 is supported");
            }
        }
        while *self.peek() != Token::End {
            self.item(&mut module)?;
        }
        Ok(module)
    }

    /// `7.8`, which was read as a float.
    fn version(&mut self) -> Parsed<(u32, u32)> {
        match self.next() {
            Token::Float(bits, 64) => {
                let number = f64::from_bits(bits);
                let tenths = (number * 10.0).round();
                if !(10.0..1000.0).contains(&tenths) || tenths / 10.0 != number {
                    return self.error("a .version is two numbers with a dot");
                }
                Ok((tenths as u32 / 10, tenths as u32 % 10))
            }
            _ => self.error("a .version is two numbers with a dot"),
        }
    }

    fn item(&mut self, module: &mut Module) -> Parsed<()> {
        let (mut linked, mut external) = (false, false);
        loop {
            match self.peek_word() {
                ".visible" | ".weak" | ".extern" if !linked => {
                    linked = true;
                    external = self.peek_word() == ".extern";
                    self.next();
                }
                ".global" | ".const" | ".shared" => {
                    let variables = self.variables(external)?;
                    module.variables.extend(variables);
                    return Ok(());
                }
                ".entry" if external => return self.error("a kernel with a body is not .extern"),
                ".entry" => {
                    self.next();
                    let entry = self.entry()?;
                    module.entries.push(entry);
                    return Ok(());
                }
                ".func" => return self.error("device functions (.func) are not supported by this emulator"),
                _ => {
                    let found = shown(self.peek());
                    return self
                        .error(format!("{found} is not known here, or not supported by this emulator"));
                }
            }
        }
    }

    /// `.shared .align 16 .v4 .b32 name[4][2] = {...}, other;`
    fn variables(&mut self, external: bool) -> Parsed<Vec<Variable>> {
        let space = self.word()?.trim_start_matches('.').to_owned();
        let mut first = Variable {
            line: self.line(),
            space,
            name: String::new(),
            ty: String::new(),
            vector: 1,
            align: None,
            len: Some(1),
            init: Vec::new(),
            external,
        };
        self.variable_type(&mut first)?;
        let mut variables = Vec::new();
        loop {
            let mut variable = first.clone();
            self.variable_name(&mut variable)?;
            variables.push(variable);
            if !self.take(',') {
                self.expect(';')?;
                return Ok(variables);
            }
        }
    }

    /// What stands before a variable's name.
    fn variable_type(&mut self, variable: &mut Variable) -> Parsed<()> {
        while let Some(word) = self.peek_word().strip_prefix('.').map(str::to_owned) {
            // What a parameter's type is followed by.
            if word == "ptr" && variable.space == "param" {
                break;
            }
            self.next();
            match word.as_str() {
                "align" => {
                    let align = self.count()?;
                    if !align.is_power_of_two() || align > 1 << 16 {
                        return self.error("an alignment is a power of two");
                    }
                    variable.align = Some(align as u32);
                }
                "v2" if variable.ty.is_empty() => variable.vector = 2,
                "v4" if variable.ty.is_empty() => variable.vector = 4,
                ty if type_bits(ty).is_some() && variable.ty.is_empty() => variable.ty = word,
                _ => return self.error(format!("Unknown type or attribute '.{word}' of a variable")),
            }
        }
        let Some(bits) = type_bits(&variable.ty) else {
            return self.error("a variable needs a type");
        };
        if bits * variable.vector > 128 {
            return self.error("Vector type too large, exceeds 128 bit limit");
        }
        Ok(())
    }

    fn variable_name(&mut self, variable: &mut Variable) -> Parsed<()> {
        variable.line = self.line();
        variable.name = self.word()?;
        while self.take('[') {
            if self.take(']') {
                variable.len = None;
                continue;
            }
            let len = self.count()?;
            variable.len = match variable.len.and_then(|before| before.checked_mul(len)) {
                Some(len) if len <= 1 << 40 => Some(len),
                _ => return self.error("an array is too long"),
            };
            self.expect(']')?;
        }
        if self.take('=') {
            if !matches!(variable.space.as_str(), "global" | "const") {
                return self.error("only .global and .const variables have initial values");
            }
            self.initial(&mut variable.init)?;
            variable.len = variable.len.or(Some(variable.init.len() as u64));
        }
        Ok(())
    }

    /// One value, or many in braces within braces.
    fn initial(&mut self, init: &mut Vec<Initial>) -> Parsed<()> {
        let mut depth = 0usize;
        loop {
            match self.peek().clone() {
                Token::Sign('{') if depth < NESTING_MAX => {
                    depth += 1;
                    self.next();
                    continue;
                }
                Token::Sign('}') => {}
                _ if init.len() >= INITIAL_MAX => return self.error("too many initial values"),
                Token::Word(name) => {
                    self.next();
                    if name == "generic" && self.take('(') {
                        let name = self.word()?;
                        self.expect(')')?;
                        init.push(Initial::Generic(name, self.offset()?));
                    } else {
                        init.push(Initial::Symbol(name, self.offset()?));
                    }
                }
                Token::Float(bits, width) => {
                    self.next();
                    init.push(Initial::Float(bits, width));
                }
                _ => init.push(Initial::Int(self.int()?)),
            }
            loop {
                if depth == 0 {
                    return Ok(());
                }
                if self.take(',') {
                    break;
                }
                self.expect('}')?;
                depth -= 1;
            }
        }
    }

    fn entry(&mut self) -> Parsed<Entry> {
        let mut entry = Entry { line: self.line(), name: self.word()?, ..Entry::default() };
        if self.take('(') {
            while !self.take(')') {
                if !entry.params.is_empty() {
                    self.expect(',')?;
                }
                entry.params.push(self.param()?);
            }
        }
        while let Some(name) = self.peek_word().strip_prefix('.').map(str::to_owned) {
            self.entry_directive(&mut entry, name)?;
        }
        self.expect('{')?;
        self.body(&mut entry)?;
        Ok(entry)
    }

    fn entry_directive(&mut self, entry: &mut Entry, name: String) -> Parsed<()> {
        self.next();
        let known = ["maxntid", "reqntid", "maxnreg", "minnctapersm", "maxnctapersm"];
        if name == "pragma" {
            return self.pragma();
        }
        if !known.contains(&name.as_str()) {
            return self.error(format!("'.{name}' is not supported by this emulator"));
        }
        let mut numbers = vec![self.count()?];
        while self.take(',') {
            numbers.push(self.count()?);
        }
        entry.directives.push((name, numbers));
        Ok(())
    }

    /// Advice to the compiler, which does not change results.
    fn pragma(&mut self) -> Parsed<()> {
        loop {
            match self.next() {
                Token::Text(text)
                    if ["nounroll", "used_bytes_mask"].iter().any(|known| text.starts_with(known)) => {}
                Token::Text(text) => {
                    return self.error(format!("Unknown pragma \"{}\"", text.escape_debug()));
                }
                _ => return self.error("a pragma is a text in quotes"),
            }
            if !self.take(',') {
                return self.expect(';');
            }
        }
    }

    fn param(&mut self) -> Parsed<Variable> {
        if self.peek_word() != ".param" {
            return self.error("a parameter begins with .param");
        }
        self.next();
        let mut variable = Variable {
            line: self.line(),
            space: "param".into(),
            name: String::new(),
            ty: String::new(),
            vector: 1,
            align: None,
            len: Some(1),
            init: Vec::new(),
            external: false,
        };
        self.variable_type(&mut variable)?;
        // `.ptr .global .align 8` says where a pointer leads, which compilers use and results do not depend on.
        if self.peek_word() == ".ptr" {
            self.next();
            if matches!(self.peek_word(), ".global" | ".const" | ".shared" | ".local") {
                self.next();
            }
            if self.peek_word() == ".align" {
                self.next();
                self.count()?;
            }
        }
        self.variable_name(&mut variable)?;
        Ok(variable)
    }

    fn body(&mut self, entry: &mut Entry) -> Parsed<()> {
        self.scopes = vec![Scope::default()];
        self.parents = vec![0];
        self.declared.clear();
        self.labels.clear();
        self.label_names.clear();
        self.branches.clear();
        loop {
            if self.take('{') {
                if self.scopes.len() >= NESTING_MAX {
                    return self.error(format!("blocks are nested more than {NESTING_MAX} deep"));
                }
                let number = self.parents.len();
                self.parents.push(self.scope());
                self.scopes.push(Scope { number, names: HashMap::new() });
            } else if self.take('}') {
                self.scopes.pop();
                if self.scopes.is_empty() {
                    return self.resolve(entry);
                }
            } else {
                self.statement(entry)?;
            }
        }
    }

    /// The number of the innermost block.
    fn scope(&self) -> usize {
        self.scopes.last().map_or(0, |scope| scope.number)
    }

    /// Gives each branch the label that its block sees: its own or one of a block around it.
    fn resolve(&mut self, entry: &mut Entry) -> Parsed<()> {
        for (at, scope) in std::mem::take(&mut self.branches) {
            let Some(Statement::Instruction(branch)) = entry.body.get_mut(at) else { continue };
            let [Operand::Symbol(label)] = branch.operands.as_mut_slice() else { continue };
            let mut scope = scope;
            let own = loop {
                match self.labels.get(&(scope, label.clone())) {
                    None if scope != 0 => scope = self.parents[scope],
                    found => break found,
                }
            };
            let Some(own) = own else {
                let message = format!("Label '{label}' is not defined");
                return Err(Error { line: branch.line, message });
            };
            label.clone_from(own);
        }
        Ok(())
    }

    /// A label, by a name that no other block's label has.
    fn label(&mut self, name: String) -> String {
        let scope = self.scope();
        if let Some(own) = self.labels.get(&(scope, name.clone())) {
            // The second of one block, which is found to be one later.
            return own.clone();
        }
        let own = if self.label_names.contains(&name) { self.rename(&name) } else { name.clone() };
        self.label_names.insert(own.clone());
        self.labels.insert((scope, name), own.clone());
        own
    }

    /// A name that no text has, because of its sign.
    fn rename(&mut self, name: &str) -> String {
        self.renamed += 1;
        format!("{name}#{}", self.renamed)
    }

    fn statement(&mut self, entry: &mut Entry) -> Parsed<()> {
        match self.peek_word() {
            ".reg" => return self.registers(entry),
            ".shared" | ".local" => {
                for mut variable in self.variables(false)? {
                    variable.name = self.declare(variable.name, Named::Variable)?;
                    entry.variables.push(variable);
                }
                return Ok(());
            }
            ".pragma" => {
                self.next();
                return self.pragma();
            }
            directive if directive.starts_with('.') => {
                return self.error(format!("'{directive}' is not supported by this emulator"));
            }
            _ => {}
        }
        let is_label = matches!(self.peek(), Token::Word(_))
            && self.tokens.get(self.at + 1).is_some_and(|(token, _)| *token == Token::Sign(':'));
        if is_label {
            let name = self.word()?;
            self.expect(':')?;
            let own = self.label(name);
            entry.body.push(Statement::Label(own));
            return Ok(());
        }
        let instruction = self.instruction()?;
        if instruction.opcode == "bra" {
            self.branches.push((entry.body.len(), self.scope()));
        }
        entry.body.push(Statement::Instruction(instruction));
        Ok(())
    }

    /// `.reg .b32 %r<8>, %x;`
    fn registers(&mut self, entry: &mut Entry) -> Parsed<()> {
        self.next();
        let ty = self.word()?.trim_start_matches('.').to_owned();
        if ty != "pred" && type_bits(&ty).is_none() {
            return self.error(format!("'.{ty}' is not a type that registers can have here"));
        }
        loop {
            let name = self.word()?;
            if self.take('<') {
                let count = self.count()?;
                if count > REGISTERS_MAX - (entry.registers.len() as u64).min(REGISTERS_MAX) {
                    return self.error(format!("there are more than {REGISTERS_MAX} registers"));
                }
                self.expect('>')?;
                for number in 0..count {
                    let own = self.declare(format!("{name}{number}"), Named::Register)?;
                    entry.registers.push((own, ty.clone()));
                }
            } else {
                let own = self.declare(name, Named::Register)?;
                entry.registers.push((own, ty.clone()));
            }
            if !self.take(',') {
                return self.expect(';');
            }
        }
    }

    /// A register or variable of the innermost block; returns its name in the tree.
    fn declare(&mut self, name: String, named: fn(String) -> Named) -> Parsed<String> {
        let own = if self.declared.contains(&name) { self.rename(&name) } else { name.clone() };
        let scope = self.scopes.last_mut().expect("a body has a block");
        if scope.names.contains_key(&name) {
            return self.error(format!("Duplicate definition of '{name}'"));
        }
        scope.names.insert(name, named(own.clone()));
        self.declared.insert(own.clone());
        Ok(own)
    }

    fn named(&self, name: &str) -> Option<Named> {
        self.scopes.iter().rev().find_map(|scope| scope.names.get(name)).cloned()
    }

    fn register(&self, name: &str) -> Option<String> {
        match self.named(name) {
            Some(Named::Register(own)) => Some(own),
            _ => None,
        }
    }

    fn instruction(&mut self) -> Parsed<Instruction> {
        let line = self.line();
        let guard = if self.take('@') {
            let negated = self.take('!');
            let name = self.word()?;
            let own = self.register(&name);
            Some((own.map_or_else(|| self.error(format!("Unknown register '{name}'")), Ok)?, negated))
        } else {
            None
        };
        let name = self.word()?;
        let mut parts = name.split('.').map(str::to_owned);
        let opcode = parts.next().unwrap_or_default();
        let modifiers: Vec<String> = parts.collect();
        let is_name = |part: &str| part.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !is_name(&opcode) || !modifiers.iter().all(|part| is_name(part)) {
            return Err(Error { line, message: format!("'{name}' is not an instruction") });
        }
        let mut operands = Vec::new();
        if !self.is(';') {
            operands.push(self.operand(0)?);
            while self.take(',') {
                operands.push(self.operand(0)?);
            }
        }
        self.expect(';')?;
        Ok(Instruction { line, guard, opcode, modifiers, operands })
    }

    fn operand(&mut self, depth: usize) -> Parsed<Operand> {
        if depth > 2 {
            return self.error("operands are nested too deep");
        }
        match self.peek().clone() {
            Token::Sign('[') => {
                self.next();
                let base = self.operand(depth + 1)?;
                let offset = self.offset()?;
                self.expect(']')?;
                Ok(Operand::Address(Box::new(base), offset))
            }
            Token::Sign('{') => {
                self.next();
                let mut parts = vec![self.operand(depth + 1)?];
                while self.take(',') {
                    parts.push(self.operand(depth + 1)?);
                }
                self.expect('}')?;
                Ok(Operand::Vector(parts))
            }
            Token::Sign('!') => {
                self.next();
                match self.name()? {
                    Operand::Register(name) => Ok(Operand::Not(name)),
                    _ => self.error("only a predicate can be negated"),
                }
            }
            Token::Sign('-') => {
                self.next();
                match self.next() {
                    Token::Int(value) => Ok(Operand::Int(-value)),
                    Token::Float(bits, width) => Ok(Operand::Float(bits ^ 1 << (width - 1), width)),
                    _ => self.error("a number follows a minus sign"),
                }
            }
            Token::Int(value) => {
                self.next();
                Ok(Operand::Int(value))
            }
            Token::Float(bits, width) => {
                self.next();
                Ok(Operand::Float(bits, width))
            }
            Token::Word(_) => {
                let first = self.name()?;
                if let (Operand::Symbol(name), true) = (&first, depth == 0 && self.is('+')) {
                    return Ok(Operand::Sum(name.clone(), self.offset()?));
                }
                if !self.take('|') {
                    return Ok(first);
                }
                let second = self.name()?;
                Ok(Operand::Pair(Box::new(first), Box::new(second)))
            }
            other => self.error(format!("expected an operand, found {}", shown(&other))),
        }
    }

    /// `+16` or `+-4` behind an address's base. `ptxas` takes no `-4`.
    fn offset(&mut self) -> Parsed<i64> {
        if !self.take('+') {
            return Ok(0);
        }
        let value = self.int()?;
        i64::try_from(value).or_else(|_| self.error("an offset has more than 64 bits"))
    }

    fn name(&mut self) -> Parsed<Operand> {
        let name = self.word()?;
        if name == "_" {
            return Ok(Operand::Discard);
        }
        match self.named(&name) {
            Some(Named::Register(own)) => return Ok(Operand::Register(own)),
            Some(Named::Variable(own)) => return Ok(Operand::Symbol(own)),
            // Its block is over.
            None if self.declared.contains(&name) => {
                return self.error(format!("Unknown symbol '{name}'"));
            }
            None => {}
        }
        // Special registers are known by what reads them.
        Ok(if name.starts_with('%') { Operand::Register(name) } else { Operand::Symbol(name) })
    }
}

/// How many bits a fundamental type of a variable or register has.
pub(crate) fn type_bits(ty: &str) -> Option<u32> {
    Some(match ty {
        "b8" | "u8" | "s8" => 8,
        "b16" | "u16" | "s16" | "f16" => 16,
        "b32" | "u32" | "s32" | "f32" | "f16x2" => 32,
        "b64" | "u64" | "s64" | "f64" => 64,
        _ => return None,
    })
}

fn shown(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("'{}'", word.chars().take(80).collect::<String>()),
        Token::Int(value) => format!("'{value}'"),
        Token::Float(..) => "a float".into(),
        Token::Text(_) => "a text in quotes".into(),
        Token::Sign(sign) => format!("'{sign}'"),
        Token::End => "the end of the text".into(),
    }
}
