//! "Did you mean": the known name nearest to a wrong one.

use crate::ir::{DataType, OpId};
use crate::math::{MathOp, OPS};

/// Candidates looked at, so that a program with a million names and many mistakes is still read quickly.
const CANDIDATES_MAX: usize = 10_000;

/// The candidate that is likely meant by `name`, if one is near enough.
pub(super) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the name may be wrong: `gloabl_id` is `global_id`, but `x` is not `y`.
    within(name, (name.len() / 3).min(3), candidates)
}

/// The same for names of a few letters, of which two may be wrong but not the first: `ind` is `idx`.
pub(super) fn nearest_short<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = if matches!(name.len(), 3..=5) { 2 } else { 0 };
    within(name, allowed, candidates.filter(|candidate| candidate.len() > 2 && candidate[..1] == name[..1]))
}

fn within<'a>(name: &str, allowed: usize, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if allowed == 0 || name.len() > 64 {
        return None;
    }
    let mut best = None;
    for candidate in candidates.take(CANDIDATES_MAX) {
        if candidate.len().abs_diff(name.len()) > allowed || candidate == name {
            continue;
        }
        let distance = distance(name.as_bytes(), candidate.as_bytes());
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Edits between two names, a swap of neighbours counted as one.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            let change = above[j] + usize::from(a[i] != b[j]);
            row[j + 1] = change.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

/// The fix for a word that is not an op.
pub(super) fn fix_op(word: &str) -> String {
    if let Some(fix) = foreign_op(word) {
        return fix;
    }
    let math = OPS.iter().map(|op| op.name);
    match nearest(word, OpId::all().map(OpId::name).chain(math)) {
        Some(op) => format!("did you mean `{op}`? Its form is `{}`", op_syntax(op)),
        None => "`vyre ops` lists every op with its form".to_string(),
    }
}

/// The fix for a word of another language, which no edit distance finds.
fn foreign_op(word: &str) -> Option<String> {
    let op = match word {
        "mod" | "fmod" | "modulo" | "urem" | "srem" => "rem",
        "sync" | "__syncthreads" | "syncthreads" | "workgroupBarrier" | "threadgroup_barrier" => "barrier",
        "mad" | "fmadd" => "fma",
        "lte" | "leq" => "le",
        "gte" | "geq" => "ge",
        "neq" => "ne",
        "fabs" => "abs",
        "read" | "ld" => "load",
        "write" | "st" => "store",
        "group_id" | "block_id" | "blockIdx" => "workgroup_id",
        "blockDim" | "block_dim" => "workgroup_size",
        "gridDim" | "grid_dim" => "num_workgroups",
        "convert" | "as" => "cast",
        "thread_id" | "threadIdx" | "thread_idx" | "tid" => {
            return Some("use `global_id x` in the grid, or `local_id x` in the workgroup".into());
        }
        "while" | "loop" | "do" => {
            return Some("loop with `for %i in 0..N {`, and leave it early with `break`".into());
        }
        "let" | "auto" => return Some("remove it: `%name = op ...` needs no keyword".into()),
        _ => return None,
    };
    Some(format!("use `{op}`, whose form is `{}`", op_syntax(op)))
}

fn op_syntax(name: &str) -> String {
    match OpId::from_name(name) {
        Some(op) => op.info().syntax.to_string(),
        None => MathOp::from_name(name).map_or_else(String::new, MathOp::syntax),
    }
}

/// The fix for a word that is not a type.
pub(super) fn fix_type(word: &str) -> String {
    let names = || DataType::ALL.iter().map(|ty| ty.name());
    // Names from other languages, which no edit distance finds.
    let known = match word {
        "float" | "single" => Some("f32"),
        "double" => Some("f64"),
        "half" => Some("f16"),
        "int" => Some("i32"),
        "uint" | "unsigned" | "usize" => Some("u32"),
        "byte" | "uchar" => Some("u8"),
        _ => nearest(word, names()),
    };
    match known {
        Some(ty) => format!("did you mean `{ty}`?"),
        None => format!("use one of {}", names().collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_meant() {
        let table = [
            ("gloabl_id", Some("global_id")),
            ("addd", Some("add")),
            ("subgroup_reduce_ad", Some("subgroup_reduce_add")),
            ("atomic_ad", Some("atomic_add")),
            ("x", None),
            ("completely_else", None),
        ];
        for (word, meant) in table {
            assert_eq!(nearest(word, OpId::all().map(OpId::name)), meant, "{word}");
        }
        assert_eq!(distance(b"abcd", b"acbd"), 1);
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(fix_type("float"), "did you mean `f32`?");
        assert_eq!(fix_type("f23"), "did you mean `f32`?");
    }
}
