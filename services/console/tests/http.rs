//! The console over HTTP, with no control plane behind it: who is answered, and with what.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fabricast_console::{App, Level, Settings, Token};
use fabricast_rpc::Security;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Streams of events that a console serves at once.
const STREAMS: usize = 256;

/// Tokens of a reader and an administrator.
const READER: &str = "a-long-and-secret-token";
const ADMINISTRATOR: &str = "a-longer-and-more-secret-token";

/// Starts a console; without `tokens` everybody may look and nobody may change anything.
async fn console(tokens: bool) -> SocketAddr {
    console_with(tokens, None).await
}

/// Starts a console.
///
/// - `evaluation`: folder with results.
async fn console_with(tokens: bool, evaluation: Option<PathBuf>) -> SocketAddr {
    let token = |person: &str, secret: &str, level| Token {
        person: person.to_owned(),
        secret: secret.to_owned(),
        level,
    };
    let both = vec![
        token("rita", READER, Level::Reader),
        token("ann", ADMINISTRATOR, Level::Administrator),
    ];
    let settings = Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        tics: vec!["127.0.0.1:1".to_owned()], // nobody is there
        routers: vec!["127.0.0.1:1".to_owned()],
        security: Security::plaintext(),
        hosts: Vec::new(),
        tokens: if tokens { both } else { Vec::new() },
        is_open: !tokens,
        changes: tokens.then(Security::plaintext),
        tls: None,
        evaluation,
        secret: [7; 32],
    };
    let app = App::bind(settings).await.unwrap();
    let address = app.address();
    tokio::spawn(app.run(CancellationToken::new()));
    address
}

async fn send(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    // A server that has not read everything may reset the connection after its response.
    let _ = stream.read_to_end(&mut response).await;
    String::from_utf8(response).unwrap()
}

async fn get(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    send(address, &request).await
}

#[tokio::test]
async fn every_answer_forbids_foreign_scripts_and_frames() {
    let console = console(false).await;
    for path in ["/fabric", "/groups", "/assets/console.js", "/no-such-page", "/", "/events?x"] {
        let answer = match path {
            "/events?x" => first_part(open_stream(console).await).await,
            path => get(console, path).await,
        };
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
        ] {
            assert!(answer.contains(header), "{path}: {answer}");
        }
        assert!(!answer.contains("<script>") && !answer.contains("style=\""), "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_request_by_another_name_is_refused() {
    let console = console(false).await;
    for host in ["Host: evil.example\r\n", "", "Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n"] {
        let request = format!("GET /fabric HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
        let answer = send(console, &request).await;
        assert!(!answer.contains(" 200 OK"), "{host}: {answer}");
        assert!(!answer.contains("<main"), "{host}: {answer}");
    }
}

#[tokio::test]
async fn bad_requests_are_refused_and_nothing_is_shown_of_them() {
    let console = console(false).await;
    for (path, status) in [
        ("/no/such%3Cscript%3E", "404"),
        ("/group", "404"),
        ("/node?name=%3Cscript%3E", "404"),
        ("/fabric?inside=../../etc", "200"), // no topology yet
        ("/groups?page=-9&filter=%3Cscript%3Ealert(1)%3C/script%3E", "200"),
        (&format!("/groups?filter={}", "a".repeat(5000)), "414"),
    ] {
        let answer = get(console, path).await;
        assert!(!answer.contains("<script>"), "{path}: {answer}");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
    }
    let post = format!("POST /fabric HTTP/1.1\r\nHost: {console}\r\nConnection: close\r\n\r\n");
    assert!(send(console, &post).await.starts_with("HTTP/1.1 405"));
    let long = "x".repeat(100_000);
    assert!(!send(console, &long).await.contains("200 OK"));
}

#[tokio::test]
async fn a_control_plane_that_does_not_answer_is_told_on_the_page() {
    let console = console(false).await;
    let shown = async {
        loop {
            let page = get(console, "/health").await;
            if page.contains("no TIC that leads answers")
                && page.contains("no route service answers")
            {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let page = tokio::time::timeout(Duration::from_secs(20), shown).await.unwrap();
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(get(console, "/fabric").await.contains("no TIC has answered"));
}

/// Sends a form, with more lines of headers; each ends with `\r\n`.
async fn post(console: SocketAddr, path: &str, headers: &str, form: &str) -> String {
    let head = format!("POST {path} HTTP/1.1\r\nHost: {console}\r\nConnection: close\r\n{headers}");
    send(console, &format!("{head}Content-Length: {}\r\n\r\n{form}", form.len())).await
}

/// Signs in; returns the header with the cookie.
async fn signed_in(console: SocketAddr, token: &str) -> String {
    let admitted = post(console, "/sign-in", "", &format!("token={token}")).await;
    assert!(admitted.starts_with("HTTP/1.1 303"), "{admitted}");
    let cookie = admitted.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    format!("Cookie: {}\r\n", cookie.split(';').next().unwrap())
}

async fn get_as(console: SocketAddr, path: &str, headers: &str) -> String {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {console}\r\n{headers}Connection: close\r\n\r\n");
    match path {
        "/events" => {
            let mut stream = TcpStream::connect(console).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            first_part(stream).await
        }
        _ => send(console, &request).await,
    }
}

/// Status of an answer, and where it leads.
fn outcome(answer: &str) -> String {
    let status = answer.split(' ').nth(1).unwrap_or_default();
    let to = answer.lines().find_map(|line| line.strip_prefix("location: "));
    to.map_or_else(|| status.to_owned(), |to| format!("{status} {to}"))
}

/// Every address that is answered, and with what: without a session, to a reader, and to an
/// administrator.
const ROUTES: [(&str, [&str; 3]); 25] = [
    ("/", ["303 /sign-in", "303 /fabric", "303 /fabric"]),
    ("/fabric", ["303 /sign-in", "200", "200"]),
    ("/groups", ["303 /sign-in", "200", "200"]),
    ("/group?name=x", ["303 /sign-in", "200", "200"]), // no topology yet
    ("/tables", ["303 /sign-in", "200", "200"]),
    ("/switch?name=x", ["303 /sign-in", "200", "200"]), // the same
    ("/nodes", ["303 /sign-in", "200", "200"]),
    ("/node?name=x", ["303 /sign-in", "404", "404"]),
    ("/capacity", ["303 /sign-in", "200", "200"]),
    ("/jobs", ["303 /sign-in", "200", "200"]),
    ("/job?name=x", ["303 /sign-in", "404", "404"]),
    ("/health", ["303 /sign-in", "200", "200"]),
    ("/what-if", ["303 /sign-in", "200", "200"]),
    ("/evaluation", ["303 /sign-in", "200", "200"]),
    ("/evaluation?name=x", ["303 /sign-in", "404", "404"]), // no folder
    ("/plot?name=x&file=x.svg", ["303 /sign-in", "404", "404"]),
    ("/recording", ["303 /sign-in", "502", "502"]), // no route service answers
    ("/act?do=fail&switch=x", ["303 /sign-in", "403", "404"]),
    ("/act?do=expel&node=x", ["303 /sign-in", "403", "404"]),
    ("/events", ["401", "200", "200"]),
    ("/no-such-page", ["303 /sign-in", "404", "404"]),
    ("/sign-in", ["200", "200", "200"]),
    ("/assets/console.css", ["200", "200", "200"]),
    ("/assets/console.js", ["200", "200", "200"]),
    ("/assets/icon.svg", ["200", "200", "200"]),
];

#[tokio::test]
async fn every_address_answers_to_those_who_may_see_it() {
    let console = console(true).await;
    let (reader, administrator) =
        (signed_in(console, READER).await, signed_in(console, ADMINISTRATOR).await);
    // The cookie of a reader who says to be an administrator.
    let forged = reader.replace("=reader.", "=admin.");
    assert_ne!(forged, reader);
    let strange = "Cookie: fabricast_console=admin.9999999999.ann.0123\r\n".to_owned();
    for (path, [nobody, reads, changes]) in ROUTES {
        for (who, wanted) in [
            ("", nobody),
            (&forged, nobody),
            (&strange, nobody),
            (&reader, reads),
            (&administrator, changes),
        ] {
            let answer = get_as(console, path, who).await;
            assert_eq!(outcome(&answer), wanted, "{path} for {who:?}");
        }
    }
}

#[tokio::test]
async fn no_name_leads_out_of_the_folder_with_results() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    std::fs::create_dir_all(results.join("engines")).unwrap();
    for place in [folder.path().to_owned(), results.join("engines")] {
        std::fs::write(place.join("efi.svg"), "<svg/>").unwrap();
        std::fs::write(place.join("secret.txt"), "secret").unwrap();
    }
    let console = console_with(false, Some(results)).await;
    for (path, wanted) in [
        ("/evaluation?name=engines", "200"),
        ("/plot?name=engines&file=efi.svg", "200"),
        ("/evaluation?name=..", "404"),
        ("/evaluation?name=engines%2F..%2F..", "404"),
        ("/plot?name=..&file=efi.svg", "404"),
        ("/plot?name=engines%2F..%2F..&file=efi.svg", "404"),
        ("/plot?name=engines&file=..%2F..%2Fefi.svg", "404"),
        ("/plot?name=engines&file=secret.txt", "404"),
    ] {
        let answer = get(console, path).await;
        assert_eq!(outcome(&answer), wanted, "{path}: {answer}");
        assert!(!answer.contains("secret"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn forms_are_taken_of_administrators_and_of_this_console_only() {
    let console = console(true).await;
    let (reader, administrator) =
        (signed_in(console, READER).await, signed_in(console, ADMINISTRATOR).await);
    let forged = reader.replace("=reader.", "=admin.");
    let act = format!("do=fail&switch=x&proof=0&again={ADMINISTRATOR}");
    for (who, wanted) in
        [("", "303 /sign-in"), (&forged, "303 /sign-in"), (&reader, "403"), (&administrator, "403")]
    {
        let answer = post(console, "/act", who, &act).await;
        assert_eq!(outcome(&answer), wanted, "{who:?}");
    }
    // A page of another site has the cookie of nobody, and no form of this console.
    let sites = [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ];
    for site in sites {
        for path in ["/act", "/sign-in", "/sign-out"] {
            let headers = format!("{administrator}{site}");
            let answer = post(console, path, &headers, &format!("{act}&token={READER}")).await;
            assert!(outcome(&answer) == "403" && !answer.contains("set-cookie"), "{answer}");
            assert!(answer.contains("another site"), "{answer}");
        }
    }
    for (path, _) in ROUTES {
        let path = path.split('?').next().unwrap();
        if !["/act", "/sign-in"].contains(&path) {
            let answer = post(console, path, &administrator, "").await;
            assert_eq!(outcome(&answer), "405", "{path}");
        }
    }
    let out = post(console, "/sign-out", &administrator, "").await;
    assert!(outcome(&out) == "303 /" && out.contains("Max-Age=0"), "{out}");
}

#[tokio::test]
async fn a_console_without_tokens_changes_nothing_and_shows_everything() {
    let console = console(false).await;
    for (path, [_, reads, _]) in ROUTES {
        let wanted = if path == "/sign-in" { "404" } else { reads };
        assert_eq!(outcome(&get_as(console, path, "").await), wanted, "{path}");
    }
    let answer = post(console, "/act", "", "do=fail&switch=x").await;
    assert!(outcome(&answer) == "403" && answer.contains("only reads"), "{answer}");
}

#[tokio::test]
async fn wrong_tokens_are_refused_and_then_all_of_that_address() {
    let console = console(true).await;
    let refused = post(console, "/sign-in", "", "token=a-guess").await;
    assert!(refused.starts_with("HTTP/1.1 401") && !refused.contains("set-cookie"), "{refused}");
    let long = post(console, "/sign-in", "", &format!("token={}", "a".repeat(10_000))).await;
    assert!(long.starts_with("HTTP/1.1 413"), "{long}");
    let mut tries = 1;
    while outcome(&post(console, "/sign-in", "", "token=a-guess").await) == "401" {
        tries += 1;
        assert!(tries < 20, "guesses are not limited");
    }
    let answer = post(console, "/sign-in", "", &format!("token={READER}")).await;
    assert!(outcome(&answer) == "429" && !answer.contains("set-cookie"), "{answer}");
}

async fn open_stream(console: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(console).await.unwrap();
    let request = format!("GET /events HTTP/1.1\r\nHost: {console}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn first_part(mut stream: TcpStream) -> String {
    let mut part = vec![0; 4096];
    let length = stream.read(&mut part).await.unwrap();
    String::from_utf8_lossy(&part[..length]).into_owned()
}

#[tokio::test]
async fn streams_of_events_are_bounded_and_given_back() {
    let console = console(false).await;
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = open_stream(console).await;
        let mut first = [0; 15];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        open.push(stream);
    }
    let refused = first_part(open_stream(console).await).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(get(console, "/groups").await.starts_with("HTTP/1.1 200"), "pages are still answered");
    open.clear();
    let again = async {
        while !first_part(open_stream(console).await).await.starts_with("HTTP/1.1 200") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), again).await.unwrap();
}
