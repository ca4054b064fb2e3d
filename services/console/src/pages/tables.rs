//! Tables: entries used and free, switch by switch and color by color.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_drawing::Fabric;
use fabricast_proto::v1;
use maud::{Markup, html};

use super::Page;
use super::parts::{fact, pages, rows_of, switch_link};
use crate::http::{Query, encoded};
use crate::overlay::is_routed;
use crate::snapshot::Snapshot;

/// Entries used and free, switch by switch.
pub(crate) fn tables(now: &Snapshot, query: &Query) -> Page {
    let (filter, page) = (query.get("filter"), query.number("page"));
    let fabric = now.fabric.as_deref();
    let title = |switch: &v1::Switch| switch.description.clone();
    let mut found: Vec<&v1::Switch> = now
        .switches
        .iter()
        .filter(|switch| {
            filter.is_empty() || switch.name.contains(filter) || title(switch).contains(filter)
        })
        .collect();
    found.sort_by_key(|switch| std::cmp::Reverse(switch.used_entries));
    let status = now.status.clone().unwrap_or_default();
    let address = format!("/tables?filter={}&page=", encoded(filter));
    let body = html! {
        h1 { "Tables" }
        p .soft { "The fullest table of each switch, the fullest switches first. A group needs one entry "
            "in each table that its tree passes; groups on one tree share it." }
        dl .facts {
            (fact("Entries of a table", status.colors))
            (fact("Used in the fullest", status.used_entries))
            (fact("Entries in all switches", status.programmed_entries))
            (fact("Virtual groups", status.virtual_groups))
            (fact("Most groups on a tree", status.max_tfi))
            (fact("Groups without entries", status.unicast_only_groups))
        }
        (fill_counts(&now.switches))
        p { a href="/capacity" { "What would one entry more change, and what would tables of other sizes cost?" } }
        (colors(now, status.colors))
        h2 { "Switch by switch" }
        form method="get" action="/tables" data-filter="" {
            label for="filter" { "Part of the name (press /)"
                input #filter type="search" name="filter" value=(filter) maxlength="256";
            }
            noscript { button { "Show" } }
        }
        p .soft { (found.len()) " of " (now.switches.len()) " switches" }
        div .scroll tabindex="0" role="group" aria-label="Switches" {
            table {
                thead { tr { th { "Switch" } th { "State" } th { "Entries" } th .number { "Used" }
                    th .number { "Free" } th { "Tables" } th .number { "Ports" } } }
                tbody { @for switch in rows_of(&found, page) { (row(fabric, switch)) } }
            }
        }
        (pages(&address, page, found.len()))
    };
    Page::new("/tables", "Tables", body)
}

fn row(fabric: Option<&Fabric>, switch: &v1::Switch) -> Markup {
    let free = switch.colors.saturating_sub(switch.used_entries);
    html! {
        tr {
            td { (switch_link(fabric, &switch.name)) }
            td { @if switch.live { span .good { "up" } } @else { span .bad { "down" } } }
            td { (fill_meter(switch)) }
            td .number { (switch.used_entries) }
            td .number { (free) }
            td { (kind(switch)) }
            td .number { (switch.port_count) }
        }
    }
}

fn fill_meter(switch: &v1::Switch) -> Markup {
    let (used, colors) = (switch.used_entries, switch.colors.max(1));
    let text = format!("{used} of {colors} entries used");
    let (low, high) = (colors / 2, colors * 3 / 4);
    html! {
        meter min="0" max=(colors) low=(low) high=(high) optimum="0" value=(used) aria-label=(text) title=(text) { (text) }
    }
}

pub(super) fn kind(switch: &v1::Switch) -> &'static str {
    match switch.table_kind() {
        v1::TableKind::PerPort => "per port",
        v1::TableKind::PerSwitch => "per switch",
        v1::TableKind::Unspecified => "?",
    }
}

/// Groups and trees of each color: they say which entries are crowded, and which are free.
fn colors(now: &Snapshot, of: u32) -> Markup {
    #[derive(Default)]
    struct Use {
        groups: u32,
        trees: BTreeSet<u64>,
    }
    let mut uses: BTreeMap<u32, Use> = BTreeMap::new();
    for group in now.groups.values().filter(|group| is_routed(group)) {
        let Some(route) = &group.route else { continue };
        let own = uses.entry(route.color).or_default();
        own.groups += 1;
        own.trees.insert(route.virtual_group);
    }
    let most = uses.values().map(|own| own.groups).max().unwrap_or(1);
    let used = u32::try_from(uses.len()).unwrap_or(u32::MAX);
    html! {
        h2 { "Color by color" }
        p .soft { "A color is the number of an entry. " (used) " of " (of) " carry groups; "
            (of.saturating_sub(used)) " are free in all switches." }
        @if !uses.is_empty() {
            details {
                summary { "The " (used) " colors in use" }
                div .scroll tabindex="0" role="group" aria-label="Colors" {
                    table #colors {
                        thead { tr { th .number { "Color" } th { "Groups" } th .number { "Trees" } } }
                        tbody { @for (color, own) in &uses {
                            tr {
                                td .number { (color) }
                                td { meter min="0" max=(most) value=(own.groups)
                                    aria-label=(format!("{} groups", own.groups)) { (own.groups) } " " (own.groups) }
                                td .number { (own.trees.len()) }
                            }
                        } }
                    }
                }
            }
        }
    }
}

/// Counts the switches by the share of entries that they use.
fn fill_counts(switches: &[v1::Switch]) -> Markup {
    let mut counts = [0_usize; 6];
    for switch in switches {
        let class = fabricast_drawing::fill_class(switch.used_entries, switch.colors);
        counts[usize::from(class)] += 1;
    }
    let words = ["empty", "to a quarter", "to half", "to three quarters", "more", "full"];
    html! {
        h2 { "Switches by their fullest table" }
        dl .facts { @for (word, count) in words.iter().zip(counts) { (fact(word, count)) } }
    }
}
