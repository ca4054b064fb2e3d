//! Where records are kept, and what is found there.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use fabricast_groups::record::Change;
use fabricast_store::{EmbeddedStore, Options, StoreLocation, SystemClock};
use fabricast_tic::backup;
use sha2::{Digest, Sha256};

use crate::entropy::Entropy;

/// Where a store is, as people write it.
pub(crate) fn location(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    if let Ok(location) = input.parse::<StoreLocation>() {
        assert_eq!(location.to_string().parse(), Ok(location));
    }
}

/// One record: a key, the end of a line, and a value.
pub(crate) fn record(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let Ok(key) = std::str::from_utf8(&data[..end]) else { return };
    let value = data.get(end + 1..).unwrap_or_default();
    let Ok(change) = Change::decode(key, value) else { return };
    assert_eq!(change.store_key(), key, "a record lies under its own key");
    let written = change.encode().expect("what was read is a record that is put");
    let again = Change::decode(key, &written).expect("what we write, we read");
    assert_eq!(again.encode(), Some(written));
}

/// All records of a TIC, as `store export` writes them: keys and values line by line. First the bytes as they are,
/// then as the records of a file that is whole.
pub(crate) fn records_file(data: &[u8]) {
    let _ = backup::check(&mut &*data);
    let Ok(input) = std::str::from_utf8(data) else { return };
    let mut file = String::from("{\"fabricast_records\":1,\"revision\":1}\n");
    let mut keys = 0;
    for line in input.lines().filter(|line| line.starts_with("{\"key\"")) {
        let _ = writeln!(file, "{line}");
        keys += 1;
    }
    let digest = Sha256::digest(&file);
    let hex = digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let _ = writeln!(file, "{{\"keys\":{keys},\"sha256\":\"{hex}\"}}");
    let _ = backup::check(&mut file.as_bytes());
}

/// A store's file, as it is after a few bytes of it have been changed.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    open(&path).expect("a new store");
    std::fs::read(&path).expect("the store's file")
});

/// Opens a store whose file was changed here and there: it opens, or says why it does not.
pub(crate) fn store_file(data: &[u8]) {
    let (mut entropy, mut file) = (Entropy(data), FILE.clone());
    if entropy.byte() == 255 {
        file = entropy.0.to_vec();
    }
    while !entropy.0.is_empty() && !file.is_empty() {
        // Most of what matters stands at the beginning.
        let range = if entropy.byte() < 200 { file.len().min(1_024) } else { file.len() };
        let at = entropy.below(range) + 251 * usize::from(entropy.byte());
        let at = at % range;
        file[at] = entropy.byte();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    std::fs::write(&path, &file).expect("room");
    if let Err(error) = open(&path) {
        assert!(!error.is_empty());
    }
}

fn open(path: &Path) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let store =
            EmbeddedStore::open_with(path, Options::default(), Arc::new(SystemClock::new()));
        store.map(drop).map_err(|error| error.to_string())
    })
}

/// Good inputs that other code writes.
pub(crate) fn made(target: &str) -> Vec<Vec<u8>> {
    match target {
        "record" => [
            "counter/gn\n7",
            "counter/revision\n812",
            "mgid/7\n[7,9]",
            "group/1\n{}",
            "member/1/0\n[\"n0\",\"p0\",\"h0\",9]",
            "node/n0\n{}",
            "request/r\n{}",
            "job/j\n{}",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec(),
        "records-file" => {
            vec![b"{\"key\":\"tic/schema\",\"value\":\"2\"}\n{\"key\":\"tic/records/counter/gn\",\"value\":\"7\"}\n".to_vec()]
        }
        "store-file" => vec![vec![0, 0, 9, 0, 0, 1, 0, 40, 0, 0, 2]],
        _ => Vec::new(),
    }
}
