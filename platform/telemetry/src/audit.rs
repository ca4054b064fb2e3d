//! The audit: lines of the log that say who changed what, and how that ended.
//!
//! Who is a person, or a program that acts as one, by its certificate, as `admin/ann`; or a part of the
//! cluster that changed something by itself, by its role, as `tic`. docs/metrics.md lists what parts write.

use tracing::info;

/// What marks the lines of the audit.
pub const TARGET: &str = "fabricast_audit";
/// Of a longer request only the beginning is written down, in characters.
const LONGEST: usize = 1_000;

/// Writes one line.
///
/// - `caller`: who.
/// - `call`: what, as the name of a call: a verb and what it is done to.
/// - `code`: how it ended, as gRPC writes codes, such as `OK`.
/// - `request`: with what, as JSON.
pub fn audit(caller: &str, call: &str, code: &str, request: &str) {
    let request = shortened(request);
    info!(target: TARGET, caller, call, code, request, "changed");
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_a_long_request_is_kept() {
        assert_eq!(shortened("ä"), "ä");
        let long = shortened(&"ä".repeat(5_000));
        assert_eq!(long.chars().count(), LONGEST + "...".len());
    }
}
