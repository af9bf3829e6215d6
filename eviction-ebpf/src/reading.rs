//! Reading the kernel's structures, in two ways. The helper reads any address and takes its time. Where the verifier knows what a
//! pointer points to (arguments of BTF tracepoints, the current task), a plain load will do: a tenth of the time, which counts
//! at each block and page that anybody takes.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;

/// Members of a structure, as one of the two ways reads them.
pub(crate) trait Reads {
    /// The member at `base + offset`, or `otherwise` if that can be told to have failed.
    fn read<T: Copy + Default>(base: u64, offset: u32, otherwise: T) -> T;
}

/// By the helper, wherever it is.
pub(crate) struct Probed;

impl Reads for Probed {
    #[inline(always)]
    fn read<T: Copy + Default>(base: u64, offset: u32, otherwise: T) -> T {
        let mut value = T::default();
        // SAFETY: the helper checks the address and reports a fault as an error.
        let failed = unsafe {
            bpf_probe_read_kernel(
                (&raw mut value).cast(),
                size_of::<T>() as u32,
                (base + u64::from(offset)) as *const c_void,
            )
        };
        if base == 0 || failed != 0 {
            otherwise
        } else {
            value
        }
    }
}

/// By a load. `base` has to be a pointer whose type the verifier knows, and a member of just that size has to be there: it
/// refuses the program otherwise. A load that faults all the same yields 0.
pub(crate) struct Typed;

impl Reads for Typed {
    #[inline(always)]
    fn read<T: Copy + Default>(base: u64, offset: u32, _otherwise: T) -> T {
        // SAFETY: the verifier lets no other load pass than one of a member, see above.
        unsafe { ((base + u64::from(offset)) as *const T).read_volatile() }
    }
}

/// The word at `base + offset`, or `otherwise`.
#[inline(always)]
pub(crate) fn word(base: u64, offset: u32, otherwise: u64) -> u64 {
    Probed::read(base, offset, otherwise)
}

/// The half word at `base + offset`, or `otherwise`.
#[inline(always)]
pub(crate) fn half(base: u64, offset: u32, otherwise: u32) -> u32 {
    Probed::read(base, offset, otherwise)
}
