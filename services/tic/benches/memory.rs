//! Measures the memory that memberships need: the growth of a TIC's process by the second and third
//! hundred thousand of them. The first hundred thousand also allocate what exists only once; the
//! cache of the embedded store is included.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::sync::Arc;

use fabricast_config::{RawTicConfig, checked};
use fabricast_proto::v1;
use fabricast_proto::v1::group_batch_service_client::GroupBatchServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::Peer;
use fabricast_tic::{App, Setup, TopologySource};
use fabricast_topology::spec::TopologySpec;
use tokio_util::sync::CancellationToken;

const NODES: u32 = 1_024;
const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 32\nspines = 16\nendpoints_per_leaf = 32\n";
/// Groups in a hundred thousand memberships, and members of each.
const GROUPS: u32 = 1_000;
const MEMBERS: u32 = 100;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let graph = TopologySpec::parse(FABRIC).expect("a spec").generate().expect("a fabric");
        let config = checked(RawTicConfig {
            listen: "127.0.0.1:0".parse().expect("an address"),
            store: Some(folder.path().join("tic.redb").display().to_string()),
            topology: Some("made here".into()),
            report_timeout: std::time::Duration::from_secs(3_600),
            ..RawTicConfig::default()
        })
        .expect("the settings are good");
        let setup = Setup::new(config, TopologySource::File("none\n".into(), Arc::new(graph)));
        let app = App::bind(setup).await.expect("the TIC starts");
        let peer = Peer::new(&app.address().to_string()).expect("an address");
        tokio::spawn(app.run(CancellationToken::new()));
        register(&peer).await;
        form(&peer, 0).await;
        let before = resident_bytes();
        form(&peer, 1).await;
        form(&peer, 2).await;
        let grown = resident_bytes().saturating_sub(before) / 2;
        println!("figure memory/tic/per_100_000_memberships {} KiB", grown / 1024);
    });
}

async fn register(peer: &Peer) {
    for number in 0..NODES {
        let node = v1::Node {
            name: format!("n{number}"),
            address: "127.0.0.1:1".to_owned(),
            endpoints: vec![format!("h{number}")],
            ..Default::default()
        };
        let node = Some(node);
        let request = v1::RegisterNodeRequest { node, start_id: 1, ..Default::default() };
        TicServiceClient::new(peer.channel()).register_node(request).await.expect("it is taken");
    }
}

/// Forms another hundred thousand memberships.
async fn form(peer: &Peer, round: u32) {
    let member = |number: u32| v1::FormedMember {
        endpoint: format!("h{}", number % NODES),
        process: format!("p{}", number / NODES),
        ..Default::default()
    };
    let group = move |group: u32| v1::FormedGroupSpec {
        group: format!("g{round}/{group}"),
        members: (0..MEMBERS).map(|number| member(group * 7 + number)).collect(),
        ..Default::default()
    };
    let message = move |first: u32| v1::FormGroupsRequest {
        request_id: format!("r{round}"),
        groups: (first..first + 40).map(group).collect(),
        ..Default::default()
    };
    let messages = (0..GROUPS / 40).map(move |part| message(part * 40));
    let mut client = GroupBatchServiceClient::new(peer.channel());
    let formed = client.form_groups(tokio_stream::iter(messages)).await.expect("it is taken");
    let (mut formed, mut members) = (formed.into_inner(), 0);
    while let Some(answer) = formed.message().await.expect("it is formed") {
        members += answer.groups.iter().map(|group| group.pns.len()).sum::<usize>();
    }
    assert_eq!(members, 100_000);
}

/// Resident memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    let number = line.trim().trim_end_matches(" kB").parse::<u64>();
    number.expect("a number of KiB") * 1024
}
