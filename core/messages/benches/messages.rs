//! Times the message layers of a whole group: all its members on one node, so that nothing but they
//! costs time.
#![expect(clippy::unwrap_used, reason = "a bench may stop at bad input")]

use std::collections::BTreeSet;

use divan::Bencher;
use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::tree::TreeShape;
use fabricast_groups::{Gn, Moment, Pn, Revision};
use fabricast_messages::{
    Limits, MemberId, MessageLayer, Mode, OnFailure, Operation, Output, Place, PlaceNeighbor,
    Reduction, Values,
};

const GN: Gn = Gn(1);
const NOW: Moment = Moment(1);

fn main() {
    divan::main();
}

/// The places of `count` members.
fn placed(count: u32) -> MessageLayer {
    let node = NodeName::new("n").unwrap();
    let live: BTreeSet<Pn> = (0..count).map(Pn).collect();
    let mut layer = MessageLayer::new(node.clone(), Limits::default());
    for pn in &live {
        let tree = TreeShape::default();
        let at = tree.position(*pn, &live).unwrap();
        let address = Address::new("nowhere").unwrap();
        let neighbor = |pn| PlaceNeighbor { pn, node: node.clone(), address: address.clone() };
        layer.place(
            NOW,
            Place {
                gn: GN,
                pn: *pn,
                joined: Revision(1),
                tree,
                parent: at.parent.map(neighbor),
                children: at.children.into_iter().map(neighbor).collect(),
                multicast: false,
            },
        );
    }
    layer
}

/// The same, and all take part and know it.
fn open(count: u32) -> MessageLayer {
    let mut layer = placed(count);
    (0..count).for_each(|pn| layer.open(NOW, GN, Pn(pn)).unwrap());
    while layer.poll_output().is_some() {}
    assert_eq!(layer.roster(GN, Pn(0)).unwrap().len(), usize::try_from(count).unwrap());
    layer
}

/// All members begin to take part, one after the other.
#[divan::bench(args = [16, 64, 256], sample_count = 5)]
fn all_take_part(bencher: Bencher<'_, '_>, count: u32) {
    bencher.with_inputs(|| placed(count)).bench_local_values(|mut layer| {
        (0..count).for_each(|pn| layer.open(NOW, GN, Pn(pn)).unwrap());
        layer
    });
}

/// One message to all, to the acknowledgement of all.
#[divan::bench(args = [2, 16, 64, 256])]
fn multicast(bencher: Bencher<'_, '_>, count: u32) {
    let mut layer = open(count);
    bencher.bench_local(|| {
        layer.send(NOW, MemberId { gn: GN, pn: Pn(count - 1) }, Mode::Reliable, &[7; 8]).unwrap();
        let mut acknowledged = false;
        while let Some(output) = layer.poll_output() {
            match output {
                Output::Deliver { pn, .. } => layer.consumed(NOW, GN, pn, 1),
                Output::Acknowledged { .. } => acknowledged = true,
                _ => {}
            }
        }
        assert!(acknowledged);
    });
}

/// One sum over all.
#[divan::bench(args = [2, 16, 64, 256])]
fn all_reduce(bencher: Bencher<'_, '_>, count: u32) {
    let mut layer = open(count);
    let values = Values::I64(vec![1]);
    let sum = Operation::AllReduce { reduction: Reduction::Sum, values };
    bencher.bench_local(|| {
        for pn in 0..count {
            layer.operate(NOW, MemberId { gn: GN, pn: Pn(pn) }, &sum, OnFailure::Fail).unwrap();
        }
        let mut ended = 0;
        while let Some(output) = layer.poll_output() {
            ended += u32::from(matches!(output, Output::Ended { .. }));
        }
        assert_eq!(ended, count);
    });
}
