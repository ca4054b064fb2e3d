//! Choices of engines that cannot be computed again, kept for the next route service.
//!
//! The TIC does not know what the numbers mean. It keeps one text for each group and ensures that
//! they belong together: all were made with one scheme, and a report is taken as a whole or not at
//! all. The choice of a group that is gone stays until the route service knows of that, because
//! other groups may share a tree that is recorded there.
//!
//! Invariants
//! - CHOICE-1: the choices kept are those that the newest acknowledged report left, whole.

pub(crate) mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_groups::directory::Directory;
use fabricast_groups::ids::{Gn, Revision};
use thiserror::Error;

use crate::domain::choices::text::{Texts, Topic};
use crate::records::keys::Puts;

/// Most groups of which choices are kept.
const MAX_GROUPS: usize = 1 << 20;

/// A checked report of a route service.
#[derive(Debug)]
pub(crate) struct ChoiceReport {
    /// Term of the route service.
    pub(crate) term: u64,
    /// Number of the report within the term.
    pub(crate) number: u64,
    /// Revision of the records that the choices were made for.
    pub(crate) seen: Revision,
    pub(crate) scheme: Arc<str>,
    pub(crate) failed: Arc<str>,
    /// The groups that changed; `None` for those without a choice to keep.
    pub(crate) groups: BTreeMap<Gn, Option<Arc<str>>>,
}

/// Why a report is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ChoiceError {
    #[error("fence: report {number} of term {term} has been taken over")]
    Stale { term: u64, number: u64 },
    #[error("changed: choices are kept of at most {MAX_GROUPS} groups")]
    TooManyGroups,
}

/// The choices as the writer has them, ahead of the store by the batch it is deciding.
#[derive(Debug, Default)]
pub(crate) struct ChoiceRecords {
    texts: Texts,
    /// Term and number of the newest report.
    newest: (u64, u64),
    /// The values before each change of the batch, oldest first.
    undo: Vec<(Topic, Option<Arc<str>>)>,
}

impl ChoiceRecords {
    /// Starts with the stored texts.
    pub(crate) fn new(texts: Texts) -> Self {
        Self { texts, ..Self::default() }
    }

    /// Copies all texts.
    pub(crate) fn view(&self) -> Texts {
        self.texts.clone()
    }

    /// Takes a report, of which the term was checked; returns the number of groups that have
    /// choices then.
    ///
    /// # Errors
    ///
    /// [`ChoiceError`] if a newer report of the term came before, or it has too many groups.
    pub(crate) fn record(
        &mut self,
        report: &ChoiceReport,
        directory: &Directory,
        puts: &mut Puts,
    ) -> Result<usize, ChoiceError> {
        let fence = (report.term, report.number);
        if fence < self.newest {
            let (term, number) = self.newest;
            return Err(ChoiceError::Stale { term, number });
        }
        let new = report.groups.keys().filter(|gn| !self.texts.contains_key(&Topic::Group(**gn)));
        if self.texts.len() + new.count() > MAX_GROUPS {
            return Err(ChoiceError::TooManyGroups);
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

    /// Undoes the batch, which the store refused.
    pub(crate) fn roll_back(&mut self) {
        while let Some((topic, before)) = self.undo.pop() {
            match before {
                Some(text) => self.texts.insert(topic, text),
                None => self.texts.remove(&topic),
            };
        }
    }

    /// Starts again with the stored texts; older reports stay refused.
    pub(crate) fn start_over(&mut self, texts: Texts) {
        *self = Self { texts, newest: self.newest, undo: Vec::new() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricast_groups::directory::Limits;
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

    fn groups(records: &ChoiceRecords) -> Vec<(u64, String)> {
        let groups = records.view().into_iter().filter_map(|(topic, text)| match topic {
            Topic::Group(gn) => Some((gn.0, text.to_string())),
            Topic::Scheme | Topic::Failed => None,
        });
        groups.collect()
    }

    #[test]
    fn only_what_differs_is_written() {
        let (mut records, mut puts) = (ChoiceRecords::default(), Puts::new());
        let first = report(1, "s", &[(1, Some("a")), (2, Some("b"))]);
        assert_eq!(records.record(&first, &later(), &mut puts).unwrap(), 2);
        assert_eq!(puts.len(), 4, "scheme and faults, too");
        puts.clear();
        assert_eq!(records.record(&first, &later(), &mut puts).unwrap(), 2);
        assert_eq!(puts, Puts::new(), "a repetition changes nothing");
        let next = report(2, "s", &[(1, Some("a")), (2, Some("c")), (3, None)]);
        assert_eq!(records.record(&next, &later(), &mut puts).unwrap(), 2);
        assert_eq!(
            puts.into_iter().collect::<Vec<_>>(),
            [(text::key(Topic::Group(Gn(2))), Some(b"c".to_vec()))]
        );
    }

    #[test]
    fn another_scheme_drops_everything() {
        let (mut records, mut puts) = (ChoiceRecords::default(), Puts::new());
        let first = report(1, "s", &[(1, Some("a")), (2, Some("b")), (3, Some("c"))]);
        records.record(&first, &later(), &mut puts).unwrap();
        records.record(&report(2, "t", &[(4, Some("d"))]), &later(), &mut puts).unwrap();
        assert_eq!(groups(&records), [(4, "d".to_owned())]);
        assert_eq!(puts[&text::key(Topic::Group(Gn(2)))], None);
    }

    #[test]
    fn a_batch_that_the_store_refused_is_undone() {
        let (mut records, mut puts) = (ChoiceRecords::default(), Puts::new());
        records.record(&report(1, "s", &[(1, Some("a"))]), &later(), &mut puts).unwrap();
        records.committed();
        let before = records.view();
        let new = report(2, "s", &[(1, Some("b")), (2, Some("new"))]);
        records.record(&new, &later(), &mut puts).unwrap();
        records.record(&report(3, "t", &[(1, Some("c"))]), &later(), &mut puts).unwrap();
        records.roll_back();
        assert_eq!(records.view(), before);
    }

    #[test]
    fn a_late_report_is_refused() {
        let (mut records, mut puts) = (ChoiceRecords::default(), Puts::new());
        records.record(&report(2, "s", &[(1, Some("a"))]), &later(), &mut puts).unwrap();
        let late = records.record(&report(1, "s", &[(1, Some("b"))]), &later(), &mut puts);
        assert_eq!(late, Err(ChoiceError::Stale { term: 1, number: 2 }));
        assert_eq!(groups(&records), [(1, "a".to_owned())]);
    }
}
