//! Which pods have limits of their own on what they hold on disks, and where that lies.

use super::disk::{PodPlaces, layers_now};
use super::identity::is_uid;
use super::known::{KnownPod, Listed};
use crate::host::{Limited, LimitedNow, LimitedPart};
use crate::model::{LocalStorageLimit, Pod};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// The policy's answer to which limits a pod has, each with the bytes up to which it holds.
pub type LimitsOf = fn(&Pod) -> Vec<(LocalStorageLimit, u64)>;

pub(super) fn limited(
    listed: watch::Receiver<Arc<Listed>>,
    places: PodPlaces,
    limits_of: LimitsOf,
) -> LimitedNow {
    Box::new(move || {
        let listed = Arc::clone(&listed.borrow());
        of_all(&listed, &places, limits_of, layers_now)
    })
}

/// `layers`: by the ids of their containers; asked if anybody is limited.
fn of_all(
    listed: &Listed,
    places: &PodPlaces,
    limits_of: LimitsOf,
    layers: impl FnOnce() -> BTreeMap<String, PathBuf>,
) -> Vec<Limited> {
    // A static pod is nobody's victim, and goes by another name here.
    let is_judged = |uid: &str, known: &KnownPod| {
        is_uid(uid) && !known.has_ended && known.pod.uid.as_str() == uid
    };
    let pods = listed.pods.iter();
    let with_limits = pods
        .filter(|(uid, known)| is_judged(uid, known))
        .map(|(uid, known)| (uid, known, limits_of(&known.pod)))
        .filter(|(_, _, limits)| !limits.is_empty());
    let with_limits: Vec<_> = with_limits.collect();
    if with_limits.is_empty() {
        return Vec::new();
    }
    let layers = layers();
    with_limits
        .into_iter()
        .map(|(uid, known, limits)| Limited {
            workload: uid.clone(),
            parts: limits
                .into_iter()
                .map(|(limit, most)| part(uid, known, limit, most, places, &layers))
                .collect(),
        })
        .collect()
}

fn part(
    uid: &str,
    known: &KnownPod,
    limit: LocalStorageLimit,
    most: u64,
    places: &PodPlaces,
    layers: &BTreeMap<String, PathBuf>,
) -> LimitedPart {
    let layers_of = |is_its: &dyn Fn(&str) -> bool| -> Vec<PathBuf> {
        let own = known.containers.iter().filter(|(_, name)| is_its(name));
        own.filter_map(|(id, _)| layers.get(id)).cloned().collect()
    };
    let logs = places.logs(&known.pod, uid);
    let (layers, files) = match &limit {
        LocalStorageLimit::EmptyDir { volume } => (Vec::new(), vec![places.volume(uid, volume)]),
        // What is mounted below the pod's directory does not count: volumes in memory, other disks.
        LocalStorageLimit::Pod => (layers_of(&|_| true), vec![places.pod(uid), logs]),
        LocalStorageLimit::Container { name } => (
            layers_of(&|container| container == name),
            vec![logs.join(name)],
        ),
    };
    LimitedPart {
        limit,
        most,
        layers,
        files,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn listed(pods: &[Value]) -> Listed {
        let mut listed = Listed::default();
        for pod in pods {
            listed.put(&serde_json::from_value(pod.clone()).unwrap());
        }
        listed
    }

    fn pod(uid: &str, phase: &str, annotations: &Value) -> Value {
        let status = |name: &str| {
            json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                "containerID": format!("containerd://{uid}-{name}")})
        };
        json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": uid, "annotations": annotations},
            "status": {"phase": phase, "containerStatuses": [status("c"), status("d")]},
        })
    }

    fn three(pod: &Pod) -> Vec<(LocalStorageLimit, u64)> {
        if pod.uid.as_str() == "free" {
            return Vec::new();
        }
        let volume = "data".to_owned();
        let name = "c".to_owned();
        vec![
            (LocalStorageLimit::EmptyDir { volume }, 1),
            (LocalStorageLimit::Pod, 2),
            (LocalStorageLimit::Container { name }, 3),
        ]
    }

    fn places() -> PodPlaces {
        PodPlaces {
            kubelet: "/k".into(),
            logs: "/l".into(),
        }
    }

    #[test]
    fn each_limit_with_the_directories_that_count_for_it() {
        let none = json!({});
        let mirror =
            json!({"kubernetes.io/config.hash": "ba1c", "kubernetes.io/config.mirror": "ba1c"});
        let listed = listed(&[
            pod("u1", "Running", &none),
            pod("u2", "Failed", &none),
            pod("free", "Running", &none),
            pod("u3", "Running", &mirror),
        ]);
        let layers = || {
            [
                ("u1-c", "/layers/c"),
                ("u1-d", "/layers/d"),
                ("x", "/layers/x"),
            ]
            .map(|(id, dir)| (id.to_owned(), dir.into()))
            .into()
        };
        let found = of_all(&listed, &places(), three, layers);
        let workloads: Vec<_> = found.iter().map(|one| one.workload.as_str()).collect();
        assert_eq!(workloads, ["u1"], "ended, without limits, static");
        let dirs = |dirs: &[PathBuf]| -> Vec<String> {
            dirs.iter().map(|dir| dir.display().to_string()).collect()
        };
        let parts: Vec<_> = found[0]
            .parts
            .iter()
            .map(|part| (part.most, dirs(&part.layers), dirs(&part.files)))
            .collect();
        let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let expected = [
            (
                1,
                texts(&[]),
                texts(&["/k/pods/u1/volumes/kubernetes.io~empty-dir/data"]),
            ),
            (
                2,
                texts(&["/layers/c", "/layers/d"]),
                texts(&["/k/pods/u1", "/l/shop_web_u1"]),
            ),
            (3, texts(&["/layers/c"]), texts(&["/l/shop_web_u1/c"])),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn where_nobody_is_limited_no_mount_is_read() {
        let listed = listed(&[pod("free", "Running", &json!({}))]);
        let found = of_all(&listed, &places(), three, || panic!("read in vain"));
        assert_eq!(found, []);
    }
}
