//! Device numbers in their two forms.

/// The kernel's own form of a device number (`MKDEV`), which is not the one that `stat` shows.
pub(super) fn kernel_device(st_dev: u64) -> u32 {
    ((nix::sys::stat::major(st_dev) << 20) | nix::sys::stat::minor(st_dev)) as u32
}

/// The way back, to what `stat` shows.
pub(super) fn user_device(device: u32) -> u64 {
    nix::sys::stat::makedev((device >> 20).into(), (device & 0xf_ffff).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_translated_beyond_the_old_eight_bits() {
        for (major, minor) in [(7, 3), (259, 70_000), (0, 41)] {
            let seen = nix::sys::stat::makedev(major, minor);
            let device = kernel_device(seen);
            assert_eq!(u64::from(device), (major << 20) | minor);
            assert_eq!(user_device(device), seen);
        }
    }
}
