//! Messages of Open vSwitch 3.1 byte by byte, and the law that all messages come back.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::{
    Action, Bucket, BundleStep, Field, FlowCommand, FlowRequest, FlowStats, GroupCommand,
    GroupDesc, GroupFeatures, GroupStats, GroupType, Instruction, Port, PortChange, PortStats,
    Reply, Request, Role, RoleChange, TableFeatures, TableStats,
};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Both directions: the bytes are the message, and the message is the bytes.
#[track_caller]
fn golden(version: Version, xid: u32, hex: &str, body: Body) {
    let message = Message { xid, body };
    assert_eq!(Message::decode(&bytes(hex)), Ok((version, message.clone())));
    assert_eq!(message.encode(version), bytes(hex));
}

fn address() -> Field {
    Field::Ipv4Dst { address: Ipv4Addr::new(239, 192, 0, 5), mask: None }
}

fn group(group: u32, ports: &[u32]) -> GroupMod {
    let buckets = ports.iter().map(|port| Bucket::output(*port)).collect();
    GroupMod { command: GroupCommand::Add, kind: GroupType::All, group, buckets }
}

/// The flow with priority 1000 from the address to a group.
fn flow(to: u32) -> FlowMod {
    let conditions = [Field::EthType(0x0800), address()].into_iter().collect();
    let instructions = vec![Instruction::Apply(vec![Action::Group(to)])];
    FlowMod { instructions, ..FlowMod::new(FlowCommand::Add, 0, 1000, conditions) }
}

/// `ovs-ofctl -O OpenFlow13 add-group br` with
/// `group_id=0x30006,type=all,bucket=output:1,bucket=output:12`
#[test]
fn a_group_is_added_as_ovs_ofctl_does() {
    let hex = "040f0050 00000006 00000000 00030006 00200000 ffffffff ffffffff 00000000 00000010
        00000001 00000000 00000000 00200000 ffffffff ffffffff 00000000 00000010 0000000c 00000000
        00000000";
    golden(Version::V13, 6, hex, Body::GroupMod(group(0x30006, &[1, 12])));
}

/// `ovs-ofctl -O OpenFlow13 bundle` and `-O OpenFlow14 bundle` with
/// `flow add priority=1000,ip,nw_dst=239.192.0.5,actions=group:6`.
#[test]
fn a_flow_is_bundled_as_ovs_ofctl_does_it() {
    let change = Box::new(Body::FlowMod(flow(6)));
    let add = Body::BundleAdd(BundleAdd { bundle: 0, flags: 3, change });
    let content = "000e0058 00000007 00000000 00000000 00000000 00000000 00000000 000003e8 ffffffff
        ffffffff ffffffff 00000000 00010012 80000a02 08008000 1804efc0 00050000 00000000 00040010
        00000000 00160008 00000006";
    let in_14 = format!("05220068 00000007 00000000 00000003 05{}", &content[2..]);
    golden(Version::V14, 7, &in_14, add.clone());
    let in_13 =
        format!("04040070 00000007 4f4e4600 000008fd 00000000 00000003 04{}", &content[2..]);
    golden(Version::V13, 7, &in_13, add);
}

#[test]
fn the_steps_of_a_bundle_are_those_of_ovs() {
    let step = |step| Body::BundleControl(BundleControl { bundle: 0, step, flags: 3 });
    let open = "04040018 00000008 4f4e4600 000008fc 00000000 00000003";
    golden(Version::V13, 8, open, step(BundleStep::Open));
    let commit = "05210010 0000000a 00000000 00040003";
    golden(Version::V14, 10, commit, step(BundleStep::Commit));
    let committed = "05210010 0000000a 00000000 00050000";
    let answer = BundleControl { bundle: 0, step: BundleStep::Committed, flags: 0 };
    golden(Version::V14, 10, committed, Body::BundleControl(answer));
}

/// `ovs-ofctl -O OpenFlow13 dump-flows br ip,nw_dst=239.192.0.0/20` and the answer.
#[test]
fn flows_are_asked_for_and_told_as_ovs_does() {
    let range = Field::Ipv4Dst {
        address: Ipv4Addr::new(239, 192, 0, 0),
        mask: Some(Ipv4Addr::new(255, 255, 240, 0)),
    };
    let asked = Request::Flows(FlowRequest {
        table: 255,
        out_port: crate::ANY_PORT,
        out_group: crate::ANY_GROUP,
        cookie: 0,
        cookie_mask: 0,
        conditions: [Field::EthType(0x0800), range].into_iter().collect(),
    });
    let hex = "04120048 00000006 00010000 00000000 ff000000 ffffffff ffffffff 00000000 00000000
        00000000 00000000 00000000 00010016 80000a02 08008000 1908efc0 0000ffff f0000000";
    golden(Version::V13, 6, hex, Body::MultipartRequest(asked.into()));
    let told = FlowStats {
        table: 0,
        seconds: 0,
        nanoseconds: 0x0651_6e80,
        priority: 1000,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: 0,
        importance: 0,
        cookie: 7,
        packets: 0,
        bytes: 0,
        conditions: [Field::InPort(3), Field::EthType(0x0800), address()].into_iter().collect(),
        instructions: vec![Instruction::Apply(vec![Action::Group(0x30006)])],
    };
    let hex = "04130070 00000006 00010000 00000000 00600000 00000000 06516e80 03e80000 00000000
        00000000 00000000 00000007 00000000 00000000 00000000 00000000 0001001a 80000004 00000003
        80000a02 08008000 1804efc0 00050000 00000000 00040010 00000000 00160008 00030006";
    let reply = MultipartReply { more: false, reply: Reply::Flows(vec![told]) };
    golden(Version::V13, 6, hex, Body::MultipartReply(reply));
}

/// `ovs-ofctl dump-group-stats` and `dump-group-features`.
#[test]
fn groups_are_told_as_ovs_tells_them() {
    let reply = |reply| Body::MultipartReply(MultipartReply { more: false, reply });
    let hex = "04130048 00000006 00060000 00000000 00380000 00000006 00000001 00000000 00000000
        00000000 00000000 00000000 00000000 04d3f640 00000000 00000000 00000000 00000000";
    let stats = GroupStats {
        group: 6,
        references: 1,
        nanoseconds: 0x04d3_f640,
        buckets: vec![(0, 0)],
        ..GroupStats::default()
    };
    golden(Version::V13, 6, hex, reply(Reply::GroupStats(vec![stats])));
    let hex = "04130038 00000002 00080000 00000000 0000000f 00000007 ffffff00 ffffff00 ffffff00
        ffffff00 03ff8001 03ff8001 03ff8001 03ff8001";
    let features = GroupFeatures {
        types: 15,
        capabilities: 7,
        max_groups: [0xffff_ff00; 4],
        actions: [0x03ff_8001; 4],
    };
    golden(Version::V13, 2, hex, reply(Reply::GroupFeatures(features)));
    assert_eq!(features.limit(GroupType::All), 0xffff_ff00);
    assert_eq!(GroupFeatures { types: 14, ..features }.limit(GroupType::All), 0, "none offered");
}

/// `ovs-ofctl dump-ports-desc` in 1.3 and in 1.4, where speeds are a property.
#[test]
fn a_port_reads_the_same_in_both_versions() {
    let in_13 = "04130050 00000002 000d0000 00000000 fffffffe 00000000 d60524d8 4a4d0000 62300000
        00000000 00000000 00000000 00000001 00000001 00000840 00000000 00000000 00000000 00989680
        00000000";
    let in_14 = "05130058 00000002 000d0000 00000000 fffffffe 00480000 d60524d8 4a4d0000 62300000
        00000000 00000000 00000000 00000001 00000001 00000020 00000000 00000840 00000000 00000000
        00000000 00989680 00000000";
    let port = Port {
        number: 0xffff_fffe,
        address: [0xd6, 5, 0x24, 0xd8, 0x4a, 0x4d],
        name: "b0".to_owned(),
        config: 1,
        state: 1,
    };
    assert!(!port.is_live());
    for (hex, version) in [(in_13, Version::V13), (in_14, Version::V14)] {
        let reply = MultipartReply { more: false, reply: Reply::Ports(vec![port.clone()]) };
        let body = Body::MultipartReply(reply);
        assert_eq!(Message::decode(&bytes(hex)), Ok((version, Message { xid: 2, body })));
    }
}

#[test]
fn the_newest_common_version_is_taken() {
    let hello = |hex| {
        let body = Message::decode(&bytes(hex)).unwrap().1.body;
        let Body::Hello(hello) = body else { panic!("{body:?}") };
        hello
    };
    assert_eq!(
        Hello::OURS.agreed(hello("05000010 00000001 00010008 00000030")),
        Some(Version::V14)
    );
    assert_eq!(
        Hello::OURS.agreed(hello("04000010 00000001 00010008 00000010")),
        Some(Version::V13)
    );
    assert_eq!(Hello::OURS.agreed(hello("06000008 00000001")), Some(Version::V14), "all older");
    assert_eq!(Hello::OURS.agreed(hello("01000008 00000001")), None);
}

#[test]
fn what_cannot_be_a_message_is_refused() {
    let decode = |hex| Message::decode(&bytes(hex)).unwrap_err();
    assert_eq!(decode("01050008 00000000"), DecodeError::Version { version: 1 });
    assert_eq!(decode("04050009 00000000"), DecodeError::Length { what: "message", length: 9 });
    let short = DecodeError::Short { what: "features", left: 4, wanted: 8 };
    assert_eq!(decode("0406000c 00000000 00000000"), short);
    let nested = "05220020 00000007 00000000 00000003 05220010 00000007 00000000 00000003";
    let twice = DecodeError::Value { what: "bundle within a bundle", value: 1 };
    assert_eq!(decode(nested), twice);
    let other = "05220018 00000007 00000000 00000003 05140008 00000008";
    assert_eq!(decode(other), DecodeError::BundleXid { inner: 8, outer: 7 });
}

fn fields() -> impl Strategy<Value = Match> {
    let field = prop_oneof![
        any::<u32>().prop_map(Field::InPort),
        any::<u16>().prop_map(Field::EthType),
        any::<(u32, Option<u32>)>().prop_map(|(address, mask)| Field::Ipv4Dst {
            address: address.into(),
            mask: mask.map(Ipv4Addr::from),
        }),
        (1u16..0x8000, 0u8..128, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(class, field, has_mask, value)| Field::Other {
                class,
                field,
                has_mask,
                value
            }),
    ];
    proptest::collection::vec(field, 0..5).prop_map(|fields| Match { fields })
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    (0usize..4, any::<u8>()).prop_map(|(words, byte)| vec![byte; 4 + 8 * words])
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        any::<u32>().prop_map(Action::Output),
        Just(Action::Controller),
        any::<u32>().prop_map(Action::Group),
        (23u16..0xfff0, content()).prop_map(|(kind, content)| Action::Other { kind, content }),
    ];
    proptest::collection::vec(action, 0..4)
}

fn instructions() -> impl Strategy<Value = Vec<Instruction>> {
    let one = prop_oneof![
        actions().prop_map(Instruction::Apply),
        actions().prop_map(Instruction::Write),
        (5u16..9, content()).prop_map(|(kind, content)| Instruction::Other { kind, content }),
    ];
    proptest::collection::vec(one, 0..3)
}

fn buckets() -> impl Strategy<Value = Vec<Bucket>> {
    let bucket = (any::<(u16, u32, u32)>(), actions()).prop_map(|(numbers, actions)| {
        let (weight, watch_port, watch_group) = numbers;
        Bucket { weight, watch_port, watch_group, actions }
    });
    proptest::collection::vec(bucket, 0..5)
}

fn flow_mods() -> impl Strategy<Value = FlowMod> {
    let commands = [
        FlowCommand::Add,
        FlowCommand::Modify,
        FlowCommand::ModifyStrict,
        FlowCommand::Delete,
        FlowCommand::DeleteStrict,
    ];
    let numbers = any::<(u64, u64, u8, u16, u16, u16, u32, u32)>();
    (proptest::sample::select(commands.to_vec()), numbers, fields(), instructions()).prop_map(
        |(command, numbers, conditions, instructions)| {
            let (cookie, cookie_mask, table, priority, flags, importance, out_port, out_group) =
                numbers;
            let flow = FlowMod::new(command, table, priority, conditions);
            FlowMod {
                cookie,
                cookie_mask,
                flags,
                importance,
                out_port,
                out_group,
                instructions,
                ..flow
            }
        },
    )
}

fn group_mods() -> impl Strategy<Value = GroupMod> {
    let commands = vec![GroupCommand::Add, GroupCommand::Modify, GroupCommand::Delete];
    let kinds = vec![GroupType::All, GroupType::FastFailover, GroupType::Other(200)];
    let (command, kind) = (proptest::sample::select(commands), proptest::sample::select(kinds));
    (command, kind, any::<u32>(), buckets()).prop_map(|(command, kind, group, buckets)| GroupMod {
        command,
        kind,
        group,
        buckets,
    })
}

fn replies() -> impl Strategy<Value = Reply> {
    let many = 0..4;
    let flow = (any::<(u8, u32, u16, u16, u64, u64)>(), fields(), instructions()).prop_map(
        |(numbers, conditions, instructions)| {
            let (table, seconds, priority, importance, cookie, packets) = numbers;
            FlowStats {
                table,
                seconds,
                nanoseconds: 7,
                priority,
                idle_timeout: 1,
                hard_timeout: 2,
                flags: 3,
                importance,
                cookie,
                packets,
                bytes: 9,
                conditions,
                instructions,
            }
        },
    );
    let desc = (any::<u32>(), buckets()).prop_map(|(group, buckets)| GroupDesc {
        kind: GroupType::All,
        group,
        buckets,
    });
    let stats = (any::<(u32, u32, u64)>(), proptest::collection::vec(any::<(u64, u64)>(), 0..4))
        .prop_map(|((group, references, packets), buckets)| GroupStats {
            group,
            references,
            packets,
            buckets,
            ..GroupStats::default()
        });
    let table = any::<(u8, u32, u64)>().prop_map(|(table, active, lookups)| TableStats {
        table,
        active,
        lookups,
        matched: 3,
    });
    let features = (any::<(u8, u32)>(), "[a-z]{0,32}")
        .prop_map(|((table, max_entries), name)| TableFeatures { table, name, max_entries });
    let list = proptest::collection::vec::<BoxedStrategy<FlowStats>>;
    prop_oneof![
        list(flow.boxed(), many.clone()).prop_map(Reply::Flows),
        proptest::collection::vec(desc, many.clone()).prop_map(Reply::Groups),
        proptest::collection::vec(stats, many.clone()).prop_map(Reply::GroupStats),
        proptest::collection::vec(table, many.clone()).prop_map(Reply::Tables),
        proptest::collection::vec(features, many.clone()).prop_map(Reply::TableFeatures),
        proptest::collection::vec(ports(), many.clone()).prop_map(Reply::Ports),
        proptest::collection::vec(any::<(u32, u64)>(), many).prop_map(|ports| {
            let stats = |(number, sent_packets)| PortStats {
                number,
                sent_packets,
                sent_errors: 1,
                ..PortStats::default()
            };
            Reply::PortStats(ports.into_iter().map(stats).collect())
        }),
    ]
}

fn ports() -> impl Strategy<Value = Port> {
    let numbers = any::<(u32, [u8; 6], u32, u32)>();
    (numbers, "[a-z0-9-]{0,16}").prop_map(|((number, address, config, state), name)| Port {
        number,
        address,
        name,
        config,
        state,
    })
}

fn bodies() -> impl Strategy<Value = Body> {
    let roles = vec![Role::NoChange, Role::Equal, Role::Master, Role::Slave];
    let role = (proptest::sample::select(roles), any::<u64>())
        .prop_map(|(role, generation)| RoleMessage { role, generation });
    let change =
        prop_oneof![flow_mods().prop_map(Body::FlowMod), group_mods().prop_map(Body::GroupMod),];
    prop_oneof![
        any::<u32>().prop_map(|versions| Body::Hello(Hello { versions })),
        any::<(u16, u16, Vec<u8>)>()
            .prop_map(|(kind, code, data)| { Body::Error(ErrorMessage { kind, code, data }) }),
        any::<Vec<u8>>().prop_map(Body::EchoRequest),
        Just(Body::FeaturesRequest),
        any::<(u64, u32, u8, u8, u32)>().prop_map(|numbers| {
            let (datapath, buffers, tables, auxiliary, capabilities) = numbers;
            Body::FeaturesReply(Features { datapath, buffers, tables, auxiliary, capabilities })
        }),
        ports().prop_map(|port| Body::PortStatus(PortStatus { change: PortChange::Removed, port })),
        (fields(), any::<Vec<u8>>()).prop_map(|(conditions, data)| Body::PacketIn(PacketIn {
            buffer: u32::MAX,
            total_length: 9,
            reason: 1,
            table: 2,
            cookie: 3,
            conditions,
            data,
        })),
        (any::<u32>(), actions(), any::<Vec<u8>>()).prop_map(|(in_port, actions, data)| {
            Body::PacketOut(PacketOut { in_port, actions, data })
        }),
        change.prop_map(|change| Body::BundleAdd(BundleAdd {
            bundle: 5,
            flags: 3,
            change: Box::new(change)
        })),
        flow_mods().prop_map(Body::FlowMod),
        group_mods().prop_map(Body::GroupMod),
        any::<u32>().prop_map(|group| {
            Body::MultipartRequest(MultipartRequest::from(Request::GroupStats(group)))
        }),
        (any::<bool>(), replies())
            .prop_map(|(more, reply)| Body::MultipartReply(MultipartReply { more, reply })),
        role.prop_map(Body::RoleReply),
        (22u8..24, any::<Vec<u8>>()).prop_map(|(kind, content)| Body::Other { kind, content }),
    ]
}

/// §A.3.10 of 1.3 and §7.3.10 of 1.4.
#[test]
fn messages_that_are_sent_unasked_are_chosen_in_both_versions() {
    let all = Body::SetAsync(AsyncMessages::PORTS_AND_ROLES);
    let in_14 = "051c0048 00000003 00000008 00000000 00010008 00000000 00020008 00000007 00030008
        00000007 00040008 00000000 00050008 00000000 00060008 00000007 00070008 00000007";
    golden(Version::V14, 3, in_14, all);
    let in_13 = "041c0020 00000003 00000000 00000000 00000007 00000007 00000000 00000000";
    let no_roles = AsyncMessages { role_status: [0; 2], ..AsyncMessages::PORTS_AND_ROLES };
    golden(Version::V13, 3, in_13, Body::SetAsync(no_roles));
    let in_13 = "041c0020 00000003 00000002 00000002 00000007 00000007 00000000 00000000";
    let no_roles = AsyncMessages { role_status: [0; 2], ..AsyncMessages::WITH_PACKETS };
    golden(Version::V13, 3, in_13, Body::SetAsync(no_roles));
}

proptest! {
    #[test]
    fn every_message_comes_back(xid: u32, body in bodies(), new: bool) {
        let version = if new { Version::V14 } else { Version::V13 };
        let message = Message { xid, body };
        let bytes = message.encode(version);
        prop_assert_eq!(Message::decode(&bytes), Ok((version, message)));
    }

    #[test]
    fn role_status_comes_back_in_1_4(generation: u64) {
        let (role, change) = (Role::Slave, RoleChange::MasterRequest);
        let body = Body::RoleStatus(RoleStatus { role, change, generation });
        let message = Message { xid: 0, body };
        let bytes = message.encode(Version::V14);
        prop_assert_eq!(Message::decode(&bytes), Ok((Version::V14, message)));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>, kind in 0u8..36, new: bool) {
        let length = u16::try_from(bytes.len() + 8).unwrap();
        let mut message = vec![if new { 5 } else { 4 }, kind];
        message.extend(length.to_be_bytes());
        message.extend([0; 4]);
        message.extend(bytes);
        // Either is allowed, a panic is not.
        let _ = Message::decode(&message);
    }
}
