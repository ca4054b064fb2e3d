//! Tests of files as Slurm's users write them.

use super::*;
use crate::job::JobClass;

const FILE: &str = "\
# two leaf switches under one
switchname = leaf0   NODES=n[0-1],\\
n2
SwitchName=leaf1 Nodes=\"n[3-5]\" LinkSpeed=100 # fast

SwitchName=top Switches=leaf[0-1]
";

fn problem(text: &str) -> (usize, String) {
    let error = read(text).unwrap_err();
    (error.line, error.problem.to_string())
}

#[test]
fn keys_in_any_case_comments_quotes_and_long_lines_are_understood() {
    let (topology, names) = read(FILE).unwrap().job_topology().unwrap();
    assert_eq!(names.leaves, ["leaf0", "leaf1"]);
    assert_eq!(names.nodes, ["n0", "n1", "n2", "n3", "n4", "n5"]);
    assert_eq!([2, 3].map(|node| topology.leaf_of(node)), [Some(0), Some(1)]);
    let largest: Vec<u32> = topology.classes().map(|class| topology.largest(class)).collect();
    assert_eq!(largest, [3, 6]);
    assert_eq!(topology.class_of(&[0, 5]), JobClass::T1);
}

#[test]
fn what_is_written_is_read_back() {
    let (placed, names) = read(FILE).unwrap().job_topology().unwrap();
    let names = JobNames { leaves: vec!["top".to_owned(), "leaf1".to_owned()], ..names };
    let topology = SlurmTopology::of(&placed, &names);
    let text = topology.write();
    assert_eq!(
        text,
        "SwitchName=top Nodes=n[0-2]\nSwitchName=leaf1 Nodes=n[3-5]\nSwitchName=top_ Switches=leaf1,top\n"
    );
    let again = read(&text).unwrap();
    assert_eq!(again.write(), text);
    assert_eq!(again.differences(&placed, &names.nodes), []);
}

#[test]
fn the_file_of_newer_versions_has_the_same_tree() {
    let text = read("SwitchName=1 Nodes=n[0-2]\nSwitchName=top Switches=1\n").unwrap().write_yaml();
    let expected = "\
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - switch: \"1\"
        nodes: \"n[0-2]\"
      - switch: \"top\"
        children: \"1\"
";
    assert_eq!(text, expected);
}

#[test]
fn faults_are_named_with_line_and_key() {
    let cases = [
        ("SwitchName=a", 1, "switch a: needs either Nodes or Switches"),
        ("\nNodes=b", 2, "SwitchName: missing"),
        (
            "SwitchName=a Node=b",
            1,
            "Node: not a key of a tree of switches (SwitchName, Nodes, Switches, LinkSpeed)",
        ),
        ("SwitchName=a Nodes=b nodes=c", 1, "Nodes: named twice"),
        ("SwitchName a", 1, "\"SwitchName\" is not of the form Key=Value"),
        ("SwitchName=a Nodes=", 1, "\"Nodes=\" is not of the form Key=Value"),
        ("SwitchName=a Nodes=b[1", 1, "Nodes: column 2: the bracket has no other half"),
        (
            "SwitchName=a Nodes=b\nSwitchName=a Nodes=c",
            2,
            "SwitchName: a is the switch of line 1 too",
        ),
        (
            "SwitchName=a Nodes=b\n\\\nSwitchName=c Nodes=b",
            2,
            "Nodes: b hangs on the switch of line 1 too",
        ),
        ("SwitchName=a Switches=b", 1, "Switches: no line is about switch b"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", 1, "switch a hangs below itself"),
        ("include other.conf", 1, "\"include\" is not of the form Key=Value"),
    ];
    for (text, line, expected) in cases {
        assert_eq!(problem(text), (line, expected.to_owned()), "{text}");
    }
}

#[test]
fn a_tree_without_classes_is_refused() {
    let refusal = |text: &str| read(text).unwrap().job_topology().unwrap_err().to_string();
    let uneven = "SwitchName=a Nodes=x\nSwitchName=b Nodes=y\nSwitchName=t Switches=a";
    assert_eq!(
        refusal(uneven),
        "line 2: switch b has 0 switches above it, the leaf switch of line 1 1"
    );
    let deep: String =
        (0..5).map(|at| format!("SwitchName=s{at} Switches=s{}\n", at + 1)).collect();
    assert!(refusal(&(deep + "SwitchName=s5 Nodes=n")).contains("5 switches above it"));
    let two: String = ["a", "b"]
        .iter()
        .map(|root| {
            format!(
                "SwitchName={root}3 Switches={root}2\nSwitchName={root}2 Switches={root}1\n\
                 SwitchName={root}1 Switches={root}0\nSwitchName={root}0 Nodes={root}n\n"
            )
        })
        .collect();
    assert_eq!(refusal(&two), "line 5: switch b3 is a second root, four levels must end in one");
}

#[test]
fn a_file_that_is_not_the_fabrics_tree_is_told_where() {
    let (topology, names) = read(FILE).unwrap().job_topology().unwrap();
    let differences = |text: &str| -> Vec<String> {
        read(text)
            .unwrap()
            .differences(&topology, &names.nodes)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(
        differences("SwitchName=a Nodes=n[0-3],m1\nSwitchName=b Nodes=n4"),
        [
            "line 1: Nodes: the fabric has no node m1",
            "no line names node n5",
            "line 1: the nodes below switch a are on leaf switch 0, leaf switch 1",
            "leaf switch 1 is split: its nodes are below the switches a, b",
        ]
    );
    let topped = format!("{FILE}SwitchName=site Switches=top\n");
    assert_eq!(differences(&topped), [""; 0]);
}
