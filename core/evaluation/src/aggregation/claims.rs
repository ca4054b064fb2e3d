//! The statements in the text of the paper on aggregation trees, beside ours.

mod entries;
mod noise;
mod not_compared;

use fabricast_collectives::{Choice, ChoiceTable, Operation, Trade, TreeKind, WidthRange};

use super::figures::{Crossed, Found};
use super::parameters::{LIMITS, MOST};
use super::switches::Pair;
use super::timing::{Kind, SIZES, Tree, WIDE, WIDTH, modelled_us, switch_tree_us};
use crate::claim::{Claim, Comparison, Law, Published, Tolerance};
pub(super) use not_compared::NOT_COMPARED;

/// Sets the statements of the text beside ours.
pub(super) fn claims(found: &Found) -> Vec<Claim> {
    let mut claims = widths(found);
    claims.extend(model(found));
    claims.extend(idle(found));
    claims.extend(over_counts(found));
    claims.extend(over_sizes(found));
    claims.extend(heights(found));
    claims.extend(switch_trees(found));
    claims.extend(packets(found));
    claims.extend(noise::claims(found));
    claims.extend(entries::claims(&found.outcomes, &found.others));
    claims
}

/// One end of a range of widths.
type WidthEnd = fn(WidthRange) -> u32;

/// Lists what must hold by construction.
pub(super) fn laws(found: &Found) -> Vec<Law> {
    let falls = |pick: WidthEnd| {
        let sizes = [8, 64, 256, 1_024, 4_096, 16_384];
        let ranges = sizes.map(|bytes| {
            pick(Trade::new(&found.parameters, Operation::Reduce, bytes).width_range(
                MOST,
                MOST - 1,
                0.1,
            ))
        });
        (ranges, ranges.is_sorted_by(|wide, narrow| wide >= narrow))
    };
    let bounds: [(&str, WidthEnd); 2] =
        [("least", |range| range.min), ("largest", |range| range.max)];
    let widths = bounds.map(|(name, pick)| {
        let (ranges, holds) = falls(pick);
        Law {
            what: format!("{name} width over the size of a reduction"),
            source: "aggregation trees §3.1, table 2".to_owned(),
            demanded: "falls".to_owned(),
            found: format!("{ranges:?}"),
            holds,
        }
    });
    widths
        .into_iter()
        .chain([one_size_decides(found)])
        .chain(entries::laws(&found.outcomes))
        .collect()
}

/// "Small operations run on switch trees, large ones on adapter trees."
fn one_size_decides(found: &Found) -> Law {
    let table = ChoiceTable::new(&found.parameters, MOST, &LIMITS);
    let rows = table.rows().iter().filter(|row| row.operation == Operation::AllReduce);
    let (switches, adapters): (Vec<&Choice>, Vec<&Choice>) =
        rows.partition(|row| row.kind == TreeKind::Switch);
    let last = switches.last().map(|row| row.up_to_bytes);
    let text = last.map(|bytes| format!("switch trees up to {bytes} bytes, adapter trees above"));
    Law {
        what: "kind of tree over the size of an all-reduce, 512 processes".to_owned(),
        source: "aggregation trees §5".to_owned(),
        demanded: "switch trees for small ones, adapter trees for large ones".to_owned(),
        found: text.unwrap_or_else(|| "adapter trees".to_owned()),
        holds: last.is_some()
            && !adapters.is_empty()
            && adapters.iter().all(|row| Some(row.up_to_bytes) > last),
    }
}

fn widths(found: &Found) -> Vec<Claim> {
    let trade = Trade::new(&found.parameters, Operation::Barrier, 0);
    let range = trade.width_range(MOST, MOST - 1, 0.1);
    let (source, edge) = ("aggregation trees §3.1", "aggregation trees §3.1, figure 6");
    let row = |what: &str, source: &str, published: f64, ours: u32| {
        let text = published.to_string();
        Comparison::new(what, source, Published::number(text, published), f64::from(ours))
            .within(Tolerance::Percent(10.0))
    };
    vec![
        row("best width of barrier and broadcast", source, 41.0, trade.best_width(MOST - 1))
            .because("the cost model is another one than the paper's"),
        row("least width within 0.1 us of it, 512 processes", edge, 24.0, range.min)
            .because("the cost model is flatter or steeper below the best width"),
        row("largest width within 0.1 us of it, 512 processes", edge, 64.0, range.max)
            .higher_is_better()
            .because("at 64 F(k) is 0.07 us above the best and at 69 0.1 us; 64 may be the hardware's most children"),
        width_of_a_reduction(found),
    ]
}

/// §6.1: "k = 32 is good for barriers, broadcasts and reductions of 8 bytes."
fn width_of_a_reduction(found: &Found) -> Claim {
    let trade = Trade::new(&found.parameters, Operation::Reduce, 8);
    let best = trade.latency_us(trade.best_width(MOST - 1), MOST);
    let what = "reduction of 8 bytes, width 32 above the best width, 512 processes, model";
    let published = Published::at_most("good: within 0.1 us of the best", 0.1);
    let ours = trade.latency_us(WIDTH, MOST) - best;
    Comparison::new(what, "aggregation trees §6.1", published, ours)
        .printed(" us", 2)
        .within(Tolerance::Units(0.05))
        .note("what a byte costs is ours")
        .because("a byte costs more in ours than on the paper's machine, so that narrower trees are better")
}

/// §2.3: the model against what it models.
fn model(found: &Found) -> Vec<Claim> {
    let source = "aggregation trees §2.3, figures 4 and 5";
    let costs = &found.parameters;
    let apart = |of: &dyn Fn(&Tree) -> f64| {
        let each = found.idle.of(Kind::Ary).map(of);
        each.fold(0.0, f64::max)
    };
    let row = |what: &str, ours: f64| {
        Comparison::new(what, source, Published::at_most("at most 0.5 us", 0.5), ours)
            .printed(" us", 2)
            .within(Tolerance::Units(0.1))
            .note("published is the model against measured times")
    };
    let simulated = |tree: &Tree| {
        found.simulated.time(Kind::Ary, tree.processes).map_or(0.0, |time| time.idle_us)
    };
    vec![
        row(
            "32-ary, 8 bytes: model with the tree's own height and radius against packets followed, most apart",
            apart(&|tree| (tree.own_model_us(costs, 8) - tree.broadcast_us(costs, 8)).abs()),
        )
        .because("a level of the model waits for its last packet, which the packets do not"),
        row(
            "32-ary, 8 bytes: the same model against the simulator, most apart",
            apart(&|tree| (tree.own_model_us(costs, 8) - simulated(tree)).abs()),
        )
        .because("a way by one switch takes 0.51 us on the simulator and 0.56 us in the model"),
        row(
            "32-ary, 8 bytes: complete tree of equations (3) and (4) against packets followed, most apart",
            apart(&|tree| {
                let complete = modelled_us(costs, TreeKind::Adapter, tree.processes, [WIDTH, 8]);
                (complete - tree.broadcast_us(costs, 8)).abs()
            }),
        )
        .because("complete trees take all processes to be 4 links apart; up to 16 of them are 2 apart"),
    ]
}

/// §6.1.1: three trees with nothing else on the links.
fn idle(found: &Found) -> Vec<Claim> {
    let source = "aggregation trees §6.1.1, figure 12";
    let packets = |kind| found.idle.whole(kind).broadcast_us(&found.parameters, 8);
    let simulated = |kind| found.simulated.time(kind, MOST).map(|time| time.idle_us);
    let [ary, nomial, ours] = Kind::ALL.map(packets);
    let about = |what: &str, lower: f64| {
        Comparison::new(what, source, Published::number("about 0.6 us", 0.6), lower)
            .printed(" us", 2)
            .higher_is_better()
            .within(Tolerance::Units(0.15))
    };
    let mut claims = vec![
        about("hierarchical lower than 32-nomial, 512 processes, packets", nomial - ours)
            .because("its longest way has two links less (0.56 us), and packets are matched in turn for 0.08 us more"),
        about("hierarchical lower than 32-ary, 512 processes, packets", ary - ours).because(
            "the 16 inner nodes of our 32-ary tree stand on the root's leaf switch, so that it has as short ways; \
             published is that it is as slow as the 32-nomial tree",
        ),
        Comparison::new(
            "32-ary against 32-nomial, 512 processes, packets",
            source,
            Published::number("almost the same", 0.0),
            nomial - ary,
        )
        .printed(" us", 2)
        .within(Tolerance::Units(0.1))
        .because("32-nomial leaves the leaf switch twice on its longest way, 32-ary once"),
    ];
    let times = Kind::ALL.map(simulated);
    if let [Some(ary), Some(nomial), Some(ours)] = times {
        claims.push(about("hierarchical lower than 32-nomial, 512 processes, simulated", nomial - ours)
            .because("two links less, as with packets followed, on a simulator whose links take a little less"));
        claims.push(about("hierarchical lower than 32-ary, 512 processes, simulated", ary - ours)
            .because("its 16 inner nodes stand on the root's leaf switch here as well, and with 16 spine switches its 496 packets do not make it slower"));
    }
    if let Some(tree) = found.idle.of(Kind::Hierarchical).find(|tree| tree.processes == 32) {
        let few = tree.broadcast_us(&found.parameters, 8);
        let other = found.idle.of(Kind::Nomial).find(|tree| tree.processes == 32);
        claims.extend(other.map(|other| {
            let higher = few - other.broadcast_us(&found.parameters, 8);
            let what = "hierarchical higher than 32-nomial, 32 processes, packets";
            Comparison::new(what, source, Published::at_least("higher", 0.0), higher)
                .printed(" us", 2)
                .because("its height at 32 processes is the same as the other's")
        }));
    }
    claims
}

/// §6.1.1: "in most cases", over the numbers of processes.
fn over_counts(found: &Found) -> Vec<Claim> {
    let source = "aggregation trees §6.1.1, figure 12";
    let times = |kind: Kind| -> Vec<f64> {
        found.idle.of(kind).map(|tree| tree.broadcast_us(&found.parameters, 8)).collect()
    };
    let [ary, nomial, ours] = Kind::ALL.map(times);
    let both = || ary.iter().zip(&nomial);
    let alike = both().filter(|(ary, nomial)| (*ary - *nomial).abs() <= 0.1).count();
    let is_lower =
        |(ours, (ary, nomial)): &(&f64, (&f64, &f64))| **ours < (**ary).min(**nomial) - 1e-9;
    let lower = ours.iter().zip(both()).filter(is_lower).count();
    let count = ary.len();
    let row = |what: String, agree: usize| {
        let published = Published::at_least("most of them", (count / 2 + 1) as f64);
        Comparison::new(what, source, published, agree as f64).higher_is_better()
    };
    vec![
        row(
            format!("numbers of processes, of {count}, at which 32-ary and 32-nomial are within 0.1 us, packets"),
            alike,
        )
        .because(
            "from 64 processes on the 32-nomial tree leaves the leaf switch twice on its longest way, as the row of 512 \
             processes says",
        ),
        row(
            format!("numbers of processes, of {count}, at which hierarchical is lower than both others, packets"),
            lower,
        )
        .because("few processes, of which it is as high or higher, are most of the numbers"),
    ]
}

/// §6.1.1: the same over sizes.
fn over_sizes(found: &Found) -> Vec<Claim> {
    let least = |other: Kind| {
        let lower = SIZES.iter().map(|bytes| {
            let time = |kind| found.idle.whole(kind).broadcast_us(&found.parameters, *bytes);
            time(other) - time(Kind::Hierarchical)
        });
        lower.fold(f64::INFINITY, f64::min)
    };
    let rows = [
        (Kind::Nomial, "sizes change all three trees alike: it is the difference of 8 bytes"),
        (Kind::Ary, "at every size its ways are as short, as the row of 8 bytes says"),
    ];
    let each = rows.into_iter().map(|(other, reason)| {
        let what = format!(
            "hierarchical lower than {}, 512 processes, least over sizes of 8 to 2 048 bytes, packets",
            other.name()
        );
        let published = Published::number("clearly, as in figure 12: about 0.6 us", 0.6);
        let row = Comparison::new(what, "aggregation trees §6.1.1, figure 13", published, least(other));
        let row = row.printed(" us", 2).higher_is_better().within(Tolerance::Units(0.15));
        row.because(reason)
    });
    each.collect()
}

/// §6.1.1: "The hierarchical tree is higher at few processes; at many all three are as high."
fn heights(found: &Found) -> Vec<Claim> {
    let source = "aggregation trees §6.1.1";
    let height = |kind, processes| {
        let tree = found.idle.of(kind).find(|tree| tree.processes == processes)?;
        Some(f64::from(tree.tree.height()))
    };
    let few = [Kind::Hierarchical, Kind::Nomial].map(|kind| height(kind, 32));
    let many: Option<Vec<f64>> = Kind::ALL.into_iter().map(|kind| height(kind, MOST)).collect();
    let mut claims = Vec::new();
    if let [Some(ours), Some(nomial)] = few {
        let what = "levels of the hierarchical tree above those of 32-nomial, 32 processes";
        let row = Comparison::new(what, source, Published::at_least("more", 1.0), ours - nomial);
        claims.push(row.because("two leaf switches fit into one block of 32 places"));
    }
    claims.extend(many.map(|heights| {
        let most = heights.iter().copied().fold(0.0, f64::max);
        let least = heights.into_iter().fold(f64::INFINITY, f64::min);
        let what = "levels of the three trees, most less least, 512 processes";
        let row = Comparison::new(what, source, Published::number("the same", 0.0), most - least);
        row.because("blocks of 32 places that 16 processes leave half empty need a level more")
    }));
    claims
}

/// §6.2.1: whole broadcasts on switch trees and 64-ary adapter trees.
fn switch_trees(found: &Found) -> Vec<Claim> {
    let costs = &found.parameters;
    let mut claims = Vec::new();
    for processes in [64, MOST] {
        let Some(adapter) = found.idle.wide.iter().find(|tree| tree.processes == processes) else {
            continue;
        };
        for bytes in [8, 2_048] {
            let lower =
                adapter.broadcast_us(costs, bytes) - switch_tree_us(costs, processes, bytes);
            let what = format!(
                "whole broadcast of {bytes} bytes, switch tree lower than 64-ary, {processes} processes, packets"
            );
            let published = Published::number("about 1 us", 1.0);
            let row =
                Comparison::new(what, "aggregation trees §6.2.1, figure 18", published, lower);
            let row = row.printed(" us", 2).higher_is_better().within(Tolerance::Units(0.25));
            claims.push(row.because(if processes == MOST {
                format!(
                    "our 64-ary tree matches 64 packets in turn on two levels, the switch tree 16 and then 32; the \
                     paper's fabric of figure 17 has another top ({bytes} bytes)"
                )
            } else {
                format!(
                    "the way there and back is 4 links shorter (1.12 us), and the adapter has matched the packets of its own leaf switch before the others come (0.16 us; {processes} processes, {bytes} bytes)"
                )
            }));
        }
    }
    claims.extend(simulated_switch_trees(found));
    let advantage = |processes| {
        let complete = |kind| modelled_us(costs, kind, processes, [WIDE, 8]);
        complete(TreeKind::Adapter) - complete(TreeKind::Switch)
    };
    claims.push(
        Comparison::new(
            "whole broadcast of 8 bytes, switch tree lower than 64-ary, 512 processes, complete trees",
            "aggregation trees §6.2.1, figure 18",
            Published::number("about 1 us", 1.0),
            advantage(MOST),
        )
        .printed(" us", 2)
        .higher_is_better()
        .within(Tolerance::Units(0.25))
        .because("complete trees count the way back as well, where a switch tree saves 2 of 4 links"),
    );
    claims
}

/// The same on the packet-level simulator, whose switches reduce in units.
fn simulated_switch_trees(found: &Found) -> Vec<Claim> {
    let rows = found.kinds.iter().filter(|pair| [64, MOST].contains(&pair.processes));
    let each = rows.map(|pair| {
        let Pair { processes, bytes, adapter_us, switch_us } = *pair;
        let what = format!(
            "whole broadcast of {bytes} bytes, switch tree lower than 64-ary, {processes} processes, simulated"
        );
        let published = Published::number("about 1 us", 1.0);
        let source = "aggregation trees §6.2.1, figure 18";
        let row = Comparison::new(what, source, published, adapter_us - switch_us);
        let row = row.printed(" us", 2).higher_is_better().within(Tolerance::Units(0.25));
        let tree = match processes {
            MOST => "the 64-ary tree matches 64 packets in turn on two levels, the leaf switches 16 and the root 32",
            _ => "the root's unit matches the packets of all processes, as the 64-ary tree's root does, and its ways are shorter",
        };
        let data = match bytes {
            8 => "what a unit takes or sends crosses its switch",
            _ => "each unit on the way up stores the data, which the adapter tree's root sends to all at once",
        };
        row.because(format!("{tree}; {data} ({processes} processes, {bytes} bytes)"))
    });
    each.collect()
}

/// §6.1.2: packets on one link of a leaf switch, one measure for all trees.
fn packets(found: &Found) -> Vec<Claim> {
    let source = "aggregation trees §6.1.2, figure 16";
    let link = |kind| f64::from(Crossed::of(found.idle.whole(kind)).link);
    let row = |kind: Kind, published: f64| {
        let what =
            format!("most packets on one link of a leaf switch, {}, 512 processes", kind.name());
        Comparison::new(
            what,
            source,
            Published::number(published.to_string(), published),
            link(kind),
        )
    };
    let mut claims = vec![
        row(Kind::Ary, 496.0).because("the inner nodes stand on more than one leaf switch"),
        row(Kind::Nomial, 16.0).because(
            "16 is what two neighboring switches send each other; the root's switch also gets one packet of every \
             second other one, 31 in all, which the paper counts for the hierarchical tree only",
        ),
        row(Kind::Hierarchical, 31.0).because("not every leaf switch sends one packet to the root's"),
    ];
    if let Some(tree) = found.idle.of(Kind::Hierarchical).find(|tree| tree.processes == 32) {
        let published = Published::number("1", 1.0);
        let what =
            "most packets on one link of a leaf switch, hierarchical 32-nomial, 32 processes";
        let row = Comparison::new(what, source, published, f64::from(Crossed::of(tree).link));
        claims.push(row.because("the second switch sends more than its first process's packet"));
    }
    if let Some(tree) = found.idle.of(Kind::Nomial).find(|tree| tree.processes == 64) {
        let what = "most packets on one link of a leaf switch, 32-nomial, 512 processes over 64";
        let grown = link(Kind::Nomial) / f64::from(Crossed::of(tree).link.max(1));
        let row = Comparison::new(what, source, Published::number("stays: 16", 1.0), grown);
        claims.push(row.printed("x", 2).because(
            "the root's switch gets one packet more of every 32 processes, beside the 16 of its neighbor",
        ));
    }
    claims
}
