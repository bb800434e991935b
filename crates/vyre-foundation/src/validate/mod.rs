//! Decides whether a program is valid, and reports everything that is wrong with one that is not.
//!
//! [`validate`] is the only maker of a [`ValidProgram`], the form that optimiser, interpreter and backends demand;
//! behind it nothing may fail on the program's shape. Three linear walks: declarations, the lines of each body
//! (types and scopes), then uniformity. Each finding stands alone: a value whose type is unknown because its own line
//! is wrong is not reported again where it is used.
//!
//! A program is immutable, so it keeps its verdict and the facts that each launch asks for (`Proof`): all clones of a
//! program are validated once.
//!
//! What is checked, by code ([`RULES`] has each with a wrong and a right program):
//!
//! | | declarations |
//! | --- | --- |
//! | V001 | the workgroup size is neither zero nor over the limits |
//! | V002 | the subgroup width is a power of two up to 32 that divides the workgroup |
//! | V003 | a binding is given once |
//! | V004 | a binding is within the limit |
//! | V005 | elements of buffers and tables are storable |
//! | V006 | buffers, tables and private arrays have elements |
//! | V007 | workgroup and uniform buffers have a fixed length |
//! | V008 | workgroup memory is within the limit |
//! | V009 | a uniform buffer is within the limit |
//! | V010 | private arrays, with functions inlined, are within the limit |
//! | | **types** |
//! | V011 | an op takes its type suffix |
//! | V012 | an op has the number of operands it takes |
//! | V013 | an operand has the type its place asks for |
//! | V014 | an access has the element type of its buffer |
//! | V015 | read-only memory is not written |
//! | V016 | a `bitcast` is between types of one width |
//! | V017 | an axis stands where the op asks for one, and only there |
//! | V018 | a loop's step is not zero |
//! | V019 | `uniform_load` and `mma` work on workgroup memory |
//! | V020 | the extents of an `mma` are within the limits |
//! | V021 | private arrays are indexed, other locals are not |
//! | V022 | `get` and `set` have the type of their local |
//! | V023 | locals, parameters and results are of types that compute |
//! | V024 | a call has as many arguments as its function has parameters |
//! | V025 | only a call of a function with a result gives a value |
//! | V026 | `return` stands on a function's last line |
//! | V027 | a function returns what it declares |
//! | V028 | subgroup ops stand in programs that declare a subgroup width |
//! | V029 | a collective writes a read_write buffer and reads another bound one |
//! | | **flow** |
//! | V030 | ops that lanes take part in together stand in the main body |
//! | V031 | barriers, subgroup ops, `uniform_load` and `mma` are reached by a workgroup's lanes together |
//! | V032 | grid barriers and collectives are reached by all lanes together |
//! | V033 | an operand that must be uniform is |
//! | V034 | a value is assigned once, and a local declared once |
//! | V035 | nothing is used before it is assigned |
//! | V036 | nothing is used outside the block that assigns it |
//! | V037 | `break` and `continue` stand in a loop |
//! | V038 | no line follows a `break` or `continue` in its block |
//! | V039 | `indirect` is the first line |
//! | V040 | `indirect` reads three u32 of a buffer that the program does not write |
//! | V041 | the program with its functions inlined is within the limit of lines |
//! | V042 | its blocks then nest within the limit |
//!
//! What is not checked: data races and out-of-bounds accesses (the reference reports those of a run; accesses out of
//! bounds have a meaning anyway), lengths and bindings of actual buffers (a launch checks them), whether a device has
//! room for what a program declares, and lines that never run for reasons of data. What a sealed program cannot
//! express at all is not here either: dangling names, recursion, oversized tables.

mod body;
mod facts;
mod flow;
mod header;
mod inlined;
mod line;
mod memory;
mod rules;
pub mod uniformity;

pub use crate::diagnostic::Rule;
pub use facts::Facts;
pub use rules::{RULES, explain};

use crate::diagnostic::{Diagnostic, Place};
use crate::ir::{FunctionId, Program, ProgramError, ProgramParts};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a program keeps of its validation.
#[derive(Default)]
pub(crate) struct Proof {
    verdict: OnceLock<Result<(), Vec<Diagnostic>>>,
    facts: OnceLock<Facts>,
    /// The program with the last other workgroup size that was asked for.
    resized: Mutex<Option<Program>>,
}

/// A program that `validate` accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValidProgram {
    program: Program,
}

impl ValidProgram {
    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What the program consists of.
    pub fn parts(&self) -> &ProgramParts {
        self.program.parts()
    }

    /// What each launch asks of the program.
    pub fn facts(&self) -> &Facts {
        self.program.proof().facts.get_or_init(|| Facts::of(self.parts()))
    }

    /// A valid program after passes that keep it valid.
    pub(crate) fn made_by_passes(program: Program) -> ValidProgram {
        // In debug builds the pass manager has validated it, and then this keeps that verdict.
        let _ = program.proof().verdict.set(Ok(()));
        ValidProgram { program }
    }
}

/// Accepts `program`, or reports everything that is wrong with it in the order of its text.
///
/// After [`FINDINGS_MAX`] findings it stops. The program keeps the verdict, so asking again costs nothing.
///
/// ```
/// use vyre_foundation::{text, validate};
///
/// let source = "program @p workgroup(64, 1, 1) {\n  %i = global_id x\n  %h = mul.f32 %i, 0.5\n}\n";
/// let parsed = text::parse(source).unwrap();
/// let findings = validate::validate(&parsed.program).unwrap_err();
/// assert_eq!(
///     text::render(&findings[0], "p.vyre", source, &parsed.map),
///     "\
/// error[V013] p.vyre:3:3: operand 1 of `mul.f32` must be f32, and `%i` is u32
///   |   %h = mul.f32 %i, 0.5
///   |   ^^^^^^^^^^^^^^^^^^^^
///   Fix: put `%i.f32 = cast.f32 %i` on the line above and write `%i.f32` here
/// "
/// );
/// ```
pub fn validate(program: &Program) -> Result<ValidProgram, Vec<Diagnostic>> {
    let verdict = program.proof().verdict.get_or_init(|| check(program.parts()));
    verdict.clone().map(|()| ValidProgram { program: program.clone() })
}

/// Whether the program has its verdict.
pub fn is_decided(program: &Program) -> bool {
    program.proof().verdict.get().is_some()
}

/// The program with another workgroup size: a program of its own, which this one keeps until another size is asked for.
pub fn resized(program: &Program, workgroup: [u32; 3]) -> Result<Program, ProgramError> {
    let mut kept = program.proof().resized.lock().unwrap_or_else(PoisonError::into_inner);
    match &*kept {
        Some(found) if found.parts().workgroup == workgroup => Ok(found.clone()),
        _ => {
            let other = Program::new(ProgramParts { workgroup, ..program.parts().clone() })?;
            Ok(kept.insert(other).clone())
        }
    }
}

fn check(parts: &ProgramParts) -> Result<(), Vec<Diagnostic>> {
    let mut findings = Findings::default();
    header::check(parts, &mut findings);
    for index in 0..parts.functions.len() {
        body::check(parts, Some(FunctionId(index as u32)), &mut findings);
    }
    body::check(parts, None, &mut findings);
    inlined::check(parts, &mut findings);
    flow::check(parts, &mut findings);
    if findings.list.is_empty() {
        return Ok(());
    }
    findings.list.sort_by_key(|finding| text_order(finding.place));
    Err(findings.list)
}

/// How many findings one call of [`validate`] reports at most, so that a hostile program cannot fill the memory.
pub const FINDINGS_MAX: usize = 10_000;

/// What has been found so far.
#[derive(Default)]
struct Findings {
    list: Vec<Diagnostic>,
}

impl Findings {
    fn is_full(&self) -> bool {
        self.list.len() >= FINDINGS_MAX
    }

    fn report(
        &mut self,
        code: &'static str,
        place: Place,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        if !self.is_full() {
            self.list.push(Diagnostic { code, place, message: message.into(), fix: fix.into() });
        }
    }
}

/// Header, declarations, functions, main body.
fn text_order(place: Place) -> (u32, u32, u32) {
    match place {
        Place::Program | Place::Source(_) => (0, 0, 0),
        Place::Buffer(buffer) => (1, buffer.0, 0),
        Place::Function(function) => (2, function.0, 0),
        Place::Line { function: Some(function), site } => (2, function.0, site.saturating_add(1)),
        Place::Line { function: None, site } => (3, 0, site),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Args, ComputeOp, DataType, Literal, MemoryOrdering, Node};
    use crate::limits;

    #[test]
    fn the_empty_program_is_valid() {
        let program = Program::empty();
        assert_eq!(validate(&program).map(|valid| valid.program().clone()), Ok(program));
    }

    #[test]
    fn findings_come_in_the_order_of_the_text() {
        let mut parts = ProgramParts::new("p", [0, 1, 1]);
        let a = parts.body.new_value("a");
        let one = Literal::u32(1).into();
        let args = Args::from_slice(&[one, one]);
        parts.body.block.push(Node::Compute { result: a, op: ComputeOp::Add, ty: DataType::F32, args });
        parts.body.block.push(Node::Break);
        let program = Program::new(parts).expect("sealable");
        let codes: Vec<_> =
            validate(&program).expect_err("wrong").iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["V001", "V013", "V013", "V037"]);
    }

    #[test]
    fn the_deepest_program_fits_a_small_stack() {
        let mut parts = ProgramParts::new("p", [64, 1, 1]);
        let mut block = vec![Node::Barrier { ordering: MemoryOrdering::Workgroup }];
        for _ in 0..limits::NESTING_MAX {
            let cond = Literal::bool(true).into();
            block = vec![Node::If { cond, then: block, otherwise: Vec::new() }];
        }
        parts.body.block = block;
        let program = Program::new(parts).expect("sealable");
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let valid = small.spawn(move || validate(&program).is_ok()).expect("a thread").join();
        assert!(valid.expect("no overflow"));
    }

    #[test]
    fn findings_are_limited() {
        let mut parts = ProgramParts::new("p", [64, 1, 1]);
        parts.body.block = vec![Node::Break; FINDINGS_MAX + 5];
        let program = Program::new(parts).expect("sealable");
        assert_eq!(validate(&program).map_err(|findings| findings.len()), Err(FINDINGS_MAX));
    }
}
