//! G3: an acknowledged join or leave is durable. At every acknowledgement.

use crate::message::Message;
use crate::store::Store;

/// Looks at an answer that reaches a node.
pub(crate) fn acknowledged(store: &Store, message: &Message) {
    match message {
        Message::Joined(_, Ok(joined)) => {
            let member = &joined.member;
            let seat = (member.gn, member.pn, member.joined);
            assert!(store.ranks.members.contains(&seat), "G3: {seat:?} is not durable");
        }
        Message::Left(_, Ok((gn, pn, revision))) => {
            assert!(*revision <= store.ranks.revision, "G3: {gn:?} {pn:?} have not left for good");
        }
        _ => {}
    }
}
