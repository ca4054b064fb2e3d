//! Checks the state that a step may have changed: packets of every sender by every route it may
//! use, and the tables once they match the plan.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::Gn;
use fabricast_groups::record::{GroupRecord, MemberRecord, Route, RouteState};
use fabricast_topology::{EndpointId, Graph, SplitMix};

use super::{RouteWorld, SimRouter, Stream};
use crate::invariants::{r1, r2, r3, r4, r5};
use crate::routing::agent::SimAgent;
use crate::routing::scenario::RouteParty;
use crate::routing::senders::member_key;
use crate::routing::witness::{Walk, colors, endpoint_of};

/// Packets of one sender by one route.
struct Sending {
    gn: Gn,
    from: EndpointId,
    colors: Vec<u16>,
    expected: BTreeSet<EndpointId>,
    /// True if the route is the group's newest and the sender knows it.
    newest: bool,
}

impl Sending {
    /// Returns `None` if the route does not serve the sender or any other member.
    fn new(
        graph: &Graph,
        sender: &MemberRecord,
        members: &[&MemberRecord],
        route: &Route,
        newest: bool,
    ) -> Option<Self> {
        route.colors_for(sender)?;
        let from = endpoint_of(graph, sender);
        let served = members.iter().filter(|member| route.colors_for(member).is_some());
        let others = served.map(|member| endpoint_of(graph, member)).filter(|at| *at != from);
        let expected: BTreeSet<EndpointId> = others.collect();
        let colors = colors(route.state);
        (!expected.is_empty()).then_some(Self { gn: sender.gn, from, colors, expected, newest })
    }
}

/// Checks R1, R2 and R5 where something has changed, and R4 once the tables match the plan.
pub(super) fn check(world: &mut RouteWorld) {
    let news = std::mem::take(&mut world.witness.news);
    world.witness.news.unsettled = news.unsettled;
    if news.all || !news.colors.is_empty() || !news.groups.is_empty() {
        let sendings = sendings(world);
        let mut dirty = news.colors;
        for sending in &sendings {
            if news.all || news.groups.contains(&sending.gn) {
                dirty.extend(&sending.colors);
            }
        }
        check_packets(world, &sendings, &dirty);
    }
    if world.witness.news.unsettled && is_in_place(world) {
        r4::tables_agree(&world.witness);
        world.witness.settled(&world.tic.directory);
    }
}

fn check_packets(world: &mut RouteWorld, sendings: &[Sending], dirty: &BTreeSet<u16>) {
    let mut users = r1::Users::default();
    let mut walks: BTreeMap<(EndpointId, u16), Walk> = BTreeMap::new();
    let mut doubtful: BTreeSet<Gn> = BTreeSet::new();
    for sending in sendings {
        if !sending.colors.iter().any(|color| dirty.contains(color)) {
            doubtful.insert(sending.gn);
            continue;
        }
        let mut ways = Vec::new();
        for color in &sending.colors {
            let walk = walks.entry((sending.from, *color));
            let walk = walk.or_insert_with(|| world.witness.walk(sending.from, *color));
            if walk.hit {
                world.witness.hurt.insert(sending.gn);
            }
            users.note(&world.witness, sending.gn, walk);
            r2::holds(&world.witness, sending.gn, sending.from, walk);
            ways.push(walk.clone());
        }
        let served = r5::holds(&world.witness, sending.gn, sending.from, &sending.expected, &ways);
        if !served || !sending.newest {
            doubtful.insert(sending.gn);
        }
    }
    // The TIC does not know the present plan of these groups, so their old entries may belong to
    // other groups.
    let groups = world.tic.directory.groups_from(Gn(0));
    let untold = groups.filter(|group| !world.witness.is_told(group)).map(|group| group.gn);
    doubtful.extend(untold);
    world.witness.hurt.retain(|gn| doubtful.contains(gn));
}

/// Returns all packets that may be sent now: by the route that a sender knows, and by the newest.
fn sendings(world: &RouteWorld) -> Vec<Sending> {
    let mut sendings = Vec::new();
    for group in world.tic.directory.groups_from(Gn(0)) {
        let members: Vec<_> = world.tic.directory.members(group.gn).collect();
        for member in &members {
            let newest = group.route.as_ref();
            let told = world.senders.route(member_key(member));
            let old = told.filter(|told| Some(*told) != newest);
            let routes = newest.map(|route| (route, old.is_none()));
            let routes = routes.into_iter().chain(old.map(|route| (route, false)));
            sendings.extend(routes.filter_map(|(route, newest)| {
                Sending::new(&world.graph, member, &members, route, newest)
            }));
        }
    }
    sendings
}

/// Returns whether the switches hold the plan, the TIC and all senders know it, and no message is
/// in flight.
fn is_in_place(world: &RouteWorld) -> bool {
    world.under_way == 0
        && world.agents.iter().flatten().all(SimAgent::is_idle)
        && world.waiting.values().all(Vec::is_empty)
        && !world.tic.watches.is_empty()
        && world.routers.iter().enumerate().all(|(at, router)| is_up_to_date(world, at, router))
        && world.witness.rows == world.witness.desired
        && world
            .tic
            .directory
            .groups_from(Gn(0))
            .all(|group| world.witness.is_told(group) && has_been_heard(world, group))
}

/// Returns whether every member knows the newest route, so that later deliveries are older.
fn has_been_heard(world: &RouteWorld, group: &GroupRecord) -> bool {
    let mut members = world.tic.directory.members(group.gn);
    members.all(|member| {
        let knows = world.senders.route(member_key(member)) == group.route.as_ref();
        knows && world.senders.is_up_to_date(member_key(member))
    })
}

/// Returns whether a route service has processed everything that the TIC has published.
fn is_up_to_date(world: &RouteWorld, at: usize, router: &Option<SimRouter>) -> bool {
    let Some(router) = router.as_ref().filter(|router| !router.waits) else { return true };
    let mut watches = world.tic.watches.iter();
    let watches = watches.any(|key| {
        let has_taken = |one: &Stream| one.seen == world.tic.published && one.reader.is_some();
        (key.router, key.incarnation) == (at, router.incarnation)
            && router.streams.get(&key.watch).is_some_and(has_taken)
    });
    watches && router.turn.is_empty() && !world.frozen.contains(&RouteParty::Router(at))
}

/// Checks after the healing that the tables are the plan, and that every group is routed or has a
/// reason.
pub(crate) fn check_settled(world: &RouteWorld, seed: u64) {
    r3::holds(&world.witness, &world.tic.directory, &mut SplitMix::new(seed));
    assert!(!world.witness.news.unsettled, "R4: the tables do not match the plan");
    let hurt = &world.witness.hurt;
    assert!(hurt.is_empty(), "R2: groups {hurt:?} are not served again");
    for group in world.tic.directory.groups_from(Gn(0)) {
        let (gn, route) = (group.gn, group.route.as_ref());
        let route = route.unwrap_or_else(|| panic!("R2: group {gn} has no route"));
        assert_eq!(route.revision, group.members_revision, "R2: group {gn} is behind");
        let says_why = route.state != RouteState::UnicastOnly || !route.reason.is_empty();
        assert!(says_why, "R2: group {gn} is not routed and has no reason");
        for member in world.tic.directory.members(gn) {
            let told = world.senders.route(member_key(member));
            assert_eq!(told, Some(route), "R2: a member of group {gn} does not know its route");
        }
    }
}
