//! Calls to the operating and group agents of other processes.

pub(crate) mod member_registrations;
pub(crate) mod positions;
pub(crate) mod probes;
pub(crate) mod reports;
