//! G5, the leader's part: no node is expelled that was not probed, or that answered a probe in
//! time. Checked at every expulsion.

use std::collections::BTreeMap;

use fabricast_groups::Moment;
use fabricast_groups::watch::NodeIncarnation;

use crate::settings::DETECTOR;

/// Probes of one leader that have not been answered.
#[derive(Debug, Default)]
pub(crate) struct OpenProbes(BTreeMap<NodeIncarnation, Vec<(u64, Moment)>>);

impl OpenProbes {
    /// Records a probe.
    pub(crate) fn sent(&mut self, incarnation: NodeIncarnation, probe: u64, now: Moment) {
        self.0.entry(incarnation).or_default().push((probe, now));
    }

    /// Records an answer.
    pub(crate) fn answered(&mut self, incarnation: &NodeIncarnation, probe: u64) {
        if let Some(asked) = self.0.get_mut(incarnation) {
            asked.retain(|(number, _)| *number > probe);
        }
    }

    /// Checks an expulsion: the last probes must all have timed out.
    pub(crate) fn expelled(&mut self, incarnation: &NodeIncarnation, now: Moment) {
        let probing = DETECTOR.probing;
        let asked = self.0.remove(incarnation).unwrap_or_default();
        let waited = asked.iter().rev().zip(1..).all(|((_, at), back)| {
            back > probing.attempts || now.since(*at) >= probing.timeout * back
        });
        let enough = u32::try_from(asked.len()).is_ok_and(|count| count >= probing.attempts);
        assert!(
            waited && enough,
            "G5: {incarnation:?} is expelled unasked, or too soon: {asked:?}"
        );
    }
}
