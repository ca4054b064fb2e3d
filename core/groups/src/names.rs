//! Names that users and operators choose, checked once where they enter.
//!
//! A name has 1 to 256 characters and no control characters. Nothing else is forbidden, because
//! names come from job schedulers and host tables that we do not own. Cloning is cheap: a name of
//! up to 23 bytes is stored inline, so that a lookup in an ordered map follows no pointer.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize, Serializer};
use smol_str::{SmolStr, format_smolstr};
use thiserror::Error;

/// Maximum length of a name, in characters.
pub const MAX_NAME_CHARS: usize = 256;

/// Reason why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum NameError {
    /// The text has no characters.
    #[error("{kind} is empty")]
    Empty {
        /// Kind of name, such as "group name".
        kind: String,
    },
    /// The text is too long.
    #[error("{kind} has {chars} characters, at most {MAX_NAME_CHARS} are allowed")]
    TooLong {
        /// Kind of name, such as "group name".
        kind: String,
        /// Characters in the text.
        chars: usize,
    },
    /// The text has a control character.
    #[error("{kind} has control character {character:?} at character {at}")]
    ControlCharacter {
        /// Kind of name, such as "group name".
        kind: String,
        /// The control character.
        character: char,
        /// Its index in characters, from 0.
        at: usize,
    },
}

fn check(kind: &str, text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { kind: kind.to_owned() });
    }
    let chars = text.chars().count();
    if chars > MAX_NAME_CHARS {
        return Err(NameError::TooLong { kind: kind.to_owned(), chars });
    }
    match text.chars().enumerate().find(|(_, character)| character.is_control()) {
        Some((at, character)) => {
            Err(NameError::ControlCharacter { kind: kind.to_owned(), character, at })
        }
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(SmolStr);

        impl $name {
            /// Validates a text and makes it a name.
            ///
            /// # Errors
            ///
            /// [`NameError`] if it is empty, too long or has control characters.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check($kind, text)?;
                Ok(Self(SmolStr::new(text)))
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }

        // By hand, since a name is written without being copied first.
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

name!(
    /// Name by which processes find a group.
    GroupName,
    "group name"
);
/// Prefix of the names of groups of programs that use IP multicast.
const PROGRAM_PREFIX: &str = "ip/";
/// Prefix of the names of groups that only processes of a job may form, before the job's name.
const JOB_PREFIX: &str = "job/";

impl GroupName {
    /// Returns the name of the group whose members are the programs that have joined an IPv4
    /// multicast address, such as `ip/239.1.2.3`.
    pub fn of_programs(address: Ipv4Addr) -> Self {
        Self(format_smolstr!("{PROGRAM_PREFIX}{address}"))
    }

    /// Returns the address that [`Self::of_programs`] made a name of; `None` for other names.
    pub fn program_address(&self) -> Option<Ipv4Addr> {
        let text = self.0.strip_prefix(PROGRAM_PREFIX)?;
        text.parse().ok().filter(Ipv4Addr::is_multicast)
    }

    /// Returns the name of the job that a group named `job/JOB/REST` belongs to; `None` for other
    /// names.
    pub fn job(&self) -> Option<JobName> {
        let (job, rest) = self.0.strip_prefix(JOB_PREFIX)?.split_once('/')?;
        (!job.is_empty() && !rest.is_empty()).then(|| JobName(SmolStr::new(job)))
    }

    /// Returns the tenant that a group named `TENANT/REST` belongs to; `None` for other names, and
    /// for groups of jobs, which have shares of their own. One named `job/REST` that belongs to no
    /// job has no share, and is of a tenant of that name.
    pub fn tenant(&self) -> Option<&str> {
        let (tenant, rest) = self.0.split_once('/')?;
        (!tenant.is_empty() && !rest.is_empty() && self.job().is_none()).then_some(tenant)
    }
}

name!(
    /// Name of a compute node, which has one operating agent.
    NodeName,
    "node name"
);
name!(
    /// Name of a process, unique on its node.
    ProcessName,
    "process name"
);
name!(
    /// Name of an adapter port, as in the topology.
    EndpointName,
    "endpoint name"
);
name!(
    /// Address where a node's agents listen, in the form that the shells dial.
    Address,
    "address"
);
name!(
    /// Name of a job, given by its scheduler.
    JobName,
    "job name"
);
name!(
    /// Account of a scheduler that jobs count against.
    AccountName,
    "account name"
);
name!(
    /// User who runs a job, as its scheduler says.
    UserName,
    "user name"
);
name!(
    /// Name of a layer: groups of which no two share an endpoint. A hint for the choice of MGIDs.
    LayerName,
    "layer name"
);
name!(
    /// Name that a caller gives to one mutation; repeating the request repeats the answer (S1).
    RequestId,
    "request id"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_bounded_in_characters_not_bytes() {
        assert!(GroupName::new(&"ä".repeat(MAX_NAME_CHARS)).is_ok());
        assert_eq!(
            GroupName::new(&"ä".repeat(MAX_NAME_CHARS + 1)),
            Err(NameError::TooLong { kind: "group name".to_owned(), chars: 257 })
        );
    }

    #[test]
    fn empty_names_and_control_characters_are_refused() {
        assert_eq!(NodeName::new(""), Err(NameError::Empty { kind: "node name".to_owned() }));
        let error = ProcessName::new("a\nb").unwrap_err();
        assert_eq!(error.to_string(), "process name has control character '\\n' at character 1");
    }

    #[test]
    fn the_group_of_programs_is_named_after_their_address() {
        let address = Ipv4Addr::new(239, 1, 2, 3);
        let name = GroupName::of_programs(address);
        assert_eq!((name.as_str(), name.program_address()), ("ip/239.1.2.3", Some(address)));
        for other in ["ip/10.0.0.1", "ip/239.1.2", "ip/239.1.2.03", "239.1.2.3", "ip/"] {
            assert_eq!(GroupName::new(other).unwrap().program_address(), None, "{other}");
        }
    }

    #[test]
    fn a_group_named_after_a_job_belongs_to_it() {
        let job = |name: &str| GroupName::new(name).unwrap().job().map(String::from);
        assert_eq!(job("job/slurm-7/ring/1").as_deref(), Some("slurm-7"));
        for other in ["job/7", "job/7/", "job//a", "jobs/7/a", "7/a", "a/job/7/b"] {
            assert_eq!(job(other), None, "{other}");
        }
    }

    #[test]
    fn a_group_belongs_to_a_tenant_or_to_a_job_if_there_is_a_prefix() {
        let tenant = |name: &str| GroupName::new(name).unwrap().tenant().map(str::to_owned);
        for name in ["acme/a", "acme/a/b", "acme//"] {
            assert_eq!(tenant(name).as_deref(), Some("acme"), "{name}");
        }
        for name in ["job/a", "job/7/", "job//a"] {
            assert_eq!(tenant(name).as_deref(), Some("job"), "{name}");
        }
        for other in ["job/7/a", "acme", "acme/", "/a", "job/"] {
            assert_eq!(tenant(other), None, "{other}");
        }
    }

    #[test]
    fn stored_names_are_checked_again_when_read() {
        assert!(serde_json::from_str::<GroupName>("\"rows/1\"").is_ok());
        assert!(serde_json::from_str::<GroupName>("\"\"").is_err());
    }
}
