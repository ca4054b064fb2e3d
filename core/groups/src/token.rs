//! Tokens by which processes prove that they belong to a job.
//!
//! The one that reserves a share for a job chooses the token and hands it to the job's processes.
//! The records keep only its hash, so that nobody who reads them can form groups of the job.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use smol_str::SmolStr;
use subtle::ConstantTimeEq;
use thiserror::Error;

use crate::hex;

/// Fewest characters of a token: 128 bits as hexadecimal digits have 32.
pub const MIN_TOKEN_CHARS: usize = 16;
/// Most characters of a token.
pub const MAX_TOKEN_CHARS: usize = 256;

/// Token of a job. It is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct JobToken(SmolStr);

/// The text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a token has {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} ASCII characters without spaces, not {bytes}"
)]
pub struct TokenError {
    /// Bytes of the text.
    pub bytes: usize,
}

impl JobToken {
    /// Validates a text as a token.
    ///
    /// # Errors
    ///
    /// [`TokenError`] if it is too short, too long or has other characters than visible ASCII.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let bytes = text.len();
        let fits = (MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS).contains(&bytes);
        if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(SmolStr::new(text)))
        } else {
            Err(TokenError { bytes })
        }
    }

    /// Returns the token as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the hash of the token.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for JobToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobToken(..)")
    }
}

/// SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Returns whether this is the hash of a token, in a time that does not depend on the hashes.
    pub fn is_of(&self, token: &JobToken) -> bool {
        self.0.ct_eq(&token.hash().0).into()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(..)")
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hex::encode(&hash.0)
    }
}

impl TryFrom<String> for TokenHash {
    type Error = HashError;

    fn try_from(text: String) -> Result<Self, HashError> {
        hex::decode(&text).map(Self).ok_or(HashError)
    }
}

/// The text is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the hash of a token has 64 hexadecimal digits")]
pub struct HashError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_its_token_only_and_outlives_the_store() {
        let (token, other) = ("0123456789abcdef", "0123456789abcdeF");
        let hash = JobToken::new(token).unwrap().hash();
        let read: TokenHash = serde_json::from_str(&serde_json::to_string(&hash).unwrap()).unwrap();
        assert!(read.is_of(&JobToken::new(token).unwrap()));
        assert!(!read.is_of(&JobToken::new(other).unwrap()));
        assert!(serde_json::from_str::<TokenHash>("\"00\"").is_err());
        assert!(serde_json::from_str::<TokenHash>(&format!("\"{}\"", "é".repeat(32))).is_err());
    }

    #[test]
    fn a_token_is_bounded_and_never_printed() {
        for bad in ["", "short", &"x".repeat(257), "0123456789 abcdef", "0123456789abcdeé"] {
            assert_eq!(JobToken::new(bad), Err(TokenError { bytes: bad.len() }), "{bad}");
        }
        let token = JobToken::new("0123456789abcdef").unwrap();
        assert!(!format!("{token:?} {:?}", token.hash()).contains("0123"));
    }
}
