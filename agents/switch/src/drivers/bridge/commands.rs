//! The commands `ip` and `bridge` of iproute2: the only way of the driver to the kernel.
//!
//! Each run takes lines and goes on after one that is refused. It ends in bounded time.

use std::fmt;
use std::io;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Words between the reason why `ip` or `bridge` refused a line, and the number of the line.
const FAILED_LINE: &str = "Command failed -:";

/// A command of iproute2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// Interfaces and their settings.
    Ip,
    Bridge,
}

impl Tool {
    const fn program(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Bridge => "bridge",
        }
    }

    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Ip => &["-details", "-json", "-statistics", "-force", "-batch", "-"],
            Self::Bridge => &["-json", "-force", "-batch", "-"],
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

/// Output of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// One JSON value for each line that asks for one.
    pub(super) text: String,
    /// Lines that were refused, in their order.
    pub(super) refused: Vec<RefusedLine>,
}

/// A line that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedLine {
    /// Number of the line, from 1.
    pub(super) line: usize,
    /// Words of the command or of the kernel.
    pub(super) message: String,
}

/// Output of a command that tells of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A line, whose names of interfaces may be any bytes.
    Line(Vec<u8>),
    /// It said that something is wrong, as that it missed changes.
    Complaint,
}

/// Reason why nothing is known of the lines of a run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum CommandError {
    #[error("`{tool}` of iproute2 does not start: {message}")]
    Start { tool: Tool, message: String },
    #[error("the machine cannot start `{tool}` now: {message}")]
    NoProcess { tool: Tool, message: String },
    #[error("`{tool}` did not end within {limit:?}")]
    NoAnswer { tool: Tool, limit: Duration },
    #[error("`{tool}` failed: {message}")]
    Failed { tool: Tool, message: String },
}

impl CommandError {
    fn of_start(tool: Tool, error: &io::Error) -> Self {
        let message = error.to_string();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                Self::Start { tool, message }
            }
            // It lacks memory, processes or open files, as a busy machine may for a while.
            _ => Self::NoProcess { tool, message },
        }
    }

    /// True if it says nothing about the bridge, only that the machine is busy.
    pub(super) const fn is_of_busy_machine(&self) -> bool {
        matches!(self, Self::NoAnswer { .. } | Self::NoProcess { .. })
    }
}

/// Runs commands; tests have their own kernel behind it.
#[tonic::async_trait]
pub(super) trait Commands: fmt::Debug + Send + Sync {
    /// Runs lines in a network namespace; `None` for that of the agent.
    async fn run(
        &self,
        tool: Tool,
        namespace: Option<&str>,
        lines: &str,
    ) -> Result<Answer, CommandError>;

    /// Tells of the interfaces of a namespace that change. Ends if it cannot go on.
    async fn monitor(
        &self,
        namespace: Option<&str>,
        hear: &(dyn Fn(Heard) + Send + Sync),
    ) -> CommandError;
}

/// The commands of this machine.
#[derive(Debug)]
pub(super) struct System {
    /// Time for a run.
    pub(super) limit: Duration,
}

#[tonic::async_trait]
impl Commands for System {
    async fn run(
        &self,
        tool: Tool,
        namespace: Option<&str>,
        lines: &str,
    ) -> Result<Answer, CommandError> {
        let mut child = start(tool, namespace, tool.options(), Stdio::piped())?;
        let limit = self.limit;
        let ran = async {
            let stdin = child.stdin.take();
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A command that ends early says why.
                    let _ = stdin.write_all(lines.as_bytes()).await;
                }
            };
            let ((), output) = tokio::join!(write, child.wait_with_output());
            output
        };
        let output =
            timeout(limit, ran).await.map_err(|_| CommandError::NoAnswer { tool, limit })?;
        let failed = |error: io::Error| error.to_string();
        let answer = output.map_err(failed).and_then(read_output);
        answer.map_err(|message| CommandError::Failed { tool, message })
    }

    async fn monitor(
        &self,
        namespace: Option<&str>,
        hear: &(dyn Fn(Heard) + Send + Sync),
    ) -> CommandError {
        let tool = Tool::Ip;
        let mut child = match start(tool, namespace, &["monitor", "link"], Stdio::null()) {
            Ok(child) => child,
            Err(error) => return error,
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let told = async {
            each_line(stdout, |line| hear(Heard::Line(line))).await;
            let _ = child.start_kill(); // it has ended, or nobody hears it any more
        };
        // Nobody may wait for room to complain, as `ip` does of every change that it missed.
        let mut said = Vec::new();
        let complained = each_line(stderr, |line| {
            said = line;
            hear(Heard::Complaint);
        });
        tokio::join!(told, complained);
        let message = match child.wait().await {
            Ok(status) => reason(&said, status),
            Err(error) => error.to_string(),
        };
        CommandError::Failed { tool, message }
    }
}

/// Takes all lines, whose names of interfaces may be any bytes.
async fn each_line(from: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(Vec<u8>)) {
    let Some(from) = from else { return };
    let mut lines = BufReader::new(from).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        take(line);
    }
}

/// Starts a command, which ends with what is returned.
fn start(
    tool: Tool,
    namespace: Option<&str>,
    words: &[&str],
    stdin: Stdio,
) -> Result<Child, CommandError> {
    let mut command = Command::new(tool.program());
    if let Some(name) = namespace {
        command.args(["-netns", name]);
    }
    command.args(words).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = command.kill_on_drop(true).spawn();
    started.map_err(|error| CommandError::of_start(tool, &error))
}

/// Reads what a run has printed; or why it failed as a whole.
fn read_output(output: Output) -> Result<Answer, String> {
    let (refused, rest) = refused_lines(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() && refused.is_empty() {
        return Err(reason(rest.as_bytes(), output.status));
    }
    // The name of an interface, which may be any bytes, is not ours then.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Answer { text, refused })
}

fn reason(stderr: &[u8], status: ExitStatus) -> String {
    let text = String::from_utf8_lossy(stderr);
    match text.trim() {
        "" => status.to_string(),
        said => said.replace('\n', "; "),
    }
}

/// Reads the refused lines. Returns them, and what else was said.
fn refused_lines(stderr: &str) -> (Vec<RefusedLine>, String) {
    let (mut refused, mut said) = (Vec::new(), Vec::new());
    for line in stderr.lines().filter(|line| !line.trim().is_empty()) {
        let number = line.strip_prefix(FAILED_LINE).and_then(|rest| rest.trim().parse().ok());
        match number {
            Some(line) => {
                refused.push(RefusedLine { line, message: said.join("; ") });
                said.clear();
            }
            None => said.push(line.trim().trim_start_matches("Error: ")),
        }
    }
    let rest = said.join("\n");
    (refused, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system() -> System {
        System { limit: Duration::from_secs(20) }
    }

    /// As iproute2 6.1 prints it on Linux 6.18.
    const REFUSED: &str = "Error: bridge: (*, G) group is already joined by port.\n\
        Command failed -:2\n\
        Cannot find device \"v9\"\n\
        Command failed -:4\n";

    #[test]
    fn refused_lines_have_their_reasons() {
        let (refused, rest) = refused_lines(REFUSED);
        let line = |line, message: &str| RefusedLine { line, message: message.to_owned() };
        let joined = line(2, "bridge: (*, G) group is already joined by port.");
        assert_eq!(refused, [joined, line(4, "Cannot find device \"v9\"")]);
        assert_eq!(rest, "");
        let full =
            refused_lines("RTNETLINK answers: Argument list too long\nCommand failed -:62\n");
        assert_eq!(full.0, [line(62, "RTNETLINK answers: Argument list too long")]);
    }

    #[test]
    fn what_no_line_is_to_blame_for_is_told_apart() {
        let said = "Cannot open network namespace \"none\": No such file or directory\n";
        let (refused, rest) = refused_lines(said);
        assert_eq!((refused, &*rest), (Vec::new(), said.trim()));
    }

    /// Linux has names of interfaces that are no UTF-8.
    #[tokio::test]
    async fn a_name_of_any_bytes_is_in_nobodys_way() {
        let stdout = b"[\"p1\",\"\xff\"]".to_vec();
        let output = Output { status: ExitStatus::default(), stdout, stderr: Vec::new() };
        let text = "[\"p1\",\"\u{fffd}\"]".to_owned();
        assert_eq!(read_output(output), Ok(Answer { text, refused: Vec::new() }));
        let mut lines = Vec::new();
        each_line(Some(&b"p1: up\n\xff: up\np2: up\n"[..]), |line| lines.push(line)).await;
        assert_eq!(lines, [&b"p1: up"[..], b"\xff: up", b"p2: up"]);
    }

    #[test]
    fn a_machine_without_room_for_a_process_says_nothing_about_a_bridge() {
        let error = |error: io::Error| CommandError::of_start(Tool::Ip, &error);
        // EAGAIN, ENOMEM, ENFILE and EMFILE of Linux.
        for code in [11, 12, 23, 24] {
            let error = error(io::Error::from_raw_os_error(code));
            assert!(error.is_of_busy_machine(), "{error}");
        }
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied] {
            let error = error(kind.into());
            assert!(matches!(error, CommandError::Start { .. }), "{error}");
            assert!(!error.is_of_busy_machine());
        }
    }

    #[tokio::test]
    async fn a_command_that_is_not_there_or_fails_is_told_by_name() {
        // There is no such namespace, or no such program on this machine.
        let error = system().run(Tool::Ip, Some("fabricast-none"), "").await.unwrap_err();
        assert!(error.to_string().starts_with("`ip` "), "{error}");
        let error = system().monitor(Some("fabricast-none"), &|_| {}).await;
        assert!(error.to_string().starts_with("`ip` "), "{error}");
    }
}
