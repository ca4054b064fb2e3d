//! Members of groups for local processes: queried once, or watched.
//!
//! The group's agent knows them. However many processes of a node watch a group, its agent is
//! watched once, and a new agent as soon as the node knows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabricast_groups::ids::Gn;
use fabricast_groups::names::{GroupName, NodeName};
use fabricast_groups::operating::Membership;
use fabricast_proto::v1;
use fabricast_rpc::{Backoff, Reason, RpcError};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tonic::Code;
use tracing::debug;

use crate::runtime::Runtime;
use crate::runtime::channels::unavailable;

/// Delays before the agent of a group is asked or watched again.
const AGAIN: Backoff =
    Backoff { first: Duration::from_millis(10), most: Duration::from_millis(400) };
/// An agent that has gone is replaced well within this time.
const AGENT_TIMEOUT: Duration = Duration::from_secs(8);

/// All members of a group, by rank; `None` until the group's agent has answered.
pub(crate) type Members = Option<Arc<Vec<v1::Member>>>;

type Watches = BTreeMap<(NodeName, Gn), watch::Sender<Members>>;

/// Queries and watches groups; clones share the watches.
#[derive(Clone, Debug)]
pub(crate) struct GroupMembers {
    runtime: Runtime,
    watches: Arc<Mutex<Watches>>,
}

/// The failure of a query.
#[derive(Clone, Debug, Error)]
pub(crate) enum QueryError {
    #[error("group: '{group}' has no such member on node '{node}'")]
    NotAMember { group: GroupName, node: NodeName },
    #[error("the group's agent does not answer")]
    NoAnswer,
    #[error("{0}")]
    Refused(RpcError),
}

impl GroupMembers {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, watches: Arc::default() }
    }

    /// Asks a group's agent about the group, for a node that has a member in it.
    pub(crate) async fn query(
        &self,
        node: &NodeName,
        group: &GroupName,
    ) -> Result<v1::QueryGroupResponse, QueryError> {
        let is_of_group = |held: &&Membership| held.group == *group;
        let held =
            self.runtime.nodes.read(node, |agent| agent.memberships().find(is_of_group).cloned());
        let held = held.flatten().ok_or_else(|| {
            let (group, node) = (group.clone(), node.clone());
            QueryError::NotAMember { group, node }
        })?;
        let agents = self.runtime.channels.group_agents_at(held.agent_address.as_str());
        let mut agents = agents.map_err(|_| QueryError::NoAnswer)?;
        let query =
            v1::QueryGroupRequest { agent_node: held.agent.to_string(), gn: held.member.gn.0 };
        let answer = agents.query_group(query).await;
        answer.map(tonic::Response::into_inner).map_err(|status| QueryError::Refused(status.into()))
    }

    /// Asks a group's agent until there is an answer: the group may just get another agent.
    pub(crate) async fn query_until_answered(
        &self,
        node: &NodeName,
        group: &GroupName,
    ) -> Result<v1::QueryGroupResponse, QueryError> {
        let mut backoff = AGAIN;
        let asked = Instant::now();
        loop {
            let delay = match self.query(node, group).await {
                Err(QueryError::NoAnswer) => backoff.next_delay(),
                Err(QueryError::Refused(error)) if may_answer_later(&error) => {
                    backoff.delay_after_error(&error)
                }
                answer => return answer,
            };
            if asked.elapsed() > AGENT_TIMEOUT {
                return Err(QueryError::NoAnswer);
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Watches the members of a group for as long as anybody listens.
    pub(crate) fn watch(&self, node: &NodeName, gn: Gn) -> watch::Receiver<Members> {
        let key = (node.clone(), gn);
        let mut watches = self.watches.lock();
        if let Some(members) = watches.get(&key) {
            return members.subscribe();
        }
        let (members, receiver) = watch::channel(None);
        watches.insert(key.clone(), members.clone());
        drop(watches);
        let this = self.clone();
        self.runtime.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = this.watch_agents(&key.0, gn, &members) => {}
                    () = members.closed() => {}
                }
                let mut watches = this.watches.lock();
                // There may be a listener again.
                if members.receiver_count() == 0 {
                    watches.remove(&key);
                    return;
                }
            }
        });
        receiver
    }

    /// Watches one agent of the group after the other, forever.
    async fn watch_agents(&self, node: &NodeName, gn: Gn, members: &watch::Sender<Members>) {
        let mut backoff = AGAIN;
        loop {
            let is_of_group = |held: &&Membership| held.member.gn == gn;
            let nodes = &self.runtime.nodes;
            let held = nodes.read(node, |agent| agent.memberships().find(is_of_group).cloned());
            if let Some(held) = held.flatten()
                && let Err(error) = self.watch_agent(&held, members, &mut backoff).await
            {
                debug!(group = %held.group, error = %error.message(), "members not watched");
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    async fn watch_agent(
        &self,
        held: &Membership,
        members: &watch::Sender<Members>,
        backoff: &mut Backoff,
    ) -> Result<(), RpcError> {
        let agents = self.runtime.channels.group_agents_at(held.agent_address.as_str());
        let mut agents = agents.map_err(|error| unavailable(error.to_string()))?;
        let request = v1::WatchGroupMembersRequest {
            agent_node: held.agent.to_string(),
            gn: held.member.gn.0,
        };
        let mut changes = agents.watch_group_members(request).await?.into_inner();
        while let Some(message) = changes.next().await {
            *backoff = AGAIN;
            members.send_replace(Some(Arc::new(message?.members)));
        }
        Ok(())
    }
}

/// Tells if a group's agent that has refused may answer later, or another one in its place.
fn may_answer_later(error: &RpcError) -> bool {
    error.reason() == Some(Reason::NotHostedHere)
        || error.retry_after().is_some()
        || error.code() == Code::Unavailable
}
