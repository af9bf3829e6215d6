//! What was measured for each signal.

use super::signal::Signal;
use super::time::Timestamp;

/// One signal's measurement. Amounts may be negative: more tasks than allowed, or a working set
/// above the limit that wrapped in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Observation {
    pub available: i64,
    pub capacity: i64,
    /// When the source was read; some sources do not say.
    pub time: Option<Timestamp>,
}

/// The measurements of one look. A signal whose source lacks a field is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Observations([Option<Observation>; Signal::ALL.len()]);

impl Observations {
    pub const fn get(&self, signal: Signal) -> Option<&Observation> {
        self.0[signal.index()].as_ref()
    }

    pub fn set(&mut self, signal: Signal, observation: Observation) {
        self.0[signal.index()] = Some(observation);
    }

    /// Present signals, in the order of [`Signal::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Signal, &Observation)> {
        Signal::ALL
            .into_iter()
            .zip(&self.0)
            .filter_map(|(signal, slot)| Some((signal, slot.as_ref()?)))
    }
}

impl FromIterator<(Signal, Observation)> for Observations {
    fn from_iter<I: IntoIterator<Item = (Signal, Observation)>>(items: I) -> Self {
        let mut observations = Self::default();
        for (signal, observation) in items {
            observations.set(signal, observation);
        }
        observations
    }
}
