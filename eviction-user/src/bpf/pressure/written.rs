//! What the bound on a file system without hooks of its own leaves out, in words for people.

use eviction_ebpf::abi::Rung;

use crate::bpf::{Family, Report};

/// `kind`: the file system's name.
pub(super) fn bound(kind: &str, report: &Report) -> String {
    let pages_only = report.of(Family::WrittenBytes).attached == [Rung::TraceWritten];
    let unseen = if pages_only {
        "direct writes, preallocations and what it takes of its own (directories, extents, large clusters)"
    } else {
        "what it takes of its own (directories, extents, large clusters)"
    };
    format!(
        "{kind} is followed by what is written, not by what it takes: it is looked at on the timer besides, for {unseen}"
    )
}
