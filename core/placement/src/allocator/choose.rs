//! Finds the nodes of a new job.

use super::JobAllocator;
use super::cover::cover;
use crate::job::{JobClass, Spread};
use crate::refusal::{Held, JobRefusal, NoRoom};
use crate::topology::count;

/// Nodes that every unit can give to one job of a class, by level below the class's own.
pub(super) struct FreeUnits {
    class: JobClass,
    by_level: Vec<Vec<u32>>, // leaf, midplane, block
}

impl JobAllocator {
    /// Chooses nodes for a job; changes nothing.
    pub(super) fn find(&self, size: u32, spread: Spread) -> Result<Vec<u32>, JobRefusal> {
        if size == 0 {
            return Err(JobRefusal::NoNodes);
        }
        let Some(class) = self.topology.class_of_size(size) else {
            let live = self.topology.classes().next_back();
            let largest = live.map_or(0, |class| self.topology.largest(class));
            return Err(JobRefusal::TooLarge { asked: size, largest });
        };
        let found = match spread {
            Spread::No => self.find_in(class, size, None),
            Spread::Yes => self.find_spread(size, None),
        };
        found.ok_or_else(|| {
            let mut wider = self.topology.classes().filter(|wider| *wider > class);
            let wider = wider.find(|wider| spread == Spread::No && self.most(*wider) >= size);
            JobRefusal::NoRoom(Box::new(self.no_room(class, size, wider)))
        })
    }

    /// Chooses nodes in a unit of the smallest class that has room, none of them in unit `avoid`.
    pub(super) fn find_spread(&self, size: u32, avoid: Option<(usize, u32)>) -> Option<Vec<u32>> {
        let least = self.topology.class_of_size(size)?;
        let mut classes = self.topology.classes().filter(|class| *class >= least);
        classes.find_map(|class| self.find_in(class, size, avoid))
    }

    /// Chooses nodes in a unit of a class, none of them in unit `avoid` (level, number).
    pub(super) fn find_in(
        &self,
        class: JobClass,
        size: u32,
        avoid: Option<(usize, u32)>,
    ) -> Option<Vec<u32>> {
        let rooms = self.rooms(class, avoid);
        let unit = self.best_unit(&rooms, size)?;
        let mut nodes = self.gather(&rooms, class.level(), unit, size);
        nodes.sort_unstable();
        Some(nodes)
    }

    /// Returns the size of the largest job that has room in a unit of the class, even if its size
    /// is of a smaller class.
    pub(super) fn most(&self, class: JobClass) -> u32 {
        let rooms = self.rooms(class, None);
        (0..count(self.topology.units(class.level())))
            .map(|unit| self.room(&rooms, unit))
            .max()
            .unwrap_or(0)
    }

    /// Computes the nodes that every unit can give to a job of a class.
    pub(super) fn rooms(&self, class: JobClass, avoid: Option<(usize, u32)>) -> FreeUnits {
        let topology = &self.topology;
        let is_avoided =
            |leaf: u32| avoid.is_some_and(|(level, unit)| topology.unit_above(leaf, level) == unit);
        let leaf_room = |leaf: u32| {
            let barred = class > JobClass::T0 && self.reaching_out[0][leaf as usize] > 0;
            let usable = !barred && topology.rises_to(leaf, class) && !is_avoided(leaf);
            if usable { self.free[leaf as usize] } else { 0 }
        };
        let mut by_level: Vec<Vec<u32>> = vec![(0..topology.leaf_count()).map(leaf_room).collect()];
        for level in 1..class.level() {
            let mut rooms = vec![0; topology.units(level)];
            for (unit, room) in (0u32..).zip(&by_level[level - 1]) {
                let above = topology.parent(level - 1, unit) as usize;
                if self.reaching_out[level][above] == 0 {
                    rooms[above] += room;
                }
            }
            by_level.push(rooms);
        }
        FreeUnits { class, by_level }
    }

    /// Returns the room in a unit of the class's own level.
    pub(super) fn room(&self, rooms: &FreeUnits, unit: u32) -> u32 {
        let level = rooms.class.level();
        match level {
            0 => rooms.by_level[0][unit as usize],
            _ => {
                let parts = self.topology.children(level, unit);
                parts.iter().map(|part| rooms.by_level[level - 1][*part as usize]).sum()
            }
        }
    }

    /// Chooses the unit for a job: one whose remaining nodes are of no use to a larger class, then
    /// the one with the least room, and likewise for the units around it.
    fn best_unit(&self, rooms: &FreeUnits, size: u32) -> Option<u32> {
        let level = rooms.class.level();
        let free: Vec<Vec<u32>> = (level + 1..3).map(|above| self.free_by_unit(above)).collect();
        let preference = |unit: u32, room: u32| {
            let mut key = [(true, 0); 4];
            key[0] = (self.is_open(level, unit), room);
            let mut unit = unit;
            for (step, free) in free.iter().enumerate() {
                unit = self.topology.parent(level + step, unit);
                key[step + 1] = (self.is_open(level + step + 1, unit), free[unit as usize]);
            }
            key
        };
        (0..count(self.topology.units(level)))
            .map(|unit| (unit, self.room(rooms, unit)))
            .filter(|(_, room)| *room >= size)
            .min_by_key(|(unit, room)| (preference(*unit, *room), *unit))
            .map(|(unit, _)| unit)
    }

    /// Returns whether a job that reaches out of a unit could use it.
    fn is_open(&self, level: usize, unit: u32) -> bool {
        self.reaching_out.get(level).is_none_or(|held| held[unit as usize] == 0)
    }

    fn free_by_unit(&self, level: usize) -> Vec<u32> {
        let mut free = vec![0; self.topology.units(level)];
        for (leaf, nodes) in (0u32..).zip(&self.free) {
            free[self.topology.unit_above(leaf, level) as usize] += nodes;
        }
        free
    }

    /// Collects `size` nodes of a unit that has the room.
    fn gather(&self, rooms: &FreeUnits, level: usize, unit: u32, size: u32) -> Vec<u32> {
        if level == 0 {
            let on_leaf = self.topology.nodes_on(unit).iter().copied();
            let free = on_leaf.filter(|node| self.owner[*node as usize].is_none());
            return free.take(size as usize).collect();
        }
        let parts = self.topology.children(level, unit);
        let room = |part: &u32| rooms.by_level[level - 1][*part as usize];
        let sizes: Vec<u32> = parts.iter().map(room).collect();
        let chosen = cover(&sizes, size).expect("the unit has the room");
        // All parts but one are used up; the one with the most room keeps the spare nodes.
        let last = chosen.iter().copied().max_by_key(|at| (sizes[*at], *at));
        let spare = chosen.iter().map(|at| sizes[*at]).sum::<u32>() - size;
        let mut nodes = Vec::with_capacity(size as usize);
        for at in chosen {
            let kept = if Some(at) == last { spare } else { 0 };
            nodes.extend(self.gather(rooms, level - 1, parts[at], sizes[at] - kept));
        }
        nodes
    }

    /// Explains why a job finds no room in a unit of its class.
    fn no_room(&self, class: JobClass, asked: u32, wider: Option<JobClass>) -> NoRoom {
        let rooms = self.rooms(class, None);
        let topology = &self.topology;
        let units =
            (0..count(topology.units(class.level()))).map(|unit| (self.room(&rooms, unit), unit));
        let (room, unit) =
            units.max_by_key(|(room, unit)| (*room, std::cmp::Reverse(*unit))).unwrap_or((0, 0));
        let mut found = NoRoom {
            class,
            asked,
            wider,
            free: self.free(),
            unit,
            room,
            free_in_unit: 0,
            held: [Held::default(); 3],
            cut_off: 0,
        };
        let mut counted = [None; 3]; // the last unit counted, as leaves come unit by unit
        for leaf in (0..topology.leaf_count())
            .filter(|leaf| topology.unit_above(*leaf, class.level()) == unit)
        {
            let free = self.free[leaf as usize];
            found.free_in_unit += free;
            let by = (0..class.level()).rev().find(|level| {
                self.reaching_out[*level][topology.unit_above(leaf, *level) as usize] > 0
            });
            match by {
                Some(level) if free > 0 => {
                    let above = topology.unit_above(leaf, level);
                    found.held[level].nodes += free;
                    found.held[level].units +=
                        u32::from(counted[level].replace(above) != Some(above));
                }
                None if !topology.rises_to(leaf, class) => found.cut_off += free,
                Some(_) | None => {}
            }
        }
        found
    }
}
