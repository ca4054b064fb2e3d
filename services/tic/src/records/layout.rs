//! Upgrades records of older layouts.
//!
//! | layout | difference from the one before |
//! | --- | --- |
//! | 1 | - |
//! | 2 | a member does not repeat the numbers of its group and itself, which are in its key |
//!
//! A new leader rewrites older records as one decision (`redo_log`): all of them have the new
//! layout or none has, so a crash on the way leaves records that can be upgraded again. A reader
//! upgrades them in memory only. Records of a newer layout are refused and left alone.

use std::sync::Arc;

use fabricast_groups::record::{Change, MemberRecord};

use crate::records::keys::{self, Keys, NEWEST_LAYOUT, Puts, RecordsError};

/// Computes the writes that bring records from one layout to the next.
type Step = fn(&Keys) -> Result<Puts, RecordsError>;

/// The step from layout 1 comes first.
const STEPS: [Step; 1] = [members_without_their_numbers];

/// Returns the layout of the records; an empty store has this program's.
///
/// # Errors
///
/// [`RecordsError::Schema`] if this program cannot read it.
pub(crate) fn found(keys: &Keys) -> Result<u64, RecordsError> {
    let Some(value) = keys.get(keys::SCHEMA) else { return Ok(NEWEST_LAYOUT) };
    match keys::read_number(&String::from_utf8_lossy(keys::SCHEMA), value)? {
        found @ 1..=NEWEST_LAYOUT => Ok(found),
        found => Err(RecordsError::Schema { found }),
    }
}

/// Brings records to the newest layout; returns the writes that do the same in the store.
///
/// # Errors
///
/// [`RecordsError`] if they are damaged, or this program cannot read their layout.
pub(crate) fn upgrade(keys: &mut Keys) -> Result<Puts, RecordsError> {
    let mut all = Puts::new();
    for layout in found(keys)?..NEWEST_LAYOUT {
        let step = usize::try_from(layout - 1).expect("there are few layouts");
        let mut puts = STEPS[step](keys)?;
        puts.insert(keys::SCHEMA.to_vec(), Some(keys::number(layout + 1)));
        keys::apply(keys, &puts);
        all.extend(puts);
    }
    Ok(all)
}

/// The step from layout 1 to 2.
fn members_without_their_numbers(keys: &Keys) -> Result<Puts, RecordsError> {
    let prefix = format!("{}member/", keys::RECORDS).into_bytes();
    let members = keys.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
    let rewritten = members.map(|(key, value)| {
        let damaged = || RecordsError::Foreign { key: String::from_utf8_lossy(key).into_owned() };
        let member: MemberRecord = serde_json::from_slice(value).map_err(|_| damaged())?;
        let member = Change::MemberPut(Arc::new(member));
        let belongs = keys::record(&member) == *key;
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
        [(keys::SCHEMA.to_vec(), layout.to_vec()), (MEMBER.to_vec(), member.to_vec())].into()
    }

    #[test]
    fn a_member_of_layout_1_loses_what_its_key_says() {
        let mut keys = keys(b"1", OLD);
        let puts = upgrade(&mut keys).unwrap();
        assert_eq!(keys[keys::SCHEMA], b"2");
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
