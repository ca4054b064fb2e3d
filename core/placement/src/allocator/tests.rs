//! Tests of placement on trees small enough to see through.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::slurm;

/// Two blocks of two midplanes of two leaves of four nodes; nodes are numbered in that order.
fn topology() -> Arc<JobTopology> {
    static TOPOLOGY: LazyLock<Arc<JobTopology>> = LazyLock::new(|| {
        let mut text = "SwitchName=top Switches=b[0-1]\n".to_owned();
        for block in 0..2 {
            text += &format!("SwitchName=b{block} Switches=m{block}[0-1]\n");
            for cn in 0..2 {
                text += &format!("SwitchName=m{block}{cn} Switches=l{block}{cn}[0-1]\n");
                for leaf in 0..2 {
                    let first = ((block * 2 + cn) * 2 + leaf) * 4 + 10;
                    let last = first + 3;
                    text += &format!("SwitchName=l{block}{cn}{leaf} Nodes=n[{first}-{last}]\n");
                }
            }
        }
        Arc::new(slurm::read(&text).unwrap().job_topology().unwrap().0)
    });
    TOPOLOGY.clone()
}

fn allocator() -> JobAllocator {
    JobAllocator::new(topology())
}

fn place(allocator: &mut JobAllocator, id: u64, size: u32) -> (JobClass, Vec<u32>) {
    let job = allocator.allocate(JobId(id), size, Spread::No).unwrap();
    (job.class, job.nodes.clone())
}

fn refused(allocator: &mut JobAllocator, size: u32) -> String {
    allocator.allocate(JobId(99), size, Spread::No).unwrap_err().to_string()
}

#[test]
fn classes_follow_the_size_of_the_units() {
    let topology = topology();
    let largest: Vec<u32> = topology.classes().map(|class| topology.largest(class)).collect();
    assert_eq!(largest, [4, 8, 16, 32]);
    for (size, class) in [(1, 0), (4, 0), (5, 1), (8, 1), (9, 2), (16, 2), (17, 3), (32, 3)] {
        assert_eq!(topology.class_of_size(size), Some(JobClass::ALL[class]), "{size}");
    }
    assert_eq!(topology.class_of_size(33), None);
}

#[test]
fn small_jobs_fill_a_leaf_before_they_open_another() {
    let mut allocator = allocator();
    assert_eq!(place(&mut allocator, 1, 3), (JobClass::T0, vec![0, 1, 2]));
    assert_eq!(place(&mut allocator, 2, 2), (JobClass::T0, vec![4, 5]));
    assert_eq!(place(&mut allocator, 3, 1), (JobClass::T0, vec![3]));
    // A leaf whose rest no larger job can have goes first: job 4 takes leaves 2 and 3, of 3 one
    // node.
    assert_eq!(place(&mut allocator, 4, 5), (JobClass::T1, vec![8, 9, 10, 11, 12]));
    assert_eq!(place(&mut allocator, 5, 2), (JobClass::T0, vec![13, 14]));
}

#[test]
fn a_midplane_is_shared_by_jobs_on_different_leaves_only() {
    let mut allocator = allocator();
    assert_eq!(place(&mut allocator, 1, 9).0, JobClass::T2); // a midplane and a leaf of the next
    assert_eq!(place(&mut allocator, 2, 16).0, JobClass::T2); // the other block
    assert_eq!(place(&mut allocator, 3, 2), (JobClass::T0, vec![9, 10]));
    assert_eq!(allocator.free(), 5);
    assert_eq!(
        refused(&mut allocator, 5),
        "5 nodes are of class T1, which lies in one compute midplane (rule 3); 5 nodes are free, midplane 1 has \
         the most room, 4: 5 nodes are free in it, 1 of them on 1 leaf switch used by another job of class T1 or \
         higher (rule 5)"
    );
    assert_eq!(place(&mut allocator, 4, 4), (JobClass::T0, vec![12, 13, 14, 15]));
}

#[test]
fn a_refusal_names_rules_six_and_seven_and_the_class_that_has_room() {
    let mut allocator = allocator();
    assert_eq!(place(&mut allocator, 1, 20).0, JobClass::T3); // block 0 and four nodes of block 1
    let text = refused(&mut allocator, 9);
    assert!(text.contains("block 1 has the most room, 8"), "{text}");
    assert!(text.contains("4 of them on 1 midplane used by another job of class T2"), "{text}");
    assert!(text.ends_with("(rule 6)"), "{text}");
    allocator.release(JobId(1));
    for (id, node) in [(1, 0), (2, 8), (3, 16), (4, 24)] {
        allocator.reserve(JobId(id), &[node]).unwrap();
    }
    let text = refused(&mut allocator, 8);
    assert!(text.ends_with("has the most room, 7; spread as class T2 it finds room"), "{text}");
    assert_eq!(allocator.allocate(JobId(9), 8, Spread::Yes).unwrap().class, JobClass::T2);
}

#[test]
fn a_job_is_spread_only_if_it_may_be() {
    let mut allocator = allocator();
    for (id, leaf) in (0..8).zip((0..32).step_by(4)) {
        allocator.reserve(JobId(id), &[leaf]).unwrap();
    }
    assert!(refused(&mut allocator, 4).ends_with("spread as class T1 it finds room"));
    let spread = allocator.allocate(JobId(9), 4, Spread::Yes).unwrap();
    assert_eq!((spread.class, &*spread.nodes), (JobClass::T1, &[1, 2, 3, 5][..]));
}

#[test]
fn nodes_that_are_asked_for_by_name_are_refused_with_the_rule_they_break() {
    let mut allocator = allocator();
    allocator.reserve(JobId(1), &[0, 4]).unwrap();
    let mut refusal = |nodes: &[u32]| allocator.reserve(JobId(2), nodes).unwrap_err();
    assert_eq!(refusal(&[4]), JobRefusal::Taken { node: 4, by: JobId(1) });
    assert_eq!(refusal(&[40]), JobRefusal::UnknownNode { node: 40 });
    assert_eq!(refusal(&[7, 7]), JobRefusal::Twice { node: 7 });
    assert_eq!(refusal(&[]), JobRefusal::NoNodes);
    assert_eq!(
        refusal(&[1, 8]).to_string(),
        "the job is of class T2 and would share the links of leaf switch 0 with job 1 (rule 5)"
    );
    allocator.reserve(JobId(2), &[8, 28]).unwrap();
    let shared = allocator.reserve(JobId(3), &[12, 24]).unwrap_err();
    assert_eq!(
        shared,
        JobRefusal::Shared { class: JobClass::T3, level: 1, unit: 1, with: JobId(2) }
    );
    allocator.reserve(JobId(3), &[1, 2]).unwrap(); // a T0 job may be beside job 1
    assert_eq!(allocator.reserve(JobId(3), &[9]), Err(JobRefusal::Exists { job: JobId(3) }));
}

#[test]
fn the_report_names_the_moves_that_make_room() {
    let mut allocator = allocator();
    for (id, node) in [(1, 0), (2, 8), (3, 16), (4, 24)] {
        allocator.reserve(JobId(id), &[node, node + 4]).unwrap(); // T1: every midplane has one
    }
    let report = allocator.report();
    assert_eq!((report.live, report.free), (32, 24));
    let fits: Vec<u32> = report.classes.iter().map(|class| class.fits).collect();
    assert_eq!(fits, [3, 0, 0, 0]);
    let midplane = &report.classes[1];
    // A job of two nodes fits on one leaf, beside another job's.
    assert_eq!((midplane.least, midplane.most, midplane.after), (5, 8, 8));
    assert_eq!(midplane.moves, [Move { job: JobId(1), from: vec![0, 4], to: vec![17, 18] }]);
    let moved: Vec<u64> = allocator.make_room(16).unwrap().iter().map(|one| one.job.0).collect();
    assert_eq!(moved, [1, 2]);
    allocator.release(JobId(4));
    let moves = allocator.make_room(16).unwrap();
    assert_eq!(moves, [Move { job: JobId(3), from: vec![16, 20], to: vec![1, 2] }]);
    assert_eq!(allocator.make_room(8), Some(vec![]));
    assert_eq!(allocator.make_room(33), None);
}

#[test]
fn a_running_job_is_taken_over_even_if_it_breaks_a_rule_now() {
    let mut allocator = allocator();
    allocator.restore(JobId(1), &[0, 4]).unwrap();
    assert_eq!(allocator.restore(JobId(2), &[1, 5]).unwrap().class, JobClass::T1);
    allocator.release(JobId(1));
    assert!(allocator.reserve(JobId(3), &[2, 8]).is_err(), "job 2 still reaches out of leaf 0");
    allocator.release(JobId(2));
    allocator.reserve(JobId(3), &[2, 8]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// JOB-2, and a release gives back all that the job had.
    #[test]
    fn what_is_free_depends_on_the_jobs_only(
        steps in proptest::collection::vec((0u64..8, 0u32..20, any::<bool>()), 0..60),
    ) {
        let mut allocator = allocator();
        for (id, size, spread) in steps {
            let before = allocator.clone();
            let spread = if spread { Spread::Yes } else { Spread::No };
            if size == 0 {
                allocator.release(JobId(id));
            } else if allocator.allocate(JobId(id), size, spread).is_err() {
                prop_assert_eq!(&allocator, &before, "a refusal changes nothing");
            } else {
                let mut back = allocator.clone();
                back.release(JobId(id));
                prop_assert_eq!(&back, &before);
            }
            let mut again = JobAllocator::new(topology());
            for (id, job) in before.jobs().collect::<Vec<_>>().into_iter().rev() {
                again.reserve(id, &job.nodes).unwrap();
            }
            prop_assert_eq!(&again, &before);
        }
    }

    /// Moves can be made one after the other and do what is said of them.
    #[test]
    fn moves_make_the_room_that_is_promised(
        jobs in proptest::collection::vec((1u32..12, any::<bool>()), 0..24), wanted in 1u32..33,
    ) {
        let mut allocator = allocator();
        for (id, (size, ends)) in (0u64..).zip(&jobs) {
            let placed = allocator.allocate(JobId(id), *size, Spread::Yes).is_ok();
            if placed && *ends && id > 0 {
                allocator.release(JobId(id - 1));
            }
        }
        if let Some(moves) = allocator.make_room(wanted) {
            for one in moves {
                prop_assert_eq!(allocator.release(one.job).unwrap().nodes, one.from);
                allocator.reserve(one.job, &one.to).unwrap();
            }
            prop_assert!(allocator.allocate(JobId(1_000), wanted, Spread::No).is_ok());
        }
        for class in allocator.report().classes {
            let mut moved = allocator.clone();
            for one in &class.moves {
                moved.release(one.job).unwrap();
                moved.reserve(one.job, &one.to).unwrap();
            }
            let now = moved.report().classes[class.class.level()].fits;
            prop_assert!(now >= class.after, "{class:?}");
        }
    }
}
