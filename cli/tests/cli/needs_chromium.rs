//! The console in a real browser: every view, and a scenario that is followed on the screen.

#[path = "needs_chromium/browser.rs"]
mod browser;
#[path = "needs_chromium/checks.rs"]
mod checks;
#[path = "needs_chromium/figures.rs"]
mod figures;
#[path = "needs_chromium/up.rs"]
mod up;
#[path = "needs_chromium/views.rs"]
mod views;

use self::browser::{Browser, Screen};
use self::checks::check_page;
use self::up::Up;
use self::views::{Subjects, check_views};

#[test]
fn every_view_of_96_nodes_is_whole_on_all_screens() {
    let up = Up::start("cluster");
    let browser = Browser::start();
    up.settle(&browser, 96);
    browser.script("console.error('seen')");
    assert_eq!(browser.complaints().len(), 1, "an error of the page would be seen");
    let subjects = Subjects::make(&up, ["gpu001", "gpu010", "node001"]);
    for screen in Screen::ALL {
        check_views(&up, &browser, &subjects, screen);
    }
}

#[test]
fn every_view_of_2048_nodes_is_whole() {
    let up = Up::start("demo");
    let browser = Browser::start();
    up.settle(&browser, 2048);
    let subjects = Subjects::make(&up, ["h0", "h700", "h2047"]);
    for screen in [Screen::ALL[0], Screen::ALL[3]] {
        check_views(&up, &browser, &subjects, screen);
    }
}

#[test]
fn a_join_a_cut_a_repair_and_a_drift_are_followed_on_the_screen() {
    let up = Up::start("t.toml");
    let browser = Browser::start();
    up.settle(&browser, 16);
    up.ok(&["group", "join", "rows/1", "--node", "h0"]);
    up.ok(&["group", "join", "rows/1", "--node", "h5"]);
    up.open(&browser, "/group?name=rows%2F1", "Group rows/1");
    browser.wait("document.querySelectorAll('svg[width] path.tree').length === 2");
    browser.wait("document.querySelectorAll('#unicast g.cell').length === 2");
    browser.script("window.stays = 'the page was not reloaded'");

    up.ok(&["group", "join", "rows/1", "--node", "h10"]);
    browser.wait("document.querySelectorAll('svg[width] path.tree').length === 3");
    browser.wait("document.querySelectorAll('#unicast g.cell').length === 3");
    browser.wait("document.querySelector('main').innerText.includes('h10')");
    let root = "document.querySelector('g.root[id^=switch]').querySelector('text').textContent";
    let before = browser.script(&format!("return {root}"));
    let before = before.as_str().expect("the tree has a root").to_owned();
    let id = up.root_of("rows/1");

    up.ok(&["fabric", "fail", "--switch", &id]);
    browser.wait(&format!("document.querySelector('g.root[id^=switch]') && {root} !== '{before}'"));
    browser.wait("document.querySelectorAll('g.dead[id]').length === 1");
    browser.wait("document.getElementById('state').innerText.includes('1 failed')");
    browser.wait("document.getElementById('moves').innerText.includes('because: moved from')");

    up.ok(&["fabric", "heal", "--switch", &id]);
    browser.wait("document.querySelectorAll('g.dead[id]').length === 0");
    browser.wait(&format!("document.querySelector('g.root[id^=switch]') && {root} === '{before}'"));
    assert_eq!(browser.script("return window.stays"), "the page was not reloaded");

    up.open(&browser, "/health", "Health");
    browser.wait("document.getElementById('events').innerText.includes('works again')");
    up.ok(&["fabric", "wipe", "--switch", &id]);
    browser.wait("document.querySelector('main').innerText.includes('1 differed')");
    browser.wait("document.getElementById('events').innerText.includes('router RepairTable')");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn what_if_shows_the_tree_that_comes() {
    let up = Up::start("t.toml");
    let browser = Browser::start();
    up.settle(&browser, 16);
    for node in ["h0", "h5", "h10"] {
        up.ok(&["group", "join", "rows/1", "--node", node]);
    }
    let id = up.root_of("rows/1");
    up.open(&browser, &format!("/what-if?switch={id}"), "What if");
    browser.wait("document.getElementById('hits').innerText.includes('rows/1')");
    let then = browser
        .script("return document.querySelector('#then g.root').querySelector('text').textContent");
    assert!(!up.ok(&["status"]).contains("failed"), "nothing has changed");
    up.ok(&["fabric", "fail", "--switch", &id]);
    up.open(&browser, "/group?name=rows%2F1", "Group rows/1");
    let root = "document.querySelector('g.root[id^=switch]')";
    browser.wait(&format!("{root} && {root}.querySelector('text').textContent === {then}"));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn packets_color_the_links_that_they_cross() {
    let up = Up::start("t.toml");
    let browser = Browser::start();
    up.settle(&browser, 16);
    for node in ["h0", "h5"] {
        up.ok(&["group", "join", "rows/1", "--node", node]);
    }
    up.root_of("rows/1");
    up.open(&browser, "/fabric", "Fabric");
    browser.script("document.getElementById('color-packets').click()");
    browser.wait("document.querySelector('main').innerText.includes('being measured')");
    let busy = "document.querySelectorAll('svg[width] path.line:not(.f0)').length";
    while browser.script(&format!("return {busy}")) != 2 {
        up.ok(&["group", "send", "rows/1", "--node", "h0"]);
    }
    assert_eq!(browser.script("return location.search"), "?color=packets", "it can be sent");
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Opens the page of a change from that of its object, and sends the form with a token.
fn change(browser: &Browser, token: &str) {
    browser.script("document.querySelector('#actions a').click()");
    browser.wait("document.querySelector('h1').textContent.startsWith('Would ')");
    check_page(browser, "a change before it is made");
    let typed = format!("document.getElementById('again').value = '{token}'");
    browser.script(&typed);
    browser.script("document.querySelector('main form button').click()");
}

#[test]
fn an_administrator_changes_something_after_a_dry_run_with_the_token_twice() {
    let up = Up::start("t.toml");
    let browser = Browser::start();
    up.settle(&browser, 16);
    for node in ["h0", "h5"] {
        up.ok(&["group", "join", "rows/1", "--node", node]);
    }
    let leaf = "/switch?name=leaf0";
    up.open(&browser, leaf, "Switch leaf0");
    assert_eq!(
        browser.script("return document.querySelector('#actions')"),
        serde_json::Value::Null
    );

    let sign_in = |token: &str| {
        browser.open(&format!("{}/sign-in", up.console));
        browser.script(&format!("document.getElementById('token').value = '{token}'"));
        browser.script("document.querySelector('form button').click()");
    };
    sign_in("not-the-token-at-all");
    browser.wait("document.body.innerText.includes('This is not the token.')");
    browser.complaints(); // that it was refused
    sign_in(&up.token);
    browser.wait("document.querySelector('h1').textContent === 'Fabric'");
    browser.wait("document.getElementById('person').innerText === 'ann (administrator)'");

    up.open(&browser, leaf, "Switch leaf0");
    change(&browser, "not-the-token-at-all");
    browser.wait("document.body.innerText.includes('This is not your token.')");
    browser.complaints(); // that it was refused
    let failed = || up.ok(&["status"]).contains("failed");
    assert!(!failed(), "nothing has changed yet");
    browser.wait("document.getElementById('hits').innerText.includes('rows/1')");
    browser.script(&format!("document.getElementById('again').value = '{}'", up.token));
    browser.script("document.querySelector('main form button').click()");
    browser.wait("document.querySelector('h1').textContent === 'Done'");
    check_page(&browser, "a change that was made");
    up.open(&browser, "/fabric", "Fabric");
    browser.wait("document.getElementById('state').innerText.includes('1 failed')");

    up.open(&browser, leaf, "Switch leaf0");
    browser.wait("document.querySelector('#actions a').textContent.startsWith('heal ')");
    change(&browser, &up.token);
    browser.wait("document.querySelector('h1').textContent === 'Done'");
    up.open(&browser, "/node?name=h5", "Node h5");
    change(&browser, &up.token);
    browser.wait("document.body.innerText.includes('node h5 is expelled, 1 memberships ended')");

    // The audit names the action and the person.
    let log = up.log.lock().expect("nobody panics there").clone();
    for call in ["FailElement", "HealElement", "ReportNodeFailure"] {
        let line = log.lines().find(|line| line.contains(call));
        assert!(line.is_some_and(|line| line.contains("anyone for ann")), "{call}: {log}");
    }
    browser.script("document.querySelector('form.session button').click()");
    browser.wait("document.getElementById('sign-in') !== null");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_large_fabric_is_opened_by_keyboard() {
    let up = Up::start("demo");
    let browser = Browser::start();
    up.settle(&browser, 2048);
    browser.wait("document.querySelectorAll('g.cell[id]').length === 24");
    browser.script("document.querySelector('#cn-0').parentElement.focus()");
    browser.press("\u{e014}"); // the arrow to the right
    let focused = "return document.activeElement.getAttribute('href')";
    assert_eq!(browser.script(focused), "/fabric?inside=cn-1");
    browser.press("\u{e007}"); // Enter
    browser.wait("document.querySelector('h1').textContent === 'CN 1'");
    browser.wait("document.querySelectorAll('g.cell[id]').length === 20");
    check_page(&browser, "CN 1");
    up.open(&browser, "/nodes", "Nodes");
    browser.script("document.body.focus()");
    browser.wait("document.querySelector('main').innerText.includes('2048 nodes')");
    browser.script("document.getElementById('filter').focus()");
    browser.press("h204");
    browser.wait("document.querySelector('main').innerText.includes('9 of 2048 nodes')");
    assert_eq!(browser.script("return document.getElementById('filter').value"), "h204");
    assert_eq!(browser.complaints(), [""; 0]);
}
