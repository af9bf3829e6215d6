//! Frees disk space of the node before anybody has to go: the user's command, run and timed from a thread
//! of its own, because the deciding thread has to go on looking.

use crate::model::Signal;
use crate::ports::{NodeReclaim, ReclaimBy, ReclaimEnd, ReclaimOrder, ReclaimReport};
use crate::sys::clock;
use crate::sys::pidfd::PidFd;
use nix::errno::Errno;
use nix::sys::signal::{Signal as UnixSignal, killpg};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
pub struct CommandReclaim {
    orders: Sender<Signal>,
    reports: Receiver<ReclaimReport>,
    is_running: bool,
    running: Arc<Running>,
}

/// The command that runs, started and killed under one lock: who ends it cannot come between its start and the note of it, nor
/// kill when its id may already be another's.
#[derive(Debug, Default)]
struct Running(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// The leader of its process group.
    Command(Child),
    /// Nothing is started any more.
    Ended,
}

impl CommandReclaim {
    pub fn start(command: ReclaimCommand) -> io::Result<Self> {
        let (orders, work) = channel();
        let (done, reports) = channel();
        let running = Arc::<Running>::default();
        let shared = Arc::clone(&running);
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
            running,
        })
    }
}

impl NodeReclaim for CommandReclaim {
    fn by(&self) -> ReclaimBy {
        ReclaimBy::Command
    }

    fn begin(&mut self, order: ReclaimOrder) {
        if !self.is_running {
            // The thread ends only when this value does.
            self.is_running = self.orders.send(order.signal).is_ok();
        }
    }

    fn report(&mut self) -> Option<ReclaimReport> {
        let report = self.reports.try_recv().ok()?;
        self.is_running = false;
        Some(report)
    }
}

impl Drop for CommandReclaim {
    fn drop(&mut self) {
        self.running.end();
    }
}

fn run(command: &ReclaimCommand, signal: Signal, running: &Running) -> ReclaimReport {
    let began = clock::now();
    ReclaimReport {
        end: running.carry_out(command, signal),
        took: clock::elapsed_since(began),
        removed: None,
    }
}

impl Running {
    fn carry_out(&self, command: &ReclaimCommand, signal: Signal) -> ReclaimEnd {
        let opened = {
            let mut state = self.state();
            if matches!(*state, State::Ended) {
                return ReclaimEnd::NotRun("we are on our way out".to_owned());
            }
            match spawn(command, signal) {
                Ok(child) => {
                    let pid = i32::try_from(child.id()).map_err(|_| Errno::ERANGE);
                    let opened = pid.and_then(PidFd::open);
                    *state = State::Command(child);
                    opened
                }
                Err(e) => return ReclaimEnd::NotRun(e.to_string()),
            }
        };
        let in_time = opened.and_then(|process| process.ends_within(command.limit));
        let child = {
            let mut state = self.state();
            if in_time != Ok(true) {
                state.kill();
            }
            state.take_command()
        };
        let Some(mut child) = child else {
            return ReclaimEnd::NotRun("we are on our way out".to_owned());
        };
        match (child.wait(), in_time) {
            (_, Ok(false)) => ReclaimEnd::TimedOut(command.limit),
            (_, Err(e)) => ReclaimEnd::NotRun(format!("it could not be watched: {e}")),
            (Ok(status), Ok(true)) => ended(status),
            (Err(e), Ok(true)) => ReclaimEnd::NotRun(format!("its end could not be read: {e}")),
        }
    }

    fn end(&self) {
        let mut state = self.state();
        state.kill();
        *state = State::Ended;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_command(&mut self) -> Option<Child> {
        match std::mem::take(self) {
            Self::Command(child) => Some(child),
            other => {
                *self = other;
                None
            }
        }
    }

    fn kill(&self) {
        if let Self::Command(leader) = self
            && let Ok(group) = i32::try_from(leader.id())
        {
            // It may have ended by itself by now; it has not been waited for, so the id is still its own.
            let _ = killpg(Pid::from_raw(group), UnixSignal::SIGKILL);
        }
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

fn ended(status: ExitStatus) -> ReclaimEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ReclaimEnd::Exited(code),
        (None, signal) => ReclaimEnd::Signalled(signal.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ReclaimCall;

    fn reclaim(command: &str, limit: Duration) -> CommandReclaim {
        let command = command.to_owned();
        CommandReclaim::start(ReclaimCommand { command, limit }).unwrap()
    }

    fn order(signal: Signal) -> ReclaimOrder {
        ReclaimOrder {
            signal,
            calls: ReclaimCall::BOTH,
            dry_run: false,
        }
    }

    fn report(reclaimer: &mut CommandReclaim) -> ReclaimReport {
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
        reclaimer.begin(order(Signal::NodeFsAvailable));
        reclaimer.begin(order(Signal::NodeFsInodesFree));
        assert_eq!(report(&mut reclaimer).end, ReclaimEnd::Exited(3));
        let told = std::fs::read_to_string(&file).unwrap();
        assert_eq!(told, "nodefs.available\n", "one at a time");
        reclaimer.begin(order(Signal::ImageFsAvailable));
        report(&mut reclaimer);
        let told = std::fs::read_to_string(&file).unwrap();
        assert_eq!(told, "nodefs.available\nimagefs.available\n");
    }

    #[test]
    fn a_command_that_dies_by_a_signal_or_is_none_says_so() {
        let mut reclaimer = reclaim("kill -9 $$", Duration::from_secs(60));
        reclaimer.begin(order(Signal::NodeFsAvailable));
        assert_eq!(report(&mut reclaimer).end, ReclaimEnd::Signalled(9));
        let mut reclaimer = reclaim("/no/such/program", Duration::from_secs(60));
        reclaimer.begin(order(Signal::NodeFsAvailable));
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
        reclaimer.begin(order(Signal::NodeFsAvailable));
        let report = report(&mut reclaimer);
        assert_eq!(report.end, ReclaimEnd::TimedOut(limit));
        assert!(report.took >= limit);
        let started = pids(&file);
        assert_eq!(started.len(), 2, "{started:?}");
        assert!(started.into_iter().all(has_ended));
    }

    #[test]
    fn nothing_is_started_once_we_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let running = Running::default();
        running.end();
        let command = ReclaimCommand {
            command: format!("touch {}", file.display()),
            limit: Duration::from_secs(60),
        };
        let report = run(&command, Signal::NodeFsAvailable, &running);
        assert!(matches!(report.end, ReclaimEnd::NotRun(_)), "{report:?}");
        assert!(!file.exists());
    }

    #[test]
    fn a_command_under_way_ends_with_us() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let command = format!("echo $$ > {}; exec sleep 1000", file.display());
        let mut reclaimer = reclaim(&command, Duration::from_secs(600));
        reclaimer.begin(order(Signal::NodeFsAvailable));
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
