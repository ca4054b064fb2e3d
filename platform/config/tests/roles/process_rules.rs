//! Rules for the processes at the socket of an operating agent.

use fabricast_config::{OperatingAgentConfig, ProcessRule, Reload as _};

use super::{complaints, load_text};

const AGENT: &str = "[operating_agent]\ncertificates = 'c'\nnodes = [{name = 'n0'}]\n";

fn with(rules: &str) -> String {
    format!("{AGENT}{rules}")
}

fn read(rules: &str) -> OperatingAgentConfig {
    load_text(&with(rules), &[]).expect("the settings are good")
}

#[test]
fn a_rule_has_accounts_by_name_or_number_and_a_tenant_or_all_groups() {
    let config = read(
        "[[operating_agent.process_rules]]\nuser = 'root'\nall_groups = true\n\
         [[operating_agent.process_rules]]\nuser = 1000\ngroup = 'root'\ntenant = 'physics'\n",
    );
    let [root, other] = config.process_rules.as_slice() else { panic!("{config:?}") };
    assert_eq!(*root, ProcessRule { user: Some(0), group: None, tenant: None });
    assert_eq!((other.user, other.group.as_ref().unwrap().number), (Some(1000), 0));
    assert_eq!(other.tenant.as_ref().unwrap().to_string(), "tenant/physics");
    assert!(read("").process_rules.is_empty());
}

#[test]
fn every_mistake_in_a_rule_is_named_with_its_line() {
    let rules = "process_rules = [\n{user = 'no-such-user', tenant = 'a'},\n\
                 {group = 'no-such-group', tenant = 'a'},\n{tenant = 'a/b'},\n\
                 {tenant = 'a', all_groups = true},\n{user = 0},\n{user = -1, tenant = 'a'},\n\
                 {tenant = 'a', job = '7'}]\n";
    let found = complaints::<OperatingAgentConfig>(&with(rules), &[]);
    let beginnings = [
        "F:5: operating_agent.process_rules[0].user: /etc/passwd has no user 'no-such-user'",
        "F:6: operating_agent.process_rules[1].group: /etc/group has no group 'no-such-group'",
        "F:7: operating_agent.process_rules[2].tenant: 'a/b' is no tenant",
        "F:8: operating_agent.process_rules[3].all_groups: contradicts tenant",
        "F:9: operating_agent.process_rules[4]: has no tenant",
        "F:10: operating_agent.process_rules[5].user: invalid value",
        "F:11: operating_agent.process_rules[6].job: unknown field `job`",
    ];
    for beginning in beginnings {
        assert!(found.iter().any(|one| one.starts_with(beginning)), "{beginning}: {found:#?}");
    }
    assert_eq!(found.len(), beginnings.len(), "{found:#?}");
}

#[test]
fn rules_without_certificates_are_refused() {
    let file = "[operating_agent]\nnodes = [{name = 'n0'}]\nprocess_rules = [{tenant = 'a'}]\n";
    let found = complaints::<OperatingAgentConfig>(file, &[]);
    assert_eq!(
        found,
        ["F:3: operating_agent.process_rules: need certificates: in plain text every process may \
          call the agent at listen"]
    );
}

#[test]
fn rules_may_change_while_the_agent_runs() {
    let (before, after) = (read(""), read("process_rules = [{tenant = 'a'}]\n"));
    assert_eq!(before.differences(&after), (vec![], vec!["process_rules"]));
}
