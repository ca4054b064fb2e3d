//! Allocates trees to collectives on a fabric whose switches have few aggregation entries.
//!
//! A collective requests a tree over its members, for some operations and sizes. It gets a switch
//! tree if that is faster and entries are available. Otherwise it runs on adapter trees, which need
//! no switch entries. Either way the answer has the reason. Entries can be reserved for jobs and
//! tenants, and their use limited.
//!
//! Results depend on the calls and their order only. The entries in use are a function of the
//! present collectives, not of their history.
//!
//! Invariants
//! - AGG-5: no switch gives more entries than it has, nor any that are reserved for another holder.
//! - AGG-6: what a collective held is free when it is released.
//! - AGG-7: a change of faults leaves trees that no failed part is on as they are, byte for byte;
//!   no tree keeps a failed part once all have followed the change.

mod entries;
mod faults;
mod ledger;
mod request;
mod state;
mod undo;

use std::cell::Cell;
use std::collections::BTreeMap;

use fabricast_topology::{AggregationEntry, SwitchId};

pub use entries::EntryLedger;
pub use faults::FaultChanges;
pub use ledger::{Holder, Holding, Quota, Reservation, ReservationId, ReserveError, Usage};
pub use request::{
    Collective, CollectiveId, Demand, Fallback, JobId, Owner, Refusal, Request, Service, SizeRange,
    TenantId, TreeId,
};
pub use state::{AllocatorState, RestoreError, TreeProblem};

use crate::adapter_tree::AdapterTree;
use crate::choice::{Choice, ChoiceTable, Limits};
use crate::cost::CostParameters;
use crate::fabric::Fabric;
use crate::nesting::Nesting;
use crate::operation::{Operation, TreeKind};
use crate::switch_tree::{Climber, CutOff, SwitchTree, minimum_tree};
use faults::Following;
use ledger::Ledger;
use undo::Journal;

/// Limit on the roots of one level that are tried. Trees with different roots differ only above the
/// leaf switches, so if many fail, the others will hardly succeed.
const ROOTS_TRIED: usize = 64;
/// Switches of the trees that were tried at which no further root of a level is tried: as many as
/// 64 trees over some thousand endpoints have. So a search that fails takes some milliseconds,
/// however many members there are.
const SWITCHES_TRIED: usize = 1 << 14;
/// Most numbers of processes for which choices are kept.
const TABLES_KEPT: usize = 1 << 10;

/// Settings of an allocator.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Entries of a switch; 16 in the paper.
    pub entries: u16,
    /// Entries of switches that differ from the others.
    pub entries_of: BTreeMap<SwitchId, u16>,
    /// Bounds of the trees.
    pub limits: Limits,
    /// Parameters of the cost model.
    pub parameters: CostParameters,
}

impl Default for Settings {
    /// The paper's 16 entries and constants.
    fn default() -> Self {
        Self {
            entries: 16,
            entries_of: BTreeMap::new(),
            limits: Limits::default(),
            parameters: CostParameters::PAPER,
        }
    }
}

/// The collectives of a fabric.
///
/// - [`Allocator::allocate`], [`Allocator::release`]: create and remove collectives.
/// - [`Allocator::entries`], [`Allocator::adapter_tree`], [`Allocator::choose`]: the trees of a
///   collective.
/// - [`Allocator::reserve`], [`Allocator::set_quota`]: reservations and limits.
/// - [`Allocator::holdings`], [`Allocator::usage`]: entries in use.
/// - [`Allocator::set_faults`]: failed and repaired parts; in pieces [`Allocator::begin_faults`]
///   and [`Allocator::follow_faults`].
/// - [`Allocator::state`], [`Allocator::restore`]: durable state.
/// - [`Allocator::record_changes`], [`Allocator::undo_changes`]: for changes that may not become
///   durable.
#[derive(Clone, Debug)]
pub struct Allocator {
    fabric: Fabric,
    climber: Climber,
    settings: Settings,
    ledger: Ledger,
    collectives: BTreeMap<CollectiveId, Collective>,
    /// Choices, by number of processes.
    tables: BTreeMap<u32, ChoiceTable>,
    next_tree: u32,
    /// Set until all collectives have followed the faults.
    following: Option<Following>,
    /// Processes and switches that searches have looked at, since it was last set to 0.
    work: usize,
    journal: Journal,
}

impl Allocator {
    /// Creates an allocator without collectives.
    #[must_use]
    pub fn new(fabric: Fabric, settings: Settings) -> Self {
        Self {
            climber: Climber::new(&fabric),
            ledger: Ledger::new(&fabric, &settings),
            fabric,
            settings,
            collectives: BTreeMap::new(),
            tables: BTreeMap::new(),
            next_tree: 0,
            following: None,
            work: 0,
            journal: Journal::default(),
        }
    }

    /// Allocates a tree to a collective.
    ///
    /// Cost: that of the physical tree, some tens of microseconds for tens of members.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; nothing is changed. Without [`Demand::SwitchTree`] a lack of entries is no
    /// error: the collective then runs on adapter trees, with the reason.
    pub fn allocate(&mut self, request: Request) -> Result<&Collective, Refusal> {
        request.check()?;
        let id = request.id;
        if self.collectives.contains_key(&id) {
            return Err(Refusal::Exists { id });
        }
        self.ledger.check_collectives(request.owner)?;
        let service = match self.serve(&request) {
            Service::Suspended { member } => return Err(self.cut_off(&request, member)),
            Service::Adapters { why } if request.demand == Demand::SwitchTree => {
                return Err(Refusal::NoSwitchTree { why });
            }
            service @ (Service::Adapters { .. } | Service::Switches { .. }) => service,
        };
        let collective = Collective { request, service };
        self.journal.collective(id, || None);
        self.ledger.take(&collective);
        Ok(self.collectives.entry(id).or_insert(collective))
    }

    /// Releases a collective and its entries; `None` if there is none with this id.
    pub fn release(&mut self, id: CollectiveId) -> Option<Collective> {
        let collective = self.collectives.remove(&id)?;
        self.journal.collective(id, || Some(collective.clone()));
        self.ledger.give_back(&collective);
        Some(collective)
    }

    /// Returns a collective.
    #[must_use]
    pub fn collective(&self, id: CollectiveId) -> Option<&Collective> {
        self.collectives.get(&id)
    }

    /// Iterates over the collectives by id.
    pub fn collectives(&self) -> impl ExactSizeIterator<Item = &Collective> {
        self.collectives.values()
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the fabric with its faults.
    #[must_use]
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Returns the entries that switches must hold for a collective; none without a switch tree.
    #[must_use]
    pub fn entries(&self, id: CollectiveId) -> Vec<AggregationEntry> {
        self.collectives.get(&id).map(Collective::entries).unwrap_or_default()
    }

    /// Returns a new number for a tree of the caller, such as an adapter tree to be programmed.
    pub fn number_tree(&mut self) -> TreeId {
        self.next_tree += 1;
        TreeId(self.next_tree - 1)
    }

    /// Returns the kind of tree for an operation of a collective: the one that the cost model
    /// prefers, or an adapter tree if the collective has no switch tree. `None` if there is no such
    /// collective.
    pub fn choose(&mut self, id: CollectiveId, operation: Operation, bytes: u32) -> Option<Choice> {
        let collective = self.collectives.get(&id)?;
        let has_tree = matches!(collective.service, Service::Switches { .. });
        let processes = collective.request.processes();
        let choice = *self.choices(processes).choose(operation, bytes);
        let kind = if has_tree { choice.kind } else { TreeKind::Adapter };
        Some(Choice { kind, ..choice })
    }

    /// Returns the choices for a number of processes, which are computed once.
    pub fn choices(&mut self, processes: u32) -> &ChoiceTable {
        if self.tables.len() >= TABLES_KEPT && !self.tables.contains_key(&processes) {
            self.tables.clear();
        }
        let Settings { limits, parameters, .. } = &self.settings;
        let table = || ChoiceTable::new(parameters, processes, limits);
        self.tables.entry(processes).or_insert_with(table)
    }

    /// Builds the adapter tree of a collective for an operation on messages of `bytes`, with the
    /// cheapest width within the limit on children. `None` if there is no such collective or a
    /// member is not connected.
    pub fn adapter_tree(
        &mut self,
        id: CollectiveId,
        operation: Operation,
        bytes: u32,
    ) -> Option<AdapterTree> {
        let width = self.choose(id, operation, bytes)?.widths.best;
        self.adapter_tree_of_width(id, width)
    }

    /// Builds the adapter tree of a collective with a width, within the limit on children. `None`
    /// if there is no such collective or a member is not connected.
    #[must_use]
    pub fn adapter_tree_of_width(&self, id: CollectiveId, width: u32) -> Option<AdapterTree> {
        let members = &self.collectives.get(&id)?.request.members;
        let nesting = Nesting::of_fabric(&self.fabric, members).ok()?;
        AdapterTree::within(&nesting, width, self.settings.limits.adapter_children).ok()
    }

    /// Returns the holders of a switch's entries, by tree; empty for an unknown switch.
    #[must_use]
    pub fn holdings(&self, switch: SwitchId) -> &[Holding] {
        self.ledger.holdings(switch)
    }

    /// Returns the entries and collectives of a job or tenant.
    #[must_use]
    pub fn usage(&self, holder: Holder) -> Usage {
        self.ledger.usage(holder)
    }

    /// Copies the entries in use, reservations and limits. Cost: some nanoseconds for each switch,
    /// port, entry and endpoint of a reservation.
    #[must_use]
    pub fn copy_entries(&self) -> EntryLedger {
        EntryLedger(self.ledger.clone())
    }

    /// Returns the number of entries that a job could still get in a switch.
    #[must_use]
    pub fn free_entries(&self, switch: SwitchId, owner: Owner) -> u16 {
        self.ledger.free(switch, owner)
    }

    /// Reserves entries for a job or tenant, in every switch on or above the leaf switches of some
    /// endpoints (without a fat tree, in all that are connected with theirs), until
    /// [`Allocator::cancel`]. Entries that the holder uses already count as part of the
    /// reservation; a job's reservation is part of its tenant's.
    ///
    /// # Errors
    ///
    /// [`ReserveError`]; nothing is changed.
    pub fn reserve(&mut self, reservation: Reservation) -> Result<ReservationId, ReserveError> {
        self.climb(&reservation)?;
        self.journal.reservation(ReservationId(self.ledger.next_reservation), &self.ledger);
        self.ledger.reserve(reservation, self.climber.found())
    }

    /// Reserves entries under the number of an earlier reservation, as on another fabric; quotas
    /// do not apply.
    ///
    /// # Errors
    ///
    /// [`ReserveError`]; nothing is changed.
    pub fn reserve_again(
        &mut self,
        id: ReservationId,
        reservation: Reservation,
    ) -> Result<(), ReserveError> {
        self.climb(&reservation)?;
        self.journal.reservation(id, &self.ledger);
        self.ledger.reserve_again(id, reservation, self.climber.found())
    }

    /// Finds the switches of a reservation.
    fn climb(&mut self, Reservation { endpoints, .. }: &Reservation) -> Result<(), ReserveError> {
        let Self { climber, fabric, .. } = self;
        let cut_off = |cut: CutOff| ReserveError::CutOff { endpoint: endpoints[cut.member] };
        climber.start(fabric, endpoints).map_err(cut_off)?;
        while climber.climb(fabric) {}
        Ok(())
    }

    /// Ends a reservation; `None` if there is none with this number.
    pub fn cancel(&mut self, id: ReservationId) -> Option<Reservation> {
        self.journal.reservation(id, &self.ledger);
        self.ledger.cancel(id)
    }

    /// Iterates over the reservations by id.
    pub fn reservations(&self) -> impl Iterator<Item = (ReservationId, &Reservation)> {
        self.ledger.reservations()
    }

    /// Returns a reservation.
    #[must_use]
    pub fn reservation(&self, id: ReservationId) -> Option<&Reservation> {
        self.ledger.reservation(id)
    }

    /// Returns the switches of a reservation. Cost: O(switches).
    #[must_use]
    pub fn reserved_switches(&self, id: ReservationId) -> Vec<SwitchId> {
        self.ledger.switches_of(id)
    }

    /// Returns the number of the next tree, and that of the next reservation.
    #[must_use]
    pub fn next_numbers(&self) -> (TreeId, ReservationId) {
        (TreeId(self.next_tree), ReservationId(self.ledger.next_reservation))
    }

    /// Returns whether a holder, or any job of a tenant, has collectives, reservations or limits.
    #[must_use]
    pub fn is_known(&self, holder: Holder) -> bool {
        self.ledger.is_known(holder)
    }

    /// Iterates over the holders of collectives, reservations and limits; some come again.
    pub fn holders(&self) -> impl Iterator<Item = Holder> {
        self.ledger.holders()
    }

    /// Sets the limits of a job or tenant; present collectives and reservations are kept.
    pub fn set_quota(&mut self, holder: Holder, quota: Quota) {
        self.journal.quota(holder, &self.ledger);
        self.ledger.set_quota(holder, quota);
    }

    /// Iterates over the limits, by holder.
    pub fn quotas(&self) -> impl Iterator<Item = (Holder, Quota)> {
        self.ledger.quotas()
    }

    /// Returns the limits of a job or tenant.
    #[must_use]
    pub fn quota(&self, holder: Holder) -> Quota {
        self.ledger.quota(holder)
    }

    fn cut_off(&self, request: &Request, member: usize) -> Refusal {
        let endpoint = request.members[member];
        let graph = self.fabric.graph();
        let known = endpoint.index() < graph.endpoint_count();
        let name = || graph.endpoint_name(endpoint).to_owned();
        let endpoint = if known { name() } else { format!("endpoint #{}", endpoint.0) };
        Refusal::CutOff { member, endpoint }
    }

    /// Chooses the tree of a collective; takes no entries, only a number for the tree.
    fn serve(&mut self, request: &Request) -> Service {
        self.work += request.members.len();
        if let Err(cut) = self.climber.start(&self.fabric, &request.members) {
            return Service::Suspended { member: cut.member };
        }
        let SizeRange { min, max } = request.bytes;
        let table = self.choices(request.processes());
        let wanted = request.operations.iter().any(|operation| {
            let sizes = table.sizes(*operation, min, max);
            sizes.iter().any(|row| row.kind == TreeKind::Switch)
        });
        if !wanted && request.demand == Demand::Best {
            return Service::Adapters { why: Fallback::Slower };
        }
        match self.find_tree(request.owner) {
            Ok(tree) => Service::Switches { id: self.number_tree(), tree },
            Err(why) => Service::Adapters { why },
        }
    }

    /// Finds a switch tree over the members that the climber was started with.
    fn find_tree(&mut self, owner: Owner) -> Result<SwitchTree, Fallback> {
        let Self { fabric, climber, ledger, settings, work, .. } = self;
        let ledger = &*ledger;
        let most = settings.limits.switch_children;
        // Trees with different roots have most of their switches in common.
        let known: Vec<Cell<Option<bool>>> = vec![Cell::new(None); fabric.graph().switch_count()];
        let may_take = |switch: SwitchId| {
            let known = &known[switch.index()];
            let may_take = known.get().unwrap_or_else(|| ledger.may_take(switch, owner));
            known.set(Some(may_take));
            may_take
        };
        let children = |switch: SwitchId| if may_take(switch) { most } else { 0 };
        let (mut above, mut tried, mut switches) = (0, 0, 0);
        loop {
            let mut roots = climber.roots();
            above += roots.len();
            roots.retain(|root| may_take(*root));
            roots.sort_unstable_by_key(|root| ledger.preference(*root));
            for (place, root) in roots.into_iter().take(ROOTS_TRIED).enumerate() {
                if place > 0 && switches >= SWITCHES_TRIED {
                    break;
                }
                tried += 1;
                let physical = climber.descend(fabric, root, |port| ledger.link_load(port));
                switches += physical.switches.len();
                *work += physical.switches.len();
                if let Some(tree) = minimum_tree(physical, children) {
                    ledger.check_entries(owner, &tree)?;
                    return Ok(tree);
                }
            }
            // No root this near: one farther away still makes shorter ways than adapters do.
            if !climber.climb(fabric) {
                break;
            }
        }
        Err(if above == 0 {
            Fallback::NoCommonSwitch
        } else {
            Fallback::NoEntries { above, tried }
        })
    }
}

#[cfg(test)]
mod tests;
