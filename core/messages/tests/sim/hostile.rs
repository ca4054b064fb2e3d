//! Frames with numbers that no correct member reaches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_messages::{
    Ack, Announcement, Body, Call, Content, Gathered, Hello, Kind, Limits, Missing, Mode,
    OnFailure, Operation, Outcome, Part, Piece, Reduction, Report, Segment, Source,
};

use crate::world::{CALM, Conditions, World};

/// The largest number that is believed.
const MAX_COUNT: u64 = 1 << 62;
/// The member that sends such frames, and its neighbours.
const HOSTILE: Pn = Pn(1);

/// Frames of every kind with a number in every place that counts something.
fn frames(world: &World, number: u64) -> Vec<Body> {
    let joined = world.members[&HOSTILE].joined;
    let source = Source { pn: HOSTILE, joined };
    let part = |number, floor| {
        let payload = b"forged".to_vec();
        Arc::new(Part { source, number, floor, first: true, last: true, payload })
    };
    let call = Call {
        kind: Kind::Barrier,
        peer: Pn(0),
        reduction: Reduction::Sum,
        on_failure: OnFailure::Fail,
        segment: Segment::default(),
    };
    let participants = BTreeSet::from([HOSTILE]);
    let outcome = |number| {
        let (participants, verdict) = (participants.clone(), Ok(Gathered::Nothing));
        Arc::new(Outcome { number, participants, newest: joined, verdict })
    };
    let report = |number, round| Report {
        number,
        round,
        call,
        other: None,
        included: participants.clone(),
        newest: joined,
        expected: Arc::new(participants.clone()),
        lost: BTreeSet::new(),
        gathered: Gathered::Nothing,
    };
    let announcement = |number, round| {
        let content = Content::Outcome { round };
        Announcement { number, content, pieces: u32::MAX }
    };
    let piece = |number, round, index| {
        Arc::new(Piece { of: announcement(number, round), index, payload: b"forged".to_vec() })
    };
    let missing = |number, round, from, to| Missing {
        of: announcement(number, round),
        from,
        to,
        heard: true,
    };
    let hello =
        |round, decided| Body::Hello(Hello { joined, reply: true, hears: false, round, decided });
    vec![
        Body::Floor { source, floor: number },
        Body::Part(part(number, 0)),
        Body::Part(part(1, number)),
        Body::BestEffort(part(number, 0)),
        Body::Ack { source, ack: Ack { have: number, side: 0 } },
        Body::Ack { source, ack: Ack { have: 0, side: number } },
        Body::Round { round: number, decided: 0 },
        Body::Round { round: 0, decided: number },
        Body::Report(report(number, 0)),
        Body::Report(report(1, number)),
        Body::Decided { round: number, outcome: outcome(1) },
        Body::Decided { round: 1, outcome: outcome(number) },
        Body::Query { number },
        Body::Lacks { source, from: number, to: 0 },
        Body::Lacks { source, from: 0, to: number },
        Body::Piece(piece(number, 1, 0)),
        Body::Piece(piece(1, number, u32::MAX)),
        Body::Collected { of: announcement(number, 1), have: u32::MAX },
        Body::Collected { of: announcement(1, number), have: 0 },
        Body::Missing(missing(number, 1, 0, u32::MAX)),
        Body::Missing(missing(1, number, u32::MAX, 0)),
        hello(number, 0),
        hello(0, number),
    ]
}

/// Frames of payloads that nobody has sent.
fn early_frames(world: &World, number: u64) -> Vec<Body> {
    let newest = world.members[&HOSTILE].joined;
    let content =
        Content::Payload { source: Source { pn: HOSTILE, joined: newest }, digest: number };
    let of = Announcement { number, content, pieces: 2 };
    let participants = BTreeSet::from([HOSTILE]);
    let verdict = Ok(Gathered::Announced(of));
    let outcome = Arc::new(Outcome { number, participants, newest, verdict });
    vec![
        Body::Piece(Arc::new(Piece { of, index: 1, payload: b"forged".to_vec() })),
        Body::Collected { of, have: u32::MAX },
        Body::Missing(Missing { of, from: 0, to: u32::MAX, heard: false }),
        Body::Decided { round: number, outcome: outcome.clone() },
        Body::Decided { round: 1, outcome },
    ]
}

fn formed() -> World {
    let mut world = World::new(1, Conditions { multicast: false, ..CALM }, Limits::default());
    world.form(5);
    world
}

#[test]
fn numbers_that_nobody_reaches_change_nothing() {
    for number in [MAX_COUNT + 1, 1 << 63, u64::MAX] {
        let mut world = formed();
        for to in [Pn(0), Pn(2), Pn(3)] {
            for body in frames(&world, number).into_iter().chain(early_frames(&world, number)) {
                world.forge(HOSTILE, to, body);
            }
        }
        world.settle(Duration::from_secs(2));
        let all: Vec<Pn> = world.members.keys().copied().collect();
        for pn in &all {
            world.send(*pn, Mode::Reliable, b"after it").unwrap();
            world.operate(*pn, &Operation::Barrier, OnFailure::Fail);
        }
        world.settle(Duration::from_secs(2));
        for (pn, member) in &world.members {
            let others =
                all.iter().filter(|other| *other != pn).map(|other| (*other, &b"after it"));
            let mut messages = member.seen.messages.clone();
            messages.sort();
            assert!(
                messages
                    .iter()
                    .map(|(from, text)| (*from, text.as_slice()))
                    .eq(others.map(|(from, text)| (from, text.as_slice()))),
                "{pn}: {messages:?}"
            );
            assert!(member.seen.ended.len() == 1 && member.seen.ended[0].1.verdict.is_ok(), "{pn}");
        }
    }
}

#[test]
fn the_largest_numbers_overflow_nothing() {
    for number in [0, 1, MAX_COUNT - 1, MAX_COUNT] {
        let world = formed();
        for body in frames(&world, number).into_iter().chain(early_frames(&world, number)) {
            let mut world = formed();
            for to in [Pn(0), Pn(2), Pn(3)] {
                world.forge(HOSTILE, to, body.clone());
            }
            let all: Vec<Pn> = world.members.keys().copied().collect();
            all.iter().for_each(|pn| world.operate(*pn, &Operation::Barrier, OnFailure::Fail));
            world.send(HOSTILE, Mode::Reliable, b"after it").unwrap();
            // Its own group may stand still, but nothing falls over or runs without end.
            world.settle(Duration::from_millis(200));
        }
    }
}

#[test]
fn a_neighbour_that_greets_again_and_again_is_not_sent_everything_each_time() {
    let limits = Limits { inbox: 4, ..Limits::default() };
    let mut world = World::new(1, Conditions { multicast: false, ..CALM }, limits);
    world.form(3);
    world.members.get_mut(&HOSTILE).unwrap().slow = true; // so that parts are not acknowledged
    for _ in 0..40 {
        world.send(Pn(0), Mode::Reliable, b"again").unwrap();
    }
    world.settle(Duration::from_secs(1));
    let before = world.frames[&(Pn(0), HOSTILE)];
    let joined = world.members[&HOSTILE].joined;
    let hello = Hello { joined, reply: true, hears: false, round: 0, decided: 0 };
    for _ in 0..1_000 {
        world.forge(HOSTILE, Pn(0), Body::Hello(hello));
    }
    world.settle(Duration::from_millis(100));
    let sent = world.frames[&(Pn(0), HOSTILE)] - before;
    assert!((40..=200).contains(&sent), "{sent} parts");
}
