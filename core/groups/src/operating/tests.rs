//! Tests of single inputs of an operating agent; `fabricast-simulation` tests the whole protocol.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::command::GroupSpec;
use crate::ids::{Epoch, Version};
use crate::message::{MAX_VERSION, Neighbor, PositionRefusal, PositionUpdate};
use crate::names::RequestId;
use crate::record::{NodeRecord, NodeState, Route, RouteReason, RouteState};
use crate::tree::TreeShape;

mod enrolments;

const CONFIG: OaConfig = OaConfig {
    retry: Duration::from_secs(1),
    host_timeout: Duration::from_secs(9),
    call_timeout: Duration::from_secs(5),
    calls: 2,
};
const GN: Gn = Gn(5);
const SEED: VoucherSeed = VoucherSeed([7; 16]);

fn at(seconds: u64) -> Moment {
    Moment(seconds * 1_000_000_000)
}

fn node_name(node: u32) -> NodeName {
    NodeName::new(&format!("n{node}")).unwrap()
}

fn address(node: u32) -> Address {
    Address::new(&format!("10.0.0.{node}:1")).unwrap()
}

fn process() -> ProcessName {
    ProcessName::new("p").unwrap()
}

fn group_name() -> GroupName {
    GroupName::new("g").unwrap()
}

fn endpoint(text: &str) -> EndpointName {
    EndpointName::new(text).unwrap()
}

fn record(start_id: u64, incarnation: u64, state: NodeState) -> NodeRecord {
    NodeRecord {
        name: node_name(1),
        address: address(1),
        endpoints: vec![endpoint("h1")],
        incarnation: Incarnation(incarnation),
        start_id,
        flaps: None,
        state,
        drained: false,
        voucher_key: None,
    }
}

fn drain(oa: &mut Oa) -> Vec<OaOutput> {
    std::iter::from_fn(|| oa.poll_output()).collect()
}

fn up() -> Oa {
    let identity =
        Identity { node: node_name(1), address: address(1), endpoints: vec![endpoint("h1")] };
    let mut oa = Oa::new(at(0), identity, 7, SEED, CONFIG);
    oa.registered(at(0), Ok(record(7, 3, NodeState::Up)));
    assert!(drain(&mut oa).contains(&OaOutput::Up(Incarnation(3))));
    oa
}

/// A sender that acts for the node of the group's agent only.
fn is_agent(node: &NodeName) -> bool {
    *node == node_name(0)
}

fn member(pn: u32, joined: u64) -> MemberRecord {
    MemberRecord {
        gn: GN,
        pn: Pn(pn),
        node: node_name(1),
        process: process(),
        endpoint: endpoint("h1"),
        joined: Revision(joined),
        sends_only: false,
    }
}

fn group(epoch: u64, agent: u32) -> GroupRecord {
    GroupRecord {
        gn: GN,
        name: group_name(),
        mgid: Mgid(4),
        agent: Some(node_name(agent)),
        epoch: Epoch(epoch),
        members_revision: Revision(1),
        changed: Revision(1),
        persistent: false,
        exclusive: false,
        layer: None,
        job: None,
        expected: None,
        home: None,
        tree: TreeShape::default(),
        created: Moment(0),
        route: None,
    }
}

fn snapshot(revision: u64, epoch: u64, agent: u32, members: &[MemberRecord]) -> GroupSnapshot {
    let view = |member: &MemberRecord| MemberView {
        member: member.clone(),
        incarnation: Incarnation(3),
        address: address(1),
    };
    GroupSnapshot {
        revision: Revision(revision),
        group: group(epoch, agent),
        agent_address: Some(address(agent)),
        members: members.iter().map(view).collect(),
        vouchers: BTreeMap::new(),
    }
}

fn position(epoch: u64, version: u64, color: Option<u16>) -> PositionUpdate {
    let route = |color: u16| Route {
        revision: Revision(99),
        state: RouteState::Routed { colors: color.into(), virtual_group: 0 },
        reason: String::new(),
        reason_code: RouteReason::Unspecified,
        cut_off: Vec::new(),
    };
    PositionUpdate {
        gn: GN,
        epoch: Epoch(epoch),
        pn: Pn(2),
        node: node_name(1),
        tree: TreeShape::default(),
        parent: None,
        children: Vec::new(),
        route: color.map(route).map(Arc::new),
        version: Version(version),
        enrolment: None,
    }
}

fn join_call(id: &str) -> JoinCall {
    let group = GroupSpec::new(group_name());
    let request_id = RequestId::new(id).unwrap();
    JoinCall { request_id, group, process: process(), endpoint: None, sends_only: false }
}

fn joined() -> Joined {
    let voucher = Some(Voucher(5));
    Joined { group: group(1, 0), agent_address: address(0), member: member(2, 20), voucher }
}

fn member_of_g() -> Oa {
    let mut oa = up();
    let id = oa.join(at(1), join_call("a")).unwrap();
    oa.join_answered(at(1), id, Ok(joined()));
    oa.member_registered(at(1), GN, Pn(2), Ok(position(1, 1, None)));
    drain(&mut oa);
    oa
}

#[test]
fn a_join_is_answered_once_both_the_tic_and_the_agent_have_it() {
    let mut oa = up();
    let id = oa.join(at(1), join_call("a")).unwrap();
    let [OaOutput::Join(asked, join)] = &drain(&mut oa)[..] else { panic!("the TIC is asked") };
    assert_eq!((*asked, join.member.incarnation), (id, Incarnation(3)));
    assert_eq!(join.member.endpoint, endpoint("h1"), "the node's first");
    oa.join_answered(at(1), id, Ok(joined()));
    let outputs = drain(&mut oa);
    let [OaOutput::RegisterMember { agent, register, .. }] = &outputs[..] else {
        panic!("the agent is asked, the process not yet told: {outputs:?}");
    };
    assert_eq!((agent, register.epoch), (&node_name(0), Epoch(1)));
    assert_eq!(register.voucher, Some(Voucher(5)), "the word of the TIC comes along");
    oa.tick(at(2));
    assert_eq!(drain(&mut oa), outputs, "it is asked again");
    oa.member_registered(at(2), GN, Pn(2), Ok(position(1, 1, None)));
    let [OaOutput::Answered(told, CallAnswer::Joined(held))] = &drain(&mut oa)[..] else {
        panic!("the process is told");
    };
    assert_eq!((*told, held.member.pn), (id, Pn(2)));
    assert_eq!(oa.next_deadline(), None);
}

#[test]
fn positions_of_former_agents_are_refused() {
    let mut oa = member_of_g();
    let is_new_agent = |node: &NodeName| *node == node_name(6);
    let unknown = |given| PositionRefusal::UnknownAgent { gn: GN, given: Epoch(given) };
    let early = oa.position(at(2), &position(3, 1, None), is_new_agent);
    assert_eq!(early, Err(unknown(3)), "the TIC has not said so");
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)], "where is the new agent?");
    oa.group(at(2), &snapshot(30, 3, 6, &[member(2, 20)]));
    let old = oa.position(at(2), &position(2, 9, Some(1)), is_agent).unwrap_err();
    assert_eq!(old, PositionRefusal::StaleEpoch { gn: GN, given: Epoch(2), known: Epoch(3) });
    oa.position(at(2), &position(3, 5, Some(2)), is_new_agent).unwrap();
    oa.position(at(2), &position(3, 4, None), is_new_agent).unwrap();
    assert_eq!(oa.membership(&group_name(), &process()).unwrap().colors(), Some(2.into()));
    let reports = oa.reports(at(2));
    assert_eq!((&reports[0].0, &reports[0].1), (&node_name(6), &address(6)));
    let status = reports[0].2.memberships[0];
    assert_eq!((status.epoch, status.version), (Epoch(3), Version(5)));
}

#[test]
fn a_position_counts_from_the_agent_that_the_tic_has_named_only() {
    let hung = PositionUpdate {
        parent: Some(Neighbor { pn: Pn(9), node: node_name(9), address: address(9) }),
        ..position(1, MAX_VERSION.0, None)
    };
    let is_other = |node: &NodeName| *node == node_name(9);
    let mut oa = member_of_g();
    let before = oa.membership(&group_name(), &process()).cloned();
    for epoch in [1, 2, 1 << 63, u64::MAX] {
        let hung = PositionUpdate { epoch: Epoch(epoch), ..hung.clone() };
        let refused = oa.position(at(2), &hung, is_other);
        assert_eq!(refused, Err(PositionRefusal::UnknownAgent { gn: GN, given: Epoch(epoch) }));
        // The answer of a host to a report is for the groups whose agent it is.
        let reply = OaReportReply { positions: vec![hung.clone()], unknown: Vec::new() };
        oa.report_answered(at(2), &node_name(9), &reply);
        let other_member = PositionUpdate { pn: Pn(7), ..hung };
        oa.member_registered(at(2), GN, Pn(2), Ok(other_member));
        assert_eq!(oa.membership(&group_name(), &process()), before.as_ref());
    }
    let forged = Version(MAX_VERSION.0 + 1);
    let refused = oa.position(at(3), &position(1, forged.0, None), is_agent);
    assert_eq!(refused, Err(PositionRefusal::VersionOutOfRange { gn: GN, given: forged }));
    assert_eq!(oa.membership(&group_name(), &process()), before.as_ref());
    oa.position(at(3), &position(1, 2, None), is_agent).unwrap();
}

#[test]
fn packets_are_accepted_by_mgid_and_endpoint() {
    let oa = member_of_g();
    assert_eq!(oa.accepts(Mgid(4), &endpoint("h1")).count(), 1);
    assert_eq!(oa.accepts(Mgid(5), &endpoint("h1")).count(), 0);
    assert_eq!(oa.accepts(Mgid(4), &endpoint("h2")).count(), 0);
}

#[test]
fn a_recorded_leave_is_final_and_older_snapshots_do_not_undo_it() {
    let mut oa = member_of_g();
    let request_id = RequestId::new("b").unwrap();
    let leave = LeaveCall { request_id, group: group_name(), process: process() };
    let id = oa.leave(at(2), leave).unwrap();
    drain(&mut oa);
    oa.leave_answered(id, Ok((GN, Pn(2), Revision(25))));
    let outputs = drain(&mut oa);
    assert!(matches!(outputs[0], OaOutput::DeregisterMember { .. }));
    assert_eq!(outputs[1], OaOutput::Answered(id, CallAnswer::Left));
    oa.group(at(2), &snapshot(24, 1, 0, &[member(2, 20)]));
    assert_eq!(oa.memberships().count(), 0);
    assert!(oa.position(at(2), &position(1, 2, None), is_agent).is_err());
}

#[test]
fn memberships_created_by_others_are_adopted_and_ended_ones_dropped() {
    let mut oa = up();
    assert!(oa.position(at(1), &position(1, 4, None), is_agent).is_err());
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)]);
    oa.tick(at(2));
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)], "until it is answered");
    oa.group(at(2), &snapshot(21, 1, 0, &[member(2, 20)]));
    assert!(matches!(drain(&mut oa)[..], [OaOutput::RegisterMember { .. }]));
    let unknown = OaReportReply { positions: Vec::new(), unknown: vec![(GN, Pn(2))] };
    oa.report_answered(at(3), &node_name(0), &unknown);
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)]);
    oa.no_group(GN, Revision(50));
    assert!(matches!(&drain(&mut oa)[..], [OaOutput::Ended(ended)] if ended.len() == 1));
}

/// Two answers of the TIC cross: the older one must not restore what the newer one has ended.
#[test]
fn a_late_snapshot_does_not_restore_an_ended_membership() {
    let mut oa = member_of_g();
    oa.group(at(2), &snapshot(40, 2, 0, &[]));
    assert_eq!(oa.memberships().count(), 0);
    drain(&mut oa);
    oa.group(at(2), &snapshot(39, 1, 0, &[member(2, 20)]));
    assert_eq!((oa.memberships().count(), drain(&mut oa).len()), (0, 0));
    oa.group(at(3), &snapshot(41, 3, 0, &[member(2, 41)]));
    assert_eq!(oa.memberships().count(), 1, "joined anew");
}

#[test]
fn an_expelled_node_loses_everything_and_comes_back_with_a_new_start() {
    let mut oa = member_of_g();
    oa.expelled(at(2), Incarnation(2));
    assert_eq!(oa.memberships().count(), 1, "news of an earlier incarnation");
    oa.expelled(at(2), Incarnation(3));
    let outputs = drain(&mut oa);
    assert_eq!(outputs[0], OaOutput::Down(Incarnation(3)));
    assert!(matches!(&outputs[1], OaOutput::Ended(ended) if ended.len() == 1));
    let OaOutput::RegisterNode(again) = &outputs[2] else { panic!("it announces itself") };
    assert_eq!((again.start_id, oa.phase()), (8, Phase::Registering));
    assert_eq!(again.voucher_key, Some(SEED.key(&node_name(1), 8)), "of the new start");
    assert!(oa.reports(at(3)).is_empty());
    assert_eq!((oa.probe(), oa.accepts(Mgid(4), &endpoint("h1")).count()), (None, 0));
    oa.registered(at(3), Ok(record(7, 3, NodeState::Up)));
    assert_eq!(oa.phase(), Phase::Registering, "that was the answer to the former start");
    oa.registered(at(3), Ok(record(8, 4, NodeState::Up)));
    assert_eq!(oa.probe(), Some(Incarnation(4)));
}

#[test]
fn a_refusal_that_concerns_the_incarnation_is_checked_and_the_call_stays_open() {
    let mut oa = up();
    let id = oa.join(at(1), join_call("a")).unwrap();
    drain(&mut oa);
    oa.join_answered(at(1), id, Err(TicRefusal::StaleIncarnation));
    assert!(matches!(drain(&mut oa)[..], [OaOutput::RegisterNode(_)]));
    oa.registered(at(1), Ok(record(7, 3, NodeState::Failed)));
    oa.registered(at(1), Ok(record(8, 4, NodeState::Up)));
    oa.tick(at(2));
    let rejoins = drain(&mut oa).into_iter().filter_map(|output| match output {
        OaOutput::Join(again, join) => Some((again, join.member.incarnation)),
        OaOutput::RegisterNode(_)
        | OaOutput::Leave(..)
        | OaOutput::FetchGroup(_)
        | OaOutput::RegisterMember { .. }
        | OaOutput::DeregisterMember { .. }
        | OaOutput::Answered(..)
        | OaOutput::Ended(_)
        | OaOutput::Up(_)
        | OaOutput::Down(_)
        | OaOutput::NodeRefused(_) => None,
    });
    assert_eq!(rejoins.collect::<Vec<_>>(), [(id, Incarnation(4))]);
    let refusal = TicRefusal::Final {
        code: 7,
        reason: "NOT_PERMITTED".to_owned(),
        message: "not for this node".to_owned(),
    };
    oa.join_answered(at(2), id, Err(refusal.clone()));
    let failed = CallAnswer::Failed(CallError::Refused(refusal));
    assert_eq!(drain(&mut oa), [OaOutput::Answered(id, failed)]);
}

/// The machine was restarted with its clock set back, so the TIC has a higher start id.
#[test]
fn a_start_id_below_the_recorded_one_is_raised() {
    let identity =
        Identity { node: node_name(1), address: address(1), endpoints: vec![endpoint("h1")] };
    let mut oa = Oa::new(at(0), identity, 2, SEED, CONFIG);
    drain(&mut oa);
    oa.registered(at(0), Ok(record(7, 3, NodeState::Up)));
    let [OaOutput::RegisterNode(again)] = &drain(&mut oa)[..] else { panic!("it asks again") };
    assert_eq!((again.start_id, oa.phase()), (8, Phase::Registering));
    oa.registered(at(0), Ok(record(8, 4, NodeState::Up)));
    assert_eq!(oa.probe(), Some(Incarnation(4)));
    oa.registered(at(1), Ok(record(9, 5, NodeState::Up)));
    assert_eq!((drain(&mut oa).len(), oa.probe()), (1, Some(Incarnation(4))), "somebody else's");
}

#[test]
fn a_stopped_node_is_silent_and_starts_a_new_incarnation() {
    let mut oa = member_of_g();
    let id = oa.join(at(2), join_call("b")).unwrap();
    drain(&mut oa);
    oa.stop(at(2));
    let stopped = CallError::Stopped { node: node_name(1) };
    let outputs = drain(&mut oa);
    assert!(outputs.contains(&OaOutput::Answered(id, CallAnswer::Failed(stopped.clone()))));
    oa.tick(at(9));
    oa.registered(at(9), Ok(record(7, 3, NodeState::Up)));
    assert!(oa.position(at(9), &position(1, 9, None), is_agent).is_err());
    assert_eq!((drain(&mut oa), oa.next_deadline()), (vec![], None));
    assert_eq!(oa.join(at(9), join_call("c")), Err(stopped));
    oa.start(at(10));
    let [OaOutput::RegisterNode(again)] = &drain(&mut oa)[..] else { panic!("it is back") };
    assert_eq!(again.start_id, 8);
}

#[test]
fn calls_are_bounded_in_number_and_time() {
    let mut oa = up();
    let first = oa.join(at(1), join_call("a")).unwrap();
    oa.join(at(2), join_call("b")).unwrap();
    assert_eq!(oa.join(at(2), join_call("c")), Err(CallError::Busy { limit: 2 }));
    drain(&mut oa);
    oa.tick(at(6));
    let late = OaOutput::Answered(first, CallAnswer::Failed(CallError::TimedOut));
    assert!(drain(&mut oa).contains(&late));
    assert!(oa.join(at(6), join_call("c")).is_ok());
}

/// Else a node with many calls would look at all of them for each new one.
#[test]
fn a_new_call_repeats_no_other() {
    let mut oa = up();
    let first = oa.join(at(1), join_call("a")).unwrap();
    drain(&mut oa);
    let second = oa.join(at(3), join_call("b")).unwrap();
    assert!(matches!(&drain(&mut oa)[..], [OaOutput::Join(sent, _)] if *sent == second));
    assert_eq!(oa.next_deadline(), Some(at(2)), "the first is due");
    oa.tick(at(3));
    assert!(matches!(&drain(&mut oa)[..], [OaOutput::Join(sent, _)] if *sent == first));
    assert_eq!(oa.next_deadline(), Some(at(4)));
}

#[test]
fn groups_of_a_host_that_answers_no_report_are_fetched() {
    let mut oa = member_of_g();
    for second in 2..11 {
        oa.reports(at(second));
        oa.tick(at(second));
        assert_eq!(drain(&mut oa), [], "at {second} s");
    }
    oa.tick(at(11));
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)]);
    oa.no_group(GN, Revision(50));
    assert_eq!(oa.memberships().count(), 0);
}

#[test]
fn a_doubt_during_a_fetch_causes_another_fetch() {
    let mut oa = member_of_g();
    let unknown = OaReportReply { positions: Vec::new(), unknown: vec![(GN, Pn(2))] };
    for _ in 0..3 {
        oa.report_answered(at(2), &node_name(0), &unknown);
    }
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)]);
    oa.group(at(2), &snapshot(30, 1, 0, &[member(2, 20)]));
    assert_eq!(drain(&mut oa), [OaOutput::FetchGroup(GN)], "that view may be older than the doubt");
    oa.group(at(2), &snapshot(31, 1, 0, &[member(2, 20)]));
    assert_eq!((drain(&mut oa), oa.next_deadline()), (vec![], None));
}
