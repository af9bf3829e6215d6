//! Words that belong to one CPU, changed by plain loads and stores: at each page and block that anybody takes, an addition that
//! is locked waits for all stores before it. Who changes them has a turn; a program that interrupts another's turn is told so
//! and leaves the words alone.

/// Begins a turn; false while another one goes on.
///
/// # Safety
/// Both must be aligned words of this CPU's own, in a map value, and used for nothing else.
#[inline(always)]
pub(crate) unsafe fn begin(opened: *mut u64, closed: *const u64) -> bool {
    // SAFETY: by the caller's promise; the words are read and written whole, in this order.
    unsafe {
        let turn = closed.read_volatile();
        if opened.read_volatile() != turn {
            return false;
        }
        opened.write_volatile(turn.wrapping_add(1));
        // A turn that came and went just before the store has left the same number in both.
        closed.read_volatile() == turn
    }
}

/// Ends the turn.
///
/// # Safety
/// As for [`begin`], which must have returned true.
#[inline(always)]
pub(crate) unsafe fn end(opened: *const u64, closed: *mut u64) {
    // SAFETY: by the caller's promise.
    unsafe { closed.write_volatile(opened.read_volatile()) }
}
