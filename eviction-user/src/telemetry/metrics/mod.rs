//! Metrics in the OpenMetrics text format, and the answers of health probes. Entries are counted away from the fast thread,
//! [`Counting`]; what the loop says of itself is read when somebody asks, [`Vitals`].

mod families;
mod from_entries;
mod from_vitals;
mod health;
mod pairs;
mod removed;
mod text;
mod vitals;

#[cfg(test)]
mod tests;

pub use from_entries::Counting;
pub use health::{Answer, Check, Health, PATIENCE};
pub use vitals::{Turned, Vitals};

use crate::model::Signal;
use families::Families;
use from_vitals::FromVitals;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// The media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What there is to be asked for.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub health: Arc<Health>,
}

/// Both ends: who asks, and who counts. `watched`: the signals that have a threshold. `checks`: what else has to be so before
/// the program counts as ready.
pub fn metrics(
    vitals: Arc<Vitals>,
    watched: Vec<Signal>,
    checks: Vec<Check>,
) -> (Metrics, Counting) {
    let health = Arc::new(Health::new(vitals, checks));
    let families = Families::new(&watched);
    let mut registry = Registry::with_prefix("eviction");
    families.register(&mut registry);
    registry.register_collector(Box::new(FromVitals {
        health: Arc::clone(&health),
        watched: watched.clone(),
    }));
    let counting = Counting::new(families, Arc::clone(&health), watched);
    (Metrics { registry, health }, counting)
}

impl Metrics {
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
