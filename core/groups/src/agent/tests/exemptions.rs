//! Nodes in the process of the agents, which report only when something has changed.

use proptest::prelude::*;

use super::*;

const MEMBERS: [(u32, u32); 3] = [(0, 0), (1, 1), (2, 1)]; // ranks and their nodes

fn members() -> Vec<MemberView> {
    MEMBERS.iter().map(|(pn, node)| view(*pn, *node, u64::from(*pn) + 1)).collect()
}

/// The membership of a rank as a node that has its newest position reports it.
fn held(host: &GaHost, pn: u32) -> (u32, u64, u64) {
    let (_, places) = host.query(GN).unwrap();
    let place = places.iter().map(|(_, place)| place).find(|place| place.pn == Pn(pn)).unwrap();
    (pn, u64::from(pn) + 1, place.version.0)
}

/// A host that has exempted node 1.
fn exempting() -> GaHost {
    let mut host = host(&members());
    drain(&mut host, at(0));
    let said = report(1, &[held(&host, 1), held(&host, 2)]);
    assert!(host.report(at(1), &said).is_empty());
    assert!(host.exempt(at(1), &said));
    host
}

fn asked(host: &mut GaHost) -> Vec<NodeName> {
    host.take_asked().into_iter().collect()
}

/// G5: it is watched from the moment on at which it goes down.
#[test]
fn nobody_waits_for_the_reports_of_an_exempt_node_until_it_goes_down() {
    let mut host = exempting();
    let probe = GaOutput::Probe { node: name(1), address: view(1, 1, 2).address, probe: 0 };
    host.tick(at(90));
    assert!(!drain(&mut host, at(90)).contains(&probe));
    assert_eq!((host.watched().count(), asked(&mut host)), (0, Vec::new()));
    host.expect_reports(at(90), &name(1));
    assert_eq!((host.exempt_nodes().count(), asked(&mut host)), (0, vec![name(1)]));
    host.tick(at(92));
    assert!(!drain(&mut host, at(92)).contains(&probe));
    host.tick(at(93));
    assert!(drain(&mut host, at(93)).contains(&probe));
    host.tick(at(94));
    let failed = GaOutput::NodeFailed { node: name(1), incarnation: Incarnation(1) };
    assert!(drain(&mut host, at(94)).contains(&failed));
}

#[test]
fn only_a_report_that_agrees_in_everything_exempts_its_node() {
    let mut host = host(&members());
    drain(&mut host, at(0));
    let (first, second) = (held(&host, 1), held(&host, 2));
    let good = report(1, &[first, second]);
    let mut of_another_epoch = good.clone();
    of_another_epoch.memberships[0].epoch = Epoch(1);
    for bad in [
        report(1, &[first]),
        report(1, &[first, second, (3, 4, 1)]),
        report(1, &[first, (2, 3, second.2 - 1)]),
        report(1, &[first, (2, 9, second.2)]),
        report(1, &[first, held(&host, 0)]),
        OaReport { incarnation: Incarnation(2), ..good.clone() },
        of_another_epoch,
    ] {
        assert!(!host.exempt(at(1), &bad), "{bad:?}");
        assert!(host.watched().eq([&name(1)]), "{bad:?}");
    }
    assert!(host.exempt(at(1), &good));
    assert_eq!(host.watched().count(), 0);
    assert!(!host.exempt(at(2), &report(1, &[first])), "it says something else now");
    assert!(host.watched().eq([&name(1)]));
}

#[test]
fn a_member_that_the_tic_has_not_confirmed_exempts_no_node() {
    let mut host = host(&members()[..2]);
    host.register(at(1), &register(2, view(2, 1, 12))).unwrap();
    drain(&mut host, at(1));
    let (_, _, version) = held(&host, 2);
    let said = report(1, &[held(&host, 1), (2, 12, version)]);
    assert!(host.report(at(1), &said).is_empty());
    assert!(!host.exempt(at(1), &said));
    host.snapshot(at(2), &snapshot(12, 2, &[view(0, 0, 1), view(1, 1, 2), view(2, 1, 12)]));
    assert!(host.exempt(at(2), &said));
}

#[test]
fn an_exempt_node_is_asked_to_report_when_its_members_in_the_tables_change() {
    let mut restarted = members();
    for view in &mut restarted[1..] {
        view.incarnation = Incarnation(2);
    }
    let more = [members(), vec![view(3, 1, 11)]].concat();
    // With the node watched again, as it may not know of a member.
    for (now, watched) in [(more, 1), (restarted, 1), (members()[..2].to_vec(), 0)] {
        let mut host = exempting();
        host.snapshot(at(2), &snapshot(11, 2, &now));
        assert_eq!(asked(&mut host), [name(1)], "{now:?}");
        assert_eq!(host.watched().count(), watched, "{now:?}");
    }
    let mut host = exempting();
    host.gone(GN);
    assert_eq!(asked(&mut host), [name(1)]);
    let mut host = exempting();
    host.snapshot(at(2), &snapshot(11, 2, &[members(), vec![view(3, 3, 11)]].concat()));
    assert!(asked(&mut host).is_empty(), "it is another's member");
    assert!(host.watched().eq([&name(3)]));
}

proptest! {
    #[test]
    fn each_member_of_an_exempt_node_was_in_the_report_that_exempted_it(
        steps in proptest::collection::vec((0..3_u8, 0..16_u8), 1..40),
    ) {
        let mut host = host(&members()[..1]);
        let (mut agreed, mut before) = (BTreeSet::new(), BTreeSet::new());
        for (revision, (step, draw)) in (11..).zip(steps) {
            let was_exempt = host.exempt_nodes().count() == 1;
            let is_drawn = |pn: &u32| (draw >> (pn - 1)) & 1 == 1;
            match step {
                0 => {
                    let others = (1..=4).filter(is_drawn).map(|pn| view(pn, 1, u64::from(pn) + 1));
                    let all: Vec<_> = members().into_iter().take(1).chain(others).collect();
                    host.snapshot(at(1), &snapshot(revision, 2, &all));
                }
                1 => {
                    let said: Vec<u32> =
                        before.iter().copied().filter(|pn| draw < 12 || is_drawn(pn)).collect();
                    let held: Vec<_> = said.iter().map(|pn| held(&host, *pn)).collect();
                    let report = report(1, &held);
                    host.report(at(1), &report);
                    if host.exempt(at(1), &report) {
                        agreed = said.into_iter().collect();
                    }
                }
                _ => host.expect_reports(at(1), &name(1)),
            }
            let there = host.members(GN).unwrap().filter(|view| view.member.node == name(1));
            let there: BTreeSet<u32> = there.map(|view| view.member.pn.0).collect();
            let is_exempt = host.exempt_nodes().eq([&name(1)]);
            prop_assert!(!is_exempt || there.is_subset(&agreed), "{there:?} {agreed:?}");
            prop_assert_eq!(host.watched().eq([&name(1)]), !there.is_empty() && !is_exempt);
            let is_asked = asked(&mut host) == [name(1)];
            prop_assert!(!was_exempt || there == before || is_asked, "{before:?} {there:?}");
            before = there;
        }
    }
}
