//! Members that rely on the multicast connection.

use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_messages::{Answer, Limits, Mode, OnFailure, Operation};

use crate::world::{CALM, Conditions, World};

pub(crate) const COUNT: u32 = 8;
/// Too much for a window of [`limits`].
pub(crate) const LONG: usize = 100_000;

/// Packets come in the order in which they are sent.
pub(crate) const ORDERLY: Conditions = Conditions { slowest: Duration::from_nanos(1), ..CALM };

pub(crate) fn limits() -> Limits {
    let mistrust = Duration::from_millis(20);
    Limits { pieces: 8, mistrust, relies_on_multicast: true, ..Limits::default() }
}

pub(crate) fn world(conditions: Conditions) -> World {
    world_with(conditions, limits())
}

fn world_with(conditions: Conditions, limits: Limits) -> World {
    let mut world = World::new(5, conditions, limits);
    world.form(COUNT);
    world.settle(Duration::from_secs(2)); // nothing of the beginning is under way any more
    world.frames.clear();
    (world.packets, world.outcomes) = (0, 0);
    world
}

/// Has all members call a broadcast of one of them.
pub(crate) fn broadcast(world: &mut World, source: Pn, bytes: &[u8]) {
    for pn in (0..COUNT).map(Pn) {
        let payload = if pn == source { bytes.to_vec() } else { Vec::new() };
        world.operate(pn, &Operation::Broadcast { source, payload }, OnFailure::Fail);
    }
}

/// Tells if all live members have the outcome of the last of so many broadcasts.
pub(crate) fn all_have(world: &World, count: usize, bytes: &[u8]) -> bool {
    world.members.iter().all(|(pn, member)| {
        let ended = member.seen.ended.get(count - 1);
        ended.is_some_and(|(call, outcome)| {
            matches!(outcome.answer(*pn, call), Ok(Answer::Bytes(got)) if got == bytes)
        })
    })
}

#[test]
fn a_message_goes_over_no_link_while_multicast_reaches_all() {
    for source in (0..COUNT).map(Pn) {
        let mut world = world(ORDERLY);
        let id = world.send(source, Mode::Reliable, &vec![7; LONG]).unwrap();
        world.settle(Duration::from_secs(1));
        assert!(world.members[&source].seen.acknowledged[&id].is_empty());
        let got = world.members.iter().filter(|(pn, _)| **pn != source);
        assert!(got.clone().all(|(_, one)| one.seen.messages == [(source, vec![7; LONG])]));
        assert_eq!(world.frames.values().sum::<u64>(), 0, "from {source}");
        assert_eq!(world.packets, u64::try_from(LONG.div_ceil(limits().part)).unwrap());
    }
}

#[test]
fn lost_parts_are_asked_for_at_once_and_not_the_whole_window() {
    let mut world = world(Conditions { lost: 20, ..ORDERLY });
    let parts = 40 * LONG.div_ceil(limits().part);
    let begun = world.now;
    for _ in 0..40 {
        let id = world.send(Pn(0), Mode::Reliable, &vec![7; LONG]).unwrap();
        world.until("it is acknowledged", |world| {
            world.members[&Pn(0)].seen.acknowledged.contains_key(&id)
        });
    }
    let sent = usize::try_from(world.frames.values().sum::<u64>()).unwrap();
    let lasted = world.now.since(begun);
    // Each of 7 members loses every fiftieth; what comes last is not missed before a while.
    assert!((parts / 10..parts).contains(&sent), "{sent} frames for {parts} parts");
    assert!(lasted < Duration::from_secs(2), "{lasted:?}");
}

#[test]
fn a_long_outcome_goes_over_no_link_while_multicast_reaches_all() {
    let mut world = world(ORDERLY);
    broadcast(&mut world, Pn(3), &vec![9; LONG]);
    world.until("all have it", |world| all_have(world, 1, &vec![9; LONG]));
    world.settle(Duration::from_millis(200));
    assert_eq!(world.outcomes, 0);
    let piece = u64::try_from(LONG / limits().packet).unwrap();
    assert!((piece..piece + 3).contains(&world.packets), "{} packets", world.packets);
}

#[test]
fn members_tell_of_every_eighth_piece_and_of_the_last() {
    let limits = Limits { relies_on_multicast: true, ..Limits::default() };
    let mut world = world_with(ORDERLY, limits);
    broadcast(&mut world, Pn(COUNT - 1), &vec![9; LONG]);
    world.until("all have it", |world| all_have(world, 1, &vec![9; LONG]));
    world.settle(Duration::from_millis(10));
    // Each of 7 members tells of 8, 16, 24 and all 25. The outcome is a packet more.
    assert_eq!((world.packets, world.collected), (26, 4 * 7));
}

#[test]
fn lost_pieces_are_repaired_and_not_all_of_the_outcome() {
    let mut world = world(Conditions { lost: 100, repeated: 50, ..ORDERLY });
    for count in 1..10 {
        broadcast(&mut world, Pn(count), &vec![9; LONG]);
        let count = usize::try_from(count).unwrap();
        world.until("all have it", |world| all_have(world, count, &vec![9; LONG]));
        if count == 7 {
            break;
        }
    }
    // 25 pieces for 7 members 7 times, of which every tenth is lost.
    assert!((60..250).contains(&world.outcomes), "{} frames", world.outcomes);
}

#[test]
fn a_member_that_multicast_does_not_reach_after_all_gets_the_outcome_over_its_link() {
    for deaf in (0..COUNT).map(Pn) {
        let mut world = world(CALM);
        world.deaf.insert(deaf);
        let begun = world.now;
        for count in 1..=3 {
            broadcast(&mut world, Pn(1), &vec![count; LONG]);
            let done = |world: &World| all_have(world, usize::from(count), &vec![count; LONG]);
            world.until("all have it", done);
        }
        let id = world.send(Pn(0), Mode::Reliable, &vec![7; LONG]).unwrap();
        world.until("it is acknowledged", |world| {
            world.members[&Pn(0)].seen.acknowledged.contains_key(&id)
        });
        let lasted = world.now.since(begun);
        assert!(lasted < Duration::from_secs(1), "{lasted:?} with {deaf} deaf");
    }
}

#[test]
fn the_root_is_not_further_ahead_than_its_window() {
    let root = Pn(COUNT - 1);
    let mut world = world(CALM);
    let others = (0..COUNT).map(Pn).filter(|pn| *pn != root);
    world.deaf.extend(others);
    broadcast(&mut world, root, &vec![9; LONG]);
    world.settle(Duration::from_millis(15));
    assert_eq!(world.packets, u64::from(limits().pieces) + 1, "pieces and the outcome");
}

#[test]
fn a_member_that_goes_leaves_nobody_without_the_outcome() {
    let mut world = world(CALM);
    let last = Pn(0);
    world.deaf.insert(last);
    (0..COUNT).for_each(|pn| world.operate(Pn(pn), &Operation::Barrier, OnFailure::Fail));
    let others: Vec<Pn> = (0..COUNT).map(Pn).filter(|pn| *pn != last).collect();
    let ended = |world: &World, pn: &Pn| !world.members[pn].seen.ended.is_empty();
    world.until("the others have it", |world| others.iter().all(|pn| ended(world, pn)));
    assert!(!ended(&world, &last));
    others.into_iter().for_each(|pn| world.leave(pn));
    world.publish();
    world.settle(Duration::from_secs(2));
    let (_, outcome) = &world.members[&last].seen.ended[0];
    assert_eq!(outcome.participants.len(), usize::try_from(COUNT).unwrap(), "{outcome:?}");
}
