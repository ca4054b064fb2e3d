//! Carries out the actions of a scenario of routes.

use std::sync::Arc;
use std::time::Duration;

use fabricast_emulator::Component;
use fabricast_groups::Incarnation;
use fabricast_groups::command::{
    Command, DeleteGroup, FormGroup, FormGroups, FormMember, GroupMove, GroupSpec, Join, Joiner,
    Leave, RegisterNode,
};
use fabricast_groups::names::{Address, EndpointName, GroupName, NodeName, ProcessName, RequestId};
use fabricast_topology::{EndpointId, Mgid, SwitchId};

use super::{Event, RESTART, RouteWorld, checks};
use crate::routing::scenario::{RouteAction, RouteParty};

/// Registers one node per endpoint.
pub(super) fn register_nodes(world: &mut RouteWorld) {
    let graph = world.witness.graph.clone();
    for endpoint in graph.endpoints() {
        let endpoint = graph.endpoint_name(endpoint);
        let command = Command::RegisterNode(RegisterNode {
            name: NodeName::new(endpoint).expect("a good name"),
            address: Address::new(endpoint).expect("a good address"),
            endpoints: vec![EndpointName::new(endpoint).expect("a good name")],
            start_id: 1,
            voucher_key: None,
        });
        world.decide(&command).expect("nodes are welcome");
    }
}

pub(crate) fn apply(world: &mut RouteWorld, action: RouteAction) {
    match action {
        RouteAction::Join { endpoint, group, process } => {
            let member = joiner(world, endpoint, process);
            let request_id = request_id(world);
            submit(world, &Command::Join(Join { request_id, group: spec(group), member }));
        }
        RouteAction::Leave { endpoint, group, process } => {
            let Joiner { node, incarnation, process, .. } = joiner(world, endpoint, process);
            let (request_id, group) = (request_id(world), spec(group).name);
            let leave = Leave { request_id, group, node, incarnation, process };
            submit(world, &Command::Leave(leave));
        }
        RouteAction::Form { group, first, step, count } => {
            let members = (0..count).map(|at| joiner(world, first + at * step, at));
            let members = members.map(FormMember::from).collect();
            let groups = vec![FormGroup { group: spec(group), members }];
            let request_id = request_id(world);
            submit(world, &Command::FormGroups(Arc::new(FormGroups { request_id, groups })));
        }
        RouteAction::Delete { group } => {
            let (request_id, group) = (request_id(world), spec(group).name);
            submit(
                world,
                &Command::DeleteGroup(DeleteGroup {
                    request_id,
                    group,
                    gn: None,
                    most: usize::MAX,
                }),
            );
        }
        RouteAction::Move { group, to } => {
            let directory = &world.tic.directory;
            let group = directory.find_group(&spec(group).name);
            if let Some(group) = group.and_then(|gn| directory.group(gn)) {
                let one = GroupMove { gn: group.gn, from: group.home(), to: Mgid(to) };
                submit(world, &Command::MoveGroups(vec![one]));
            }
        }
        RouteAction::Link { link, broken } => {
            let link = world.links[link as usize % world.links.len()];
            world.damage(Component::Link(link), broken);
        }
        RouteAction::Switch { switch, off } => {
            let count = u32::try_from(world.graph.switch_count()).expect("a few");
            world.damage(Component::Switch(SwitchId(switch % count)), off);
        }
        RouteAction::BreakWatch { router } => {
            let watches = world.tic.watches.clone();
            for key in watches.into_iter().filter(|key| key.router == router) {
                world.break_watch(key);
            }
        }
        RouteAction::Kill { who } => kill(world, who),
        RouteAction::Freeze { who, stop: true } => drop(world.frozen.insert(who)),
        RouteAction::Freeze { who, stop: false } => thaw(world, who),
        RouteAction::Cut { from, to, cut: true } => drop(world.cut.insert((from, to))),
        RouteAction::Cut { from, to, cut: false } => drop(world.cut.remove(&(from, to))),
        RouteAction::SlowSwitches { delay } => world.switch_delay = delay,
        RouteAction::FailSwitchRequests { count, done } => world.failing_requests = (count, done),
    }
    checks::check(world);
}

fn kill(world: &mut RouteWorld, who: RouteParty) {
    world.frozen.remove(&who);
    match who {
        RouteParty::Router(at) => {
            world.routers[at] = None;
            world.tic.watches.retain(|key| key.router != at);
        }
        RouteParty::Agent(at) => {
            world.agents[at] = None;
            world.waiting.remove(&at);
        }
        RouteParty::Tic => {
            world.tic_is_down = true;
            for key in world.tic.watches.clone() {
                world.break_watch(key);
            }
        }
    }
    world.enqueue(RESTART, Event::Start(who));
}

/// Resumes a frozen process with the calls that arrived meanwhile.
fn thaw(world: &mut RouteWorld, who: RouteParty) {
    if !world.frozen.remove(&who) {
        return;
    }
    match who {
        RouteParty::Router(at) => world.resume(at),
        RouteParty::Agent(at) => {
            for (caller, request) in world.waiting.remove(&at).unwrap_or_default() {
                if let Some(agent) = &mut world.agents[at] {
                    agent.serve(caller, request);
                }
            }
            world.resume_agent(at);
        }
        RouteParty::Tic => {}
    }
}

/// Heals all faults; killed processes are about to start again.
pub(crate) fn heal(world: &mut RouteWorld) {
    (world.delay, world.loss_percent) = (Duration::from_millis(3), 0);
    (world.switch_delay, world.failing_requests) = (Duration::from_millis(2), (0, false));
    world.cut.clear();
    for who in world.frozen.clone() {
        thaw(world, who);
    }
    for switch in world.graph.switches() {
        world.damage(Component::Switch(switch), false);
    }
    for link in world.links.clone() {
        world.damage(Component::Link(link), false);
    }
}

/// Submits a command; a refusal changes nothing.
fn submit(world: &mut RouteWorld, command: &Command) {
    if !world.tic_is_down {
        let _ = world.decide(command);
    }
}

fn request_id(world: &mut RouteWorld) -> RequestId {
    world.requests += 1;
    RequestId::new(&format!("r{}", world.requests)).expect("a good name")
}

fn joiner(world: &RouteWorld, endpoint: u32, process: u32) -> Joiner {
    let count = u32::try_from(world.graph.endpoint_count()).expect("a few");
    let name = world.graph.endpoint_name(EndpointId(endpoint % count));
    Joiner {
        node: NodeName::new(name).expect("a good name"),
        incarnation: Incarnation(1),
        endpoint: EndpointName::new(name).expect("a good name"),
        process: ProcessName::new(&format!("p{process}")).expect("a good name"),
        sends_only: false,
    }
}

fn spec(group: u32) -> GroupSpec {
    let name = GroupName::new(&format!("g{group}")).expect("a good name");
    GroupSpec { persistent: group == 0, ..GroupSpec::new(name) }
}
