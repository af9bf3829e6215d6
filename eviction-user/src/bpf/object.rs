//! The embedded eBPF object.

/// Whether this program was built with its eBPF object (`EVICTION_SKIP_EBPF=1` leaves it out).
pub const BUILT: bool = cfg!(ebpf_built);

/// The object; empty unless [`BUILT`].
pub(super) static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/eviction-ebpf"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_there_exactly_when_it_was_built() {
        assert_eq!(OBJECT.is_empty(), !BUILT);
        assert!(OBJECT.is_empty() || OBJECT.starts_with(b"\x7fELF"));
    }
}
