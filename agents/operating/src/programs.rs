//! Programs that know nothing of Fabricast: what they join by IP multicast becomes a membership.
//!
//! ```text
//!  program ──join, leave, end──► kernel ──IGMP report──► NoticeSocket ┐
//!                                  │                        timer ────┤ look again
//!                                  └── /proc/net/igmp ──► joined ◄────┘
//!                                                           │ compared with the memberships
//!                                                           ▼
//!                                         MembershipCalls: join or leave `ip/<address>`
//! ```
//!
//! The kernel's list is the truth, and is read again all the time: a report that is missed costs
//! time and nothing else. One membership stands for all programs of an interface.

mod notices;

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
use fabricast_groups::programs::{AddressRange, Joined, read_joined};
use fabricast_rpc::request_id;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use crate::agent::Agent;
use crate::tic::membership_calls::CallFailure;
use notices::NoticeSocket;

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
    /// Process in whose name the programs are members.
    process: ProcessName,
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
                    process: ProcessName::new(&format!("programs@{name}"))?,
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
    /// Calls that have not ended, by place of the interface, and failures that were told.
    calls: Mutex<Calls>,
    /// A call has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    pending: BTreeSet<(usize, Ipv4Addr)>,
    failed: BTreeMap<(usize, Ipv4Addr), String>,
}

/// A join or leave that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Join(Ipv4Addr),
    Leave(Ipv4Addr),
}

impl Programs {
    pub(crate) fn new(
        agent: &Arc<Agent>,
        interfaces: Vec<Interface>,
        ranges: Vec<AddressRange>,
    ) -> Arc<Self> {
        let (agent, calls, ended) = (Arc::clone(agent), Mutex::default(), Notify::new());
        Arc::new(Self { agent, interfaces, ranges, calls, ended })
    }

    /// Follows them, forever.
    pub(crate) async fn run(self: Arc<Self>) {
        if self.interfaces.is_empty() {
            return std::future::pending().await;
        }
        let names: Vec<_> = self.interfaces.iter().map(|one| one.name.as_str()).collect();
        info!(interfaces = ?names, "programs of IP multicast are followed");
        let mut notices = NoticeSocket::open();
        let mut missing = BTreeSet::new();
        loop {
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
                        self.follow(at, found);
                    }
                }
                Err(error) => debug!(%error, "list of multicast memberships not read"),
            }
            tokio::select! {
                () = notices.next() => {}
                () = self.ended.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Makes the calls that are due for an interface.
    ///
    /// - `found`: `None` if there is no such interface, whose programs then receive nothing.
    fn follow(self: &Arc<Self>, at: usize, found: Option<&Joined>) {
        let Interface { node, process, .. } = &self.interfaces[at];
        let held = self.agent.runtime.nodes.read(node, |agent| {
            let own = agent.memberships().filter(|held| held.member.process == *process);
            own.filter_map(|held| held.group.program_address()).collect::<BTreeSet<_>>()
        });
        let joined = found.map(|found| &found.addresses).into_iter().flatten().copied();
        let is_ours = |address: &Ipv4Addr| self.ranges.iter().any(|range| range.contains(*address));
        let wanted: BTreeSet<Ipv4Addr> = joined.filter(is_ours).collect();
        for change in changes(&wanted, &held.unwrap_or_default()) {
            let (Change::Join(address) | Change::Leave(address)) = change;
            // The next look after its end sees what is still to be done.
            if self.calls.lock().pending.insert((at, address)) {
                self.agent.runtime.tasks.spawn(Arc::clone(self).call(at, change));
            }
        }
    }

    async fn call(self: Arc<Self>, at: usize, change: Change) {
        let (Change::Join(address) | Change::Leave(address)) = change;
        let failure = self.make(&self.interfaces[at], change).await.err();
        let mut calls = self.calls.lock();
        calls.pending.remove(&(at, address));
        let Some(failure) = failure else {
            calls.failed.remove(&(at, address));
            drop(calls);
            return self.ended.notify_one();
        };
        // It is repeated with the next look, and told once.
        let reason = failure.to_string();
        let told = calls.failed.insert((at, address), reason.clone());
        drop(calls);
        if told.as_ref() != Some(&reason) {
            let Interface { node, name, .. } = &self.interfaces[at];
            let group = GroupName::of_programs(address);
            warn!(%node, interface = name, %group, ?change, reason, "membership of programs not changed");
        }
    }

    async fn make(&self, interface: &Interface, change: Change) -> Result<(), CallFailure> {
        let Interface { node, endpoint, process, .. } = interface.clone();
        let request_id = RequestId::new(&request_id()).expect("it is made of letters and digits");
        let calls = &self.agent.calls;
        match change {
            Change::Join(address) => {
                let group = GroupName::of_programs(address);
                let spec = GroupSpec::new(group.clone());
                let endpoint = Some(endpoint);
                let sends_only = false;
                let join = JoinCall { request_id, group: spec, process, endpoint, sends_only };
                let ends = calls.join_many(vec![(node.clone(), join)]).await;
                ends.into_iter().try_for_each(|end| end.map(drop))?;
                info!(%node, interface = interface.name, %group, "programs joined");
            }
            Change::Leave(address) => {
                let group = GroupName::of_programs(address);
                let leave = LeaveCall { request_id, group: group.clone(), process };
                let ends = calls.leave_many(vec![(node.clone(), leave)]).await;
                ends.into_iter().try_for_each(|end| end)?;
                info!(%node, interface = interface.name, %group, "programs left");
            }
        }
        Ok(())
    }
}

fn changes(wanted: &BTreeSet<Ipv4Addr>, held: &BTreeSet<Ipv4Addr>) -> Vec<Change> {
    let joins = wanted.difference(held).copied().map(Change::Join);
    joins.chain(held.difference(wanted).copied().map(Change::Leave)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::agent_with_tic;

    #[test]
    fn only_differences_are_changes() {
        let set = |list: &[u8]| {
            list.iter().map(|last| Ipv4Addr::new(239, 0, 0, *last)).collect::<BTreeSet<_>>()
        };
        let address = |last| Ipv4Addr::new(239, 0, 0, last);
        assert_eq!(changes(&set(&[1, 2]), &set(&[1, 2])), []);
        let both = [Change::Join(address(3)), Change::Leave(address(1))];
        assert_eq!(changes(&set(&[2, 3]), &set(&[1, 2])), both);
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
        let programs = Programs::new(&test.agent, interfaces, ranges);
        let ours = Ipv4Addr::new(239, 1, 2, 3);
        let addresses = BTreeSet::from([ours, Ipv4Addr::new(239, 255, 255, 250)]);
        let found = Joined { index: 1, addresses };
        programs.follow(0, Some(&found));
        programs.follow(0, Some(&found));
        assert_eq!(programs.calls.lock().pending, BTreeSet::from([(0, ours)]));
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
