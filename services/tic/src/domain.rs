//! State that the writer keeps beside the directory of groups, and its rules.

pub(crate) mod choices;
pub(crate) mod collectives;
pub(crate) mod elements;
pub(crate) mod job_places;
pub(crate) mod jobs;
pub(crate) mod mgids;
pub(crate) mod route_terms;
pub(crate) mod shares;
pub(crate) mod topology;
