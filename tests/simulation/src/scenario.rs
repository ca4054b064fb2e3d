//! What happens in a run: which faults are drawn, and every deed with its moment.
//!
//! A scenario is a value: the same one is the same run, and one with some deeds left out is a run, too.
//! That is how a long failing run becomes a short one ([`crate::shrink()`]).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_topology::SplitMix;

/// The part of a run in which things happen begins here; before that, nodes register in peace.
pub const STORM_BEGINS: Moment = Moment(3_000_000_000);
/// From here on everything is healed.
pub const STORM_ENDS: Moment = Moment(25_000_000_000);

/// What goes wrong, beside people joining and leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mix {
    /// Messages are lost, duplicated, late and out of order.
    Loss,
    /// Links between parties are cut, in one direction or both.
    Partitions,
    /// Nodes and processes die and come back.
    Crashes,
    /// Leaders of the TIC are killed, frozen and cut off from the store.
    Leaders,
    /// The store is slow, refuses writes, or writes and does not say so.
    Store,
    /// Parties stall and go on later as if nothing had been; messages are slow.
    Stalls,
    /// Whatever befalls a node befalls one that hosts a group's agent, again and again.
    Agents,
    /// All of it.
    Everything,
    /// Route services are killed, stop, are cut off, and lose their watch.
    Routers,
    /// Switch agents are killed and stop; switches are slow, or do not answer.
    Switches,
    /// Links and switches break and are mended.
    Links,
    /// What befalls route services, agents and the fabric, with calls that are lost and carried out twice.
    Fabric,
}

impl Mix {
    /// All mixes.
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
    /// Those of group management.
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
    /// Those of route services and switch agents.
    pub const ROUTES: [Self; 4] = [Self::Routers, Self::Switches, Self::Links, Self::Fabric];

    /// Gives its name on the command line.
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

    /// Whether it is played by route services and switch agents.
    pub fn is_of_routes(self) -> bool {
        Self::ROUTES.contains(&self)
    }

    pub(crate) fn has(self, fault: Self) -> bool {
        self == fault || self == Self::Everything || self == Self::Fabric
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|mix| mix.name() == text);
        found.ok_or_else(|| format!("'{text}' is none of {}", names()))
    }
}

/// Who takes part. Only one of the TICs is the leader at a time.
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

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The longest way of a message; a tenth of them take as much again.
    pub delay: Duration,
    /// Of a hundred messages so many are lost.
    pub loss_percent: u32,
    /// Of a hundred messages so many arrive twice.
    pub duplicate_percent: u32,
}

impl Network {
    /// Nothing is lost and nothing late.
    pub const CALM: Self =
        Self { delay: Duration::from_millis(5), loss_percent: 0, duplicate_percent: 0 };

    const fn of(mix: Mix) -> Self {
        match mix {
            Mix::Loss | Mix::Everything => {
                Self { delay: Duration::from_millis(400), loss_percent: 15, duplicate_percent: 10 }
            }
            Mix::Stalls => {
                Self { delay: Duration::from_millis(900), loss_percent: 0, duplicate_percent: 0 }
            }
            _ => Self { delay: Duration::from_millis(40), loss_percent: 1, duplicate_percent: 1 },
        }
    }
}

/// One thing that people or fate do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A process of a node asks to join a group.
    Join {
        /// The node.
        at: usize,
        /// The number in the group's name; group 0 outlives its members.
        group: u32,
        /// The number in the process's name.
        process: u32,
    },
    /// It asks to leave.
    Leave {
        /// The node.
        at: usize,
        /// The group.
        group: u32,
        /// The process.
        process: u32,
    },
    /// A launcher forms a group on two nodes.
    Form {
        /// The number in the group's name.
        group: u32,
        /// The nodes; they may be the same.
        nodes: [usize; 2],
    },
    /// An operator deletes a group.
    Delete {
        /// The group.
        group: u32,
    },
    /// The route service reports routes for all groups.
    Route {
        /// What colors and endpoints left out are drawn from.
        draw: u64,
    },
    /// A process ends without leaving, and its node says so.
    ProcessFails {
        /// The node.
        at: usize,
        /// The process.
        process: u32,
    },
    /// A node loses power, or is switched on again.
    Power {
        /// The node.
        at: usize,
        /// Whether it is switched on.
        on: bool,
    },
    /// The agents of a node are killed and start at once, knowing nothing.
    Respawn {
        /// The node.
        at: usize,
    },
    /// A node sends no reports any more, or does so again; everything else works.
    Mute {
        /// The node.
        at: usize,
        /// Whether it is silent.
        silent: bool,
    },
    /// A party stops for a while or goes on, not knowing that time has passed.
    Freeze {
        /// Who.
        who: Party,
        /// Whether it stops.
        stop: bool,
    },
    /// What one party sends to another does not arrive, or does again.
    Cut {
        /// The sender.
        from: Party,
        /// The receiver.
        to: Party,
        /// Whether the way is cut.
        cut: bool,
    },
    /// Something befalls the node that hosts a group's agent at that time.
    StrikeAgent {
        /// The number in the group's name.
        group: u32,
        /// What.
        how: Strike,
    },
    /// All ways are whole again, whoever stopped goes on, and every node has power.
    Mend,
    /// A TIC is killed; another process takes its place after a while.
    KillTic {
        /// Which.
        at: usize,
    },
    /// The store takes as long as this for everything.
    SlowStore {
        /// The time.
        delay: Duration,
    },
    /// The next writes fail.
    FailWrites {
        /// How many.
        count: u32,
        /// Whether they are done nevertheless.
        done: bool,
    },
}

/// What befalls a node that hosts a group's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// It loses power.
    Power,
    /// It stops, not knowing that time passes.
    Freeze,
    /// It sends no reports any more.
    Mute,
    /// A way between it and somebody is cut, in one direction.
    Cut {
        /// Whether it is the way from the node.
        from: bool,
        /// The other one.
        with: Party,
    },
    /// The ways between it and all TICs are cut, in one direction.
    CutOffTics {
        /// Whether it is the ways from the node.
        from: bool,
    },
}

/// A run, whole.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What the network draws its losses and delays from.
    pub seed: u64,
    /// How messages travel during the storm.
    pub network: Network,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many TICs there are.
    pub tics: usize,
    /// What happens, in the order of time.
    pub deeds: Vec<(Moment, Deed)>,
}

impl Scenario {
    /// Draws a scenario.
    #[must_use]
    pub fn draw(seed: u64, mix: Mix) -> Self {
        let mut chance = SplitMix::new(seed ^ 0x5eed_0000);
        let (nodes, tics) = (4 + chance.below(5) as usize, 1 + chance.below(3) as usize);
        let mut scenario = Self { seed, network: Network::of(mix), nodes, tics, deeds: Vec::new() };
        let mut at = STORM_BEGINS;
        while at < STORM_ENDS {
            let deed = scenario.deed(&mut chance, mix);
            scenario.deeds.push((at, deed));
            at = at.after(Duration::from_millis(1 + u64::from(chance.below(240))));
        }
        scenario
    }

    fn deed(&self, chance: &mut SplitMix, mix: Mix) -> Deed {
        let at = chance.below(count(self.nodes)) as usize;
        let (group, process) = (chance.below(4), chance.below(2));
        match chance.below(40) {
            0..=13 => Deed::Join { at, group, process },
            14..=19 => Deed::Leave { at, group, process },
            20 => Deed::Delete { group },
            21 | 22 => Deed::Route { draw: chance.bits() },
            23 | 24 => Deed::Form { group, nodes: [at, chance.below(count(self.nodes)) as usize] },
            25 => Deed::ProcessFails { at, process },
            _ => self.fault(chance, mix).unwrap_or(Deed::Join { at, group, process }),
        }
    }

    fn fault(&self, chance: &mut SplitMix, mix: Mix) -> Option<Deed> {
        let at = chance.below(count(self.nodes)) as usize;
        let tic = chance.below(count(self.tics)) as usize;
        let flag = chance.below(2) == 0;
        let kinds = Mix::GROUPS[..7].iter().copied();
        let kinds: Vec<Mix> = kinds.filter(|kind| mix.has(*kind)).collect();
        Some(match kinds[chance.below(count(kinds.len())) as usize] {
            Mix::Partitions => {
                let (from, to) = (self.party(chance), self.party(chance));
                Deed::Cut { from, to, cut: chance.below(5) < 2 }
            }
            Mix::Crashes => match chance.below(8) {
                0 | 1 => Deed::Power { at, on: false },
                2..=4 => Deed::Power { at, on: true },
                _ => Deed::Respawn { at },
            },
            Mix::Leaders => match chance.below(5) {
                0 => Deed::KillTic { at: tic },
                1 | 2 => Deed::Freeze { who: Party::Tic(tic), stop: flag },
                3 => Deed::Cut { from: Party::Tic(tic), to: Party::Store, cut: flag },
                _ => Deed::Cut { from: Party::Store, to: Party::Tic(tic), cut: flag },
            },
            Mix::Store => match chance.below(3) {
                0 => {
                    let delay = [1, 1, 30, 300, 2_500][chance.below(5) as usize];
                    Deed::SlowStore { delay: Duration::from_millis(delay) }
                }
                _ => Deed::FailWrites { count: 1 + chance.below(3), done: flag },
            },
            Mix::Stalls => match chance.below(3) {
                0 => Deed::Mute { at, silent: flag },
                _ => Deed::Freeze { who: self.party(chance), stop: chance.below(5) < 2 },
            },
            Mix::Agents if chance.below(3) == 0 => Deed::Mend,
            Mix::Agents => {
                let how = match chance.below(6) {
                    0 => Strike::Power,
                    1 => Strike::Freeze,
                    2 => Strike::Mute,
                    3 | 4 => Strike::Cut { from: flag, with: self.party(chance) },
                    _ => Strike::CutOffTics { from: flag },
                };
                Deed::StrikeAgent { group: chance.below(4), how }
            }
            _ => return None,
        })
    }

    fn party(&self, chance: &mut SplitMix) -> Party {
        match chance.below(count(self.nodes + self.tics)) as usize {
            at if at < self.nodes => Party::Node(at),
            at => Party::Tic(at - self.nodes),
        }
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).expect("a few")
}
