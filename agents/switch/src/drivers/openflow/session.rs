//! A connected switch: its table as last confirmed, and the writing and reading of it.
//!
//! A write goes out as a bundle where the switch has bundles: it then takes all of it or nothing.
//! Elsewhere a refused write is undone, from what the switch says that it holds. Either way the
//! switch is asked afterwards for what it keeps, because some confirm more than that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fabricast_openflow::{
    Body, BundleAdd, BundleControl, BundleStep, Entries, EntryKey, ErrorMessage, Fence, Found,
    Mapping, MultipartReply, MultipartRequest, Programs, Reply, Request, Role, RoleMessage,
    SwitchCapacity, bundle_flags, error_type, group_mod_failed, role_request_failed,
};
use fabricast_proto::v1;
use fabricast_topology::PortSet;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::Mutex as AsyncMutex;

use super::connection::{Answer, BATCH, Closed, Connection};
use super::watched::Watched;

/// Most entries of a write that are checked one by one; beyond, the whole table is read.
const FEW: usize = 16;
/// Time that a switch may take for each change of a bundle, besides the time for an answer.
const EACH_CHANGE: Duration = Duration::from_millis(1);
const FLAGS: u16 = bundle_flags::ATOMIC | bundle_flags::ORDERED;

/// Reason why a switch did not take a write.
#[derive(Debug, Error)]
pub(super) enum WriteError {
    /// The connection ended; the switch may hold any part of the write.
    #[error("{0}")]
    Closed(#[from] Closed),
    /// The switch refused.
    #[error("the switch refuses: {0}")]
    Refused(ErrorMessage),
    /// The switch confirmed the write and keeps something else.
    #[error("the switch keeps {kept} of {written} ports of in_port {in_port}, color {color}")]
    NotKept {
        /// Ports that are in the switch.
        kept: u32,
        /// Ports that were written.
        written: u32,
        /// Input port of the entry.
        in_port: u8,
        /// Color of the entry.
        color: u16,
    },
    /// The switch has seen a newer writer.
    #[error("the switch has seen a newer writer than term {term}")]
    Stale {
        /// Term of the refused writer.
        term: u64,
    },
    /// The switch did not answer a request.
    #[error("the switch does not tell its table")]
    NoTable,
}

impl WriteError {
    /// True if nothing can be undone: the connection has ended, or another controller writes now.
    fn ends_writing(&self) -> bool {
        match self {
            Self::Closed(_) => true,
            Self::Refused(error) => error.is_slave(),
            Self::NotKept { .. } | Self::Stale { .. } | Self::NoTable => false,
        }
    }

    fn is_refusal(&self, kind: u16, codes: &[u16]) -> bool {
        matches!(self, Self::Refused(error) if error.kind == kind && codes.contains(&error.code))
    }
}

/// Abilities of a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abilities {
    /// Numbers of groups and flows that it can hold.
    pub(super) capacity: SwitchCapacity,
    /// True if it takes several changes together or none of them.
    pub(super) bundles: bool,
}

/// Contents of a table: the place of entries, and the addresses that programs use.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) mapping: Mapping,
    /// `None` before they are known: then those in the switch stay.
    pub(super) programs: Arc<Mutex<Option<Programs>>>,
}

/// Table of a switch as last confirmed.
#[derive(Debug, Default)]
struct Held {
    found: Found,
    /// Term for which this connection is the master.
    master: Option<u64>,
    next_bundle: u32,
}

/// A connected switch.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) name: String,
    pub(super) connection: Connection,
    /// Changed only while `held` is locked.
    mapping: Mutex<Mapping>,
    programs: Arc<Mutex<Option<Programs>>>,
    abilities: Abilities,
    watched: Arc<Watched>,
    held: AsyncMutex<Held>,
    /// Contents of `held` for those who cannot wait for it; only with fault tolerance.
    seen: Mutex<Arc<Found>>,
    used_entries: AtomicU32,
}

impl Session {
    pub(super) fn new(
        name: String,
        connection: Connection,
        Table { mapping, programs }: Table,
        abilities: Abilities,
        watched: Arc<Watched>,
    ) -> Self {
        let (held, seen, used_entries) = <(AsyncMutex<Held>, Mutex<_>, _)>::default();
        let mapping = Mutex::new(mapping);
        Self { name, connection, mapping, programs, abilities, watched, held, seen, used_entries }
    }

    /// Colors for which the switch has room.
    pub(super) fn colors(&self) -> u16 {
        self.mapping().colors_within(self.abilities.capacity)
    }

    /// Largest number of entries used in any table of the switch.
    pub(super) fn used_entries(&self) -> u32 {
        self.used_entries.load(Ordering::Relaxed)
    }

    pub(super) fn mapping(&self) -> Mapping {
        *self.mapping.lock()
    }

    /// The table as last confirmed; empty without fault tolerance.
    pub(super) fn seen(&self) -> Arc<Found> {
        Arc::clone(&self.seen.lock())
    }

    /// The switch as it tells itself.
    pub(super) fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Follows the ports that lead to endpoints. Entries of a port that was none before, or is none
    /// now, lack flows from then on: they count as missing until they are written again.
    ///
    /// - `ports`: asked for once nobody else writes.
    pub(super) async fn follow_endpoint_ports(&self, ports: impl Fn() -> PortSet + Send) {
        let held = &mut *self.held.lock().await;
        let ports = ports();
        if self.mapping().endpoint_ports == ports {
            return;
        }
        self.mapping.lock().endpoint_ports = ports;
        // A failure to read ends the connection, and then the table is read again.
        let _ = self.read_into(held).await;
    }

    /// Reads the table. If this connection is the master, it removes what is no part of an entry.
    pub(super) async fn read(&self) -> Result<Found, WriteError> {
        let mut held = self.held.lock().await;
        self.read_into(&mut held).await?;
        let found = held.found.clone();
        if !found.leftovers.is_empty() && held.master.is_some() {
            let (switch, leftovers) = (&self.name, found.leftovers.len());
            match self.apply(&mut held, self.mapping().removals(&found.leftovers)).await {
                Ok(()) => {
                    held.found.leftovers.clear();
                    tracing::info!(switch, leftovers, "groups and flows of no entry removed");
                }
                Err(error) => {
                    let reason = error.to_string();
                    tracing::warn!(switch, leftovers, reason, "groups and flows of no entry stay");
                }
            }
        }
        if held.master.is_some() {
            self.lead_programs(&mut held).await;
        }
        Ok(found)
    }

    /// Has the packets of programs led to the colors of their addresses, as far as the switch has
    /// entries of these colors.
    pub(super) async fn follow_programs(&self) {
        self.lead_programs(&mut *self.held.lock().await).await;
    }

    /// Has the packets of entries take other ways.
    ///
    /// - `wanted`: the entries and their ways, asked for once nobody else writes.
    pub(super) async fn follow_ways(
        &self,
        wanted: impl Fn() -> BTreeMap<EntryKey, Option<u8>> + Send,
    ) {
        let held = &mut *self.held.lock().await;
        // Without a writer there are no entries.
        let Some(Fence { term, .. }) = held.found.fence else { return };
        if let Err(error) = self.change_ways(held, term, wanted).await {
            let (switch, reason) = (&self.name, error.to_string());
            tracing::warn!(switch, reason, "failover groups not changed");
            // A failure to read ends the connection, and then the table is read again.
            let _ = self.read_into(held).await;
        }
    }

    async fn change_ways(
        &self,
        held: &mut Held,
        term: u64,
        wanted: impl Fn() -> BTreeMap<EntryKey, Option<u8>> + Send,
    ) -> Result<(), WriteError> {
        if wanted().is_empty() {
            return Ok(());
        }
        self.claim(held, term).await?; // may read the table again
        let wanted = wanted();
        let changes = wanted
            .iter()
            .flat_map(|(key, first)| self.mapping().way_changes(&held.found, *key, *first))
            .collect();
        self.apply(held, changes).await?;
        for (key, first) in &wanted {
            match first {
                Some(first) => held.found.first_ways.insert(*key, *first),
                None => held.found.first_ways.remove(key),
            };
        }
        self.note(&held.found);
        let (switch, entries) = (&self.name, wanted.len());
        tracing::info!(switch, entries, "packets take other trees");
        Ok(())
    }

    /// Writes entries: all or nothing, unless the connection ends.
    pub(super) async fn write(
        &self,
        fence: Fence,
        writes: &BTreeMap<EntryKey, PortSet>,
    ) -> Result<(), WriteError> {
        let mut held = self.held.lock().await;
        if held.found.fence.is_some_and(|known| known > fence) {
            return Err(WriteError::Stale { term: fence.term });
        }
        let written = self.write_or_repeat(&mut held, fence, writes).await;
        if written.is_ok() {
            self.lead_programs(&mut held).await; // new entries may be of their colors
        }
        written
    }

    async fn write_or_repeat(
        &self,
        held: &mut Held,
        fence: Fence,
        writes: &BTreeMap<EntryKey, PortSet>,
    ) -> Result<(), WriteError> {
        match self.write_once(held, fence, writes).await {
            // Another controller became the master, and may have written. Only one of the same
            // term or an older one lets itself be replaced.
            Err(WriteError::Refused(error)) if error.is_slave() => {
                tracing::warn!(switch = %self.name, "another controller was the master");
                held.master = None;
                self.read_into(held).await?;
            }
            // Somebody has changed the switch since it was read.
            Err(error) if is_outdated(&error) => self.read_into(held).await?,
            ended => return ended,
        }
        self.write_once(held, fence, writes).await
    }

    /// A failure is logged, and mended with the next write or reading: entries do not depend on it.
    async fn lead_programs(&self, held: &mut Held) {
        // Without a writer there are no entries.
        let Some(Fence { term, .. }) = held.found.fence else { return };
        let Some(programs) = self.programs.lock().clone() else { return };
        if let Err(error) = self.lead_programs_once(held, term, &programs).await {
            let (switch, reason) = (&self.name, error.to_string());
            tracing::warn!(switch, reason, "flows of programs not changed");
            // A failure to read ends the connection, and then the table is read again.
            let _ = self.read_into(held).await;
        }
    }

    async fn lead_programs_once(
        &self,
        held: &mut Held,
        term: u64,
        programs: &Programs,
    ) -> Result<(), WriteError> {
        if held.found.programs == self.mapping().program_flows(&held.found.entries, programs) {
            return Ok(());
        }
        self.claim(held, term).await?; // may read the table again
        let wanted = self.mapping().program_flows(&held.found.entries, programs);
        let changes = self.mapping().program_changes(&held.found.programs, &wanted, term);
        self.apply(held, changes).await?;
        held.found.programs = wanted;
        Ok(())
    }

    /// Asks for the counters of all ports.
    pub(super) async fn counters(&self) -> Result<BTreeMap<u32, v1::PortCounters>, WriteError> {
        let all = Request::PortStats(fabricast_openflow::ANY_PORT);
        let answer = self.ask(&[all]).await?.pop().unwrap_or_default();
        if let Some(refusal) = answer.refusal {
            return Err(WriteError::Refused(refusal));
        }
        let mut counters = BTreeMap::new();
        for reply in answer.replies {
            let Body::MultipartReply(MultipartReply { reply: Reply::PortStats(ports), .. }) = reply
            else {
                continue;
            };
            // A switch that does not count says all ones.
            let count = |count: u64| if count == u64::MAX { 0 } else { count };
            counters.extend(ports.into_iter().map(|port| {
                let counted = v1::PortCounters {
                    port: port.number,
                    received_packets: count(port.received_packets),
                    sent_packets: count(port.sent_packets),
                    received_bytes: count(port.received_bytes),
                    sent_bytes: count(port.sent_bytes),
                    dropped_packets: count(port.received_dropped)
                        .saturating_add(count(port.sent_dropped)),
                };
                (port.number, counted)
            }));
        }
        Ok(counters)
    }

    async fn write_once(
        &self,
        held: &mut Held,
        fence: Fence,
        writes: &BTreeMap<EntryKey, PortSet>,
    ) -> Result<(), WriteError> {
        self.claim(held, fence.term).await?;
        let mut changes = Vec::new();
        if held.found.fence != Some(fence) {
            changes.extend(self.mapping().fence_changes(fence));
        }
        changes.extend(self.mapping().removals(&held.found.leftovers));
        let all = writes.iter().map(|(key, out)| (*key, *out));
        changes.extend(self.mapping().changes(&held.found, all.clone(), fence.term));
        let before = held.found.entries.clone();
        let written = match self.apply(held, changes).await {
            Ok(()) => self.check(held, writes).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            if !error.ends_writing() {
                self.restore(held, &before, writes).await?;
            }
            return Err(error);
        }
        self.mapping().note_written(&mut held.found, all);
        held.found.leftovers.clear();
        held.found.fence = Some(fence);
        self.note(&held.found);
        Ok(())
    }

    /// Becomes the master: the switch then refuses the writes of older terms.
    async fn claim(&self, held: &mut Held, term: u64) -> Result<(), WriteError> {
        let is_deposed = self.watched.take_deposed();
        if is_deposed {
            tracing::warn!(switch = %self.name, "another controller was the master");
            self.read_into(held).await?;
        } else if held.master == Some(term) {
            return Ok(());
        }
        let request = Body::RoleRequest(RoleMessage { role: Role::Master, generation: term });
        let answer = self.connection.exchange(&[request]).await?.pop().unwrap_or_default();
        match answer.refusal {
            None => {
                held.master = Some(term);
                Ok(())
            }
            Some(error) => {
                let refused = WriteError::Refused(error);
                let stale = &[role_request_failed::STALE];
                if refused.is_refusal(error_type::ROLE_REQUEST_FAILED, stale) {
                    // A route service leaves its term in a cookie, too; others do not.
                    self.read_into(held).await?;
                    if held.found.fence.is_some_and(|newest| newest.term > term) {
                        return Err(WriteError::Stale { term });
                    }
                }
                Err(refused)
            }
        }
    }

    /// Sends changes; with a bundle all are made or none.
    async fn apply(&self, held: &mut Held, changes: Vec<Body>) -> Result<(), WriteError> {
        if changes.is_empty() {
            return Ok(());
        }
        if !self.abilities.bundles || changes.len() == 1 {
            for batch in changes.chunks(BATCH) {
                first_refusal(self.connection.exchange(batch).await?)?;
            }
            return Ok(());
        }
        held.next_bundle = held.next_bundle.wrapping_add(1);
        let bundle = held.next_bundle;
        let step = |step| Body::BundleControl(BundleControl { bundle, step, flags: FLAGS });
        let add =
            |change| Body::BundleAdd(BundleAdd { bundle, flags: FLAGS, change: Box::new(change) });
        let mut messages = vec![step(BundleStep::Open)];
        messages.extend(changes.into_iter().map(add));
        messages.push(step(BundleStep::Commit));
        // The switch makes all changes when it gets the last message.
        let more = EACH_CHANGE.saturating_mul(u32::try_from(messages.len()).unwrap_or(u32::MAX));
        for batch in messages.chunks(BATCH) {
            let answers = self.connection.exchange_slowly(batch, more).await?;
            if let Err(error) = first_refusal(answers) {
                // After a refused addition the commit was refused, too; this frees the room.
                self.connection.exchange(&[step(BundleStep::Discard)]).await?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Looks at what the switch keeps of a write that it has confirmed.
    async fn check(
        &self,
        held: &mut Held,
        writes: &BTreeMap<EntryKey, PortSet>,
    ) -> Result<(), WriteError> {
        let kept: Vec<_> = writes.iter().filter(|(_, out)| !out.is_empty()).collect();
        if kept.is_empty() || (kept.len() <= FEW && self.counts_agree(held, &kept).await?) {
            return Ok(());
        }
        self.read_into(held).await?;
        for (key, out) in writes {
            let found = held.found.entries.get(key).copied().unwrap_or_default();
            if found != *out {
                return Err(WriteError::NotKept {
                    kept: found.intersection(*out).len(),
                    written: out.len(),
                    in_port: key.in_port,
                    color: key.color,
                });
            }
        }
        Ok(())
    }

    /// True if the counters of the groups say that each has its buckets, and flows lead to those of
    /// the entries.
    async fn counts_agree(
        &self,
        held: &Held,
        kept: &[(&EntryKey, &PortSet)],
    ) -> Result<bool, WriteError> {
        let mut expected = Vec::new(); // id, buckets, flows
        for (key, out) in kept {
            let first = self.mapping().first_way(&held.found, **key, **out);
            expected.extend(self.mapping().groups(**key, **out, first).into_iter().map(|group| {
                let is_entry = group.group == self.mapping().group(**key);
                let flows = if is_entry { self.mapping().flow_count(**key) } else { 0 };
                (group.group, group.buckets.len(), flows)
            }));
        }
        let asked = expected.iter().map(|(group, ..)| Request::GroupStats(*group));
        let answers = self.ask(&asked.collect::<Vec<_>>()).await?;
        Ok(expected.iter().zip(answers).all(|((id, buckets, flows), answer)| {
            answer.replies.iter().any(|body| match body {
                Body::MultipartReply(MultipartReply {
                    reply: Reply::GroupStats(groups), ..
                }) => groups.iter().any(|group| {
                    let references = usize::try_from(group.references).unwrap_or(usize::MAX);
                    group.group == *id && references >= *flows && group.buckets.len() == *buckets
                }),
                _ => false,
            })
        }))
    }

    /// Undoes a write that was refused or not kept.
    async fn restore(
        &self,
        held: &mut Held,
        before: &Entries,
        writes: &BTreeMap<EntryKey, PortSet>,
    ) -> Result<(), WriteError> {
        self.read_into(held).await?;
        let found = &held.found;
        let was = writes.keys().map(|key| (*key, before.get(key).copied().unwrap_or_default()));
        let differs =
            was.filter(|(key, out)| found.entries.get(key).copied().unwrap_or_default() != *out);
        let mut changes = self.mapping().removals(&found.leftovers);
        changes.extend(self.mapping().changes(found, differs, held.master.unwrap_or(0)));
        let undone = match self.apply(held, changes).await {
            Ok(()) => self.read_into(held).await,
            Err(error) => Err(error),
        };
        match undone {
            Err(error) if !error.ends_writing() => {
                Err(self.connection.close(Closed::Torn(error.to_string())).into())
            }
            ended => ended,
        }
    }

    async fn read_into(&self, held: &mut Held) -> Result<(), WriteError> {
        let (mut flows, mut groups) = (Vec::new(), Vec::new());
        for answer in self.ask(&self.mapping().requests()).await? {
            if let Some(refusal) = answer.refusal {
                return Err(WriteError::Refused(refusal));
            }
            if answer.replies.is_empty() {
                return Err(WriteError::NoTable);
            }
            for reply in answer.replies {
                if let Body::MultipartReply(part) = reply {
                    match part.reply {
                        Reply::Flows(mut list) => flows.append(&mut list),
                        Reply::Groups(mut list) => groups.append(&mut list),
                        _ => {}
                    }
                }
            }
        }
        held.found = self.mapping().read(&flows, &groups);
        self.note(&held.found);
        Ok(())
    }

    async fn ask(&self, requests: &[Request]) -> Result<Vec<Answer>, Closed> {
        let bodies = requests
            .iter()
            .map(|request| Body::MultipartRequest(MultipartRequest::from(request.clone())));
        self.connection.exchange(&bodies.collect::<Vec<_>>()).await
    }

    /// Notes what others may ask for without waiting.
    fn note(&self, found: &Found) {
        if self.mapping().fault_tolerant {
            *self.seen.lock() = Arc::new(found.clone());
        }
        let (mut most, mut port, mut count) = (0, 0, 0);
        for key in found.entries.keys() {
            if key.in_port != port {
                (port, count) = (key.in_port, 0);
            }
            count += 1;
            most = most.max(count);
        }
        self.used_entries.store(most, Ordering::Relaxed);
    }
}

/// True if the switch holds other groups than those it had confirmed.
fn is_outdated(error: &WriteError) -> bool {
    let codes = [group_mod_failed::GROUP_EXISTS, group_mod_failed::UNKNOWN_GROUP];
    error.is_refusal(error_type::GROUP_MOD_FAILED, &codes)
}

/// The first refusal of a change; that of a bundle as a whole only if there is no other.
fn first_refusal(answers: Vec<Answer>) -> Result<(), WriteError> {
    let mut refusals: Vec<_> = answers.into_iter().filter_map(|answer| answer.refusal).collect();
    let of_change = refusals.iter().position(|error| !error.is_bundle());
    match of_change.or((!refusals.is_empty()).then_some(0)) {
        Some(at) => Err(WriteError::Refused(refusals.swap_remove(at))),
        None => Ok(()),
    }
}
