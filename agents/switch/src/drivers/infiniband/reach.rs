//! The two routes to a switch: directed, or by LID if that is configured and works.
//!
//! A subnet manager assigns LIDs, and may give one to another switch at any time. So a LID is used
//! only after the switch behind it has confirmed its identity. A request that gets no answer by LID
//! is repeated along the directed route, which works even if a unicast table is broken.

use std::collections::BTreeMap;

use fabricast_infiniband::{
    Attribute, Data, Method, Node, NodeInfo, NodeType, PortInfo, Route, Smp,
};

use super::packets::{Answer, PacketSender, RequestError};

/// Number of switches that are tried by LID at once. If none of them answers, the unicast tables
/// work for no switch, and no others are tried.
const LID_BATCH: usize = 32;

/// A request to a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) attribute: Attribute,
    pub(super) modifier: u32,
    pub(super) data: Data,
}

impl Request {
    /// Reads an attribute.
    pub(super) const fn get(attribute: Attribute, modifier: u32) -> Self {
        Self { method: Method::Get, attribute, modifier, data: [0; 64] }
    }

    fn along(self, route: Route, key: u64) -> Smp {
        let Self { method, attribute, modifier, data } = self;
        Smp { method, attribute, modifier, transaction: 0, key, route, data }
    }
}

/// A switch and the route to it, for one exchange of requests.
#[derive(Debug)]
pub(super) struct Reach<'a> {
    sender: &'a PacketSender,
    node: &'a Node,
    key: u64,
    lid: Option<u16>,
}

impl<'a> Reach<'a> {
    /// Uses the LID if the switch still answers by it.
    pub(super) async fn to(
        sender: &'a PacketSender,
        node: &'a Node,
        lid: Option<u16>,
        key: u64,
    ) -> Self {
        let mut reach = Self { sender, node, key, lid: None };
        if let Some(lid) = lid
            && is_behind_lid(sender, &[(node, lid)], key).await == [true]
        {
            reach.lid = Some(lid);
        }
        reach
    }

    pub(super) fn node(&self) -> &'a Node {
        self.node
    }

    /// Sends all requests at once; the answers are in the order of the requests.
    pub(super) async fn request(&mut self, requests: &[Request]) -> Vec<Answer> {
        let Some(lid) = self.lid else { return self.request_directed(requests).await };
        let by_lid = requests.iter().map(|one| one.along(Route::Lid(lid), self.key));
        let mut answers = self.sender.request(by_lid.collect::<Vec<_>>()).await;
        let is_lost = |at: &usize| answers[*at] == Err(RequestError::NoAnswer);
        let lost: Vec<usize> = (0..answers.len()).filter(is_lost).collect();
        if lost.is_empty() {
            return answers;
        }
        self.lid = None; // further requests would time out, too
        let again: Vec<Request> = lost.iter().map(|at| requests[*at]).collect();
        for (at, answer) in lost.into_iter().zip(self.request_directed(&again).await) {
            answers[at] = answer;
        }
        answers
    }

    async fn request_directed(&self, requests: &[Request]) -> Vec<Answer> {
        let route = || Route::Directed(self.node.path.clone());
        let packets = requests.iter().map(|one| one.along(route(), self.key));
        self.sender.request(packets.collect::<Vec<_>>()).await
    }
}

/// Reads the LIDs of switches along directed routes: 0 if a switch has none, `None` if it does not
/// answer.
pub(super) async fn lids(sender: &PacketSender, nodes: &[&Node], key: u64) -> Vec<Option<u16>> {
    let request = Request::get(Attribute::PortInfo, 0);
    let packet = |node: &&Node| request.along(Route::Directed(node.path.clone()), key);
    let answers = sender.request(nodes.iter().map(packet).collect::<Vec<_>>()).await;
    let lid = |answer: Result<_, _>| Some(PortInfo::read(&answer.ok()?).ok()?.lid);
    answers.into_iter().map(lid).collect()
}

/// Finds the switches that answer by LID. Returns their LIDs by GUID.
pub(super) async fn lids_that_work(
    sender: &PacketSender,
    nodes: &[&Node],
    key: u64,
) -> BTreeMap<u64, u16> {
    let lids = lids(sender, nodes, key).await;
    let assigned = nodes.iter().zip(lids).filter_map(|(node, lid)| Some((*node, lid?)));
    let assigned: Vec<(&Node, u16)> = assigned.filter(|(_, lid)| *lid > 0).collect();
    let mut found = BTreeMap::new();
    for batch in assigned.chunks(LID_BATCH) {
        let answers = is_behind_lid(sender, batch, key).await;
        if !answers.contains(&true) {
            break;
        }
        let there = batch.iter().zip(answers).filter(|(_, is_there)| *is_there);
        found.extend(there.map(|((node, lid), _)| (node.info.guid, *lid)));
    }
    found
}

/// For each switch, true if it is the one behind its LID.
async fn is_behind_lid(sender: &PacketSender, pairs: &[(&Node, u16)], key: u64) -> Vec<bool> {
    let request = Request::get(Attribute::NodeInfo, 0);
    let packet = |(_, lid): &(&Node, u16)| request.along(Route::Lid(*lid), key);
    let answers = sender.request(pairs.iter().map(packet).collect::<Vec<_>>()).await;
    let is_same = |((node, _), answer): (&(&Node, u16), Answer)| {
        let info = answer.ok().and_then(|data| NodeInfo::read(&data).ok());
        info.is_some_and(|info| info.kind == NodeType::Switch && info.guid == node.info.guid)
    };
    pairs.iter().zip(answers).map(is_same).collect()
}
