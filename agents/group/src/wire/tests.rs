//! What is read is what was written, and what cannot be read is named.

use super::*;

fn position() -> PositionUpdate {
    let address = Address::new("127.0.0.1:9").unwrap();
    let neighbor =
        |pn| Neighbor { pn: Pn(pn), node: NodeName::new("n1").unwrap(), address: address.clone() };
    PositionUpdate {
        gn: Gn(7),
        epoch: Epoch(2),
        pn: Pn(3),
        node: NodeName::new("n3").unwrap(),
        parent: Some(neighbor(1)),
        children: vec![neighbor(7), neighbor(8)],
        route: Some(Route {
            revision: Revision(5),
            state: RouteState::Routed {
                colors: Colors { first: 4, second: Some(5) },
                virtual_group: 9,
            },
            reason: "because".to_owned(),
            cut_off: vec![EndpointName::new("h0").unwrap()],
        }),
        version: Version(11),
        enrolment: Some(Box::new(Enrolment {
            group: GroupName::new("g").unwrap(),
            mgid: Mgid(4),
            member: MemberView {
                member: MemberRecord {
                    gn: Gn(7),
                    pn: Pn(3),
                    node: NodeName::new("n3").unwrap(),
                    process: ProcessName::new("p").unwrap(),
                    endpoint: EndpointName::new("h3").unwrap(),
                    joined: Revision(5),
                },
                incarnation: Incarnation(2),
                address,
            },
            agent: NodeName::new("n0").unwrap(),
            agent_address: Address::new("127.0.0.1:8").unwrap(),
            known: Revision(6),
        })),
    }
}

#[test]
fn a_position_survives_the_wire() {
    assert_eq!(read_position(&position_to_wire(&position())).unwrap(), position());
}

#[test]
fn what_is_wrong_is_named_by_field() {
    let mut wire = position_to_wire(&position());
    wire.node = String::new();
    let status = read_position(&wire).unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(status.message().starts_with("position.node"), "{}", status.message());
    let status = snapshot(&v1::GetGroupResponse::default()).unwrap_err();
    assert_eq!(fabricast_rpc::reason_of(&status).as_deref(), Some("FIELD_MISSING"));
}
