//! Encodes collectives for the store: one JSON text for each, for each reservation and quota, and
//! one for the numbers that only grow.
//!
//! The ledger of earlier versions has reservations, quotas and the names of their holders in its
//! own text. It is read, too, and divided when it is written next.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_collectives::{
    Collective, Holder, JobId, Quota, Reservation, ReservationId, TenantId, TreeId,
};
use fabricast_groups::names::{EndpointName, NodeName, ProcessName};
use fabricast_groups::record::MemberRecord;
use fabricast_topology::SwitchId;
use serde::{Deserialize, Serialize};

use crate::domain::collectives::adapters::AdapterChoice;
use crate::domain::collectives::member_trees::MeasuredConstants;
use crate::domain::collectives::request::HolderName;

/// Texts by key, without the common prefix.
pub(crate) type Texts = BTreeMap<String, Arc<str>>;

/// Key of what belongs to nothing else.
pub(crate) const LEDGER: &str = "ledger";
/// Key of the constants that were measured.
pub(super) const MEASURED: &str = "measured";
/// Prefix of the key of a collective, before its name.
pub(super) const COLLECTIVE: &str = "by-name/";
/// Prefix of the key of a reservation, before its number.
pub(super) const RESERVATION: &str = "reservation/";
/// Prefix of the key of a quota, before the number of its tenant or job.
const QUOTA: &str = "quota/";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) group: Cow<'a, str>,
    pub(super) gn: u64,
    pub(super) tenant: Cow<'a, str>,
    pub(super) job: Cow<'a, str>,
    /// The index is the number of a process.
    pub(super) members: Cow<'a, [Member]>,
    /// Number of its adapter tree, which is computed again from the rest.
    pub(super) adapter_tree: Option<TreeId>,
    /// Shape of that tree; `None` in records of earlier versions, which computed it again, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) adapter_choice: Option<AdapterChoice>,
    /// Most children of a node of that tree; `None` in records of earlier versions, which took the
    /// limit of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) adapter_children: Option<u32>,
    /// Switches and endpoints are numbers of the topology that the ledger names.
    pub(super) collective: Cow<'a, Collective>,
    /// True if a member asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) requested: bool,
}

/// A process of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Member {
    pub(super) node: NodeName,
    pub(super) process: ProcessName,
    pub(super) endpoint: EndpointName,
}

impl Member {
    /// Returns whether it is the member of a record.
    pub(super) fn is(&self, record: &MemberRecord) -> bool {
        self.node == record.node
            && self.process == record.process
            && self.endpoint == record.endpoint
    }
}

impl From<&MemberRecord> for Member {
    fn from(member: &MemberRecord) -> Self {
        let MemberRecord { node, process, endpoint, .. } = member;
        Self { node: node.clone(), process: process.clone(), endpoint: endpoint.clone() }
    }
}

/// A reservation as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReservationRecord<'a> {
    pub(super) id: ReservationId,
    pub(super) tenant: String,
    pub(super) job: Option<String>,
    /// Endpoints and switches are numbers of the topology that the ledger names.
    pub(super) reservation: Cow<'a, Reservation>,
    pub(super) switches: Vec<SwitchId>,
    /// Names of its endpoints, whose numbers are others on another topology.
    pub(super) endpoints: Vec<Cow<'a, str>>,
}

/// A quota as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaRecord {
    pub(super) tenant: String,
    pub(super) job: Option<String>,
    pub(super) holder: Holder,
    pub(super) quota: Quota,
}

/// The key of a reservation.
pub(super) fn reservation_key(id: ReservationId) -> String {
    format!("{RESERVATION}{}", id.0)
}

/// The key of the quota of a holder.
pub(super) fn quota_key(holder: Holder) -> String {
    match holder {
        Holder::Tenant(tenant) => format!("{QUOTA}tenant/{tenant}"),
        Holder::Job(owner) => format!("{QUOTA}job/{}", owner.job),
    }
}

/// Returns whether a key is that of a reservation or a quota.
pub(super) fn is_of_holder(key: &str) -> bool {
    key.starts_with(RESERVATION) || key.starts_with(QUOTA)
}

/// More numbers of trees, or of reservations, than are given between two copies of the records.
const NUMBER_STEP: u32 = 1 << 20;

/// More tenants, or jobs, than have a number at one time.
const MAX_NUMBERS: usize = 1 << 24;

/// Everything that belongs to no single collective.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ledger {
    /// Digest of the topology that switch and endpoint numbers belong to.
    pub(super) topology: String,
    /// Grows with every change.
    pub(super) revision: u64,
    pub(super) next_id: u64,
    pub(super) next_tree: u32,
    pub(super) next_reservation: u32,
    /// The index is a tenant's number, which is free again once nothing belongs to it. The records
    /// of what belongs to it have its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tenants: Vec<Option<String>>,
    /// Tenant and name; the index is a job's number, as above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) jobs: Vec<Option<(u64, String)>>,
    /// Only in texts of earlier versions, as what follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) reservations: Vec<(ReservationId, Reservation, Vec<SwitchId>)>,
    /// Names of the endpoints of reservations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) endpoints: BTreeMap<ReservationId, Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) quotas: Vec<(Holder, Quota)>,
}

/// Checks the text of a key; `None` if there is no such key.
pub(crate) fn check(key: &str, text: &str) -> Option<Result<(), serde_json::Error>> {
    if key == LEDGER {
        Some(serde_json::from_str::<Ledger>(text).map(drop))
    } else if key == MEASURED {
        Some(serde_json::from_str::<MeasuredConstants>(text).map(drop))
    } else if key.starts_with(COLLECTIVE) {
        Some(serde_json::from_str::<Record<'_>>(text).map(drop))
    } else if key.starts_with(RESERVATION) {
        Some(serde_json::from_str::<ReservationRecord<'_>>(text).map(drop))
    } else if key.starts_with(QUOTA) {
        Some(serde_json::from_str::<QuotaRecord>(text).map(drop))
    } else {
        None
    }
}

/// The text of the ledger with every number that only grows raised: revision and numbers of
/// collectives by `step`, numbers of trees and reservations by 2^20.
///
/// - `text`: the ledger; `None` before the first collective, whose numbers begin at 0.
///
/// # Errors
///
/// The fault in the text.
pub(crate) fn raised_ledger(text: Option<&str>, step: u64) -> Result<String, serde_json::Error> {
    let ledger = text.map_or_else(|| Ok(Ledger::default()), serde_json::from_str::<Ledger>)?;
    let raised = Ledger {
        revision: ledger.revision.saturating_add(step),
        next_id: ledger.next_id.saturating_add(step),
        next_tree: ledger.next_tree.saturating_add(NUMBER_STEP),
        next_reservation: ledger.next_reservation.saturating_add(NUMBER_STEP),
        ..ledger
    };
    Ok(to_text(&raised))
}

/// The text of a record.
pub(super) fn to_text(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect("names, numbers and lists are JSON")
}

impl Ledger {
    /// The text that is stored: the numbers without the names, which other records have.
    pub(super) fn text(&self) -> String {
        to_text(&Self {
            topology: self.topology.clone(),
            revision: self.revision,
            next_id: self.next_id,
            next_tree: self.next_tree,
            next_reservation: self.next_reservation,
            ..Self::default()
        })
    }

    /// Returns whether it was read from the text of an earlier version.
    pub(super) fn has_records(&self) -> bool {
        !(self.tenants.is_empty()
            && self.jobs.is_empty()
            && self.reservations.is_empty()
            && self.quotas.is_empty())
    }

    /// Takes the numbers of a holder from one of its records.
    pub(super) fn note(&mut self, holder: Holder, name: &HolderName) {
        match (holder, &name.job) {
            (Holder::Job(owner), Some(job)) => {
                put(&mut self.tenants, owner.tenant.0, name.tenant.clone());
                put(&mut self.jobs, owner.job.0, (owner.tenant.0, job.clone()));
            }
            (Holder::Job(_), None) => {}
            (Holder::Tenant(tenant), _) => put(&mut self.tenants, tenant.0, name.tenant.clone()),
        }
    }

    /// Returns the names of a holder.
    pub(super) fn holder_name(&self, holder: Holder) -> HolderName {
        let (tenant, job) = match holder {
            Holder::Tenant(tenant) => (tenant, None),
            Holder::Job(owner) => (owner.tenant, Some(owner.job)),
        };
        let name = |name: Option<&str>| name.unwrap_or_default().to_owned();
        HolderName {
            tenant: name(self.tenant_name(tenant)),
            job: job.map(|job| name(self.job_name(job))),
        }
    }

    /// Returns the number of a tenant, or gives it a new one.
    pub(super) fn tenant(&mut self, name: &str) -> u64 {
        number(&mut self.tenants, |tenant| tenant == name, || name.to_owned())
    }

    /// Returns the number of a job, or gives it a new one.
    pub(super) fn job(&mut self, tenant: u64, name: &str) -> u64 {
        let is_it = |(of, job): &(u64, String)| *of == tenant && job == name;
        number(&mut self.jobs, is_it, || (tenant, name.to_owned()))
    }

    /// Returns the name of a tenant.
    pub(super) fn tenant_name(&self, tenant: TenantId) -> Option<&str> {
        self.tenants.get(usize::try_from(tenant.0).ok()?)?.as_deref()
    }

    /// Returns the name of a job.
    pub(super) fn job_name(&self, job: JobId) -> Option<&str> {
        let (_, name) = self.jobs.get(usize::try_from(job.0).ok()?)?.as_ref()?;
        Some(name)
    }

    /// Forgets the names of all tenants and jobs but these holders.
    pub(super) fn retain(&mut self, holders: impl Iterator<Item = Holder>) {
        let (mut tenants, mut jobs) = (BTreeSet::new(), BTreeSet::new());
        for holder in holders {
            match holder {
                Holder::Tenant(tenant) => _ = tenants.insert(tenant.0),
                Holder::Job(owner) => {
                    tenants.insert(owner.tenant.0);
                    jobs.insert(owner.job.0);
                }
            }
        }
        forget(&mut self.tenants, &tenants);
        forget(&mut self.jobs, &jobs);
    }

    /// Forgets the name of a tenant, or of a job.
    pub(super) fn forget(&mut self, holder: Holder) {
        match holder {
            Holder::Tenant(tenant) => free(&mut self.tenants, tenant.0),
            Holder::Job(owner) => free(&mut self.jobs, owner.job.0),
        }
    }
}

fn number<T>(
    list: &mut Vec<Option<T>>,
    is_it: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
) -> u64 {
    let known = list.iter().position(|one| one.as_ref().is_some_and(&is_it));
    let index = known.unwrap_or_else(|| {
        let free = list.iter().position(Option::is_none).unwrap_or(list.len());
        if free == list.len() {
            list.push(None);
        }
        list[free] = Some(new());
        free
    });
    u64::try_from(index).expect("an index fits in 64 bits")
}

/// Frees all places but these.
fn forget<T>(list: &mut Vec<Option<T>>, used: &BTreeSet<u64>) {
    for (place, one) in (0..).zip(list.iter_mut()) {
        if !used.contains(&place) {
            *one = None;
        }
    }
    let rest = used.last().map_or(0, |last| last.saturating_add(1));
    list.truncate(usize::try_from(rest).unwrap_or(usize::MAX));
}

/// Frees a place.
fn free<T>(list: &mut Vec<Option<T>>, place: u64) {
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    if let Some(one) = list.get_mut(place) {
        *one = None;
    }
    while list.last().is_some_and(Option::is_none) {
        list.pop();
    }
}

/// Takes a place that has a number already.
fn put<T>(list: &mut Vec<Option<T>>, place: u64, one: T) {
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    if place >= MAX_NUMBERS {
        return;
    }
    if place >= list.len() {
        list.resize_with(place + 1, || None);
    }
    list[place] = Some(one);
}
