//! What the kubelet accepts without a word, but is surely meant otherwise.

use super::origin::Origin;
use crate::model::Span;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub origin: Origin,
    /// The setting; empty where the origin says it all.
    pub key: String,
    pub kind: WarningKind,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WarningKind {
    #[error(
        "sets only a part, so these defaults are off: {}; add them, or set mergeDefaultEvictionSettings: true",
        listed(.0)
    )]
    DroppedDefaults(Vec<(&'static str, &'static str)>),
    #[error(
        "the soft limit {soft} is at or below the hard limit {hard}: the hard one always comes first"
    )]
    SoftNotAboveHard { soft: String, hard: String },
    #[error("there is no soft threshold for it in evictionSoft: it has no effect")]
    IdleGrace,
    #[error("there is no threshold for it: it has no effect")]
    IdleMinReclaim,
    #[error("{0} switches this threshold off; leave the entry out if that is meant")]
    SwitchedOff(String),
    #[error("{0} is never met; leave the entry out if that is meant")]
    NeverMet(String),
    #[error("{0} is met whenever anything at all is used")]
    AlwaysMet(String),
    #[error(
        "limit and minimum reclaim are 100 % or more together: once met, evictions go on until nobody is left"
    )]
    EndlessReclaim,
    #[error("a grace period of 0 makes the soft threshold a hard one: pods are killed at once")]
    ZeroGrace,
    #[error(
        "{0} hides every node condition: pods are evicted, and the scheduler goes on sending new ones"
    )]
    HidesConditions(Span),
    #[error("0 in a kubelet's file means its default, 5m0s; only the flag can say 0")]
    ZeroMeansDefault,
    /// The help of the kubelet's flag says otherwise.
    #[error(
        "{0} does not leave the pods their own grace: a soft threshold then kills within a second, as 0 does"
    )]
    NegativeMaxGrace(i32),
    #[error(
        "has no effect: containerfs thresholds always follow nodefs or imagefs, whichever holds the writable layers"
    )]
    ContainerFsOverwritten,
    #[error(
        "is a signal, not a setting, and is ignored here; indent it below evictionHard or evictionSoft"
    )]
    SignalAtTopLevel,
    #[error("only a file of kind {own} can set this: ignored here", own = super::format::OWN_KIND)]
    OnlyInOwnKind,
    #[error("is not known and ignored; did you mean {0}?")]
    AlmostKnown(&'static str),
    #[error("is not read: drop-ins end in .yaml, .yml or .conf")]
    OtherEnding,
    #[error(
        "has no effect in host mode, where nothing has namespaces, labels or annotations: use --workload NAME:protect"
    )]
    PodsOnly,
    #[error(
        "left to the kubelet: eviction acts on hard thresholds of memory and PIDs here, and of disks only where it has one of its own"
    )]
    LeftToTheKubelet,
    #[error(
        "the kubelet acts on this line, too, and two evictors at one line may take two pods: give one by --eviction-hard that is 100Mi above the kubelet's"
    )]
    SharedWithTheKubelet,
    #[error("needs {0}, a path on the file system to watch: ignored")]
    NeedsPath(&'static str),
}

fn listed(defaults: &[(&str, &str)]) -> String {
    let texts: Vec<_> = defaults
        .iter()
        .map(|(signal, limit)| format!("{signal}<{limit}"))
        .collect();
    texts.join(", ")
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}: {}", self.origin, self.kind)
        } else {
            write!(f, "{}: {}: {}", self.origin, self.key, self.kind)
        }
    }
}
