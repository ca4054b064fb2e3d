//! Scenarios: the faults of a run, each with its moment, drawn from a seed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fabricast_topology::SplitMix;

use crate::parts::{AGENTS, Host, ROUTERS, TICS};

/// Start of the faults; before it, all parts start undisturbed.
pub(crate) const STORM_BEGINS: Duration = Duration::from_secs(5);
/// End of the faults; everything is healed then.
pub(crate) const STORM_ENDS: Duration = Duration::from_secs(30);

/// Kind of faults that a run has, besides joins and leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultProfile {
    /// Hosts crash and start anew.
    Crashes,
    /// Messages between two hosts, or of one host, are held back or lost.
    Cuts,
    /// Links to the store are cut, slow, or lose requests or answers.
    Store,
    /// All of these.
    Everything,
}

impl FaultProfile {
    /// All profiles.
    pub const ALL: [Self; 4] = [Self::Crashes, Self::Cuts, Self::Store, Self::Everything];

    /// Name used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crashes => "crashes",
            Self::Cuts => "cuts",
            Self::Store => "store",
            Self::Everything => "everything",
        }
    }

    fn kinds(self) -> &'static [Self] {
        match self {
            Self::Crashes => &[Self::Crashes],
            Self::Cuts => &[Self::Cuts],
            Self::Store => &[Self::Store],
            Self::Everything => &[Self::Crashes, Self::Cuts, Self::Store],
        }
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

/// Fate of messages between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// They arrive when the cut is over, as TCP sends them again.
    Held,
    /// They are lost; connections are of no use any more.
    Lost,
}

/// A fault of a host or of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A host crashes; it starts anew when the fault is over.
    Crash(Host),
    /// Two hosts are cut off from each other.
    Cut(Host, Host, Cut),
    /// A host is cut off from all others.
    Isolation(Host, Cut),
    /// A TIC is cut off from the store.
    StoreCut(usize),
    /// Calls of a TIC to the store take so many milliseconds.
    StoreDelay(usize, u32),
    /// So many calls of a TIC to the store fail at the beginning; true if only answers are lost.
    StoreLoss(usize, u32, bool),
}

/// A fault with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedFault {
    /// Time when it begins.
    pub begins: Duration,
    /// Time when it is over.
    pub ends: Duration,
    /// Host or connection, and the kind of the fault.
    pub fault: Fault,
}

impl fmt::Display for TimedFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [begins, ends] = [self.begins, self.ends].map(|at| at.as_secs_f64());
        write!(formatter, "{begins:>7.3} s to {ends:>7.3} s  {:?}", self.fault)
    }
}

/// All that decides about a run but the order in which ready tasks go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Seed of the delays of messages, and of what the programs do.
    pub seed: u64,
    /// Faults, each with its time.
    pub faults: Vec<TimedFault>,
    /// True if these faults are no reason to expel a node.
    pub keeps_nodes: bool,
}

impl Scenario {
    /// Draws the faults of a seed.
    #[must_use]
    pub fn draw(seed: u64, profile: FaultProfile) -> Self {
        let mut chance = SplitMix::new(seed ^ 0x636c_7573_7465_7221);
        let count = 6 + chance.below(10);
        let faults = (0..count).map(|_| {
            let begins = STORM_BEGINS + milliseconds(&mut chance, 0, 20_000);
            let ends = (begins + milliseconds(&mut chance, 200, 7_000)).min(STORM_ENDS);
            TimedFault { begins, ends, fault: draw_fault(&mut chance, profile) }
        });
        Self { seed, faults: faults.collect(), keeps_nodes: false }
    }

    /// Every TIC is cut off from these processes of operating agents for a time.
    #[must_use]
    pub fn cut_off(agents: std::ops::Range<usize>, time: Duration, cut: Cut) -> Self {
        let pairs = (0..TICS).flat_map(|tic| agents.clone().map(move |agent| (tic, agent)));
        let begins = STORM_BEGINS + Duration::from_secs(1);
        let faults = pairs.map(|(tic, agent)| TimedFault {
            begins,
            ends: begins + time,
            fault: Fault::Cut(Host::Tic(tic), Host::Agent(agent), cut),
        });
        Self { seed: 0, faults: faults.collect(), keeps_nodes: agents.len() == AGENTS }
    }

    /// The end of all faults.
    pub(crate) fn ends(&self) -> Duration {
        self.faults.iter().map(|timed| timed.ends).fold(STORM_ENDS, Duration::max)
    }

    /// True if a host crashes, or a TIC may not reach it for a while.
    pub(crate) fn hurts(&self, host: Host) -> bool {
        if self.keeps_nodes {
            return false;
        }
        let is_tic = |host: Host| matches!(host, Host::Tic(_));
        self.faults.iter().any(|timed| match timed.fault {
            Fault::Crash(crashed) => crashed == host,
            Fault::Isolation(isolated, _) => isolated == host,
            Fault::Cut(one, other, _) => {
                (one == host && is_tic(other)) || (other == host && is_tic(one))
            }
            Fault::StoreCut(_) | Fault::StoreDelay(..) | Fault::StoreLoss(..) => false,
        })
    }
}

fn milliseconds(chance: &mut SplitMix, from: u32, to: u32) -> Duration {
    Duration::from_millis(u64::from(from + chance.below(to - from)))
}

fn index(chance: &mut SplitMix, count: usize) -> usize {
    chance.below(u32::try_from(count).unwrap_or(u32::MAX)) as usize
}

fn draw_fault(chance: &mut SplitMix, profile: FaultProfile) -> Fault {
    let kinds = profile.kinds();
    match kinds[index(chance, kinds.len())] {
        FaultProfile::Crashes => Fault::Crash(draw_host(chance)),
        FaultProfile::Store => {
            let tic = index(chance, TICS);
            match chance.below(3) {
                0 => Fault::StoreCut(tic),
                1 => Fault::StoreDelay(tic, 1 + chance.below(1_500)),
                _ => Fault::StoreLoss(tic, 1 + chance.below(5), chance.below(2) == 0),
            }
        }
        FaultProfile::Cuts | FaultProfile::Everything => {
            let cut = if chance.below(2) == 0 { Cut::Held } else { Cut::Lost };
            let (one, other) = (draw_host(chance), draw_host(chance));
            match one == other {
                true => Fault::Isolation(one, cut),
                false if chance.below(3) == 0 => Fault::Isolation(one, cut),
                false => Fault::Cut(one, other, cut),
            }
        }
    }
}

/// A host that may fail: all but the fabric, which is no part of the control plane.
fn draw_host(chance: &mut SplitMix) -> Host {
    match chance.below(8) {
        0..3 => Host::Tic(index(chance, TICS)),
        3 => Host::Router(index(chance, ROUTERS)),
        4 => Host::SwitchAgent,
        _ => Host::Agent(index(chance, AGENTS)),
    }
}
