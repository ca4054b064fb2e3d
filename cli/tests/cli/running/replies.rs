//! Replies of commands that change something.

use super::Up;

/// Commands in an order in which each succeeds, and the subject that the reply has to name.
const CHANGES: [(&[&str], &str); 21] = [
    (&["group", "create", "a/1", "--node", "node001", "--persistent"], "a/1"),
    (&["group", "join", "a/1", "--node", "node002", "--job", "j"], "a/1"),
    (&["group", "send", "a/1", "--node", "node001"], "a/1"),
    (&["collective", "create", "sum", "--group", "a/1", "--tenant", "t"], "sum"),
    (&["collective", "quota", "--tenant", "t", "--collectives", "9"], "t"),
    (&["collective", "delete", "sum"], "sum"),
    (&["group", "leave", "a/1", "--node", "node002"], "a/1"),
    (&["group", "delete", "a/1"], "a/1"),
    (&["job", "allocate", "j1", "--nodes", "2"], "j1"),
    (&["job", "release", "j1", "--dry-run"], "j1"),
    (&["job", "release", "j1"], "j1"),
    (&["node", "drain", "node003"], "node003"),
    (&["node", "resume", "node003"], "node003"),
    (&["node", "readmit", "node003"], "node003"),
    (&["node", "fail", "node003"], "node003"),
    (&["node", "stop", "node004"], "node004"),
    (&["node", "start", "node004"], "node004"),
    (&["fabric", "programming", "S-ec0d9a0300ec8240", "--delay-ms", "1"], "S-ec0d9a0300ec8240"),
    (&["fabric", "wipe", "S-ec0d9a0300ec8240"], "S-ec0d9a0300ec8240"),
    (&["fabric", "fail", "--switch", "S-ec0d9a0300ec8240"], "S-ec0d9a0300ec8240"),
    (&["fabric", "heal", "--switch", "S-ec0d9a0300ec8240"], "S-ec0d9a0300ec8240"),
];

#[test]
fn replies_name_their_subject_in_tables_and_in_json() {
    let (tables, programs) = (Up::start(), Up::start());
    for (change, subject) in CHANGES {
        let reply = tables.ok(change);
        assert!(reply.contains(subject), "{change:?}: {reply}");
        let reply = programs.json(change);
        let names = |value: &serde_json::Value| {
            value.as_str().is_some_and(|text| text.split(' ').any(|word| word == subject))
        };
        let fields = reply.as_object().expect("an object");
        assert!(fields.values().any(names), "{change:?}: {reply}");
    }
    // Unknown names are refused alike.
    for (change, code) in [
        (&["collective", "delete", "none"][..], 2),
        (&["collective", "cancel", "77"], 2),
        (&["group", "delete", "none"], 2),
        (&["job", "release", "none"], 2),
    ] {
        tables.run(change).refused(code, "");
    }
}

#[test]
fn ports_without_a_packet_or_a_cable_are_listed_if_asked_for() {
    let up = Up::start();
    let rows = |arguments: &[&str]| {
        let text = up.ok(arguments);
        let of_port = |line: &&str| {
            line.split_once(' ')
                .is_some_and(|(port, rest)| port.parse::<u8>().is_ok() && rest.starts_with(' '))
        };
        (text.lines().filter(of_port).count(), text)
    };
    let switch = "S-ec0d9a0300ec8240";
    let all = up.json(&["switch", "ports", switch])["ports"].as_array().map_or(0, Vec::len);
    let counters = ["switch", "counters", switch];
    let (none, text) = rows(&counters);
    assert_eq!(none, 0, "{text}");
    assert!(
        text.ends_with(&format!("{all} ports without a packet, which --all lists\n")),
        "{text}"
    );
    assert_eq!(rows(&[&counters[..], &["--all"]].concat()).0, all);
    assert_eq!(rows(&["switch", "ports", switch, "--all"]).0, all);
}
