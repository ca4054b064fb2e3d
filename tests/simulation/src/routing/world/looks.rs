//! Looks at what a step may have changed: packets of every sender by every route it may use, and whether
//! everything is in place.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::Gn;
use fabricast_groups::record::{GroupRecord, MemberRecord, Route, RouteState};
use fabricast_topology::{EndpointId, Graph, SplitMix};

use super::{SimRouter, Stream, World};
use crate::invariants::{r1, r2, r3, r4, r5};
use crate::routing::agent::SimAgent;
use crate::routing::scenario::RouteParty;
use crate::routing::senders::seat;
use crate::routing::witness::{Walk, colors, endpoint_of};

/// What one sender does with one route.
struct Sending {
    gn: Gn,
    from: EndpointId,
    colors: Vec<u16>,
    expected: BTreeSet<EndpointId>,
    /// It is the newest route of the group, and the sender has been told.
    newest: bool,
}

impl Sending {
    /// None if the sender, or everybody else, is not served by the route.
    fn new(
        graph: &Graph,
        (sender, members): (&MemberRecord, &[&MemberRecord]),
        (route, newest): (&Route, bool),
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

impl World {
    /// Checks R1, R2 and R5 where something has changed, and R4 when everything has come to its place.
    pub(super) fn look(&mut self) {
        let news = std::mem::take(&mut self.witness.news);
        self.witness.news.unsettled = news.unsettled;
        if news.all || !news.colors.is_empty() || !news.groups.is_empty() {
            let sendings = self.sendings();
            let mut dirty = news.colors;
            for sending in &sendings {
                if news.all || news.groups.contains(&sending.gn) {
                    dirty.extend(&sending.colors);
                }
            }
            self.look_at(&sendings, &dirty);
        }
        if self.witness.news.unsettled && self.is_in_place() {
            r4::tables_agree(&self.witness);
            self.witness.settled(&self.tic.directory);
        }
    }

    fn look_at(&mut self, sendings: &[Sending], dirty: &BTreeSet<u16>) {
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
                let walk = walk.or_insert_with(|| self.witness.walk(sending.from, *color));
                if walk.hit {
                    self.witness.hurt.insert(sending.gn);
                }
                users.note(&self.witness, sending.gn, walk);
                r2::holds(&self.witness, sending.gn, sending.from, walk);
                ways.push(walk.clone());
            }
            let ends = (sending.gn, sending.from);
            let served = r5::holds(&self.witness, ends, &sending.expected, &ways);
            if !served || !sending.newest {
                doubtful.insert(sending.gn);
            }
        }
        // Its entries may be somebody else's before it is told so.
        let groups = self.tic.directory.groups_from(Gn(0));
        let untold = groups.filter(|group| !self.witness.is_told(group)).map(|group| group.gn);
        doubtful.extend(untold);
        self.witness.hurt.retain(|gn| doubtful.contains(gn));
    }

    /// Everything that may be sent now: by the route that a sender was told, and by the newest.
    fn sendings(&self) -> Vec<Sending> {
        let mut sendings = Vec::new();
        for group in self.tic.directory.groups_from(Gn(0)) {
            let members: Vec<_> = self.tic.directory.members(group.gn).collect();
            for member in &members {
                let newest = group.route.as_ref();
                let told = self.senders.route(seat(member));
                let old = told.filter(|told| Some(*told) != newest);
                let routes = newest.map(|route| (route, old.is_none()));
                let routes = routes.into_iter().chain(old.map(|route| (route, false)));
                let ends = (*member, &members[..]);
                sendings.extend(routes.filter_map(|route| Sending::new(&self.graph, ends, route)));
            }
        }
        sendings
    }

    /// Whether the switches hold the plan, it has been told, everybody has heard everything, and nothing is on its way.
    fn is_in_place(&self) -> bool {
        self.under_way == 0
            && self.agents.iter().flatten().all(SimAgent::is_idle)
            && self.waiting.values().all(Vec::is_empty)
            && !self.tic.watches.is_empty()
            && self.routers.iter().enumerate().all(|(at, router)| self.is_up_to_date(at, router))
            && self.witness.rows == self.witness.desired
            && self
                .tic
                .directory
                .groups_from(Gn(0))
                .all(|group| self.witness.is_told(group) && self.has_been_heard(group))
    }

    /// Whether every member has heard of the newest route: whatever it hears after that is old, and no news to it.
    fn has_been_heard(&self, group: &GroupRecord) -> bool {
        let mut members = self.tic.directory.members(group.gn);
        members.all(|member| {
            let knows = self.senders.route(seat(member)) == group.route.as_ref();
            knows && self.senders.is_up_to_date(seat(member))
        })
    }

    /// Whether a route service has nothing to do, or does it with all that the TIC has said.
    fn is_up_to_date(&self, at: usize, router: &Option<SimRouter>) -> bool {
        let Some(router) = router.as_ref().filter(|router| !router.waits) else { return true };
        let mut watches = self.tic.watches.iter();
        let watches = watches.any(|(by, life, watch)| {
            let has_taken = |one: &Stream| one.seen == self.tic.published && one.reader.is_some();
            (*by, *life) == (at, router.life) && router.streams.get(watch).is_some_and(has_taken)
        });
        watches && router.turn.is_empty() && !self.frozen.contains(&RouteParty::Router(at))
    }

    /// After healing: the tables are the plan, and every group is routed or says why not.
    pub(crate) fn is_settled(&self, seed: u64) {
        r3::holds(&self.witness, &self.tic.directory, &mut SplitMix::new(seed));
        assert!(!self.witness.news.unsettled, "R4: not everything has come to its place");
        let hurt = &self.witness.hurt;
        assert!(hurt.is_empty(), "R2: groups {hurt:?} are not served again");
        for group in self.tic.directory.groups_from(Gn(0)) {
            let (gn, route) = (group.gn, group.route.as_ref());
            let route = route.unwrap_or_else(|| panic!("R2: nobody says how group {gn} is routed"));
            assert_eq!(route.revision, group.members_revision, "R2: group {gn} is behind");
            let says_why = route.state != RouteState::UnicastOnly || !route.reason.is_empty();
            assert!(says_why, "R2: nobody says why group {gn} is not routed");
            for member in self.tic.directory.members(gn) {
                let told = self.senders.route(seat(member));
                assert_eq!(told, Some(route), "R2: a member of group {gn} has not heard of it");
            }
        }
    }
}
