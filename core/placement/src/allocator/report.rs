//! Reports the fragmentation of the free nodes, and the moves of jobs that would reduce it.

use super::JobAllocator;
use crate::job::{JobClass, JobId};
use crate::topology::count;

/// Limit on units of a class that are tried.
const TRIED: usize = 16;

/// Room for jobs, by class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReport {
    /// Nodes available to jobs.
    pub live: u32,
    /// Available nodes without a job.
    pub free: u32,
    /// One entry for each class of the fabric, ascending.
    pub classes: Vec<ClassCapacity>,
}

/// Room for jobs of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassCapacity {
    /// Class of the jobs.
    pub class: JobClass,
    /// Smallest job that is of this class by its size, in nodes.
    pub least: u32,
    /// Largest job of this class on an empty fabric, in nodes.
    pub most: u32,
    /// Largest job that has room in a unit of this class now, in nodes. If it is less than `least`,
    /// no job of the class has room.
    pub fits: u32,
    /// Largest job after `moves`, in nodes.
    pub after: u32,
    /// Jobs to move, in this order, for the largest gain.
    pub moves: Vec<Move>,
}

/// Move of one job to other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Number of the job.
    pub job: JobId,
    /// Numbers of its present nodes.
    pub from: Vec<u32>,
    /// New nodes; all free once the earlier moves are made and the job has left its present nodes.
    pub to: Vec<u32>,
}

impl JobAllocator {
    /// Computes the largest job of each class now, and the moves that would make room for a larger
    /// one.
    ///
    /// Cost: the jobs in the units with the most room, each times the leaves of the fabric.
    #[must_use]
    pub fn report(&self) -> JobReport {
        let mut below = 0;
        let classes = self.topology.classes().map(|class| {
            let most = self.topology.largest(class);
            let least = std::mem::replace(&mut below, most) + 1;
            let (after, moves) = self.room_by_moves(class, most);
            ClassCapacity { class, least, most, fits: self.most(class), after, moves }
        });
        let classes = classes.collect();
        JobReport { live: self.topology.live_by_leaf().iter().sum(), free: self.free(), classes }
    }

    /// Returns the jobs to move so that one of `size` nodes has room: empty if none needs to,
    /// `None` if moving jobs of the units with the most room does not help.
    #[must_use]
    pub fn make_room(&self, size: u32) -> Option<Vec<Move>> {
        let class = self.topology.class_of_size(size)?;
        let (after, moves) = self.room_by_moves(class, size);
        (after >= size).then_some(moves)
    }

    /// Returns the room of a class, up to `wanted` nodes, and the moves that make it, with the
    /// fewest nodes moved.
    fn room_by_moves(&self, class: JobClass, wanted: u32) -> (u32, Vec<Move>) {
        let rooms = self.rooms(class, None);
        let units = 0..count(self.topology.units(class.level()));
        let mut units: Vec<(u32, u32)> =
            units.map(|unit| (self.room(&rooms, unit), unit)).collect();
        units.sort_by_key(|(room, unit)| (std::cmp::Reverse(*room), *unit));
        let now = units.first().map_or(0, |(room, _)| *room);
        if now >= wanted {
            return (now, Vec::new());
        }
        let tried = units.into_iter().take(TRIED).map(|(_, unit)| self.clear(class, unit, wanted));
        let moved = |moves: &[Move]| moves.iter().map(|one| one.from.len()).sum::<usize>();
        let best = tried
            .filter(|(after, _)| *after > now)
            .min_by_key(|(after, moves)| (std::cmp::Reverse((*after).min(wanted)), moved(moves)));
        best.unwrap_or((now, Vec::new()))
    }

    /// Moves jobs out of a unit, small ones first, until a job of `wanted` nodes has room there.
    fn clear(&self, class: JobClass, unit: u32, wanted: u32) -> (u32, Vec<Move>) {
        let level = class.level();
        let mut trial = self.clone();
        let mut waiting: Vec<JobId> = self
            .jobs()
            .filter(|(_, job)| self.topology.units_of(level, &job.nodes).contains(&unit))
            .map(|(id, _)| id)
            .collect();
        waiting.sort_by_key(|id| (self.jobs[id].nodes.len(), *id));
        let (mut room, mut moves) = (trial.room_in(class, unit), Vec::new());
        loop {
            let before = moves.len();
            waiting.retain(|id| {
                if room >= wanted {
                    return true;
                }
                match trial.move_for_room(*id, class, unit, room) {
                    Some((one, gained)) => {
                        room = gained;
                        moves.push(one);
                        false
                    }
                    None => true, // a later move may make this one useful
                }
            });
            if room >= wanted || moves.len() == before {
                return (room, moves);
            }
        }
    }

    /// Moves a job if that leaves more than `room` in a unit: out of the unit, or else together
    /// inside it.
    fn move_for_room(
        &mut self,
        id: JobId,
        class: JobClass,
        unit: u32,
        room: u32,
    ) -> Option<(Move, u32)> {
        let job = self.release(id).expect("it has not moved yet");
        for avoid in [Some((class.level(), unit)), None] {
            let Some(to) = self.find_spread(count(job.nodes.len()), avoid) else { continue };
            self.assign(id, to.clone());
            let gained = self.room_in(class, unit);
            if gained > room {
                return Some((Move { job: id, from: job.nodes, to }, gained));
            }
            self.release(id);
        }
        self.assign(id, job.nodes);
        None
    }

    fn room_in(&self, class: JobClass, unit: u32) -> u32 {
        self.room(&self.rooms(class, None), unit)
    }
}
