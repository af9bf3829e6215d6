//! What each value does to the manifests.

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::Case;
use serde_json::{Value, json};

use crate::rendered::{Objects, chart, render};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "without a value it installs for good, at the least rights",
            defaults,
        ),
        Case::new("values change the pod as they say", pods),
        Case::new("values become arguments of the program", arguments),
        Case::new("disks are mounted where they are watched", disks),
        Case::new(
            "the runtime's socket is mounted where it is named and a disk is watched",
            socket,
        ),
        Case::new("names follow the release unless they are given", names),
        Case::new("additions reach the program as a file", additions),
    ]
}

fn defaults() -> Result<()> {
    let objects = render(&chart()?, &json!({}))?;
    let spec = &objects.pod()?["spec"];
    let container = objects.container()?;
    let resources = &container["resources"];
    ensure!(
        resources["requests"] == resources["limits"]
            && resources["limits"] == json!({"cpu": "100m", "memory": "96Mi"}),
        "not Guaranteed: {resources}"
    );
    let others = spec["containers"].as_array().map(Vec::len);
    ensure!(others == Some(1) && spec.get("initContainers").is_none());
    for (path, expected) in [
        ("/priorityClassName", json!("system-node-critical")),
        ("/tolerations", json!([{"operator": "Exists"}])),
        ("/hostPID", json!(true)),
        ("/serviceAccountName", json!("eviction")),
        ("/containers/0/image", json!("localhost/eviction:0.1.0")),
        (
            "/containers/0/securityContext/readOnlyRootFilesystem",
            json!(true),
        ),
        (
            "/containers/0/securityContext/allowPrivilegeEscalation",
            json!(false),
        ),
        (
            "/containers/0/securityContext/capabilities/drop",
            json!(["ALL"]),
        ),
        (
            "/containers/0/livenessProbe/httpGet",
            json!({"path": "/livez", "port": "metrics"}),
        ),
        (
            "/containers/0/startupProbe/httpGet",
            json!({"path": "/livez", "port": "metrics"}),
        ),
        (
            "/containers/0/readinessProbe/httpGet",
            json!({"path": "/readyz", "port": "metrics"}),
        ),
    ] {
        ensure!(spec.pointer(path) == Some(&expected), "{path}: {spec}");
    }
    let added = &container["securityContext"]["capabilities"]["add"];
    let allowed = [
        "BPF",
        "PERFMON",
        "KILL",
        "SYS_PTRACE",
        "DAC_OVERRIDE",
        "SYS_NICE",
        "IPC_LOCK",
    ];
    ensure!(added == &json!(allowed), "other capabilities: {added}");
    let arguments = objects.arguments()?;
    ensure!(!arguments.contains(&"--dry-run"));
    // 100 MiB above the kubelet's default.
    ensure!(arguments.contains(&"--eviction-hard=memory.available<200Mi"));
    let variables = container["env"].to_string();
    ensure!(!variables.contains("KUBERNETES_SERVICE"), "{variables}");
    // Where a victim is killed, and what a restart goes on with; nothing else of the node.
    let mounts = container["volumeMounts"].as_array().context("no mounts")?;
    let writable = mounts.iter().filter(|mount| mount["readOnly"] != true);
    let writable: Vec<&Value> = writable.map(|mount| &mount["mountPath"]).collect();
    ensure!(
        writable == ["/sys/fs/cgroup", "/var/lib/eviction"],
        "{writable:?}"
    );
    Ok(())
}

/// Each set of values, and what is then where in the DaemonSet's `spec`.
fn pods() -> Result<()> {
    let chart = chart()?;
    let digest = format!("sha256:{}", "0f".repeat(32));
    let node = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}});
    for (values, path, expected) in [
        (
            json!({"image": {"repository": "r.example/e", "tag": "1.10"}}),
            "/template/spec/containers/0/image",
            json!("r.example/e:1.10"),
        ),
        (
            json!({"image": {"repository": "r.example/e", "tag": "2", "digest": digest}}),
            "/template/spec/containers/0/image",
            json!(format!("r.example/e@{digest}")),
        ),
        (
            json!({"image": {"pullPolicy": "Always"}}),
            "/template/spec/containers/0/imagePullPolicy",
            json!("Always"),
        ),
        (
            json!({"imagePullSecrets": [{"name": "a"}]}),
            "/template/spec/imagePullSecrets",
            json!([{"name": "a"}]),
        ),
        (
            json!({"privileged": true}),
            "/template/spec/containers/0/securityContext",
            json!({"privileged": true, "readOnlyRootFilesystem": true}),
        ),
        (
            json!({"apiServer": {"host": "10.0.0.1"}}),
            "/template/spec/containers/0/env/2",
            json!({"name": "KUBERNETES_SERVICE_HOST", "value": "10.0.0.1"}),
        ),
        (
            json!({"apiServer": {"host": "10.0.0.1", "port": 443}}),
            "/template/spec/containers/0/env/3",
            json!({"name": "KUBERNETES_SERVICE_PORT", "value": "443"}),
        ),
        (
            json!({"resources": {"cpu": 1, "memory": "1Gi"}}),
            "/template/spec/containers/0/resources",
            json!({"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1Gi"}}),
        ),
        (
            json!({"metrics": {"port": 9000}}),
            "/template/spec/containers/0/ports/0/containerPort",
            json!(9000),
        ),
        (
            json!({"metrics": {"address": "127.0.0.1"}}),
            "/template/spec/containers/0/readinessProbe/httpGet",
            json!({"host": "127.0.0.1", "path": "/readyz", "port": "metrics"}),
        ),
        (
            json!({"metrics": {"address": "::"}}),
            "/template/spec/containers/0/readinessProbe/httpGet",
            json!({"path": "/readyz", "port": "metrics"}),
        ),
        (
            json!({"extraEnv": [{"name": "A", "value": "1"}]}),
            "/template/spec/containers/0/env/2",
            json!({"name": "A", "value": "1"}),
        ),
        (
            json!({"extraVolumes": [{"name": "v", "emptyDir": {}}]}),
            "/template/spec/volumes/2",
            json!({"name": "v", "emptyDir": {}}),
        ),
        (
            json!({"extraVolumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            "/template/spec/containers/0/volumeMounts/2",
            json!({"name": "v", "mountPath": "/v"}),
        ),
        (
            json!({"stateDir": "/data/eviction"}),
            "/template/spec/volumes/1/hostPath",
            json!({"path": "/data/eviction", "type": "DirectoryOrCreate"}),
        ),
        (
            json!({"tolerations": [{"key": "a"}]}),
            "/template/spec/tolerations",
            json!([{"key": "a"}]),
        ),
        (
            json!({"nodeSelector": {"pool": "a", "kubernetes.io/os": "linux"}}),
            "/template/spec/nodeSelector",
            json!({"pool": "a", "kubernetes.io/os": "linux"}),
        ),
        (
            json!({"affinity": {"nodeAffinity": node}}),
            "/template/spec/affinity",
            json!({"nodeAffinity": node}),
        ),
        (
            json!({"podAnnotations": {"a/b": "true"}}),
            "/template/metadata/annotations",
            json!({"a/b": "true"}),
        ),
        (
            json!({"podLabels": {"team": "1"}}),
            "/template/metadata/labels/team",
            json!("1"),
        ),
        (
            json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}),
            "/updateStrategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}),
        ),
        (
            json!({"serviceAccount": {"create": false, "name": "own"}}),
            "/template/spec/serviceAccountName",
            json!("own"),
        ),
    ] {
        let objects = render(&chart, &values)?;
        let spec = &objects.get("DaemonSet")?["spec"];
        ensure!(
            spec.pointer(path) == Some(&expected),
            "{values}: {path} is {:?}",
            spec.pointer(path)
        );
    }
    let without_class = render(&chart, &json!({"priorityClassName": ""}))?;
    ensure!(
        without_class.pod()?["spec"]
            .get("priorityClassName")
            .is_none()
    );
    Ok(())
}

fn arguments() -> Result<()> {
    let chart = chart()?;
    for (values, expected) in [
        (json!({"dryRun": true}), "--dry-run"),
        (
            json!({"root": "/sys/fs/cgroup/k8s/kubepods"}),
            "--root=/sys/fs/cgroup/k8s/kubepods",
        ),
        (
            json!({"evictionHard": {"pid.available": "10%", "memory.available": "500Mi"}}),
            "--eviction-hard=memory.available<500Mi,pid.available<10%",
        ),
        (
            json!({"evictionMinimumReclaim": {"memory.available": "1Gi"}}),
            "--eviction-minimum-reclaim=memory.available=1Gi",
        ),
        (
            json!({"metrics": {"port": 9000}}),
            "--metrics=$(HOST_IP):9000",
        ),
        (
            json!({"metrics": {"address": "::1"}}),
            "--metrics=[::1]:9464",
        ),
        (json!({"extraArgs": ["--looks"]}), "--looks"),
        (json!({"reclaim": "off"}), "--reclaim=off"),
        // Without quotes.
        (json!({"reclaim": false}), "--reclaim=off"),
    ] {
        let objects = render(&chart, &values)?;
        let arguments = objects.arguments()?;
        ensure!(arguments.contains(&expected), "{values}: {arguments:?}");
    }
    Ok(())
}

fn disks() -> Result<()> {
    let chart = chart()?;
    let values = json!({
        "evictionHard": {"nodefs.available": "5%", "memory.available": "1Gi"},
        "disk": {"kubeletRoot": "/k", "podLogs": "/l"},
    });
    let objects = render(&chart, &values)?;
    let arguments = objects.arguments()?;
    for expected in [
        "--eviction-hard=memory.available<1Gi,nodefs.available<5%",
        "--nodefs=/k",
        "--pod-logs=/l",
        "--runtime-root=/var/lib/containerd",
    ] {
        ensure!(arguments.contains(&expected), "{arguments:?}");
    }
    let others = [
        "--imagefs",
        "--after-eviction",
        "--storage-limits",
        "--container-runtime-endpoint",
    ];
    let is_other = |argument: &&str| others.iter().any(|other| argument.starts_with(other));
    ensure!(!arguments.iter().any(is_other), "{arguments:?}");
    for (index, path) in ["/k", "/var/lib/containerd", "/l"].iter().enumerate() {
        let name = format!("disk-{index}");
        let mount = json!({
            "name": name, "mountPath": path, "readOnly": true, "mountPropagation": "HostToContainer",
        });
        let mounts = &objects.container()?["volumeMounts"];
        ensure!(mounts[index + 2] == mount, "{mounts}");
        let volume = json!({"name": name, "hostPath": {"path": path, "type": "Directory"}});
        let volumes = &objects.pod()?["spec"]["volumes"];
        ensure!(volumes[index + 2] == volume, "{volumes}");
    }
    let limits = json!({"storageLimits": true});
    let objects = render(&chart, &limits)?;
    let arguments = objects.arguments()?;
    for expected in [
        "--storage-limits",
        "--nodefs=/var/lib/kubelet",
        "--runtime-root=/var/lib/containerd",
        "--pod-logs=/var/log/pods",
    ] {
        ensure!(arguments.contains(&expected), "{arguments:?}");
    }
    let mounts = &objects.container()?["volumeMounts"];
    ensure!(mounts[2]["mountPath"] == "/var/lib/kubelet", "{mounts}");
    let images = json!({"evictionHard": {"imagefs.inodesFree": "1000"}});
    let objects = render(&chart, &images)?;
    let arguments = objects.arguments()?;
    ensure!(
        arguments.contains(&"--runtime-root=/var/lib/containerd"),
        "{arguments:?}"
    );
    ensure!(
        arguments.contains(&"--nodefs=/var/lib/kubelet"),
        "{arguments:?}"
    );
    Ok(())
}

fn socket() -> Result<()> {
    let chart = chart()?;
    let named = |more: Value| {
        let mut values =
            json!({"disk": {"runtimeEndpoint": "unix:///run/k3s/containerd/containerd.sock"}});
        values["evictionHard"] = more;
        render(&chart, &values)
    };
    let objects = named(json!({"imagefs.available": "5%"}))?;
    let arguments = objects.arguments()?;
    let expected = "--container-runtime-endpoint=unix:///run/k3s/containerd/containerd.sock";
    ensure!(arguments.contains(&expected), "{arguments:?}");
    let mount = json!({"name": "runtime", "mountPath": "/run/k3s/containerd", "readOnly": true});
    let mounts = objects.container()?["volumeMounts"].as_array().cloned();
    let mounts = mounts.context("no mounts")?;
    ensure!(mounts.last() == Some(&mount), "{mounts:?}");
    let volume = json!({
        "name": "runtime", "hostPath": {"path": "/run/k3s/containerd", "type": "Directory"},
    });
    let volumes = objects.pod()?["spec"]["volumes"].as_array().cloned();
    let volumes = volumes.context("no volumes")?;
    ensure!(volumes.last() == Some(&volume), "{volumes:?}");
    for (values, objects) in [
        ("no disk", named(json!({"pid.available": "5%"}))?),
        (
            "no socket",
            render(&chart, &json!({"storageLimits": true}))?,
        ),
    ] {
        let mounts = &objects.container()?["volumeMounts"];
        ensure!(
            !mounts.to_string().contains("\"runtime\""),
            "{values}: {mounts}"
        );
        let arguments = objects.arguments()?.join(" ");
        ensure!(
            !arguments.contains("--container-runtime"),
            "{values}: {arguments}"
        );
    }
    Ok(())
}

/// The names of all objects, and where they refer to each other.
fn names() -> Result<()> {
    let chart = chart()?;
    for (values, name, account) in [
        (json!({}), "eviction", "eviction"),
        (json!({"nameOverride": "evict"}), "eviction", "eviction"),
        (
            json!({"nameOverride": "guard"}),
            "eviction-guard",
            "eviction-guard",
        ),
        (json!({"fullnameOverride": "guard"}), "guard", "guard"),
        (
            json!({"serviceAccount": {"name": "own"}}),
            "eviction",
            "own",
        ),
    ] {
        let objects = render(&chart, &values)?;
        for (kind, path, expected) in [
            ("DaemonSet", "/metadata/name", name),
            ("DaemonSet", "/metadata/namespace", "kube-system"),
            ("ClusterRole", "/metadata/name", name),
            ("ClusterRoleBinding", "/metadata/name", name),
            ("ClusterRoleBinding", "/roleRef/name", name),
            ("ClusterRoleBinding", "/subjects/0/name", account),
            ("ClusterRoleBinding", "/subjects/0/namespace", "kube-system"),
            ("ServiceAccount", "/metadata/name", account),
            (
                "DaemonSet",
                "/spec/template/spec/serviceAccountName",
                account,
            ),
        ] {
            let found = objects.get(kind)?.pointer(path);
            ensure!(
                found == Some(&json!(expected)),
                "{values}: {kind}{path}: {found:?}"
            );
        }
        is_selected(&objects)?;
    }
    let other = json!({"serviceAccount": {"create": false, "name": "own"}});
    let objects = render(&chart, &other)?;
    ensure!(objects.find("ServiceAccount").is_none(), "{objects:?}");
    let annotated = json!({"serviceAccount": {"annotations": {"a": "b"}}});
    let objects = render(&chart, &annotated)?;
    let annotations = &objects.get("ServiceAccount")?["metadata"]["annotations"];
    ensure!(annotations == &json!({"a": "b"}), "{annotations}");
    Ok(())
}

/// The selector, which can never be changed, holds two labels, and the pods have them.
fn is_selected(objects: &Objects) -> Result<()> {
    let selector = &objects.get("DaemonSet")?["spec"]["selector"]["matchLabels"];
    let labels = &objects.pod()?["metadata"]["labels"];
    let keys: Vec<&String> = selector
        .as_object()
        .into_iter()
        .flat_map(|s| s.keys())
        .collect();
    ensure!(
        keys == ["app.kubernetes.io/instance", "app.kubernetes.io/name"] && selector == labels,
        "{selector}, {labels}"
    );
    Ok(())
}

fn additions() -> Result<()> {
    let chart = chart()?;
    ensure!(render(&chart, &json!({}))?.find("ConfigMap").is_none());
    let given = |namespace: &str| {
        let values =
            json!({"additions": {"protectedNamespaces": [namespace], "maxEvictionsPerHour": 6}});
        render(&chart, &values)
    };
    let objects = given("kube-system")?;
    let file = &objects.get("ConfigMap")?["data"]["config.yaml"];
    let file: Value = serde_saphyr::from_str(file.as_str().context("no config.yaml")?)?;
    ensure!(
        file == json!({
            "apiVersion": "eviction.dev/v1alpha1",
            "kind": "EvictionConfiguration",
            "protectedNamespaces": ["kube-system"],
            "maxEvictionsPerHour": 6,
        }),
        "{file}"
    );
    ensure!(
        objects
            .arguments()?
            .contains(&"--config=/etc/eviction/config.yaml")
    );
    let container = objects.container()?;
    let mount = json!({"name": "config", "mountPath": "/etc/eviction", "readOnly": true});
    ensure!(container["volumeMounts"][2] == mount, "{container}");
    let volume = &objects.pod()?["spec"]["volumes"][2];
    let expected = json!({"name": "config", "configMap": {"name": "eviction"}});
    ensure!(volume == &expected, "{volume}");
    // The program reads it at its start only.
    let other = given("other")?;
    let annotations = |objects: &Objects| -> Result<Value> {
        Ok(objects.pod()?["metadata"]["annotations"].clone())
    };
    let (before, after) = (annotations(&objects)?, annotations(&other)?);
    ensure!(
        before != after && before.is_object(),
        "no restart: {before}, {after}"
    );
    Ok(())
}
