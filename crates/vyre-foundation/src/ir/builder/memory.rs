//! Memory: buffers, tables, mutable locals and private arrays.

use super::types::{Computes, Element, Integer};
use super::value::{Arg, Val};
use super::{Kernel, Scalar};
use crate::ir::{AtomicOp, BufferId, BufferKind, DataType, Local, Node, Operand};
use smallvec::{SmallVec, smallvec};
use std::marker::PhantomData;

/// Marks uniforms, read-only buffers and tables.
pub enum ReadOnly {}
/// Marks storage buffers that lanes write.
pub enum Storage {}
/// Marks workgroup memory.
pub enum Shared {}

/// Marks memory that lanes write.
pub trait Writable {}
impl Writable for Storage {}
impl Writable for Shared {}

/// A buffer or table with elements `T`; `M` says how it may be used.
pub struct Mem<'k, T, M> {
    kernel: &'k Kernel,
    id: BufferId,
    kind: PhantomData<fn() -> (T, M)>,
}

impl<T, M> Clone for Mem<'_, T, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, M> Copy for Mem<'_, T, M> {}

impl<'k, T: Element, M> Mem<'k, T, M> {
    pub(super) fn new(kernel: &'k Kernel, id: BufferId) -> Mem<'k, T, M> {
        Mem { kernel, id, kind: PhantomData }
    }

    /// The buffer's id, checked to be one of `kernel`.
    pub(super) fn id(self, kernel: &Kernel) -> BufferId {
        kernel.admits("buffer", self.kernel, None);
        self.id
    }

    /// Loads the element at `index`; 0 out of bounds.
    pub fn at(self, index: impl Arg<'k, u32>) -> Val<'k, T::Value> {
        let (buffer, index) = (self.id, index.operand(self.kernel));
        self.kernel.assign(|result| Node::Load { result, ty: T::TYPE, buffer, index })
    }

    /// The number of elements.
    #[allow(clippy::len_without_is_empty)] // It emits a line; there is nothing to ask now.
    pub fn len(self) -> Val<'k, u32> {
        self.kernel.assign(|result| Node::Len { result, buffer: self.id })
    }

    /// Declares the number of elements, which the caller must then bind exactly.
    pub fn sized(self, len: u32) -> Mem<'k, T, M> {
        self.kernel.state.borrow_mut().parts.buffers[self.id.index()].len = Some(len);
        self
    }
}

impl<'k, M> Mem<'k, u8, M> {
    /// The little-endian word of the bytes `index..index + 4`, those out of bounds read as 0.
    pub fn word_at(self, index: impl Arg<'k, u32>) -> Val<'k, u32> {
        let (buffer, index) = (self.id, index.operand(self.kernel));
        self.kernel.assign(|result| Node::Load { result, ty: DataType::U32, buffer, index })
    }
}

impl<'k, T: Element> Mem<'k, T, Storage> {
    /// Declares that its bytes return to the caller.
    pub fn output(self) -> Mem<'k, T, Storage> {
        let mut state = self.kernel.state.borrow_mut();
        if let BufferKind::ReadWrite { output, .. } = &mut state.parts.buffers[self.id.index()].kind {
            *output = true;
        }
        drop(state);
        self
    }
}

impl<'k, T: Element> Mem<'k, T, Shared> {
    /// A barrier, a load at an index that is the same for all lanes, a barrier. The result is uniform.
    pub fn uniform_load(self, index: impl Arg<'k, u32>) -> Val<'k, T::Value> {
        let (buffer, index) = (self.id, index.operand(self.kernel));
        self.kernel.assign(|result| Node::UniformLoad { result, ty: T::TYPE, buffer, index })
    }
}

impl<'k, T: Element, M: Writable> Mem<'k, T, M> {
    /// Stores `value` at `index`; nothing out of bounds.
    pub fn put(self, index: impl Arg<'k, u32>, value: impl Arg<'k, T::Value>) {
        let k = self.kernel;
        let (index, value) = (index.operand(k), value.operand(k));
        k.emit(Node::Store { ty: T::TYPE, buffer: self.id, index, value });
    }
}

impl<'k, T: Integer, M: Writable> Mem<'k, T, M> {
    fn atomic(self, op: AtomicOp, index: impl Arg<'k, u32>, args: SmallVec<[Operand; 3]>) {
        let index = index.operand(self.kernel);
        self.kernel.emit(Node::Atomic { result: None, op, ty: T::TYPE, buffer: self.id, index, args });
    }

    fn fetch(self, op: AtomicOp, index: impl Arg<'k, u32>, args: SmallVec<[Operand; 3]>) -> Val<'k, T> {
        let index = index.operand(self.kernel);
        let (ty, buffer) = (T::TYPE, self.id);
        self.kernel.assign(|result| Node::Atomic { result: Some(result), op, ty, buffer, index, args })
    }

    /// Puts `value` if the element is `expected`.
    pub fn atomic_compare_exchange(
        self,
        index: impl Arg<'k, u32>,
        expected: impl Arg<'k, T>,
        value: impl Arg<'k, T>,
    ) {
        let args = smallvec![expected.operand(self.kernel), value.operand(self.kernel)];
        self.atomic(AtomicOp::CompareExchange, index, args);
    }

    /// Puts `value` if the element is `expected`, and gives the old one.
    pub fn compare_exchange(
        self,
        index: impl Arg<'k, u32>,
        expected: impl Arg<'k, T>,
        value: impl Arg<'k, T>,
    ) -> Val<'k, T> {
        let args = smallvec![expected.operand(self.kernel), value.operand(self.kernel)];
        self.fetch(AtomicOp::CompareExchange, index, args)
    }
}

macro_rules! atomics {
    ($( $atomic:ident $fetch:ident $op:ident, $doc:literal; )*) => {
        impl<'k, T: Integer, M: Writable> Mem<'k, T, M> {
            $(
                #[doc = concat!($doc, ", and asks for no result: lanes that do so to one element do not race.")]
                pub fn $atomic(self, index: impl Arg<'k, u32>, value: impl Arg<'k, T>) {
                    let value = value.operand(self.kernel);
                    self.atomic(AtomicOp::$op, index, smallvec![value]);
                }

                #[doc = concat!($doc, ", and gives the old value.")]
                pub fn $fetch(self, index: impl Arg<'k, u32>, value: impl Arg<'k, T>) -> Val<'k, T> {
                    let value = value.operand(self.kernel);
                    self.fetch(AtomicOp::$op, index, smallvec![value])
                }
            )*
        }
    };
}

atomics! {
    atomic_add fetch_add Add, "Adds to an element";
    atomic_sub fetch_sub Sub, "Subtracts from an element";
    atomic_min fetch_min Min, "Keeps the lesser of an element and a value";
    atomic_max fetch_max Max, "Keeps the greater of an element and a value";
    atomic_and fetch_and And, "Bitwise and with an element";
    atomic_or fetch_or Or, "Bitwise or with an element";
    atomic_xor fetch_xor Xor, "Bitwise exclusive or with an element";
}

impl<'k, T: Integer, M: Writable> Mem<'k, T, M> {
    /// Puts a new value atomically.
    pub fn atomic_exchange(self, index: impl Arg<'k, u32>, value: impl Arg<'k, T>) {
        let value = value.operand(self.kernel);
        self.atomic(AtomicOp::Exchange, index, smallvec![value]);
    }

    /// Puts a new value atomically, and gives the old one.
    pub fn exchange(self, index: impl Arg<'k, u32>, value: impl Arg<'k, T>) -> Val<'k, T> {
        let value = value.operand(self.kernel);
        self.fetch(AtomicOp::Exchange, index, smallvec![value])
    }
}

/// A local's id and the body it belongs to.
#[derive(Clone, Copy)]
struct Place<'k> {
    kernel: &'k Kernel,
    local: Local,
    body: u32,
}

impl Place<'_> {
    /// The local, if it may be used here.
    fn local(self) -> Local {
        self.kernel.admits("local", self.kernel, Some(self.body));
        self.local
    }

    fn name(self, name: &str) {
        let local = self.local();
        if let Some(slot) = self.kernel.state.borrow_mut().frame().body.locals.get_mut(local.index()) {
            *slot = name.into();
        }
    }
}

/// A mutable local.
pub struct Var<'k, T> {
    place: Place<'k>,
    ty: PhantomData<T>,
}

/// A private array: mutable locals with an index.
pub struct Array<'k, T> {
    place: Place<'k>,
    ty: PhantomData<T>,
}

impl<T> Clone for Var<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Var<'_, T> {}

impl<T> Clone for Array<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<'_, T> {}

impl Kernel {
    fn local(&self, ty: DataType, len: Option<u32>, init: Operand) -> Place<'_> {
        let local = self.state.borrow_mut().frame().body.new_local("");
        self.emit(Node::Var { local, ty, len, init });
        Place { kernel: self, local, body: self.body_id() }
    }

    /// Declares a mutable local.
    ///
    /// ```
    /// # use vyre_foundation::ir::Program;
    /// # Program::build("sum", [1, 1, 1], |k| {
    /// # let x = k.read::<f32>("x", 0);
    /// # let y = k.read_write::<f32>("y", 1).output();
    /// let sum = k.var(0.0f32).named("sum");
    /// k.for_(..x.len(), |i| sum.update(|s| s + x.at(i)));
    /// y.put(0, sum.get());
    /// # }).unwrap();
    /// ```
    pub fn var<'k, T: Computes>(&'k self, init: impl Arg<'k, T>) -> Var<'k, T> {
        let init = init.operand(self);
        Var { place: self.local(T::TYPE, None, init), ty: PhantomData }
    }

    /// Declares a private array of `len` elements, each `init`.
    pub fn array<'k, T: Computes>(&'k self, len: u32, init: impl Arg<'k, T>) -> Array<'k, T> {
        let init = init.operand(self);
        Array { place: self.local(T::TYPE, Some(len), init), ty: PhantomData }
    }
}

impl<'k, T: Computes> Var<'k, T> {
    /// Names the local, for the reader of the printed program.
    pub fn named(self, name: &str) -> Var<'k, T> {
        self.place.name(name);
        self
    }

    /// The local's value now.
    pub fn get(self) -> Val<'k, T> {
        let local = self.place.local();
        self.place.kernel.assign(|result| Node::Get { result, ty: <T as Scalar>::TYPE, local, index: None })
    }

    /// Assigns the local.
    pub fn set(self, value: impl Arg<'k, T>) {
        let (local, value) = (self.place.local(), value.operand(self.place.kernel));
        self.place.kernel.emit(Node::Set { ty: T::TYPE, local, index: None, value });
    }

    /// Assigns the local what `change` makes of its value.
    pub fn update<A: Arg<'k, T>>(self, change: impl FnOnce(Val<'k, T>) -> A) {
        self.set(change(self.get()));
    }
}

impl<'k, T: Computes> Array<'k, T> {
    /// Names the array, for the reader of the printed program.
    pub fn named(self, name: &str) -> Array<'k, T> {
        self.place.name(name);
        self
    }

    /// The element at `index`; 0 out of bounds.
    pub fn at(self, index: impl Arg<'k, u32>) -> Val<'k, T> {
        let (local, index) = (self.place.local(), Some(index.operand(self.place.kernel)));
        self.place.kernel.assign(|result| Node::Get { result, ty: T::TYPE, local, index })
    }

    /// Assigns the element at `index`; nothing out of bounds.
    pub fn put(self, index: impl Arg<'k, u32>, value: impl Arg<'k, T>) {
        let k = self.place.kernel;
        let (local, index, value) = (self.place.local(), Some(index.operand(k)), value.operand(k));
        k.emit(Node::Set { ty: T::TYPE, local, index, value });
    }
}
