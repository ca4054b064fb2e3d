//! Collective operations against plain computations, and in the face of single failures.

use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_messages::{Answer, Limits, OnFailure, Operation, OperationError, Reduction, Values};

use crate::world::{CALM, Conditions, Switches, World};

/// Lets every member call its part; returns the answer of each.
fn run(
    world: &mut World,
    count: u32,
    part: impl Fn(Pn) -> Operation,
) -> Vec<Result<Answer, OperationError>> {
    for pn in (0..count).map(Pn) {
        world.operate(pn, &part(pn), OnFailure::Fail);
        let pause = Duration::from_micros(world.draw(2_000));
        world.settle(pause);
    }
    world.settle(Duration::from_secs(2));
    let last = |pn: u32| {
        let (call, outcome) = world.members[&Pn(pn)].seen.ended.last().unwrap();
        outcome.answer(Pn(pn), call)
    };
    (0..count).map(last).collect()
}

fn world(count: u32, multicast: bool) -> World {
    let conditions = Conditions { multicast, lost: 50, ..CALM };
    let mut world = World::new(u64::from(count), conditions, Limits::default());
    world.form(count);
    world
}

/// Sizes and kinds of connection to be tried.
fn cases() -> impl Iterator<Item = (u32, bool)> {
    [1, 2, 5, 12].into_iter().flat_map(|count| [(count, false), (count, true)])
}

fn numbers(pn: Pn) -> Vec<i64> {
    let pn = i64::from(pn.0);
    vec![pn * 7 - 20, (pn * 37) % 11, i64::MAX - pn]
}

fn floats(pn: Pn) -> Vec<f64> {
    let sign = if pn.0.is_multiple_of(2) { 1.0 } else { -1.0 };
    vec![sign * 1e16 / f64::from(pn.0 + 1), 0.1 * f64::from(pn.0)]
}

#[test]
fn all_reduce_and_reduce_compute_what_a_loop_computes() {
    use Reduction::{And, LogicalAnd, LogicalOr, LogicalXor, Max, Min, Or, Product, Sum, Xor};
    use Reduction::{MaxLoc, MinLoc};
    for (count, multicast) in cases() {
        let mut world = world(count, multicast);
        for reduction in Reduction::ALL.into_iter().filter(|reduction| !reduction.takes_pairs()) {
            let rule = |a: i64, b: i64| match reduction {
                Sum => a.wrapping_add(b),
                Min => a.min(b),
                Max => a.max(b),
                And => a & b,
                Or => a | b,
                Xor => a ^ b,
                Product => a.wrapping_mul(b),
                LogicalAnd => (a != 0 && b != 0).into(),
                LogicalOr => (a != 0 || b != 0).into(),
                LogicalXor => ((a != 0) != (b != 0)).into(),
                MinLoc | MaxLoc => panic!("of pairs"),
            };
            let logical = matches!(reduction, LogicalAnd | LogicalOr | LogicalXor);
            let own = |number: i64| if logical { (number != 0).into() } else { number };
            let of = |pn, at: usize| own(numbers(Pn(pn))[at]);
            let fold = |at: usize| (0..count).map(|pn| of(pn, at)).reduce(rule).unwrap();
            let want = Values::I64((0..3).map(fold).collect());
            let values = |pn| Values::I64(numbers(pn));
            let all =
                run(&mut world, count, |pn| Operation::AllReduce { reduction, values: values(pn) });
            assert!(all.iter().all(|got| *got == Ok(Answer::Values(want.clone()))), "{reduction}");
            let root = Pn(count - 1);
            let one = run(&mut world, count, |pn| Operation::Reduce {
                root,
                reduction,
                values: values(pn),
            });
            for (pn, got) in (0..count).zip(one) {
                let mine = Pn(pn) == root;
                assert_eq!(
                    got,
                    Ok(if mine { Answer::Values(want.clone()) } else { Answer::Nothing })
                );
            }
        }
    }
}

/// Values of which some members have the same, each with its place: the member's rank.
fn places(pn: u32) -> [[i32; 2]; 2] {
    let rank = i32::try_from(pn).unwrap();
    [[rank * 5 % 3, rank], [7 - rank * 7 % 4, rank]]
}

#[test]
fn places_of_extremes_are_those_that_a_loop_finds() {
    let kinds: [fn(Vec<i32>) -> Values; 2] = [Values::I32, |numbers: Vec<i32>| {
        Values::F64(numbers.into_iter().map(f64::from).collect())
    }];
    for (count, multicast) in cases() {
        let mut world = world(count, multicast);
        // The greatest value is the least one with the other sign.
        for (reduction, sign) in [(Reduction::MinLoc, 1), (Reduction::MaxLoc, -1)] {
            let best = |at: usize| {
                let of = |[value, place]: [i32; 2]| [sign * value, place];
                of((0..count).map(|pn| of(places(pn)[at])).min().unwrap())
            };
            for kind in kinds {
                let all = run(&mut world, count, |pn| Operation::AllReduce {
                    reduction,
                    values: kind(places(pn.0).concat()),
                });
                let want = Answer::Values(kind([best(0), best(1)].concat()));
                assert!(all.iter().all(|got| *got == Ok(want.clone())), "{reduction}: {all:?}");
            }
        }
    }
}

/// Two numbers of each member, in every type.
fn of_all_types(pn: Pn) -> [Values; 6] {
    let (small, large) = (u8::try_from(pn.0 * 3 % 17).unwrap(), pn.0 * 0x1000_0001);
    let signed = i32::from_ne_bytes(large.to_ne_bytes());
    [
        Values::I32(vec![-i32::from(small), signed]),
        Values::I64(vec![-i64::from(small), i64::from(signed) << 31]),
        Values::U32(vec![small.into(), large]),
        Values::U64(vec![small.into(), u64::from(large) << 32]),
        Values::F32(vec![-f32::from(small), 1.0 / (1.0 + f32::from(small))]),
        Values::F64(vec![-f64::from(small), 1.0 / (1.0 + f64::from(large))]),
    ]
}

#[test]
fn numbers_of_all_types_are_combined_as_one_after_the_other_would_be() {
    use Reduction::{And, Max, Min, Or, Product, Sum, Xor};
    for (count, multicast) in cases() {
        let mut world = world(count, multicast);
        for (kind, own) in of_all_types(Pn(0)).into_iter().enumerate() {
            for reduction in [Sum, Min, Max, And, Or, Xor, Product] {
                if own.allow(reduction).is_err() {
                    continue;
                }
                let values = |pn: Pn| of_all_types(pn)[kind].clone();
                let mut want = vec![own.clone()];
                for pn in 1..count {
                    let mut next = want[want.len() - 1].clone();
                    next.combine(reduction, &values(Pn(pn))).unwrap();
                    want.push(next);
                }
                let all = run(&mut world, count, |pn| Operation::AllReduce {
                    reduction,
                    values: values(pn),
                });
                let last = Answer::Values(want[want.len() - 1].clone());
                assert!(all.iter().all(|got| *got == Ok(last.clone())), "{own:?} {reduction}");
                let each =
                    run(&mut world, count, |pn| Operation::Scan { reduction, values: values(pn) });
                let wanted: Vec<_> =
                    want.into_iter().map(|values| Ok(Answer::Values(values))).collect();
                assert_eq!(each, wanted, "{own:?} {reduction}");
            }
        }
    }
}

/// Members whose switches combine, and bring some nothing.
fn with_switches(count: u32, broken: u64) -> World {
    let mut world = World::new(u64::from(count) + broken, CALM, Limits::default());
    world.switches = Some(Switches::new(broken));
    world.form(count);
    world
}

#[test]
fn switches_combine_integers_and_nothing_is_reported() {
    for count in [2, 5, 12] {
        let mut world = with_switches(count, 0);
        let source = Pn(count / 2);
        let ends = [
            run(&mut world, count, |_| Operation::Barrier),
            run(&mut world, count, |pn| Operation::AllReduce {
                reduction: Reduction::Sum,
                values: Values::I32(vec![i32::MAX, i32::try_from(pn.0).unwrap()]),
            }),
            run(&mut world, count, |pn| Operation::Broadcast {
                source,
                payload: if pn == source { b"from one to all".to_vec() } else { Vec::new() },
            }),
        ];
        let count_i32 = i32::try_from(count).unwrap();
        let sums = vec![i32::MAX.wrapping_mul(count_i32), count_i32 * (count_i32 - 1) / 2];
        let wants = [
            Answer::Nothing,
            Answer::Values(Values::I32(sums)),
            Answer::Bytes(b"from one to all".to_vec()),
        ];
        for (got, want) in ends.iter().zip(wants) {
            assert!(got.iter().all(|got| *got == Ok(want.clone())), "{got:?}");
        }
        assert_eq!((world.reports, world.switches.as_ref().unwrap().combined), (0, 3));
        // Operations that they cannot do go over the tree.
        for values in [Values::I64(vec![1; 9]), Values::F64(vec![1.0])] {
            let part =
                |_| Operation::AllReduce { reduction: Reduction::Max, values: values.clone() };
            let got = run(&mut world, count, part);
            assert!(got.iter().all(|got| *got == Ok(Answer::Values(values.clone()))));
        }
        let long = vec![7; 100];
        let got = run(&mut world, count, |pn| Operation::Broadcast {
            source,
            payload: if pn == source { long.clone() } else { Vec::new() },
        });
        assert!(got.iter().all(|got| *got == Ok(Answer::Bytes(long.clone()))));
        assert_eq!(world.switches.as_ref().unwrap().combined, 3);
    }
}

#[test]
fn what_the_switches_do_not_bring_comes_over_the_tree_and_is_the_same() {
    for broken in [50, 500, 1000] {
        let mut world = with_switches(9, broken);
        for turn in 0..100 {
            let got = run(&mut world, 9, |pn| Operation::AllReduce {
                reduction: Reduction::Sum,
                values: Values::U64(vec![turn << (4 * pn.0)]),
            });
            let want = Values::U64(vec![(0..9).map(|pn| turn << (4 * pn)).sum()]);
            assert!(got.iter().all(|got| *got == Ok(Answer::Values(want.clone()))), "{turn}");
        }
        let combined = world.switches.as_ref().unwrap().combined;
        let tried = if broken == 1000 { 5..=9 } else { 3..=100 };
        assert!(tried.contains(&combined), "{combined} runs");
    }
}

#[test]
fn floats_are_summed_in_the_order_of_ranks() {
    for (count, multicast) in cases() {
        let mut world = world(count, multicast);
        let add = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(b).map(|(a, b)| a + b).collect();
        let want = (0..count).map(|pn| floats(Pn(pn))).reduce(add).unwrap();
        let all = run(&mut world, count, |pn| Operation::AllReduce {
            reduction: Reduction::Sum,
            values: Values::F64(floats(pn)),
        });
        assert!(all.iter().all(|got| *got == Ok(Answer::Values(Values::F64(want.clone())))));
    }
}

#[test]
fn scan_gives_each_the_values_up_to_itself() {
    for (count, multicast) in cases() {
        let mut world = world(count, multicast);
        let all = run(&mut world, count, |pn| Operation::Scan {
            reduction: Reduction::Max,
            values: Values::I64(numbers(pn)),
        });
        for (pn, got) in (0..count).zip(all) {
            let most = |at: usize| (0..=pn).map(|pn| numbers(Pn(pn))[at]).max().unwrap();
            assert_eq!(got, Ok(Answer::Values(Values::I64((0..3).map(most).collect()))));
        }
    }
}

#[test]
fn bytes_go_from_one_to_all_from_all_to_one_and_from_all_to_all() {
    let bytes = |pn: Pn| format!("bytes of {pn}").into_bytes().repeat(700);
    for (count, multicast) in cases() {
        let mut world = world(count, multicast);
        let one = Pn(count / 2);
        let all = run(&mut world, count, |pn| Operation::Broadcast {
            source: one,
            payload: if pn == one { bytes(pn) } else { Vec::new() },
        });
        assert!(all.iter().all(|got| *got == Ok(Answer::Bytes(bytes(one)))));
        let parts: Vec<(Pn, Vec<u8>)> = (0..count).map(|pn| (Pn(pn), bytes(Pn(pn)))).collect();
        let every = run(&mut world, count, |pn| Operation::AllGather { payload: bytes(pn) });
        assert!(every.iter().all(|got| *got == Ok(Answer::Parts(parts.clone()))));
        let gathered =
            run(&mut world, count, |pn| Operation::Gather { root: one, payload: bytes(pn) });
        let scattered = run(&mut world, count, |pn| {
            let parts = if pn == one { parts.clone() } else { Vec::new() };
            Operation::Scatter { source: one, parts }
        });
        for (pn, (gathered, scattered)) in (0..count).zip(gathered.into_iter().zip(scattered)) {
            let mine = Pn(pn) == one;
            let want = if mine { Answer::Parts(parts.clone()) } else { Answer::Nothing };
            assert_eq!(gathered, Ok(want));
            assert_eq!(scattered, Ok(Answer::Bytes(bytes(Pn(pn)))));
        }
    }
}

#[test]
fn nobody_passes_a_barrier_before_the_last_has_come() {
    let mut world = world(9, true);
    for pn in (0..8).map(Pn) {
        world.operate(pn, &Operation::Barrier, OnFailure::Fail);
    }
    world.settle(Duration::from_secs(30));
    assert!(world.members.values().all(|member| member.seen.ended.is_empty()));
    world.operate(Pn(8), &Operation::Barrier, OnFailure::Fail);
    world.settle(Duration::from_secs(2));
    assert!(world.members.values().all(|member| member.seen.ended.len() == 1));
}

#[test]
fn different_calls_fail_everywhere_and_say_which() {
    let mut world = world(4, false);
    let all = run(&mut world, 4, |pn| match pn {
        Pn(3) => Operation::AllReduce { reduction: Reduction::Max, values: Values::I32(vec![1]) },
        _ => Operation::Barrier,
    });
    for got in all {
        let error = got.unwrap_err().to_string();
        assert!(error.contains("barrier") && error.contains("all-reduce (max)"), "{error}");
    }
    let all = run(&mut world, 4, |pn| Operation::AllReduce {
        reduction: Reduction::Sum,
        values: Values::F32(vec![1.0; if pn == Pn(2) { 3 } else { 2 }]),
    });
    assert!(all.iter().all(|got| matches!(got, Err(OperationError::Differ { .. }))));
    let all = run(&mut world, 4, |pn| Operation::AllReduce {
        reduction: Reduction::Sum,
        values: Values::U32(vec![1; if pn == Pn(2) { 3 } else { 2 }]),
    });
    assert!(all.iter().all(|got| matches!(got, Err(OperationError::Differ { .. }))));
}

#[test]
fn contributions_that_are_too_long_together_end_the_operation_for_all() {
    for count in [2, 5, 12] {
        let limit = 100 * usize::try_from(count).unwrap() - 1;
        let limits = Limits { gathered: limit, ..Limits::default() };
        let mut world = World::new(u64::from(count), CALM, limits);
        world.form(count);
        let gather = |length: usize| {
            move |pn: Pn| Operation::AllGather {
                payload: vec![u8::try_from(pn.0).unwrap(); length],
            }
        };
        for answer in run(&mut world, count, gather(100)) {
            assert_eq!(answer, Err(OperationError::TooLong { limit }));
        }
        for answer in run(&mut world, count, gather(99)) {
            assert!(
                matches!(answer, Ok(Answer::Parts(parts)) if parts.iter().all(|(_, part)| part.len() == 99))
            );
        }
    }
}
