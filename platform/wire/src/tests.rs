//! Laws of the codecs: decoding what was encoded gives the same value, and errors name the field.

use std::num::NonZeroU32;
use std::sync::Arc;

use fabricast_groups::directory::{HostedGroup, MemberView};
use fabricast_groups::ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision, Version};
use fabricast_groups::message::{Enrolment, MembershipStatus, Neighbor, OaReport, PositionUpdate};
use fabricast_groups::names::{
    Address, EndpointName, GroupName, JobName, LayerName, NodeName, ProcessName,
};
use fabricast_groups::record::{
    Colors, Expected, GroupRecord, MemberRecord, NodeRecord, NodeState, Route, RouteReason,
    RouteState,
};
use fabricast_groups::tree::TreeShape;
use fabricast_groups::voucher::Voucher;
use fabricast_proto::v1;
use fabricast_status::{Reason, RpcError};
use fabricast_topology::Mgid;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tonic::{Code, Status};

use crate::*;

const NAME: &str = "[a-zäß0-9/:. -]{1,20}";

fn node_name() -> impl Strategy<Value = NodeName> {
    NAME.prop_map(|text| NodeName::new(&text).unwrap())
}

fn address() -> impl Strategy<Value = Address> {
    NAME.prop_map(|text| Address::new(&text).unwrap())
}

fn endpoint() -> impl Strategy<Value = EndpointName> {
    NAME.prop_map(|text| EndpointName::new(&text).unwrap())
}

fn group_name() -> impl Strategy<Value = GroupName> {
    NAME.prop_map(|text| GroupName::new(&text).unwrap())
}

fn route() -> impl Strategy<Value = Route> {
    let routed = (any::<u16>(), option::of(any::<u16>()), any::<u64>()).prop_map(
        |(first, second, virtual_group)| RouteState::Routed {
            colors: Colors { first, second },
            virtual_group,
        },
    );
    let state = prop_oneof![Just(RouteState::UnicastOnly), routed];
    (any::<u64>(), state, "[a-z ]{0,20}", 0..10_i32, vec(endpoint(), 0..3)).prop_map(
        |(revision, state, reason, reason_code, cut_off)| Route {
            revision: Revision(revision),
            state,
            reason,
            reason_code: RouteReason::from_number(reason_code),
            cut_off,
        },
    )
}

fn member() -> impl Strategy<Value = MemberView> {
    let names = (node_name(), NAME, endpoint(), address());
    (names, any::<(u64, u32, u64, u64, bool)>()).prop_map(
        |((node, process, endpoint, address), (gn, pn, joined, incarnation, sends_only))| {
            MemberView {
                member: MemberRecord {
                    gn: Gn(gn),
                    pn: Pn(pn),
                    node,
                    process: ProcessName::new(&process).unwrap(),
                    endpoint,
                    joined: Revision(joined),
                    sends_only,
                },
                incarnation: Incarnation(incarnation),
                address,
            }
        },
    )
}

fn group() -> impl Strategy<Value = GroupRecord> {
    let names = (group_name(), option::of(node_name()), option::of(NAME), option::of(NAME));
    let names = (names, option::of(any::<u32>()));
    let expected = option::of((1..u32::MAX, any::<bool>()));
    let numbers = any::<(u64, u32, u64, u64, u64, u64)>();
    (names, numbers, any::<(bool, bool)>(), expected, option::of(route())).prop_map(
        |(((name, agent, layer, job), home), numbers, (persistent, exclusive), expected, route)| {
            let (gn, mgid, epoch, members_revision, changed, created) = numbers;
            GroupRecord {
                gn: Gn(gn),
                name,
                mgid: Mgid(mgid),
                agent,
                epoch: Epoch(epoch),
                members_revision: Revision(members_revision),
                changed: Revision(changed),
                persistent,
                exclusive,
                created: Moment(created),
                route,
                layer: layer.map(|text| LayerName::new(&text).unwrap()),
                job: job.map(|text| JobName::new(&text).unwrap()),
                expected: expected.map(|(members, met)| Expected {
                    members: NonZeroU32::new(members).unwrap(),
                    met,
                }),
                home: home.map(Mgid),
                tree: shape(gn),
            }
        },
    )
}

fn shape(draw: u64) -> TreeShape {
    match draw % 4 {
        0 => TreeShape::KNomial { width: 2 },
        1 => TreeShape::KAry { width: 64 },
        2 => TreeShape::Hierarchical { width: 3, block: 18 },
        _ => TreeShape::default(),
    }
}

fn neighbor() -> impl Strategy<Value = Neighbor> {
    (any::<u32>(), node_name(), address()).prop_map(|(pn, node, address)| Neighbor {
        pn: Pn(pn),
        node,
        address,
    })
}

fn enrolment() -> impl Strategy<Value = Enrolment> {
    let names = (group_name(), node_name(), address());
    (names, member(), any::<(u32, u64, Option<u64>)>()).prop_map(
        |((group, agent, agent_address), member, (mgid, known, voucher))| Enrolment {
            group,
            mgid: Mgid(mgid),
            member,
            agent,
            agent_address,
            known: Revision(known),
            voucher: voucher.map(Voucher),
        },
    )
}

fn position() -> impl Strategy<Value = PositionUpdate> {
    let tree = (option::of(neighbor()), vec(neighbor(), 0..4));
    let more = (option::of(route()), option::of(enrolment()));
    (node_name(), any::<(u64, u64, u32, u64)>(), tree, more).prop_map(
        |(node, (gn, epoch, pn, version), (parent, children), (route, enrolment))| {
            let enrolment = enrolment.map(|mut enrolment| {
                enrolment.member.member.gn = Gn(gn); // sent once, with the position
                Box::new(enrolment)
            });
            PositionUpdate {
                gn: Gn(gn),
                epoch: Epoch(epoch),
                pn: Pn(pn),
                node,
                tree: shape(gn),
                parent,
                children,
                route: route.map(Arc::new),
                version: Version(version),
                enrolment,
            }
        },
    )
}

/// A voucher for some of the members; the same for those of one rank.
fn voucher_of(view: &MemberView) -> Option<Voucher> {
    let pn = view.member.pn.0;
    pn.is_multiple_of(2).then_some(Voucher(pn.into()))
}

fn vouched(view: &MemberView) -> v1::Member {
    let voucher = voucher_of(view).map(|voucher| voucher.0);
    v1::Member { voucher, ..encode_member_view(view) }
}

fn report() -> impl Strategy<Value = OaReport> {
    let membership =
        any::<(u64, u64, u32, u64, u64)>().prop_map(|(gn, epoch, pn, version, joined)| {
            MembershipStatus {
                gn: Gn(gn),
                epoch: Epoch(epoch),
                pn: Pn(pn),
                version: Version(version),
                joined: Revision(joined),
            }
        });
    (node_name(), any::<u64>(), vec(membership, 0..4)).prop_map(
        |(node, incarnation, memberships)| OaReport {
            node,
            incarnation: Incarnation(incarnation),
            memberships,
        },
    )
}

proptest! {
    #[test]
    fn routes_survive_the_wire(route in route()) {
        prop_assert_eq!(decode_route(&encode_route(&route)), Ok(route));
    }

    #[test]
    fn members_survive_the_wire(view in member()) {
        let gn = view.member.gn;
        prop_assert_eq!(decode_member(gn, &encode_member_view(&view)), Ok(view.clone()));
        let node = NodeRecord {
            name: view.member.node.clone(),
            address: view.address.clone(),
            endpoints: Vec::new(),
            incarnation: view.incarnation,
            start_id: 0,
            state: NodeState::Up,
            flaps: None,
            drained: false,
            voucher_key: None,
        };
        prop_assert_eq!(decode_member(gn, &encode_member(&view.member, Some(&node))), Ok(view));
    }

    #[test]
    fn groups_survive_the_wire(group in group()) {
        prop_assert_eq!(decode_group(&encode_group(&group, "")), Ok(group));
    }

    #[test]
    fn snapshots_survive_the_wire(group in group(), mut members in vec(member(), 0..4)) {
        members.iter_mut().for_each(|view| view.member.gn = group.gn);
        let wire = v1::Group {
            members: members.iter().map(vouched).collect(),
            ..encode_group(&group, "agent:1")
        };
        let answer =
            v1::GetGroupResponse { group: Some(wire), revision: 7, ..Default::default() };
        let snapshot = decode_snapshot(&answer).unwrap();
        for member in &members {
            let voucher = snapshot.vouchers.get(&member.member.pn).copied();
            prop_assert_eq!(voucher, voucher_of(member));
        }
        prop_assert_eq!((snapshot.group, snapshot.members), (group, members));
        prop_assert_eq!(snapshot.revision, Revision(7));
        prop_assert_eq!(snapshot.agent_address, Some(Address::new("agent:1").unwrap()));
    }

    #[test]
    fn positions_survive_the_wire(position in position()) {
        prop_assert_eq!(decode_position(&encode_position(&position)), Ok(position));
    }

    #[test]
    fn reports_survive_the_wire(report in report()) {
        let agent = NodeName::new("agent").unwrap();
        prop_assert_eq!(decode_report(&encode_report(&agent, &report)), Ok(report));
    }

    #[test]
    fn statuses_of_group_agents_survive_the_wire(
        node in node_name(),
        incarnation in 1..u64::MAX,
        groups in vec((1..u64::MAX, any::<u64>(), any::<u64>()), 0..4),
    ) {
        let groups = groups.into_iter().map(|(gn, epoch, known)| HostedGroup {
            gn: Gn(gn),
            epoch: Epoch(epoch),
            known: Revision(known),
        });
        let groups: Vec<HostedGroup> = groups.collect();
        let wire = v1::GroupAgentStatus {
            node: node.to_string(),
            incarnation,
            groups: groups.iter().map(encode_hosted_group).collect(),
            next_report_in: None,
        };
        let expected = (node, Incarnation(incarnation), groups);
        prop_assert_eq!(decode_group_agent_status(&wire), Ok(expected));
    }

    #[test]
    fn refusals_survive_the_wire(code in 1..17_i32, reason in "[A-Z_]{0,10}", message in ".{0,20}") {
        let sent = RpcError::with_reason(Code::from_i32(code), &reason, &message);
        let got = decode_refusal(&encode_refusal(sent.clone()));
        prop_assert_eq!((got.code(), got.message()), (sent.code(), sent.message()));
        prop_assert_eq!(got.reason_text().unwrap_or_default(), reason);
    }
}

#[test]
fn errors_name_the_field_and_become_statuses() {
    let position = v1::Position::default();
    let status = Status::from(decode_position(&position).unwrap_err());
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().starts_with("position.node: "), "{}", status.message());
    let error = RpcError::from(decode_snapshot(&v1::GetGroupResponse::default()).unwrap_err());
    assert_eq!((error.reason(), error.message()), (Some(Reason::FieldMissing), "group is missing"));
    assert_eq!(error.fact("field").as_deref(), Some("group"));
    let route =
        v1::Route { state: v1::RouteState::Routed.into(), color: 70_000, ..v1::Route::default() };
    let error = decode_route(&route).unwrap_err().within("routes");
    assert_eq!((error.field(), error.reason()), ("routes.route.color", Reason::ColorOutOfRange));
}
