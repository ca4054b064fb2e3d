//! Checks a batch of changes before any of them is made.

use std::collections::BTreeMap;

use fabricast_topology::{EndpointId, Mgid};

use crate::change::{Change, ChangeError, ChangeProblem};

/// Groups with their members as they will be, rising; none for one that goes.
pub(crate) type Staged = Vec<(Mgid, Option<Vec<EndpointId>>)>;

/// A group on the way through a batch.
struct Draft {
    members: Option<Vec<EndpointId>>,
    put: bool,
}

/// Gives what the groups named in a batch become, in the order in which they are first named.
///
/// `members` tells the members a group has now, rising, and `endpoints` how many endpoints there
/// are.
pub(crate) fn stage<'a>(
    changes: &[Change],
    members: impl Fn(Mgid) -> Option<&'a [EndpointId]>,
    endpoints: usize,
) -> Result<Staged, ChangeError> {
    let mut places: BTreeMap<Mgid, usize> = BTreeMap::new();
    let mut drafts: Vec<(Mgid, bool, Draft)> = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let mgid = change.mgid();
        let at = *places.entry(mgid).or_insert_with(|| {
            let now = members(mgid);
            let draft = Draft { members: now.map(<[_]>::to_vec), put: false };
            drafts.push((mgid, now.is_some(), draft));
            drafts.len() - 1
        });
        apply(change, &mut drafts[at].2, endpoints).map_err(|problem| ChangeError {
            index,
            mgid,
            problem,
        })?;
    }
    let is_news = |(_, existed, draft): &(_, bool, Draft)| *existed || draft.members.is_some();
    let kept = drafts.into_iter().filter(is_news);
    Ok(kept.map(|(mgid, _, draft)| (mgid, draft.members)).collect())
}

fn apply(change: &Change, draft: &mut Draft, endpoints: usize) -> Result<(), ChangeProblem> {
    let exists = |endpoint: EndpointId| {
        let unknown = ChangeProblem::UnknownEndpoint { endpoint };
        (endpoint.index() < endpoints).then_some(()).ok_or(unknown)
    };
    match change {
        Change::Put { members, .. } => {
            if std::mem::replace(&mut draft.put, true) {
                return Err(ChangeProblem::PutTwice);
            }
            members.iter().try_for_each(|endpoint| exists(*endpoint))?;
            let mut members = members.clone();
            members.sort_unstable();
            if let Some(pair) = members.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(ChangeProblem::DuplicateMember { endpoint: pair[0] });
            }
            draft.members = Some(members);
        }
        Change::Join { endpoint, .. } => {
            exists(*endpoint)?;
            let members = draft.members.as_mut().ok_or(ChangeProblem::UnknownGroup)?;
            match members.binary_search(endpoint) {
                Ok(_) => return Err(ChangeProblem::AlreadyMember { endpoint: *endpoint }),
                Err(at) => members.insert(at, *endpoint),
            }
        }
        Change::Leave { endpoint, .. } => {
            exists(*endpoint)?;
            let members = draft.members.as_mut().ok_or(ChangeProblem::UnknownGroup)?;
            let at = members.binary_search(endpoint);
            members.remove(at.map_err(|_| ChangeProblem::NotMember { endpoint: *endpoint })?);
        }
        Change::Delete { .. } => {
            draft.members.take().ok_or(ChangeProblem::UnknownGroup)?;
        }
    }
    Ok(())
}
