//! One membership whose message layer runs in this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::{Moment, Pn, Revision};
use fabricast_messages::{
    Body, Frame, Limits, MemberId, MessageLayer, Output, Place, PlaceNeighbor,
};
use fabricast_proto::v1;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tonic::Streaming;

use super::connection::{Connection, EdgeKey, GREETING_TIMEOUT, Greeting, append_frame};
use super::edge::{Arrival, Edge, Token};
use super::part::OpenPart;
use crate::Error;
use crate::part_state::End;

/// Delays between attempts to connect to a neighbour.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LAST_DELAY: Duration = Duration::from_secs(30);
/// Time in which what was sent leaves this process.
const SENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time until edges that begin anew are looked at again.
const UNSETTLED: Duration = Duration::from_millis(2);
/// Bytes given to the agent after which it is asked whether it has taken them.
const MARKED: u64 = 1 << 20;
/// Bytes that may wait for the agent before best-effort frames are dropped.
const MAX_CARRIED: u64 = 64 << 20;
/// Bytes of a frame beside its body.
const OVERHEAD: u64 = 128;

/// A membership, and the message layer of its member.
#[derive(Debug)]
pub(crate) struct DirectMember {
    group: Arc<str>,
    id: MemberId,
    /// Where this process listens; empty if it does not.
    address: String,
    begun: Instant,
    state: Mutex<State>,
    /// Notified when the layer has an earlier deadline than before.
    earlier: Notify,
    /// Notified when there is room to send, and at the end.
    pub(super) room: Notify,
    pub(super) standing: watch::Sender<Standing>,
    tasks: Mutex<JoinSet<()>>,
}

/// A membership at its agent.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) group: Arc<str>,
    pub(super) id: MemberId,
    /// Where this process listens; empty if it does not.
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

/// All that the lock protects.
#[derive(Debug)]
pub(super) struct State {
    pub(super) layer: MessageLayer,
    pub(super) open: Option<OpenPart>,
    edges: BTreeMap<Pn, Edge>,
    requests: mpsc::UnboundedSender<v1::OpenDirectPathRequest>,
    needs_links: bool,
    wakes_at: Option<Moment>,
    carried: Carried,
}

/// Bytes of frames that were given to the agent, all since the beginning.
#[derive(Debug, Default)]
struct Carried {
    given: u64,
    /// Given before the last mark.
    marked: u64,
    last_mark: u64,
    /// The marks that the agent has not repeated, with what was given before each.
    marks: BTreeMap<u64, u64>,
    taken: u64,
}

impl DirectMember {
    /// Follows the agent's responses from now on.
    pub(super) fn start(
        wiring: Wiring,
        responses: Streaming<v1::OpenDirectPathResponse>,
    ) -> Arc<Self> {
        let Wiring { group, id, address, requests } = wiring;
        let node = NodeName::new("this process").expect("a short text");
        let state = State {
            layer: MessageLayer::new(node, Limits::default()),
            open: None,
            edges: BTreeMap::new(),
            requests,
            needs_links: false,
            wakes_at: None,
            carried: Carried::default(),
        };
        let member = Arc::new(Self {
            group,
            id,
            address,
            begun: Instant::now(),
            state: Mutex::new(state),
            earlier: Notify::new(),
            room: Notify::new(),
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
        self.with(|state, now| {
            if let Some(place) = place {
                state.place(now, self.id, place);
            }
            for frame in frames {
                to_dial.extend(state.carried_frame(now, self.id, frame));
            }
        });
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
            if let Ok(Ok((stream, number))) = greeted
                && let Ok(connection) = Connection::new(stream)
            {
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
        let take = |frames: Vec<Body>| {
            self.with(|state, now| {
                let edge = state.edges.get(&pn).filter(|edge| edge.uses(connection));
                let Some(name) = edge.map(|edge| edge.name.clone()) else { return false };
                for body in frames {
                    let frame = Frame { gn: self.id.gn, from: pn, to: self.id.pn, body };
                    state.layer.frame(now, &name, frame);
                }
                true
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

    /// Waits until everything that this member owes its neighbours is out of this process, so that
    /// it gets to them even if the process ends at once. Gives up after a second.
    pub(super) async fn wait_until_sent(&self) {
        let sent = async {
            self.wait_for_frames().await;
            while !self.is_settled() {
                sleep(UNSETTLED).await; // an edge begins anew
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
                Output::Disconnect { .. } | Output::Withdraw { .. } | Output::Multicast { .. } => {}
                Output::Deliver { .. } | Output::Acknowledged { .. } | Output::Ended { .. } => {
                    if let Some(open) = &mut state.open {
                        open.take(output);
                    }
                }
            }
        }
        for edge in state.edges.values_mut() {
            edge.flush();
        }
    }
}

impl Carried {
    /// Bytes that the agent may not have taken.
    fn waiting(&self) -> u64 {
        self.given - self.taken
    }

    fn taken_up_to(&mut self, mark: u64) {
        let later = self.marks.split_off(&(mark.saturating_add(1)));
        if let Some((_, given)) = std::mem::replace(&mut self.marks, later).pop_last() {
            self.taken = given;
        }
    }
}

impl State {
    /// Takes the member's place and the agents' links to its neighbours.
    fn place(&mut self, now: Moment, id: MemberId, place: v1::DirectPlace) {
        let v1::DirectPlace { joined_revision, parent, children, wake, .. } = place;
        let mut old = std::mem::take(&mut self.edges);
        for one in parent.iter().chain(&children) {
            let same = old.remove(&Pn(one.pn)).filter(|edge| edge.node == one.node);
            self.edges.insert(Pn(one.pn), same.unwrap_or_else(|| Edge::new(&one.node)));
        }
        old.values_mut().for_each(Edge::close);
        let neighbor = |one: &v1::DirectNeighbor| PlaceNeighbor {
            pn: Pn(one.pn),
            node: self.edges[&Pn(one.pn)].name.clone(),
            address: Address::new("direct").expect("a short text"),
        };
        let place = Place {
            gn: id.gn,
            pn: id.pn,
            life: Revision(joined_revision),
            parent: parent.as_ref().map(neighbor),
            children: children.iter().map(neighbor).collect(),
            multicast: false,
        };
        self.layer.place(now, place);
        for one in parent.iter().chain(&children) {
            let Some(edge) = self.edges.get_mut(&Pn(one.pn)) else { continue };
            if std::mem::replace(&mut edge.link, one.link) == one.link || edge.connection.is_some()
            {
                continue;
            }
            self.layer.link_down(now, &edge.name);
            if edge.link != 0 {
                self.layer.link_up(now, &edge.name);
            }
        }
        if wake {
            self.layer.wake(now, id);
        }
    }

    /// Takes a frame that the agents have carried; returns the edge that is to be dialed.
    fn carried_frame(
        &mut self,
        now: Moment,
        id: MemberId,
        wire: v1::LinkFrame,
    ) -> Option<(Pn, NodeName)> {
        let v1::LinkFrame { gn, from_pn, to_pn, body, direct } = wire;
        let (from, body) = (Pn(from_pn), Body::decode(&body).ok()?);
        if (gn, to_pn) != (id.gn.0, id.pn.0) {
            return None;
        }
        let edge = self.edges.get_mut(&from)?;
        let before = (edge.connection.is_some(), edge.connections);
        let arrival = edge.note(direct, &body);
        if before != (edge.connection.is_some(), edge.connections) {
            // The neighbour has dropped what it got over a connection, or before one.
            self.layer.link_down(now, &edge.name);
            if edge.is_up() {
                self.layer.link_up(now, &edge.name);
            }
        }
        let is_to_be_dialed = !edge.is_dialing && edge.is_to_be_dialed(id.pn, from);
        edge.is_dialing |= is_to_be_dialed;
        let name = edge.name.clone();
        if arrival == Arrival::Current {
            self.layer.frame(now, &name, Frame { gn: id.gn, from, to: id.pn, body });
        }
        is_to_be_dialed.then_some((from, name))
    }

    /// Sends a frame by the connection to its receiver, or else by the agents.
    fn send(&mut self, frame: &Frame, address: &str) {
        let Some(edge) = self.edges.get_mut(&frame.to) else { return };
        if edge.connection.is_some() {
            append_frame(&mut edge.outgoing, &frame.body);
        } else if edge.link != 0 {
            let carried = edge.carried(frame, address);
            let bytes = carried.frame.as_ref().map_or(0, |frame| frame.body.len());
            if matches!(frame.body, Body::BestEffort(_)) && self.carried.waiting() > MAX_CARRIED {
                return; // it may be lost, and the agent takes no more
            }
            self.carried.given += OVERHEAD + u64::try_from(bytes).unwrap_or(u64::MAX);
            let frames = vec![carried];
            // A membership that has ended sends nothing any more.
            let _ = self.requests.send(v1::OpenDirectPathRequest { frames, ..Default::default() });
            if self.carried.given - self.carried.marked > MARKED {
                self.mark();
            }
        }
    }

    /// Asks the agent to say when it has taken all frames so far, unless it is asked already.
    fn mark(&mut self) {
        let carried = &mut self.carried;
        if carried.given == carried.marked {
            return;
        }
        carried.marked = carried.given;
        carried.last_mark += 1;
        carried.marks.insert(carried.last_mark, carried.given);
        let mark = carried.last_mark;
        let _ = self.requests.send(v1::OpenDirectPathRequest { mark, ..Default::default() });
    }

    /// Has the agents link the nodes, once.
    fn need_links(&mut self) {
        if !std::mem::replace(&mut self.needs_links, true) {
            let request = v1::OpenDirectPathRequest { needs_links: true, ..Default::default() };
            let _ = self.requests.send(request);
        }
    }
}
