//! Programs whose trees move: every bridge forgets an address before any leads it by a new tree.
//!
//! Bridges do not count hops, and an address has one set of ports in each. If some bridges led it
//! by the old tree and some by the new one, the two together could be a circle, in which packets
//! would go round and be delivered again and again.
//!
//! Invariants
//! - BRIDGE-1: at any time, the bridges of an agent that can be used lead an address of programs by
//!   parts of one tree.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::MutexGuard;
use tokio::time::sleep;

use super::switch::{BridgeSwitch, Programs};

/// Colors of the addresses of programs, and the bridges that lead them.
#[derive(Debug)]
pub(super) struct Moves {
    bridges: Vec<Arc<BridgeSwitch>>,
    /// Newest colors; `None` before any are known.
    newest: Mutex<Option<Programs>>,
    /// Colors by which bridges lead; they share it.
    led: Arc<Mutex<Option<Programs>>>,
    /// Colors that all bridges have confirmed. Locked while addresses move.
    settled: tokio::sync::Mutex<Option<Programs>>,
    /// Time in which the bridges of other agents forget, too.
    pause: Duration,
}

impl Moves {
    pub(super) fn new(
        bridges: Vec<Arc<BridgeSwitch>>,
        led: Arc<Mutex<Option<Programs>>>,
        pause: Duration,
    ) -> Self {
        Self { bridges, newest: Mutex::default(), led, settled: <_>::default(), pause }
    }

    /// Takes the newest colors.
    pub(super) async fn carry(&self, programs: Programs) {
        *self.newest.lock() = Some(programs);
        self.settle(self.settled.lock().await).await;
    }

    /// Tries again what has failed, unless somebody is at it.
    pub(super) async fn retry(&self) {
        if let Ok(settled) = self.settled.try_lock() {
            self.settle(settled).await;
        }
    }

    /// Has bridges lead by the newest colors. Moves that fail are left for the next call.
    async fn settle(&self, mut settled: MutexGuard<'_, Option<Programs>>) {
        let newest = self.newest.lock().clone();
        let Some(newest) = newest.filter(|newest| settled.as_ref() != Some(newest)) else { return };
        let Some(mut moving) = self.moving(&newest).await else { return };
        if let Some(before) = settled.as_ref().filter(|_| !self.pause.is_zero()) {
            // Bridges of other agents may have more of the old tree.
            let is_other = |(address, color): &(&Ipv4Addr, &u16)| {
                before.get(*address).is_some_and(|before| before != *color)
            };
            moving.extend(newest.iter().filter(is_other).map(|(address, _)| *address));
        }
        let mut led = newest.clone();
        led.retain(|address, _| !moving.contains(address));
        let will_be_led = led.len() < newest.len();
        *self.led.lock() = Some(led);
        if !self.align().await {
            return; // an address that one bridge still leads by the old tree is led by no other
        }
        if will_be_led {
            sleep(self.pause).await;
            *self.led.lock() = Some(newest.clone());
            if !self.align().await {
                return;
            }
        }
        *settled = Some(newest);
    }

    /// Addresses that some bridge leads by another tree; `None` if a bridge does not tell.
    async fn moving(&self, newest: &Programs) -> Option<BTreeSet<Ipv4Addr>> {
        let mut moving = BTreeSet::new();
        for bridge in &self.bridges {
            match bridge.moving(newest).await {
                Ok(addresses) => moving.extend(addresses),
                Err(problem) => {
                    let reason = problem.to_string();
                    tracing::warn!(switch = bridge.name, reason, "programs not led");
                    return None;
                }
            }
        }
        Some(moving)
    }

    /// Has all bridges do what is to be done now. Returns false if one of them could not.
    async fn align(&self) -> bool {
        let align = |bridge: &Arc<BridgeSwitch>| {
            let bridge = Arc::clone(bridge);
            tokio::spawn(async move {
                let aligned = bridge.align().await;
                if let Err(error) = &aligned {
                    let reason = error.to_string();
                    tracing::warn!(switch = bridge.name, reason, "programs not led");
                }
                aligned.is_ok()
            })
        };
        let mut is_done = true;
        for aligned in self.bridges.iter().map(align).collect::<Vec<_>>() {
            is_done &= aligned.await.unwrap_or(false);
        }
        is_done
    }
}
