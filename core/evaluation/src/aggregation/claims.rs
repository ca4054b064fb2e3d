//! The numbers in the text of the paper on aggregation trees, beside ours.

use fabricast_collectives::{Comparison, CostParameters, Operation, Trade, TreeKind};

use super::figures::{Crossed, Found};
use super::parameters::{MOST, PARAMETERS};
use super::timing::{Kind, WIDE, WIDTH, modelled_us};
use crate::report::{Claim, Verdict};

/// Sets the numbers of the text beside ours.
pub(super) fn claims(found: &Found) -> Vec<Claim> {
    let mut claims = widths();
    claims.extend(times(found));
    claims.extend(packets(found));
    claims.extend(noise(found));
    claims.extend(simulated(found));
    claims.extend(entries(found));
    claims
}

fn claim(what: &str, source: &str, published: &str, ours: String, verdict: Verdict) -> Claim {
    Claim {
        what: what.to_owned(),
        source: format!("aggregation trees {source}"),
        published: published.to_owned(),
        ours,
        verdict,
        why: String::new(),
    }
}

fn because(why: &str, claim: Claim) -> Claim {
    Claim { why: why.to_owned(), ..claim }
}

const fn agrees_if(is: bool) -> Verdict {
    if is { Verdict::Agrees } else { Verdict::Differs }
}

fn widths() -> Vec<Claim> {
    let trade = Trade::new(&CostParameters::PAPER, Operation::Barrier, 0);
    let best = trade.best_width(MOST - 1);
    let range = trade.width_range(MOST, MOST - 1, 0.1);
    vec![
        claim(
            "best width of barrier and broadcast",
            "§3.1",
            "41",
            best.to_string(),
            agrees_if(best == 41),
        ),
        because(
            "the lower end is exact; at the published upper end F(k) is 0.07 us above the best",
            claim(
                "widths within 0.1 us of it, 512 processes",
                "§3.1, figure 6",
                "24 to 64",
                format!("{} to {}", range.min, range.max),
                agrees_if(range.min == 24 && range.max >= 64),
            ),
        ),
    ]
}

fn times(found: &Found) -> Vec<Claim> {
    let apart = found.idle.of(Kind::Ary).map(|tree| {
        let model = modelled_us(TreeKind::Adapter, tree.processes, WIDTH, 8);
        (model - tree.broadcast_us(&PARAMETERS, 8)).abs()
    });
    let apart = apart.fold(0.0, f64::max);
    let time = |kind| found.idle.whole(kind).broadcast_us(&PARAMETERS, 8);
    let [ary, nomial, ours] = Kind::ALL.map(time);
    let faster = |processes| {
        let compared = Comparison { adapter_width: WIDE, switch_width: WIDE, processes, bytes: 8 };
        compared.advantage_us(&CostParameters::PAPER)
    };
    vec![
        because(
            "published is the model against measured times; ours is the model against every packet \
             followed, of which the model takes all to be 4 links apart and levels to be whole",
            claim(
                "model and packets, broadcast of 8 bytes, at most apart",
                "§2.3, figure 4",
                "0.5 us",
                format!("{apart:.2} us"),
                if apart <= 0.5 { Verdict::Agrees } else { Verdict::Worse },
            ),
        ),
        claim(
            "hierarchical lower than 32-nomial, idle, 512 processes",
            "§6.1.1, figure 12",
            "about 0.6 us",
            format!("{:.2} us", nomial - ours),
            agrees_if((0.4..0.8).contains(&(nomial - ours))),
        ),
        because(
            "the 16 inner nodes of our 32-ary tree stand on the root's leaf switch, so that it has as \
             short ways; published is that it is as slow as the 32-nomial tree",
            claim(
                "hierarchical lower than 32-ary, idle, 512 processes",
                "§6.1.1, figure 12",
                "about 0.6 us",
                format!("{:.2} us", ary - ours),
                agrees_if((0.4..0.8).contains(&(ary - ours))),
            ),
        ),
        claim(
            "switch tree lower than 64-ary, 64 to 512 processes",
            "§6.2.1, figure 18",
            "about 1 us",
            format!("{:.2} to {:.2} us", faster(64), faster(MOST)),
            agrees_if(faster(64) > 0.5 && faster(MOST) < 1.5),
        ),
    ]
}

fn packets(found: &Found) -> Vec<Claim> {
    let crossed = |kind| Crossed::of(found.idle.whole(kind));
    let number = |what: &str, published: u32, ours: u32| {
        let verdict = agrees_if(published == ours);
        claim(what, "§6.1.2, figure 16", &published.to_string(), ours.to_string(), verdict)
    };
    vec![
        number("packets into the root's switch, 32-ary", 496, crossed(Kind::Ary).into),
        number("most packets between two switches, 32-nomial", 16, crossed(Kind::Nomial).pair),
        number(
            "most packets between two switches, hierarchical",
            1,
            crossed(Kind::Hierarchical).pair,
        ),
        number(
            "packets into the root's switch, hierarchical",
            31,
            crossed(Kind::Hierarchical).into,
        ),
    ]
}

fn noise(found: &Found) -> Vec<Claim> {
    let lower = |kind, processes| found.noisy.lower(kind, processes).map(|lower| 100.0 * lower);
    let near = |published: f64, ours: f64| agrees_if((published - ours).abs() <= 10.0);
    let number = |what: &str, why: &str, published: f64, ours: Option<f64>| {
        let ours = ours?;
        let texts = (format!("{published} %"), format!("{ours:.0} %"));
        let claim = claim(what, "§6.1.2, table 4", &texts.0, texts.1, near(published, ours));
        Some(because(why, claim))
    };
    [
        number(
            "hierarchical lower than 32-nomial with noise, 64 processes",
            "the time a packet holds a noisy link is fitted to this number",
            32.0,
            lower(Kind::Nomial, 64),
        ),
        number(
            "hierarchical lower than 32-nomial with noise, 512 processes",
            "",
            24.0,
            lower(Kind::Nomial, MOST),
        ),
        number(
            "hierarchical lower than 32-ary with noise, 512 processes",
            "published is the most over all numbers of processes and both other trees",
            89.0,
            lower(Kind::Ary, MOST),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The same numbers, measured on the packet-level simulator.
fn simulated(found: &Found) -> Vec<Claim> {
    let number = |than: Kind, processes: u32, published: f64, why: &str| {
        let ours = 100.0 * found.simulated.lower(than, processes)?;
        let what = format!(
            "hierarchical lower than {} with noise, {processes} processes, simulated",
            than.name()
        );
        let texts = (format!("{published} %"), format!("{ours:.0} %"));
        let verdict = agrees_if((published - ours).abs() <= 10.0);
        Some(because(why, claim(&what, "§6.1.2, table 4", &texts.0, texts.1, verdict)))
    };
    let apart = found.idle.of(Kind::Ary).filter_map(|tree| {
        let simulated = found.simulated.time(Kind::Ary, tree.processes)?.idle_us;
        let followed = modelled_us(TreeKind::Adapter, tree.processes, WIDTH, 8);
        // Of one leaf switch the model takes ways of four links, which are two.
        (tree.processes > 32).then_some((simulated - followed).abs())
    });
    let apart = apart.fold(0.0, f64::max);
    let model = because(
        "published is the model against measured times; ours is the model against the simulator",
        claim(
            "model and simulator, broadcast of 8 bytes, over 32 processes, at most apart",
            "§2.3, figure 4",
            "0.5 us",
            format!("{apart:.2} us"),
            if apart <= 0.5 { Verdict::Agrees } else { Verdict::Worse },
        ),
    );
    let noisy = [
        number(
            Kind::Nomial,
            64,
            32.0,
            "the length of the noise's packets is fitted to this number",
        ),
        number(Kind::Nomial, MOST, 24.0, "the pattern of the published noise is not known"),
        number(
            Kind::Ary,
            MOST,
            89.0,
            "packets of 64 bytes at 10 GB/s pass one link quickly between those of the noise; published is the \
             most over all numbers of processes and both other trees",
        ),
    ];
    std::iter::once(model).chain(noisy.into_iter().flatten()).collect()
}

fn entries(found: &Found) -> Vec<Claim> {
    let mut claims = Vec::new();
    for of_fabric in found.outcomes.chunk_by(|a, b| a.fabric == b.fabric) {
        let fabric = of_fabric[0].fabric;
        let ours = of_fabric.iter().map(|one| one.limited.minimum.failure_rate());
        let ours = 100.0 * ours.fold(0.0, f64::max);
        let plain = of_fabric.iter().map(|one| one.limited.plain.failure_rate());
        let plain = 100.0 * plain.fold(0.0, f64::max);
        let saved =
            100.0 * of_fabric.iter().map(super::entries::Outcome::saved).fold(1.0, f64::min);
        claims.push(claim(
            &format!("fewer entries, least over the patterns, {fabric} fabric"),
            "§6.2.2, figure 19",
            "at least 90 %",
            format!("{saved:.1} %"),
            if saved >= 90.0 { Verdict::Agrees } else { Verdict::Worse },
        ));
        claims.push(claim(
            &format!("creations failed, minimum trees, {fabric} fabric"),
            "§6.2.2, figure 20",
            "0 %",
            format!("{ours:.2} %"),
            if ours > 0.0 { Verdict::Worse } else { Verdict::Agrees },
        ));
        claims.push(because(
            "how the machine's upper levels are wired is not published",
            claim(
                &format!("creations failed, plain trees, most over the patterns, {fabric} fabric"),
                "§6.2.2, figure 20",
                "74.51 %",
                format!("{plain:.2} %"),
                agrees_if((plain - 74.51).abs() < 5.0),
            ),
        ));
    }
    claims
}
