//! Packets that one node sends to another all the time, and a record of those that arrived.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::cluster::{Cluster, SOON};
use crate::load::{delete, join};

/// Group of sender and listener.
const GROUP: &str = "talk";
/// Numbers of the two nodes, which are under different leaf switches; tests do not break them.
const SENDER: usize = 3;
const LISTENER: usize = 4;
const PROCESS: &str = "talk";
/// Time between two packets.
const PACE: Duration = Duration::from_millis(20);
/// Number of packets in a row that show that traffic flows.
const ENOUGH: u64 = 5;

/// A running flow of packets. As in hardware, a lost packet is not sent again.
#[derive(Debug)]
pub struct Talk {
    stop: AtomicBool,
    sent: AtomicU64,
    heard: Mutex<BTreeSet<u64>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Talk {
    /// Forms the group and starts the flow.
    pub async fn start(cluster: &Cluster) -> Arc<Self> {
        let talk = Arc::new(Self {
            stop: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            heard: Mutex::default(),
            tasks: Mutex::default(),
        });
        for node in [SENDER, LISTENER] {
            join(&cluster.agent(node), GROUP, node, PROCESS).await;
        }
        let mut tasks = talk.tasks.lock().await;
        tasks.spawn(Arc::clone(&talk).listen(cluster.agent(LISTENER)));
        tasks.spawn(Arc::clone(&talk).speak(cluster.agent(SENDER)));
        drop(tasks);
        talk
    }

    /// Waits until packets that are sent from now on arrive; how long that took.
    pub async fn goes_on(&self) -> Duration {
        let (first, started) = (self.sent.load(Ordering::SeqCst), Instant::now());
        while self.heard.lock().await.range(first..).count()
            < usize::try_from(ENOUGH).expect("a few")
        {
            assert!(started.elapsed() < SOON, "packets do not arrive any more");
            tokio::time::sleep(PACE).await;
        }
        started.elapsed()
    }

    /// Ends the talk and deletes the group; how many packets were sent, and how many of them
    /// arrived.
    pub async fn ends(&self, cluster: &Cluster) -> (u64, usize) {
        self.stop.store(true, Ordering::SeqCst);
        // One of them failed if a packet came twice.
        let tasks = std::mem::take(&mut *self.tasks.lock().await);
        tasks.join_all().await;
        delete(&cluster.tic(), GROUP).await;
        (self.sent.load(Ordering::SeqCst), self.heard.lock().await.len())
    }

    async fn speak(self: Arc<Self>, mut agent: crate::cluster::Agent) {
        while !self.stop.load(Ordering::SeqCst) {
            let number = self.sent.fetch_add(1, Ordering::SeqCst);
            let request = v1::SendPacketRequest {
                node: format!("node-{SENDER}"),
                group: GROUP.to_owned(),
                process: PROCESS.to_owned(),
                payload: number.to_be_bytes().to_vec(),
            };
            // Refused while there is no fabric or no route: a packet that is lost.
            let _lost = agent.send_packet(request).await;
            tokio::time::sleep(PACE).await;
        }
    }

    async fn listen(self: Arc<Self>, mut agent: crate::cluster::Agent) {
        while !self.stop.load(Ordering::SeqCst) {
            let request = v1::ReceivePacketsRequest { node: format!("node-{LISTENER}") };
            let Ok(packets) = agent.receive_packets(request).await else {
                tokio::time::sleep(PACE).await;
                continue;
            };
            let mut packets = packets.into_inner();
            while !self.stop.load(Ordering::SeqCst) {
                let Ok(next) = tokio::time::timeout(PACE, packets.message()).await else {
                    continue;
                };
                let Ok(Some(some)) = next else { break };
                for packet in some.packets.into_iter().filter(|packet| packet.group == GROUP) {
                    let number = packet.payload.try_into().map(u64::from_be_bytes);
                    let number = number.expect("a packet of this group is one that was sent");
                    assert!(self.heard.lock().await.insert(number), "packet {number} came twice");
                }
            }
        }
    }
}
