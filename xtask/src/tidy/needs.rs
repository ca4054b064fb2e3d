//! Checks that tests which need a tool are in a module that says so.

use super::{Finding, SourceFile};
use crate::setup::TOOLS;

/// Checks one file of tests: it lies in a module `needs_<tool>`, or has one for its tests.
pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    let is_test = file.path.contains("/tests/") && !file.path.starts_with("platform/testing/");
    if !is_test || !file.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for tool in &TOOLS {
        let module = tool.module();
        if file.path.contains(&module) || file.text.contains(&format!("mod {module}")) {
            continue;
        }
        for (number, line) in file.lines() {
            if let Some(call) = tool.calls.iter().find(|call| line.contains(**call)) {
                let what = format!("{call} in a test outside of a module {module}");
                let hint = "`cargo xtask test` could not leave it out where the tool is missing";
                findings.push(Finding::new(&file.path, number, what, hint));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_test_that_starts_etcd_is_in_a_module_of_that_name() {
        let text = "//! A test.\n    let etcd = Etcd::start(3).await;\n";
        let [finding] = &check(&file("cli/tests/cli/a.rs", text))[..] else { panic!() };
        assert!(finding.to_string().starts_with("cli/tests/cli/a.rs:2: Etcd::start in a test"));
        assert!(check(&file("cli/tests/cli/needs_etcd/a.rs", text)).is_empty());
        assert!(check(&file("cli/tests/cli/a.rs", &format!("{text}mod needs_etcd {{"))).is_empty());
        assert!(check(&file("services/tic/benches/a.rs", text)).is_empty());
    }
}
