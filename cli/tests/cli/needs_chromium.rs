//! The console in a real browser: every view, and a story that is followed on the screen.

#[path = "needs_chromium/browser.rs"]
mod browser;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use self::browser::Browser;
use crate::metrics::free_address;
use crate::support::Sandbox;

/// The demo's kind of fabric, with fewer of everything.
const SMALL: &str = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 4\n";
/// A name that somebody may give a group.
const EVIL: &str = "<img src=x onerror=alert(1)>";

/// A control plane in one process, with its console; killed when dropped.
struct Up {
    sandbox: Sandbox,
    child: Child,
    address: String,
    console: String,
    /// Token for changes, as it was printed.
    token: String,
    /// Its log since then.
    log: Arc<Mutex<String>>,
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Up {
    fn start(topology: &str) -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("t.toml", SMALL);
        let (address, console) = (free_address(), free_address());
        let mut child = sandbox
            .command(&["up", "--topology", topology, "--listen", &address, "--console", &console])
            .env("USER", "ann")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let token = loop {
            let line = lines.next().expect("it prints its token").expect("text");
            if let Some((_, token)) = line.split_once("token of the console for changes: ") {
                break token.to_owned();
            }
        };
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        // Somebody has to read on, or the process would block on a full pipe.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().expect("nobody panics here").push_str(&format!("{line}\n"));
            }
        });
        Self { sandbox, child, address, console: format!("http://{console}"), token, log }
    }

    fn ok(&self, arguments: &[&str]) -> String {
        self.sandbox.ok(&[arguments, &["--server", &self.address]].concat())
    }

    /// Opens a view and waits until it knows the fabric and its nodes.
    fn open(&self, browser: &Browser, path: &str, heading: &str) {
        browser.open(&format!("{}{path}", self.console));
        browser.wait(&format!("document.querySelector('h1').textContent.startsWith('{heading}')"));
    }

    /// Waits for the console to listen and for the nodes to be there.
    fn settle(&self, browser: &Browser, nodes: u32) {
        let address = self.console.trim_start_matches("http://");
        while std::net::TcpStream::connect(address).is_err() {
            std::thread::yield_now();
        }
        browser.open(&format!("{}/fabric", self.console));
        browser.wait(&format!("document.body.innerText.includes('{nodes} of {nodes}')"));
    }
}

/// Fails if something on the page cannot be told apart from others, has no name, or does not fit.
fn check_page(browser: &Browser, what: &str) {
    let unnamed = browser.script(
        "return [...document.querySelectorAll('a, button, input:not([type=hidden]), select, svg.fabric[width]')]
           .filter((one) => !(one.getAttribute('aria-label') || one.textContent.trim() ||
             (one.labels && one.labels.length)))
           .map((one) => one.outerHTML)",
    );
    assert_eq!(unnamed, serde_json::json!([]), "{what}: elements without a name");
    let doubled = browser.script(
        "const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
         return ids.filter((id, at) => ids.indexOf(id) !== at)",
    );
    assert_eq!(doubled, serde_json::json!([]), "{what}: ids that are there twice");
    let wide = browser.script("return document.documentElement.scrollWidth - innerWidth");
    assert!(wide.as_i64().is_some_and(|wide| wide <= 0), "{what}: {wide} pixels too wide");
    let pale = browser.script(CONTRAST);
    assert_eq!(pale, serde_json::json!([]), "{what}: texts with a contrast below 4.5");
    assert_eq!(browser.complaints(), [""; 0], "{what}");
}

/// Lists texts whose contrast with what is behind them is below 4.5 to 1.
const CONTRAST: &str = "
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (one) => {
    const box = one.closest('g.cell');
    if (box) return rgb(getComputedStyle(box.querySelector('rect')).fill);
    for (let at = one; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('body *')]
    .filter((one) => [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .filter((one) => one.tagName !== 'title' && one.getClientRects().length > 0)
    .map((one) => {
      const style = getComputedStyle(one);
      const own = rgb(one.closest('svg') ? style.fill : style.color);
      const [a, b] = [light(own), light(behind(one))].sort((x, y) => y - x);
      return [one.textContent.trim().slice(0, 30), ((a + 0.05) / (b + 0.05)).toFixed(2)];
    })
    .filter(([, ratio]) => ratio < 4.5)";

#[test]
fn every_view_is_whole_on_large_and_small_screens_light_and_dark() {
    let up = Up::start("t.toml");
    for dark in [false, true] {
        let browser = Browser::start(dark);
        up.settle(&browser, 16);
        let is_dark = "return matchMedia('(prefers-color-scheme: dark)').matches";
        assert_eq!(browser.script(is_dark), dark);
        browser.script("console.error('seen')");
        assert_eq!(browser.complaints().len(), 1, "an error of the page would be seen");
        if !dark {
            for node in ["h0", "h5", "h10"] {
                up.ok(&["group", "join", EVIL, "--node", node]);
            }
            up.ok(&["job", "allocate", "acme/build", "--nodes", "2"]);
            up.ok(&[
                "job",
                "reserve",
                "7",
                "--account",
                "acme",
                "--hosts",
                "h[0-1]",
                "--groups",
                "1",
            ]);
            up.ok(&["collective", "quota", "--tenant", "acme", "--collectives", "3"]);
            up.ok(&["fabric", "fail", "--link", "spine1:4"]);
        }
        for (width, height) in [(1280, 900), (500, 844)] {
            browser.resize(width, height);
            for (path, heading) in [
                ("/fabric", "Fabric"),
                ("/groups", "Groups"),
                ("/group?name=%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E", "Group <img"),
                ("/tables", "Tables"),
                ("/capacity", "Capacity"),
                ("/switch?name=leaf0", "Switch leaf0"),
                ("/nodes", "Nodes"),
                ("/node?name=h0", "Node h0"),
                ("/jobs", "Jobs"),
                ("/job?name=acme%2Fbuild", "Job acme/build"),
                ("/health", "Health"),
                ("/what-if?switch=leaf0&port=1", "What if"),
            ] {
                up.open(&browser, path, heading);
                check_page(&browser, &format!("{path} at {width}, dark: {dark}"));
            }
        }
    }
}

#[test]
fn a_join_a_cut_and_a_repair_are_followed_on_the_screen() {
    let up = Up::start("t.toml");
    let browser = Browser::start(false);
    up.settle(&browser, 16);
    up.ok(&["group", "join", "rows/1", "--node", "h0"]);
    up.ok(&["group", "join", "rows/1", "--node", "h5"]);
    up.open(&browser, "/group?name=rows%2F1", "Group rows/1");
    browser.wait("document.querySelectorAll('svg[width] path.tree').length === 2");
    browser.script("window.stays = 'the page was not reloaded'");

    up.ok(&["group", "join", "rows/1", "--node", "h10"]);
    browser.wait("document.querySelectorAll('svg[width] path.tree').length === 3");
    browser.wait("document.querySelector('main').innerText.includes('h10')");
    let root = "document.querySelector('g.root[id]').querySelector('text').textContent";
    let before = browser.script(&format!("return {root}"));
    let before = before.as_str().expect("the tree has a root").to_owned();

    up.ok(&["fabric", "fail", "--switch", &id_of(&up, &before)]);
    browser.wait(&format!("document.querySelector('g.root[id]') && {root} !== '{before}'"));
    browser.wait("document.querySelectorAll('g.dead[id]').length === 1");
    browser.wait("document.getElementById('state').innerText.includes('1 failed')");

    up.ok(&["fabric", "heal", "--switch", &id_of(&up, &before)]);
    browser.wait("document.querySelectorAll('g.dead[id]').length === 0");
    browser.wait(&format!("document.querySelector('g.root[id]') && {root} === '{before}'"));
    assert_eq!(browser.script("return window.stays"), "the page was not reloaded");

    up.open(&browser, "/health", "Health");
    browser.wait("document.getElementById('events').innerText.includes('works again')");
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
    let browser = Browser::start(false);
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

    // What was done is in the audit, with the person's name.
    let log = up.log.lock().expect("nobody panics there").clone();
    for call in ["FailElement", "HealElement", "ReportNodeFailure"] {
        let line = log.lines().find(|line| line.contains(call));
        assert!(line.is_some_and(|line| line.contains("anyone for ann")), "{call}: {log}");
    }
    browser.script("document.querySelector('form.session button').click()");
    browser.wait("document.getElementById('sign-in') !== null");
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Node id of a switch by its name.
fn id_of(up: &Up, name: &str) -> String {
    let list = up.ok(&["switch", "list"]);
    let line = list.lines().find(|line| line.ends_with(&format!(" {name}")));
    line.and_then(|line| line.split(' ').next()).expect("the switch is listed").to_owned()
}

#[test]
fn a_large_fabric_is_opened_by_keyboard() {
    let up = Up::start("demo");
    let browser = Browser::start(false);
    let address = up.console.trim_start_matches("http://");
    while std::net::TcpStream::connect(address).is_err() {
        std::thread::yield_now();
    }
    up.open(&browser, "/fabric", "Fabric");
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
