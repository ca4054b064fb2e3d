//! A simulated InfiniBand fabric: ibsim answers management packets, and the InfiniBand diagnostics
//! judge what was written.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::INSTALL;

const READY: &str = "Network simulator ready";
/// Library that replaces the kernel's interface; Debian's path below `/usr/lib/<architecture>`.
const PRELOAD: &str = "umad2sim/libumad2sim.so";

/// A running simulator; it ends when it is dropped.
#[derive(Debug)]
pub struct Ibsim {
    process: Child,
    console: ChildStdin,
    socket: String,
    folder: TempDir,
    preload: PathBuf,
}

impl Ibsim {
    /// Starts a simulator of a fabric in the format of `ibnetdiscover`.
    ///
    /// # Panics
    ///
    /// If ibsim is not installed, or does not accept the fabric.
    #[must_use]
    pub fn start(fabric: &str) -> Self {
        static SIMULATORS: AtomicU32 = AtomicU32::new(0);
        let libraries = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        let preload = Path::new(&libraries).join(PRELOAD);
        assert!(preload.exists(), "ibsim is not installed; {INSTALL}");
        let folder = tempfile::tempdir().expect("a folder for ibsim");
        let file = folder.path().join("fabric");
        std::fs::write(&file, fabric).expect("a file for ibsim");
        let number = SIMULATORS.fetch_add(1, Ordering::Relaxed);
        let socket = format!("fabricast-{}-{number}", std::process::id());
        let mut process = Command::new("ibsim")
            .arg("-s")
            .arg(&file)
            .env("IBSIM_SOCKNAME", &socket)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("start ibsim: {error}; {INSTALL}"));
        let console = process.stdin.take().expect("piped above");
        let mut said = BufReader::new(process.stdout.take().expect("piped above"));
        let mut line = String::new();
        while !line.contains(READY) {
            line.clear();
            let read = said.read_line(&mut line).expect("ibsim prints text");
            assert!(read > 0, "ibsim ended before it was ready");
        }
        // A full pipe would block the simulator.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { process, console, socket, folder, preload }
    }

    /// Prepares a command that runs on a host of the fabric.
    ///
    /// - `host`: node id of an adapter, such as `H-506b4b03003fa9b6`.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>, host: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", &self.preload)
            .env("IBSIM_SOCKNAME", &self.socket)
            .env("SIM_HOST", host)
            .current_dir(self.folder.path());
        command
    }

    /// A folder that is deleted with the simulator.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Unplugs the cable of a port.
    ///
    /// # Panics
    ///
    /// If the simulator is gone.
    pub fn unlink(&mut self, node: &str, port: u8) {
        self.send(&format!("Unlink \"{node}\"[{port}]"));
    }

    /// Plugs the cable of a port in again.
    ///
    /// # Panics
    ///
    /// If the simulator is gone.
    pub fn relink(&mut self, node: &str, port: u8) {
        self.send(&format!("Relink \"{node}\"[{port}]"));
    }

    /// Sets a field of a port's performance counters, such as `PortXmitDiscards`.
    ///
    /// # Panics
    ///
    /// If the simulator is gone.
    pub fn set_counter(&mut self, node: &str, port: u8, field: &str, value: u64) {
        self.send(&format!("PerformanceSet \"{node}\"[{port}] PortCounters.{field}={value}"));
    }

    /// Starts OpenSM on a host of the fabric, for unicast only: it assigns LIDs and fills the
    /// unicast tables, but not the multicast tables.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start_opensm(&self, host: &str) -> OpenSm {
        let folder = self.folder.path().join("opensm");
        std::fs::create_dir(&folder).expect("a folder for OpenSM");
        let settings = folder.join("opensm.conf");
        std::fs::write(&settings, "disable_multicast TRUE\nforce_log_flush TRUE\n")
            .expect("a file for OpenSM");
        let log = folder.join("log");
        let process = self
            .command("opensm", host)
            .arg("-F")
            .arg(settings)
            .arg("-f")
            .arg(&log)
            .env("OSM_CACHE_DIR", &folder)
            .env("OSM_TMP_DIR", &folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("start opensm: {error}; {INSTALL}"));
        OpenSm { process, log }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.console, "{line}").expect("ibsim listens");
        self.console.flush().expect("ibsim listens");
    }
}

/// A running subnet manager; it ends when it is dropped.
#[derive(Debug)]
pub struct OpenSm {
    process: Child,
    log: PathBuf,
}

impl OpenSm {
    /// Returns the number of completed sweeps.
    #[must_use]
    pub fn sweeps(&self) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains("SUBNET UP")).count()
    }

    /// Starts a heavy sweep: discovery of the whole fabric and new tables.
    ///
    /// # Panics
    ///
    /// If it is gone.
    pub fn sweep(&self) {
        // The shell's own kill, so that no further program is needed.
        let line = format!("kill -HUP {}", self.process.id());
        let told = Command::new("sh").args(["-c", &line]).status().expect("a shell");
        assert!(told.success(), "opensm has ended");
    }
}

impl Drop for OpenSm {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
