//! A switch that the test makes: it answers as OpenFlow says, or as badly as the test wants.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fabricast_openflow::{
    Action, Announcement, Body, BundleControl, BundleStep, ErrorMessage, Features, Field,
    FlowCommand, FlowMod, FlowStats, Framer, GroupCommand, GroupDesc, GroupFeatures, GroupMod,
    GroupStats, Hello, Instruction, Match, Message, MultipartReply, PacketIn, PacketOut, Port,
    PortChange, PortStats, PortStatus, Reply, Request, Role, RoleChange, RoleMessage, RoleStatus,
    SwitchDesc, TableFeatures, Version,
};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::super::connection::Bytes;

const IS_SLAVE: ErrorMessage = error(1, 10);
const STALE: ErrorMessage = error(11, 0);
const OUT_OF_GROUPS: ErrorMessage = error(6, 3);
const TABLE_FULL: ErrorMessage = error(5, 1);
const MSG_FAILED: ErrorMessage = error(17, 13);

const fn error(kind: u16, code: u16) -> ErrorMessage {
    ErrorMessage { kind, code, data: Vec::new() }
}

/// Ways in which a switch behaves badly, or less well than another.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    /// Versions that it speaks, as bits.
    pub(super) versions: u32,
    pub(super) has_bundles: bool,
    pub(super) has_groups: bool,
    /// It has groups of type FAST_FAILOVER.
    pub(super) has_failover: bool,
    /// Groups that it can hold, whatever it says.
    pub(super) most_groups: usize,
    /// Buckets that it keeps of a group, whatever it confirms.
    pub(super) most_buckets: usize,
    /// It refuses every second change of a group.
    pub(super) refuses_half: bool,
    /// Time before each answer to a change of a group.
    pub(super) delay: Duration,
    /// It closes the connection at the next change of a flow.
    pub(super) closes: bool,
    /// It answers nothing to these requests.
    pub(super) hides_table: bool,
    pub(super) tables: u8,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            versions: Hello::OURS.versions,
            has_bundles: true,
            has_groups: true,
            has_failover: true,
            most_groups: usize::MAX,
            most_buckets: usize::MAX,
            refuses_half: false,
            delay: Duration::ZERO,
            closes: false,
            hides_table: false,
            tables: 2,
        }
    }
}

/// Tables and ports of a switch, and its controllers.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) habits: Habits,
    pub(super) groups: BTreeMap<u32, GroupDesc>,
    pub(super) flows: Vec<FlowStats>,
    ports: BTreeMap<u32, Port>,
    /// Other ends of cables: the switch, and the port there.
    cables: BTreeMap<u32, (Weak<Mutex<Self>>, u32)>,
    pub(super) generation: Option<u64>,
    controllers: BTreeMap<usize, Controller>,
    bundles: BTreeMap<u32, Vec<Message>>,
    changes: usize,
}

#[derive(Debug)]
struct Controller {
    role: Role,
    version: Version,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
}

/// A switch with any number of connections; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Switch {
    datapath: u64,
    pub(super) model: Arc<Mutex<Model>>,
}

impl Switch {
    /// - `ports`: numbers 1 to this.
    pub(super) fn new(datapath: u64, ports: u32, habits: Habits) -> Self {
        let port = |number| (number, Port { number, name: format!("p{number}"), ..<_>::default() });
        let ports = (1..=ports).map(port).collect();
        let model = Model { habits, ports, ..Model::default() };
        Self { datapath, model: Arc::new(Mutex::new(model)) }
    }

    /// Connects to an agent until the handle is aborted, and again whenever the connection ends.
    pub(super) fn connect(&self, agent: SocketAddr) -> AbortHandle {
        let switch = self.clone();
        let task = tokio::spawn(async move {
            loop {
                let _ = switch.clone().run(agent).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        task.abort_handle()
    }

    /// Power is off and on again: groups, flows and the newest master are forgotten.
    pub(super) fn wipe(&self) {
        let mut model = self.model.lock();
        model.groups.clear();
        model.flows.clear();
        model.generation = None;
    }

    /// Sets the link of a port up or down.
    pub(super) fn set_link(&self, number: u32, is_up: bool) {
        let mut model = self.model.lock();
        let port = model.ports.get_mut(&number).unwrap();
        port.state = u32::from(!is_up);
        let port = port.clone();
        let status = Body::PortStatus(PortStatus { change: PortChange::Modified, port });
        model.controllers.values().for_each(|controller| controller.send(status.clone()));
    }

    /// Plugs a cable into a port, and into one of another switch; both then have a signal.
    pub(super) fn plug(&self, number: u32, far: &Self, far_number: u32) {
        for (near, number, far, far_number) in
            [(self, number, far, far_number), (far, far_number, self, number)]
        {
            let end = (Arc::downgrade(&far.model), far_number);
            near.model.lock().cables.insert(number, end);
            near.set_link(number, true);
        }
    }

    /// A host at a port says which endpoint it is.
    pub(super) fn announce(&self, number: u32, endpoint: &str) {
        let content = Announcement { endpoint: endpoint.to_owned() }.encode();
        let length = |more: usize| u16::try_from(content.len() + more).unwrap().to_be_bytes();
        let [a, b] = u16::try_from(number).unwrap().to_be_bytes();
        let datapath = u8::try_from(self.datapath).unwrap();
        let mut frame = vec![1, 0, 0x5e, 0, 0, 254, 2, 0, 0, datapath, a, b, 8, 0, 0x45, 0];
        frame.extend(length(28));
        frame.extend([0, 0, 0, 0, 1, 17, 0, 0, 10, 0, 0, 1]);
        frame.extend(Announcement::ADDRESS.octets());
        frame.extend([200, 1]);
        frame.extend(Announcement::PORT.to_be_bytes());
        frame.extend(length(8));
        frame.extend([0, 0]);
        frame.extend(content);
        self.model.lock().receive(number, frame);
    }

    /// Sends a packet that a controller has made.
    fn send(&self, packet: &PacketOut) {
        for action in &packet.actions {
            let Action::Output(number) = action else { continue };
            let model = self.model.lock();
            let cable = model.cables.get(number).filter(|_| model.is_up(*number)).cloned();
            drop(model); // the far switch may be sending, too
            if let Some((far, number)) = cable
                && let Some(far) = far.upgrade()
            {
                far.lock().receive(number, packet.data.clone());
            }
        }
    }

    async fn run(self, agent: SocketAddr) -> std::io::Result<()> {
        self.serve(TcpStream::connect(agent).await?).await
    }

    /// Serves an agent until the connection ends.
    pub(super) async fn serve(self, mut stream: impl Bytes) -> std::io::Result<()> {
        static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
        let own = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let (outgoing, mut waiting) = mpsc::unbounded_channel::<Vec<u8>>();
        let versions = self.model.lock().habits.versions;
        let hello = Message { xid: 1, body: Body::Hello(Hello { versions }) };
        let newest = if versions >> 5 & 1 == 1 { Version::V14 } else { Version::V13 };
        stream.write_all(&hello.encode(newest)).await?;
        let (mut framer, mut buffer) = (Framer::default(), vec![0; 65536]);
        let _leaves = Leaves { switch: self.clone(), own };
        loop {
            tokio::select! {
                count = stream.read(&mut buffer) => match count? {
                    0 => return Ok(()),
                    count => framer.push(&buffer[..count]),
                },
                Some(bytes) = waiting.recv() => stream.write_all(&bytes).await?,
            }
            while let Some(bytes) = framer.next_message().unwrap() {
                let (version, message) = Message::decode(bytes).unwrap();
                if let Body::Hello(theirs) = message.body {
                    let Some(version) = Hello { versions }.agreed(theirs) else { return Ok(()) };
                    let outgoing = outgoing.clone();
                    let controller = Controller { role: Role::Equal, version, outgoing };
                    self.model.lock().controllers.insert(own, controller);
                    continue;
                }
                let is_change = matches!(message.body, Body::GroupMod(_));
                let habits = self.model.lock().habits.clone();
                if is_change && !habits.delay.is_zero() {
                    tokio::time::sleep(habits.delay).await;
                }
                if habits.closes && matches!(message.body, Body::FlowMod(_) | Body::BundleAdd(_)) {
                    self.model.lock().habits.closes = false;
                    return Ok(());
                }
                for answer in self.answer(own, message) {
                    stream.write_all(&answer.encode(version)).await?;
                }
            }
        }
    }

    fn answer(&self, own: usize, message: Message) -> Vec<Message> {
        let Message { xid, body } = message;
        let is_slave = self.model.lock().controllers[&own].role == Role::Slave;
        if let Body::PacketOut(packet) = &body
            && !is_slave
        {
            self.send(packet);
            return vec![];
        }
        let mut model = self.model.lock();
        let bodies = match body {
            Body::FeaturesRequest => vec![Body::FeaturesReply(Features {
                datapath: self.datapath,
                tables: model.habits.tables,
                ..Features::default()
            })],
            Body::MultipartRequest(asked) => model.tell(asked.request),
            Body::RoleRequest(request) => vec![model.give_role(own, request)],
            Body::BarrierRequest => vec![Body::BarrierReply],
            Body::EchoRequest(data) => vec![Body::EchoReply(data)],
            Body::BundleControl(_)
            | Body::BundleAdd(_)
            | Body::GroupMod(_)
            | Body::FlowMod(_)
            | Body::PacketOut(_)
                if is_slave =>
            {
                vec![Body::Error(IS_SLAVE)]
            }
            Body::BundleControl(_) | Body::BundleAdd(_) if !model.habits.has_bundles => {
                vec![Body::Error(error(1, 1))]
            }
            Body::BundleControl(control) => return model.bundle(xid, control),
            Body::BundleAdd(add) => {
                let message = Message { xid, body: *add.change };
                match model.bundles.get_mut(&add.bundle) {
                    Some(bundle) => bundle.push(message),
                    None => return vec![Message { xid, body: Body::Error(error(17, 2)) }],
                }
                vec![]
            }
            change => model.change(change).err().map(Body::Error).into_iter().collect(),
        };
        bodies.into_iter().map(|body| Message { xid, body }).collect()
    }
}

impl Controller {
    fn send(&self, body: Body) {
        let _ = self.outgoing.send(Message { xid: 0, body }.encode(self.version));
    }
}

struct Leaves {
    switch: Switch,
    own: usize,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        self.switch.model.lock().controllers.remove(&self.own);
    }
}

impl Model {
    fn is_up(&self, number: u32) -> bool {
        self.ports.get(&number).is_some_and(Port::is_live)
    }

    /// Takes a frame in: hands it to the controllers, if a flow says so.
    fn receive(&self, number: u32, data: Vec<u8>) {
        let kind = Field::EthType(u16::from_be_bytes([data[12], data[13]]));
        let all = [Instruction::Apply(vec![Action::Controller])];
        let hands_over =
            |flow: &FlowStats| flow.conditions.fields.contains(&kind) && flow.instructions == all;
        if !self.is_up(number) || !self.flows.iter().any(hands_over) {
            return;
        }
        let packet = Body::PacketIn(PacketIn {
            buffer: u32::MAX,
            total_length: u16::try_from(data.len()).unwrap(),
            reason: 1,
            table: 0,
            cookie: 0,
            conditions: Match { fields: vec![Field::InPort(number)] },
            data,
        });
        self.controllers.values().for_each(|controller| controller.send(packet.clone()));
    }

    fn give_role(&mut self, own: usize, request: RoleMessage) -> Body {
        let RoleMessage { role, generation } = request;
        if role == Role::Master {
            if self.generation.is_some_and(|known| known > generation) {
                return Body::Error(STALE);
            }
            self.generation = Some(generation);
            for (_, other) in self.controllers.iter_mut().filter(|(at, _)| **at != own) {
                if other.role == Role::Master {
                    other.role = Role::Slave;
                    if other.version == Version::V14 {
                        let (role, change) = (Role::Slave, RoleChange::MasterRequest);
                        other.send(Body::RoleStatus(RoleStatus { role, change, generation }));
                    }
                }
            }
        }
        let controller = self.controllers.get_mut(&own).unwrap();
        if role != Role::NoChange {
            controller.role = role;
        }
        let generation = self.generation.unwrap_or(u64::MAX);
        Body::RoleReply(RoleMessage { role: controller.role, generation })
    }

    fn bundle(&mut self, xid: u32, control: BundleControl) -> Vec<Message> {
        let (step, mut answers) = (control.step, Vec::new());
        let done = match step {
            BundleStep::Open => {
                self.bundles.insert(control.bundle, Vec::new());
                Some(BundleStep::Opened)
            }
            BundleStep::Commit => {
                let messages = self.bundles.remove(&control.bundle).unwrap_or_default();
                let (groups, flows) = (self.groups.clone(), self.flows.clone());
                let failed = messages
                    .into_iter()
                    .find_map(|message| Some((message.xid, self.change(message.body).err()?)));
                match failed {
                    None => Some(BundleStep::Committed),
                    Some((xid, error)) => {
                        (self.groups, self.flows) = (groups, flows);
                        answers.push(Message { xid, body: Body::Error(error) });
                        None
                    }
                }
            }
            _ => {
                self.bundles.remove(&control.bundle);
                Some(BundleStep::Discarded)
            }
        };
        let body = match done {
            Some(step) => Body::BundleControl(BundleControl { step, ..control }),
            None => Body::Error(MSG_FAILED),
        };
        answers.push(Message { xid, body });
        answers
    }

    fn change(&mut self, change: Body) -> Result<(), ErrorMessage> {
        match change {
            Body::GroupMod(change) => self.change_group(change),
            Body::FlowMod(change) => {
                self.change_flow(&change);
                Ok(())
            }
            _ => Err(error(1, 1)),
        }
    }

    fn change_group(&mut self, change: GroupMod) -> Result<(), ErrorMessage> {
        let GroupMod { command, kind, group, mut buckets } = change;
        self.changes += 1;
        if self.habits.refuses_half && self.changes.is_multiple_of(2) {
            return Err(TABLE_FULL);
        }
        let is_known = self.groups.contains_key(&group);
        match command {
            GroupCommand::Add if is_known => return Err(error(6, 0)),
            GroupCommand::Modify if !is_known => return Err(error(6, 8)),
            GroupCommand::Add if self.groups.len() >= self.habits.most_groups => {
                return Err(OUT_OF_GROUPS);
            }
            GroupCommand::Delete => {
                self.groups.remove(&group);
                self.flows.retain(|flow| group_of(flow) != Some(group));
                return Ok(());
            }
            GroupCommand::Add | GroupCommand::Modify => {}
        }
        buckets.truncate(self.habits.most_buckets);
        self.groups.insert(group, GroupDesc { kind, group, buckets });
        Ok(())
    }

    fn change_flow(&mut self, change: &FlowMod) {
        self.flows.retain(|flow| {
            (flow.priority, &flow.conditions) != (change.priority, &change.conditions)
        });
        if change.command == FlowCommand::Add {
            self.flows.push(FlowStats {
                table: change.table,
                seconds: 0,
                nanoseconds: 0,
                priority: change.priority,
                idle_timeout: 0,
                hard_timeout: 0,
                flags: 0,
                importance: 0,
                cookie: change.cookie,
                packets: 0,
                bytes: 0,
                conditions: change.conditions.clone(),
                instructions: change.instructions.clone(),
            });
        }
    }

    fn tell(&self, request: Request) -> Vec<Body> {
        let reply = match request {
            Request::Desc => Reply::Desc(SwitchDesc::default()),
            Request::GroupFeatures if self.habits.has_groups => {
                let (types, max_groups) =
                    (7 | u32::from(self.habits.has_failover) << 3, [1_000; 4]);
                Reply::GroupFeatures(GroupFeatures { types, max_groups, ..<_>::default() })
            }
            Request::TableFeatures => {
                let table = |table| TableFeatures { table, max_entries: 1_000, ..<_>::default() };
                Reply::TableFeatures((0..self.habits.tables).map(table).collect())
            }
            Request::Ports => Reply::Ports(self.ports.values().cloned().collect()),
            Request::Flows(_) | Request::Groups if self.habits.hides_table => return vec![],
            // In two parts, as a long table comes.
            Request::Flows(_) => {
                let (one, other) = self.flows.split_at(self.flows.len() / 2);
                let part = |more, flows: &[FlowStats]| {
                    let reply = Reply::Flows(flows.to_vec());
                    Body::MultipartReply(MultipartReply { more, reply })
                };
                return vec![part(true, one), part(false, other)];
            }
            Request::Groups => Reply::Groups(self.groups.values().cloned().collect()),
            Request::GroupStats(group) => {
                let known = self.groups.get(&group);
                let led = self.flows.iter().filter(|flow| group_of(flow) == Some(group)).count();
                let stats = |known: &GroupDesc| GroupStats {
                    group,
                    references: u32::try_from(led).unwrap(),
                    buckets: vec![(0, 0); known.buckets.len()],
                    ..GroupStats::default()
                };
                Reply::GroupStats(known.map(stats).into_iter().collect())
            }
            Request::PortStats(_) => {
                let stats = |number: &u32| PortStats {
                    number: *number,
                    received_packets: u64::from(*number) * 10,
                    received_dropped: u64::MAX,
                    sent_dropped: 3,
                    ..PortStats::default()
                };
                Reply::PortStats(self.ports.keys().map(stats).collect())
            }
            _ => return vec![Body::Error(error(1, 2))],
        };
        vec![Body::MultipartReply(MultipartReply { more: false, reply })]
    }
}

fn group_of(flow: &FlowStats) -> Option<u32> {
    flow.instructions.iter().find_map(|instruction| match instruction {
        Instruction::Apply(actions) => actions.iter().find_map(|action| match action {
            Action::Group(group) => Some(*group),
            _ => None,
        }),
        _ => None,
    })
}
