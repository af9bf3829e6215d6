//! One more node of a cluster, in a guest: another kernel, and cgroup v2 whatever this machine has. Kubelet and runtime are in it;
//! the control plane stays where it is, where it is fast.

mod root;
mod shell;
mod stock;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Cluster, GUEST_NODE, POLL, Parts};
use crate::clock::{Stopwatch, show};
use crate::console;
use crate::process::tail;
use crate::setup::Kernel;
use crate::vm::{self, CgroupVersion, Finished, Guest, GuestError, Line, UserNetwork};
use crate::workspace::Workspace;

pub use root::Software;

const MEMORY_MIB: u32 = 3072;
/// The kubelet's, for the API server: not its usual one, which this machine's has in the same namespace. And the shell's.
const KUBELET_PORT: u16 = 10_260;
const SHELL_PORT: u16 = 7_777;
/// Emulated, and on a busy machine: ten times what it takes.
const PATIENCE: Duration = Duration::from_secs(300);
/// A guest that hangs does not outlive a test run.
const LIFETIME: Duration = Duration::from_secs(3_600);

/// From the initramfs, where no container's root can be changed, to the disk.
const ENTER: &str = "mkdir /node && mount -t ext4 /dev/vda /node && cd /node && mount -o move . / \
                     && exec chroot . /bin/busybox sh /node.sh";

/// One that has been started; off when it is dropped.
#[derive(Debug)]
pub struct GuestNode {
    network: UserNetwork,
    unwanted: Arc<AtomicBool>,
    machine: Option<JoinHandle<Result<Finished, GuestError>>>,
    /// How often it was booted once more.
    again: Arc<AtomicU32>,
    log: PathBuf,
}

impl GuestNode {
    /// Boots it and waits until the cluster has it as a node that is ready.
    pub fn start(
        workspace: &Workspace,
        cluster: &Cluster,
        parts: &Parts,
        kernel: Kernel,
        software: &Software<'_>,
    ) -> Result<Self> {
        let network = cluster.network.for_guest(vec![KUBELET_PORT, SHELL_PORT])?;
        let disk = root::disk(workspace, cluster, parts, &network, software)
            .context("the guest's disk cannot be made")?;
        let log = cluster.folder.join("logs/guest.log");
        let mut node = Self {
            unwanted: Arc::default(),
            machine: None,
            again: Arc::default(),
            network,
            log,
        };
        node.boot(workspace, kernel, disk)?;
        node.until_ready(cluster, parts)?;
        Ok(node)
    }

    fn boot(&mut self, workspace: &Workspace, kernel: Kernel, disk: PathBuf) -> Result<()> {
        let command = ["sh", "-c", ENTER].map(str::to_owned).to_vec();
        let mut guest = Guest::new(kernel, CgroupVersion::V2, command);
        guest.memory_mib = MEMORY_MIB;
        guest
            .modules
            .extend(["virtio_net", "overlay"].map(str::to_owned));
        guest.disks = vec![disk];
        guest.timeout = LIFETIME;
        guest.network = Some(self.network.clone());
        guest.unwanted = Arc::clone(&self.unwanted);
        let mut log = File::create(&self.log)?;
        let workspace = workspace.clone();
        let again = Arc::clone(&self.again);
        self.machine = Some(thread::spawn(move || {
            vm::run(&workspace, &guest, &mut |line| {
                let text = match line {
                    Line::Output(text) => text,
                    // The only thing that there is to say.
                    Line::Notice(text) => {
                        again.fetch_add(1, Ordering::Relaxed);
                        text
                    }
                };
                // It only illustrates an error that is reported anyway.
                let _ = writeln!(log, "{text}");
            })
        }));
        Ok(())
    }

    /// How often its emulator has let it down: it was booted once more then, and knows nothing of what was before.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.again.load(Ordering::Relaxed)
    }

    /// The cluster has it as a node that is ready.
    pub fn until_ready(&mut self, cluster: &Cluster, parts: &Parts) -> Result<()> {
        let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        let clock = Stopwatch::start();
        loop {
            let status = cluster.kubectl(parts, &["get", "node", GUEST_NODE, "-o", ready]);
            let is_ready = status.is_ok_and(|status| status == "True");
            // By its own word, too: the API has what it said before it was booted once more for a while.
            if is_ready && self.sh("test -s /run/kubelet.pid").is_ok() {
                console::step("the guest's node is ready", "", &show(clock.elapsed()));
                return Ok(());
            }
            if self.machine.as_ref().is_none_or(JoinHandle::is_finished) {
                let ended = self.machine.take().map(JoinHandle::join);
                bail!("the guest ended: {ended:?}\n{}", self.said());
            }
            ensure!(
                clock.elapsed() < PATIENCE,
                "the guest's node is not ready within {}\n{}\n{}",
                show(PATIENCE),
                self.said(),
                self.sh("tail -n 5 /var/log/containerd.log /var/log/kubelet.log")
                    .unwrap_or_else(|error| format!("{error:#}"))
            );
            thread::sleep(POLL);
        }
    }

    fn said(&self) -> String {
        tail(&std::fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// What a script prints that the guest's own shell carries out, both outputs together.
    pub fn sh(&self, script: &str) -> Result<String> {
        shell::ask((self.network.guest, SHELL_PORT).into(), script)
    }

    /// Starts its kubelet again with other keys in its configuration.
    pub fn reconfigure_kubelet(&self, keys: &[(&str, Value)]) -> Result<()> {
        let path = root::KUBELET_CONFIG;
        let mut config: Value = serde_json::from_str(&self.sh(&format!("cat {path}"))?)?;
        for (key, value) in keys {
            config[key] = value.clone();
        }
        self.sh(&format!(
            "cat >{path} <<'END'\n{config}\nEND\nkill \"$(cat /run/kubelet.pid)\""
        ))
        .map(drop)
    }

    /// Its kubelet's root directory.
    #[must_use]
    pub fn kubelet_root(&self) -> &'static Path {
        Path::new(root::KUBELET)
    }
}

impl Drop for GuestNode {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
        // How it ended nobody asks any more.
        let _ = self.machine.take().map(JoinHandle::join);
    }
}
