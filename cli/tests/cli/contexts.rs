//! `fabricast context` without anything running.

use serde_json::Value;

use crate::support::Sandbox;

#[test]
fn contexts_are_added_used_and_removed_and_wrong_ones_change_nothing() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.ok(&["context", "list"]), "CURRENT  NAME  SERVER  CONNECTIONS\n");
    sandbox.ok(&["context", "add", "a", "--server", "127.0.0.1:1,127.0.0.1:2"]);
    sandbox.ok(&["context", "add", "b", "--server", "tic:7401", "--plaintext"]);
    let file = sandbox.read("contexts.toml");
    for (arguments, wrong) in [
        (&["use", "c"][..], "no context is named 'c'"),
        (&["remove", "c"], "no context is named 'c'"),
        (&["add", "c", "--server", "nowhere"], "--server: 'nowhere' is not HOST:PORT"),
        (&["add", "c", "--server", "tic:7401"], "--server: "),
        (&["add", "c", "--server", "127.0.0.1:1", "--router", "x"], "--router: 'x' is not"),
        (&["add", "c d", "--server", "127.0.0.1:1"], "NAME: no blanks"),
        (&["add", "c", "--server", "127.0.0.1:1", "--certificates", "no"], "--certificates: 'no'"),
    ] {
        let run = sandbox.run(&[&["context"], arguments].concat());
        assert!(run.code == 2 && run.stderr.contains(wrong), "{run:?}");
        assert_eq!(sandbox.read("contexts.toml"), file, "{arguments:?}");
    }
    sandbox.ok(&["context", "use", "b"]);
    let list: Value =
        serde_json::from_str(&sandbox.ok(&["context", "list", "--format", "json"])).unwrap();
    assert_eq!((&list[0]["current"], &list[1]["current"]), (&false.into(), &true.into()));
    assert_eq!(list[0]["server"][1], "127.0.0.1:2");
    sandbox.ok(&["context", "remove", "b"]);
    assert!(!sandbox.read("contexts.toml").contains("current"), "it was the current one");

    sandbox.write("contexts.toml", "[contexts.a]\nserver = 1\n");
    for arguments in [&["context", "list"][..], &["node", "list"]] {
        let run = sandbox.run(arguments);
        assert!(run.code == 2 && run.stderr.contains("contexts.toml': line 2"), "{run:?}");
    }
}
