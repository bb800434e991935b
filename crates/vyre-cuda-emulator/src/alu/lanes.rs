//! Makes functions on warps from closures on lanes, and picks one function of many by types and modifiers.
//!
//! A warp's function is a plain pointer that captures nothing, so whatever distinguishes it must be a type or a constant:
//! the pickers bind a name to each type or constant in turn, and build the function for each.

/// `Fun::One` from a closure on one lane.
macro_rules! one {
    (|$a:ident| $result:expr) => {
        $crate::alu::Fun::One(|x| {
            std::array::from_fn(|lane| {
                let $a = x[lane];
                $result
            })
        })
    };
}

/// `Fun::Two` from a closure on one lane.
macro_rules! two {
    (|$a:ident, $b:ident| $result:expr) => {
        $crate::alu::Fun::Two(|x, y| {
            std::array::from_fn(|lane| {
                let ($a, $b) = (x[lane], y[lane]);
                $result
            })
        })
    };
}

/// `Fun::Three` from a closure on one lane.
macro_rules! three {
    (|$a:ident, $b:ident, $c:ident| $result:expr) => {
        $crate::alu::Fun::Three(|x, y, z| {
            std::array::from_fn(|lane| {
                let ($a, $b, $c) = (x[lane], y[lane], z[lane]);
                $result
            })
        })
    };
}

/// `Fun::Lane` with one result, which names its operands.
macro_rules! lane {
    (|$($operand:ident),*| $result:expr) => {
        $crate::alu::Fun::Lane(|x, _| {
            let [$($operand),*] = *x else { unreachable!("as many operands as `sources`") };
            $crate::alu::Out { values: [$result, 0], carry: false }
        })
    };
}

/// Binds names to an integer type, its unsigned twin and the type twice as wide.
macro_rules! with_integer {
    ($ty:expr, |$T:ident, $U:ident, $W:ident| $fun:expr) => {
        with_integer!(@ $ty, $T, $U, $W, $fun, (U16 u16 u16 u32) (U32 u32 u32 u64) (U64 u64 u64 u128)
            (S16 i16 u16 i32) (S32 i32 u32 i64) (S64 i64 u64 i128) (B16 u16 u16 u32) (B32 u32 u32 u64) (B64 u64 u64 u128))
    };
    (@ $ty:expr, $T:ident, $U:ident, $W:ident, $fun:expr, $(($name:ident $t:ident $u:ident $w:ident))*) => {
        match $ty {
            $($crate::alu::Type::$name => {
                #[allow(dead_code)]
                type $T = $t;
                #[allow(dead_code)]
                type $U = $u;
                #[allow(dead_code)]
                type $W = $w;
                $fun
            })*
            other => unreachable!("{other:?} was refused by the reader"),
        }
    };
}

/// Binds a name to each constant of a list, and picks the one that a value equals.
macro_rules! with_constant {
    ($value:expr, $N:ident: $ty:ident in [$($each:expr),*], $fun:expr) => {
        match $value {
            $(value if value == $each => {
                const $N: $ty = $each;
                $fun
            })*
            other => unreachable!("{other:?} is not in the list"),
        }
    };
}

/// Binds a name to the constant that equals a flag.
macro_rules! with_flag {
    ($flag:expr, $N:ident, $fun:expr) => {
        with_constant!($flag, $N: bool in [false, true], $fun)
    };
}
