//! Long histories of many groups on few spanning trees: what is mended, member by member, is what
//! would be built.

use std::collections::BTreeSet;

use fabricast_routing::{Change, FixedRootEngine, Plan};
use fabricast_topology::{EndpointId, Faults, Mgid, TableKind};
use proptest::prelude::*;

use crate::fabrics::{Fabric, Way, faults, faults_of};
use crate::oracle::{Oracle, answer_of};

/// One to four levels, wide leaves, parallel links.
const SPECS: [&str; 6] = [
    "kind = \"leaf-spine\"\nleaves = 1\nspines = 0\nendpoints_per_leaf = 40",
    "kind = \"leaf-spine\"\nleaves = 12\nspines = 2\nendpoints_per_leaf = 6",
    "kind = \"leaf-spine\"\nleaves = 3\nspines = 1\nendpoints_per_leaf = 70",
    "kind = \"k-ary-3-level\"\nk = 6\npods = 5\nendpoints_per_leaf = 3",
    "kind = \"cn-tn-fat-tree\"\nq = 3\nm = 1\np = 1\nk = 2\nw = 3\nl3_per_tn = 1\n\
     endpoints_per_leaf = 4",
    "kind = \"cn-tn-fat-tree\"\nq = 3\nm = 2\np = 2\nk = 3\nw = 2\nl3_per_tn = 2\n\
     endpoints_per_leaf = 5\nlanes0 = 2",
];

/// One step; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    /// A group, a member, and whether other uses of the color may be in its way.
    Join(u32, u32, bool),
    Leave(u32, usize),
    Put(u32, Vec<u32>),
    Delete(u32),
    /// Several changes of different groups at once.
    Batch(Vec<(u32, u32)>),
    Faults(Vec<(u8, u32)>),
    Heal,
}

const GROUPS: u32 = 48;

fn history(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let mgid = 0..GROUPS;
    let step = prop_oneof![
        400 => (mgid.clone(), any::<u32>(), proptest::bool::weighted(0.002))
            .prop_map(|(mgid, at, rude)| Step::Join(mgid, at, rude)),
        300 => (mgid.clone(), any::<usize>()).prop_map(|(mgid, at)| Step::Leave(mgid, at)),
        60 => (mgid.clone(), proptest::collection::vec(any::<u32>(), 0..12))
            .prop_map(|(mgid, members)| Step::Put(mgid, members)),
        30 => mgid.clone().prop_map(Step::Delete),
        20 => proptest::collection::vec((mgid, any::<u32>()), 2..6).prop_map(Step::Batch),
        4 => faults().prop_map(Step::Faults),
        12 => Just(Step::Heal),
    ];
    proptest::collection::vec(step, 1..most)
}

struct World {
    fabric: Fabric,
    engine: FixedRootEngine,
}

impl World {
    fn new(spec: &str, disorder: Option<u32>, colors: u16, way: Way) -> Option<Self> {
        let fabric = Fabric::new(spec.to_owned(), disorder)?;
        let engine = fabric.engine(colors, way);
        Some(Self { fabric, engine })
    }

    /// Picks a member that is near the other possible members of its group, as near as the group
    /// says. Unless `rude`, groups of other spanning trees of the same color have other possible
    /// members.
    fn pick(&self, mgid: u32, at: u32, rude: bool) -> EndpointId {
        let endpoints = u32::try_from(self.fabric.graph.endpoint_count()).expect("a small fabric");
        let reach = [2, 4, 12, 30, 1_000][(mgid / 5 % 5) as usize].min(endpoints);
        let any = (mgid.wrapping_mul(7) + at % reach) % endpoints;
        let space = self.engine.layout().space();
        let trees = space.trees_per_color();
        let polite = any - any % trees + space.spt(Mgid(mgid)) % trees;
        let is_free = space.tables() == TableKind::PerSwitch || rude;
        EndpointId(if is_free || polite >= endpoints { any } else { polite })
    }

    fn picks(&self, mgid: u32, at: &[u32]) -> Vec<EndpointId> {
        let members: BTreeSet<_> = at.iter().map(|at| self.pick(mgid, *at, false)).collect();
        members.into_iter().collect()
    }

    fn toggle(&self, mgid: u32, endpoint: EndpointId) -> Change {
        let mgid = Mgid(mgid);
        match self.engine.members(mgid) {
            None => Change::Put { mgid, members: vec![endpoint] },
            Some(members) if members.contains(&endpoint) => Change::Leave { mgid, endpoint },
            Some(_) => Change::Join { mgid, endpoint },
        }
    }

    /// Makes one step; what makes no sense as the groups are now is left out.
    fn make(&mut self, step: &Step) {
        let changes = match step {
            Step::Faults(picks) => {
                return self.engine.set_faults(faults_of(&self.fabric.graph, picks));
            }
            Step::Heal => return self.engine.set_faults(Faults::new()),
            Step::Join(mgid, at, rude) => vec![self.toggle(*mgid, self.pick(*mgid, *at, *rude))],
            Step::Leave(mgid, at) => match self.engine.members(Mgid(*mgid)) {
                Some(members) if !members.is_empty() => {
                    vec![self.toggle(*mgid, members[at % members.len()])]
                }
                _ => return,
            },
            Step::Put(mgid, at) => {
                vec![Change::Put { mgid: Mgid(*mgid), members: self.picks(*mgid, at) }]
            }
            Step::Delete(mgid) => match self.engine.members(Mgid(*mgid)) {
                Some(_) => vec![Change::Delete { mgid: Mgid(*mgid) }],
                None => return,
            },
            Step::Batch(picks) => {
                let mut seen = BTreeSet::new();
                let new = picks.iter().filter(|(mgid, _)| seen.insert(*mgid));
                new.map(|(mgid, at)| self.toggle(*mgid, self.pick(*mgid, *at, false))).collect()
            }
        };
        self.engine.apply(&changes).expect("changes that make sense");
    }
}

fn any_world() -> impl Strategy<Value = (&'static str, Option<u32>, u16, Way)> {
    let disorder = proptest::option::weighted(0.1, any::<u32>());
    let tables = prop_oneof![Just(TableKind::PerPort), Just(TableKind::PerSwitch)];
    let way = (tables, proptest::bool::weighted(0.1));
    (proptest::sample::select(&SPECS[..]), disorder, 1u16..3, way)
}

/// All that is said of a group besides its table entries.
fn facts(plan: &Plan, mgid: Mgid) -> impl PartialEq + std::fmt::Debug {
    let shared = plan.virtual_group_of(mgid).map(|shared| shared.groups);
    let moved = plan.moved().iter().find(|moved| moved.mgid == mgid);
    let unrouted = plan.unrouted().iter().find(|one| one.mgid == mgid);
    let (colors, unprotected) = (plan.sender_colors(mgid), plan.unprotected_of(mgid));
    format!("{:?} {shared:?} {moved:?} {unrouted:?} {colors:?} {unprotected:?}", plan.group(mgid))
}

/// Groups that are not listed as changed are in both plans alike.
fn check_changed_groups(before: &Plan, now: &Plan) -> Result<(), TestCaseError> {
    let changed = now.changed_groups(before);
    prop_assert!(changed.is_sorted_by(|a, b| a < b));
    for mgid in (0..GROUPS).map(Mgid).filter(|mgid| changed.binary_search(mgid).is_err()) {
        prop_assert_eq!(facts(before, mgid), facts(now, mgid));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// R3 over long histories, in which trees are mended and, when faults or colors are in the way,
    /// built; and plans that somebody keeps do not change under him.
    #[test]
    fn mending_equals_weaving(
        (spec, disorder, colors, way) in any_world(), history in history(400),
    ) {
        let world = World::new(spec, disorder, colors, way);
        prop_assume!(world.is_some(), "a fabric in disorder may not be found to be a fat tree");
        let mut world = world.unwrap();
        let mut kept: Option<(Plan, Plan)> = None;
        for (at, step) in history.iter().enumerate() {
            let before = world.engine.plan().clone();
            world.make(step);
            check_changed_groups(&before, world.engine.plan())?;
            let built = world.engine.plan_from_scratch();
            prop_assert_eq!(world.engine.plan(), &built, "after {:?}", step);
            if at % 7 == 0 {
                if let Some((plan, built)) = &kept {
                    prop_assert_eq!(plan, built);
                }
                kept = Some((world.engine.plan().clone(), built));
            }
        }
        let faults = world.engine.faults().clone();
        let oracle = Oracle { fabric: &world.fabric, faults: &faults, engine: &world.engine };
        prop_assert_eq!(answer_of(&world.engine), oracle.answer());
    }

    /// The same without looking in between: nobody reads what has not been read before.
    #[test]
    fn unread_changes_add_up(
        (spec, disorder, colors, way) in any_world(), history in history(400),
    ) {
        let world = World::new(spec, disorder, colors, way);
        prop_assume!(world.is_some(), "a fabric in disorder may not be found to be a fat tree");
        let mut world = world.unwrap();
        for step in &history {
            world.make(step);
        }
        prop_assert_eq!(world.engine.plan(), &world.engine.plan_from_scratch());
    }
}

/// The laws above would be empty if their histories did not unite and part groups where trees can
/// be mended.
#[test]
fn histories_unite_and_part_groups_without_faults() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let histories = history(400);
    for spec in SPECS {
        for tables in [TableKind::PerPort, TableKind::PerSwitch] {
            let (mut united, mut parted, mut large) = (0, 0, 0);
            let mut world = World::new(spec, None, 1, (tables, false)).expect(spec);
            for _ in 0..3 {
                for step in histories.new_tree(&mut runner).unwrap().current() {
                    let was_free = world.engine.plan().moved().is_empty();
                    let before = world.engine.plan().virtual_groups().count();
                    world.make(&step);
                    let plan = world.engine.plan();
                    let now = plan.virtual_groups().count();
                    let is_free = was_free && world.engine.faults() == &Faults::new();
                    if is_free && plan.moved().is_empty() && plan.groups().count() > 24 {
                        united += u32::from(matches!(step, Step::Join(..)) && now < before);
                        parted += u32::from(matches!(step, Step::Leave(..)) && now > before);
                        large += u32::from(plan.virtual_groups().any(|one| one.groups.len() > 4));
                    }
                }
            }
            assert!(
                united > 5 && parted > 5 && large > 5,
                "{spec} {tables:?}: {united} {parted} {large}"
            );
        }
    }
}
