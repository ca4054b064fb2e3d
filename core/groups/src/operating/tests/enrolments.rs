//! Memberships that a node learns of from the group's agent.

use super::*;
use crate::message::Enrolment;

/// Time after which the TIC is asked for member 2 of group 5.
const DELAY: Duration = Duration::from_millis(9_000 * 15 / 8);

fn enrolment(known: u64, joined: u64) -> PositionUpdate {
    let member =
        MemberView { member: member(2, joined), incarnation: Incarnation(3), address: address(1) };
    let enrolment = Enrolment {
        group: group_name(),
        mgid: group(1, 0).mgid,
        member,
        agent: node_name(0),
        agent_address: address(0),
        known: Revision(known),
        voucher: None,
    };
    vouched(PositionUpdate { enrolment: Some(Box::new(enrolment)), ..position(1, 4, None) })
}

/// As the TIC vouches for it to the first start of the node.
fn vouched(mut update: PositionUpdate) -> PositionUpdate {
    let epoch = update.epoch;
    let told = update.enrolment.as_mut().unwrap();
    told.voucher = Some(told.claim(epoch).voucher(&SEED.key(&node_name(1), 7)));
    update
}

/// Another enrolment than the TIC has vouched for.
fn forged(change: impl FnOnce(&mut Enrolment)) -> PositionUpdate {
    let mut update = enrolment(21, 20);
    change(update.enrolment.as_mut().unwrap());
    update
}

fn changed(change: impl FnOnce(&mut Enrolment)) -> PositionUpdate {
    vouched(forged(change))
}

#[test]
fn a_membership_that_comes_with_its_position_needs_no_fetch() {
    let mut oa = up();
    oa.position(at(1), &enrolment(21, 20), is_agent).unwrap();
    let due = at(1).after(DELAY);
    assert_eq!((drain(&mut oa), oa.next_deadline()), (vec![], Some(due)));
    let held = oa.membership(&group_name(), &process()).unwrap().clone();
    assert_eq!((&held.member, &held.agent_address), (&member(2, 20), &address(0)));
    assert_eq!(held.position, Some(position(1, 4, None)), "it is not kept twice");
    let (host, _, report) = &oa.reports(at(1))[0];
    assert_eq!((host, report.memberships[0].version), (&node_name(0), Version(4)));
    oa.position(at(2), &enrolment(22, 20), is_agent).unwrap();
    assert_eq!(oa.membership(&group_name(), &process()), Some(&held), "said twice");
}

/// The sender has a good certificate, of the agent that the enrolment names.
#[test]
fn a_membership_without_a_voucher_for_all_of_it_is_fetched_instead() {
    let key = SEED.key(&node_name(1), 7);
    let mut of_another_epoch = enrolment(21, 20);
    of_another_epoch.epoch = Epoch(2);
    let of_another_join = |told: &mut Enrolment| {
        (told.known, told.member.member.joined) = (Revision(22), Revision(22));
    };
    let of_a_registration = |told: &mut Enrolment| {
        let (member, voucher) = (told.member.clone(), None);
        let register = Register { gn: GN, epoch: Epoch(1), member, voucher };
        told.voucher = Some(register.claim().voucher(&key));
    };
    let to_another_start = |told: &mut Enrolment| {
        told.voucher = Some(told.claim(Epoch(1)).voucher(&SEED.key(&node_name(1), 6)));
    };
    let to_another_node = |told: &mut Enrolment| {
        told.voucher = Some(told.claim(Epoch(1)).voucher(&SEED.key(&node_name(2), 7)));
    };
    for forged in [
        forged(|told| told.voucher = None),
        forged(|told| told.agent = node_name(9)),
        forged(|told| told.agent_address = address(9)),
        forged(|told| told.group = GroupName::new("another").unwrap()),
        forged(|told| told.mgid = Mgid(5)),
        forged(|told| told.member.member.process = ProcessName::new("q").unwrap()),
        forged(|told| told.member.member.endpoint = endpoint("h2")),
        forged(of_another_join),
        forged(of_a_registration),
        forged(to_another_start),
        forged(to_another_node),
        of_another_epoch,
    ] {
        let mut oa = up();
        let unknown = PositionRefusal::UnknownMember { gn: GN, pn: Pn(2) };
        assert_eq!(oa.position(at(1), &forged, |_| true), Err(unknown), "{forged:?}");
        assert_eq!((oa.memberships().count(), drain(&mut oa)), (0, vec![OaOutput::FetchGroup(GN)]));
        oa.group(at(1), &snapshot(30, 1, 0, &[member(2, 20)]));
        assert!(matches!(drain(&mut oa)[..], [OaOutput::RegisterMember { .. }]));
        oa.position(at(1), &position(1, 4, None), is_agent).unwrap();
    }
}

#[test]
fn a_voucher_of_an_earlier_start_counts_no_more() {
    let mut oa = up();
    oa.expelled(at(1), Incarnation(3));
    oa.registered(at(1), Ok(record(8, 4, NodeState::Up)));
    drain(&mut oa);
    let mut late = changed(|told| told.member.incarnation = Incarnation(4));
    assert!(oa.position(at(1), &late, is_agent).is_err());
    assert_eq!((oa.memberships().count(), drain(&mut oa)), (0, vec![OaOutput::FetchGroup(GN)]));
    let told = late.enrolment.as_mut().unwrap();
    told.voucher = Some(told.claim(Epoch(1)).voucher(&oa.voucher_key()));
    oa.position(at(1), &late, is_agent).unwrap();
}

#[test]
fn a_late_position_does_not_restore_an_ended_membership() {
    let mut oa = up();
    oa.group(at(1), &snapshot(30, 1, 0, &[]));
    assert!(oa.position(at(1), &enrolment(29, 20), is_agent).is_err());
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)], "the records decide");
    oa.no_group(GN, Revision(40));
    assert!(oa.position(at(2), &enrolment(39, 35), is_agent).is_err());
    // The revision is the agent's own word, and no voucher covers it.
    assert!(oa.position(at(2), &enrolment(u64::MAX, 35), is_agent).is_err());
    assert_eq!(oa.memberships().count(), 0);
    oa.position(at(3), &enrolment(41, 41), is_agent).unwrap();
}

#[test]
fn a_process_has_one_membership_of_a_group() {
    let mut oa = member_of_g();
    let mut update = changed(|told| {
        (told.known, told.member.member.joined) = (Revision(26), Revision(25));
        told.member.member.pn = Pn(3);
    });
    update.pn = Pn(3);
    let unknown = PositionRefusal::UnknownMember { gn: GN, pn: Pn(3) };
    assert_eq!(oa.position(at(1), &update, is_agent), Err(unknown));
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)], "which of the two it is");
    assert_eq!(oa.memberships().count(), 1);
}

#[test]
fn the_membership_of_another_node_is_not_adopted() {
    let foreign = [
        changed(|told| told.member.incarnation = Incarnation(2)),
        changed(|told| told.member.member.pn = Pn(3)),
        changed(|told| told.member.member.gn = Gn(9)),
        changed(|told| told.member.member.node = node_name(7)),
        changed(|told| told.agent = node_name(7)), // the sender does not act for it
        changed(|told| told.member.member.joined = Revision(22)), // its agent did not see it join
    ];
    for update in foreign {
        let mut oa = up();
        assert!(oa.position(at(1), &update, is_agent).is_err());
        assert_eq!((oa.memberships().count(), drain(&mut oa).len()), (0, 1));
    }
    let mut oa = member_of_g();
    let unknown = PositionRefusal::UnknownMember { gn: GN, pn: Pn(2) };
    assert_eq!(
        oa.position(at(1), &enrolment(26, 25), is_agent),
        Err(unknown),
        "the rank was given anew"
    );
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)]);
}

/// docs/adr/0027: the agent is cut off from the TIC, where the membership has ended.
#[test]
fn a_membership_that_only_an_agent_told_of_lasts_until_the_tic_is_asked() {
    let mut oa = up();
    oa.position(at(0), &enrolment(21, 20), is_agent).unwrap();
    let asked = at(0).after(DELAY);
    oa.tick(asked);
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)]);
    oa.group(asked, &snapshot(30, 2, 5, &[]));
    assert!(matches!(&drain(&mut oa)[..], [OaOutput::Ended(ended)] if ended.len() == 1));
    assert_eq!((oa.memberships().count(), oa.next_deadline()), (0, None));
}

#[test]
fn a_membership_that_the_tic_confirms_is_not_asked_for_again() {
    for epoch in [1, 2] {
        let mut oa = up();
        oa.position(at(0), &enrolment(21, 20), is_agent).unwrap();
        oa.group(at(1), &snapshot(21, epoch, 0, &[member(2, 20)]));
        assert_eq!((drain(&mut oa), oa.next_deadline()), (vec![], None));
        let held = oa.membership(&group_name(), &process()).unwrap();
        assert_eq!((held.epoch, held.position.is_some()), (Epoch(epoch), true));
    }
}

#[test]
fn an_answer_older_than_the_agent_takes_no_place_back() {
    let mut oa = up();
    let mut of_the_second = enrolment(21, 20);
    of_the_second.epoch = Epoch(2);
    let of_the_second = vouched(of_the_second);
    oa.position(at(0), &of_the_second, is_agent).unwrap();
    oa.group(at(1), &snapshot(20, 1, 9, &[member(2, 20)]));
    assert_eq!(drain(&mut oa), []);
    let held = oa.membership(&group_name(), &process()).unwrap();
    assert_eq!((held.epoch, &held.agent), (Epoch(2), &node_name(0)));
    assert!(held.position.is_some() && held.confirm_at.is_some());
}

/// Memberships that have ended, repeated with vouchers of that time; the sender's certificate is
/// good.
#[test]
fn what_another_agent_told_ends_with_the_word_of_the_tic() {
    let beyond = u64::MAX;
    let mut of_another_agent = changed(|told| told.agent = node_name(9));
    let mut of_another_epoch = enrolment(21, 20);
    of_another_epoch.epoch = Epoch(beyond);
    of_another_agent.parent = Some(Neighbor { pn: Pn(9), node: node_name(9), address: address(9) });
    let of_another_group = changed(|told| told.group = GroupName::new("another").unwrap());
    let of_another_time = changed(|told| {
        (told.known, told.member.member.joined) = (Revision(beyond), Revision(beyond))
    });
    for forged in [of_another_agent, of_another_epoch, of_another_group, of_another_time] {
        let (forged, mut oa) = (vouched(forged), up());
        oa.position(at(0), &forged, |_| true).unwrap();
        if forged.epoch == Epoch(beyond) {
            assert!(oa.position(at(1), &position(1, 4, None), is_agent).is_err());
            assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)], "one of both is wrong");
        }
        let asked = at(0).after(DELAY);
        oa.tick(asked);
        drain(&mut oa);
        oa.group(asked, &snapshot(30, 1, 0, &[member(2, 20)]));
        let register = |output: &OaOutput| matches!(output, OaOutput::RegisterMember { .. });
        assert!(drain(&mut oa).iter().any(register), "for a place of its present agent");
        let held = oa.memberships().next().unwrap();
        assert_eq!((&held.member, &held.group), (&member(2, 20), &group_name()));
        assert_eq!((held.epoch, &held.agent, &held.position), (Epoch(1), &node_name(0), &None));
        oa.position(asked, &position(1, 4, None), is_agent).unwrap();
    }
}
