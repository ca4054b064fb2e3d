//! Tests of the codec.

use std::collections::BTreeSet;

use fabricast_groups::Pn;
use proptest::prelude::*;

use super::*;
use crate::frame::{Announcement, Content, Part, Piece, Report, Source};
use crate::operation::{Call, Gathered, Item, Kind, OnFailure, OperationError, Outcome, Segment};
use crate::values::{Reduction, Values};

fn part(payload: &[u8]) -> Arc<Part> {
    let source = Source { pn: Pn(7), joined: Revision(1 << 40) };
    Arc::new(Part {
        source,
        number: 9,
        floor: 8,
        first: true,
        last: false,
        payload: payload.to_vec(),
    })
}

fn piece() -> Arc<Piece> {
    let of = Announcement { number: 1 << 40, content: Content::Outcome { round: 2 }, pieces: 5 };
    Arc::new(Piece { of, index: 3, payload: b"piece".to_vec() })
}

fn early() -> Announcement {
    let source = Source { pn: Pn(7), joined: Revision(1 << 40) };
    Announcement { content: Content::Payload { source, digest: u64::MAX }, ..piece().of }
}

fn set(numbers: &[u32]) -> BTreeSet<Pn> {
    numbers.iter().copied().map(Pn).collect()
}

fn all_values() -> Vec<Values> {
    vec![
        Values::I32(vec![-1, i32::MAX]),
        Values::I64(vec![i64::MIN]),
        Values::U32(vec![u32::MAX]),
        Values::U64(vec![u64::MAX, 0]),
        Values::F32(vec![-0.5]),
        Values::F64(vec![1e300]),
    ]
}

fn gathered() -> Vec<Gathered> {
    let bytes = (Pn(1), Item::Bytes(Arc::from(&b"abc"[..])));
    let numbers = all_values().into_iter().map(|values| (Pn(2), Item::Values(values)));
    let listed = [bytes].into_iter().chain(numbers).collect();
    let folded = all_values().into_iter().map(Gathered::Folded);
    let listed = Gathered::Listed(listed);
    let others = [Gathered::Nothing, listed, Gathered::TooLong, Gathered::Announced(early())];
    folded.chain(others).collect()
}

fn outcomes() -> Vec<Outcome> {
    let failed = set(&[0, u32::MAX]);
    let differ = OperationError::Differ { one: "a".to_owned(), other: "ä".to_owned() };
    let long = OperationError::TooLong { limit: 1 << 20 };
    let errors = [OperationError::MembersFailed { failed }, differ, long].map(Err);
    let verdicts = gathered().into_iter().map(Ok).chain(errors);
    let (participants, newest) = (set(&[1, 2, 3, 9]), Revision(1 << 40));
    let outcome =
        |verdict| Outcome { number: 3, participants: participants.clone(), newest, verdict };
    verdicts.map(outcome).collect()
}

fn reports() -> Vec<Report> {
    use Kind::{AllGather, AllReduce, Barrier, Broadcast, Gather, Reduce, Scan, Scatter};
    let kinds = [Barrier, Broadcast, Reduce, AllReduce, Gather, Scatter, AllGather, Scan];
    let segments = [(0, 0), (0, 3), (7, 0)].map(|(number, cut)| Segment { number, cut });
    let mut segments = segments.into_iter().cycle();
    let kinds = kinds.into_iter().cycle();
    let report = |((reduction, kind), on_failure)| Report {
        number: 4,
        round: 5,
        call: Call { kind, peer: Pn(6), reduction, on_failure, segment: segments.next().unwrap() },
        other: (kind == Barrier).then(String::new),
        included: set(&[4, 5]),
        newest: Revision(300),
        expected: Arc::new(set(&[0, 1, 2, 4, 5, u32::MAX - 1, u32::MAX])),
        lost: BTreeSet::new(),
        gathered: Gathered::Nothing,
    };
    let ways = [OnFailure::Fail, OnFailure::Survivors].into_iter().cycle();
    Reduction::ALL.into_iter().zip(kinds).zip(ways).map(report).collect()
}

fn bodies() -> Vec<Body> {
    let source = Source { pn: Pn(1), joined: Revision(2) };
    let hello = Hello { joined: Revision(3), reply: true, hears: false, round: 4, decided: 5 };
    let change = RosterChange { whole: true, gone: vec![Pn(3)], here: vec![(Pn(4), Revision(5))] };
    let mut bodies = vec![
        Body::Hello(hello),
        Body::Roster(change),
        Body::Floor { source, floor: 8 },
        Body::Part(part(b"payload")),
        Body::BestEffort(part(b"")),
        Body::Ack { source, ack: Ack { have: 3, side: 2 } },
        Body::Piece(piece()),
        Body::Piece(Arc::new(Piece { of: early(), ..(*piece()).clone() })),
        Body::Lacks { source, from: 3, to: 1 << 40 },
        Body::Collected { of: piece().of, have: 4 },
        Body::Missing(Missing { of: piece().of, from: 1, to: 2, heard: true }),
        Body::Round { round: 6, decided: 7 },
        Body::Query { number: 8 },
    ];
    bodies.extend(reports().into_iter().map(Body::Report));
    let decided = |outcome| Body::Decided { round: 2, outcome: Arc::new(outcome) };
    bodies.extend(outcomes().into_iter().map(decided));
    bodies
}

fn packets() -> Vec<Packet> {
    let decided = |outcome| Notice::Decided { round: 2, outcome: Arc::new(outcome) };
    let notices = [Notice::Part(part(b"x")), Notice::BestEffort(part(b"y"))];
    let notices = notices.into_iter().chain(outcomes().into_iter().map(decided));
    notices.map(|notice| Packet { gn: Gn(77), notice }).collect()
}

#[test]
fn what_was_written_is_read() {
    for body in bodies() {
        assert_eq!(Body::decode(&body.encode()), Ok(body));
    }
    for packet in packets() {
        assert_eq!(Packet::decode(&packet.encode()), Ok(Some(packet)));
    }
}

#[test]
fn bytes_that_end_early_or_late_are_refused() {
    for body in bodies() {
        let bytes = body.encode();
        for end in 0..bytes.len() {
            assert!(Body::decode(&bytes[..end]).is_err(), "{body:?} up to {end}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Body::decode(&longer), Err(DecodeError::Long { bytes: 1 }));
    }
}

#[test]
fn a_text_is_passed_on_as_it_came_or_refused() {
    let report = reports().into_iter().find(|report| report.other.is_some()).unwrap();
    let other = Some("\u{e4}".to_owned());
    let mut bytes = Body::Report(Report { other, ..report }).encode();
    let at = bytes.windows(2).position(|two| two == [0xC3, 0xA4]).unwrap();
    assert_eq!(Body::decode(&bytes).unwrap().encode(), bytes);
    bytes[at] = 0xFF;
    assert!(Body::decode(&bytes).is_err());
}

#[test]
fn a_groups_numbers_are_few_bytes() {
    let all = (0..100_000).map(Pn).collect();
    let verdict = Ok(Gathered::Nothing);
    let outcome = Outcome { number: 1, participants: all, newest: Revision(1), verdict };
    let decided = Body::Decided { round: 1, outcome: Arc::new(outcome) };
    assert!(decided.encode().len() < 64);
}

#[test]
fn a_set_of_everybody_is_not_believed() {
    let mut bytes = vec![8];
    bytes.extend([0; 16]);
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0]);
    let refused = DecodeError::Value { what: "end of a range", value: u64::from(u32::MAX) };
    assert_eq!(Body::decode(&bytes), Err(refused));
}

#[test]
fn other_packets_to_the_group_are_left_alone() {
    assert_eq!(Packet::decode(b""), Ok(None));
    assert_eq!(Packet::decode(b"hello, world"), Ok(None));
}

proptest! {
    #[test]
    fn no_bytes_make_it_fall_over(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let all = bodies();
        let mut bytes = all[which.index(all.len())].encode();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = Body::decode(&bytes); // whatever it answers, it answers
    }
}
