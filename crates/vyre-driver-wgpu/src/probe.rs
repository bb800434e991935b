//! What a driver's compiler can be trusted with, found out when the device is opened.
//!
//! First integers: a loop longer than the longest that some drivers run, and every op with hard operands. A driver that
//! gets those wrong is refused, with what it got wrong. Then memory: loads and stores of one element, which some compilers
//! move over each other unless they are volatile. Then floats, in the ways that [`vyre_lower`] can make them: each op takes
//! the fastest way that is exact for all hard operands, and what was chosen must hold in expressions and in a long loop.
//! Subgroups are used if their lanes are consecutive ones. What a driver claims is not asked. Where there is no SPIR-V, or it
//! is wrong, shaders are WGSL, whose floats are found in the same way. The last resort are floats as integers, which are
//! exact wherever integers are.
//!
//! The verdict is kept on disk by device, driver and version, because compiling the probes takes a while. With it is kept
//! why each faster way was not taken, in the words that `vyre devices` and `vyre doctor` print.

use crate::ID;
use crate::adapter::{ShaderChoice, unavailable};
use crate::battery::{Battery, LANES, Row, Wrong, rows};
use crate::compile::Shaders;
use crate::device::Wgpu;
use crate::order::Order;
use std::cell::Cell;
use std::time::{Duration, Instant};
use vyre_driver::admission::valid;
use vyre_driver::pipeline::PipelineKey;
use vyre_driver::queue::{Launch, Operand, Queue, Read, Stop, Work};
use vyre_driver::{BackendError, DispatchConfig};
use vyre_foundation::ir::{DataType, Digest};
use vyre_foundation::launch;
use vyre_foundation::text;
use vyre_lower::floats::{FloatOp, Floats, How};
use vyre_lower::spirv::{self, Features, Options};
use vyre_lower::wgsl;

/// Goes up with what is tried and with what shaders contain, so that old verdicts do not count.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), ".12 wgpu 30.0");
/// How long a probe may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How often it is said that a driver is being tried.
const TELL_EVERY: Duration = Duration::from_secs(3);
/// Trips of a loop. Mesa 22.3 ends after 65,535.
const TRIPS: u32 = 70_000;
/// Programs of loads and stores.
const ORDERS: u64 = 32;
const INTEGERS: [DataType; 5] = [DataType::Bool, DataType::U32, DataType::I32, DataType::U64, DataType::I64];
/// The types of f32's ops, and in SPIR-V also those of 16 bits, which are computed in it, and integers of 64 bits.
const SINGLES: [DataType; 8] = [
    DataType::F32,
    DataType::Bool,
    DataType::U32,
    DataType::I32,
    DataType::U64,
    DataType::I64,
    DataType::F16,
    DataType::BF16,
];

/// What was found out about a driver.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// How shaders for the device are made.
    pub(crate) shaders: Shaders,
    /// Each way that was tried before it and not taken, with the first thing it got wrong.
    pub(crate) rejected: Vec<String>,
}

/// What is known of the device's driver, or found out now. Fails if it is wrong about integers.
pub(crate) fn verdict(wgpu: &Wgpu, features: Result<Features, &str>) -> Result<Verdict, BackendError> {
    let key = key(wgpu, features)?;
    let kept = wgpu.cache.as_ref().and_then(|cache| cache.get(&key));
    if let Some(verdict) = kept.and_then(|bytes| read(&String::from_utf8(bytes).ok()?, features.ok())) {
        return Ok(verdict);
    }
    let mut rejected = Vec::new();
    let shaders = find(&Probes::new(wgpu), features, &mut rejected)?;
    let verdict = Verdict { shaders, rejected };
    if let Some(cache) = &wgpu.cache
        && let Err(error) = cache.put(&key, write(&verdict).as_bytes())
    {
        tracing::warn!(%error, "a verdict could not be kept on disk. Fix: set VYRE_CACHE to a folder with room that you may write to");
    }
    Ok(verdict)
}

fn key(wgpu: &Wgpu, features: Result<Features, &str>) -> Result<PipelineKey, BackendError> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&fingerprint(features.ok())?);
    hasher.update(features.err().unwrap_or_default().as_bytes());
    let adapter = &wgpu.device.adapter;
    // What is asked for decides what is tried.
    let choice = format!("{:?}", wgpu.config.shaders);
    for text in ["verdict", &choice, &adapter.name, &adapter.driver, &adapter.api] {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    let program = Digest(*hasher.finalize().as_bytes());
    Ok(PipelineKey { program, backend: ID, version: VERSION, variant: 0 })
}

/// A verdict as text: `wgsl`, or `spirv`, the lanes of subgroups and how memory is accessed; how each op of f32 and of f64 is
/// made; then a line for all that was rejected.
fn write(verdict: &Verdict) -> String {
    let hows = |floats: &Floats| {
        let hows = |ty| FloatOp::ALL.map(|op| format!("{:?}", floats.how(ty, op))).join(" ");
        format!("{} {}", hows(DataType::F32), hows(DataType::F64))
    };
    let ways = match &verdict.shaders {
        Shaders::Wgsl(floats) => format!("wgsl {}", hows(floats)),
        Shaders::SpirV(options, lanes) => {
            let memory = if options.is_volatile { "volatile" } else { "plain" };
            format!("spirv {lanes} {memory} {}", hows(&options.floats))
        }
    };
    let rejected = verdict.rejected.iter().map(|reason| reason.replace('\n', " "));
    [ways].into_iter().chain(rejected).collect::<Vec<_>>().join("\n")
}

fn read(text: &str, features: Option<Features>) -> Option<Verdict> {
    let mut lines = text.split('\n');
    let mut words = lines.next()?.split(' ');
    let shaders = match (words.next()?, features) {
        ("wgsl", _) => Shaders::Wgsl(read_floats(&mut words, wgsl::ways)?),
        ("spirv", Some(features)) => {
            let lanes = words.next()?.parse().ok()?;
            let is_volatile = match words.next()? {
                "plain" => false,
                "volatile" => true,
                _ => return None,
            };
            let floats = read_floats(&mut words, spirv::ways)?;
            Shaders::SpirV(Options { features, floats, is_volatile }, lanes)
        }
        _ => return None,
    };
    Some(Verdict { shaders, rejected: lines.map(str::to_owned).collect() })
}

fn read_floats<'a>(words: &mut impl Iterator<Item = &'a str>, ways: Ways) -> Option<Floats> {
    let mut floats = Floats::SOFT;
    for ty in [DataType::F32, DataType::F64] {
        for op in FloatOp::ALL {
            let word = words.next()?;
            let how = ways(op, ty).iter().find(|how| format!("{how:?}") == word)?;
            floats = floats.with(ty, op, *how);
        }
    }
    Some(floats)
}

/// What tells one emitter from another: the code of some expressions.
fn fingerprint(features: Option<Features>) -> Result<Vec<u8>, BackendError> {
    let source = Battery::expressions(DataType::F32, 8, 0).source();
    let program = valid(&text::parse(&source).expect("it is a program").program, None)?;
    let mut bytes = Vec::new();
    for floats in [Floats::NATIVE, Floats::default()] {
        if let Some(features) = features {
            let shader = spirv::lower(&program, &Options { features, floats, ..Options::default() });
            let words = shader.map_err(|error| BackendError::other(error.message(), error.fix()))?.words;
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        let shader = wgsl::lower(&program, &wgsl::Options { floats, ..wgsl::Options::DRIVER });
        let shader = shader.map_err(|error| BackendError::other(error.message(), error.fix()))?;
        bytes.extend(shader.source.into_bytes());
    }
    Ok(bytes)
}

/// The device that is tried, and how far that is.
struct Probes<'a> {
    wgpu: &'a Wgpu,
    count: Cell<u32>,
    told: Cell<Instant>,
}

impl Probes<'_> {
    fn new(wgpu: &Wgpu) -> Probes<'_> {
        Probes { wgpu, count: Cell::new(0), told: Cell::new(Instant::now()) }
    }

    /// Says from time to time what takes so long: software compiles for many seconds.
    fn tell(&self) {
        if self.told.get().elapsed() >= TELL_EVERY {
            self.told.set(Instant::now());
            tracing::info!(
                "trying what the driver of {} gets right, once for each of its versions: {} programs so far",
                self.wgpu.device.adapter.name,
                self.count.get()
            );
        }
        self.count.set(self.count.get() + 1);
    }
}

fn find(
    probes: &Probes<'_>,
    features: Result<Features, &str>,
    rejected: &mut Vec<String>,
) -> Result<Shaders, BackendError> {
    match features {
        Err(reason) => rejected.push(format!("SPIR-V: {reason}")),
        Ok(features) => match spirv(probes, features, rejected) {
            Ok(Some(options)) => return Ok(Shaders::SpirV(options, subgroups(probes, options, rejected)?)),
            Ok(None) => {}
            Err(error) if probes.wgpu.device.is_lost() => return Err(error),
            Err(error) => rejected.push(format!("SPIR-V: {error}")),
        },
    }
    let soft = Shaders::Wgsl(Floats::SOFT);
    let wrong = integers(probes, &soft)?.into_iter().next();
    match wrong.map_or_else(|| wrong_order(probes, &soft), |wrong| Ok(Some(wrong)))? {
        None if probes.wgpu.config.shaders == ShaderChoice::Integers => Ok(soft),
        None => {
            let language =
                Language { name: "WGSL", ways: wgsl::ways, singles: &SINGLES[..4], shaders: &Shaders::Wgsl };
            let found = match floats(probes, &language, DataType::F32, Floats::SOFT, rejected) {
                Err(error) if !probes.wgpu.device.is_lost() => {
                    rejected.push(format!("WGSL, f32: {error}"));
                    None
                }
                found => found?,
            };
            Ok(Shaders::Wgsl(found.unwrap_or(Floats::SOFT)))
        }
        Some(wrong) => Err(unavailable(
            format!("the driver of {} computes wrong: {wrong}", probes.wgpu.device.adapter),
            "install a newer driver (Mesa 24 or above), or choose another device with VYRE_WGPU_ADAPTER",
        )),
    }
}

/// The fastest exact SPIR-V; `None` if there is none. Where 64-bit integers are wrong they are made of words.
fn spirv(
    probes: &Probes<'_>,
    features: Features,
    rejected: &mut Vec<String>,
) -> Result<Option<Options>, BackendError> {
    let words = Features { int64: false, int64_atomics: false, ..features };
    let tried = if features.int64 { vec![features, words] } else { vec![features] };
    for features in tried {
        let soft = Options { features, floats: Floats::SOFT, ..Options::default() };
        let wrong = integers(probes, &Shaders::SpirV(soft, 0))?;
        if wrong.is_empty() {
            let Some(ordered) = ordered(probes, soft, rejected)? else { continue };
            return spirv_floats(probes, ordered, rejected);
        }
        let wide = if features.int64 { "" } else { " of words" };
        rejected.extend(wrong.iter().map(|wrong| format!("SPIR-V, integers{wide}: {wrong}")));
    }
    Ok(None)
}

/// The faster way to access memory that keeps loads and stores of one element in order; `None` if neither does.
fn ordered(
    probes: &Probes<'_>,
    soft: Options,
    rejected: &mut Vec<String>,
) -> Result<Option<Options>, BackendError> {
    // NVIDIA's compiler moves loads over stores now and then, which 32 programs do not show for certain.
    let is_nvidia = probes.wgpu.device.adapter.driver.starts_with("NVIDIA");
    let plain = match probes.wgpu.config.shaders {
        ShaderChoice::Fastest => !is_nvidia,
        ShaderChoice::SpirV => true,
        ShaderChoice::Volatile | ShaderChoice::Wgsl | ShaderChoice::Integers | ShaderChoice::Loose => false,
    };
    for is_volatile in plain.then_some(false).into_iter().chain([true]) {
        let options = Options { is_volatile, ..soft };
        let Some(wrong) = wrong_order(probes, &Shaders::SpirV(options, 0))? else { return Ok(Some(options)) };
        let volatile = if is_volatile { ", volatile" } else { "" };
        rejected.push(format!("SPIR-V, memory{volatile}: {wrong}"));
    }
    Ok(None)
}

/// What is wrong with the order of loads and stores, if something is.
fn wrong_order(probes: &Probes<'_>, shaders: &Shaders) -> Result<Option<String>, BackendError> {
    for seed in 0..ORDERS {
        let Order { source, given, expected } = Order::new(seed);
        let given: Vec<u8> = given.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found = run(probes, shaders, &source, &[&given], given.len(), 1)?;
        let found =
            found.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
        let mut pairs = found.zip(expected).enumerate();
        if let Some((lane, (found, expected))) = pairs.find(|(_, (found, expected))| found != expected) {
            return Ok(Some(format!(
                "lane {lane} of program {seed} of loads and stores gives {found:#x} instead of {expected:#x}"
            )));
        }
    }
    Ok(None)
}

/// What is wrong with integers.
fn integers(probes: &Probes<'_>, shaders: &Shaders) -> Result<Vec<String>, BackendError> {
    let expected = (0..TRIPS).fold(1u32, |a, k| a.wrapping_mul(3) ^ k).to_le_bytes();
    let found = looped(probes, shaders, DataType::U32, "1", "%b = mul.u32 %a, 3\n%c = xor.u32 %b, %k")?;
    if found.chunks_exact(4).any(|found| found != expected) {
        return Ok(vec![format!("a loop of {TRIPS} trips ends early (Mesa 22.3 stops all after 65,535)")]);
    }
    let (wide, narrow): (Vec<Row>, Vec<Row>) =
        rows(&INTEGERS).into_iter().partition(|row| row.ty.bits() == 64);
    let expressions = INTEGERS[1..].iter().map(|ty| Battery::expressions(*ty, 24, 0));
    let mut wrong = Vec::new();
    for battery in Battery::of(narrow).into_iter().chain(Battery::of(wide)).chain(expressions) {
        wrong.extend(tried(probes, shaders, &battery)?.into_iter().map(|wrong| wrong.text));
    }
    Ok(wrong)
}

type Ways = fn(FloatOp, DataType) -> &'static [How];

/// A language whose floats are tried.
struct Language<'a> {
    name: &'static str,
    ways: Ways,
    /// The types whose ops depend on how those of f32 are made.
    singles: &'static [DataType],
    /// Shaders with floats made in these ways.
    shaders: &'a dyn Fn(Floats) -> Shaders,
}

/// The fastest exact way to make each float op in SPIR-V; `None` if not even integers are.
fn spirv_floats(
    probes: &Probes<'_>,
    soft: Options,
    rejected: &mut Vec<String>,
) -> Result<Option<Options>, BackendError> {
    let shaders = |floats| Shaders::SpirV(Options { floats, ..soft }, 0);
    let language = Language { name: "SPIR-V", ways: spirv::ways, singles: &SINGLES, shaders: &shaders };
    let f32 = match floats(probes, &language, DataType::F32, soft.floats, rejected)? {
        Some(found) => found,
        // As integers, which were right; but what both kinds share has to be right as well.
        None => match improved(probes, &language, DataType::F32, soft.floats, rejected)? {
            Some(found) => found,
            None => return Ok(None),
        },
    };
    let f64 = match soft.features.float64 {
        true => floats(probes, &language, DataType::F64, f32, rejected)?,
        false => None,
    };
    Ok(Some(Options { floats: f64.unwrap_or(f32), ..soft }))
}

/// The fastest exact way to make each op of f32 or f64, alone and in context, beside the ways of the other type; `None` if
/// there is none but integers.
fn floats(
    probes: &Probes<'_>,
    language: &Language<'_>,
    ty: DataType,
    soft: Floats,
    rejected: &mut Vec<String>,
) -> Result<Option<Floats>, BackendError> {
    let native = FloatOp::ALL.iter().fold(soft, |floats, op| floats.with(ty, *op, How::Native));
    let Some(chosen) = improved(probes, language, ty, native, rejected)? else { return Ok(None) };
    Ok(match wrong_in_context(probes, ty, &(language.shaders)(chosen))? {
        None => Some(chosen),
        Some(wrong) => {
            rejected.push(format!("{}, {ty} in context: {wrong}", language.name));
            None
        }
    })
}

/// Starts with these ways and goes on to the next where one is wrong, until all are right. `None` if something is wrong
/// that has no other way.
fn improved(
    probes: &Probes<'_>,
    language: &Language<'_>,
    ty: DataType,
    mut floats: Floats,
    rejected: &mut Vec<String>,
) -> Result<Option<Floats>, BackendError> {
    let all = match ty {
        DataType::F64 => &[&[DataType::F64], language.singles].concat(),
        _ => language.singles,
    };
    let rows = rows(all).into_iter();
    let concerns = |row: &Row| match ty {
        DataType::F64 => row.ty == ty || row.args.contains(&ty),
        _ => row.result.is_float() || row.args.iter().any(|ty| ty.is_float()),
    };
    let mut batteries = Battery::of(rows.filter(concerns).collect());
    loop {
        let (mut wrong, mut has_way) = (Vec::new(), true);
        for battery in &batteries {
            for found in tried(probes, &(language.shaders)(floats), battery)? {
                let Some(op) = FloatOp::of(battery.row(found.line).op) else {
                    rejected.push(format!("{}, {ty}: {}", language.name, found.text));
                    has_way = false;
                    continue;
                };
                if !wrong.contains(&op) {
                    let (name, how) = (format!("{op:?}").to_lowercase(), floats.how(ty, op));
                    rejected.push(format!("{}, {ty}, {name} {how}: {}", language.name, found.text));
                    wrong.push(op);
                }
            }
        }
        if wrong.is_empty() || !has_way {
            return Ok(has_way.then_some(floats));
        }
        // The others are made as before.
        batteries.retain(|battery| {
            battery.rows().any(|row| FloatOp::of(row.op).is_some_and(|op| wrong.contains(&op)))
        });
        for op in wrong {
            let (ways, how) = ((language.ways)(op, ty), floats.how(ty, op));
            let next = ways.iter().skip_while(|way| **way != how).nth(1);
            let Some(next) = next else { return Ok(None) };
            floats = floats.with(ty, op, *next);
        }
    }
}

/// What is wrong with what was chosen in expressions and in a long loop, if something is.
fn wrong_in_context(
    probes: &Probes<'_>,
    ty: DataType,
    shaders: &Shaders,
) -> Result<Option<String>, BackendError> {
    for seed in 0..2 {
        let wrong = tried(probes, shaders, &Battery::expressions(ty, 32, seed))?;
        if let Some(Wrong { text, .. }) = wrong.into_iter().next() {
            return Ok(Some(text));
        }
    }
    // The logistic map, where every rounding shows in the end.
    let body = format!("%b = sub.{ty} 1.0, %a\n%d = mul.{ty} %a, %b\n%c = mul.{ty} %d, 4.0");
    let expected = match ty {
        DataType::F64 => (0..TRIPS).fold(0.125, |x: f64, _| x * (1.0 - x) * 4.0).to_le_bytes().to_vec(),
        _ => (0..TRIPS).fold(0.125, |x: f32, _| x * (1.0 - x) * 4.0).to_le_bytes().to_vec(),
    };
    let found = looped(probes, shaders, ty, "0.125", &body)?;
    let wrong = found.chunks_exact(expected.len()).find(|found| **found != expected);
    Ok(wrong.map(|found| {
        format!("{TRIPS} steps of x * (1 - x) * 4 from 0.125 give {found:02x?} instead of {expected:02x?}")
    }))
}

/// Lanes of the device's subgroups, if they hold consecutive lanes of workgroups of any shape: what goes by them gives what
/// goes through workgroup memory. Otherwise 0.
fn subgroups(probes: &Probes<'_>, options: Options, rejected: &mut Vec<String>) -> Result<u32, BackendError> {
    let lanes = probes.wgpu.device.subgroup_lanes;
    if lanes < 2 {
        rejected.push("subgroups of the device: there are none of one size".to_owned());
        return Ok(0);
    }
    for shape in [[64, 1, 1], [8, 8, 1], [2, 4, 8], [3, 32, 1]] {
        for width in [lanes.min(32), 2] {
            let source = exchanges(shape, width);
            let count = shape.iter().product::<u32>() * EXCHANGERS;
            let given: Vec<u8> =
                (0..count).flat_map(|at| (at.wrapping_mul(0x9e37_79b9) >> 7).to_le_bytes()).collect();
            let go = |lanes| {
                let bytes = given.len() * EXCHANGES;
                run(probes, &Shaders::SpirV(options, lanes), &source, &[&given], bytes, EXCHANGERS)
            };
            if go(lanes)? != go(0)? {
                rejected.push(format!(
                    "subgroups of the device: {width} of {lanes} lanes, in workgroups of {shape:?}, are not in order"
                ));
                return Ok(0);
            }
        }
    }
    Ok(lanes)
}

/// Workgroups of the probe of subgroups, and what each lane stores.
const EXCHANGERS: u32 = 5;
const EXCHANGES: usize = 6;

/// Every lane takes part after a loop that lanes leave at different times.
fn exchanges([x, y, z]: [u32; 3], width: u32) -> String {
    let lanes = x * y * z;
    let stores: String = (0..EXCHANGES)
        .map(|at| format!("%p{at} = add.u32 %first, {at}\nstore.u32 @y[%p{at}], %r{at}\n"))
        .collect();
    format!(
        "program @exchanges workgroup({x}, {y}, {z}) subgroup({width}) {{
          buffer @x : read       u32[] binding 0
          buffer @y : read_write u32[] binding 1 output
          %w = workgroup_index
          %l = local_index
          %before = mul.u32 %w, {lanes}
          %at = add.u32 %before, %l
          %v = load.u32 @x[%at]
          %n = and.u32 %v, 15
          var $a : u32 = %v
          for %k in 0..%n {{
            %b = get.u32 $a
            %t = mul.u32 %b, 3
            set.u32 $a, %t
          }}
          %m = get.u32 $a
          %f = cast.f32 %m
          %odd = and.u32 %m, 1
          %c = cast.bool %odd
          %r0 = subgroup_inclusive_add.u32 %m
          %r1 = subgroup_reduce_xor.u32 %m
          %r2 = subgroup_shuffle.u32 %m, %v
          %r3 = subgroup_ballot %c
          %r4 = subgroup_exclusive_max.u32 %m
          %sum = subgroup_reduce_add.f32 %f
          %r5 = bitcast.u32 %sum
          %first = mul.u32 %at, {EXCHANGES}
          {stores}
        }}"
    )
}

/// Runs a loop that makes `%c` of `%a` and `%k` in each trip.
fn looped(
    probes: &Probes<'_>,
    shaders: &Shaders,
    ty: DataType,
    start: &str,
    body: &str,
) -> Result<Vec<u8>, BackendError> {
    let source = format!(
        "program @long_loop workgroup({LANES}, 1, 1) {{
          buffer @n : read       u32[] binding 0
          buffer @y : read_write {ty}[] binding 1 output
          %i = global_id x
          %n = load.u32 @n[%i]
          var $a : {ty} = {start}
          for %k in 0..%n {{
            %a = get.{ty} $a
            {body}
            set.{ty} $a, %c
          }}
          %r = get.{ty} $a
          store.{ty} @y[%i], %r
        }}"
    );
    let trips: Vec<u8> = (0..LANES).flat_map(|_| TRIPS.to_le_bytes()).collect();
    run(probes, shaders, &source, &[&trips], LANES as usize * ty.bytes(), 1)
}

fn tried(probes: &Probes<'_>, shaders: &Shaders, battery: &Battery) -> Result<Vec<Wrong>, BackendError> {
    let inputs = battery.inputs();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let found =
        run(probes, shaders, &battery.source(), &inputs, battery.output_bytes(), battery.workgroups())?;
    Ok(battery.judge(&found))
}

/// Runs a probe: inputs, then one output of that many bytes, which starts as zeros unless the last input is for it.
fn run(
    probes: &Probes<'_>,
    shaders: &Shaders,
    source: &str,
    inputs: &[&[u8]],
    output_bytes: usize,
    workgroups: u32,
) -> Result<Vec<u8>, BackendError> {
    let wgpu = probes.wgpu;
    probes.tell();
    let parsed = text::parse(source)
        .unwrap_or_else(|findings| panic!("a probe is no program: {findings:?}\n{source}"));
    let program = valid(&parsed.program, None)?;
    let kernel = std::sync::Arc::new(wgpu.compile_as(&program, shaders)?);
    let has_start = inputs.len() == program.facts().bound.len();
    let lens = inputs.iter().map(|input| input.len()).chain((!has_start).then_some(output_bytes));
    let lens: Vec<usize> = lens.collect();
    let memories: Result<Vec<_>, _> = lens.iter().map(|bytes| wgpu.allocate(*bytes)).collect();
    let memories = memories?;
    let output = memories.last().expect("there is an output");
    let mut found = Vec::with_capacity(output_bytes);
    let mut work = Work::none();
    if !has_start {
        work.clears.push(output);
    }
    work.uploads = memories.iter().zip(inputs).map(|(memory, input)| (memory, 0, *input)).collect();
    let bindings = launch::bind_all(&program, &lens)?;
    let no_indirect = |_, _| Ok::<_, BackendError>([0; 3]);
    let admission = launch::admit(&program, bindings, Some([workgroups, 1, 1]), no_indirect)?;
    work.launches.push(Launch {
        kernel,
        admission: &admission,
        buffers: memories.iter().map(Operand::Memory).collect(),
    });
    work.reads.push(Read { memory: output, offset: 0, byte_len: output_bytes, out: &mut found });
    let config = DispatchConfig { timeout: Some(LIMIT), ..DispatchConfig::default() };
    wgpu.submit(work, &Stop::new(&config, Instant::now()))?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::WgpuConfig;

    #[test]
    fn a_verdict_survives_the_disk() {
        let features = Features::ALL;
        let floats = Floats::default().with(DataType::F64, FloatOp::Div, How::Soft);
        let options = Options { features, floats, is_volatile: true };
        let in_wgsl = Floats::SOFT.with(DataType::F32, FloatOp::Div, How::Corrected);
        for (shaders, count) in [(Shaders::Wgsl(in_wgsl), 0), (Shaders::SpirV(options, 32), 2)] {
            let rejected = (0..count).map(|at| format!("reason {at}")).collect();
            let verdict = Verdict { shaders, rejected };
            assert_eq!(read(&write(&verdict), Some(features)), Some(verdict));
        }
        assert_eq!(read("spirv 0 plain Native Native", Some(features)), None);
        assert_eq!(read("spirv 0 ternary", Some(features)), None);
        assert_eq!(read("", Some(features)), None);
    }

    /// Devices that are right by themselves are asked for no correction, so it is tried here.
    #[test]
    fn what_corrects_the_device_is_right() {
        let open = || Wgpu::open(&WgpuConfig { shaders: ShaderChoice::Wgsl, ..WgpuConfig::from_env()? });
        let wgpu = match open() {
            Ok(wgpu) => wgpu,
            Err(error) => return eprintln!("SKIP corrections in WGSL: {error}"),
        };
        let probes = Probes::new(&wgpu);
        let all = rows(&[DataType::F32]);
        for op in [FloatOp::Div, FloatOp::Sqrt] {
            let floats = Floats::SOFT.with(DataType::F32, op, How::Corrected);
            let rows: Vec<Row> = all.iter().filter(|row| FloatOp::of(row.op) == Some(op)).cloned().collect();
            assert_eq!(rows.len(), 1);
            for battery in Battery::of(rows).iter().chain(&[Battery::expressions(DataType::F32, 32, 9)]) {
                let wrong = tried(&probes, &Shaders::Wgsl(floats), battery).expect("the device works");
                assert!(wrong.is_empty(), "{}", wrong[0].text);
            }
        }
    }

    #[test]
    fn the_probe_of_subgroups_is_a_program() {
        let parsed = text::parse(&exchanges([2, 4, 8], 32)).unwrap_or_else(|findings| panic!("{findings:?}"));
        valid(&parsed.program, None).expect("it is valid");
    }
}
