//! G3: an acknowledged join or leave is durable. At every acknowledgement.

use crate::message::Message;
use crate::store::Store;

/// Checks an answer that reaches a node.
pub(crate) fn acknowledged(store: &Store, message: &Message) {
    match message {
        Message::Joined(_, Ok(joined)) => {
            let member = &joined.member;
            let key = (member.gn, member.pn, member.joined);
            assert!(store.ranks.members.contains(&key), "G3: {key:?} is not durable");
        }
        Message::Left(_, Ok((gn, pn, revision))) => {
            assert!(*revision <= store.ranks.revision, "G3: {gn:?} {pn:?} have not left for good");
        }
        _ => {}
    }
}
