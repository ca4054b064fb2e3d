//! Calls about nodes: what their answers are made of.

use fabricast_groups::command::{Answer, Refusal};
use fabricast_groups::ids::{Incarnation, Moment};
use fabricast_groups::names::NodeName;
use fabricast_groups::record::NodeRecord;
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use tonic::Status;

use crate::clock::wall_clock;
use crate::refusals;
use crate::service::{Tic, mismatch};
use crate::wire;

impl Tic {
    /// Has a node asked that somebody cannot reach; nothing is decided yet.
    pub(crate) fn doubt(
        &self,
        node: &NodeName,
        incarnation: Option<Incarnation>,
        reporter: &str,
    ) -> Result<v1::ReportNodeFailureResponse, Status> {
        let (known, revision) = self.records.read(|directory| {
            let known = directory.node(node).map(|node| node.incarnation);
            (known, directory.revision().0)
        });
        let unknown = || Refusal::UnknownNode { node: node.clone() };
        let known = known.ok_or_else(|| refusals::status(&unknown()))?;
        let given = incarnation.unwrap_or(known);
        if given > known {
            let stale = Refusal::StaleIncarnation { node: node.clone(), given, known };
            return Err(refusals::status(&stale));
        }
        tracing::info!(member = %node, reporter, "node is said to be out of reach");
        self.liveness.reported((node.clone(), given));
        Ok(v1::ReportNodeFailureResponse { ended_memberships: 0, revision })
    }
}

/// What a node is answered that has announced itself.
pub(crate) fn registered(answer: Answer) -> Result<v1::RegisterNodeResponse, Status> {
    let node = match answer {
        Answer::Node(node) => node,
        Answer::Suppressed(node, until) => return Err(suppressed(&node, until)),
        _ => return Err(mismatch()),
    };
    let (start_id, node) = (node.start_id, Some(wire::node(&node, wall_clock())));
    Ok(v1::RegisterNodeResponse { node, start_id })
}

/// What an administrator is answered.
pub(crate) fn readmitted(answer: Answer) -> Result<v1::ReadmitNodeResponse, Status> {
    let Answer::FlapsForgotten(node) = answer else { return Err(mismatch()) };
    tracing::info!(member = %node.name, "node is held for steady again");
    Ok(v1::ReadmitNodeResponse { node: Some(wire::node(&node, wall_clock())) })
}

/// What a node is told that has come and gone too often.
fn suppressed(node: &NodeRecord, until: Moment) -> Status {
    let until = wire::timestamp(until).to_string();
    let why = node.flaps.map_or_else(String::new, |flaps| format!(": {flaps}"));
    let text = format!("node '{}' is not readmitted until {until}{why}", node.name);
    Reason::NodeSuppressed.status(text, &[("node", node.name.as_str()), ("until", &until)])
}
