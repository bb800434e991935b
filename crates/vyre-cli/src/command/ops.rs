//! `vyre ops`: the op table.

use crate::args::Ops;
use crate::report::{BOLD, Failure, OK, Report, paint};
use serde_json::{Value, json};
use vyre::ir::{ArgType, Effect, OpId, OpInfo, ResultType, TypeSet};
use vyre::math::{MathOp, OPS};
use vyre_terminal::table::{Align, columns};

pub(crate) fn run(args: &Ops, report: &Report) -> Result<u8, Failure> {
    let Some(name) = &args.name else {
        report.json(|| {
            let ops: Vec<Value> = OpId::all().map(|op| row(op.info())).collect();
            json!({ "ops": ops, "functions": OPS.iter().map(function).collect::<Vec<_>>() })
        });
        report.text(&list());
        return Ok(OK);
    };
    // `add.f32` asks for `add`.
    let base = name.split('.').next().unwrap_or(name);
    if let Some(op) = MathOp::from_name(base) {
        report.json(|| function(op));
        report.text(&format!(
            "{}\n  {}\n\n  form   {}\n  types  {}\n",
            paint(BOLD, op.name),
            op.doc,
            op.syntax(),
            op.types
        ));
        return Ok(OK);
    }
    let Some(op) = OpId::from_name(base) else {
        return Err(Failure::usage(
            format!("there is no op `{}`", name.escape_debug()),
            match nearest(base) {
                Some(near) => format!("did you mean `{near}`? `vyre ops` lists all"),
                None => "`vyre ops` lists all".into(),
            },
        ));
    };
    report.json(|| row(op.info()));
    report.text(&full(op.info()));
    Ok(OK)
}

fn row(info: &OpInfo) -> Value {
    json!({
        "name": info.name,
        "tag": info.tag,
        "types": info.types.iter().map(|ty| ty.name()).collect::<Vec<_>>(),
        "args": info.args.iter().map(|arg| arg_name(*arg)).collect::<Vec<_>>(),
        "result": result_name(info.result),
        "effect": effect_name(info.effect),
        "syntax": info.syntax,
        "doc": info.doc,
    })
}

fn function(op: &MathOp) -> Value {
    json!({
        "name": op.name,
        "types": op.types.iter().map(|ty| ty.name()).collect::<Vec<_>>(),
        "operands": op.operands,
        "syntax": op.syntax(),
        "doc": op.doc,
    })
}

fn list() -> String {
    let mut rows = vec![["op", "types", "form", "effect"].map(String::from).to_vec()];
    for op in OpId::all() {
        let info = op.info();
        let types = if info.types.is_empty() { "-".into() } else { info.types.name() };
        rows.push(vec![info.name.into(), types, info.syntax.into(), effect_name(info.effect).into()]);
    }
    for op in OPS {
        rows.push(vec![op.name.into(), op.types.name(), op.syntax(), effect_name(Effect::Pure).into()]);
    }
    let text = columns(&[Align::Left; 4], &rows);
    let (head, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let sets = TypeSet::NAMED.map(|(name, set)| vec![name.to_owned(), set.to_string()]);
    let sets = columns(&[Align::Left; 2], &sets);
    format!("{}\n{rest}\n{sets}\n`vyre ops NAME` shows one op in full.\n", paint(BOLD, head))
}

fn full(info: &OpInfo) -> String {
    let list = |items: Vec<&str>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let rows: Vec<Vec<String>> = [
        ("form", info.syntax.to_owned()),
        ("types", list(info.types.iter().map(|ty| ty.name()).collect())),
        ("operands", list(info.args.iter().map(|arg| arg_name(*arg)).collect())),
        ("result", result_name(info.result).unwrap_or("none").to_owned()),
        ("effect", effect_name(info.effect).to_owned()),
        ("wire tag", format!("{:#04x}", info.tag)),
    ]
    .map(|(key, value)| vec![format!("  {key}"), value])
    .to_vec();
    format!("{}\n  {}\n\n{}", paint(BOLD, info.name), info.doc, columns(&[Align::Left; 2], &rows))
}

fn arg_name(arg: ArgType) -> &'static str {
    match arg {
        ArgType::Same => "T",
        ArgType::U32 => "u32",
        ArgType::Bool => "bool",
        ArgType::Any => "any",
    }
}

fn result_name(result: ResultType) -> Option<&'static str> {
    match result {
        ResultType::None => None,
        ResultType::Same => Some("T"),
        ResultType::U32 => Some("u32"),
        ResultType::Bool => Some("bool"),
    }
}

fn effect_name(effect: Effect) -> &'static str {
    match effect {
        Effect::Pure => "pure",
        Effect::Reads | Effect::Gets => "reads",
        Effect::Writes | Effect::Sets | Effect::Traps => "writes",
        Effect::Exchanges | Effect::Orders | Effect::OrdersAndWrites => "synchronises",
        Effect::Controls | Effect::Calls | Effect::Launches => "controls",
    }
}

/// The op whose name shares the longest beginning or contains what was asked for.
fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let shared = |op: &str| op.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    let names = || OpId::all().map(OpId::name).chain(OPS.iter().map(|op| op.name));
    let containing = names().find(|op| name.len() >= 2 && op.contains(&name));
    containing.or_else(|| {
        let best = names().max_by_key(|op| (shared(op), std::cmp::Reverse(op.len())));
        best.filter(|op| shared(op) >= 2)
    })
}
