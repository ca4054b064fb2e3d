//! Failures as C sees them: a code that is returned, and text, reason and ranks that the thread
//! keeps until its next failure.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error as _;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fabricast_client::Error;

use crate::arguments::{self, c_text};

/// Result of a function; the header lists the same values.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Ok = 0,
    InvalidArgument = 1,
    NoSocket = 2,
    Unreachable = 3,
    Detached = 4,
    NotAMember = 5,
    MembersFailed = 6,
    Refused = 7,
    Timeout = 8,
    WrongLength = 9,
    NoRoom = 10,
    Busy = 11,
    System = 12,
    Internal = 13,
}

/// Names of the codes, in their order.
const NAMES: [&std::ffi::CStr; 14] = [
    c"FABRICAST_OK",
    c"FABRICAST_INVALID_ARGUMENT",
    c"FABRICAST_NO_SOCKET",
    c"FABRICAST_UNREACHABLE",
    c"FABRICAST_DETACHED",
    c"FABRICAST_NOT_A_MEMBER",
    c"FABRICAST_MEMBERS_FAILED",
    c"FABRICAST_REFUSED",
    c"FABRICAST_TIMEOUT",
    c"FABRICAST_WRONG_LENGTH",
    c"FABRICAST_NO_ROOM",
    c"FABRICAST_BUSY",
    c"FABRICAST_SYSTEM",
    c"FABRICAST_INTERNAL",
];

/// Reason why a function failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
    /// Stable name of a refusal, such as `NAME_INVALID`, or nothing.
    reason: String,
    /// Ranks of members that failed.
    failed: Vec<u32>,
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), reason: String::new(), failed: Vec::new() }
    }

    /// The program gave an argument that the function does not take.
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, text)
    }

    /// Nothing came within the time that the program gave.
    pub(crate) fn timeout(what: &str) -> Self {
        Self::new(Code::Timeout, format!("{what} within the timeout"))
    }

    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("no message");
        Self::new(Code::Internal, format!("an error in libfabricast, please report it: {text}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        let code = match &error {
            Error::NoSocket => Code::NoSocket,
            Error::UnknownPath { .. } => Code::InvalidArgument,
            Error::Unreachable { .. } => Code::Unreachable,
            Error::Detached { .. } => Code::Detached,
            Error::NotAMember { .. } => Code::NotAMember,
            Error::MembersFailed { .. } => Code::MembersFailed,
            Error::Refused { .. } => Code::Refused,
            Error::Runtime(_) => Code::System,
        };
        let failure = Self::new(code, text);
        match error {
            Error::MembersFailed { failed } => Self { failed, ..failure },
            Error::Refused { reason, .. } => Self { reason, ..failure },
            _ => failure,
        }
    }
}

/// The last failure of a thread, as C reads it.
#[derive(Default)]
struct Last {
    text: CString,
    reason: CString,
    failed: Vec<u32>,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// Keeps a failure for [`fabricast_error_text`] and its siblings; returns its code.
pub(crate) fn record(failure: Failure) -> Code {
    let Failure { code, text, reason, failed } = failure;
    let last = Last { text: c_text(&text), reason: c_text(&reason), failed };
    // A thread that ends has no place for it any more, and nobody who could read it.
    let _ = LAST.try_with(|place| place.replace(last));
    code
}

/// Runs the body of a function that C called: a failure is recorded, and a panic is one.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> Code {
    // State that a panic left half changed is behind locks that do not poison, each of which
    // guards one assignment.
    let ended = catch_unwind(AssertUnwindSafe(|| match body() {
        Ok(()) => Code::Ok,
        Err(failure) => record(failure),
    }));
    ended.unwrap_or_else(|panic| {
        let code = record(Failure::panicked(&*panic));
        // Its destructor could panic again.
        std::mem::forget(panic);
        code
    })
}

/// Runs a body that returns a value and cannot fail; a panic makes it `otherwise`.
pub(crate) fn guard_value<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    let mut value = otherwise;
    guard(|| {
        value = body();
        Ok(())
    });
    value
}

#[unsafe(no_mangle)]
extern "C" fn fabricast_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn fabricast_code_name(code: std::ffi::c_int) -> *const c_char {
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.map_or(c"unknown", |name| *name).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn fabricast_error_text() -> *const c_char {
    guard_value(c"".as_ptr(), || LAST.with(|last| last.borrow().text.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C" fn fabricast_error_reason() -> *const c_char {
    guard_value(c"".as_ptr(), || LAST.with(|last| last.borrow().reason.as_ptr()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fabricast_error_failed_ranks(
    ranks: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> Code {
    // A failure is not recorded: the one that is asked for may be read again, with more room.
    guard_value(Code::Internal, || {
        let failed = LAST.with(|last| last.borrow().failed.clone());
        // SAFETY: the caller promises that `ranks` has room for `capacity` and `count` for one.
        let written = unsafe { arguments::write_ranks(&failed, ranks, capacity, count) };
        written.map_or_else(|failure| failure.code, |()| Code::Ok)
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn text() -> String {
        // SAFETY: the text stays until the next failure of this thread.
        unsafe { CStr::from_ptr(fabricast_error_text()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_code_and_a_text() {
        assert_eq!(guard(|| panic!("rank {}", 3)), Code::Internal);
        assert!(text().ends_with("please report it: rank 3"), "{}", text());
        assert_eq!(guard(|| std::panic::panic_any(5)), Code::Internal);
        assert!(text().ends_with("no message"), "{}", text());
        assert_eq!(guard_value(7, || panic!("again")), 7);
    }

    #[test]
    fn a_failure_stays_with_its_thread_until_the_next() {
        let error = Error::MembersFailed { failed: vec![2, 5] };
        assert_eq!(guard(|| Err(error.into())), Code::MembersFailed);
        assert_eq!(guard(|| Ok(())), Code::Ok);
        assert_eq!(std::thread::spawn(text).join().unwrap(), "");
        assert_eq!(text(), "members 2, 5 failed");
        let (mut ranks, mut count) = ([0; 2], 0);
        // SAFETY: both places are of this function.
        let code = unsafe { fabricast_error_failed_ranks(ranks.as_mut_ptr(), 1, &raw mut count) };
        assert_eq!((code, count), (Code::NoRoom, 2));
        // SAFETY: as above.
        let code = unsafe { fabricast_error_failed_ranks(ranks.as_mut_ptr(), 2, &raw mut count) };
        assert_eq!((code, ranks, count), (Code::Ok, [2, 5], 2));
        assert_eq!(text(), "members 2, 5 failed", "asking changes nothing");
    }

    #[test]
    fn every_code_has_its_name() {
        // SAFETY: a name is a constant.
        let name = |code| unsafe { CStr::from_ptr(fabricast_code_name(code)) }.to_str().unwrap();
        assert_eq!(name(Code::Ok as i32), "FABRICAST_OK");
        assert_eq!(name(Code::Internal as i32), "FABRICAST_INTERNAL");
        assert_eq!((name(14), name(-1)), ("unknown", "unknown"));
    }
}
