//! How many steps a message takes: at most the source's depth in the tree, and one.
//!
//! Source: Wu et al. 1997: log2(N) + 1 in the worst case.

use std::collections::BTreeSet;
use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_groups::tree::position;
use fabricast_messages::{Limits, Mode};

use crate::world::{Weather, World};

/// Every step takes one microsecond, neither more nor less.
const STEPS: Weather =
    Weather { multicast: true, lost: 0, repeated: 0, slowest: Duration::from_nanos(1) };

fn depth(pn: Pn, live: &BTreeSet<Pn>) -> u32 {
    let above = position(pn, live).unwrap().parent;
    above.map_or(0, |parent| 1 + depth(parent, live))
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
    for count in (2..=20).chain([63, 64, 100]) {
        let mut world = World::new(1, STEPS, Limits::default());
        world.form(count);
        let live: BTreeSet<Pn> = (0..count).map(Pn).collect();
        let sources = (0..count).rev().step_by(usize::try_from(count).unwrap().div_ceil(12));
        for source in sources.map(Pn) {
            let most = u64::from(depth(source, &live) + 1);
            let taken = steps(&mut world, source);
            assert!(taken <= most, "{taken} steps from {source} of {count}, at most {most}");
        }
    }
}

#[test]
fn without_hardware_a_message_crosses_the_tree() {
    let mut world = World::new(1, Weather { multicast: false, ..STEPS }, Limits::default());
    world.form(31);
    assert_eq!(steps(&mut world, Pn(30)), 4 + 4, "up to the root and down to the other side");
    assert_eq!(steps(&mut world, Pn(0)), 4);
}

#[test]
fn the_deepest_of_any_number_of_members_is_as_deep_as_the_paper_says() {
    let mut live = BTreeSet::new();
    for count in 1..=4096_u32 {
        live.insert(Pn(count - 1));
        let most = depth(Pn(count - 1), &live) + 1; // no place below it is taken
        assert_eq!(most, count.ilog2() + 1, "{count} members");
    }
}
