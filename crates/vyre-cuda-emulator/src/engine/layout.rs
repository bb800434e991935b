//! Where variables and parameters are: offsets that are known before a launch.

use super::code::Space;
use crate::ptx::{Entry, Error, Initial, Module, Variable, type_bits};
use std::collections::HashMap;

/// Where a block's shared memory begins in the shared space. The system has what is before it, and an address that was not
/// made from a variable's is likely to be there.
pub(super) const SHARED_BASE: u64 = 1024;
/// Where a thread's local memory begins in the local space.
pub(super) const LOCAL_BASE: u64 = 256;
/// More than any space has.
const SPACE_BYTES_MAX: u64 = 1 << 31;
const CONST_BYTES_MAX: u64 = 64 << 10;
/// What a block may declare; more is to be had at launch alone.
const SHARED_BYTES_MAX: u64 = 48 << 10;
const LOCAL_BYTES_MAX: u64 = 512 << 10;

/// The module's variables.
pub(super) struct Layout {
    /// `.global` and `.const` ones, in the order of the text.
    pub(super) globals: Vec<Global>,
    /// By name: the number of a global, or the offset of a shared variable.
    places: HashMap<String, (Space, u64)>,
    /// Bytes of module-wide shared variables that have a size, and the alignment of those that have none.
    shared_end: u64,
    dynamic_align: u64,
    dynamic: Vec<String>,
}

/// A variable in device memory.
pub(super) struct Global {
    pub(super) name: String,
    pub(super) byte_len: u64,
    /// Its bytes, as far as they are given, and places in them that are addresses of other variables.
    pub(super) bytes: Vec<u8>,
    pub(super) links: Vec<(usize, String, i64)>,
    pub(super) constant: bool,
}

fn wrong<T>(line: u32, message: impl Into<String>) -> Result<T, Error> {
    Err(Error { line, message: message.into() })
}

/// Bytes of an element, with its vector's width.
fn element_bytes(variable: &Variable) -> u64 {
    u64::from(type_bits(&variable.ty).unwrap_or(8) / 8 * variable.vector)
}

fn align_of(variable: &Variable) -> u64 {
    u64::from(variable.align.unwrap_or(0)).max(element_bytes(variable))
}

/// Where a variable begins and ends, behind others of its space.
fn placed(variable: &Variable, behind: u64) -> Result<[u64; 2], Error> {
    let start = behind.next_multiple_of(align_of(variable));
    let end = start + variable.len.unwrap_or(0) * element_bytes(variable);
    match end <= SPACE_BYTES_MAX {
        true => Ok([start, end]),
        false => wrong(variable.line, format!("'{}' does not fit its state space", variable.name)),
    }
}

impl Layout {
    pub(super) fn of(module: &Module) -> Result<Layout, Error> {
        let mut layout = Layout {
            globals: Vec::new(),
            places: HashMap::new(),
            shared_end: 0,
            dynamic_align: 1,
            dynamic: Vec::new(),
        };
        for variable in &module.variables {
            let (line, name) = (variable.line, variable.name.clone());
            let place = match variable.space.as_str() {
                "shared" => (Space::Shared, layout.shared(variable)?),
                _ if variable.external => {
                    return wrong(line, format!("'{name}' is extern, and there is no linker here"));
                }
                space => {
                    let global = global(variable)?;
                    let unknown = |(_, name, _): &&(usize, String, i64)| {
                        !matches!(layout.places.get(name), Some((Space::Global | Space::Const, _)))
                    };
                    if let Some((_, name, _)) = global.links.iter().find(unknown) {
                        return wrong(line, format!("Invalid initial value symbol '{name}'"));
                    }
                    layout.globals.push(global);
                    let space = if space == "const" { Space::Const } else { Space::Global };
                    (space, layout.globals.len() as u64 - 1)
                }
            };
            let constants = layout.globals.iter().filter(|global| global.constant);
            if constants.map(|global| global.byte_len).sum::<u64>() > CONST_BYTES_MAX {
                return wrong(
                    line,
                    format!("File uses too much global constant data ({CONST_BYTES_MAX:#x} bytes max)"),
                );
            }
            let taken = module.entries.iter().any(|entry| entry.name == name);
            if layout.places.insert(name.clone(), place).is_some() || taken {
                return wrong(line, format!("Duplicate definition of '{name}'"));
            }
        }
        Ok(layout)
    }

    fn shared(&mut self, variable: &Variable) -> Result<u64, Error> {
        if variable.len.is_none() {
            if !variable.external {
                return wrong(variable.line, format!("'{}' has no size and is not extern", variable.name));
            }
            self.dynamic_align = self.dynamic_align.max(align_of(variable));
            self.dynamic.push(variable.name.clone());
            return Ok(0);
        }
        let [start, end] = placed(variable, self.shared_end)?;
        self.shared_end = end;
        Ok(SHARED_BASE + start)
    }

    pub(super) fn find(&self, name: &str) -> Option<(Space, u64)> {
        self.places.get(name).copied()
    }
}

fn global(variable: &Variable) -> Result<Global, Error> {
    let scalar = u64::from(type_bits(&variable.ty).unwrap_or(8) / 8);
    let Some(len) = variable.len else {
        return wrong(variable.line, format!("'{}' has no size", variable.name));
    };
    let byte_len = len * element_bytes(variable);
    if variable.init.len() as u64 * scalar > byte_len {
        return wrong(variable.line, format!("'{}' has more initial values than elements", variable.name));
    }
    if byte_len == 0 {
        return wrong(variable.line, format!("'{}' has no bytes", variable.name));
    }
    let float = variable.ty.starts_with('f');
    let (mut bytes, mut links) = (Vec::new(), Vec::new());
    for value in &variable.init {
        let bits = match value {
            Initial::Int(_) if float => {
                return wrong(variable.line, "Initial value type mismatch: an integer for a float");
            }
            Initial::Float(..) if matches!(variable.ty.as_bytes(), [b'u' | b's', ..]) => {
                return wrong(variable.line, "Initial value type mismatch: a float for an integer");
            }
            Initial::Int(value) => *value as u64,
            Initial::Float(bits, 64) if scalar == 4 => u64::from((f64::from_bits(*bits) as f32).to_bits()),
            Initial::Float(bits, width) if u64::from(*width) == 8 * scalar => *bits,
            Initial::Float(..) => return wrong(variable.line, "a float's width is not its variable's"),
            Initial::Symbol(..) | Initial::Generic(..) if scalar != 8 => {
                return wrong(variable.line, "an address needs 64 bits");
            }
            // Addresses of these spaces are generic ones.
            Initial::Symbol(name, offset) | Initial::Generic(name, offset) => {
                links.push((bytes.len(), name.clone(), *offset));
                0
            }
        };
        bytes.extend(&bits.to_le_bytes()[..scalar as usize]);
    }
    let constant = variable.space == "const";
    Ok(Global { name: variable.name.clone(), byte_len, bytes, links, constant })
}

/// What one kernel has: parameters, shared and local variables.
pub(super) struct Frame {
    places: HashMap<String, (Space, u64)>,
    /// Offset and size of each parameter.
    pub(super) params: Vec<(u32, u32)>,
    pub(super) param_bytes: u32,
    /// Static shared memory in bytes, padded so that the dynamic one begins aligned.
    pub(super) shared_bytes: u32,
    pub(super) local_bytes: u32,
}

impl Frame {
    pub(super) fn of(entry: &Entry, layout: &Layout) -> Result<Frame, Error> {
        let mut frame = Frame {
            places: HashMap::new(),
            params: Vec::new(),
            param_bytes: 0,
            shared_bytes: 0,
            local_bytes: 0,
        };
        let mut param_end = 0u64;
        for param in &entry.params {
            if param.len.is_none() {
                return wrong(param.line, "a parameter needs a size");
            }
            if param.vector > 1 {
                return wrong(param.line, format!("'{}' is a vector, which no parameter is", param.name));
            }
            let [start, end] = placed(param, param_end)?;
            param_end = end;
            if param_end > 32_764 {
                return wrong(param.line, "the parameters have more than 32,764 bytes");
            }
            frame.params.push((start as u32, (end - start) as u32));
            frame.place(param, Space::Param, start)?;
        }
        frame.param_bytes = param_end as u32;
        let (mut shared, mut local) = (layout.shared_end, 0u64);
        for variable in &entry.variables {
            if variable.len.is_none() {
                return wrong(variable.line, "a variable in a body needs a size");
            }
            let (space, base, end) = match variable.space.as_str() {
                "shared" => (Space::Shared, SHARED_BASE, &mut shared),
                _ => (Space::Local, LOCAL_BASE, &mut local),
            };
            let [start, behind] = placed(variable, *end)?;
            *end = behind;
            frame.place(variable, space, base + start)?;
        }
        if local > LOCAL_BYTES_MAX {
            return wrong(
                entry.line,
                format!("local memory of {local} bytes is more than the {LOCAL_BYTES_MAX} of a thread"),
            );
        }
        if shared > SHARED_BYTES_MAX {
            return wrong(
                entry.line,
                format!(
                    "Entry function '{}' uses too much shared data ({shared:#x} bytes, {SHARED_BYTES_MAX:#x} max)",
                    entry.name
                ),
            );
        }
        let dynamic = shared.next_multiple_of(layout.dynamic_align);
        for name in &layout.dynamic {
            frame.places.insert(name.clone(), (Space::Shared, SHARED_BASE + dynamic));
        }
        let padded = if layout.dynamic.is_empty() { shared } else { dynamic };
        frame.shared_bytes = padded as u32;
        frame.local_bytes = local as u32;
        Ok(frame)
    }

    fn place(&mut self, variable: &Variable, space: Space, at: u64) -> Result<(), Error> {
        match self.places.insert(variable.name.clone(), (space, at)) {
            None => Ok(()),
            Some(_) => wrong(variable.line, format!("Duplicate definition of '{}'", variable.name)),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<(Space, u64)> {
        self.places.get(name).copied()
    }
}
