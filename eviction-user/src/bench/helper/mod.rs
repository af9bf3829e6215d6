//! A process of this program's own kind that does what is measured: in a cgroup, one task at a time. Tasks and answers
//! are lines of JSON on its standard input and output.

mod loops;
mod memory;
mod progress;
mod serve;

pub use serve::serve;

pub(super) use progress::Progress;

use super::BenchError;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// This very program, also when its file has been replaced meanwhile.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Task {
    /// Gives back all memory that was touched.
    Rest,
    Cross(Crossing),
    /// Runs on this CPU alone from now on.
    Pin {
        cpu: usize,
    },
    /// Takes the time and writes to this eventfd, which it has inherited.
    Wake {
        eventfd: i32,
    },
    Loop(Loop),
    /// Runs on one CPU for ever.
    Spin,
    /// Does it again and again for ever.
    Storm(Loop),
    /// Charges so many bytes a second for ever, and gives them back.
    Breathe {
        bytes_a_second: u64,
    },
}

/// Touches pages until the counter is at the line, and on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Crossing {
    /// The file with the counter that has to cross, in bytes.
    pub(super) counter: PathBuf,
    /// Bytes.
    pub(super) line: u64,
    /// So many pages more once it has crossed.
    pub(super) past_pages: u64,
    /// Bytes a second; 0: as fast as it goes.
    pub(super) rate: u64,
    /// How many bytes before the line the rate applies from.
    pub(super) run_up: u64,
    /// Tells how far it came, also when it is killed; a path to the mapped file.
    pub(super) progress: Option<PathBuf>,
}

/// Something that is done many times; the answer is how long it took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Loop {
    /// Anonymous pages touched for the first time.
    PageFaults { count: u64 },
    /// Empty files made in a directory.
    CreateFiles { directory: PathBuf, count: u64 },
    /// 4 KiB appended to a file in the page cache.
    Writes { directory: PathBuf, count: u64 },
    /// A process made and waited for.
    Forks { count: u64 },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Answer {
    Done,
    /// CLOCK_MONOTONIC in nanoseconds, just before the page (or the wake-up).
    At(i64),
    /// Nanoseconds.
    Took(u64),
    Failed(String),
}

/// The process; ended when this is dropped.
pub(super) struct Helper {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Helper {
    /// Starts it in `cgroups` (one per hierarchy). It ends with the thread that starts it.
    pub(super) fn start(cgroups: &[PathBuf]) -> Result<Self, BenchError> {
        let mut command = Command::new(OWN_PROGRAM);
        command.args(["bench", "helper"]);
        for cgroup in cgroups {
            command.arg("--cgroup").arg(cgroup);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = dies_with_us(&mut command)
            .spawn()
            .map_err(BenchError::system("start a helper process"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(BenchError::HelperEnded);
        };
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// Gives it a task without waiting for an answer.
    pub(super) fn tell(&mut self, task: &Task) -> Result<(), BenchError> {
        let mut line = serde_json::to_vec(task).map_err(BenchError::Protocol)?;
        line.push(b'\n');
        self.input
            .write_all(&line)
            .map_err(|_| BenchError::HelperEnded)
    }

    /// Gives it a task and waits until it is done.
    pub(super) fn ask(&mut self, task: &Task) -> Result<Answer, BenchError> {
        self.tell(task)?;
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) | Err(_) => Err(BenchError::HelperEnded),
            Ok(_) => match serde_json::from_str(&line).map_err(BenchError::Protocol)? {
                Answer::Failed(why) => Err(BenchError::Helper(why)),
                answer => Ok(answer),
            },
        }
    }

    /// Stops it in the middle of its task, or lets it go on.
    pub(super) fn halt(&self, halted: bool) -> Result<(), BenchError> {
        let signal = if halted {
            Signal::SIGSTOP
        } else {
            Signal::SIGCONT
        };
        let pid = i32::try_from(self.child.id()).map_err(|_| BenchError::HelperEnded)?;
        kill(Pid::from_raw(pid), signal).map_err(|_| BenchError::HelperEnded)
    }

    /// Waits until it has been killed by somebody else.
    pub(super) fn killed(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Fails only when it has ended already; waiting then only collects it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// No child outlives a benchmark that is killed.
pub(super) fn dies_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only prctl(2) is called, which is a single system call.
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) }
}
