//! The kubelet that runs on this node, as its process shows it: what it was given, and its files.

mod flags;

pub use flags::KubeletFlags;

use super::PodCgroup;
use super::identity::is_uid;
use crate::sys::process_root::{ProcessRoot, hold};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of its process.
const KUBELET: &str = "kubelet";
const PROC: &str = "/proc";

#[derive(Debug)]
pub struct RunningKubelet {
    pub pid: i32,
    pub flags: KubeletFlags,
    /// Its directory in /proc.
    process: PathBuf,
}

/// Why there is none to be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoKubelet {
    #[error("no process `kubelet` is to be seen here")]
    Unseen,
    #[error("the kubelet that runs here (process {pid}) is that of node {other}, not of {node}")]
    Another {
        pid: i32,
        other: String,
        node: String,
    },
    #[error("more than one kubelet runs here (processes {})", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<i32>),
    #[error("the command line of the kubelet (process {pid}) is not understood: {error}")]
    CommandLine { pid: i32, error: String },
}

impl RunningKubelet {
    /// `node`: whose kubelet is asked for.
    pub fn find(node: Option<&str>) -> Result<Self, NoKubelet> {
        Self::find_in(Path::new(PROC), node)
    }

    fn find_in(proc: &Path, node: Option<&str>) -> Result<Self, NoKubelet> {
        let mut all = Vec::new();
        let mut others = Vec::new();
        for (pid, process) in kubelets(proc) {
            // Of one that has ended nothing is left, or no line until its parent has taken note.
            let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
            if line.is_empty() {
                continue;
            }
            let flags = KubeletFlags::parse(arguments(&line)).map_err(|error| {
                let error = error.to_string();
                NoKubelet::CommandLine { pid, error }
            })?;
            let named = flags.hostname_override.clone();
            match (named, node) {
                (Some(other), Some(node)) if other != node => {
                    let node = node.to_owned();
                    others.push(NoKubelet::Another { pid, other, node });
                }
                _ => all.push(Self {
                    pid,
                    flags,
                    process,
                }),
            }
        }
        if all.len() > 1 {
            let pids = all.iter().map(|kubelet| kubelet.pid);
            return Err(NoKubelet::Several(pids.collect()));
        }
        let other = others.pop().unwrap_or(NoKubelet::Unseen);
        all.pop().ok_or(other)
    }

    /// `process`: what would be its directory in /proc. `line`: its arguments, separated by spaces.
    #[cfg(test)]
    pub(crate) fn for_tests(process: &Path, line: &str) -> Self {
        let words = line.split_whitespace().map(OsString::from);
        Self {
            pid: 7,
            flags: KubeletFlags::parse(words.collect()).unwrap(),
            process: process.to_owned(),
        }
    }

    /// A file by the name that it has for the kubelet. Where we may not look through its eyes (AppArmor), what has this name
    /// here: in a container it is there only if somebody has mounted it.
    pub fn read(&self, path: &Path) -> io::Result<String> {
        let path = self.absolute(path)?;
        match ProcessRoot::of(&self.process) {
            Ok(root) => root.read(&path),
            Err(refused) => std::fs::read_to_string(&path).map_err(|_| refused),
        }
    }

    /// A socket by the name that it has for the kubelet, or else for us; held open, not connected with.
    pub fn hold(&self, path: &Path) -> io::Result<OwnedFd> {
        match ProcessRoot::of(&self.process).and_then(|root| root.hold(path)) {
            Ok(held) => Ok(held),
            Err(refused) => hold(path).map_err(|_| refused),
        }
    }

    /// Its drop-ins in the order in which it reads them: all `.conf` files of a directory and those below
    /// (`mergeKubeletConfigurations`, `cmd/kubelet/app/server.go`).
    pub fn drop_ins(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let directory = self.absolute(directory)?;
        let mut files = ProcessRoot::of(&self.process)?.files_below(&directory)?;
        files.retain(|file| file.extension().is_some_and(|ending| ending == "conf"));
        Ok(files)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        if path.is_absolute() {
            return Ok(path.to_owned());
        }
        Ok(std::fs::read_link(self.process.join("cwd"))?.join(path))
    }
}

/// Root's, and outside of all pods: whoever runs in one may call himself what he likes.
fn kubelets(proc: &Path) -> Vec<(i32, PathBuf)> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, entry.path()))
    });
    let mut found: Vec<_> = processes
        .filter(|(_, process)| is_kubelet(process) == Some(true))
        .collect();
    found.sort_unstable();
    // A child has its parent's name until it runs its own program: every mount that the kubelet makes is such a one.
    let pids: Vec<i32> = found.iter().map(|(pid, _)| *pid).collect();
    found.retain(|(_, process)| parent(process).is_none_or(|parent| !pids.contains(&parent)));
    found
}

fn parent(process: &Path) -> Option<i32> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line?.trim().parse().ok()
}

fn is_kubelet(process: &Path) -> Option<bool> {
    let name = std::fs::read_to_string(process.join("comm")).ok()?;
    if name.trim_end() != KUBELET {
        return None;
    }
    let groups = std::fs::read_to_string(process.join("cgroup")).ok()?;
    let is_in_a_pod = groups
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .any(is_in_a_pod);
    // By its files: what has no directory any more has no owner either.
    let is_roots = process.metadata().ok()?.uid() == 0;
    Some(is_roots && !is_in_a_pod)
}

/// Also by a name that a cgroup namespace of ours has cut off at its beginning.
fn is_in_a_pod(group: &str) -> bool {
    /// As long as a UUID or a hash without its dashes.
    const SHORTEST: usize = 32;
    let is_pod = |level: &str| {
        level
            .strip_prefix("pod")
            .is_some_and(|uid| uid.len() >= SHORTEST && is_uid(uid))
    };
    PodCgroup::of(group).is_some() || group.split('/').any(is_pod)
}

fn arguments(line: &[u8]) -> Vec<OsString> {
    let line = line.strip_suffix(&[0]).unwrap_or(line);
    let words = line.split(|byte| *byte == 0).skip(1);
    words
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const IN_A_POD: &str = "0::/kubepods/burstable/pod7c1b2f5e-3a94-4d0b-9c58-1f2e3d4c5b6a/5f2a\n";
    const CUT_OFF: &str = "0::/../../burstable/pod7c1b2f5e-3a94-4d0b-9c58-1f2e3d4c5b6a/5f2a\n";
    const SERVICE: &str = "4:memory:/system.slice/kubelet.service\n0::/\n";

    /// What /proc would show.
    struct Proc(tempfile::TempDir);

    impl Proc {
        fn with(processes: &[(i32, &str, &str, &str)]) -> Self {
            let proc = Self(tempfile::tempdir().unwrap());
            for (pid, name, group, line) in processes {
                let process = proc.0.path().join(pid.to_string());
                fs::create_dir_all(process.join("root/etc/d/sub")).unwrap();
                fs::write(process.join("comm"), format!("{name}\n")).unwrap();
                fs::write(process.join("cgroup"), group).unwrap();
                let line = line.replace(' ', "\0") + "\0";
                fs::write(process.join("cmdline"), line).unwrap();
            }
            fs::create_dir_all(proc.0.path().join("sys")).unwrap();
            proc
        }

        fn find(&self, node: &str) -> Result<RunningKubelet, NoKubelet> {
            RunningKubelet::find_in(self.0.path(), Some(node))
        }
    }

    #[test]
    fn a_nodes_kubelet_is_found_and_nobody_in_a_pod_passes_for_it() {
        let proc = Proc::with(&[
            (1, "systemd", "0::/init.scope\n", "/sbin/init"),
            (
                20,
                "kubelet",
                SERVICE,
                "/usr/bin/kubelet --root-dir=/k --config=k.yaml",
            ),
            (
                30,
                "kubelet",
                IN_A_POD,
                "kubelet --hostname-override=n --config=/evil",
            ),
            (
                31,
                "kubelet",
                CUT_OFF,
                "kubelet --hostname-override=n --config=/evil",
            ),
        ]);
        let found = proc.find("n").unwrap();
        assert_eq!(found.pid, 20);
        assert_eq!(found.flags.root_dir, Some("/k".into()));
        assert_eq!(Proc::with(&[]).find("n").unwrap_err(), NoKubelet::Unseen);
        // Killed, and its parent has not taken note.
        let proc = Proc::with(&[(20, "kubelet", SERVICE, "kubelet")]);
        fs::write(proc.0.path().join("20/cmdline"), "").unwrap();
        assert_eq!(proc.find("n").unwrap_err(), NoKubelet::Unseen);
        // On its way to become `mount`.
        let line = "/usr/bin/kubelet --root-dir=/k";
        let proc = Proc::with(&[
            (20, "kubelet", SERVICE, line),
            (21, "kubelet", SERVICE, line),
        ]);
        let status = proc.0.path().join("21/status");
        fs::write(status, "Name:\tkubelet\nPPid:\t20\n").unwrap();
        assert_eq!(proc.find("n").unwrap().pid, 20);
    }

    #[test]
    fn of_several_the_one_with_the_nodes_name_counts() {
        let (a, b) = (
            "kubelet --hostname-override a",
            "kubelet --hostname-override=b",
        );
        let two = Proc::with(&[(7, "kubelet", SERVICE, a), (8, "kubelet", SERVICE, b)]);
        assert_eq!(two.find("b").unwrap().pid, 8);
        let other = Proc::with(&[(7, "kubelet", SERVICE, a)])
            .find("c")
            .unwrap_err();
        assert_eq!(
            other.to_string(),
            "the kubelet that runs here (process 7) is that of node a, not of c"
        );
        let nameless = "kubelet --config /c";
        let two = Proc::with(&[
            (7, "kubelet", SERVICE, nameless),
            (8, "kubelet", SERVICE, nameless),
        ]);
        assert_eq!(two.find("a").unwrap_err(), NoKubelet::Several(vec![7, 8]));
    }

    #[test]
    fn its_files_have_the_names_that_it_gives_them() {
        let proc = Proc::with(&[(7, "kubelet", SERVICE, "kubelet")]);
        let root = proc.0.path().join("7/root/etc");
        for (file, text) in [
            ("k.yaml", "a"),
            ("d/20.conf", ""),
            ("d/10.conf", ""),
            ("d/10.yaml", ""),
            ("d/sub/30.conf", ""),
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        std::os::unix::fs::symlink("/etc", proc.0.path().join("7/cwd")).unwrap();
        let kubelet = proc.find("n").unwrap();
        for name in ["/etc/k.yaml", "k.yaml"] {
            assert_eq!(kubelet.read(Path::new(name)).unwrap(), "a");
        }
        let found = kubelet.drop_ins(Path::new("d")).unwrap();
        let expected = ["/etc/d/10.conf", "/etc/d/20.conf", "/etc/d/sub/30.conf"];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
