//! States of the ports of a switch, and of our mastership, as it tells them without being asked.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use fabricast_openflow::{Body, MultipartReply, PortChange, Reply, Role};
use parking_lot::Mutex;

/// Largest number of a port that tables can name.
const LAST_PORT: u32 = 254;

/// States of the ports of a switch, and whether another controller has become its master.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Ports by number; true for those by which packets can cross.
    ports: Mutex<BTreeMap<u32, bool>>,
    /// Another controller has become the master.
    is_deposed: AtomicBool,
    datapath: OnceLock<u64>,
}

impl Watched {
    /// Follows a message. Returns true if a port may have changed.
    pub(super) fn follow(&self, body: &Body) -> bool {
        match body {
            Body::PortStatus(status) => {
                let (number, is_removed) =
                    (status.port.number, status.change == PortChange::Removed);
                let is_live = status.port.is_live() && !is_removed;
                let mut ports = self.ports.lock();
                let before = match is_removed {
                    true => ports.remove(&number),
                    false => ports.insert(number, is_live),
                };
                before.unwrap_or(false) != is_live
            }
            Body::MultipartReply(MultipartReply { reply: Reply::Ports(ports), .. }) => {
                let states = ports.iter().map(|port| (port.number, port.is_live()));
                self.ports.lock().extend(states);
                true
            }
            Body::RoleStatus(status) => {
                self.is_deposed.store(status.role == Role::Slave, Ordering::Release);
                false
            }
            Body::FeaturesReply(features) => {
                let _ = self.datapath.set(features.datapath);
                false
            }
            _ => false,
        }
    }

    pub(super) fn is_live(&self, port: u32) -> bool {
        self.ports.lock().get(&port).is_some_and(|is_live| *is_live)
    }

    /// Numbers of the ports by which packets can cross.
    pub(super) fn live_ports(&self) -> Vec<u8> {
        let ports = self.ports.lock();
        let live = ports.range(1..=LAST_PORT).filter(|(_, is_live)| **is_live);
        live.filter_map(|(number, _)| u8::try_from(*number).ok()).collect()
    }

    /// Largest number of a port; 0 if there are none.
    pub(super) fn last_port(&self) -> u8 {
        let ports = self.ports.lock();
        let last = ports.range(1..=LAST_PORT).next_back();
        last.and_then(|(number, _)| u8::try_from(*number).ok()).unwrap_or(0)
    }

    /// Datapath id of the switch, once it has told it.
    pub(super) fn datapath(&self) -> Option<u64> {
        self.datapath.get().copied()
    }

    /// True if another controller has become the master since it was last asked.
    pub(super) fn take_deposed(&self) -> bool {
        self.is_deposed.swap(false, Ordering::AcqRel)
    }
}
