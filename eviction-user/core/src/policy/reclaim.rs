//! What can be freed at node level before a pod has to go.

use crate::model::{FsLayout, ReclaimCall, Signal};

use ReclaimCall::{DeadContainers, UnusedImages};

/// The calls for a signal, in order. `None` where the kubelet has no node-level reclaim at all,
/// which acts like an empty list.
pub fn calls(signal: Signal, layout: FsLayout) -> Option<&'static [ReclaimCall]> {
    const BOTH: &[ReclaimCall] = &[DeadContainers, UnusedImages];
    let signal = FsSignal::of(signal)?;
    Some(
        match (layout.dedicated_imagefs, layout.split_containerfs, signal) {
            (true, true, FsSignal::Image) => &[UnusedImages],
            (true, true, FsSignal::Node | FsSignal::Container) => &[DeadContainers],
            (true, false, FsSignal::Node) => &[],
            (true, false, FsSignal::Image | FsSignal::Container) | (false, _, _) => BOTH,
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
