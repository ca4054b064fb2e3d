//! Plots as values; `svg.rs` draws them.

/// A plot with its title.
#[derive(Clone, Debug)]
pub struct Plot {
    /// File name without its ending, unique in the report.
    pub name: String,
    /// The line above the plot.
    pub title: String,
    /// The figure itself.
    pub figure: Figure,
}

/// Kinds of figures.
#[derive(Clone, Debug)]
pub enum Figure {
    /// y over x.
    Lines {
        /// The horizontal axis.
        x: Axis,
        /// The vertical axis.
        y: Axis,
        /// Series, the first drawn below the others.
        series: Vec<Series>,
    },
    /// Groups of bars, one group per category.
    Bars(Bars),
    /// Groups of box plots, one group per category.
    Boxes(Boxes),
}

/// Title and scale of an axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Quantity with its unit.
    pub label: String,
    /// Linear or logarithmic.
    pub scale: Scale,
}

impl Axis {
    /// Makes an axis of even steps.
    #[must_use]
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), scale: Scale::Linear }
    }

    /// Makes an axis of powers.
    #[must_use]
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), scale: Scale::Log }
    }
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Even steps; the axis starts at 0 unless values are negative.
    Linear,
    /// Even factors; values that are not positive are left out.
    Log,
}

/// One line or cloud of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// Points; a line connects them in this order.
    pub points: Vec<(f64, f64)>,
    /// Line or points.
    pub style: Style,
}

/// Style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line with a mark at every point.
    Line,
    /// Marks only, as for published numbers beside our line.
    Marks,
}

/// Groups of bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The vertical axis.
    pub y: Axis,
    /// Names of the groups of bars.
    pub categories: Vec<String>,
    /// Label in the legend and one value per category; none leaves a gap.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

/// Groups of box plots.
#[derive(Clone, Debug)]
pub struct Boxes {
    /// The vertical axis.
    pub y: Axis,
    /// Names of the groups of boxes.
    pub categories: Vec<String>,
    /// Label in the legend and one box per category; none leaves a gap.
    pub series: Vec<(String, Vec<Option<Quartiles>>)>,
}

/// The five numbers of a box plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    /// The smallest value of the sample.
    pub least: f64,
    /// A quarter of the values is not above it.
    pub lower: f64,
    /// Half of the values are not above it.
    pub median: f64,
    /// Three quarters are not above it.
    pub upper: f64,
    /// The largest value of the sample.
    pub most: f64,
}

impl Quartiles {
    /// Takes the quartiles of values in any order (nearest rank); none if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let rank = |quarter: usize| sorted[(last * quarter + 2) / 4];
        Some(Self {
            least: sorted[0],
            lower: rank(1),
            median: rank(2),
            upper: rank(3),
            most: sorted[last],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_do_not_depend_on_the_order() {
        let quartiles = Quartiles::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        let expected = Quartiles { least: 1.0, lower: 2.0, median: 3.0, upper: 4.0, most: 5.0 };
        assert_eq!(quartiles, expected);
    }

    #[test]
    fn one_value_is_all_of_its_quartiles_and_none_has_none() {
        assert_eq!(Quartiles::of(&[2.5]).map(|one| (one.lower, one.most)), Some((2.5, 2.5)));
        assert_eq!(Quartiles::of(&[]), None);
    }
}
