//! Finds the mounts that matter: the hierarchy of the memory controller and, on v1, the freezer's.

use super::CgroupError;
use serde::Serialize;
use std::path::{Component, Path, PathBuf};

/// Which cgroup interface the memory controller is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    V1,
    V2,
}

/// Where cgroup file systems are mounted by convention.
const ALL_HIERARCHIES: &str = "/sys/fs/cgroup";

/// The mounted hierarchy of the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    /// Mount point of the memory hierarchy (v1) or the unified one (v2).
    pub mount: PathBuf,
    /// v1 only: mount point of the freezer, whose groups have the same names where a runtime made them.
    pub freezer: Option<PathBuf>,
}

/// One line of mountinfo, as far as it matters here.
#[derive(Debug, Clone)]
pub struct CgroupMount {
    pub point: PathBuf,
    pub v2: bool,
    /// v1: the names in the super block's options; v2: the content of `cgroup.controllers`.
    pub controllers: Vec<String>,
}

impl Hierarchy {
    pub fn detect() -> Result<Self, CgroupError> {
        let mounts = procfs::process::Process::myself()
            .and_then(|me| me.mountinfo())
            .map_err(|e| CgroupError::Mounts(e.to_string()))?
            .0
            .into_iter()
            .filter(|m| m.fs_type == "cgroup" || m.fs_type == "cgroup2")
            .map(|m| {
                let v2 = m.fs_type == "cgroup2";
                let controllers = if v2 {
                    std::fs::read_to_string(m.mount_point.join("cgroup.controllers"))
                        .unwrap_or_default()
                        .split_whitespace()
                        .map(str::to_owned)
                        .collect()
                } else {
                    m.super_options.into_keys().collect()
                };
                CgroupMount {
                    point: m.mount_point,
                    v2,
                    controllers,
                }
            })
            .collect::<Vec<_>>();
        Self::from_mounts(&mounts).ok_or(CgroupError::NoMemoryController)
    }

    /// Pure part of [`Self::detect`]: a controller is on one hierarchy only, so its presence decides.
    pub fn from_mounts(mounts: &[CgroupMount]) -> Option<Self> {
        let with = |v2: bool, controller: &str| {
            mounts
                .iter()
                .find(|m| m.v2 == v2 && m.controllers.iter().any(|c| c == controller))
                .map(|m| m.point.clone())
        };
        if let Some(mount) = with(true, "memory") {
            return Some(Self {
                version: Version::V2,
                mount,
                freezer: None,
            });
        }
        let mount = with(false, "memory")?;
        Some(Self {
            version: Version::V1,
            mount,
            freezer: with(false, "freezer"),
        })
    }

    /// The directory that a user means by `--root`: a path below the mount point, or one as
    /// `/proc/PID/cgroup` shows it.
    pub fn resolve(&self, group: &Path) -> Result<PathBuf, CgroupError> {
        if group.starts_with(&self.mount) {
            return Ok(group.to_owned());
        }
        if group.starts_with(ALL_HIERARCHIES) {
            return Err(CgroupError::Elsewhere {
                path: group.to_owned(),
                mount: self.mount.clone(),
            });
        }
        let mut path = self.mount.clone();
        path.extend(
            group
                .components()
                .filter(|c| matches!(c, Component::Normal(_))),
        );
        Ok(path)
    }

    /// The directory of a cgroup that `/proc/PID/cgroup` names. `None`: this process lives in a cgroup namespace, whose
    /// names say only how to get there from its own root (`/`, `/../other`).
    pub fn directory_of(&self, shown: &str) -> Option<PathBuf> {
        below_mount(&self.mount, &self.mounted_root()?, shown)
    }

    /// Which cgroup the mount shows at its top, seen from this process's cgroup namespace: `/` for the namespace's own
    /// root, `/../..` for one above it.
    fn mounted_root(&self) -> Option<String> {
        let mounts = procfs::process::Process::myself().ok()?.mountinfo().ok()?;
        let last = mounts.0.into_iter().rev();
        last.into_iter()
            .find(|mount| mount.mount_point == self.mount)
            .map(|mount| mount.root)
    }

    /// The name of a directory as `/proc/PID/cgroup` shows it (`/` is the root).
    pub fn name_of(&self, directory: &Path) -> String {
        let relative = directory.strip_prefix(&self.mount).unwrap_or(directory);
        format!("/{}", relative.display())
    }
}

/// Pure part of [`Hierarchy::directory_of`]: both paths are seen from the same namespace.
fn below_mount(mount: &Path, mounted_root: &str, shown: &str) -> Option<PathBuf> {
    let below = Path::new(shown).strip_prefix(mounted_root).ok()?;
    below
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
        .then(|| mount.join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(point: &str, v2: bool, controllers: &[&str]) -> CgroupMount {
        CgroupMount {
            point: point.into(),
            v2,
            controllers: controllers.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_pure_v2_host() {
        let found =
            Hierarchy::from_mounts(&[mount("/sys/fs/cgroup", true, &["cpu", "memory", "pids"])])
                .unwrap();
        assert_eq!(found.version, Version::V2);
        assert_eq!(found.mount, Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn a_hybrid_host_has_memory_on_v1_and_an_empty_v2_mount() {
        let found = Hierarchy::from_mounts(&[
            mount("/sys/fs/cgroup/memory", false, &["rw", "memory"]),
            mount("/sys/fs/cgroup/freezer", false, &["rw", "freezer"]),
            mount("/sys/fs/cgroup/unified", true, &[]),
        ])
        .unwrap();
        assert_eq!(found.version, Version::V1);
        assert_eq!(found.mount, Path::new("/sys/fs/cgroup/memory"));
        assert_eq!(
            found.freezer.as_deref(),
            Some(Path::new("/sys/fs/cgroup/freezer"))
        );
    }

    #[test]
    fn without_a_memory_controller_there_is_nothing_to_watch() {
        assert_eq!(
            Hierarchy::from_mounts(&[mount("/sys/fs/cgroup", true, &["cpu"])]),
            None
        );
    }

    #[test]
    fn a_group_may_be_given_as_a_path_or_as_proc_shows_it() {
        let v1 = Hierarchy {
            version: Version::V1,
            mount: "/sys/fs/cgroup/memory".into(),
            freezer: None,
        };
        for given in ["/sys/fs/cgroup/memory/a/b", "/a/b", "a/b", "/../a/b"] {
            assert_eq!(
                v1.resolve(Path::new(given)).unwrap(),
                Path::new("/sys/fs/cgroup/memory/a/b"),
                "{given}"
            );
        }
        assert_eq!(v1.name_of(Path::new("/sys/fs/cgroup/memory/a/b")), "/a/b");
        assert_eq!(v1.name_of(Path::new("/sys/fs/cgroup/memory")), "/");
    }

    #[test]
    fn names_of_another_cgroup_namespace_lead_to_a_directory_only_below_what_is_mounted() {
        let table = [
            ("/", "/", Some("/m")),
            ("/", "/system.slice/a", Some("/m/system.slice/a")),
            ("/docker/1", "/docker/1/app", Some("/m/app")),
            ("/docker/1", "/docker/2", None),
            // The host's root is mounted, and the process lives two levels below it: where, is not said.
            ("/../..", "/", None),
            ("/../..", "/app", None),
            ("/../..", "/../../init.scope", Some("/m/init.scope")),
            ("/../..", "/../other", None),
            ("/", "/../outside", None),
        ];
        for (root, shown, expected) in table {
            assert_eq!(
                below_mount(Path::new("/m"), root, shown),
                expected.map(PathBuf::from),
                "{shown} where {root} is mounted"
            );
        }
    }
}
