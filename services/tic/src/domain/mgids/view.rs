//! Allocations as tests compare them.

use fabricast_routing::Choice;

use super::*;

/// Allocations at one moment.
#[derive(Debug, PartialEq)]
pub(crate) struct MgidView {
    pub(crate) recorded: RecordedMgids,
    tried: BTreeMap<Gn, Vec<u32>>,
    expected: BTreeMap<Mgid, Vec<u32>>,
    /// Choices for some groups.
    choices: Vec<Option<Choice>>,
}

/// The parts that are functions of the records.
#[derive(Debug, PartialEq)]
pub(crate) struct RecordedMgids {
    homes: BTreeMap<Gn, Mgid>,
    processes: BTreeMap<(Gn, u32), u32>,
    taken: Vec<bool>,
}

impl MgidAllocations {
    /// - `mgids`: how many there are.
    pub(crate) fn view(&self, mgids: u32) -> MgidView {
        let members: [&[u32]; 4] = [&[], &[0], &[2, 4], &[1, 3, 5]];
        let choose = |(members, exclusive)| {
            self.allocator.choose(&Wanted { exclusive, ..Wanted::of(members) })
        };
        let asked = members.into_iter().flat_map(|members| [(members, false), (members, true)]);
        MgidView {
            recorded: RecordedMgids {
                homes: self.homes.range(..).map(|(gn, home)| (*gn, *home)).collect(),
                processes: self.processes.range(..).map(|(at, count)| (*at, *count)).collect(),
                taken: (0..mgids).map(|mgid| self.allocator.has(Mgid(mgid))).collect(),
            },
            tried: self.tried.range(..).map(|(gn, tried)| (*gn, tried.clone())).collect(),
            expected: self.expected.clone(),
            choices: asked.map(choose).collect(),
        }
    }
}
