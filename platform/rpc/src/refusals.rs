//! Statuses of single calls among many, as they travel inside an answer.

use fabricast_proto::v1;
use tonic::{Code, Status};

use crate::status::{named, reason_of};

/// A status as it travels.
#[must_use]
pub fn refusal_to_wire(status: &Status) -> v1::CallRefusal {
    v1::CallRefusal {
        code: i32::from(status.code()).unsigned_abs(),
        reason: reason_of(status).unwrap_or_default(),
        message: status.message().to_owned(),
    }
}

/// The status that travelled; what its reason says for programs beside its name is lost.
#[must_use]
pub fn refusal_from_wire(refusal: &v1::CallRefusal) -> Status {
    let code = i32::try_from(refusal.code).map_or(Code::Unknown, Code::from_i32);
    match refusal.reason.as_str() {
        "" => Status::new(code, refusal.message.clone()),
        reason => named(code, reason, &refusal.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    #[test]
    fn a_status_is_the_same_after_the_journey() {
        let sent = Reason::MgidInUse.status("mgid 7 belongs to 'g'", &[("group", "g")]);
        let arrived = refusal_from_wire(&refusal_to_wire(&sent));
        assert_eq!((arrived.code(), arrived.message()), (sent.code(), sent.message()));
        assert_eq!(reason_of(&arrived).as_deref(), Some("MGID_IN_USE"));
        let plain = refusal_from_wire(&refusal_to_wire(&Status::cancelled("late")));
        assert_eq!((plain.code(), reason_of(&plain)), (Code::Cancelled, None));
    }
}
