//! `/proc/meminfo`: the lines that count here.

use super::reader::{ReadError, Reader};

/// What is wrong with one that cannot be understood.
pub(super) const LINES: &str =
    "lacks MemTotal, AnonPages, Cached, SwapCached, Buffers or Inactive(file)";

/// In bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Meminfo {
    pub(super) total: u64,
    pub(super) swap_free: u64,
    /// Anonymous and file pages less the inactive file pages, by the node's own counters.
    pub(super) counted: u64,
}

impl Meminfo {
    /// `NR_FILE_PAGES` is shown in three parts (`meminfo_proc_show()`): Cached, SwapCached and Buffers.
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        let file = ["Cached:", "SwapCached:", "Buffers:"];
        let used = ["AnonPages:"].into_iter().chain(file);
        let used = used.map(|key| bytes(content, key)).sum::<Option<u64>>()?;
        Some(Self {
            total: bytes(content, "MemTotal:")?,
            // Without CONFIG_SWAP there is none, and no line for it.
            swap_free: bytes(content, "SwapFree:").unwrap_or(0),
            counted: used.saturating_sub(bytes(content, "Inactive(file):")?),
        })
    }
}

/// The node's own counters alone: read again to see whether a line was crossed while it was being armed.
#[derive(Debug)]
pub struct NodeCounters(Reader);

impl NodeCounters {
    pub fn open() -> Result<Self, ReadError> {
        Reader::open("/proc/meminfo".as_ref()).map(Self)
    }

    /// Bytes of [`super::node_memory::NodeMemory::counted`] now.
    pub fn used(&self) -> Result<u64, ReadError> {
        Ok(self.0.read(LINES, Meminfo::parse)?.counted)
    }
}

/// A line, which is written in KiB.
fn bytes(content: &[u8], key: &str) -> Option<u64> {
    let line = content
        .split(|&b| b == b'\n')
        .find_map(|line| line.strip_prefix(key.as_bytes()))?;
    let number = line.trim_ascii().strip_suffix(b" kB")?;
    std::str::from_utf8(number)
        .ok()?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_kib_and_shows_file_pages_in_three_parts() {
        let lines = "MemTotal: 1000 kB\nBuffers: 1 kB\nCached: 20 kB\nSwapCached: 3 kB\n\
                     Inactive(file): 4 kB\nAnonPages: 500 kB\nSwapFree:  4 kB\n";
        let read = Meminfo::parse(lines.as_bytes());
        let expected = Meminfo {
            total: 1000 * 1024,
            swap_free: 4096,
            counted: (500 + 20 + 3 + 1 - 4) * 1024,
        };
        assert_eq!(read, Some(expected));
        assert_eq!(Meminfo::parse(b"MemTotal: 1000 kB\n"), None);
    }
}
