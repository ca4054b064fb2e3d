//! Pages of long lists and the tokens between them.

use fabricast_groups::ids::Gn;
use fabricast_groups::names::{JobName, NodeName};
use fabricast_rpc::Reason;
use prost::Message;
use tonic::Status;

/// Entries in a page if the caller does not say.
const DEFAULT_ENTRIES: u32 = 1_000;
/// Most entries in a page.
const MAX_ENTRIES: u32 = 10_000;
/// Encoded size at which a page is closed; clients take at most 4 MiB unless told otherwise.
pub(crate) const MAX_BYTES: usize = 3 << 20;

/// Takes one page, and the first entry after it if there is one.
pub(crate) fn fill<T: Message>(
    asked: u32,
    mut entries: impl Iterator<Item = T>,
) -> (Vec<T>, Option<T>) {
    let most = if asked == 0 { DEFAULT_ENTRIES } else { asked.min(MAX_ENTRIES) };
    let mut page = Vec::new();
    let mut bytes = 0;
    for _ in 0..most {
        let Some(entry) = entries.next() else { return (page, None) };
        bytes += entry.encoded_len();
        if bytes > MAX_BYTES && !page.is_empty() {
            return (page, Some(entry));
        }
        page.push(entry);
    }
    (page, entries.next())
}

/// The token for a page of groups that starts at `gn`.
pub(crate) fn gn_token(gn: Gn) -> String {
    format!("g{:016x}", gn.0)
}

/// Reads a token of [`gn_token`]; an empty one is the start.
pub(crate) fn read_gn(token: &str) -> Result<Gn, Status> {
    if token.is_empty() {
        return Ok(Gn(0));
    }
    let digits = token.strip_prefix('g').filter(|digits| digits.len() == 16);
    let gn = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    gn.map(Gn).ok_or_else(|| invalid(token))
}

/// The token for a page of nodes that follows `name`.
pub(crate) fn node_token(name: &str) -> String {
    format!("n{name}")
}

/// Reads a token of [`node_token`]; an empty one is the start.
pub(crate) fn read_node(token: &str) -> Result<Option<NodeName>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let name = token.strip_prefix('n').and_then(|name| NodeName::new(name).ok());
    name.map(Some).ok_or_else(|| invalid(token))
}

/// The token for a page of jobs that follows `name`.
pub(crate) fn job_token(name: &str) -> String {
    format!("j{name}")
}

/// Reads a token of [`job_token`]; an empty one is the start.
pub(crate) fn read_job(token: &str) -> Result<Option<JobName>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let name = token.strip_prefix('j').and_then(|name| JobName::new(name).ok());
    name.map(Some).ok_or_else(|| invalid(token))
}

fn invalid(token: &str) -> Status {
    let message = format!("page_token: '{}' was not given out here", token.escape_debug());
    Reason::PageTokenInvalid.status(message, &[("field", "page_token")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_foreign_ones_refused() {
        assert_eq!(read_gn(&gn_token(Gn(77))).unwrap(), Gn(77));
        assert_eq!(read_node(&node_token("a/b")).unwrap().unwrap().as_str(), "a/b");
        assert_eq!(read_job(&job_token("a/b")).unwrap().unwrap().as_str(), "a/b");
        for bad in ["g", "g1", "7", "g000000000000000x", "na"] {
            assert!(read_gn(bad).is_err(), "{bad}");
        }
        for bad in ["n", "a", "na\n"] {
            assert!(read_node(bad).is_err(), "{bad}");
            assert!(read_job(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_page_ends_at_its_entries_or_its_bytes() {
        let short = |count: usize| std::iter::repeat_n("x".to_owned(), count);
        let (page, next) = fill(2, short(3));
        assert_eq!((page.len(), next.is_some()), (2, true));
        let (page, next) = fill(3, short(3));
        assert_eq!((page.len(), next.is_some()), (3, false));
        assert_eq!(fill(0, short(1_001)).0.len(), 1_000);
        assert_eq!(fill(u32::MAX, short(10_001)).0.len(), 10_000);
        let long = std::iter::repeat_n("x".repeat(MAX_BYTES), 2);
        let (page, next) = fill(2, long);
        assert_eq!((page.len(), next.is_some()), (1, true));
        let halves = std::iter::repeat_n("x".repeat(MAX_BYTES / 2), 3);
        assert_eq!(fill(3, halves).0.len(), 1, "with their headers two are too long");
    }
}
