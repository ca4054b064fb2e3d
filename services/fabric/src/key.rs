//! The management key, by which switch agents authenticate.

use fabricast_config::Secret;
use thiserror::Error;

/// The management key; `Debug` does not print it.
#[derive(Clone)]
pub(crate) struct ManagementKey(Box<[u8]>);

/// The offered key is not the management key.
#[derive(Debug, Error)]
#[error("management_key is wrong")]
pub(crate) struct WrongKey;

impl std::fmt::Debug for ManagementKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ManagementKey")
    }
}

impl ManagementKey {
    pub(crate) fn new(key: &Secret) -> Self {
        Self(key.reveal().as_bytes().into())
    }

    pub(crate) fn check(&self, offered: &str) -> Result<(), WrongKey> {
        if self.equals(offered.as_bytes()) { Ok(()) } else { Err(WrongKey) }
    }

    /// Compares in a time that depends only on the offered length, not on the first wrong byte, so
    /// that the key cannot be guessed byte by byte.
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
        let key = ManagementKey(b"abcd".as_slice().into());
        assert!(key.check("abcd").is_ok());
        for wrong in ["", "a", "abc", "abcx", "xbcd", "abcdabcd", "abcd\0"] {
            assert!(key.check(wrong).is_err(), "{wrong:?}");
        }
    }
}
