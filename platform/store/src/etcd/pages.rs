//! Reads many keys in pieces of bounded size, all as of one revision.

use std::time::Duration;

use tonic::Code;

use crate::error::StoreError;
use crate::etcd::client::{Client, Failure};
use crate::etcd::keys::{prefix_end, to_signed};
use crate::etcd::txn::header_revision;
use crate::etcd::wire;

/// The first attempt at a page may take this long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that a page should have.
const PAGE_BYTES: usize = 4 << 20;
/// Keys in the first page; the next ones are sized by what it held.
const FIRST_PAGE: usize = 16;
/// Keys in a page, at most.
const MOST_PAGE: usize = 10_000;

/// Reads everything under a prefix of etcd's; answers the entries and their revision.
pub(crate) async fn read_all(
    client: &Client,
    prefix: &[u8],
) -> Result<(Vec<wire::KeyValue>, u64), StoreError> {
    loop {
        match read_pages(client, prefix).await {
            // The history was forgotten between two pages.
            Err(failure) if is_compacted(&failure) => {}
            other => return other.map_err(Failure::into_error),
        }
    }
}

/// Whether a call was refused because what it asked for has been forgotten.
pub(crate) fn is_compacted(failure: &Failure) -> bool {
    failure.status.code() == Code::OutOfRange
        && failure.status.message().contains("has been compacted")
}

async fn read_pages(client: &Client, prefix: &[u8]) -> Result<(Vec<wire::KeyValue>, u64), Failure> {
    let (mut entries, mut revision, mut limit) = (Vec::new(), 0, FIRST_PAGE);
    let mut key = prefix.to_vec();
    loop {
        let request = wire::RangeRequest {
            key,
            range_end: prefix_end(prefix),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            revision: to_signed(revision),
        };
        let page: wire::RangeResponse = client.call(wire::path::RANGE, &request, PATIENCE).await?;
        if revision == 0 {
            revision = header_revision(page.header);
        }
        limit = next_limit(&page.kvs, limit);
        let last = page.kvs.last().map(|entry| [entry.key.as_slice(), &[0]].concat());
        entries.extend(page.kvs);
        match last {
            Some(after) if page.more => key = after,
            Some(_) | None => return Ok((entries, revision)),
        }
    }
}

/// Keys for the next page, so that it has about [`PAGE_BYTES`].
fn next_limit(page: &[wire::KeyValue], limit: usize) -> usize {
    let bytes: usize = page.iter().map(|entry| entry.key.len() + entry.value.len() + 64).sum();
    let fitting = PAGE_BYTES * page.len().max(1) / bytes.max(1);
    fitting.clamp(1, MOST_PAGE).min(limit * 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keys: usize, bytes: usize) -> Vec<wire::KeyValue> {
        vec![wire::KeyValue { value: vec![0; bytes], ..Default::default() }; keys]
    }

    #[test]
    fn pages_grow_with_small_values_and_shrink_with_large_ones() {
        assert_eq!(next_limit(&page(16, 100), 16), 256);
        assert_eq!(next_limit(&page(256, 100), 256), 4_096);
        assert_eq!(next_limit(&page(4_096, 0), 4_096), MOST_PAGE);
        assert_eq!(next_limit(&page(16, 1 << 20), 16), 3);
        assert_eq!(next_limit(&page(1, 64 << 20), 16), 1);
        assert_eq!(next_limit(&[], 16), 256);
    }
}
