//! Disk space and inodes as this kernel's tracepoints tell of them, against `statfs`. The other rungs are shown in guests.

use anyhow::{Result, bail};
use eviction_tests::oracle::{DiskOracle, Fs, Mounted, make_image};
use eviction_tests::suite::{Case, Outcome};
use eviction_user::bpf::{Facts, FactsOptions, Rung};
use eviction_user::sys::filesystem::FileSystem;

pub(crate) fn cases() -> Vec<Case> {
    let case =
        |fs, what: &str, rungs: &'static [Rung]| Case::new(what, move || against_statfs(fs, rungs));
    vec![
        case(
            Fs::Ext4,
            "by tracepoints ext4's bytes and inodes are what statfs says",
            &[Rung::TraceExt4Bytes, Rung::TraceExt4, Rung::TraceFreedExt4],
        ),
        case(
            Fs::Xfs,
            "by tracepoints xfs takes no byte unseen",
            &[Rung::TraceXfsBytes, Rung::TraceXfs],
        ),
        case(
            Fs::Btrfs,
            "by tracepoints btrfs takes no byte unseen, and a chunk of metadata is an event",
            &[
                Rung::TraceBtrfsBytes,
                Rung::TraceBtrfs,
                Rung::TraceFreedBtrfs,
            ],
        ),
        case(
            Fs::Ext4,
            "without any hook of ext4's, no page that is written goes unseen",
            &[Rung::TraceWritten, Rung::TraceExt4, Rung::TraceFreedExt4],
        ),
        Case::new("an xfs full of data is not short of inodes", full_xfs),
    ]
}

/// `statfs` says it is.
fn full_xfs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("image");
    make_image(Fs::Xfs, &image)?;
    let mounted = Mounted::mount(Fs::Xfs, Some(&image), folder.path())?;
    let fs = FileSystem::at(&mounted.work())?;
    let before = fs.read()?;
    let file = std::fs::File::create(mounted.work().join("big"))?;
    let most = i64::try_from(before.available_bytes * 98 / 100)?;
    nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), 0, most)?;
    let (after, told) = (fs.read()?, nix::sys::statvfs::statvfs(&mounted.work())?);
    let percent = |free: u64, all: u64| free * 100 / all.max(1);
    if told.files_free() * 4 > before.inodes_free
        || percent(after.inodes_free, after.inodes) < 90
        || after.inodes - after.inodes_free != before.inodes - before.inodes_free + 1
    {
        bail!(
            "{before:?}, then {after:?}; statfs tells of {} free inodes",
            told.files_free()
        );
    }
    Ok(())
}

fn against_statfs(fs: Fs, rungs: &[Rung]) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("image");
    make_image(fs, &image)?;
    let oracle = DiskOracle {
        fs,
        device: Some(image),
        seed: 11,
        steps: 150,
        rungs: Some(rungs.to_vec()),
    };
    let compared = match oracle.run(&Facts::gather(&FactsOptions::default())) {
        Ok(compared) => compared,
        Err(error) if error.to_string().starts_with("no hook") => {
            return Ok(Outcome::Skipped(error.to_string()));
        }
        Err(error) => return Err(error),
    };
    if !compared.faults.is_empty() {
        bail!(compared.faults.join("\n"));
    }
    Ok(Outcome::Noted(compared.to_string()))
}
