//! Routing costs by table size, as a table and plots.

use fabricast_routing::{Capacity, RoutingCost};

use crate::plot::{Axis, Figure, Plot, Series, Style};
use crate::report::{Cell, Report, Table};

/// Label of a line, and what it shows.
type Line = (&'static str, fn(&RoutingCost) -> f64);

/// Makes the report of a capacity plan: `capacity.csv`, `efi.svg`, `tfi.svg` and `trees.svg`.
///
/// - `title`: what was routed and how, for the headings.
#[must_use]
pub fn capacity_report(title: &str, capacity: &Capacity) -> Report {
    let costs: Vec<(u16, RoutingCost)> =
        capacity.sizes.iter().filter_map(|one| Some((one.colors, one.cost?))).collect();
    let plot = |name: &str, what: &str, lines: &[Line]| Plot {
        name: name.to_owned(),
        title: format!("{what}, {title}"),
        figure: Figure::Lines {
            x: Axis::log("entries of a table"),
            y: Axis::log(what),
            series: lines.iter().map(|(label, value)| line(label, &costs, *value)).collect(),
        },
    };
    let plots = vec![
        plot(
            "efi",
            "EFI of links between switches",
            &[
                ("maximum", |cost| f64::from(cost.metrics.switch_links.max_efi)),
                ("mean", |cost| cost.metrics.switch_links.mean_efi),
            ],
        ),
        plot(
            "tfi",
            "TFI",
            &[
                ("maximum", |cost| f64::from(cost.metrics.max_tfi)),
                ("mean", |cost| cost.metrics.mean_tfi),
            ],
        ),
        plot(
            "trees",
            "trees and groups",
            &[
                ("groups with a tree", |cost| f64::from(cost.metrics.groups)),
                ("trees", |cost| f64::from(cost.metrics.trees)),
                ("groups without a tree", |cost| f64::from(cost.unrouted)),
            ],
        ),
    ];
    Report { tables: vec![table(title, capacity)], plots, ..Report::default() }
}

fn line(label: &str, costs: &[(u16, RoutingCost)], value: fn(&RoutingCost) -> f64) -> Series {
    Series {
        label: label.to_owned(),
        points: costs.iter().map(|(colors, cost)| (f64::from(*colors), value(cost))).collect(),
        style: Style::Line,
    }
}

const COLUMNS: [&str; 10] = [
    "entries",
    "merging",
    "groups",
    "trees",
    "groups without a tree",
    "max TFI",
    "mean TFI",
    "max EFI",
    "mean EFI",
    "entries used",
];

fn table(title: &str, capacity: &Capacity) -> Table {
    let mut table = Table::new("capacity", title, &COLUMNS);
    for one in &capacity.sizes {
        let entries = Cell::count(one.colors);
        let Some(cost) = one.cost else {
            let rest = (2..COLUMNS.len()).map(|_| Cell::Empty);
            table.push([entries, Cell::text("too few for the layers")].into_iter().chain(rest));
            continue;
        };
        let metrics = cost.metrics;
        table.push([
            entries,
            Cell::text(if cost.avoids_merging() { "no" } else { "yes" }),
            Cell::count(metrics.groups),
            Cell::count(metrics.trees),
            Cell::count(cost.unrouted),
            Cell::count(metrics.max_tfi),
            Cell::Number(metrics.mean_tfi, 3),
            Cell::count(metrics.switch_links.max_efi),
            Cell::Number(metrics.switch_links.mean_efi, 3),
            Cell::count(metrics.max_entries),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use fabricast_routing::{LinkLoads, Metrics, SizeCost};

    use super::*;

    #[test]
    fn every_size_is_a_row_and_those_with_a_cost_are_points() {
        let links = LinkLoads { used: 2, max_efi: 5, mean_efi: 2.5 };
        let metrics = Metrics {
            groups: 9,
            trees: 4,
            max_tfi: 3,
            mean_tfi: 2.25,
            switch_links: links,
            max_entries: 2,
            ..Metrics::default()
        };
        let cost = RoutingCost { metrics, unrouted: 1, cut_off: 0 };
        let sizes =
            vec![SizeCost { colors: 1, cost: None }, SizeCost { colors: 2, cost: Some(cost) }];
        let capacity = Capacity { bound: 2, least: None, limit: 8, tried: 7, sizes };
        let files = capacity_report("a fabric", &capacity).drawn();
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["capacity.csv", "efi.svg", "tfi.svg", "trees.svg"]);
        let rows: Vec<&str> = files[0].text.lines().skip(1).collect();
        assert_eq!(rows, ["1,too few for the layers,,,,,,,,", "2,yes,9,4,1,3,2.250,5,2.500,2"]);
        assert!(files[1].text.contains("EFI of links between switches, a fabric"));
    }
}
