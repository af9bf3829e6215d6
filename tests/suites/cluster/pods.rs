//! The pods of the stories.

use serde_json::{Value, json};
use xtask::cluster::{LOAD, NODE};

const MIB: u64 = 1 << 20;

/// What a pod's only container does, and what it was promised.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) name: &'static str,
    pub(crate) namespace: &'static str,
    pub(crate) load: Vec<String>,
    /// `None`: BestEffort.
    pub(crate) request: Option<&'static str>,
    /// The request is the limit, too, for memory and CPU: Guaranteed.
    pub(crate) is_guaranteed: bool,
    pub(crate) class: Option<&'static str>,
    pub(crate) restart: &'static str,
    /// Where it has a volume on the node's disk (emptyDir).
    pub(crate) volume: Option<&'static str>,
    /// Of that volume.
    pub(crate) size_limit: Option<&'static str>,
    /// Limit of ephemeral-storage.
    pub(crate) storage: Option<&'static str>,
}

impl Wish {
    /// Takes so much at once, and stays.
    pub(crate) fn holding(name: &'static str, mib: u64) -> Self {
        Self {
            name,
            namespace: "default",
            load: vec!["hold".to_owned(), (mib * MIB).to_string()],
            request: None,
            is_guaranteed: false,
            class: None,
            restart: "Always",
            volume: None,
            size_limit: None,
            storage: None,
        }
    }

    /// Takes all that it can get, so many MiB each second.
    pub(crate) fn hog(name: &'static str, mib_per_s: u64) -> Self {
        Self::hog_of(name, 4096, mib_per_s)
    }

    /// Crosses the line and stops before all memory is used up: nobody but us ends it.
    pub(crate) fn stopping_hog(name: &'static str, mib_per_s: u64) -> Self {
        Self::hog_of(name, 1180, mib_per_s)
    }

    fn hog_of(name: &'static str, mib: u64, mib_per_s: u64) -> Self {
        let (all, rate) = (mib * MIB, mib_per_s * MIB);
        Self {
            load: vec!["hog".to_owned(), all.to_string(), rate.to_string()],
            request: Some("16Mi"),
            ..Self::holding(name, 0)
        }
    }

    pub(crate) fn pod(&self) -> Value {
        self.pod_on(NODE)
    }

    pub(crate) fn pod_on(&self, node: &str) -> Value {
        let mut spec = self.spec();
        spec["nodeName"] = json!(node);
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": spec,
        })
    }

    /// The same pod under another name.
    pub(crate) fn pod_named(&self, name: &str) -> Value {
        let mut pod = self.pod();
        pod["metadata"]["name"] = json!(name);
        pod
    }

    pub(crate) fn replica_set(&self) -> Value {
        let labels = json!({"app": self.name});
        json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": self.spec()},
            },
        })
    }

    fn spec(&self) -> Value {
        let mut resources = json!({});
        if let Some(memory) = self.request {
            resources["requests"] = json!({"memory": memory});
            if self.is_guaranteed {
                let both = json!({"memory": memory, "cpu": "10m"});
                resources = json!({"requests": both, "limits": both});
            }
        }
        if let Some(storage) = self.storage {
            resources["limits"]["ephemeral-storage"] = json!(storage);
            // Else it is the limit, and the node may not have as much.
            resources["requests"]["ephemeral-storage"] = json!("1Mi");
        }
        let mut spec = json!({
            "hostNetwork": true,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "restartPolicy": self.restart,
            "containers": [{
                "name": "c",
                "image": LOAD,
                "imagePullPolicy": "Never",
                "args": self.load,
                "resources": resources,
            }],
        });
        if let Some(place) = self.volume {
            let limit = self.size_limit.map(|limit| ("sizeLimit", limit));
            let dir: serde_json::Map<String, Value> = limit
                .into_iter()
                .map(|(key, value)| (key.to_owned(), json!(value)))
                .collect();
            spec["volumes"] = json!([{"name": "data", "emptyDir": dir}]);
            spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": place}]);
        }
        if let Some(class) = self.class {
            spec["priorityClassName"] = json!(class);
        }
        spec
    }
}
