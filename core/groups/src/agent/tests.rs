//! Tests of single inputs of group agents; `fabricast-simulation` tests the whole protocol.

use std::time::Duration;

use fabricast_topology::Mgid;

use super::*;
use crate::detector::{DetectorConfig, Probing};
use crate::directory::GroupSnapshot;
use crate::message::MembershipStatus;
use crate::names::{EndpointName, GroupName, ProcessName};
use crate::record::{MemberRecord, Route, RouteReason, RouteState};
use crate::tree::TreeShape;

const CONFIG: GaConfig = GaConfig {
    detector: DetectorConfig::new(
        Duration::from_secs(3),
        Probing { timeout: Duration::from_secs(1), attempts: 1 },
    ),
    resend: Duration::from_secs(2),
    retry: Duration::from_secs(1),
};
mod exemptions;
mod same_members;
mod vouchers;

const GN: Gn = Gn(5);
/// Of the agents' node.
const KEY: VoucherKey = VoucherKey::new([7; 16]);

fn at(seconds: u64) -> Moment {
    Moment(seconds * 1_000_000_000)
}

fn name(node: u32) -> NodeName {
    NodeName::new(&format!("n{node}")).unwrap()
}

fn view(pn: u32, node: u32, joined: u64) -> MemberView {
    MemberView {
        member: MemberRecord {
            gn: GN,
            pn: Pn(pn),
            node: name(node),
            process: ProcessName::new("p").unwrap(),
            endpoint: EndpointName::new(&format!("h{node}")).unwrap(),
            joined: Revision(joined),
            sends_only: false,
        },
        incarnation: Incarnation(1),
        address: Address::new(&format!("10.0.0.{node}:1")).unwrap(),
    }
}

fn snapshot(revision: u64, epoch: u64, members: &[MemberView]) -> GroupSnapshot {
    GroupSnapshot {
        revision: Revision(revision),
        group: GroupRecord {
            gn: GN,
            name: GroupName::new("g").unwrap(),
            mgid: Mgid(1),
            agent: Some(name(0)),
            epoch: Epoch(epoch),
            members_revision: Revision(revision),
            changed: Revision(revision),
            persistent: false,
            exclusive: false,
            layer: None,
            job: None,
            expected: None,
            home: None,
            tree: TreeShape::default(),
            created: Moment(0),
            route: None,
        },
        agent_address: None,
        members: members.to_vec(),
        vouchers: BTreeMap::new(),
    }
}

fn host(members: &[MemberView]) -> GaHost {
    let mut host = GaHost::new(name(0), Incarnation(1), KEY, CONFIG);
    host.snapshot(at(0), &snapshot(10, 2, members));
    host
}

fn drain(host: &mut GaHost, now: Moment) -> Vec<GaOutput> {
    std::iter::from_fn(|| host.poll_output(now)).collect()
}

fn told(outputs: &[GaOutput]) -> Vec<u32> {
    let pn = |output: &GaOutput| match output {
        GaOutput::Position { update, .. } => Some(update.pn.0),
        GaOutput::Probe { .. } | GaOutput::NodeFailed { .. } | GaOutput::Refresh { .. } => None,
    };
    outputs.iter().filter_map(pn).collect()
}

fn report(node: u32, members: &[(u32, u64, u64)]) -> OaReport {
    let status = |(pn, joined, version): &(u32, u64, u64)| MembershipStatus {
        gn: GN,
        epoch: Epoch(2),
        pn: Pn(*pn),
        joined: Revision(*joined),
        version: Version(*version),
    };
    OaReport {
        node: name(node),
        incarnation: Incarnation(1),
        memberships: members.iter().map(status).collect(),
    }
}

/// A registration with the voucher of the TIC.
fn register(epoch: u64, member: MemberView) -> Register {
    let bare = Register { gn: GN, epoch: Epoch(epoch), member, voucher: None };
    Register { voucher: Some(bare.claim().voucher(&KEY)), ..bare }
}

#[test]
fn an_appointed_agent_sends_every_position_until_a_report_confirms_it() {
    let mut host = host(&[view(0, 0, 1), view(1, 1, 2), view(2, 2, 3)]);
    let outputs = drain(&mut host, at(0));
    assert_eq!(told(&outputs), [0, 1, 2]);
    let (record, places) = host.query(GN).unwrap();
    assert_eq!((record.epoch, places.len()), (Epoch(2), 3));
    let version = |pn: usize| places[pn].1.version.0;
    let reports = [report(0, &[(0, 1, version(0))]), report(1, &[(1, 2, version(1))])];
    for report in &reports {
        assert_eq!(host.report(at(1), report), OaReportReply::default());
    }
    host.tick(at(2));
    assert_eq!(told(&drain(&mut host, at(2))), [2]);
    let behind = host.report(at(2), &report(2, &[(2, 3, 0)]));
    assert_eq!(behind.positions[0].parent.as_ref().unwrap().pn, Pn(1));
}

#[test]
fn a_member_that_holds_a_version_of_somebody_else_gets_a_higher_one() {
    let mut host = host(&[view(0, 0, 1), view(1, 1, 2)]);
    drain(&mut host, at(0));
    let forged = MAX_VERSION.0;
    let answer = host.report(at(1), &report(1, &[(1, 2, forged)]));
    assert_eq!(answer.positions[0].version, Version(forged + 1));
    assert!(host.report(at(2), &report(1, &[(1, 2, forged + 1)])).is_empty(), "it has that now");
    // Another member is its neighbour now, which its next place says.
    host.register(at(3), &register(2, view(2, 2, 11))).unwrap();
    let versions = |host: &GaHost| -> Vec<u64> {
        host.query(GN).unwrap().1.iter().map(|(_, place)| place.version.0).collect()
    };
    let [first, second, third] = versions(&host)[..] else { panic!("there are three") };
    assert!(second > forged + 1 && first.max(third) < 100, "no other is concerned");
    // No report brings the agent to the end of its numbers.
    host.report(at(4), &report(1, &[(1, 2, u64::MAX)]));
    assert_eq!(versions(&host)[1], second);
}

#[test]
fn a_position_carries_the_membership_until_the_node_is_known_to_have_it() {
    let mut host = host(&[view(0, 0, 1), view(1, 1, 2)]);
    let enrolled = |outputs: &[GaOutput]| -> Vec<Option<(Revision, Address)>> {
        let one = |output: &GaOutput| match output {
            GaOutput::Position { update, .. } => {
                let told = update.enrolment.as_ref();
                assert!(told.is_none_or(|told| told.member.member.pn == update.pn));
                Some(told.map(|told| (told.known, told.agent_address.clone())))
            }
            GaOutput::Probe { .. } | GaOutput::NodeFailed { .. } | GaOutput::Refresh { .. } => None,
        };
        outputs.iter().filter_map(one).collect()
    };
    let told = Some((Revision(10), view(0, 0, 1).address));
    assert_eq!(enrolled(&drain(&mut host, at(0))), [told.clone(), told.clone()]);
    host.report(at(1), &report(1, &[(1, 2, 0)]));
    host.tick(at(9));
    assert_eq!(enrolled(&drain(&mut host, at(9))), [told, None], "one has said that it has it");
    host.register(at(9), &register(2, view(2, 2, 11))).unwrap();
    assert_eq!(enrolled(&drain(&mut host, at(9))).len(), 1, "its parent");
    host.tick(at(20));
    assert!(enrolled(&drain(&mut host, at(20)))[1..].iter().all(Option::is_none));
}

#[test]
fn a_change_is_sent_to_the_tree_neighbours_only() {
    let members: Vec<_> = (0..8).map(|pn| view(pn, pn, 1)).collect();
    let mut host = host(&members);
    drain(&mut host, at(0));
    let place = host.register(at(1), &register(2, view(8, 8, 11))).unwrap();
    assert_eq!(place.parent.unwrap().pn, Pn(7));
    assert_eq!(told(&drain(&mut host, at(1))), [7]);
    let leaver = Deregister { gn: GN, epoch: Epoch(2), pn: Pn(1), node: name(1) };
    host.deregister(at(1), &leaver).unwrap();
    assert_eq!(told(&drain(&mut host, at(1))), [0, 2, 3]);
}

#[test]
fn members_of_another_epoch_are_refused_with_the_newer_one() {
    let mut host = host(&[view(0, 0, 1)]);
    let old = host.register(at(1), &register(1, view(1, 1, 11))).unwrap_err();
    assert_eq!(old, AgentRefusal::StaleEpoch { gn: GN, given: Epoch(1), known: Epoch(2) });
    drain(&mut host, at(1));
    let new = host.register(at(1), &register(3, view(1, 1, 11))).unwrap_err();
    assert_eq!(new, AgentRefusal::NotHosted { gn: GN, epoch: Epoch(3) });
    assert_eq!(drain(&mut host, at(1)), [GaOutput::Refresh { gn: GN }]);
    let mut elsewhere = snapshot(12, 3, &[view(0, 0, 1), view(1, 1, 11)]);
    elsewhere.group.agent = Some(name(1));
    host.snapshot(at(1), &elsewhere);
    assert!(host.query(GN).is_none(), "a deposed agent stops");
    assert_eq!(host.next_deadline(), None);
}

#[test]
fn the_snapshot_decides_on_membership() {
    let mut host = host(&[view(0, 0, 1)]);
    let gone = host.register(at(1), &register(2, view(1, 1, 9))).unwrap_err();
    assert_eq!(gone, AgentRefusal::UnknownMember { gn: GN, pn: Pn(1) });
    host.register(at(1), &register(2, view(1, 1, 12))).unwrap();
    host.snapshot(at(1), &snapshot(11, 2, &[view(0, 0, 1)]));
    assert_eq!(host.query(GN).unwrap().1.len(), 2, "the snapshot is older than the join");
    host.snapshot(at(1), &snapshot(9, 2, &[view(0, 0, 1), view(3, 3, 2)]));
    assert_eq!(host.query(GN).unwrap().1.len(), 2, "an overtaken snapshot is no news");
    let reply = host.report(at(1), &report(1, &[(1, 9, 1)]));
    assert_eq!(reply.unknown, [(GN, Pn(1))], "the former holder of the rank");
    host.snapshot(at(1), &snapshot(13, 2, &[view(0, 0, 1)]));
    assert_eq!(host.query(GN).unwrap().1.len(), 1);
}

#[test]
fn a_rank_is_taken_from_nobody_but_by_a_snapshot() {
    let members = [view(0, 0, 1), view(1, 1, 2)];
    let mut host = host(&members);
    drain(&mut host, at(0));
    let taken = AgentRefusal::UnknownMember { gn: GN, pn: Pn(1) };
    assert_eq!(host.register(at(1), &register(2, view(1, 2, u64::MAX))), Err(taken.clone()));
    assert_eq!(drain(&mut host, at(1)), [GaOutput::Refresh { gn: GN }], "it may have left");
    assert_eq!(host.register(at(1), &register(2, view(1, 2, 1))), Err(taken));
    assert_eq!(host.members(GN).unwrap().cloned().collect::<Vec<_>>(), members);
    // At a free rank, it gives way to whom the TIC has given it.
    host.register(at(1), &register(2, view(2, 9, u64::MAX))).unwrap();
    let next = [view(0, 0, 1), view(1, 2, 12), view(2, 3, 11)];
    host.snapshot(at(1), &snapshot(12, 2, &next));
    assert_eq!(host.members(GN).unwrap().cloned().collect::<Vec<_>>(), next);
    host.register(at(2), &register(2, next[1].clone())).unwrap();
}

#[test]
fn a_member_that_the_tic_does_not_confirm_is_forgotten() {
    let timeout = CONFIG.detector.report_timeout;
    let (old, forged) = ([view(0, 0, 1)], view(1, 1, u64::MAX));
    let (due, early) = (at(1).after(timeout), at(1).after(timeout / 2));
    for is_same in [false, true] {
        let answer = |host: &mut GaHost, now, revision| {
            let mut told = snapshot(revision, 2, &old);
            told.group.members_revision = Revision(10);
            match is_same {
                true => host.same_members(now, told.revision, &told.group),
                false => host.snapshot(now, &told),
            }
        };
        let mut host = host(&old);
        drain(&mut host, at(0));
        host.register(at(1), &register(2, forged.clone())).unwrap();
        assert_eq!(host.watched().count(), 0, "numbers of its own watch nobody");
        host.refresh(early, GN);
        answer(&mut host, due, 11);
        assert_eq!(host.members(GN).unwrap().count(), 2, "the answer may be older");
        drain(&mut host, early);
        assert!(host.next_deadline().unwrap() <= due);
        host.tick(due);
        assert!(drain(&mut host, due).contains(&GaOutput::Refresh { gn: GN }));
        answer(&mut host, due, 12);
        assert_eq!(host.members(GN).unwrap().count(), 1);
    }
}

#[test]
fn a_member_that_a_snapshot_has_had_needs_no_other() {
    let mut host = host(&[view(0, 0, 1)]);
    host.register(at(1), &register(2, view(1, 1, 12))).unwrap();
    host.snapshot(at(1), &snapshot(12, 2, &[view(0, 0, 1), view(1, 1, 12)]));
    assert!(host.watched().eq([&name(1)]));
    drain(&mut host, at(1));
    let later = at(1).after(CONFIG.detector.report_timeout);
    host.tick(later);
    assert!(!drain(&mut host, later).contains(&GaOutput::Refresh { gn: GN }));
    assert_eq!(host.members(GN).unwrap().count(), 2);
}

#[test]
fn a_silent_node_is_probed_and_reported_until_a_snapshot_lacks_it() {
    let mut host = host(&[view(0, 0, 1), view(1, 1, 2), view(2, 2, 3)]);
    drain(&mut host, at(0));
    host.report(at(2), &report(2, &[]));
    host.tick(at(3));
    let probes = drain(&mut host, at(3));
    let address = Address::new("10.0.0.1:1").unwrap();
    assert!(probes.contains(&GaOutput::Probe { node: name(1), address, probe: 0 }));
    let failed = GaOutput::NodeFailed { node: name(1), incarnation: Incarnation(1) };
    for second in [4, 5] {
        host.tick(at(second));
        assert!(drain(&mut host, at(second)).contains(&failed), "at {second} s");
    }
    host.snapshot(at(5), &snapshot(11, 2, &[view(0, 0, 1), view(2, 2, 3)]));
    host.tick(at(7));
    assert!(!drain(&mut host, at(7)).contains(&failed));
    assert_eq!(host.watched().collect::<Vec<_>>(), [&name(2)], "never its own node");
}

/// The TIC has probed the node and kept it: only the connection from here was cut.
#[test]
fn a_reported_node_that_reports_again_is_watched_again() {
    let mut host = host(&[view(0, 0, 1), view(1, 1, 2)]);
    drain(&mut host, at(0));
    let failed = GaOutput::NodeFailed { node: name(1), incarnation: Incarnation(1) };
    let mut told = Vec::new();
    for second in 3..20 {
        host.tick(at(second));
        if drain(&mut host, at(second)).contains(&failed) {
            told.push(second);
        }
    }
    assert_eq!(told, [4, 5, 7, 10, 13, 16, 19], "less often, up to the report timeout");
    host.report(at(20), &report(1, &[]));
    host.tick(at(22));
    assert!(!drain(&mut host, at(22)).contains(&failed));
    for second in [23, 24] {
        host.tick(at(second));
    }
    assert!(drain(&mut host, at(24)).contains(&failed), "silent once more");
}

#[test]
fn a_probe_answer_of_another_incarnation_is_ignored() {
    let mut host = host(&[view(0, 0, 1), view(1, 1, 2)]);
    host.hint_closed(at(1), &name(1));
    host.probe_answered(at(1), &name(1), Incarnation(2), 0);
    host.tick(at(2));
    let failed = GaOutput::NodeFailed { node: name(1), incarnation: Incarnation(1) };
    assert!(drain(&mut host, at(2)).contains(&failed));
}

#[test]
fn a_route_is_sent_to_members_whose_color_it_changes() {
    let members = [view(0, 0, 1), view(1, 1, 2), view(2, 2, 10)];
    let mut host = host(&members);
    drain(&mut host, at(0));
    let mut routed = snapshot(11, 2, &members);
    let mut tell = |revision, color: u16, now| {
        routed.revision = routed.revision.next();
        routed.group.route = Some(Route {
            revision: Revision(revision),
            state: RouteState::Routed { colors: color.into(), virtual_group: revision },
            reason: String::new(),
            reason_code: RouteReason::Unspecified,
            cut_off: vec![EndpointName::new("h1").unwrap()],
        });
        host.snapshot(now, &routed);
        told(&drain(&mut host, now))
    };
    assert_eq!(tell(9, 4, at(1)), [0], "1 is cut off, 2 joined later");
    assert_eq!(tell(10, 4, at(1)), [2]);
    assert_eq!(tell(11, 4, at(1)), [] as [u32; 0]);
    assert_eq!(tell(12, 5, at(1)), [0, 2]);
    let (_, places) = host.query(GN).unwrap();
    for (_, place) in places {
        assert_eq!(place.route.as_ref().map(|route| route.revision), Some(Revision(12)));
    }
}

#[test]
fn the_verdict_on_a_status_report_is_carried_out() {
    let mut host = host(&[view(0, 0, 1)]);
    drain(&mut host, at(0));
    let hosted = HostedGroup { gn: GN, epoch: Epoch(2), known: Revision(10) };
    assert_eq!(host.status(), [hosted]);
    let behind = Verdict { refresh: vec![GN, Gn(6)], ..Verdict::default() };
    host.verdict(at(1), &behind);
    host.verdict(at(1), &behind);
    let refresh = |gn| GaOutput::Refresh { gn };
    assert_eq!(drain(&mut host, at(1)), [refresh(GN), refresh(Gn(6))], "asked for once");
    host.gone(Gn(6));
    host.tick(at(2));
    let again = drain(&mut host, at(2));
    assert!(again.contains(&refresh(GN)) && !again.contains(&refresh(Gn(6))));
    host.verdict(at(3), &Verdict { expelled: true, ..Verdict::default() });
    assert!(host.status().is_empty());
    assert_eq!(host.next_deadline(), None);
}

#[test]
fn a_hint_during_a_fetch_causes_another_fetch() {
    let members = [view(0, 0, 1)];
    let mut host = host(&members);
    drain(&mut host, at(0));
    for _ in 0..3 {
        host.refresh(at(1), GN);
    }
    let refresh = [GaOutput::Refresh { gn: GN }];
    assert_eq!(drain(&mut host, at(1)), refresh);
    host.snapshot(at(1), &snapshot(11, 2, &members));
    assert_eq!(drain(&mut host, at(1)), refresh, "that view may be older than the hints");
    host.snapshot(at(1), &snapshot(12, 2, &members));
    assert_eq!(drain(&mut host, at(1)), []);
    host.refresh(at(2), GN);
    host.refresh(at(2), GN);
    drain(&mut host, at(2));
    host.gone(GN);
    assert_eq!(drain(&mut host, at(2)), [], "a group that is gone stays so");
}

/// A fetch of an earlier incarnation of the node is answered to the host of the next one.
#[test]
fn an_appointment_of_an_earlier_incarnation_is_ignored() {
    let members = [view(0, 0, 1), view(1, 1, 2)];
    let mut host = GaHost::new(name(0), Incarnation(2), KEY, CONFIG);
    host.snapshot(at(0), &snapshot(10, 2, &members));
    assert_eq!(host.status(), []);
    let mut now = members;
    now[0].incarnation = Incarnation(2);
    host.snapshot(at(0), &snapshot(20, 4, &now));
    assert_eq!(host.status().len(), 1);
}

/// A verdict from before the appointment arrives after it: the group is dropped and then taken
/// again in the same epoch. Members have seen versions of the first appointment.
#[test]
fn positions_after_a_reappointment_have_newer_versions() {
    let mut host = host(&[view(0, 0, 1), view(1, 1, 2)]);
    let newest = |outputs: Vec<GaOutput>| {
        let version = |output: &GaOutput| match output {
            GaOutput::Position { update, .. } => Some(update.version),
            GaOutput::Probe { .. } | GaOutput::NodeFailed { .. } | GaOutput::Refresh { .. } => None,
        };
        let versions: Vec<Version> = outputs.iter().filter_map(version).collect();
        (versions.iter().min().copied().unwrap(), versions.iter().max().copied().unwrap())
    };
    let (_, before) = newest(drain(&mut host, at(0)));
    host.verdict(at(1), &Verdict { drop: vec![GN], ..Verdict::default() });
    host.snapshot(at(1), &snapshot(11, 2, &[view(0, 0, 1), view(1, 1, 2)]));
    let (after, _) = newest(drain(&mut host, at(1)));
    assert!(after > before, "{after:?} {before:?}");
}

/// Positions that were taken are sent no more, but for one that has changed meanwhile.
#[test]
fn a_position_that_was_taken_is_not_sent_again() {
    let mut host = host(&[view(0, 0, 1), view(1, 1, 2)]);
    let sent = |outputs: Vec<GaOutput>| -> Vec<PositionUpdate> {
        let update = |output| match output {
            GaOutput::Position { update, .. } => Some(update),
            GaOutput::Probe { .. } | GaOutput::NodeFailed { .. } | GaOutput::Refresh { .. } => None,
        };
        outputs.into_iter().filter_map(update).collect()
    };
    let positions = sent(drain(&mut host, at(0)));
    assert_eq!(positions.len(), 2);
    host.position_taken(&positions[0]);
    let older = PositionUpdate { version: Version(0), ..positions[1].clone() };
    host.position_taken(&older);
    host.tick(at(2));
    assert_eq!(sent(drain(&mut host, at(2))), positions[1..], "an older version was taken");
    host.position_taken(&positions[1]);
    host.tick(at(2 + 2));
    assert!(sent(drain(&mut host, at(4))).is_empty());
}
