//! Whole files through the whole path.

mod additions;
mod errors;
mod host_mode;
mod kubelet;
mod layers;
mod round_trip;
mod warnings;

use super::{Effective, EvictionFlags};
use std::path::PathBuf;
use tempfile::TempDir;

pub(super) const OWN: &str = "apiVersion: eviction.dev/v1alpha1\nkind: EvictionConfiguration\n";
pub(super) const KUBELET: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// A folder with `f.yaml` and its drop-ins, given as name and content.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn with(main: &str, drop_ins: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::write(folder.file(), main).unwrap();
        let directory = folder.0.path().join("f.yaml.d");
        for (name, content) in drop_ins {
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join(name), content).unwrap();
        }
        folder
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.path().join("f.yaml")
    }

    pub(super) fn load(&self, flags: &EvictionFlags) -> Result<Effective, String> {
        Effective::load(Some(&self.file()), flags).map_err(|e| self.short(&e.to_string()))
    }

    /// Without the folder's own path.
    pub(super) fn short(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }

    pub(super) fn warnings(&self, flags: &EvictionFlags) -> Vec<String> {
        let warnings = self.load(flags).unwrap().warnings;
        warnings
            .iter()
            .map(|w| self.short(&w.to_string()))
            .collect()
    }

    /// Where the row of `key` comes from, and its value.
    pub(super) fn row(&self, key: &str, flags: &EvictionFlags) -> (String, String) {
        let rows = self.load(flags).unwrap().rows();
        let row = rows.iter().find(|row| row.key == key);
        let row = row.unwrap_or_else(|| panic!("no {key} in {rows:#?}"));
        (row.value.clone(), self.short(&row.source))
    }
}

pub(super) fn flags(change: impl FnOnce(&mut EvictionFlags)) -> EvictionFlags {
    let mut flags = EvictionFlags::default();
    change(&mut flags);
    flags
}
