//! The rule behind each of the parser's codes, with a wrong program and the same one corrected.

use crate::diagnostic::Rule;

/// A program with these lines.
macro_rules! program {
    ($($line:literal)*) => { concat!("program @p workgroup(1, 1, 1) {\n", $("  ", $line, "\n",)* "}\n") };
}

/// A text repeated 1, 2, 4, ... times: limits take many lines to break.
macro_rules! times {
    (2, $($text:tt)*) => { concat!($($text)*, $($text)*) };
    (8, $($text:tt)*) => { times!(2, times!(2, times!(2, $($text)*))) };
    (64, $($text:tt)*) => { times!(8, times!(8, $($text)*)) };
    (128, $($text:tt)*) => { times!(2, times!(64, $($text)*)) };
}

macro_rules! rules {
    ($($code:literal $title:literal, $text:literal, $wrong:expr, $right:expr;)*) => {
        /// The parser's codes in order.
        pub const RULES: &[Rule] =
            &[$(Rule { code: $code, title: $title, text: $text, wrong: $wrong, right: $right },)*];
    };
}

rules! {
    "P001" "a character that means nothing",
        "Source is made of names, numbers, `{ } ( ) [ ] , : = -> ..` and the sigils `@ % $`, each followed by a name. Anything else can only be in a comment, which starts with `//`.",
        program!("trap 7;"),
        program!("trap 7");
    "P002" "no program",
        "A file holds one program. Only comments and blank lines may precede its header.",
        "// nothing here\n",
        program!();
    "P003" "something else is expected here",
        "A line has the form that the op table gives (`vyre ops` shows it). The error names what is missing and where.",
        program!("%a = add.u32 1, "),
        program!("%a = add.u32 1, 2");
    "P004" "unknown op",
        "A line names an op of the table, with a type after it where the op takes one.",
        program!("%i = gloabl_id x"),
        program!("%i = global_id x");
    "P005" "unknown type",
        "The types are bool, u32, i32, u64, i64, f16, bf16, f32 and f64, and in memory also u8, i8, u16 and i16.",
        program!("var $sum : float = 0.0"),
        program!("var $sum : f32 = 0.0");
    "P006" "type suffix missing or needless",
        "An op that works on several types says on which: `add.f32`. The others take no suffix.",
        program!("%a = add 1, 2"),
        program!("%a = add.u32 1, 2");
    "P007" "name too long",
        "Names have at most 128 bytes.",
        program!("%a_name_of_more_than_one_hundred_and_twenty_eight_bytes_is_longer_than_any_reader_wants_to_see_and_longer_than_the_limit_that_names_have = global_id x"),
        program!("%a_shorter_name = global_id x");
    "P008" "buffer or table not declared",
        "Buffers and tables are declared at the start of the program, before the functions and lines that use them.",
        program!("buffer @input : read f32[] binding 0" "%n = len @inptu"),
        program!("buffer @input : read f32[] binding 0" "%n = len @input");
    "P009" "function not declared above",
        "A function calls only functions declared above it, so none can call itself. The main body calls any.",
        program!("fn @f() {" "  call @f()" "}"),
        program!("fn @g() {" "}" "fn @f() {" "  call @g()" "}");
    "P010" "value never assigned",
        "Every `%name` that is read is assigned by some line of the same body, by a loop or by a parameter.",
        program!("%width = global_id x" "%b = add.u32 %widht, 1"),
        program!("%width = global_id x" "%b = add.u32 %width, 1");
    "P011" "local never declared",
        "Every `$name` is declared by a `var` line of the same body.",
        program!("%a = get.f32 $sum"),
        program!("var $sum : f32 = 0.0" "%a = get.f32 $sum");
    "P012" "declared twice",
        "Buffers, tables and functions share one space of names.",
        program!("buffer @x : read f32[] binding 0" "buffer @x : read f32[] binding 1"),
        program!("buffer @x : read f32[] binding 0" "buffer @y : read f32[] binding 1");
    "P013" "number out of range",
        "A literal is a value of its type. Integers do not wrap and floats do not become infinite on their way in; hex writes an integer's bits.",
        program!("%a = add.u32 -1, 2"),
        program!("%a = add.u32 0xffffffff, 2");
    "P014" "literal of the wrong form",
        "Floats are written with a point or an exponent, integers without, bools as `true` and `false`. So a number shows what it is.",
        program!("%a = add.f32 1, 2.0"),
        program!("%a = add.f32 1.0, 2.0");
    "P015" "literal without a type",
        "Where nothing says which type a literal has, as in the operand of `cast`, its type follows it.",
        program!("%a = cast.f32 7"),
        program!("%a = cast.f32 7u32");
    "P016" "malformed number",
        "Numbers are `12`, `-3`, `0x1f`, `1.5`, `2e-3`, `inf`, `nan` or `nan(0x7fc00001)` with all bits of the NaN. An `_` may separate digits.",
        program!("%a = add.f32 1., 2.0"),
        program!("%a = add.f32 1.0, 2.0");
    "P017" "result missing or needless",
        "An op with a result assigns it: `%r = ...`. Only atomics and calls may drop theirs. Ops without a result assign nothing.",
        program!("add.u32 1, 2"),
        program!("%a = add.u32 1, 2");
    "P018" "block not closed",
        "Every `{` has its `}`.",
        "program @p workgroup(1, 1, 1) {\n  if true {\n    trap 7\n  }\n",
        "program @p workgroup(1, 1, 1) {\n  if true {\n    trap 7\n  }\n}\n";
    "P019" "blocks nest too deep",
        "Blocks nest at most 128 deep.",
        concat!("program @p workgroup(1, 1, 1) {\n", times!(128, "if true {\n"), "if true {\n", times!(128, "}\n"), "}\n}\n"),
        program!("if true {" "  trap 7" "}");
    "P020" "more than one instruction on a line",
        "One line is one instruction. A block starts on the line after its `{`.",
        program!("barrier trap 7"),
        program!("barrier" "trap 7");
    "P021" "declaration out of place",
        "Buffers, tables and functions are declared at the start of the program, before its first line.",
        program!("%n = global_id x" "buffer @x : read f32[] binding 0"),
        program!("buffer @x : read f32[] binding 0" "%n = global_id x");
    "P022" "text after the program",
        "A file holds one program, and nothing but comments follows its `}`.",
        concat!(program!("trap 7"), "}\n"),
        program!("trap 7");
    "P023" "too many",
        "Programs have limits, so that no input can make the compiler run out of time or memory: 256 buffers and tables, 4096 functions, 64 parameters, 2^20 table elements, 2^24 lines, 2^30 bytes of source.",
        concat!("program @p workgroup(1, 1, 1) {\nfn @f(", times!(64, "%a : u32, "), "%a : u32) {\n}\n}\n"),
        program!("fn @f(%a : u32) {" "}");
    "P024" "more errors than are shown",
        "The first 100 errors are shown.",
        concat!("program @p workgroup(1, 1, 1) {\n", times!(128, "?\n"), "}\n"),
        program!();
    "P025" "buffer declared wrongly",
        "`uniform`, `read` and `read_write` buffers are bound by the caller and name their binding; `workgroup` memory is not. Only a `read_write` buffer can be an `output`.",
        program!("buffer @x : read f32[]"),
        program!("buffer @x : read f32[] binding 0");
    "P026" "table of another length",
        "A table lists as many elements as it declares.",
        program!("const @k : u32[3] = [1, 2]"),
        program!("const @k : u32[2] = [1, 2]");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Place, Span};
    use crate::text::{format, parse};

    #[test]
    fn codes_are_consecutive_and_their_programs_show_them() {
        for (at, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.code, format!("P{:03}", at + 1));
            let errors = parse(rule.wrong).expect_err(rule.code);
            assert_eq!(errors.last().unwrap().code, rule.code, "{}", errors[0]);
            // One mistake is one error.
            assert!(errors.len() == 1 || rule.code == "P024", "{}: {}", rule.code, errors[1]);
            assert!(format(rule.wrong).is_err());
            let right = parse(rule.right).unwrap_or_else(|errors| panic!("{}: {}", rule.code, errors[0]));
            if let Err(errors) = crate::validate::validate(&right.program) {
                panic!("{}: {}", rule.code, errors[0]);
            }
        }
    }

    #[test]
    fn every_error_says_where_and_what_to_do() {
        for rule in RULES {
            for error in parse(rule.wrong).unwrap_err() {
                let Place::Source(Span { line, column, columns }) = error.place else { panic!("{error}") };
                let text = rule.wrong.split('\n').nth(line as usize - 1).unwrap();
                assert!(column >= 1 && columns >= 1 && column as usize <= text.len() + 1, "{error}");
                assert!(!error.fix.is_empty() && !error.message.ends_with('.'), "{error}");
            }
        }
    }
}
