//! Delivery of messages over bad links and a bad multicast connection.

use std::time::Duration;

use fabricast_groups::Pn;
use fabricast_messages::{Limits, Mode, SendError};

use crate::world::{CALM, Conditions, World};

fn text(message: &str, number: usize) -> Vec<u8> {
    format!("{message} {number}").into_bytes()
}

/// Messages of `from` that `to` got.
fn got(world: &World, to: Pn, from: Pn) -> Vec<Vec<u8>> {
    let all = world.members[&to].seen.messages.iter();
    all.filter(|(source, _)| *source == from).map(|(_, payload)| payload.clone()).collect()
}

#[test]
fn without_hardware_every_member_reaches_all_others_over_the_tree() {
    for count in [1, 2, 3, 7, 12] {
        let mut world = World::new(1, Conditions { multicast: false, ..CALM }, Limits::default());
        world.form(count);
        for pn in 0..count {
            world.send(Pn(pn), Mode::Reliable, &text("from", 1)).unwrap();
        }
        world.settle(Duration::from_secs(1));
        assert_eq!(world.packets, 0);
        for to in 0..count {
            let acknowledged = &world.members[&Pn(to)].seen.acknowledged;
            assert!(acknowledged.values().all(Vec::is_empty) && acknowledged.len() == 1, "{to}");
            for from in (0..count).filter(|from| *from != to) {
                assert_eq!(got(&world, Pn(to), Pn(from)), [text("from", 1)], "{from} to {to}");
            }
        }
    }
}

/// Conditions with a bad multicast connection.
const STORMY: Conditions =
    Conditions { multicast: true, lost: 200, repeated: 100, slowest: Duration::from_millis(3) };

#[test]
fn messages_arrive_once_and_in_order_when_multicast_loses_repeats_and_reorders() {
    for seed in 0..20 {
        let mut world = World::new(seed, STORMY, Limits::default());
        world.form(9);
        let sources = [Pn(0), Pn(4), Pn(8)];
        let sent: Vec<Vec<u8>> = (0..30)
            .map(|number| text("message", number).repeat(if number % 7 == 3 { 2_000 } else { 1 }))
            .collect();
        for payload in &sent {
            for from in sources {
                world.send(from, Mode::Reliable, payload).unwrap();
            }
            world.settle(Duration::from_millis(1));
        }
        world.settle(Duration::from_secs(5));
        assert!(world.packets > 90);
        for from in sources {
            assert_eq!(world.members[&from].seen.acknowledged.len(), sent.len());
            for to in (0..9).map(Pn).filter(|to| *to != from) {
                assert_eq!(got(&world, to, from), sent, "{from} to {to}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_source_is_never_further_ahead_of_the_slowest_than_its_window() {
    let limits = Limits { window: 8, backlog: 16, inbox: 4, ..Limits::default() };
    let mut world = World::new(3, CALM, limits);
    world.form(5);
    world.members.get_mut(&Pn(3)).unwrap().slow = true;
    let mut sent = 0;
    loop {
        match world.send(Pn(2), Mode::Reliable, &text("message", sent)) {
            Ok(_) => sent += 1,
            Err(refused) => {
                assert_eq!(refused, SendError::NoRoom);
                break;
            }
        }
        world.settle(Duration::from_millis(100));
    }
    let slowest = got(&world, Pn(3), Pn(2)).len();
    assert_eq!((slowest, world.members[&Pn(2)].seen.acknowledged.len()), (4, 4));
    assert_eq!(got(&world, Pn(4), Pn(2)).len(), 12, "the window beyond what the slowest has");
    assert_eq!(sent, 4 + 8 + 16);
    for _ in 0..sent {
        world.consume(Pn(3), 1);
        world.settle(Duration::from_millis(100));
    }
    assert!(world.members[&Pn(2)].seen.room);
    assert_eq!(got(&world, Pn(3), Pn(2)).len(), sent);
    assert_eq!(world.members[&Pn(2)].seen.acknowledged.len(), sent);
}

#[test]
fn a_link_that_is_cut_and_a_connection_that_comes_and_goes_lose_nothing() {
    for seed in 0..10 {
        let mut world = World::new(seed, STORMY, Limits::default());
        world.form(7);
        for number in 0..60 {
            world.send(Pn(5), Mode::Reliable, &text("message", number)).unwrap();
            world.send(Pn(0), Mode::Reliable, &text("message", number)).unwrap();
            if number % 10 == 5 {
                world.cut(Pn(0), Pn(2), Duration::from_millis(40));
                world.cut(Pn(1), Pn(3), Duration::from_millis(10));
                world.multicast_open = !world.multicast_open;
                world.publish();
            }
            world.settle(Duration::from_millis(4));
        }
        world.settle(Duration::from_secs(5));
        let sent: Vec<Vec<u8>> = (0..60).map(|number| text("message", number)).collect();
        for from in [Pn(0), Pn(5)] {
            for to in (0..7).map(Pn).filter(|to| *to != from) {
                assert_eq!(got(&world, to, from), sent, "{from} to {to}, seed {seed}");
            }
        }
    }
}

#[test]
fn the_source_learns_who_died_and_all_others_have_the_message() {
    let mut world = World::new(4, Conditions { multicast: false, ..CALM }, Limits::default());
    world.form(7);
    let id = world.send(Pn(6), Mode::Reliable, b"last words").unwrap();
    world.kill(Pn(1)); // with 3 and 4 below it
    world.settle(Duration::from_secs(1));
    assert!(world.members[&Pn(6)].seen.acknowledged.is_empty(), "1 may yet come back");
    world.publish();
    world.settle(Duration::from_secs(1));
    assert_eq!(world.members[&Pn(6)].seen.acknowledged[&id], [Pn(1)]);
    for to in [0, 2, 3, 4, 5] {
        assert_eq!(got(&world, Pn(to), Pn(6)), [b"last words"]);
    }
}

#[test]
fn a_best_effort_message_comes_at_most_once_and_is_not_waited_for() {
    let mut world = World::new(5, STORMY, Limits::default());
    world.form(8);
    for number in 0..50 {
        world.send(Pn(3), Mode::BestEffort, &text("best effort", number)).unwrap();
        world.settle(Duration::from_millis(5));
    }
    assert!(world.members[&Pn(3)].seen.acknowledged.is_empty());
    for to in (0..8).map(Pn).filter(|to| *to != Pn(3)) {
        let numbers = got(&world, to, Pn(3));
        let sorted: std::collections::BTreeSet<Vec<u8>> = numbers.iter().cloned().collect();
        assert_eq!(sorted.len(), numbers.len(), "each once");
        assert!(numbers.len() > 35, "{} of 50 came to {to}", numbers.len());
    }
}

#[test]
fn links_exist_between_neighbours_only() {
    let mut world = World::new(6, CALM, Limits::default());
    world.form(7);
    assert_eq!(world.links(), 6, "a tree of seven nodes");
    world.leave(Pn(6));
    world.publish();
    world.settle(Duration::from_secs(3));
    assert_eq!(world.links(), 5);
    world.join(Pn(6), "n5"); // beside another member: their parent is the same
    world.publish();
    world.settle(Duration::from_millis(100));
    world.open(Pn(6));
    world.settle(Duration::from_secs(3));
    assert_eq!(world.links(), 5, "one link for both");
    world.send(Pn(6), Mode::Reliable, b"from the new one").unwrap();
    world.settle(Duration::from_secs(1));
    assert_eq!(got(&world, Pn(5), Pn(6)), [b"from the new one"]);
}

#[test]
fn a_member_that_is_not_open_forwards_and_is_not_waited_for() {
    let mut world = World::new(7, Conditions { multicast: false, ..CALM }, Limits::default());
    (0..7).for_each(|pn| world.join(Pn(pn), &format!("n{pn}")));
    world.publish();
    world.settle(Duration::from_millis(50));
    for pn in [3, 6] {
        world.open(Pn(pn)); // the others between them only relay
    }
    world.settle(Duration::from_secs(2));
    assert_eq!(world.roster(Pn(3)).into_keys().collect::<Vec<_>>(), [Pn(3), Pn(6)]);
    world.send(Pn(3), Mode::Reliable, b"hello").unwrap();
    world.settle(Duration::from_secs(1));
    assert_eq!(got(&world, Pn(6), Pn(3)), [b"hello"]);
    assert_eq!(world.members[&Pn(3)].seen.acknowledged.len(), 1);
    assert!((0..7).all(|pn| pn == 6 || world.members[&Pn(pn)].seen.messages.is_empty()));
}
