//! Where the kubelet keeps its pods' cgroups.

use crate::sys::cgroup::{CgroupDir, Hierarchy};
use std::path::{Path, PathBuf};

/// The kubelet's name for what holds all pods (`pkg/kubelet/cm/node_container_manager_linux.go`).
const PODS: &str = "kubepods";

/// The cgroup that holds all pods. `cgroup_root` and `driver`: as the kubelet has them, the first one empty for the top. The other
/// driver's place counts, too: the kubelet may have asked its runtime for one. `Err`: where it is not.
pub fn pods_root(
    hierarchy: &Hierarchy,
    cgroup_root: &str,
    driver: &str,
) -> Result<PathBuf, [PathBuf; 2]> {
    let mut places = [on_cgroupfs(cgroup_root), on_systemd(cgroup_root)];
    if driver == "systemd" {
        places.reverse();
    }
    let places = places.map(|place| hierarchy.mount.join(place));
    let found = places.iter().find(|path| CgroupDir::open(path).is_ok());
    found.cloned().ok_or(places)
}

/// The levels down to the pods, as the kubelet names them inside (`ParseCgroupfsToCgroupName`).
fn levels(cgroup_root: &str) -> impl Iterator<Item = &str> {
    let above = cgroup_root.split('/').filter(|level| !level.is_empty());
    above.chain([PODS])
}

/// The names are the directories (`ToCgroupfs`).
fn on_cgroupfs(cgroup_root: &str) -> PathBuf {
    levels(cgroup_root).collect()
}

/// A slice in a slice, each named by the whole way down (`ToSystemd`, and `ExpandSlice` of runc): a dash within a name would be
/// another level, so it becomes an underscore.
fn on_systemd(cgroup_root: &str) -> PathBuf {
    let mut place = PathBuf::new();
    let mut name = String::new();
    for level in levels(cgroup_root) {
        if !name.is_empty() {
            name.push('-');
        }
        name.push_str(&level.replace('-', "_"));
        place.push(Path::new(&format!("{name}.slice")));
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::PodCgroup;
    use crate::kube::identity::places;
    use crate::sys::cgroup::Version;

    /// A cgroupRoot, and the pods' place by either driver.
    const FORMS: [(&str, &str, &str); 8] = [
        ("", "kubepods", "kubepods.slice"),
        ("/", "kubepods", "kubepods.slice"),
        (
            "/custom",
            "custom/kubepods",
            "custom.slice/custom-kubepods.slice",
        ),
        // kind's
        (
            "/kubelet",
            "kubelet/kubepods",
            "kubelet.slice/kubelet-kubepods.slice",
        ),
        (
            "kubelet/",
            "kubelet/kubepods",
            "kubelet.slice/kubelet-kubepods.slice",
        ),
        (
            "/a/b",
            "a/b/kubepods",
            "a.slice/a-b.slice/a-b-kubepods.slice",
        ),
        (
            "/my-nodes",
            "my-nodes/kubepods",
            "my_nodes.slice/my_nodes-kubepods.slice",
        ),
        // Nobody means that, but this is what becomes of it: the suffix is no part of the names inside.
        (
            "/k.slice",
            "k.slice/kubepods",
            "k.slice.slice/k.slice-kubepods.slice",
        ),
    ];

    #[test]
    fn the_place_of_all_pods_by_cgroup_root_and_driver() {
        for (root, cgroupfs, systemd) in FORMS {
            assert_eq!(on_cgroupfs(root), Path::new(cgroupfs), "{root}");
            assert_eq!(on_systemd(root), Path::new(systemd), "{root}");
        }
    }

    #[test]
    fn pods_below_each_place_are_known_as_such() {
        const UID: &str = "7c1b2f5e-3a94-4d0b-9c58-1f2e3d4c5b6a";
        for (root, cgroupfs, systemd) in FORMS {
            for place in [cgroupfs, systemd] {
                let name = place.rsplit('/').next().unwrap();
                for pod in places(name, UID) {
                    let path = Path::new("/").join(place).join(pod);
                    let known = PodCgroup::of(path.to_str().unwrap());
                    let uid = known.map(|pod| pod.uid);
                    assert_eq!(uid.as_deref(), Some(UID), "{root}: {}", path.display());
                }
            }
        }
    }

    #[test]
    fn the_place_that_is_there_counts_and_the_configured_drivers_first() {
        let mount = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy {
            version: Version::V2,
            mount: mount.path().to_owned(),
            freezer: None,
        };
        let found = |driver: &str| {
            let found = pods_root(&hierarchy, "/custom", driver);
            found.map(|path| path.strip_prefix(mount.path()).unwrap().to_owned())
        };
        let places = ["custom/kubepods", "custom.slice/custom-kubepods.slice"];
        let whole = places.map(|place| mount.path().join(place));
        assert_eq!(found("cgroupfs"), Err(whole.clone()));
        std::fs::create_dir_all(&whole[1]).unwrap();
        assert_eq!(found("cgroupfs").unwrap(), Path::new(places[1]));
        std::fs::create_dir_all(&whole[0]).unwrap();
        assert_eq!(found("cgroupfs").unwrap(), Path::new(places[0]));
        assert_eq!(found("systemd").unwrap(), Path::new(places[1]));
    }
}
