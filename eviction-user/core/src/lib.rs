//! The pure core: data model and policy. No I/O, clock, async or logging.
//!
//! `model` is plain data; `policy` turns data into decisions. Both take time, samples and earlier
//! state as arguments, so a decision can be repeated from a recording, byte for byte.

pub mod model;
pub mod policy;
