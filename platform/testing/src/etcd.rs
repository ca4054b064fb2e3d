//! A real etcd of one or more members, each a process of its own, on loopback.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::Child;

use crate::INSTALL;

/// Time in which a member must listen.
const PATIENCE: Duration = Duration::from_secs(30);
/// Ports are below the range of outgoing connections, so that a restarted member finds its port
/// free.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;

/// A running etcd with its own data; it ends when it is dropped.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    cluster: String,
    folder: TempDir,
    /// With `ca.crt`, `tls.crt` and `tls.key`, where connections are encrypted.
    certificates: Option<PathBuf>,
    quota_bytes: Option<usize>,
}

#[derive(Debug)]
struct Member {
    name: String,
    client: u16,
    peer: u16,
    process: Option<Child>,
}

impl Etcd {
    /// Starts an etcd of this many members.
    ///
    /// # Panics
    ///
    /// If etcd is not installed, or does not start.
    pub async fn start(members: usize) -> Self {
        Self::start_with(members, None, None).await
    }

    /// As [`Etcd::start`], with room for so many bytes in each member.
    ///
    /// # Panics
    ///
    /// As [`Etcd::start`].
    pub async fn start_small(members: usize, quota_bytes: usize) -> Self {
        Self::start_with(members, None, Some(quota_bytes)).await
    }

    /// As [`Etcd::start`], with mutual TLS between members and clients.
    ///
    /// - `certificates`: folder with `ca.crt`, `tls.crt` and `tls.key`, good for 127.0.0.1.
    ///
    /// # Panics
    ///
    /// As [`Etcd::start`].
    pub async fn start_secured(members: usize, certificates: &Path) -> Self {
        Self::start_with(members, Some(certificates.to_owned()), None).await
    }

    async fn start_with(
        members: usize,
        certificates: Option<PathBuf>,
        quota_bytes: Option<usize>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder for etcd");
        let members: Vec<Member> = (0..members)
            .map(|index| Member {
                name: format!("m{index}"),
                client: free_port(),
                peer: free_port(),
                process: None,
            })
            .collect();
        let scheme = scheme(certificates.as_deref());
        let peers = members.iter().map(|member| {
            format!("{}={scheme}://{}:{}", member.name, Ipv4Addr::LOCALHOST, member.peer)
        });
        let cluster = peers.collect::<Vec<_>>().join(",");
        let mut etcd = Self { members, cluster, folder, certificates, quota_bytes };
        for member in 0..etcd.members.len() {
            etcd.launch(member);
        }
        for member in 0..etcd.members.len() {
            etcd.listens(member).await;
        }
        etcd
    }

    /// `host:port` of each member.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        let address = |member: &Member| format!("{}:{}", Ipv4Addr::LOCALHOST, member.client);
        self.members.iter().map(address).collect()
    }

    /// The URL of a store in this etcd; the client uses the certificates of the members.
    #[must_use]
    pub fn url(&self, prefix: &str) -> String {
        let url = format!("etcd://{}/{prefix}", self.endpoints().join(","));
        match &self.certificates {
            Some(folder) => format!("{url}?certificates={}", folder.display()),
            None => url,
        }
    }

    /// Kills a member.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub async fn kill(&mut self, member: usize) {
        if let Some(mut process) = self.members[member].process.take() {
            // An error means that it has ended already.
            let _ = process.kill().await;
        }
    }

    /// Starts a killed member again on its data.
    ///
    /// # Panics
    ///
    /// If there is no such member, or it does not start.
    pub async fn restart(&mut self, member: usize) {
        self.kill(member).await;
        self.launch(member);
        self.listens(member).await;
    }

    /// Freezes a member: its connections stay open without answers. Returns once it has stopped.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn pause(&self, member: usize) {
        let process = self.signal(member, "STOP");
        let started = Instant::now();
        while !is_stopped(process) {
            assert!(started.elapsed() < PATIENCE, "etcd does not stop");
            std::thread::yield_now();
        }
    }

    /// Resumes a frozen member.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn resume(&self, member: usize) {
        self.signal(member, "CONT");
    }

    /// Returns the id of the process.
    fn signal(&self, member: usize, signal: &str) -> u32 {
        let process = self.members[member].process.as_ref().and_then(Child::id);
        let process = process.expect("the member runs");
        // The shell's own kill, so that no further program is needed.
        let line = format!("kill -{signal} {process}");
        let sent = Command::new("sh").args(["-c", &line]).status().expect("a shell");
        assert!(sent.success(), "{line}");
        process
    }

    fn launch(&mut self, index: usize) {
        let (folder, cluster) = (self.folder.path(), self.cluster.clone());
        let member = &mut self.members[index];
        let log = File::options().create(true).append(true).open(log_of(folder, &member.name));
        let log = log.expect("a log file");
        let scheme = scheme(self.certificates.as_deref());
        let url = |port: u16| format!("{scheme}://{}:{port}", Ipv4Addr::LOCALHOST);
        let arguments = [
            ("--name", member.name.clone()),
            ("--data-dir", folder.join(&member.name).display().to_string()),
            ("--listen-client-urls", url(member.client)),
            ("--advertise-client-urls", url(member.client)),
            ("--listen-peer-urls", url(member.peer)),
            ("--initial-advertise-peer-urls", url(member.peer)),
            ("--initial-cluster", cluster),
            ("--initial-cluster-state", "new".to_owned()),
            ("--logger", "zap".to_owned()),
        ];
        let mut command = tokio::process::Command::new("etcd");
        for (flag, value) in arguments {
            command.arg(flag).arg(value);
        }
        if let Some(bytes) = self.quota_bytes {
            command.arg(format!("--quota-backend-bytes={bytes}"));
        }
        if let Some(folder) = &self.certificates {
            command.args(["--client-cert-auth", "--peer-client-cert-auth"]);
            for (flag, file) in
                [("trusted-ca-file", "ca.crt"), ("cert-file", "tls.crt"), ("key-file", "tls.key")]
            {
                command.arg(format!("--{flag}")).arg(folder.join(file));
                command.arg(format!("--peer-{flag}")).arg(folder.join(file));
            }
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle"));
        let process = command.stderr(log).kill_on_drop(true).spawn();
        let process = process.unwrap_or_else(|error| panic!("start etcd: {error}; {INSTALL}"));
        member.process = Some(process);
    }

    /// Waits until a member accepts connections.
    async fn listens(&mut self, index: usize) {
        let started = Instant::now();
        let log = log_of(self.folder.path(), &self.members[index].name);
        let member = &mut self.members[index];
        while TcpStream::connect((Ipv4Addr::LOCALHOST, member.client)).await.is_err() {
            let ended = member.process.as_mut().and_then(|process| process.try_wait().ok()?);
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "etcd ended: {ended:?}\n{}", said());
            assert!(started.elapsed() < PATIENCE, "etcd does not listen\n{}", said());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// True if all threads of a process are stopped: proc_pid_stat(5), third field.
fn is_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process is there");
    threads.flatten().all(|thread| {
        // A thread that has ended meanwhile has no file.
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}

fn scheme(certificates: Option<&Path>) -> &'static str {
    if certificates.is_some() { "https" } else { "http" }
}

fn log_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// Returns a free port. Tests in other processes try ports in another order.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % u32::from(PORTS)).unwrap_or(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST_PORT + (start.wrapping_mul(7) % PORTS + step) % PORTS;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
