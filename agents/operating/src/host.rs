//! The hosted nodes: state machines behind one lock, and the way from their outputs to the world.
//!
//! Every input runs under the lock and is followed by draining the outputs, which are carried out after
//! the lock is gone. The lock is never held over an await.

mod deadlines;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fabricast_group::{Hosts, Watchers};
use fabricast_groups::agent::{GaConfig, GaHost, GaOutput};
use fabricast_groups::ids::Moment;
use fabricast_groups::names::{EndpointName, NodeName};
use fabricast_groups::operating::{CallAnswer, CallId, Identity, Oa, OaConfig, OaOutput, Phase};
use fabricast_proto::v1;
use fabricast_rpc::{Leader, Pace, Peer, PeerError, Security};
use fabricast_telemetry::metrics::{AGENT_ADMISSIONS, AGENT_DOWNS};
use fabricast_telemetry::traces::Origin;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tracing::{info, warn};

use crate::errands::Errands;
use crate::listeners::{Listener, Numbers};
use crate::members::Followed;
use crate::memory::Memories;
use crate::messages::{MessageEffect, Messaging};
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::questions::Questions;
use crate::sessions::Sessions;
use crate::tic_wire;

/// A compute node to be hosted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name.
    pub name: String,
    /// Its endpoints, the first one being the default of joins.
    pub endpoints: Vec<String>,
}

/// What one state machine wants done.
#[derive(Debug)]
pub(crate) enum Effect {
    Operating(NodeName, OaOutput),
    Group(NodeName, GaOutput),
    Message(MessageEffect),
}

/// How a call of a process ended; a failure keeps the TIC's own status.
pub(crate) type CallOutcome = Result<CallAnswer, Status>;

#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) operating: Oa,
    pub(crate) agents: Option<GaHost>,
    /// Where it is in [`State::due`].
    due: Option<Moment>,
    pub(crate) messages: Messaging,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) nodes: BTreeMap<NodeName, Hosted>,
    pub(crate) owners: BTreeMap<EndpointName, NodeName>,
    /// Callers that wait, and the traced requests that their calls come of.
    pub(crate) waiting: BTreeMap<(NodeName, CallId), (oneshot::Sender<CallOutcome>, Origin)>,
    last_said: BTreeMap<(NodeName, CallId), Status>, // by the TIC, to a call that is not through
    due: BTreeSet<(Moment, NodeName)>, // when to let time pass for whom, but for those touched
    pub(crate) touched: BTreeSet<NodeName>, // since time was looked at: their deadlines may differ
    pub(crate) talking: BTreeSet<NodeName>, // whose message layers wait for something
}

/// Everything the tasks of this process share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    peers: Peers,
    pub(crate) outbox: Mutex<Outbox>,
    pub(crate) questions: Mutex<Questions>,
    pub(crate) errands: Mutex<Errands>,
    pub(crate) listeners: Mutex<Vec<Listener>>,
    pub(crate) numbers: Mutex<Numbers>,
    pub(crate) sessions: Sessions,
    pub(crate) memories: Memories,
    /// Members of the groups that local processes watch.
    pub(crate) followed: Followed,
    watchers: Watchers,
    /// Packets dropped because a listener was too slow.
    pub(crate) dropped: AtomicU64,
    /// Messages to the fabric.
    pub(crate) to_fabric: mpsc::Sender<v1::AttachEndpointsRequest>,
    pub(crate) attached: AtomicBool, // whether the stream to the fabric is up
    pub(crate) tic: Leader,
    pub(crate) fabric: Peer,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    /// For the group agents of nodes that come up.
    pub(crate) group_config: Mutex<GaConfig>,
    address: String,
    pub(crate) pace: Pace,
    /// An input has come since time was looked at.
    pub(crate) stirred: Notify,
}

/// The hosted nodes.
#[derive(Clone, Debug)]
pub(crate) struct Host(pub(crate) Arc<Shared>);

/// What a [`Host`] is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) nodes: Vec<Identity>,
    pub(crate) operating_config: OaConfig,
    pub(crate) group_config: GaConfig,
    pub(crate) tic: Leader,
    pub(crate) fabric: Peer,
    pub(crate) security: Security,
    pub(crate) memories: Memories,
    pub(crate) address: String,
    pub(crate) start_id: u64,
    pub(crate) to_fabric: mpsc::Sender<v1::AttachEndpointsRequest>,
}

impl Host {
    pub(crate) fn new(parts: Parts) -> Self {
        let mut state = State::default();
        for identity in parts.nodes {
            let node = identity.node.clone();
            for endpoint in &identity.endpoints {
                state.owners.insert(endpoint.clone(), node.clone());
            }
            let operating = Oa::new(Moment(0), identity, parts.start_id, parts.operating_config);
            let messages = Messaging::new(node.clone());
            let hosted = Hosted { operating, agents: None, due: None, messages };
            state.nodes.insert(node, hosted);
        }
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            peers: Peers::new(parts.security),
            outbox: Mutex::default(),
            questions: Mutex::default(),
            errands: Mutex::default(),
            attached: AtomicBool::new(false),
            listeners: Mutex::default(),
            numbers: Mutex::default(),
            sessions: Sessions::default(),
            memories: parts.memories,
            followed: Followed::default(),
            watchers: Watchers::default(),
            dropped: AtomicU64::new(0),
            to_fabric: parts.to_fabric,
            tic: parts.tic,
            fabric: parts.fabric,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            group_config: Mutex::new(parts.group_config),
            address: parts.address,
            pace: Pace::default(),
            stirred: Notify::new(),
        }))
    }

    pub(crate) fn now(&self) -> Moment {
        Moment(u64::try_from(self.0.pace.now().as_nanos()).unwrap_or(u64::MAX))
    }

    /// A channel to another process, made once.
    pub(crate) fn peer(&self, address: &str) -> Result<Peer, PeerError> {
        self.0.peers.get(address)
    }

    pub(crate) fn nodes(&self) -> Vec<NodeName> {
        self.state().nodes.keys().cloned().collect()
    }

    /// Looks at one node without changing it.
    pub(crate) fn look<T>(&self, node: &NodeName, work: impl FnOnce(&Oa) -> T) -> Option<T> {
        self.state().nodes.get(node).map(|hosted| work(&hosted.operating))
    }

    /// Looks at the group agents of one node without changing them.
    pub(crate) fn look_at_agents<T>(
        &self,
        node: &NodeName,
        work: impl FnOnce(&GaHost) -> T,
    ) -> Option<T> {
        self.state().nodes.get(node)?.agents.as_ref().map(work)
    }

    /// Gives a node's operating agent an input; `None` if the node is not hosted here.
    pub(crate) fn input<T>(
        &self,
        node: &NodeName,
        work: impl FnOnce(&mut Oa, Moment) -> T,
    ) -> Option<T> {
        let now = self.now();
        let mut state = self.state();
        let answer = work(&mut state.nodes.get_mut(node)?.operating, now);
        let effects = self.drain(&mut state, node, now);
        drop(state);
        self.0.stirred.notify_one();
        self.carry_out(effects);
        Some(answer)
    }

    /// Keeps what the TIC said to a call, in case the call ends with that; `None` if it is through.
    pub(crate) fn note(&self, node: &NodeName, id: CallId, said: Option<Status>) {
        let mut state = self.state();
        let key = (node.clone(), id);
        match said {
            Some(status) if state.waiting.contains_key(&key) => {
                state.last_said.insert(key, status);
            }
            Some(_) | None => {
                state.last_said.remove(&key);
            }
        }
    }

    /// Gives the nodes whose time has come their tick.
    pub(crate) fn tick(&self) {
        let now = self.now();
        let mut state = self.state();
        let mut effects = Vec::new();
        for name in state.take_due(now) {
            if let Some(hosted) = state.nodes.get_mut(&name) {
                hosted.operating.tick(now);
                if let Some(agents) = &mut hosted.agents {
                    agents.tick(now);
                }
            }
            effects.extend(self.drain(&mut state, &name, now));
        }
        drop(state);
        self.carry_out(effects);
        self.tick_messages();
    }

    /// How long nothing is due, as far as is known: at most `longest`.
    pub(crate) fn rest(&self, longest: Duration) -> Duration {
        let next = self.state().next_deadline();
        next.map_or(longest, |next| next.since(self.now()).min(longest))
    }

    /// Carries out what the nodes want at the very beginning.
    pub(crate) fn begin(&self) {
        let now = self.now();
        let mut state = self.state();
        let names: Vec<NodeName> = state.nodes.keys().cloned().collect();
        let effects: Vec<Effect> =
            names.iter().flat_map(|name| self.drain(&mut state, name, now)).collect();
        drop(state);
        self.carry_out(effects);
    }

    /// The endpoints that take part now.
    pub(crate) fn live_endpoints(&self) -> Vec<String> {
        let state = self.state();
        let live = state.nodes.values().filter(|hosted| hosted.operating.phase() != Phase::Stopped);
        live.flat_map(|hosted| &hosted.operating.identity().endpoints)
            .map(ToString::to_string)
            .collect()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    /// Takes the outputs of one node; those that concern only this process are dealt with here.
    pub(crate) fn drain(&self, state: &mut State, node: &NodeName, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        state.touched.insert(node.clone());
        let Some(hosted) = state.nodes.get_mut(node) else { return effects };
        let mut is_down = false;
        while let Some(output) = hosted.operating.poll_output() {
            match output {
                OaOutput::Up(incarnation) => {
                    info!(member = %node, epoch = incarnation.0, "node up");
                    AGENT_ADMISSIONS.add(1);
                    let config = *lock(&self.0.group_config);
                    hosted.agents = Some(GaHost::new(node.clone(), incarnation, config));
                }
                OaOutput::Down(incarnation) => {
                    info!(member = %node, epoch = incarnation.0, "node down");
                    AGENT_DOWNS.add(1);
                    hosted.agents = None;
                    is_down = true;
                }
                OaOutput::Answered(id, answer) => {
                    let key = (node.clone(), id);
                    let said = state.last_said.remove(&key);
                    if let Some((tell, _)) = state.waiting.remove(&key) {
                        // A caller that has gone away needs no answer.
                        let _ = tell.send(tic_wire::outcome(answer, said));
                    }
                }
                OaOutput::Ended(memberships) => {
                    for ended in memberships {
                        info!(member = %node, group = %ended.group, "membership ended");
                    }
                }
                OaOutput::NodeRefused(refusal) => {
                    warn!(member = %node, error = %refusal, "node refused by the TIC");
                }
                output => effects.push(Effect::Operating(node.clone(), output)),
            }
        }
        if let Some(agents) = &mut hosted.agents {
            while let Some(output) = agents.poll_output(now) {
                if let GaOutput::Position { update, .. } = &output {
                    self.0.watchers.changed(update.gn);
                }
                effects.push(Effect::Group(node.clone(), output));
            }
        }
        effects.extend(self.pump_after(state, node, is_down));
        effects
    }
}

impl Hosts for Host {
    fn with_agents<T>(
        &self,
        node: &NodeName,
        work: impl FnOnce(&mut GaHost, Moment) -> T,
    ) -> Option<T> {
        let now = self.now();
        let mut state = self.state();
        let answer = work(state.nodes.get_mut(node)?.agents.as_mut()?, now);
        let effects = self.drain(&mut state, node, now);
        drop(state);
        self.0.stirred.notify_one();
        self.carry_out(effects);
        Some(answer)
    }

    fn address(&self) -> &str {
        &self.0.address
    }

    fn watchers(&self) -> &Watchers {
        &self.0.watchers
    }
}

/// Locks; a panic elsewhere does not make the state unusable, every input leaves it whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests;
