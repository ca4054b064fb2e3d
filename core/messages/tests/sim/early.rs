//! Broadcasts whose payload is sent before the members have called.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_messages::{
    Announcement, Answer, Content, Limits, Notice, OnFailure, Operation, OperationError, Packet,
    Piece, Source,
};

use crate::multicast::{COUNT, LONG, ORDERLY, all_have, broadcast, limits, world};
use crate::world::{CALM, Conditions, GN, World};

/// Root of the tree of [`COUNT`] members, and one that is neither root nor leaf.
const ROOT: Pn = Pn(COUNT - 1);

fn call(world: &mut World, pn: Pn, source: Pn, bytes: &[u8]) {
    let payload = if pn == source { bytes.to_vec() } else { Vec::new() };
    world.operate(pn, &Operation::Broadcast { source, payload }, OnFailure::Fail);
}

fn pieces() -> usize {
    LONG.div_ceil(limits().packet - 64)
}

#[test]
fn a_payload_is_with_all_when_the_last_member_calls() {
    for (source, last) in [(3, 5), (0, 7), (7, 0), (5, 6)].map(|(one, two)| (Pn(one), Pn(two))) {
        let mut world = world(ORDERLY);
        world.report_bytes = 0;
        for pn in (0..COUNT).map(Pn).filter(|pn| *pn != last) {
            call(&mut world, pn, source, &[9; LONG]);
        }
        world.settle(Duration::from_millis(5));
        assert_eq!(world.packets, u64::try_from(pieces()).unwrap(), "from {source}");
        let begun = world.now;
        call(&mut world, last, source, &[9; LONG]);
        world.until("all have it", |world| all_have(world, 1, &[9; LONG]));
        let lasted = world.now.since(begun);
        assert!(lasted < Duration::from_millis(1), "{lasted:?} from {source}");
        assert_eq!(world.packets, u64::try_from(pieces()).unwrap() + 1, "from {source}");
        assert_eq!(world.outcomes, 0);
        assert!(world.report_bytes < 2_000, "{} from {source}", world.report_bytes);
    }
}

#[test]
fn what_is_lost_of_a_payload_is_asked_for_and_not_all_of_it() {
    let mut world = world(Conditions { lost: 50, ..ORDERLY });
    world.outcome_bytes = 0;
    for count in 1..=20 {
        let source = Pn(u32::from(count) % COUNT);
        broadcast(&mut world, source, &[count; LONG]);
        let done = |world: &World| all_have(world, usize::from(count), &[count; LONG]);
        world.until("all have it", done);
    }
    // Of 20 payloads for 7 members each 20th piece is lost, which is 7 payloads together.
    let payloads = world.outcome_bytes / LONG;
    assert!((5..14).contains(&payloads), "{payloads}");
}

#[test]
fn members_that_multicast_does_not_reach_get_a_payload_that_is_sent_early() {
    for without in (0..COUNT).map(Pn) {
        for source in [Pn(0), Pn(3), ROOT] {
            let mut world = World::new(7, CALM, limits());
            world.without.insert(without);
            world.form(COUNT);
            for count in 1..=3 {
                broadcast(&mut world, source, &[count; LONG]);
                let done = |world: &World| all_have(world, usize::from(count), &[count; LONG]);
                world.until("all have it", done);
            }
            let between = world.early.iter().find(|(a, b)| [a, b].contains(&&without));
            assert_eq!(between, None, "from {source} without {without}");
        }
    }
}

#[test]
fn a_member_that_multicast_reaches_no_more_takes_the_announcement_back() {
    for without in (0..COUNT).map(Pn) {
        let (source, last) = (Pn(0), Pn((without.0 + 1) % COUNT));
        let mut world = world(CALM);
        world.deaf.insert(without);
        for pn in (0..COUNT).map(Pn).filter(|pn| *pn != last) {
            call(&mut world, pn, source, &[9; LONG]);
        }
        world.settle(Duration::from_micros(1_500));
        world.without.insert(without);
        world.publish();
        world.settle(Duration::from_millis(10));
        call(&mut world, last, source, &[9; LONG]);
        world.until("all have it", |world| all_have(world, 1, &[9; LONG]));
    }
}

#[test]
fn two_broadcasts_in_flight_are_not_mixed() {
    let mut world = world(Conditions { lost: 30, repeated: 30, ..CALM });
    let (total, mut overlap) = (30, 0);
    let bytes = |number: usize| vec![u8::try_from(number).unwrap(); LONG];
    while world.members.values().any(|member| member.seen.ended.len() < total) {
        for pn in (0..COUNT).map(Pn) {
            let member = &world.members[&pn];
            let (calls, ended) = (member.calls, member.seen.ended.len());
            if calls == ended && calls < total {
                let source = Pn(u32::try_from(calls).unwrap() % COUNT);
                let is_ahead = world.members.values().any(|one| one.seen.ended.len() < ended);
                overlap += usize::from(pn == source && is_ahead);
                call(&mut world, pn, source, &bytes(calls));
            }
        }
        world.settle(Duration::from_micros(100));
        assert!(world.now.since(fabricast_groups::Moment(0)) < Duration::from_secs(60));
    }
    assert!((1..=total).all(|count| all_have(&world, count, &bytes(count - 1))));
    assert!(overlap > 5, "{overlap} begun before the one before had ended everywhere");
}

/// A broadcast during which some members die, and others call late; returns whether it succeeded,
/// which is the same for all that live.
fn with_deaths(seed: u64, source: Pn, dead: &[Pn]) -> bool {
    let conditions = Conditions { lost: 20 * (seed % 20), ..CALM };
    let limits = Limits { mistrust: Duration::from_millis(200), ..limits() };
    let mut world = World::new(seed, conditions, limits);
    world.form(COUNT);
    let late: Vec<Pn> = (0..COUNT).map(Pn).filter(|pn| pn.0 % 4 == 2 && *pn != source).collect();
    for pn in (0..COUNT).map(Pn).filter(|pn| !late.contains(pn)) {
        call(&mut world, pn, source, &[9; LONG]);
    }
    let until_death = Duration::from_micros(world.draw(20_000));
    let is_late = seed.is_multiple_of(2);
    if !is_late {
        late.iter().for_each(|pn| call(&mut world, *pn, source, &[9; LONG]));
    }
    world.settle(until_death);
    dead.iter().for_each(|pn| world.kill(*pn));
    let until_known = Duration::from_millis(world.draw(30));
    world.settle(until_known);
    world.publish();
    if is_late {
        world.settle(Duration::from_millis(10));
        late.iter().for_each(|pn| call(&mut world, *pn, source, &[9; LONG]));
    }
    world.until("all have ended", |world| {
        world.members.values().all(|member| member.seen.ended.len() == 1)
    });
    let first = world.members.values().next().unwrap().seen.ended[0].1.clone();
    let gone = || dead.iter().copied().collect::<BTreeSet<Pn>>();
    for (pn, member) in &world.members {
        let (call, outcome) = &member.seen.ended[0];
        assert_eq!(*outcome, first, "{pn}, seed {seed}");
        match outcome.answer(*pn, call) {
            Ok(answer) => assert!(answer == Answer::Bytes(vec![9; LONG]), "{pn}, seed {seed}"),
            Err(OperationError::MembersFailed { failed }) => assert!(failed.is_subset(&gone())),
            Err(other) => panic!("{other}, seed {seed}"),
        }
    }
    first.verdict.is_ok()
}

/// Members die in many ways of timing; both ends are seen.
fn with_many_deaths(source: Pn, dead: &[Pn]) {
    let good = (0..100).filter(|seed| with_deaths(*seed, source, dead)).count();
    assert!((3..97).contains(&good), "{good} of 100 succeeded");
}

#[test]
fn a_broadcast_ends_alike_for_all_when_its_source_dies() {
    [Pn(0), Pn(3), Pn(5)].into_iter().for_each(|source| with_many_deaths(source, &[source]));
}

#[test]
fn a_broadcast_ends_alike_for_all_when_the_root_dies() {
    with_many_deaths(ROOT, &[ROOT]);
    for source in [Pn(0), Pn(3), Pn(5)] {
        with_many_deaths(source, &[source, ROOT]);
        (0..50).for_each(|seed| _ = with_deaths(seed, source, &[ROOT]));
    }
}

#[test]
fn damaged_pieces_are_not_taken() {
    let mut world = world(Conditions { lost: 20, ..ORDERLY });
    world.damaged = 10;
    for count in 1..=10 {
        broadcast(&mut world, Pn(u32::from(count) % COUNT), &[count; LONG]);
        let done = |world: &World| all_have(world, usize::from(count), &[count; LONG]);
        world.until("all have it", done);
    }
}

#[test]
fn pieces_of_payloads_that_nobody_announces_keep_none_from_being_taken() {
    let hostile = Pn(1);
    for source in [Pn(0), hostile, ROOT] {
        let mut world = world(ORDERLY);
        for number in [1, 2, 3, 1 << 40] {
            let joined = world.members[&source].joined;
            let content =
                Content::Payload { source: Source { pn: source, joined }, digest: number };
            let of = Announcement { number, content, pieces: 25 };
            let piece = Piece { of, index: 0, payload: b"forged".to_vec() };
            world.multicast(hostile, &Packet { gn: GN, notice: Notice::Piece(Arc::new(piece)) });
        }
        world.settle(Duration::from_millis(1));
        for count in 1..=3 {
            broadcast(&mut world, source, &[count; LONG]);
            let done = |world: &World| all_have(world, usize::from(count), &[count; LONG]);
            world.until("all have it", done);
        }
    }
}
