//! The fabric: levels, midplanes and switches, colored by entries used, groups on links, packets or
//! health.

use std::collections::BTreeMap;

use fabricast_drawing::{Drawing, Fabric, Overlay, Scope, Shade, Unit, draw};
use fabricast_proto::v1;
use fabricast_topology::{Graph, Peer, PortId};
use maud::{Markup, html};

use super::Page;
use super::parts::{ENTRIES, fact, legend, picture, scope};
use crate::details::Details;
use crate::http::{Query, encoded};
use crate::overlay::port;
use crate::snapshot::{Snapshot, element_text};

/// Most failed parts that are listed.
const LISTED: usize = 20;
/// Number of problems of a switch or midplane that has the last color.
const MANY_PROBLEMS: u32 = 4;

/// The fabric, or one midplane of it.
pub(crate) async fn fabric(now: &Snapshot, details: &Details, query: &Query) -> Page {
    let Some(fabric) = &now.fabric else {
        return Page::missing(
            "/fabric",
            "Fabric",
            "There is no topology yet: no TIC has answered.",
        );
    };
    let Some(scope) = scope(fabric, query.get("inside")) else {
        return Page::not_found("The fabric has no such midplane.");
    };
    let Some(color) = ColorBy::find(query.get("color")) else {
        return Page::not_found("The fabric is not colored by that.");
    };
    let mut overlay = now.overlay();
    let problem = color.shade(now, details, Shown { fabric, scope }, &mut overlay).await;
    let drawing = draw(fabric, scope, &overlay);
    let title = match scope {
        Scope::Whole => "Fabric".to_owned(),
        Scope::Inside(unit) => fabric.title(unit),
    };
    let body = html! {
        h1 { (title) }
        @if matches!(scope, Scope::Inside(_)) { p { a #up href=(color.address("")) { "The whole fabric" } } }
        (figures(now, fabric))
        (switch(color, query.get("inside")))
        (picture(fabric, &drawing, &format!("{}inside=", color.base())))
        @if let Some(problem) = problem { p .soft role="status" { (problem) } }
        (legend(false, Some(color.classes())))
        (failed(now, fabric, &drawing))
    };
    Page::new("/fabric", title, body)
}

/// The colors of the drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColorBy {
    Entries,
    Groups,
    Packets,
    Problems,
}

impl ColorBy {
    const ALL: [Self; 4] = [Self::Entries, Self::Groups, Self::Packets, Self::Problems];

    fn key(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::Groups => "groups",
            Self::Packets => "packets",
            Self::Problems => "health",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Entries => "Entries used",
            Self::Groups => "Groups on a link (EFI)",
            Self::Packets => "Packets a second",
            Self::Problems => "Health",
        }
    }

    /// Words of the classes of amounts: none, some, and the last one.
    fn classes(self) -> [&'static str; 6] {
        match self {
            Self::Entries => ENTRIES,
            Self::Groups => [
                "no group",
                "up to a quarter of the most",
                "up to half",
                "up to three quarters",
                "more",
                "as many as the most",
            ],
            Self::Packets => [
                "no packet",
                "up to a quarter of the busiest",
                "up to half",
                "up to three quarters",
                "more",
                "as many as the busiest",
            ],
            Self::Problems => ["no problem", "1", "2", "3", "", "4 or more"],
        }
    }

    fn find(key: &str) -> Option<Self> {
        if key.is_empty() {
            return Some(Self::Entries);
        }
        Self::ALL.into_iter().find(|one| one.key() == key)
    }

    /// Address of the fabric in these colors, up to the next parameter.
    fn base(self) -> String {
        match self {
            Self::Entries => "/fabric?".to_owned(),
            _ => format!("/fabric?color={}&", self.key()),
        }
    }

    /// Address of a part of the fabric in these colors.
    fn address(self, inside: &str) -> String {
        let base = self.base();
        let whole = base.trim_end_matches(['?', '&']).to_owned();
        if inside.is_empty() { whole } else { format!("{base}inside={}", encoded(inside)) }
    }

    /// Fills in the amounts; returns why they are not known.
    async fn shade(
        self,
        now: &Snapshot,
        details: &Details,
        shown: Shown<'_>,
        overlay: &mut Overlay,
    ) -> Option<String> {
        let graph = shown.fabric.graph();
        match self {
            Self::Entries => {
                let problem = add_entries(now, details, shown, overlay).await?;
                Some(format!("Entries of links are not shown: {problem}"))
            }
            Self::Groups => match &*details.link_loads().await {
                Ok(loads) => {
                    let by_port = link_loads(graph, loads);
                    fill(graph, overlay, Shade::Groups, by_port);
                    None
                }
                Err(problem) => {
                    clear(overlay);
                    Some(format!("It is not known which links carry groups: {problem}"))
                }
            },
            Self::Packets => {
                details.want_rates();
                match now.rates.as_deref() {
                    Some(Ok(rates)) => {
                        fill(graph, overlay, Shade::Packets, rates.by_port.clone());
                        None
                    }
                    Some(Err(problem)) => {
                        clear(overlay);
                        Some(format!("Rates are not known: {problem}"))
                    }
                    None => {
                        clear(overlay);
                        Some(
                            "Rates are being measured; the first ones come in some seconds."
                                .to_owned(),
                        )
                    }
                }
            }
            Self::Problems => {
                overlay.shade = Shade::Problems;
                overlay.full = MANY_PROBLEMS;
                overlay.by_switch = problems(now, graph);
                None
            }
        }
    }
}

/// The choice of colors.
fn switch(color: ColorBy, inside: &str) -> Markup {
    html! {
        nav .choice aria-label="Color by" {
            span .soft { "Color by" }
            @for one in ColorBy::ALL {
                a id={ "color-" (one.key()) } href=(one.address(inside)) aria-current=[(one == color).then_some("true")] {
                    (one.title())
                }
            }
        }
    }
}

fn clear(overlay: &mut Overlay) {
    overlay.full = 0;
    overlay.by_switch.clear();
}

/// Shows amounts of links: at a switch the largest of its links.
fn fill(graph: &Graph, overlay: &mut Overlay, shade: Shade, by_port: BTreeMap<PortId, u32>) {
    overlay.shade = shade;
    overlay.full = by_port.values().copied().max().unwrap_or(0).max(1);
    overlay.by_switch = vec![0; graph.switch_count()];
    for (port, amount) in &by_port {
        let far = match graph.peer(*port) {
            Peer::Switch(other) => Some(graph.switch_of(other)),
            Peer::Endpoint(_) | Peer::None => None,
        };
        for switch in [Some(graph.switch_of(*port)), far].into_iter().flatten() {
            let of = &mut overlay.by_switch[switch.index()];
            *of = (*of).max(*amount);
        }
    }
    overlay.by_port = by_port;
}

fn link_loads(graph: &Graph, loads: &v1::ListLinkLoadsResponse) -> BTreeMap<PortId, u32> {
    let mut by_port = BTreeMap::new();
    for switch in &loads.switches {
        for (number, groups) in switch.ports.iter().zip(&switch.groups) {
            if let Some(port) = port(graph, &switch.switch_name, *number) {
                by_port.insert(port, *groups);
            }
        }
    }
    by_port
}

/// Counts, by switch, what is wrong there: itself, its links, its table, and nodes below it.
fn problems(now: &Snapshot, graph: &Graph) -> Vec<u32> {
    let mut counts = vec![0; graph.switch_count()];
    for switch in now.faults.dead_switches() {
        counts[switch.index()] += 1;
    }
    for port in now.faults.dead_link_ports() {
        counts[graph.switch_of(port).index()] += 1;
    }
    let drifts = now.drifts.iter().flat_map(|drifts| &drifts.drifts);
    for drift in drifts.filter(|drift| drift.repaired_ago.is_none()) {
        if let Some(switch) = graph.find_switch(&drift.switch_name) {
            counts[switch.index()] += 1;
        }
    }
    for node in now.nodes.values().filter(|node| node.state() != v1::NodeState::Up) {
        let endpoint = node.endpoints.first().and_then(|name| graph.find_endpoint(name));
        if let Some(port) = endpoint.and_then(|endpoint| graph.attachment(endpoint)) {
            counts[graph.switch_of(port).index()] += 1;
        }
    }
    counts
}

/// A part of a fabric.
struct Shown<'a> {
    fabric: &'a Fabric,
    scope: Scope,
}

/// Reads the tables of switches that are drawn one by one; returns why that is impossible.
async fn add_entries(
    now: &Snapshot,
    details: &Details,
    shown: Shown<'_>,
    overlay: &mut Overlay,
) -> Option<String> {
    let Shown { fabric, scope } = shown;
    let graph = fabric.graph();
    let (key, inside) = match scope {
        Scope::Whole if !fabric.is_small() => return None,
        Scope::Whole => (String::new(), None),
        Scope::Inside(Unit::Switch(switch)) => {
            let unit = fabric.midplane(switch);
            (unit.to_string(), Some(unit))
        }
        Scope::Inside(unit) => (unit.to_string(), Some(unit)),
    };
    let drawn = graph.switches().filter(|s| inside.is_none_or(|unit| fabric.midplane(*s) == unit));
    let live = drawn.filter(|switch| now.faults.switch_is_live(*switch));
    let names: Vec<String> = live.map(|switch| graph.switch_name(switch).to_owned()).collect();
    match &*details.tables(&key, &names).await {
        Ok(tables) => {
            overlay.by_port = port_entries(fabric, tables);
            None
        }
        Err(problem) => Some(problem.clone()),
    }
}

/// Counts the entries of each input port; those of tables for whole switches belong to no link.
fn port_entries(fabric: &Fabric, tables: &[v1::SwitchTable]) -> BTreeMap<PortId, u32> {
    let mut counts = BTreeMap::new();
    for table in tables {
        for entry in table.entries.iter().filter(|entry| entry.in_port != 0) {
            if let Some(port) = port(fabric.graph(), &table.switch_name, entry.in_port) {
                *counts.entry(port).or_default() += 1;
            }
        }
    }
    counts
}

fn figures(now: &Snapshot, fabric: &Fabric) -> Markup {
    let graph = fabric.graph();
    let up = now.nodes.values().filter(|node| node.state() == v1::NodeState::Up).count();
    let status = now.status.clone().unwrap_or_default();
    html! {
        dl .facts {
            (fact("Switches", graph.switch_count()))
            (fact("Endpoints", graph.endpoint_count()))
            (fact("Nodes up", format!("{up} of {}", now.nodes.len())))
            (fact("Groups", now.groups.len()))
            (fact("Fullest table", format!("{} of {}", status.used_entries, status.colors)))
            (fact("Most groups on a link", status.max_efi))
            (fact("Failed parts", now.failed.len()))
        }
    }
}

fn failed(now: &Snapshot, fabric: &Fabric, drawing: &Drawing) -> Markup {
    let hurt = drawing.cells.iter().filter(|cell| cell.failed > 0).count();
    html! {
        h2 { "Failed parts" }
        @if now.failed.is_empty() {
            p .good { "None." }
        } @else {
            p { (now.failed.len()) " as the switch agents report them; boxes with a failure here: " (hurt) "." }
            ul {
                @for element in now.failed.iter().take(LISTED) {
                    li .bad { (failed_part(fabric, element)) }
                }
                @if now.failed.len() > LISTED { li { "and " (now.failed.len() - LISTED) " more" } }
            }
        }
    }
}

/// A failed part with a link to its switch.
pub(super) fn failed_part(fabric: &Fabric, element: &v1::Element) -> Markup {
    use v1::element::Kind;
    let switch = match &element.kind {
        Some(Kind::Link(end)) => Some(&end.switch_name),
        Some(Kind::SwitchName(name)) => Some(name),
        Some(Kind::Endpoint(_)) | None => None,
    };
    html! {
        bdi { (element_text(element)) }
        @if let Some(switch) = switch { " at " (super::parts::switch_link(Some(fabric), switch)) }
    }
}
