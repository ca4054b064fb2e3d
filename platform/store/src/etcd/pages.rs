//! Reads many keys in pieces of bounded size, all as of one revision.

use std::time::Duration;

use etcd_client::GetOptions;
use etcd_client::proto::PbKeyValue;
use tonic::Code;

use crate::error::StoreError;
use crate::etcd::keys::{prefix_end, to_signed, to_unsigned};
use crate::etcd::members::{Failure, Members};

/// Time limit of the first attempt at a page.
const PATIENCE: Duration = Duration::from_secs(5);
/// Intended bytes of a page.
const PAGE_BYTES: usize = 4 << 20;
/// Keys in the first page; later pages are sized by the one before.
const FIRST_PAGE: usize = 16;
/// Most keys in a page.
const MAX_PAGE: usize = 10_000;

/// Reads all keys under a prefix of etcd; returns the entries and their revision.
pub(crate) async fn read_all(
    members: &Members,
    prefix: &[u8],
) -> Result<(Vec<PbKeyValue>, u64), StoreError> {
    loop {
        match read_pages(members, prefix).await {
            // The revision was compacted between two pages.
            Err(failure) if is_compacted(&failure) => {}
            other => return other.map_err(Failure::into_error),
        }
    }
}

/// Returns whether a call was refused because its revision was compacted.
pub(crate) fn is_compacted(failure: &Failure) -> bool {
    failure.status.code() == Code::OutOfRange
        && failure.status.message().contains("has been compacted")
}

async fn read_pages(members: &Members, prefix: &[u8]) -> Result<(Vec<PbKeyValue>, u64), Failure> {
    let (mut entries, mut revision, mut limit) = (Vec::new(), 0, FIRST_PAGE);
    let mut key = prefix.to_vec();
    loop {
        let options = GetOptions::new()
            .with_range(prefix_end(prefix))
            .with_limit(i64::try_from(limit).unwrap_or(i64::MAX))
            .with_revision(to_signed(revision));
        let page = members.get(&key, &options, PATIENCE).await?;
        if revision == 0 {
            revision = to_unsigned(page.header.map_or(0, |header| header.revision));
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

/// Returns the keys of the next page, so that it has about [`PAGE_BYTES`].
fn next_limit(page: &[PbKeyValue], limit: usize) -> usize {
    let bytes: usize = page.iter().map(|entry| entry.key.len() + entry.value.len() + 64).sum();
    let fitting = PAGE_BYTES * page.len().max(1) / bytes.max(1);
    fitting.clamp(1, MAX_PAGE).min(limit * 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keys: usize, bytes: usize) -> Vec<PbKeyValue> {
        vec![PbKeyValue { value: vec![0; bytes], ..Default::default() }; keys]
    }

    #[test]
    fn pages_grow_with_small_values_and_shrink_with_large_ones() {
        assert_eq!(next_limit(&page(16, 100), 16), 256);
        assert_eq!(next_limit(&page(256, 100), 256), 4_096);
        assert_eq!(next_limit(&page(4_096, 0), 4_096), MAX_PAGE);
        assert_eq!(next_limit(&page(16, 1 << 20), 16), 3);
        assert_eq!(next_limit(&page(1, 64 << 20), 16), 1);
        assert_eq!(next_limit(&[], 16), 256);
    }
}
