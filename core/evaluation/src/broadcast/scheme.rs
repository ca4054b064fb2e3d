//! The ways to broadcast that are compared.

use fabricast_routing::{BatchGroup, EngineKind, MgidAllocator, MgidSpace, PatternGroup};
use fabricast_simulator::{Chance, Roots, Routes, TreeId};
use fabricast_topology::{EndpointId, Mgid, TableKind};

use super::jobs::{Jobs, leaf, port};
use super::spread::{Flow, Ways};
use super::{LEAVES, PROGRAMMED, RAILS, SERVERS, SPINES};
use crate::experiment::Run;
use crate::network::trees;
use crate::routing::{Fabric, Refusal, Way, route};

/// Entries of a port's table.
pub(super) const ENTRIES: u16 = 32;
/// Packets of a chunk of the pipelined ring: 64 KiB.
const CHUNK: u32 = 45;

/// One way to broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// A tree to the members alone by way of every spine switch, packets in turn.
    Optimal,
    /// One tree of an engine from our tables of 32 entries, which hold the groups of so many jobs.
    Ours { engine: EngineKind, programmed: u32 },
    /// One copy for each power-of-two prefix of leaf switches, packets in turn of the spines.
    PeelExact,
    /// One copy for the least prefix that has all leaf switches; those that it has besides drop it.
    PeelOne,
    /// A source route by way of one spine switch, drawn for each flow.
    Elmo,
    /// From server to server, whole messages.
    Ring,
    /// From server to server, chunk by chunk.
    RingInChunks,
    /// From each server to two others, whole messages.
    BinaryTree,
}

/// Flows of a scheme, and their cost.
pub(super) struct Plan {
    pub(super) flows: Vec<Flow>,
    pub(super) header_bytes: u32,
    /// Most entries of a table.
    pub(super) entries: u32,
}

impl Scheme {
    pub(super) const ALL: [Self; 11] = [
        Self::Optimal,
        Self::Ours { engine: EngineKind::CMr4lmsFixed, programmed: PROGRAMMED[0] },
        Self::Ours { engine: EngineKind::CMr4lmsFixed, programmed: PROGRAMMED[1] },
        Self::Ours { engine: EngineKind::Mr4lms, programmed: PROGRAMMED[0] },
        Self::Ours { engine: EngineKind::Mr4lms, programmed: PROGRAMMED[1] },
        Self::PeelExact,
        Self::PeelOne,
        Self::Elmo,
        Self::RingInChunks,
        Self::Ring,
        Self::BinaryTree,
    ];

    pub(super) fn name(self) -> String {
        match self {
            Self::Optimal => "optimal".to_owned(),
            Self::Ours { engine, programmed } => {
                format!("ours, {engine}, {ENTRIES} entries, {} groups", programmed * RAILS)
            }
            Self::PeelExact => "prefixes, exact (as PEEL)".to_owned(),
            Self::PeelOne => "prefixes, one for all (as PEEL)".to_owned(),
            Self::Elmo => "source routes (as Elmo)".to_owned(),
            Self::Ring => "ring, whole messages".to_owned(),
            Self::RingInChunks => "ring, chunks of 64 KiB".to_owned(),
            Self::BinaryTree => "binary tree, whole messages".to_owned(),
        }
    }

    /// Jobs whose groups exist at once.
    pub(super) const fn programmed(self) -> u32 {
        match self {
            Self::Ours { programmed, .. } => programmed,
            Self::Optimal
            | Self::PeelExact
            | Self::PeelOne
            | Self::Elmo
            | Self::Ring
            | Self::RingInChunks
            | Self::BinaryTree => PROGRAMMED[0],
        }
    }

    /// Makes the flows of the jobs that broadcast, and their trees.
    pub(super) fn plan(
        self,
        run: &Run<'_>,
        fabric: &Fabric,
        jobs: &Jobs,
        routes: &mut Routes,
    ) -> Result<Plan, Refusal> {
        if let Self::Ours { engine, .. } = self {
            return ours(run, fabric, engine, jobs, routes);
        }
        let roots = Roots::new(&fabric.graph, fabric.fat_tree()?);
        let mut chance = Chance::new(jobs.seed, 0xE1);
        let (mut flows, mut header_bytes) = (Vec::new(), 0);
        for servers in jobs.active() {
            let (source, others) = servers.split_first().ok_or("a job without servers")?;
            let leaves: Vec<u32> = others.iter().map(|server| leaf(*server)).collect();
            for rail in 0..RAILS {
                let members: Vec<EndpointId> =
                    servers.iter().map(|server| port(*server, rail)).collect();
                let mut by = |spine: u32, to: &[EndpointId]| -> Result<TreeId, Refusal> {
                    Ok(roots.add(routes, port(*source, rail), to, spine % SPINES)?)
                };
                // Every packet by the next spine switch, each rail beginning with another one.
                let mut sprayed = |sets: &[Vec<EndpointId>]| -> Result<Ways, Refusal> {
                    let entry = |turn| sets.iter().map(|to| by(rail * 2 + turn, to)).collect();
                    Ok(Ways::Trees((0..SPINES).map(entry).collect::<Result<_, Refusal>>()?))
                };
                let ways = match self {
                    Self::Optimal | Self::Ours { .. } => sprayed(&[members[1..].to_vec()])?,
                    Self::PeelExact => {
                        header_bytes = PREFIX_BYTES;
                        let of = |block: &Block| members_in(&members[1..], others, *block);
                        sprayed(&prefixes(&leaves).iter().map(of).collect::<Vec<_>>())?
                    }
                    Self::PeelOne => {
                        header_bytes = PREFIX_BYTES;
                        let block = common_prefix(&leaves);
                        let mut to = members[1..].to_vec();
                        to.extend(dropped(block, &leaves, rail));
                        to.sort_unstable();
                        sprayed(&[to])?
                    }
                    Self::Elmo => {
                        header_bytes = header_bytes.max(elmo_bytes(others));
                        Ways::Trees(vec![vec![by(chance.below(SPINES), &members[1..])?]])
                    }
                    Self::Ring => servers_in(members.len(), 1, u32::MAX),
                    Self::RingInChunks => servers_in(members.len(), 1, CHUNK),
                    Self::BinaryTree => servers_in(members.len(), 2, u32::MAX),
                };
                flows.push(Flow { members, ways });
            }
        }
        Ok(Plan { flows, header_bytes, entries: self.entries(jobs) })
    }

    /// Most entries that a table has to hold.
    fn entries(self, jobs: &Jobs) -> u32 {
        match self {
            // One for every group whose tree has the port, by way of every spine switch.
            Self::Optimal => {
                let of = |server: u32| jobs.all.iter().filter(|job| job.contains(&server)).count();
                let most = (0..SERVERS).map(of).max().unwrap_or(0);
                u32::try_from(most).expect("few jobs") * SPINES
            }
            // All prefixes of 32 leaf switches, written once.
            Self::PeelExact | Self::PeelOne => 2 * LEAVES - 1,
            Self::Ours { .. } | Self::Elmo | Self::Ring | Self::RingInChunks | Self::BinaryTree => {
                0
            }
        }
    }
}

/// Plans the groups of all jobs, a group for each rail.
fn ours(
    run: &Run<'_>,
    fabric: &Fabric,
    engine: EngineKind,
    jobs: &Jobs,
    routes: &mut Routes,
) -> Result<Plan, Refusal> {
    let members = |servers: &[u32], rail| -> Vec<EndpointId> {
        servers.iter().map(|server| port(*server, rail)).collect()
    };
    let way = Way::new(engine, ENTRIES, TableKind::PerPort);
    let mut mgids: Vec<Mgid> = Vec::new();
    let routed = route(run, fabric, way, |space| {
        let groups = groups(space, jobs)?;
        let of_job = |job: &usize| {
            let first = job * RAILS as usize;
            first..first + RAILS as usize
        };
        mgids.extend(jobs.active.iter().flat_map(of_job).map(|at| groups[at].mgid));
        Ok(groups)
    })?;
    let (planned, of_groups) = trees(&fabric.graph, &routed.plan, &mgids)?;
    *routes = planned;
    let each = jobs.active().flat_map(|servers| (0..RAILS).map(move |rail| (servers, rail)));
    let flows = each.zip(of_groups).map(|((servers, rail), trees)| Flow {
        members: members(servers, rail),
        ways: Ways::Trees(vec![trees]),
    });
    let flows: Vec<Flow> = flows.collect();
    if flows.iter().any(|flow| flow.has_no_tree()) {
        return Err("a group that broadcasts has no tree".into());
    }
    Ok(Plan { flows, header_bytes: 0, entries: routed.figures.max_entries })
}

/// Lists the groups of all jobs, rail by rail, with MGIDs as the TIC would choose them for groups
/// that it knows together.
fn groups(space: &MgidSpace, jobs: &Jobs) -> Result<Vec<PatternGroup>, Refusal> {
    let rails = jobs.all.iter().flat_map(|job| (0..RAILS).map(move |rail| (job, rail)));
    let members: Vec<Vec<u32>> = rails
        .map(|(servers, rail)| {
            let mut members: Vec<u32> =
                servers.iter().map(|server| port(*server, rail).0).collect();
            members.sort_unstable();
            members
        })
        .collect();
    let names: Vec<String> = (0..members.len()).map(|number| number.to_string()).collect();
    let wanted = members.iter().zip(&names);
    let wanted: Vec<BatchGroup<'_>> =
        wanted.map(|(members, name)| BatchGroup { name, ..BatchGroup::of(members) }).collect();
    let choices = MgidAllocator::new(*space).planner().choose_all(&wanted)?;
    let groups = choices.iter().zip(&members).zip(&names);
    let groups = groups.map(|((choice, members), name)| PatternGroup {
        mgid: choice.mgid,
        name: name.clone(),
        members: members.iter().map(|member| EndpointId(*member)).collect(),
    });
    Ok(groups.collect())
}

/// Each server sends on to `width` others, in the order of the job.
fn servers_in(count: usize, width: usize, chunk: u32) -> Ways {
    let children = (0..count)
        .map(|at| (at * width + 1..=at * width + width).filter(|child| *child < count).collect());
    Ways::Servers { children: children.collect(), chunk }
}

/// Leaf switches whose numbers begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first: u32,
    size: u32,
}

impl Block {
    const fn has(self, leaf: u32) -> bool {
        leaf >= self.first && leaf < self.first + self.size
    }
}

/// Bytes of a prefix and its length in a header: 5 bits and 3.
const PREFIX_BYTES: u32 = 1;

/// Covers leaf switches, and no others, with the fewest prefixes.
fn prefixes(leaves: &[u32]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open = vec![Block { first: 0, size: LEAVES }];
    while let Some(block) = open.pop() {
        let inside = (block.first..block.first + block.size).filter(|leaf| leaves.contains(leaf));
        match u32::try_from(inside.count()).expect("32 leaf switches") {
            0 => {}
            count if count == block.size => blocks.push(block),
            _ => {
                let size = block.size / 2;
                open.push(Block { first: block.first + size, size });
                open.push(Block { first: block.first, size });
            }
        }
    }
    blocks
}

/// Gives the least prefix that has all leaf switches.
fn common_prefix(leaves: &[u32]) -> Block {
    let mut block = Block { first: 0, size: LEAVES };
    loop {
        let size = block.size / 2;
        let halves = [block.first, block.first + size].map(|first| Block { first, size });
        let whole = halves.into_iter().find(|half| leaves.iter().all(|leaf| half.has(*leaf)));
        let Some(half) = whole.filter(|_| size > 0) else { return block };
        block = half;
    }
}

fn members_in(members: &[EndpointId], servers: &[u32], block: Block) -> Vec<EndpointId> {
    let inside = members.iter().zip(servers).filter(|(_, server)| block.has(leaf(**server)));
    inside.map(|(member, _)| *member).collect()
}

/// One adapter of every leaf switch that a prefix has besides: it gets the copy and drops it.
fn dropped(block: Block, leaves: &[u32], rail: u32) -> impl Iterator<Item = EndpointId> {
    let others = (block.first..block.first + block.size).filter(|leaf| !leaves.contains(leaf));
    others.map(move |leaf| port(leaf * (SERVERS / LEAVES), rail))
}

/// Bytes of a source route: the outputs of the source's leaf switch, of the spine switch, and of
/// every other leaf switch with its number.
fn elmo_bytes(servers: &[u32]) -> u32 {
    let mut leaves: Vec<u32> = servers.iter().map(|server| leaf(*server)).collect();
    leaves.sort_unstable();
    leaves.dedup();
    let ports = RAILS * (SERVERS / LEAVES);
    let of_leaf = ports + LEAVES.ilog2();
    let others = u32::try_from(leaves.len()).expect("32 leaf switches");
    (ports + SPINES.ilog2() + LEAVES + others * of_leaf).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_cover_the_leaf_switches_and_no_others() {
        let blocks = prefixes(&[4, 5, 6, 7, 9]);
        assert_eq!(blocks, [Block { first: 4, size: 4 }, Block { first: 9, size: 1 }]);
        assert_eq!(prefixes(&[0, 31]).len(), 2);
        assert_eq!(prefixes(&(0..32).collect::<Vec<_>>()), [Block { first: 0, size: 32 }]);
    }

    #[test]
    fn one_prefix_has_all_leaf_switches() {
        assert_eq!(common_prefix(&[4, 7]), Block { first: 4, size: 4 });
        assert_eq!(common_prefix(&[3, 4]), Block { first: 0, size: 8 });
        assert_eq!(common_prefix(&[9]), Block { first: 9, size: 1 });
        assert_eq!(dropped(Block { first: 4, size: 4 }, &[4, 7], 2).count(), 2);
    }

    #[test]
    fn a_ring_is_a_tree_of_width_one() {
        let children = |width| match servers_in(4, width, 1) {
            Ways::Servers { children, .. } => children,
            Ways::Trees(_) => unreachable!("servers send"),
        };
        assert_eq!(children(1), [vec![1], vec![2], vec![3], vec![]]);
        assert_eq!(children(2), [vec![1, 2], vec![3], vec![], vec![]]);
    }

    #[test]
    fn source_routes_grow_with_the_leaf_switches() {
        // Two ports and five bits of each leaf switch beside 52 bits.
        assert_eq!(elmo_bytes(&[0, 1, 2, 3]), (52 + 2 * 21_u32).div_ceil(8));
    }
}
