//! The capacity curve: what tables of other sizes would cost the groups that there are.

use fabricast_routing::{Capacity, RoutingCost};
use maud::{Markup, html};

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
            "on one tree (TFI) and on one link (EFI). " code { "fabricast plan capacity" } " computes the same of a file." }
        @match &*answer {
            Err(problem) => p .problem role="status" { (problem) },
            Ok(found) => {
                dl .facts {
                    (fact("Entries of a table now", has))
                    (fact("Entries that avoid all merging", least(found)))
                    (fact("Fewer cannot, whatever the engine", bound(found)))
                }
                (table(found))
            }
        }
        p { a href="/tables" { "To the tables" } }
    };
    Page { is_live: false, ..Page::new("/tables", "Capacity", body) }
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
