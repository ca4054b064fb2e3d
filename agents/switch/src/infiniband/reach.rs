//! The ways to a switch: along a directed route, or by its LID where that is wanted and leads there.
//!
//! A subnet manager gives LIDs, and may give one to another switch at any time. So no exchange relies on a LID before
//! the switch behind it has said who it is, and what nobody answers by LID is asked again along the directed
//! route, which a broken unicast table does not break.

use std::collections::BTreeMap;

use fabricast_infiniband::{
    Attribute, Data, Method, Node, NodeInfo, NodeType, PortInfo, Route, Smp,
};

use super::wire::{Answer, Wire, WireError};

/// Switches that are tried by LID at once; where none of so many answers, no unicast table leads to any.
const TRIED: usize = 32;

/// What switches are asked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Directed routes, which need no subnet manager.
    #[default]
    Directed,
    /// LIDs, where a switch has one and answers by it; else directed routes.
    Lid,
}

/// What a switch is asked.
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

    fn by(self, route: Route, key: u64) -> Smp {
        let Self { method, attribute, modifier, data } = self;
        Smp { method, attribute, modifier, transaction: 0, key, route, data }
    }
}

/// A switch for the time of one exchange.
#[derive(Debug)]
pub(super) struct Reach<'a> {
    wire: &'a Wire,
    node: &'a Node,
    key: u64,
    lid: Option<u16>,
}

impl<'a> Reach<'a> {
    /// Takes the way by LID if the switch still answers by it.
    pub(super) async fn to(wire: &'a Wire, node: &'a Node, lid: Option<u16>, key: u64) -> Self {
        let mut reach = Self { wire, node, key, lid: None };
        if let Some(lid) = lid
            && answers_by(wire, &[(node, lid)], key).await == [true]
        {
            reach.lid = Some(lid);
        }
        reach
    }

    pub(super) fn node(&self) -> &'a Node {
        self.node
    }

    /// Asks all at once; the answers come in the order of the requests.
    pub(super) async fn ask(&mut self, requests: &[Request]) -> Vec<Answer> {
        let Some(lid) = self.lid else { return self.ask_directed(requests).await };
        let by_lid = requests.iter().map(|one| one.by(Route::Lid(lid), self.key));
        let mut answers = self.wire.ask(by_lid.collect::<Vec<_>>()).await;
        let is_lost = |at: &usize| answers[*at] == Err(WireError::NoAnswer);
        let lost: Vec<usize> = (0..answers.len()).filter(is_lost).collect();
        if lost.is_empty() {
            return answers;
        }
        self.lid = None; // the rest need not wait for nothing too
        let again: Vec<Request> = lost.iter().map(|at| requests[*at]).collect();
        for (at, answer) in lost.into_iter().zip(self.ask_directed(&again).await) {
            answers[at] = answer;
        }
        answers
    }

    async fn ask_directed(&self, requests: &[Request]) -> Vec<Answer> {
        let route = || Route::Directed(self.node.path.clone());
        let packets = requests.iter().map(|one| one.by(route(), self.key));
        self.wire.ask(packets.collect::<Vec<_>>()).await
    }
}

/// Asks switches along directed routes for their LIDs: 0 where none was given, none where nobody answers.
pub(super) async fn lids(wire: &Wire, nodes: &[&Node], key: u64) -> Vec<Option<u16>> {
    let question = Request::get(Attribute::PortInfo, 0);
    let ask = |node: &&Node| question.by(Route::Directed(node.path.clone()), key);
    let answers = wire.ask(nodes.iter().map(ask).collect::<Vec<_>>()).await;
    let lid = |answer: Result<_, _>| Some(PortInfo::read(&answer.ok()?).ok()?.lid);
    answers.into_iter().map(lid).collect()
}

/// Finds the switches that answer by LID: LIDs by GUID.
pub(super) async fn addressed(wire: &Wire, nodes: &[&Node], key: u64) -> BTreeMap<u64, u16> {
    let lids = lids(wire, nodes, key).await;
    let given = nodes.iter().zip(lids).filter_map(|(node, lid)| Some((*node, lid?)));
    let given: Vec<(&Node, u16)> = given.filter(|(_, lid)| *lid > 0).collect();
    let mut found = BTreeMap::new();
    for some in given.chunks(TRIED) {
        let answers = answers_by(wire, some, key).await;
        if !answers.contains(&true) {
            break;
        }
        let there = some.iter().zip(answers).filter(|(_, is_there)| *is_there);
        found.extend(there.map(|((node, lid), _)| (node.info.guid, *lid)));
    }
    found
}

/// Whether the switch behind a LID is the one that is meant.
async fn answers_by(wire: &Wire, pairs: &[(&Node, u16)], key: u64) -> Vec<bool> {
    let question = Request::get(Attribute::NodeInfo, 0);
    let ask = |(_, lid): &(&Node, u16)| question.by(Route::Lid(*lid), key);
    let answers = wire.ask(pairs.iter().map(ask).collect::<Vec<_>>()).await;
    let is_meant = |((node, _), answer): (&(&Node, u16), Answer)| {
        let info = answer.ok().and_then(|data| NodeInfo::read(&data).ok());
        info.is_some_and(|info| info.kind == NodeType::Switch && info.guid == node.info.guid)
    };
    pairs.iter().zip(answers).map(is_meant).collect()
}
