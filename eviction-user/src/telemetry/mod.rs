//! What people and programs read of us: logs, the records of `eviction run`, and its metrics.

pub mod disk_rows;
pub mod http;
pub mod journal;
pub mod logging;
pub mod metrics;
pub mod record;
