//! User side of `eviction`.

pub mod bpf;
