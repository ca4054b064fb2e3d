//! The table of calls that each role may make, and the layer that enforces it.
//!
//! It applies to connections with certificates; in plain text every call is allowed. The calls
//! themselves check, through [`Caller`], that an operating agent acts for its own nodes only, a
//! tenant for its own groups only, and its administrator for what the tenant has. Of a certificate
//! with several roles, a call sees those that may make it.

use http::{Request, Response};
use tonic::body::Body;
use tracing::info;

use crate::call_log::audit_forbidden;
use crate::identity::{Caller, Role};
use crate::log_budget::LogBudget;
use crate::middleware::{InnerService, Middleware};
use fabricast_status::Reason;

use Bound::{
    Agent, Endpoint, Group, Member, Node, Nothing, OwnTenant, Participant, Probe, Reporter, Term,
};
use Role::{
    Administrator, Fabric, OperatingAgent, Reader, Router, SwitchAgent, Tenant,
    TenantAdministrator, Tic,
};

/// The roles that may make one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Name of the service, without its package.
    pub service: &'static str,
    /// Name of the call.
    pub call: &'static str,
    /// Roles that may make it.
    pub roles: &'static [Role],
    /// Objects of the caller that it is bound to.
    pub bound: Bound,
}

/// Objects of the caller that a call is bound to: with those of another party it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It names no object of a party, or only roles that may use all of them make it.
    Nothing,
    /// The nodes of an operating agent.
    Node,
    /// The groups of a tenant.
    Group,
    /// The nodes of an operating agent, and the groups of a tenant.
    Member,
    /// The jobs, collectives, quotas and reservations of the tenant that somebody administers.
    OwnTenant,
    /// The name of a switch agent.
    Reporter,
    /// The term that a route service holds.
    Term,
    /// An operating agent may name any node, and the TIC probes it before it does anything else.
    Probe,
    /// The groups whose agent an operating agent hosts, as the TIC has told.
    Agent,
    /// The endpoints that an operating agent has attached, or that nobody has.
    Endpoint,
    /// The endpoints that an operating agent has attached, for processes that the entries of a
    /// collective's tree name.
    Participant,
}

impl Bound {
    /// The words for it in the documentation.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "-",
            Self::Node => "own nodes",
            Self::Group => "own groups",
            Self::Member => "own nodes, own groups",
            Self::OwnTenant => "own tenant",
            Self::Reporter => "own name",
            Self::Term => "own term",
            Self::Probe => "any node, probed first",
            Self::Agent => "groups that it is the agent of",
            Self::Endpoint => "own and free endpoints",
            Self::Participant => "own endpoints that take part",
        }
    }

    /// True if it binds callers of this role; the others may use all objects.
    #[must_use]
    pub fn binds(self, role: Role) -> bool {
        match self {
            Self::Nothing => false,
            Self::Group => matches!(role, TenantAdministrator | Tenant),
            Self::Member => matches!(role, OperatingAgent | TenantAdministrator | Tenant),
            Self::OwnTenant => role == TenantAdministrator,
            Self::Reporter => role == SwitchAgent,
            Self::Term => role == Router,
            Self::Node | Self::Probe | Self::Agent | Self::Endpoint | Self::Participant => {
                role == OperatingAgent
            }
        }
    }
}

const ALL: &[Role] = &Role::ALL;
/// Services, agents, administrators and readers.
const PARTS: &[Role] = &[Tic, Router, Fabric, OperatingAgent, SwitchAgent, Administrator, Reader];
/// The same, and who administers a tenant.
const PARTS_AND_TENANTS: &[Role] =
    &[Tic, Router, Fabric, OperatingAgent, SwitchAgent, Administrator, Reader, TenantAdministrator];
const NOBODY: &[Role] = &[];
const ADMIN: &[Role] = &[Administrator];
/// Roles that look at the whole cluster.
const WATCHERS: &[Role] = &[Administrator, Reader];
const ADMINS: &[Role] = &[Administrator, TenantAdministrator];
const ADMINS_AND_READERS: &[Role] = &[Administrator, Reader, TenantAdministrator];
/// Roles that use groups: nodes for their processes, launchers for their jobs.
const USERS: &[Role] = &[OperatingAgent, Administrator, TenantAdministrator, Tenant];
const LAUNCHERS: &[Role] = &[Administrator, TenantAdministrator, Tenant];
const AGENTS: &[Role] = &[OperatingAgent];
const AGENTS_AND_READERS: &[Role] = &[OperatingAgent, Reader];
const ROUTERS: &[Role] = &[Router];
const ROUTERS_AND_READERS: &[Role] = &[Router, Reader];
const SWITCHES: &[Role] = &[SwitchAgent];

/// The calls of one service.
type Calls = (&'static str, &'static [(&'static str, &'static [Role], Bound)]);

const TABLE: &[Calls] = &[
    (
        "AdministrationService",
        &[
            ("GetServerInfo", ALL, Nothing),
            ("GetMetrics", WATCHERS, Nothing),
            ("ListAudit", WATCHERS, Nothing),
        ],
    ),
    (
        "TicService",
        &[
            ("RegisterNode", AGENTS, Node),
            ("JoinGroup", AGENTS, Node),
            ("LeaveGroup", AGENTS, Node),
            ("DeleteGroup", LAUNCHERS, Group),
            ("PlanMgids", &[Administrator, Reader, TenantAdministrator, Tenant], Group),
            ("GetGroup", ALL, Group),
            ("ListGroups", ALL, Group),
            ("ListNodes", PARTS, Nothing),
            ("GetNode", PARTS, Nothing),
            ("RemoveNode", ADMIN, Nothing),
            ("ReportNodeFailure", &[OperatingAgent, Administrator], Probe),
            ("ReadmitNode", ADMIN, Nothing),
            ("DrainNode", ADMIN, Nothing),
            ("MoveGroups", ADMIN, Nothing),
            ("ResumeNode", ADMIN, Nothing),
            ("ReportGroupAgents", AGENTS, Node),
            ("ReportFailedElements", SWITCHES, Reporter),
            ("ListReporters", WATCHERS, Nothing),
            ("RemoveReporter", ADMIN, Nothing),
            ("WatchDirectory", &[Router, SwitchAgent, Administrator, Reader], Nothing),
            ("DownloadTopology", ALL, Nothing),
            ("ExportRecords", ADMIN, Nothing),
            ("ReportRecordsCopy", ADMIN, Nothing),
            ("AcquireRouteTerm", ROUTERS, Nothing),
            ("RenewRouteTerm", ROUTERS, Term),
            ("ReleaseRouteTerm", ROUTERS, Term),
            ("ReportRoutes", ROUTERS, Term),
        ],
    ),
    (
        "TopologyService",
        &[
            ("ReportTopology", SWITCHES, Reporter),
            ("ReplaceTopology", ADMIN, Nothing),
            ("DrainLink", ADMIN, Nothing),
            ("ResumeLink", ADMIN, Nothing),
            ("ListDrainedLinks", WATCHERS, Nothing),
        ],
    ),
    (
        "GroupBatchService",
        &[
            ("FormGroups", LAUNCHERS, Group),
            ("DeleteJobGroups", ADMIN, Nothing),
            ("JoinMany", AGENTS, Node),
            ("LeaveMany", AGENTS, Node),
            ("GetMany", AGENTS_AND_READERS, Nothing),
        ],
    ),
    (
        "RouteChoiceService",
        &[
            ("RecordRouteChoices", ROUTERS, Term),
            ("ListRouteChoices", ROUTERS_AND_READERS, Nothing),
        ],
    ),
    (
        "JobService",
        &[
            ("CreateJob", ADMINS, OwnTenant),
            ("ReserveJob", ADMINS, OwnTenant),
            ("DeleteJob", ADMINS, OwnTenant),
            ("GetJob", ADMINS_AND_READERS, OwnTenant),
            ("ListJobs", ADMINS_AND_READERS, OwnTenant),
            ("GetJobReport", WATCHERS, Nothing),
        ],
    ),
    (
        "CollectiveService",
        &[
            ("CreateCollective", ADMINS, OwnTenant),
            ("RequestSwitchTree", AGENTS, Node),
            ("ReleaseCollective", ADMINS, OwnTenant),
            ("GetCollective", PARTS_AND_TENANTS, OwnTenant),
            ("ListCollectives", PARTS_AND_TENANTS, OwnTenant),
            ("ReserveEntries", ADMINS, OwnTenant),
            ("CancelReservation", ADMINS, OwnTenant),
            ("SetCollectiveQuota", ADMINS, OwnTenant),
            ("GetEntryUsage", ADMINS_AND_READERS, OwnTenant),
            ("WatchAggregationTrees", ROUTERS_AND_READERS, Nothing),
            ("ReportAggregationTrees", ROUTERS, Term),
            ("SetTreeConstants", ADMIN, Nothing),
            ("GetTreeConstants", WATCHERS, Nothing),
        ],
    ),
    ("CollectiveAgentService", &[("RunCollective", ADMIN, Nothing)]),
    (
        "GroupAgentService",
        &[
            ("RegisterMember", AGENTS, Node),
            ("RegisterMembers", AGENTS, Node),
            ("WatchGroupMembers", AGENTS_AND_READERS, Nothing),
            ("DeregisterMember", AGENTS, Node),
            ("ReportOperatingAgents", AGENTS, Node),
            ("QueryGroup", &[OperatingAgent, Administrator, Reader], Nothing),
            ("NotifyGroups", &[Tic], Nothing),
        ],
    ),
    (
        "OperatingAgentService",
        &[
            ("JoinGroup", USERS, Member),
            ("LeaveGroup", USERS, Member),
            ("JoinMany", USERS, Member),
            ("LeaveMany", USERS, Member),
            (
                "QueryGroup",
                &[OperatingAgent, Administrator, Reader, TenantAdministrator, Tenant],
                Member,
            ),
            ("ListMemberships", WATCHERS, Nothing),
            ("SendPacket", ADMIN, Nothing),
            ("ReceivePackets", WATCHERS, Nothing),
            ("ProbeNode", &[Tic, OperatingAgent, Administrator, Reader], Nothing),
            ("UpdatePositions", AGENTS, Agent),
            ("OpenLink", AGENTS, Node),
            ("ListHostedNodes", WATCHERS, Nothing),
            ("StopNode", ADMIN, Nothing),
            ("StartNode", ADMIN, Nothing),
            ("MeasureOperations", ADMIN, Nothing),
        ],
    ),
    // At a Unix domain socket only, where no certificates are shown.
    (
        "ProcessService",
        &[
            ("ListLocalNodes", NOBODY, Nothing),
            ("AttachProcess", NOBODY, Nothing),
            ("ShareMemory", NOBODY, Nothing),
            ("ReserveMembers", NOBODY, Nothing),
            ("JoinGroup", NOBODY, Nothing),
            ("LeaveGroup", NOBODY, Nothing),
            ("ListMembers", NOBODY, Nothing),
            ("WatchMembers", NOBODY, Nothing),
            ("TakePart", NOBODY, Nothing),
            ("OpenDirectPath", NOBODY, Nothing),
            ("ListParticipants", NOBODY, Nothing),
            ("SendMessage", NOBODY, Nothing),
            ("RunOperation", NOBODY, Nothing),
            ("RequestSwitchTree", NOBODY, Nothing),
        ],
    ),
    (
        "RouteService",
        &[
            ("GetRouteStatus", &[Tic, Router, OperatingAgent, Administrator, Reader], Nothing),
            ("ExplainRoute", WATCHERS, Nothing),
            ("ListTableDrifts", WATCHERS, Nothing),
            ("PlanRebalance", WATCHERS, Nothing),
            ("PlanFaults", WATCHERS, Nothing),
            ("ListLinkLoads", WATCHERS, Nothing),
            ("DownloadRecording", WATCHERS, Nothing),
        ],
    ),
    (
        "SwitchAgentService",
        &[
            ("ListSwitches", &[Router, Administrator, Reader], Nothing),
            ("ReadTables", &[Router, Administrator, Reader], Nothing),
            ("ReadCounters", &[Router, Administrator, Reader], Nothing),
            ("WriteTables", ROUTERS, Nothing),
            ("ListPorts", &[Router, Administrator, Reader], Nothing),
        ],
    ),
    (
        "SwitchAggregationService",
        &[
            ("ReadAggregation", &[Router, Administrator, Reader], Nothing),
            ("WriteAggregation", ROUTERS, Nothing),
        ],
    ),
    (
        "FabricService",
        &[
            ("AttachEndpoints", AGENTS, Endpoint),
            ("InjectPacket", ADMIN, Nothing),
            ("FailElement", ADMIN, Nothing),
            ("HealElement", ADMIN, Nothing),
            ("DisturbSwitch", ADMIN, Nothing),
            ("WatchFailedElements", &[SwitchAgent, Administrator, Reader], Nothing),
            ("ListFabricSwitches", &[SwitchAgent, Administrator, Reader], Nothing),
            ("ReadSwitchTables", &[SwitchAgent, Administrator, Reader], Nothing),
            ("ReadSwitchCounters", &[SwitchAgent, Administrator, Reader], Nothing),
            ("WriteSwitchTables", SWITCHES, Nothing),
            ("ListSwitchPorts", &[SwitchAgent, Administrator, Reader], Nothing),
        ],
    ),
    (
        "FabricAggregationService",
        &[
            ("ReadFabricAggregation", &[SwitchAgent, Administrator, Reader], Nothing),
            ("WriteFabricAggregation", SWITCHES, Nothing),
            ("ContributeValues", AGENTS, Participant),
        ],
    ),
];

/// The access of every call of `fabricast.v1`.
pub fn access_table() -> impl Iterator<Item = Access> {
    TABLE.iter().flat_map(|(service, calls)| {
        calls.iter().map(|(call, roles, bound)| Access { service, call, roles, bound: *bound })
    })
}

/// Prefix of the paths of our calls.
const PACKAGE: &str = "/fabricast.v1.";

/// The line of the table for the call that a path names, such as
/// `/fabricast.v1.TicService/JoinGroup`.
pub(crate) fn access_of(path: &str) -> Option<Access> {
    let path = path.strip_prefix(PACKAGE)?;
    access_table().find(|access| {
        path.strip_prefix(access.service).and_then(|rest| rest.strip_prefix('/'))
            == Some(access.call)
    })
}

/// The role of the servers of the call that a path names; `None` for calls that every server
/// answers, such as health.
pub(crate) fn server_role(path: &str) -> Option<Role> {
    match access_of(path)?.service {
        "TicService" | "TopologyService" | "GroupBatchService" | "RouteChoiceService"
        | "JobService" | "CollectiveService" => Some(Tic),
        "RouteService" => Some(Router),
        "SwitchAgentService" | "SwitchAggregationService" => Some(SwitchAgent),
        "FabricService" | "FabricAggregationService" => Some(Fabric),
        "GroupAgentService"
        | "OperatingAgentService"
        | "CollectiveAgentService"
        | "ProcessService" => Some(OperatingAgent),
        _ => None,
    }
}

/// Roles that may make the call of a path. Health and reflection, which are not in the table, are
/// allowed to every role.
fn roles_of(path: &str) -> &'static [Role] {
    if !path.starts_with(PACKAGE) {
        return ALL;
    }
    // A call of ours that is not in the table is allowed to no role.
    access_of(path).map_or(&[], |access| access.roles)
}

/// Log lines about refused calls.
static REFUSALS: LogBudget = LogBudget::new();

/// Refuses calls that the caller's roles may not make, by their headers: no layer above this one
/// reads a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnforceAccess;

impl Middleware for EnforceAccess {
    async fn handle<S: InnerService>(
        self,
        mut request: Request<Body>,
        mut inner: S,
    ) -> Result<Response<Body>, S::Error> {
        let path = request.uri().path();
        let roles = roles_of(path);
        if let Some(caller) = request.extensions().get::<Caller>()
            && !caller.has_role(roles)
        {
            if let Some(unlogged) = REFUSALS.take() {
                info!(%caller, path, unlogged, "a call was refused");
            }
            audit_forbidden(&request, access_of(path).map_or("", |access| access.call));
            let call = path.rsplit('.').next().unwrap_or(path);
            let why = format!("{caller} may not call {call}");
            return Ok(Reason::NotPermitted.status(why, &[("call", call)]).into_http());
        }
        if let Some(caller) = request.extensions_mut().get_mut::<Caller>() {
            caller.act_as(roles);
        }
        inner.call(request).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    /// Every call of the descriptors that reflection shows.
    fn served() -> BTreeSet<(String, String)> {
        let set = FileDescriptorSet::decode(fabricast_proto::FILE_DESCRIPTOR_SET)
            .expect("the descriptors are read by every server");
        let ours = set.file.into_iter().filter(|file| file.package() == "fabricast.v1");
        let services = ours.flat_map(|file| file.service);
        services
            .flat_map(|service| {
                let name = service.name().to_owned();
                service.method.into_iter().map(move |call| (name.clone(), call.name().to_owned()))
            })
            .collect()
    }

    #[test]
    fn every_call_is_in_the_table_once_and_no_other() {
        let listed: Vec<_> =
            access_table().map(|one| (one.service.to_owned(), one.call.to_owned())).collect();
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), served());
        assert_eq!(listed.len(), served().len());
    }

    #[test]
    fn the_documentation_has_the_same_table() {
        let documentation = include_str!("../../../docs/security.md");
        let rows = documentation.lines().filter(|line| line.contains("Service` | `"));
        let written = access_table().map(|Access { service, call, roles, bound }| {
            let mut roles = roles.to_vec();
            roles.sort();
            let words: Vec<_> = roles.iter().map(|role| role.word()).collect();
            let words = match roles.as_slice() {
                [] => "nobody over a network".to_owned(),
                roles if roles == ALL => "all".to_owned(),
                _ => words.join(", "),
            };
            format!("| `{service}` | `{call}` | {words} | {} |", bound.words())
        });
        assert_eq!(rows.collect::<Vec<_>>(), written.collect::<Vec<_>>());
    }

    #[test]
    fn every_service_but_administration_has_servers_of_one_role() {
        for Access { service, call, .. } in access_table() {
            let role = server_role(&format!("/fabricast.v1.{service}/{call}"));
            assert_eq!(role.is_none(), service == "AdministrationService", "{service}");
        }
        assert_eq!(server_role("/grpc.health.v1.Health/Check"), None);
    }

    #[test]
    fn a_reader_makes_every_call_that_only_reads_and_no_other() {
        for Access { service, call, roles, .. } in access_table() {
            let is_theirs = !roles.is_empty() && !crate::call_log::changes(call);
            assert_eq!(roles.contains(&Reader), is_theirs, "{service}/{call}");
        }
    }

    #[test]
    fn who_administers_a_tenant_makes_no_call_that_is_not_bound_to_it() {
        for Access { service, call, roles, bound } in access_table() {
            if roles.contains(&TenantAdministrator) && roles != ALL {
                assert!(bound.binds(TenantAdministrator), "{service}/{call}");
            }
        }
    }

    #[test]
    fn only_the_route_service_programs_switches() {
        for path in ["SwitchAgentService/WriteTables", "SwitchAggregationService/WriteAggregation"]
        {
            assert_eq!(roles_of(&format!("/fabricast.v1.{path}")), [Router]);
        }
    }

    #[test]
    fn a_path_that_is_only_like_a_call_is_nobodys() {
        for path in [
            "TicService/joingroup",
            "TicService/JoinGroupX",
            "TicServiceX/JoinGroup",
            "TicService",
            "",
        ] {
            assert!(roles_of(&format!("/fabricast.v1.{path}")).is_empty(), "{path}");
        }
        assert_eq!(roles_of("/grpc.health.v1.Health/Check"), ALL);
    }
}
