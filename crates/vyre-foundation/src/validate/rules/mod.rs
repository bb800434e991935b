//! The rule behind each code, with a program that breaks it and the same program corrected.
//!
//! `vyre explain` and `docs/diagnostics.md` show this table; a test validates both programs of every rule, so the
//! page cannot claim what the validator does not do. The programs are the files in `examples`.

#[cfg(test)]
#[path = "../../../tests/unit/rules.rs"]
mod tests;

use crate::diagnostic::Rule;
use crate::text;

macro_rules! rules {
    ($($code:literal $title:literal, $text:literal;)*) => {
        /// The validator's rules, by ascending code.
        pub const RULES: &[Rule] = &[$(Rule {
            code: $code,
            title: $title,
            text: $text,
            wrong: include_str!(concat!("examples/", $code, "_wrong.vyre")),
            right: include_str!(concat!("examples/", $code, "_right.vyre")),
        },)*];
    };
}

rules! {
    "V001" "a workgroup size is zero or over the limits",
        "A workgroup has at least one lane along each axis, at most (1024, 1024, 64) along x, y and z, and at \
         most 1024 lanes in all.";
    "V002" "a subgroup width does not fit the workgroup",
        "Logical subgroups are consecutive lanes of a workgroup. Their width is a power of two up to 32, and it \
         divides the workgroup's lanes, so that every subgroup is full.";
    "V003" "two buffers have one binding",
        "A binding is where the caller puts one buffer, so each buffer has its own.";
    "V004" "a binding is over the limit",
        "Bindings are numbered from 0 to 255. They need not be dense.";
    "V005" "a buffer or table has bool elements",
        "A bool has no bytes, so buffers and tables cannot hold it. Locals and private arrays may hold it.";
    "V006" "a buffer, table or private array has no elements",
        "Every access to it would be out of bounds, so a length of 0 is a mistake. Storage buffers may leave \
         their length to the launch, which may be 0 there.";
    "V007" "a workgroup or uniform buffer has no fixed length",
        "Workgroup memory has no binding, so only its declaration can give its length. Devices place uniform \
         buffers in small memory of fixed size; a buffer whose length the launch decides is `read`.";
    "V008" "there is too much workgroup memory",
        "All workgroup buffers together have at most 256 KiB. Devices often have less; a backend says so when it \
         compiles the program.";
    "V009" "a uniform buffer is too long",
        "A uniform buffer has at most 64 KiB, which every device offers. Longer ones are `read`.";
    "V010" "private arrays are too long",
        "The private arrays of a lane have at most 64 KiB together. A function's arrays count once for each call, \
         because calls are inlined; a call in a loop counts once.";
    "V011" "an op does not take this type",
        "The op table lists the types of each op. u8, i8, u16 and i16 exist in memory only: a load gives u32 or \
         i32, and arithmetic is done in those.";
    "V012" "an op has too few or too many operands",
        "The op table says how many operands an op takes.";
    "V013" "an operand has the wrong type",
        "Nothing converts by itself: an operand has exactly the type that the op's suffix or its place asks for. \
         Indices, loop bounds and shift amounts are u32, conditions bool, arguments and results what the function \
         declares.";
    "V014" "an access has not the buffer's element type",
        "Loads, stores, atomics, tiles and collectives name the element type of their buffer, so that one line \
         says what it does. The one exception is `load.u32` on u8 elements, which reads four bytes.";
    "V015" "read-only memory is written",
        "Stores and atomics go to `read_write` and `workgroup` buffers. Uniform and read buffers and tables keep \
         their contents, which is why loads from them can be the same for all lanes.";
    "V016" "a bitcast is between types of different widths",
        "`bitcast` reads the same bits as another type: u32, i32 and f32 among themselves, u64, i64 and f64 among \
         themselves, and f16 or bf16 as the low 16 bits of a u32.";
    "V017" "an axis is missing or too much",
        "Ids and sizes are asked for along x, y or z. Linear indices have no axis.";
    "V018" "a loop's step is zero",
        "Every loop ends: its counter grows by a literal that is not zero.";
    "V019" "an op works on workgroup memory only",
        "`uniform_load` and `mma` are steps of a whole workgroup between two barriers, on the memory that the \
         workgroup shares.";
    "V020" "an extent of a tile product is out of range",
        "m, n and k of an `mma` are from 1 to 256. Larger products are made of several tiles.";
    "V021" "an index is missing or too much",
        "A private array is read and set one element at a time. A local that is no array has no index.";
    "V022" "a local is accessed as another type",
        "`get` and `set` name the type that the local's `var` declares.";
    "V023" "a storage type where values compute",
        "u8, i8, u16 and i16 exist in memory only. Locals, private arrays, parameters and results are u32 or i32 \
         instead, the types that such elements load as.";
    "V024" "a call has too few or too many arguments",
        "A call gives one argument for each parameter.";
    "V025" "a call without a result assigns a value",
        "Only a function that declares a result with `->` gives one. A result may be left unused.";
    "V026" "a return in the wrong place",
        "A function has one exit: `return` is its last line. The main body has no result and no `return`. Flow \
         then always comes back together where blocks end.";
    "V027" "a function does not return what it declares",
        "A function that declares a result with `->` ends with `return` and a value. One that declares none \
         returns none.";
    "V028" "no subgroup width is declared",
        "Hardware widths differ from device to device, and results would with them. So a program that uses \
         subgroups declares a logical width, and every device gives the results of that width.";
    "V029" "a collective's buffers do not fit",
        "A collective moves elements between ranks: from a buffer that the caller binds to another one, bound as \
         `read_write`. It cannot work in place, because ranks read what others still have to send.";
    "V030" "lanes come together in a function",
        "Barriers, subgroup ops, `uniform_load`, `mma` and collectives belong in the main body, where the flow \
         around them can be seen. Functions compute, read and write.";
    "V031" "the lanes of a workgroup do not come together",
        "Barriers, subgroup ops, `uniform_load` and `mma` need every lane of the workgroup. They may be under \
         conditions and in loops, if all lanes of a workgroup decide alike: the condition comes from literals, \
         counts, `len`, workgroup ids, read-only buffers at such indices, and `uniform_load`. What lanes may see \
         differently counts against it: lane ids, loads from writable memory, atomics, subgroup results, anything \
         computed from those, and locals that only some lanes set. Lanes that leave a loop early, or skip a trip, \
         part all of the loop's block.";
    "V032" "the lanes of the grid do not come together",
        "Grid barriers and collectives need every lane of the grid. Conditions and loop bounds around them are \
         the same for all: literals, counts, `len`, and loads from read-only buffers at such indices. A \
         workgroup's id, or a `uniform_load`, is the same for one workgroup only.";
    "V033" "an operand differs between lanes that must agree",
        "The index of a `uniform_load`, the offsets of an `mma` and the lane of a `subgroup_broadcast` are the \
         same for all lanes of a workgroup.";
    "V034" "a name is assigned twice",
        "A value is assigned once while its block is open, and a local is declared once. After the block has \
         ended the name is free again. What changes is a local.";
    "V035" "a name is used before it is assigned",
        "Lines run in the order of the text. A value that a loop hands from one trip to the next is a local, \
         declared before the loop.";
    "V036" "a name is used outside its block",
        "A value or local lives until the end of the block that assigns it: elsewhere it may never have been \
         assigned. What leaves a block leaves in a local that is declared before it.";
    "V037" "break or continue outside any loop",
        "`break` and `continue` speak of the innermost loop around them. A function has its own loops, not its \
         caller's.";
    "V038" "a line never runs",
        "A `break` or `continue` is the last line of its block. Lines after it are forgotten or misplaced.";
    "V039" "indirect is not the first line",
        "`indirect` says where the grid comes from. It is read before the launch, so it occurs once, as the first \
         line of the main body.";
    "V040" "indirect reads the wrong memory",
        "The three counts are u32 elements of a bound buffer that no line of the program writes, and within its \
         length if that is declared.";
    "V041" "the inlined program has too many lines",
        "Functions are always inlined, so calls multiply lines. The whole has at most 16,777,216.";
    "V042" "inlined blocks nest too deep",
        "A function's blocks nest in those around its call. The whole is at most 128 blocks deep, which keeps \
         every tool that walks a program within its stack.";
}

/// The rule behind a code of the parser or the validator.
pub fn explain(code: &str) -> Option<&'static Rule> {
    let code = code.trim();
    text::RULES.iter().chain(RULES).find(|rule| rule.code.eq_ignore_ascii_case(code))
}
