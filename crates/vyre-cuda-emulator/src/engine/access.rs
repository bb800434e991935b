//! Loads, stores, atomics and copies of a warp's lanes, each checked: that the memory exists, that it is aligned, that what
//! is read was written, and that nothing else is doing something to it.

use super::block::{Common, UnderWay};
use super::code::{Access, Action, Fence, Kind, NOWHERE, Number, Op, Space, Strength};
use super::launch::Run;
use super::layout::{LOCAL_BASE, SHARED_BASE};
use super::races::{Access as RaceAccess, Memory};
use super::warp::{Copy, Warp, each};
use crate::fault::{Code, Fault};

/// Where generic addresses lead to shared and to local memory: 4 GiB each, which no allocation and no host address has.
const SHARED_WINDOW: u64 = 1 << 60;
const LOCAL_WINDOW: u64 = 1 << 61;
const WINDOW_MASK: u64 = 0xffff_ffff;

/// The space of a generic address, if that is not global memory.
fn window_of(address: u64) -> Option<Space> {
    match address & !WINDOW_MASK {
        SHARED_WINDOW => Some(Space::Shared),
        LOCAL_WINDOW => Some(Space::Local),
        _ => None,
    }
}

/// Memory that an address leads to.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// An allocation, by its number in the launch, and the offset in it.
    Global(usize, u64),
    Shared(usize),
    /// The byte in the warp's local memory.
    Local(usize),
}

/// What a lane does to memory: to say so where it must not.
#[derive(Clone, Copy)]
pub(super) struct Access1<'a> {
    pub(super) op: &'a Op,
    pub(super) lane: usize,
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) verb: &'static str,
}

/// An element as its register holds it.
fn extended(value: u64, access: Access) -> u64 {
    let unused = 64 - 8 * access.bytes;
    if !access.signed {
        return value;
    }
    let wide = ((value << unused) as i64 >> unused) as u64;
    wide & (u64::MAX >> (64 - access.register_bits))
}

impl Warp {
    pub(super) fn access(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        op: &Op,
        mask: u32,
    ) -> Result<(), Fault> {
        match &op.kind {
            Kind::Param { offset, access } => self.param(run, op, mask, *offset, *access),
            Kind::Load { space, offset, access, strength } => {
                common.polls += u64::from(strength.is_strong());
                return each(mask).try_for_each(|lane| {
                    self.load(run, common, op, lane, (*space, *offset, *access, *strength))
                });
            }
            Kind::Store { space, offset, access, strength } => {
                common.clock += 1;
                return each(mask).try_for_each(|lane| {
                    self.store(run, common, op, lane, (*space, *offset, *access, *strength))
                });
            }
            Kind::Atomic { .. } => {
                common.clock += 1;
                common.polls += u64::from(op.dests[0] != NOWHERE);
                return each(mask).try_for_each(|lane| self.atomic(run, common, op, lane));
            }
            Kind::ToGeneric(space) => self.window(op, mask, *space, true),
            Kind::FromGeneric(space) => self.window(op, mask, *space, false),
            Kind::IsSpace(space) => {
                let module = &run.launch.module;
                let is_in = |address: u64| match window_of(address) {
                    Some(window) => window == *space,
                    None => *space == if module.is_constant(address) { Space::Const } else { Space::Global },
                };
                let row = self.rows[op.sources[0] as usize].map(|address| u64::from(is_in(address)));
                self.write(op.dests[0], &row, mask);
            }
            Kind::Fence(fence) => self.fence(run, common, *fence, mask),
            Kind::CpAsync { offsets, bytes, sized } => {
                return each(mask)
                    .try_for_each(|lane| self.begin_copy(run, common, op, lane, (*offsets, *bytes, *sized)));
            }
            Kind::CpCommit => self.commit_copies(mask),
            Kind::CpWait(left) => {
                if left.is_none() {
                    self.commit_copies(mask);
                }
                return self.finish_copies(run, common, mask, left.unwrap_or(0));
            }
            _ => unreachable!("executed elsewhere"),
        }
        Ok(())
    }

    fn param(&mut self, run: &Run<'_>, op: &Op, mask: u32, offset: u32, access: Access) {
        for (at, dest) in op.dests.iter().enumerate() {
            let start = (offset + at as u32 * access.bytes) as usize;
            let mut bytes = [0; 8];
            bytes[..access.bytes as usize]
                .copy_from_slice(&run.launch.params[start..start + access.bytes as usize]);
            let value = extended(u64::from_le_bytes(bytes), access);
            self.write(*dest, &[value; 32], mask);
        }
    }

    fn window(&mut self, op: &Op, mask: u32, space: Space, to_generic: bool) {
        let window = match space {
            Space::Shared => SHARED_WINDOW,
            Space::Local => LOCAL_WINDOW,
            _ => 0,
        };
        let convert = |address: u64| match window_of(address) {
            None if to_generic && address <= WINDOW_MASK => address | window,
            Some(own) if !to_generic && own == space => address & WINDOW_MASK,
            // An address that is not in the space stays wrong.
            _ => address,
        };
        let row = self.rows[op.sources[0] as usize].map(convert);
        self.write(op.dests[0], &row, mask);
    }

    /// What went wrong with an access.
    fn wrong(&self, run: &Run<'_>, common: &Common, code: Code, access: Access1<'_>, what: &str) -> Fault {
        let Access1 { op, lane, address, bytes, verb } = access;
        let plural = if bytes == 1 { "" } else { "s" };
        let what = format!("{verb} {bytes} byte{plural} at {address:#x}, {what}");
        self.fault(run, common, code, op.line, lane as u32, &what)
    }

    /// The memory that an access of a lane leads to, aligned and inside.
    pub(super) fn place(
        &mut self,
        run: &Run<'_>,
        common: &Common,
        space: Space,
        access: Access1<'_>,
    ) -> Result<Place, Fault> {
        let Access1 { address, bytes, lane, .. } = access;
        if address % u64::from(bytes) != 0 {
            return Err(self.wrong(
                run,
                common,
                Code::MisalignedAddress,
                access,
                "which is not a multiple of that",
            ));
        }
        let (space, address) = match (space, window_of(address)) {
            (Space::Generic, Some(window)) => (window, address & WINDOW_MASK),
            (Space::Generic, None) => (Space::Global, address),
            (other, _) => (other, address),
        };
        match space {
            Space::Shared => common.shared_at(address, bytes).map(Place::Shared).ok_or_else(|| {
                let (first, end) = (SHARED_BASE, SHARED_BASE + common.shared.len() as u64);
                let what = format!("outside of the block's shared memory from {first:#x} to {end:#x}");
                self.wrong(run, common, Code::IllegalAddress, access, &what)
            }),
            Space::Local => {
                let len = u64::from(run.kernel.local_bytes);
                let at = address.checked_sub(LOCAL_BASE);
                let inside = at.filter(|at| at.checked_add(u64::from(bytes)).is_some_and(|end| end <= len));
                let inside = inside.map(|at| Place::Local(lane * len as usize + at as usize));
                let what = "outside of the thread's local memory";
                inside.ok_or_else(|| self.wrong(run, common, Code::IllegalAddress, access, what))
            }
            space => {
                let module = &run.launch.module;
                if space == Space::Const && !module.is_constant(address) {
                    let what = "outside of the module's constant variables";
                    return Err(self.wrong(run, common, Code::IllegalAddress, access, what));
                }
                if access.verb != "reads" && module.is_constant(address) {
                    let what = "which is in a constant variable";
                    return Err(self.wrong(run, common, Code::IllegalAddress, access, what));
                }
                self.global(run, common, access)
            }
        }
    }

    fn global(&mut self, run: &Run<'_>, common: &Common, access: Access1<'_>) -> Result<Place, Fault> {
        let Access1 { address, bytes, .. } = access;
        let blocks = &run.blocks;
        let inside = |at: usize| {
            let block = blocks.get(at)?;
            let offset = address.checked_sub(block.address)?;
            (offset < block.byte_len && block.byte_len - offset >= u64::from(bytes)).then_some(offset)
        };
        // Most accesses lead to where the last one did.
        if let Some(offset) = inside(self.found) {
            return Ok(Place::Global(self.found, offset));
        }
        let above = blocks.partition_point(|block| block.address <= address);
        if let Some(offset) = above.checked_sub(1).and_then(inside) {
            self.found = above - 1;
            return Ok(Place::Global(above - 1, offset));
        }
        let what = match above.checked_sub(1).map(|at| &blocks[at]) {
            Some(block) => {
                let (past, len, start) = (address - block.address, block.byte_len, block.address);
                format!(
                    "where nothing is allocated; {past} bytes from the start of {len} bytes at {start:#x}"
                )
            }
            None => "where nothing is allocated".to_owned(),
        };
        Err(self.wrong(run, common, Code::IllegalAddress, access, &what))
    }

    fn address(&self, op: &Op, source: usize, lane: usize, offset: i64, space: Space) -> u64 {
        let base = self.rows[op.sources[source] as usize][lane];
        let address = base.wrapping_add_signed(offset);
        // Addresses of these spaces have 32 bits.
        if matches!(space, Space::Shared | Space::Local) && base <= WINDOW_MASK {
            address & WINDOW_MASK
        } else {
            address
        }
    }

    fn load(
        &mut self,
        run: &Run<'_>,
        common: &Common,
        op: &Op,
        lane: usize,
        (space, offset, access, strength): (Space, i64, Access, Strength),
    ) -> Result<(), Fault> {
        let address = self.address(op, 0, lane, offset, space);
        let whole = Access1 { op, lane, address, bytes: access.bytes * access.count, verb: "reads" };
        let place = self.place(run, common, space, whole)?;
        self.watch(run, common, whole, place, RaceAccess::Read, strength)?;
        for (at, dest) in op.dests.iter().enumerate() {
            let part = access.bytes * at as u32;
            let one = Access1 { address: address + u64::from(part), bytes: access.bytes, ..whole };
            let value = self.read(run, common, one, place, part)?;
            if *dest != NOWHERE {
                self.write_lane(*dest, lane, extended(value, access));
            }
        }
        Ok(())
    }

    /// The bytes of an element that something has written.
    pub(super) fn read(
        &self,
        run: &Run<'_>,
        common: &Common,
        access: Access1<'_>,
        place: Place,
        part: u32,
    ) -> Result<u64, Fault> {
        let bytes = access.bytes;
        let unwritten = || self.wrong(run, common, Code::LaunchFailed, access, "which nothing has written");
        let collect =
            |memory: &[u8]| memory.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        match place {
            Place::Global(at, offset) => {
                let (block, offset) = (&run.blocks[at], offset + u64::from(part));
                if !block.has_element(offset, bytes) {
                    return Err(unwritten());
                }
                Ok(block.load(offset, bytes))
            }
            Place::Shared(at) => {
                let range = at + part as usize..at + (part + bytes) as usize;
                if !common.written[range.clone()].iter().all(|written| *written) {
                    return Err(unwritten());
                }
                if common.under_way.get(at / 4).is_some_and(|word| word.copied) {
                    let what = "which a cp.async is writing that was not waited for";
                    return Err(self.wrong(run, common, Code::LaunchFailed, access, what));
                }
                Ok(collect(&common.shared[range]))
            }
            Place::Local(at) => {
                let range = at + part as usize..at + (part + bytes) as usize;
                if !self.local_written[range.clone()].iter().all(|written| *written) {
                    return Err(unwritten());
                }
                Ok(collect(&self.local[range]))
            }
        }
    }

    fn store(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        op: &Op,
        lane: usize,
        (space, offset, access, strength): (Space, i64, Access, Strength),
    ) -> Result<(), Fault> {
        let address = self.address(op, 0, lane, offset, space);
        let whole = Access1 { op, lane, address, bytes: access.bytes * access.count, verb: "writes" };
        let place = self.place(run, common, space, whole)?;
        self.watch(run, common, whole, place, RaceAccess::Write, strength)?;
        for (at, source) in op.sources[1..].iter().enumerate() {
            let part = access.bytes * at as u32;
            let one = Access1 { address: address + u64::from(part), bytes: access.bytes, ..whole };
            let value = self.rows[*source as usize][lane];
            self.put(run, common, one, place, part, value)?;
        }
        Ok(())
    }

    pub(super) fn put(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        access: Access1<'_>,
        place: Place,
        part: u32,
        value: u64,
    ) -> Result<(), Fault> {
        let len = access.bytes as usize;
        match place {
            Place::Global(at, offset) => run.blocks[at].store(offset + u64::from(part), access.bytes, value),
            Place::Shared(at) => {
                let at = at + part as usize;
                self.claim(run, common, access, at)?;
                common.shared[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
                common.written[at..at + len].fill(true);
            }
            Place::Local(at) => {
                let at = at + part as usize;
                self.local[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
                self.local_written[at..at + len].fill(true);
            }
        }
        Ok(())
    }

    /// A write to shared memory, where copies and products may be under way.
    fn claim(&self, run: &Run<'_>, common: &mut Common, access: Access1<'_>, at: usize) -> Result<(), Fault> {
        if common.under_way.is_empty() {
            return Ok(());
        }
        for word in at / 4..=(at + access.bytes as usize - 1) / 4 {
            let UnderWay { copied, read, .. } = common.under_way[word];
            let what = match (copied, read) {
                (true, _) => "which a cp.async is writing that was not waited for",
                (_, 1..) => "which a wgmma may still read that was not waited for",
                _ => {
                    let writer = 32 * self.index + access.lane as u32 + 1;
                    common.under_way[word] = UnderWay { writer, time: common.clock, ..UnderWay::default() };
                    continue;
                }
            };
            return Err(self.wrong(run, common, Code::LaunchFailed, access, what));
        }
        Ok(())
    }

    fn atomic(&mut self, run: &Run<'_>, common: &mut Common, op: &Op, lane: usize) -> Result<(), Fault> {
        let Kind::Atomic { space, offset, action, ty, strength } = op.kind else {
            unreachable!("only atomics come here")
        };
        let address = self.address(op, 0, lane, offset, space);
        let access = Access1 { op, lane, address, bytes: ty.bytes(), verb: "updates" };
        let place = self.place(run, common, space, access)?;
        self.watch(run, common, access, place, RaceAccess::Atomic, strength)?;
        let operand = |at: usize| op.sources.get(at).map_or(0, |slot| self.rows[*slot as usize][lane]);
        let (b, c) = (operand(1), operand(2));
        let is_global = matches!(place, Place::Global(..));
        // The old value must have been written, also where only the sum is kept.
        let old = self.read(run, common, access, place, 0)?;
        let old = match place {
            Place::Global(at, offset) => {
                run.blocks[at].update(offset, ty.bytes(), |old| updated(action, ty, old, b, c, is_global))
            }
            _ => {
                let new = updated(action, ty, old, b, c, is_global);
                self.put(run, common, access, place, 0, new)?;
                old
            }
        };
        self.write_lane(op.dests[0], lane, old);
        Ok(())
    }

    /// Remembers an access where races are looked for.
    pub(super) fn watch(
        &self,
        run: &Run<'_>,
        common: &Common,
        access: Access1<'_>,
        place: Place,
        kind: RaceAccess,
        strength: Strength,
    ) -> Result<(), Fault> {
        let Some(races) = &run.races else { return Ok(()) };
        let memory = match place {
            Place::Global(at, offset) => Memory::Global(run.blocks[at].address + offset),
            Place::Shared(at) => Memory::Shared(common.number, at as u64),
            Place::Local(_) => return Ok(()),
        };
        let who = (common.number, self.index, access.lane as u32);
        let found = races.access(who, memory, access.bytes, kind, strength, access.op.line);
        found.map_err(|what| self.wrong(run, common, Code::LaunchFailed, access, &what))
    }

    fn fence(&mut self, run: &Run<'_>, common: &mut Common, fence: Fence, mask: u32) {
        common.clock += 1;
        if fence == Fence::ProxyAsync {
            for lane in each(mask) {
                let thread = 32 * self.index as usize + lane;
                if let Some(entry) = common.proxy_fences.get_mut(thread) {
                    *entry = [common.clock, self.passed[lane]];
                }
            }
        } else if let Some(races) = &run.races {
            races.fence(common.number, self.index, mask, fence == Fence::Device);
        }
    }

    fn begin_copy(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        op: &Op,
        lane: usize,
        (offsets, bytes, sized): ([i64; 2], u32, bool),
    ) -> Result<(), Fault> {
        let read = if sized { self.rows[op.sources[2] as usize][lane] as u32 } else { bytes };
        let to = self.address(op, 0, lane, offsets[0], Space::Shared);
        let from = self.address(op, 1, lane, offsets[1], Space::Global);
        let write = Access1 { op, lane, address: to, bytes, verb: "copies to" };
        if read > bytes {
            let what = format!("of which {read} are to be read");
            return Err(self.wrong(run, common, Code::LaunchFailed, write, &what));
        }
        let Place::Shared(at) = self.place(run, common, Space::Shared, write)? else {
            unreachable!("the space is shared")
        };
        self.watch(run, common, write, Place::Shared(at), RaceAccess::Write, Strength::WEAK)?;
        self.claim(run, common, write, at)?;
        common.under_way[at / 4..(at + bytes as usize) / 4].iter_mut().for_each(|word| word.copied = true);
        let source = Access1 { address: from, bytes, verb: "copies from", ..write };
        if read > 0 {
            self.check_source(run, common, source, read)?;
        }
        let copy = Copy { lane: lane as u32, to: at, from, bytes, read, group: None };
        self.copies.push(copy);
        Ok(())
    }

    /// The bytes that a copy reads exist and were written; its address is aligned to its size.
    fn check_source(
        &mut self,
        run: &Run<'_>,
        common: &Common,
        source: Access1<'_>,
        read: u32,
    ) -> Result<(), Fault> {
        if !source.address.is_multiple_of(u64::from(source.bytes)) {
            let what = "which is not a multiple of that";
            return Err(self.wrong(run, common, Code::MisalignedAddress, source, what));
        }
        for byte in 0..read {
            let one = Access1 { address: source.address + u64::from(byte), bytes: 1, ..source };
            let place = self.place(run, common, Space::Global, one)?;
            self.watch(run, common, one, place, RaceAccess::Read, Strength::WEAK)?;
            self.read(run, common, one, place, 0)?;
        }
        Ok(())
    }

    fn commit_copies(&mut self, mask: u32) {
        for copy in &mut self.copies {
            if mask >> copy.lane & 1 != 0 && copy.group.is_none() {
                copy.group = Some(self.committed[copy.lane as usize]);
            }
        }
        each(mask).for_each(|lane| self.committed[lane] += 1);
    }

    /// Ends copies of lanes, until so many of each lane's groups are left. The bytes arrive as late as they may.
    pub(super) fn finish_copies(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        mask: u32,
        left: u64,
    ) -> Result<(), Fault> {
        let committed = self.committed;
        let ends = |copy: &Copy| {
            let last = u64::from(committed[copy.lane as usize]);
            mask >> copy.lane & 1 != 0
                && copy.group.is_some_and(|group| u64::from(group).saturating_add(left) < last)
        };
        let ending: Vec<Copy> = self.copies.iter().copied().filter(|copy| ends(copy)).collect();
        self.copies.retain(|copy| !ends(copy));
        common.clock += u64::from(!ending.is_empty());
        for copy in ending {
            self.finish_copy(run, common, copy);
        }
        Ok(())
    }

    fn finish_copy(&mut self, run: &Run<'_>, common: &mut Common, copy: Copy) {
        let Copy { lane, to, from, bytes, read, .. } = copy;
        for byte in 0..bytes {
            let found = run.blocks.partition_point(|block| block.address <= from + u64::from(byte));
            let value = match (byte < read).then(|| &run.blocks[found - 1]) {
                Some(block) => block.load(from + u64::from(byte) - block.address, 1) as u8,
                None => 0,
            };
            let at = to + byte as usize;
            common.shared[at] = value;
            common.written[at] = true;
            let writer = 32 * self.index + lane + 1;
            common.under_way[at / 4] = UnderWay { writer, time: common.clock, ..UnderWay::default() };
        }
    }
}

/// What an atomic operation makes of a value.
fn updated(action: Action, ty: Number, old: u64, b: u64, c: u64, is_global: bool) -> u64 {
    let bits = 8 * ty.bytes();
    let mask = u64::MAX >> (64 - bits);
    let signed = |value: u64| (value << (64 - bits)) as i64 >> (64 - bits);
    let is_signed = matches!(ty, Number::Signed(_));
    let new = match action {
        Action::Add => match ty {
            Number::F32 => u64::from(sum_f32(old as u32, b as u32, is_global)),
            Number::F64 => sum_f64(old, b),
            _ => old.wrapping_add(b),
        },
        Action::Min if is_signed => signed(old).min(signed(b)) as u64,
        Action::Max if is_signed => signed(old).max(signed(b)) as u64,
        Action::Min => old.min(b),
        Action::Max => old.max(b),
        Action::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        Action::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        Action::And => old & b,
        Action::Or => old | b,
        Action::Xor => old ^ b,
        Action::Exchange => b,
        Action::CompareExchange => {
            if old == b {
                c
            } else {
                old
            }
        }
    };
    new & mask
}

/// A NaN operand is kept and made quiet, as by `add.f64`.
fn sum_f64(a: u64, b: u64) -> u64 {
    let sum = f64::from_bits(a) + f64::from_bits(b);
    let nan = [a, b].into_iter().find(|x| f64::from_bits(*x).is_nan());
    match sum.is_nan() {
        true => nan.map_or(0xfff8_0000_0000_0000, |nan| nan | 1 << 51),
        false => sum.to_bits(),
    }
}

/// Global memory flushes subnormal numbers to zero, shared memory does not.
fn sum_f32(a: u32, b: u32, flushes: bool) -> u32 {
    let flushed = |x: u32| if flushes && x & 0x7f80_0000 == 0 { x & 0x8000_0000 } else { x };
    let sum = f32::from_bits(flushed(a)) + f32::from_bits(flushed(b));
    flushed(if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() })
}
