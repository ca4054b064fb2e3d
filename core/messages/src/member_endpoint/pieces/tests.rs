//! Tests of pieces at one endpoint.

use std::collections::BTreeSet;

use fabricast_groups::names::NodeName;
use fabricast_groups::tree::TreeShape;
use fabricast_groups::{Gn, Revision};

use super::*;
use crate::outputs::{Limits, Place};

const NOW: Moment = Moment(1);

fn endpoint() -> MemberEndpoint {
    let place = Place {
        gn: Gn(1),
        pn: Pn(0),
        joined: Revision(1),
        tree: TreeShape::default(),
        parent: None,
        children: Vec::new(),
        multicast: true,
    };
    let limits = Limits { relies_on_multicast: true, ..Limits::default() };
    MemberEndpoint::new(&place, NodeName::new("n").unwrap(), limits)
}

fn piece(number: u64, pieces: u32, index: u32, bytes: usize) -> Arc<Piece> {
    let source = Source { pn: Pn(1), joined: Revision(1) };
    let content = Content::Payload { source, digest: 0 };
    let of = Announcement { number, content, pieces };
    Arc::new(Piece { of, index, payload: vec![0; bytes] })
}

#[test]
fn payloads_are_kept_of_two_operations_and_up_to_the_length_of_a_message() {
    let mut endpoint = endpoint();
    let most = endpoint.limits.message.div_ceil(endpoint.piece_size());
    let most = u32::try_from(most).unwrap();
    for number in (0..100).chain([1 << 62]) {
        for (from, pieces) in [(None, most + 1), (Some(Pn(1)), u32::MAX), (None, most)] {
            endpoint.handle_piece(NOW, from, &piece(number, pieces, 1, 1_000));
        }
    }
    let held = endpoint.pieces.iter().map(|(number, one)| (*number, one.of.pieces));
    assert_eq!(held.collect::<Vec<_>>(), [(1, most), (2, most)]);
    for index in 2..most {
        endpoint.handle_piece(NOW, None, &piece(1, most, index, 6_000));
    }
    assert!(endpoint.pieces[&1].content().len() <= endpoint.limits.message, "it began anew");
}

#[test]
fn an_outcome_that_names_another_payload_than_the_members_own_is_taken() {
    let mut endpoint = endpoint();
    let of = |pn: Pn, payload: &[u8]| {
        let source = Source { pn, joined: Revision(1) };
        let content = Content::Payload { source, digest: digest(payload) };
        Announcement { number: 1, content, pieces: 1 }
    };
    endpoint.pieces.insert(1, Pieces::all(NOW, of(Pn(0), &[8]), &[8], 1));
    let named = of(Pn(1), &[9]);
    let verdict = Ok(Gathered::Announced(named));
    let participants = BTreeSet::from([Pn(1)]);
    let outcome = Outcome { number: 1, participants, newest: Revision(1), verdict };
    endpoint.handle_outcome(NOW, None, 0, &Arc::new(outcome));
    let piece = Piece { of: named, index: 0, payload: vec![9] };
    endpoint.handle_piece(NOW, None, &Arc::new(piece));
    let last = endpoint.operations.last_outcome().map(|last| last.verdict.clone());
    assert_eq!(last, Some(Ok(Gathered::Listed(vec![(Pn(1), Item::Bytes(vec![9].into()))]))));
}
