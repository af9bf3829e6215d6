//! The kernel side's driver.

pub mod object;
