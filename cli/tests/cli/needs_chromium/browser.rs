//! A headless Chromium, driven over the WebDriver protocol: JSON over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Timeout of a condition on the page.
const LIMIT: Duration = Duration::from_secs(20);

/// A screen, and the colors that its viewer likes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) is_dark: bool,
}

impl Screen {
    pub(super) const ALL: [Self; 4] = [
        Self { width: 1280, height: 900, is_dark: false },
        Self { width: 390, height: 844, is_dark: false },
        Self { width: 1280, height: 900, is_dark: true },
        Self { width: 390, height: 844, is_dark: true },
    ];
}

/// A browser with one window; both end when it is dropped.
pub(super) struct Browser {
    driver: Child,
    port: String,
    session: String,
}

impl Browser {
    pub(super) fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let mut lines = BufReader::new(driver.stdout.take().expect("piped")).lines();
        let port = loop {
            let line = lines.next().expect("it names its port").expect("text");
            if let Some((_, rest)) = line.split_once("started successfully on port ") {
                break rest.trim_end_matches('.').to_owned();
            }
        };
        // Somebody has to read on, or the process would block on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let mut browser = Self { driver, port, session: String::new() };
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = browser.call("POST", "/session", &wanted);
        browser.session = session["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// Opens an address, and waits until it is loaded.
    pub(super) fn open(&self, address: &str) {
        self.session("POST", "url", &json!({"url": address}));
    }

    /// Runs a script in the page; returns its value.
    pub(super) fn script(&self, text: &str) -> Value {
        self.session("POST", "execute/sync", &json!({"script": text, "args": []}))
    }

    /// Text of the whole page, as it is seen.
    pub(super) fn text(&self) -> String {
        let text = self.script("return document.body.innerText");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a script is true; nothing is reloaded.
    pub(super) fn wait(&self, condition: &str) {
        self.wait_for(condition, LIMIT);
    }

    /// The same for what may take longer.
    pub(super) fn wait_for(&self, condition: &str, limit: Duration) {
        let started = Instant::now();
        while self.script(&format!("return Boolean({condition})")) != Value::Bool(true) {
            let text = self.text();
            assert!(started.elapsed() < limit, "{condition} does not become true: {text}");
            pause();
        }
    }

    /// Presses keys at the element that has the focus.
    pub(super) fn press(&self, keys: &str) {
        let key = |kind: &str, key: char| json!({"type": kind, "value": key});
        let strokes = keys.chars().flat_map(|one| [key("keyDown", one), key("keyUp", one)]);
        let strokes: Vec<Value> = strokes.collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": strokes});
        self.session("POST", "actions", &json!({"actions": [keyboard]}));
    }

    /// Shows pages as on this screen.
    pub(super) fn show_on(&self, screen: Screen) {
        let Screen { width, height, is_dark } = screen;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": width < 600});
        self.develop("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if is_dark { "dark" } else { "light" };
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.develop("Emulation.setEmulatedMedia", &json!({"features": [feature]}));
    }

    /// Takes a picture of the upper part of the page, as PNG in base 64.
    pub(super) fn picture(&self, screen: Screen) -> String {
        let clip =
            json!({"x": 0, "y": 0, "width": screen.width, "height": screen.height, "scale": 1});
        let wanted = json!({"format": "png", "clip": clip, "captureBeyondViewport": true});
        let answer = self.develop("Page.captureScreenshot", &wanted);
        answer["data"].as_str().expect("a picture").to_owned()
    }

    /// Calls the browser by its own protocol.
    fn develop(&self, command: &str, parameters: &Value) -> Value {
        let call = json!({"cmd": command, "params": parameters});
        self.session("POST", "goog/cdp/execute", &call)
    }

    /// Takes the messages of the console that are warnings or errors.
    pub(super) fn complaints(&self) -> Vec<String> {
        let log = self.session("POST", "se/log", &json!({"type": "browser"}));
        let lines = log.as_array().cloned().unwrap_or_default();
        let serious =
            lines.iter().filter(|line| line["level"] != "INFO" && line["level"] != "DEBUG");
        serious.map(|line| line["message"].to_string()).collect()
    }

    fn session(&self, method: &str, path: &str, body: &Value) -> Value {
        self.call(method, &format!("/session/{}/{path}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream =
            TcpStream::connect(format!("127.0.0.1:{}", self.port)).expect("it listens");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n");
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).expect("it reads");
        let answer: Value = serde_json::from_slice(&body_of(stream)).expect("the body is JSON");
        let error = &answer["value"]["error"];
        assert!(error.is_null(), "{method} {path} {body}: {answer}");
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.call("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        // The driver ends its browser with itself; it may have ended already.
        let _ = Command::new("kill").arg(self.driver.id().to_string()).status();
        let _ = self.driver.wait();
    }
}

/// Reads the body of an answer; the driver keeps the connection open.
fn body_of(stream: TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("it answers");
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the whole body");
    body
}

/// Time between two looks at the page.
#[expect(clippy::disallowed_methods, reason = "these tests have no runtime")]
pub(super) fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}
