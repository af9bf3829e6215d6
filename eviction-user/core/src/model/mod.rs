//! Plain data that the policy reads and writes. Nothing here decides anything.

pub mod action;
pub mod annotation;
pub mod disk_use;
pub(crate) mod go_quote;
pub mod layout;
pub mod observation;
pub mod pod;
pub mod qos;
pub mod quantity;
pub mod ranking;
pub mod resources;
pub mod signal;
pub mod snapshot;
pub mod span;
#[cfg(feature = "serde")]
pub(crate) mod static_text;
pub mod stats;
pub mod threshold;
pub mod time;
pub mod volume;
pub mod wishes;

pub use action::{
    Action, Eviction, EvictionCause, Hold, KillGrace, LocalStorageLimit, NodeEvent, ReclaimCall,
};
pub use disk_use::{DiskBase, DiskGrowth, DiskUse};
pub use layout::FsLayout;
pub use observation::{Observation, Observations};
pub use pod::{Container, Pod, Protection, Toleration, Uid};
pub use qos::QosClass;
pub use quantity::Quantity;
pub use ranking::{Candidate, Criterion, Exclusion, Outcome, RankKey, Ranking};
pub use resources::{ResourceList, Resources};
pub use signal::{Condition, Resource, Signal};
pub use snapshot::{ObservedPod, Snapshot};
pub use span::Span;
pub use stats::{
    ContainerStats, FsStats, MemoryStats, PodStats, Rlimit, Summary, SystemContainer, VolumeStats,
};
pub use threshold::{Limit, Operator, Threshold};
pub use time::Timestamp;
pub use volume::{EmptyDir, Medium, Volume, VolumeSource};
pub use wishes::{MalformedWish, Wishes};
