//! The one cluster of the suite: brought up by the first story that asks for it, taken down at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use eviction_tests::scenario::{Evictor, Programs, wait_until};
use eviction_tests::suite;
use eviction_user::sys::fault::{self, Point};
use serde_json::{Value, json};
use xtask::cluster::{Cluster, Disk, Disks, NODE, Parts};
use xtask::workspace::Workspace;

use crate::{account, guest};

const NAME: &str = "evtest";
/// For all pods together, so that a hog needs a second to fill it.
const PODS_MIB: u64 = 1536;
/// What the images leave free of it can be filled within seconds.
const DISK: Disk = Disk {
    bytes: 1 << 30,
    inodes: 16384,
};
/// The runtime shares it with the kubelet.
const TOGETHER: Disks = Disks {
    node: Some(DISK),
    runtime: None,
};
const APART: Disks = Disks {
    node: Some(DISK),
    runtime: Some(DISK),
};
/// Our line, far above the kubelet's own of 50 MiB.
pub(crate) const LINE: &str = "allocatableMemory.available<400Mi";

pub(crate) struct Node {
    pub(crate) workspace: Workspace,
    pub(crate) cluster: Cluster,
    pub(crate) parts: Parts,
    pub(crate) programs: Programs,
    /// Of our service account.
    pub(crate) kubeconfig: PathBuf,
}

struct Up {
    disks: Disks,
    /// `Err`: why it could not be brought up, which every story then says.
    node: Result<Node, String>,
}

type State = Option<Up>;

static NODE_STATE: Mutex<State> = Mutex::new(None);

/// Runs a story on it, and cleans up after it.
pub(crate) fn with<T>(story: impl FnOnce(&Node) -> Result<T>) -> Result<T> {
    on(TOGETHER, story)
}

/// The same where the runtime has a disk of its own; a cluster without one is taken down for it.
pub(crate) fn with_disks_apart<T>(story: impl FnOnce(&Node) -> Result<T>) -> Result<T> {
    on(APART, story)
}

fn on<T>(disks: Disks, story: impl FnOnce(&Node) -> Result<T>) -> Result<T> {
    let mut state = NODE_STATE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(other) = state.take_if(|up| up.disks != disks) {
        other.take_down()?;
    }
    let up = state.get_or_insert_with(|| Up {
        disks,
        node: Node::up(NAME, PODS_MIB, disks).map_err(|e| format!("{e:#}")),
    });
    let node = match &up.node {
        Ok(node) => node,
        Err(why) => bail!("the cluster does not come up: {why}"),
    };
    let told = story(node).with_context(|| format!("the cluster's pods: {}", node.overview()));
    let cleaned = node.clean();
    let told = told?;
    cleaned.map(|()| told)
}

pub(crate) fn take_down() -> Result<()> {
    let mut state = NODE_STATE.lock().unwrap_or_else(PoisonError::into_inner);
    state.take().map_or(Ok(()), Up::take_down)
}

impl Up {
    fn take_down(self) -> Result<()> {
        // It lives in the cluster's network.
        guest::take_down();
        self.node.map_or(Ok(()), |node| node.cluster.down())
    }
}

impl Node {
    /// `pods_mib`: for all pods together.
    pub(crate) fn up(name: &str, pods_mib: u64, disks: Disks) -> Result<Self> {
        let workspace = Workspace::find()?;
        let folder = suite::programs()?;
        // What a run that was cut short has left behind.
        if Cluster::folder(name).exists() {
            Cluster::remove(name)?;
        }
        let memory = total_memory()?;
        let reserved = memory
            .checked_sub(pods_mib << 20)
            .context("this machine has too little memory")?;
        let kubelet = BTreeMap::from([
            ("enforceNodeAllocatable".to_owned(), json!(["pods"])),
            (
                "kubeReserved".to_owned(),
                json!({"memory": reserved.to_string()}),
            ),
        ]);
        let load = folder.join("eviction-load");
        let cluster = Cluster::up(&workspace, name, &load, kubelet, disks)?;
        let made = Self::settle(cluster.clone(), workspace, Programs::in_folder(&folder));
        if made.is_err() {
            cluster.down()?;
        }
        made
    }

    /// The service account, as its manifests say.
    fn settle(cluster: Cluster, workspace: Workspace, programs: Programs) -> Result<Self> {
        let parts = Parts::build(&workspace)?;
        account::make(&cluster, &parts)?;
        let kubeconfig = account::kubeconfig_of_node(&cluster, &parts, NODE)?;
        let node = Self {
            workspace,
            cluster,
            parts,
            programs,
            kubeconfig,
        };
        // It appears a moment after its namespace; before that no pod is let in.
        node.until("the namespaces have their service accounts", 60, |node| {
            for namespace in ["default", "kube-system"] {
                node.get(&["serviceaccount", "default", "--namespace", namespace])?;
            }
            Ok(Some(()))
        })?;
        Ok(node)
    }

    /// The program beside the kubelet. `state`: what it may go on with.
    pub(crate) fn evictor(&self, state: &std::path::Path) -> Result<Evictor> {
        self.evictor_as(&self.kubeconfig, LINE, state)
    }

    /// The same with another line, or as another account.
    pub(crate) fn evictor_as(
        &self,
        kubeconfig: &std::path::Path,
        line: &str,
        state: &std::path::Path,
    ) -> Result<Evictor> {
        self.start(self.arguments(kubeconfig)?, line, state)
    }

    /// The same with more arguments.
    pub(crate) fn evictor_with(
        &self,
        more: &[&str],
        line: &str,
        state: &std::path::Path,
    ) -> Result<Evictor> {
        let mut arguments = self.arguments(&self.kubeconfig)?;
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        self.start(arguments, line, state)
    }

    /// With nothing said of where pods are.
    pub(crate) fn evictor_that_finds_out(
        &self,
        line: &str,
        state: &std::path::Path,
    ) -> Result<Evictor> {
        self.start(arguments_as(NODE, &self.kubeconfig), line, state)
    }

    /// The same, told something more.
    pub(crate) fn evictor_told(
        &self,
        told: &[String],
        line: &str,
        state: &std::path::Path,
    ) -> Result<Evictor> {
        let mut arguments = arguments_as(NODE, &self.kubeconfig);
        arguments.extend_from_slice(told);
        self.start(arguments, line, state)
    }

    /// Does something with the node's conditions, too.
    pub(crate) fn evictor_telling(
        &self,
        flags: &[&str],
        line: &str,
        state: &std::path::Path,
    ) -> Result<Evictor> {
        let mut arguments = if line.starts_with("nodefs") {
            self.seeing_disks(None)?
        } else {
            self.arguments(&self.kubeconfig)?
        };
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self.start(arguments, line, state)
    }

    /// As that of another node, whose pods would be in the same place.
    pub(crate) fn evictor_of(
        &self,
        name: &str,
        line: &str,
        state: &std::path::Path,
    ) -> Result<Evictor> {
        let mut arguments = arguments_as(name, &self.kubeconfig);
        let root = self.cluster.pods_group()?.display().to_string();
        arguments.extend(["--root".to_owned(), root]);
        self.start(arguments, line, state)
    }

    /// With a line for the node's disk.
    pub(crate) fn evictor_of_disks(
        &self,
        line: &str,
        deletes: bool,
        state: &std::path::Path,
    ) -> Result<Evictor> {
        let more = deletes.then_some("--after-eviction=delete");
        self.start(self.seeing_disks(more)?, line, state)
    }

    /// Holds pods to their own limits.
    pub(crate) fn evictor_of_limits(&self, state: &std::path::Path) -> Result<Evictor> {
        self.start(self.seeing_disks(Some("--storage-limits"))?, LINE, state)
    }

    /// With a line for the node's disk, to die at this point.
    pub(crate) fn evictor_until(
        &self,
        point: Point,
        line: &str,
        deletes: bool,
        state: &std::path::Path,
    ) -> Result<Evictor> {
        let more = deletes.then_some("--after-eviction=delete");
        let arguments = all_arguments(self.seeing_disks(more)?, line, state);
        let variable = (fault::VARIABLE, point.name());
        started(Evictor::start_with(&self.programs, &arguments, variable)?)
    }

    fn seeing_disks(&self, more: Option<&str>) -> Result<Vec<String>> {
        let mut arguments = self.arguments(&self.kubeconfig)?;
        let places = [
            ("--nodefs", self.cluster.kubelet_root()),
            ("--pod-logs", self.cluster.pod_logs()),
        ];
        for (flag, place) in places {
            arguments.extend([flag.to_owned(), place.display().to_string()]);
        }
        arguments.extend(more.map(str::to_owned));
        Ok(arguments)
    }

    fn start(
        &self,
        arguments: Vec<String>,
        line: &str,
        state: &std::path::Path,
    ) -> Result<Evictor> {
        let arguments = all_arguments(arguments, line, state);
        started(Evictor::start(&self.programs, &arguments)?)
    }

    /// Those that say where the pods are.
    /// Decides in every second, and kills nobody.
    pub(crate) fn dry_evictor(&self) -> Result<Evictor> {
        let mut arguments = self.arguments(&self.kubeconfig)?;
        let more = [
            "--eviction-hard=memory.available<1Ti",
            "--monitoring-interval=1s",
            "--dry-run",
        ];
        arguments.extend(more.map(str::to_owned));
        started(Evictor::start(&self.programs, &arguments)?)
    }

    fn arguments(&self, kubeconfig: &std::path::Path) -> Result<Vec<String>> {
        let mut arguments = arguments_as(NODE, kubeconfig);
        let root = self.cluster.pods_group()?.display().to_string();
        arguments.extend(["--root".to_owned(), root]);
        Ok(arguments)
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.cluster.kubectl(&self.parts, arguments)
    }

    /// What the API has, as JSON.
    pub(crate) fn get(&self, arguments: &[&str]) -> Result<Value> {
        let all = [&["get", "-o", "json"], arguments].concat();
        Ok(serde_json::from_str(&self.kubectl(&all)?)?)
    }

    /// Waits for it, or says what was waited for.
    pub(crate) fn until<T>(
        &self,
        what: &str,
        seconds: u64,
        mut found: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let mut last = None;
        let found = wait_until(Duration::from_secs(seconds), || match found(self) {
            Ok(found) => found,
            Err(error) => {
                last = Some(error);
                None
            }
        });
        match (found, last) {
            (Some(found), _) => Ok(found),
            (None, Some(error)) => Err(error.context(format!("not within {seconds} s: {what}"))),
            (None, None) => bail!("not within {seconds} s: {what}"),
        }
    }

    /// No story leaves pods to the next.
    pub(crate) fn clean(&self) -> Result<()> {
        for manifest in std::fs::read_dir(self.cluster.folder.join("manifests"))? {
            std::fs::remove_file(manifest?.path())?;
        }
        for kind in ["replicasets", "daemonsets"] {
            let all = ["delete", kind, "--all", "--all-namespaces", "--wait=false"];
            self.kubectl(&all)?;
        }
        let now = ["--grace-period=0", "--force", "--wait=false"];
        let all = [&["delete", "pods", "--all", "--all-namespaces"], &now[..]].concat();
        self.kubectl(&all)?;
        let root = self.cluster.pods_group()?;
        self.until("all pods' cgroups are gone", 60, |node| {
            let left = node.get(&["pods", "--all-namespaces"])?;
            let none_listed = left["items"].as_array().is_some_and(Vec::is_empty);
            Ok((none_listed && pods_below(&root)? == 0).then_some(()))
        })
    }

    /// Is there a cgroup of a pod that asks for less than it may take?
    pub(crate) fn has_group(&self, uid: &str) -> Result<bool> {
        let group = format!("burstable/pod{uid}");
        Ok(self.cluster.pods_group()?.join(group).exists())
    }

    /// Is the volume of a `Wish` on the node's disk?
    pub(crate) fn has_volume(&self, uid: &str) -> bool {
        let volume = format!("pods/{uid}/volumes/kubernetes.io~empty-dir/data");
        self.cluster.kubelet_root().join(volume).exists()
    }

    /// For whoever has to find out why a story failed.
    fn overview(&self) -> String {
        let wide = ["get", "pods", "--all-namespaces", "-o", "wide"];
        self.kubectl(&wide)
            .unwrap_or_else(|error| format!("{error:#}"))
    }
}

fn all_arguments(mut given: Vec<String>, line: &str, state: &std::path::Path) -> Vec<String> {
    let more = [
        "--metrics",
        "127.0.0.1:0",
        "--eviction-hard",
        line,
        "--state",
    ];
    given.extend(more.map(str::to_owned));
    given.push(state.display().to_string());
    given
}

fn started(mut evictor: Evictor) -> Result<Evictor> {
    evictor.wait_for("started", Duration::from_secs(20))?;
    Ok(evictor)
}

fn arguments_as(node: &str, kubeconfig: &std::path::Path) -> Vec<String> {
    vec![
        "--platform=kubernetes".to_owned(),
        format!("--node-name={node}"),
        format!("--kubeconfig={}", kubeconfig.display()),
    ]
}

fn pods_below(root: &std::path::Path) -> Result<usize> {
    let mut pods = 0;
    for group in [
        root.to_owned(),
        root.join("burstable"),
        root.join("besteffort"),
    ] {
        let children = std::fs::read_dir(group)?.filter_map(Result::ok);
        let names = children.map(|child| child.file_name());
        pods += names
            .filter(|name| name.to_string_lossy().starts_with("pod"))
            .count();
    }
    Ok(pods)
}

/// In bytes.
fn total_memory() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: u64 = kib.context("no MemTotal")?.trim().parse()?;
    Ok(kib << 10)
}
