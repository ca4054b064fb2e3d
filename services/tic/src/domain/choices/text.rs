//! Encodes choices for the store as text, so that an operator can read them.
//!
//! ```text
//!   tic/choices/scheme      engine mr4lms          tic/choices/groups/00000000000000000017
//!                           colors 32                      tree 0 part 3 root 12
//!                           tables per-port                ports 1,2,7 S-ec0d9a0300ec8240
//!                           roots tn                       tree 1 part 4 root 0
//!                           topology 5891b5b5...           ports of group 12
//!   tic/choices/failed      as the reports of switch agents (`elements`)
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use fabricast_groups::ids::Gn;
use fabricast_proto::v1;

use crate::domain::elements;
use crate::records::keys::CHOICES;

/// The subject of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// The settings that the choices were made with.
    Scheme,
    /// The failed parts that the trees avoid.
    Failed,
    /// The choice of one group.
    Group(Gn),
}

/// The texts by subject; a clone copies the map only.
pub(crate) type Texts = BTreeMap<Topic, Arc<str>>;

/// The key of a text in the store.
pub(crate) fn key(topic: Topic) -> Vec<u8> {
    let name = match topic {
        Topic::Scheme => "scheme".to_owned(),
        Topic::Failed => "failed".to_owned(),
        Topic::Group(gn) => format!("groups/{:020}", gn.0),
    };
    format!("{CHOICES}{name}").into_bytes()
}

/// Reads a key, without [`CHOICES`], and its value; `None` if they are not of this layout.
pub(crate) fn read(key: &str, value: Vec<u8>) -> Option<(Topic, String)> {
    let text = String::from_utf8(value).ok()?;
    let topic = match key {
        "scheme" => read_scheme(&text).map(|_| Topic::Scheme)?,
        "failed" => read_failed(&text).map(|_| Topic::Failed)?,
        _ => {
            let gn = key.strip_prefix("groups/").and_then(|gn| gn.parse().ok())?;
            read_choice(gn, &text).map(|_| Topic::Group(Gn(gn)))?
        }
    };
    Some((topic, text))
}

/// Writes a checked scheme.
pub(crate) fn scheme(scheme: &v1::RouteChoiceScheme) -> String {
    let tables = match scheme.tables() {
        v1::TableKind::PerSwitch => "per-switch",
        v1::TableKind::PerPort | v1::TableKind::Unspecified => "per-port",
    };
    let mut text = format!(
        "engine {}\ncolors {}\ntables {tables}\nroots {}\ntrees {}\ntopology ",
        scheme.engine,
        scheme.color_count,
        scheme.root_scope,
        if scheme.fault_tolerant { 2 } else { 1 }
    );
    for byte in &scheme.topology_sha256 {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    text
}

pub(crate) fn read_scheme(text: &str) -> Option<v1::RouteChoiceScheme> {
    let mut lines = text.lines();
    let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    let engine = field("engine")?.to_owned();
    let color_count = field("colors")?.parse().ok()?;
    let tables = match field("tables")? {
        "per-port" => v1::TableKind::PerPort,
        "per-switch" => v1::TableKind::PerSwitch,
        _ => return None,
    };
    let root_scope = field("roots")?.to_owned();
    let fault_tolerant = field("trees")? == "2";
    let digits = field("topology")?.as_bytes().chunks(2);
    let byte = |digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let topology_sha256 = digits.map(byte).collect::<Option<_>>()?;
    let tables = tables.into();
    Some(v1::RouteChoiceScheme {
        engine,
        color_count,
        tables,
        root_scope,
        topology_sha256,
        fault_tolerant,
    })
}

pub(crate) fn read_failed(text: &str) -> Option<Vec<v1::Element>> {
    text.lines().map(elements::read_element).collect()
}

/// Writes the choice of one group.
pub(crate) fn choice(choice: &v1::RouteChoice) -> String {
    let mut text = String::new();
    for tree in &choice.trees {
        let _ = writeln!(text, "tree {} part {} root {}", tree.tree, tree.part, tree.root);
        for at in &tree.ports {
            let ports: Vec<String> = at.ports.iter().map(u32::to_string).collect();
            let _ = writeln!(text, "ports {} {}", ports.join(","), at.switch_name);
        }
        if tree.ports_gn > 0 {
            let _ = writeln!(text, "ports of group {}", tree.ports_gn);
        }
    }
    text
}

/// Reads the choice of one group.
pub(crate) fn read_choice(gn: u64, text: &str) -> Option<v1::RouteChoice> {
    let mut trees: Vec<v1::TreeChoice> = Vec::new();
    for line in text.lines() {
        if let Some(gn) = line.strip_prefix("ports of group ") {
            trees.last_mut()?.ports_gn = gn.parse().ok()?;
        } else if let Some(ports) = line.strip_prefix("ports ") {
            let (ports, switch_name) = ports.split_once(' ')?;
            let ports = ports.split(',').map(|port| port.parse().ok());
            let ports = ports.collect::<Option<_>>()?;
            let switch_name = switch_name.to_owned();
            trees.last_mut()?.ports.push(v1::SwitchPorts { switch_name, ports });
        } else {
            let mut words = line.split(' ');
            let mut number = |name: &str| {
                let named = words.next()? == name;
                words.next()?.parse().ok().filter(|_| named)
            };
            let (tree, part, root) = (number("tree")?, number("part")?, number("root")?);
            trees.push(v1::TreeChoice { tree, part, root, ports: Vec::new(), ports_gn: 0 });
        }
    }
    Some(v1::RouteChoice { gn, trees })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        let written = v1::RouteChoiceScheme {
            engine: "c-mr4lms-dynamic".to_owned(),
            color_count: 32,
            tables: v1::TableKind::PerSwitch.into(),
            root_scope: "tn-group".to_owned(),
            topology_sha256: vec![0, 15, 255],
            fault_tolerant: true,
        };
        let text = scheme(&written);
        assert_eq!(
            text,
            "engine c-mr4lms-dynamic\ncolors 32\ntables per-switch\nroots tn-group\ntrees 2\ntopology 000fff\n"
        );
        assert_eq!(read_scheme(&text), Some(written));
        let at = |name: &str, ports: &[u32]| v1::SwitchPorts {
            switch_name: name.to_owned(),
            ports: ports.to_vec(),
        };
        let tree =
            |tree, ports, ports_gn| v1::TreeChoice { tree, part: 3, root: 12, ports, ports_gn };
        let own = tree(0, vec![at("S-1", &[1, 2]), at("a b", &[7])], 0);
        let trees = vec![own, tree(1, vec![], 0), tree(2, vec![], 5)];
        let written = v1::RouteChoice { gn: 17, trees };
        let text = choice(&written);
        assert_eq!(
            text,
            "tree 0 part 3 root 12\nports 1,2 S-1\nports 7 a b\ntree 1 part 3 root 12\n\
             tree 2 part 3 root 12\nports of group 5\n"
        );
        assert_eq!(read_choice(17, &text), Some(written));
    }

    #[test]
    fn keys_are_read_back_and_foreign_ones_are_not() {
        let known = [
            (
                Topic::Scheme,
                "engine x\ncolors 1\ntables per-port\nroots tn\ntrees 1\ntopology 00\n",
            ),
            (Topic::Failed, "link 3 S-1\n"),
            (Topic::Group(Gn(17)), "tree 0 part 3 root 12\n"),
        ];
        for (topic, text) in known {
            let whole = String::from_utf8(key(topic)).unwrap();
            let rest = whole.strip_prefix(CHOICES).unwrap();
            assert_eq!(read(rest, text.into()), Some((topic, text.to_owned())));
            assert_eq!(read(rest, "something else\n".into()), None);
        }
        for foreign in ["", "schemes", "groups/", "groups/x"] {
            assert_eq!(read(foreign, Vec::new()), None, "{foreign}");
        }
        assert_eq!(read("groups/1", "ports 1 S-1\n".into()), None, "ports of no tree");
    }
}
