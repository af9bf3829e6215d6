//! What is wrong with annotations by which pods ask for something, told once a pod: whoever may annotate a pod could fill the log else.

use super::convert;
use crate::model::{MalformedWish, Wishes, annotation};

use k8s_openapi::api::core::v1 as api;
use std::collections::BTreeSet;

const OURS: [&str; 3] = [
    annotation::PROTECT,
    annotation::PREFER,
    annotation::MEMORY_THRESHOLD,
];

/// The uids of those that were told of, as long as they are there.
#[derive(Debug, Default)]
pub(super) struct Complaints(BTreeSet<String>);

impl Complaints {
    /// What is to be told of a pod now.
    pub(super) fn about(&mut self, pod: &api::Pod) -> Vec<MalformedWish> {
        let annotations = pod.metadata.annotations.as_ref();
        if !annotations.is_some_and(|all| OURS.iter().any(|key| all.contains_key(*key))) {
            return Vec::new();
        }
        let (_, malformed) = Wishes::of(&convert::pod(pod));
        if malformed.is_empty() || !self.0.insert(uid(pod)) {
            return Vec::new();
        }
        malformed
    }

    /// The pod is no more.
    pub(super) fn forget(&mut self, pod: &api::Pod) {
        self.0.remove(&uid(pod));
    }

    /// Those that are not there are no more.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|uid| is_there(uid));
    }
}

fn uid(pod: &api::Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(uid: &str, protect: &str) -> api::Pod {
        let annotations = json!({"eviction.dev/protect": protect, "eviction.dev/prefer": protect});
        let metadata = json!({"uid": uid, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_pod_is_complained_of_once_while_it_is_there() {
        let mut complaints = Complaints::default();
        let mut told = |uid, protect| complaints.about(&pod(uid, protect)).len();
        assert_eq!(told("a", "true"), 0);
        assert_eq!(told("a", "yes"), 2);
        assert_eq!(told("a", "no"), 0, "told already");
        assert_eq!(told("b", "yes"), 2);
        complaints.forget(&pod("a", ""));
        complaints.keep(|uid| uid != "b");
        assert!(complaints.0.is_empty());
    }
}
