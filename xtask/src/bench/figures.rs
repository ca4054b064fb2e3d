//! Reads the lines of benches that print more than divan can: `figure <path> <number> <unit>`.

use anyhow::{Context, Result};

use super::Quantity;
use super::divan::Measured;

/// Reads all figures that benches printed; other lines are passed over.
///
/// # Errors
///
/// A figure without path, number or unit.
pub(crate) fn parse(output: &str) -> Result<Vec<Measured>> {
    let rows = output.lines().filter_map(|line| Some((line, line.strip_prefix("figure ")?)));
    rows.map(|(line, rest)| figure(rest).with_context(|| format!("read '{line}'"))).collect()
}

fn figure(text: &str) -> Result<Measured> {
    let (path, figure) = text.split_once(' ').context("a path and a figure")?;
    Quantity::parse(figure)?;
    Ok(Measured { path: path.to_owned(), median: figure.trim().to_owned(), rate: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_among_other_lines() {
        let output = "x  fastest │ slowest │ median │ mean │ samples │ iters\n\
                      figure latency/join/median 2.110 us\nfigures are below\n\
                      figure latency/join/99th_percentile 9 us\n";
        let found = parse(output).unwrap();
        let found: Vec<_> =
            found.iter().map(|one| (one.path.as_str(), one.median.as_str())).collect();
        let expected =
            [("latency/join/median", "2.110 us"), ("latency/join/99th_percentile", "9 us")];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_figure_that_says_no_time_is_an_error_that_shows_the_line() {
        for bad in ["figure path", "figure path 3", "figure path us", "figure path 3 parsecs"] {
            assert!(format!("{:#}", parse(bad).unwrap_err()).contains(bad), "{bad}");
        }
    }
}
