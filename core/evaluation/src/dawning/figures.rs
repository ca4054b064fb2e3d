//! Tables and plots of the Dawning experiment.

use fabricast_routing::RootPolicy;
use fabricast_simulator::UnicastPattern;

use super::claims;
use super::loads::{Broadcasts, FAN_OUTS, Many, OUTPUTS, Output, Plan, Stages};
use super::sweep::{BROADCASTS, Fit, Room};
use crate::claim::OF_THEIR_METHOD;
use crate::experiment::Run;
use crate::plot::{Axis, Bars, Figure, Plot, Series, Style};
use crate::report::{Cell, Report, Table};
use crate::sample::Sample;

/// All that was measured.
pub(super) struct Found {
    pub(super) stages: Vec<Stages>,
    pub(super) broadcasts: Vec<Broadcasts>,
    pub(super) stale: Vec<Broadcasts>,
    pub(super) many: Vec<Many>,
    pub(super) outputs: Vec<Output>,
    pub(super) fits: Vec<Fit>,
    pub(super) rooms: Vec<Room>,
}

/// Stages of the way of a packet that goes up to a root of FT(8, 3).
const STAGES: [&str; 6] =
    ["adapter", "leaf, up", "level 1, up", "root", "level 1, down", "leaf, down"];

/// Puts the report together.
pub(super) fn report(run: &Run<'_>, plan: &Plan, found: &Found) -> Report {
    let mut plots = vec![stage_bars(&found.stages), broadcast_bars(&found.broadcasts)];
    if !plan.quick {
        plots.push(stale_lines(&found.stale));
        plots.extend(FAN_OUTS.map(|fan_out| throughput_lines(fan_out, &found.many)));
    }
    plots.push(saturation_bars(&found.many));
    Report {
        tables: vec![
            stages(&found.stages),
            broadcasts("fig8-broadcast", "Broadcasts over unicast (figure 8)", &found.broadcasts),
            broadcasts("stale", "Broadcasts over hot-region unicast, by reading", &found.stale),
            many(&found.many),
            outputs(&found.outputs),
            fits(&found.fits),
            rooms(&found.rooms),
            run.hardware.table(&run.hardware.dawning),
        ],
        plots,
        claims: claims::claims(found, run.hardware.is_ours),
        laws: claims::laws(found),
        not_compared: claims::NOT_COMPARED.to_vec(),
        notes: notes(run, plan, found),
    }
}

fn notes(run: &Run<'_>, plan: &Plan, found: &Found) -> Vec<String> {
    let (from_ps, to_ps) = plan.span_ps;
    let seeds = format!("{} seeds from {} on", plan.seeds, run.seed);
    let reading_us = run.hardware.dawning.registers.reading_us;
    let mut notes = vec![
        "FT(8, 3): 128 endpoints, 80 switches, 16 roots; unicast of 256 and multicast of 1 024 bytes. Unicast and \
         multicast share one virtual channel; with our hardware its buffers hold a multicast and a unicast \
         packet (1 280 bytes), chosen by figure 8, none of whose rows is a prediction."
            .to_owned(),
        format!(
            "Load: the time packets waited for each port, read every {reading_us} us and known as long later. With \
             our hardware it is, of the readings in the table, the one whose factor by which load-balanced policies are \
             better than cyclic is the nearest to 1.9x. Cyclic does not look at them, and at {reading_us} us the rows are those of figure 8.",
        ),
        format!(
            "Broadcasts: for each bar the first {} of each of {seeds}, {} in all (the paper: 1 000; the tables say \
             how many came), all other endpoints sending unicast at full rate; the mean is from the first byte sent \
             to the last one received. The wait in the source, which makes broadcasts at full rate too, is in the \
             table. `--broadcasts N` waits for N of each seed.",
            plan.broadcasts,
            plan.broadcasts * u64::from(plan.seeds),
        ),
        format!(
            "Many-to-many: every source draws from 4 groups that together hold every endpoint as often; load and throughput in parts of the endpoints' links; measured from {} to {} us, {seeds}.",
            from_ps / 1_000_000,
            to_ps / 1_000_000
        ),
        "Figure 5, all-to-all: published is no rate. At full rate every source sends as fast as its link does, and \
         packets queue before the roots; with as much as the endpoints' links take in all, most time goes on the way \
         down."
            .to_owned(),
        format!(
            "Sweeps: {seeds}. Endpoints are dealt over the channels in blocks of neighbors; `1 and 1` is a channel for \
             unicast and one for multicast. Figure 8 there with the first {} broadcasts of each seed: {} Figure 9 at \
             full load: {}",
            plan.broadcasts.min(BROADCASTS),
            of_figure_8(&found.fits),
            of_figure_9(&found.rooms)
        ),
        "Output policies: 5 ms at most of each seed.".to_owned(),
        "Candidates of HLSE are the roots not loaded above the mean; those strictly below, as the paper says, are \
         none where all are equal."
            .to_owned(),
        OF_THEIR_METHOD.to_owned(),
    ];
    if plan.quick {
        notes.push("Quick form: one pattern, one fan-out, one load, one reading.".to_owned());
    }
    notes
}

/// Mean time of broadcasts beside a pattern, in microseconds.
type Mean = (UnicastPattern, f64);

/// Names the sizes with which a statement of figure 8 about cyclic roots comes out.
fn of_figure_8(fits: &[Fit]) -> String {
    let means = |fit: &Fit| -> Vec<Mean> {
        let of =
            |pattern| Some((pattern, claims::mean(&fit.broadcasts, pattern, RootPolicy::Cyclic)?));
        let means = UnicastPattern::ALL.into_iter().filter_map(of);
        means.map(|(pattern, us)| (pattern, us.mean())).collect()
    };
    let by_time = |a: &Mean, b: &Mean| a.1.total_cmp(&b.1);
    let with = |holds: &dyn Fn(&[Mean]) -> bool| {
        let fits = fits.iter().filter(|fit| {
            let means = means(fit);
            means.len() == UnicastPattern::ALL.len() && holds(&means)
        });
        listed(fits.map(|fit| format!("{} bytes ({})", fit.buffer_bytes, channels(fit))))
    };
    let longest = with(&|means| {
        let longest = means.iter().copied().max_by(by_time);
        longest.is_some_and(|(pattern, _)| pattern == UnicastPattern::HotRegion)
    });
    let shortest = with(&|means| {
        let shortest = means.iter().copied().min_by(by_time);
        shortest.is_some_and(|(pattern, _)| pattern == UnicastPattern::Sphere)
    });
    let decay = with(&|means| {
        means.iter().any(|(pattern, us)| *pattern == UnicastPattern::Decay && *us > 100.0)
    });
    let most = fits.iter().map(met).max_by_key(|(met, _)| *met).unwrap_or((0, 0));
    format!(
        "with cyclic roots hot-region takes the longest with {longest}; sphere the shortest with {shortest}; decay more \
         than 100 us with {decay}. With any size at most {} of {} statements are same or near; seeds often disagree.",
        most.0, most.1
    )
}

/// Names the sizes with which cyclic roots reach the published throughput of figure 9.
fn of_figure_9(rooms: &[Room]) -> String {
    let with = |fan_out: u32| {
        let reaches = |room: &&Room| {
            let throughput = claims::saturation(&room.many, RootPolicy::Cyclic, fan_out);
            throughput.is_some_and(|part| (100.0 * part.mean()).round() >= 90.0)
        };
        let name = |room: &Room| {
            format!("{} of {} bytes ({})", room.channels, room.buffer_bytes, outputs_of(room))
        };
        listed(rooms.iter().filter(reaches).map(name))
    };
    format!(
        "cyclic roots reach 90 % at fan-out 64 with {}; at fan-out 96 with {}.",
        with(64),
        with(96)
    )
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Counts the statements of figure 8 that are same or near with one size, and all of them.
fn met(fit: &Fit) -> (usize, usize) {
    let statements = claims::figure_8(&fit.broadcasts, false);
    (statements.iter().filter(|claim| claim.agrees()).count(), statements.len())
}

/// Writes the channels of unicast and multicast.
fn channels(fit: &Fit) -> String {
    let [unicast, multicast] = &fit.channels;
    match unicast == multicast {
        true => format!("{} shared", unicast.len()),
        false => format!("{} and {}", unicast.len(), multicast.len()),
    }
}

/// Finds the name of the way in which multicast gets its outputs.
fn outputs_of(room: &Room) -> &'static str {
    let known = OUTPUTS.iter().find(|(_, policy)| *policy == room.multicast);
    known.map_or("", |(name, _)| name)
}

/// Two cells: the mean of all seeds, and their number with least and largest value.
fn mean_and_spread(sample: &Sample, decimals: usize) -> [Cell; 2] {
    let spread = sample.spread(|value| format!("{value:.decimals$}"));
    [Cell::Number(sample.mean(), decimals), Cell::text(spread)]
}

fn stages(all: &[Stages]) -> Table {
    let columns = ["load", "stage", "mean time in us", "seeds: mean time"];
    let title = "Where a multicast packet's time goes (figure 5)";
    let mut table = Table::new("fig5-stages", title, &columns);
    for one in all {
        for (stage, time) in STAGES.iter().zip(&one.stages_us) {
            let [mean, spread] = mean_and_spread(time, 3);
            table.push([Cell::text(one.load), Cell::text(*stage), mean, spread]);
        }
    }
    table
}

fn broadcasts(name: &str, title: &str, all: &[Broadcasts]) -> Table {
    let columns = [
        "unicast",
        "policy",
        "reading every, in us",
        "broadcasts",
        "mean in us",
        "seeds: mean",
        "mean with the wait in the source, in us",
    ];
    let mut table = Table::new(name, title, &columns);
    for one in all {
        let [mean, spread] = mean_and_spread(&one.mean_us, 1);
        table.push([
            Cell::text(one.pattern.name()),
            Cell::text(one.policy.name()),
            Cell::count(one.reading_ps / 1_000_000),
            Cell::Count(one.count as u64),
            mean,
            spread,
            Cell::Number(one.with_queue_us.mean(), 1),
        ]);
    }
    table
}

fn many(all: &[Many]) -> Table {
    let columns = ["fan-out", "policy", "load offered", "throughput", "seeds: throughput"];
    let title = "Many-to-many multicast (figure 9)";
    let mut table = Table::new("fig9-many-to-many", title, &columns);
    for one in all {
        let [mean, spread] = mean_and_spread(&one.throughput, 3);
        table.push([
            Cell::count(one.fan_out),
            Cell::text(one.policy.name()),
            Cell::Number(one.offered, 2),
            mean,
            spread,
        ]);
    }
    table
}

fn outputs(all: &[Output]) -> Table {
    let columns = [
        "output policy",
        "load",
        "throughput",
        "seeds: throughput",
        "mean in us",
        "seeds: mean in us",
        "seeds with a deadlock",
        "first deadlock",
    ];
    let title = "Ways in which a multicast packet gets its outputs (§3.1)";
    let mut table = Table::new("output-policies", title, &columns);
    for one in all {
        let deadlock = one.deadlock.as_ref();
        let measured = [(&one.throughput, 3), (&one.mean_us, 1)].into_iter();
        let measured = measured.flat_map(|(sample, decimals)| match deadlock {
            None => mean_and_spread(sample, decimals),
            Some(_) => [Cell::Empty, Cell::Empty],
        });
        let names = [Cell::text(one.name), Cell::text(one.load)];
        let deadlocks =
            [Cell::Count(one.deadlocked as u64), deadlock.map_or(Cell::Empty, Cell::text)];
        table.push(names.into_iter().chain(measured).chain(deadlocks));
    }
    table
}

/// Figure 8 over buffers and channels: a row for each, with the statements that come out.
fn fits(all: &[Fit]) -> Table {
    let columns = [
        "buffer in bytes",
        "channels",
        "cyclic, uniform, in us",
        "cyclic, sphere, in us",
        "cyclic, decay, in us",
        "cyclic, hot-region, in us",
        "seeds: cyclic, hot-region",
        "best load-balanced, hot-region, in us",
        "HLSE, hot-region, in us",
        "seeds: HLSE, hot-region",
        "statements same or near",
    ];
    let title = "Figure 8 over buffers and channels: mean of a broadcast, and statements of the \
                 text that come out";
    let mut table = Table::new("sweep-fig8", title, &columns);
    for one in all {
        let of = |policy, pattern| claims::mean(&one.broadcasts, pattern, policy);
        let cell = |sample: Option<Sample>| {
            sample.map_or(Cell::Empty, |sample| Cell::Number(sample.mean(), 1))
        };
        let spread = |sample: Option<Sample>| {
            let text = sample.map(|sample| sample.spread(|value| format!("{value:.1}")));
            text.map_or(Cell::Empty, Cell::text)
        };
        let hot = UnicastPattern::HotRegion;
        let (met, statements) = met(one);
        let mut cells = vec![Cell::count(one.buffer_bytes), Cell::text(channels(one))];
        cells.extend(UnicastPattern::ALL.map(|pattern| cell(of(RootPolicy::Cyclic, pattern))));
        cells.extend([
            spread(of(RootPolicy::Cyclic, hot)),
            cell(claims::best_balanced(&one.broadcasts, hot)),
            cell(of(RootPolicy::Hlse, hot)),
            spread(of(RootPolicy::Hlse, hot)),
            Cell::text(format!("{met} of {statements}")),
        ]);
        table.push(cells);
    }
    table
}

/// Figure 9 at full load over buffers and channels.
fn rooms(all: &[Room]) -> Table {
    let columns = [
        "channels",
        "buffer in bytes",
        "outputs",
        "fan-out",
        "cyclic",
        "seeds: cyclic",
        "llp",
        "seeds: llp",
    ];
    let title = "Figure 9 over buffers and channels: throughput at full load";
    let mut table = Table::new("sweep-fig9", title, &columns);
    for one in all {
        for of_fan_out in one.many.chunk_by(|a, b| a.fan_out == b.fan_out) {
            let fan_out = of_fan_out[0].fan_out;
            let mut cells = vec![
                Cell::count(one.channels),
                Cell::count(one.buffer_bytes),
                Cell::text(outputs_of(one)),
                Cell::count(fan_out),
            ];
            cells.extend(of_fan_out.iter().flat_map(|one| mean_and_spread(&one.throughput, 3)));
            cells.resize(columns.len(), Cell::Empty);
            table.push(cells);
        }
    }
    table
}

fn stage_bars(all: &[Stages]) -> Plot {
    let series = all.iter().map(|one| {
        (one.load.to_owned(), one.stages_us.iter().map(|time| Some(time.mean())).collect())
    });
    let figure = Figure::Bars(Bars {
        y: Axis::log("mean time in us"),
        categories: STAGES.map(str::to_owned).to_vec(),
        series: series.collect(),
    });
    let title = "Where a multicast packet's time goes (figure 5)".to_owned();
    Plot { name: "fig5-stages".to_owned(), title, figure }
}

fn broadcast_bars(all: &[Broadcasts]) -> Plot {
    let mut patterns: Vec<UnicastPattern> = all.iter().map(|one| one.pattern).collect();
    patterns.dedup();
    let of = |policy: RootPolicy, pattern: &UnicastPattern| {
        let is_it = |one: &&Broadcasts| one.policy == policy && one.pattern == *pattern;
        all.iter().find(is_it).map(|one| one.mean_us.mean())
    };
    let series = RootPolicy::ALL.map(|policy| {
        (policy.name().to_owned(), patterns.iter().map(|pattern| of(policy, pattern)).collect())
    });
    let figure = Figure::Bars(Bars {
        y: Axis::linear("mean latency of a broadcast in us"),
        categories: patterns.iter().map(|pattern| pattern.name().to_owned()).collect(),
        series: series.into(),
    });
    let title = "Broadcasts over unicast (figure 8)".to_owned();
    Plot { name: "fig8-broadcast".to_owned(), title, figure }
}

fn stale_lines(all: &[Broadcasts]) -> Plot {
    let series = RootPolicy::ALL.map(|policy| Series {
        label: policy.name().to_owned(),
        points: all
            .iter()
            .filter(|one| one.policy == policy)
            .map(|one| (one.reading_ps as f64 / 1e6, one.mean_us.mean()))
            .collect(),
        style: Style::Line,
    });
    let figure = Figure::Lines {
        x: Axis::log("registers read every, and known after, in us"),
        y: Axis::linear("mean latency of a broadcast in us"),
        series: series.into(),
    };
    let title = "Broadcasts over hot-region unicast, by the age of what is known".to_owned();
    Plot { name: "stale".to_owned(), title, figure }
}

fn throughput_lines(fan_out: u32, all: &[Many]) -> Plot {
    let series = RootPolicy::ALL.map(|policy| Series {
        label: policy.name().to_owned(),
        points: all
            .iter()
            .filter(|one| one.policy == policy && one.fan_out == fan_out)
            .map(|one| (one.offered, one.throughput.mean()))
            .collect(),
        style: Style::Line,
    });
    let figure = Figure::Lines {
        x: Axis::linear("load offered"),
        y: Axis::linear("throughput"),
        series: series.into(),
    };
    let title = format!("Many-to-many multicast, fan-out {fan_out} (figure 9)");
    Plot { name: format!("fig9-fan-out-{fan_out}"), title, figure }
}

fn saturation_bars(all: &[Many]) -> Plot {
    let mut fan_outs: Vec<u32> = all.iter().map(|one| one.fan_out).collect();
    fan_outs.dedup();
    let of =
        |policy, fan_out: &u32| claims::saturation(all, policy, *fan_out).map(|one| one.mean());
    let series = RootPolicy::ALL.map(|policy| {
        (policy.name().to_owned(), fan_outs.iter().map(|fan_out| of(policy, fan_out)).collect())
    });
    let figure = Figure::Bars(Bars {
        y: Axis::linear("throughput at full load"),
        categories: fan_outs.iter().map(|fan_out| format!("fan-out {fan_out}")).collect(),
        series: series.into(),
    });
    let title = "Many-to-many multicast at full load (figure 9)".to_owned();
    Plot { name: "fig9-full-load".to_owned(), title, figure }
}

#[cfg(test)]
mod tests {
    use fabricast_simulator::MulticastPolicy;

    use super::*;

    /// Cyclic roots, with the times of uniform, sphere, decay and hot-region unicast.
    fn fit(buffer_bytes: u32, us: [f64; 4]) -> Fit {
        let broadcasts = UnicastPattern::ALL.into_iter().zip(us).map(|(pattern, us)| Broadcasts {
            pattern,
            policy: RootPolicy::Cyclic,
            reading_ps: 1,
            count: 2,
            mean_us: Sample::from(vec![us; 2]),
            with_queue_us: Sample::from(vec![us; 2]),
        });
        Fit { buffer_bytes, channels: [0..1, 0..1], broadcasts: broadcasts.collect() }
    }

    fn room(channels: u8, throughput: [f64; 2]) -> Room {
        let many = [64, 96].into_iter().zip(throughput).map(|(fan_out, part)| Many {
            fan_out,
            policy: RootPolicy::Cyclic,
            offered: 1.0,
            throughput: Sample::from(vec![part; 2]),
        });
        let multicast = MulticastPolicy::Bulletin;
        Room { channels, buffer_bytes: 4_096, multicast, many: many.collect() }
    }

    #[test]
    fn notes_name_the_sizes_of_the_sweeps_with_which_statements_come_out() {
        let fits = [fit(1_024, [900.0, 90.0, 500.0, 400.0]), fit(1_280, [20.0, 30.0, 25.0, 430.0])];
        let text = of_figure_8(&fits);
        assert!(text.contains("the longest with 1280 bytes (1 shared); sphere"), "{text}");
        assert!(text.contains("the shortest with 1024 bytes (1 shared); decay"), "{text}");
        assert!(text.contains("100 us with 1024 bytes (1 shared). With any size"), "{text}");
        let text = of_figure_9(&[room(1, [0.72, 0.79]), room(16, [0.899, 0.86])]);
        let expected = "fan-out 64 with 16 of 4096 bytes (RBB); at fan-out 96 with none.";
        assert!(text.ends_with(expected), "{text}");
    }
}
