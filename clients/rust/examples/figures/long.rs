//! Long messages and operations, through the socket and through memory shared with the agent.

use std::future::Future;
use std::time::{Duration, Instant};

use fabricast_client::{Client, Group, Reduction, Settings};

use crate::{All, Outcome};

/// Lengths of messages, in bytes, and their names.
const LENGTHS: [(usize, &str); 6] = [
    (4 << 10, "4_KiB"),
    (16 << 10, "16_KiB"),
    (32 << 10, "32_KiB"),
    (64 << 10, "64_KiB"),
    (256 << 10, "256_KiB"),
    (1 << 20, "1_MiB"),
];
/// Numbers of processes that are measured in both ways: with more of them it is what happens
/// between them that counts.
const SIZES: [u32; 3] = [2, 4, 16];
/// The ways, and the bytes from which on payloads go through shared memory.
const WAYS: [(&str, usize); 2] = [("socket", usize::MAX), ("memory", 1)];

impl All {
    /// One MiB as everybody gets it, and all lengths in both ways.
    pub(crate) async fn measure_long(&self) -> Outcome<()> {
        let (group, rounds) = (&self.group, self.few_rounds());
        let long = || async { self.pass_on(group, &vec![7; 1 << 20]).await };
        self.time_rounds("fabricast/multicast_1_MiB", rounds, long).await?;
        let numbers = vec![1_i64 << 40; (1 << 20) / size_of::<i64>()];
        let sum = || async { Ok(group.all_reduce(Reduction::Sum, &numbers).await.map(|_| ())?) };
        self.time_rounds("fabricast/all_reduce_1_MiB", rounds, sum).await?;
        if self.size == 2 && group.rank() == 0 {
            self.measure_alone().await?;
        }
        if SIZES.contains(&self.size) {
            self.measure_ways().await?;
        }
        Ok(())
    }

    /// Measures the path between a process and its agent alone, with a group of one member.
    async fn measure_alone(&self) -> Outcome<()> {
        let mut groups = Vec::new();
        for (way, share_from) in WAYS {
            let client = self.attach(&format!("alone-{way}"), share_from).await?;
            groups.push(client.join(&format!("alone-{way}")).await?);
        }
        let there_and_back = |group: Group, payload: Vec<u8>| async move {
            Ok(group.broadcast(0, &payload).await.map(|_| ())?)
        };
        self.compare("there_and_back", &groups, there_and_back).await
    }

    /// Messages of the first process to all others, each until all have it.
    async fn measure_ways(&self) -> Outcome<()> {
        let mut groups = Vec::new();
        for (way, share_from) in WAYS {
            groups.push(self.second(way, share_from).await?);
        }
        let message =
            |group: Group, payload: Vec<u8>| async move { self.pass_on(&group, &payload).await };
        self.compare("multicast", &groups, message).await
    }

    /// Does the same in both ways in turns, so that whatever else the machine does hits both; says
    /// the medians.
    async fn compare<F: Future<Output = Outcome<()>>>(
        &self,
        what: &str,
        groups: &[Group],
        work: impl Fn(Group, Vec<u8>) -> F,
    ) -> Outcome<()> {
        for (length, name) in LENGTHS {
            let mut times = [Vec::new(), Vec::new()];
            for round in 0..=2 * self.few_rounds() {
                for (times, group) in times.iter_mut().zip(groups) {
                    let (group, payload) = (group.clone(), vec![7; length]);
                    let begun = Instant::now();
                    work(group, payload).await?;
                    // The first one finds nothing prepared.
                    times.extend((round > 0).then(|| begun.elapsed()));
                }
            }
            for ((way, _), times) in WAYS.iter().zip(times) {
                self.say(&format!("{way}/{what}_{name}"), median(times));
            }
        }
        Ok(())
    }

    /// The same process as a member of another group, through another client. The first process has
    /// rank 0 there, too.
    async fn second(&self, way: &str, share_from: usize) -> Outcome<Group> {
        let client = self.attach(way, share_from).await?;
        let name = format!("{}-{way}", self.group.name());
        if self.group.rank() != 0 {
            self.group.barrier().await?;
        }
        let group = client.join(&name).await?;
        if self.group.rank() == 0 {
            self.group.barrier().await?;
        }
        group.wait_for(usize::try_from(self.size)?).await?;
        Ok(group)
    }

    async fn attach(&self, way: &str, share_from: usize) -> Outcome<Client> {
        let process = format!("{}-{way}", self.client.process());
        let settings = Settings::from_environment()?.process(process).share_from(share_from);
        Ok(Client::attach(settings).await?)
    }

    /// A message of the first process.
    async fn pass_on(&self, group: &Group, payload: &[u8]) -> Outcome<()> {
        if self.group.rank() == 0 {
            group.multicast(payload).await?;
        } else {
            group.receive().await?;
        }
        Ok(())
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
