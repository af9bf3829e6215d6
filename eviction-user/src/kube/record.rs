//! What the API is told of an eviction, and what of it is kept over a restart.

use super::names::RECORD;
use crate::model::{Eviction, Pod};
use crate::ports::record_id;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
    generation: i64,
    pub(super) message: String,
    /// Whether the pod gets the `DisruptionTarget` condition.
    disruption: bool,
    decided: SystemTime,
    /// The Eviction API is asked for it; `None`: its status is patched.
    #[serde(default)]
    pub(super) ask: Option<Ask>,
    /// It was never let in, so nobody waits for its end.
    #[serde(default)]
    pub(super) refused: bool,
}

/// How the Eviction API is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ask {
    /// What the kubelet gives the pod. Never 0, by which the object would be gone at once, its containers not.
    pub(super) grace_secs: u32,
    /// Once it is granted we kill the pod.
    pub(super) kills: bool,
}

/// The kubelet hears of it, ends the pod after its grace, and may be busy (measured: up to 1.6 s more than the grace).
const MARGIN: Duration = Duration::from_secs(5);

impl Ask {
    /// Once it is granted.
    pub(super) fn time_to_leave(self) -> Duration {
        if self.kills {
            return Duration::ZERO;
        }
        Duration::from_secs(self.grace_secs.into()) + MARGIN
    }
}

impl Record {
    /// Of a pod that is not let in: as the kubelet's own refusal, without a condition of the pod.
    pub(super) fn of_refused(pod: &Pod, message: String) -> Self {
        Self {
            id: format!("refused-{}", pod.uid),
            uid: pod.uid.to_string(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            generation: pod.generation,
            message,
            disruption: false,
            decided: SystemTime::now(),
            ask: None,
            refused: true,
        }
    }

    pub(super) fn of(id: u64, eviction: &Eviction, ask: Option<Ask>) -> Self {
        let pod = &eviction.pod;
        Self {
            id: record_id(id),
            uid: pod.uid.to_string(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            generation: pod.generation,
            message: eviction.message.clone(),
            disruption: eviction.disruption_condition,
            decided: SystemTime::now(),
            ask,
            refused: false,
        }
    }

    /// When it is to be killed if it is still there; `None`: it has been.
    pub(super) fn leaves_until(&self) -> Option<SystemTime> {
        Some(self.decided + self.ask?.time_to_leave())
    }

    /// For a strategic merge into the pod's status, which merges conditions by their type. A pod of another uid refuses it. `round`
    /// changes the annotation: the kubelet hears of the same patch again only if it does.
    pub(super) fn patch(&self, round: u32) -> Value {
        let mark = match round {
            0 => self.id.clone(),
            again => format!("{}.{again}", self.id),
        };
        let mut status = json!({
            "phase": "Failed",
            "reason": "Evicted",
            "message": self.message,
        });
        if self.disruption {
            status["conditions"] = json!([{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "TerminationByKubelet",
                "message": self.message,
                "observedGeneration": self.generation,
                "lastTransitionTime": humantime::format_rfc3339_seconds(self.decided).to_string(),
            }]);
        }
        json!({
            "metadata": {"uid": self.uid, "annotations": {RECORD: mark}},
            "status": status,
        })
    }

    /// Was this annotation written by one of the patches?
    pub(super) fn wrote(&self, annotation: &str) -> bool {
        let rest = annotation.strip_prefix(&self.id);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// How the name of a file ends that is not complete yet.
const UNFINISHED: &str = "next";

/// The records that have been begun, a file each. Without a folder nothing is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept(Option<PathBuf>);

impl Kept {
    pub(super) fn below(state: Option<&Path>) -> io::Result<Self> {
        let folder = state.map(|state| state.join("records"));
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder)?;
            for file in std::fs::read_dir(folder)? {
                let path = file?.path();
                // Of a process that ended while it wrote; nobody would ever remove it.
                if path.extension().is_some_and(|end| end == UNFINISHED) {
                    std::fs::remove_file(path)?;
                }
            }
        }
        Ok(Self(folder))
    }

    /// Those that an earlier process has left; what makes no sense is passed over.
    pub(super) fn read(&self) -> Vec<Record> {
        let Some(folder) = &self.0 else {
            return Vec::new();
        };
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .filter(|file| file.path().extension().is_some_and(|end| end == "json"))
            .filter_map(|file| serde_json::from_slice(&std::fs::read(file.path()).ok()?).ok())
            .collect()
    }

    /// The file is there as a whole or not at all.
    pub(super) fn put(&self, record: &Record) -> io::Result<()> {
        let Some(path) = self.path(record) else {
            return Ok(());
        };
        let next = path.with_extension(UNFINISHED);
        std::fs::write(&next, serde_json::to_vec(record)?)?;
        std::fs::rename(next, path)
    }

    pub(super) fn remove(&self, record: &Record) {
        if let Some(path) = self.path(record) {
            // It is there unless somebody else has removed it.
            let _ = std::fs::remove_file(path);
        }
    }

    fn path(&self, record: &Record) -> Option<PathBuf> {
        // A uid is a UUID or digits: no separators. A pod that was asked for may have to be patched, too.
        let asked = record.ask.map_or("", |_| ".asked");
        Some(self.0.as_ref()?.join(format!("{}{asked}.json", record.uid)))
    }
}

#[cfg(test)]
impl Record {
    pub(super) fn for_tests() -> Self {
        Self {
            id: "7-1".into(),
            uid: "7c1b".into(),
            namespace: "shop".into(),
            name: "web-0".into(),
            generation: 3,
            message: "The node was low on resource: memory. ".into(),
            disruption: true,
            decided: SystemTime::UNIX_EPOCH,
            ask: None,
            refused: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record::for_tests()
    }

    #[test]
    fn the_patch_is_the_kubelets_status_with_our_annotation_for_this_very_pod() {
        let expected = json!({
            "metadata": {"uid": "7c1b", "annotations": {"eviction.dev/record": "7-1"}},
            "status": {
                "phase": "Failed",
                "reason": "Evicted",
                "message": "The node was low on resource: memory. ",
                "conditions": [{
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "TerminationByKubelet",
                    "message": "The node was low on resource: memory. ",
                    "observedGeneration": 3,
                    "lastTransitionTime": "1970-01-01T00:00:00Z",
                }],
            },
        });
        assert_eq!(record().patch(0), expected);
        let storage = Record {
            disruption: false,
            ..record()
        };
        assert_eq!(storage.patch(0)["status"]["conditions"], Value::Null);
    }

    #[test]
    fn a_refusal_is_the_kubelets_with_our_annotation_and_no_condition() {
        let pod = Pod {
            generation: 1,
            ..Pod::new(crate::model::Uid::new("7c1b"), "shop", "web-0")
        };
        let message = "The node had condition: [MemoryPressure]. ";
        let refused = Record::of_refused(&pod, message.to_owned());
        assert_eq!(
            refused.patch(1),
            json!({
                "metadata": {"uid": "7c1b", "annotations": {RECORD: "refused-7c1b.1"}},
                "status": {"phase": "Failed", "reason": "Evicted", "message": message},
            })
        );
        let text = serde_json::to_string(&record()).unwrap();
        let older = text.replace(",\"refused\":false", "");
        assert_ne!(older, text);
        assert_eq!(serde_json::from_str::<Record>(&older).unwrap(), record());
    }

    #[test]
    fn each_round_changes_the_annotation_and_all_are_known_again() {
        let record = record();
        let again = record.patch(2);
        let mark = again["metadata"]["annotations"][RECORD].as_str().unwrap();
        assert_eq!(mark, "7-1.2");
        assert!(record.wrote("7-1") && record.wrote(mark));
        assert!(!record.wrote("7-12") && !record.wrote("8-1"));
    }

    #[test]
    fn what_was_begun_is_found_by_the_next_process() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::below(Some(state.path())).unwrap();
        kept.put(&record()).unwrap();
        std::fs::write(state.path().join("records/x.json"), "nonsense").unwrap();
        let next = Kept::below(Some(state.path())).unwrap();
        assert_eq!(next.read(), [record()]);
        next.remove(&record());
        assert_eq!(next.read(), []);
        assert_eq!(Kept::below(None).unwrap().read(), []);
    }

    #[test]
    fn a_pod_that_was_asked_for_and_patched_has_both_records_and_an_old_file_asks_for_nothing() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::below(Some(state.path())).unwrap();
        let (grace_secs, kills) = (30, false);
        let asked = Record {
            ask: Some(Ask { grace_secs, kills }),
            ..record()
        };
        kept.put(&asked).unwrap();
        kept.put(&record()).unwrap();
        assert_eq!(kept.read().len(), 2);
        kept.remove(&asked);
        assert_eq!(kept.read(), [record()]);
        assert_eq!(record().leaves_until(), None);
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(35);
        assert_eq!(asked.leaves_until(), Some(until));
        let mut old = serde_json::to_value(record()).unwrap();
        old.as_object_mut().unwrap().remove("ask");
        assert_eq!(serde_json::from_value::<Record>(old).unwrap(), record());
    }

    #[test]
    fn half_a_record_of_an_earlier_process_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::below(Some(state.path())).unwrap();
        kept.put(&record()).unwrap();
        let half = state.path().join("records/7c1c.next");
        std::fs::write(&half, "{").unwrap();
        let next = Kept::below(Some(state.path())).unwrap();
        assert!(!half.exists());
        assert_eq!(next.read(), [record()]);
    }
}
