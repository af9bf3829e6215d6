//! Evicts a workload: asks its processes to leave, or kills the whole cgroup at once; its memory is reaped, and
//! it is watched until it is empty and whoever owns it is done with it.

use super::kill::{self, KillMethod};
use super::owner::{Answer, Owner};
use super::reap::Reaper;
use crate::model::{Eviction, Uid};
use crate::ports::{
    Begun, Executor, KillError, KillReport, NodeReclaim, ReclaimBy, ReclaimOrder, ReclaimReport,
    Removal,
};
use crate::sys::cgroup::{CgroupDir, CgroupError, Hierarchy};
use crate::sys::clock;
use crate::sys::fault::{self, Point};
use std::io;
use std::time::Duration;

/// On behalf of whoever owns the workloads.
pub struct CgroupExecutor {
    owner: Box<dyn Owner + Send>,
    hierarchy: Hierarchy,
    reaper: Reaper,
    /// `None`: the user wants none.
    reclaimer: Option<Box<dyn NodeReclaim>>,
    /// The victims that are being removed.
    victims: Vec<Victim>,
}

/// By which victims are ended that somebody has to be asked for first.
const EVICTION_API: &str = "Eviction API";

struct Victim {
    uid: Uid,
    /// `None`: it had been removed already when the victim was taken over.
    group: Option<CgroupDir>,
    /// How it was killed; `None`: it was only asked to leave so far.
    method: Option<KillMethod>,
}

impl CgroupExecutor {
    pub fn new(
        owner: Box<dyn Owner + Send>,
        hierarchy: Hierarchy,
        reclaimer: Option<Box<dyn NodeReclaim>>,
    ) -> io::Result<Self> {
        Ok(Self {
            owner,
            hierarchy,
            reaper: Reaper::start()?,
            reclaimer,
            victims: Vec::new(),
        })
    }

    fn group(&self, eviction: &Eviction) -> Result<CgroupDir, KillError> {
        self.owner
            .group(eviction.uid(), &eviction.pod.name)
            .ok_or_else(|| KillError::Gone(eviction.uid().clone()))
    }

    fn kill(&self, group: &CgroupDir) -> Result<(KillMethod, KillReport), KillError> {
        let killed = kill::kill(group, &self.hierarchy).map_err(failed)?;
        let report = report(killed.method.name(), killed.count);
        self.reaper.release(killed.processes);
        Ok((killed.method, report))
    }

    fn watch(&mut self, uid: &Uid, group: Option<CgroupDir>, method: Option<KillMethod>) {
        self.victims.push(Victim {
            uid: uid.clone(),
            group,
            method,
        });
    }

    fn position(&self, uid: &Uid) -> Option<usize> {
        self.victims.iter().position(|victim| &victim.uid == uid)
    }
}

impl Executor for CgroupExecutor {
    fn evict(&mut self, id: u64, eviction: &Eviction) -> Result<Begun, KillError> {
        let group = self.group(eviction)?;
        if let Some(grace) = self.owner.evicting(id, eviction) {
            // How many cannot be told of one that has just ended.
            let processes = kill::count(&group).unwrap_or(0);
            self.watch(eviction.uid(), Some(group), None);
            return Ok(Begun::Asked(report(EVICTION_API, processes), grace));
        }
        if let Some(grace) = eviction.time_to_leave() {
            let asked = kill::ask_to_leave(&group).map_err(failed)?;
            self.watch(eviction.uid(), Some(group), None);
            let grace = Duration::from_nanos(u64::try_from(grace.as_nanos()).unwrap_or(0));
            return Ok(Begun::Leaving(report("SIGTERM", asked.len()), grace));
        }
        fault::reach(Point::RecordedNotKilled);
        let (method, report) = self.kill(&group)?;
        fault::reach(Point::KilledNotRecorded);
        self.watch(eviction.uid(), Some(group), Some(method));
        Ok(Begun::Killed(report))
    }

    fn may_go_unanswered(&mut self, uid: &Uid) -> bool {
        self.owner.may_go_unanswered(uid)
    }

    fn take_over(&mut self, uid: &Uid, name: &str, killed: bool) -> bool {
        if !self.owner.was_begun(uid) {
            return false;
        }
        let group = self.owner.group(uid, name);
        // Its volumes may be there for longer than its cgroup.
        if group.is_none() && self.owner.is_done_with(uid) {
            return false;
        }
        // How it was killed is not known: signals are never wrong.
        self.watch(uid, group, killed.then_some(KillMethod::Signal));
        true
    }

    fn end_grace(&mut self, uid: &Uid) -> Result<KillReport, KillError> {
        let gone = || KillError::Gone(uid.clone());
        let position = self.position(uid).ok_or_else(gone)?;
        let group = self.victims[position].group.clone();
        self.owner.ending(uid);
        match group.ok_or_else(gone).and_then(|group| self.kill(&group)) {
            Ok((method, report)) => {
                self.victims[position].method = Some(method);
                Ok(report)
            }
            Err(e) => {
                self.victims.swap_remove(position);
                Err(e)
            }
        }
    }

    fn removal(&mut self, uid: &Uid) -> Removal {
        let Some(position) = self.position(uid) else {
            return Removal::Gone;
        };
        let mut running = Removal::Running;
        if self.victims[position].method.is_none() {
            match self.owner.answer(uid) {
                Answer::Granted => {}
                Answer::None => running = Removal::Unanswered,
                Answer::Bypassed(reason) => return Removal::Bypassed(reason),
                Answer::Refused(refusal) => {
                    self.victims.swap_remove(position);
                    return Removal::Refused(refusal);
                }
            }
        }
        let Victim { group, method, .. } = &self.victims[position];
        let populated = group
            .as_ref()
            .map(|group| kill::populated(group, self.hierarchy.version));
        let empty = match populated {
            None => true,
            Some(Ok(populated)) => !populated,
            // A cgroup that has been removed takes all its processes with it. Any other failure (no descriptor left, no
            // memory) says nothing about them.
            Some(Err(error)) => error.means_gone(),
        };
        if !empty {
            // cgroup.kill leaves nothing behind; one round of signals may have missed a fork.
            if matches!(method, Some(method) if *method != KillMethod::CgroupKill || self.owner.revives())
                && let Some(group) = group
                && let Ok(processes) = kill::kill_again(group, &self.hierarchy)
            {
                self.reaper.release(processes);
            }
            return running;
        }
        if !self.owner.is_done_with(uid) {
            return running;
        }
        self.victims.swap_remove(position);
        Removal::Gone
    }

    fn processes(&self, eviction: &Eviction) -> Option<usize> {
        kill::count(&self.group(eviction).ok()?).ok()
    }

    fn reclaims_by(&self) -> Option<ReclaimBy> {
        self.reclaimer.as_ref().map(|reclaimer| reclaimer.by())
    }

    fn reclaim(&mut self, order: ReclaimOrder) {
        if let Some(reclaimer) = &mut self.reclaimer {
            reclaimer.begin(order);
        }
    }

    fn reclaimed(&mut self) -> Option<ReclaimReport> {
        self.reclaimer.as_mut()?.report()
    }
}

fn failed(error: CgroupError) -> KillError {
    KillError::Failed(Box::new(error))
}

fn report(method: &'static str, processes: usize) -> KillReport {
    KillReport {
        done: clock::now(),
        method,
        processes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostOwner;
    use crate::sys::cgroup::Version;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_victim_is_gone_when_it_is_empty_or_removed_but_not_when_it_cannot_be_read() {
        let mount = tempfile::tempdir().unwrap();
        let victim = mount.path().join("hog");
        std::fs::create_dir(&victim).unwrap();
        let hierarchy = Hierarchy {
            version: Version::V2,
            mount: mount.path().to_owned(),
            freezer: None,
        };
        let root = CgroupDir::open(mount.path()).unwrap();
        let group = CgroupDir::open(&victim).unwrap();
        let mut executor =
            CgroupExecutor::new(Box::new(HostOwner::new(root)), hierarchy, None).unwrap();
        let uid = Uid::new("hog");
        executor.victims.push(Victim {
            uid: uid.clone(),
            group: Some(group),
            method: Some(KillMethod::CgroupKill),
        });
        let events = victim.join("cgroup.events");
        // Reading a directory fails with EISDIR, which no cgroup ever answers.
        std::fs::create_dir(&events).unwrap();
        assert_eq!(executor.removal(&uid), Removal::Running);
        std::fs::remove_dir(&events).unwrap();
        std::fs::write(&events, "populated 1\n").unwrap();
        assert_eq!(executor.removal(&uid), Removal::Running);
        std::fs::remove_dir_all(&victim).unwrap();
        assert_eq!(executor.removal(&uid), Removal::Gone);
        assert!(executor.victims.is_empty());
    }

    /// Of a pod whose cgroup has been removed.
    struct Volumes(Arc<AtomicBool>);

    impl Owner for Volumes {
        fn group(&self, _uid: &Uid, _name: &str) -> Option<CgroupDir> {
            None
        }

        fn evicting(&mut self, _id: u64, _eviction: &Eviction) -> Option<Duration> {
            None
        }

        fn answer(&mut self, _uid: &Uid) -> Answer {
            Answer::Granted
        }

        fn may_go_unanswered(&mut self, _uid: &Uid) -> bool {
            true
        }

        fn ending(&mut self, _uid: &Uid) {}

        fn was_begun(&self, _uid: &Uid) -> bool {
            true
        }

        fn revives(&self) -> bool {
            true
        }

        fn is_done_with(&self, _uid: &Uid) -> bool {
            !self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_victim_without_a_cgroup_is_taken_over_as_long_as_its_owner_is_not_done_with_it() {
        let hierarchy = Hierarchy {
            version: Version::V2,
            mount: "/".into(),
            freezer: None,
        };
        let there = Arc::new(AtomicBool::new(true));
        let owner = Box::new(Volumes(Arc::clone(&there)));
        let mut executor = CgroupExecutor::new(owner, hierarchy, None).unwrap();
        let uid = Uid::new("u1");
        assert!(executor.take_over(&uid, "web-0", true));
        assert_eq!(executor.removal(&uid), Removal::Running);
        there.store(false, Ordering::Relaxed);
        assert_eq!(executor.removal(&uid), Removal::Gone);
        assert!(!executor.take_over(&uid, "web-0", true));
    }
}
