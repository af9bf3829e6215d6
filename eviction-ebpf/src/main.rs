//! The programs. Off the BPF target this is an empty `main`, so that host tools can build the whole workspace.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

#[cfg(target_arch = "bpf")]
mod collected;
#[cfg(target_arch = "bpf")]
mod filesystem;
#[cfg(target_arch = "bpf")]
mod folio;
#[cfg(target_arch = "bpf")]
mod globals;
#[cfg(target_arch = "bpf")]
mod growth;
#[cfg(target_arch = "bpf")]
mod hierarchy;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod node;
#[cfg(target_arch = "bpf")]
mod observed;
#[cfg(target_arch = "bpf")]
mod programs;
#[cfg(target_arch = "bpf")]
mod reading;
#[cfg(target_arch = "bpf")]
mod spend;
#[cfg(target_arch = "bpf")]
mod turns;

/// Helpers such as `bpf_probe_read_kernel` and the ring buffer are open to GPL-compatible programs only.
#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier refuses every program from which this could be reached.
    loop {}
}

#[cfg(not(target_arch = "bpf"))]
fn main() {}
