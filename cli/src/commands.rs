//! The verbs, one file per noun.

pub(crate) mod certs;
pub(crate) mod collective;
pub(crate) mod debug;
mod dry_run;
pub(crate) mod eval;
pub(crate) mod fabric;
pub(crate) mod group;
pub(crate) mod health;
pub(crate) mod job;
pub(crate) mod node;
pub(crate) mod plan;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod switch;
pub(crate) mod topology;
