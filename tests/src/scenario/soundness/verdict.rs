//! Was a crossing seen in time? From what the oracle read and the looks that the evictor told of.

use super::oracle::Sample;

/// One look of the evictor.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) began_ns: u64,
    /// Bytes left as it found them.
    pub(super) left: i64,
    /// The hook, or a timer.
    pub(super) source: String,
}

impl Seen {
    /// Not by an event: the heartbeat or the monitoring interval.
    pub(super) fn is_timed(&self) -> bool {
        matches!(self.source.as_str(), "timer" | "interval" | "start")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The line has not been crossed yet, or nobody can tell.
    Open,
    Noticed {
        /// How far past the line the figure was when the look began, at most.
        excess: u64,
        source: String,
        timed: bool,
    },
    /// The figure was that far past the line, and no look had begun.
    Late { excess: u64 },
}

/// Judges one approach to `line`: `samples` and `looks` since it began, in the order of time.
pub(super) fn judge(line: u64, allowed: u64, samples: &[Sample], looks: &[Seen]) -> Verdict {
    let over = samples.iter().find(|sample| sample.used >= line);
    let seen = looks
        .iter()
        .find(|look| look.left <= 0 || over.is_some_and(|over| look.began_ns >= over.began_ns));
    let past = |until: u64| {
        let before = samples.iter().filter(|sample| sample.began_ns <= until);
        before
            .map(|sample| sample.used.saturating_sub(line))
            .max()
            .unwrap_or(0)
    };
    match seen {
        Some(look) => {
            let excess = past(look.began_ns);
            if excess > allowed {
                return Verdict::Late { excess };
            }
            Verdict::Noticed {
                excess,
                source: look.source.clone(),
                timed: look.is_timed(),
            }
        }
        None => match past(u64::MAX) {
            excess if excess > allowed => Verdict::Late { excess },
            _ => Verdict::Open,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 1000;

    fn sample(at: u64, used: u64) -> Sample {
        Sample { began_ns: at, used }
    }

    fn look(at: u64, left: i64, source: &str) -> Seen {
        Seen {
            began_ns: at,
            left,
            source: source.to_owned(),
        }
    }

    #[test]
    fn a_look_after_the_crossing_notices_it_with_what_was_past_the_line_by_then() {
        let samples = [
            sample(1, 990),
            sample(2, 1010),
            sample(4, 1030),
            sample(6, 1090),
        ];
        let looks = [look(1, 10, "fentry"), look(5, -30, "fentry")];
        let noticed = Verdict::Noticed {
            excess: 30,
            source: "fentry".into(),
            timed: false,
        };
        assert_eq!(judge(LINE, 50, &samples, &looks), noticed);
        assert_eq!(
            judge(LINE, 20, &samples, &looks),
            Verdict::Late { excess: 30 }
        );
    }

    #[test]
    fn a_look_before_the_crossing_that_found_room_notices_nothing() {
        let samples = [sample(1, 990), sample(3, 1010)];
        let looks = [look(1, 10, "fentry")];
        assert_eq!(judge(LINE, 50, &samples, &looks), Verdict::Open);
        assert_eq!(
            judge(LINE, 5, &samples, &looks),
            Verdict::Late { excess: 10 }
        );
    }

    #[test]
    fn a_crossing_that_was_over_before_its_look_read_anything_is_noticed() {
        let samples = [sample(1, 990), sample(3, 1010), sample(4, 900)];
        let looks = [look(3, 90, "timer")];
        let noticed = Verdict::Noticed {
            excess: 10,
            source: "timer".into(),
            timed: true,
        };
        assert_eq!(judge(LINE, 50, &samples, &looks), noticed);
    }
}
