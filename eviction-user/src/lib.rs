//! User side of `eviction`. From a kernel event to a killed workload:
//!
//! 1. an [`eviction_ebpf`] hook spends the credit and crosses, 2. ring buffer ([`bpf`]), 3. loop
//!    ([`agent`]), 4. fresh look ([`sys`], [`host`]), 5. policy ([`policy`]), 6. decision, 7. executor
//!    ([`host`]), 8. the outcome goes back to the engine.
//!
//! Imports go downwards only: `model` < `policy`, `ports` < `sys` < `host`, `bpf` < `record`, `telemetry` <
//! `agent` < `bench`, `config` < `cli` (checked by `cargo xtask check`).

pub mod agent;
pub mod bench;
pub mod bpf;
pub mod cli;
pub mod config;
pub mod cri;
pub mod host;
pub mod kube;
pub mod ports;
pub mod record;
pub mod sys;
pub mod telemetry;

pub use eviction_core::{model, policy};
