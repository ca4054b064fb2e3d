//! The key that tells switch agents from everybody else.

use fabricast_rpc::Reason;
use tonic::Status;

/// Knows the management key.
#[derive(Clone)]
pub(crate) struct ManagementKey(Box<[u8]>);

impl std::fmt::Debug for ManagementKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ManagementKey")
    }
}

impl ManagementKey {
    /// Takes the key; `None` if it is empty, which would let everybody in.
    pub(crate) fn new(key: &str) -> Option<Self> {
        (!key.is_empty()).then(|| Self(key.as_bytes().into()))
    }

    /// Lets the right key pass.
    pub(crate) fn check(&self, offered: &str) -> Result<(), Status> {
        if self.equals(offered.as_bytes()) {
            return Ok(());
        }
        let facts = [("field", "management_key")];
        Err(Reason::ManagementKeyWrong.status("management_key is wrong", &facts))
    }

    /// Compares in a time that depends on the offered length alone, not on where the first wrong
    /// byte is, so that the key cannot be guessed byte by byte.
    fn equals(&self, offered: &[u8]) -> bool {
        let lengths_differ = u8::from(offered.len() != self.0.len());
        let differences = offered
            .iter()
            .zip(self.0.iter().cycle())
            .fold(lengths_differ, |found, (a, b)| std::hint::black_box(found | (a ^ b)));
        differences == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_key_fits() {
        let key = ManagementKey::new("abcd").unwrap();
        assert!(key.check("abcd").is_ok());
        for wrong in ["", "a", "abc", "abcx", "xbcd", "abcdabcd", "abcd\0"] {
            assert!(key.check(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_empty_key_is_no_key() {
        assert!(ManagementKey::new("").is_none());
    }
}
