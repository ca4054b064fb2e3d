//! The store of a cluster: keys of an etcd, which keeps them as long as most of its members live.
//!
//! Everything goes through one client, which asks one member at a time and goes on to the next when
//! that one fails (see `client`). A transaction is carried out once however often it was sent (see
//! `txn`). Watches and keep-alives ride over broken streams (see `watch` and `leases`).
//!
//! What differs from an embedded store: revisions are etcd's own, so they also grow with what others
//! write there; leases are rounded up to seconds, and etcd grants none shorter than about two;
//! forgetting the history forgets that of the whole etcd, so give Fabricast one of its own.

mod client;
mod keys;
mod leases;
mod pages;
mod slots;
mod txn;
mod watch;
mod wire;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use fabricast_rpc::OutsideServers;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tonic::Code;

use crate::error::{OpenError, StoreError};
use crate::etcd::client::{Client, Failure};
use crate::etcd::keys::{Keys, to_signed, to_unsigned};
use crate::etcd::leases::KeepAlives;
use crate::etcd::pages::{is_compacted, read_all};
use crate::etcd::slots::Slots;
use crate::etcd::txn::{Receipt, header_revision};
use crate::etcd::watch::Pump;
use crate::location::EtcdLocation;
use crate::store::{KeyValue, LeaseId, Limits, Snapshot, Store};
use crate::txn::{Txn, TxnOutcome};
use crate::watch::Watch;

/// Version of the layout of the keys.
const LAYOUT: &str = "1";
/// The first attempt at a call may take this long, and at one that is slow.
const QUICK: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_secs(5);
/// A receipt this old belongs to a client that is gone: no call is repeated for so long.
const RECEIPT_AGE: Duration = Duration::from_secs(24 * 3_600);

/// Bounds of a store in etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// A call that has had no answer for this long is given up, default 8 s: etcd elects a leader
    /// in one or two.
    pub patience: Duration,
    /// Transactions that may wait for a slot, default 8 192; one more is refused.
    pub max_queue: usize,
    /// Reads under way at once, default 256; one more is refused.
    pub max_reads: usize,
    /// Operations in one transaction, default 126: etcd's own default of 128 (`--max-txn-ops`)
    /// without the receipt and what it is wrapped in.
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
            patience: Duration::from_secs(8),
            max_queue: 8_192,
            max_reads: 256,
            max_txn_ops: 126,
            max_txn_bytes: 5 << 18,
            max_watch_buffer: 64,
        }
    }
}

/// A [`Store`] in etcd. Share it as `Arc`.
pub struct EtcdStore {
    client: Arc<Client>,
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
    /// [`OpenError::Certificates`] names a file that cannot be used; [`OpenError::Unreachable`] if etcd does
    /// not answer, [`OpenError::EtcdLayout`] if what lies there is of another version.
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
        let servers = location.certificates.as_deref().map(OutsideServers::new).transpose();
        let servers = servers.map_err(|source| OpenError::Certificates { source })?;
        let client = Client::new(&location.endpoints, servers, options.patience)
            .map_err(|error| unreachable(Arc::new(error)))?;
        let client = Arc::new(client);
        let keep_alives = KeepAlives::start(Arc::clone(&client), options.patience);
        let store = Self {
            client,
            keys: Keys::new(&location.prefix),
            slots: Slots::new(options.max_queue),
            reads: Semaphore::new(options.max_reads),
            keep_alives,
            options,
        };
        let found = store.layout().await.map_err(|error| unreachable(Arc::new(error)))?;
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

    /// Reads the layout's version; writes it if the store is new.
    async fn layout(&self) -> Result<Vec<u8>, StoreError> {
        let key = self.keys.layout();
        let put = wire::PutRequest { key: key.clone(), value: LAYOUT.into(), lease: 0 };
        let read = wire::RangeRequest { key: key.clone(), ..Default::default() };
        let request = wire::TxnRequest {
            compare: vec![wire::Compare {
                result: wire::CompareResult::Equal.into(),
                target: wire::CompareTarget::Create.into(),
                key,
                target_union: Some(wire::TargetUnion::CreateRevision(0)),
            }],
            success: vec![wire::RequestOp { request: Some(wire::Request::Put(put)) }],
            failure: vec![wire::RequestOp { request: Some(wire::Request::Range(read)) }],
        };
        let answer = self.client.call(wire::path::TXN, &request, QUICK).await;
        let answer: wire::TxnResponse = answer.map_err(Failure::into_error)?;
        let found = answer.responses.into_iter().find_map(|step| match step.response {
            Some(wire::Response::Range(found)) => found.kvs.into_iter().next(),
            Some(wire::Response::Txn(_)) | None => None,
        });
        Ok(found.map_or_else(|| LAYOUT.into(), |entry| entry.value))
    }

    /// Deletes the receipts of clients that are long gone.
    async fn sweep_receipts(&self) -> Result<(), StoreError> {
        let prefix = self.keys.receipts();
        let now = unix_time();
        let is_old = |value: &[u8]| {
            Receipt::time_of(value).is_none_or(|time| time + RECEIPT_AGE.as_secs() < now)
        };
        let (found, _revision) = read_all(&self.client, &prefix).await?;
        let old: Vec<_> = found.into_iter().filter(|entry| is_old(&entry.value)).collect();
        for some in old.chunks(self.options.max_txn_ops) {
            let delete = |entry: &wire::KeyValue| {
                let key = entry.key.clone();
                let delete = wire::DeleteRangeRequest { key, range_end: Vec::new() };
                wire::RequestOp { request: Some(wire::Request::DeleteRange(delete)) }
            };
            let success = some.iter().map(delete).collect();
            let request = wire::TxnRequest { success, ..Default::default() };
            let answer = self.client.call(wire::path::TXN, &request, QUICK).await;
            let _: wire::TxnResponse = answer.map_err(Failure::into_error)?;
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
        match self.client.call(wire::path::TXN, &request, QUICK).await {
            Ok(answer) => txn::outcome(txn, receipt.as_ref(), answer),
            Err(failure) if failure.status.code() == Code::NotFound => {
                Err(StoreError::LeaseNotFound { lease: self.missing_lease(txn).await? })
            }
            Err(failure) => Err(failure.into_error()),
        }
    }

    /// Which of a transaction's leases is gone; etcd does not say.
    async fn missing_lease(&self, txn: &Txn) -> Result<LeaseId, StoreError> {
        let leases = txn::leases(txn);
        for lease in &leases {
            let request = wire::LeaseTimeToLiveRequest { id: to_signed(lease.0) };
            let answer = self.client.call(wire::path::LEASE_TIME_TO_LIVE, &request, QUICK).await;
            let left: wire::LeaseTimeToLiveResponse = answer.map_err(Failure::into_error)?;
            if left.ttl < 0 {
                return Ok(*lease);
            }
        }
        Ok(leases.first().copied().unwrap_or(LeaseId(0)))
    }

    fn key_value(&self, entry: wire::KeyValue) -> Option<KeyValue> {
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
        let request = wire::RangeRequest { key: self.keys.data(key), ..Default::default() };
        let answer = self.client.call(wire::path::RANGE, &request, QUICK).await;
        let found: wire::RangeResponse = answer.map_err(Failure::into_error)?;
        Ok(found.kvs.into_iter().next().and_then(|entry| self.key_value(entry)))
    }

    async fn range(&self, prefix: &[u8]) -> Result<Snapshot, StoreError> {
        let _permit = self.read_permit()?;
        let (entries, revision) = read_all(&self.client, &self.keys.data(prefix)).await?;
        let entries = entries.into_iter().filter_map(|entry| self.key_value(entry)).collect();
        Ok(Snapshot { revision, entries })
    }

    async fn revision(&self) -> Result<u64, StoreError> {
        let _permit = self.read_permit()?;
        let request = wire::RangeRequest { key: self.keys.layout(), ..Default::default() };
        let answer = self.client.call(wire::path::RANGE, &request, QUICK).await;
        let found: wire::RangeResponse = answer.map_err(Failure::into_error)?;
        Ok(header_revision(found.header))
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        self.limits().check(&txn)?;
        txn.check_overlaps()?;
        self.send_txn(&txn).await
    }

    async fn watch(&self, prefix: &[u8], from_revision: u64) -> Result<Watch, StoreError> {
        let (sender, receiver) = mpsc::channel(self.options.max_watch_buffer.max(1));
        let mut pump = Pump {
            client: Arc::clone(&self.client),
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
        // A number of our own makes the call safe to repeat.
        let id = RandomState::new().hash_one(seconds) >> 1;
        let request = wire::LeaseGrantRequest { ttl: to_signed(seconds), id: to_signed(id) };
        let answer = self.client.call(wire::path::LEASE_GRANT, &request, QUICK).await;
        match answer {
            Ok(answer) => {
                let granted: wire::LeaseGrantResponse = answer;
                Ok(LeaseId(to_unsigned(granted.id)))
            }
            // It exists: an attempt of which nothing was heard was the one that made it.
            Err(failure)
                if failure.unclear && failure.status.code() == Code::FailedPrecondition =>
            {
                Ok(LeaseId(id))
            }
            Err(failure) => Err(failure.into_error()),
        }
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.keep_alives.keep_alive(lease).await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        let request = wire::LeaseRevokeRequest { id: to_signed(lease.0) };
        let answer = self.client.call(wire::path::LEASE_REVOKE, &request, QUICK).await;
        match answer {
            Ok(answer) => {
                let wire::LeaseRevokeResponse {} = answer;
                Ok(())
            }
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
        // etcd keeps the revision it compacts to, so one more is needed: this write.
        let put = wire::PutRequest {
            key: self.keys.compacted(),
            value: revision.to_string().into_bytes(),
            lease: 0,
        };
        let success = vec![wire::RequestOp { request: Some(wire::Request::Put(put)) }];
        let request = wire::TxnRequest { success, ..Default::default() };
        let answer = self.client.call(wire::path::TXN, &request, QUICK).await;
        let _: wire::TxnResponse = answer.map_err(Failure::into_error)?;
        let request = wire::CompactionRequest { revision: to_signed(revision + 1) };
        match self.client.call(wire::path::COMPACT, &request, SLOW).await {
            Ok(answer) => {
                let wire::CompactionResponse {} = answer;
                Ok(())
            }
            // By us or by another: it is done.
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
