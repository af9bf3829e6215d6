//! Reading the kernel's structures, in two ways. The helper reads any address and takes its time. Where the verifier knows what a
//! pointer points to (arguments of BTF tracepoints, the current task), a plain load will do: a tenth of the time, which counts
//! at each block and page that anybody takes.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;

/// Members of a structure, as one of the two ways reads them.
pub(crate) trait Reads {
    fn word(base: u64, offset: u32, otherwise: u64) -> u64;
    fn half(base: u64, offset: u32, otherwise: u32) -> u32;
    fn byte(base: u64, offset: u32) -> u8;
}

/// By the helper, wherever it is; `otherwise` if it cannot be read.
pub(crate) struct Probed;

impl Reads for Probed {
    #[inline(always)]
    fn word(base: u64, offset: u32, otherwise: u64) -> u64 {
        word(base, offset, otherwise)
    }

    #[inline(always)]
    fn half(base: u64, offset: u32, otherwise: u32) -> u32 {
        half(base, offset, otherwise)
    }

    #[inline(always)]
    fn byte(base: u64, offset: u32) -> u8 {
        let mut value = 0_u8;
        // SAFETY: the helper checks the address; a fault leaves the value as it is.
        unsafe {
            bpf_probe_read_kernel(
                (&raw mut value).cast(),
                1,
                (base + u64::from(offset)) as *const c_void,
            );
        }
        value
    }
}

/// By a load. `base` has to be a pointer whose type the verifier knows, and a member of just that size has to be there: it
/// refuses the program otherwise. A load that faults all the same yields 0.
pub(crate) struct Typed;

impl Reads for Typed {
    #[inline(always)]
    fn word(base: u64, offset: u32, _otherwise: u64) -> u64 {
        // SAFETY: the verifier lets no other load pass than one of a member, see above.
        unsafe { ((base + u64::from(offset)) as *const u64).read_volatile() }
    }

    #[inline(always)]
    fn half(base: u64, offset: u32, _otherwise: u32) -> u32 {
        // SAFETY: as above.
        unsafe { ((base + u64::from(offset)) as *const u32).read_volatile() }
    }

    #[inline(always)]
    fn byte(base: u64, offset: u32) -> u8 {
        // SAFETY: as above.
        unsafe { ((base + u64::from(offset)) as *const u8).read_volatile() }
    }
}

/// The word at `base + offset`, or `otherwise`.
#[inline(always)]
pub(crate) fn word(base: u64, offset: u32, otherwise: u64) -> u64 {
    let mut value = 0_u64;
    // SAFETY: the helper checks the address and reports a fault as an error.
    let failed = unsafe {
        bpf_probe_read_kernel(
            (&raw mut value).cast(),
            size_of::<u64>() as u32,
            (base + u64::from(offset)) as *const c_void,
        )
    };
    if base == 0 || failed != 0 {
        otherwise
    } else {
        value
    }
}

/// The half word at `base + offset`, or `otherwise`.
#[inline(always)]
pub(crate) fn half(base: u64, offset: u32, otherwise: u32) -> u32 {
    let mut value = 0_u32;
    // SAFETY: as above.
    let failed = unsafe {
        bpf_probe_read_kernel(
            (&raw mut value).cast(),
            size_of::<u32>() as u32,
            (base + u64::from(offset)) as *const c_void,
        )
    };
    if base == 0 || failed != 0 {
        otherwise
    } else {
        value
    }
}
