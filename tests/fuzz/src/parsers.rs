//! Targets for settings, values, names, certificates and wire formats.

use fabricast_config::{
    ConfigErrors, FabricConfig, OperatingAgentConfig, Role, RouterConfig, SECTIONS, Sources,
    SwitchAgentConfig, TicConfig, load_text,
};
use fabricast_groups::programs::{AddressRange, read_joined};
use fabricast_groups::{Pn, Revision};
use fabricast_infiniband::{
    Block, BlockPlace, CountersQuery, Discovery, NodeDescription, NodeInfo, PortInfo, SMP_BYTES,
    Smp, SwitchInfo, Traffic, dropped_packets,
};
use fabricast_messages::{Body, Hello, Packet, RosterChange};
use fabricast_openflow as of;
use fabricast_rpc::{Identity, certificate_identities, identity_name};
use fabricast_topology::TableKind;

use crate::entropy::Entropy;

/// Settings of every part, from a file and from variables: valid, or refused with every problem at
/// its position.
pub(crate) fn settings(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let mut variables = Vec::new();
    for line in input.lines().filter(|line| line.starts_with("FABRICAST_")) {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        variables.push((name.to_owned(), value.to_owned()));
    }
    let sources = Sources { variables, ..Sources::default() };
    told(load_text::<TicConfig>(input, &sources));
    told(load_text::<RouterConfig>(input, &sources));
    told(load_text::<FabricConfig>(input, &sources));
    told(load_text::<OperatingAgentConfig>(input, &sources));
    told(load_text::<SwitchAgentConfig>(input, &sources));
}

fn told<R: Role>(loaded: Result<R, ConfigErrors>) {
    if let Err(errors) = loaded {
        assert!(!errors.to_string().is_empty(), "a refusal says why");
    }
}

/// One value of each kind that settings have: durations, addresses, modes, lists, numbers.
pub(crate) fn values(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let value = input.replace(['\n', '\r'], " ");
    let set = |key: &str| Sources::default().flag(key, value.clone(), "--flag");
    for key in ["listen", "leader_lease", "store", "advertise", "colors", "adaptive", "limits"] {
        told(load_text::<TicConfig>("[tic]\ntopology = 'f'\n", &set(key)));
    }
    for key in ["tic", "switch_agents", "drain", "engine", "root_policy"] {
        told(load_text::<RouterConfig>("", &set(key)));
    }
    for key in ["nodes", "socket_mode", "socket", "report_interval"] {
        told(load_text::<OperatingAgentConfig>("", &set(key)));
    }
}

/// A role and a name, and any text as a name.
pub(crate) fn identity(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    if let Ok(identity) = input.parse::<Identity>() {
        assert_eq!(identity.to_string().parse(), Ok(identity));
    }
    let written = identity_name(input);
    if !input.is_empty() {
        let whole = format!("operating-agent/{written}");
        let read: Identity = whole.parse().expect("any name can be written");
        assert_eq!(read.name, written);
    }
}

/// A certificate presented by a peer.
pub(crate) fn certificate(data: &[u8]) {
    let _ = certificate_identities(data);
}

/// A frame of a link.
pub(crate) fn frame(data: &[u8]) {
    if let Ok(body) = Body::decode(data) {
        let again = Body::decode(&body.encode());
        // NaN is not equal to itself, so the encoded bytes are compared.
        assert_eq!(again.map(|body| body.encode()), Ok(body.encode()));
    }
}

/// A packet of the multicast connection.
pub(crate) fn packet(data: &[u8]) {
    if let Ok(Some(packet)) = Packet::decode(data) {
        let again = Packet::decode(&packet.encode());
        assert_eq!(again.map(|packet| packet.map(|one| one.encode())), Ok(Some(packet.encode())));
    }
}

/// A reply of a switch, with every attribute that it may contain.
pub(crate) fn smp(data: &[u8]) {
    let mut bytes = [0; SMP_BYTES];
    let count = data.len().min(SMP_BYTES);
    bytes[..count].copy_from_slice(&data[..count]);
    let _ = Smp::transaction_of(&bytes);
    for content in [Smp::answer(&bytes), CountersQuery::answer(&bytes)].into_iter().flatten() {
        let _ = (NodeInfo::read(&content), PortInfo::read(&content));
        let _ = (NodeDescription::read(&content), SwitchInfo::read(&content));
        let _ = (Traffic::read(&content), dropped_packets(&content));
        let place = BlockPlace { entries: 0, ports: 0 };
        assert_eq!(Block::read(place, &content).data(), content);
    }
}

/// A complete discovery of switches with arbitrary replies.
pub(crate) fn discovery(data: &[u8]) {
    const MOST_QUERIES: u32 = 2_000;
    let mut entropy = Entropy(data);
    let mut discovery = Discovery::new();
    for _ in 0..MOST_QUERIES {
        let Some(query) = discovery.next_query() else { break };
        if entropy.byte() == 0 {
            discovery.unanswered(query.id);
            continue;
        }
        let mut content = [0; 64];
        let said = entropy.bytes(64);
        content[..said.len()].copy_from_slice(said);
        discovery.answered(query.id, &content);
    }
    // Either a graph or a reason is allowed.
    let _ = discovery.finish().graph();
}

/// A stream of messages of a switch.
pub(crate) fn openflow(data: &[u8]) {
    let mut framer = of::Framer::default();
    framer.push(data);
    while let Ok(Some(bytes)) = framer.next_message() {
        let Ok((version, message)) = of::Message::decode(bytes) else { return };
        let again = of::Message::decode(&message.encode(version));
        assert_eq!(again, Ok((version, message)), "what is written, is read");
    }
}

/// The kernel's list of joined addresses, and ranges of them.
pub(crate) fn programs(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let joined = read_joined(input);
    assert!(joined.len() <= input.lines().count());
    for line in input.lines() {
        let Ok(range) = line.parse::<AddressRange>() else { continue };
        let first: std::net::Ipv4Addr = line.split('/').next().unwrap_or("").parse().expect("read");
        assert!(range.contains(first) && first.is_multicast(), "{line}");
    }
}

/// A frame that a switch hands over: of another switch, of a host, or of anybody else.
pub(crate) fn heard_frame(data: &[u8]) {
    if let Some(frame) = of::LldpFrame::decode(data) {
        assert_eq!(of::LldpFrame::decode(&frame.encode()), Some(frame));
    }
    if let Some((_, announced)) = of::Announcement::decode(data) {
        let name = announced.endpoint;
        assert!(!name.trim().is_empty() && !name.chars().any(char::is_control), "{name:?}");
    }
}

/// Groups and flows that a switch describes: what is no entry can be removed.
pub(crate) fn openflow_table(data: &[u8]) {
    let (mut flows, mut groups) = (Vec::new(), Vec::new());
    let mut framer = of::Framer::default();
    framer.push(data);
    while let Ok(Some(bytes)) = framer.next_message() {
        let Ok((_, message)) = of::Message::decode(bytes) else { break };
        if let of::Body::MultipartReply(part) = message.body {
            match part.reply {
                of::Reply::Flows(mut list) => flows.append(&mut list),
                of::Reply::Groups(mut list) => groups.append(&mut list),
                _ => {}
            }
        }
    }
    for (tables, fault_tolerant) in
        [(TableKind::PerPort, false), (TableKind::PerPort, true), (TableKind::PerSwitch, false)]
    {
        let mapping = of::Mapping { tables, fault_tolerant, ..OPENFLOW_MAPPING };
        let found = mapping.read(&flows, &groups);
        let room = found.entries.len() + found.leftovers.len();
        assert!(room <= flows.len() + groups.len(), "{found:?}");
        assert_eq!(mapping.removals(&found.leftovers).len(), found.leftovers.len());
    }
}

const OPENFLOW_MAPPING: of::Mapping = of::Mapping {
    table: 0,
    priority: 1000,
    addresses: std::net::Ipv4Addr::new(239, 192, 0, 0),
    colors: 16,
    first_group: 1,
    tables: TableKind::PerPort,
    endpoint_ports: fabricast_topology::PortSet::single(1),
    fault_tolerant: false,
};

/// Messages of every kind that a driver meets, in both versions.
fn openflow_messages() -> Vec<Vec<u8>> {
    let key = of::EntryKey { in_port: 1, color: 5 };
    let fence = of::Fence { term: 7, generation: 9 };
    let writes = [(key, [2, 3].into_iter().collect())];
    let mapping = of::Mapping { fault_tolerant: true, ..OPENFLOW_MAPPING };
    let mut bodies = mapping.changes(&of::Found::default(), writes, 7);
    bodies.extend(OPENFLOW_MAPPING.fence_changes(fence));
    let place = of::ProgramKey { in_port: 1, address: [239, 1, 2, 3].into() };
    let programs = of::ProgramFlows::from([(place, key)]);
    bodies.extend(OPENFLOW_MAPPING.program_changes(&of::ProgramFlows::new(), &programs, 7));
    let change = Box::new(bodies[0].clone());
    bodies.push(of::Body::BundleAdd(of::BundleAdd { bundle: 1, flags: 3, change }));
    bodies.push(of::Body::Hello(of::Hello::OURS));
    bodies.extend(OPENFLOW_MAPPING.requests().map(|one| of::Body::MultipartRequest(one.into())));
    let port = of::Port { number: 1, name: "eth1".to_owned(), ..of::Port::default() };
    let change = of::PortChange::Modified;
    bodies.push(of::Body::PortStatus(of::PortStatus { change, port: port.clone() }));
    let replies = [
        of::Reply::Ports(vec![port]),
        of::Reply::PortStats(vec![of::PortStats::default()]),
        of::Reply::GroupFeatures(of::GroupFeatures::default()),
        of::Reply::Desc(of::SwitchDesc::default()),
    ];
    bodies.extend(
        replies.map(|reply| of::Body::MultipartReply(of::MultipartReply { more: false, reply })),
    );
    let encode =
        |(version, body): (of::Version, of::Body)| of::Message { xid: 1, body }.encode(version);
    let both = |body: of::Body| [(of::Version::V13, body.clone()), (of::Version::V14, body)];
    bodies.into_iter().flat_map(both).map(encode).collect()
}

/// A frame of a switch, and one of a host, which names the endpoint `h0`.
fn heard_frames() -> Vec<Vec<u8>> {
    let port = of::SwitchPort { datapath: 0x02fa_b000_0000_0001, number: 3 };
    let announced = of::Announcement { endpoint: "h0".to_owned() }.encode();
    let head = b"\x01\0\x5e\0\0\xfe\x02\0\0\0\0\x09\x08\0\x45\0\0\x26\0\0\0\0\x01\x11\0\0\
        \x0a\0\0\x01\xe0\0\0\xfe\x10\0\x1c\xee\0\x12\0\0";
    let code = [7; of::CODE_BYTES];
    vec![of::LldpFrame { port, seconds: 6, code }.encode(), [&head[..], &announced[..]].concat()]
}

/// Answers of a switch with one entry, and its fence.
fn openflow_tables() -> Vec<Vec<u8>> {
    let key = of::EntryKey { in_port: 1, color: 5 };
    let out = [2, 3].into_iter().collect();
    let fence = OPENFLOW_MAPPING.fence_changes(of::Fence { term: 7, generation: 9 });
    let (mut flows, mut groups) = (Vec::new(), Vec::new());
    let changes = OPENFLOW_MAPPING.changes(&of::Found::default(), [(key, out)], 7);
    for body in fence.into_iter().chain(changes) {
        match body {
            of::Body::FlowMod(flow) => flows.push(of::FlowStats {
                table: flow.table,
                seconds: 0,
                nanoseconds: 0,
                priority: flow.priority,
                idle_timeout: 0,
                hard_timeout: 0,
                flags: 0,
                importance: 0,
                cookie: flow.cookie,
                packets: 0,
                bytes: 0,
                conditions: flow.conditions,
                instructions: flow.instructions,
            }),
            of::Body::GroupMod(of::GroupMod { kind, group, buckets, .. }) => {
                groups.push(of::GroupDesc { kind, group, buckets });
            }
            _ => {}
        }
    }
    let replies = [of::Reply::Flows(flows), of::Reply::Groups(groups)];
    let encode = |reply| {
        let body = of::Body::MultipartReply(of::MultipartReply { more: false, reply });
        of::Message { xid: 1, body }.encode(of::Version::V13)
    };
    vec![replies.map(encode).concat()]
}

/// Valid inputs, generated by other code.
pub(crate) fn made(target: &str) -> Vec<Vec<u8>> {
    match target {
        "settings" => {
            let sections = SECTIONS.map(|section| format!("[{section}]\nlisten = '[::1]:0'\n"));
            let file = include_str!("../../../data/fabricast.toml");
            vec![sections.concat().into_bytes(), file.as_bytes().to_vec()]
        }
        "frame" => frames().iter().map(Body::encode).collect(),
        "packet" => vec![b"\x89FCmsg1\n\x07\0\0\0\0\0\0\0\0".to_vec()],
        "smp" => {
            let mut answer = vec![0; SMP_BYTES];
            answer[..4].copy_from_slice(&[1, 0x81, 1, 0x81]);
            let mut counters = answer.clone();
            counters[1] = 4;
            vec![answer, counters]
        }
        "discovery" => vec![vec![1; 512]],
        "openflow" => openflow_messages(),
        "programs" => vec![
            b"2\teth0      :     3      V3\n\t\t\t\t0707EFEF     1 0:00000000\t\t0\n".to_vec(),
            b"239.128.0.0/10\n239.255.0.0/16".to_vec(),
        ],
        "openflow-table" => openflow_tables(),
        "heard-frame" => heard_frames(),
        _ => Vec::new(),
    }
}

fn frames() -> Vec<Body> {
    let (pn, joined) = (Pn(3), Revision(9));
    let hello = Hello { joined, reply: true, hears: false, round: 7, decided: 6 };
    let roster = RosterChange { whole: true, gone: vec![pn], here: vec![(Pn(4), joined)] };
    vec![
        Body::Hello(hello),
        Body::Roster(roster),
        Body::Round { round: 1, decided: 0 },
        Body::Query { number: 5 },
    ]
}
