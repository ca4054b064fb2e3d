//! Storms: processes send and call operations while members join, leave and die, links are cut and
//! the multicast connection comes and goes. What is promised holds at the end of each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_groups::{Pn, Revision};
use fabricast_messages::{
    Answer, Limits, Mode, OnFailure, Operation, OperationError, Reduction, SendId, Values,
};

use crate::world::{Member, Switches, Weather, World};

const WEATHER: Weather =
    Weather { multicast: true, lost: 100, repeated: 50, slowest: Duration::from_millis(2) };
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
        let life = world.members[&from].life;
        let all = self.sent.entry((from, life)).or_default();
        let long = if all.len() % 5 == 4 { 9_000 } else { 10 };
        let mut payload = format!("{from} {life} {}", all.len()).into_bytes();
        payload.resize(long, b'.');
        if let Ok(id) = world.send(from, Mode::Reliable, &payload) {
            all.push(Sent { id, payload, roster });
        }
    }

    /// One deed of many.
    fn deed(&mut self, world: &mut World, members: u32) {
        let any = |world: &mut World| {
            let all: Vec<Pn> = world.members.keys().copied().collect();
            all[usize::try_from(world.draw(u64::try_from(all.len()).unwrap())).unwrap()]
        };
        match world.draw(40) {
            0 if world.members.len() > 2 => {
                let pn = any(world);
                world.kill(pn);
                let detected = Duration::from_millis(world.draw(60));
                world.settle(detected);
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

/// All members that there ever were, by seat and life.
fn everybody(world: &World) -> BTreeMap<(Pn, Revision), (&Member, bool)> {
    let past = world.past.iter().map(|(pn, member)| ((*pn, member.life), (member, false)));
    let live = world.members.iter().map(|(pn, member)| ((*pn, member.life), (member, true)));
    past.chain(live).collect()
}

/// What is promised of messages: MSG-1, MSG-2.
fn judge(world: &World, storm: &Storm, seed: u64) {
    let everybody = everybody(world);
    for ((from, life), sent) in &storm.sent {
        let (source, source_lives) = everybody[&(*from, *life)];
        let mark = format!("{from} {life} ").into_bytes();
        for ((to, its_life), (member, lives)) in &everybody {
            let all = member.seen.messages.iter();
            let mine = all.filter(|(pn, payload)| pn == from && payload.starts_with(&mark));
            let got: Vec<&Vec<u8>> = mine.map(|(_, payload)| payload).collect();
            let start = sent.iter().position(|one| got.first() == Some(&&one.payload));
            let run = start.map_or(&sent[..0], |at| &sent[at..(at + got.len()).min(sent.len())]);
            let run: Vec<&Vec<u8>> = run.iter().map(|one| &one.payload).collect();
            assert_eq!(got, run, "{to} got a run of what {from} sent, seed {seed}");
            for one in sent.iter().filter(|_| to != from) {
                let promised = one.roster.get(to) == Some(its_life);
                let missed = source.seen.acknowledged.get(&one.id);
                if source_lives && *lives {
                    assert!(missed.is_some(), "{from} {:?} is acknowledged, seed {seed}", one.id);
                }
                let has = got.contains(&&one.payload);
                let excused = missed.is_none_or(|missed| missed.contains(to));
                assert!(!promised || excused || has, "{from} {:?} to {to}, seed {seed}", one.id);
                assert!(!(excused && *lives && missed.is_some() && promised), "{to} lives");
            }
        }
    }
}

#[test]
fn messages_keep_their_promises_in_every_storm() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, WEATHER, Limits { window: 16, ..Limits::default() });
        world.form(10);
        let mut storm = Storm::default();
        for _ in 0..150 {
            storm.deed(&mut world, 14);
        }
        world.publish();
        world.settle(Duration::from_secs(20));
        judge(&world, &storm, seed);
    }
}

/// A number of its own for each seat.
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

/// What is promised of operations: MSG-3, and that each outcome is right.
fn judge_operations(world: &World, seed: u64) {
    let mut outcomes = BTreeMap::new();
    for ((pn, life), (member, lives)) in everybody(world) {
        let mut last = 0;
        for (call, outcome) in &member.seen.ended {
            assert!(outcome.number > last, "in order at {pn}, seed {seed}");
            last = outcome.number;
            assert!(outcome.participants.contains(&pn), "seed {seed}");
            // Who is dead by now may have seen another end: the last that its root decided alone.
            if lives {
                let same = outcomes.entry(outcome.number).or_insert_with(|| outcome.clone());
                assert_eq!(same, outcome, "number {} at {pn} {life}, seed {seed}", outcome.number);
            }
            match outcome.answer(pn, call) {
                Ok(Answer::Values(Values::U64(sums))) => {
                    let want: u64 = outcome.participants.iter().copied().map(share).sum();
                    assert_eq!(sums, [want], "seed {seed}");
                }
                Err(OperationError::MembersFailed { failed }) => {
                    assert!(failed.is_disjoint(&outcome.participants) && !failed.is_empty());
                    let gone: BTreeSet<Pn> = world.past.iter().map(|(pn, _)| *pn).collect();
                    assert!(failed.is_subset(&gone), "{failed:?} of {gone:?}, seed {seed}");
                }
                other => panic!("{other:?}, seed {seed}"),
            }
        }
        if lives {
            assert_eq!(member.calls, member.seen.ended.len(), "{pn} waits, seed {seed}");
        }
    }
}

fn operations_in_storms(on_failure: OnFailure, switches: Option<Switches>) -> (usize, usize) {
    let (mut ended, mut failed) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed, WEATHER, Limits::default());
        world.switches = switches.clone();
        world.form(10);
        let mut storm = Storm::default();
        for _ in 0..150 {
            call_all(&mut world, on_failure);
            storm.deed(&mut world, 14);
        }
        world.publish();
        world.settle(Duration::from_secs(5));
        call_all(&mut world, on_failure);
        world.settle(Duration::from_secs(10));
        call_all(&mut world, on_failure);
        world.settle(Duration::from_secs(10));
        judge_operations(&world, seed);
        judge(&world, &storm, seed);
        assert!(world.switches.as_ref().is_none_or(|switches| switches.combined > 5), "{seed}");
        let outcomes = world.members.values().flat_map(|member| &member.seen.ended);
        for (_, outcome) in outcomes {
            ended += 1;
            failed += usize::from(outcome.verdict.is_err());
        }
    }
    (ended, failed)
}

#[test]
fn operations_end_alike_for_all_who_live_and_name_who_failed() {
    let (ended, failed) = operations_in_storms(OnFailure::Fail, None);
    assert!(ended > 600 && failed > 20, "{ended} ended, {failed} of them failed");
}

#[test]
fn survivors_go_on_without_those_who_died() {
    let (ended, failed) = operations_in_storms(OnFailure::Survivors, None);
    assert!(ended > 600 && failed == 0, "{ended} ended, {failed} of them failed");
}

#[test]
fn operations_end_alike_whether_the_switches_or_the_tree_combine_them() {
    for broken in [0, 100, 500] {
        let switches = Switches::new(broken);
        let (ended, failed) = operations_in_storms(OnFailure::Fail, Some(switches.clone()));
        assert!(ended > 600 && failed > 20, "{ended} ended, {failed} of them failed");
        let (ended, failed) = operations_in_storms(OnFailure::Survivors, Some(switches));
        assert!(ended > 600 && failed == 0, "{ended} ended, {failed} of them failed");
    }
}
