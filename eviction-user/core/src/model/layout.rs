//! How the node's storage is split over file systems.

/// Two facts about the node, asked once at the start of a kubelet's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FsLayout {
    /// Images live on another file system than the kubelet's root directory.
    pub dedicated_imagefs: bool,
    /// Writable layers live apart from the images.
    pub split_containerfs: bool,
}
