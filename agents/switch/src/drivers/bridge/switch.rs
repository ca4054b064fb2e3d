//! One bridge as a switch: its state, its entries, and the addresses that they stand for.
//!
//! An entry is one group of the bridge for each of its addresses: that of its color, and those of
//! the programs whose group has the color. All have the ports of the entry.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use fabricast_groups::programs::AddressRange;
use fabricast_proto::v1;
use fabricast_topology::PortSet;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};

use super::alias::Alias;
use super::commands::{Answer, CommandError, Commands, Tool};
use super::database::{Change, Database, Groups};
use super::link::{Look, Renamed};
use super::options::{Addresses, Place};

/// Color by the address of programs.
pub(super) type Programs = BTreeMap<Ipv4Addr, u16>;
/// Ports by color.
pub(super) type Entries = BTreeMap<u16, PortSet>;

/// Tries to make the entries what they ought to be: a host may join between two commands, and the
/// kernel then does not take the entry of that port.
const TRIES: usize = 3;
/// Most commands of one agent that run at once, however many bridges it has. Each takes some open
/// files, and a machine that starts hundreds of them answers none in time.
pub(super) const COMMANDS_AT_ONCE: usize = 16;

/// Reason why a bridge cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Problem {
    #[error("it has not been looked at")]
    Unknown,
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("{place}: {message}")]
    Refused { place: Place, message: String },
    #[error("{place}: unexpected output of `{tool}`: {message}")]
    Form { place: Place, tool: Tool, message: String },
    #[error("{place} is not up")]
    Down { place: Place },
    #[error("{place} filters VLANs, and entries are for none")]
    Vlans { place: Place },
    #[error("{place}: '{alternative}' is an alternative name, put '{name}' in the settings")]
    Renamed { place: Place, alternative: String, name: String },
    #[error("{place} has room for no color: mcast_hash_max is {most}")]
    NoRoom { place: Place, most: u32 },
}

/// Reason why a bridge did not take a write. Unless it says something else, the bridge holds what
/// it held before.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Unusable(#[from] Problem),
    #[error("color {color} is not below {colors}")]
    Color { color: u16, colors: u16 },
    #[error("a newer writer than (term {term}, generation {generation}) is known")]
    Stale { term: u64, generation: u64 },
    #[error("{place} cannot hold {groups} groups: mcast_hash_max is {most}")]
    Full { place: Place, groups: usize, most: u32 },
    #[error("{place} refuses: {message}")]
    Refused { place: Place, message: String },
    #[error("{place} took a part and could not be set back, its entries are unknown: {message}")]
    Torn { place: Place, message: String },
}

/// A bridge that is programmed.
#[derive(Debug)]
pub(super) struct BridgeSwitch {
    /// Node id, as the topology has it.
    pub(super) name: String,
    pub(super) place: Place,
    commands: Arc<dyn Commands>,
    addresses: Arc<Addresses>,
    /// Most colors, as the settings say.
    most_colors: u16,
    /// Programs whose packets are carried; `None` before any are known. All bridges share it.
    programs: Arc<Mutex<Option<Programs>>>,
    /// Counts changes of ports and of usability, of all bridges.
    changed: watch::Sender<u64>,
    /// One permit for each command that may run; all bridges share it.
    running: Arc<Semaphore>,
    /// Locked while entries are changed.
    turn: tokio::sync::Mutex<()>,
    /// Locked during a look, so that of two looks the later one is believed.
    looking: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// Latest knowledge about a bridge.
#[derive(Clone, Debug)]
struct State {
    look: Result<Look, Problem>,
    /// Newest writer that this agent has heard.
    writer: Option<v1::Fence>,
    /// Entries as they were last read; `None` if they may be others.
    database: Option<Database>,
    /// Number of addresses of programs without room.
    waiting: usize,
}

/// Settings that all bridges share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) commands: Arc<dyn Commands>,
    pub(super) addresses: Arc<Addresses>,
    pub(super) most_colors: u16,
    pub(super) programs: Arc<Mutex<Option<Programs>>>,
    pub(super) changed: watch::Sender<u64>,
    pub(super) running: Arc<Semaphore>,
}

impl BridgeSwitch {
    pub(super) fn new(name: String, place: Place, shared: Shared) -> Self {
        let Shared { commands, addresses, most_colors, programs, changed, running } = shared;
        let look = Err(Problem::Unknown);
        let state = State { look, writer: None, database: None, waiting: 0 };
        Self {
            name,
            place,
            commands,
            addresses,
            most_colors,
            programs,
            changed,
            running,
            turn: tokio::sync::Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
        }
    }

    /// Number of ports in the topology.
    pub(super) fn port_count(&self) -> u32 {
        u32::try_from(self.place.ports.len()).unwrap_or(u32::MAX)
    }

    /// The bridge as it was last seen.
    pub(super) fn seen(&self) -> Result<Look, Problem> {
        self.state.lock().look.clone()
    }

    /// Number of colors that the bridge offers; those of the settings while it cannot be used.
    pub(super) fn colors(&self) -> u16 {
        self.seen().map_or(self.most_colors, |look| look.colors(self.most_colors))
    }

    /// Number of colors with an entry, as it was last read.
    pub(super) fn used_entries(&self) -> u32 {
        let state = self.state.lock();
        let used = state.database.as_ref().map_or(0, |known| known.colors(&self.addresses).len());
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    /// Newest writer: of the generations of an earlier agent, nothing is known.
    pub(super) fn newest_writer(&self) -> Option<v1::Fence> {
        let state = self.state.lock();
        let term = state.look.as_ref().map_or(0, |look| look.alias.term);
        let kept = (term > 0).then_some(v1::Fence { term, generation: 0 });
        state.writer.into_iter().chain(kept).max_by_key(order)
    }

    /// True if a writer is not the newest one.
    pub(super) fn has_newer_writer(&self, fence: v1::Fence) -> bool {
        self.newest_writer().is_some_and(|newest| order(&newest) > order(&fence))
    }

    /// Notes a writer that is the newest one.
    pub(super) fn note_writer(&self, fence: v1::Fence) {
        self.state.lock().writer = Some(fence);
    }

    /// The bridge as it was last seen if it could be used then; otherwise as it is seen now.
    pub(super) async fn ready(&self) -> Result<Look, Problem> {
        match self.seen() {
            Ok(look) => Ok(look),
            Err(_) => self.look().await,
        }
    }

    /// Looks at the bridge, and gives it the settings that entries need.
    pub(super) async fn look(&self) -> Result<Look, Problem> {
        let _looking = self.looking.lock().await;
        let found = self.look_and_prepare().await;
        let mut state = self.state.lock();
        match (&state.look, &found) {
            (Ok(_), Err(Problem::Command(error))) if error.is_of_busy_machine() => {
                let (place, reason) = (&self.place, error.to_string());
                tracing::warn!(switch = self.name, %place, reason, "bridge not looked at");
                return found;
            }
            (Ok(_) | Err(Problem::Unknown), Err(problem)) => {
                let reason = problem.to_string();
                tracing::warn!(switch = self.name, reason, "bridge cannot be used");
            }
            (Err(_), Ok(look)) => {
                let colors = look.colors(self.most_colors);
                let most_groups = look.most_groups;
                let place = &self.place;
                tracing::info!(switch = self.name, %place, colors, most_groups, "bridge ready");
            }
            (Ok(before), Ok(look)) if before.index != look.index => {
                tracing::warn!(switch = self.name, place = %self.place, "bridge was made again");
                state.database = None;
            }
            (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
        }
        if found.is_err() {
            state.database = None;
        }
        let is_other = states(&state.look) != states(&found);
        state.look.clone_from(&found);
        drop(state);
        if is_other {
            self.changed.send_modify(|count| *count += 1);
        }
        found
    }

    async fn look_and_prepare(&self) -> Result<Look, Problem> {
        let place = || self.place.clone();
        let answer = self.run(Tool::Ip, &Look::lines(&self.place)).await?;
        if let Some(message) = first_refused(&answer) {
            return Err(Problem::Refused { place: place(), message });
        }
        let form = |message| Problem::Form { place: place(), tool: Tool::Ip, message };
        let mut look = Look::read(&answer.text, &self.place).map_err(form)?;
        if let Some(Renamed { alternative, name }) = &look.renamed {
            let (alternative, name) = (alternative.clone(), name.clone());
            return Err(Problem::Renamed { place: place(), alternative, name });
        }
        if !look.is_up {
            return Err(Problem::Down { place: place() });
        }
        if look.has_vlans {
            return Err(Problem::Vlans { place: place() });
        }
        if look.colors(self.most_colors) == 0 {
            return Err(Problem::NoRoom { place: place(), most: look.most_groups });
        }
        let preparation = look.preparation(&self.place);
        if !preparation.is_empty() {
            let answer = self.run(Tool::Ip, &preparation).await?;
            if let Some(message) = first_refused(&answer) {
                return Err(Problem::Refused { place: place(), message });
            }
            tracing::info!(switch = self.name, place = %self.place, "bridge prepared for entries");
        }
        let ranges = self.addresses.ranges();
        if look.alias.ranges != ranges {
            self.remove_former(&look.alias.ranges).await?;
            look.alias.ranges = ranges;
            self.keep_alias(&look.alias).await?; // before any entry of these ranges is written
        }
        Ok(look)
    }

    /// Removes the entries of addresses that are ours no more: an agent with other settings wrote
    /// them.
    ///
    /// - `former`: ranges that were ours.
    async fn remove_former(&self, former: &[AddressRange]) -> Result<(), Problem> {
        if former.is_empty() {
            return Ok(());
        }
        let is_former = |address: Ipv4Addr| {
            let was_ours = former.iter().any(|range| range.contains(address));
            was_ours && !self.addresses.is_ours(address)
        };
        let (mut entries, mut message) = (0, String::new());
        for _ in 0..TRIES {
            let left = self.read_entries(is_former).await?;
            let changes = left.changes(&Groups::new(), &self.place);
            if changes.is_empty() {
                if entries > 0 {
                    tracing::info!(switch = self.name, entries, "former entries removed");
                }
                return Ok(());
            }
            self.state.lock().database = None; // it counts their groups
            entries = changes.len();
            message = refusal(&self.run_changes(&changes).await?, &changes);
        }
        Err(Problem::Refused { place: self.place.clone(), message })
    }

    /// Reads the entries, and mends those of programs if they are not what they ought to be.
    pub(super) async fn read(&self) -> Result<Entries, WriteError> {
        let _turn = self.turn.lock().await;
        self.look().await?;
        let found = self.read_database().await?;
        if let Err(error) = self.make(&found, &Entries::new()).await {
            let reason = error.to_string();
            tracing::warn!(switch = self.name, reason, "addresses of programs not written");
        }
        Ok(found.colors(&self.addresses))
    }

    /// Writes entries, all or none, unless a newer writer has come before its turn.
    ///
    /// - `entries`: without ports, an entry is removed.
    pub(super) async fn write(
        &self,
        fence: v1::Fence,
        entries: &Entries,
    ) -> Result<(), WriteError> {
        let _turn = self.turn.lock().await;
        let look = self.ready().await?;
        let v1::Fence { term, generation } = fence;
        if self.has_newer_writer(fence) {
            return Err(WriteError::Stale { term, generation });
        }
        let colors = look.colors(self.most_colors);
        if let Some(color) = entries.keys().copied().find(|color| *color >= colors) {
            return Err(WriteError::Color { color, colors });
        }
        if look.alias.term < term {
            self.keep_term(term).await?;
        }
        if entries.is_empty() {
            return Ok(());
        }
        let found = self.read_database().await?;
        self.make(&found, entries).await
    }

    /// Makes the entries of programs what they ought to be by the entries of their colors.
    pub(super) async fn align(&self) -> Result<(), WriteError> {
        let _turn = self.turn.lock().await;
        if self.seen().is_err() {
            return Ok(()); // nothing is led by it, and it is aligned when it is seen again
        }
        let known = self.known().await?;
        if known.is(&self.wanted_in_room(&known, &Entries::new())?) {
            return Ok(());
        }
        let found = self.read_database().await?;
        self.make(&found, &Entries::new()).await
    }

    /// Addresses of programs that are led to a port which is not one of their color's: they have to
    /// be forgotten everywhere before they are led by another tree.
    pub(super) async fn moving(&self, programs: &Programs) -> Result<BTreeSet<Ipv4Addr>, Problem> {
        let _turn = self.turn.lock().await;
        match self.ready().await {
            Ok(_) => {}
            Err(Problem::Command(error)) if error.is_of_busy_machine() => {
                return Err(error.into());
            }
            Err(_) => return Ok(BTreeSet::new()), // nothing is led by it
        }
        let known = self.known().await?;
        let colors = known.colors(&self.addresses);
        let is_moving = |(address, ports): &(&Ipv4Addr, &PortSet)| {
            let color = programs.get(*address).and_then(|color| colors.get(color));
            self.addresses.is_program(**address)
                && !ports.difference(color.copied().unwrap_or_default()).is_empty()
        };
        Ok(known.written.iter().filter(is_moving).map(|(address, _)| *address).collect())
    }

    /// The wanted groups.
    ///
    /// - `entries`: changes of the entries that there are.
    fn wanted(&self, found: &Database, entries: &Entries) -> Groups {
        let mut colors = found.colors(&self.addresses);
        colors.extend(entries);
        colors.retain(|_, ports| !ports.is_empty());
        let mut wanted: Groups =
            colors.iter().map(|(color, ports)| (self.addresses.of(*color), *ports)).collect();
        let is_program = |address: &Ipv4Addr| self.addresses.is_program(*address);
        match &*self.programs.lock() {
            Some(programs) => {
                let ports = |color: &u16| colors.get(color).copied();
                let led = programs.iter().filter(|(address, _)| is_program(address));
                wanted.extend(led.filter_map(|(address, color)| Some((*address, ports(color)?))));
            }
            // They may be in use.
            None => {
                let led = found.written.iter().filter(|(address, _)| is_program(address));
                wanted.extend(led.map(|(address, ports)| (*address, *ports)));
            }
        }
        wanted
    }

    /// The wanted groups, as many of them as there is room for: if it lacks, addresses of programs
    /// that are new have to wait.
    fn wanted_in_room(&self, found: &Database, entries: &Entries) -> Result<Groups, WriteError> {
        let mut wanted = self.wanted(found, entries);
        let most = self.seen()?.most_groups;
        let room = usize::try_from(most).unwrap_or(usize::MAX);
        let groups = found.groups_with(&wanted);
        let excess = groups.saturating_sub(room);
        let is_new = |address: &&Ipv4Addr| {
            self.addresses.is_program(**address) && !found.groups.contains(&address.to_string())
        };
        let waiting: Vec<Ipv4Addr> =
            wanted.keys().rev().filter(is_new).take(excess).copied().collect();
        if waiting.len() < excess {
            return Err(WriteError::Full { place: self.place.clone(), groups, most });
        }
        if std::mem::replace(&mut self.state.lock().waiting, excess) != excess && excess > 0 {
            tracing::warn!(switch = self.name, most, excess, "no room for addresses of programs");
        }
        wanted.retain(|address, _| !waiting.contains(address));
        Ok(wanted)
    }

    /// Makes the entries what they ought to be, and looks if the bridge has kept them. If it has
    /// not, gives it back what it had.
    async fn make(&self, before: &Database, entries: &Entries) -> Result<(), WriteError> {
        let wanted = self.wanted_in_room(before, entries)?;
        let Err(message) = self.change(before.clone(), &wanted).await else { return Ok(()) };
        let place = self.place.clone();
        let now = match self.read_database().await {
            Ok(now) => self.change(now, &before.written).await,
            Err(problem) => Err(problem.to_string()),
        };
        match now {
            Ok(()) => Err(WriteError::Refused { place, message }),
            Err(_) => Err(WriteError::Torn { place, message }),
        }
    }

    /// Changes the entries until they are the wanted ones; otherwise says what is in the way.
    async fn change(&self, mut found: Database, wanted: &Groups) -> Result<(), String> {
        let mut message = String::new();
        for _ in 0..TRIES {
            if found.is(wanted) {
                return Ok(());
            }
            let changes = found.changes(wanted, &self.place);
            self.state.lock().database = None;
            let answer = self.run_changes(&changes).await.map_err(|error| error.to_string())?;
            message = refusal(&answer, &changes);
            found = self.read_database().await.map_err(|problem| problem.to_string())?;
        }
        if found.is(wanted) { Ok(()) } else { Err(message) }
    }

    async fn keep_term(&self, term: u64) -> Result<(), WriteError> {
        let _looking = self.looking.lock().await; // nobody else writes the alias meanwhile
        let alias = Alias { term, ranges: self.addresses.ranges() };
        self.keep_alias(&alias).await?;
        if let Ok(look) = &mut self.state.lock().look {
            look.alias = alias;
        }
        Ok(())
    }

    async fn keep_alias(&self, alias: &Alias) -> Result<(), Problem> {
        let answer = self.run(Tool::Ip, &Look::keep_alias(alias, &self.place)).await?;
        match first_refused(&answer) {
            Some(message) => Err(Problem::Refused { place: self.place.clone(), message }),
            None => Ok(()),
        }
    }

    /// The entries as they were last read.
    async fn known(&self) -> Result<Database, Problem> {
        let known = self.state.lock().database.clone();
        match known {
            Some(known) => Ok(known),
            None => self.read_database().await,
        }
    }

    async fn read_database(&self) -> Result<Database, Problem> {
        let found = self.read_entries(|group| self.addresses.is_ours(group)).await?;
        self.state.lock().database = Some(found.clone());
        Ok(found)
    }

    /// Reads the entries of some addresses.
    ///
    /// - `is_ours`: true for the addresses whose entries matter.
    async fn read_entries(
        &self,
        is_ours: impl Fn(Ipv4Addr) -> bool + Send,
    ) -> Result<Database, Problem> {
        let line = format!("mdb show dev {}\n", self.place.bridge);
        let answer = self.run(Tool::Bridge, &line).await?;
        let place = || self.place.clone();
        if let Some(message) = first_refused(&answer) {
            return Err(Problem::Refused { place: place(), message });
        }
        Database::read(&answer.text, &self.place, is_ours).map_err(|error| {
            let (tool, message) = (Tool::Bridge, error.to_string());
            Problem::Form { place: place(), tool, message }
        })
    }

    async fn run_changes(&self, changes: &[Change]) -> Result<Answer, CommandError> {
        let lines: String = changes.iter().map(|change| change.line(&self.place)).collect();
        self.run(Tool::Bridge, &lines).await
    }

    async fn run(&self, tool: Tool, lines: &str) -> Result<Answer, CommandError> {
        let _permit = self.running.acquire().await; // it is never closed
        self.commands.run(tool, self.place.namespace.as_deref(), lines).await
    }
}

/// Order of writers.
fn order(fence: &v1::Fence) -> (u64, u64) {
    (fence.term, fence.generation)
}

/// States of the ports; `None` for a bridge that cannot be used.
fn states(look: &Result<Look, Problem>) -> Option<Vec<(u8, bool)>> {
    let ports = &look.as_ref().ok()?.ports;
    Some(ports.iter().map(|(number, port)| (*number, port.is_live)).collect())
}

/// Reason of the first refused line.
fn first_refused(answer: &Answer) -> Option<String> {
    answer.refused.first().map(|refused| refused.message.clone())
}

/// The first refused change with its reason.
fn refusal(answer: &Answer, changes: &[Change]) -> String {
    let Some(refused) = answer.refused.first() else {
        return "it did not keep what it confirmed".to_owned();
    };
    let change = refused.line.checked_sub(1).and_then(|at| changes.get(at));
    let change = change.map_or_else(String::new, |change| format!("{change}: "));
    format!("{change}{}", refused.message)
}
