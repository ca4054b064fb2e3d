//! Tests of tags and keys. The tags were computed by another implementation of SipHash.

use super::*;

const KEY: VoucherKey = VoucherKey::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

/// Names of one membership.
struct Names {
    group: GroupName,
    node: NodeName,
    process: ProcessName,
    endpoint: EndpointName,
    address: Address,
    agent: NodeName,
    agent_address: Address,
}

fn names() -> Names {
    Names {
        group: GroupName::new("g").unwrap(),
        node: NodeName::new("n1").unwrap(),
        process: ProcessName::new("p").unwrap(),
        endpoint: EndpointName::new("h1").unwrap(),
        address: Address::new("10.0.0.1:1").unwrap(),
        agent: NodeName::new("n0").unwrap(),
        agent_address: Address::new("10.0.0.0:1").unwrap(),
    }
}

fn member(names: &Names) -> MemberClaim<'_> {
    MemberClaim {
        gn: Gn(5),
        pn: Pn(2),
        joined: Revision(20),
        node: &names.node,
        incarnation: Incarnation(3),
        process: &names.process,
        endpoint: &names.endpoint,
    }
}

fn enrolment(names: &Names) -> EnrolmentClaim<'_> {
    EnrolmentClaim {
        member: member(names),
        group: &names.group,
        mgid: Mgid(4),
        epoch: Epoch(1),
        agent: &names.agent,
        agent_address: &names.agent_address,
    }
}

fn join(names: &Names) -> JoinClaim<'_> {
    JoinClaim { member: member(names), address: &names.address, epoch: Epoch(1) }
}

/// The member with one field after the other changed.
fn other_members<'a>(names: &'a Names, other: &'a Names) -> Vec<MemberClaim<'a>> {
    let member = member(names);
    vec![
        MemberClaim { gn: Gn(6), ..member },
        MemberClaim { pn: Pn(3), ..member },
        MemberClaim { joined: Revision(21), ..member },
        MemberClaim { node: &other.node, ..member },
        MemberClaim { incarnation: Incarnation(4), ..member },
        MemberClaim { process: &other.process, ..member },
        MemberClaim { endpoint: &other.endpoint, ..member },
    ]
}

fn other_names() -> Names {
    Names {
        group: GroupName::new("g2").unwrap(),
        node: NodeName::new("n2").unwrap(),
        process: ProcessName::new("q").unwrap(),
        endpoint: EndpointName::new("h2").unwrap(),
        address: Address::new("10.0.0.1:2").unwrap(),
        agent: NodeName::new("n9").unwrap(),
        agent_address: Address::new("10.0.0.9:1").unwrap(),
    }
}

#[test]
fn vouchers_have_the_tags_that_other_programs_compute() {
    let names = names();
    assert_eq!(enrolment(&names).voucher(&KEY), Voucher(0x24c2_b42a_9d36_90a5));
    assert_eq!(join(&names).voucher(&KEY), Voucher(0x0f95_c515_aae6_ebfe));
    let key = VoucherSeed([7; 16]).key(&names.node, 7);
    assert_eq!(String::from(key), "0e15f714585f2dca7a59546e6daf516b");
}

#[test]
fn every_field_of_an_enrolment_changes_its_voucher() {
    let (names, other) = (names(), other_names());
    let claim = enrolment(&names);
    let mut changed = vec![
        EnrolmentClaim { group: &other.group, ..claim },
        EnrolmentClaim { mgid: Mgid(5), ..claim },
        EnrolmentClaim { epoch: Epoch(2), ..claim },
        EnrolmentClaim { agent: &other.agent, ..claim },
        EnrolmentClaim { agent_address: &other.agent_address, ..claim },
    ];
    let members = other_members(&names, &other).into_iter();
    changed.extend(members.map(|member| EnrolmentClaim { member, ..claim }));
    let voucher = claim.voucher(&KEY);
    for changed in changed {
        assert_ne!(changed.voucher(&KEY), voucher, "{changed:?}");
    }
    assert_ne!(claim.voucher(&VoucherKey::new([7; 16])), voucher);
}

#[test]
fn every_field_of_a_join_changes_its_voucher() {
    let (names, other) = (names(), other_names());
    let claim = join(&names);
    let mut changed = vec![
        JoinClaim { address: &other.address, ..claim },
        JoinClaim { epoch: Epoch(2), ..claim },
    ];
    let members = other_members(&names, &other).into_iter();
    changed.extend(members.map(|member| JoinClaim { member, ..claim }));
    let voucher = claim.voucher(&KEY);
    for changed in changed {
        assert_ne!(changed.voucher(&KEY), voucher, "{changed:?}");
    }
    assert_ne!(claim.voucher(&VoucherKey::new([7; 16])), voucher);
}

/// The end of one name is not the beginning of the next.
#[test]
fn names_that_are_cut_elsewhere_have_another_voucher() {
    let names = names();
    let mut cut = other_names();
    cut.process = ProcessName::new("ph").unwrap();
    cut.endpoint = EndpointName::new("1").unwrap();
    let mut claim = join(&names);
    let voucher = claim.voucher(&KEY);
    (claim.member.process, claim.member.endpoint) = (&cut.process, &cut.endpoint);
    assert_ne!(claim.voucher(&KEY), voucher);
}

#[test]
fn each_node_has_a_key_of_its_own_at_each_start() {
    let [node, other] = [names().node, other_names().node];
    let seed = VoucherSeed([7; 16]);
    let key = seed.key(&node, 7);
    assert_eq!(seed.key(&node, 7), key);
    for changed in [seed.key(&other, 7), seed.key(&node, 8), VoucherSeed([8; 16]).key(&node, 7)] {
        assert_ne!(changed, key);
    }
}

#[test]
fn a_key_outlives_the_store_and_is_never_printed() {
    let text = serde_json::to_string(&KEY).unwrap();
    assert_eq!(text, "\"000102030405060708090a0b0c0d0e0f\"");
    assert_eq!(serde_json::from_str::<VoucherKey>(&text).unwrap(), KEY);
    for bad in ["", "00", &"é".repeat(16), &"0".repeat(34)] {
        assert_eq!(VoucherKey::try_from(bad.to_owned()), Err(VoucherKeyError), "{bad}");
    }
    let printed = format!("{KEY:?} {:?}", VoucherSeed([7; 16]));
    assert_eq!(printed, "VoucherKey(..) VoucherSeed(..)");
}
