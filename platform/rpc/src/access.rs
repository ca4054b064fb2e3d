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
type Calls = (&'static str, &'static [(&'static str, &'static [Role])]);

const TABLE: &[Calls] = &[
    ("AdministrationService", &[("GetServerInfo", ALL)]),
    (
        "TicService",
        &[
            ("RegisterNode", AGENTS),
            ("JoinGroup", AGENTS),
            ("LeaveGroup", AGENTS),
            ("DeleteGroup", LAUNCHERS),
            ("PlanMgids", LAUNCHERS),
            ("GetGroup", ALL),
            ("ListGroups", ALL),
            ("ListNodes", PARTS),
            ("GetNode", PARTS),
            ("RemoveNode", ADMIN),
            ("ReportNodeFailure", &[OperatingAgent, Administrator]),
            ("ReadmitNode", ADMIN),
            ("ReportGroupAgents", AGENTS),
            ("ReportFailedElements", SWITCHES),
            ("ListReporters", ADMIN),
            ("RemoveReporter", ADMIN),
            ("WatchDirectory", &[Router, Administrator]),
            ("DownloadTopology", ALL),
            ("AcquireRouteTerm", ROUTERS),
            ("RenewRouteTerm", ROUTERS),
            ("ReleaseRouteTerm", ROUTERS),
            ("ReportRoutes", ROUTERS),
        ],
    ),
    ("TopologyService", &[("ReportTopology", SWITCHES), ("ReplaceTopology", ADMIN)]),
    (
        "GroupBatchService",
        &[
            ("FormGroups", LAUNCHERS),
            ("DeleteJobGroups", ADMIN),
            ("JoinMany", AGENTS),
            ("LeaveMany", AGENTS),
            ("GetMany", AGENTS),
        ],
    ),
    ("RouteChoiceService", &[("RecordRouteChoices", ROUTERS), ("ListRouteChoices", ROUTERS)]),
    (
        "JobService",
        &[
            ("CreateJob", ADMIN),
            ("DeleteJob", ADMIN),
            ("GetJob", ADMIN),
            ("ListJobs", ADMIN),
            ("GetJobReport", ADMIN),
        ],
    ),
    (
        "CollectiveService",
        &[
            ("CreateCollective", ADMIN),
            ("ReleaseCollective", ADMIN),
            ("GetCollective", PARTS),
            ("ListCollectives", PARTS),
            ("ReserveEntries", ADMIN),
            ("CancelReservation", ADMIN),
            ("SetCollectiveQuota", ADMIN),
            ("GetEntryUsage", ADMIN),
            ("WatchAggregationTrees", ROUTERS),
            ("ReportAggregationTrees", ROUTERS),
        ],
    ),
    ("CollectiveAgentService", &[("RunCollective", ADMIN)]),
    (
        "GroupAgentService",
        &[
            ("RegisterMember", AGENTS),
            ("RegisterMembers", AGENTS),
            ("WatchGroupMembers", AGENTS),
            ("DeregisterMember", AGENTS),
            ("ReportOperatingAgents", AGENTS),
            ("QueryGroup", &[OperatingAgent, Administrator]),
            ("NotifyGroups", &[Tic]),
        ],
    ),
    (
        "OperatingAgentService",
        &[
            ("JoinGroup", USERS),
            ("LeaveGroup", USERS),
            ("JoinMany", USERS),
            ("LeaveMany", USERS),
            ("QueryGroup", USERS),
            ("ListMemberships", ADMIN),
            ("SendPacket", ADMIN),
            ("ReceivePackets", ADMIN),
            ("ProbeNode", &[Tic, OperatingAgent, Administrator]),
            ("UpdatePositions", AGENTS),
            ("OpenLink", AGENTS),
            ("ListHostedNodes", ADMIN),
            ("StopNode", ADMIN),
            ("StartNode", ADMIN),
        ],
    ),
    // At a Unix domain socket only, where no certificates are shown.
    (
        "ProcessService",
        &[
            ("ListLocalNodes", NOBODY),
            ("AttachProcess", NOBODY),
            ("ShareMemory", NOBODY),
            ("ReserveMembers", NOBODY),
            ("JoinGroup", NOBODY),
            ("LeaveGroup", NOBODY),
            ("ListMembers", NOBODY),
            ("WatchMembers", NOBODY),
            ("TakePart", NOBODY),
            ("ListParticipants", NOBODY),
            ("SendMessage", NOBODY),
            ("RunOperation", NOBODY),
        ],
    ),
    (
        "RouteService",
        &[
            ("GetRouteStatus", &[Tic, Router, OperatingAgent, Administrator]),
            ("ExplainRoute", ADMIN),
            ("ListTableDrifts", ADMIN),
        ],
    ),
    (
        "SwitchAgentService",
        &[
            ("ListSwitches", &[Router, Administrator]),
            ("ReadTables", &[Router, Administrator]),
            ("ReadCounters", &[Router, Administrator]),
            ("WriteTables", ROUTERS),
            ("ListPorts", &[Router, Administrator]),
        ],
    ),
    (
        "SwitchAggregationService",
        &[("ReadAggregation", &[Router, Administrator]), ("WriteAggregation", ROUTERS)],
    ),
    (
        "FabricService",
        &[
            ("AttachEndpoints", AGENTS),
            ("InjectPacket", ADMIN),
            ("FailElement", ADMIN),
            ("HealElement", ADMIN),
            ("DisturbSwitch", ADMIN),
            ("WatchFailedElements", &[SwitchAgent, Administrator]),
            ("ListFabricSwitches", &[SwitchAgent, Administrator]),
            ("ReadSwitchTables", &[SwitchAgent, Administrator]),
            ("ReadSwitchCounters", &[SwitchAgent, Administrator]),
            ("WriteSwitchTables", SWITCHES),
            ("ListSwitchPorts", &[SwitchAgent, Administrator]),
        ],
    ),
    (
        "FabricAggregationService",
        &[
            ("ReadFabricAggregation", &[SwitchAgent, Administrator]),
            ("WriteFabricAggregation", SWITCHES),
            ("ContributeValues", AGENTS),
        ],
    ),
];

/// The access of every call of `fabricast.v1`.
pub fn access_table() -> impl Iterator<Item = Access> {
    TABLE.iter().flat_map(|(service, calls)| {
        calls.iter().map(|(call, roles)| Access { service, call, roles })
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
        let written = access_table().map(|Access { service, call, roles }| {
            let mut roles = roles.to_vec();
            roles.sort();
            let words: Vec<_> = roles.iter().map(|role| role.word()).collect();
            let words = match roles.as_slice() {
                [] => "nobody over a network".to_owned(),
                roles if roles == ALL => "all".to_owned(),
                _ => words.join(", "),
            };
            format!("| `{service}` | `{call}` | {words} |")
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
