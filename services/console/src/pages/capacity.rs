//! The capacity curve: what tables of other sizes would cost the groups that there are.

use fabricast_drawing::{Chart, ChartLine, ChartPoint};
use fabricast_routing::{Capacity, RoutingCost, SizeCost};
use maud::{Markup, PreEscaped, html};

use super::Page;
use super::parts::fact;
use crate::details::Details;
use crate::snapshot::Snapshot;

/// The curve, and its figures.
pub(crate) async fn capacity(now: &Snapshot, details: &Details) -> Page {
    let answer = details.capacity().await;
    let has = now.status.as_ref().map_or(0, |status| status.colors);
    let body = html! {
        h1 { "Capacity" }
        p .soft { "What tables of other sizes would cost if the groups that there are now were formed anew: groups "
            "on one tree (TFI) and on one link (EFI). " code { "fabricast capacity plan" } " computes the same of a file." }
        @match &*answer {
            Err(problem) => p .problem role="status" { (problem) },
            Ok(found) => {
                dl .facts {
                    (fact("Entries of a table now", has))
                    (fact("Entries that avoid all merging", least(found)))
                    (fact("Fewer cannot, whatever the engine", bound(found)))
                }
                (one_more(found, has))
                h2 { "Tables of other sizes" }
                (PreEscaped(chart(found, has).svg()))
                p .soft { span .one { "●" } " most groups on a tree, " span .two { "●" } " most groups on a link, over the entries of a table" }
                (table(found))
            }
        }
        p { a href="/tables" { "To the tables" } }
    };
    Page { renewal: Some(super::SELDOM), ..Page::new("/tables", "Capacity", body) }
}

/// The effect of one entry more.
fn one_more(found: &Capacity, has: u32) -> Markup {
    let cost = |colors: u32| {
        let size = found.sizes.iter().find(|size| u32::from(size.colors) == colors)?;
        size.cost.as_ref()
    };
    let (Some(now), Some(more)) = (cost(has), cost(has.saturating_add(1))) else {
        return html! {};
    };
    let rows = [
        ("Trees", now.metrics.trees, more.metrics.trees),
        ("Most groups on a tree", now.metrics.max_tfi, more.metrics.max_tfi),
        (
            "Most groups on a link",
            now.metrics.switch_links.max_efi,
            more.metrics.switch_links.max_efi,
        ),
        ("Groups without a tree", now.unrouted, more.unrouted),
    ];
    let is_same = rows.iter().all(|(_, now, more)| now == more);
    html! {
        h2 { "One entry more" }
        @if is_same { p { "With " (has + 1) " entries the plan would be as good as with " (has) "." } }
        @else { p { "What " (has + 1) " entries would change if the groups were formed anew:" } }
        dl #one-more .facts {
            @for (what, now, more) in rows {
                (fact(what, if now == more { now.to_string() } else { format!("{now} → {more}") }))
            }
        }
    }
}

fn chart(found: &Capacity, has: u32) -> Chart {
    let line = |label: &str, of: fn(&RoutingCost) -> u32| {
        let point = |size: &SizeCost| {
            let y = f64::from(of(size.cost.as_ref()?));
            Some(ChartPoint { x: size.colors.into(), y })
        };
        let points = found.sizes.iter().filter_map(point).collect();
        ChartLine { label: label.to_owned(), points }
    };
    Chart {
        title: "Cost of tables over their entries".to_owned(),
        x_label: "entries of a table".to_owned(),
        lines: vec![
            line("most groups on a tree", |cost| cost.metrics.max_tfi),
            line("most groups on a link", |cost| cost.metrics.switch_links.max_efi),
        ],
        marked: Some((has, "now".to_owned())),
    }
}

fn least(found: &Capacity) -> String {
    found.least.map_or_else(|| format!("none up to {}", found.limit), |least| least.to_string())
}

fn bound(found: &Capacity) -> String {
    if found.bound == u32::MAX { "none can".to_owned() } else { found.bound.to_string() }
}

fn table(found: &Capacity) -> Markup {
    let most = |of: fn(&RoutingCost) -> u32| {
        found.sizes.iter().filter_map(|size| size.cost.as_ref().map(of)).max().unwrap_or(0)
    };
    let (tfi, efi) =
        (most(|cost| cost.metrics.max_tfi), most(|cost| cost.metrics.switch_links.max_efi));
    html! {
        div .scroll tabindex="0" role="group" aria-label="Cost of table sizes" {
            table #capacity {
                thead { tr { th .number { "Entries" } th { "Most groups on a tree" } th { "Most groups on a link" }
                    th .number { "Mean TFI" } th .number { "Mean EFI" } th .number { "Trees" } th .number { "Unrouted" } } }
                tbody {
                    @for size in &found.sizes {
                        tr {
                            td .number { (size.colors) }
                            @match &size.cost {
                                None => td colspan="6" { "fewer than layers of groups" },
                                Some(cost) => {
                                    td { (bar(cost.metrics.max_tfi, tfi)) }
                                    td { (bar(cost.metrics.switch_links.max_efi, efi)) }
                                    td .number { (format!("{:.2}", cost.metrics.mean_tfi)) }
                                    td .number { (format!("{:.2}", cost.metrics.switch_links.mean_efi)) }
                                    td .number { (cost.metrics.trees) }
                                    td .number { (cost.unrouted) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn bar(value: u32, most: u32) -> Markup {
    html! {
        meter min="0" max=(most.max(1)) value=(value) aria-label=(value) title=(value) { (value) }
        " " (value)
    }
}
