//! The scalar types, and sets of them.
//!
//! Nine types compute; four more only lie in memory. There are no vectors: wide accesses are something the
//! compiler finds.

use super::int_or_bool;
use std::fmt;

/// A scalar type of the language.
///
/// `U8`, `I8`, `U16` and `I16` are storage types: they are element types of buffers and tables, and a load widens
/// them to the type that [`DataType::computes_as`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DataType {
    /// Truth value. Not storable.
    Bool = 0,
    /// Unsigned 8-bit storage.
    U8 = 1,
    /// Signed 8-bit storage.
    I8 = 2,
    /// Unsigned 16-bit storage.
    U16 = 3,
    /// Signed 16-bit storage.
    I16 = 4,
    /// Unsigned 32-bit integer.
    U32 = 5,
    /// Signed 32-bit integer.
    I32 = 6,
    /// Unsigned 64-bit integer.
    U64 = 7,
    /// Signed 64-bit integer.
    I64 = 8,
    /// IEEE 754 binary16.
    F16 = 9,
    /// The upper half of a binary32.
    BF16 = 10,
    /// IEEE 754 binary32.
    F32 = 11,
    /// IEEE 754 binary64.
    F64 = 12,
}

impl DataType {
    /// Every type, in wire-tag order.
    pub const ALL: [DataType; 13] = [
        DataType::Bool,
        DataType::U8,
        DataType::I8,
        DataType::U16,
        DataType::I16,
        DataType::U32,
        DataType::I32,
        DataType::U64,
        DataType::I64,
        DataType::F16,
        DataType::BF16,
        DataType::F32,
        DataType::F64,
    ];

    /// The name in text.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::Bool => "bool",
            DataType::U8 => "u8",
            DataType::I8 => "i8",
            DataType::U16 => "u16",
            DataType::I16 => "i16",
            DataType::U32 => "u32",
            DataType::I32 => "i32",
            DataType::U64 => "u64",
            DataType::I64 => "i64",
            DataType::F16 => "f16",
            DataType::BF16 => "bf16",
            DataType::F32 => "f32",
            DataType::F64 => "f64",
        }
    }

    /// The type with that name in text.
    pub fn from_name(name: &str) -> Option<DataType> {
        DataType::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// The byte that stands for this type on the wire.
    pub const fn tag(self) -> u8 {
        self as u8
    }

    /// The type that a wire byte stands for.
    pub fn from_tag(tag: u8) -> Option<DataType> {
        DataType::ALL.get(usize::from(tag)).copied()
    }

    /// Width of a value in bits; a bool has one.
    pub const fn bits(self) -> u32 {
        match self {
            DataType::Bool => 1,
            DataType::U8 | DataType::I8 => 8,
            DataType::U16 | DataType::I16 | DataType::F16 | DataType::BF16 => 16,
            DataType::U32 | DataType::I32 | DataType::F32 => 32,
            DataType::U64 | DataType::I64 | DataType::F64 => 64,
        }
    }

    /// Bytes of one element in a buffer. A bool is not storable and has none.
    pub const fn bytes(self) -> usize {
        (self.bits() / 8) as usize
    }

    /// Whether values of this type exist in registers. False for the storage types.
    pub const fn computes(self) -> bool {
        !matches!(self, DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16)
    }

    /// Whether a buffer may have elements of this type.
    pub const fn stores(self) -> bool {
        !matches!(self, DataType::Bool)
    }

    /// The type a loaded element has in registers: small integers widen to 32 bits, the others stay.
    pub const fn computes_as(self) -> DataType {
        match self {
            DataType::U8 | DataType::U16 => DataType::U32,
            DataType::I8 | DataType::I16 => DataType::I32,
            other => other,
        }
    }

    /// Whether this is a float type.
    pub const fn is_float(self) -> bool {
        matches!(self, DataType::F16 | DataType::BF16 | DataType::F32 | DataType::F64)
    }

    /// Whether this is a signed integer type.
    pub const fn is_signed(self) -> bool {
        matches!(self, DataType::I8 | DataType::I16 | DataType::I32 | DataType::I64)
    }

    /// Whether this is an integer type, storage types included.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, DataType::Bool)
    }

    /// The bits a value of this type may have set in a 64-bit register.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// The NaN that storage and bitcasts show, for float types.
    pub const fn canonical_nan(self) -> Option<u64> {
        match self {
            DataType::F16 => Some(0x7e00),
            DataType::BF16 => Some(0x7fc0),
            DataType::F32 => Some(0x7fc0_0000),
            DataType::F64 => Some(0x7ff8_0000_0000_0000),
            int_or_bool!() => None,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of types, as the op table writes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeSet(u16);

impl TypeSet {
    /// No type: the op takes no type suffix.
    pub const NONE: TypeSet = TypeSet(0);
    /// bool alone.
    pub const BOOL: TypeSet = TypeSet::of(&[DataType::Bool]);
    /// u32 and i32.
    pub const INT32: TypeSet = TypeSet::of(&[DataType::U32, DataType::I32]);
    /// The integers that compute.
    pub const INT: TypeSet = TypeSet::of(&[DataType::U32, DataType::I32, DataType::U64, DataType::I64]);
    /// The floats.
    pub const FLOAT: TypeSet = TypeSet::of(&[DataType::F16, DataType::BF16, DataType::F32, DataType::F64]);
    /// The numbers that compute.
    pub const NUM: TypeSet = TypeSet::INT.or(TypeSet::FLOAT);
    /// The signed numbers that compute.
    pub const SIGNED: TypeSet = TypeSet::of(&[DataType::I32, DataType::I64]).or(TypeSet::FLOAT);
    /// Integers and bool.
    pub const LOGIC: TypeSet = TypeSet::INT.or(TypeSet::BOOL);
    /// Everything that computes.
    pub const ANY: TypeSet = TypeSet::NUM.or(TypeSet::BOOL);
    /// Everything that lies in memory.
    pub const STORED: TypeSet =
        TypeSet::NUM.or(TypeSet::of(&[DataType::U8, DataType::I8, DataType::U16, DataType::I16]));

    /// The sets of several types that tables of ops call by a name.
    pub const NAMED: [(&'static str, TypeSet); 8] = [
        ("int32", TypeSet::INT32),
        ("int", TypeSet::INT),
        ("float", TypeSet::FLOAT),
        ("num", TypeSet::NUM),
        ("signed", TypeSet::SIGNED),
        ("logic", TypeSet::LOGIC),
        ("any", TypeSet::ANY),
        ("stored", TypeSet::STORED),
    ];

    /// The set's name among [`TypeSet::NAMED`], or else its types.
    pub fn name(self) -> String {
        let named = TypeSet::NAMED.iter().find(|(_, set)| *set == self);
        named.map_or_else(|| self.to_string(), |(name, _)| (*name).to_owned())
    }

    const fn of(types: &[DataType]) -> TypeSet {
        let mut bits = 0;
        let mut i = 0;
        while i < types.len() {
            bits |= 1 << types[i] as u8;
            i += 1;
        }
        TypeSet(bits)
    }

    const fn or(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }

    /// Whether `ty` is in the set.
    pub const fn contains(self, ty: DataType) -> bool {
        self.0 & (1 << ty as u8) != 0
    }

    /// Whether the set has no type.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The types of the set, in wire-tag order.
    pub fn iter(self) -> impl Iterator<Item = DataType> {
        DataType::ALL.into_iter().filter(move |ty| self.contains(*ty))
    }
}

impl fmt::Display for TypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, ty) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            f.write_str(ty.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for TypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}
