//! What ties together all that is said of one eviction, wherever it is said.

/// Unique on this host until it reboots many times.
pub fn record_id(number: u64) -> String {
    format!("{}-{number}", std::process::id())
}
