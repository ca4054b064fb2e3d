//! Raw packets: from this process to the fabric, and from the fabric to the processes that listen.

pub(crate) mod listeners;
pub(crate) mod packets;
pub(crate) mod stream;
