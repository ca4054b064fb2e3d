//! Programs that know nothing of Fabricast: what they join and send to by IP multicast becomes
//! memberships.
//!
//! ```text
//!  program ──join, leave, end──► kernel ──IGMP report──► NoticeSocket ┐
//!     │                            │                        timer ────┤ look again
//!     └──send──► kernel ──copy──► PacketTap ──► ProgramSenders ───────┤
//!                                  │                                  │
//!                                  └── /proc/net/igmp ──► joined ◄────┘
//!                                                           │ compared with the memberships
//!                                                           ▼
//!                                         MembershipCalls: join or leave `ip/<address>`
//! ```
//!
//! The kernel's list is the truth, and is read again all the time: a report that is missed costs
//! time and nothing else. One membership stands for all programs of an interface that have joined,
//! and another one, which only sends, for those that send to an address which none of them has
//! joined.

mod notices;
mod packet_tap;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::NodeConfig;
use fabricast_groups::command::GroupSpec;
use fabricast_groups::names::{
    EndpointName, GroupName, NameError, NodeName, ProcessName, RequestId,
};
use fabricast_groups::operating::{JoinCall, LeaveCall};
use fabricast_groups::programs::{AddressRange, Joined, ProgramSenders, SenderLimits, read_joined};
use fabricast_rpc::request_id;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use crate::agent::Agent;
use crate::tic::membership_calls::CallFailure;
use notices::NoticeSocket;
use packet_tap::{PacketTap, any_packet};

/// The kernel's list of what programs have joined.
const LIST: &str = "/proc/net/igmp";
/// The list is read at least this often.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// An interface of this machine whose programs are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    name: String,
    node: NodeName,
    endpoint: EndpointName,
    /// Process in whose name programs that have joined are members.
    receiver: ProcessName,
    /// Process in whose name programs that only send are members.
    sender: ProcessName,
}

impl Interface {
    /// The interfaces of nodes, as in the settings.
    pub(crate) fn of(nodes: &[NodeConfig]) -> Result<Vec<Self>, NameError> {
        let each = nodes.iter().flat_map(|node| {
            node.interfaces.iter().map(|(name, endpoint)| {
                Ok(Self {
                    name: name.clone(),
                    node: NodeName::new(&node.name)?,
                    endpoint: EndpointName::new(endpoint)?,
                    receiver: ProcessName::new(&format!("programs@{name}"))?,
                    sender: ProcessName::new(&format!("senders@{name}"))?,
                })
            })
        });
        each.collect()
    }
}

/// Follows the programs of some interfaces.
#[derive(Debug)]
pub(crate) struct Programs {
    agent: Arc<Agent>,
    interfaces: Vec<Interface>,
    ranges: Vec<AddressRange>,
    limits: SenderLimits,
    /// Calls that have not ended, by place of the interface, and failures that were told.
    calls: Mutex<Calls>,
    /// A call has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    pending: BTreeSet<(usize, ProgramMember)>,
    failed: BTreeMap<(usize, ProgramMember), String>,
}

/// A membership of programs of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ProgramMember {
    address: Ipv4Addr,
    sends_only: bool,
}

/// Addresses that programs send to by an interface.
#[derive(Debug)]
struct Sending {
    tap: PacketTap,
    senders: ProgramSenders,
    /// It was told that there is no room for more.
    is_told: bool,
}

/// A join or leave that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Join(ProgramMember),
    Leave(ProgramMember),
}

impl Programs {
    pub(crate) fn new(
        agent: &Arc<Agent>,
        interfaces: Vec<Interface>,
        ranges: Vec<AddressRange>,
        limits: SenderLimits,
    ) -> Arc<Self> {
        let (agent, calls, ended) = (Arc::clone(agent), Mutex::default(), Notify::new());
        Arc::new(Self { agent, interfaces, ranges, limits, calls, ended })
    }

    /// Follows them, forever.
    pub(crate) async fn run(self: Arc<Self>) {
        if self.interfaces.is_empty() {
            return std::future::pending().await;
        }
        let names: Vec<_> = self.interfaces.iter().map(|one| one.name.as_str()).collect();
        info!(interfaces = ?names, "programs of IP multicast are followed");
        let mut notices = NoticeSocket::open();
        let mut sending: Vec<_> = self.interfaces.iter().map(|_| self.sending()).collect();
        let mut missing = BTreeSet::new();
        loop {
            // Before the list is read, which so has what was joined before something was sent.
            let packets: Vec<_> = sending.iter_mut().map(|one| one.tap.take()).collect();
            match std::fs::read_to_string(LIST) {
                // made by the kernel: it does not block
                Ok(list) => {
                    let joined = read_joined(&list);
                    for (at, one) in self.interfaces.iter().enumerate() {
                        let found = joined.get(&one.name);
                        match found {
                            Some(found) => notices.watch(found.index),
                            None if missing.insert(at) => {
                                warn!(interface = one.name, "no such interface, or it is down");
                            }
                            None => {}
                        }
                        if found.is_some() {
                            missing.remove(&at);
                        }
                        self.hear(&mut sending[at], &packets[at], found);
                        self.follow(at, found, sending[at].senders.addresses().collect());
                    }
                }
                Err(error) => debug!(%error, "list of multicast memberships not read"),
            }
            tokio::select! {
                () = notices.next() => {}
                () = any_packet(sending.iter().map(|one| &one.tap).collect()) => {}
                () = self.ended.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    fn sending(&self) -> Sending {
        let tap = if self.limits.addresses > 0 { PacketTap::open() } else { PacketTap::closed() };
        let senders = ProgramSenders::new(self.limits, self.ranges.clone());
        Sending { tap, senders, is_told: false }
    }

    /// Takes note of packets that programs have sent by an interface.
    fn hear(&self, sending: &mut Sending, packets: &[Ipv4Addr], found: Option<&Joined>) {
        let Sending { tap, senders, is_told } = sending;
        let now = self.agent.runtime.nodes.now();
        packets.iter().for_each(|address| senders.handle_packet(now, *address));
        let nothing = BTreeSet::new();
        senders.tick(now, found.map_or(&nothing, |found| &found.addresses));
        if let Some(found) = found {
            tap.watch(found.index, &self.ranges, senders.watched());
        }
        let is_full = self.limits.addresses > 0 && senders.is_full();
        if is_full && !*is_told {
            warn!(
                most = self.limits.addresses,
                "programs send to as many addresses as program_senders: others wait"
            );
        }
        *is_told = is_full;
    }

    /// Makes the calls that are due for an interface.
    ///
    /// - `found`: `None` if there is no such interface, whose programs then receive nothing.
    /// - `sent`: addresses that programs send to and have not joined.
    fn follow(self: &Arc<Self>, at: usize, found: Option<&Joined>, sent: BTreeSet<Ipv4Addr>) {
        let Interface { node, receiver, sender, .. } = &self.interfaces[at];
        let held = self.agent.runtime.nodes.read(node, |agent| {
            let memberships = agent.memberships().filter_map(|held| {
                let process = &held.member.process;
                let address = held.group.program_address()?;
                let is_own = process == receiver || process == sender;
                is_own.then_some(ProgramMember { address, sends_only: process == sender })
            });
            memberships.collect::<BTreeSet<_>>()
        });
        let held = held.unwrap_or_default();
        let joined = found.map(|found| &found.addresses).into_iter().flatten().copied();
        let is_ours = |address: &Ipv4Addr| self.ranges.iter().any(|range| range.contains(*address));
        let wanted = wanted(joined.filter(is_ours), sent, &held);
        for change in changes(&wanted, &held) {
            let (Change::Join(member) | Change::Leave(member)) = change;
            // The next look after its end sees what is still to be done.
            if self.calls.lock().pending.insert((at, member)) {
                self.agent.runtime.tasks.spawn(Arc::clone(self).call(at, change));
            }
        }
    }

    async fn call(self: Arc<Self>, at: usize, change: Change) {
        let (Change::Join(member) | Change::Leave(member)) = change;
        let failure = self.make(&self.interfaces[at], change).await.err();
        let mut calls = self.calls.lock();
        calls.pending.remove(&(at, member));
        let Some(failure) = failure else {
            calls.failed.remove(&(at, member));
            drop(calls);
            return self.ended.notify_one();
        };
        // It is repeated with the next look, and told once.
        let reason = failure.to_string();
        let told = calls.failed.insert((at, member), reason.clone());
        drop(calls);
        if told.as_ref() != Some(&reason) {
            let Interface { node, name, .. } = &self.interfaces[at];
            let group = GroupName::of_programs(member.address);
            warn!(%node, interface = name, %group, ?change, reason, "membership of programs not changed");
        }
    }

    async fn make(&self, interface: &Interface, change: Change) -> Result<(), CallFailure> {
        let Interface { node, endpoint, receiver, sender, name } = interface.clone();
        let request_id = RequestId::new(&request_id()).expect("it is made of letters and digits");
        let calls = &self.agent.calls;
        let (Change::Join(member) | Change::Leave(member)) = change;
        let ProgramMember { address, sends_only } = member;
        let process = if sends_only { sender } else { receiver };
        let group = GroupName::of_programs(address);
        match change {
            Change::Join(_) => {
                let (spec, endpoint) = (GroupSpec::new(group.clone()), Some(endpoint));
                let join = JoinCall { request_id, group: spec, process, endpoint, sends_only };
                let ends = calls.join_many(vec![(node.clone(), join)]).await;
                ends.into_iter().try_for_each(|end| end.map(drop))?;
                info!(%node, interface = name, %group, sends_only, "programs joined");
            }
            Change::Leave(_) => {
                let leave = LeaveCall { request_id, group: group.clone(), process };
                let ends = calls.leave_many(vec![(node.clone(), leave)]).await;
                ends.into_iter().try_for_each(|end| end)?;
                info!(%node, interface = name, %group, sends_only, "programs left");
            }
        }
        Ok(())
    }
}

/// The memberships that programs of an interface are to have.
///
/// - `joined`: addresses that they have joined.
/// - `sent`: addresses that they send to and have not joined.
/// - `held`: the memberships that they have.
fn wanted(
    joined: impl Iterator<Item = Ipv4Addr>,
    sent: BTreeSet<Ipv4Addr>,
    held: &BTreeSet<ProgramMember>,
) -> BTreeSet<ProgramMember> {
    let sender = |address| ProgramMember { address, sends_only: true };
    let mut wanted: BTreeSet<_> = sent.into_iter().map(sender).collect();
    for address in joined {
        let receiver = ProgramMember { address, sends_only: false };
        // A sender that joins stays one until it receives, so that no packet is lost.
        let stays = !held.contains(&receiver) && held.contains(&sender(address));
        wanted.extend(stays.then_some(sender(address)));
        wanted.insert(receiver);
    }
    wanted
}

fn changes(wanted: &BTreeSet<ProgramMember>, held: &BTreeSet<ProgramMember>) -> Vec<Change> {
    let joins = wanted.difference(held).copied().map(Change::Join);
    joins.chain(held.difference(wanted).copied().map(Change::Leave)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::agent_with_tic;

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
    const RECEIVER: ProgramMember = ProgramMember { address: ADDRESS, sends_only: false };
    const SENDER: ProgramMember = ProgramMember { address: ADDRESS, sends_only: true };

    #[test]
    fn only_differences_are_changes() {
        let other = ProgramMember { address: Ipv4Addr::new(239, 0, 0, 1), sends_only: false };
        let held = BTreeSet::from([RECEIVER, other]);
        assert_eq!(changes(&held, &held), []);
        let both = [Change::Join(SENDER), Change::Leave(other)];
        assert_eq!(changes(&BTreeSet::from([RECEIVER, SENDER]), &held), both);
    }

    #[test]
    fn a_sender_that_joins_sends_on_until_it_receives() {
        let due = |joined: &[Ipv4Addr], sent: &[Ipv4Addr], held: &[ProgramMember]| {
            let held = held.iter().copied().collect();
            let sent = sent.iter().copied().collect();
            changes(&wanted(joined.iter().copied(), sent, &held), &held)
        };
        assert_eq!(due(&[], &[ADDRESS], &[]), [Change::Join(SENDER)]);
        assert_eq!(due(&[], &[ADDRESS], &[SENDER]), []);
        assert_eq!(due(&[ADDRESS], &[], &[SENDER]), [Change::Join(RECEIVER)]);
        assert_eq!(due(&[ADDRESS], &[], &[SENDER, RECEIVER]), [Change::Leave(SENDER)]);
        assert_eq!(due(&[ADDRESS], &[], &[RECEIVER]), []);
        assert_eq!(due(&[], &[], &[SENDER]), [Change::Leave(SENDER)], "silent");
    }

    /// One call for each address at a time, and none for addresses of others.
    #[tokio::test]
    async fn a_join_that_is_pending_is_not_begun_again() {
        let test = agent_with_tic("127.0.0.1:1");
        test.agent.start();
        test.node_up();
        let interfaces = BTreeMap::from([("eth0".to_owned(), "h0".to_owned())]);
        let (name, endpoints) = (test.node.to_string(), vec!["h0".to_owned()]);
        let node = NodeConfig { name, endpoints, interfaces };
        let interfaces = Interface::of(&[node]).unwrap();
        let ranges = vec!["239.0.0.0/9".parse().unwrap()];
        let limits = SenderLimits { addresses: 0, timeout: Duration::ZERO };
        let programs = Programs::new(&test.agent, interfaces, ranges, limits);
        let addresses = BTreeSet::from([ADDRESS, Ipv4Addr::new(239, 255, 255, 250)]);
        let found = Joined { index: 1, addresses };
        programs.follow(0, Some(&found), BTreeSet::new());
        programs.follow(0, Some(&found), BTreeSet::new());
        assert_eq!(programs.calls.lock().pending, BTreeSet::from([(0, RECEIVER)]));
        // The TIC does not answer, so the call fails after its time, and may be made again.
        programs.ended.notify_one();
        let failed = async {
            while programs.calls.lock().failed.is_empty() {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = failed => {}
            () = test.agent.runtime.nodes.keep_time(Duration::from_millis(5), Duration::from_millis(5)) => {}
        }
        assert_eq!(programs.calls.lock().pending, BTreeSet::new());
    }
}
