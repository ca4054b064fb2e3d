//! Scenarios: the faults and all actions of a run, each with its moment.
//!
//! A scenario is a value. The same one gives the same run, and a part of its actions is a valid
//! scenario as well. That is how a long failing run becomes a short one ([`crate::shrink()`]).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_topology::SplitMix;

/// Start of the faults; before it, nodes register undisturbed.
pub const STORM_BEGINS: Moment = Moment(3_000_000_000);
/// End of the faults; everything is healed then.
pub const STORM_ENDS: Moment = Moment(25_000_000_000);

/// Kind of faults that a run has, besides joins and leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultProfile {
    /// Messages are lost, duplicated, delayed and reordered.
    Loss,
    /// Links between parties are cut, in one direction or both.
    Partitions,
    /// Nodes and processes die and come back.
    Crashes,
    /// Leaders of the TIC are killed, frozen and cut off from the store.
    Leaders,
    /// The store is slow, refuses writes, or writes and does not say so.
    Store,
    /// Parties freeze and continue later with old state; messages are slow.
    Stalls,
    /// Faults hit a node that hosts a group's agent, again and again.
    Agents,
    /// All faults of group management.
    Everything,
    /// Route services are killed, frozen and cut off, and lose their watch.
    Routers,
    /// Switch agents are killed and frozen; switches are slow or do not answer.
    Switches,
    /// Links and switches fail and are repaired.
    Links,
    /// All faults of route services, agents and the fabric; calls are lost or carried out twice.
    Fabric,
}

impl FaultProfile {
    /// All profiles, those of group management first.
    pub const ALL: [Self; 12] = [
        Self::Loss,
        Self::Partitions,
        Self::Crashes,
        Self::Leaders,
        Self::Store,
        Self::Stalls,
        Self::Agents,
        Self::Everything,
        Self::Routers,
        Self::Switches,
        Self::Links,
        Self::Fabric,
    ];
    /// Profiles of group management.
    pub const GROUPS: [Self; 8] = [
        Self::Loss,
        Self::Partitions,
        Self::Crashes,
        Self::Leaders,
        Self::Store,
        Self::Stalls,
        Self::Agents,
        Self::Everything,
    ];
    /// Profiles of route services and switch agents.
    pub const ROUTES: [Self; 4] = [Self::Routers, Self::Switches, Self::Links, Self::Fabric];

    /// Returns the name used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Partitions => "partitions",
            Self::Crashes => "crashes",
            Self::Leaders => "leaders",
            Self::Store => "store",
            Self::Stalls => "stalls",
            Self::Agents => "agents",
            Self::Everything => "everything",
            Self::Routers => "routers",
            Self::Switches => "switches",
            Self::Links => "links",
            Self::Fabric => "fabric",
        }
    }

    /// Returns whether the profile simulates route services and switch agents.
    pub fn is_routing(self) -> bool {
        Self::ROUTES.contains(&self)
    }

    pub(crate) fn includes(self, fault: Self) -> bool {
        self == fault || self == Self::Everything || self == Self::Fabric
    }
}

impl FromStr for FaultProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a fault profile; expected one of {}", names()))
    }
}

/// A party of the simulation. At most one of the TICs leads at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A node with its operating agent and, perhaps, group agents.
    Node(usize),
    /// A topology information center.
    Tic(usize),
    /// The store that the TICs share.
    Store,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(at) => write!(f, "node {at}"),
            Self::Tic(at) => write!(f, "TIC {at}"),
            Self::Store => f.write_str("the store"),
        }
    }
}

/// Delays and losses of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Maximum delay of a message; a tenth of them take up to as much again.
    pub delay: Duration,
    /// Share of messages that are lost, in percent.
    pub loss_percent: u32,
    /// Share of messages that arrive twice, in percent.
    pub duplicate_percent: u32,
}

impl Network {
    /// No losses and short delays.
    pub const CALM: Self =
        Self { delay: Duration::from_millis(5), loss_percent: 0, duplicate_percent: 0 };

    const fn of(profile: FaultProfile) -> Self {
        match profile {
            FaultProfile::Loss | FaultProfile::Everything => {
                Self { delay: Duration::from_millis(400), loss_percent: 15, duplicate_percent: 10 }
            }
            FaultProfile::Stalls => {
                Self { delay: Duration::from_millis(900), loss_percent: 0, duplicate_percent: 0 }
            }
            _ => Self { delay: Duration::from_millis(40), loss_percent: 1, duplicate_percent: 1 },
        }
    }
}

/// An action of a user, an operator or a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A process of a node asks to join a group.
    Join {
        /// Index of the node.
        at: usize,
        /// The number in the group's name; group 0 outlives its members.
        group: u32,
        /// The number in the process's name.
        process: u32,
    },
    /// A process asks to leave.
    Leave {
        /// Index of the node.
        at: usize,
        /// Number in the group's name.
        group: u32,
        /// Number in the process's name.
        process: u32,
    },
    /// A launcher forms a group on two nodes.
    Form {
        /// The number in the group's name.
        group: u32,
        /// Nodes of the members; may be equal.
        nodes: [usize; 2],
    },
    /// An operator deletes a group.
    Delete {
        /// Number in the group's name.
        group: u32,
    },
    /// The route service reports routes for all groups.
    Route {
        /// Seed of the colors and of the endpoints that are left out.
        draw: u64,
    },
    /// A node loses power, or is switched on.
    Power {
        /// Index of the node.
        at: usize,
        /// True to switch it on.
        on: bool,
    },
    /// The agents of a node are killed and start at once without state.
    Respawn {
        /// Index of the node.
        at: usize,
    },
    /// A node stops or resumes its reports; everything else works.
    Mute {
        /// Index of the node.
        at: usize,
        /// True to stop its reports.
        silent: bool,
    },
    /// A party freezes or resumes, unaware that time has passed.
    Freeze {
        /// Party that freezes or resumes.
        who: Party,
        /// True to freeze it.
        stop: bool,
    },
    /// Messages from one party to another are dropped, or delivered again.
    Cut {
        /// Party whose messages are dropped.
        from: Party,
        /// Party that does not get them.
        to: Party,
        /// True to drop messages.
        cut: bool,
    },
    /// A fault hits the node that hosts a group's agent at that time.
    FaultAgent {
        /// The number in the group's name.
        group: u32,
        /// Fault of that node.
        fault: AgentFault,
    },
    /// All links are restored, frozen parties resume, and every node has power.
    Mend,
    /// A TIC is killed; a new process replaces it after a while.
    KillTic {
        /// Index of the TIC.
        at: usize,
    },
    /// Every operation of the store takes this long.
    SlowStore {
        /// Time per operation.
        delay: Duration,
    },
    /// The next writes fail.
    FailWrites {
        /// Number of writes.
        count: u32,
        /// True if the writes are done although an error is returned.
        done: bool,
    },
}

/// Fault of a node that hosts a group's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentFault {
    /// It loses power.
    Power,
    /// It freezes, unaware that time passes.
    Freeze,
    /// It stops its reports.
    Mute,
    /// Messages between it and another party are dropped, in one direction.
    Cut {
        /// True to drop messages from the node, false to drop those to it.
        from: bool,
        /// Party at the other end.
        with: Party,
    },
    /// Messages between it and all TICs are dropped, in one direction.
    CutOffTics {
        /// True to drop messages from the node, false to drop those to it.
        from: bool,
    },
}

/// Everything that determines a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of the network's losses and delays.
    pub seed: u64,
    /// Network during the faults.
    pub network: Network,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of TICs.
    pub tics: usize,
    /// Actions in the order of time.
    pub actions: Vec<(Moment, Action)>,
}

impl Scenario {
    /// Draws a scenario from a seed.
    #[must_use]
    pub fn draw(seed: u64, profile: FaultProfile) -> Self {
        let mut chance = SplitMix::new(seed ^ 0x5eed_0000);
        let (nodes, tics) = (4 + chance.below(5) as usize, 1 + chance.below(3) as usize);
        let mut scenario =
            Self { seed, network: Network::of(profile), nodes, tics, actions: Vec::new() };
        let mut at = STORM_BEGINS;
        while at < STORM_ENDS {
            let action = scenario.draw_action(&mut chance, profile);
            scenario.actions.push((at, action));
            at = at.after(Duration::from_millis(1 + u64::from(chance.below(240))));
        }
        scenario
    }

    fn draw_action(&self, chance: &mut SplitMix, profile: FaultProfile) -> Action {
        let at = chance.below(count(self.nodes)) as usize;
        let (group, process) = (chance.below(4), chance.below(2));
        match chance.below(40) {
            0..=13 => Action::Join { at, group, process },
            14..=19 | 25 => Action::Leave { at, group, process },
            20 => Action::Delete { group },
            21 | 22 => Action::Route { draw: chance.bits() },
            23 | 24 => {
                Action::Form { group, nodes: [at, chance.below(count(self.nodes)) as usize] }
            }
            _ => self.draw_fault(chance, profile).unwrap_or(Action::Join { at, group, process }),
        }
    }

    fn draw_fault(&self, chance: &mut SplitMix, profile: FaultProfile) -> Option<Action> {
        let at = chance.below(count(self.nodes)) as usize;
        let tic = chance.below(count(self.tics)) as usize;
        let flag = chance.below(2) == 0;
        let kinds = FaultProfile::GROUPS[..7].iter().copied();
        let kinds: Vec<FaultProfile> = kinds.filter(|kind| profile.includes(*kind)).collect();
        Some(match kinds[chance.below(count(kinds.len())) as usize] {
            FaultProfile::Partitions => {
                let (from, to) = (self.draw_party(chance), self.draw_party(chance));
                Action::Cut { from, to, cut: chance.below(5) < 2 }
            }
            FaultProfile::Crashes => match chance.below(8) {
                0 | 1 => Action::Power { at, on: false },
                2..=4 => Action::Power { at, on: true },
                _ => Action::Respawn { at },
            },
            FaultProfile::Leaders => match chance.below(5) {
                0 => Action::KillTic { at: tic },
                1 | 2 => Action::Freeze { who: Party::Tic(tic), stop: flag },
                3 => Action::Cut { from: Party::Tic(tic), to: Party::Store, cut: flag },
                _ => Action::Cut { from: Party::Store, to: Party::Tic(tic), cut: flag },
            },
            FaultProfile::Store => match chance.below(3) {
                0 => {
                    let delay = [1, 1, 30, 300, 2_500][chance.below(5) as usize];
                    Action::SlowStore { delay: Duration::from_millis(delay) }
                }
                _ => Action::FailWrites { count: 1 + chance.below(3), done: flag },
            },
            FaultProfile::Stalls => match chance.below(3) {
                0 => Action::Mute { at, silent: flag },
                _ => Action::Freeze { who: self.draw_party(chance), stop: chance.below(5) < 2 },
            },
            FaultProfile::Agents if chance.below(3) == 0 => Action::Mend,
            FaultProfile::Agents => {
                let fault = match chance.below(6) {
                    0 => AgentFault::Power,
                    1 => AgentFault::Freeze,
                    2 => AgentFault::Mute,
                    3 | 4 => AgentFault::Cut { from: flag, with: self.draw_party(chance) },
                    _ => AgentFault::CutOffTics { from: flag },
                };
                Action::FaultAgent { group: chance.below(4), fault }
            }
            _ => return None,
        })
    }

    fn draw_party(&self, chance: &mut SplitMix) -> Party {
        match chance.below(count(self.nodes + self.tics)) as usize {
            at if at < self.nodes => Party::Node(at),
            at => Party::Tic(at - self.nodes),
        }
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).expect("a few")
}
