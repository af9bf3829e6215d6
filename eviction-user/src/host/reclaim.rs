//! Frees disk space of the node before anybody has to go: the user's command, run and timed from a thread
//! of its own, because the deciding thread has to go on looking.

use crate::model::Signal;
use crate::ports::{ReclaimEnd, ReclaimReport};
use crate::sys::clock;
use crate::sys::pidfd::PidFd;
use nix::sys::signal::{Signal as UnixSignal, killpg};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What the user said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReclaimCommand {
    /// For `/bin/sh -c`, with the signal's name in `EVICTION_SIGNAL`.
    pub command: String,
    /// After so long it is killed with all that it started.
    pub limit: Duration,
}

/// At most one command runs at a time; it ends with this value.
#[derive(Debug)]
pub(super) struct Reclaimer {
    orders: Sender<Signal>,
    reports: Receiver<ReclaimReport>,
    is_running: bool,
    group: RunningGroup,
}

/// The process group of the command that runs.
type RunningGroup = Arc<Mutex<Option<Pid>>>;

impl Reclaimer {
    pub(super) fn start(command: ReclaimCommand) -> io::Result<Self> {
        let (orders, work) = channel();
        let (done, reports) = channel();
        let group = RunningGroup::default();
        let shared = Arc::clone(&group);
        std::thread::Builder::new()
            .name("eviction-reclaim".into())
            .spawn(move || {
                for signal in work {
                    if done.send(run(&command, signal, &shared)).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            orders,
            reports,
            is_running: false,
            group,
        })
    }

    /// Begins, unless it is under way.
    pub(super) fn begin(&mut self, signal: Signal) {
        if !self.is_running {
            // The thread ends only when this value does.
            self.is_running = self.orders.send(signal).is_ok();
        }
    }

    pub(super) fn report(&mut self) -> Option<ReclaimReport> {
        let report = self.reports.try_recv().ok()?;
        self.is_running = false;
        Some(report)
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        kill_group(&self.group);
    }
}

fn run(command: &ReclaimCommand, signal: Signal, group: &RunningGroup) -> ReclaimReport {
    let began = clock::now();
    let end = match spawn(command, signal) {
        Ok(child) => wait(child, command.limit, group),
        Err(e) => ReclaimEnd::NotRun(e.to_string()),
    };
    ReclaimReport {
        took: clock::elapsed_since(began),
        end,
    }
}

fn spawn(command: &ReclaimCommand, signal: Signal) -> io::Result<Child> {
    Command::new("/bin/sh")
        .arg("-c")
        .arg(&command.command)
        .env("EVICTION_SIGNAL", signal.name())
        .process_group(0)
        .stdin(Stdio::null())
        // Standard output is for records.
        .stdout(io::stderr())
        .spawn()
}

fn wait(mut child: Child, limit: Duration, group: &RunningGroup) -> ReclaimEnd {
    let Ok(pid) = i32::try_from(child.id()) else {
        return ReclaimEnd::NotRun("its process id is out of range".to_owned());
    };
    *group.lock().unwrap_or_else(PoisonError::into_inner) = Some(Pid::from_raw(pid));
    let in_time = PidFd::open(pid).and_then(|fd| fd.ends_within(limit));
    if in_time != Ok(true) {
        kill_group(group);
    }
    // From here on the id may be another's.
    *group.lock().unwrap_or_else(PoisonError::into_inner) = None;
    match (child.wait(), in_time) {
        (_, Ok(false)) => ReclaimEnd::TimedOut(limit),
        (_, Err(e)) => ReclaimEnd::NotRun(format!("it could not be watched: {e}")),
        (Ok(status), Ok(true)) => ended(status),
        (Err(e), Ok(true)) => ReclaimEnd::NotRun(format!("its end could not be read: {e}")),
    }
}

fn kill_group(group: &RunningGroup) {
    if let Some(group) = *group.lock().unwrap_or_else(PoisonError::into_inner) {
        // It may have ended by itself by now; it has not been waited for, so the id is still its own.
        let _ = killpg(group, UnixSignal::SIGKILL);
    }
}

fn ended(status: ExitStatus) -> ReclaimEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ReclaimEnd::Exited(code),
        (None, signal) => ReclaimEnd::Signalled(signal.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reclaim(command: &str, limit: Duration) -> Reclaimer {
        let command = command.to_owned();
        Reclaimer::start(ReclaimCommand { command, limit }).unwrap()
    }

    fn report(reclaimer: &mut Reclaimer) -> ReclaimReport {
        loop {
            if let Some(report) = reclaimer.report() {
                return report;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_command_is_told_the_signal_and_its_end_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("signal").display().to_string();
        let command = format!("echo $EVICTION_SIGNAL >> {file}; exit 3");
        let mut reclaimer = reclaim(&command, Duration::from_secs(60));
        reclaimer.begin(Signal::NodeFsAvailable);
        reclaimer.begin(Signal::NodeFsInodesFree);
        assert_eq!(report(&mut reclaimer).end, ReclaimEnd::Exited(3));
        let told = std::fs::read_to_string(&file).unwrap();
        assert_eq!(told, "nodefs.available\n", "one at a time");
        reclaimer.begin(Signal::ImageFsAvailable);
        report(&mut reclaimer);
        let told = std::fs::read_to_string(&file).unwrap();
        assert_eq!(told, "nodefs.available\nimagefs.available\n");
    }

    #[test]
    fn a_command_that_dies_by_a_signal_or_is_none_says_so() {
        let mut reclaimer = reclaim("kill -9 $$", Duration::from_secs(60));
        reclaimer.begin(Signal::NodeFsAvailable);
        assert_eq!(report(&mut reclaimer).end, ReclaimEnd::Signalled(9));
        let mut reclaimer = reclaim("/no/such/program", Duration::from_secs(60));
        reclaimer.begin(Signal::NodeFsAvailable);
        assert_eq!(report(&mut reclaimer).end, ReclaimEnd::Exited(127));
    }

    /// The pids that a command wrote into the file.
    fn pids(file: &std::path::Path) -> Vec<i32> {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    fn has_ended(pid: i32) -> bool {
        let limit = Duration::from_secs(30);
        PidFd::open(pid).is_ok_and(|process| process.ends_within(limit) == Ok(true))
            || PidFd::open(pid).is_err()
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_all_that_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pids");
        let shown = file.display();
        let command = format!("sleep 1000 & echo $! > {shown}; echo $$ >> {shown}; wait");
        let limit = Duration::from_millis(500);
        let mut reclaimer = reclaim(&command, limit);
        reclaimer.begin(Signal::NodeFsAvailable);
        let report = report(&mut reclaimer);
        assert_eq!(report.end, ReclaimEnd::TimedOut(limit));
        assert!(report.took >= limit);
        let started = pids(&file);
        assert_eq!(started.len(), 2, "{started:?}");
        assert!(started.into_iter().all(has_ended));
    }

    #[test]
    fn a_command_under_way_ends_with_us() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let command = format!("echo $$ > {}; exec sleep 1000", file.display());
        let mut reclaimer = reclaim(&command, Duration::from_secs(600));
        reclaimer.begin(Signal::NodeFsAvailable);
        let pid = loop {
            if let [pid] = pids(&file)[..] {
                break pid;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        drop(reclaimer);
        assert!(has_ended(pid));
    }
}
