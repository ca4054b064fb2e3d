//! Export and import of records: complete or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_store::{EmbeddedStore, Options, Store, SystemClock, Txn};
use fabricast_telemetry::metrics::TIC_RECORDS_COPY;
use fabricast_tic::backup::{self, BackupError, Summary};

use crate::choices;
use crate::harness::{Client, Tic, client, registration};
use crate::requested_trees::created;

/// A store with some records, and the TIC that uses it.
async fn filled() -> (Arc<dyn Store>, Tic) {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().unwrap());
    let tic = Tic::on_store(Arc::clone(&store)).await;
    for number in 0..4 {
        tic.register(number).await;
        tic.join("g", number, "p").await;
        tic.join(&format!("ü \"{number}\""), number, "p").await;
    }
    (store, tic)
}

async fn exported(store: &Arc<dyn Store>) -> (Summary, Vec<u8>) {
    let mut file = Vec::new();
    let summary = backup::export(Arc::clone(store), &mut file).await.unwrap();
    (summary, file)
}

fn empty() -> Arc<dyn Store> {
    // As few operations in a transaction as etcd allows.
    let options = Options { max_txn_ops: 8, ..Options::default() };
    Arc::new(EmbeddedStore::in_memory_with(options, Arc::new(SystemClock::new())).unwrap())
}

#[tokio::test]
async fn a_tic_finds_the_exported_records_in_the_store_they_are_imported_into() {
    let (store, tic) = filled().await;
    let term = choices::acquire(&tic).await;
    let (summary, file) = exported(&store).await;
    assert_eq!((summary.groups, summary.members, summary.nodes), (5, 8, 4));
    assert_eq!(summary.revision, tic.revision().await);
    assert_eq!(backup::check(&mut file.as_slice()).unwrap(), summary);
    let other = empty();
    let read = backup::import(Arc::clone(&other), &mut file.as_slice()).await.unwrap();
    // Nodes may have seen later revisions of the records that were lost.
    let revision = summary.revision + (1 << 32);
    // The lowest incarnation of nodes that start later, and the numbers of collectives.
    let keys = summary.keys + 2;
    assert_eq!(read, Summary { revision, keys, ..summary });
    let (again, later) = exported(&other).await;
    assert_eq!(again, read);
    let lines = |file: Vec<u8>| -> BTreeSet<String> {
        String::from_utf8(file).unwrap().lines().map(str::to_owned).collect()
    };
    let (first, later) = (lines(file), lines(later));
    let differ: Vec<&String> = first.difference(&later).collect();
    let is_raised = |line: &&&String| {
        let raised = ["revision", "sha256", "route_term", "counter/gn"];
        raised.iter().any(|word| line.contains(word))
    };
    assert_eq!(differ.iter().filter(is_raised).count(), differ.len(), "{differ:?}");
    assert_eq!(differ.len(), 3 + 5 + 2, "{differ:?}");
    let copy = Tic::on_store(other).await;
    let mut groups = copy.groups().await;
    for group in &mut groups {
        group.epoch -= 1 << 32;
    }
    assert_eq!(groups, tic.groups().await);
    assert_eq!(copy.nodes().await, tic.nodes().await);
    assert_eq!(choices::acquire(&copy).await, term + (1 << 32) + 1);
    copy.join("new", 0, "p").await;
    assert_eq!(copy.group("new").await.unwrap().gn, 6 + (1 << 32));
    let started = registration(0, "127.0.0.1:1", 2);
    let started = copy.client.clone().register_node(started).await.unwrap().into_inner();
    assert_eq!(started.node.unwrap().incarnation, 1 + (1 << 32), "it may have started meanwhile");
    assert_eq!(copy.register(7).await, 1 + (1 << 32));
}

#[tokio::test]
async fn a_copy_from_before_the_first_route_service_raises_its_term_too() {
    let (store, tic) = filled().await;
    let (summary, file) = exported(&store).await;
    // Switches refuse older terms than this one, which comes after the copy.
    let seen = choices::acquire(&tic).await;
    let other = empty();
    let read = backup::import(Arc::clone(&other), &mut file.as_slice()).await.unwrap();
    // The term, the lowest incarnation of nodes that start later, and the numbers of collectives.
    assert_eq!(read.keys, summary.keys + 3);
    assert_eq!(exported(&other).await.0, read);
    let copy = Tic::on_store(other).await;
    assert_eq!((seen, choices::acquire(&copy).await), (1, (1 << 32) + 1));
}

/// Route services and switches have seen what came after the copy.
#[tokio::test]
async fn an_import_raises_the_numbers_of_collectives() {
    let (store, _tic) = filled().await;
    let ledger = r#"{"topology":"one","revision":3,"next_id":4,"next_tree":5,"next_reservation":6,
        "tenants":[],"jobs":[],"reservations":[],"quotas":[]}"#;
    store.txn(Txn::new().put("tic/collectives/ledger", ledger)).await.unwrap();
    let (_, file) = exported(&store).await;
    let other = empty();
    backup::import(Arc::clone(&other), &mut file.as_slice()).await.unwrap();
    let entries = other.range(b"tic/collectives/ledger").await.unwrap().entries;
    let raised = String::from_utf8_lossy(&entries[0].value).into_owned();
    for (number, step) in [("revision\":", 1_u64 << 32), ("next_id\":", 1 << 32)] {
        let before = if number.starts_with('r') { 3 } else { 4 };
        assert!(raised.contains(&format!("{number}{}", before + step)), "{raised}");
    }
    for (number, before) in [("next_tree\":", 5), ("next_reservation\":", 6)] {
        assert!(raised.contains(&format!("{number}{}", before + (1 << 20))), "{raised}");
    }
}

#[tokio::test]
async fn a_copy_from_before_the_first_collective_raises_the_numbers_of_collectives_too() {
    let (store, tic) = filled().await;
    let (_, file) = exported(&store).await;
    // Comes after the copy, so switches and adapters have seen its numbers.
    let seen = created(&tic, "sum").await.unwrap();
    let other = empty();
    backup::import(Arc::clone(&other), &mut file.as_slice()).await.unwrap();
    let copy = Tic::on_store(other).await;
    let given = created(&copy, "sum").await.unwrap();
    let numbers = |one: &v1::Collective| -> Vec<u32> {
        let trees = [&one.switch_tree, &one.adapter_tree].into_iter().flatten();
        trees.map(|tree| tree.tree).collect()
    };
    let later: Vec<u32> = numbers(&seen).iter().map(|tree| tree + (1 << 20)).collect();
    assert!(!later.is_empty(), "{seen:?}");
    assert_eq!(numbers(&given), later);
    assert!(
        given.revision >= seen.revision + (1 << 32),
        "{} after {}",
        given.revision,
        seen.revision
    );
}

/// The file of [`Tic`]'s store is open, so only the TIC can copy it.
#[tokio::test]
async fn a_running_tic_gives_the_file_that_an_export_of_its_store_is() {
    let (store, tic) = filled().await;
    let stream = async |client: &Client| {
        let request = v1::ExportRecordsRequest {};
        client.clone().export_records(request).await.map(tonic::Response::into_inner)
    };
    let mut first = stream(&tic.client).await.unwrap();
    let mut file = Vec::new();
    while let Some(part) = first.message().await.unwrap() {
        file.extend(part.chunk);
    }
    assert_eq!((exported(&store).await).1, file);
    // A list of failed parts makes the file longer than a message.
    let records = "x".repeat(9 << 20);
    store.txn(Txn::new().put("tic/failed/big", records)).await.unwrap();
    tic.join("later", 0, "p").await;
    let held = stream(&tic.client).await.unwrap();
    // Each connection is a client, and has one copy made at a time.
    let others = [client(&tic.address), client(&tic.address)];
    let refused = stream(&tic.client).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
    let other = stream(&others[0]).await.unwrap();
    let refused = stream(&others[1]).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
    drop((held, other));
    let mut again = loop {
        match stream(&tic.client).await {
            Ok(again) => break again,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let (mut bytes, mut messages) = (0, 0);
    while let Some(part) = again.message().await.unwrap() {
        bytes += part.chunk.len();
        messages += 1;
    }
    assert!(bytes > 9 << 20 && messages > 9, "{messages} messages, {bytes} bytes");
}

#[tokio::test]
async fn the_time_of_the_last_copy_is_shown_once_somebody_keeps_one() {
    let (_store, tic) = filled().await;
    assert_eq!(TIC_RECORDS_COPY.get(), 0);
    let request = v1::ReportRecordsCopyRequest {};
    tic.client.clone().report_records_copy(request).await.unwrap();
    assert!(TIC_RECORDS_COPY.get() > 1_700_000_000, "{}", TIC_RECORDS_COPY.get());
}

#[tokio::test]
async fn a_file_that_was_cut_off_or_changed_is_refused_with_its_line() {
    let (store, _tic) = filled().await;
    let (_, file) = exported(&store).await;
    let text = String::from_utf8(file).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let last = lines.len();
    let refused = async |text: String| {
        let other = empty();
        let error = backup::import(Arc::clone(&other), &mut text.as_bytes()).await.unwrap_err();
        assert!(other.range(b"").await.unwrap().entries.is_empty(), "nothing was written");
        error.to_string()
    };
    let cut = refused(lines[..last - 1].concat()).await;
    assert_eq!(cut, format!("line {last}: the file ends before its last line"));
    let missing = refused([&lines[..3], &lines[4..]].concat().concat()).await;
    assert_eq!(missing, format!("line {}: lines before it are missing or were changed", last - 1));
    let twice = refused([&lines[..3], &lines[2..]].concat().concat()).await;
    assert!(twice.starts_with("line 4: key") && twice.ends_with("is there twice"), "{twice}");
    let newer =
        refused(text.replacen("\"fabricast_records\":1", "\"fabricast_records\":2", 1)).await;
    assert_eq!(newer, "line 1: format 2, this program reads format 1");
    let other = refused("{}\n".to_owned()).await;
    assert!(other.starts_with("line 1: not records of Fabricast: missing field"), "{other}");
    assert!(refused(String::new()).await.starts_with("line 1: the file ends"));
}

/// A key without its layout could be of any.
#[tokio::test]
async fn a_file_without_the_layout_of_its_records_is_refused() {
    let (store, _tic) = filled().await;
    store.txn(Txn::new().delete("tic/schema")).await.unwrap();
    let (_, file) = exported(&store).await;
    let other = empty();
    let error = backup::import(Arc::clone(&other), &mut file.as_slice()).await.unwrap_err();
    assert!(error.to_string().ends_with("the layout of the records, \"tic/schema\", is missing"));
    assert!(backup::check(&mut file.as_slice()).is_err());
    assert!(other.range(b"").await.unwrap().entries.is_empty(), "nothing was written");
}

#[tokio::test]
async fn an_import_overwrites_nothing() {
    let (store, _tic) = filled().await;
    let (_, file) = exported(&store).await;
    let other = empty();
    other.txn(Txn::new().put("election/tic", "a:1")).await.unwrap();
    let error = backup::import(other, &mut file.as_slice()).await.unwrap_err();
    assert!(matches!(&error, BackupError::NotEmpty { key } if key == "election/tic"), "{error}");
    let error = backup::import(store, &mut file.as_slice()).await.unwrap_err();
    assert!(matches!(error, BackupError::NotEmpty { .. }), "{error}");
}

/// A copy of nothing is no copy: the location was wrong.
#[tokio::test]
async fn a_store_without_records_is_not_exported() {
    let mut file = Vec::new();
    let refused = backup::export(empty(), &mut file).await.unwrap_err();
    assert!(matches!(refused, BackupError::Empty), "{refused:?}");
    assert!(file.is_empty());
}
