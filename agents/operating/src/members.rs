//! What local processes want to know of their groups: who is in it, now and from now on.
//!
//! The group's agent knows. However many processes of a node watch a group, its agent is followed once,
//! and a new agent as soon as the node knows it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fabricast_groups::ids::Gn;
use fabricast_groups::names::{GroupName, NodeName};
use fabricast_groups::operating::Membership;
use fabricast_proto::v1;
use fabricast_rpc::{Backoff, Reason, reason_of, retry_after};
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tonic::{Code, Status};
use tracing::debug;

use crate::host::{Host, lock};
use crate::service::not_a_member;

/// Delays before the agent of a group is followed again.
const AGAIN: Backoff =
    Backoff { first: Duration::from_millis(10), most: Duration::from_millis(400) };

/// An agent that has gone is replaced well within this time.
const PATIENCE: Duration = Duration::from_secs(8);

/// All members of a group, by rank; `None` until the group's agent has answered.
pub(crate) type Members = Option<Arc<Vec<v1::Member>>>;

/// The groups that are followed, by the node whose processes watch them.
#[derive(Debug, Default)]
pub(crate) struct Followed(Mutex<BTreeMap<(NodeName, Gn), watch::Sender<Members>>>);

impl Host {
    /// Asks a group's agent about the group, for a node that has a member in it.
    pub(crate) async fn query(
        &self,
        node: &NodeName,
        group: &GroupName,
    ) -> Result<v1::QueryGroupResponse, Status> {
        let of_group = |held: &&Membership| held.group == *group;
        let held = self.look(node, |agent| agent.memberships().find(of_group).cloned());
        let held = held.flatten().ok_or_else(|| not_a_member(group, node))?;
        let peer = self.peer(held.agent_address.as_str()).map_err(|_| {
            Reason::PeerUnavailable.status("the group's agent does not answer", &[])
        })?;
        let query =
            v1::QueryGroupRequest { agent_node: held.agent.to_string(), gn: held.member.gn.0 };
        Ok(self.agents_at(&peer).query_group(query).await?.into_inner())
    }

    /// Asks a group's agent about the group until there is an answer; the agent may be just moving.
    pub(crate) async fn query_until_answered(
        &self,
        node: &NodeName,
        group: &GroupName,
    ) -> Result<v1::QueryGroupResponse, Status> {
        let mut backoff = AGAIN;
        let asked = Instant::now();
        loop {
            let status = match self.query(node, group).await {
                Ok(answer) => return Ok(answer),
                Err(status) => status,
            };
            let moving = reason_of(&status).as_deref() == Some(Reason::NotHostedHere.text());
            let busy = retry_after(&status).is_some();
            if !moving && !busy && status.code() != Code::Unavailable {
                return Err(status);
            }
            if asked.elapsed() > PATIENCE {
                let text = "the group's agent does not answer";
                return Err(Reason::PeerUnavailable.status(text, &[]));
            }
            tokio::time::sleep(backoff.delay_after(&status)).await;
        }
    }

    /// Follows the members of a group for as long as somebody listens.
    pub(crate) fn follow(&self, node: &NodeName, gn: Gn) -> watch::Receiver<Members> {
        let key = (node.clone(), gn);
        let mut followed = lock(&self.0.followed.0);
        if let Some(tell) = followed.get(&key) {
            return tell.subscribe();
        }
        let (tell, told) = watch::channel(None);
        followed.insert(key.clone(), tell.clone());
        drop(followed);
        self.spawn(|host| async move {
            loop {
                tokio::select! {
                    () = host.follow_agents(&key, &tell) => {}
                    () = tell.closed() => {}
                }
                let mut followed = lock(&host.0.followed.0);
                // Somebody may have come since.
                if tell.receiver_count() == 0 {
                    followed.remove(&key);
                    return;
                }
            }
        });
        told
    }

    /// Follows one agent of the group after the other.
    async fn follow_agents(&self, (node, gn): &(NodeName, Gn), tell: &watch::Sender<Members>) {
        let mut backoff = AGAIN;
        loop {
            let of_group = |held: &&Membership| held.member.gn == *gn;
            let held = self.look(node, |agent| agent.memberships().find(of_group).cloned());
            if let Some(held) = held.flatten() {
                let ended = self.follow_agent(&held, tell, &mut backoff).await;
                if let Err(status) = ended {
                    debug!(group = %held.group, error = %status.message(), "members not followed");
                }
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    async fn follow_agent(
        &self,
        held: &Membership,
        tell: &watch::Sender<Members>,
        backoff: &mut Backoff,
    ) -> Result<(), Status> {
        let peer = self.peer(held.agent_address.as_str());
        let peer = peer.map_err(|error| Status::unavailable(error.to_string()))?;
        let request = v1::WatchGroupMembersRequest {
            agent_node: held.agent.to_string(),
            gn: held.member.gn.0,
        };
        let mut news = self.agents_at(&peer).watch_group_members(request).await?.into_inner();
        while let Some(message) = news.next().await {
            *backoff = AGAIN;
            tell.send_replace(Some(Arc::new(message?.members)));
        }
        Ok(())
    }
}
