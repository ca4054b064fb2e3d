//! Binds the term of a route service to the certificate that it was granted to.
//!
//! The writer refuses a term that is not the newest. That says nothing about who names it: another
//! route service could renew, give up or report under a term that is not its own.

use std::sync::Arc;

use fabricast_rpc::{Caller, Reason};
use parking_lot::Mutex;
use tonic::Status;

/// The holder of the newest term; clones share it. A TIC that begins to lead knows none until the
/// holder renews its term.
#[derive(Clone, Debug, Default)]
pub(crate) struct TermHolder(Arc<Mutex<Option<(u64, Caller)>>>);

impl TermHolder {
    /// Notes who holds a term; that of an older term is known no more.
    pub(crate) fn note(&self, term: u64, caller: Caller) {
        let mut holder = self.0.lock();
        if holder.as_ref().is_none_or(|(known, _)| *known < term) {
            *holder = Some((term, caller));
        }
    }

    /// Refuses a caller that names the term of another.
    ///
    /// # Errors
    ///
    /// `PERMISSION_DENIED` / `NOT_PERMITTED`.
    pub(crate) fn check(&self, term: u64, caller: &Caller) -> Result<(), Status> {
        match &*self.0.lock() {
            Some((known, holder)) if *known == term && holder != caller => {
                let why = format!("term: {term} was granted to {holder}, not to {caller}");
                Err(Reason::NotPermitted.status(why, &[("term", &term.to_string())]))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Address of the active route service, for callers that look for it; clones share it. Empty if not
/// known: it comes with each renewal of the term.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActiveRouter(Arc<Mutex<String>>);

impl ActiveRouter {
    pub(crate) fn set(&self, address: &str) {
        let mut known = self.0.lock();
        if *known != address {
            address.clone_into(&mut known);
        }
    }

    pub(crate) fn address(&self) -> String {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(name: &str) -> Caller {
        Caller::Known(vec![format!("router/{name}").parse().unwrap()])
    }

    #[test]
    fn a_term_is_used_by_its_holder_only_and_an_unknown_one_by_all() {
        let holder = TermHolder::default();
        assert!(holder.check(5, &router("b")).is_ok(), "this TIC has just begun to lead");
        holder.note(5, router("a"));
        holder.note(5, router("b"));
        assert!(holder.check(5, &router("a")).is_ok());
        let refused = holder.check(5, &router("b")).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert!(holder.check(4, &router("b")).is_ok(), "the writer says that it is not the newest");
        holder.note(6, router("b"));
        assert!(holder.check(6, &router("a")).is_err());
        holder.note(5, router("a"));
        assert!(holder.check(6, &router("b")).is_ok(), "a late answer changes nothing");
    }
}
