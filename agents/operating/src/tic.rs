//! Calls to the TIC: registrations of nodes, joins and leaves, groups, reports.

pub(crate) mod group_fetches;
pub(crate) mod membership_calls;
pub(crate) mod node_registrations;
pub(crate) mod reports;
pub(crate) mod requests;
