//! Codec of choices, which the TIC keeps: ports travel by the name of their switch.

use fabricast_groups::ids::Gn;
use fabricast_proto::v1;
use fabricast_reconciler::{ChoiceReport, ChosenTree, RecordedChoices, RecordedPlan};
use fabricast_routing::{EngineKind, EngineOptions, RootScope};
use fabricast_rpc::{Backoff, RpcError};
use fabricast_topology::{Graph, PortId, TableKind};
use prost::Message;
use tracing::warn;

use super::{Caller, decode_element, encode_element};
use crate::environment::Environment;

/// Encoded size in bytes at which a message is full. Even with the largest choice after it, it
/// stays below the 4 MiB that a server takes.
const MESSAGE_BYTES: usize = 1 << 20;
/// Most groups without choices in one message.
const GNS_PER_MESSAGE: usize = 50_000;

/// Scheme of the choices of an engine with these options.
///
/// - `topology_sha256`: digest of the topology as downloaded.
pub(crate) fn scheme(
    engine: EngineKind,
    options: EngineOptions,
    topology_sha256: &[u8],
) -> v1::RouteChoiceScheme {
    let tables = match options.tables {
        TableKind::PerPort => v1::TableKind::PerPort,
        TableKind::PerSwitch => v1::TableKind::PerSwitch,
    };
    // Without a choice of scopes it makes no difference; the default must not make records foreign.
    let root_scope = match engine.has_root_scopes() {
        true => options.effective_root_scope(),
        false => RootScope::Tn,
    };
    v1::RouteChoiceScheme {
        engine: engine.name().to_owned(),
        color_count: options.colors.into(),
        tables: tables.into(),
        root_scope: root_scope.name().to_owned(),
        topology_sha256: topology_sha256.to_vec(),
        fault_tolerant: options.fault_tolerant,
    }
}

/// Groups per call when choices are read.
const PAGE_SIZE: u32 = 10_000;

/// Reads what earlier route services recorded; retries until the TIC answers. The term must have
/// been acquired before: from then on no other route service changes the choices.
pub(crate) async fn load<O: Environment>(
    environment: &O,
    graph: &Graph,
    scheme: &v1::RouteChoiceScheme,
) -> RecordedChoices {
    let mut backoff = Backoff::default();
    let page = loop {
        match read(environment).await {
            Ok(read) => break read,
            Err(error) => {
                warn!(peer = environment.tic(), error = %error.message(), "choices not read yet");
            }
        }
        let pause = environment.pause(&mut backoff);
        environment.sleep_until(environment.now().after(pause)).await;
    };
    match &page.scheme {
        None => return RecordedChoices::None,
        Some(found) if found != scheme => return RecordedChoices::Foreign,
        Some(_) => {}
    }
    let failed = page.failed_elements.iter();
    let failed = failed.filter_map(|element| decode_element(graph, element)).collect();
    let mut plan = RecordedPlan { failed, ..RecordedPlan::default() };
    let mut unreadable = Vec::new();
    for choice in &page.choices {
        match decode(graph, choice) {
            Some(trees) => drop(plan.chosen.insert(Gn(choice.gn), trees)),
            None => unreadable.push(Gn(choice.gn)),
        }
    }
    RecordedChoices::Ours { plan, unreadable }
}

/// All pages as one.
async fn read<O: Environment>(environment: &O) -> Result<v1::ListRouteChoicesResponse, RpcError> {
    let mut choices = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListRouteChoicesRequest { page_size: PAGE_SIZE, page_token };
        let mut page = environment.list_choices(request).await?;
        choices.append(&mut page.choices);
        page_token = std::mem::take(&mut page.next_page_token);
        if page_token.is_empty() {
            return Ok(v1::ListRouteChoicesResponse { choices, ..page });
        }
    }
}

/// Encodes a report, as messages that fit.
pub(crate) fn encode(caller: &Caller, report: ChoiceReport) -> Vec<v1::RecordRouteChoicesRequest> {
    let ChoiceReport { generation, failed, revision, changed, removed } = report;
    let Caller { term, scheme, graph } = caller;
    let first = v1::RecordRouteChoicesRequest {
        fence: Some(v1::Fence { term: *term, generation }),
        scheme: Some(scheme.clone()),
        failed_elements: failed.into_iter().map(|one| encode_element(graph, one)).collect(),
        seen_revision: revision.0,
        ..v1::RecordRouteChoicesRequest::default()
    };
    let changed = changed.iter().map(|group| choice(graph, group.gn, &group.trees)).collect();
    messages(first, changed, removed.into_iter().map(|gn| gn.0).collect())
}

/// Encodes the choices of a group.
fn choice(graph: &Graph, gn: Gn, trees: &[ChosenTree]) -> v1::RouteChoice {
    let same_switch = |a: &PortId, b: &PortId| graph.switch_of(*a) == graph.switch_of(*b);
    let at = |ports: &[PortId]| v1::SwitchPorts {
        switch_name: graph.switch_name(graph.switch_of(ports[0])).to_owned(),
        ports: ports.iter().map(|port| graph.port_number(*port).into()).collect(),
    };
    let tree = |chosen: &ChosenTree| v1::TreeChoice {
        tree: chosen.tree.into(),
        part: chosen.part,
        root: chosen.root,
        ports: chosen.ports.chunk_by(same_switch).map(at).collect(),
        ports_gn: chosen.ports_gn.map_or(0, |gn| gn.0),
    };
    v1::RouteChoice { gn: gn.0, trees: trees.iter().map(tree).collect() }
}

/// Decodes the choices of a group; `None` if they name a switch or port that the graph does not
/// have.
fn decode(graph: &Graph, choice: &v1::RouteChoice) -> Option<Vec<ChosenTree>> {
    let tree = |tree: &v1::TreeChoice| {
        let mut ports = Vec::new();
        for at in &tree.ports {
            let switch = graph.find_switch(&at.switch_name)?;
            for number in &at.ports {
                ports.push(graph.port(switch, u8::try_from(*number).ok()?)?);
            }
        }
        ports.sort_unstable();
        let (part, root) = (tree.part, tree.root);
        let ports_gn = Some(Gn(tree.ports_gn)).filter(|gn| gn.0 != 0);
        Some(ChosenTree { tree: u8::try_from(tree.tree).ok()?, part, root, ports, ports_gn })
    };
    choice.trees.iter().map(tree).collect()
}

/// Splits a report into messages that fit.
///
/// - `first`: the first message, without groups.
fn messages(
    first: v1::RecordRouteChoicesRequest,
    changed: Vec<v1::RouteChoice>,
    removed: Vec<u64>,
) -> Vec<v1::RecordRouteChoicesRequest> {
    let mut messages = Vec::new();
    let mut open = first;
    let mut bytes = open.encoded_len();
    for choice in changed {
        let more = choice.encoded_len();
        if bytes + more > MESSAGE_BYTES && !open.changed.is_empty() {
            messages.push(std::mem::take(&mut open));
            bytes = 0;
        }
        bytes += more;
        open.changed.push(choice);
    }
    messages.push(open);
    let gns = removed.chunks(GNS_PER_MESSAGE).map(|gns| v1::RecordRouteChoicesRequest {
        removed_gns: gns.to_vec(),
        ..v1::RecordRouteChoicesRequest::default()
    });
    messages.extend(gns);
    messages.last_mut().expect("the first one was pushed").last = true;
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricast_topology::SwitchId;

    use crate::wire::tests::graph;

    #[test]
    fn only_an_engine_with_root_scopes_has_another_scheme_with_another_scope() {
        let usual = EngineOptions::new(8, TableKind::PerPort);
        let narrow = EngineOptions { root_scope: Some(RootScope::Tn), ..usual };
        let scope = |kind, options| scheme(kind, options, &[]).root_scope;
        assert_eq!(scope(EngineKind::CMr4lmsDynamic, usual), "tn-group");
        assert_eq!(scope(EngineKind::CMr4lmsDynamic, narrow), "tn");
        assert_eq!(scope(EngineKind::Mr4lms, usual), "tn");
    }

    #[test]
    fn choices_survive_the_wire() {
        let graph = graph();
        let ports: Vec<PortId> = [SwitchId(0), SwitchId(2)]
            .into_iter()
            .flat_map(|switch| graph.ports(switch).skip(1))
            .collect();
        let own = ChosenTree { tree: 0, part: 7, root: 3, ports, ports_gn: None };
        let shared = ChosenTree { tree: 1, ports: Vec::new(), ports_gn: Some(Gn(5)), ..own };
        let trees = vec![own, shared];
        let sent = choice(&graph, Gn(9), &trees);
        assert_eq!(sent.trees[0].ports.len(), 2, "one entry per switch");
        assert_eq!(decode(&graph, &sent), Some(trees));
        let mut foreign = sent.clone();
        foreign.trees[0].ports[0].switch_name = "elsewhere".to_owned();
        assert_eq!(decode(&graph, &foreign), None);
        let mut foreign = sent;
        foreign.trees[0].ports[0].ports.push(200);
        assert_eq!(decode(&graph, &foreign), None);
    }

    #[test]
    fn a_report_of_any_size_is_split_into_messages_that_fit() {
        let tree = v1::TreeChoice { part: 7, root: 3, ..v1::TreeChoice::default() };
        let of = |gn: u64, trees| v1::RouteChoice { gn, trees: vec![tree.clone(); trees] };
        let changed: Vec<_> =
            (1..=40_000).map(|gn| of(gn, 8)).chain([of(50_000, 200_000)]).collect();
        let removed: Vec<u64> = (60_000..200_000).collect();
        let first = v1::RecordRouteChoicesRequest { seen_revision: 4, ..Default::default() };
        let cut = messages(first, changed.clone(), removed.clone());
        assert!(cut.len() > 5, "{}", cut.len());
        assert!(cut.iter().all(|message| message.encoded_len() < 4 << 20));
        assert_eq!(cut[0].seen_revision, 4);
        let (last, others) = cut.split_last().unwrap();
        assert!(last.last && others.iter().all(|message| !message.last));
        let all = cut.iter().flat_map(|message| message.changed.clone());
        assert_eq!(all.collect::<Vec<_>>(), changed);
        let gone = cut.iter().flat_map(|message| message.removed_gns.clone());
        assert_eq!(gone.collect::<Vec<_>>(), removed);
        let cut = messages(v1::RecordRouteChoicesRequest::default(), Vec::new(), Vec::new());
        assert!(cut.len() == 1 && cut[0].last, "an empty report is one message");
    }
}
