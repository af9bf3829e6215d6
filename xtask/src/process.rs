//! Running other programs: quietly for short ones, with a log and signs of life for long ones.
//! A failure always carries the command line, the exit status and the end of what the program said.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::clock::{Stopwatch, show};
use crate::console;

/// Lines of a failing program's output that are shown.
const TAIL_LINES: usize = 15;
/// A compiler's command line runs to thousands of characters.
const LINE_LENGTH: usize = 240;
const POLL: Duration = Duration::from_millis(100);
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("cannot start `{program}`: {cause}")]
    Start {
        program: String,
        cause: std::io::Error,
    },
    #[error("`{line}` ended with {status}\n{tail}")]
    Failed {
        line: String,
        status: ExitStatus,
        tail: String,
    },
    #[error("cannot keep the log {path}: {cause}")]
    Log {
        path: PathBuf,
        cause: std::io::Error,
    },
}

/// A command of cargo's that does not inherit what `cargo run` put into our environment. An empty
/// `CARGO_ENCODED_RUSTFLAGS` there would silently override `RUSTFLAGS`, also in nested builds.
#[must_use]
pub fn cargo() -> Command {
    cleaned(Command::new("cargo"))
}

/// The same, ended with exit code 124 when it takes longer.
#[must_use]
pub fn cargo_within(seconds: u32) -> Command {
    let mut command = cleaned(Command::new("timeout"));
    command.arg(seconds.to_string()).arg("cargo");
    command
}

fn cleaned(mut command: Command) -> Command {
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(&key);
        }
    }
    for name in ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "CARGO"] {
        command.env_remove(name);
    }
    command
}

/// Runs a short program and returns its standard output.
pub fn capture(command: &mut Command) -> Result<String, ProcessError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| start_error(command, cause))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = if output.stderr.is_empty() {
        &output.stdout
    } else {
        &output.stderr
    };
    Err(ProcessError::Failed {
        line: line(command),
        status: output.status,
        tail: tail(&String::from_utf8_lossy(said)),
    })
}

/// Runs a long program; its output goes to `log`, a sign of life to the console every 15 s.
pub fn run_logged(command: &mut Command, log: &Path) -> Result<(), ProcessError> {
    let log_error = |cause| ProcessError::Log {
        path: log.to_owned(),
        cause,
    };
    let file = create_log(log).map_err(log_error)?;
    let errors = file.try_clone().map_err(log_error)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn()
        .map_err(|cause| start_error(command, cause))?;
    let clock = Stopwatch::start();
    let mut shown = Duration::ZERO;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(log_error)? {
            break status;
        }
        if clock.elapsed() >= shown + SIGN_OF_LIFE {
            shown = clock.elapsed();
            console::progress(&format!("{}: {}", show(shown), last_line(log)));
        }
        thread::sleep(POLL);
    };
    if status.success() {
        return Ok(());
    }
    Err(ProcessError::Failed {
        line: line(command),
        status,
        tail: tail(&read(log)),
    })
}

/// Runs a program and hands over each line it prints, both outputs together, while it runs; keeps them in `log`.
/// `line` says whether it showed something: when it did not for a while, a sign of life is shown.
pub fn run_streaming(
    command: &mut Command,
    log: &Path,
    line: &mut dyn FnMut(&str) -> bool,
) -> Result<(), ProcessError> {
    let log_error = |cause| ProcessError::Log {
        path: log.to_owned(),
        cause,
    };
    let mut file = create_log(log).map_err(log_error)?;
    let (reader, writer) = std::io::pipe().map_err(log_error)?;
    let errors = writer.try_clone().map_err(log_error)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(errors)
        .spawn()
        .map_err(|cause| start_error(command, cause))?;
    // The command holds our ends of the pipe, which would keep it open for ever.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, lines) = channel();
    thread::spawn(move || {
        BufReader::new(reader)
            .split(b'\n')
            .map_while(Result::ok)
            .try_for_each(|text| sender.send(text))
    });
    let clock = Stopwatch::start();
    let (mut shown, mut last) = (Duration::ZERO, String::from("no output yet"));
    loop {
        match lines.recv_timeout(SIGN_OF_LIFE) {
            Ok(text) => {
                last = String::from_utf8_lossy(&text).into_owned();
                writeln!(file, "{last}").map_err(log_error)?;
                if line(&last) {
                    shown = clock.elapsed();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if clock.elapsed() >= shown + SIGN_OF_LIFE {
            shown = clock.elapsed();
            console::progress(&format!("{}: {}", show(shown), last.trim()));
        }
    }
    let status = child.wait().map_err(log_error)?;
    if status.success() {
        return Ok(());
    }
    Err(ProcessError::Failed {
        line: self::line(command),
        status,
        tail: tail(&read(log)),
    })
}

fn create_log(log: &Path) -> std::io::Result<File> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    File::create(log)
}

fn start_error(command: &Command, cause: std::io::Error) -> ProcessError {
    ProcessError::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        cause,
    }
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn read(log: &Path) -> String {
    let mut bytes = Vec::new();
    // The log only illustrates an error that is reported anyway.
    let _ = File::open(log).and_then(|mut file| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn last_line(log: &Path) -> String {
    let text = read(log);
    // Progress bars overwrite their line with carriage returns.
    text.split(['\n', '\r'])
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("no output yet")
        .trim()
        .to_owned()
}

/// What of `text` tells best what went wrong, indented: from a compiler's first error on, else the last lines.
#[must_use]
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let first_error = lines.iter().position(|line| line.starts_with("error"));
    let from = first_error.unwrap_or(lines.len().saturating_sub(TAIL_LINES));
    let shown = lines[from..].iter().take(TAIL_LINES);
    shown
        .map(|line| format!("    {}", line.chars().take(LINE_LENGTH).collect::<String>()))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_carries_command_status_and_what_the_program_said() {
        let error = capture(Command::new("sh").args(["-c", "echo no such suite >&2; exit 3"]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("sh -c")
                && error.contains("status: 3")
                && error.contains("no such suite"),
            "{error}"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = capture(&mut Command::new("eviction-no-such-program"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("eviction-no-such-program"), "{error}");
    }

    #[test]
    fn a_logged_failure_shows_the_end_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("deep/log");
        let error = run_logged(Command::new("sh").args(["-c", "seq 100; exit 1"]), &log)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("    100") && error.contains("    86") && !error.contains("    85"),
            "{error}"
        );
    }

    #[test]
    fn both_outputs_are_streamed_and_the_end_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 4"]);
        let ended = run_streaming(&mut command, &folder.path().join("log"), &mut |line| {
            seen.push(line.to_owned());
            true
        });
        assert_eq!(seen, ["one", "two"]);
        assert!(ended.unwrap_err().to_string().contains("status: 4"));
    }

    #[test]
    fn a_compilers_first_error_is_shown_and_not_what_follows_from_it() {
        let text = format!(
            "Compiling a\nerror[E0425]: cannot find `x`\n{}",
            "  later\n".repeat(30)
        );
        assert!(tail(&text).starts_with("    error[E0425]"));
        assert_eq!(tail(&text).lines().count(), TAIL_LINES);
    }

    #[test]
    fn cargo_does_not_inherit_rustflags() {
        let removed: Vec<_> = cargo()
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(key, _)| key.to_owned())
            .collect();
        assert!(removed.iter().any(|key| key == "CARGO_ENCODED_RUSTFLAGS"));
    }
}
