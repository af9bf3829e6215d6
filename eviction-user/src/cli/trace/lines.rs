//! What `eviction trace` prints: one line, or one JSON object, per thing that happened.

use crate::bpf::Stall;
use crate::kube::PodCgroup;
use crate::model::Resource;
use crate::ports::{OomVictim, PressureEvent};
use crate::sys::cgroup::{CgroupNames, PAGE_SIZE};
use crate::sys::clock;
use crate::telemetry::record::{Output, wall_clock};
use bytesize::ByteSize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) struct Lines {
    pub(super) output: Output,
    pub(super) names: CgroupNames,
    /// What each cgroup had stalled when it was last printed.
    pub(super) stalls: BTreeMap<u64, Stall>,
    /// Lost so far, as it was last printed.
    pub(super) lost: u64,
}

impl Lines {
    pub(super) fn event(&mut self, event: &PressureEvent) -> String {
        let resource = event.signal.resource();
        let (kind, unit) = match resource {
            Resource::Memory => ("memory", "pages"),
            Resource::EphemeralStorage => ("bytes", "bytes"),
            Resource::Inodes => ("inode", "inodes"),
            Resource::Pids => ("task", "tasks"),
        };
        let group = self.group(event.cgroup);
        match self.output {
            Output::Text => {
                let amount = match resource {
                    Resource::Memory => {
                        ByteSize::b(event.amount.saturating_mul(PAGE_SIZE)).to_string()
                    }
                    Resource::EphemeralStorage => ByteSize::b(event.amount).to_string(),
                    Resource::Inodes | Resource::Pids => event.amount.to_string(),
                };
                format!(
                    "{} {kind:<7} {amount:>10} {} pid {} {group}",
                    wall_clock(event.time),
                    event.rung,
                    event.pid
                )
            }
            Output::Json => with_pod(
                &group,
                json!({
                    "time": wall_clock(event.time),
                    "t_ns": event.time.as_nanos(),
                    "kind": kind,
                    "cgroup": group,
                    "cgroup_id": event.cgroup,
                    "amount": event.amount,
                    "unit": unit,
                    "rung": event.rung,
                    "pid": event.pid,
                    "notify_us": micros(clock::elapsed_since(event.time)),
                }),
            )
            .to_string(),
        }
    }

    pub(super) fn victim(&mut self, victim: &OomVictim) -> String {
        let group = self.group(victim.cgroup);
        match self.output {
            Output::Text => format!(
                "{} oom     killed pid {} {group}",
                wall_clock(victim.time),
                victim.pid
            ),
            Output::Json => with_pod(
                &group,
                json!({
                    "time": wall_clock(victim.time),
                    "t_ns": victim.time.as_nanos(),
                    "kind": "oom",
                    "cgroup": group,
                    "cgroup_id": victim.cgroup,
                    "pid": victim.pid,
                    "notify_us": micros(clock::elapsed_since(victim.time)),
                }),
            )
            .to_string(),
        }
    }

    /// A line for each cgroup whose tasks waited in direct reclaim since the last call.
    pub(super) fn stalls(&mut self, now: impl Iterator<Item = (u64, Stall)>) -> Vec<String> {
        now.filter_map(|(cgroup, total)| {
            let before = self.stalls.insert(cgroup, total).unwrap_or_default();
            let new = since(before, total)?;
            Some(self.stall(cgroup, new))
        })
        .collect()
    }

    /// A line if more was lost since the last call. `total`: events and changes of cgroups that found a buffer full.
    pub(super) fn lost(&mut self, total: u64) -> Option<String> {
        let new = total.checked_sub(self.lost).filter(|new| *new > 0)?;
        self.lost = total;
        let now = clock::now();
        Some(match self.output {
            Output::Text => format!("{} lost    {new} events", wall_clock(now)),
            Output::Json => json!({
                "time": wall_clock(now),
                "t_ns": now.as_nanos(),
                "kind": "lost",
                "count": new,
            })
            .to_string(),
        })
    }

    fn stall(&mut self, cgroup: u64, stall: Stall) -> String {
        let group = self.group(cgroup);
        let (now, total) = (clock::now(), Duration::from_nanos(stall.total_ns));
        match self.output {
            Output::Text => format!(
                "{} reclaim {total:>10.1?} in {} direct reclaims {group}",
                wall_clock(now),
                stall.times
            ),
            Output::Json => with_pod(
                &group,
                json!({
                    "time": wall_clock(now),
                    "t_ns": now.as_nanos(),
                    "kind": "reclaim",
                    "cgroup": group,
                    "cgroup_id": cgroup,
                    "stall_us": micros(total),
                    "times": stall.times,
                }),
            )
            .to_string(),
        }
    }

    fn group(&mut self, id: u64) -> String {
        self.names.name(id).unwrap_or("unknown").to_owned()
    }
}

/// Adds what Kubernetes calls the cgroup, if it is one of a pod.
fn with_pod(group: &str, mut line: Value) -> Value {
    if let Some(pod) = PodCgroup::of(group) {
        line["pod_uid"] = pod.uid.into();
        line["pod_qos"] = pod.qos.name().into();
        line["container_id"] = pod.container.into();
    }
    line
}

/// `None` if nothing was added. A smaller total started anew: the kernel's table had no room for it in between.
fn since(before: Stall, total: Stall) -> Option<Stall> {
    let new = match total.times.checked_sub(before.times) {
        Some(times) => Stall {
            total_ns: total.total_ns.saturating_sub(before.total_ns),
            times,
        },
        None => total,
    };
    (new.times > 0).then_some(new)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn stall(total_ns: u64, times: u64) -> Stall {
        Stall { total_ns, times }
    }

    #[test]
    fn only_what_was_added_counts_and_a_table_that_forgot_starts_anew() {
        let before = stall(900, 3);
        assert_eq!(since(before, before), None);
        assert_eq!(since(before, stall(1000, 4)), Some(stall(100, 1)));
        assert_eq!(since(before, stall(50, 1)), Some(stall(50, 1)));
        assert_eq!(since(Stall::default(), before), Some(before));
    }

    #[test]
    fn a_line_about_a_pods_cgroup_says_which_pod() {
        let id = "a".repeat(64);
        let line = with_pod(&format!("/kubepods/burstable/pod12-ab/{id}"), json!({}));
        let expected = json!({"pod_uid": "12-ab", "pod_qos": "Burstable", "container_id": id});
        assert_eq!(line, expected);
        let pod = with_pod("/kubepods/pod12-ab", json!({}));
        assert_eq!(pod["container_id"], Value::Null);
        assert_eq!(with_pod("/system.slice", json!({})), json!({}));
    }
}
