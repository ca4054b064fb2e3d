//! Storms: processes send and call operations while members join, leave and die, endpoints move to
//! processes, links are cut and the multicast connection comes and goes. What is promised holds at
//! the end of each.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_groups::tree::TreeShape;
use fabricast_groups::{Pn, Revision};
use fabricast_messages::{
    Answer, Limits, Mode, OnFailure, Operation, OperationError, Outcome, Reduction, SendId, Values,
};
use proptest::prelude::*;

use crate::world::{Conditions, Member, Switches, World};

const CONDITIONS: Conditions =
    Conditions { multicast: true, lost: 100, repeated: 50, slowest: Duration::from_millis(2) };
const SEEDS: u64 = 12;

/// A message as its source knows it.
struct Sent {
    id: SendId,
    payload: Vec<u8>,
    roster: BTreeMap<Pn, Revision>, // who took part as far as the source knew
}

#[derive(Default)]
struct Storm {
    sent: BTreeMap<(Pn, Revision), Vec<Sent>>,
}

impl Storm {
    fn send(&mut self, world: &mut World, from: Pn) {
        let roster = world.roster(from);
        if roster.is_empty() {
            return;
        }
        let joined = world.members[&from].joined;
        let all = self.sent.entry((from, joined)).or_default();
        let long = if all.len() % 5 == 4 { 9_000 } else { 10 };
        let mut payload = format!("{from} {joined} {}", all.len()).into_bytes();
        payload.resize(long, b'.');
        if let Ok(id) = world.send(from, Mode::Reliable, &payload) {
            all.push(Sent { id, payload, roster });
        }
    }

    /// Does one random thing to the world.
    fn act(&mut self, world: &mut World, members: u32) {
        let any = |world: &mut World| {
            let all: Vec<Pn> = world.members.keys().copied().collect();
            all[usize::try_from(world.draw(u64::try_from(all.len()).unwrap())).unwrap()]
        };
        match world.draw(40) {
            0 if world.members.len() > 2 => {
                let pn = any(world);
                let is_process = world.draw(2) == 0;
                if is_process {
                    world.hand_over(pn); // the node relays until the membership has ended
                } else {
                    world.kill(pn);
                }
                let detected = Duration::from_millis(world.draw(60));
                world.settle(detected);
                if is_process {
                    world.leave(pn);
                }
                world.publish();
            }
            1 if world.members.len() > 2 => {
                let pn = any(world);
                world.leave(pn);
                world.publish();
            }
            2 | 3 => {
                let free = (0..members).map(Pn).find(|pn| !world.members.contains_key(pn));
                if let Some(pn) = free {
                    world.join(pn, &format!("n{pn}"));
                    world.publish();
                    world.settle(Duration::from_millis(10));
                    if world.draw(2) == 0 {
                        world.hand_over(pn); // neighbours may have greeted it already
                        world.settle(Duration::from_millis(10));
                    }
                    world.open(pn);
                }
            }
            4 | 5 => {
                let (a, b) = (any(world), any(world));
                let time = Duration::from_millis(world.draw(30));
                world.cut(a, b, time);
            }
            6 => {
                world.multicast_open = !world.multicast_open;
                world.publish();
            }
            _ => {
                let from = any(world);
                self.send(world, from);
            }
        }
        let pause = Duration::from_micros(world.draw(4_000));
        world.settle(pause);
    }
}

/// All members, past and live, by rank and join.
fn all_members(world: &World) -> BTreeMap<(Pn, Revision), (&Member, bool)> {
    let past = world.past.iter().map(|(pn, member)| ((*pn, member.joined), (member, false)));
    let live = world.members.iter().map(|(pn, member)| ((*pn, member.joined), (member, true)));
    past.chain(live).collect()
}

/// First bytes of messages, for failure texts.
fn heads(messages: &[&Vec<u8>]) -> String {
    let head = |one: &&Vec<u8>| String::from_utf8_lossy(&one[..one.len().min(8)]).into_owned();
    messages.iter().map(head).collect::<Vec<_>>().join(", ")
}

/// Checks the promises of messages, MSG-1 and MSG-2.
fn check_messages(world: &World, storm: &Storm, seed: u64) {
    let members_ever = all_members(world);
    for ((from, joined), sent) in &storm.sent {
        let (source, source_is_live) = members_ever[&(*from, *joined)];
        let mark = format!("{from} {joined} ").into_bytes();
        for ((to, its_join), (member, is_live)) in &members_ever {
            let all = member.seen.messages.iter();
            let mine = all.filter(|(pn, payload)| pn == from && payload.starts_with(&mark));
            let got: Vec<&Vec<u8>> = mine.map(|(_, payload)| payload).collect();
            let place = |payload: &&Vec<u8>| sent.iter().position(|one| one.payload == **payload);
            let places: Vec<usize> = got.iter().filter_map(place).collect();
            // From the first on that was sent to it by name it has all; of those before it, any.
            let named = sent.iter().position(|one| one.roster.get(to) == Some(its_join));
            let named = named.unwrap_or(sent.len());
            let all_since = places.iter().copied().filter(|place| *place >= named);
            let row = all_since.clone().eq(named..named + all_since.count());
            let good = places.len() == got.len() && places.is_sorted_by(|a, b| a < b) && row;
            assert!(good, "{to} got {} of what {from} sent, seed {seed}", heads(&got));
            for one in sent.iter().filter(|_| to != from) {
                let promised = one.roster.get(to) == Some(its_join);
                let missed = source.seen.acknowledged.get(&one.id);
                if source_is_live && *is_live {
                    assert!(missed.is_some(), "{from} {:?} is acknowledged, seed {seed}", one.id);
                }
                let has = got.contains(&&one.payload);
                let excused = missed.is_none_or(|missed| missed.contains(to));
                assert!(!promised || excused || has, "{from} {:?} to {to}, seed {seed}", one.id);
                assert!(!(excused && *is_live && missed.is_some() && promised), "{to} lives");
            }
        }
    }
}

/// Proptest settings; storms cannot be shrunk.
fn fresh(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 0, failure_persistence: None, ..<_>::default() }
}

/// Members rely on multicast, and outcomes take several pieces.
fn relying() -> Limits {
    Limits { packet: 80, pieces: 3, relies_on_multicast: true, ..Limits::default() }
}

/// Shape of the tree by the seed: five shapes, and the default for two seeds of seven.
fn shape_of(seed: u64) -> TreeShape {
    match seed % 7 {
        1 => TreeShape::KAry { width: 4 },
        2 => TreeShape::KNomial { width: 2 },
        3 => TreeShape::KNomial { width: 4 },
        4 => TreeShape::Hierarchical { width: 2, block: 3 },
        5 => TreeShape::KAry { width: 16 },
        _ => TreeShape::default(),
    }
}

fn messages_in_a_storm(seed: u64, tree: TreeShape, limits: Limits) {
    let mut world = World::new(seed, CONDITIONS, Limits { window: 16, ..limits });
    world.tree = tree;
    world.form(10);
    let mut storm = Storm::default();
    for _ in 0..150 {
        storm.act(&mut world, 14);
    }
    world.publish();
    world.settle(Duration::from_secs(20));
    check_messages(&world, &storm, seed);
}

#[test]
fn messages_keep_their_promises_in_every_storm() {
    (0..SEEDS).for_each(|seed| messages_in_a_storm(seed, shape_of(seed), Limits::default()));
}

#[test]
fn messages_keep_their_promises_where_members_rely_on_multicast() {
    (0..SEEDS).for_each(|seed| messages_in_a_storm(seed, shape_of(seed), relying()));
}

proptest! {
    #![proptest_config(fresh(6))]

    /// `cargo xtask soak` draws other seeds each time.
    #[test]
    fn promises_hold_in_drawn_storms(seed in 1_000_u64..1 << 40) {
        for limits in [Limits::default(), relying()] {
            let tree = shape_of(seed);
            messages_in_a_storm(seed, tree, limits);
            for on_failure in [OnFailure::Fail, OnFailure::Survivors] {
                let switches = Some(Switches::new(seed % 500));
                operations_in_a_storm(seed, tree, on_failure, None, limits);
                operations_in_a_storm(seed, tree, on_failure, switches, limits);
                broadcasts_in_a_storm(seed, on_failure);
            }
        }
    }
}

/// A side that got the whole outcome over its link kept the root from sending further pieces to
/// others (seed 154081030076).
#[test]
fn a_side_that_got_the_whole_outcome_keeps_no_pieces_from_others() {
    operations_in_a_storm(154_081_030_076, TreeShape::default(), OnFailure::Fail, None, relying());
}

/// After a change of the tree a member owed another parts, and looked after them at no time (seed
/// 704760127780).
#[test]
fn parts_are_sent_again_also_if_nothing_else_happens() {
    messages_in_a_storm(704_760_127_780, TreeShape::default(), relying());
}

/// A different number for each rank.
fn share(pn: Pn) -> u64 {
    1_000 + u64::from(pn.0) * 17
}

fn call_all(world: &mut World, on_failure: OnFailure) {
    let idle = world.members.iter().filter(|(_, one)| one.calls == one.seen.ended.len());
    for pn in idle.map(|(pn, _)| *pn).collect::<Vec<_>>() {
        if !world.roster(pn).is_empty() {
            let values = Values::U64(vec![share(pn)]);
            let all_reduce = Operation::AllReduce { reduction: Reduction::Sum, values };
            world.operate(pn, &all_reduce, on_failure);
        }
    }
}

/// Source of broadcasts.
const SOURCE: Pn = Pn(4);

/// Another payload for each call of [`SOURCE`], too long for a packet.
fn payload(head: &str) -> Vec<u8> {
    let mut payload = head.as_bytes().to_vec();
    payload.resize(900, b'.');
    payload
}

fn call_broadcasts(world: &mut World, on_failure: OnFailure) {
    let idle = world.members.iter().filter(|(_, one)| one.calls == one.seen.ended.len());
    for pn in idle.map(|(pn, _)| *pn).collect::<Vec<_>>() {
        if !world.roster(pn).is_empty() {
            let Member { joined, calls, .. } = world.members[&pn];
            let payload = payload(&format!("{joined} {calls} "));
            world.operate(pn, &Operation::Broadcast { source: SOURCE, payload }, on_failure);
        }
    }
}

/// Checks that an outcome has the sum of its participants.
fn is_sum(outcome: &Outcome, answer: &Answer) -> bool {
    let want: u64 = outcome.participants.iter().copied().map(share).sum();
    *answer == Answer::Values(Values::U64(vec![want]))
}

/// Checks the promise of operations, MSG-3, and that each outcome is right.
fn check_operations(world: &World, seed: u64, is_right: impl Fn(&Outcome, &Answer) -> bool) {
    let mut outcomes = BTreeMap::new();
    for ((pn, joined), (member, is_live)) in all_members(world) {
        let mut last = 0;
        for (call, outcome) in &member.seen.ended {
            assert!(outcome.number > last, "in order at {pn}, seed {seed}");
            last = outcome.number;
            assert!(outcome.participants.contains(&pn), "seed {seed}");
            // A dead member may have seen another end: the last that its root decided alone.
            if is_live {
                let same = outcomes.entry(outcome.number).or_insert_with(|| outcome.clone());
                assert_eq!(
                    same, outcome,
                    "number {} at {pn} {joined}, seed {seed}",
                    outcome.number
                );
            }
            match outcome.answer(pn, call) {
                Ok(answer) => assert!(is_right(outcome, &answer), "{answer:?}, seed {seed}"),
                Err(OperationError::MembersFailed { failed }) => {
                    assert!(failed.is_disjoint(&outcome.participants) && !failed.is_empty());
                    let gone: BTreeSet<Pn> = world.past.iter().map(|(pn, _)| *pn).collect();
                    assert!(failed.is_subset(&gone), "{failed:?} of {gone:?}, seed {seed}");
                }
                other => panic!("{other:?}, seed {seed}"),
            }
        }
        if is_live {
            assert_eq!(member.calls, member.seen.ended.len(), "{pn} waits, seed {seed}");
        }
    }
}

/// Returns the outcomes that live members saw, the failures among these, and the runs that the
/// switches combined.
fn operations_in_a_storm(
    seed: u64,
    tree: TreeShape,
    on_failure: OnFailure,
    switches: Option<Switches>,
    limits: Limits,
) -> [usize; 3] {
    let mut world = World::new(seed, CONDITIONS, limits);
    world.switches = switches;
    world.tree = tree;
    world.form(10);
    let mut storm = Storm::default();
    for _ in 0..150 {
        call_all(&mut world, on_failure);
        storm.act(&mut world, 14);
    }
    world.publish();
    world.settle(Duration::from_secs(5));
    call_all(&mut world, on_failure);
    world.settle(Duration::from_secs(10));
    call_all(&mut world, on_failure);
    world.settle(Duration::from_secs(10));
    check_operations(&world, seed, is_sum);
    check_messages(&world, &storm, seed);
    let combined = world.switches.as_ref().map_or(0, |switches| switches.combined);
    let outcomes = world.members.values().flat_map(|member| &member.seen.ended);
    let failed: Vec<bool> = outcomes.map(|(_, outcome)| outcome.verdict.is_err()).collect();
    [failed.len(), failed.iter().filter(|failed| **failed).count(), combined]
}

/// Members broadcast what takes several packets; returns the outcomes that live members saw, and
/// the failures among these.
fn broadcasts_in_a_storm(seed: u64, on_failure: OnFailure) -> [usize; 2] {
    let limits = Limits { packet: 200, ..relying() };
    let mut world = World::new(seed, CONDITIONS, limits);
    world.tree = shape_of(seed);
    world.form(10);
    let mut storm = Storm::default();
    for _ in 0..150 {
        call_broadcasts(&mut world, on_failure);
        storm.act(&mut world, 14);
    }
    world.publish();
    world.settle(Duration::from_secs(5));
    for _ in 0..2 {
        call_broadcasts(&mut world, on_failure);
        world.settle(Duration::from_secs(10));
    }
    let seen = RefCell::new(BTreeMap::new());
    check_operations(&world, seed, |outcome, answer| {
        let Answer::Bytes(bytes) = answer else { return false };
        let head = String::from_utf8_lossy(bytes).trim_end_matches('.').to_owned();
        let number = *seen.borrow_mut().entry(head.clone()).or_insert(outcome.number);
        *bytes == payload(&head) && number == outcome.number
    });
    check_messages(&world, &storm, seed);
    assert!(!world.early.is_empty(), "seed {seed}");
    let outcomes = world.members.values().flat_map(|member| &member.seen.ended);
    let failed: Vec<bool> = outcomes.map(|(_, outcome)| outcome.verdict.is_err()).collect();
    [failed.len(), failed.iter().filter(|failed| **failed).count()]
}

#[test]
fn broadcasts_end_alike_where_payloads_are_sent_before_the_outcome() {
    for on_failure in [OnFailure::Fail, OnFailure::Survivors] {
        let sum = |all: [usize; 2], one: [usize; 2]| [all[0] + one[0], all[1] + one[1]];
        let storms = (0..SEEDS).map(|seed| broadcasts_in_a_storm(seed, on_failure));
        let [ended, failed] = storms.fold([0; 2], sum);
        assert!(ended > 300 && failed < ended, "{ended} ended, {failed} of them failed");
    }
}

fn operations_in_storms(
    on_failure: OnFailure,
    switches: Option<Switches>,
    limits: Limits,
) -> (usize, usize) {
    let storm = |seed| {
        let tree = shape_of(seed);
        operations_in_a_storm(seed, tree, on_failure, switches.clone(), limits)
    };
    let sum = |all: [usize; 3], one: [usize; 3]| std::array::from_fn(|at| all[at] + one[at]);
    let [ended, failed, combined] = (0..SEEDS).map(storm).fold([0; 3], sum);
    assert!(switches.is_none() || combined > 100, "{combined} runs of the switches");
    (ended, failed)
}

#[test]
fn operations_end_alike_for_all_live_members_and_name_the_failed() {
    let (ended, failed) = operations_in_storms(OnFailure::Fail, None, Limits::default());
    assert!(ended > 600 && failed > 20, "{ended} ended, {failed} of them failed");
}

#[test]
fn survivors_complete_operations_without_the_dead() {
    let (ended, failed) = operations_in_storms(OnFailure::Survivors, None, Limits::default());
    assert!(ended > 600 && failed == 0, "{ended} ended, {failed} of them failed");
}

#[test]
fn operations_end_alike_where_members_rely_on_multicast() {
    let (ended, failed) = operations_in_storms(OnFailure::Fail, None, relying());
    assert!(ended > 600 && failed > 20, "{ended} ended, {failed} of them failed");
    let (ended, failed) = operations_in_storms(OnFailure::Survivors, None, relying());
    assert!(ended > 600 && failed == 0, "{ended} ended, {failed} of them failed");
}

#[test]
fn operations_end_alike_whether_the_switches_or_the_tree_combine_them() {
    for broken in [0, 100, 500] {
        let switches = Switches::new(broken);
        let (ended, failed) =
            operations_in_storms(OnFailure::Fail, Some(switches.clone()), Limits::default());
        assert!(ended > 600 && failed > 20, "{ended} ended, {failed} of them failed");
        let (ended, failed) =
            operations_in_storms(OnFailure::Survivors, Some(switches), Limits::default());
        assert!(ended > 600 && failed == 0, "{ended} ended, {failed} of them failed");
    }
}
