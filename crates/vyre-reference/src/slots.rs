//! Packs the registers of a compiled program: a register is used again once its last reader is done.
//!
//! A lane of a program with barriers keeps its registers while others run, so a long program must not need a register
//! for every line. Positions in the list are times. A register lives from its first mention to its last; one that a
//! loop mentions and that was there before the loop lives until the loop ends, because the next trip reads it again.

use crate::code::{Instr, NONE, Slot};
use crate::trace::Note;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Marks a slot as the number of a constant until the registers are counted.
pub(crate) const CONSTANT: Slot = 1 << 31;

/// Renames the `virtuals` registers of `instrs` (and of `notes`, one an instruction or none) into as few as it takes,
/// puts the constants after them, and returns the number of registers.
pub(crate) fn allocate(instrs: &mut [Instr], notes: &mut [Note], virtuals: u32) -> u32 {
    let ends = last_mentions(instrs, notes, virtuals as usize);
    let mut places = vec![NONE; virtuals as usize];
    let mut busy: BinaryHeap<Reverse<(u32, Slot)>> = BinaryHeap::new();
    let mut free: Vec<Slot> = Vec::new();
    let mut count = 0;
    for (at, instr) in instrs.iter_mut().enumerate() {
        // An instruction reads all it needs before it writes, so what it reads last may take its result.
        while let Some(Reverse((end, place))) = busy.peek().copied()
            && end <= at as u32
        {
            busy.pop();
            free.push(place);
        }
        let mut rename = |slot: &mut Slot, _: bool| {
            if *slot & CONSTANT != 0 {
                return;
            }
            let place = &mut places[*slot as usize];
            if *place == NONE {
                *place = free.pop().unwrap_or_else(|| {
                    count += 1;
                    count - 1
                });
                busy.push(Reverse((ends[*slot as usize].max(at as u32 + 1), *place)));
            }
            *slot = *place;
        };
        instr.for_each_slot(&mut rename);
        if let Some(note) = notes.get_mut(at) {
            note.for_each_slot(rename);
        }
    }
    for (at, instr) in instrs.iter_mut().enumerate() {
        let mut behind = |slot: &mut Slot, _: bool| {
            if *slot & CONSTANT != 0 {
                *slot = count + (*slot & !CONSTANT);
            }
        };
        instr.for_each_slot(&mut behind);
        if let Some(note) = notes.get_mut(at) {
            note.for_each_slot(behind);
        }
    }
    count
}

/// The time of every register's last mention, loops counted.
fn last_mentions(instrs: &mut [Instr], notes: &mut [Note], virtuals: usize) -> Vec<u32> {
    let mut ends = vec![0; virtuals];
    // How many loops were open at the first mention.
    let mut depths = vec![u32::MAX; virtuals];
    let mut loops: Vec<u32> = Vec::new();
    for (at, instr) in instrs.iter_mut().enumerate() {
        let mut mention = |slot: &mut Slot, _: bool| {
            if *slot & CONSTANT != 0 {
                return;
            }
            let slot = *slot as usize;
            if depths[slot] == u32::MAX {
                depths[slot] = loops.len() as u32;
            }
            let end = loops.get(depths[slot] as usize).map_or(at as u32, |end| *end);
            ends[slot] = ends[slot].max(end);
        };
        instr.for_each_slot(&mut mention);
        if let Some(note) = notes.get_mut(at) {
            note.for_each_slot(mention);
        }
        match instr {
            Instr::ForEnter { exit, .. } => loops.push(*exit - 1),
            Instr::ForNext { .. } => {
                loops.pop();
            }
            _ => {}
        }
    }
    ends
}
