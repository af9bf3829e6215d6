//! The workloads of a host: the child cgroups of the watched one.

use super::disk_use::DiskUses;
use super::inventory::Workloads;
use super::member::{Member, Reading};
use super::own::Untouchable;
use super::workload::WorkloadSpec;
use crate::model::{ObservedPod, Pod, Protection, Uid};
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, Hierarchy, protected_memory};
use std::collections::BTreeMap;

pub struct Children {
    root: CgroupDir,
    hierarchy: Hierarchy,
    specs: BTreeMap<String, WorkloadSpec>,
    untouchable: Untouchable,
    members: Vec<Member>,
}

impl Children {
    pub fn of(root: CgroupDir, hierarchy: Hierarchy, specs: Vec<WorkloadSpec>) -> Self {
        let named = specs.into_iter().map(|spec| (spec.name.clone(), spec));
        Self {
            root,
            untouchable: Untouchable::find(&hierarchy),
            hierarchy,
            specs: named.collect(),
            members: Vec::new(),
        }
    }

    /// Follows cgroups that came and went.
    fn refresh(&mut self) {
        let mut before: BTreeMap<u64, Member> =
            self.members.drain(..).map(|m| (m.group.id(), m)).collect();
        self.members = self
            .root
            .children()
            .into_iter()
            .map(|group| {
                before
                    .remove(&group.id())
                    .unwrap_or_else(|| self.member(group))
            })
            .collect();
    }

    fn member(&self, group: CgroupDir) -> Member {
        let name = group.name();
        let spec = self.specs.get(&name);
        let request = spec
            .and_then(|s| s.request)
            .unwrap_or_else(|| protected_memory(&group, self.hierarchy.version));
        // The id makes the workload another one when its cgroup is removed and made again.
        let uid = Uid::new(group.id().to_string());
        let mut pod = Pod::workload(
            uid,
            name.clone(),
            i64::try_from(request).unwrap_or(i64::MAX),
        );
        pod.priority = spec.map(|s| s.priority);
        pod.termination_grace_secs = spec.and_then(|s| s.grace_secs);
        pod.protection = if self.untouchable.is_in(group.path()) {
            Some(Protection::OwnPod)
        } else {
            spec.filter(|s| s.protect)
                .map(|s| Protection::Configured(format!("--workload {}:protect", s.name)))
        };
        let memory = GroupMemoryReader::open(&group, self.hierarchy.version).ok();
        Member::new(group, pod, memory)
    }
}

impl Workloads for Children {
    fn observe(&mut self, reading: Reading, uses: &DiskUses) -> Vec<ObservedPod> {
        self.refresh();
        let members = self.members.iter_mut();
        members
            .map(|member| member.observe(reading, uses))
            .collect()
    }
}
