//! The API's pod as the policy sees it. Pure.

use crate::model::{
    Container, EmptyDir, Medium, Pod, Quantity, ResourceList, Resources, Toleration, Uid, Volume,
    VolumeSource, annotation,
};
use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use std::collections::BTreeMap;

type Amounts = BTreeMap<String, ApiQuantity>;

pub(super) fn pod(from: &api::Pod) -> Pod {
    let meta = &from.metadata;
    let mut pod = Pod::new(
        Uid::new(meta.uid.as_deref().unwrap_or_default()),
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    );
    pod.generation = meta.generation.unwrap_or_default();
    pod.labels = meta.labels.clone().unwrap_or_default();
    pod.annotations = meta.annotations.clone().unwrap_or_default();
    // A pod must not talk itself out of being a victim: the kubelet, too, writes another value over it in a pod of the API's, unless
    // that stands for a static pod (`pkg/kubelet/config/apiserver.go`, `SetDefaults` of the source).
    if !pod.annotations.contains_key(annotation::CONFIG_MIRROR) {
        pod.annotations.remove(annotation::CONFIG_SOURCE);
    }
    pod.status_qos_class = from.status.as_ref().and_then(|s| s.qos_class.clone());
    if let Some(spec) = &from.spec {
        pod.priority = spec.priority;
        pod.termination_grace_secs = spec.termination_grace_period_seconds;
        let tolerations = spec.tolerations.iter().flatten();
        pod.tolerations = tolerations.map(toleration).collect();
        pod.overhead = amounts(spec.overhead.as_ref());
        pod.resources = spec.resources.as_ref().map(resources);
        pod.containers = spec.containers.iter().map(container).collect();
        let init = spec.init_containers.iter().flatten();
        pod.init_containers = init.map(container).collect();
        pod.volumes = spec.volumes.iter().flatten().map(volume).collect();
    }
    pod
}

fn toleration(from: &api::Toleration) -> Toleration {
    let text = |given: &Option<String>| given.clone().unwrap_or_default();
    Toleration {
        key: text(&from.key),
        operator: text(&from.operator),
        value: text(&from.value),
        effect: text(&from.effect),
    }
}

fn container(from: &api::Container) -> Container {
    Container {
        name: from.name.clone(),
        resources: from.resources.as_ref().map(resources).unwrap_or_default(),
        is_sidecar: from.restart_policy.as_deref() == Some("Always"),
    }
}

fn resources(from: &api::ResourceRequirements) -> Resources {
    Resources {
        requests: amounts(from.requests.as_ref()),
        limits: amounts(from.limits.as_ref()),
    }
}

fn amounts(from: Option<&Amounts>) -> ResourceList {
    let Some(from) = from else {
        return ResourceList::default();
    };
    let of = |name| from.get(name).and_then(quantity);
    ResourceList {
        cpu: of("cpu"),
        memory: of("memory"),
        ephemeral_storage: of("ephemeral-storage"),
        has_hugepages: from.keys().any(|name| name.starts_with("hugepages-")),
    }
}

/// The API server lets no other pass.
fn quantity(from: &ApiQuantity) -> Option<Quantity> {
    from.0.parse().ok()
}

fn volume(from: &api::Volume) -> Volume {
    let source = if let Some(dir) = &from.empty_dir {
        VolumeSource::EmptyDir(EmptyDir {
            medium: medium(dir.medium.as_deref()),
            size_limit: dir.size_limit.as_ref().and_then(quantity),
        })
    } else if from.host_path.is_some() {
        VolumeSource::HostPath
    } else if from.git_repo.is_some() {
        VolumeSource::GitRepo
    } else if from.config_map.is_some() {
        VolumeSource::ConfigMap
    } else {
        VolumeSource::Other
    };
    Volume {
        name: from.name.clone(),
        source,
    }
}

fn medium(name: Option<&str>) -> Medium {
    match name {
        Some("Memory") => Medium::Memory,
        Some(name) if name.starts_with("HugePages") => Medium::HugePages,
        _ => Medium::Disk,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_that_the_policy_asks_for_is_taken_over() {
        let given = json!({
            "metadata": {
                "name": "web-0", "namespace": "shop", "uid": "7c1b", "generation": 3,
                "labels": {"app": "web"}, "annotations": {"a": "b"},
            },
            "spec": {
                "priority": -7, "terminationGracePeriodSeconds": 20,
                "overhead": {"memory": "120Mi"},
                "resources": {"requests": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}},
                "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
                "containers": [{
                    "name": "c",
                    "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"ephemeral-storage": "1e9"}},
                }],
                "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "once"}],
                "volumes": [
                    {"name": "scratch", "emptyDir": {"sizeLimit": "10Mi"}},
                    {"name": "ram", "emptyDir": {"medium": "Memory"}},
                    {"name": "pages", "emptyDir": {"medium": "HugePages-2Mi"}},
                    {"name": "host", "hostPath": {"path": "/x"}},
                    {"name": "config", "configMap": {"name": "x"}},
                    {"name": "secret", "secret": {"secretName": "x"}},
                ],
            },
            "status": {"qosClass": "Burstable"},
        });
        let pod = pod(&serde_json::from_value(given).unwrap());
        let quantity = |text: &str| text.parse::<Quantity>().ok();
        assert_eq!((pod.uid.as_str(), pod.namespace.as_str()), ("7c1b", "shop"));
        assert_eq!((pod.name.as_str(), pod.generation), ("web-0", 3));
        assert_eq!(pod.labels["app"], "web");
        assert_eq!(pod.annotations["a"], "b");
        assert_eq!(pod.priority, Some(-7));
        assert_eq!(pod.termination_grace_secs, Some(20));
        assert_eq!(pod.status_qos_class.as_deref(), Some("Burstable"));
        assert_eq!(pod.overhead.memory, quantity("120Mi"));
        let level = pod.resources.unwrap().requests;
        assert_eq!((level.memory, level.has_hugepages), (quantity("1Gi"), true));
        assert_eq!(pod.tolerations[0].effect, "NoSchedule");
        let container = &pod.containers[0].resources;
        assert_eq!(container.requests.cpu, quantity("250m"));
        assert_eq!(container.limits.ephemeral_storage, quantity("1e9"));
        let sidecars: Vec<bool> = pod.init_containers.iter().map(|c| c.is_sidecar).collect();
        assert_eq!(sidecars, [true, false]);
        let sources: Vec<VolumeSource> = pod.volumes.into_iter().map(|v| v.source).collect();
        let empty = |medium, limit: Option<&str>| {
            VolumeSource::EmptyDir(EmptyDir {
                medium,
                size_limit: limit.and_then(quantity),
            })
        };
        assert_eq!(
            sources,
            [
                empty(Medium::Disk, Some("10Mi")),
                empty(Medium::Memory, None),
                empty(Medium::HugePages, None),
                VolumeSource::HostPath,
                VolumeSource::ConfigMap,
                VolumeSource::Other,
            ]
        );
    }

    #[test]
    fn only_who_stands_for_a_static_pod_is_taken_for_one() {
        let source = |annotations| {
            let given = json!({"metadata": {"annotations": annotations}});
            let pod = pod(&serde_json::from_value(given).unwrap());
            pod.annotations.get(annotation::CONFIG_SOURCE).cloned()
        };
        let claimed = json!({"kubernetes.io/config.source": "file"});
        assert_eq!(source(claimed), None);
        let mirror =
            json!({"kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "x"});
        assert_eq!(source(mirror).as_deref(), Some("file"));
    }

    #[test]
    fn what_is_missing_stays_missing() {
        let pod = pod(&serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap());
        assert_eq!(pod, Pod::new(Uid::new(""), "", "a"));
    }
}
