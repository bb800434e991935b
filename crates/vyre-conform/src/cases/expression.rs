//! Lines of text that a table writes once for many types.
//!
//! `T` is the type, `U` the integer that its bits show as, `%R` the result and `%1` to `%9` values in between; `;` ends a line.
//! `MIN`, `MAX` and `ALL` are an integer type's limits and its ones, `WIDTH` its bits. `SAME %a, %b` as the last line says
//! whether two values have the same bits where they can be observed.

use super::operands::{Instance, Row};
use vyre_foundation::ir::{ComputeOp, DataType};

/// The lines for a type, with a result of that name.
pub(super) fn lines(text: &str, ty: DataType, result: &str) -> String {
    let bits = match ty.bits() {
        64 => DataType::U64,
        _ => DataType::U32,
    };
    let (all, top) = (ty.mask(), ty.mask() / 2 + 1);
    let (least, most) = if ty.is_signed() { (top, top - 1) } else { (0, all) };
    let text = match text.split_once("SAME ") {
        None => text.to_owned(),
        Some((before, _)) if ty == DataType::Bool => {
            format!("{before}%R = eq.T {}", &text[before.len() + 5..])
        }
        Some((before, values)) => {
            let (left, right) = values.split_once(", ").expect("two values are the same");
            format!("{before}%8 = bitcast.U {left}; %9 = bitcast.U {right}; %R = eq.U %8, %9")
        }
    };
    let mut text = text.replace(".T", &format!(".{ty}")).replace(": T", &format!(": {ty}"));
    for (word, number) in [("MIN", least), ("MAX", most), ("ALL", all)] {
        text = text.replace(word, &format!("{number:#x}"));
    }
    text = text.replace(".U", &format!(".{bits}")).replace("WIDTH", &ty.bits().to_string());
    // Every expression has its own values, so that several can be in one program.
    text = text.replace("%R", &format!("%{result}")).replace("$0", &format!("${result}.0"));
    for number in 1..=9 {
        text = text.replace(&format!("%{number}"), &format!("%{result}.{number}"));
    }
    format!("{}\n", text.replace("; ", "\n"))
}

/// Triples on which one rounding, one overflow or one NaN more or less shows.
pub(super) fn triples(ty: DataType, count: usize) -> Vec<Row> {
    let op = if ty.is_float() { ComputeOp::Fma } else { ComputeOp::Clamp };
    let clamp = Instance { op: ComputeOp::Clamp, ty, source: ty };
    let mut rows = Instance { op, ..clamp }.special();
    rows.extend(clamp.special());
    rows.extend(clamp.edge());
    let mut rows = thin(rows, count);
    rows.extend(clamp.random(u64::from(ty.tag()), count / 4 + 1));
    rows
}

/// At most `count` of the rows, spread over all of them.
pub(super) fn thin(rows: Vec<Row>, count: usize) -> Vec<Row> {
    let step = rows.len().div_ceil(count).max(1);
    // An odd step samples every kind of row in sets that nested loops made.
    let step = if step.is_multiple_of(2) { step + 1 } else { step };
    rows.into_iter().step_by(step).collect()
}
