//! Lanes of a warp that wait for each other: at an aligned instruction, or because a mask names them.

use super::block::Common;
use super::code::{Kind, WarpOp};
use super::launch::Run;
use super::warp::{Warp, each};
use crate::fault::{Code, Fault};

/// Instructions that a warp runs while some of its lanes are at an aligned instruction, until the others count as lost.
const LATE_MAX: u64 = 1 << 25;

/// Lanes that wait for others of their warp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meeting {
    kind: MeetingKind,
    /// The lanes that are to come.
    pub(super) members: u32,
    pub(super) arrived: u32,
    /// By lane, the instruction that it came to.
    pub(super) places: [u32; 32],
    /// How many instructions the warp had run when the first came.
    since: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeetingKind {
    /// All lanes of the warp at one instruction, by `.aligned`.
    Aligned(u32),
    /// The lanes of a mask, at any instructions of one kind: the ISA asks for the same qualifiers and mask.
    Named(WarpOp),
}

impl Meeting {
    fn new(kind: MeetingKind, members: u32, arrived: u32, pc: u32) -> Meeting {
        Meeting { kind, members, arrived, places: [pc; 32], since: 0 }
    }

    /// Some lane's instruction.
    fn pc(&self) -> u32 {
        self.places[self.arrived.trailing_zeros() as usize % 32]
    }

    /// The instructions that lanes came to, each with its lanes.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (places, mut left) = (self.places, self.arrived);
        std::iter::from_fn(move || {
            let pc = places[(left != 0).then_some(left.trailing_zeros() as usize)?];
            let same = each(left).filter(|lane| places[*lane] == pc).fold(0, |same, lane| same | 1 << lane);
            left &= !same;
            Some((pc, same))
        })
    }

    fn is_aligned(&self) -> bool {
        matches!(self.kind, MeetingKind::Aligned(_))
    }
}

impl Warp {
    /// Lanes come to an instruction that lanes execute together, or to a barrier.
    pub(super) fn meet(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        pc: u32,
        mask: u32,
    ) -> Result<(), Fault> {
        let op = &run.kernel.code.ops[pc as usize];
        match &op.kind {
            Kind::Barrier { aligned: false, .. } => self.arrive(run, common, pc, mask),
            Kind::Warp(warp_op) => {
                let named = *op.sources.last().expect("a mask names the lanes");
                let mut left = mask;
                while left != 0 {
                    let members = self.rows[named as usize][left.trailing_zeros() as usize] as u32;
                    let same = each(left).filter(|lane| self.rows[named as usize][*lane] as u32 == members);
                    let same = same.fold(0, |same, lane| same | 1 << lane);
                    left &= !same;
                    let outside = same & !members;
                    if outside != 0 {
                        let what = format!("the lane is not in its mask {members:#x}");
                        let lane = outside.trailing_zeros();
                        return Err(self.fault(run, common, Code::LaunchFailed, op.line, lane, &what));
                    }
                    let kind = MeetingKind::Named(*warp_op);
                    self.join(run, common, Meeting::new(kind, members, same, pc))?;
                }
                Ok(())
            }
            _ => self.join(run, common, Meeting::new(MeetingKind::Aligned(pc), self.lanes, mask, pc)),
        }
    }

    fn join(&mut self, run: &Run<'_>, common: &mut Common, new: Meeting) -> Result<(), Fault> {
        let same = |other: &Meeting| other.kind == new.kind && other.members == new.members;
        let at = match self.meetings.iter().position(same) {
            Some(at) => {
                let meeting = &mut self.meetings[at];
                meeting.arrived |= new.arrived;
                each(new.arrived).for_each(|lane| meeting.places[lane] = new.places[lane]);
                at
            }
            None => {
                self.meetings.push(Meeting { since: self.executed, ..new });
                self.meetings.len() - 1
            }
        };
        self.try_meeting(run, common, at)
    }

    /// Executes an instruction that lanes wait at, if all have come.
    pub(super) fn try_meeting(&mut self, run: &Run<'_>, common: &mut Common, at: usize) -> Result<(), Fault> {
        let meeting = self.meetings[at];
        let Meeting { kind, members, arrived, .. } = meeting;
        // Lanes that have exited are not waited for, but a warp that must be together is not without them.
        let gone = self.exited & if meeting.is_aligned() { !self.lanes } else { u32::MAX };
        if members & !gone & !arrived != 0 {
            return Ok(());
        }
        self.meetings.swap_remove(at);
        match kind {
            MeetingKind::Aligned(pc) => {
                let op = &run.kernel.code.ops[pc as usize];
                match &op.kind {
                    Kind::Aligned(aligned) => self.aligned(run, common, op, aligned)?,
                    _ => return self.arrive(run, common, pc, arrived),
                }
                self.resume(pc + 1, arrived);
            }
            MeetingKind::Named(WarpOp::Sync) => {
                common.clock += 1;
                self.synced(arrived, common.clock);
                if let Some(races) = &run.races {
                    races.warp_sync(common.number, self.index, arrived);
                }
                self.resume_each(&meeting);
            }
            MeetingKind::Named(warp_op) => {
                self.together(run, common, warp_op, &meeting)?;
                self.resume_each(&meeting);
            }
        }
        Ok(())
    }

    /// Lets lanes go on behind the instructions that they met at.
    fn resume_each(&mut self, meeting: &Meeting) {
        for (pc, mask) in meeting.parts() {
            self.resume(pc + 1, mask);
        }
    }

    /// The line and lane of a thread that waits within the warp, and for whom.
    pub(super) fn waiting(&self, run: &Run<'_>) -> Option<(u32, u32, String)> {
        self.meetings.first().map(|meeting| self.explain(run, meeting))
    }

    fn explain(&self, run: &Run<'_>, meeting: &Meeting) -> (u32, u32, String) {
        let missing = meeting.members & !meeting.arrived & !self.exited;
        let gone = meeting.members & self.exited & self.lanes;
        let what = match missing {
            0 if meeting.is_aligned() => {
                format!("the warp must execute it together, and lanes {gone:#x} have exited")
            }
            _ if meeting.is_aligned() => {
                format!("the warp must execute it together, and lanes {missing:#x} never come")
            }
            _ => format!("waits for lanes {missing:#x} of its warp, which never come"),
        };
        let line = run.kernel.code.ops[meeting.pc() as usize].line;
        (line, meeting.arrived.trailing_zeros(), what)
    }

    /// That no lane spins while others wait for it to come to an aligned instruction.
    pub(super) fn check_late(&self, run: &Run<'_>, common: &Common) -> Result<(), Fault> {
        let late = |meeting: &&Meeting| meeting.is_aligned() && self.executed - meeting.since > LATE_MAX;
        match self.meetings.iter().find(late) {
            None => Ok(()),
            Some(meeting) => {
                let (line, lane, what) = self.explain(run, meeting);
                Err(self.fault(run, common, Code::LaunchFailed, line, lane, &what))
            }
        }
    }
}
