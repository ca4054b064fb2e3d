//! Collective operations of which one member dies before it has contributed.

use std::collections::BTreeSet;
use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_messages::{Answer, Limits, OnFailure, Operation, OperationError, Reduction, Values};

use crate::world::{CALM, Weather, World};

/// Members, before one of them dies.
const COUNT: u32 = 7;
/// Who sends where one does, and who gets where one does.
const ONE: Pn = Pn(2);

fn world(count: u32) -> World {
    let weather = Weather { multicast: false, lost: 50, ..CALM };
    let mut world = World::new(u64::from(count), weather, Limits::default());
    world.form(count);
    world
}

/// Everybody but one calls, and that one dies; answers how it ends for the others, by rank.
fn with_a_death(
    dead: Pn,
    on_failure: OnFailure,
    part: impl Fn(Pn) -> Operation,
) -> Vec<(Pn, Result<Answer, OperationError>)> {
    let mut world = world(COUNT);
    for pn in (0..COUNT).map(Pn).filter(|pn| *pn != dead) {
        world.operate(pn, &part(pn), on_failure);
    }
    world.settle(Duration::from_millis(200));
    world.kill(dead);
    world.publish();
    world.until("all have ended", |world| {
        world.members.values().all(|member| member.seen.ended.len() == 1)
    });
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

/// The bits of the members up to one, without who is dead.
fn bits(dead: Pn, up_to: Pn) -> Answer {
    Answer::Values(Values::U64(vec![((2 << up_to.0) - 1) & !(1 << dead.0)]))
}

/// What a member calls.
type Part = fn(Pn) -> Operation;
/// What it gets.
type Wanted = Box<dyn Fn(Pn) -> Answer>;

/// The operations, each with what a member calls and what it gets without who is dead.
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
fn who_dies_in_the_middle_is_named_or_left_out_as_the_callers_wish() {
    for dead in (0..COUNT).map(Pn).filter(|pn| *pn != ONE) {
        let failed = BTreeSet::from([dead]);
        for (part, wanted) in operations(dead) {
            for (_, got) in with_a_death(dead, OnFailure::Fail, part) {
                assert_eq!(got, Err(OperationError::MembersFailed { failed: failed.clone() }));
            }
            for (pn, got) in with_a_death(dead, OnFailure::Survivors, part) {
                assert_eq!(got, Ok(wanted(pn)), "{:?} at {pn} without {dead}", part(pn));
            }
        }
    }
}

#[test]
fn what_one_sends_to_all_cannot_do_without_that_one() {
    let sends: [Part; 2] = [
        |_| Operation::Broadcast { source: ONE, payload: Vec::new() },
        |_| Operation::Scatter { source: ONE, parts: Vec::new() },
    ];
    for part in sends {
        for on_failure in [OnFailure::Fail, OnFailure::Survivors] {
            for (_, got) in with_a_death(ONE, on_failure, part) {
                let failed = BTreeSet::from([ONE]);
                assert_eq!(got, Err(OperationError::MembersFailed { failed }));
            }
        }
    }
}
