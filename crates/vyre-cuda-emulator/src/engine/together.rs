//! What lanes of a warp do together: exchanges, votes, and products of matrices.
//!
//! Products of four warps (`wgmma`) go on beside the program. They are computed at once here, and until they are waited for
//! nothing may touch their accumulators, or write what they read.

use super::access::{Access1, Place};
use super::block::Common;
use super::code::{AlignedOp, Code as Ops, Kind, NOWHERE, Op, Redux, Shuffle, Slot, Space, Strength, WarpOp};
use super::launch::Run;
use super::layout::SHARED_BASE;
use super::meeting::Meeting;
use super::races::Access as RaceAccess;
use super::warp::{Warp, each};
use crate::alu::Row;
use crate::fault::{Code, Fault};
use crate::tensor::Wgmma;

/// Products that a warp takes part in.
pub(super) struct Products {
    /// Words of shared memory that products read, with their group; `None` before it is committed.
    reading: Vec<(Vec<usize>, Option<u64>)>,
    /// By row, the last group that writes it, plus one; 0 for none.
    pending: Vec<u64>,
    /// By row, whether something else than a product touched it since the last `wgmma.fence`.
    touched: Vec<bool>,
    committed: u64,
    digest: u64,
}

impl Products {
    pub(super) fn new(code: &Ops) -> Products {
        let rows = if code.uses_wgmma { code.slots as usize } else { 0 };
        Products {
            reading: Vec::new(),
            pending: vec![0; rows],
            touched: vec![true; rows],
            committed: 0,
            digest: 0,
        }
    }

    pub(super) fn begin(&mut self) {
        self.reading.clear();
        self.pending.fill(0);
        self.touched.fill(true);
        (self.committed, self.digest) = (0, 0);
    }

    /// Differs where warps executed different products.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }
}

impl Warp {
    /// An exchange, a vote or a fold among lanes that have all come.
    pub(super) fn together(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        warp_op: WarpOp,
        meeting: &Meeting,
    ) -> Result<(), Fault> {
        let ops = &run.kernel.code.ops;
        let arrived = meeting.arrived;
        if run.kernel.code.uses_wgmma {
            for (pc, mask) in meeting.parts() {
                self.check_products(run, common, &ops[pc as usize], mask)?;
            }
        }
        // Each lane's sources are those of the instruction that it came to.
        let row = |source: usize| -> Row {
            let mut row = [0; 32];
            for lane in each(arrived) {
                let op = &ops[meeting.places[lane] as usize];
                row[lane] = self.rows[op.sources[source] as usize][lane];
            }
            row
        };
        let values = row(0);
        let set = each(arrived).fold(0, |set, lane| set | (values[lane] as u32 & 1) << lane);
        let same = |value: u64| [value; 32];
        let mut second = same(0);
        let first = match warp_op {
            WarpOp::Sync => return Ok(()),
            WarpOp::Shuffle(mode) => {
                let (result, inside) = shuffled(mode, &values, &row(1), &row(2), arrived & meeting.members);
                second = inside;
                result
            }
            WarpOp::VoteAll => same(u64::from(set == arrived)),
            WarpOp::VoteAny => same(u64::from(set != 0)),
            WarpOp::VoteUni => same(u64::from(set == arrived || set == 0)),
            WarpOp::Ballot => same(u64::from(set)),
            WarpOp::MatchAny => std::array::from_fn(|lane| u64::from(equals(&values, values[lane], arrived))),
            WarpOp::MatchAll => {
                let first = values[arrived.trailing_zeros() as usize];
                let all = equals(&values, first, arrived) == arrived;
                second = same(u64::from(all));
                same(if all { u64::from(arrived) } else { 0 })
            }
            WarpOp::Redux(redux) => same(u64::from(fold(redux, &values, arrived))),
        };
        for (pc, mask) in meeting.parts() {
            let dests = &ops[pc as usize].dests;
            for (dest, result) in dests.iter().zip([&first, &second]) {
                self.write(*dest, result, mask);
            }
        }
        Ok(())
    }

    /// An instruction of all lanes of the warp.
    pub(super) fn aligned(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        op: &Op,
        aligned: &AlignedOp,
    ) -> Result<(), Fault> {
        let lanes = self.lanes;
        if !matches!(aligned, AlignedOp::Wgmma(_)) && run.kernel.code.uses_wgmma {
            self.check_products(run, common, op, lanes)?;
        }
        if lanes != u32::MAX {
            let what = "an instruction of a whole warp in a warp of fewer than 32 threads";
            return Err(self.fault(run, common, Code::IllegalInstruction, op.line, 0, what));
        }
        let rows = |warp: &Warp, slots: &[Slot]| {
            slots.iter().map(|slot| warp.rows[*slot as usize]).collect::<Vec<Row>>()
        };
        match aligned {
            AlignedOp::Ldmatrix { matrix, offset } => {
                let space = if matrix.is_generic() { Space::Generic } else { Space::Shared };
                for lane in matrix.rows()..matrix.addressed_lanes() {
                    self.matrix_row(run, common, op, (lane, *offset, space))?;
                }
                let mut bytes = Vec::new();
                for lane in 0..matrix.rows() {
                    bytes.push(self.matrix_row(run, common, op, (lane, *offset, space))?);
                }
                for (dest, row) in op.dests.iter().zip(matrix.spread(&bytes)) {
                    self.write(*dest, &row, lanes);
                }
            }
            AlignedOp::Stmatrix { matrix, offset } => {
                common.clock += 1;
                let space = if matrix.is_generic() { Space::Generic } else { Space::Shared };
                let bytes = matrix.gather(&rows(self, &op.sources[1..]));
                for (lane, row) in bytes.iter().enumerate() {
                    self.put_matrix_row(run, common, op, (lane, *offset, space), row)?;
                }
            }
            AlignedOp::Mma(mma) => {
                let (a, rest) = op.sources.split_at(mma.a_registers());
                let (b, c) = rest.split_at(mma.b_registers());
                let result = mma.run(&rows(self, a), &rows(self, b), &rows(self, c));
                for (dest, row) in op.dests.iter().zip(result) {
                    self.write(*dest, &row, lanes);
                }
            }
            AlignedOp::Wgmma(wgmma) => self.multiply(run, common, op, wgmma)?,
            AlignedOp::WgmmaFence => self.products.touched.fill(false),
            AlignedOp::WgmmaCommit => {
                let group = self.products.committed;
                self.products.committed += 1;
                self.products.reading.iter_mut().for_each(|(_, own)| *own = own.or(Some(group)));
            }
            AlignedOp::WgmmaWait(left) => self.await_products(common, *left),
        }
        Ok(())
    }

    fn row_address(&self, op: &Op, lane: usize, offset: i64) -> u64 {
        self.rows[op.sources[0] as usize][lane].wrapping_add_signed(offset)
    }

    fn matrix_row(
        &mut self,
        run: &Run<'_>,
        common: &Common,
        op: &Op,
        (lane, offset, space): (usize, i64, Space),
    ) -> Result<[u8; 16], Fault> {
        let address = self.row_address(op, lane, offset);
        let access = Access1 { op, lane, address, bytes: 16, verb: "reads" };
        let place = self.shared_place(run, common, space, access)?;
        self.watch(run, common, access, place, RaceAccess::Read, Strength::WEAK)?;
        let mut row = [0; 16];
        for half in 0..2 {
            let one = Access1 { bytes: 8, address: address + 8 * half, ..access };
            let value = self.read(run, common, one, place, 8 * half as u32)?;
            row[8 * half as usize..][..8].copy_from_slice(&value.to_le_bytes());
        }
        Ok(row)
    }

    fn put_matrix_row(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        op: &Op,
        (lane, offset, space): (usize, i64, Space),
        row: &[u8; 16],
    ) -> Result<(), Fault> {
        let address = self.row_address(op, lane, offset);
        let access = Access1 { op, lane, address, bytes: 16, verb: "writes" };
        let place = self.shared_place(run, common, space, access)?;
        self.watch(run, common, access, place, RaceAccess::Write, Strength::WEAK)?;
        for half in 0..2usize {
            let one = Access1 { bytes: 8, address: address + 8 * half as u64, ..access };
            let bytes = row[8 * half..][..8].try_into().expect("eight bytes");
            self.put(run, common, one, place, 8 * half as u32, u64::from_le_bytes(bytes))?;
        }
        Ok(())
    }

    fn shared_place(
        &mut self,
        run: &Run<'_>,
        common: &Common,
        space: Space,
        access: Access1<'_>,
    ) -> Result<Place, Fault> {
        let place = self.place(run, common, space, access)?;
        if matches!(place, Place::Shared(_)) {
            return Ok(place);
        }
        let what = "a matrix must be in shared memory";
        Err(self.fault(run, common, Code::InvalidAddressSpace, access.op.line, access.lane as u32, what))
    }

    /// A product of four warps: this warp's quarter of it.
    fn multiply(&mut self, run: &Run<'_>, common: &mut Common, op: &Op, wgmma: &Wgmma) -> Result<(), Fault> {
        let refuse = |warp: &Warp, common: &Common, what: &str| {
            warp.fault(run, common, Code::LaunchFailed, op.line, 0, what)
        };
        let warps = run.launch.block.iter().product::<u32>() / 32;
        if self.index / 4 * 4 + 4 > warps {
            return Err(refuse(self, common, "its warp is not one of a group of four"));
        }
        let accumulators = &op.dests;
        if accumulators.iter().any(|slot| self.products.touched[*slot as usize]) {
            return Err(refuse(self, common, "its accumulators were touched since the last wgmma.fence"));
        }
        let before = op.sources.len() - accumulators.len();
        let operands = &op.sources[..before];
        let (b, adds) = (operands[before - 2], operands[before - 1]);
        let uniform =
            |slot: Slot| self.rows[slot as usize].iter().all(|value| *value == self.rows[slot as usize][0]);
        let from_registers = before > 3;
        if !uniform(b) || !uniform(adds) || !from_registers && !uniform(operands[0]) {
            return Err(refuse(self, common, "a descriptor or scale-d differs among the lanes"));
        }
        let first = |slot: Slot| self.rows[slot as usize][0];
        let descriptor_a = if from_registers { 0 } else { first(operands[0]) };
        let shared = [u64::from(op.line), descriptor_a, first(b), first(adds)];
        self.products.digest = shared.iter().fold(self.products.digest, |digest, value| {
            (digest ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        });
        let quarter = self.index as usize % 4;
        let mut words = Vec::new();
        let b_addresses = wgmma.b_addresses(first(b));
        let b_addresses = b_addresses.map_err(|what| refuse(self, common, &what))?;
        let a_pieces = if from_registers {
            let rows: Vec<Row> =
                operands[..before - 2].iter().map(|slot| self.rows[*slot as usize]).collect();
            let none: &[Row] = &[];
            let mut warps = [none; 4];
            warps[quarter] = &rows;
            wgmma.a_pieces(warps)
        } else {
            let addresses = wgmma.a_addresses(first(operands[0]));
            let addresses = addresses.map_err(|what| refuse(self, common, &what))?;
            self.pieces(run, common, op, &addresses, &mut words)?
        };
        let b_pieces = self.pieces(run, common, op, &b_addresses, &mut words)?;
        let mut own: Vec<Row> = accumulators.iter().map(|slot| self.rows[*slot as usize]).collect();
        let mut parts: [&mut [Row]; 4] = Default::default();
        parts[quarter] = &mut own;
        wgmma.run(&a_pieces, &b_pieces, first(adds) != 0, parts);
        for (slot, row) in accumulators.iter().zip(own) {
            self.write(*slot, &row, u32::MAX);
            self.products.pending[*slot as usize] = self.products.committed + 1;
        }
        words.iter().for_each(|word: &usize| common.under_way[*word].read += 1);
        self.products.reading.push((words, None));
        Ok(())
    }

    /// The pieces of a factor in shared memory, which this proxy must be able to see.
    fn pieces(
        &self,
        run: &Run<'_>,
        common: &Common,
        op: &Op,
        addresses: &[u32],
        words: &mut Vec<usize>,
    ) -> Result<Vec<[u8; 16]>, Fault> {
        let fences = |lane: usize| common.proxy_fences[32 * self.index as usize + lane][1];
        let covered = (0..32).map(fences).max().unwrap_or(0);
        let mut pieces = Vec::with_capacity(addresses.len());
        for address in addresses {
            let refuse = |what: &str| {
                let what = format!("reads 16 bytes at {address:#x}, {what}");
                Err(self.fault(run, common, Code::LaunchFailed, op.line, 0, &what))
            };
            let Some(at) = common.shared_at(u64::from(*address), 16) else {
                let (first, end) = (SHARED_BASE, SHARED_BASE + common.shared.len() as u64);
                return refuse(&format!("outside of the block's shared memory from {first:#x} to {end:#x}"));
            };
            if !common.written[at..at + 16].iter().all(|written| *written) {
                return refuse("which nothing has written");
            }
            let access = Access1 { op, lane: 0, address: u64::from(*address), bytes: 16, verb: "reads" };
            self.watch(run, common, access, Place::Shared(at), RaceAccess::Read, Strength::WEAK)?;
            for word in at / 4..at / 4 + 4 {
                let under_way = common.under_way[word];
                if under_way.copied {
                    return refuse("which a cp.async is writing that was not waited for");
                }
                let Some(writer) = under_way.writer.checked_sub(1) else { continue };
                let fenced = common.proxy_fences[writer as usize][0] > under_way.time;
                if !fenced && covered <= under_way.time {
                    return refuse(&format!("which thread {writer} wrote with no fence.proxy.async since"));
                }
                words.push(word);
            }
            pieces.push(common.shared[at..at + 16].try_into().expect("sixteen bytes"));
        }
        Ok(pieces)
    }

    fn await_products(&mut self, common: &mut Common, left: u64) {
        let ended = self.products.committed.saturating_sub(left);
        let is_over = |group: Option<u64>| group.is_some_and(|group| group < ended);
        for (words, group) in &self.products.reading {
            if is_over(*group) {
                words.iter().for_each(|word| common.under_way[*word].read -= 1);
            }
        }
        self.products.reading.retain(|(_, group)| !is_over(*group));
        self.products.pending.iter_mut().filter(|group| **group <= ended).for_each(|group| *group = 0);
    }

    /// That an instruction does not touch what products are still writing; remembers that it touched the rest.
    pub(super) fn check_products(
        &mut self,
        run: &Run<'_>,
        common: &Common,
        op: &Op,
        mask: u32,
    ) -> Result<(), Fault> {
        if matches!(op.kind, Kind::Aligned(AlignedOp::Wgmma(_))) {
            return Ok(());
        }
        for slot in op.dests.iter().chain(&op.sources).filter(|slot| **slot != NOWHERE) {
            if self.products.pending[*slot as usize] != 0 {
                let what = "touches an accumulator of a wgmma that was not waited for";
                let lane = mask.trailing_zeros();
                return Err(self.fault(run, common, Code::LaunchFailed, op.line, lane, what));
            }
            self.products.touched[*slot as usize] = true;
        }
        Ok(())
    }
}

/// What `shfl` gives each lane, and whether the lane it reads is in range: the ISA's pseudo-code.
fn shuffled(mode: Shuffle, values: &Row, by: &Row, clamps: &Row, members: u32) -> (Row, Row) {
    let (mut result, mut inside) = ([0; 32], [0; 32]);
    for lane in each(members) {
        let (by, clamp) = (by[lane] as u32 & 31, clamps[lane] as u32);
        let (end, segment) = (clamp & 31, clamp >> 8 & 31);
        let own = lane as u32;
        let low = own & segment;
        let most = low | end & !segment;
        let (from, found) = match mode {
            Shuffle::Up => (own.wrapping_sub(by), own as i32 - by as i32 >= most as i32),
            Shuffle::Down => (own + by, own + by <= most),
            Shuffle::Butterfly => (own ^ by, own ^ by <= most),
            Shuffle::Index => (low | by & !segment, low | by & !segment <= most),
        };
        let from = if found { from as usize } else { lane };
        // What a lane gives that takes no part is unpredictable.
        let takes_part = members & 1 << from != 0;
        result[lane] = if takes_part { values[from] } else { 0x5bad_0000 | from as u64 };
        inside[lane] = u64::from(found);
    }
    (result, inside)
}

/// The lanes of `mask` that have the value.
fn equals(values: &Row, value: u64, mask: u32) -> u32 {
    each(mask).filter(|lane| values[*lane] == value).fold(0, |same, lane| same | 1 << lane)
}

fn fold(redux: Redux, values: &Row, mask: u32) -> u32 {
    let values = each(mask).map(|lane| values[lane] as u32);
    let folded = match redux {
        Redux::Add => values.reduce(u32::wrapping_add),
        Redux::MinUnsigned => values.reduce(u32::min),
        Redux::MaxUnsigned => values.reduce(u32::max),
        Redux::MinSigned => values.reduce(|a, b| (a as i32).min(b as i32) as u32),
        Redux::MaxSigned => values.reduce(|a, b| (a as i32).max(b as i32) as u32),
        Redux::And => values.reduce(|a, b| a & b),
        Redux::Or => values.reduce(|a, b| a | b),
        Redux::Xor => values.reduce(|a, b| a ^ b),
    };
    folded.unwrap_or(0)
}
