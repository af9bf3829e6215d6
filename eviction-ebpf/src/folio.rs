//! How many pages a folio has (up to 5.15: a page).

use eviction_ebpf::abi::{FolioSize, UNKNOWN, WORST_FOLIO_PAGES};

use crate::{
    globals::{FOLIO_FLAGS, FOLIO_SIZE, FOLIO_SIZE_KIND, HEAD_BIT},
    reading::Reads,
};

/// Pages of a folio; the worst case if it is large and its size cannot be read.
#[inline(always)]
pub(crate) fn pages<R: Reads>(folio: u64) -> u64 {
    let worst = u64::from(WORST_FOLIO_PAGES);
    if FOLIO_FLAGS.load() == UNKNOWN || HEAD_BIT.load() == UNKNOWN {
        return worst;
    }
    // Unreadable flags count as those of a large folio.
    let flags = R::read(folio, FOLIO_FLAGS.load(), u64::MAX);
    if flags & (1 << (HEAD_BIT.load() & 63)) == 0 {
        return 1;
    }
    let kind = FOLIO_SIZE_KIND.load();
    if kind == FolioSize::Unknown as u32 {
        return worst;
    }
    let field = R::read(folio, FOLIO_SIZE.load(), UNKNOWN);
    if field == UNKNOWN {
        return worst;
    }
    if kind == FolioSize::Pages as u32 {
        u64::from(field)
    } else {
        1 << (field & 0xff & 31)
    }
}
