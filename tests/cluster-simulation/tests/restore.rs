//! Older copies of the records are restored under nodes that live on.

use std::time::Duration;

use fabricast_cluster_simulation::{Copied, restore};

/// Time in which all is whole again, from the start of the TICs.
const WHOLE: Duration = Duration::from_secs(10);

fn is_whole_after(lost: u64, copied: Copied) {
    let time =
        restore(lost, copied).unwrap_or_else(|error| panic!("{lost} terms and epochs: {error}"));
    assert!(time > Duration::ZERO && time <= WHOLE, "{lost} terms and epochs: {time:?}");
}

#[test]
fn a_copy_that_is_1_term_and_epoch_old_is_whole_in_10_seconds() {
    is_whole_after(1, Copied::All);
}

#[test]
fn a_copy_that_is_100_terms_and_epochs_old_is_whole_in_10_seconds() {
    is_whole_after(100, Copied::All);
}

#[test]
fn a_copy_that_is_10000_terms_and_epochs_old_is_whole_in_10_seconds() {
    is_whole_after(10_000, Copied::All);
}

#[test]
fn a_copy_from_before_the_first_route_service_is_whole_in_10_seconds() {
    is_whole_after(100, Copied::AllButRouteTerm);
}
