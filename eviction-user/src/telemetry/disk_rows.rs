//! How a workload's disk figure came about, and how old its parts are, for reports and records.

use crate::model::{DiskUse, Resource, Timestamp};
use bytesize::ByteSize;
use serde::Serialize;

const NANOS: i64 = 1_000_000_000;

/// On one file system. `None`: not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiskRow {
    /// `st_dev`
    pub device: u64,
    /// Found by the last scan of the workload's directory.
    pub scanned_bytes: Option<u64>,
    pub scanned_inodes: Option<u64>,
    /// Since that scan began.
    pub scan_age_s: Option<i64>,
    /// Used up and not given back since, as the kernel counted.
    pub grown_bytes: Option<i64>,
    pub grown_inodes: Option<i64>,
    /// How long it has been counting.
    pub growth_age_s: Option<i64>,
}

impl DiskRow {
    pub fn of(disk: &[DiskUse], now: Timestamp) -> Vec<Self> {
        let age = |at: Timestamp| now.since(at).as_nanos() / NANOS;
        let row = |found: &DiskUse| {
            let growth = [found.grown_bytes, found.grown_inodes];
            Self {
                device: found.device,
                scanned_bytes: found.base.map(|base| base.bytes),
                scanned_inodes: found.base.map(|base| base.inodes),
                scan_age_s: found.base.map(|base| age(base.began)),
                grown_bytes: found.grown_bytes.map(|grown| grown.net),
                grown_inodes: found.grown_inodes.map(|grown| grown.net),
                growth_age_s: growth.iter().flatten().map(|grown| age(grown.since)).max(),
            }
        };
        disk.iter().map(row).collect()
    }

    /// The parts of one resource in words; `None`: nothing is known.
    pub fn text(&self, resource: Resource) -> Option<String> {
        let (scanned, grown) = match resource {
            Resource::Inodes => (self.scanned_inodes, self.grown_inodes),
            Resource::EphemeralStorage => (self.scanned_bytes, self.grown_bytes),
            Resource::Memory | Resource::Pids => return None,
        };
        let amount = |amount: u64| match resource {
            Resource::Inodes => format!("{amount} inodes"),
            _ => ByteSize::b(amount).to_string(),
        };
        let scanned = scanned
            .zip(self.scan_age_s)
            .map(|(found, age)| format!("{} scanned {age} s ago", amount(found)));
        let grown = grown.zip(self.growth_age_s).map(|(net, age)| {
            let sign = if net < 0 { '-' } else { '+' };
            format!("{sign}{} counted in {age} s", amount(net.unsigned_abs()))
        });
        let parts: Vec<_> = scanned.into_iter().chain(grown).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DiskBase, DiskGrowth};

    #[test]
    fn each_part_is_told_with_its_age_and_what_nobody_knows_is_left_out() {
        let base = DiskBase {
            bytes: 65 << 20,
            inodes: 12,
            began: Timestamp::from_secs(70),
        };
        let grown = |net| {
            let since = Timestamp::from_secs(90);
            Some(DiskGrowth { net, since })
        };
        let text = |base, bytes, inodes, resource| {
            let found = DiskUse {
                device: 8,
                base,
                grown_bytes: bytes,
                grown_inodes: inodes,
            };
            DiskRow::of(&[found], Timestamp::from_secs(100))[0].text(resource)
        };
        use Resource::{EphemeralStorage, Inodes, Memory};
        let both = text(Some(base), grown(2 << 20), None, EphemeralStorage);
        assert_eq!(
            both.as_deref(),
            Some("65.0 MiB scanned 30 s ago, +2.0 MiB counted in 10 s")
        );
        let scan = text(Some(base), None, None, Inodes);
        assert_eq!(scan.as_deref(), Some("12 inodes scanned 30 s ago"));
        let growth = text(None, None, grown(-3), Inodes);
        assert_eq!(growth.as_deref(), Some("-3 inodes counted in 10 s"));
        assert_eq!(text(None, None, None, Inodes), None);
        assert_eq!(text(Some(base), None, None, Memory), None);
    }
}
