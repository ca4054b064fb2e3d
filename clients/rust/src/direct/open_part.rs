//! The channels from the message layer of this process to a part of one of its members.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_groups::Pn;
use fabricast_messages::{Call, Outcome, Output, SendId};
use tokio::sync::{mpsc, oneshot, watch};

use crate::part_state::{End, Message, Seen};

/// The end of the channels of a [`DirectPart`](super::part::DirectPart) at the message layer.
#[derive(Debug)]
pub(super) struct OpenPart {
    pub(super) serial: u64,
    pub(super) seen: watch::Sender<Seen>,
    pub(super) messages: mpsc::UnboundedSender<Message>, // the layer's inbox bounds their number
    pub(super) sends: BTreeMap<SendId, oneshot::Sender<Vec<Pn>>>,
    pub(super) operation: Option<oneshot::Sender<(Call, Arc<Outcome>)>>,
}

impl OpenPart {
    pub(super) fn tell_roster(&self, roster: impl Iterator<Item = Pn>) {
        let participants = roster.map(|pn| pn.0).collect();
        self.seen.send_modify(|seen| seen.participants = participants);
    }

    /// Passes on what the layer has for the process.
    pub(super) fn take(&mut self, output: Output) {
        match output {
            Output::Deliver { from, payload, .. } => {
                // The receiver is dropped with the part, which closes the member.
                let _ = self.messages.send(Message { sender: from.0, payload });
            }
            Output::Acknowledged { id, missed, .. } => {
                if let Some(sender) = self.sends.remove(&id) {
                    let _ = sender.send(missed);
                }
            }
            Output::Ended { call, outcome, .. } => {
                if let Some(sender) = self.operation.take() {
                    let _ = sender.send((call, outcome));
                }
            }
            Output::Connect { .. }
            | Output::Disconnect { .. }
            | Output::Frame { .. }
            | Output::Multicast { .. }
            | Output::Room { .. }
            | Output::Roster { .. }
            | Output::Combine { .. }
            | Output::Withdraw { .. } => {}
        }
    }

    pub(super) fn end(self, end: End) {
        self.seen.send_modify(|seen| seen.end = Some(end));
    }
}
