//! What the container runtime removes before a pod has to go.

use super::Failure;
use super::runtime_args::{Runtime, RuntimeArgs, sockets};
use crate::config::PodsLayout;
use crate::cri::{Inventory, RuntimeReclaim, take_stock};
use crate::host::FileSystems;
use crate::kube::Cluster;
use crate::ports::NodeReclaim;
use std::time::Duration;

/// Whom it asks, and what it spares.
#[derive(Debug)]
pub(super) struct Reclaim {
    containers: Runtime,
    /// Where they are elsewhere.
    images: Option<Runtime>,
    minimum_age: Duration,
}

impl Reclaim {
    /// `node`: whose kubelet the runtime works for.
    pub(super) fn of(args: &RuntimeArgs, layout: &PodsLayout, node: Option<&str>) -> Self {
        let (containers, images) = args.services(layout, node);
        let minimum_age = layout.image_min_age.value.as_nanos();
        Self {
            containers,
            images,
            minimum_age: u64::try_from(minimum_age).map_or(Duration::ZERO, Duration::from_nanos),
        }
    }

    pub(super) fn start(
        self,
        disks: &FileSystems,
        cluster: &Cluster,
    ) -> Result<Box<dyn NodeReclaim>, Failure> {
        let Self {
            containers,
            images,
            minimum_age,
        } = self;
        tracing::info!(
            "before a pod goes for a disk, {containers} is asked to remove dead containers, then unused images that have been there for {} s (leave that to the kubelet: --reclaim off)",
            minimum_age.as_secs()
        );
        let reclaim = RuntimeReclaim {
            sockets: Box::new(move || sockets(&containers, images.as_ref())),
            fate: Box::new(cluster.fates()),
            minimum_age,
            disks: [&disks.nodefs, &disks.imagefs, &disks.containerfs]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
        };
        reclaim.start().map_err(|e| Failure::runtime(&e))
    }
}

/// Whether it could be asked to remove something, for `doctor`.
pub(super) fn examine(
    args: &RuntimeArgs,
    layout: &PodsLayout,
    node: Option<&str>,
) -> Result<String, String> {
    let (containers, images) = args.services(layout, node);
    let stock = sockets(&containers, images.as_ref()).and_then(|held| take_stock(&held));
    match stock {
        Ok(Inventory { containers, images }) => Ok(format!(
            "it can be asked to remove dead ones of its {containers} containers and unused ones of its {images} images before a pod goes for a disk (--reclaim runtime)"
        )),
        Err(error) => Err(format!("{containers} cannot be asked: {error}")),
    }
}
