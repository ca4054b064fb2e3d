//! Rounds against switch agents that record the calls they get.

use fabricast_topology::PortSet;
use fabricast_topology::spec::TopologySpec;

use super::*;
use crate::interface::{Output, SwitchTable};
use crate::table_state::Write;

/// Two agents, the second with every third switch.
struct Agents {
    graph: Arc<Graph>,
    agents: SwitchAgents,
    /// Readings: index of the agent, and the switches.
    readings: Vec<(usize, Vec<SwitchId>)>,
    /// Switches that hold an entry that was not written.
    altered: BTreeSet<SwitchId>,
    /// Switches that their agent leaves out.
    silent: BTreeSet<SwitchId>,
    /// Agents that do not answer.
    dead: BTreeSet<usize>,
}

impl Agents {
    /// Agents whose eight switches have been read once.
    fn read() -> Self {
        let spec = "kind = 'leaf-spine'\nleaves = 6\nspines = 2\nendpoints_per_leaf = 1\n";
        let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
        let agents = SwitchAgents::new(Arc::clone(&graph), vec!["a".to_owned(), "b".to_owned()]);
        let mut all = Self {
            graph,
            agents,
            readings: Vec::new(),
            altered: BTreeSet::new(),
            silent: BTreeSet::new(),
            dead: BTreeSet::new(),
        };
        assert!(all.read_back().incomplete.is_none());
        assert_eq!(all.agents.table_count(), 8);
        all.readings.clear();
        all
    }

    fn switches(&self, agent: usize) -> Vec<SwitchId> {
        self.graph.switches().filter(|at| usize::from(at.0 % 3 == 0) == agent).collect()
    }

    /// Tables that an agent sends for a reading.
    fn tables(
        &mut self,
        agent: usize,
        switches: Vec<SwitchId>,
    ) -> Result<Vec<SwitchTable>, CallError> {
        self.readings.push((agent, switches.clone()));
        if self.dead.contains(&agent) {
            let message = "no answer".to_owned();
            return Err(CallError { kind: ErrorKind::Other, message });
        }
        let switches = if switches.is_empty() { self.switches(agent) } else { switches };
        let answering = switches.into_iter().filter(|switch| !self.silent.contains(switch));
        let entry = Write { in_port: 1, color: 1, out: PortSet::single(2) };
        let entries = |switch| self.altered.contains(&switch).then_some(entry);
        let table = |switch| SwitchTable { switch, entries: entries(switch).into_iter().collect() };
        Ok(answering.map(table).collect())
    }

    fn read_back(&mut self) -> Outcome {
        let mut work = ReadBack::new(0);
        while let Some(call) = self.agents.next_reading(&mut work) {
            match call.clone() {
                Output::List { agent } => {
                    let switches = self.switches(agent);
                    self.agents.listed(&mut work, Ok(switches));
                }
                Output::Write { .. } => self.agents.fenced(&mut work, Ok(Vec::new())),
                Output::ReadBack { agent, switches } => match self.tables(agent, switches) {
                    Ok(tables) => {
                        for table in tables {
                            self.agents.read_table(&mut work, table, Moment(0));
                        }
                        self.agents.read(&mut work, Ok(()));
                    }
                    Err(error) => self.agents.read(&mut work, Err(error)),
                },
                Output::Record(_) | Output::Report(_) | Output::EndTurn(_) => {
                    panic!("{call:?}")
                }
            }
        }
        work.into_outcome()
    }

    fn compare_some(&mut self, count: usize, dead: &BTreeSet<SwitchId>) -> bool {
        let mut work = self.agents.start_comparing(count, dead);
        while let Some(call) = work.next_call() {
            let Output::ReadBack { agent, switches } = call else { panic!("{call:?}") };
            match self.tables(agent, switches) {
                Ok(tables) => {
                    for table in tables {
                        self.agents.compare_table(&mut work, table, Moment(0));
                    }
                    self.agents.compared(&mut work, Ok(()));
                }
                Err(error) => self.agents.compared(&mut work, Err(error)),
            }
        }
        work.wants_turn()
    }

    fn take_readings(&mut self) -> Vec<(usize, Vec<SwitchId>)> {
        std::mem::take(&mut self.readings)
    }

    fn counts(&self) -> [u64; 2] {
        let list = self.agents.drifts(Moment(0));
        [list.count, list.compared]
    }
}

#[test]
fn a_round_compares_every_table_once_and_no_more_at_a_time_than_allowed() {
    let mut all = Agents::read();
    for _ in 0..3 {
        let mut seen = Vec::new();
        for starts_round in [true, false, false] {
            assert_eq!(all.compare_some(3, &BTreeSet::new()), starts_round);
            let readings = all.take_readings();
            let switches: Vec<SwitchId> = readings.into_iter().flat_map(|(_, some)| some).collect();
            assert!((1..=3).contains(&switches.len()), "{switches:?}");
            seen.extend(switches);
        }
        seen.sort_unstable();
        assert_eq!(seen, all.graph.switches().collect::<Vec<_>>());
    }
    assert_eq!(all.counts(), [0, 3 * 8]);
}

#[test]
fn a_difference_is_counted_and_causes_a_turn_when_its_switch_is_compared() {
    let mut all = Agents::read();
    all.compare_some(1, &BTreeSet::new());
    let last = all.switches(1).pop().unwrap();
    all.altered.insert(last);
    let turns: Vec<bool> = (0..7).map(|_| all.compare_some(1, &BTreeSet::new())).collect();
    assert_eq!(turns, [false, false, false, false, false, false, true]);
    assert_eq!((all.counts()[0], all.agents.tables().held().len()), (1, 1));
}

#[test]
fn an_agent_in_doubt_is_read_by_the_next_turn() {
    let mut all = Agents::read();
    all.dead.insert(0);
    assert!(all.compare_some(8, &BTreeSet::new()));
    assert_eq!(all.take_readings().len(), 2);
    all.compare_some(8, &BTreeSet::new());
    assert_eq!(all.take_readings(), [(1, all.switches(1))]);
    all.dead.clear();
    assert!(all.read_back().incomplete.is_none());
    assert_eq!(all.take_readings(), [(0, Vec::new())]);
}

/// Once per round, and not with every step.
#[test]
fn a_switch_that_was_left_out_is_read_again_when_the_next_round_starts() {
    let mut all = Agents::read();
    let silent = all.switches(0).remove(0);
    all.silent.insert(silent);
    assert!(all.compare_some(8, &BTreeSet::new()));
    all.read_back();
    all.take_readings();
    all.compare_some(8, &BTreeSet::new());
    assert_eq!(all.take_readings(), [], "all agents are in doubt, and the turn reads them");
    all.read_back();
    assert_eq!(all.take_readings().len(), 2);
    // A switch that the TIC reports as dead is not missed.
    let dead = BTreeSet::from([silent]);
    assert!(all.compare_some(8, &dead));
    let readings = all.take_readings();
    assert_eq!(readings.iter().map(|(_, some)| some.len()).sum::<usize>(), 7, "{readings:?}");
    assert_eq!(all.counts()[0], 0);
}
