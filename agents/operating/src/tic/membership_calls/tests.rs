//! Tests of the calls that a client has in progress.

use std::pin::{Pin, pin};

use fabricast_groups::names::{GroupName, ProcessName, RequestId};

use super::*;
use crate::testing::{TestAgent, agent, agent_with_nodes, at_once};

impl MembershipCalls {
    /// Number of calls in progress, by client.
    pub(crate) fn in_progress(&self) -> BTreeMap<u64, usize> {
        let mut counts = BTreeMap::new();
        for call in self.0.pending.lock().values() {
            *counts.entry(call.client).or_default() += 1;
        }
        counts
    }

    /// Begins leaves of a client.
    async fn begin_leaves(
        &self,
        client: u64,
        leaves: Vec<(NodeName, LeaveCall)>,
    ) -> Vec<Begun<()>> {
        self.begin_all(client, leaves, Oa::leave, CallEnd::Leave).await
    }

    /// Ends some calls of a client.
    fn end(&self, client: u64, count: usize) {
        let calls: Vec<(NodeName, CallId)> = {
            let pending = self.0.pending.lock();
            let calls = pending.iter().filter(|(_, call)| call.client == client);
            calls.map(|(key, _)| key.clone()).take(count).collect()
        };
        for (node, id) in calls {
            self.end_call(node, id, CallAnswer::Left);
        }
    }

    /// Returns whether a client could begin just so many calls now.
    async fn has_left(&self, client: u64, count: usize) -> bool {
        let more = at_once(pin!(self.permits(client, count + 1))).await;
        more.is_none() && at_once(pin!(self.permits(client, count))).await.is_some()
    }
}

/// Leaves that the nodes of an agent take in turn; each takes ten.
fn leaves(test: &TestAgent, count: usize) -> Vec<(NodeName, LeaveCall)> {
    let nodes = test.agent.runtime.nodes.names();
    let leave = |at: usize| LeaveCall {
        request_id: RequestId::new(&format!("r{at}")).unwrap(),
        group: GroupName::new("g").unwrap(),
        process: ProcessName::new("p").unwrap(),
    };
    (0..count).map(|at| (nodes[at % nodes.len()].clone(), leave(at))).collect()
}

/// Asserts that the calls of a list begin no more now.
async fn waits(begun: Pin<&mut impl Future<Output = Vec<Begun<()>>>>) {
    assert!(at_once(begun).await.is_none());
}

#[tokio::test]
async fn calls_beyond_those_in_progress_wait_and_those_of_another_client_do_not() {
    let test = agent_with_nodes(8);
    let calls = &MembershipCalls::with_window(test.agent.runtime.clone(), AT_ONCE);
    let mut many = pin!(calls.begin_leaves(1, leaves(&test, AT_ONCE + 1)));
    waits(many.as_mut()).await;
    assert_eq!(calls.in_progress(), BTreeMap::from([(1, AT_ONCE)]));
    let of_other = at_once(pin!(calls.begin_leaves(2, leaves(&test, 1)))).await;
    assert!(matches!(of_other.as_deref(), Some([Ok(_)])));
    calls.end(1, 1);
    let all = at_once(many.as_mut()).await.expect("one has ended");
    assert!(all.len() == AT_ONCE + 1 && all.iter().all(Result::is_ok));
    assert_eq!(calls.in_progress(), BTreeMap::from([(1, AT_ONCE), (2, 1)]));
}

#[tokio::test]
async fn a_long_list_goes_on_though_one_of_its_calls_does_not_end() {
    let test = agent_with_nodes(16);
    let calls = &MembershipCalls::with_window(test.agent.runtime.clone(), AT_ONCE);
    let mut many = pin!(calls.begin_leaves(1, leaves(&test, 2 * AT_ONCE)));
    waits(many.as_mut()).await;
    calls.end(1, AT_ONCE - 1);
    waits(many.as_mut()).await;
    assert_eq!(calls.in_progress(), BTreeMap::from([(1, AT_ONCE - TOGETHER + 1)]));
    calls.end(1, 1);
    assert!(at_once(many.as_mut()).await.is_some());
}

#[tokio::test]
async fn permits_are_given_back_however_a_call_ends_or_if_it_is_refused() {
    let test = agent();
    test.agent.start();
    let calls = &test.agent.calls;
    let mut some = leaves(&test, 12);
    some[0].0 = NodeName::new("n9").unwrap();
    let begun = calls.begin_leaves(1, some).await;
    assert!(matches!(begun[0], Err(CallFailure::UnknownNode { .. })));
    assert!(begun[1..11].iter().all(Result::is_ok));
    assert!(matches!(begun[11], Err(CallFailure::TooManyCalls { limit: 10 })));
    assert!(calls.has_left(1, AT_ONCE - 10).await);
    calls.end(1, 1);
    assert!(calls.has_left(1, AT_ONCE - 9).await);
    // The processes are not interested any more.
    drop(begun);
    assert!(calls.has_left(1, AT_ONCE - 9).await, "the calls are still in progress");
    test.agent.runtime.nodes.input(&test.node, |agent, now| agent.stop(now)).unwrap();
    assert!(calls.in_progress().is_empty());
    assert!(calls.0.windows.is_empty());
    let refused = calls.begin_leaves(1, leaves(&test, 1)).await;
    assert!(matches!(refused[..], [Err(CallFailure::NodeStopped { .. })]));
    assert!(calls.0.windows.is_empty());
}

#[tokio::test]
async fn the_calls_of_the_agent_itself_wait_for_none() {
    let test = agent_with_nodes(8);
    let calls = &MembershipCalls::with_window(test.agent.runtime.clone(), AT_ONCE);
    let begun = at_once(pin!(calls.begin_leaves(0, leaves(&test, AT_ONCE + 1)))).await.unwrap();
    assert!(begun.iter().all(Result::is_ok));
}

// In this test time stands still while somebody works.
#[tokio::test(start_paused = true)]
async fn calls_that_do_not_begin_in_time_fail() {
    let test = agent_with_nodes(8);
    let calls = &MembershipCalls::with_window(test.agent.runtime.clone(), AT_ONCE);
    let begun = calls.begin_leaves(1, leaves(&test, AT_ONCE + TOGETHER)).await;
    let (some, late) = begun.split_at(AT_ONCE);
    assert!(some.iter().all(Result::is_ok));
    assert_eq!(late.len(), TOGETHER);
    assert!(late.iter().all(|one| matches!(one, Err(CallFailure::NotBegun))));
    drop(begun);
    calls.end(1, AT_ONCE);
    assert!(calls.0.windows.is_empty());
}
