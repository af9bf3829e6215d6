//! What people and programs read of us: logs, and the records of `eviction run`.

pub mod disk_rows;
pub mod journal;
pub mod logging;
pub mod record;
