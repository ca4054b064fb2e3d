//! Targets for settings, values, names, certificates and wire formats.

use fabricast_config::{
    ConfigErrors, FabricConfig, OperatingAgentConfig, Role, RouterConfig, SECTIONS, Sources,
    SwitchAgentConfig, TicConfig, load_text,
};
use fabricast_groups::{Pn, Revision};
use fabricast_infiniband::{
    Block, BlockPlace, CountersQuery, Discovery, NodeDescription, NodeInfo, PortInfo, SMP_BYTES,
    Smp, SwitchInfo, Traffic, dropped_packets,
};
use fabricast_messages::{Body, Hello, Packet, RosterChange};
use fabricast_rpc::{Identity, certificate_identities, identity_name};

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
        _ => Vec::new(),
    }
}

fn frames() -> Vec<Body> {
    let (pn, life) = (Pn(3), Revision(9));
    let hello = Hello { life, reply: true, hears: false, round: 7, decided: 6 };
    let roster = RosterChange { whole: true, gone: vec![pn], here: vec![(Pn(4), life)] };
    vec![
        Body::Hello(hello),
        Body::Roster(roster),
        Body::Round { round: 1, decided: 0 },
        Body::Query { number: 5 },
    ]
}
