//! Acknowledged changes survive (G3), and changes that were not stored are not acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fabricast_proto::v1;
use fabricast_store::{
    EmbeddedStore, KeyValue, LeaseId, Limits, Op, Snapshot, Store, StoreError, Txn, TxnOutcome,
    Watch,
};
use fabricast_tic::RunError;
use tokio::sync::mpsc;
use tonic::{Code, Status};

use crate::choices::roots;
use crate::harness::{Tic, endpoint, join, leave, link, reason, registration, switch};
use crate::{batches, choices, routes};

#[tokio::test]
async fn every_acknowledged_join_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let tic = Tic::on_file(&file).await;
    tic.register(0).await;
    let (acknowledge, mut acknowledged) = mpsc::channel(1024);
    for worker in 0..8 {
        let (mut client, acknowledge) = (tic.client.clone(), acknowledge.clone());
        tokio::spawn(async move {
            for number in 0.. {
                let process = format!("p{worker}.{number}");
                let Ok(answer) = client.join_group(join("g", 0, &process)).await else { return };
                acknowledge.send(answer.into_inner().member.unwrap()).await.unwrap();
            }
        });
    }
    drop(acknowledge);
    let mut members = Vec::new();
    while members.len() < 100 {
        members.push(acknowledged.recv().await.unwrap());
    }
    tic.kill().await;
    while let Some(member) = acknowledged.recv().await {
        members.push(member);
    }
    let tic = Tic::on_file(&file).await;
    let kept = tic.group("g").await.unwrap().members;
    for member in &members {
        assert!(kept.contains(member), "{member:?} was acknowledged");
    }
    let last = kept.iter().map(|member| member.joined_revision).max().unwrap();
    assert!(tic.join("g", 0, "after").await.joined_revision > last, "revisions go on");
    tic.stop().await;
}

#[tokio::test]
async fn answers_to_repeated_requests_and_terms_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let term = |tic: &Tic| {
        let mut client = tic.client.clone();
        let request = v1::AcquireRouteTermRequest {
            router: "r".to_owned(),
            take_over: true,
            ..Default::default()
        };
        async move { client.acquire_route_term(request).await.unwrap().into_inner().term }
    };
    let tic = Tic::on_file(&file).await;
    tic.register(0).await;
    let first = tic.join("g", 0, "p").await;
    let (nodes, groups) = (tic.nodes().await, tic.groups().await);
    assert_eq!(term(&tic).await, 1);
    tic.stop().await;
    let tic = Tic::on_file(&file).await;
    assert_eq!((tic.nodes().await, tic.groups().await), (nodes, groups));
    assert_eq!(tic.join("g", 0, "p").await, first);
    assert_eq!(term(&tic).await, 2);
}

#[tokio::test]
async fn a_tic_does_not_start_on_a_store_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let _tic = Tic::on_file(&file).await;
    let setup = crate::harness::setup(fabricast_tic::StoreLocation::File(file));
    let error = fabricast_tic::App::bind(setup).await.unwrap_err();
    assert!(matches!(error, fabricast_tic::StartError::Store(_)), "{error:?}");
}

pub(crate) const WORKS: u8 = 0;
const REFUSES: u8 = 1;
const LOSES: u8 = 2;
const WRITES_BUT_SAYS_IT_DID_NOT: u8 = 3;
pub(crate) const IS_FULL: u8 = 4;
/// Transactions of reports of choices do not end.
const KEEPS_CHOICES: u8 = 5;
/// No transaction begins.
pub(crate) const STANDS_STILL: u8 = 6;
const REFUSES_ONE: u8 = 7;

/// A store whose transactions can fail.
pub(crate) struct Failing {
    inner: EmbeddedStore,
    mode: AtomicU8,
    /// Number of times it was read as a whole.
    read: AtomicU32,
    /// Number of transactions that were refused for lack of space.
    pub(crate) had_no_space: AtomicU32,
    /// Transactions that succeed before the mode counts.
    good: AtomicU32,
}

impl Failing {
    pub(crate) fn new() -> Arc<Self> {
        let inner = EmbeddedStore::in_memory().unwrap();
        Arc::new(Self {
            inner,
            mode: AtomicU8::new(WORKS),
            read: AtomicU32::new(0),
            had_no_space: AtomicU32::new(0),
            good: AtomicU32::new(0),
        })
    }

    pub(crate) fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }

    /// Keys and values of everything that is stored.
    pub(crate) async fn contents(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let entries = self.inner.range(b"").await.unwrap().entries;
        entries.into_iter().map(|entry| (entry.key, entry.value)).collect()
    }

    /// Creates a store with the same contents.
    pub(crate) async fn copy(&self) -> Arc<Self> {
        let mut all = Txn::new();
        for (key, value) in self.contents().await {
            all = all.put(key, value);
        }
        let copied = Self::new();
        copied.inner.txn(all).await.unwrap();
        copied
    }

    /// Has one transaction refused, after some that succeed.
    pub(crate) fn refuse_one_after(&self, good: u32) {
        self.good.store(good, Ordering::SeqCst);
        self.set(REFUSES_ONE);
    }
}

#[async_trait]
impl Store for Failing {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    async fn get(&self, key: &[u8]) -> Result<Option<KeyValue>, StoreError> {
        self.inner.get(key).await
    }
    async fn range(&self, prefix: &[u8]) -> Result<Snapshot, StoreError> {
        self.read.fetch_add(1, Ordering::SeqCst);
        self.inner.range(prefix).await
    }
    async fn revision(&self) -> Result<u64, StoreError> {
        self.inner.revision().await
    }
    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        while self.mode.load(Ordering::SeqCst) == STANDS_STILL {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mode = self.mode.load(Ordering::SeqCst);
        if mode == IS_FULL && txn.needs_space() {
            self.had_no_space.fetch_add(1, Ordering::SeqCst);
            return Err(StoreError::NoSpace);
        }
        let less = |good: u32| good.checked_sub(1);
        let is_good = self.good.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        let is_choices = |key: &[u8]| key.starts_with(b"tic/choice");
        let of_choices = txn.ops.iter().any(|op| match op {
            Op::Put { key, .. } | Op::Delete { key } => is_choices(key),
            Op::DeletePrefix { prefix } => is_choices(prefix),
        });
        while !is_good && of_choices && self.mode.load(Ordering::SeqCst) == KEEPS_CHOICES {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if is_good || [WORKS, IS_FULL, KEEPS_CHOICES].contains(&mode) {
            return self.inner.txn(txn).await;
        }
        if mode == REFUSES_ONE {
            self.set(WORKS);
        }
        if [REFUSES, REFUSES_ONE].contains(&mode) {
            return Err(StoreError::Overloaded { queue: "write queue", limit: 1 });
        }
        if mode == WRITES_BUT_SAYS_IT_DID_NOT {
            self.inner.txn(txn).await?;
        }
        Err(StoreError::Closed)
    }
    async fn watch(&self, prefix: &[u8], from: u64) -> Result<Watch, StoreError> {
        self.inner.watch(prefix, from).await
    }
    async fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        self.inner.grant_lease(ttl).await
    }
    async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.inner.keep_alive(lease).await
    }
    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.inner.revoke(lease).await
    }
    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.inner.compact(revision).await
    }
}

#[tokio::test]
async fn a_refused_write_is_not_visible_and_causes_no_reload() {
    let store = Failing::new();
    let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
    tic.register(0).await;
    let router = v1::AcquireRouteTermRequest {
        router: "r".to_owned(),
        take_over: true,
        ..Default::default()
    };
    tic.client.clone().acquire_route_term(router.clone()).await.unwrap();
    let before = tic.revision().await;
    let mut watch = tic.watch().await;
    assert!(watch.message().await.unwrap().unwrap().snapshot_end);
    store.set(REFUSES);
    let refused = tic.client.clone().join_group(join("g", 0, "p")).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::ResourceExhausted, "LIMIT_REACHED")
    );
    let refused = tic.client.clone().acquire_route_term(router.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "LIMIT_REACHED");
    let mut choices = choices::client(&tic.address);
    let chosen = choices::request(1, 1, vec![choices::choice(1, 1)]);
    let refused = choices.record_route_choices(tokio_stream::once(chosen)).await.unwrap_err();
    assert_eq!(reason(&refused), "LIMIT_REACHED");
    assert_eq!(tic.revision().await, before);
    assert_eq!(reason(&tic.group("g").await.unwrap_err()), "UNKNOWN_GROUP");
    store.set(WORKS);
    let list = v1::ListRouteChoicesRequest::default();
    let listed = choices.list_route_choices(list).await.unwrap().into_inner();
    assert_eq!(listed, v1::ListRouteChoicesResponse::default());
    let member = tic.join("g", 0, "q").await;
    assert_eq!((member.pn, member.joined_revision), (0, before + 1), "nothing of it is left");
    let term = tic.client.clone().acquire_route_term(router).await.unwrap().into_inner().term;
    assert_eq!(term, 2);
    assert_eq!(watch.message().await.unwrap().unwrap().revision, before + 1, "watches go on");
    assert_eq!(store.read.load(Ordering::SeqCst), 1, "read once, at the start");
}

#[tokio::test]
async fn a_failed_store_ends_the_tic_and_a_restart_has_all_acknowledged_changes() {
    let store = Failing::new();
    let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
    tic.register(0).await;
    let before = tic.revision().await;
    let mut watch = tic.watch().await;
    assert!(watch.message().await.unwrap().unwrap().snapshot_end);
    store.set(LOSES);
    let lost = tic.client.clone().join_group(join("g", 0, "p")).await.unwrap_err();
    assert_eq!((lost.code(), reason(&lost).as_str()), (Code::Internal, "STORE_FAILED"));
    assert!(watch.message().await.is_err(), "watchers are told to go elsewhere");
    let end = tic.ended().await;
    assert!(matches!(end, RunError::Store(StoreError::Closed)), "{end:?}");
    store.set(WORKS);
    let tic = Tic::on_store(store).await;
    assert_eq!(tic.revision().await, before);
    let member = tic.join("g", 0, "q").await;
    assert_eq!((member.pn, member.joined_revision), (0, before + 1), "nothing of the loss is left");
}

#[tokio::test]
async fn all_callers_are_refused_when_the_store_fails() {
    let store = Failing::new();
    let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
    tic.register(0).await;
    store.set(LOSES);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..100 {
        let mut client = tic.client.clone();
        let request = join("g", 0, &format!("p{number}"));
        calls.spawn(async move { client.join_group(request).await.unwrap_err() });
    }
    let refusals = calls.join_all().await;
    assert!(refusals.iter().any(|refused| reason(refused) == "STORE_FAILED"));
    for refused in refusals {
        // A call after the end is not accepted.
        let told = [Code::Internal, Code::Unavailable].contains(&refused.code());
        assert!(told, "{refused:?}");
    }
    assert!(matches!(tic.ended().await, RunError::Store(_)));
}

#[tokio::test]
async fn a_repeated_request_finds_a_write_that_was_not_confirmed() {
    let store = Failing::new();
    let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
    tic.register(0).await;
    store.set(WRITES_BUT_SAYS_IT_DID_NOT);
    let unsure = tic.client.clone().join_group(join("g", 0, "p")).await.unwrap_err();
    assert_eq!(reason(&unsure), "STORE_FAILED");
    tic.ended().await;
    store.set(WORKS);
    let tic = Tic::on_store(store).await;
    assert_eq!(tic.join("g", 0, "p").await.pn, 0);
    assert_eq!(tic.group("g").await.unwrap().member_count, 1);
}

/// A report of choices that is written in parts, all with this root.
fn large_report(number: u64, root: u32) -> v1::RecordRouteChoicesRequest {
    choices::request(1, number, (1..=2_500).map(|gn| choices::choice(gn, root)).collect())
}

async fn record(tic: &Tic, report: v1::RecordRouteChoicesRequest) -> Result<(), Status> {
    let reports = tokio_stream::once(report);
    choices::client(&tic.address).record_route_choices(reports).await.map(drop)
}

/// The roots of all choices as the store has them.
async fn stored_roots(store: &Failing) -> Vec<u32> {
    let choices = store.inner.range(b"tic/choices/groups/").await.unwrap().entries;
    let root = |entry: KeyValue| {
        let text = String::from_utf8(entry.value).unwrap();
        text.lines().next()?.rsplit(' ').next()?.parse().ok()
    };
    choices.into_iter().filter_map(root).collect()
}

#[tokio::test]
async fn joins_do_not_wait_for_a_report_of_choices() {
    let store = Failing::new();
    let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
    tic.register(0).await;
    choices::acquire(&tic).await;
    store.set(KEEPS_CHOICES);
    let mut report = tokio::spawn({
        let mut client = choices::client(&tic.address);
        async move { client.record_route_choices(tokio_stream::once(large_report(1, 7))).await }
    });
    for process in ["a", "b", "c"] {
        tic.join("g", 0, process).await;
        let waited = tokio::time::timeout(Duration::from_millis(50), &mut report).await;
        assert!(waited.is_err(), "it is written meanwhile");
        assert_eq!(roots(&tic).await, Vec::<u32>::new(), "nor do those who read choices");
    }
    store.set(WORKS);
    report.await.unwrap().unwrap();
    assert_eq!(roots(&tic).await, [7; 2_500]);
}

/// Otherwise the next route service would go on from choices that are not the last.
#[tokio::test]
async fn the_next_route_service_reads_what_the_report_before_it_leaves() {
    let store = Failing::new();
    let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
    tic.register(0).await;
    let mut client = choices::client(&tic.address);
    for kept in [true, false] {
        let term = choices::acquire(&tic).await;
        let root = u32::try_from(term).unwrap();
        let mut report = large_report(1, root);
        report.fence = Some(v1::Fence { term, generation: 1 });
        // The log has two parts, the second with the mark; then it is carried out.
        store.good.store(if kept { 2 } else { 1 }, Ordering::SeqCst);
        store.set(KEEPS_CHOICES);
        let reported = tokio::spawn({
            let mut client = client.clone();
            async move { client.record_route_choices(tokio_stream::once(report)).await }
        });
        while store.good.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        choices::acquire(&tic).await;
        let list = v1::ListRouteChoicesRequest::default();
        let mut listing = tokio::spawn({
            let mut client = client.clone();
            async move { client.list_route_choices(list).await }
        });
        let waited = tokio::time::timeout(Duration::from_millis(100), &mut listing).await;
        assert!(waited.is_err(), "it waits for the report");
        store.set(WORKS);
        assert_eq!(reported.await.unwrap().is_ok(), kept);
        let listed = listing.await.unwrap().unwrap().into_inner();
        let found = listed.choices.first().map(|one| one.trees[0].root);
        assert_eq!(found, Some(1), "only the first was durable");
    }
    client.list_route_choices(v1::ListRouteChoicesRequest::default()).await.unwrap();
}

#[tokio::test]
async fn a_report_of_choices_is_whole_wherever_the_store_fails() {
    for mode in [REFUSES, LOSES, WRITES_BUT_SAYS_IT_DID_NOT] {
        let store = Failing::new();
        let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
        tic.register(0).await;
        choices::acquire(&tic).await;
        record(&tic, large_report(1, 1)).await.unwrap();
        let (mut before, mut failed) = (1, 0);
        for good in 0.. {
            let root = 2 + good;
            store.good.store(good, Ordering::SeqCst);
            store.set(mode);
            let taken = record(&tic, large_report(u64::from(root), root)).await;
            store.set(WORKS);
            let found = roots(&tic).await;
            assert_eq!(found, stored_roots(&store).await, "{mode} {good}: not what is durable");
            assert!(found.iter().all(|one| *one == found[0]), "{mode} {good}: half of one");
            assert_eq!(found.len(), 2_500);
            assert!(taken.is_err() || found[0] == root, "{mode} {good}: acknowledged");
            assert!([before, root].contains(&found[0]), "{mode} {good}");
            if mode == REFUSES && taken.is_err() && found[0] == root {
                assert!(good > 1, "it was durable");
            }
            before = found[0];
            failed += u32::from(taken.is_err());
            if taken.is_ok() {
                break;
            }
        }
        assert!(failed > 3, "{mode}: {failed} failures in one report");
        record(&tic, large_report(1_000, 1_000)).await.unwrap();
        assert_eq!(roots(&tic).await, [1_000; 2_500]);
        tic.stop().await;
        assert_eq!(roots(&Tic::on_store(store).await).await, [1_000; 2_500]);
    }
}

#[tokio::test]
async fn a_second_writer_on_the_store_is_detected() {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().unwrap());
    let one = Tic::on_store(Arc::clone(&store)).await;
    one.register(0).await;
    let mut watch = one.watch().await;
    assert!(watch.message().await.unwrap().unwrap().snapshot_end);
    let two = Tic::on_store(store).await;
    two.join("g", 0, "p").await;
    let late = one.client.clone().join_group(join("g", 0, "q")).await.unwrap_err();
    assert_eq!(reason(&late), "STORE_FAILED");
    assert_eq!(one.join("g", 0, "q").await.pn, 1, "it has read what the other wrote");
    let end = watch.message().await.unwrap_err();
    assert_eq!(reason(&end), "STORE_FAILED", "watchers start again from the truth");
}

#[tokio::test]
async fn failed_elements_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let tic = Tic::on_file(&file).await;
    let report = |reporter: &str, elements: &[v1::Element]| {
        let mut client = tic.client.clone();
        let (reporter, elements) = (reporter.to_owned(), elements.to_vec());
        let request = v1::ReportFailedElementsRequest { reporter, elements };
        async move { client.report_failed_elements(request).await.unwrap() }
    };
    let broken = [switch("S-1"), link("S-0", 5), endpoint("h3")];
    report("a", &broken).await;
    report("b", &[switch("S-2")]).await;
    report("b", &[]).await;
    tic.kill().await;
    let tic = Tic::on_file(&file).await;
    let snapshot = tic.watch().await.message().await.unwrap().unwrap();
    let failed = snapshot.changes.into_iter().find_map(|change| match change.kind {
        Some(v1::directory_change::Kind::FailedElements(failed)) => Some(failed.elements),
        _ => None,
    });
    assert_eq!(failed.unwrap(), broken);
    tic.stop().await;
}

pub(crate) fn check_store_full(refused: &Status) {
    let code_and_reason = (refused.code(), reason(refused));
    assert_eq!(code_and_reason, (Code::ResourceExhausted, "STORE_FULL".to_owned()));
    assert!(refused.message().contains("no space left"), "{refused}");
}

#[tokio::test]
async fn without_space_what_frees_goes_on_and_what_adds_is_refused_with_the_reason() {
    let store = Failing::new();
    let tic = Tic::on_store(Arc::<Failing>::clone(&store)).await;
    tic.register(0).await;
    for process in ["a", "b", "c"] {
        tic.join("g", 0, process).await;
    }
    store.set(IS_FULL);
    let refused = async |process: &str| {
        let refused = tic.client.clone().join_group(join("g", 0, process)).await.unwrap_err();
        check_store_full(&refused);
    };
    refused("d").await;
    assert_eq!(tic.group("g").await.unwrap().members.len(), 3);
    // Together with others that need space: each is written alone.
    let mut client = tic.client.clone();
    let leaving = client.leave_group(leave("g", 0, "a"));
    let (left, (), ()) = tokio::join!(leaving, refused("e"), refused("f"));
    left.unwrap();
    assert_eq!(tic.group("g").await.unwrap().members.len(), 2);
    let request = v1::DeleteGroupRequest { request_id: "delete".to_owned(), group: "g".to_owned() };
    tic.client.clone().delete_group(request).await.unwrap();
    assert_eq!(reason(&tic.group("g").await.unwrap_err()), "UNKNOWN_GROUP");
    // The store is asked about once a second, however many try.
    let (begun, asked) = (Instant::now(), store.had_no_space.load(Ordering::SeqCst));
    for _ in 0..100 {
        refused("d").await;
    }
    let asked = store.had_no_space.load(Ordering::SeqCst) - asked;
    assert!(u64::from(asked) <= begun.elapsed().as_secs() + 1, "{asked} times");
    store.set(WORKS);
    tokio::time::sleep(Duration::from_secs(1)).await;
    tic.join("h", 0, "d").await;
}

#[tokio::test]
async fn a_tic_that_starts_without_space_reads_and_frees_and_later_adds_again() {
    let store = Failing::new();
    let on_store = || Tic::on_store(Arc::<Failing>::clone(&store));
    let tic = on_store().await;
    tic.register(0).await;
    tic.register(1).await;
    tic.register(3).await;
    let first = tic.join("g", 0, "a").await;
    for (group, node, process) in [("g", 0, "b"), ("g", 1, "c"), ("other", 0, "a")] {
        tic.join(group, node, process).await;
    }
    let records = (tic.nodes().await, tic.groups().await, tic.revision().await);
    tic.stop().await;

    store.set(IS_FULL);
    let tic = on_store().await;
    assert_eq!((tic.nodes().await, tic.groups().await, tic.revision().await), records);
    assert!(tic.watch().await.message().await.unwrap().unwrap().snapshot_end);
    assert_eq!(store.had_no_space.load(Ordering::SeqCst), 0, "neither starts nor reads need space");
    assert_eq!(tic.join("g", 0, "a").await, first, "what is stored is answered");
    let mut client = tic.client.clone();
    check_store_full(&client.join_group(join("g", 0, "d")).await.unwrap_err());
    let node = registration(2, "127.0.0.1:1", 1);
    check_store_full(&client.register_node(node.clone()).await.unwrap_err());
    let batch = vec![batches::request("batch", vec![batches::group("formed", &[0])])];
    check_store_full(&batches::form(&tic, batch.clone()).await.1.unwrap_err());
    assert_eq!((tic.groups().await, tic.revision().await), (records.1, records.2));

    client.leave_group(leave("g", 0, "b")).await.unwrap();
    for (node, memberships) in [("n1", 1), ("n3", 0)] {
        let (node, reporter) = (node.to_owned(), "test".to_owned());
        let failed = v1::ReportNodeFailureRequest { node, reporter, ..Default::default() };
        let expelled = client.report_node_failure(failed).await.unwrap().into_inner();
        assert_eq!(expelled.ended_memberships, memberships);
    }
    let (reporter, elements) = ("a".to_owned(), vec![link("S-0", 5)]);
    let broken = v1::ReportFailedElementsRequest { reporter, elements };
    client.report_failed_elements(broken).await.unwrap();
    let term = v1::AcquireRouteTermRequest { router: "router".to_owned(), ..Default::default() };
    client.acquire_route_term(term).await.unwrap();
    // New routes of groups that there are, and the choices behind them.
    let gn = tic.group("g").await.unwrap().gn;
    client.report_routes(routes::report(1, gn, 3)).await.unwrap();
    record(&tic, choices::request(1, 1, vec![choices::choice(gn, 1)])).await.unwrap();
    check_store_full(&record(&tic, large_report(2, 1)).await.unwrap_err());
    assert_eq!(roots(&tic).await, [1]);
    let (request_id, group) = ("delete".to_owned(), "other".to_owned());
    client.delete_group(v1::DeleteGroupRequest { request_id, group }).await.unwrap();
    let left = tic.groups().await;
    let names: Vec<_> = left.iter().map(|group| (&*group.name, group.member_count)).collect();
    assert_eq!(names, [("g", 1)]);

    store.set(WORKS);
    tokio::time::sleep(Duration::from_secs(1)).await;
    tic.join("g", 0, "d").await;
    client.register_node(node).await.unwrap();
    batches::form(&tic, batch).await.1.unwrap();
    let records = (tic.nodes().await, tic.groups().await);
    tic.stop().await;
    let tic = on_store().await;
    assert_eq!((tic.nodes().await, tic.groups().await), records);
}
