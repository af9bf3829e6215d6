//! How many inodes an xfs may have. Its `statfs` counts the free blocks as inodes that could still be made, so a disk full of
//! data looks like one without inodes; the limit proper is a share of the whole disk.

use std::{fs::File, os::fd::AsRawFd, path::Path};

/// `struct xfs_fsop_geom_v1`, since Linux 2.4; its size is part of the request's number.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
struct Geometry {
    block_size: u32,
    realtime_extent: u32,
    group_blocks: u32,
    groups: u32,
    log_blocks: u32,
    sector_size: u32,
    inode_size: u32,
    /// Of the disk, for inodes at most; 0: no limit but the disk.
    inode_percent: u32,
    data_blocks: u64,
    realtime_blocks: u64,
    realtime_extents: u64,
    log_start: u64,
    uuid: [u8; 16],
    stripe_unit: u32,
    stripe_width: u32,
    version: i32,
    flags: u32,
    log_sector_size: u32,
    realtime_sector_size: u32,
    directory_block_size: u32,
}

nix::ioctl_read!(xfs_geometry, b'X', 100, Geometry);

/// `None` where the file system does not tell.
pub(super) fn most_inodes(path: &Path) -> Option<u64> {
    let file = File::open(path).ok()?;
    let mut geometry = Geometry::default();
    // SAFETY: the descriptor is open, and the structure has the size that the request's number carries.
    unsafe { xfs_geometry(file.as_raw_fd(), &raw mut geometry) }.ok()?;
    limit(&geometry)
}

fn limit(geometry: &Geometry) -> Option<u64> {
    let per_block = u64::from(geometry.block_size).checked_div(geometry.inode_size.into())?;
    let blocks = match geometry.inode_percent {
        0 => geometry.data_blocks,
        percent => geometry.data_blocks / 100 * u64::from(percent),
    };
    (blocks > 0).then_some(blocks * per_block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_share_of_the_disk_in_inodes() {
        let geometry = |inode_percent, data_blocks, inode_size| Geometry {
            block_size: 4096,
            inode_size,
            inode_percent,
            data_blocks,
            ..Geometry::default()
        };
        let table = [
            (geometry(25, 100_000, 512), Some(200_000)),
            (geometry(0, 100_000, 512), Some(800_000)),
            (geometry(5, 1_000_000, 256), Some(800_000)),
            (geometry(25, 100_000, 0), None),
            (Geometry::default(), None),
        ];
        for (geometry, inodes) in table {
            assert_eq!(limit(&geometry), inodes, "{geometry:?}");
        }
    }
}
