//! Reads and checks a report of choices, message by message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::ids::{Gn, Revision};
use fabricast_proto::v1;
use fabricast_routing::{EngineKind, MAX_COLORS};
use fabricast_rpc::Reason;
use fabricast_topology::Graph;
use prost::Message;
use tonic::Status;

use crate::api::{fields, pages};
use crate::domain::choices::{ChoiceReport, text};
use crate::domain::elements::{self, ElementKey};

/// Most bytes of choices in one report, encoded.
const MAX_BYTES: usize = 256 << 20;
/// The root scopes that engines have.
const ROOT_SCOPES: [&str; 2] = ["tn", "tn-group"];

/// The topology that reports must be about.
#[derive(Clone, Debug)]
pub(crate) struct ReportContext {
    pub(crate) graph: Arc<Graph>,
    /// SHA-256 of the topology as it is downloaded.
    pub(crate) topology_sha256: Arc<[u8]>,
}

/// A report that is being read.
#[derive(Debug)]
pub(crate) struct ReportReader<'a> {
    context: &'a ReportContext,
    report: ChoiceReport,
    bytes: usize,
}

impl<'a> ReportReader<'a> {
    /// Reads the first message except its groups, which [`ReportReader::read`] reads.
    pub(crate) fn start(
        context: &'a ReportContext,
        first: &v1::RecordRouteChoicesRequest,
    ) -> Result<Self, Status> {
        let fence = first.fence.ok_or_else(|| fields::missing("fence"))?;
        let term = fields::not_zero("fence.term", fence.term)?;
        let number = fields::not_zero("fence.generation", fence.generation)?;
        let scheme = first.scheme.as_ref().ok_or_else(|| fields::missing("scheme"))?;
        context.check_scheme(scheme)?;
        let failed = first.failed_elements.iter();
        let failed = failed.map(|element| ElementKey::find(&context.graph, element));
        let failed: BTreeSet<ElementKey> = failed.collect::<Result<_, _>>()?;
        let report = ChoiceReport {
            term,
            number,
            seen: Revision(first.seen_revision),
            scheme: text::scheme(scheme).into(),
            failed: elements::text(&context.graph, &failed).into(),
            groups: BTreeMap::new(),
        };
        Ok(Self { context, report, bytes: 0 })
    }

    /// Reads the groups of a message.
    pub(crate) fn read(&mut self, message: &v1::RecordRouteChoicesRequest) -> Result<(), Status> {
        self.bytes += message.encoded_len();
        if self.bytes > MAX_BYTES {
            let message = format!("changed: more than {MAX_BYTES} bytes in one report");
            return Err(Reason::LimitReached.status(message, &[("field", "changed")]));
        }
        for choice in &message.changed {
            let gn = fields::not_zero("changed.gn", choice.gn)?;
            self.context.check_choice(choice)?;
            self.add("changed.gn", gn, Some(text::choice(choice).into()))?;
        }
        for gn in &message.removed_gns {
            let gn = fields::not_zero("removed_gns", *gn)?;
            self.add("removed_gns", gn, None)?;
        }
        Ok(())
    }

    /// Bytes of the messages so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn add(&mut self, field: &str, gn: u64, text: Option<Arc<str>>) -> Result<(), Status> {
        if self.report.groups.insert(Gn(gn), text).is_some() {
            return Err(invalid(field, format!("group {gn} is in the report twice")));
        }
        Ok(())
    }

    /// Returns the report after its last message.
    pub(crate) fn end(self) -> ChoiceReport {
        self.report
    }
}

impl ReportContext {
    fn check_scheme(&self, scheme: &v1::RouteChoiceScheme) -> Result<(), Status> {
        if scheme.engine.parse::<EngineKind>().is_err() {
            let message =
                format!("scheme.engine: there is no engine '{}'", scheme.engine.escape_debug());
            return Err(Reason::NameInvalid.status(message, &[("field", "scheme.engine")]));
        }
        if !(1..=u32::from(MAX_COLORS)).contains(&scheme.color_count) {
            let field = "scheme.color_count";
            let message = format!("{field}: {} is not 1 to {MAX_COLORS}", scheme.color_count);
            return Err(Reason::ColorOutOfRange.status(message, &[("field", field)]));
        }
        match v1::TableKind::try_from(scheme.tables) {
            Ok(v1::TableKind::PerPort | v1::TableKind::PerSwitch) => {}
            Ok(v1::TableKind::Unspecified) | Err(_) => {
                return Err(fields::missing("scheme.tables"));
            }
        }
        if !ROOT_SCOPES.contains(&&*scheme.root_scope) {
            let field = "scheme.root_scope";
            let text = scheme.root_scope.escape_debug();
            let message = format!("{field}: '{text}' is none of {ROOT_SCOPES:?}");
            return Err(Reason::NameInvalid.status(message, &[("field", field)]));
        }
        if *scheme.topology_sha256 != *self.topology_sha256 {
            let field = "scheme.topology_sha256";
            let message = format!("{field}: the topology of this TIC has another one");
            return Err(Reason::TopologyDiffers.status(message, &[("field", field)]));
        }
        Ok(())
    }

    fn check_choice(&self, choice: &v1::RouteChoice) -> Result<(), Status> {
        if choice.trees.is_empty() {
            return Err(fields::missing("changed.trees"));
        }
        // A page must hold at least one choice.
        let (bytes, most) = (choice.encoded_len(), pages::MAX_BYTES);
        if bytes > most {
            let message = format!("changed: {bytes} bytes for group {}, at most {most}", choice.gn);
            return Err(Reason::LimitReached.status(message, &[("field", "changed")]));
        }
        let field = "changed.trees.tree";
        if let Some(tree) = choice.trees.iter().find(|tree| tree.tree > u32::from(u8::MAX)) {
            return Err(invalid(field, format!("{} is more than {}", tree.tree, u8::MAX)));
        }
        if !choice.trees.is_sorted_by(|one, next| one.tree < next.tree) {
            return Err(invalid(
                field,
                format!("the trees of group {} are not in rising order", choice.gn),
            ));
        }
        let both = choice.trees.iter().find(|tree| tree.ports_gn > 0 && !tree.ports.is_empty());
        if let Some(tree) = both {
            let (gn, other) = (choice.gn, tree.ports_gn);
            let why = format!("group {gn} has the ports itself, not group {other}");
            return Err(invalid("changed.trees.ports_gn", why));
        }
        choice.trees.iter().try_for_each(|tree| self.check_ports(&tree.ports))
    }

    fn check_ports(&self, ports: &[v1::SwitchPorts]) -> Result<(), Status> {
        let field = "changed.trees.ports.ports";
        let mut seen = BTreeSet::new();
        for at in ports {
            let name = &at.switch_name;
            let unknown = |text: String| {
                let message = format!("changed.trees.ports: {text}");
                Reason::UnknownElement.status(message, &[("switch", name)])
            };
            let switch = self.graph.find_switch(name);
            let switch =
                switch.ok_or_else(|| unknown(format!("no switch '{name}' in the topology")))?;
            if !seen.insert(switch) {
                return Err(invalid(field, format!("switch {name} is in a tree twice")));
            }
            if at.ports.is_empty() {
                return Err(fields::missing(field));
            }
            if !at.ports.is_sorted_by(|one, next| one < next) {
                return Err(invalid(
                    field,
                    format!("the ports of switch {name} are not in rising order"),
                ));
            }
            for number in &at.ports {
                let found = u8::try_from(*number).ok().and_then(|n| self.graph.port(switch, n));
                found.ok_or_else(|| unknown(format!("switch {name} has no port {number}")))?;
            }
        }
        Ok(())
    }
}

fn invalid(field: &str, why: String) -> Status {
    Reason::ChoiceInvalid.status(format!("{field}: {why}"), &[("field", field)])
}
