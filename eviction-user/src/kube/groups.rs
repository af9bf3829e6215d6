//! The workloads of a Kubernetes node: pods, each found by its cgroup and told by the API.

use super::PodCgroup;
use super::known::Listed;
use super::member::Member;
use super::unmapped::Unmapped;
use crate::host::{DiskUses, Reading, Untouchable, WorkloadCgroups, Workloads};
use crate::model::{ObservedPod, Uid};
use crate::sys::cgroup::{CgroupDir, Hierarchy};
use crate::sys::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;

pub struct PodGroups {
    root: CgroupDir,
    hierarchy: Hierarchy,
    listed: watch::Receiver<Arc<Listed>>,
    untouchable: Untouchable,
    /// The cgroups that pods are directly below, with how many cgroups each had when it was listed.
    levels: Vec<(CgroupDir, u64)>,
    members: BTreeMap<u64, Member>,
    unmapped: Unmapped,
}

impl PodGroups {
    pub(super) fn new(
        root: CgroupDir,
        hierarchy: Hierarchy,
        listed: watch::Receiver<Arc<Listed>>,
    ) -> Self {
        Self {
            root,
            untouchable: Untouchable::find(&hierarchy),
            hierarchy,
            listed,
            levels: Vec::new(),
            members: BTreeMap::new(),
            unmapped: Unmapped::default(),
        }
    }

    /// Tells of those that the API does not tell of, once it has told of any.
    fn tell_unmapped(&mut self) {
        let listed = Arc::clone(&self.listed.borrow());
        if !listed.is_complete {
            return;
        }
        let uids = self.members.values().map(|member| &member.uid);
        let unknown = uids.filter(|uid| listed.get(uid.as_str()).is_none());
        let unknown = unknown.cloned().collect();
        for uid in self.unmapped.note(unknown, clock::now()) {
            tracing::warn!(
                %uid,
                "the cgroup of a pod that the API server does not tell of on this node: it is never evicted; is --node-name right, and is no other kubelet's pod left here?"
            );
        }
    }

    /// Has no cgroup come since they were listed, if none has gone? To list them takes longer than to read them.
    fn have_as_many(&self) -> bool {
        // One that was removed and made again counts as many as it last had.
        let as_before = |(level, count): &(CgroupDir, u64)| {
            level.child_count() == Some(*count) && level.exists()
        };
        !self.levels.is_empty() && self.levels.iter().all(as_before)
    }

    /// Follows cgroups that came and went.
    fn refresh(&mut self) {
        let mut before = std::mem::take(&mut self.members);
        self.levels.clear();
        self.list(self.root.clone(), &mut before, true);
    }

    /// `at_root`: what is no pod here is a class of service, and the others are below.
    fn list(&mut self, level: CgroupDir, before: &mut BTreeMap<u64, Member>, at_root: bool) {
        let children = level.children();
        // What is neither a pod nor a class is not watched: when it goes, nobody would notice who comes in its place.
        let is_pod = |group: &CgroupDir| uid(group).is_some();
        let count = if at_root || children.iter().all(is_pod) {
            children.len() as u64
        } else {
            u64::MAX
        };
        self.levels.push((level, count));
        for group in children {
            match uid(&group) {
                Some(uid) => {
                    let id = group.id();
                    let member = before.remove(&id);
                    let member = member.unwrap_or_else(|| self.member(uid, group));
                    self.members.insert(id, member);
                }
                None if at_root => self.list(group, before, false),
                None => {}
            }
        }
    }

    fn member(&self, uid: String, group: CgroupDir) -> Member {
        let is_ours = self.untouchable.is_in(group.path());
        Member::new(Uid::new(uid), group, self.hierarchy.version, is_ours)
    }

    /// `None`: one of them has gone, so that another one may have come unseen. `strictly`: else who has gone is left out.
    fn observe_all(
        &mut self,
        reading: Reading,
        uses: &DiskUses,
        strictly: bool,
    ) -> Option<Vec<ObservedPod>> {
        let listed = Arc::clone(&self.listed.borrow());
        let mut observed = Vec::with_capacity(self.members.len());
        for member in self.members.values_mut() {
            let known = listed.get(member.uid.as_str());
            // On its way out already, by whoever's word.
            let is_leaving = known.is_some_and(|known| known.has_ended);
            let found = if is_leaving {
                (!member.is_gone()).then_some(None)
            } else {
                let known = listed.candidate(member.uid.as_str());
                let found = member.observe(reading, uses, known.map(Arc::as_ref));
                found.map(Some)
            };
            match found {
                None if strictly => return None,
                None => {}
                Some(found) => observed.extend(found),
            }
        }
        Some(observed)
    }
}

/// In the name of a pod's own cgroup.
fn uid(group: &CgroupDir) -> Option<String> {
    let pod = PodCgroup::of(group.path().to_str()?)?;
    pod.container.is_none().then_some(pod.uid)
}

impl Workloads for PodGroups {
    fn observe(&mut self, reading: Reading, uses: &DiskUses) -> Vec<ObservedPod> {
        let as_before = if self.have_as_many() {
            self.observe_all(reading, uses, true)
        } else {
            None
        };
        let observed = as_before.unwrap_or_else(|| {
            self.refresh();
            self.observe_all(reading, uses, false).unwrap_or_default()
        });
        self.tell_unmapped();
        observed
    }

    fn cgroups(&mut self, workloads: &BTreeSet<String>) -> WorkloadCgroups {
        if !self.have_as_many() {
            self.refresh();
        }
        let asked = self.members.values_mut();
        asked
            .filter(|member| workloads.contains(member.uid.as_str()))
            .map(|member| (member.uid.to_string(), member.cgroups()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Protection;
    use serde_json::json;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// A cgroup of the machine's own; all that is in it goes with it.
    struct Pods(PathBuf);

    impl Pods {
        /// Tests run side by side.
        fn make_named(test: &str, hierarchy: &Hierarchy) -> Option<Self> {
            let name = format!("eviction-test-groups-{test}-{}", std::process::id());
            let pods = hierarchy.mount.join(name).join("kubepods");
            let made = fs::create_dir_all(&pods);
            made.inspect_err(|e| println!("skipped: cgroups can only be made by root ({e})"))
                .ok()?;
            Some(Self(pods))
        }

        fn add(&self, group: &str) {
            fs::create_dir_all(self.0.join(group)).unwrap();
        }

        fn remove(&self, group: &str) {
            remove(&self.0.join(group));
        }
    }

    impl Drop for Pods {
        fn drop(&mut self) {
            if let Some(own) = self.0.parent() {
                remove(own);
            }
        }
    }

    fn remove(group: &Path) {
        for child in fs::read_dir(group).unwrap().flatten() {
            if child.file_type().unwrap().is_dir() {
                remove(&child.path());
            }
        }
        fs::remove_dir(group).unwrap();
    }

    fn listed(uids: &[&str], ended: &str) -> Arc<Listed> {
        let mut listed = Listed::default();
        for uid in uids {
            let phase = if *uid == ended { "Failed" } else { "Running" };
            let pod = json!({
                "metadata": {"name": format!("pod-{uid}"), "uid": uid}, "status": {"phase": phase},
            });
            listed.put(&serde_json::from_value(pod).unwrap());
        }
        Arc::new(listed)
    }

    #[test]
    fn pods_that_take_the_place_of_others_are_seen_at_once() {
        let hierarchy = Hierarchy::detect().unwrap();
        let Some(pods) = Pods::make_named("places", &hierarchy) else {
            return;
        };
        for group in ["podu1", "burstable/podu2", "besteffort"] {
            pods.add(group);
        }
        let (told, heard) = watch::channel(listed(&["u1", "u2", "u4", "u5", "u6"], "u6"));
        let root = CgroupDir::open(&pods.0).unwrap();
        let mut groups = PodGroups::new(root, hierarchy, heard);
        let (reading, uses) = (Reading::default(), DiskUses::default());
        let mut seen = || {
            let all = groups.observe(reading, &uses).into_iter();
            let mut names: Vec<String> = all.map(|o| o.pod.name.clone()).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(seen(), ["pod-u1", "pod-u2"]);
        // Unknown to the API, so told by its cgroup.
        pods.add("besteffort/podu3");
        assert_eq!(seen(), ["pod-u1", "pod-u2", "podu3"]);
        pods.remove("burstable/podu2");
        pods.add("burstable/podu4");
        assert_eq!(seen(), ["pod-u1", "pod-u4", "podu3"]);
        // As many as before, in a class that was made anew.
        pods.remove("besteffort");
        pods.add("besteffort/podu5");
        assert_eq!(seen(), ["pod-u1", "pod-u4", "pod-u5"]);
        // One that has ended is nobody's candidate, also when another one takes its place.
        pods.add("podu6");
        assert_eq!(seen(), ["pod-u1", "pod-u4", "pod-u5"]);
        pods.remove("podu6");
        pods.add("podu7");
        assert_eq!(seen(), ["pod-u1", "pod-u4", "pod-u5", "podu7"]);
        // Without a node of that name nobody is known.
        told.send_modify(|listed| Arc::make_mut(listed).no_node = Some("gone".to_owned()));
        let unknown = groups.observe(reading, &uses);
        let protections: Vec<_> = unknown.iter().map(|o| o.pod.protection.clone()).collect();
        assert_eq!(protections, vec![Some(Protection::Unmapped); 4]);
    }

    #[test]
    fn the_cgroups_of_a_pod_are_its_own_and_those_below_also_new_ones() {
        let hierarchy = Hierarchy::detect().unwrap();
        let Some(pods) = Pods::make_named("ids", &hierarchy) else {
            return;
        };
        for group in ["podu1", "burstable/podu2/c1", "podu3/c1"] {
            pods.add(group);
        }
        let (_told, heard) = watch::channel(listed(&["u1", "u2", "u3"], ""));
        let root = CgroupDir::open(&pods.0).unwrap();
        let mut groups = PodGroups::new(root, hierarchy, heard);
        let asked: BTreeSet<String> = ["u1", "u2", "unknown"].map(str::to_owned).into();
        let mut matches = |expected: &[(&str, &[&str])]| {
            let id = |group: &&str| CgroupDir::open(&pods.0.join(group)).unwrap().id();
            let expected = expected.iter().map(|(uid, groups)| {
                let ids = groups.iter().map(id).collect();
                ((*uid).to_owned(), ids)
            });
            let expected: WorkloadCgroups = expected.collect();
            assert_eq!(groups.cgroups(&asked), expected);
        };
        let second: &[&str] = &["burstable/podu2", "burstable/podu2/c1"];
        matches(&[("u1", &["podu1"]), ("u2", second)]);
        pods.add("podu1/c2");
        matches(&[("u1", &["podu1", "podu1/c2"]), ("u2", second)]);
        pods.remove("podu1");
        matches(&[("u2", second)]);
    }
}
