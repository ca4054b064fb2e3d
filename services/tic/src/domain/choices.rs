//! Choices of engines that cannot be computed again, kept for the next route service.
//!
//! The TIC does not know what the numbers mean. It keeps one text for each group and ensures that
//! they belong together: all were made with one scheme, and a report is taken as a whole or not at
//! all. The choice of a group that is gone stays until the route service knows of that, because
//! other groups may share a tree that is recorded there.

pub(crate) mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::ids::{Gn, Revision};
use thiserror::Error;

use crate::domain::choices::text::{Texts, Topic};

/// Most groups of which choices are kept.
const MAX_GROUPS: usize = 1 << 20;
/// Groups that are looked up in the records at once.
const CHUNK: usize = 4_096;

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

/// Reason why a report is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ChoiceError {
    #[error("fence: report {number} of term {term} has been taken over")]
    Stale { term: u64, number: u64 },
    #[error("changed: choices are kept of at most {MAX_GROUPS} groups")]
    TooManyGroups,
}

/// The changes that a report makes: the new text of a subject, or `None` to delete it.
pub(crate) type Edits = BTreeMap<Topic, Option<Arc<str>>>;

/// Returns those of some groups that do not exist any more.
pub(crate) type FindGone<'a> = dyn Fn(&[Gn]) -> Vec<Gn> + 'a;

/// The choices that are durable.
#[derive(Debug, Default)]
pub(crate) struct ChoiceRecords {
    texts: Texts,
}

impl ChoiceRecords {
    /// Starts with the stored texts.
    pub(crate) fn new(texts: Texts) -> Self {
        Self { texts }
    }

    pub(crate) fn texts(&self) -> &Texts {
        &self.texts
    }

    /// Computes the changes that a report makes.
    ///
    /// - `gone`: asked for at most [`CHUNK`] groups at once; `None` if the report does not know of
    ///   all groups.
    /// - Cost: linear in the report; in all choices if the report has seen the newest records.
    ///
    /// # Errors
    ///
    /// [`ChoiceError`] if there would be too many groups.
    pub(crate) fn edits(
        &self,
        report: &ChoiceReport,
        gone: Option<&FindGone<'_>>,
    ) -> Result<Edits, ChoiceError> {
        let new = report.groups.keys().filter(|gn| !self.texts.contains_key(&Topic::Group(**gn)));
        if self.texts.len() + new.count() > MAX_GROUPS + 2 {
            return Err(ChoiceError::TooManyGroups);
        }
        let mut wanted = Edits::new();
        if self.texts.get(&Topic::Scheme) != Some(&report.scheme) {
            wanted.extend(self.texts.keys().map(|topic| (*topic, None)));
        }
        wanted.insert(Topic::Scheme, Some(Arc::clone(&report.scheme)));
        wanted.insert(Topic::Failed, Some(Arc::clone(&report.failed)));
        let groups = report.groups.iter();
        wanted.extend(groups.map(|(gn, text)| (Topic::Group(*gn), text.clone())));
        if let Some(gone) = gone {
            let mut groups: BTreeSet<Gn> = self.texts.keys().filter_map(group_of).collect();
            groups.extend(report.groups.keys());
            let groups: Vec<Gn> = groups.into_iter().collect();
            let gone = groups.chunks(CHUNK).flat_map(gone);
            wanted.extend(gone.map(|gn| (Topic::Group(gn), None)));
        }
        wanted.retain(|topic, text| self.texts.get(topic) != text.as_ref());
        Ok(wanted)
    }

    /// Takes over changes that are durable; returns the number of groups that have choices then.
    pub(crate) fn apply(&mut self, edits: Edits) -> usize {
        for (topic, text) in edits {
            match text {
                Some(text) => self.texts.insert(topic, text),
                None => self.texts.remove(&topic),
            };
        }
        let others = [Topic::Scheme, Topic::Failed];
        self.texts.len() - others.iter().filter(|topic| self.texts.contains_key(topic)).count()
    }
}

/// The group that a subject is about.
fn group_of(topic: &Topic) -> Option<Gn> {
    match topic {
        Topic::Group(gn) => Some(*gn),
        Topic::Scheme | Topic::Failed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let groups = records
            .texts()
            .iter()
            .filter_map(|(topic, text)| Some((group_of(topic)?.0, text.to_string())));
        groups.collect()
    }

    /// Takes a report over that does not know of all groups; returns what it changes.
    fn take(records: &mut ChoiceRecords, report: &ChoiceReport) -> Edits {
        let edits = records.edits(report, None).unwrap();
        records.apply(edits.clone());
        edits
    }

    #[test]
    fn only_what_differs_is_written() {
        let mut records = ChoiceRecords::default();
        let first = report(1, "s", &[(1, Some("a")), (2, Some("b"))]);
        assert_eq!(take(&mut records, &first).len(), 4, "scheme and faults, too");
        assert_eq!(take(&mut records, &first), Edits::new(), "a repetition changes nothing");
        let next = report(2, "s", &[(1, Some("a")), (2, Some("c")), (3, None)]);
        let wanted = Edits::from([(Topic::Group(Gn(2)), Some("c".into()))]);
        assert_eq!(take(&mut records, &next), wanted);
        assert_eq!(groups(&records), [(1, "a".to_owned()), (2, "c".to_owned())]);
    }

    #[test]
    fn another_scheme_drops_everything() {
        let mut records = ChoiceRecords::default();
        let groups_before = [(1, Some("a")), (2, Some("b")), (3, Some("c"))];
        take(&mut records, &report(1, "s", &groups_before));
        let edits = take(&mut records, &report(2, "t", &[(3, Some("c")), (4, Some("d"))]));
        assert_eq!(groups(&records), [(3, "c".to_owned()), (4, "d".to_owned())]);
        assert_eq!(edits[&Topic::Group(Gn(2))], None);
        assert!(!edits.contains_key(&Topic::Group(Gn(3))), "it stays");
    }

    #[test]
    fn groups_that_are_gone_go_with_a_report_that_has_seen_all() {
        let mut records = ChoiceRecords::default();
        let all: Vec<_> = (1..=2 * CHUNK as u64 + 1).map(|gn| (gn, Some("a"))).collect();
        take(&mut records, &report(1, "s", &all));
        let gone = |groups: &[Gn]| {
            assert!(groups.len() <= CHUNK);
            groups.iter().copied().filter(|gn| gn.0.is_multiple_of(2)).collect()
        };
        let edits = records.edits(&report(2, "s", &[(2, Some("b"))]), Some(&gone)).unwrap();
        assert!(edits.values().all(Option::is_none), "also one that the report names");
        assert_eq!((edits.len(), records.apply(edits)), (CHUNK, CHUNK + 1));
    }

    #[test]
    fn there_is_a_bound_of_groups() {
        let mut records = ChoiceRecords::default();
        let all: Vec<_> = (1..=MAX_GROUPS as u64).map(|gn| (gn, Some("a"))).collect();
        take(&mut records, &report(1, "s", &all));
        let known = records.edits(&report(2, "s", &[(1, Some("b"))]), None);
        assert_eq!(known.unwrap().len(), 1);
        let more = [(MAX_GROUPS as u64 + 1, Some("b")), (MAX_GROUPS as u64 + 2, Some("b"))];
        let refused = records.edits(&report(3, "s", &more), None);
        assert_eq!(refused.unwrap_err(), ChoiceError::TooManyGroups);
    }
}
