//! Layout of the store's keys in etcd.
//!
//! ```text
//!   /<prefix>/layout            version of this layout
//!   /<prefix>/data/<key>        what callers put
//!   /<prefix>/receipts/<slot>   the last transaction of each slot of each client
//!   /<prefix>/compacted         the revision up to which the history was last forgotten
//!   /<prefix>/needs_space       written with every transaction that etcd must refuse without space
//! ```

/// Builds the keys below one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    root: String,
    data: Vec<u8>,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        let root = format!("/{prefix}/");
        let data = format!("{root}data/").into_bytes();
        Self { root, data }
    }

    pub(crate) fn layout(&self) -> Vec<u8> {
        format!("{}layout", self.root).into_bytes()
    }

    pub(crate) fn compacted(&self) -> Vec<u8> {
        format!("{}compacted", self.root).into_bytes()
    }

    pub(crate) fn needs_space(&self) -> Vec<u8> {
        format!("{}needs_space", self.root).into_bytes()
    }

    pub(crate) fn receipts(&self) -> Vec<u8> {
        format!("{}receipts/", self.root).into_bytes()
    }

    /// The receipt of one slot of one client.
    pub(crate) fn receipt(&self, client: u64, slot: usize) -> Vec<u8> {
        format!("{}receipts/{client:016x}/{slot}", self.root).into_bytes()
    }

    /// The etcd key of a caller's key.
    pub(crate) fn data(&self, key: &[u8]) -> Vec<u8> {
        [&self.data, key].concat()
    }

    /// The caller's key of an etcd key; `None` if it holds no caller's data.
    pub(crate) fn callers(&self, key: &[u8]) -> Option<Vec<u8>> {
        key.strip_prefix(self.data.as_slice()).map(<[u8]>::to_vec)
    }
}

/// The first key after all that begin with a prefix: the end of a range of etcd.
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX).map_or(0, |last| last + 1);
    let mut end = prefix[..kept].to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.push(0), // to etcd: no end
    }
    end
}

/// Converts a number of etcd, where a negative one means none.
pub(crate) fn to_unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Converts a number for etcd; one that does not fit exists nowhere.
pub(crate) fn to_signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_after_all_keys_with_the_prefix() {
        assert_eq!(prefix_end(b"/a/"), b"/a0");
        assert_eq!(prefix_end(b"a\xff\xff"), b"b");
        assert_eq!(prefix_end(b"\xff"), b"\0");
    }

    #[test]
    fn callers_see_their_own_keys_only() {
        let keys = Keys::new("p");
        assert_eq!(keys.callers(&keys.data(b"tic/x")).unwrap(), b"tic/x");
        assert_eq!(keys.callers(&keys.receipt(1, 0)), None);
    }
}
