//! Measured times of collectives, as files hold them: JSON lines.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::operation::{Operation, TreeKind};

/// One measured operation, in files as
/// `{"operation": "all-reduce", "bytes": 8, "processes": 512, "width": 32, "tree": "adapter",
/// "seconds": 4.1e-6}`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// The operation.
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

/// A line that holds no measurement; the writer's mistake.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct MeasurementError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, with the field.
    pub problem: String,
}

/// Reads measurements, one to a line; empty lines do not count.
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
