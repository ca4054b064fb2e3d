//! Identities in certificates, and the nodes and groups that each may act for.
//!
//! A certificate names its holder in its alternative names, as `spiffe://fabricast/<role>/<name>`.
//! One certificate may name several, as that of a process that hosts the operating agents of
//! several nodes.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tonic::{Extensions, Status};
use x509_parser::extensions::GeneralName;

use fabricast_status::Reason;

/// Prefix of identities in certificates.
const SCHEME: &str = "spiffe://fabricast/";

/// Role of a process in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A topology information center.
    Tic,
    /// A route service.
    Router,
    /// The emulated fabric.
    Fabric,
    /// Operating agents; the name is that of a node.
    OperatingAgent,
    /// A switch agent.
    SwitchAgent,
    /// A person or program that administers the cluster.
    Administrator,
    /// A person or program that may look at everything and change nothing.
    Reader,
    /// A person or program that administers the groups, jobs and reservations of one tenant, which
    /// the name is.
    TenantAdministrator,
    /// A person or program that has groups of its own; the name is how their names begin.
    Tenant,
}

impl Role {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::Tic,
        Self::Router,
        Self::Fabric,
        Self::OperatingAgent,
        Self::SwitchAgent,
        Self::Administrator,
        Self::Reader,
        Self::TenantAdministrator,
        Self::Tenant,
    ];

    /// People, and programs that act as such.
    pub(crate) const PEOPLE: [Self; 4] =
        [Self::Administrator, Self::Reader, Self::TenantAdministrator, Self::Tenant];

    /// The word for it in certificates and on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tic => "tic",
            Self::Router => "router",
            Self::Fabric => "fabric",
            Self::OperatingAgent => "operating-agent",
            Self::SwitchAgent => "switch-agent",
            Self::Administrator => "admin",
            Self::Reader => "reader",
            Self::TenantAdministrator => "tenant-admin",
            Self::Tenant => "tenant",
        }
    }

    /// True if processes of this role are servers.
    #[must_use]
    pub fn serves(self) -> bool {
        !Self::PEOPLE.contains(&self)
    }

    /// True if it may use the objects of its own tenant only.
    fn is_of_tenant(self) -> bool {
        matches!(self, Self::TenantAdministrator | Self::Tenant)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// A role and a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Kind of the party; decides which calls it may make.
    pub role: Role,
    /// Name among those of its kind, such as that of a node.
    pub name: String,
}

/// Reason why a text is no identity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is not of the form ROLE/NAME; roles are {roles}", roles = Role::ALL.map(Role::word).join(", "))]
pub struct IdentityError(String);

impl FromStr for Identity {
    type Err = IdentityError;

    /// Reads `role/name`, the name as [`identity_name`] writes it.
    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let parts = text.split_once('/').and_then(|(role, name)| {
            let role = Role::ALL.into_iter().find(|one| one.word() == role)?;
            let is_good = !name.is_empty() && name.chars().all(|c| is_plain(c) || c == '%');
            is_good.then(|| Self { role, name: name.to_owned() })
        });
        parts.ok_or_else(|| IdentityError(text.to_owned()))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.role, self.name)
    }
}

impl Identity {
    /// The identity as a URI in a certificate.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("{SCHEME}{self}")
    }
}

/// The client of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// Nobody asked: the connection is in plain text, which is for one machine, or a network that
    /// lets nobody else in.
    #[default]
    Unasked,
    /// The holder of a certificate of this cluster.
    Known(Vec<Identity>),
}

impl Caller {
    /// The caller of a request, from its extensions.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// True if it has one of these roles.
    pub(crate) fn has_role(&self, roles: &[Role]) -> bool {
        match self {
            Self::Unasked => true,
            Self::Known(identities) => identities.iter().any(|one| roles.contains(&one.role)),
        }
    }

    /// Leaves out the identities that none of these roles has, so that a certificate with several
    /// may do in each call what one of them may, and no more.
    pub(crate) fn act_as(&mut self, roles: &[Role]) {
        if let Self::Known(identities) = self {
            identities.retain(|one| roles.contains(&one.role));
        }
    }

    /// The tenants whose objects it may see and change; `None` means those of all.
    fn tenants(&self) -> Option<impl Iterator<Item = &str>> {
        let Self::Known(identities) = self else { return None };
        let is_bound = identities.iter().all(|one| one.role.is_of_tenant());
        is_bound.then(|| identities.iter().map(|one| one.name.as_str()))
    }

    /// True if it is not bound to tenants of its own.
    #[must_use]
    pub fn sees_all_tenants(&self) -> bool {
        self.tenants().is_none()
    }

    /// True if it may see and change what belongs to the tenant.
    #[must_use]
    pub fn owns_tenant(&self, tenant: &str) -> bool {
        self.tenants().is_none_or(|mut tenants| tenants.any(|own| own == tenant))
    }

    /// Refuses who administers another tenant.
    ///
    /// - `field`: the field that names the tenant.
    ///
    /// # Errors
    ///
    /// `PERMISSION_DENIED` / `NOT_PERMITTED`.
    pub fn check_tenant(&self, field: &str, tenant: &str) -> Result<(), Status> {
        if self.owns_tenant(tenant) {
            return Ok(());
        }
        let why = format!("{field}: {self} administers its own tenant only, not '{tenant}'");
        Err(Reason::NotPermitted.status(why, &[("tenant", tenant)]))
    }

    /// True if it may see and change the job: one of its own account, or without an account one
    /// named `<tenant>/...`.
    #[must_use]
    pub fn owns_job(&self, job: &str, account: Option<&str>) -> bool {
        account.map_or_else(|| self.owns_group(job), |account| self.owns_tenant(account))
    }

    /// True if it may see and change the group: a tenant only those named `<tenant>/...`.
    #[must_use]
    pub fn owns_group(&self, group: &str) -> bool {
        let Some(mut tenants) = self.tenants() else { return true };
        tenants.any(|tenant| {
            group.strip_prefix(tenant).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
        })
    }

    /// Refuses a tenant that is not the group's, without a word on whether there is such a group.
    ///
    /// # Errors
    ///
    /// `PERMISSION_DENIED` / `NOT_PERMITTED`.
    pub fn check_group(&self, group: &str) -> Result<(), Status> {
        if self.owns_group(group) {
            return Ok(());
        }
        let why = format!(
            "{self} may use groups whose names begin with its own and a '/', not '{group}'"
        );
        Err(Reason::NotPermitted.status(why, &[("group", group)]))
    }

    /// Refuses callers that do not administer the cluster.
    ///
    /// - `what`: the field that asks for it, and why it takes an administrator.
    ///
    /// # Errors
    ///
    /// `PERMISSION_DENIED` / `NOT_PERMITTED`.
    pub fn check_administrator(&self, what: &str) -> Result<(), Status> {
        if self.has_role(&[Role::Administrator]) {
            return Ok(());
        }
        Err(Reason::NotPermitted.status(format!("{what}, which {self} may not ask for"), &[]))
    }

    /// Refuses a switch agent of another name.
    ///
    /// # Errors
    ///
    /// `PERMISSION_DENIED` / `NOT_PERMITTED`.
    pub fn check_reporter(&self, reporter: &str) -> Result<(), Status> {
        let Self::Known(identities) = self else { return Ok(()) };
        let is_it =
            |one: &Identity| one.role == Role::SwitchAgent && one.name == identity_name(reporter);
        if identities.iter().any(is_it) {
            return Ok(());
        }
        let why = format!("{self} reports under its own name only, not as '{reporter}'");
        Err(Reason::NotPermitted.status(why, &[("reporter", reporter)]))
    }

    /// Refuses an operating agent of another node.
    ///
    /// # Errors
    ///
    /// `PERMISSION_DENIED` / `NOT_PERMITTED`.
    pub fn check_node(&self, node: &str) -> Result<(), Status> {
        let Self::Known(identities) = self else { return Ok(()) };
        let agents = |one: &&Identity| one.role == Role::OperatingAgent;
        let mut agents = identities.iter().filter(agents).peekable();
        if agents.peek().is_none() || agents.any(|agent| agent.name == identity_name(node)) {
            return Ok(());
        }
        let why = format!("{self} acts for its own nodes only, not for '{node}'");
        Err(Reason::NotPermitted.status(why, &[("node", node)]))
    }

    /// True if it is the operating agent of a node, or may be, since nobody asked.
    #[must_use]
    pub fn is_agent_of(&self, node: &str) -> bool {
        let Self::Known(identities) = self else { return true };
        let name = identity_name(node);
        identities.iter().any(|one| one.role == Role::OperatingAgent && one.name == name)
    }
}

/// Encodes a name for an identity: every byte that may not stand there as `%` and two
/// hexadecimal digits.
#[must_use]
pub fn identity_name(name: &str) -> String {
    let mut written = String::with_capacity(name.len());
    for byte in name.bytes() {
        match char::from(byte) {
            c if is_plain(c) => written.push(c),
            _ => written.push_str(&format!("%{byte:02X}")),
        }
    }
    written
}

/// Characters that a name in an identity has unescaped.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

impl fmt::Display for Caller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unasked => formatter.write_str("anyone"),
            Self::Known(identities) => {
                for (index, identity) in identities.iter().enumerate() {
                    let between = if index == 0 { "" } else { ", " };
                    write!(formatter, "{between}{identity}")?;
                }
                Ok(())
            }
        }
    }
}

/// Reason why a certificate names nobody.
#[derive(Debug, Error)]
pub enum NamelessError {
    /// It cannot be read.
    #[error("the certificate cannot be read: {0}")]
    Unreadable(String),
    /// It has no identity of this system.
    #[error("the certificate has no name of the form {SCHEME}ROLE/NAME")]
    Nameless,
}

/// The identities that a certificate names, at least one.
///
/// - `certificate`: as it is shown, in DER.
///
/// # Errors
///
/// [`NamelessError`] if there is none; names of other systems are passed over.
pub fn certificate_identities(certificate: &[u8]) -> Result<Vec<Identity>, NamelessError> {
    let unreadable = |error: &dyn fmt::Display| NamelessError::Unreadable(error.to_string());
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate).map_err(|error| unreadable(&error))?;
    let names = parsed.subject_alternative_name().map_err(|error| unreadable(&error))?;
    let uris =
        names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::URI(uri) => uri.strip_prefix(SCHEME),
            _ => None,
        });
    let mut found: Vec<Identity> = uris.filter_map(|text| text.parse().ok()).collect();
    found.sort();
    found.dedup();
    if found.is_empty() { Err(NamelessError::Nameless) } else { Ok(found) }
}

/// Returns the time at which a certificate expires.
///
/// - `certificate`: as it is shown, in DER.
///
/// # Errors
///
/// [`NamelessError::Unreadable`].
pub(crate) fn certificate_expiry(certificate: &[u8]) -> Result<SystemTime, NamelessError> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|error| NamelessError::Unreadable(error.to_string()))?;
    let seconds = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(texts: &[&str]) -> Caller {
        Caller::Known(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn identities_are_read_as_they_are_written() {
        for role in Role::ALL {
            let identity = Identity { role, name: "a-1.b_2".to_owned() };
            assert_eq!(identity.to_string().parse(), Ok(identity));
        }
        for bad in ["", "tic", "tic/", "king/a", "tic/a/b", "tic/a b", "TIC/a"] {
            assert!(bad.parse::<Identity>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_agent_acts_for_its_own_nodes_only() {
        let agent = known(&["operating-agent/h1", "operating-agent/h2%20HCA-1"]);
        assert!(agent.check_node("h1").is_ok());
        assert!(agent.check_node("h2 HCA-1").is_ok());
        assert!(agent.check_node("h2_HCA-1").is_err());
        let refused = agent.check_node("h10").unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        for other in [known(&["admin/a"]), known(&["tic/1"]), Caller::Unasked] {
            assert!(other.check_node("h10").is_ok(), "{other}");
        }
        assert!(agent.is_agent_of("h2 HCA-1") && !agent.is_agent_of("h10"));
        assert!(!known(&["admin/h1", "router/h1"]).is_agent_of("h1"));
        assert!(Caller::Unasked.is_agent_of("h10"));
        assert!(agent.check_administrator("expel").is_err());
        assert!(known(&["admin/a"]).check_administrator("expel").is_ok());
    }

    #[test]
    fn a_switch_agent_reports_under_its_own_name_only() {
        let agent = known(&["switch-agent/s%201", "switch-agent/s2"]);
        assert!(agent.check_reporter("s 1").is_ok());
        assert!(agent.check_reporter("s2").is_ok());
        let refused = agent.check_reporter("s3").unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert!(known(&["operating-agent/s3"]).check_reporter("s3").is_err());
        assert!(Caller::Unasked.check_reporter("s3").is_ok());
    }

    #[test]
    fn a_tenant_has_the_groups_below_its_name() {
        let tenant = known(&["tenant/acme"]);
        assert!(tenant.check_group("acme/rows/1").is_ok());
        for other in ["acme", "acme/", "acme2/rows", "rows", "other/acme/x", ""] {
            assert!(tenant.check_group(other).is_err(), "{other}");
        }
        for all in [known(&["tenant/acme", "admin/a"]), known(&["tic/1"]), Caller::Unasked] {
            assert!(all.check_group("rows").is_ok(), "{all}");
        }
    }

    #[test]
    fn a_tenant_administrator_has_the_jobs_and_objects_of_its_tenant() {
        let ours = known(&["tenant-admin/acme"]);
        assert!(ours.check_group("acme/rows").is_ok() && ours.check_group("rows").is_err());
        assert!(ours.check_tenant("tenant", "acme").is_ok());
        for other in ["", "acme2", "acme/", "other"] {
            assert!(ours.check_tenant("tenant", other).is_err(), "{other}");
        }
        assert!(ours.owns_job("acme/7", None) && ours.owns_job("7", Some("acme")));
        assert!(!ours.owns_job("7", None), "a job of nobody's");
        assert!(!ours.owns_job("acme/7", Some("other")), "the account decides");
        for all in [known(&["admin/a"]), known(&["reader/r"]), Caller::Unasked] {
            assert!(all.owns_job("7", None) && all.owns_tenant("other"), "{all}");
        }
    }

    #[test]
    fn a_second_role_widens_no_call_that_it_may_not_make() {
        let mut both = known(&["reader/r", "tenant/acme"]);
        assert!(both.owns_group("rows"), "who may read all reads all");
        both.act_as(&[Role::Administrator, Role::Tenant]);
        assert_eq!(both, known(&["tenant/acme"]));
        assert!(!both.owns_group("rows"), "but changes its own only");
        let mut anyone = Caller::Unasked;
        anyone.act_as(&[]);
        assert_eq!(anyone, Caller::Unasked);
    }
}
