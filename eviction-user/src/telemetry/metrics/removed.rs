//! What the container runtime has removed so that no pod has to go.

use crate::ports::Removed;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct What {
    what: &'static str,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RemovedCounts {
    things: Family<What, Counter>,
    image_bytes: Counter,
}

impl RemovedCounts {
    /// Also with nothing: a series that appears only with its first count has no rate there.
    pub(super) fn add(&self, removed: Removed) {
        for (what, count) in [
            ("containers", removed.containers),
            ("sandboxes", removed.sandboxes),
            ("images", removed.images),
        ] {
            self.things.get_or_create(&What { what }).inc_by(count);
        }
        self.image_bytes.inc_by(removed.image_bytes);
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "reclaim_removed",
            "What the container runtime has removed before a pod had to go",
            self.things.clone(),
        );
        registry.register_with_unit(
            "reclaim_removed_image",
            "Size of the removed images by the runtime's word; what they shared with others did not come free",
            Unit::Bytes,
            self.image_bytes.clone(),
        );
    }
}
