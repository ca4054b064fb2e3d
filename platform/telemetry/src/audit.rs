//! The audit: log lines with the caller, the call and the result of every change.
//!
//! A caller is the identity of a person, or of a program that acts as one, such as `admin/ann`; or
//! the role of a part that changed something by itself, such as `tic`. docs/metrics.md lists the
//! lines of parts.

use std::collections::VecDeque;
use std::time::SystemTime;

use parking_lot::Mutex;
use tracing::info;

/// Target of the lines of the audit.
pub const TARGET: &str = "fabricast_audit";
/// Longest request in a line, in characters; longer ones are cut.
const LONGEST: usize = 1_000;

/// Most lines of a kind that are kept.
const KEPT: usize = 256;

/// The lines by kind: those of tenants push out none of administrators and parts, and refused calls
/// push out none that changed something.
static LATEST: [Mutex<VecDeque<AuditLine>>; 3] = [const { Mutex::new(VecDeque::new()) }; 3];
/// Places in [`LATEST`].
const OWN: usize = 0;
const OF_TENANTS: usize = 1;
const REFUSED: usize = 2;

/// A line of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine {
    /// Time of the line.
    pub time: SystemTime,
    /// Identity or role.
    pub caller: String,
    /// Name of the call.
    pub call: String,
    /// gRPC code of the result.
    pub code: String,
    /// The request as JSON.
    pub request: String,
}

/// The newest lines of this process, oldest first.
#[must_use]
pub fn latest() -> Vec<AuditLine> {
    let mut lines: Vec<AuditLine> =
        LATEST.iter().flat_map(|kind| kind.lock().iter().cloned().collect::<Vec<_>>()).collect();
    lines.sort_by_key(|line| line.time);
    lines
}

/// The place of a line in [`LATEST`].
fn kind(caller: &str, code: &str) -> usize {
    // Readers change nothing, so all their lines are refusals.
    let role = caller.split('/').next().unwrap_or_default();
    match (role, code) {
        ("tenant" | "tenant-admin", "OK") => OF_TENANTS,
        ("tenant" | "tenant-admin" | "reader", _) => REFUSED,
        _ => OWN,
    }
}

/// Logs one line, and keeps it for [`latest`].
///
/// - `caller`: identity or role.
/// - `call`: name of the call: a verb and its object.
/// - `code`: gRPC code of the result, such as `OK`.
/// - `request`: the request as JSON.
pub fn audit(caller: &str, call: &str, code: &str, request: &str) {
    let request = shortened(request);
    info!(target: TARGET, caller, call, code, request, "changed");
    let line = AuditLine {
        time: SystemTime::now(),
        caller: caller.to_owned(),
        call: call.to_owned(),
        code: code.to_owned(),
        request,
    };
    let mut latest = LATEST[kind(caller, code)].lock();
    if latest.len() == KEPT {
        latest.pop_front();
    }
    latest.push_back(line);
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
    fn the_newest_lines_are_kept_and_tenants_push_out_only_their_own() {
        for number in 0..=KEPT {
            audit("admin/ann", "DeleteGroup", "OK", &number.to_string());
        }
        audit("tenant/bob", "LeaveGroup", "OK", "bob's");
        for _ in 0..2 * KEPT {
            audit("tenant/bob", "DeleteGroup", "PERMISSION_DENIED", "not read");
            audit("reader/eve", "DeleteGroup", "PERMISSION_DENIED", "not read");
        }
        let kept = latest();
        let requests: Vec<&str> = kept.iter().map(|one| one.request.as_str()).collect();
        assert_eq!(kept.len(), 2 * KEPT + 1);
        assert_eq!(requests[..2], ["1", "2"]);
        assert_eq!(requests[KEPT - 1..KEPT + 1], ["256", "bob's"]);
        assert!(kept.is_sorted_by_key(|line| line.time));
    }

    #[test]
    fn only_the_beginning_of_a_long_request_is_kept() {
        assert_eq!(shortened("ä"), "ä");
        let long = shortened(&"ä".repeat(5_000));
        assert_eq!(long.chars().count(), LONGEST + "...".len());
    }
}
