//! Ledger of aggregation entries: holders, reservations and limits.

use std::collections::BTreeMap;
use std::fmt;

use fabricast_topology::{EndpointId, PortId, SwitchId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Settings;
use super::request::{Collective, CollectiveId, Fallback, JobId, Owner, Refusal, TenantId, TreeId};
use crate::fabric::Fabric;
use crate::switch_tree::{KeptSwitch, SwitchTree};

/// Holder of entries, reservations and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder {
    /// A tenant with all its jobs.
    Tenant(TenantId),
    /// One job of a tenant.
    Job(Owner),
}

impl Holder {
    /// Returns whether an owner's collectives count for this holder.
    #[must_use]
    pub fn covers(self, owner: Owner) -> bool {
        match self {
            Self::Tenant(tenant) => tenant == owner.tenant,
            Self::Job(job) => job == owner,
        }
    }

    /// Returns the two holders that an owner's collectives count for.
    fn of(owner: Owner) -> [Self; 2] {
        [Self::Tenant(owner.tenant), Self::Job(owner)]
    }

    /// Returns the holder, and of a job its tenant, too.
    fn with_tenant(self) -> impl Iterator<Item = Self> {
        let tenant = match self {
            Self::Tenant(_) => None,
            Self::Job(owner) => Some(Self::Tenant(owner.tenant)),
        };
        tenant.into_iter().chain([self])
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(tenant) => write!(out, "tenant {tenant}"),
            Self::Job(owner) => write!(out, "job {} of tenant {}", owner.job, owner.tenant),
        }
    }
}

/// An entry in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holding {
    /// Number of the tree.
    pub tree: TreeId,
    /// Number of the collective.
    pub collective: CollectiveId,
    /// Owner of the collective.
    pub owner: Owner,
}

/// Limits of a holder; `None` is no limit. Entries count that are in use or reserved for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Number of collectives; more are refused.
    pub collectives: Option<u32>,
    /// Entries of all switches together; collectives that would exceed it run on adapter trees,
    /// reservations are refused.
    pub entries: Option<u32>,
    /// Entries of a single switch; a switch where the holder has that many is not used,
    /// reservations of more are refused.
    pub entries_per_switch: Option<u16>,
}

/// Entries and trees of a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Collectives, also those without a switch tree.
    pub collectives: u32,
    /// Entries of all switches together.
    pub entries: u32,
}

/// A reservation of entries for a holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Job or tenant that the entries are for.
    pub holder: Holder,
    /// Number of entries in each switch.
    pub entries: u16,
    /// Endpoints on whose leaf switches, and on all switches above, the entries are reserved.
    pub endpoints: Vec<EndpointId>,
}

/// Number of a reservation, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReservationId(pub u32);

/// Reason why entries cannot be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReserveError {
    /// No live link connects an endpoint to the fat tree.
    #[error("endpoint {} is not connected to a leaf switch", endpoint.0)]
    CutOff {
        /// Number of the endpoint.
        endpoint: EndpointId,
    },
    /// A switch has too few entries that are neither in use nor reserved.
    #[error("switch {} lacks {missing} of the entries", switch.0)]
    TooFew {
        /// Number of the switch.
        switch: SwitchId,
        /// Further entries that the holder would need.
        missing: u32,
    },
    /// The holder, or its tenant, may not have so many entries.
    #[error("{holder} may hold {limit} entries, and would have {needs}")]
    Quota {
        /// Holder of the limit.
        holder: Holder,
        /// Limit of the holder.
        limit: u32,
        /// Entries that it would have.
        needs: u32,
        /// Number of the switch that the limit is of; `None` if of all together.
        switch: Option<SwitchId>,
    },
}

/// Entries in use, reservations and limits of all switches and holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ledger {
    /// By switch: entries it has.
    budgets: Vec<u16>,
    /// By switch: entries in use, by tree.
    held: Vec<Vec<Holding>>,
    /// By switch: reservations in it, by id.
    reserved: Vec<Vec<ReservationId>>,
    /// By switch: trees through it, with an entry or without.
    through: Vec<u32>,
    /// By port: trees on the link upwards.
    on_link: Vec<u32>,
    usages: BTreeMap<Holder, Usage>,
    quotas: BTreeMap<Holder, Quota>,
    reservations: BTreeMap<ReservationId, Reservation>,
    /// Reservations of each holder.
    reserved_by: BTreeMap<Holder, u32>,
    pub(super) next_reservation: u32,
}

impl Ledger {
    pub(super) fn new(fabric: &Fabric, settings: &Settings) -> Self {
        let graph = fabric.graph();
        let budget = |switch| settings.entries_of.get(&switch).copied();
        Self {
            budgets: graph
                .switches()
                .map(|switch| budget(switch).unwrap_or(settings.entries))
                .collect(),
            held: vec![Vec::new(); graph.switch_count()],
            reserved: vec![Vec::new(); graph.switch_count()],
            through: vec![0; graph.switch_count()],
            on_link: vec![0; graph.port_count()],
            usages: BTreeMap::new(),
            quotas: BTreeMap::new(),
            reservations: BTreeMap::new(),
            reserved_by: BTreeMap::new(),
            next_reservation: 0,
        }
    }

    /// Records the entries of a collective.
    pub(super) fn take(&mut self, collective: &Collective) {
        let owner = collective.request.owner;
        let entries = self.record(collective, true);
        for holder in Holder::of(owner) {
            let usage = self.usages.entry(holder).or_default();
            usage.collectives += 1;
            usage.entries += entries;
        }
    }

    /// Removes a collective (AGG-6).
    pub(super) fn give_back(&mut self, collective: &Collective) {
        let owner = collective.request.owner;
        let entries = self.record(collective, false);
        for holder in Holder::of(owner) {
            let usage = self.usages.entry(holder).or_default();
            usage.collectives -= 1;
            usage.entries -= entries;
            if *usage == Usage::default() {
                self.usages.remove(&holder);
            }
        }
    }

    /// Adds or removes a collective's entries and links; returns the number of entries.
    fn record(&mut self, collective: &Collective, add: bool) -> u32 {
        let Some((tree, shape)) = collective.service.switch_tree() else { return 0 };
        let step = |count: &mut u32| if add { *count += 1 } else { *count -= 1 };
        for node in &shape.physical.switches {
            step(&mut self.through[node.switch.index()]);
            if let Some(up) = node.up {
                step(&mut self.on_link[up.port.index()]);
            }
        }
        let (collective, owner) = (collective.request.id, collective.request.owner);
        let holding = Holding { tree, collective, owner };
        for kept in &shape.kept {
            let held = &mut self.held[kept.switch.index()];
            match held.binary_search(&holding) {
                Err(at) if add => held.insert(at, holding),
                Ok(at) if !add => _ = held.remove(at),
                Ok(_) | Err(_) => {}
            }
        }
        u32::try_from(shape.cost()).expect("switches have 32-bit numbers")
    }

    pub(super) fn holdings(&self, switch: SwitchId) -> &[Holding] {
        self.held.get(switch.index()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn usage(&self, holder: Holder) -> Usage {
        self.usages.get(&holder).copied().unwrap_or_default()
    }

    pub(super) fn usages(&self) -> impl Iterator<Item = (Holder, Usage)> {
        self.usages.iter().map(|(holder, usage)| (*holder, *usage))
    }

    pub(super) fn quota(&self, holder: Holder) -> Quota {
        self.quotas.get(&holder).copied().unwrap_or_default()
    }

    pub(super) fn set_quota(&mut self, holder: Holder, quota: Quota) {
        if quota == Quota::default() {
            self.quotas.remove(&holder);
        } else {
            self.quotas.insert(holder, quota);
        }
    }

    pub(super) fn quotas(&self) -> impl Iterator<Item = (Holder, Quota)> {
        self.quotas.iter().map(|(holder, quota)| (*holder, *quota))
    }

    pub(super) fn reservations(&self) -> impl Iterator<Item = (ReservationId, &Reservation)> {
        self.reservations.iter().map(|(id, reservation)| (*id, reservation))
    }

    pub(super) fn reservation(&self, id: ReservationId) -> Option<&Reservation> {
        self.reservations.get(&id)
    }

    /// Returns whether a holder, or any job of a tenant, has collectives, reservations or limits.
    pub(super) fn is_known(&self, holder: Holder) -> bool {
        has(&self.usages, holder) || has(&self.quotas, holder) || has(&self.reserved_by, holder)
    }

    /// Iterates over the holders of collectives, reservations and limits; some come again.
    pub(super) fn holders(&self) -> impl Iterator<Item = Holder> {
        let reserved = self.reservations.values().map(|reservation| reservation.holder);
        self.usages.keys().chain(self.quotas.keys()).copied().chain(reserved)
    }

    /// Returns the preference among roots: fewest entries in use, then fewest trees through the
    /// switch.
    pub(super) fn preference(&self, root: SwitchId) -> (usize, u32, SwitchId) {
        (self.held[root.index()].len(), self.through[root.index()], root)
    }

    /// Returns the number of trees on the upward link at a port.
    pub(super) fn link_load(&self, port: PortId) -> u32 {
        self.on_link[port.index()]
    }

    /// Returns the number of entries of a switch that an owner could still get: neither in use nor
    /// reserved for others (AGG-5).
    pub(super) fn free(&self, switch: SwitchId, owner: Owner) -> u16 {
        let Some(budget) = self.budgets.get(switch.index()) else { return 0 };
        let used = self.held[switch.index()].len();
        let kept = self.kept_back(switch, Some(owner));
        let free = usize::from(*budget).saturating_sub(used + kept as usize);
        u16::try_from(free).expect("at most the budget")
    }

    /// Returns whether an owner may take an entry of a switch.
    pub(super) fn may_take(&self, switch: SwitchId, owner: Owner) -> bool {
        let within = |holder: Holder| {
            let most = self.quota(holder).entries_per_switch;
            most.is_none_or(|most| self.claim(holder, switch, Some(owner)) <= u32::from(most))
        };
        self.free(switch, owner) > 0 && Holder::of(owner).into_iter().all(within)
    }

    /// Returns the number of entries of a switch that are reserved for others than `owner` and not
    /// in use. A job's reservation is part of its tenant's.
    fn kept_back(&self, switch: SwitchId, owner: Option<Owner>) -> u32 {
        let here = &self.reserved[switch.index()];
        if here.is_empty() {
            return 0;
        }
        let mut tenants: BTreeMap<TenantId, (u32, u32)> = BTreeMap::new();
        let mut wanted: BTreeMap<Holder, u32> = BTreeMap::new();
        for reservation in here.iter().filter_map(|id| self.reservations.get(id)) {
            *wanted.entry(reservation.holder).or_default() += u32::from(reservation.entries);
        }
        for (holder, entries) in wanted {
            let held = self.held[switch.index()].iter();
            let has = held.filter(|holding| holder.covers(holding.owner)).count();
            let open = entries.saturating_sub(u32::try_from(has).expect("at most the budget"));
            match holder {
                Holder::Job(job) if Some(job) != owner => {
                    tenants.entry(job.tenant).or_default().1 += open;
                }
                Holder::Tenant(tenant) if owner.is_none_or(|owner| owner.tenant != tenant) => {
                    tenants.entry(tenant).or_default().0 = open;
                }
                Holder::Job(_) | Holder::Tenant(_) => {}
            }
        }
        tenants.into_values().map(|(tenant, jobs)| tenant.max(jobs)).sum()
    }

    /// Returns the entries of a switch that are in use by a holder or reserved for it.
    ///
    /// - `one_more`: an owner that counts as if it had another entry.
    fn claim(&self, holder: Holder, switch: SwitchId, one_more: Option<Owner>) -> u32 {
        let mut jobs: BTreeMap<Owner, (u32, u32)> = BTreeMap::new();
        let held = self.held[switch.index()].iter().map(|holding| holding.owner);
        for owner in held.chain(one_more).filter(|owner| holder.covers(*owner)) {
            jobs.entry(owner).or_default().0 += 1;
        }
        let mut of_tenant = 0;
        let here = self.reserved[switch.index()].iter();
        for reservation in here.filter_map(|id| self.reservations.get(id)) {
            let entries = u32::from(reservation.entries);
            match reservation.holder {
                Holder::Job(owner) if holder.covers(owner) => {
                    jobs.entry(owner).or_default().1 += entries;
                }
                tenant @ Holder::Tenant(_) if tenant == holder => of_tenant += entries,
                Holder::Job(_) | Holder::Tenant(_) => {}
            }
        }
        let of_jobs = jobs.into_values().map(|(held, reserved)| held.max(reserved)).sum();
        of_tenant.max(of_jobs)
    }

    /// Returns the entries of all switches that are in use by a holder or reserved for it.
    fn claims(&self, holder: Holder) -> u32 {
        let switches = (0_u32..).map(SwitchId).take(self.budgets.len());
        switches.map(|switch| self.claim(holder, switch, None)).sum()
    }

    /// Refuses a collective beyond a quota.
    pub(super) fn check_collectives(&self, owner: Owner) -> Result<(), Refusal> {
        for holder in Holder::of(owner) {
            let limit = self.quota(holder).collectives;
            if let Some(limit) = limit.filter(|limit| self.usage(holder).collectives >= *limit) {
                return Err(Refusal::Quota { holder, limit });
            }
        }
        Ok(())
    }

    /// Refuses a tree that takes more entries than a quota leaves.
    pub(super) fn check_entries(&self, owner: Owner, tree: &SwitchTree) -> Result<(), Fallback> {
        for holder in Holder::of(owner) {
            let Some(limit) = self.quota(holder).entries else { continue };
            let has = self.claims(holder);
            let more = |kept: &KeptSwitch| {
                let claim = |one_more| self.claim(holder, kept.switch, one_more);
                claim(Some(owner)) - claim(None)
            };
            let needs = tree.kept.iter().map(more).sum();
            if has + needs > limit {
                return Err(Fallback::Quota { holder, limit, has, needs });
            }
        }
        Ok(())
    }

    /// Refuses a reservation in these switches that was recorded and exceeds a quota.
    fn check_reserved(&self, holder: Holder, switches: &[SwitchId]) -> Result<(), ReserveError> {
        for holder in holder.with_tenant() {
            let Quota { entries, entries_per_switch, .. } = self.quota(holder);
            if let Some(limit) = entries_per_switch.map(u32::from) {
                for switch in switches {
                    let needs = self.claim(holder, *switch, None);
                    if needs > limit {
                        let switch = Some(*switch);
                        return Err(ReserveError::Quota { holder, limit, needs, switch });
                    }
                }
            }
            let Some(limit) = entries else { continue };
            let needs = self.claims(holder);
            if needs > limit {
                return Err(ReserveError::Quota { holder, limit, needs, switch: None });
            }
        }
        Ok(())
    }

    /// Records a reservation in these switches, if they have the entries and quotas allow it.
    pub(super) fn reserve(
        &mut self,
        reservation: Reservation,
        switches: &[SwitchId],
    ) -> Result<ReservationId, ReserveError> {
        let (id, holder) = (ReservationId(self.next_reservation), reservation.holder);
        self.reserve_again(id, reservation, switches)?;
        if let Err(error) = self.check_reserved(holder, switches) {
            self.cancel(id);
            return Err(error);
        }
        self.next_reservation += 1;
        Ok(id)
    }

    /// Records a reservation that has a number, if these switches have the entries.
    pub(super) fn reserve_again(
        &mut self,
        id: ReservationId,
        reservation: Reservation,
        switches: &[SwitchId],
    ) -> Result<(), ReserveError> {
        self.record_reservation(id, reservation, switches);
        let mut short = switches.iter().map(|switch| (*switch, self.missing(*switch)));
        if let Some((switch, missing)) = short.find(|(_, missing)| *missing > 0) {
            self.cancel(id);
            return Err(ReserveError::TooFew { switch, missing });
        }
        Ok(())
    }

    /// Records a reservation without checking that it can be kept.
    pub(super) fn record_reservation(
        &mut self,
        id: ReservationId,
        reservation: Reservation,
        switches: &[SwitchId],
    ) {
        *self.reserved_by.entry(reservation.holder).or_default() += 1;
        if let Some(before) = self.reservations.insert(id, reservation) {
            self.forget_reservation_of(before.holder);
        }
        for switch in switches {
            let here = &mut self.reserved[switch.index()];
            if let Err(at) = here.binary_search(&id) {
                here.insert(at, id);
            }
        }
    }

    /// Returns the number of entries that a switch lacks for everything in use and reserved; 0 as
    /// long as AGG-5 holds.
    pub(super) fn missing(&self, switch: SwitchId) -> u32 {
        let used = u32::try_from(self.held[switch.index()].len()).expect("entries are few");
        let wanted = used + self.kept_back(switch, None);
        wanted.saturating_sub(self.budgets[switch.index()].into())
    }

    /// Returns the switches of a reservation.
    pub(super) fn switches_of(&self, id: ReservationId) -> Vec<SwitchId> {
        let switches = (0_u32..).map(SwitchId).zip(&self.reserved);
        switches.filter(|(_, here)| here.contains(&id)).map(|(switch, _)| switch).collect()
    }

    /// Ends a reservation.
    pub(super) fn cancel(&mut self, id: ReservationId) -> Option<Reservation> {
        let reservation = self.reservations.remove(&id)?;
        self.forget_reservation_of(reservation.holder);
        self.reserved.iter_mut().for_each(|here| here.retain(|other| *other != id));
        Some(reservation)
    }

    fn forget_reservation_of(&mut self, holder: Holder) {
        if let Some(count) = self.reserved_by.get_mut(&holder) {
            *count -= 1;
            if *count == 0 {
                self.reserved_by.remove(&holder);
            }
        }
    }
}

/// Returns whether a holder, or any job of a tenant, is among these.
fn has<T>(holders: &BTreeMap<Holder, T>, holder: Holder) -> bool {
    let is_there = holders.contains_key(&holder);
    match holder {
        Holder::Job(_) => is_there,
        Holder::Tenant(tenant) => {
            let job = |job| Holder::Job(Owner { tenant, job: JobId(job) });
            is_there || holders.range(job(0)..=job(u64::MAX)).next().is_some()
        }
    }
}
