//! Pods.

use std::collections::BTreeMap;

use eviction_core::model::{
    Container, EmptyDir, Medium, Pod, ResourceList, Resources, Toleration, Uid, Volume,
    VolumeSource,
};
use serde::Deserialize;

use super::QuantityShape;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PodShape {
    pub(crate) uid: String,
    name: String,
    namespace: String,
    #[serde(default)]
    generation: i64,
    priority: Option<i32>,
    #[expect(
        dead_code,
        reason = "recorded to show that the class name plays no part"
    )]
    priority_class: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    termination_grace_s: Option<i64>,
    status_qos_class: Option<String>,
    #[serde(default)]
    tolerations: Vec<TolerationShape>,
    #[serde(default)]
    overhead: ListShape,
    pod_resources: Option<PodResourcesShape>,
    containers: Vec<ContainerShape>,
    #[serde(default)]
    init_containers: Vec<ContainerShape>,
    #[serde(default)]
    volumes: Vec<VolumeShape>,
}

type ListShape = BTreeMap<String, QuantityShape>;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PodResourcesShape {
    #[serde(default)]
    requests: ListShape,
    #[serde(default)]
    limits: ListShape,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerShape {
    name: String,
    #[serde(default)]
    requests: ListShape,
    #[serde(default)]
    limits: ListShape,
    restart_policy: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TolerationShape {
    #[serde(default)]
    key: String,
    #[serde(default)]
    operator: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    effect: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct VolumeShape {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    medium: String,
    size_limit: Option<QuantityShape>,
}

impl PodShape {
    pub(crate) fn pod(&self) -> Pod {
        let pod = Pod::new(
            Uid::new(self.uid.as_str()),
            self.namespace.as_str(),
            self.name.as_str(),
        );
        Pod {
            generation: self.generation,
            annotations: self.annotations.clone(),
            priority: self.priority,
            termination_grace_secs: self.termination_grace_s,
            status_qos_class: self.status_qos_class.clone(),
            tolerations: self
                .tolerations
                .iter()
                .map(TolerationShape::toleration)
                .collect(),
            overhead: list(&self.overhead),
            resources: self
                .pod_resources
                .as_ref()
                .map(|pod| resources(&pod.requests, &pod.limits)),
            containers: self
                .containers
                .iter()
                .map(ContainerShape::container)
                .collect(),
            init_containers: self
                .init_containers
                .iter()
                .map(ContainerShape::container)
                .collect(),
            volumes: self.volumes.iter().map(VolumeShape::volume).collect(),
            ..pod
        }
    }
}

fn resources(requests: &ListShape, limits: &ListShape) -> Resources {
    Resources {
        requests: list(requests),
        limits: list(limits),
    }
}

fn list(shape: &ListShape) -> ResourceList {
    let get = |name| shape.get(name).map(QuantityShape::quantity);
    ResourceList {
        cpu: get("cpu"),
        memory: get("memory"),
        ephemeral_storage: get("ephemeral-storage"),
        has_hugepages: shape.keys().any(|name| name.starts_with("hugepages-")),
    }
}

impl ContainerShape {
    fn container(&self) -> Container {
        Container {
            name: self.name.clone(),
            resources: resources(&self.requests, &self.limits),
            is_sidecar: self.restart_policy.as_deref() == Some("Always"),
        }
    }
}

impl TolerationShape {
    fn toleration(&self) -> Toleration {
        Toleration {
            key: self.key.clone(),
            operator: self.operator.clone(),
            value: self.value.clone(),
            effect: self.effect.clone(),
        }
    }
}

impl VolumeShape {
    fn volume(&self) -> Volume {
        let source = match self.kind.as_str() {
            "emptyDir" => VolumeSource::EmptyDir(EmptyDir {
                medium: match self.medium.as_str() {
                    "" => Medium::Disk,
                    "Memory" => Medium::Memory,
                    _ => Medium::HugePages,
                },
                size_limit: self.size_limit.as_ref().map(QuantityShape::quantity),
            }),
            "hostPath" => VolumeSource::HostPath,
            "gitRepo" => VolumeSource::GitRepo,
            "configMap" => VolumeSource::ConfigMap,
            _ => VolumeSource::Other,
        };
        Volume {
            name: self.name.clone(),
            source,
        }
    }
}
