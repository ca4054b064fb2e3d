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

/// Most lines that are kept.
const KEPT: usize = 256;

static LATEST: Mutex<VecDeque<AuditLine>> = Mutex::new(VecDeque::new());

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
    LATEST.lock().iter().cloned().collect()
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
    let mut latest = LATEST.lock();
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
    fn the_newest_lines_are_kept() {
        for number in 0..=KEPT {
            audit("admin/ann", "DeleteGroup", "OK", &number.to_string());
        }
        let kept = latest();
        let ends: Vec<&str> = [&kept[0], &kept[KEPT - 1]].map(|one| one.request.as_str()).into();
        assert_eq!((kept.len(), ends), (KEPT, vec!["1", "256"]));
    }

    #[test]
    fn only_the_beginning_of_a_long_request_is_kept() {
        assert_eq!(shortened("ä"), "ä");
        let long = shortened(&"ä".repeat(5_000));
        assert_eq!(long.chars().count(), LONGEST + "...".len());
    }
}
