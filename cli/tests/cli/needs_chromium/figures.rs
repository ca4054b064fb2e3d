//! The console of 32 768 nodes and 7 680 switches: every view, and the figures of docs/console.md;
//! and the pictures of that page. `cargo xtask console` runs them with the optimized binary.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::browser::{Browser, Screen, pause};
use super::up::Up;
use super::views::{Subjects, View, check_views};
use crate::support::free_address;

/// Process grid of the groups: lines of it are groups, 3 584 in all.
const GRID: [usize; 3] = [64, 32, 16];
const VIEWERS: usize = 200;
/// The views that they look at, each an equal part of them.
const VIEWED: [&str; 8] = [
    "/fabric",
    "/fabric?color=groups",
    "/fabric?inside=cn-3",
    "/group?name=x%2F0%2F0",
    "/groups",
    "/tables",
    "/nodes",
    "/health",
];
/// Time over which processor time is measured.
const SPAN: Duration = Duration::from_secs(20);

/// A console as a process of its own; killed when dropped.
struct Console {
    child: Child,
    address: String,
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Console {
    fn start(up: &Up) -> Self {
        let address = free_address();
        let mut child = up
            .sandbox
            .command(&["console", "--server", &up.address, "--listen", &address])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        while TcpStream::connect(&address).is_err() {
            pause();
        }
        Self { child, address }
    }
}

/// Lines of the grid in each direction, as groups in JSON lines.
fn grid() -> String {
    let [xs, ys, zs] = GRID;
    let host = |x: usize, y: usize, z: usize| format!("\"h{}\"", (z * ys + y) * xs + x);
    let mut text = String::new();
    let mut line = |name: String, members: Vec<String>| {
        writeln!(text, "{{\"name\":\"{name}\",\"members\":[{}]}}", members.join(","))
            .expect("text");
    };
    for z in 0..zs {
        for y in 0..ys {
            line(format!("x/{y}/{z}"), (0..xs).map(|x| host(x, y, z)).collect());
        }
        for x in 0..xs {
            line(format!("y/{x}/{z}"), (0..ys).map(|y| host(x, y, z)).collect());
        }
    }
    for y in 0..ys {
        for x in 0..xs {
            line(format!("z/{x}/{y}"), (0..zs).map(|z| host(x, y, z)).collect());
        }
    }
    text
}

/// Processor time of a process, in seconds.
fn processor_time(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

/// Largest memory that a process has had, in MB.
fn most_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("it is told");
    let kilobytes = line.split_whitespace().nth(1).expect("a number").parse::<u64>();
    kilobytes.expect("a number") / 1024
}

/// Gets a page; returns its length in bytes.
fn get(address: &str, path: &str) -> usize {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.starts_with("HTTP/1.1 200"),
        "{path}: {}",
        text.lines().next().unwrap_or_default()
    );
    text.split_once("\r\n\r\n").expect("a body").1.len()
}

/// Follows the events of a console as a browser does, and gets a page after each.
fn view(address: &str, path: &str, ends: &AtomicBool, pages: &AtomicUsize) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
    write!(stream, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it reads");
    let (mut last, mut bytes) = (Instant::now(), [0; 4096]);
    let mut is_due = true;
    while !ends.load(Ordering::Relaxed) {
        if let Ok(length) = stream.read(&mut bytes) {
            assert!(length > 0, "the stream ended");
            is_due |= String::from_utf8_lossy(&bytes[..length]).contains("data:");
        }
        if is_due && last.elapsed() >= Duration::from_millis(500) {
            (is_due, last) = (false, Instant::now());
            get(address, path);
            pages.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Processor time of the control plane, and pages that viewers got, while parts fail and heal.
fn cost(up: &Up, console: &Console, viewers: usize) -> (f64, usize) {
    let (ends, pages) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut used = 0.0;
    std::thread::scope(|scope| {
        for path in VIEWED.iter().cycle().take(viewers) {
            scope.spawn(|| view(&console.address, path, &ends, &pages));
        }
        let (began, before) = (Instant::now(), processor_time(up.child.id()));
        while began.elapsed() < SPAN {
            for verb in ["fail", "heal"] {
                up.ok(&["fabric", verb, "--endpoint", "h9"]);
                let due = Instant::now() + Duration::from_secs(1);
                while Instant::now() < due {
                    pause();
                }
            }
        }
        used = (processor_time(up.child.id()) - before) / began.elapsed().as_secs_f64();
        ends.store(true, Ordering::Relaxed);
    });
    (used, pages.load(Ordering::Relaxed))
}

/// Milliseconds until a part that broke or was mended is on the screen: from the start of the
/// command, and from its end.
fn times_until_seen(up: &Up, browser: &Browser, switch: &str) -> [Vec<u128>; 2] {
    let mut delays = [Vec::new(), Vec::new()];
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    for round in 0..20 {
        let (verb, text) = if round % 2 == 0 { ("fail", "1 failed") } else { ("heal", "0 failed") };
        let seen = format!(
            "const state = document.getElementById('state'), wanted = '{text}';
             window.seen = 0;
             const is = () => (state.innerText.match(/\\d+ failed/) || ['0 failed'])[0] === wanted;
             const watch = new MutationObserver(() => {{
               if (is() && !window.seen) {{ requestAnimationFrame(() => {{ window.seen = Date.now(); }}); watch.disconnect(); }}
             }});
             watch.observe(state, {{ childList: true, subtree: true, characterData: true }});"
        );
        browser.script(&seen);
        let began = now();
        up.ok(&["fabric", verb, "--switch", switch]);
        let ended = now();
        browser.wait("window.seen > 0");
        let seen = browser.script("return window.seen").as_f64().expect("a time");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        let seen = seen as u128;
        for (list, since) in delays.iter_mut().zip([began, ended]) {
            list.push(seen.saturating_sub(since.as_millis()));
        }
        // The page is quiet before the next one.
        let due = Instant::now() + Duration::from_secs(2);
        while Instant::now() < due {
            pause();
        }
    }
    delays.iter_mut().for_each(|list| list.sort_unstable());
    delays
}

/// A row of the table that is printed.
fn row(figure: &str, value: &str) -> String {
    format!("| {figure} | {value} |")
}

fn paints(browser: &Browser, page: &str) -> String {
    let paint = "performance.getEntriesByName('first-contentful-paint')";
    let mut paints: Vec<f64> = (0..10)
        .map(|_| {
            browser.open(page);
            browser.wait(&format!("{paint}.length > 0"));
            let time = browser.script(&format!("return {paint}[0].startTime"));
            time.as_f64().expect("a time")
        })
        .collect();
    paints.sort_by(f64::total_cmp);
    let times = format!("{:.0} ms, {:.0} ms", paints[5], paints[9]);
    row("first paint of `/fabric`, median and worst of 10", &times)
}

fn sizes(console: &Console) -> Vec<String> {
    let assets = ["/assets/console.css", "/assets/console.js"];
    let assets: usize = assets.into_iter().map(|path| get(&console.address, path)).sum();
    let pages = [
        "/fabric",
        "/fabric?inside=cn-3",
        "/fabric?color=groups",
        "/group?name=x%2F0%2F0",
        "/tables",
        "/nodes",
        "/health",
    ];
    let size = |path: &str| {
        let bytes = get(&console.address, path) + assets;
        assert!(bytes < 500_000, "{path}: {bytes} bytes");
        row(&format!("bytes of `{path}` with style and script"), &bytes.to_string())
    };
    pages.into_iter().map(size).collect()
}

fn delays(up: &Up, browser: &Browser, switch: &str) -> Vec<String> {
    let [begun, ended] = times_until_seen(up, browser, switch);
    let of = |since: &str, times: &[u128]| {
        let figure =
            format!("a failed switch on the screen, since {since}; median and worst of 20");
        row(&figure, &format!("{} ms, {} ms", times[10], times[19]))
    };
    // The event is in between.
    vec![of("the start of the command", &begun), of("its end", &ended)]
}

fn costs(up: &Up, console: &Console) -> Vec<String> {
    let views = VIEWED.len();
    let viewers = [0, views, VIEWERS];
    let (mut costs, mut pages) = ([0.0; 3], [0; 3]);
    for _ in 0..2 {
        for at in 0..viewers.len() {
            let (used, got) = cost(up, console, viewers[at]);
            costs[at] += used * 50.0; // the mean of two, in percent
            pages[at] += got;
        }
    }
    let label = |at: usize| match viewers[at] {
        0 => "processor of the control plane, an event a second, nobody looks".to_owned(),
        count => {
            let got = pages[at];
            format!("the same with {count} viewers of {views} views, who got {got} pages in 40 s")
        }
    };
    (0..viewers.len()).map(|at| row(&label(at), &format!("{:.1} %", costs[at]))).collect()
}

#[test]
#[ignore = "cargo xtask console runs it; it takes minutes"]
fn the_console_of_32768_nodes() {
    let up = Up::start("paper");
    let browser = Browser::start();
    up.settle(&browser, 32_768);
    up.sandbox.write("groups.jsonl", grid());
    up.ok(&["group", "form", "--groups", "groups.jsonl"]);
    browser.wait("document.querySelector('main').innerText.includes('3584')");
    browser.wait("document.getElementById('state').innerText.includes('settled')");
    let console = Console::start(&up);
    let page = format!("http://{}/fabric", console.address);
    browser.open(&page);
    browser.wait("document.body.innerText.includes('32768 of 32768')");

    let mut rows = vec![String::new(), row("figure", "value"), row("---", "---")];
    rows.push(paints(&browser, &page));
    rows.extend(sizes(&console));
    rows.extend(delays(&up, &browser, &up.root_of("x/0/0")));
    rows.extend(costs(&up, &console));
    let subjects = Subjects::make(&up, ["h0", "h700", "h32767"]);
    for screen in [Screen::ALL[0], Screen::ALL[3]] {
        check_views(&up, &browser, &subjects, screen);
    }
    for View { path, .. } in subjects.views() {
        if !path.starts_with("/evaluation") {
            get(&console.address, &path);
        }
    }
    let memory = format!("{} MB", most_memory(console.child.id()));
    rows.push(row("most memory of the console, after all views", &memory));
    assert_eq!(browser.complaints(), [""; 0]);
    // The chore shows this.
    let text = rows.join("\n") + "\n";
    std::io::stdout().write_all(text.as_bytes()).expect("standard output is open");
}

/// Writes the pictures of the documentation.
#[test]
#[ignore = "cargo xtask console runs it; it writes to docs/pictures"]
fn pictures_of_the_console() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures");
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let browser = Browser::start();
    let up = Up::start("cluster");
    up.settle(&browser, 96);
    for (group, nodes) in [
        ("rows/1", ["gpu001", "gpu010", "gpu020", "gpu030", "node001"]),
        ("rows/2", ["node006", "node012", "node022", "gpu002", "gpu040"]),
        ("cols/1", ["gpu001", "gpu002", "gpu003", "node044", "node045"]),
    ] {
        for node in nodes {
            up.ok(&["group", "join", group, "--node", node]);
        }
    }
    let root = up.root_of("rows/1");
    let [wide, phone, dark, _] = Screen::ALL;
    let tall = |screen: Screen, height| Screen { height, ..screen };
    let shots = [
        ("group", "/group?name=rows%2F1".to_owned(), tall(wide, 1000)),
        ("what-if", format!("/what-if?switch={root}"), tall(dark, 1100)),
        ("capacity", "/capacity".to_owned(), tall(wide, 760)),
        ("health", "/health".to_owned(), tall(wide, 820)),
        ("group-phone", "/group?name=rows%2F1".to_owned(), phone),
    ];
    for (name, path, screen) in shots {
        take(&browser, &format!("{}{path}", up.console), screen, &format!("{folder}/{name}.png"));
    }
    let up = Up::start("demo");
    up.settle(&browser, 2048);
    for node in ["h0", "h300", "h700", "h1500"] {
        up.ok(&["group", "join", "rows/1", "--node", node]);
    }
    up.root_of("rows/1");
    let fabric = format!("{}/fabric?color=groups", up.console);
    take(&browser, &fabric, tall(wide, 560), &format!("{folder}/fabric.png"));
}

fn take(browser: &Browser, address: &str, screen: Screen, file: &str) {
    browser.show_on(screen);
    browser.open(address);
    browser.wait("document.getElementById('state').innerText.includes('settled')");
    browser.wait("document.querySelector('main svg, main table')");
    std::fs::write(file, decoded(&browser.picture(screen))).expect("the folder can be written");
}

/// Reads base 64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for six in text.bytes().filter_map(value) {
        bits = (bits << 6 | u32::from(six)) & 0xff_ffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).expect("eight bits"));
        }
    }
    bytes
}

#[test]
fn pictures_are_read_as_they_were_written() {
    assert_eq!(decoded("aGVsbG8="), b"hello");
    assert_eq!(decoded("/+8A"), [0xff, 0xef, 0]);
}
