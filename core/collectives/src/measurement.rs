//! Measured times of collectives, as files hold them: JSON lines, or CSV with the same names.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::operation::{Operation, TreeKind};

/// One measured operation, in files as
/// `{"operation": "all-reduce", "bytes": 8, "processes": 512, "width": 32, "tree": "adapter",
/// "seconds": 4.1e-6}`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Operation that was measured.
    pub operation: Operation,
    /// Bytes of the message.
    pub bytes: u32,
    /// Processes that took part.
    pub processes: u32,
    /// Children of a node of the tree.
    pub width: u32,
    /// Kind of the tree.
    #[serde(rename = "tree")]
    pub kind: TreeKind,
    /// The time it took the slowest process, in seconds.
    pub seconds: f64,
}

/// Error in a line of measurements.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct MeasurementError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The error, with the field.
    pub problem: String,
}

/// Parses measurements, one per line; empty lines are ignored.
///
/// # Errors
///
/// [`MeasurementError`] for the first line that is wrong.
pub fn read_measurements(text: &str) -> Result<Vec<Measurement>, MeasurementError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            let error = |problem| MeasurementError { line: index + 1, problem };
            let measured: Measurement =
                serde_json::from_str(line).map_err(|problem| error(problem.to_string()))?;
            check(&measured).map_err(error)?;
            Ok(measured)
        })
        .collect()
}

/// Reads measurements from CSV: a line with the names of the fields in any order, then one
/// measurement to a line.
///
/// # Errors
///
/// [`MeasurementError`] for the first line that is wrong.
pub fn read_measurements_csv(text: &str) -> Result<Vec<Measurement>, MeasurementError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let mut measurements = Vec::new();
    // By number, so that the line of a row with too few fields is known, too.
    let mut record = csv::StringRecord::new();
    let headers = reader.headers().cloned();
    let headers = headers.map_err(|error| in_line(1, csv_problem(&error)))?;
    loop {
        let more = reader.read_record(&mut record);
        let line = record.position().or_else(|| Some(reader.position()));
        let line = line.map_or(0, |at| usize::try_from(at.line()).unwrap_or(usize::MAX));
        if !more.map_err(|error| in_line(line, csv_problem(&error)))? {
            return Ok(measurements);
        }
        let measured: Measurement = record
            .deserialize(Some(&headers))
            .map_err(|error| in_line(line, csv_problem(&error)))?;
        check(&measured).map_err(|problem| in_line(line, problem))?;
        measurements.push(measured);
    }
}

fn in_line(line: usize, problem: String) -> MeasurementError {
    MeasurementError { line, problem }
}

/// Returns the error with the field but without its position, which is reported separately.
fn csv_problem(error: &csv::Error) -> String {
    if let csv::ErrorKind::Deserialize { err, .. } = error.kind() {
        return err.to_string();
    }
    if let csv::ErrorKind::UnequalLengths { expected_len, len, .. } = error.kind() {
        return format!("{len} fields, but the first line names {expected_len}");
    }
    error.to_string()
}

fn check(measured: &Measurement) -> Result<(), String> {
    let Measurement { processes, width, seconds, .. } = *measured;
    if processes == 0 {
        return Err("processes is 0, which must be at least 1".to_owned());
    }
    if width < 2 {
        return Err(format!("width is {width}, which must be at least 2"));
    }
    if !(seconds.is_finite() && seconds >= 0.0) {
        return Err(format!("seconds is {seconds}, which must be a number of at least 0"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"operation": "all-reduce", "bytes": 8, "processes": 512, "width": 32, "tree": "adapter", "seconds": 4.1e-6}"#;

    #[test]
    fn lines_are_read_and_written() {
        let read = read_measurements(&format!("{LINE}\n\n{LINE}\n")).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].operation, read[0].kind), (Operation::AllReduce, TreeKind::Adapter));
        let written = serde_json::to_string(&read[0]).unwrap();
        assert_eq!(read_measurements(&written).unwrap(), read[..1]);
    }

    const CSV: &str = "operation,bytes,processes,width,tree,seconds\n\
                       all-reduce, 8, 512, 32, adapter, 4.1e-6\n";

    #[test]
    fn csv_says_the_same_as_json_lines_in_any_order_of_columns() {
        let read = read_measurements_csv(CSV).unwrap();
        assert_eq!(read, read_measurements(LINE).unwrap());
        let turned = "seconds,tree,width,processes,bytes,operation\n\
                      4.1e-6,adapter,32,512,8,all-reduce\n";
        assert_eq!(read_measurements_csv(turned).unwrap(), read);
        assert_eq!(read_measurements_csv("operation,bytes\n"), Ok(vec![]));
    }

    #[test]
    fn a_wrong_line_of_csv_is_named_with_its_field() {
        let refused = |from: &str, to: &str| {
            let row = CSV.lines().nth(1).expect("a row").replacen(from, to, 1);
            read_measurements_csv(&format!("{CSV}{row}\n")).unwrap_err().to_string()
        };
        assert_eq!(refused("32", "1"), "line 3: width is 1, which must be at least 2");
        assert!(refused("all-reduce", "scan").starts_with("line 3: unknown variant `scan`"));
        assert!(refused("512", "many").starts_with("line 3: "), "{}", refused("512", "many"));
        assert_eq!(refused(", 4.1e-6", ""), "line 3: 5 fields, but the first line names 6");
        let headless = read_measurements_csv("all-reduce,8\nbarrier,0\n").unwrap_err();
        assert!(headless.to_string().contains("unknown field"), "{headless}");
    }

    #[test]
    fn a_wrong_line_is_named_with_its_field() {
        let refused = |from, to| {
            let text = format!("{LINE}\n\n{}", LINE.replace(from, to));
            read_measurements(&text).unwrap_err().to_string()
        };
        assert_eq!(refused("32", "1"), "line 3: width is 1, which must be at least 2");
        assert_eq!(refused("512", "0"), "line 3: processes is 0, which must be at least 1");
        assert!(refused("4.1e-6", "-1").contains("seconds is -1"));
        assert!(refused("all-reduce", "scan").contains("line 3: unknown variant `scan`"));
        assert!(refused("\"bytes\"", "\"size\"").contains("unknown field `size`"));
    }
}
