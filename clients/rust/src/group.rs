//! A group that the process is a member of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fabricast_proto::v1;
use tokio::sync::OnceCell;
use tonic::Streaming;

use crate::part::Part;
use crate::session::Session;
use crate::{Error, GroupPath, Message};

/// A membership of this process. It ends with [`Self::leave`] or with the process, not with this
/// value.
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) session: Arc<Session>,
    pub(crate) name: Arc<str>,
    pub(crate) rank: u32,
    pub(crate) part: Arc<OnceCell<Part>>,
    pub(crate) by_switches: Arc<AtomicU64>, // operations
    /// True if operations complete without members that fail.
    pub(crate) survivors: bool,
    /// Ranks without which operations fail.
    pub(crate) required: Arc<[u32]>,
}

/// One process of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Rank (PN). Ranks have gaps where members have left.
    pub rank: u32,
    /// Node of the process.
    pub node: String,
    /// Name of the process, unique on the node.
    pub process: String,
}

/// Tree of switches for the operations of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchTree {
    /// Name of the collective that has the tree, as `fabricast collective show` takes it.
    pub collective: String,
    /// Bytes of the longest contribution that switches combine, at eight for each number.
    pub max_bytes: u32,
}

/// Stream of changes of the members of a group.
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
        Self {
            session,
            name,
            rank,
            part: Arc::default(),
            by_switches: Arc::default(),
            survivors: false,
            required: Arc::default(),
        }
    }

    /// Returns the name of the group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the rank (PN) of this process, which no other member has.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Lists the present members by rank.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`], [`Error::Detached`]; [`Error::Refused`] if the group agent does not
    /// answer.
    pub async fn members(&self) -> Result<Vec<Member>, Error> {
        self.session.check()?;
        let request =
            v1::ListMembersRequest { session: self.session.number, group: self.name.to_string() };
        let answer = self.session.calls().list_members(Session::bounded(request)).await;
        let answer = answer.map_err(|error| Error::of_group(&self.name, error))?;
        Ok(members(answer.into_inner().members))
    }

    /// Counts the present members.
    ///
    /// # Errors
    ///
    /// As [`Self::members`].
    pub async fn size(&self) -> Result<usize, Error> {
        Ok(self.members().await?.len())
    }

    /// Watches the members; the present ones come first, at once.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`], [`Error::Detached`].
    pub async fn watch_members(&self) -> Result<MemberWatch, Error> {
        self.session.check()?;
        let request =
            v1::WatchMembersRequest { session: self.session.number, group: self.name.to_string() };
        let news = self.session.calls().watch_members(request).await;
        let news = news.map_err(|error| Error::of_group(&self.name, error))?.into_inner();
        Ok(MemberWatch {
            group: Arc::clone(&self.name),
            news,
            _attached: Arc::clone(&self.session),
        })
    }

    /// Takes part in messages and operations of the group from now on, until this value and its
    /// clones are dropped or the process leaves. Calls that need it do it implicitly; call it early
    /// to miss no message. Others do not wait for members that do not take part.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`], [`Error::Detached`]; [`Error::Refused`] with `SEAT_TAKEN` if the
    /// process takes part through another value, made by a second join.
    pub async fn take_part(&self) -> Result<(), Error> {
        self.part().await.map(|_| ())
    }

    /// Returns the ranks of the participants that this process knows of: every message and
    /// operation that it starts from now on includes them.
    ///
    /// # Errors
    ///
    /// As [`Self::take_part`].
    pub async fn participants(&self) -> Result<Vec<u32>, Error> {
        self.wait_until(|pns| !pns.is_empty()).await
    }

    /// Waits until `count` members take part, with this process; returns their ranks.
    ///
    /// # Errors
    ///
    /// As [`Self::take_part`].
    pub async fn wait_for(&self, count: usize) -> Result<Vec<u32>, Error> {
        self.wait_until(|pns| pns.len() >= count).await
    }

    /// Sends a message to all other participants and waits until all have it. A message that goes
    /// through shared memory is sent even if the future is dropped. Returns the ranks that stopped
    /// taking part meanwhile, which may have it or not. Messages of one process arrive everywhere
    /// in the order of sending if each is awaited before the next.
    ///
    /// # Errors
    ///
    /// As [`Self::take_part`]; [`Error::Refused`] with `PAYLOAD_TOO_LONG` above 1 MiB.
    pub async fn multicast(&self, payload: &[u8]) -> Result<Vec<u32>, Error> {
        self.send(payload, false).await
    }

    /// Sends a message once, without acknowledgement or retry.
    ///
    /// # Errors
    ///
    /// As [`Self::multicast`].
    pub async fn multicast_best_effort(&self, payload: &[u8]) -> Result<(), Error> {
        self.send(payload, true).await.map(|_| ())
    }

    /// Waits for the next message of another member. Dropping the future loses nothing. A process
    /// that does not receive blocks the senders once its queues are full.
    ///
    /// # Errors
    ///
    /// As [`Self::take_part`], once everything that came before the end has been received.
    pub async fn receive(&self) -> Result<Message, Error> {
        self.part().await?.receive().await
    }

    /// Waits for the next message as [`Self::receive`], but not longer than `timeout`: `None` then.
    /// Takes part first, which the timeout does not bound.
    ///
    /// # Errors
    ///
    /// As [`Self::receive`].
    pub async fn receive_timeout(&self, timeout: Duration) -> Result<Option<Message>, Error> {
        let part = self.part().await?;
        tokio::time::timeout(timeout, part.receive()).await.ok().transpose()
    }

    /// Asks that switches combine the barriers, broadcasts and all-reduces of integers of the
    /// members that the group has now. Ask once all have joined; any of them may, and all that ask
    /// get the same tree. Operations use it some seconds later, and
    /// [`Self::combined_by_switches`] counts them. It ends when a member joins or leaves: ask again
    /// then. Operations need no tree of switches, they only take longer without.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`], [`Error::Detached`]; [`Error::Refused`] with `NO_SWITCH_TREE`, which
    /// names the reason, such as that no switch has an entry left, with `QUOTA_REACHED`, or with
    /// `NO_AGGREGATION` where switches cannot combine.
    pub async fn request_switch_tree(&self) -> Result<SwitchTree, Error> {
        self.session.check()?;
        let request = v1::ProcessServiceRequestSwitchTreeRequest {
            session: self.session.number,
            group: self.name.to_string(),
        };
        let answer = self.session.calls().request_switch_tree(Session::bounded(request)).await;
        let answer = answer.map_err(|error| Error::of_group(&self.name, error))?.into_inner();
        let v1::ProcessServiceRequestSwitchTreeResponse { collective, max_bytes } = answer;
        Ok(SwitchTree { collective, max_bytes })
    }

    /// Counts the operations of this process that switches have combined since it takes part. The
    /// others were combined along the tree of the members, with the same result.
    #[must_use]
    pub fn combined_by_switches(&self) -> u64 {
        self.by_switches.load(Ordering::Relaxed)
    }

    /// Returns the path that messages and operations of this membership take. It stays direct, or
    /// through the agent; the fabric's multicast may come and go.
    #[must_use]
    pub fn path(&self) -> GroupPath {
        let member = self.session.direct_member(&self.name);
        match member.filter(|_| !matches!(self.part.get(), Some(Part::Agent(_)))) {
            Some(member) if member.hears_multicast() => GroupPath::DirectMulticast,
            Some(_) => GroupPath::Direct,
            None if matches!(self.part.get(), Some(Part::Direct(_))) => GroupPath::Direct,
            None => GroupPath::Agent,
        }
    }

    /// Counts the neighbours in the group's tree to which this process has a connection of its own;
    /// the agents carry what goes to the others.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.session.direct_member(&self.name).map_or(0, |member| member.connections())
    }

    /// Returns the call through which this process takes part; begins it on first use.
    pub(crate) async fn part(&self) -> Result<&Part, Error> {
        self.part.get_or_try_init(|| Part::begin(&self.session, &self.name)).await
    }

    async fn wait_until(&self, wanted: impl Fn(&[u32]) -> bool) -> Result<Vec<u32>, Error> {
        self.part().await?.wait_until(wanted).await
    }

    async fn send(&self, payload: &[u8], best_effort: bool) -> Result<Vec<u32>, Error> {
        self.part().await?.send(payload, best_effort).await
    }

    /// Leaves the group; the process stays attached.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`], [`Error::Detached`]; [`Error::Refused`] if the control plane does not
    /// answer.
    pub async fn leave(self) -> Result<(), Error> {
        self.session.check()?;
        if let Some(member) = self.session.direct_member(&self.name) {
            member.confirm(); // the others get what they may still lack of this member
        }
        let request = v1::ProcessServiceLeaveGroupRequest {
            session: self.session.number,
            group: self.name.to_string(),
        };
        let answer = self.session.calls().leave_group(Session::bounded(request)).await;
        answer.map_err(|error| Error::of_group(&self.name, error))?;
        self.session.forget_direct_member(&self.name);
        Ok(())
    }
}

impl MemberWatch {
    /// Waits for the next change; returns all members by rank. Changes in quick succession may come
    /// as one.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`] when the membership of this process has ended, [`Error::Detached`].
    pub async fn next(&mut self) -> Result<Vec<Member>, Error> {
        match self.news.message().await {
            Ok(Some(news)) => Ok(members(news.members)),
            Ok(None) => Err(Error::ended("the agent has ended the watch")),
            Err(error) => Err(Error::of_group(&self.group, error)),
        }
    }
}
