//! What a workload's use of a file system was put together from, so that people can tell how old it is.

use super::time::Timestamp;

/// One file system's share. Decisions are made on the sum alone, which the stats carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DiskUse {
    /// `st_dev` of the file system.
    pub device: u64,
    /// What lay on the disk when somebody went through it.
    pub base: Option<DiskBase>,
    /// What was counted since, as it was used up and given back.
    pub grown_bytes: Option<DiskGrowth>,
    pub grown_inodes: Option<DiskGrowth>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DiskBase {
    pub bytes: u64,
    pub inodes: u64,
    /// When the going through began: later changes may be in it or not.
    pub began: Timestamp,
}

/// Bytes or inodes; negative if more was given back than used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DiskGrowth {
    pub net: i64,
    pub since: Timestamp,
}

impl DiskUse {
    /// `None`: nobody knows.
    pub fn bytes(&self) -> Option<u64> {
        sum(self.base.map(|base| base.bytes), self.grown_bytes)
    }

    /// `None`: nobody knows.
    pub fn inodes(&self) -> Option<u64> {
        sum(self.base.map(|base| base.inodes), self.grown_inodes)
    }
}

fn sum(base: Option<u64>, grown: Option<DiskGrowth>) -> Option<u64> {
    match (base, grown) {
        (None, None) => None,
        (base, grown) => {
            let net = grown.map_or(0, |grown| grown.net);
            Some(base.unwrap_or(0).saturating_add_signed(net))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_and_growth_add_up_and_never_below_nothing() {
        let with = |base: Option<u64>, net: Option<i64>| {
            let since = Timestamp::from_secs(1);
            let part = DiskUse {
                device: 1,
                base: base.map(|inodes| DiskBase {
                    bytes: 0,
                    inodes,
                    began: since,
                }),
                grown_bytes: None,
                grown_inodes: net.map(|net| DiskGrowth { net, since }),
            };
            part.inodes()
        };
        assert_eq!(with(None, None), None);
        assert_eq!(with(Some(10), None), Some(10));
        assert_eq!(with(None, Some(5)), Some(5));
        assert_eq!(with(Some(10), Some(5)), Some(15));
        assert_eq!(with(Some(10), Some(-4)), Some(6));
        assert_eq!(with(Some(10), Some(-11)), Some(0));
        assert_eq!(with(None, Some(-1)), Some(0));
    }
}
