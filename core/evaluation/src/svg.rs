//! Draws plots as SVG.
//!
//! Colors are those of Okabe and Ito, which people who see colors differently can tell apart; marks
//! differ in shape as well.

use std::ops::Range;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::element::{Circle, Cross, EmptyElement, PathElement, Rectangle, TriangleMarker};
use plotters::prelude::{Cartesian2d, DrawingArea, IntoDrawingArea, SVGBackend};
use plotters::series::LineSeries;
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, WHITE};

mod axis;
mod legend;

use axis::Ticks;

use crate::plot::{Axis, Bars, Boxes, Figure, Plot, Quartiles, Series, Style};

const SIZE: (u32, u32) = (860, 520);
const TEXT: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);
const PALETTE: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(150, 110, 60),
];

type Area<'a, 'b> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), plotters::drawing::DrawingAreaErrorKind<std::io::Error>>;

/// Draws a plot; the text of an SVG file.
pub(crate) fn render(plot: &Plot) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&area, plot).expect("a string takes every drawing");
        area.present().expect("a string takes every drawing");
    }
    text
}

fn color(at: usize) -> RGBColor {
    PALETTE[at % PALETTE.len()]
}

fn draw(area: &Area<'_, '_>, plot: &Plot) -> Drawn {
    area.fill(&WHITE)?;
    let area = area.titled(&plot.title, ("sans-serif", 18).into_font().color(&TEXT))?;
    let labels: Vec<&str> = match &plot.figure {
        Figure::Lines { series, .. } => series.iter().map(|one| &*one.label).collect(),
        Figure::Bars(bars) => bars.series.iter().map(|(label, _)| &**label).collect(),
        Figure::Boxes(boxes) => boxes.series.iter().map(|(label, _)| &**label).collect(),
    };
    let area = legend::draw(&area, &labels)?;
    match &plot.figure {
        Figure::Lines { x, y, series } => lines(&area, x, y, series),
        Figure::Bars(bars) => draw_bars(&area, bars),
        Figure::Boxes(boxes) => draw_boxes(&area, boxes),
    }
}

fn lines(area: &Area<'_, '_>, x: &Axis, y: &Axis, series: &[Series]) -> Drawn {
    let points = || series.iter().flat_map(|one| &one.points);
    let x_ticks = Ticks::of(x.scale, points().map(|point| point.0));
    let y_ticks = Ticks::of(y.scale, points().map(|point| point.1));
    let mut chart = chart(area, &x_ticks, &y_ticks)?;
    mesh(&mut chart, &x_ticks, &y_ticks)?;
    axis::labels(area, &chart, [&x_ticks, &y_ticks], [&x.label, &y.label])?;
    for (at, one) in series.iter().enumerate() {
        let places: Vec<(f64, f64)> = one
            .points
            .iter()
            .filter_map(|(a, b)| Some((x_ticks.place(*a)?, y_ticks.place(*b)?)))
            .collect();
        let style = ShapeStyle::from(&color(at)).stroke_width(2);
        if one.style == Style::Line {
            chart.draw_series(LineSeries::new(places.iter().copied(), style))?;
        }
        marks(&mut chart, at, &places)?;
    }
    Ok(())
}

fn marks(chart: &mut Chart<'_, '_>, at: usize, places: &[(f64, f64)]) -> Drawn {
    let full = color(at).filled();
    let thin = ShapeStyle::from(&color(at)).stroke_width(2);
    let places = places.iter().copied();
    match at % 4 {
        0 => chart.draw_series(places.map(|place| Circle::new(place, 4, full)))?,
        1 => chart.draw_series(places.map(|place| TriangleMarker::new(place, 5, full)))?,
        2 => chart.draw_series(places.map(|place| Cross::new(place, 4, thin)))?,
        _ => chart.draw_series(
            places.map(|place| EmptyElement::at(place) + Rectangle::new([(-4, -4), (4, 4)], full)),
        )?,
    };
    Ok(())
}

/// Place of the part of a series in a category, and its width.
struct Slots {
    series: usize,
}

impl Slots {
    fn of(&self, category: usize, series: usize) -> (f64, f64) {
        let width = 0.8 / float(self.series.max(1));
        let left = float(category) + 0.1 + width * float(series);
        (left + 0.05 * width, left + 0.95 * width)
    }
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).expect("a plot has few parts"))
}

fn draw_bars(area: &Area<'_, '_>, bars: &Bars) -> Drawn {
    let values = bars.series.iter().flat_map(|(_, values)| values).flatten().copied();
    let y = Ticks::of(bars.y.scale, values).with_room_below();
    let mut chart = categories(area, &bars.categories, &bars.y, &y)?;
    let slots = Slots { series: bars.series.len() };
    for (at, (_, values)) in bars.series.iter().enumerate() {
        let shapes = values.iter().enumerate().filter_map(|(category, value)| {
            let top = y.place((*value)?)?;
            let (left, right) = slots.of(category, at);
            Some(Rectangle::new([(left, y.least()), (right, top)], color(at).filled()))
        });
        chart.draw_series(shapes)?;
    }
    Ok(())
}

fn draw_boxes(area: &Area<'_, '_>, boxes: &Boxes) -> Drawn {
    let all = boxes.series.iter().flat_map(|(_, values)| values).flatten();
    let y = Ticks::of(boxes.y.scale, all.flat_map(|one| [one.least, one.most]));
    let mut chart = categories(area, &boxes.categories, &boxes.y, &y)?;
    let slots = Slots { series: boxes.series.len() };
    for (at, (_, values)) in boxes.series.iter().enumerate() {
        for (category, value) in values.iter().enumerate() {
            if let Some(value) = value {
                let (left, right) = slots.of(category, at);
                draw_box(&mut chart, left..right, &y, *value, color(at))?;
            }
        }
    }
    Ok(())
}

fn draw_box(
    chart: &mut Chart<'_, '_>,
    slot: Range<f64>,
    y: &Ticks,
    value: Quartiles,
    color: RGBColor,
) -> Drawn {
    let (left, right) = (slot.start, slot.end);
    let place = |value: f64| y.place(value).unwrap_or_else(|| y.least());
    let middle = f64::midpoint(left, right);
    let line = ShapeStyle::from(&color).stroke_width(2);
    let body = [(left, place(value.lower)), (right, place(value.upper))];
    chart.draw_series([Rectangle::new(body, color.mix(0.3).filled())])?;
    chart.draw_series([Rectangle::new(body, line)])?;
    let across = |value: f64| PathElement::new([(left, place(value)), (right, place(value))], line);
    let up =
        |from: f64, to: f64| PathElement::new([(middle, place(from)), (middle, place(to))], line);
    chart.draw_series([across(value.least), across(value.median), across(value.most)])?;
    chart.draw_series([up(value.least, value.lower), up(value.upper, value.most)])?;
    Ok(())
}

fn categories<'a, 'b>(
    area: &'a Area<'b, '_>,
    names: &[String],
    axis: &Axis,
    y: &Ticks,
) -> Result<Chart<'a, 'b>, plotters::drawing::DrawingAreaErrorKind<std::io::Error>> {
    let x = Ticks::categories(names);
    let mut chart = chart(area, &x, y)?;
    mesh(&mut chart, &x, y)?;
    axis::labels(area, &chart, [&x, y], ["", &axis.label])?;
    Ok(chart)
}

fn chart<'a, 'b>(
    area: &'a Area<'b, '_>,
    x: &Ticks,
    y: &Ticks,
) -> Result<Chart<'a, 'b>, plotters::drawing::DrawingAreaErrorKind<std::io::Error>> {
    ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(axis::room_below(x))
        .y_label_area_size(72)
        .build_cartesian_2d(x.range(), y.range())
}

/// Draws the grid.
fn mesh(chart: &mut Chart<'_, '_>, x: &Ticks, y: &Ticks) -> Drawn {
    for (place, _) in y.marks() {
        let line = [(x.least(), *place), (x.most(), *place)];
        chart.draw_series([PathElement::new(line, GRID)])?;
    }
    for (place, _) in x.marks().iter().filter(|_| x.has_grid()) {
        let line = [(*place, y.least()), (*place, y.most())];
        chart.draw_series([PathElement::new(line, GRID)])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(figure: Figure) -> Plot {
        Plot { name: "p".to_owned(), title: "Entries & merging".to_owned(), figure }
    }

    #[test]
    fn lines_name_axes_and_series_and_are_the_same_every_time() {
        let series = |label: &str, style| Series {
            label: label.to_owned(),
            points: vec![(1.0, 3.0), (10.0, 20.0), (0.0, 5.0)],
            style,
        };
        let figure = Figure::Lines {
            x: Axis::log("entries"),
            y: Axis::linear("max TFI"),
            series: vec![series("ours", Style::Line), series("published", Style::Marks)],
        };
        let text = render(&plot(figure.clone()));
        for part in ["Entries &amp; merging", "entries", "max TFI", "ours", "published", "<circle"]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text, render(&plot(figure)));
    }

    #[test]
    fn bars_and_boxes_leave_gaps_where_there_is_no_value() {
        let bars = Bars {
            y: Axis::linear("EFI"),
            categories: vec!["a".to_owned(), "b".to_owned()],
            series: vec![("one".to_owned(), vec![Some(3.0), None])],
        };
        let full =
            Bars { series: vec![("one".to_owned(), vec![Some(3.0), Some(2.0)])], ..bars.clone() };
        let count = |figure| render(&plot(figure)).matches("<rect").count();
        assert_eq!(count(Figure::Bars(bars)) + 1, count(Figure::Bars(full)));
        let quartiles = Quartiles::of(&[1.0, 2.0, 9.0]);
        let boxes = Boxes {
            y: Axis::log("latency in us"),
            categories: vec!["a".to_owned(), "b".to_owned()],
            series: vec![("one".to_owned(), vec![quartiles, None])],
        };
        assert!(render(&plot(Figure::Boxes(boxes))).contains("latency in us"));
    }

    #[test]
    fn a_plot_without_points_is_drawn_empty() {
        let figure = Figure::Lines {
            x: Axis::log("x"),
            y: Axis::log("y"),
            series: vec![Series { label: "none".to_owned(), points: vec![], style: Style::Line }],
        };
        assert!(render(&plot(figure)).contains("none"));
    }
}
