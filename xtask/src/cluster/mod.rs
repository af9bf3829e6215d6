//! A real Kubernetes node on this machine: etcd, API server, controller manager, scheduler, containerd and kubelet, natively, in
//! a network namespace and a cgroup of their own. Taking it down ends what is in that cgroup, and nothing else.

mod components;
mod disk;
mod files;
mod groups;
mod guest;
mod images;
mod network;
mod parts;
mod places;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::{Stopwatch, show};
use crate::console;
use crate::process::{capture, tail};
use crate::setup::{self, Scope};
use crate::workspace::Workspace;
use components::Component;
use groups::Groups;

pub use disk::{Disk, Disks};
pub use files::{GUEST_NODE, NODE};
pub use guest::{GuestNode, Software};
pub use images::LOAD;
pub use network::{Network, check_name};
pub use parts::Parts;

/// Sockets below it: a path in the build's output may be too long for one.
const PLACE: &str = "/var/tmp";
const STATE: &str = "cluster.json";
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(200);

/// What is known of a cluster, also by the next process that deals with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cluster {
    pub name: String,
    pub folder: PathBuf,
    pub network: Network,
    /// More keys of the kubelet's configuration.
    pub kubelet: BTreeMap<String, Value>,
    pub disks: Disks,
}

impl Cluster {
    /// Where a cluster of this name keeps all that it writes.
    #[must_use]
    pub fn folder(name: &str) -> PathBuf {
        Path::new(PLACE).join(format!("eviction-cluster-{name}"))
    }

    /// Its cgroup, from the root of each hierarchy.
    #[must_use]
    pub fn cgroup(&self) -> String {
        group_name(&self.name)
    }

    fn groups(&self) -> Result<Groups> {
        Groups::named(&self.cgroup())
    }

    /// One that is up.
    pub fn find(name: &str) -> Result<Self> {
        let path = Self::folder(name).join(STATE);
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "there is no cluster `{name}`: `cargo xtask cluster up --name {name}` makes one"
            )
        })?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged: take the cluster down", path.display()))
    }

    /// Starts everything and waits until the node is ready. What has been started is taken down again if that fails. `load`: the
    /// static `eviction-load`, which the pods run.
    pub fn up(
        workspace: &Workspace,
        name: &str,
        load: &Path,
        kubelet: BTreeMap<String, Value>,
        disks: Disks,
    ) -> Result<Self> {
        check_name(name)?;
        setup::ensure(workspace, Scope::Build)?;
        let parts = Parts::build(workspace)?;
        let folder = Self::folder(name);
        ensure!(
            !folder.exists(),
            "{} is there already: another cluster of this name is up, or was not taken down (`cargo xtask cluster down --name {name}`)",
            folder.display()
        );
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let network = Network::make(name).inspect_err(|_| {
            let _ = std::fs::remove_dir_all(&folder);
        })?;
        let cluster = Self {
            name: name.to_owned(),
            folder,
            network,
            kubelet,
            disks,
        };
        match cluster.start(workspace, &parts, load) {
            Ok(()) => Ok(cluster),
            Err(error) => {
                cluster.down()?;
                Err(error)
            }
        }
    }

    fn start(&self, workspace: &Workspace, parts: &Parts, load: &Path) -> Result<()> {
        let state = serde_json::to_string_pretty(self)?;
        std::fs::write(self.folder.join(STATE), state)?;
        self.groups()?.make()?;
        let node = self.folder.join("node");
        std::fs::create_dir(&node)?;
        if let Some(disk) = self.disks.node {
            disk.mount(&self.folder.join("disk.img"), &node)?;
        }
        if let Some(disk) = self.disks.runtime {
            let place = self.runtime_root();
            std::fs::create_dir(&place)?;
            disk.mount(&self.folder.join("runtime.img"), &place)?;
        }
        files::write_all(self, parts)?;
        capture(
            Command::new("openssl")
                .args(["genrsa", "-out"])
                .arg(self.folder.join("pki/sa.key"))
                .arg("2048"),
        )
        .context("the key of the service accounts cannot be made")?;
        let mut running = Running(Vec::new());
        for component in Component::control_plane(self) {
            let is_server = component.program == "kube-apiserver";
            running.start(component, self, parts)?;
            if is_server {
                running.until(self, "the API server is ready", || {
                    self.kubectl(parts, &["get", "--raw", "/readyz"]).is_ok()
                })?;
            }
        }
        let config = self.folder.join("containerd.toml");
        running.start(Component::containerd(&config), self, parts)?;
        running.until(self, "containerd answers", || {
            self.run(parts, "ctr", &["version"]).is_ok()
        })?;
        images::import(workspace, self, parts, load)?;
        running.start(Component::kubelet(self), self, parts)?;
        let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        running.until(self, "the node is ready", || {
            self.kubectl(parts, &["get", "node", NODE, "-o", ready])
                .is_ok_and(|status| status == "True")
        })
    }

    /// What `kubectl` prints, as administrator.
    pub fn kubectl(&self, parts: &Parts, arguments: &[&str]) -> Result<String> {
        self.run(parts, "kubectl", arguments)
    }

    /// Creates or changes what a manifest says.
    pub fn apply(&self, parts: &Parts, manifest: &Value) -> Result<()> {
        let path = self.folder.join("applied.json");
        std::fs::write(&path, manifest.to_string())?;
        let path = path.to_str().context("the folder's name is not UTF-8")?;
        self.kubectl(parts, &["apply", "-f", path]).map(drop)
    }

    /// Gives the runtime an image, from its archive.
    pub fn import(&self, parts: &Parts, archive: &Path) -> Result<()> {
        let path = archive.to_str().context("the folder's name is not UTF-8")?;
        self.run(parts, "ctr", &["images", "import", path])
            .map(drop)
    }

    /// A file for clients that come with this token.
    pub fn write_kubeconfig(&self, name: &str, token: &str) -> Result<PathBuf> {
        files::write_kubeconfig(self, name, token)
    }

    /// The process id of a component.
    pub fn process(&self, program: &str) -> Result<i32> {
        self.groups()?.process(program)
    }

    /// Ends the kubelet as a crash would, and starts it again.
    pub fn restart_kubelet(&self, parts: &Parts) -> Result<()> {
        let kubelet = Component::kubelet(self);
        let pid = Pid::from_raw(self.process(kubelet.program)?);
        kill(pid, Signal::SIGKILL).context("the kubelet cannot be ended")?;
        let clock = Stopwatch::start();
        while self.process(kubelet.program).is_ok() {
            ensure!(clock.elapsed() < PATIENCE, "the kubelet does not end");
            thread::sleep(POLL);
        }
        kubelet.start(self, parts).map(drop)
    }

    /// Starts the kubelet again with other keys in its configuration.
    pub fn reconfigure_kubelet(&self, parts: &Parts, keys: &[(&str, Value)]) -> Result<()> {
        let mut changed = self.clone();
        let keys = keys.iter().cloned();
        changed
            .kubelet
            .extend(keys.map(|(key, value)| (key.to_owned(), value)));
        files::write_kubelet_config(&changed)?;
        self.restart_kubelet(parts)
    }

    /// The kubelet's root directory, on the node's disk.
    #[must_use]
    pub fn kubelet_root(&self) -> PathBuf {
        self.folder.join("node/kubelet")
    }

    /// The runtime's.
    #[must_use]
    pub fn runtime_root(&self) -> PathBuf {
        self.folder.join("node/containerd")
    }

    /// The pods' logs.
    #[must_use]
    pub fn pod_logs(&self) -> PathBuf {
        self.folder.join("node/logs")
    }

    /// The cgroup that holds all pods, in the hierarchy of memory.
    pub fn pods_group(&self) -> Result<PathBuf> {
        Ok(self.groups()?.memory()?.join("kubepods"))
    }

    /// What one of the cluster's programs prints, run inside of it.
    pub fn run(&self, parts: &Parts, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = components::inside(self, parts, &parts.program(program)?)?;
        Ok(capture(command.args(arguments))?)
    }

    /// A shell inside, with the cluster's programs on its path.
    pub fn shell(&self, parts: &Parts) -> Result<Command> {
        let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        components::inside(self, parts, Path::new(&shell))
    }

    /// Ends everything in it and removes what it has left behind.
    pub fn down(&self) -> Result<()> {
        Self::remove(&self.name)
    }

    /// The same by its name alone, also where its start was cut short.
    pub fn remove(name: &str) -> Result<()> {
        check_name(name)?;
        let folder = Self::folder(name);
        ensure!(
            folder.exists(),
            "there is no cluster `{name}`: {} does not exist",
            folder.display()
        );
        Groups::named(&group_name(name))?.remove()?;
        Network::remove(name);
        unmount_below(&folder)?;
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))
    }
}

fn group_name(cluster: &str) -> String {
    format!("eviction-cluster-{cluster}")
}

/// What has been started so far.
struct Running(Vec<(Component, Child)>);

impl Running {
    fn start(&mut self, component: Component, cluster: &Cluster, parts: &Parts) -> Result<()> {
        let child = component.start(cluster, parts)?;
        self.0.push((component, child));
        Ok(())
    }

    /// Waits for something; a component that ends meanwhile is the answer to why it never comes.
    fn until(
        &mut self,
        cluster: &Cluster,
        what: &str,
        mut is_so: impl FnMut() -> bool,
    ) -> Result<()> {
        let clock = Stopwatch::start();
        while !is_so() {
            for (component, child) in &mut self.0 {
                if let Some(status) = child.try_wait()? {
                    let said = std::fs::read_to_string(component.log(&cluster.folder));
                    bail!(
                        "{} ended with {status}:\n{}",
                        component.program,
                        tail(&said.unwrap_or_default())
                    );
                }
            }
            ensure!(
                clock.elapsed() < PATIENCE,
                "not within {}: {what}; the logs are in {}",
                show(PATIENCE),
                cluster.folder.join("logs").display()
            );
            thread::sleep(POLL);
        }
        console::step(what, "", &show(clock.elapsed()));
        Ok(())
    }
}

/// Containers' file systems and volumes, the innermost first.
fn unmount_below(folder: &Path) -> Result<()> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("cannot read the mounts")?;
    let mut below: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|place| Path::new(place).starts_with(folder))
        .collect();
    below.sort_unstable();
    for place in below.into_iter().rev() {
        let detached = nix::mount::umount2(place, nix::mount::MntFlags::MNT_DETACH);
        detached.with_context(|| format!("cannot unmount {place}"))?;
    }
    Ok(())
}
