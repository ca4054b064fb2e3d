//! The numbers in the text of the Dawning paper, beside ours.

use fabricast_routing::RootPolicy;
use fabricast_simulator::UnicastPattern;

use super::figures::Found;
use super::loads::{Broadcasts, Many};
use crate::report::{Claim, Verdict};

const BALANCED: [RootPolicy; 3] = [RootPolicy::Llp, RootPolicy::LlpEcMax, RootPolicy::LlpEcSum];
const UNKNOWN: &str = "delays, buffers and channels of the paper's simulator are not given";

/// Sets the numbers of the text beside ours.
pub(super) fn claims(found: &Found) -> Vec<Claim> {
    let mut claims = stages(found);
    claims.extend(broadcasts(&found.broadcasts));
    claims.extend(many(&found.many));
    claims.extend(deadlocks(found));
    claims
}

/// Our value, and whether it agrees with the published one.
struct Finding {
    value: String,
    agrees: bool,
}

fn claim(what: String, source: &str, published: &str, ours: Finding) -> Claim {
    Claim {
        what,
        source: source.to_owned(),
        published: published.to_owned(),
        ours: ours.value,
        verdict: if ours.agrees { Verdict::Agrees } else { Verdict::Differs },
        why: if ours.agrees { String::new() } else { UNKNOWN.to_owned() },
    }
}

fn stages(found: &Found) -> Vec<Claim> {
    let each = found.stages.iter().map(|one| {
        let switches = &one.stages_us[1..];
        let all: f64 = switches.iter().sum();
        let up: f64 = switches[..3].iter().sum();
        let largest = switches.iter().copied().fold(0.0, f64::max);
        let is_root = switches[2] >= largest;
        let ours = format!(
            "{:.0} %, {}",
            up / all.max(f64::MIN_POSITIVE) * 100.0,
            if is_root { "the root most" } else { "another most" }
        );
        let what = format!("share of leaf, level 1 and root on the way up, {}", one.load);
        claim(
            what,
            "Dawning figure 5",
            "> 90 %, the root most",
            Finding { value: ours, agrees: is_root && up > 0.9 * all },
        )
    });
    each.collect()
}

fn mean(all: &[Broadcasts], pattern: UnicastPattern, policy: RootPolicy) -> Option<f64> {
    let is_it = |one: &&Broadcasts| one.pattern == pattern && one.policy == policy;
    all.iter().find(is_it).map(|one| one.mean_us)
}

fn broadcasts(all: &[Broadcasts]) -> Vec<Claim> {
    let source = "Dawning §5.1, figure 8";
    let mut claims = Vec::new();
    for pattern in UnicastPattern::ALL {
        let of = |policy| mean(all, pattern, policy);
        let (Some(cyclic), Some(hlse)) = (of(RootPolicy::Cyclic), of(RootPolicy::Hlse)) else {
            continue;
        };
        let balanced: Vec<f64> = BALANCED.into_iter().filter_map(of).collect();
        let best = balanced.iter().copied().fold(f64::MAX, f64::min);
        let worst = balanced.iter().copied().fold(hlse, f64::max);
        let name = pattern.name();
        let ours = format!("{cyclic:.0} us, the others at most {worst:.0} us");
        let what = format!("broadcast over {name}: cyclic is worst");
        claims.push(claim(what, source, "worst", Finding { value: ours, agrees: cyclic >= worst }));
        if pattern == UnicastPattern::HotRegion {
            let what = "broadcast over hot-region: cyclic".to_owned();
            let ours = Finding {
                value: format!("{cyclic:.0} us"),
                agrees: (250.0..=1_000.0).contains(&cyclic),
            };
            let fitted = claim(what, source, "500 us", ours);
            claims
                .push(Claim { why: "fitted: one channel, buffers of 1 KiB".to_owned(), ..fitted });
        }
        let what = format!("broadcast over {name}: load-balanced policies against cyclic");
        let gain = cyclic / best;
        let ours = Finding { value: format!("{gain:.2}x"), agrees: (1.0..=2.2).contains(&gain) };
        claims.push(claim(what, source, "up to 1.9x better", ours));
        let what = format!("broadcast over {name}: HLSE");
        let below = if pattern == UnicastPattern::Decay { "above 100 us" } else { "below 100 us" };
        let agrees = (hlse < 100.0) == (pattern != UnicastPattern::Decay);
        claims.push(claim(what, source, below, Finding { value: format!("{hlse:.0} us"), agrees }));
        let what = format!("broadcast over {name}: HLSE against the best other");
        let ours = Finding { value: format!("{:.2}x", best / hlse), agrees: best / hlse >= 2.0 };
        claims.push(claim(what, source, "almost 3x better", ours));
    }
    claims
}

/// Returns the throughput of a policy at the highest load offered.
pub(super) fn saturation(all: &[Many], policy: RootPolicy, fan_out: u32) -> Option<f64> {
    let of = all.iter().filter(|one| one.policy == policy && one.fan_out == fan_out);
    of.max_by(|a, b| a.offered.total_cmp(&b.offered)).map(|one| one.throughput)
}

fn many(all: &[Many]) -> Vec<Claim> {
    let source = "Dawning §5.2, figure 9";
    let mut claims = Vec::new();
    let mut push = |policy: RootPolicy, fan_out: u32, published: &str, agrees: fn(f64) -> bool| {
        if let Some(ours) = saturation(all, policy, fan_out) {
            let what = format!("many-to-many throughput, fan-out {fan_out}, {policy}");
            let ours = Finding { value: format!("{:.0} %", ours * 100.0), agrees: agrees(ours) };
            claims.push(claim(what, source, published, ours));
        }
    };
    push(RootPolicy::Cyclic, 64, "> 90 %", |ours| ours > 0.9);
    push(RootPolicy::Llp, 96, "< 70 %", |ours| ours < 0.7);
    for policy in RootPolicy::ALL {
        push(policy, 128, "> 90 %", |ours| ours > 0.9);
    }
    if let Some(cyclic) = saturation(all, RootPolicy::Cyclic, 64) {
        for policy in [RootPolicy::LlpEcMax, RootPolicy::LlpEcSum, RootPolicy::Hlse] {
            let Some(ours) = saturation(all, policy, 64) else { continue };
            let what = format!("many-to-many throughput, fan-out 64, {policy} against cyclic");
            let ratio = ours / cyclic;
            let ours = Finding { value: format!("{ratio:.2}x"), agrees: ratio >= 0.9 };
            claims.push(claim(what, source, "close to it", ours));
        }
    }
    claims
}

fn deadlocks(found: &Found) -> Vec<Claim> {
    let each = found.outputs.iter().map(|one| {
        let naive = one.name == super::loads::OUTPUTS[4].0;
        let published = if naive { "deadlock" } else { "none" };
        let ours = one.deadlock.clone().unwrap_or_else(|| "none".to_owned());
        let what = format!("deadlock, {}, {}", one.name, one.load);
        claim(
            what,
            "Dawning §3.1, figure 1",
            published,
            Finding { value: ours, agrees: naive == one.deadlock.is_some() },
        )
    });
    each.collect()
}
