//! Random histories against a model of two maps: what is there, and what happened.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabricast_store::{
    EmbeddedStore, Expected, LeaseId, ManualClock, Op, Options, Store, StoreError, Txn, TxnOutcome,
};
use proptest::collection::vec;
use proptest::prelude::*;

const TTL: Duration = Duration::from_secs(10);

/// One step of a history; small numbers name keys and leases so that they meet often.
#[derive(Clone, Debug)]
enum Step {
    Txn { compares: Vec<(u8, Compared)>, ops: Vec<Action> },
    Grant,
    KeepAlive(usize),
    Revoke(usize),
    Pass(u8),
    Compact(u8),
    Reopen,
}

#[derive(Clone, Debug)]
enum Compared {
    Absent,
    Present,
    Value(u8),
}

#[derive(Clone, Debug)]
enum Action {
    Put(u8, u8, Option<usize>),
    Delete(u8),
    DeletePrefix(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let compared = prop_oneof![
        Just(Compared::Absent),
        Just(Compared::Present),
        (0..3_u8).prop_map(Compared::Value)
    ];
    let action = prop_oneof![
        4 => (0..12_u8, 0..3_u8, proptest::option::of(0..4_usize))
            .prop_map(|(key, value, lease)| Action::Put(key, value, lease)),
        2 => (0..12_u8).prop_map(Action::Delete),
        1 => (0..3_u8).prop_map(Action::DeletePrefix),
    ];
    prop_oneof![
        12 => (vec((0..12_u8, compared), 0..2), vec(action, 0..4))
            .prop_map(|(compares, ops)| Step::Txn { compares, ops }),
        3 => Just(Step::Grant),
        2 => (0..4_usize).prop_map(Step::KeepAlive),
        1 => (0..4_usize).prop_map(Step::Revoke),
        2 => (1..12_u8).prop_map(Step::Pass),
        1 => (0..10_u8).prop_map(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

/// Keys 0..12 in three folders.
fn key(number: u8) -> Vec<u8> {
    format!("{}/{number}", number % 3).into_bytes()
}

type Entry = (Vec<u8>, u64, Option<LeaseId>);

#[derive(Default)]
struct Model {
    data: BTreeMap<Vec<u8>, Entry>,
    history: BTreeMap<u64, BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
    revision: u64,
    compacted: u64,
    now: Duration,
    granted: Vec<LeaseId>,
    live: BTreeMap<LeaseId, Duration>,
}

impl Model {
    fn lease(&self, number: usize) -> LeaseId {
        self.granted.iter().rev().nth(number).copied().unwrap_or(LeaseId(999))
    }

    fn txn(&self, compares: &[(u8, Compared)], actions: &[Action]) -> Txn {
        let mut txn = Txn::new();
        for (number, compared) in compares {
            let present = self.data.get(&key(*number)).map_or(0, |entry| entry.1);
            let expected = match compared {
                Compared::Absent => Expected::Absent,
                Compared::Present => Expected::ModRevision(present),
                Compared::Value(value) => Expected::Value(vec![*value]),
            };
            txn = txn.when(key(*number), expected);
        }
        txn.ops.extend(actions.iter().map(|action| match action {
            Action::Put(number, value, lease) => Op::Put {
                key: key(*number),
                value: vec![*value],
                lease: lease.map(|lease| self.lease(lease)),
            },
            Action::Delete(number) => Op::Delete { key: key(*number) },
            Action::DeletePrefix(folder) => {
                Op::DeletePrefix { prefix: format!("{folder}/").into_bytes() }
            }
        }));
        txn
    }

    /// Expected outcome of the transaction; `None` for a refusal.
    fn apply(&mut self, txn: &Txn) -> Option<TxnOutcome> {
        if txn.check_overlaps().is_err() {
            return None;
        }
        for compare in &txn.compares {
            let found = self.data.get(&compare.key);
            let holds = match &compare.expected {
                Expected::Absent => found.is_none(),
                Expected::ModRevision(revision) => found.is_some_and(|e| e.1 == *revision),
                Expected::Value(value) => found.is_some_and(|e| e.0 == *value),
            };
            if !holds {
                return Some(TxnOutcome::Conflict { key: compare.key.clone() });
            }
        }
        let mut changes = BTreeMap::new();
        for op in &txn.ops {
            match op {
                Op::Put { lease: Some(lease), .. } if !self.live.contains_key(lease) => {
                    return None;
                }
                Op::Put { key, value, .. } => {
                    changes.insert(key.clone(), Some(value.clone()));
                }
                Op::Delete { key } => {
                    changes.insert(key.clone(), None);
                }
                Op::DeletePrefix { prefix } => changes.extend(
                    self.data.keys().filter(|k| k.starts_with(prefix)).map(|k| (k.clone(), None)),
                ),
            }
        }
        changes.retain(|key, value| value.is_some() || self.data.contains_key(key));
        let leases = txn.ops.iter().filter_map(|op| match op {
            Op::Put { key, lease: Some(lease), .. } => Some((key.clone(), *lease)),
            Op::Put { .. } | Op::Delete { .. } | Op::DeletePrefix { .. } => None,
        });
        self.commit(changes, &leases.collect());
        Some(TxnOutcome::Committed { revision: self.revision })
    }

    fn commit(
        &mut self,
        changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        leases: &BTreeMap<Vec<u8>, LeaseId>,
    ) {
        if changes.is_empty() {
            return;
        }
        self.revision += 1;
        for (key, value) in &changes {
            match value {
                Some(value) => {
                    let entry = (value.clone(), self.revision, leases.get(key).copied());
                    self.data.insert(key.clone(), entry);
                }
                None => drop(self.data.remove(key)),
            }
        }
        self.history.insert(self.revision, changes);
    }

    fn end(&mut self, lease: LeaseId) -> bool {
        let known = self.live.remove(&lease).is_some();
        let keys = self.data.iter().filter(|(_, entry)| entry.2 == Some(lease));
        let changes = keys.map(|(key, _)| (key.clone(), None)).collect();
        self.commit(changes, &BTreeMap::new());
        known
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let mut due: Vec<_> =
            self.live.iter().map(|(lease, deadline)| (*deadline, *lease)).collect();
        due.retain(|(deadline, _)| *deadline <= self.now);
        due.sort();
        for (_, lease) in due {
            self.end(lease);
        }
    }
}

/// The store beside its model.
struct Pair<F> {
    open: F,
    store: Option<EmbeddedStore>,
    clock: Arc<ManualClock>,
    model: Model,
}

impl<F: Fn(Arc<ManualClock>) -> EmbeddedStore> Pair<F> {
    fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("only reopening takes it, and puts it back")
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Txn { compares, ops } => {
                let txn = self.model.txn(compares, ops);
                let expected = self.model.apply(&txn);
                assert_eq!(self.store().txn(txn).await.ok(), expected);
            }
            Step::Grant => {
                let lease = self.store().grant_lease(TTL).await.unwrap();
                assert!(!self.model.granted.contains(&lease));
                self.model.granted.push(lease);
                self.model.live.insert(lease, self.model.now + TTL);
            }
            Step::KeepAlive(number) => {
                let lease = self.model.lease(*number);
                let deadline = self.model.now + TTL;
                let known = self.model.live.get_mut(&lease).map(|d| *d = deadline).is_some();
                assert_eq!(self.store().keep_alive(lease).await.is_ok(), known);
            }
            Step::Revoke(number) => {
                let lease = self.model.lease(*number);
                let known = self.model.end(lease);
                assert_eq!(self.store().revoke(lease).await.is_ok(), known);
            }
            Step::Pass(seconds) => {
                let time = Duration::from_secs((*seconds).into());
                self.model.pass(time);
                self.clock.advance(time);
                self.store().sweep().await.unwrap();
            }
            Step::Compact(back) => {
                let until = self.model.revision.saturating_sub((*back).into());
                self.model.compacted = self.model.compacted.max(until);
                self.store().compact(until).await.unwrap();
            }
            Step::Reopen => {
                drop(self.store.take());
                self.store = Some((self.open)(self.clock.clone()));
                let deadline = self.model.now + TTL;
                self.model.live.values_mut().for_each(|d| *d = deadline);
            }
        }
    }

    async fn compare(&self) {
        let snapshot = self.store().range(b"").await.unwrap();
        assert_eq!(snapshot.revision, self.model.revision);
        let found: BTreeMap<_, _> = snapshot
            .entries
            .into_iter()
            .map(|entry| (entry.key, (entry.value, entry.mod_revision, entry.lease)))
            .collect();
        assert_eq!(found, self.model.data);
        for folder in ["", "1/"] {
            self.compare_history(folder.as_bytes()).await;
        }
    }

    async fn compare_history(&self, prefix: &[u8]) {
        if self.model.compacted > 0 {
            let gone = self.store().watch(prefix, self.model.compacted).await;
            assert!(matches!(gone, Err(StoreError::Compacted { .. })));
        }
        let mut watch = self.store().watch(prefix, self.model.compacted + 1).await.unwrap();
        for (revision, changes) in self.model.history.range(self.model.compacted + 1..) {
            let mut expected = changes.clone();
            expected.retain(|key, _| key.starts_with(prefix));
            if expected.is_empty() {
                continue;
            }
            let batch = watch.next().await.unwrap();
            assert_eq!(batch.revision, *revision);
            assert_eq!(batch.changes.len(), expected.len());
            let found = batch.changes.into_iter().map(|change| (change.key, change.value));
            assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn check(steps: &[Step], open: impl Fn(Arc<ManualClock>) -> EmbeddedStore) {
    let clock = Arc::new(ManualClock::default());
    let store = Some(open(Arc::clone(&clock)));
    let mut pair = Pair { open, store, clock, model: Model::default() };
    for step in steps {
        pair.step(step).await;
    }
    pair.compare().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_history_in_memory_matches_the_model(steps in vec(step(), 0..60)) {
        let lasting: Vec<_> =
            steps.into_iter().filter(|step| !matches!(step, Step::Reopen)).collect();
        check(&lasting, |clock| {
            EmbeddedStore::in_memory_with(Options::default(), clock).unwrap()
        });
    }

    #[test]
    fn any_history_in_a_file_matches_the_model_across_restarts(steps in vec(step(), 0..40)) {
        let folder = tempfile::tempdir().unwrap();
        check(&steps, |clock| {
            EmbeddedStore::open_with(folder.path().join("store"), Options::default(), clock)
                .unwrap()
        });
    }
}
