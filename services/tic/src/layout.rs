//! Layouts of the records in the store, from the first to this program's, and the way from each to the
//! next.
//!
//! | layout | what is different from the one before |
//! | --- | --- |
//! | 1 | - |
//! | 2 | a member does not repeat the group's number and its own, which are its key |
//!
//! Whoever takes office on older records writes them anew, as one decision: all of them are of the new
//! layout or none is (`commit`), so a crash on the way leaves records to begin again with. Whoever only
//! reads them does the same in memory. Records of a newer layout are refused, and left alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_groups::record::{Change, MemberRecord};

use crate::choices::Puts;
use crate::storage::{RECORDS, RecordsError, SCHEMA_KEY, number, read_number};

/// The layout that this program writes.
pub(crate) const NEWEST: u64 = 2;

/// Keys and values of a store.
pub(crate) type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// What changes on the way from a layout to the next.
type Step = fn(&Keys) -> Result<Puts, RecordsError>;

/// The way from each layout to the next, from layout 1.
const STEPS: [Step; 1] = [members_without_their_numbers];

/// Says of what layout records are; a store without any is of this program's.
///
/// # Errors
///
/// [`RecordsError::Schema`] if nobody here can read it.
pub(crate) fn found(keys: &Keys) -> Result<u64, RecordsError> {
    let Some(value) = keys.get(SCHEMA_KEY) else { return Ok(NEWEST) };
    match read_number(&String::from_utf8_lossy(SCHEMA_KEY), value)? {
        found @ 1..=NEWEST => Ok(found),
        found => Err(RecordsError::Schema { found }),
    }
}

/// Brings records to the newest layout; answers what changes by that, nothing if they are of it.
///
/// # Errors
///
/// [`RecordsError`] if they are of a layout nobody here can read, or damaged.
pub(crate) fn upgrade(keys: &mut Keys) -> Result<Puts, RecordsError> {
    let mut all = Puts::new();
    for layout in found(keys)?..NEWEST {
        let step = usize::try_from(layout - 1).expect("there are few layouts");
        let mut puts = STEPS[step](keys)?;
        puts.insert(SCHEMA_KEY.to_vec(), Some(number(layout + 1)));
        for (key, value) in &puts {
            match value {
                Some(value) => drop(keys.insert(key.clone(), value.clone())),
                None => drop(keys.remove(key)),
            }
        }
        all.extend(puts);
    }
    Ok(all)
}

/// From layout 1 to 2.
fn members_without_their_numbers(keys: &Keys) -> Result<Puts, RecordsError> {
    let prefix = format!("{RECORDS}member/").into_bytes();
    let members = keys.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
    let rewritten = members.map(|(key, value)| {
        let damaged = || RecordsError::Foreign { key: String::from_utf8_lossy(key).into_owned() };
        let member: MemberRecord = serde_json::from_slice(value).map_err(|_| damaged())?;
        let member = Change::MemberPut(Arc::new(member));
        let belongs = crate::storage::key(&member) == *key;
        belongs.then(|| (key.clone(), member.encode())).ok_or_else(damaged)
    });
    rewritten.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: &[u8] = b"tic/records/member/0000000000000001/00000004";
    const OLD: &[u8] = br#"{"gn":1,"pn":4,"node":"h0","process":"p1","endpoint":"h0","joined":13}"#;

    fn keys(layout: &[u8], member: &[u8]) -> Keys {
        [(SCHEMA_KEY.to_vec(), layout.to_vec()), (MEMBER.to_vec(), member.to_vec())].into()
    }

    #[test]
    fn a_member_of_layout_1_loses_what_its_key_says() {
        let mut keys = keys(b"1", OLD);
        let puts = upgrade(&mut keys).unwrap();
        assert_eq!(keys[SCHEMA_KEY], b"2");
        assert_eq!(keys[MEMBER], br#"["h0","p1","h0",13]"#);
        let changed: Keys = puts.into_iter().map(|(key, value)| (key, value.unwrap())).collect();
        assert_eq!(changed, keys, "nothing else was there");
        assert!(upgrade(&mut keys).unwrap().is_empty(), "it is of the newest");
    }

    #[test]
    fn what_nobody_can_read_is_refused_and_left_alone() {
        for (layout, member) in
            [(&b"3"[..], OLD), (b"0", OLD), (b"x", OLD), (b"1", b"{}"), (b"1", &OLD[..9])]
        {
            let before = keys(layout, member);
            let mut after = before.clone();
            upgrade(&mut after).unwrap_err();
            assert_eq!(after, before);
        }
        let misplaced = String::from_utf8_lossy(OLD).replace("\"pn\":4", "\"pn\":5");
        let error = upgrade(&mut keys(b"1", misplaced.as_bytes())).unwrap_err();
        assert!(error.to_string().contains("member/0000000000000001/00000004"), "{error}");
    }
}
