//! The processes: each in the cluster's network namespace and cgroup, with a log of its own.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns};
use nix::unistd::setsid;

use super::Cluster;
use super::files::{NODE, User, kubeconfig_path};
use super::parts::Parts;

/// Services' addresses; nobody proxies them here, clients are told the API server's own.
const SERVICES: &str = "10.96.0.0/24";

/// There is one of each. Who has to be elected ends when the API server does not answer for ten seconds, as in some tests.
const ALONE: &str = "--leader-elect=false";

/// A program and what it is started with.
pub(super) struct Component {
    pub(super) program: &'static str,
    arguments: Vec<String>,
}

impl Component {
    /// In the order in which they need each other.
    pub(super) fn control_plane(cluster: &Cluster) -> Vec<Self> {
        let folder = cluster.folder.display();
        let address = cluster.network.address;
        let admin = kubeconfig_path(&cluster.folder, User::Admin);
        let kubeconfig = format!("--kubeconfig={}", admin.display());
        let key = format!("{folder}/pki/sa.key");
        vec![
            Self::new(
                "etcd",
                [
                    format!("--data-dir={folder}/etcd"),
                    "--listen-client-urls=http://127.0.0.1:2379".to_owned(),
                    "--advertise-client-urls=http://127.0.0.1:2379".to_owned(),
                    "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
                    // It lives for one test run.
                    "--unsafe-no-fsync".to_owned(),
                ],
            ),
            Self::new(
                "kube-apiserver",
                [
                    "--etcd-servers=http://127.0.0.1:2379".to_owned(),
                    format!("--cert-dir={folder}/pki"),
                    "--secure-port=6443".to_owned(),
                    "--bind-address=0.0.0.0".to_owned(),
                    format!("--advertise-address={address}"),
                    // Nobody resolves the node's name; logs are asked for at its address.
                    "--kubelet-preferred-address-types=InternalIP".to_owned(),
                    format!("--service-account-key-file={key}"),
                    format!("--service-account-signing-key-file={key}"),
                    "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                    format!("--service-cluster-ip-range={SERVICES}"),
                    format!("--token-auth-file={folder}/pki/tokens.csv"),
                    "--authorization-mode=Node,RBAC".to_owned(),
                    "--enable-admission-plugins=NodeRestriction".to_owned(),
                    "--allow-privileged=true".to_owned(),
                ],
            ),
            Self::new(
                "kube-controller-manager",
                [
                    kubeconfig.clone(),
                    format!("--service-account-private-key-file={key}"),
                    format!("--root-ca-file={folder}/pki/apiserver.crt"),
                    "--use-service-account-credentials=true".to_owned(),
                    ALONE.to_owned(),
                ],
            ),
            Self::new("kube-scheduler", [kubeconfig, ALONE.to_owned()]),
        ]
    }

    pub(super) fn containerd(config: &Path) -> Self {
        Self::new("containerd", [format!("--config={}", config.display())])
    }

    pub(super) fn kubelet(cluster: &Cluster) -> Self {
        let folder = cluster.folder.display();
        let node = kubeconfig_path(&cluster.folder, User::Node);
        Self::new(
            "kubelet",
            [
                format!("--config={folder}/kubelet.yaml"),
                format!("--kubeconfig={}", node.display()),
                format!("--hostname-override={NODE}"),
                format!("--node-ip={}", cluster.network.address),
                format!("--root-dir={}", cluster.kubelet_root().display()),
                format!("--cert-dir={folder}/pki/kubelet"),
                "-v=2".to_owned(),
            ],
        )
    }

    fn new<const N: usize>(program: &'static str, arguments: [String; N]) -> Self {
        Self {
            program,
            arguments: arguments.into(),
        }
    }

    /// Its log.
    pub(super) fn log(&self, folder: &Path) -> PathBuf {
        folder.join("logs").join(format!("{}.log", self.program))
    }

    pub(super) fn start(&self, cluster: &Cluster, parts: &Parts) -> Result<Child> {
        let path = self.log(&cluster.folder);
        // One that was started again goes on with its log.
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot write {}", path.display()))?;
        let mut command = Command::new(parts.program(self.program)?);
        command
            .args(&self.arguments)
            .env("PATH", parts.search_path()?)
            .current_dir(&cluster.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        enter(&mut command, cluster)?;
        let started = command.spawn();
        started.with_context(|| format!("cannot start {}", self.program))
    }
}

/// Lets `command` run in the cluster's network namespace and cgroup, and apart from our terminal: Ctrl-C is not for it.
fn enter(command: &mut Command, cluster: &Cluster) -> Result<()> {
    let network = cluster.network.open()?;
    let entrances: Vec<File> = cluster
        .groups()?
        .entrances()
        .iter()
        .map(|path| {
            let mut options = File::options();
            let opened = options.write(true).open(path);
            opened.with_context(|| format!("cannot open {}", path.display()))
        })
        .collect::<Result<_>>()?;
    // SAFETY: between fork and exec only system calls on descriptors that are open: nothing is allocated, no lock is taken.
    unsafe {
        command.pre_exec(move || {
            for entrance in &entrances {
                // Whoever writes 0 enters.
                let mut entrance = entrance;
                entrance.write_all(b"0")?;
            }
            setns(&network, CloneFlags::CLONE_NEWNET)?;
            setsid()?;
            Ok(())
        });
    }
    Ok(())
}

/// A program of the cluster's, as a person would call it from inside: `kubectl` as administrator, `ctr` at its socket.
pub(super) fn inside(cluster: &Cluster, parts: &Parts, program: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    let admin = kubeconfig_path(&cluster.folder, User::Admin);
    let socket = cluster.folder.join("containerd/containerd.sock");
    command
        .env("PATH", parts.search_path()?)
        .env("KUBECONFIG", admin)
        .env("CONTAINERD_ADDRESS", socket)
        .env("CONTAINERD_NAMESPACE", "k8s.io");
    let network = cluster.network.open()?;
    // SAFETY: one system call on a descriptor that is open.
    unsafe {
        command.pre_exec(move || Ok(setns(&network, CloneFlags::CLONE_NEWNET)?));
    }
    Ok(command)
}
