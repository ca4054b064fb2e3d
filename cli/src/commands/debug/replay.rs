//! `fabricast debug replay`: runs a recording of a route service again.

mod sections;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fabricast_groups::Moment;
use fabricast_groups::ids::Gn;
use fabricast_groups::record::{Route, RouteState};
use fabricast_reconciler::{
    DirectoryChange, DirectoryUpdate, FailedElement, Input, Output, RecordedEndpoint, Replay,
    ReplayError, Reply, Step, StepKind, SwitchWrite, TurnEnd, WatchEvent, WriteReason,
};
use fabricast_topology::{Graph, PortSet, SwitchId};
use serde::Serialize;

use crate::args::Format;
use crate::failure::Failure;
use crate::output;
use sections::{Problem, ReadSection, SectionToPlay, Sections};

/// Flags of `debug replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Recording, as `debug bundle` saves it (`route-service.recording`), or a folder of segments:
    /// `recordings` of a bundle, `recording_folder` of a route service, or one file there.
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,
    /// Print only lines that name this group.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Print only lines that name this switch, by node id or description.
    #[arg(long, value_name = "SWITCH")]
    switch: Option<String>,
}

/// One line of the output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    /// Number of the section, from 0.
    section: usize,
    /// Number of the step in the section.
    step: usize,
    /// Seconds before the recording was taken, as a negative number; of a segment, seconds since
    /// it began.
    seconds: f64,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    switch: Option<String>,
    groups: BTreeSet<String>,
}

/// Counts of a replay.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    sections: usize,
    steps: usize,
    written_entries: usize,
}

/// Results of all sections together.
#[derive(Debug, Default)]
struct Totals {
    summary: Summary,
    /// True once a line has named the group.
    has_group: bool,
    /// True once a topology has the switch.
    has_switch: bool,
}

impl ReplayArgs {
    /// Plays all sections. The beginning of a file that is torn or damaged is played, too, and the
    /// sections after one that differs, as those of other versions do.
    ///
    /// # Errors
    ///
    /// A file that is no recording or is damaged, names that it does not have, and a step that
    /// differs.
    pub(crate) fn replay(&self, format: Format) -> Result<(), Failure> {
        let mut totals = Totals::default();
        let (mut damages, mut differences) = (Vec::new(), Vec::new());
        for ReadSection { section, problem } in Sections::open(&self.file)? {
            let while_played = match section {
                Some(section) => self.play(format, &section, &mut totals)?,
                None => None,
            };
            for problem in [problem, while_played].into_iter().flatten() {
                match problem {
                    Problem::Torn(text) => output::notice(&format!("fabricast: {text}")),
                    Problem::Damaged(text) => damages.push(text),
                    Problem::Differs(text) => differences.push(text),
                }
            }
        }
        if !damages.is_empty() {
            return Err(Failure::input([damages, differences].concat().join("; ")));
        }
        if !differences.is_empty() {
            return Err(Failure::No(differences.join("; ")));
        }
        self.end(format, &totals)
    }

    /// Plays a section; returns the reason why it was not played to its end.
    fn play(
        &self,
        format: Format,
        played: &SectionToPlay,
        totals: &mut Totals,
    ) -> Result<Option<Problem>, Failure> {
        let SectionToPlay { section, graph, zero, began } = played;
        let number = totals.summary.sections;
        totals.summary.sections += 1;
        let switch = self.switch.as_ref().and_then(|name| switch_label(graph, name));
        totals.has_switch |= switch.is_some();
        let mut printer = Printer {
            format,
            graph: Arc::clone(graph),
            zero: *zero,
            group: self.group.as_deref(),
            selects_switch: self.switch.is_some(),
            switch,
            names: BTreeMap::new(),
            records: BTreeMap::new(),
            totals,
            section: number,
        };
        let problem = |error: ReplayError| {
            let text = format!("section {number}: {error}");
            match error {
                ReplayError::Differs { .. } => Problem::Differs(text),
                ReplayError::Recording(_) | ReplayError::Plan(_) => Problem::Damaged(text),
            }
        };
        let mut replay = match Replay::new(section, Arc::clone(graph)) {
            Ok(replay) => replay,
            Err(error) => return Ok(Some(problem(error))),
        };
        let begins = format!("section {number} begins{began}: a route service without records");
        let when = When { at: section.begins(), step: 0 };
        printer.line(when, begins, None, BTreeSet::new())?;
        loop {
            match replay.step() {
                Ok(Some(step)) => printer.step(&replay, &step)?,
                Ok(None) => return Ok(None),
                Err(error) => return Ok(Some(problem(error))),
            }
        }
    }

    fn refuse(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::input(format!("'{}': {why}", self.file.display()))
    }

    fn end(&self, format: Format, totals: &Totals) -> Result<(), Failure> {
        let Totals { summary, has_group, has_switch } = totals;
        if let Some(name) = self.switch.as_ref().filter(|_| !has_switch) {
            return Err(self.refuse(&format!("no switch is named '{name}'")));
        }
        if let Some(group) = self.group.as_ref().filter(|_| !has_group) {
            return Err(self.refuse(&format!("no group is named '{group}'")));
        }
        output::print_text(&match format {
            Format::Json => format!("{}\n", serde_json::to_string(summary)?),
            Format::Table | Format::Hostlist | Format::Slurm => {
                let Summary { sections, steps, written_entries } = summary;
                format!(
                    "{steps} steps in {sections} sections with {written_entries} written entries: all as recorded\n"
                )
            }
        })
    }
}

/// Label of the switch with a node id or description.
fn switch_label(graph: &Graph, name: &str) -> Option<String> {
    let is_named =
        |id: &SwitchId| graph.switch_name(*id) == name || graph.switch_description(*id) == name;
    graph.switches().find(is_named).map(|switch| graph.switch_label(switch))
}

/// Place of a line.
#[derive(Clone, Copy)]
struct When {
    at: Moment,
    step: usize,
}

/// Prints the steps of a replay.
struct Printer<'a> {
    format: Format,
    graph: Arc<Graph>,
    /// Moment from which seconds count.
    zero: Moment,
    group: Option<&'a str>,
    /// True if only lines of one switch are printed.
    selects_switch: bool,
    /// Label of that switch, if the topology has it.
    switch: Option<String>,
    /// Names of the groups.
    names: BTreeMap<Gn, String>,
    /// Texts of the groups' records: reported routes come back as records.
    records: BTreeMap<Gn, String>,
    totals: &'a mut Totals,
    section: usize,
}

impl Printer<'_> {
    fn step(&mut self, replay: &Replay<'_>, step: &Step) -> Result<(), Failure> {
        self.totals.summary.steps += 1;
        let when = When { at: step.at, step: step.number };
        match &step.kind {
            StepKind::Input(Input::Watch(event)) => match event {
                WatchEvent::Snapshot(parts) => self.snapshot(when, parts),
                WatchEvent::Delta(update) => {
                    for change in &update.changes {
                        if let Some((text, groups)) = self.change(change) {
                            self.line(when, text, None, groups)?;
                        }
                    }
                    Ok(())
                }
                WatchEvent::Lost => self.fact(when, "the watch of the TIC is lost"),
            },
            StepKind::Input(Input::Reply(reply)) => self.reply(when, reply),
            StepKind::Input(Input::Table(table)) => {
                let text = format!("read {} entries", table.entries.len());
                let switch = self.graph.switch_label(table.switch);
                self.line(when, text, Some(switch), BTreeSet::new())
            }
            StepKind::Input(Input::TurnEnded { pause }) if !pause.is_zero() => {
                self.fact(when, &format!("the next attempt follows after {pause:?}"))
            }
            StepKind::Input(Input::Timing(timing)) => {
                self.fact(when, &format!("new settings: {timing:?}"))
            }
            StepKind::Input(Input::Loads(_)) => self.fact(when, "new loads of the ports"),
            StepKind::Input(Input::Deadline | Input::TurnEnded { .. }) | StepKind::SameTable(_) => {
                Ok(())
            }
            StepKind::Output(output, reason) => self.output(replay, step, output, *reason),
        }
    }

    fn snapshot(&mut self, when: When, parts: &[DirectoryUpdate]) -> Result<(), Failure> {
        self.names.clear();
        self.records.clear();
        let (mut members, mut failed) = (0, 0);
        for change in parts.iter().flat_map(|part| &part.changes) {
            match change {
                DirectoryChange::Joined { .. } => members += 1,
                DirectoryChange::Failed(parts) => failed = parts.len(),
                DirectoryChange::Group(_)
                | DirectoryChange::Deleted(_)
                | DirectoryChange::Left { .. } => {}
            }
            self.change(change);
        }
        let groups = self.names.len();
        let revision = parts.iter().map(|part| part.revision.0).max().unwrap_or_default();
        let text = format!(
            "records at revision {revision}: {groups} groups, {members} members, {failed} failed parts"
        );
        let names = self.names.values().cloned().collect();
        self.line(when, text, None, names)
    }

    /// Text of a change and the groups that it concerns; `None` if it is none.
    fn change(&mut self, change: &DirectoryChange) -> Option<(String, BTreeSet<String>)> {
        if let DirectoryChange::Group(state) = change {
            self.names.insert(state.gn, state.name.as_str().to_owned());
        }
        Some(match change {
            DirectoryChange::Group(state) => {
                let mut text = format!("record of group {}: MGID {}", state.name, state.mgid.0);
                if state.exclusive {
                    text.push_str(", exclusive");
                }
                if state.incomplete {
                    text.push_str(", waits for members");
                }
                let before = self.records.insert(state.gn, text.clone());
                if before.as_ref() == Some(&text) {
                    return None;
                }
                (text, BTreeSet::from([state.name.as_str().to_owned()]))
            }
            DirectoryChange::Deleted(gn) => {
                (format!("group {} has ended", self.name(*gn)), BTreeSet::from([self.name(*gn)]))
            }
            DirectoryChange::Joined { gn, pn, member } => {
                let endpoint = match &member.endpoint {
                    RecordedEndpoint::Known(endpoint) => self.graph.endpoint_name(*endpoint),
                    RecordedEndpoint::Unknown(name) => name.as_str(),
                };
                let name = self.name(*gn);
                (format!("rank {pn} joins {name} at {endpoint}"), BTreeSet::from([name]))
            }
            DirectoryChange::Left { gn, pn } => {
                let name = self.name(*gn);
                (format!("rank {pn} leaves {name}"), BTreeSet::from([name]))
            }
            DirectoryChange::Failed(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.failed(*part)).collect();
                let parts = if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
                (format!("failed parts: {parts}"), BTreeSet::new())
            }
        })
    }

    fn failed(&self, part: FailedElement) -> String {
        match part {
            FailedElement::Link(port) => format!("link at {}", self.graph.port_label(port)),
            FailedElement::Switch(switch) => self.graph.switch_label(switch),
            FailedElement::Endpoint(endpoint) => self.graph.endpoint_name(endpoint).to_owned(),
        }
    }

    fn reply(&mut self, when: When, reply: &Reply) -> Result<(), Failure> {
        let error = match reply {
            Reply::Written(Ok(refusals)) => {
                for refusal in refusals {
                    let text = format!("refused: {}", refusal.error.message);
                    let switch = refusal.switch.map(|switch| self.graph.switch_label(switch));
                    let switch = switch.unwrap_or_else(|| refusal.switch_name.clone());
                    self.line(when, text, Some(switch), BTreeSet::new())?;
                }
                None
            }
            Reply::Recorded(answer) | Reply::Read(answer) | Reply::Reported(answer) => {
                answer.as_ref().err()
            }
            Reply::Listed(answer) => answer.as_ref().err(),
            Reply::Written(Err(error)) => Some(error),
        };
        let text = error.map(|error| format!("the call failed: {}", error.message));
        text.map_or(Ok(()), |text| self.fact(when, &text))
    }

    fn output(
        &mut self,
        replay: &Replay<'_>,
        step: &Step,
        output: &Output,
        reason: Option<WriteReason>,
    ) -> Result<(), Failure> {
        let when = When { at: step.at, step: step.number };
        match output {
            Output::Record(report) => {
                let (changed, removed) = (report.changed.len(), report.removed.len());
                let text = format!("record choices: {changed} groups, {removed} removed");
                self.fact(when, &text)
            }
            Output::ReadBack { agent, switches } if switches.is_empty() => {
                self.fact(when, &format!("read all tables of switch agent {agent}"))
            }
            Output::Write { generation, writes, .. } => {
                let why = reason.map_or("", reason_text);
                for write in writes {
                    for (entry, groups) in self.entries(replay, write) {
                        self.totals.summary.written_entries += 1;
                        let text = format!("write {generation}: {entry}, {why}");
                        let switch = Some(self.graph.switch_label(write.switch));
                        self.line(when, text, switch, groups)?;
                    }
                }
                Ok(())
            }
            Output::Report(report) => {
                for group in &report.routes {
                    let name = self.name(group.gn);
                    let text = format!("report route of {name}: {}", route_text(&group.route));
                    self.line(when, text, None, BTreeSet::from([name]))?;
                }
                Ok(())
            }
            Output::EndTurn(TurnEnd::Incomplete(why)) => {
                self.fact(when, &format!("left undone: {why}"))
            }
            Output::EndTurn(TurnEnd::Deposed) => self.fact(when, "another route service is active"),
            Output::EndTurn(TurnEnd::OtherTopology) => {
                self.fact(when, "the TIC has another topology")
            }
            Output::ReadBack { .. } | Output::List { .. } | Output::EndTurn(TurnEnd::Complete) => {
                Ok(())
            }
        }
    }

    /// Texts of the entries of a write, with the groups whose trees use them.
    fn entries(&self, replay: &Replay<'_>, write: &SwitchWrite) -> Vec<(String, BTreeSet<String>)> {
        let held = replay.reconciler().held(write.switch).into_iter();
        let held: BTreeMap<(u8, u16), PortSet> =
            held.map(|entry| ((entry.in_port, entry.color), entry.out)).collect();
        let entries = write.entries.iter().map(|entry| {
            let before = held.get(&(entry.in_port, entry.color)).copied().unwrap_or_default();
            let (port, color) = (entry.in_port, entry.color);
            let groups = replay.groups_at(write.switch, color);
            let text = format!("port {port} color {color}: {before:?} -> {:?}", entry.out);
            (text, groups.into_iter().map(str::to_owned).collect())
        });
        entries.collect()
    }

    fn name(&self, gn: Gn) -> String {
        self.names.get(&gn).cloned().unwrap_or_else(|| format!("group number {gn}"))
    }

    fn fact(&mut self, when: When, text: &str) -> Result<(), Failure> {
        self.line(when, text.to_owned(), None, BTreeSet::new())
    }

    fn line(
        &mut self,
        when: When,
        text: String,
        switch: Option<String>,
        groups: BTreeSet<String>,
    ) -> Result<(), Failure> {
        let names_group = self.group.is_none_or(|group| groups.contains(group));
        self.totals.has_group |= names_group;
        let names_switch = !self.selects_switch || (switch.is_some() && switch == self.switch);
        if !names_group || !names_switch {
            return Ok(());
        }
        let When { at, step } = when;
        let seconds = at.since(self.zero).as_secs_f64() - self.zero.since(at).as_secs_f64();
        let line = Line { section: self.section, step, seconds, text, switch, groups };
        output::print_text(&match self.format {
            Format::Json => format!("{}\n", serde_json::to_string(&line)?),
            Format::Table | Format::Hostlist | Format::Slurm => line.to_text(),
        })
    }
}

impl Line {
    fn to_text(&self) -> String {
        let switch = self.switch.as_ref().map_or_else(String::new, |name| format!("{name} "));
        let groups: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        // Other lines name their group.
        let groups = match (&self.switch, groups.as_slice()) {
            (Some(_), [_, ..]) => format!(" (groups {})", groups.join(" ")),
            _ => String::new(),
        };
        format!("{:>10.3} s  {switch}{}{groups}\n", self.seconds, self.text)
    }
}

fn route_text(route: &Route) -> String {
    let state = match route.state {
        RouteState::Routed { colors, .. } => format!("color {}", colors.first),
        RouteState::UnicastOnly => "no tree".to_owned(),
    };
    match route.reason.as_str() {
        "" => state,
        reason => format!("{state}: {reason}"),
    }
}

const fn reason_text(reason: WriteReason) -> &'static str {
    match reason {
        WriteReason::ShowTerm => "the term is shown",
        WriteReason::ReplacedTree => "the entry goes to another tree",
        WriteReason::Addition => "added for new or changed trees",
        WriteReason::Swap => "packets change to the new tree",
        WriteReason::Removal => "no sender needs it any more",
    }
}
