//! Measures messages and operations among the processes that `fabricast run` has started, and the same things done
//! with plain gRPC calls between the processes. `cargo xtask figures` runs this; rank 0 prints `figure` lines.
#![expect(clippy::print_stdout, reason = "what it measures is its output")]

use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fabricast_client::{Client, Group, Reduction, Settings};
use fabricast_proto::v1;
use fabricast_proto::v1::collective_values::Kind;
use fabricast_proto::v1::fabric_aggregation_service_client::FabricAggregationServiceClient;
use fabricast_proto::v1::fabric_aggregation_service_server::{
    FabricAggregationService, FabricAggregationServiceServer,
};
use tokio::net::UnixListener;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Messages that are on their way at once where throughput is measured.
const IN_FLIGHT: usize = 32;
/// Groups made to see what one costs.
const GROUPS: u32 = 50;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let client = Client::from_environment().await?;
    let group = client.join(&std::env::var(Settings::GROUP)?).await?;
    let size: u32 = std::env::var(Settings::SIZE)?.parse()?;
    let begun = Instant::now();
    group.wait_for(usize::try_from(size)?).await?;
    let all = All { client, group, size };
    all.say("all_take_part", begun.elapsed());
    all.measure_fabricast().await?;
    all.measure_grpc().await?;
    if size == 16 {
        all.measure_memory().await?;
    }
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

    /// How often something is done: all processes do it equally often.
    fn rounds(&self) -> u32 {
        (2_000 / self.size).clamp(8, 200)
    }

    /// Measures the mean of something that all do together.
    async fn time<F: Future<Output = Outcome<()>>>(
        &self,
        what: &str,
        work: impl Fn() -> F,
    ) -> Outcome<()> {
        self.group.barrier().await?;
        work().await?;
        let begun = Instant::now();
        for _ in 0..self.rounds() {
            work().await?;
        }
        self.say(what, begun.elapsed() / self.rounds());
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
        let service = FabricAggregationServiceServer::new(meeting);
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
        self.time("grpc/multicast_8_bytes", one).await
    }

    /// What the whole system, which is one process, keeps for a group of this size.
    async fn measure_memory(&self) -> Outcome<()> {
        let before = self.memory_of_the_system()?;
        let mut groups = Vec::new();
        for number in 0..GROUPS {
            let group = self.client.join(&format!("extra-{number}")).await?;
            group.take_part().await?;
            groups.push(group);
        }
        for group in &groups {
            group.wait_for(usize::try_from(self.size)?).await?;
            group.barrier().await?;
        }
        let grown = self.memory_of_the_system()?.saturating_sub(before) / u64::from(GROUPS);
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

async fn connect(folder: &Path, rank: u32) -> Outcome<FabricAggregationServiceClient<Channel>> {
    let address = format!("unix://{}", folder.join(format!("p2p-{rank}")).display());
    let channel = Endpoint::from_shared(address)?.connect().await?;
    Ok(FabricAggregationServiceClient::new(channel))
}

/// Calls another process and waits for its answer.
async fn contribute(
    mut to: FabricAggregationServiceClient<Channel>,
    numbers: usize,
) -> Outcome<()> {
    let values = v1::SignedValues { values: vec![1 << 40; numbers] };
    let values = Some(v1::CollectiveValues { kind: Some(Kind::SignedValues(values)) });
    to.contribute_values(v1::ContributeValuesRequest { values, ..Default::default() }).await?;
    Ok(())
}

/// Who waits for a sum.
type Waiting = Vec<oneshot::Sender<Vec<i64>>>;

/// Where calls meet: each is answered with the sum of all once so many have come.
struct Meeting {
    count: usize,
    here: Mutex<(Vec<i64>, Waiting)>,
}

impl Meeting {
    fn new(count: u32) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Self { count, here: Mutex::default() }
    }
}

#[tonic::async_trait]
impl FabricAggregationService for Meeting {
    type ReadFabricAggregationStream =
        tokio_stream::Pending<Result<v1::ReadFabricAggregationResponse, Status>>;

    async fn read_fabric_aggregation(
        &self,
        _: Request<v1::ReadFabricAggregationRequest>,
    ) -> Result<Response<Self::ReadFabricAggregationStream>, Status> {
        Err(Status::unimplemented("there is no fabric here"))
    }

    async fn write_fabric_aggregation(
        &self,
        _: Request<v1::WriteFabricAggregationRequest>,
    ) -> Result<Response<v1::WriteFabricAggregationResponse>, Status> {
        Err(Status::unimplemented("there is no fabric here"))
    }

    async fn contribute_values(
        &self,
        request: Request<v1::ContributeValuesRequest>,
    ) -> Result<Response<v1::ContributeValuesResponse>, Status> {
        let values = match request.into_inner().values.and_then(|values| values.kind) {
            Some(Kind::SignedValues(v1::SignedValues { values })) => values,
            _ => Vec::new(),
        };
        let (tell, told) = oneshot::channel();
        let mut here = self.here.lock().await;
        let (sums, waiting) = &mut *here;
        sums.resize(values.len(), 0);
        sums.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
        waiting.push(tell);
        if waiting.len() == self.count {
            let (sums, waiting) = std::mem::take(&mut *here);
            // Who has gone away needs no answer.
            waiting.into_iter().for_each(|tell| _ = tell.send(sums.clone()));
        }
        drop(here);
        let values = told.await.map_err(|_| Status::aborted("nobody has answered"))?;
        let values = Kind::SignedValues(v1::SignedValues { values });
        let values = Some(v1::CollectiveValues { kind: Some(values) });
        Ok(Response::new(v1::ContributeValuesResponse { values }))
    }
}
