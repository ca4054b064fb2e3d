//! Fits the parameters of the cost model to measured times, by least squares.
//!
//! Given a measurement's operation, size, processes, width and kind of tree, the model is linear in
//! its five terms. Terms cannot be negative: of all choices of terms held at 0, the fit takes the
//! one without a negative term that leaves the least error. There are only 32 choices.

use thiserror::Error;

use crate::cost::{CostParameters, Term};
use crate::measurement::Measurement;

const TERMS: usize = Term::ALL.len();
/// A term whose column is closer than this to a combination of others, as the squared sine of the
/// angle between them, cannot be told from them.
const INDEPENDENT: f64 = 1e-9;

/// Parameters that explain measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Parameters that fit the measurements best, by least squares.
    pub parameters: CostParameters,
    /// By [`Term::ALL`]: standard error, in the term's unit; 0 for a given term. As if no
    /// bound at 0 existed.
    pub standard_errors: [f64; TERMS],
    /// Terms that would have been negative and are held at 0.
    pub held_at_zero: Vec<Term>,
    /// By measurement: measured less modelled, in microseconds.
    pub residuals_us: Vec<f64>,
    /// The part of the measurements' variance that the model explains, at most 1.
    pub r_squared: f64,
}

impl Fit {
    /// Returns the largest residual without its sign, in microseconds.
    #[must_use]
    pub fn worst_us(&self) -> f64 {
        self.residuals_us.iter().fold(0.0, |worst, residual| residual.abs().max(worst))
    }
}

/// Reason why a fit is impossible.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FitError {
    /// There are not more measurements than terms, so that nothing could tell a bad fit.
    #[error("{have} measurements are too few to find {terms} parameters, take {} or more", terms + 1)]
    TooFew {
        /// Measurements there are.
        have: usize,
        /// Terms to find.
        terms: usize,
    },
    /// Other values of these terms explain the measurements as well: vary what they depend on
    /// (operation, bytes, width, processes, kind of tree), or give one of them.
    #[error("the measurements do not determine {}", fields(terms))]
    Undetermined {
        /// Terms that cannot be told apart.
        terms: Vec<Term>,
    },
    /// A measurement or a given value is out of range.
    #[error("{what} is {value}, which must be a number of at least 0")]
    NotANumber {
        /// Name of the value; measurements are counted from 0.
        what: String,
        /// Its value, as text.
        value: String,
    },
}

fn fields(terms: &[Term]) -> String {
    terms.iter().map(|term| term.field()).collect::<Vec<_>>().join(", ")
}

/// Fits the model to measurements on a fabric where unicast paths have `path_links` links. `given`
/// terms keep their values.
///
/// Cost: O(n) for n measurements.
///
/// # Errors
///
/// [`FitError`] with the terms to measure better, or the wrong input.
pub fn fit(
    measurements: &[Measurement],
    path_links: f64,
    given: &[(Term, f64)],
) -> Result<Fit, FitError> {
    weighted(measurements, path_links, given, |_| 1.0)
}

/// Fits with a weight for the error of each measurement.
fn weighted(
    measurements: &[Measurement],
    path_links: f64,
    given: &[(Term, f64)],
    weight: fn(&Measurement) -> f64,
) -> Result<Fit, FitError> {
    check(measurements, path_links, given)?;
    let mut parameters = CostParameters::free(path_links);
    given.iter().for_each(|(term, value)| parameters.set(*term, *value));
    let free: Vec<usize> = (0..TERMS)
        .filter(|index| !given.iter().any(|(term, _)| *term == Term::ALL[*index]))
        .collect();
    if measurements.len() <= free.len() {
        return Err(FitError::TooFew { have: measurements.len(), terms: free.len() });
    }
    let problem = Problem::new(measurements, &parameters, weight);
    let undetermined = problem.undetermined(&free);
    if !undetermined.is_empty() {
        return Err(FitError::Undetermined { terms: undetermined });
    }
    let best = problem.least_without_negative(&free);
    for index in &free {
        parameters.set(Term::ALL[*index], best[*index]);
    }
    let held = free.iter().filter(|index| best[**index] <= 0.0);
    let held_at_zero = held.map(|index| Term::ALL[*index]).collect();
    let residuals_us: Vec<f64> = measurements
        .iter()
        .map(|measured| measured.seconds * 1e6 - modelled_us(&parameters, measured))
        .collect();
    let unexplained: f64 = residuals_us.iter().map(|residual| residual * residual).sum();
    let weighed = measurements.iter().zip(&residuals_us).map(|(one, left)| weight(one) * left);
    let weighed: f64 = weighed.map(|left| left * left).sum();
    Ok(Fit {
        standard_errors: problem.standard_errors(&free, weighed),
        r_squared: explained(measurements, unexplained),
        held_at_zero,
        residuals_us,
        parameters,
    })
}

/// Values that terms get where measurements give 0, in the term's unit: those of
/// [`CostParameters::DEFAULT`].
const DEFAULTS: [(Term, f64); 4] = [
    (Term::Link, CostParameters::DEFAULT.link_us),
    (Term::Matching, CostParameters::DEFAULT.matching_us),
    (Term::Store, CostParameters::DEFAULT.store_us_per_byte),
    (Term::Reduce, CostParameters::DEFAULT.reduce_us_per_byte),
];

/// Fits the model as [`fit`] does, and then gives terms that would be 0, but for the software time,
/// a stated default: with bytes that cost nothing, no size would change a tree. Returns these
/// terms, too; residuals are those of the fit.
///
/// Errors count relative to the times, which differ by a factor of thousands on a running system:
/// otherwise those of the longest messages alone would decide.
///
/// # Errors
///
/// As [`fit`].
pub fn fit_with_defaults(
    measurements: &[Measurement],
    path_links: f64,
) -> Result<(Fit, Vec<Term>), FitError> {
    // Nothing is measured in less than a nanosecond.
    let relative = |one: &Measurement| 1e-6 / one.seconds.max(1e-9);
    let mut found = weighted(measurements, path_links, &[], relative)?;
    let mut defaults = Vec::new();
    for (term, value) in DEFAULTS.into_iter().filter(|(term, _)| found.held_at_zero.contains(term))
    {
        found.parameters.set(term, value);
        defaults.push(term);
    }
    found.held_at_zero.retain(|term| !defaults.contains(term));
    Ok((found, defaults))
}

fn check(measurements: &[Measurement], links: f64, given: &[(Term, f64)]) -> Result<(), FitError> {
    let times = measurements.iter().enumerate();
    let times = times.map(|(index, one)| (format!("measurement {index}: seconds"), one.seconds));
    let given = given.iter().map(|(term, value)| (term.field().to_owned(), *value));
    let mut all = times.chain(given).chain([("path_links".to_owned(), links)]);
    match all.find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
        None => Ok(()),
        Some((what, value)) => Err(FitError::NotANumber { what, value: value.to_string() }),
    }
}

fn modelled_us(parameters: &CostParameters, measured: &Measurement) -> f64 {
    let shape = parameters.complete(measured.kind, measured.processes, measured.width);
    parameters.total_us(&shape, measured.operation, measured.bytes)
}

/// 1 - SSR/SST; measurements that are all equal are explained if nothing is left.
fn explained(measurements: &[Measurement], unexplained: f64) -> f64 {
    let times = || measurements.iter().map(|one| one.seconds * 1e6);
    let count = times().map(|_| 1.0).sum::<f64>();
    let mean = times().sum::<f64>() / count;
    let spread: f64 = times().map(|time| (time - mean).powi(2)).sum();
    if spread > 0.0 { 1.0 - unexplained / spread } else { f64::from(unexplained <= 0.0) }
}

/// The normal equations, columns scaled to length 1.
struct Problem {
    /// Products of columns.
    gram: [[f64; TERMS]; TERMS],
    /// Products of columns and what the given terms leave of the times.
    right: [f64; TERMS],
    /// Length of each column before scaling; 0 for one that is nowhere used.
    scale: [f64; TERMS],
    count: f64,
}

impl Problem {
    fn new(
        measurements: &[Measurement],
        given: &CostParameters,
        weight: fn(&Measurement) -> f64,
    ) -> Self {
        let rows = || {
            let row = |measured| row(measured, given.path_links).map(|one| one * weight(measured));
            measurements.iter().map(row)
        };
        let mut scale = [0.0; TERMS];
        for row in rows() {
            for (scale, value) in scale.iter_mut().zip(row) {
                *scale += value * value;
            }
        }
        let scale = scale.map(f64::sqrt);
        let mut problem =
            Self { gram: [[0.0; TERMS]; TERMS], right: [0.0; TERMS], scale, count: 0.0 };
        for (measured, row) in measurements.iter().zip(rows()) {
            let rest = measured.seconds * 1e6 - modelled_us(given, measured);
            let rest = rest * weight(measured);
            let unit =
                |index: usize| if scale[index] > 0.0 { row[index] / scale[index] } else { 0.0 };
            for i in 0..TERMS {
                problem.right[i] += unit(i) * rest;
                for j in 0..TERMS {
                    problem.gram[i][j] += unit(i) * unit(j);
                }
            }
            problem.count += 1.0;
        }
        problem
    }

    /// Returns the terms that a combination of the others could replace.
    fn undetermined(&self, free: &[usize]) -> Vec<Term> {
        let alone = |index: &usize| {
            let others = free.iter().copied().filter(|other| other != index);
            self.gram[*index][*index] - self.projected(others, *index) > INDEPENDENT
        };
        free.iter().filter(|index| !alone(index)).map(|index| Term::ALL[*index]).collect()
    }

    /// The squared length of a column's part in the space of others, which may depend on one
    /// another.
    fn projected(&self, others: impl Iterator<Item = usize>, index: usize) -> f64 {
        let mut basis: Vec<usize> = Vec::new();
        let mut weights = Vec::new();
        for other in others {
            basis.push(other);
            let target = basis.iter().map(|other| self.gram[*other][index]).collect();
            match self.solve(&basis, target) {
                Some(more) => weights = more,
                None => _ = basis.pop(),
            }
        }
        basis.iter().zip(weights).map(|(other, weight)| self.gram[*other][index] * weight).sum()
    }

    /// Returns the non-negative terms with the least error, by trying all choices.
    fn least_without_negative(&self, free: &[usize]) -> [f64; TERMS] {
        let mut best = (0.0, [0.0; TERMS]);
        for chosen in 0..1_u32 << free.len() {
            let set: Vec<usize> =
                (0..free.len()).filter(|at| chosen >> at & 1 == 1).map(|at| free[at]).collect();
            let target = set.iter().map(|index| self.right[*index]).collect();
            let Some(weights) = self.solve(&set, target) else { continue };
            if weights.iter().any(|weight| *weight < 0.0) {
                continue;
            }
            // Of a least-squares solution, what it takes off the error.
            let gain: f64 =
                set.iter().zip(&weights).map(|(i, weight)| self.right[*i] * weight).sum();
            if gain > best.0 {
                let mut terms = [0.0; TERMS];
                set.iter().zip(weights).for_each(|(i, weight)| terms[*i] = weight / self.scale[*i]);
                best = (gain, terms);
            }
        }
        best.1
    }

    fn standard_errors(&self, free: &[usize], unexplained: f64) -> [f64; TERMS] {
        let freedom = self.count - free.iter().map(|_| 1.0).sum::<f64>();
        let variance = unexplained / freedom;
        let mut errors = [0.0; TERMS];
        for (at, index) in free.iter().enumerate() {
            let mut target = vec![0.0; free.len()];
            target[at] = 1.0;
            let inverse = self.solve(free, target).map_or(f64::INFINITY, |column| column[at]);
            errors[*index] = (variance * inverse).sqrt() / self.scale[*index];
        }
        errors
    }

    /// Solves the equations of a set of columns by Cholesky's method; none if they are dependent.
    fn solve(&self, set: &[usize], mut target: Vec<f64>) -> Option<Vec<f64>> {
        let size = set.len();
        let mut lower = vec![[0.0; TERMS]; size];
        for i in 0..size {
            for j in 0..=i {
                let known: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
                let rest = self.gram[set[i]][set[j]] - known;
                lower[i][j] = if i > j {
                    rest / lower[j][j]
                } else if rest > INDEPENDENT {
                    rest.sqrt()
                } else {
                    return None;
                };
            }
        }
        for i in 0..size {
            let known: f64 = (0..i).map(|k| lower[i][k] * target[k]).sum();
            target[i] = (target[i] - known) / lower[i][i];
        }
        for i in (0..size).rev() {
            let known: f64 = (i + 1..size).map(|k| lower[k][i] * target[k]).sum();
            target[i] = (target[i] - known) / lower[i][i];
        }
        Some(target)
    }
}

/// Returns the factor of each term in a measurement: the model with one term at 1 and all others at
/// 0.
fn row(measured: &Measurement, path_links: f64) -> [f64; TERMS] {
    Term::ALL.map(|term| {
        let mut unit = CostParameters::free(path_links);
        unit.set(term, 1.0);
        modelled_us(&unit, measured)
    })
}
