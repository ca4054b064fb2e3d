//! The one place where an error becomes a gRPC status.
//!
//! Every refusal carries a stable [`Reason`] beside its text, as `google.rpc.ErrorInfo`, so that
//! programs branch on the reason and people read the message.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Longest message, in bytes. A status travels in a header of bounded size, encoded twice; were it
/// too large, the caller would learn nothing at all.
const MAX_MESSAGE: usize = 2_000;
/// Longest fact, in bytes: the longest name fits.
const MAX_FACT: usize = 1_100;

/// Domain of the `ErrorInfo` of all reasons.
const DOMAIN: &str = "fabricast";

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident => $code:ident / $text:literal,)*) => {
        /// Reason why a call was refused. The texts are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// The stable text, as it travels in `ErrorInfo.reason`.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// The reason with this text; `None` for one that is unknown here.
            #[must_use]
            pub fn from_text(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The gRPC code that goes with the reason.
            #[must_use]
            pub fn code(self) -> Code {
                match self {
                    $(Self::$variant => Code::$code,)*
                }
            }
        }
    };
}

reasons! {
    /// A required field is missing.
    FieldMissing => InvalidArgument / "FIELD_MISSING",
    /// The request is no message of the call.
    RequestUnreadable => InvalidArgument / "REQUEST_UNREADABLE",
    /// A range is outside what is shared, was not lent, or holds no such thing.
    RangeInvalid => InvalidArgument / "RANGE_INVALID",
    /// A name is empty, too long or has control characters.
    NameInvalid => InvalidArgument / "NAME_INVALID",
    /// A page token was not handed out by this call.
    PageTokenInvalid => InvalidArgument / "PAGE_TOKEN_INVALID",
    /// The endpoint is not in the topology or not of this node.
    UnknownEndpoint => InvalidArgument / "UNKNOWN_ENDPOINT",
    /// The link, switch or endpoint is not in the topology.
    UnknownElement => NotFound / "UNKNOWN_ELEMENT",
    /// No live group has this name or number.
    UnknownGroup => NotFound / "UNKNOWN_GROUP",
    /// No such node is registered or hosted here.
    UnknownNode => NotFound / "UNKNOWN_NODE",
    /// No switch agent of this name has reported failures.
    UnknownReporter => NotFound / "UNKNOWN_REPORTER",
    /// No such switch.
    UnknownSwitch => NotFound / "UNKNOWN_SWITCH",
    /// No live job has this name.
    UnknownJob => NotFound / "UNKNOWN_JOB",
    /// No process is attached with this session, or not any more.
    UnknownSession => NotFound / "UNKNOWN_SESSION",
    /// The session belongs to a process of another user.
    SessionNotYours => PermissionDenied / "SESSION_NOT_YOURS",
    /// A process of this name is attached.
    ProcessAttached => AlreadyExists / "PROCESS_ATTACHED",
    /// The agent shares no memory with the process.
    NoSharedMemory => FailedPrecondition / "NO_SHARED_MEMORY",
    /// The agent shares memory with the process already.
    MemoryShared => AlreadyExists / "MEMORY_SHARED",
    /// The node offers no direct path, or the program does not know the tree of the group.
    NoDirectPath => FailedPrecondition / "NO_DIRECT_PATH",
    /// A frame is not understood, or is not the sender's own.
    FrameInvalid => InvalidArgument / "FRAME_INVALID",
    /// The process is not a member of the group.
    NotAMember => NotFound / "NOT_A_MEMBER",
    /// The group's agent is not hosted here.
    NotHostedHere => NotFound / "NOT_HOSTED_HERE",
    /// Another live group has this MGID.
    MgidInUse => AlreadyExists / "MGID_IN_USE",
    /// Switch tables may still hold an ended group's MGID; works later.
    MgidNotClean => Unavailable / "MGID_NOT_CLEAN",
    /// The process is a member of the group with another endpoint.
    JoinedElsewhere => AlreadyExists / "JOINED_ELSEWHERE",
    /// The join was granted once and the membership has ended since.
    MembershipEnded => FailedPrecondition / "MEMBERSHIP_ENDED",
    /// The request id was used for another request.
    RequestIdReused => InvalidArgument / "REQUEST_ID_REUSED",
    /// The group exists with another MGID. Flags of a join are for a new group and not compared.
    GroupDiffers => AlreadyExists / "GROUP_DIFFERS",
    /// A live job has the name.
    JobExists => AlreadyExists / "JOB_EXISTS",
    /// A group of a job was named without the job's token, or with another.
    TokenRefused => PermissionDenied / "TOKEN_REFUSED",
    /// The job was created once and has ended since, or is being released.
    JobEnded => FailedPrecondition / "JOB_ENDED",
    /// Other jobs leave too little room for a job.
    NoRoom => ResourceExhausted / "NO_ROOM",
    /// A node serves another job.
    NodeTaken => FailedPrecondition / "NODE_TAKEN",
    /// The node takes part, so its record stays.
    NodeUp => FailedPrecondition / "NODE_UP",
    /// Endpoints would be cut off without the link.
    LinkNeeded => FailedPrecondition / "LINK_NEEDED",
    /// A node, its link or its leaf switch is down, or it has no place in the fat tree.
    NodeDown => FailedPrecondition / "NODE_DOWN",
    /// A job would share links with another.
    LinksShared => FailedPrecondition / "LINKS_SHARED",
    /// No live collective has this name.
    UnknownCollective => NotFound / "UNKNOWN_COLLECTIVE",
    /// A live collective has the name and differs from what is asked for.
    CollectiveExists => AlreadyExists / "COLLECTIVE_EXISTS",
    /// No such collective can be.
    CollectiveInvalid => InvalidArgument / "COLLECTIVE_INVALID",
    /// A tenant, job or account has as many collectives or groups as it may.
    QuotaReached => ResourceExhausted / "QUOTA_REACHED",
    /// A switch tree was required, and there is none to be had.
    NoSwitchTree => FailedPrecondition / "NO_SWITCH_TREE",
    /// No live link connects a member of a collective.
    MemberCutOff => FailedPrecondition / "MEMBER_CUT_OFF",
    /// Switches do not hold the tree of a collective yet; works later.
    NotProgrammed => FailedPrecondition / "NOT_PROGRAMMED",
    /// A process's part in a run contradicts itself or the others'.
    ContributionInvalid => InvalidArgument / "CONTRIBUTION_INVALID",
    /// A run of a collective ended without a value; do it again.
    CollectiveFailed => Aborted / "COLLECTIVE_FAILED",
    /// The member takes part already, through another handle.
    TakesPartAlready => AlreadyExists / "SEAT_TAKEN",
    /// The process is a member of the group and does not take part in its messages and operations.
    TakesNoPart => FailedPrecondition / "TAKES_NO_PART",
    /// Members were gone before they contributed to an operation.
    MembersFailed => Aborted / "MEMBERS_FAILED",
    /// Members called different operations, or with values that do not fit together.
    OperationsDiffer => FailedPrecondition / "OPERATIONS_DIFFER",
    /// The member's last operation has not ended.
    OperationRunning => FailedPrecondition / "OPERATION_RUNNING",
    /// The hardware has no aggregation engines.
    NoAggregation => FailedPrecondition / "NO_AGGREGATION",
    /// A switch answers and does not keep what is written to it.
    WriteFailed => Unavailable / "WRITE_FAILED",
    /// The hardware has no port counters that can be read.
    NoCounters => FailedPrecondition / "NO_COUNTERS",
    /// The fabric is no fat tree.
    NotAFatTree => FailedPrecondition / "NOT_A_FAT_TREE",
    /// The MGID is outside the fabric's space.
    MgidOutOfRange => InvalidArgument / "MGID_OUT_OF_RANGE",
    /// The endpoint belongs to another node.
    EndpointTaken => AlreadyExists / "ENDPOINT_TAKEN",
    /// The endpoint is attached by another process.
    EndpointAttached => AlreadyExists / "ENDPOINT_ATTACHED",
    /// The color is not below the number of entries.
    ColorOutOfRange => InvalidArgument / "COLOR_OUT_OF_RANGE",
    /// No tree has that shape.
    TreeInvalid => InvalidArgument / "TREE_INVALID",
    /// The recorded choice contradicts itself.
    ChoiceInvalid => InvalidArgument / "CHOICE_INVALID",
    /// The caller has another topology than the part it calls.
    TopologyDiffers => FailedPrecondition / "TOPOLOGY_DIFFERS",
    /// The text is not a valid topology.
    TopologyInvalid => InvalidArgument / "TOPOLOGY_INVALID",
    /// The topology comes from a file.
    TopologyFixed => FailedPrecondition / "TOPOLOGY_FIXED",
    /// No topology has been discovered yet.
    NoTopology => Unavailable / "NO_TOPOLOGY",
    /// A node has an endpoint that would be gone.
    EndpointInUse => FailedPrecondition / "ENDPOINT_IN_USE",
    /// The payload is longer than allowed.
    PayloadTooLong => InvalidArgument / "PAYLOAD_TOO_LONG",
    /// The start of a node lies too far beyond the TIC's clock.
    StartOutOfRange => InvalidArgument / "START_OUT_OF_RANGE",
    /// The revision is newer than the records.
    RevisionOutOfRange => InvalidArgument / "REVISION_OUT_OF_RANGE",
    /// A table entry names a port or color that does not exist.
    BadEntry => InvalidArgument / "BAD_ENTRY",
    /// The node has come back since, or was expelled.
    StaleIncarnation => FailedPrecondition / "STALE_INCARNATION",
    /// A newer group agent is known.
    StaleEpoch => Aborted / "STALE_EPOCH",
    /// The node has come and gone too often and is not readmitted yet; works later.
    NodeSuppressed => Unavailable / "NODE_SUPPRESSED",
    /// Another TIC leads, or another route service is at work.
    NotLeader => Unavailable / "NOT_LEADER",
    /// Another route service holds the term.
    RouteTermHeld => Unavailable / "ROUTE_TERM_HELD",
    /// A newer route service is known.
    StaleTerm => Aborted / "STALE_TERM",
    /// A switch has seen a newer route service or plan.
    StaleFence => Aborted / "STALE_FENCE",
    /// The TIC has not granted the term of a route service.
    TermNotGranted => FailedPrecondition / "TERM_NOT_GRANTED",
    /// The switch does not answer.
    SwitchDown => Unavailable / "SWITCH_DOWN",
    /// The group has no hardware route yet.
    NotRouted => FailedPrecondition / "NOT_ROUTED",
    /// The node was stopped.
    NodeStopped => Unavailable / "NODE_STOPPED",
    /// The fabric does not answer.
    FabricUnavailable => Unavailable / "FABRIC_UNAVAILABLE",
    /// A part this call needs does not answer.
    PeerUnavailable => Unavailable / "PEER_UNAVAILABLE",
    /// The reader of a stream, or of an answer, was too slow.
    ReaderTooSlow => Unavailable / "READER_TOO_SLOW",
    /// The part is stopping.
    ShuttingDown => Unavailable / "SHUTTING_DOWN",
    /// A bounded queue or table is full.
    LimitReached => ResourceExhausted / "LIMIT_REACHED",
    /// The client makes more calls in a second than it may; the details say when to come again.
    RateLimited => ResourceExhausted / "RATE_LIMITED",
    /// The client has as many calls open as it may; the details say when to come again.
    TooManyOpenCalls => ResourceExhausted / "TOO_MANY_OPEN_CALLS",
    /// The client, or all clients, have as many bytes of requests open as they may, or of answers
    /// that were not taken; the details say when to come again.
    TooManyRequestBytes => ResourceExhausted / "TOO_MANY_REQUEST_BYTES",
    /// A message of the request has not arrived in time.
    RequestTooSlow => DeadlineExceeded / "REQUEST_TOO_SLOW",
    /// The caller's certificate does not give it this call, or not for this node or group.
    NotPermitted => PermissionDenied / "NOT_PERMITTED",
    /// The management key is wrong.
    ManagementKeyWrong => PermissionDenied / "MANAGEMENT_KEY_WRONG",
    /// The route service records nothing, or has dropped what it had.
    NothingRecorded => FailedPrecondition / "NOTHING_RECORDED",
    /// The engine chooses the spanning trees of groups itself.
    NoHomes => FailedPrecondition / "NO_HOMES",
    /// The plan of the running engine cannot be made again.
    NotPredictable => FailedPrecondition / "NOT_PREDICTABLE",
    /// The store has no space left; nothing was changed.
    StoreFull => ResourceExhausted / "STORE_FULL",
    /// The store failed; nothing was acknowledged.
    StoreFailed => Internal / "STORE_FAILED",
}

impl Reason {
    /// Builds the status: code, message, and reason with its details.
    ///
    /// - `message`: what is wrong with which field, for people.
    /// - `metadata`: the same facts for programs, such as `("group", "rows/3")`; a few.
    ///
    /// Texts that are too long, because they repeat input of a caller, are cut.
    #[must_use]
    pub fn status(self, message: impl Into<String>, metadata: &[(&str, &str)]) -> Status {
        let facts: HashMap<String, String> =
            metadata.iter().map(|(key, value)| ((*key).to_owned(), cut(value, MAX_FACT))).collect();
        let details = ErrorDetails::with_error_info(self.text(), DOMAIN, facts);
        Status::with_error_details(self.code(), cut(&message.into(), MAX_MESSAGE), details)
    }

    /// As [`Reason::status`], and when to try again, as `google.rpc.RetryInfo`.
    #[must_use]
    pub fn status_after(self, message: impl Into<String>, delay: Duration) -> Status {
        let none = HashMap::<String, String>::new();
        let mut details = ErrorDetails::with_error_info(self.text(), DOMAIN, none);
        details.set_retry_info(Some(delay));
        Status::with_error_details(self.code(), cut(&message.into(), MAX_MESSAGE), details)
    }

    /// True if the status was made here for this reason.
    #[must_use]
    pub fn is_of(self, status: &Status) -> bool {
        reason_of(status).as_deref() == Some(self.text())
    }
}

/// Returns the time after which a server says that a call may be tried again; `None` if it does not
/// say.
#[must_use]
pub fn retry_after(status: &Status) -> Option<Duration> {
    // Most statuses have no details, and reading some costs.
    if status.code() != Code::ResourceExhausted {
        return None;
    }
    status.get_details_retry_info()?.retry_delay
}

/// Builds a status of a reason that is known by its text only.
pub(crate) fn named(code: Code, reason: &str, message: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::<String, String>::new());
    Status::with_error_details(code, cut(message, MAX_MESSAGE), details)
}

fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(bytes)])
}

/// Reads one fact out of a status; `None` if it was not made here, or says nothing of it.
#[must_use]
pub fn fact_of(status: &Status, fact: &str) -> Option<String> {
    let info = status.get_error_details().error_info().cloned()?;
    (info.domain == DOMAIN).then(|| info.metadata.get(fact).cloned())?
}

/// Reads the reason's text out of a status; `None` if the status was not made here.
#[must_use]
pub fn reason_of(status: &Status) -> Option<String> {
    let info = status.get_error_details().error_info().cloned()?;
    (info.domain == DOMAIN).then_some(info.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_carries_code_message_reason_and_facts() {
        let status = Reason::UnknownGroup.status("no group named 'x'", &[("group", "x")]);
        assert_eq!(status.code(), Code::NotFound);
        assert_eq!(status.message(), "no group named 'x'");
        assert_eq!(reason_of(&status).as_deref(), Some("UNKNOWN_GROUP"));
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().metadata["group"], "x");
    }

    #[test]
    fn what_a_caller_sent_makes_no_status_too_long_to_travel() {
        let long = "ä".repeat(100_000);
        let status = Reason::UnknownGroup.status(format!("no group '{long}'"), &[("group", &long)]);
        assert!(status.message().ends_with("ä..."), "{}", status.message());
        let size = status.message().len() + status.details().len();
        assert!(size < 6_000, "{size} bytes");
        assert_eq!(reason_of(&status).as_deref(), Some("UNKNOWN_GROUP"));
    }

    #[test]
    fn a_status_says_when_to_come_again() {
        let delay = Duration::from_millis(70);
        let status = Reason::RateLimited.status_after("too many", delay);
        assert_eq!(retry_after(&status), Some(delay));
        assert_eq!(reason_of(&status).as_deref(), Some("RATE_LIMITED"));
        assert_eq!(retry_after(&Reason::LimitReached.status("full", &[])), None);
    }

    #[test]
    fn a_foreign_status_has_no_reason() {
        assert_eq!(reason_of(&Status::not_found("elsewhere")), None);
        assert!(!Reason::UnknownGroup.is_of(&Status::not_found("elsewhere")));
    }
}
