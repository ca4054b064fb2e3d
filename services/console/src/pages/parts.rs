//! Parts that several pages have.

use std::time::SystemTime;

use fabricast_drawing::{Drawing, Fabric, Scope, Unit};
use fabricast_proto::v1;
use maud::{Markup, PreEscaped, html};

use crate::http::encoded;

/// Rows of one page of a list.
pub(super) const PAGE: usize = 50;
/// Width from which a drawing is scrolled on small screens instead of made smaller.
const WIDE: i32 = 900;

/// Words of the classes of used entries.
pub(super) const ENTRIES: [&str; 6] =
    ["no entry used", "up to a quarter", "up to half", "up to three quarters", "more", "full"];

/// A name that somebody has chosen; it cannot turn the text around it.
pub(super) fn name(text: &str) -> Markup {
    html! { bdi { (text) } }
}

/// A figure with its label.
pub(super) fn fact(label: &str, value: impl maud::Render) -> Markup {
    html! { div { dt { (label) } dd { (value) } } }
}

pub(super) fn group_link(group: &str) -> Markup {
    html! { a href={ "/group?name=" (encoded(group)) } { (name(group)) } }
}

pub(super) fn node_link(node: &str) -> Markup {
    if node.is_empty() {
        return html! { "–" };
    }
    html! { a href={ "/node?name=" (encoded(node)) } { (name(node)) } }
}

/// A switch by its node id, with the name that people know it by.
pub(super) fn switch_link(fabric: Option<&Fabric>, id: &str) -> Markup {
    let found = fabric.and_then(|fabric| Some((fabric, fabric.graph().find_switch(id)?)));
    let title = found.map_or(id, |(fabric, switch)| fabric.switch_title(switch));
    html! { a href={ "/switch?name=" (encoded(id)) } { (name(title)) } }
}

/// A link to the switch if it is one, else the text.
pub(super) fn end_link(fabric: Option<&Fabric>, peer: &str) -> Markup {
    match fabric.and_then(|fabric| fabric.graph().find_switch(peer)) {
        Some(_) => switch_link(fabric, peer),
        None => name(peer),
    }
}

/// Address that a box of a drawing leads to: a switch's page, or a midplane opened.
pub(super) fn unit_address(fabric: &Fabric, unit: Unit) -> String {
    match unit {
        Unit::Switch(switch) => {
            format!("/switch?name={}", encoded(fabric.graph().switch_name(switch)))
        }
        Unit::Cn(_) | Unit::Tn(_) | Unit::Part(_) | Unit::Member(_) => {
            format!("/fabric?inside={unit}")
        }
    }
}

/// A drawing in its frame.
///
/// - `base`: address of midplanes, up to their key; empty for that of the fabric.
pub(super) fn picture(fabric: &Fabric, drawing: &Drawing, base: &str) -> Markup {
    let link = |unit: Unit| match unit {
        Unit::Cn(_) | Unit::Tn(_) | Unit::Part(_) if !base.is_empty() => {
            Some(format!("{base}{unit}"))
        }
        _ => Some(unit_address(fabric, unit)),
    };
    let class = if drawing.width > WIDE { "scroll picture wide" } else { "scroll picture" };
    html! {
        div class=(class) tabindex="0" role="group" aria-label=(drawing.title) {
            (PreEscaped(drawing.svg(&link)))
        }
        @if drawing.left_out > 0 {
            p .soft { "Lines join whole blocks, as there are " (drawing.left_out)
                " pairs of midplanes with links; those with a failure or a tree are drawn." }
        }
    }
}

/// The meaning of the colors.
///
/// - `classes`: words of the classes of amounts, of which empty ones are left out; `None` for a
///   drawing that shows none.
pub(super) fn legend(with_tree: bool, classes: Option<[&str; 6]>) -> Markup {
    let cell = |class: &str| {
        html! { svg .fabric viewBox="0 0 26 14" aria-hidden="true" {
            g class={ "cell " (class) } { rect x="1.5" y="1.5" width="23" height="11" rx="3" {} }
        } }
    };
    let line = |class: &str| {
        html! { svg .fabric viewBox="0 0 26 14" aria-hidden="true" {
            path class={ "line " (class) } d="M1 7L25 7" {}
        } }
    };
    html! {
        ul .legend aria-label="Legend" {
            @if with_tree {
                li { (line("tree")) "tree" }
                li { (line("second")) "second tree" }
                li { (cell("f0 member")) "has members" }
                li { (cell("f0 root")) "root" }
            }
            @for (class, words) in classes.iter().flatten().enumerate().filter(|(_, words)| !words.is_empty()) {
                li { (cell(&format!("f{class}"))) (words) }
            }
            li { (cell("f0 hurt")) "part of it failed" }
            li { (cell("dead")) "failed" }
            li { (line("dead")) "failed link" }
        }
    }
}

/// The part of the fabric that an address names; `None` for one that does not exist.
pub(super) fn scope(fabric: &Fabric, key: &str) -> Option<Scope> {
    match key {
        "" => Some(Scope::Whole),
        key => Unit::parse(key).filter(|unit| fabric.has(*unit)).map(Scope::Inside),
    }
}

/// Way through a list of many pages.
///
/// - `address`: of the list, up to the number of the page.
pub(super) fn pages(address: &str, page: usize, rows: usize) -> Markup {
    let last = rows.div_ceil(PAGE).max(1);
    let page = page.min(last);
    html! {
        @if last > 1 {
            p .pages {
                @if page > 1 { a #before href={ (address) (page - 1) } { "before" } }
                span { "page " (page) " of " (last) }
                @if page < last { a #next href={ (address) (page + 1) } { "next" } }
            }
        }
    }
}

/// The rows of a page of a list.
pub(super) fn rows_of<T>(rows: &[T], page: usize) -> &[T] {
    let first = (page.min(rows.len().div_ceil(PAGE).max(1)) - 1) * PAGE;
    &rows[first..rows.len().min(first + PAGE)]
}

/// Time of the day, in UTC.
pub(super) fn clock(at: SystemTime) -> String {
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let day = seconds % 86_400;
    format!("{:02}:{:02}:{:02} UTC", day / 3600, day / 60 % 60, day % 60)
}

/// Time since something happened.
pub(super) fn ago(time: Option<prost_types::Duration>) -> String {
    match time.map(|time| time.seconds) {
        None => "never".to_owned(),
        Some(seconds) if seconds < 120 => format!("{seconds} s ago"),
        Some(seconds) if seconds < 7200 => format!("{} min ago", seconds / 60),
        Some(seconds) => format!("{} h ago", seconds / 3600),
    }
}

/// State of the route of a group, in words.
pub(super) fn route_state(group: &v1::Group) -> Markup {
    let Some(route) = &group.route else { return html! { span .soft { "not yet routed" } } };
    html! {
        @match route.state() {
            v1::RouteState::Routed if route.reason.is_empty() => span .good { "hardware" },
            v1::RouteState::Routed => span .warn { "hardware, not as planned" },
            v1::RouteState::UnicastOnly => span .bad { "unicast only" },
            v1::RouteState::Unspecified => span .soft { "not yet routed" },
        }
    }
}
