//! Memberships that a node learns of from the group's agent.

use super::*;
use crate::message::Enrolment;

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
    };
    PositionUpdate { enrolment: Some(Box::new(enrolment)), ..position(1, 4, None) }
}

fn changed(change: impl FnOnce(&mut Enrolment)) -> PositionUpdate {
    let mut update = enrolment(21, 20);
    change(update.enrolment.as_mut().unwrap());
    update
}

#[test]
fn a_membership_that_comes_with_its_position_needs_no_fetch() {
    let mut oa = up();
    oa.position(at(1), &enrolment(21, 20), is_agent).unwrap();
    assert_eq!((drain(&mut oa), oa.next_deadline()), (vec![], None));
    let held = oa.membership(&group_name(), &process()).unwrap().clone();
    assert_eq!((&held.member, &held.agent_address), (&member(2, 20), &address(0)));
    assert_eq!(held.position, Some(position(1, 4, None)), "it is not kept twice");
    let (host, _, report) = &oa.reports(at(1))[0];
    assert_eq!((host, report.memberships[0].version), (&node_name(0), Version(4)));
    oa.position(at(2), &enrolment(22, 20), is_agent).unwrap();
    assert_eq!(oa.membership(&group_name(), &process()), Some(&held), "said twice");
}

#[test]
fn a_late_position_does_not_restore_an_ended_membership() {
    let mut oa = up();
    oa.group(at(1), &snapshot(30, 1, 0, &[]));
    assert!(oa.position(at(1), &enrolment(29, 20), is_agent).is_err());
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)], "the records decide");
    oa.no_group(GN, Revision(40));
    assert!(oa.position(at(2), &enrolment(39, 35), is_agent).is_err());
    assert_eq!(oa.memberships().count(), 0);
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
fn a_membership_that_the_tic_never_confirmed_lasts_until_its_agent_is_silent() {
    let mut oa = up();
    oa.position(at(0), &enrolment(21, 20), is_agent).unwrap();
    let silent = CONFIG.host_timeout;
    let answered = OaReportReply { positions: Vec::new(), unknown: Vec::new() };
    for round in 1..=20 {
        let now = at(0).after(silent * round);
        assert_eq!(oa.reports(now).len(), 1);
        oa.report_answered(now, &node_name(0), &answered);
        oa.tick(now);
        assert_eq!(drain(&mut oa), [], "the agent answers, and nobody else is asked");
    }
    let last = at(0).after(silent * 21);
    oa.reports(last);
    oa.tick(last.after(silent));
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)]);
    oa.group(last.after(silent), &snapshot(30, 2, 5, &[]));
    assert!(matches!(&drain(&mut oa)[..], [OaOutput::Ended(ended)] if ended.len() == 1));
    assert_eq!(oa.memberships().count(), 0);
}
