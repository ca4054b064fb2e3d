//! A value that was measured with several seeds, or in several runs.

/// Values, one for each seed or run; or a single one in which chance has no part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    values: Vec<f64>,
    origin: Origin,
}

/// Reason why the values of a sample differ. Of two samples that are joined the later one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// None: chance has no part.
    Certain,
    /// Each value has a seed of its own.
    Seeds,
    /// Each value is the time of another run.
    Runs,
}

impl From<f64> for Sample {
    /// A value in which chance has no part.
    fn from(value: f64) -> Self {
        Self { values: vec![value], origin: Origin::Certain }
    }
}

impl From<Vec<f64>> for Sample {
    /// Values of as many seeds.
    fn from(values: Vec<f64>) -> Self {
        Self { values, origin: Origin::Seeds }
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self::from(values.into_iter().collect::<Vec<f64>>())
    }
}

impl Sample {
    /// Takes values in which chance has no part.
    pub(crate) fn from_certain(values: impl IntoIterator<Item = f64>) -> Self {
        Self { values: values.into_iter().collect(), origin: Origin::Certain }
    }

    /// Takes the times of as many runs.
    pub(crate) fn from_runs(times: impl IntoIterator<Item = f64>) -> Self {
        Self { values: times.into_iter().collect(), origin: Origin::Runs }
    }

    /// Joins the values of two samples of the same seeds or runs, one by one; a certain value goes
    /// with every one of the other's.
    pub(crate) fn with(&self, other: &Self, join: impl Fn(f64, f64) -> f64) -> Self {
        let count = self.values.len().max(other.values.len());
        let of = |sample: &Self, at: usize| sample.values[at.min(sample.values.len() - 1)];
        let is_empty = self.values.is_empty() || other.values.is_empty();
        let count = if is_empty { 0 } else { count };
        let values = (0..count).map(|at| join(of(self, at), of(other, at))).collect();
        Self { values, origin: self.origin.max(other.origin) }
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the mean; 0 of no values.
    pub(crate) fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len().max(1) as f64
    }

    pub(crate) fn least(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn most(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Tells whether the values are times of several runs.
    pub(crate) fn is_of_runs(&self) -> bool {
        self.origin == Origin::Runs
    }

    /// Writes number of seeds or runs, least and largest value; nothing where chance has no part.
    pub(crate) fn spread(&self, print: impl Fn(f64) -> String) -> String {
        if self.values.is_empty() {
            return String::new();
        }
        let unit = match self.origin {
            Origin::Certain => return String::new(),
            Origin::Seeds => "",
            Origin::Runs if self.values.len() == 1 => " run",
            Origin::Runs => " runs",
        };
        format!("{}{unit}: {} to {}", self.values.len(), print(self.least()), print(self.most()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_mean_and_spread_and_a_certain_value_has_none() {
        let sample: Sample = [3.0, 1.0, 2.0].into_iter().collect();
        assert_eq!((sample.mean(), sample.least(), sample.most()), (2.0, 1.0, 3.0));
        assert_eq!(sample.spread(|value| format!("{value:.1}")), "3: 1.0 to 3.0");
        let half = sample.with(&Sample::from(2.0), |a, b| a / b);
        assert_eq!(half, Sample::from(vec![1.5, 0.5, 1.0]));
        assert_eq!(Sample::from(1.0).spread(|value| value.to_string()), "");
    }

    #[test]
    fn times_of_runs_say_so_also_when_they_are_joined() {
        let times = Sample::from_runs([4.0, 2.0]);
        assert_eq!(times.spread(|time| format!("{time} s")), "2 runs: 2 s to 4 s");
        let of_seeds = times.with(&Sample::from(vec![2.0, 2.0]), |time, by| time / by);
        assert!(of_seeds.is_of_runs() && !Sample::from(vec![1.0]).is_of_runs());
        assert_eq!(of_seeds.spread(|time| time.to_string()), "2 runs: 1 to 2");
    }
}
