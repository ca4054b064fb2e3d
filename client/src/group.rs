//! A group that the process is a member of.

use std::sync::Arc;

use fabricast_proto::v1;
use tokio::sync::OnceCell;
use tonic::Streaming;

use crate::Error;
use crate::part::Part;
use crate::session::Session;

/// A membership of this process. It ends with [`Self::leave`] or with the process, not with this value.
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) session: Arc<Session>,
    pub(crate) name: Arc<str>,
    pub(crate) rank: u32,
    pub(crate) part: Arc<OnceCell<Part>>,
    /// Whether operations are completed without members that die.
    pub(crate) survivors: bool,
}

/// One process of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its rank (PN). Ranks have holes where members have left.
    pub rank: u32,
    /// Its node.
    pub node: String,
    /// Its name, unique on the node.
    pub process: String,
}

/// News of the members of a group.
#[derive(Debug)]
pub struct MemberWatch {
    group: Arc<str>,
    news: Streaming<v1::WatchMembersResponse>,
    _attached: Arc<Session>,
}

fn members(wire: Vec<v1::Member>) -> Vec<Member> {
    let member =
        |wire: v1::Member| Member { rank: wire.pn, node: wire.node, process: wire.process };
    wire.into_iter().map(member).collect()
}

impl Group {
    pub(crate) fn new(session: Arc<Session>, membership: v1::Membership) -> Self {
        let (name, rank) = (membership.group.into(), membership.pn);
        Self { session, name, rank, part: Arc::default(), survivors: false }
    }

    /// The name of the group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The rank of this process: its PN, which no other member has.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The members now, by rank.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`], [`Error::Detached`]; [`Error::Refused`] if the group's agent does not answer.
    pub async fn members(&self) -> Result<Vec<Member>, Error> {
        self.session.check()?;
        let request =
            v1::ListMembersRequest { session: self.session.number, group: self.name.to_string() };
        let answer = self.session.calls().list_members(Session::bounded(request)).await;
        let answer = answer.map_err(|status| Error::of_group(&self.name, &status))?;
        Ok(members(answer.into_inner().members))
    }

    /// The number of members now.
    ///
    /// # Errors
    ///
    /// As [`Self::members`].
    pub async fn size(&self) -> Result<usize, Error> {
        Ok(self.members().await?.len())
    }

    /// Watches the members: those of now come at once.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`], [`Error::Detached`].
    pub async fn watch_members(&self) -> Result<MemberWatch, Error> {
        self.session.check()?;
        let request =
            v1::WatchMembersRequest { session: self.session.number, group: self.name.to_string() };
        let news = self.session.calls().watch_members(request).await;
        let news = news.map_err(|status| Error::of_group(&self.name, &status))?.into_inner();
        Ok(MemberWatch {
            group: Arc::clone(&self.name),
            news,
            _attached: Arc::clone(&self.session),
        })
    }

    /// Leaves the group; the process stays attached.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`], [`Error::Detached`]; [`Error::Refused`] if the control plane does not answer.
    pub async fn leave(self) -> Result<(), Error> {
        self.session.check()?;
        let request = v1::ProcessServiceLeaveGroupRequest {
            session: self.session.number,
            group: self.name.to_string(),
        };
        let answer = self.session.calls().leave_group(Session::bounded(request)).await;
        answer.map(|_| ()).map_err(|status| Error::of_group(&self.name, &status))
    }
}

impl MemberWatch {
    /// Waits for the next news: all members, by rank. Changes in quick succession may come as one.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`] when the membership of this process has ended, [`Error::Detached`].
    pub async fn next(&mut self) -> Result<Vec<Member>, Error> {
        match self.news.message().await {
            Ok(Some(news)) => Ok(members(news.members)),
            Ok(None) => Err(Error::Detached { what: "the agent has ended the watch".to_owned() }),
            Err(status) => Err(Error::of_group(&self.group, &status)),
        }
    }
}
