//! A point in time on a clock that the caller chooses.

use super::span::Span;

/// Nanoseconds on a clock the caller chooses: monotonic in the agent, an offset in recorded data.
///
/// All arithmetic saturates, as Go's `time.Time.Sub` does, so no input can overflow a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Time passed since `earlier`; negative if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let last = Timestamp::from_nanos(i64::MAX);
        let first = Timestamp::from_nanos(i64::MIN);
        assert_eq!(last.since(first), Span::from_nanos(i64::MAX));
        assert_eq!(first.since(last), Span::from_nanos(i64::MIN));
        assert_eq!(last.plus(Span::from_nanos(1)), last);
        assert_eq!(Timestamp::from_millis(i64::MAX), last);
    }
}
