//! What happens in a run of the route services: the fabric, who takes part, and every deed with its moment.

use std::fmt;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_topology::{SplitMix, TableKind};

use crate::scenario::{Mix, STORM_BEGINS, STORM_ENDS};

/// Who can be killed, stopped or cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteParty {
    /// A route service.
    Router(usize),
    /// A switch agent.
    Agent(usize),
    /// The TIC, which always knows everything that it has said.
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

/// One thing that people or fate do. Numbers beyond the end of a list begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteDeed {
    /// A process joins a group.
    Join {
        /// The endpoint.
        endpoint: u32,
        /// The number in the group's name.
        group: u32,
        /// The number in the process's name.
        process: u32,
    },
    /// It leaves.
    Leave {
        /// The endpoint.
        endpoint: u32,
        /// The group.
        group: u32,
        /// The process.
        process: u32,
    },
    /// A launcher forms a group of some endpoints.
    Form {
        /// The group.
        group: u32,
        /// The first endpoint.
        first: u32,
        /// From one endpoint to the next.
        step: u32,
        /// How many.
        count: u32,
    },
    /// An operator deletes a group.
    Delete {
        /// The group.
        group: u32,
    },
    /// A link between switches breaks, or is mended.
    Link {
        /// Which of them.
        link: u32,
        /// Whether it is broken.
        broken: bool,
    },
    /// A switch loses power and with it its table, or is switched on again.
    Switch {
        /// Which.
        switch: u32,
        /// Whether it is off.
        off: bool,
    },
    /// A process is killed; after a while another one takes its place, knowing nothing.
    Kill {
        /// Who.
        who: RouteParty,
    },
    /// A process stops for a while or goes on, not knowing that time has passed.
    Freeze {
        /// Who.
        who: RouteParty,
        /// Whether it stops.
        stop: bool,
    },
    /// What one process sends to another does not arrive, or does again.
    Cut {
        /// The sender.
        from: RouteParty,
        /// The receiver.
        to: RouteParty,
        /// Whether the way is cut.
        cut: bool,
    },
    /// The watch of a route service breaks.
    BreakWatch {
        /// Which.
        router: usize,
    },
    /// Switches take up to as long as this for everything.
    SlowSwitches {
        /// The time.
        delay: Duration,
    },
    /// The next touches of switches are not answered.
    FailTouches {
        /// How many.
        count: u32,
        /// Whether they are done nevertheless.
        done: bool,
    },
}

/// A run, whole.
#[derive(Clone, Debug)]
pub struct RouteScenario {
    /// What delays and losses are drawn from.
    pub seed: u64,
    /// The fabric, as TOML.
    pub fabric: &'static str,
    /// How switches key their tables.
    pub tables: TableKind,
    /// Entries of a table.
    pub colors: u16,
    /// How many route services there are.
    pub routers: usize,
    /// How many switch agents share the switches.
    pub agents: usize,
    /// Of a hundred calls so many are lost, and so many are carried out twice.
    pub loss_percent: u32,
    /// The longest way of a message; a tenth of them take three times as long.
    pub delay: Duration,
    /// What happens, in the order of time.
    pub deeds: Vec<(Moment, RouteDeed)>,
}

const FABRICS: [&str; 3] = [
    "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 3\n",
    "kind = 'leaf-spine'\nleaves = 4\nspines = 3\nendpoints_per_leaf = 2\n",
    "kind = 'k-ary-3-level'\nk = 4\n",
];

impl RouteScenario {
    /// Draws a scenario.
    #[must_use]
    pub fn draw(seed: u64, mix: Mix) -> Self {
        let mut chance = SplitMix::new(seed ^ 0x5eed_0001);
        let kinds = [TableKind::PerPort, TableKind::PerSwitch];
        let mut scenario = Self {
            seed,
            fabric: FABRICS[chance.below(3) as usize],
            tables: kinds[chance.below(2) as usize],
            colors: 2 + u16::try_from(chance.below(3)).expect("below 3"),
            routers: 1 + chance.below(3) as usize,
            agents: 3 + chance.below(3) as usize,
            loss_percent: if mix == Mix::Fabric { 5 } else { 0 },
            delay: Duration::from_millis(if mix == Mix::Fabric { 80 } else { 15 }),
            deeds: Vec::new(),
        };
        if mix == Mix::Routers {
            scenario.routers = 2 + chance.below(2) as usize;
        }
        let mut at = STORM_BEGINS;
        while at < STORM_ENDS {
            let deed = scenario.deed(&mut chance, mix);
            scenario.deeds.push((at, deed));
            at = at.after(Duration::from_millis(1 + u64::from(chance.below(400))));
        }
        scenario
    }

    fn deed(&self, chance: &mut SplitMix, mix: Mix) -> RouteDeed {
        let (endpoint, group, process) = (chance.below(16), chance.below(7), chance.below(2));
        match chance.below(30) {
            0..=6 => RouteDeed::Join { endpoint, group, process },
            7..=11 => RouteDeed::Leave { endpoint, group, process },
            12..=16 => {
                let (step, count) = (1 + chance.below(5), 2 + chance.below(4));
                RouteDeed::Form { group, first: endpoint, step, count }
            }
            17 | 18 => RouteDeed::Delete { group },
            _ => self.fault(chance, mix),
        }
    }

    fn fault(&self, chance: &mut SplitMix, mix: Mix) -> RouteDeed {
        let kinds: Vec<Mix> =
            Mix::ROUTES[..3].iter().copied().filter(|kind| mix.has(*kind)).collect();
        let worse = chance.below(5) < 2;
        let router = chance.below(count(self.routers)) as usize;
        let agent = RouteParty::Agent(chance.below(count(self.agents)) as usize);
        match kinds[chance.below(count(kinds.len())) as usize] {
            Mix::Routers => match chance.below(8) {
                0 => RouteDeed::Kill { who: RouteParty::Router(router) },
                1..=3 => RouteDeed::Freeze { who: RouteParty::Router(router), stop: worse },
                4 => RouteDeed::BreakWatch { router },
                5 if worse => RouteDeed::Kill { who: RouteParty::Tic },
                _ => {
                    let other = if chance.below(2) == 0 { RouteParty::Tic } else { agent };
                    let ends = [RouteParty::Router(router), other];
                    let from = chance.below(2) as usize;
                    RouteDeed::Cut { from: ends[from], to: ends[1 - from], cut: worse }
                }
            },
            Mix::Switches => match chance.below(8) {
                0 | 1 => RouteDeed::Kill { who: agent },
                2 | 3 => RouteDeed::Freeze { who: agent, stop: worse },
                4 | 5 => {
                    let delay = [2, 2, 30, 200, 900, 3_500][chance.below(6) as usize];
                    RouteDeed::SlowSwitches { delay: Duration::from_millis(delay) }
                }
                _ => RouteDeed::FailTouches { count: 1 + chance.below(4), done: worse },
            },
            _ => match chance.below(5) {
                0 | 1 => RouteDeed::Switch { switch: chance.below(64), off: worse },
                _ => RouteDeed::Link { link: chance.below(64), broken: worse },
            },
        }
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).expect("a few")
}
