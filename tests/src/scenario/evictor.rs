//! `eviction run` as a child process, and the JSON records it prints.

use super::{Programs, in_namespace, interrupt, wait_until};
use crate::load::now_ns;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How soon Ctrl-C is noticed.
const SLICE: Duration = Duration::from_millis(100);

/// One record, as printed.
#[derive(Debug, Clone)]
pub struct Record(pub Value);

impl Record {
    pub fn kind(&self) -> &str {
        self.text("record")
    }

    /// A text field; empty when it is absent, which no expectation equals.
    pub fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or("")
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(Value::as_u64)
    }

    /// When it happened, on CLOCK_MONOTONIC.
    pub fn t_ns(&self) -> u64 {
        self.number("t_ns").unwrap_or(0)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum EvictorError {
    #[error("cannot start {program}: {source}")]
    Start {
        program: String,
        source: std::io::Error,
    },
    #[error(
        "eviction printed no {wanted} record within {limit:?}; it printed {seen:?}; stderr: {stderr}"
    )]
    Missing {
        wanted: String,
        limit: Duration,
        seen: Vec<String>,
        stderr: String,
    },
}

pub struct Evictor {
    process: Child,
    lines: Receiver<Record>,
    pub seen: Vec<Record>,
}

impl Evictor {
    pub fn start(programs: &Programs, args: &[String]) -> Result<Self, EvictorError> {
        Self::spawn(programs, args, |_| Ok(()))
    }

    /// In a cgroup namespace of its own, whose roots are `groups` (one per hierarchy).
    pub fn start_in_namespace(
        programs: &Programs,
        args: &[String],
        groups: &[PathBuf],
    ) -> Result<Self, EvictorError> {
        Self::spawn(programs, args, |command| in_namespace(command, groups))
    }

    /// With something in its environment.
    pub fn start_with(
        programs: &Programs,
        args: &[String],
        variable: (&str, &str),
    ) -> Result<Self, EvictorError> {
        Self::spawn(programs, args, |command| {
            command.env(variable.0, variable.1);
            Ok(())
        })
    }

    fn spawn(
        programs: &Programs,
        args: &[String],
        prepare: impl FnOnce(&mut Command) -> std::io::Result<()>,
    ) -> Result<Self, EvictorError> {
        let mut command = Command::new(&programs.eviction);
        command
            .arg("run")
            .args(args)
            .args(["--output", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = prepare(&mut command)
            .and_then(|()| command.spawn())
            .map_err(|source| EvictorError::Start {
                program: programs.eviction.display().to_string(),
                source,
            })?;
        let stdout = process.stdout.take();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout
                .into_iter()
                .flat_map(|s| BufReader::new(s).lines())
                .map_while(Result::ok)
            {
                // What is not JSON is kept as text, so that a failing test shows it.
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(Record(value)).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            process,
            lines,
            seen: Vec::new(),
        })
    }

    /// The first record of that kind, also if it has been printed already.
    pub fn wait_for(&mut self, kind: &str, limit: Duration) -> Result<Record, EvictorError> {
        self.wait_for_any(&[kind], limit)
    }

    pub fn wait_for_any(
        &mut self,
        kinds: &[&str],
        limit: Duration,
    ) -> Result<Record, EvictorError> {
        if let Some(found) = self.seen.iter().find(|r| kinds.contains(&r.kind())) {
            return Ok(found.clone());
        }
        let until = now_ns() + limit.as_nanos() as u64;
        loop {
            let left = Duration::from_nanos(until.saturating_sub(now_ns()));
            if !interrupt::happened() && !left.is_zero() {
                match self.lines.recv_timeout(left.min(SLICE)) {
                    Ok(record) => {
                        self.seen.push(record.clone());
                        if kinds.contains(&record.kind()) {
                            return Ok(record);
                        }
                        continue;
                    }
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => {}
                }
            }
            let seen = self.seen.iter().map(|r| r.0.to_string()).collect();
            let wanted = kinds.join(" or ");
            return Err(EvictorError::Missing {
                wanted,
                limit,
                seen,
                stderr: self.end(),
            });
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Do all its threads wait for something? Then it has done all that it was woken for.
    pub fn is_asleep(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id()));
        let mut states = tasks
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        // `pid (name) state ...`, and the name may hold anything.
        let sleeps = |stat: String| {
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with(['S', 'I']))
        };
        states.all(sleeps)
    }

    /// Takes in what has been printed meanwhile.
    pub fn drain(&mut self) {
        self.seen.extend(self.lines.try_iter());
    }

    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Record> {
        self.seen.iter().filter(move |r| r.kind() == kind)
    }

    /// Halts it, as a debugger or a frozen cgroup would, or lets it go on.
    pub fn halt(&self, halted: bool) -> nix::Result<()> {
        let signal = if halted {
            Signal::SIGSTOP
        } else {
            Signal::SIGCONT
        };
        let pid = i32::try_from(self.process.id()).map_err(|_| nix::errno::Errno::ESRCH)?;
        kill(Pid::from_raw(pid), signal)
    }

    /// How it ended by itself, and its stderr; `None`: not within `limit`.
    pub fn ended(&mut self, limit: Duration) -> Option<(ExitStatus, String)> {
        let status = wait_until(limit, || self.process.try_wait().ok().flatten())?;
        self.drain();
        Some((status, self.end()))
    }

    pub fn has_ended(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }

    /// As a crash would end it.
    pub fn kill(&mut self) -> std::io::Result<()> {
        self.process.kill()
    }

    /// Stops it as a service manager would: its exit code (`None`: it did not end in time, or by a signal) and stderr.
    pub fn terminate(&mut self, limit: Duration) -> std::io::Result<(Option<i32>, String)> {
        if let Ok(pid) = i32::try_from(self.process.id()) {
            kill(Pid::from_raw(pid), Signal::SIGTERM)?;
        }
        let ended = wait_until(limit, || self.process.try_wait().ok().flatten());
        let code = ended.and_then(|status| status.code());
        Ok((code, self.end()))
    }

    /// Ends it, whatever it does; its stderr.
    fn end(&mut self) -> String {
        let _ = self.process.kill();
        let mut text = String::new();
        if let Some(mut stderr) = self.process.stderr.take() {
            let _ = stderr.read_to_string(&mut text);
        }
        let _ = self.process.wait();
        text
    }
}

impl Drop for Evictor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
