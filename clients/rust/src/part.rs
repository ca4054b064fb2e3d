//! The part of a member in messages and operations of its group, by either path.

use fabricast_proto::v1;
use tokio::sync::watch;

use crate::Error;
use crate::agent_part::AgentPart;
use crate::direct::part::DirectPart;
use crate::part_state::{End, Message, Seen};
use crate::session::Session;

/// The part of a member, until this is dropped.
#[derive(Debug)]
pub(crate) enum Part {
    /// The agent does the work.
    Agent(Box<AgentPart>),
    /// This process does it.
    Direct(DirectPart),
}

impl Part {
    /// Begins it by the path that the membership has.
    pub(crate) async fn begin(session: &Session, group: &str) -> Result<Self, Error> {
        session.check()?;
        match session.direct_member(group) {
            Some(member) => Ok(Self::Direct(member.take_part().await?)),
            None => Ok(Self::Agent(Box::new(AgentPart::begin(session, group).await?))),
        }
    }

    /// Waits until the participants satisfy a condition; returns their ranks.
    pub(crate) async fn wait_until(
        &self,
        wanted: impl Fn(&[u32]) -> bool,
    ) -> Result<Vec<u32>, Error> {
        let (mut seen, group): (watch::Receiver<Seen>, &str) = match self {
            Self::Agent(part) => (part.seen.clone(), &part.group),
            Self::Direct(part) => (part.seen.clone(), part.group()),
        };
        let known = |seen: &Seen| seen.end.is_some() || wanted(&seen.participants);
        let seen = seen.wait_for(known).await.map(|seen| seen.clone()).unwrap_or_default();
        match seen.end {
            Some(end) => Err(end.into_error(group)),
            None if wanted(&seen.participants) => Ok(seen.participants),
            None => Err(End::Closed.into_error(group)),
        }
    }

    /// Waits for the next message of another member.
    pub(crate) async fn receive(&self) -> Result<Message, Error> {
        match self {
            Self::Agent(part) => part.receive().await,
            Self::Direct(part) => part.receive().await,
        }
    }

    /// Sends a message; returns the ranks that may have it or not.
    pub(crate) async fn send(&self, payload: &[u8], best_effort: bool) -> Result<Vec<u32>, Error> {
        match self {
            Self::Agent(part) => part.send(payload, best_effort).await,
            Self::Direct(part) => part.send(payload, best_effort).await,
        }
    }

    /// Runs an operation to its end.
    pub(crate) async fn run(
        &self,
        operation: v1::GroupOperation,
    ) -> Result<v1::OperationResult, Error> {
        match self {
            Self::Agent(part) => part.run(operation).await,
            Self::Direct(part) => part.run(operation).await,
        }
    }
}
