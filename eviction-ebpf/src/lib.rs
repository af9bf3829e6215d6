//! Kernel side of `eviction`: the ABI shared with user space and the arithmetic of credits.
#![no_std]
