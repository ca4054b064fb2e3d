//! A process is killed while it writes; everything it acknowledged must be there afterwards
//! (STORE-1, STORE-2, STORE-3).
//!
//! The test starts itself again as the process that is killed.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use fabricast_store::{EmbeddedStore, Options, Store, SystemClock, Txn, TxnOutcome};

const FILE: &str = "FABRICAST_CRASH_TEST_FILE";
const WRITERS: usize = 8;
/// Acknowledgements read before each kill: from "before the first" to "well into compaction".
const ROUNDS: [usize; 12] = [0, 1, 2, 5, 13, 40, 97, 180, 260, 333, 500, 777];

fn open(path: &Path) -> EmbeddedStore {
    let options = Options { keep_revisions: 100, ..Options::default() };
    EmbeddedStore::open_with(path, options, Arc::new(SystemClock::new())).unwrap()
}

#[test]
fn a_killed_writer_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut acknowledged = [0_u64; WRITERS];
    let mut newest = 0;
    for acks in ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "writes_until_killed", "--nocapture"])
            .env(FILE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap)
            .filter_map(|line| line.strip_prefix("ack ").map(str::to_owned));
        let before: Vec<_> = lines.by_ref().take(acks).collect();
        assert_eq!(before.len(), acks, "the child ended before it was killed");
        child.kill().unwrap();
        child.wait().unwrap();
        for line in before.into_iter().chain(lines) {
            let fields: Vec<u64> = line.split(' ').filter_map(|f| f.parse().ok()).collect();
            // The last line may have been cut by the kill.
            if let [writer, number, revision, 0] = fields[..] {
                acknowledged[usize::try_from(writer).unwrap()] = number;
                newest = newest.max(revision);
            }
        }
        check(&path, &acknowledged, newest);
    }
    assert!(acknowledged.iter().all(|number| *number > 0), "every writer got somewhere");
}

#[tokio::main(flavor = "current_thread")]
async fn check(path: &Path, acknowledged: &[u64; WRITERS], newest: u64) {
    let store = open(path);
    assert!(store.revision().await.unwrap() >= newest);
    for (writer, acknowledged) in acknowledged.iter().enumerate() {
        let a = number(&store, &format!("a/{writer}")).await;
        let b = number(&store, &format!("b/{writer}")).await;
        assert!(a >= *acknowledged, "writer {writer}: {acknowledged} acknowledged, {a} found");
        assert_eq!(a, b, "a transaction was torn");
    }
}

async fn number(store: &EmbeddedStore, key: &str) -> u64 {
    let entry = store.get(key.as_bytes()).await.unwrap();
    entry.map_or(0, |entry| String::from_utf8(entry.value).unwrap().parse().unwrap())
}

#[tokio::test]
#[ignore = "the process that a test of this file kills"]
async fn writes_until_killed() {
    let path = std::env::var_os(FILE).expect("started by another test");
    let store = Arc::new(open(Path::new(&path)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let keys = [format!("a/{writer}"), format!("b/{writer}")];
                let mut next = number(&store, &keys[0]).await + 1;
                loop {
                    let txn = keys
                        .iter()
                        .fold(Txn::new(), |txn, key| txn.put(key.as_bytes(), next.to_string()));
                    let TxnOutcome::Committed { revision } = store.txn(txn).await.unwrap() else {
                        return; // the parent sees that it ended early
                    };
                    // The closing 0 proves that the line is whole.
                    let line = format!("ack {writer} {next} {revision} 0\n");
                    stdout().write_all(line.as_bytes()).unwrap();
                    next += 1;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}
