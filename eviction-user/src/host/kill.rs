//! Kills a whole cgroup, so that nothing forks its way out, on every kernel.

use crate::sys::cgroup::{CgroupDir, CgroupError, Hierarchy, Version, parse, subtree};
use crate::sys::clock;
use crate::sys::fault::{self, Point};
use crate::sys::pidfd::PidFd;
use crate::sys::reader::ReadError;
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

/// How long a freezing cgroup may take; a task in an uninterruptible wait never freezes, and killing
/// the others cannot wait for it. Measured: 0.3 to 15 ms for 50 to 200 forking processes.
const FREEZE_LIMIT: Duration = Duration::from_millis(20);

/// What made sure that no process was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillMethod {
    /// `cgroup.kill` (cgroup v2, Linux 5.14).
    CgroupKill,
    /// Frozen, SIGKILL to each process, thawed.
    FreezeAndSignal,
    /// SIGKILL to each process, again and again until none is left.
    Signal,
}

impl KillMethod {
    /// Stable name for records.
    pub fn name(self) -> &'static str {
        match self {
            Self::CgroupKill => "cgroup.kill",
            Self::FreezeAndSignal => "freeze+signal",
            Self::Signal => "signal",
        }
    }
}

/// What a kill has done so far.
#[derive(Debug)]
pub struct Killed {
    pub method: KillMethod,
    /// How many were killed.
    pub count: usize,
    /// Those whose memory can still be reaped: signalled, or found dying.
    pub processes: Vec<PidFd>,
}

impl Killed {
    fn signalled(method: KillMethod, processes: Vec<PidFd>) -> Self {
        Self {
            method,
            count: processes.len(),
            processes,
        }
    }
}

/// SIGKILL to every process in `group` and below it.
pub fn kill(group: &CgroupDir, hierarchy: &Hierarchy) -> Result<Killed, CgroupError> {
    match hierarchy.version {
        Version::V2 => {
            // Before: small processes are gone before they could be counted (of 393 on 7.3, one was left to see).
            let before = count(group).unwrap_or(0);
            match group.write("cgroup.kill", "1") {
                Ok(()) => {
                    let processes = processes(group).unwrap_or_default();
                    Ok(Killed {
                        method: KillMethod::CgroupKill,
                        count: before.max(processes.len()),
                        processes,
                    })
                }
                Err(CgroupError::Write { source, .. })
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    frozen(&V2Freezer(group), group)
                }
                Err(e) => Err(e),
            }
        }
        Version::V1 => match V1Freezer::twin_of(group, hierarchy) {
            Some(freezer) => frozen(&freezer, group),
            None => Ok(Killed::signalled(KillMethod::Signal, signal(group)?)),
        },
    }
}

/// Asks every process in `group` and below it to end (SIGTERM), once: what ignores it, or is forked
/// while the signals are sent, is killed when its time is over.
pub fn ask_to_leave(group: &CgroupDir) -> Result<Vec<PidFd>, CgroupError> {
    let asked = processes(group)?;
    for process in &asked {
        // One that has gone by itself meanwhile has done what it was asked for.
        let _ = process.terminate();
    }
    Ok(asked)
}

/// Processes in `group` and below it.
pub fn count(group: &CgroupDir) -> Result<usize, ReadError> {
    pids(group).map(|found| found.len())
}

/// Is any process left in `group` or below it?
pub fn populated(group: &CgroupDir, version: Version) -> Result<bool, ReadError> {
    match version {
        Version::V2 => group
            .reader("cgroup.events")?
            .read("has no populated line", |content| {
                parse::flat_keyed(content, "populated")
            })
            .map(|n| n != 0),
        Version::V1 => Ok(!pids(group)?.is_empty()),
    }
}

/// Another round of SIGKILL, for what was forked while the first one went through the list, and for what an earlier process
/// froze and did not come to thaw: on v1 a SIGKILL does nothing before that.
pub fn kill_again(group: &CgroupDir, hierarchy: &Hierarchy) -> Result<Vec<PidFd>, CgroupError> {
    let processes = signal(group);
    if hierarchy.version == Version::V1
        && let Some(freezer) = V1Freezer::twin_of(group, hierarchy)
    {
        freezer.thaw();
    }
    processes
}

trait Freezer {
    fn freeze(&self) -> Result<(), CgroupError>;
    fn is_frozen(&self) -> bool;
    fn thaw(&self);
}

fn frozen(freezer: &dyn Freezer, group: &CgroupDir) -> Result<Killed, CgroupError> {
    let method = match freezer.freeze() {
        Ok(()) => KillMethod::FreezeAndSignal,
        Err(_) => KillMethod::Signal,
    };
    let began = clock::now();
    while method == KillMethod::FreezeAndSignal && !freezer.is_frozen() {
        if clock::elapsed_since(began) > FREEZE_LIMIT {
            break;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    if method == KillMethod::FreezeAndSignal {
        fault::reach(Point::Frozen);
    }
    let processes = signal(group);
    // Whatever happened: a cgroup left frozen would be a hung workload (SIGKILL does nothing on v1 before the thaw).
    freezer.thaw();
    Ok(Killed::signalled(method, processes?))
}

struct V2Freezer<'a>(&'a CgroupDir);

impl Freezer for V2Freezer<'_> {
    fn freeze(&self) -> Result<(), CgroupError> {
        self.0.write("cgroup.freeze", "1")
    }

    fn is_frozen(&self) -> bool {
        self.0
            .reader("cgroup.events")
            .and_then(|r| r.read("has no frozen line", |c| parse::flat_keyed(c, "frozen")))
            .is_ok_and(|n| n == 1)
    }

    fn thaw(&self) {
        // Nothing more can be done when this fails: the cgroup is gone, and with it the frozen state.
        let _ = self.0.write("cgroup.freeze", "0");
    }
}

/// The group of the same name in the freezer's hierarchy.
struct V1Freezer(CgroupDir);

impl V1Freezer {
    /// `None` also where the twin holds processes that the victim does not: they must not be touched.
    fn twin_of(group: &CgroupDir, hierarchy: &Hierarchy) -> Option<Self> {
        let twin = hierarchy
            .freezer
            .as_ref()?
            .join(group.path().strip_prefix(&hierarchy.mount).ok()?);
        let twin = CgroupDir::open(&twin).ok()?;
        let frozen: BTreeSet<_> = pids(&twin).ok()?.into_iter().collect();
        let victim: BTreeSet<_> = pids(group).ok()?.into_iter().collect();
        (!frozen.is_empty() && frozen.is_subset(&victim)).then_some(Self(twin))
    }
}

impl Freezer for V1Freezer {
    fn freeze(&self) -> Result<(), CgroupError> {
        self.0.write("freezer.state", "FROZEN")
    }

    fn is_frozen(&self) -> bool {
        self.0.reader("freezer.state").is_ok_and(|r| {
            r.read("a state", |c| c.starts_with(b"FROZEN").then_some(()))
                .is_ok()
        })
    }

    fn thaw(&self) {
        // As for v2: the group may be gone by now.
        let _ = self.0.write("freezer.state", "THAWED");
    }
}

/// One round of SIGKILL to every process of the subtree.
fn signal(group: &CgroupDir) -> Result<Vec<PidFd>, CgroupError> {
    let targets = processes(group)?;
    for process in &targets {
        // A process that has gone by itself meanwhile is no failure; EPERM shows as one that stays.
        let _ = process.kill();
    }
    Ok(targets)
}

/// The processes of the subtree, each held so that its pid cannot be reused under us: one that is
/// still listed after it was opened is the one that was opened.
fn processes(group: &CgroupDir) -> Result<Vec<PidFd>, ReadError> {
    let opened: Vec<_> = pids(group)?
        .into_iter()
        .filter_map(|pid| Some((pid, PidFd::open(pid).ok()?)))
        .collect();
    let listed: BTreeSet<_> = pids(group)?.into_iter().collect();
    Ok(opened
        .into_iter()
        .filter(|(pid, _)| listed.contains(pid))
        .map(|(_, fd)| fd)
        .collect())
}

fn pids(group: &CgroupDir) -> Result<Vec<i32>, ReadError> {
    let mut found = Vec::new();
    for (depth, group) in subtree(group).iter().enumerate() {
        match group.pids(&mut found) {
            Ok(()) => {}
            // A descendant may be removed while we walk; the group itself must be readable.
            Err(e) if depth > 0 && e.means_gone() => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn what_an_earlier_process_froze_is_thawed_after_its_signal() {
        let mounts = tempfile::tempdir().unwrap();
        let mut victim = Command::new("sleep").arg("60").spawn().unwrap();
        for hierarchy in ["memory", "freezer"] {
            let pod = mounts.path().join(hierarchy).join("pod");
            std::fs::create_dir_all(&pod).unwrap();
            std::fs::write(pod.join("cgroup.procs"), format!("{}\n", victim.id())).unwrap();
        }
        let state = mounts.path().join("freezer/pod/freezer.state");
        std::fs::write(&state, "FROZEN").unwrap();
        let hierarchy = Hierarchy {
            version: Version::V1,
            mount: mounts.path().join("memory"),
            freezer: Some(mounts.path().join("freezer")),
        };
        let group = CgroupDir::open(&hierarchy.mount.join("pod")).unwrap();
        assert_eq!(kill_again(&group, &hierarchy).unwrap().len(), 1);
        assert_eq!(std::fs::read_to_string(&state).unwrap(), "THAWED");
        assert_eq!(victim.wait().unwrap().signal(), Some(9));
    }
}
