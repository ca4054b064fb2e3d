//! A discovered topology: the first report, growth, and replacement.

use fabricast_proto::v1;
use fabricast_rpc::{Limits, Security};
use fabricast_tic::{StoreLocation, TopologySource};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Faults, Graph, SwitchId, ibnetdiscover};
use tonic::{Code, Status};
use v1::topology_service_client::TopologyServiceClient;

use crate::harness::{Tic, join, reason, registration, setup};

pub(crate) fn leaves(count: u32) -> Graph {
    let text = format!("kind = 'leaf-spine'\nleaves = {count}\nspines = 2\nendpoints_per_leaf = 4");
    TopologySpec::parse(&text).unwrap().generate().unwrap()
}

/// Three leaf switches, and the same without the last one.
fn large_and_small() -> (Graph, Graph) {
    let large = leaves(3);
    let mut faults = Faults::new();
    faults.fail_switch(SwitchId(2));
    let small = large.without(&faults);
    (large, small)
}

pub(crate) async fn start(store: StoreLocation) -> Tic {
    let mut setup = setup(store);
    setup.topology = TopologySource::Discovered;
    Tic::start(setup).await
}

/// Repeats a call while the TIC changes its topology, as every client does.
pub(crate) async fn patiently<T>(
    mut call: impl AsyncFnMut() -> Result<T, Status>,
) -> Result<T, Status> {
    loop {
        match call().await {
            Err(status)
                if status.code() == Code::Unavailable && reason(&status) != "NO_TOPOLOGY" =>
            {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            ended => return ended,
        }
    }
}

impl Tic {
    pub(crate) async fn topologies(&self) -> TopologyServiceClient<tonic::transport::Channel> {
        TopologyServiceClient::connect(format!("http://{}", self.address)).await.unwrap()
    }

    pub(crate) async fn report(&self, text: &str) -> Result<v1::ReportTopologyResponse, Status> {
        let mut client = self.topologies().await;
        patiently(async || {
            // Chunks, one of which ends in the middle of a line.
            let pieces = text.as_bytes().chunks(1_000);
            let pieces = pieces.map(|piece| v1::ReportTopologyRequest {
                chunk: piece.to_vec(),
                reporter: "agent".to_owned(),
            });
            let pieces: Vec<_> = pieces.collect();
            Ok(client.report_topology(tokio_stream::iter(pieces)).await?.into_inner())
        })
        .await
    }

    pub(crate) async fn replace(
        &self,
        graph: &Graph,
    ) -> Result<v1::ReplaceTopologyResponse, Status> {
        let mut client = self.topologies().await;
        let chunk = ibnetdiscover::write(graph).into_bytes();
        patiently(async || {
            let piece = v1::ReplaceTopologyRequest { chunk: chunk.clone() };
            Ok(client.replace_topology(tokio_stream::once(piece)).await?.into_inner())
        })
        .await
    }

    async fn download(&self) -> Result<String, Status> {
        patiently(async || {
            let request = v1::DownloadTopologyRequest {};
            let mut stream = self.client.clone().download_topology(request).await?.into_inner();
            let mut bytes = Vec::new();
            while let Some(message) = stream.message().await? {
                bytes.extend(message.chunk);
            }
            Ok(String::from_utf8(bytes).unwrap())
        })
        .await
    }

    /// Registers node `n<number>` with endpoint `h<number>`.
    pub(crate) async fn announce(&self, number: u32) -> Result<v1::RegisterNodeResponse, Status> {
        patiently(async || {
            let mut client = self.client.clone();
            Ok(client.register_node(registration(number, "127.0.0.1:1", 1)).await?.into_inner())
        })
        .await
    }
}

#[tokio::test]
async fn the_topology_starts_with_the_first_report_and_grows_while_groups_stay() {
    let tic = start(StoreLocation::Memory).await;
    assert_eq!(reason(&tic.download().await.unwrap_err()), "NO_TOPOLOGY");
    let (large, small) = large_and_small();
    assert_eq!(reason(&tic.announce(0).await.unwrap_err()), "UNKNOWN_ENDPOINT");

    let answer = tic.report(&ibnetdiscover::write(&small)).await.unwrap();
    let summary = answer.topology.unwrap();
    assert!(answer.changed && (summary.switch_count, summary.endpoint_count) == (4, 8));
    assert_eq!(tic.download().await.unwrap(), ibnetdiscover::write(&small));
    tic.announce(0).await.unwrap();
    assert_eq!(reason(&tic.announce(8).await.unwrap_err()), "UNKNOWN_ENDPOINT");
    let joined = patiently(async || tic.client.clone().join_group(join("g", 0, "p")).await).await;
    let group = joined.unwrap().into_inner().group.unwrap();

    // The same report changes nothing; a larger one is merged.
    assert!(!tic.report(&ibnetdiscover::write(&small)).await.unwrap().changed);
    let answer = tic.report(&ibnetdiscover::write(&large)).await.unwrap();
    assert!(answer.changed && answer.topology.unwrap().endpoint_count == 12);
    tic.announce(8).await.unwrap();
    let known = patiently(async || {
        let request = v1::GetGroupRequest { gn: group.gn, ..Default::default() };
        tic.client.clone().get_group(request).await
    });
    let known = known.await.unwrap().into_inner().group.unwrap();
    assert_eq!((known.mgid, known.members.len()), (group.mgid, 1));

    // A smaller report removes nothing, because the missing parts may have failed.
    assert!(!tic.report(&ibnetdiscover::write(&small)).await.unwrap().changed);
    tic.stop().await;
}

#[tokio::test]
async fn watches_end_and_their_next_snapshot_is_of_the_new_topology() {
    let tic = start(StoreLocation::Memory).await;
    let (large, small) = large_and_small();
    let first = tic.report(&ibnetdiscover::write(&small)).await.unwrap().topology.unwrap();
    let snapshot = patiently(async || {
        let mut client = tic.client.clone();
        Ok(client.watch_directory(v1::WatchDirectoryRequest {}).await?.into_inner())
    });
    let mut watch = snapshot.await.unwrap();
    let message = watch.message().await.unwrap().unwrap();
    assert!(message.snapshot_end && message.topology_sha256 == first.sha256);
    let second = tic.report(&ibnetdiscover::write(&large)).await.unwrap().topology.unwrap();
    let ended = watch.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable);
    let snapshot = patiently(async || {
        let mut client = tic.client.clone();
        Ok(client.watch_directory(v1::WatchDirectoryRequest {}).await?.into_inner())
    });
    let message = snapshot.await.unwrap().message().await.unwrap().unwrap();
    assert_eq!(message.topology_sha256, second.sha256);
}

#[tokio::test]
async fn the_topology_is_replaced_as_a_whole_unless_a_node_would_lose_its_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let file = StoreLocation::File(folder.path().join("tic.redb"));
    let tic = start(file.clone()).await;
    // So large that it is stored in several pieces.
    assert!(ibnetdiscover::write(&leaves(250)).len() > 1 << 18);
    tic.replace(&leaves(250)).await.unwrap();
    assert_eq!(tic.download().await.unwrap(), ibnetdiscover::write(&leaves(250)));
    tic.announce(11).await.unwrap();

    let refused = tic.replace(&leaves(2)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(reason(&refused), "ENDPOINT_IN_USE");
    assert!(refused.message().contains("'h11'"), "{}", refused.message());
    assert_eq!(tic.download().await.unwrap(), ibnetdiscover::write(&leaves(250)));

    assert!(tic.replace(&leaves(3)).await.unwrap().changed);
    assert!(!tic.replace(&leaves(3)).await.unwrap().changed);
    tic.stop().await;
    let again = start(file).await;
    assert_eq!(again.download().await.unwrap(), ibnetdiscover::write(&leaves(3)));
    again.announce(11).await.unwrap();
    again.stop().await;
}

#[tokio::test]
async fn chunks_that_were_read_count_as_bytes_of_requests_of_their_client() {
    let mut setup = setup(StoreLocation::Memory);
    setup.topology = TopologySource::Discovered;
    let limits = Limits { client_request_bytes: 1 << 20, ..Limits::default() };
    setup.security = Security::plaintext().limited(limits);
    let tic = Tic::start(setup).await;
    let piece = v1::ReplaceTopologyRequest { chunk: vec![b'\n'; 100_000] };
    for (count, why) in [(5, "TOPOLOGY_INVALID"), (20, "TOO_MANY_REQUEST_BYTES")] {
        let pieces = tokio_stream::iter(vec![piece.clone(); count]);
        let refused = tic.topologies().await.replace_topology(pieces).await.unwrap_err();
        assert_eq!(reason(&refused), why, "{refused}");
    }
}

#[tokio::test]
async fn a_bad_text_and_a_topology_from_a_file_are_refused() {
    let tic = start(StoreLocation::Memory).await;
    for bad in
        ["\n", "no topology at all", "\u{0}", "Switch 5 \"S-1\" # \"\" lid 0\n[1] \"S-2\"[1]\n"]
    {
        let refused = tic.report(bad).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{bad}");
        assert_eq!(reason(&refused), "TOPOLOGY_INVALID", "{bad}");
    }
    // Without a message there is no reporter.
    assert_eq!(reason(&tic.report("").await.unwrap_err()), "NAME_INVALID");
    assert_eq!(reason(&tic.download().await.unwrap_err()), "NO_TOPOLOGY");
    let fixed = Tic::on_memory().await;
    let refused = fixed.report(&ibnetdiscover::write(&leaves(2))).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(reason(&refused), "TOPOLOGY_FIXED");
}
