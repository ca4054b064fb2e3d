//! Every view, with something in it to be shown.

use super::browser::{Browser, Screen};
use super::checks::check_page;
use super::up::Up;

/// A name that somebody may give a group.
pub(super) const EVIL: &str = "<img src=x onerror=alert(1)>";
const ENCODED: &str = "%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E";

/// The things that views are about.
pub(super) struct Subjects {
    /// Node id of the root switch of the group.
    root: String,
    /// A node with a member.
    node: String,
}

/// A view, and the beginning of its heading.
pub(super) struct View {
    pub(super) path: String,
    pub(super) heading: String,
}

impl Subjects {
    /// Makes a group, a job, a quota, a failure and a table that differs.
    pub(super) fn make(up: &Up, members: [&str; 3]) -> Self {
        for node in members {
            up.ok(&["group", "join", EVIL, "--node", node]);
        }
        up.ok(&["job", "allocate", "acme/build", "--nodes", "2"]);
        up.ok(&["collective", "limit", "--tenant", "acme", "--collectives", "3"]);
        let root = up.root_of(EVIL);
        let link = up.ok(&["route", "explain", "--group", EVIL, "--format", "json"]);
        let link: serde_json::Value = serde_json::from_str(&link).expect("it is JSON");
        let link = link["links"].as_array().expect("links").iter().find_map(|link| {
            let has_switch_above = link["peerPort"].as_u64() > Some(0);
            let (switch, port) = (link["switchName"].as_str()?, link["port"].as_u64()?);
            has_switch_above.then(|| format!("{switch}:{port}"))
        });
        up.ok(&["fabric", "fail", "--link", &link.expect("the tree has a link between switches")]);
        up.ok(&["fabric", "wipe", "--switch", &up.root_of(EVIL)]);
        Self { root, node: members[0].to_owned() }
    }

    pub(super) fn views(&self) -> Vec<View> {
        let Self { root, node } = self;
        let view =
            |path: &str, heading: &str| View { path: path.to_owned(), heading: heading.to_owned() };
        vec![
            view("/fabric", "Fabric"),
            view("/fabric?color=groups", "Fabric"),
            view("/fabric?color=packets", "Fabric"),
            view("/fabric?color=health", "Fabric"),
            view("/groups", "Groups"),
            view(&format!("/group?name={ENCODED}"), "Group <img"),
            view("/tables", "Tables"),
            view("/capacity", "Capacity"),
            view(&format!("/switch?name={root}"), "Switch "),
            view("/nodes", "Nodes"),
            view(&format!("/node?name={node}"), &format!("Node {node}")),
            view("/jobs", "Jobs"),
            view("/job?name=acme%2Fbuild", "Job acme/build"),
            view("/health", "Health"),
            view(&format!("/what-if?switch={root}"), "What if"),
            view("/evaluation", "Evaluation"),
            view("/evaluation?name=mr4lms", "mr4lms"),
        ]
    }
}

/// Opens every view on a screen and checks it.
pub(super) fn check_views(up: &Up, browser: &Browser, subjects: &Subjects, screen: Screen) {
    browser.show_on(screen);
    for View { path, heading } in subjects.views() {
        up.open(browser, &path, &heading);
        let inner = browser
            .script("return [innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]");
        assert_eq!(inner, serde_json::json!([screen.width, screen.is_dark]));
        check_page(browser, &format!("{path} on {screen:?}"));
    }
}
