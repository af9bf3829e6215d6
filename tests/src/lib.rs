//! Harness of the test suites.

pub mod exposition;
pub mod http;
pub mod load;
pub mod oracle;
pub mod scenario;
pub mod suite;
