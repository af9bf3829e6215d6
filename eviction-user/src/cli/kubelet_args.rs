//! What the node's kubelet has decided, found out for whoever asks.

use super::Failure;
use crate::config::{KubeletSettings, PodsLayout, Sourced, server_of};
use crate::kube::{ConfigzError, NoKubelet, RunningKubelet, configz, pods_root};
use crate::sys::cgroup::Hierarchy;
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Args)]
pub(super) struct KubeletArgs {
    /// The configuration file of this node's kubelet, or its saved /configz: says where pods are, and at
    /// which lines the kubelet evicts, too. [default: what the running kubelet was given by --config and
    /// --config-dir, where its process is to be seen]
    #[arg(long, value_name = "FILE")]
    kubelet_config: Option<PathBuf>,
}

/// What is known, and what is not.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) settings: KubeletSettings,
    /// Its process, if that is to be seen.
    pub(super) pid: Option<i32>,
    /// Which file or process told it; empty: none.
    pub(super) from: String,
    /// The kubelet itself has told, not its files.
    pub(super) is_live: bool,
    /// It can be asked itself, and has not answered: it may yet, once it serves or we have the right.
    pub(super) may_answer: bool,
    /// What could not be found out, and what would help.
    pub(super) doubts: Vec<String>,
}

impl KubeletArgs {
    pub(super) fn is_given(&self) -> bool {
        self.kubelet_config.is_some()
    }

    /// A file that was named has to be right; what is found without a word only leads to doubts. `node`: whose kubelet it is.
    /// `kubeconfig`: as who it is asked itself, else as the pod's account.
    pub(super) fn find(
        &self,
        node: Option<&str>,
        kubeconfig: Option<&Path>,
    ) -> Result<Found, Failure> {
        let running = RunningKubelet::find(node);
        let pid = running.as_ref().map(|running| running.pid);
        let process = |pid| format!("the command line of process {pid}");
        let mut found = Found {
            pid: pid.ok(),
            ..Found::default()
        };
        if let Some(file) = &self.kubelet_config {
            found.settings = KubeletSettings::of_file(file, running.as_ref().ok())
                .map_err(|e| Failure::usage(&format!("--kubelet-config: {e}")))?;
            let more = pid.map_or(String::new(), |pid| format!(" and {}", process(pid)));
            found.from = format!("{}{more}", file.display());
            return Ok(found);
        }
        match running {
            Ok(running) => {
                if found.take_live(&running, node, kubeconfig) {
                    return Ok(found);
                }
                let (settings, known) = KubeletSettings::of_running(&running);
                found.settings = settings;
                found.from = process(running.pid);
                if let Some(file) = &running.flags.config {
                    found.from = format!("{} and {}", file.display(), found.from);
                }
                found.doubts.extend(known.err().map(|error| {
                    format!(
                        "the kubelet's configuration is not known: {error}; what it says counts for nothing until a file that can be read is given by --kubelet-config"
                    )
                }));
            }
            // Another distribution's kubelet is a part of a bigger program (k3s, MicroK8s), or we are in a PID namespace of our own.
            Err(NoKubelet::Unseen) => {}
            Err(why) => found.doubts.push(format!(
                "{why}: what it decides is not known; name its file by --kubelet-config"
            )),
        }
        Ok(found)
    }
}

impl Found {
    /// What the kubelet says itself, if it can be asked. (Whoever has no account does not ask, and misses nothing but changes of
    /// the files since its start.)
    fn take_live(
        &mut self,
        running: &RunningKubelet,
        node: Option<&str>,
        kubeconfig: Option<&Path>,
    ) -> bool {
        let Some(server) = server_of(running, node) else {
            return false;
        };
        let told = match configz(&server, kubeconfig) {
            Err(ConfigzError::NoAccount) => return false,
            Err(error) => Err(error.to_string()),
            Ok(answer) => KubeletSettings::of_configz(running, &answer).map_err(|e| e.to_string()),
        };
        match told {
            Ok(settings) => {
                self.settings = settings;
                self.is_live = true;
                self.from = format!("{server} and the command line of process {}", running.pid);
            }
            Err(why) => {
                self.may_answer = true;
                self.doubts.push(format!(
                    "the kubelet is not asked at {server} what it has in force, its files and command line count: {why}"
                ));
            }
        }
        self.is_live
    }

    /// At the start of whoever goes by it.
    pub(super) fn tell(&self, layout: &PodsLayout) {
        for doubt in &self.doubts {
            tracing::warn!("{doubt}");
        }
        if self.from.is_empty() {
            return;
        }
        let root_dir = layout.root_dir.iter().map(|dir| {
            let path = dir.value.display();
            format!("root directory {path} ({})", dir.origin)
        });
        let logs = layout.pod_logs.value.display();
        let others = [
            format!(
                "cgroupRoot {:?} ({})",
                layout.cgroup_root.value, layout.cgroup_root.origin
            ),
            format!(
                "cgroupDriver {} ({})",
                layout.cgroup_driver.value, layout.cgroup_driver.origin
            ),
            format!("podLogsDir {logs} ({})", layout.pod_logs.origin),
        ];
        let all: Vec<_> = root_dir.chain(others).collect();
        tracing::info!("the kubelet, by {}: {}", self.from, all.join(", "));
    }
}

/// The cgroup that holds all pods. `given`: a flag wins.
pub(super) fn root(
    given: Option<&Path>,
    layout: &PodsLayout,
    hierarchy: &Hierarchy,
) -> Result<PathBuf, Failure> {
    let PodsLayout {
        cgroup_root,
        cgroup_driver,
        ..
    } = layout;
    let decided = pods_root(hierarchy, &cgroup_root.value, &cgroup_driver.value);
    let Some(given) = given else {
        return decided.map_err(|places| no_root(&places, cgroup_root));
    };
    if let Ok(decided) = decided
        && !cgroup_root.origin.is_default()
        && hierarchy.resolve(given).is_ok_and(|given| given != decided)
    {
        tracing::info!(
            "--root {} wins over {}, where cgroupRoot ({}) leads to",
            given.display(),
            decided.display(),
            cgroup_root.origin
        );
    }
    Ok(given.to_owned())
}

fn no_root(places: &[PathBuf; 2], cgroup_root: &Sourced<String>) -> Failure {
    let [one, other] = places;
    let why = if cgroup_root.origin.is_default() {
        String::new()
    } else {
        format!(
            " (cgroupRoot {:?} of {})",
            cgroup_root.value, cgroup_root.origin
        )
    };
    Failure::usage(&format!(
        "--root is missing: there is neither {} nor {}{why}; start the kubelet, or name the cgroup below its cgroupRoot that holds all pods",
        one.display(),
        other.display()
    ))
}

/// The directory that counts, and a line where a flag and the kubelet do not agree.
pub(super) fn directory(
    flag: &'static str,
    given: Option<&Path>,
    decided: Option<&Sourced<PathBuf>>,
) -> Option<PathBuf> {
    let (Some(given), Some(decided)) = (given, decided) else {
        return given
            .or(decided.map(|decided| decided.value.as_path()))
            .map(Path::to_owned);
    };
    if given != decided.value {
        tracing::info!(
            "{flag} {} wins over {} ({})",
            given.display(),
            decided.value.display(),
            decided.origin
        );
    }
    Some(given.to_owned())
}
