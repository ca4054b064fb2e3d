//! The audit: log lines with the caller, the call and the result of every change.
//!
//! A caller is the identity of a person, or of a program that acts as one, such as `admin/ann`; or
//! the role of a part that changed something by itself, such as `tic`. docs/metrics.md lists the
//! lines of parts.

use tracing::info;

/// Target of the lines of the audit.
pub const TARGET: &str = "fabricast_audit";
/// Longest request in a line, in characters; longer ones are cut.
const LONGEST: usize = 1_000;

/// Logs one line.
///
/// - `caller`: identity or role.
/// - `call`: name of the call: a verb and its object.
/// - `code`: gRPC code of the result, such as `OK`.
/// - `request`: the request as JSON.
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
