//! Scenarios of route services: the fabric, the parties, and every action with its moment.

use std::fmt;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_topology::{SplitMix, TableKind};

use crate::routing::tic::MGIDS;
use crate::scenario::{FaultProfile, STORM_BEGINS, STORM_ENDS};

/// A party that can be killed, frozen or cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteParty {
    /// A route service.
    Router(usize),
    /// A switch agent.
    Agent(usize),
    /// The TIC, which never loses its records.
    Tic,
}

impl fmt::Display for RouteParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Router(at) => write!(f, "route service {at}"),
            Self::Agent(at) => write!(f, "switch agent {at}"),
            Self::Tic => f.write_str("the TIC"),
        }
    }
}

/// An action of a user, an operator or a fault. Indices wrap around at the end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAction {
    /// A process joins a group.
    Join {
        /// Index of the endpoint.
        endpoint: u32,
        /// The number in the group's name.
        group: u32,
        /// The number in the process's name.
        process: u32,
    },
    /// A process leaves a group.
    Leave {
        /// Index of the endpoint.
        endpoint: u32,
        /// Number in the group's name.
        group: u32,
        /// Number in the process's name.
        process: u32,
    },
    /// A launcher forms a group of some endpoints.
    Form {
        /// Number in the group's name.
        group: u32,
        /// Number of the first endpoint.
        first: u32,
        /// Distance from one endpoint to the next.
        step: u32,
        /// Number of endpoints.
        count: u32,
    },
    /// An operator deletes a group.
    Delete {
        /// Number in the group's name.
        group: u32,
    },
    /// The TIC moves a group to another spanning tree, if its MGID is free.
    Move {
        /// Number in the group's name.
        group: u32,
        /// MGID of the spanning tree.
        to: u32,
    },
    /// A link between switches fails or is repaired.
    Link {
        /// Index of the link.
        link: u32,
        /// True if it fails.
        broken: bool,
    },
    /// A switch loses power, and with it its table, or is switched on.
    Switch {
        /// Index of the switch.
        switch: u32,
        /// True if it loses power.
        off: bool,
    },
    /// A process is killed; a new one without state replaces it after a while.
    Kill {
        /// Process that is killed.
        who: RouteParty,
    },
    /// A process freezes or resumes, unaware that time has passed.
    Freeze {
        /// Process that freezes or resumes.
        who: RouteParty,
        /// True to freeze it.
        stop: bool,
    },
    /// Messages from one process to another are dropped, or delivered again.
    Cut {
        /// Process whose messages are dropped.
        from: RouteParty,
        /// Process that does not get them.
        to: RouteParty,
        /// True to drop messages.
        cut: bool,
    },
    /// The watch of a route service breaks.
    BreakWatch {
        /// Index of the route service.
        router: usize,
    },
    /// Every request to a switch takes up to this long.
    SlowSwitches {
        /// Maximum time per request.
        delay: Duration,
    },
    /// The next requests to switches get no reply.
    FailSwitchRequests {
        /// Number of requests.
        count: u32,
        /// True if the requests are carried out nevertheless.
        done: bool,
    },
}

/// Everything that determines a run.
#[derive(Clone, Debug)]
pub struct RouteScenario {
    /// Seed of delays and losses.
    pub seed: u64,
    /// The fabric, as TOML.
    pub fabric: &'static str,
    /// Kind of the switches' tables.
    pub tables: TableKind,
    /// Entries per table (C).
    pub colors: u16,
    /// Number of route services.
    pub routers: usize,
    /// Number of switch agents, which share the switches.
    pub agents: usize,
    /// Share of calls that are lost, and share that are carried out twice, in percent.
    pub loss_percent: u32,
    /// Maximum delay of a message; a tenth of them take up to three times as long.
    pub delay: Duration,
    /// Actions in the order of time.
    pub actions: Vec<(Moment, RouteAction)>,
}

const FABRICS: [&str; 3] = [
    "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 3\n",
    "kind = 'leaf-spine'\nleaves = 4\nspines = 3\nendpoints_per_leaf = 2\n",
    "kind = 'k-ary-3-level'\nk = 4\n",
];

impl RouteScenario {
    /// Draws a scenario from a seed.
    #[must_use]
    pub fn draw(seed: u64, profile: FaultProfile) -> Self {
        let mut chance = SplitMix::new(seed ^ 0x5eed_0001);
        let kinds = [TableKind::PerPort, TableKind::PerSwitch];
        let mut scenario = Self {
            seed,
            fabric: FABRICS[chance.below(3) as usize],
            tables: kinds[chance.below(2) as usize],
            colors: 2 + u16::try_from(chance.below(3)).expect("below 3"),
            routers: 1 + chance.below(3) as usize,
            agents: 3 + chance.below(3) as usize,
            loss_percent: if profile == FaultProfile::Fabric { 5 } else { 0 },
            delay: Duration::from_millis(if profile == FaultProfile::Fabric { 80 } else { 15 }),
            actions: Vec::new(),
        };
        if profile == FaultProfile::Routers {
            scenario.routers = 2 + chance.below(2) as usize;
        }
        let mut at = STORM_BEGINS;
        while at < STORM_ENDS {
            let action = scenario.draw_action(&mut chance, profile);
            scenario.actions.push((at, action));
            at = at.after(Duration::from_millis(1 + u64::from(chance.below(400))));
        }
        scenario
    }

    /// The same scenario where groups are also moved, several times in a second.
    #[must_use]
    pub fn with_moves(mut self) -> Self {
        let mut chance = SplitMix::new(self.seed ^ 0x5eed_0002);
        let mut at = STORM_BEGINS;
        while at < STORM_ENDS {
            let (group, to) = (chance.below(7), chance.below(MGIDS));
            self.actions.push((at, RouteAction::Move { group, to }));
            at = at.after(Duration::from_millis(1 + u64::from(chance.below(600))));
        }
        self.actions.sort_by_key(|(at, _)| *at);
        self
    }

    fn draw_action(&self, chance: &mut SplitMix, profile: FaultProfile) -> RouteAction {
        let (endpoint, group, process) = (chance.below(16), chance.below(7), chance.below(2));
        match chance.below(30) {
            0..=6 => RouteAction::Join { endpoint, group, process },
            7..=11 => RouteAction::Leave { endpoint, group, process },
            12..=16 => {
                let (step, count) = (1 + chance.below(5), 2 + chance.below(4));
                RouteAction::Form { group, first: endpoint, step, count }
            }
            17 | 18 => RouteAction::Delete { group },
            _ => self.draw_fault(chance, profile),
        }
    }

    fn draw_fault(&self, chance: &mut SplitMix, profile: FaultProfile) -> RouteAction {
        let kinds: Vec<FaultProfile> = FaultProfile::ROUTES[..3]
            .iter()
            .copied()
            .filter(|kind| profile.includes(*kind))
            .collect();
        let worse = chance.below(5) < 2;
        let router = chance.below(count(self.routers)) as usize;
        let agent = RouteParty::Agent(chance.below(count(self.agents)) as usize);
        match kinds[chance.below(count(kinds.len())) as usize] {
            FaultProfile::Routers => match chance.below(8) {
                0 => RouteAction::Kill { who: RouteParty::Router(router) },
                1..=3 => RouteAction::Freeze { who: RouteParty::Router(router), stop: worse },
                4 => RouteAction::BreakWatch { router },
                5 if worse => RouteAction::Kill { who: RouteParty::Tic },
                _ => {
                    let other = if chance.below(2) == 0 { RouteParty::Tic } else { agent };
                    let ends = [RouteParty::Router(router), other];
                    let from = chance.below(2) as usize;
                    RouteAction::Cut { from: ends[from], to: ends[1 - from], cut: worse }
                }
            },
            FaultProfile::Switches => match chance.below(8) {
                0 | 1 => RouteAction::Kill { who: agent },
                2 | 3 => RouteAction::Freeze { who: agent, stop: worse },
                4 | 5 => {
                    let delay = [2, 2, 30, 200, 900, 3_500][chance.below(6) as usize];
                    RouteAction::SlowSwitches { delay: Duration::from_millis(delay) }
                }
                _ => RouteAction::FailSwitchRequests { count: 1 + chance.below(4), done: worse },
            },
            _ => match chance.below(5) {
                0 | 1 => RouteAction::Switch { switch: chance.below(64), off: worse },
                _ => RouteAction::Link { link: chance.below(64), broken: worse },
            },
        }
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).expect("a few")
}
