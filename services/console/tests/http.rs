//! The console over HTTP, with no control plane behind it: who is answered, and with what.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::net::SocketAddr;
use std::time::Duration;

use fabricast_console::{App, Settings};
use fabricast_rpc::Security;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Streams of events that a console serves at once.
const STREAMS: usize = 256;

async fn console(token: Option<&str>) -> SocketAddr {
    let settings = Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        tics: vec!["127.0.0.1:1".to_owned()], // nobody is there
        routers: vec!["127.0.0.1:1".to_owned()],
        security: Security::plaintext(),
        hosts: Vec::new(),
        token: token.map(str::to_owned),
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
    let console = console(None).await;
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
    let console = console(None).await;
    for host in ["Host: evil.example\r\n", "", "Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n"] {
        let request = format!("GET /fabric HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
        let answer = send(console, &request).await;
        assert!(!answer.contains(" 200 OK"), "{host}: {answer}");
        assert!(!answer.contains("<main"), "{host}: {answer}");
    }
}

#[tokio::test]
async fn bad_requests_are_refused_and_nothing_is_shown_of_them() {
    let console = console(None).await;
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
    let console = console(None).await;
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

#[tokio::test]
async fn only_the_bearer_of_the_token_sees_pages() {
    let console = console(Some("a-long-and-secret-token")).await;
    let answer = get(console, "/fabric").await;
    assert!(
        answer.starts_with("HTTP/1.1 303") && answer.contains("location: /sign-in"),
        "{answer}"
    );
    assert!(get(console, "/events").await.starts_with("HTTP/1.1 401"));
    let sign_in = |token: &str| {
        let form = format!("token={token}");
        let head = format!("POST /sign-in HTTP/1.1\r\nHost: {console}\r\nConnection: close\r\n");
        format!("{head}Content-Length: {}\r\n\r\n{form}", form.len())
    };
    let refused = send(console, &sign_in("a-guess")).await;
    assert!(refused.starts_with("HTTP/1.1 401") && !refused.contains("set-cookie"), "{refused}");
    let long = send(console, &sign_in(&"a".repeat(5000))).await;
    assert!(long.starts_with("HTTP/1.1 413"), "{long}");
    let admitted = send(console, &sign_in("a-long-and-secret-token")).await;
    assert!(admitted.starts_with("HTTP/1.1 303"), "{admitted}");
    let cookie = admitted.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    let request = format!(
        "GET /health HTTP/1.1\r\nHost: {console}\r\nCookie: {pair}\r\nConnection: close\r\n\r\n"
    );
    assert!(send(console, &request).await.starts_with("HTTP/1.1 200"));
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
    let console = console(None).await;
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
