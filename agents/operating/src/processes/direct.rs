//! Processes that serve their members themselves: from a call of `OpenDirectPath` to its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::names::NodeName;
use fabricast_messages::MemberId;
use fabricast_proto::v1;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::sessions::Session;
use crate::links::member_handle::MemberError;
use crate::nodes::Nodes;
use crate::nodes::direct::{
    DirectFrameError, MAX_WAITING, Opened, Opening, OutgoingFrame, Waiting,
};

/// Frames that are handed on without others having a turn.
const FRAMES_AT_ONCE: usize = 64;
/// Time until a frame is tried again for which there was no room.
const PAUSE: Duration = Duration::from_millis(10);

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
    ) -> Result<(Self, mpsc::Receiver<Waiting<v1::OpenDirectPathResponse>>), MemberError> {
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
        let room = Arc::new(Semaphore::new(MAX_WAITING));
        while let Some(request) = requests.next().await {
            if request.needs_links {
                self.nodes.messages(&self.node, |messages, agent, now| {
                    messages.need_links(now, agent, self.opening);
                });
            }
            let mut frames = VecDeque::new();
            for frame in request.frames {
                let bytes = OutgoingFrame::cost(&frame).min(MAX_WAITING);
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                let permit = match Arc::clone(&room).try_acquire_many_owned(bytes) {
                    Ok(permit) => permit,
                    Err(_) => {
                        self.carry(&mut frames).await?;
                        let Ok(permit) = Arc::clone(&room).acquire_many_owned(bytes).await else {
                            return Ok(());
                        };
                        permit
                    }
                };
                frames.push_back(OutgoingFrame::decode(frame, permit)?);
            }
            self.carry(&mut frames).await?;
            if request.mark != 0 {
                self.nodes.messages(&self.node, |messages, _, _| {
                    messages.tell_mark(self.opening, request.mark);
                });
            }
        }
        Ok(())
    }

    /// Hands frames on, some at a time; waits while there is no room for them.
    async fn carry(&self, frames: &mut VecDeque<OutgoingFrame>) -> Result<(), DirectFrameError> {
        while !frames.is_empty() {
            let carried = self.nodes.messages(&self.node, |messages, agent, now| {
                for count in 0..FRAMES_AT_ONCE {
                    let Some(frame) = frames.front() else { break };
                    if !messages.has_room(agent, frame) {
                        return Ok(count > 0);
                    }
                    let Some(frame) = frames.pop_front() else { break };
                    messages.carry(now, agent, self.opening, frame)?;
                }
                Ok(true)
            });
            match carried {
                Some(Ok(true)) => tokio::task::yield_now().await,
                Some(Ok(false)) => tokio::time::sleep(PAUSE).await,
                Some(Err(error)) => return Err(error),
                None => frames.clear(), // the node is gone
            }
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
