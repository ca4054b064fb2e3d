//! A timing wheel: events of the near future in slots of a few hundred picoseconds each, the
//! rest in a heap.
//!
//! Nearly all events of a fabric lie one packet time or less ahead, so that a slot holds a handful
//! of them at the time it is opened, and each event costs O(1).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::EventQueue;

/// Picoseconds of a slot, as a power of two.
const SLOT_BITS: u32 = 8;
/// Slots of the wheel; with 256 ps each they span 4.2 us.
const SLOTS: usize = 1 << 14;
/// Events of a cell.
const EVENTS: usize = 7;
/// Stands for no cell.
const NONE: u32 = u32::MAX;

/// An event queue for fabrics, O(1) for each event.
#[derive(Clone, Debug)]
pub struct TimingWheel {
    /// Number of the open slot, counted from time 0; its events are in `open`.
    slot: u64,
    open: Vec<(u64, u64)>, // falling by moment
    heads: Vec<u32>,       // by slot of the wheel: first cell, the one that may have room
    filled: Vec<u64>,      // bitmap of the slots with cells
    cells: Vec<Cell>,
    free: u32,
    in_wheel: usize,
    far: BinaryHeap<Reverse<(u64, u64)>>, // beyond the wheel
}

/// Events of a slot, so many to a cell that opening a full slot reads memory in rows.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Cell {
    events: [(u64, u64); EVENTS],
    len: u32,
    next: u32,
}

impl Default for TimingWheel {
    fn default() -> Self {
        Self {
            slot: 0,
            open: Vec::new(),
            heads: vec![NONE; SLOTS],
            filled: vec![0; SLOTS / 64],
            cells: Vec::new(),
            free: NONE,
            in_wheel: 0,
            far: BinaryHeap::new(),
        }
    }
}

/// Gives the place of a slot in the wheel.
fn place(slot: u64) -> usize {
    usize::try_from(slot % SLOTS as u64).expect("less than SLOTS")
}

impl TimingWheel {
    fn insert(&mut self, at: u64, event: u64) {
        let place = place(at >> SLOT_BITS);
        self.in_wheel += 1;
        let head = self.heads[place];
        if let Some(cell) = self.cells.get_mut(head as usize)
            && let Some(room) = cell.events.get_mut(cell.len as usize)
        {
            *room = (at, event);
            cell.len += 1;
            return;
        }
        let mut cell = Cell { events: [(0, 0); EVENTS], len: 1, next: head };
        cell.events[0] = (at, event);
        let id = if self.free == NONE {
            self.cells.push(cell);
            u32::try_from(self.cells.len() - 1).expect("fewer than 2^32 events wait")
        } else {
            let id = self.free;
            self.free = std::mem::replace(&mut self.cells[id as usize], cell).next;
            id
        };
        self.heads[place] = id;
        self.filled[place / 64] |= 1 << (place % 64);
    }

    /// Finds the first filled slot after the open one.
    fn next_filled(&self) -> Option<u64> {
        if self.in_wheel == 0 {
            return None;
        }
        let start = place(self.slot + 1);
        let words = self.filled.len();
        for turn in 0..=words {
            let word = (start / 64 + turn) % words;
            let from = if turn == 0 { u64::MAX << (start % 64) } else { u64::MAX };
            let bits = self.filled[word] & from;
            if bits != 0 {
                let found = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (found + SLOTS - start) % SLOTS;
                return Some(self.slot + 1 + ahead as u64);
            }
        }
        None
    }

    /// Opens the next slot that has events.
    fn open_next(&mut self) {
        let far = self.far.peek().map(|Reverse((at, _))| at >> SLOT_BITS);
        let Some(slot) = self.next_filled().into_iter().chain(far).min() else { return };
        self.slot = slot;
        while let Some(Reverse((at, event))) = self.far.peek().copied() {
            if at >> SLOT_BITS >= slot + SLOTS as u64 {
                break;
            }
            self.far.pop();
            self.insert(at, event);
        }
        let place = place(slot);
        let mut id = std::mem::replace(&mut self.heads[place], NONE);
        self.filled[place / 64] &= !(1 << (place % 64));
        while id != NONE {
            let cell = &mut self.cells[id as usize];
            self.open.extend_from_slice(&cell.events[..cell.len as usize]);
            let next = std::mem::replace(&mut cell.next, self.free);
            self.free = std::mem::replace(&mut id, next);
        }
        self.in_wheel -= self.open.len();
        if self.open.len() > 1 {
            self.open.sort_unstable_by_key(|(at, _)| Reverse(*at));
        }
    }
}

impl EventQueue for TimingWheel {
    fn push(&mut self, at: u64, event: u64) {
        let slot = at >> SLOT_BITS;
        if slot <= self.slot {
            let place = self.open.partition_point(|(other, _)| *other > at);
            self.open.insert(place, (at, event));
        } else if slot < self.slot + SLOTS as u64 {
            self.insert(at, event);
        } else {
            self.far.push(Reverse((at, event)));
        }
    }

    fn next_at(&mut self) -> Option<u64> {
        if self.open.is_empty() {
            self.open_next();
        }
        self.open.last().map(|(at, _)| *at)
    }

    fn pop_at(&mut self, at: u64) -> Option<u64> {
        if self.open.is_empty() {
            self.open_next();
        }
        let due = self.open.last().is_some_and(|(next, _)| *next == at);
        if due { self.open.pop().map(|(_, event)| event) } else { None }
    }
}
