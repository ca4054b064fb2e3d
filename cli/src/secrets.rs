//! Random tokens.

use std::fs::File;
use std::io::Read;

use anyhow::Context;

use crate::failure::Failure;

/// Reads random bytes.
///
/// # Errors
///
/// The system has no `/dev/urandom`.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let source = "/dev/urandom";
    let read = File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.with_context(|| format!("'{source}'"))?;
    Ok(bytes)
}

/// Makes a token of 128 random bits.
///
/// # Errors
///
/// That of [`random`].
pub(crate) fn random_token() -> Result<String, Failure> {
    Ok(random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}
