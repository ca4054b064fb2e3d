//! Messages and operations of members: links between nodes, handles for processes, switches.

pub(crate) mod combining;
pub(crate) mod measurement;
pub(crate) mod member_handle;
pub(crate) mod streams;
