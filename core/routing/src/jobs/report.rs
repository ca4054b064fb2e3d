//! How broken up the free nodes are, and which jobs would have to move to mend that.

use super::ground::count;
use super::{JobAllocator, JobClass, JobId};

/// Units of a class that are tried as the place to make room in.
const TRIED: usize = 16;

/// What fits, class by class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReport {
    /// Nodes that jobs can have.
    pub live: u32,
    /// Of these, nodes that no job has.
    pub free: u32,
    /// One line for each class of the fabric, rising.
    pub classes: Vec<ClassRoom>,
}

/// What jobs of one class find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRoom {
    /// The class.
    pub class: JobClass,
    /// The smallest job that is of this class by its size.
    pub least: u32,
    /// The largest job of this class on an empty fabric.
    pub most: u32,
    /// The largest job that finds room in a unit of this class now; no job of the class does if less than `least`.
    pub fits: u32,
    /// The same after `moves`.
    pub after: u32,
    /// Jobs to move, in this order, for the most room that moving them makes.
    pub moves: Vec<Move>,
}

/// One job that is to run elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The job.
    pub job: JobId,
    /// The nodes it has.
    pub from: Vec<u32>,
    /// The nodes it would have; all free once the moves before this one are made and it has left its own.
    pub to: Vec<u32>,
}

impl JobAllocator {
    /// Says how large a job of each class can be now, and after which moves it could be larger.
    ///
    /// Cost: the jobs in the roomiest units, each times the leaves of the fabric.
    #[must_use]
    pub fn report(&self) -> JobReport {
        let mut below = 0;
        let classes = self.ground.classes().map(|class| {
            let most = self.ground.largest(class);
            let least = std::mem::replace(&mut below, most) + 1;
            let (after, moves) = self.room_by_moves(class, most);
            ClassRoom { class, least, most, fits: self.most(class), after, moves }
        });
        let classes = classes.collect();
        JobReport { live: self.ground.live_by_leaf().iter().sum(), free: self.free(), classes }
    }

    /// Says which jobs would have to move so that one of `size` nodes finds room; empty if none have to, none
    /// if moving jobs of the roomiest units does not help.
    #[must_use]
    pub fn make_room(&self, size: u32) -> Option<Vec<Move>> {
        let class = self.ground.class_of_size(size)?;
        let (after, moves) = self.room_by_moves(class, size);
        (after >= size).then_some(moves)
    }

    /// Makes room for `wanted` nodes of a class, or as many as can be had, with the fewest nodes moved.
    fn room_by_moves(&self, class: JobClass, wanted: u32) -> (u32, Vec<Move>) {
        let rooms = self.rooms(class, None);
        let units = 0..count(self.ground.units(class.level()));
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
            .filter(|(_, job)| self.ground.units_of(level, &job.nodes).contains(&unit))
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
                    None => true, // once others have moved, it may be of use to move it too
                }
            });
            if room >= wanted || moves.len() == before {
                return (room, moves);
            }
        }
    }

    /// Moves a job if that leaves more than `room` in a unit: out of the unit, or else together inside it.
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
            self.take(id, to.clone());
            let gained = self.room_in(class, unit);
            if gained > room {
                return Some((Move { job: id, from: job.nodes, to }, gained));
            }
            self.release(id);
        }
        self.take(id, job.nodes);
        None
    }

    fn room_in(&self, class: JobClass, unit: u32) -> u32 {
        self.room(&self.rooms(class, None), unit)
    }
}
