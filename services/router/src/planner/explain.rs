//! Why a group is routed as it is: the answer to `route explain`.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use fabricast_routing::Mgid;
use fabricast_topology::{Peer, PortId};

use crate::mirror::Mirror;
use crate::planner::Planner;

impl Planner {
    /// Explains the route of a group; `None` if there is no such group.
    pub(crate) fn explain(&self, mirror: &Mirror, name: &str) -> Option<v1::RouteExplanation> {
        let (gn, group) = mirror.find(name)?;
        let plan = self.engine.plan();
        let mgid = Mgid(group.mgid);
        let mut explanation = v1::RouteExplanation {
            group: name.to_owned(),
            mgid: group.mgid,
            home_spanning_tree: plan.home(mgid).unwrap_or_default(),
            reason: self.reason(mgid),
            ..Default::default()
        };
        let routed = plan.group(mgid).filter(|_| self.planned.contains_key(&gn));
        let shared = plan.virtual_group_of(mgid);
        let (Some(routed), Some(shared)) = (routed, shared) else {
            explanation.reason = self.refusal(gn, group);
            return Some(explanation);
        };
        explanation.color = plan.sender_colors(mgid).first().map(|color| u32::from(*color));
        if !routed.has_tree() {
            explanation.reason = self.route(gn, group).reason;
        }
        explanation.spanning_tree = Some(routed.part);
        explanation.virtual_group = Some(routed.virtual_group.0);
        explanation.cut_off_endpoints = self.cut_off(&routed);
        let names = names_by_mgid(mirror);
        let others = shared.groups.iter().filter(|other| **other != mgid);
        explanation.shares_with =
            others.filter_map(|other| names.get(&other.0)).map(|name| (*name).clone()).collect();
        for tree in plan.virtual_group_trees(mgid) {
            let links = tree.ports.iter().filter_map(|port| self.link(*port, tree.tree));
            explanation.links.extend(links);
        }
        let own = self.engine.group_trees(mgid);
        let root = own.first().map(|tree| self.graph.switch_name(tree.root).to_owned());
        explanation.root = root.unwrap_or_default();
        Some(explanation)
    }

    /// One end of a link of a tree; links between switches are told once, from the smaller port, those of
    /// endpoints with the first tree.
    fn link(&self, port: PortId, tree: u8) -> Option<v1::TreeLink> {
        let graph = &self.graph;
        let switch_name = graph.switch_name(graph.switch_of(port)).to_owned();
        let (peer, peer_port) = match graph.peer(port) {
            Peer::Endpoint(endpoint) if tree == 0 => (graph.endpoint_name(endpoint), 0),
            Peer::Switch(other) if port < other => {
                (graph.switch_name(graph.switch_of(other)), u32::from(graph.port_number(other)))
            }
            Peer::Endpoint(_) | Peer::Switch(_) | Peer::None => return None,
        };
        let port = u32::from(graph.port_number(port));
        let tree = u32::from(tree);
        Some(v1::TreeLink { switch_name, port, peer: peer.to_owned(), peer_port, tree })
    }
}

fn names_by_mgid(mirror: &Mirror) -> BTreeMap<u32, &String> {
    mirror.groups.values().map(|group| (group.mgid, &group.name)).collect()
}
