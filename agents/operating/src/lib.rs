//! Operating agents: the part that the processes of a node talk to, many nodes behind one listener.
//!
//! Read [`App`] first, whose file draws the tasks, then `agent.rs`, which lists the subsystems, and
//! `nodes.rs`: each node has an `Oa` and a `GaHost` of `core/groups` and a message layer of
//! `core/messages`. The subsystems turn gRPC calls and timers into inputs of these state machines,
//! and their outputs into calls. All state is soft: the records are the TIC's.
//!
//! | module | job |
//! | --- | --- |
//! | `runtime` | tasks, channels to other processes, queues of calls |
//! | `nodes` | the state machines of all nodes behind one lock, with a clock |
//! | `tic` | calls to the TIC |
//! | `peers` | calls to operating and group agents of other processes |
//! | `links` | messages and operations of members |
//! | `processes` | sessions of attached processes |
//! | `fabric` | raw packets |
//! | `api` | the gRPC services; only they make a `tonic::Status` |

mod agent;
mod announcements;
mod api;
mod app;
mod collectives;
mod fabric;
mod links;
mod nodes;
mod peers;
mod processes;
mod programs;
mod runtime;
mod settings;
#[cfg(test)]
mod testing;
mod tic;

pub use app::{App, RunError, StartError};
pub use links::member_handle::{
    Ended, MemberError, MemberEvent, MemberEvents, MemberHandle, Messages,
};
pub use settings::LiveSettings;
