//! The programs of a Kubernetes node, built from Go modules at the versions that `tests/cluster/*/go.mod` and `go.sum` pin.
//! Nothing but modules is downloaded; what was built stays in the cache under a hash of all that went into it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::clock::{Stopwatch, show};
use crate::console;
use crate::process::{capture, run_logged};
use crate::workspace::Workspace;

/// One Go module, and what is built in it. Modules disagree about what they share, so each has its own.
struct Set {
    /// Folder in `tests/cluster`.
    module: &'static str,
    /// Package paths; the last part of each is the program's name.
    packages: &'static [&'static str],
    /// Programs that do not have their package's name.
    renamed: Option<&'static str>,
    ldflags: &'static str,
    tags: &'static str,
    cgo: bool,
}

/// `gitVersion` and its parts: an API server without them reports a version that clients refuse to parse.
const KUBERNETES_VERSION: &str = "-s -w \
    -X k8s.io/component-base/version.gitVersion=v1.36.3 \
    -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=36";

/// The chart is rendered and installed with it.
const HELM: Set = Set {
    module: "helm",
    packages: &["helm.sh/helm/v4/cmd/helm"],
    renamed: None,
    ldflags: "-s -w",
    tags: "",
    cgo: false,
};

const SETS: [Set; 5] = [
    Set {
        module: "kubernetes",
        packages: &[
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "k8s.io/kubernetes/cmd/kubelet",
            "k8s.io/kubernetes/cmd/kubectl",
        ],
        renamed: None,
        ldflags: KUBERNETES_VERSION,
        tags: "",
        cgo: false,
    },
    Set {
        module: "etcd",
        packages: &["."],
        renamed: Some("etcd"),
        ldflags: "-s -w",
        tags: "",
        cgo: false,
    },
    Set {
        module: "containerd",
        packages: &[
            "github.com/containerd/containerd/v2/cmd/containerd",
            "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            "github.com/containerd/containerd/v2/cmd/ctr",
        ],
        renamed: None,
        ldflags: "-s -w",
        tags: "",
        cgo: false,
    },
    Set {
        module: "runc",
        packages: &["github.com/opencontainers/runc"],
        renamed: None,
        // Static, because it also runs in guests. Without seccomp every pod fails: "seccomp not supported".
        ldflags: "-s -w -extldflags -static",
        tags: "seccomp netgo osusergo",
        cgo: true,
    },
    HELM,
];

/// Where the built programs are.
#[derive(Clone, Debug)]
pub struct Parts {
    folders: Vec<PathBuf>,
}

impl Parts {
    /// Builds what the cache lacks.
    pub fn build(workspace: &Workspace) -> Result<Self> {
        Self::of(workspace, &SETS)
    }

    /// Helm alone, for what needs no cluster.
    pub fn helm(workspace: &Workspace) -> Result<Self> {
        Self::of(workspace, &[HELM])
    }

    fn of(workspace: &Workspace, sets: &[Set]) -> Result<Self> {
        let go = capture(Command::new("go").arg("version")).context(
            "the cluster's programs are built with Go, which is not here: install Go 1.26 or later",
        )?;
        let folders = sets
            .iter()
            .map(|set| set.build(workspace, &go))
            .collect::<Result<_>>()?;
        Ok(Self { folders })
    }

    /// The path of one program.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let mut places = self.folders.iter().map(|folder| folder.join(name));
        places
            .find(|place| place.is_file())
            .with_context(|| format!("{name} is not among the cluster's programs"))
    }

    /// For `PATH`: containerd looks for its shim there, the kubelet for nothing, people for all of them.
    pub fn search_path(&self) -> Result<std::ffi::OsString> {
        let own = std::env::var_os("PATH").unwrap_or_default();
        let folders = self.folders.iter().cloned();
        Ok(std::env::join_paths(
            folders.chain(std::env::split_paths(&own)),
        )?)
    }
}

impl Set {
    fn source(&self, workspace: &Workspace) -> PathBuf {
        workspace.root().join("tests/cluster").join(self.module)
    }

    fn programs(&self) -> Vec<&'static str> {
        let last = |package: &'static str| package.rsplit('/').next().unwrap_or(package);
        match self.renamed {
            Some(name) => vec![name],
            None => self.packages.iter().copied().map(last).collect(),
        }
    }

    /// The folder with the programs.
    fn build(&self, workspace: &Workspace, go: &str) -> Result<PathBuf> {
        let source = self.source(workspace);
        let cache = workspace.cache().join("cluster");
        let folder = cache.join(format!("{}-{}", self.module, self.key(&source, go)?));
        let is_whole = |folder: &Path| self.programs().iter().all(|p| folder.join(p).is_file());
        if is_whole(&folder) {
            return Ok(folder);
        }
        let clock = Stopwatch::start();
        console::step(self.module, "building", &self.programs().join(" "));
        std::fs::create_dir_all(&cache)?;
        // What is there under its final name is whole.
        let unfinished = tempfile::tempdir_in(&cache)?;
        let log = workspace.log(&format!("cluster-{}", self.module));
        run_logged(&mut self.command(&source, unfinished.path()), &log).with_context(|| {
            format!(
                "{} could not be built; the whole output: {}",
                self.module,
                log.display()
            )
        })?;
        ensure!(
            is_whole(unfinished.path()),
            "`go build` left some of {:?} out",
            self.programs()
        );
        let built = unfinished.keep();
        if let Err(error) = std::fs::rename(&built, &folder) {
            std::fs::remove_dir_all(&built)?;
            // Another build was faster.
            ensure!(
                is_whole(&folder),
                "cannot place {}: {error}",
                folder.display()
            );
        }
        console::step(self.module, "built", &show(clock.elapsed()));
        Ok(folder)
    }

    fn command(&self, source: &Path, output: &Path) -> Command {
        let mut command = Command::new("go");
        command.current_dir(source).args([
            "build",
            "-mod=readonly",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            self.ldflags,
            "-tags",
            self.tags,
            "-o",
        ]);
        match self.renamed {
            Some(name) => command.arg(output.join(name)),
            None => command.arg(format!("{}/", output.display())),
        };
        command
            .args(self.packages)
            .env("CGO_ENABLED", if self.cgo { "1" } else { "0" })
            .env("GOFLAGS", "")
            .env("GOWORK", "off");
        command
    }

    /// All that the programs depend on.
    fn key(&self, source: &Path, go: &str) -> Result<String> {
        let mut hash = Sha256::new();
        for file in ["go.mod", "go.sum"] {
            let path = source.join(file);
            let content =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            hash.update(content);
        }
        for text in [go, self.ldflags, self.tags] {
            hash.update(text);
        }
        let digits = hash.finalize();
        Ok(digits.iter().take(8).map(|b| format!("{b:02x}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sets_key_follows_what_it_is_built_from() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write("go.mod", "module a");
        write("go.sum", "x");
        let key = |set: &Set, go| set.key(folder.path(), go).unwrap();
        let first = key(&SETS[0], "go1");
        assert_eq!(first, key(&SETS[0], "go1"));
        assert_ne!(first, key(&SETS[0], "go2"));
        assert_ne!(first, key(&SETS[3], "go1"));
        write("go.sum", "y");
        assert_ne!(first, key(&SETS[0], "go1"));
    }

    #[test]
    fn programs_are_named_after_their_packages() {
        assert_eq!(SETS[1].programs(), ["etcd"]);
        assert_eq!(
            SETS[2].programs(),
            ["containerd", "containerd-shim-runc-v2", "ctr"]
        );
    }

    #[test]
    fn the_version_that_is_told_is_the_one_that_is_built() {
        let workspace = Workspace::find().unwrap();
        let manifest = SETS[0].source(&workspace).join("go.mod");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let required = |line: &str| {
            line.trim()
                .strip_prefix("k8s.io/kubernetes ")
                .map(str::to_owned)
        };
        let version = manifest
            .lines()
            .map(|line| line.trim_start_matches("require "))
            .find_map(required)
            .unwrap();
        assert!(
            SETS[0].ldflags.contains(&format!("gitVersion={version} ")),
            "{version}"
        );
    }
}
