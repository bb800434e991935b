//! Loads, stores, atomics and private arrays, with the bounds that the language gives.

use super::body::{Emit, Place, Reg, Width, array_element_bytes, typed};
use super::{Space, space, suffix};
use vyre_foundation::ir::{AtomicOp, BufferId, DataType, Literal, Local, Operand};

impl Emit<'_> {
    /// The address of an element that exists.
    pub(super) fn address(&mut self, buffer: BufferId, index: &str) -> Reg {
        let size = self.buffer_type(buffer).bytes().to_string();
        match space(self.parts, buffer) {
            Space::Shared => {
                let start = self.assign(Width::B32, "mov.u32 {}, shared");
                let offset = self.shared[buffer.index()];
                let start = self.op(Width::B32, "add.u32", &[&start, &offset.to_string()]);
                if self.layout.is_exchanged(buffer) {
                    let byte = self.swizzled(buffer, index);
                    return self.op(Width::B32, "add.u32", &[&start, &byte]);
                }
                self.op(Width::B32, "mad.lo.u32", &[index, &size, &start])
            }
            Space::Table => {
                let start = self.assign(Width::B64, &format!("mov.u64 {{}}, table{}", buffer.index()));
                self.op(Width::B64, "mad.wide.u32", &[index, &size, &start])
            }
            Space::ReadOnly | Space::Storage => {
                let base = self.bases[buffer.index()].clone();
                self.op(Width::B64, "mad.wide.u32", &[index, &size, &base])
            }
        }
    }

    /// The guard of an access: empty if it is proven, else `@%p `.
    pub(super) fn guard(&mut self, buffer: BufferId, index: &str) -> String {
        if self.is_proven() {
            return String::new();
        }
        let len = self.lens[buffer.index()].clone();
        let inside = self.op(Width::Pred, "setp.lt.u32", &[index, &len]);
        format!("@{inside} ")
    }

    pub(super) fn load(&mut self, ty: DataType, buffer: BufferId, index: Operand) -> Reg {
        let index = self.operand(index);
        if ty == DataType::U32 && self.buffer_type(buffer) == DataType::U8 {
            return self.load_bytes(buffer, &index);
        }
        let guard = self.guard(buffer, &index);
        let address = self.address(buffer, &index);
        self.load_at(ty, buffer, &address, &guard)
    }

    fn load_at(&mut self, ty: DataType, buffer: BufferId, address: &str, guard: &str) -> Reg {
        let name = format!("{}.{}", self.load_from(buffer), loaded_as(ty));
        let zero = self.constant(Literal::from_bits(ty.computes_as(), 0));
        self.line(&format!("{guard}{name} {zero}, [{address}];"));
        zero
    }

    /// The instruction that loads from a buffer.
    pub(super) fn load_from(&self, buffer: BufferId) -> &'static str {
        match space(self.parts, buffer) {
            // Beside a tile product loads stay where they are. `ptxas` would bring them before stores of what was loaded
            // earlier, which then wait for both.
            Space::ReadOnly if self.pending => "ld.global",
            Space::ReadOnly | Space::Table => "ld.global.nc",
            Space::Storage => "ld.global",
            Space::Shared => "ld.shared",
        }
    }

    /// Little-endian bytes i to i + 3; those out of bounds are 0. Sums are exact, so they are made in 64 bits.
    pub(super) fn load_bytes(&mut self, buffer: BufferId, index: &str) -> Reg {
        let len = self.lens[buffer.index()].clone();
        let (wide_index, wide_len) =
            (self.op(Width::B64, "cvt.u64.u32", &[index]), self.op(Width::B64, "cvt.u64.u32", &[&len]));
        let mut word = self.constant(Literal::u32(0));
        for byte in 0..4u32 {
            let at = self.op(Width::B64, "add.u64", &[&wide_index, &byte.to_string()]);
            let inside = self.op(Width::Pred, "setp.lt.u64", &[&at, &wide_len]);
            let narrow = self.op(Width::B32, "cvt.u32.u64", &[&at]);
            let address = self.address(buffer, &narrow);
            let loaded = self.load_at(DataType::U8, buffer, &address, &format!("@{inside} "));
            let placed = self.op(Width::B32, "shl.b32", &[&loaded, &(8 * byte).to_string()]);
            word = self.op(Width::B32, "or.b32", &[&word, &placed]);
        }
        word
    }

    pub(super) fn store(&mut self, ty: DataType, buffer: BufferId, index: Operand, value: Operand) {
        self.begin_store(buffer);
        let index = self.operand(index);
        let value = self.stored(ty, buffer, value);
        let guard = self.guard(buffer, &index);
        let address = self.address(buffer, &index);
        let (to, bits) = (self.store_to(buffer), ty.bits());
        self.line(&format!("{guard}{to}.b{bits} [{address}], {value};"));
    }

    /// A value as it is stored. The bits in workgroup memory are observed by its own lanes alone, as those in registers.
    pub(super) fn stored(&mut self, ty: DataType, buffer: BufferId, value: Operand) -> Reg {
        let value = self.operand(value);
        match space(self.parts, buffer) {
            Space::Shared => value,
            Space::ReadOnly | Space::Storage | Space::Table => self.observe(ty, &value),
        }
    }

    /// The instruction that stores to a buffer.
    pub(super) fn store_to(&self, buffer: BufferId) -> &'static str {
        if space(self.parts, buffer) == Space::Shared { "st.shared" } else { "st.global" }
    }

    pub(super) fn atomic(
        &mut self,
        op: AtomicOp,
        ty: DataType,
        buffer: BufferId,
        index: Operand,
        args: &[Operand],
        wanted: bool,
    ) -> Reg {
        let index = self.operand(index);
        let mut args: Vec<Reg> = args.iter().map(|arg| self.operand(*arg)).collect();
        if op == AtomicOp::Sub {
            args[0] = self.op(Width::of(ty), &typed("neg", signed(ty)), &[&args[0]]);
        }
        let guard = self.guard(buffer, &index);
        let address = self.address(buffer, &index);
        let memory = if space(self.parts, buffer) == Space::Shared { "shared" } else { "global" };
        let untyped = Width::of(ty).bits();
        let unsigned = if ty.bits() == 64 { "u64" } else { "u32" };
        let action = match op {
            AtomicOp::Add | AtomicOp::Sub => format!("add.{unsigned}"),
            AtomicOp::Min => format!("min.{}", suffix(ty)),
            AtomicOp::Max => format!("max.{}", suffix(ty)),
            AtomicOp::And => format!("and.{untyped}"),
            AtomicOp::Or => format!("or.{untyped}"),
            AtomicOp::Xor => format!("xor.{untyped}"),
            AtomicOp::Exchange => format!("exch.{untyped}"),
            AtomicOp::CompareExchange => format!("cas.{untyped}"),
        };
        let is_fold = !matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange);
        if memory == "shared" && ty.bits() == 64 && op != AtomicOp::CompareExchange {
            return self.wide_shared(is_fold.then_some(action.as_str()), &address, &guard, &args[0]);
        }
        if !wanted && is_fold {
            self.line(&format!("{guard}red.{memory}.{action} [{address}], {};", args[0]));
            return Reg::new();
        }
        let old = self.constant(Literal::from_bits(ty, 0));
        self.line(&format!("{guard}atom.{memory}.{action} {old}, [{address}], {};", args.join(", ")));
        old
    }

    /// An atomic on 64 bits of shared memory, `action` or else an exchange. There is none but to compare and exchange, so it is
    /// tried until it succeeds. `ptxas` would write that loop after it has decided which values all lanes of a warp share,
    /// and count the trips of a loop around it once for each group of lanes that succeed together.
    fn wide_shared(&mut self, action: Option<&str>, address: &str, guard: &str, value: &str) -> Reg {
        let (head, end) = (self.new_label(), self.new_label());
        let old = self.constant(Literal::from_bits(DataType::U64, 0));
        if let Some(inside) = guard.strip_prefix('@') {
            self.line(&format!("@!{inside}bra $L{end};"));
        }
        self.line(&format!("ld.volatile.shared.b64 {old}, [{address}];"));
        self.label(head);
        let new = match action {
            Some(action) => self.op(Width::B64, action, &[&old, value]),
            None => value.to_owned(),
        };
        let found = self.op(Width::B64, "atom.shared.cas.b64", &[&format!("[{address}]"), &old, &new]);
        let again = self.op(Width::Pred, "setp.ne.u64", &[&found, &old]);
        self.line(&format!("mov.b64 {old}, {found};"));
        self.line(&format!("@{again} bra $L{head};"));
        self.label(end);
        old
    }

    /// The address of a private array's element.
    fn array_address(&mut self, number: usize, ty: DataType, index: &str) -> Reg {
        let start = self.assign(Width::B64, &format!("mov.u64 {{}}, array{number}"));
        let size = array_element_bytes(ty).to_string();
        self.op(Width::B64, "mad.wide.u32", &[index, &size, &start])
    }

    pub(super) fn fill_array(&mut self, number: usize, ty: DataType, len: u32, value: &str) {
        let (head, end) = (self.new_label(), self.new_label());
        let i = self.constant(Literal::u32(0));
        self.label(head);
        let over = self.op(Width::Pred, "setp.ge.u32", &[&i, &len.to_string()]);
        self.line(&format!("@{over} bra $L{end};"));
        let address = self.array_address(number, ty, &i);
        self.array_store(ty, &address, value, "");
        self.line(&format!("add.u32 {i}, {i}, 1;"));
        self.line(&format!("bra $L{head};"));
        self.label(end);
    }

    fn array_store(&mut self, ty: DataType, address: &str, value: &str, guard: &str) {
        let width = Width::of(ty);
        if width == Width::Pred {
            let word = self.op(Width::B32, "selp.b32", &["1", "0", value]);
            self.line(&format!("{guard}st.local.b32 [{address}], {word};"));
        } else {
            self.line(&format!("{guard}st.local.{} [{address}], {value};", width.bits()));
        }
    }

    fn array_guard(&mut self, len: u32, index: &str) -> String {
        if self.is_proven() {
            return String::new();
        }
        let inside = self.op(Width::Pred, "setp.lt.u32", &[index, &len.to_string()]);
        format!("@{inside} ")
    }

    pub(super) fn get(&mut self, ty: DataType, local: Local, index: Option<Operand>) -> Reg {
        let width = Width::of(ty);
        match (self.local(local).clone(), index) {
            // A copy: the local may change while this value is still read.
            (Place::Register(reg), None) => self.assign(width, &format!("mov.{} {{}}, {reg}", width.bits())),
            (Place::Array { number, ty, len }, Some(index)) => {
                let index = self.operand(index);
                let guard = self.array_guard(len, &index);
                let address = self.array_address(number, ty, &index);
                if width == Width::Pred {
                    let word = self.constant(Literal::u32(0));
                    self.line(&format!("{guard}ld.local.b32 {word}, [{address}];"));
                    return self.op(width, "setp.ne.u32", &[&word, "0"]);
                }
                let zero = self.constant(Literal::from_bits(ty, 0));
                self.line(&format!("{guard}ld.local.{} {zero}, [{address}];", width.bits()));
                zero
            }
            _ => unreachable!("validated: an array has an index, another local none"),
        }
    }

    pub(super) fn set(&mut self, ty: DataType, local: Local, index: Option<Operand>, value: Operand) {
        let value = self.operand(value);
        match (self.local(local).clone(), index) {
            (Place::Register(_), None) if self.renames => *self.local(local) = Place::Register(value),
            (Place::Register(reg), None) => {
                self.line(&format!("mov.{} {reg}, {value};", Width::of(ty).bits()))
            }
            (Place::Array { number, ty, len }, Some(index)) => {
                let index = self.operand(index);
                let guard = self.array_guard(len, &index);
                let address = self.array_address(number, ty, &index);
                self.array_store(ty, &address, &value, &guard);
            }
            _ => unreachable!("validated: an array has an index, another local none"),
        }
    }
}

/// The type in a load's name. A small integer is extended by the load itself.
pub(super) const fn loaded_as(ty: DataType) -> &'static str {
    match Width::of(ty) {
        Width::B32 if !ty.is_float() => suffix(ty),
        width => width.bits(),
    }
}

/// The signed type of that width.
const fn signed(ty: DataType) -> DataType {
    if ty.bits() == 64 { DataType::I64 } else { DataType::I32 }
}
