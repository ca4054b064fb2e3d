//! The calls of local processes that are not answered, indexed by what they wait for.
//!
//! A node may have thousands of them, and an input concerns few. An emptied map keeps a node, and
//! most nodes have no calls for long, so that all of it is given back with the last one.

use std::collections::{BTreeMap, BTreeSet};

use super::{CallId, JoinCall, LeaveCall};
use crate::ids::{Gn, Moment, Pn};
use crate::names::GroupName;

/// All calls of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingCalls(Option<Box<Calls>>);

#[derive(Clone, Debug, Default)]
struct Calls {
    all: BTreeMap<CallId, PendingCall>,
    retries: BTreeSet<(Moment, CallId)>, // when their requests are due, again
    deadlines: BTreeSet<(Moment, CallId)>, // when they fail
    granted: BTreeSet<(Gn, Pn, CallId)>,
    doubted: BTreeSet<CallId>, // joins whose answer may be out of date
}

#[derive(Clone, Debug)]
struct PendingCall {
    stage: CallStage,
    retry_at: Moment,
    deadline: Moment,
}

/// Progress of a call.
#[derive(Clone, Debug)]
pub(super) enum CallStage {
    Join(JoinCall),
    Granted(Gn, Pn), // granted by the TIC; the agent's answer is awaited
    Leave(LeaveCall),
}

impl PendingCalls {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |calls| calls.all.len())
    }

    /// All calls, in the order in which they were made.
    pub(super) fn ids(&self) -> Vec<CallId> {
        self.0.iter().flat_map(|calls| calls.all.keys().copied()).collect()
    }

    pub(super) fn stage(&self, id: CallId) -> Option<&CallStage> {
        self.0.as_ref()?.all.get(&id).map(|call| &call.stage)
    }

    /// Adds a call.
    ///
    /// - `stage`: a join or a leave.
    /// - `retry_at`: time at which its request is due.
    /// - `deadline`: time at which it fails.
    pub(super) fn insert(
        &mut self,
        id: CallId,
        stage: CallStage,
        retry_at: Moment,
        deadline: Moment,
    ) {
        let calls = self.0.get_or_insert_default();
        calls.retries.insert((retry_at, id));
        calls.deadlines.insert((deadline, id));
        calls.all.insert(id, PendingCall { stage, retry_at, deadline });
    }

    /// Removes a call. Returns false if there is none.
    pub(super) fn remove(&mut self, id: CallId) -> bool {
        let Some(calls) = &mut self.0 else { return false };
        let Some(call) = calls.all.remove(&id) else { return false };
        calls.retries.remove(&(call.retry_at, id));
        calls.deadlines.remove(&(call.deadline, id));
        calls.doubted.remove(&id);
        if let CallStage::Granted(gn, pn) = call.stage {
            calls.granted.remove(&(gn, pn, id));
        }
        if calls.all.is_empty() {
            self.0 = None;
        }
        true
    }

    /// Records that the TIC has granted a join.
    pub(super) fn grant(&mut self, id: CallId, gn: Gn, pn: Pn) {
        let Some(calls) = &mut self.0 else { return };
        let Some(call) = calls.all.get_mut(&id) else { return };
        call.stage = CallStage::Granted(gn, pn);
        calls.granted.insert((gn, pn, id));
        calls.doubted.remove(&id);
    }

    /// Records that the answer to a join may be out of date.
    pub(super) fn doubt(&mut self, id: CallId) {
        if let Some(calls) = &mut self.0 {
            calls.doubted.insert(id);
        }
    }

    /// Makes the doubted joins to a group due. Returns whether there are any.
    pub(super) fn retry_doubted(&mut self, now: Moment, group: &GroupName) -> bool {
        let Some(calls) = &mut self.0 else { return false };
        let Calls { all, retries, doubted, .. } = &mut **calls;
        let before = doubted.len();
        doubted.retain(|id| {
            let Some(call) = all.get_mut(id) else { return false };
            let is_of_group =
                matches!(&call.stage, CallStage::Join(join) if join.group.name == *group);
            if is_of_group {
                retries.remove(&(call.retry_at, *id));
                retries.insert((now, *id));
                call.retry_at = now;
            }
            !is_of_group
        });
        doubted.len() < before
    }

    /// Takes the calls whose requests are due, in the order in which they were made.
    ///
    /// - `repeat_at`: time at which they are due again.
    pub(super) fn take_due(&mut self, now: Moment, repeat_at: Moment) -> Vec<CallId> {
        let Some(calls) = &mut self.0 else { return Vec::new() };
        let due = due(&calls.retries, now);
        for id in &due {
            if let Some(call) = calls.all.get_mut(id) {
                calls.retries.remove(&(call.retry_at, *id));
                calls.retries.insert((repeat_at, *id));
                call.retry_at = repeat_at;
            }
        }
        due
    }

    /// The calls that have failed by now, in the order in which they were made.
    pub(super) fn late(&self, now: Moment) -> Vec<CallId> {
        self.0.as_ref().map_or_else(Vec::new, |calls| due(&calls.deadlines, now))
    }

    /// Time at which the next request is due.
    pub(super) fn next_retry(&self) -> Option<Moment> {
        self.0.as_ref()?.retries.first().map(|(at, _)| *at)
    }

    /// Time at which the next call fails.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.0.as_ref()?.deadlines.first().map(|(at, _)| *at)
    }

    /// The granted joins that wait for the place of a membership.
    pub(super) fn waiting_for(&self, gn: Gn, pn: Pn) -> Vec<CallId> {
        let Some(calls) = &self.0 else { return Vec::new() };
        let waiting = calls.granted.range((gn, pn, CallId(0))..=(gn, pn, CallId(u64::MAX)));
        waiting.map(|(_, _, id)| *id).collect()
    }

    /// All granted joins, in the order in which they were made.
    pub(super) fn granted(&self) -> Vec<CallId> {
        let granted = self.0.iter().flat_map(|calls| &calls.granted);
        let mut granted: Vec<CallId> = granted.map(|(_, _, id)| *id).collect();
        granted.sort_unstable();
        granted
    }
}

/// Calls whose time has come, in the order in which they were made.
fn due(times: &BTreeSet<(Moment, CallId)>, now: Moment) -> Vec<CallId> {
    let due = times.range(..=(now, CallId(u64::MAX)));
    let mut due: Vec<CallId> = due.map(|(_, id)| *id).collect();
    due.sort_unstable();
    due
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::GroupSpec;
    use crate::names::{ProcessName, RequestId};

    fn group(number: u64) -> GroupName {
        GroupName::new(&format!("g{number}")).unwrap()
    }

    fn join(number: u64) -> CallStage {
        CallStage::Join(JoinCall {
            request_id: RequestId::new("r").unwrap(),
            group: GroupSpec::new(group(number)),
            process: ProcessName::new("p").unwrap(),
            endpoint: None,
            sends_only: false,
        })
    }

    /// Asserts that the indices have what a walk over all calls finds.
    fn is_consistent(calls: &PendingCalls) {
        let Some(calls) = &calls.0 else { return };
        let all = &calls.all;
        assert!(!all.is_empty(), "nothing is kept for a node without calls");
        let times = |time: fn(&PendingCall) -> Moment| -> BTreeSet<(Moment, CallId)> {
            all.iter().map(|(id, call)| (time(call), *id)).collect()
        };
        assert_eq!(calls.retries, times(|call| call.retry_at));
        assert_eq!(calls.deadlines, times(|call| call.deadline));
        let membership = |(id, call): (&CallId, &PendingCall)| match call.stage {
            CallStage::Granted(gn, pn) => Some((gn, pn, *id)),
            CallStage::Join(_) | CallStage::Leave(_) => None,
        };
        let granted: BTreeSet<(Gn, Pn, CallId)> = all.iter().filter_map(membership).collect();
        assert_eq!(calls.granted, granted);
        for id in &calls.doubted {
            assert!(matches!(all[id].stage, CallStage::Join(_)));
        }
    }

    #[test]
    fn calls_come_in_the_order_in_which_they_were_made_and_not_of_their_times() {
        let mut calls = PendingCalls::default();
        for (number, time) in [(0, 3), (1, 2), (2, 1), (3, 9)] {
            calls.insert(CallId(number), join(0), Moment(time), Moment(time));
        }
        assert_eq!((calls.next_retry(), calls.next_deadline()), (Some(Moment(1)), Some(Moment(1))));
        let first = [0, 1, 2].map(CallId);
        assert_eq!(calls.late(Moment(3)), first);
        assert_eq!(calls.take_due(Moment(3), Moment(5)), first);
        assert_eq!(calls.take_due(Moment(4), Moment(6)), []);
        assert_eq!(calls.next_retry(), Some(Moment(5)));
        for (number, gn) in [(2, 1), (0, 1), (1, 0)] {
            calls.grant(CallId(number), Gn(gn), Pn(0));
        }
        assert_eq!(calls.granted(), first);
        assert_eq!(calls.waiting_for(Gn(1), Pn(0)), [0, 2].map(CallId));
        assert_eq!(calls.waiting_for(Gn(1), Pn(1)), []);
    }

    #[test]
    fn doubted_joins_of_one_group_are_due_once() {
        let mut calls = PendingCalls::default();
        for number in 0..3 {
            calls.insert(CallId(number), join(number / 2), Moment(9), Moment(9));
        }
        for number in 1..3 {
            calls.doubt(CallId(number));
        }
        assert!(calls.retry_doubted(Moment(2), &group(0)));
        assert!(!calls.retry_doubted(Moment(2), &group(0)));
        assert_eq!(calls.take_due(Moment(2), Moment(9)), [CallId(1)]);
        calls.grant(CallId(2), Gn(1), Pn(0));
        assert!(!calls.retry_doubted(Moment(3), &group(1)), "it has been granted since");
    }

    proptest::proptest! {
        #[test]
        fn the_indices_follow_every_change(
            changes in proptest::collection::vec((0u8..6, 0u64..6, 0u64..4), 1..80),
        ) {
            let mut calls = PendingCalls::default();
            for (change, number, time) in changes {
                let (id, at) = (CallId(number), Moment(time));
                let is_join = matches!(calls.stage(id), Some(CallStage::Join(_)));
                match change {
                    0 if calls.stage(id).is_none() => {
                        calls.insert(id, join(number % 2), at, Moment(time + 2));
                    }
                    1 => assert_eq!(calls.stage(id).is_some(), calls.remove(id)),
                    2 if is_join => calls.grant(id, Gn(time), Pn(0)),
                    3 if is_join => calls.doubt(id),
                    4 => {
                        let before = calls.len();
                        assert!(calls.take_due(at, Moment(time + 1)).len() <= before);
                    }
                    5 => {
                        let is_due = calls.retry_doubted(at, &group(0));
                        assert!(!is_due || calls.next_retry() <= Some(at));
                    }
                    _ => {}
                }
                is_consistent(&calls);
            }
            for id in calls.ids() {
                assert!(calls.remove(id));
            }
            assert!(calls.0.is_none());
        }
    }
}
