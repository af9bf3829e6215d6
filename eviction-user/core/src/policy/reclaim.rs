//! What can be freed at node level before a pod has to go.

use crate::model::{FsLayout, ReclaimCall, Signal};

/// The calls for a signal, in order. `None` where the kubelet has no node-level reclaim at all,
/// which acts like an empty list.
pub fn calls(signal: Signal, layout: FsLayout) -> Option<&'static [ReclaimCall]> {
    let signal = FsSignal::of(signal)?;
    Some(
        match (layout.dedicated_imagefs, layout.split_containerfs, signal) {
            (true, true, FsSignal::Image) => ReclaimCall::UNUSED_IMAGES,
            (true, true, FsSignal::Node | FsSignal::Container) => ReclaimCall::DEAD_CONTAINERS,
            (true, false, FsSignal::Node) => ReclaimCall::NONE,
            (true, false, FsSignal::Image | FsSignal::Container) | (false, _, _) => {
                ReclaimCall::BOTH
            }
        },
    )
}

/// The file system a signal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FsSignal {
    Node,
    Image,
    Container,
}

impl FsSignal {
    pub(super) const fn of(signal: Signal) -> Option<Self> {
        match signal {
            Signal::NodeFsAvailable | Signal::NodeFsInodesFree => Some(Self::Node),
            Signal::ImageFsAvailable | Signal::ImageFsInodesFree => Some(Self::Image),
            Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree => Some(Self::Container),
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable => {
                None
            }
        }
    }
}
