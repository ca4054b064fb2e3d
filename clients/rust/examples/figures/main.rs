//! Measures messages and operations among the processes that `fabricast run` has started, and the
//! same things done with plain gRPC calls between the processes. `cargo xtask figures` runs this;
//! rank 0 prints `figure` lines.
#![expect(clippy::print_stdout, reason = "what it measures is its output")]

use std::collections::BTreeSet;
use std::error::Error;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fabricast_client::{Client, Group, Reduction, Settings};
use fabricast_proto::v1::fabric_aggregation_service_server::FabricAggregationServiceServer;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::grpc::{LONGEST, Meeting, connect, contribute};

mod grpc;
mod long;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Messages that are on their way at once where throughput is measured.
const IN_FLIGHT: usize = 32;
/// Memberships made to see what a group costs, and sizes for which that is looked at.
const MEMBERSHIPS: u32 = 400;
const WEIGHED: [u32; 3] = [4, 16, 64];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let client = Client::from_environment().await?;
    let group = client.join(&std::env::var(Settings::GROUP)?).await?;
    let size: u32 = std::env::var(Settings::SIZE)?.parse()?;
    let begun = Instant::now();
    group.wait_for(usize::try_from(size)?).await?;
    let all = All { client, group, size };
    all.say("all_take_part", begun.elapsed());
    // First of all: what is freed later is used again without the system hearing of it.
    if WEIGHED.contains(&size) {
        all.measure_memory().await?;
    }
    all.measure_fabricast().await?;
    all.measure_grpc().await?;
    all.measure_long().await?;
    Ok(all.group.barrier().await.map(|_| ())?)
}

/// One of the processes.
struct All {
    client: Client,
    group: Group,
    size: u32,
}

impl All {
    fn say(&self, what: &str, time: Duration) {
        let micros = time.as_secs_f64() * 1e6;
        self.say_number(what, &format!("{micros:.1} us"));
    }

    fn say_number(&self, what: &str, number: &str) {
        if self.group.rank() == 0 {
            println!("figure {what} {number}");
        }
    }

    /// Number of rounds, the same in all processes.
    fn rounds(&self) -> u32 {
        (2_000 / self.size).clamp(8, 200)
    }

    /// The same for what takes long.
    fn few_rounds(&self) -> u32 {
        (100 / self.size).clamp(3, 25)
    }

    /// Measures the mean of something that all do together.
    async fn time<F: Future<Output = Outcome<()>>>(
        &self,
        what: &str,
        work: impl Fn() -> F,
    ) -> Outcome<()> {
        self.time_rounds(what, self.rounds(), work).await
    }

    async fn time_rounds<F: Future<Output = Outcome<()>>>(
        &self,
        what: &str,
        rounds: u32,
        work: impl Fn() -> F,
    ) -> Outcome<()> {
        self.group.barrier().await?;
        work().await?;
        let begun = Instant::now();
        for _ in 0..rounds {
            work().await?;
        }
        self.say(what, begun.elapsed() / rounds);
        Ok(())
    }

    async fn measure_fabricast(&self) -> Outcome<()> {
        let group = &self.group;
        self.time("fabricast/barrier", || async { Ok(group.barrier().await.map(|_| ())?) }).await?;
        for (what, numbers) in [("8_bytes", 1), ("2_KiB", 256)] {
            let numbers = vec![1_i64 << 40; numbers];
            let what = format!("fabricast/all_reduce_{what}");
            let sum =
                || async { Ok(group.all_reduce(Reduction::Sum, &numbers).await.map(|_| ())?) };
            self.time(&what, sum).await?;
        }
        let one = || async {
            if group.rank() == 0 {
                group.multicast(&[7; 8]).await?;
            } else {
                group.receive().await?;
            }
            Ok(())
        };
        self.time("fabricast/multicast_8_bytes", one).await?;
        let members = group.members().await?;
        let nodes: BTreeSet<&str> = members.iter().map(|member| member.node.as_str()).collect();
        self.say_number("fabricast/nodes", &nodes.len().to_string());
        self.measure_throughput().await
    }

    /// Many messages of 2 KiB of one process, some at once, until all have all of them.
    async fn measure_throughput(&self) -> Outcome<()> {
        let count = (8_000 / usize::try_from(self.size)?).clamp(64, 1_000);
        self.group.barrier().await?;
        let begun = Instant::now();
        if self.group.rank() == 0 {
            let mut sends = JoinSet::new();
            for _ in 0..count {
                if sends.len() >= IN_FLIGHT {
                    sends.join_next().await.transpose()?.transpose()?;
                }
                let group = self.group.clone();
                sends.spawn(async move { group.multicast(&[7; 2048]).await });
            }
            while let Some(sent) = sends.join_next().await {
                sent??;
            }
        } else {
            for _ in 0..count {
                self.group.receive().await?;
            }
        }
        self.say("fabricast/throughput_2_KiB", begun.elapsed() / u32::try_from(count)?);
        Ok(())
    }

    async fn measure_grpc(&self) -> Outcome<()> {
        let folder = PathBuf::from(std::env::var_os(Settings::SOCKET).ok_or("no socket")?);
        let folder = folder.parent().ok_or("a socket is in a folder")?.to_owned();
        let rank = self.group.rank();
        let meeting = Meeting::new(if rank == 0 { self.size } else { 1 });
        let listener = UnixListener::bind(folder.join(format!("p2p-{rank}")))?;
        let service =
            FabricAggregationServiceServer::new(meeting).max_decoding_message_size(LONGEST);
        let incoming = UnixListenerStream::new(listener);
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        self.group.barrier().await?;
        let root = connect(&folder, 0).await?;
        for (what, numbers) in
            [("barrier", 0), ("all_reduce_8_bytes", 1), ("all_reduce_2_KiB", 256)]
        {
            let work = || async { contribute(root.clone(), numbers).await };
            self.time(&format!("grpc/{what}"), work).await?;
        }
        let mut others = Vec::new();
        for other in (1..self.size).filter(|_| rank == 0) {
            others.push(connect(&folder, other).await?);
        }
        let one = || async {
            for other in &others {
                contribute(other.clone(), 1).await?;
            }
            Ok(())
        };
        self.time("grpc/multicast_8_bytes", one).await?;
        let long = || async {
            for other in &others {
                contribute(other.clone(), (1 << 20) / size_of::<i64>()).await?;
            }
            Ok(())
        };
        self.time_rounds("grpc/multicast_1_MiB", self.few_rounds(), long).await
    }

    /// Measures the memory that the system, one process, needs for a group of this size.
    async fn measure_memory(&self) -> Outcome<()> {
        let before = self.memory_of_the_system()?;
        let mut groups = Vec::new();
        let count = MEMBERSHIPS / self.size;
        for number in 0..count {
            let group = self.client.join(&format!("extra-{number}")).await?;
            group.take_part().await?;
            groups.push(group);
        }
        for group in &groups {
            group.wait_for(usize::try_from(self.size)?).await?;
            group.barrier().await?;
        }
        let grown = self.memory_of_the_system()?.saturating_sub(before) / u64::from(count);
        self.say_number("fabricast/memory_of_a_group", &format!("{grown} KiB"));
        Ok(self.group.barrier().await.map(|_| ())?)
    }

    /// In KiB; the launcher is the parent, and the system runs in it.
    fn memory_of_the_system(&self) -> Outcome<u64> {
        let status = format!("/proc/{}/status", std::os::unix::process::parent_id());
        let status = std::fs::read_to_string(status)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.ok_or("no VmRSS in the status of the launcher")?.parse()?)
    }
}
