//! One membership whose message layer runs in this process.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::names::NodeName;
use fabricast_groups::{Moment, Pn};
use fabricast_messages::{Limits, MemberId, MessageLayer, Output};
use fabricast_proto::v1;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tonic::Streaming;

use super::connection::{Connection, EdgeKey, GREETING_TIMEOUT, Greeting, Received};
use super::edge::{Edge, Token};
use super::multicast::{self, GroupSocket};
use super::state::State;
use crate::Error;
use crate::part_state::End;

/// Delays between attempts to connect to a neighbour.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LAST_DELAY: Duration = Duration::from_secs(30);
/// Time in which what was sent leaves this process.
const SENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time until edges that begin anew are looked at again.
const UNSETTLED: Duration = Duration::from_millis(2);

/// Time for which a neighbour that has missed a packet gets everything over its connection, too: a
/// socket that hears nothing is noticed by itself.
const MISTRUST: Duration = Duration::from_millis(200);
/// A socket of the multicast connection is looked after at least this often.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A membership, and the message layer of its member.
#[derive(Debug)]
pub(crate) struct DirectMember {
    group: Arc<str>,
    id: MemberId,
    /// Address where this process listens; empty if it does not.
    address: String,
    begun: Instant,
    state: Mutex<State>,
    /// Notified when the layer has an earlier deadline than before.
    earlier: Notify,
    /// Notified when there is room to send, and at the end.
    pub(super) room: Notify,
    /// Notified when an edge or an announcement may have been settled.
    settled: Notify,
    pub(super) standing: watch::Sender<Standing>,
    tasks: Mutex<JoinSet<()>>,
}

/// A membership at its agent.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) group: Arc<str>,
    pub(super) id: MemberId,
    /// Address where this process listens; empty if it does not.
    pub(super) address: String,
    pub(super) requests: mpsc::UnboundedSender<v1::OpenDirectPathRequest>,
}

/// A neighbour that is to be connected to.
struct Target {
    address: String,
    greeting: Greeting,
    key: EdgeKey,
}

/// A connection that a neighbour may make.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) edge: NodeName,
    pub(super) key: EdgeKey,
    pub(super) number: u64,
}

/// State of a membership, as the agent has told.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub(super) has_place: bool,
    /// Number of the last request that the agent has said to have taken.
    mark: u64,
    pub(super) end: Option<End>,
}

impl DirectMember {
    /// Follows the agent's responses from now on.
    pub(super) fn start(
        wiring: Wiring,
        responses: Streaming<v1::OpenDirectPathResponse>,
    ) -> Arc<Self> {
        let Wiring { group, id, address, requests } = wiring;
        let node = NodeName::new("this process").expect("a short text");
        let limits = Limits { relies_on_multicast: true, mistrust: MISTRUST, ..Limits::default() };
        let state = State::new(MessageLayer::new(node, limits), requests);
        let member = Arc::new(Self {
            group,
            id,
            address,
            begun: Instant::now(),
            state: Mutex::new(state),
            earlier: Notify::new(),
            room: Notify::new(),
            settled: Notify::new(),
            standing: watch::Sender::default(),
            tasks: Mutex::default(),
        });
        member.spawn(Arc::clone(&member).follow(responses));
        member.spawn(Arc::clone(&member).keep_time());
        member
    }

    pub(super) fn id(&self) -> MemberId {
        self.id
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    /// Counts the neighbours that this process has a connection to.
    pub(crate) fn connections(&self) -> usize {
        self.state.lock().edges.values().filter(|edge| edge.connection.is_some()).count()
    }

    /// True if the fabric's multicast connection reaches this process.
    pub(crate) fn hears_multicast(&self) -> bool {
        self.state.lock().multicast.is_heard()
    }

    /// Sends neighbours what they would have to ask for, before the membership ends.
    pub(crate) fn confirm(&self) {
        self.with(|state, now| state.layer.confirm(now, self.id));
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.standing.borrow().end.is_some()
    }

    /// The reason for which the membership has ended; `None` if it has not.
    pub(super) fn end_error(&self) -> Option<Error> {
        let end = self.standing.borrow().end.clone();
        end.map(|end| end.into_error(&self.group))
    }

    /// Ends all tasks: the process is detached, or the membership has ended.
    pub(crate) fn stop(&self, end: End) {
        self.end(end);
        self.tasks.lock().abort_all();
    }

    /// Gives the layer an input, and deals with what comes of it.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State, Moment) -> T) -> T {
        let mut state = self.state.lock();
        let now = self.now();
        let result = work(&mut state, now);
        self.drain(&mut state, now);
        let next = state.layer.next_deadline();
        if next.is_some_and(|next| state.wakes_at.is_none_or(|at| next < at)) {
            state.wakes_at = next;
            self.earlier.notify_one();
        }
        result
    }

    fn now(&self) -> Moment {
        Moment(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Ticks the layer whenever it is due, until the membership ends.
    async fn keep_time(self: Arc<Self>) {
        while !self.has_ended() {
            let next = {
                let mut state = self.state.lock();
                state.wakes_at = state.layer.next_deadline();
                state.wakes_at
            };
            let due = async {
                match next {
                    Some(at) => sleep_until(self.begun + Duration::from_nanos(at.0)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => self.with(|state, now| state.layer.tick(now)),
                () = self.earlier.notified() => {}
            }
        }
    }

    /// Takes what the agent sends, until the membership or the session ends.
    async fn follow(self: Arc<Self>, mut responses: Streaming<v1::OpenDirectPathResponse>) {
        let end = loop {
            match responses.message().await {
                Ok(Some(response)) => self.take(response),
                Ok(None) => break End::Closed,
                Err(error) => break End::Failed(error.into()),
            }
        };
        self.end(end);
    }

    fn end(&self, end: End) {
        self.standing.send_modify(|standing| _ = standing.end.get_or_insert_with(|| end.clone()));
        let mut state = self.state.lock();
        if let Some(open) = state.open.take() {
            open.end(end);
        }
        std::mem::take(&mut state.edges).values_mut().for_each(Edge::close);
        state.multicast = Default::default();
        let (now, MemberId { gn, pn }) = (self.now(), self.id);
        state.layer.close(now, gn, pn); // nothing begins any more
        state.layer.remove(now, gn, pn);
        while state.layer.poll_output().is_some() {}
        drop(state);
        self.earlier.notify_one();
        self.room.notify_waiters();
    }

    fn take(self: &Arc<Self>, response: v1::OpenDirectPathResponse) {
        let v1::OpenDirectPathResponse { place, frames, mark } = response;
        if mark != 0 {
            self.state.lock().carried.taken_up_to(mark);
            self.standing.send_modify(|standing| standing.mark = mark);
        }
        let mut to_dial = Vec::new();
        let has_place = place.is_some();
        let socket = self.with(|state, now| {
            let socket = place.and_then(|place| state.place(now, self.id, place));
            for frame in frames {
                to_dial.extend(state.carried_frame(now, self.id, frame));
            }
            socket
        });
        if let Some(socket) = socket {
            self.spawn(Arc::clone(self).hear(socket));
        }
        if has_place {
            self.standing
                .send_if_modified(|standing| !std::mem::replace(&mut standing.has_place, true));
        }
        for (pn, name) in to_dial {
            self.spawn(Arc::clone(self).dial(pn, name));
        }
    }

    /// Connects to a neighbour, again and again, for as long as it can be reached by no connection.
    async fn dial(self: Arc<Self>, pn: Pn, name: NodeName) {
        let mut delay = FIRST_DELAY;
        while let Some(Target { address, greeting, key }) = self.target(pn, &name) {
            let greeted = timeout(GREETING_TIMEOUT, greeting.send(&key, &address)).await;
            if let Ok(Ok((connection, number))) = greeted {
                let connection = Arc::new(connection);
                if self.connected(pn, &name, &connection, number) {
                    delay = FIRST_DELAY;
                    self.serve(pn, &connection).await;
                }
            }
            sleep(delay).await;
            delay = (delay * 2).min(LAST_DELAY);
        }
    }

    /// The neighbour that is to be connected to, if it still is.
    fn target(&self, pn: Pn, name: &NodeName) -> Option<Target> {
        let mut state = self.state.lock();
        let edge = state.edges.get_mut(&pn).filter(|edge| edge.name == *name)?;
        edge.is_dialing = edge.is_to_be_dialed(self.id.pn, pn);
        let peer = edge.peer.as_ref().filter(|_| edge.is_dialing)?;
        let (gn, from, number) = (self.id.gn, self.id.pn, edge.connections.saturating_add(1));
        let (nonce, key) = (Token::random().ok(), edge.key(from, pn));
        let target = nonce.zip(key).map(|(nonce, key)| Target {
            address: peer.address.clone(),
            greeting: Greeting { gn, from, to: pn, number, nonce },
            key,
        });
        edge.is_dialing = target.is_some();
        target
    }

    /// The edge that a greeting is for, the key that it must prove to know, and the number of the
    /// connection; `None` if there is no such edge.
    pub(super) fn expects(&self, greeting: &Greeting) -> Option<Expected> {
        let state = self.state.lock();
        let edge = state.edges.get(&greeting.from).filter(|_| greeting.from < self.id.pn)?;
        let key = edge.key(self.id.pn, greeting.from)?;
        let number = greeting.number.max(edge.connections.saturating_add(1));
        Some(Expected { edge: edge.name.clone(), key, number })
    }

    /// Serves a connection that a neighbour has made.
    pub(super) fn accepted(
        self: &Arc<Self>,
        pn: Pn,
        edge: &NodeName,
        connection: Arc<Connection>,
        number: u64,
    ) {
        if self.connected(pn, edge, &connection, number) {
            let member = Arc::clone(self);
            self.spawn(async move { member.serve(pn, &connection).await });
        }
    }

    /// Begins an edge anew on a connection; returns false if the edge is no more, or has a later
    /// one.
    fn connected(
        &self,
        pn: Pn,
        name: &NodeName,
        connection: &Arc<Connection>,
        number: u64,
    ) -> bool {
        self.with(|state, now| {
            let edge = state.edges.get_mut(&pn).filter(|edge| edge.name == *name);
            let Some(edge) = edge.filter(|edge| edge.connections < number) else { return false };
            edge.connections = number;
            edge.outgoing.clear();
            edge.told_key = None;
            if let Some(earlier) = edge.connection.replace(Arc::clone(connection)) {
                earlier.close();
            }
            state.layer.link_down(now, name);
            state.layer.link_up(now, name);
            true
        })
    }

    /// Takes the frames of a connection until it breaks; then the edge begins anew over the agents.
    async fn serve(&self, pn: Pn, connection: &Arc<Connection>) {
        let take = |received: Vec<Received>| {
            self.with(|state, now| {
                let is_used = state.edges.get(&pn).is_some_and(|edge| edge.uses(connection));
                for one in received.into_iter().filter(|_| is_used) {
                    state.received(now, self.id, pn, one);
                }
                is_used
            })
        };
        // However it has ended, the edge goes on without it.
        let _ = connection.serve(take).await;
        connection.close();
        self.with(|state, now| {
            let edge = state.edges.get_mut(&pn).filter(|edge| edge.uses(connection));
            let Some(edge) = edge else { return };
            edge.connection = None;
            let (name, is_up) = (edge.name.clone(), edge.is_up());
            state.layer.link_down(now, &name);
            if is_up {
                state.layer.link_up(now, &name);
            }
        });
    }

    /// Takes the packets of a socket of the multicast connection, as long as it is in use.
    async fn hear(self: Arc<Self>, socket: Arc<GroupSocket>) {
        let mut buffer = multicast::buffer();
        loop {
            let due = {
                let state = self.state.lock();
                if !state.multicast.uses(&socket) {
                    return;
                }
                state.multicast.next_tick(state.is_root()).unwrap_or_default()
            };
            let due = self.begun + Duration::from_nanos(due.0);
            let latest = Instant::now() + LOOK_AGAIN;
            let packets = tokio::select! {
                packets = socket.receive(&mut buffer) => match packets {
                    Ok(packets) => packets,
                    Err(_) => {
                        sleep(LOOK_AGAIN).await;
                        Vec::new()
                    }
                },
                () = sleep_until(due.min(latest)) => Vec::new(),
            };
            self.with(|state, now| state.heard(now, self.id, &packets));
        }
    }

    /// Waits until everything that this member owes its neighbours is out of this process, so that
    /// it gets to them even if the process ends at once. Gives up after a second.
    pub(super) async fn wait_until_sent(&self) {
        let sent = async {
            self.wait_for_frames().await;
            while !self.is_settled() {
                // An edge begins anew, or the multicast connection has no room yet.
                let _ = timeout(UNSETTLED, self.settled.notified()).await;
                self.wait_for_frames().await;
            }
        };
        let _ = timeout(SENT_TIMEOUT, sent).await;
    }

    fn is_settled(&self) -> bool {
        let state = self.state.lock();
        self.has_ended() || state.layer.is_settled(self.id)
    }

    /// Waits until the agent has taken the frames so far, and connections keep none.
    async fn wait_for_frames(&self) {
        let (mark, connections) = {
            let mut state = self.state.lock();
            state.mark();
            let connected = state.edges.values().filter_map(|edge| edge.connection.clone());
            (state.carried.last_mark, connected.collect::<Vec<_>>())
        };
        let mut standing = self.standing.subscribe();
        let _ = standing.wait_for(|now| now.mark >= mark || now.end.is_some()).await;
        for connection in connections {
            connection.wait_until_sent().await;
        }
    }

    /// Deals with the outputs of the layer.
    fn drain(&self, state: &mut State, now: Moment) {
        while let Some(output) = state.layer.poll_output() {
            match output {
                Output::Frame { frame, .. } => state.send(&frame, &self.address),
                Output::Connect { .. } => state.need_links(),
                Output::Room { .. } => self.room.notify_waiters(),
                Output::Roster { gn, pn } => {
                    let roster = state.layer.roster(gn, pn);
                    if let (Some(open), Some(roster)) = (&state.open, roster) {
                        open.tell_roster(roster.into_keys());
                    }
                }
                Output::Combine { run, .. } => {
                    state.layer.combined(now, self.id, run.sequence, None); // no switch is offered
                }
                Output::Multicast { packet, .. } => {
                    state.multicast.queue(self.id.pn, &packet.encode());
                }
                Output::Disconnect { .. } | Output::Withdraw { .. } => {}
                Output::Deliver { .. } | Output::Acknowledged { .. } | Output::Ended { .. } => {
                    if let Some(open) = &mut state.open {
                        open.take(output);
                    }
                }
            }
        }
        state.flush(self.id);
        if state.layer.is_settled(self.id) {
            self.settled.notify_waiters();
        }
    }
}
