//! The table of calls that each role may make, and the layer that enforces it.
//!
//! It applies to connections with certificates; in plain text every call is allowed. The calls
//! themselves check, through [`Caller`], that an operating agent acts for its own nodes only and a
//! tenant for its own groups only.

use http::{Request, Response};
use tonic::body::Body;
use tracing::info;

use crate::call_log::audit_forbidden;
use crate::identity::{Caller, Role};
use crate::log_budget::LogBudget;
use crate::middleware::{InnerService, Middleware};
use crate::status::Reason;

use Bound::{Agent, Endpoint, Group, Member, Node, Nothing, Probe, Reporter, Term};
use Role::{Administrator, Fabric, OperatingAgent, Router, SwitchAgent, Tenant, Tic};

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
            Self::Reporter => "own name",
            Self::Term => "own term",
            Self::Probe => "any node, probed first",
            Self::Agent => "groups that it is the agent of",
            Self::Endpoint => "own and free endpoints",
        }
    }

    /// True if it binds callers of this role; the others may use all objects.
    #[must_use]
    pub fn binds(self, role: Role) -> bool {
        match self {
            Self::Nothing => false,
            Self::Group => role == Tenant,
            Self::Member => matches!(role, OperatingAgent | Tenant),
            Self::Reporter => role == SwitchAgent,
            Self::Term => role == Router,
            Self::Node | Self::Probe | Self::Agent | Self::Endpoint => role == OperatingAgent,
        }
    }
}

/// Every role.
const ALL: &[Role] = &Role::ALL;
/// Services, agents and administrators.
const PARTS: &[Role] = &[Tic, Router, Fabric, OperatingAgent, SwitchAgent, Administrator];
const NOBODY: &[Role] = &[];
const ADMIN: &[Role] = &[Administrator];
/// Roles that use groups: nodes for their processes, launchers for their jobs.
const USERS: &[Role] = &[OperatingAgent, Administrator, Tenant];
const LAUNCHERS: &[Role] = &[Administrator, Tenant];
const AGENTS: &[Role] = &[OperatingAgent];
const ROUTERS: &[Role] = &[Router];
const SWITCHES: &[Role] = &[SwitchAgent];

/// The calls of one service.
type Calls = (&'static str, &'static [(&'static str, &'static [Role], Bound)]);

const TABLE: &[Calls] = &[
    ("AdministrationService", &[("GetServerInfo", ALL, Nothing)]),
    (
        "TicService",
        &[
            ("RegisterNode", AGENTS, Node),
            ("JoinGroup", AGENTS, Node),
            ("LeaveGroup", AGENTS, Node),
            ("DeleteGroup", LAUNCHERS, Group),
            ("PlanMgids", LAUNCHERS, Group),
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
            ("ListReporters", ADMIN, Nothing),
            ("RemoveReporter", ADMIN, Nothing),
            ("WatchDirectory", &[Router, SwitchAgent, Administrator], Nothing),
            ("DownloadTopology", ALL, Nothing),
            ("ExportRecords", ADMIN, Nothing),
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
            ("ListDrainedLinks", ADMIN, Nothing),
        ],
    ),
    (
        "GroupBatchService",
        &[
            ("FormGroups", LAUNCHERS, Group),
            ("DeleteJobGroups", ADMIN, Nothing),
            ("JoinMany", AGENTS, Node),
            ("LeaveMany", AGENTS, Node),
            ("GetMany", AGENTS, Nothing),
        ],
    ),
    (
        "RouteChoiceService",
        &[("RecordRouteChoices", ROUTERS, Term), ("ListRouteChoices", ROUTERS, Nothing)],
    ),
    (
        "JobService",
        &[
            ("CreateJob", ADMIN, Nothing),
            ("ReserveJob", ADMIN, Nothing),
            ("DeleteJob", ADMIN, Nothing),
            ("GetJob", ADMIN, Nothing),
            ("ListJobs", ADMIN, Nothing),
            ("GetJobReport", ADMIN, Nothing),
        ],
    ),
    (
        "CollectiveService",
        &[
            ("CreateCollective", ADMIN, Nothing),
            ("ReleaseCollective", ADMIN, Nothing),
            ("GetCollective", PARTS, Nothing),
            ("ListCollectives", PARTS, Nothing),
            ("ReserveEntries", ADMIN, Nothing),
            ("CancelReservation", ADMIN, Nothing),
            ("SetCollectiveQuota", ADMIN, Nothing),
            ("GetEntryUsage", ADMIN, Nothing),
            ("WatchAggregationTrees", ROUTERS, Nothing),
            ("ReportAggregationTrees", ROUTERS, Term),
        ],
    ),
    ("CollectiveAgentService", &[("RunCollective", ADMIN, Nothing)]),
    (
        "GroupAgentService",
        &[
            ("RegisterMember", AGENTS, Node),
            ("RegisterMembers", AGENTS, Node),
            ("WatchGroupMembers", AGENTS, Nothing),
            ("DeregisterMember", AGENTS, Node),
            ("ReportOperatingAgents", AGENTS, Node),
            ("QueryGroup", &[OperatingAgent, Administrator], Nothing),
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
            ("QueryGroup", USERS, Member),
            ("ListMemberships", ADMIN, Nothing),
            ("SendPacket", ADMIN, Nothing),
            ("ReceivePackets", ADMIN, Nothing),
            ("ProbeNode", &[Tic, OperatingAgent, Administrator], Nothing),
            ("UpdatePositions", AGENTS, Agent),
            ("OpenLink", AGENTS, Node),
            ("ListHostedNodes", ADMIN, Nothing),
            ("StopNode", ADMIN, Nothing),
            ("StartNode", ADMIN, Nothing),
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
            ("ListParticipants", NOBODY, Nothing),
            ("SendMessage", NOBODY, Nothing),
            ("RunOperation", NOBODY, Nothing),
        ],
    ),
    (
        "RouteService",
        &[
            ("GetRouteStatus", &[Tic, Router, OperatingAgent, Administrator], Nothing),
            ("ExplainRoute", ADMIN, Nothing),
            ("ListTableDrifts", ADMIN, Nothing),
            ("PlanRebalance", ADMIN, Nothing),
            ("DownloadRecording", ADMIN, Nothing),
        ],
    ),
    (
        "SwitchAgentService",
        &[
            ("ListSwitches", &[Router, Administrator], Nothing),
            ("ReadTables", &[Router, Administrator], Nothing),
            ("ReadCounters", &[Router, Administrator], Nothing),
            ("WriteTables", ROUTERS, Nothing),
            ("ListPorts", &[Router, Administrator], Nothing),
        ],
    ),
    (
        "SwitchAggregationService",
        &[
            ("ReadAggregation", &[Router, Administrator], Nothing),
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
            ("WatchFailedElements", &[SwitchAgent, Administrator], Nothing),
            ("ListFabricSwitches", &[SwitchAgent, Administrator], Nothing),
            ("ReadSwitchTables", &[SwitchAgent, Administrator], Nothing),
            ("ReadSwitchCounters", &[SwitchAgent, Administrator], Nothing),
            ("WriteSwitchTables", SWITCHES, Nothing),
            ("ListSwitchPorts", &[SwitchAgent, Administrator], Nothing),
        ],
    ),
    (
        "FabricAggregationService",
        &[
            ("ReadFabricAggregation", &[SwitchAgent, Administrator], Nothing),
            ("WriteFabricAggregation", SWITCHES, Nothing),
            ("ContributeValues", AGENTS, Endpoint),
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
        request: Request<Body>,
        mut inner: S,
    ) -> Result<Response<Body>, S::Error> {
        let caller = request.extensions().get::<Caller>();
        let path = request.uri().path();
        if let Some(caller) = caller
            && !caller.has_role(roles_of(path))
        {
            if let Some(unlogged) = REFUSALS.take() {
                info!(%caller, path, unlogged, "a call was refused");
            }
            audit_forbidden(&request, access_of(path).map_or("", |access| access.call));
            let call = path.rsplit('.').next().unwrap_or(path);
            let why = format!("{caller} may not call {call}");
            return Ok(Reason::NotPermitted.status(why, &[("call", call)]).into_http());
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
