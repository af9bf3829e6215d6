//! A value that is wrong is refused by its name, before anything reaches a cluster.

use anyhow::{Result, ensure};
use eviction_tests::suite::Case;
use serde_json::json;

use crate::rendered::{answer, chart};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "wrong values are refused by their names",
        wrong_values,
    )]
}

fn wrong_values() -> Result<()> {
    let chart = chart()?;
    for (values, said) in [
        // Keys that do not exist, at every level.
        (json!({"dryrun": true}), "'dryrun' not allowed"),
        (json!({"image": {"name": "x"}}), "'name' not allowed"),
        (
            json!({"apiServer": {"hostname": "x"}}),
            "'hostname' not allowed",
        ),
        (json!({"metrics": {"listen": "x"}}), "'listen' not allowed"),
        (
            json!({"resources": {"limits": {"cpu": "1"}}}),
            "'limits' not allowed",
        ),
        (
            json!({"serviceAccount": {"creat": true}}),
            "'creat' not allowed",
        ),
        (
            json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}),
            "'maxSurge' not allowed",
        ),
        (
            json!({"evictionHard": {"memory.availible": "1Gi"}}),
            "'memory.availible' not allowed",
        ),
        // It always follows nodefs or imagefs, as in the kubelet.
        (
            json!({"evictionHard": {"containerfs.available": "10%"}}),
            "'containerfs.available' not allowed",
        ),
        (json!({"disk": {"nodefs": "/"}}), "'nodefs' not allowed"),
        (json!({"disk": {"podLogs": "logs"}}), "/disk/podLogs'"),
        (
            json!({"disk": {"runtimeEndpoint": "/run/a.sock"}}),
            "/disk/runtimeEndpoint'",
        ),
        (json!({"storageLimits": "yes"}), "/storageLimits'"),
        (json!({"nodeRestriction": "yes"}), "/nodeRestriction'"),
        (json!({"reclaim": "journalctl"}), "/reclaim'"),
        (json!({"nodeConditions": "on"}), "/nodeConditions'"),
        (json!({"nodeTaint": "on"}), "/nodeTaint'"),
        (json!({"admission": "on"}), "/admission'"),
        (
            json!({"serviceMonitor": {"enable": true}}),
            "'enable' not allowed",
        ),
        (
            json!({"serviceMonitor": {"interval": "often"}}),
            "/serviceMonitor/interval'",
        ),
        (
            json!({"prometheusRule": {"enabled": "yes"}}),
            "/prometheusRule/enabled'",
        ),
        (
            json!({"networkPolicy": {"from": {}}}),
            "/networkPolicy/from'",
        ),
        (json!({"extraEnv": [{"value": "1"}]}), "/extraEnv/0'"),
        (
            json!({"extraVolumes": [{"emptyDir": {}}]}),
            "/extraVolumes/0'",
        ),
        (
            json!({"extraVolumeMounts": [{"name": "v"}]}),
            "/extraVolumeMounts/0'",
        ),
        (json!({"afterEviction": "remove"}), "/afterEviction'"),
        (json!({"hardPolicy": "kill-api"}), "/hardPolicy'"),
        (
            json!({"evictionSoft": {"memory.availible": "1Gi"}}),
            "'memory.availible' not allowed",
        ),
        (
            json!({"evictionSoftGracePeriod": {"memory.available": "soon"}}),
            "/evictionSoftGracePeriod/memory.available'",
        ),
        (
            json!({"evictionMaxPodGracePeriod": "30s"}),
            "/evictionMaxPodGracePeriod'",
        ),
        (
            json!({"additions": {"protectedNamespace": []}}),
            "'protectedNamespace' not allowed",
        ),
        (
            json!({"additions": {"honorAnnotations": "yes"}}),
            "/additions/honorAnnotations'",
        ),
        (
            json!({"additions": {"minimumVictimSize": {"ram": "1Gi"}}}),
            "'ram' not allowed",
        ),
        // Wrong types.
        (json!({"dryRun": "yes"}), "/dryRun'"),
        (json!({"privileged": 1}), "/privileged'"),
        (json!({"image": "x"}), "/image'"),
        (json!({"image": {"tag": 1.1}}), "/image/tag'"),
        (json!({"imagePullSecrets": ["x"]}), "/imagePullSecrets/0'"),
        (
            json!({"evictionHard": "memory.available<1Gi"}),
            "/evictionHard'",
        ),
        (
            json!({"evictionHard": {"pid.available": 100}}),
            "/evictionHard/pid.available'",
        ),
        (json!({"apiServer": {"port": "6443"}}), "/apiServer/port'"),
        (json!({"extraArgs": "--looks"}), "/extraArgs'"),
        (json!({"tolerations": {}}), "/tolerations'"),
        (json!({"nodeSelector": {"a": true}}), "/nodeSelector/a'"),
        (json!({"podAnnotations": {"a": 1}}), "/podAnnotations/a'"),
        (json!({"priorityClassName": 1}), "/priorityClassName'"),
        // Values that cannot be meant.
        (json!({"image": {"digest": "sha256:12"}}), "/image/digest'"),
        (
            json!({"image": {"pullPolicy": "always"}}),
            "/image/pullPolicy'",
        ),
        (json!({"metrics": {"port": 80}}), "/metrics/port'"),
        (
            json!({"metrics": {"address": "localhost"}}),
            "/metrics/address'",
        ),
        (
            json!({"apiServer": {"host": "https://x"}}),
            "/apiServer/host'",
        ),
        (json!({"root": "kubepods"}), "/root'"),
        (json!({"stateDir": "state"}), "/stateDir'"),
        (
            json!({"evictionHard": {"memory.available": "1 GB"}}),
            "/evictionHard/memory.available'",
        ),
        (
            json!({"resources": {"memory": "96MB"}}),
            "/resources/memory'",
        ),
        (json!({"resources": {"memory": null}}), "'memory'"),
        (
            json!({"updateStrategy": {"type": "Recreate"}}),
            "/updateStrategy/type'",
        ),
        // Else its rights would go to every pod that names no account.
        (
            json!({"serviceAccount": {"create": false}}),
            "serviceAccount.name: name the account",
        ),
        (
            json!({"podLabels": {"app.kubernetes.io/name": "x"}}),
            "/podLabels/app.kubernetes.io~1name'",
        ),
    ] {
        let answer = answer(&chart, &values)?;
        let told = String::from_utf8_lossy(&answer.stderr);
        ensure!(
            !answer.status.success() && told.contains(said),
            "{values}: {}, without {said}: {told}",
            answer.status
        );
    }
    Ok(())
}
