//! Conditions that tests wait for.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind;
use fabricast_proto::v1::group_batch_service_client::GroupBatchServiceClient;
use fabricast_proto::v1::job_service_client::JobServiceClient;
use fabricast_proto::v1::topology_service_client::TopologyServiceClient;
use fabricast_rpc::LeaderChannel;
use fabricast_topology::{Graph, ibnetdiscover};

use crate::client::{Client, color_of, named};
use crate::wait::eventually;

impl Client {
    /// Client of the TIC for its topology.
    #[must_use]
    pub fn topologies(&self) -> TopologyServiceClient<LeaderChannel> {
        TopologyServiceClient::new(self.tic.channel())
    }

    /// Client of the TIC for many groups at once.
    #[must_use]
    pub fn batches(&self) -> GroupBatchServiceClient<LeaderChannel> {
        GroupBatchServiceClient::new(self.tic.channel())
    }

    /// Client of the TIC for jobs.
    #[must_use]
    pub fn jobs(&self) -> JobServiceClient<LeaderChannel> {
        JobServiceClient::new(self.tic.channel())
    }

    /// Waits until a group is on another spanning tree than its MGID says (`away`), or on that one.
    pub async fn moved(&self, group: &str, away: bool) {
        eventually(&format!("{group} moved, away: {away}"), async || {
            let plan = self.explain(group).await?;
            let is_away = plan.spanning_tree.ok_or("no tree")? != plan.home_spanning_tree;
            if is_away == away { Ok(()) } else { Err(plan.reason) }
        })
        .await;
    }

    /// Waits until so many nodes are up.
    pub async fn all_up(&self, count: usize) {
        eventually("all nodes are up", async || {
            let nodes = self.nodes().await.map_err(|status| named(&status))?;
            let up = nodes.iter().filter(|node| node.state() == v1::NodeState::Up).count();
            (up == count).then_some(()).ok_or_else(|| format!("{up} of {count}"))
        })
        .await;
    }

    /// Waits until the tables are those of the present records and all members know their route.
    pub async fn settled(&self) {
        eventually("everything is routed and known", async || self.is_settled().await).await;
    }

    /// The topology that the TIC works with.
    ///
    /// # Errors
    ///
    /// A text if the topology cannot be read.
    pub async fn topology(&self) -> Result<Graph, String> {
        let text = self.tic.download_topology().await.map_err(|status| named(&status))?;
        ibnetdiscover::read(&text).map_err(|error| error.to_string())
    }

    /// The failed parts of the fabric that the TIC knows of.
    ///
    /// # Errors
    ///
    /// A text if they cannot be read.
    pub async fn failed_elements(&self) -> Result<Vec<v1::Element>, String> {
        let answer = self.tic().watch_directory(v1::WatchDirectoryRequest {}).await;
        let mut watch = answer.map_err(|status| named(&status))?.into_inner();
        let mut failed = Vec::new();
        while let Some(message) = watch.message().await.map_err(|status| named(&status))? {
            for change in message.changes {
                if let Some(Kind::FailedElements(list)) = change.kind {
                    failed = list.elements;
                }
            }
            if message.snapshot_end {
                break;
            }
        }
        Ok(failed)
    }

    /// Checks that the tables are those of the present records and all members know their route.
    ///
    /// # Errors
    ///
    /// A text with what is missing.
    pub async fn is_settled(&self) -> Result<(), String> {
        let (groups, revision) = self.records().await.map_err(|status| named(&status))?;
        let behind = groups.iter().find(|group| {
            group.route.as_ref().is_none_or(|r| r.routed_revision < group.members_revision)
        });
        if let Some(group) = behind {
            return Err(format!("{} is not routed: {:?}", group.name, group.route));
        }
        let status = self.route_status().await?;
        if !status.settled || status.seen_revision < revision || !status.last_error.is_empty() {
            return Err(format!("the router has not finished revision {revision}: {status:?}"));
        }
        self.members_know(&groups).await
    }

    /// Checks that the operating agents know exactly the memberships and colors of the TIC.
    async fn members_know(&self, groups: &[v1::Group]) -> Result<(), String> {
        let mut wanted = BTreeMap::new();
        for group in groups {
            for member in &group.members {
                wanted.insert((group.gn, member.pn), (&member.node, sending_color(group, member)));
            }
        }
        let mut known = BTreeSet::new();
        for mut host in self.hosts() {
            let answer = host.list_memberships(v1::ListMembershipsRequest::default()).await;
            let answer = answer.map_err(|status| named(&status))?.into_inner();
            for held in answer.memberships {
                let key = (held.gn, held.pn);
                let route = held.position.as_ref().and_then(|position| position.route.as_ref());
                let color = color_of(route).filter(|_| held.multicast_open);
                if wanted.get(&key) != Some(&(&held.node, color)) {
                    return Err(format!("{} follows {key:?} with {color:?}", held.node));
                }
                known.insert(key);
            }
        }
        if known.len() == wanted.len() {
            Ok(())
        } else {
            Err(format!("{} of {} members know their place", known.len(), wanted.len()))
        }
    }
}

/// Color that a member sends with, if it has a route.
fn sending_color(group: &v1::Group, member: &v1::Member) -> Option<u32> {
    let cut_off = |route: &&v1::Route| route.cut_off_endpoints.contains(&member.endpoint);
    color_of(group.route.as_ref().filter(|route| !cut_off(route)))
}
