//! Checks of a healed cluster, made by calls as any client makes them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::group_agent_service_client::GroupAgentServiceClient;
use fabricast_proto::v1::route_service_client::RouteServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Leader, Peer};
use tokio::time::{Instant, sleep};
use tonic::Status;

use crate::packets;
use crate::parts::{AGENTS, Host, ROUTERS, nodes_of, security, tic_addresses};
use crate::programs::{Answer, History, agent};
use crate::scenario::Scenario;

/// Time in which all parts agree again, once everything is healed.
const AGREEMENT: Duration = Duration::from_secs(40);
/// Time in which a dead node is expelled: two detections, of the group agent and of the TIC, and
/// what a call over a dead connection takes.
const EXPULSION: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(500);

/// Clients of the services.
#[derive(Debug)]
pub(crate) struct Checker {
    tic: Leader,
    routers: Vec<Peer>,
}

/// A membership: group number, PN, node, process.
type Place = (u64, u32, String, String);

impl Checker {
    pub(crate) fn new() -> Self {
        let tic = security().leader(&tic_addresses()).expect("addresses");
        let router = |index| security().peer(&Host::Router(index).address()).expect("an address");
        Self { tic, routers: (0..ROUTERS).map(router).collect() }
    }

    /// The nodes by name.
    pub(crate) async fn nodes(&self) -> Result<BTreeMap<String, v1::Node>, String> {
        let request = v1::ListNodesRequest { page_size: 1_000, ..Default::default() };
        let mut tic = TicServiceClient::new(self.tic.channel());
        let nodes = tic.list_nodes(request).await.map_err(text)?.into_inner().nodes;
        Ok(nodes.into_iter().map(|node| (node.name.clone(), node)).collect())
    }

    async fn groups(&self) -> Result<Vec<v1::Group>, String> {
        let request =
            v1::ListGroupsRequest { page_size: 1_000, with_members: true, ..Default::default() };
        let mut tic = TicServiceClient::new(self.tic.channel());
        Ok(tic.list_groups(request).await.map_err(text)?.into_inner().groups)
    }

    /// Waits until all nodes are up.
    pub(crate) async fn started(&self) -> Result<BTreeMap<String, v1::Node>, String> {
        eventually(AGREEMENT, async || {
            let nodes = self.nodes().await?;
            let up = nodes.values().filter(|node| node.state() == v1::NodeState::Up).count();
            let all = (0..AGENTS).flat_map(nodes_of).count();
            if up == all { Ok(nodes) } else { Err(format!("{up} of {all} nodes are up")) }
        })
        .await
    }

    /// Waits until all parts agree, every acknowledged change is there, and packets reach all
    /// members.
    ///
    /// - `nodes`: as they were before the faults.
    pub(crate) async fn agreed(
        &self,
        nodes: &BTreeMap<String, v1::Node>,
        scenario: &Scenario,
        history: &History,
    ) -> Result<(), String> {
        eventually(AGREEMENT, async || {
            self.agents_agree(&BTreeSet::new()).await?;
            let now = self.nodes().await?;
            keeps_unhurt_nodes(nodes, &now, scenario)?;
            self.keeps_acknowledged(nodes, &now, history).await?;
            self.packets_arrive(&BTreeSet::new()).await
        })
        .await
    }

    /// Waits until the nodes of a dead process are expelled, and packets reach all others.
    pub(crate) async fn expelled(&self, dead: usize) -> Result<(), String> {
        let dead: BTreeSet<String> = nodes_of(dead).collect();
        eventually(EXPULSION, async || {
            let nodes = self.nodes().await?;
            let still = dead.iter().find(|name| nodes[*name].state() != v1::NodeState::Failed);
            if let Some(name) = still {
                return Err(format!("{name} is dead and {:?}", nodes[name].state()));
            }
            self.agents_agree(&dead).await?;
            self.packets_arrive(&dead).await
        })
        .await
    }

    /// The TIC, the operating agents and the group agents have the same memberships.
    async fn agents_agree(&self, dead: &BTreeSet<String>) -> Result<(), String> {
        let groups = self.groups().await?;
        let mut recorded = BTreeSet::<Place>::new();
        for group in &groups {
            let places = places(group.gn, &group.members);
            let ranks: BTreeSet<u32> = group.members.iter().map(|member| member.pn).collect();
            if ranks.len() != group.members.len() {
                return Err(format!("{}: a rank is given twice: {places:?}", group.name));
            }
            recorded.extend(places);
        }
        let mut hosted = BTreeSet::<Place>::new();
        for index in 0..AGENTS {
            if nodes_of(index).any(|node| dead.contains(&node)) {
                continue;
            }
            let request = v1::ListMembershipsRequest::default();
            let answer = agent(index).list_memberships(request).await.map_err(text)?.into_inner();
            hosted.extend(
                answer.memberships.into_iter().map(|one| (one.gn, one.pn, one.node, one.process)),
            );
        }
        same("operating agents", &recorded, &hosted)?;
        for group in groups {
            let known = group_agent_view(&group).await?;
            same(&format!("agent of {}", group.name), &places(group.gn, &group.members), &known)?;
        }
        Ok(())
    }

    /// Acknowledged joins are there and acknowledged leaves are not, at nodes that were never
    /// expelled and never began anew.
    async fn keeps_acknowledged(
        &self,
        before: &BTreeMap<String, v1::Node>,
        now: &BTreeMap<String, v1::Node>,
        history: &History,
    ) -> Result<(), String> {
        let mut present = BTreeSet::new();
        for group in self.groups().await? {
            for member in group.members {
                present.insert((member.node, group.name.clone(), member.process));
            }
        }
        for (key, answer) in history.answers() {
            if before[&key.0].incarnation != now[&key.0].incarnation {
                continue;
            }
            match (answer, present.contains(&key)) {
                (Answer::Joined, false) => return Err(format!("{key:?} joined and is no member")),
                (Answer::Left, true) => return Err(format!("{key:?} left and is a member")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Status of the active route service; standbys answer, too.
    async fn route_status(&self) -> Result<v1::GetRouteStatusResponse, String> {
        let mut last = "nobody asked".to_owned();
        for router in &self.routers {
            let mut router = RouteServiceClient::new(router.channel());
            match router.get_route_status(v1::GetRouteStatusRequest {}).await {
                Ok(status) if status.get_ref().active => return Ok(status.into_inner()),
                Ok(_) => {}
                Err(status) => last = text(status),
            }
        }
        Err(format!("no route service is active: {last}"))
    }

    /// Every group that is routed reaches its members, and each packet arrives once.
    async fn packets_arrive(&self, dead: &BTreeSet<String>) -> Result<(), String> {
        let status = self.route_status().await?;
        if !status.settled {
            return Err(format!("the routes are not settled: {status:?}"));
        }
        packets::arrive(&self.groups().await?, dead).await
    }
}

/// A node that no fault kept from the TICs has never been expelled, and never begins anew.
fn keeps_unhurt_nodes(
    before: &BTreeMap<String, v1::Node>,
    now: &BTreeMap<String, v1::Node>,
    scenario: &Scenario,
) -> Result<(), String> {
    for index in (0..AGENTS).filter(|index| !scenario.hurts(Host::Agent(*index))) {
        for name in nodes_of(index) {
            let [first, last] = [before, now].map(|nodes| nodes[&name].incarnation);
            if first != last {
                return Err(format!("{name} was expelled though every TIC could reach it"));
            }
        }
    }
    Ok(())
}

fn places(gn: u64, members: &[v1::Member]) -> BTreeSet<Place> {
    let place = |member: &v1::Member| (gn, member.pn, member.node.clone(), member.process.clone());
    members.iter().map(place).collect()
}

async fn group_agent_view(group: &v1::Group) -> Result<BTreeSet<Place>, String> {
    let peer = security().peer(&group.agent_address).map_err(|error| error.to_string())?;
    let mut agent = GroupAgentServiceClient::new(peer.channel());
    let agent_node = group.agent_node.clone();
    let request = v1::QueryGroupRequest { agent_node, gn: group.gn };
    let answer = agent.query_group(request).await.map_err(text)?.into_inner();
    let known = answer.group.ok_or_else(|| format!("no record of {}", group.name))?;
    Ok(places(group.gn, &known.members))
}

fn same(who: &str, recorded: &BTreeSet<Place>, known: &BTreeSet<Place>) -> Result<(), String> {
    let missing: Vec<_> = recorded.difference(known).take(3).collect();
    let more: Vec<_> = known.difference(recorded).take(3).collect();
    match missing.is_empty() && more.is_empty() {
        true => Ok(()),
        false => Err(format!("{who}: recorded but not there {missing:?}, the reverse {more:?}")),
    }
}

pub(crate) fn text(status: Status) -> String {
    format!("{:?} {}", status.code(), status.message())
}

/// Tries until the check succeeds or the time is over.
async fn eventually<T>(
    time: Duration,
    check: impl AsyncFn() -> Result<T, String>,
) -> Result<T, String> {
    let until = Instant::now() + time;
    loop {
        match check().await {
            Ok(done) => return Ok(done),
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => sleep(PAUSE).await,
        }
    }
}
