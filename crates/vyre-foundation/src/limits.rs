//! The limits of the language. Every decoder, parser and pass keeps them, so no input can drive depth or memory.

/// How deep blocks may nest, functions' blocks counted where they are inlined.
pub const NESTING_MAX: usize = 128;
/// Lines of a program, and of a program with its functions inlined.
pub const NODES_MAX: usize = 1 << 24;
/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 128;
/// Buffers and tables of a program.
pub const BUFFERS_MAX: usize = 256;
/// Functions of a program.
pub const FUNCTIONS_MAX: usize = 4096;
/// Parameters of a function.
pub const PARAMS_MAX: usize = 64;
/// The highest binding number.
pub const BINDING_MAX: u32 = 255;
/// Elements of all constant tables together.
pub const TABLE_ELEMENTS_MAX: usize = 1 << 20;
/// Bytes of all workgroup buffers together.
pub const WORKGROUP_BYTES_MAX: u64 = 256 << 10;
/// Bytes of a uniform buffer.
pub const UNIFORM_BYTES_MAX: u64 = 64 << 10;
/// Bytes of all private arrays of a program together, functions counted where they are inlined.
pub const PRIVATE_BYTES_MAX: u64 = 64 << 10;
/// Lanes of a workgroup.
pub const WORKGROUP_LANES_MAX: u32 = 1024;
/// Lanes of a workgroup along x, y and z.
pub const WORKGROUP_AXIS_MAX: [u32; 3] = [1024, 1024, 64];
/// The greatest logical subgroup width.
pub const SUBGROUP_WIDTH_MAX: u32 = 32;
/// The greatest extent of a tile product along m, n or k.
pub const MMA_EXTENT_MAX: u32 = 256;
/// Bytes of a program in text or wire form.
pub const SOURCE_BYTES_MAX: usize = 1 << 30;
