//! The numbers in the texts of MR4LMS §2.2 and C-MR4LMS §4.4, beside ours.

use super::collectives::{FIXED, GLOBAL, MR4LMS, OPERATIONS, PATTERNS, TWO_TREES, Timed};
use super::figures::{Found, base};
use super::trees::Measured;
use crate::report::{Claim, Verdict};
use crate::routing::Way;

/// Percent by which ours may be off and still agree.
const NEAR: f64 = 5.0;
const FITTED: &str = "fitted: host time of a message";
const COPY_FITTED: &str = "fitted: host time of a byte";
const FITTED_COLLECTIVES: [&str; 4] = [
    "fitted: time to match a packet",
    "predicted",
    "predicted",
    "fitted: time of a process between collectives",
];

const NO_NOISE: &str = "the paper's network has noise that a second copy hides; ours has none";
const FEW_GROUPS: &str = "both spread these 120 groups so well that links hardly matter here";

/// Sets the numbers of the texts beside ours.
pub(super) fn claims(found: &Found) -> Vec<Claim> {
    let mut claims: Vec<Claim> = messages(found).collect();
    claims.extend(collectives(found));
    claims.extend(two_trees(found));
    claims.extend(cut_link(found));
    claims
}

fn growth(what: &str, source: &str, published: f64, ours: f64, why: &str) -> Claim {
    let near = NEAR.max(published.abs() / 10.0);
    Claim {
        what: what.to_owned(),
        source: source.to_owned(),
        published: format!("{published:+} %"),
        ours: format!("{ours:+.1} %"),
        verdict: if (ours - published).abs() <= near { Verdict::Agrees } else { Verdict::Differs },
        why: why.to_owned(),
    }
}

fn percent(ours: f64, base: f64) -> f64 {
    (ours / base - 1.0) * 100.0
}

fn messages(found: &Found) -> impl Iterator<Item = Claim> {
    let of = |all: &[Measured], bytes: u32, what: u32| {
        let one = all.iter().find(|one| one.bytes == bytes && one.what == what)?;
        Some(percent(one.time.mean_us, base(all, one)?.time.mean_us))
    };
    let (heights, shared) = (&found.heights, &found.shared);
    let height = "mean latency, height 1 to 2";
    let tables = [
        (format!("{height}, 8 bytes"), 20.0, of(heights, 8, 2), FITTED, 1),
        (format!("{height}, 2 KiB"), 15.0, of(heights, 2_048, 2), COPY_FITTED, 1),
        ("mean latency, EFI 16, 2 KiB".to_owned(), 38.0, of(shared, 2_048, 16), PREDICTED, 2),
        ("mean latency, EFI 128, 2 KiB".to_owned(), 1_066.0, of(shared, 2_048, 128), PREDICTED, 2),
    ];
    let claims = tables.into_iter().filter_map(|(what, published, ours, why, table)| {
        Some(growth(&what, &format!("MR4LMS table {table}"), published, ours?, why))
    });
    claims.collect::<Vec<_>>().into_iter()
}

const PREDICTED: &str = "predicted; senders take turns without a pause";

fn find(found: &Found, way: Way, operation: usize) -> Option<&Timed> {
    let is_it =
        |one: &&Timed| one.pattern == PATTERNS[0] && one.way == way && one.operation == operation;
    found.timed.iter().find(is_it)
}

fn collectives(found: &Found) -> Vec<Claim> {
    let published = [-10.0, -24.0, -13.0, -40.0];
    let mut claims = Vec::new();
    for (operation, published) in published.into_iter().enumerate() {
        let of = |way| find(found, way, operation).map(|one| one.time.mean_us);
        let (Some(fixed), Some(global), Some(mr4lms)) = (of(FIXED), of(GLOBAL), of(MR4LMS)) else {
            continue;
        };
        let name = OPERATIONS[operation].0;
        let why = FITTED_COLLECTIVES[operation];
        let what = format!("{name}, 60x60, fixed root against the global tree, mean");
        let source = "C-MR4LMS §4.4";
        claims.push(growth(&what, source, published, percent(fixed, global), why));
        let ours = percent(fixed, mr4lms);
        let lower = operation == 3;
        let agrees = ours <= if lower { -1.0 } else { NEAR };
        claims.push(Claim {
            what: format!("{name}, 60x60, fixed root against MR4LMS, mean"),
            source: source.to_owned(),
            published: if lower { "lower" } else { "about the same" }.to_owned(),
            ours: format!("{ours:+.1} %"),
            verdict: if agrees { Verdict::Agrees } else { Verdict::Differs },
            why: if agrees { "" } else { FEW_GROUPS }.to_owned(),
        });
    }
    claims
}

fn two_trees(found: &Found) -> Vec<Claim> {
    let published = ["slightly lower", "slightly lower", "slightly higher", "slightly higher"];
    let mut claims = Vec::new();
    for (operation, published) in published.into_iter().enumerate() {
        let of = |way| find(found, way, operation).map(|one| one.time.median_us);
        let (Some(two), Some(one)) = (of(TWO_TREES), of(FIXED)) else { continue };
        let ours = percent(two, one);
        let agrees = if operation < 2 { ours <= 0.0 } else { (0.0..=2.0 * NEAR).contains(&ours) };
        claims.push(Claim {
            what: format!("{}, 60x60, two trees against one, median", OPERATIONS[operation].0),
            source: "C-MR4LMS figure 12".to_owned(),
            published: published.to_owned(),
            ours: format!("{ours:+.1} %"),
            verdict: if agrees { Verdict::Agrees } else { Verdict::Differs },
            why: if agrees { "" } else { NO_NOISE }.to_owned(),
        });
    }
    claims
}

fn cut_link(found: &Found) -> impl Iterator<Item = Claim> + '_ {
    let published = [GLOBAL, MR4LMS, TWO_TREES];
    let known = found.cut.iter().filter(move |one| published.contains(&one.way));
    known.map(|one| {
        let survives = one.way == TWO_TREES;
        let [done, of] = one.done;
        let published = if survives { "runs on" } else { "messages are lost" };
        let agrees = survives == (done == of);
        Claim {
            what: format!("a link cut by hand, {}", one.way.label()),
            source: "C-MR4LMS §4.4".to_owned(),
            published: published.to_owned(),
            ours: format!("{done} of {of} processes end, {} copies lost", one.lost),
            verdict: if agrees { Verdict::Agrees } else { Verdict::Differs },
            why: String::new(),
        }
    })
}
