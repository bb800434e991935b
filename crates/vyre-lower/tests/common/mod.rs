//! What the tests of shaders share: the programs of the repository, and one program for each op.
#![allow(dead_code)]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use vyre_foundation::ir::{ArgType, ComputeOp, DataType, OpInfo};
use vyre_foundation::text;
use vyre_foundation::validate::{ValidProgram, validate};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join(folder)).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "vyre"));
    paths.sort();
    paths
}

pub(crate) fn parsed(source: &str) -> ValidProgram {
    validate(&text::parse(source).expect("it parses").program).expect("it is valid")
}

/// The examples, by name.
pub(crate) fn example_files() -> impl Iterator<Item = (String, ValidProgram)> {
    files("examples").into_iter().map(|path| {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("it has a name").to_owned();
        (name, parsed(&std::fs::read_to_string(&path).expect("readable")))
    })
}

/// What an op's operands are loaded as, and the lines of a program with it.
fn one_op(info: &OpInfo, ty: DataType, source: DataType) -> String {
    let operand = |arg: &ArgType| match arg {
        ArgType::Any => source,
        arg => arg.under(ty).expect("it has a type"),
    };
    let result = info.result.under(ty).expect("it computes");
    // Truth values are not stored, so they are compared or selected at both ends.
    let stored = |ty: DataType| if ty == DataType::Bool { DataType::U32 } else { ty };
    let (mut buffers, mut lines, mut args) = (String::new(), String::new(), Vec::new());
    for (at, arg) in info.args.iter().enumerate() {
        let (name, ty) = (["a", "b", "c", "d"][at], operand(arg));
        let _ = writeln!(buffers, "  buffer @{name}s : read {}[8] binding {at}", stored(ty));
        let value = if ty == DataType::Bool { format!("{name}_word") } else { name.to_owned() };
        let _ = writeln!(lines, "  %{value} = load.{} @{name}s[%i]", stored(ty));
        if ty == DataType::Bool {
            let _ = writeln!(lines, "  %{name} = ne.u32 %{value}, 0");
        }
        args.push(format!("%{name}"));
    }
    let (put, last) = match result {
        DataType::Bool => ("shown", "  %shown = select.u32 %r, 1, 0\n"),
        _ => ("r", ""),
    };
    format!(
        "program @op workgroup(8, 1, 1) {{\n{buffers}  buffer @rs : read_write {0}[8] binding 9 output\n\n  %i = local_id x\n{lines}  \
         %r = {1}.{ty} {2}\n{last}  store.{0} @rs[%i], %{put}\n}}\n",
        stored(result),
        info.name,
        args.join(", ")
    )
}

/// The code of every op. `code` makes it of a program that loads its operands as `%a` and on and computes `%r`, given how
/// many they are.
pub(crate) fn ops_text(code: impl Fn(&str, usize) -> String) -> String {
    let mut text = String::new();
    for op in ComputeOp::ALL {
        let info = op.info();
        let casts =
            [(DataType::F32, DataType::I32), (DataType::I32, DataType::F32), (DataType::U64, DataType::F64)];
        let halves = [(DataType::F16, DataType::F32), (DataType::F32, DataType::F16)];
        let bits = [(DataType::U32, DataType::F32)];
        let types: Vec<(DataType, DataType)> = match op {
            ComputeOp::Cast => casts.into_iter().chain(halves).collect(),
            ComputeOp::Bitcast => bits.into(),
            // What is alike for all types stands once.
            ComputeOp::Add => info.types.iter().map(|ty| (ty, ty)).collect(),
            _ => {
                let types = [DataType::I32, DataType::F32].into_iter();
                types.filter(|ty| info.types.contains(*ty)).map(|ty| (ty, ty)).collect()
            }
        };
        for (ty, source) in types {
            let code = code(&one_op(info, ty, source), info.args.len());
            let _ = writeln!(text, "{}.{ty} of {source}\n{code}", info.name);
        }
    }
    text
}
