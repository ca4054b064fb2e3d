//! Processes that send each other messages and run operations, while the hardware goes and comes
//! back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use fabricast_client::{Client, Error, Group, Reduction, Settings};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use tokio::task::JoinSet;

use super::DemoScenario;
use crate::failure::Failure;

/// Name of their group.
const GROUP: &str = "demo/processes";
/// Number of processes.
const PROCESSES: usize = 6;
/// Messages that each process sends in a round.
const MESSAGES: u32 = 40;
/// Timeout for each condition.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Interval between two checks of a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Processes of the group, and the number of messages each has sent.
struct MessagingProcesses {
    groups: Vec<Group>,
    sent: u32,
}

impl DemoScenario<'_> {
    /// Runs the steps with processes.
    pub(super) async fn messaging(&mut self, socket: &Path) -> Result<(), Failure> {
        let mut processes = self.gather(socket).await?;
        let before = self.packets().await?;
        self.round(&mut processes, async { Ok(()) }).await?;
        let packets = self.packets().await? - before;
        let what = format!("hardware multicast carried them: {packets} packets at the switches");
        self.report.check(what, packets > 0, Vec::new())?;
        self.without_hardware(&mut processes).await?;
        self.combine(&processes).await?;
        drop(processes);
        let gone =
            self.until(async |scenario| Ok(scenario.process_group().await?.is_none())).await?;
        self.report.check("they end, and their group with them".to_owned(), gone, Vec::new())?;
        self.routed("all other groups are routed").await
    }

    /// Forms the group while the switches of its nodes are off, so that it has no route at first.
    async fn gather(&mut self, socket: &Path) -> Result<MessagingProcesses, Failure> {
        let title = format!(
            "{PROCESSES} processes form a group and talk, while the switches that they are at are off"
        );
        self.report.step(&title)?;
        let all = Client::nodes_at(socket).await?;
        let nodes: Vec<String> =
            (0..PROCESSES).map(|number| all[number * all.len() / PROCESSES].clone()).collect();
        let switches = self.switches_of(&nodes);
        for switch in &switches {
            self.cluster.fail(switch.clone()).await?;
        }
        let mut groups = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let settings = Settings::at(socket).node(node).process(format!("talker-{number}"));
            let group = Client::attach(settings).await?.join(GROUP).await?;
            group.take_part().await?;
            groups.push(group);
        }
        for group in &groups {
            group.wait_for(PROCESSES).await?;
        }
        let mut processes = MessagingProcesses { groups, sent: 0 };
        self.round(&mut processes, async { Ok(()) }).await?;
        let open = self.open_members().await?;
        let what = format!("over the tree alone: {open} multicast connections are open");
        self.report.check(what, open == 0, Vec::new())?;
        self.report.step("the switches are turned on while they talk")?;
        let cluster = self.cluster.clone();
        self.round(&mut processes, async move {
            for switch in switches {
                cluster.heal(switch).await?;
            }
            Ok(())
        })
        .await?;
        let on =
            self.until(async |scenario| Ok(scenario.open_members().await? == PROCESSES)).await?;
        self.report.check("everybody's connection is open".to_owned(), on, Vec::new())?;
        self.routed("their group is routed").await?;
        Ok(processes)
    }

    /// Finds the switches that nodes are connected to.
    fn switches_of(&self, nodes: &[String]) -> Vec<v1::Element> {
        let graph = &self.topology.graph;
        let ours = graph.endpoints().filter(|endpoint| {
            let owner = self.cluster.owners.get(graph.endpoint_name(*endpoint));
            owner.is_some_and(|owner| nodes.contains(owner))
        });
        let switches: BTreeSet<_> = ours
            .filter_map(|endpoint| graph.attachment(endpoint))
            .map(|port| graph.switch_name(graph.switch_of(port)).to_owned())
            .collect();
        let element = |name| v1::Element { kind: Some(Kind::SwitchName(name)) };
        switches.into_iter().map(element).collect()
    }

    /// All processes send to all others while `meanwhile` runs; then a barrier and an all-reduce
    /// follow.
    async fn round(
        &mut self,
        processes: &mut MessagingProcesses,
        meanwhile: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let first = processes.sent;
        processes.sent += MESSAGES;
        let mut talking = JoinSet::new();
        for group in processes.groups.clone() {
            talking.spawn(tokio::time::timeout(GIVE_UP, speak(group, first)));
        }
        meanwhile.await?;
        let mut wrong = Vec::new();
        while let Some(ended) = talking.join_next().await {
            match ended? {
                Ok(Ok(complaints)) => wrong.extend(complaints),
                Ok(Err(error)) => wrong.push(error.to_string()),
                Err(_elapsed) => wrong.push("a process still waits".to_owned()),
            }
        }
        let what = format!(
            "each of {PROCESSES} got {MESSAGES} messages of each other, in order, each once; all met and added up",
        );
        self.report.check(what, wrong.is_empty(), wrong)
    }

    async fn without_hardware(
        &mut self,
        processes: &mut MessagingProcesses,
    ) -> Result<(), Failure> {
        self.report.step("the hardware fails while they talk: every endpoint of theirs is dead")?;
        let members = self.process_group().await?.unwrap_or_default().members;
        let endpoints: Vec<v1::Element> = members
            .into_iter()
            .map(|member| v1::Element { kind: Some(Kind::Endpoint(member.endpoint)) })
            .collect();
        let cluster = self.cluster.clone();
        let dead = endpoints.clone();
        self.round(processes, async move {
            for endpoint in dead {
                cluster.fail(endpoint).await?;
            }
            Ok(())
        })
        .await?;
        let off = self.until(async |scenario| Ok(scenario.open_members().await? == 0)).await?;
        self.report.check("nobody's multicast connection is open".to_owned(), off, Vec::new())?;
        self.round(processes, async { Ok(()) }).await?;
        self.report.step("the hardware comes back while they talk")?;
        let cluster = self.cluster.clone();
        self.round(processes, async move {
            for endpoint in endpoints {
                cluster.heal(endpoint).await?;
            }
            Ok(())
        })
        .await?;
        let on =
            self.until(async |scenario| Ok(scenario.open_members().await? == PROCESSES)).await?;
        self.report.check("everybody's is open again".to_owned(), on, Vec::new())?;
        self.routed("routes are back").await?;
        let before = self.packets().await?;
        self.round(processes, async { Ok(()) }).await?;
        let packets = self.packets().await? - before;
        let what = format!("hardware multicast carries them again: {packets} packets");
        self.report.check(what, packets > 0, Vec::new())
    }

    /// Creates a collective for the group, so that switches combine the values of its processes.
    async fn combine(&mut self, processes: &MessagingProcesses) -> Result<(), Failure> {
        self.report.step("the group gets a tree of switches that add up on the way")?;
        self.cluster.create_collective(GROUP).await?;
        let started = Instant::now();
        let (mut rounds, mut by_switches) = (0_u32, false);
        let mut right = true;
        while !by_switches && right && started.elapsed() < GIVE_UP {
            rounds += 1;
            let before: Vec<u64> =
                processes.groups.iter().map(Group::combined_by_switches).collect();
            right = sums_are_right(&processes.groups, rounds).await?;
            let after = processes.groups.iter().map(Group::combined_by_switches);
            by_switches = after.zip(&before).all(|(after, before)| after > *before);
        }
        let what = format!("{rounds} all-reduces, over the tree or by the switches, all right");
        self.report.check(what, right, Vec::new())?;
        let what = "the last one was combined by switches for every process".to_owned();
        self.report.check(what, by_switches, Vec::new())
    }

    async fn process_group(&self) -> Result<Option<v1::Group>, Failure> {
        let groups = self.cluster.groups().await?;
        Ok(groups.into_iter().find(|group| group.name == GROUP))
    }

    /// Counts the processes whose multicast connection is open.
    async fn open_members(&self) -> Result<usize, Failure> {
        let memberships = self.cluster.memberships().await?;
        let ours = memberships.iter().filter(|one| one.group == GROUP && one.multicast_open);
        Ok(ours.count())
    }

    /// Counts the packets that all ports of all switches have received.
    async fn packets(&self) -> Result<u64, Failure> {
        let counters = self.cluster.counters().await?;
        let ports = counters.iter().flat_map(|one| &one.ports);
        Ok(ports.map(|port| port.received_packets).sum())
    }

    /// Polls a condition; false if it does not hold in time.
    async fn until(
        &self,
        condition: impl AsyncFn(&Self) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let started = Instant::now();
        while started.elapsed() < GIVE_UP {
            if condition(self).await? {
                return Ok(true);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(false)
    }
}

/// One round of one process; returns what went wrong.
async fn speak(group: Group, first: u32) -> Result<Vec<String>, Error> {
    let me = group.rank();
    let sending = async {
        let mut unknown = Vec::new();
        for number in first..first + MESSAGES {
            unknown.extend(group.multicast(&number.to_be_bytes()).await?);
        }
        Ok::<_, Error>(unknown)
    };
    let receiving = async {
        let (mut next, mut wrong) = (BTreeMap::new(), Vec::new());
        for _ in 0..(PROCESSES - 1) * MESSAGES as usize {
            let message = group.receive().await?;
            let number = next.entry(message.sender).or_insert(first);
            if message.payload != number.to_be_bytes() {
                wrong.push(format!("{me} got {:?}, not {number}", message.payload));
            }
            *number += 1;
        }
        Ok(wrong)
    };
    let (unknown, mut wrong) = tokio::try_join!(sending, receiving)?;
    wrong.extend(unknown.iter().map(|other| format!("{me} was not heard by {other}")));
    let came = group.barrier().await?.len();
    if came != PROCESSES {
        wrong.push(format!("{me} met {came}"));
    }
    let sum = group.all_reduce(Reduction::Sum, &[u64::from(me), 1]).await?;
    if sum != [15, 6] {
        wrong.push(format!("{me} has the sums {sum:?}"));
    }
    Ok(wrong)
}

/// All processes add up a number plus their rank; true if all get the right sum.
async fn sums_are_right(groups: &[Group], number: u32) -> Result<bool, Failure> {
    let mut adding = JoinSet::new();
    for group in groups {
        let (group, mine) = (group.clone(), [number + group.rank()]);
        adding.spawn(async move { group.all_reduce(Reduction::Sum, &mine).await });
    }
    let want: u32 = groups.iter().map(|group| number + group.rank()).sum();
    let mut right = true;
    while let Some(sum) = adding.join_next().await {
        right &= sum?? == [want];
    }
    Ok(right)
}
