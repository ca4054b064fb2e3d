//! What engines chose and could not choose again: kept for the next route service.
//!
//! The TIC does not know what the numbers mean. It keeps texts, one for each group, and sees to it
//! that they belong together: all were made with one scheme, and a report is taken over whole or not at
//! all. What belongs to a group that is gone stays until the route service knows of it, as other
//! groups may share a tree that is recorded there.
//!
//! Invariants
//! - CHOICE-1: the choices kept are those that the newest acknowledged report left, whole.

pub(crate) mod report;
pub(crate) mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_groups::directory::Directory;
use fabricast_groups::ids::Gn;
use fabricast_rpc::Reason;
use tonic::Status;

use report::ChoiceReport;

/// Most groups of which choices are kept.
const MAX_GROUPS: usize = 1 << 20;

/// Writes of one transaction: what to put under a key, or that it goes.
pub(crate) type Puts = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What one text is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// How the choices were made.
    Scheme,
    /// The failed parts that they go round.
    Failed,
    /// One group.
    Group(Gn),
}

/// The texts, by what they are about; a copy is cheap but for the map.
pub(crate) type Texts = BTreeMap<Topic, Arc<str>>;

/// The choices as the writer has them, ahead of the store by the batch it is deciding.
#[derive(Debug, Default)]
pub(crate) struct ChoiceDesk {
    texts: Texts,
    /// Term and number of the newest report.
    newest: (u64, u64),
    /// What was there before the batch, newest first when read backwards.
    undo: Vec<(Topic, Option<Arc<str>>)>,
}

impl ChoiceDesk {
    /// Starts with what the store holds.
    pub(crate) fn new(texts: Texts) -> Self {
        Self { texts, ..Self::default() }
    }

    /// Shows everything.
    pub(crate) fn view(&self) -> Texts {
        self.texts.clone()
    }

    /// Takes a report over; answers how many groups have choices then.
    ///
    /// # Errors
    ///
    /// `STALE_FENCE` if a newer report of the term has come before it, `LIMIT_REACHED` if it is about too
    /// many groups. Its term was looked at before.
    pub(crate) fn record(
        &mut self,
        report: &ChoiceReport,
        directory: &Directory,
        puts: &mut Puts,
    ) -> Result<usize, Status> {
        let fence = (report.term, report.number);
        if fence < self.newest {
            let (term, number) = self.newest;
            let message = format!("fence: report {number} of term {term} has been taken over");
            return Err(Reason::StaleFence.status(message, &[("field", "fence")]));
        }
        let new = report.groups.keys().filter(|gn| !self.texts.contains_key(&Topic::Group(**gn)));
        if self.texts.len() + new.count() > MAX_GROUPS {
            let message = format!("changed: choices are kept of at most {MAX_GROUPS} groups");
            return Err(Reason::LimitReached.status(message, &[("field", "changed")]));
        }
        self.newest = fence;
        if self.texts.get(&Topic::Scheme) != Some(&report.scheme) {
            let all: Vec<Topic> = self.texts.keys().copied().collect();
            all.into_iter().for_each(|topic| self.set(topic, None, puts));
        }
        self.set(Topic::Scheme, Some(&report.scheme), puts);
        self.set(Topic::Failed, Some(&report.failed), puts);
        for (gn, text) in &report.groups {
            self.set(Topic::Group(*gn), text.as_ref(), puts);
        }
        if report.seen >= directory.revision() {
            let is_gone = |topic: &Topic| match topic {
                Topic::Group(gn) => directory.group(*gn).is_none(),
                Topic::Scheme | Topic::Failed => false,
            };
            let gone: Vec<Topic> = self.texts.keys().copied().filter(is_gone).collect();
            gone.into_iter().for_each(|topic| self.set(topic, None, puts));
        }
        Ok(self.texts.len() - 2)
    }

    fn set(&mut self, topic: Topic, text: Option<&Arc<str>>, puts: &mut Puts) {
        if self.texts.get(&topic) == text {
            return;
        }
        let before = match text {
            Some(text) => self.texts.insert(topic, Arc::clone(text)),
            None => self.texts.remove(&topic),
        };
        self.undo.push((topic, before));
        puts.insert(text::key(topic), text.map(|text| text.as_bytes().to_vec()));
    }

    /// Notes that the batch is durable.
    pub(crate) fn committed(&mut self) {
        self.undo.clear();
    }

    /// Takes the batch back, as the store refused it.
    pub(crate) fn roll_back(&mut self) {
        while let Some((topic, before)) = self.undo.pop() {
            match before {
                Some(text) => self.texts.insert(topic, text),
                None => self.texts.remove(&topic),
            };
        }
    }

    /// Starts again from what the store holds; older reports stay refused.
    pub(crate) fn start_over(&mut self, texts: Texts) {
        *self = Self { texts, newest: self.newest, undo: Vec::new() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricast_groups::directory::Limits;
    use fabricast_groups::ids::Revision;
    use fabricast_groups::record::Change;

    /// A directory without groups that the reports have not seen yet.
    fn later() -> Directory {
        let mut directory =
            Directory::load(Limits::default(), Vec::<(String, Vec<u8>)>::new()).unwrap();
        directory.apply(&Change::RevisionPut(Revision(5)));
        directory
    }

    fn report(number: u64, scheme: &str, groups: &[(u64, Option<&str>)]) -> ChoiceReport {
        let groups = groups.iter().map(|(gn, text)| (Gn(*gn), text.map(Arc::from)));
        ChoiceReport {
            term: 1,
            number,
            scheme: scheme.into(),
            seen: Revision(4),
            failed: "".into(),
            groups: groups.collect(),
        }
    }

    fn groups(desk: &ChoiceDesk) -> Vec<(u64, String)> {
        let groups = desk.view().into_iter().filter_map(|(topic, text)| match topic {
            Topic::Group(gn) => Some((gn.0, text.to_string())),
            Topic::Scheme | Topic::Failed => None,
        });
        groups.collect()
    }

    #[test]
    fn only_what_differs_is_written() {
        let (mut desk, mut puts) = (ChoiceDesk::default(), Puts::new());
        let first = report(1, "s", &[(1, Some("a")), (2, Some("b"))]);
        assert_eq!(desk.record(&first, &later(), &mut puts).unwrap(), 2);
        assert_eq!(puts.len(), 4, "scheme and faults, too");
        puts.clear();
        assert_eq!(desk.record(&first, &later(), &mut puts).unwrap(), 2);
        assert_eq!(puts, Puts::new(), "a repetition changes nothing");
        let next = report(2, "s", &[(1, Some("a")), (2, Some("c")), (3, None)]);
        assert_eq!(desk.record(&next, &later(), &mut puts).unwrap(), 2);
        assert_eq!(
            puts.into_iter().collect::<Vec<_>>(),
            [(text::key(Topic::Group(Gn(2))), Some(b"c".to_vec()))]
        );
    }

    #[test]
    fn another_scheme_drops_everything() {
        let (mut desk, mut puts) = (ChoiceDesk::default(), Puts::new());
        let first = report(1, "s", &[(1, Some("a")), (2, Some("b")), (3, Some("c"))]);
        desk.record(&first, &later(), &mut puts).unwrap();
        desk.record(&report(2, "t", &[(4, Some("d"))]), &later(), &mut puts).unwrap();
        assert_eq!(groups(&desk), [(4, "d".to_owned())]);
        assert_eq!(puts[&text::key(Topic::Group(Gn(2)))], None);
    }

    #[test]
    fn what_the_store_refused_is_taken_back() {
        let (mut desk, mut puts) = (ChoiceDesk::default(), Puts::new());
        desk.record(&report(1, "s", &[(1, Some("a"))]), &later(), &mut puts).unwrap();
        desk.committed();
        let before = desk.view();
        desk.record(&report(2, "s", &[(1, Some("b"))]), &later(), &mut puts).unwrap();
        desk.record(&report(3, "t", &[(1, Some("c"))]), &later(), &mut puts).unwrap();
        desk.roll_back();
        assert_eq!(desk.view(), before);
    }

    #[test]
    fn a_late_report_is_refused() {
        let (mut desk, mut puts) = (ChoiceDesk::default(), Puts::new());
        desk.record(&report(2, "s", &[(1, Some("a"))]), &later(), &mut puts).unwrap();
        let late = desk.record(&report(1, "s", &[(1, Some("b"))]), &later(), &mut puts);
        assert_eq!(fabricast_rpc::reason_of(&late.unwrap_err()).unwrap(), "STALE_FENCE");
        assert_eq!(groups(&desk), [(1, "a".to_owned())]);
    }
}
