//! Collective operations of which one member dies before it has contributed.

use std::collections::BTreeSet;
use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_messages::{Answer, Limits, OnFailure, Operation, OperationError, Reduction, Values};

use crate::world::{CALM, Conditions, World};

/// Members, before one of them dies.
const COUNT: u32 = 7;
/// Source of operations with a source, and root of those with a root.
const ONE: Pn = Pn(2);

/// All members but one call, and that one dies; returns the ends for the others, by rank. Members
/// with the outcome know that the dead one is gone (MSG-4), so that the next operation succeeds.
fn with_a_death(
    dead: Pn,
    on_failure: OnFailure,
    multicast: bool,
    part: impl Fn(Pn) -> Operation,
) -> Vec<(Pn, Result<Answer, OperationError>)> {
    let conditions = Conditions { multicast, lost: 50, ..CALM };
    let mut world = World::new(u64::from(COUNT), conditions, Limits::default());
    world.form(COUNT);
    for pn in (0..COUNT).map(Pn).filter(|pn| *pn != dead) {
        world.operate(pn, &part(pn), on_failure);
    }
    world.settle(Duration::from_millis(200));
    world.kill(dead);
    world.publish();
    world.until("all have ended", |world| {
        world.members.values().all(|member| member.seen.ended.len() == 1)
    });
    let again: Vec<Pn> = world.members.keys().copied().collect();
    again.into_iter().for_each(|pn| world.operate(pn, &Operation::Barrier, OnFailure::Fail));
    world.until("the next has ended, too", |world| {
        world.members.values().all(|member| member.seen.ended.len() == 2)
    });
    for (pn, member) in &world.members {
        assert_eq!(member.seen.left_out, [], "as {pn} knew when it had ended");
        assert!(member.seen.ended[1].1.verdict.is_ok(), "{pn}: {:?}", member.seen.ended[1]);
    }
    let end = |(pn, member): (&Pn, &crate::world::Member)| {
        let (call, outcome) = &member.seen.ended[0];
        (*pn, outcome.answer(*pn, call))
    };
    world.members.iter().map(end).collect()
}

fn bit(pn: Pn) -> Values {
    Values::U64(vec![1 << pn.0])
}

fn bytes(pn: Pn) -> Vec<u8> {
    format!("of {pn}").into_bytes()
}

/// The bits of the members up to a rank, without the dead one.
fn bits(dead: Pn, up_to: Pn) -> Answer {
    Answer::Values(Values::U64(vec![((2 << up_to.0) - 1) & !(1 << dead.0)]))
}

/// Call of each member.
type Part = fn(Pn) -> Operation;
/// Expected answer of each member.
type Wanted = Box<dyn Fn(Pn) -> Answer>;

/// The operations, each with the call of a member and its answer without the dead one.
fn operations(dead: Pn) -> Vec<(Part, Wanted)> {
    let last = Pn(COUNT - 1);
    let living: Vec<Pn> = (0..COUNT).map(Pn).filter(|pn| *pn != dead).collect();
    let parts = Answer::Parts(living.iter().map(|pn| (*pn, bytes(*pn))).collect());
    let at_one = |answer: Answer| -> Wanted {
        Box::new(move |pn| if pn == ONE { answer.clone() } else { Answer::Nothing })
    };
    vec![
        (|_| Operation::Barrier, Box::new(|_| Answer::Nothing)),
        (
            |pn| Operation::Reduce { root: ONE, reduction: Reduction::Sum, values: bit(pn) },
            at_one(bits(dead, last)),
        ),
        (
            |pn| Operation::AllReduce { reduction: Reduction::Sum, values: bit(pn) },
            Box::new(move |_| bits(dead, last)),
        ),
        (
            |pn| Operation::Scan { reduction: Reduction::Or, values: bit(pn) },
            Box::new(move |pn| bits(dead, pn)),
        ),
        (|pn| Operation::Gather { root: ONE, payload: bytes(pn) }, at_one(parts.clone())),
        (|pn| Operation::AllGather { payload: bytes(pn) }, Box::new(move |_| parts.clone())),
        (
            |pn| Operation::Broadcast { source: ONE, payload: bytes(pn) },
            Box::new(|_| Answer::Bytes(bytes(ONE))),
        ),
        (
            |_| Operation::Scatter {
                source: ONE,
                parts: (0..COUNT).map(|pn| (Pn(pn), bytes(Pn(pn)))).collect(),
            },
            Box::new(|pn| Answer::Bytes(bytes(pn))),
        ),
    ]
}

#[test]
fn a_member_that_dies_during_an_operation_is_named_or_left_out_as_called_for() {
    for dead in (0..COUNT).map(Pn).filter(|pn| *pn != ONE) {
        let failed = BTreeSet::from([dead]);
        for (number, (part, wanted)) in operations(dead).into_iter().enumerate() {
            let multicast = (number + dead.0 as usize).is_multiple_of(2);
            for (_, got) in with_a_death(dead, OnFailure::Fail, multicast, part) {
                assert_eq!(got, Err(OperationError::MembersFailed { failed: failed.clone() }));
            }
            for (pn, got) in with_a_death(dead, OnFailure::Survivors, !multicast, part) {
                assert_eq!(got, Ok(wanted(pn)), "{:?} at {pn} without {dead}", part(pn));
            }
        }
    }
}

/// Two members die at once and split the tree; a successor may take the place of one.
fn two_deaths(seed: u64) {
    let slowest = Duration::from_millis(20);
    let conditions = Conditions { multicast: seed.is_multiple_of(2), lost: 50, slowest, ..CALM };
    let mut world = World::new(seed, conditions, Limits::default());
    let count = 9;
    world.form(count);
    let dead = [(); 2].map(|()| Pn(u32::try_from(world.draw(u64::from(count))).unwrap()));
    for pn in (0..count).map(Pn).filter(|pn| !dead.contains(pn)) {
        world.operate(pn, &Operation::Barrier, OnFailure::Fail);
    }
    world.settle(Duration::from_millis(200));
    BTreeSet::from(dead).into_iter().for_each(|pn| world.kill(pn));
    world.publish();
    let living: Vec<Pn> = world.members.keys().copied().collect();
    if seed.is_multiple_of(3) {
        world.cut(living[3], living[4], Duration::from_millis(30));
    }
    if seed.is_multiple_of(5) {
        world.join(dead[0], "another");
        world.publish();
    }
    world.until("all have ended", |world| {
        living.iter().all(|pn| world.members[pn].seen.ended.len() == 1)
    });
    for pn in living {
        assert_eq!(world.members[&pn].seen.left_out, [], "as {pn} knew then, seed {seed}");
    }
}

#[test]
fn members_with_an_outcome_know_who_is_gone() {
    (600..1_000).for_each(two_deaths);
}

#[test]
fn a_broadcast_or_scatter_fails_without_its_source() {
    let sends: [Part; 2] = [
        |_| Operation::Broadcast { source: ONE, payload: Vec::new() },
        |_| Operation::Scatter { source: ONE, parts: Vec::new() },
    ];
    for part in sends {
        for on_failure in [OnFailure::Fail, OnFailure::Survivors] {
            for (_, got) in with_a_death(ONE, on_failure, true, part) {
                let failed = BTreeSet::from([ONE]);
                assert_eq!(got, Err(OperationError::MembersFailed { failed }));
            }
        }
    }
}
