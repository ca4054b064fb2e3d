//! Report of the demo: printed step by step, and as JSON at the end.

use serde::Serialize;

use crate::args::Format;
use crate::failure::Failure;
use crate::output;

/// Steps, facts and checks of the demo.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) topology: String,
    pub(crate) steps: Vec<Step>,
    #[serde(skip)]
    format: Format,
}

/// One step of the demo.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) title: String,
    pub(crate) facts: Vec<String>,
    pub(crate) checks: Vec<Check>,
}

/// One condition that was checked.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) what: String,
    pub(crate) held: bool,
    pub(crate) details: Vec<String>,
}

impl Report {
    pub(crate) fn new(topology: String, format: Format) -> Self {
        Self { topology, steps: Vec::new(), format }
    }

    /// Starts a step.
    pub(crate) fn step(&mut self, title: &str) -> Result<(), Failure> {
        let step = Step { title: title.to_owned(), facts: Vec::new(), checks: Vec::new() };
        self.steps.push(step);
        self.show(&format!("\n== {title}"))
    }

    /// Records a fact of the present step.
    pub(crate) fn fact(&mut self, text: String) -> Result<(), Failure> {
        self.show(&format!("   {}", text.replace('\n', "\n   ")))?;
        self.present().facts.push(text);
        Ok(())
    }

    /// Records the outcome of a check.
    pub(crate) fn check(
        &mut self,
        what: String,
        held: bool,
        details: Vec<String>,
    ) -> Result<(), Failure> {
        let mark = if held { "ok  " } else { "FAIL" };
        self.show(&format!("   {mark} {what}"))?;
        for detail in &details {
            self.show(&format!("        {detail}"))?;
        }
        self.present().checks.push(Check { what, held, details });
        Ok(())
    }

    /// Ends the report: exit 0 only if every check held.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let checks = || self.steps.iter().flat_map(|step| &step.checks);
        let (all, failed) = (checks().count(), checks().filter(|check| !check.held).count());
        if self.format == Format::Json {
            output::print(Format::Json, &self, |_| String::new())?;
        }
        if failed > 0 {
            return Err(Failure::No(format!("{failed} of {all} checks failed")));
        }
        self.show(&format!("\nall {all} checks held"))
    }

    fn show(&self, text: &str) -> Result<(), Failure> {
        match self.format {
            Format::Table | Format::Hostlist | Format::Slurm => {
                output::print_text(&format!("{text}\n"))
            }
            Format::Json => Ok(()),
        }
    }

    fn present(&mut self) -> &mut Step {
        self.steps.last_mut().expect("a step is started before anything is noted in it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_fails_the_whole() {
        let mut report = Report::new("t".to_owned(), Format::Json);
        report.step("s").unwrap();
        report.check("good".to_owned(), true, Vec::new()).unwrap();
        report.check("bad".to_owned(), false, Vec::new()).unwrap();
        assert_eq!(report.finish().unwrap_err().exit_code(), 1);
    }
}
