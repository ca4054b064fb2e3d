//! Finds better homes for groups: spanning trees on which packets cross fewer links.
//!
//! Groups get their homes one after the other, mostly with one member known, and other groups end
//! meanwhile. So groups may be merged though trees on which they would be alone are free by now.
//!
//! The measure is the sum of the EFI of all links (C-MR4LMS §2, definition 5): the links that
//! packets cross if every group sends one. The search is greedy. Groups of the largest virtual
//! groups come first. For each one the allocator offers a few trees, an engine plans the group on
//! them, and the group moves to the best one if it is better than its present one. A group without
//! a route moves to any tree that gives it one.
//!
//! Invariants
//! - HOMES-1: each move lowers the number of groups without a route, or leaves it as it is and
//!   lowers the measure.
//! - HOMES-2: exclusive groups do not move, and after no move another group shares their links.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Mgid, Peer, PortId};
use thiserror::Error;

use crate::allocator::{AllocatorError, MgidAllocator, Wanted};
use crate::build_engine::build_engine;
use crate::change::{Change, ChangeError};
use crate::metrics::{Metrics, metrics, ports_once};
use crate::plan::Plan;
use crate::routing_engine::{BuildError, EngineKind, EngineOptions, RoutingEngine};

/// Trees that are tried for a group.
const OFFERS: usize = 4;
/// Groups that are looked at for each move that is allowed, and at least.
const TRIED_PER_MOVE: usize = 8;
const LEAST_TRIED: usize = 500;

/// A group as the search needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomedGroup {
    /// MGID of its home.
    pub home: Mgid,
    /// Its members, each once, rising.
    pub members: Vec<EndpointId>,
    /// True if it shares its tree with nobody.
    pub exclusive: bool,
}

/// The fabric and the groups as they are.
#[derive(Clone, Debug)]
pub struct HomeSearch {
    /// The whole fabric, failed parts included.
    pub graph: Arc<Graph>,
    /// Engine that plans the groups.
    pub kind: EngineKind,
    /// Table sizes and policies of that engine.
    pub options: EngineOptions,
    /// Parts of the fabric that have failed.
    pub faults: Faults,
    /// All groups with their homes; those that stay share tables with those that move.
    pub groups: Vec<HomedGroup>,
}

/// A group that would be better off on another tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeMove {
    /// MGID of its home.
    pub from: Mgid,
    /// An MGID of the other tree.
    pub to: Mgid,
    /// Number of that tree.
    pub tree: u32,
    /// The number of groups without a route that get one.
    pub newly_routed: u32,
    /// The number of links that packets cross less; negative if newly routed groups take more.
    pub saved_links: i64,
}

/// Moves in the order in which they were found, and what they change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BetterHomes {
    /// In the order in which they are to be made.
    pub moves: Vec<HomeMove>,
    /// The measure without them and with them.
    pub links: [u64; 2],
    /// Figures of the plan without them and with them.
    pub metrics: [Metrics; 2],
    /// True if not all groups were looked at that might be better off elsewhere.
    pub is_partial: bool,
}

/// Reason why there are no better homes.
#[derive(Debug, Error)]
pub enum HomeError {
    /// The engine chooses the tree of a group by itself.
    #[error("{kind} chooses trees itself, whatever home a group has")]
    NoHomes {
        /// Kind of the engine.
        kind: EngineKind,
    },
    /// The engine cannot be made.
    #[error(transparent)]
    Engine(#[from] BuildError),
    /// The engine refuses a group.
    #[error("the groups cannot be planned: {0}")]
    Group(#[from] ChangeError),
    /// Two groups have one home.
    #[error("the homes contradict each other: {0}")]
    Homes(#[from] AllocatorError),
}

/// Number of groups without a route, and the measure: less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    unrouted: u64,
    links: u64,
}

/// Finds at most `most` moves.
///
/// Cost: a plan from scratch; for each of at most `8 * most`, or 500, groups some choices of an
/// MGID and twice as many changes of the plan.
///
/// # Errors
///
/// [`HomeError`] if the engine does not plan groups by their MGID alone, or refuses the groups.
pub fn better_homes(search: &HomeSearch, most: usize) -> Result<BetterHomes, HomeError> {
    let HomeSearch { graph, kind, options, faults, groups } = search;
    if kind.plan_depends_on_history() {
        return Err(HomeError::NoHomes { kind: *kind });
    }
    let fat_tree = FatTree::detect(graph).ok().map(Arc::new);
    let options = EngineOptions { stay_after_healing: false, ..*options };
    let mut engine = build_engine(*kind, Arc::clone(graph), fat_tree, options)?;
    engine.set_faults(faults.clone());
    let puts: Vec<Change> = groups.iter().map(|group| put(group.home, group)).collect();
    engine.apply(&puts)?;
    let mut allocator = MgidAllocator::new(*engine.space());
    for group in groups {
        insert(&mut allocator, group.home, group)?;
    }
    let before = engine.plan().clone();
    let (candidates, is_cut) = candidates(&before, groups, most);
    let exclusive = groups.iter().filter(|group| group.exclusive).map(|group| group.home);
    let mut trial = Trial { engine: engine.as_mut(), exclusive: exclusive.collect() };
    let mut moves = Vec::new();
    let mut is_partial = is_cut;
    for at in candidates {
        if moves.len() == most {
            is_partial = true;
            break;
        }
        let group = &groups[at];
        if let Some(found) = trial.best_move(&mut allocator, group)? {
            moves.push(found);
        }
    }
    let after = engine.plan();
    let all = |plan: &Plan| cost(graph, plan, groups_of(plan)).links;
    Ok(BetterHomes {
        moves,
        links: [all(&before), all(after)],
        metrics: [metrics(graph, &before), metrics(graph, after)],
        is_partial,
    })
}

/// Places of the groups that might be better off elsewhere: those without a route, then those of
/// the largest virtual groups; and whether there are more.
fn candidates(plan: &Plan, groups: &[HomedGroup], most: usize) -> (Vec<usize>, bool) {
    let sharers = |group: &HomedGroup| match plan.virtual_group_of(group.home) {
        _ if plan.group(group.home).is_none() => usize::MAX,
        Some(shared) => shared.groups.len(),
        None => 0, // it has no two live members
    };
    let movable = (0..groups.len()).filter(|at| !groups[*at].exclusive);
    let mut found: Vec<usize> = movable.filter(|at| sharers(&groups[*at]) > 1).collect();
    found.sort_by_cached_key(|at| (Reverse(sharers(&groups[*at])), groups[*at].home));
    let limit = LEAST_TRIED.max(most.saturating_mul(TRIED_PER_MOVE));
    let is_cut = found.len() > limit;
    found.truncate(limit);
    (found, is_cut)
}

fn put(home: Mgid, group: &HomedGroup) -> Change {
    Change::Put { mgid: home, members: group.members.clone() }
}

fn insert(
    allocator: &mut MgidAllocator,
    home: Mgid,
    group: &HomedGroup,
) -> Result<(), AllocatorError> {
    let members: Vec<u32> = group.members.iter().map(|endpoint| endpoint.0).collect();
    allocator.insert(home, &Wanted { exclusive: group.exclusive, ..Wanted::of(&members) })
}

/// MGIDs of all groups of a plan.
fn groups_of(plan: &Plan) -> Vec<Mgid> {
    let routed = plan.groups().map(|group| group.mgid);
    routed.chain(plan.unrouted().iter().map(|one| one.mgid)).collect()
}

/// The cost of the virtual groups of some groups.
fn cost(graph: &Graph, plan: &Plan, groups: impl IntoIterator<Item = Mgid>) -> Cost {
    let mut found = Cost::default();
    let mut seen = BTreeSet::new();
    for mgid in groups {
        let is_unrouted = plan.unrouted().binary_search_by_key(&mgid, |one| one.mgid).is_ok();
        found.unrouted += u64::from(is_unrouted);
        let trees = plan.virtual_group_trees(mgid);
        let Some(first) = trees.first().filter(|tree| seen.insert(tree.id.0)) else { continue };
        // A link between switches has two ports; its lower-numbered one stands for it.
        let is_upper =
            |port: &PortId| matches!(graph.peer(*port), Peer::Switch(one) if one < *port);
        let links = ports_once(graph, &trees).filter(|port| !is_upper(port)).count();
        found.links += (links * first.groups.len()) as u64;
    }
    found
}

/// An engine in which moves are tried.
struct Trial<'a> {
    engine: &'a mut dyn RoutingEngine,
    /// Homes of exclusive groups.
    exclusive: BTreeSet<Mgid>,
}

impl Trial<'_> {
    /// Moves a group to the best of the trees that the allocator offers; `None` if it stays.
    fn best_move(
        &mut self,
        allocator: &mut MgidAllocator,
        group: &HomedGroup,
    ) -> Result<Option<HomeMove>, HomeError> {
        let from = group.home;
        allocator.remove(from)?;
        let space = *self.engine.space();
        let members: Vec<u32> = group.members.iter().map(|endpoint| endpoint.0).collect();
        let mut avoid = vec![space.spt(from)];
        let mut best: Option<HomeMove> = None;
        for _ in 0..OFFERS {
            let wanted = Wanted { avoid: &avoid, ..Wanted::of(&members) };
            let Some(choice) = allocator.choose(&wanted) else { break };
            avoid.push(space.spt(choice.mgid));
            if choice.breaches > 0 {
                continue; // other groups keep it from this tree
            }
            let gain = self.gain(group, choice.mgid)?;
            self.change(choice.mgid, from, group)?;
            let Some(gain) = gain else { continue };
            let is_better = |best: &HomeMove| {
                (gain.newly_routed, gain.saved_links) > (best.newly_routed, best.saved_links)
            };
            if best.as_ref().is_none_or(is_better) {
                best = Some(gain);
            }
        }
        if let Some(found) = &best {
            self.change(from, found.to, group)?;
        }
        let home = best.as_ref().map_or(from, |found| found.to);
        insert(allocator, home, group)?;
        Ok(best)
    }

    /// Moves a group and returns what that gains; `None` if it gains nothing.
    fn gain(&mut self, group: &HomedGroup, to: Mgid) -> Result<Option<HomeMove>, HomeError> {
        let (from, before) = (group.home, self.engine.plan().clone());
        self.change(from, to, group)?;
        let after = self.engine.plan();
        let changed = after.changed_groups(&before).into_iter();
        // By home in the plan before: home in the plan after.
        let mut concerned: BTreeMap<Mgid, Mgid> = changed.map(|mgid| (mgid, mgid)).collect();
        concerned.remove(&to);
        concerned.insert(from, to);
        let takes_exclusive = |home: &Mgid| {
            let shared = after.virtual_group_of(*home);
            self.exclusive.contains(home) && shared.is_some_and(|shared| shared.groups.len() > 1)
        };
        if concerned.values().any(takes_exclusive) {
            return Ok(None);
        }
        let graph = self.engine.graph();
        let was = cost(graph, &before, concerned.keys().copied());
        let is = cost(graph, after, concerned.values().copied());
        let tree = self.engine.space().spt(to);
        let less = |was: u64, is: u64| was.cast_signed() - is.cast_signed();
        let newly_routed = less(was.unrouted, is.unrouted);
        let gain = HomeMove {
            from,
            to,
            tree,
            newly_routed: u32::try_from(newly_routed).unwrap_or(0),
            saved_links: less(was.links, is.links),
        };
        Ok((is < was).then_some(gain))
    }

    fn change(&mut self, from: Mgid, to: Mgid, group: &HomedGroup) -> Result<(), ChangeError> {
        self.engine.apply(&[Change::Delete { mgid: from }, put(to, group)])
    }
}
