//! Axes: positions of values, and readable ticks.

use std::ops::Range;

use plotters::element::Text;
use plotters::prelude::IntoFont;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontTransform, TextStyle};

use super::{Area, Chart, Drawn, TEXT};
use crate::plot::Scale;

/// Ticks of an axis, about so many.
const TICKS: f64 = 7.0;

/// One axis: places are values, or their decimal logarithms.
pub(super) struct Ticks {
    scale: Scale,
    range: Range<f64>,
    marks: Vec<(f64, String)>,
    grid: bool,
}

impl Ticks {
    /// Chooses the range and the ticks for these values.
    pub(super) fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values
            .filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            });
        match scale {
            Scale::Linear if least > most => Self::linear(0.0, 1.0),
            Scale::Linear => Self::linear(least.min(0.0), most),
            Scale::Log if least > most => Self::log(1.0, 10.0),
            Scale::Log => Self::log(least, most),
        }
    }

    /// Leaves room below the least value, so that its bar is seen too.
    pub(super) fn with_room_below(mut self) -> Self {
        if self.scale == Scale::Log {
            self.range.start -= (self.range.end - self.range.start) / 20.0;
        }
        self
    }

    /// One tick in the middle of every category.
    pub(super) fn categories(names: &[String]) -> Self {
        let marks = (0u32..).zip(names).map(|(at, name)| (f64::from(at) + 0.5, name.clone()));
        let marks: Vec<(f64, String)> = marks.collect();
        let end = marks.last().map_or(1.0, |(place, _)| place + 0.5);
        Self { scale: Scale::Linear, range: 0.0..end, marks, grid: false }
    }

    fn linear(least: f64, most: f64) -> Self {
        let most = if most > least { most } else { least + 1.0 };
        let rough = (most - least) / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(10.0 * power);
        let first = (least / step).floor() * step;
        let mut marks = Vec::new();
        let mut at = first;
        while at < most + step {
            let exact = if at.abs() < step / 1e6 { 0.0 } else { at };
            marks.push((exact, number(exact, step)));
            at += step;
        }
        let end = marks.last().map_or(most, |(place, _)| *place);
        Self { scale: Scale::Linear, range: first..end, marks, grid: true }
    }

    fn log(least: f64, most: f64) -> Self {
        let wide = most / least >= 100.0;
        let steps: &[f64] = if wide { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let (first, last) = (least.log10().floor(), most.log10().ceil());
        let mut marks = Vec::new();
        let mut power = first;
        while power <= last {
            for factor in steps {
                let value = factor * 10f64.powf(power);
                marks.push((value.log10(), number(value, value)));
            }
            power += 1.0;
        }
        let below =
            marks.iter().rposition(|(place, _)| *place <= least.log10() + 1e-9).unwrap_or(0);
        let above = marks.iter().position(|(place, _)| *place >= most.log10() - 1e-9);
        let above = above.unwrap_or(marks.len() - 1).max(below + 1).min(marks.len() - 1);
        let marks = marks[below..=above].to_vec();
        let range = marks[0].0..marks[marks.len() - 1].0;
        Self { scale: Scale::Log, range, marks, grid: true }
    }

    pub(super) fn range(&self) -> Range<f64> {
        self.range.clone()
    }

    pub(super) const fn least(&self) -> f64 {
        self.range.start
    }

    pub(super) const fn most(&self) -> f64 {
        self.range.end
    }

    pub(super) fn marks(&self) -> &[(f64, String)] {
        &self.marks
    }

    /// Tells whether the names of the ticks fit side by side.
    fn is_upright(&self) -> bool {
        self.grid || self.marks.iter().map(|(_, name)| name.len() + 2).sum::<usize>() < SIDE_BY_SIDE
    }

    pub(super) const fn has_grid(&self) -> bool {
        self.grid
    }

    /// Returns the place of a value; none if this axis cannot show it.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        match self.scale {
            Scale::Linear => value.is_finite().then_some(value),
            Scale::Log => (value > 0.0 && value.is_finite()).then(|| value.log10()),
        }
    }
}

/// Writes a number with no more decimals than the step needs.
fn number(value: f64, step: f64) -> String {
    let decimals = (0..9usize).find(|decimals| {
        let scaled = step.abs() * 10f64.powi(i32::try_from(*decimals).unwrap_or(0));
        (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0) && scaled >= 0.5
    });
    format!("{value:.*}", decimals.unwrap_or(9))
}

/// Letters of category names that fit side by side; longer ones are written upwards.
const SIDE_BY_SIDE: usize = 100;

/// Returns the room that the names below an axis need, in pixels.
pub(super) fn room_below(ticks: &Ticks) -> i32 {
    if ticks.is_upright() { 48 } else { 140 }
}

/// Writes the ticks' numbers and what the axes measure.
pub(super) fn labels(
    root: &Area<'_, '_>,
    chart: &Chart<'_, '_>,
    [x, y]: [&Ticks; 2],
    names: [&str; 2],
) -> Drawn {
    let area = chart.plotting_area();
    let (left, bottom) = area.map_coordinate(&(x.least(), y.least()));
    let (right, top) = area.map_coordinate(&(x.most(), y.most()));
    let base = root.get_base_pixel();
    let style = |size: i32, h, v| {
        TextStyle::from(("sans-serif", size).into_font()).color(&TEXT).pos(Pos::new(h, v))
    };
    // Places are those of the whole picture; an area draws relative to its corner.
    let at = |x: i32, y: i32| (x - base.0, y - base.1);
    for (place, label) in x.marks() {
        let (x_at, _) = area.map_coordinate(&(*place, y.least()));
        let tick = if x.is_upright() {
            style(12, HPos::Center, VPos::Top)
        } else {
            let font = ("sans-serif", 12).into_font().transform(FontTransform::Rotate270);
            TextStyle::from(font).color(&TEXT).pos(Pos::new(HPos::Right, VPos::Center))
        };
        root.draw(&Text::new(label.clone(), at(x_at, bottom + 6), tick))?;
    }
    for (place, label) in y.marks() {
        let (_, y_at) = area.map_coordinate(&(x.least(), *place));
        let tick = style(12, HPos::Right, VPos::Center);
        root.draw(&Text::new(label.clone(), at(left - 8, y_at), tick))?;
    }
    let name = style(14, HPos::Center, VPos::Top);
    root.draw(&Text::new(names[0].to_owned(), at(i32::midpoint(left, right), bottom + 26), name))?;
    let font = ("sans-serif", 14).into_font().transform(FontTransform::Rotate270);
    let turned = TextStyle::from(font).color(&TEXT).pos(Pos::new(HPos::Center, VPos::Top));
    root.draw(&Text::new(names[1].to_owned(), at(left - 66, i32::midpoint(top, bottom)), turned))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ticks: &Ticks) -> Vec<&str> {
        ticks.marks.iter().map(|(_, label)| &**label).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_reach_round_the_values() {
        let ticks = Ticks::of(Scale::Linear, [3.0, 26.0].into_iter());
        assert_eq!(texts(&ticks), ["0", "5", "10", "15", "20", "25", "30"]);
        let small = Ticks::of(Scale::Linear, [0.0, 0.6].into_iter());
        assert_eq!(texts(&small)[..3], ["0.0", "0.1", "0.2"]);
    }

    #[test]
    fn log_ticks_are_powers_and_finer_where_the_range_is_narrow() {
        assert_eq!(
            texts(&Ticks::of(Scale::Log, [2.0, 900.0].into_iter())),
            ["1", "10", "100", "1000"]
        );
        assert_eq!(texts(&Ticks::of(Scale::Log, [20.0, 60.0].into_iter())), ["20", "50", "100"]);
        assert_eq!(
            texts(&Ticks::of(Scale::Log, [0.02, 0.06].into_iter())),
            ["0.02", "0.05", "0.1"]
        );
    }

    #[test]
    fn one_value_has_an_axis_too() {
        for scale in [Scale::Linear, Scale::Log] {
            let ticks = Ticks::of(scale, std::iter::once(1.0));
            assert!(ticks.least() < ticks.most());
        }
    }

    #[test]
    fn what_a_log_axis_cannot_show_has_no_place() {
        let ticks = Ticks::of(Scale::Log, [1.0, 0.0, f64::NAN].into_iter());
        assert_eq!((ticks.place(0.0), ticks.place(1.0)), (None, Some(0.0)));
    }
}
