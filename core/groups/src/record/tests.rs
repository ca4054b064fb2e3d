//! Tests of the encoding of records.

use fabricast_placement::JobClass;

use super::*;
use crate::job::{JobNode, JobNodes, JobShare};
use crate::names::UserName;
use crate::token::JobToken;

fn member() -> MemberRecord {
    MemberRecord {
        gn: Gn(7),
        pn: Pn(3),
        node: NodeName::new("a/b").unwrap(),
        process: ProcessName::new("rank 3").unwrap(),
        endpoint: EndpointName::new("h0").unwrap(),
        joined: Revision(9),
        sends_only: false,
    }
}

fn request() -> RequestRecord {
    RequestRecord {
        sequence: 4,
        id: RequestId::new("r").unwrap(),
        group: GroupName::new("rows/1").unwrap(),
        outcome: Outcome::Deleted { gn: Gn(7), revision: Revision(9) },
    }
}

#[test]
fn records_decode_to_what_was_encoded() {
    let node = NodeRecord {
        name: NodeName::new("a/b").unwrap(),
        address: Address::new("127.0.0.1:1").unwrap(),
        endpoints: vec![EndpointName::new("h0").unwrap()],
        incarnation: Incarnation(2),
        start_id: u64::MAX,
        flaps: None,
        state: NodeState::Failed,
        drained: true,
        voucher_key: Some(VoucherKey::new([7; 16])),
    };
    let share = JobShare {
        user: Some(UserName::new("ann").unwrap()),
        account: None,
        groups: 4,
        aggregation_entries: 3,
        reservation: Some(5),
        steps: 2,
        token: JobToken::new("0123456789abcdef").unwrap().hash(),
        ends: Some(Moment(u64::MAX)),
        expires: None,
        ending: true,
    };
    for change in [
        Change::NodePut(node),
        Change::MemberPut(Arc::new(member())),
        Change::MemberPut(Arc::new(MemberRecord { sends_only: true, ..member() })),
        Change::RequestPut(request()),
        Change::MgidRetired(Mgid(5), Revision(6)),
        Change::JobPut(JobRecord {
            name: JobName::new("a/b").unwrap(),
            class: Some(JobClass::T2),
            nodes: JobNodes::default(),
            created: Moment(1),
            revision: Revision(2),
            share: Some(share),
        }),
        Change::NextGnPut(Gn(8)),
        Change::FirstIncarnationPut(Incarnation(8)),
        Change::RevisionPut(Revision(9)),
    ] {
        let value = change.encode().unwrap();
        assert_eq!(Change::decode(&change.store_key(), &value).unwrap(), change);
    }
}

#[test]
fn a_node_of_a_store_without_voucher_keys_has_none() {
    let stored = r#"{"name":"n","address":"a:1","endpoints":["h"],"incarnation":1,"start_id":2,
        "state":"Up"}"#;
    let Change::NodePut(node) = Change::decode("node/n", stored.as_bytes()).unwrap() else {
        panic!("a node is read as another record");
    };
    assert_eq!((node.start_id, node.voucher_key), (2, None));
    let value = Change::NodePut(node).encode().unwrap();
    assert!(!String::from_utf8(value).unwrap().contains("voucher"), "as it was");
}

#[test]
fn a_job_of_a_store_without_shares_is_read_as_it_was() {
    let stored = r#"{"name":"j","class":"T1","nodes":[],"created":1,"revision":2}"#;
    let Change::JobPut(job) = Change::decode("job/j", stored.as_bytes()).unwrap() else {
        panic!("a job is read as another record");
    };
    assert_eq!((job.class, job.share), (Some(JobClass::T1), None));
}

#[test]
fn a_job_is_stored_with_its_nodes_and_its_copies_share_them() {
    let node = |number: u32| JobNode {
        name: NodeName::new(&format!("n{number}")).unwrap(),
        endpoints: vec![EndpointName::new(&format!("h\"{number}")).unwrap()],
    };
    let job = JobRecord {
        name: JobName::new("j").unwrap(),
        class: Some(JobClass::T1),
        nodes: (0..2).map(node).collect(),
        created: Moment(1),
        revision: Revision(2),
        share: None,
    };
    let encoded = Change::JobPut(job.clone()).encode().unwrap();
    let nodes = r#"[{"name":"n0","endpoints":["h\"0"]},{"name":"n1","endpoints":["h\"1"]}]"#;
    let stored = format!(r#"{{"name":"j","class":"T1","nodes":{nodes},"created":1,"revision":2}}"#);
    assert_eq!(String::from_utf8(encoded).unwrap(), stored);
    let Change::JobPut(read) = Change::decode("job/j", stored.as_bytes()).unwrap() else {
        panic!("a job is read as another record");
    };
    assert_eq!(read, job);
    assert_eq!(Change::JobPut(read.clone()).encode().unwrap(), stored.into_bytes());
    assert!(read.clone().nodes.is_copy_of(&read.nodes) && !read.nodes.is_copy_of(&job.nodes));
    let other = JobRecord { nodes: (0..1).map(node).collect(), ..read };
    assert_ne!(other, job);
}

#[test]
fn a_member_has_colors_once_the_switches_hold_its_join() {
    let state = RouteState::Routed { colors: 5.into(), virtual_group: 1 };
    let reason = String::new();
    let reason_code = RouteReason::default();
    let mut route =
        Route { revision: Revision(8), state, reason, reason_code, cut_off: Vec::new() };
    assert_eq!(route.colors_for(&member()), None, "routed before it joined");
    route.revision = Revision(9);
    assert_eq!(route.colors_for(&member()), Some(5.into()));
    route.cut_off = vec![member().endpoint];
    assert_eq!(route.colors_for(&member()), None);
    route = Route { state: RouteState::UnicastOnly, cut_off: Vec::new(), ..route };
    assert_eq!(route.colors_for(&member()), None);
}

#[test]
fn a_deletion_has_the_key_of_the_put() {
    let gone = Change::MemberDeleted(Arc::new(member()));
    assert_eq!(gone.encode(), None);
    assert_eq!(gone.store_key(), Change::MemberPut(Arc::new(member())).store_key());
}

#[test]
fn the_value_of_a_member_that_receives_is_that_of_earlier_versions() {
    let value = Change::MemberPut(Arc::new(member())).encode().unwrap();
    assert_eq!(value, br#"["a/b","rank 3","h0",9]"#);
}

#[test]
fn decode_errors_name_the_key() {
    let value = Change::RequestPut(request()).encode().unwrap();
    let moved = Change::decode("request/0000000000000005", &value).unwrap_err();
    assert!(matches!(moved, DecodeError::Misplaced { .. }));
    let value = Change::MemberPut(Arc::new(member())).encode().unwrap();
    let long = Change::decode("member/7/3", &value).unwrap_err();
    assert!(matches!(long, DecodeError::Misplaced { .. }));
    for key in ["member/0000000000000007", "member/x/00000003", "member/0000000000000007/"] {
        let alien = Change::decode(key, &value).unwrap_err();
        assert!(matches!(alien, DecodeError::UnknownKey { .. }), "{key}");
    }
    let cut = Change::decode("member/0000000000000007/00000003", &value[..10]).unwrap_err();
    assert!(matches!(cut, DecodeError::BadValue { .. }));
    let alien = Change::decode("lease/1", b"1").unwrap_err();
    assert_eq!(alien.to_string(), "unknown record key \"lease/1\"");
}

#[test]
fn reasons_survive_as_numbers_and_unknown_numbers_mean_none() {
    for reason in RouteReason::ALL {
        assert_eq!(RouteReason::from_number(reason.number()), reason);
    }
    for unknown in [-1, 99] {
        assert_eq!(RouteReason::from_number(unknown), RouteReason::Unspecified);
    }
}
