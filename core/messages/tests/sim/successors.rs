//! Members that take the places of others while the group goes on with its operations.

use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_messages::{Limits, OnFailure, Operation};

use crate::world::{CALM, Conditions, World};

const COUNT: u32 = 9;

fn call(world: &mut World, pn: Pn) {
    world.operate(pn, &Operation::Barrier, OnFailure::Survivors);
}

/// After some operations two members are replaced by successors on other nodes, which call at once.
fn succession(seed: u64) {
    let slowest = Duration::from_millis(1 + seed % 20);
    let conditions = Conditions { multicast: seed.is_multiple_of(2), lost: 50, slowest, ..CALM };
    let mut world = World::new(seed, conditions, Limits::default());
    world.form(COUNT);
    let before = 1 + seed % 3;
    for _ in 0..before {
        (0..COUNT).map(Pn).for_each(|pn| call(&mut world, pn));
        world.settle(Duration::from_secs(3));
    }
    let new = [(); 2].map(|()| Pn(u32::try_from(world.draw(u64::from(COUNT))).unwrap()));
    let new = if new[0] == new[1] { &new[..1] } else { &new };
    for pn in new {
        world.kill(*pn);
        world.join(*pn, &format!("another{pn}"));
    }
    world.publish();
    world.settle(slowest);
    for pn in new {
        world.open(*pn);
        call(&mut world, *pn);
        let pause = Duration::from_micros(world.draw(20_000));
        world.settle(pause);
    }
    world.settle(Duration::from_secs(2));
    (0..COUNT).map(Pn).filter(|pn| !new.contains(pn)).for_each(|pn| call(&mut world, pn));
    world.until("all have ended", |world| {
        world.members.values().all(|member| member.calls == member.seen.ended.len())
    });
    for pn in new {
        let (_, outcome) = &world.members[pn].seen.ended[0];
        assert!(outcome.number > before, "{pn} got what its predecessor got, seed {seed}");
    }
}

#[test]
fn no_member_gets_the_outcome_of_its_predecessor() {
    (0..300).for_each(succession);
}
