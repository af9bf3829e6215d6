//! What people and programs read of us: logs, and the records of `eviction run`.

pub mod journal;
pub mod logging;
pub mod record;
