//! The first exchanges with a switch: version, features, room, ports, table.

use std::sync::Arc;
use std::time::Duration;

use fabricast_openflow::{
    AsyncMessages, Body, BundleControl, BundleStep, CONTROLLER_FLOWS, ErrorMessage, Features,
    Fence, Framer, GroupType, Hello, Mapping, Message, MultipartReply, Reply, Request,
    SwitchCapacity, SwitchDesc, Version, bundle_flags,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::connection::{Answer, Bytes, Closed, Connection};
use super::session::{Abilities, Session, Table, WriteError};
use super::switches::{Switches, Unfit};
use super::watched::Watched;

/// Error to a switch with which no version is agreed: `HELLO_FAILED`, `INCOMPATIBLE`.
const INCOMPATIBLE: ErrorMessage = ErrorMessage { kind: 0, code: 0, data: Vec::new() };

/// A switch that can be used.
pub(super) struct Introduced {
    pub(super) session: Arc<Session>,
    /// Fence that was found in the switch.
    pub(super) fence: Option<Fence>,
}

/// A switch that cannot be used.
pub(super) struct Rejected {
    /// Its node id, if that was found out.
    pub(super) node: Option<String>,
    pub(super) reason: Unfit,
}

impl<T: Into<Unfit>> From<T> for Rejected {
    fn from(reason: T) -> Self {
        Self { node: None, reason: reason.into() }
    }
}

/// Answers of a switch about itself.
struct Introduction {
    features: Features,
    desc: SwitchDesc,
    /// Most groups of type ALL, and of type FAST_FAILOVER.
    groups: [u32; 2],
    /// `None` if the switch has no such table.
    flows: Option<u32>,
}

/// Finds out which switch is at the other end, and what it offers and holds.
pub(super) async fn introduce(
    mut stream: impl Bytes,
    switches: &Arc<Switches>,
    limit: Duration,
) -> Result<Introduced, Rejected> {
    let mut framer = Framer::default();
    let hello = timeout(limit, greet(&mut stream, &mut framer)).await;
    let version = hello.map_err(|_elapsed| Closed::Late(limit))??;
    let watched = Arc::new(Watched::default());
    let listener = {
        let (watched, switches) = (Arc::clone(&watched), Arc::clone(switches));
        move |body: &Body| switches.follow(&watched, body)
    };
    let connection = Connection::start(stream, framer, version, limit, Arc::new(listener));
    let closing = connection.clone();
    let introduced = ask(connection, watched, switches).await;
    if introduced.is_err() {
        closing.close(Closed::ByAgent);
    }
    introduced
}

async fn ask(
    connection: Connection,
    watched: Arc<Watched>,
    switches: &Switches,
) -> Result<Introduced, Rejected> {
    let table = switches.mapping().table;
    // Frames of neighbors come by two flows of their own.
    let (messages, own_flows) = match switches.neighbors() {
        Some(_) => (AsyncMessages::WITH_PACKETS, CONTROLLER_FLOWS),
        None => (AsyncMessages::PORTS_AND_ROLES, 0),
    };
    let told = introduction(&connection, table, messages).await?;
    let datapath = told.features.datapath;
    let name = switches.node(datapath).ok_or(Unfit::Unknown { datapath })?;
    let rejected = |reason| Rejected { node: Some(name.clone()), reason };
    if let Ok(known) = switches.session(&name) {
        // The other one may have died without a word; then this question ends it.
        if known.connection.exchange(&[]).await.is_ok() {
            return Err(rejected(Unfit::Twice { datapath }));
        }
    }
    let [groups, failover_groups] = told.groups;
    if groups == 0 {
        return Err(rejected(Unfit::NoGroups));
    }
    if switches.mapping().fault_tolerant && failover_groups == 0 {
        return Err(rejected(Unfit::NoFailover));
    }
    let flows = told.flows.ok_or_else(|| rejected(Unfit::NoTable { table }))?;
    let endpoint_ports = switches.endpoint_ports(&name);
    let mapping = Mapping { endpoint_ports, ..*switches.mapping() };
    let ports = match switches.ports(&name) {
        0 => watched.last_port(), // it is not in the topology yet
        ports => ports,
    };
    let capacity =
        SwitchCapacity { ports, groups, failover_groups, flows: flows.saturating_sub(own_flows) };
    let colors = mapping.colors_within(capacity);
    if colors == 0 {
        return Err(rejected(Unfit::NoRoom(capacity)));
    }
    let bundles = has_bundles(&connection).await.map_err(|closed| rejected(closed.into()))?;
    let version = connection.version();
    let abilities = Abilities { capacity, bundles };
    let table = Table { mapping, programs: switches.programs() };
    let session = Session::new(name.clone(), connection, table, abilities, watched);
    let found = session.read().await.map_err(|error| match error {
        WriteError::Closed(closed) => rejected(closed.into()),
        _ => rejected(Unfit::Silent { what: "groups and flows" }),
    })?;
    let (software, hardware) = (told.desc.software, told.desc.hardware);
    tracing::info!(
        switch = name,
        ?version,
        bundles,
        groups,
        flows,
        colors,
        entries = found.entries.len(),
        software,
        hardware,
        "switch connected"
    );
    Ok(Introduced { session: Arc::new(session), fence: found.fence })
}

/// Agrees on a version.
async fn greet(stream: &mut impl Bytes, framer: &mut Framer) -> Result<Version, Unfit> {
    let ours = Message { xid: 1, body: Body::Hello(Hello::OURS) }.encode(Version::V14);
    let broken = |error: std::io::Error| Closed::Broken(error.to_string());
    stream.write_all(&ours).await.map_err(broken)?;
    let mut buffer = [0; 4096];
    loop {
        if let Some(bytes) = framer.next_message().map_err(Closed::from)? {
            let (_, message) = Message::decode(bytes).map_err(Closed::from)?;
            let Body::Hello(theirs) = message.body else { return Err(Unfit::Version) };
            if let Some(version) = Hello::OURS.agreed(theirs) {
                return Ok(version);
            }
            let refusal = Message { xid: message.xid, body: Body::Error(INCOMPATIBLE) };
            stream.write_all(&refusal.encode(Version::V13)).await.map_err(broken)?;
            return Err(Unfit::Version);
        }
        match stream.read(&mut buffer).await.map_err(broken)? {
            0 => return Err(Closed::ByPeer.into()),
            count => framer.push(&buffer[..count]),
        }
    }
}

/// - `messages`: those that the switch is to send unasked.
async fn introduction(
    connection: &Connection,
    table: u8,
    messages: AsyncMessages,
) -> Result<Introduction, Unfit> {
    let asked = [
        Request::Desc,
        Request::GroupFeatures,
        Request::TableFeatures,
        Request::Ports, // the listener takes the answer
    ];
    // On its own socket, Open vSwitch tells nothing unasked by default. A switch that refuses keeps
    // its own default.
    let told = Body::SetAsync(messages);
    let mut bodies = vec![told];
    bodies.extend(asked.into_iter().map(|request| Body::MultipartRequest(request.into())));
    bodies.push(Body::FeaturesRequest);
    let answers: [Answer; 6] =
        connection.exchange(&bodies).await?.try_into().map_err(|_| Closed::ByAgent)?;
    let [_told, desc, groups, tables, ports, features] = answers;
    let features = features.replies.into_iter().find_map(|body| match body {
        Body::FeaturesReply(features) => Some(features),
        _ => None,
    });
    let features = features.ok_or(Unfit::Silent { what: "features" })?;
    if ports.refusal.is_some() || ports.replies.is_empty() {
        return Err(Unfit::Silent { what: "ports" });
    }
    let desc = replies(desc).find_map(|reply| match reply {
        Reply::Desc(desc) => Some(desc),
        _ => None,
    });
    let groups = replies(groups).find_map(|reply| match reply {
        Reply::GroupFeatures(features) => {
            Some([GroupType::All, GroupType::FastFailover].map(|kind| features.limit(kind)))
        }
        _ => None,
    });
    let flows = match tables.refusal {
        // The switch need not tell; then a refused write will.
        Some(_) => Some(u32::MAX),
        None => replies(tables)
            .filter_map(|reply| match reply {
                Reply::TableFeatures(tables) => Some(tables),
                _ => None,
            })
            .flatten()
            .find_map(|one| (one.table == table).then_some(one.max_entries)),
    };
    let (desc, groups) = (desc.unwrap_or_default(), groups.unwrap_or_default());
    Ok(Introduction { features, desc, groups, flows })
}

fn replies(answer: Answer) -> impl Iterator<Item = Reply> {
    answer.replies.into_iter().filter_map(|body| match body {
        Body::MultipartReply(MultipartReply { reply, .. }) => Some(reply),
        _ => None,
    })
}

/// Opens a bundle and gives it up.
async fn has_bundles(connection: &Connection) -> Result<bool, Closed> {
    let flags = bundle_flags::ATOMIC | bundle_flags::ORDERED;
    let step = |step| Body::BundleControl(BundleControl { bundle: 0, step, flags });
    let answers = connection.exchange(&[step(BundleStep::Open), step(BundleStep::Discard)]).await?;
    Ok(answers.iter().all(|answer| answer.refusal.is_none() && !answer.replies.is_empty()))
}
