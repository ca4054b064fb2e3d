//! The alerts of `deploy/prometheus`: their cases, and the documents that they lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Values of a key: the rest of each line that begins with it.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(key)).collect()
}

/// Anchors of the sections of a page of the site, which keeps the paths of the repository. Their
/// headings are names of alerts: one word.
fn anchors(url_path: &str) -> BTreeSet<String> {
    let page = url_path.strip_suffix(".html").expect("pages end so").to_owned() + ".md";
    let entry = page.strip_prefix("docs/").expect("the folder of the contents");
    assert!(read("docs/SUMMARY.md").contains(&format!("]({entry})")), "no page {page} in the site");
    read(&page).lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_lowercase).collect()
}

#[test]
fn every_alert_leads_to_its_section_of_the_site() {
    let rules = read("deploy/prometheus/alerts.yaml");
    let (names, urls) = (values(&rules, "- alert: "), values(&rules, "runbook_url: "));
    assert!(!names.is_empty());
    assert_eq!(names.len(), urls.len());
    let mut linked: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (name, url) in names.iter().zip(&urls) {
        let path = url.strip_prefix("https://fabricast.example/").expect("the address to replace");
        let (page, section) = path.split_once('#').expect("a section");
        assert_eq!(section, name.to_lowercase());
        linked.entry(page).or_default().insert(section.to_owned());
    }
    for (page, sections) in linked {
        assert_eq!(anchors(page), sections, "sections of {page} and alerts");
    }
}

#[test]
fn every_alert_has_a_case_that_fires_and_one_that_does_not() {
    let rules = read("deploy/prometheus/alerts.yaml");
    let cases = read("deploy/prometheus/alerts_test.yaml");
    for name in values(&rules, "- alert: ") {
        let firing = format!("ALERTS{{alertname=\"{name}\",alertstate=\"firing\",cluster=\"a\"");
        assert!(cases.contains(&firing), "{name} never fires");
    }
    // In the first case nothing is wrong, so it has to have whatever an alert looks at.
    let (healthy, _) = cases.split_once("\n\n").expect("cases are apart");
    assert!(healthy.contains("expr: ALERTS, eval_time: 20m, exp_samples: []"), "{healthy}");
    for expression in values(&rules, "expr: ") {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for metric in words.filter(|word| *word == "up" || word.starts_with("fabricast_")) {
            assert!(healthy.contains(&format!("'{metric}{{")), "{metric}");
        }
    }
}

mod needs_prometheus {
    use std::process::Command;

    use super::repository;

    #[test]
    fn rules_settings_and_cases_hold() {
        let arguments = [
            &["check", "config", "prometheus.yaml"][..],
            &["check", "rules", "alerts.yaml"],
            &["test", "rules", "alerts_test.yaml"],
        ];
        for arguments in arguments {
            let mut promtool = Command::new("promtool");
            promtool.args(arguments).current_dir(repository().join("deploy/prometheus"));
            let output = promtool.output().expect("promtool is installed");
            let said =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success(), "{arguments:?}: {said}");
        }
    }
}
