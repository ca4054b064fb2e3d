//! Rules of an operating agent: the groups that a process of its machine may use.
//!
//! A process is known by the user and group that it runs as. Names of users and groups are looked
//! up in `/etc/passwd` and `/etc/group` when the settings are read; accounts of a directory service
//! are given by number.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use fabricast_rpc::{Identity, Role};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::problem::Problems;

/// One checked rule. The first that applies to a process decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRule {
    /// Number of the user that the process runs as; `None` for any.
    pub user: Option<u32>,
    /// The group of users that it belongs to; `None` for any.
    pub group: Option<UserGroup>,
    /// The tenant whose groups it may use; `None` for all groups.
    pub tenant: Option<Identity>,
}

/// A group of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserGroup {
    /// Number of the group.
    pub number: u32,
    /// Users that `/etc/group` lists in it.
    pub members: BTreeSet<u32>,
}

impl ProcessRule {
    /// True if it is for processes that run as this user and group.
    #[must_use]
    pub fn applies_to(&self, user: u32, group: u32) -> bool {
        let is_in = |one: &UserGroup| one.number == group || one.members.contains(&user);
        self.user.is_none_or(|one| one == user) && self.group.as_ref().is_none_or(is_in)
    }
}

/// One rule as written. It has a tenant or all groups.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawProcessRule {
    /// Name or number of the user that the process runs as. Default: any.
    pub user: Option<Account>,
    /// Name or number of a group: that of the process, or one that `/etc/group` lists its user in.
    /// Default: any.
    pub group: Option<Account>,
    /// Name of the tenant whose groups, `<tenant>/...`, the process may use. No default.
    pub tenant: Option<String>,
    /// Let the process use the groups of all tenants. Default false: that is for administrators.
    pub all_groups: bool,
}

/// A user or group of the system as written: a name or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// A name, to be looked up.
    Name(String),
    /// A user id or group id, taken as it is.
    Number(u32),
}

impl<'de> Deserialize<'de> for Account {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(AccountVisitor)
    }
}

struct AccountVisitor;

impl Visitor<'_> for AccountVisitor {
    type Value = Account;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name or number of an account")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Account, E> {
        Ok(Account::Name(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Account, E> {
        let number = u32::try_from(number);
        number
            .map(Account::Number)
            .map_err(|_| E::invalid_value(Unexpected::Other("a number out of range"), &self))
    }
}

/// Accounts of this machine by name.
#[derive(Debug, Default)]
struct Accounts {
    users: BTreeMap<String, u32>,
    groups: BTreeMap<String, u32>,
    /// Users of each group by its number.
    members: BTreeMap<u32, BTreeSet<u32>>,
}

impl Accounts {
    /// Reads the files; one that cannot be read has no account.
    fn of_this_machine() -> Self {
        let read = |path| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
        Self::parse(&read("/etc/passwd"), &read("/etc/group"))
    }

    /// Reads lines `name:_:number:...` of users, and `name:_:number:member,member` of groups. The
    /// first line with a name counts; lines of other forms are passed over, as the system does.
    fn parse(passwd: &str, group: &str) -> Self {
        let mut accounts = Self::default();
        for line in passwd.lines() {
            if let Some((name, number, _)) = account(line) {
                accounts.users.entry(name.to_owned()).or_insert(number);
            }
        }
        for line in group.lines() {
            let Some((name, number, rest)) = account(line) else { continue };
            accounts.groups.entry(name.to_owned()).or_insert(number);
            let members = rest.split(',').filter_map(|name| accounts.users.get(name.trim()));
            accounts.members.entry(number).or_default().extend(members);
        }
        accounts
    }

    fn user(&self, user: &Account) -> Result<u32, String> {
        find(user, &self.users, "user", "/etc/passwd")
    }

    fn group(&self, group: &Account) -> Result<UserGroup, String> {
        let number = find(group, &self.groups, "group", "/etc/group")?;
        Ok(UserGroup { number, members: self.members.get(&number).cloned().unwrap_or_default() })
    }
}

/// Name, number and the rest of a line.
fn account(line: &str) -> Option<(&str, u32, &str)> {
    let mut fields = line.splitn(4, ':');
    let (name, _) = (fields.next().filter(|name| !name.is_empty())?, fields.next()?);
    Some((name, fields.next()?.parse().ok()?, fields.next().unwrap_or_default()))
}

fn find(
    account: &Account,
    known: &BTreeMap<String, u32>,
    kind: &str,
    file: &str,
) -> Result<u32, String> {
    match account {
        Account::Number(number) => Ok(*number),
        Account::Name(name) => known.get(name).copied().ok_or_else(|| {
            format!("{file} has no {kind} '{name}'; give the number of one from elsewhere")
        }),
    }
}

/// Checks rules; the accounts are read if there are any.
///
/// - `is_plaintext`: the agent has no certificates, so that every process may call it over TCP.
pub(crate) fn check(
    problems: &mut Problems,
    raw: Vec<RawProcessRule>,
    is_plaintext: bool,
) -> Option<Vec<ProcessRule>> {
    if raw.is_empty() {
        return Some(Vec::new());
    }
    if is_plaintext {
        let what = "need certificates: in plain text every process may call the agent at listen";
        problems.add("process_rules", what);
    }
    let accounts = Accounts::of_this_machine();
    let checked = raw.into_iter().enumerate().map(|(index, rule)| {
        let mut problem = |field: &str, what: String| {
            problems.add(&format!("process_rules[{index}]{field}"), what);
        };
        let user = rule.user.map(|user| accounts.user(&user)).transpose();
        let user = user.map_err(|what| problem(".user", what));
        let group = rule.group.map(|group| accounts.group(&group)).transpose();
        let group = group.map_err(|what| problem(".group", what));
        let tenant = match (rule.tenant, rule.all_groups) {
            (Some(name), false) => match format!("{}/{name}", Role::Tenant).parse() {
                Ok(tenant) => Some(Some(tenant)),
                Err(_) => {
                    let what = format!("'{name}' is no tenant; use letters, digits, '.', '-', '_'");
                    problem(".tenant", what);
                    None
                }
            },
            (None, true) => Some(None),
            (Some(_), true) => {
                problem(".all_groups", "contradicts tenant".to_owned());
                None
            }
            (None, false) => {
                problem("", "has no tenant, and not all_groups = true either".to_owned());
                None
            }
        };
        Some(ProcessRule { user: user.ok()?, group: group.ok()?, tenant: tenant? })
    });
    checked.collect::<Vec<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nann:x:1000:100::/:/bin/sh\nbob:x:1001:100\n\
                          # no account\n+::::::\nann:x:7:7\nbad:x:many:7\n";
    const GROUP: &str = "root:x:0:\nstaff:x:50:ann,gone, bob\nusers:x:100:\nmore:x:50:root\n";

    fn named(name: &str) -> Account {
        Account::Name(name.to_owned())
    }

    #[test]
    fn accounts_are_found_by_name_or_number_and_the_first_line_of_a_name_counts() {
        let accounts = Accounts::parse(PASSWD, GROUP);
        assert_eq!(accounts.user(&named("ann")), Ok(1000));
        assert_eq!(accounts.user(&Account::Number(7)), Ok(7));
        for unknown in ["bad", "#", "+", "", "staff"] {
            assert!(accounts.user(&named(unknown)).is_err(), "{unknown}");
        }
        let staff = UserGroup { number: 50, members: BTreeSet::from([0, 1000, 1001]) };
        assert_eq!(accounts.group(&named("staff")), Ok(staff.clone()));
        assert_eq!(accounts.group(&Account::Number(50)), Ok(staff));
        assert!(accounts.group(&named("ann")).is_err());
    }

    #[test]
    fn a_rule_applies_if_user_and_group_both_do() {
        let group = UserGroup { number: 50, members: BTreeSet::from([1000]) };
        let rule = |user, group: Option<&UserGroup>| ProcessRule {
            user,
            group: group.cloned(),
            tenant: None,
        };
        assert!(rule(None, None).applies_to(7, 7));
        assert!(rule(Some(7), None).applies_to(7, 0) && !rule(Some(7), None).applies_to(0, 7));
        let staff = rule(None, Some(&group));
        assert!(staff.applies_to(1000, 100), "/etc/group lists the user");
        assert!(staff.applies_to(7, 50), "the process runs as the group");
        assert!(!staff.applies_to(50, 7));
        let both = rule(Some(7), Some(&group));
        assert!(both.applies_to(7, 50) && !both.applies_to(1000, 50) && !both.applies_to(7, 7));
    }
}
