//! Harness of the test suites.
