//! Functions: declared once, called like Rust functions.

use super::Kernel;
use super::types::Computes;
use super::value::{Arg, Val};
use crate::ir::{Body, DataType, Function, FunctionId, Node, Operand, Value};
use half::{bf16, f16};
use std::marker::PhantomData;

/// The parameter types of a function: one type, or a tuple of them.
pub trait Params {
    /// The handles that the function's closure gets.
    type Vals<'k>;

    /// The types in order.
    const TYPES: &'static [DataType];

    /// The handles of the parameters; there are as many values as types.
    fn vals<'k>(kernel: &'k Kernel, values: &[Value]) -> Self::Vals<'k>;
}

/// The arguments of a call: what [`Params`] asks for, each a handle or a Rust constant.
pub trait CallArgs<'k, P> {
    /// What the call reads.
    fn operands(self, kernel: &'k Kernel) -> Vec<Operand>;
}

/// What a function's closure gives: a value, or nothing.
pub trait Returns<'k> {
    /// The result's type, if there is one.
    const TYPE: Option<DataType>;

    /// What the `return` line reads.
    fn operand(self, kernel: &'k Kernel) -> Option<Operand>;

    /// The handle of a call's result.
    fn handle(kernel: &'k Kernel, result: Option<Value>) -> Self;
}

impl<'k, T: Computes> Returns<'k> for Val<'k, T> {
    const TYPE: Option<DataType> = Some(T::TYPE);

    fn operand(self, kernel: &'k Kernel) -> Option<Operand> {
        Some(Arg::operand(self, kernel))
    }

    fn handle(kernel: &'k Kernel, result: Option<Value>) -> Val<'k, T> {
        kernel.handle(result.expect("a function with a result type has a result"))
    }
}

impl<'k> Returns<'k> for () {
    const TYPE: Option<DataType> = None;

    fn operand(self, _: &'k Kernel) -> Option<Operand> {
        None
    }

    fn handle(_: &'k Kernel, _: Option<Value>) {}
}

macro_rules! single {
    ($( $ty:ty )*) => {
        $(
            impl Params for $ty {
                type Vals<'k> = Val<'k, $ty>;

                const TYPES: &'static [DataType] = &[<$ty as super::Scalar>::TYPE];

                fn vals<'k>(kernel: &'k Kernel, values: &[Value]) -> Val<'k, $ty> {
                    kernel.handle(values[0])
                }
            }

            impl<'k, A: Arg<'k, $ty>> CallArgs<'k, $ty> for A {
                fn operands(self, kernel: &'k Kernel) -> Vec<Operand> {
                    vec![self.operand(kernel)]
                }
            }
        )*
    };
}

single!(bool u32 i32 u64 i64 f16 bf16 f32 f64);

macro_rules! tuple {
    ($( $ty:ident $arg:ident $at:tt ),*) => {
        #[allow(unused_variables, clippy::unused_unit)] // The empty tuple reads nothing.
        impl<$( $ty: Computes ),*> Params for ($( $ty, )*) {
            type Vals<'k> = ($( Val<'k, $ty>, )*);

            const TYPES: &'static [DataType] = &[$( $ty::TYPE ),*];

            fn vals<'k>(kernel: &'k Kernel, values: &[Value]) -> Self::Vals<'k> {
                ($( kernel.handle(values[$at]), )*)
            }
        }

        #[allow(unused_variables)]
        impl<'k, $( $ty: Computes, $arg: Arg<'k, $ty> ),*> CallArgs<'k, ($( $ty, )*)> for ($( $arg, )*) {
            fn operands(self, kernel: &'k Kernel) -> Vec<Operand> {
                vec![$( self.$at.operand(kernel) ),*]
            }
        }
    };
}

tuple!();
tuple!(A A1 0, B B1 1);
tuple!(A A1 0, B B1 1, C C1 2);
tuple!(A A1 0, B B1 1, C C1 2, D D1 3);
tuple!(A A1 0, B B1 1, C C1 2, D D1 3, E E1 4);
tuple!(A A1 0, B B1 1, C C1 2, D D1 3, E E1 4, F F1 5);
tuple!(A A1 0, B B1 1, C C1 2, D D1 3, E E1 4, F F1 5, G G1 6);
tuple!(A A1 0, B B1 1, C C1 2, D D1 3, E E1 4, F F1 5, G G1 6, H H1 7);

/// A declared function.
pub struct Callable<'k, P, R> {
    kernel: &'k Kernel,
    id: FunctionId,
    signature: PhantomData<fn(P) -> R>,
}

impl<P, R> Clone for Callable<'_, P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, R> Copy for Callable<'_, P, R> {}

impl Kernel {
    /// Declares a function. `P` is its parameter type, or a tuple of them.
    ///
    /// ```
    /// # use vyre_foundation::ir::Program;
    /// # Program::build("hypot", [1, 1, 1], |k| {
    /// # let y = k.read_write::<f32>("y", 0).output();
    /// let square = k.function::<f32, _>("square", |x| x * x);
    /// let norm = k.function::<(f32, f32), _>("norm", |(a, b)| (square.call(a) + square.call(b)).sqrt());
    /// y.put(0, norm.call((3.0, y.at(0))));
    /// # }).unwrap();
    /// ```
    pub fn function<'k, P: Params, R: Returns<'k>>(
        &'k self,
        name: &str,
        body: impl FnOnce(P::Vals<'k>) -> R,
    ) -> Callable<'k, P, R> {
        self.open_body();
        let values: Vec<Value> = P::TYPES.iter().map(|_| self.new_value()).collect();
        let returned = body(P::vals(self, &values)).operand(self);
        if let Some(value) = returned {
            self.emit(Node::Return { value: Some(value) });
        }
        let params = values.into_iter().zip(P::TYPES.iter().copied()).collect();
        let id =
            self.close_body(Function { name: name.into(), params, result: R::TYPE, body: Body::default() });
        Callable { kernel: self, id, signature: PhantomData }
    }
}

impl<'k, P: Params, R: Returns<'k>> Callable<'k, P, R> {
    /// Calls the function.
    pub fn call(self, args: impl CallArgs<'k, P>) -> R {
        let args = args.operands(self.kernel);
        let result = R::TYPE.map(|_| self.kernel.new_value());
        self.kernel.emit(Node::Call { result, function: self.id, args });
        R::handle(self.kernel, result)
    }
}
