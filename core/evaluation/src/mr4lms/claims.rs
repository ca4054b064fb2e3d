//! The numbers in the text of MR4LMS §4, beside ours.

use fabricast_routing::MR4LMS_FABRICS;
use fabricast_routing::PatternShape::{self, Cube, Plane};

use super::setup::Outcome;
use crate::report::{Claim, Verdict};

/// A number of the text; smaller is better for all of them.
struct Published {
    fabric: &'static str,
    shape: PatternShape,
    what: &'static str,
    section: &'static str,
    number: f64,
    ours: fn(&Outcome) -> f64,
}

const COLORS: fn(&Outcome) -> f64 = |one| f64::from(one.unlimited[0].colors_used);
const EFI: fn(&Outcome) -> f64 = |one| f64::from(one.unlimited[0].figures.switch_links.max_efi);
const MERGED_EFI: fn(&Outcome) -> f64 =
    |one| f64::from(one.recommended.figures.switch_links.max_efi);

fn published() -> Vec<Published> {
    let number = |fabric, shape, what, section, number, ours| Published {
        fabric,
        shape,
        what,
        section,
        number,
        ours,
    };
    let colors = "colors needed without merging";
    let (free, merged) = ("max EFI without a limit of colors", "max EFI, recommended colors");
    vec![
        number("bluelight", Plane(256, 34), colors, "§4.2", 29.0, COLORS),
        number("bluelight", Plane(90, 90), colors, "§4.2", 50.0, COLORS),
        number("taihulight", Cube(128, 32, 40), colors, "§4.2", 269.0, COLORS),
        number("bluelight", Cube(64, 16, 34), free, "§4.5.1", 24.0, EFI),
        number("bluelight", Cube(64, 16, 34), merged, "§4.5.1", 58.0, MERGED_EFI),
        number("random", Plane(256, 160), free, "§4.5.1", 20.0, EFI),
        number("random", Plane(256, 160), merged, "§4.5.1", 34.0, MERGED_EFI),
        number("taihulight", Cube(128, 32, 40), free, "§4.5.1", 37.0, EFI),
        number("taihulight", Cube(128, 32, 40), merged, "§4.5.1", 300.0, MERGED_EFI),
        number("random", Cube(128, 32, 40), free, "§4.5.1", 139.0, EFI),
        number("random", Cube(128, 32, 40), merged, "§4.5.1", 4_687.0, MERGED_EFI),
        number(
            "taihulight",
            Cube(128, 32, 40),
            "max TFI, recommended colors",
            "§4.5.2",
            66.0,
            |one| f64::from(one.recommended.figures.max_tfi),
        ),
        number(
            "taihulight",
            Cube(128, 32, 40),
            "mean TFI, recommended colors",
            "§4.5.2",
            1.36,
            |one| one.recommended.figures.mean_tfi,
        ),
    ]
}

const WHY: &str = "lookahead, several roots and merging where the fewest groups are in the way are \
                   ours; the paper does not give all wiring, nor the order of equal choices";

const DRAGONFLY: &str = "the text does not name the pattern nor the order of links between groups; \
                         as ours are wired, 36x18x163 needs 684 whatever the trees: any two of its \
                         648 z-lines meet in a router, and with the 36 y-lines of a group";

/// Sets the numbers of the text beside ours, for the fabrics that were run.
pub(super) fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let mut claims: Vec<Claim> = published()
        .into_iter()
        .filter_map(|one| {
            let is_it = |outcome: &&Outcome| {
                (outcome.fabric.preset, outcome.pattern.shape) == (one.fabric, one.shape)
            };
            let ours = (one.ours)(outcomes.iter().find(is_it)?);
            let verdict = verdict(ours, one.number);
            Some(Claim {
                what: format!("{}, {} {}", one.what, one.fabric, one.shape_name()),
                source: format!("MR4LMS {}", one.section),
                published: one.number.to_string(),
                ours: format!("{}", (ours * 100.0).round() / 100.0),
                verdict,
                why: if verdict == Verdict::Agrees { String::new() } else { WHY.to_owned() },
            })
        })
        .collect();
    claims.extend(largest(outcomes));
    claims.extend(longest_runs(outcomes));
    claims
}

/// Compares the largest figures of a fabric, or of all, whose pattern the text does not name.
fn largest(outcomes: &[Outcome]) -> impl Iterator<Item = Claim> {
    let fabrics =
        [("torus", 2_166.0, WHY), ("dragonfly", 486.0, DRAGONFLY), ("random", 2_852.0, WHY)];
    let colors = fabrics.map(|(preset, published, why)| {
        let own: Vec<f64> =
            outcomes.iter().filter(|one| one.fabric.preset == preset).map(COLORS).collect();
        (format!("most colors needed without merging, {preset}"), "§4.3", published, own, why)
    });
    let is_whole = MR4LMS_FABRICS
        .iter()
        .all(|fabric| outcomes.iter().any(|one| one.fabric.preset == fabric.preset));
    let shared = [(1, 10.0), (4, 66.0)].map(|(processes, published)| {
        let own = outcomes.iter().filter(|one| is_whole && one.pattern.processes == processes);
        let own = own.map(|one| f64::from(one.recommended.figures.max_tfi)).collect();
        let what = format!("max TFI of patterns with P={processes}, recommended colors");
        (what, "§4.5.2", published, own, WHY)
    });
    colors.into_iter().chain(shared).filter_map(|(what, section, published, own, why)| {
        let ours = own.into_iter().reduce(f64::max)?;
        let verdict = verdict(ours, published);
        Some(Claim {
            what,
            source: format!("MR4LMS {section}"),
            published: published.to_string(),
            ours: ours.to_string(),
            verdict,
            why: if verdict == Verdict::Agrees { String::new() } else { why.to_owned() },
        })
    })
}

impl Published {
    fn shape_name(&self) -> String {
        match self.shape {
            Plane(x, y) => format!("{x}x{y}"),
            Cube(x, y, z) => format!("{x}x{y}x{z}"),
            PatternShape::Random(groups) => format!("random:{groups}"),
        }
    }
}

/// A tenth more or less counts as the same.
fn verdict(ours: f64, published: f64) -> Verdict {
    if (ours - published).abs() <= published / 10.0 {
        Verdict::Agrees
    } else if ours < published {
        Verdict::Better
    } else {
        Verdict::Worse
    }
}

fn longest_runs(outcomes: &[Outcome]) -> Vec<Claim> {
    let longest = |what: &str, published: f64, times: Vec<f64>| {
        let ours = times.into_iter().fold(0.0, f64::max);
        (ours > 0.0).then(|| Claim {
            what: what.to_owned(),
            source: "MR4LMS §4.6, figure 12".to_owned(),
            published: format!("{published} s"),
            ours: format!("{ours:.2} s"),
            verdict: verdict(ours, published),
            why: "a 48-core server inside OpenSM against one core here".to_owned(),
        })
    };
    let of = |processes: fn(u32) -> bool, time: fn(&Outcome) -> f64| -> Vec<f64> {
        outcomes.iter().filter(|one| processes(one.pattern.processes)).map(time).collect()
    };
    let free: fn(&Outcome) -> f64 = |one| one.unlimited[0].took.as_secs_f64();
    let merged: fn(&Outcome) -> f64 = |one| one.recommended.took.as_secs_f64();
    let both = of(|processes| processes == 1, free)
        .into_iter()
        .chain(of(|processes| processes == 1, merged));
    [
        longest("longest run, 1 process per endpoint", 40.6, both.collect()),
        longest("longest run, 4 processes, no limit", 48.0, of(|processes| processes == 4, free)),
        longest(
            "longest run, 4 processes, recommended",
            191.5,
            of(|processes| processes == 4, merged),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
