//! Processor time of the reconciler for one change on top of many groups, from the event of the
//! watch to the end of the turn, with switch agents and a TIC that answer at once. Lines have the
//! form `figure reconciler/<groups>/<change>/<statistic> <number> <unit>`.
//!
//! Members join and leave random groups at endpoints that do not use the group's color yet, as
//! those who choose MGIDs see to. The links that are cut are of random leaves.
//!
//! `--million` adds a fabric of 1 048 576 endpoints, `--out FOLDER` also writes a page with a plot.

mod page;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabricast_groups::Moment;
use fabricast_groups::ids::{Gn, Pn, Revision};
use fabricast_groups::names::GroupName;
use fabricast_reconciler::{
    CachedMember, DirectoryChange, DirectoryUpdate, FailedElement, Generations, GroupState, Input,
    Output, Reconciler, RecordedChoices, RecordedEndpoint, Reply, Setup, SwitchTable, Timing,
    WatchEvent,
};
use fabricast_routing::{
    EngineKind, EngineOptions, Grid, LayerPlan, MgidSpace, PatternGroup, grid_groups, mgid_space,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, FatTree, Graph, Peer, PortId, SplitMix, SwitchId, TableKind};

/// 4 CNs of 32 leaves with 16 endpoints, 8 TNs.
const SMALL: &str = "kind = 'cn-tn-fat-tree'\nq = 4\nm = 4\np = 1\nk = 32\nw = 8\n\
                     endpoints_per_leaf = 16\n";
/// 1 024 CNs of 32 leaves with 32 endpoints, 32 TNs.
const MILLION: &str = "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 2\nk = 64\nw = 16\n\
                       endpoints_per_leaf = 32\n";
const DRAIN: Duration = Duration::from_secs(1);
/// Time between two changes: every drain is over.
const PAUSE: Duration = Duration::from_secs(3);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = arguments.iter().position(|argument| argument == "--out");
    let folder = folder.map(|at| arguments.get(at + 1).expect("--out has a folder"));
    let parse = |text| TopologySpec::parse(text).expect("a valid description");
    let mut costs = vec![
        measure("560_groups", &parse(SMALL), [16, 16, 8], 1_000),
        measure("8_900_groups", &TopologySpec::paper(), [100, 50, 26], 1_000),
    ];
    if folder.is_some() || arguments.iter().any(|argument| argument == "--million") {
        costs.push(measure("111_200_groups", &parse(MILLION), [400, 200, 52], 200));
    }
    if let Some(folder) = folder {
        page::write(Path::new(folder), &costs);
    }
}

/// Costs of changes on one fabric.
struct Costs {
    endpoints: u32,
    groups: u32,
    memberships: u32,
    join: Percentiles,
    leave: Percentiles,
    /// A turn that finds nothing to do, median.
    idle: Duration,
    /// A cut link of a leaf, median.
    cut: Duration,
    /// Most memory that the process has had, in MiB.
    memory: u32,
}

/// Median and 99th percentile.
struct Percentiles {
    median: Duration,
    high: Duration,
}

impl Percentiles {
    fn of(times: &mut [Duration]) -> Self {
        times.sort_unstable();
        Self { median: times[times.len() / 2], high: times[times.len() * 99 / 100] }
    }
}

/// Measures on a grid with 4 processes per endpoint.
#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn measure(name: &str, fabric: &TopologySpec, [x, y, z]: [u32; 3], changes: usize) -> Costs {
    let started = Instant::now();
    let mut bench = Bench::new(fabric, &Grid::cube(x, y, z, 4).expect("a valid grid"));
    print(name, "form/total", started.elapsed());
    let (mut joins, mut leaves): (Vec<Duration>, Vec<Duration>) = (0..changes)
        .map(|_| {
            let (at, endpoint) = bench.draw();
            (bench.join(at, endpoint), bench.leave(at))
        })
        .unzip();
    let (join, leave) = (Percentiles::of(&mut joins), Percentiles::of(&mut leaves));
    for (change, times) in [("join", &join), ("leave", &leave)] {
        print(name, &format!("{change}/median"), times.median);
        print(name, &format!("{change}/99th_percentile"), times.high);
    }
    let mut turns: Vec<Duration> = (0..101).map(|_| bench.turn_without_work()).collect();
    let idle = Percentiles::of(&mut turns).median;
    print(name, "turn_without_work/median", idle);
    let mut cuts: Vec<Duration> = (0..9).map(|_| bench.cut()).collect();
    let cut = Percentiles::of(&mut cuts).median;
    print(name, "cut_link/median", cut);
    let count = |number: usize| u32::try_from(number).expect("fewer than 2^32");
    Costs {
        endpoints: count(bench.graph.endpoint_count()),
        groups: count(bench.groups.len()),
        memberships: count(bench.groups.iter().map(|group| group.members.len()).sum()),
        join,
        leave,
        idle,
        cut,
        memory: most_memory(),
    }
}

/// Most memory that the process has had so far, in MiB.
#[expect(clippy::disallowed_methods, reason = "a bench measures memory")]
fn most_memory() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let most = most.and_then(|text| text.split_whitespace().next()?.parse::<u32>().ok());
    most.expect("a size in KiB") / 1024
}

#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn print(name: &str, change: &str, time: Duration) {
    println!("figure reconciler/{name}/{change} {:.3} us", time.as_secs_f64() * 1e6);
}

struct Bench {
    graph: Arc<Graph>,
    space: MgidSpace,
    reconciler: Reconciler,
    groups: Vec<PatternGroup>,
    /// By endpoint: a bit for each color in use.
    colors: Vec<u64>,
    /// Up-links of leaves.
    links: Vec<PortId>,
    dice: SplitMix,
    now: Moment,
    revision: u64,
}

impl Bench {
    fn new(fabric: &TopologySpec, grid: &Grid) -> Self {
        let graph = Arc::new(fabric.generate().expect("a valid description"));
        let fat_tree = FatTree::detect(&graph).expect("a fat tree");
        let options = EngineOptions::new(32, TableKind::PerPort);
        let engine = EngineKind::CMr4lmsFixed;
        let space = mgid_space(engine, Some(&fat_tree), options).expect("32 colors are fine");
        let endpoints = u32::try_from(graph.endpoint_count()).expect("32-bit numbers");
        let groups =
            grid_groups(grid, false, LayerPlan::Compact, &space, endpoints).expect("it fits");
        let mut colors = vec![0; graph.endpoint_count()];
        for group in &groups {
            let color = space.color(space.spt(group.mgid));
            group.members.iter().for_each(|member| colors[member.index()] |= 1 << color);
        }
        let leaf_links = graph.endpoints().filter_map(|endpoint| graph.attachment(endpoint));
        let leaves: BTreeSet<SwitchId> = leaf_links.map(|port| graph.switch_of(port)).collect();
        let ports = leaves.into_iter().flat_map(|leaf| graph.ports(leaf));
        let links = ports.filter(|port| matches!(graph.peer(*port), Peer::Switch(_))).collect();
        let setup = Setup {
            graph: Arc::clone(&graph),
            engine,
            engine_options: options,
            timing: Timing {
                drain: DRAIN,
                read_back: Duration::from_hours(1_000_000),
                read_back_rate: 1,
            },
            agents: vec!["agent".to_owned()],
            recorded: RecordedChoices::None,
            generations: Generations::default(),
        };
        let reconciler = Reconciler::new(setup, Moment(0)).expect("a fat tree");
        let mut bench = Self {
            graph,
            space,
            reconciler,
            groups,
            colors,
            links,
            dice: SplitMix::new(1),
            now: Moment(0),
            revision: 1,
        };
        let changes = (0..bench.groups.len()).flat_map(|at| bench.formed(at)).collect();
        let update = DirectoryUpdate { revision: Revision(1), changes };
        bench.watch(WatchEvent::Snapshot(vec![update]));
        bench.rest();
        let status = bench.reconciler.status();
        assert!(status.settled && status.last_error.is_empty(), "{}", status.last_error);
        bench
    }

    fn formed(&self, at: usize) -> Vec<DirectoryChange> {
        let members = (0..).zip(&self.groups[at].members);
        let joined = members.map(|(pn, endpoint)| joined(at, pn, *endpoint));
        [self.record(at)].into_iter().chain(joined).collect()
    }

    fn record(&self, at: usize) -> DirectoryChange {
        DirectoryChange::Group(GroupState {
            gn: gn(at),
            name: GroupName::new(&format!("g{at}")).expect("a name"),
            mgid: self.groups[at].mgid,
            exclusive: false,
            incomplete: false,
            members_revision: Revision(self.revision),
            route: None,
        })
    }

    fn below(&mut self, count: usize) -> usize {
        self.dice.below(u32::try_from(count).expect("fewer than 2^32")) as usize
    }

    /// A group, and an endpoint that can join it.
    fn draw(&mut self) -> (usize, EndpointId) {
        loop {
            let at = self.below(self.groups.len());
            let endpoint = self.below(self.colors.len());
            let endpoint = EndpointId(u32::try_from(endpoint).expect("32-bit numbers"));
            let color = self.space.color(self.space.spt(self.groups[at].mgid));
            if self.colors[endpoint.index()] & (1 << color) == 0 {
                return (at, endpoint);
            }
        }
    }

    fn join(&mut self, at: usize, endpoint: EndpointId) -> Duration {
        self.change(at, joined(at, u32::MAX, endpoint))
    }

    fn leave(&mut self, at: usize) -> Duration {
        self.change(at, DirectoryChange::Left { gn: gn(at), pn: Pn(u32::MAX) })
    }

    /// Changes a member of a group; returns the time until the turn is over.
    fn change(&mut self, at: usize, change: DirectoryChange) -> Duration {
        self.revision += 1;
        let changes = vec![self.record(at), change];
        let update = DirectoryUpdate { revision: Revision(self.revision), changes };
        let time = self.timed(WatchEvent::Delta(update));
        self.rest();
        time
    }

    /// Makes a turn because of a change that concerns no route.
    fn turn_without_work(&mut self) -> Duration {
        self.revision += 1;
        let update = DirectoryUpdate { revision: Revision(self.revision), changes: Vec::new() };
        self.timed(WatchEvent::Delta(update))
    }

    /// Cuts a link and mends it; returns the time until all entries after the cut are written.
    fn cut(&mut self) -> Duration {
        let at = self.below(self.links.len());
        let link = self.links[at];
        let mut time = Duration::ZERO;
        for failed in [vec![FailedElement::Link(link)], Vec::new()] {
            self.revision += 1;
            let changes = vec![DirectoryChange::Failed(failed)];
            let update = DirectoryUpdate { revision: Revision(self.revision), changes };
            let took = self.timed(WatchEvent::Delta(update));
            time = if time.is_zero() { took } else { time };
            (0..10).for_each(|_| self.rest());
        }
        time
    }

    #[expect(clippy::disallowed_methods, reason = "a bench measures time")]
    fn timed(&mut self, event: WatchEvent) -> Duration {
        let started = Instant::now();
        self.watch(event);
        self.turn();
        started.elapsed()
    }

    fn watch(&mut self, event: WatchEvent) {
        self.reconciler.handle(self.now, Input::Watch(event));
    }

    /// Lets time pass until every drain is over.
    fn rest(&mut self) {
        self.now = self.now.after(PAUSE);
        self.turn();
    }

    fn turn(&mut self) {
        self.reconciler.handle(self.now, Input::Deadline);
        while let Some(output) = self.reconciler.poll_output() {
            let input = self.carry_out(output);
            self.reconciler.handle(self.now, input);
        }
    }

    fn carry_out(&mut self, output: Output) -> Input {
        Input::Reply(match output {
            Output::Record(_) => Reply::Recorded(Ok(())),
            Output::List { .. } => Reply::Listed(Ok(self.graph.switches().collect())),
            Output::ReadBack { switches, .. } => {
                // All tables are empty at the first reading, and there is no other.
                let all: Vec<SwitchId> = self.graph.switches().collect();
                for switch in if switches.is_empty() { all } else { switches } {
                    let table = SwitchTable { switch, entries: Vec::new() };
                    self.reconciler.handle(self.now, Input::Table(table));
                }
                Reply::Read(Ok(()))
            }
            Output::Write { .. } => Reply::Written(Ok(Vec::new())),
            Output::Report(_) => Reply::Reported(Ok(())),
            Output::EndTurn(_) => return Input::TurnEnded { pause: Duration::ZERO },
        })
    }
}

fn gn(at: usize) -> Gn {
    Gn(u64::try_from(at).expect("64-bit numbers") + 1)
}

fn joined(at: usize, pn: u32, endpoint: EndpointId) -> DirectoryChange {
    let endpoint = RecordedEndpoint::Known(endpoint);
    let member = CachedMember { endpoint, joined: Revision(0), sends_only: false };
    DirectoryChange::Joined { gn: gn(at), pn: Pn(pn), member }
}
