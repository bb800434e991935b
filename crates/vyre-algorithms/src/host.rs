//! The algorithms on slices of the host.

use crate::dfa::Dfa;
use crate::matmul::Shape;
use crate::plan::{Plan, refused};
use crate::reduce::Fold;
use crate::scan::Scan;
use crate::sha256::padded;
use vyre_driver::{BackendError, VyreBackend};
use vyre_foundation::ir::builder::{Element, Number};

/// Elements as the bytes that buffers have.
fn bytes<T: Element>(elements: &[T]) -> Vec<u8> {
    let size = T::TYPE.bytes();
    let mut bytes = Vec::with_capacity(elements.len() * size);
    for element in elements {
        bytes.extend_from_slice(&element.bits().to_le_bytes()[..size]);
    }
    bytes
}

fn elements<T: Element>(bytes: &[u8]) -> Vec<T> {
    let element = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        T::from_bits(u64::from_le_bytes(wide))
    };
    bytes.chunks_exact(T::TYPE.bytes()).map(element).collect()
}

/// The first output as elements.
fn first<T: Element>(outputs: Vec<Vec<u8>>) -> Vec<T> {
    outputs.first().map_or_else(Vec::new, |bytes| elements(bytes))
}

/// One value from all elements: [`Plan::reduce`].
pub fn reduce<T: Number>(backend: &dyn VyreBackend, fold: Fold, x: &[T]) -> Result<T, BackendError> {
    let folded = Plan::reduce::<T>(fold, x.len())?.run(backend, &[&bytes(x)])?;
    Ok(first(folded)[0])
}

/// Prefix sums: [`Plan::scan`].
pub fn scan<T: Number>(backend: &dyn VyreBackend, scan: Scan, x: &[T]) -> Result<Vec<T>, BackendError> {
    Plan::scan::<T>(scan, x.len())?.run(backend, &[&bytes(x)]).map(first)
}

/// How often each value is among the bytes: [`Plan::histogram`].
pub fn histogram(backend: &dyn VyreBackend, x: &[u8]) -> Result<[u32; 256], BackendError> {
    let mut words = x.to_vec();
    words.resize(x.len().next_multiple_of(4), 0);
    let counts: Vec<u32> = Plan::histogram(x.len())?.run(backend, &[&words]).map(first)?;
    Ok(std::array::from_fn(|value| counts[value]))
}

/// Whether `given` elements are the rows times columns of a matrix.
fn check(name: &str, given: usize, [rows, columns]: [usize; 2]) -> Result<(), BackendError> {
    match rows.checked_mul(columns) == Some(given) {
        true => Ok(()),
        false => refused(
            format!("{name} has {given} elements, and the shape says {rows} x {columns}"),
            "pass matrices of the shape's sizes",
        ),
    }
}

/// A product of matrices in f32, stored by rows: [`Plan::matmul`].
pub fn matmul(
    backend: &dyn VyreBackend,
    shape: Shape,
    a: &[f32],
    b: &[f32],
) -> Result<Vec<f32>, BackendError> {
    check("a", a.len(), [shape.m, shape.k])?;
    check("b", b.len(), [shape.k, shape.n])?;
    Plan::matmul(shape)?.run(backend, &[&bytes(a), &bytes(b)]).map(first)
}

/// A product of matrices of i8 in i32, a stored by rows and b by columns: [`Plan::matmul_i8`].
pub fn matmul_i8(
    backend: &dyn VyreBackend,
    shape: Shape,
    a: &[i8],
    b: &[i8],
) -> Result<Vec<i32>, BackendError> {
    check("a", a.len(), [shape.m, shape.k])?;
    check("b", b.len(), [shape.n, shape.k])?;
    Plan::matmul_i8(shape)?.run(backend, &[&bytes(a), &bytes(b)]).map(first)
}

/// Whether two inputs have one length.
fn check_pairs(what: &str, [one, other]: [usize; 2]) -> Result<(), BackendError> {
    match one == other {
        true => Ok(()),
        false => refused(format!("{other} {what} for {one} elements"), "give one for each element"),
    }
}

/// The elements that are kept, in their order: [`Plan::compact`].
pub fn compact<T: Number>(backend: &dyn VyreBackend, x: &[T], keep: &[bool]) -> Result<Vec<T>, BackendError> {
    check_pairs("flags", [x.len(), keep.len()])?;
    let keep: Vec<u8> = keep.iter().map(|keep| u8::from(*keep)).collect();
    let outputs = Plan::compact::<T>(x.len())?.run(backend, &[&bytes(x), &keep])?;
    let kept: Vec<u32> = elements(&outputs[1]);
    Ok(elements(&outputs[0][..kept[0] as usize * T::TYPE.bytes()]))
}

/// The keys in ascending order: [`Plan::sort`].
pub fn sort(backend: &dyn VyreBackend, keys: &[u32]) -> Result<Vec<u32>, BackendError> {
    Plan::sort(keys.len(), false)?.run(backend, &[&bytes(keys)]).map(first)
}

/// The keys in ascending order, each with its value; equal keys keep their order: [`Plan::sort`].
pub fn sort_pairs(
    backend: &dyn VyreBackend,
    keys: &[u32],
    values: &[u32],
) -> Result<(Vec<u32>, Vec<u32>), BackendError> {
    check_pairs("values", [keys.len(), values.len()])?;
    let outputs = Plan::sort(keys.len(), true)?.run(backend, &[&bytes(keys), &bytes(values)])?;
    Ok((elements(&outputs[0]), elements(&outputs[1])))
}

/// The SHA-256 digest of each message: [`Plan::sha256`].
pub fn sha256<M: AsRef<[u8]>>(
    backend: &dyn VyreBackend,
    messages: &[M],
) -> Result<Vec<[u8; 32]>, BackendError> {
    let (blocks, starts) = padded(messages);
    let plan = Plan::sha256(messages.len(), blocks.len() / 64)?;
    let digests: Vec<u8> = plan.run(backend, &[&blocks, &bytes(&starts)]).map(first)?;
    Ok(digests.as_chunks().0.to_vec())
}

/// How many matches an automaton has in each record: [`Plan::dfa`].
pub fn dfa_matches<R: AsRef<[u8]>>(
    backend: &dyn VyreBackend,
    dfa: &Dfa,
    records: &[R],
) -> Result<Vec<u32>, BackendError> {
    let (mut text, mut starts, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for record in records {
        // A text whose places do not fit is refused before they are read.
        starts.push((text.len() / 4) as u32);
        lengths.push(record.as_ref().len() as u32);
        text.extend_from_slice(record.as_ref());
        text.resize(text.len().next_multiple_of(4), 0);
    }
    let plan = Plan::dfa(text.len() / 4, records.len(), dfa)?;
    let inputs = [text, bytes(&starts), bytes(&lengths), bytes(dfa.table())];
    plan.run(backend, &inputs.each_ref().map(Vec::as_slice)).map(first)
}
