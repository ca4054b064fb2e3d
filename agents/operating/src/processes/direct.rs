//! Processes that serve their members themselves: from a call of `OpenDirectPath` to its end.

use std::sync::Arc;

use fabricast_groups::names::NodeName;
use fabricast_messages::MemberId;
use fabricast_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::sessions::Session;
use crate::links::member_handle::MemberError;
use crate::nodes::Nodes;
use crate::nodes::direct::{DirectFrameError, Opened, Opening};

/// A member that its process serves, until this is dropped.
#[derive(Debug)]
pub(crate) struct DirectPath {
    nodes: Nodes,
    node: NodeName,
    opening: Opening,
    over: CancellationToken,
}

impl DirectPath {
    /// Leaves a member to its process; returns what the process is to be told, too.
    ///
    /// # Errors
    ///
    /// [`MemberError`] with `UNKNOWN_NODE`, `NOT_A_MEMBER`, or `SEAT_TAKEN` if the member has taken
    /// part before.
    pub(crate) fn open(
        nodes: &Nodes,
        node: &NodeName,
        member: MemberId,
    ) -> Result<(Self, mpsc::Receiver<v1::OpenDirectPathResponse>), MemberError> {
        let opened =
            nodes.messages(node, |messages, agent, now| messages.open_direct(now, agent, member));
        let opened = opened.ok_or_else(|| MemberError::UnknownNode { node: node.clone() })?;
        let Opened { opening, responses, over } = opened.map_err(MemberError::NotOpened)?;
        Ok((Self { nodes: nodes.clone(), node: node.clone(), opening, over }, responses))
    }

    /// Takes the process's requests until they, the session or the membership ends.
    ///
    /// # Errors
    ///
    /// [`DirectFrameError`] at the first frame that the process may not send.
    pub(crate) async fn serve(
        &self,
        session: Arc<Session>,
        requests: impl Stream<Item = v1::OpenDirectPathRequest> + Unpin,
    ) -> Result<(), DirectFrameError> {
        tokio::select! {
            served = self.take(requests) => served,
            () = session.over.cancelled() => Ok(()),
            () = self.over.cancelled() => Ok(()),
        }
    }

    async fn take(
        &self,
        mut requests: impl Stream<Item = v1::OpenDirectPathRequest> + Unpin,
    ) -> Result<(), DirectFrameError> {
        while let Some(request) = requests.next().await {
            let taken = self.nodes.messages(&self.node, |messages, agent, now| {
                if request.needs_links {
                    messages.need_links(now, agent, self.opening);
                }
                let mut frames = request.frames.into_iter();
                frames.try_for_each(|frame| messages.carry(now, agent, self.opening, frame))
            });
            taken.unwrap_or(Ok(()))?;
        }
        Ok(())
    }
}

impl Drop for DirectPath {
    fn drop(&mut self) {
        self.nodes.messages(&self.node, |messages, agent, now| {
            messages.close_direct(now, agent, self.opening);
        });
    }
}
