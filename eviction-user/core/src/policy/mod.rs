//! Decisions: the kubelet's eviction policy (v1.36), and our additions beside it.
//!
//! Reading order: `cycle` is one pass of the kubelet's control loop and calls everything else;
//! `engine` wraps it for an agent that waits for its victims. Behaviour was recorded from the real
//! code and is checked by the `vectors` suite; where the kubelet iterates a map in random order we
//! take the order of the configuration (`Signal::ALL`, hard before soft), which is one of its
//! outcomes and always the same.

pub mod additions;
pub mod admission;
pub mod conditions;
pub mod containerfs;
pub mod critical;
pub mod cycle;
pub mod distance;
pub mod engine;
mod go_float;
pub mod limit;
pub mod local_storage;
pub mod memcg;
pub mod message;
pub mod observe;
pub mod priority;
pub mod qos;
pub mod rank;
pub mod reclaim;
pub mod requests;
pub mod thresholds;
pub mod usage;

pub use cycle::Settings;
pub use engine::{Engine, EngineConfig, Input};
