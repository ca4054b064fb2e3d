//! Encodes collectives for the store: one JSON text for each, and one for the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_collectives::{
    Collective, Holder, JobId, Quota, Reservation, ReservationId, TenantId, TreeId,
};
use fabricast_groups::record::MemberRecord;
use fabricast_topology::SwitchId;
use serde::{Deserialize, Serialize};

use crate::domain::collectives::member_trees::MeasuredConstants;

/// Texts by key, without the common prefix.
pub(crate) type Texts = BTreeMap<String, Arc<str>>;

/// Key of what belongs to no single collective.
pub(super) const LEDGER: &str = "ledger";
/// Key of the constants that were measured.
pub(super) const MEASURED: &str = "measured";
/// Prefix of the key of a collective, before its name.
pub(super) const COLLECTIVE: &str = "by-name/";

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) gn: u64,
    pub(super) tenant: String,
    pub(super) job: String,
    /// The index is the number of a process.
    pub(super) members: Vec<Member>,
    /// Number of its adapter tree, which is computed again from the rest.
    pub(super) adapter_tree: Option<TreeId>,
    /// Switches and endpoints are numbers of the topology that the ledger names.
    pub(super) collective: Collective,
    /// True if a member asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) requested: bool,
}

/// A process of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Member {
    pub(super) node: String,
    pub(super) process: String,
    pub(super) endpoint: String,
}

impl From<&MemberRecord> for Member {
    fn from(member: &MemberRecord) -> Self {
        Self {
            node: member.node.to_string(),
            process: member.process.to_string(),
            endpoint: member.endpoint.to_string(),
        }
    }
}

/// More numbers of trees, or of reservations, than are given between two copies of the records.
const NUMBER_STEP: u32 = 1 << 20;

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
    /// The index is a tenant's number, which is free again once nothing belongs to it.
    pub(super) tenants: Vec<Option<String>>,
    /// Tenant and name; the index is a job's number, as above.
    pub(super) jobs: Vec<Option<(u64, String)>>,
    pub(super) reservations: Vec<(ReservationId, Reservation, Vec<SwitchId>)>,
    /// Names of the endpoints of reservations, whose numbers are others on another topology.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) endpoints: BTreeMap<ReservationId, Vec<String>>,
    pub(super) quotas: Vec<(Holder, Quota)>,
}

/// Checks the text of a key; `None` if there is no such key.
pub(crate) fn check(key: &str, text: &str) -> Option<Result<(), serde_json::Error>> {
    if key == LEDGER {
        Some(serde_json::from_str::<Ledger>(text).map(drop))
    } else if key == MEASURED {
        Some(serde_json::from_str::<MeasuredConstants>(text).map(drop))
    } else if key.starts_with(COLLECTIVE) {
        Some(serde_json::from_str::<Record>(text).map(drop))
    } else {
        None
    }
}

/// The text of a key with every number that only grows raised: revision and numbers of collectives
/// by `step`, numbers of trees and reservations by 2^20. `None` if the key has no such number, or
/// cannot be read.
pub(crate) fn raised(key: &str, text: &str, step: u64) -> Option<String> {
    let ledger: Ledger = serde_json::from_str(text).ok().filter(|_| key == LEDGER)?;
    let raised = Ledger {
        revision: ledger.revision.saturating_add(step),
        next_id: ledger.next_id.saturating_add(step),
        next_tree: ledger.next_tree.saturating_add(NUMBER_STEP),
        next_reservation: ledger.next_reservation.saturating_add(NUMBER_STEP),
        ..ledger
    };
    Some(raised.text())
}

impl Record {
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("names, numbers and lists are JSON")
    }
}

impl Ledger {
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("names, numbers and lists are JSON")
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
