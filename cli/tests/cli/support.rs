//! Runs the binary and looks at what came of it.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder of its own for one test, in which the binary runs.
pub(crate) struct Sandbox {
    folder: TempDir,
}

/// Exit code and output of one run of the binary.
pub(crate) struct Run {
    arguments: Vec<String>,
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A loopback address of this test process alone. Neither another test nor an outgoing connection
/// takes its ports.
pub(crate) fn own_host() -> Ipv4Addr {
    let [_, first, second, third] = std::process::id().to_be_bytes(); // below 2^22
    Ipv4Addr::new(127, 64 | first, second, third)
}

/// An address that stays free until it is listened at.
pub(crate) fn free_address() -> String {
    let listener = std::net::TcpListener::bind((own_host(), 0)).expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder can be made") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("the folder can be written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file was written")
    }

    /// Everything in the folder, by name.
    pub(crate) fn listing(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(self.folder.path())
            .expect("the folder is there")
            .map(|entry| entry.expect("it can be listed").path())
            .filter(|path| path.is_file())
            .map(|path| (path.display().to_string(), std::fs::read(&path).expect("readable")))
            .collect();
        files.sort();
        files
    }

    /// The binary with these arguments, without standard input, terminal or settings.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        // A chore measures the optimized binary.
        let tested = std::env::var_os("FABRICAST_TESTED");
        let tested = tested.unwrap_or_else(|| env!("CARGO_BIN_EXE_fabricast").into());
        let mut command = Command::new(tested);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FABRICAST_") {
                command.env_remove(name);
            }
        }
        command.env("FABRICAST_CONTEXTS", self.path("contexts.toml"));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().expect("the binary starts");
        Run::of(arguments, &output)
    }

    /// Runs it and expects success.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, 0, "{run:?}");
        run.stdout
    }

    /// Runs it with `--format json` and expects success.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { arguments, code, stdout, stderr } = self;
        write!(f, "{arguments:?} -> {code}\nstdout: {stdout}\nstderr: {stderr}")
    }
}

impl Run {
    pub(crate) fn of(arguments: &[&str], output: &Output) -> Self {
        Self {
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Expects a refusal: the exit code, one message that says what is wrong, no output. With
    /// `--format json` it is one line of JSON.
    pub(crate) fn refused(&self, code: i32, needle: &str) {
        assert_eq!(self.code, code, "{self:?}");
        if self.arguments.windows(2).any(|pair| pair == ["--format", "json"]) {
            let error = self.error();
            let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
            assert!(text("message").contains(needle) || text("hint").contains(needle), "{self:?}");
            return;
        }
        assert!(self.stderr.starts_with("fabricast: "), "{self:?}");
        assert!(self.stderr.contains(needle), "'{needle}' is not in {self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        assert!(self.stderr.matches("fabricast: ").count() == 1, "one message: {self:?}");
    }

    /// The error that a run with `--format json` printed, as the only line.
    pub(crate) fn error(&self) -> Value {
        let line = self.stderr.strip_suffix('\n').unwrap_or_default();
        let mut read: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}"));
        let error = read["error"].take();
        assert_eq!(error["exitCode"], self.code, "{self:?}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        error
    }

    /// Expects that nothing was printed as a result.
    pub(crate) fn silent(&self) {
        assert_eq!(self.stdout, "", "{self:?}");
    }
}

/// A file of the repository's data folder.
pub(crate) fn data(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
    folder.join(name).display().to_string()
}
