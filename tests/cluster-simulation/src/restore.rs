//! An older copy of the records is imported while nodes, agents and switches live on.

use std::sync::Arc;
use std::time::Duration;

use fabricast_store::{KeyValue, Store, Txn, TxnOutcome};
use fabricast_tic::backup;
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::checks::Checker;
use crate::parts::{Cluster, Host, TICS};
use crate::programs::{self, History};
use crate::run::{PROGRAMS, TICK, simulation};
use crate::scenario::Scenario;
use crate::store::{SharedStore, StoreLink};

/// Time in which programs join groups before the copy is made.
const JOINS: Duration = Duration::from_secs(10);

/// Hosts to crash, and those to start again (true), at the end of the present step.
type Orders = Arc<Mutex<Vec<(Host, bool)>>>;

/// The records in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// All of them.
    All,
    /// All but the term of route services, as before the first of them.
    AllButRouteTerm,
}

/// Restores a copy of the records that so many terms of route services and epochs of groups are
/// later than.
///
/// Returns the simulated time from the start of the TICs on the restored records until all parts
/// agree, the members are those of before, and packets reach them.
///
/// # Errors
///
/// The broken rule.
pub fn restore(lost: u64, copied: Copied) -> Result<Duration, String> {
    let cluster = Cluster::new();
    let mut sim = simulation(&cluster, lost);
    let (orders, taken) = (Orders::default(), Arc::<Mutex<Duration>>::default());
    let (own, time) = (Arc::clone(&orders), Arc::clone(&taken));
    let (store, empty) = (cluster.store.link(), SharedStore::new(Arc::new(cluster.clock.clone())));
    sim.client(PROGRAMS, async move {
        let without_term = (copied == Copied::AllButRouteTerm).then(|| empty.link());
        *time.lock() = check(Stores { store, without_term }, own, lost).await?;
        Ok(())
    });
    loop {
        cluster.clock.set(sim.elapsed());
        cluster.store.expire();
        for (host, starts) in std::mem::take(&mut *orders.lock()) {
            if starts { sim.bounce(host.to_string()) } else { sim.crash(host.to_string()) }
        }
        if sim.step().map_err(|error| error.to_string())? {
            break;
        }
    }
    let taken = *taken.lock();
    Ok(taken)
}

/// The stores of one restore.
struct Stores {
    /// The one that the TICs share.
    store: StoreLink,
    /// An empty one that gets all of its records but the term of route services, and is copied
    /// instead.
    without_term: Option<StoreLink>,
}

async fn check(stores: Stores, orders: Orders, lost: u64) -> Result<Duration, String> {
    let Stores { store, without_term } = stores;
    let now = || turmoil::sim_elapsed().unwrap_or_default();
    let (checker, history) = (Checker::new(), History::default());
    let nodes = checker.started().await.map_err(|error| format!("at the start: {error}"))?;
    programs::run(lost, now() + JOINS, &history).await;
    let scenario = Scenario { seed: lost, faults: Vec::new(), keeps_nodes: true };
    let agreed = async |when: &str| {
        let agreed = checker.agreed(&nodes, &scenario, &history).await;
        agreed.map_err(|error| format!("{when}: {error}"))
    };
    agreed("before the copy").await?;
    let failed = |error: backup::BackupError| format!("{error:?}");
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let source: Arc<dyn Store> = match without_term {
        Some(without_term) => {
            copy_all_but_term(&store, &without_term).await?;
            Arc::new(without_term)
        }
        None => Arc::clone(&shared),
    };
    let mut copy = Vec::new();
    backup::export(source, &mut copy).await.map_err(failed)?;

    set_tics_running(&orders, false).await;
    advance(&store, lost).await?;
    set_tics_running(&orders, true).await;
    agreed("after the copy").await?;

    set_tics_running(&orders, false).await;
    commit(&store, Txn::new().delete_prefix("")).await?;
    backup::import(shared, &mut copy.as_slice()).await.map_err(failed)?;
    let begins = now();
    set_tics_running(&orders, true).await;
    agreed("after the import").await?;
    Ok(now().saturating_sub(begins))
}

/// Crashes all TICs, or starts them again.
async fn set_tics_running(orders: &Orders, starts: bool) {
    orders.lock().extend((0..TICS).map(|tic| (Host::Tic(tic), starts)));
    sleep(TICK * 4).await;
}

/// Copies the records of a store into another, but for the term of route services.
async fn copy_all_but_term(from: &StoreLink, into: &StoreLink) -> Result<(), String> {
    let records = from.range(b"tic/").await.map_err(|error| error.to_string())?.entries;
    let records = records.into_iter().filter(|entry| entry.key != b"tic/route_term");
    for some in records.collect::<Vec<_>>().chunks(into.limits().txn_ops / 2) {
        let put = |txn: Txn, entry: &KeyValue| txn.put(entry.key.clone(), entry.value.clone());
        commit(into, some.iter().fold(Txn::new(), put)).await?;
    }
    Ok(())
}

/// Makes the records those of a cluster in which so many terms have been given, and the agent of
/// each group has been appointed so many times.
async fn advance(store: &StoreLink, by: u64) -> Result<(), String> {
    let records = store.range(b"tic/").await.map_err(|error| error.to_string())?;
    let (mut txn, mut raised) = (Txn::new(), [0; 3]);
    for entry in records.entries {
        let key = String::from_utf8_lossy(&entry.key).into_owned();
        let text = String::from_utf8_lossy(&entry.value).into_owned();
        let (kind, before) = match key.as_str() {
            "tic/route_term" => (0, ""),
            "tic/records/counter/revision" => (1, ""),
            key if key.starts_with("tic/records/group/") => (2, "\"epoch\":"),
            _ => continue,
        };
        let at = text.find(before).ok_or_else(|| format!("{key} has no {before}"))? + before.len();
        let end =
            text[at..].find(|byte: char| !byte.is_ascii_digit()).map_or(text.len(), |end| at + end);
        let number: u64 = text[at..end].parse().map_err(|_no_number| format!("{key}: {text}"))?;
        txn = txn.put(entry.key, format!("{}{}{}", &text[..at], number + by, &text[end..]));
        raised[kind] += 1;
    }
    if raised[0] != 1 || raised[1] != 1 || raised[2] == 0 {
        return Err(format!("{raised:?} terms, revisions and epochs were raised"));
    }
    commit(store, txn).await
}

async fn commit(store: &StoreLink, txn: Txn) -> Result<(), String> {
    match store.txn(txn).await.map_err(|error| error.to_string())? {
        TxnOutcome::Committed { .. } => Ok(()),
        TxnOutcome::Conflict { key } => Err(format!("{key:?} is not as expected")),
    }
}
