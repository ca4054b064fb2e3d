//! Reads the table that divan's benches print, for it has no other output.

use anyhow::{Context, Result, bail};

/// One line of divan's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Binary, modules, bench and argument, joined by `/`.
    pub(crate) path: String,
    /// Median time, such as `2.661 ns`, or another statistic that the path names.
    pub(crate) median: String,
    /// Median rate, such as `3.006 Gitem/s`, if the bench counts items.
    pub(crate) rate: Option<String>,
}

/// Characters that one level of the tree takes.
const INDENT: usize = 3;
const MEDIAN: usize = 2;

/// Reads everything that benches of one or more binaries printed.
///
/// # Errors
///
/// A row that is neither a bench nor a group of benches: divan has changed its output.
pub(crate) fn parse(output: &str) -> Result<Vec<Measured>> {
    let mut found: Vec<Measured> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    for line in output.lines() {
        if let Some(binary) = header(line) {
            path = vec![binary.to_owned()];
        } else if path.is_empty() {
            // Before the first table: timer precision and the like.
        } else if let Some((depth, row)) = branch(line) {
            let cells: Vec<_> = row.split('│').map(str::trim).collect();
            let median = *cells.get(MEDIAN).with_context(|| format!("no median in '{line}'"))?;
            path.truncate(depth + 1);
            if path.len() != depth + 1 {
                bail!("'{line}' hangs from nothing");
            }
            if median.is_empty() {
                path.push(cells[0].trim_end_matches("(ignored)").trim_end().to_owned());
            } else {
                path.push(name_before_value(cells[0])?.to_owned());
                let median = median.to_owned();
                found.push(Measured { path: path.join("/"), median, rate: None });
            }
        } else if let Some(rate) = rate(line)
            && let Some(last) = found.last_mut()
        {
            last.rate = Some(rate);
        }
    }
    Ok(found)
}

/// The name of the binary, if the line opens its table.
fn header(line: &str) -> Option<&str> {
    let (first, rest) = line.split_once('│')?;
    let name = first.trim_end().strip_suffix("fastest")?;
    rest.contains("median").then(|| name.trim())
}

/// Depth and content of a row that has a place in the tree.
fn branch(line: &str) -> Option<(usize, &str)> {
    let start = line.find(['├', '╰'])?;
    let row = line[start..].trim_start_matches(['├', '╰', '─', ' ']);
    Some((line[..start].chars().count() / INDENT, row))
}

/// The first cell holds the name and the fastest time, a number and a unit.
fn name_before_value(cell: &str) -> Result<&str> {
    let split = || {
        let (rest, _unit) = cell.rsplit_once(' ')?;
        let (name, number) = rest.trim_end().rsplit_once(' ')?;
        number.parse::<f64>().is_ok().then(|| name.trim())
    };
    split().with_context(|| format!("no name and time in '{cell}'"))
}

/// The median rate, in a row that continues the bench above it.
fn rate(line: &str) -> Option<String> {
    // Cells are counted from the end: the tree's own strokes stand at the start.
    let cells: Vec<_> = line.split('│').map(str::trim).collect();
    let median = cells.len().checked_sub(4).and_then(|index| cells.get(index))?;
    median.ends_with("item/s").then(|| (*median).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As printed by divan 0.1.21.
    const OUTPUT: &str = "\
Timer precision: 10 ns
forwarding         fastest       │ slowest       │ median        │ mean          │ samples │ iters
├─ batch                         │               │               │               │         │
│  ├─ 8            2.651 ns      │ 2.682 ns      │ 2.661 ns      │ 2.661 ns      │ 100     │ 102400
│  │               3.017 Gitem/s │ 2.982 Gitem/s │ 3.006 Gitem/s │ 3.006 Gitem/s │         │
│  ╰─ 900          268.8 ns      │ 320.1 ns      │ 286.3 ns      │ 287.6 ns      │ 100     │ 800
│                  3.347 Gitem/s │ 2.811 Gitem/s │ 3.142 Gitem/s │ 3.129 Gitem/s │         │
├─ plain           1.082 ns      │ 1.537 ns      │ 1.082 ns      │ 1.112 ns      │ 100     │ 204800
╰─ join                          │               │               │               │         │
   ├─ one          2.073 ms      │ 2.101 ms      │ 2.097 ms      │ 2.09 ms       │ 3       │ 3
   ├─ skipped      (ignored)     │               │               │               │         │
   ╰─ typed                      │               │               │               │         │
      ├─ Vec<u16>  0.323 ns      │ 8.931 ns      │ 0.334 ns      │ 0.42 ns       │ 100     │ 102400
      ╰─ u8        0 ns          │ 0.001 ns      │ 0.001 ns      │ 0.001 ns      │ 100     │ 819200

plan               fastest       │ slowest       │ median        │ mean          │ samples │ iters
╰─ plain           1.082 s       │ 1.537 s       │ 1.083 s       │ 1.112 s       │ 100     │ 204800
";

    #[test]
    fn every_bench_is_found_under_its_path_with_median_and_rate() {
        let found = parse(OUTPUT).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|found| (found.path.as_str(), found.median.as_str(), found.rate.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                ("forwarding/batch/8", "2.661 ns", Some("3.006 Gitem/s")),
                ("forwarding/batch/900", "286.3 ns", Some("3.142 Gitem/s")),
                ("forwarding/plain", "1.082 ns", None),
                ("forwarding/join/one", "2.097 ms", None),
                ("forwarding/join/typed/Vec<u16>", "0.334 ns", None),
                ("forwarding/join/typed/u8", "0.001 ns", None),
                ("plan/plain", "1.083 s", None),
            ]
        );
    }

    #[test]
    fn a_changed_output_is_an_error_and_no_output_is_no_bench() {
        assert_eq!(parse("running 0 tests\n").unwrap(), []);
        let header = "x  fastest │ slowest │ median │ mean │ samples │ iters\n";
        assert!(parse(&format!("{header}├─ y  3 ns\n")).is_err());
        assert!(parse(&format!("{header}├─ y │ 3 ns │ 3 ns │ 3 ns │ 1 │ 1\n")).is_err());
        assert!(parse(&format!("{header}│  ├─ y 1 ns │ 3 ns │ 3 ns │ 3 ns │ 1 │ 1\n")).is_err());
    }
}
