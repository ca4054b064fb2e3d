//! Published values beside ours: one rule gives every verdict.
//!
//! A [`Comparison`] takes numbers; [`Comparison::because`] ends it and gives the [`Claim`]. A row
//! that differs has a reason of its own, and every row prints the tolerance within which it counts
//! as near. Where chance has a part, each seed is judged by itself, and seeds that disagree give no
//! verdict; nor do runs whose times disagree.

use std::fmt;

use serde::Serialize;

use crate::sample::Sample;

/// Note of rows whose values the colors of the layers decide: how the paper divides them is lost,
/// and ours were chosen because four of its maximum TFIs come out.
pub(crate) const CALIBRATED: &str = "calibrated: the colors of the layers";

/// Note of pages whose rows are of methods of others, which ours rebuild.
pub(crate) const OF_THEIR_METHOD: &str = "*Better* is of the published machine's method: here it means that ours does \
                                          not reproduce the published value.";

/// A published value and ours.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The quantity that is compared.
    pub what: String,
    /// Paper and section, figure or table.
    pub source: String,
    /// The published value.
    pub published: String,
    /// Our value; the mean where there are several seeds or runs.
    pub ours: String,
    /// Number of seeds or runs, least and largest value; empty where chance has no part.
    pub spread: String,
    /// Distance up to which a value counts as near.
    pub tolerance: String,
    /// Relation of our value to the published one.
    pub verdict: Verdict,
    /// Reason why they differ, what was fitted or calibrated; empty only for [`Verdict::Same`].
    pub why: String,
    /// Reason why they would differ, also where they do not.
    #[serde(skip)]
    pub(crate) reason: String,
}

/// Relation of our value to the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The same as printed, or inside the published range.
    Same,
    /// Within the printed tolerance.
    Near,
    /// Same or near, but a parameter was chosen for it.
    Fitted,
    /// Better in the claim's own sense.
    Better,
    /// Worse in the claim's own sense.
    Worse,
    /// Not the same quantity; [`Claim::why`] says what differs.
    NotComparable,
    /// None: seeds or runs disagree.
    Undecided,
}

/// A statement that follows from the construction: it holds or it does not, and has no distance.
#[derive(Clone, Debug, Serialize)]
pub struct Law {
    /// Situation in which the law is checked.
    pub what: String,
    /// Paper and section, figure or table.
    pub source: String,
    /// The demanded outcome.
    pub demanded: String,
    /// Outcome of our run.
    pub found: String,
    /// True if the outcome is the demanded one.
    pub holds: bool,
}

/// A published statement that no row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NotCompared {
    /// Statement of the paper.
    pub what: &'static str,
    /// Paper and section, figure or table.
    pub source: &'static str,
    /// Reason why nothing of ours stands beside it.
    pub why: &'static str,
}

/// A published number, or the range that agrees with the words.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    text: String,
    least: f64,
    most: f64,
}

/// Distance up to which a value counts as near.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tolerance {
    /// None: only the same value agrees.
    Exact,
    /// A part of the published value, in percent.
    Percent(f64),
    /// So many units.
    Units(f64),
}

/// The better one of two values, in the claim's own sense.
#[derive(Clone, Copy, Debug)]
enum Sense {
    Lower,
    Higher,
}

/// A claim in the making.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    what: String,
    source: String,
    published: Published,
    ours: Sample,
    unit: &'static str,
    decimals: usize,
    tolerance: Tolerance,
    sense: Sense,
    fitted: Option<String>,
    notes: Vec<String>,
}

impl Published {
    /// A number as the text has it, which may carry its unit.
    pub(crate) fn number(text: impl Into<String>, number: f64) -> Self {
        Self { text: text.into(), least: number, most: number }
    }

    /// Words that a range of numbers agrees with.
    pub(crate) fn range(text: impl Into<String>, least: f64, most: f64) -> Self {
        Self { text: text.into(), least, most }
    }

    pub(crate) fn at_least(text: impl Into<String>, least: f64) -> Self {
        Self::range(text, least, f64::INFINITY)
    }

    pub(crate) fn at_most(text: impl Into<String>, most: f64) -> Self {
        Self::range(text, f64::NEG_INFINITY, most)
    }
}

impl Comparison {
    /// Starts a comparison of two plain numbers of which the lower one is better, without
    /// tolerance.
    pub(crate) fn new(
        what: impl Into<String>,
        source: impl Into<String>,
        published: Published,
        ours: impl Into<Sample>,
    ) -> Self {
        Self {
            what: what.into(),
            source: source.into(),
            published,
            ours: ours.into(),
            unit: "",
            decimals: 0,
            tolerance: Tolerance::Exact,
            sense: Sense::Lower,
            fitted: None,
            notes: Vec::new(),
        }
    }

    /// Prints our value with this unit (with its blank) and so many decimals.
    pub(crate) fn printed(self, unit: &'static str, decimals: usize) -> Self {
        Self { unit, decimals, ..self }
    }

    pub(crate) fn within(self, tolerance: Tolerance) -> Self {
        Self { tolerance, ..self }
    }

    pub(crate) fn higher_is_better(self) -> Self {
        Self { sense: Sense::Higher, ..self }
    }

    /// Names the parameter that was chosen for this number.
    pub(crate) fn fitted(self, parameter: impl Into<String>) -> Self {
        Self { fitted: Some(parameter.into()), ..self }
    }

    /// Adds a remark that is printed whatever the verdict is.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Ends the comparison. The reason is printed where the values are not the same.
    ///
    /// # Panics
    ///
    /// If the reason is empty: every row must be able to differ. If a bound of the published range
    /// is another one as printed: a value beyond it would count as the same.
    pub(crate) fn because(self, reason: impl Into<String>) -> Claim {
        let reason = reason.into();
        assert!(!reason.is_empty(), "'{}' has no reason for a difference", self.what);
        assert!(self.keeps_its_bounds(), "'{}' has a bound that is lost in print", self.what);
        let verdict = self.verdict();
        let mut why: Vec<String> = Vec::new();
        why.extend(self.fitted.as_ref().map(|parameter| format!("fitted: {parameter}")));
        why.extend(self.notes.iter().cloned());
        if verdict == Verdict::Undecided {
            let who = if self.ours.is_of_runs() { "runs" } else { "seeds" };
            why.push(format!("{who} disagree"));
        }
        if !matches!(verdict, Verdict::Same | Verdict::Fitted) {
            why.push(reason.clone());
        }
        let print = |value: f64| format!("{:.*}{}", self.decimals, value, self.unit);
        Claim {
            ours: print(self.ours.mean()),
            spread: self.ours.spread(print),
            tolerance: self.tolerance.text(self.unit),
            what: self.what,
            source: self.source,
            published: self.published.text,
            verdict,
            why: why.join("; "),
            reason,
        }
    }

    /// Tells whether the bounds of a published range have no more decimals than are printed.
    fn keeps_its_bounds(&self) -> bool {
        let Published { least, most, .. } = self.published;
        let is_kept = |bound: f64| {
            let scaled = bound * self.scale();
            !bound.is_finite() || (scaled - scaled.round()).abs() < 1e-6
        };
        let is_number = least >= most;
        is_number || (is_kept(least) && is_kept(most))
    }

    /// Units of the last printed decimal in 1.
    fn scale(&self) -> f64 {
        10_f64.powi(i32::try_from(self.decimals).expect("few decimals"))
    }

    fn verdict(&self) -> Verdict {
        let mut verdicts = self.ours.values().iter().map(|value| self.verdict_of(*value));
        let Some(first) = verdicts.next() else { return Verdict::NotComparable };
        let agree = |a: Verdict, b: Verdict| match (a, b) {
            (a, b) if a == b => a,
            (Verdict::Same, Verdict::Near) | (Verdict::Near, Verdict::Same) => Verdict::Near,
            _ => Verdict::Undecided,
        };
        let verdict = verdicts.fold(first, agree);
        let agrees = matches!(verdict, Verdict::Same | Verdict::Near);
        if agrees && self.fitted.is_some() { Verdict::Fitted } else { verdict }
    }

    fn verdict_of(&self, value: f64) -> Verdict {
        let Published { least, most, .. } = self.published;
        let printed = |value: f64| (value * self.scale()).round();
        if (printed(least)..=printed(most)).contains(&printed(value)) {
            return Verdict::Same;
        }
        let bound = if value < least { least } else { most };
        if (value - bound).abs() <= self.tolerance.distance(bound) {
            return Verdict::Near;
        }
        match self.sense {
            Sense::Lower if value < least => Verdict::Better,
            Sense::Higher if value > most => Verdict::Better,
            Sense::Lower | Sense::Higher => Verdict::Worse,
        }
    }
}

impl Tolerance {
    /// Rounding errors do not push a value over the edge.
    fn distance(self, bound: f64) -> f64 {
        let distance = match self {
            Self::Exact => 0.0,
            Self::Percent(percent) => bound.abs() * percent / 100.0,
            Self::Units(units) => units,
        };
        distance + 1e-9
    }

    fn text(self, unit: &str) -> String {
        match self {
            Self::Exact => "exact".to_owned(),
            Self::Percent(percent) => format!("{percent} % of it"),
            Self::Units(units) => format!("{units}{unit}"),
        }
    }
}

impl Claim {
    /// Tells whether the values are the same or near, fitted or not.
    pub(crate) const fn agrees(&self) -> bool {
        matches!(self.verdict, Verdict::Same | Verdict::Near | Verdict::Fitted)
    }

    /// Sets a value beside one of another quantity, with the reason why they cannot be compared.
    pub(crate) fn not_comparable(
        what: impl Into<String>,
        source: impl Into<String>,
        published: &str,
        ours: impl Into<String>,
        why: &str,
    ) -> Self {
        Self {
            what: what.into(),
            source: source.into(),
            published: published.to_owned(),
            ours: ours.into(),
            spread: String::new(),
            tolerance: "none".to_owned(),
            verdict: Verdict::NotComparable,
            why: why.to_owned(),
            reason: why.to_owned(),
        }
    }

    /// Adds number, least and largest of the values that a row without verdict has the mean of.
    pub(crate) fn over(self, ours: &Sample, print: impl Fn(f64) -> String) -> Self {
        Self { spread: ours.spread(print), ..self }
    }

    /// Adds that inputs of the row were chosen by published numbers, though not by this one.
    pub(crate) fn with_inputs(self, inputs: &str) -> Self {
        let why = match self.why.as_str() {
            "" => inputs.to_owned(),
            rest => format!("{inputs}; {rest}"),
        };
        Self { why, ..self }
    }
}

/// Lists what is wrong with the rows of a comparison, whatever their verdicts are: no reason for a
/// difference, or that of another row.
pub(crate) fn faults(claims: &[Claim]) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, claim) in claims.iter().enumerate() {
        if claim.reason.is_empty() {
            faults.push(format!("'{}' has no reason for a difference", claim.what));
        }
        if let Some(other) = claims[..at].iter().find(|other| other.reason == claim.reason) {
            faults.push(format!("'{}' has the reason of '{}'", claim.what, other.what));
        }
    }
    faults
}

impl Verdict {
    /// Verdicts in the order in which pages explain them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Same,
        Self::Near,
        Self::Fitted,
        Self::Better,
        Self::Worse,
        Self::NotComparable,
        Self::Undecided,
    ];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::Near => "near",
            Self::Fitted => "fitted",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NotComparable => "not comparable",
            Self::Undecided => "none",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ours: impl Into<Sample>) -> Comparison {
        Comparison::new("latency", "§1", Published::number("100 us", 100.0), ours)
            .printed(" us", 0)
            .within(Tolerance::Percent(10.0))
    }

    fn verdict(comparison: Comparison) -> Verdict {
        comparison.because("another machine").verdict
    }

    #[test]
    fn verdicts_follow_the_printed_value_the_tolerance_and_the_sense() {
        assert_eq!(verdict(of(100.4)), Verdict::Same);
        assert_eq!(verdict(of(110.0)), Verdict::Near);
        assert_eq!(verdict(of(111.0)), Verdict::Worse);
        assert_eq!(verdict(of(80.0)), Verdict::Better);
        assert_eq!(verdict(of(80.0).higher_is_better()), Verdict::Worse);
        assert_eq!(verdict(of(111.0).higher_is_better()), Verdict::Better);
    }

    #[test]
    fn a_range_is_the_same_inside_and_measured_from_its_nearer_end() {
        let range = |ours: f64| {
            let published = Published::range("24 to 64", 24.0, 64.0);
            Comparison::new("width", "§1", published, ours).within(Tolerance::Units(5.0))
        };
        assert_eq!(verdict(range(30.0)), Verdict::Same);
        assert_eq!(verdict(range(69.0)), Verdict::Near);
        assert_eq!(verdict(range(18.0)), Verdict::Better);
        let most = Comparison::new("tries", "§1", Published::at_most("at most 3", 3.0), 2.0);
        assert_eq!(verdict(most), Verdict::Same);
    }

    #[test]
    fn what_was_fitted_says_so_and_only_where_the_fit_is_near() {
        let claim = of(105.0).fitted("host time").because("rounding");
        assert_eq!((claim.verdict, claim.why.as_str()), (Verdict::Fitted, "fitted: host time"));
        assert_eq!(verdict(of(300.0).fitted("host time")), Verdict::Worse);
    }

    #[test]
    fn seeds_that_disagree_give_no_verdict() {
        let claim = of(vec![95.0, 130.0]).because("chance");
        assert_eq!(claim.verdict, Verdict::Undecided);
        assert_eq!((claim.ours.as_str(), claim.spread.as_str()), ("112 us", "2: 95 us to 130 us"));
        assert_eq!(claim.why, "seeds disagree; chance");
        assert_eq!(verdict(of(vec![100.0, 95.0])), Verdict::Near);
        assert_eq!(verdict(of(vec![70.0, 80.0])), Verdict::Better);
    }

    #[test]
    fn runs_that_disagree_give_no_verdict_and_a_row_without_one_has_its_spread() {
        let runs = Sample::from_runs([95.0, 130.0]);
        let claim = of(runs.clone()).because("another machine");
        assert_eq!(claim.why, "runs disagree; another machine");
        assert_eq!(claim.spread, "2 runs: 95 us to 130 us");
        let row = Claim::not_comparable("run time", "§1", "9 s", "112 s", "another machine");
        assert_eq!(row.over(&runs, |time| format!("{time} s")).spread, "2 runs: 95 s to 130 s");
    }

    #[test]
    fn inputs_that_were_fitted_are_named_first() {
        let inputs = "inputs fitted: buffers";
        assert_eq!(of(100.0).because("a machine").with_inputs(inputs).why, inputs);
        let near = of(101.0).because("a machine").with_inputs(inputs);
        assert_eq!(near.why, "inputs fitted: buffers; a machine");
    }

    #[test]
    fn a_reason_stands_only_where_there_is_a_difference_and_a_note_always() {
        let same = of(100.0).note("with 5 links").because("another machine");
        assert_eq!(same.why, "with 5 links");
        let near = of(101.0).note("with 5 links").because("another machine");
        assert_eq!(near.why, "with 5 links; another machine");
        assert_eq!(near.tolerance, "10 % of it");
    }

    #[test]
    #[should_panic(expected = "'latency' has no reason for a difference")]
    fn a_row_that_could_not_explain_itself_is_refused() {
        let _ = of(100.0).because("");
    }

    fn below(limit: f64) -> Comparison {
        let published = Published::at_most("below 1", limit);
        Comparison::new("share", "§1", published, 0.996).printed("", 2)
    }

    #[test]
    fn a_value_beyond_a_bound_of_as_many_decimals_is_not_the_same() {
        assert_eq!(verdict(below(0.99)), Verdict::Worse);
        assert_eq!(verdict(below(0.99).within(Tolerance::Units(0.01))), Verdict::Near);
        let number = Published::number("1.59", 0.27 / 0.17);
        assert_eq!(verdict(Comparison::new("x", "§1", number, 1.6).printed("", 1)), Verdict::Same);
    }

    #[test]
    #[should_panic(expected = "'share' has a bound that is lost in print")]
    fn a_bound_that_its_own_rounding_moves_is_refused() {
        let _ = below(0.999).because("another machine");
    }

    #[test]
    fn rows_need_a_reason_of_their_own_also_where_nothing_differs() {
        let none = Claim::not_comparable("width", "§2", "9", "8", "");
        let rows = [of(120.0).because("wiring"), of(100.0).because("order"), none];
        assert_eq!(faults(&rows[..2]), Vec::<String>::new());
        let same = Claim { what: "throughput".to_owned(), ..of(100.0).because("wiring") };
        let expected =
            ["'width' has no reason for a difference", "'throughput' has the reason of 'latency'"];
        assert_eq!(faults(&[&rows[..], &[same]].concat()), expected);
    }
}
