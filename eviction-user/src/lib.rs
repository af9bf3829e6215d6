//! User side of `eviction`.
