//! What the kernel side and user space of `eviction` must agree on: the wire format ([`abi`]) and the
//! arithmetic of credits ([`credit`]). The programs themselves are this package's binary target.
#![no_std]

pub mod abi;
pub mod credit;
