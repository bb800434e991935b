//! Straight programs of single ops and of expressions, with what they must give: what drivers are tried with.
//!
//! Operands come from four columns of 64-bit words, one row for each lane, or are constants, which compilers treat in
//! their own way. Everything a line gives is stored as 64 bits.
//! What must come out is computed by the one definition of the ops.

use std::fmt::Write;
use std::sync::Arc;
use vyre_foundation::ir::{ArgType, ComputeOp, DataType, Literal};
use vyre_foundation::random::Words;
use vyre_foundation::scalar::{Meaning, meaning, observe};
use vyre_foundation::text::print_literal;

/// Lanes of a workgroup.
pub(crate) const LANES: u32 = 64;
const COLUMNS: usize = 4;
/// Lines of a program of single ops.
const LINES_MAX: usize = 16;

/// One op under one type, with its operands' types and what it must give.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) op: ComputeOp,
    pub(crate) ty: DataType,
    pub(crate) args: Vec<DataType>,
    pub(crate) result: DataType,
    meaning: Meaning,
}

/// Every op on these types.
pub(crate) fn rows(types: &[DataType]) -> Vec<Row> {
    let mut rows = Vec::new();
    for op in ComputeOp::ALL {
        for ty in types {
            // The source makes a difference to casts alone.
            let sources = if op.info().args.contains(&ArgType::Any) { types } else { &types[..1] };
            rows.extend(sources.iter().filter_map(|source| row(*op, *ty, *source)));
        }
    }
    rows
}

fn row(op: ComputeOp, ty: DataType, source: DataType) -> Option<Row> {
    let info = op.info();
    let (meaning, result) = (meaning(op, ty, source)?, info.result.under(ty)?);
    let args = info.args.iter().map(|arg| arg.under(ty).unwrap_or(source)).collect();
    Some(Row { op, ty, args, result, meaning })
}

/// Where the operand of a line comes from.
#[derive(Clone, Copy)]
enum From {
    Column(usize),
    Line(usize),
    Constant(Literal),
}

struct Line {
    row: Row,
    from: Vec<From>,
    /// Whether it is looked at, and not only used by others.
    is_seen: bool,
}

/// A program and its operands.
pub(crate) struct Battery {
    lines: Vec<Line>,
    columns: Arc<[Vec<u64>; COLUMNS]>,
}

/// Something that came out wrong.
pub(crate) struct Wrong {
    /// The line, among those that are looked at.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A generator of random words: the same on every machine, so that a verdict can be repeated.
#[derive(Clone)]
pub(crate) struct Random(Words);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Words::new(seed))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0.next_word()
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }
}

/// The edges of integers of every width, and what lies next to them.
fn integer_edges() -> Vec<u64> {
    let mut edges = vec![0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 0x0123_4567_89ab_cdef, 0xdead_beef, u64::MAX];
    for bits in [7, 8, 15, 16, 31, 32, 63] {
        let power = 1u64 << bits;
        edges.extend([power - 1, power, power + 1, power.wrapping_neg()]);
    }
    edges
}

/// Words that are hard as f32 in their low half, as f16 and bf16 in the bits above the lowest 16, and as f64 in all.
fn float_edges() -> Vec<u64> {
    let small = [
        0x0000_0000u32,
        0x0000_0001,
        0x0000_ffff,
        0x0001_0000,
        0x03ff_0000,
        0x0400_0000,
        0x007f_ffff,
        0x0080_0000,
        0x0080_0001,
        0x00ff_ffff,
        0x1f80_0000,
        0x3380_0001,
        0x3400_0000,
        0x3bff_ffff,
        0x3c00_0001,
        0x3eff_ffff,
        0x3f00_0000,
        0x3f7f_ffff,
        0x3f80_0000,
        0x3f80_0001,
        0x3fc0_0000,
        0x4020_0000,
        0x4049_0fdb,
        0x4100_0001,
        0x4aff_ffff,
        0x4b00_0001,
        0x4b80_0000,
        0x4eff_ffff,
        0x4f00_0000,
        0x4f7f_ffff,
        0x4f80_0000,
        0x5eff_ffff,
        0x5f00_0000,
        0x5f80_0000,
        0x7bff_8000,
        0x7c00_0001,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7fc0_0000,
        0x7f80_0001,
    ];
    let wide = [
        0.0f64,
        5e-324,
        f64::MIN_POSITIVE,
        1.0,
        1.0 + f64::EPSILON,
        0.5,
        1.5,
        2.5,
        1e-45,
        7e-46,
        1.1754943e-38,
        3.4028235677973366e38,
        65519.999,
        65520.0,
        2147483647.5,
        4294967295.5,
        9007199254740993.0,
        1.8e19,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    let small = small.into_iter().flat_map(|x| [x, x | 0x8000_0000]);
    let mixed = small.map(|x| u64::from(x) << 32 | u64::from(x));
    mixed.chain(wide.into_iter().flat_map(|x| [x.to_bits(), (-x).to_bits()])).collect()
}

impl Battery {
    /// Each of these rows by itself, on edges and on random words. In several programs, because compilers take longer for
    /// each line of a long one.
    pub(crate) fn of(rows: Vec<Row>) -> Vec<Battery> {
        let is_float =
            rows.iter().any(|row| row.result.is_float() || row.args.iter().any(|ty| ty.is_float()));
        let edges = if is_float { float_edges() } else { integer_edges() };
        let count = edges.len();
        let places: [fn(usize, usize) -> usize; COLUMNS] =
            [|at, n| at % n, |at, n| at / n, |at, n| at * 7 % n, |at, n| at * 3 % n];
        let mut columns = places.map(|place| (0..count * count).map(|at| edges[place(at, count)]).collect());
        let mut random = Random::new(1);
        for at in 0..2048 {
            let mut words: [u64; COLUMNS] = std::array::from_fn(|_| random.word());
            if is_float && at % 2 == 0 {
                near_cancellation(&mut words);
            }
            columns.iter_mut().zip(words).for_each(|(column, word): (&mut Vec<u64>, u64)| column.push(word));
        }
        let constants = with_constants(&rows, &edges);
        let line =
            |row: Row| Line { from: (0..row.args.len()).map(From::Column).collect(), row, is_seen: true };
        let mut lines: Vec<Line> = rows.into_iter().map(line).chain(constants).collect();
        // Those of an op together, so that few programs change with how it is made.
        lines.sort_by_key(|line| line.row.op);
        let columns = Arc::new(columns);
        let mut lines = lines.into_iter();
        let pieces = std::iter::from_fn(|| {
            let lines: Vec<Line> = lines.by_ref().take(LINES_MAX).collect();
            (!lines.is_empty()).then(|| Battery { lines, columns: Arc::clone(&columns) })
        });
        pieces.collect()
    }

    /// Expressions over a type, of the kind that compilers rewrite: few values, simple constants, a comparison at the end of
    /// some.
    pub(crate) fn expressions(ty: DataType, count: usize, seed: u64) -> Battery {
        let all = |result: DataType| {
            let named = ComputeOp::ALL.iter().filter(|op| !op.info().args.contains(&ArgType::Any));
            // Remainders of floats are integers on every device, and long.
            let named = named.filter(|op| !(ty.is_float() && **op == ComputeOp::Rem));
            let rows = named.filter_map(|op| row(*op, ty, ty)).filter(|row| row.result == result);
            rows.collect::<Vec<Row>>()
        };
        let (mut ops, tests) = (all(ty), all(DataType::Bool));
        // Sums and products are what is rewritten most.
        let often = [ComputeOp::Add, ComputeOp::Sub, ComputeOp::Mul];
        ops.extend(often.iter().cycle().take(12).filter_map(|op| row(*op, ty, ty)));
        let mut random = Random::new(seed);
        let mut lines: Vec<Line> = Vec::new();
        for _ in 0..count {
            let first = lines.len();
            for step in 0..5 {
                let from = if step == 4 && random.below(3) == 0 { &tests } else { &ops };
                let row = from[random.below(from.len())].clone();
                let mut pick = |arg: &DataType| match random.below(4 + 2 * step) {
                    0 if *arg == ty => From::Constant(constant(ty, random.below(6))),
                    4.. if *arg == ty => From::Line(first + random.below(step)),
                    _ => From::Column(random.below(3)),
                };
                let from = row.args.iter().map(&mut pick).collect();
                lines.push(Line { row, from, is_seen: step == 4 });
            }
        }
        let edges = if ty.is_float() { float_edges() } else { integer_edges() };
        let columns = std::array::from_fn(|_| {
            let mut word = |lane: usize| match lane % 4 {
                0 => edges[random.below(edges.len())],
                _ if !ty.is_float() => random.word() >> random.below(64),
                // Of about the same size, where sums and products round and cancel.
                _ => random.word() & 0x800f_ffff_807f_ffff | 0x3ff0_0000_3f80_0000,
            };
            (0..512).map(&mut word).collect()
        });
        Battery { lines, columns: Arc::new(columns) }
    }

    fn lanes(&self) -> usize {
        self.columns[0].len()
    }

    pub(crate) fn workgroups(&self) -> u32 {
        self.lanes().div_ceil(LANES as usize) as u32
    }

    fn seen(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines.iter().enumerate().filter(|(_, line)| line.is_seen)
    }

    /// Bytes of what comes out.
    pub(crate) fn output_bytes(&self) -> usize {
        self.seen().count() * self.lanes() * 8
    }

    pub(crate) fn inputs(&self) -> Vec<Vec<u8>> {
        self.columns
            .iter()
            .map(|column| column.iter().flat_map(|word| word.to_le_bytes()).collect())
            .collect()
    }

    /// The rows of the lines that are looked at.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.seen().map(|(_, line)| &line.row)
    }

    /// The row of a line that is looked at.
    pub(crate) fn row(&self, line: usize) -> &Row {
        self.rows().nth(line).expect("there are so many")
    }

    /// The program's text.
    pub(crate) fn source(&self) -> String {
        let mut text = format!("program @battery workgroup({LANES}, 1, 1) {{\n");
        for column in 0..COLUMNS {
            let _ = writeln!(text, "  buffer @x{column} : read u64[] binding {column}");
        }
        let _ = writeln!(text, "  buffer @y : read_write u64[] binding {COLUMNS} output\n  %i = global_id x");
        let _ = writeln!(text, "  %live = lt.u32 %i, {}\n  if %live {{", self.lanes());
        (0..COLUMNS).for_each(|column| operands(&mut text, column));
        let mut place = 0;
        for (at, line) in self.lines.iter().enumerate() {
            let args: Vec<String> = line
                .from
                .iter()
                .zip(&line.row.args)
                .map(|(from, ty)| match from {
                    From::Column(column) => format!("%{ty}{column}"),
                    From::Line(line) => format!("%r{line}"),
                    From::Constant(literal) => print_literal(*literal),
                })
                .collect();
            let name = line.row.op.info().name;
            let _ = writeln!(text, "    %r{at} = {name}.{} {}", line.row.ty, args.join(", "));
            if !line.is_seen {
                continue;
            }
            // At once: what waits for the end of a long program takes registers, and compilers long to find them.
            let bits = match line.row.result {
                // Signed numbers would be extended by their sign, and floats be rounded.
                DataType::I32 => format!("cast.u32 %r{at}"),
                DataType::F64 => format!("bitcast.u64 %r{at}"),
                ty if ty.is_float() => format!("bitcast.u32 %r{at}"),
                DataType::Bool => format!("cast.u32 %r{at}"),
                ty => format!("cast.{ty} %r{at}"),
            };
            let _ = writeln!(text, "    %b{at} = {bits}\n    %w{at} = cast.u64 %b{at}");
            let _ = writeln!(text, "    %at{at} = add.u32 %i, {}", place * self.lanes());
            let _ = writeln!(text, "    store.u64 @y[%at{at}], %w{at}");
            place += 1;
        }
        text.push_str("  }\n}\n");
        text
    }

    /// What is wrong with what came out, one for each op and type that is, at its first line.
    pub(crate) fn judge(&self, found: &[u8]) -> Vec<Wrong> {
        let mut wrong: Vec<Option<String>> = self.seen().map(|_| None).collect();
        let mut values = vec![0; self.lines.len()];
        for lane in 0..self.lanes() {
            for (at, line) in self.lines.iter().enumerate() {
                let operands = self.operands(line, &values, lane);
                values[at] = (line.row.meaning)(&operands);
            }
            for (place, (at, line)) in self.seen().enumerate() {
                let bytes = &found[(place * self.lanes() + lane) * 8..][..8];
                let found = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                let expected = observe(line.row.result, values[at]);
                if found != expected && wrong[place].is_none() {
                    let expression = self.spell(line, lane);
                    wrong[place] = Some(format!("{expression} gives {found:#x} instead of {expected:#x}"));
                }
            }
        }
        let mut told = Vec::new();
        let named = wrong.into_iter().enumerate().filter_map(|(line, text)| {
            let Row { op, ty, ref args, .. } = *self.row(line);
            let text = text.filter(|_| !told.contains(&(op, ty, args)))?;
            told.push((op, ty, args));
            Some(Wrong { line, text })
        });
        named.collect()
    }

    /// A line as an expression of a lane's operands, which are written as bits.
    fn spell(&self, line: &Line, lane: usize) -> String {
        let operands = self.operands(line, &vec![0; self.lines.len()], lane);
        let spelled = line.from.iter().zip(operands).map(|(from, bits)| match from {
            From::Column(_) => format!("{bits:#x}"),
            From::Line(line) => self.spell(&self.lines[*line], lane),
            From::Constant(literal) => print_literal(*literal),
        });
        let spelled = spelled.collect::<Vec<_>>().join(", ");
        format!("{}.{}({spelled})", line.row.op.info().name, line.row.ty)
    }

    fn operands(&self, line: &Line, values: &[u64], lane: usize) -> [u64; 4] {
        let mut operands = [0; 4];
        for (slot, (from, ty)) in operands.iter_mut().zip(line.from.iter().zip(&line.row.args)) {
            *slot = match from {
                From::Column(column) if is_half(*ty) => self.columns[*column][lane] >> 16 & ty.mask(),
                From::Column(column) => self.columns[*column][lane] & ty.mask(),
                From::Line(line) => values[*line],
                From::Constant(literal) => literal.bits(),
            };
        }
        operands
    }
}

/// One of six simple constants.
fn constant(ty: DataType, at: usize) -> Literal {
    let float = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5][at];
    let integer = [0, 1, 2, 31, ty.mask(), ty.mask() >> 1][at];
    Literal::from_bits(
        ty,
        match ty {
            DataType::F64 => f64::to_bits(float),
            DataType::F32 => u64::from((float as f32).to_bits()),
            _ => integer,
        },
    )
}

/// Each row of 32 bits and more twice for each of its operands, which is a constant then. Every row has others.
fn with_constants(rows: &[Row], edges: &[u64]) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in rows.iter().filter(|row| row.ty.bits() >= 32 && row.args.len() > 1) {
        for (place, ty) in row.args.iter().enumerate().flat_map(|arg| [arg; 2]) {
            let mut from: Vec<From> = (0..row.args.len()).map(From::Column).collect();
            let edge = edges[(lines.len() * 5 + 1) % edges.len()];
            from[place] = From::Constant(Literal::from_bits(*ty, edge));
            lines.push(Line { row: row.clone(), from, is_seen: true });
        }
    }
    lines
}

fn is_half(ty: DataType) -> bool {
    ty.is_float() && ty.bits() == 16
}

/// Writes a column as an operand of every type.
fn operands(text: &mut String, column: usize) {
    let _ =
        writeln!(text, "    %x{column} = load.u64 @x{column}[%i]\n    %odd{column} = and.u64 %x{column}, 1");
    let _ = writeln!(text, "    %bool{column} = cast.bool %odd{column}");
    for ty in [DataType::U32, DataType::I32, DataType::U64, DataType::I64] {
        let _ = writeln!(text, "    %{ty}{column} = cast.{ty} %x{column}");
    }
    let _ = writeln!(text, "    %half{column} = shr.u32 %u32{column}, 16");
    for (ty, from) in [("f32", "u32"), ("f64", "u64"), ("f16", "half"), ("bf16", "half")] {
        let _ = writeln!(text, "    %{ty}{column} = bitcast.{ty} %{from}{column}");
    }
}

/// Makes the third operand almost what the product of the first two is, with the other sign: what is left of a fused sum
/// are the bits that a rounded product has lost. In even lanes f32 in the low half, in odd ones f64.
fn near_cancellation(words: &mut [u64; COLUMNS]) {
    if words[3] & 1 == 0 {
        let near_one = |word: u64| f32::from_bits(word as u32 & 0x807f_ffff | 0x3f80_0000);
        let (a, b) = (near_one(words[0]), near_one(words[1]));
        let low = [a, b, -(a * b)].map(|x| u64::from(x.to_bits()));
        words.iter_mut().zip(low).for_each(|(word, low)| *word = *word >> 32 << 32 | low);
    } else {
        let near_one = |word: u64| f64::from_bits(word & 0x800f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
        let (a, b) = (near_one(words[0]), near_one(words[1]));
        words.iter_mut().zip([a, b, -(a * b)]).for_each(|(word, x)| *word = x.to_bits());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vyre_driver::{DispatchConfig, VyreBackend};
    use vyre_driver_reference::ReferenceBackend;
    use vyre_foundation::text;

    /// What the reference makes of a battery.
    fn on_reference(battery: &Battery) -> Vec<u8> {
        let program =
            text::parse(&battery.source()).unwrap_or_else(|findings| panic!("{findings:?}")).program;
        let config = DispatchConfig {
            grid_override: Some([battery.workgroups(), 1, 1]),
            output_sizes: vec![battery.output_bytes()],
            ..DispatchConfig::default()
        };
        let found = ReferenceBackend::default().dispatch(&program, &battery.inputs(), &config);
        found.expect("it runs").swap_remove(0)
    }

    #[test]
    fn the_reference_passes_and_one_wrong_bit_does_not() {
        let types = [DataType::F64, DataType::F32, DataType::F16, DataType::I32, DataType::U64];
        let expressions = [
            Battery::expressions(DataType::F32, 8, 1),
            Battery::expressions(DataType::F64, 8, 2),
            Battery::expressions(DataType::I32, 8, 3),
            Battery::expressions(DataType::U64, 8, 4),
        ];
        for battery in Battery::of(rows(&types)).into_iter().chain(expressions) {
            let mut found = on_reference(&battery);
            let wrong: Vec<String> = battery.judge(&found).into_iter().map(|wrong| wrong.text).collect();
            assert!(wrong.is_empty(), "{wrong:?}");
            let at = found.len() / 2 + 1;
            found[at] ^= 4;
            assert_eq!(battery.judge(&found).len(), 1);
        }
    }
}
