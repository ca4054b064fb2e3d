//! Error messages of a switch and the names of their types and codes.
//!
//! Source: OpenFlow Switch Specification 1.3.5 and 1.4.1, §7.4.4.

use std::fmt;

/// Types of errors that callers tell apart.
pub mod error_type {
    /// The message itself was refused.
    pub const BAD_REQUEST: u16 = 1;
    /// A change of a flow was refused.
    pub const FLOW_MOD_FAILED: u16 = 5;
    /// A change of a group was refused.
    pub const GROUP_MOD_FAILED: u16 = 6;
    /// A request for a role was refused.
    pub const ROLE_REQUEST_FAILED: u16 = 11;
    /// A bundle was refused.
    pub const BUNDLE_FAILED: u16 = 17;
}

/// Codes of `GROUP_MOD_FAILED` that callers tell apart.
pub mod group_mod_failed {
    /// A group to be added is there already.
    pub const GROUP_EXISTS: u16 = 0;
    /// A group to be changed is not there.
    pub const UNKNOWN_GROUP: u16 = 8;
}

/// Codes of `ROLE_REQUEST_FAILED` that callers tell apart.
pub mod role_request_failed {
    /// The generation id is older than the newest one seen.
    pub const STALE: u16 = 0;
}

/// Code of `BAD_REQUEST`: the connection has the slave role, so it may not write.
const IS_SLAVE: u16 = 10;
/// Type of errors of an extension.
const EXPERIMENTER: u16 = 0xffff;
/// Experimenter id of the Open Networking Foundation.
const ONF: u32 = 0x4f4e_4600;
/// First code of bundle errors in extension 230; the others follow in the order of 1.4.
const ONF_BUNDLE_FAILED: u16 = 2300;
/// Codes of `BUNDLE_FAILED`, counted in [`NAMES`].
const BUNDLE_CODES: u16 = 17;

/// A refusal by a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// Type of the error.
    pub kind: u16,
    /// Code of the error, which depends on the type.
    pub code: u16,
    /// Start of the refused message, or a text; extensions put their own ids first.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    /// True if the connection has the slave role, because another controller is the master.
    #[must_use]
    pub fn is_slave(&self) -> bool {
        (self.kind, self.code) == (error_type::BAD_REQUEST, IS_SLAVE)
    }

    /// True if an error of bundles, also one of extension 230, was sent.
    #[must_use]
    pub fn is_bundle(&self) -> bool {
        self.known().0 == error_type::BUNDLE_FAILED
    }

    /// Type and code; those of 1.4 for bundle errors of extension 230.
    fn known(&self) -> (u16, u16) {
        if self.kind == EXPERIMENTER
            && self.data.get(..4) == Some(&ONF.to_be_bytes())
            && let Some(code) = self.code.checked_sub(ONF_BUNDLE_FAILED)
            && code < BUNDLE_CODES
        {
            return (error_type::BUNDLE_FAILED, code);
        }
        (self.kind, self.code)
    }
}

impl fmt::Display for ErrorMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, code) = self.known();
        let Some((_, name, codes)) = NAMES.iter().find(|(number, ..)| *number == kind) else {
            return write!(f, "error type {kind}, code {code}");
        };
        match codes.get(usize::from(code)) {
            Some(code) => write!(f, "{name}: {code}"),
            None => write!(f, "{name}: code {code}"),
        }
    }
}

/// Types with the names of their codes, counted from 0.
const NAMES: &[(u16, &str, &[&str])] = &[
    (0, "HELLO_FAILED", &["INCOMPATIBLE", "EPERM"]),
    (
        1,
        "BAD_REQUEST",
        &[
            "BAD_VERSION",
            "BAD_TYPE",
            "BAD_MULTIPART",
            "BAD_EXPERIMENTER",
            "BAD_EXP_TYPE",
            "EPERM",
            "BAD_LEN",
            "BUFFER_EMPTY",
            "BUFFER_UNKNOWN",
            "BAD_TABLE_ID",
            "IS_SLAVE",
            "BAD_PORT",
            "BAD_PACKET",
            "MULTIPART_BUFFER_OVERFLOW",
            "MULTIPART_REQUEST_TIMEOUT",
            "MULTIPART_REPLY_TIMEOUT",
        ],
    ),
    (
        2,
        "BAD_ACTION",
        &[
            "BAD_TYPE",
            "BAD_LEN",
            "BAD_EXPERIMENTER",
            "BAD_EXP_TYPE",
            "BAD_OUT_PORT",
            "BAD_ARGUMENT",
            "EPERM",
            "TOO_MANY",
            "BAD_QUEUE",
            "BAD_OUT_GROUP",
            "MATCH_INCONSISTENT",
            "UNSUPPORTED_ORDER",
            "BAD_TAG",
            "BAD_SET_TYPE",
            "BAD_SET_LEN",
            "BAD_SET_ARGUMENT",
        ],
    ),
    (
        3,
        "BAD_INSTRUCTION",
        &[
            "UNKNOWN_INST",
            "UNSUP_INST",
            "BAD_TABLE_ID",
            "UNSUP_METADATA",
            "UNSUP_METADATA_MASK",
            "BAD_EXPERIMENTER",
            "BAD_EXP_TYPE",
            "BAD_LEN",
            "EPERM",
        ],
    ),
    (
        4,
        "BAD_MATCH",
        &[
            "BAD_TYPE",
            "BAD_LEN",
            "BAD_TAG",
            "BAD_DL_ADDR_MASK",
            "BAD_NW_ADDR_MASK",
            "BAD_WILDCARDS",
            "BAD_FIELD",
            "BAD_VALUE",
            "BAD_MASK",
            "BAD_PREREQ",
            "DUP_FIELD",
            "EPERM",
        ],
    ),
    (
        5,
        "FLOW_MOD_FAILED",
        &[
            "UNKNOWN",
            "TABLE_FULL",
            "BAD_TABLE_ID",
            "OVERLAP",
            "EPERM",
            "BAD_TIMEOUT",
            "BAD_COMMAND",
            "BAD_FLAGS",
        ],
    ),
    (
        6,
        "GROUP_MOD_FAILED",
        &[
            "GROUP_EXISTS",
            "INVALID_GROUP",
            "WEIGHT_UNSUPPORTED",
            "OUT_OF_GROUPS",
            "OUT_OF_BUCKETS",
            "CHAINING_UNSUPPORTED",
            "WATCH_UNSUPPORTED",
            "LOOP",
            "UNKNOWN_GROUP",
            "CHAINED_GROUP",
            "BAD_TYPE",
            "BAD_COMMAND",
            "BAD_BUCKET",
            "BAD_WATCH",
            "EPERM",
        ],
    ),
    (11, "ROLE_REQUEST_FAILED", &["STALE", "UNSUP", "BAD_ROLE"]),
    (13, "TABLE_FEATURES_FAILED", &["BAD_TABLE", "BAD_METADATA"]),
    (
        17,
        "BUNDLE_FAILED",
        &[
            "UNKNOWN",
            "EPERM",
            "BAD_ID",
            "BUNDLE_EXIST",
            "BUNDLE_CLOSED",
            "OUT_OF_BUNDLES",
            "BAD_TYPE",
            "BAD_FLAGS",
            "MSG_BAD_LEN",
            "MSG_BAD_XID",
            "MSG_UNSUP",
            "MSG_CONFLICT",
            "MSG_TOO_MANY",
            "MSG_FAILED",
            "TIMEOUT",
            "BUNDLE_IN_PROGRESS",
            "SCHED_NOT_SUPPORTED",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: u16, code: u16, data: &[u8]) -> String {
        ErrorMessage { kind, code, data: data.to_vec() }.to_string()
    }

    #[test]
    fn errors_have_the_names_of_the_specification() {
        assert_eq!(text(6, 3, b""), "GROUP_MOD_FAILED: OUT_OF_GROUPS");
        assert_eq!(text(5, 1, b""), "FLOW_MOD_FAILED: TABLE_FULL");
        assert_eq!(text(6, 99, b""), "GROUP_MOD_FAILED: code 99");
        assert_eq!(text(77, 2, b""), "error type 77, code 2");
    }

    #[test]
    fn a_bundle_error_of_the_extension_reads_as_that_of_1_4() {
        assert_eq!(text(0xffff, 2313, b"ONF\0"), "BUNDLE_FAILED: MSG_FAILED");
        assert_eq!(text(0xffff, 2313, b"abcd"), "error type 65535, code 2313");
    }
}
