//! What the engine asks its caller to do, with all reasons as data.

use std::fmt;
use std::sync::Arc;

use super::observation::Observation;
use super::pod::{Pod, Uid};
use super::ranking::Ranking;
use super::signal::{Condition, Resource, Signal};
use super::span::Span;
use super::threshold::Threshold;

/// A text of this program. By this name, because serde's derive takes a plain reference to be borrowed
/// from what it reads.
pub type FixedText = &'static str;

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Action {
    Evict(Box<Eviction>),
    /// Free node-level resources, then answer with `Input::Reclaimed`.
    ReclaimNode {
        signal: Signal,
        #[cfg_attr(
            feature = "serde",
            serde(deserialize_with = "super::static_text::calls")
        )]
        calls: &'static [ReclaimCall],
    },
    NodeEvent(NodeEvent),
    /// The set of reported node conditions changed to this.
    Conditions(Vec<Condition>),
    /// A threshold asks for a victim, and there is none.
    NoCandidate {
        signal: Signal,
        ranking: Box<Ranking>,
    },
    /// An eviction is due but an addition of ours holds it back; nothing is evicted.
    Held(Hold),
    /// The victims are not gone in time; the engine goes on without them.
    CleanupTimedOut(Vec<Uid>),
    /// A hard threshold is met while these victims of a soft one still have their grace: it is over,
    /// kill them now.
    EndGrace(Vec<Uid>),
}

/// Node-level ways to free disk space, before any pod has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ReclaimCall {
    DeadContainers,
    UnusedImages,
}

impl ReclaimCall {
    pub const NONE: &'static [Self] = &[];
    pub const DEAD_CONTAINERS: &'static [Self] = &[Self::DeadContainers];
    pub const UNUSED_IMAGES: &'static [Self] = &[Self::UnusedImages];
    pub const BOTH: &'static [Self] = &[Self::DeadContainers, Self::UnusedImages];
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeEvent {
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "super::static_text::event_reason")
    )]
    pub reason: FixedText,
    pub message: String,
}

/// Why no eviction happens although a threshold is satisfied.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Hold {
    /// The previous eviction is too recent; a next one may happen after this time.
    CoolDown { left: Span },
    /// As many evictions in the last hour as allowed; a next one may happen after this time.
    HourlyCap { cap: u32, left: Span },
    /// Memory is low but the stall is below what the guard requires (or could not be read).
    NoStall { required: f32, stall: Option<f32> },
    /// More removed cgroups still hold memory than the guard allows: it comes back without an eviction.
    DyingCgroups { most: u64, dying: u64 },
    /// The last eviction for this signal freed nothing, and nobody uses up more.
    NotFilling { signal: Signal, available: i64 },
    /// What the last victim held is only just coming back.
    Recovering { signal: Signal, available: i64 },
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Eviction {
    pub pod: Arc<Pod>,
    pub grace: KillGrace,
    pub message: String,
    /// For the pod's event; empty for local storage evictions.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "super::static_text::annotations")
    )]
    pub annotations: Vec<(&'static str, String)>,
    /// Whether the pod gets the `DisruptionTarget` condition.
    pub disruption_condition: bool,
    pub cause: EvictionCause,
}

impl NodeEvent {
    /// The one reason there is.
    pub const THRESHOLD_MET: &'static str = "EvictionThresholdMet";
}

/// The configuration's `evictionMaxPodGracePeriod` has 32 bits. More would only make times run over.
const LONGEST_GRACE_SECS: i64 = i32::MAX as i64;

impl Eviction {
    pub fn uid(&self) -> &Uid {
        &self.pod.uid
    }

    /// How long the victim may take to leave by itself; `None`: it is killed at once. Only a soft
    /// threshold has time to ask.
    pub fn time_to_leave(&self) -> Option<Span> {
        match &self.cause {
            EvictionCause::Pressure { threshold, .. } if !threshold.is_hard() => {
                Some(Span::from_secs(self.grace.0.clamp(1, LONGEST_GRACE_SECS)))
            }
            EvictionCause::Pressure { .. } | EvictionCause::LocalStorage(_) => None,
        }
    }
}

/// Grace period that overrides the pod's own, in seconds as handed to the killer. A killer treats
/// zero and below as one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KillGrace(pub i64);

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum EvictionCause {
    /// A threshold of the node is satisfied.
    Pressure {
        resource: Resource,
        threshold: Threshold,
        /// Absent only if the signal was not measured in this very look.
        observed: Option<Observation>,
        ranking: Box<Ranking>,
    },
    /// The pod broke its own limit.
    LocalStorage(LocalStorageLimit),
}

impl EvictionCause {
    /// The value of the `eviction_signal` label under which the kubelet counts such evictions.
    pub const fn metric_label(&self) -> &'static str {
        match self {
            Self::Pressure { threshold, .. } => threshold.signal.name(),
            Self::LocalStorage(LocalStorageLimit::EmptyDir { .. }) => "emptydirfs.limit",
            Self::LocalStorage(LocalStorageLimit::Pod) => "ephemeralpodfs.limit",
            Self::LocalStorage(LocalStorageLimit::Container { .. }) => "ephemeralcontainerfs.limit",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LocalStorageLimit {
    EmptyDir { volume: String },
    Pod,
    Container { name: String },
}

impl Hold {
    /// Stable name for records and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CoolDown { .. } => "cool-down",
            Self::HourlyCap { .. } => "hourly-cap",
            Self::NoStall { .. } => "no-stall",
            Self::DyingCgroups { .. } => "dying-cgroups",
            Self::NotFilling { .. } => "not-filling",
            Self::Recovering { .. } => "recovering",
        }
    }

    /// How long it lasts; `None` if that depends on what is measured.
    pub const fn left(&self) -> Option<Span> {
        match self {
            Self::CoolDown { left } | Self::HourlyCap { left, .. } => Some(*left),
            Self::NoStall { .. }
            | Self::DyingCgroups { .. }
            | Self::NotFilling { .. }
            | Self::Recovering { .. } => None,
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CoolDown { left } => write!(f, "cool-down after the last eviction, {left} left"),
            Self::HourlyCap { cap, left } => {
                write!(
                    f,
                    "{cap} evictions an hour are allowed, {left} until the next"
                )
            }
            Self::NoStall {
                required,
                stall: Some(stall),
            } => write!(
                f,
                "memory is low, but tasks stalled for it {stall} % of the last 10 s, {required} % are required"
            ),
            Self::NoStall {
                required,
                stall: None,
            } => write!(
                f,
                "memory is low, but the stall is unknown, {required} % are required"
            ),
            Self::DyingCgroups { most, dying } => write!(
                f,
                "{dying} removed cgroups still hold memory, {most} are allowed"
            ),
            Self::NotFilling { signal, available } => write!(
                f,
                "the last eviction for {signal} freed nothing and its {available} do not get less: one more would not help; free some, or see --reclaim and --after-eviction"
            ),
            Self::Recovering { signal, available } => write!(
                f,
                "the last victim is gone only now: {signal} is {available} so far"
            ),
        }
    }
}
