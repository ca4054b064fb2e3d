//! More idle connections than the control plane may have files.

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use super::Up;

/// Files that the control plane may open.
const FILES: u64 = 4_096;
const CONNECTIONS: u32 = 65_536;
/// Connections after which those that were closed are looked for.
const BATCH: usize = 2_048;
/// The beginning of HTTP/2: preface and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Starts a control plane with few files.
fn start() -> Up {
    let own = getrlimit(Resource::Nofile);
    let few = Rlimit { current: Some(FILES), maximum: own.maximum };
    setrlimit(Resource::Nofile, few).expect("fewer are allowed");
    let up = Up::start();
    let all = Rlimit { current: own.maximum, maximum: own.maximum };
    setrlimit(Resource::Nofile, all).expect("they were allowed before");
    up
}

fn is_open(stream: &TcpStream) -> bool {
    loop {
        match stream.try_read(&mut [0; 64]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Opens connections from 256 addresses of this machine, and keeps those that stay open.
async fn open(to: &str) -> Vec<TcpStream> {
    let to = to.parse().expect("an address");
    let mut idle = Vec::new();
    for number in 0..CONNECTIONS {
        let socket = TcpSocket::new_v4().expect("a file");
        let [.., from] = number.to_be_bytes();
        socket.bind(([127, 0, 2, from], 0).into()).expect("a port");
        let mut stream = socket.connect(to).await.expect("it listens");
        // Refused ones are closed at once.
        let _ = stream.write_all(PREFACE).await;
        idle.push(stream);
        if idle.len().is_multiple_of(BATCH) {
            idle.retain(is_open);
        }
    }
    idle
}

#[test]
fn more_idle_connections_than_files_shut_nobody_out() {
    let up = start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let idle = runtime.block_on(open(&up.address));
    for _ in 0..10 {
        let began = Instant::now();
        up.ok(&["group", "list"]);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
    let open = runtime.block_on(async { idle.iter().filter(|stream| is_open(stream)).count() });
    assert!((1_000..4_096).contains(&open), "{open} are still open");
}
