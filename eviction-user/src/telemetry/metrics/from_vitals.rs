//! What is read from the loop's vitals when somebody asks.

use super::Health;
use super::pairs::pairs_in_use;
use crate::model::Signal;
use crate::sys::clock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug)]
pub(super) struct FromVitals {
    pub(super) health: Arc<Health>,
    pub(super) watched: Vec<Signal>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Line {
    signal: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pair {
    rung: &'static str,
    signal: &'static str,
}

impl Collector for FromVitals {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let vitals = &self.health.vitals;
        self.events(&mut encoder)?;
        let help = "Left to the nearest line when the loop last looked: bytes, inodes or tasks; negative past it.";
        let mut left = encoder.encode_descriptor("left", help, None, MetricType::Gauge)?;
        for (signal, amount) in vitals.left() {
            let signal = signal.name();
            ConstGauge::new(amount).encode(left.encode_family(&Line { signal })?)?;
        }
        let counts = [
            (
                "victims_leaving",
                "Victims on their way out.",
                vitals.leaving(),
            ),
            (
                "workloads",
                "Workloads that were found for the last decision: pods, or child cgroups.",
                vitals.workloads(),
            ),
            (
                "workloads_unmapped",
                "Those of them that belong to no pod that the API has told of, and are never evicted.",
                vitals.unmapped(),
            ),
            (
                "annotations_malformed",
                "Those of them whose annotations are honoured and malformed, so that they count as not there.",
                vitals.malformed(),
            ),
        ];
        for (name, help, count) in counts {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(count).encode(gauge)?;
        }
        let counts = [
            (
                "looks",
                "Looks at the node, for whatever reason.",
                vitals.looks(),
            ),
            (
                "looks_failed",
                "Looks that could not read everything, or whose figures nothing could be decided on.",
                vitals.looks_failed(),
            ),
            (
                "pods_refused",
                "Pods that were turned away while a node condition held.",
                vitals.refused(),
            ),
        ];
        for (name, help, count) in counts {
            let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count).encode(counter)?;
        }
        let Some(last) = vitals.last_turn() else {
            return Ok(());
        };
        let last = SystemTime::now() - clock::elapsed_since(last);
        let seconds = last.duration_since(UNIX_EPOCH).unwrap_or_default();
        let help = "When the loop last turned, in Unix time.";
        let name = "last_turn_timestamp_seconds";
        let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(seconds.as_secs_f64()).encode(gauge)
    }
}

impl FromVitals {
    /// Also of those pairs that could come and have not yet.
    fn events(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let in_use = self.health.started().into_iter();
        let in_use = in_use.flat_map(|how| pairs_in_use(how, &self.watched));
        let mut events: BTreeMap<_, _> = in_use.map(|pair| (pair, 0)).collect();
        events.extend(
            (self.health.vitals.events()).map(|(rung, signal, count)| ((rung, signal), count)),
        );
        let help = "Events received; most find room left when the loop has looked.";
        let mut counter = encoder.encode_descriptor("events", help, None, MetricType::Counter)?;
        for ((rung, signal), count) in events {
            let signal = signal.name();
            let pair = Pair { rung, signal };
            ConstCounter::new(count).encode(counter.encode_family(&pair)?)?;
        }
        Ok(())
    }
}
