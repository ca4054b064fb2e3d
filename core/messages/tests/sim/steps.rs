//! Steps of a message: at most the source's depth in the tree, and one.
//!
//! Source: Wu et al. 1997: log2(N) + 1 in the worst case.

use std::collections::BTreeSet;
use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_groups::tree::TreeShape;
use fabricast_messages::{Limits, Mode};

use crate::world::{Conditions, World};

/// Every step takes one microsecond, neither more nor less.
const STEPS: Conditions =
    Conditions { multicast: true, lost: 0, repeated: 0, slowest: Duration::from_nanos(1) };

fn depth(tree: TreeShape, pn: Pn, live: &BTreeSet<Pn>) -> u32 {
    let above = tree.position(pn, live).unwrap().parent;
    above.map_or(0, |parent| 1 + depth(tree, parent, live))
}

/// Lets a member send and counts the steps until the last of the others has the message.
fn steps(world: &mut World, source: Pn) -> u64 {
    world.settle(Duration::from_secs(3)); // nothing else is under way
    let sent_at = world.now;
    world.send(source, Mode::Reliable, b"step by step").unwrap();
    world.settle(Duration::from_millis(5)); // before anything is sent again
    let others = world.members.iter().filter(|(pn, _)| **pn != source);
    let last = others.map(|(_, member)| member.seen.last_at).max().unwrap();
    u64::try_from(last.since(sent_at).as_micros()).unwrap()
}

#[test]
fn a_message_takes_the_steps_to_the_root_and_one() {
    let wide = [TreeShape::KAry { width: 5 }, TreeShape::KNomial { width: 3 }];
    let all = (2..=20).chain([63, 64, 100]).map(|count| (TreeShape::default(), count));
    for (tree, count) in all.chain(wide.into_iter().flat_map(|tree| [(tree, 20), (tree, 64)])) {
        let mut world = World::new(1, STEPS, Limits::default());
        world.tree = tree;
        world.form(count);
        let live: BTreeSet<Pn> = (0..count).map(Pn).collect();
        let sources = (0..count).rev().step_by(usize::try_from(count).unwrap().div_ceil(12));
        for source in sources.map(Pn) {
            let most = u64::from(depth(tree, source, &live) + 1);
            let taken = steps(&mut world, source);
            assert!(taken <= most, "{taken} steps from {source} of {count}, at most {most}");
        }
    }
}

/// A group of which the first, the last and some between them take part; the others only pass on.
fn tall(count: u32) -> (World, Vec<Pn>) {
    let mut world = World::new(1, STEPS, Limits::default());
    (0..count).for_each(|pn| world.join(Pn(pn), &format!("n{pn}")));
    world.publish();
    world.settle(Duration::from_millis(50));
    let stride = usize::try_from(count / 12).unwrap().max(1);
    let some = (0..count).step_by(stride).chain(count.saturating_sub(6)..count);
    let some: BTreeSet<Pn> = some.map(Pn).collect();
    some.iter().for_each(|pn| world.open(*pn));
    world.settle(Duration::from_secs(2));
    assert_eq!(world.roster(Pn(count - 1)).len(), some.len());
    (world, some.into_iter().collect())
}

#[test]
fn the_steps_of_thousands_are_those_of_the_paper_at_most() {
    let powers = (1..=12).map(|power| 1 << power);
    let counts: BTreeSet<u32> = powers.flat_map(|all| [all - 1, all, all + 1]).collect();
    let mut worst = 0;
    for count in counts.range(2..=4096).copied() {
        let live: BTreeSet<Pn> = (0..count).map(Pn).collect();
        let (mut world, some) = tall(count);
        for source in [some[0], some[some.len() / 2], Pn(count - 1)] {
            let taken = steps(&mut world, source);
            assert!(
                taken <= u64::from(depth(TreeShape::default(), source, &live) + 1),
                "{taken} steps from {source}"
            );
            assert!(taken <= u64::from(count.ilog2() + 1), "the paper: log2(N) + 1");
            worst = worst.max(taken);
        }
    }
    assert_eq!(worst, 13, "from the deepest of 4096, and so no bound is too large");
}

#[test]
fn without_hardware_a_message_crosses_the_tree() {
    let mut world = World::new(1, Conditions { multicast: false, ..STEPS }, Limits::default());
    world.form(31);
    assert_eq!(steps(&mut world, Pn(30)), 4 + 4, "up to the root and down to the other side");
    assert_eq!(steps(&mut world, Pn(15)), 4, "the root of 31");
}

#[test]
fn the_deepest_of_any_number_of_members_is_as_deep_as_the_paper_says() {
    let mut live = BTreeSet::new();
    for count in 1..=4096_u32 {
        live.insert(Pn(count - 1));
        let most = depth(TreeShape::default(), Pn(0), &live) + 1; // the deepest, as `fabricast_groups::tree` knows
        assert_eq!(most, count.ilog2() + 1, "{count} members");
    }
}
