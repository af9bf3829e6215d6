//! The ranking as data: every candidate, every key, and why each one lost or was left out.

use std::fmt;
use std::sync::Arc;

use super::disk_use::DiskUse;
use super::pod::{Pod, Protection};
use super::signal::Resource;

/// All active pods in the order in which they would be evicted.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ranking {
    pub resource: Resource,
    pub candidates: Vec<Candidate>,
}

impl Ranking {
    pub fn victim(&self) -> Option<&Candidate> {
        self.candidates
            .iter()
            .find(|candidate| candidate.outcome == Outcome::Chosen)
    }
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Candidate {
    pub pod: Arc<Pod>,
    /// Position in the snapshot; the last tie breaker.
    pub input: usize,
    pub key: RankKey,
    pub outcome: Outcome,
    /// Where the figures of a disk ranking come from, as the stats say it.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Vec::is_empty")
    )]
    pub disk: Vec<DiskUse>,
}

/// What a candidate is ranked by; see `policy::rank` for the order of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RankKey {
    pub has_stats: bool,
    pub exceeds_request: bool,
    /// Asks to go before others, and that is honoured.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "std::ops::Not::not")
    )]
    pub is_preferred: bool,
    pub priority: i32,
    /// Bytes, inodes or processes.
    pub usage: i128,
    /// In billionths of a unit, because requests may be fractions; zero for PIDs. For inodes this
    /// is still the request in *bytes*: the kubelet subtracts it all the same.
    pub request_nanos: i128,
}

impl RankKey {
    /// Usage minus request, in billionths of a unit.
    pub const fn over_request_nanos(&self) -> i128 {
        self.usage
            .saturating_mul(1_000_000_000)
            .saturating_sub(self.request_nanos)
    }
}

/// One key of the ranking, for telling which one decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Criterion {
    MissingStats,
    ExceedsRequest,
    /// An addition; nobody is preferred in the kubelet's policy.
    Preferred,
    Priority,
    OverRequest,
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    Chosen,
    Excluded(Exclusion),
    /// The first key in which the victim came before this candidate.
    Outranked(Criterion),
    /// Equal to the victim in every key; the order of the snapshot decided.
    Tie,
    /// Nobody was chosen.
    NoVictim,
}

/// Why a candidate may not be evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Exclusion {
    /// Static, mirror or critical priority: refused by the kubelet itself.
    Critical,
    Protected(Protection),
    /// An earlier kill of it failed.
    BackedOff,
    /// Whoever has to be asked for it has refused its end.
    Refused,
    /// Below the configured minimum size.
    TooSmall,
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Critical => {
                f.write_str("critical: static, mirror or priority of 2000000000 and above")
            }
            Self::Protected(protection) => protection.fmt(f),
            Self::BackedOff => f.write_str("an earlier kill failed, backing off"),
            Self::Refused => f.write_str("its end was refused, to be asked for again later"),
            Self::TooSmall => f.write_str("uses less than the minimum victim size"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen => f.write_str("chosen"),
            Self::Excluded(exclusion) => exclusion.fmt(f),
            Self::Outranked(Criterion::MissingStats) => {
                f.write_str("has statistics, the victim has none")
            }
            Self::Outranked(Criterion::ExceedsRequest) => {
                f.write_str("within its request, the victim exceeds its own")
            }
            Self::Outranked(Criterion::Preferred) => {
                f.write_str("does not ask to go first, as the victim does")
            }
            Self::Outranked(Criterion::Priority) => f.write_str("has a higher priority"),
            Self::Outranked(Criterion::OverRequest) => f.write_str("uses less above its request"),
            Self::Tie => f.write_str("equal to the victim, listed later"),
            Self::NoVictim => f.write_str("nobody was chosen"),
        }
    }
}
