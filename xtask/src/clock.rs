//! The clock of the build tool: it measures how long its own steps take, nothing of the product.

#![expect(
    clippy::disallowed_types,
    reason = "the ban keeps clocks out of the product; a build tool may look at its watch"
)]

use std::time::{Duration, Instant};

/// Started when made; says how long ago that was.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// `850 ms`, `12.3 s`, `4 min 05 s`.
#[must_use]
pub fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..100_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {:02} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_to_read() {
        for (millis, text) in [(850, "850 ms"), (12_340, "12.3 s"), (245_000, "4 min 05 s")] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
}
