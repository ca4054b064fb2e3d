//! The legend: what each color stands for, in lines below the title.

use plotters::element::{Rectangle, Text};
use plotters::prelude::IntoFont;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, TextStyle};

use super::{Area, SIZE, TEXT, color};

const LINE: i32 = 20;
const LEFT: i32 = 84;
const LETTER: i32 = 7; // about the width of one at this size
const MARK: i32 = 18;

/// Draws the legend at the top of the area and gives what is left below it.
pub(super) fn draw<'a, 'b>(
    area: &Area<'a, 'b>,
    labels: &[&str],
) -> Result<Area<'a, 'b>, plotters::drawing::DrawingAreaErrorKind<std::io::Error>> {
    let places = places(labels);
    let lines = places.last().map_or(0, |(_, line)| line + 1);
    let (top, rest) = area.split_vertically(lines * LINE + 4);
    for (at, (label, (x, line))) in labels.iter().zip(places).enumerate() {
        let y = line * LINE + LINE / 2;
        let mark = [(x, y - 5), (x + 10, y + 5)];
        top.draw(&Rectangle::new(mark, color(at).filled()))?;
        let style = TextStyle::from(("sans-serif", 13).into_font())
            .color(&TEXT)
            .pos(Pos::new(HPos::Left, VPos::Center));
        top.draw(&Text::new((*label).to_owned(), (x + MARK, y), style))?;
    }
    Ok(rest)
}

/// Gives each label its place from the left and its line.
fn places(labels: &[&str]) -> Vec<(i32, i32)> {
    let right = i32::try_from(SIZE.0).expect("a picture is a few hundred pixels wide") - LEFT / 4;
    let (mut x, mut line) = (LEFT, 0);
    let mut places = Vec::with_capacity(labels.len());
    for label in labels {
        let letters = i32::try_from(label.chars().count()).unwrap_or(right);
        let width = letters.saturating_mul(LETTER).saturating_add(MARK + 14);
        if x > LEFT && x.saturating_add(width) > right {
            (x, line) = (LEFT, line + 1);
        }
        places.push((x, line));
        x = x.saturating_add(width);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_do_not_fit_go_to_the_next_line() {
        let long = "a label of some forty letters, so to say";
        let places = places(&[long; 4]);
        assert_eq!(places.iter().map(|(_, line)| *line).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert_eq!(places[0].0, places[2].0);
    }
}
