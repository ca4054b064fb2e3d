//! Draws lines over an axis of sizes, such as the cost of tables over their entries.

use std::fmt::Write;

use crate::svg::escape;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;
/// Style of the classes in a chart, beside [`crate::STYLE`].
pub const CHART_STYLE: &str = include_str!("chart.css");

/// Classes of the lines; more lines begin anew.
const CLASSES: [&str; 4] = ["one", "two", "three", "four"];
/// Most marks of the upright axis.
const MARKS: u32 = 5;

/// Lines in one frame; the lower axis doubles from mark to mark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Title, for readers of the screen.
    pub title: String,
    /// Text of the lower axis.
    pub x_label: String,
    /// Lines in the order in which they are drawn.
    pub lines: Vec<ChartLine>,
    /// A value of the lower axis that is marked, and its label.
    pub marked: Option<(u32, String)>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartLine {
    /// Name of the line, shown when it is pointed at.
    pub label: String,
    /// Its points, from left to right; values of the lower axis are 1 at least.
    pub points: Vec<ChartPoint>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChartPoint {
    /// Place on the lower axis.
    pub x: u32,
    /// Place on the upright axis.
    pub y: f64,
}

/// Scales of both axes.
struct Axes {
    /// Logarithm of the smallest value of the lower axis, and the length of the axis.
    first: f64,
    span: f64,
    /// Largest value of the upright axis, and the distance of its marks.
    top: f64,
    step: f64,
}

impl Axes {
    fn x(&self, value: u32) -> f64 {
        let share = (f64::from(value.max(1)).log2() - self.first) / self.span;
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)
    }
}

impl Chart {
    /// Prints the chart for a page that has [`crate::STYLE`] and [`CHART_STYLE`] among its own.
    #[must_use]
    pub fn svg(&self) -> String {
        let axes = self.axes();
        let mut out = String::new();
        let title = escape(&self.title);
        put(
            &mut out,
            format_args!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fabric chart\" \
                 viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
                 role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n"
            ),
        );
        self.write_frame(&axes, &mut out);
        for (line, class) in self.lines.iter().zip(CLASSES.iter().cycle()) {
            line.write(&axes, class, &mut out);
        }
        out.push_str("</svg>\n");
        out
    }

    fn points(&self) -> impl Iterator<Item = &ChartPoint> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn ends(&self) -> [u32; 2] {
        let first = self.points().map(|point| point.x).min().unwrap_or(1).max(1);
        [first, self.points().map(|point| point.x).max().unwrap_or(1).max(2)]
    }

    fn axes(&self) -> Axes {
        let [first, last] = self.ends().map(|end| f64::from(end).log2());
        let top = self.points().map(|point| point.y).fold(1.0, f64::max);
        let step = step(top);
        Axes { first, span: (last - first).max(1.0), top: (top / step).ceil() * step, step }
    }

    /// Prints marks and labels.
    fn write_frame(&self, axes: &Axes, out: &mut String) {
        let (left, right, bottom) = (LEFT - 6.0, WIDTH - RIGHT, HEIGHT - BOTTOM);
        for mark in 0..=MARKS {
            let value = f64::from(mark) * axes.step;
            if value <= axes.top {
                let y = axes.y(value);
                put(
                    out,
                    format_args!(
                        "<path class=\"grid\" d=\"M{LEFT} {y:.1}L{right} {y:.1}\"/>\
                         <text class=\"mark\" x=\"{left}\" y=\"{:.1}\">{value}</text>\n",
                        y + 4.0
                    ),
                );
            }
        }
        let [first, last] = self.ends();
        let mut text = |x: f64, y: f64, text: &str| {
            let text = escape(text);
            put(out, format_args!("<text x=\"{x:.1}\" y=\"{y}\">{text}</text>\n"));
        };
        let mut mark = first.next_power_of_two();
        while mark <= last {
            text(axes.x(mark), bottom + 16.0, &mark.to_string());
            mark *= 2;
        }
        text(f64::midpoint(LEFT, right), HEIGHT - 10.0, &self.x_label);
        if let Some((at, label)) = &self.marked {
            let x = axes.x(*at);
            text(x, TOP - 8.0, label);
            put(
                out,
                format_args!("<path class=\"marked\" d=\"M{x:.1} {TOP}L{x:.1} {bottom}\"/>\n"),
            );
        }
    }
}

impl ChartLine {
    fn write(&self, axes: &Axes, class: &str, out: &mut String) {
        let label = escape(&self.label);
        let place = |point: &ChartPoint| (axes.x(point.x), axes.y(point.y));
        let mut path = String::new();
        for (x, y) in self.points.iter().map(place) {
            let word = if path.is_empty() { 'M' } else { 'L' };
            put(&mut path, format_args!("{word}{x:.1} {y:.1}"));
        }
        put(
            out,
            format_args!(
                "<path class=\"curve {class}\" d=\"{path}\"><title>{label}</title></path>\n"
            ),
        );
        for point in &self.points {
            let (x, y) = place(point);
            put(
                out,
                format_args!(
                    "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\">\
                     <title>{label}: {} at {}</title></circle>\n",
                    rounded(point.y),
                    point.x
                ),
            );
        }
    }
}

/// Distance of the marks of an axis: 1, 2 or 5 times a power of ten.
fn step(top: f64) -> f64 {
    let least = top / f64::from(MARKS);
    let power = 10f64.powf(least.log10().floor()).max(1.0);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

fn rounded(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.2}") }
}

/// Writes to a string, which cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[(u32, f64)]) -> String {
        let points = values.iter().map(|(x, y)| ChartPoint { x: *x, y: *y }).collect();
        let lines = vec![ChartLine { label: "<b>".to_owned(), points }];
        Chart { lines, marked: Some((8, "now".to_owned())), ..Chart::default() }.svg()
    }

    #[test]
    fn points_lie_between_the_axes() {
        for values in [&[(1, 0.0), (32, 7.0), (33, 4.5)][..], &[(16, 1e6)], &[]] {
            let text = chart(values);
            assert!(
                !text.contains("NaN") && !text.contains("inf") && !text.contains("<b>"),
                "{text}"
            );
            let places = text.split("<circle").skip(1).map(|circle| {
                let number = |name: &str| -> f64 {
                    let rest = circle.split_once(name).unwrap().1;
                    rest.split('"').next().unwrap().parse().unwrap()
                };
                (number(" cx=\""), number(" cy=\""))
            });
            for (x, y) in places {
                assert!((LEFT..=WIDTH - RIGHT).contains(&x), "{x}: {text}");
                assert!((TOP..=HEIGHT - BOTTOM).contains(&y), "{y}: {text}");
            }
        }
    }

    #[test]
    fn marks_are_round_numbers() {
        for (top, expected) in [(1.0, 1.0), (7.0, 2.0), (24.0, 5.0), (100.0, 20.0), (900.0, 200.0)]
        {
            assert!((step(top) - expected).abs() < 1e-9, "{top}: {}", step(top));
        }
    }
}
