//! The shader around the bodies: bindings, variables, the prologue, and the library functions that are in use.
//!
//! A **space** is a variable of words that buffers lie in: the input, the lookup data, the output, the long tables, and one
//! each for workgroup buffers, short tables, and in the driver's form bound buffers. A **place** says in which space a
//! buffer lies, from which word on, and how many elements it has. Spaces with elements smaller than a word, or with
//! atomics, are arrays of atomics if lanes write them.

use super::body::Body;
use super::library::{Helper, accesses, helpers, words};
use super::names::Names;
use super::native::{self, Native};
use super::{Form, Options, Shader};
use crate::bindings::{self, Bindings, ELEMENTS_WORD, LongTables, table_words};
use crate::convention::{self, ENTRY_BYTES, HEADER_BYTES, lookup_buffer};
use std::collections::BTreeSet;
use std::fmt::Write;
use vyre_foundation::ir::{
    AtomicOp, Buffer, BufferId, BufferKind, DataType, FunctionId, Node, ProgramParts, value_types, walk,
};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::opt::range::AccessFacts;
use vyre_foundation::validate::ValidProgram;

/// Text with its indentation.
#[derive(Default)]
pub(super) struct Text {
    text: String,
    depth: usize,
}

impl Text {
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        let _ = writeln!(self.text, "{:width$}{}", "", line.as_ref(), width = 2 * self.depth);
    }

    /// A line that opens a block.
    pub(super) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1;
    }

    /// Indents as behind a line that closes one block and opens another.
    pub(super) fn indent(&mut self) {
        self.depth += 1;
    }

    /// The line that closes a block.
    pub(super) fn close(&mut self, line: &str) {
        self.depth -= 1;
        self.line(line);
    }
}

/// What a space is.
enum SpaceKind {
    /// One of the convention's bindings.
    Binding,
    /// A buffer of the driver's bindings.
    Bound { binding: u32, writable: bool },
    /// Workgroup memory of that many words.
    Workgroup { words: u32 },
    /// A constant table's words.
    Table { words: Vec<u32> },
}

struct Space {
    name: String,
    kind: SpaceKind,
    atomic: bool,
}

impl Space {
    /// Whether one buffer has it all.
    fn is_whole(&self) -> bool {
        !matches!(self.kind, SpaceKind::Binding)
    }
}

/// An access without the buffer's first word, which is 0.
fn from_the_start(access: &str) -> String {
    access.replace("(at: u32, ", "(").replace("(at, ", "(").replace("at + ", "")
}

/// A library function over the driver's bindings: the trap word and an opaque zero are elsewhere.
fn for_driver(helper: &str) -> String {
    helper.replace("output[params.y / 4u - 1u]", "status[0]").replace("(params.y & 3u)", "launch[0].w")
}

/// Where a buffer lies.
#[derive(Clone, Default)]
pub(super) struct Place {
    space: usize,
    /// Its first word, as an expression.
    pub(super) at: String,
    /// Its elements, as an expression.
    pub(super) len: String,
}

/// The spaces that every shader may have.
const INPUT: usize = 0;
const OUTPUT: usize = 1;
const LOOKUP: usize = 2;
const TABLES: usize = 3;

/// Elements of one constant array: WGSL promises 2,047.
const TABLE_CHUNK_WORDS: usize = 1024;

pub(super) struct Module<'p> {
    pub(super) parts: &'p ProgramParts,
    pub(super) names: Names,
    functions: Vec<String>,
    pub(super) places: Vec<Place>,
    /// Whether traps must remember that an earlier stretch between grid barriers has trapped.
    pub(super) keeps_first_trap: bool,
    pub(super) form: Form,
    /// The accesses that need no check, if checks may be left out.
    facts: Option<&'p AccessFacts>,
    spaces: Vec<Space>,
    helpers: Vec<Helper>,
    accesses: Vec<Helper>,
    /// Library functions in use: of a space or of none, and their places in the library.
    used: BTreeSet<(Option<usize>, usize)>,
    /// Spaces whose words are read or written by `get` and `put`.
    touched: BTreeSet<(usize, bool)>,
}

/// Writes the shader of a program that has no floats and no functions that touch memory other than tables. `original` is
/// what it was before, and `natives` stand in the place of functions.
pub(super) fn write(
    original: &ValidProgram,
    program: &ValidProgram,
    facts: &AccessFacts,
    natives: &[Option<Native>],
    options: &Options,
    shader: &Shader,
    tables: &LongTables,
) -> (String, u64) {
    let parts = program.parts();
    let mut module = Module::new(program, facts, natives, options, shader, tables);
    let (name, digest) = (original.program().name(), original.program().digest());
    let bindings = Bindings::new(original.parts());
    let mut bodies = Text::default();
    let written = native::written(parts, natives);
    for (at, native) in natives.iter().enumerate() {
        let id = FunctionId(at as u32);
        if written[at] {
            module.function(id, &mut bodies);
        }
        if let Some(native) = native {
            module.stand_in(id, native, &mut bodies);
        }
    }
    module.main(options, &mut bodies);
    let library = module.library();
    let mut text = String::new();
    let form = match options.form {
        Form::Grid | Form::Driver => "one workgroup for each of the program's",
        Form::OneWorkgroup => "launched with one workgroup, which takes the program's one after the other",
    };
    let _ = writeln!(text, "// @{name}, written by vyre: {form}.\n// Program {digest}.\n");
    let (declarations, workgroup_bytes) = module.declarations(options, &bindings, &library, &bodies.text);
    text.push_str(&declarations);
    text.push_str(&library);
    text.push_str(&bodies.text);
    (text, workgroup_bytes)
}

impl<'p> Module<'p> {
    fn new(
        program: &'p ValidProgram,
        facts: &'p AccessFacts,
        natives: &[Option<Native>],
        options: &Options,
        shader: &Shader,
        tables: &LongTables,
    ) -> Module<'p> {
        let parts = program.parts();
        let mut names = Names::reserved();
        if natives.iter().any(Option::is_some) {
            names.reserve_floats();
        }
        let (helpers, accesses) = (helpers(), accesses());
        helpers.iter().for_each(|helper| names.reserve(helper.name));
        let (spaces, places) = lay_out(parts, options, tables, &accesses, &mut names);
        let mut module = Module {
            parts,
            functions: parts.functions.iter().map(|f| names.claim(None, &f.name, &[])).collect(),
            names,
            places,
            keeps_first_trap: shader.one_workgroup_only && !shader.traps.is_empty(),
            form: options.form,
            facts: (options.form == Form::Driver).then_some(facts),
            spaces,
            helpers,
            accesses,
            used: BTreeSet::new(),
            touched: BTreeSet::new(),
        };
        module.spaces[OUTPUT].atomic = !shader.traps.is_empty();
        walk(&parts.body.block, |_, _, node| {
            if let Some(buffer) = needs_atomics(node) {
                let space = module.places[buffer.index()].space;
                module.spaces[space].atomic = true;
            }
        });
        module
    }

    /// Marks a library function as used; its name.
    pub(super) fn helper(&mut self, name: &str) -> &'static str {
        let at = self.helpers.iter().position(|helper| helper.name == name);
        let at = at.unwrap_or_else(|| unreachable!("the library has {name}"));
        self.used.insert((None, at));
        self.helpers[at].name
    }

    /// The name by which a function is called. Where the library has one in its place, that is used now.
    pub(super) fn called(&mut self, id: FunctionId) -> String {
        let name = self.functions[id.index()].clone();
        if self.has_helper(&name) {
            self.helper(&name);
        }
        name
    }

    /// Whether the library has such a function.
    pub(super) fn has_helper(&self, name: &str) -> bool {
        self.helpers.iter().any(|helper| helper.name == name)
    }

    /// An access to a buffer: a call with its place before `arguments`.
    pub(super) fn access(&mut self, buffer: BufferId, name: &str, arguments: &str) -> String {
        let Place { space, at, len } = self.places[buffer.index()].clone();
        let function = self.access_name(space, name);
        match self.spaces[space].is_whole() {
            true => format!("{function}({len}, {arguments})"),
            false => format!("{function}({at}, {len}, {arguments})"),
        }
    }

    /// An element of a buffer of words, where it is known that there is one.
    pub(super) fn element(&self, buffer: BufferId, index: &str, site: u32) -> Option<(String, bool)> {
        let Space { name, kind, atomic } = &self.spaces[self.places[buffer.index()].space];
        let plain = matches!(kind, SpaceKind::Bound { .. } | SpaceKind::Workgroup { .. });
        (plain && self.facts.is_some_and(|facts| facts.in_bounds(None, site)))
            .then(|| (format!("{name}[{index}]"), *atomic))
    }

    fn access_name(&mut self, space: usize, name: &str) -> String {
        let at = self.accesses.iter().position(|access| access.name == name);
        let at = at.unwrap_or_else(|| unreachable!("the library has {name}"));
        self.used.insert((Some(space), at));
        format!("{}_{name}", self.spaces[space].name)
    }

    /// Writes a function: its parameters are values of its body.
    fn function(&mut self, id: FunctionId, text: &mut Text) {
        let parts = self.parts;
        let function = &parts.functions[id.index()];
        let types = value_types(&function.body, Some(function), &parts.functions);
        let name = self.functions[id.index()].clone();
        let mut body = Body::new(self, &function.body, types, std::mem::take(text));
        let params: Vec<String> = function
            .params
            .iter()
            .map(|(value, ty)| format!("{}: {}", body.value(*value), word(*ty)))
            .collect();
        let result = function.result.map_or(String::new(), |ty| format!(" -> {}", word(ty)));
        body.text.open(format!("fn {name}({}){result} {{", params.join(", ")));
        body.block(&function.body.block);
        body.text.close("}\n");
        *text = body.text;
    }

    /// Lets callers call the device's own in the place of a function; behind a guard, if it needs one.
    fn stand_in(&mut self, id: FunctionId, native: &Native, text: &mut Text) {
        if !native.is_guarded {
            self.functions[id.index()] = native.helper.clone();
            return;
        }
        let params = ["a", "b", "c"][..self.parts.functions[id.index()].params.len()].iter();
        let typed: Vec<String> = params.clone().map(|param| format!("{param}: u32")).collect();
        let (is_ordinary, is_result) = (self.helper("is_ordinary"), self.helper("is_result"));
        let checks: Vec<String> = params.clone().map(|param| format!("{is_ordinary}({param})")).collect();
        let args = params.copied().collect::<Vec<_>>().join(", ");
        let device = self.helper(&native.helper);
        let name = self.names.claim(None, &format!("guarded.{device}"), &[]);
        let soft = std::mem::replace(&mut self.functions[id.index()], name.clone());
        text.open(format!("fn {name}({}) -> u32 {{", typed.join(", ")));
        text.line(format!("let near = {device}({args});"));
        text.open(format!("if ({} && {is_result}(near)) {{", checks.join(" && ")));
        text.line("return near;");
        text.close("}");
        text.line(format!("return {soft}({args});"));
        text.close("}\n");
    }

    /// Writes the entry point.
    fn main(&mut self, options: &Options, text: &mut Text) {
        let parts = self.parts;
        let [x, y, z] = parts.workgroup;
        text.line(format!("@compute @workgroup_size({x}, {y}, {z})"));
        text.open("fn main(");
        match options.form {
            Form::Grid => text.line("@builtin(workgroup_id) workgroup_id: vec3u,"),
            Form::Driver => text.line("@builtin(workgroup_id) launched_id: vec3u,"),
            Form::OneWorkgroup => {}
        }
        text.line("@builtin(local_invocation_id) local_id: vec3u,");
        text.line("@builtin(local_invocation_index) local_index: u32,");
        text.close(") {");
        text.indent();
        if options.form == Form::Driver {
            self.placing_bound(text);
        } else {
            text.line("let grid = vec3u(input[0], input[1], input[2]);");
            // A layout that a host derives from the shader has the bindings that the shader uses.
            let lookup = options.lookup_binding.map_or("", |_| " + arrayLength(&lookup)");
            text.line(format!("_ = params.x + arrayLength(&output){lookup};"));
            self.placing(text);
        }
        let lanes = parts.workgroup_lanes();
        if options.form == Form::OneWorkgroup {
            self.filling(lanes, text);
            text.open("for (var group = 0u; group < grid.x * grid.y * grid.z; group++) {");
            text.line(
                "let workgroup_id = vec3u(group % grid.x, (group / grid.x) % grid.y, group / (grid.x * grid.y));",
            );
            self.clearing(lanes, text);
        }
        if self.keeps_first_trap {
            text.line("var has_stopped = false;");
        }
        let types = value_types(&parts.body, None, &parts.functions);
        let mut body = Body::new(self, &parts.body, types, std::mem::take(text));
        body.block(&parts.body.block);
        *text = body.text;
        if options.form == Form::OneWorkgroup {
            text.close("}");
        }
        text.close("}");
    }

    /// What the driver's launch words say.
    fn placing_bound(&self, text: &mut Text) {
        text.line("let grid = launch[0].xyz;");
        text.line("let workgroup_id = launched_id + launch[1].xyz;");
        for (at, id) in bound_buffers(self.parts).into_iter().enumerate() {
            if self.parts.buffer(id).len.is_none() {
                let word = ELEMENTS_WORD as usize + at;
                let component = ["x", "y", "z", "w"][word % 4];
                let len = &self.places[id.index()].len;
                text.line(format!("let {len} = launch[{}].{component};", word / 4));
            }
        }
    }

    /// Where the bound buffers lie, from what the header says.
    fn placing(&mut self, text: &mut Text) {
        let mut end = "0u".to_owned();
        let bound = bound_buffers(self.parts);
        let entries: Vec<(BufferId, usize)> =
            bound.iter().enumerate().map(|(at, id)| (*id, (HEADER_BYTES + ENTRY_BYTES * at) / 4)).collect();
        let outputs = |id: BufferId| (!self.parts.buffer(id).is_output()) as u8;
        let mut ordered = entries;
        ordered.sort_by_key(|(id, _)| outputs(*id));
        for (id, entry) in ordered {
            let place = self.places[id.index()].clone();
            let buffer = self.parts.buffer(id);
            match place.space {
                OUTPUT => {
                    let padded = self.helper("padded_words");
                    text.line(format!("let {} = {end};", place.at));
                    end = format!("{} + {padded}(input[{}])", place.at, entry + 1);
                }
                INPUT => text.line(format!("let {} = input[{entry}] / 4u;", place.at)),
                _ => {}
            }
            if buffer.len.is_none() {
                text.line(format!("let {} = input[{}] / {}u;", place.len, entry + 1, buffer.ty.bytes()));
            }
        }
    }

    /// Writes all of the output that anyone reads: what read_write buffers hold before the launch, and no trap.
    fn filling(&mut self, lanes: u64, text: &mut Text) {
        for (entry, id) in bound_buffers(self.parts).into_iter().enumerate() {
            let place = self.places[id.index()].clone();
            if place.space == OUTPUT {
                let fill = self.access_name(OUTPUT, "fill");
                let entry = (HEADER_BYTES + ENTRY_BYTES * entry) / 4;
                text.line(format!("{fill}({}, {entry}u, local_index, {lanes}u);", place.at));
            }
        }
        self.touched.insert((OUTPUT, true));
        text.open("if (local_index == 0u) {");
        text.line("output_put(params.y / 4u - 1u, 0u);");
        text.close("}");
        text.line("storageBarrier();");
    }

    /// Sets workgroup memory to zero for the next of the program's workgroups.
    fn clearing(&mut self, lanes: u64, text: &mut Text) {
        if !self.has_workgroup_memory() {
            return;
        }
        text.line("workgroupBarrier();");
        for space in 0..self.spaces.len() {
            if let SpaceKind::Workgroup { words } = self.spaces[space].kind {
                let clear = self.access_name(space, "clear");
                text.line(format!("{clear}({words}u, local_index, {lanes}u);"));
            }
        }
        text.line("workgroupBarrier();");
    }

    /// Whether a barrier has workgroup memory to order.
    pub(super) fn has_workgroup_memory(&self) -> bool {
        self.spaces.iter().any(|space| matches!(space.kind, SpaceKind::Workgroup { .. }))
    }

    /// The library functions in use, with what they use themselves.
    fn library(&mut self) -> String {
        let mut todo: Vec<_> = self.used.iter().copied().collect();
        while let Some((space, at)) = todo.pop() {
            let text = match space {
                None => self.helpers[at].text,
                Some(_) => self.accesses[at].text,
            };
            for word in words(text) {
                let found = match (word.strip_prefix("SPACE_"), space) {
                    (Some("get"), Some(space)) => {
                        self.touched.insert((space, false));
                        continue;
                    }
                    (Some("put"), Some(space)) => {
                        self.touched.insert((space, true));
                        continue;
                    }
                    (Some(name), _) => {
                        self.accesses.iter().position(|access| access.name == name).map(|at| (space, at))
                    }
                    (None, _) => {
                        self.helpers.iter().position(|helper| helper.name == word).map(|at| (None, at))
                    }
                };
                todo.extend(found.filter(|found| self.used.insert(*found)));
            }
        }
        let mut text = String::new();
        for (space, put) in &self.touched {
            text.push_str(&self.word_access(&self.spaces[*space], *put));
        }
        for (space, at) in &self.used {
            match space {
                None if self.form == Form::Driver => text.push_str(&for_driver(self.helpers[*at].text)),
                None => text.push_str(self.helpers[*at].text),
                Some(space) => {
                    let space = &self.spaces[*space];
                    let access = self.accesses[*at].text;
                    let access = if space.is_whole() { from_the_start(access) } else { access.to_owned() };
                    text.push_str(&access.replace("SPACE", &space.name));
                }
            }
            text.push_str("\n\n");
        }
        text
    }

    /// The functions that read and write one word of a space.
    fn word_access(&self, space: &Space, put: bool) -> String {
        let name = &space.name;
        match (put, space.atomic) {
            (true, true) => {
                format!("fn {name}_put(w: u32, value: u32) {{\n  atomicStore(&{name}[w], value);\n}}\n\n")
            }
            (true, false) => format!("fn {name}_put(w: u32, value: u32) {{\n  {name}[w] = value;\n}}\n\n"),
            (false, true) => {
                format!("fn {name}_get(w: u32) -> u32 {{\n  return atomicLoad(&{name}[w]);\n}}\n\n")
            }
            (false, false) => {
                let body = match &space.kind {
                    SpaceKind::Table { words } => table_read(name, words),
                    SpaceKind::Binding | SpaceKind::Bound { .. } | SpaceKind::Workgroup { .. } => {
                        format!("  return {name}[w];\n")
                    }
                };
                format!("fn {name}_get(w: u32) -> u32 {{\n{body}}}\n\n")
            }
        }
    }

    /// The bindings and variables, and the bytes of those that a workgroup shares.
    fn declarations(
        &self,
        options: &Options,
        driver: &Bindings,
        library: &str,
        bodies: &str,
    ) -> (String, u64) {
        let (mut text, mut workgroup_bytes) = (String::new(), 0);
        let word = |space: usize| if self.spaces[space].atomic { "atomic<u32>" } else { "u32" };
        let vectors = format!("array<vec4u, {}>", driver.launch_vectors());
        let status = format!("array<atomic<u32>, {}>", bindings::STATUS_WORDS);
        let has_tables = self.places.iter().any(|place| place.space == TABLES);
        let tables = has_tables.then(|| driver.tables());
        let bindings = match self.form {
            Form::Driver => vec![
                (Some(driver.launch()), "uniform", "launch", vectors),
                (driver.status(), "storage, read_write", "status", status),
                (tables, "storage, read", "tables", "array<u32>".to_owned()),
            ],
            Form::Grid | Form::OneWorkgroup => vec![
                (Some(convention::INPUT_BINDING), "storage, read", "input", "array<u32>".to_owned()),
                (
                    Some(convention::OUTPUT_BINDING),
                    "storage, read_write",
                    "output",
                    format!("array<{}>", word(OUTPUT)),
                ),
                (Some(convention::PARAMS_BINDING), "uniform", "params", "vec4u".to_owned()),
                (options.lookup_binding, "storage, read", "lookup", "array<u32>".to_owned()),
            ],
        };
        for (binding, space, name, ty) in bindings {
            if let Some(binding) = binding {
                let _ = writeln!(text, "@group(0) @binding({binding}) var<{space}> {name}: {ty};");
            }
        }
        let used = |name: &str| words(library).chain(words(bodies)).any(|word| word == name);
        let lanes = self.parts.workgroup_lanes();
        let exchanged =
            [("lane_values", format!("array<vec2u, {lanes}>"), lanes), ("staged", "vec2u".to_owned(), 1)];
        for (name, ty, pairs) in exchanged {
            if used(name) {
                let _ = writeln!(text, "var<workgroup> {name}: {ty};");
                workgroup_bytes += 8 * pairs;
            }
        }
        for (at, space) in self.spaces.iter().enumerate() {
            match &space.kind {
                SpaceKind::Binding => {}
                SpaceKind::Bound { binding, writable } => {
                    let access = if *writable { "read_write" } else { "read" };
                    let (name, word) = (&space.name, word(at));
                    let _ = writeln!(
                        text,
                        "@group(0) @binding({binding}) var<storage, {access}> {name}: array<{word}>;"
                    );
                }
                SpaceKind::Workgroup { words } => {
                    let _ = writeln!(text, "var<workgroup> {}: array<{}, {words}>;", space.name, word(at));
                    workgroup_bytes += 4 * u64::from(*words);
                }
                SpaceKind::Table { words } => text.push_str(&table(&space.name, words)),
            }
        }
        text.push('\n');
        (text, workgroup_bytes)
    }
}

/// The spaces, and where in them each buffer lies. Names that begin with a space's or a buffer's are kept for its own.
fn lay_out(
    parts: &ProgramParts,
    options: &Options,
    tables: &LongTables,
    accesses: &[Helper],
    names: &mut Names,
) -> (Vec<Space>, Vec<Place>) {
    // A space's name stands in the functions that access it, where it must not be one of theirs.
    let mut inside = Names::default();
    accesses.iter().flat_map(|access| words(access.text)).for_each(|word| inside.reserve(word));
    let own = accesses.iter().map(|access| access.name).chain(["get", "put", "at", "len"]);
    let endings: Vec<String> = own.map(str::to_owned).collect();
    let mut spaces: Vec<Space> = ["input", "output", "lookup", "tables"]
        .map(|name| Space { name: name.into(), kind: SpaceKind::Binding, atomic: false })
        .into();
    for space in &spaces {
        endings.iter().for_each(|ending| names.reserve(&format!("{}_{ending}", space.name)));
    }
    let aside = options.lookup_binding.and_then(|_| lookup_buffer(parts));
    let driver = (options.form == Form::Driver).then(|| Bindings::new(parts));
    let place = |(at, buffer): (usize, &Buffer)| {
        let kind = match &buffer.kind {
            BufferKind::Table { .. } if tables.first(BufferId(at as u32)).is_some() => SpaceKind::Binding,
            BufferKind::Table { data } => SpaceKind::Table { words: table_words(buffer.ty, data) },
            BufferKind::Workgroup => {
                let bytes = buffer.len.unwrap_or(0) as usize * buffer.ty.bytes();
                SpaceKind::Workgroup { words: bytes.div_ceil(4) as u32 }
            }
            BufferKind::Uniform { .. } | BufferKind::Read { .. } | BufferKind::ReadWrite { .. } => {
                let binding = driver.as_ref().and_then(|driver| driver.of(BufferId(at as u32)));
                let writable = buffer.is_writable();
                binding.map_or(SpaceKind::Binding, |binding| SpaceKind::Bound { binding, writable })
            }
        };
        let name = match &kind {
            SpaceKind::Binding => names.claim(None, &buffer.name, &endings),
            SpaceKind::Bound { .. } | SpaceKind::Workgroup { .. } => {
                names.claim(Some(&inside), &buffer.name, &endings)
            }
            SpaceKind::Table { words } => {
                let chunks = (1..words.len().div_ceil(TABLE_CHUNK_WORDS)).map(|chunk| format!("at{chunk}"));
                let endings: Vec<String> = endings.iter().cloned().chain(chunks).collect();
                names.claim(Some(&inside), &buffer.name, &endings)
            }
        };
        let len = buffer.len.map_or_else(|| format!("{name}_len"), |len| format!("{len}u"));
        let (space, at) = match kind {
            SpaceKind::Binding if let Some(first) = tables.first(BufferId(at as u32)) => {
                (TABLES, format!("{first}u"))
            }
            SpaceKind::Binding if aside == Some(BufferId(at as u32)) => (LOOKUP, "0u".into()),
            SpaceKind::Binding if buffer.is_writable() => (OUTPUT, format!("{name}_at")),
            SpaceKind::Binding => (INPUT, format!("{name}_at")),
            SpaceKind::Bound { .. } | SpaceKind::Workgroup { .. } | SpaceKind::Table { .. } => {
                spaces.push(Space { name, kind, atomic: false });
                (spaces.len() - 1, "0u".into())
            }
        };
        Place { space, at, len }
    };
    let places = parts.buffers.iter().enumerate().map(place).collect();
    (spaces, places)
}

/// The WGSL type of a value.
pub(super) fn word(ty: DataType) -> &'static str {
    match ty {
        DataType::Bool => "bool",
        DataType::U32 => "u32",
        DataType::I32 => "i32",
        DataType::U64 | DataType::I64 => "vec2u",
        DataType::U8
        | DataType::I8
        | DataType::U16
        | DataType::I16
        | DataType::F16
        | DataType::BF16
        | DataType::F32
        | DataType::F64 => unreachable!("emulated by integers: {ty} does not compute here"),
    }
}

/// The buffer whose words a line needs as atomics.
fn needs_atomics(node: &Node) -> Option<BufferId> {
    let small = |ty: DataType| ty.bits() < 32;
    match node {
        Node::Store { ty, buffer, .. } if small(*ty) => Some(*buffer),
        Node::AllGather { ty, dst, .. } | Node::Broadcast { ty, dst, .. } if small(*ty) => Some(*dst),
        Node::Atomic { ty, buffer, .. } if ty.bits() == 32 => Some(*buffer),
        // With a result they are plain accesses to the race rule, so plain words do.
        Node::Atomic { result: None, op, buffer, .. } => match op {
            AtomicOp::Add | AtomicOp::Sub | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => Some(*buffer),
            AtomicOp::Min | AtomicOp::Max => Some(*buffer),
            AtomicOp::Exchange | AtomicOp::CompareExchange => None,
        },
        _ => None,
    }
}

/// A table's constants, in arrays that WGSL has room for.
fn table(name: &str, words: &[u32]) -> String {
    let mut text = String::new();
    for (at, chunk) in words.chunks(TABLE_CHUNK_WORDS).enumerate() {
        let list: Vec<String> = chunk.iter().map(|word| format!("{word}u")).collect();
        let _ = writeln!(
            text,
            "const {} = array<u32, {}>({});",
            chunk_name(name, at),
            chunk.len(),
            list.join(", ")
        );
    }
    text
}

fn chunk_name(name: &str, chunk: usize) -> String {
    if chunk == 0 { name.to_owned() } else { format!("{name}_at{chunk}") }
}

/// How a table's word is read.
fn table_read(name: &str, words: &[u32]) -> String {
    if words.len() <= TABLE_CHUNK_WORDS {
        return format!("  return {name}[w];\n");
    }
    let mut text = format!("  switch w / {TABLE_CHUNK_WORDS}u {{\n");
    for chunk in 0..words.len().div_ceil(TABLE_CHUNK_WORDS) {
        let read = format!("return {}[w % {TABLE_CHUNK_WORDS}u];", chunk_name(name, chunk));
        let _ = writeln!(text, "    case {chunk}u: {{\n      {read}\n    }}");
    }
    text.push_str("    default: {\n      return 0u;\n    }\n  }\n");
    text
}
