//! What is wrong is said at once, with its name and the way out.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use eviction_tests::suite::{self, Case};
use eviction_user::sys::fault;

const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
const OWN: &str = "apiVersion: eviction.dev/v1alpha1\nkind: EvictionConfiguration\n";

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("wrong input is refused by name", wrong_input)]
}

fn wrong_input() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let nonsense = folder.path().join("nonsense");
    std::fs::write(&nonsense, "a: [")?;
    let nonsense = nonsense.display().to_string();
    let missing = folder.path().join("missing").display().to_string();
    let root = memory_hierarchy();
    let write = |name: &str, text: &str| -> Result<String> {
        let path = folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let of_kubelet = |name: &str, setting: &str| write(name, &format!("{KUBELET}{setting}\n"));
    let own = write("own", OWN)?;
    let climbing = of_kubelet("climbing", "cgroupRoot: /a/../b")?;
    let relative = of_kubelet("relative", "podLogsDir: logs")?;
    let driver = of_kubelet("driver", "cgroupDriver: cgroup")?;
    let nowhere = of_kubelet("nowhere", "cgroupRoot: /no-where\ncgroupDriver: systemd")?;
    let nowhere_said = format!(
        "there is neither {root}/no_where.slice/no_where-kubepods.slice nor {root}/no-where/kubepods (cgroupRoot \"/no-where\" of {nowhere}:3)"
    );
    for (arguments, said) in [
        (vec![], "--node-name is missing"),
        (
            vec!["--node-name", "n", "--hard-policy", "politely"],
            "invalid value 'politely' for '--hard-policy <HOW>'",
        ),
        (
            vec![
                "--node-name",
                "n",
                "--root",
                root,
                "--eviction-soft",
                "memory.available<1Gi",
            ],
            "--eviction-soft: memory.available: grace period must be specified",
        ),
        (
            vec!["--node-name", "n", "--root", root, "--kubeconfig", &missing],
            "--kubeconfig: ",
        ),
        (
            vec![
                "--node-name",
                "n",
                "--root",
                root,
                "--kubeconfig",
                &nonsense,
            ],
            "--kubeconfig: ",
        ),
        (
            vec!["--node-name", "n", "--root", root],
            "elsewhere give --kubeconfig FILE",
        ),
        (
            vec!["--node-name", "n", "--root", "/sys/fs/cgroup/none"],
            "--root: ",
        ),
        (
            vec!["--node-name", "n", "--root", root, "--workload", "a"],
            "--workload has no effect",
        ),
        (
            vec![
                "--node-name",
                "n",
                "--root",
                root,
                "--eviction-hard",
                "nodefs.available<10%",
            ],
            "--nodefs is missing: --eviction-hard: nodefs.available needs a path",
        ),
        (
            vec![
                "--node-name",
                "n",
                "--root",
                root,
                "--eviction-hard",
                "nodefs.available<10%",
                "--nodefs",
                "/etc",
            ],
            "--nodefs: /etc has no directory `pods`",
        ),
        (
            vec!["--node-name", "n", "--root", root, "--nodefs", "/etc"],
            "no threshold is about nodefs",
        ),
        (
            vec!["--node-name", "n", "--root", root, "--pod-logs", "/etc"],
            "--pod-logs is given, but no threshold is about a disk",
        ),
        (
            vec!["--node-name", "n", "--root", root, "--storage-limits"],
            "--storage-limits needs --nodefs",
        ),
        (
            vec!["--node-name", "n", "--root", root, "--admission", "yes"],
            "invalid value 'yes' for '--admission <on|off>'",
        ),
        (
            vec!["--node-name", "n", "--kubelet-config", &missing],
            "--kubelet-config: ",
        ),
        (
            vec!["--node-name", "n", "--kubelet-config", &own],
            "kind: EvictionConfiguration is not the kubelet's",
        ),
        (
            vec!["--node-name", "n", "--kubelet-config", &climbing],
            "climbing:3: cgroupRoot: \"/a/../b\" is no cgroup's name",
        ),
        (
            vec!["--node-name", "n", "--kubelet-config", &relative],
            "relative:3: podLogsDir: \"logs\" is no absolute path",
        ),
        (
            vec!["--node-name", "n", "--kubelet-config", &driver],
            "driver:3: cgroupDriver: \"cgroup\" is none of cgroupfs, systemd",
        ),
        (
            vec!["--node-name", "n", "--kubelet-config", &nowhere],
            &nowhere_said,
        ),
        (
            vec![
                "--node-name",
                "n",
                "--root",
                root,
                "--after-eviction",
                "drop",
            ],
            "invalid value 'drop' for '--after-eviction <WHAT>'",
        ),
    ] {
        let mut run = Command::new(suite::programs()?.join("eviction"));
        run.args(["run", "--platform", "kubernetes"])
            .args(&arguments);
        run.env_remove("NODE_NAME")
            .env_remove("KUBERNETES_SERVICE_HOST");
        let ended = run.output()?;
        let told = String::from_utf8_lossy(&ended.stderr);
        ensure!(
            ended.status.code() == Some(2) && told.contains(said),
            "{arguments:?}: {}: {told}",
            ended.status
        );
    }
    for platform in ["kubernetes", "host"] {
        let mut run = Command::new(suite::programs()?.join("eviction"));
        run.args([
            "run",
            "--node-name",
            "n",
            "--platform",
            platform,
            "--root",
            root,
        ]);
        let ended = run.env(fault::VARIABLE, "patching").output()?;
        let told = String::from_utf8_lossy(&ended.stderr);
        let said =
            "EVICTION_FAULT_POINT: no fault point is named \"patching\"; there are decided, ";
        ensure!(
            ended.status.code() == Some(2) && told.contains(said),
            "{platform}: {}: {told}",
            ended.status
        );
    }
    let host = [
        "run",
        "--platform",
        "host",
        "--kubeconfig",
        "x",
        "--root",
        root,
    ];
    let ended = Command::new(suite::programs()?.join("eviction"))
        .args(host)
        .output()?;
    let told = String::from_utf8_lossy(&ended.stderr);
    ensure!(
        ended.status.code() == Some(2) && told.contains("--kubeconfig has no effect"),
        "{told}"
    );
    Ok(())
}

fn memory_hierarchy() -> &'static str {
    if Path::new("/sys/fs/cgroup/memory").is_dir() {
        "/sys/fs/cgroup/memory"
    } else {
        "/sys/fs/cgroup"
    }
}
