//! The store of a cluster: keys of an etcd, which keeps them as long as most of its members live.
//!
//! The crate etcd-client speaks to etcd, with one client for each member. Calls go to one member
//! until it fails, then to the next (see `members`). A transaction is carried out once however
//! often it was sent (see `txn`). Watches and keep-alives go on when their streams break (see
//! `watch` and `leases`).
//!
//! Differences from an embedded store: revisions are etcd's own, so they also grow with writes of
//! other clients. Leases are rounded up to seconds, and etcd grants none shorter than about two.
//! Compaction deletes the history of the whole etcd, so Fabricast needs one of its own.

mod keys;
mod leases;
mod members;
mod pages;
mod slots;
mod txn;
mod watch;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use etcd_client::proto::{PbKeyValue, PbTxnOpResponse};
use etcd_client::{Compare, CompareOp, GetOptions, LeaseGrantOptions, TxnOp};
use fabricast_rpc::ExternalTls;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tonic::Code;

use crate::error::{OpenError, StoreError};
use crate::etcd::keys::{Keys, to_signed, to_unsigned};
use crate::etcd::leases::KeepAlives;
use crate::etcd::members::{Failure, Member, Members, QUICK, is_out_of_space};
use crate::etcd::pages::{is_compacted, read_all};
use crate::etcd::slots::Slots;
use crate::etcd::txn::Receipt;
use crate::etcd::watch::Pump;
use crate::lease::LeaseId;
use crate::location::EtcdLocation;
use crate::store::{KeyValue, Limits, Snapshot, Store};
use crate::txn::{Txn, TxnOutcome};
use crate::watch::Watch;

/// Version of the layout of the keys.
const LAYOUT: &str = "1";
/// Time limit of the first attempt at a compaction.
const SLOW: Duration = Duration::from_secs(5);
/// Age of receipts that are swept: no call is repeated for so long.
const RECEIPT_AGE: Duration = Duration::from_secs(24 * 3_600);

/// Bounds of a store in etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// If true, the default, a store that does not exist is created.
    pub create: bool,
    /// Time limit of a call with all its attempts, default 8 s: etcd elects a leader in one or two.
    pub patience: Duration,
    /// Transactions that may wait for a slot, default 8 192; one more is refused.
    pub max_queue: usize,
    /// Reads under way at once, default 256; one more is refused.
    pub max_reads: usize,
    /// Operations in one transaction, default 125: etcd's own default of 128 (`--max-txn-ops`)
    /// less the receipt and the two steps around the caller's operations.
    pub max_txn_ops: usize,
    /// Bytes in one transaction, default 1.25 MiB: etcd's own default of 1.5 MiB
    /// (`--max-request-bytes`) with room for what surrounds them.
    pub max_txn_bytes: usize,
    /// Batches that wait for a watch's reader before the watch pauses, default 64.
    pub max_watch_buffer: usize,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            create: true,
            patience: Duration::from_secs(8),
            max_queue: 8_192,
            max_reads: 256,
            max_txn_ops: 125,
            max_txn_bytes: 5 << 18,
            max_watch_buffer: 64,
        }
    }
}

/// A [`Store`] in etcd. Share it as `Arc`.
pub struct EtcdStore {
    members: Arc<Members>,
    keys: Keys,
    options: EtcdOptions,
    slots: Slots,
    reads: Semaphore,
    keep_alives: KeepAlives,
}

impl EtcdStore {
    /// Opens a store with default options, creating it if there is none.
    ///
    /// # Errors
    ///
    /// [`OpenError::Certificates`] names a file that cannot be used; [`OpenError::Unreachable`] if
    /// etcd does not answer, [`OpenError::EtcdLayout`] if the keys there are of another version.
    /// Without [`EtcdOptions::create`] also [`OpenError::Missing`].
    pub async fn open(location: &EtcdLocation) -> Result<Self, OpenError> {
        Self::open_with(location, EtcdOptions::default()).await
    }

    /// Opens a store with the given bounds.
    ///
    /// # Errors
    ///
    /// As [`EtcdStore::open`].
    pub async fn open_with(
        location: &EtcdLocation,
        options: EtcdOptions,
    ) -> Result<Self, OpenError> {
        let unreachable = |source: Arc<dyn std::error::Error + Send + Sync>| {
            let how = if location.certificates.is_some() { "over TLS" } else { "in plain text" };
            OpenError::Unreachable { endpoints: location.endpoints.join(","), how, source }
        };
        let servers = location.certificates.as_deref().map(ExternalTls::new).transpose();
        let servers = servers.map_err(|source| OpenError::Certificates { source })?;
        let members = Members::new(&location.endpoints, servers, options.patience).await;
        let members = Arc::new(members.map_err(|error| unreachable(Arc::new(error)))?);
        let keep_alives = KeepAlives::new(Arc::clone(&members));
        let store = Self {
            members,
            keys: Keys::new(&location.prefix),
            slots: Slots::new(options.max_queue),
            reads: Semaphore::new(options.max_reads),
            keep_alives,
            options,
        };
        let found = store.layout().await.map_err(|error| unreachable(Arc::new(error)))?;
        let missing = || OpenError::Missing { location: location.to_string() };
        let found = found.ok_or_else(missing)?;
        if found != LAYOUT.as_bytes() {
            let found = String::from_utf8_lossy(&found).into_owned();
            let prefix = location.prefix.clone();
            return Err(OpenError::EtcdLayout { prefix, found, expected: LAYOUT });
        }
        if let Err(error) = store.sweep_receipts().await {
            tracing::warn!(%error, "old receipts not swept");
        }
        Ok(store)
    }

    /// Reads the layout's version; writes it if the store is new and may be created, else returns
    /// `None`.
    async fn layout(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let key = self.keys.layout();
        // Without space etcd refuses the transaction, which is not needed for an existing store.
        let found = self.members.get(&key, &GetOptions::new(), QUICK).await;
        let found = found.map_err(Failure::into_error)?;
        if let Some(entry) = found.kvs.into_iter().next() {
            return Ok(Some(entry.value));
        }
        if !self.options.create {
            return Ok(None);
        }
        let create = etcd_client::Txn::new()
            .when([Compare::create_revision(key.clone(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key.clone(), LAYOUT, None)])
            .or_else([TxnOp::get(key, None)]);
        let answer = self.members.txn(create).await.map_err(Failure::into_error)?;
        let found = answer.responses.into_iter().find_map(|step| match step.response {
            Some(PbTxnOpResponse::ResponseRange(found)) => found.kvs.into_iter().next(),
            _ => None,
        });
        Ok(Some(found.map_or_else(|| LAYOUT.into(), |entry| entry.value)))
    }

    /// Deletes the receipts of clients that are long gone.
    async fn sweep_receipts(&self) -> Result<(), StoreError> {
        let prefix = self.keys.receipts();
        let now = unix_time();
        let is_old = |value: &[u8]| {
            Receipt::time_of(value).is_none_or(|time| time + RECEIPT_AGE.as_secs() < now)
        };
        let (found, _revision) = read_all(&self.members, &prefix).await?;
        let old: Vec<_> = found.into_iter().filter(|entry| is_old(&entry.value)).collect();
        for some in old.chunks(self.options.max_txn_ops) {
            let deletes: Vec<_> =
                some.iter().map(|entry| TxnOp::delete(entry.key.clone(), None)).collect();
            let txn = etcd_client::Txn::new().and_then(deletes);
            self.members.txn(txn).await.map_err(Failure::into_error)?;
        }
        Ok(())
    }

    fn read_permit(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let limit = self.options.max_reads;
        let overloaded = |_| StoreError::Overloaded { queue: "reads under way", limit };
        self.reads.try_acquire().map_err(overloaded)
    }

    async fn send_txn(&self, txn: &Txn) -> Result<TxnOutcome, StoreError> {
        let slot = if txn.ops.is_empty() { None } else { Some(self.slots.take().await?) };
        let receipt = slot.as_ref().map(|slot| Receipt {
            key: self.keys.receipt(self.slots.client, slot.index),
            number: slot.number,
            time: unix_time(),
        });
        let request = txn::request(&self.keys, txn, receipt.as_ref());
        match self.members.txn(request).await {
            Ok(answer) => txn::outcome(txn, receipt.as_ref(), answer),
            // No attempt was carried out: the next one would have found its receipt, and etcd looks
            // for leases only on the path that a transaction takes.
            Err(failure) if failure.status.code() == Code::NotFound => {
                Err(StoreError::LeaseNotFound { lease: self.missing_lease(txn).await? })
            }
            Err(failure) if is_out_of_space(&failure.status) => {
                self.outcome_without_space(receipt.as_ref(), failure).await
            }
            Err(failure) => Err(failure.into_error()),
        }
    }

    /// Finds out whether a transaction was carried out that etcd refused for lack of space: etcd
    /// carries out the one that uses up the space, and refuses it all the same.
    async fn outcome_without_space(
        &self,
        receipt: Option<&Receipt>,
        failure: Failure,
    ) -> Result<TxnOutcome, StoreError> {
        let Some(receipt) = receipt else { return Err(StoreError::NoSpace) };
        let found = self.members.get(&receipt.key, &GetOptions::new(), QUICK).await;
        let found = found.map_err(Failure::into_error)?.kvs.into_iter().next();
        match found.filter(|entry| entry.value == receipt.value()) {
            Some(entry) => Ok(TxnOutcome::Committed { revision: to_unsigned(entry.mod_revision) }),
            None => Err(failure.into_error()),
        }
    }

    /// Finds the lease of a transaction that has ended; etcd's error does not name it.
    async fn missing_lease(&self, txn: &Txn) -> Result<LeaseId, StoreError> {
        let leases = txn::leases(txn);
        for lease in &leases {
            let id = to_signed(lease.0);
            let read = |member: &Member| {
                let mut client = member.lease.clone();
                async move { client.time_to_live(id, None).await }
            };
            let left = self.members.call(QUICK, read).await.map_err(Failure::into_error)?;
            if left.ttl() < 0 {
                return Ok(*lease);
            }
        }
        Ok(leases.first().copied().unwrap_or(LeaseId(0)))
    }

    fn key_value(&self, entry: PbKeyValue) -> Option<KeyValue> {
        Some(KeyValue {
            key: self.keys.callers(&entry.key)?,
            value: entry.value,
            mod_revision: to_unsigned(entry.mod_revision),
            lease: (entry.lease != 0).then(|| LeaseId(to_unsigned(entry.lease))),
        })
    }
}

#[async_trait]
impl Store for EtcdStore {
    fn limits(&self) -> Limits {
        Limits { txn_ops: self.options.max_txn_ops, txn_bytes: self.options.max_txn_bytes }
    }

    async fn get(&self, key: &[u8]) -> Result<Option<KeyValue>, StoreError> {
        let _permit = self.read_permit()?;
        let found = self.members.get(&self.keys.data(key), &GetOptions::new(), QUICK).await;
        let found = found.map_err(Failure::into_error)?;
        Ok(found.kvs.into_iter().next().and_then(|entry| self.key_value(entry)))
    }

    async fn range(&self, prefix: &[u8]) -> Result<Snapshot, StoreError> {
        let _permit = self.read_permit()?;
        let (entries, revision) = read_all(&self.members, &self.keys.data(prefix)).await?;
        let entries = entries.into_iter().filter_map(|entry| self.key_value(entry)).collect();
        Ok(Snapshot { revision, entries })
    }

    async fn revision(&self) -> Result<u64, StoreError> {
        let _permit = self.read_permit()?;
        let found = self.members.get(&self.keys.layout(), &GetOptions::new(), QUICK).await;
        let found = found.map_err(Failure::into_error)?;
        Ok(to_unsigned(found.header.map_or(0, |header| header.revision)))
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        self.limits().check(&txn)?;
        txn.check_overlaps()?;
        self.send_txn(&txn).await
    }

    async fn watch(&self, prefix: &[u8], from_revision: u64) -> Result<Watch, StoreError> {
        let (sender, receiver) = mpsc::channel(self.options.max_watch_buffer.max(1));
        let mut pump = Pump {
            members: Arc::clone(&self.members),
            keys: self.keys.clone(),
            prefix: prefix.to_vec(),
            next: from_revision.max(1),
            sender,
        };
        let first = pump.begin(self.options.patience).await?;
        tokio::spawn(pump.run(first));
        Ok(Watch::new(receiver))
    }

    async fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        if ttl.as_millis() == 0 {
            return Err(StoreError::LeaseTooShort);
        }
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        // A lease id of our own makes the call safe to repeat.
        let id = RandomState::new().hash_one(seconds) >> 1;
        let (ttl, number) = (to_signed(seconds), to_signed(id));
        let grant = |member: &Member| {
            let mut client = member.lease.clone();
            let options = LeaseGrantOptions::new().with_id(number);
            async move { client.grant(ttl, Some(options)).await }
        };
        match self.members.call(QUICK, grant).await {
            Ok(granted) => Ok(LeaseId(to_unsigned(granted.id()))),
            // It exists: an attempt whose answer was lost has created it.
            Err(failure)
                if failure.unclear && failure.status.code() == Code::FailedPrecondition =>
            {
                Ok(LeaseId(id))
            }
            // Refused for lack of space, it may have been created all the same: nobody keeps it
            // alive, so that it ends after its time to live.
            Err(failure) => Err(failure.into_error()),
        }
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.keep_alives.keep_alive(lease).await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.keep_alives.forget(lease);
        let id = to_signed(lease.0);
        let revoke = |member: &Member| {
            let mut client = member.lease.clone();
            async move { client.revoke(id).await }
        };
        match self.members.call(QUICK, revoke).await {
            Ok(_revoked) => Ok(()),
            Err(failure) if failure.status.code() == Code::NotFound => {
                if failure.unclear {
                    Ok(())
                } else {
                    Err(StoreError::LeaseNotFound { lease })
                }
            }
            Err(failure) => Err(failure.into_error()),
        }
    }

    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        let current = self.revision().await?;
        if revision > current {
            return Err(StoreError::FutureRevision { asked: revision, current });
        }
        // etcd keeps the revision it compacts to, so one more revision is needed: this write.
        // It frees space, so it is hidden from etcd's quota (see `txn`).
        let put = TxnOp::put(self.keys.compacted(), revision.to_string(), None);
        let put = etcd_client::Txn::new().and_then([put]);
        let txn = etcd_client::Txn::new().and_then([TxnOp::txn(put)]);
        self.members.txn(txn).await.map_err(Failure::into_error)?;
        let revision = to_signed(revision + 1);
        let compact = |member: &Member| {
            let mut client = member.kv.clone();
            async move { client.compact(revision, None).await }
        };
        match self.members.call(SLOW, compact).await {
            Ok(_compacted) => Ok(()),
            // It was done before, by this client or another.
            Err(failure) if is_compacted(&failure) => Ok(()),
            Err(failure) => Err(failure.into_error()),
        }
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore")
            .field("keys", &self.keys)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
