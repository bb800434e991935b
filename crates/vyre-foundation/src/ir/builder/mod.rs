//! Builds programs in Rust code that reads like the kernel it builds.
//!
//! [`Program::build`] hands a [`Kernel`] to a closure. Buffers, values and locals are small copyable handles with the
//! type of what they stand for; using one emits a line. Operators work on handles and on Rust constants alike, and
//! control flow takes closures. The order in which Rust evaluates is the order of the lines.
//!
//! ```
//! use vyre_foundation::{ir::{Axis, Program}, text};
//!
//! let saxpy = Program::build("saxpy", [64, 1, 1], |k| {
//!     let a = k.uniform::<f32>("a", 0).sized(1);
//!     let x = k.read::<f32>("x", 1);
//!     let y = k.read_write::<f32>("y", 2).output();
//!
//!     let i = k.global_id(Axis::X).named("i");
//!     k.if_(i.lt(y.len()), || {
//!         y.put(i, a.at(0).fma(x.at(i), y.at(i)));
//!     });
//! })?;
//!
//! assert_eq!(text::print(&saxpy), "\
//! program @saxpy workgroup(64, 1, 1) {
//!   buffer @a : uniform    f32[1] binding 0
//!   buffer @x : read       f32[]  binding 1
//!   buffer @y : read_write f32[]  binding 2 output
//!
//!   %i  = global_id x
//!   %v0 = len @y
//!   %v1 = lt.u32 %i, %v0
//!   if %v1 {
//!     %v2 = load.f32 @a[0]
//!     %v3 = load.f32 @x[%i]
//!     %v4 = load.f32 @y[%i]
//!     %v5 = fma.f32 %v2, %v3, %v4
//!     store.f32 @y[%i], %v5
//!   }
//! }
//! ");
//! # Ok::<(), vyre_foundation::ir::ProgramError>(())
//! ```
//!
//! A type error is a Rust type error. What only the whole program shows (a barrier in divergent flow, say) is left to
//! `validate`. A handle used where it does not belong, a function's value in the main body for instance, is remembered
//! and returned by [`Program::build`].

mod control;
mod function;
mod memory;
mod types;
mod value;

#[cfg(test)]
#[path = "../../../tests/unit/builder.rs"]
mod tests;

pub use control::{Bounds, Stepped};
pub use function::{CallArgs, Callable, Params, Returns};
pub use memory::{Array, Mem, ReadOnly, Shared, Storage, Var, Writable};
pub use types::{BitcastTo, Computes, Element, Float, Int32, Integer, Logic, Number, Scalar, Signed};
pub use value::{Arg, Val};

use super::node::{Axis, Block, BufferId, Node, Operand, Value};
use super::op::BuiltinOp;
use super::program::{Body, Buffer, BufferKind, Function, Program, ProgramError, ProgramParts};
use crate::math::{self, MathOp};
use std::cell::RefCell;

impl Program {
    /// The program that `build` describes.
    ///
    /// ```
    /// use vyre_foundation::ir::{Axis, Program};
    ///
    /// let double = Program::build("double", [64, 1, 1], |k| {
    ///     let y = k.read_write::<u32>("y", 0).output();
    ///     let i = k.global_id(Axis::X);
    ///     y.put(i, y.at(i) * 2);
    /// })?;
    /// assert_eq!(double.name(), "double");
    /// # Ok::<(), vyre_foundation::ir::ProgramError>(())
    /// ```
    pub fn build(
        name: &str,
        workgroup: [u32; 3],
        build: impl FnOnce(&Kernel),
    ) -> Result<Program, ProgramError> {
        let kernel = Kernel::new(name, workgroup);
        build(&kernel);
        kernel.finish()
    }
}

/// A program being built: declares buffers and functions, and emits lines.
pub struct Kernel {
    state: RefCell<State>,
}

struct State {
    parts: ProgramParts,
    /// The main body, and those of the functions being built inside it.
    frames: Vec<Frame>,
    bodies: u32,
    /// The first misuse of a handle.
    error: Option<ProgramError>,
}

/// A body being built.
struct Frame {
    id: u32,
    body: Body,
    /// The blocks that are open, outermost first.
    blocks: Vec<Block>,
}

impl Frame {
    fn new(id: u32) -> Frame {
        Frame { id, body: Body::default(), blocks: vec![Block::new()] }
    }

    fn finish(mut self) -> Body {
        self.body.block = self.blocks.pop().expect("blocks open and close in pairs");
        number("v", &mut self.body.values);
        number("l", &mut self.body.locals);
        self.body
    }
}

/// Gives what was never named its letter and number.
fn number(letter: &str, names: &mut [super::program::Name]) {
    for (number, name) in names.iter_mut().filter(|name| name.is_empty()).enumerate() {
        *name = format!("{letter}{number}").into();
    }
}

impl State {
    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the main body is open until the end")
    }
}

impl Kernel {
    fn new(name: &str, workgroup: [u32; 3]) -> Kernel {
        let parts = ProgramParts::new(name, workgroup);
        Kernel { state: RefCell::new(State { parts, frames: vec![Frame::new(0)], bodies: 1, error: None }) }
    }

    fn finish(self) -> Result<Program, ProgramError> {
        let mut state = self.state.into_inner();
        if let Some(error) = state.error {
            return Err(error);
        }
        state.parts.body = state.frames.pop().expect("the main body is open until the end").finish();
        Program::new(state.parts)
    }

    fn emit(&self, node: Node) {
        let mut state = self.state.borrow_mut();
        state.frame().blocks.last_mut().expect("a body has an open block").push(node);
    }

    /// Emits a line that assigns, and gives the handle of what it assigns.
    fn assign<T: Computes>(&self, line: impl FnOnce(Value) -> Node) -> Val<'_, T> {
        let result = self.new_value();
        self.emit(line(result));
        self.handle(result)
    }

    /// A call of an elementary function of type `T`, which the program gets with its first use.
    fn math<T: Computes>(&self, name: &str, args: Vec<Operand>) -> Val<'_, T> {
        let op = MathOp::from_name(name).expect("the builder's methods are those of the table");
        let declared = if op.types.contains(T::TYPE) {
            math::declare(&mut self.state.borrow_mut().parts, op, T::TYPE).map_err(|taken| {
                (
                    format!("`{name}` needs the name `@{}` for its function", taken.0),
                    "give what is called so another name",
                )
            })
        } else {
            Err((format!("there is no `{name}` of {}", T::TYPE), "cast its operands to another type"))
        };
        match declared {
            Ok(function) => self.assign(|result| Node::Call { result: Some(result), function, args }),
            Err((message, fix)) => {
                self.misuse(message, fix);
                self.val(T::from_bits(0))
            }
        }
    }

    fn new_value(&self) -> Value {
        self.state.borrow_mut().frame().body.new_value("")
    }

    fn handle<T: Computes>(&self, value: Value) -> Val<'_, T> {
        Val::new(self, Operand::Value(value), self.body_id())
    }

    fn body_id(&self) -> u32 {
        self.state.borrow_mut().frame().id
    }

    /// Remembers the first misuse; [`Program::build`] returns it.
    fn misuse(&self, message: impl Into<String>, fix: impl Into<String>) {
        let error = ProgramError { message: message.into(), fix: fix.into() };
        self.state.borrow_mut().error.get_or_insert(error);
    }

    /// Whether a handle of `kernel` and, for values and locals, of body `body` may be used here.
    fn admits(&self, what: &str, kernel: &Kernel, body: Option<u32>) -> bool {
        if !std::ptr::eq(self, kernel) {
            self.misuse(
                format!("a {what} of another kernel is used in this one"),
                "declare it in the kernel that uses it",
            );
            return false;
        }
        if body.is_some_and(|body| body != self.body_id()) {
            self.misuse(
                format!("a {what} is used outside the body that made it"),
                "pass it to the function as an argument, or return it as the function's result",
            );
            return false;
        }
        true
    }

    /// Runs `fill` with a new block open, and gives the block.
    fn block(&self, fill: impl FnOnce()) -> Block {
        self.state.borrow_mut().frame().blocks.push(Block::new());
        fill();
        self.state.borrow_mut().frame().blocks.pop().expect("blocks open and close in pairs")
    }

    fn declare<T: Element, M>(&self, name: &str, kind: BufferKind, len: Option<u32>) -> Mem<'_, T, M> {
        let mut state = self.state.borrow_mut();
        let id = BufferId(state.parts.buffers.len() as u32);
        state.parts.buffers.push(Buffer { name: name.into(), kind, ty: T::TYPE, len });
        Mem::new(self, id)
    }

    /// Declares the logical subgroup width.
    pub fn subgroup(&self, width: u32) {
        self.state.borrow_mut().parts.subgroup = Some(width);
    }

    /// Declares a small read-only buffer, the same for all lanes.
    pub fn uniform<T: Element>(&self, name: &str, binding: u32) -> Mem<'_, T, ReadOnly> {
        self.declare(name, BufferKind::Uniform { binding }, None)
    }

    /// Declares a read-only storage buffer.
    pub fn read<T: Element>(&self, name: &str, binding: u32) -> Mem<'_, T, ReadOnly> {
        self.declare(name, BufferKind::Read { binding }, None)
    }

    /// Declares a storage buffer that lanes read and write.
    pub fn read_write<T: Element>(&self, name: &str, binding: u32) -> Mem<'_, T, Storage> {
        self.declare(name, BufferKind::ReadWrite { binding, output: false }, None)
    }

    /// Declares memory of `len` elements that the lanes of a workgroup share.
    pub fn workgroup<T: Element>(&self, name: &str, len: u32) -> Mem<'_, T, Shared> {
        self.declare(name, BufferKind::Workgroup, Some(len))
    }

    /// Declares a constant table.
    pub fn table<T: Element>(&self, name: &str, data: &[T]) -> Mem<'_, T, ReadOnly> {
        let data: Vec<u64> = data.iter().map(|element| element.bits()).collect();
        let len = data.len() as u32;
        self.declare(name, BufferKind::Table { data }, Some(len))
    }

    /// The constant as a handle, for where Rust wants one: `k.val(1u32) - x`.
    pub fn val<T: Computes>(&self, constant: T) -> Val<'_, T> {
        Val::new(self, constant.literal().into(), self.body_id())
    }
}

macro_rules! builtins {
    ($( $(#[$meta:meta])* $method:ident $op:ident $(($axis:ident))?; )*) => {
        impl Kernel {
            $(
                $(#[$meta])*
                pub fn $method(&self $(, $axis: Axis)?) -> Val<'_, u32> {
                    let axis = [$( Some($axis), )? None][0];
                    self.assign(|result| Node::Builtin { result, op: BuiltinOp::$op, axis })
                }
            )*
        }
    };
}

builtins! {
    /// This lane's position in the grid along an axis.
    global_id GlobalId (axis);
    /// This lane's position in its workgroup along an axis.
    local_id LocalId (axis);
    /// This workgroup's position in the grid along an axis.
    workgroup_id WorkgroupId (axis);
    /// The number of workgroups launched along an axis.
    num_workgroups NumWorkgroups (axis);
    /// The number of lanes of a workgroup along an axis.
    workgroup_size WorkgroupSize (axis);
    /// This lane's linear position in the grid.
    global_index GlobalIndex;
    /// This lane's linear position in its workgroup.
    local_index LocalIndex;
    /// This workgroup's linear position in the grid.
    workgroup_index WorkgroupIndex;
    /// This lane's position in its logical subgroup.
    subgroup_lane SubgroupLane;
    /// The logical subgroup's position in its workgroup.
    subgroup_index SubgroupIndex;
}

impl Kernel {
    /// Opens a function's body.
    fn open_body(&self) {
        let mut state = self.state.borrow_mut();
        let id = state.bodies;
        state.bodies += 1;
        state.frames.push(Frame::new(id));
    }

    /// Closes the innermost body, which becomes `function`'s.
    fn close_body(&self, mut function: Function) -> super::node::FunctionId {
        let mut state = self.state.borrow_mut();
        function.body = state.frames.pop().expect("bodies open and close in pairs").finish();
        state.parts.functions.push(function);
        super::node::FunctionId(state.parts.functions.len() as u32 - 1)
    }
}
