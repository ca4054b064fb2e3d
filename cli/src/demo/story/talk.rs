//! Processes that send each other messages and run operations, while the hardware goes and comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use fabricast_client::{Client, Error, Group, Reduction, Settings};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use tokio::task::JoinSet;

use super::Story;
use crate::failure::Failure;

/// The group they form.
const GROUP: &str = "demo/processes";
/// How many they are.
const PROCESSES: usize = 6;
/// Messages of each in a round.
const MESSAGES: u32 = 40;
/// What has not come about after this time is given up.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The processes, and how many messages each has sent.
struct Talk {
    groups: Vec<Group>,
    sent: u32,
}

impl Story<'_> {
    /// Tells of the processes.
    pub(super) async fn talk(&mut self, socket: &Path) -> Result<(), Failure> {
        let mut talk = self.gather(socket).await?;
        let before = self.packets().await?;
        self.round(&mut talk, async { Ok(()) }).await?;
        let packets = self.packets().await? - before;
        let what = format!("hardware multicast carried them: {packets} packets at the switches");
        self.report.check(what, packets > 0, Vec::new())?;
        self.without_hardware(&mut talk).await?;
        self.combine(&talk).await?;
        drop(talk);
        let gone = self.until(async |story| Ok(story.process_group().await?.is_none())).await?;
        self.report.check("they end, and their group with them".to_owned(), gone, Vec::new())?;
        self.routed("all other groups are routed").await
    }

    /// They form their group while the switches that they are at are off, so that none of them is routed at first.
    async fn gather(&mut self, socket: &Path) -> Result<Talk, Failure> {
        let title = format!(
            "{PROCESSES} processes form a group and talk, while the switches that they are at are off"
        );
        self.report.step(&title)?;
        let all = Client::nodes_at(socket).await?;
        let nodes: Vec<String> =
            (0..PROCESSES).map(|number| all[number * all.len() / PROCESSES].clone()).collect();
        let switches = self.switches_of(&nodes);
        for switch in &switches {
            self.control.fail(switch.clone()).await?;
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
        let mut talk = Talk { groups, sent: 0 };
        self.round(&mut talk, async { Ok(()) }).await?;
        let open = self.open_members().await?;
        let what = format!("over the tree alone: {open} multicast connections are open");
        self.report.check(what, open == 0, Vec::new())?;
        self.report.step("the switches are turned on while they talk")?;
        let control = self.control.clone();
        self.round(&mut talk, async move {
            for switch in switches {
                control.heal(switch).await?;
            }
            Ok(())
        })
        .await?;
        let on = self.until(async |story| Ok(story.open_members().await? == PROCESSES)).await?;
        self.report.check("everybody's connection is open".to_owned(), on, Vec::new())?;
        self.routed("their group is routed").await?;
        Ok(talk)
    }

    /// The switches that nodes are plugged into.
    fn switches_of(&self, nodes: &[String]) -> Vec<v1::Element> {
        let graph = &self.topology.graph;
        let ours = graph.endpoints().filter(|endpoint| {
            let owner = self.control.owners.get(graph.endpoint_name(*endpoint));
            owner.is_some_and(|owner| nodes.contains(owner))
        });
        let switches: BTreeSet<_> = ours
            .filter_map(|endpoint| graph.attachment(endpoint))
            .map(|port| graph.switch_name(graph.switch_of(port)).to_owned())
            .collect();
        let element = |name| v1::Element { kind: Some(Kind::SwitchName(name)) };
        switches.into_iter().map(element).collect()
    }

    /// Everybody sends to everybody while something happens; then they meet and add up.
    async fn round(
        &mut self,
        talk: &mut Talk,
        meanwhile: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let first = talk.sent;
        talk.sent += MESSAGES;
        let mut talking = JoinSet::new();
        for group in talk.groups.clone() {
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

    async fn without_hardware(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        self.report.step("the hardware fails while they talk: every endpoint of theirs is dead")?;
        let members = self.process_group().await?.unwrap_or_default().members;
        let endpoints: Vec<v1::Element> = members
            .into_iter()
            .map(|member| v1::Element { kind: Some(Kind::Endpoint(member.endpoint)) })
            .collect();
        let control = self.control.clone();
        let dead = endpoints.clone();
        self.round(talk, async move {
            for endpoint in dead {
                control.fail(endpoint).await?;
            }
            Ok(())
        })
        .await?;
        let off = self.until(async |story| Ok(story.open_members().await? == 0)).await?;
        self.report.check("nobody's multicast connection is open".to_owned(), off, Vec::new())?;
        self.round(talk, async { Ok(()) }).await?;
        self.report.step("the hardware comes back while they talk")?;
        let control = self.control.clone();
        self.round(talk, async move {
            for endpoint in endpoints {
                control.heal(endpoint).await?;
            }
            Ok(())
        })
        .await?;
        let on = self.until(async |story| Ok(story.open_members().await? == PROCESSES)).await?;
        self.report.check("everybody's is open again".to_owned(), on, Vec::new())?;
        self.routed("routes are back").await?;
        let before = self.packets().await?;
        self.round(talk, async { Ok(()) }).await?;
        let packets = self.packets().await? - before;
        let what = format!("hardware multicast carries them again: {packets} packets");
        self.report.check(what, packets > 0, Vec::new())
    }

    /// The group gets a collective, and switches add up what its processes have.
    async fn combine(&mut self, talk: &Talk) -> Result<(), Failure> {
        self.report.step("the group gets a tree of switches that add up on the way")?;
        self.control.create_collective(GROUP).await?;
        let started = Instant::now();
        let (mut rounds, mut by_switches) = (0_u32, false);
        let mut right = true;
        while !by_switches && right && started.elapsed() < GIVE_UP {
            rounds += 1;
            let before: Vec<u64> = talk.groups.iter().map(Group::combined_by_switches).collect();
            right = sums_are_right(&talk.groups, rounds).await?;
            let after = talk.groups.iter().map(Group::combined_by_switches);
            by_switches = after.zip(&before).all(|(after, before)| after > *before);
        }
        let what = format!("{rounds} all-reduces, over the tree or by the switches, all right");
        self.report.check(what, right, Vec::new())?;
        let what = "the last one was combined by switches for every process".to_owned();
        self.report.check(what, by_switches, Vec::new())
    }

    async fn process_group(&self) -> Result<Option<v1::Group>, Failure> {
        let groups = self.control.groups().await?;
        Ok(groups.into_iter().find(|group| group.name == GROUP))
    }

    /// The processes whose multicast connection is open.
    async fn open_members(&self) -> Result<usize, Failure> {
        let memberships = self.control.memberships().await?;
        let ours = memberships.iter().filter(|one| one.group == GROUP && one.multicast_open);
        Ok(ours.count())
    }

    /// Packets that all ports of all switches have received.
    async fn packets(&self) -> Result<u64, Failure> {
        let counters = self.control.counters().await?;
        let ports = counters.iter().flat_map(|one| &one.ports);
        Ok(ports.map(|port| port.received_packets).sum())
    }

    /// Looks again and again; answers whether it has come about.
    async fn until(
        &self,
        look: impl AsyncFn(&Self) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let started = Instant::now();
        while started.elapsed() < GIVE_UP {
            if look(self).await? {
                return Ok(true);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(false)
    }
}

/// One process's part in a round; answers what was wrong.
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
            let number = next.entry(message.from).or_insert(first);
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

/// Everybody adds its rank to a number; answers whether everybody has the right sum.
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
