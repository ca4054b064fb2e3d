//! Places jobs on nodes so that no two of them share a link.
//!
//! Source: C-MR4LMS, "Job placement without interference" (rules 1 to 7, theorem 4). The real
//! number of nodes of a leaf, midplane and block takes the place of the paper's powers of m. Read
//! [`JobAllocator`] first; [`JobTopology`] describes the fabric to it. A job's *class* is the kind
//! of unit that holds it:
//!
//! | class | lies in one | shares with others |
//! | --- | --- | --- |
//! | T0 | leaf switch | leaves |
//! | T1 | compute midplane | midplanes; its leaves with T0 jobs only (rule 5) |
//! | T2 | block | blocks; its midplanes with smaller classes only (rule 6) |
//! | T3 | fabric | its blocks with smaller classes only (rule 7) |
//!
//! A tree with fewer levels lacks the last classes. A job's trees, and all shortest paths between
//! its nodes, stay below the unit that holds it. Two jobs that keep these rules therefore share no
//! link, and each can use every spanning tree of the fabric alone.
//!
//! Invariants
//! - JOB-1: jobs placed by [`JobAllocator::allocate`] or [`JobAllocator::reserve`] share no link.
//! - JOB-2: the free nodes, and the nodes that would be chosen, depend on the present jobs only,
//!   not on the order in which they came.
//!
//! [`share::ShareLedger`] decides how many multicast groups a job may form.
#![warn(clippy::wildcard_enum_match_arm)]

mod allocator;
pub mod hostlist;
mod job;
mod refusal;
pub mod share;
pub mod slurm;
mod topology;

pub use allocator::{ClassCapacity, JobAllocator, JobReport, Move};
pub use job::{Job, JobClass, JobId, Spread};
pub use refusal::{Held, JobNames, JobRefusal, NoRoom};
pub use topology::{JobTopology, LeftOut};
