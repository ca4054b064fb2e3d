//! Laws over random histories.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;

use super::jobs::{create_job, delete_job, reserve_job};
use super::*;
use crate::command::{FormMember, GroupMove};
use crate::flaps::{FlapDamping, FlapPolicy};

fn random_command() -> impl Strategy<Value = Command> {
    let group = (0u32..4).prop_map(|group| format!("g{group}"));
    let process = (0u32..2).prop_map(|process| format!("p{process}"));
    let id = (0u32..60).prop_map(|id| format!("r{id}"));
    (0u32..25, 0u32..5, group, process, id, 1u64..4).prop_map(
        |(kind, node, group, process, id, number)| match kind {
            0 | 1 => register(node, number),
            2..=6 => Command::Join(Join {
                request_id: RequestId::new(&id).unwrap(),
                group: GroupSpec {
                    persistent: group == "g0",
                    mgid: (group == "g1").then_some(Mgid(1)),
                    ..spec(&group)
                },
                member: Joiner { incarnation: Incarnation(number), ..joiner(node, &process) },
            }),
            7 | 8 => leave(&id, &group, node, &process),
            9 => delete(&id, &group),
            10 | 11 => node_failed(node),
            13 | 14 => create_job(&id, &process, &[node, node + 1]),
            15 => delete_job(&id, &process),
            24 => Command::ReserveJob(reserve_job(&process)),
            12 => Command::Routed { routes: Vec::new(), clean: Some(Revision(number * 20)) },
            22 | 23 => Command::MoveGroups(vec![GroupMove {
                gn: Gn(number),
                from: Mgid([1, 100, 101, 7, 8][node as usize]),
                to: Mgid([7, 8, 101, 1, 100][(node + kind) as usize % 5]),
            }]),
            20 | 21 => Command::RemoveNode { node: node_name(node) },
            16 | 17 => Command::DeleteJobGroups(batches::teardown(&id, &process, 9)),
            _ => Command::FormGroups(Arc::new(FormGroups {
                request_id: RequestId::new(&id).unwrap(),
                groups: [group, "g3".to_owned()]
                    .iter()
                    .map(|group| FormGroup {
                        group: GroupSpec {
                            job: Some(JobName::new(&process).unwrap()),
                            complete_at: NonZeroU32::new(node),
                            ..spec(group)
                        },
                        members: [joiner(node, &process), joiner((node + 1) % 5, "p0")]
                            .map(FormMember::from)
                            .to_vec(),
                    })
                    .collect(),
            })),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// G1, DIR-1, DIR-2, DIR-3, DIR-4, FLAP-1, and the store half of S3
    #[test]
    fn every_history_keeps_the_invariants_and_loads_equal(
        commands in proptest::collection::vec(random_command(), 1..120),
    ) {
        let damping = FlapDamping {
            policy: [FlapPolicy::Off, FlapPolicy::NoHost, FlapPolicy::Refuse][commands.len() % 3],
            limit: 1,
            half_life: Duration::from_secs(60),
        };
        let ends = commands.len() % 4 + 1;
        let mut tic = Tic::new(Limits { requests: 16, damping, ends, ..Limits::default() });
        for node in 0..4 {
            tic.run(&register(node, 1)).unwrap();
        }
        let mut incarnations: BTreeMap<NodeName, Incarnation> = BTreeMap::new();
        for command in &commands {
            let before = tic.directory.clone();
            tic.now = tic.now.after(Duration::from_secs(1));
            let identity = |m: &MemberRecord| (m.gn, m.joined, m.node.clone(), m.process.clone());
            let members = before.groups.values().flat_map(|group| group.members.values());
            let pns: BTreeMap<_, _> = members.map(|member| (identity(member), member.pn)).collect();
            let answer = tic.run(command);
            if answer.is_err() {
                prop_assert_eq!(&before, &tic.directory);
            }
            if let Ok(Answer::Node(node)) = answer
                && before.node(&node.name).is_none_or(|old| old.incarnation != node.incarnation)
            {
                let last = incarnations.insert(node.name, node.incarnation);
                prop_assert!(last.is_none_or(|last| last < node.incarnation), "DIR-4");
            }
            for member in tic.directory.groups.values().flat_map(|g| g.members.values()) {
                if let Some(pn) = pns.get(&identity(member)) {
                    prop_assert_eq!(*pn, member.pn, "G1: a live process keeps its PN");
                }
            }
            for group in tic.directory.groups.values() {
                let known = before.groups.get(&group.record.gn);
                let chosen = group.record.agent.as_ref();
                if known.is_some_and(|known| known.record.agent.as_ref() == chosen) {
                    continue;
                }
                let is_free = |node: &NodeName| {
                    let flaps = tic.directory.nodes[node].flaps;
                    flaps.is_none_or(|flaps| flaps.suppressed_until(tic.now).is_none())
                };
                let none_is = !group.members.values().any(|member| is_free(&member.node));
                prop_assert!(chosen.is_none_or(|node| is_free(node) || none_is), "FLAP-1");
            }
            tic.check();
        }
    }

    /// The changes of any decisions, undone backwards, leave the records as they were.
    #[test]
    fn inverses_of_changes_undo_them(
        commands in proptest::collection::vec(random_command(), 1..100),
        kept in 0usize..60,
    ) {
        let mut tic = Tic::new(Limits { requests: 16, ends: 3, ..Limits::default() });
        let commands: Vec<Command> = (0..4).map(|node| register(node, 1)).chain(commands).collect();
        let (kept, undone) = commands.split_at(kept.min(commands.len()));
        for command in kept {
            let _ = tic.run(command);
        }
        let before = tic.directory.clone();
        let mut inverses = Vec::new();
        for command in undone {
            let directory = &mut tic.directory;
            let mut lowest_free =
                |group: &NewGroup<'_>| (100..).map(Mgid).find(|mgid| (group.is_free)(*mgid));
            let Ok(decision) = directory.decide(tic.now, command, &mut lowest_free) else {
                continue;
            };
            for change in &decision.changes {
                inverses.extend(directory.inverse(change));
                directory.apply(change);
            }
        }
        for inverse in inverses.iter().rev() {
            tic.directory.apply(inverse);
        }
        prop_assert_eq!(&before, &tic.directory);
    }
}
