//! Kernel modules for a guest: from names to files in load order, with what they depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::GuestError;

/// Helpers that a module asks for by alias at run time, which depmod does not list as dependencies.
/// A kernel that has one built in, or not at all, does not need it.
const SOFT: [(&str, &[&str]); 2] = [
    ("xfs", &["crc32c_generic", "crc32c_intel"]),
    (
        "btrfs",
        &[
            "crc32c_generic",
            "crc32c_intel",
            "xxhash_generic",
            "blake2b_generic",
        ],
    ),
];

/// The dependency table of one kernel.
#[derive(Debug)]
pub(super) struct Modules {
    folder: PathBuf,
    /// name -> (path, paths it needs, the deepest last)
    known: BTreeMap<String, (String, Vec<String>)>,
    builtin: BTreeSet<String>,
}

impl Modules {
    pub(super) fn read(folder: &Path) -> Result<Self, GuestError> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|cause| GuestError::File { path, cause })
        };
        Ok(Self::parse(
            folder,
            &read("modules.dep")?,
            &read("modules.builtin")?,
        ))
    }

    fn parse(folder: &Path, dependencies: &str, builtin: &str) -> Self {
        let known = dependencies
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(path, needs)| {
                (
                    name(path),
                    (
                        path.to_owned(),
                        needs.split_whitespace().map(str::to_owned).collect(),
                    ),
                )
            })
            .collect();
        Self {
            folder: folder.to_owned(),
            known,
            builtin: builtin.lines().map(name).collect(),
        }
    }

    /// Files to load, in this order, so that `wanted` are there afterwards.
    pub(super) fn load_order(&self, wanted: &[String]) -> Result<Vec<PathBuf>, GuestError> {
        let mut order: Vec<&String> = Vec::new();
        for asked in wanted {
            let asked = name(asked);
            let soft = SOFT
                .iter()
                .filter(|(module, _)| *module == asked)
                .flat_map(|(_, helpers)| helpers.iter());
            for helper in soft.filter(|helper| self.known.contains_key(**helper)) {
                self.add(&mut order, helper);
            }
            if self.known.contains_key(&asked) {
                self.add(&mut order, &asked);
            } else if !self.builtin.contains(&asked) {
                return Err(GuestError::NoModule {
                    module: asked,
                    folder: self.folder.clone(),
                });
            }
        }
        Ok(order
            .into_iter()
            .map(|path| self.folder.join(path))
            .collect())
    }

    fn add<'a>(&'a self, order: &mut Vec<&'a String>, module: &str) {
        let Some((path, needs)) = self.known.get(module) else {
            return;
        };
        for path in needs.iter().rev().chain([path]) {
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
}

/// `kernel/fs/xfs/xfs.ko.xz` and `virtio-blk` as the kernel calls them.
fn name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "\
kernel/drivers/block/virtio_blk.ko.xz:
kernel/lib/libcrc32c.ko.xz:
kernel/crypto/crc32c_generic.ko.xz:
kernel/fs/xfs/xfs.ko.xz: kernel/lib/outer.ko.xz kernel/lib/libcrc32c.ko.xz
kernel/lib/outer.ko.xz: kernel/lib/libcrc32c.ko.xz
";

    fn order(wanted: &[&str]) -> Result<Vec<String>, GuestError> {
        let modules = Modules::parse(Path::new("/m"), DEPENDENCIES, "kernel/fs/ext4/ext4.ko\n");
        let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
        Ok(modules
            .load_order(&wanted)?
            .iter()
            .map(|path| name(&path.to_string_lossy()))
            .collect())
    }

    #[test]
    fn what_a_module_needs_comes_before_it_and_only_once() {
        assert_eq!(
            order(&["xfs", "virtio-blk", "libcrc32c"]).unwrap(),
            ["crc32c_generic", "libcrc32c", "outer", "xfs", "virtio_blk"]
        );
    }

    #[test]
    fn what_is_built_in_needs_no_file() {
        assert!(order(&["ext4"]).unwrap().is_empty());
    }

    #[test]
    fn an_unknown_module_is_named() {
        let text = order(&["zfs"]).unwrap_err().to_string();
        assert!(text.contains("zfs") && text.contains("/m"), "{text}");
    }
}
