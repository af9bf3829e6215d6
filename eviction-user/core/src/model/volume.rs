//! Volumes of a pod, as far as their kind matters to disk accounting.

use super::quantity::Quantity;

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Volume {
    pub name: String,
    pub source: VolumeSource,
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum VolumeSource {
    EmptyDir(EmptyDir),
    HostPath,
    GitRepo,
    ConfigMap,
    /// Secret, downwardAPI, projected, persistent claims and all else that ranking does not count.
    Other,
}

#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EmptyDir {
    pub medium: Medium,
    pub size_limit: Option<Quantity>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Medium {
    #[default]
    Disk,
    Memory,
    HugePages,
}

impl Volume {
    /// Whether the volume lives on the node's own disk and counts against it.
    pub fn is_local(&self) -> bool {
        match &self.source {
            VolumeSource::EmptyDir(dir) => dir.medium == Medium::Disk,
            VolumeSource::HostPath | VolumeSource::GitRepo | VolumeSource::ConfigMap => true,
            VolumeSource::Other => false,
        }
    }
}
