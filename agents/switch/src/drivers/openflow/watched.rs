//! States of the ports of a switch, and of our mastership, as it tells them without being asked.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use fabricast_openflow::{Body, MultipartReply, PortChange, Reply, Role};
use parking_lot::Mutex;

/// States of the ports of a switch, and whether another controller has become its master.
#[derive(Debug, Default)]
pub(super) struct Watched {
    live: Mutex<BTreeSet<u32>>,
    /// Another controller has become the master.
    is_deposed: AtomicBool,
}

impl Watched {
    /// Follows a message. Returns true if a port may have changed.
    pub(super) fn follow(&self, body: &Body) -> bool {
        match body {
            Body::PortStatus(status) => {
                let is_live = status.port.is_live() && status.change != PortChange::Removed;
                let mut live = self.live.lock();
                if is_live {
                    live.insert(status.port.number)
                } else {
                    live.remove(&status.port.number)
                }
            }
            Body::MultipartReply(MultipartReply { reply: Reply::Ports(ports), .. }) => {
                let mut live = self.live.lock();
                for port in ports {
                    if port.is_live() {
                        live.insert(port.number);
                    } else {
                        live.remove(&port.number);
                    }
                }
                true
            }
            Body::RoleStatus(status) => {
                self.is_deposed.store(status.role == Role::Slave, Ordering::Release);
                false
            }
            _ => false,
        }
    }

    pub(super) fn is_live(&self, port: u32) -> bool {
        self.live.lock().contains(&port)
    }

    /// True if another controller has become the master since it was last asked.
    pub(super) fn take_deposed(&self) -> bool {
        self.is_deposed.swap(false, Ordering::AcqRel)
    }
}
