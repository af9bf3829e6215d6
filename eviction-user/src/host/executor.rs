//! Evicts a workload of the host: SIGKILL to the whole cgroup, its memory reaped at once, watched until
//! it is empty.

use super::kill::{self, KillMethod};
use super::reap::Reaper;
use crate::model::{Eviction, Uid};
use crate::ports::{Executor, KillError, KillReport, Removal};
use crate::sys::cgroup::{CgroupDir, Hierarchy};
use crate::sys::clock;
use std::io;

pub struct HostExecutor {
    root: CgroupDir,
    hierarchy: Hierarchy,
    reaper: Reaper,
    /// The victims that are being removed.
    victims: Vec<Victim>,
}

struct Victim {
    uid: Uid,
    group: CgroupDir,
    method: KillMethod,
}

impl HostExecutor {
    pub fn new(root: CgroupDir, hierarchy: Hierarchy) -> io::Result<Self> {
        Ok(Self {
            root,
            hierarchy,
            reaper: Reaper::start()?,
            victims: Vec::new(),
        })
    }

    /// The victim's cgroup, only if it is still the very one that was ranked.
    fn group(&self, eviction: &Eviction) -> Result<CgroupDir, KillError> {
        let gone = || KillError::Gone(eviction.uid().clone());
        let group = self.root.child(&eviction.pod.name).ok_or_else(gone)?;
        if group.id().to_string() == eviction.uid().as_str() {
            Ok(group)
        } else {
            Err(gone())
        }
    }
}

impl Executor for HostExecutor {
    fn evict(&mut self, eviction: &Eviction) -> Result<KillReport, KillError> {
        let group = self.group(eviction)?;
        let killed =
            kill::kill(&group, &self.hierarchy).map_err(|e| KillError::Failed(Box::new(e)))?;
        let report = KillReport {
            done: clock::now(),
            method: killed.method.name(),
            processes: killed.processes.len(),
        };
        self.reaper.release(killed.processes);
        self.victims.push(Victim {
            uid: eviction.uid().clone(),
            group,
            method: killed.method,
        });
        Ok(report)
    }

    fn removal(&mut self, uid: &Uid) -> Removal {
        let Some(position) = self.victims.iter().position(|victim| &victim.uid == uid) else {
            return Removal::Gone;
        };
        let Victim { group, method, .. } = &self.victims[position];
        let empty = match kill::populated(group, self.hierarchy.version) {
            Ok(populated) => !populated,
            // A cgroup that has been removed takes all its processes with it. Any other failure (no descriptor left, no
            // memory) says nothing about them.
            Err(error) => error.means_gone(),
        };
        if !empty {
            // cgroup.kill leaves nothing behind; one round of signals may have missed a fork.
            if *method != KillMethod::CgroupKill
                && let Ok(processes) = kill::kill_again(group)
            {
                self.reaper.release(processes);
            }
            return Removal::Running;
        }
        self.victims.swap_remove(position);
        Removal::Gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cgroup::Version;

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
        let mut executor = HostExecutor::new(root, hierarchy).unwrap();
        let uid = Uid::new("hog");
        executor.victims.push(Victim {
            uid: uid.clone(),
            group,
            method: KillMethod::CgroupKill,
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
}
