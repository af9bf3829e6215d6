//! Disk space and inodes on one kernel: the kernel side's counts against `statfs`, on every file system and rung that it has.

use anyhow::{Result, bail};
use eviction_tests::oracle::{Fs, make_image};
use eviction_tests::suite::{self, Outcome};
use xtask::setup::Kernel;
use xtask::vm::{self, CgroupVersion, Guest};
use xtask::workspace::Workspace;

/// `/dev/vda` and so on, in this order.
const DISKS: [Fs; 8] = [
    Fs::Ext4,
    Fs::Xfs,
    Fs::Btrfs,
    Fs::Overlay,
    Fs::Ext4,
    Fs::Vfat,
    Fs::Ext4,
    Fs::Overlay,
];

const COMMAND: &str = "eviction-scenario disk-oracle --seed 5 --steps 60 --fs tmpfs \
    --fs ext4=/dev/vda --fs xfs=/dev/vdb --fs btrfs=/dev/vdc --fs overlay=/dev/vdd \
    --fs vfat=/dev/vdf 2>&1 && \
    eviction-scenario disk-oracle --seed 6 --steps 30 --fs ext4=/dev/vde --fs tmpfs \
    --rungs kprobe/ext4_claim_free_clusters,kprobe/shmem_acct_blocks,kprobe/inode_init_owner,kprobe/clear_inode 2>&1 && \
    eviction-scenario disk-oracle --seed 7 --steps 30 --fs ext4=/dev/vdg \
    --rungs fentry/generic_write_checks,fentry/inode_init_owner,fentry/clear_inode 2>&1 && \
    eviction-scenario disk-oracle --seed 8 --steps 30 --fs overlay=/dev/vdh \
    --rungs kprobe/generic_write_checks,kprobe/inode_init_owner,kprobe/clear_inode 2>&1";

/// Lines that say what was compared.
const COMPARED: usize = 10;

pub(crate) fn run(series: &str) -> Result<Outcome> {
    let workspace = Workspace::find()?;
    let folder = tempfile::tempdir()?;
    let command = ["sh", "-c", COMMAND].map(str::to_owned).to_vec();
    let kernel = Kernel::find(&workspace, series)?;
    let mut guest = Guest::new(kernel, CgroupVersion::V2, command);
    let scenario = suite::programs()?.join("eviction-scenario");
    guest.files = vec![(scenario, "/bin/eviction-scenario".to_owned())];
    guest
        .modules
        .extend(["xfs", "btrfs", "overlay", "vfat", "nls_cp437", "nls_ascii"].map(str::to_owned));
    for (number, fs) in DISKS.into_iter().enumerate() {
        let image = folder.path().join(number.to_string());
        make_image(fs, &image)?;
        guest.disks.push(image);
    }
    let finished = vm::run(&workspace, &guest, &mut |_| {})?;
    let compared = finished.output.matches(" by ").count();
    if finished.code != 0 || compared != COMPARED {
        bail!(
            "the guest ended with {}\n{}",
            finished.code,
            finished.output
        );
    }
    Ok(Outcome::Noted(format!(
        "{compared} comparisons, {} s",
        finished.elapsed.as_secs()
    )))
}
